# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about what a link carries, where its state alone proves nothing."""

from __future__ import annotations

from .catalogue import Entry

FACTS = "field reports of two-Spark owners"
DEGRADED = "NVIDIA/dgx-spark-playbooks#108"

ENTRIES = {
    "link.perftest.missing": Entry(
        "error",
        "node",
        "{programs} not found on this node; what the rails carry was not measured",
        "Run `apt-get install perftest` on every rank, then playbooks/measure.yml again",
    ),
    "link.rate.low": Entry(
        "error",
        "node",
        "{hca} ({netdev}) has a link of {found}, wanted at least {wanted} Gb/s",
        "Reseat the cable at both ends and read `ethtool {netdev}`; 40 Gb/s is what an idle port says",
        source=FACTS,
    ),
    "link.pcie.reduced": Entry(
        "warning",
        "node",
        "{netdev} runs PCIe {found}, its function can do {best}",
        "Switch the machine off, take its power away for a minute, and start it. If it stays, update its firmware "
        "(`fwupdmgr update`): an old BIOS gave the second controller half its lanes",
        source="tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#35",
    ),
    "link.pcie.narrow": Entry(
        "error",
        "node",
        "{netdev} runs PCIe {found}, which carries {gbps} Gb/s at most; wanted are {wanted} Gb/s",
        "Update the machine's firmware (`fwupdmgr update`): an old BIOS gave the second controller two lanes of four",
        source="tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#35",
    ),
    "link.bandwidth.low": Entry(
        "error",
        "group",
        "{hca} ({netdev}) carries {found} Gb/s to {peer} where {wanted} are wanted, on a link of {rate}: {cause}",
        "{remedy}",
        source=DEGRADED,
    ),
    "link.bandwidth.together": Entry(
        "error",
        "group",
        "{hcas} together carry {found} Gb/s to {peer}, wanted {wanted}",
        "{remedy}",
        source=FACTS,
    ),
    "link.latency.high": Entry(
        "error",
        "group",
        "A message of {bytes} bytes takes {found} us from {hca} ({netdev}) to {peer}, wanted at most {wanted}",
        "See that nothing else uses the nodes (`top`), and that their clocks are not capped or stuck",
        source=FACTS,
    ),
    "link.measure.failed": Entry(
        "error",
        "group",
        "`{command}` gave no result: {why}",
        "Run it by hand on both nodes (first the one without an address at its end). `tandem fabric --env` says which "
        "GID index a start would take",
    ),
    "link.peer.absent": Entry(
        "error",
        "group",
        "{peer} did not take part in {test} on {hca} within {seconds} s; the rest was not measured",
        "Run playbooks/measure.yml on all ranks at once (no --limit), and read what it said of the other rank",
    ),
    "link.rank.runs": Entry(
        "error",
        "node",
        "{units} runs here: a measurement would take its link and be slowed by it",
        "Stop the group first (playbooks/stop.yml)",
    ),
    "link.peer.unmeasured": Entry(
        "error",
        "node",
        "{netdev} was not measured: {why}",
        "Mend what is said of it first, then measure again",
    ),
}
