# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The public variables: what the roles' argument_specs declare, against what an inventory sets (controller only).

Ansible itself passes a misspelled variable without a word, and coerces a map given for a string into its text.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, finding

PREFIX = "tandem_"
# What a number may be, first and last: argument specs cannot say it.
RANGES = {
    "tandem_api_port": (1, 65535),
    "tandem_master_port": (1, 65535),
    "tandem_guard_port": (1, 65535),
    "tandem_guard_http_port": (1, 65535),
    "tandem_bench_draws": (1, 100),
    "tandem_bench_long_draws": (1, 100),
    "tandem_bench_max_tokens": (1, 1048576),
    "tandem_bench_concurrency_max_tokens": (2, 1048576),
    "tandem_bench_context_max_tokens": (2, 1048576),
    "tandem_bench_request_timeout_s": (1, 86400),
    "tandem_bench_total_timeout_s": (1, 604800),
    "tandem_bench_telemetry_interval_s": (1, 3600),
    "tandem_telemetry_scrape_interval_s": (1, 3600),
    "tandem_evaluate_limit": (0, 1000000),
    "tandem_evaluate_concurrency": (0, 256),
    "tandem_evaluate_max_tokens": (1, 1048576),
    "tandem_evaluate_timeout_s": (1, 604800),
    "tandem_build_limit_h": (0.1, 240),
    "tandem_build_reserve_gib": (0, 10000),
    "tandem_cache_max_gib": (1, 65536),
    "tandem_checkpoint_timeout_s": (60, 7 * 86400),
    "tandem_container_timeout_s": (60, 7 * 86400),
    "tandem_fabric_mtu": (1280, 9978),  # the least that IPv6 needs, the most that a ConnectX-7 takes
    "tandem_fabric_revert_after_s": (10, 3600),
    "tandem_access_revert_after_s": (10, 3600),
    "tandem_fabric_peer_timeout_s": (1, 600),
    "tandem_power_clock_max_mhz": (0, 4000),
    "tandem_proof_total_timeout_s": (1, 86400),
    "tandem_tune_draws": (1, 100),
    "tandem_tune_max_tokens": (16, 16384),
}
# Values that no message shows.
SECRET = frozenset({"tandem_checkpoint_token", "tandem_api_key"})
# What each host has for itself; all else is the group's.
PER_HOST = frozenset({"tandem_fabric_rails"})


@dataclass(frozen=True)
class Variable:
    """One public variable: the role that owns it, its argument spec and its default (None: no default)."""

    role: str
    spec: Mapping
    default: object


def declared(roles: Path) -> dict[str, Variable]:
    """Every variable that a role's meta/argument_specs.yml declares, with the value of its defaults/main.yml."""
    variables = {}
    for file in sorted(roles.glob("*/meta/argument_specs.yml")):
        role = file.parents[1].name
        options = yaml_load(file.read_text())["argument_specs"]["main"].get("options", {})
        defaults_file = file.parents[1] / "defaults" / "main.yml"
        defaults = yaml_load(defaults_file.read_text()) if defaults_file.exists() else {}
        for name, spec in options.items():
            variables[name] = Variable(role, spec, (defaults or {}).get(name))
    return variables


def type_problem(spec: Mapping, value: object) -> str | None:
    """Why a value does not fit an argument spec, None where it does."""
    return _typed(spec, value)[1]


def _typed(spec: Mapping, value: object) -> tuple[object, str | None]:
    """The value as the spec's type, and why it does not fit."""
    if spec.get("type", "str") in ("str", "path") and isinstance(value, (dict, list)):
        return value, f"found a {'map' if isinstance(value, dict) else 'list'}, wanted a text"
    plain = {
        key: content for key, content in spec.items() if key not in ("default", "required", "description")
    }
    result = ArgumentSpecValidator({"value": _without_descriptions(plain)}).validate({"value": value})
    why = "; ".join(result.error_messages).replace("argument 'value' is of type", "it is of type")
    return result.validated_parameters["value"], why or None


def _fitted(name: str, spec: Mapping, value: object) -> tuple[object, str | None]:
    """The value of a variable as it counts (`-e port=1` gives a text), and why it cannot be used."""
    kind = spec.get("type", "str")
    if value is None or (kind == "int" and isinstance(value, bool)):
        return value, f"found {'nothing' if value is None else value}, wanted a value of type {kind}"
    typed, why = _typed(spec, value)
    first, last = RANGES.get(name, (None, None))
    if why is None and first is not None and not first <= typed <= last:
        why = f"found {typed}, wanted {first} to {last}"
    return typed, why


def _without_descriptions(spec: Mapping) -> dict:
    """The spec as AnsibleModule wants it: nested options without their documentation."""
    kept = {key: content for key, content in spec.items() if key not in ("description", "version_added")}
    if "options" in kept:
        kept["options"] = {name: _without_descriptions(option) for name, option in kept["options"].items()}
    return kept


def effective(variables: Mapping[str, Variable], given: Mapping) -> dict:
    """Every public variable with the value that counts: the default where none or an unusable one is given.

    The unusable ones are findings of `check`; with their defaults all other checks still run.
    """
    values = {name: variable.default for name, variable in variables.items()}
    for name in (name for name in given if name in variables):
        value, why = _fitted(name, variables[name].spec, given[name])
        if why is None:
            values[name] = value
    return values


def differing(values: Mapping[str, Mapping]) -> Iterator[Finding]:
    """Findings about variables of the group that have not one value on all its hosts: {host: effective values}."""
    first, *others = values.values()
    for name, value in first.items():
        if name not in PER_HOST and any(other[name] != value for other in others):
            found = ", ".join(f"{host} has {each[name]!r}" for host, each in values.items())
            if name in SECRET:
                found = "the values are not shown"
            yield finding("plan.variable.differs", values, name=name, found=found)


def check(variables: Mapping[str, Variable], given: Mapping[str, Mapping]) -> Iterator[Finding]:
    """Findings about the tandem_* variables of each host: {host: {name: value}}."""
    hosts_of: dict[tuple[str, str | None], list[str]] = {}
    for host, values in given.items():
        for name, value in values.items():
            if name not in variables:
                hosts_of.setdefault((name, None), []).append(host)
                continue
            _value, why = _fitted(name, variables[name].spec, value)
            if why:
                hosts_of.setdefault((name, why), []).append(host)
    for (name, why), hosts in hosts_of.items():
        if why is None:
            near = difflib.get_close_matches(name, variables, n=1, cutoff=0.6)
            hint = f", or did you mean {near[0]}?" if near else ""
            yield finding("plan.variable.unknown", hosts, name=name, hint=hint)
        else:
            yield finding("plan.variable.wrong", hosts, name=name, why=why, role=variables[name].role)
