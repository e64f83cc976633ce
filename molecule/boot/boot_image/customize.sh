#!/bin/sh
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes a fresh Debian tree ($1) fit to be booted by its own GRUB. Run by mmdebstrap.
set -eu
root=$1
mkdir -p "$root/etc/default/grub.d"
cat > "$root/etc/default/grub" << 'GRUB'
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR="DGX OS"
GRUB_CMDLINE_LINUX="console=ttyS0 init=/lab/init mitigations=off no_timer_check"
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND="serial --speed=115200"
GRUB
install -D -m 755 "$(dirname "$0")/init" "$root/lab/init"
