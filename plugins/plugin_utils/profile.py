# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A named profile with the user's overrides laid over it, checked against the schema (controller only)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml
from ansible_collections.tandem.spark.plugins.module_utils import engine_config, proof_plan, warm_up_plan
from ansible_collections.tandem.spark.plugins.plugin_utils import nccl_library
from ansible_collections.tandem.spark.plugins.plugin_utils.variables import type_problem


class ProfileError(Exception):
    """Every problem of the profile, one sentence each."""


class UnknownProfile(ProfileError):
    """No file carries the profile's name."""


def names(folder: Path) -> list[str]:
    """The profiles that ship with the collection."""
    return sorted(file.stem for file in folder.glob("*.yml"))


def merged(base: Mapping, overrides: Mapping) -> dict:
    """`overrides` laid over `base`, map by map; a value of null takes the key out."""
    result = dict(base)
    for key, value in overrides.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def problems(profile: Mapping, schema: Mapping) -> list[str]:
    """What is wrong with a merged profile, all of it."""
    found = type_problem({"type": "dict", "options": schema}, profile)
    if found:
        return [found]
    flags = profile["engine"]["flags"]
    wrong = engine_config.problems(flags)
    wrong += [
        f"warm_up: {problem}"
        for problem in warm_up_plan.problems(profile["warm_up"], flags.get("max-model-len"))
    ]
    wrong += [
        f"proof: {problem}"
        for problem in proof_plan.problems(
            profile["proof"], flags.get("max-model-len"), speculates="speculative-config" in flags
        )
    ]
    operands = profile["proof"]["operands"]
    if len(operands) != 2 or not 10 <= operands[0] < operands[1]:
        wrong.append(
            f"proof.operands {operands} is not the lowest and the highest of a range of two-digit numbers"
        )
    return wrong


def load(name: str, folder: Path, overrides: Mapping, schema: Mapping) -> dict:
    """The profile called `name`, overridden and checked.

    Raises UnknownProfile where there is none, ProfileError with all problems where it cannot be used.
    """
    file = folder / f"{name}.yml"
    if name not in names(folder):
        raise UnknownProfile(name)
    profile = merged(yaml.safe_load(file.read_text()), overrides)
    found = problems(profile, schema) or nccl_library.problems(
        profile, folder.parents[2] / "runtime" / "files"
    )
    if found:
        raise ProfileError("; ".join(found))
    return profile
