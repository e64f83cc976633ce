#!/bin/sh
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Boots one node. Runs in the node's network namespace and in a mount namespace of its own, so that all
# that is mounted here goes when the node goes. From the environment: NODE, LAYERS, DIRECTORY, CGROUP.
set -eu

root=$DIRECTORY/root
mount -t overlay overlay -o "lowerdir=$LAYERS,upperdir=$DIRECTORY/upper,workdir=$DIRECTORY/work" "$root"

# nspawn leaves files of its own in /run.
mount -t tmpfs tmpfs /run

# The host may mix cgroup v1 and v2; a node sees v2 only.
umount --recursive /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$CGROUP"
echo $$ > "/sys/fs/cgroup/$CGROUP/cgroup.procs"

# Docker in a node: its storage cannot lie on the overlay that the root is, and runc wants three calls that nspawn keeps back.
# Nothing of that is given to a node without it.
set --
if [ -x "$root/usr/sbin/dockerd" ] || [ -x "$root/usr/bin/dockerd" ]; then
  mkdir -p "$DIRECTORY/docker"
  set -- "--bind=$DIRECTORY/docker:/var/lib/docker" "--system-call-filter=add_key keyctl bpf"
fi

# No network option: nspawn's own would show the host's links. /sys is writable because udevd wants it;
# fixtures/root/usr/local/lib/lab/init shields the host. /tmp is on disk, as on a real node.
export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 SYSTEMD_NSPAWN_API_VFS_WRITABLE=1 SYSTEMD_NSPAWN_TMPFS_TMP=0
exec systemd-nspawn --quiet --settings=no --register=no --keep-unit --machine="$NODE" --directory="$root" \
  --resolv-conf=off --timezone=off --link-journal=no --console=pipe --kill-signal=SIGRTMIN+3 \
  --rlimit=RLIMIT_MEMLOCK=infinity --capability=CAP_NET_ADMIN,CAP_IPC_LOCK "$@" \
  /usr/local/lib/lab/init
