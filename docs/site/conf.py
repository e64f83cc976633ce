# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages of docs/ and those that antsibull-docs makes of modules, plugins and roles, as one site: `make site`."""

from __future__ import annotations

from pathlib import Path

import yaml

_GALAXY = yaml.safe_load((Path(__file__).parents[2] / "galaxy.yml").read_text())

project = "{namespace}.{name}".format(**_GALAXY)
version = release = _GALAXY["version"]
copyright = "tandem.spark contributors"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
myst_heading_anchors = 4
# What others document is told by name, and nothing is fetched while the site is built.
nitpicky = True
nitpick_ignore_regex = [("envvar", "ANSIBLE_.*"), ("std:ref", "ansible_collections\\.ansible\\..*")]
html_theme = "alabaster"
html_theme_options = {"description": "Two DGX Sparks, one endpoint, its answers judged", "page_width": "80em"}
html_show_sourcelink = False
