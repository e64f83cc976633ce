# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages in a real browser: Debian's Chromium, without a screen."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

# What a page says of itself once it is drawn, in its title.
PROBE = """
<script>
window.addEventListener("load", () => {
  const sizes = [...document.querySelectorAll("figure svg")].map((svg) => {
    const box = svg.getBoundingClientRect();
    return Math.round(box.width) + "x" + Math.round(box.height);
  });
  const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  document.title = "pictures=" + sizes.join(",") + ";over=" + over
    + ";loaded=" + performance.getEntriesByType("resource").length + ";";
});
</script>
"""


def chromium(*words) -> str:
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    command = ["chromium", *options, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def drawn(html: str, folder: Path, width: int) -> tuple[list[tuple[int, int]], int, int]:
    """(sizes of the pictures, pixels that run over the edge, things that were loaded)."""
    probed = folder / "probed.html"
    probed.write_text(html.replace("</body>", f"{PROBE}</body>"))
    words = (f"--user-data-dir={folder}/profile", f"--window-size={width},900", "--dump-dom")
    dom = chromium(*words, probed.as_uri())
    told = re.search(r"<title>pictures=(.*?);over=(-?\d+);loaded=(\d+);</title>", dom)
    assert told, dom[:400]
    sizes = [tuple(map(int, size.split("x"))) for size in told[1].split(",") if size]
    return sizes, int(told[2]), int(told[3])
