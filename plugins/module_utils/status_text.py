# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at a rank, as status_data tells it, as a page for an operator at midnight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import guard_page

_COLUMN = 10
GUARD_FRESH_S = 15.0  # it writes every five


def lines(status: Mapping[str, Any]) -> Iterator[str]:
    """The page: a line for each part, and at its end the one that counts."""
    for title, texts in (
        ("rank", _rank(status)),
        ("unit", _unit(status["unit"])),
        ("release", _release(status["release"])),
        ("proof", _proof(status["proof"])),
        ("engine", _engine(status["stage"], status["boot"])),
        ("api", _api(status["api"], status["role"])),
        ("fabric", _fabric(status["fabric"])),
        ("caches", _caches(status["caches"])),
        ("guard", _guard(status["guard"])),
        ("history", _history(status["history"])),
    ):
        for number, text in enumerate(texts):
            yield f"{'' if number else title:<{_COLUMN}}{text}"
    if status["proven"]:
        yield f"{'PROVEN':<{_COLUMN}}this rank runs the release that was proven for this very start"
    else:
        yield f"{'NOT SO':<{_COLUMN}}this rank does not run a release that was proven for this very start:"
    for found in status["findings"]:
        evidence = f" ({found['evidence']})" if found["evidence"] else ""
        yield f"{found['severity']:<{_COLUMN}}{found['summary']}{evidence}. {found['remedy']}."


def _rank(status: Mapping[str, Any]) -> list[str]:
    if status["rank"] is None:
        return ["unknown: no plan"]
    hosts = ", ".join(map(str, status["hosts"])) or "unknown hosts"
    return [
        f"{status['rank']} of {status['ranks']}, the {status['role']} of group {status['group']} ({hosts})"
    ]


def _unit(unit: Mapping[str, Any]) -> list[str]:
    if unit["active"] is None:
        return [f"{unit['name']} unknown: systemd does not answer"]
    since = f", last started {unit['since']}" if unit["since"] else ", never started"
    return [f"{unit['name']} {unit['active']} ({unit['sub']}, result {unit['result']}){since}"]


def _release(release: Mapping[str, Any]) -> list[str]:
    current, applied = release["current"] or "none", release["applied"] or "none"
    profile = f" (profile {release['profile']})" if release["profile"] else ""
    same = "which is the one proven last" if current == applied != "none" else f"proven last: {applied}"
    return [f"{current}{profile}, {same}"]


def _proof(proof: Mapping[str, Any]) -> list[str]:
    if proof["state"] == "none":
        return ["none on this node under the circumstances of now"]
    if proof["state"] == "other circumstances":
        return [f"only under other circumstances: {proof['since']}"]
    when = {"this start": "for this very start", "earlier start": f"for an earlier start: {proof['since']}"}
    at, since = proof["at"] or "at an unknown time", when.get(proof["state"], "with this driver and kernel")
    return [f"{proof['outcome']} {at}, {since}", *str(proof["reason"]).split("; ")]


def _engine(stage: str | None, boot: Mapping[str, Any] | None) -> list[str]:
    if boot is None:
        return ["unknown: no journal of this start"]
    graphs = boot["graphs"]
    facts = {
        "vLLM": boot["version"],
        "NCCL": boot["nccl"],
        "model GiB": boot["model_gib"],
        "KV GiB": boot["kv_gib"],
        "KV tokens": boot["kv_tokens"],
        "full requests at once": boot["max_concurrency"],
        "draft model": "loaded" if boot["draft_loaded"] else "none",
        "graphs": f"captured in {graphs['seconds']:g} s" if graphs else "none",
    }
    told = ", ".join(f"{name} {'unknown' if value is None else value}" for name, value in facts.items())
    return [f"this start: {stage or 'unknown'} (last stage in its journal: {boot['stage']})", told]


def _api(api: Mapping[str, Any] | None, role: str | None) -> list[str]:
    if api is None:
        return ["on the head" if role == "worker" else "unknown"]
    health = "no answer" if api["health"] is None else api["health"]
    texts = [
        f"{api['url']} model {api['model'] or 'unknown'}, /health {health} (says nothing of the answers)"
    ]
    if api["counters"] is None:
        return [*texts, "counters unknown"]
    known = {name: "unknown" if value is None else f"{value:.0f}" for name, value in api["counters"].items()}
    return [
        *texts,
        f"{known['prompt_tokens']} prompt and {known['generation_tokens']} generated tokens since its start; "
        f"{known['running']} requests running, {known['waiting']} waiting",
    ]


def _fabric(fabric: Mapping[str, Any]) -> list[str]:
    env = fabric["env"]
    if env is None:
        return ["unknown: /run/tandem/fabric.env cannot be read"]
    index = env.get("NCCL_IB_GID_INDEX")
    hcas = env.get("NCCL_IB_HCA", "").removeprefix("=")
    rdma = f"HCAs {hcas}, GID index {index or 'left to NCCL'}" if hcas else "no HCA: sockets only"
    rails = (f"{rail.get('netdev')} {rail.get('address')}" for rail in fabric["rails"])
    return [
        f"{rdma}; rails {', '.join(rails) or 'unknown'}",
        f"now: {'; '.join(fabric['refused']) or fabric['how'] or 'unknown'}",
    ]


def _caches(caches: Mapping[str, Any] | None) -> list[str]:
    if caches is None:
        return ["unknown"]
    more = "" if caches["whole"] else "more than "
    stacks = len(caches["stacks"])
    return [
        f"{more}{caches['gib']:g} of at most {caches['max_gib']:g} GiB in {stacks} "
        f"stack{'' if stacks == 1 else 's'} (`tandem caches` lists them)"
    ]


def _guard(guard: Mapping[str, Any] | None) -> list[str]:
    if guard is None:
        return []
    age = guard["age_s"]
    silent = [f"has said nothing for {age:.0f} s; then:"] if age is not None and age > GUARD_FRESH_S else []
    return [*silent, *guard_page.lines(guard)]


def _history(history: list[Mapping[str, Any]]) -> list[str]:
    told = []
    for entry in history:
        known = {
            key: str(entry.get(key) or "unknown") for key in ("at", "event", "outcome", "digest", "reason")
        }
        reason = known["reason"] if len(known["reason"]) <= 100 else f"{known['reason'][:100]}…"
        told.append(f"{known['at']} {known['event']} {known['outcome']} {known['digest']}: {reason}")
    return told or ["nothing yet"]
