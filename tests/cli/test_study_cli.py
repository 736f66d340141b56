"""`riskroute study`: its answer, its files, and routing with the saved state."""

from __future__ import annotations

import contextlib
import html
import io
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

import riskroute as rr
from riskroute.cli.app import run_app
from riskroute.study import play
from riskroute.study.config import StudyConfig
from riskroute.study.markets import MarketDay
from riskroute.study.page import write_study_page
from small_days import short_market

ASKED = ["--orders", "12", "--shares", "2500", "--horizon", "10", "--router", "static", "--router", "contextual"]
CONFIG = """
market = "dark"
quantities = 700
days = 2
orders = 8
routers = "spray"
block_minutes = 1
surface_orders = 0
"""


class Studied(NamedTuple):
    """What the command said and wrote."""

    said: str
    out: Path
    words: list[str]


@pytest.fixture(scope="module", autouse=True)
def _short() -> Iterator[None]:
    with short_market():
        yield


@pytest.fixture(scope="module")
def studied(kept_days: Path, dark_days: list[MarketDay], tmp_path_factory: pytest.TempPathFactory) -> Studied:
    """A study of two days, which are kept already; it is the simple rule or the learner that is to be used."""
    out, said = tmp_path_factory.mktemp("study"), io.StringIO()
    words = ["study", "--market", "dark", "--days", "2", *ASKED, "--surface-orders", "0", "--kept", str(kept_days)]
    with contextlib.redirect_stdout(said):
        assert run_app([*words, "--out", str(out), "--json", str(out / "again.json")]) == 0
    return Studied(said.getvalue(), out, words)


def test_the_answer_is_printed_and_its_data_written(studied: Studied) -> None:
    found = rr.StudyResult.from_json(json.loads((studied.out / "study.json").read_text()))
    assert (studied.out / "again.json").read_text() == (studied.out / "study.json").read_text()
    assert studied.said.startswith(str(found))
    assert (studied.out / "study.txt").read_text() == f"{found}\n"
    (case,) = found.cases
    asked = (
        f"which router to use for orders of 2,500 shares of {case.symbol} with a 10-second deadline on synthetic days"
    )
    assert f"Not enough data to tell {asked}: " in studied.said
    assert found.synthetic
    table = pl.read_parquet(studied.out / "routing.parquet")
    assert set(table["router"]) == {case.use}
    assert table.equals(pl.read_csv(studied.out / "routing.csv", schema=table.schema))
    written = [line.removeprefix("wrote ") for line in studied.said.splitlines() if line.startswith("wrote ")]
    assert sorted(written) == sorted(str(path) for path in studied.out.iterdir())


def test_it_writes_a_page_of_the_same_numbers(studied: Studied, tmp_path: Path) -> None:
    found = rr.StudyResult.from_json(json.loads((studied.out / "study.json").read_text()))
    text = (studied.out / "study.html").read_text()
    more = ["--out", str(studied.out), "--json", str(studied.out / "again.json")]
    command = shlex.join(["riskroute", *studied.words, *more])
    assert text == write_study_page(found, tmp_path, command=command).read_text()
    assert html.escape(command) in text
    assert "Not enough data to tell" in text


def test_without_the_library_for_pages_the_rest_is_written(
    studied: Studied, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("riskroute.core.runtime.extra_is_installed", lambda library: library != "jinja2")
    (tmp_path / "study.html").write_text("the page of an earlier study")
    assert run_app([*studied.words, "--out", str(tmp_path)]) == 0
    assert "no study.html: pages need jinja2: pip install 'riskroute[report]'" in capsys.readouterr().err
    assert (tmp_path / "study.txt").exists()
    assert not (tmp_path / "study.html").exists()


def test_route_restores_the_state_of_a_study(
    studied: Studied, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the command says is what the restored router decides."""
    (path,) = studied.out.glob("state-*.json")
    state = json.loads(path.read_text())
    name = state["router"]
    book = {"bids": [[9.99, 300]], "asks": [[10.01, 2000]], "taker": 0.003, "maker": -0.002}
    books = {"venues": {"XNAS": book, "EDGA": book}, "pools": {"POOL1": {"fee": 0.001}}, "tick": 0.01}
    (tmp_path / "books.json").write_text(json.dumps(books))
    order = ["--side", "buy", "--shares", "2500", "--horizon", "10", "--symbol", "LUMO"]
    words = ["route", str(tmp_path / "books.json"), *order, "--state", str(path)]
    context = rr.routers.read_context(books, side="buy", shares=2500, horizon=10.0, symbol="LUMO")
    plan = rr.routers.restore_router(state).route(context)
    for more in ([], ["--router", name]):
        assert run_app([*words, *more, "--json", str(tmp_path / "plan.json")]) == 0
        assert f"{name}: buy 2,500 shares of LUMO at a mid of 10" in capsys.readouterr().out
        answer = json.loads((tmp_path / "plan.json").read_text())
        assert (answer["dark"], answer["dark_rest"], answer["limit"]) == (plan.dark, plan.dark_rest, plan.limit)
    assert run_app([*words, "--router", "spray"]) == 2
    assert f"router must be {name}, the router of the state, was 'spray'" in capsys.readouterr().err


def test_finished_plays_are_not_repeated(
    studied: Studied, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(task: play.PlayTask) -> None:
        raise AssertionError(task.candidate.label)

    monkeypatch.setattr(play.PlayTask, "perform", never)
    assert run_app([*studied.words, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == studied.said.splitlines()[0]


def test_an_interrupt_names_the_folder_of_finished_plays(
    kept_days: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = play.PlayTask.perform
    done: list[play.PlayTask] = []

    def once(task: play.PlayTask) -> object:
        if done:
            raise KeyboardInterrupt
        done.append(task)
        return usual(task)

    monkeypatch.setattr(play.PlayTask, "perform", once)
    words = ["study", "--days", "2", "--orders", "4", "--shares", "800", "--horizon", "0", "--router", "spray"]
    words += ["--kept", str(kept_days), "--out", str(tmp_path)]
    assert run_app(words) == 130
    said = capsys.readouterr().err
    assert said == f"interrupted: finished plays are in {kept_days}; run the same command to resume\n"
    again: list[str] = []

    def noted(task: play.PlayTask) -> object:
        again.append(task.candidate.label)
        return usual(task)

    monkeypatch.setattr(play.PlayTask, "perform", noted)
    assert run_app(words) == 0
    assert done[0].candidate.label not in again


def test_options_override_the_configuration_file(
    kept_days: Path, dark_days: list[MarketDay], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(CONFIG)
    words = ["study", str(path), "--horizon", "0", "--kept", str(kept_days), "--out", str(tmp_path / "out")]
    assert run_app([*words, "--side", "sell", "--seeds", "2"]) == 0
    assert (
        f"router to use for sell orders of 700 shares of {dark_days[0].symbol} for immediate execution on synthetic"
        in capsys.readouterr().out
    )
    found = rr.StudyResult.from_json(json.loads((tmp_path / "out" / "study.json").read_text()))
    assert found.config == StudyConfig(
        *("dark", (), (700,), "sell"), horizons=(0.0,), days=2, orders=8, routers=("spray",), block_minutes=1,
        surface_orders=0, seeds=2,
    )  # fmt: skip
    assert rr.Study(path, side="sell", horizons=0, seeds=2).config == found.config


def test_the_commented_file_holds_the_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "study.toml"
    assert run_app(["study", str(path), "--init"]) == 0
    assert f"edit it, then: riskroute study {path}" in capsys.readouterr().out
    study = rr.Study(path)
    assert study.config == StudyConfig()
    assert repr(study) == "Study()"
    assert repr(rr.Study(path, orders=7)) == "Study(orders=7)"
    assert run_app(["study", str(path), "--init"]) == 2
    uncommented = path.read_text().replace("# [[pools]]\n", "[[pools]]\n")
    path.write_text("\n".join(line.removeprefix("# ") if " = " in line else line for line in uncommented.splitlines()))
    pools = rr.Study(path, market=".", fees=None, instruments=None).pools
    assert pools == (rr.DarkMarketPool("POOL1", 0.3),)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shares", "-3"], "quantities must be positive numbers, was -3"),
        (["--horizon", "-1"], "horizons must be a number of at least 0, was -1.0"),
        (["--router", "contextul"], "unknown router 'contextul'; did you mean 'contextual'? (--router list shows all)"),
        (["--router", "contextual:kapa=0"], "contextual has no parameter 'kapa'; its parameters are"),
        (["--router", "nowhere.py:Own"], "cannot read 'nowhere.py' of router nowhere.py:Own"),
        (["--market", "nowhere"], "market must be one of paper, comparable, dark or a folder"),
        (["--fees", "fees.toml"], "fees.toml must be a TOML file of [[fees]]"),
        (["--train", "0"], "train must be at least 1, since a router is chosen on the training days, was 0"),
        (["--backend", "abacus"], "backend must be one of local, dask, ray, was 'abacus'"),
        (["nothing.toml"], "config must be a readable file, was 'nothing.toml'"),
        (["--json", "out.txt"], "--json file ending must be one of .json, was '.txt'"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_app(["study", *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not list(tmp_path.rglob("study.*"))
