# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the looks at all ranks of a starting group say together. A look is what engine_wait's module returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, finding
from ansible_collections.tandem.spark.plugins.module_utils.stalled_ranks import name_ranks

Look = Mapping[str, Any]
# Of a rank that has not met the others yet.
ALONE = ("preparing the start", "starting", "waiting for the other rank")
KEPT = ("phase", "outcome", "unit_state", "boot", "journal")


def outcome_of(looks: Mapping[str, Look]) -> str:
    """broken (a look could not be taken), failed, ready (every rank is), or waiting."""
    outcomes = {
        "lost" if look.get("unreachable") else look.get("outcome", "broken") for look in looks.values()
    }
    if "broken" in outcomes:
        return "broken"
    if outcomes & {"failed", "lost"}:
        return "failed"
    return "ready" if outcomes == {"ready"} else "waiting"


def parted(looks: Mapping[str, Look], head: str) -> Finding | None:
    """Whether the head is ready without its workers: then it still runs with those of before."""
    if looks[head].get("outcome") != "ready":
        return None
    anew = [host for host, look in looks.items() if look.get("phase") in ALONE]
    return finding("engine.boot.parted", anew, anew=" and ".join(anew), head=head) if anew else None


def mark_of(look: Look) -> tuple[str, int]:
    """Changes when the phase does, and at each quarter of a phase that counts: then a line is worth printing."""
    progress = look["boot"]["progress"]
    stage = look["phase"].partition(",")[0]
    return stage, 4 * progress["done"] // max(progress["of"], 1) if progress else 0


def _journal(look: Look) -> str:
    return "\n".join(["The last lines of its journal:", *(look["journal"] or ["(none)"])])


def _described(host: str, unit: str, look: Look, waited: str) -> str:
    """One rank that will not come up, for an operator."""
    if look.get("unreachable"):
        return f"{host} was lost after {waited}: {look['msg']}. Bring it back and run again."
    (cause,) = look["findings"]
    what = f"{unit} on {host} failed after {waited} (last phase: {look['phase']}): {cause['summary']}. "
    evidence = f"\n{cause['evidence']}" if cause["evidence"] else ""
    return f"{what}{cause['remedy']}.{evidence}\n{_journal(look)}"


def failure_of(looks: Mapping[str, Look], units: Mapping[str, str], seconds: float) -> str:
    """What was found and what to do for a group that did not come up: those at fault first, then where others were."""
    gone = [host for host, look in looks.items() if look.get("unreachable") or look["outcome"] == "failed"]
    # A rank that ended without a fatal line of its own mostly follows another one.
    gone.sort(key=lambda host: not (looks[host].get("boot") or {}).get("fatal"))
    told = [_described(host, units[host], looks[host], f"{seconds:.0f} s") for host in gone]
    told += [f"{host} was {look['phase']}." for host, look in looks.items() if host not in gone]
    return "\n".join(told)


def timeout_of(looks: Mapping[str, Look], units: Mapping[str, str], seconds: float) -> Finding:
    """The finding for a group whose time is over: the ranks that keep the others waiting are its hosts."""
    phases = ", ".join(f"{host} is {look['phase']}" for host, look in looks.items())
    watched = ", ".join(f"`journalctl -fu {unit}` on {host}" for host, unit in units.items())
    late = finding("engine.boot.timeout", evidence=phases, seconds=f"{seconds:.0f}", watch=watched)
    return name_ranks(late, {host: look["journal"] for host, look in looks.items()})


def told(found: Finding) -> str:
    """A finding in the words of an error message."""
    who = f" [{', '.join(found.hosts)}]" if found.hosts else ""
    return f"{found.summary}{who}. {found.remedy}.\n{found.evidence}"
