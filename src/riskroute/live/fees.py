"""Fees of the live router: of venues and pools, from the configuration or a fee schedule, as exact integers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from riskroute.core.errors import InputError
from riskroute.core.instrument import Instrument, instrument_terms
from riskroute.live.state.amounts import NANO, amount_scale, natural_amount
from riskroute.routing.fees import FeeRate, FeeSchedule, parse_fee


class OrderFee(NamedTuple):
    """The fee of a child order, in 1e-9 of the currency for a quantity of 1 and in 1e-9 of the notional value.

    ``minimum`` and ``maximum`` apply to a child that traded, in 1e-9 of the currency.

    Examples
    --------
    >>> OrderFee(3_000_000).total(Instrument(), [(10 * NANO, 100)]) / NANO
    0.3
    >>> OrderFee(rate=1_000_000, minimum=2 * NANO).total(Instrument(), [(10 * NANO, 100)]) / NANO
    2.0
    """

    amount: int = 0
    rate: int = 0
    minimum: int | None = None
    maximum: int | None = None

    def total(self, instrument: Instrument, fills: Iterable[tuple[int, int]]) -> int:
        """Return the fee of a child with fills of price and units, as an amount of the instrument, rounded."""
        scale = amount_scale(instrument_terms(instrument))
        units = value = 0
        for price, some in fills:
            units, value = units + some, value + some * price * scale.unit
        if not units:
            return 0
        exact = Fraction(value * self.rate + round(self.amount * units * instrument.unit * scale.one), NANO)
        if self.minimum is not None:
            exact = max(exact, Fraction(self.minimum * scale.one, NANO))
        if self.maximum is not None:
            exact = min(exact, Fraction(self.maximum * scale.one, NANO))
        return round(exact)


class LivePlaceFees(NamedTuple):
    """Fees of orders that take and of orders that rest at a venue; a pool charges its first fee to both."""

    taker: OrderFee = OrderFee()
    maker: OrderFee = OrderFee()


class LiveFees:
    """Fees by place, instrument and day: the fees stated for a place, or else the schedule's; default: none."""

    def __init__(self, stated: Mapping[str, tuple[Any, Any] | None], schedule: FeeSchedule | None = None) -> None:
        self._rates = {
            place: fees
            and tuple(parse_fee(f"{kind} fee of {place}", fee) for kind, fee in zip(_KINDS, fees, strict=True))
            for place, fees in stated.items()
        }
        self._schedule = schedule
        self._known: dict[tuple[str, str, dt.date], LivePlaceFees] = {}

    def of(self, place: str, instrument: Instrument, day: dt.date) -> LivePlaceFees:
        """Return the fees of an instrument at a place on a day; raise `InputError` if they cannot be applied to it."""
        key = place, instrument.symbol, day
        if (found := self._known.get(key)) is None:
            found = self._known[key] = self._find(place, instrument, day)
        return found

    def _find(self, place: str, instrument: Instrument, day: dt.date) -> LivePlaceFees:
        rates, conversion = self._rates[place], Decimal(1)
        if rates is None:
            if self._schedule is None:
                return LivePlaceFees()
            fee = self._schedule.fee(place, day, instrument.symbol)
            fee.rows(instrument)  # raises unless the fee applies to the instrument
            rates, conversion = fee.current, fee.conversion or conversion
        return LivePlaceFees(
            *(
                _order_fee(f"{kind} fee of {place}", rate, instrument, conversion)
                for kind, rate in zip(_KINDS, rates, strict=True)
            )
        )


_KINDS = "taker", "maker"


@lru_cache(4096)
def requested_live_fee(name: str, value: float | str, instrument: Instrument) -> OrderFee:
    """Return the fee that a request states for an instrument."""
    return _order_fee(name, parse_fee(name, value), instrument, Decimal(1))


@lru_cache(4096)
def live_fee_text(instrument: Instrument, amount: int, rate: int) -> str:
    """Return a fee in 1e-9 for a quantity of 1, and in 1e-9 of the notional value, as text for a schedule.

    Examples
    --------
    >>> live_fee_text(Instrument(), 3_000_000, 0), live_fee_text(Instrument(quantity="BTC"), 0, 1_000_000)
    ('0.003 per share', '10 bps')
    """
    one = instrument.quantity
    unit = one.removesuffix("s") if one.islower() else one
    return str(FeeRate(natural_amount(amount), unit if amount else "", natural_amount(rate, 100_000)))


def _order_fee(name: str, rate: FeeRate, instrument: Instrument, conversion: Decimal) -> OrderFee:
    if rate.currency not in ("", instrument.currency) and conversion == 1:
        raise InputError(f"{name} must be in {instrument.currency}, was in {rate.currency}")
    rate.row(name, instrument)  # raises unless its unit is that of the instrument

    def nanos(amount: Decimal | None) -> int | None:
        if amount is None:
            return None
        exact = Fraction(amount) * Fraction(conversion) * NANO
        if exact.denominator != 1 and conversion == 1:
            raise InputError(f"{name} must be a multiple of 0.000000001, was {amount}")
        return round(exact)

    return OrderFee(nanos(rate.amount) or 0, round(rate.bps * 100_000), nanos(rate.minimum), nanos(rate.maximum))
