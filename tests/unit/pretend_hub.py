# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hub on this machine: what huggingface_hub asks of one for a download, and every way in which that goes wrong.

    python3 tests/unit/pretend_hub.py FOLDER REPOSITORY REVISION [HOST PORT]

serves one folder until it is ended. As on the real hub the small files come from the hub itself, and the large ones by
a redirect to a storage of another origin, with a signed address.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LARGE = (".safetensors", ".bin")
PAGE = 3  # entries of the tree in one answer


@dataclass
class Hub:
    """faults: called for each GET of a file with (name, first byte, content); what it returns is sent instead.

    asked: (method, path, Range, was the token sent) of every request. refuse: an answer in place of every other one.
    """

    folder: Path
    repository: str
    revision: str
    token: str | None = None
    refuse: Callable[[str], tuple[int, dict[str, str]] | None] = lambda _path: None
    fault: Callable[[str, int, bytes], bytes | None] = lambda _name, _first, content: content
    rate_bytes_s: float | None = None
    asked: list[tuple[str, str, str | None, bool]] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Hub:
        return self.start()

    def start(self, host: str = "127.0.0.1", port: int = 0) -> Hub:
        self._servers = [
            ThreadingHTTPServer((host, where), self._handler(storage))
            for where, storage in ((port, False), (0, True))
        ]
        for server in self._servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.url, self.storage = (f"http://{host}:{each.server_address[1]}" for each in self._servers)
        return self

    def __exit__(self, *_error: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def names(self) -> list[str]:
        paths = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return [path.relative_to(self.folder).as_posix() for path in paths]

    def entry(self, name: str) -> dict:
        content = (self.folder / name).read_bytes()
        git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        entry = {"type": "file", "oid": git, "size": len(content), "path": name}
        if name.endswith(LARGE):
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
        return entry

    def _handler(hub, storage: bool) -> type:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_words: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.answer()

            def do_GET(self) -> None:
                self.answer()

            def answer(self) -> None:
                parsed = urllib.parse.urlsplit(self.path)
                path = urllib.parse.unquote(parsed.path)
                given = self.headers.get("authorization")
                hub.asked.append((self.command, path, self.headers.get("range"), given is not None))
                if storage:
                    self.bytes_of(path.removeprefix("/blob/"), {})
                elif refused := hub.refuse(path):
                    self.reply(refused[0], refused[1], b'{"error": "refused"}')
                elif hub.token and given != f"Bearer {hub.token}":
                    self.reply(401, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."})
                else:
                    self.of_the_hub(path, parsed.query)

            def of_the_hub(self, path: str, query: str) -> None:
                api, files = f"/api/models/{hub.repository}", f"/{hub.repository}/resolve/"
                if path in (f"{api}/revision/{hub.revision}", f"{api}/revision/main", api):
                    self.json({"id": hub.repository, "sha": hub.revision, "siblings": []})
                elif path.startswith(f"{api}/revision/"):
                    self.reply(404, {"X-Error-Code": "RevisionNotFound"})
                elif path == f"{api}/tree/{hub.revision}":
                    first = int(dict(urllib.parse.parse_qsl(query)).get("cursor", 0))
                    names = hub.names()
                    more = f'<{hub.url}{path}?recursive=true&cursor={first + PAGE}>; rel="next"'
                    links = {"Link": more} if first + PAGE < len(names) else {}
                    folder = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "inference"}] * (
                        not first
                    )
                    self.json(folder + [hub.entry(name) for name in names[first : first + PAGE]], links)
                elif path.startswith(f"{files}{hub.revision}/"):
                    self.file(path.removeprefix(f"{files}{hub.revision}/"))
                else:
                    self.reply(404, {"X-Error-Code": "RepoNotFound"})

            def file(self, name: str) -> None:
                if name not in hub.names():
                    return self.reply(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": hub.revision})
                entry = hub.entry(name)
                own = {"X-Repo-Commit": hub.revision, "ETag": f'"{entry["oid"]}"'}
                if "lfs" not in entry:
                    return self.bytes_of(name, own)
                linked = {"X-Linked-Etag": f'"{entry["lfs"]["oid"]}"', "X-Linked-Size": str(entry["size"])}
                where = f"{hub.storage}/blob/{urllib.parse.quote(name)}?Signature=of-this-hour"
                self.reply(302, {**own, **linked, "Location": where})

            def bytes_of(self, name: str, headers: dict[str, str]) -> None:
                content = (hub.folder / name).read_bytes()
                wanted = self.headers.get("range")
                first = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
                part = content[first:]
                if wanted:
                    headers |= {"Content-Range": f"bytes {first}-{len(content) - 1}/{len(content)}"}
                self.send_response(206 if wanted else 200)
                for key, value in {**headers, "Content-Length": str(len(part))}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command == "GET":
                    self.trickle(name, hub.fault(name, first, part), len(part))

            def trickle(self, name: str, part: bytes | None, promised: int) -> None:
                """Fewer bytes than were promised are a line that was cut."""
                for at in range(0, len(part or b""), 1 << 16):
                    piece = part[at : at + (1 << 16)]
                    self.wfile.write(piece)
                    hub.sent[name] = hub.sent.get(name, 0) + len(piece)
                    if hub.rate_bytes_s:
                        time.sleep(len(piece) / hub.rate_bytes_s)
                if len(part or b"") < promised:
                    self.wfile.flush()
                    self.connection.shutdown(2)
                    self.close_connection = True

            def json(self, content: object, headers: dict[str, str] | None = None) -> None:
                body = json.dumps(content).encode()
                self.reply(200, {"Content-Type": "application/json", **(headers or {})}, body)

            def reply(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
                self.send_response(status)
                for key, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

        return Handler


def main() -> None:
    folder, repository, revision, *where = sys.argv[1:]
    host, port = where or ("127.0.0.1", "0")
    hub = Hub(Path(folder), repository, revision).start(host, int(port))
    print(hub.url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
