# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor is asked for besides its page: a query, files on the controller (controller only)."""

from __future__ import annotations

import difflib
import getpass
import io
import json
import os
import socket
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.tandem.spark.plugins.plugin_utils.anonymise import (
    SECRET_KEY,
    Anonymiser,
    Names,
    names_in,
)
from ansible_collections.tandem.spark.plugins.plugin_utils.doctor_page import page

PREFIX = "tandem_doctor_"


class DoctorError(Exception):
    """What was found, what was wanted and what to do."""


def collection() -> str:
    """The version of this collection: from its manifest, in a checkout from galaxy.yml."""
    root = Path(__file__).parents[2]
    for name, path in (("MANIFEST.json", ("collection_info", "version")), ("galaxy.yml", ("version",))):
        try:
            found: Any = yaml.safe_load((root / name).read_text(encoding="utf-8"))
            for key in path:
                found = found[key]
            return str(found)
        except (OSError, KeyError, TypeError, yaml.YAMLError):
            continue
    return "unknown"


def unknown_options(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """A misspelled `-e tandem_doctor_...` would be passed over without a word."""
    told = []
    for name in sorted(each for each in names if each.startswith(PREFIX) and each not in known):
        near = difflib.get_close_matches(name, list(known), n=1)
        told.append(
            f"{name} is no variable of the doctor. {'Did you mean' if near else 'It knows'} {', '.join(near or known)}."
        )
    return told


def query(expression: str, report: Mapping[str, Any]) -> Any:
    """The answer of a jmespath expression; DoctorError where it is none."""
    try:
        import jmespath  # here, since a look without a question does not need it
    except ImportError as error:
        raise DoctorError(
            "The controller's Python has no jmespath, which tandem_doctor_query needs. Install it with "
            "`pip install --require-hashes -r requirements/runtime.txt`."
        ) from error
    try:
        return jmespath.search(expression, report)
    except (jmespath.exceptions.JMESPathError, TypeError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise DoctorError(
            f"tandem_doctor_query {expression!r} is no jmespath expression that can be used ({why}). "
            "One that can is: findings[?severity=='error'].[hosts,id]"
        ) from error


def as_json(report: Mapping[str, Any]) -> bytes:
    return (json.dumps(report, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode(
        "utf-8", "replace"
    )


def bundle(path: str, report: Mapping[str, Any], names: Names) -> bytes:
    """The report for others to read: JSON, or a tar.gz of it and of its page, by the name of the file.

    DoctorError where a known name or secret is still in it.
    """
    hidden = Anonymiser(names)
    told = {**hidden.tree(report), "anonymised": True}
    parts = {"doctor.json": as_json(told), "doctor.txt": f"{page(told)}\n".encode()}
    left = hidden.leaks("\n".join(part.decode() for part in parts.values()))
    if left:
        raise DoctorError(
            f"{path} was not written: a {' and a '.join(left)} would still have been in it. Report that without one."
        )
    if path.endswith(".json"):
        return parts["doctor.json"]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in parts.items():
            member = tarfile.TarInfo(name)  # without an owner or a time
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def names(
    report: Mapping[str, Any], hostvars: Mapping[str, Mapping], groups: Mapping[str, Iterable[str]]
) -> Names:
    """Every name that this run knows: of the inventory, of what the nodes told, and of this controller."""
    known: dict[str, list[str]] = {
        "hosts": [socket.gethostname()],
        "users": [_user()],
        "addresses": [],
        "secrets": [],
    }
    for kind, word in names_in(report):
        known[kind].append(word)
    for host, values in hostvars.items():
        known["hosts"].append(host)
        for name in ("ansible_host", "ansible_user", "ansible_ssh_user", "ansible_become_user"):
            kind = "users" if name.endswith("user") else "hosts"
            known[kind] += [str(values[name])] if name in values else []
        known["secrets"] += [value for value in _secrets(values) if isinstance(value, str)]
    known["addresses"] += known["hosts"]
    return Names(groups=tuple(groups), **{kind: tuple(dict.fromkeys(words)) for kind, words in known.items()})


def _secrets(values: Mapping) -> Iterator[Any]:
    """Values of variables whose name says so; of Ansible's own only those that it keeps secrets in."""
    for name in values:
        if SECRET_KEY.search(str(name)) and not str(name).endswith(("_file", "_auth_sock")):
            try:
                yield values[name]
            except Exception:  # a variable that cannot be made is told to nobody
                continue


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def write(path: str, content: bytes) -> None:
    """Replace a file of the controller, readable by its owner only: it names machines and their addresses."""
    target = Path(os.path.expanduser(path))
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".doctor-", delete=False) as stream:
            temporary = Path(stream.name)
            stream.write(content)
        temporary.replace(target)
    except OSError as error:
        if temporary:
            temporary.unlink(missing_ok=True)
        raise DoctorError(
            f"{path} cannot be written: {error.strerror or error}. Name a file in a folder that is there."
        ) from error
