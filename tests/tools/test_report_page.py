# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a bench in a real browser: it loads nothing, its pictures have a size, nothing runs over its edge."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from browser import chromium, drawn

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

import pretend_bench  # noqa: E402 - after the path to it
from ansible_collections.tandem.spark.plugins.plugin_utils import bench_files, bench_report  # noqa: E402 - after the path to it

KEPT = Path(__file__).parents[2] / "build" / "report"  # to look at
WIDTH, HEIGHT = 1100, 6900


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("bench")
    for at, steps in (("2026-11-29T12:00:00Z", 13.6), ("2026-11-30T12:00:00Z", 11.0)):
        bench_files.keep(str(root), pretend_bench.record(at, steps))
    written, _told, _left_out = bench_report.files(str(root), "tandem", True)
    for path, content in written.items():
        bench_files.write(path, content)
        bench_files.write(KEPT / path.name, content)
    return next(path for path in written if path.suffix == ".html")


@pytest.mark.parametrize("width", [WIDTH, 480])
def test_a_browser_shows_all_of_it(page, width, tmp_path):
    sizes, over, loaded = drawn(page.read_text(), tmp_path, width)
    assert len(sizes) == 7 and all(200 < wide <= width and high > 100 for wide, high in sizes), sizes
    assert (over, loaded) == (0, 0)


def test_its_screenshot_has_more_than_white_in_it(page, tmp_path):
    from PIL import Image

    shot = KEPT / "report.png"
    words = (f"--user-data-dir={tmp_path}/profile", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={shot}")
    chromium(*words, page.as_uri())
    with Image.open(shot) as picture:
        assert picture.size == (WIDTH, HEIGHT)
        colours = {colour for _count, colour in picture.convert("RGB").getcolors(maxcolors=WIDTH * HEIGHT)}
    # The colours of the series are in it, so the pictures were drawn and not only their frames.
    assert {(0x0B, 0x6E, 0x99), (0x7A, 0x4F, 0xA3), (0xC2, 0x57, 0x1A)} <= colours
