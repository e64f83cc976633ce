# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about who may come to what: the packet filter, the key of the API."""

from __future__ import annotations

from .catalogue import Entry

INVENTORY = "the plan check of site.yml"
VLLM = "vLLM 0.33.0, entrypoints/serve/middleware/authenticate.py and entrypoints/launchers/api_server/routers.py"

ENTRIES = {
    "plan.access.network": Entry(
        "error",
        "group",
        "{name} has {value}, which is no network: {why}",
        "Write networks or addresses there, such as 192.168.1.0/24 or fd00::/8; 0.0.0.0/0 and ::/0 are everybody",
        source=INVENTORY,
    ),
    "plan.access.key": Entry(
        "error",
        "group",
        "tandem_api_key has a form that a header, a shell or systemd would change; it is not shown",
        "Take 16 to 512 letters, digits and ._~+/=-, such as `openssl rand -base64 32` prints, or leave it out: then a "
        "key is drawn once and kept on the head",
        source=INVENTORY,
    ),
    "access.firewall.gone": Entry(
        "warning",
        "node",
        "The packet filter does not have the table inet tandem as this collection left it ({found}): the engine's own "
        "ports may be open to everybody who reaches this node",
        "Run `ansible-playbook site.yml --tags access`, and find out who flushes all tables: a reload of "
        "nftables.service is followed, `nft flush ruleset` by hand is not",
        fixed_by="access",
    ),
    "access.api.open": Entry(
        "error",
        "group",
        "There is a key, and the API answers without it: {paths}",
        "Restart the group (stop.yml, start.yml), so that the engine is started with its key and with the gate before "
        "its API; a release of before either was there needs site.yml",
        source=VLLM,
        lasts="start",
    ),
    "access.api.developer": Entry(
        "error",
        "group",
        "The engine is in developer mode and lets everybody run what they like: {paths}",
        "Find out who sets VLLM_SERVER_DEV_MODE (`systemctl cat tandem-head`, `systemctl show-environment`), and "
        "restart the group",
        source=VLLM,
        lasts="start",
    ),
    "access.api.unknown": Entry(
        "warning",
        "group",
        "What the API answers without a key could not be asked: {paths}",
        "Ask again when the engine is not busy",
        lasts="start",
    ),
}
