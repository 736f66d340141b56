"""Results that rest on estimated queue positions: their label, their bounds, and what does not change without them."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import riskroute as rr
from naive_queues import hidden_ids
from riskroute.core.errors import InputError
from riskroute.market.queue_models import DEFAULT_QUEUE_MODEL, QueueModel
from riskroute.routers.risk import CHEAPEST
from riskroute.simulation.backends import Backend
from riskroute.study.backtest import BacktestResult, queue_plays, run_backtest
from riskroute.study.config import BacktestConfig, StressConfig, StudyConfig
from riskroute.study.headroom import headroom_words, market_headroom
from riskroute.study.markets import MarketDay, estimated_queue_venues, market_days
from riskroute.study.page import write_study_page
from riskroute.study.play import PlayCache, day_to_play
from riskroute.study.result import StudyResult
from riskroute.study.statistics import PairedDifference, Sample
from riskroute.study.verdict import backtest_verdict

HERE = Backend("local", 1)
CONFIG = BacktestConfig(
    quantities=(300,), orders=24, horizon=10.0, hours="10:57-11:24", routers=("delay+sweep", "sweep")
)


@pytest.fixture(scope="module")
def folder(half_hour: rr.market.RecordingStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half an hour at three venues; one of them publishes trades without order ids."""
    place = tmp_path_factory.mktemp("estimated") / "books"
    shutil.copytree(half_hour.folder, place)
    one = next(one for one in half_hour.of_symbol("QVEX") if one.venue == "XNAS")
    public = hidden_ids(half_hour.events(one))
    public.write_parquet(place / f"{one.stem}.events.parquet")
    record = place / f"{one.stem}.record.json"
    changed = json.loads(record.read_text()) | {"has_events": False, "trades": public.height}
    record.write_text(json.dumps(changed))
    return place


@pytest.fixture(scope="module")
def days(folder: Path) -> list[MarketDay]:
    return market_days(folder, kept=folder.parent / "kept", backend=HERE)


@pytest.fixture(scope="module")
def result(days: list[MarketDay], folder: Path) -> BacktestResult:
    return run_backtest("half an hour", days, CONFIG, backend=HERE, cache=PlayCache(folder.parent / "played"))


def test_a_backtest_says_what_is_estimated_and_how_much_it_matters(result: BacktestResult) -> None:
    assert estimated_queue_venues(result.days) == ("XNAS",)
    queues = result.comparison.queues
    assert queues is not None
    assert (queues.venues, queues.model) == (("XNAS",), str(DEFAULT_QUEUE_MODEL))
    routers = result.comparison.routers
    assert queues.pessimistic_bps.keys() == queues.optimistic_bps.keys() == routers.keys()
    assert queues.pessimistic_bps["sweep"] == queues.optimistic_bps["sweep"] == routers["sweep"].cost_bps
    assert queues.pessimistic_bps["clairvoyant"] >= routers["clairvoyant"].cost_bps - 1e-9
    assert queues.optimistic_bps["clairvoyant"] <= routers["clairvoyant"].cost_bps + 1e-9
    said = str(result)
    assert "queue positions at XNAS are estimates (model " in said
    assert result.comparison.table().header[-2:] == ["pessimistic", "optimistic"]
    assert "Queue positions at XNAS are estimates" in result.verdict


def test_its_files_hold_the_bounds(result: BacktestResult, tmp_path: Path) -> None:
    queues = result.to_json()["comparisons"]["300"]["queues"]
    assert queues["venues"] == ["XNAS"]
    result.write(tmp_path)
    assert json.loads((tmp_path / "costs.json").read_text())["sizes"]["300"]["queues"] == queues
    assert "queue positions at XNAS are estimates" in (tmp_path / "costs.txt").read_text()


def test_without_estimates_nothing_is_said(dark_days: list[MarketDay], days: list[MarketDay], folder: Path) -> None:
    cache = PlayCache(folder.parent / "played")
    exact = run_backtest("x", days, dataclasses.replace(CONFIG, queue="exact"), backend=HERE, cache=cache)
    at_once = run_backtest("x", days, dataclasses.replace(CONFIG, horizon=0.0, routers=()), backend=HERE, cache=cache)
    for found in (exact, at_once):
        assert found.comparison.queues is None
        assert "queue" not in str(found)
        assert found.comparison.table().header[-1] == "decision us"
    posted = exact.tables.fills.filter(pl.col("kind") == "limit")
    assert "XNAS" not in posted["place"].to_list()
    assert posted.height > 0
    assert estimated_queue_venues(dark_days) == ()
    assert queue_plays(dark_days, CONFIG) == queue_plays(days, exact.config) == 1
    assert queue_plays(days, CONFIG) == 2
    assert queue_plays(days, dataclasses.replace(CONFIG, queue="power")) == 3


def test_every_model_is_played(days: list[MarketDay]) -> None:
    for name, model in (
        (None, DEFAULT_QUEUE_MODEL),
        ("exact", None),
        ("optimistic", QueueModel("optimistic")),
        ("power", QueueModel("power")),
    ):
        queue = day_to_play(days[0], dataclasses.replace(CONFIG, queue=name)).queue
        assert queue is not None
        assert queue.model == model
    pressed = dataclasses.replace(CONFIG, stress=StressConfig(pessimistic_queues=True))
    queue = day_to_play(days[0], pressed).queue
    assert queue is not None
    assert queue.model == QueueModel("pessimistic")
    assert queue_plays(days, pressed) == 1
    expected = "queue must be one of exact, pessimistic, proportional, power, optimistic, was 'random'"
    with pytest.raises(InputError, match=expected):
        BacktestConfig(queue="random")


def test_a_saving_that_depends_on_the_model_is_not_confirmed(result: BacktestResult) -> None:
    """A router that saves with the optimistic queue model only is not recommended."""
    found = result.comparison
    queues, bar = found.queues, found.bar
    assert queues is not None
    other = next(name for name in found.routers if name not in (bar, "clairvoyant"))
    better = dataclasses.replace(
        found.routers[other],
        cost_bps=found.routers[bar].cost_bps - 1,
        objective_bps=found.routers[bar].objective_bps - 1,
        paired=PairedDifference(bar, -1.0, -1.5, -0.5, 0.01, None),
        paired_objective=PairedDifference(bar, -1.0, -1.5, -0.5, 0.01, None),
    )
    for low, reason in ((0.5, "beats"), (-0.5, "queues")):
        costs = {**queues.pessimistic_bps, other: queues.pessimistic_bps[bar] - low}
        more = {**queues.optimistic_bps, other: queues.optimistic_bps[bar] - 2}
        changed = dataclasses.replace(
            found,
            sample=Sample("day", 8, 8.0),
            routers={name: found.routers[name] for name in (bar, "clairvoyant")} | {other: better},
            queues=dataclasses.replace(queues, pessimistic_bps=costs, optimistic_bps=more),
        )
        assert changed.queues is not None
        assert changed.queues.saving_bps(other, bar) == pytest.approx((low, 2))
        assert changed.choice_reason(other) == reason
        assert changed.best == (other if reason == "beats" else bar)
        text = f"{other} saves 0.50 to 2.00 bps between the pessimistic and the optimistic model."
        assert (text in backtest_verdict(changed)) == (reason == "beats")


def test_a_study_shows_them_in_text_json_and_page(days: list[MarketDay], folder: Path, tmp_path: Path) -> None:
    config = StudyConfig(
        market=str(folder), quantities=(300,), horizons=(10.0,), orders=24, hours="10:57-11:24", routers=("spray",)
    )
    study = rr.Study(**{item.name: getattr(config, item.name) for item in dataclasses.fields(config)})
    played = []
    found = study.play(
        days, kept=folder.parent, backend=HERE, progress=lambda name, done, total: played.append((done, total))
    )
    assert played[-1][0] <= played[-1][1]
    assert "queue positions at XNAS are estimates" in str(found)
    assert "pessimistic" in str(found)
    again = StudyResult.from_json(json.loads(json.dumps(found.to_json())))
    assert again.cases[0].comparison.queues == found.cases[0].comparison.queues
    assert "estimates at XNAS" in write_study_page(found, tmp_path).read_text()
    assert "estimates" in found.answer


def test_the_headroom_says_so(days: list[MarketDay], folder: Path) -> None:
    cache = PlayCache(folder.parent / "played")
    config = dataclasses.replace(CONFIG, routers=(), orders=12)
    rows = market_headroom(
        "x", days, config, sizes=(300,), horizons=(10.0,), risks=(CHEAPEST,), backend=HERE, cache=cache
    )
    assert any("queue positions at XNAS are estimates" in line for line in headroom_words(rows))
