"""Play a router on a recorded day: orders meet the books of their time, and reports arrive when they are known."""

from __future__ import annotations

import dataclasses
import heapq
import math
import time as clock
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from riskroute.core.arrays import Floats, Integers, Matrix, Stamps
from riskroute.core.errors import InputError
from riskroute.core.instrument import SHARES, Instrument
from riskroute.core.runtime import compilation_seconds
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import SIDES
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.market.queue_fills import QueueReplay
from riskroute.routers.context import Context
from riskroute.routers.decision import plan_cost_if_swept
from riskroute.routers.execution import PUBLIC_AFTER
from riskroute.routers.report import Report
from riskroute.routers.router import Router
from riskroute.simulation.clairvoyant import Clairvoyant
from riskroute.simulation.dark_market import LEAK, DarkMarket, DarkMarketMoments, DarkMarketPool
from riskroute.simulation.exchange import Exchange, ExchangeExecution, ExchangeLatency
from riskroute.simulation.execute_plan import execute_plan

# Seconds after which a venue's book is stale, by whether the day has a queue, which needs events: a feed of all events
# is silent only when nothing happens, while a feed of best prices may miss changes.
STALE = {True: 60.0, False: 5.0}


@dataclass(frozen=True, eq=False)
class PlayableOrders:
    """Orders of a day, the earliest first; arrays are ``(n,)``.

    ``times`` are in UTC nanoseconds, ``signs`` 1 for a buy and -1 for a sell, ``horizons`` in seconds.
    """

    times: Stamps
    signs: Integers
    shares: Integers
    horizons: Floats
    lot: int = 1


def spaced_playable_orders(
    books: DayBooks,
    count: int,
    shares: int,
    *,
    side: str = "both",
    horizon: float = 0.0,
    lot: int = 1,
    hours: tuple[int, int] | None = None,
    rng: np.random.Generator,
) -> PlayableOrders:
    """Divide a day into ``count`` equal parts, and return one order at a random time in each; all end before the close.

    ``side`` is ``buy``, ``sell``, or ``both``, alternating. ``hours`` are the first and last time in UTC nanoseconds;
    default: from the first time with books at all venues to the last snapshot.
    """
    first, close = hours or (books.first, books.last)
    last = close - int((horizon + 1) * SECOND)
    if last <= first:
        length = f"{max(close - first, 0) / SECOND:g} s"
        raise InputError(f"horizon must be more than 1 s shorter than the day, {length}, was {horizon}")
    edges = np.linspace(first, last, count + 1).astype(np.int64)
    times = rng.integers(edges[:-1], np.maximum(edges[1:], edges[:-1] + 1))
    signs = np.where(np.arange(count) % 2 == 0, 1, -1) if side == "both" else np.full(count, 1 if side == "buy" else -1)
    return PlayableOrders(times, signs, np.full(count, shares), np.full(count, float(horizon)), lot)


@dataclass(frozen=True, eq=False)
class PlayableDay:
    """A recorded day and the orders that arrive on it.

    Random streams are seeded with ``name``: with one seed, days of the same name share their draws. ``takers``,
    ``makers (V, 2)`` and ``fee_limits (V, 4)`` are fees as in `riskroute.routers.context.ContextBooks`. Limit orders
    can be posted only with a ``queue``. All orders are for ``instrument``.
    """

    name: str
    books: DayBooks
    orders: PlayableOrders
    takers: Matrix
    makers: Matrix
    pools: tuple[DarkMarketPool, ...] = ()
    queue: QueueReplay | None = None
    instrument: Instrument = SHARES
    fee_limits: Matrix = field(default_factory=lambda: np.zeros((0, 4)))

    def dark_market(self, seed: int, leak: float = LEAK) -> DarkMarket:
        """Return the pools' hidden liquidity for the orders of the day."""
        times, signs = self.orders.times, self.orders.signs
        spreads = self.books.spreads(times)
        usual = max(float(np.nanmedian(spreads)), 1e-9) if np.isfinite(spreads).any() else 1.0
        relative = np.clip(np.nan_to_num(spreads, nan=usual) / usual, 0.05, 20.0)
        moments = DarkMarketMoments(times, relative, self._adverse_moves(signs, times))
        return DarkMarket(
            self.pools,
            moments,
            seed=seed,
            day=self.name,
            leak=leak,
            later_moves=lambda order, later: self._adverse_moves(signs[order], later),
        )

    def _adverse_moves(self, signs: Integers, times: Stamps) -> Integers:
        """Return 1 where the mid ten seconds later has moved against a fill, -1 where in its favour, else 0."""
        now, soon = self.books.mids(times), self.books.mids(times + 10 * SECOND)
        return np.nan_to_num(np.sign(-signs * (soon - now))).astype(np.int64)


class PlayedOrder(NamedTuple):
    """A routed order.

    ``number`` is its index among the orders of the day, ``foreseen`` the cost of its plan at the displayed books,
    ``stale`` the number of venues without a book or with a stale one, ``decision_us`` the decision time in
    microseconds. ``exploration`` is the cost minus the greedy plan's cost; NaN for a router that never explores. Costs
    are in price times units.
    """

    number: int
    done: ExchangeExecution
    foreseen: float
    stale: int
    decision_us: float
    exploration: float = math.nan


@dataclass
class PlayedDay:
    """The orders of a day, played by one router."""

    day: str
    orders: list[PlayedOrder] = field(default_factory=list)
    skipped: int = 0  # orders that arrived while a side was empty at all venues, or at a mid of 0


View = Callable[[int, Context], Context]  # maps an order's number and context to the context shown to the router


def play_day(
    router: Router,
    day: PlayableDay,
    *,
    seed: int = 0,
    latency: ExchangeLatency | None = None,
    stale_seconds: float | None = None,
    leak: float = LEAK,
    fade: float = 0.0,
    view: View | None = None,
) -> PlayedDay:
    """Route every order of a day; the router learns from each report when it becomes known, not before.

    Books older than ``stale_seconds`` (default: `STALE`, with or without a queue) are neither shown nor executable.
    ``leak`` is the probability of information leakage per 1,000 shares sent to a pool, ``fade`` the fraction of the
    displayed size withdrawn before child orders arrive, at each venue with probability 1/2. ``view`` replaces the
    context shown to the router.
    """
    stale_after = STALE[day.queue is not None] if stale_seconds is None else stale_seconds
    day = dataclasses.replace(day, books=day.books.aged(stale_after))
    dark = day.dark_market(seed, leak) if day.pools else None
    faded = None
    if fade:  # fractions of the displayed size that orders find, ``(n, V)``, the same for all routers
        rng = np.random.default_rng(seed_stream(seed, "fade", day.name))
        lost = rng.random((len(day.orders.times), len(day.books.venues))) < 0.5
        faded = np.where(lost, 1 - fade, 1.0)
    fees = (day.takers, day.makers)
    exchange = Exchange(day.books, *fees, dark, day.queue, latency or ExchangeLatency(), faded, day.fee_limits)
    played = PlayedDay(day.name)
    waiting: list[tuple[int, int, Report]] = []
    shown: deque[tuple[int, Context]] = deque()  # time at which an order's public outcomes become known, its context
    orders, shown_until = day.orders, 0
    for number, moment in enumerate(orders.times.tolist()):
        while waiting and waiting[0][0] <= moment:
            router.learn(heapq.heappop(waiting)[2])
        while shown and shown[0][0] <= moment:
            trades, shown_until = exchange.public_trades(shown_until, moment), moment
            router.on_public_data(dataclasses.replace(exchange.public_outcomes(shown.popleft()[1]), trades=trades))
        books = exchange.venue_books(moment)
        hidden = int(((books.ages > day.books.oldest) | (books.ages < 0)).sum())
        if not np.isfinite(books.mid) or books.mid == 0:  # costs are fractions of the order's value
            played.skipped += 1
            continue
        horizon, sign = float(orders.horizons[number]), int(orders.signs[number])
        context = Context(
            f"{day.name}/{number}",
            SIDES[0] if sign > 0 else SIDES[1],
            int(orders.shares[number]),
            books,
            exchange.pools,
            lot=orders.lot,
            horizon=horizon,
            time=moment,
            features=exchange.outflows(moment, sign) if horizon > 0 else {},
            instrument=day.instrument,
        )
        compiled, began = compilation_seconds(), clock.perf_counter()
        plan = router.route(context if view is None else view(number, context))
        decision_us = 1e6 * (clock.perf_counter() - began - (compilation_seconds() - compiled))
        explored = math.nan
        if isinstance(router, Clairvoyant):
            done = router.execute(exchange, number, context)
            foreseen = done.cost  # the clairvoyant's plan is empty
        else:
            greedy = router.greedy(context)
            there = exchange.apart() if greedy is not None else exchange
            done = execute_plan(exchange, number, context, plan.checked(context))
            if greedy is not None:
                explored = done.cost - execute_plan(there, number, context, greedy.checked(context)).cost
            foreseen = plan_cost_if_swept(context, plan)
        played.orders.append(PlayedOrder(number, done, foreseen, hidden, decision_us, explored))
        if router.feedback == "F3":
            shown.append((moment + int(horizon * SECOND) + PUBLIC_AFTER, context))
        for report in done.reports():
            heapq.heappush(waiting, (max(child.known for child in report.children), len(played.orders), report))
    for _, _, report in sorted(waiting, key=lambda entry: entry[:2]):
        router.learn(report)
    return played
