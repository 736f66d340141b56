"""Results: statistics, tables, files and figures."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import polars
import pytest

from riskroute import InputError, Problem, SimulationResult, plot_regret, simulate
from riskroute.core.files import write_whole
from riskroute.simulation.results import PolicyResult


@pytest.fixture(scope="module")
def result(small_problem: Problem) -> SimulationResult:
    return simulate(small_problem, ["rise", "uniform"], horizon=300, runs=7, seed=2, checkpoints=10)


def test_statistics_are_over_runs(result: SimulationResult) -> None:
    one = result.policies["rise"]
    assert one.regret.shape == (7, len(one.checkpoints))
    np.testing.assert_allclose(one.mean_regret(), np.mean(one.regret, axis=0))
    np.testing.assert_allclose(one.std_regret(), np.std(one.regret, axis=0, ddof=1))
    assert one.luck.shape == one.regret.shape
    np.testing.assert_array_equal(one.steady_regret, one.regret - one.luck)
    np.testing.assert_allclose(one.quantiles()[0.5], np.median(one.regret, axis=0))


def test_a_single_run_has_no_deviation(small_problem: Problem) -> None:
    one = simulate(small_problem, ["rise"], horizon=50, runs=1).policies["rise"]
    assert one.std_regret().tolist() == [0.0] * len(one.checkpoints)


def test_prints_as_a_table_best_first(result: SimulationResult) -> None:
    lines = str(result).splitlines()
    assert lines[0].split()[:2] == ["policy", "regret"]
    assert len(set(map(len, lines))) == 1
    ends = {name: one.mean_regret()[-1] for name, one in result.policies.items()}
    assert [line.split()[0] for line in lines[2:]] == sorted(ends, key=lambda name: ends[name])


def test_found_best_counts_runs_that_recommend_the_best_action() -> None:
    none = np.zeros((2, 1))
    one = PolicyResult(np.array([10]), np.array([[1.0], [3.0]]), none, none, [4, 5], np.array([2, 6]), seconds=0.5)
    table = SimulationResult({}, {"some": one}, best=4).table()
    header, rows = table.header, table.rows
    row = dict(zip(header, rows[0], strict=True))
    assert row["found best"] == "50%"
    assert row["elsewhere"] == "40.0%"
    assert row["regret"] == "2"


def test_the_table_shows_numbers_of_runs_where_they_differ(result: SimulationResult) -> None:
    rise, uniform = result.policies["rise"], result.policies["uniform"]
    assert "runs" not in result.table().header
    none = np.zeros_like(rise.regret[:2])
    short = PolicyResult(rise.checkpoints, rise.regret[:2], none, none, rise.recommended[:2], rise.exploration[:2], 0.1)
    table = SimulationResult({}, {"rise": short, "uniform": uniform}, best=0).table()
    header, rows = table.header, table.rows
    assert {row[0]: row[header.index("runs")] for row in rows} == {"rise": "2", "uniform": "7"}


def test_json_holds_config_and_curves(result: SimulationResult, tmp_path: Path) -> None:
    path = result.save(tmp_path / "deep" / "result.json")
    read = json.loads(path.read_text())
    assert set(read["policies"]) == {"rise", "uniform"}
    for name, one in read["policies"].items():
        assert one["checkpoints"][-1] == 300
        assert len(one["mean_regret"]) == len(one["std_regret"]) == len(one["checkpoints"])
        assert one["mean_regret"] == result.policies[name].mean_regret().tolist()
        steady = result.policies[name].steady_regret
        assert one["mean_steady_regret"] == steady.mean(axis=0).tolist()
        assert one["std_steady_regret"] == steady.std(axis=0, ddof=1).tolist()
        assert one["seconds"] > 0
    assert {"version", "horizon", "runs", "seed", "policies"} <= set(read["config"])


def test_parquet_is_tidy(result: SimulationResult, tmp_path: Path) -> None:
    frame = polars.read_parquet(result.save(tmp_path / "result.parquet"))
    assert frame.columns == ["policy", "run", "round", "regret", "pseudo_regret", "luck"]
    one = result.policies["uniform"]
    last = frame.filter((polars.col("policy") == "uniform") & (polars.col("round") == 300)).sort("run")
    assert last["regret"].to_list() == one.regret[:, -1].tolist()
    assert last["luck"].to_list() == one.luck[:, -1].tolist()
    assert frame.height == sum(policy.regret.size for policy in result.policies.values())


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_figure_is_written(result: SimulationResult, tmp_path: Path, ending: str) -> None:
    path = plot_regret(result, tmp_path / f"regret.{ending}")
    content = path.read_bytes()
    if ending == "png":
        width, height = struct.unpack(">II", content[16:24])
        assert (width, height) == (1200, 750)
    if ending == "svg":
        assert b"<svg" in content
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_figure_draws_every_policy_with_labelled_axes(result: SimulationResult) -> None:
    from matplotlib.figure import Figure

    from riskroute.paper.figures import COLOURS, _draw_regret

    axes = Figure().add_subplot()
    _draw_regret(axes, {name: one.summary() for name, one in result.policies.items()})
    assert [line.get_label() for line in axes.get_lines()] == ["rise", "uniform"]
    assert axes.get_lines()[0].get_color() == COLOURS["rise"]
    np.testing.assert_allclose(
        np.asarray(axes.get_lines()[0].get_ydata(), dtype=float), result.policies["rise"].mean_regret()
    )
    assert axes.get_xlabel() == "round"
    assert "regret" in axes.get_ylabel()


def test_bad_paths_are_named(result: SimulationResult, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"path must end in .json or .parquet, was 'result.csv'"):
        result.save(tmp_path / "result.csv")
    with pytest.raises(InputError, match=r"file extension must be one of .png, .pdf, .svg, was '.gif'"):
        plot_regret(result, tmp_path / "x.gif")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="path must be writable"):
        result.save(tmp_path / "file" / "x.json")
    with pytest.raises(InputError, match="at least one policy"):
        plot_regret(SimulationResult({}, {}, best=0), tmp_path / "x.png")


def test_a_failed_write_leaves_only_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "kept.json"
    target.write_text("old")

    def fail(beside: Path) -> None:
        beside.write_text("half")
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        write_whole(target, fail)
    assert target.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept.json"]
