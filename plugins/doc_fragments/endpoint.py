# Copyright (c) 2026, tandem.spark contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """For modules that ask a served model."""

    DOCUMENTATION = r"""
options:
  url:
    description: Base address of the endpoint, with or without C(/v1).
    type: str
    required: true
  model:
    description: Name of the served model.
    type: str
    required: true
  api_key:
    description: Bearer token, if the endpoint wants one.
    type: str
  api_key_file:
    description:
      - File on the node with that token, such as C(/etc/tandem/api.env), in place of O(api_key).
      - A file that is not there, or holds none, is no token.
    type: path
  validate_certs:
    description: Whether the certificate of an C(https) endpoint must be valid.
    type: bool
    default: true
"""
