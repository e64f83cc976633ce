# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names a release by its content and has the node hold it, in one module run."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.modules.release import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils.release import Release


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        release = Release(**self.validate_argument_spec(argument_spec=ARGUMENTS)[1])
        result.update(
            self._execute_module(
                module_name="tandem.spark.managed_files",
                module_args={"files": release.files()},
                task_vars=task_vars,
            )
        )
        result["digest"] = release.digest
        return result
