"""What a router sees when an order arrives: the order, the books of all venues as they stand, fees and dark pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.core.errors import DataError, InputError, shown
from riskroute.core.runtime import cached
from riskroute.core.validation import (
    LONGEST_VENUE,
    SIDES,
    as_name,
    exact_array,
    instance_of,
    list_of,
    one_of,
    real_number,
    whole_number,
)
from riskroute.routing.consolidated import ConsolidatedBook, side_sign, sweep_cost

LARGEST_FEE = 10.0
"""A fee above this, in dollars per share, is taken for a mistake of units."""

PROTECTIONS = NO_PROTECTION, REG_NMS = ("none", "reg-nms")  # REG_NMS: Rule 611 of Regulation NMS, US equities

LARGEST_PRICE = 1e7
"""A price above this, in dollars, is taken for one in other units, or for a marker of no price."""


@dataclass(frozen=True)
class Pool:
    """A dark pool: its fee in dollars per share, and how far from the mid it trades.

    ``improvement`` is in half-spreads, in favour of the order: 0 is the mid itself.
    """

    name: str
    fee: float = 0.0
    improvement: float = 0.0

    def __post_init__(self) -> None:
        as_name("name of a pool", self.name, longest=LONGEST_VENUE)
        real_number(f"fee of {self.name}", self.fee, minimum=-LARGEST_FEE, maximum=LARGEST_FEE)
        real_number(f"improvement of {self.name}", self.improvement, minimum=-1, maximum=1)


@dataclass(frozen=True, eq=False)
class VenueBooks:
    """Displayed books of several venues at one moment, and their fees.

    Parameters
    ----------
    venues : tuple[str, ...]
        Their names, ``V`` of them.
    bid_px, bid_sz, ask_px, ask_sz : Matrix
        ``(V, L)`` each, best level first; NaN and 0 where there is no level.
    takers, makers : Vector
        ``(V,)``, fees in dollars per share; a rebate is negative.
    ages : Integers
        ``(V,)``, nanoseconds since each book last changed.

    Examples
    --------
    >>> one = np.array([[10.0], [9.99]]), np.full((2, 1), 100.0), np.array([[10.04], [10.02]]), np.full((2, 1), 300.0)
    >>> books = VenueBooks(("XNAS", "XBOS"), *one, takers=np.zeros(2), makers=np.zeros(2))
    >>> books.best_bid, books.best_ask, books.mid
    (10.0, 10.02, 10.01)
    """

    venues: tuple[str, ...]
    bid_px: Matrix
    bid_sz: Matrix
    ask_px: Matrix
    ask_sz: Matrix
    takers: Vector
    makers: Vector
    ages: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

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
            array = np.ascontiguousarray(exact_array(name, getattr(self, name), np.float64, (count,)))
            object.__setattr__(self, name, array)
        given = exact_array("ages", self.ages, np.int64, (None,))
        ages = given if len(given) else np.zeros(count, dtype=np.int64)
        object.__setattr__(self, "ages", exact_array("ages", ages, np.int64, (count,)))

    @cached
    def touch(self) -> tuple[float, float]:
        """The highest bid and the lowest ask of all venues; NaN without any."""
        return _touch(self.bid_px, self.bid_sz, self.ask_px, self.ask_sz)

    @property
    def best_bid(self) -> float:
        """The highest bid of all venues; NaN without any."""
        return self.touch[0]

    @property
    def best_ask(self) -> float:
        """The lowest ask of all venues; NaN without any."""
        return self.touch[1]

    @property
    def mid(self) -> float:
        """The consolidated mid: halfway between the best bid and the best ask over all venues."""
        bid, ask = self.touch
        return (bid + ask) / 2

    def side(self, name: str) -> tuple[Matrix, Matrix]:
        """Prices and sizes ``(V, L)`` of the ``bid`` or the ``ask`` side."""
        return (self.bid_px, self.bid_sz) if name == "bid" else (self.ask_px, self.ask_sz)


@njit(cache=True)
def _best(prices: Matrix, sizes: Matrix, sign: int) -> float:
    """The lowest price of a level that holds shares, or the highest with a sign of -1; not a number without any."""
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
    """An order and the moment at which it arrives.

    Parameters
    ----------
    order : str
        Its key, which plans and reports carry.
    side : str
        ``buy`` or ``sell``.
    shares, lot : int
        Its size, and the size that child orders should be multiples of.
    books : VenueBooks
        Displayed books as of the decision, or older.
    pools : tuple[Pool, ...]
        Dark pools that may be tried.
    horizon : float
        Seconds until the whole order must be done; 0 means at once.
    time : int
        Time of arrival, UTC nanoseconds.
    tick : float
        The price step in dollars.
    features : Mapping[str, float]
        What else is known at the arrival, by name.
    symbol : str
        What is traded; routers that learn tell symbols apart by it.
    protection : str
        Order protection of the market. ``reg-nms``: venues reject shares that would trade at a worse price than another
        venue displays, so better prices are taken first, whatever the fees. ``none``: the cheapest shares after fees.

    Examples
    --------
    >>> context = read_context(
    ...     {"venues": {"XNAS": {"bids": [[10.0, 100]], "asks": [[10.02, 200]], "taker": 0.003}}}, side="buy", shares=50
    ... )
    >>> context.mid, round(float(context.displayed.costs(50)), 6)
    (10.01, 0.65)
    """

    order: str
    side: str
    shares: int
    books: VenueBooks
    pools: tuple[Pool, ...] = ()
    lot: int = 1
    horizon: float = 0.0
    time: int = 0
    tick: float = 0.01
    features: Mapping[str, float] = field(default_factory=dict)
    symbol: str = ""
    protection: str = NO_PROTECTION

    def __post_init__(self) -> None:
        instance_of("order", self.order, str, "a text")
        instance_of("symbol", self.symbol, str, "a text")
        instance_of("books", self.books, VenueBooks, "a VenueBooks")
        instance_of("features", self.features, Mapping, "numbers by name")
        if not isinstance(self.pools, tuple) or not all(isinstance(pool, Pool) for pool in self.pools):
            raise InputError(f"pools must be a tuple of Pool, was {shown(self.pools)}")
        whole_number("time", self.time, minimum=0)
        side_sign(self.side)
        whole_number("shares", self.shares, maximum=10**9)
        whole_number("lot", self.lot, maximum=10**9)
        real_number("horizon", self.horizon, minimum=0)
        real_number("tick", self.tick, above=0)
        one_of("protection", self.protection, PROTECTIONS)

    @property
    def protected(self) -> bool:
        """Whether order protection applies."""
        return self.protection == REG_NMS

    @property
    def sign(self) -> int:
        """1 for a buy order, -1 for a sell order."""
        return 1 if self.side == SIDES[0] else -1

    @property
    def mid(self) -> float:
        """The arrival mid, which all costs are measured from."""
        return self.books.mid

    @cached
    def displayed(self) -> ConsolidatedBook:
        """The side that the order takes from, over all venues, fees included."""
        return self.consolidated()

    @cached
    def sweep_cost(self) -> float:
        """Dollars that taking the whole order from the displayed books costs, fees included."""
        prices, sizes = self.books.side("ask" if self.sign > 0 else "bid")
        mid = real_number("mid", self.mid)
        return sweep_cost(
            prices, sizes, self.books.takers, sign=self.sign, mid=mid, shares=self.shares, protect=self.protected
        )

    def consolidated(self, *, fees: bool = True) -> ConsolidatedBook:
        """Return the levels to take from, in the order in which they are taken; by price alone without ``fees``."""
        prices, sizes = self.books.side("ask" if self.sign > 0 else "bid")
        takers = self.books.takers if fees else np.zeros(len(self.books.venues))
        mid = real_number("mid", self.mid)
        return ConsolidatedBook.of_checked(prices, sizes, takers, mid=mid, sign=self.sign, protect=self.protected)

    def book(self, prices: Matrix, sizes: Matrix, takers: Vector) -> ConsolidatedBook:
        """Return other levels to take from, such as those of a later time, under the same mid, side and protection."""
        return ConsolidatedBook(prices, sizes, takers, mid=self.mid, side=self.side, protect=self.protected)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, which `read_context` turns back into the same context."""
        books = self.books
        venues = {
            name: {
                "bids": _pairs(books.bid_px[v], books.bid_sz[v]),
                "asks": _pairs(books.ask_px[v], books.ask_sz[v]),
                "taker": float(books.takers[v]),
                "maker": float(books.makers[v]),
                "age_ns": int(books.ages[v]),
            }
            for v, name in enumerate(books.venues)
        }
        pools = {pool.name: {"fee": pool.fee, "improvement": pool.improvement} for pool in self.pools}
        order = {name: getattr(self, name) for name in _ORDER_FIELDS}
        return {"venues": venues, "pools": pools, "tick": self.tick, "features": dict(self.features), **order}


def _pairs(prices: Vector, sizes: Vector) -> list[list[float]]:
    return [[float(p), float(s)] for p, s in zip(prices, sizes, strict=True) if s > 0 and np.isfinite(p)]


_ORDER_FIELDS = ("order", "side", "shares", "lot", "horizon", "time", "symbol", "protection")
_FIELDS = ("venues", "pools", "tick", "features", *_ORDER_FIELDS)
_VENUE_FIELDS = ("bids", "asks", "taker", "maker", "age_ns")


def read_context(books: Mapping[str, Any], **order: Any) -> Context:
    """Make a context of plain values: books as in a JSON file, and an order in the same file or in the arguments.

    Parameters
    ----------
    books : Mapping[str, Any]
        ``venues`` by name, each with ``bids`` and ``asks`` as lists of price and size, best first, and its fees
        ``taker`` and ``maker``; ``pools`` by name, each with a ``fee``; the ``tick``.
    **order : Any
        Fields of `Context` that describe the order; they replace those in ``books``.
    """
    values = {**_object("the books", books, _FIELDS), **order}
    venues = _object("venues", values.pop("venues", None))
    if not venues:
        raise DataError("venues must hold at least one venue, was empty")
    read = [_venue(as_name("venue", name, longest=LONGEST_VENUE), value) for name, value in venues.items()]
    depth = max(max(len(one["bids"]), len(one["asks"]), 1) for one in read)
    sides: dict[str, Matrix] = {}
    for side, short in (("bids", "bid"), ("asks", "ask")):
        prices, sizes = np.full((len(read), depth), np.nan), np.zeros((len(read), depth))
        for v, one in enumerate(read):
            for level, (price, size) in enumerate(one[side]):
                prices[v, level], sizes[v, level] = price, size
        sides |= {f"{short}_px": prices, f"{short}_sz": sizes}
    fees = {f"{name}s": np.array([one[name] for one in read]) for name in ("taker", "maker")}
    ages = np.array([one["age_ns"] for one in read], dtype=np.int64)
    pools = tuple(
        Pool(name, **_object(f"pool {name}", value, ("fee", "improvement")))
        for name, value in _object("pools", values.pop("pools", None)).items()
    )
    values.setdefault("order", "order")
    for name in ("side", "shares"):
        if name not in values:
            raise DataError(f"{name} must be given, was missing")
    shown_books = VenueBooks(tuple(venues), **sides, **fees, ages=ages)
    if not np.isfinite(shown_books.mid):
        raise DataError("books must show a bid and an ask at some venue, did not")
    return Context(books=shown_books, pools=pools, **values)


def _object(name: str, value: Any, fields: tuple[str, ...] | None = None) -> dict[str, Any]:
    """A JSON object, with no other fields than these."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DataError(f"{name} must be an object, was {shown(value)}")
    if fields is not None and (unknown := [key for key in value if key not in fields]):
        raise DataError(f"{name} must have the fields {', '.join(fields)}, was given {shown(unknown[0])}")
    return dict(value)


def _venue(name: str, value: Any) -> dict[str, Any]:
    given = _object(f"venue {name}", value, _VENUE_FIELDS)
    read: dict[str, Any] = {}
    for side, sign in (("bids", -1), ("asks", 1)):
        levels: list[tuple[float, float]] = []
        for level in list_of(f"{side} of {name}", given.get(side, []), object, "price and size"):
            if not isinstance(level, list | tuple) or len(level) != 2:
                raise DataError(f"{side} of {name} must be price and size, was {shown(level)}")
            price = real_number(f"price of {name}", level[0], above=0, maximum=LARGEST_PRICE)
            size = real_number(f"size of {name}", level[1], minimum=0, maximum=1e12)
            whole = float(round(size))
            if abs(size - whole) > 1e-9 * max(whole, 1.0):  # room for the rounding of whoever scaled it
                raise DataError(
                    f"{side} of {name}, level {len(levels) + 1}: size must be a whole number, was {size:.10g}; use a "
                    "smaller unit: multiply all sizes by a power of ten, and divide prices, fees and tick by it"
                )
            levels.append((price, whole))
        prices = [sign * price for price, _ in levels]
        if prices != sorted(prices):
            raise DataError(f"{side} of {name} must be the best price first, was {[p for p, _ in levels]}")
        read[side] = levels
    bid, ask = (next((price for price, size in read[side] if size > 0), None) for side in ("bids", "asks"))
    if bid is not None and ask is not None and bid >= ask:
        raise DataError(f"best bid of {name} must be below its best ask, was {bid:.10g} and {ask:.10g}")
    for fee in ("taker", "maker"):
        value = given.get(fee, 0.0)
        read[fee] = real_number(f"{fee} of {name}", value, minimum=-LARGEST_FEE, maximum=LARGEST_FEE)
    read["age_ns"] = whole_number(f"age_ns of {name}", given.get("age_ns", 0), minimum=0)
    return read
