# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an API answers to whoever has no key: asked as a stranger would, a status for each path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from .findings import Finding, finding
from .http_exchange import HttpFailure, exchange

TIMEOUT_S = 5.0
# All that generates, reads prompts or tells of the engine in vLLM 0.26 to 0.33. A body that is no question is refused
# with 400 or 422 where it was let in, so nothing is generated.
GUARDED = (
    "GET /v1/models",
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "POST /v1/responses",
    "POST /v1/messages",
    "POST /invocations",
    "POST /inference/v1/generate",
    "POST /tokenize",
    "POST /detokenize",
    "GET /openapi.json",
)
# Only developer mode has them (VLLM_SERVER_DEV_MODE): they put an engine to sleep or run what they are told.
DEVELOPER = ("GET /server_info", "GET /is_sleeping", "POST /collective_rpc")
ANYBODY = ("GET /health", "GET /metrics", "GET /version")
_REFUSED = (401, 403, 404, 405)


def ask(
    url: str, wants: Iterable[str] = (*GUARDED, *DEVELOPER, *ANYBODY), verify: bool = True
) -> dict[str, int | None]:
    """{method and path: status}; None where nothing came back."""
    parts = urlsplit(url)
    base = f"{parts.scheme}://{parts.netloc}"
    return {want: _status(base, want, verify) for want in wants}


def _status(base: str, want: str, verify: bool) -> int | None:
    method, _space, path = want.partition(" ")
    headers = {"Content-Type": "application/json"}
    body = b"{}" if method == "POST" else None
    try:
        with exchange(
            method, base + path, timeout=TIMEOUT_S, body=body, headers=headers, verify=verify
        ) as response:
            return response.status
    except HttpFailure:
        return None


def judged(statuses: Mapping[str, int | None], with_key: bool) -> list[Finding]:
    """What a stranger can do and must not. What gave no answer is unknown, and never counts as closed."""
    found = []
    unknown = [want for want, status in statuses.items() if status is None]
    if unknown:
        found.append(finding("access.api.unknown", paths=", ".join(unknown)))
    let_in = [want for want in GUARDED if statuses.get(want) not in (None, *_REFUSED)]
    if with_key and let_in:
        found.append(finding("access.api.open", paths=", ".join(let_in)))
    developer = [want for want in DEVELOPER if statuses.get(want) not in (None, *_REFUSED)]
    if developer:
        found.append(finding("access.api.developer", paths=", ".join(developer)))
    return found
