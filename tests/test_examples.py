"""The examples run as they are, print what they promise, and leave nothing behind."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import polars
import pytest

from checkout import ROOT, run_code, run_script
from riskroute.simulation import backends
from riskroute.simulation.backends import Backend
from riskroute.simulation.sweep import SweepConfig, sweep

FOLDER = ROOT / "examples"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))


def run(name: str, where: Path, *arguments: str) -> str:
    """What an example prints, started in an empty folder that must stay empty."""
    printed = run_script(FOLDER / f"{name}.py", where, *arguments)
    assert not list(where.iterdir())
    return printed


def regrets(table: str) -> dict[str, float]:
    """Mean regret by policy, from a printed table of standings."""
    rows = re.findall(r"^(\S+(?: [\d.]+)?) +(-?[\d,]+) +[\d,]+ +-?[\d,]+ \.\. ", table, flags=re.MULTILINE)
    return {name: float(value.replace(",", "")) for name, value in rows}


def test_every_example_is_known_short_and_listed() -> None:
    assert EXAMPLES == ["own_environment", "own_policy", "own_venues", "sweep_on_dask"]
    page = (FOLDER / "README.md").read_text()
    for name in EXAMPLES:
        assert 30 <= len((FOLDER / f"{name}.py").read_text().splitlines()) <= 60
        assert f"]({name}.py)" in page


@pytest.mark.usefixtures("untraced")
def test_own_venues(tmp_path: Path) -> None:
    """The splits obey lots and caps; more tolerance earns more and varies more; both policies learn."""
    printed = run("own_venues", tmp_path)
    found = re.findall(r"tolerance +(\d+): \((.*)\), earns (\S+) \+- (\S+) dollars", printed)
    assert [int(tolerance) for tolerance, *_ in found] == [0, 3, 10, 30, 100]
    for _, split, *_ in found:
        shares = [int(part) for part in split.split(", ")]
        assert sum(shares) == 1000
        assert all(part % 100 == 0 for part in shares)
        assert shares[2] <= 500
        assert shares[3] <= 600
    means, deviations = ([float(row[k]) for row in found] for k in (2, 3))
    assert means == sorted(means)
    assert deviations == sorted(deviations)
    ends = regrets(printed)
    assert ends["adaptive"] < ends["rise"] < ends["uniform"]


@pytest.mark.usefixtures("untraced")
def test_own_policy(tmp_path: Path) -> None:
    """Exploring in a tenth of the rounds costs about ten times what a hundredth costs, and far less than uniform."""
    printed = run("own_policy", tmp_path)
    assert "epsilon-greedy passes the conformance checks" in printed
    ends = regrets(printed)
    assert set(ends) == {"adaptive", "epsilon 0.01", "epsilon 0.1", "uniform"}
    assert ends["epsilon 0.01"] < ends["epsilon 0.1"] < ends["uniform"] / 2
    assert ends["adaptive"] < ends["epsilon 0.1"]


@pytest.mark.usefixtures("untraced")
def test_own_environment(tmp_path: Path) -> None:
    """Policies learn with frequent small losses, and find rare large ones harder."""
    checked, often, seldom = run("own_environment", tmp_path).split("\n\n")
    assert "the environment passes the conformance checks" in checked
    assert "50% of the orders, each 1.0 standard" in often
    assert "2% of the orders, each 7.0 standard" in seldom
    ends = regrets(often)
    assert ends["adaptive"] < ends["rise"] < ends["uniform"] / 2
    assert ends["thompson"] < regrets(seldom)["thompson"] < regrets(seldom)["uniform"]


def swept_here(kept: Path, where: Path) -> str:
    """What the example of a sweep prints with the backend of this process in dask's place."""

    def here(kind: str, *, workers: int) -> Backend:
        assert (kind, workers) == ("dask", 2)
        return Backend(workers=1)

    with mock.patch.object(backends, "Backend", here):
        return run("sweep_on_dask", where, str(kept))


def swept_on_dask(kept: Path, where: Path) -> str:
    """What it prints as it is, in a process of its own: dask's workers import what it was started with."""
    command = [sys.executable, str(FOLDER / "sweep_on_dask.py"), str(kept)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=where, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(where.iterdir())
    return done.stdout


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("swept", [swept_here, pytest.param(swept_on_dask, marks=pytest.mark.thorough)])
def test_sweep_on_dask(swept: Callable[[Path, Path], str], tmp_path: Path) -> None:
    """The printed table is that of the file, which is the same as without dask; importing the example plays nothing."""
    (tmp_path / "empty").mkdir()
    kept = tmp_path / "kept"
    printed = swept(kept, tmp_path / "empty")
    assert "48 runs on dask; files: sweep.parquet, sweep.json, config.json" in printed
    table = polars.read_parquet(kept / "sweep.parquet")
    rows = re.findall(r"│ (\d+) +┆ (\S+) +┆ (\S+) +┆ (\S+) +┆ (\d+) +│", printed)
    assert len(rows) == 12
    for shares, tolerance, policy, regret, runs in rows:
        here = table.filter(shares=int(shares), risk_tolerance=float(tolerance), policy=policy)["regret"]
        assert float(regret) == pytest.approx(here.mean(), abs=0.51)
        assert int(runs) == len(here) == 4
    best = [policy for _, _, policy, _, _ in rows[::3]]
    assert best == ["adaptive"] * 4

    spec = importlib.util.spec_from_file_location("sweep_on_dask", FOLDER / "sweep_on_dask.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    sweep(SweepConfig.of(example.STUDY | {"policies": ["rise"]}), tmp_path / "local", Backend(workers=1))
    assert polars.read_parquet(tmp_path / "local" / "sweep.parquet").equals(table.filter(policy="rise"))


def test_the_page_on_examples_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(), flags=re.DOTALL)
    printed = run_code(code, tmp_path)
    shares = re.match(r"\[([\d ]+)\]", printed)
    assert shares is not None
    assert sum(map(int, shares.group(1).split())) == 8
    assert "Box(0.0, 1.0, (5,), float64) (9,)" in printed
