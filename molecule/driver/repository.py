# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An apt repository of stub packages with the names, versions and dependencies that DGX OS has.

They hold next to nothing, but what they do is real: apt resolves them, dpkg unpacks them, a kernel's package writes its
initramfs and has GRUB's menu written.
"""

from __future__ import annotations

from pathlib import Path

import stubs
from stubs import Stub

PLACE = "/srv/lab/apt"  # where a node has it
REVISION = "0ubuntu0.24.04.1"
FLAVOUR = "580-open"
HWE = "nvidia-hwe-24.04"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
USER_SPACE = (
    "nvidia-kernel-source-580-open",
    *(
        f"libnvidia-{part}-580"
        for part in ("gl", "common", "compute", "extra", "decode", "encode", "cfg1", "fbc1")
    ),
    "nvidia-compute-utils-580",
    "nvidia-utils-580",
    "xserver-xorg-video-nvidia-580",
)
# The driver builds of each kernel's modules, and the revision of the package that has them.
KERNELS = {
    "1014": {"580.142": "", "580.159.03": "+1", "580.173.02": "+2"},
    "1026": {"580.142": "", "580.159.03": "+1", "580.173.02": "+3"},
    "1032": {"580.173.02": "", "580.178.04": "+1"},
}
DRIVERS = sorted({driver for builds in KERNELS.values() for driver in builds})
OTA = {
    "26.04.1": "580.142",
    "26.09.1": "580.173.02",
}  # the update of DGX OS and the least driver that it wants


def driver(version: str) -> list[Stub]:
    whole = f"{version}-{REVISION}"
    exact = [f"{name} (= {whole})" for name in USER_SPACE]
    firmware = f"nvidia-firmware-580-{version}"
    common = f"nvidia-kernel-common-580 (= {whole})"
    library = {
        f"{LIBRARIES}/libnvidia-ml.so.{version}": b"",
        f"{LIBRARIES}/libnvidia-ml.so.1": f"-> libnvidia-ml.so.{version}",
    }
    parts = [
        Stub(name, whole, files=library if "compute-580" in name and "lib" in name else {})
        for name in USER_SPACE
    ]
    alone = {"Provides": "nvidia-firmware", "Conflicts": "nvidia-firmware", "Replaces": "nvidia-firmware"}
    return [
        *parts,
        Stub(firmware, whole, more=alone),
        Stub("nvidia-kernel-common-580", whole, [f"{firmware} (= {whole})"]),
        Stub("nvidia-driver-580-open", whole, [common, *exact]),
    ]


def module(version: str) -> bytes:
    return b"\x7fELF" + bytes(64) + f"license=Dual MIT/GPL\0version={version}\0".encode()


def kernel(number: str, builds: dict[str, str]) -> list[Stub]:
    release, whole = f"6.17.0-{number}-nvidia", f"6.17.0-{number}.{number[2:]}"
    image = Stub(
        f"linux-image-{release}",
        whole,
        [f"linux-modules-{release}"],
        files={f"boot/vmlinuz-{release}": bytes(4096)},
        postinst=f"head -c 8192 /dev/zero > /boot/initrd.img-{release}; update-grub",
    )
    listed = f"cd /lib/modules/{release}; find kernel -name '*.ko' -printf '%p:\\n' > modules.dep"
    parts = [
        image,
        Stub(
            f"linux-modules-{release}",
            whole,
            files={f"lib/modules/{release}/kernel/veth.ko": b""},
            postinst=listed,
        ),
        Stub(f"linux-headers-{release}", whole),
        Stub(f"linux-tools-{release}", whole),
        Stub(f"linux-image-{HWE}", whole, [f"linux-image-{release}"]),
        Stub(f"linux-headers-{HWE}", whole, [f"linux-headers-{release}"]),
        Stub(f"linux-tools-{HWE}", whole, [f"linux-tools-{release}"]),
        Stub(f"linux-{HWE}", whole, [f"linux-image-{HWE} (= {whole})", f"linux-headers-{HWE} (= {whole})"]),
    ]
    for version, revision in builds.items():
        name, built = f"linux-modules-nvidia-{FLAVOUR}-{release}", whole + revision
        common = [f"nvidia-kernel-common-580 ({sign})" for sign in (f"<= {version}-1", f">= {version}")]
        where = f"lib/modules/{release}/kernel/nvidia-{FLAVOUR}/nvidia.ko"
        parts += [
            Stub(
                name,
                built,
                [f"linux-image-{release}", *common],
                files={where: module(version)},
                postinst=listed,
            ),
            Stub(f"linux-modules-nvidia-{FLAVOUR}-{HWE}", built, [f"{name} (= {built})"]),
        ]
    return parts


def everything() -> list[Stub]:
    utils = f"nvidia-utils-580 (= 580.142-{REVISION})"
    return [
        *(stub for version in DRIVERS for stub in driver(version)),
        *(stub for number, builds in KERNELS.items() for stub in kernel(number, builds)),
        *(
            Stub("dgx-spark-ota-update-meta", version, [f"nvidia-driver-580-open (>= {least})"])
            for version, least in OTA.items()
        ),
        Stub("dgx-release", "7.5.0"),
        Stub("dgx-platform", "7.5.0", ["dgx-dashboard"]),
        Stub("dgx-dashboard", "0.29.0"),
        # Not of DGX OS: one that an upgrade may take, and one that wants this very driver.
        Stub("lab-tool", "1.0"),
        Stub("lab-tool", "2.0"),
        Stub("lab-monitor", "1.0", [utils]),
    ]


def build(folder: Path) -> None:
    """Fills a folder with the packages and what apt reads of them."""
    stubs.build(folder, everything(), {"Origin": "lab", "Label": "lab", "Suite": "lab"})
