# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what the nodes told to one report: all nodes and all findings, worst first, for people, machines and others."""

from __future__ import annotations

import io
import json
import tarfile
from copy import deepcopy

import pytest
from ansible_collections.tandem.spark.plugins.module_utils.findings import CATALOGUE, finding
from ansible_collections.tandem.spark.plugins.plugin_utils import doctor, doctor_files, doctor_page
from ansible_collections.tandem.spark.plugins.plugin_utils.anonymise import Names

NODE = {
    "hostname": "spark-a",
    "kernel": "6.17.0-1014-nvidia",
    "memory": {"total_gib": 121.69, "available_gib": 112.0},
    "gpu": {"present": True, "processes": []},
    "driver": {
        "driver": {"loaded": "580.142", "flavour": "open"},
        "kernel": {"running": "6.17.0-1014-nvidia"},
        "verdict": "good",
    },
    "firmware": {"product": "NVIDIA_DGX_Spark", "system": "5.36", "hcas": {"rocep1s0f0": "28.45.4028"}},
    "power": {"gpus": [{"gpu": "0", "clock_mhz": 2411.0, "verdict": "memory_bound"}]},
    "nccl": {"processes": []},
    "status": None,
}


def library(version, unit="tandem-head.service"):
    return {"unit": unit, "libraries": [{"version": version, "size": 1}]}


def status(release, proven=True):
    return {
        "rank": 0,
        "ranks": 2,
        "proven": proven,
        "unit": {"active": "active"},
        "release": {"current": release},
    }


def node(**changes):
    """A healthy node, but for what is given: {"memory.total_gib": 1.0}."""
    made = deepcopy(NODE)
    for path, value in changes.items():
        *folders, name = path.split("__")
        place = made
        for folder in folders:
            place = place[folder]
        place[name] = value
    return made


def looked(*findings, **changes):
    return {"node": node(**changes), "findings": [each.as_dict() for each in findings]}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (node(), []),
        (node(driver__driver={"loaded": "590.48.01"}), ["driver.version.unequal"]),
        (node(driver__kernel={"running": "6.17.0-1029-nvidia"}), ["driver.version.unequal"]),
        (node(firmware__system="5.40"), ["host.firmware.unequal"]),
        (node(memory__total_gib=119.7), []),
        (node(memory__total_gib=119.0), ["memory.host.unequal"]),
        (node(memory__total_gib=None), []),
        (node(power__gpus=[{"clock_mhz": 1500.0, "verdict": "capped"}]), ["power.clocks.unequal"]),
        (node(power__gpus=[{"clock_mhz": 208.0, "verdict": "not_loaded"}]), []),
        (node(power__gpus=[]), []),
        (node(status=status("new")), []),
        ({"hostname": "of a look at one part"}, []),
    ],
)
def test_what_is_unequal(other, expected):
    notes = doctor.of_group({"spark-a": node(), "spark-b": other})
    assert [note.id for note in notes] == expected
    assert all(note.scope == "group" and set(note.hosts) == {"spark-a", "spark-b"} for note in notes)


def test_unequal_engines():
    one = node(status=status("new"), nccl__processes=[library("2.30.4"), library("2.28.9", "x.service")])
    other = node(status=status("old"), nccl__processes=[library("2.30.7", "tandem-worker.service")])
    notes = doctor.of_group({"spark-a": one, "spark-b": other})
    assert {note.id for note in notes} == {"status.release.unequal", "nccl.version.mixed"}
    assert "2.28.9" not in " ".join(note.summary for note in notes)
    assert doctor.of_group({"spark-a": one}) == [] and doctor.of_group({}) == []


SSH_SAID = (
    'Task failed: Data could not be sent to remote host "192.168.50.12". Make sure this host can be reached over ssh: '
    "Connection timed out\nmore"
)


@pytest.mark.parametrize(
    ("look", "expected", "words"),
    [
        (looked(), [], ""),
        (
            {"unreachable": True, "msg": SSH_SAID},
            ["host.node.unreachable"],
            "reached: Connection timed out",
        ),
        ({"failed": True, "msg": "Missing sudo password"}, ["host.node.failed"], "Missing sudo password"),
        (
            {"msg": "MODULE FAILURE", "module_stderr": "x\nNo module named json"},
            ["host.node.failed"],
            "named json",
        ),
        ({}, ["host.node.failed"], "it gave no answer"),
        ({"node": None, "msg": " \n "}, ["host.node.failed"], "it gave no answer"),
    ],
)
def test_a_node_that_could_not_be_looked_at(look, expected, words):
    notes = doctor.of_node("spark-b", "192.168.50.12", look)
    assert [note.id for note in notes] == expected
    assert all(note.hosts == ("spark-b",) and note.severity == "error" for note in notes)
    assert words in "".join(f"{note.summary} {note.evidence}" for note in notes)


NONE = finding("driver.none")
CLOSED = finding("driver.flavour.closed", version="580.142")
PACKAGES = finding("host.packages.missing", packages="iproute2")
LONG = finding("host.look.failed", [], "/a/" + "very-long-path/" * 12, subject="It", command="x" * 40)


def report(looks):
    notes = [note for host, look in looks.items() for note in doctor.of_node(host, host, look)]
    return doctor.report(looks, notes, "2026-11-30T03:45:33Z", "0.1.0")


def test_the_same_finding_of_two_nodes_is_one():
    made = report({"spark-a": looked(NONE, CLOSED), "spark-b": looked(NONE)})
    assert [(each["id"], each["hosts"]) for each in made["findings"]] == [
        ("driver.flavour.closed", ["spark-a"]),
        ("driver.none", ["spark-a", "spark-b"]),
    ]
    assert (made["worst"], made["counts"]) == ("error", {"error": 1, "warning": 1, "info": 0})
    assert json.loads(doctor_files.as_json(made)) == made


def test_unlike_evidence_is_told_by_host():
    notes = [
        finding("driver.none", [host], evidence) for host, evidence in (("a", "x"), ("b", "y"), ("c", ""))
    ]
    (one,) = doctor.merged(notes)
    assert (one.hosts, one.evidence) == (("a", "b", "c"), "a: x; b: y")
    (one,) = doctor.merged(notes[:1] * 2)
    assert (one.hosts, one.evidence) == (("a",), "x")


def test_the_page():
    lost = {"unreachable": True, "msg": "No route to host"}
    made = report({"spark-a": looked(PACKAGES, LONG, status=status("new", proven=False)), "spark-b": lost})
    page = doctor_page.page(made)
    blocks = page.split("\n\n")
    assert [block.split("  ")[0].split(" ")[0] for block in blocks[1:4]] == ["ERROR", "ERROR", "WARNING"]
    assert "fixed by site.yml, role node" in blocks[2] and "apt-get install iproute2" in blocks[2]
    assert "spark-b  ?     unreachable" in blocks[0] and "0/2" in blocks[0] and "112.0/121.7" in blocks[0]
    assert (
        "2 errors, 1 warning, 0 info; 1 of 2 nodes could be looked at. site.yml fixes 1 of them." in blocks[4]
    )
    wide = [line for line in page.splitlines() if len(line) > 100]
    assert all("very-long-path" in line for line in wide) and len(wide) == 1  # a path is not broken


def test_a_page_without_findings_and_long_names():
    page = doctor_page.page(report({"spark-" + "x" * 60: looked()}))
    assert "No finding. 1 of 1 node could be looked at." in page and "ERROR" not in page
    assert max(map(len, page.splitlines())) <= 104


def test_a_node_of_which_little_is_known_has_a_row():
    for seen in (
        {},
        {"driver": None, "memory": {}, "gpu": {}, "power": {}},
        {"driver": {"driver": {"flavour": "none"}}},
    ):
        assert "spark-a" in doctor_page.page(report({"spark-a": {"node": seen}}))


# Query, files, options


def test_a_query():
    made = report({"spark-a": looked(CLOSED, NONE)})
    assert doctor_files.query("findings[?severity=='error'].id", made) == ["driver.flavour.closed"]
    assert doctor_files.query("values(hosts)[].node.kernel", made) == ["6.17.0-1014-nvidia"]
    assert doctor_files.query("nothing", made) is None


@pytest.mark.parametrize("expression", ["findings[", "", "length(`1`)", "nope(@)", "\0", "a[?" * 300, "'"])
def test_a_query_that_is_none(expression):
    with pytest.raises(doctor_files.DoctorError) as error:
        doctor_files.query(expression, report({"spark-a": looked()}))
    assert "tandem_doctor_query" in str(error.value) and "One that can is" in str(error.value)
    assert "\n" not in str(error.value)


def test_files_are_written_for_their_owner(tmp_path):
    path = tmp_path / "doctor.json"
    for content in (b"first", b"second"):
        doctor_files.write(str(path), content)
        assert path.read_bytes() == content and path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["doctor.json"]


@pytest.mark.parametrize("path", ["no/such/folder/x.json", "", "."])
def test_a_file_that_cannot_be_written(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(doctor_files.DoctorError, match="cannot be written"):
        doctor_files.write(path, b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_misspelled_option_is_told():
    known = ("tandem_doctor_json", "tandem_doctor_query")
    assert doctor_files.unknown_options(["tandem_doctor_json", "tandem_group", "x"], known) == []
    (told,) = doctor_files.unknown_options(["tandem_doctor_jsn"], known)
    assert "tandem_doctor_jsn" in told and "Did you mean tandem_doctor_json." in told


# The bundle

HOSTVARS = {
    "spark-a": {"ansible_host": "192.168.50.11", "ansible_user": "annlee", "tandem_api_key": "Tr0ub4dor"}
}
SECRET_PLACE = finding(
    "host.look.failed", [], "curl -H x:Tr0ub4dor http://192.168.50.11 by annlee", subject="It", command="y"
)


def bundled(path="doctor.tar.gz"):
    made = report({"spark-a": looked(SECRET_PLACE)})
    names = doctor_files.names(made, HOSTVARS, {"tandem": ["spark-a"], "acme-lab": ["spark-a"]})
    return doctor_files.bundle(path, made, names), names


def test_a_bundle_tells_versions_and_nobody():
    content, names = bundled()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        texts = {member.name: archive.extractfile(member).read().decode() for member in archive}
        assert {(member.uid, member.mtime) for member in archive.getmembers()} == {(0, 0)}
    assert set(texts) == {"doctor.json", "doctor.txt"}
    for word in ("Tr0ub4dor", "192.168.50.11", "annlee", "spark-a", "acme-lab"):
        assert all(word not in text for text in texts.values()), word
    made = json.loads(texts["doctor.json"])
    assert made["anonymised"] is True and made["hosts"]["host-1"]["node"]["kernel"] == "6.17.0-1014-nvidia"
    assert made["findings"][0]["id"] == "host.look.failed" and "host-1" in texts["doctor.txt"]
    assert {"acme-lab"} <= set(names.groups) and "Tr0ub4dor" in names.secrets


def test_a_bundle_is_json_where_its_name_says_so_and_the_same_each_time():
    content, _names = bundled("x.json")
    assert json.loads(content)["anonymised"] is True
    assert bundled()[0] == bundled()[0]


def test_a_bundle_that_would_tell_is_not_made(monkeypatch):
    monkeypatch.setattr(doctor_files.Anonymiser, "tree", lambda _self, value, _key="": value)
    with pytest.raises(
        doctor_files.DoctorError, match="a host and a secret and a user would still have been in it"
    ):
        bundled()


def test_a_variable_that_cannot_be_made_is_passed_over():
    class Broken(dict):
        def __getitem__(self, name):
            raise ValueError(name)

    names = doctor_files.names({}, {"spark-a": Broken(some_token="x")}, {})
    assert isinstance(names, Names) and names.secrets == ()


def test_what_site_yml_fixes_is_a_role_of_it():
    from pathlib import Path

    root = Path(__file__).parents[2]
    plays = "".join(
        (root / "playbooks" / name).read_text() for name in ("plan.yml", "site.yml", "rollout.yml")
    )
    roles = {entry.fixed_by for entry in CATALOGUE.values() if entry.fixed_by}
    assert roles and all((root / "roles" / role).is_dir() for role in roles)
    missing = {role for role in roles if f"tandem.spark.{role}\n" not in plays} - {
        "proof"
    }  # the engine's role calls it
    assert missing == set()
