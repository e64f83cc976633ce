#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: api_info
short_description: What the API answers to whoever has no key
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Asks an endpoint without a key, as a stranger would, on every path that generates, reads prompts or tells of the
    engine. Nothing is generated, since no body is a question.
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  url:
    description: Base address of the endpoint, with or without C(/v1).
    type: str
    required: true
  api_key_file:
    description: The file on the node that holds the key. Where it holds one, what answers without it is an error.
    type: path
    default: /etc/tandem/api.env
  validate_certs:
    description: Whether the certificate of an C(https) endpoint must be valid.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: See that nobody is answered without the key
  tandem.spark.api_info:
    url: http://127.0.0.1:8888
  register: api
  failed_when: api.findings | selectattr('severity', 'eq', 'error')
"""

RETURN = r"""
statuses:
  description: The HTTP status of each path that was asked; null where nothing came back.
  returned: success
  type: dict
  sample: {"GET /v1/models": 401, "GET /health": 200}
key:
  description: Whether there is a key.
  returned: success
  type: bool
  sample: true
findings:
  description: What a stranger can do and must not.
  returned: success
  type: list
  elements: dict
  sample: []
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import api_key, api_open


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "api_key_file": {"type": "path", "default": f"/{api_key.FILE}", "no_log": False},
            "validate_certs": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        with_key = api_key.read(Path(params["api_key_file"])) is not None
    except api_key.ApiKeyError as error:
        module.fail_json(msg=str(error))
    statuses = api_open.ask(params["url"], verify=params["validate_certs"])
    findings = [each.as_dict() for each in api_open.judged(statuses, with_key)]
    module.exit_json(changed=False, statuses=statuses, key=with_key, findings=findings)


if __name__ == "__main__":
    main()
