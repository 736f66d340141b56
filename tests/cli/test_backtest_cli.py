"""`riskroute backtest` and `riskroute headroom`."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from riskroute.cli.app import run_app
from riskroute.study.candidates import NAMES
from riskroute.study.markets import MarketDay
from small_days import short_market

ASKED = ["--days", "2", "--orders", "12", "--shares", "300", "--shares", "5000", "--horizon", "20", "--seeds", "2"]
ASKED += ["--router", "spray", "--router", "static", "--router", "clairvoyant"]


class Printed(NamedTuple):
    """What a command said and wrote."""

    lines: list[str]
    found: Any
    out: Path


@pytest.fixture(scope="module", autouse=True)
def _short() -> Iterator[None]:
    with short_market():
        yield


@pytest.fixture(scope="module")
def backtest(kept_days: Path, dark_days: list[MarketDay], tmp_path_factory: pytest.TempPathFactory) -> Printed:
    """A backtest of two days, which are kept already."""

    out, said = tmp_path_factory.mktemp("backtest"), io.StringIO()
    where = ["--kept", str(kept_days), "--out", str(out / "tables"), "--json", str(out / "found.json")]
    with contextlib.redirect_stdout(said):
        assert run_app(["backtest", "--market", "dark", *ASKED, *where]) == 0
    return Printed(said.getvalue().splitlines(), json.loads((out / "found.json").read_text()), out / "tables")


def test_costs_can_be_recomputed_from_the_files(backtest: Printed) -> None:
    """Ten plain lines from the files, which know nothing of this package."""
    orders = pl.read_parquet(backtest.out / "orders.parquet")
    fills = pl.read_parquet(backtest.out / "fills.parquet")
    key = ["router", "seed", "symbol", "day", "number"]
    both = fills.join(orders.select(*key, "sign", "judged", arrival="mid", ordered="quantity"), on=key)
    paid = pl.col("quantity") * (pl.col("sign") * (pl.col("price") - pl.col("arrival")) + pl.col("fee"))
    costs = both.filter("judged").group_by(*key, "arrival", "ordered").agg(paid=paid.sum())
    bps = costs.with_columns(bps=1e4 * pl.col("paid") / (pl.col("ordered") * pl.col("arrival")))
    for size in (300, 5000):
        mine = bps.filter(pl.col("ordered") == size)
        means = dict(mine.group_by("router").agg(pl.col("bps").mean()).iter_rows())
        routers = backtest.found["comparisons"][str(size)]["routers"]
        assert means == pytest.approx({name: found["cost_bps"] for name, found in routers.items()}, abs=1e-9)


def test_what_is_printed(backtest: Printed) -> None:
    text = "\n".join(backtest.lines)
    assert backtest.lines[0] == "dark (synthetic), 2 days, protection reg-nms"
    for size, found in backtest.found["comparisons"].items():
        begin = backtest.lines.index(f"6 judged orders of {int(size):,} shares, 20 s each")
        assert backtest.lines[begin + 1].startswith("an order is ")
        routers = found["routers"]
        rows = [line.split()[0] for line in backtest.lines[begin + 5 : begin + 5 + len(routers)]]
        assert sorted(rows) == sorted(routers)
        assert rows == sorted(routers, key=lambda name: float(routers[name]["objective_bps"]))
        assert f"difference: against {found['bar']}, paired by order; 95 % CI over " in text
        assert found["verdict"] in backtest.lines
        for one in routers.values():
            assert one["dark_share"] + one["limit_share"] + one["taken_share"] == pytest.approx(1)
            assert one["seed_se_bps"] >= 0
    files = ("orders.parquet", "children.parquet", "fills.parquet", "costs.json", "costs.txt")
    assert [f"wrote {backtest.out / name}" for name in files] == backtest.lines[-6:-1]
    assert backtest.found["config"]["market"] == "dark"
    assert backtest.found["config"]["seeds"] == 2
    assert backtest.found["synthetic"] is True


def test_stresses_and_placebos_follow(kept_days: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--days", "1", "--orders", "6", "--router", "sweep", "--stresses", "--placebos", "--kept", str(kept_days)]
    assert run_app(["backtest", *words]) == 0
    said = capsys.readouterr().out
    for text in ("Stress tests", "latency 100 ms", "half the liquidity in pools", "Placebo tests", "empty pools"):
        assert text in said


def test_headroom(kept_days: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--market",
        "dark",
        "--days",
        "2",
        "--orders",
        "10",
        "--shares",
        "400",
        "--horizon",
        "0",
        "--risk",
        "balanced",
        "--benchmark",
        "touch",
    ]
    assert run_app(["headroom", *words, "--kept", str(kept_days), "--json", str(tmp_path / "room.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["market", "quantity", "seconds", "risk"]
    assert lines[2].split()[:5] == ["dark", "(synthetic)", "400", "shares", "0"]
    assert "dark (synthetic), immediate execution: learning" in lines[-2]
    assert "bps per judged order against the far touch at arrival, fees and charge for risk included" in lines
    (found,) = json.loads((tmp_path / "room.json").read_text())
    assert found["foresight_bps"] <= min([*found["fixed_bps"].values(), *found["seeing_bps"].values()])
    assert found["fixed_bps"][found["best_fixed"]] == min(found["fixed_bps"].values())
    assert found["learning"] in ("can", "cannot", "unclear", "no verdict")


def test_costs_are_stated_against_the_benchmark_asked_for(kept_days: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--days", "1", "--orders", "6", "--router", "sweep", "--horizon", "10", "--kept", str(kept_days)]
    assert run_app(["backtest", *words, "--benchmark", "vwap"]) == 0
    said = capsys.readouterr().out
    assert "\nbps against the VWAP from arrival to the horizon, fees included; objective" in said
    rows = [line.split() for line in said.splitlines()]
    assert "router arrival touch vwap twap effective spread realised spread, 10 s" in [" ".join(row) for row in rows]
    costs = {row[0]: row[2] for row in rows if row[1:2] == ["F0"]}
    stated = {row[0]: row[3] for row in rows if row[:1] == ["sweep"] and len(row) == 7}
    assert stated == {"sweep": costs["sweep"]}


MISTAKES = {
    "--router swep": r"unknown router 'swep'; did you mean 'sweep'\? \(--router list shows all\)",
    "--router oracle": "unknown router 'oracle'",
    "--router policy": "unknown router 'policy'",
    "--router sweep:pace=3": "sweep has no parameter 'pace'; its parameters are discretion, minimums",
    "--router own.py:Own": "cannot read 'own.py' of router own.py:Own",
    "--market drak": "market must be one of paper, comparable, dark or a folder .* was 'drak'",
    "--market no/such/folder": "market must be .* was 'no/such/folder'",
    "--symbol AAPL": "symbol must be one of LUMO, TARN, VEKO in the synthetic market dark, was 'AAPL'; real .* import",
    "--hours 10:30-10:31": "hours must overlap those of the books, .* New York .*, was 10:30-10:31 New York",
    "--protection nms": "protection must be one of none, reg-nms, was 'nms'",
    "--shares -5": "quantities must be positive numbers, was -5",
    "--quantity 0": "quantities must be positive numbers, was 0",
    "--shares many": "(--shares|--quantity).*was 'many'",
    "--side short": "side must be one of both, buy, sell, was 'short'",
    "--lot 0": "lot must be a number above 0, was 0",
    "--orders 0": "orders must be a positive integer, was 0",
    "--risk much": "risk must be cautious, balanced, cheapest or a kappa .*was 'much'",
    "--risk -1": "risk must be .* was '-1'",
    "--risk nan": "risk must be .* was 'nan'",
    "--horizon -1": "horizon must be .* was -1",
    "--horizon 3000": "horizon must be more than 1 s shorter than the day, .* was 3000",
    "--latency-ms -1": "latency_ms must be .* was -1",
    "--train 2": "train must be at most 1, to leave a test day, was 2",
    "--train -1": "train must be .* was -1",
    "--days 0": "days must be a positive integer, was 0",
    "--seeds 0": "seeds must be a positive integer, was 0",
    "--seed -1": "seed must be .* was -1",
    "--backend spark": "backend must be one of local, dask, ray, was 'spark'",
    "--json found.txt": "--json file ending must be .*was '.txt'",
    "--fees no_such.toml": "no_such.toml",
    "--kept pyproject.toml": "kept must be a folder|--kept must be in a folder",
}


def test_a_router_name_is_checked_before_days_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError

    # In this order: importing the study after the markets are patched would leave it patched.
    monkeypatch.setattr("riskroute.study.study.market_days", never)
    monkeypatch.setattr("riskroute.study.markets.market_days", never)
    for command in ("backtest", "study"):
        assert run_app([command, "--router", "contextul", "--kept", str(tmp_path)]) == 2
        assert "did you mean 'contextual'?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["backtest", "study", "route", "live demo"])
def test_all_routers_are_listed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app([*command.split(), "--router", "list"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert listed["sweep"] == "Sweep the displayed books, cheapest shares after fees first."
    assert {*NAMES, "FILE.py:CLASS"} - {"clairvoyant"} <= set(listed)
    assert ("clairvoyant" in listed) == (command in ("backtest", "study"))


def test_a_router_is_named_whatever_its_case_and_one_of_a_file_is_played(
    kept_days: Path, dark_days: list[MarketDay], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.py"
    own.write_text("from riskroute.routers.rules import SweepRule\n\n\nclass Own(SweepRule):\n    name = 'own'\n")
    words = ["--days", "2", "--orders", "6", "--kept", str(kept_days), "--router", "SPRAY"]
    assert (
        run_app(["backtest", *words, "--router", f"{own}:Own:discretion=0", "--json", str(tmp_path / "out.json")]) == 0
    )
    (found,) = json.loads((tmp_path / "out.json").read_text())["comparisons"].values()
    routers = found["routers"]
    assert "spray" in routers
    assert routers[f"{own}:Own:discretion=0"]["cost_bps"] == routers["sweep"]["cost_bps"]


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_reported_in_one_line(
    words: str, kept_days: Path, dark_days: list[MarketDay], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The option, what it was given, and what it should have been; nothing is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    asked = ["backtest", "--days", "2", "--orders", "4", "--kept", str(kept_days), *words.split()]
    assert run_app(asked) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("riskroute: ")
    assert re.search(MISTAKES[words], line), line
    assert sorted(tmp_path.iterdir()) == [tmp_path / "pyproject.toml"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--market drak", "market must be one of paper, comparable, dark or a folder"),
        ("--shares -1", "quantities must be positive numbers, was -1"),
        ("--horizon 3000", "horizon must be more than 1 s shorter than the day, .* was 3000"),
        ("--risk -0.1", "risk must be .* was '-0.1'"),
    ],
)
def test_mistakes_about_headroom(
    words: str, message: str, kept_days: Path, dark_days: list[MarketDay], capsys: pytest.CaptureFixture[str]
) -> None:
    market = [] if "market" in words else ["--market", "dark"]
    assert run_app(["headroom", *market, "--days", "2", "--orders", "4", "--kept", str(kept_days), *words.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line), line
