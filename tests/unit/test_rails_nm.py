# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written for NetworkManager, by itself or through netplan, and which profile an interface uses."""

from __future__ import annotations

from configparser import ConfigParser

import pytest
import yaml
from ansible_collections.tandem.spark.plugins.module_utils import rails, rails_netplan_nm, rails_nm
from ansible_collections.tandem.spark.plugins.module_utils.rails_plan import Rail, RailsError
from pretend_node import MANAGEMENT, PretendNode, link

A = Rail("enp1s0f0np0", "192.168.177.1/29", 9000, ("192.168.177.2",))
B = Rail("enP2p1s0f0np0", "192.168.177.9/29", 4200, ("192.168.177.10",))
FACTORY = "/run/NetworkManager/system-connections/Wired connection 1.nmconnection"
FACTORY_TEXT = f"""[connection]
id=Wired connection 1
interface-name={A.netdev}
autoconnect-priority=-999

[ipv4]
method=auto

[.nmmeta]
nm-generated=true
"""
THEIRS = "/etc/NetworkManager/system-connections/cx7.nmconnection"
THEIRS_TEXT = f"""[connection]
id=cx7
interface-name={A.netdev}

[ethernet]
mtu=4200

[ipv4]
method=manual
address1=192.168.100.10/24
"""


@pytest.fixture
def node(tmp_path):
    return PretendNode(tmp_path, link(A.netdev), link(B.netdev))


@pytest.fixture(params=[rails_netplan_nm, rails_nm], ids=lambda backend: backend.NAME)
def backend(request):
    return request.param


def look(node, backend, wanted=(A, B)):
    return rails.look(node, backend, wanted, [MANAGEMENT])


def stage(node, backend, wanted=(A, B)):
    rails.stage(node, backend, wanted, look(node, backend, wanted), 60)


def keyfile(text: str) -> dict[str, dict[str, str]]:
    values = ConfigParser()
    values.read_string(text)
    return {name: dict(values.items(name)) for name in values.sections()}


@pytest.mark.parametrize("rail", [A, B], ids=lambda rail: rail.netdev)
def test_a_profile_in_full(rail):
    staged, lasting = rails_nm.staged([rail]), rails_nm.persistent([rail])
    path = f"/etc/NetworkManager/system-connections/tandem-{rail.netdev}.nmconnection"
    assert lasting[path] == staged[path.replace("/etc/", "/run/")]
    found = keyfile(lasting[path])
    assert len(found["connection"].pop("uuid")) == 36
    assert found == {
        "connection": {
            "id": f"tandem-{rail.netdev}",
            "type": "ethernet",
            "interface-name": rail.netdev,
            "autoconnect-priority": "999",
        },
        "ethernet": {"mtu": str(rail.mtu)},
        "ipv4": {"method": "manual", "address1": rail.address, "never-default": "true"},
        "ipv6": {"method": "link-local", "addr-gen-mode": "eui64", "never-default": "true"},
    }


def test_each_rail_has_a_uuid_of_its_own_and_keeps_it():
    once, again = rails_nm.persistent([A, B]), rails_nm.persistent([A, B])
    assert once == again
    uuids = {line for text in once.values() for line in text.splitlines() if line.startswith("uuid=")}
    assert len(uuids) == 2


def test_the_file_for_netplan_in_full():
    lasting = rails_netplan_nm.persistent([A, B])
    found = yaml.safe_load(lasting["/etc/netplan/90-tandem-fabric.yaml"])["network"]
    assert set(found) == {"version", "ethernets"}  # a renderer here would move every other interface
    assert list(found["ethernets"]) == [A.netdev, B.netdev]
    assert found["ethernets"][B.netdev] == {
        "renderer": "NetworkManager",
        "addresses": [B.address],
        "mtu": 4200,
        "dhcp4": False,
        "dhcp6": False,
        "accept-ra": False,
        "link-local": ["ipv6"],
        "optional": True,
        "networkmanager": {
            "passthrough": {
                "connection.autoconnect-priority": "999",
                "ipv4.never-default": "true",
                "ipv6.method": "link-local",
                "ipv6.addr-gen-mode": "eui64",
                "ipv6.never-default": "true",
            }
        },
    }


def test_a_rail_without_a_cable_keeps_what_it_has(backend):
    for texts, top in ((backend.staged([A]), "/run"), (backend.persistent([A]), "/etc")):
        found = keyfile(texts[f"{top}/NetworkManager/conf.d/90-tandem-{A.netdev}.conf"])
        assert found == {
            f"device-tandem-{A.netdev}": {
                "match-device": f"interface-name:{A.netdev}",
                "ignore-carrier": "yes",
            }
        }


def test_every_file_of_ours_names_its_rail(backend):
    for text in backend.persistent([A]).values():
        assert backend.netdevs_in(text) == [A.netdev]


def test_no_rails_no_files(backend):
    assert backend.staged([]) == backend.persistent([]) == {}


def test_only_the_rails_are_loaded_and_used(node, backend):
    node.put(THEIRS, THEIRS_TEXT.replace(A.netdev, MANAGEMENT))
    node.manager.start()
    stage(node, backend)
    rails.persist(node, backend, [A, B])
    loaded = [word for command in node.said("nmcli", "connection", "load") for word in command[3:]]
    assert loaded and all(A.netdev in path or B.netdev in path for path in loaded)
    assert not node.said("nmcli", "connection", "reload") and not node.said("netplan", "apply")
    touched = [command[-1] for command in node.commands if "up" in command or "reapply" in command]
    assert set(touched) == {A.netdev, B.netdev}


@pytest.mark.parametrize(
    ("path", "text"), [(FACTORY, FACTORY_TEXT), (THEIRS, THEIRS_TEXT)], ids=["factory", "theirs"]
)
def test_the_profile_of_before_is_used_again_after_a_revert(node, backend, path, text):
    node.put(path, text)
    node.manager.start()
    before, used = node.links(), dict(node.manager.active)
    stage(node, backend)
    assert node.manager.active != used and A.address in node.state[A.netdev].texts
    assert rails.revert(node)
    assert node.manager.active == used and node.state == before


def test_what_a_profile_of_others_set_stays_until_the_next_boot(node, backend):
    node.put(THEIRS, THEIRS_TEXT)
    node.manager.start()
    stage(node, backend)
    rails.persist(node, backend, [A, B])
    assert node.state[A.netdev].texts == [A.address, "192.168.100.10/24"]
    node.reboot()
    assert node.state[A.netdev].texts == [A.address] and node.state[A.netdev].mtu == 9000


def test_a_profile_that_is_not_taken_is_undone_and_named(node, backend):
    name = "netplan" if backend is rails_netplan_nm else "tandem"
    path = f"/run/NetworkManager/system-connections/{name}-{B.netdev}.nmconnection"
    node.manager.refuses = {path}
    before = node.links()
    with pytest.raises(RailsError, match=f"does not take {path} for {B.netdev}.*journalctl"):
        stage(node, backend)
    assert node.state == before and not node.armed and not backend.own_files(node)


def test_a_rail_that_is_left_alone_is_refused(node, backend):
    node.manager.unmanaged = {B.netdev, MANAGEMENT}
    (refusal,) = look(node, backend).refusals
    assert refusal.id == "fabric.rail.unmanaged" and B.netdev in refusal.summary


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("/etc/NetworkManager/system-connections/cx7.nmconnection", THEIRS_TEXT, True),
        ("/etc/NetworkManager/system-connections/cx7", THEIRS_TEXT, True),
        ("/usr/lib/NetworkManager/system-connections/cx7.nmconnection", THEIRS_TEXT, True),
        ("/run/NetworkManager/system-connections/cx7.nmconnection", THEIRS_TEXT, True),
        (
            "/etc/NetworkManager/system-connections/mac.nmconnection",
            "[ethernet]\nmac-address=02:00:00:00:00:{mac}\n",
            True,
        ),
        (
            "/etc/NetworkManager/system-connections/two.nmconnection",
            f"[match]\ninterface-name=eth9;{A.netdev};\n",
            True,
        ),
        (FACTORY, FACTORY_TEXT, False),
        ("/run/NetworkManager/system-connections/netplan-enp1s0f0np0.nmconnection", THEIRS_TEXT, False),
        ("/etc/NetworkManager/system-connections/any.nmconnection", "[connection]\nid=any\n", False),
        (
            "/etc/NetworkManager/system-connections/all.nmconnection",
            "[match]\ninterface-name=en*;\n",
            False,
        ),
        (
            "/etc/NetworkManager/system-connections/case.nmconnection",
            f"[connection]\ninterface-name={A.netdev.upper()}\n",
            False,
        ),
    ],
)
def test_foreign_profiles(node, backend, name, text, told):
    node.put(name, text.replace("{mac}", node.state[A.netdev].mac[-2:].upper()))
    assert [note.id for note in look(node, backend).notes] == ["fabric.rail.foreign_file"] * told


def test_a_foreign_profile_is_backed_up(node, backend):
    node.put(THEIRS, THEIRS_TEXT)
    node.manager.start()
    stage(node, backend)
    assert node.read(f"/var/lib/tandem/backup{THEIRS}") == THEIRS_TEXT == node.read(THEIRS)
