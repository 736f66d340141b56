"""Routers on recorded days: no look-ahead, and better routers have lower costs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numba.core.event import trigger_event

from riskroute.core.errors import InputError
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Router
from riskroute.routers.rules import DarkFirstRule, PrimaryRule, SweepRule
from riskroute.routing.fees import fee_rows
from riskroute.simulation.dark_market import DarkMarketPool
from riskroute.simulation.exchange import ExchangeLatency
from riskroute.simulation.play_day import PlayableDay, PlayedDay, play_day, spaced_playable_orders

TAKERS, MAKERS = fee_rows([0.003, 0.003, -0.002]), np.zeros((3, 2))
POOLS = (DarkMarketPool("P", 0.3), DarkMarketPool("Q", 0.1))


def random_day(seed: int = 0, rows: int = 3000, minutes: int = 30) -> DayBooks:
    """Three venues around one price that wanders, with quotes one to three ticks apart."""
    rng = np.random.default_rng(seed)
    stamps, sides = [], []
    times = np.linspace(0, minutes * 60, rows)
    path = 10000 + np.cumsum(rng.standard_normal(rows))
    for _ in range(3):
        mine = np.sort(rng.choice(rows, rows // 2, replace=False))
        centre = np.rint(path[mine] + rng.normal(0, 0.6, len(mine)))
        ladder, half = np.arange(3), rng.integers(1, 3, len(mine))
        bids, asks = (centre - half)[:, None] - ladder, (centre + half)[:, None] + ladder
        sizes = rng.integers(1, 9, (2, len(mine), 3)) * 100.0
        stamps.append((times[mine] * SECOND).astype(np.int64))
        sides.append((bids / 100, sizes[0], asks / 100, sizes[1]))
    px_b, sz_b, px_a, sz_a = (np.concatenate(column) for column in zip(*sides, strict=True))
    offsets = np.cumsum([0, *map(len, stamps)])
    return DayBooks(("A", "B", "C"), offsets, np.concatenate(stamps), np.arange(offsets[-1]), px_b, sz_b, px_a, sz_a)


BOOKS = random_day()


def trading_day(books: DayBooks = BOOKS, *, count: int = 120, shares: int = 400, horizon: float = 0.0) -> PlayableDay:
    orders = spaced_playable_orders(books, count, shares, horizon=horizon, rng=np.random.default_rng(3))
    return PlayableDay("d", books, orders, TAKERS, MAKERS, POOLS)


def costs(played: PlayedDay) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([one.done.cost for one in played.orders])


@dataclass
class Noting(Router):
    """Sweeps, and notes when what was learned became known and when orders were routed."""

    name: ClassVar[str] = "noting"
    feedback: ClassVar[str] = "F2"

    def begin(self) -> None:
        self.now = 0
        self.late: list[int] = []
        self.contexts: list[Context] = []
        self.profits = 0

    def decide(self, context: Context) -> Plan:
        self.now = context.time
        self.contexts.append(context)
        return Plan(context.order)

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        self.late += [child.known for child in children]
        self.profits += profit is not None


def test_every_order_is_filled_and_every_report_learned() -> None:
    router = Noting()
    played = play_day(router, trading_day())
    assert all(one.done.filled == 400 for one in played.orders)
    assert len(played.orders) == router.profits == 120
    assert router.under_way == ()


def test_reports_are_not_learned_before_they_are_known() -> None:
    """Orders a second apart whose outcome takes ten: at most what is ten seconds old has been learned."""

    @dataclass
    class Strict(Noting):
        def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
            super().on_fills(order, children, profit)
            assert not self.busy or all(child.known <= self.upcoming for child in children)

        busy: ClassVar[bool] = True
        upcoming: ClassVar[int] = 0

    day = trading_day(horizon=10.0, count=60)
    times = iter(day.orders.times.tolist())

    @dataclass
    class Watched(Strict):
        def decide(self, context: Context) -> Plan:
            type(self).upcoming = next(times, 10**18)
            return Plan(context.order, dark_rest={"P": 400})

    next(times)
    play_day(Watched(), day)


def test_a_router_sees_nothing_after_its_decision() -> None:
    """All prices after a moment are moved by a dollar: contexts and plans up to then stay the same."""
    day = trading_day()
    moment = int(day.orders.times[60])
    later = BOOKS.stamps > moment
    moved = dataclasses.replace(BOOKS, bid_px=BOOKS.bid_px + later[:, None], ask_px=BOOKS.ask_px + later[:, None])
    seen = []
    for books in (BOOKS, moved):
        router = Noting()
        play_day(router, dataclasses.replace(day, books=books))
        seen.append([context.to_json() for context in router.contexts[:61]])
    assert seen[0] == seen[1]


def test_routers_share_common_random_numbers() -> None:
    """An order that sends all of itself to a pool is filled alike, whatever came before."""
    always = play_day(DarkFirstRule(), trading_day())
    again = play_day(DarkFirstRule(), trading_day())
    assert costs(always).tolist() == costs(again).tolist()
    assert costs(play_day(DarkFirstRule(), trading_day(), seed=1)).tolist() != costs(always).tolist()


def test_the_sweep_beats_one_venue_and_pools_beat_the_sweep() -> None:
    sweep, primary, dark = (
        costs(play_day(router, trading_day())) for router in (SweepRule(), PrimaryRule(), DarkFirstRule())
    )
    assert sweep.mean() < primary.mean()
    assert dark.mean() < sweep.mean()


def test_without_latency_the_sweep_costs_what_was_displayed() -> None:
    played = play_day(SweepRule(), trading_day(), latency=ExchangeLatency(0.0, 0.0))
    for done in (one.done for one in played.orders):
        assert done.cost == pytest.approx(float(done.context.displayed.costs(400)), abs=1e-9)


def test_a_router_that_looks_ahead_wins() -> None:
    """It waits a minute for a price that it knows to be better: a harness that missed that would miss anything."""
    day = trading_day(horizon=60.0)
    times, signs = day.orders.times, day.orders.signs
    gain = -signs * (BOOKS.mids(times + 60 * SECOND) - BOOKS.mids(times))

    @dataclass
    class Clairvoyant(Router):
        name: ClassVar[str] = "clairvoyant"
        feedback: ClassVar[str] = "F4"

        def decide(self, context: Context) -> Plan:
            number = int(context.order.split("/")[1])
            wait = gain[number] > 0
            return Plan(context.order, limit={"A": context.shares} if wait else {})

    ahead, plain = costs(play_day(Clairvoyant(), day)), costs(play_day(SweepRule(), day))
    apart = plain - ahead
    assert apart.mean() > 4 * apart.std(ddof=1) / len(apart) ** 0.5


def test_stale_books_are_counted_and_not_shown() -> None:
    """Venue A falls silent halfway; five seconds later its books are hidden."""
    half = int(BOOKS.stamps.max() // 2)
    first = BOOKS.offsets[1]
    keep = np.concatenate([BOOKS.stamps[:first] <= half, np.ones(len(BOOKS.stamps) - first, dtype=bool)])
    offsets = BOOKS.offsets - int((~keep).sum()) * (np.arange(4) > 0)
    columns = {
        name: getattr(BOOKS, name)[keep] for name in ("stamps", "sequences", "bid_px", "bid_sz", "ask_px", "ask_sz")
    }
    silent = DayBooks(BOOKS.venues, offsets, **columns)
    router = Noting()
    played = play_day(router, trading_day(silent))
    late = [context for context in router.contexts if context.time > half + 5 * SECOND]
    assert sum(one.stale for one in played.orders) >= len(late) > 40
    assert all(context.books.ask_sz[0].sum() == 0 for context in late)


def test_orders_are_spread_over_the_day_and_alternate_sides() -> None:
    orders = spaced_playable_orders(BOOKS, 10, 100, rng=np.random.default_rng(0), horizon=60.0)
    assert orders.signs.tolist() == [1, -1] * 5
    assert orders.times.min() >= BOOKS.first
    assert orders.times.max() <= BOOKS.last - 60 * SECOND
    assert spaced_playable_orders(BOOKS, 4, 1, side="sell", rng=np.random.default_rng(0)).signs.tolist() == [-1] * 4
    with pytest.raises(InputError, match="horizon must be more than 1 s shorter than the day"):
        spaced_playable_orders(BOOKS, 4, 1, rng=np.random.default_rng(0), horizon=1e6)


def test_decision_times_exclude_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every decision takes 3 microseconds, and the first compiles for 5 seconds besides."""
    now = 0.0
    monkeypatch.setattr("riskroute.core.runtime.time.perf_counter", lambda: now)
    monkeypatch.setattr("riskroute.simulation.play_day.clock.perf_counter", lambda: now)
    router = SweepRule()
    route, decided = router.route, 0

    def slow(context: Context) -> Plan:
        nonlocal now, decided
        decided += 1
        if decided == 1:
            with trigger_event("numba:compile"):
                now += 5.0
        now += 3e-6
        return route(context)

    monkeypatch.setattr(router, "route", slow)
    played = play_day(router, trading_day(count=5))
    assert decided == len(played.orders) > 1
    assert [one.decision_us for one in played.orders] == pytest.approx([3.0] * decided, rel=1e-3)
