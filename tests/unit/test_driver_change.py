# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holding driver and kernel, the closure of a pair, what apt may do for it, and the steps of a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.tandem.spark.plugins.module_utils import (
    apt_transaction,
    boot_readiness,
    driver,
    driver_change,
    driver_family,
    driver_hold,
    driver_pin,
    driver_record,
    grub,
)
from ansible_collections.tandem.spark.plugins.module_utils.apt_transaction import Step, read_simulation
from ansible_collections.tandem.spark.plugins.module_utils.debian_packages import (
    Available,
    Package,
    compare,
    contradicted,
    dependencies,
    read_automatic,
    read_available,
)
from ansible_collections.tandem.spark.plugins.module_utils.driver_host import DriverError
from ansible_collections.tandem.spark.plugins.module_utils.driver_record import Change, Record
from ansible_collections.tandem.spark.plugins.module_utils.kernel_files import Tree
from hypothesis import given, settings
from hypothesis import strategies as st
from pretend_apt import PretendNode
from pretend_driver import DRIVER, KERNEL, Spark, grub_config, write_modules

REVISION = "0ubuntu0.24.04.1"
NEW_DRIVER, NEW_KERNEL = "580.173.02", "6.17.0-1026-nvidia"
HWE = "nvidia-hwe-24.04"
MODULES = "linux-modules-nvidia-580-open"
USER_SPACE = (
    "nvidia-driver-580-open nvidia-kernel-common-580 nvidia-kernel-source-580-open libnvidia-gl-580 "
    "libnvidia-common-580 libnvidia-compute-580 libnvidia-extra-580 nvidia-compute-utils-580 libnvidia-decode-580 "
    "libnvidia-encode-580 nvidia-utils-580 xserver-xorg-video-nvidia-580 libnvidia-cfg1-580 libnvidia-fbc1-580"
).split()
METAS = [f"linux-{part}{HWE}" for part in ("", "image-", "headers-", "tools-")]


# -- versions and texts of dpkg and apt


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("580.142-0ubuntu1", "580.159.03-0ubuntu1"),
        ("580.9", "580.10"),
        ("6.17.0-1014.14", "6.17.0-1014.14+1000"),
        ("1.0~rc1", "1.0"),
        ("1.0", "1.0a"),
        ("1.0a", "1.0+b"),
        ("9.9", "1:0.1"),
        ("1.0-1", "1.0-1.1"),
        ("", "0.1"),
        ("1.0", "1.0-0ubuntu0~1"),
    ],
)
def test_versions_are_ordered_as_dpkg_orders_them(older, newer):
    assert compare(older, newer) < 0 < compare(newer, older)
    assert compare(older, older) == 0


def test_a_leading_zero_makes_no_other_version():
    assert compare("1.02", "1.2") == compare("1.0-0", "1.0") == 0


@settings(deadline=None)
@given(st.text(), st.text())
def test_any_text_is_compared(one, other):
    assert compare(one, other) == -compare(other, one) or compare(one, other) * compare(other, one) < 0


def test_dependencies_are_read_with_their_alternatives():
    text = "a (>= 1.2), b:any | c (<< 3) , d"
    assert list(dependencies(text)) == [
        [("a", ">=", "1.2")],
        [("b", "", ""), ("c", "<<", "3")],
        [("d", "", "")],
    ]


@pytest.mark.parametrize(
    ("depends", "wrong"),
    [
        ("a (= 1)", []),
        ("a (= 2)", ["a (= 2)"]),
        ("a (= 2) | unknown", []),
        ("a (>> 1), a (<= 1)", ["a (>> 1)"]),
        ("unknown (= 7)", []),
        ("", []),
        ("a", []),
        ("%%%, (", []),
    ],
)
def test_what_contradicts_known_versions(depends, wrong):
    assert contradicted(depends, {"a": "1"}) == wrong


@settings(deadline=None)
@given(st.text())
def test_any_text_of_apt_is_read(text):
    read_available(text)
    read_automatic(text)
    list(dependencies(text))
    read_simulation(text)


def test_available_versions_come_newest_first_and_once():
    text = "\n\n".join(
        f"Package: a\nVersion: {version}\nDepends: b" for version in ("1.9", "1.10", "1.9", "1.10~1")
    )
    assert [each.version for each in read_available(text)["a"]] == ["1.10", "1.10~1", "1.9"]
    assert read_available("Package: a\n\nVersion: 1") == {}


def test_what_autoremove_may_take():
    text = "Package: a\nArchitecture: arm64\nAuto-Installed: 1\n\nPackage: b\nAuto-Installed: 0\n\nAuto-Installed: 1\n"
    assert read_automatic(text) == {"a"}


# -- what belongs to driver and kernel


@pytest.mark.parametrize(
    ("name", "release", "flavour"),
    [
        ("linux-image-6.17.0-1014-nvidia", "6.17.0-1014-nvidia", None),
        ("linux-modules-nvidia-580-open-6.17.0-1014-nvidia", "6.17.0-1014-nvidia", "580-open"),
        ("linux-modules-nvidia-580-6.17.0-1014-nvidia-64k", "6.17.0-1014-nvidia-64k", "580"),
        ("linux-modules-nvidia-580-open-nvidia-hwe-24.04", None, "580-open"),
        ("linux-modules-nvidia-fs-nvidia-hwe-24.04", None, None),
        ("linux-modules-6.17.0-1014-nvidia", "6.17.0-1014-nvidia", None),
        ("linux-nvidia-hwe-24.04", None, None),
        ("nvidia-driver-580-open", None, None),
    ],
)
def test_what_a_name_tells(name, release, flavour):
    assert (driver_family.release_of(name), driver_family.flavour_of_modules(name)) == (release, flavour)
    assert driver_family.in_family(name)


@pytest.mark.parametrize(
    "name", ["bash", "nvidia-container-toolkit", "libnvidia-container1", "linux-libc-dev", "cuda-toolkit"]
)
def test_what_is_neither_driver_nor_kernel(name):
    assert not driver_family.in_family(name)


# -- a pretend node's packages, and what apt offers


def installed(
    driver_version: str = DRIVER, kernel: str = KERNEL, state: str = "ii", **more: str
) -> dict[str, Package]:
    whole = f"{driver_version}-{REVISION}"
    number = kernel.split("-")[1]
    meta = f"6.17.0-{number}.{number[2:]}"
    versions = {
        **dict.fromkeys(USER_SPACE, whole),
        f"nvidia-firmware-580-{driver_version}": whole,
        **dict.fromkeys(METAS, meta),
        f"{MODULES}-{HWE}": meta,
        **{f"linux-{kind}-{kernel}": meta for kind in ("image", "modules", "headers")},
        f"{MODULES}-{kernel}": meta,
        "dgx-spark-ota-update-meta": "26.04.1",
        "dgx-release": "7.5.0",
        "bash": "5.2",
        **more,
    }
    depends = {"dgx-spark-ota-update-meta": f"nvidia-driver-580-open (>= {driver_version})"}
    return {name: Package(name, version, state, depends.get(name, "")) for name, version in versions.items()}


def offered(*pairs: tuple[str, str, str]) -> dict[str, list[Available]]:
    """What apt knows: (driver, number of the kernel, revision of its modules), the newest first."""
    found: dict[str, dict[str, Available]] = {}

    def add(name: str, version: str, depends: str = "") -> None:
        found.setdefault(name, {})[version] = Available(name, version, depends)

    for version, number, revision in pairs:
        whole, kernel, meta = (
            f"{version}-{REVISION}",
            f"6.17.0-{number}-nvidia",
            f"6.17.0-{number}.{number[2:]}",
        )
        for name in (*USER_SPACE, f"nvidia-firmware-580-{version}"):
            add(name, whole)
        common = f"nvidia-kernel-common-580 (<= {version}-1), nvidia-kernel-common-580 (>= {version})"
        add(f"{MODULES}-{kernel}", meta + revision, common)
        add(f"{MODULES}-{HWE}", meta + revision, f"{MODULES}-{kernel} (= {meta + revision})")
        for name in METAS:
            add(name, meta)
        for kind in ("image", "modules", "headers"):
            add(f"linux-{kind}-{kernel}", meta)
    for version, least in (("26.09.1", "580.173.02"), ("26.04.1", "580.142")):
        add("dgx-spark-ota-update-meta", version, f"nvidia-driver-580-open (>= {least})")
    return {name: list(versions.values()) for name, versions in found.items()}


EVERYTHING = offered(
    (NEW_DRIVER, "1026", "+3"), (NEW_DRIVER, "1014", "+2"), (DRIVER, "1026", ""), (DRIVER, "1014", "")
)


def closure(packages=None, offer=EVERYTHING, wanted=NEW_DRIVER, kernel="", running=KERNEL):
    packages = installed() if packages is None else packages
    drivers = sorted(driver_family.versions(packages))
    return driver_pin.closure(packages, offer, drivers, running, wanted, kernel)


# -- the closure of a pair


def test_a_pair_is_pinned_as_a_whole():
    found = closure(
        installed(NEW_DRIVER, NEW_KERNEL), wanted=DRIVER, kernel="6.17.0-1014", running=NEW_KERNEL
    )
    assert (found.driver, found.kernel, found.fallback) == (DRIVER, KERNEL, True)
    whole = f"{DRIVER}-{REVISION}"
    assert {name: found.pins[name] for name in USER_SPACE} == dict.fromkeys(USER_SPACE, whole)
    assert {found.pins[name] for name in METAS} == {"6.17.0-1014.14"}
    assert found.pins[f"nvidia-firmware-580-{DRIVER}"] == whole
    assert found.leaves == {f"nvidia-firmware-580-{NEW_DRIVER}"}
    assert found.pins[f"{MODULES}-{KERNEL}"] == "6.17.0-1014.14"
    assert found.pins[f"{MODULES}-{NEW_KERNEL}"] == "6.17.0-1026.26", "the way back keeps its modules too"
    assert found.pins["dgx-spark-ota-update-meta"] == "26.04.1"
    assert len(found.pins) >= 21


def test_the_running_kernel_stays_where_the_driver_has_modules_for_it():
    found = closure()
    assert found.kernel == KERNEL
    assert found.pins[f"{MODULES}-{KERNEL}"] == found.pins[f"{MODULES}-{HWE}"] == "6.17.0-1014.14+2"
    assert "nvidia-container-toolkit" not in found.pins and "bash" not in found.pins


def test_else_the_newest_kernel_that_has_them():
    offer = offered((NEW_DRIVER, "1032", ""), (NEW_DRIVER, "1026", "+3"), (DRIVER, "1014", ""))
    found = closure(offer=offer)
    assert (found.kernel, found.fallback) == ("6.17.0-1032-nvidia", False)


def test_a_named_kernel_is_taken():
    assert closure(kernel="6.17.0-1026").kernel == closure(kernel=NEW_KERNEL).kernel == NEW_KERNEL
    with pytest.raises(driver_pin.PinError, match="no modules of this driver for kernel 6.17.0-102;"):
        closure(kernel="6.17.0-102")


def test_the_metapackage_of_updates_moves_only_where_it_must():
    assert "dgx-spark-ota-update-meta" not in closure().pins


def test_modules_of_dkms_fit_any_kernel():
    whole = f"{NEW_DRIVER}-{REVISION}"
    offer = {**EVERYTHING, "nvidia-dkms-580-open": [Available("nvidia-dkms-580-open", whole)]}
    packages = installed(**{"nvidia-dkms-580-open": f"{DRIVER}-{REVISION}"})
    found = closure(packages, offer)
    assert found.pins["nvidia-dkms-580-open"] == whole and found.fallback


def test_a_half_done_transaction_is_still_one_closure():
    packages = installed()
    for name in USER_SPACE[:5]:
        packages[name] = Package(name, f"{NEW_DRIVER}-{REVISION}", "iU")
    assert closure(packages).pins == {**closure().pins}


@pytest.mark.parametrize(
    ("wanted", "target", "name"),
    [
        ("590.48.01", "nvidia-utils-590", "nvidia-utils-580"),
        ("595.84", "nvidia-utils", "nvidia-utils-580"),
        ("595.84", "libnvidia-compute", "libnvidia-compute-580"),
    ],
)
def test_names_of_another_branch(wanted, target, name):
    assert target in list(driver_pin._names(name, DRIVER, wanted))


def test_back_to_a_branch_that_has_its_name_in_its_packages():
    assert "nvidia-driver-580-open" in list(driver_pin._names("nvidia-driver-open", "595.84", DRIVER))
    assert "libnvidia-compute-580" in list(driver_pin._names("libnvidia-compute", "595.84", DRIVER))


def test_everything_that_is_missing_is_said_at_once():
    offer = {
        name: versions for name, versions in EVERYTHING.items() if name not in ("nvidia-utils-580", METAS[3])
    }
    with pytest.raises(driver_pin.PinError) as error:
        closure(offer=offer)
    assert len(error.value.problems) == 2
    assert "nvidia-utils-580 has no version of driver 580.173.02" in str(error.value)
    assert f"{METAS[3]} has no version for kernel" in str(error.value)


def test_a_driver_that_apt_does_not_know_is_one_problem():
    with pytest.raises(driver_pin.PinError) as error:
        closure(wanted="999.1")
    assert error.value.problems == [
        "apt knows no package of driver 999.1; it knows 580.142, 580.173.02. Run apt-get update"
    ]


def test_the_preferences_are_of_the_priority_that_goes_down_too():
    text = closure().preferences
    assert f"Package: nvidia-utils-580\nPin: version {NEW_DRIVER}-{REVISION}\nPin-Priority: 1001\n" in text


# -- what apt would do


SIMULATION = f"""NOTE: This is only a simulation!
Inst linux-image-{NEW_KERNEL} (6.17.0-1026.26 lab:lab [all])
Inst nvidia-utils-580 [{DRIVER}-{REVISION}] ({NEW_DRIVER}-{REVISION} lab:lab [all]) []
Remv nvidia-firmware-580-{DRIVER} [{DRIVER}-{REVISION}]
Inst libfoo:arm64 [2.0] (1.0 lab:lab [arm64])
Conf nvidia-utils-580 ({NEW_DRIVER}-{REVISION} lab:lab [all])
"""


def test_a_simulation_is_read():
    steps = read_simulation(SIMULATION)
    assert [(each.name, each.action) for each in steps] == [
        (f"linux-image-{NEW_KERNEL}", "install"),
        ("nvidia-utils-580", "upgrade"),
        (f"nvidia-firmware-580-{DRIVER}", "remove"),
        ("libfoo", "downgrade"),
    ]
    assert apt_transaction.table(steps).splitlines()[-1] == "1 remove, 1 downgrade, 1 upgrade, 1 install"
    assert apt_transaction.table([]) == ""


def allowed(*more: Step, packages=None, whole=True, without=()):
    packages = installed() if packages is None else packages
    found = closure(packages, kernel=NEW_KERNEL)
    steps = [
        Step(name, packages[name].version if name in packages else "", version)
        for name, version in found.missing(packages).items()
        if name not in without
    ]
    gone = Step(f"nvidia-firmware-580-{DRIVER}", f"{DRIVER}-{REVISION}", "")
    return apt_transaction.problems([*steps, gone, *more], found, packages, KERNEL, whole)


def test_the_closure_and_what_it_replaces_may_be_done():
    assert allowed() == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nvidia-container-toolkit", "which the change does not replace"),
        ("lab-monitor", "which the change does not replace"),
        ("nvidia-utils-580", "which the change does not replace"),
        (f"linux-image-{KERNEL}", "by which this node boots"),
        (f"linux-modules-{KERNEL}", "by which this node boots"),
        (f"linux-image-{NEW_KERNEL}", "by which this node boots"),
        (f"{MODULES}-{KERNEL}", "would boot without a GPU"),
    ],
)
def test_a_removal_that_stops_the_change(name, said):
    assert any(f"apt would remove {name}" in each and said in each for each in allowed(Step(name, "1", "")))


def test_a_removal_that_was_allowed_on_the_command_line():
    gone = Step(f"{MODULES}-{KERNEL}", "1", "")
    packages = installed()
    old = packages[f"{MODULES}-{KERNEL}"]
    packages[old.name] = Package(old.name, old.version, "hi", f"nvidia-kernel-common-580 (<= {DRIVER}-1)")
    found = closure(packages, offer=offered((NEW_DRIVER, "1026", ""), (DRIVER, "1014", "")))
    assert not found.fallback
    assert f"{old.name}-" in found.words(packages), "apt would not take a held package away unasked"
    steps = [Step(name, "", version) for name, version in found.pins.items()]
    assert apt_transaction.problems([*steps, gone], found, installed(), KERNEL, whole_fallback=False) == []
    assert len(apt_transaction.problems([*steps, gone], found, installed(), KERNEL, whole_fallback=True)) == 1


def test_modules_of_an_old_kernel_may_go():
    assert allowed(Step(f"{MODULES}-6.17.0-1008-nvidia", "1", "")) == []


def test_what_somebody_holds_is_not_changed():
    packages = {**installed(), "docker.io": Package("docker.io", "1", "hi")}
    assert "somebody holds" in allowed(Step("docker.io", "1", "2"), packages=packages)[0]
    assert allowed(Step("docker.io", "1", "2")) == []


def test_a_pin_that_apt_does_not_follow_is_said():
    assert "apt would leave nvidia-utils-580 at 580.142" in allowed(without=["nvidia-utils-580"])[0]


# -- holding


AUTOMATIC = {"dgx-release", "nvidia-driver-580-open", METAS[0], "bash", f"linux-image-{KERNEL}"}


def held_steps(packages, automatic=AUTOMATIC, record=None, releases=(KERNEL,), unmasked=()):
    return driver_hold.holding(packages, automatic, releases, unmasked, record or Record())


def test_what_runs_is_held_and_safe_from_autoremove():
    steps = held_steps(installed(), unmasked=["once.service"])
    assert {"nvidia-driver-580-open", f"nvidia-firmware-580-{DRIVER}", f"{MODULES}-{KERNEL}", *METAS} < set(
        steps.hold
    )
    assert f"linux-image-{KERNEL}" in steps.hold
    assert not {"bash", "dgx-release", "dgx-spark-ota-update-meta"} & set(steps.hold)
    assert set(steps.manual) == AUTOMATIC - {"bash"}
    assert steps.mask == ("once.service",)


def test_held_twice_is_held_once():
    packages = installed(state="hi")
    assert not held_steps(packages, automatic=set())


def test_an_old_kernel_is_left_to_autoremove():
    old = "linux-image-6.17.0-1008-nvidia"
    packages = installed(**{old: "6.17.0-1008.8"})
    steps = held_steps(packages, automatic={old})
    assert old not in steps.hold and old not in steps.manual


def test_packages_that_are_removed_are_not_held():
    packages = {**installed(), "nvidia-driver-570": Package("nvidia-driver-570", f"{DRIVER}-1", "rc")}
    assert "nvidia-driver-570" not in held_steps(packages).hold


def test_what_was_held_for_another_pair_is_let_go_and_all_of_it_can_be_undone():
    before = installed()
    record = driver_hold.remembered(Record(), held_steps(before))
    after = {**installed(NEW_DRIVER, NEW_KERNEL), f"linux-image-{KERNEL}": before[f"linux-image-{KERNEL}"]}
    steps = held_steps(after, automatic=set(), record=record, releases=(NEW_KERNEL,))
    assert steps.unhold == (f"linux-image-{KERNEL}",) == steps.auto
    record = driver_hold.remembered(record, steps)
    undone = driver_hold.releasing(after, set(), record)
    assert set(undone.unhold) == {name for name in record.held if name in after}
    assert "dgx-release" in undone.auto and f"linux-image-{KERNEL}" not in undone.unhold


def test_what_others_held_is_not_ours_to_let_go():
    packages = installed(state="hi")
    record = driver_hold.remembered(Record(), held_steps(packages, automatic=set()))
    assert record.empty and not driver_hold.releasing(packages, set(), record)


def test_the_picture_shows_both_sides():
    packages, steps = installed(), held_steps(installed())
    assert "automatically installed dgx-release" in driver_hold.picture(packages, AUTOMATIC)
    after = driver_hold.picture(packages, AUTOMATIC, steps)
    assert "held nvidia-utils-580" in after and "automatically installed" not in after and "bash" not in after


# -- the record


CHANGE = Change("booting", NEW_DRIVER, NEW_KERNEL, (DRIVER, KERNEL), "b1", "2026-11-30T00:00:00Z", ("why",))


def test_a_record_comes_back_as_it_was(tmp_path):
    path = str(tmp_path / "tandem/driver.json")
    assert driver_record.read(path) == Record()
    record = Record(("a",), ("b",), ("c",), True, CHANGE)
    driver_record.write(record, path)
    assert driver_record.read(path) == record
    driver_record.write(Record(), path)
    assert not Path(path).exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "\0",
        "{",
        json.dumps({"held": 1}),
        json.dumps({"held": [], "manual": [], "masked": [], "grub": 7, "change": None}),
        json.dumps({"held": [], "manual": [], "masked": [], "grub": False, "change": {"stage": "x"}}),
        json.dumps({"held": [1], "manual": [], "masked": [], "grub": False, "change": None}),
    ],
)  # one row a line
def test_a_record_that_makes_no_sense_is_said(tmp_path, text):
    (tmp_path / "driver.json").write_text(text)
    with pytest.raises(ValueError, match="cannot be understood"):
        driver_record.read(str(tmp_path / "driver.json"))


# -- which step is due


def due(root: Path, spark: Spark, change: Change | None = None, packages=None, boot_id: str = "b2") -> str:
    look = driver.look(spark.write(root), "")
    wanted = driver_pin.Closure(NEW_DRIVER, NEW_KERNEL, {"x": "1"}, frozenset(), True)
    there = {"x": Package("x", "1", "ii")} if packages is None else packages
    return driver_change.due(look, there, wanted, Record(change=change), boot_id)[0]


KERNELS = {KERNEL: DRIVER, NEW_KERNEL: NEW_DRIVER}
RUNS = {
    "loaded": NEW_DRIVER,
    "userspace": NEW_DRIVER,
    "running": NEW_KERNEL,
    "kernels": {NEW_KERNEL: NEW_DRIVER},
}


def test_the_steps_of_a_change_in_their_order(tmp_path):
    assert due(tmp_path / "a", Spark(), packages={}) == "install"
    assert due(tmp_path / "b", Spark(), replace_stage("installed")) == "boot"
    assert due(tmp_path / "c", Spark(), replace_stage("booting"), boot_id="b1") == "boot"
    assert due(tmp_path / "d", Spark(**RUNS), replace_stage("booting")) == "judge"
    assert due(tmp_path / "e", Spark(**RUNS), replace_stage("good")) == "prove"
    assert due(tmp_path / "f", Spark(**RUNS)) == "none"


def replace_stage(stage: str) -> Change:
    return Change(stage, NEW_DRIVER, NEW_KERNEL, (DRIVER, KERNEL), "b1")


def test_a_kernel_that_did_not_come_up_is_judged_not_booted_again(tmp_path):
    assert due(tmp_path, Spark(), replace_stage("booting")) == "judge"


def test_after_a_failure_an_operator_may_try_again(tmp_path):
    assert due(tmp_path, Spark(), replace_stage("failed")) == "boot"


def test_a_pair_that_runs_and_is_not_the_default_is_judged(tmp_path):
    spark = Spark(**{**RUNS, "kernels": KERNELS}, grub=grub_config(KERNEL, NEW_KERNEL))
    assert due(tmp_path, spark) == "judge"


def test_a_broken_package_of_the_family_is_installed_first(tmp_path):
    packages = {"x": Package("x", "1", "ii"), "nvidia-utils-580": Package("nvidia-utils-580", "1", "iU")}
    assert due(tmp_path, Spark(**RUNS), packages=packages) == "install"


def test_a_wish_that_was_given_up_does_not_count(tmp_path):
    other = Change("booting", "570.1", KERNEL, (DRIVER, KERNEL), "b1")
    assert due(tmp_path, Spark(**RUNS), other) == "none"


def test_reasons_why_a_pair_is_not_good(tmp_path):
    look = driver.look(Spark(**RUNS).write(tmp_path / "a"), "")
    assert driver_change.reasons(look, NEW_DRIVER, NEW_KERNEL) == []
    look = driver.look(Spark().write(tmp_path / "b"), "")
    said = " ".join(driver_change.reasons(look, NEW_DRIVER, NEW_KERNEL))
    assert "it did not come up" in said and "driver 580.142 is loaded, wanted is 580.173.02" in said
    look = driver.look(Spark(**{**RUNS, "loaded": None}).write(tmp_path / "c"), "")
    assert "driver none is loaded" in " ".join(driver_change.reasons(look, NEW_DRIVER, NEW_KERNEL))


# -- will it boot


def ready_node(root: Path) -> Tree:
    Spark(kernels=KERNELS).write(root)
    for release in KERNELS:
        for name in ("vmlinuz", "initrd.img"):
            (root / f"boot/{name}-{release}").write_bytes(bytes(2048))
    return Tree(str(root))


def unready(tree: Tree, modinfo: str = "") -> list[str]:
    return boot_readiness.unready(tree, NEW_KERNEL, NEW_DRIVER, {}, lambda path: modinfo)


def test_a_kernel_that_will_boot(tmp_path):
    assert unready(ready_node(tmp_path)) == []


def test_each_thing_that_keeps_a_kernel_from_booting(tmp_path):
    tree = ready_node(tmp_path)
    (tmp_path / f"boot/initrd.img-{NEW_KERNEL}").write_bytes(b"")
    assert unready(tree)[0].startswith(f"/boot/initrd.img-{NEW_KERNEL} has only 0 bytes")
    (tmp_path / f"boot/vmlinuz-{NEW_KERNEL}").unlink()
    (tmp_path / "boot/grub/grub.cfg").write_text(grub_config(KERNEL))
    write_modules(tmp_path, NEW_KERNEL, DRIVER)
    said = "\n".join(unready(tree))
    for word in ("vmlinuz", "is of driver 580.142, wanted is 580.173.02", "GRUB's menu has no entry"):
        assert word in said
    (tmp_path / f"lib/modules/{NEW_KERNEL}/modules.dep").write_text("kernel/veth.ko:\n")
    (tmp_path / f"lib/modules/{NEW_KERNEL}/kernel/nvidia-580-open/nvidia.ko").unlink()
    assert "has no NVIDIA module" in "\n".join(unready(tree))


@pytest.mark.parametrize(
    ("variable", "tail", "complains"),
    [
        (b"\6\0\0\0\1", b"", True),
        (b"\6\0\0\0\1", boot_readiness.SIGNED, False),
        (b"\6\0\0\0\0", b"", False),
        (b"", b"", True),
        (None, b"", False),
    ],
)
def test_a_firmware_that_takes_signed_modules_only(tmp_path, variable, tail, complains):
    tree = ready_node(tmp_path)
    module = tmp_path / f"lib/modules/{NEW_KERNEL}/kernel/nvidia-580-open/nvidia.ko"
    module.write_bytes(module.read_bytes() + tail)
    if variable is not None:
        file = tmp_path / boot_readiness.SECURE_BOOT
        file.parent.mkdir(parents=True)
        file.write_bytes(variable)
    assert any("signed" in each for each in unready(tree)) == complains


@pytest.mark.parametrize(
    ("said", "signed"), [("signer:  Canonical", True), ("license: GPL", False), ("", None)]
)
def test_a_compressed_module_is_asked_for_its_signature(said, signed):
    assert boot_readiness.signed("nvidia.ko.zst", lambda path: said) is signed


def test_too_little_room_is_said_for_each_place(tmp_path):
    tree = ready_node(tmp_path)
    assert boot_readiness.room(tree, lambda path: 1 << 40) == []
    said = boot_readiness.room(tree, lambda path: 1 << 20)
    assert [each.split()[0] for each in said] == ["/boot", "/"]


# -- GRUB


def test_the_way_to_a_kernel_is_the_entry_that_stays_its_own():
    config = grub_config(NEW_KERNEL, KERNEL)
    assert grub.way_to(config, NEW_KERNEL) == f"gnulinux-advanced>gnulinux-{NEW_KERNEL}-advanced"
    environment = f"saved_entry={grub.way_to(config, KERNEL)}\n"
    saved = config.replace('set default="0"', 'set default="${saved_entry}"')
    assert grub.next_entry(saved, environment).release == KERNEL
    once = environment + f"next_entry={grub.way_to(config, NEW_KERNEL)}\n"
    assert grub.next_entry(saved, once).release == NEW_KERNEL


@pytest.mark.parametrize("config", ["", "menuentry 'x' {\n", "submenu 'a' {\n}\n", "\0"])
def test_no_way_without_an_entry(config):
    assert grub.way_to(config, KERNEL) is None


def test_recovery_is_no_way():
    entry = f"menuentry 'DGX OS, with Linux {KERNEL} (recovery mode)' --id r {{\nlinux /boot/vmlinuz-{KERNEL} ro\n}}\n"
    assert grub.way_to(f"submenu 'Advanced' --id a {{\n{entry}}}\n", KERNEL) is None
    plain = entry.replace(" (recovery mode)", "")
    assert grub.way_to(plain, KERNEL) == "r", "a menu without submenus"


def test_booting_once_is_for_configurations_that_forget_it():
    assert not grub.boots_once("") and not grub.boots_once("if [ ${next_entry} ]; then")
    once = 'set default="${next_entry}"\nset next_entry=\nsave_env next_entry\n'
    assert grub.boots_once(once)
    assert not grub.boots_once(
        f"{once}# GRUB lacks write support for lvm, so recordfail support is disabled.\n"
    )


# -- a change from its plan to its end, on a pretend node


WISH = (NEW_DRIVER, NEW_KERNEL, True)
PAIR = (NEW_DRIVER, NEW_KERNEL)


@pytest.fixture
def node(tmp_path) -> PretendNode:
    packages = installed(state="hi")
    name = f"{MODULES}-{KERNEL}"
    depends = next(each.depends for each in EVERYTHING[name] if each.version == "6.17.0-1014.14")
    packages[name] = Package(name, "6.17.0-1014.14", "hi", depends)
    return PretendNode(tmp_path, packages, EVERYTHING)


def test_a_plan_changes_nothing(node):
    before = dict(node.there)
    plan = driver_change.plan(node, *WISH)
    assert (plan.step, plan.reboots, plan.problems) == ("install", True, [])
    assert plan.warnings == [] and len(plan.transaction) >= 21
    assert node.there == before and node.record() == Record() and node.preferences() is None


def test_a_change_up_to_its_proof(node):
    assert driver_change.install(node, *WISH).step == "install"
    assert node.record().change.stage == "installed" and node.boots_next() == KERNEL
    assert "Pin-Priority: 1001" in node.preferences()
    driver_change.boot_once(node, *PAIR)
    assert node.boots_next() == NEW_KERNEL
    node.boot()
    assert node.boots_next() == KERNEL, "until it is judged"
    assert driver_change.plan(node, *WISH).step == "judge"
    assert driver_change.judge(node, *PAIR, [], 0) == []
    assert node.boots_next() == NEW_KERNEL and driver_change.plan(node, *WISH).step == "prove"
    assert driver_change.finish(node) and not driver_change.finish(node)
    assert driver_change.plan(node, *WISH).step == "none"
    assert driver_change.plan(node, DRIVER, KERNEL, True).step == "install", "and the way back is one too"


@pytest.mark.parametrize("after", [1, 7, -1, 0])
def test_apt_that_was_killed_is_taken_up(node, after):
    """After the first package, amid them, at the last one, and when all of them were there."""
    words = driver_change.plan(node, *WISH).closure.words(node.there)
    node.dies = after if after > 0 else len(words) + after
    with pytest.raises(DriverError, match="killed"):
        driver_change.install(node, *WISH)
    assert node.record().change.stage == "installing" and bool(node.audit()) == (after != 0)
    assert node.boots_next() == KERNEL
    assert driver_change.plan(node, *WISH).problems == []
    plan = driver_change.install(node, *WISH)
    assert (plan.step, plan.problems, node.audit()) == ("install", [], "")
    assert node.record().change.stage == "installed"
    assert node.record().change.before == (DRIVER, KERNEL)


@pytest.mark.parametrize(
    ("boot", "said"),
    [({"panics": True}, "it did not come up"), ({"driver": False}, "driver none is loaded")],
)
def test_what_does_not_come_up_well_is_not_the_default(node, boot, said):
    driver_change.install(node, *WISH)
    driver_change.boot_once(node, *PAIR)
    node.boot(**boot)
    reasons = driver_change.judge(node, *PAIR, [], 0)
    assert said in " ".join(reasons)
    assert node.boots_next() == KERNEL and node.record().change.stage == "failed"
    assert driver_change.plan(node, *WISH).step == "boot", "an operator may try again"


def test_rails_that_are_not_back_keep_a_kernel_from_being_the_default(node):
    driver_change.install(node, *WISH)
    driver_change.boot_once(node, *PAIR)
    node.boot()
    assert driver_change.judge(node, *PAIR, ["the rails are not back"], 0) == ["the rails are not back"]
    assert node.boots_next() == KERNEL


def test_everything_in_the_way_is_said_at_once(node):
    node.free_bytes = 0
    node.there["vim"] = Package("vim", "1", "iU")
    (node.root / "boot/grub/grub.cfg").write_text("")
    node._save = lambda: None  # nobody writes the menu anew
    said = "\n".join(driver_change.plan(node, *WISH).problems)
    for word in ("next_entry", "no way back", "/boot has 0.00 GiB", "/ has 0.00 GiB", "dpkg --configure -a"):
        assert word in said


def test_a_dpkg_that_is_not_through_is_not_booted_over_either(node):
    driver_change.install(node, *WISH)
    node.there["vim"] = Package("vim", "1", "iU")
    plan = driver_change.plan(node, *WISH)
    assert plan.step == "boot" and "dpkg --configure -a" in " ".join(plan.problems)


def test_room_is_asked_for_before_packages_come_not_after(node):
    driver_change.install(node, *WISH)
    node.free_bytes = 0
    plan = driver_change.plan(node, *WISH)
    assert (plan.step, plan.problems) == ("boot", []), "the new kernel itself took the room"


def test_nothing_is_installed_where_there_are_problems(node):
    node.free_bytes = 0
    before = dict(node.there)
    assert driver_change.install(node, *WISH).problems
    assert node.there == before and node.record() == Record()


def test_a_pair_that_is_known_to_be_bad_is_refused_and_a_contested_one_warned_of(tmp_path):
    bad = offered((NEW_DRIVER, "1008", ""), (NEW_DRIVER, "1014", "+2"), (DRIVER, "1014", ""))
    node = PretendNode(tmp_path / "a", installed(), bad)
    assert "is known to be bad" in driver_change.plan(node, NEW_DRIVER, "6.17.0-1008", True).problems[0]
    contested = offered(("580.159.03", "1014", "+1"), (DRIVER, "1014", ""))
    plan = driver_change.plan(PretendNode(tmp_path / "b", installed(), contested), "580.159.03", "", True)
    assert plan.problems == [] and "is contested" in plan.warnings[0]


def test_a_kernel_without_its_module_is_not_booted(node):
    driver_change.install(node, *WISH)
    del node.there[f"{MODULES}-{NEW_KERNEL}"]
    write_modules(node.root, NEW_KERNEL, None)
    (node.root / f"lib/modules/{NEW_KERNEL}/kernel/nvidia-580-open/nvidia.ko").unlink()
    with pytest.raises(DriverError, match="has no NVIDIA module"):
        driver_change.boot_once(node, *PAIR)
    assert node.boots_next() == KERNEL


def test_a_node_without_a_running_kernel_to_see_is_not_touched(node):
    (node.root / "proc/sys/kernel/osrelease").unlink()
    plan = driver_change.plan(node, *WISH)
    assert plan.step == "none" and plan.problems
