#!/usr/bin/env bash
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Make .venv in the checkout from the hashed lists. Any python3 fetches uv; uv finds a Python 3.12 or newer, or
# fetches one.
set -euo pipefail
cd "$(dirname "$0")/.."

stop() {
    echo "make env: $1" >&2
    exit 1
}

python3 -c 'import ensurepip, venv' 2>/dev/null || stop "python3 with venv is missing: apt-get install python3-venv"
bootstrap=$(mktemp -d)
trap 'rm -rf "$bootstrap"' EXIT
python3 -m venv "$bootstrap"
"$bootstrap/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt ||
    stop "uv could not be downloaded: is the package index reachable?"
new_venv() {
    "$bootstrap/bin/uv" venv --quiet --no-project --clear "$@" .venv
}
new_venv --no-python-downloads --python '>=3.12' 2>/dev/null || new_venv --python "$(<.python-version)" ||
    stop "Python 3.12 or newer is neither here nor to be downloaded; Debian 13 and Ubuntu 24.04 have it"
"$bootstrap/bin/uv" pip sync --quiet --python .venv/bin/python --require-hashes requirements/dev.txt ||
    stop "requirements/dev.txt could not be installed"
touch .venv/made
