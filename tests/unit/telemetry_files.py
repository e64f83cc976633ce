# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of role telemetry as a user gets them, and the metrics that their expressions name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jinja2

TEMPLATES = Path(__file__).resolve().parents[2] / "roles" / "telemetry" / "templates"
_METRIC = re.compile(r"\b(?:vllm:|tandem_guard_|tandem:)[a-z_:0-9]+")


def render(
    name: str, engine: str = "192.0.2.1:8888", guard: str = "192.0.2.1:25002", interval_s: int = 10
) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters["to_json"] = json.dumps
    return environment.get_template(name).render(
        __tandem_telemetry_group="tandem",
        __tandem_telemetry_targets={"engine": [engine], "guard": [guard]},
        tandem_telemetry_scrape_interval_s=interval_s,
    )


def metrics_in(expression: str) -> set[str]:
    return set(_METRIC.findall(expression))


def dashboard_expressions() -> list[str]:
    panels = json.loads(render("grafana-dashboard.json.j2"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]
