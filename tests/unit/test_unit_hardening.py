# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's units are hardened, and never in a way that hides the devices or the memory that CUDA and RDMA need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest

TEMPLATE = Path(__file__).parents[2] / "roles/engine/templates/tandem-rank.service.j2"
# PrivateDevices hides /dev/nvidia* and /dev/infiniband, MemoryDenyWriteExecute forbids what compilers of kernels do,
# ProtectClock makes a list of devices that only holds the clock.
NEVER = ("PrivateDevices", "MemoryDenyWriteExecute", "ProtectClock")
HIDING = ("InaccessiblePaths", "InaccessibleDirectories", "TemporaryFileSystem", "NoExecPaths")
# systemd's own words for these, and the value without which nothing is hidden.
ONLY = {"DevicePolicy": ("auto",), "DeviceAllow": ("",)}


def directives(unit: str) -> Iterator[tuple[str, str]]:
    """(name, value) of a unit file's assignments; comments are none, and a backslash goes on in the next line."""
    joined = ""
    for line in unit.splitlines():
        if line.lstrip()[:1] in ("#", ";"):
            continue
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        name, equals, value = (joined + line).partition("=")
        joined = ""
        if equals:
            yield name.strip(), value.strip()


def hidden(unit: str) -> list[str]:
    """The directives that take from the engine what it needs."""
    found = []
    for name, value in directives(unit):
        paths = [path.strip("\"'").lstrip("-+").partition(":")[0].rstrip("/") for path in value.split()]
        if (
            name in NEVER
            or (name in ONLY and value not in ONLY[name])
            or (name in HIDING and any(path in ("", "/dev") or path.startswith("/dev/") for path in paths))
        ):
            found.append(f"{name}={value}")
    return found


def rendered(role: str, accelerator: str, **environment: str) -> str:
    jinja = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return jinja.from_string(TEMPLATE.read_text()).render(
        __tandem_role=role,
        __tandem_cache="/var/cache/tandem/0123456789abcdef",
        __tandem_commands={role: "/opt/tandem/current/runtime/bin/vllm serve"},
        __tandem_plan={
            "user": "tandem",
            "profile": {"accelerator": accelerator, "engine": {"environment": environment}},
        },
    )


def test_the_compiler_of_the_profiles_toolkit_is_on_the_path():
    """A rank without nvcc takes another code path than its peer, and says nothing."""
    assert "Environment=PATH=/usr/local/cuda/bin:" in rendered("head", "gb10")
    assert "Environment=PATH=/usr/local/cuda-13.2/bin:" in rendered(
        "head", "gb10", CUDA_HOME="/usr/local/cuda-13.2"
    )
    assert "PATH=" not in rendered("head", "none")


@pytest.mark.parametrize("role", ["head", "worker"])
@pytest.mark.parametrize("accelerator", ["gb10", "none"])
def test_the_engine_keeps_its_devices_and_its_memory(role, accelerator):
    unit = rendered(role, accelerator)
    assert hidden(unit) == []
    known = dict(directives(unit))
    assert known["User"] == "tandem" and known["NoNewPrivileges"] == "yes"
    assert known["ProtectSystem"] == "strict" and known["ReadWritePaths"] == "/var/cache/tandem"


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("PrivateDevices=yes", True),
        ("  MemoryDenyWriteExecute = true", True),
        ("ProtectClock=yes", True),
        ("DevicePolicy=closed", True),
        ("DevicePolicy=auto", False),
        ("DeviceAllow=/dev/nvidia0 rw", True),
        ("InaccessiblePaths=/home -/dev", True),
        ("InaccessiblePaths=/srv \\\n  /dev/infiniband", True),
        ("TemporaryFileSystem=/dev:ro", True),
        ("InaccessiblePaths=/developers", False),
        ("# PrivateDevices=yes", False),
        ("; DevicePolicy=strict", False),
        ("PrivateTmp=yes", False),
    ],
)
def test_what_hides_them_is_caught(line, caught):
    assert bool(hidden(rendered("head", "gb10") + line + "\n")) == caught
