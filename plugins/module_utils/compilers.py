# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compilers at work on this machine: an engine that answers nothing because it still compiles is not stalled."""

from __future__ import annotations

from .kernel_files import Tree, is_number

# What Triton, TileLang, DeepGEMM, FlashInfer and torch run to make kernels for the GPU.
NAMES = frozenset(("nvcc", "cicc", "ptxas", "ninja", "cudafe++", "fatbinary", "nvlink", "cc1plus"))


def at_work(root: str = "/proc") -> dict[int, str]:
    """{process id: name} of the compilers that run now. root: a procfs."""
    tree = Tree(root)
    processes = (name for name in tree.names() if is_number(name))
    named = ((int(pid), tree.text(pid, "comm")) for pid in processes)
    return {pid: name for pid, name in named if name in NAMES}
