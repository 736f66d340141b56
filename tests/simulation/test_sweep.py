"""Sweeps: every combination once, errors that name field, value and expectation, a table that can be queried."""

from __future__ import annotations

import json
from pathlib import Path

import polars
import pytest

from riskroute import Environment, InputError, random_routing_problem, simulate
from riskroute.cli.app import run_app as command
from riskroute.policies import Rise
from riskroute.simulation.backends import Backend
from riskroute.simulation.sweep import SweepConfig, SweepResult, sweep

CONFIG = """
slots = [2, 3]
shares = 3
risk_tolerances = [0.5, 2]
horizons = [200, 400]
instances = [4, 7]
policies = ["rise", "uniform"]
runs = 3
checkpoints = 4

[parameters.rise]
explore_multiplier = 2.0
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "study.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def swept(config: Path) -> SweepResult:
    """What the sweep gives, with its files beside the configuration."""
    return sweep(SweepConfig.read(config), config.parent / "out", Backend(workers=1))


def test_every_combination_is_played_once(config: Path, swept: SweepResult) -> None:
    wanted, out = SweepConfig.read(config), config.parent / "out"
    frame = polars.read_parquet(out / "sweep.parquet")
    keys = ["slots", "shares", "risk_tolerance", "horizon", "instance", "policy", "run"]
    assert wanted.all_runs == 2 * 2 * 2 * 2 * 2 * 3
    assert frame.select(keys).unique().height == wanted.all_runs
    assert frame.group_by(keys).agg(polars.col("round").max() == polars.col("horizon").first())["round"].all()
    assert json.loads((out / "config.json").read_text())["instances"] == [4, 7]
    rows = json.loads((out / "sweep.json").read_text())
    assert len(rows) == 16
    header, table = swept.table().header, swept.table().rows
    assert header == ["slots", "shares", "risk tolerance", "rounds", "instances", "rise", "uniform"]
    assert [row[:5] for row in table[:2]] == [["2", "3", "0.5", "200", "2"], ["2", "3", "0.5", "400", "2"]]


@pytest.mark.usefixtures("swept")
def test_a_cell_is_what_simulate_gives(config: Path) -> None:
    problem = random_routing_problem(3, 2, 7, risk_tolerance=0.5)
    policies = {"rise": Rise(explore_multiplier=2.0), "uniform": "uniform"}
    expected = simulate(Environment(problem), policies, horizon=400, runs=3, seed=0, checkpoints=4).to_frame()
    found = polars.read_parquet(config.parent / "out" / "sweep.parquet").filter(
        (polars.col("slots") == 2)
        & (polars.col("risk_tolerance") == 0.5)
        & (polars.col("horizon") == 400)
        & (polars.col("instance") == 7)
    )
    assert found.select(expected.columns).equals(expected)


def test_numbers_of_any_size_share_a_table(tmp_path: Path) -> None:
    config = SweepConfig.of({"slots": 2, "shares": 2, "horizons": [50, 3_000_000_000], "policies": "rise", "runs": 1})
    sweep(config, tmp_path, Backend(workers=1))
    assert polars.read_parquet(tmp_path / "sweep.parquet")["horizon"].to_list() == [50, 3_000_000_000]


def test_one_value_stands_for_a_list_and_everything_has_a_default() -> None:
    assert len(SweepConfig.of({}).panels()) == 1
    config = SweepConfig.of({"slots": 3, "shares": 2, "instances": 5, "risk_tolerances": 1, "policies": "greedy"})
    assert config.instance_numbers == [0, 1, 2, 3, 4]
    assert len(config.panels()) == 5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"slots": -3}, r"slots.0 must be greater than or equal to 1, was -3"),
        ({"slots": "x"}, r"slots.0 must be a valid integer, was 'x'"),
        ({"slots": []}, r"slots must have at least one value, was \[\]"),
        ({"shars": 3}, r"unknown field shars, was 3; fields are slots, shares"),
        ({"policies": ["ris"]}, r"policies must be one of .*, was 'ris'"),
        ({"instances": [1, -2]}, r"instances.1 must be greater than or equal to 0, was -2"),
        ({"instances": 0}, r"instances must be greater than or equal to 1, was 0"),
        ({"runs": 1.5}, r"runs must be a valid integer, was 1.5"),
        ({"seed": True}, r"seed must be a valid integer, was True"),
        ({"risk_tolerances": [-1]}, r"risk_tolerances.0 must be greater than or equal to 0, was -1"),
        ({"risk_tolerances": [float("nan")]}, r"risk_tolerances.0 must be a finite number, was nan"),
        ({"instances": [1, 2, 1]}, r"instances must have different values, found 1 more than once"),
        ({"horizons": [0]}, r"horizons.0 must be greater than or equal to 1, was 0"),
        ({"parameters": {"rise": {"x": 3}}}, r"parameters of rise are invalid"),
        (
            {"policies": "rise", "parameters": {"greedy": {}}},
            r"parameters are given for 'greedy': add it to policies",
        ),
        ({"policies": "risk-ucb", "shares": 1000, "slots": 20}, r"risk-ucb needs a list of all"),
    ],
)
def test_invalid_values_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SweepConfig.of(values)


def test_invalid_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config must be a readable file, was .*nowhere.toml"):
        SweepConfig.read(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("slots = [")
    with pytest.raises(InputError, match=r"config must be TOML, was 'bad.toml'"):
        SweepConfig.read(tmp_path / "bad.toml")


def test_the_command(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["sweep", str(config), "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    said = capsys.readouterr().out
    assert "risk tolerance" in said
    assert f"wrote {tmp_path / 'out' / 'sweep.parquet'}" in said
    first = (tmp_path / "out" / "sweep.parquet").read_bytes()
    assert command(["sweep", str(config), "--out", str(tmp_path / "out"), "--workers", "2", "--resume"]) == 0
    assert (tmp_path / "out" / "sweep.parquet").read_bytes() == first
    config.write_text("slots = 0")
    assert command(["sweep", str(config), "--out", str(tmp_path / "other")]) == 2
    assert capsys.readouterr().err.strip() == "riskroute: slots.0 must be greater than or equal to 1, was 0"
    assert not (tmp_path / "other").exists()
