# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A named profile with the user's overrides laid over it, checked against the schema (controller only).

A profile is a file of the collection, or an entry of `tandem_profiles` in the inventory. Both may be laid over another
one (`base`), which may be a profile, or a file of the folder `bases` beside the profiles.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load
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
        elif isinstance(value, Mapping):
            below = result.get(key)
            result[key] = merged(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def difference(before: Mapping, after: Mapping) -> dict:
    """The overrides that turn `before` into `after`; null takes out what `after` does not have."""
    wanted: dict = {key: None for key in before if key not in after}
    for key, value in after.items():
        if key not in before:
            wanted[key] = value
        elif isinstance(value, Mapping) and isinstance(before[key], Mapping):
            if below := difference(before[key], value):
                wanted[key] = below
        elif value != before[key]:
            wanted[key] = value
    return wanted


def changes(before: object, after: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    """(key with dots, value before, value after) of everything that differs; None where it is not there."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted(before.keys() | after.keys(), key=str):
            yield from changes(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
    elif before != after:
        yield path, before, after


def described(name: str, folder: Path, own: Mapping[str, Mapping] | None = None) -> dict:
    """The profile called `name` over what it is based on, unchecked.

    `own`: the user's profiles by name. Raises UnknownProfile, or ProfileError where it cannot be put together.
    """
    own = own or {}
    if name in own and name in names(folder):
        raise ProfileError(
            f"tandem_profiles has a profile of that name, and so has the collection: rename {name}"
        )
    if name not in own and name not in names(folder):
        raise UnknownProfile(name)
    layers, wanted = [], name
    while wanted is not None:
        if wanted in (each for each, _layer in layers):
            raise ProfileError(f"base: {wanted} is based on itself")
        layers.append((wanted, _read(wanted, folder, own)))
        wanted = layers[-1][1].get("base")
    result: dict = {}
    for _each, layer in reversed(layers):
        result = merged(result, {key: value for key, value in layer.items() if key != "base"})
    return {**result, "name": name} if name in own else result


def runnable(folder: Path) -> list[str]:
    """The profiles that ship and that this collection can run already."""
    return [name for name in names(folder) if not described(name, folder).get("not_runnable")]


@functools.cache
def _parsed(file: Path) -> Mapping:
    """A file that ships does not change in a run; nobody changes what `merged` is given."""
    return yaml_load(file.read_text(encoding="utf-8"))


def _read(name: object, folder: Path, own: Mapping[str, Mapping]) -> Mapping:
    bases = folder.parent / "bases"
    if name in own:
        layer = own[name]
    elif name in names(folder):
        layer = _parsed(folder / f"{name}.yml")
    elif name in names(bases):
        layer = _parsed(bases / f"{name}.yml")
    else:
        known = ", ".join([*names(folder), *names(bases), *sorted(own)])
        raise ProfileError(f"base: there is no profile {name!r}, wanted one of {known}")
    if not isinstance(layer, Mapping):
        raise ProfileError(f"{name} is {type(layer).__name__}, wanted a map")
    return layer


def problems(profile: Mapping, schema: Mapping) -> list[str]:
    """What is wrong with a merged profile, all of it."""
    found = type_problem({"type": "dict", "options": schema}, profile)
    if found:
        return [found]
    flags = profile["engine"]["flags"]
    wrong = engine_config.problems(flags)
    wrong += engine_config.environment_problems(profile["engine"]["environment"])
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


def load(
    name: str,
    folder: Path,
    overrides: Mapping,
    schema: Mapping,
    own: Mapping[str, Mapping] | None = None,
    tried: Mapping | None = None,
) -> dict:
    """The profile called `name`, overridden and checked. `tried` is laid over the overrides.

    Raises UnknownProfile where there is none, ProfileError with all problems where it cannot be used.
    """
    profile = merged(merged(described(name, folder, own), overrides), tried or {})
    found = problems(profile, schema) or nccl_library.problems(
        profile, folder.parents[2] / "runtime" / "files"
    )
    if found:
        raise ProfileError("; ".join(found))
    return profile
