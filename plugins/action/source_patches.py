# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the patches of this collection on the controller and has the node put them on its tree."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.module_utils.unified_diff import PatchError
from ansible_collections.tandem.spark.plugins.modules.source_patches import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils.patches import PATCHES, pick, read_series


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        options = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        try:
            patches = pick(read_series(PATCHES / options["tree"]), options["only"])
        except PatchError as error:
            return {**result, "failed": True, "msg": str(error)}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        arguments = {**self._task.args, "patches": patches}
        done = self._execute_module(
            module_name="tandem.spark.source_patches", module_args=arguments, task_vars=task_vars
        )
        return {**result, **done}
