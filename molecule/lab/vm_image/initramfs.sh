#!/bin/sh
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Keeps the initramfs of a Debian tree ($1) small, before the kernel is installed in it. Run by mmdebstrap.
# An emulated processor would unpack the usual one, with every driver, for half a minute.
set -eu
config=$1/etc/initramfs-tools
mkdir -p "$config/conf.d"
printf 'MODULES=list\nCOMPRESS=zstd\n' > "$config/conf.d/lab"
printf 'virtio_pci\nvirtio_blk\next4\n' > "$config/modules"
