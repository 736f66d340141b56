"""`riskroute demo`: the table comes before the study, with the runs of every policy, and nothing is silent for long."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from riskroute.cli import output
from riskroute.cli import split_study as split_study_command
from riskroute.cli.app import run
from riskroute.experiments import comparison
from riskroute.experiments.panels import PanelSize
from riskroute.simulation.engines import Engine


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few short runs, all in this process."""
    scale = PanelSize(400, 3, 0, {"adaptive": 1, "thompson": 2})
    monkeypatch.setattr(comparison, "DEMO_SIZE", scale)
    monkeypatch.setattr(comparison, "DEMO_RUNS", sum(map(scale.runs_of, comparison.DEMO_POLICIES)))
    monkeypatch.setattr(comparison, "Engine", lambda: Engine(workers=1))


@pytest.mark.usefixtures("small")
def test_the_table_is_printed_before_the_study_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[str] = []

    def study(config: None, out: Path, *, lines: bool) -> tuple[list[Path], dict[str, object]]:
        assert lines
        before.extend(capsys.readouterr())
        return [out / "report.html"], {}

    monkeypatch.setattr(split_study_command, "run_split_study", study)
    assert run(["demo", "--out", str(tmp_path)]) == 0
    said, progress = before
    assert said.startswith("8 shares over 6 slots: 1,287 splits, 400 rounds, up to 3 runs, risk tolerance 2")
    header, _, *rows = said.splitlines()[1:11]
    assert header.split()[-2:] == ["runs", "seconds"]
    assert {row.split()[0]: int(row.split()[-2]) for row in rows} == dict.fromkeys(comparison.DEMO_POLICIES, 3) | {
        "adaptive": 1,
        "thompson": 2,
    }
    assert {path.name for path in tmp_path.iterdir()} == {"regret.json", "regret.parquet", "regret.png"}
    assert progress.splitlines()[:2] == ["loading, which takes longer the first time", "playing: 0 of 21 runs"]
    assert f"wrote {tmp_path / 'study' / 'report.html'}" in capsys.readouterr().out


def test_the_demo_plays_the_runs_that_simulate_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the order of its tasks: they are mixed so that workers compile different kernels."""
    monkeypatch.setattr(comparison, "DEMO_SIZE", PanelSize(500, 12, 0, {"thompson": 2, "adaptive": 1}))
    mixed = comparison.demo_comparison(Engine(workers=1))
    alone = comparison.compare_policies(policies=["rise", "uniform"], horizon=500, runs=12)
    for name, one in alone.policies.items():
        assert mixed.policies[name].regret.tolist() == one.regret.tolist()
        assert mixed.policies[name].recommended == one.recommended
    assert mixed.best == alone.best


def test_lines_come_now_and_then_until_the_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(output, "say", lambda text, *, err: said.append(text))
    monkeypatch.setattr(output, "LINE_EVERY", 0.001)
    with output.waiting("at work", lines=True):
        while len(said) < 3:
            time.sleep(0.001)
    assert set(said) == {"at work"}
    many = len(said)
    with output.waiting("quietly at work"):
        time.sleep(0.01)
    assert len(said) == many
