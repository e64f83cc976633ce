# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has the head keep the key of the API, which comes from a variable or the environment, or is drawn here.

It is shown nowhere, and is no argument of the task, since callbacks print those.
"""

from __future__ import annotations

import os
import secrets
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.module_utils import api_key
from ansible_collections.tandem.spark.plugins.modules.api_key import ARGUMENTS

VARIABLE, ENVIRONMENT = "tandem_api_key", "TANDEM_API_KEY"
_BYTES = 32


def draw() -> str:
    """A key that nobody guesses."""
    return secrets.token_urlsafe(_BYTES)


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        seen = args["seen"]
        source, key = self._key(args["auth"], seen, task_vars)
        if source == "kept" or (source == "open" and seen.get("file") and seen.get("kept") is False):
            return {**result, "changed": False, "source": source}
        if key is not None and not api_key.FORM.fullmatch(key):
            name = VARIABLE if source == "variable" else f"the environment variable {ENVIRONMENT}"
            msg = (
                f"{name} has {len(key)} characters that are not shown, wanted are 16 to 512 of letters, digits and "
                "._~+/=-: what a header, a shell and systemd all take as it is. [plan.access.key]"
            )
            return {**result, "failed": True, "msg": msg}
        done = self._execute_module(
            module_name="tandem.spark.managed_files",
            module_args={"files": [self._file(key, args["user"])]},
            task_vars=task_vars,
        )
        kept = {name: done[name] for name in ("failed", "msg", "unreachable") if name in done}
        return {**result, **kept, "changed": bool(done.get("changed")), "source": source}

    def _key(self, auth: str, seen: dict[str, Any], task_vars: dict[str, Any]) -> tuple[str, str | None]:
        """(where the key comes from, the key); no key where there is to be none, or it stays as it is."""
        if auth == "open":
            return "open", None
        given = str(self._templar.template(task_vars.get(VARIABLE) or ""))
        if given:
            return "variable", given
        if os.environ.get(ENVIRONMENT):
            return "environment", os.environ[ENVIRONMENT]
        return ("kept", None) if seen.get("kept") else ("drawn", draw())

    @staticmethod
    def _file(key: str | None, user: str) -> dict[str, str]:
        return {
            "path": f"/{api_key.FILE}",
            "secret": api_key.text(key),
            "mode": "0600",
            "owner": user,
            "group": user,
        }
