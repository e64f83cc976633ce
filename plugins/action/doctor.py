# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says everything that the looks at the nodes found, worst first, and fails on an error (controller only)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.tandem.spark.plugins.module_utils.findings import SEVERITIES, Finding
from ansible_collections.tandem.spark.plugins.modules.doctor import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import (
    doctor,
    doctor_files,
    doctor_page,
    mending,
    planning,
)
from ansible_collections.tandem.spark.plugins.plugin_utils.plan import PlanError
from ansible_collections.tandem.spark.plugins.plugin_utils.report import report

OPTIONS = ("tandem_doctor_json", "tandem_doctor_query", "tandem_doctor_bundle")


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        wanted = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        hostvars = task_vars["hostvars"]
        looks = {
            host: hostvars[host].get("__tandem_node") or {} for host in task_vars["ansible_play_hosts_all"]
        }
        trouble = doctor_files.unknown_options(task_vars, OPTIONS)
        findings = self._findings(task_vars, looks, trouble)
        if wanted["only"] is not None:
            return {**result, **self._left(mending.left(findings, wanted["only"]))}
        made = doctor.report(
            looks, findings, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), doctor_files.collection()
        )
        text = doctor_page.page(made)
        if wanted["query"]:
            try:
                text = json.dumps(doctor_files.query(wanted["query"], made), indent=2)
            except doctor_files.DoctorError as error:
                trouble.append(str(error))
        self._display.display(f"\n{text}\n")
        for path, content in self._files(wanted, made, task_vars, trouble).items():
            try:
                doctor_files.write(path, content)
                self._display.display(f"written: {path}\n")
            except doctor_files.DoctorError as error:
                trouble.append(str(error))
        errors = [each for each in made["findings"] if each["severity"] == "error"]
        if errors:
            hosts = dict.fromkeys(host for each in errors for host in each["hosts"])
            count = f"{len(errors)} error{'' if len(errors) == 1 else 's'}"
            trouble.insert(
                0,
                f"{count} found{' on ' if hosts else ''}{', '.join(hosts)}; each is told above with its remedy.",
            )
        result.update(changed=False, counts=made["counts"], worst=made["worst"])
        return {**result, "failed": True, "msg": "\n".join(trouble)} if trouble else result

    def _left(self, left: list[Finding]) -> dict[str, Any]:
        """What a run was to mend and did not."""
        counts = {severity: sum(each.severity == severity for each in left) for severity in SEVERITIES}
        told = {"changed": False, "counts": counts, "worst": next((s for s in counts if counts[s]), None)}
        text = report(left)
        if not counts["error"]:
            if text:
                self._display.display(f"Still there at the end of this run:\n{text}")
            return told
        return {
            **told,
            "failed": True,
            "msg": f"This run was to mend what follows, and it is still there:\n{text}",
        }

    def _findings(self, task_vars: Mapping, looks: Mapping, trouble: list[str]) -> list[Finding]:
        """Of every node, of every group, and of its plan; what keeps a plan from being made goes to `trouble`."""
        hostvars = task_vars["hostvars"]
        findings = [
            each
            for host, look in looks.items()
            for each in doctor.of_node(host, hostvars[host].get("ansible_host") or host, look)
        ]
        for group, hosts in self._groups(task_vars, looks).items():
            nodes = {
                host: node for host in hosts if (node := doctor.node_of(looks.get(host, {}))) is not None
            }
            findings += doctor.of_group(nodes)
            try:
                findings += self._planned(group, hosts, hostvars, nodes)
            except PlanError as error:
                trouble.append(str(error))
        return findings

    @staticmethod
    def _files(wanted: Mapping, report: Mapping, task_vars: Mapping, trouble: list[str]) -> dict[str, bytes]:
        files = {}
        if wanted["json"]:
            files[wanted["json"]] = doctor_files.as_json(report)
        if wanted["bundle"]:
            names = doctor_files.names(report, task_vars["hostvars"], task_vars["groups"])
            try:
                files[wanted["bundle"]] = doctor_files.bundle(wanted["bundle"], report, names)
            except doctor_files.DoctorError as error:
                trouble.append(str(error))
        return files

    @staticmethod
    def _groups(task_vars: Mapping, looks: Mapping) -> dict[str, list[str]]:
        """{group of ranks: its hosts in order} of every host that was looked at."""
        groups: dict[str, list[str]] = {}
        for host in looks:
            name = task_vars["hostvars"][host].get("tandem_group") or "tandem"
            hosts = list(task_vars["groups"].get(name, ()))
            if host in hosts:
                groups[name] = hosts
        return groups

    @staticmethod
    def _planned(group: str, hosts: list[str], hostvars: Any, nodes: Mapping) -> list[Finding]:
        """What the plan of the group would stop on, or warn of; what it only tells is left to it."""
        given = {host: planning.public(hostvars[host]) for host in hosts}
        asked = {
            host: {name: value for name, value in each.items() if not name.startswith(doctor_files.PREFIX)}
            for host, each in given.items()
        }
        made = planning.make(group, hosts, asked, nodes)
        return [each for each in made.findings if each.severity != "info"]
