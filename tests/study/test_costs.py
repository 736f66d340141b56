"""What orders cost by router: numbers by hand, a naive twin, and what is not known."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_costs import (
    NOON,
    SECOND,
    Tables,
    a_child,
    a_fill,
    an_order,
    as_tables,
    naive_router,
    naive_terciles,
    random_rows,
    recomputed_cost,
)
from riskroute.core.records import from_plain, to_plain
from riskroute.study.costs import RouterCosts, costs_by_router


def patient() -> Tables:
    """A sale of 1,000 shares within 60 s: 300 dark, 500 by limit orders, 200 swept at the horizon for 99.95."""
    order = an_order("patient", sign=-1, horizon=60.0, end_mid=99.97, after_10=99.98, cost=14.7, fees=-0.3)
    dark = a_child(order, 0, "dark", "POOL", 1000, filled=300)
    limit = a_child(order, 1, "limit", "XNAS", 700, filled=500)
    sweep = a_child(order, 2, "sweep", "XBOS", 200, filled=200, posted=NOON + 60 * SECOND, displayed=100.0)
    fills = [
        a_fill(dark, 0.005, 300, 100.0, fee=0.001, mid_1=100.02, mid_60=float("nan")),
        a_fill(limit, 20.0, 500, 100.01 - 0.02, mid=99.98, mid_1=99.99, fee=-0.002),
        a_fill(sweep, 0.0, 200, 99.95, mid=99.96, fee=0.002),
    ]
    return as_tables([order], [dark, limit, sweep], fills)


def test_a_patient_sale_by_hand() -> None:
    (costs,) = costs_by_router(*patient())
    about: dict[str, Any] = {
        "cost_bps": 1.47,
        "fees_bps": -0.03,
        "slippage_bps": (500 * 0.01 + 200 * 0.05) / 10.0,  # $15 of $100,000
        # 200 shares at the bid of the horizon, 99.97 - 0.01
        "opportunity_bps": 200 * 0.04 / 10.0,
        "shortfall_bps": (500 * 0.01 + 200 * 0.04 - 0.3) / 10.0,
        "late_share": 0.2,
        # sold at the mid, one cent above it, and one cent below it
        "effective_spread_bps": 2 * (0 * 0.3 - 1 * 0.5 + 1 * 0.2),
        "quoted_spread_bps": 2.0,
        "spread_ratio": -0.3,
        # against a bid of 99.99
        "improvement_bps": 1 * 0.3 + 0 * 0.5 - 4 * 0.2,
        "improved_share": 0.3,
        "spread_capture": 1.0,
        "dark_share": 0.3,
        "limit_share": 0.5,
        "taken_share": 0.2,
        "dark_fill_rate": 0.3,
        "limit_fill_rate": 5 / 7,
        "dark_hit_rate": 1.0,
        "fill_seconds_50": 20.0,
        "fill_seconds_90": 60.0,
        # a sale is glad of a lower mid
        "markout_1_bps": -2 * 0.3 + 0 * 0.5 - 5 * 0.2,
        "markout_60_bps": (-1 * 500 - 5 * 200) / 700,
        # the mid was 99.96 at the last fill, and 99.98 ten seconds later
        "reversion_10_bps": 2.0,
        "es95_bps": 1.47,
        "decision_99_us": 20.0,
    }
    for name, value in about.items():
        assert getattr(costs, name) == pytest.approx(value, abs=1e-9), name
    assert (costs.orders, costs.quantity, costs.blocks) == (1, 1000, 1)
    assert costs.sd_bps is costs.fade is costs.ioc_fill_rate is costs.ioc_hit_rate is None


def test_nothing_is_late_without_a_horizon() -> None:
    order = an_order(cost=20.0, end_mid=float("nan"))
    sweep = a_child(order, 0, "sweep", "XNAS", 1000, filled=1000)
    (costs,) = costs_by_router(*as_tables([order], [sweep], [a_fill(sweep, 5.0, 1000, 100.02)]))
    assert costs.late_share == costs.opportunity_bps == 0.0
    assert costs.shortfall_bps == pytest.approx(2.0)


def test_fade_counts_what_was_displayed_of_what_was_sent() -> None:
    order = an_order()
    children = [
        a_child(order, 0, "take", "XNAS", 400, displayed=600.0, filled=300),
        a_child(order, 1, "take", "XBOS", 400, displayed=100.0),
        a_child(order, 2, "take", "XPSX", 100, displayed=0.0, filled=100),  # nothing displayed, nothing to fade
        a_child(order, 3, "sweep", "XNAS", 600, displayed=100.0, filled=600),
    ]
    (costs,) = costs_by_router(*as_tables([order], children, []))
    assert costs.fade == pytest.approx(1 - 300 / 500)
    assert costs.ioc_fill_rate == pytest.approx(400 / 900)
    assert costs.ioc_hit_rate == pytest.approx(2 / 3)


def test_tails_count_the_order_at_the_edge_in_part() -> None:
    orders = [an_order(number=k, cost=10.0 * k) for k in range(150)]  # k basis points
    (costs,) = costs_by_router(*as_tables(orders, [], []))
    assert costs.es95_bps == pytest.approx((sum(range(143, 150)) + 142 / 2) / 7.5)
    assert costs.worst_bps == pytest.approx((149 + 148 / 2) / 1.5)
    assert costs.cost_bps == pytest.approx(74.5)


def test_terciles_keep_equal_orders_together() -> None:
    hours = [an_order(number=k, time=NOON + k * 3600 * SECOND, cost=10.0 * k) for k in range(3)]
    (costs,) = costs_by_router(*as_tables(hours, [], []))
    found = {(one.measure, one.tercile): one for one in costs.terciles}
    assert [(one.measure, one.tercile) for one in costs.terciles] == [
        ("spread", "low"),
        *(("time", third) for third in ("low", "middle", "high")),
        ("size", "low"),
    ]
    assert found["spread", "low"].orders == 3
    assert found["time", "middle"].least == found["time", "middle"].most == 13.0
    assert found["time", "high"].cost_bps == pytest.approx(2.0)
    assert found["size", "low"].least == 0.25


def test_without_fills_and_children_all_of_it_is_opportunity() -> None:
    (costs,) = costs_by_router(*as_tables([an_order(end_mid=100.03)], [], []))
    assert costs.late_share == 1.0
    assert costs.opportunity_bps == costs.shortfall_bps == pytest.approx(4.0)
    unknown = ("slippage_bps", "dark_share", "markout_1_bps", "fill_seconds_50", "reversion_1_bps", "spread_ratio")
    assert [getattr(costs, name) for name in unknown] == [None] * len(unknown)
    (lost,) = costs_by_router(*as_tables([an_order(end_mid=float("nan"))], [], []))
    assert lost.opportunity_bps is lost.shortfall_bps is None


def test_routers_come_as_they_first_appear() -> None:
    found = costs_by_router(*as_tables(*random_rows(1, 3, ("sweep", "dark", "ck"))))
    assert [costs.router for costs in found] == ["sweep", "dark", "ck"]


def test_costs_are_json_and_come_back() -> None:
    for costs in costs_by_router(*as_tables(*random_rows(2, 12))):
        text = json.dumps(to_plain(costs), allow_nan=False)
        assert from_plain(RouterCosts, json.loads(text)) == costs


@given(st.integers(0, 10_000), st.integers(1, 25))
@settings(max_examples=15)
def test_a_naive_twin_finds_the_same(seed: int, count: int) -> None:
    rows = random_rows(seed, count)
    for costs in costs_by_router(*as_tables(*rows)):
        expected = naive_router(costs.router, *rows)
        found = to_plain(replace(costs, terciles=()))
        assert found.pop("zone") == "America/New_York"
        assert found.pop("terciles") == []
        assert found == pytest.approx(expected, abs=1e-7)
        assert costs.dark_share is None or sum(
            share or 0.0 for share in (costs.dark_share, costs.limit_share, costs.taken_share)
        ) == pytest.approx(1.0)
        thirds = [
            (one.measure, one.tercile, one.least, one.most, one.orders, one.cost_bps, one.es95_bps)
            for one in costs.terciles
        ]
        naive = naive_terciles(costs.router, rows[0])
        assert [third[:2] for third in thirds] == [third[:2] for third in naive]
        for third, twin in zip(thirds, naive, strict=True):
            assert third[2:] == pytest.approx(twin[2:], abs=1e-7)


def test_costs_are_recomputed_from_fills_alone() -> None:
    orders, _, fills = as_tables(*random_rows(3, 40))
    found = recomputed_cost(orders, fills)
    cost = (1e4 * orders["cost"] / (orders["quantity"] * orders["mid"] * orders["multiplier"])).to_list()
    filled = [one is not None for one in found["cost_bps"]]
    assert found.select(orders.columns[:5]).equals(orders.select(orders.columns[:5]))
    assert any(filled)
    assert found["cost_bps"].fill_null(0.0).to_list() == pytest.approx(cost, abs=1e-9)
