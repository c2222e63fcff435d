# SPDX-License-Identifier: GPL-3.0-or-later
"""What outlives a process or is shared between gateways: Redis, with an embedded server when none is given."""

from gateway.state.calls import CallRecord
from gateway.state.errors import StateUnavailable
from gateway.state.line import NobodyAnswers
from gateway.state.store import StateStore, open_store
from gateway.state.term_shelf import TermShelf, open_shelf
from gateway.state.terms import Terms, call_scope, trunk_scope

__all__ = [
    "CallRecord",
    "NobodyAnswers",
    "StateStore",
    "StateUnavailable",
    "TermShelf",
    "Terms",
    "call_scope",
    "open_shelf",
    "open_store",
    "trunk_scope",
]
