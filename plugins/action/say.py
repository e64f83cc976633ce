# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints lines as they are: a command that is printed can be copied, which YAML's quotes and folds prevent."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.modules.say import ARGUMENTS


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        text = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]["text"]
        self._display.display(f"\n{text.rstrip()}\n")
        return {**result, "changed": False}
