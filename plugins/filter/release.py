# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a group of ranks needs (controller only)."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.tandem.spark.plugins.module_utils.engine_config import environment_file
from ansible_collections.tandem.spark.plugins.module_utils.guard_hold import PLAYBOOKS
from ansible_collections.tandem.spark.plugins.module_utils.guard_look import RECOVERING


def restart_reasons(
    engines: Mapping[str, Mapping], units: Mapping[str, str], digest: str, recovering: bool = False
) -> list[str]:
    """Why the group must be restarted, in words; empty when every rank runs the release that was proven.

    `engines` is node_info's `engine` of each host before this run, `units` the unit of each host. State decides,
    not what this run happened to change: a run that was cut off leaves its work to the next one. Where the guard is
    `recovering` the group, units that are down are on their way up.
    """
    reasons = []
    for host, engine in engines.items():
        unit = engine["units"].get(units[host]) or {}
        # A node that was rebooted a moment ago still prepares its start; one that fails again and again is down.
        starts = unit.get("active") == "activating" and unit.get("sub") != "auto-restart"
        if engine["current"] != digest:
            reasons.append(f"{host} has release {engine['current'] or 'none'}, wanted is {digest}")
        elif engine["applied"] != digest:
            reasons.append(f"{host} has never proved release {digest}")
        elif unit.get("active") != "active" and not starts and not recovering:
            reasons.append(f"{units[host]} on {host} is {unit.get('active') or 'missing'}")
    return reasons or ([] if recovering else _parted(engines))


def guard_recovers(guards: Mapping[str, Mapping | None]) -> bool:
    """Whether the guards, node_info's `guard` by host, are about to bring the group up; the head's speaks for it."""
    said = [guard or {} for guard in guards.values()]
    return bool(said) and all(guard.get("active") for guard in said) and said[0].get("state") in RECOVERING


def foreign_holds(guards: Mapping[str, Mapping | None]) -> dict[str, list[str]]:
    """{owner: hosts} of the holds that no playbook took: until they are dropped the guard does nothing."""
    found: dict[str, list[str]] = {}
    for host, guard in guards.items():
        for hold in (guard or {}).get("holds", []):
            if hold["owner"] not in PLAYBOOKS:
                found.setdefault(hold["owner"], []).append(host)
    return found


def _proved_as(engine: Mapping) -> Mapping | None:
    """What the release ran as when it was proven under the circumstances of now. A rejection is no proof."""
    proof = engine["proof"] or {}
    return proof.get("ran_as") if proof.get("outcome") == "proven" else None


def _start(ran_as: Mapping | None) -> str | None:
    return (ran_as or {}).get("invocation_id")


def _parted(engines: Mapping[str, Mapping]) -> list[str]:
    """One rank was started anew beside another that still runs as it was proven: no engine takes a rank back."""
    as_proven = {
        host: _start(engine["runs_as"]) is not None
        and _start(engine["runs_as"]) == _start(_proved_as(engine))
        for host, engine in engines.items()
    }
    anew = " and ".join(host for host, same in as_proven.items() if not same)
    old = " and ".join(host for host, same in as_proven.items() if same)
    return (
        [f"the rank on {anew} was started anew, and that on {old} does not take it back"]
        if anew and old
        else []
    )


def stale_proofs(engines: Mapping[str, Mapping]) -> list[str]:
    """The hosts whose rank runs under another driver, kernel, boot or start of its unit than the one proved."""
    return [host for host, engine in engines.items() if _proved_as(engine) != engine["runs_as"]]


def proven_everywhere(engines: Mapping[str, Mapping]) -> list[str]:
    """The releases that every rank proved with the driver, kernel and boot options of now, the newest first."""
    of_each = [[release["digest"] for release in engine["proven"]] for engine in engines.values()]
    return [digest for digest in of_each[0] if all(digest in others for others in of_each)] if of_each else []


# Causes that lie in the release itself: another try would end the same way.
RELEASE_FAULTS = (
    "engine.flashinfer.",
    "engine.deepgemm.",
    "engine.ptxas.",
    "engine.model_runner.",
    "engine.kv_cache.",
    "engine.max_model_len",
    "engine.environment.",
    "engine.command_line",
    "engine.configuration",
    "engine.checkpoint.broken",
    "engine.image.",
    "engine.ray.version",
    "engine.ray.missing",
    "engine.ray.platform",
)


def rollout_verdict(failed: Mapping) -> dict[str, str]:
    """What a failed step says of the release: {outcome: rejected or unproven, reason}.

    Rejected is what read wrong, or an engine that says that it cannot run like this. A lost node, a pulled cable, a
    time-out or a taken port says nothing of the release.
    """
    results = failed.get("results") or [failed]
    said = [str(each.get("msg") or "no reason given") for each in results if each.get("failed", True)]
    reason = " ".join(said) or "no reason given"
    causes = [found["id"] for found in failed.get("findings") or []]
    bad = reason.startswith("rejected: ") or any(cause.startswith(RELEASE_FAULTS) for cause in causes)
    reason = reason.removeprefix("rejected: ").removeprefix("unproven: ")
    return {"outcome": "rejected" if bad else "unproven", "reason": reason}


def rejections(engines: Mapping[str, Mapping], digest: str) -> dict[str, str]:
    """{host: reason} where a release was rejected under the circumstances that the host has now."""
    return {
        host: engine["rejected"][digest] for host, engine in engines.items() if digest in engine["rejected"]
    }


def other_circumstances(engines: Mapping[str, Mapping], digest: str) -> str:
    """Where a release was proven under another driver or kernel: which, and what brings them back; else nothing."""
    said = []
    pair = ""
    for host, engine in engines.items():
        if engine["current"] != digest or _proved_as(engine) or not engine["proven_as"]:
            continue
        then, now = engine["proven_as"][-1], engine["runs_as"]
        changed = [
            f"{name} {then.get(name)} (now {now[name]})"
            for name in ("driver", "kernel")
            if then.get(name) != now[name]
        ]
        pair = "".join(
            f" -e tandem_driver_{variable}={then[name]}"
            for variable, name in (("version", "driver"), ("kernel", "kernel"))
            if then.get(name)
        )
        said.append(
            f"On {host} this very release was proven with {' and '.join(changed) or 'other boot options'}. "
        )
    if said and "version" in pair:
        said.append(
            "The release was not changed. Bring driver and kernel back as one pair, and run again: "
            f"`ansible-playbook tandem.spark.driver -e tandem_driver_policy=pin{pair} -e tandem_reboot=allowed` "
            "(without its last word it only shows what it would do). "
        )
    elif said:
        said.append("The release was not changed. Boot the kernel and the options of before, and run again. ")
    return "".join(said)


class FilterModule:
    def filters(self) -> dict:
        return {
            "proven_everywhere": proven_everywhere,
            "environment_file": environment_file,
            "restart_reasons": restart_reasons,
            "guard_recovers": guard_recovers,
            "foreign_holds": foreign_holds,
            "stale_proofs": stale_proofs,
            "rollout_verdict": rollout_verdict,
            "rejections": rejections,
            "other_circumstances": other_circumstances,
        }
