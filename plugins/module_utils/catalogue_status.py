# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of `tandem status`: why a rank does not run the release that was proven for this very start.

Errors are what is not so; a warning is what could not be read, or will matter at the next start.
"""

from __future__ import annotations

from .catalogue import Entry

PROVE = "Run site.yml on the controller: it proves what runs, without a restart where that holds"
NO_GREEN = "a green unit and /health 200 were seen through a wedge and through degenerate text"

ENTRIES = {
    "status.plan.none": Entry(
        "error",
        "node",
        "There is no plan to read at {path}, so neither the group nor the rank of this node is known",
        "Run site.yml on the controller, which writes it",
        fixed_by="fabric",
    ),
    "status.systemd.unknown": Entry(
        "error",
        "node",
        "systemd does not answer, so it is unknown whether a rank runs here",
        "Run `systemctl status {unit}` and read what it says",
    ),
    "status.unit.stopped": Entry(
        "error",
        "node",
        "{unit} is {state}: this rank does not run",
        "Read why with `journalctl -u {unit} -n 50`; if it was stopped on purpose, start the ranks of the group "
        "together with site.yml",
        fixed_by="engine",
    ),
    "status.unit.starting": Entry(
        "error",
        "node",
        "{unit} is not ready: {phase}",
        "Wait, and watch it with `journalctl -fu {unit}`. A rank waits for the others: look at them too",
        fixed_by="engine",
    ),
    "status.journal.unknown": Entry(
        "warning",
        "node",
        "The journal of this start of {unit} cannot be read, so what the engine says of itself is unknown",
        "Run this as root, or look with `journalctl -u {unit} -n 50`",
    ),
    "status.engine.stalled": Entry(
        "warning",
        "node",
        "The rank says that it has waited for another one for {seconds} s",
        "Ask it with `tandem probe` on the head. Compilation looks the same; if no answer comes, read the last lines "
        "of every rank",
    ),
    "status.release.none": Entry(
        "error",
        "node",
        "No release is linked in at {path}",
        "Run site.yml on the controller",
        fixed_by="engine",
    ),
    "status.release.broken": Entry(
        "error",
        "node",
        "Release {release} is linked in, and its manifest cannot be read",
        "Run site.yml on the controller, which writes it anew",
        fixed_by="engine",
    ),
    "status.release.not_applied": Entry(
        "error",
        "node",
        "Release {current} is linked in, and the one that was proven last is {applied}",
        PROVE,
        fixed_by="engine",
    ),
    "status.release.unequal": Entry(
        "error",
        "group",
        "The ranks do not have one release: {releases}",
        "Run site.yml on the controller, which brings them to one",
        fixed_by="engine",
    ),
    "status.proof.none": Entry(
        "error",
        "node",
        "Release {release} has no proof on this node with the driver, kernel and boot options of now",
        PROVE,
        fixed_by="proof",
        source=NO_GREEN,
    ),
    "status.proof.elsewhere": Entry(
        "error",
        "node",
        "Release {release} was proven with another {changed}",
        PROVE + ". If that fails, bring driver and kernel back as one pair",
        fixed_by="proof",
    ),
    "status.proof.rejected": Entry(
        "error",
        "node",
        "Release {release} was rejected: {reason}",
        "Do not serve it. site.yml with another profile, overrides or weights replaces it",
        fixed_by="engine",
    ),
    "status.proof.other_start": Entry(
        "error",
        "node",
        "Release {release} was proven for an earlier start: since then {changed}",
        PROVE,
        fixed_by="proof",
        source=NO_GREEN,
    ),
    "status.api.silent": Entry(
        "error",
        "node",
        "The API does not answer at {url}/health: {found}",
        "Read the last lines of every rank (`journalctl -u tandem-head -n 50`, on the others "
        "`journalctl -u tandem-worker -n 50`), then start all ranks together",
        fixed_by="engine",
    ),
    "status.metrics.unknown": Entry(
        "warning",
        "node",
        "The counters of the engine cannot be read: {why}",
        "Look with `curl {url}/metrics`",
    ),
    "status.fabric.not_as_planned": Entry(
        "error",
        "node",
        "A start would be refused now: {problem}",
        "What runs may still answer; the next start of this rank will not come up",
        fixed_by="fabric",
    ),
    "status.fabric.environment": Entry(
        "warning",
        "node",
        "{path} cannot be read, so it is unknown over which rails this rank speaks",
        "`tandem fabric --env` says why it could not be written; the next start of the unit writes it anew",
    ),
    "status.fabric.moved": Entry(
        "warning",
        "node",
        "What this rank was started with does not hold any more: {changed}",
        "Its running connections may break. Start the ranks of the group together: each start reads it anew",
        source="field reports: GID indices drift while a machine is up",
    ),
    "status.guard.silent": Entry(
        "warning",
        "node",
        "The guard of this rank was silent {since}: nothing would restart what breaks",
        "`systemctl status tandem-guard` says why; site.yml starts it anew",
        fixed_by="guard",
    ),
    "status.guard.given_up": Entry(
        "error",
        "group",
        "The guard gave up: {why}",
        "Mend what the history names, then run site.yml or start.yml, or `tandem guard --again` on the head",
        fixed_by="engine",
    ),
    "status.guard.held": Entry(
        "info",
        "group",
        "The guard does nothing while it is {why}",
        "A hold of a playbook ends with the next proven release; an operator's by `tandem guard --drop OWNER` where it "
        "was taken",
    ),
    "status.history.broken": Entry(
        "warning",
        "node",
        "{path} cannot be read whole: {why}",
        "Look at it by hand; the next roll-out, proof or way back adds its line all the same",
    ),
    "status.caches.unknown": Entry(
        "warning",
        "node",
        "The caches cannot be looked at: {why}",
        "`tandem caches` says more",
    ),
}
