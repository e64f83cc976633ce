#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lm_eval
short_description: Evaluate a served model by lm-eval
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - Runs lm-eval beside the endpoint and returns what its results say. The harness with its tasks is what PyPI has,
    nothing of it is changed; what it wrote, every question with its answer among it, stays in O(folder).
  - Asks at temperature 0 through the chat API, with thinking on or off as O(thinking) says.
  - A task that comes with lm-eval fetches its questions from where its authors keep them, so the node needs a way there
    the first time. Tasks of one's own lie in O(include).
  - The action runs the module as a job of the node and prints what lm-eval says on the way.
extends_documentation_fragment: tandem.spark.endpoint
attributes:
  check_mode:
    description: Returns at once, because it would be a lot of work for the engine.
    support: full
  diff_mode:
    description: Changes nothing but its own folder.
    support: none
options:
  program:
    description: The harness on the node.
    type: path
    required: true
  tasks:
    description: Names of tasks.
    type: list
    elements: str
    required: true
  limit:
    description: Questions of each task. V(0) asks all.
    type: int
    default: 100
  concurrency:
    description: Questions at once.
    type: int
    default: 1
  thinking:
    description: Whether the model is to think.
    type: bool
    default: false
  max_tokens:
    description: Longest answer, the thoughts included.
    type: int
    default: 1024
  timeout_s:
    description: Seconds for everything.
    type: float
    default: 7200
  folder:
    description: Folder on the node for results and caches, made if it is missing.
    type: path
    required: true
  include:
    description: Folder on the node with tasks of one's own.
    type: path
  progress_file:
    description: File that each line of progress is appended to as well. The action prints them from there.
    type: path
"""

EXAMPLES = r"""
- name: Evaluate
  tandem.spark.lm_eval:
    url: http://127.0.0.1:8888
    model: deepseek-v4-flash
    program: /opt/tandem/evaluate/0123456789ab/bin/lm_eval
    tasks: [gsm8k]
    limit: 100
    folder: /var/lib/tandem/evaluate
"""

RETURN = r"""
results:
  description: A dict for each figure of each task. C(error) is the standard error, null where there is none.
  returned: success
  type: list
  elements: dict
  sample: [{task: gsm8k, figure: "exact_match,strict-match", value: 0.93, error: 0.026, questions: 100}]
version:
  description: The version of lm-eval, null where it does not tell.
  returned: success
  type: str
  sample: 0.4.13
seconds:
  description: How long it took.
  returned: success
  type: float
  sample: 412.7
file:
  description: The results on the node, as lm-eval wrote them.
  returned: success
  type: str
  sample: /var/lib/tandem/evaluate/20261130T120000Z/deepseek-v4-flash/results_2026-11-30T12-07-00.json
progress:
  description: What lm-eval said on the way, a line now and then.
  returned: always
  type: list
  elements: str
  sample: []
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import api_key, evaluation
from ansible_collections.tandem.spark.plugins.module_utils.progress import Progress

ARGUMENTS = {
    "url": {"type": "str", "required": True},
    "model": {"type": "str", "required": True},
    "api_key": {"type": "str", "no_log": True},
    "api_key_file": {"type": "path", "no_log": False},
    "validate_certs": {"type": "bool", "default": True},
    "program": {"type": "path", "required": True},
    "tasks": {"type": "list", "elements": "str", "required": True},
    "limit": {"type": "int", "default": 100},
    "concurrency": {"type": "int", "default": 1},
    "thinking": {"type": "bool", "default": False},
    # "tokens" in a name makes Ansible suspect a secret.
    "max_tokens": {"type": "int", "default": 1024, "no_log": False},
    "timeout_s": {"type": "float", "default": 7200.0},
    "folder": {"type": "path", "required": True},
    "include": {"type": "path"},
    "progress_file": {"type": "path"},
}


def main() -> None:
    module = AnsibleModule(ARGUMENTS, supports_check_mode=True)
    params = module.params
    wrong = [
        f"{name} is {params[name]}, wanted more than 0"
        for name in ("concurrency", "max_tokens", "timeout_s")
        if params[name] <= 0
    ]
    wrong += ["limit is below 0"] if params["limit"] < 0 else []
    wrong += ["tasks is empty"] if not params["tasks"] else []
    wrong += [] if params["validate_certs"] else ["validate_certs is false, which lm-eval cannot do"]
    key = None
    try:
        key = api_key.of(module)
    except api_key.ApiKeyError as error:
        wrong.append(str(error))
    if wrong:
        module.fail_json(msg=f"lm_eval cannot run this: {'; '.join(wrong)}", progress=[])
    if module.check_mode:
        module.exit_json(changed=False, results=[], version=None, seconds=0.0, file=None, progress=[])
    progress = Progress(params["progress_file"])
    asked = evaluation.Evaluation(
        tasks=tuple(params["tasks"]),
        folder=Path(params["folder"]),
        api_key=key,
        **{
            name: params[name]
            for name in (
                "program",
                "url",
                "model",
                "limit",
                "concurrency",
                "thinking",
                "max_tokens",
                "timeout_s",
                "include",
            )
        },
    )
    try:
        module.exit_json(changed=True, **evaluation.run(asked, progress), progress=progress.lines)
    except (evaluation.EvaluationError, OSError) as error:
        module.fail_json(msg=str(error), progress=progress.lines)


if __name__ == "__main__":
    main()
