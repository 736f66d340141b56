"""Execution of plans on recorded books: each stage uses the books of its time; every share is accounted for."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riskroute.core.instrument import Instrument
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.routers.context import Context
from riskroute.routers.execution import MILLISECOND
from riskroute.routers.plan import Plan
from riskroute.routing.fees import fee_rows
from riskroute.simulation.dark_market import DarkMarket, DarkMarketMoments, DarkMarketPool
from riskroute.simulation.exchange import Exchange, ExchangeExecution, ExchangeLatency
from riskroute.simulation.execute_plan import execute_plan

TAKERS, MAKERS = fee_rows([0.003, -0.002]), fee_rows([-0.002, 0.001])
Levels = list[tuple[float, int]]


def snapshots(*books: tuple[int, Levels, Levels]) -> polars.DataFrame:
    """Snapshots of one venue: time, bids, asks; two levels."""
    columns: dict[str, list[Any]] = {"ts_event": [], "sequence": []}
    for number, (time, bids, asks) in enumerate(books):
        columns["ts_event"].append(time)
        columns["sequence"].append(number)
        for side, levels in (("bid", bids), ("ask", asks)):
            padded: list[tuple[float | None, int]] = [*levels, *[(None, 0)] * (2 - len(levels))]
            for level, (price, size) in enumerate(padded):
                columns.setdefault(f"{side}_px_{level:02d}", []).append(price)
                columns.setdefault(f"{side}_sz_{level:02d}", []).append(size)
    return polars.DataFrame(columns, schema_overrides={name: polars.Float64 for name in columns if "_px_" in name})


ASKS_A: Levels = [(10.02, 100), (10.03, 400)]
ASKS_B: Levels = [(10.02, 300)]


class Queue:
    """A queue that fills limit orders as told: one fill halfway, at 10.02 or 10.00."""

    def __init__(self, filled: int) -> None:
        self.filled = filled

    def fills(self, venue: int, sign: int, begin: int, end: int, shares: int) -> tuple[float, list[tuple[int, int]]]:
        return (10.02 if sign < 0 else 10.0), [((begin + end) // 2, min(self.filled, shares))]

    def drain(self, venue: int, sign: int, begin: int, end: int) -> tuple[float, int, int]:
        raise NotImplementedError

    def trades(self, venue: int, sign: int, begin: int, end: int) -> list[tuple[int, int]]:
        raise NotImplementedError

    def hidden_volume(self, venue: int, price: float, begin: int, end: int) -> int:
        return 0

    def most_hidden(self, venue: int, price: float, begin: int, end: int, window: int) -> int:
        return 0

    def outflow(self, venue: int, sign: int, time: int, seconds: int) -> float:
        return 1.0


def exchange(
    *later: tuple[str, int, Levels],
    pools: tuple[DarkMarketPool, ...] = (),
    queue: Any = None,
    latency: ExchangeLatency | None = None,
) -> Exchange:
    """Two venues; ``later`` are bids of a venue from a time on."""
    first: dict[str, tuple[Levels, Levels]] = {
        "A": ([(10.00, 150), (9.98, 500)], ASKS_A),
        "B": ([(10.00, 100), (9.99, 300)], ASKS_B),
    }
    tables = {
        name: snapshots((0, *books), *((time, bids, books[1]) for venue, time, bids in later if venue == name))
        for name, books in first.items()
    }
    moments = DarkMarketMoments(np.array([SECOND]), np.ones(1), np.zeros(1, dtype=np.int64))
    dark = DarkMarket(pools, moments, seed=0, day="d") if pools else None
    return Exchange(DayBooks.of_tables(tables), TAKERS, MAKERS, dark, queue, latency or ExchangeLatency())


def play(
    market: Exchange, shares: int = 300, *, side: str = "sell", horizon: float = 0.0, **plan: Any
) -> ExchangeExecution:
    context = Context(
        *("a", side, shares, market.venue_books(SECOND), market.pools),
        horizon=horizon,
        time=SECOND,
        instrument=PROTECTED,
    )
    done = execute_plan(market, 0, context, Plan("a", **plan).checked(context))
    assert done.filled == shares
    return done


def traded(done: ExchangeExecution) -> list[tuple[str, str, int, float]]:
    return [(fill.kind, fill.place, fill.shares, fill.price) for fill in done.fills]


PROTECTED = Instrument(protection="reg-nms")
SWEEP: dict[str, Any] = {"take": {"A": 150, "B": 150}, "take_limits": {"A": 10.0, "B": 9.99}}


def test_a_sweep_of_constant_books_costs_the_displayed_prices() -> None:
    done = play(exchange(), **SWEEP)
    assert traded(done) == [("take", "A", 150, 10.0), ("take", "B", 100, 10.0), ("take", "B", 50, 9.99)]
    assert 300 * 10.01 - done.cost == pytest.approx(2999.35, abs=1e-9)
    assert [child.filled for child in done.children] == [150, 150]
    assert {fill.time for fill in done.fills} == {SECOND + MILLISECOND}


def test_shares_missed_on_faded_books_are_swept_without_a_limit() -> None:
    """A's best bid is gone a nanosecond before the order arrives: 150 shares go to the next best, B at 9.99."""
    done = play(exchange(("A", SECOND + MILLISECOND - 1, [(9.98, 500)])), **SWEEP)
    assert traded(done)[-1] == ("sweep", "B", 150, 9.99)
    assert done.children[0].filled == 0
    assert [child.kind for child in done.children] == ["take", "take", "sweep"]


def test_a_book_that_changes_after_the_order_arrives_does_not_matter() -> None:
    done = play(exchange(("A", SECOND + MILLISECOND + 1, [(9.00, 500)])), **SWEEP)
    assert 300 * 10.01 - done.cost == pytest.approx(2999.35, abs=1e-9)


def test_displayed_shares_fill_once() -> None:
    """All 250 at 10.00 are taken first; the rest of the order meets what is left of the same snapshots."""
    done = play(exchange(), 400, take={"A": 150, "B": 100})
    assert traded(done)[2:] == [("sweep", "B", 150, 9.99)]


def test_shares_beyond_the_display_are_charged_an_estimate() -> None:
    """1,050 shares are displayed; 50 more trade beyond the last level, 3 cents off the mid, and a little further."""
    done = play(exchange(), 1100)
    assert done.estimated == 50
    beyond = done.fills[-1]
    assert beyond.estimated
    assert beyond.price < 9.98
    share = np.linspace(1050, 1100, 100_001)
    assert beyond.price == pytest.approx((10.01 / (1 + 0.03 / 9.98 * share / 1050)).mean(), abs=1e-9)
    assert beyond.fee == 0.003


def test_an_order_with_time_waits_for_new_books_instead() -> None:
    """B's book is still the snapshot that the order emptied; A has a new one."""
    market = exchange(("A", 30 * SECOND, [(10.00, 500)]))
    done = play(market, 1100, horizon=60.0)
    assert done.estimated == 0
    assert traded(done)[-1] == ("sweep", "A", 50, 10.0)
    assert done.fills[-1].time == 30 * SECOND + MILLISECOND  # it retries every second


def test_a_better_quote_elsewhere_is_not_traded_through() -> None:
    """400 at A would reach 9.98 while B bids 10.00: only the best level trades, unless the plan says otherwise."""
    done = play(exchange(), 400, take={"A": 400})
    assert traded(done)[0] == ("take", "A", 150, 10.0)
    assert done.prevented == 250
    free = play(exchange(), 400, take={"A": 400}, trade_through=True)
    assert traded(free) == [("take", "A", 150, 10.0), ("take", "A", 250, 9.98)]
    assert free.prevented == 0
    assert free.cost > done.cost


def test_one_venue_alone_walks_through_all_its_levels() -> None:
    done = play(exchange(), 400, take={"A": 400}, rest="venue:A")
    assert traded(done) == [("take", "A", 150, 10.0), ("sweep", "A", 250, 9.98)]


def test_the_best_price_alone_looks_again_every_millisecond() -> None:
    market = exchange(("B", SECOND + 5 * MILLISECOND, [(10.01, 100)]))
    done = play(market, 350, take={"A": 150, "B": 100}, rest="touch")
    assert traded(done)[:2] == [("take", "A", 150, 10.0), ("take", "B", 100, 10.0)]
    assert sum(fill.shares for fill in done.fills) == 350


FULL = DarkMarketPool("P", 1.0, smallest=1000, spread=0.0, recent=0.0, state=0.0, adverse=0.0, fee=0.001)
EMPTY = DarkMarketPool("Q", 0.0)


def test_pools_trade_at_the_mid() -> None:
    done = play(exchange(pools=(FULL, EMPTY)), dark={"P": 200, "Q": 100})
    assert traded(done)[0][:3] == ("dark", "P", 200)
    assert done.fills[0].price == pytest.approx(10.01)
    assert [(child.place, child.filled) for child in done.children[:2]] == [("P", 200), ("Q", 0)]
    assert sum(fill.shares for fill in done.fills if fill.kind == "sweep") == 100
    assert done.cost == pytest.approx(200 * 0.001 + 100 * (0.01 - 0.002))


def test_pools_in_turn_get_the_remainder_after_a_latency_each() -> None:
    done = play(exchange(pools=(EMPTY, FULL)), dark={"Q": 300, "P": 120}, in_turn=True)
    assert [(child.place, child.sent, child.filled) for child in done.children[:2]] == [("Q", 300, 0), ("P", 120, 120)]
    assert done.children[1].known == SECOND + 10 * MILLISECOND
    assert done.fills[-1].time == SECOND + 11 * MILLISECOND


def test_resting_shares_wait_for_counterparties_and_the_rest_is_swept_at_the_horizon() -> None:
    busy = DarkMarketPool("P", 1.0, rate=0.5, smallest=100, largest=100)
    done = play(exchange(pools=(busy,)), 2000, horizon=10.0, dark_rest={"P": 1000})
    rested = [fill for fill in done.fills if fill.kind == "dark_rest"]
    assert rested
    assert all(SECOND < fill.time <= 11 * SECOND and fill.shares == 100 for fill in rested)
    assert max(fill.time for fill in done.fills) == 11 * SECOND
    recalled = play(exchange(pools=(busy,)), 2000, horizon=10.0, dark_rest={"P": 1000}, recall=0.0)
    assert not [fill for fill in recalled.fills if fill.kind == "dark_rest"]
    assert sum(fill.shares for fill in recalled.fills if fill.time < 2 * SECOND) == 1050  # all that is displayed
    assert max(fill.time for fill in recalled.fills) == 11 * SECOND


def test_shares_that_pools_did_not_take_at_once_rest_there_afterwards() -> None:
    busy = DarkMarketPool("P", 1.0, rate=0.5, smallest=100, largest=100)
    plan: dict[str, Any] = {"dark": {"P": 1000}, "in_turn": True, "before": True, "dark_rest": {"P": 1000}}
    done = play(exchange(pools=(busy,)), 1000, horizon=10.0, **plan)
    tried, rested = done.children[:2]
    assert (tried.kind, tried.sent, tried.filled) == ("dark", 1000, 100)
    assert (rested.kind, rested.sent, rested.posted) == ("dark_rest", 900, SECOND + 5 * MILLISECOND)
    assert rested.filled > 0


def test_a_future_fill_is_not_recent() -> None:
    market = exchange(pools=(FULL,))
    market.note_dark_fill("P", 100 * SECOND)
    assert not market.filled_recently("P", 99 * SECOND)
    assert market.filled_recently("P", 160 * SECOND)
    assert not market.filled_recently("P", 161 * SECOND)


def test_limit_orders_earn_the_spread_and_their_rest_is_swept() -> None:
    done = play(exchange(queue=Queue(120)), 200, horizon=10.0, limit={"B": 200})
    assert traded(done) == [("limit", "B", 120, 10.02), ("sweep", "B", 80, 10.0)]
    assert done.cost == pytest.approx(-120 * 0.01 + 120 * 0.001 + 80 * (0.01 - 0.002))
    assert done.children[0].known == 11 * SECOND


def test_shares_returned_by_pools_may_be_posted() -> None:
    done = play(exchange(pools=(EMPTY,), queue=Queue(50)), 50, horizon=10.0, dark={"Q": 50}, rest="post:A")
    assert traded(done) == [("limit", "A", 50, 10.02)]


def test_pools_tried_first_see_the_whole_order() -> None:
    """P fills 180 of 300 in the second turn: 50 that no child holds, 100 to take, and 30 of those to post."""
    market = exchange(pools=(EMPTY, FULL), queue=Queue(500))
    plan: dict[str, Any] = {"dark": {"Q": 300, "P": 180}, "in_turn": True, "take": {"A": 100}, "limit": {"B": 150}}
    done = play(market, 300, horizon=10.0, before=True, **plan)
    sent = [(child.kind, child.place, child.sent, child.filled) for child in done.children]
    assert sent == [("dark", "Q", 300, 0), ("dark", "P", 180, 180), ("limit", "B", 120, 120)]
    assert done.children[2].posted == SECOND + 11 * MILLISECOND
    done = play(exchange(pools=(EMPTY,), queue=Queue(500)), 300, horizon=10.0, before=True, **plan | {"dark": {"Q": 9}})
    shares = [(child.kind, child.place, child.sent) for child in done.children]
    assert shares == [("dark", "Q", 9), ("take", "A", 100), ("sweep", "B", 50), ("limit", "B", 150)]
    assert [done.children[k].posted for k in (1, 3)] == [SECOND + 6 * MILLISECOND] * 2


def test_without_time_or_a_queue_nothing_is_posted() -> None:
    assert traded(play(exchange(queue=Queue(50)), 50, rest="post:A")) == [("sweep", "B", 50, 10.0)]
    assert traded(play(exchange(), 50, horizon=5.0, limit={"A": 50})) == [("sweep", "B", 50, 10.0)]


def test_buying_is_the_mirror_image() -> None:
    done = play(exchange(), 300, side="buy")
    assert traded(done) == [("sweep", "B", 300, 10.02)]
    assert done.cost == pytest.approx(300 * (0.01 - 0.002))


@settings(max_examples=30)
@given(
    st.integers(1, 2000),
    st.sampled_from([0.0, 5.0]),
    st.lists(st.integers(0, 300), min_size=5, max_size=5),
    st.sampled_from(["sweep", "touch", "venue:A", "post:B"]),
    st.sampled_from(["buy", "sell"]),
    st.sampled_from([{}, {"in_turn": True}, {"in_turn": True, "before": True}]),
)
def test_every_share_is_accounted_for(
    shares: int, horizon: float, parts: list[int], rest: str, side: str, turns: dict[str, bool]
) -> None:
    """Fills are those of the children, and the profit told is that of the fills."""
    scale = min(1.0, shares / max(sum(parts), 1))
    p, q, rests, posts, takes = (int(part * scale) for part in parts)
    market = exchange(pools=(DarkMarketPool("P", 0.6), DarkMarketPool("Q", 0.2)), queue=Queue(40))
    plan: dict[str, Any] = {"dark": {"P": p, "Q": q}, "dark_rest": {"P": rests}, "limit": {"A": posts}}
    done = play(market, shares, side=side, horizon=horizon, take={"A": takes}, rest=rest, **plan, **turns)
    for child in done.children:
        fills = [fill for fill in done.fills if fill.child == child.child]
        assert sum(fill.shares for fill in fills) == child.filled
        assert sum(fill.shares * fill.fee for fill in fills) == pytest.approx(child.fee)
    reports = done.reports()
    children = [child for report in reports for child in report.children]
    assert sorted(child.child for child in children) == list(range(len(done.children)))
    assert [report.complete for report in reports] == [False] * (len(reports) - 1) + [True]
    sign = 1 if side == "buy" else -1
    again = -sum(c.filled * sign * (c.price - done.context.mid) + c.fee for c in children if c.filled)
    assert reports[-1].profit == pytest.approx(again, abs=1e-6)


def test_a_quote_beyond_the_limit_of_our_own_child_there_is_protected() -> None:
    """A's bid falls below the limit of the child that was sent for it, so that B's child would trade through it."""
    done = play(exchange(("A", SECOND + 1, [(9.995, 150)])), **SWEEP)
    assert done.prevented == 50
    assert traded(done) == [("take", "B", 100, 10.0), ("sweep", "A", 150, 9.995), ("sweep", "B", 50, 9.99)]


def test_the_best_price_alone_is_taken_where_it_is_cheapest_after_fees() -> None:
    """Both venues bid 10.00; A charges takers, B pays them."""
    done = play(exchange(), 120, horizon=10.0, rest="touch")
    assert traded(done) == [("sweep", "A", 20, 10.0), ("sweep", "B", 100, 10.0)]


def test_odd_lots_are_not_protected_quotes() -> None:
    """Fifty shares left at the better price hold a child back that counts single shares, not one that counts lots."""
    market = exchange()
    for lot, prevented in ((1, 100), (100, 0)):
        context = Context("a", "sell", 300, market.venue_books(SECOND), lot=lot, time=SECOND, instrument=PROTECTED)
        done = execute_plan(market, 0, context, Plan("a", take={"A": 100, "B": 200}).checked(context))
        assert done.prevented == prevented
        assert done.filled == 300
