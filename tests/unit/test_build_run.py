# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The builder on a node: finished wheels stay, half-built ones go on, and every end has its finding.

What compiles is a script in place of uv, which makes one object after the other; all else is the real thing.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import build_run, build_store, build_trees, runtime
from ansible_collections.tandem.spark.plugins.module_utils.build_run import Builder, how_far, read_job

# uv … --out-dir=OUT SOURCE: makes objects/1 … objects/3, then a wheel of what `name` in the source says.
COMPILER = f"""#!{sys.executable}
import os, pathlib, sys, time, zipfile
out = pathlib.Path(next(word for word in sys.argv if word.startswith("--out-dir=")).partition("=")[2])
source = pathlib.Path(sys.argv[-1])
objects = source / "objects"
objects.mkdir(exist_ok=True)
for number in (1, 2, 3):
    if (objects / str(number)).exists():
        continue
    (source / "compiled").open("a").write(f"{{number}}\\n")
    if (source / f"fails-{{number}}").exists():
        sys.exit((source / f"fails-{{number}}").read_text())
    if (source / f"waits-{{number}}").exists():
        print(f"[{{number}}/3] waits", flush=True)
        time.sleep(60)
    (objects / str(number)).write_text(os.environ["MAX_JOBS"])
    print(f"[{{number}}/3] object", flush=True)
out.mkdir()
with zipfile.ZipFile(out / (source / "name").read_text().strip(), "w") as wheel:
    wheel.writestr("content", os.environ.get("TREE", "") + os.environ["FLAG"])
"""
WHEEL = "thing-1.0-py3-none-any.whl"
LOCK = "uv==1 --hash=sha256:0\n"


def archive(folder: Path, files: dict[str, str]) -> str:
    """Packs a source archive; its name in the store."""
    folder.mkdir(exist_ok=True)
    path = folder / "raw.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = folder / "member"
            member.write_text(text)
            tar.add(member, f"thing-1.0/{name}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.rename(folder / f"{digest}.tar")
    (folder / "member").unlink()
    return f"{digest}.tar"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A node: runs a job of one wheel or more, whose environment is a folder with the script above."""
    folder, state = tmp_path / "build", tmp_path / "run"
    state.mkdir()
    for name in build_store.FOLDERS:
        (folder / name).mkdir(parents=True)
    (tmp_path / "root/proc/sys/kernel/random").mkdir(parents=True)
    boot = tmp_path / "root/proc/sys/kernel/random/boot_id"
    boot.write_text("first\n")
    installed = []

    def install(path, lock, wheelhouse, wheels, python):
        installed.append((lock, sorted(wheels)))
        (path / "bin").mkdir(parents=True)
        (path / "lib/python3.12/site-packages").mkdir(parents=True)
        (path / "bin/uv").write_text(COMPILER)
        (path / "bin/uv").chmod(0o755)
        (path / "bin/python").symlink_to(sys.executable)
        (path / runtime.FINGERPRINT).write_text(json.dumps({"digest": "x", "packages": {}}))

    monkeypatch.setattr(runtime, "install", install)
    monkeypatch.setattr(build_run, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(build_run, "SAY_EVERY_S", 0.1)
    monkeypatch.setattr(build_run, "tools", lambda path: ["gcc 13"])

    class Site:
        said: list[str] = []

        def wheel(self, files=None, **told):
            text = {"name": WHEEL, "setup.py": "old\n", **(files or {})}
            return {
                "name": "thing",
                "version": "1.0",
                "digest": "d" * 16,
                "archive": archive(folder / "sources", text),
                "needs": [],
                "trees": [],
                "patches": [],
                "before": [],
                "environment": {"FLAG": "one"},
                "network": "",
                "deepgemm": "",
                "disk_gib": 1,
                "wanted": True,
                **told,
            }

        def job(self, *wheels, reserve_gib=0.0):
            told = {
                "key": "k",
                "folder": str(folder),
                "python": "/usr/bin/python3",
                "path": os.environ["PATH"],
            }
            told |= {"jobs": 3, "reserve_gib": reserve_gib, "environment": {}, "requires": LOCK}
            return {**told, "requires_wheels": {}, "wheels": list(wheels)}

        def builder(self, *wheels, **more):
            self.said = []
            return Builder(
                read_job(self.job(*wheels, **more)), state, self.said.append, str(tmp_path / "root")
            )

        def run(self, *wheels, **more):
            """(exit code, id of the finding or None)"""
            code = self.builder(*wheels, **more).run()
            self.told = json.loads((state / build_run.STATE).read_text())
            return code, (self.told["finding"] or {}).get("id")

        def reboot(self):
            boot.write_text("second\n")

    made = Site()
    made.folder, made.state, made.installed, made.monkeypatch = folder, state, installed, monkeypatch
    made.work = folder / "work" / ("d" * 16)
    return made


def record(site):
    return build_store.built(site.folder, "d" * 16)


def compiled(site):
    """Which objects the compiler was asked for, each time that it was."""
    return (site.work / "source/compiled").read_text().split()


def test_a_wheel_is_built_once(site):
    wheel = site.wheel()
    assert site.run(wheel) == (0, None)
    told = record(site)
    assert (told["name"], told["version"], told["file"], told["tools"]) == ("thing", "1.0", WHEEL, ["gcc 13"])
    assert site.told["state"] == "done" and not site.work.exists()
    assert "[3/3] object" in (site.folder / f"log/thing-{'d' * 16}.log").read_text()
    before = (site.folder / "wheels" / ("d" * 16) / WHEEL).stat().st_mtime_ns
    assert site.run(wheel) == (0, None)
    assert (site.folder / "wheels" / ("d" * 16) / WHEEL).stat().st_mtime_ns == before
    assert site.said == [f"thing: {WHEEL} is built"] and len(site.installed) == 1


def test_what_a_wheel_is_made_of_gets_into_it(site):
    tree = {"variable": "TREE", "archive": archive(site.folder / "sources", {"sub/x": "x"}), "folder": "sub"}
    change = "--- a/setup.py\n+++ b/setup.py\n@@ -1 +1 @@\n-old\n+new\n"
    first = site.wheel(
        files={"name": "first-2.0-py3-none-any.whl"}, name="first", version=None, digest="e" * 16
    )
    second = site.wheel(
        needs=["e" * 16],
        trees=[tree],
        patches=[{"name": "one.patch", "text": change}],
        before=[[sys.executable, "-c", "import pathlib; print(pathlib.Path('setup.py').read_text())"]],
        environment={"FLAG": "{site}"},
    )
    assert site.run(first, second) == (0, None)
    lock, wheels = site.installed[1]
    sha = build_store.built(site.folder, "e" * 16)["sha256"]
    assert lock == f"{LOCK}first==2.0 --hash=sha256:{sha}\n" and wheels == ["first-2.0-py3-none-any.whl"]
    with zipfile.ZipFile(site.folder / "wheels" / ("d" * 16) / WHEEL) as built:
        content = built.read("content").decode()
    assert content.startswith(f"{site.work}/trees/") and content.endswith("/lib/python3.12/site-packages")
    assert "/sub" in content and "thing: one.patch: applied" in site.said
    assert "new" in (site.folder / f"log/thing-{'d' * 16}.log").read_text()


def test_a_failed_build_goes_on_where_it_was(site):
    wheel = site.wheel(files={"fails-3": "error: no such thing"})
    assert site.run(wheel) == (1, "build.wheel.failed")
    assert "error: no such thing" in site.told["finding"]["evidence"] and site.told["wheel"] == "thing"
    assert "thing-dddd" in site.told["finding"]["remedy"]
    (site.work / "source/fails-3").unlink()
    assert compiled(site) == ["1", "2", "3"]
    # The first was finished long before the end; the second may have been in the making.
    at = json.loads((site.work / build_trees.MARK).read_text())["at"]
    os.utime(site.work / "source/objects/1", (at + 1, at + 1))
    os.utime(site.work / "source/objects/2", (at + 50, at + 50))
    kept = []
    build = Builder._compile
    site.monkeypatch.setattr(
        Builder, "_compile", lambda self, *more: (build(self, *more), kept.extend(compiled(site)))[0]
    )
    assert site.run(wheel) == (0, None)
    assert (
        "thing: goes on where it was; 1 files that were young when it ended are made again, 3 jobs"
        in site.said
    )
    assert kept == ["1", "2", "3", "2", "3"] and len(site.installed) == 1


def run_apart(site, wheel, tmp_path):
    """The builder as a process, until it waits inside the second object."""
    (tmp_path / "job.json").write_text(json.dumps(site.job(wheel)))
    program = (
        "import sys; sys.path[:0] = sys.argv[1:2]\n"
        "from ansible_collections.tandem.spark.plugins.module_utils import build_run, build_command, runtime\n"
        "build_run.LOOK_EVERY_S, runtime.read_fingerprint = 0.05, lambda path: {}\n"
        "import argparse, pathlib\n"
        "build_command.run(argparse.Namespace(job=pathlib.Path(sys.argv[2]), state=pathlib.Path(sys.argv[3])))\n"
    )
    collections = str(Path(__file__).parents[2] / "collections")
    words = [sys.executable, "-c", program, collections, str(tmp_path / "job.json"), str(site.state)]
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 30
    objects = site.work / "source/objects"
    while not (objects.exists() and "[2/3] waits" in build_run.tail(next(site.folder.glob("log/*.log")), 0)):
        assert time.monotonic() < until and running.poll() is None
        time.sleep(0.05)
    return running


@pytest.mark.parametrize("boots", [False, True])
def test_a_build_that_was_killed_goes_on_after_a_boot_too(site, tmp_path, boots):
    wheel = site.wheel(files={"waits-2": ""})
    builder = site.builder(wheel)
    site.work.mkdir()
    builder._environment(wheel, site.work)
    build_trees.settle(site.work, Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    running = run_apart(site, wheel, tmp_path)
    compiler = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_compiler(pid, site)]
    for pid in [running.pid, *compiler]:
        os.kill(pid, signal.SIGKILL)
    running.wait()
    assert json.loads((site.state / build_run.STATE).read_text())["state"] == "running"
    assert record(site) is None
    if not boots:  # the process above read the machine's own boot
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        (tmp_path / "root/proc/sys/kernel/random/boot_id").write_text(boot)
    (site.work / "source/waits-2").unlink()
    at = json.loads((site.work / build_trees.MARK).read_text())["at"]
    for path in site.work.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (at - 10, at - 10))
    (site.work / "source/half.o").write_text("x")
    os.utime(site.work / "source/objects/1", (at + 1, at + 1))
    os.utime(site.work / "source/half.o", (at + 50, at + 50))
    assert site.run(wheel) == (0, None)
    # After another boot nothing that is newer than the mark is believed: the disk may never have had it.
    count = 2 if boots else 1
    told = f"thing: goes on where it was; {count} files that were young when it ended are made again, 3 jobs"
    assert told in site.said


def is_compiler(pid: str, site) -> bool:
    try:
        return str(site.work).encode() in Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return False


def test_a_full_disk_ends_it_before_the_host_suffers(site, monkeypatch):
    wheel = site.wheel(files={"waits-2": ""})
    free = iter([10.0, 10.0, 1.9, 1.9, 1.9, 1.9])
    monkeypatch.setattr(Builder, "free_gib", lambda self: next(free))
    begun = time.monotonic()
    assert site.run(wheel, reserve_gib=2.0) == (1, "build.disk.low")
    assert time.monotonic() - begun < 20 and "1.90 GiB free, and 2.0 stay" in site.told["finding"]["summary"]
    assert any("[" not in line and "2 of 3 steps" in line for line in site.said) or site.said
    monkeypatch.setattr(Builder, "free_gib", lambda self: 10.0)
    (site.work / "source/waits-2").unlink()
    assert site.run(wheel, reserve_gib=2.0) == (0, None)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fatal error: error writing to /tmp/x.s: No space left on device", "build.disk.low"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "build.memory.killed"),
        ("error: expected ';' before '}' token", "build.wheel.failed"),
    ],
)
def test_what_compilers_say_is_understood(site, words, expected):
    assert site.run(site.wheel(files={"fails-1": words})) == (1, expected)


def test_the_kernels_count_of_killed_processes_is_believed(site, tmp_path):
    group = tmp_path / "root/sys/fs/cgroup/build"
    group.mkdir(parents=True)
    (tmp_path / "root/proc/self").mkdir(parents=True)
    (tmp_path / "root/proc/self/cgroup").write_text("0::/build\n")
    events = group / "memory.events"
    events.write_text("oom 0\noom_kill 2\n")
    builder = site.builder(site.wheel())
    assert builder._oom_kills() == 2
    events.write_text("cut off")
    assert builder._oom_kills() == 0


@pytest.mark.parametrize("name", ["other-1.0-py3-none-any.whl", "thing-1.1-py3-none-any.whl", "x.whl"])
def test_another_wheel_than_wanted_is_refused(site, name):
    assert site.run(site.wheel(files={"name": name})) == (1, "build.wheel.other")
    assert name in site.told["finding"]["summary"] and record(site) is None


def test_a_patch_that_does_not_fit_ends_it(site):
    change = {"name": "one.patch", "text": "--- a/setup.py\n+++ b/setup.py\n@@ -1 +1 @@\n-other\n+new\n"}
    assert site.run(site.wheel(patches=[change])) == (1, "build.wheel.failed")
    assert "one.patch: setup.py" in site.told["finding"]["evidence"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"csrc/x": "", "README.md": ""}, (1, "build.deepgemm.sm120")),
        ({"README.md": ""}, (1, "build.deepgemm.missing")),
        (
            {
                "csrc/apis/hyperconnection.hpp": "if (arch_major == 12) sm120_tf32_hc_prenorm_gemm(x);",
                "deep_gemm/include/deep_gemm/impls/sm120_tf32_hc_prenorm_gemm.cuh": "",
            },
            (0, None),
        ),
    ],
)
def test_the_wrong_deepgemm_is_refused_before_anything_is_compiled(site, files, expected):
    tree = {"variable": "DEEPGEMM", "archive": archive(site.folder / "sources", files), "folder": ""}
    assert site.run(site.wheel(trees=[tree], deepgemm="DEEPGEMM")) == expected
    assert (site.work / "source").exists() is False


def test_an_archive_that_is_cut_off_leaves_no_tree(site):
    wheel = site.wheel()
    path = site.folder / "sources" / wheel["archive"]
    path.write_bytes(path.read_bytes()[:50])
    assert site.run(wheel) == (1, "build.wheel.failed")
    assert "cannot be unpacked" in site.told["finding"]["evidence"]
    assert not (site.work / "source").exists() and not list(site.work.glob(".source*"))


def test_what_is_doubtful_after_a_power_cut(tmp_path):
    work = tmp_path / "work"
    (work / "b").mkdir(parents=True)
    now = time.time()
    ages = {"old.o": 1000, "b/later.o": 400, "b/young.o": 1, "b/.ninja_log": 0, "b/.ninja_deps": 0}
    for name, age in ages.items():
        (work / name).write_text("x")
        os.utime(work / name, (now - age, now - age))
    (work / build_trees.MARK).write_text(json.dumps({"boot_id": "first", "at": now - 500}))
    later, young = work / "b/later.o", work / "b/young.o"
    assert build_trees.doubtful(work, "first") == [young], "it may have been in the making"
    assert build_trees.doubtful(work, "second") == build_trees.doubtful(work, None) == [later, young]
    young.unlink()
    later.unlink()
    assert build_trees.doubtful(work, "first") == [], "what the disk has for certain stays in any case"
    young.touch()
    for text in ("", "{cut", "[]", '{"at": "x", "boot_id": 1}'):
        (work / build_trees.MARK).write_text(text)
        assert build_trees.doubtful(work, "first") is None
    assert "begins anew" in build_trees.mend(work, "first") and not work.exists()
    assert build_trees.mend(work, "first") is None


def test_a_record_counts_only_with_its_wheel(site, tmp_path):
    assert site.run(site.wheel()) == (0, None)
    place = site.folder / "wheels" / ("d" * 16)
    for text in ("", "[]", "{}", '{"file": "../x", "sha256": "0"}', '{"file": 1}'):
        kept = (place / build_store.RECORD).read_text()
        (place / build_store.RECORD).write_text(text)
        assert record(site) is None
        (place / build_store.RECORD).write_text(kept)
    assert record(site) is not None
    (place / WHEEL).write_bytes(b"other")
    assert record(site) is None


def test_old_wheels_and_half_done_work_may_go(site):
    for number, digest in enumerate("abcd"):
        wheel = site.folder / WHEEL
        wheel.write_text(digest)
        build_store.finish(site.folder, digest * 16, wheel, {})
        os.utime(site.folder / "wheels" / (digest * 16), (number, number))
    (site.folder / "work/left").mkdir()
    (site.folder / "wheels/broken").mkdir()
    going = build_store.superfluous(site.folder, {"thing": "a" * 16})
    names = {path.name for path in going}
    assert names == {"b" * 16, "c" * 16, "left", "broken"}, "the wanted one and the newest other stay"
    build_store.remove(going)
    assert build_store.superfluous(site.folder, {"thing": "a" * 16}) == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("[1/9] a\n[12/4567] b\n", "12 of 4567 steps"),
        ("building\n\n", "building"),
        ("", "no word yet"),
        ("x" * 300, "x" * 100),
    ],
)
def test_how_far_it_is(said, expected):
    assert how_far(said) == expected


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("Flash_Infer.Python-0.7.2.post1-py3-none-any.whl", ("flash-infer-python", "0.7.2.post1")),
        ("torch-2.14.0+cu132-cp312-cp312-linux_aarch64.whl", ("torch", "2.14.0+cu132")),
        ("a-1-2build-py3-none-any.whl", ("a", "1")),
        ("a-1.tar.gz", None),
        ("", None),
    ],
)
def test_the_name_of_a_wheel(file, expected):
    assert build_store.named(file) == expected
