# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything of this collection goes from a node, nothing of others does, and what is missing already is no trouble."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import removal
from ansible_collections.tandem.spark.plugins.module_utils.commands import Answer

PASSWD = "root:x:0:0:root:/root:/bin/bash\ntandem:x:998:998::/var/cache/tandem:/usr/sbin/nologin\n"
OURS = (
    "etc/systemd/system/tandem-guard.service",
    "etc/systemd/system/tandem-clock-cap.service",
    "etc/systemd/system/earlyoom.service.d/90-tandem.conf",
    "etc/systemd/logind.conf.d/90-tandem.conf",
    "run/tandem-telemetry.stop",
    "run/tandem/fabric.env",
    "opt/tandem/bin/tandem",
    "etc/tandem/guard.secret",
    "var/cache/tandem/0123456789abcdef/triton/x",
    "var/lib/tandem/history.jsonl",
)
OTHERS = (
    "etc/systemd/system/dbus.service",
    "etc/systemd/system/tandem-bicycle.service",
    "etc/systemd/system/multi-user.target.wants/cron.service",
    "usr/local/bin/other",
    "opt/other/file",
    "srv/models/lab/config.json",
    "srv/models/lab/model.safetensors",
)
LINKS = {
    "etc/systemd/system/tandem-head.service": "/opt/tandem/current/units/tandem-head.service",  # points nowhere by now
    "etc/systemd/system/multi-user.target.wants/tandem-guard.service": "/etc/systemd/system/tandem-guard.service",
    "etc/systemd/system/tandem-head.service.wants/tandem-clock-cap.service": "x",
    "usr/local/bin/tandem": "/opt/tandem/bin/tandem",
}


class Pretend(removal.Host):
    """refuses: words of a command -> what it says when it fails."""

    def __init__(self, root: Path):
        super().__init__(root)
        self.up = ["tandem-guard.service", "tandem-head.service", "tandem-clock-cap.service"]
        self.said: list[list[str]] = []
        self.refuses: dict[str, str] = {}
        self.mounts = ""
        self.takes = "Purg nftables [1.0]\n"
        self.has_table = False

    def units(self):
        known = (*removal.UNITS, removal.APT_UNIT)
        return {name: {"active": "active" if name in self.up else "inactive"} for name in known}

    def ask(self, argv, timeout_s=60):
        self.said.append(list(argv))
        for words, why in self.refuses.items():
            if words in " ".join(argv):
                return Answer(1, why)
        if argv[:2] == ["systemctl", "stop"]:
            self.up.remove(argv[2])
        if argv[0] == removal.firewall.NFT:
            self.has_table = False
        if argv[0] == "userdel":
            put(self.root, "etc/passwd", PASSWD.splitlines()[0] + "\n")
        return Answer(0, self.takes if "--simulate" in argv else "")

    def table(self):
        return self.has_table

    def mounted(self):
        return self.mounts

    def asked(self, *words):
        return [argv for argv in self.said if argv[: len(words)] == list(words)]


def put(root: Path, name: str, text: str = "") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.fixture
def host(tmp_path):
    for name in (*OURS, *OTHERS):
        put(tmp_path, name)
    for name, target in LINKS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(target)
    put(tmp_path, "etc/passwd", PASSWD)
    manifest = {"checkpoint": "/srv/models/lab"}
    put(tmp_path, "opt/tandem/releases/0123456789abcdef/manifest.json", json.dumps(manifest))
    return Pretend(tmp_path)


def look(host, path="", weights=False, user="tandem"):
    return removal.look(host, user, path, weights)


def left(host):
    """Every file and link of the node, but for what the pretended commands need."""
    found = [Path(folder) / name for folder, _folders, names in os.walk(host.root) for name in names]
    return {str(path.relative_to(host.root)) for path in found} - {"etc/passwd"}


def uninstall(host, **more):
    found = look(host, **more)
    removal.stop(host)
    return removal.remove(host, found)


def test_all_of_ours_goes_and_nothing_of_others(host):
    assert uninstall(host) == []
    assert left(host) == set(OTHERS)
    assert [argv[2] for argv in host.asked("systemctl", "stop")] == [
        "tandem-guard.service",
        "tandem-head.service",
        "tandem-clock-cap.service",
    ]
    for words in (
        ["systemctl", "daemon-reload"],
        ["userdel", "tandem"],
        ["systemctl", "start", "earlyoom.service"],
    ):
        assert words in host.said
    assert ["systemctl", "kill", "--signal=HUP", "systemd-logind.service"] in host.said
    # Folders that were made for a file of ours alone are gone as well.
    assert not (host.root / "etc/systemd/system/earlyoom.service.d").exists()
    assert not (host.root / "etc/systemd/logind.conf.d").exists()


def test_the_table_of_the_packet_filter_goes_though_its_unit_is_gone(host):
    host.has_table = True
    assert look(host).named("table") == ["inet tandem"]
    assert uninstall(host) == [] and not host.has_table
    host.has_table, host.refuses = True, {"delete table": "Operation not permitted\n"}
    assert uninstall(host) == ["the packet filter's table could not be removed: Operation not permitted"]


def test_a_second_time_there_is_nothing_to_do(host):
    uninstall(host)
    host.said.clear()
    assert look(host).traces == [] and uninstall(host) == [] and host.said == []


def test_the_weights_stay_unless_they_are_asked_for(host):
    found = look(host)
    assert found.named("weights") == [] and found.places == ["/srv/models/lab"]
    assert any("-e tandem_uninstall_weights=true" in why for why in found.kept)
    assert uninstall(host, weights=True) == []
    assert not (host.root / "srv/models/lab").exists() and (host.root / "srv/models").exists()


@pytest.mark.parametrize("path", ["/", "/srv", "/srv/models", "/opt/other"])
def test_what_holds_no_checkpoint_is_never_taken_for_weights(host, path):
    found = look(host, path=path, weights=True)
    assert found.named("weights") == ["/srv/models/lab"]
    assert any(why.startswith(f"{path}, which holds no checkpoint") for why in found.kept)


def test_weights_inside_a_folder_that_goes_stay_too(host):
    for name in ("config.json", "model.safetensors"):
        put(host.root, f"var/lib/tandem/models/flash/{name}")
    put(host.root, "var/lib/tandem/models/other/x")
    assert uninstall(host, path="/var/lib/tandem/models/flash") == []
    kept = {f"var/lib/tandem/models/flash/{name}" for name in ("config.json", "model.safetensors")}
    assert left(host) == {*OTHERS, *kept}
    assert look(host, path="/var/lib/tandem/models/flash").named("folder") == ["/var/lib/tandem"]
    assert uninstall(host, path="/var/lib/tandem/models/flash", weights=True) == []
    assert left(host) == set(OTHERS)


@pytest.mark.parametrize(
    ("line", "user"),
    [
        ("annlee:x:1000:1000::/home/annlee:/bin/bash", "annlee"),
        ("tandem:x:1001:1001::/var/cache/tandem:/bin/bash", "tandem"),
        ("tandem:x:997:997::/srv/other:/usr/sbin/nologin", "tandem"),
        ("tandem:cut off", "tandem"),
    ],
)
def test_an_account_of_people_stays(host, line, user):
    put(host.root, "etc/passwd", f"{line}\n")
    found = look(host, user=user)
    assert found.named("account") == []


def test_a_node_where_half_is_missing_ends_well(host):
    removal.remove(host, look(host))
    put(host.root, "var/lib/tandem/history.jsonl")
    (host.root / "usr/local/bin/tandem").symlink_to("/somewhere/else")
    host.up = []
    assert uninstall(host) == [] and not (host.root / "var/lib/tandem").exists()
    assert (host.root / "usr/local/bin/tandem").is_symlink()  # of somebody else


def test_a_unit_that_does_not_stop_keeps_everything(host):
    host.refuses["stop tandem-head.service"] = "Job timed out.\n"
    with pytest.raises(
        removal.RemovalError, match="tandem-head.service could not be stopped: Job timed out. Nothing was"
    ):
        removal.stop(host)
    assert (host.root / "opt/tandem").exists()


def test_apt_at_work_keeps_everything(host):
    host.up.append(removal.APT_UNIT)
    with pytest.raises(removal.RemovalError, match="journalctl -u tandem-driver.service"):
        removal.stop(host)
    assert host.asked("systemctl", "stop") == []


@pytest.mark.parametrize(
    ("name", "told"), [("driver.json", "the driver's holds"), ("rails-found.json", "the rails")]
)
def test_what_tells_how_to_undo_stays_until_it_is_undone(host, name, told):
    put(host.root, f"var/lib/tandem/{name}")
    (trouble,) = uninstall(host)
    assert trouble.startswith("/var/lib/tandem stays") and told in trouble
    assert (host.root / f"var/lib/tandem/{name}").exists() and not (host.root / "opt/tandem").exists()
    (host.root / f"var/lib/tandem/{name}").unlink()
    assert uninstall(host) == [] and left(host) == set(OTHERS)


def test_nothing_is_deleted_through_a_mount(host):
    host.mounts = f"30 1 0:2 / {host.root}/var/cache/tandem/0123456789abcdef rw - ext4 x rw\n"
    (trouble,) = uninstall(host)
    assert "is mounted. Unmount it" in trouble
    assert (host.root / "var/cache/tandem/0123456789abcdef/triton/x").exists()
    host.mounts = f"30 1 0:2 / {host.root}/var/cache/tandem rw - ext4 x rw\n"
    assert len(uninstall(host)) == 1
    host.mounts = f"30 1 0:2 / {host.root}/var/cache/tandem-of-others rw - ext4 x rw\n"
    assert uninstall(host) == []


def test_a_link_out_of_a_folder_is_not_followed(host):
    (host.root / "var/cache/tandem/0123456789abcdef/out").symlink_to(host.root / "opt/other")
    assert uninstall(host) == [] and (host.root / "opt/other/file").exists()


STATUS = "Package: nftables\nStatus: install ok installed\nVersion: 1.0\n"


@pytest.fixture
def with_package(host):
    put(host.root, "var/lib/tandem/packages/nftables")
    put(host.root, "var/lib/tandem/packages/gone-since")
    put(host.root, "var/lib/dpkg/status", STATUS)
    return host


def test_a_package_that_we_installed_goes(with_package):
    assert look(with_package).named("package") == ["nftables"]
    assert uninstall(with_package) == []
    assert [*removal.APT, "purge", "nftables"] in with_package.said


@pytest.mark.parametrize(
    ("takes", "why"),
    [
        ("Purg nftables [1.0]\nPurg firewalld [2.1]\n", "firewalld would go with them"),
        ("", "apt would not take them"),
    ],
)
def test_a_package_that_others_need_by_now_stays(with_package, takes, why):
    with_package.takes = takes
    found = look(with_package)
    assert found.named("package") == [] and any(why in each for each in found.kept)


def test_what_could_not_be_removed_is_told_and_all_else_is_gone(with_package):
    with_package.refuses["userdel"] = "userdel: user tandem is currently used by process 7\n"
    with_package.refuses["--yes --option=DPkg::Lock::Timeout=600 purge"] = "E: dpkg was interrupted\n"
    troubles = uninstall(with_package)
    assert "used by process 7" in " ".join(troubles) and "dpkg was interrupted" in " ".join(troubles)
    assert left(with_package) - set(OTHERS) == {
        "var/lib/dpkg/status",
        "var/lib/tandem/history.jsonl",
        "var/lib/tandem/packages/nftables",
        "var/lib/tandem/packages/gone-since",
    }
    assert (with_package.root / "opt/other/file").exists()


def test_a_group_that_the_account_leaves_goes_too(host):
    put(host.root, "etc/group", "tandem:x:998:\n")
    uninstall(host)
    assert host.said[host.said.index(["userdel", "tandem"]) + 1] == ["groupdel", "tandem"]


def test_how_people_come_to_the_node_is_told_and_stays(host):
    put(host.root, removal.BOOTSTRAP)
    assert any("/etc/sudoers.d/90-tandem" in why for why in look(host).kept)
    uninstall(host)
    assert (host.root / removal.BOOTSTRAP).exists()


def record(host, key, **more):
    put(
        host.root,
        f"opt/tandem/runtime/{key}/container.json",
        json.dumps(
            {"image": f"sha256:{key}", "fingerprint": "f", "program": "docker", "name": "x/y:1", **more}
        ),
    )


def test_an_image_that_was_brought_goes_and_one_that_was_there_stays(host):
    record(host, "ab", ours=["sha256:ab", "sha256:base"])
    record(host, "cd", ours=[])
    found = look(host)
    assert found.named("image") == ["docker sha256:ab", "docker sha256:base"]
    assert any("x/y:1, which was there before" in why for why in found.kept)
    assert uninstall(host) == []
    assert host.asked("docker", "image", "rm") == [
        ["docker", "image", "rm", "sha256:ab"],
        ["docker", "image", "rm", "sha256:base"],
    ]


def test_an_image_that_others_use_by_now_is_told(host):
    record(host, "ab", ours=["sha256:ab"])
    host.refuses["image rm"] = "conflict: unable to delete ab (must be forced) - image is being used"
    (trouble,) = uninstall(host)
    assert "sha256:ab could not be removed: conflict" in trouble
