#!/bin/sh
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Docker as it can run in a node ($1 is the tree): engines have the host's network, so it needs no bridge, no filter and no
# setting of the kernel. Without the storage that is named it shall not start: its way out copies an image for each container.
set -eu
root=$1
mkdir -p "$root/etc/docker"
cat > "$root/etc/docker/daemon.json" <<'JSON'
{
  "bridge": "none",
  "default-runtime": "lab",
  "ip-forward": false,
  "iptables": false,
  "runtimes": {"lab": {"path": "/usr/local/lib/lab/runc"}},
  "storage-driver": "overlay2"
}
JSON
install -D "$(dirname "$0")/runc" "$root/usr/local/lib/lab/runc"
chroot "$root" systemctl --quiet enable docker.service
# On the node where an image is made, a test starts it.
chroot "$root" systemctl --quiet disable docker-registry.service
