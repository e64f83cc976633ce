# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a vLLM server counts: its /metrics page, and the counters that move while it works."""

from __future__ import annotations

from dataclasses import dataclass

from .http_exchange import HttpFailure, get_text
from .prometheus_text import Page, PrometheusTextError, parse

TIMEOUT_S = 10.0
_LARGEST = 16 * 2**20  # bytes; a page of one engine has 70 kB


class EngineMetricsError(Exception):
    """Why the page could not be read."""


@dataclass(frozen=True)
class Progress:
    """Totals over all engines; None where the page does not say. Any change means that the engine works."""

    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    kv_cache_usage: float | None = None
    preemptions: float | None = None


def metrics_url(url: str) -> str:
    """The page of an endpoint that is named with or without /v1."""
    base = url.rstrip("/")
    return base if base.endswith("/metrics") else f"{base.removesuffix('/v1')}/metrics"


def fetch(url: str, *, verify: bool = True, timeout: float = TIMEOUT_S) -> Page:
    """The page of the endpoint at `url`; EngineMetricsError where there is none to read. vLLM wants no key for it."""
    address = metrics_url(url)
    try:
        return parse(get_text(address, timeout, _LARGEST, verify))
    except (HttpFailure, PrometheusTextError) as error:
        raise EngineMetricsError(f"{address} cannot be read: {error}") from error


def progress_of(page: Page) -> Progress:
    return Progress(
        prompt_tokens=page.total("vllm:prompt_tokens_total"),
        generation_tokens=page.total("vllm:generation_tokens_total"),
        kv_cache_usage=page.total("vllm:kv_cache_usage_perc"),
        preemptions=page.total("vllm:num_preemptions_total"),
    )


def requests_of(page: Page) -> tuple[float | None, float | None]:
    """(running, waiting) requests; None where the page does not say. They move without the engine working."""
    return page.total("vllm:num_requests_running"), page.total("vllm:num_requests_waiting")
