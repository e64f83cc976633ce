#!/bin/sh
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes a fresh Debian tree ($1) fit to be booted as several virtual machines. Run by mmdebstrap.
set -eu
root=$1

# Each node gets keys and an identity of its own when it is created.
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname" "$root/etc/resolv.conf"
: > "$root/etc/machine-id"
echo '/dev/vda / ext4 defaults 0 1' > "$root/etc/fstab"
mkdir -p "$root/var/log/journal"

cp -r "$(dirname "$0")"/root/. "$root"
chroot "$root" systemctl --quiet enable systemd-networkd.service ssh.service lab-files.service lab-rdma.service
chroot "$root" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
  systemd-networkd-wait-online.service systemd-timesyncd.service
