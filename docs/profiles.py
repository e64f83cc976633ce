# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write profiles.md beside this file from the profiles; `make profiles` calls it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "roles" / "profile" / "files" / "profiles"
PAGE = ROOT / "docs" / "profiles.md"
HEAD = """\
# Profiles

A profile is everything about an engine and a checkpoint that is not a machine: versions, flags, environment, warm-up,
proof, and whose figures it is held against. `tandem_profile` names one. `make profiles` writes this page from
`roles/profile/files/profiles`; what a source does not tell is not there, and is said.
"""
OWN = """\
## A change, or one of your own

`tandem_profile_overrides` is laid over the profile, map by map; `null` takes a key out. A run prints what changes.

```yaml
tandem_profile_overrides:
  engine:
    flags:
      max-model-len: 131072
```

A profile of your own is an entry of `tandem_profiles`, in a file such as `inventory/group_vars/tandem/profiles.yml`. It
is whole, or laid over the one that its `base` names, and is checked like those that ship: by
`roles/profile/files/profile_schema.yml`, and by what is known of its engine and checkpoint (the findings `profile.*`).

```yaml
tandem_profile: ours
tandem_profiles:
  ours:
    base: v4-flash-next
    summary: one long conversation at a time
    engine:
      flags:
        max-num-seqs: 1
```

Which flags a release of vLLM knows lies in `roles/profile/files/flags`, written and tested by its own parser,
so that a wrong one is found before a gigabyte is installed. For a release without such a list the flags are not checked
beforehand, and a run says so.
"""


def listed(values: Mapping) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def flag(profile: Mapping, name: str) -> str:
    value = profile["engine"]["flags"].get(name)
    return "not set" if value is None else str(value)


def draft(profile: Mapping) -> str:
    config = profile["engine"]["flags"].get("speculative-config")
    if not config:
        return "none"
    sampled = config.get("draft_sample_method")
    return f"{config['method']}, k = {config['num_speculative_tokens']}" + (f", {sampled}" if sampled else "")


def engine(profile: Mapping) -> str:
    runtime = profile["runtime"]
    kinds = {"wheels": "wheels", "source": "built from source", "container": "container"}
    return f"{kinds[runtime['kind']]}: vLLM {runtime['pins']['vllm']}"


ROWS = {
    "runs today": lambda p: "no" if "not_runnable" in p else "yes",
    "shown on two Sparks": lambda p: "yes" if p["evidence"]["two_sparks"] else "**no**",
    "engine": engine,
    "CUDA toolkit": lambda p: p["runtime"].get("cuda_toolkit", "not told"),
    "driver it ran with": lambda p: ", ".join((p.get("driver") or {}).get("ran_with", ())) or "not told",
    "ranks": lambda p: f"{p['tensor_parallel_size']}, {p.get('rendezvous', 'not told how')}",
    "checkpoint": lambda p: p["checkpoint"].get("repository", p["checkpoint"]["path"]),
    "max-model-len": lambda p: flag(p, "max-model-len"),
    "max-num-seqs": lambda p: flag(p, "max-num-seqs"),
    "gpu-memory-utilization": lambda p: flag(p, "gpu-memory-utilization"),
    "kv-cache-dtype": lambda p: flag(p, "kv-cache-dtype"),
    "draft": draft,
    "rule for k": lambda p: (p.get("speculation") or {}).get("k_rule", "none"),
}


def table(rows: list[list[str]]) -> Iterator[str]:
    head, *body = rows
    yield from (f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *body))


def span(values: list) -> str:
    return " to ".join(f"{value:g}" for value in values)


def figures(profile: Mapping) -> Iterator[str]:
    columns = {
        "tokens_per_s": "tokens/s",
        "acceptance": "acceptance",
        "mean_accepted_length": "accepted length",
        "verify_steps_per_s": "steps/s",
        "prefill_s": "prefill s",
    }  # one row a line
    rows = profile.get("reference") or []
    used = {key: title for key, title in columns.items() if any(key in row for row in rows)}
    conditions = ("concurrency", "prompt_tokens", "reasoning_effort", "max_num_seqs", "cudagraph_mode", "k")
    cells = [["series", *used.values(), "with", "method", "source"]]
    for row in rows:
        told = {key.replace("_", " "): row[key] for key in conditions if key in row}
        told = {key: span(value) if isinstance(value, list) else value for key, value in told.items()}
        measured = [span(row[key]) if key in row else "" for key in used]
        cells.append([row["series"], *measured, listed(told), row["method"], row["source"]])
    if rows:
        yield "Figures of others, all streams together:"
        yield ""
        yield from table(cells)
    elif "compare_with" in profile:
        yield f"No figure of this stack is known; `{profile['compare_with']}` comes nearest."
    else:
        yield "No figure of it is kept: what it shows is not speed."


def section(profile: Mapping) -> Iterator[str]:
    runtime, evidence = profile["runtime"], profile["evidence"]
    yield from (f"## {profile['name']}", "", f"{profile['summary']}.", "")
    if "not_runnable" in profile:
        yield f"- **Not yet runnable:** {profile['not_runnable']}"
    yield f"- Evidence: {evidence['source']} ({evidence['date']})" + (
        f"; {evidence['note']}" if "note" in evidence else ""
    )
    if evidence.get("not_told"):
        yield f"- Its source does not tell: {'; '.join(evidence['not_told'])}"
    yield f"- Pins: {listed(runtime['pins'])}"
    if "image" in runtime:
        image = runtime["image"]
        yield f"- Image: `{image['name']}`, licence: {image['licence']} (docs/containers.md says how to accept it)"
        if not image.get("digest"):
            begins = f"; it begins with {image['digest_begins']}" if "digest_begins" in image else ""
            yield f"- Its digest is yours to name{begins}: `runtime.image.digest` in tandem_profile_overrides"
    for tree in (runtime.get("overlay") or {}).get("trees") or ():
        yield f"- Laid over the image: {tree['what']}, from {tree['from']} of the rank that pulls, to {tree['to']}"
    for patch in runtime.get("patches") or ():
        yield f"- Patch: {patch['what']}; {patch['why']}; upstream: {patch['upstream']}"
    if "limits" in profile:
        limits = profile["limits"]
        yield f"- With CUDA graphs, up to {limits['graph_sequences']} sequences are known to work ({limits['source']})"
    if "minimum" in profile["nccl"]:
        yield f"- NCCL {profile['nccl']['minimum']} or newer"
    if required := (profile.get("driver") or {}).get("required"):
        yield f"- Driver: {' or '.join(required)}, and no other one"
    if note := (profile.get("driver") or {}).get("note"):
        yield f"- Driver: {note}"
    for what, why in profile["proof"]["skip"].items():
        yield f"- Not proven, {what.replace('_', ' ')}: {why}"
    flags = json.dumps(profile["engine"]["flags"], indent=2)
    yield from ("", "<details><summary>flags</summary>", "", "```json", flags, "```", "", "</details>", "")
    yield from figures(profile)
    yield ""


def page(profiles: Mapping[str, Mapping]) -> str:
    lines = [HEAD, "## Which one", ""]
    lines += table(
        [["profile", "take it if"], *([f"`{name}`", each["choose"]] for name, each in profiles.items())]
    )
    lines += ["", "## Side by side", ""]
    cells = [[title, *(str(cell(each)) for each in profiles.values())] for title, cell in ROWS.items()]
    lines += table([["", *(f"`{name}`" for name in profiles)], *cells])
    lines += ["", OWN]
    for each in profiles.values():
        lines += section(each)
    return "\n".join(lines).rstrip() + "\n"


def shipped() -> dict[str, dict]:
    """What can be run first, then the others."""
    sys.path.insert(0, str(ROOT / "collections"))
    from ansible_collections.tandem.spark.plugins.plugin_utils import profile

    names = profile.names(FOLDER)
    runs = [name for name in names if name in profile.runnable(FOLDER)]
    told = {name: profile.described(name, FOLDER) for name in names}
    # Of those the ones that need nothing of somebody else's registry.
    runs = sorted(sorted(runs, reverse=True), key=lambda name: told[name]["runtime"]["kind"] == "container")
    return {name: told[name] for name in [*runs, *(name for name in names if name not in runs)]}


if __name__ == "__main__":
    PAGE.write_text(page(shipped()), encoding="utf-8")
    print(PAGE)
