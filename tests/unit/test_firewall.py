# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table names what this collection opens and no more, is told by its mark, and is put in force without a lock-out.

What nft and the kernel make of it is asked in tests/tools/test_firewall.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import firewall, ray_settings
from ansible_collections.tandem.spark.plugins.module_utils.commands import Answer

PLAN = {
    "rank": 0,
    "fabric": {
        "rails": [
            {"netdev": "ra0", "address": "192.168.177.1/29", "peers": ["192.168.177.2"]},
            {"netdev": "ra1", "address": "192.168.177.9/29", "peers": ["192.168.177.10"]},
        ]
    },
    "master_port": 25000,
    "guard": {"port": 25001, "http_port": 25002},
    "api": {"port": 8888},
}


def table(guard=(), api=(), rails=(), plan=PLAN):
    return firewall.text(firewall.wish_of(plan, guard, api, rails))


def rules(*words, **more):
    return firewall.rules(firewall.wish_of(PLAN, *[more.get(name, ()) for name in ("guard", "api", "rails")]))


def test_the_table_in_full():
    assert rules() == [
        'iifname "lo" accept',
        'iifname { "ra0", "ra1" } ip saddr { 192.168.177.2, 192.168.177.10 } tcp dport { 25000, 25001, 25002 } accept',
        "tcp dport { 25000, 25001, 25002 } drop",
        'iifname != { "ra0", "ra1" } ip daddr { 192.168.177.1, 192.168.177.9 } drop',
        'iifname { "ra0", "ra1" } ip saddr { 192.168.177.2/32, 192.168.177.10/32 } '
        "tcp flags & (syn | ack) == syn accept",
        'iifname { "ra0", "ra1" } ip daddr { 192.168.177.1, 192.168.177.9 } tcp flags & (syn | ack) == syn drop',
    ]
    assert "policy accept;" in table() and table().splitlines()[1:3] == [
        "table inet tandem",
        "delete table inet tandem",
    ]


def test_the_api_is_for_all_unless_somebody_is_named():
    assert not any("8888" in rule for rule in rules())
    named = rules(api=("192.168.1.0/24",))
    assert "ip saddr { 192.168.1.0/24 } tcp dport 8888 accept" in named
    assert "tcp dport { 8888, 25000, 25001, 25002 } drop" in named


@pytest.mark.parametrize(
    ("networks", "wanted"),
    [
        ((), []),
        (("192.168.1.7",), ["ip saddr { 192.168.1.7/32 } tcp dport 25002 accept"]),
        (("192.168.1.7", "192.168.1.0/24"), ["ip saddr { 192.168.1.0/24 } tcp dport 25002 accept"]),
        (("192.168.1.9/24",), ["ip saddr { 192.168.1.0/24 } tcp dport 25002 accept"]),
        (("0.0.0.0/0", "10.0.0.0/8"), ["meta nfproto ipv4 tcp dport 25002 accept"]),
        (
            ("fd00::/8", "10.0.0.0/8"),
            [
                "ip saddr { 10.0.0.0/8 } tcp dport 25002 accept",
                "ip6 saddr { fd00::/8 } tcp dport 25002 accept",
            ],
        ),
        (("::/0",), ["meta nfproto ipv6 tcp dport 25002 accept"]),
    ],
)
def test_who_may_come_to_the_guards_page(networks, wanted):
    assert [rule for rule in rules(guard=networks) if rule.endswith("tcp dport 25002 accept")] == wanted


def test_machines_at_the_same_switch_are_let_in_where_they_are_named():
    (letting,) = [rule for rule in rules(rails=("10.9.0.0/16",)) if "10.9.0.0/16" in rule]
    assert (
        letting.startswith('iifname { "ra0", "ra1" } ip saddr { 10.9.0.0/16, 192.168.177.2/32')
        and "accept" in letting
    )


def test_a_worker_leaves_the_heads_ports_to_whoever_listens_there():
    worker = firewall.rules(firewall.wish_of({**PLAN, "rank": 1}, (), ["10.0.0.0/8"], ()))
    assert "tcp dport { 25002 } drop" in worker
    assert not any(port in rule for rule in worker for port in ("8888", "25000", "25001"))


def test_rays_ports_are_closed_on_every_rank():
    for rank in (0, 1):
        made = firewall.rules(firewall.wish_of({**PLAN, "rank": rank}, (), (), (), ray_settings.CLOSED))
        (closed,) = [rule for rule in made if rule.startswith("tcp dport") and rule.endswith("drop")]
        assert closed.endswith("25002, 25010-25016, 25100-25299 } drop")


def test_one_rank_alone_has_loopback():
    alone = {**PLAN, "fabric": {"rails": []}}
    assert firewall.rules(firewall.wish_of(alone, (), (), ())) == [
        'iifname "lo" accept',
        "tcp dport { 25000, 25001, 25002 } drop",
    ]


def test_the_mark_tells_other_rules_and_a_rule_that_is_gone():
    marks = [
        firewall.mark(each) for each in (table(), table(guard=["10.0.0.0/8"]), table(api=["10.0.0.0/8"]))
    ]
    assert len(set(marks)) == 3 and [mark[16:] for mark in marks] == ["/6", "/7", "/7"]
    line = next(line for line in table().splitlines() if line.endswith("25002 } drop"))
    assert firewall.mark(table().replace(f"{line}\n", "")) == f"{marks[0][:16]}/5"
    for other in (None, "", "table inet filter {\n chain input {\n accept\n}\n}\n"):
        assert firewall.mark(other) is None


class Pretend(firewall.Host):
    """A node whose kernel keeps the file that nft loaded last. refuses: a word of a command -> why it fails."""

    def __init__(self, root: Path):
        super().__init__(root)
        self.kernel: str | None = None
        self.timer: list[str] | None = None
        self.said: list[list[str]] = []
        self.refuses: dict[str, str] = {}

    def ask(self, argv):
        argv = list(argv)
        self.said.append(argv)
        for word, why in self.refuses.items():
            if word in argv:
                return Answer(1, why)
        if argv[:2] == [firewall.NFT, "-f"]:
            self.kernel = (self.root / argv[2][1:]).read_text()
        elif argv[:2] == [firewall.NFT, "list"]:
            return Answer(1, "No such file") if self.kernel is None else Answer(0, self.kernel)
        elif argv[:2] == [firewall.NFT, "delete"]:
            self.kernel = None
        elif argv[0] == "systemd-run":
            self.timer = argv[argv.index(firewall.NFT) :]
        elif argv[:2] == ["systemctl", "stop"] and argv[2].startswith(firewall.TIMER):
            self.timer = None
        elif argv[:2] == ["systemctl", "restart"]:
            self.ask([firewall.NFT, "-f", f"/{firewall.RULES}"])
        return Answer(0, "")

    def expire(self):
        self.ask(self.timer)
        self.timer = None


@pytest.fixture
def host(tmp_path):
    return Pretend(tmp_path)


def made(host, text):
    firewall.stage(host, text, 60)
    firewall.persist(host, text)


def test_staged_then_kept(host):
    assert not firewall.as_wanted(firewall.look(host), table())
    firewall.stage(host, table(), 60)
    assert host.timer and firewall.look(host)["kept"] is None
    firewall.persist(host, table())
    assert host.timer is None and firewall.as_wanted(firewall.look(host), table())
    assert (host.root / firewall.RULES).read_text() == table() and not (host.root / firewall.STAGED).exists()
    assert (
        "nft -f /etc/tandem/firewall.nft" in (host.root / f"etc/systemd/system/{firewall.UNIT}").read_text()
    )


def test_who_cuts_himself_off_is_back_when_the_timer_ends(host):
    firewall.stage(host, table(), 60)
    host.expire()
    assert host.kernel is None
    with pytest.raises(firewall.FirewallError, match="tandem_access_revert_after_s"):
        firewall.persist(host, table())
    made(host, table())
    firewall.stage(host, table(api=["10.0.0.0/8"]), 60)
    host.expire()
    assert firewall.as_wanted(firewall.look(host), table())


def test_what_nft_does_not_take_is_never_loaded(host):
    host.refuses["--check"] = "Error: syntax error"
    with pytest.raises(firewall.FirewallError, match="syntax error"):
        firewall.stage(host, table(), 60)
    assert host.kernel is None and host.timer is None


def test_without_a_timer_nothing_is_put_in_force(host):
    host.refuses["systemd-run"] = "no such bus"
    with pytest.raises(firewall.FirewallError, match="no such bus"):
        firewall.stage(host, table(), 60)
    assert host.kernel is None


def test_a_table_that_somebody_flushed_is_not_as_wanted(host):
    made(host, table())
    host.kernel = None
    assert not firewall.as_wanted(firewall.look(host), table())
    made(host, table())
    assert firewall.as_wanted(firewall.look(host), table())


def test_all_of_it_goes(host):
    made(host, table())
    assert not firewall.as_wanted(firewall.look(host), None)
    firewall.leave(host)
    assert firewall.as_wanted(firewall.look(host), None) and host.kernel is None
    assert [path for path in host.root.rglob("*") if path.is_file() or path.is_symlink()] == []


def test_of_a_copy_of_a_node_no_command_tells(tmp_path):
    assert firewall.look(firewall.Host(tmp_path, live=False)) == {
        "in_force": None,
        "kept": None,
        "unit": False,
    }
