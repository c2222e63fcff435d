# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# A landing must not depend on chance: in CI property tests draw the same examples each time. Elsewhere they explore.
# Nor does any test judge by how long an example took: a busy machine may take ten times as long.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")
