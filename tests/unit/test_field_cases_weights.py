# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the field met with weights and the engine's configuration, case by case, on inputs of our own.

The cases of theme H, and those of theme G that are about what an engine is given. Details have tables of their own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pretend_checkpoint as pretend
import pytest
import yaml
from ansible_collections.tandem.spark.plugins.filter.checkpoint import checkpoint_steps
from ansible_collections.tandem.spark.plugins.filter.runtime import engine_differences
from ansible_collections.tandem.spark.plugins.module_utils import (
    checkpoint,
    checkpoint_look,
    engine_config,
    engine_log,
    ray_settings,
    runtime,
)
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_bring import Wish, bring
from ansible_collections.tandem.spark.plugins.plugin_utils import planning, profile, profile_checks
from test_checkpoint_bring import REPOSITORY, REVISION, cache, same

ROOT = Path(__file__).parents[2]
SCHEMA = yaml.safe_load((planning.PROFILE_FILES / "profile_schema.yml").read_text())
DSPARK = {"draft": {"method": "dspark", "block_size": 5}}


def loaded(name="v4-flash-next", **overrides):
    return profile.load(name, planning.PROFILES, overrides, SCHEMA)


def faults(name="v4-flash-next", **overrides):
    found = profile_checks.check(loaded(name, **overrides), {}, planning.PROFILE_FILES / "flags", [])
    return [each.id for each in found if each.severity != "info"]


def flags(**values):
    return {"engine": {"flags": {name.replace("_", "-"): value for name, value in values.items()}}}


def fatal(*lines):
    found = engine_log.read_log(lines).fatal
    return found and found.finding().id


# -- weights ---------------------------------------------------------------------------------------------------------
def case_115(tmp_path):
    """A cache with every blob and no refs/main: the engine finds nothing by name; its snapshot is taken over."""
    assert (
        fatal("LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder")
        == "engine.checkpoint.missing"
    )
    good = pretend.write(tmp_path / "good", pretend.tensors())
    home = cache(tmp_path / "hub", good)
    with pytest.raises(checkpoint.CheckpointError, match="missing refs/main does not matter"):
        checkpoint.read(home)
    bring(Wish(tmp_path / "m", source=tmp_path / "hub", repository=REPOSITORY, revision=REVISION), [].append)
    assert same(tmp_path / "m", good) and checkpoint.read(tmp_path / "m").bad == []


def case_117(tmp_path):
    """Files that a container's root left behind: who owns what the engine cannot read is said; locks do not matter."""
    folder = pretend.write(tmp_path / "m", pretend.tensors())
    (folder / "builder.lock").write_text("")
    (folder / "builder.lock").chmod(0)
    found = list(checkpoint_look.reader_findings(folder, "nobody"))
    (note,) = [each for each in found if each.id == "checkpoint.reader.shut"]
    assert re.search(r"belongs to \d+:\d+ with mode 0", note.evidence) and "chmod" in note.remedy


def case_119():
    """A worker without weights: both ranks are looked at before a start, and the one that lacks them takes them."""
    there = {"ok": True, "revision": "r", "sha256": {}, "listed": None}
    gone = {"ok": False, "revision": "", "sha256": {}, "listed": None}
    steps = checkpoint_steps({"spark-a": there, "spark-b": gone}, "", None, "headers", "")
    assert steps == {"giver": "spark-a", "source": "", "takers": ["spark-b"]}
    # With the hub allowed it is still copied, and xet, where the follower hung, is never used.
    assert checkpoint_steps({"spark-a": there, "spark-b": gone}, "hub", None, "headers", "") == steps
    assert '"HF_HUB_DISABLE_XET": "1"' in (ROOT / "plugins/module_utils/checkpoint_hub.py").read_text()


def case_120(tmp_path):
    """config.json says fp8, the experts are I8 with a scale for 32 values: MXFP4; the shared ones are FP8."""
    settings = pretend.config(quantization_config={"quant_method": "fp8"})
    found = checkpoint.read(pretend.write(tmp_path / "m", pretend.tensors(), settings=settings))
    assert found.experts == "mxfp4" and found.dtypes["F8_E4M3"] > 0
    other = checkpoint.read(pretend.write(tmp_path / "i", pretend.tensors(stored="int8")))
    assert other.experts == "int8", "I8 alone is not four bits"


def case_121(tmp_path):
    """46 ratios for 43 layers, and one predicted layer where three are: mtp.* are counted in the headers."""
    settings = pretend.config(compress_ratios=[0] * 5, num_nextn_predict_layers=1)
    found = checkpoint.read(pretend.write(tmp_path / "m", pretend.tensors(draft=3), settings=settings))
    assert (found.draft.layers, found.draft.method) == (3, "dspark") and found.notes == ()


def case_123(tmp_path):
    """The preview and 0731 are told apart by their headers, and the draft of the profile must be the checkpoint's."""
    preview = pretend.config(dspark_block_size=None, dspark_target_layer_ids=None)
    found = checkpoint.read(
        pretend.write(tmp_path / "m", pretend.tensors(draft=1, markov=False), settings=preview)
    )
    assert (found.draft.method, found.draft.block_size) == ("mtp", None)
    assert [each.id for each in checkpoint.kind_findings(found, DSPARK)] == ["checkpoint.draft.differs"]
    assert list(checkpoint.kind_findings(found, {"draft": {"method": "mtp"}})) == []
    assert "profile.speculation.method" in faults(
        **flags(speculative_config={"method": "mtp", "num_speculative_tokens": 2})
    )


def case_124(tmp_path):
    """A draft without its experts, or stored in another way: a warning, and the proof's floor of acceptance decides."""
    without = {
        name: kind
        for name, kind in pretend.tensors().items()
        if not re.match(r"mtp\.\d+\.ffn\.experts", name)
    }
    found = checkpoint.read(pretend.write(tmp_path / "a", without))
    assert [each.id for each in found.notes] == ["checkpoint.draft.incomplete"]
    requantised = checkpoint.read(pretend.write(tmp_path / "b", pretend.tensors(draft_stored="bf16")))
    assert [each.id for each in requantised.notes] == ["checkpoint.draft.requantised"]
    assert loaded()["proof"]["draft"]["min_acceptance"] > 0.26


# -- what an engine is given -----------------------------------------------------------------------------------------
def case_099():
    """JSON through a shell loses its quotes: what is rendered is a file, read back as it was written."""
    wanted = {"cudagraph_mode": "FULL_AND_PIECEWISE", "text": 'it\'s "quoted" $HOME {x}'}
    text = engine_config.engine_yaml({"compilation-config": wanted}, "/srv/m", "m")
    assert yaml.safe_load(text)["compilation-config"] == wanted
    line = "vllm serve: error: argument --compilation-config/-cc: 1 validation error for CompilationConfig"
    assert fatal(line) == "engine.command_line"


def case_100():
    """An empty variable is not its default: refused in a profile, and told where the engine died of one."""
    for name, value in (("VLLM_NVFP4_GEMM_BACKEND", ""), ("MAX_JOBS", None), ("CUDA_LAUNCH_BLOCKING", "0")):
        (problem,) = engine_config.environment_problems({name: value})
        assert name in problem and "take it out" in problem
    with pytest.raises(profile.ProfileError, match="X is empty"):
        loaded(engine={"environment": {"X": ""}})
    for line in (
        "ValueError: Invalid value '' for VLLM_X",
        "ValueError: invalid literal for int() with base 10: ''",
    ):
        assert fatal(line) == "engine.environment.empty"


def case_101():
    """DeepGEMM without kernels for this GPU: the right repository and revision are pinned where it is built."""
    line = 'RuntimeError: csrc/jit.hpp:10 DG_HOST_UNREACHABLE("Unsupported architecture")'
    assert fatal(line) == "engine.deepgemm.arch"
    assert loaded("v4-flash")["runtime"]["pins"]["DeepGEMM"].startswith("vllm-project/DeepGEMM@08200307")
    assert "deepseek-ai/DeepGEMM a6b593d" in loaded("v4-flash-main-ray")["runtime"]["patches"][0]["what"]


@pytest.mark.parametrize(("k", "width"), [(0, 128), (1, 192), (5, 192), (64, 192), (65, 256)])
def test_the_width_of_case_102(k, width):
    assert profile_checks.swa_index_width(128, k) == width


def case_102():
    """Any k of 1 to 64 wants top_k 192: an older FlashInfer is refused before anything is installed."""
    pin = {"runtime": {"pins": {"flashinfer-python": "0.6.16.post3"}}}
    assert "profile.speculation.top_k" in faults(**pin)
    assert "profile.speculation.top_k" not in faults(**{"runtime": {"pins": {"flashinfer-python": "0.6.18"}}})
    line = "RuntimeError: X requires a FlashInfer DSV4 sparse MLA decode specialization for (num_q_heads=32"
    assert fatal(line) == "engine.flashinfer.top_k"


def case_103():
    """Triton's own ptxas is too old: the toolkit's is named."""
    log = engine_log.read_log(["ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'"])
    note = log.fatal.finding()
    assert note.id == "engine.ptxas.too_old" and "TRITON_PTXAS_PATH" in note.remedy and "12.9" in note.remedy


def case_104():
    """FlashInfer asks for another generation."""
    note = engine_log.read_log(
        ["RuntimeError: No supported CUDA architectures found for major versions [10]."]
    ).fatal.finding()
    assert note.id == "engine.flashinfer.arch" and "FLASHINFER_CUDA_ARCH_LIST=12.1a" in note.remedy


def case_105(tmp_path):
    """nvcc on one rank only: the unit's own path has it, each rank is asked, and two that differ are named."""
    unit = (ROOT / "roles/engine/templates/tandem-rank.service.j2").read_text()
    assert "CUDA_HOME | default('/usr/local/cuda') }}/bin:" in unit
    assert runtime.nvcc(str(tmp_path))["version"] is None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvcc").write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    (tmp_path / "bin/nvcc").chmod(0o755)
    there, gone = runtime.nvcc(str(tmp_path)), {"path": "/usr/local/cuda/bin/nvcc", "version": None}
    assert there["version"] == "13.0"
    ranks = {"spark-a": {"fingerprint": "1", "nvcc": there}, "spark-b": {"fingerprint": "1", "nvcc": gone}}
    assert engine_differences(ranks) == ["nvcc is 13.0 on spark-a and missing on spark-b"]


def case_107():
    """A context beyond the model's: refused before the start, with the figure."""
    for length in (1_572_864, "1536k", 1_048_577):
        assert "profile.context.too_long" in faults(**flags(max_model_len=length))
    for length in (1_048_576, 1_000_000, "1024K", "auto"):
        assert "profile.context.too_long" not in faults(**flags(max_model_len=length))
    line = "ValueError: User-specified max_model_len (1572864) is greater than the derived max_model_len"
    assert fatal(line) == "engine.max_model_len"


def case_108():
    """Only the rank, headless, host and port may differ: everything else is one file, the same bytes for every rank."""
    head, worker = (engine_config.rank_arguments(rank, 2, "0.0.0.0", 8888) for rank in (0, 1))
    words = {word for word in (*head, *worker) if word.startswith("--")}
    assert words == {
        "--nnodes",
        "--node-rank",
        "--master-addr",
        "--master-port",
        "--host",
        "--port",
        "--middleware",
        "--headless",
    }
    given = {"max-num-seqs": 2, "block-size": 256}
    text = engine_config.engine_yaml(given, "/srv/m", "m")
    assert text == engine_config.engine_yaml(dict(reversed(given.items())), "/srv/m", "m")
    for name in ("node-rank", "host", "port", "headless"):
        assert engine_config.problems({name: 1}), name


def case_109():
    """A first start compiled for 36 minutes: nothing gives up before, and systemd sets no limit of its own."""
    for name in ("v4-flash-next", "v4-flash-1m"):
        engine = loaded(name)["engine"]
        assert min(engine["start_timeout_s"], engine["environment"]["VLLM_ENGINE_READY_TIMEOUT_S"]) > 36 * 60
    assert "TimeoutStartSec" not in (ROOT / "roles/engine/templates/tandem-rank.service.j2").read_text()


def case_113():
    """Ray of two versions, told by its own line; the ranks' packages are compared before a start."""
    assert fatal("RuntimeError: Version mismatch: The cluster was started with:") == "engine.ray.version"
    ranks = {
        host: {"fingerprint": host, "packages": {"ray": version}}
        for host, version in (("a", "2.43.0"), ("b", "2.44.1"))
    }
    assert engine_differences(ranks) == ["ray is 2.43.0 on a and 2.44.1 on b"]


def case_114():
    """Ray kills ranks over the page cache unless it is told not to."""
    assert "profile.ray.memory_monitor" not in faults("v4-flash-main-ray")
    on = {"engine": {"environment": {"RAY_memory_monitor_refresh_ms": 250}}}
    assert "profile.ray.memory_monitor" in faults("v4-flash-main-ray", **on)
    assert "profile.ray.memory_monitor" not in faults("v4-flash-next")
    given = engine_config.environment_file(ray_settings.environment("/opt/tandem/current"))
    assert 'RAY_memory_monitor_refresh_ms="0"' in given
    killed = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."
    assert fatal(killed) == "engine.ray.memory_monitor"


# -- the table -------------------------------------------------------------------------------------------------------
THEMES = {
    "weights": "115 117 119 120 121 123 124",
    "what an engine is given": "099 100 101 102 103 104 105 107 108 109 113 114",
}
CASES = {
    name.removeprefix("case_"): each for name, each in dict(globals()).items() if name.startswith("case_")
}


@pytest.mark.parametrize("number", CASES)
def test_a_case(number, tmp_path):
    case = CASES[number]
    case(*[tmp_path] * case.__code__.co_argcount)


def test_every_case_is_concluded():
    assert sorted(CASES) == sorted(" ".join(THEMES.values()).split())
    assert all(case.__doc__ for case in CASES.values())
