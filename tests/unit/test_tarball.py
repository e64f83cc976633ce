# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only what users need is in the artefact: ansible-galaxy packs private inventories too, unless told."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ALLOWED = re.compile(
    r"""
    (MANIFEST|FILES)\.json
  | README\.md | LICENSE | CHANGELOG\.rst
  | meta/runtime\.yml
  | changelogs/(config|changelog)\.yaml
  | docs/[a-z0-9_-]+\.md
  | inventory\.example/.+\.yml
  | examples/(README\.md|[a-z0-9-]+/(hosts|group_vars/tandem)\.yml)
  | CONTRIBUTING\.md
  | playbooks/[a-z_]+\.yml
  | plugins/(action|callback|doc_fragments|filter|module_utils|modules|plugin_utils)/[a-z0-9_]+\.(py|yml)
  | roles/[a-z]+/README\.md
  | roles/[a-z]+/(defaults|handlers|meta|tasks|vars)/[a-z0-9_]+\.yml
  | roles/[a-z]+/templates/[A-Za-z0-9_.@/-]+\.j2
  | roles/profile/files/(profile_schema\.yml|(bases|profiles)/[a-z0-9-]+\.yml|flags/vllm-[0-9.]+\.txt)
  | roles/node/files/(tandem\.sh|keep-ipc\.conf)
  | roles/guard/files/tandem-guard\.service
  | roles/memory/files/[a-z-]+\.(service|conf)
  | roles/runtime/files/([a-z0-9-]+\.txt|vllm_alias\.py)
  | roles/evaluate/files/evaluate\.txt
  | patches/[a-z]+/(series|[a-z0-9-]+\.patch)
  | tests/(config\.yml|sanity/ignore-2\.21\.txt)
    """,
    re.VERBOSE,
)


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Build the collection and return the paths of the files in its tarball."""
    folder = tmp_path_factory.mktemp("artefact")
    build = ["ansible-galaxy", "collection", "build", "--output-path", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(folder.glob("tandem-spark-*.tar.gz"))) as tarball:
        return [member.name for member in tarball if not member.isdir()]


def unexpected(names: list[str]) -> list[str]:
    return [name for name in names if not ALLOWED.fullmatch(name)]


def test_only_listed_files(artefact: list[str]) -> None:
    assert unexpected(artefact) == []


def test_what_users_need_is_there(artefact: list[str]) -> None:
    needed = {"README.md", "LICENSE", "playbooks/site.yml", "roles/runtime/files/rehearsal.txt"}
    assert needed - set(artefact) == set()


@pytest.mark.parametrize(
    "name",
    [
        "inventory/hosts.yml",
        "inventory/group_vars/tandem.yml",
        "plugins/modules/old.py.orig",
        "notes.md",
        "ansible.cfg",
        ".venv/bin/python",
        "collections/ansible_collections",
        "tests/unit/test_x.py",
    ],
)
def test_the_list_refuses(name: str) -> None:
    assert unexpected([name]) == [name]
