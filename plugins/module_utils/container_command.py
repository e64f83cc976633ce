# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`tandem container`: run the current release's rank in its container, stop it, or run the Python of an image."""

from __future__ import annotations

import argparse
import os
import pwd
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from . import (
    api_key,
    commands,
    container_engine,
    container_image,
    container_run,
    engine_state,
    files,
    records,
)
from .container_run import ContainerError, Here, How
from .containers import OURS
from .engine_config import read_environment
from .findings import FindingError, finding

NAME = "container"
HELP = "run the release's rank in its container, or stop it (the unit does)"
ERRORS = (ContainerError, FindingError, api_key.ApiKeyError, files.FilesError, OSError)

FABRIC_ENV = "/run/tandem/fabric.env"
KEY_FILE = f"/{api_key.FILE}"
HEAD = "tandem-head"
# Of the client alone: what its image or its release needs is in the file of variables, and no file of root's is read.
CLIENT = {"PATH": commands.PATH, "LC_ALL": "C", "HOME": "/", "DOCKER_CONFIG": "/run/tandem"}
# What a short task of the image's Python is given of whoever calls it.
_NOT_HANDED_ON = re.compile(
    r"PATH|HOME|PWD|OLDPWD|SHLVL|_|TERM|LANG|LC_\w+|SHELL|USER|LOGNAME|MAIL|HOSTNAME|SUDO_\w+|SSH_(?!CONN)\w*|XDG_\w+|"
    r"DBUS_\w+|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_\w+|NOTIFY_SOCKET|MEMORY_PRESSURE_\w+|PYTHONPYCACHEPREFIX"
)


def configure(parser: argparse.ArgumentParser) -> None:
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--run", choices=OURS, metavar="NAME", help="run the rank; what follows -- is for the engine"
    )
    action.add_argument("--stop", choices=OURS, metavar="NAME", help="stop it as its unit would")
    action.add_argument("--python", metavar="FOLDER", help="the Python of the image that a folder stands for")
    parser.add_argument(
        "--mount", action="append", default=[], metavar="FOLDER", help="of the node, for --python"
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- WORD ...")


def run(arguments: argparse.Namespace) -> int:
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if arguments.run:
        start(arguments.run, words)
    if arguments.python:
        python(Path(arguments.python), arguments.mount, words)
    return stop(arguments.stop)


def how_of(release: str) -> How:
    content = records.read_json(Path(release) / container_run.HOW)
    if content is None:
        raise ContainerError(
            f"{release}/{container_run.HOW} cannot be read, so how its engine is run is unknown. Run site.yml."
        )
    return How.of(content)


def record_of(folder: Path) -> dict:
    """What stands in the folder for an image."""
    record = container_image.read_record(folder)
    if record is None:
        raise ContainerError(
            f"{folder} stands for no image: its {container_image.RECORD} is missing or was cut off. Run site.yml, "
            "which brings the image anew."
        )
    return record


def here(how: How, release: str) -> Here:
    """What only this node tells. Raises ContainerError and FindingError."""
    if how.rdma and not os.path.isdir(container_run.RDMA):
        raise FindingError(finding("container.rdma.none"))
    uid = gid = 0
    if how.user != "root":
        try:
            account = pwd.getpwnam(how.user)
        except KeyError as error:
            raise ContainerError(
                f"There is no account {how.user} here. Run site.yml, which makes it."
            ) from error
        uid, gid = account.pw_uid, account.pw_gid
    gpu: tuple[str, ...] = ()
    if how.gpu:
        engine = container_engine.look(how.program)
        gpu = container_engine.gpu_here(engine, engine_state.driver_version(Path("/")))
    return Here(release, uid, gid, gpu, beside(how.checkpoint))


def beside(checkpoint: str) -> tuple[str, ...]:
    """Folders that the links of a checkpoint lead into, as those of a hub's cache do; a container must see them too."""
    base = os.path.realpath(checkpoint)
    found = set()
    for folder, _folders, names in os.walk(checkpoint):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                place = os.path.dirname(os.path.realpath(path))
                if os.path.isdir(place) and not f"{place}/".startswith(f"{base}/"):
                    found.add(place)
    return tuple(sorted(found))


def start(name: str, words: Sequence[str]) -> NoReturn:
    """Becomes the program that runs the container in the foreground."""
    release = os.path.realpath(engine_state.CURRENT)
    how, record = how_of(release), record_of(Path(os.path.realpath(f"{release}/runtime")))
    variables = container_run.environment(
        read_environment(Path(release, "env")) or {},
        read_environment(Path(FABRIC_ENV)) or {},
        how.user,
        record.get("pythonpath") or "",
        key_of(name),
    )
    missing = missing_preloads(variables.get("LD_PRELOAD", ""), how.mounts)
    if missing:
        raise ContainerError(
            f"LD_PRELOAD names {', '.join(missing)}, which is not there: the engine would go on with the NCCL of its "
            "image without a word. Run site.yml, which installs it. [nccl.preload.missing]"
        )
    command = container_run.words(
        how, here(how, release), record["image"], record.get("environment") or (), variables, name, words
    )
    path = container_run.ENV_FILE.format(name=name)
    content = container_run.env_file(variables).encode()
    wanted = files.Wanted(path, content=content, mode=0o600, sensitive=True)
    files.apply(wanted, files.look(path, with_content=False))
    become(how.program, command, CLIENT)


def key_of(name: str) -> str | None:
    """The key of the API, for the head. Where its file is missing nothing is started: it would be open to all."""
    if name != HEAD:
        return None
    if not os.path.exists(KEY_FILE):
        raise ContainerError(f"{KEY_FILE} is missing, which says whether the API wants a key. Run site.yml.")
    return api_key.read(Path(KEY_FILE))


def missing_preloads(preload: str, mounts: Sequence[str]) -> list[str]:
    """Of what is preloaded from the node, not from the image: what is not there."""
    named = [entry for entry in re.split(r"[: ]+", preload) if entry.startswith("/")]
    ours = [entry for entry in named if any(entry.startswith(f"{folder}/") for folder in mounts)]
    return [entry for entry in ours if not os.path.exists(entry)]


def python(folder: Path, folders: Sequence[str], words: Sequence[str]) -> NoReturn:
    """Becomes the image's Python."""
    record = record_of(folder)
    release = os.path.realpath(engine_state.CURRENT)
    try:
        how = how_of(release)
    except ContainerError:  # the release that is current may be no container's, and a first one has none
        how = How(record["program"], "", "root", False, False, "", "")
    if record["program"] != how.program or os.path.realpath(f"{release}/runtime") != os.path.realpath(folder):
        how = How(record["program"], "", "root", False, False, "", "")
    there = here(How(how.program, "", "root", how.gpu, how.rdma, "", ""), release)
    variables = handed_on(os.environ)
    seen = [
        each for each in dict.fromkeys((*folders, "/run/tandem", "/var/lib/tandem")) if os.path.isdir(each)
    ]
    command = container_run.python_words(
        how, there, record["image"], record["python"], seen, variables, words
    )
    client = {name: value for name, value in variables.items() if not name.startswith("LD_")}
    become(how.program, command, {**client, **CLIENT, "HOME": "/root", "DOCKER_CONFIG": "/root/.docker"})


def handed_on(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not _NOT_HANDED_ON.fullmatch(name)}


def become(program: str, command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    sys.stdout.flush()
    os.execvpe(program, list(command), dict(environment))


def stop(name: str) -> int:
    """Nothing to stop is no fault: it ended by itself."""
    program = how_of(os.path.realpath(engine_state.CURRENT)).program
    limit_s = container_run.STOP_S
    answer = commands.ask([program, "stop", "-t", str(limit_s), name], timeout_s=limit_s + 30)
    if answer.rc is None:
        raise ContainerError(f"`{program} stop {name}` gave no answer; what is left is removed by force.")
    return 0
