"""The clairvoyant is a lower bound for every router, and equals exhaustive search on small cases."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from riskroute.core.arrays import Floats
from riskroute.core.instrument import PROTECTIONS, Instrument
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.routers.registry import ROUTERS, make_router
from riskroute.routers.router import Router
from riskroute.simulation.clairvoyant import Clairvoyant, _cheapest, _Offer, _on_offer, _visible
from riskroute.simulation.dark_market import DarkMarketPool
from riskroute.simulation.exchange import ExchangeFill, ExchangeLatency
from riskroute.simulation.play_day import PlayableDay, PlayableOrders, PlayedDay, play_day
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import day_to_play

AT_ONCE = ExchangeLatency(0.0, 0.0)
OTHERS = [name for name in ROUTERS if name != "policy"]
SOME = ["sweep", "nbbo", "spray", "primary", "dark-first+post+sweep", "rest-even+sweep", "cont-kukanov"]


def day_of(day: MarketDay, shares: int, horizon: float, *, side: str = "both", protection: str = "none") -> PlayableDay:
    config = BacktestConfig(orders=25, seeds=1, quantities=(shares,), horizon=horizon, side=side)
    return dataclasses.replace(day_to_play(day, config), instrument=Instrument("QVEX", protection=protection))


def costs(router: Router, day: PlayableDay, **more: Any) -> Floats:
    played = play_day(router, day, **more)
    executed = [one.done for one in played.orders]
    assert all(done.filled == done.context.shares for done in executed)
    return np.array([done.cost / done.context.shares for done in executed])


HARDER: dict[str, dict[str, Any]] = {
    "as usual": {},
    "at once": {"latency": AT_ONCE},
    "slow": {"latency": ExchangeLatency(0.1, 0.7)},
    "faded": {"fade": 0.5},
    "leaking": {"leak": 50.0},
}


@pytest.mark.parametrize("world", HARDER)
@pytest.mark.parametrize("protection", PROTECTIONS)
@pytest.mark.parametrize("horizon", [0.0, 0.5, 30.0])
def test_no_order_of_any_router_is_cheaper(
    horizon: float, protection: str, world: str, dark_days: list[MarketDay]
) -> None:
    """Not one order of 300 shares, nor of 20,000, which are more than is displayed."""
    for shares in (300, 20_000) if world == "as usual" else (1500,):
        day = day_of(dark_days[0], shares, horizon, protection=protection)
        best = costs(Clairvoyant(), day, **HARDER[world])
        for name in OTHERS if world == "as usual" else SOME:
            gap = costs(make_router(name), day, **HARDER[world]) - best
            assert gap.min() > -1e-9, (name, shares)


def test_the_bound_is_tight_for_some_orders(dark_days: list[MarketDay]) -> None:
    day = day_of(dark_days[0], 300, 0.0)
    assert (costs(make_router("sweep"), day) - costs(Clairvoyant(), day)).max() > 0.001


def test_the_clairvoyant_has_no_unexpected_cost(dark_days: list[MarketDay]) -> None:
    """Its objective is its cost, whatever risk is charged; else a bound on objectives it would not be."""
    for one in play_day(Clairvoyant(), day_of(dark_days[0], 1000, 30.0)).orders:
        assert one.foreseen == one.done.cost


def naive_capacities(day: DayBooks, sign: int, begin: int, end: int) -> dict[tuple[int, float], int]:
    """Shares on offer by venue and price: a maximum flow from snapshots to the seconds in which they are visible."""
    shown: dict[tuple[int, float], dict[int, tuple[int, set[int]]]] = {}
    largest: dict[tuple[int, float, int], int] = {}
    changes = [int(stamp) for stamp in day.stamps if begin < stamp <= end]
    seconds = range(begin, end + 1, SECOND)
    lapses = [int(stamp) + day.oldest + 1 for stamp in day.stamps if begin < stamp + day.oldest + 1 <= end]
    for time in sorted({begin, *changes, *seconds, *lapses}):
        now = day.as_of(time)
        prices, sizes = (now.ask_px, now.ask_sz) if sign > 0 else (now.bid_px, now.bid_sz)
        for v, level in np.ndindex(prices.shape):
            if (size := int(sizes[v, level])) >= 1:
                place, second = (v, float(prices[v, level])), (time - begin) // SECOND
                row = shown.setdefault(place, {}).setdefault(int(now.rows[v]), (size, set()))
                row[1].add(second)
                largest[*place, second] = max(largest.get((*place, second), 0), size)
    found = {}
    for place, rows in shown.items():
        ends = sorted({second for _, visible in rows.values() for second in visible})
        nodes = 2 + len(rows) + len(ends)
        graph = np.zeros((nodes, nodes), dtype=np.int32)
        for k, (size, visible) in enumerate(rows.values(), 1):
            graph[0, k] = size
            for second in visible:
                graph[k, 1 + len(rows) + ends.index(second)] = size
        for k, second in enumerate(ends):
            graph[1 + len(rows) + k, nodes - 1] = largest[*place, second]
        found[place] = int(maximum_flow(csr_array(graph), 0, nodes - 1).flow_value)
    return found


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, -1]), st.sampled_from([0.5, 2.0, 60.0]))
def test_shares_on_offer_are_a_maximum_flow(seed: int, sign: int, stale: float) -> None:
    rng = np.random.default_rng(seed)
    rows = 12
    prices = (1000 + rng.integers(0, 3, (rows, 1)) + np.arange(2)) / 100
    sizes = rng.integers(0, 6, (2, rows, 2)).astype(float)
    stamps = np.concatenate([np.sort(rng.integers(0, 60, rows // 2)) * SECOND // 10 for _ in range(2)])
    day = DayBooks(
        *(("A", "B"), np.array([0, rows // 2, rows]), stamps, np.arange(rows)),
        *(20 - prices, sizes[0], prices, sizes[1]),
    ).aged(stale)
    begin, end = SECOND // 2, 5 * SECOND
    venues, at, shares, _ = _on_offer(_visible(day, sign, np.ones(2), begin, end, 10**6))
    found = {(v, p): n for v, p, n in zip(venues.tolist(), at.tolist(), shares.tolist(), strict=True)}
    assert found == naive_capacities(day, sign, begin, end)


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=4), min_size=1, max_size=3))
def test_exclusive_alternatives_give_the_better_one_per_share(alternatives: list[list[tuple[int, int]]]) -> None:
    nothing = ExchangeFill(0, "take", "A", 0, 0, 0.0, 0.0)
    best = _cheapest([[_Offer(float(cost), n, nothing) for cost, n in one] for one in alternatives])
    found = [offer.cost for offer in best for _ in range(offer.shares)]
    each = [sorted(float(cost) for cost, n in one for _ in range(n)) for one in alternatives]
    expected = [min(costs) for costs in itertools.zip_longest(*each, fillvalue=math.inf)]
    assert found == expected


def small_day(rng: np.random.Generator, sign: int, shares: int, horizon: float = 0.0) -> PlayableDay:
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
    orders = PlayableOrders(np.array([SECOND]), np.array([sign]), np.array([shares]), np.array([horizon]))
    pools = tuple(
        DarkMarketPool(name, 1.0, rate=0.0, smallest=1, largest=3, tail=0.5, fee=float(rng.integers(0, 15)) / 1000)
        for name in ("P", "Q")
    )
    takers = np.stack([rng.integers(-20, 31, 2) / 1e4, rng.integers(-5, 31, 2) / 1e4], axis=1)
    return PlayableDay("d", books, orders, takers, np.zeros((2, 2)), pools)


def cheapest_by_trying(day: PlayableDay, seed: int) -> float:
    """All ways to take the shares of the only order from levels and pools."""
    books, sign, shares = day.books.as_of(SECOND), int(day.orders.signs[0]), int(day.orders.shares[0])
    mid = float(day.books.mids(np.array([SECOND]))[0])
    prices, sizes = (books.ask_px, books.ask_sz) if sign > 0 else (books.bid_px, books.bid_sz)
    offers = [
        (int(sizes[v, level]), sign * (price - mid) + day.takers[v, 0] + day.takers[v, 1] * price)
        for v in range(2)
        for level, price in enumerate(prices[v])
    ]
    dark = day.dark_market(seed)
    offers += [(dark.hidden(0, pool.name), pool.fee) for pool in day.pools]
    ways = itertools.product(*(range(most + 1) for most, _ in offers))
    return min(
        sum(some * each for some, (_, each) in zip(way, offers, strict=True)) for way in ways if sum(way) == shares
    )


def only(played: PlayedDay) -> float:
    (done,) = (one.done for one in played.orders)
    assert done.filled == done.context.shares
    return done.cost


@pytest.mark.parametrize("sign", [1, -1])
def test_small_cases_agree_with_exhaustive_search(sign: int) -> None:
    rng = np.random.default_rng(8)
    for seed in range(25):
        day = small_day(rng, sign, shares=2 + seed % 3)
        found = only(play_day(Clairvoyant(), day, seed=seed, latency=AT_ONCE, stale_seconds=1e6))
        assert found == pytest.approx(cheapest_by_trying(day, seed), abs=1e-9)


def test_an_unchanged_book_is_one_offer_and_a_changed_one_two() -> None:
    """More shares than one snapshot shows: those at the horizon are there only if the snapshot is another one."""
    rng = np.random.default_rng(2)
    day = dataclasses.replace(small_day(rng, 1, shares=1), pools=())
    shown = int(day.books.as_of(SECOND).ask_sz.sum())
    for horizon, beyond in ((50.0, 2), (150.0, 0)):
        orders = PlayableOrders(np.array([SECOND]), np.array([1]), np.array([shown + 2]), np.array([horizon]))
        played = play_day(Clairvoyant(), dataclasses.replace(day, orders=orders), stale_seconds=1e6)
        assert played.orders[0].done.estimated == beyond
        assert played.orders[0].done.filled == shown + 2
