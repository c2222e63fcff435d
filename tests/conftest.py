# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A landing must not depend on chance: property tests draw the same examples each time. EXPLORE=1 draws new ones.
# Nor does any test judge by how long an example took: a busy machine may take ten times as long.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", PATIENT, derandomize=True)
settings.register_profile("explore", PATIENT)
settings.load_profile("explore" if os.environ.get("EXPLORE") else "same")
