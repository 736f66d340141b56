"""Backtests from Python: routers of one's own, what exploring costs, hours, and how large orders are."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

import riskroute as rr
from riskroute.core.errors import InputError
from riskroute.market.clock import clock_stamp, parse_clock_hours
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router
from riskroute.routers.rules import PrimaryRule, SweepRule
from riskroute.simulation.backends import Backend
from riskroute.study.candidates import Candidate, named_candidate
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import day_to_play, play_routers, play_tasks
from small_days import HERE


@dataclass
class Curious(Router):
    """Sends all to one venue, although it believes in the sweep."""

    name: ClassVar[str] = "curious"

    def decide(self, context: Context) -> Plan:
        return PrimaryRule().decide(context)

    def greedy(self, context: Context) -> Plan:
        return SweepRule().decide(context)


def test_exploration_is_the_cost_over_the_plan_that_seemed_best(dark_days: list[MarketDay]) -> None:
    config = BacktestConfig(orders=30)
    candidates = [Candidate("curious", "curious", begins_as=Curious())]
    candidates += [Candidate(name, name) for name in ("primary", "sweep")]
    orders = play_routers(candidates, dark_days, config, backend=HERE).orders
    curious, primary, sweep = (orders.filter(pl.col("router") == name) for name in ("curious", "primary", "sweep"))
    np.testing.assert_array_equal(curious["cost"], primary["cost"])
    np.testing.assert_allclose(curious["exploration"], primary["cost"] - sweep["cost"], atol=1e-12)
    assert curious["exploration"].sum() > 0
    assert primary["exploration"].is_nan().all()


def test_a_router_of_your_own_stands_in_the_table(kept_days: Path) -> None:
    words: dict[str, Any] = {"days": 1, "hours": "10:30-10:50", "orders": 10, "kept": kept_days, "backend": HERE}
    found = rr.backtest("comparable", routers=[Curious(), "spray"], **words)
    assert list(found.comparison.routers) == ["sweep", "spray", "curious", "clairvoyant"]
    assert found.comparison.routers["curious"].exploration_bps is not None
    assert found.comparison.routers["spray"].exploration_bps is None
    assert str(found).splitlines()[-1] == found.verdict
    again = rr.backtest("comparable", routers=[Curious(), "spray"], **words)
    assert again.tables.orders.drop("decision_us").equals(found.tables.orders.drop("decision_us"))


def test_a_router_of_your_own_whose_code_has_changed_is_played_again(
    kept_days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module is pickled by its name, so that its content does not show in a hash of the router."""
    monkeypatch.syspath_prepend(tmp_path)
    costs = []
    for rule in ("PrimaryRule", "SweepRule"):
        (tmp_path / "my_router.py").write_text(
            f"from riskroute.routers.router import Router\nfrom riskroute.routers.rules import {rule}\n"
            f"class Mine(Router):\n    name = 'mine'\n    def decide(self, context): return {rule}().decide(context)\n"
        )
        importlib.invalidate_caches()
        sys.modules.pop("my_router", None)
        router = importlib.import_module("my_router").Mine()
        found = rr.backtest(
            "comparable", days=1, hours="10:30-10:50", orders=10, routers=[router], kept=kept_days, backend=HERE
        )
        costs.append(found.comparison.routers["mine"].cost_bps)
    sys.modules.pop("my_router", None)
    assert costs[1] == found.comparison.routers["sweep"].cost_bps < costs[0]


def test_orders_come_within_hours(dark_days: list[MarketDay]) -> None:
    for hours in ("10:33-10:40", "10:40-10:41"):
        first, last = (clock_stamp(dark_days[0].date, moment) for moment in parse_clock_hours(hours))
        times = day_to_play(dark_days[0], BacktestConfig(orders=20, hours=hours)).orders.times
        assert first <= times.min() <= times.max() <= last
    with pytest.raises(InputError, match=r"hours must be two times such as .*, was 'noon'"):
        BacktestConfig(hours="noon")


def test_orders_too_large_for_a_replay_are_named(kept_days: Path) -> None:
    words: dict[str, Any] = {
        "days": 1,
        "hours": "10:30-10:50",
        "orders": 4,
        "kept": kept_days,
        "backend": HERE,
        "routers": ["sweep"],
    }
    small, large = (rr.backtest("comparable", quantities=shares, **words) for shares in (100, 50_000))
    assert "too large" not in small.footprint()
    assert "too large for a replay without market impact" in large.footprint()


OWN = """
from riskroute.routers.plan import Plan
from riskroute.routers.rules import PrimaryRule
from riskroute.routers.router import Router

class Own(Router):
    name = "own"

    def decide(self, context):
        return PrimaryRule().decide(context)
"""


def test_a_router_of_a_file_is_played_in_other_processes(dark_days: list[MarketDay], tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    candidate = named_candidate(f"{path}:Own")
    path.unlink()  # as on another machine
    config = BacktestConfig(orders=6)
    orders = play_routers(
        [candidate, Candidate("primary", "primary")], dark_days, config, backend=Backend(workers=2)
    ).orders
    own, primary = (orders.filter(pl.col("router") == name) for name in (f"{path}:Own", "primary"))
    np.testing.assert_array_equal(own["cost"], primary["cost"])


def test_an_edited_file_is_played_again(dark_days: list[MarketDay], tmp_path: Path) -> None:
    path = tmp_path / "own.py"

    def identity() -> str:
        (task,) = play_tasks([named_candidate(f"{path}:Own")], dark_days, BacktestConfig(orders=6))
        return task.identity

    path.write_text(OWN)
    first, again = identity(), identity()
    path.write_text(OWN.replace("PrimaryRule().decide(context)", "Plan(context.order)"))
    assert first == again != identity()


@pytest.mark.parametrize("routers", [["contextul"], ["sweep:pace=3"], ["no_such.py:Own"], [Curious(), "contextul"]])
def test_names_are_checked_before_days_are_made(
    routers: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("riskroute.study.backtest.market_days", never)
    with pytest.raises(InputError, match=r"unknown router|sweep has no parameter|cannot read"):
        rr.backtest("dark", routers=routers, kept=tmp_path)
    if not isinstance(routers[0], Router):
        with pytest.raises(InputError, match=r"unknown router|sweep has no parameter|cannot read"):
            rr.Study(routers=routers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sweep:discretion", "router parameters must be NAME=VALUE, separated by commas, was 'discretion'"),
        ("sweep:pace=3", "sweep has no parameter 'pace'; its parameters are discretion, minimums"),
        ("sweep:discretion=-1", "discretion must be a non-negative integer, was -1"),
        ("sweeep", "unknown router 'sweeep'; did you mean 'sweep'"),
    ],
)
def test_parameters_on_the_command_line_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        named_candidate(text)
