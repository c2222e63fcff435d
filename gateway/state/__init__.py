# SPDX-License-Identifier: GPL-3.0-or-later
"""What outlives a process or is shared between gateways: Redis, with an embedded server when none is given."""
