# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generations and what they are worth: (prompt, expected, text, …) -> verdict. Both errors matter equally."""

from __future__ import annotations

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.judge import judge, kind_of, worst_of

PRODUCT = "What is 17 x 23?"
WORKED = "1. 17 × 20 = 340\n2. 17 × 3 = 51\n3. 340 + 51 = 391"
TOLD = "The code for item kilo is 4182. The code for item lima is 991. What is the code for item kilo?"
REFRAIN = "Row, row, row your boat,\ngently down the stream.\n"


def verdict(text, *, prompt=PRODUCT, expected="391", kind=None, reasoning="", finish="stop"):
    return judge(prompt, expected, kind, text, reasoning, finish)


@pytest.mark.parametrize(
    "text",
    [
        "391",
        "391.",
        "The answer is **391**.",
        r"So $17 \times 23 = \boxed{391}$.",
        r"\[ 17 \cdot 23 = 340 + 51 = 391 \]",
        "391.0",
        "３９１",
        "٣٩١",
        "`391`",
        "```\n391\n```",
        "= 391",
        "<b>391</b>",
        "17*23=391",
        "17x23 = 391",
        "Three hundred ninety-one.",
        "17 times 23 is three hundred and ninety-one.",
        "It's 391 rather than 401.",
        "The answer is 391, not 401.",
        "I first thought 17 × 23 = 401, which is wrong. 17 × 23 = 391.",
        "391. You can check: 391 / 23 = 17.",
        "391, because 17×20=340 and 17×3=51",
        "The answer is 391. (17 × 20 = 340 and 17 × 3 = 51.)",
        "391 = 17 × 23",
        "17 × 23 = 17 × (20 + 3) = 340 + 51 = 391",
        "17 times 20 is 340 and 17 times 3 is 51, so 391",
        "17 × 23 is 391, while 17 + 23 is 40.",
        "The product is 391, which is 9 less than 400.",
        "The answer is 391, found in 2 steps.",
        "391. I'm 100% confident.",
        "It is not hard: 391.",
        "Don't forget to carry the 5: the result is 391.",
        "Step 1: 17 × 20 = 340\nStep 2: 17 × 3 = 51\nStep 3: 391",
        "- 17 × 20 = 340\n- 17 × 3 = 51\n\n**Answer: 391**",
        "  17\n× 23\n----\n  51\n 340\n----\n 391",
        "| part | value |\n|---|---|\n| 17 × 20 | 340 |\n| 17 × 3 | 51 |\n| total | 391 |",
        "Here is a check in Python:\n```python\nassert 17 * 23 == 391\nprint(17 * 23)\n```\nIt prints 391.",
        "Why not? It is 391.",
        "391\n" + "-" * 40 + "\n(a product of two primes)",
        "There are two ways to see it, and both give 391: one by parts, one by columns.",
        "Ha ha ha, that is an easy one: 391!",
        "\n\n391\n\n",
        WORKED,
        "\n".join(f"17 × {n} = {17 * n}" for n in range(1, 24)),
    ],
)
def test_right_answers_pass(text):
    judgement = verdict(text)
    assert (judgement.verdict, judgement.glitches) == ("correct", ()), judgement


@pytest.mark.parametrize(
    "text",
    [
        "1391",
        "3910",
        "39",
        "391.5",
        "-391",
        "The answer is −391.",
        "391,000",
        "3 9 1",
        "The key is x391",
        "401",
        "The answer is not 391, it is 401.",
        "It isn't 391.",
        "I don't think it's 391.",
        "391 is wrong; it is 401.",
        "The answer is 391. Wait, actually 17 × 23 = 401.",
        "17 × 23 = 17 × 20 + 17 × 3 = 340 + 51 = 401",
        "17 + 23 = 40",
        "17 × 23",
        "It is either 391 or 401.",
        "It is either 401 or 391.",
        "Three hundred ninety-two.",
        "That is a multiplication.",
        "I'm sorry, but I can't help with that.",
    ],
)
def test_wrong_answers_are_wrong(text):
    assert verdict(text).verdict == "wrong"


@pytest.mark.parametrize(
    ("prompt", "expected", "text", "wanted"),
    [
        ("What is 17 x 230?", "3910", "3,910", "correct"),
        ("What is 17 x 230?", "3910", "17 × 230 = 3 910.", "correct"),
        ("Was ist 17 mal 230?", "3910", "Das Ergebnis ist 3.910.", "correct"),
        ("What is 17 x 230?", "3,910", "3910", "correct"),
        ("What is 17 x 230?", "3910", r"\boxed{3{,}910}", "correct"),
        ("What is 1000 x 1000?", "1000000", "One million.", "correct"),
        ("What is 7 / 2?", "3.5", "7 / 2 = 3.5", "correct"),
        ("What is 7 / 2?", "3.5", "3,50", "correct"),
        ("What is 7 / 2?", "7/2", "It is 3.5.", "correct"),
        ("What is 3 - 8?", "-5", "3 - 8 = -5", "correct"),
        ("What is 3 - 8?", "-5", "The answer is −5.", "correct"),
        ("What is 3 - 8?", "-5", "5", "wrong"),
        ("What is 5 - 5?", "0", "5 - 5 = 0", "correct"),
        ("What is 391 / 23?", "17", "17, because 17 × 23 = 391.", "correct"),
        ("What is 3 x 4?", "12", "1. 2. 3. 4. 5. 6. 7. 8. 9. 10. 11. 12.", "degenerate"),
        ("Count from 1 to 12.", "12", "1. 2. 3. 4. 5. 6. 7. 8. 9. 10. 11. 12.", "correct"),
        ("List the multiples of 5 below 60.", None, "5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55", "correct"),
        ("What comes next: 2, 4, 6, 8?", "10", "2, 4, 6, 8, 10", "correct"),
        (TOLD, "4182", "Item kilo is 4182.", "correct"),
        (TOLD, "4182", "Item kilo is 991.", "wrong"),
        (TOLD, "4182", "Item kilo is unknown.", "wrong"),
        ("17乘以23等于多少？", "391", "17乘以23等于391。", "correct"),
        ("17乘以23等于多少？", "391", "三百九十一", "correct"),
        ("Сколько будет 17 умножить на 23?", "391", "Ответ: 391.", "correct"),
        ("كم يساوي 17 × 23؟", "391", "الجواب هو ٣٩١.", "correct"),
        ("What is the capital of France?", "Paris", "The capital of France is **Paris**.", "correct"),
        ("What is the capital of France?", "Paris", "It is not Paris.", "wrong"),
        ("What is the capital of France?", "Paris", "Parisian", "wrong"),
        ("What is the capital of Japan, in Japanese?", "東京", "東京です。", "correct"),
        ("Translate 'thank you' into Russian.", "спасибо", "Спасибо!", "correct"),
        (
            "Name three Japanese cities.",
            None,
            "Tokyo (東京), Osaka (大阪), Kyoto (京都) and Nara (奈良).",
            "correct",
        ),
        (
            "Say thanks in ten languages.",
            None,
            "merci, danke, спасибо, ありがとう, ευχαριστώ, شكرا, תודה",
            "correct",
        ),
        ("What is the area of a circle?", None, "A = πr², where π ≈ 3.14159 and r is the radius.", "correct"),
        ("Repeat the word yes 10 times.", None, "yes " * 10, "correct"),
        ("Write a short song about rowing.", None, REFRAIN * 4 + "Life is but a dream.", "correct"),
        (
            "Write a haiku about GPUs.",
            None,
            "A black monolith,\nsilicon hums, heat shimmers—\nframes climb the void.",
            "correct",
        ),
    ],
)
def test_the_prompt_decides(prompt, expected, text, wanted):
    judgement = verdict(text, prompt=prompt, expected=expected)
    assert (judgement.verdict, judgement.glitches) == (wanted, ()), judgement


@pytest.mark.parametrize(
    "text",
    [
        "1. 2. 3. 4. 5. 6. 7. 8. 9. 10. 11. 12.",
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n10",
        "1 2 3 4 5 6 7 8 9 10 11 12 13",
        "one two three four five six seven eight nine ten",
        "12 11 10 9 8 7 6 5 4 3",
        "10, 20, 30, 40, 50, 60, 70, 80, 90, 100",
        " ".join(f"Step {n}:" for n in range(1, 20)),
        "the the the the the the the the the the the the",
        "The answer is the the the the the the the the the the the the the the the",
        "the answer to the answer to the answer to the answer to the answer to the answer to",
        "The answer is 391. " * 4,
        "391 391 391 391 391 391 391 391",
        "I have to multiply. Let me think about it. " * 6,
        "thethethethethethethethethethe",
        "a" * 200,
        "的" * 30,
        "答案是答案是答案是答案是答案是答案是",
        "!" * 60,
        " ".join("of the a to the of a the to of".split()[n * 7 % 10] for n in range(120)),
        "\n".join(
            f"I think that the answer is {n * n % 97}, let me check that once more." for n in range(20)
        ),
        "if (x) { return 0; }\n" * 9,
        "391391391391391391",
        "0" * 64,
        "😀" * 10,
        "one moment please, I will multiply: " + "and then and so " * 8,
        "1. 2. 3. 4. 5. 6. 7. 8. 9. is how I count, "
        + "but but but but but but but but but but but but but but but",
        "The answer is " + "." * 120,
        "Ã©â€™Ã©â€™ the answer Ã©",
        "Ответ это 答案 العربية 391",
        "the 答案 of это multiplication الجواب is",
        "The 我 answer 的 to 是 this 不 one 了 is",
        "<|im_end|><|im_start|><|im_end|>",
        "</think></think></think></think> The",
        "The � an�sw�er i�s",
        "<｜tool▁calls▁begin｜>ответ<｜tool▁sep｜>",
        "Answer:</think> تضيفلها the access",
    ],
)
def test_texts_that_fell_apart_are_degenerate(text):
    assert verdict(text).verdict == "degenerate"
    assert verdict(text, finish="length").verdict == "degenerate"


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ("The answer is 391." + " the" * 40, "length"),
        ("The answer is 391.\n" + "\n" * 200, "length"),
        ("17 × 23 = 391. " + "So it is. " * 20, "length"),
        ("391 " + " ".join(f"{n}." for n in range(1, 40)), "length"),
        ("The answer is 391. " * 3 + "And so on. " * 30, "stop"),
        ("17 × 23 is 391. To be sure I add 340 and 51 once more. " * 3, "length"),
        ("anything at all", "repetition"),
    ],
)
def test_a_right_answer_that_goes_on_for_ever_is_degenerate(text, finish):
    assert verdict(text, finish=finish).verdict == "degenerate"


@pytest.mark.parametrize(
    ("text", "reasoning", "finish", "wanted"),
    [
        ("", "17 × 20 = 340, 17 × 3 = 51", "length", "inconclusive"),
        ("", "", "length", "inconclusive"),
        ("", "", "stop", "wrong"),
        ("  \n", "", "stop", "wrong"),
        ("", "It gives 391.", "stop", "wrong"),
        ("", "", "tool_calls", "wrong"),
        ("", "", "abort", "inconclusive"),
        ("", "the " * 30, "length", "degenerate"),
        ("", "1. 2. 3. 4. 5. 6. 7. 8. 9. 10. 11.", "length", "degenerate"),
        ("391", "wait " * 60, "stop", "degenerate"),
        ("391", "Wait. Let me check. 17 × 20 = 340. Wait. 340 + 51 = 391.", "stop", "correct"),
        (
            "391",
            "Is it right? I add the two parts once more. " + 8 * "I add 340 and 51 and get 391, so yes. ",
            "stop",
            "degenerate",
        ),
        (
            "391",
            " ".join(f"Wait, let me check the product {n * n} once more to be sure." for n in range(2, 16)),
            "stop",
            "correct",
        ),
        ("391", "用户问 17 乘以 23，等于 391。", "stop", "correct"),
        ("391", "1. 17 × 20 = 340\n2. 17 × 3 = 51\n3. sum 391", "stop", "correct"),
        ("17 × 20 = 340, and 17 × 3", "", "length", "inconclusive"),
        ("To multiply 17 by 23, first", "", "length", "inconclusive"),
        ("The answer is 39", "", "length", "inconclusive"),
        ("The answer is 391", "", "length", "inconclusive"),
        ("The answer is 401. To see why", "", "length", "wrong"),
        ("The answer is 391", "", None, "inconclusive"),
        ("the " * 40, "", None, "inconclusive"),
    ],
)
def test_unfinished_generations(text, reasoning, finish, wanted):
    assert verdict(text, reasoning=reasoning, finish=finish).verdict == wanted


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ("The product 常规 is 391.", "stop"),
        ("391</think>", "stop"),
        ("</think>The answer is 391.", "stop"),
        ("The answer is 391.<|im_end|>", "stop"),
        ("The answer\ufffd is 391.", "stop"),
        ("答案是 391。", "stop"),
        ("Ответ: триста девяносто один, то есть 391.", "stop"),
        ("The answer is 391. 答案是 391。", "stop"),
        ("The answer is 391. It follows from 17 × 20", "length"),
    ],
)
def test_flaws_of_a_right_answer_are_glitches(text, finish):
    judgement = verdict(text, finish=finish)
    assert judgement.verdict == "correct"
    assert len(judgement.glitches) == 1


def test_an_answer_in_english_to_a_chinese_question_is_a_glitch():
    judgement = verdict("The answer is 391.", prompt="17乘以23等于多少？")
    assert judgement.verdict == "correct"
    assert judgement.glitches


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("Write `</think>` to close it.", True),
        ("```\n<|im_end|>\n```", True),
        ("Write </think> to close it.", False),
    ],
)
def test_quoted_markup_is_no_flaw(text, quoted):
    assert bool(verdict(text, prompt="How do I close it?", expected=None).glitches) is not quoted


def test_a_number_kind_wants_a_number():
    with pytest.raises(ValueError, match="wanted a number"):
        judge(PRODUCT, "many", "number", "391")


@pytest.mark.parametrize(
    ("expected", "kind"),
    [("391", "number"), ("-3.5", "number"), ("Paris", "text"), ("", "open"), (None, "open")],
)
def test_the_kind_follows_from_what_is_expected(expected, kind):
    assert kind_of(expected) == kind


def test_the_worst_verdict_counts():
    assert worst_of(["correct", "inconclusive", "wrong"]) == "wrong"
    assert worst_of(["wrong", "degenerate", "unreachable"]) == "unreachable"


def test_a_text_of_ten_thousand_numbers_is_judged():
    text = " ".join(str(n * 7919 % 100_003) for n in range(10_000))
    assert verdict(text).verdict == "wrong"


@pytest.mark.parametrize(
    "text",
    [
        "1e999999999",
        "9" * 5000,
        "三" * 5000,
        "(" * 50_000,
        "1=" * 20_000,
        "\\boxed{" * 5000,
        "1/0 = 391/0",
        "²³½Ⅻ",
    ],
)
def test_no_text_is_too_strange_to_be_judged(text):
    assert verdict(text, finish="stop").verdict in ("wrong", "degenerate")
