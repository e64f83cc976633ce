# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes checkpoints that are shaped like DeepSeek-V4-Flash: real headers, and holes in place of the weights."""

from __future__ import annotations

import json
import math
from pathlib import Path

BYTES = {"BF16": 2, "F32": 4, "I8": 1, "F8_E8M0": 1, "F8_E4M3": 1, "I64": 8}


def config(**changes):
    """As 0731's, with what `changes` says; None takes a key out."""
    values = {
        "architectures": ["DeepseekV4ForCausalLM"],
        "num_hidden_layers": 2,
        "n_routed_experts": 4,
        "num_nextn_predict_layers": 1,
        "compress_ratios": [0, 4, 128, 4, 0],
        "quantization_config": {"quant_method": "fp8", "scale_fmt": "ue8m0"},
        "dspark_block_size": 5,
        "dspark_target_layer_ids": [0, 1],
    }
    return {key: value for key, value in {**values, **changes}.items() if value is not None}


def expert(place, stored, out, inner):
    if stored == "mxfp4":
        return {
            f"{place}.weight": ("I8", (out, inner // 2)),
            f"{place}.scale": ("F8_E8M0", (out, inner // 32)),
        }
    if stored == "nvfp4":
        return {
            f"{place}.weight": ("U8", (out, inner // 2)),
            f"{place}.weight_scale": ("F8_E4M3", (out, inner // 16)),
        }
    if stored == "int8":
        return {f"{place}.weight": ("I8", (out, inner)), f"{place}.scale": ("F32", (out, 1))}
    return {f"{place}.weight": ({"bf16": "BF16", "fp8": "F8_E4M3"}[stored], (out, inner))}


def block(place, experts, stored, width=64):
    made = {
        f"{place}.attn.wq_a.weight": ("F8_E4M3", (width, width)),
        f"{place}.attn.wq_a.scale": ("F8_E8M0", (1, 1)),
        f"{place}.ffn.shared_experts.w1.weight": ("F8_E4M3", (width, width)),
        f"{place}.attn_norm.weight": ("BF16", (width,)),
    }
    for number in range(experts):
        for part in ("w1", "w2", "w3"):
            made |= expert(f"{place}.ffn.experts.{number}.{part}", stored, width, width)
    return made


def tensors(layers=2, experts=4, stored="mxfp4", draft=3, draft_stored="mxfp4", markov=True, width=64):
    """{name: (dtype, shape)} of a whole model."""
    made = {"embed.weight": ("BF16", (8, width)), "head.weight": ("BF16", (8, width))}
    for layer in range(layers):
        made |= block(f"layers.{layer}", experts, stored, width)
    for layer in range(draft):
        made |= block(f"mtp.{layer}", experts, draft_stored, width)
    if draft and markov:
        made[f"mtp.{draft - 1}.markov_head.markov_w1"] = ("BF16", (8, width))
    return made


def write(folder: Path, made, shards=3, settings=None) -> Path:
    """A new folder with configuration, index and `shards` files, each tensor in one of them."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config() if settings is None else settings))
    names = list(made)
    step = math.ceil(len(names) / shards)
    weight_map = {}
    for number in range(shards):
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = {tensor: made[tensor] for tensor in names[number * step : (number + 1) * step]}
        write_shard(folder / name, part)
        weight_map |= dict.fromkeys(part, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def write_shard(path: Path, part) -> None:
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for tensor, (dtype, shape) in part.items():
        start, end = end, end + BYTES.get(dtype, 1) * math.prod(shape)
        header[tensor] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        stream.truncate(8 + len(text) + end)
