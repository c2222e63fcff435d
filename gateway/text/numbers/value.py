# SPDX-License-Identifier: GPL-3.0-or-later
"""What a number expression says, whatever it was written or spoken like."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum


class Kind(StrEnum):
    """What sort of thing is said. `Number.value` says how each is written."""

    NUMBER = "number"
    """An amount: ``-1234.5``."""
    DIGITS = "digits"
    """Digits that are said one by one, leading zeros included: ``0042``, ``+15558675309``."""
    ORDINAL = "ordinal"
    """``21`` for the 21st."""
    MONEY = "money"
    """An amount; ``unit`` is the ISO 4217 currency."""
    PERCENT = "percent"
    DATE = "date"
    """ISO 8601: ``2024-05-03``, without a year ``--05-03``."""
    TIME = "time"
    """``15:30``; ``unit`` is ``12`` when the half of the day was not said: ``3:30``."""
    CODE = "code"
    """Kept letter by letter: versions, addresses, codes with letters in them."""


_COUNTED = frozenset({Kind.NUMBER, Kind.DIGITS, Kind.ORDINAL})


@dataclass(frozen=True, slots=True)
class Number:
    """One value. Two that say the same are `same`, even if one is an amount and the other a row of digits."""

    kind: Kind
    value: str
    unit: str = ""
    shape: str = field(default="", compare=False)
    """How digits and codes were grouped where they were found, for writing them again."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for numbers that say the same."""
        if self.kind in _COUNTED:
            return ("number", plain_decimal(self.value.removeprefix("+")), "")
        if self.kind in (Kind.MONEY, Kind.PERCENT):
            return (self.kind, plain_decimal(self.value), self.unit)
        if self.kind is Kind.CODE:
            return (self.kind, self.value.casefold(), "")
        return (self.kind, self.value, self.unit)

    def same(self, other: Number) -> bool:
        """Whether both say the same."""
        return self.key == other.key


def plain_decimal(value: str) -> str:
    """A decimal number without trailing zeros (``3.50`` is ``3.5``); digits with leading zeros stay as they are."""
    whole, point, fraction = value.partition(".")
    if not point:
        return value
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def scaled(value: str, power: int) -> str:
    """``value`` times ten to the power, in plain notation."""
    return plain_decimal(format(Decimal(value).scaleb(power), "f")) if power else value
