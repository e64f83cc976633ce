#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: checkpoint_fetch
short_description: Bring a checkpoint folder to what its manifest says, file by file
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Lists what belongs into the folder, with sizes and hashes, compares, and brings only what is wrong. What lies on the
    node already is taken over by its hash, as a reflink, a hard link or a copy. The rest is downloaded, when
    O(source=hub), by the hub's own client in the engine's environment, or copied over the rails from a rank that has it
    (O(from_host)). What was cut off is resumed by the next run.
  - A file comes to its place when its hash was found right. Damaged files are replaced. A whole file of another
    revision is moved to C(.tandem-aside) in the folder. Nothing else is removed.
  - The list is written to C(.tandem-manifest.json) in the folder. Rate and time left are printed every five seconds.
attributes:
  check_mode:
    description: Says by sizes alone what would be brought; asks and reads nothing.
    support: full
  diff_mode:
    description: Shows the files that are wrong before and after.
    support: full
options:
  path:
    description: Folder of the checkpoint. It is made where it is missing.
    type: path
    required: true
  source:
    description:
      - Where files come from that this node does not have. V(hub), or a folder of this node, which is a mirror of the
        checkpoint or a Hugging Face cache.
      - When empty, nothing is brought. A folder without a list gets one of what it holds.
    type: str
    default: ""
  repository:
    description: Name on the hub.
    type: str
  revision:
    description: The commit. A branch or tag is resolved once and then kept.
    type: str
  endpoint:
    description: A hub other than the public one.
    type: str
  token:
    description: The hub's token. It is handed on in the environment of the client alone.
    type: str
  caches:
    description: Folders of Hugging Face caches that are searched first; a C(*) stands for the caches of several users.
    type: list
    elements: str
    default: []
  manifest:
    description: File on the node that lists the files instead, as C(sha256sum) writes it.
    type: path
  sha256:
    description: Sums that M(tandem.spark.checkpoint_info) read in this run, so that nothing is read twice.
    type: dict
    default: {}
  from_host:
    description:
      - Inventory name of a rank whose folder at O(path) is right. Its files are copied over the rails, several
        streams on each, opened by a secret for this one transfer, and its list becomes that of this rank. O(source)
        does not count.
    type: str
  from_addresses:
    description: Addresses of the rails of that rank.
    type: list
    elements: str
    default: []
  peer:
    description: Where that rank listens for this transfer. Set by the action.
    type: dict
    suboptions:
      doors:
        description: Address and port of each rail.
        type: list
        elements: list
        required: true
      secret:
        description: What opens the transfer.
        type: str
        required: true
  fresh:
    description: Files that an earlier run found right are read again, unless O(sha256) has them.
    type: bool
    default: false
  python:
    description: Python of an environment with C(huggingface_hub).
    type: path
    default: /opt/tandem/current/runtime/bin/python
  library:
    description: Folder that holds the package C(tandem).
    type: path
    default: /opt/tandem/lib
  workers:
    description: How many files are downloaded at the same time.
    type: int
    default: 8
  patience:
    description: Seconds for which nothing may arrive.
    type: float
    default: 600
  total_timeout:
    description: Seconds for all of it.
    type: float
    default: 86400
  progress_file:
    description: File that each line of progress is appended to as well. The action prints them from there.
    type: path
"""

EXAMPLES = r"""
- name: Download the weights, or what is missing or damaged of them
  tandem.spark.checkpoint_fetch:
    path: /srv/models/DeepSeek-V4-Flash-0731
    source: hub
    repository: deepseek-ai/DeepSeek-V4-Flash-0731
    revision: 9e165c30e2704aec5d9d593cce3eebd58bbef1cb

- name: Copy them from the head
  tandem.spark.checkpoint_fetch:
    path: /srv/models/DeepSeek-V4-Flash-0731
    from_host: spark-a
    from_addresses: [192.168.177.1, 192.168.178.1]

- name: Take them over from a disk that was carried here
  tandem.spark.checkpoint_fetch:
    path: /srv/models/DeepSeek-V4-Flash-0731
    source: /mnt/usb/DeepSeek-V4-Flash-0731
"""

RETURN = r"""
files:
  description: Number of files in the list.
  returned: success
  type: int
  sample: 58
revision:
  description: The revision that the list is of. Null where it was made of what the folder holds.
  returned: success
  type: str
  sample: 9e165c30e2704aec5d9d593cce3eebd58bbef1cb
bad:
  description: What was wrong before, as M(tandem.spark.checkpoint_info) names it.
  returned: success
  type: list
  elements: dict
  sample: []
taken:
  description: Which files were taken over, how and from where.
  returned: success
  type: dict
  sample: {config.json: "hard link of /root/.cache/huggingface/hub/models--a--b/blobs/0f3c"}
downloaded:
  description: The files that were downloaded.
  returned: success
  type: list
  elements: str
  sample: [model-00007-of-00048.safetensors]
aside:
  description: Where whole files of another revision were moved to.
  returned: success
  type: dict
  sample: {}
progress:
  description: What was said on the way.
  returned: always
  type: list
  elements: str
  sample: ["downloaded 12.0 of 155.4 GiB, 0.31 GiB/s, 462 s left"]
findings:
  description: Why it could not be done.
  returned: always
  type: list
  elements: dict
  sample: []
"""

import os
from dataclasses import asdict
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import checkpoint_bring as library
from ansible_collections.tandem.spark.plugins.module_utils import checkpoint_look
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_adopt import SourceError
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_hub import Hub
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_manifest import ManifestError
from ansible_collections.tandem.spark.plugins.module_utils.checkpoint_taker import Peer
from ansible_collections.tandem.spark.plugins.module_utils.file_hashes import TooSlow
from ansible_collections.tandem.spark.plugins.module_utils.findings import FindingError
from ansible_collections.tandem.spark.plugins.module_utils.progress import Progress

HUB = "hub"
ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "source": {"type": "str", "default": ""},
    "repository": {"type": "str"},
    "revision": {"type": "str"},
    "endpoint": {"type": "str"},
    "token": {"type": "str", "no_log": True},
    "caches": {"type": "list", "elements": "str", "default": []},
    "manifest": {"type": "path"},
    "sha256": {"type": "dict", "default": {}},
    "from_host": {"type": "str"},
    "from_addresses": {"type": "list", "elements": "str", "default": []},
    "peer": {
        "type": "dict",
        "options": {
            "doors": {"type": "list", "elements": "list", "required": True},
            "secret": {"type": "str", "required": True, "no_log": True},
        },
    },
    "fresh": {"type": "bool", "default": False},
    "python": {"type": "path", "default": "/opt/tandem/current/runtime/bin/python"},
    "library": {"type": "path", "default": "/opt/tandem/lib"},
    "workers": {"type": "int", "default": 8},
    "patience": {"type": "float", "default": 600.0},
    "total_timeout": {"type": "float", "default": 86400.0},
    "progress_file": {"type": "path"},
}


def wish(params: dict) -> library.Wish:
    carrier = None
    if params["from_host"]:
        peer = params["peer"] or {
            "doors": [],
            "secret": "",
        }  # check mode: nobody listens, and nobody is asked
        doors = [(door[0], int(door[1])) for door in peer["doors"]]
        carrier = Peer(params["from_host"], doors, peer["secret"].encode())
    elif params["source"] == HUB:
        carrier = Hub(
            params["python"],
            params["library"],
            params["repository"],
            params["revision"],
            params["endpoint"] or None,
            params["token"] or None,
            params["workers"],
            params["patience"],
        )
    return library.Wish(
        Path(params["path"]),
        carrier,
        Path(params["source"]) if params["source"] and not carrier else None,
        tuple(params["caches"]),
        params["repository"],
        params["revision"],
        params["manifest"] and Path(params["manifest"]),
        params["sha256"] or {},
        params["fresh"],
        params["total_timeout"],
    )


def main() -> None:
    module = AnsibleModule(
        ARGUMENTS, supports_check_mode=True, required_if=[("source", HUB, ["repository", "revision"])]
    )
    params = module.params
    if params["source"] not in ("", HUB) and not params["source"].startswith("/"):
        module.fail_json(
            msg=f"source is {params['source']!r}, wanted is hub or the path of a folder on this node."
        )
    if params["from_host"] and not params["peer"] and not module.check_mode:
        module.fail_json(msg="from_host is for a task: its action has that rank listen first.")
    os.umask(0o022)  # the engine's user reads what root makes here
    path, progress = Path(params["path"]), Progress(params["progress_file"])
    result = {"progress": progress.lines, "findings": []}
    try:
        made = (library.planned if module.check_mode else library.bring)(wish(params), progress)
    except FindingError as error:
        result["findings"] = [error.finding.as_dict()]
        module.fail_json(msg=checkpoint_look.sentence(path, error.finding), **result)
    except TooSlow as error:
        module.fail_json(
            msg=f"{path}: {error}. Run again, which goes on where it was, or give more time.", **result
        )
    except (SourceError, ManifestError, OSError) as error:
        module.fail_json(msg=str(error), **result)
    before = "".join(f"{each.file} {each.problem}\n" for each in made.bad)
    module.exit_json(
        changed=made.changed or (module.check_mode and bool(made.bad)),
        files=len(made.manifest.files),
        revision=made.manifest.revision,
        bad=[asdict(each) for each in made.bad],
        taken=made.taken,
        downloaded=sorted(made.downloaded),
        aside=made.aside,
        diff={"before_header": str(path), "after_header": str(path), "before": before, "after": ""},
        **result,
    )


if __name__ == "__main__":
    main()
