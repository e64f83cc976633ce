# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails become what they were before this collection, also after reboots and where half of it is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    rails,
    rails_host,
    rails_networkd,
    rails_record,
)
from ansible_collections.tandem.spark.plugins.module_utils.rails_plan import RailsError
from pretend_node import MANAGEMENT, PretendNode, link
from test_rails import BACKENDS, A, B, live, make, own_paths


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.NAME)
def backend(request):
    return request.param


@pytest.fixture
def node(tmp_path):
    return PretendNode(tmp_path, link(A.netdev, "10.1.1.1/24", mtu=4200), link(B.netdev, up=False))


def leave(node, backend, management=(MANAGEMENT,)):
    seen = rails.leaving(node, backend, management)
    if not seen.refusals:
        rails.leave(node, seen)
    return seen


def tandem_files(node):
    return [path for path in node.find("/**") if "tandem" in path and Path(node.path(path)).is_file()]


def test_what_was_found_is_there_again(node, backend):
    before = node.links()
    make(node, backend)
    assert leave(node, backend).needed
    assert node.links() == before and own_paths(node) == [] and not node.armed
    assert not rails.leaving(node, backend, [MANAGEMENT]).needed
    assert node.find(rails_record.FOUND) == [] and node.find(rails_record.PATH) == []


def test_also_after_a_reboot_and_a_change_of_the_plan(node, backend):
    make(node, backend)
    moved = (replace(A, address="192.168.188.1/29", peers=("192.168.188.2",)), B)
    make(node, backend, moved)
    node.reboot()
    leave(node, backend)
    assert live(node) == (4200, ["10.1.1.1/24"]) and live(node, B.netdev) == (1500, [])
    assert not node.state[B.netdev].up and own_paths(node) == []


def test_where_our_files_are_gone_the_addresses_go_all_the_same(node, backend):
    make(node, backend)
    for path in own_paths(node):
        Path(node.path(path)).unlink()
    leave(node, backend)
    assert live(node) == (4200, ["10.1.1.1/24"]) and not rails.leaving(node, backend, [MANAGEMENT]).needed


def test_where_nothing_is_remembered_a_rail_is_as_from_the_factory(node, backend):
    make(node, backend)
    node.write(rails_record.FOUND, None)
    leave(node, backend)
    assert live(node, B.netdev) == (1500, []) and A.address not in live(node)[1]
    assert not rails.leaving(node, backend, [MANAGEMENT]).needed


def test_a_rail_that_somebody_comes_by_is_refused_and_left(node, backend):
    make(node, backend)
    before, files = node.links(), own_paths(node)
    seen = leave(node, backend, [MANAGEMENT, A.netdev])
    assert [each.id for each in seen.refusals] == ["fabric.rail.management"]
    assert node.links() == before and own_paths(node) == files


def test_a_node_without_rails_needs_nothing(tmp_path, backend):
    node = PretendNode(tmp_path, link(A.netdev))
    seen = rails.leaving(node, backend, [])
    assert not seen.needed and seen.refusals == ()


FOREIGN = "/etc/systemd/network/20-cx7.network"
TEXT = f"[Match]\nName={A.netdev}\n\n[Network]\nAddress=10.1.1.1/24\n"


@pytest.fixture
def foreign(node):
    node.put(FOREIGN, TEXT)
    Path(node.path(FOREIGN)).chmod(0o640)
    make(node, rails_networkd)
    return node


def test_a_foreign_file_that_is_gone_comes_back_as_it_was(foreign):
    Path(foreign.path(FOREIGN)).unlink()
    seen = leave(foreign, rails_networkd)
    assert seen.put_back == {FOREIGN: TEXT} and foreign.read(FOREIGN) == TEXT
    assert foreign.mode(FOREIGN) == 0o640
    assert foreign.said("networkctl", "reload") and live(foreign)[1] == ["10.1.1.1/24"]


def test_a_foreign_file_that_somebody_changed_stays_and_is_told(foreign):
    foreign.put(FOREIGN, TEXT.replace("10.1.1.1", "10.1.1.2"))
    seen = leave(foreign, rails_networkd)
    assert seen.kept == (FOREIGN,) and "10.1.1.2" in foreign.read(FOREIGN)


def test_one_that_is_as_it_was_is_no_word_worth(foreign):
    seen = leave(foreign, rails_networkd)
    assert seen.kept == () and seen.put_back == {} and foreign.read(FOREIGN) == TEXT
    assert foreign.find(rails_host.BACKUP_DIR + FOREIGN)  # it goes with the folder


def test_a_record_that_makes_no_sense_stops_with_what_to_do(node):
    make(node, rails_networkd)
    node.put(rails_record.FOUND, "[]")
    with pytest.raises(RailsError, match="remove the file, and they get MTU 1500"):
        rails.leaving(node, rails_networkd, [MANAGEMENT])


def test_whoever_wrote_the_rails_takes_them_away_also_where_another_one_has_the_network(node, backend):
    assert (
        rails.leaving_backend(node, "none") is None and rails.leaving_backend(node, backend.NAME) is backend
    )
    make(node, backend)
    assert rails.leaving_backend(node, "none") is not None
