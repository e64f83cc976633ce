#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rank_unit
short_description: Stop, switch or start the engine's unit of one rank
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - The steps that a roll-out takes on one rank. The roll-out owns their order over the group.
attributes:
  check_mode:
    description: Says what would be done and does nothing.
    support: full
  diff_mode:
    description: Shows the release before and after a switch.
    support: full
options:
  unit:
    description: The rank's unit.
    type: str
    required: true
    choices: [tandem-head.service, tandem-worker.service]
  state:
    description:
      - V(stopped) stops any rank on the node, also one that waits for its restart.
      - V(switched) makes O(release) the one that starts, now and by the guard. Nothing must run.
        Then nothing compiles either, so the caches of other stacks are brought below the plan's bound.
      - V(started) starts the unit and says why when it did not even begin.
    type: str
    required: true
    choices: [stopped, switched, started]
  release:
    description: Digest of the release, for O(state=switched).
    type: str
  hold:
    description:
      - Who holds the guard of this rank from now on, taken before anything is stopped. A proven release
        ends the holds V(rollout), V(stop) and V(driver).
    type: str
  hold_s:
    description: Seconds after which O(hold) ends by itself. Without it, it does not, nor does a reboot end it.
    type: float
"""

EXAMPLES = r"""
- name: Start the rank
  tandem.spark.rank_unit:
    unit: tandem-worker.service
    state: started
"""

RETURN = r"""
seconds:
  description: Seconds that the step took.
  returned: success
  type: float
  sample: 4.1
engine:
  description: What the rank runs after this step, as in node_info's C(engine).
  returned: success
  type: dict
  sample: {current: 0123456789abcdef, applied: 0123456789abcdef}
caches:
  description: The folders below C(/var/cache/tandem) that a switch removed.
  returned: when state is switched
  type: list
  elements: str
  sample: [6acb7af205698605]
"""

import os
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import engine_state, files, guard_hold, jit_caches

ROOT = Path("/")


def switch(unit: str, release: str, check_mode: bool) -> tuple[bool, dict]:
    """Links the release in; returns whether that changed anything, and the diff."""
    if not Path(engine_state.RELEASES, release, "manifest.json").is_file():
        raise engine_state.EngineStateError(
            f"{engine_state.RELEASES}/{release} holds no release. Run site.yml, "
            "which writes it before it is activated."
        )
    before = os.readlink(engine_state.CURRENT) if os.path.islink(engine_state.CURRENT) else "none"
    wanted = [
        files.Wanted(path, "link", target=target)
        for path, target in engine_state.links(unit, release).items()
    ]
    wanted += [files.Wanted(path, "absent") for path in engine_state.not_wanted(unit)]
    changed = False
    for item in wanted:
        found = files.look(item.path, with_content=False)
        if files.differences(item, found):
            changed = True
            if not check_mode:
                files.apply(item, found)
    if changed and not check_mode:
        engine_state.reload()
    return changed, {"before": f"{before}\n", "after": f"releases/{release}\n"}


def bound_caches(module: AnsibleModule) -> list[str]:
    """What was removed. A cache that stays too large is worth a warning, never a failed roll-out."""
    try:
        done = jit_caches.prune(ROOT, jit_caches.max_gib(ROOT) * jit_caches.GIB)
    except (jit_caches.CachesError, OSError) as error:
        module.warn(str(error))
        return []
    for trouble in done.troubles:
        module.warn(trouble)
    return [cache.name for cache in done.removed]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True, "choices": list(engine_state.UNITS)},
            "state": {"type": "str", "required": True, "choices": ["stopped", "switched", "started"]},
            "release": {"type": "str"},
            "hold": {"type": "str"},
            "hold_s": {"type": "float"},
        },
        required_if=[("state", "switched", ["release"])],
        supports_check_mode=True,
    )
    unit, state = module.params["unit"], module.params["state"]
    result = {}
    began = time.monotonic()
    try:
        if module.params["hold"] and not module.check_mode:
            guard_hold.take(ROOT, module.params["hold"], module.params["hold_s"])
        if state == "switched":
            if not module.check_mode:
                jit_caches.mark_used(ROOT)
            changed, result["diff"] = switch(unit, module.params["release"], module.check_mode)
            result["caches"] = [] if module.check_mode else bound_caches(module)
        elif state == "stopped":
            changed = bool(engine_state.running()) if module.check_mode else engine_state.stop()
        else:
            changed = engine_state.units().get(unit, {}).get("active") != "active"
            if changed and not module.check_mode:
                engine_state.start(unit)
    except (engine_state.EngineStateError, files.FilesError, guard_hold.HoldError, OSError) as error:
        module.fail_json(msg=str(error))
    seconds = round(time.monotonic() - began, 2)
    module.exit_json(changed=changed, seconds=seconds, engine=engine_state.look(), **result)


if __name__ == "__main__":
    main()
