"""The clairvoyant is a bound: nobody is cheaper, and on small cases it is what trying everything finds."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from riskroute.arrays import Floats, Integers
from riskroute.experiments.backtest.config import BacktestConfig
from riskroute.experiments.backtest.markets import MarketDay
from riskroute.experiments.backtest.play import trading_day
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.market.queue_fills import QueueReplay
from riskroute.routers.context import Context
from riskroute.routers.registry import ROUTERS, make_router
from riskroute.routers.router import Router
from riskroute.simulation.backtest import Orders, PlayedDay, TradingDay, play_day
from riskroute.simulation.clairvoyant import Clairvoyant, _Offer
from riskroute.simulation.dark_market import PoolModel
from riskroute.simulation.exchange import HIDDEN_WINDOW, Exchange, Fill, Latency

AT_ONCE = Latency(0.0, 0.0)
OTHERS = [name for name in ROUTERS if name != "policy"]


def forgetful(day: MarketDay, shares: int, horizon: float) -> TradingDay:
    """Pools do not mind whether we were there of late: what they hold is the same for all routers."""
    pools = tuple(dataclasses.replace(pool, recent=0.0) for pool in day.pools)
    return trading_day(
        dataclasses.replace(day, pools=pools), BacktestConfig(orders=25, shares=(shares,), horizon=horizon)
    )


def costs(router: Router, day: TradingDay, latency: Latency) -> Floats:
    played = play_day(router, day, latency=latency, leak=0.0)
    assert all(done.filled == done.context.shares for done in played.executed)
    return np.array([done.cost / done.context.shares for done in played.executed])


@pytest.mark.parametrize("latency", [AT_ONCE, Latency(0.001, 0.005)], ids=["at once", "on the way"])
@pytest.mark.parametrize("shares", [300, 20_000])
def test_no_order_of_any_router_is_cheaper(shares: int, latency: Latency, dark_days: list[MarketDay]) -> None:
    """Nor with time on the way; a router that looks again for a second, nbbo, may see what comes too late."""
    day = forgetful(dark_days[0], shares, 0.0)
    best = costs(Clairvoyant(), day, latency)
    for name in OTHERS:
        gap = costs(make_router(name), day, latency) - best
        assert gap.mean() > -1e-9, name
        if name != "nbbo" or latency == AT_ONCE:
            assert gap.min() > -1e-9, name
    assert (costs(make_router("sweep"), day, latency) - best).max() > 0.001


@pytest.mark.parametrize("horizon", [0.5, 30.0])
def test_with_time_nobody_is_cheaper_on_average(horizon: float, dark_days: list[MarketDay]) -> None:
    day = forgetful(dark_days[0], 1000, horizon)
    best = costs(Clairvoyant(), day, Latency())
    for name in OTHERS:
        assert (costs(make_router(name), day, Latency()) - best).mean() > 0, name


def test_what_is_known_is_no_risk(dark_days: list[MarketDay]) -> None:
    """Its objective is its cost, whatever risk is charged; else a bound on objectives it would not be."""
    for one in play_day(Clairvoyant(), forgetful(dark_days[0], 1000, 30.0)).orders:
        assert one.foreseen == one.done.cost


class EveryTime(Clairvoyant):
    """Looks at every level of every venue at every time, and asks each for hidden shares."""

    def _displayed(
        self, exchange: Exchange, context: Context, times: list[int], seen: Integers | None = None
    ) -> list[_Offer]:
        most: dict[tuple[int, float], tuple[int, int]] = {}
        hidden: dict[tuple[int, float], int] = {}
        for time in times:
            books = exchange.books.as_of(time)
            prices, sizes = (books.ask_px, books.ask_sz) if context.sign > 0 else (books.bid_px, books.bid_sz)
            for v, level in np.ndindex(prices.shape):
                place, size = (v, float(prices[v, level])), int(sizes[v, level])
                if size >= 1 and (seen is None or books.rows[v] != seen[v]):
                    most[place] = max(most.get(place, (0, 0)), (size, time), key=lambda one: one[0])
                    hidden[place] = max(hidden.get(place, 0), exchange.hidden_shares(*place, time))
        return [
            self._offer(
                context,
                Fill(
                    0, "take", exchange.books.venues[v], time, size + hidden[v, price], price, float(exchange.takers[v])
                ),
            )
            for (v, price), (size, time) in most.items()
        ]


def test_a_naive_twin_that_looks_at_everything_takes_the_same(dark_days: list[MarketDay]) -> None:
    """Large orders that take many levels, right before somebody trades with hidden shares."""
    met = 0
    for horizon in (0.0, 0.5, 30.0):
        day = forgetful(dark_days[0], 5000, horizon)
        queue = day.queue
        assert isinstance(queue, QueueReplay)
        stamps = np.sort(np.concatenate([stamps for stamps, *_ in queue.hidden.values()]))
        times = stamps[10 :: len(stamps) // 25][: len(day.orders.times)] - SECOND // 1000
        day = dataclasses.replace(day, orders=dataclasses.replace(day.orders, times=times))
        ours, naive = (play_day(router, day, leak=0.0).executed for router in (Clairvoyant(), EveryTime()))
        assert [one.fills for one in ours] == [one.fills for one in naive]
        taken = [fill for one in ours for fill in one.fills if fill.kind == "take"]
        venues = day.books.venues
        met += sum(
            queue.hidden_volume(venues.index(fill.place), fill.price, fill.time, fill.time + HIDDEN_WINDOW)
            for fill in taken
        )
    assert met > 0


def small_day(rng: np.random.Generator, sign: int, shares: int, horizon: float = 0.0) -> TradingDay:
    """Two venues of two levels with up to three shares each, on two snapshots far apart, and two pools."""
    levels, rows = 2, 2
    middles = 1000 + rng.integers(-1, 2, (2 * rows, 1))
    bids = (middles - rng.integers(1, 3, (2 * rows, 1)) - np.arange(levels)) / 100
    asks = (middles + rng.integers(1, 3, (2 * rows, 1)) + np.arange(levels)) / 100
    sizes = rng.integers(0, 4, (2, 2 * rows, levels)).astype(float)
    sizes[:, :, 0] += 1
    stamps = np.array([0, 100, 0, 100]) * SECOND
    books = DayBooks(
        ("A", "B"), np.array([0, rows, 2 * rows]), stamps, np.arange(2 * rows), bids, sizes[0], asks, sizes[1]
    )
    orders = Orders(np.array([SECOND]), np.array([sign]), np.array([shares]), np.array([horizon]))
    pools = tuple(
        PoolModel(name, 1.0, rate=0.0, smallest=1, largest=3, tail=0.5, fee=float(rng.integers(0, 15)) / 1000)
        for name in ("P", "Q")
    )
    takers = rng.integers(-20, 31, 2) / 1e4
    return TradingDay("d", books, orders, takers, np.zeros(2), pools)


def cheapest_by_trying(day: TradingDay, seed: int) -> float:
    """All ways to take the shares of the only order from levels and pools."""
    books, sign, shares = day.books.as_of(SECOND), int(day.orders.signs[0]), int(day.orders.shares[0])
    mid = float(day.books.mids(np.array([SECOND]))[0])
    prices, sizes = (books.ask_px, books.ask_sz) if sign > 0 else (books.bid_px, books.bid_sz)
    offers = [
        (int(sizes[v, level]), sign * (prices[v, level] - mid) + day.takers[v]) for v in range(2) for level in range(2)
    ]
    dark = day.dark_market(seed)
    offers += [(dark.hidden(0, pool.name), pool.fee) for pool in day.pools]
    ways = itertools.product(*(range(most + 1) for most, _ in offers))
    return min(
        sum(some * each for some, (_, each) in zip(way, offers, strict=True)) for way in ways if sum(way) == shares
    )


def only(played: PlayedDay) -> float:
    assert len(played.executed) == 1
    assert played.executed[0].filled == played.executed[0].context.shares
    return played.executed[0].cost


@pytest.mark.parametrize("sign", [1, -1])
def test_small_cases_by_trying_everything(sign: int) -> None:
    rng = np.random.default_rng(8)
    for seed in range(25):
        day = small_day(rng, sign, shares=2 + seed % 3)
        found = only(play_day(Clairvoyant(), day, seed=seed, latency=AT_ONCE, stale_seconds=1e6))
        assert found == pytest.approx(cheapest_by_trying(day, seed), abs=1e-9)


def test_a_book_that_stays_is_one_offer_and_one_that_changes_two() -> None:
    """More shares than one snapshot shows: those at the horizon are there only if the snapshot is another one."""
    rng = np.random.default_rng(2)
    day = dataclasses.replace(small_day(rng, 1, shares=1), pools=())
    shown = int(day.books.as_of(SECOND).ask_sz.sum())
    for horizon, beyond in ((50.0, 2), (150.0, 0)):
        orders = Orders(np.array([SECOND]), np.array([1]), np.array([shown + 2]), np.array([horizon]))
        played = play_day(Clairvoyant(), dataclasses.replace(day, orders=orders), stale_seconds=1e6)
        assert played.executed[0].estimated == beyond
        assert played.executed[0].filled == shown + 2
