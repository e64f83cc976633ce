# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Things in a text that no answer holds: the engine's control markup, and characters of a torn token stream."""

from __future__ import annotations

import re

_MARKUP = re.compile(
    r"</?think(?:ing)?>|<[|｜][^|｜<>\n]{1,40}[|｜]>|</?[|｜]?DSML[^>\n]{0,40}>?|</?tool_(?:call|response)s?>"
    r"|<function=[^>\n]{1,40}>|\[/?(?:TOOL_CALLS|INST|AVAILABLE_TOOLS)\]|<(?:eos|bos|pad|unk)>|<0x[0-9A-F]{2}>"
    r"|<(?:start|end)_of_turn>",
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
# The replacement character, control and private-use characters, and UTF-8 that was read as Latin-1.
_BROKEN = re.compile(r"[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ue000-\uf8ff]|â€.|Ã[\x80-\xbf]")


def without_code(text: str) -> str:
    """The text without its code blocks and spans, which may repeat and quote what they like."""
    return _CODE.sub("", text)


def without_markup(text: str) -> str:
    return _MARKUP.sub(" ", text)


def markup_in(text: str, prompt: str) -> list[str]:
    """Control markup, which belongs to the engine; what the prompt or a code span quotes is none."""
    return [found for found in _MARKUP.findall(without_code(text)) if found not in prompt]


def broken_characters_in(text: str) -> int:
    return len(_BROKEN.findall(text))
