# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about a profile that is well-formed and still cannot serve: engine, checkpoint and flags do not fit."""

from __future__ import annotations

from .catalogue import Entry

VLLM = "vLLM 0.33.0 source"

ENTRIES = {
    "profile.not_runnable": Entry(
        "error",
        "group",
        "The profile {name} cannot be run yet: {reason}",
        "Set tandem_profile to one of {runnable}",
        source="the profile's file",
    ),
    "profile.ranks.heads": Entry(
        "error",
        "group",
        "The {heads} attention heads of the checkpoint cannot be shared by {ranks} ranks",
        "Set tensor_parallel_size to a number that divides {heads}",
        source=VLLM,
    ),
    "profile.ray.nnodes": Entry(
        "error",
        "group",
        "distributed-executor-backend is ray and the ranks are started with --nnodes: vLLM refuses the two together",
        "Set distributed-executor-backend to mp",
        source="vLLM 0.33.0: nnodes > 1 can only be set when distributed executor backend is mp",
    ),
    "profile.ray.backend": Entry(
        "error",
        "group",
        "The profile joins its ranks by Ray, and distributed-executor-backend is {backend}",
        "Set distributed-executor-backend to ray, or rendezvous to nnodes",
        source=VLLM,
    ),
    "profile.ray.memory_monitor": Entry(
        "warning",
        "group",
        "Ray's memory monitor is on (RAY_memory_monitor_refresh_ms is {found}): it kills ranks over the page cache",
        "Set RAY_memory_monitor_refresh_ms to 0 in engine.environment: CPU and GPU share the memory here",
        source="two-Spark owners",
    ),
    "profile.ray.container": Entry(
        "error",
        "group",
        "The profile joins its ranks by Ray, and its engine runs in a container",
        "Set rendezvous to nnodes: no source of two Sparks runs Ray inside its images, nor does this collection",
        source="seeds 001 and 002 run theirs without Ray",
    ),
    "profile.ray.python": Entry(
        "error",
        "group",
        "The ranks have different Pythons ({found}), and Ray refuses a version that differs in its last number",
        "Bring the nodes to one version of their operating system's packages (`apt-get install python3`)",
        source="gpustack/gpustack#1640",
    ),
    "profile.driver.required": Entry(
        "error",
        "node",
        "The profile {name} wants driver {wanted}, this node has {found}",
        "Bring it there: `ansible-playbook playbooks/driver.yml -e tandem_driver_policy=pin "
        "-e tandem_driver_version={version}` shows how. To try another driver, set driver.required to null in "
        "tandem_profile_overrides",
        source="the profile's source: another driver gave a third of the rate",
    ),
    "profile.speculation.unreadable": Entry(
        "error",
        "group",
        "speculative-config is {found}, wanted a map with method and num_speculative_tokens",
        "Write it as a map: {{method: METHOD, num_speculative_tokens: K}}",
        source=VLLM,
    ),
    "profile.speculation.method": Entry(
        "error",
        "group",
        "speculative-config has the method {method}, the checkpoint carries {carried}",
        "Set the method to {wanted}: another one leaves the draft unused or loads it as what it is not, and vLLM says "
        "nothing. Where the checkpoint is another one, correct checkpoint.draft",
        source="vLLM 0.33.0 accepts mtp on a DSpark checkpoint; DeepSeek-V4-Flash-0731 config.json",
    ),
    "profile.speculation.k_missing": Entry(
        "error",
        "group",
        "speculative-config has no num_speculative_tokens",
        "Set num_speculative_tokens{wanted}: vLLM takes no default for it from this checkpoint",
        source="vLLM 0.33.0: num_speculative_tokens must be provided",
    ),
    "profile.speculation.k": Entry(
        "error",
        "group",
        "num_speculative_tokens is {k}, this engine wants {wanted}",
        "Set num_speculative_tokens to {value}",
        source="the profile's speculation.k_rule",
    ),
    "profile.speculation.k_unusual": Entry(
        "warning",
        "group",
        "num_speculative_tokens is {k}, the checkpoint's draft was made for blocks of {block}",
        "Set num_speculative_tokens to {block}, unless this is what you want to measure: with 7 every position of the "
        "draft collapsed on one pair, and the proof's floor of acceptance decides",
        source="vllm-project/vllm#41834",
    ),
    "profile.speculation.top_k": Entry(
        "error",
        "group",
        "FlashInfer {version} has no sparse MLA decode for {heads} heads and top_k {top_k}, which k = {k} with a "
        "sliding window of {window} needs on a GB10",
        "Take an engine with FlashInfer 0.6.18 or newer (vLLM 0.29.0 and later pin it), or remove speculative-config",
        source="vLLM get_dspark_swa_index_width; flashinfer-ai/flashinfer#4380",
    ),
    "profile.kv_cache.dtype": Entry(
        "error",
        "group",
        "kv-cache-dtype is {found}, the attention of this checkpoint takes {wanted}",
        "Set kv-cache-dtype to fp8, or leave it out",
        source="vLLM 0.33.0 models/deepseek_v4/attention.py",
    ),
    "profile.context.too_long": Entry(
        "error",
        "group",
        "max-model-len is {found}, the checkpoint knows {context} positions",
        "Set max-model-len to {context} or less. VLLM_ALLOW_LONG_MAX_MODEL_LEN would only hide it: positions beyond "
        "give no numbers",
        source="vLLM 0.33.0: User-specified max_model_len is greater than the derived max_model_len",
    ),
    "profile.context.unreadable": Entry(
        "error",
        "group",
        "max-model-len is {found}, which is no number of tokens",
        "Write it as a number, such as 393216; vLLM takes 384k for 384000 and 384K for 393216",
        source=VLLM,
    ),
    "profile.flag.unknown": Entry(
        "error",
        "group",
        "vLLM {release} knows no flag --{name}",
        "Remove it from engine.flags{hint}",
        source="the flags of that release's own parser, roles/profile/files/flags",
    ),
    "profile.flag.kind": Entry(
        "error",
        "group",
        "The flag --{name} of vLLM {release} {takes}, found {found}",
        "{remedy}",
        source="the flags of that release's own parser, roles/profile/files/flags",
    ),
    "profile.flag.unchecked": Entry(
        "info",
        "group",
        "Which flags vLLM {release} knows is not known here, so the flags of {name} are judged by its own parser alone",
        "Nothing, if it comes up: a flag that it does not know ends the start at once",
        source="roles/profile/files/flags",
    ),
    "profile.flag.needed": Entry(
        "error",
        "group",
        "The flag --{name} is {found}, this checkpoint needs {wanted}",
        "Set {name} to {wanted}: with another value prompts or reasoning are read wrongly, and nothing fails",
        source="the checkpoint has no chat template; its encoding is a tokenizer mode of vLLM",
    ),
    "profile.graphs.sequences": Entry(
        "warning",
        "group",
        "max-num-seqs is {found} with CUDA graphs; no more than {limit} are known to work ({source})",
        "Nothing, if the proof passes: it asks that many streams at once. If they are degenerate, set max-num-seqs to "
        "{limit}, or compilation-config to {{cudagraph_mode: NONE}}",
        source="17 x 23 was answered with a counting list above two sequences on one pair",
    ),
    "profile.toolkit.driver": Entry(
        "error",
        "node",
        "Driver {driver} is older than CUDA {major} needs at all, the stack of {name} is built with CUDA {toolkit}",
        "Bring the driver to branch {wanted} or newer (docs/driver.md), or choose a profile with an older CUDA",
        source="NVIDIA CUDA Toolkit release notes, drivers for each toolkit",
    ),
    "profile.toolkit.newer": Entry(
        "warning",
        "node",
        "The stack of {name} is built with CUDA {toolkit}, made for drivers of branch {wanted}; this one is {driver}",
        "Nothing, if it starts: kernels compiled ahead run within one major version, those that the driver itself must "
        "compile do not. The sure way is a driver of branch {wanted} (docs/driver.md)",
        source="NVIDIA CUDA Toolkit release notes, minor version compatibility",
    ),
}
