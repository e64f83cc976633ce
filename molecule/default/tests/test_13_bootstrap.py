# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that know only a password let the controller's key in, and their sudo asks no more."""

from __future__ import annotations

import pytest
import yaml
from hands import ansible

from conftest import INVENTORY, NODES, shell

ACCOUNT = "newcomer"
PASSWORD = "orange-4711"
ANOTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
GONE = f"""rm -f /etc/sudoers.d/90-tandem
for _each in 1 2 3 4 5 6; do pkill -KILL -u {ACCOUNT}; userdel -r {ACCOUNT} && break; sleep 0.5; done"""


@pytest.fixture
def newcomer(tmp_path):
    """Words of a command line for an account with a password, on nodes whose host keys were never seen."""
    for node in NODES:
        shell(node, f"useradd -m -s /bin/bash -G sudo {ACCOUNT} && echo {ACCOUNT}:{PASSWORD} | chpasswd")
    hosts = yaml.safe_load((INVENTORY / "hosts.yml").read_text())
    known = hosts["tandem"]["vars"]
    proxy = known["ansible_ssh_common_args"].partition("-o ProxyCommand")[2]
    known.update(
        ansible_user=ACCOUNT,
        ansible_become=True,
        ansible_ssh_private_key_file=str(tmp_path / "key"),
        ansible_control_path_dir=str(tmp_path / "control"),
        ansible_ssh_common_args=f"-o UserKnownHostsFile={tmp_path}/known_hosts -o ProxyCommand{proxy}",
    )
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(hosts))
    yield tmp_path
    for node in NODES:
        shell(node, GONE, check=False)


def bootstrap(folder, *words):
    return ansible("ansible-playbook", "-i", str(folder / "hosts.yml"), "tandem.spark.bootstrap", *words)


def passwords(folder, word=PASSWORD):
    file = folder / "password"
    file.write_text(f"{word}\n")
    return "--connection-password-file", str(file), "--become-password-file", str(file)


def test_a_password_becomes_a_key_and_sudo_and_host_keys_are_kept(newcomer):
    refused = bootstrap(newcomer, "--limit", NODES[0], *passwords(newcomer, "wrong"))
    assert refused.code != 0 and "Permission denied" in refused.text
    first = bootstrap(newcomer, *passwords(newcomer))
    assert first.code == 0 and min(first.changed.values()) > 0, first.text
    assert PASSWORD not in first.text
    # From here on the key does.
    again = bootstrap(newcomer)
    assert again.code == 0 and again.changed == dict.fromkeys(NODES, 0), again.text
    known = newcomer / "known_hosts"
    hosts = {line.split()[0] for line in known.read_text().splitlines()}
    assert len(hosts) == len(NODES)
    # As when another machine answers at the address.
    known.write_text("".join(f"{host} {ANOTHER}\n" for host in hosts))
    for socket in (newcomer / "control").glob("*"):
        socket.unlink()
    refused = bootstrap(newcomer)
    assert refused.code != 0 and "Host key verification failed" in refused.text, refused.text
