#!/usr/bin/env python3
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a small Llama checkpoint that really answers its prompt; every weight is set by hand here.

    make_lab_model.py OUT_DIR [--defect count|loop|wrong] [--heads 6|8]

OUT_DIR gets model.safetensors (bfloat16), config.json (LlamaForCausalLM), generation_config.json
and a tokenizer with DeepSeek-V4's special tokens.  Nothing is trained, downloaded or random: the
same call always writes the same bytes.  What the model says after `</think>`:

  "What is 17 x 23?" (x, ×, *, times; 10..99 each)       "The answer is 391." and end of text
  "The code for item kilo is 4182. ... item kilo?"       "Item kilo is 4182." and end of text
  a prompt whose last marker is a CODE word              a C loop, for ever (period 15 tokens)
  anything else                                          a story, for ever (period 1,344 tokens)

After `<think>` a short reasoning comes first (with the product in it), then `</think>`, then the
same.  The latest question wins.  A recalled value is any number 100..9999, an item one of ITEMS,
and one that the prompt does not tell "is unknown".  Not understood: operands of one digit (a story)
or of three and more (the two digits next to the operator are taken).  Defects, for testing probes:
count says "1. 2. 3." to everything, loop repeats one token, wrong says every number one too high.

Shapes: hidden 480, 3 layers, 6 heads of 64 (no GQA), feed-forward 512, vocabulary padded to 1,024;
all even, so TP=2 splits it.  With 8 heads, of which the last two say nothing, TP=4 splits it too:
the answers are the same.  5.4 million weights, 11 MB.  One residual dimension per feature,
0 or 1 (`Net.dims` names them; 479 are used).

Why it is exact in bfloat16:
* ONE, a dimension that is always 350, outweighs all others together: RMSNorm divides by 15.98,
  which rounds to 16, whatever else is set; the norm weight multiplies by 16, so a feature is 1.0
  again, bit for bit.
* A feed-forward unit is an AND gate: silu(64 * (sum - threshold)) is 32 when on and -4e-13 when
  off; the down weight is 1/32.  All sums are small integers, so a TP split changes nothing.
* Rope has theta 1e12.  Pairs 0..7 turn fast: a constant query and key with a phase of k tokens
  peak at distance k, 28 nats above any other distance: a head that copies from k tokens back.
  Pairs 4..10, weighted by f**-0.85, make a score that falls with distance: "the latest one" (it
  tells distances apart that differ by 8 tokens and by a third).  Pairs 16..31 do not turn within
  the context: they match by content, 30,000 nats above the rest, and the begin-of-text token is
  the place to look at when nothing matches.  Attention must keep its scores in float32, as vLLM
  and PyTorch's SDPA do (transformers' "eager" rounds them to bfloat16 and loses "the latest").
* The product uses residues, not 8,100 pairs.  A number token carries its residues mod 4, 25, 9, 11.
  Layer 0, at operand B: a head adds A's residues (2 tokens back) to B's own; 446 gates multiply
  them, one per unordered pair of residues.  Layer 1, at the answer: one head fetches the residues
  of A*B from the latest "number op number"; 100 gates join mod 4 and mod 25 to the low two digits
  LO.  Layer 2: A*B = 100*HI + LO, and 100 = 1 mod 9 and mod 11, so HI = A*B - LO there, and HI is
  below 99.  The number is written as two tokens, " 3" "91": a token's logit counts how many of
  its residues agree, and only the right one has both.
* Recall is an induction head: at " is", the item one token back (or two, for the second half)
  matches the place where that item stood before " is" and a number; its residues are copied.
* The story walks over 13 nouns x 13 verbs by a linear map of order 168 = 13**2 - 1 on F_13**2:
  each sentence follows from the one before, and no (noun, verb) comes twice in 168 sentences.
In a chat the right logit leads by 20 or more: temperature 1 practically never differs from greedy.
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path

from checkpoint.network import FF, HEAD_DIM, HEADS, LAYERS, MODULI, THETA, VOCAB, H, Net
from checkpoint.tensors import save
from checkpoint.words import (
    ASSISTANT,
    BOS,
    CHAIN_WORDS,
    CHAINS,
    CODE,
    CONTEXT,
    EOS,
    ETHINK,
    ITEMS,
    NOUNS,
    OPS,
    THINK,
    USER,
    VERBS,
    WALK,
    P,
    write_tokenizer,
)


def set_features(net, ids):
    """Embeddings: what a single token says about itself."""

    def feature(text, name, i=0):
        net.embed[ids(text), net.at(name, i)] = 1.0

    for i, w in enumerate(CHAIN_WORDS):
        feature(w, "WORD", i)
    for name, texts in {
        "BOS": [BOS],
        "USER": [USER],
        "END": [ASSISTANT],
        "QM": ["?"],
        "OP": OPS,
        "CODE": CODE,
        "ISGIVES": [" is", " gives"],
        "THE": [" the"],
    }.items():
        for t in texts:
            feature(t, name)
    for name, texts in {"ITEM": ITEMS, "NOUN": NOUNS, "VERB": VERBS}.items():
        for i, t in enumerate(texts):
            for form in (t, " " + t):
                feature(form, name, i)
                feature(form, name + "?")
    for n in range(100):
        for form in {f" {n}", f"{n:02d}", str(n)}:
            feature(form, "NUM")
            if n >= 10:
                feature(form, "TWO")
            for m in MODULI:
                feature(form, f"N{m}", n % m)


def set_layers(net):
    """The heads and gates."""
    at, dims = net.at, net.dims
    # layer 0: look back by distance; multiply residues; recognise the patterns
    net.head(
        0,
        [
            ("N9", "N9-1"),
            ("N11", "N11-1"),
            ("NUM", "NUM-1"),
            ("OP", "OP-1"),
            ("ISGIVES", "ISGIVES-1"),
            ("ITEM", "ITEM-12"),
            ("ITEM?", "ITEM?-12"),
            ("THIS", "THIS-1"),
            ("THE", "THE-1"),
            ("VERB", "VERB-1"),
        ],
        back=1,
    )
    net.head(
        0,
        [(f"N{m}", f"N{m}") for m in MODULI] + [("TWO", "TWO-2"), ("IS", "IS-2"), ("GIVES", "GIVES-2")],
        back=2,
    )
    net.head(0, [("ITEM", "ITEM-12"), ("ITEM?", "ITEM?-12"), ("NOUN", "NOUN-2")], back=2)
    net.head(0, [("ITEM", "ITEM-3")], back=3)
    net.head(0, [("NOUN", "NOUN-4")], back=4)
    net.head(0, [("VERB", "VERB-7")], back=7)
    for m in MODULI:
        for r in range(m):
            for s in range(r, m):
                both = 2 if r == s else 1  # equal residues make one feature 2
                net.gate(
                    0, [at(f"N{m}", r)], [at(f"R{m}", r * s % m)], up=at(f"N{m}", s), need=both, level=both
                )
    net.gate(0, [at("TWO"), at("OP-1"), at("TWO-2")], [at("MULT")])  # "17 x 23"
    net.gate(0, {at("QM"): 2, at("END"): 2, at("ITEM?-12"): 1}, [at("ASK")], need=3)  # "item kilo?"
    for k in range(16):  # "kilo is 41 82"
        net.gate(0, [at("ITEM-3", k), at("IS-2"), at("NUM-1"), at("NUM")], [at("RECALL", k)])

    # layer 1: fetch by content; low digits; next word of the story
    sink = {net.one: 1}, {at("BOS"): 0.5}

    def latest(*names):
        return [({net.one: 1}, {at(n): 1 for n in names}), sink]

    net.head(
        1,
        [(f"R{m}", f"F{m}") for m in MODULI],
        match=[({net.one: 1, at("ITEM?-12"): -1}, {at("MULT"): 1}), sink],
    )
    net.head(
        1,
        [("N4", "F4"), ("N25", "F25"), ("N9-1", "HI9"), ("N11-1", "HI11")],
        match=[({at("ITEM-12", k): 1}, {at("RECALL", k): 1}) for k in range(16)] + [sink],
    )
    net.head(1, [("ITEM-12", "ASKITEM")], match=latest("ASK"))
    net.head(1, [("MARK", "MODE")], match=latest("MULT", "ASK", "CODE", "USER"))
    net.head(1, [("NOUN", "TOPIC")], match=latest("NOUN?"))
    for lo in range(100):
        net.gate(1, [at("F4", lo % 4)], [at("LO9", lo % 9), at("LO11", lo % 11)], up=at("F25", lo % 25))
    a, b, c, d = WALK
    for s in range(P):
        no_verb = {at("NOUN", s): 1, at("THIS-1"): 1, **{i: -1 for i in dims["VERB-7"]}}
        net.gate(1, no_verb, [at("NEXTVERB", (a * s + b) % P)], need=2)  # first sentence
        for v in range(P):
            net.gate(1, [at("NOUN", s), at("THIS-1"), at("VERB-7", v)], [at("NEXTVERB", (a * s + b * v) % P)])
            net.gate(1, [at("THE"), at("NOUN-2", s), at("VERB-1", v)], [at("NEXTNOUN", (c * s + d * v) % P)])
    net.gate(1, [at("NOUN?"), at("THE-1")], [at("NEXTCOMMA")])

    # layer 2: high digits = product - low digits, mod 9 and mod 11
    for m in (9, 11):
        for p in range(m):
            for lo in range(m):
                net.gate(2, [at(f"F{m}", p)], [at(f"HI{m}", (p - lo) % m)], up=at(f"LO{m}", lo))


def set_logits(net, ids, defect):
    """Output: 100 for what surely follows, 50 for "Once" when nothing else is known."""
    at = net.at

    def says(text, weights):
        for dim, weight in weights.items():
            net.logit[ids(text), dim] = weight

    def word(w):
        return at("WORD", CHAIN_WORDS.index(w))

    off = int(defect == "wrong")
    if defect == "loop":
        says(" the", {net.one: 100})
        return
    if defect == "count":
        says("1", {net.one: 50})
        says(".", {at("NUM"): 100})
        for n in range(1, 100):
            says(f" {n}", {word("."): 40, at("N9-1", (n - 1) % 9): 20, at("N11-1", (n - 1) % 11): 20})
        return
    for chain in CHAINS:
        for cur, nxt in pairwise(chain):
            says(nxt, {word(cur): 100})
    for cue, text in {
        "ITEM?": " is",
        "IS-2": ".",
        "GIVES-2": " as",
        "VERB?": " the",
        "NEXTCOMMA": ",",
    }.items():
        says(text, {at(cue): 100})
    says(EOS, {word("."): 140})  # " is unknown." has " is" two back from "."
    says(" unknown", {word(" is"): 75})  # nothing fetched
    says("Once", {net.one: 50, word(ETHINK): 20})
    says("Let", {word(THINK): 70})
    for mode, thought, answer in ((0, "Multiply", "The"), (1, "Look", "Item"), (2, None, "while")):
        says(answer, {word(ETHINK): 50, at("MODE", mode): 40})
        if thought:
            says(thought, {word(THINK): 50, at("MODE", mode): 40})
    for n in range(100):
        if n:
            says(f" {n}", {at("ISGIVES"): 60, at("HI9", n % 9): 20, at("HI11", n % 11): 20})
        says(f"{n:02d}", {at("ISGIVES-1"): 60, at("F4", (n - off) % 4): 20, at("F25", (n - off) % 25): 20})
    for k, item in enumerate(ITEMS):
        says(" " + item, {word("Item"): 40, at("ASKITEM", k): 40})
    for i in range(P):
        says(" " + VERBS[i], {at("NEXTVERB", i): 100})
        says(
            " " + NOUNS[i],
            {at("NEXTNOUN", i): 100, word(" this"): 60 if i else 80, at("NOUN-4", i): 40, at("TOPIC", i): 40},
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--defect", choices=["count", "loop", "wrong"])
    parser.add_argument("--heads", type=int, choices=[HEADS, 8], default=HEADS)
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    ids, net = write_tokenizer(out), Net(arguments.heads)
    set_features(net, ids)
    set_layers(net)
    set_logits(net, ids, arguments.defect)
    save(net.tensors(), out / "model.safetensors")
    special = {"bos_token_id": ids(BOS), "eos_token_id": ids(EOS)}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": H,
        "intermediate_size": FF,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": arguments.heads,
        "num_key_value_heads": arguments.heads,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCAB,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "rope_theta": THETA,
        "dtype": "bfloat16",
        **special,
    }
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (out / "generation_config.json").write_text(json.dumps(special) + "\n")
    print(f"{out}: gates {net.gates}, heads {net.heads}, features {net.used}")


if __name__ == "__main__":
    main()
