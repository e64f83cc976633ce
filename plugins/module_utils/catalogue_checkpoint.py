# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about the weights: their files, what they are, and the draft that they carry."""

from __future__ import annotations

from .catalogue import Entry

FETCH = (
    "Run `site.yml -e tandem_checkpoint_verify=sha256`: files that another rank has right are copied from it, "
    "the others come from tandem_checkpoint_source where it is set (docs/weights.md)"
)
RESUMED = "What arrived is kept, and the next run goes on there"
OWNERS = "two-Spark owners"

ENTRIES = {
    "checkpoint.shard.missing": Entry(
        "error",
        "node",
        "Files of the checkpoint are missing",
        FETCH,
        source=OWNERS + ": a rank without weights hangs, with the GPU at 0 %",
    ),
    "checkpoint.shard.truncated": Entry(
        "error",
        "node",
        "Files of the checkpoint are cut off",
        FETCH,
        source="safetensors, header and size",
    ),
    "checkpoint.shard.corrupt": Entry("error", "node", "Files of the checkpoint are damaged", FETCH),
    "checkpoint.shard.other_revision": Entry(
        "error",
        "node",
        "Files of the checkpoint are of another revision",
        FETCH + ". Where the folder holds the other revision on purpose, name that one",
    ),
    "checkpoint.shard.unreadable": Entry(
        "error",
        "node",
        "Files of the checkpoint cannot be read",
        "Give them back to a user that may read them (`ls -ln` shows the owner), and see the disk with "
        "`dmesg --level err`",
        source=OWNERS + ": a container's root leaves files behind",
    ),
    "checkpoint.shard.extra": Entry(
        "warning",
        "node",
        "Files of weights beside the checkpoint are not in its index",
        "Remove them: they take room, and come from another checkpoint or from an interrupted copy",
    ),
    "checkpoint.kind.differs": Entry(
        "warning",
        "node",
        "The weights are not those that the profile was made for: {found}, wanted {wanted}",
        "Take the profile of this checkpoint, or put the profile's one there. Where it is meant, correct "
        "checkpoint in tandem_profile_overrides",
        source="the preview of V4-Flash has 46 shards and one MTP layer, 0731 has 48 and a draft of three",
    ),
    "checkpoint.draft.differs": Entry(
        "error",
        "node",
        "The weights carry {found}, the profile wants {wanted}",
        "Take the profile of this checkpoint, or put the profile's one there: vLLM starts and drafts nothing",
        source="the preview of V4-Flash has an MTP layer, 0731 a DSpark draft; vLLM 0.33.0 checks neither",
    ),
    "checkpoint.experts.missing": Entry(
        "error",
        "node",
        "Layers of the model lack experts",
        "Take a checkpoint that is whole; this one was converted wrongly, or its shards are of two revisions",
        source="n_routed_experts of config.json, counted in the headers",
    ),
    "checkpoint.draft.gone": Entry(
        "warning",
        "node",
        "config.json names a draft whose tensors are not there",
        "Take a checkpoint with its draft, or serve without speculative-config",
        source=OWNERS + ": a conversion drops what it does not know",
    ),
    "checkpoint.draft.incomplete": Entry(
        "warning",
        "node",
        "The draft lacks tensors: its acceptance falls, and what is generated looks fine",
        "Take a checkpoint with the whole draft, or serve without speculative-config",
        source=OWNERS + ": acceptance of 26 % with a draft whose experts were dropped",
    ),
    "checkpoint.draft.unsized": Entry(
        "warning",
        "node",
        "The draft has a Markov head, and config.json does not say for how many tokens",
        "Copy config.json again: the keys dspark_* belong to the original one",
    ),
    "checkpoint.draft.requantised": Entry(
        "warning",
        "node",
        "The experts of the draft are stored as {draft}, those of the model as {model}",
        "Watch the acceptance: engines load such a draft in part. Take the original checkpoint where it is low",
        source=OWNERS + ": a conversion left the draft's experts out, and 12 tensors were dropped at loading",
    ),
    "checkpoint.hub.client": Entry(
        "error",
        "node",
        "The hub's client cannot be used for {repository}",
        "It is huggingface_hub in the engine's environment: run site.yml, which installs it, and see that "
        "tandem_checkpoint_endpoint, where it is set, is an address such as https://huggingface.co",
    ),
    "checkpoint.hub.token": Entry(
        "error",
        "node",
        "The hub does not give {repository} to whoever asks",
        "Set tandem_checkpoint_token (in a vault) to a token whose owner accepted the terms of {repository}. If one is "
        "set, it is wrong or has run out. The hub answers the same for a repository that does not exist",
        source="huggingface_hub: 401 and 403",
    ),
    "checkpoint.hub.repository": Entry(
        "error",
        "node",
        "{where} has no {repository}",
        "Correct checkpoint.repository of the profile, or tandem_checkpoint_endpoint",
        source="huggingface_hub: 404",
    ),
    "checkpoint.hub.revision": Entry(
        "error",
        "node",
        "{repository} has no revision {revision}",
        "Correct checkpoint.revision of the profile. A mirror may not have that one: fill it, or ask the hub itself",
        source="huggingface_hub: RevisionNotFound",
    ),
    "checkpoint.hub.rate": Entry(
        "error",
        "node",
        "{where} wants to be asked less often",
        RESUMED + ". Wait as long as it says; with tandem_checkpoint_token the limit is higher",
        source="huggingface_hub: 429, Retry-After",
    ),
    "checkpoint.hub.changed": Entry(
        "error",
        "node",
        "{where} lists {repository} in another way than it gives it",
        "Ask again later. If it stays so, it is no mirror of the hub: take tandem_checkpoint_endpoint out",
    ),
    "checkpoint.hub.network": Entry(
        "error",
        "node",
        "{repository} could not be downloaded from {where}",
        RESUMED
        + ". Look at the node's way out (`curl -sI {where}`); a proxy is told by `environment:` of the play, "
        "or download elsewhere and name the folder in tandem_checkpoint_source",
    ),
    "checkpoint.hub.slow": Entry(
        "error",
        "node",
        "{repository} was not downloaded in its time",
        RESUMED + ". Give more, or look at the line",
    ),
    "checkpoint.hub.wrong_bytes": Entry(
        "error",
        "node",
        "Files of {repository} arrived twice from {where} with other bytes than it lists",
        "Nothing of them was kept. Look at the node's memory and disk (`dmesg --level err`), and at a proxy between",
    ),
    "checkpoint.disk.small": Entry(
        "error",
        "node",
        "{folder} has {free} GiB free, the weights want {wanted} GiB more",
        "Make room (`df -h {folder}`), or set tandem_checkpoint_path to another disk",
    ),
    "checkpoint.disk.full": Entry(
        "error",
        "node",
        "The disk became full while weights were written",
        RESUMED + ". Make room first (`df -h`): something else writes to that disk too",
    ),
    "checkpoint.disk.error": Entry(
        "error",
        "node",
        "Weights could not be written or read",
        RESUMED + ". Look at the disk (`dmesg --level err`, `findmnt`) first",
    ),
    "checkpoint.source.lacks": Entry(
        "error",
        "node",
        "Files of the checkpoint are wrong, and nothing here has them right",
        "Set tandem_checkpoint_source to hub, or to a folder that has them (docs/weights.md)",
    ),
    "checkpoint.copy.network": Entry(
        "error",
        "group",
        "The weights could not be copied from {host} over the rails",
        RESUMED + ". Look at the rails first (playbooks/fabric.yml)",
    ),
    "checkpoint.copy.refused": Entry(
        "error",
        "group",
        "{host} does not know the secret of this transfer",
        "Run again: each transfer has a secret of its own, and this one met another's",
    ),
    "checkpoint.copy.lacks": Entry(
        "error",
        "group",
        "{host} does not have what its own list says",
        "Run `site.yml -e tandem_checkpoint_verify=sha256`, which finds out which of its files are right",
    ),
    "checkpoint.copy.wrong_bytes": Entry(
        "error",
        "group",
        "Files arrived twice from {host} with other bytes than it lists",
        "Run `site.yml -e tandem_checkpoint_verify=sha256`: either its file is damaged, or what lies between",
    ),
    "checkpoint.copy.slow": Entry(
        "error", "group", "The weights were not copied from {host} in their time", RESUMED + ". Give more"
    ),
    "checkpoint.reader.hidden": Entry(
        "error",
        "node",
        "The weights lie in {path}, and the engine's unit does not see {folder}",
        "Set tandem_checkpoint_source to that folder and leave tandem_checkpoint_path out: on the same file system "
        "they are taken over as links, which cost no room",
        source="systemd.exec(5): ProtectHome, PrivateTmp",
    ),
    "checkpoint.reader.shut": Entry(
        "error",
        "node",
        "The engine's user {user} cannot read {count} of the weights' files and folders",
        "`chmod -R a+rX` the folder and what leads to it, or set tandem_checkpoint_source to it, which makes copies "
        "that can be read",
        source=OWNERS + ": a container's root leaves files behind",
    ),
}
