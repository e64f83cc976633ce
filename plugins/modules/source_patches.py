#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: source_patches
short_description: Put the patches of this collection on an unpacked source tree
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Each patch of a series is one of four things on a tree. It is applied now, it was applied already, upstream has what
    it is for (its header says how that is seen), or it does not apply.
  - Where one does not apply, the task fails with every file and hunk, and the tree is as it was.
  - Nothing is remembered beside the tree. It is asked itself, so a second run changes nothing, and one that was cut off
    is ended by the next.
attributes:
  check_mode:
    description: Says what would come of each patch; touches nothing.
    support: full
  diff_mode:
    description: Shows the files of the tree before and after.
    support: full
options:
  path:
    description: The source tree on the node.
    type: path
    required: true
  tree:
    description: Whose patches, a folder below C(patches) of this collection such as V(vllm).
    type: str
    required: true
  only:
    description: Names of the patches that are wanted. They keep the order of the series. Empty means all.
    type: list
    elements: str
    default: []
  patches:
    description: The patches themselves, in their order. Set by the action plugin.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the file.
        type: str
        required: true
      text:
        description: What is in it.
        type: str
        required: true
"""

EXAMPLES = r"""
- name: Patch the source of vLLM
  tandem.spark.source_patches:
    path: /var/cache/tandem/build/vllm
    tree: vllm
  register: __tandem_patched

- name: See what would come of it
  tandem.spark.source_patches:
    path: /srv/src/vllm
    tree: vllm
  check_mode: true
  diff: true
"""

RETURN = r"""
outcomes:
  description: What came of each patch, in the order of the series.
  returned: when the tree could be read
  type: list
  elements: dict
  contains:
    name:
      description: Name of the patch.
      type: str
      sample: moe-padding-bound.patch
    outcome:
      description: One of C(applied), C(already applied), C(upstream has it) and C(does not apply).
      type: str
      sample: applied
    why:
      description: What upstream has, or every file and hunk that does not fit.
      type: list
      elements: str
      sample: ["f.py, hunk 1: there is no such file."]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import patch_series
from ansible_collections.tandem.spark.plugins.module_utils.unified_diff import PatchError, read_patch

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "tree": {"type": "str", "required": True},
    "only": {"type": "list", "elements": "str", "default": []},
    "patches": {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "text": {"type": "str", "required": True},
        },
    },
}


def _shown(content: bytes | None) -> str:
    return "" if content is None else content.decode("utf-8", "replace")


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    path, given = module.params["path"], module.params["patches"]
    if given is None:
        module.fail_json(
            msg="tandem.spark.source_patches is begun by its action on the controller, where the patches lie. "
            "Call it as a task."
        )
    result = {"changed": False}
    try:
        judged = patch_series.judge(path, [read_patch(each["name"], each["text"]) for each in given])
        result["outcomes"] = [each.as_dict() for each in judged.outcomes]
        if judged.misfits:
            found = "\n".join(judged.misfits)
            module.fail_json(
                msg=f"The patches for {module.params['tree']} do not fit {path}, which is left as it was:\n{found}\n"
                "Take the release that the profile names, unpacked anew, or mend the patch.",
                **result,
            )
        result["changed"] = bool(judged.edits)
        result["diff"] = [
            {
                "before": _shown(edit.before),
                "after": _shown(edit.after),
                "before_header": name,
                "after_header": name,
            }
            for name, edit in sorted(judged.edits.items())
        ]
        if not module.check_mode:
            patch_series.write(path, judged.edits)
    except PatchError as error:
        module.fail_json(msg=str(error), **{**result, "changed": False})
    module.exit_json(**result)


if __name__ == "__main__":
    main()
