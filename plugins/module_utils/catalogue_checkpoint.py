# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about the weights: their files, what they are, and the draft that they carry."""

from __future__ import annotations

from .catalogue import Entry

FETCH = "Copy those files again from another rank or from where the weights came from (docs/weights.md)"
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
}
