# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program for the engine's Python: lists and downloads a repository of the hub with its own client, huggingface_hub.

    PYTHONPATH=/opt/tandem/lib /opt/tandem/runtime/KEY/bin/python -P -m tandem.hub_client < wish.json

wish: {endpoint, repository, revision, files, workers, patience_s}. Without `files` the tree of the revision is listed;
with [{name, size, hash, part}] each is downloaded to the path PART. The token comes by HF_TOKEN alone.
Every line of the output is a JSON object: {"tree": {"sha", "files"}}, {"done": NAME}, {"say": TEXT}, or
{"error": KIND, "text": TEXT}, after which the program ends with 1. A kind is one of checkpoint_hub.ERRORS.

The client's own `hf_hub_download` (2.4.0) begins each file anew after its process ended. So its parts are used one by
one: what it asks of a file before a download, and `http_get`, which resumes a partial file.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT)
# The client's own 10 MB are lost of each file when a line is cut.
PIECE_BYTES = 1 << 20
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
UNANSWERED_S = 10
_QUERY = re.compile(r"\?\S+")  # a signed address is a secret for as long as it holds


class HubError(Exception):
    """kind: see checkpoint_hub.ERRORS."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind = kind


class _Patience:
    """How long nothing may arrive, over all files together."""

    def __init__(self, limit_s: float):
        self.limit_s = limit_s
        self._last = time.monotonic()
        self.given_up = threading.Event()

    def fed(self) -> None:
        self._last = time.monotonic()
        if self.given_up.is_set():
            raise HubError("given_up", "another file could not be downloaded")

    def wait(self, seconds: float, kind: str, why: str) -> None:
        """Waits before another try. HubError where that would be longer than anybody waits."""
        idle = time.monotonic() - self._last
        if idle + seconds > self.limit_s:
            raise HubError(kind, f"{why}; nothing arrived for {idle:.0f} s")
        if self.given_up.wait(seconds):
            raise HubError("given_up", "another file could not be downloaded")


class _Counted:
    """The partial file as http_get writes it: each piece that arrives is seen."""

    def __init__(self, stream: Any, patience: _Patience):
        self._stream, self._patience = stream, patience
        self.tell, self.seek, self.truncate = stream.tell, stream.seek, stream.truncate

    def write(self, piece: bytes) -> int:
        self._patience.fed()
        return self._stream.write(piece)


def told(error: BaseException) -> str:
    """An error on one line, without what a signed address or the token would give away."""
    text = " ".join(str(error).split()) or type(error).__name__
    if token := os.environ.get("HF_TOKEN"):
        text = text.replace(token, "***")
    return _QUERY.sub("", text)[:400]


def _judged(error: Exception, of_a_file: bool) -> tuple[str, float | None]:
    """(kind, seconds that the hub wants to be left alone; None: it is of no use to try again).

    of_a_file: the bytes were asked for, often elsewhere and by an address that holds for an hour.
    """
    from huggingface_hub import errors

    if getattr(error, "errno", None) in FULL:
        return "space", None
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(error, errors.RevisionNotFoundError):
        return "revision", None
    if status == 429:
        after = response.headers.get("retry-after", "")
        return "rate", float(after) + 1 if after.isascii() and after.isdecimal() else 0.0
    if status in (401, 403):
        return ("network", 0.0) if of_a_file and status == 403 else ("token", None)
    if isinstance(error, (errors.RepositoryNotFoundError, errors.EntryNotFoundError)) or status == 404:
        return "repository", None
    if isinstance(error, errors.HFValidationError):
        return "repository", None
    own = isinstance(error, OSError) and status is None and error.errno is not None
    if own and not isinstance(error, (ConnectionError, TimeoutError)):
        return "disk", None
    hopeless = type(error).__name__ in ("UnsupportedProtocol", "InvalidURL")
    if hopeless or not isinstance(error, (OSError, _client_error())):
        return "client", None
    return "network", 0.0


def _client_error() -> type[Exception]:
    """What the library below the client raises where a request comes to nothing."""
    from huggingface_hub.errors import HfHubHTTPError

    return next(each for each in HfHubHTTPError.__mro__ if each.__name__ == "HTTPError")


def _tried(work: Callable[[], Any], patience: _Patience, of_a_file: bool = False) -> Any:
    """What `work` returns, tried again while there is hope. HubError."""
    pause = FIRST_PAUSE_S
    while True:
        try:
            return work()
        except HubError:
            raise
        except Exception as error:  # the client raises those of three libraries
            kind, wanted = _judged(error, of_a_file)
            if wanted is None:
                raise HubError(kind, told(error)) from error
            seconds = max(wanted, pause)
            _print({"say": f"{told(error)}; once more in {seconds:.0f} s"})
            patience.wait(seconds, kind, told(error))
            pause = min(2 * pause, LONGEST_PAUSE_S)


def tree(wish: Mapping[str, Any]) -> dict[str, Any]:
    """{"sha": commit, "files": {name: {size, sha256 or git}}} of everything that is not hidden. HubError."""
    from huggingface_hub import HfApi

    api = HfApi(endpoint=wish["endpoint"] or None, token=os.environ.get("HF_TOKEN") or False)
    where = {"repo_id": wish["repository"], "revision": wish["revision"]}

    def look() -> dict[str, Any]:
        found = api.model_info(**where, timeout=3 * UNANSWERED_S)
        listed = api.list_repo_tree(where["repo_id"], recursive=True, revision=found.sha)
        files = {}
        for each in listed:
            if hasattr(each, "blob_id") and not any(part.startswith(".") for part in each.path.split("/")):
                known = {"sha256": each.lfs.sha256} if each.lfs else {"git": each.blob_id}
                files[each.path] = {"size": each.size, **known}
        return {"sha": found.sha, "files": files}

    return _tried(look, _Patience(wish["patience_s"]))


def download(wish: Mapping[str, Any]) -> None:
    """Every file of the wish, several at a time. HubError of the first that cannot be had."""
    patience = _Patience(wish["patience_s"])
    with ThreadPoolExecutor(wish["workers"]) as pool:
        jobs = {pool.submit(_download, wish, each, patience): each["name"] for each in wish["files"]}
        try:
            for job in as_completed(jobs):
                job.result()
                _print({"done": jobs[job]})
        except BaseException:
            patience.given_up.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _download(wish: Mapping[str, Any], file: Mapping[str, Any], patience: _Patience) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import get_hf_file_metadata, http_get
    from huggingface_hub.utils import build_hf_headers

    part = Path(file["part"])
    part.parent.mkdir(parents=True, exist_ok=True)
    token, endpoint = os.environ.get("HF_TOKEN") or False, wish["endpoint"] or None
    url = hf_hub_url(wish["repository"], file["name"], revision=wish["revision"], endpoint=endpoint)

    def ask() -> Any:
        return get_hf_file_metadata(url, token=token, timeout=UNANSWERED_S, endpoint=endpoint)

    def fetch() -> None:
        found = _tried(ask, patience)
        if found.commit_hash != wish["revision"] or found.etag != file["hash"]:
            seen = f"{file['name']} at {found.commit_hash} with the hash {found.etag}"
            raise HubError("changed", f"{seen}, listed were {wish['revision']} and {file['hash']}")
        size = found.size if file["size"] is None else file["size"]
        # The hub's own address is asked with the token, the signed one of its storage without.
        own = found.location == url or found.location.startswith(_origin(url))
        headers = build_hf_headers(token=token if own else False)
        with part.open("ab") as made:
            if size is not None and made.tell() > size:
                made.truncate(0)
        with part.open("r+b") as stream:
            have = stream.seek(0, os.SEEK_END)
            http_get(
                found.location,
                _Counted(stream, patience),
                resume_size=have,
                headers=headers,
                expected_size=size,
                displayed_filename=file["name"],
            )

    _tried(fetch, patience, of_a_file=True)


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3]) + "/"


_PRINTING = threading.Lock()


def _print(line: Mapping[str, Any]) -> None:
    with _PRINTING:
        print(json.dumps(line), flush=True)


class _Said(logging.Handler):
    """What the client warns of, such as a connection that it resumes."""

    def emit(self, record: logging.LogRecord) -> None:
        _print({"say": told(Exception(record.getMessage()))})


def main() -> int:
    wish = json.load(sys.stdin)
    try:
        from huggingface_hub import constants
        from huggingface_hub.utils import disable_progress_bars
    except ImportError as error:
        _print({"error": "client", "text": told(error)})
        return 1
    disable_progress_bars()
    constants.DOWNLOAD_CHUNK_SIZE = PIECE_BYTES
    logger = logging.getLogger("huggingface_hub")
    logger.handlers, logger.propagate = [_Said(logging.WARNING)], False
    try:
        if wish.get("files") is None:
            _print({"tree": tree(wish)})
        else:
            download(wish)
    except HubError as error:
        _print({"error": error.kind, "text": str(error)})
        sys.stdout.flush()
        os._exit(1)  # other files may still wait for bytes
    return 0


if __name__ == "__main__":
    sys.exit(main())
