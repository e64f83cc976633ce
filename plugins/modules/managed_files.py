#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: managed_files
short_description: Make a list of files, folders and links as wanted in one run
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Compares every path with what is wanted and writes only those that differ, each one atomically.
  - One list is one module run; a task for each file costs one run each.
  - Something of another kind in the way of a path (a folder where a file is wanted) is never overwritten.
attributes:
  check_mode:
    description: Says what would change and changes nothing.
    support: full
  diff_mode:
    description: Shows wanted against found for every path that differs.
    support: full
options:
  files:
    description: The paths, in the order in which they are to be made.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path on the node.
        type: str
        required: true
      state:
        description: What the path should be.
        type: str
        choices: [file, directory, link, absent]
        default: file
      content:
        description: The file's text.
        type: str
      src:
        description:
          - File or folder on the controller whose text is taken in place of O(files[].content).
          - A folder stands for all its files that match O(files[].pattern), not for its sub-folders.
        type: str
      pattern:
        description: Which files of a folder in O(files[].src) are taken.
        type: str
        default: "*"
      target:
        description: Where the link points to.
        type: str
      mode:
        description: Permissions as four octal digits in quotes, such as V("0644").
        type: str
      owner:
        description: Name of the owning account.
        type: str
      group:
        description: Name of the owning group.
        type: str
      purge:
        description: In a folder, remove the files that this list does not name (sub-folders stay).
        type: bool
        default: false
      secret:
        description:
          - The file's text in place of O(files[].content), where nobody may see it. It is in no diff and no result, and
            not in the node's log, where Ansible writes the options of every module.
        type: str
"""

EXAMPLES = r"""
- name: Put the node agent and its settings in place
  tandem.spark.managed_files:
    files:
      - {path: /opt/tandem/lib/tandem, state: directory, mode: "0755", purge: true}
      - {path: /opt/tandem/lib/tandem, src: files/agent, pattern: "*.py", mode: "0644"}
      - {path: /etc/tandem/plan.json, content: "{{ plan | to_nice_json }}", mode: "0644"}
      - {path: /opt/tandem/current, state: link, target: releases/0123456789ab}
"""

RETURN = r"""
changed_paths:
  description: The paths that differed, in the order of the list.
  returned: always
  type: list
  elements: str
  sample: [/etc/tandem/plan.json]
"""

import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import files as library

FILE_SPEC = {
    "path": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["file", "directory", "link", "absent"], "default": "file"},
    "content": {"type": "str"},
    "src": {"type": "str"},
    "pattern": {"type": "str", "default": "*"},
    "target": {"type": "str"},
    "mode": {"type": "str"},
    "owner": {"type": "str"},
    "group": {"type": "str"},
    "purge": {"type": "bool", "default": False},
    "secret": {"type": "str", "no_log": True},
}


def wanted_from(entry: dict) -> library.Wanted:
    if not entry["path"].startswith("/"):
        raise library.FilesError(f"path {entry['path']!r} is not absolute. Give the whole path.")
    text = entry["content"] if entry["secret"] is None else entry["secret"]
    if entry["state"] == "file" and text is None:
        raise library.FilesError(
            f"{entry['path']} is to be a file but has neither content nor src. Give one."
        )
    if entry["state"] == "link" and not entry["target"]:
        raise library.FilesError(f"{entry['path']} is to be a link but has no target. Give one.")
    # Unquoted in YAML, 0644 is the number 420 by the time it comes here.
    if entry["mode"] is not None and not re.fullmatch("[0-7]{4}", entry["mode"]):
        raise library.FilesError(
            f"mode {entry['mode']!r} of {entry['path']} is not four octal digits. "
            'Write them in quotes, such as "0644".'
        )
    try:
        content = None if text is None else text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise library.FilesError(
            f"the content of {entry['path']} cannot be written as UTF-8: {error}. Correct its text."
        ) from error
    return library.Wanted(
        os.path.normpath(entry["path"]),
        entry["state"],
        content,
        entry["target"],
        None if entry["mode"] is None else int(entry["mode"], 8),
        entry["owner"],
        entry["group"],
        entry["purge"],
        entry["secret"] is not None,
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": FILE_SPEC,
            }
        },
        supports_check_mode=True,
    )
    changed_paths: list[str] = []
    diff: list[dict] = []
    try:
        wanted = [wanted_from(entry) for entry in module.params["files"]]
        library.refuse_twice(wanted)
        wanted += [library.Wanted(path, "absent") for path in library.strangers(wanted)]
        for item in wanted:
            found = library.look(item.path, with_content=item.state == "file")
            if not library.differences(item, found):
                continue
            library.refuse_another_kind(item, found)
            changed_paths.append(item.path)
            diff.append(
                {
                    "before_header": item.path,
                    "before": library.describe(item, found, "before"),
                    "after_header": item.path,
                    "after": library.describe(item, found, "after"),
                }
            )
            if not module.check_mode:
                library.apply(item, found)
    except library.FilesError as error:
        module.fail_json(msg=str(error), changed_paths=changed_paths)
    module.exit_json(changed=bool(changed_paths), changed_paths=changed_paths, diff=diff)


if __name__ == "__main__":
    main()
