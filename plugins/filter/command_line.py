# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was said on the command line of this very run (controller only)."""

from __future__ import annotations

from ansible import context
from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars


def on_command_line(name: str) -> object:
    """The value of a variable that was given with -e on this command line; None where it was not."""
    return load_extra_vars(DataLoader()).get(name) if context.CLIARGS.get("extra_vars") else None


class FilterModule:
    def filters(self) -> dict:
        return {"on_command_line": on_command_line}
