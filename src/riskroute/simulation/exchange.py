"""The recorded market as a counterparty: its books, pools and queues, and the fills of an order there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from riskroute.core.arrays import Integers, Matrix
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.market.queue_fills import QueueReplay
from riskroute.routers.context import Context, ContextBooks, ContextPool
from riskroute.routers.execution import OUTFLOW_SECONDS
from riskroute.routers.public_data import PublicData, PublicMarketAtHorizon, PublicQueueOutflow
from riskroute.routers.report import ChildReport, Report
from riskroute.routing.consolidated import ConsolidatedBook
from riskroute.routing.fees import fee_at
from riskroute.simulation.dark_market import DarkMarket

HIDDEN_WINDOW = SECOND  # an order meets the hidden shares that trade at its price within this time
BEYOND = "beyond"  # place of fills beyond the displayed books, whose price is an estimate
KEPT_FILLS = 64  # fill times kept per pool, to know whether one was recent


@dataclass(frozen=True)
class ExchangeLatency:
    """Latency in seconds: to a lit venue, and to a dark pool and back."""

    lit: float = 0.001
    dark: float = 0.005


class ExchangeFill(NamedTuple):
    """A fill of child number ``child``: shares, place, time (UTC nanoseconds), price, and fee per quantity of 1.

    A minimum or maximum fee of the child is spread evenly over its shares. ``estimated`` marks shares beyond the
    displayed depth, whose price is extrapolated.
    """

    child: int
    kind: str
    place: str
    time: int
    shares: int
    price: float
    fee: float
    estimated: bool = False


@dataclass
class ExchangeExecution:
    """The execution of an order: its fills, its child orders, and the shares affected by order protection."""

    context: Context
    fills: list[ExchangeFill] = field(default_factory=list)
    children: list[ChildReport] = field(default_factory=list)
    prevented: int = 0  # shares held back because a better price was displayed elsewhere
    through: int = 0  # shares traded through a better quote elsewhere, as the plan allowed

    @property
    def cost(self) -> float:
        """Cost against the arrival mid in price times units, fees included."""
        sign, mid = self.context.sign, self.context.mid
        return sum(fill.shares * (sign * (fill.price - mid) + fill.fee) for fill in self.fills)

    @property
    def filled(self) -> int:
        """Shares filled."""
        return sum(fill.shares for fill in self.fills)

    @property
    def estimated(self) -> int:
        """Shares filled beyond the displayed depth."""
        return sum(fill.shares for fill in self.fills if fill.estimated)

    def reports(self) -> list[Report]:
        """Return the reports to the router: one per time at which fills become known, the last one complete."""
        by_time: dict[int, list[ChildReport]] = {}
        for child in self.children:
            by_time.setdefault(child.known, []).append(child)
        *earlier, last = (tuple(by_time[time]) for time in sorted(by_time))
        order = self.context.order
        return [*(Report(order, some) for some in earlier), Report(order, last, complete=True, profit=-self.cost)]


@dataclass
class Exchange:
    """The recorded market of a day; `execute_plan` executes a plan on it.

    ``takers``, ``makers`` and ``fee_limits`` are fees as in `riskroute.routers.context.ContextBooks`. Limit orders can
    be posted only with a ``queue``. ``faded (n, V)`` is the fraction of the displayed size left when child orders
    arrive; default: all.
    """

    books: DayBooks
    takers: Matrix
    makers: Matrix
    dark: DarkMarket | None = None
    queue: QueueReplay | None = None
    latency: ExchangeLatency = field(default_factory=ExchangeLatency)
    faded: Matrix | None = None
    fee_limits: Matrix = field(default_factory=lambda: np.zeros((0, 4)))
    # Times of our last fills, by pool; fills of resting orders may lie in the future.
    dark_fills: dict[str, deque[int]] = field(default_factory=dict, init=False)

    def filled_recently(self, pool: str, time: int) -> bool:
        """Return whether one of our orders was filled in a pool within the minute before ``time``."""
        return any(0 <= time - fill <= 60 * SECOND for fill in self.dark_fills.get(pool, ()))

    def note_dark_fill(self, pool: str, time: int) -> None:
        """Record the time of a fill in a pool."""
        self.dark_fills.setdefault(pool, deque(maxlen=KEPT_FILLS)).append(time)

    def venue_books(self, time: int) -> ContextBooks:
        """Return the books as of ``time``, as a router sees them."""
        now, fees = self.books.as_of(time), (self.takers, self.makers)
        sides = (now.bid_px, now.bid_sz, now.ask_px, now.ask_sz)
        return ContextBooks(self.books.venues, *sides, *fees, now.ages, self.fee_limits)

    def side(self, number: int, sign: int, time: int) -> tuple[Matrix, Matrix, Integers]:
        """Return the prices and sizes ``(V, L)`` that order ``number`` can take at ``time``, and the snapshot rows."""
        prices, sizes, rows = self.books.opposite(time, sign)
        if self.faded is not None:
            sizes *= self.faded[number][:, None]
        return prices, sizes, rows

    def last_book(self, number: int, context: Context, time: int) -> ConsolidatedBook:
        """Return the books that price shares beyond the depth: as of ``time`` or, if these are empty, at arrival."""
        prices, sizes, _ = self.side(number, context.sign, time)
        book = context.book(prices, sizes, self.takers)
        return book if book.depth else context.displayed

    def mid_and_half_spread(self, time: int, context: Context) -> tuple[float, float]:
        """Return the consolidated mid and half-spread as of ``time`` or, if a side is empty, at arrival."""
        books = self.venue_books(time)
        if not np.isfinite(books.mid):
            books = context.books
        return books.mid, (books.best_ask - books.best_bid) / 2

    def hidden_shares(self, venue: int, price: float, time: int) -> int:
        """Return the hidden shares that an order can meet at a price: all that trade there within `HIDDEN_WINDOW`."""
        return self.queue.hidden_volume(venue, price, time, time + HIDDEN_WINDOW) if self.queue else 0

    def outflows(self, time: int, sign: int) -> dict[str, float]:
        """Return features by venue: shares per second traded against resting orders of our side before ``time``."""
        queue = self.queue
        if queue is None:
            return {}
        return {
            f"outflow {name}": queue.outflow(v, sign, time, OUTFLOW_SECONDS) for v, name in enumerate(self.books.venues)
        }

    def apart(self) -> Exchange:
        """Return a copy of this exchange, to play another plan without changing it."""
        other = replace(self)
        other.dark_fills = {pool: deque(times, maxlen=KEPT_FILLS) for pool, times in self.dark_fills.items()}
        return other

    def public_outcomes(self, context: Context) -> PublicData:
        """Return the profits that public data show afterwards for orders arriving with ``context``.

        They are measured against the arrival mid, without market impact and without minimum and maximum fees, and shown
        to routers of feedback class F3. ``take`` is the profit of taking shares at a venue after the latency. ``limit``
        is the profit of posting shares there until the horizon and then sweeping the remainder; it is missing without a
        queue, with a horizon up to the latency, or where no order can join the queue.
        """
        sizes = PublicData.outcome_sizes(context.shares, context.lot)
        now = context.time + int(self.latency.lit * SECOND)
        end = context.time + int(context.horizon * SECOND)
        found: dict[str, dict[str, tuple[float, ...]]] = {}
        queues: dict[str, PublicQueueOutflow] = {}
        closing = self._public_book(context, end) if end > now and self.queue else None
        for venue, name in enumerate(self.books.venues):
            costs = self._public_book(context, now, venue).costs(sizes)
            found[name] = {"take": tuple((-costs).tolist())}
            if closing is not None and self.queue is not None:
                price, fills = self.queue.fills(venue, context.sign, now, end, sizes[-1])
                if price == price:  # NaN: the order could not join
                    filled = sum(shares for _, shares in fills)
                    each = context.sign * (price - context.mid) + float(fee_at(self.makers[venue], price))
                    kept = [min(size, filled) for size in sizes]
                    rest = closing.costs([size - some for size, some in zip(sizes, kept, strict=True)])
                    found[name]["limit"] = tuple((-(each * np.array(kept, dtype=np.float64) + rest)).tolist())
                    queues[name] = PublicQueueOutflow(*self.queue.drain(venue, context.sign, now, end))
        later = None
        if closing is not None and closing.depth > 0:
            mid, _ = self.mid_and_half_spread(end, context)
            later = PublicMarketAtHorizon(mid, float(closing.costs(context.shares)) / context.shares)
        return PublicData(context, found, queues, later)

    def _public_book(self, context: Context, time: int, venue: int | None = None) -> ConsolidatedBook:
        """Return the opposite side of one venue, or of all, as displayed at ``time``."""
        prices, sizes, _ = self.books.opposite(time, context.sign)
        some = slice(None) if venue is None else slice(venue, venue + 1)
        return context.book(prices[some], sizes[some], self.takers[some])

    def public_trades(self, begin: int, end: int) -> dict[str, dict[str, list[tuple[int, int]]]]:
        """Return the trades in ``[begin, end)`` by venue and side of the resting order."""
        queue = self.queue
        if queue is None:
            return {}
        return {
            name: {side: queue.trades(venue, sign, begin, end) for side, sign in (("ask", 1), ("bid", -1))}
            for venue, name in enumerate(self.books.venues)
        }

    @cached_property
    def pools(self) -> tuple[ContextPool, ...]:
        """The published terms of the dark pools, as a `Context` holds them."""
        return tuple(one.pool for one in self.dark.pools.values()) if self.dark else ()
