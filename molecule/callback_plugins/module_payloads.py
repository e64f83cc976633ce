# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts the modules that are really sent to each host, and prints the count at the end of a run.

Every action passes through ActionBase._execute_module, once for each module that it sends: `copy` alone sends two.
Ansible runs the actions in forked processes, so each one adds its line to a file.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter

from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: module_payloads
type: aggregate
short_description: Count the module payloads of each host
description:
  - Prints how many modules were sent to each host in this run.
requirements:
  - enable in configuration
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "module_payloads"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        handle, self.path = tempfile.mkstemp(prefix="module-payloads-")
        os.close(handle)
        path, send = self.path, ActionBase._execute_module

        def counted(action, *arguments, **keywords):
            variables = keywords.get("task_vars") or {}
            host = action._task.delegate_to or variables.get("inventory_hostname", "unknown")
            with open(path, "a", encoding="utf-8") as log:
                log.write(f"{host}\n")
            return send(action, *arguments, **keywords)

        ActionBase._execute_module = counted

    def v2_playbook_on_stats(self, stats) -> None:
        with open(self.path, encoding="utf-8") as log:
            counts = Counter(log.read().split())
        os.unlink(self.path)
        self._display.banner("MODULE PAYLOADS")
        for host, count in sorted(counts.items()):
            self._display.display(f"{host} : {count}")
