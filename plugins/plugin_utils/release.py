# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release is: its content, the digest that names it, and the files that hold it on a node (controller only)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.tandem.spark.plugins.module_utils.engine_state import RELEASES


@dataclass(frozen=True)
class Release:
    """One release; nothing in it is of a host, so that it is the same on every rank.

    content: {path in the release: text}. fingerprint: that of the engine's environment at `runtime`.
    cache: folder of what is compiled lazily, kept over releases of one fingerprint; it belongs to `user`.
    """

    content: Mapping[str, str]
    fingerprint: str
    runtime: str
    checkpoint_revision: str
    facts: Mapping
    cache: str
    user: str

    @property
    def digest(self) -> str:
        """Sixteen hex digits for the configuration, the engine and the weights."""
        parts = [dict(self.content), self.fingerprint, self.checkpoint_revision]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def manifest(self) -> str:
        facts = {
            **self.facts,
            "digest": self.digest,
            "fingerprint": self.fingerprint,
            "checkpoint_revision": self.checkpoint_revision,
        }
        return json.dumps(facts, indent=2, sort_keys=True) + "\n"

    def files(self) -> list[dict]:
        """The release on a node, as managed_files takes it. The manifest comes last: with it the release is whole."""
        root, home = f"{RELEASES}/{self.digest}", {"owner": "root", "group": "root"}
        folders = sorted({root, *(f"{root}/{path}".rsplit("/", 1)[0] for path in self.content)})
        texts = {**self.content, "manifest.json": self.manifest}
        return [
            *({"path": folder, "state": "directory", "mode": "0755", **home} for folder in folders),
            *(
                {"path": path, "state": "directory", "mode": "0750", "owner": self.user, "group": self.user}
                for path in (self.cache, f"{self.cache}/inductor")
            ),
            {"path": f"{root}/runtime", "state": "link", "target": self.runtime},
            *(
                {"path": f"{root}/{name}", "content": text, "mode": "0644", **home}
                for name, text in texts.items()
            ),
        ]
