# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about a bench and its figures."""

from __future__ import annotations

from .catalogue import Entry

ENTRIES = {
    "bench.ended": Entry(
        "error",
        "group",
        "The bench of {url} ended early: {why}",
        "Look at the engine with status.yml and `journalctl -u tandem-head -n 50` on the head. The same command goes "
        "on where this run ended",
    ),
    "bench.row.void": Entry(
        "warning",
        "group",
        "The row {row!r} of the bench does not count",
        "Read the evidence: degenerate text and an idle draft are faults of the release (verify.yml), a restart is "
        "told in the journal of the head, and what others disturbed is to be run again while nobody else asks",
        source="seed 000: 300 tokens/s of nonsense were published once",
    ),
    "bench.row.failures": Entry(
        "warning",
        "group",
        "Of the requests of the row {row!r}, {share} succeeded",
        "See the reasons in the evidence; time-outs at many streams mean that the queue is longer than "
        "request_timeout_s, errors are told in `journalctl -u tandem-head`",
    ),
}
