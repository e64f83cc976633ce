# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pair from its own processes to containers and back, over a real Docker. The order counts."""

from __future__ import annotations

import json

import pytest
from hands import NODES, Run, ask, play, shell
from recovery import HEAD, UNITS, WORKER, suffer

NAME, TAG = "127.0.0.1:5000/lab/engine", "1"
LICENCE = "the lab's"
RANK = {HEAD: "tandem-head", WORKER: "tandem-worker"}
REGISTRY = """set -e
cat > /srv/lab-registry.yml <<'END'
version: 0.1
storage: {filesystem: {rootdirectory: /var/lib/docker/lab-registry}}
http: {addr: 127.0.0.1:5000}
END
systemd-run --quiet --unit=lab-registry docker-registry serve /srv/lab-registry.yml
until curl -s http://127.0.0.1:5000/v2/; do sleep 0.2; done
"""
# The engine of the rehearsal as it is installed here, at another path, with what it needs of the node's system. Its
# author left two variables of a node of theirs in it.
IMAGE = f"""set -e
engine=$(readlink -f /opt/tandem/current/runtime)
work=/srv/lab-image
rm -rf $work
mkdir -p $work/opt $work/etc $work/tmp $work/mnt
chmod 1777 $work/tmp
cp -al "$engine" $work/opt/engine
for each in $work/opt/engine/bin/*; do
  if [ -f "$each" ] && [ ! -L "$each" ] && head -c 400 "$each" | grep -aq "$engine"; then
    sed -i "s|$engine|/opt/engine|g" "$each"
  fi
done
echo root:x:0:0:root:/root:/bin/sh > $work/etc/passwd
echo root:x:0: > $work/etc/group
tar -c --one-file-system --exclude=usr/share/doc --exclude=usr/share/locale --exclude=usr/share/man \
    --exclude='usr/*bin/docker*' --exclude='usr/*bin/containerd*' \
    -C / usr bin sbin lib lib64 etc/ld.so.conf etc/ld.so.conf.d etc/ld.so.cache etc/alternatives etc/ssl \
    -C $work opt etc/passwd etc/group tmp mnt |
  docker import --change 'ENV PATH=/opt/engine/bin:/usr/bin:/bin' \
    --change 'ENV NCCL_IB_HCA=author' --change 'ENV NCCL_IB_ROCE_VERSION_NUM=1' - {NAME}:{TAG} >/dev/null
docker push --quiet {NAME}:{TAG} >/dev/null
docker image inspect --format '{{{{index .RepoDigests 0}}}}' {NAME}:{TAG} > /srv/lab-digest
docker image rm --force "$(docker image inspect --format '{{{{.Id}}}}' {NAME}:{TAG})" >/dev/null
rm -rf $work
mkdir -p /srv/lab-word && echo overlaid > /srv/lab-word/word
sed 's/.*@//' /srv/lab-digest
"""
# What a container leaves: itself, who watches over it, its root, and what the units keep of it.
LEFT = """docker ps -aq
ps -eo comm | grep containerd-shim
grep ' /var/lib/docker/' /proc/self/mounts
ls /run/tandem/*.cid /run/tandem/tandem-*.env 2>/dev/null
"""
NATIVE = "ps -eo args | grep '[/]opt/tandem/runtime/[^ ]*/bin/'"


@pytest.fixture(scope="module")
def digest() -> str:
    """The image lies in the registry on the head, and nowhere else."""
    shell(HEAD, REGISTRY)
    return shell(HEAD, IMAGE)


def words(digest: str, **more) -> tuple[str, str]:
    """Words of a command line that want the engine in its container."""
    runtime = {
        "kind": "container",
        "lock": None,
        "made_here": None,
        "python": None,
        "image": {"name": f"{NAME}:{TAG}", "digest": digest, "licence": LICENCE},
        "overlay": {
            # vLLM 0.32 has what it does: nothing is changed.
            "patches": [{"tree": "vllm", "only": ["moe-padding-bound.patch"]}],
            "trees": [{"what": "a word", "from": "/srv/lab-word", "to": "/mnt/word"}],
        },
    }
    profile = {"base": "rehearsal", "summary": "the rehearsal's engine in a container", "runtime": runtime}
    told = {
        "tandem_profile": "lab-container",
        "tandem_profiles": {"lab-container": profile},
        "tandem_accept_licenses": [LICENCE],
    }
    return "-e", json.dumps({**told, **more})


def site(*told: str) -> Run:
    return play("site.yml", *told)


def inspect(node: str, what: str) -> str:
    return shell(node, f"docker inspect --format '{{{{{what}}}}}' {RANK[node]}")


def variables(text: str) -> dict[str, str]:
    """Of `env`, or of a file as systemd reads it."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name: value.strip('"') for name, value in pairs}


def test_a_licence_that_nobody_accepted_pulls_nothing(digest):
    run = site(*words(digest, tandem_accept_licenses=[]))
    assert run.code != 0 and "container.image.licence" in run.text, run.text
    assert {shell(node, "docker image ls -aq") for node in NODES} == {""}


def test_the_pair_changes_to_containers_and_nothing_of_before_is_left(digest):
    run = site(*words(digest))
    assert run.code == 0 and "PROVEN" in run.text, run.text
    assert "391" in ask()
    for node in NODES:
        assert shell(node, "docker ps -a --format '{{.Names}}'") == RANK[node]
        assert shell(node, NATIVE, check=False) == ""
        assert shell(node, "tandem status >/dev/null; echo $?") == "0"


def test_both_ranks_have_the_same_image_and_one_of_them_pulled_it(digest):
    assert inspect(HEAD, ".Image") == inspect(WORKER, ".Image")
    pulled = f"docker image inspect {NAME}@{digest} >/dev/null 2>&1; echo $?"
    assert (shell(HEAD, pulled), shell(WORKER, pulled)) == ("0", "1")
    for node in NODES:
        record = json.loads(shell(node, "cat /opt/tandem/current/runtime/container.json"))
        assert record["image"] == inspect(node, ".Image") and record["packages"]["vllm"] == "0.32.0+cpu"
        assert shell(node, f"docker exec {RANK[node]} cat /mnt/word/word") == "overlaid"
        # The pieces were for the way alone.
        assert shell(node, "find /var/lib/tandem/images -type f 2>/dev/null | wc -l") == "0"


def test_a_second_run_changes_nothing(digest):
    before = [inspect(node, ".Id") for node in NODES]
    run = site(*words(digest))
    assert run.code == 0 and run.changed == dict.fromkeys(NODES, 0), run.text
    assert [inspect(node, ".Id") for node in NODES] == before


def test_the_engine_has_its_own_account_its_node_s_variables_and_the_unit_s_journal():
    for node in NODES:
        status = shell(node, f"cat /proc/{inspect(node, '.State.Pid')}/status")
        fields = dict(line.split(":", 1) for line in status.splitlines())
        assert fields["Uid"].split()[0] == shell(node, "id -u tandem")
        assert int(fields["CapBnd"], 16) == 1 << 14 and fields["NoNewPrivs"].strip() == "1"  # CAP_IPC_LOCK
        # All that the node has to give, which is no end of it where the machine beneath it may say so.
        locked = "grep 'Max locked' /proc/{}/limits"
        assert shell(node, locked.format(inspect(node, ".State.Pid"))) == shell(node, locked.format(1))
        asked = json.loads(
            shell(node, f"docker inspect --format '{{{{json .HostConfig.Ulimits}}}}' {RANK[node]}")
        )
        assert {"Name": "memlock", "Hard": -1, "Soft": -1} in asked
        inside = variables(shell(node, f"docker exec {RANK[node]} env"))
        fabric = variables(shell(node, "cat /run/tandem/fabric.env"))
        for name in ("NCCL_IB_HCA", "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_GID_INDEX", "GLOO_SOCKET_IFNAME"):
            assert inside.get(name) == fabric.get(name), name
        assert inspect(node, ".HostConfig.LogConfig.Type") == "none"
        assert inspect(node, ".HostConfig.RestartPolicy.Name") == "no"
        main = shell(node, f"systemctl show -P MainPID {UNITS[node]}")
        client = shell(node, f"tr '\\0' ' ' < /proc/{main}/cmdline")
        assert client.startswith("docker run --rm ") and "VLLM_CPU_KVCACHE_SPACE=" not in client
        said = shell(node, f"journalctl --no-pager -o cat -u {UNITS[node]} | tail -n 400")
        assert "vllm" in said.lower()


def test_a_release_that_answers_nonsense_is_rejected_and_the_container_of_before_is_back(digest):
    before = [shell(node, "readlink /opt/tandem/current; cat /var/lib/tandem/applied") for node in NODES]
    run = site(*words(digest, tandem_checkpoint_path="/srv/models/lab-count"))
    assert run.code != 0 and "degenerate" in run.text and "is back and proved again" in run.text, run.text
    now = [shell(node, "readlink /opt/tandem/current; cat /var/lib/tandem/applied") for node in NODES]
    assert now == before and "391" in ask()


def test_an_engine_that_is_killed_in_its_container():
    told = suffer(
        "container: engine of the worker killed (docker kill)",
        lambda: shell(WORKER, "docker kill tandem-worker"),
    )
    assert told.wrong == 0, told


def test_a_client_that_is_killed_leaves_no_container_beside_the_next_one():
    before = inspect(HEAD, ".Id")
    client = f"kill -KILL $(systemctl show -P MainPID {UNITS[HEAD]})"
    told = suffer("container: Docker's client of the head killed (SIGKILL)", lambda: shell(HEAD, client))
    assert told.wrong == 0, told
    assert inspect(HEAD, ".Id") != before
    assert shell(HEAD, "docker ps -aq | wc -l") == "1"


def test_a_container_of_somebody_else_is_named():
    image = inspect(WORKER, ".Image")
    how = "--name=their-vllm --network=host --restart=always --entrypoint=sleep"
    shell(WORKER, f"docker run -d {how} {image} 3600")
    try:
        told = play("playbooks/doctor.yml")
        assert "container.foreign.restarts" in told.text, told.text
        assert "docker update --restart=no their-vllm" in " ".join(told.text.split())
    finally:
        shell(WORKER, "docker rm -f their-vllm")


def test_back_to_processes_and_nothing_of_a_container_is_left():
    run = play("playbooks/rollback.yml")
    assert run.code == 0, run.text
    assert "391" in ask()
    for node in NODES:
        assert shell(node, LEFT, check=False) == ""
        assert shell(node, NATIVE)


def test_uninstall_takes_the_images_that_were_brought():
    run = play("playbooks/uninstall.yml", "-e", "tandem_uninstall=allowed")
    assert run.code == 0, run.text
    assert {node: shell(node, "docker image ls -aq") for node in NODES} == dict.fromkeys(NODES, "")
