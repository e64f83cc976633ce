# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What clocks, power, utilisation and tokens mean together."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import commands, power, power_look
from ansible_collections.tandem.spark.plugins.module_utils.engine_metrics import EngineMetricsError, Progress
from ansible_collections.tandem.spark.plugins.module_utils.prometheus_text import parse
from hypothesis import given
from hypothesis import strategies as st

HEADER = (
    "index, pstate, clocks.current.sm [MHz], power.draw [W], utilization.gpu [%], utilization.memory [%], "
    "temperature.gpu, clocks_event_reasons.active\n"
)
QUERY = """\
==============NVSMI LOG==============

Driver Version                            : 580.173.02
Attached GPUs                             : 1
GPU 0000000F:01:00.0
    Product Name                          : NVIDIA GB10
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : {hw}
            HW Thermal Slowdown           : {hw}
            HW Power Brake Slowdown       : Not Active
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : {sw}
    Clocks Event Reasons Counters
        SW Thermal Slowdown               : 12 us
    FB Memory Usage
        Used                              : N/A
    Utilization
        GPU                               : {util} %
        Memory                            : 0 %
    Temperature
        GPU Current Temp                  : {temp} C
        GPU T.Limit Temp                  : N/A
    GPU Power Readings
        Average Power Draw                : {watt} W
        Instantaneous Power Draw          : 1.00 W
    Module Power Readings
        Power Draw                        : N/A
    Clocks
        Graphics                          : {mhz} MHz
        SM                                : {mhz} MHz
        Memory                            : N/A
    Max Clocks
        SM                                : 3003 MHz
    Processes                             : None
"""


def query(util=96, mhz=2400, watt="39.00", temp=58, hw="Not Active", sw="Not Active") -> str:
    return QUERY.format(util=util, mhz=mhz, watt=watt, temp=temp, hw=hw, sw=sw)


def csv(
    util="96 %", mhz="2400 MHz", watt="39.00 W", memory="0 %", reasons="0x0000000000000000", temp="58"
) -> str:
    return HEADER + f"0, P0, {mhz}, {watt}, {util}, {memory}, {temp}, {reasons}\n"


def only(text: str) -> power.Sample:
    (sample,) = power.read_query(text) if "NVSMI LOG" in text else power.read_csv(text)
    return sample


def judged(text: str, moved=None, cap=None) -> tuple[str, list[str]]:
    found = power.judge(only(text), moved, cap)
    return found.state, [each.id for each in found.findings]


def test_both_spellings_are_read_alike():
    expected = power.Sample("0", "P0", 2400.0, 39.0, 96.0, 0.0, 58.0, ())
    assert only(csv()) == expected
    assert only(query()) == replace(expected, gpu="0000000F:01:00.0")
    assert only(query(hw="Active", sw="Active")).reasons == (
        "hw_slowdown",
        "hw_thermal_slowdown",
        "sw_thermal_slowdown",
    )
    assert only(csv(reasons="0x0000000000000044")).reasons == ("sw_power_cap", "hw_thermal_slowdown")
    (sample,) = power.read_csv("97, 799, 19.5", ["utilization.gpu", "clocks.sm", "power.draw"])
    assert (sample.utilization_percent, sample.clock_mhz, sample.power_w, sample.reasons) == (
        97,
        799,
        19.5,
        None,
    )


def test_single_columns_of_reasons():
    header = "power.draw [W], " + ", ".join(f"clocks_throttle_reasons.{name}" for name in power.SLOWDOWNS)
    (cool,) = power.read_csv(f"{header}\n39.00 W, Not Active, Not Active, Not Active, Not Active")
    (hot,) = power.read_csv(f"{header}\n39.00 W, Not Active, Active, Not Active, Not Active")
    (half,) = power.read_csv(f"{header}\n39.00 W, Not Active, [N/A], Not Active, Not Active")
    assert (cool.reasons, hot.reasons, half.reasons) == ((), ("sw_thermal_slowdown",), None)


@pytest.mark.parametrize(
    ("util", "mhz", "watt", "moved", "state", "expected"),
    [
        # Healthy: memory-bound decoding, GEMM, and nothing to do at any clock.
        (95, 2400, 39, True, "memory_bound", []),
        (95, 2400, 39, None, "memory_bound", []),
        (96, 2281, 92.5, None, "compute_bound", []),
        (0, 208, 4, None, "not_loaded", []),
        (0, 2411, 12, False, "not_loaded", []),
        # Stuck, whatever the tokens say: it works on, slowly.
        (96, 799, 19.5, None, "stuck", ["power.clocks.stuck"]),
        (95, 507, 11.1, True, "stuck", ["power.clocks.stuck"]),
        (94, 640, 16, False, "stuck", ["power.clocks.stuck"]),
        (96, 890, 21, None, "stuck", ["power.clocks.stuck"]),
        # Spinning: the clock is normal, the power is not.
        (96, 2580, 22, False, "waiting", ["power.engine.waiting"]),
        (96, 2580, 18, None, "waiting", ["power.engine.waiting"]),
        (96, 2580, 22, True, "working", []),
        # Neither: said, and not guessed.
        (96, 1200, 45, True, "unknown", ["power.clocks.slow"]),
        (96, 900, 45, True, "unknown", ["power.clocks.slow"]),
        (96, 1200, 20, None, "unknown", ["power.clocks.slow"]),
    ],
)
def test_states(util, mhz, watt, moved, state, expected):
    assert judged(csv(f"{util} %", f"{mhz} MHz", f"{watt:.2f} W"), moved) == (state, expected)
    assert judged(query(util, mhz, f"{watt:.2f}"), moved) == (state, expected)


def test_power_without_tokens_is_waiting_where_the_clock_is_not_known():
    text = csv(mhz="[N/A]", watt="18.00 W")
    assert judged(text, False) == ("waiting", ["power.engine.waiting"])
    assert judged(text, True)[0] == judged(text, None)[0] == "unknown"
    assert judged(csv(mhz="[N/A]"), False)[0] == "unknown"


def test_a_stuck_gpu_wants_its_plug_pulled():
    (found,) = power.judge(only(query(96, 799, "19.50"))).findings
    assert "799 MHz and 19.5 W at 96 %" in found.summary
    assert "60 s" in found.remedy and "reboot" in found.remedy
    assert "reasons none" in found.evidence
    bare = power.Sample("0", None, 799.0, 19.5, 96.0)
    assert "reasons unknown" in power.judge(bare).findings[0].evidence


@pytest.mark.parametrize(
    ("text", "state", "expected"),
    [
        (query(96, 900, "24.00", 92, sw="Active"), "throttled", ["power.clocks.throttled"]),
        (query(96, 2000, "60.00", 92, hw="Active"), "throttled", ["power.clocks.throttled"]),
        (csv(reasons="0x0000000000000080"), "throttled", ["power.clocks.throttled"]),
        (csv(util="0 %", reasons="0x0000000000000040"), "throttled", ["power.clocks.throttled"]),
        # A power cap at the limit of the machine, and the reasons of a GPU at rest, are healthy.
        (csv(watt="92.00 W", reasons="0x0000000000000004"), "compute_bound", []),
        (csv(util="0 %", mhz="208 MHz", watt="4.00 W", reasons="0x0000000000000001"), "not_loaded", []),
    ],
)
def test_what_slows_down(text, state, expected):
    assert judged(text) == (state, expected)


def test_a_cap_is_seen_before_the_clock_is_judged():
    slow = csv(mhz="799 MHz", watt="19.50 W")
    assert judged(slow, cap=800) == ("capped", ["power.clocks.capped"])
    assert judged(slow, cap=2200) == ("stuck", ["power.clocks.stuck"])
    assert judged(csv(mhz="799 MHz", watt="19.50 W", reasons="0x2")) == ("capped", ["power.clocks.capped"])
    assert judged(csv(mhz="2200 MHz"), cap=2200) == ("memory_bound", [])


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (csv(mhz="[N/A]", watt="18.00 W"), "the SM clock"),
        (csv(watt="N/A"), "the power"),
        (csv(util="[Not Supported]", mhz="?", watt=""), "the utilisation and the power and the SM clock"),
    ],
)
def test_what_cannot_be_read_is_unknown(text, missing):
    found = power.judge(only(text))
    assert (found.state, [each.id for each in found.findings]) == ("unknown", ["power.look.unknown"])
    assert missing in found.findings[0].summary


@pytest.mark.parametrize(
    ("step_ms", "usual_ms", "state", "expected"),
    [
        (94, 63, "unknown", ["power.slow.hidden"]),
        (66, 63, "memory_bound", []),
        (63, 94, "memory_bound", []),
        (94, 0, "memory_bound", []),
    ],
)
def test_a_hidden_slow_state_is_unknown_and_said(step_ms, usual_ms, state, expected):
    healthy = power.judge(only(query()), True)
    found = power.compare_steps(healthy, step_ms, usual_ms)
    assert (found.state, [each.id for each in found.findings]) == (state, expected)


def test_a_named_fault_is_not_covered_by_a_slow_step():
    stuck = power.judge(only(query(96, 799, "19.50")))
    assert power.compare_steps(stuck, 94, 63) is stuck


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        (Progress(10, 20, 0.1, 0), Progress(10, 25, 0.1, 0), True),
        (Progress(10, 20, 0.1, 0), Progress(10, 20, 0.2, 0), True),
        (Progress(10, 20, 0.1, 0), Progress(10, 20, 0.1, 0), False),
        (Progress(10, None, 0.1, 0), Progress(10, 20, 0.1, 0), None),
        (Progress(), Progress(), None),
        (None, Progress(10, 20, 0.1, 0), None),
    ],
)
def test_whether_tokens_moved(before, after, moved):
    assert power.tokens_moved(before, after) is moved


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "\0\x01",
        "NVIDIA-SMI has failed",
        "a, b\n1\n1, 2, 3",
        "GPU 0: x",
        "name, driver_version\nNVIDIA GB10, 580.178.04",
    ],
)
def test_no_samples(text):
    assert power.read_query(text) == ()
    assert power.read_csv(text) == ()


@given(st.text(), st.integers(0, len(QUERY)), st.text(max_size=20))
def test_broken_text_is_no_traceback(text, cut, noise):
    for broken in (text, query()[:cut] + noise, HEADER + text, csv()[:cut] + noise):
        for sample in power.read_query(broken) + power.read_csv(broken):
            assert power.judge(sample).state


def page(tokens: int):
    return parse(
        f'# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{{engine="0"}} {tokens}\n'
    )


def world(pages, out=""):
    """nvidia-smi prints `out`; each reading of the counters takes the next of `pages`, None is a failure."""
    left = iter(pages)

    def fetch(url, verify):
        tokens = next(left)
        if tokens is None:
            raise EngineMetricsError(f"{url} is silent")
        return page(tokens)

    return power_look.World(lambda argv: commands.Answer(0, out), fetch, lambda seconds: None)


SPINNING = csv(mhz="2580 MHz", watt="22.00 W")
METRICS = "status.metrics.unknown"


@pytest.mark.parametrize(
    ("question", "pages", "out", "verdicts", "moved", "expected"),
    [
        ({"text": query()}, [], "", ["memory_bound"], None, []),
        ({}, [], csv(), ["memory_bound"], None, []),
        ({"url": "http://a"}, [1, 2], SPINNING, ["working"], True, []),
        ({"url": "http://a"}, [1, 1], SPINNING, ["waiting"], False, ["power.engine.waiting"]),
        ({"url": "http://a"}, [None], SPINNING, ["waiting"], None, [METRICS, "power.engine.waiting"]),
        ({"url": "http://a"}, [1, None], csv(), ["memory_bound"], None, [METRICS]),
        ({"cap_mhz": 800}, [], csv(mhz="799 MHz", watt="19.50 W"), ["capped"], None, ["power.clocks.capped"]),
        ({}, [], "NVIDIA-SMI has failed", [], None, ["host.look.failed"]),
    ],
)
def test_a_look(question, pages, out, verdicts, moved, expected):
    found, notes = power_look.look(power_look.Question(**question), world(pages, out))
    assert [gpu["verdict"] for gpu in found["gpus"]] == verdicts
    assert found["tokens_moved"] is moved
    assert [note.id for note in notes] == expected
    json.dumps(found)
