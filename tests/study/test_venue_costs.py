"""What orders cost by venue: numbers by hand, a naive twin, intervals of adverse selection."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_costs import Tables, a_child, a_fill, an_order, as_tables, naive_venue, random_rows
from riskroute.core.records import from_plain, to_plain
from riskroute.study.costs import VenueCosts, costs_by_venue


def pinged(blocks: int, falls: float = 0.03) -> Tables:
    """One purchase per time block, of which a pool fills 100 or 300 shares before the mid falls."""
    orders, children, fills = [], [], []
    for number in range(blocks):
        order = an_order("dark-first", number, block=number)
        shares = 100 if number % 2 else 300
        child = a_child(order, 0, "dark", "POOL", 1000, filled=shares)
        later = 100.0 - falls * (number % 3)
        orders.append(order)
        children.append(child)
        fills.append(a_fill(child, 0.005, shares, 100.0, fee=0.001, mid_1=later, mid_10=later))
    return as_tables(orders, children, fills)


def test_a_pool_by_hand() -> None:
    (pool,) = costs_by_venue(*pinged(3))
    assert (pool.orders, pool.sent, pool.filled, pool.blocks) == (3, 3000, 700, 3)
    assert pool.fill_rate == pytest.approx(0.7 / 3)
    assert pool.hit_rate == pool.volume_share == 1.0
    assert pool.slippage_bps == pool.effective_spread_bps == 0.0
    assert pool.fees_bps == pytest.approx(0.1)
    adverse = (0 * 300 + 3 * 100 + 6 * 300) / 700
    assert pool.adverse_1_bps == pytest.approx(adverse)
    assert pool.markout_10_bps == pool.mid_markout_10_bps == pytest.approx(-adverse)
    assert pool.toxicity == pytest.approx(adverse)  # half the spread is one basis point
    assert pool.saving_bps == pytest.approx(1 - 0.1)
    assert pool.net_saving_bps == pytest.approx(1 - 0.1 - adverse)
    assert pool.fill_seconds_50 == pool.fill_seconds_90 == pytest.approx(0.005)
    assert pool.adverse_60_bps == 0.0
    assert (pool.adverse_1_interval, pool.toxic, pool.fade) == (None, None, None)


def test_intervals_need_thirty_blocks() -> None:
    (few,) = costs_by_venue(*pinged(29))
    (enough,) = costs_by_venue(*pinged(30))
    assert few.adverse_1_interval is None
    assert enough.adverse_1_interval is not None
    low, high = enough.adverse_1_interval
    assert low < (enough.adverse_1_bps or 0.0) < high
    assert enough.adverse_60_interval == (0.0, 0.0)
    assert enough.toxic is (low > (enough.saving_bps or 0.0)) is True
    (harmless,) = costs_by_venue(*pinged(30, falls=0.0))
    assert harmless.toxic is False


def test_the_interval_is_as_wide_as_blocks_vary() -> None:
    orders, children, fills = pinged(300)
    (pool,) = costs_by_venue(orders, children, fills)
    shares = fills["quantity"].to_numpy()
    adverse = 1e4 * (100.0 - fills["mid_1"].to_numpy()) / 100.0
    mean = float(shares @ adverse / shares.sum())
    # delta method for a ratio of sums over 300 blocks; 1,000 resamples give its width within about a tenth
    error = float(np.sqrt(((shares * (adverse - mean)) ** 2).sum()) / shares.sum())
    low, high = pool.adverse_1_interval or (0.0, 0.0)
    assert (low + high) / 2 == pytest.approx(mean, abs=0.3 * error)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15)


def test_intervals_depend_on_the_seed_alone() -> None:
    tables = pinged(40)
    assert costs_by_venue(*tables, seed=1) == costs_by_venue(*tables, seed=1) != costs_by_venue(*tables, seed=2)
    orders, children, fills = tables
    assert costs_by_venue(orders, children.reverse(), fills.reverse())[0].adverse_1_interval == pytest.approx(
        costs_by_venue(*tables)[0].adverse_1_interval
    )


def test_only_fills_that_we_did_not_time_are_adversely_selected() -> None:
    order = an_order()
    children = [a_child(order, k, kind, "XNAS", 500, filled=500) for k, kind in enumerate(("take", "limit"))]
    fills = [a_fill(children[0], 0, 500, 100.01, mid_1=99.99), a_fill(children[1], 3, 500, 99.99, mid_1=99.98)]
    by_kind = {one.kind: one for one in costs_by_venue(*as_tables([order], children, fills))}
    assert by_kind["take"].mid_markout_1_bps == pytest.approx(-1.0)
    assert by_kind["take"].adverse_1_bps is by_kind["take"].toxicity is by_kind["take"].saving_bps is None
    assert by_kind["limit"].adverse_1_bps == pytest.approx(2.0)
    assert by_kind["limit"].saving_bps == pytest.approx(2.0)


def test_places_without_fills_have_nulls_and_come_last() -> None:
    order = an_order()
    empty, used = a_child(order, 0, "dark", "POOL", 800), a_child(order, 1, "sweep", "XNAS", 1000, filled=1000)
    first, second = costs_by_venue(*as_tables([order], [empty, used], [a_fill(used, 1, 1000, 100.0)]))
    assert (first.place, second.place) == ("XNAS", "POOL")
    assert (second.filled, second.blocks, second.fill_rate, second.volume_share) == (0, 0, 0.0, 0.0)
    assert second.markout_1_bps is second.adverse_1_bps is second.fill_seconds_50 is None
    (alone,) = costs_by_venue(*as_tables([order], [empty], []))
    assert alone.volume_share is None
    assert costs_by_venue(*as_tables([order], [], [])) == ()


def test_costs_are_json_and_come_back() -> None:
    for costs in (*costs_by_venue(*as_tables(*random_rows(2, 12))), *costs_by_venue(*pinged(30))):
        text = json.dumps(to_plain(costs), allow_nan=False)
        assert from_plain(VenueCosts, json.loads(text)) == costs


@given(st.integers(0, 10_000), st.integers(1, 25))
@settings(max_examples=15)
def test_a_naive_twin_finds_the_same(seed: int, count: int) -> None:
    rows = random_rows(seed, count)
    found = costs_by_venue(*as_tables(*rows))
    places = {(row["router"], row["place"], row["kind"]) for row in rows[1] if row["sent"]}
    assert {(one.router, one.place, one.kind) for one in found} == places
    for costs in found:
        plain = to_plain(costs)
        for name in ("adverse_1_interval", "adverse_10_interval", "adverse_60_interval", "toxic"):
            assert plain.pop(name) is None
        assert plain == pytest.approx(naive_venue((costs.router, costs.place, costs.kind), *rows), abs=1e-7)
