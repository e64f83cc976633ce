# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/profiles.md is what the profiles say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

FILE = Path(__file__).parents[2] / "docs" / "profiles.py"
_spec = importlib.util.spec_from_file_location("profiles_page", FILE)
generator = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generator)


def test_the_page_is_in_step():
    """`make profiles` writes it anew."""
    assert generator.PAGE.read_text(encoding="utf-8") == generator.page(generator.shipped())


def test_the_page_follows_the_profiles():
    profiles = generator.shipped()
    changed = {**profiles["v4-flash-next"], "not_runnable": "no machine", "compare_with": "another"}
    page = generator.page({**profiles, "v4-flash-next": changed})
    assert "**Not yet runnable:** no machine" in page and "`another` comes nearest" in page
    assert page.count("## v4-flash-next\n") == 1


def test_what_can_be_run_comes_first():
    names = list(generator.shipped())
    assert names[0] == "v4-flash-next" and names.index("rehearsal") < names.index("v4-flash")
