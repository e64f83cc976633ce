# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""uninstall.yml over two pretend nodes: it shows, asks for consent, does, and has nothing to do a second time."""

from __future__ import annotations

import json

import pretend_tune
import pretend_uninstall
import pytest

ALLOWED = ("-e", "tandem_uninstall=allowed")
STEPS = ["uninstall stopped", "driver_packages released", "fabric_rails released", "uninstall absent"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninstall")
    made = pretend_tune.Pair(
        folder, "uninstall", {}, answers="pretend_uninstall", modules=pretend_uninstall.MODULES
    )
    return made


@pytest.fixture(autouse=True)
def fresh(pair):
    begin(pair)


def begin(pair, **trouble):
    pair.file.write_text(json.dumps({"gone": [], "steps": [], "trouble": trouble}))


def flat(done):
    return " ".join(done.stdout.split())


def steps(pair, host="spark-a"):
    return [step for name, step, _weights in pair.state["steps"] if name == host]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (
            (),
            2,
            "Nothing was touched. What is listed above would go from spark-a, and the engine would be stopped.",
        ),
        (("--check", *ALLOWED), 0, "unit tandem-guard.service"),
        pytest.param(("--check",), 0, "folder /opt/tandem", marks=pytest.mark.long),
        pytest.param(
            ("-e", "tandem_uninstall=yes"),
            2,
            "add this to the same command: -e tandem_uninstall=allowed",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_goes_is_shown_and_nothing_is_touched(pair, words, code, told):
    done = pair.run(*words)
    assert done.returncode == code and told in flat(done), done.stdout + done.stderr
    assert "driver unhold nvidia-driver-580-open" in flat(
        done
    ) and "stays the weights in /srv/models/lab" in flat(done)
    assert "rails /etc/netplan/90-tandem-fabric.yaml" in flat(done) and pair.state["steps"] == []


def test_a_consent_in_an_inventory_is_none(pair):
    given = pair.inventory.read_text()
    hosts = json.loads(given)
    hosts["tandem"]["vars"]["tandem_uninstall"] = "allowed"
    pair.inventory.write_text(json.dumps(hosts))
    try:
        done = pair.run()
    finally:
        pair.inventory.write_text(given)
    assert done.returncode != 0 and "Take it out of the inventory" in flat(done) and pair.state["steps"] == []


def test_all_of_it_in_order_and_once(pair):
    done = pair.run(*ALLOWED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert steps(pair) == steps(pair, "spark-b") == STEPS
    assert {weights for _host, _step, weights in pair.state["steps"]} == {None, False}
    again = pair.run()
    assert again.returncode == 0 and again.stdout.count("nothing of this collection is left") == 2, (
        again.stdout
    )
    assert steps(pair) == STEPS


@pytest.mark.long
def test_the_weights_go_when_they_are_asked_for(pair):
    assert pair.run(*ALLOWED, "-e", "tandem_uninstall_weights=true").returncode == 0
    assert [weights for _host, step, weights in pair.state["steps"] if step == STEPS[-1]] == ["true", "true"]


@pytest.mark.long
def test_one_step_that_fails_keeps_none_of_the_others_and_is_told_at_the_end(pair):
    begin(pair, **{"driver_packages released": "a change is under way"})
    done = pair.run(*ALLOWED)
    assert done.returncode != 0 and steps(pair) == STEPS
    assert "TROUBLE a change is under way" in flat(
        done
    ) and "The rest is gone. Mend this and run again." in flat(done)


@pytest.mark.long
def test_where_a_unit_does_not_stop_nothing_is_removed(pair):
    begin(pair, **{"uninstall stopped": "tandem-guard.service could not be stopped"})
    done = pair.run(*ALLOWED)
    assert (
        done.returncode != 0
        and "could not be stopped" in flat(done)
        and "uninstall absent" not in steps(pair)
    )
