"""Context of a routing decision: the order, the displayed books of all venues, fees and dark pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Integers, Matrix, Vector
from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import (
    LARGEST_QUANTITY,
    REG_NMS,
    SHARES,
    Instrument,
    instrument_from_plain,
    instrument_step,
    named_after_symbol,
)
from riskroute.core.runtime import cached
from riskroute.core.text import plain_number, shown
from riskroute.core.validation import (
    LONGEST_VENUE,
    SIDES,
    as_name,
    exact_array,
    instance_of,
    one_of,
    real_number,
    unvalidated,
    valid_list,
    whole_number,
)
from riskroute.routing.consolidated import ConsolidatedBook, sweep_cost
from riskroute.routing.fees import FeeRate, charged_fee, fee_at, fee_limits, fee_rate, parse_fee

_LARGEST_FEE = 10.0  # per quantity of 1, in price terms; a larger fee of a pool is probably in other units


@dataclass(frozen=True)
class ContextPool:
    """Dark pool with its fee per quantity of 1 in price terms, and its price improvement over the mid.

    ``improvement`` is in half-spreads, positive in the order's favour; with 0, fills are at the mid.
    """

    name: str
    fee: float = 0.0
    improvement: float = 0.0

    def fee_text(self, instrument: Instrument) -> str:
        """Return the fee in natural units, such as ``0.001 per share``."""
        return str(fee_rate(np.array([self.fee, 0.0]), fee_limits(1)[0, :2], instrument))

    def __post_init__(self) -> None:
        as_name("name of a pool", self.name, longest=LONGEST_VENUE)
        real_number(f"fee of {self.name}", self.fee, minimum=-_LARGEST_FEE, maximum=_LARGEST_FEE)
        real_number(f"improvement of {self.name}", self.improvement, minimum=-1, maximum=1)


@dataclass(frozen=True, eq=False)
class ContextBooks:
    """Displayed books of several venues at one time, with their fees.

    Parameters
    ----------
    venues : tuple[str, ...]
        Names of the ``V`` venues.
    bid_px, bid_sz, ask_px, ask_sz : Matrix
        ``(V, L)`` each, best level first; NaN price and size 0 where a level is empty.
    takers, makers : Matrix
        ``(V, 2)``, fees per quantity of 1 in price terms (money over the multiplier) and as a fraction of the price;
        rebates are negative.
    ages : Integers
        ``(V,)``, nanoseconds since each book last changed; negative for a venue without a book.
    fee_limits : Matrix
        ``(V, 4)``, the least and the largest fee of a taking order, then of a resting order, in price times units;
        default: no limits. Routers may ignore them; printed and booked costs include them.

    Examples
    --------
    >>> one = np.array([[10.0], [9.99]]), np.full((2, 1), 100.0), np.array([[10.04], [10.02]]), np.full((2, 1), 300.0)
    >>> books = ContextBooks(("XNAS", "XBOS"), *one, takers=np.zeros((2, 2)), makers=np.zeros((2, 2)))
    >>> books.best_bid, books.best_ask, books.mid
    (10.0, 10.02, 10.01)
    """

    venues: tuple[str, ...]
    bid_px: Matrix
    bid_sz: Matrix
    ask_px: Matrix
    ask_sz: Matrix
    takers: Matrix
    makers: Matrix
    ages: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    fee_limits: Matrix = field(default_factory=lambda: np.zeros((0, 4)))

    def __post_init__(self) -> None:
        if not isinstance(self.venues, tuple) or not all(isinstance(name, str) for name in self.venues):
            raise InputError(f"venues must be a tuple of names, was {shown(self.venues)}")
        count = len(self.venues)
        shape = (count, None)
        for name in ("bid_px", "bid_sz", "ask_px", "ask_sz"):
            array = np.ascontiguousarray(exact_array(name, getattr(self, name), np.float64, shape))
            shape = array.shape
            object.__setattr__(self, name, array)
        for name in ("takers", "makers"):
            array = np.ascontiguousarray(exact_array(name, getattr(self, name), np.float64, (count, 2)))
            object.__setattr__(self, name, array)
        limits = exact_array("fee_limits", self.fee_limits, np.float64, (None, 4))
        limits = limits if len(limits) else fee_limits(count)
        object.__setattr__(self, "fee_limits", exact_array("fee_limits", limits, np.float64, (count, 4)))
        given = exact_array("ages", self.ages, np.int64, (None,))
        ages = given if len(given) else np.zeros(count, dtype=np.int64)
        object.__setattr__(self, "ages", exact_array("ages", ages, np.int64, (count,)))

    @cached
    def touch(self) -> tuple[float, float]:
        """Best bid and best ask over all venues; NaN if a side is empty."""
        return _touch(self.bid_px, self.bid_sz, self.ask_px, self.ask_sz)

    @property
    def best_bid(self) -> float:
        """Highest bid over all venues; NaN without bids."""
        return self.touch[0]

    @property
    def best_ask(self) -> float:
        """Lowest ask over all venues; NaN without asks."""
        return self.touch[1]

    @property
    def mid(self) -> float:
        """Consolidated mid: average of the best bid and the best ask over all venues."""
        bid, ask = self.touch
        return (bid + ask) / 2

    def side(self, name: str) -> tuple[Matrix, Matrix]:
        """Return prices and sizes ``(V, L)`` of the ``bid`` or the ``ask`` side."""
        return (self.bid_px, self.bid_sz) if name == "bid" else (self.ask_px, self.ask_sz)

    def post_fees(self, name: str) -> Floats:
        """Return the maker fees per quantity of 1 at the venues' best prices of a side, ``(V,)``; at the mid if empty.

        Ignore minimum and maximum fees per order; `order_fee` applies them.
        """
        best = self.side(name)[0][:, 0]
        return np.asarray(fee_at(self.makers, np.where(np.isfinite(best), best, self.mid)))

    @cached
    def has_fee_limits(self) -> bool:
        """Whether a venue has a minimum or maximum fee per order."""
        return bool(np.isfinite(self.fee_limits).any())

    def order_fee(self, venue: int, total: float, *, maker: bool = False) -> float:
        """Return the fee of an order that traded at a venue, from its total without limits."""
        return charged_fee(total, self.fee_limits[venue, 2 * maker : 2 * maker + 2])


@njit(cache=True)
def _best(prices: Matrix, sizes: Matrix, sign: int) -> float:
    """Return the lowest price of a non-empty level, or the highest if ``sign`` is -1; NaN if all are empty."""
    best = np.nan
    for venue in range(prices.shape[0]):
        for level in range(prices.shape[1]):
            if sizes[venue, level] > 0 and not sign * prices[venue, level] >= sign * best:
                best = prices[venue, level]
    return best


@njit(cache=True)
def _touch(bid_px: Matrix, bid_sz: Matrix, ask_px: Matrix, ask_sz: Matrix) -> tuple[float, float]:
    return _best(bid_px, bid_sz, -1), _best(ask_px, ask_sz, 1)


@dataclass(frozen=True, eq=False)
class Context:
    """An order and the market at its arrival.

    Parameters
    ----------
    order : str
        Key of the order; plans and reports refer to it.
    side : str
        ``buy`` or ``sell``.
    shares, lot : int
        Order size, and the lot size of child orders, in units of the instrument.
    books : ContextBooks
        Displayed books as of the decision.
    pools : tuple[ContextPool, ...]
        Dark pools available to the order.
    horizon : float
        Seconds until the order must be complete; 0: immediately.
    time : int
        Arrival time, UTC nanoseconds.
    features : Mapping[str, float]
        Further features at arrival, by name; ``outflow NAME`` is the recent outflow of the best own-side queue of venue
        NAME, in shares per second.
    instrument : Instrument
        Unit, tick, currency and order protection; learning routers keep separate estimates per symbol.

    Examples
    --------
    >>> venue = {"bids": [[10.0, 100]], "asks": [[10.02, 200]], "taker": "10 bps"}
    >>> context = read_context({"venues": {"XNAS": venue}}, side="buy", shares=50)
    >>> context.mid, round(float(context.displayed.costs(50)), 6)
    (10.01, 1.001)
    """

    order: str
    side: str
    shares: int
    books: ContextBooks
    pools: tuple[ContextPool, ...] = ()
    lot: int = 1
    horizon: float = 0.0
    time: int = 0
    features: Mapping[str, float] = field(default_factory=dict)
    instrument: Instrument = SHARES

    def __post_init__(self) -> None:
        instance_of("order", self.order, str, "a text")
        instance_of("instrument", self.instrument, Instrument, "an Instrument")
        instance_of("books", self.books, ContextBooks, "a ContextBooks")
        instance_of("features", self.features, Mapping, "numbers by name")
        if not isinstance(self.pools, tuple) or not all(isinstance(pool, ContextPool) for pool in self.pools):
            raise InputError(f"pools must be a tuple of ContextPool, was {shown(self.pools)}")
        whole_number("time", self.time, minimum=0)
        one_of("side", self.side, SIDES)
        whole_number("shares", self.shares, maximum=LARGEST_QUANTITY)
        whole_number("lot", self.lot, maximum=LARGEST_QUANTITY)
        real_number("horizon", self.horizon, minimum=0)

    @property
    def symbol(self) -> str:
        """Symbol of the instrument; empty if unknown."""
        return self.instrument.symbol

    @property
    def tick(self) -> float:
        """Smallest price step."""
        return self.instrument.price_step

    @property
    def protected(self) -> bool:
        """Whether order protection applies."""
        return self.instrument.protection == REG_NMS

    @property
    def sign(self) -> int:
        """1 for a buy order, -1 for a sell order."""
        return 1 if self.side == SIDES[0] else -1

    @property
    def mid(self) -> float:
        """Arrival mid, the benchmark of all costs."""
        return self.books.mid

    @property
    def value_price(self) -> float:
        """Price at which the order is valued for costs in basis points: the absolute mid, at least a tick."""
        return max(abs(self.mid), self.tick)

    @cached
    def displayed(self) -> ConsolidatedBook:
        """Consolidated book of the side the order takes from, fees included."""
        prices, sizes = self.books.side("ask" if self.sign > 0 else "bid")
        return self.book(prices, sizes, self.books.takers)

    @cached
    def sweep_cost(self) -> float:
        """Cost of sweeping the whole order from the displayed books, with fees but no minimum or maximum fees."""
        prices, sizes = self.books.side("ask" if self.sign > 0 else "bid")
        mid = real_number("mid", self.mid)
        return sweep_cost(
            prices, sizes, self.books.takers, sign=self.sign, mid=mid, shares=self.shares, protect=self.protected
        )

    @property
    def pool_savings(self) -> dict[str, float]:
        """Saving of a fill in each pool against sweeping the whole order, per quantity of 1."""
        sweep = self.sweep_cost / self.shares
        bid, ask = self.books.touch
        half = (ask - bid) / 2
        return {pool.name: sweep - pool.fee + pool.improvement * half for pool in self.pools}

    @property
    def best_queues(self) -> dict[str, float]:
        """Shares displayed at the market's best own-side price, by venue; queues at worse prices do not trade."""
        best = self.books.best_bid if self.sign > 0 else self.books.best_ask
        prices, sizes = self.books.side("bid" if self.sign > 0 else "ask")
        return {
            name: float(sizes[v, 0])
            for v, name in enumerate(self.books.venues)
            if prices[v, 0] == best and sizes[v, 0] > 0
        }

    @property
    def quickest_venue(self) -> str:
        """Venue whose queue at the market's best own-side price has the smallest expected delay; empty if none."""
        delays = {
            name: shares / max(self.features.get(f"outflow {name}", 1.0), 1e-9)
            for name, shares in self.best_queues.items()
        }
        return min(delays, key=lambda name: (delays[name], name)) if delays else ""

    def book(self, prices: Matrix, sizes: Matrix, takers: Matrix) -> ConsolidatedBook:
        """Return the consolidated book of given levels, such as later ones, with this order's mid and protection."""
        mid = real_number("mid", self.mid)
        return ConsolidatedBook.of_checked(prices, sizes, takers, mid=mid, sign=self.sign, protect=self.protected)

    def to_json(self) -> dict[str, Any]:
        """Return the context as plain JSON values with natural quantities; `read_context` rebuilds it."""
        books, unit = self.books, self.instrument.natural
        venues = {
            name: {
                "bids": _pairs(books.bid_px[v], books.bid_sz[v], self.instrument),
                "asks": _pairs(books.ask_px[v], books.ask_sz[v], self.instrument),
                "taker": fee_rate(books.takers[v], books.fee_limits[v, :2], self.instrument).to_json(),
                "maker": fee_rate(books.makers[v], books.fee_limits[v, 2:], self.instrument).to_json(),
                "age_ns": int(books.ages[v]),
            }
            for v, name in enumerate(books.venues)
        }
        pools = {
            pool.name: {"fee": pool.fee_text(self.instrument), "improvement": pool.improvement} for pool in self.pools
        }
        return {
            "venues": venues,
            "pools": pools,
            "features": dict(self.features),
            "instrument": self.instrument.to_json(),
            **{name: getattr(self, name) for name in ("order", "side", "horizon", "time")},
            "quantity": plain_number(unit(self.shares)),
            "lot": plain_number(unit(self.lot)),
        }


def _pairs(prices: Vector, sizes: Vector, instrument: Instrument) -> list[list[float]]:
    shown = ((float(p), float(s)) for p, s in zip(prices, sizes, strict=True) if s > 0 and np.isfinite(p))
    return [[price, float(instrument.natural(size))] for price, size in shown]


_ORDER_FIELDS = ("order", "side", "quantity", "shares", "lot", "horizon", "time")
_INSTRUMENT_FIELDS = ("symbol", "tick", "protection")


def read_context(books: Mapping[str, Any], **order: Any) -> Context:
    """Build a context from plain JSON values with natural quantities.

    Parameters
    ----------
    books : Mapping[str, Any]
        ``venues`` by name, each with ``bids`` and ``asks`` as lists of [price, size], best first, and the fees
        ``taker`` and ``maker``, such as ``"10 bps"`` or ``"0.0030 per share"`` (see `riskroute.routing.fees`);
        ``pools`` by name, each with a ``fee`` per quantity of 1; the ``instrument`` with its fields by name, or
        ``symbol``, ``tick`` and ``protection``; and fields of the order. Default of the instrument's unit and
        tick: the largest powers of ten, at most 1 and 0.01, that divide all sizes and all prices. Fractional sizes are
        not shares: quantity and currency are then named after a symbol such as BTCUSDT, or as unknown.
    **order : Any
        Fields of `Context` that describe the order, its ``quantity`` (or ``shares``) and ``lot`` as natural quantities;
        they override those in ``books``.
    """
    known = ("venues", "pools", "features", "instrument", *_INSTRUMENT_FIELDS, *_ORDER_FIELDS)
    values = {**_object("the books", books, known), **order}
    venues = _object("venues", values.pop("venues", None))
    if not venues:
        raise DataError("venues must hold at least one venue, was empty")
    shown_as = values.get("instrument")
    fields = vars(shown_as) if isinstance(shown_as, Instrument) else _object("instrument", shown_as)
    lowest = -1e9 if fields.get("negative_prices") is True else 0.0
    read = [_venue(as_name("venue", name, longest=LONGEST_VENUE), value, lowest) for name, value in venues.items()]
    pools = _object("pools", values.pop("pools", None))
    values.setdefault("order", "order")
    sizes = [some.pop(name) for some in (order, values) for name in ("quantity", "shares") if name in some]
    quantity = next((size for size in sizes if size is not None), None)
    for name, value in (("side", values.get("side")), ("quantity", quantity)):
        if value is None:
            raise DataError(f"{name} is missing: add it to the order")
    instrument = _instrument(values, read, quantity)
    shown_books = _books(tuple(venues), read, instrument)
    if not np.isfinite(shown_books.mid):
        raise DataError("books must show at least one bid and one ask")
    lot = values.pop("lot", None)
    values |= {
        "shares": instrument.order_units(quantity, price=shown_books.mid),
        "lot": instrument.lot_units if lot is None else instrument.units(lot, "lot"),
    }
    dark = tuple(_pool(name, value, instrument) for name, value in pools.items())
    return Context(books=shown_books, pools=dark, instrument=instrument, **values)


def _pool(name: str, value: Any, instrument: Instrument) -> ContextPool:
    given = _object(f"pool {name}", value, ("fee", "improvement"))
    rate = parse_fee(f"fee of {name}", given.pop("fee", 0))
    if rate.currency not in ("", instrument.currency):
        raise DataError(f"fee of {name} must be in {instrument.currency}, was in {rate.currency}")
    amount, fraction = rate.row(f"fee of {name}", instrument)
    if fraction or np.isfinite(rate.limits(instrument)).any():
        expected = f"an amount per quantity such as '{fee_rate(np.zeros(2), fee_limits(1)[0, :2], instrument)}'"
        raise DataError(f"fee of {name} must be {expected}, was {rate}")
    return ContextPool(name, amount, **given)


def _instrument(values: dict[str, Any], read: list[dict[str, Any]], quantity: Any) -> Instrument:
    """Remove the instrument from the values and return it, with unit and tick derived from the books if missing."""
    given = values.pop("instrument", None)
    if isinstance(given, Instrument):  # declared, so it replaces the fields of the books
        for name in _INSTRUMENT_FIELDS:
            values.pop(name, None)
        return given
    fields = _object("instrument", given)
    fields |= {name: values.pop(name) for name in _INSTRUMENT_FIELDS if values.get(name) is not None}
    levels = np.array([level for one in read for side in ("bids", "asks") for level in one[side]]).reshape(-1, 2)
    wanted = [float(quantity)] if isinstance(quantity, int | float) else []
    named = bool({"quantity", "currency", "unit"} & set(fields)) or instrument_step(levels[:, 1]) == 1
    fields.setdefault("unit", instrument_step([*levels[:, 1], *wanted]))
    fields.setdefault("tick", min(instrument_step(levels[:, 0]), Instrument.tick))
    found = instrument_from_plain(fields.pop("symbol", ""), fields)
    return found if named else named_after_symbol(found)  # fractional sizes are not shares


def _books(venues: tuple[str, ...], read: list[dict[str, Any]], instrument: Instrument) -> ContextBooks:
    depth = max(max(len(one["bids"]), len(one["asks"]), 1) for one in read)
    sides: dict[str, Matrix] = {}
    for side, short in (("bids", "bid"), ("asks", "ask")):
        prices, sizes = np.full((len(read), depth), np.nan), np.zeros((len(read), depth))
        for v, one in enumerate(read):
            for level, (price, size) in enumerate(one[side]):
                where = f"{side} of {venues[v]}, level {level + 1}: size"
                prices[v, level], sizes[v, level] = price, instrument.units(size, where)
        sides |= {f"{short}_px": prices, f"{short}_sz": sizes}
    rows: dict[str, list[tuple[float, float]]] = {"taker": [], "maker": []}
    limits: list[tuple[float, ...]] = []
    for venue, one in zip(venues, read, strict=True):
        rates: dict[str, FeeRate] = {name: one[name] for name in rows}
        for name, rate in rates.items():
            where = f"{name} fee of {venue}"
            if rate.currency not in ("", instrument.currency):
                raise DataError(f"{where} must be in {instrument.currency}, was in {rate.currency}")
            rows[name].append(rate.row(where, instrument))
        limits.append(rates["taker"].limits(instrument) + rates["maker"].limits(instrument))
    ages = np.array([one["age_ns"] for one in read], dtype=np.int64)
    takers, makers = (np.array(some) for some in rows.values())
    return ContextBooks(venues, **sides, takers=takers, makers=makers, ages=ages, fee_limits=np.array(limits))


def _object(name: str, value: Any, fields: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return a JSON object after checking its field names."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DataError(f"{name} must be an object, was {shown(value)}")
    if fields is not None and (unknown := [key for key in value if key not in fields]):
        raise DataError(f"unknown field {shown(unknown[0])} in {name}; fields are {', '.join(fields)}")
    return dict(value)


def _venue(name: str, value: Any, lowest: float) -> dict[str, Any]:
    given = _object(f"venue {name}", value, ("bids", "asks", "taker", "maker", "age_ns"))
    read: dict[str, Any] = {}
    for side, sign in (("bids", -1), ("asks", 1)):
        levels: list[tuple[float, float]] = []
        for level in valid_list(f"{side} of {name}", given.get(side, []), object, "pairs of price and size"):
            if not isinstance(level, list | tuple) or len(level) != 2:
                raise DataError(f"{side} of {name} must be pairs of price and size, was {shown(level)}")
            # a price beyond 1e9 is in other units
            price = real_number(f"price of {name}", level[0], above=lowest, maximum=1e9)
            levels.append((price, real_number(f"size of {name}", level[1], minimum=0, maximum=1e12)))
        prices = [sign * price for price, _ in levels]
        if prices != sorted(prices):
            raise DataError(f"{side} of {name} must have the best price first, was {[p for p, _ in levels]}")
        read[side] = levels
    bid, ask = (next((price for price, size in read[side] if size > 0), None) for side in ("bids", "asks"))
    if bid is not None and ask is not None and bid >= ask:
        raise DataError(f"best bid of {name} must be below its best ask, was {bid:.10g} and {ask:.10g}")
    for fee in ("taker", "maker"):
        read[fee] = parse_fee(f"{fee} fee of {name}", given.get(fee, 0))
    read["age_ns"] = whole_number(f"age_ns of {name}", given.get("age_ns", 0), minimum=0)
    return read


def copied_context(context: Context) -> Context:
    """Return a copy of a context whose arrays a router may modify."""
    books = context.books
    _ = books.touch  # computed before the copy, so that both have it
    names = ("bid_px", "bid_sz", "ask_px", "ask_sz", "takers", "makers", "ages", "fee_limits")
    arrays = {name: vars(books)[name].copy() for name in names}
    fields = {name: vars(context)[name] for name in Context.__dataclass_fields__}
    return unvalidated(Context, fields | {"books": unvalidated(ContextBooks, vars(books) | arrays)})
