# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that is installed is pinned by hash, and no list says from where it was taken."""

from __future__ import annotations

import hashlib
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LISTS = sorted(
    path
    for where in ("requirements/*", "roles/*/files/*", "molecule/*/lab-*")
    for path in ROOT.glob(f"{where}.txt")
)

ENTRY = re.compile(r"[a-z0-9-]+==[A-Za-z0-9.!+-]+( ; [^\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)")


def problems(text: str) -> list[str]:
    """Return the entries of a list that are not one exact pin with its hashes, or that name a place."""
    entries = re.split(r"\n(?!    --hash)", text.rstrip("\n"))
    return [entry.split("\n")[0] for entry in entries if not ENTRY.fullmatch(entry)]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_list(path: Path) -> None:
    assert problems(path.read_text()) == []


HASHED = " \\\n    --hash=sha256:" + "0" * 64


@pytest.mark.parametrize(
    "text",
    [
        "netaddr==1.3.0",
        "netaddr>=1.3.0" + HASHED,
        "netaddr" + HASHED,
        "--index-url https://example.org/simple",
        "netaddr @ https://example.org/netaddr.whl" + HASHED,
        "netaddr==1.3.0" + HASHED + "\n    # from https://example.org",
        "netaddr==1.3.0 \\\n    --hash=md5:" + "0" * 32,
    ],
)
def test_a_bad_list_is_seen(text: str) -> None:
    assert problems("jmespath==1.1.0" + HASHED + "\n") == []
    assert len(problems("jmespath==1.1.0" + HASHED + "\n" + text + "\n")) == 1


def test_each_list_has_its_source() -> None:
    assert {path.stem for path in LISTS} == {path.stem for path in ROOT.glob("requirements/*.in")}


def test_no_lock_that_records_addresses() -> None:
    assert not list(ROOT.glob("uv.lock")) and not list(ROOT.glob("pylock*.toml"))


def test_the_alias_is_what_the_rehearsal_locks(tmp_path: Path) -> None:
    alias = runpy.run_path(str(ROOT / "roles/runtime/files/vllm_alias.py"))
    digest = hashlib.sha256(alias["write_wheel"](tmp_path).read_bytes()).hexdigest()
    lock = (ROOT / "roles/runtime/files/rehearsal.txt").read_text()
    assert f"\nvllm=={alias['VERSION']} \\\n    --hash=sha256:{digest}\n" in lock
    assert f"\n{alias['STANDS_FOR']} " in lock
