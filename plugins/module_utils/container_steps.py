# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done with an image on one node: pulled, laid over, written into pieces for another rank, taken from them.

The pieces lie in a folder with a list as weights have it, so that they go over the rails by the same hands: several
streams at once, resumed, each piece by its hash. What is in an image is named by its id; a loaded one has no digest of
a registry any more.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import checkpoint_seals, commands, container_image, patch_series
from .checkpoint_manifest import MANIFEST, Entry, Manifest, ManifestError, compare_sizes, load
from .container_image import Image
from .findings import FindingError, finding
from .unified_diff import PatchError, read_patch

PIECE_BYTES = 256 << 20
BLOCK_BYTES = 1 << 20
ASK_S = 60.0
STEP_S = 1800.0
SAY_EVERY_S = 5.0
LABEL = "tandem.overlay"
GIB = 1 << 30
_LAYER = re.compile(r"[0-9a-f]{12}: (Pulling fs layer|Already exists|Pull complete|Download complete)")
_FOLDER_OF = """
import importlib.util, os, sys
found = importlib.util.find_spec(sys.argv[1])
places = list(found.submodule_search_locations or []) if found else []
print("TANDEM " + (os.path.dirname(places[0]) if places else ""))
"""

Say = Callable[[str], None]


def inspect(program: str, name: str) -> Image | None:
    """An image that is on this node, by its id or by the name that it was pulled by; None where it is not."""
    answer = commands.ask([program, "image", "inspect", name], timeout_s=ASK_S)
    return container_image.read_inspect(answer.out) if answer.ok else None


def remote(program: str, reference: str, wanted: str) -> container_image.Remote | None:
    """What the registry says before anything is pulled; None where it cannot be asked."""
    for question in container_image.remote_questions(program, reference):
        answer = commands.ask(question, timeout_s=ASK_S)
        if answer.ok and (found := container_image.read_remote(answer.out, wanted)):
            return found
    return None


def pull(program: str, reference: str, say: Say, limit_s: float) -> None:
    """Raises FindingError with the program's own last words."""
    started: dict[str, bool] = {}
    last = ["nothing"]
    told = time.monotonic()
    for line in _lines([program, "pull", reference], limit_s, reference):
        last = [*last, line][-5:] if line.strip() else last
        if found := _LAYER.match(line):
            layer = line.partition(":")[0]
            started[layer] = started.get(layer, False) or found[1] in ("Already exists", "Pull complete")
        if time.monotonic() >= told + SAY_EVERY_S and started:
            told = time.monotonic()
            say(f"pulled {sum(started.values())} of {len(started)} layers of {reference}")


def _lines(command: Sequence[str], limit_s: float, reference: str) -> Iterator[str]:
    """What a pull prints, as it comes. Raises FindingError where it ends badly or takes too long."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    stopped = threading.Event()

    def end() -> None:
        stopped.set()
        process.kill()

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()
    said: list[str] = []
    try:
        for line in process.stdout:
            said = [*said, line.strip()][-5:]
            yield line.rstrip("\n")
    finally:
        timer.cancel()
        with contextlib.suppress(OSError):
            process.stdout.close()
        ended = process.wait()
    if stopped.is_set():
        raise FindingError(
            finding("container.image.pull", name=reference, why=f"not through after {limit_s:.0f} s")
        )
    if ended:
        why = " ".join(each for each in said if each)[-400:] or f"it ended with {ended}"
        raise FindingError(finding("container.image.pull", name=reference, why=why))


def check_space(folder: Path, wanted: int | None) -> None:
    """Raises FindingError where an image of so many bytes has no room."""
    place = folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if wanted and free < wanted + GIB:
        raise FindingError(
            finding(
                "container.disk.small",
                folder=place,
                free=f"{free / GIB:.1f}",
                wanted=f"{(wanted + GIB) / GIB:.1f}",
            )
        )


# -- from one rank to another ------------------------------------------------------------------------------------------
def save(program: str, image: Image, folder: Path, say: Say) -> Manifest:
    """Writes the image into pieces and their list; what an earlier run wrote of the same one is taken. OSError."""
    kept = _kept(folder, image.id)
    if kept:
        return kept
    check_space(folder, image.size)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    entries, total, told = {}, 0, time.monotonic()
    for number, piece in enumerate(_pieces([program, *_save_words(program), image.id])):
        name = f"image.{number:04}"
        digest, size = hashlib.sha256(), 0
        with (folder / name).open("wb") as stream:
            for block in piece:
                stream.write(block)
                digest.update(block)
                size += len(block)
        entries[name] = Entry(size, digest.hexdigest())
        total += size
        if time.monotonic() >= told + SAY_EVERY_S:
            told = time.monotonic()
            say(f"wrote {total / GIB:.1f} GiB of the image for the other ranks")
    made = Manifest(entries, "image", image.id)
    checkpoint_seals.save(folder / MANIFEST, made.as_dict())
    say(f"wrote {len(entries)} pieces of the image for the other ranks, {total / GIB:.2f} GiB")
    return made


def _save_words(program: str) -> list[str]:
    return ["save", "--format=docker-archive"] if program == "podman" else ["save"]


def _kept(folder: Path, image_id: str) -> Manifest | None:
    try:
        kept = load(folder / MANIFEST)
    except ManifestError:
        return None
    return kept if kept.revision == image_id and not compare_sizes(folder, kept) else None


def _pieces(command: Sequence[str]) -> Iterator[Iterator[bytes]]:
    """What a command writes, cut into pieces. Raises OSError with its last words where it ends badly."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    ended = [False]

    def piece() -> Iterator[bytes]:
        left = PIECE_BYTES
        while left:
            block = process.stdout.read(min(BLOCK_BYTES, left))
            if not block:
                ended[0] = True
                return
            left -= len(block)
            yield block

    try:
        while not ended[0]:
            yield piece()
    finally:
        with contextlib.suppress(OSError):
            process.stdout.close()
        said = process.stderr.read().decode("utf-8", "replace")
        code = process.wait()
    if code:
        raise OSError(f"`{' '.join(command)}` ended with {code}: {' '.join(said.split())[-300:]}")


def load_pieces(program: str, folder: Path, wanted: str, giver: str, say: Say) -> Image:
    """Loads what came from another rank. Raises FindingError where it is another image then, OSError, ManifestError."""
    manifest = load(folder / MANIFEST)
    size = sum(entry.size or 0 for entry in manifest.files.values())
    say(f"loading the image, {size / GIB:.2f} GiB")
    process = subprocess.Popen(
        [program, "load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = threading.Thread(target=lambda: answers.put(process.stdout.read()), daemon=True)
    reader.start()
    with contextlib.suppress(BrokenPipeError):
        for name in sorted(manifest.files):
            with (folder / name).open("rb") as stream:
                shutil.copyfileobj(stream, process.stdin, BLOCK_BYTES)
        process.stdin.close()
    code = process.wait()
    said = " ".join(answers.get().decode("utf-8", "replace").split())
    if code:
        raise OSError(f"`{program} load` ended with {code}: {said[-300:]}")
    image = inspect(program, wanted)
    if image is None:
        raise FindingError(
            finding(
                "container.image.lost", id=wanted, giver=giver, found=said[-200:] or "nothing that was told"
            )
        )
    return image


def drop(folder: Path) -> bool:
    """Removes the pieces; whether there were any."""
    there = folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    return there


# -- the overlay -------------------------------------------------------------------------------------------------------
def lay_over(
    program: str, base: Image, name: str, overlay: Mapping[str, Any], python: str, say: Say
) -> tuple[str, list[dict[str, Any]]]:
    """The id of the image with its overlay, and what came of each patch.

    Nothing is run in it: files are taken out, changed here, and put back. Where nothing is changed, it is the base.

    overlay: {patches [{tree, path, files [{name, text}]}], trees [{what, from, to, revision}], host}. FindingError.
    """
    with (
        container_of(program, base.id) as made,
        tempfile.TemporaryDirectory(prefix="tandem-overlay-") as work,
    ):
        outcomes, changed = [], False
        for each in overlay.get("patches") or ():
            place = each.get("path") or folder_of(program, base.id, python, each["tree"])
            if not place:
                why = f"its Python knows no package {each['tree']}"
                raise FindingError(finding("container.overlay.patch", name=name, why=why))
            told, wrote = _patched(program, made, place, each["files"], Path(work, each["tree"]), name)
            outcomes += told
            changed |= wrote
        for each in overlay.get("trees") or ():
            check_tree(each, str(overlay.get("host") or "the first rank"))
            say(f"laying {each['what']} over the image")
            _must([program, "cp", f"{each['from'].rstrip('/')}/.", f"{made}:{each['to']}"], name)
            changed = True
        if not changed:
            return base.id, outcomes
        say("keeping the image with its overlay")
        said = _must([program, "commit", *_as_before(base), made], name)
        return container_image.prefixed(said.split()[-1]), outcomes


def _as_before(base: Image) -> list[str]:
    """What an image starts is what it started before: a container that is never run has neither of the two."""
    changes = [f"LABEL {LABEL}={base.id.removeprefix('sha256:')[:12]}"]
    for word, key in (("ENTRYPOINT", "Entrypoint"), ("CMD", "Cmd")):
        told = base.config.get(key)
        words = [told] if isinstance(told, str) else list(told or ())
        if words or key == "Entrypoint":
            changes.append(f"{word} {json.dumps(words)}")
    return [each for change in changes for each in ("--change", change)]


@contextlib.contextmanager
def container_of(program: str, image_id: str) -> Iterator[str]:
    """A container that is made and never run, by which files go in and out of an image."""
    made = _must([program, "create", "--pull=never", "--entrypoint=/tandem-is-never-run", image_id], image_id)
    made = made.split()[-1]
    try:
        yield made
    finally:
        commands.ask([program, "rm", "--force", made], timeout_s=ASK_S)


def _must(command: Sequence[str], name: str) -> str:
    answer = commands.ask(command, timeout_s=STEP_S, with_errors=True)
    if not answer.ok or not answer.out.strip() and command[1] != "cp":
        said = " ".join(answer.out.split())[-300:] or "no answer in time"
        raise FindingError(
            finding("container.overlay.patch", name=name, why=f"`{' '.join(command[:3])}`: {said}")
        )
    return answer.out.strip()


def folder_of(program: str, image_id: str, python: str, package: str) -> str | None:
    """The folder that holds a package in an image, asked of the image's Python."""
    answer = commands.ask([*in_image(program, image_id, python), "-c", _FOLDER_OF, package], timeout_s=STEP_S)
    told = [line.removeprefix("TANDEM ") for line in answer.out.splitlines() if line.startswith("TANDEM ")]
    return told[0] if told and told[0] else None


def in_image(program: str, image_id: str, python: str) -> list[str]:
    """An image's Python, without network, GPU or anything of this node."""
    return [
        *(program, "run", "--rm", "--pull=never", "--network=none", f"--entrypoint={python}", image_id),
    ]


def _patched(
    program: str, made: str, place: str, given: Sequence[Mapping[str, str]], work: Path, name: str
) -> tuple[list[dict[str, Any]], bool]:
    """Takes the files that patches name out of the image, and puts back what they made of them."""
    try:
        patches = [read_patch(each["name"], each["text"]) for each in given]
        named = {change.path for patch in patches for change in patch.changes}
        named |= {
            value.partition(": ")[0]
            for patch in patches
            for value in patch.values(patch_series.UPSTREAM_FIELD)
        }
        for path in sorted(named):
            target = work / path
            target.parent.mkdir(parents=True, exist_ok=True)
            commands.ask([program, "cp", f"{made}:{place}/{path}", str(target)], timeout_s=ASK_S)
        work.mkdir(parents=True, exist_ok=True)
        judged = patch_series.judge(str(work), patches)
        if judged.misfits:
            raise FindingError(finding("container.overlay.patch", name=name, why="; ".join(judged.misfits)))
        patch_series.write(str(work), judged.edits)
    except PatchError as error:
        raise FindingError(finding("container.overlay.patch", name=name, why=str(error))) from error
    for path, edit in judged.edits.items():
        if edit.after is None:
            why = f"{path} would be removed, and an overlay removes nothing"
            raise FindingError(finding("container.overlay.patch", name=name, why=why))
        _must([program, "cp", str(work / path), f"{made}:{place}/{path}"], name)
    return [each.as_dict() for each in judged.outcomes], bool(judged.edits)


def check_tree(tree: Mapping[str, str], host: str) -> None:
    """Raises FindingError where a tree of the overlay is not there, or not at its commit."""
    folder, wanted = tree["from"], tree.get("revision")
    values = {"what": tree["what"], "folder": folder, "host": host}
    if not os.path.isdir(folder):
        raise FindingError(finding("container.overlay.tree", why="there is no such folder", **values))
    if not wanted:
        return
    found = git_head(Path(folder))
    if found is None or not found.startswith(wanted):
        why = f"it is at {found or 'no commit of git'}, wanted is {wanted}"
        raise FindingError(finding("container.overlay.tree", why=why, **values))


def git_head(folder: Path) -> str | None:
    """The commit that a checkout is at, without git, which refuses folders of other accounts. None where it is none."""
    try:
        place = folder / ".git"
        if place.is_file():
            place = folder / place.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        head = (place / "HEAD").read_text(encoding="utf-8").strip()
        for _hop in range(5):
            if not head.startswith("ref:"):
                return head if re.fullmatch(r"[0-9a-f]{40,64}", head) else None
            head = _ref(place, head.partition(":")[2].strip())
    except (OSError, UnicodeDecodeError):
        pass
    return None


def _ref(place: Path, name: str) -> str:
    common = place / "commondir"
    base = place / common.read_text(encoding="utf-8").strip() if common.is_file() else place
    for folder in (place, base):
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8").strip()
    packed = (base / "packed-refs").read_text(encoding="utf-8")
    return next((line.split()[0] for line in packed.splitlines() if line.endswith(f" {name}")), "")


# -- what stands for it ------------------------------------------------------------------------------------------------
def probed(program: str, image: Image, name: str, command: str, python: str) -> dict[str, Any]:
    """{python, command, packages} of an image, asked of it once. Raises FindingError where it has no such engine."""
    answer = commands.ask(
        [*in_image(program, image.id, python), "-c", container_image.PROBE, command],
        timeout_s=STEP_S,
        with_errors=True,
    )
    told = container_image.read_probe(answer.out)
    if told is None:
        why = " ".join(answer.out.split())[-300:] or "no answer in time"
        raise FindingError(finding("container.image.probe", name=name, id=image.id, why=why))
    if not told.get("command"):
        why = f"it has no program {command}"
        raise FindingError(finding("container.image.probe", name=name, id=image.id, why=why))
    return told


def stand_for(folder: Path, record: Mapping[str, Any], mounts: Sequence[str]) -> None:
    """Writes the folder that stands for the image; its record comes last. OSError."""
    program = folder / "bin" / "python"
    program.parent.mkdir(parents=True, exist_ok=True)
    fresh = program.with_name(".python.new")
    fresh.write_text(wrapper(folder, mounts), encoding="utf-8")
    fresh.chmod(0o755)
    os.replace(fresh, program)
    checkpoint_seals.save(folder / container_image.RECORD, dict(record))


def wrapper(folder: Path, mounts: Sequence[str]) -> str:
    """A program as the `bin/python` of an environment is one."""
    seen = "".join(f" --mount '{each}'" for each in mounts if "'" not in each)
    return (
        "#!/bin/sh\n# The Python of the image that this folder stands for.\n"
        f'exec /opt/tandem/bin/tandem container --python {folder}{seen} -- "$@"\n'
    )
