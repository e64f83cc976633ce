# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a vLLM 0.33.0 that can parse its command line on a machine without a GPU, and ask it.

It is the real wheel without its compiled modules, over the dependencies of the rehearsal's engine.
Its version says ``+cpu``, so that it looks for no GPU. Everything comes from the hashed lists and stays in
the user's cache (about 4 GB), in a folder named after those lists.

``make flags`` writes what the parsers of both releases know to roles/profile/files/flags.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import yaml
from ansible_collections.tandem.spark.plugins.plugin_utils import wheelhouse
from uv import find_uv_bin

ROOT = Path(__file__).resolve().parents[2]
PROFILE = ROOT / "roles" / "profile" / "files" / "profiles" / "rehearsal.yml"
ENGINES = ROOT / "roles" / "runtime" / "files"
REHEARSAL = ENGINES / "rehearsal.txt"
RELEASE = ROOT / "requirements" / "engine-cli.txt"
FLAGS = ROOT / "roles" / "profile" / "files" / "flags"
# The release that is unpacked, and the one that the rehearsal's environment has.
UNPACKED, REHEARSED = "0.33.0", "0.32.0"
CACHE = Path("~/.cache/tandem").expanduser()


def prepare() -> Path:
    """Return the folder with ``venv`` and ``site``; make it first where the lists are new."""
    digest = hashlib.sha256(REHEARSAL.read_bytes() + RELEASE.read_bytes()).hexdigest()[:12]
    folder = CACHE / "engine-cli" / digest
    finished = folder / "finished"
    if not finished.exists():
        shutil.rmtree(folder.parent, ignore_errors=True)  # an interrupted or an older one
        install_dependencies(folder / "venv")
        unpack_release(folder / "site")
        finished.touch()
    return folder


def wheels(lock: Path) -> tuple[Path, list[str]]:
    """Download the wheels of a list where they are missing; return their folder and their names."""
    rehearsal = yaml.safe_load(PROFILE.read_text())["runtime"]
    target = wheelhouse.Target(
        lock=lock,
        python=rehearsal["python"],
        machine=rehearsal["machine"],
        glibc="2.36",
        extra_indexes=tuple(rehearsal["extra_indexes"]),
        made_here=ENGINES / rehearsal["made_here"] if lock == REHEARSAL else None,
    )
    folder, digests = wheelhouse.fill(target, CACHE / "wheelhouse", print)
    return folder, list(digests)


def install_dependencies(venv: Path) -> None:
    """Install the rehearsal's engine into a new Python 3.11 environment, offline from the wheelhouse."""
    folder, _names = wheels(REHEARSAL)
    uv = find_uv_bin()
    subprocess.run([uv, "venv", "--quiet", "--no-project", "--python", "3.11", str(venv)], check=True)
    command = [uv, "pip", "install", "--quiet", "--python", str(venv), "--no-index", "--no-deps"]
    command += ["--find-links", str(folder), "--require-hashes", "--requirement", str(REHEARSAL)]
    subprocess.run(command, check=True)


def unpack_release(site: Path) -> None:
    """Unpack the release to be asked, less vLLM's compiled modules, under a version that ends in ``+cpu``."""
    folder, names = wheels(RELEASE)
    for name in names:
        with zipfile.ZipFile(folder / name) as wheel:
            wheel.extractall(site, [file for file in wheel.namelist() if not is_compiled_vllm(file)])
    metadata = next(site.glob("vllm-*.dist-info/METADATA"))
    metadata.write_text(re.sub(r"(?m)^Version: .*", r"\g<0>+cpu", metadata.read_text(), count=1))


def is_compiled_vllm(name: str) -> bool:
    return name.startswith("vllm/") and name.endswith(".so")


def judge(command_lines: list[list[str]], release: str = UNPACKED) -> dict:
    """Return {"vllm": version, "flags": {…}, "verdicts": […]} of `judge_commands.py`, which describes them."""
    paths = [prepare() / "site"] if release == UNPACKED else []
    return _asked("judge_commands.py", command_lines, paths)


def configure(command_lines: list[list[str]]) -> list[dict]:
    """Return the verdicts of `judge_configs.py`, which describes them, on a pretended GB10."""
    with tempfile.TemporaryDirectory() as folder:
        plugin = Path(folder, "pretend_gb10-1.dist-info")
        plugin.mkdir()
        (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: pretend-gb10\nVersion: 1\n")
        points = "[vllm.platform_plugins]\npretend_gb10 = pretend_gb10:register\n"
        (plugin / "entry_points.txt").write_text(points)
        return _asked(
            "judge_configs.py", command_lines, [Path(folder), Path(__file__).parent, prepare() / "site"]
        )


def _asked(program: str, command_lines: list[list[str]], paths: list[Path]):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    environment.pop("HF_HUB_OFFLINE", None)  # offline, vLLM wants the checkpoint to be there before it judges
    done = subprocess.run(
        [str(prepare() / "venv" / "bin" / "python"), str(Path(__file__).with_name(program))],
        input=json.dumps(command_lines),
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"vLLM could not be asked:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def flags_file(release: str) -> Path:
    """Return where the flags of a release lie."""
    return FLAGS / f"vllm-{release}.txt"


def flags_text(release: str, flags: dict[str, str]) -> str:
    """Return the content of that file: a flag of `vllm serve` and its kind a line."""
    head = f"# What the parser of vLLM {release} knows; make flags writes it.\n"
    return head + "".join(f"{name} {kind}\n" for name, kind in flags.items())


if __name__ == "__main__":
    for each in (UNPACKED, REHEARSED):
        flags_file(each).write_text(flags_text(each, judge([], each)["flags"]))
        print(flags_file(each))
