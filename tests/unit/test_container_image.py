# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image is, before and after it is pulled, and by what two of them are the same."""

from __future__ import annotations

import json

import pytest
from ansible_collections.tandem.spark.plugins.filter.container import image_steps
from ansible_collections.tandem.spark.plugins.module_utils import container_image
from ansible_collections.tandem.spark.plugins.module_utils.container_image import (
    Remote,
    judge,
    key,
    read_inspect,
    read_probe,
    read_remote,
)

ID = "sha256:" + "1f" * 32


def inspected(**more) -> str:
    config = {
        "Env": ["PATH=/usr/bin", "GLOO_SOCKET_IFNAME=enP7s7"],
        "Entrypoint": ["x"],
        "Labels": {"a": "b"},
    }
    told = {
        "Id": ID,
        "Architecture": "arm64",
        "Created": "2026-08-01T00:00:00Z",
        "Size": 19_000_000_000,
        "Config": {**config, **more.pop("config", {})},
        "RootFS": {"Type": "layers", "Layers": ["sha256:aa", "sha256:bb"]},
    }
    return json.dumps([{**told, **more}])


def test_an_image_of_docker():
    image = read_inspect(inspected())
    assert (image.id, image.architecture, image.size) == (ID, "arm64", 19_000_000_000)
    assert image.layers == ("sha256:aa", "sha256:bb") and image.labels == {"a": "b"}
    assert image.variables == {"PATH": "/usr/bin", "GLOO_SOCKET_IFNAME": "enP7s7"}


def test_podman_leaves_a_prefix_out():
    assert read_inspect(inspected(Id="1f" * 32)).id == ID


@pytest.mark.parametrize("text", ["", "[]", "{}", "[{}]", "[1]", '[{"Id": 3}]', "Error: no such image"])
def test_what_is_no_image(text):
    assert read_inspect(text) is None


def test_two_are_the_same_by_what_is_in_them():
    """Where an image is kept and when it was made is nothing of it; what it runs by is."""
    first = read_inspect(inspected())
    assert (
        read_inspect(inspected(Id="sha256:other", Created="x", Size=1)).fingerprint() == first.fingerprint()
    )
    others = [
        inspected(RootFS={"Layers": ["sha256:aa"]}),
        inspected(config={"Env": ["PATH=/opt"]}),
        inspected(config={"Entrypoint": None}),
        inspected(Architecture="amd64"),
    ]
    prints = {read_inspect(text).fingerprint() for text in others} | {
        first.fingerprint(),
        first.fingerprint("root"),
    }
    assert len(prints) == 6 and all(len(each) == 64 for each in prints)


CONFIG = {"architecture": "arm64", "config": {"Env": ["CUDA_DRIVER_VERSION=590.48.01"]}}


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (CONFIG, Remote(("arm64",), ("CUDA_DRIVER_VERSION=590.48.01",))),
        (
            {"linux/arm64": CONFIG, "linux/amd64": {}},
            Remote(("arm64", "amd64"), ("CUDA_DRIVER_VERSION=590.48.01",)),
        ),
        ({"linux/amd64": {"architecture": "amd64"}}, Remote(("amd64",))),
        ({"Ref": "x", "Descriptor": {"platform": {"architecture": "arm64"}}}, Remote(("arm64",))),
        (
            [
                {"Descriptor": {"platform": {"architecture": "amd64"}}},
                {"Descriptor": {"platform": {"architecture": "unknown"}}},
            ],
            Remote(("amd64",)),
        ),
        ([], None),
        ({}, None),
        (3, None),
    ],
)
def test_what_a_registry_says(told, found):
    assert read_remote(json.dumps(told), "arm64") == found


def test_what_is_no_answer_of_a_registry():
    assert read_remote("no such manifest", "arm64") is None


@pytest.mark.parametrize(
    ("architectures", "environment", "driver", "expected"),
    [
        (["arm64"], [], "580.142", []),
        (["amd64", "arm64"], [], None, []),
        ([], [], "580.142", []),
        (["amd64"], [], "580.142", ["container.image.arch"]),
        # Built for 590.48, found 580.159.03: it says "compatibility mode is UNAVAILABLE" after gigabytes.
        (["arm64"], ["CUDA_DRIVER_VERSION=590.48.01"], "580.159.03", ["container.image.driver"]),
        (["arm64"], ["CUDA_DRIVER_VERSION=580.95.05"], "580.142", []),
        (["arm64"], ["CUDA_DRIVER_VERSION=580.159.03"], "580.142", []),
        (["arm64"], ["CUDA_DRIVER_VERSION=590.48.01"], None, []),
        (["arm64"], ["CUDA_DRIVER_VERSION="], "580.142", []),
    ],
)
def test_is_it_for_this_machine(architectures, environment, driver, expected):
    assert [note.id for note in judge("x:1", architectures, environment, "aarch64", driver)] == expected


def test_a_folder_stands_for_the_image_with_all_that_is_laid_over_it():
    base = ("x@sha256:0", {}, "vllm", "python3", False)
    assert key(*base) == key("x@sha256:0", None, "vllm", "python3", False) and len(key(*base)) == 12
    changed = [
        ("x@sha256:1", {}, "vllm", "python3", False),
        ("x@sha256:0", {"trees": [{"to": "/mnt"}]}, "vllm", "python3", False),
        ("x@sha256:0", {}, "/opt/vllm", "python3", False),
        ("x@sha256:0", {}, "vllm", "/opt/python", False),
        ("x@sha256:0", {}, "vllm", "python3", True),
    ]
    assert len({key(*each) for each in [base, *changed]}) == 6


def test_a_record_that_was_cut_off_counts_for_nothing(tmp_path):
    assert container_image.read_record(tmp_path) is None
    for text in ("{", "[]", '{"image": "sha256:1"}', '{"fingerprint": "1"}'):
        (tmp_path / container_image.RECORD).write_text(text)
        assert container_image.read_record(tmp_path) is None
    (tmp_path / container_image.RECORD).write_text('{"image": "sha256:1", "fingerprint": "1"}')
    assert container_image.read_record(tmp_path)["image"] == "sha256:1"


def test_what_is_in_an_image():
    import subprocess
    import sys

    said = subprocess.run([sys.executable, "-c", container_image.PROBE, "sh"], capture_output=True, text=True)
    told = read_probe("NOTICE of an image\n" + said.stdout)
    assert told["command"].endswith("/sh") and told["packages"]["pytest"]
    assert read_probe("TANDEM {") is None and read_probe("TANDEM []") is None and read_probe("") is None


READY = {"installed": True, "present": True, "image": "sha256:1"}
PULLED = {"installed": False, "present": True, "image": "sha256:1"}
NONE = {"installed": False, "present": False, "image": None}
OTHER = {**READY, "image": "sha256:2"}


@pytest.mark.parametrize(
    ("head", "worker", "steps"),
    [
        (READY, READY, (None, False, [])),
        (NONE, NONE, ("a", True, ["b"])),
        (READY, NONE, ("a", False, ["b"])),
        (NONE, READY, ("b", False, ["a"])),
        (NONE, PULLED, ("b", True, ["a"])),
        # Made ready twice, as an overlay must never be: the head's counts.
        (READY, OTHER, ("a", False, ["b"])),
        (PULLED, OTHER, ("b", False, ["a"])),
    ],
)
def test_who_gives_the_image_to_whom(head, worker, steps):
    found = image_steps({"a": head, "b": worker})
    assert (found["giver"], found["pulls"], found["takers"]) == steps
