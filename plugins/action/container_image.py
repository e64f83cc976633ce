# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names an image with its overlay, reads the patches, and has the node take a step; long ones as a job of it."""

from __future__ import annotations

from typing import Any

from ansible_collections.tandem.spark.plugins.module_utils import container_image
from ansible_collections.tandem.spark.plugins.module_utils.unified_diff import PatchError
from ansible_collections.tandem.spark.plugins.modules.container_image import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils.live_job import LiveJob
from ansible_collections.tandem.spark.plugins.plugin_utils.patches import PATCHES, pick, read_series

MODULE = "tandem.spark.container_image"
LONG = ("pull", "save", "load")


def with_patches(overlay: dict[str, Any]) -> dict[str, Any]:
    """The overlay with the text of its patches. Raises PatchError."""
    patches = [
        {**each, "files": pick(read_series(PATCHES / each["tree"]), list(each.get("only") or []))}
        for each in overlay.get("patches") or []
    ]
    return {**overlay, **({"patches": patches} if patches else {})}


class ActionModule(LiveJob):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        try:
            args["overlay"] = with_patches(args["overlay"] or {})
        except (PatchError, KeyError, TypeError) as error:
            return {**result, "failed": True, "msg": f"runtime.overlay of the profile: {error}"}
        args["key"] = container_image.key(
            f"{args['name']}@{args['digest']}",
            args["overlay"],
            args["command"],
            args["python"],
            args["as_root"],
        )
        if args["step"] not in LONG:
            return {**result, **self._execute_module(MODULE, module_args=args, task_vars=task_vars)}
        if args["overlay"]:
            args["overlay"] = {**args["overlay"], "host": self.host(task_vars)}
        return {**result, **self.run_live(MODULE, args, args["total_timeout"], task_vars)}
