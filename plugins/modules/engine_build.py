#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_build
short_description: Build wheels of an engine from source, once, on one node
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Each wheel is named by a digest of all that goes into it. One that was built is never built again, and a change
    builds only what depends on it.
  - The node builds in a transient unit, C(tandem-build.service), which goes on when the controller goes away. The same
    task then follows it. One that was cut off goes on where it was.
  - Sources come to the controller by their hashes, and from there to the node. The unit has no network, unless a wheel
    says why it must.
  - Finished wheels are kept on the node and on the controller. With nothing to build no module runs on the node.
attributes:
  check_mode:
    description: Says what would be built; brings and begins nothing.
    support: full
  diff_mode:
    description: Changes are whole wheels, which have no useful diff.
    support: none
options:
  name:
    description: Name of the profile, for what is said and for the lock list.
    type: str
    required: true
  build:
    description: What is built, as C(runtime.build) of a profile says it.
    type: dict
    required: true
  lock:
    description: Lock list on the controller with everything that is not built.
    type: path
    required: true
  requires:
    description: Lock list on the controller with what the builds themselves need, C(uv) among it.
    type: path
    required: true
  python:
    description: The node's Python, such as V(3.12).
    type: str
    required: true
  machine:
    description: The node's machine, as C(uname -m) prints it.
    type: str
    required: true
  cuda_toolkit:
    description: The CUDA toolkit that the stack is meant for, such as V(13.2).
    type: str
  cuda_home:
    description: Folder of that toolkit.
    type: path
  user:
    description: Account that the unit runs as.
    type: str
    required: true
  may_build:
    description: Whether this host is the one that builds. On any other only what the controller keeps is looked at.
    type: bool
    default: true
  head:
    description: Name of the host that builds, for what is said on others.
    type: str
    default: ""
  consent:
    description: Build beside an engine that serves.
    type: bool
    default: false
  cache:
    description: Folder on the controller for sources and wheels.
    type: path
    default: ~/.cache/tandem/wheelhouse
  folder:
    description: Folder of the build on the node.
    type: path
    default: /var/lib/tandem/build
  wheelhouse:
    description: Folder on the node from which the engine is installed.
    type: path
    default: /var/lib/tandem/wheelhouse
  reserve_gib:
    description: Free space that a build leaves to the host. It is ended before it takes more.
    type: float
    default: 10.0
  limit_h:
    description: Hours for which a build is followed, and after which its unit is ended.
    type: float
    default: 24.0
  step:
    description: What the node does in this module run. Set by the action plugin.
    type: str
    choices: [look, adopt, run]
    default: look
  key:
    description: Stands for all wheels together. Set by the action plugin.
    type: str
  wheels:
    description: What the node must know of each wheel. Set by the action plugin.
    type: list
    elements: dict
    default: []
  sources:
    description: The archives and their SHA-256. Set by the action plugin.
    type: dict
    default: {}
  requires_wheels:
    description: The wheels of the build requirements and their SHA-256. Set by the action plugin.
    type: dict
    default: {}
  requires_text:
    description: The list of build requirements itself. Set by the action plugin.
    type: str
    default: ""
  known:
    description: Records of finished wheels that the node lacks and a build needs. Set by the action plugin.
    type: dict
    default: {}
  incoming:
    description: Folder with what was sent. Set by the action plugin.
    type: path
  progress_file:
    description: File to which each line is written as it comes. Set by the action plugin.
    type: path
"""

EXAMPLES = r"""
- name: Build the engine
  tandem.spark.engine_build:
    name: "{{ profile.name }}"
    build: "{{ profile.runtime.build }}"
    lock: "{{ role_path }}/files/{{ profile.runtime.lock }}"
    requires: "{{ role_path }}/files/{{ profile.runtime.build.requires }}"
    python: "3.12"
    machine: aarch64
    cuda_toolkit: "13.2"
    cuda_home: /usr/local/cuda-13.2
    user: tandem
  register: __tandem_build
"""

RETURN = r"""
lock:
  description:
    - Lock list on the controller with the built wheels among the others.
    - In check mode, where they are not built yet, one that stands in for it.
  returned: success
  type: str
  sample: /home/nvidia/.cache/tandem/wheelhouse/locks/v4-flash-0f3c5a1be2d49687.txt
placed:
  description: The built wheels on the controller. Empty where they are not built yet.
  returned: success
  type: list
  elements: str
  sample: []
wheels:
  description: Each wheel with its digest, and whether this run built it.
  returned: success
  type: list
  elements: dict
  sample:
    - name: vllm
      digest: 5b41e6d0c8a7f1c2
      built: true
progress:
  description: What the build said.
  returned: when something was built
  type: list
  elements: str
  sample: ["vllm: 1234 of 2345 steps, 61 min, 310.2 GiB free"]
findings:
  description: What an operator should know, worst first.
  returned: always
  type: list
  elements: dict
  sample: []
"""

import os
import platform
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import build_node, build_store, build_unit, runtime
from ansible_collections.tandem.spark.plugins.module_utils.findings import worst_first
from ansible_collections.tandem.spark.plugins.module_utils.progress import Progress

PYTHON = "/usr/bin/python3"
ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "build": {"type": "dict", "required": True},
    "lock": {"type": "path", "required": True},
    "requires": {"type": "path", "required": True},
    "python": {"type": "str", "required": True},
    "machine": {"type": "str", "required": True},
    "cuda_toolkit": {"type": "str"},
    "cuda_home": {"type": "path"},
    "user": {"type": "str", "required": True},
    "may_build": {"type": "bool", "default": True},
    "head": {"type": "str", "default": ""},
    "consent": {"type": "bool", "default": False},
    "cache": {"type": "path", "default": "~/.cache/tandem/wheelhouse"},
    "folder": {"type": "path", "default": "/var/lib/tandem/build"},
    "wheelhouse": {"type": "path", "default": "/var/lib/tandem/wheelhouse"},
    "reserve_gib": {"type": "float", "default": 10.0},
    "limit_h": {"type": "float", "default": 24.0},
    "step": {"type": "str", "choices": ["look", "adopt", "run"], "default": "look"},
    "key": {"type": "str", "no_log": False},
    "wheels": {"type": "list", "elements": "dict", "default": []},
    "sources": {"type": "dict", "default": {}},
    "requires_wheels": {"type": "dict", "default": {}},
    "requires_text": {"type": "str", "default": ""},
    "known": {"type": "dict", "default": {}},
    "incoming": {"type": "path"},
    "progress_file": {"type": "path"},
}


def wish_of(options: dict) -> build_node.Wish:
    build = options["build"]
    rust = build.get("rust")
    return build_node.Wish(
        key=options["key"],
        folder=Path(options["folder"]),
        wheels=options["wheels"],
        cuda_home=options["cuda_home"],
        toolkit=options["cuda_toolkit"],
        tools={name: str(version) for name, version in (build.get("tools") or {}).items()},
        paths=[build_node.toolchain.rust_folder(rust, options["machine"])] if rust else [],
        job_gib=float(build.get("job_gib") or build_node.toolchain.JOB_GIB),
        reserve_gib=options["reserve_gib"],
        consent=options["consent"],
    )


def look(wish: build_node.Wish, options: dict) -> dict:
    """What is built, what is lacking, and why it cannot be begun."""
    seen = build_node.look(wish)
    lacking = build_node.missing(wish, options["sources"], options["requires_wheels"])
    return {
        "changed": False,
        "built": dict(seen.built),
        "going": seen.going == wish.key,
        "missing": lacking,
        "findings": [each.as_dict() for each in worst_first(build_node.judge(wish, seen))],
    }


def adopt(wish: build_node.Wish, options: dict) -> dict:
    """Takes what was sent, each only with its right content."""
    build_node.prepare(wish, options["user"])
    incoming = Path(options["incoming"])
    runtime.adopt(incoming, wish.folder / "sources", options["sources"])
    runtime.adopt(incoming, wish.folder / "requires", options["requires_wheels"])
    build_node.adopt(wish, incoming, options["known"])
    return {
        "changed": True,
        "missing": build_node.missing(wish, options["sources"], options["requires_wheels"]),
    }


def run(wish: build_node.Wish, options: dict, progress: Progress) -> dict:
    """Builds to the end, or follows who does."""
    limit_s = options["limit_h"] * 3600
    seen = build_node.look(wish)

    def begin() -> None:
        build_node.prepare(wish, options["user"])
        build_node.write_job(wish, seen, options["requires_text"], options["requires_wheels"], PYTHON)
        words = build_node.words(wish, seen, options["user"], int(limit_s))
        build_unit.begin(words, Path(build_unit.STATE_FOLDER))

    outcome = build_node.run(wish, begin, progress, limit_s)
    found = build_node.complaint(outcome, limit_s)
    digests = {wheel["name"]: wheel["digest"] for wheel in wish.wheels}
    if found is None:
        build_node.link_into(Path(options["wheelhouse"]), wish.folder, list(digests.values()))
        build_store.remove(build_store.superfluous(wish.folder, digests))
        build_store.remove(build_store.strangers(wish.folder, options["sources"]))
    built = {digest: build_store.built(wish.folder, digest) for digest in digests.values()}
    return {
        "changed": True,
        "built": {digest: record for digest, record in built.items() if record},
        "progress": progress.lines,
        "findings": [found.as_dict()] if found else [],
    }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    options = module.params
    if options["key"] is None:
        module.fail_json(
            msg="tandem.spark.engine_build is begun by its action on the controller, where the sources are. "
            "Call it as a task."
        )
    wish = wish_of(options)
    progress = Progress(options["progress_file"])
    result = {"changed": False, "findings": [], "progress": []}
    try:
        if options["step"] == "adopt":
            result.update(adopt(wish, options))
        elif options["step"] == "run":
            result.update(run(wish, options, progress))
        else:
            result.update(look(wish, options))
    except (build_unit.UnitError, runtime.RuntimeInstallError) as error:
        module.fail_json(msg=str(error), **{**result, "progress": progress.lines})
    except (OSError, LookupError) as error:
        wanted = (
            f"Make {wish.folder} a folder with room that root can write, and {options['user']} an account"
        )
        module.fail_json(msg=f"The build could not be begun: {error}. {wanted}. Then run again.", **result)
    # pip on the controller must know the newest manylinux tag that this C library takes.
    glibc = platform.libc_ver(os.path.realpath(PYTHON))[1]
    errors = [each for each in result["findings"] if each["severity"] == "error"]
    if errors and options["step"] == "run":
        said = [
            f"{each['summary']}. {each['remedy']} [{each['id']}]\n{each['evidence']}".strip()
            for each in errors
        ]
        module.fail_json(msg="\n".join(said), glibc=glibc, **result)
    module.exit_json(glibc=glibc, **result)


if __name__ == "__main__":
    main()
