# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about engines in containers: the program that runs them, the image, and containers of somebody else."""

from __future__ import annotations

from .catalogue import Entry

FIELD = "field reports of two-Spark owners"


def _error(summary: str, remedy: str, source: str = "docker(1)", scope: str = "node") -> Entry:
    return Entry("error", scope, summary, remedy, None, source)


ENTRIES = {
    # -- what runs them ----------------------------------------------------------------------------------------------
    "container.engine.missing": _error(
        "The profile's engine runs in a container, and {program} is not on this node",
        "DGX OS brings Docker and NVIDIA's container toolkit; elsewhere install docker.io and nvidia-container-toolkit "
        "from packages, never from snap",
    ),
    "container.engine.silent": _error(
        "{program} does not answer: {why}",
        "See `systemctl status docker` and `journalctl -u docker -n 50`, start it, and run again",
    ),
    "container.engine.snap": _error(
        "This node's Docker is the one from snap ({root}), which sees neither the driver's files nor /dev/infiniband",
        "`snap remove docker`, then `apt-get install docker.io` (or Docker's own packages), and "
        "`nvidia-ctk runtime configure --runtime=docker`",
        FIELD,
    ),
    "container.gpu.none": _error(
        "{program} has no way to give a container the GPU: neither a CDI description nor the runtime of NVIDIA",
        "Install nvidia-container-toolkit, then `nvidia-ctk runtime configure --runtime=docker` and restart docker, or "
        "`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`",
        "NVIDIA container toolkit",
    ),
    "container.gpu.stale": _error(
        "The only way to the GPU is the CDI description {file}, which names driver {named}; loaded is {loaded}",
        "`nvidia-ctk cdi generate --output={file}`",
        FIELD,
    ),
    "container.rdma.none": _error(
        "There is no /dev/infiniband on this node, and the ranks of this profile speak over RDMA",
        "Load the driver of the network card (`modprobe ib_uverbs`), or look at `dmesg | grep mlx5`",
        FIELD,
    ),
    # -- the image ---------------------------------------------------------------------------------------------------
    "container.image.licence": _error(
        "Pulling the image {name} accepts its licence ({licence}), and nobody has accepted it",
        "Read it at the image's page; then add it to tandem_accept_licenses: ['{accepted}']",
        "the profile's runtime.image.licence",
        scope="group",
    ),
    "container.image.digest": _error(
        "The image {name} is named by a tag alone, which its owner may move at any time",
        "Look its digest up (`docker buildx imagetools inspect {name}` prints it, and so does `docker pull`), and set "
        "it: tandem_profile_overrides: {{runtime: {{image: {{digest: 'sha256:…'}}}}}}{begins}",
        "the profile's runtime.image",
        scope="group",
    ),
    "container.image.digest_other": _error(
        "The digest {found} of the image {name} is not that of the profile's source, which begins with {wanted}",
        "Pull what the source names, or set runtime.image.digest_begins to null in tandem_profile_overrides: then it "
        "is another stack than the one whose figures the profile tells",
        "the profile's runtime.image",
        scope="group",
    ),
    "container.image.arch": _error(
        "The image {name} is for {found}, this machine is {wanted}",
        "Take the image for {wanted}: another one pulls gigabytes and ends with `exec format error`",
        FIELD,
    ),
    "container.image.driver": _error(
        "The image {name} was built for driver {wanted} or newer, this node has {found}",
        "Take an image that was built for this driver, or bring the driver of every rank to branch {branch} "
        "(docs/driver.md)",
        "eugr/spark-vllm-docker#266",
    ),
    "container.image.unseen": Entry(
        "warning",
        "node",
        "Processor and driver of the image {name} were not told by its registry, so they are looked at after the pull",
        "Nothing, if the image is the right one. `docker manifest inspect {name}` says why it was not told",
        None,
        "docker(1)",
    ),
    "container.image.pull": _error(
        "The image {name} could not be pulled: {why}",
        "Try `docker pull {name}` on that node as root: a private registry wants `docker login` there first",
    ),
    "container.image.lost": _error(
        "The image {id} arrived from {giver} as {found}",
        "The two nodes keep images differently (the containerd image store on one of them): set the same "
        "features.containerd-snapshotter in /etc/docker/daemon.json of every rank, restart docker there, and run again",
        "docker-load(1)",
    ),
    "container.image.probe": _error(
        "The image {name} has no engine that can be started: {why}",
        "Set runtime.image.command and runtime.image.python of the profile to the paths in the image "
        "(`docker run --rm --entrypoint sh {id} -c 'command -v vllm python3'`)",
    ),
    "container.image.differ": _error(
        "The ranks do not have the same image: {found}",
        "Run site.yml, which copies it from one rank to the others; an image with an overlay is built on one alone",
        scope="group",
    ),
    "container.image.partly": _error(
        "The image {name} is missing on {where}, and this run does not see every rank",
        "Run site.yml without --limit: one rank pulls it, and the others copy it from that one",
        scope="group",
    ),
    "container.disk.small": _error(
        "{folder} has {free} GiB free, the image wants {wanted} GiB there",
        "Make room: `docker image prune`, `docker builder prune`, `df -h {folder}`",
    ),
    # -- the overlay -------------------------------------------------------------------------------------------------
    "container.overlay.patch": _error(
        "A patch of the overlay does not fit the image {name}: {why}",
        "Take the image that the profile names, or take the patch out of runtime.overlay",
    ),
    "container.overlay.tree": _error(
        "The overlay wants {what} in {folder} on {host}, and {why}",
        "Clone it there at that commit, as the profile's runtime.overlay says; only this rank needs it",
    ),
    # -- somebody else's ---------------------------------------------------------------------------------------------
    "container.foreign.restarts": Entry(
        "warning",
        "node",
        "The container {container} ({image}) has an engine in it and the restart policy {policy}: it starts by itself "
        "at the next boot, beside the rank",
        "`{program} update --restart=no {container}`, and stop it, if this node shall serve this group",
        None,
        "MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#2: a container that came back alone wedged the pair",
    ),
    "container.foreign.gpu": _error(
        "The GPU is in use by the container {container} ({image}): {owner}",
        "Stop it before the engine starts: `{program} stop {container}`{again}. Unified memory has no room for both",
        "the plan check of site.yml",
    ),
    "container.foreign.port": _error(
        "Port {port} ({use}) is taken by the container {container} ({image})",
        "Stop it: `{program} stop {container}`{again}, or set {variable}",
        "the plan check of site.yml",
    ),
}
