# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes two runs of the bench comparable (controller only)."""

from __future__ import annotations

from ansible_collections.tandem.spark.plugins.plugin_utils.bench_record import stack


class FilterModule:
    def filters(self) -> dict:
        return {"bench_stack": stack}
