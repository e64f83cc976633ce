# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who comes to what while a real vLLM serves: seen from the management network, with the packet filter and without."""

from __future__ import annotations

import json
import sys

import pytest

from conftest import (
    API,
    INVENTORY,
    MOST_PAYLOADS,
    NODES,
    UNITS,
    ansible,
    lab,
    play,
    shell,
    site,
    state,
    wait_for,
)

HEAD, WORKER = NODES
ADDRESSES = dict(zip(NODES, ("192.168.50.11", "192.168.50.12"), strict=True))
# What the lab's inventory opens for the other tests is closed here.
CLOSED = ("-e", json.dumps({"tandem_api_auth": "key", "tandem_access_guard_from": []}))
NO_FILTER = ("--tags", "access", "-e", "tandem_access_firewall=false")
FOREIGN = 9999
LISTEN = f"systemd-run --quiet --unit=tandem-test-foreign python3 -m http.server {FOREIGN}"
# Every TCP port, five hundred at a time; one that says nothing for half a second does not answer.
SCAN = """
import asyncio, json, sys
async def one(address, port, at_once):
    async with at_once:
        try:
            _reader, writer = await asyncio.wait_for(asyncio.open_connection(address, port), 0.5)
        except (OSError, asyncio.TimeoutError):
            return None
        writer.close()
        return port
async def scan(address):
    at_once = asyncio.Semaphore(500)
    found = await asyncio.gather(*(one(address, port, at_once) for port in range(1, 65536)))
    return [port for port in found if port]
print(json.dumps(asyncio.run(scan(sys.argv[1]))))
"""
KEY = "sed -n 's/^VLLM_API_KEY=//p' /etc/tandem/api.env"
# Everywhere that somebody but root and the engine looks: arguments, logs, and files that others can read. What is
# looked for is in a file, since the search itself has arguments.
SOUGHT = "/etc/tandem/.sought-by-a-test"
SHOWN = f"""{{ cat /proc/[0-9]*/cmdline | tr '\\0' ' '; journalctl --no-pager --output=cat; systemctl show tandem-head
find /etc /opt/tandem /var/lib/tandem /run /tmp /var/log /root/.ansible_async -type f -perm -o=r \\
     ! -path '*/runtime/*' -size -4096k -exec cat {{}} + ; }} 2>/dev/null | grep -a -c -F -f {SOUGHT}; rm {SOUGHT}"""
FOREIGN_TABLE = (
    "nft add table inet other; nft 'add chain inet other input { type filter hook input priority 5; }'"
)

pytestmark = pytest.mark.long


def scan(node: str) -> set[int]:
    """The ports of a node that answer somebody in the management network."""
    return set(json.loads(lab("client", "--", sys.executable, "-c", SCAN, ADDRESSES[node])))


def key() -> str:
    return shell(HEAD, KEY)


def shown(node: str, word: str) -> int:
    """In how many lines that others can see a word stands."""
    shell(node, f"umask 077; echo '{word}' > {SOUGHT}")
    return int(shell(node, SHOWN))


def status(path: str, given: str | None = None, method: str = "GET") -> int:
    """What the API answers to somebody in the management network."""
    words = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "20", "-X", method, f"{API}{path}"]
    words += ["-H", "Content-Type: application/json", "-d", "{}"] if method == "POST" else []
    return int(
        lab("client", "--", *words, *(["-H", f"Authorization: Bearer {given}"] if given else []), check=False)
    )


@pytest.fixture(scope="module", autouse=True)
def foreign():
    """A listener and a table of somebody else on every node, and afterwards the pair as the inventory wants it."""
    for node in NODES:
        shell(node, f"{LISTEN}; {FOREIGN_TABLE}")
    yield
    for node in NODES:
        shell(node, "systemctl stop tandem-test-foreign; nft delete table inet other", check=False)
    back = site()
    assert back.code == 0, back.text


def test_without_the_filter_the_rendezvous_and_the_guard_answer_everybody():
    run = site(*NO_FILTER)
    assert run.code == 0, run.text
    assert all("inet tandem" not in shell(node, "nft list tables") for node in NODES)
    answers = {node: scan(node) for node in NODES}
    assert answers == {HEAD: {22, 8888, 25000, 25002, FOREIGN}, WORKER: {22, 25002, FOREIGN}}, answers


@pytest.fixture(scope="module")
def closed(foreign):
    run = site(*CLOSED)
    assert run.code == 0, run.text
    assert "was started with another key of the API" in run.text and key() not in run.text
    assert f"sudo tandem key | curl -H @- {API}/v1/chat/completions" in run.text, run.text
    return run


def test_with_it_only_ssh_the_api_and_what_is_of_others_answer(closed):
    answers = {node: scan(node) for node in NODES}
    assert answers == {HEAD: {22, 8888, FOREIGN}, WORKER: {22, FOREIGN}}, answers
    print(f"\nanswering on the management side: {answers}")
    for node in NODES:
        assert {"table inet other", "table inet tandem"} <= set(shell(node, "nft list tables").splitlines())


def test_the_rails_addresses_are_reached_over_the_rails_only(closed):
    reach = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2).close()"
    lab("client", "--", "ip", "route", "add", "192.168.177.1/32", "via", ADDRESSES[HEAD])
    try:
        for port in (25000, 25001, FOREIGN):
            with pytest.raises(AssertionError):
                lab("client", "--", sys.executable, "-c", reach, "192.168.177.1", str(port))
    finally:
        lab("client", "--", "ip", "route", "del", "192.168.177.1/32")
    shell(WORKER, f"python3 -c {reach!r} 192.168.177.1 {FOREIGN}")


def test_without_the_key_nothing_is_answered_but_health_and_counters(closed):
    for method, path in (
        ("GET", "/v1/models"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/invocations"),
        ("POST", "/tokenize"),
    ):
        assert status(path, method=method) == status(path, "another-key-0123456789", method) == 401, path
    assert [status(path) for path in ("/health", "/metrics", "/version")] == [200, 200, 200]
    assert status("/v1/models", key()) == 200 and status("/v1/chat/completions", key(), "POST") == 400
    assert status("/server_info", key()) == status("/collective_rpc", key(), "POST") == 404


def test_the_key_is_kept_for_root_and_the_engine_and_shown_nowhere(closed):
    assert shell(HEAD, "stat -c '%a %U' /etc/tandem/api.env") == "600 tandem"
    assert "KEY=" not in shell(WORKER, "cat /etc/tandem/api.env", check=False)
    for node in NODES:
        assert shown(node, key()) == 0, node
    assert shown(HEAD, "NoNewPrivileges") > 0  # the search finds what is there


def test_our_own_callers_have_it(closed):
    assert "correct" in shell(HEAD, "tandem probe")
    assert shell(HEAD, "tandem key").startswith("Authorization: Bearer ")
    ready = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:25002/healthz"
    wait_for("the guard's right answer", lambda: shell(HEAD, ready, check=False) == "200", 180)
    verify = play("playbooks/verify.yml")
    assert verify.code == 0 and key() not in verify.text, verify.text


def test_a_second_run_is_quiet_and_says_as_little(closed):
    before = {node: state(node) for node in NODES}
    run = site(*CLOSED, "-vvv", "--diff")
    assert run.code == 0 and run.changed == dict.fromkeys(NODES, 0), run.text
    assert {node: state(node) for node in NODES} == before and key() not in run.text
    assert max(run.payloads.values()) <= MOST_PAYLOADS


def test_a_table_that_somebody_flushed_is_told_and_put_back(closed):
    shell(WORKER, "nft delete table inet tandem")
    doctor = play("playbooks/doctor.yml", "--limit", WORKER)
    assert "access.firewall.gone" in doctor.text, doctor.text
    run = site(*CLOSED, "--tags", "access")
    assert run.code == 0 and run.changed == {HEAD: 0, WORKER: run.changed[WORKER]} and run.changed[WORKER], (
        run.text
    )
    assert "inet tandem" in shell(WORKER, "nft list tables")


def test_a_table_that_is_not_confirmed_undoes_itself(closed):
    text = shell(WORKER, "cat /etc/tandem/firewall.nft")
    cut_off = text.replace('iifname "lo" accept', 'iifname "lo" accept\n\t\ttcp dport 22 drop').replace(
        "made_of_", "made_of_0"
    )
    arguments = {"state": "staged", "text": cut_off + "\n", "revert_after_s": 10}
    ansible("ansible", WORKER, "-m", "tandem.spark.firewall", "-a", json.dumps(arguments))
    wait_for("the table of before", lambda: "dport 22" not in shell(WORKER, "nft list table inet tandem"), 40)
    assert ansible("ansible", WORKER, "-m", "ansible.builtin.ping").code == 0
    assert 22 in scan(WORKER)


def test_it_is_in_force_after_a_reboot_before_the_engine_starts(closed):
    lab("reboot", WORKER)
    assert "inet tandem" in shell(WORKER, "nft list tables")
    wait_for(
        "the rank",
        lambda: shell(WORKER, f"systemctl is-active {UNITS[WORKER]}", check=False) == "active",
        240,
    )


def test_a_key_of_a_vault_takes_the_place_of_the_one_that_was_drawn(closed, tmp_path):
    drawn, given = key(), "of-the-vault-0123456789ABCDEF"
    (tmp_path / "vault.json").write_text(json.dumps({"tandem_api_key": given}))
    run = site(*CLOSED, "-e", f"@{tmp_path / 'vault.json'}", "-vvv", "--diff")
    assert run.code == 0 and given not in run.text and drawn not in run.text, (
        "the key is in what the run said"
    )
    assert key() == given and (status("/v1/models", given), status("/v1/models", drawn)) == (200, 401)
    for node in NODES:
        assert shown(node, given) == 0, node


def test_the_inventory_is_the_labs():
    """What closes above is not what the other tests have."""
    assert "tandem_api_auth: open" in (INVENTORY / "hosts.yml").read_text()
