# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two wheels from their sources: built once on the head, alike on both ranks, cut off and resumed. The order counts."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from contextlib import contextmanager

from hands import INVENTORY, NODES, PROJECT, Run, lab, play, shell, wait_for
from machine import OWN, WORK, build

HEAD, WORKER = NODES
CONVERGE = "molecule/build/converge.yml"
FOLDER = "/var/lib/tandem/build"
UNIT = "tandem-build.service"
ENOUGH = 12  # objects, of forty: what was made in the last seconds before an end is made again
# Whatever a build leaves, and how often a wheel was begun or taken up.
WHEELS = f"stat -c '%n %Y %i' {FOLDER}/wheels/*/*.whl"
BEGUN = f"journalctl --no-pager --output=cat --unit={UNIT} | grep -c ' begins\\| goes on' || true"
OBJECTS = f"find {FOLDER}/work -path '*/source/build/*.so' -printf '%f\\n' 2>/dev/null | sort"


def overridden(**told) -> tuple[str, ...]:
    return ("-e", json.dumps({"tandem_profile_overrides": {"runtime": {"build": build(**told)}}}))


def converge(*words: str) -> Run:
    return play(CONVERGE, "-i", str(OWN), *words)


def flat(text: str) -> str:
    """Ansible folds long lines of a result anywhere."""
    return " ".join(text.split())


def environment(node: str) -> str:
    """The environment that was installed last."""
    return shell(node, "ls -td /opt/tandem/runtime/*/ | head -n 1").rstrip("/")


def fingerprint(node: str) -> dict:
    return json.loads(shell(node, f"cat {environment(node)}/fingerprint.json"))


def both_have(ciphers: str) -> None:
    told = [fingerprint(node) for node in NODES]
    assert {each["packages"]["pycryptodome"] for each in told} == {ciphers}
    assert len({each["digest"] for each in told}) == 1


def records() -> dict[str, dict]:
    """The finished wheels on the head: {digest: record}"""
    each = "basename $each; tr -d '\\n' < $each/record.json; echo"
    lines = shell(HEAD, f"for each in {FOLDER}/wheels/*; do {each}; done").splitlines()
    return {name: json.loads(text) for name, text in zip(lines[::2], lines[1::2], strict=True)}


def objects() -> list[str]:
    return shell(HEAD, OBJECTS, check=False).split()


def is_going() -> bool:
    return shell(HEAD, f"systemctl is-active {UNIT}", check=False) == "active"


@contextmanager
def running(*words: str):
    """A run in the background, as far as some objects of the large wheel are made. It is ended at the latest here."""
    command = ["ansible-playbook", "-i", str(INVENTORY), "-i", str(OWN), str(PROJECT / CONVERGE), *words]
    with open(WORK / "run.log", "wb") as log:
        process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env={**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            wait_for("some objects", lambda: len(objects()) >= ENOUGH, pause_s=0.5)
            assert is_going() and process.poll() is None, said()
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def said() -> str:
    return flat((WORK / "run.log").read_text(errors="replace"))


def compiled_again(made: list[str]) -> list[str]:
    """Which of these objects the last command of the log compiled once more."""
    log = shell(HEAD, f"cat $(ls -t {FOLDER}/log/pycryptodome-*.log | head -n 1)")
    last = log.rpartition("\n$ ")[2]
    built = {name.rpartition(".")[2] for name in re.findall(r"building '(\S+)' extension", last)}
    assert built, "the log tells what was compiled"
    return [name for name in made if name.partition(".")[0] in built]


# -- what the first run made


def test_both_ranks_have_what_was_compiled_on_the_head():
    both_have("3.23.0")
    ask = (
        "import markupsafe._speedups, Crypto.Cipher.AES as aes; "
        "print(aes.new(b'k' * 16, aes.MODE_ECB).encrypt(b'p' * 16).hex())"
    )
    answers = {shell(node, f'{environment(node)}/bin/python -c "{ask}"') for node in NODES}
    assert len(answers) == 1
    assert {record["name"] for record in records().values()} == {"markupsafe", "pycryptodome"}
    for record in records().values():
        assert any(re.match(r"gcc: gcc .*\d", line) for line in record["tools"]), record
        for node in NODES:
            told = shell(node, f"sha256sum /var/lib/tandem/wheelhouse/{record['file']}")
            assert told.split()[0] == record["sha256"]
    assert "building 'Crypto" in shell(HEAD, f"cat {FOLDER}/log/pycryptodome-*.log")
    assert shell(WORKER, f"ls {FOLDER}", check=False) == "", "the worker compiles nothing"
    # Nothing of the index's own wheels came along: they have other bytes.
    lists = (PROJECT / "molecule/build/lab-engine.txt").read_text()
    assert all(record["sha256"] not in lists for record in records().values())


def test_the_unit_is_not_roots():
    mine = f"journalctl --no-pager --output=export _SYSTEMD_UNIT={UNIT} | grep -a '^_UID=' | sort -u"
    assert shell(HEAD, mine) == f"_UID={shell(HEAD, 'id -u tandem')}"
    assert shell(HEAD, f"stat -c %U {FOLDER}/wheels/*/record.json | sort -u") == "tandem"


def test_the_toolkit_is_there_and_the_driver_did_not_move():
    for node in NODES:
        assert "release 13.2" in shell(node, "/usr/local/cuda-13.2/bin/nvcc --version")
        assert shell(node, "dpkg-query -W -f '${Version}' nvidia-driver-580-open").startswith("580.142")
        assert "nvidia-driver" not in shell(node, "apt-get -s dist-upgrade")
        free = shell(node, "apt-get -s -o Dir::Etc::preferencesparts=/nonexistent dist-upgrade")
        assert "Inst nvidia-driver-580-open" in free, "without the pins it would move"
        refused = shell(node, "apt-get -s install cuda-13-2 2>&1", check=False)
        assert "cuda-drivers" in refused and "unmet" in refused
    assert "1.95.0" in shell(HEAD, "/opt/tandem/rust/toolchains/*/bin/cargo --version")
    assert shell(WORKER, "ls /opt/tandem/rust", check=False) == "", "only the rank that builds needs it"


def test_a_second_run_builds_nothing_and_asks_little():
    before, begun = shell(HEAD, WHEELS), shell(HEAD, BEGUN)
    run = converge()
    assert run.code == 0 and run.changed == dict.fromkeys(NODES, 0), run.text
    assert (shell(HEAD, WHEELS), shell(HEAD, BEGUN)) == (before, begun)
    # One more than a profile of wheels: whether toolkit and compilers are there.
    assert run.payloads and all(count <= 6 for count in run.payloads.values()), run.payloads


# -- what is refused


def test_another_key_is_refused():
    mirror = {"uri": "file:///srv/lab/cuda/", "key": "lab.pub", "fingerprint": "0" * 40}
    key = "sha256sum /etc/apt/keyrings/tandem-cuda.asc"
    before = shell(WORKER, key)
    run = converge("-e", json.dumps({"tandem_cuda_repository": mirror}))
    assert run.code != 0 and "[build.repository.key]" in flat(run.text), run.text
    assert shell(WORKER, key) == before


def test_a_package_that_brings_a_driver_is_refused():
    told = {**build(), "packages": ["cuda-toolkit-13-2", "cuda-13-2"]}
    before = shell(HEAD, "dpkg-query -W | sha256sum")
    run = converge("-e", json.dumps({"tandem_profile_overrides": {"runtime": {"build": told}}}))
    assert run.code != 0 and "cuda-drivers" in run.text
    assert shell(HEAD, "dpkg-query -W | sha256sum") == before


def test_an_archive_with_another_hash_is_not_built():
    run = converge(*overridden(sha256="0" * 64))
    assert run.code != 0 and "[build.source.missing]" in flat(run.text), run.text
    assert "Expected sha256 0000" in flat(run.text)


def test_too_little_room_is_told_before_anything_is_begun():
    begun = shell(HEAD, BEGUN)
    run = converge(*overridden(turn="room", disk_gib=1e6))
    assert run.code != 0 and "[build.disk.short]" in flat(run.text), run.text
    assert shell(HEAD, BEGUN) == begun


def test_only_the_head_builds():
    run = converge(*overridden(turn="limit"), "--limit", WORKER)
    assert run.code != 0 and "[build.head.absent]" in flat(run.text), run.text


SERVES = """set -e
printf '[Service]\\nExecStart=/usr/bin/sleep infinity\\n' > /etc/systemd/system/tandem-head.service
systemctl daemon-reload; systemctl start tandem-head.service"""
SERVES_NO_MORE = """systemctl stop tandem-head.service; rm -f /etc/systemd/system/tandem-head.service
systemctl daemon-reload"""


def test_beside_an_engine_it_wants_consent(tmp_path):
    shell(HEAD, SERVES)
    try:
        begun = shell(HEAD, BEGUN)
        run = converge(*overridden(turn="serves"))
        assert run.code != 0 and "[build.engine.serves]" in flat(run.text), run.text
        assert "-e tandem_build=allowed" in flat(run.text) and shell(HEAD, BEGUN) == begun
        allowed = converge(*overridden(turn="serves"), "-e", "tandem_build=allowed", "--check", "-v")
        assert allowed.code == 0 and "pycryptodome would be built" in flat(allowed.text), allowed.text
        (tmp_path / "consent.yml").write_text("tandem: {vars: {tandem_build: allowed}}\n")
        inventory = converge(*overridden(turn="serves"), "-i", str(tmp_path / "consent.yml"))
        assert inventory.code != 0 and "in the inventory" in flat(inventory.text), inventory.text
    finally:
        shell(HEAD, SERVES_NO_MORE)


# -- cut off


def test_a_killed_build_goes_on_where_it_was():
    words = overridden(turn="killed")
    with running(*words) as process:
        shell(HEAD, f"systemctl kill --signal=KILL {UNIT}")
        process.wait(60)
    made = objects()
    assert process.returncode != 0 and "[build.unit.interrupted]" in said(), said()
    run = converge(*words)
    assert run.code == 0 and "pycryptodome: goes on where it was" in flat(run.text), run.text
    assert len(compiled_again(made)) <= len(made) - 4, "only what was young is made again"
    both_have("3.23.0")


def test_a_controller_that_goes_away_leaves_the_build_alone():
    words = overridden(turn="lost")
    with running(*words) as process:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert is_going()
        inside = f"nsenter --net=/proc/$(systemctl show --value -p MainPID {UNIT})/ns/net"
        links = shell(HEAD, f"{inside} ip -o link").splitlines()
        assert len(links) == 1 and " lo:" in links[0], "it sees no network"
        invocation = shell(HEAD, f"systemctl show --value -p InvocationID {UNIT}")
        run = converge(*words)
    assert run.code == 0 and "a build works here already: follows it" in flat(run.text), run.text
    ran = f"journalctl --no-pager --output=cat _SYSTEMD_INVOCATION_ID={invocation}"
    assert "pycryptodome-3.23.0" in shell(HEAD, ran), "the same unit brought it to its end"
    both_have("3.23.0")


def test_another_build_does_not_begin_beside_it():
    with running(*overridden(turn="first")):
        run = converge(*overridden(turn="second"))
        assert run.code != 0 and "[build.unit.other]" in flat(run.text), run.text
        assert is_going()
        shell(HEAD, f"systemctl stop {UNIT}")


def test_a_node_that_reboots_goes_on():
    words = overridden(turn="reboot")
    with running(*words):
        lab("reboot", HEAD)
        assert not is_going(), "nothing of it starts by itself"
    run = converge(*words)
    assert run.code == 0, run.text
    found = re.search(r"pycryptodome: goes on where it was; (\d+) files that were young", flat(run.text))
    assert found and int(found[1]) >= ENOUGH, (
        "after a boot nothing counts that the disk was not made to write"
    )
    both_have("3.23.0")


MOUNT = f"mount -t tmpfs -o size=600M tmpfs {FOLDER} && chown tandem: {FOLDER}"
ROOM = f"df --output=avail -B1 {FOLDER} | tail -n 1"


def test_a_full_disk_ends_it_and_room_lets_it_go_on():
    """On a file system of its own, where the wheel that the other one needs is not there either."""
    words = overridden(turn="disk", disk_gib=0.1)
    shell(HEAD, MOUNT)
    try:
        with running(*words) as process:
            shell(HEAD, f"fallocate -l $(($({ROOM}) - 30000000)) {FOLDER}/filler")
            process.wait(60)
        assert process.returncode != 0 and "[build.disk.low]" in said(), said()
        made = objects()
        shell(HEAD, f"rm {FOLDER}/filler")
        run = converge(*words)
        assert run.code == 0 and "pycryptodome: goes on where it was" in flat(run.text), run.text
        assert len(compiled_again(made)) <= len(made) - 4
        both_have("3.23.0")
    finally:
        shell(HEAD, f"umount {FOLDER}", check=False)


# -- another pin


def test_one_pin_rebuilds_what_depends_on_it_and_is_another_engine():
    before, old = records(), {node: environment(node) for node in NODES}
    run = converge(*overridden(ciphers="3.22.0"))
    assert run.code == 0, run.text
    both_have("3.22.0")
    new = {name: record for name, record in records().items() if name not in before}
    assert [record["name"] for record in new.values()] == ["pycryptodome"]
    assert all(environment(node) != old[node] for node in NODES)
    assert run.changed == {HEAD: 2, WORKER: 1}, "built on one, installed on both"


def test_the_pin_of_before_is_not_built_again():
    begun, there = shell(HEAD, BEGUN), shell(HEAD, "ls /opt/tandem/runtime")
    run = converge()
    assert run.code == 0 and run.changed == dict.fromkeys(NODES, 0), run.text
    assert (shell(HEAD, BEGUN), shell(HEAD, "ls /opt/tandem/runtime")) == (begun, there)


def test_wheels_that_the_controller_lost_come_from_the_head():
    begun = shell(HEAD, BEGUN)
    shutil.rmtree(WORK / "cache" / "built")
    run = converge(*overridden(ciphers="3.22.0"))
    assert run.code == 0 and "takes pycryptodome-3.22.0" in flat(run.text), run.text
    assert shell(HEAD, BEGUN) == begun


def test_nothing_half_done_is_left():
    assert shell(HEAD, f"ls {FOLDER}/work") == ""
    names = [record["name"] for record in records().values()]
    assert names.count("pycryptodome") <= 2 and names.count("markupsafe") == 1, "older ones made room"
