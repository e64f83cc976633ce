#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: spec_decode_info
short_description: What an engine counts of its speculative decoding
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Reads the counters of vLLM's C(/metrics), summed over its engines, as a total or as the difference to an earlier
    reading.
  - Where no speculation is configured, or nothing was drafted, the figures are null and never zero.
  - High acceptance is no proof of health. An engine that only counts has it too, so read texts with
    M(tandem.spark.generation_check).
extends_documentation_fragment: tandem.spark.changes_nothing
options:
  url:
    description: Base address of the endpoint, with or without C(/v1). C(/metrics) wants no key.
    type: str
  text:
    description: The metrics themselves, in place of O(url).
    type: str
  since:
    description: An earlier result of this module. What was counted before it is taken off.
    type: dict
  validate_certs:
    description: Whether the certificate of an C(https) endpoint must be valid.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Read the counters
  tandem.spark.spec_decode_info:
    url: http://192.168.50.11:8888
  register: before

- name: Generate something
  tandem.spark.generation_check:
    url: http://192.168.50.11:8888
    model: deepseek-v4-flash

- name: What was drafted and accepted in between
  tandem.spark.spec_decode_info:
    url: http://192.168.50.11:8888
    since: "{{ before }}"
"""

RETURN = r"""
drafts:
  description: Drafts made, which is the number of verify steps.
  returned: always
  type: int
  sample: 105
draft_tokens:
  description: Tokens drafted.
  returned: always
  type: int
  sample: 630
accepted_tokens:
  description: Drafted tokens that the model accepted.
  returned: always
  type: int
  sample: 149
acceptance:
  description: Accepted tokens for each drafted one, from 0 to 1. Null if nothing was drafted.
  returned: always
  type: float
  sample: 0.2365
mean_accepted_length:
  description: Tokens for each verify step, the model's own one included. Null if nothing was drafted.
  returned: always
  type: float
  sample: 2.419
per_position:
  description: Accepted tokens at each position of the draft.
  returned: always
  type: list
  elements: int
  sample: [84, 63, 1, 1, 0, 0]
generation_tokens:
  description: Tokens generated.
  returned: always
  type: int
  sample: 254
reset:
  description: Whether the engine was started anew since O(since). Then the figures count from that start on.
  returned: always
  type: bool
  sample: false
counters:
  description: The totals of this reading, for a later O(since).
  returned: always
  type: dict
  sample:
    drafts: 105
    draft_tokens: 630
    accepted_tokens: 149
    per_position: [84, 63, 1, 1, 0, 0]
    generation_tokens: 254
    started: 1786317519.4
findings:
  description: What an operator should know, worst first.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils.engine_metrics import (
    EngineMetricsError,
    fetch,
    metrics_url,
)
from ansible_collections.tandem.spark.plugins.module_utils.findings import worst_first
from ansible_collections.tandem.spark.plugins.module_utils.prometheus_text import PrometheusTextError, parse
from ansible_collections.tandem.spark.plugins.module_utils.spec_decode import counters_of, earlier, report


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str"},
            "text": {"type": "str"},
            "since": {"type": "dict"},
            "validate_certs": {"type": "bool", "default": True},
        },
        required_one_of=[("url", "text")],
        mutually_exclusive=[("url", "text")],
        supports_check_mode=True,
    )
    url, since = module.params["url"], module.params["since"]
    try:
        before = None if since is None else earlier(since)
        page = (
            parse(module.params["text"])
            if url is None
            else fetch(url, verify=module.params["validate_certs"])
        )
    except EngineMetricsError as error:
        module.fail_json(
            msg=f"{error}. Is it vLLM, and does `systemctl status tandem-head` say that it runs?"
        )
    except PrometheusTextError as error:
        module.fail_json(msg=f"text is no page of metrics: {error}. Give it what `curl URL/metrics` prints.")
    except ValueError as error:
        module.fail_json(msg=f"spec_decode_info cannot compare with this: {error}")
    result, findings = report(counters_of(page), before, metrics_url(url) if url else "The text")
    module.exit_json(changed=False, **result, findings=[found.as_dict() for found in worst_first(findings)])


if __name__ == "__main__":
    main()
