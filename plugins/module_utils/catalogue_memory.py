# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about unified memory and about clocks and power of the GPU."""

from __future__ import annotations

from .catalogue import Entry

FIELD = "field reports of DGX Spark"
LET_GO = "Drop the page cache (`sync; echo 3 > /proc/sys/vm/drop_caches`), see who else holds memory with `nvidia-smi`"

ENTRIES = {
    "memory.plan.not_free": Entry(
        "error",
        "node",
        "The engine would take {taken_gib} GiB, and {available_gib} of {total_gib} GiB are available",
        LET_GO + "; {way_out}",
        source=FIELD + ": what is free stays below MemTotal, at 101 to 102 of 121.69 GiB on some",
    ),
    "memory.plan.no_headroom": Entry(
        "error",
        "node",
        "The engine would leave {left_gib} GiB for the host, which keeps {headroom_gib} GiB for itself",
        LET_GO + "; {way_out}",
        source=FIELD + ": a host without memory answers ping and no ssh",
    ),
    "memory.plan.no_kv": Entry(
        "error",
        "node",
        "Nothing is left for the KV cache: of {budget_gib} GiB the weights take {weights_gib} and the rest of the "
        "engine about {overhead_gib}",
        "Spread the model over more ranks, or give the engine more; {way_out}",
    ),
    "memory.plan.kv_short": Entry(
        "error",
        "node",
        "The KV cache holds {kv_tokens} tokens, less than one request of {max_model_len}; the engine refuses that",
        "Lower max-model-len to {kv_tokens} or less, or give the KV cache more; {way_out}",
    ),
    "memory.plan.tight": Entry(
        "info",
        "node",
        "{left_gib} GiB stay for the host: it fits, and a burst may take it",
        "Nothing must be done. Leave {roomy_gib} GiB where other programs run beside the engine",
        source=FIELD + ", contested: bursts of 7.4 GiB within 3 s; 3.9 GiB left were healthy for 8 hours",
    ),
    "memory.plan.shm": Entry(
        "warning",
        "node",
        "Shared memory may grow to {shm_gib} GiB, and it comes out of the same memory as the model",
        "Set shm_size to {largest_gib} GiB or less; engines of one rank each use less than 1 GiB of it",
        source=FIELD,
    ),
    "memory.host.swapping": Entry(
        "warning",
        "node",
        "The host reads {pages_per_s} pages a second back from swap while nothing is loaded",
        "Give the engine less memory, and see who needs it with `ps aux --sort=-rss | head`",
        source=FIELD + ": swap that is in use is harmless, as is swapping while weights are loaded",
    ),
    "memory.host.exhausted": Entry(
        "error",
        "node",
        "{available_gib} GiB of memory are available: the host may answer ping and no ssh",
        "Wait up to 25 minutes before a power cycle, most come back by themselves; then plan the engine smaller",
        source=FIELD,
        lasts="start",
    ),
    "memory.host.oom": Entry(
        "error",
        "node",
        "The whole host ran out of memory, and the kernel killed {killed}",
        "Memory may take minutes to come back: wait before a power cycle. Plan the engine smaller, and set clock caps "
        "again, which do not survive it",
        source=FIELD,
        lasts="boot",
    ),
    "memory.killer.polls": Entry(
        "info",
        "node",
        "{who} looks at the memory every few seconds, which is too slow for an engine's bursts",
        "Nothing, if it is meant to keep ssh alive. Let the engine leave {roomy_gib} GiB or more: a burst took 7.4 "
        "GiB within 3 s, with swap unmoved",
        source="RyderFreeman4Logos/gb10-services, analysis of an OOM; docs/memory.md has both sides",
    ),
    "memory.gpu.orphan": Entry(
        "error",
        "node",
        "{name}, pid {pid}, is left of an engine that is gone{holds}",
        "`kill {pid}`, and `kill -9 {pid}` if it stays; until then a start fails as if gpu-memory-utilization were too "
        "high",
        source=FIELD + ": a killed API server left an EngineCore with 104277 MiB",
    ),
    "power.look.unknown": Entry(
        "warning",
        "node",
        "GPU {gpu} cannot be judged: {missing} could not be read",
        "Look at `nvidia-smi -q -d CLOCK,POWER,UTILIZATION,PERFORMANCE` while the engine answers",
    ),
    "power.clocks.stuck": Entry(
        "error",
        "node",
        "GPU {gpu} is stuck in a low-power state: {clock_mhz} MHz and {power_w} W at {utilization} % utilisation",
        "Measure again a minute later under load; some recover. If it stays, power off, take the plug out for 60 s or "
        "more, and start again: a reboot or `nvidia-smi -lgc` does not help. If it comes back, ask for a replacement",
        source=FIELD + ": 481 to 890 MHz under load, healthy are 2281 to 2483 MHz",
    ),
    "power.clocks.slow": Entry(
        "warning",
        "node",
        "GPU {gpu} runs at {clock_mhz} MHz under load with {power_w} W, and says no reason",
        "Measure again under load, and compare it with the other ranks",
    ),
    "power.clocks.capped": Entry(
        "warning",
        "node",
        "A cap on the clocks of GPU {gpu} holds it at {clock_mhz} MHz{cap}",
        "See who sets it (a container or a unit may do so again and again); `nvidia-smi -rgc` lifts it",
        source=FIELD + ": caps are set again every 300 s by a container, and vanish after a crash",
    ),
    "power.cap.lost": Entry(
        "warning",
        "node",
        "GPU {gpu} runs at {clock_mhz} MHz, above the cap of {cap_mhz} MHz that {who} sets",
        "Caps are lost with the driver's state (a crash, a process that ran out of memory). Set it again: `systemctl "
        "restart tandem-clock-cap` where it is this collection's",
        source=FIELD + ": caps vanish after the host ran out of memory",
    ),
    "power.cap.set": Entry(
        "info",
        "node",
        "{who} caps the clocks or the power of the GPU",
        "Nothing, if that is meant. `nvidia-smi -rgc` lifts a cap only until it is set again: ask who put it there",
        source=FIELD + ": caps are set again every 300 s by a container, and vanish after a crash",
    ),
    "power.clocks.unequal": Entry(
        "warning",
        "group",
        "The GPUs of the ranks work at unequal clocks: {clocks}",
        "The slowest rank sets the pace of all. Look for a cap or heat on it, and measure again under load",
    ),
    "memory.host.unequal": Entry(
        "warning",
        "group",
        "The ranks do not have the same memory: {totals}",
        "The engine takes the same share of each, so the smallest rank decides what fits. Look for memory that is kept "
        "for a crash kernel or for a handover over kexec on the smaller one",
    ),
    "power.clocks.throttled": Entry(
        "warning",
        "node",
        "GPU {gpu} is slowed down{heat}: {reasons}",
        "Look at the airflow and the room; for a power brake, at the supply that came with the machine",
    ),
    "power.engine.waiting": Entry(
        "warning",
        "node",
        "GPU {gpu} waits, it does not compute: {utilization} % utilisation at {power_w} W, {clock_mhz} MHz{tokens}",
        "Utilisation is no progress. Look at the last lines of every rank: one waits for another, gone or compiling",
        source=FIELD + ": 96 % at 16 to 27 W, healthy decoding takes 39 W",
    ),
    "power.slow.hidden": Entry(
        "warning",
        "node",
        "A step takes {step_ms} ms where {usual_ms} ms were usual, and nvidia-smi shows the same: the cause is unknown",
        "nvidia-smi cannot show this state. Compare the ranks, driver and firmware; start again from power off",
        source=FIELD + ": 94 and 63 ms a step with the same readings",
    ),
}
