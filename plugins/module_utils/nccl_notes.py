# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The findings of what NCCL says in a log."""

from __future__ import annotations

from collections.abc import Iterator

from .findings import Finding, finding
from .nccl_log import NcclLog
from .nccl_speaker import Speaker, version_number


def judge(log: NcclLog, minimum: str | None = None, wanted: str | None = None) -> list[Finding]:
    """The findings of a log. minimum: the oldest version that will do. wanted: the one transport that will do."""
    notes = [fault.finding() for fault in log.errors]
    if log.version and minimum and version_number(log.version) < version_number(minimum):
        notes.append(finding("nccl.version.old", found=log.version, minimum=minimum))
    versions = {_who(each): each.versions for each in log.processes if each.versions}
    if len(set().union(*versions.values())) > 1:
        found = ", ".join(f"{who}: {' and '.join(sorted(held))}" for who, held in versions.items())
        notes.append(finding("nccl.version.mixed", found=found))
    if wanted and log.transport != wanted:
        notes.append(finding("nccl.transport.other", found=log.transport, wanted=wanted))
    elif any(kind == "socket" for each in log.processes for kind, _device in each.channels) and not wanted:
        notes.append(finding("nccl.transport.socket"))
    if log.transport == "none" and any(each["kind"] == "ib" for each in log.devices):
        notes.append(finding("nccl.transport.unseen"))
    for each in log.processes:
        notes += _about(each)
    return list(dict.fromkeys(notes))


def _about(speaker: Speaker) -> Iterator[Finding]:
    evidence = _who(speaker)
    if speaker.no_device:
        yield finding("nccl.ib.no_device", selector=speaker.selector, evidence=evidence)
    if speaker.ib_off:
        yield finding("nccl.ib.disabled", evidence=evidence)
    if speaker.plugin and speaker.network == speaker.plugin:
        yield finding("nccl.plugin.took_over", plugin=speaker.plugin, evidence=evidence)
    if speaker.open_inits and speaker.plugin and not speaker.complete:
        yield finding("nccl.plugin.stuck", plugin=speaker.plugin, evidence=evidence)
    elif speaker.open_inits:
        rank, ranks = list(speaker.open_inits.values())[0]
        yield finding("nccl.init.unfinished", rank=rank, ranks=ranks, evidence=evidence)
    listed = [each for each in speaker.devices if each["kind"] == "ib"]
    unused = [each["name"] for each in listed if not speaker.channels["ib", each["index"]]]
    if unused and len(unused) < len(listed):
        yield finding("nccl.device.unused", unused=", ".join(unused), evidence=evidence)
    if speaker.overridden:
        wanted, taken = speaker.overridden
        yield finding("nccl.device.overridden", wanted=wanted, taken=taken, evidence=evidence)


def _who(speaker: Speaker) -> str:
    words = [speaker.host or "", f"pid {speaker.pid}" if speaker.pid else ""]
    return " ".join(filter(None, words)) or "a process"
