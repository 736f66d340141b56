"""Information leakage, fading books, trade-throughs, queues without cancellations, and stale books."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from riskroute.core.instrument import Instrument
from riskroute.market import RecordingStore
from riskroute.market.clock import SECOND, clock_stamp
from riskroute.market.day_books import DayBooks
from riskroute.market.queue_fills import QueueReplay
from riskroute.routers.context import Context
from riskroute.routers.execution import OUTFLOW_SECONDS
from riskroute.routers.plan import Plan
from riskroute.routers.registry import make_router
from riskroute.routers.rules import DarkFirstRule, RestEvenRule
from riskroute.simulation.dark_market import DarkMarket, DarkMarketMoments, DarkMarketPool
from riskroute.simulation.exchange import Exchange, ExchangeExecution, ExchangeLatency
from riskroute.simulation.execute_plan import execute_plan
from riskroute.simulation.play_day import play_day, spaced_playable_orders
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import _session, day_to_play

TAKERS = np.zeros((2, 2))
BOOKS = DayBooks(
    ("A", "B"),
    np.array([0, 1, 2]),
    np.array([0, 0]),
    np.array([0, 1]),
    np.array([[10.00, 9.98], [10.00, 9.99]]),
    np.array([[150.0, 500.0], [100.0, 300.0]]),
    np.array([[10.02, 10.03], [10.02, 10.04]]),
    np.array([[100.0, 400.0], [300.0, 300.0]]),
)


def exchange(*, leak: float = 0.0, faded: list[float] | None = None, presence: float = 0.0) -> Exchange:
    """Two venues whose books stand, and a pool that holds nothing."""
    moments = DarkMarketMoments(np.array([SECOND]), np.ones(1), np.zeros(1, dtype=np.int64))
    dark = DarkMarket([DarkMarketPool("P", presence, rate=0.0)], moments, seed=0, day="d", leak=leak)
    return Exchange(BOOKS, TAKERS, TAKERS, dark, None, ExchangeLatency(), None if faded is None else np.array([faded]))


def play(
    market: Exchange, shares: int = 300, *, side: str = "sell", horizon: float = 0.0, **plan: Any
) -> ExchangeExecution:
    context = Context(
        *("a", side, shares, market.venue_books(SECOND), market.pools),
        horizon=horizon,
        time=SECOND,
        instrument=Instrument(protection="reg-nms"),
    )
    done = execute_plan(market, 0, context, Plan("a", **plan).checked(context))
    assert done.filled == shares
    return done


def traded(done: ExchangeExecution) -> list[tuple[str, int, float]]:
    return [(fill.place, fill.shares, fill.price) for fill in done.fills]


def test_a_leak_takes_the_far_touch_away_for_a_second() -> None:
    """Both venues' best bids are gone when the shares come back from the pool, and there again ten seconds later."""
    quiet, leaky = exchange(), exchange(leak=1000.0)
    assert traded(play(quiet, dark={"P": 300})) == [("A", 150, 10.0), ("B", 100, 10.0), ("B", 50, 9.99)]
    assert traded(play(leaky, dark={"P": 300})) == [("B", 300, 9.99)]
    assert traded(play(leaky, side="buy", dark={"P": 300})) == [("A", 300, 10.03)]
    waited = play(leaky, horizon=10.0, dark_rest={"P": 300})
    assert traded(waited) == traded(play(quiet, dark={"P": 300}))
    soon = play(leaky, horizon=10.0, dark_rest={"P": 300}, recall=0.5)
    assert traded(soon) == [("B", 300, 9.99)]
    assert traded(play(leaky, take={"A": 150}))[0] == ("A", 150, 10.0)  # no leak


def test_leaks_have_the_stated_probability_and_are_common_to_routers() -> None:
    count = 4000
    moments = DarkMarketMoments(np.arange(count), np.ones(count), np.zeros(count, dtype=np.int64))
    dark = DarkMarket([DarkMarketPool("P", 0.5), DarkMarketPool("Q", 0.5)], moments, seed=1, day="d", leak=0.1)
    leaks = np.array([dark.leaks(order, "P", 2000) for order in range(count)])
    assert leaks.mean() == pytest.approx(0.2, abs=0.025)  # s.e. 0.006
    fewer = np.array([dark.leaks(order, "P", 500) for order in range(count)])
    assert (leaks | ~fewer).all()  # who leaks with a part of the shares leaks with all of them
    again = DarkMarket([DarkMarketPool("P", 0.1)], moments, seed=1, day="d", leak=0.1)
    assert_array_equal(leaks, [again.leaks(order, "P", 2000) for order in range(count)])
    assert not any(dark.leaks(order, "Q", 0) for order in range(100))


def test_faded_shares_do_not_fill(dark_days: list[MarketDay]) -> None:
    """A shows 150 and 500 shares, but only 70 % of them fill."""
    done = play(exchange(faded=[0.7, 1.0]), take={"A": 150, "B": 150}, take_limits={"A": 10.0, "B": 9.99})
    assert traded(done) == [("A", 105, 10.0), ("B", 100, 10.0), ("B", 50, 9.99), ("B", 45, 9.99)]
    day = day_to_play(dark_days[0], BacktestConfig(orders=60, seeds=1, quantities=(2000,)))
    plain, faded = (
        np.array([one.done.cost for one in play_day(make_router("sweep"), day, fade=fade).orders])
        for fade in (0.0, 0.3)
    )
    assert (faded >= plain - 1e-9).all()
    assert (faded > plain + 0.01).mean() > 0.3
    seeds = [[one.done.cost for one in play_day(make_router("sweep"), day, fade=0.3, seed=s).orders] for s in (0, 0, 1)]
    assert seeds[0] == seeds[1] != seeds[2]


def test_shares_traded_through_are_counted_once() -> None:
    """300 shares to A alone: 150 at the best price of all, and 150 for which B shows more."""
    through = play(exchange(), take={"A": 300}, trade_through=True)
    assert (through.through, through.prevented) == (150, 0)
    assert traded(through) == [("A", 150, 10.0), ("A", 150, 9.98)]
    prevented = play(exchange(), take={"A": 300})
    assert (prevented.through, prevented.prevented) == (0, 150)
    assert traded(prevented) == [("A", 150, 10.0), ("B", 100, 10.0), ("B", 50, 9.99)]


def test_a_quote_that_we_take_ourselves_is_not_traded_through() -> None:
    """B's best bid goes to our own child; what is left at B is no best quote, and a limit holds in any case."""
    both = play(exchange(), 400, take={"A": 300, "B": 100}, trade_through=False)
    assert (both.through, both.prevented) == (0, 0)
    part = play(exchange(), 400, take={"A": 300, "B": 99})
    assert part.prevented == 150
    held = play(exchange(), 300, take={"A": 300}, take_limits={"A": 10.0})
    assert (held.through, held.prevented) == (0, 0)
    bought = play(exchange(), 450, side="buy", take={"A": 450}, trade_through=True)
    assert bought.through == 350


@pytest.fixture(scope="module")
def queues(half_hour: RecordingStore) -> tuple[DayBooks, QueueReplay, dict[str, pl.DataFrame]]:
    recordings = half_hour.recordings()
    books = DayBooks.of_tables({one.venue: half_hour.snapshots(one) for one in recordings}, levels=2)
    events = {one.venue: half_hour.events(one) for one in recordings}
    return books, QueueReplay(books, events, {"XPSX": "pro-rata"}), events


Queues = tuple[DayBooks, QueueReplay, dict[str, pl.DataFrame]]


def test_without_cancellations_no_order_fills_earlier(queues: Queues) -> None:
    books, usual, _ = queues
    hard, rng, later = usual.pessimistic(), np.random.default_rng(1), 0
    for begin in rng.integers(books.first, books.last - 200 * SECOND, 300).tolist():
        venue, sign, shares = int(rng.integers(3)), int(rng.choice([-1, 1])), int(rng.integers(1, 400))
        asked = (venue, sign, begin, begin + 200 * SECOND, shares)
        price, fills = usual.fills(*asked)
        same, slower = hard.fills(*asked)
        assert price == same or np.isnan([price, same]).all()
        for moment in {time for time, _ in (*fills, *slower)}:
            had, has = (sum(some for time, some in one if time <= moment) for one in (fills, slower))
            assert has <= had
            later += has < had
    assert later > 20


def test_outflow_and_volume_are_sums_of_trades(queues: Queues) -> None:
    """Executions of displayed orders, side by side, from the events as they were recorded."""
    books, queue, events = queues
    rng, some = np.random.default_rng(2), 0.0
    for end in rng.integers(books.first, books.last, 20).tolist():
        begin = end - OUTFLOW_SECONDS * SECOND
        total = 0
        for v, venue in enumerate(books.venues):
            table = events[venue].with_columns(stamp=pl.col("ts_event").cast(pl.Int64))
            within = (pl.col("stamp") >= begin) & (pl.col("stamp") < end)
            rows = table.filter((pl.col("action") == "F") & (pl.col("order_id") > 0) & within)
            for sign, side in ((1, "B"), (-1, "A")):
                shares = int(rows.filter(pl.col("side") == side)["size"].sum())
                assert queue.outflow(v, sign, end, OUTFLOW_SECONDS) == pytest.approx(shares / OUTFLOW_SECONDS)
                total += shares
        assert queue.volume(begin, end) == total
        some += total
    assert some > 1000
    assert QueueReplay(books, {}).outflow(0, 1, books.last, OUTFLOW_SECONDS) == 0.0


def test_a_book_that_is_too_old_takes_no_limit_orders(queues: Queues) -> None:
    """Nor is it shown, nor swept: it may have moved on."""
    books, queue, _ = queues
    moment = books.last + 30 * SECOND
    old = books.aged(1.0)
    assert np.isfinite(queue.fills(0, 1, moment, moment + SECOND, 10)[0])
    assert np.isnan(queue.on_books(old).fills(0, 1, moment, moment + SECOND, 10)[0])
    assert np.isnan(old.mids(np.array([moment]))).all()
    assert (old.as_of(moment).bid_sz == 0).all()
    assert (old.as_of(moment).ages >= 30 * SECOND).all()


def test_nothing_trades_with_a_venue_that_is_silent(dark_days: list[MarketDay]) -> None:
    """One venue's snapshots end halfway: a minute later it is hidden and receives no orders."""
    day = day_to_play(dark_days[0], BacktestConfig(orders=60, seeds=1, quantities=(3000,), horizon=20.0))
    books, silent = day.books, 3
    half = (books.first + books.last) // 2
    keep = np.ones(len(books.stamps), dtype=bool)
    mine = slice(books.offsets[silent], books.offsets[silent + 1])
    keep[mine] = books.stamps[mine] <= half
    offsets = np.concatenate([[0], np.cumsum([keep[a:b].sum() for a, b in zip(books.offsets, books.offsets[1:],
                                                                              strict=False)])])  # fmt: skip
    names = ("stamps", "sequences", "bid_px", "bid_sz", "ask_px", "ask_sz")
    cut = dataclasses.replace(books, offsets=offsets, **{name: getattr(books, name)[keep] for name in names})
    assert isinstance(day.queue, QueueReplay)
    muted = dataclasses.replace(day, books=cut, queue=day.queue.on_books(cut))
    for name in ("sweep", "dark-first+post+sweep", "spray", "nbbo", "static", "primary"):
        more = {"venue": books.venues[silent]} if name == "primary" else {}
        played = play_day(make_router(name, **more), muted)
        late = [one for one in played.orders if one.done.context.time > half + 61 * SECOND]
        assert len(late) > 10
        assert all(one.stale == 1 for one in late)
        assert not any(fill.place == books.venues[silent] for one in late for fill in one.done.fills)
        assert all(one.stale == 0 for one in played.orders if one.done.context.time < half)


def test_random_draws_do_not_depend_on_the_router(dark_days: list[MarketDay]) -> None:
    """Two routers that rest all of an order in a pool are filled alike, whatever else they have done before.

    Memory of recent fills in pools is disabled here.
    """
    pools = tuple(dataclasses.replace(pool, recent=0.0) for pool in dark_days[0].pools)
    config = BacktestConfig(orders=40, seeds=1, quantities=(900,))
    day = day_to_play(dataclasses.replace(dark_days[0], pools=pools), config)

    def hidden_fills(router: Any, pool: str) -> dict[int, tuple[int, int]]:
        return {
            one.number: (child.sent, child.filled)
            for one in play_day(router, day).orders
            for child in one.done.children
            if child.kind == "dark" and child.place == pool
        }

    first, even = hidden_fills(DarkFirstRule(mode="parallel"), "POOL1"), hidden_fills(RestEvenRule(), "POOL1")
    shared = first.keys() & even.keys()
    assert len(shared) > 30
    for number in shared:
        (sent, filled), (other_sent, other_filled) = first[number], even[number]
        if filled < sent and other_filled < other_sent:
            assert filled == other_filled  # all that was there
        assert (filled > 0) == (other_filled > 0)


def test_orders_arrive_within_the_session(dark_days: list[MarketDay]) -> None:
    books, date = dark_days[0].load().books, dark_days[0].date
    first, last = _session(books, date)
    assert first == books.stamps.min() + 60 * SECOND
    assert last == books.last
    hours = (first, first + 300 * SECOND)
    orders = spaced_playable_orders(books, 50, 10, rng=np.random.default_rng(0), horizon=60.0, hours=hours)
    assert orders.times.min() >= first
    assert orders.times.max() <= first + 239 * SECOND
    parts = np.linspace(first, first + 239 * SECOND, 51)
    assert ((orders.times >= parts[:-1].astype(int)) & (orders.times <= parts[1:])).all()
    early, open_ = (
        dataclasses.replace(books, stamps=books.stamps - books.stamps.min() + clock_stamp(date, begin))
        for begin in (dt.time(9, 0), dt.time(9, 30))
    )
    assert _session(early, date) == (clock_stamp(date, dt.time(9, 1)), early.last)  # over before the session: all of it
    assert _session(open_, date) == (clock_stamp(date, dt.time(9, 35)), open_.last)
