# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a call of the API may go: to the dial plan's numbers, to what the settings allow, and an admin's anywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.api.problems import DESTINATION_NOT_ALLOWED, INVALID, Problem
from gateway.call.dialplan import DialPlan
from gateway.sip.message import is_safe_uri

_TRANSPORT = r"(;transport=(udp|tcp|tls))?"


@dataclass(frozen=True, slots=True)
class Destination:
    """A URI to dial. ``language`` is the dial plan's, None where only a URI was given."""

    uri: str
    language: str | None = None


class Destinations:
    """``allowed`` are URIs in which ``*`` stands for anything but ``@``, parameters and headers."""

    def __init__(self, dialplan: DialPlan, allowed: tuple[str, ...]) -> None:
        self._dialplan = dialplan
        self._allowed = [
            re.compile(re.escape(pattern).replace(r"\*", "[^@;?]*") + _TRANSPORT, re.IGNORECASE) for pattern in allowed
        ]

    def find(self, to: str, where: str, *, anywhere: bool) -> Destination:
        """What a number or URI leads to. Problem, about the field ``where``, when it leads nowhere or not for all."""
        if re.match(r"sips?:", to, re.IGNORECASE):
            if not is_safe_uri(to):
                raise Problem(INVALID, f"{where} is no SIP URI such as sip:ana@192.0.2.10")
            if not anywhere and not any(pattern.fullmatch(to) for pattern in self._allowed):
                raise Problem(
                    DESTINATION_NOT_ALLOWED,
                    f"{where} is a URI that is not among api.destinations: name it there, dial a number of the "
                    "dial plan, or use an admin's token",
                )
            return Destination(to)
        match = self._dialplan.match(to)
        if match is None:
            raise Problem(INVALID, f"{where} is no number of the dial plan, and no SIP URI")
        return Destination(match.destination, match.route.target)
