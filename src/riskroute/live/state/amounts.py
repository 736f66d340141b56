"""Prices and amounts of money as integers.

Prices are in 1e-9 of the quote currency (`NANO`), for a quantity of 1. Amounts are in a power of ten of the currency
that is fine enough for exact products of prices, quantities and multiplier (`AmountScale`): 1e-9 for shares.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from riskroute.core.instrument import instrument_from_terms

NANO = 10**9  # prices of 1e-9 in a price of 1, and nanoseconds in a second


class AmountScale(NamedTuple):
    """Integer amounts of one unit at a price of 1e-9 (``unit``) and of 1 in the quote currency (``one``); tick in 1e-9.

    Examples
    --------
    >>> amount_scale("")
    AmountScale(unit=1, one=1000000000, tick=10000000)
    >>> amount_scale('{"unit":"0.00001","multiplier":"50"}')
    AmountScale(unit=5, one=10000000000000, tick=10000000)
    """

    unit: int
    one: int
    tick: int

    @property
    def at_one(self) -> int:
        """The amount of one unit at a price of 1."""
        return self.unit * NANO

    def nanos(self, amount: float) -> int:
        """Return an amount in 1e-9 of the currency, rounded: the common unit for sums over several instruments."""
        if self.one == NANO:
            return round(amount)
        exact = amount if isinstance(amount, int) else round(amount)
        return (2 * exact * NANO + self.one) // (2 * self.one)

    def natural(self, amount: int) -> Decimal:
        """Return an amount in the currency, exactly."""
        return natural_amount(amount, self.one)


def natural_amount(number: int, one: int = NANO) -> Decimal:
    """Return ``number / one`` exactly; ``one`` is a power of ten.

    Examples
    --------
    >>> natural_amount(10_020_000_000), natural_amount(-25, 1000)
    (Decimal('10.02'), Decimal('-0.025'))
    """
    whole, rest = divmod(abs(number), one)
    digits = f"{rest:0{len(str(one)) - 1}d}".rstrip("0") if rest else ""
    return Decimal(f"{'-' if number < 0 else ''}{whole}{'.' if digits else ''}{digits}")


def amount_ratio(amount: int, other: int) -> Decimal:
    """Return the ratio of two amounts, such as an average price: exactly if it has up to 28 digits, else rounded.

    Examples
    --------
    >>> amount_ratio(3003, 300), amount_ratio(1, 3)
    (Decimal('10.01'), Decimal('0.3333333333333333333333333333'))
    """
    return Decimal(amount) / other


@lru_cache(4096)
def amount_scale(terms: str) -> AmountScale:
    """Return the scale of the amounts of an instrument with these terms."""
    instrument = instrument_from_terms("", terms)
    unit, one = Fraction(instrument.unit) * Fraction(instrument.multiplier), NANO
    tick = int(instrument.tick * NANO)
    while unit.denominator > 1 or (tick % 2 and unit % 2):  # a mid may lie half of 1e-9 above a price
        unit, one = unit * 10, one * 10
    return AmountScale(int(unit), one, tick)


def nano_amount(amount: float) -> int:
    """Convert an amount to 1e-9."""
    return round(amount * NANO)
