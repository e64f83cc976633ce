# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The matrix that tune.yml tries: its points, and what a point changes in the profile (controller only).

A row is one setting of everything but max_num_seqs; along it a point that is wrong makes every larger one wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.tandem.spark.plugins.plugin_utils.profile import difference

# vLLM's CUDAGraphMode (config/compilation.py), and EAGER: neither graphs nor compilation (--enforce-eager).
EAGER = "EAGER"
GRAPHS = ("FULL_AND_PIECEWISE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY")
MODES = (*GRAPHS, "NONE", EAGER)
_ENGINES_OWN = "FULL_AND_PIECEWISE"  # where a profile does not say
_SEQUENCES = (2, 4, 8, 16)
_METHOD, _K = "method", "num_speculative_tokens"
# The flags that make a point.
AXES = ("max-num-seqs", "compilation-config", "enforce-eager", "speculative-config")


class TuneError(Exception):
    """Everything that is wrong with what is to be tried, in one text."""


@dataclass(frozen=True)
class Row:
    """mode: one of MODES. k: drafted tokens, 0 without speculation. draft: the rest of speculative-config, as JSON."""

    mode: str
    k: int
    draft: str

    @property
    def method(self) -> str:
        return json.loads(self.draft)[_METHOD] if self.k else "none"

    @property
    def drafted(self) -> str:
        """The draft in words: its method, and what else its configuration says."""
        if not self.k:
            return "none"
        more = {name: value for name, value in json.loads(self.draft).items() if name != _METHOD}
        told = " ".join(f"{name}={_plain(value)}" for name, value in more.items())
        return f"{self.method} {told}".strip()

    def __str__(self) -> str:
        return f"{self.mode}, {f'{self.method} k={self.k}' if self.k else 'no draft'}"


@dataclass(frozen=True)
class Point:
    row: Row
    max_num_seqs: int

    def __str__(self) -> str:
        return f"max_num_seqs {self.max_num_seqs}, {self.row}"

    @property
    def name(self) -> str:
        """A file name, another one for each point."""
        row = self.row
        draft = hashlib.sha256(row.draft.encode()).hexdigest()[:6] if row.k else ""
        words = (row.mode, row.method, f"k{row.k}", draft, f"s{self.max_num_seqs}")
        return re.sub(r"[^a-z0-9]+", "-", "-".join(filter(None, words)).lower())

    def as_dict(self) -> dict[str, Any]:
        row = self.row
        draft = json.loads(row.draft) if row.k else None
        return {"max_num_seqs": self.max_num_seqs, "cudagraph_mode": row.mode, "k": row.k, "draft": draft}


def point_of(told: Mapping[str, Any]) -> Point:
    """The point that `as_dict` told; ValueError where it is none."""
    try:
        sequences, mode, k = told["max_num_seqs"], told["cudagraph_mode"], told["k"]
        draft = told["draft"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"no point: {error}") from error
    # Ansible hands in numbers of a class of its own.
    numbers = all(isinstance(each, int) and not isinstance(each, bool) for each in (sequences, k))
    if not numbers or mode not in MODES:
        raise ValueError(f"no point: {told}")
    if k and not (isinstance(draft, Mapping) and isinstance(draft.get(_METHOD), str)):
        raise ValueError(f"a point with k={k} and no draft")
    return Point(Row(str(mode), int(k), _canonical(draft) if k else ""), int(sequences))


@dataclass(frozen=True)
class Wish:
    """What an inventory wants tried; an empty list leaves it to the profile. drafts: speculative-config without k."""

    max_num_seqs: Sequence[int] = ()
    modes: Sequence[str] = ()
    k: Sequence[int] = ()
    drafts: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Matrix:
    """rows in the order in which they are tried; sequences rising."""

    rows: tuple[Row, ...]
    sequences: tuple[int, ...]

    def points(self) -> list[Point]:
        return [Point(row, sequences) for row in self.rows for sequences in self.sequences]


def matrix(profile: Mapping[str, Any], wish: Wish) -> Matrix:
    """What is tried of a checked profile. TuneError names everything that cannot be."""
    flags = profile["engine"]["flags"]
    speculation = _map_of(flags.get("speculative-config"))
    wrong = _problems(wish, speculation)
    if wrong:
        raise TuneError("; ".join(wrong))
    drafts = _drafts(wish, speculation)
    rows = [
        Row(mode.upper(), k, draft if k else "")
        for mode in wish.modes or _modes(profile)
        for draft in drafts or [""]
        for k in wish.k or _ks(profile, speculation)
    ]
    sequences = wish.max_num_seqs or {*_SEQUENCES, _whole(flags.get("max-num-seqs"))} - {None}
    return Matrix(tuple(dict.fromkeys(rows)), tuple(sorted(set(sequences))))


def _problems(wish: Wish, speculation: Mapping[str, Any]) -> list[str]:
    wrong = [f"tandem_tune_max_num_seqs has {n}, wanted 1 or more" for n in wish.max_num_seqs if n < 1]
    wrong += [f"tandem_tune_k has {k}, wanted 0 (no speculation) or more" for k in wish.k if k < 0]
    wrong += [
        f"tandem_tune_cudagraph_modes has {mode}, wanted some of {', '.join(MODES)}"
        for mode in wish.modes
        if str(mode).upper() not in MODES
    ]
    for draft in wish.drafts:
        if not isinstance(draft.get(_METHOD), str) or not draft[_METHOD]:
            wrong.append(
                f"tandem_tune_drafts has {_canonical(draft)}, wanted a map with a method, such as {{method: ngram}}"
            )
        if _K in draft:
            wrong.append(
                f"tandem_tune_drafts has {_K} for {draft.get(_METHOD)}: say it in tandem_tune_k, for all drafts"
            )
    if any(wish.k) and not wish.drafts and not speculation.get(_METHOD):
        wrong.append(
            "tandem_tune_k wants speculation, and the profile has no speculative-config: say it in tandem_tune_drafts"
        )
    return wrong


def mode_of(flags: Mapping[str, Any]) -> str:
    """The graph mode that these flags ask for; the engine's own default where they do not say."""
    if flags.get("enforce-eager"):
        return EAGER
    return str(_map_of(flags.get("compilation-config")).get("cudagraph_mode") or _ENGINES_OWN).upper()


def _modes(profile: Mapping[str, Any]) -> list[str]:
    own = mode_of(profile["engine"]["flags"])
    graphs = ("FULL_AND_PIECEWISE", "PIECEWISE", "NONE") if profile["accelerator"] != "none" else ()
    return list(dict.fromkeys((own if own in MODES else _ENGINES_OWN, *graphs)))


def _ks(profile: Mapping[str, Any], speculation: Mapping[str, Any]) -> list[int]:
    """The profile's own k, and what its rule leaves beside it."""
    k = _whole(speculation.get(_K))
    if k is None:
        return [0]
    rule = (profile.get("speculation") or {}).get("k_rule", "any")
    beside = {"equals_block": (), "at_least_block": (k + 2,)}.get(rule, (k - 2, k + 2))
    return [k, *(each for each in beside if each > 0)]


def _drafts(wish: Wish, speculation: Mapping[str, Any]) -> list[str]:
    """Each as JSON. What the profile says of its own method is laid under a wish for that method."""
    own = {name: value for name, value in speculation.items() if name != _K}
    wanted = [
        {**own, **draft} if draft[_METHOD] == own.get(_METHOD) else dict(draft) for draft in wish.drafts
    ] or ([own] if own.get(_METHOD) else [])
    return list(dict.fromkeys(map(_canonical, wanted)))


def overrides(point: Point, profile: Mapping[str, Any]) -> dict[str, Any]:
    """What is laid over the profile for a point; empty where it is the profile's own."""
    flags = profile["engine"]["flags"]
    row = point.row
    wanted: dict[str, Any] = {**_graph_flags(row.mode, flags), "max-num-seqs": point.max_num_seqs}
    if row.k:
        wanted["speculative-config"] = {**json.loads(row.draft), _K: row.k}
    now = {name: flags[name] for name in AXES if name in flags}
    for name in ("compilation-config", "speculative-config"):
        if isinstance(now.get(name), str) and _map_of(now[name]) == wanted.get(name):
            wanted[name] = now[name]
    laid = difference(now, wanted)
    return {"engine": {"flags": laid}} if laid else {}


def _graph_flags(mode: str, flags: Mapping[str, Any]) -> dict[str, Any]:
    if mode == mode_of(flags):
        return {name: flags[name] for name in ("enforce-eager", "compilation-config") if name in flags}
    compilation = _map_of(flags.get("compilation-config"))
    if mode == EAGER:
        kept = {"compilation-config": flags["compilation-config"]} if compilation else {}
        return {"enforce-eager": True, **kept}
    return {"compilation-config": {**compilation, "cudagraph_mode": mode}}


def others(profile: Mapping[str, Any]) -> dict[str, Any]:
    """What of a profile is the same at every point and counts for what is measured there."""
    flags = {name: value for name, value in profile["engine"]["flags"].items() if name not in AXES}
    kept = ("tensor_parallel_size", "transport", "nccl", "warm_up", "proof")
    return {
        "flags": flags,
        "environment": profile["engine"].get("environment"),
        **{name: profile.get(name) for name in kept},
    }


def _map_of(value: object) -> Mapping[str, Any]:
    """A flag that is a map, or JSON of one; empty where it is neither."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, Mapping) else {}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def stack_id(parts: Iterable[object]) -> str:
    """Twelve hex digits for all that a result holds for: another engine, kernel or question is another stack."""
    return hashlib.sha256(_canonical(list(parts)).encode()).hexdigest()[:12]
