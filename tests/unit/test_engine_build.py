# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action on the controller: what is kept asks no node, what is missing is built and brought, refusals stop it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from unittest import mock

import pytest
from ansible_collections.tandem.spark.plugins.action import engine_build
from ansible_collections.tandem.spark.plugins.module_utils.findings import finding
from ansible_collections.tandem.spark.plugins.plugin_utils import built_wheels

BUILD = {
    "requires": "requires.txt",
    "sources": {
        "one": {"url": "https://example.org/one.tar.gz", "sha256": "1" * 64},
        "two": {"url": "https://example.org/two.tar.gz", "sha256": "2" * 64},
    },
    "wheels": [
        {"name": "one", "source": "one", "version": "1.0"},
        {"name": "two", "source": "two", "version": "2.0", "needs": ["one"]},
    ],
}
SERVES = finding("build.engine.serves", units="tandem-head.service").as_dict()
NEWER = finding("build.toolkit.newer", toolkit="13.2", driver="580.142", wanted=595).as_dict()


def record(name, version):
    content = f"wheel of {name}".encode()
    file = f"{name}-{version}-py3-none-any.whl"
    digest = hashlib.sha256(content).hexdigest()
    return {"name": name, "version": version, "file": file, "sha256": digest}, content


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A controller with its cache, and a node that answers as it is told."""
    (tmp_path / "lock.txt").write_text("one==0.9 --hash=sha256:00\nuv==1 --hash=sha256:11\n")
    (tmp_path / "requires.txt").write_text("uv==1 --hash=sha256:11\n")

    class Site:
        def __init__(self):
            self.built: dict = {}
            self.findings: list = []
            self.steps: list[str] = []
            self.brought: list[str] = []
            self.sent: list[str] = []
            self.after = {}
            self.run_result = {}

        def make(self):
            return engine_build._Build(self.action(), self.options(), {"inventory_hostname": "spark-a"})

        def options(self, **told):
            values = {name: spec.get("default") for name, spec in engine_build.ARGUMENTS.items()}
            return {
                **values,
                "name": "mine",
                "build": BUILD,
                "lock": str(tmp_path / "lock.txt"),
                "requires": str(tmp_path / "requires.txt"),
                "python": "3.12",
                "machine": "aarch64",
                "user": "tandem",
                "cache": str(tmp_path / "cache"),
                **told,
            }

        def action(self, check_mode=False, **told):
            task = mock.Mock(args=self.options(**told), check_mode=check_mode, async_val=0, delegate_to=None)
            action = engine_build.ActionModule(task, *(mock.Mock() for _each in range(5)))
            action.validate_argument_spec = lambda argument_spec: (None, task.args)
            action._execute_module = self.module
            action.run_live = lambda name, arguments, limit_s, task_vars: self.live(arguments)
            action._make_tmp_path = lambda: "/tmp/x"
            action._remove_tmp_path = mock.Mock()
            action._low_level_execute_command = mock.Mock()
            action._connection._shell.join_path = lambda *parts: "/".join(parts)
            action._connection.fetch_file = self.fetch
            action._connection.put_file = lambda path, place: self.sent.append(place)
            return action

        def run(self, check_mode=False, **told):
            self.steps = []
            return self.action(check_mode, **told).run(task_vars={"inventory_hostname": "spark-a"})

        def module(self, module_name, module_args, task_vars):
            self.steps.append(module_args["step"])
            self.known = list(module_args.get("known") or ())
            answer = {"built": self.built, "findings": self.findings, "going": False, "glibc": "2.39"}
            return {
                **answer,
                "missing": {"sources": sorted(module_args.get("sources") or ()), "requires": []},
            }

        def live(self, arguments):
            self.steps.append("run")
            self.asked = arguments
            self.built = {**self.built, **self.after}
            return {
                "changed": True,
                "built": self.built,
                "findings": [],
                "progress": ["two: built"],
                **self.run_result,
            }

        def fetch(self, source, target):
            self.brought.append(source)
            name = Path(source).name.partition("-")[0]
            Path(target).write_bytes(self.content.get(name, b"cut off"))

    made = Site()
    plan = {wheel.name: wheel.digest for wheel in made.make().plan.wheels}
    made.digests = plan
    (one, first), (two, second) = record("one", "1.0"), record("two", "2.0")
    made.content = {"one": first, "two": second}
    made.after = {plan["one"]: one, plan["two"]: two}
    made.cache = tmp_path / "cache"
    monkeypatch.setattr(
        engine_build.build_sources,
        "bring",
        lambda sources, cache, say: {source.file: source.check for source in sources},
    )
    monkeypatch.setattr(engine_build.wheelhouse, "fill", lambda target, cache, say: (made.cache, {}))
    monkeypatch.setattr(engine_build.constants, "DEFAULT_LOCAL_TMP", str(tmp_path / "local"))
    return made


def test_it_is_built_brought_and_kept(site):
    done = site.run()
    assert done["changed"] and site.steps == ["look", "look", "adopt", "run"], done
    assert [wheel["built"] for wheel in done["wheels"]] == [True, True]
    lock = Path(done["lock"]).read_text()
    assert "one==1.0" in lock and "two==2.0" in lock and "uv==1" in lock and "one==0.9" not in lock
    assert [Path(path).read_bytes() for path in done["placed"]] == [site.content["one"], site.content["two"]]
    # And again: no module runs on the node, and the list has the same bytes.
    again = site.run()
    assert not again["changed"] and site.steps == [] and again["lock"] == done["lock"]
    assert Path(again["lock"]).read_text() == lock


def test_a_changed_pin_builds_only_what_depends_on_it(site):
    site.run()
    other = {"url": "https://example.org/x", "sha256": "9" * 64}
    build = {**BUILD, "sources": {**BUILD["sources"], "two": other}}
    changed = site.run(build=build, check_mode=True)
    assert changed["changed"] and changed["msg"] == "two would be built."
    digest = next(wheel["digest"] for wheel in changed["wheels"] if wheel["name"] == "two")
    two, site.content["two"] = record("two", "2.0")[0], b"wheel of two"
    site.after = {digest: two}
    done = site.run(build=build)
    assert [wheel["built"] for wheel in done["wheels"]] == [False, True]
    assert [wheel["wanted"] for wheel in site.asked["wheels"]] == [False, True]
    assert list(site.asked["sources"]) == ["9" * 64 + ".tar"]


def test_what_the_node_has_is_only_brought(site):
    site.built = site.after
    done = site.run()
    assert site.steps == ["look"] and not done["changed"] and len(site.brought) == 2
    assert Path(done["placed"][0]).read_bytes() == site.content["one"]


def test_check_mode_names_what_would_be_done_and_does_nothing(site):
    would = site.run(check_mode=True)
    assert would["changed"] and would["msg"] == "one, two would be built." and would["placed"] == []
    assert site.steps == ["look"] and "one==1.0" in Path(would["lock"]).read_text()
    assert not site.cache.exists()


def test_a_refusal_stops_it_with_its_finding(site):
    site.findings = [SERVES, NEWER]
    refused = site.run()
    assert (
        refused["failed"]
        and "[build.engine.serves]" in refused["msg"]
        and "tandem_build=allowed" in refused["msg"]
    )
    assert "[build.toolkit.newer]" not in refused["msg"] and site.steps == ["look"]
    assert site.run(check_mode=True)["failed"], "a check that passes where a run would not is none"
    site.findings = [NEWER]
    assert not site.run().get("failed")


def test_a_clean_node_passes_a_check(site):
    """The tools are brought by the task before, which in check mode only tells so."""
    site.findings = [finding("build.tool.missing", what="nvcc", wanted="13.2", remedy="x").as_dict()]
    assert site.run(check_mode=True)["changed"]
    refused = site.run()
    assert refused["failed"] and "[build.tool.missing]" in refused["msg"]


def test_what_a_build_needs_and_the_node_lost_goes_back_to_it(site):
    site.run()
    site.built = {}
    build = {
        **BUILD,
        "sources": {**BUILD["sources"], "two": {"url": "https://example.org/x", "sha256": "9" * 64}},
    }
    digest = next(
        wheel["digest"]
        for wheel in site.run(build=build, check_mode=True)["wheels"]
        if wheel["name"] == "two"
    )
    site.after = {digest: record("two", "2.0")[0]}
    assert site.run(build=build)["changed"]
    assert site.known == [site.digests["one"]] and site.sent[-1].endswith(f"/{site.digests['one']}.whl")
    assert [wheel["wanted"] for wheel in site.asked["wheels"]] == [False, True]


def test_only_the_head_builds(site):
    refused = site.run(may_build=False, head="spark-a")
    assert refused["failed"] and "[build.head.absent]" in refused["msg"] and site.steps == []
    assert site.run(may_build=False, head="spark-a", check_mode=True)["changed"]
    site.run()
    assert not site.run(may_build=False, head="spark-a").get("failed")


def test_a_failed_build_is_told_as_the_module_tells_it(site):
    site.run_result = {"failed": True, "msg": "The build of two ended with 1", "built": {}}
    failed = site.run()
    assert failed["failed"] and failed["msg"].startswith("The build of two") and site.brought == []


def test_a_wheel_that_is_damaged_on_the_way_is_not_kept(site):
    site.content.pop("two")
    failed = site.run()
    assert failed["failed"] and "arrived with another content" in failed["msg"]
    assert built_wheels.kept(site.cache, site.digests["two"]) is None


def test_a_plan_that_is_wrong_is_told_at_once(site):
    failed = site.run(build={**BUILD, "wheels": [{"name": "two", "source": "two", "needs": ["one"]}]})
    assert failed["failed"] and "[build.plan.wrong]" in failed["msg"] and "needs one" in failed["msg"]
