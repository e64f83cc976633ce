# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a well-formed profile still gets wrong: engine, checkpoint, flags and driver that do not fit (controller only).

All of it can be known before anything is installed. Most of it vLLM itself takes without a word, or finds out of only
after minutes of loading.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

from ansible_collections.tandem.spark.plugins.module_utils import build_plan, ray_settings
from ansible_collections.tandem.spark.plugins.module_utils.container_image import DIGEST
from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, finding
from ansible_collections.tandem.spark.plugins.module_utils.toolchain import DRIVER_BRANCHES, OLDEST_BRANCHES
from ansible_collections.tandem.spark.plugins.plugin_utils.patches import PATCHES

try:
    from packaging.version import InvalidVersion, Version
except ImportError:
    pass  # ansible-core does not work without it

# Methods that draft from the text itself; every other one wants a draft in the checkpoint, or a `model` of its own.
WITHOUT_DRAFT = frozenset({"ngram", "ngram_gpu", "suffix"})
ALIASES = {"deepseek_mtp": "mtp"}
# What FlashInfer's decode of DeepSeek-V4 on SM120 takes, until which version: flashinfer.mla._sparse_mla_sm120.
# 192 and 256 came with flashinfer-ai/flashinfer#4380, merged 2026-08-08; since 0.7.0 it is no table any more.
_HEADS = (8, 16, 32, 64, 128)
FLASHINFER_TOP_K = (
    ("0.6.18.dev20260808", frozenset(product(_HEADS, (128, 512, 1024)))),
    ("0.7.0", frozenset(product(_HEADS, (128, 192, 256, 512, 1024)))),
)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kmgKMG]?)\Z")


def check(
    profile: Mapping, nodes: Mapping[str, Mapping | None], flags: Path, runnable: list[str]
) -> Iterator[Finding]:
    """Everything that is wrong with a profile that the schema takes.

    flags: the folder of the lists of what each release of vLLM knows. runnable: the profiles that can be had instead.
    """
    if why := profile.get("not_runnable"):
        names = ", ".join(runnable)
        yield finding("profile.not_runnable", name=profile["name"], reason=why, runnable=names)
    for each in (_ranks, _image, _speculation, _kv_cache, _context, _needed, _graphs):
        yield from each(profile)
    yield from _flags(profile, flags)
    yield from _toolkit(profile, nodes)
    yield from _driver(profile, nodes)
    yield from _one_python(profile, nodes)
    if not profile.get("not_runnable"):
        yield from _build(profile)


def _build(profile: Mapping) -> Iterator[Finding]:
    """A build that cannot be planned is told before anything of a node is touched."""
    if profile["runtime"]["kind"] == "source":
        trees = {path.parent.name for path in PATCHES.glob("*/series")}
        if found := build_plan.problems(profile["runtime"]["build"], trees):
            yield finding("build.plan.wrong", name=profile["name"], problems="; ".join(found))


def swa_index_width(window: int, k: int) -> int:
    """top_k of the sparse attention of a draft: vLLM's get_dspark_swa_index_width."""
    return -(-(max(window, 0) + max(k, 0)) // 64) * 64


def tokens(value: object) -> int | None:
    """A length as vLLM reads it (384k is 384000, 384K is 393216); None for auto, ValueError for no number."""
    if value in ("auto", -1, "-1"):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(value)
    size = _SIZE.match(str(value))
    if not size or ("." in size[1] and not size[2].islower()):
        raise ValueError(value)
    power = " kmg".index(size[2].lower() or " ")
    return int(float(size[1]) * (1000 if size[2].islower() else 1024) ** power)


def vllm_release(profile: Mapping) -> str:
    """The engine's version without what the build adds: 0.32.0+cpu is 0.32.0."""
    return str(profile["runtime"]["pins"].get("vllm", "of an unknown version")).partition("+")[0].strip()


def _flag(profile: Mapping, name: str) -> object:
    return profile["engine"]["flags"].get(name)


def _ranks(profile: Mapping) -> Iterator[Finding]:
    heads, ranks = profile["checkpoint"].get("attention_heads"), profile["tensor_parallel_size"]
    if heads and (ranks < 1 or heads % ranks):
        yield finding("profile.ranks.heads", heads=heads, ranks=ranks)
    backend, join = _flag(profile, "distributed-executor-backend"), profile.get("rendezvous")
    if join == "nnodes" and backend == "ray" and ranks > 1:
        yield finding("profile.ray.nnodes")
    if join == "ray" and backend != "ray":
        yield finding("profile.ray.backend", backend=backend or "not set")
    if join == "ray" and profile["runtime"]["kind"] == "container":
        yield finding("profile.ray.container")
    refresh = profile["engine"]["environment"].get(ray_settings.MEMORY_MONITOR, 0)
    if join == "ray" and str(refresh) != "0":
        yield finding("profile.ray.memory_monitor", found=refresh)


def _image(profile: Mapping) -> Iterator[Finding]:
    """An image is named by what is in it; a tag says what its owner wants it to say today."""
    image = profile["runtime"].get("image")
    if profile["runtime"]["kind"] != "container" or not image:
        return
    name, digest, begins = image["name"], image.get("digest"), image.get("digest_begins")
    if not digest:
        more = f". It begins with {begins}" if begins else ""
        yield finding("container.image.digest", name=name, begins=more)
    elif not DIGEST.match(digest) or (begins and not digest.startswith(begins)):
        wanted = begins or "sha256: and 64 digits"
        yield finding("container.image.digest_other", name=name, found=digest, wanted=wanted)


def _speculative(profile: Mapping) -> object:
    """speculative-config, also where it was written as JSON."""
    config = _flag(profile, "speculative-config")
    if isinstance(config, str):
        try:
            return json.loads(config)
        except ValueError:
            pass
    return config


def _speculation(profile: Mapping) -> Iterator[Finding]:
    config = _speculative(profile)
    if config is None:
        return
    if not isinstance(config, Mapping) or not isinstance(config.get("method"), str):
        yield finding("profile.speculation.unreadable", found=json.dumps(config, default=str))
        return
    yield from _method(profile["checkpoint"].get("draft"), config)
    yield from _k(profile, config)


def _method(draft: Mapping | None, config: Mapping) -> Iterator[Finding]:
    method = ALIASES.get(config["method"], config["method"])
    if config.get("model"):
        return
    if draft and method != ALIASES.get(draft["method"], draft["method"]):
        values = {"carried": f"a draft for {draft['method']}", "wanted": draft["method"]}
    elif not draft and method not in WITHOUT_DRAFT:
        values = {"carried": "no draft", "wanted": "ngram, which needs none"}
    else:
        return
    yield finding("profile.speculation.method", method=config["method"], **values)


def _k(profile: Mapping, config: Mapping) -> Iterator[Finding]:
    k, block = (
        config.get("num_speculative_tokens"),
        (profile["checkpoint"].get("draft") or {}).get("block_size"),
    )
    if k is None:
        if config["method"] != "suffix":
            wanted = f" to {block}, the block of its draft" if block else ""
            yield finding("profile.speculation.k_missing", wanted=wanted)
        return
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        yield finding("profile.speculation.k", k=k, wanted="a number above 0", value=block or "such a number")
        return
    if block:
        yield from _k_and_block(k, block, (profile.get("speculation") or {}).get("k_rule", "any"))
    yield from _top_k(profile, k)


def _k_and_block(k: int, block: int, rule: str) -> Iterator[Finding]:
    if rule == "equals_block" and k != block:
        wanted = f"exactly the {block} of the draft's block"
        yield finding("profile.speculation.k", k=k, wanted=wanted, value=block)
    elif rule == "at_least_block" and k < block:
        wanted = f"at least the {block} of the draft's block"
        yield finding("profile.speculation.k", k=k, wanted=wanted, value=block)
    elif k != block:
        yield finding("profile.speculation.k_unusual", k=k, block=block)


def decode_shape(profile: Mapping) -> dict[str, int] | None:
    """{heads, top_k} of the sparse decode that a profile's draft needs on a GB10; None where it needs none."""
    checkpoint, config = profile["checkpoint"], _speculative(profile)
    window, heads = checkpoint.get("sliding_window"), checkpoint.get("attention_heads")
    k = config.get("num_speculative_tokens") if isinstance(config, Mapping) else None
    if (
        profile["accelerator"] != "gb10"
        or not window
        or not heads
        or isinstance(k, bool)
        or not isinstance(k, int)
    ):
        return None
    ranks = max(1, profile["tensor_parallel_size"])
    return {"heads": heads // ranks, "top_k": swa_index_width(window, k)}


def _top_k(profile: Mapping, k: int) -> Iterator[Finding]:
    """The FlashInfer that will be installed is the pinned one: its table is looked up before a gigabyte is fetched.

    What was installed is asked by the role runtime.
    """
    pinned, wanted = profile["runtime"]["pins"].get("flashinfer-python"), decode_shape(profile)
    if not pinned or not wanted:
        return
    try:
        version = Version(str(pinned))
    except InvalidVersion:
        return
    shape = wanted["heads"], wanted["top_k"]
    for below, shapes in FLASHINFER_TOP_K:
        if version < Version(below):
            if shape not in shapes:
                values = {
                    "heads": shape[0],
                    "top_k": shape[1],
                    "k": k,
                    "window": profile["checkpoint"]["sliding_window"],
                }
                yield finding("profile.speculation.top_k", version=pinned, **values)
            return


def _kv_cache(profile: Mapping) -> Iterator[Finding]:
    found, wanted = _flag(profile, "kv-cache-dtype"), profile["checkpoint"].get("kv_cache_dtypes")
    if found is not None and wanted and found not in wanted:
        yield finding("profile.kv_cache.dtype", found=found, wanted=", ".join(wanted))


def _context(profile: Mapping) -> Iterator[Finding]:
    found, context = _flag(profile, "max-model-len"), profile["checkpoint"].get("context")
    if found is None:
        return
    try:
        length = tokens(found)
    except ValueError:
        yield finding("profile.context.unreadable", found=json.dumps(found, default=str))
        return
    if context and length is not None and length > context:
        yield finding("profile.context.too_long", found=found, context=context)


def _needed(profile: Mapping) -> Iterator[Finding]:
    for name, wanted in (profile["checkpoint"].get("needs_flags") or {}).items():
        found = _flag(profile, name)
        if found != wanted:
            shown = "not set" if found is None else found
            yield finding("profile.flag.needed", name=name, found=shown, wanted=wanted)


def _graphs(profile: Mapping) -> Iterator[Finding]:
    limits, sequences = profile.get("limits") or {}, _flag(profile, "max-num-seqs")
    limit, compilation = limits.get("graph_sequences"), _flag(profile, "compilation-config")
    mode = compilation.get("cudagraph_mode") if isinstance(compilation, Mapping) else None
    if not limit or not isinstance(sequences, int) or _flag(profile, "enforce-eager") or mode == "NONE":
        return
    if sequences > limit:
        yield finding("profile.graphs.sequences", found=sequences, limit=limit, source=limits["source"])


def read_flags(text: str) -> dict[str, str]:
    """A list of flags -> {name: value, either, on (a switch that cannot be switched off) or switch}."""
    return dict(line.split() for line in text.splitlines() if line and not line.startswith("#"))


def _flags(profile: Mapping, folder: Path) -> Iterator[Finding]:
    release = vllm_release(profile)
    file = folder / f"vllm-{release}.txt"
    if "/" in release or not file.is_file():
        if not profile.get("not_runnable"):
            yield finding("profile.flag.unchecked", release=release, name=profile["name"])
        return
    known = read_flags(file.read_text(encoding="utf-8"))
    for name, value in profile["engine"]["flags"].items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f", or did you mean {near[0]}?" if near else ""
            yield finding("profile.flag.unknown", release=release, name=name, hint=hint)
        elif wrong := _kind(known[name], value):
            takes, remedy = wrong
            shown = json.dumps(value, default=str)
            yield finding(
                "profile.flag.kind", release=release, name=name, takes=takes, found=shown, remedy=remedy
            )


def _kind(kind: str, value: object) -> tuple[str, str] | None:
    """What a flag takes and what to do, where the value is of another kind."""
    if kind == "value" and isinstance(value, bool):
        return "wants a value", "Give it one, or remove it from engine.flags"
    if kind in ("on", "switch") and not isinstance(value, bool):
        return "is a switch", "Set it to true, or false where it shall be off"
    if kind == "on" and value is False:
        return "can only be switched on", "Remove it from engine.flags: it is off then"
    return None


def _driver(profile: Mapping, nodes: Mapping[str, Mapping | None]) -> Iterator[Finding]:
    wanted = (profile.get("driver") or {}).get("required")
    for host, node in nodes.items():
        found = ((node or {}).get("gpu") or {}).get("driver")
        if wanted and found and found not in wanted:  # that it is unknown is said by others
            values = {"name": profile["name"], "wanted": " or ".join(wanted), "version": wanted[0]}
            yield finding("profile.driver.required", [host], found=found, **values)


def _one_python(profile: Mapping, nodes: Mapping[str, Mapping | None]) -> Iterator[Finding]:
    """Ray compares the whole version of every process that joins, and an environment has that of its node."""
    found = {host: node["python"]["version"] for host, node in nodes.items() if node and node.get("python")}
    if profile.get("rendezvous") == "ray" and len(set(found.values())) > 1:
        told = ", ".join(f"{host}: {version}" for host, version in found.items())
        yield finding("profile.ray.python", list(found), found=told)


def _toolkit(profile: Mapping, nodes: Mapping[str, Mapping | None]) -> Iterator[Finding]:
    toolkit = profile["runtime"].get("cuda_toolkit")
    if not toolkit:
        return
    major = toolkit.partition(".")[0]
    oldest, own = OLDEST_BRANCHES.get(major), DRIVER_BRANCHES.get(toolkit)
    for host, node in nodes.items():
        driver = ((node or {}).get("gpu") or {}).get("driver")
        branch = re.match(r"\d+", str(driver or ""))
        if not branch:
            continue  # that there is none, or that it is unknown, is said by others
        values = {"driver": driver, "toolkit": toolkit, "name": profile["name"]}
        if oldest and int(branch[0]) < oldest:
            yield finding("profile.toolkit.driver", [host], **values, major=major, wanted=oldest)
        elif own and int(branch[0]) < own:
            yield finding("profile.toolkit.newer", [host], **values, wanted=own)
