#!/usr/bin/python
# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_packages
short_description: Hold the packages of driver and kernel, or change them as one pair
version_added: "0.1.0"
author: tandem.spark contributors (@tandem-spark)
description:
  - V(held) keeps what is installed. The packages of driver, kernel and its modules are held, packages of the platform
    are taken out of autoremove's reach, and what upgrades a Spark unasked is masked. What was done is remembered in
    C(/var/lib/tandem/driver.json), and V(released) undoes that and nothing else.
  - V(planned) and V(installed) bring another pair, up or down, as the whole closure of its packages through apt
    preferences. V(planned) simulates it and changes nothing; V(installed) does it. Neither boots anything.
  - A node without an NVIDIA driver is left alone.
attributes:
  check_mode:
    description: Compares and simulates, and changes nothing.
    support: full
  diff_mode:
    description: Shows what is held before and after, and the transaction.
    support: full
options:
  state:
    description: What is to be.
    type: str
    choices: [reported, held, planned, installed, released]
    required: true
  version:
    description:
      - The driver that is wanted, for instance V(580.142).
      - For V(held) and V(reported) it is only compared, and a finding where it is not there.
    type: str
  kernel:
    description:
      - The kernel that is wanted with O(version), or how its name begins.
      - Without it the running kernel stays where the driver has modules for it, else the newest that it has them for.
    type: str
    default: ""
  fallback:
    description:
      - V(whole) refuses a change that would leave the kernel that runs without its NVIDIA modules.
      - V(kernel) is content where that kernel can still be booted.
    type: str
    choices: [whole, kernel]
    default: whole
  update:
    description: Have apt read its lists anew before V(planned), but not in check mode.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Keep driver and kernel as they are
  tandem.spark.driver_packages:
    state: held

- name: See what another driver would mean
  tandem.spark.driver_packages:
    state: planned
    version: "580.142"
  register: plan
"""

RETURN = r"""
present:
  description: Whether the node has an NVIDIA driver.
  returned: success
  type: bool
  sample: true
pair:
  description: The driver and the kernel that run; null where there is none or it is unknown.
  returned: success
  type: dict
  sample: {driver: "580.142", kernel: 6.17.0-1014-nvidia}
boot_id:
  description: The kernel's name for this boot.
  returned: success
  type: str
  sample: 6f2d4a53-6a6e-4b39-8f0c-5d5c5f7a3a10
steps:
  description: What was held, let go or masked, in the words of C(apt-mark) and C(systemctl).
  returned: when O(state=held) or O(state=released)
  type: dict
  sample: {hold: [nvidia-driver-580-open], unhold: [], manual: [dgx-release], auto: [], mask: [], unmask: []}
plan:
  description:
    - What is due for the wanted pair. C(step) is none, install, boot, judge or prove. C(problems) keep it from being
      done.
    - Null where no version is wanted.
  returned: success
  type: dict
  sample:
    step: install
    reboots: true
    why: packages of driver 580.142 with kernel 6.17.0-1014-nvidia are not installed
    driver: "580.142"
    kernel: 6.17.0-1014-nvidia
    pins: {nvidia-driver-580-open: 580.142-0ubuntu0.24.04.1}
    table: "downgrade  nvidia-driver-580-open 580.159.03-0ubuntu0.24.04.1 -> 580.142-0ubuntu0.24.04.1"
    problems: []
    warnings: []
findings:
  description: What an operator should know, worst first; none where there is no driver.
  returned: success
  type: list
  elements: dict
  sample: []
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.tandem.spark.plugins.module_utils import (
    apt_transaction,
    driver_change,
    driver_hold,
    driver_judgement,
)
from ansible_collections.tandem.spark.plugins.module_utils.driver_host import DriverError, Host
from ansible_collections.tandem.spark.plugins.module_utils.driver_record import Record
from ansible_collections.tandem.spark.plugins.module_utils.files import FilesError
from ansible_collections.tandem.spark.plugins.module_utils.findings import Finding, finding, worst_first
from ansible_collections.tandem.spark.plugins.module_utils.nccl_speaker import version_number


def held(module: AnsibleModule, host: Host) -> dict:
    """Nothing moves unasked: neither by apt's upgrades nor by pins of a wish that is no more."""
    look, packages, automatic, record = host.look(), host.packages(), host.automatic(), host.record()
    releases = {look.running, look.next_boot} - {None}
    steps = driver_hold.holding(packages, automatic, releases, host.unmasked(), record)
    pins = None if module.params["version"] else host.preferences()
    if not module.check_mode:
        if steps:
            host.write_record(driver_hold.remembered(record, steps))
        host.apply(steps)
        if pins:
            host.write_preferences(None)
    return done(packages, automatic, steps, bool(pins))


def released(module: AnsibleModule, host: Host) -> dict:
    packages, automatic, record = host.packages(), host.automatic(), host.record()
    if record.change and record.change.stage != "good":
        raise DriverError(
            f"A change to driver {record.change.driver} with kernel {record.change.kernel} is under way "
            f"({record.change.stage}). Nothing was released, for the next boot might be into a kernel that was never "
            "judged: finish it or go back with driver.yml (docs/driver.md), and run again."
        )
    steps = driver_hold.releasing(packages, automatic, record)
    more = bool(host.preferences()) or host.has_grub() or not record.empty
    if not module.check_mode:
        host.apply(steps)
        host.write_preferences(None)
        host.give_grub_back()
        host.write_record(Record())
    return done(packages, automatic, steps, more)


def done(packages, automatic, steps: driver_hold.Steps, more: bool) -> dict:
    sides = {
        "before": driver_hold.picture(packages, automatic),
        "after": driver_hold.picture(packages, automatic, steps),
    }
    told = {name: list(names) for name, names in asdict(steps).items()}
    return {"changed": bool(steps) or more, "steps": told, "diff": [sides]}


def planned(module: AnsibleModule, host: Host) -> dict:
    params = module.params
    if params["update"] and not module.check_mode:
        host.update_lists()
    wish = (params["version"], params["kernel"], params["fallback"] == "whole")
    changes = params["state"] == "installed" and not module.check_mode
    plan = driver_change.install(host, *wish) if changes else driver_change.plan(host, *wish)
    if params["state"] == "installed" and plan.problems:
        raise DriverError("Nothing was changed:\n" + "\n".join(plan.problems))
    installs = params["state"] == "installed" and plan.step == "install"
    table = apt_transaction.table(plan.transaction) if plan.transaction else ""
    diff = [{"before": "", "after": f"{table}\n"}] if table else []
    return {"changed": installs, "plan": told_plan(plan), "diff": diff}


def told_plan(plan: driver_change.Plan) -> dict:
    return {
        "step": plan.step,
        "reboots": plan.reboots,
        "why": plan.why,
        "driver": plan.closure.driver if plan.closure else None,
        "kernel": plan.closure.kernel if plan.closure else None,
        "pins": dict(plan.closure.pins) if plan.closure else {},
        "table": apt_transaction.table(plan.transaction) if plan.transaction else "",
        "problems": list(plan.problems),
        "warnings": list(plan.warnings),
    }


def wish(module: AnsibleModule, host: Host) -> tuple[dict | None, list[Finding]]:
    """What is due for the wanted pair, and as findings; nothing without a wish."""
    record, params = host.record(), module.params
    notes = []
    if record.change and record.change.stage != "good":
        values = {name: getattr(record.change, name) for name in ("driver", "kernel", "stage")}
        notes.append(finding("driver.change.unfinished", evidence="; ".join(record.change.reasons), **values))
    if not params["version"]:
        return None, notes
    plan = driver_change.plan(host, params["version"], params["kernel"], params["fallback"] == "whole")
    if plan.problems:
        values = {"driver": params["version"], "problems": ". ".join(plan.problems)}
        notes.append(finding("driver.pin.impossible", **values))
    elif plan.step in ("install", "boot", "judge"):
        values = {"driver": plan.closure.driver, "kernel": plan.closure.kernel, "why": plan.why}
        notes.append(finding("driver.pin.unmet", **values))
    return told_plan(plan), notes


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "required": True,
                "choices": ["reported", "held", "planned", "installed", "released"],
            },
            "version": {"type": "str"},
            "kernel": {"type": "str", "default": ""},
            "fallback": {"type": "str", "choices": ["whole", "kernel"], "default": "whole"},
            "update": {"type": "bool", "default": False},
        },
        required_if=[("state", "planned", ["version"]), ("state", "installed", ["version"])],
        supports_check_mode=True,
    )
    state, version = module.params["state"], module.params["version"]
    if version and not version_number(version):
        module.fail_json(msg=f"version is {version!r}, wanted is a driver's version such as 580.142.")
    host = Host()
    result = {"changed": False, "plan": None, "findings": []}
    try:
        look = host.look()
        # A driver that somebody removed leaves what was held and masked for it.
        if (look.anything and look.packages is not None) or state == "released":
            steps = {"held": held, "released": released, "planned": planned, "installed": planned}
            if state in steps:
                result.update(steps[state](module, host))
            if state in ("reported", "held"):
                result["plan"], notes = wish(module, host)
                _verdict, judged = driver_judgement.judge(host.look())
                result["findings"] = [each.as_dict() for each in worst_first([*judged, *notes])]
    except (DriverError, FilesError, OSError) as error:
        module.fail_json(msg=str(error), **result)
    pair = {"driver": look.loaded, "kernel": look.running}
    module.exit_json(present=look.anything, pair=pair, boot_id=host.boot_id(), **result)


if __name__ == "__main__":
    main()
