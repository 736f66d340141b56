"""`riskroute demo`: rules, study and policies in this order, with regular progress lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from riskroute.cli import demo, output
from riskroute.cli.app import run_app
from riskroute.simulation import backends
from riskroute.simulation.backends import Backend
from riskroute.simulation.policy_comparison import compare_policies
from small_days import short_market


@dataclass(frozen=True)
class OneProcess(Backend):
    """A backend that plays in this process unless told otherwise."""

    workers: int = 1


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few short runs, all in this process."""
    monkeypatch.setattr(demo, "DEMO_RUNS", 3)
    monkeypatch.setattr(demo, "DEMO_HORIZON", 400)
    monkeypatch.setattr(backends, "Backend", OneProcess)


@pytest.fixture
def few_orders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two days of the demo's study with a few orders."""
    few = {"days": 2, "train": None, "hours": None, "orders": 8, "block_minutes": 1.0, "surface_orders": 4}
    monkeypatch.setattr(demo, "DEMO_STUDY", demo.DEMO_STUDY | few)
    with short_market(10):
        yield


@pytest.mark.usefixtures("small", "few_orders", "unpainted")
def test_the_verdict_comes_first_then_five_routers_the_page_and_the_policies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_app(["demo", "--out", str(tmp_path)]) == 0
    said, progress = capsys.readouterr()
    verdict, table, page, _ = said.split("\n\n", 3)
    begin = (
        "Not enough data to tell which router to use for orders of 1,000 shares of LUMO with a 60-second deadline on "
    )
    assert verdict.startswith(f"{begin}synthetic days: the orders cover ")
    assert f"\n{verdict} " in (tmp_path / "study" / "study.txt").read_text()
    rows = table.splitlines()
    assert rows[0].split()[:3] == ["router", "cost", "bps"]
    assert len(rows) == 2 + 5
    assert any("benchmark" in row for row in rows)
    assert page == f"The whole answer: {tmp_path / 'study' / 'study.html'}"

    table = said.partition("The paper's experiment: regret of each policy.\n")[2]
    rows = table.splitlines()
    assert rows[0].startswith("8 shares over 6 slots: 1,287 splits, 400 rounds, 3 runs, risk tolerance 2")
    assert {row.split()[0] for row in rows[3:11]} == set(demo.DEMO_POLICIES)
    files = {"regret.json", "regret.parquet", "regret.png", "study"}
    assert {path.name for path in tmp_path.iterdir()} == files  # days are not kept
    lines = ["loading (slower the first time)", "0 of 2 days prepared"]
    assert list(dict.fromkeys(line for line in progress.splitlines() if line in lines)) == lines  # repeated if slow
    assert "0 of 24 runs" in progress


def test_the_demo_plays_the_runs_that_simulate_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the order of its tasks: they are mixed so that workers compile different kernels."""
    monkeypatch.setattr(demo, "DEMO_RUNS", 12)
    monkeypatch.setattr(demo, "DEMO_HORIZON", 500)
    mixed = demo._compare_policies(Backend(workers=1))
    alone = compare_policies(policies=["rise", "uniform"], horizon=500, runs=12)
    for name, one in alone.policies.items():
        assert mixed.policies[name].regret.tolist() == one.regret.tolist()
        assert mixed.policies[name].recommended == one.recommended
    assert mixed.best == alone.best


def test_progress_lines_are_printed_until_the_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(output, "say", lambda text, *, err: said.append(text))
    monkeypatch.setattr(output, "_LINE_EVERY", 0.001)
    with output.output_status("at work", lines=True):
        while len(said) < 3:
            time.sleep(0.001)
    assert set(said) == {"at work"}
    many = len(said)
    with output.output_status("quietly at work"):
        time.sleep(0.01)
    assert len(said) == many
