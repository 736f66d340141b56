"""Displayed cost of a plan: equal to its realised cost without latency and with empty pools."""

from __future__ import annotations

from typing import Any

import pytest

from riskroute.routers.registry import ROUTERS, make_router
from riskroute.simulation.exchange import ExchangeLatency
from riskroute.simulation.play_day import play_day
from riskroute.study.config import BacktestConfig, StressConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import day_to_play

SPLITS: dict[str, dict[str, Any]] = {
    "static": {"take": {"XNAS": 2, "EDGA": 1}, "dark": {"POOL1": 2}, "rest": "EDGA"},
    "static+sweep": {"pools": ["POOL2", "POOL1"]},
}


@pytest.mark.parametrize("shares", [100, 1500, 30_000])
@pytest.mark.parametrize("name", [name for name in ROUTERS if name != "policy"])
def test_without_latency_and_pools_the_cost_is_the_displayed_one(
    name: str, shares: int, dark_days: list[MarketDay]
) -> None:
    """But for hidden shares, which make an order cheaper than foreseen.

    nbbo takes one price at a time; only its first take is in the plan.
    """
    config = BacktestConfig(orders=10, seeds=1, quantities=(shares,), stress=StressConfig(presence=0.0))
    day = day_to_play(dark_days[0], config)
    played = play_day(make_router(name, **SPLITS.get(name, {})), day, latency=ExchangeLatency(0.0, 0.0), leak=0.0)
    for one in played.orders:
        if name != "nbbo" or {fill.kind for fill in one.done.fills} == {"take"}:
            hidden = sum(child.filled for child in one.done.children) > 0 and name == "hidden+sweep"
            assert one.done.cost <= one.foreseen * (1 + 1e-9), one.number
            assert hidden or one.done.cost == pytest.approx(one.foreseen, rel=1e-9), one.number


def test_equal_splits_have_equal_displayed_costs(dark_days: list[MarketDay]) -> None:
    """What comes back to one venue is priced there, whether it was sent there or to a pool first."""
    config = BacktestConfig(orders=10, seeds=1, quantities=(600,), stress=StressConfig(presence=0.0))
    day = day_to_play(dark_days[0], config)
    found = []
    for split in ({"take": {"EDGA": 1}}, {"dark": {"POOL1": 1}, "rest": "EDGA"}):
        router = make_router("static", **split)
        found.append([one.foreseen for one in play_day(router, day, leak=0.0).orders])
    assert found[0] == pytest.approx(found[1], rel=1e-9)
