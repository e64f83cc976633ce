# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Llama network whose weights are set by hand: features by name, and helpers that write one head or gate.

make_lab_model.py explains why this is exact in bfloat16.
"""

from __future__ import annotations

import math

from checkpoint.tensors import Tensor
from checkpoint.words import CHAIN_WORDS, P

# The six heads that a layer needs at most; a checkpoint may have more, which say nothing.
H, FF, LAYERS, HEADS, HEAD_DIM, VOCAB = 480, 512, 3, 6, 64, 1024
THETA, BIG = 1e12, 350.0
MODULI = (4, 25, 9, 11)  # 4*25 = 100 for the low digits, 9*11 = 99 for the high


def single(names: str) -> list[tuple[str, int]]:
    return [(name, 1) for name in names.split()]


# (name, size); "-2" means: of the token two back, "?" is 1 for any of the kind
FEATURES = [
    # what a token says about itself; N holds the residues of a number, and adds those of the one two back
    *single("ONE BOS"),
    ("WORD", len(CHAIN_WORDS)),
    *single("NUM TWO OP QM CODE USER END THE ISGIVES ITEM? NOUN? VERB?"),
    *[("ITEM", 16), ("NOUN", P), ("VERB", P)],
    *[(f"N{m}", m) for m in MODULI],
    # set by layer 0: what stood before, R = A*B, and what pattern this is
    *single("NUM-1 OP-1 ISGIVES-1 THIS-1 THE-1"),
    *[("VERB-1", P), ("N9-1", 9), ("N11-1", 11)],
    *single("IS-2 GIVES-2 TWO-2"),
    *[("NOUN-2", P), ("ITEM-12", 16), ("ITEM?-12", 1), ("ITEM-3", 16), ("NOUN-4", P), ("VERB-7", P)],
    *[(f"R{m}", m) for m in MODULI],
    *[("MULT", 1), ("ASK", 1), ("RECALL", 16)],
    # set by layer 1: what was fetched, the low digits, the story's next word
    *[(f"F{m}", m) for m in MODULI],
    *[("ASKITEM", 16), ("MODE", 3), ("TOPIC", P)],
    *[("LO9", 9), ("LO11", 11), ("NEXTVERB", P), ("NEXTNOUN", P), ("NEXTCOMMA", 1)],
    # set by layer 2: the high digits
    *[("HI9", 9), ("HI11", 11)],
]


class Net:
    """The tensors, the features by name, and helpers that write one head or one gate."""

    def __init__(self, heads: int = HEADS):
        self.dims, self.used = {}, 0
        for name, n in FEATURES:
            self.dims[name] = range(self.used, self.used + n)
            self.used += n
        assert self.used <= H, f"{self.used} features for {H} dimensions"
        for name, w in (("IS", " is"), ("GIVES", " gives"), ("THIS", " this")):  # second names
            self.dims[name] = [self.at("WORD", CHAIN_WORDS.index(w))]
        self.dims["MARK"] = [self.at("MULT"), self.at("ASK"), self.at("CODE")]
        self.one = self.at("ONE")
        self.embed, self.logit = Tensor(VOCAB, H), Tensor(VOCAB, H)
        for token in range(VOCAB):
            self.embed[token, self.one] = BIG
        shapes = {
            **dict.fromkeys("qkv", (heads * HEAD_DIM, H)),
            "o": (H, heads * HEAD_DIM),
            "gate": (FF, H),
            "up": (FF, H),
            "down": (H, FF),
        }
        self.layers = [{n: Tensor(*s) for n, s in shapes.items()} for _ in range(LAYERS)]
        self.heads, self.gates = [0] * LAYERS, [0] * LAYERS

    def at(self, name, i=0):
        return self.dims[name][i]

    def head(self, layer, copies, back=None, match=()):
        """One head that copies features [(from, to)] from `back` tokens ago, or from the latest token
        matching by content: [(query {dim: w}, key {dim: w})]; without a match, from the first token."""
        w, top, half = self.layers[layer], self.heads[layer] * HEAD_DIM, HEAD_DIM // 2
        self.heads[layer] += 1
        freq = [THETA ** (-i / half) for i in range(half)]
        if back is not None:
            turning = [(i, 400.0, back * freq[i]) for i in range(8)]  # 400/8 = 50 nats per pair
        else:
            weigh = {i: freq[i] ** -0.85 for i in range(4, 11)}
            turning = [(i, 64000.0 * f / sum(weigh.values()), -math.pi / 4) for i, f in weigh.items()]
        for i, size, lag in turning:
            w["q"][top + i, self.one] = math.sqrt(size) * math.cos(lag)
            w["q"][top + i + half, self.one] = -math.sqrt(size) * math.sin(lag)
            w["k"][top + i, self.one] = math.sqrt(size)
        still = [*range(16, 32), *range(48, 64)]
        for slot, query_and_key in zip(still, match, strict=False):
            for side, weights in zip("qk", query_and_key, strict=True):
                for dim, weight in weights.items():
                    w[side][top + slot, dim] = 704.0 * weight  # 704 * 704 / 8 = 61,952 nats
        pairs = [p for a, b in copies for p in zip(self.dims[a], self.dims[b], strict=True)]
        assert len(pairs) <= HEAD_DIM and len(match) <= len(still)
        for j, (src, dst) in enumerate(pairs):
            w["v"][top + j, src] = 1.0
            w["o"][dst, top + j] = 1.0

    def gate(self, layer, inputs, outputs, up=None, need=None, level=1.0):
        """outputs become 1 when the inputs {dim: weight} add up to `need` (all of them by default);
        with `up`, the result is also multiplied by that feature, which is then `level`."""
        w, j = self.layers[layer], self.gates[layer]
        self.gates[layer] += 1
        inputs = inputs if isinstance(inputs, dict) else dict.fromkeys(inputs, 1.0)
        need = len(inputs) if need is None else need
        for dim, weight in inputs.items():
            w["gate"][j, dim] = 64.0 * weight
        w["gate"][j, self.one] = -64.0 * (need - 0.5)
        w["up"][j, self.one if up is None else up] = 1.0
        for dim in outputs:
            w["down"][dim, j] = 1 / (32.0 * level)

    def tensors(self):
        """The checkpoint's tensors by name."""
        norm = Tensor(H)
        for dim in range(H):
            norm[dim] = 16.0 / BIG if dim == self.one else 16.0
        tensors = {
            "model.embed_tokens.weight": self.embed,
            "model.norm.weight": norm,
            "lm_head.weight": self.logit,
        }
        for n, layer in enumerate(self.layers):
            for name, tensor in layer.items():
                part = f"self_attn.{name}_proj" if len(name) == 1 else f"mlp.{name}_proj"
                tensors[f"model.layers.{n}.{part}.weight"] = tensor
            tensors[f"model.layers.{n}.input_layernorm.weight"] = norm
            tensors[f"model.layers.{n}.post_attention_layernorm.weight"] = norm
        return tensors
