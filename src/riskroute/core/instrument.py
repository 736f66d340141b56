"""Instruments: units, ticks, currencies, trading sessions and order protection of traded symbols.

Inside riskroute a quantity is a whole number of units. In files and output a quantity is *natural* (0.25 BTC,
3 contracts, 1,000 shares), and amounts are in the quote currency. Prices are always for a natural quantity of 1. The
notional value is price times natural quantity times multiplier, so one unit at a price of 1 is worth
``unit * multiplier``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from riskroute.core.config import read_toml_config
from riskroute.core.errors import DataError, InputError
from riskroute.core.text import decimal_text, natural_text, shown
from riskroute.core.validation import (
    LONGEST_SYMBOL,
    as_name,
    one_of,
    true_or_false,
    valid_day,
    valid_decimal,
    valid_path,
)

TRADING_ZONE = "America/New_York"  # default zone of days and hours
PROTECTIONS = NO_PROTECTION, REG_NMS = ("none", "reg-nms")  # REG_NMS: Rule 611 of Regulation NMS (US equities)
LARGEST_QUANTITY = 10**14  # maximum units of an order: for larger sizes float64 barely resolves fractions of a unit
_SECOND = 1_000_000_000  # nanoseconds
_ROUNDING = 2.0**-50  # relative rounding error of a product of float64 numbers


@dataclass(frozen=True)
class Instrument:
    """A traded symbol.

    Parameters
    ----------
    symbol : str
        Name of the instrument; empty if unknown.
    unit : Decimal
        Smallest quantity; all quantities are multiples of it.
    tick : Decimal
        Smallest price step.
    lot : Decimal, optional
        Venues accept orders in multiples of the lot; default: the unit.
    minimum_quantity, minimum_notional : Decimal
        Smallest order that venues accept, as a natural quantity and as an amount in ``currency``; 0: no minimum.
    quantity : str
        Name of the counted thing in the plural: ``shares``, ``contracts``, ``BTC``.
    currency : str
        Quote currency.
    multiplier : Decimal
        Amount of money per point of price for a quantity of 1, such as 50 for an index future.
    zone : str
        Time zone in which days and hours are stated.
    hours : str
        Trading session as OPEN-CLOSE in the zone; a session such as 18:00-17:00 begins on the day before. Empty if the
        market is continuous or its hours are unknown: a day is then from midnight to midnight.
    protection : str
        ``reg-nms``: better displayed prices are taken first, whatever the fees. ``none``: prices that are better after
        fees are taken first.
    negative_prices : bool
        Whether prices may be zero or negative.

    Examples
    --------
    >>> coin = Instrument("BTCUSDT", unit="0.00001", tick="0.01", quantity="BTC", currency="USDT", zone="UTC")
    >>> coin.units("0.25"), coin.quantity_text(25_000)
    (25000, '0.25 BTC')
    >>> Instrument(quantity="contracts", multiplier=50).value
    50.0
    """

    symbol: str = ""
    unit: Decimal = Decimal(1)
    tick: Decimal = Decimal("0.01")
    lot: Decimal | None = None
    minimum_quantity: Decimal = Decimal(0)
    minimum_notional: Decimal = Decimal(0)
    quantity: str = "shares"
    currency: str = "USD"
    multiplier: Decimal = Decimal(1)
    zone: str = TRADING_ZONE
    hours: str = ""
    protection: str = NO_PROTECTION
    negative_prices: bool = False

    def __post_init__(self) -> None:
        if self.symbol:
            as_name("symbol", self.symbol, longest=LONGEST_SYMBOL)
        for name, least in (("unit", Decimal("1e-12")), ("tick", Decimal("1e-12")), ("multiplier", Decimal("1e-12"))):
            self._store(name, valid_decimal(name, getattr(self, name), minimum=least, maximum=Decimal("1e12")))
        for name in ("minimum_quantity", "minimum_notional"):
            self._store(name, valid_decimal(name, getattr(self, name), minimum=Decimal(0)))
        self._store("lot", valid_decimal("lot", self.lot or self.unit, minimum=self.unit))
        if self.lot is not None and self.lot % self.unit:
            raise InputError(f"lot must be a multiple of the unit, {decimal_text(self.unit)}, was {self.lot}")
        as_name("quantity", self.quantity, longest=16)
        as_name("currency", self.currency, longest=16)
        valid_instrument_zone("zone", self.zone)
        if self.hours:
            try:
                _parse_session_hours(self.hours)
            except ValueError as error:
                raise InputError(f"hours must be {error}, was {shown(self.hours)}") from None
        one_of("protection", self.protection, PROTECTIONS)
        true_or_false("negative_prices", self.negative_prices)

    def _store(self, name: str, value: Decimal) -> None:
        object.__setattr__(self, name, value)

    # quantities

    def units(self, quantity: Any, name: str = "quantity") -> int:
        """Return a natural quantity as a whole number of units."""
        given = valid_decimal(name, quantity, minimum=Decimal(0))
        count = given / self.unit
        if count != count.to_integral_value():
            raise InputError(
                f"{name} must be a multiple of {self.named(self.unit)}, the unit, was {decimal_text(given)}"
            )
        if count > LARGEST_QUANTITY:
            raise InputError(f"{name} must be at most {LARGEST_QUANTITY:,} units, was {int(count):,}")
        return int(count)

    def natural(self, units: float) -> Decimal:
        """Return a number of units as a natural quantity; a float is rounded to 15 digits."""
        count = Decimal(units) if isinstance(units, int) else Decimal(f"{units:.15g}")
        return count * self.unit

    def quantity_text(self, units: float) -> str:
        """Return a number of units as the text of a natural quantity, such as ``0.25 BTC``."""
        return self.named(self.natural(units))

    def named(self, quantity: Decimal | float) -> str:
        """Return a natural quantity as text, such as ``0.25 BTC``."""
        return f"{natural_text(quantity)} {self.singular if quantity == 1 else self.quantity}"

    @property
    def singular(self) -> str:
        """Name of the counted thing in the singular: ``share``, ``contract``, ``BTC``."""
        plural = self.quantity.islower() and self.quantity.endswith("s")
        return self.quantity[:-1] if plural else self.quantity

    def order_units(self, quantity: Any, name: str = "quantity", price: float | None = None) -> int:
        """Return an order's size in units; check lot and minimum and, given a ``price``, the minimum notional value.

        >>> Instrument("X", unit="0.001", lot="0.01", quantity="BTC").order_units("0.25")
        250
        """
        units, of = self.units(quantity, name), f" of {self.symbol}" if self.symbol else ""
        was = f"was {decimal_text(self.natural(units))}"
        if units % self.lot_units or not units:
            lot = self.named(self.lot or self.unit)
            raise InputError(f"{name} must be a positive multiple of {lot}, the lot{of}, {was}")
        least = self.minimum_quantity
        if self.natural(units) < least:
            raise InputError(f"{name} must be at least {self.named(least)}, the minimum{of}, {was}")
        worth = None if price is None else abs(self.natural(units) * self.multiplier * valid_decimal("price", price))
        if worth is not None and worth < self.minimum_notional:
            amounts = (
                f"{decimal_text(self.minimum_notional)} {self.currency}, the minimum{of}, was {decimal_text(worth)}"
            )
            raise InputError(f"{name} must be worth at least {amounts} {self.currency}")
        return units

    @cached_property
    def lot_units(self) -> int:
        """Number of units in a lot."""
        return int((self.lot or self.unit) / self.unit)

    @cached_property
    def unit_size(self) -> float:
        """The unit as a float."""
        return float(self.unit)

    # prices and money

    @cached_property
    def price_step(self) -> float:
        """The tick as a float."""
        return float(self.tick)

    @cached_property
    def value(self) -> float:
        """Value of one unit at a price of 1, in the quote currency."""
        return float(self.unit * self.multiplier)

    def price_text(self, price: float) -> str:
        """Return a price with the digits of the tick, and up to two more for prices between ticks.

        >>> equity, future = Instrument(), Instrument(tick="0.25")
        >>> equity.price_text(48.02), equity.price_text(1250.005), future.price_text(5000.125)
        ('48.02', '1,250.005', '5,000.125')
        >>> Instrument(tick=1).price_text(60_000.0)
        '60,000'
        """
        digits = max(-int(self.tick.as_tuple().exponent), 0)
        text = f"{price:,.{digits + 2}f}"
        return (text[:-2] + text[-2:].rstrip("0")).rstrip(".")

    # sessions

    @cached_property
    def _times(self) -> tuple[dt.time, dt.time]:
        """Opening and closing time of the session; midnight if none is declared."""
        return _parse_session_hours(self.hours) if self.hours else (dt.time(0), dt.time(0))

    @property
    def session_text(self) -> str:
        """Hours and zone of the session, such as ``18:00-17:00 America/New_York``."""
        return f"{self.hours or '00:00-24:00'} {self.zone}"

    def session(self, day: dt.date) -> tuple[int, int]:
        """Return the beginning and the end of a day's session, in UTC nanoseconds since 1970."""
        valid_day("day", day)
        opens, closes = self._times
        first = day - dt.timedelta(days=1) if self.hours and opens >= closes else day
        begin, following = (_stamp(first + dt.timedelta(days=k), opens, self.zone) for k in (0, 1))
        end = _stamp(day, closes, self.zone) if self.hours else following
        # A local time skipped by a clock change maps to a later instant, so a session could overlap the next one.
        return begin, max(begin, min(end, following))

    def session_day(self, stamp: int) -> dt.date:
        """Return the day of the session that contains ``stamp`` (UTC nanoseconds), or of the next one if none does."""
        day = dt.datetime.fromtimestamp(stamp // _SECOND, ZoneInfo(self.zone)).date()
        return day + dt.timedelta(days=1) if self.hours and stamp >= self.session(day)[1] else day

    def session_hours(self, day: dt.date, first: dt.time | None, last: dt.time | None) -> tuple[int, int]:
        """Return local hours of a session day in UTC nanoseconds, cut to the session.

        Default of ``first``: the opening; of ``last``: the close. In a session that begins on the day before, a
        ``first`` at or after the opening and a ``last`` after the opening are on the day before. A ``last`` of 00:00 is
        the end of ``day``, but its beginning in such a session.

        >>> future = Instrument("ES", zone="UTC", hours="18:00-17:00")
        >>> begin, end = future.session_hours(dt.date(2024, 1, 9), dt.time(20), dt.time(2))
        >>> dt.datetime.fromtimestamp(begin / 1e9, dt.UTC).isoformat(), (end - begin) / 3.6e12
        ('2024-01-08T20:00:00+00:00', 6.0)
        """
        opens, closes = self._times
        first, last = first or opens, last or closes
        begin_day = end_day = day
        if self.hours and opens >= closes:
            begin_day -= dt.timedelta(days=int(first >= opens))
            end_day -= dt.timedelta(days=int(last > opens))
        else:
            end_day += dt.timedelta(days=int(last == dt.time(0)))
        session = self.session(day)
        begin = max(_stamp(begin_day, first, self.zone), session[0])
        end = min(_stamp(end_day, last, self.zone), session[1])
        if begin >= end:
            text = f"{first.isoformat('minutes')}-{last.isoformat('minutes')}"
            expected = f"two times of the session {self.session_text}, the first before the second"
            raise InputError(f"hours must be {expected}, was {text}")
        return begin, end

    def active_session(self, day: dt.date) -> tuple[int, int]:
        """Return the part of a day in which books are expected to change, in UTC nanoseconds.

        It is the session, or 09:30-16:00 for an instrument in New York time without declared hours: a US equity.
        """
        if self.hours or self.zone != TRADING_ZONE:
            return self.session(day)
        return self.session_hours(day, dt.time(9, 30), dt.time(16))

    # plain values

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values, decimals as text; `instrument_from_plain` builds an equal instrument."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return {name: decimal_text(one, "") if isinstance(one, Decimal) else one for name, one in values.items()}

    def describe(self) -> str:
        """Describe units, ticks, currency, session and order protection in one sentence."""
        parts = [f"quantities in multiples of {self.named(self.unit)}", f"ticks of {decimal_text(self.tick)}"]
        if self.lot_units > 1:
            parts.append(f"lots of {self.quantity_text(self.lot_units)}")
        if self.multiplier != 1:
            parts.append(f"multiplier {decimal_text(self.multiplier)}")
        hours = f"session {self.hours}" if self.hours else "days from midnight"
        parts += [f"amounts in {self.currency}", f"{hours} {self.zone}", f"order protection {self.protection}"]
        return f"{self.symbol or 'instrument'}: {', '.join(parts)}."


def named_after_symbol(one: Instrument) -> Instrument:
    """Return an instrument with quantity and currency named after a symbol such as BTCUSDT or XBT/USD, else unknown.

    The names ``contracts`` and ``units`` are kept, with an unknown currency: a contract's multiplier is unknown too.

    >>> found = named_after_symbol(Instrument("ETH-BTC"))
    >>> found.quantity, found.currency, named_after_symbol(Instrument("SAP")).currency
    ('ETH', 'BTC', 'unknown currency')
    """
    money = "USDT|USDC|FDUSD|BUSD|TUSD|DAI|USD|EUR|GBP|JPY|CHF|CAD|AUD|BRL|TRY|KRW|BTC|XBT|ETH|BNB"
    pair = re.fullmatch(rf"(USD[TC]|[A-Z0-9]{{2,10}}?)[-/_]?({money})", one.symbol.upper())
    counted, currency = pair.groups() if pair else ("units", "unknown currency")
    if one.quantity in ("contracts", "units"):
        counted, currency = one.quantity, "unknown currency"
    return dataclasses.replace(one, quantity=counted, currency=currency)


def instrument_from_plain(symbol: str, values: Any, where: str = "") -> Instrument:
    """Build an instrument from plain values by field name; errors name ``symbol``, then ``where``, the source."""
    place = f"instrument {symbol}{where}"
    known = [item.name for item in dataclasses.fields(Instrument)]
    if not isinstance(values, Mapping):
        raise DataError(f"{place} must be a table of {', '.join(known)}, was {shown(values)}")
    for name in values:
        if name not in known:
            raise DataError(f"unknown field {shown(name)} of {place}; fields are {', '.join(known)}")
    if values.get("symbol", symbol) not in ("", symbol):
        raise DataError(f"symbol of {place} must be left out or {symbol}, was {shown(values['symbol'])}")
    try:
        return Instrument(**{**values, "symbol": symbol})
    except InputError as error:
        raise DataError(f"{place}: {error}") from None


def load_instruments(path: str | os.PathLike[str]) -> dict[str, Instrument]:
    """Read the tables ``[instruments.SYMBOL]`` of a TOML file; return instruments by symbol."""
    file = valid_path("instruments", path)
    tables = read_toml_config(file).get("instruments")
    if not isinstance(tables, dict) or not tables:
        raise DataError(f"{file} must have a table [instruments.SYMBOL] per symbol, had none")
    return {symbol: instrument_from_plain(symbol, values, f" in {file}") for symbol, values in tables.items()}


def instrument_step(values: Any, largest: Decimal = Decimal(1)) -> Decimal:
    """Return the largest power of ten, from 1e-12 to ``largest``, that divides all finite values.

    >>> str(instrument_step([3.0, 0.25])), str(instrument_step([100.0])), str(instrument_step([0.1 + 0.2]))
    ('0.01', '1', '0.1')
    """
    import numpy as np

    given = np.abs(np.asarray(values, dtype=np.float64).ravel())
    left = given[np.isfinite(given)]
    for digits in range(-largest.adjusted(), 12):
        scaled = left * 10.0**digits
        left = left[np.abs(scaled - np.round(scaled)) > _ROUNDING * scaled]
        if not len(left):
            return Decimal(1).scaleb(-digits)
    return Decimal(1).scaleb(-12)


def each_instrument_text(instruments: Iterable[Instrument], quantity: float) -> str:
    """Return a natural quantity as text for one or more instruments.

    >>> each_instrument_text([Instrument("A"), Instrument("B")], 1000)
    '1,000 shares'
    >>> each_instrument_text([Instrument(quantity="BTC"), SHARES], 2.5)
    '2.5 BTC or 2.5 shares'
    """
    return " or ".join(dict.fromkeys(one.named(quantity) for one in instruments))


def _parse_session_hours(text: str) -> tuple[dt.time, dt.time]:
    """Return the opening and closing time of OPEN-CLOSE; raise `ValueError` with the expected form.

    >>> _parse_session_hours("18:00-17:00")
    (datetime.time(18, 0), datetime.time(17, 0))
    """
    try:
        opens, closes = (dt.time.fromisoformat(part.strip()) for part in text.split("-"))
    except (ValueError, AttributeError):
        raise ValueError("two times such as 09:30-16:00") from None
    if opens.tzinfo is not None or closes.tzinfo is not None:
        raise ValueError("two times without a zone, such as 09:30-16:00")
    return opens, closes


def valid_instrument_zone(field: str, value: Any) -> str:
    """Return ``value`` if it names a time zone; raise `InputError` otherwise.

    >>> valid_instrument_zone("zone", "UTC"), valid_instrument_zone("zone", "Europe/London")
    ('UTC', 'Europe/London')
    """
    try:
        return ZoneInfo(value).key
    except (ZoneInfoNotFoundError, OSError, ValueError, TypeError, AttributeError):
        expected = f"a time zone such as UTC or {TRADING_ZONE}"
        raise InputError(f"{field} must be {expected}, was {shown(value)}") from None


def _stamp(day: dt.date, moment: dt.time, zone: str) -> int:
    local = dt.datetime.combine(day, moment, tzinfo=ZoneInfo(zone))
    return int(local.timestamp()) * _SECOND + moment.microsecond * 1000


SHARES = Instrument()  # default instrument: shares of an unknown symbol, without order protection


@lru_cache(4096)
def instrument_terms(instrument: Instrument) -> str:
    """Return the fields of an instrument that differ from their defaults, as JSON; every logged order has them."""
    default, values = Instrument().to_json(), instrument.to_json() | {"symbol": ""}
    default["lot"] = values["unit"]
    terms = {name: value for name, value in values.items() if value != default[name]}
    return json.dumps(terms, separators=(",", ":")) if terms else ""


@lru_cache(4096)
def instrument_from_terms(symbol: str, terms: str) -> Instrument:
    """Return the instrument of a symbol from its `instrument_terms`."""
    return Instrument(symbol, **json.loads(terms or "{}"))


def natural_quantity(instrument: Instrument, units: int) -> Decimal:
    """Return a number of units as a natural quantity, without trailing zeros or an exponent above 0.

    Examples
    --------
    >>> natural_quantity(Instrument(unit=10), 3), natural_quantity(Instrument(unit="0.01"), 30)
    (Decimal('30'), Decimal('0.3'))
    """
    quantity = (units * instrument.unit).normalize()
    return quantity if quantity.as_tuple().exponent <= 0 else Decimal(int(quantity))  # type: ignore[operator]  # finite
