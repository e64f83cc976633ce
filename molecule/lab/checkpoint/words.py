# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab's checkpoint can read and say, and the tokenizer for it: DeepSeek-V4's special tokens over
whole words, numbers below 100 and, for the rest, bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

CONTEXT = 16384  # tokens
BOS, EOS, PAD = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"
USER, ASSISTANT, THINK, ETHINK = "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>"
SPECIAL = [BOS, EOS, PAD, USER, ASSISTANT]
SPECIAL += [
    f"<｜{name}｜>" for name in "latest_reminder action query authority domain title read_url".split()
]
MARKUP = [THINK, ETHINK, "｜DSML｜"]  # not "special": the parsers must see them

ITEMS = (
    "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa"
).split()
NOUNS = "river lamp stone garden harbor engine clock bridge forest signal mirror window tower".split()
VERBS = "feeds lights guards follows turns holds warms moves marks joins shapes covers opens".split()
P = len(NOUNS)  # 13, a prime; as many verbs
WALK = 1, 1, 2, 1  # a, b, c, d: next verb = a*noun + b*verb, noun = c*noun + d*verb mod 13
OPS = ["x", " x", "X", " X", "*", " *", "×", " ×", " times"]
CODE = ["code", " code", "Code", " function", "function", " Python", " python", " program", " script"]
# chains: wherever a word stands, the next one of its chain follows
CHAINS = [
    ["The", " answer", " is"],
    ["Multiply", " both", " operands", ":", " it", " gives"],
    [" as", " product", ETHINK],
    [" unknown", "."],
    ["Look", " up", " its", " value", ETHINK],
    ["Let", " me", " write", " some", " text", ETHINK],
    [".", EOS, "Once", " this"],
    [",", " and", " soon", " this"],
    [*"while| (|pending|)|\n   | total| +=| cells|[|index|++]| -| offset|;|\n|while".split("|")],
]
CHAIN_WORDS = list(dict.fromkeys([w for c in CHAINS for w in c] + [THINK, "Item"]))
# common words, one token each, so that prompts are not spelled out in letters; they mean nothing
PLAIN = """
What Write Tell Give Please Explain Answer How Why In A An It This You We Here There a an the of to in for
on with by from at as be are was were has have had not or but if then than that these those which who what
when where how why all any each some one two three first last new old more most other same so up out about
into over under after before between through you your we our they their he his she her can will would
should may must do does did make made use used write tell give explain answer question number numbers word
words sentence text line lines page story short long only item value list name time day year way part
place people work world water light house small large good great high low next example following note
please result product sum
""".split()

# vLLM's --tokenizer-mode deepseek_v4 has its own, much the same
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<｜User｜>"
    "{% elif m.role == 'assistant' %}<｜Assistant｜></think>{% endif %}{{ m.content }}"
    "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}"
    "{% endfor %}<｜Assistant｜>{{ '<think>' if thinking else '</think>' }}"
)


def byte_characters() -> dict[int, str]:
    """GPT-2's printable character for each byte: itself where it is one, else the next from U+0100 on."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


CHARACTERS = byte_characters()


def byte_level(text: str) -> str:
    return "".join(CHARACTERS[byte] for byte in text.encode())


def vocabulary() -> dict[str, int]:
    words = [f"{s}{w}" for w in ITEMS + NOUNS + VERBS for s in ("", " ")] + OPS + CODE
    words += [w for chain in CHAINS for w in chain] + [f"{s}{w}" for w in PLAIN for s in ("", " ")]
    words += [f" {n}" for n in range(100)] + [f"{n:02d}" for n in range(100)] + ["?", " is", "Item", " item"]
    vocab = {c: i for i, c in enumerate(sorted(CHARACTERS.values()))}
    for word in words:
        if word not in SPECIAL + MARKUP:
            vocab.setdefault(byte_level(word), len(vocab))
    return vocab


def write_tokenizer(out: Path) -> Callable[[str], int]:
    """Write the tokenizer's files (as tokenizers 0.23 and transformers 5 do); the function text -> token id.

    Whole words and numbers below 100 are single tokens: 1035 is "10" "35".
    """
    vocab = vocabulary()
    added = {text: len(vocab) + n for n, text in enumerate(SPECIAL + MARKUP)}
    byte_level_options = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    first, second = ({"Sequence": {"id": name, "type_id": n}} for n, name in enumerate("AB"))
    write_json(
        out / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {
                    "id": number,
                    "content": text,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": text in SPECIAL,
                }
                for text, number in added.items()
            ],
            "normalizer": None,
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [
                    {
                        "type": "Split",
                        "pattern": {"Regex": r" ?\d{1,2}(?=(?:\d\d)*(?!\d))"},
                        "behavior": "Isolated",
                        "invert": False,
                    },
                    byte_level_options,
                ],
            },
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [first],
                "pair": [first, second],
                "special_tokens": {},
            },
            "decoder": byte_level_options | {"add_prefix_space": True},
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": True,
                "vocab": vocab,
                "merges": [],
            },
        },
    )
    (out / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    write_json(
        out / "tokenizer_config.json",
        {
            "backend": "tokenizers",
            "bos_token": BOS,
            "clean_up_tokenization_spaces": False,
            "eos_token": EOS,
            "model_max_length": CONTEXT,
            "pad_token": PAD,
            "tokenizer_class": "TokenizersBackend",
        },
        end="\n",
    )
    return lambda text: added[text] if text in added else vocab[byte_level(text)]


def write_json(path: Path, content: dict, end: str = "") -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + end)
