#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: container_image
short_description: Have an image on a node, pulled by its digest or taken from another rank
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - One step a run, as the role C(container) takes them. An image is pulled on one rank, given its overlay there,
    written into pieces, and loaded from them on the others. So all ranks have the same image, by its id.
  - Its processor is asked of the registry before anything is pulled, and the driver that it was built for as well,
    where the registry tells.
  - A folder at I(base)/KEY stands for the image as one stands for an environment of wheels. Its C(bin/python) is the
    Python of the image.
attributes:
  check_mode:
    description: Looks, and says what would be pulled or loaded.
    support: full
  diff_mode:
    description: Changes are whole images, which have no useful diff.
    support: none
options:
  program:
    description: What runs containers on the node.
    type: str
    choices: [docker, podman]
    default: docker
  name:
    description: The image with its tag, as people know it.
    type: str
    required: true
  digest:
    description: What it is pulled by, C(sha256:) and 64 digits.
    type: str
    required: true
  command:
    description: The engine's program in the image.
    type: str
    default: vllm
  python:
    description: The image's Python that has the engine.
    type: str
    default: python3
  as_root:
    description: Whether the engine runs as root in it. What it compiles is kept apart then.
    type: bool
    default: false
  overlay:
    description:
      - What is laid over the image, built once and on one rank.
      - V(patches) is a list of maps with C(tree), a folder below C(patches) of this collection, and C(only), the names
        of those that are wanted. They are put on the package of that name, or on C(path) in the image.
      - V(trees) is a list of maps with C(what), C(from) (a folder on the rank that pulls), C(to) (its place in the
        image) and C(revision), the commit that it must be at.
    type: dict
    default: {}
  mounts:
    description: Folders of the node that the image's Python may write to.
    type: list
    elements: path
    default: []
  step:
    description:
      - V(look) says what is there. V(pull) pulls, lays over and asks the image what is in it.
      - V(save) writes it into pieces for other ranks, V(load) loads it from them, V(drop) removes them.
    type: str
    choices: [look, pull, save, load, drop]
    default: look
  giver:
    description: Name of the rank that the pieces came from, for V(load) to name.
    type: str
    default: another rank
  record:
    description: What the rank that pulled found in the image, its RV(record), for V(load).
    type: dict
  base:
    description: Folder of what stands for engines on the node.
    type: path
    default: /opt/tandem/runtime
  folder:
    description: Folder of the pieces.
    type: path
    default: /var/lib/tandem/images
  total_timeout:
    description: Seconds for a pull.
    type: float
    default: 86400
  key:
    description: Name of the folder that stands for the image. Set by the action.
    type: str
  progress_file:
    description: File that each line of progress is appended to as well. The action prints them from there.
    type: path
"""

EXAMPLES = r"""
- name: Look at the image
  tandem.spark.container_image:
    name: registry.example.com/engine:1
    digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  register: image

- name: Pull it on the head
  tandem.spark.container_image:
    name: registry.example.com/engine:1
    digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    step: pull
"""

RETURN = r"""
path:
  description: The folder that stands for the image.
  returned: always
  type: str
  sample: /opt/tandem/runtime/5b41e6d0c8a7
pieces:
  description: The folder of its pieces.
  returned: always
  type: str
  sample: /var/lib/tandem/images/5b41e6d0c8a7
installed:
  description: Whether the image is there and was made ready to its end.
  returned: success
  type: bool
  sample: true
present:
  description: Whether the image is there, ready or not.
  returned: success
  type: bool
  sample: true
image:
  description: Its id, with the overlay where there is one; null where it is not there.
  returned: success
  type: str
  sample: sha256:5b41e6d0c8a7f1c2b3a4958677d6e5f4c3b2a190817263544536271809fabcde
fingerprint:
  description: SHA-256 over what is in it, the same wherever it is kept.
  returned: when installed
  type: str
  sample: 5b41e6d0c8a7f1c2b3a4958677d6e5f4c3b2a190817263544536271809fabcde
packages:
  description: Versions of the Python packages in it.
  returned: when installed
  type: dict
  sample: {vllm: 0.33.0}
record:
  description: All that was found in it when it was made ready.
  returned: when installed
  type: dict
  sample: {image: "sha256:5b41", fingerprint: 5b41, python: python3, packages: {vllm: 0.33.0}, overlay: []}
progress:
  description: What was said on the way.
  returned: always
  type: list
  elements: str
  sample: ["pulled 3 of 12 layers of registry.example.com/engine"]
findings:
  description: Why it cannot be used, or what could not be asked.
  returned: always
  type: list
  elements: dict
  sample: []
"""

import os
import platform
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import (
    container_engine,
    container_image,
    container_steps,
    engine_state,
)
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_manifest import ManifestError
from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, FindingError, finding
from ansible_collections.tandem.spark.plugins.module_utils.progress import Progress

ARGUMENTS = {
    "program": {"type": "str", "choices": list(container_engine.PROGRAMS), "default": "docker"},
    "name": {"type": "str", "required": True},
    "digest": {"type": "str", "required": True},
    "command": {"type": "str", "default": "vllm"},
    "python": {"type": "str", "default": "python3"},
    "as_root": {"type": "bool", "default": False},
    "overlay": {"type": "dict", "default": {}},
    "mounts": {"type": "list", "elements": "path", "default": []},
    "step": {"type": "str", "choices": ["look", "pull", "save", "load", "drop"], "default": "look"},
    "giver": {"type": "str", "default": "another rank"},
    "record": {"type": "dict"},
    "base": {"type": "path", "default": "/opt/tandem/runtime"},
    "folder": {"type": "path", "default": "/var/lib/tandem/images"},
    "total_timeout": {"type": "float", "default": 86400.0},
    "key": {"type": "str", "no_log": False},
    "progress_file": {"type": "path"},
}


class Work:
    """One image on this node."""

    def __init__(self, params: dict, progress: Progress):
        self.params, self.say = params, progress
        self.program, self.name = params["program"], params["name"]
        self.path, self.pieces = Path(params["base"], params["key"]), Path(params["folder"], params["key"])
        self.reference = f"{params['name'].partition('@')[0]}@{params['digest']}"
        self.notes: list[Finding] = []

    def judge(self, architectures: tuple[str, ...], environment: tuple[str, ...]) -> None:
        driver = engine_state.driver_version(Path("/"))
        found = container_image.judge(self.name, architectures, environment, platform.machine(), driver)
        if found:
            raise FindingError(found[0])

    def ask_registry(self) -> None:
        wanted = container_image.ARCHITECTURES.get(platform.machine(), platform.machine())
        told = container_steps.remote(self.program, self.reference, wanted)
        if told is None or told.environment is None:
            self.notes.append(finding("container.image.unseen", name=self.reference))
        if told:
            self.judge(told.architectures, told.environment or ())

    def look(self, change: bool) -> dict:
        container_engine.look(self.program)
        record = container_image.read_record(self.path)
        if (
            record
            and record["program"] == self.program
            and container_steps.inspect(self.program, record["image"])
        ):
            return self.told(record, self.rewrapped(record, change))
        image = container_steps.inspect(self.program, self.reference)
        if image is None and self.params["step"] == "look":
            self.ask_registry()
        return {
            "installed": False,
            "present": image is not None,
            "image": image.id if image else None,
            "changed": False,
        }

    def rewrapped(self, record: dict, change: bool) -> bool:
        """What the image's Python may write to is the group's to say, and no part of what the image is."""
        try:
            kept = (self.path / "bin" / "python").read_text(encoding="utf-8")
        except OSError:
            kept = ""
        differs = kept != container_steps.wrapper(self.path, self.params["mounts"])
        if differs and change:
            container_steps.stand_for(self.path, record, self.params["mounts"])
        return differs

    @staticmethod
    def told(record: dict, changed: bool) -> dict:
        kept = {name: record[name] for name in ("image", "fingerprint", "packages")}
        return {"installed": True, "present": True, "changed": changed, "record": record, **kept}

    def pull(self) -> dict:
        engine = container_engine.look(self.program)
        base = container_steps.inspect(self.program, self.reference)
        pulled = base is None
        if base is None:
            self.ask_registry()
            if engine.root:
                container_steps.check_space(Path(engine.root), 1)
            container_steps.pull(self.program, self.reference, self.say, self.params["total_timeout"])
            base = container_steps.inspect(self.program, self.reference)
        if base is None:
            why = "it is not there after the pull"
            raise FindingError(finding("container.image.pull", name=self.reference, why=why))
        self.judge((base.architecture,) if base.architecture else (), base.environment)
        chosen, outcomes = base, []
        if self.params["overlay"]:
            laid, outcomes = container_steps.lay_over(
                self.program, base, self.name, self.params["overlay"], self.params["python"], self.say
            )
            chosen = container_steps.inspect(self.program, laid) or base
        found = container_steps.probed(
            self.program, chosen, self.name, self.params["command"], self.params["python"]
        )
        record = {
            "program": self.program,
            "name": self.name,
            "reference": self.reference,
            "image": chosen.id,
            "base": base.id,
            "fingerprint": chosen.fingerprint(*(["root"] if self.params["as_root"] else [])),
            "environment": sorted(chosen.variables),
            "pythonpath": chosen.variables.get("PYTHONPATH", ""),
            "architecture": chosen.architecture,
            "python": self.params["python"],
            "python_version": found.get("python"),
            "command": found["command"],
            "packages": found["packages"],
            "overlay": outcomes,
            # What was here before is not taken away with this collection.
            "ours": [
                *([chosen.id] if pulled or chosen.id != base.id else []),
                *([base.id] if pulled and chosen.id != base.id else []),
            ],
        }
        container_steps.stand_for(self.path, record, self.params["mounts"])
        return self.told(record, True)

    def save(self) -> dict:
        record = container_image.read_record(self.path)
        image = container_steps.inspect(self.program, record["image"]) if record else None
        if image is None:
            raise container_image.ImageError(
                "it is not on this rank, so it has nothing to give. Run site.yml."
            )
        container_steps.save(self.program, image, self.pieces, self.say)
        return self.told(record, True)

    def load(self) -> dict:
        engine, record = container_engine.look(self.program), {**self.params["record"], "ours": []}
        if container_steps.inspect(self.program, record["image"]) is None:
            if engine.root:
                size = sum(each.stat().st_size for each in self.pieces.glob("image.*"))
                container_steps.check_space(Path(engine.root), size)
            container_steps.load_pieces(
                self.program, self.pieces, record["image"], self.params["giver"], self.say
            )
            record["ours"] = [record["image"]]
        container_steps.stand_for(self.path, record, self.params["mounts"])
        return self.told(record, True)


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True, required_if=[("step", "load", ["record"])])
    params = module.params
    if not params["key"]:
        module.fail_json(
            msg="tandem.spark.container_image is begun by its action, on the controller. Call it in a task."
        )
    os.umask(0o022)  # the engine's user reads what root makes here
    work, step = Work(params, Progress(params["progress_file"])), params["step"]
    result = {"path": str(work.path), "pieces": str(work.pieces), "progress": work.say.lines}
    try:
        if step == "drop":
            done = {
                "changed": work.pieces.exists() if module.check_mode else container_steps.drop(work.pieces)
            }
        elif step == "look" or module.check_mode:
            done = work.look(change=not module.check_mode)
            done["changed"] = done["changed"] or (step != "look" and not done["installed"])
        else:
            done = {"pull": work.pull, "save": work.save, "load": work.load}[step]()
    except FindingError as error:
        notes = [each.as_dict() for each in (error.finding, *work.notes)]
        module.fail_json(msg=f"{error} [{error.finding.id}]", findings=notes, **result)
    except (container_image.ImageError, ManifestError, OSError) as error:
        module.fail_json(msg=f"The image {work.name}: {error}", findings=[], **result)
    for each in work.notes:
        module.warn(f"{each.summary}. {each.remedy}.")
    module.exit_json(findings=[each.as_dict() for each in work.notes], **result, **done)


if __name__ == "__main__":
    main()
