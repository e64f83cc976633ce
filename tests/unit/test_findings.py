# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The finding catalogue: complete, filled in at once, and the same order at every run."""

from __future__ import annotations

import json
import re
import string
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import findings
from ansible_collections.tandem.spark.plugins.module_utils.catalogue import Entry
from ansible_collections.tandem.spark.plugins.plugin_utils import variables

ROOT = Path(__file__).parents[2]
IDS = sorted(findings.CATALOGUE)


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("finding_id", IDS)
def test_an_entry_is_complete(finding_id):
    entry = findings.CATALOGUE[finding_id]
    assert re.fullmatch(r"[a-z0-9]+(\.[a-z0-9_]+)+", finding_id)
    assert entry.summary and entry.remedy
    assert all(name.isidentifier() for name in fields(entry.summary) | fields(entry.remedy))
    values = dict.fromkeys(fields(entry.summary) | fields(entry.remedy), "X")
    made = findings.finding(finding_id, ["spark-a"], "seen", **values)
    assert (made.hosts, made.evidence, made.severity) == (("spark-a",), "seen", entry.severity)
    assert json.loads(json.dumps(made.as_dict()))["hosts"] == ["spark-a"]


@pytest.mark.parametrize("finding_id", IDS)
def test_a_remedy_names_only_what_exists(finding_id):
    text = findings.CATALOGUE[finding_id].summary + findings.CATALOGUE[finding_id].remedy
    assert set(re.findall(r"\btandem_[a-z_]+", text)) <= set(variables.declared(ROOT / "roles"))
    for name in re.findall(r"ansible-playbook (\S+)", text):
        assert (ROOT / name).is_file(), name


def test_a_missing_value_or_an_unknown_id_is_an_error_at_once():
    with pytest.raises(KeyError):
        findings.finding("fabric.mtu.small", hca="rocep1s0f0")
    with pytest.raises(KeyError):
        findings.finding("fabric.no.such")


def test_worst_first():
    made = [
        findings.finding("fabric.rail.mixed_cages", cages="x"),
        findings.finding("fabric.mtu.unknown", hca="b", netdev="n"),
        findings.finding("host.management.unknown"),
        findings.finding("fabric.hca.unaddressed", hca="a", netdev="n"),
    ]
    ids = [note.id for note in findings.worst_first(made)]
    assert ids == [
        "host.management.unknown",
        "fabric.hca.unaddressed",
        "fabric.mtu.unknown",
        "fabric.rail.mixed_cages",
    ]
    assert ids == [note.id for note in findings.worst_first(reversed(made))]


@pytest.mark.parametrize(
    "parts",
    [
        [{"a.b": Entry("error", "node", "s", "r")}, {"a.b": Entry("error", "node", "s", "r")}],
        [{"a.b": Entry("fatal", "node", "s", "r")}],
        [{"a.b": Entry("error", "cluster", "s", "r")}],
        [{"a.b": Entry("error", "node", "s", "r", lasts="long")}],
    ],
)
def test_catalogues_that_cannot_be_joined(parts):
    with pytest.raises(ValueError):
        findings.join_catalogues(parts)


def writer():
    spec = spec_from_file_location("findings_page", ROOT / "docs" / "findings.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_in_step_with_the_catalogue():
    assert writer().page(findings.CATALOGUE) == (ROOT / "docs/findings.md").read_text(), "run `make findings`"


def test_the_page_tells_all_of_an_entry():
    made = writer().page({"x.y": Entry("error", "group", "{free} GiB", "Do {what}", "node", "somebody")})
    assert made.endswith(
        "## x\n\n- `x.y` (**error**, of the group): FREE GiB\\\n  *Do:* Do WHAT\\\n"
        "  *Fixed by* site.yml, role `node`\\\n  *Source:* somebody\n"
    )
