# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks, power and utilisation of a GPU, and what they mean together with the tokens of the engine.

Utilisation alone is no progress, and a low clock without load is no fault. What could not be read is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from .engine_metrics import Progress
from .findings import Finding, finding

# Fields for `nvidia-smi --query-gpu=… --format=csv`: all that judge() asks.
FIELDS = (
    "index",
    "pstate",
    "clocks.sm",
    "power.draw",
    "utilization.gpu",
    "utilization.memory",
    "temperature.gpu",
    "clocks_event_reasons.active",
)
# Under load: 481 to 890 MHz were seen of stuck GPUs, 2281 MHz and more of healthy ones.
STUCK_BELOW_MHZ = 1000
NORMAL_FROM_MHZ = 1500
# 11 to 27 W were seen of GPUs that are stuck or wait, 39 W of memory-bound decoding, 84 W and more of GEMM.
WORKS_FROM_W = 30.0
COMPUTES_FROM_W = 70.0
LOADED_FROM_PERCENT = 80
SLOWER_BY = 1.25

# NVML's nvmlClocksEventReason*: bit, name in the query, name in `nvidia-smi -q`.
REASONS = (
    (0x01, "gpu_idle", "Idle"),
    (0x02, "applications_clocks_setting", "Applications Clocks Setting"),
    (0x04, "sw_power_cap", "SW Power Cap"),
    (0x08, "hw_slowdown", "HW Slowdown"),
    (0x10, "sync_boost", "Sync Boost"),
    (0x20, "sw_thermal_slowdown", "SW Thermal Slowdown"),
    (0x40, "hw_thermal_slowdown", "HW Thermal Slowdown"),
    (0x80, "hw_power_brake_slowdown", "HW Power Brake Slowdown"),
)
# A power cap is not among them: compute-bound work at the limit of the machine shows it and is healthy.
SLOWDOWNS = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")


_READINGS = ("clocks.sm", "clocks.current.sm", "power.draw", "utilization.gpu")


@dataclass(frozen=True)
class Sample:
    """One GPU at one moment; None is not reported. reasons are those that hold the clocks down, None unknown."""

    gpu: str
    state: str | None = None
    clock_mhz: float | None = None
    power_w: float | None = None
    utilization_percent: float | None = None
    memory_percent: float | None = None
    temperature_c: float | None = None
    reasons: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Judgement:
    """state: not_loaded, memory_bound, compute_bound, working, waiting, stuck, throttled, capped or unknown."""

    state: str
    findings: tuple[Finding, ...] = ()


def _number(text: str | None) -> float | None:
    """`96 %`, `799 MHz`, `19.50 W` -> the number; `[N/A]` and anything else -> None."""
    found = re.fullmatch(r"\s*(\d{1,6}(?:\.\d{1,6})?)(?:\s*(?:%|MHz|W|C))?\s*", text or "", re.ASCII)
    return float(found[1]) if found else None


def _first_number(values: Mapping[str, str], *names: str) -> float | None:
    return next((number for name in names if (number := _number(values.get(name))) is not None), None)


def _sample(gpu: str, values: Mapping[str, str], reasons: tuple[str, ...] | None) -> Sample:
    state = re.fullmatch(r"P\d{1,2}", values.get("pstate", ""), re.ASCII)
    return Sample(
        gpu=gpu,
        state=state[0] if state else None,
        clock_mhz=_first_number(values, "clocks.sm", "clocks.current.sm"),
        power_w=_first_number(values, "power.draw", "power.draw.average", "power.draw.instant"),
        utilization_percent=_first_number(values, "utilization.gpu"),
        memory_percent=_first_number(values, "utilization.memory"),
        temperature_c=_first_number(values, "temperature.gpu"),
        reasons=reasons,
    )


def read_csv(text: str, fields: Sequence[str] | None = None) -> tuple[Sample, ...]:
    """What `nvidia-smi --query-gpu=… --format=csv` prints; fields names the columns where it has no header.

    Text without a column of clocks, power or utilisation gives no sample.
    """
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    if fields is None:
        fields = [cell.partition(" [")[0] for cell in rows[0]] if rows else []
        rows = rows[1:]
    if not any(name in fields for name in _READINGS):
        return ()
    samples = []
    for number, row in enumerate(each for each in rows if len(each) == len(fields)):
        values = dict(zip(fields, row, strict=True))
        samples.append(_sample(values.get("index") or str(number), values, _csv_reasons(values)))
    return tuple(samples)


def _csv_reasons(values: Mapping[str, str]) -> tuple[str, ...] | None:
    """The mask, or single columns; both have two spellings. None where neither can be read in full."""
    for prefix in ("clocks_event_reasons", "clocks_throttle_reasons"):
        mask = values.get(f"{prefix}.active", "")
        if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", mask):
            return tuple(name for bit, name, _word in REASONS if int(mask, 16) & bit)
        words = {name: values.get(f"{prefix}.{name}") for _bit, name, _word in REASONS}
        if (found := _active(words)) is not None:
            return found
    return None


def _active(words: Mapping[str, str | None]) -> tuple[str, ...] | None:
    """Reasons that say Active. None where there is none of them and a slowdown is not known to be away."""
    active = tuple(name for name, word in words.items() if word == "Active")
    known = all(words.get(name) == "Not Active" for name in SLOWDOWNS)
    return active if active or known else None


# (section, key) of `nvidia-smi -q` -> the name in the query.
_QUERY_NAMES = {
    ("", "Performance State"): "pstate",
    ("Clocks", "SM"): "clocks.sm",
    ("GPU Power Readings", "Power Draw"): "power.draw",
    ("GPU Power Readings", "Average Power Draw"): "power.draw.average",
    ("GPU Power Readings", "Instantaneous Power Draw"): "power.draw.instant",
    ("Power Readings", "Power Draw"): "power.draw",
    ("Utilization", "GPU"): "utilization.gpu",
    ("Utilization", "Gpu"): "utilization.gpu",
    ("Utilization", "Memory"): "utilization.memory",
    ("Temperature", "GPU Current Temp"): "temperature.gpu",
}
_REASON_SECTIONS = ("Clocks Event Reasons", "Clocks Throttle Reasons")
_REASON_NAMES = {word: name for _bit, name, word in REASONS}


def read_query(text: str) -> tuple[Sample, ...]:
    """What `nvidia-smi -q` prints, whole or of some sections; a GPU is named by its bus id."""
    gpus: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    current: tuple[dict[str, str], dict[str, str]] | None = None
    section, depth = "", 0
    for line in text.splitlines():
        key, colon, value = (part.strip() for part in line.partition(" : "))
        indent = len(line) - len(line.lstrip())
        bus = re.fullmatch(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]{4,12})", key)
        if bus and not colon:
            current, section = gpus.setdefault(bus[1], ({}, {})), ""
        elif current is None or not key:
            continue
        elif not colon:
            section, depth = key, indent
        else:
            if indent <= depth:
                section = ""
            if section in _REASON_SECTIONS and key in _REASON_NAMES:
                current[1][_REASON_NAMES[key]] = value
            elif (section, key) in _QUERY_NAMES:
                current[0].setdefault(_QUERY_NAMES[section, key], value)
    return tuple(_sample(bus, values, _active(words)) for bus, (values, words) in gpus.items())


def tokens_moved(before: Progress | None, after: Progress | None) -> bool | None:
    """Whether the engine got on between two readings; None where a counter to tell it is missing."""
    if before is None or after is None:
        return None
    pairs = [(old, getattr(after, name)) for name, old in asdict(before).items()]
    if any(old is not None and new is not None and old != new for old, new in pairs):
        return True
    return None if None in (before.generation_tokens, after.generation_tokens) else False


def judge(sample: Sample, moved: bool | None = None, cap_mhz: float | None = None) -> Judgement:
    """Judge one sample. moved: tokens_moved() around it. cap_mhz: a cap on the clocks that is known to be set.

    Without load there is nothing to judge, but for what slows the GPU down.
    """
    reasons = sample.reasons or ()
    slowed = [name for name in SLOWDOWNS if name in reasons]
    if slowed:
        heat = f" at {sample.temperature_c:g} °C" if sample.temperature_c is not None else ""
        return _found("throttled", "power.clocks.throttled", sample, heat=heat, reasons=", ".join(slowed))
    readings = {
        "the utilisation": sample.utilization_percent,
        "the power": sample.power_w,
        "the SM clock": sample.clock_mhz,
    }
    if sample.utilization_percent is not None and sample.utilization_percent < LOADED_FROM_PERCENT:
        return Judgement("not_loaded")
    missing = [name for name, value in readings.items() if value is None]
    if missing == ["the SM clock"] and sample.power_w < WORKS_FROM_W and moved is False:
        return _waiting(sample, moved)  # a stuck GPU is slow, and tokens come all the same
    if missing:
        return _found("unknown", "power.look.unknown", sample, missing=" and ".join(missing))
    if sample.clock_mhz < NORMAL_FROM_MHZ:
        return _slow_clock(sample, cap_mhz)
    if sample.power_w >= COMPUTES_FROM_W:
        return Judgement("compute_bound")
    if sample.power_w >= WORKS_FROM_W:
        return Judgement("memory_bound")
    if moved:
        return Judgement("working")
    return _waiting(sample, moved)


def _waiting(sample: Sample, moved: bool | None) -> Judgement:
    tokens = ", and no token came" if moved is False else "; whether tokens came is unknown"
    return _found("waiting", "power.engine.waiting", sample, tokens=tokens)


def _slow_clock(sample: Sample, cap_mhz: float | None) -> Judgement:
    capped = cap_mhz is not None and sample.clock_mhz >= 0.9 * cap_mhz
    if capped or "applications_clocks_setting" in (sample.reasons or ()):
        cap = f" (cap {cap_mhz:g} MHz)" if cap_mhz is not None else ""
        return _found("capped", "power.clocks.capped", sample, cap=cap)
    if sample.clock_mhz < STUCK_BELOW_MHZ and sample.power_w < WORKS_FROM_W:
        return _found("stuck", "power.clocks.stuck", sample)
    return _found("unknown", "power.clocks.slow", sample)


def _found(state: str, finding_id: str, sample: Sample, **values: str) -> Judgement:
    figures = {
        "gpu": sample.gpu,
        "clock_mhz": _figure(sample.clock_mhz),
        "power_w": _figure(sample.power_w),
        "utilization": _figure(sample.utilization_percent),
    }
    return Judgement(state, (finding(finding_id, evidence=_evidence(sample), **figures, **values),))


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"


def _evidence(sample: Sample) -> str:
    shown = {name: value for name, value in asdict(sample).items() if name != "reasons"}
    reasons = "unknown" if sample.reasons is None else ", ".join(sample.reasons) or "none"
    return ", ".join([*(f"{name} {value}" for name, value in shown.items()), f"reasons {reasons}"])


def compare_steps(judged: Judgement, step_ms: float, usual_ms: float) -> Judgement:
    """A GPU that looks healthy and is slower than usual is unknown: its readings are the same in both states.

    usual_ms: the same work on another rank, or as measured before. A fault that is already named stays.
    """
    healthy = judged.state in ("memory_bound", "compute_bound", "working", "not_loaded")
    if not healthy or not 0 < usual_ms * SLOWER_BY < step_ms:
        return judged
    return Judgement(
        "unknown", (finding("power.slow.hidden", step_ms=f"{step_ms:g}", usual_ms=f"{usual_ms:g}"),)
    )
