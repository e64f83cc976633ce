#!/usr/bin/env bash
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# ansible-test sanity on the artefact that users get. It is unpacked outside any git tree: inside one, ansible-test
# asks git for the files, is told of none, skips every test and exits 0.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
collection=$scratch/ansible_collections/tandem/spark
mkdir -p "$collection"
ansible-galaxy collection build --output-path "$scratch" >"$scratch/build.log" || { cat "$scratch/build.log"; exit 1; }
tar xzf "$scratch"/tandem-spark-*.tar.gz -C "$collection"

# ansible-test downloads a get-pip.py from a host of its own; Python's own ensurepip does the same from what is here.
version=$(python -c '
from types import SimpleNamespace
from ansible_test._internal.python_requirements import get_venv_packages
print(get_venv_packages(SimpleNamespace(version=""))["pip"].replace(".", "_"))')
get_pip=~/.ansible/test/cache/get_pip_$version.py
if [[ ! -e $get_pip ]]; then
    mkdir -p "$(dirname "$get_pip")"
    printf 'import ensurepip\nensurepip.bootstrap()\n' >"$get_pip"
fi

cd "$collection"
python=$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ansible-test sanity --color no --python "$python" "$@" 2>&1 | tee "$scratch/sanity.log"
if grep -q 'All targets skipped' "$scratch/sanity.log"; then
    echo "sanity: ansible-test saw no file, so nothing was tested" >&2
    exit 1
fi
