# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two pretend nodes for engines of other kinds: which image each has, and what a release holds. See pretend_tune."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pretend_tune
from ansible_collections.tandem.spark.plugins.plugin_utils.release import Release
from pretend_tune import keep, state

MODULES = (*pretend_tune.MODULES, "container_image")
RECORD = {"image": "sha256:1f", "fingerprint": "e" * 64, "command": "/usr/local/bin/vllm", "packages": {}}


def answer(name: str, args: Mapping[str, Any], host: str, check_mode: bool) -> dict[str, Any]:
    if name == "container_image":
        return {"changed": False, **_image(args, host, check_mode)}
    if name == "checkpoint_fetch":
        now = state()
        now["steps"].append(
            f"copied {args['path']} to {host} from {args['from_host']} {args['from_addresses']}"
        )
        keep(now)
        return {"changed": True}
    told = pretend_tune.answer(name, args, host, check_mode)
    if name == "release":
        now = state()
        now.setdefault("contents", {})[host] = {
            **args["content"],
            "facts": args["facts"],
            "runtime": args["runtime"],
        }
        now.setdefault("files", {})[host] = [each["path"] for each in Release(**args).files()]
        keep(now)
    return told


def _image(args: Mapping[str, Any], host: str, check_mode: bool) -> dict[str, Any]:
    now = state()
    images = now.setdefault("images", {})
    step = args.get("step", "look")
    if not str(args.get("digest")).startswith("sha256:"):
        return {"failed": True, "msg": f"it was not told which image: {args}"}
    if step != "look":
        now["steps"].append(f"{step} {host}")
    if step == "pull" and not check_mode:
        images[host] = RECORD["image"]
    if step == "load":
        images[host] = args["record"]["image"]
    keep(now)
    told: dict[str, Any] = {"path": "/opt/tandem/runtime/ab", "pieces": "/var/lib/tandem/images/ab"}
    ready = host in images
    told |= {"installed": ready, "present": ready, "image": images.get(host)}
    if ready:
        record = {**RECORD, "image": images[host]}
        told |= {"record": record, "fingerprint": RECORD["fingerprint"], "packages": {}}
    return told
