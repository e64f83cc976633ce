# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of a lab, and how ssh and Ansible find its nodes.

Host keys are known in advance, so checking stays on.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from settings import MANAGEMENT_NETWORK, Lab, Node
from system import run, within


def make_keys(lab: Lab) -> None:
    """One key for whoever manages the nodes, one per node for its sshd."""
    make_key(key(lab))
    for node in lab.nodes():
        make_key(lab.directory / f"host-{node.name}")
    lines = []
    for node in lab.nodes():
        kind, public = (lab.directory / f"host-{node.name}.pub").read_text().split()[:2]
        lines.append(f"{node.address},{node.name} {kind} {public}\n")
    (lab.directory / "known_hosts").write_text("".join(lines))


def make_key(path: Path) -> None:
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tandem-lab", "-f", path])


def key(lab: Lab) -> Path:
    return lab.directory / "id_ed25519"


def install(node: Node, root: Path) -> None:
    """Give a node its host key and let the lab's key in as root."""
    for suffix, mode in (("", 0o600), (".pub", 0o644)):
        target = root / f"etc/ssh/ssh_host_ed25519_key{suffix}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(node.lab.directory / f"host-{node.name}{suffix}", target)
        target.chmod(mode)
    ssh = root / "root/.ssh"
    ssh.mkdir(parents=True)
    for folder in (root / "root", ssh):
        folder.chmod(0o700)
    shutil.copyfile(key(node.lab).with_suffix(".pub"), ssh / "authorized_keys")
    (ssh / "authorized_keys").chmod(0o600)


def proxy(lab: Lab) -> str:
    """The controller has no address in the lab: it speaks from the client's namespace."""
    return " ".join(within(lab.client, "socat", "-", "TCP:%h:%p"))


def serving(ranks: int) -> str:
    """What so many ranks serve, as the inventory says it: the profile, and the checkpoint of six heads, are for two."""
    if ranks == 2:
        return "    tandem_profile: rehearsal\n    tandem_checkpoint_path: /srv/models/lab\n"
    name = f"rehearsal-{ranks}"
    return f"""    tandem_profile: {name}
    tandem_profiles:
      {name}:
        base: rehearsal
        tensor_parallel_size: {ranks}
    tandem_checkpoint_path: /srv/models/{"lab" if ranks < 2 else "lab-8-heads"}
"""


def write_files(lab: Lab) -> tuple[Path, Path]:
    """Write the Ansible inventory and the ssh configuration; their paths."""
    ssh_config, inventory = lab.directory / "ssh_config", lab.directory / "inventory" / "hosts.yml"
    hosts = "".join(f"Host {node.name}\n  HostName {node.address}\n" for node in lab.nodes())
    ssh_config.write_text(
        hosts
        + f"""Host *
  User root
  IdentityFile {key(lab)}
  IdentitiesOnly yes
  UserKnownHostsFile {lab.directory / "known_hosts"}
  StrictHostKeyChecking yes
  ProxyCommand {proxy(lab)}
"""
    )
    inventory.parent.mkdir(exist_ok=True)
    hosts = "".join(f"    {node.name}:\n      ansible_host: {node.address}\n" for node in lab.nodes())
    inventory.write_text(f"""# Written by molecule/lab/lab.py for lab {lab.name}: edits are lost.
tandem:
  hosts:
{hosts}  vars:
    ansible_user: root
    ansible_ssh_private_key_file: {key(lab)}
    # Nodes of two labs have the same addresses, by which Ansible would name the sockets of its connections.
    ansible_control_path_dir: {lab.directory / "control"}
    ansible_ssh_common_args: >-
      -o IdentitiesOnly=yes -o UserKnownHostsFile={lab.directory / "known_hosts"} -o StrictHostKeyChecking=yes
      -o ProxyCommand="{proxy(lab)}"
    # The tests ask from the management network; test_18_access.py closes what is open here.
    tandem_api_auth: open
    tandem_access_guard_from: [{MANAGEMENT_NETWORK}.0/24]
{serving(len(lab.nodes()))}""")
    return inventory, ssh_config
