#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_log_info
short_description: What NCCL says in a log
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads what NCCL 2.27 to 2.30 says with C(NCCL_DEBUG=INFO), of one rank or of several in one log, with or without
    prefixes of vLLM, journald, Ray or containers. The newest start in the log counts.
  - The transport is judged by the lines of the channels. That C(NET/IB) is in use proves nothing, since NCCL prints it
    on the fallback to sockets too.
  - What the log does not say is null.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  path:
    description: The log file.
    type: path
  text:
    description: The log itself.
    type: str
  minimum:
    description: The oldest version that will do; an older one is a finding.
    type: str
  transport:
    description: The one transport that will do; another one is a finding.
    type: str
    choices: [ib, socket, shm, p2p]
"""

EXAMPLES = r"""
- name: Read what the journal has
  tandem.spark.nccl_log_info:
    text: "{{ journal.stdout }}"
    minimum: 2.30.4
    transport: ib
"""

RETURN = r"""
version:
  description: NCCL's version; the oldest where processes differ.
  returned: always
  type: str
  sample: 2.30.7
cuda:
  description: The CUDA that NCCL was built for.
  returned: always
  type: str
  sample: "13.0"
transport:
  description:
    - What carries the traffic, V(ib), V(socket), V(shm), V(p2p), V(mixed) for several of them, or V(none) where no
      channel is seen.
    - Without any channel, V(socket) is said where NCCL set sockets up; V(ib) is never said without one.
  returned: always
  type: str
  sample: ib
devices:
  description: What NCCL lists, with the number of channels that use each.
  returned: always
  type: list
  elements: dict
  sample:
    - {kind: ib, index: 0, name: rocep1s0f0, port: 1, link: RoCE, address: null, host: spark-a, pid: 315, channels: 8}
gdr:
  description: Whether NCCL lets the NIC read the GPU's memory by itself. False is normal on a Spark.
  returned: always
  type: bool
  sample: false
plugin:
  description: A network plugin that NCCL loaded, null for NCCL's own networks.
  returned: always
  type: str
  sample: null
errors:
  description: Lines that tell of trouble, with how often, the cause and the remedy.
  returned: always
  type: list
  elements: dict
  sample:
    - id: nccl.qp.timeout
      line: "NCCL WARN NET/IB: Got completion from peer 192.168.177.2<41000> with status=12"
      count: 1
      cause: The peer did not answer over RDMA
      remedy: Ping it over this rail with full packets
processes:
  description: What each process says, as far as the log tells them apart.
  returned: always
  type: list
  elements: dict
  sample: [{host: spark-a, pid: 315, rank: 0, ranks: 2, version: 2.30.7, transport: ib, channels: 16}]
findings:
  description: What an operator should know, with the remedy.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import nccl_log, nccl_notes
from ansible_collections.tandem.spark.plugins.module_utils.findings import worst_first
from ansible_collections.tandem.spark.plugins.module_utils.nccl_speaker import TRANSPORTS, version_number


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "text": {"type": "str"},
            "minimum": {"type": "str"},
            "transport": {"type": "str", "choices": list(TRANSPORTS)},
        },
        required_one_of=[("path", "text")],
        mutually_exclusive=[("path", "text")],
        supports_check_mode=True,
    )
    path, text, minimum = (module.params[name] for name in ("path", "text", "minimum"))
    if minimum and not version_number(minimum):
        module.fail_json(msg=f"minimum is {minimum!r}, wanted is a version such as 2.30.4.")
    try:
        log = nccl_log.read_log(text.splitlines() if path is None else nccl_log.lines_of(path))
    except OSError as error:
        module.fail_json(
            msg=f"{path} cannot be read: {error.strerror}. Name a log file that this user may read."
        )
    notes = nccl_notes.judge(log, minimum, module.params["transport"])
    module.exit_json(changed=False, **log.as_dict(), findings=[note.as_dict() for note in worst_first(notes)])


if __name__ == "__main__":
    main()
