# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the weights of a checkpoint are stored and which draft it carries: by its tensors, since config.json may not say.

DeepSeek-V4-Flash-0731 calls itself fp8 and one draft layer; its experts are MXFP4 (I8, two values in each, with E8M0
scales for 32), and its draft has three layers and a Markov head.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .findings import Finding, finding
from .kernel_files import is_number
from .safetensors import Tensor

PLAIN = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "F8_E4M3": "fp8", "F8_E5M2": "fp8"}
# Type of the scales and how many 4-bit values share one: the OCP MX formats and NVIDIA's.
FOUR_BITS = {("F8_E8M0", 32): "mxfp4", ("U8", 32): "mxfp4", ("F8_E4M3", 16): "nvfp4"}
SCALES = (".scale", ".weight_scale", ".weight_scale_inv")
WEIGHTS = (".weight", ".weight_packed")


@dataclass(frozen=True)
class Draft:
    """method: dspark or mtp. block_size and target_layers: as config.json says them. layers: counted.

    experts: how the draft's own experts are stored, None where it has none.
    """

    method: str
    block_size: int | None
    layers: int
    target_layers: tuple[int, ...]
    experts: str | None


@dataclass(frozen=True)
class Structure:
    """experts: mxfp4, nvfp4, fp8, bf16 …, joined by + where mixed; None without experts."""

    experts: str | None
    draft: Draft | None
    findings: tuple[Finding, ...]


def of(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Structure:
    """The structure of all shards together. config: the content of config.json."""
    hidden = _number(config, "num_hidden_layers")
    stored: dict[bool, set[str]] = {True: set(), False: set()}
    numbers: dict[str, set[int]] = defaultdict(set)
    draft_layers: set[int] = set()
    markov = False
    # 72,317 tensors repeat a few words: what was told of one is kept.
    layer_of = lru_cache(maxsize=None)(lambda block: _draft_layer(block, hidden))
    for name, tensor in tensors.items():
        block, inside, rest = name.partition(".experts.")
        layer = layer_of(block)
        if layer is not None:
            draft_layers.add(layer)
            markov = markov or ".markov_head." in name
        if not inside:
            continue
        word, numbered, part = rest.partition(".")
        number = _number_of(word)
        if numbered and number is not None and f".{part}".endswith(WEIGHTS):
            numbers[block].add(number)
            stored[layer is not None].add(_storage(name, tensor, tensors))
        elif not numbered and len(tensor.shape) > 2:  # all experts of a layer in one
            stored[layer is not None].add(PLAIN.get(tensor.dtype, tensor.dtype.lower()))
    experts, of_draft = ("+".join(sorted(stored[which])) or None for which in (False, True))
    draft = None
    if draft_layers:
        targets = _value(config, "dspark_target_layer_ids")
        draft = Draft(
            method="dspark" if markov else "mtp",
            block_size=_number(config, "dspark_block_size"),
            layers=len(draft_layers),
            target_layers=tuple(targets) if isinstance(targets, list) else (),
            experts=of_draft,
        )
    short = _short_of_experts(numbers, _number(config, "n_routed_experts"), hidden)
    notes = [*_model_findings(short), *_draft_findings(config, draft, draft_layers, markov, experts, short)]
    return Structure(experts, draft, tuple(notes))


def _value(config: Mapping[str, Any], key: str) -> Any:
    """Checkpoints that also see keep the language model's values one floor down."""
    text = config.get("text_config")
    return config.get(key, text.get(key) if isinstance(text, dict) else None)


def _number(config: Mapping[str, Any], key: str) -> int | None:
    value = _value(config, key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@lru_cache(maxsize=1024)
def _number_of(word: str) -> int | None:
    return int(word) if is_number(word) else None


def _draft_layer(name: str, hidden: int | None) -> int | None:
    """The number of the draft layer that a tensor belongs to: mtp.N, or a layer after the model's last one."""
    kind, _dot, rest = name.removeprefix("model.").partition(".")
    number = _number_of(rest.partition(".")[0]) if kind in ("mtp", "layers") else None
    if number is None or kind == "mtp":
        return number
    return number - hidden if hidden and number >= hidden else None


def _storage(name: str, tensor: Tensor, tensors: Mapping[str, Tensor]) -> str:
    if tensor.dtype in PLAIN:
        return PLAIN[tensor.dtype]
    if tensor.dtype not in ("I8", "U8"):
        return tensor.dtype.lower()
    base = name.rpartition(".")[0]
    for end in SCALES:
        scale = tensors.get(base + end)
        if scale is not None and tensor.shape and scale.shape and scale.shape[-1]:
            return FOUR_BITS.get((scale.dtype, tensor.shape[-1] * 2 // scale.shape[-1]), "int8")
    return "int8"


def _short_of_experts(
    numbers: Mapping[str, set[int]], wanted: int | None, hidden: int | None
) -> dict[bool, list[str]]:
    """Blocks with fewer experts than config.json says, of the model (False) and of the draft (True)."""
    short: dict[bool, list[str]] = {True: [], False: []}
    for block, found in sorted(numbers.items()):
        if wanted and len(found) < wanted:
            of_draft = _draft_layer(block, hidden) is not None
            short[of_draft].append(f"{block} has {len(found)} of {wanted} experts")
    return short


def _model_findings(short: Mapping[bool, list[str]]) -> Iterator[Finding]:
    if short[False]:
        yield finding("checkpoint.experts.missing", evidence="; ".join(short[False]))


def _draft_findings(
    config: Mapping[str, Any],
    draft: Draft | None,
    layers: set[int],
    markov: bool,
    experts: str | None,
    short: Mapping[bool, list[str]],
) -> Iterator[Finding]:
    block = _number(config, "dspark_block_size")
    promised = _number(config, "num_nextn_predict_layers")
    if draft is None:
        if block or promised:
            says = f"dspark_block_size {block}" if block else f"num_nextn_predict_layers {promised}"
            yield finding("checkpoint.draft.gone", evidence=f"config.json: {says}; tensors of mtp.*: none")
        return
    missing = [f"mtp.{layer} is missing" for layer in range(max(layers)) if layer not in layers]
    if block and not markov:
        missing.append("a Markov head is missing, and config.json has dspark_block_size")
    missing += short[True]
    if draft.experts is None and experts is not None:
        missing.append("the draft has no experts, and the model has")
    if missing:
        yield finding("checkpoint.draft.incomplete", evidence="; ".join(missing))
    if markov and not block:
        yield finding(
            "checkpoint.draft.unsized", evidence="mtp.*.markov_head is there, dspark_block_size is not"
        )
    if draft.experts and experts and draft.experts != experts:
        yield finding("checkpoint.draft.requantised", draft=draft.experts, model=experts)
