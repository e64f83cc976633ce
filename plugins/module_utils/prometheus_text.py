# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text format of Prometheus, as servers print it at /metrics."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

_LABEL = re.compile(r'[ \t]*([a-zA-Z_]\w*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*', re.ASCII)
_NUMBER = r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)"
_SAMPLE = re.compile(
    r"(?P<name>[a-z_:][\w:]*)"
    rf"(?:[ \t]*\{{(?P<labels>{_LABEL.pattern}(?:,{_LABEL.pattern})*(?:,[ \t]*)?|[ \t]*)\}}[ \t]*|[ \t]+)"
    rf"(?P<value>{_NUMBER})"
    rf"(?:[ \t]+{_NUMBER})?"  # when it was taken
    r"(?:[ \t]+#[ \t].*)?",  # an exemplar
    re.ASCII | re.IGNORECASE,
)
_ESCAPED = re.compile(r"\\(.)")


class PrometheusTextError(ValueError):
    """The line that is no metric."""


@dataclass(frozen=True)
class Sample:
    name: str
    labels: dict[str, str]
    value: float


class Page:
    """The samples of one page, found by their exact names: `x_created` is never part of `x_total`."""

    def __init__(self, samples: Iterator[Sample]):
        self._by_name: dict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            self._by_name[sample.name].append(sample)

    def samples(self, name: str) -> list[Sample]:
        return self._by_name.get(name, [])

    def total(self, name: str) -> float | None:
        """The sum over all label sets, None where the page has no such name or no number for it."""
        found = self.samples(name)
        total = sum(sample.value for sample in found)
        return total if found and math.isfinite(total) else None

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """The sums for each value of `label`."""
        sums: dict[str, float] = defaultdict(float)
        for sample in self.samples(name):
            if label in sample.labels:
                sums[sample.labels[label]] += sample.value
        return dict(sums)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], text)


def parse(text: str) -> Page:
    """Raises PrometheusTextError for a line that is neither a sample nor a comment."""
    return Page(_samples(text))


def _samples(text: str) -> Iterator[Sample]:
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None:
            raise PrometheusTextError(f"line {number} is no metric: {line[:80]!r}")
        labels = {name: _unescaped(value) for name, value in _LABEL.findall(match["labels"] or "")}
        yield Sample(match["name"], labels, float(match["value"]))
