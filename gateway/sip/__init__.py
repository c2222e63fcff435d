# SPDX-License-Identifier: GPL-3.0-or-later
"""SIP and RTP through pjsua2. Nothing outside this room imports pjsua2."""
