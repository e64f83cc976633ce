# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guarded change on a pretend node, for each backend: stage, confirm, persist, revert."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    rails,
    rails_netplan,
    rails_netplan_nm,
    rails_networkd,
    rails_nm,
    rails_record,
)
from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding
from ansible_collections.tandem.spark.plugins.module_utils.rails_plan import Rail, RailsError
from pretend_node import MANAGEMENT, PretendNode, link

A = Rail("enp1s0f0np0", "192.168.177.1/29", 9000, ("192.168.177.2",))
B = Rail("enP2p1s0f0np0", "192.168.177.9/29", 9000, ("192.168.177.10",))
BACKENDS = [rails_netplan, rails_netplan_nm, rails_networkd, rails_nm]
NETPLAN = [rails_netplan, rails_netplan_nm]
NETWORKD = [rails_netplan, rails_networkd]


@pytest.fixture
def node(tmp_path):
    return PretendNode(tmp_path, link(A.netdev), link(B.netdev))


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.NAME)
def backend(request):
    return request.param


def look(node, backend, wanted=(A, B)):
    return rails.look(node, backend, wanted, [MANAGEMENT])


def stage(node, backend, wanted=(A, B)):
    rails.stage(node, backend, wanted, look(node, backend, wanted), 60)


def make(node, backend, wanted=(A, B)):
    stage(node, backend, wanted)
    rails.persist(node, backend, wanted)


def live(node, netdev=A.netdev):
    return node.state[netdev].mtu, node.state[netdev].texts


def own_paths(node):
    return list(dict.fromkeys(path for each in BACKENDS for path in each.own_files(node)))


def changing(node):
    """The commands that were more than a question."""
    return [command for command in node.commands if "--terse" not in command]


def test_a_staged_change_is_live_armed_and_not_persistent(node, backend):
    stage(node, backend)
    assert live(node) == (9000, [A.address]) and live(node, B.netdev) == (9000, [B.address])
    assert node.armed and node.said("systemd-run")[0][-2:] == ["fabric", "--revert"]
    assert not [
        path
        for folder in ("netplan", "systemd", "NetworkManager")
        for path in node.find(f"/etc/{folder}/**/*")
    ]
    assert rails.interrupted(node)


def test_a_persistent_change_is_disarmed_and_survives_a_reboot(node, backend):
    make(node, backend)
    assert not node.armed and not rails.interrupted(node)
    assert set(own_paths(node)) == set(backend.persistent((A, B)))
    node.reboot()
    assert live(node) == (9000, [A.address])
    assert not look(node, backend).needed


def test_a_reboot_in_the_guarded_window_leads_back(node, backend):
    stage(node, backend)
    node.reboot()
    assert live(node) == (1500, []) and not rails.interrupted(node)


def test_nothing_to_do_asks_nothing_but_questions(node, backend):
    make(node, backend)
    node.commands.clear()
    assert not look(node, backend).needed
    assert changing(node) == []


@pytest.mark.parametrize("up", [True, False])
def test_revert_restores_what_was_found(tmp_path, backend, up):
    node = PretendNode(tmp_path, link(A.netdev, "10.1.1.1/24", mtu=4200, up=up), link(B.netdev))
    before = node.links()
    stage(node, backend)
    assert rails.revert(node)
    assert node.state == before and own_paths(node) == [] and not node.armed
    assert not rails.revert(node)


def test_the_timer_leaves_a_persistent_change_alone(node, backend):
    make(node, backend)
    assert not rails.revert(node)
    assert live(node) == (9000, [A.address])


def test_another_ranks_failure_undoes_even_a_persistent_change(node, backend):
    make(node, backend)
    assert rails.revert(node, unconfirmed_only=False)
    assert live(node) == (1500, []) and own_paths(node) == []


def test_a_change_of_the_plan_goes_back_to_the_earlier_plan(node, backend):
    make(node, backend)
    moved = Rail(A.netdev, "192.168.178.1/29", 9000)
    stage(node, backend, (moved, B))
    assert live(node) == (9000, [moved.address])
    rails.revert(node)
    assert live(node) == (9000, [A.address])
    assert not look(node, backend).needed


def test_nothing_can_be_made_persistent_after_the_timer(node, backend):
    stage(node, backend)
    rails.revert(node)
    with pytest.raises(RailsError, match="nothing is staged any more"):
        rails.persist(node, backend, (A, B))
    assert own_paths(node) == []


def test_a_rail_that_does_not_take_it_is_undone_at_once(node, backend):
    node.refuses_mtu = {B.netdev}
    before = node.links()
    with pytest.raises(RailsError, match=f"{B.netdev}.*mtu is 1500, wanted 9000.*networkctl status"):
        stage(node, backend)
    assert node.state == before and not node.armed and own_paths(node) == []


@pytest.mark.parametrize(
    "lost",
    [
        ["ip", "link", "set", "dev", A.netdev, "mtu", "1500"],
        ["ip", "address", "delete", A.address, "dev", A.netdev],
    ],
)
def test_a_rail_that_lost_something_is_repaired_though_its_file_is_right(node, backend, lost):
    make(node, backend)
    node.run(lost)
    node.commands.clear()
    assert look(node, backend).differences and not look(node, backend).files
    make(node, backend)
    assert live(node) == (9000, [A.address])
    # The other rail's address stays where it is: a running engine speaks through it.
    again = {rails_netplan: ["networkctl", "reconfigure"], rails_netplan_nm: ["nmcli", "device", "reapply"]}
    if backend in again:
        assert node.said(*again[backend]) == [[*again[backend], A.netdev]]


def test_without_the_agent_nothing_is_touched(node, backend):
    Path(node.path(rails.AGENT)).unlink()
    with pytest.raises(RailsError, match="run the role node first"):
        stage(node, backend)
    assert changing(node) == [] and own_paths(node) == []


@pytest.mark.parametrize(
    ("backend", "made"),
    [
        (rails_netplan, "/run/systemd/network/10-netplan-{}.network"),
        (rails_netplan_nm, "/run/NetworkManager/system-connections/netplan-{}.nmconnection"),
    ],
)
def test_only_the_rails_files_of_netplan_are_taken_over(node, backend, made):
    node.put("/etc/netplan/50-management.yaml", f"network: {{ethernets: {{{MANAGEMENT}: {{mtu: 1500}}}}}}\n")
    make(node, backend)
    generated = node.find("/run/systemd/network/*") + node.find("/run/NetworkManager/system-connections/*")
    assert set(generated) == {made.format(rail.netdev) for rail in (A, B)}
    assert node.said("netplan", "apply") == []


@pytest.mark.parametrize("backend", NETPLAN, ids=lambda backend: backend.NAME)
def test_files_that_were_generated_in_place_are_used_too(node, backend):
    node.generates_in_place = True
    make(node, backend)
    assert live(node) == (9000, [A.address])
    assert rails.revert(node, unconfirmed_only=False)
    assert live(node) == (1500, []) and own_paths(node) == []


@pytest.mark.parametrize("there", ["configure", "generate", None])
def test_netplans_generator_is_called_by_itself_where_it_is_known(node, there):
    path = f"/usr/libexec/netplan/{there}"
    if there:
        node.put("/usr/libexec/netplan/generate", "")
        node.put(path, "")
    make(node, rails_netplan)
    called = [command[:-2] for command in node.commands if "--root-dir" in command]
    assert called and called == [[path] if there else ["netplan", "generate"]] * len(called)


FOREIGN = "/etc/netplan/40-cx7.yaml"
FOREIGN_TEXT = f"network: {{ethernets: {{{A.netdev}: {{addresses: [192.168.100.10/24]}}}}}}\n"


@pytest.mark.parametrize("backend", NETPLAN, ids=lambda backend: backend.NAME)
def test_a_foreign_netplan_file_is_told_backed_up_and_left(node, backend):
    node.put(FOREIGN, FOREIGN_TEXT)
    assert [note.id for note in look(node, backend).notes] == ["fabric.rail.foreign_file"]
    make(node, backend)
    assert node.read("/var/lib/tandem/backup" + FOREIGN) == FOREIGN_TEXT == node.read(FOREIGN)
    seen = look(node, backend)
    assert not seen.needed
    assert [note.id for note in seen.notes] == ["fabric.rail.foreign_file", "fabric.rail.extra_address"]


@pytest.mark.parametrize("backend", NETPLAN, ids=lambda backend: backend.NAME)
def test_a_broken_foreign_netplan_file_undoes_and_names_it(node, backend):
    node.put(FOREIGN, "network: [")
    with pytest.raises(RailsError, match="netplan generate"):
        stage(node, backend)
    assert live(node) == (1500, []) and not node.armed


def test_an_address_set_by_hand_stays(tmp_path, backend):
    node = PretendNode(tmp_path, link(A.netdev, "10.1.1.1/24"), link(B.netdev))
    make(node, backend)
    assert sorted(live(node)[1]) == ["10.1.1.1/24", A.address]
    assert "fabric.rail.extra_address" in [note.id for note in look(node, backend).notes]


def test_a_rail_of_an_earlier_plan_is_given_up(node, backend):
    make(node, backend)
    assert look(node, backend, [A]).needed
    make(node, backend, [A])
    assert live(node) == (9000, [A.address]) and live(node, B.netdev)[1] == []
    assert not look(node, backend, [A]).needed


def test_a_rail_whose_cable_is_out_is_not_given_up(node, backend):
    make(node, backend)
    node.state[B.netdev] = replace(node.state[B.netdev], carrier=False)
    assert [each.id for each in look(node, backend, [A]).refusals] == ["fabric.rail.lost"]
    assert not look(node, backend).refusals


def test_rails_that_were_cabled_anew_are_followed(node, backend):
    make(node, backend)
    node.state[B.netdev] = replace(node.state[B.netdev], carrier=False)
    node.state["enp1s0f1np1"] = link("enp1s0f1np1")
    make(node, backend, [A, Rail("enp1s0f1np1", "192.168.177.17/29", 9000)])
    assert live(node, "enp1s0f1np1") == (9000, ["192.168.177.17/29"]) and live(node, B.netdev)[1] == []


@pytest.mark.parametrize(
    ("path", "text", "ids"),
    [
        ("/etc/systemd/network/01-lab.network", f"[Match]\nName={A.netdev}\n", ["fabric.rail.shadowed"]),
        ("/etc/systemd/network/01-all.network", "[Match]\nName=en*\n", ["fabric.rail.shadowed"] * 2),
        ("/etc/systemd/network/01-all.network", "[Network]\nDHCP=yes\n", ["fabric.rail.shadowed"] * 2),
        ("/etc/systemd/network/01-all.network", "", []),
        ("/etc/systemd/network/20-cx7.network", f"[Match]\nName={A.netdev}\n", ["fabric.rail.foreign_file"]),
        (
            "/usr/lib/systemd/network/20-cx7.network",
            "[Match]\nMACAddress=02:00:00:00:00:{mac}\n",
            ["fabric.rail.foreign_file"],
        ),
        ("/etc/systemd/network/80-dhcp.network", "[Match]\nName=en*\n", []),
        ("/etc/systemd/network/01-mgmt.network", f"[Match]\nName={MANAGEMENT}\n", []),
        ("/etc/systemd/network/01-not.network", f"[Match]\nName=!{A.netdev}\n", []),
    ],
)
@pytest.mark.parametrize("backend", NETWORKD, ids=lambda backend: backend.NAME)
def test_foreign_networkd_files(node, backend, path, text, ids):
    node.put(path, text.replace("{mac}", node.state[A.netdev].mac[-2:].upper()))
    seen = look(node, backend)
    assert [each.id for each in (*seen.refusals, *seen.notes)] == ids


def test_a_hidden_namesake_is_not_read(node):
    node.put("/usr/lib/systemd/network/01-x.network", f"[Match]\nName={A.netdev}\n")
    node.put("/etc/systemd/network/01-x.network", "")
    assert look(node, rails_networkd).refusals == ()


@pytest.mark.parametrize(
    ("text", "word", "there"),
    [
        ("ethernets: {enp1s0f0np0: {mtu: 9000}}", "enp1s0f0np0", True),
        ("    enp1s0f0np0:\n", "enp1s0f0np0", True),
        ("    enp1s0f0np0.100:\n", "enp1s0f0np0", False),
        ("    enp1s0f0np01:\n", "enp1s0f0np0", False),
        ("# enp1s0f0np0 is a rail\n", "enp1s0f0np0", False),
        ("  match: {macaddress: 02:AA:00:00:00:01}\n", "02:aa:00:00:00:01", True),
        ("anything", "", False),
    ],
)
def test_mentions(text, word, there):
    assert rails_netplan.mentions(text, word) is there


def test_an_unknown_backend_is_one_finding():
    told = rails.backend_named("ifupdown", [A])
    assert isinstance(told, Finding) and told.id == "fabric.backend.unsupported" and A.netdev in told.remedy


def test_a_record_that_cannot_be_read_stops_with_what_to_do(node):
    node.put(rails_record.PATH, json.dumps({"stage": "staged"}))
    with pytest.raises(RailsError, match="remove the file"):
        rails.interrupted(node)


def test_networkd_can_read_its_own_files_and_others_are_for_root_alone(node, backend):
    make(node, backend)
    modes = {Path(node.path(path)).stat().st_mode & 0o777 for path in own_paths(node)}
    assert modes == ({0o644} if backend is rails_networkd else {0o600})


def test_a_folder_in_the_place_of_a_file_is_said(node, backend):
    path = next(iter(backend.persistent([A])))
    node.put(f"{path}/x", "")
    with pytest.raises(RailsError, match=f"{path} could not be read"):
        look(node, backend)
