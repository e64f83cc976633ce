# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans a build on the controller, brings the sources, has one node build what is missing, takes the wheels back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible import constants
from ansible_collections.tandem.spark.plugins.module_utils.build_plan import (
    BuildPlanError,
    Plan,
    Wheel,
    job,
    read,
)
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError, finding
from ansible_collections.tandem.spark.plugins.module_utils.unified_diff import PatchError
from ansible_collections.tandem.spark.plugins.modules.engine_build import ARGUMENTS
from ansible_collections.tandem.spark.plugins.plugin_utils import build_sources, built_wheels, wheelhouse
from ansible_collections.tandem.spark.plugins.plugin_utils.live_job import LiveJob
from ansible_collections.tandem.spark.plugins.plugin_utils.patches import PATCHES, read_series

MODULE = "tandem.spark.engine_build"


class ActionModule(LiveJob):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        options = self.validate_argument_spec(argument_spec=ARGUMENTS)[1]
        try:
            return {**result, **_Build(self, options, task_vars).run()}
        except FindingError as error:
            found = error.finding
            return {**result, "failed": True, "msg": told([found.as_dict()]), "findings": [found.as_dict()]}
        except (PatchError, wheelhouse.WheelhouseError) as error:
            return {**result, "failed": True, "msg": str(error), "findings": []}
        except OSError as error:
            msg = f"{options['cache']} on the controller: {error}. Make room for it or set tandem_wheelhouse_cache."
            return {**result, "failed": True, "msg": msg, "findings": []}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)


class _Build:
    """One task: what is kept, what the node has, what it must build."""

    def __init__(self, action: ActionModule, options: dict[str, Any], task_vars: dict[str, Any]):
        self.action, self.options, self.task_vars = action, options, task_vars
        self.cache = Path(options["cache"])
        self.requires = Path(options["requires"]).read_text(encoding="utf-8")
        self.plan = self._plan()

    def _plan(self) -> Plan:
        build = self.options["build"]
        trees = {each.get("patches") for each in build.get("wheels") or []} - {None, ""}
        there = {path.parent.name for path in PATCHES.glob("*/series")}
        try:
            return read(
                build,
                machine=self.options["machine"],
                python=self.options["python"],
                toolkit=self.options["cuda_toolkit"],
                requires=self.requires,
                patches={tree: read_series(PATCHES / tree) for tree in sorted(trees & there)},
            )
        except BuildPlanError as error:
            raise FindingError(
                finding("build.plan.wrong", name=self.options["name"], problems=str(error))
            ) from error

    def run(self) -> dict[str, Any]:
        left = [wheel for wheel in self.plan.wheels if not built_wheels.kept(self.cache, wheel.digest)]
        if not left:
            return self._told(())
        names = ", ".join(wheel.name for wheel in left)
        if not self.options["may_build"]:
            if self.action._task.check_mode:
                return self._would(f"{names} are not built yet, and {self.options['head']} builds them.")
            raise FindingError(finding("build.head.absent", names=names, head=self.options["head"]))
        seen = self._on_node("look", wheels=job(self.plan, [wheel.digest for wheel in left]))
        if seen.get("failed"):
            return seen
        left = [wheel for wheel in left if wheel.digest not in seen["built"]]
        if left and (errors := self._errors(seen["findings"])):
            return {"failed": True, "msg": told(errors), "findings": seen["findings"]}
        if self.action._task.check_mode:
            return self._would(
                f"{names} would be built." if left else f"{names} would be brought from the node."
            )
        done = seen
        if left:
            done = self._build([wheel.digest for wheel in left], seen)
            if done.get("failed"):
                return done
        self._bring(done["built"])
        more = {key: done[key] for key in ("findings", "progress") if key in done}
        return {**self._told([wheel.digest for wheel in left]), **more, "changed": bool(left)}

    def _errors(self, found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """What keeps a build from being begun. In check mode the tools were only told of by the task before."""
        errors = [each for each in found if each["severity"] == "error"]
        if self.action._task.check_mode:
            return [each for each in errors if not each["id"].startswith("build.tool")]
        return errors

    def _would(self, msg: str) -> dict[str, Any]:
        """The list has its name and its place in check mode too, so that what follows can be told."""
        lock = built_wheels.composed(self._lock(), built_wheels.placeholders(self.plan))
        folder = Path(constants.DEFAULT_LOCAL_TMP)
        path = built_wheels.write_lock(folder, f"{self.options['name']}-{self.plan.key}", lock)
        return {
            "changed": True,
            "msg": msg,
            "lock": str(path),
            "placed": [],
            "wheels": self._wheels(()),
            "findings": [],
        }

    def _told(self, built: Sequence[str]) -> dict[str, Any]:
        records = [built_wheels.kept(self.cache, wheel.digest) for wheel in self.plan.wheels]
        lock = built_wheels.composed(self._lock(), records)
        path = built_wheels.write_lock(self.cache / "locks", f"{self.options['name']}-{self.plan.key}", lock)
        placed = [record["path"] for record in records]
        told_wheels = self._wheels(built)
        return {"changed": False, "lock": str(path), "placed": placed, "wheels": told_wheels, "findings": []}

    def _wheels(self, built: Sequence[str]) -> list[dict[str, Any]]:
        return [
            {"name": wheel.name, "digest": wheel.digest, "built": wheel.digest in built}
            for wheel in self.plan.wheels
        ]

    def _lock(self) -> str:
        return Path(self.options["lock"]).read_text(encoding="utf-8")

    # What only a build needs

    def _build(self, wanted: Sequence[str], seen: Mapping[str, Any]) -> dict[str, Any]:
        needed = [wheel for wheel in self.plan.wheels if wheel.digest in wanted]
        sources = {source.file: source for wheel in needed for source in wheel.sources}
        archives = build_sources.bring(list(sources.values()), self.cache / "sources", self._say)
        target = wheelhouse.Target(
            Path(self.options["requires"]), self.options["python"], self.options["machine"], seen["glibc"]
        )
        house, requires = wheelhouse.fill(target, self.cache, self._say)
        more = {"wheels": job(self.plan, wanted), "sources": archives, "requires_wheels": requires}
        more["requires_text"] = self.requires
        if not seen["going"]:
            lacking = self._on_node("look", **more)
            if lacking.get("failed"):
                return lacking
            sent = self._send(self.cache / "sources", lacking["missing"]["sources"])
            sent = self._send(house, lacking["missing"]["requires"], sent)
            known = self._known(needed, seen["built"])
            for digest, record in known.items():
                sent = self._send(Path(record["path"]).parent, [record["file"]], sent, f"{digest}.whl")
            adopted = self._on_node("adopt", incoming=sent or "/nonexistent", known=known, **more)
            self.action._remove_tmp_path(self.action._connection._shell.tmpdir)
            if adopted.get("failed"):
                return adopted
        self._say(f"builds {', '.join(wheel.name for wheel in needed)} in tandem-build.service")
        arguments = self._arguments("run", **more)
        return self.action.run_live(MODULE, arguments, self.options["limit_h"] * 3600, self.task_vars)

    def _known(self, building: Sequence[Wheel], there: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """{digest: record} of what these builds need, the controller keeps, and the node lost."""
        by_name = {wheel.name: wheel for wheel in self.plan.wheels}
        needed, found = {name for wheel in building for name in wheel.needs}, {}
        while needed:
            wheel = by_name[needed.pop()]
            needed |= set(wheel.needs)
            record = built_wheels.kept(self.cache, wheel.digest)
            if record and wheel.digest not in there:
                found[wheel.digest] = record
        return found

    def _arguments(self, step: str, **more: Any) -> dict[str, Any]:
        wheels = job(self.plan, [])
        return {**self.action._task.args, "step": step, "key": self.plan.key, "wheels": wheels, **more}

    def _on_node(self, step: str, **more: Any) -> dict[str, Any]:
        return self.action._execute_module(
            module_name=MODULE, module_args=self._arguments(step, **more), task_vars=self.task_vars
        )

    def _send(
        self, folder: Path, names: Sequence[str], incoming: str | None = None, called: str | None = None
    ) -> str | None:
        """Puts files into a temporary folder on the node, whoever the user there is. called: its name there."""
        if not names:
            return incoming
        join = self.action._connection._shell.join_path
        if incoming is None:
            incoming = join(self.action._make_tmp_path(), "build")
            self.action._low_level_execute_command(f"mkdir -p {incoming}")
        for number, name in enumerate(names, 1):
            self.action._connection.put_file(str(folder / name), join(incoming, called or name))
            self._say(f"sent {number} of {len(names)}: {name}")
        return incoming

    def _bring(self, built: Mapping[str, Mapping[str, Any]]) -> None:
        """Takes the wheels that the controller lacks from the node. FindingError where one is lost on the way."""
        (self.cache / "incoming").mkdir(parents=True, exist_ok=True)
        for wheel in self.plan.wheels:
            if built_wheels.kept(self.cache, wheel.digest):
                continue
            record = built[wheel.digest]
            target = self.cache / "incoming" / f"{wheel.digest}.whl"
            source = f"{self.options['folder']}/wheels/{wheel.digest}/{record['file']}"
            self._say(f"takes {record['file']}")
            self.action._connection.fetch_file(source, str(target))
            if built_wheels.keep(self.cache, wheel.digest, record, target) is None:
                raise OSError(f"{record['file']} arrived with another content than it was built with")

    def _say(self, line: str) -> None:
        self.action._display_lines(self.action.host(self.task_vars), [line])


def told(found: Sequence[Mapping[str, Any]]) -> str:
    """Findings as the message of a task: what was found, what to do, its id."""
    return "\n".join(
        f"{each['summary']}. {each['remedy']} [{each['id']}]"
        + (f"\n{each['evidence']}" if each["evidence"] else "")
        for each in found
    )
