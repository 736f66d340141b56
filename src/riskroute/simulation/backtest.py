"""Routers on recorded days: orders in the order of time, each on the books of its moment, reports as they come back."""

from __future__ import annotations

import heapq
import time as clock
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from riskroute.arrays import Floats, Integers, Stamps
from riskroute.errors import InputError
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.routers.context import Context
from riskroute.routers.report import Report
from riskroute.routers.router import Router
from riskroute.routing.consolidated import SIDES
from riskroute.simulation.dark_market import DarkMarket, DarkMoments, PoolModel
from riskroute.simulation.exchange import Exchange, Executed, Latency, LimitQueue
from riskroute.simulation.execution import execute_plan
from riskroute.validation import exact_array, real_number, whole_number

STALE = 5.0
"""Seconds after which a venue's book counts as stale, and is not shown to routers."""

REGRET_SECONDS = 10.0
"""How far counterparties in dark pools see ahead."""


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders of a day, ``(n,)`` each, in the order of time.

    ``signs`` are 1 for a purchase and -1 for a sale; ``horizons`` are in seconds.
    """

    times: Stamps
    signs: Integers
    shares: Integers
    horizons: Floats
    lot: int = 1

    def __post_init__(self) -> None:
        count = len(exact_array("times", self.times, np.int64, (None,)))
        if (np.diff(self.times) < 0).any():
            raise InputError("times of orders must rise, did not")
        exact_array("signs", self.signs, np.int64, (count,))
        exact_array("shares", self.shares, np.int64, (count,))
        exact_array("horizons", self.horizons, np.float64, (count,))
        whole_number("lot", self.lot)


def spaced_orders(
    books: DayBooks,
    count: int,
    shares: int,
    *,
    side: str = "both",
    horizon: float = 0.0,
    lot: int = 1,
    rng: np.random.Generator,
) -> Orders:
    """Orders at random moments of equal parts of a day, from when all venues show books until a horizon before its end.

    Parameters
    ----------
    side : str
        ``buy``, ``sell``, or ``both`` in turn.
    """
    first, last = books.first, books.last - int((real_number("horizon", horizon, minimum=0) + 1) * SECOND)
    if last <= first:
        raise InputError(
            f"horizon must leave some of the day, {(books.last - books.first) / SECOND:g} s, was {horizon}"
        )
    edges = np.linspace(first, last, whole_number("count", count) + 1).astype(np.int64)
    times = rng.integers(edges[:-1], np.maximum(edges[1:], edges[:-1] + 1))
    signs = np.where(np.arange(count) % 2 == 0, 1, -1) if side == "both" else np.full(count, 1 if side == "buy" else -1)
    return Orders(times, signs, np.full(count, shares), np.full(count, float(horizon)), lot)


@dataclass(frozen=True, eq=False)
class TradingDay:
    """A recorded day, and the orders that come on it.

    Parameters
    ----------
    name : str
        Of the day, which random streams are named by.
    books : DayBooks
        Its snapshots.
    orders : Orders
        What is to be routed.
    takers, makers : Floats
        ``(V,)``, fees in dollars per share.
    pools : tuple[PoolModel, ...]
        Dark pools.
    queue : LimitQueue, optional
        For limit orders.
    """

    name: str
    books: DayBooks
    orders: Orders
    takers: Floats
    makers: Floats
    pools: tuple[PoolModel, ...] = ()
    queue: LimitQueue | None = None

    def dark_market(self, seed: int) -> DarkMarket:
        """What the pools hold for the orders of the day."""
        times, signs = self.orders.times, self.orders.signs
        now, soon = self.books.mids(times), self.books.mids(times + int(REGRET_SECONDS * SECOND))
        spreads = np.array([_spread(self.books, int(time)) for time in times])
        usual = max(float(np.nanmedian(spreads)), 1e-9) if np.isfinite(spreads).any() else 1.0
        relative = np.clip(np.nan_to_num(spreads, nan=usual) / usual, 0.05, 20.0)
        # a purchase is regretted if the price falls, a sale if it rises
        regretted = np.nan_to_num(np.sign(-signs * (soon - now))).astype(np.int64)
        return DarkMarket(self.pools, DarkMoments(times, relative, regretted), seed=seed, day=self.name)


def _spread(books: DayBooks, time: int) -> float:
    now = books.as_of(time)
    bid, ask = (prices[:, 0][sizes[:, 0] > 0] for prices, sizes in ((now.bid_px, now.bid_sz), (now.ask_px, now.ask_sz)))
    return float(ask.min() - bid.max()) if bid.size and ask.size else float("nan")


@dataclass
class PlayedDay:
    """What a router did on a day: one entry per order."""

    day: str
    executed: list[Executed] = field(default_factory=list)
    decision_seconds: float = 0.0
    stale: int = 0
    """Books of venues that were too old to be shown, over all orders."""
    skipped: int = 0
    """Orders that met no two-sided market at any venue."""


def play_day(
    router: Router,
    day: TradingDay,
    *,
    seed: int = 0,
    latency: Latency | None = None,
    stale_seconds: float = STALE,
    progress: Callable[[int, int], Any] | None = None,
) -> PlayedDay:
    """Route every order of a day, with reports learned as soon as they are known and not before."""
    dark = day.dark_market(seed) if day.pools else None
    exchange = Exchange(day.books, day.takers, day.makers, dark, day.queue, latency or Latency())
    played = PlayedDay(day.name)
    waiting: list[tuple[int, int, Report]] = []
    orders = day.orders
    for number, moment in enumerate(orders.times.tolist()):
        while waiting and waiting[0][0] <= moment:
            router.learn(heapq.heappop(waiting)[2])
        books, hidden = _fresh(exchange, moment, int(stale_seconds * SECOND))
        played.stale += hidden
        if not np.isfinite(books.mid):
            played.skipped += 1
            continue
        context = Context(
            f"{day.name}/{number}",
            SIDES[0] if orders.signs[number] > 0 else SIDES[1],
            int(orders.shares[number]),
            books,
            exchange.pools,
            lot=orders.lot,
            horizon=float(orders.horizons[number]),
            time=moment,
        )
        began = clock.perf_counter()
        plan = router.route(context)
        played.decision_seconds += clock.perf_counter() - began
        done = execute_plan(exchange, number, context, plan.checked(context))
        played.executed.append(done)
        for report in done.reports():
            heapq.heappush(waiting, (max(child.known for child in report.children), len(played.executed), report))
        if progress is not None:
            progress(number + 1, len(orders.times))
    for _, _, report in sorted(waiting, key=lambda entry: entry[:2]):
        router.learn(report)
    return played


def _fresh(exchange: Exchange, moment: int, oldest: int) -> tuple[Any, int]:
    """Books as a router sees them, without those that are too old; and how many those are."""
    books = exchange.venue_books(moment)
    old = (books.ages > oldest) | (books.ages < 0)
    if not old.any():
        return books, 0
    for sizes in (books.bid_sz, books.ask_sz):
        sizes[old] = 0.0
    for prices in (books.bid_px, books.ask_px):
        prices[old] = np.nan
    return books, int(old.sum())
