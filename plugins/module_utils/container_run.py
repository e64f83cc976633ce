# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line that runs a rank in a container: pure, from what the release wants and what this node has.

Nothing of a variable stands in it: they go into a file that the program reads, so no shell and no list of processes
ever sees one. What is mounted has the same path inside as outside: a path of the release means the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import api_key, fabric_env
from .engine_config import FORBIDDEN
from .engine_state import CURRENT

HOW = "container.json"  # in a release: how its engine is run
ENV_FILE = "/run/tandem/{name}.env"
CID_FILE = "/run/tandem/{name}.cid"
RDMA = "/dev/infiniband"
LIBRARY = "/opt/tandem/lib"  # the gate before the API is a part of it
# The unit's own time for a stop is longer: it must see the end of this one.
STOP_S = 20
OOM_SCORE = 500  # as the unit of an engine without a container has it
STACK_BYTES = 64 << 20


class ContainerError(Exception):
    """What was found, what was wanted and what to do."""


@dataclass(frozen=True)
class How:
    """Of a release, the same on every rank. user: an account, or root. mounts: folders of the node, read only."""

    program: str
    command: str
    user: str
    gpu: bool
    rdma: bool
    cache: str
    checkpoint: str
    mounts: tuple[str, ...] = ()

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> How:
        """From container.json of a release. Raises ContainerError."""
        try:
            texts = {
                name: _text(content[name]) for name in ("program", "command", "user", "cache", "checkpoint")
            }
            mounts = tuple(_text(each) for each in content.get("mounts") or ())
            return cls(**texts, gpu=bool(content["gpu"]), rdma=bool(content["rdma"]), mounts=mounts)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ContainerError(
                f"{HOW} of the release cannot be understood ({type(error).__name__}: {error}). Run site.yml, which "
                "writes the release anew."
            ) from error


@dataclass(frozen=True)
class Here:
    """Of this node. release: the folder that `current` leads to; uid, gid: of the account that the engine runs as.

    gpu: the words that give it the GPU. beside: folders outside of the checkpoint's that its links lead into.
    """

    release: str
    uid: int
    gid: int
    gpu: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\n" in value:
        raise ValueError(f"{value!r} is no text of one line")
    return value


def environment(
    release: Mapping[str, str],
    fabric: Mapping[str, str],
    user: str,
    pythonpath: str = "",
    key: str | None = None,
) -> dict[str, str]:
    """The variables of the container: the release's, those of this start, and a name for the account.

    An image knows no account of the node, and Python asks for the name before it asks for a number's. pythonpath: the
    image's own, which ours goes before. key: of the API, on the head.
    """
    made = {**release, **fabric, "USER": user, "LOGNAME": user}
    if pythonpath and made.get("PYTHONPATH"):
        made["PYTHONPATH"] += f":{pythonpath}"
    return {**made, api_key.VARIABLE: key} if key else made


def env_file(variables: Mapping[str, str]) -> str:
    """The form that docker and podman read: no quotes, a line each. Raises ContainerError."""
    wrong = [
        name
        for name, value in variables.items()
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\n" in value or "\0" in value
    ]
    if wrong:
        raise ContainerError(f"These variables cannot be given to a container: {', '.join(sorted(wrong))}.")
    return "".join(f"{name}={variables[name]}\n" for name in sorted(variables))


def taken_out(baked: Iterable[str], variables: Collection[str]) -> list[str]:
    """Variables of the image that are its author's and never this node's: interfaces, devices, who may do what."""
    never = {*fabric_env.PER_NODE, *FORBIDDEN}
    return sorted(name for name in set(baked) & never if name not in variables)


def unset_words(program: str, names: Iterable[str]) -> list[str]:
    """docker takes a variable out where its client has none of that name; podman has a word for it."""
    if program == "podman":
        return [f"--unsetenv={name}" for name in names]
    return [word for name in names for word in ("--env", name)]


def mount_words(mounts: Mapping[str, str], writable: Collection[str] = ()) -> list[str]:
    """{folder outside: folder inside}. A folder that is not there is an error, not made. Raises ContainerError."""
    wrong = [path for pair in mounts.items() for path in pair if "," in path or not path.startswith("/")]
    if wrong:
        raise ContainerError(
            f"{', '.join(wrong)} cannot be mounted into a container: wanted is a whole path without a comma. "
            "Move the folder, or name another one."
        )
    words = []
    for source, target in mounts.items():
        only = "" if source in writable else ",readonly"
        words += ["--mount", f"type=bind,source={source},target={target}{only}"]
    return words


def _rights(how: How) -> list[str]:
    """An account of its own needs nothing of root's; root in the container keeps what the program gives it."""
    if how.user == "root":
        return ["--cap-add=IPC_LOCK", "--security-opt=no-new-privileges"]
    return ["--cap-drop=ALL", "--cap-add=IPC_LOCK", "--security-opt=no-new-privileges"]


def shared_words(how: How, here: Here) -> list[str]:
    """What every container of ours is given: the host's network and shared memory, RDMA, the GPU."""
    return [
        "--network=host",
        "--ipc=host",
        "--ulimit=memlock=-1:-1",
        f"--ulimit=stack={STACK_BYTES}:{STACK_BYTES}",
        *([f"--device={RDMA}"] if how.rdma else []),
        *(here.gpu if how.gpu else ()),
    ]


def words(
    how: How,
    here: Here,
    image: str,
    baked: Iterable[str],
    variables: Collection[str],
    name: str,
    engine: Sequence[str],
) -> list[str]:
    """The whole command line of a rank in the foreground; engine: what comes after the engine's own name."""
    mounts = {here.release: CURRENT, how.checkpoint: how.checkpoint, LIBRARY: LIBRARY}
    mounts |= {each: each for each in (*here.beside, *how.mounts)}
    mounts |= {how.cache: how.cache, f"{how.cache}/inductor": f"/tmp/torchinductor_{how.user}"}
    writable = {how.cache, f"{how.cache}/inductor"}
    return [
        *(how.program, "run", "--rm", f"--name={name}", f"--cidfile={CID_FILE.format(name=name)}"),
        # Not found is an error of this start: nothing is pulled by a unit.
        *("--pull=never", "--init", "--restart=no"),
        # What it says goes to whoever runs it, which is the unit, and is kept once, in the journal.
        f"--log-driver={'passthrough' if how.program == 'podman' else 'none'}",
        *("--stop-signal=SIGTERM", f"--stop-timeout={STOP_S}", f"--oom-score-adj={OOM_SCORE}"),
        *shared_words(how, here),
        *_rights(how),
        f"--user={here.uid}:{here.gid}",
        f"--workdir={how.cache}",
        *mount_words(mounts, writable),
        f"--env-file={ENV_FILE.format(name=name)}",
        *unset_words(how.program, taken_out(baked, variables)),
        f"--entrypoint={how.command}",
        image,
        *engine,
    ]


def python_words(
    how: How,
    here: Here,
    image: str,
    python: str,
    folders: Sequence[str],
    variables: Mapping[str, str],
    task: Sequence[str],
) -> list[str]:
    """The image's Python for a short task of root's; folders: those of the node that it sees and may write to.

    The values of its variables are those of the client, except of what the loader of the client itself would read.
    """
    mounts = {"/opt/tandem": "/opt/tandem", **{each: each for each in folders}}
    given = []
    for name in sorted(variables):
        given += ["--env", f"{name}={variables[name]}" if name.startswith("LD_") else name]
    return [
        *(how.program, "run", "--rm", "--interactive", "--pull=never", "--init"),
        *shared_words(how, here),
        *("--cap-add=IPC_LOCK", "--user=0:0", "--workdir=/"),
        *mount_words(mounts, set(folders)),
        *given,
        f"--entrypoint={python}",
        image,
        *task,
    ]
