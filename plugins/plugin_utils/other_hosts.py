# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules on several hosts from one action plugin.

Whoever watches all ranks of a group at once cannot be a loop with `delegate_to`, whose items follow each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import constants
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import become_loader
from ansible.template import Templar


def _options(kind: str, plugin: Any, variables: Mapping[str, Any], templar: Templar) -> dict[str, Any]:
    """The variables that set options of a connection, shell or become plugin, templated for its host."""
    names = constants.config.get_plugin_vars(kind, plugin._load_name)
    return {name: templar.template(variables[name]) for name in names if name in variables}


def _become(action: ActionBase, variables: Mapping[str, Any], templar: Templar) -> Any:
    wanted = templar.template(variables.get("ansible_become", action._task.become))
    if not wanted or str(wanted).lower() in ("no", "false", "0"):
        return None
    return become_loader.get(
        templar.template(variables.get("ansible_become_method", action._task.become_method))
    )


def _connect(action: ActionBase, host: str, variables: Mapping[str, Any], templar: Templar) -> Any:
    """A connection to `host` with the options that a task delegated there would have."""
    play_context = action._play_context.copy()
    play_context.remote_addr = templar.template(variables.get("ansible_host", host))
    name = templar.template(variables.get("ansible_connection", action._task.connection))
    connection = action._shared_loader_obj.connection_loader.get(
        name, play_context, task_uuid=action._task._uuid
    )
    connection.set_become_plugin(_become(action, variables, templar))
    keys = {**action._task.dump_attrs(), "timeout": play_context.timeout}
    del keys["retries"]  # the task's, which mean something else to a connection
    if play_context.password:
        keys["password"] = play_context.password
    connection.set_options(
        task_keys=keys, var_options=connection._resolve_option_variables(variables, templar)
    )
    connection._shell.set_options(
        task_keys=keys, var_options=_options("shell", connection._shell, variables, templar)
    )
    if connection.become:
        if play_context.become_pass:
            keys["become_pass"] = play_context.become_pass
        connection.become.set_options(
            task_keys=keys, var_options=_options("become", connection.become, variables, templar)
        )
    return connection


class OtherHost:
    """One host of the inventory, connected to when it is first asked."""

    def __init__(self, action: ActionBase, host: str, hostvars: Any):
        self.name = host
        self._action, self._hostvars = action, hostvars
        self._there: ActionBase | None = None
        self._variables: dict[str, Any] = {}

    def run(self, module: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What the module returns there; {"unreachable": True, "msg": why} where the host cannot be reached."""
        try:
            there = self._there or self._go_there()
            return there._execute_module(module, module_args=dict(arguments), task_vars=self._variables)
        except AnsibleConnectionFailure as error:
            return {"unreachable": True, "failed": True, "msg": str(error)}

    def _go_there(self) -> ActionBase:
        action = self._action
        task = action._task.copy(exclude_parent=False)
        task.delegate_to = None  # what is delegated is this very run
        self._variables = {
            "inventory_hostname": self.name,
            "ansible_host": self.name,
            **self._hostvars.raw_get(self.name),
        }
        templar = Templar(loader=action._loader, variables=self._variables)
        connection = _connect(action, self.name, self._variables, templar)
        self._there = type(action)(
            task, connection, connection._play_context, action._loader, templar, action._shared_loader_obj
        )
        return self._there
