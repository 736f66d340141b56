"""Numbers of a comparison by hand, and a verdict that says no more than they do."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskroute.core.errors import InputError
from riskroute.routers.risk import BALANCED, CAUTIOUS, CHEAPEST, RiskProfile
from riskroute.simulation.backends import Backend
from riskroute.study.backtest import BacktestResult, _equivalent_tolerance, run_backtest
from riskroute.study.candidates import candidate_names
from riskroute.study.config import BacktestConfig
from riskroute.study.costs import objective_cost, order_costs_bps
from riskroute.study.day_tables import DayTables
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayCache, PlayTask, play_tasks, training_days
from riskroute.study.router_comparison import RouterComparison, _known_quantity, choose_benchmark, compare_routers
from riskroute.study.statistics import Sample, expected_shortfall
from riskroute.study.verdict import backtest_verdict
from small_days import HERE

MID = 10.0


def tables(
    costs: dict[str, list[list[float]]],
    *,
    shares: int = 100,
    foreseen: float = 0.0,
    block: int = 1,
    estimated: str = "",
) -> DayTables:
    """Orders of one day: costs in basis points by router, seed and number; every ``block`` orders are a time block.

    Fills of the kind ``estimated`` are beyond the recorded depth.
    """
    orders, fills = [], []
    for router, seeds in costs.items():
        for seed, some in enumerate(seeds):
            for number, cost in enumerate(some):
                key = {"router": router, "seed": seed, "symbol": "S", "day": "d", "number": number}
                dollars = shares * MID / 1e4
                orders.append(key | {
                    "quantity": shares, "multiplier": 1.0, "currency": "USD", "mid": MID,
                    "cost": cost * dollars, "foreseen": foreseen * dollars,
                    "impact": 0.5 * dollars, "fees": 0.2 * dollars, "block": number // block, "judged": True,
                    "decision_us": 3.0, "exploration": math.nan,
                    "estimated": {"dark": 0.25, "limit": 0.25, "take": 0.5}.get(estimated, 0.0) * shares,
                })  # fmt: skip
                parts = (("dark", 0.25), ("limit", 0.25), ("take", 0.5))
                fills += [key | {"kind": kind, "quantity": int(part * shares), "estimated": kind == estimated}
                          for kind, part in parts]  # fmt: skip
    return DayTables(pl.DataFrame(orders), pl.DataFrame(), pl.DataFrame(fills))


def test_a_small_table_by_hand() -> None:
    """Two seeds of four orders. Bar: 1 2 3 4, both times. Other: 0 2 2 4, then 2 2 4 4."""
    made = tables({"bar": [[1, 2, 3, 4]] * 2, "other": [[0, 2, 2, 4], [2, 2, 4, 4]]}, foreseen=1.0, estimated="take")
    found = compare_routers(made, "bar", {"other": "F2"}, risk=RiskProfile("one", 0.1))
    assert (found.orders, found.bar, found.days) == (8, "bar", 1.0)
    assert found.sample == Sample("block", 4, 4.0)
    bar, other = found.routers["bar"], found.routers["other"]
    assert (bar.cost_bps, other.cost_bps) == pytest.approx((2.5, 2.5))
    assert bar.paired is None
    assert other.paired is not None
    assert other.paired.against == "bar"
    assert other.paired_objective is not None
    assert other.paired_objective.difference_bps == pytest.approx(other.objective_bps - bar.objective_bps)
    assert other.paired.difference_bps == pytest.approx(0.0)
    assert (other.feedback, bar.feedback) == ("F2", "")
    assert bar.seed_se_bps == 0.0
    assert other.seed_se_bps == pytest.approx(0.5)  # means of 2 and 3: deviation 0.7071 over the root of 2
    values = np.array([0, 2, 2, 4, 2, 2, 4, 4.0])
    assert other.sd_bps == pytest.approx(values.std(ddof=1))
    assert other.objective_bps == pytest.approx(2.5 + 0.1 * values.var(ddof=1))
    assert other.unforeseen_sd_bps == pytest.approx(values.std(ddof=1))
    assert other.es95_bps == 4.0
    assert (other.fees_bps, other.decision_us) == pytest.approx((0.2, 3.0))
    assert (other.dark_share, other.limit_share, other.taken_share, other.estimated_share) == (0.25, 0.25, 0.5, 0.5)


def test_the_variance_is_of_what_was_not_foreseen_among_orders_of_one_size() -> None:
    rows = {
        "quantity": [100, 100, 300, 300],
        "multiplier": 1.0,
        "mid": MID,
        "cost": [0.1, 0.3, 2.0, 2.6],
        "foreseen": 0.0,
        "impact": 0.0,
    }
    # 1 and 3 bps, then 6.667 and 8.667: both variances are 2, and the sizes make no risk
    assert objective_cost(pl.DataFrame(rows), 0.5) == pytest.approx((1 + 3 + 20 / 3 + 26 / 3) / 4 + 0.5 * 2)
    known = pl.DataFrame(rows).with_columns(foreseen="cost")
    assert objective_cost(known, 0.5) == pytest.approx(objective_cost(known, 0.0))
    alone = pl.DataFrame(rows)[:1]
    assert objective_cost(alone, 0.5) == pytest.approx(1.0)
    assert objective_cost(alone.with_columns(impact=0.05), 0.0, 2.0) == pytest.approx(2.0)


def shortfall(costs: Iterable[float], percent: int = 5) -> float:
    """Expected shortfall of some costs, in no particular sequence."""
    return float(
        pl.DataFrame({"cost": [float(cost) for cost in costs]})
        .select(expected_shortfall(pl.col("cost"), percent))
        .item()
    )


def test_the_worst_twentieth() -> None:
    assert shortfall([3.0, 1.0]) == pytest.approx(3.0)
    assert shortfall(range(30)) == pytest.approx((29 + 0.5 * 28) / 1.5)
    assert shortfall(range(10), 100) == 4.5


def test_impact_is_added_once_and_kappa_changes_the_objective_alone() -> None:
    made = tables({"bar": [[1, 2, 3, 4]], "other": [[0, 2, 2, 5]]})
    plain = compare_routers(made, "bar", {}, risk=BALANCED)
    pressed = compare_routers(made, "bar", {}, risk=BALANCED, impact=2.0)
    risky = compare_routers(made, "bar", {}, risk=RiskProfile("risky", 0.5))
    for name in ("bar", "other"):
        assert pressed.routers[name].cost_bps == pytest.approx(plain.routers[name].cost_bps + 1.0)
        assert pressed.routers[name].objective_bps == pytest.approx(plain.routers[name].objective_bps + 1.0)
        assert risky.routers[name].objective_bps > plain.routers[name].objective_bps
        before = plain.routers[name]
        same: dict[str, Any] = {"objective_bps": before.objective_bps, "paired_objective": before.paired_objective}
        assert dataclasses.replace(risky.routers[name], **same) == before


def found_of(costs: dict[str, list[float]], risk: RiskProfile = CHEAPEST) -> RouterComparison:
    return compare_routers(tables({name: [some] for name, some in costs.items()}), "bar", {}, risk=risk)


def noise(seed: int, scale: float = 1.0, count: int = 400) -> list[float]:
    return [float(value) for value in scale * np.random.default_rng(seed).standard_normal(count)]


def test_the_verdict_recommends_what_is_clearly_better() -> None:
    bar = noise(0)
    better = [cost - 0.5 + wobble for cost, wobble in zip(bar, noise(1, 0.1), strict=True)]
    found = found_of({"bar": bar, "better": better, "noisy": noise(2)})
    pair = found.routers["better"].paired
    assert pair is not None
    assert pair.p_value is not None
    assert pair.p_value < 0.01
    said = backtest_verdict(found)
    assert said.startswith("Use better: saves 0.5")
    assert "best of 2" in said
    low, high = (float(word) for word in said.split("95 % CI ")[1].split(";")[0].split(" to "))
    assert low <= 0.5 <= high


def test_the_verdict_is_the_bar_where_nothing_is_clear() -> None:
    bar = noise(0)
    assert backtest_verdict(found_of({"bar": bar, "a": noise(3), "b": noise(4)})) == (
        "Use bar: none of the 2 others is clearly better."
    )
    assert (
        backtest_verdict(found_of({"bar": bar, "a": [cost + 1 for cost in bar]})) == "Use bar: a is not clearly better."
    )
    assert backtest_verdict(found_of({"bar": bar})) == "Use bar: no other router was played."
    known = found_of({"bar": bar, "clairvoyant": [cost - 2 for cost in bar]})
    assert backtest_verdict(known) == (
        "Use bar: no other router was played. Perfect foresight would save 2.00 bps per order against bar."
    )


def test_there_is_no_verdict_where_much_is_estimated() -> None:
    """Half of all shares is beyond the recorded depth."""
    bar = noise(0)
    costs = {"bar": bar, "better": [cost - 0.5 for cost in bar]}
    found = compare_routers(
        tables({name: [some] for name, some in costs.items()}, estimated="take"), "bar", {}, risk=CHEAPEST
    )
    assert found.router_to_use is None
    assert backtest_verdict(found) == (
        "Not enough data to tell: 50% of the volume is beyond the recorded depth and priced by an estimate. Orders of "
        "up to about 55 would have been small enough; or import more levels."  # 50 of them are recorded
    )
    assert backtest_verdict(found, synthetic=True).endswith("up to about 55 would have been small enough.")
    nothing = {name: dataclasses.replace(one, known_quantity=0.0) for name, one in found.routers.items()}
    assert backtest_verdict(dataclasses.replace(found, routers=nothing)).endswith(
        "priced by an estimate. Import more levels or use smaller orders."
    )
    some = {name: dataclasses.replace(one, estimated_share=0.1) for name, one in found.routers.items()}
    known = dataclasses.replace(found, routers=some)
    assert known.router_to_use == "better"
    for name in ("bar", "better"):
        more = dataclasses.replace(some[name], estimated_share=0.11)
        assert dataclasses.replace(known, routers=some | {name: more}).router_to_use is None
    table = found.table()
    assert [row[list(table.header).index("estimated")] for row in table.rows] == ["50.0%", "50.0%"]


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=30))
def test_orders_of_the_known_quantity_have_few_estimates(shares_estimated: list[int]) -> None:
    """A larger size than can be due to the rounding would have too many."""
    estimated = np.array(shares_estimated)
    size = _known_quantity(pl.DataFrame({"quantity": 5000, "estimated": estimated}))
    if estimated.sum() <= 0.1 * 5000 * len(estimated):
        assert size is None
        return
    assert size is not None

    def share(shares: float) -> float:
        recorded = np.where(estimated > 0, 5000 - estimated, np.inf)
        return float(np.maximum(shares - recorded, 0).mean() / shares)

    assert size == 0 or share(size) <= 0.1 + 1e-9
    larger = size * 1.11 if size >= 10 else 2 * size + 1  # two digits, or one
    assert share(larger) > 0.1 - 1e-9


def test_what_rounds_to_zero_has_no_sign() -> None:
    bar = noise(0)
    found = found_of(
        {"bar": bar, "better": [cost - 0.001 for cost in bar], "clairvoyant": [cost + 1e-7 for cost in bar]}
    )
    said = backtest_verdict(found)
    assert said.startswith("Use better: saves less than 0.01 bps per order against bar (95 % CI 0.00 to 0.00")
    assert said.endswith("would save 0.00 bps per order against bar.")
    (row,) = (row for row in found.table().rows if row[0] == "clairvoyant")
    assert row[7:9] == ["0.000", "0.000 to 0.000"]


def test_the_verdict_says_that_days_are_synthetic() -> None:
    found = found_of({"bar": noise(0)})
    assert backtest_verdict(found, synthetic=True).startswith("Use bar (synthetic days): no other router was played.")
    assert "synthetic" not in backtest_verdict(found)


def test_the_same_costs_added_up_in_another_order_are_no_gain() -> None:
    """A few units in the last place, all of one sign, would be as clear as anything."""
    bar = [2.0 + cost for cost in noise(0, 0.1)]
    found = found_of({"bar": bar, "same": [cost - 4e-16 * (1 + k % 2) for k, cost in enumerate(bar)]})
    same = found.routers["same"].paired
    assert same is not None
    assert (same.low, same.high, same.p_value) == (0.0, 0.0, 1.0)
    assert backtest_verdict(found) == "Use bar: same is not clearly better."


def test_cheaper_and_riskier_is_not_better() -> None:
    bar = noise(0, 0.2)
    risky = [cost - 0.6 + wobble for cost, wobble in zip(bar, noise(5, 2.0), strict=True)]
    assert backtest_verdict(found_of({"bar": bar, "risky": risky})).startswith("Use risky")
    assert backtest_verdict(found_of({"bar": bar, "risky": risky}, risk=RiskProfile("risky", 1.0))).startswith(
        "Use bar"
    )


def test_the_bar_is_the_rule_of_every_desk() -> None:
    costs: dict[str, list[list[float]]] = {"sweep": [[3, 3]], "dark-first+sweep": [[2, 2]], "rest-even+sweep": [[1, 1]]}
    orders = tables(costs).orders
    names = list(costs)
    asked: dict[str, Any] = {"risk": CHEAPEST}
    assert choose_benchmark(orders, names, pools=True, horizon=0.0, **asked) == "dark-first+sweep"
    assert choose_benchmark(orders, names, pools=False, horizon=0.0, **asked) == "sweep"
    trained = orders.with_columns(judged=pl.col("number") == 1)
    cheap = pl.when((pl.col("router") == "sweep") & ~pl.col("judged")).then(0.0).otherwise("cost")
    assert choose_benchmark(trained.with_columns(cost=cheap), names, pools=True, horizon=60.0, **asked) == "sweep"
    assert choose_benchmark(trained, names, pools=True, horizon=60.0, **asked) == "rest-even+sweep"


def test_which_routers_are_played() -> None:
    assert candidate_names([], pools=False, horizon=0.0)[:2] == ["sweep", "raw-sweep"]
    assert "dark-first+sweep" not in candidate_names([], pools=False, horizon=0.0)
    assert "rest-even+sweep" in candidate_names(["spray"], pools=True, horizon=10.0)
    every = candidate_names(["all"], pools=True, horizon=10.0)
    assert candidate_names(["all", "contextual:risk=0"], pools=True, horizon=10.0) == [*every, "contextual:risk=0"]
    assert len(every) == len(set(every))
    assert every[-1] == "clairvoyant"
    assert {"adaptive", "static+sweep", "dark-first+post+sweep"} <= set(every)
    assert "oracle" not in every
    assert [training_days(days, None) for days in (1, 2, 3, 10)] == [1, 1, 1, 5]


def test_a_price_of_risk_in_dollars_charges_the_same() -> None:
    """Variance less tolerance times mean, in dollars, is the objective in basis points but for its scale."""
    notional, costs = 48_000.0, np.array([1.0, 2.5, -1.0])
    dollars = costs * notional / 1e4
    for kappa in (0.05, 0.2):
        scaled = dollars.var() + _equivalent_tolerance(kappa, notional) * dollars.mean()
        assert scaled / (notional / 1e4) ** 2 * kappa == pytest.approx(costs.mean() + kappa * costs.var())


@pytest.fixture(scope="module")
def result(dark_days: list[MarketDay], tmp_path_factory: pytest.TempPathFactory) -> BacktestResult:
    config = BacktestConfig(orders=16, quantities=(400,), seeds=2, routers=("static", "thompson"), block_minutes=1)
    cache = PlayCache(tmp_path_factory.mktemp("played"))
    found = run_backtest("dark", dark_days, config, backend=HERE, cache=cache)
    assert all(cache.has(task) for task in play_tasks(found.candidates, dark_days, config))
    return found


FIELDS = ("cost_bps", "se_bps", "objective_bps", "sd_bps", "es95_bps", "fees_bps", "dark_share", "limit_share",
          "taken_share", "estimated_share", "decision_us")  # fmt: skip


def test_json_has_what_programs_read(result: BacktestResult) -> None:
    whole = json.loads(json.dumps(result.to_json()))
    assert whole["config"]["quantities"] == [400]
    assert whole["config"]["days"] == [day.name for day in result.days]
    assert whole["config"]["parameters"]["static"].keys() == {"take", "dark", "rest"}
    assert (whole["synthetic"], whole["protection"], whole["config"]["zone"]) == (True, "reg-nms", "America/New_York")
    assert list(whole["comparisons"]) == ["400"]
    found = whole["comparisons"]["400"]
    assert found["orders"] == 16
    assert found["use"] == result.comparison.router_to_use
    assert found["verdict"] == result.verdict
    assert list(found["routers"]) == ["sweep", "dark-first+sweep", "static", "thompson", "clairvoyant"]
    for name, one in found["routers"].items():
        assert all(isinstance(one[field], float) for field in FIELDS), name
        assert one["dark_share"] + one["limit_share"] + one["taken_share"] == pytest.approx(1)
        if name != found["bar"]:
            assert {"against", "difference_bps", "low", "high"} <= one["paired"].keys()
            assert one["paired"]["low"] <= one["paired"]["difference_bps"] <= one["paired"]["high"]
            apart = one["cost_bps"] - found["routers"][found["bar"]]["cost_bps"]
            assert one["paired"]["difference_bps"] == pytest.approx(apart, abs=1e-9)
    assert found["routers"]["dark-first+sweep"]["paired"] is None


def test_the_table_has_a_row_for_every_router(result: BacktestResult) -> None:
    lines = result.comparison.table().plain().splitlines()
    assert len(lines) == 2 + 5
    ranked = [result.comparison.routers[line.split()[0]].objective_bps for line in lines[2:]]
    assert ranked == sorted(ranked)
    assert sum("benchmark" in line for line in lines) == 1


def without_times(found: BacktestResult) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    return found.tables.orders.drop("decision_us"), found.tables.children, found.tables.fills


def test_two_processes_find_the_same(result: BacktestResult) -> None:
    again = run_backtest("dark", result.days, result.config, backend=Backend("local", 2))
    for one, other in zip(without_times(result), without_times(again), strict=True):
        assert one.equals(other, null_equal=True)
    timeless = [
        {name: dataclasses.replace(one, decision_us=0.0) for name, one in found.comparison.routers.items()}
        for found in (result, again)
    ]
    assert timeless[0] == timeless[1]


def test_what_was_played_is_not_played_again(dark_days: list[MarketDay], tmp_path: Path) -> None:
    cache = PlayCache(tmp_path)
    played: list[PlayTask] = []
    config = BacktestConfig(orders=8, routers=("static", "uniform"))
    first = run_backtest("dark", dark_days, config, backend=HERE, cache=cache, finished=played.append)
    count = len(played)
    assert count == 5
    again = run_backtest("dark", dark_days, config, backend=HERE, cache=cache, finished=played.append)
    assert again.to_json() == first.to_json()
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.parquet")}
    riskier = dataclasses.replace(config, risk=RiskProfile("risky", 1.0))
    other = run_backtest("dark", dark_days, riskier, backend=HERE, cache=cache).comparison.routers["sweep"]
    unpriced: dict[str, Any] = {"objective_bps": 0.0, "paired": None, "paired_objective": None, "se_bps": 0.0}
    assert dataclasses.replace(other, **unpriced) == dataclasses.replace(first.comparison.routers["sweep"], **unpriced)
    assert files.items() <= {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.parquet")}.items()
    task = play_tasks(first.candidates, dark_days, config)[0]
    (tmp_path / task.identity / "orders.parquet").write_bytes(b"spoilt")
    mended = run_backtest("dark", dark_days, config, backend=HERE, cache=cache)
    assert mended.comparison.routers["sweep"].cost_bps == first.comparison.routers["sweep"].cost_bps


def test_every_size_has_a_comparison_of_its_own(dark_days: list[MarketDay], tmp_path: Path) -> None:
    """Pooled, small orders would hide what large ones cost."""
    config = BacktestConfig(orders=12, quantities=(100, 4000), routers=("spray",), block_minutes=2)
    cache = PlayCache(tmp_path / "played")
    both = run_backtest("dark", dark_days, config, backend=HERE, cache=cache)
    assert list(both.comparisons) == [100, 4000]
    with pytest.raises(
        InputError, match=r"comparison needs one order size, got 100 shares, 4,000 shares; use comparisons"
    ):
        _ = both.comparison
    judged = order_costs_bps(both.tables.orders.filter("judged"))
    for size, found in both.comparisons.items():
        assert found.orders == 6
        for name, one in found.routers.items():
            mine = judged.filter((pl.col("router") == name) & (pl.col("quantity") == size))
            assert one.cost_bps == pytest.approx(mine["cost_bps"].mean())
    small, large = (found.routers["sweep"].cost_bps for found in both.comparisons.values())
    assert small < large
    lines = str(both).splitlines()
    assert lines[0] == "dark (synthetic), 2 days, protection reg-nms"
    for size, found in both.comparisons.items():
        assert f"6 judged orders of {size:,} shares, 0 s each" in lines
        assert backtest_verdict(found, synthetic=True) in lines
        assert f"{size:,} shares: {backtest_verdict(found, synthetic=True)}" in both.verdict.splitlines()
    both.write(tmp_path / "out")
    costs = json.loads((tmp_path / "out" / "costs.json").read_text())
    assert costs["synthetic"] is True
    for size, found in both.comparisons.items():
        means = {one["router"]: one["cost_bps"] for one in costs["sizes"][str(size)]["routers"]}
        assert means == pytest.approx({name: one.cost_bps for name, one in found.routers.items()})
        assert (
            f"dark (synthetic), 2 days, protection reg-nms: orders of {size:,} shares"
            in (tmp_path / "out" / "costs.txt").read_text().splitlines()
        )
    with pytest.raises(InputError, match="no judged order of 4,000 shares met a two-sided market; use more orders"):
        run_backtest("dark", dark_days, dataclasses.replace(config, orders=1), backend=HERE)


@pytest.mark.parametrize("orders", [7, 20, 33])
def test_the_difference_in_tails_is_that_of_the_shortfalls(orders: int) -> None:
    """Also where the worst 5 % are a fraction of an order; only a capped profile refuses a router for its tail."""
    rng = np.random.default_rng(orders)
    bar = rng.normal(2.0, 1.0, (20, orders))
    heavy = bar - 1.0 + 9.0 * (bar > np.quantile(bar, 0.9))
    costs = {"bar": bar.ravel().tolist(), "heavy": heavy.ravel().tolist()}
    cheap, safe = (found_of(costs, risk=risk).routers for risk in (CHEAPEST, CAUTIOUS))
    pair = cheap["heavy"].paired_tail
    assert pair is not None
    assert pair.difference_bps == pytest.approx(cheap["heavy"].es95_bps - cheap["bar"].es95_bps)
    assert pair.low is not None
    assert pair.low > 0
    assert [one["heavy"].admitted for one in (cheap, safe)] == [True, False]
    assert safe["bar"].admitted
    assert safe["bar"].paired_tail is None


def test_a_capped_profile_does_not_use_a_router_with_a_worse_tail() -> None:
    rng = np.random.default_rng(1)
    bar = rng.normal(2.0, 1.0, 400)
    heavy = bar - 1.0 + 9.0 * (bar > np.quantile(bar, 0.97))
    costs = {"bar": bar.tolist(), "heavy": heavy.tolist(), "clairvoyant": (bar - 2.0).tolist()}
    free, capped = (found_of(costs, risk=RiskProfile("one", 0.0, capped=one)) for one in (False, True))
    assert (free.best, free.choice_reason("heavy")) == ("heavy", "beats")
    assert (capped.best, capped.choice_reason("heavy")) == ("bar", "tail")
