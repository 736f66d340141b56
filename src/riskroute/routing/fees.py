"""Venue fees by venue, symbol and day: per quantity, in basis points of the notional value, and per order.

A schedule is a TOML file, the same for research and live trading::

    [[fees]]
    venue = "XNAS"
    from = 2019-01-01              # first day; valid until a later entry for the venue
    taker = "0.0030 per share"     # paid by an order that trades immediately
    maker = "-0.0020 per share"    # paid by an order that rests in the book; here a rebate

    [[fees]]
    venue = "SPOT"
    symbol = "BTCUSDT"             # default: all symbols of the venue
    from = 2024-01-01
    taker = "10 bps"               # 1 basis point is 0.01 % of price times quantity
    maker = { fee = "0.5 USDT per BTC + 8 bps", minimum = 0.01, maximum = 50 }  # amounts per order

Inside, a fee is a row of two numbers: a fee per quantity of 1 in price terms (money over the multiplier), and a
fraction of the price. A fill at price ``p`` is charged ``f0 + f1 |p|`` per quantity of 1, like a worse price.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from riskroute.core.arrays import Floats, Matrix
from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import Instrument
from riskroute.core.text import decimal_text, shown
from riskroute.core.validation import (
    LONGEST_SYMBOL,
    LONGEST_VENUE,
    as_name,
    instance_of,
    valid_day,
    valid_decimal,
    valid_list,
    valid_path,
)

_BPS = Decimal("0.0001")
# commas only between groups of three digits, so that a decimal comma is an error: "0,003" is not 3
_NUMBER = r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)?(?:(?<=\d)\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TERM = re.compile(rf"({_NUMBER})\s*(?:(bps|%)|(?:([^\W\d]\S*)\s+)?per\s+(\S.*))")
_AMOUNT = re.compile(rf"({_NUMBER})\s+(\S+)")


@dataclass(frozen=True)
class FeeRate:
    """A fee: an amount per quantity of 1, basis points of the notional value, and a minimum and maximum per order.

    Parameters
    ----------
    amount : Decimal
        Fee per quantity of 1; a rebate is negative.
    unit : str
        Quantity of 1 for which the amount is charged, such as ``share`` or ``BTC``. Empty if the amount is a bare
        number: it must then be 0, or the instrument must be counted in shares.
    bps : Decimal
        Basis points of price times quantity times multiplier.
    minimum, maximum : Decimal, optional
        Minimum and maximum fee of an order that trades, at least 0 each; a minimum excludes rebates.
    currency : str
        Currency of the amounts; default: the currency of the entry or, if it has none, the quote currency.
    """

    amount: Decimal = Decimal(0)
    unit: str = ""
    bps: Decimal = Decimal(0)
    minimum: Decimal | None = None
    maximum: Decimal | None = None
    currency: str = ""

    @property
    def _fee(self) -> str:
        """The fee without its minimum and maximum per order."""
        parts = [f"{decimal_text(self.bps, '')} bps"] if self.bps else []
        if self.amount or not parts:
            currency = f" {self.currency}" if self.currency else ""
            per = f"{currency} per {self.unit}" if self.unit else ""
            parts.insert(0, f"{decimal_text(self.amount, '')}{per}")
        return " + ".join(parts)

    def __str__(self) -> str:
        limits = {"at least": self.minimum, "at most": self.maximum}
        texts = (f"{word} {decimal_text(one)} {self.currency}" for word, one in limits.items() if one is not None)
        return ", ".join([self._fee, *map(str.strip, texts)])

    def to_json(self) -> str | dict[str, str]:
        """Return what `parse_fee` reads: a text, or a table with the minimum and maximum per order."""
        both = {"minimum": self.minimum, "maximum": self.maximum}
        limits = {name: decimal_text(one, "") for name, one in both.items() if one is not None}
        return {"fee": self._fee, **limits} if limits else self._fee

    def row(self, name: str, instrument: Instrument, conversion: Decimal = Decimal(1)) -> tuple[float, float]:
        """Return the fee per quantity of 1 in price terms, and the fraction of the price.

        ``conversion`` is the value of the fee currency in the quote currency.
        """
        if self.amount and _one(self.unit or "share") != _one(instrument.quantity):
            unit = f"per {self.unit}" if self.unit else "without a unit"
            raise InputError(
                f"{name} is {unit}, but {instrument.symbol or 'the instrument'} is counted in {instrument.quantity}; "
                f"state it per {_one(instrument.quantity)}, or in bps"
            )
        return float(self.amount * conversion / instrument.multiplier), float(self.bps * _BPS)

    def limits(self, instrument: Instrument, conversion: Decimal = Decimal(1)) -> tuple[float, float]:
        """Return the minimum and maximum fee of an order, in price times units; infinite where there is none."""
        value = instrument.unit * instrument.multiplier
        minimum, maximum = (
            None if one is None else float(one * conversion / value) for one in (self.minimum, self.maximum)
        )
        return -np.inf if minimum is None else minimum, np.inf if maximum is None else maximum


_Fee = FeeRate | float | str | Mapping[str, Any]  # what `parse_fee` reads


def parse_fee(name: str, value: Any) -> FeeRate:
    """Read a fee: a text, a number per share, or a table of ``fee``, ``minimum`` and ``maximum``.

    >>> print(parse_fee("taker", "0.85 per contract + 1 bps"), parse_fee("maker", "-0.01 %"), sep="; ")
    0.85 per contract + 1 bps; -1 bps
    >>> parse_fee("taker", {"fee": "0.0035 per share", "minimum": 0.35}).minimum
    Decimal('0.35')
    """
    if isinstance(value, FeeRate):
        return value
    if not isinstance(value, Mapping):
        return _rate(name, value)
    if unknown := [field for field in value if field not in ("fee", "minimum", "maximum")]:
        raise InputError(f"{name} must be a table of fee, minimum and maximum, had {shown(unknown[0])}")
    rate = _rate(f"fee of {name}", value.get("fee", 0))
    limits = {
        field: valid_decimal(f"{field} of {name}", value[field], minimum=Decimal(0))
        for field in ("minimum", "maximum")
        if field in value
    }
    if limits.get("minimum", Decimal(0)) > limits.get("maximum", Decimal("inf")):
        raise InputError(f"maximum of {name} must be at least the minimum, was {limits['maximum']}")
    return FeeRate(rate.amount, rate.unit, rate.bps, currency=rate.currency, **limits)


def _rate(name: str, value: Any) -> FeeRate:
    """Read a fee without a minimum and maximum per order."""
    amount, bps, unit, currency = Decimal(0), Decimal(0), "", ""
    forms = "such as '0.0030 per share', '10 bps' or '0.85 per contract + 1 bps'"
    wrong = InputError(f"{name} must be a fee {forms}, was {shown(value)}")
    if not isinstance(value, str) or re.fullmatch(_NUMBER, value.strip()):
        try:
            amount = valid_decimal(name, value)
        except InputError:
            raise wrong from None
    else:
        first, *others = re.split(r"\s+([+-])\s+", value.strip())
        for sign, term in (("+", first), *zip(others[::2], others[1::2], strict=True)):
            found = _TERM.fullmatch(term)
            if found is None or (found[4] and unit):
                raise wrong
            number = valid_decimal(name, found[1].replace(",", "")) * (-1 if sign == "-" else 1)
            if found[4]:
                amount, unit, currency = number, found[4], found[3] or ""
            else:
                bps += number * (100 if found[2] == "%" else 1)
    # larger fees are probably in other units
    if abs(bps) > 1000:
        raise InputError(f"{name} must be at most 1000 bps in magnitude, was {shown(value)}")
    if _one(unit) in ("", "share") and abs(amount) > 10:
        raise InputError(f"{name} must be at most 10 per share in magnitude, was {shown(value)}")
    return FeeRate(amount, unit, bps, currency=currency)


def _one(quantity: str) -> str:
    """Return the name of a quantity of 1: ``share`` for ``shares``, ``BTC`` for ``BTC``."""
    return quantity[:-1] if quantity.islower() and quantity.endswith("s") else quantity


@dataclass(frozen=True)
class FeeTier:
    """Fees at trailing volumes of at least ``volume``."""

    volume: str
    taker: _Fee
    maker: _Fee

    def __post_init__(self) -> None:
        _volume("volume of a tier", self.volume)
        for name in ("taker", "maker"):
            object.__setattr__(self, name, parse_fee(f"{name} of the tier from {self.volume}", getattr(self, name)))


def _volume(name: str, text: Any) -> tuple[Decimal, str]:
    """Return a volume and its unit, such as ``2,000,000 USDT``."""
    found = _AMOUNT.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        raise InputError(f"{name} must be a volume such as '2,000,000 USD' or '500,000 shares', was {shown(text)}")
    return valid_decimal(name, found[1].replace(",", ""), minimum=Decimal(0)), found[2]


@dataclass(frozen=True)
class Fee:
    """Fees at a venue, valid from the day ``since``.

    Parameters
    ----------
    venue : str
        Name of the venue.
    since : datetime.date
        First day.
    taker, maker : FeeRate
        Fees of orders that trade immediately and of orders that rest; or what `parse_fee` reads.
    symbol : str
        The only symbol; default: all symbols of the venue.
    currency : str
        Currency of amounts; default: the quote currency.
    conversion : Decimal, optional
        Value of the fee currency in the quote currency.
    volume : str
        Own trailing volume at the venue, such as ``2,000,000 USD``; it selects the tier.
    tiers : tuple[FeeTier, ...]
        Fees at larger volumes, the smallest volume first.

    Examples
    --------
    >>> tiers = (FeeTier("1,000,000 USDT", taker="8 bps", maker="5 bps"),)
    >>> fee = Fee("SPOT", dt.date(2024, 1, 1), taker="10 bps", maker="8 bps", volume="3,000,000 USDT", tiers=tiers)
    >>> [str(rate) for rate in fee.current]
    ['8 bps', '5 bps']
    """

    venue: str
    since: dt.date
    taker: _Fee
    maker: _Fee
    symbol: str = ""
    currency: str = ""
    conversion: Decimal | None = None
    volume: str = ""
    tiers: tuple[FeeTier, ...] = ()

    def __post_init__(self) -> None:
        as_name("venue of a fee", self.venue, longest=LONGEST_VENUE)
        valid_day(f"since of the fee of {self.venue}", self.since)
        for name in ("taker", "maker"):
            object.__setattr__(self, name, parse_fee(f"{name} fee of {self.venue}", getattr(self, name)))
        if self.symbol:
            as_name(f"symbol of the fee of {self.venue}", self.symbol, longest=LONGEST_SYMBOL)
        if self.currency:
            as_name(f"currency of the fee of {self.venue}", self.currency, longest=16)
        if self.conversion is not None:
            where = f"conversion of the fee of {self.venue}"
            object.__setattr__(self, "conversion", valid_decimal(where, self.conversion, minimum=Decimal("1e-12")))
        object.__setattr__(self, "tiers", tuple(valid_list("tiers", self.tiers, FeeTier, "tiers")))
        self._check_tiers()

    def _check_tiers(self) -> None:
        if bool(self.tiers) != bool(self.volume):
            there, missing = ("tiers", "volume") if self.tiers else ("volume", "tiers")
            raise InputError(f"the fee of {self.venue} has {there} but no {missing}: state both")
        volumes = [_volume("volume of a tier", tier.volume) for tier in self.tiers]
        mine = [_volume(f"volume of the fee of {self.venue}", self.volume)] if self.volume else []
        if len({unit for _, unit in (*mine, *volumes)}) > 1:
            units = ", ".join(dict.fromkeys(unit for _, unit in (*mine, *volumes)))
            raise InputError(f"volumes of the fee of {self.venue} must have the same unit, had {units}")
        if any(one >= other for (one, _), (other, _) in itertools.pairwise(volumes)):
            raise InputError(f"tiers of {self.venue} must be in ascending order of volume")

    @property
    def current(self) -> tuple[FeeRate, FeeRate]:
        """Fees of takers and makers at the stated volume."""
        reached = [tier for tier in self.tiers if _volume("", tier.volume)[0] <= _volume("", self.volume)[0]]
        holds = reached[-1] if reached else self
        return parse_fee("taker", holds.taker), parse_fee("maker", holds.maker)

    def rows(self, instrument: Instrument) -> tuple[tuple[float, ...], ...]:
        """Return the rows of taker and maker for an instrument, and both minimums and maximums per order."""
        found: list[tuple[float, ...]] = []
        limits: list[float] = []
        for name, rate in zip(("taker", "maker"), self.current, strict=True):
            where = f"{name} fee of {self.venue}"
            conversion = self._conversion(where, rate, instrument)
            found.append(rate.row(where, instrument, conversion))
            limits += rate.limits(instrument, conversion)
        return *found, tuple(limits)

    def _conversion(self, name: str, rate: FeeRate, instrument: Instrument) -> Decimal:
        """Return the value of the fee currency in the quote currency; fees in bps alone need none."""
        if rate.currency and self.currency and rate.currency != self.currency:
            raise InputError(f"{name} must be in {self.currency}, the currency of its entry, was in {rate.currency}")
        currency = rate.currency or self.currency or instrument.currency
        if not rate.amount and rate.minimum is None and rate.maximum is None:
            return Decimal(1)
        if currency == instrument.currency:
            if self.conversion not in (None, 1):
                raise InputError(f"{name} needs no conversion: it is in {currency}, the quote currency")
            return Decimal(1)
        if self.conversion is None:
            expected = f"conversion, the value of 1 {currency} in {instrument.currency}"
            raise InputError(f"{name} is in {currency}, not {instrument.currency}: add its {expected}")
        return self.conversion


def fee_rate(row: Floats, limits: Floats, instrument: Instrument) -> FeeRate:
    """Return the fee whose `FeeRate.row` and `FeeRate.limits` are given, exactly, in the quote currency if known."""
    currency = "" if " " in instrument.currency else instrument.currency  # a fee's currency is a single word
    amount, fraction = (Decimal(repr(float(one))) for one in row)
    value = instrument.unit * instrument.multiplier
    rate = FeeRate(amount * instrument.multiplier, _one(instrument.quantity), fraction / _BPS)
    least, most = (Decimal(repr(float(one))) * value if np.isfinite(one) else None for one in limits)
    return replace(rate, minimum=least, maximum=most, currency=currency)


class VenueFees(NamedTuple):
    """Fees of several venues for one instrument and day.

    ``takers`` and ``makers (V, 2)`` are rows of a fee per quantity of 1 in price terms and a fraction of the price.
    ``limits (V, 4)`` are the minimum and maximum fee of a taking order, then of a resting order, in price times units;
    infinite where there is none.
    """

    takers: Matrix
    makers: Matrix
    limits: Matrix

    @classmethod
    def per_quantity(cls, takers: Sequence[float] | Floats, makers: Sequence[float] | Floats) -> VenueFees:
        """Return fees per quantity of 1 in price terms, ``(V,)`` each, without other components."""
        return cls(fee_rows(takers), fee_rows(makers), fee_limits(len(takers)))

    def plain(self) -> tuple[tuple[tuple[float, ...], ...], ...]:
        """Return nested tuples; ``VenueFees(*map(np.array, plain))`` reverses it."""
        return tuple(tuple(map(tuple, part.tolist())) for part in self)


class FeeSchedule:
    """Fees by venue, symbol and day.

    Examples
    --------
    >>> day = dt.date(2019, 3, 27)
    >>> fee = Fee("XNAS", dt.date(2019, 1, 1), taker="0.0030 per share", maker="-0.0020 per share")
    >>> str(FeeSchedule([fee]).fee("XNAS", day).taker)
    '0.003 per share'
    >>> FeeSchedule([fee]).venue_fees(["XNAS"], Instrument(), day).makers.tolist()
    [[-0.002, 0.0]]
    """

    def __init__(self, fees: Sequence[Fee]) -> None:
        self.fees = sorted(valid_list("fees", fees, Fee, "fees"), key=lambda fee: (fee.venue, fee.symbol, fee.since))
        for one, other in itertools.pairwise(self.fees):
            if (one.venue, one.symbol, one.since) == (other.venue, other.symbol, other.since):
                where = f"{one.symbol} at {one.venue}" if one.symbol else one.venue
                raise InputError(f"expected one fee per venue, symbol and day, got two for {where} from {one.since}")

    def fee(self, venue: str, day: dt.date, symbol: str = "") -> Fee:
        """Return the fees of a symbol at a venue on a day; raise `InputError` if there are none.

        The latest entry that names the symbol applies or, if there is none, the latest entry for all symbols.
        """
        instance_of("venue", venue, str, "a string")
        valid_day("day", day)
        begun = [fee for fee in self.fees if fee.venue == venue and fee.since <= day and fee.symbol in ("", symbol)]
        if not begun:
            known = ", ".join(
                f"{fee.venue}{f' {fee.symbol}' if fee.symbol else ''} from {fee.since}" for fee in self.fees
            )
            which = f"{symbol} at {venue}" if symbol else venue
            raise InputError(f"no fee for {which} on {day}; the schedule has {known or 'none'}")
        return begun[-1]  # sorted by symbol, and an empty one comes first

    def venue_fees(self, venues: Sequence[str], instrument: Instrument, day: dt.date) -> VenueFees:
        """Return the fees of an instrument at several venues on a day."""
        rows = [self.fee(venue, day, instrument.symbol).rows(instrument) for venue in venues]
        return VenueFees(*(np.array([row[k] for row in rows]).reshape(len(rows), -1) for k in range(3)))


def fee_rows(amounts: Sequence[float] | Floats) -> Matrix:
    """Return rows ``(V, 2)`` of fees per quantity of 1 in price terms, without a fraction of the price."""
    given = np.asarray(amounts, dtype=np.float64)
    return np.stack([given, np.zeros_like(given)], axis=1)


def fee_limits(count: int) -> Matrix:
    """Return limits ``(V, 4)`` of `VenueFees` that do not bind."""
    return np.tile([-np.inf, np.inf, -np.inf, np.inf], (count, 1))


def fee_at(fees: Floats, price: Any) -> Any:
    """Return the fee per quantity of 1 at a price, for rows ``(.., 2)`` and prices that broadcast against ``(..)``.

    >>> fee_at(np.array([[0.003, 0.0], [0.0, 0.001]]), np.array([10.0, 20.0])).tolist()
    [0.003, 0.02]
    """
    return fees[..., 0] + fees[..., 1] * np.abs(price)


def charged_fee(total: float, limits: Floats) -> float:
    """Return the fee of an order that traded: ``total``, clipped to its minimum and maximum, ``limits (2,)``."""
    return float(min(max(total, limits[0]), limits[1]))


def load_fees(path: str | os.PathLike[str]) -> FeeSchedule:
    """Read a schedule from a TOML file."""
    file = valid_path("path", path)
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8")).get("fees")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path} must be a TOML file of [[fees]]: {error}") from error
    if not isinstance(entries, list):
        raise DataError(f"{path} must be a TOML file of [[fees]], had {'none' if entries is None else shown(entries)}")
    return FeeSchedule([_fee(entry, f"entry {number} of {path}") for number, entry in enumerate(entries, 1)])


def _fee(entry: Any, where: str) -> Fee:
    required = ("venue", "from", "taker", "maker")
    optional = ("symbol", "currency", "conversion", "volume", "tiers")
    if not isinstance(entry, dict):
        raise DataError(f"{where} must have {', '.join(required[:-1])} and {required[-1]}, was {entry!r}")
    given = dict(entry)
    missing = [name for name in required if name not in given]
    if missing or not set(given) <= {*required, *optional}:
        raise DataError(
            f"{where} must have venue, from, taker and maker, and may have {', '.join(optional)}; was {sorted(given)}"
        )
    for name in ("venue", "symbol", "currency", "volume"):
        if name in given and not isinstance(given[name], str):
            raise DataError(f"{name} of {where} must be a string, was {given[name]!r}")
    day = given.pop("from")
    if not isinstance(day, dt.date) or isinstance(day, dt.datetime):
        raise DataError(f"from of {where} must be a day such as 2019-01-01, was {day!r}")
    tiers = given.pop("tiers", [])
    if not isinstance(tiers, list):
        raise DataError(f"tiers of {where} must be a list of tables, was {tiers!r}")
    try:
        return Fee(since=day, tiers=tuple(_tier(tier, where) for tier in tiers), **given)
    except InputError as error:
        raise DataError(f"{where}: {error}") from None


def _tier(tier: Any, where: str) -> FeeTier:
    if not isinstance(tier, dict) or set(tier) != {"volume", "taker", "maker"}:
        raise DataError(f"a tier of {where} must have volume, taker and maker, was {tier!r}")
    return FeeTier(**tier)
