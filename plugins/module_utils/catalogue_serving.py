# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about an engine that serves: its warm-up and its speculation."""

from __future__ import annotations

from .catalogue import Entry

LOCKSTEP = (
    "two-Spark owners: ranks run in lockstep, and one that compiles keeps the others waiting in a collective"
)

ENTRIES = {
    "engine.boot.measure": Entry(
        "warning",
        "node",
        "{words} {found} ({percent}), {whose} {wanted}",
        "Look at what else holds memory on this rank (`free -g`, `nvidia-smi`) and at what of the profile was "
        "overridden, then restart with site.yml. Fewer tokens mean fewer long requests at a time, not wrong answers",
        source="two-Spark owners: memory held by another process shrinks the KV cache and nothing else says so",
    ),
    "engine.boot.part": Entry(
        "warning",
        "node",
        "The engine started with {found}, {whose} {wanted}",
        "Compare speculative-config and enforce-eager in /opt/tandem/current/engine.yaml with the profile, and read "
        "what the engine said of it: `journalctl -u tandem-head -g 'draft|graph'`",
        source="two-Spark owners: a draft that is not loaded costs half the speed and no answer",
    ),
    "engine.boot.version": Entry(
        "info",
        "node",
        "{what} is {found}, it was {before} at the last proven start",
        "Nothing is to be done if you changed it; otherwise look for a preload or a package that came with an upgrade",
        source="two-Spark owners",
    ),
    "engine.warmup.stalled": Entry(
        "error",
        "group",
        "The warm-up stalled: for {seconds} s nothing moved in its phase {phase}",
        "Read the last lines of every rank (`journalctl -u tandem-head -n 30`, on the others "
        "`journalctl -u tandem-worker -n 30`), then stop and start all ranks together. Kernels that were compiled "
        "so far are kept. If a rank was still compiling, raise warm_up.stall_s of the profile",
        source=LOCKSTEP,
    ),
    "engine.warmup.failed": Entry(
        "error",
        "group",
        "A request of the warm-up's phase {phase} failed at {url}",
        "Look at the engine with `systemctl status tandem-head` and `journalctl -u tandem-head -n 50` on the head. "
        "For 401 check api_key, for 404 url and model (`curl {url}/v1/models`), for 400 whether the profile's warm_up "
        "fits its max-model-len",
        source="vLLM on two GB10: ready, then 500 at the first burst (canada-quant, context 4096, 16 sequences)",
    ),
    "engine.warmup.timeout": Entry(
        "error",
        "group",
        "The warm-up was not over after {seconds} s: it was in its phase {phase}",
        "The engine still works, only slower than the profile expects: run again, kernels that were compiled so far "
        "are kept; or raise warm_up.total_timeout_s, or make the phases smaller",
    ),
    "engine.warmup.short": Entry(
        "warning",
        "group",
        "The sustained decode of the warm-up ended after {tokens} of {wanted} tokens",
        "Check that the endpoint is vLLM itself: it takes ignore_eos, and a decode of a few tokens warms little",
        source=LOCKSTEP,
    ),
    "speculation.unknown": Entry(
        "warning",
        "group",
        "{source} has none of vLLM's counters, so nothing is known of its speculation",
        "Read the engine's own /metrics (`curl http://HEAD:8888/metrics | grep vllm:`), not another exporter's",
    ),
    "speculation.off": Entry(
        "info",
        "group",
        "{source} counts no speculation: the engine serves without a draft",
        "If the profile has a speculative-config, compare it with `journalctl -u tandem-head -g speculative`",
        source="vLLM 0.33.0 source",
    ),
    "speculation.reset": Entry(
        "info",
        "group",
        "The counters of {source} began anew since the earlier reading: the engine was started in between",
        "The figures count from that start on. Take two readings of one start to compare",
    ),
    "speculation.idle": Entry(
        "warning",
        "group",
        "Speculation is configured, but nothing was drafted in {tokens} generated tokens",
        "Check that the method in speculative-config is the one whose draft the checkpoint carries; ngram drafts only "
        "where the text repeats itself",
        source="two-Spark owners: a method that the checkpoint has no head for is lost silently",
    ),
    "speculation.low": Entry(
        "error",
        "group",
        "{percent} of the draft was accepted, the profile wants at least {wanted}",
        "Compare the draft in the checkpoint's config.json with the weights that are there (a re-quantisation may drop "
        "its experts), and num_speculative_tokens with dspark_block_size. Texts are right all the same, only slow: "
        "proof.skip.draft_acceptance lets such a release through",
        source="two-Spark owners: dropped draft experts left about 26 % and right texts",
    ),
    "speculation.tail": Entry(
        "warning",
        "group",
        "The last of {length} draft positions was not accepted once in {drafts} drafts",
        "Set num_speculative_tokens to dspark_block_size of the checkpoint's config.json: a longer draft collapses",
        source="vllm-project/vllm#41834",
    ),
    "speculation.nearly_all": Entry(
        "info",
        "group",
        "{percent} of the draft was accepted in {drafts} drafts",
        "Read the text (generation_check judges it): repetitive text is drafted that well, and so is the text of an "
        "engine that only counts",
        source="two-Spark owners: a counting loop showed 95 to 100 %",
    ),
}
