# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware of a node: of the machine and of its network cards. Read and compared over ranks, never written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .findings import Finding, finding
from .kernel_files import Tree

DMI = {
    "vendor": "sys_vendor",
    "product": "product_name",
    "system": "bios_version",
    "system_date": "bios_date",
    "controller": "ec_firmware_release",
}


def look(root: Tree) -> dict[str, Any]:
    """{vendor, product, system, system_date, controller, hcas: {name: version}}; null is unknown or not told."""
    told = {name: root.text("sys/class/dmi/id", file) for name, file in DMI.items()}
    hcas = root.names("sys/class/infiniband")
    return {**told, "hcas": {name: root.text("sys/class/infiniband", name, "fw_ver") for name in hcas}}


def compare(seen: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Looks by host -> a finding for the machines and one for the cards, where they differ.

    Machines of several makers carry firmware of their own each and are not compared; what is unknown neither.
    """
    notes = []
    machines = {host: (each["product"], each["system"]) for host, each in seen.items() if each["system"]}
    if len({product for product, _version in machines.values()}) == 1:
        notes += _unequal("the machines", {host: version for host, (_product, version) in machines.items()})
    cards = {
        host: " and ".join(sorted({version for version in each["hcas"].values() if version}))
        for host, each in seen.items()
    }
    return notes + _unequal("the network cards", {host: told for host, told in cards.items() if told})


def _unequal(what: str, versions: Mapping[str, str]) -> list[Finding]:
    if len(set(versions.values())) < 2:
        return []
    told = ", ".join(f"{host} {version}" for host, version in versions.items())
    return [finding("host.firmware.unequal", hosts=tuple(versions), what=what, versions=told)]
