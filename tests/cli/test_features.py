"""`riskroute simulate --features`: user-defined actions, and file errors that name row and column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from riskroute.cli.app import run_app
from riskroute.simulation.policy_comparison import compare_policies, read_compared_features

MATRIX = np.random.default_rng(0).normal(size=(7, 3))
QUICK = ["--policy", "uniform", "--horizon", "50", "--runs", "2"]


def write(path: Path) -> Path:
    """Write the matrix as the ending says; of two CSV files one has no names of columns."""
    if path.suffix == ".npy":
        np.save(path, MATRIX)
    elif path.suffix == ".parquet":
        pl.DataFrame(MATRIX).write_parquet(path)
    else:
        pl.DataFrame(MATRIX, schema=["a", "b", "c"]).write_csv(path, include_header=path.stem != "bare")
    return path


@pytest.mark.parametrize("name", ["features.npy", "features.csv", "bare.csv", "features.parquet", "FEATURES.CSV"])
def test_every_kind_of_file_holds_the_same_actions(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = write(tmp_path / name), tmp_path / "out.json"
    np.testing.assert_array_equal(read_compared_features(file), MATRIX)
    assert run_app(["simulate", "--features", str(file), *QUICK, "--json", str(out)]) == 0
    found, said = json.loads(out.read_text()), capsys.readouterr().out
    assert said.startswith("7 actions with 3 features, 50 rounds, 2 runs")
    assert f"best action: row {found['best']}, counted from 0" in said
    direct = compare_policies(features=MATRIX, policies=["uniform"], horizon=50, runs=2)
    assert found["best"] == direct.best
    assert found["policies"]["uniform"]["mean_regret"] == direct.policies["uniform"].mean_regret().tolist()


FILES: dict[str, tuple[Any, str]] = {
    "text.csv": ("a,b\n1,2\n3,x\n", "text.csv: row 2 of column 'b' must be a finite number, was 'x'"),
    "empty cell.csv": ("a,b\n1,2\n,3\n", "row 2 of column 'a' must be a finite number, was empty"),
    "nan.csv": ("a,b\n1,2\n3,4\n5,nan\n", "row 3 of column 'b' must be a finite number, was 'nan'"),
    "bare nan.csv": ("1,2\n3,NaN\n", "row 2 of column 'column 2' must be a finite number, was 'NaN'"),
    "ragged.csv": ("a,b\n1,2\n3,4,5\n", "features must be a readable .csv file, was 'ragged.csv'"),
    "nothing.csv": ("", "features must be a readable .csv file, was 'nothing.csv'"),
    "names.csv": ("a,b\n", "names.csv must hold at least one row and one column"),
    "inf.npy": (np.array([[1.0, 2], [np.inf, 3]]), "inf.npy: row 2 of column 'column 1' must be a finite number"),
    "line.npy": (np.arange(3.0), "line.npy must hold a matrix of numbers, was of shape (3,) and type float64"),
    "words.npy": (np.array([["a"]]), "words.npy must hold a matrix of numbers, was of shape (1, 1) and type <U1"),
    "spoilt.npy": ("what", "features must be a readable .npy file, was 'spoilt.npy'"),
    "spoilt.parquet": ("what", "features must be a readable .parquet file, was 'spoilt.parquet'"),
    "days.parquet": (pl.DataFrame({"d": [True]}), "column 'd' must hold numbers, was of type Boolean"),
    "null.parquet": (pl.DataFrame({"d": [1.0, None]}), "row 2 of column 'd' must be a finite number, was empty"),
    "matrix.txt": ("1 2", "ending of the features file must be one of .npy, .csv, .parquet, was '.txt'"),
    "gone.csv": (None, "features must be a readable .csv file, was 'gone.csv': No such file or directory"),
}


@pytest.mark.parametrize("name", FILES)
def test_errors_name_the_defect_of_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    content, message = FILES[name]
    if isinstance(content, str):
        Path(name).write_text(content)
    elif isinstance(content, np.ndarray):
        np.save(name, content)
    elif content is not None:
        content.write_parquet(name)
    assert run_app(["simulate", "--features", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize("option", ["--slots", "--shares"])
def test_features_exclude_slots_and_shares(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["simulate", "--features", str(write(tmp_path / "f.npy")), option, "3"]) == 2
    assert f"{option} cannot be combined with --features" in capsys.readouterr().err
