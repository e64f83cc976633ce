#!/bin/sh
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes a fresh Debian tree ($1) fit to be booted as several nodes. Run by mmdebstrap.
set -eu
root=$1

# Each node gets keys and an identity of its own when it is created.
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname" "$root/etc/resolv.conf"
: > "$root/etc/machine-id"

# The journal survives a reboot, as on a real machine.
mkdir -p "$root/var/log/journal"

chroot "$root" systemctl --quiet enable systemd-networkd.service ssh.service
# A node has no way out and no console to log in at; binfmt_misc and the kernel's log belong to the host.
chroot "$root" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer \
  console-getty.service proc-sys-fs-binfmt_misc.automount systemd-binfmt.service systemd-timesyncd.service

# udev would replay the events of every device of the host: the nodes own their network links only.
mkdir -p "$root/etc/systemd/system/systemd-udev-trigger.service.d"
cat > "$root/etc/systemd/system/systemd-udev-trigger.service.d/lab.conf" <<'UNIT'
[Service]
ExecStart=
ExecStart=-udevadm trigger --type=devices --subsystem-match=net --action=add
UNIT
