# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image is pulled once, laid over once, and comes to the other rank as the same image; what goes wrong is named."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import commands, container_image, container_steps
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_manifest import MANIFEST, load
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError

PRETEND = Path(__file__).with_name("pretend_docker.py")
DIGEST = "5" * 64
NAME = "registry.example.com/engine"
REFERENCE = f"{NAME}@sha256:{DIGEST}"
SOURCE = "def bound(m, k):\n    return k\n\n\ndef other():\n    pass\n"
PATCH = """Description: a bound
Origin: ours

--- a/vllm/moe.py
+++ b/vllm/moe.py
@@ -1,2 +1,2 @@
 def bound(m, k):
-    return k
+    return min(m, k)
"""


class Node:
    """A node with a docker of its own."""

    def __init__(self, folder: Path, monkeypatch):
        self.folder, self._monkeypatch = folder, monkeypatch
        for name in ("images", "made", "registry"):
            (folder / name).mkdir(parents=True)
        self.said: list[str] = []

    def __enter__(self):
        self._monkeypatch.setenv("PRETEND_DOCKER", str(self.folder))
        return self

    def __exit__(self, *_error):
        pass

    def offer(self, architecture="arm64", starts=None, **files: str) -> None:
        place = self.folder / "registry" / DIGEST
        for path, text in {"usr/bin/vllm": "#!", **files}.items():
            (place / "files" / path).parent.mkdir(parents=True, exist_ok=True)
            (place / "files" / path).write_text(text)
        told = {
            "architecture": architecture,
            "env": ["GLOO_SOCKET_IFNAME=enP7s7"],
            "starts": starts or {},
        }
        (place / "image.json").write_text(json.dumps(told))

    def commands(self, word: str) -> list[list[str]]:
        lines = (self.folder / "said.jsonl").read_text().splitlines()
        return [each for each in map(json.loads, lines) if each[0] == word]


@pytest.fixture
def nodes(tmp_path, monkeypatch):
    """Two of them."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "docker").write_text(f'#!/bin/sh\nexec {sys.executable} {PRETEND} "$@"\n')
    (programs / "docker").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setattr(commands, "PATH", path)
    return Node(tmp_path / "a", monkeypatch), Node(tmp_path / "b", monkeypatch)


def pulled(node: Node):
    container_steps.pull("docker", REFERENCE, node.said.append, 60)
    return container_steps.inspect("docker", REFERENCE)


def test_an_image_goes_from_one_rank_to_the_other(nodes, tmp_path, monkeypatch):
    """In pieces with their hashes, and what is loaded is the same by its id, though no registry's digest is left."""
    monkeypatch.setattr(container_steps, "PIECE_BYTES", 3000)
    monkeypatch.setattr(container_steps, "BLOCK_BYTES", 1000)
    giver, taker = nodes
    pieces = tmp_path / "pieces"
    with giver:
        giver.offer(**{"lib/a": "x" * 5000})
        image = pulled(giver)
        made = container_steps.save("docker", image, pieces, giver.said.append)
    assert made.revision == image.id and len(made.files) > 2
    assert load(pieces / MANIFEST) == made
    sizes = [(pieces / name).stat().st_size for name in sorted(made.files)]
    assert set(sizes[:-1]) == {3000} and sizes == [made.files[name].size for name in sorted(made.files)]
    with giver:  # a run that was cut off behind this writes nothing twice
        container_steps.save("docker", image, pieces, giver.said.append)
        assert len(giver.commands("save")) == 1
    with taker:
        assert container_steps.inspect("docker", REFERENCE) is None
        loaded = container_steps.load_pieces("docker", pieces, image.id, "spark-a", taker.said.append)
    assert loaded.id == image.id and loaded.fingerprint() == image.fingerprint()
    assert container_steps.drop(pieces) and not pieces.exists() and not container_steps.drop(pieces)


def test_pieces_of_another_image_are_written_anew(nodes, tmp_path):
    giver, _taker = nodes
    with giver:
        giver.offer()
        image = pulled(giver)
        container_steps.save("docker", image, tmp_path / "pieces", giver.said.append)
        (tmp_path / "pieces/image.0000").write_text("cut off")
        container_steps.save("docker", image, tmp_path / "pieces", giver.said.append)
        assert len(giver.commands("save")) == 2


def test_an_image_that_arrives_as_another_one_is_named(nodes, tmp_path, monkeypatch):
    giver, taker = nodes
    with giver:
        giver.offer()
        image = pulled(giver)
        container_steps.save("docker", image, tmp_path / "pieces", giver.said.append)
    monkeypatch.setenv("PRETEND_OTHER_ID", "0" * 64)
    with taker, pytest.raises(FindingError) as error:
        container_steps.load_pieces("docker", tmp_path / "pieces", image.id, "spark-a", taker.said.append)
    assert error.value.finding.id == "container.image.lost" and "containerd-snapshotter" in str(error.value)


def test_a_save_that_fails_leaves_no_list(nodes, tmp_path):
    giver, _taker = nodes
    with giver:
        giver.offer()
        image = pulled(giver)
        shutil.rmtree(giver.folder / "images")
        (giver.folder / "images").mkdir()
        with pytest.raises(OSError, match="No such image"):
            container_steps.save("docker", image, tmp_path / "pieces", giver.said.append)
    assert not (tmp_path / "pieces" / MANIFEST).exists()


def test_what_a_pull_says_last_is_told(nodes):
    with nodes[0] as node, pytest.raises(FindingError) as error:
        container_steps.pull("docker", REFERENCE, node.said.append, 60)
    assert error.value.finding.id == "container.image.pull" and "not found" in error.value.finding.summary


def test_a_pull_that_takes_too_long_is_ended(nodes, tmp_path):
    (tmp_path / "bin/docker").write_text("#!/bin/sh\nexec sleep 30\n")
    with nodes[0] as node, pytest.raises(FindingError, match="not through after 0 s"):
        container_steps.pull("docker", REFERENCE, node.said.append, 0.2)


def test_the_registry_is_asked_before_anything_is_pulled(nodes):
    with nodes[0] as node:
        node.offer("amd64")
        told = container_steps.remote("docker", REFERENCE, "arm64")
        assert told == container_image.Remote(("amd64",)) and not node.commands("pull")
        assert container_steps.remote("docker", f"{NAME}@sha256:{'6' * 64}", "arm64") is None


def overlay(**more):
    files = [{"name": "bound.patch", "text": PATCH}]
    return {"patches": [{"tree": "vllm", "files": files}], "host": "spark-a", **more}


def laid(node, image, wanted):
    return container_steps.lay_over("docker", image, NAME, wanted, "python3", node.said.append)


def test_patches_and_a_tree_are_laid_over_an_image(nodes, tmp_path):
    tree = tmp_path / "DeepGEMM"
    (tree / "deep_gemm").mkdir(parents=True)
    (tree / "deep_gemm/__init__.py").write_text("sm120 = True\n")
    with nodes[0] as node:
        node.offer(**{"site/vllm/__init__.py": "", "site/vllm/moe.py": SOURCE, "mnt/x": ""})
        image = pulled(node)
        trees = [{"what": "DeepGEMM", "from": str(tree), "to": "/mnt/deep_gemm"}]
        made, outcomes = laid(node, image, overlay(trees=trees))
        files = node.folder / "images" / made.removeprefix("sha256:") / "files"
        assert made != image.id and outcomes == [{"name": "bound.patch", "outcome": "applied", "why": []}]
        assert "min(m, k)" in (files / "site/vllm/moe.py").read_text()
        assert (files / "mnt/deep_gemm/deep_gemm/__init__.py").read_text() == "sm120 = True\n"
        # Nothing of it was run, and the container that it was made by is gone.
        (create,) = node.commands("create")
        assert "--entrypoint=/tandem-is-never-run" in create and not list((node.folder / "made").iterdir())
        # Where it is applied already nothing is made.
        again, outcomes = laid(node, container_steps.inspect("docker", made), overlay())
        assert again == made and outcomes[0]["outcome"] == "already applied"


@pytest.mark.parametrize(
    ("starts", "changes"),
    [
        ({}, ["ENTRYPOINT []"]),
        ({"Entrypoint": None, "Cmd": ["bash"]}, ["ENTRYPOINT []", 'CMD ["bash"]']),
        ({"Entrypoint": ["/start", "it's"]}, ['ENTRYPOINT ["/start", "it\'s"]']),
        ({"Entrypoint": "/start"}, ['ENTRYPOINT ["/start"]']),
    ],
)
def test_an_image_with_its_overlay_starts_what_it_started_before(nodes, starts, changes):
    with nodes[0] as node:
        node.offer(starts=starts, **{"site/vllm/__init__.py": "", "site/vllm/moe.py": SOURCE})
        laid(node, pulled(node), overlay())
        ((_commit, *words, _made),) = node.commands("commit")
        assert words[0::2] == ["--change"] * (len(changes) + 1)
        assert words[1].startswith("LABEL tandem.overlay=") and words[3::2] == changes


def test_a_patch_that_does_not_fit_stops_before_anything_is_kept(nodes):
    with nodes[0] as node:
        node.offer(**{"site/vllm/__init__.py": "", "site/vllm/moe.py": "something else\n"})
        image = pulled(node)
        with pytest.raises(FindingError) as error:
            laid(node, image, overlay())
        assert error.value.finding.id == "container.overlay.patch" and "moe.py, hunk 1" in str(error.value)
        assert not node.commands("commit") and not list((node.folder / "made").iterdir())


def test_an_image_without_the_package_is_named(nodes):
    with nodes[0] as node:
        node.offer()
        with pytest.raises(FindingError, match="knows no package vllm"):
            laid(node, pulled(node), overlay())


@pytest.mark.parametrize(
    ("revision", "head", "why"),
    [
        (None, None, None),
        ("a6b593d", "a6b593d" + "0" * 33, None),
        ("a6b593d", "e21c821" + "0" * 33, "it is at e21c821"),
        ("a6b593d", None, "it is at no commit of git"),
    ],
)
@pytest.mark.parametrize("where", ["loose", "packed", "detached"])
def test_a_tree_is_held_to_its_commit(tmp_path, revision, head, why, where):
    if head:
        (tmp_path / ".git/refs/heads").mkdir(parents=True)
        (tmp_path / ".git/HEAD").write_text(
            f"{head}\n" if where == "detached" else "ref: refs/heads/nv_dev\n"
        )
        if where == "loose":
            (tmp_path / ".git/refs/heads/nv_dev").write_text(f"{head}\n")
        (tmp_path / ".git/packed-refs").write_text(f"# pack-refs\n{head} refs/heads/nv_dev\n")
    wanted = {"what": "DeepGEMM", "from": str(tmp_path), "to": "/mnt", "revision": revision}
    if why is None:
        container_steps.check_tree(wanted, "spark-a")
        return
    with pytest.raises(FindingError, match=why):
        container_steps.check_tree(wanted, "spark-a")


def test_a_tree_that_is_not_there(tmp_path):
    with pytest.raises(FindingError, match="on spark-a, and there is no such folder"):
        container_steps.check_tree({"what": "X", "from": str(tmp_path / "x"), "to": "/mnt"}, "spark-a")


def test_what_is_in_an_image_is_asked_once_and_kept(nodes, tmp_path):
    with nodes[0] as node:
        node.offer()
        image = pulled(node)
        found = container_steps.probed("docker", image, NAME, "vllm", "python3")
        assert found["command"] == "/usr/bin/vllm" and found["packages"] == {"vllm": "0.26.0"}
        (run,) = node.commands("run")
        assert "--network=none" in run and "--pull=never" in run
        for command, python, why in (
            ("sglang", "python3", "no program sglang"),
            ("vllm", "/x/py", "no such file"),
        ):
            with pytest.raises(FindingError) as error:
                container_steps.probed("docker", image, NAME, command, python)
            assert error.value.finding.id == "container.image.probe" and why in str(error.value)


def test_a_folder_stands_for_an_image(tmp_path):
    folder = tmp_path / "0123456789ab"
    container_steps.stand_for(folder, {"image": "sha256:1", "fingerprint": "f"}, ["/srv/models"])
    assert container_image.read_record(folder)["image"] == "sha256:1"
    program = folder / "bin/python"
    assert os.access(program, os.X_OK)
    assert program.read_text().endswith(
        f"exec /opt/tandem/bin/tandem container --python {folder} --mount '/srv/models' -- \"$@\"\n"
    )


def test_a_disk_without_room_is_named(tmp_path, monkeypatch):
    usage = shutil._ntuple_diskusage(100 << 30, 90 << 30, 10 << 30)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    container_steps.check_space(tmp_path / "not/yet", 8 << 30)
    container_steps.check_space(tmp_path, None)
    with pytest.raises(FindingError, match="10.0 GiB free, the image wants 21.0 GiB"):
        container_steps.check_space(tmp_path, 20 << 30)
