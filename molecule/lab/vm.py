# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One virtual machine: what it is given at its creation, its power switch, its cables, and the way in."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

import access
import management
import settings
import vm_image
from node import greets, write
from settings import LabError, Node
from system import find_process, inside_network, ip, kill, run, wait_until, within

# Emulated, a boot takes a minute of processor time. A machine that does other things meanwhile needs patience, and an
# sshd that is asked too often refuses everybody.
BOOT_TIMEOUT_S = 1200
GREETING_TIMEOUT_S = 30
MEMORY_MIB = 1024
CPU = "qemu64"  # emulated, what newer ones add (AVX) is slower than to go without
# vm_image/ gives the interfaces their names by these slots of the PCI bus. The first is eth0 to the kernel too: a name
# that another interface has cannot be given.
SLOTS = dict(zip((settings.MANAGEMENT, *settings.RAILS), range(0x10, 0x13), strict=True))
COMMAND_LINE = "root=/dev/vda rw console=ttyS0 quiet mitigations=off no_timer_check systemd.hostname="


def image(node: Node) -> Path:
    return Path(node.lab.description()["layers"][0])


def create(node: Node) -> None:
    """A disk that keeps what differs from the image's, an archive of the node's own files, and a port for eth0."""
    node.directory.mkdir(parents=True)
    base = image(node) / vm_image.DISK
    disk = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, node.directory / "disk.qcow2"]
    run(disk)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        access.install(node, root)
        names = "".join(f"{other.address} {other.name}\n" for other in node.lab.nodes())
        write(root / "etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {node.name}\n::1 localhost\n{names}")
        path, text = management.FILES["networkd"]
        gateway = node.lab.client_address
        write(root / path, text.format(name=settings.MANAGEMENT, address=node.address, gateway=gateway))
        root.chmod(0o755)
        with tarfile.open(node.directory / "files.tar", "w") as archive:
            archive.add(root, ".")
    ip(
        node.lab.client,
        f"tuntap add dev {node.name} mode tap",
        f"link set {node.name} up master management",
    )


def plug(node: Node, rail: str) -> Path:
    """The socket at which a node receives what its peer sends on a rail."""
    return node.directory / f"{rail}.socket"


def command(node: Node) -> list[str | Path]:
    """QEMU's command line; it ends with what tells machines apart.

    Emulated unless LAB_ACCEL says kvm: a /dev/kvm that is there may still not run a guest.
    """
    (peer,) = [other for other in node.lab.nodes() if other != node]
    folder = node.directory
    words: list[str | Path] = ["qemu-system-x86_64", "-name", node.name, "-nodefaults", "-no-user-config"]
    accelerator = os.environ.get("LAB_ACCEL", "tcg")
    words += ["-machine", "q35", "-accel", accelerator, "-cpu", CPU, "-smp", "1", "-m", str(MEMORY_MIB)]
    words += ["-display", "none", "-serial", f"file:{node.console}"]
    words += ["-qmp", f"unix:{folder}/qmp,server=on,wait=off"]
    words += ["-kernel", image(node) / vm_image.KERNEL, "-initrd", image(node) / vm_image.INITRD]
    words += ["-append", f"{COMMAND_LINE}{node.name}"]
    words += ["-drive", f"if=virtio,format=qcow2,cache=unsafe,file={folder}/disk.qcow2"]
    words += ["-drive", f"if=virtio,format=raw,readonly=on,file={folder}/files.tar"]
    words += ["-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng"]
    for rail in settings.RAILS:
        here, there = plug(node, rail), plug(peer, rail)
        ends = f"local.type=unix,local.path={here},remote.type=unix,remote.path={there}"
        words += ["-netdev", f"dgram,id={rail},{ends}"]
    words += ["-netdev", f"tap,id={settings.MANAGEMENT},ifname={node.name},script=no,downscript=no"]
    for port, (name, slot) in enumerate(SLOTS.items(), start=1):
        # No host_mtu: the guest starts at 1500, as a factory machine does.
        words += ["-device", f"virtio-net-pci,netdev={name},mac={node.mac(port)},addr={slot:#x},romfile="]
    return [*words, *ending(node)]


def ending(node: Node) -> tuple[str, str]:
    return "-pidfile", str(node.directory / "pid")


def power_on(node: Node) -> None:
    if is_on(node):
        return
    with open(node.directory / "qemu.log", "ab") as log:
        subprocess.Popen(
            within(node.lab.client, *command(node)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    wait_until(lambda: is_on(node), 10, f"QEMU for {node.name}; it said why in {log.name}")


def is_on(node: Node) -> bool:
    return find_process(ending(node)) is not None


def power_off(node: Node) -> None:
    """Pull the plug."""

    def is_dead() -> bool:
        pid = find_process(ending(node))
        if pid:
            kill(pid)
        return pid is None

    wait_until(is_dead, 10, f"the end of {node.name}")


def wait_for_ssh(node: Node, timeout_s: float = BOOT_TIMEOUT_S) -> None:
    def answers() -> bool:
        if not is_on(node):
            raise LabError(f"{node.name} went off while it booted; see {node.console} and qemu.log beside it")
        return greets(node.address, GREETING_TIMEOUT_S)

    with inside_network(node.lab.client):
        wait_until(answers, timeout_s, f"ssh of {node.name}; its console is in {node.console}", interval_s=2)


def set_link(node: Node, rail: str, up: bool) -> None:
    """The carrier of one end of a rail, as the guest sees it."""
    ask(node, "set_link", name=rail, up=up)


def ask(node: Node, order: str, **arguments) -> dict:
    """One command of QEMU's machine protocol, and its answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        try:
            connection.connect(os.fspath(node.directory / "qmp"))
        except OSError as error:
            raise LabError(f"{node.name} is off ({error}): 'vms.py up' starts it") from None
        with connection.makefile("rw") as stream:
            for each in ({"execute": "qmp_capabilities"}, {"execute": order, "arguments": arguments}):
                print(json.dumps(each), file=stream, flush=True)
                answer = reply(stream)
    if "return" not in answer:
        raise LabError(f"{node.name}: {order} {arguments}: {answer.get('error', 'no answer')}")
    return answer["return"]


def reply(stream) -> dict:
    """The next answer; greetings and events pass by."""
    for line in stream:
        with suppress(ValueError):
            read = json.loads(line)
            if "return" in read or "error" in read:
                return read
    return {}


def execute(node: Node, words: list[str]) -> int:
    """Run a command in the machine, by ssh as Ansible does."""
    config = node.lab.directory / "ssh_config"
    # One login for many commands: emulated, a key exchange takes seconds.
    again = ["-o", "ControlMaster=auto", "-o", "ControlPersist=300"]
    again += ["-o", f"ControlPath={node.directory}/ssh", "-o", "BatchMode=yes"]
    return subprocess.run(["ssh", "-F", config, *again, node.name, *words]).returncode
