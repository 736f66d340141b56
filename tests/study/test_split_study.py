"""The study: evaluation, and the whole of it on a small synthetic market."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkout import SHARED_DATA
from market_files import csv_text
from pages import as_phone, opened
from riskroute import Allocations, DataError, Problem
from riskroute.cli.app import run_app as command
from riskroute.core.records import from_plain
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.synthetic.generate import DEFAULT_SYMBOLS, generate_market
from riskroute.simulation.replay import Replay
from riskroute.study.config import split_config, study_config_template
from riskroute.study.split_result import SplitResultCase, _models_table
from riskroute.study.split_study import SplitStudyOrder, _best_single, _measure_splits, _prepare_order, _study_data

TEMPLATE = study_config_template("split-study")
SMALL = """
quantities = [4]
risk_tolerances = [2.0]
train = "10:40-10:50"
test = "10:50-11:00"
repeats = 4
horizon = 400
runs = 2
policies = ["adaptive", "rise", "risk-ucb", "uniform"]
limit = ["XNAS"]
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a small study was run."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.toml").write_text(SMALL)
    words = [str(folder / "study.toml"), "--out", str(folder / "out"), "--json", str(folder / "all.json")]
    assert command(["split-study", *words, "--workers", "1"]) == 0
    return folder


def with_books_of(study: Path, settings: str) -> str:
    """Settings with the market that was made for another study."""
    return f'data = "{study / "out" / "market" / "books"}"\n{settings}'


def summary_of(folder: Path) -> Any:
    return json.loads((folder / "all.json").read_text())


@pytest.mark.usefixtures("untraced")
def test_a_bad_file_exits_with_two_and_leaves_nothing(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("quantities = -1", "quantities = [", 'data = "nowhere"', with_books_of(study, 'market = ["XABC"]')):
        (tmp_path / "study.toml").write_text(f'train = "10:40-10:44"\ntest = "10:44-10:48"\n{text}')
        assert command(["split-study", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not list((tmp_path / "out").glob("report*"))


def test_files_with_faults_are_imported_when_asked_to(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {
        "ts_event": [1_553_700_000_000_000_000 + k * 10**9 for k in range(40)],
        "symbol": ["ACME"] * 40,
        "bid_px_00": [99.0] * 30 + [101.0] * 10,
        "bid_sz_00": [5] * 40,
        "ask_px_00": [100.0] * 40,
        "ask_sz_00": [5] * 40,
    }
    (tmp_path / "books.csv").write_text(csv_text(columns))
    values = {"data": str(tmp_path / "books.csv"), "venue": "XABC"}
    with pytest.raises(DataError, match=r"was 25\.0% \(10 of 40\); max_crossed = 0\.26 imports it anyway"):
        _study_data(split_config(values), tmp_path / "out")
    data = _study_data(split_config(values | {"max_crossed": 0.25}), tmp_path / "out")
    assert [(one.venue, one.symbol, one.snapshots) for one in data.recordings] == [("XABC", "ACME", 40)]


def small_replay(seed: int = 0) -> tuple[Replay, np.ndarray]:
    rng = np.random.default_rng(seed)
    problem = Problem(actions=Allocations(4, 3), mean_coef=np.zeros(6), var_coef=np.zeros(6), risk_tolerance=1.5)
    profits = -np.arange(5.0) * rng.exponential(size=(3, 60, 1))
    return Replay(problem, profits), np.tile(np.arange(20), 3)


def test_measured_values_are_those_of_plain_formulas() -> None:
    replay, buckets = small_replay()
    splits = {"a": (4, 0, 0), "b": (1, 2, 1)}
    measured = _measure_splits(splits, replay, buckets, first="a", seed=0)
    for name, split in splits.items():
        total = replay.totals(np.array([split]))[0]
        assert measured[name].mean == pytest.approx(total.mean())
        assert measured[name].variance == pytest.approx(total.var())
        assert measured[name].mean_variance == pytest.approx(total.var() - 1.5 * total.mean())
        assert measured[name].tail == pytest.approx(np.sort(total)[:3].mean())  # 5 % of 60
    assert measured["a"].excess == measured["a"].excess_error == 0
    # three scenarios per bucket are independent here: the error of the mean is that of 60 values, within a quarter
    total = replay.totals(np.array([(4, 0, 0)]))[0]
    assert measured["a"].mean_error == pytest.approx(total.std() / 60**0.5, rel=0.25)


def test_the_best_single_slot_is_found() -> None:
    replay, _ = small_replay(3)
    corners = 4 * np.eye(3, dtype=np.int64)
    expected = corners[replay.mean_variance(corners).argmin()]
    assert _best_single(replay, 4, np.array([4, 4, 4])) == tuple(expected.tolist())
    assert _best_single(replay, 4, np.array([3, 3, 3])) is None


def test_the_recommendation_is_the_best_on_training_books(study: Path) -> None:
    order = summary_of(study)["orders"][0]
    values = {name: split["train"]["mean_variance"] for name, split in order["splits"].items()}
    assert min(values, key=lambda name: values[name]) == "recommended"
    assert sum(order["splits"]["recommended"]["allocation"]) == 4
    assert order["slots"] == ["XBOS", "XNAS", "XPSX", "XNAS limit", "Dark 1", "Dark 2"]
    assert set(order["policies"]) == {"adaptive", "rise", "risk-ucb", "uniform", "adaptive, warm"}
    assert order["recommended_policy"] in order["policies"]
    tolerances = [point["risk_tolerance"] for point in order["frontier"]]
    assert tolerances[0] == 0
    for field in ("risk_tolerance", "mean", "variance"):
        steps = itertools.pairwise(point[field] for point in order["frontier"])
        assert all(later > earlier for earlier, later in steps), field
    best = [point for point in order["frontier"] if point["risk_tolerance"] <= order["risk_tolerance"]][-1]
    assert best["allocation"] == order["splits"]["recommended"]["allocation"]
    assert order["frontier"][-1]["allocation"] == order["splits"]["ignoring risk"]["allocation"]


def test_doubts_are_said(study: Path) -> None:
    order = summary_of(study)["orders"][0]
    plain = " ".join(from_plain(SplitResultCase, order).findings())
    assert "known levels" not in plain
    measured = order["policies"][order["recommended_policy"]]["test"]
    naive = {name: order["splits"][name]["test"]["charged_cost"] for name in order["naive_splits"]}
    assert ("cost more than it saved" in plain) == (min(naive.values()) < measured["cost_each"])
    measured["cost_each"] = sorted(naive.values())[1]  # one of three is cheaper
    order["beyond_known_levels"]["test"] = 0.125
    order["frontier"] = order["frontier"][:1]
    order["frontier"][0] |= {"allocation": order["splits"]["recommended"]["allocation"], "risk_tolerance": 0.5}
    order["fits"]["XNAS"]["variance"] = [-1.0, 0.5]
    doubtful = from_plain(SplitResultCase, order)
    said = " ".join(doubtful.findings())
    assert f"cost more than it saved: {min(naive, key=lambda name: naive[name])} would have been cheaper" in said
    assert "At 12.5% of the sample times in the test hours the split needed more than the known levels" in said
    assert "optimal for any risk tolerance of 0.5 and more" in said
    assert "purely quadratic" in dict(zip(doubtful.slots, _models_table(doubtful).rows, strict=True))["XNAS"][-1]


def test_every_number_of_the_report_is_in_the_json(study: Path) -> None:
    """All numbers of the prose and the tables, as they are printed, come from one of the JSON's by rounding alone."""
    text = (study / "out" / "report.md").read_text().split("## Settings")[0]
    known: list[float] = []

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                collect(key)
                collect(one)
        elif isinstance(value, list):
            for one in value:
                collect(one)
        elif isinstance(value, str):
            known.extend(float(part) for part in re.findall(r"\d+(?:\.\d+)?", value))
        elif isinstance(value, int | float):
            known.append(abs(float(value)))

    collect(summary_of(study))
    values = np.array(sorted({*known, *(100 * value for value in known)}))  # percentages
    said = re.findall(r"(?<![A-Za-z²])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", text)
    assert len(said) > 100
    fixed = {5.0, 1.0}  # expected shortfall at 5 %, list numbers
    for word in said:
        number = float(word.replace(",", ""))
        mantissa, _, power = word.replace(",", "").partition("e")
        digits = len(mantissa.partition(".")[2])
        room = 0.5001 * 10.0 ** (int(power or 0) - digits)
        if number not in fixed:
            assert np.abs(values - number).min() <= room, word


@pytest.fixture(scope="module")
def browser(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The page of the study in a browser."""
    with opened(study / "out" / "report.html", tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.mark.usefixtures("untraced")
def test_the_page_draws_its_charts_without_errors(study: Path, browser: Any) -> None:
    assert "http://" not in (study / "out" / "report.html").read_text().split("<body>")[1]
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    boxes = browser.find_elements("css selector", ".chart")
    assert len(boxes) == 2 + 2 + 1 + 2 * 6
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('.chart')].map(c => c.querySelectorAll('svg').length)"
    )
    assert set(drawn) == {1}
    assert "by sending" in browser.find_element("css selector", ".answer").text


@pytest.mark.usefixtures("untraced")
def test_the_page_is_legible_on_a_phone(browser: Any) -> None:
    with as_phone(browser):
        width, inner = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert inner == 390
        assert width <= inner
        sizes = browser.execute_script(
            "return [...document.querySelectorAll('p, td')].map(e => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(sizes) >= 13
        wide = browser.execute_script(
            "return [...document.querySelectorAll('.chart')].map(c => c.getBoundingClientRect().width)"
        )
        assert max(wide) <= 390


@pytest.mark.thorough  # tests/test_machines.py compares one study between processes
@pytest.mark.usefixtures("untraced")
def test_the_same_study_gives_the_same_numbers(study: Path, tmp_path: Path) -> None:
    words = [str(study / "study.toml"), "--out", str(tmp_path / "out"), "--workers", "2"]
    assert command(["split-study", *words]) == 0
    again = json.loads((tmp_path / "out" / "study.json").read_text())
    assert again == summary_of(study)


def data_of(config: dict[str, Any], study: Path) -> SplitStudyOrder:
    """The market of a study, prepared for the first order size."""
    made = tomllib.loads(with_books_of(study, 'train = "10:40-10:50"\ntest = "10:50-11:00"\nrepeats = 3'))
    wanted = split_config(made | {"dark": tomllib.loads(TEMPLATE)["dark"]} | config)
    return _prepare_order(wanted, _study_data(wanted, study), wanted.quantities[0])


def test_hidden_sizes_differ_between_parts_and_repeats(study: Path) -> None:
    prepared = data_of({}, study)
    dark = {part: prepared.scenarios[part].profits[-1].reshape(3, 5, 11) for part in ("train", "test")}
    seen = [one[:, 1].tobytes() for part in dark.values() for one in part]
    assert len(set(seen)) == 6


def test_caps_are_kept_as_they_are_said(study: Path) -> None:
    prepared = data_of({"caps": {"XNAS": 9, "XPSX": 1, "Dark 1": 3}}, study)
    assert dict(zip(prepared.slots, prepared.caps.tolist(), strict=True)) == {
        "XBOS": 10,
        "XNAS": 9,
        "XPSX": 1,
        "Dark 1": 3,
        "Dark 2": 10,
    }


def test_data_of_an_earlier_study_are_not_used(study: Path, tmp_path: Path) -> None:
    files = sorted((study / "out" / "market").glob("*ITCH*"))
    assert len(files) == 3
    for chosen in (files, files[:1]):
        config = split_config({"data": [str(path) for path in chosen], "symbol": DEFAULT_SYMBOLS[0]})
        assert len(_study_data(config, tmp_path / "out").recordings) == len(chosen)


def test_a_day_is_chosen_among_several(tmp_path: Path) -> None:
    for day in ("2019-03-27", "2019-03-28"):
        date = dt.date.fromisoformat(day)
        hours = (dt.time(10, 40), dt.time(10, 50))
        files = generate_market(tmp_path / day, symbols=("QVEX",), hours=hours, date=date, rate=0.3)
        import_files(files, tmp_path / "books", ReadingOptions(("QVEX",)))
    config = split_config({"data": str(tmp_path / "books"), "date": dt.date(2019, 3, 28)})
    assert {one.date for one in _study_data(config, tmp_path).recordings} == {dt.date(2019, 3, 28)}


@pytest.mark.usefixtures("untraced")
def test_a_killed_study_leaves_no_report(study: Path, tmp_path: Path) -> None:
    """It is killed once a policy that is soon done has been played, while one plays that takes long."""
    settings = SMALL.replace("horizon = 400", "horizon = 200000")
    settings = re.sub("policies = .*", 'policies = ["uniform", "adaptive"]', settings)
    (tmp_path / "study.toml").write_text(with_books_of(study, settings))
    words = ["split-study", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "--workers", "1"]
    running = subprocess.Popen([sys.executable, "-m", "riskroute", *words], stdout=subprocess.DEVNULL)
    while not list((tmp_path / "out" / "tasks").glob("*.npz")):
        assert running.poll() is None
        time.sleep(0.05)
    running.kill()
    running.wait()
    assert not [path.name for path in (tmp_path / "out").iterdir() if "report" in path.name or "study" in path.name]


LARGE = """
quantities = 1000
risk_tolerances = 0.02
limit = ["XNAS", "XBOS", "XPSX"]
train = "10:40-10:48"
test = "10:48-10:56"
repeats = 2
horizon = 100
runs = 1
policies = ["thompson", "risk-ucb", "uniform"]
""" + "".join(f"[[dark]]\nname = 'D{k}'\npresence = 0.5\ntail = 1.{k}\nsmallest = {k}0\n" for k in range(1, 7))


@pytest.mark.thorough
@pytest.mark.usefixtures("untraced")
def test_a_thousand_shares_over_twelve_slots(study: Path, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(with_books_of(study, LARGE))
    assert command(["split-study", str(tmp_path / "study.toml"), "--out", str(tmp_path), "--workers", "1"]) == 0
    order = json.loads((tmp_path / "study.json").read_text())["orders"][0]
    assert len(order["slots"]) == 12
    assert int(order["splits_possible"]) > 10**12
    assert order["unplayed"] == ["risk-ucb"]
    assert sum(order["splits"]["recommended"]["allocation"]) == 1000
    values = {name: split["train"]["mean_variance"] for name, split in order["splits"].items()}
    assert values["recommended"] == min(values.values())
    assert "Not played" in (tmp_path / "report.md").read_text()


@pytest.mark.usefixtures("untraced")
def test_yardsticks_are_not_recommended_and_one_run_has_no_error(study: Path, tmp_path: Path) -> None:
    settings = SMALL.replace("runs = 2", "runs = 1").replace("[2.0]", "[0.0]").replace("horizon = 400", "horizon = 50")
    settings = re.sub("policies = .*", 'policies = ["oracle", "uniform", "thompson"]', settings)
    (tmp_path / "study.toml").write_text(with_books_of(study, settings))
    assert command(["split-study", str(tmp_path / "study.toml"), "--out", str(tmp_path), "--workers", "1"]) == 0
    order = json.loads((tmp_path / "study.json").read_text())["orders"][0]
    assert order["recommended_policy"] == "thompson"
    assert order["warm_policies"] == []
    assert order["policies"]["thompson"]["test"]["mean_variance_error"] is None
    text = (tmp_path / "report.md").read_text()
    assert "divided by the risk tolerance of 0" not in text
    assert "At a risk tolerance of zero only the variance counts" in text
    assert "Equal split would have had a larger variance, by" in text


@pytest.mark.real_data
@pytest.mark.usefixtures("untraced")
def test_a_real_venue_beside_two_dark_pools(tmp_path: Path) -> None:
    data = SHARED_DATA / "lobster" / "LOBSTER_SampleFile_AMZN_2012-06-21_5.zip"
    if not data.exists():
        pytest.skip(f"needs {data}")
    settings = (
        'train = "11:00-11:30"\ntest = "11:30-12:00"\nhorizon = 100\nruns = 2\npolicies = ["adaptive", "uniform"]'
    )
    pools = TEMPLATE[TEMPLATE.index("[[dark]]") :]
    (tmp_path / "study.toml").write_text(f'data = "{data}"\n{settings}\n{pools}')
    assert command(["split-study", str(tmp_path / "study.toml"), "--out", str(tmp_path), "--workers", "1"]) == 0
    summary = json.loads((tmp_path / "study.json").read_text())
    assert summary["market"]["symbol"] == "AMZN"
    assert summary["orders"][0]["slots"] == ["XNAS", "Dark 1", "Dark 2"]
    assert 0.2 < summary["orders"][0]["splits"]["recommended"]["test"]["cost"] < 0.6
