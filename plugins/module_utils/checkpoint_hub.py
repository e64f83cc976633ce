# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hub, asked through its own client in the engine's Python: what a revision holds, and its files, resumed."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .checkpoint_manifest import Entry, Manifest, ManifestError, from_content
from .findings import FindingError, finding
from .progress import on_the_way

PROGRAM = "tandem.hub_client"
SAY_EVERY_S = 5.0
# What the program may end with, and the finding for it.
ERRORS = {
    "client": "checkpoint.hub.client",
    "token": "checkpoint.hub.token",
    "repository": "checkpoint.hub.repository",
    "revision": "checkpoint.hub.revision",
    "rate": "checkpoint.hub.rate",
    "changed": "checkpoint.hub.changed",
    "network": "checkpoint.hub.network",
    "given_up": "checkpoint.hub.network",
    "space": "checkpoint.disk.full",
    "disk": "checkpoint.disk.error",
    "time": "checkpoint.hub.slow",
    "wrong_bytes": "checkpoint.hub.wrong_bytes",
}
# Taken from the node's environment as they are: a proxy or an own authority may be needed.
_HANDED_ON = ("PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True)
class Hub:
    """python: of an environment with huggingface_hub. library: folder that holds the package tandem.

    endpoint: None is the hub itself. token: None asks as nobody. patience_s: for how long nothing may arrive.
    """

    python: str
    library: str
    repository: str
    revision: str
    endpoint: str | None = None
    token: str | None = None
    workers: int = 8
    patience_s: float = 600.0
    always = False  # a revision that is listed once stays what it is

    @property
    def where(self) -> str:
        return self.endpoint or "the hub"

    def at(self, revision: str | None) -> Hub:
        """The same, at the commit that a branch or tag was."""
        return replace(self, revision=revision or self.revision)

    def manifest(self, say: Callable[[str], None], limit_s: float = 600.0) -> Manifest:
        """Every file of the revision with its size and hash. FindingError."""
        for line in self._lines({}, say, limit_s, lambda: None):
            if "tree" in line:
                try:
                    content = {**line["tree"], "repository": self.repository, "revision": line["tree"]["sha"]}
                    return from_content(content)
                except (ManifestError, KeyError) as error:
                    raise self.error("changed", str(error)) from error
        raise self.error("client", "it ended without an answer")

    def download(
        self,
        files: Mapping[str, Entry],
        folder: Path,
        say: Callable[[str], None],
        arrived: Callable[[str, str | None], None],
        limit_s: float = float("inf"),
    ) -> None:
        """Downloads to the parts of `folder`, what is there of them resumed; `arrived` is called for each whole one.

        Its hash is not known yet.

        FindingError; what arrived until then stays.
        """
        wish = [
            {
                "name": name,
                "size": entry.size,
                "hash": entry.sha256 or entry.git,
                "part": str(part_of(folder, name, entry)),
            }
            for name, entry in sorted(files.items(), key=lambda each: (-(each[1].size or 0), each[0]))
        ]
        total = sum(each["size"] or 0 for each in wish)
        parts = [part_of(folder, name, entry) for name, entry in files.items()]
        gone = [0]  # bytes of files that arrived, whose parts are somewhere else by now
        start, before = time.monotonic(), sum(map(size_of, parts))

        def tell() -> None:
            done = min(total, gone[0] + sum(map(size_of, parts)))
            say(on_the_way("downloaded", done, total, time.monotonic() - start, before))

        for line in self._lines({"files": wish}, say, limit_s, tell):
            if "done" in line:
                gone[0] += files[line["done"]].size or 0
                arrived(line["done"], None)

    def _lines(
        self, more: Mapping[str, Any], say: Callable[[str], None], limit_s: float, tell: Callable[[], None]
    ) -> Iterator[dict[str, Any]]:
        wish = {
            **more,
            "endpoint": self.endpoint,
            "repository": self.repository,
            "revision": self.revision,
            "workers": self.workers,
            "patience_s": self.patience_s,
        }
        try:
            process = subprocess.Popen(
                [self.python, "-P", "-m", PROGRAM],
                env=self._environment(),
                cwd="/",
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise self.error("client", f"{self.python}: {error.strerror}") from error
        try:
            yield from self._followed(process, json.dumps(wish), say, limit_s, tell)
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                stream.close()

    def _followed(
        self, process: Any, wish: str, say: Callable[[str], None], limit_s: float, tell: Callable[[], None]
    ) -> Iterator[dict[str, Any]]:
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        last: list[str] = []
        threading.Thread(target=lambda: last.extend(process.stderr), daemon=True).start()
        try:
            process.stdin.write(wish)
            process.stdin.close()
        except OSError:
            pass  # it ended at once; why is said below
        end, told = time.monotonic() + limit_s, time.monotonic()
        while True:
            now = time.monotonic()
            if now >= told + SAY_EVERY_S:
                tell()
                told = now
            if now > end:
                raise self.error("time", f"not through after {limit_s:.0f} s")
            try:
                text = lines.get(timeout=max(0.0, min(told + SAY_EVERY_S, end + 0.01) - now))
            except queue.Empty:
                continue
            if text is None:
                break
            line = json.loads(text)
            if "error" in line:
                raise self.error(line["error"], line["text"])
            if "say" in line:
                say(line["say"])
            else:
                yield line
        if process.wait():
            raise self.error(
                "client", " ".join("".join(last[-3:]).split()) or f"ended with {process.returncode}"
            )

    def _environment(self) -> dict[str, str]:
        """Nothing of a user's own settings for the hub; the token is nobody else's to see."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in _HANDED_ON or name.lower().endswith("_proxy")
        }
        own = {
            "PYTHONPATH": self.library,
            "PYTHONDONTWRITEBYTECODE": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
            # A download over xet cannot be resumed, and hung where it fetched piece by piece.
            "HF_HUB_DISABLE_XET": "1",
            "HF_HOME": "/nonexistent",
        }
        return {**kept, **own, **({"HF_TOKEN": self.token} if self.token else {})}

    def error(self, kind: str, text: str) -> FindingError:
        values = {"repository": self.repository, "revision": self.revision, "where": self.where}
        return FindingError(finding(ERRORS.get(kind, ERRORS["client"]), evidence=text, **values))


def part_of(folder: Path, name: str, entry: Entry) -> Path:
    """Where what arrived of a file so far lies; another revision's is another one."""
    return folder / f"{name}.{(entry.sha256 or entry.git or '')[:12]}.part"


def _read(stream: Any, lines: queue.SimpleQueue) -> None:
    for line in stream:
        if line.startswith("{"):
            lines.put(line)
    lines.put(None)


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
