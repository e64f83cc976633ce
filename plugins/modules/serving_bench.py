#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: serving_bench
short_description: Measure a served model, and judge what it writes meanwhile
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Asks rows of draws. A draw is a number of streams at once; of a row the range over its draws is told.
  - Tokens are those of C(usage), never chunks, of which each holds as many tokens as a verify step gave. The first
    delta of content or reasoning ends C(ttft_s), and rates are those of decoding, from the first delta
    to the last.
  - Acceptance, mean accepted length and acceptance at each position are the differences of the engine's counters
    around that very draw. Verify steps per second are tokens per second divided by the mean accepted length, and the
    ceiling is (k + 1) times that.
  - Prompts are new each time, and the counters of the prefix cache say whether that held.
  - Each text is judged as M(tandem.spark.generation_check) does it. A row does not count where one of its texts is
    degenerate, all requests of a draw fail, the engine is started anew in between, its counters cannot be read, prompts
    came from the prefix cache, or none of the drafted tokens was accepted. A draw during which others had the engine
    generate is left out and asked again.
  - With O(folder) each draw is written as it ends, and a run of the same stack and plan that was cut off goes on.
  - The action runs the module as a job of the node and prints each draw as it ends.
extends_documentation_fragment: tandem.spark.endpoint
attributes:
  check_mode:
    description: Returns at once without a request, because it would be a lot of work for the engine.
    support: full
  diff_mode:
    description: Changes nothing but its own record.
    support: none
options:
  series:
    description:
      - Rows of one stream, by name (V(code, reasoning off), V(code, reasoning on), V(prose, reasoning off),
        V(prose, reasoning on)) or as a dict of C(content) (V(code) or V(prose)) and, where they differ from the
        defaults, C(name), C(reasoning), C(reasoning_effort), C(concurrency), C(prompt_tokens), C(max_tokens),
        C(ignore_eos) and C(draws).
      - By default the four that have names.
    type: list
    elements: raw
  concurrency:
    description: Numbers of streams at once, a row each. Every stream generates all of O(concurrency_max_tokens).
    type: list
    elements: int
    default: [1, 2, 4, 8, 16]
  prefill:
    description: Sizes of prompts in tokens, a row each, for the time that reading them takes.
    type: list
    elements: int
    default: [6000, 24000, 45000]
  context:
    description:
      - Sizes of prompts in tokens, a row each, after which O(context_max_tokens) are generated. What the server says is
        longer than it takes is not asked.
    type: list
    elements: int
    default: [4000, 8000, 16000, 32000, 65000, 131000]
  draws:
    description: Draws of each row of O(series) and O(concurrency).
    type: int
    default: 5
  long_draws:
    description: Draws of each row of O(prefill) and O(context).
    type: int
    default: 3
  max_tokens:
    description: Longest text of a row of O(series), the thoughts included.
    type: int
    default: 512
  concurrency_max_tokens:
    description: Length of each stream of O(concurrency).
    type: int
    default: 256
  context_max_tokens:
    description: Length of the texts of O(context).
    type: int
    default: 320
  reasoning_effort:
    description: How hard the model is to think where it thinks.
    type: str
    default: low
  request_timeout_s:
    description: Seconds for one request. What takes longer counts as failed.
    type: float
    default: 900
  total_timeout_s:
    description: Seconds for everything. What was not asked by then is left to the next run.
    type: float
    default: 7200
  metrics_url:
    description: Address of the engine's C(/metrics) where it is not that of O(url).
    type: str
  stack:
    description: What runs there, to be kept with the draws. Runs of another stack are not continued.
    type: dict
    default: {}
  folder:
    description: Folder on the host for the record of each run, made if it is missing. Without it nothing is kept.
    type: path
  resume:
    description: Whether to go on with a run that was cut off.
    type: bool
    default: true
  fail_on_void:
    description: Fail where a row does not count or the run ended early.
    type: bool
    default: false
  progress_file:
    description: File that each line of progress is appended to as well. The action prints them from there.
    type: path
"""

EXAMPLES = r"""
- name: Measure as the published figures were measured
  tandem.spark.serving_bench:
    url: http://127.0.0.1:8888
    model: deepseek-v4-flash
    folder: /var/lib/tandem/bench
  register: bench

- name: One stream of prose, and eight at once
  tandem.spark.serving_bench:
    url: http://127.0.0.1:8888
    model: deepseek-v4-flash
    series: ["prose, reasoning off"]
    concurrency: [8]
    prefill: []
    context: []
    draws: 3
"""

RETURN = r"""
summaries:
  description:
    - A dict for each row, with the ranges over the draws that count.
    - RV(summaries) has C(void), which says why the row does not count and is null where it does; C(success_rate) over
      all requests; C(failures), how often each reason was seen; C(k) and C(per_position), the share of drafts whose
      token at that place was accepted; C(draws_counted) and C(draws_disturbed).
    - C(figures) has C(low), C(median) and C(high) of C(tokens_per_s) (all streams together),
      C(tokens_per_s_per_stream), C(ttft_s), C(prefill_tokens_per_s), C(prompt_tokens), C(completion_tokens),
      C(acceptance), C(mean_accepted_length), C(verify_steps_per_s), C(ceiling_tokens_per_s) and C(client_cpu), the
      share of a core that the client took. A figure is null where it is not known.
  returned: always
  type: list
  elements: dict
  sample:
    - name: prose, reasoning off
      kind: series
      concurrency: 1
      draws: 5
      draws_counted: 5
      void: null
      success_rate: 1.0
      k: 5
      figures:
        tokens_per_s: {low: 42.6, median: 43.31, high: 44.0}
        mean_accepted_length: {low: 3.18, median: 3.23, high: 3.29}
draws:
  description: All draws with their streams, their texts and what the engine counted meanwhile.
  returned: always
  type: list
  elements: dict
  contains:
    row:
      description: Name of the row.
      type: str
      sample: prose, reasoning off
    tokens_per_s:
      description: Tokens per second of all streams together.
      type: float
      sample: 43.31
    void:
      description: Why the draw does not count. Null if it does.
      type: dict
      sample: {kind: reset, reason: "the engine was started anew in between: its counters began again"}
    counted:
      description: What the engine counted, C(speculation) as M(tandem.spark.spec_decode_info) returns it.
      type: dict
      sample: {prompt_tokens: 96, cached_tokens: 0, preemptions: 0, reset: false}
    streams:
      description: A dict for each request.
      type: list
      elements: dict
      contains:
        completion_tokens:
          description: Generated tokens as the server counted them.
          type: int
          sample: 512
        ttft_s:
          description: Seconds to the first thought or word.
          type: float
          sample: 0.31
        fault:
          description: Why it failed. Null if it succeeded.
          type: str
          sample: not finished within 900 s
        verdict:
          description: What the judge says of the text.
          type: str
          sample: correct
server:
  description: C(version) and C(max_model_len) as the server tells them, null where it does not.
  returned: always
  type: dict
  sample: {version: 0.33.0, max_model_len: 393216}
stack:
  description: The stack as it was given, and its fingerprint.
  returned: always
  type: dict
  sample: {fingerprint: 0123456789abcdef, given: {profile: v4-flash-next}}
at:
  description: When the run began.
  returned: always
  type: str
  sample: "2026-11-30T12:00:00Z"
file:
  description: The record on the host. Null without O(folder).
  returned: always
  type: str
  sample: /var/lib/tandem/bench/20261130T120000Z-01234567.jsonl
ended:
  description: Why not everything was asked. Null if it was, and in check mode.
  returned: always
  type: str
  sample: null
progress:
  description: A line for each draw.
  returned: always
  type: list
  elements: str
  sample: ["prose, reasoning off, draw 1 of 5: 43.31 tokens/s, first after 0.31 s, acceptance 44.6%"]
findings:
  description: What an operator should know, worst first.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import api_key, bench
from ansible_collections.tandem.spark.plugins.module_utils.bench_plan import DEFAULTS, plan_of
from ansible_collections.tandem.spark.plugins.module_utils.bench_store import BenchStoreError, open_store
from ansible_collections.tandem.spark.plugins.module_utils.chat import Endpoint
from ansible_collections.tandem.spark.plugins.module_utils.progress import Progress


def _sizes(*names: str) -> dict:
    """ "tokens" in a name makes Ansible suspect a secret."""
    return {name: {"type": "int", "default": DEFAULTS[name], "no_log": False} for name in names}


def _lists(*names: str) -> dict:
    return {name: {"type": "list", "elements": "int", "default": DEFAULTS[name]} for name in names}


ARGUMENTS = {
    "url": {"type": "str", "required": True},
    "model": {"type": "str", "required": True},
    "api_key": {"type": "str", "no_log": True},
    "api_key_file": {"type": "path", "no_log": False},
    "validate_certs": {"type": "bool", "default": True},
    "series": {"type": "list", "elements": "raw"},
    **_lists("concurrency", "prefill", "context"),
    **_sizes("draws", "long_draws", "max_tokens", "concurrency_max_tokens", "context_max_tokens"),
    "reasoning_effort": {"type": "str", "default": DEFAULTS["reasoning_effort"]},
    "request_timeout_s": {"type": "float", "default": DEFAULTS["request_timeout_s"]},
    "total_timeout_s": {"type": "float", "default": DEFAULTS["total_timeout_s"]},
    "metrics_url": {"type": "str"},
    "stack": {"type": "dict", "default": {}},
    "folder": {"type": "path"},
    "resume": {"type": "bool", "default": True},
    "fail_on_void": {"type": "bool", "default": False},
    "progress_file": {"type": "path"},
}


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    params = module.params
    try:
        plan, key = plan_of(params), api_key.of(module)
    except ValueError as error:
        module.fail_json(msg=f"serving_bench cannot run this: {error}")
    nothing = {"summaries": [], "draws": [], "server": {}, "stack": {}, "progress": [], "findings": []}
    if module.check_mode:
        module.exit_json(changed=False, ended=None, at=None, file=None, **nothing)
    progress = Progress(params["progress_file"])
    try:
        store = open_store(params["folder"], params["stack"], plan.as_dict(), resume=params["resume"])
        done = bench.run(
            Endpoint(params["url"], params["model"], key, params["validate_certs"]),
            plan,
            store,
            say=progress,
            metrics_url=params["metrics_url"],
        )
    except BenchStoreError as error:
        module.fail_json(msg=f"serving_bench cannot keep its record: {error}")
    result = {
        "changed": store.path is not None,
        "summaries": list(done.rows),
        "draws": list(done.draws),
        "server": done.server,
        "stack": {"fingerprint": store.header["fingerprint"], "given": params["stack"]},
        "at": store.header["at"],
        "file": None if store.path is None else str(store.path),
        "ended": done.ended,
        "progress": progress.lines,
        "findings": [found.as_dict() for found in done.findings],
    }
    void = [f"{row['name']}: {row['void']}" for row in done.rows if row["void"]]
    if params["fail_on_void"] and (void or done.ended):
        module.fail_json(msg=f"Not all of the bench counts: {'; '.join(void) or done.ended}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
