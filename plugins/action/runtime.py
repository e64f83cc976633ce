# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fills the controller's wheelhouse, sends a node what it lacks, and has the node install it offline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.modules.runtime import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import wheelhouse


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        options = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        try:
            return {**result, **self._look_and_install(options, task_vars)}
        except wheelhouse.WheelhouseError as error:
            return {**result, "failed": True, "msg": str(error)}
        except OSError as error:
            msg = f"The wheelhouse {options['cache']} on the controller: {error}. Make room for it or set its place."
            return {**result, "failed": True, "msg": msg}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _look_and_install(self, options: dict, task_vars: dict) -> dict:
        target = wheelhouse.Target(
            Path(options["lock"]),
            options["python"],
            options["machine"],
            glibc="",
            extra_indexes=tuple(options["extra_indexes"]),
            made_here=Path(options["made_here"]) if options["made_here"] else None,
            placed=tuple(map(Path, options["placed"])),
        )
        state = self._on_node("look", target, task_vars)
        if state.get("failed") or state["installed"]:
            return state
        if self._task.check_mode:
            return {**state, "changed": True, "msg": "The engine's environment would be installed."}
        return self._install(replace(target, glibc=state["glibc"]), Path(options["cache"]), task_vars)

    def _install(self, target: wheelhouse.Target, cache: Path, task_vars: dict) -> dict:
        host = task_vars["inventory_hostname"]

        def say(text: str) -> None:
            self._display.display(f"{host}: {text}")

        folder, wheels = wheelhouse.fill(target, cache, say)
        missing = self._on_node("missing", target, task_vars, wheels=wheels)
        if missing.get("failed"):
            return missing
        incoming = self._send(folder, missing["missing"], say)
        say("installing the engine offline")
        return self._on_node(
            "install", target, task_vars, wheels=wheels, incoming=incoming, lock_text=target.lock.read_text()
        )

    def _on_node(self, step: str, target: wheelhouse.Target, task_vars: dict, **more) -> dict:
        arguments = {**self._task.args, "step": step, "key": target.key, **more}
        return self._execute_module(
            module_name="tandem.spark.runtime", module_args=arguments, task_vars=task_vars
        )

    def _send(self, folder: Path, names: list[str], say) -> str | None:
        """Puts the missing wheels into a temporary folder on the node, whoever the user there is."""
        if not names:
            return None
        incoming = self._connection._shell.join_path(self._make_tmp_path(), "wheels")
        self._low_level_execute_command(f"mkdir -p {incoming}")
        for number, name in enumerate(names, 1):
            self._connection.put_file(str(folder / name), self._connection._shell.join_path(incoming, name))
            if number % max(1, len(names) // 4) == 0:
                say(f"sent {number} of {len(names)} wheels")
        return incoming
