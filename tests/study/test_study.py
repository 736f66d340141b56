"""A study chooses on training days, judges on test days, and says nothing that its record does not hold."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pages import known_numbers, unknown_numbers
from riskroute.cli.app import run_app
from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import Instrument
from riskroute.core.records import to_plain
from riskroute.market.day_books import PreparedDayBooks
from riskroute.routers import restore_router
from riskroute.routers.context import read_context
from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.candidates import named_candidate
from riskroute.study.config import StudyConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import OrderDraw, PlayCache, perform_plays, play_tasks
from riskroute.study.result import StudyResult
from riskroute.study.statistics import LEAST_DAYS, LEAST_INDEPENDENT
from riskroute.study.study import Study
from small_days import HERE
from small_runs import CONFIG, study_of

CONFIG = CONFIG
BOOKS = {
    "venues": {
        "XNAS": {"bids": [[9.99, 300]], "asks": [[10.01, 200]], "taker": 0.003, "maker": -0.002},
        "EDGA": {"bids": [[9.99, 100]], "asks": [[10.01, 900]], "taker": -0.001, "maker": 0.003},
    },
    "pools": {"POOL1": {"fee": 0.001}},
    "tick": 0.01,
}


@pytest.fixture(scope="module")
def cache(study_folder: Path) -> PlayCache:
    return PlayCache(study_folder / "played")


@pytest.fixture(scope="module")
def result(study_result: StudyResult) -> StudyResult:
    return study_result


@pytest.fixture(scope="module")
def backtest(dark_days: list[MarketDay], cache: PlayCache, result: StudyResult) -> BacktestResult:
    """What the study played, from the cache: the times that decisions took are the same too."""
    return run_backtest("dark", dark_days, CONFIG.backtest(2500, 10.0), backend=HERE, cache=cache)


@pytest.fixture(scope="module")
def urgent(dark_days: list[MarketDay], cache: PlayCache) -> StudyResult:
    """Orders to be done at once, where there are no pools: nothing to learn."""
    days = [dataclasses.replace(day, pools=()) for day in dark_days]
    return study_of(dataclasses.replace(CONFIG, horizons=(0.0,))).play(days, kept=cache.folder.parent, backend=HERE)


def test_numbers_are_those_of_the_backtest(result: StudyResult, backtest: BacktestResult) -> None:
    (case,) = result.cases
    whole = backtest.to_json()
    plain = whole["comparisons"]["2500"]
    assert to_plain(dataclasses.replace(case.comparison, joint=True, routers={})) == {
        **{
            name: plain[name] for name in ("orders", "bar", "sample", "days", "joint", "queues", "resting", "benchmark")
        },
        "routers": {},
    }
    assert (result.synthetic, result.protection) == (whole["synthetic"], whole["protection"]) == (True, "reg-nms")
    routers, bar = plain["routers"], plain["bar"]
    assert (case.chosen, bar) == ("contextual", "rest-even+sweep")
    assert case.saving is not None
    assert case.saving.bps.mean == -routers[case.chosen]["paired"]["difference_bps"]
    own, joint = case.comparison.routers[case.chosen].paired, routers[case.chosen]["paired"]
    assert own is not None
    assert (case.saving.bps.low, case.saving.p_value) == (-(own.high or 0.0), own.p_value)
    assert case.saving.detectable_bps == joint["detectable_bps"]
    assert joint["low"] < (own.low or 0.0)  # of all routers at once
    assert case.headroom_bps == routers[bar]["cost_bps"] - routers["clairvoyant"]["cost_bps"]
    assert case.use in (case.chosen, bar)
    assert set(case.training_objective_bps) == set(routers) - {"clairvoyant"}


def costs(backtest: BacktestResult, router: str, *, judged: bool) -> pl.DataFrame:
    mine = (pl.col("router") == router) & (pl.col("judged") == judged)
    return backtest.tables.orders.filter(mine).sort("day", "number")


def test_the_choice_and_the_amounts_follow_from_the_orders(result: StudyResult, backtest: BacktestResult) -> None:
    (case,) = result.cases
    for router, objective in case.training_objective_bps.items():
        if router == "static":  # scored on orders that it was not fitted to
            continue
        mine = costs(backtest, router, judged=False)
        scale = 1e4 / (mine["quantity"] * mine["mid"]).to_numpy()
        surprise = (mine["cost"] - mine["foreseen"]).to_numpy() * scale
        naive = (mine["cost"].to_numpy() * scale).mean() + CONFIG.risk.kappa * surprise.var(ddof=1)
        assert objective == pytest.approx(naive)
    assert case.chosen == min(case.training_objective_bps, key=case.training_objective_bps.__getitem__)
    one, rule = (costs(backtest, name, judged=True)["cost"] for name in (case.chosen, case.comparison.bar))
    assert case.saving is not None
    assert case.saving.amount_per_order is not None
    assert case.saving.amount_per_day is not None
    assert case.saving.amount_per_order.mean == pytest.approx((rule - one).mean())
    assert case.saving.amount_per_day.mean == pytest.approx((rule - one).sum())  # of one test day
    static, sweep = (costs(backtest, name, judged=True)["cost"] for name in ("static", "sweep"))
    assert case.not_looking is not None
    rows = costs(backtest, "sweep", judged=True)
    gaps = (static - sweep).to_numpy() / (rows["quantity"] * rows["mid"]).to_numpy()
    assert case.not_looking.mean == pytest.approx(1e4 * gaps.mean())
    assert (case.training_days, case.test_days) == (1, 1)


def test_states_divide_the_orders_and_losses_are_those_above_zero(result: StudyResult) -> None:
    (case,) = result.cases
    assert case.saving is not None
    measures = {one.measure for one in case.states}
    assert measures == {"hour", "side", "imbalance", "spread", "volatility", "depth"}
    for measure in measures:
        some = [one for one in case.states if one.measure == measure]
        assert sum(one.orders for one in some) == case.comparison.orders
        total = sum(one.orders * one.difference_bps.mean for one in some) / case.comparison.orders
        assert total == pytest.approx(-case.saving.bps.mean)
    assert case.losses == tuple(one for one in case.states if (one.difference_bps.low or 0) > 0)


def test_the_dark_surface_has_the_usual_world_in_its_middle(result: StudyResult, urgent: StudyResult) -> None:
    (case,) = result.cases
    assert case.surface is not None
    assert case.saving is not None
    assert (case.surface.router, case.surface.against) == (case.chosen, case.comparison.bar)
    points = {(one.presence, one.adverse): one.saving_bps.mean for one in case.surface.points}
    assert len(points) == 9
    assert points[1.0, 1.0] == pytest.approx(case.saving.bps.mean)  # as many orders were played
    assert len(set(points.values())) > 5
    assert urgent.cases[0].surface is None


def test_json_goes_out_and_comes_back(result: StudyResult, urgent: StudyResult) -> None:
    for one in (result, urgent):
        text = json.dumps(one.to_json(), allow_nan=False)
        assert StudyResult.from_json(json.loads(text)) == one
    broken = result.to_json()
    broken["cases"][0]["saving"]["bps"]["mean"] = "much"
    with pytest.raises(DataError, match=r"cases\[0\]\.saving\.bps\.mean must be a number, was 'much'"):
        StudyResult.from_json(broken)


def test_every_number_that_is_printed_is_in_the_json(result: StudyResult, urgent: StudyResult) -> None:
    for one in (result, urgent):
        known = [*known_numbers(one.to_json()), LEAST_DAYS, LEAST_INDEPENDENT]
        assert unknown_numbers(one.answer, known) == []
        assert unknown_numbers(str(one), known) == []
        assert unknown_numbers(f"{one} saved 77.123 bps", known) == ["77.123"]


def test_a_study_prints_its_tables_and_ends_with_the_answer(result: StudyResult) -> None:
    text = str(result)
    assert text.endswith(result.answer)
    assert result.answer.count("\n") == 0
    for words in ("adverse selection x 2", "against us", "saving bps", "clairvoyant", "volatility, high"):
        assert words in text


def test_nothing_to_gain_means_use_the_simple_rule(urgent: StudyResult) -> None:
    (case,) = urgent.cases
    assert case.chosen == case.use == case.comparison.bar == "sweep"
    assert case.saving is None
    assert case.states == case.losses == ()
    enough = dataclasses.replace(case, reason="no headroom", verdict=True)
    answer = dataclasses.replace(urgent, cases=(enough,)).answer
    start = "For orders of 2,500 shares of LUMO for immediate execution on synthetic days, use sweep."
    assert answer.startswith(f"{start} It is the benchmark rule")


def test_what_happens_on_test_days_does_not_change_the_choice(
    result: StudyResult, dark_days: list[MarketDay], cache: PlayCache, tmp_path: Path
) -> None:
    first, last = dark_days
    day = PreparedDayBooks.read(last.folder)
    books = dataclasses.replace(day.books, bid_sz=day.books.bid_sz // 3, ask_px=day.books.ask_px + 0.5)
    assert day.queue is not None
    folder = PreparedDayBooks(books, day.queue.on_books(books)).write(tmp_path / "garbled")
    days = [first, dataclasses.replace(last, folder=folder)]
    asked = dataclasses.replace(CONFIG, surface_orders=0, stresses=False)
    other = study_of(asked).play(days, kept=cache.folder.parent, backend=HERE)
    (case,), (usual,) = other.cases, result.cases
    assert case.training_objective_bps == usual.training_objective_bps
    assert (case.chosen, case.comparison.bar) == (usual.chosen, usual.comparison.bar)
    assert case.saving != usual.saving  # it did change


def test_files_hold_the_routing_table_and_routers_that_decide(
    result: StudyResult,
    dark_days: list[MarketDay],
    cache: PlayCache,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = {path.name: path for path in result.write(tmp_path)}
    assert StudyResult.from_json(json.loads(paths["study.json"].read_text())) == result
    assert paths["study.txt"].read_text() == f"{result}\n"
    table = pl.read_parquet(paths["routing.parquet"])
    assert table.equals(result.routing_table)
    assert pl.read_csv(paths["routing.csv"]).columns == table.columns
    sums = table.group_by("spread", "imbalance").agg(pl.col("sent_fraction", "filled_fraction").sum())
    assert np.allclose(sums.select("sent_fraction", "filled_fraction").to_numpy(), 1)
    assert table.unique(["spread", "imbalance"])["orders"].sum() == result.cases[0].comparison.orders

    learned = dataclasses.replace(result, cases=(dataclasses.replace(result.cases[0], use="contextual"),))
    *_, path = study_of(CONFIG).write(learned, dark_days, tmp_path, kept=cache.folder.parent, backend=HERE)
    assert path.name == f"state-{dark_days[0].symbol}-2500-10s.json"
    state = json.loads(path.read_text())
    router = restore_router(state)
    assert (router.name, state["memory"]["routed"], router.under_way) == ("contextual", 24, ())
    context = read_context(BOOKS, symbol=dark_days[0].symbol, side="buy", shares=400, horizon=10.0)
    assert router.route(context).checked(context)
    (tmp_path / "books.json").write_text(json.dumps(BOOKS))
    words = ["route", str(tmp_path / "books.json"), "--side", "buy", "--shares", "400", "--state", str(path)]
    assert run_app(words) == 0
    assert "contextual: buy 400 shares at a mid of" in capsys.readouterr().out


def test_a_restored_router_goes_on_as_the_one_that_was_played(
    backtest: BacktestResult, dark_days: list[MarketDay], cache: PlayCache
) -> None:
    """Played once more, the router does what it did in the study; restored from its state, what it would do next."""
    candidate = next(one for one in backtest.candidates if one.label == "contextual")
    (task,) = play_tasks([candidate], dark_days, backtest.config)
    routers = [task.start(draw) for draw in OrderDraw.of(task.config)]
    again = task.play(routers).orders
    assert again["cost"].equals(backtest.tables.orders.filter(pl.col("router") == "contextual")["cost"])
    (kept,) = play_tasks([named_candidate("contextual")], dark_days, CONFIG.backtest(2500, 10.0))
    assert cache.has(kept)
    state = perform_plays([kept], backend=HERE, cache=cache)[0].state
    context = read_context(BOOKS, symbol=dark_days[0].symbol, side="buy", shares=2500, horizon=10.0)
    plan = restore_router(json.loads(json.dumps(state))).route(context)
    assert plan == routers[0].route(context)
    assert state is not None
    assert state["memory"] != task.start(OrderDraw.of(task.config)[0]).state()["memory"]  # which has learned nothing


def test_every_symbol_has_a_state(dark_days: list[MarketDay], tmp_path: Path) -> None:
    days = [*dark_days, *(dataclasses.replace(day, instrument=Instrument("TWIN")) for day in dark_days)]
    config = StudyConfig(
        quantities=(100, 300), horizons=(0.0,), orders=6, routers=("spray",), surface_orders=0, frontier=False
    )
    told: list[tuple[str, int, int]] = []
    study = study_of(config)
    found = study.play(days, kept=tmp_path, backend=HERE, progress=lambda *words: told.append(words))
    routers = {"sweep", "dark-first+sweep", "spray", "clairvoyant"}
    assert {name for name, _, _ in told} == routers
    plays = 2 * 2 * 2 * len(routers)  # sizes, symbols, and all of them together once more
    assert [(done, total) for _, done, total in told] == [(done + 1, plays) for done in range(plays)]
    assert study.max_plays(days) == plays
    symbols = ["LUMO", "TWIN", ""]
    assert [case.symbol for case in found.cases] == symbols * 2
    assert [case.quantity for case in found.cases] == [100] * 3 + [300] * 3
    assert [(case.training_days, case.test_days, case.comparison.orders) for case in found.cases] == [
        *((1, 1, 6), (1, 1, 6), (2, 2, 12)),
    ] * 2
    one, twin, both, *_ = found.cases
    costs_of = [case.comparison.routers["sweep"].cost_bps for case in (one, twin, both)]
    assert costs_of[0] != costs_of[1]
    assert costs_of[2] == pytest.approx(sum(costs_of[:2]) / 2)  # as many orders of each
    starts = [text.split(": the orders cover ")[0] for text in found.answer.split("\n\n")][:3]
    few = "ot enough data to tell which router to use for orders of 100 shares"
    assert starts == [
        f"N{few} of LUMO for immediate execution on synthetic days",
        f"N{few} of TWIN for immediate execution on synthetic days",
        f"All symbols pooled: n{few} for immediate execution on synthetic days",
    ]
    assert found.routing_table["symbol"].unique(maintain_order=True).to_list() == symbols
    names = [path.name for path in study.write(found, days, tmp_path, kept=tmp_path, backend=HERE)[4:]]
    assert names == [
        f"state-{symbol}-{size}-0s.json" for size in (100, 300) for symbol in (dark_days[0].symbol, "TWIN")
    ]


def test_from_the_market_to_files_in_one_call(kept_days: Path, dark_days: list[MarketDay], tmp_path: Path) -> None:
    words: dict[str, Any] = {"orders": 8, "routers": "spray", "hours": "10:30-10:50", "seed": 0, "days": 1}
    study = Study(market="comparable", quantities=100, horizons=0, **words)
    found = study.run(kept=kept_days, out=tmp_path, backend=HERE)
    assert len(found.days) == 1
    assert found.cases[0].reason == "too few days"
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".txt", ".csv", ".parquet"}
    assert (tmp_path / f"state-{dark_days[0].symbol}-100-0s.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"quantities": ()}, "quantities must hold at least one number, was empty"),
        ({"quantities": (100, 100)}, "quantities must be different numbers, was 100, 100"),
        ({"quantities": (-3,)}, "quantities must be positive numbers, was -3"),
        ({"horizons": (-1.0,)}, "horizons must be a number of at least 0, was -1.0"),
        ({"horizons": 60.0}, "horizons must be a list of numbers, was 60.0"),
        ({"side": "long"}, "side must be one of both, buy, sell, was 'long'"),
        ({"risk": -1}, "risk must be cautious, balanced, cheapest or a kappa from 0 to 1000, was -1"),
        ({"train": 0}, "train must be at least 1, since a router is chosen on the training days, was 0"),
        ({"routers": ("contextul",)}, "did you mean 'contextual'?"),
        ({"stresses": 1}, "stresses must be true or false, was int"),
        ({"surface_orders": -1}, "surface_orders must be a non-negative integer, was -1"),
        ({"market": 3}, "market must be a name or a folder, was int"),
    ],
)
def test_bad_input_is_named_in_one_sentence(words: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        StudyConfig(**words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_calls_are_named_too(dark_days: list[MarketDay]) -> None:
    with pytest.raises(InputError, match="days must hold at least one day, was empty"):
        study_of(CONFIG).play([])
    with pytest.raises(InputError, match="train must be at most 1, to leave a test day, was 2"):
        study_of(dataclasses.replace(CONFIG, train=2)).play(dark_days)
    with pytest.raises(InputError, match=r"key of a study must be one of .* was 'order' \(did you mean orders"):
        Study(order=3)
