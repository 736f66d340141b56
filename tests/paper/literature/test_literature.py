"""All experiments of the literature together, and the command that remakes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from riskroute.cli.app import run
from riskroute.paper.literature import literature
from riskroute.paper.literature.literature import PAPERS, literature_rows, literature_table, remake_literature


def test_every_paper_says_something_that_was_measured() -> None:
    found = remake_literature(quick=True)
    assert list(found) == list(PAPERS)
    rows = literature_rows(found)
    assert {paper for paper, _ in rows} == set(PAPERS)
    assert all(one.name and one.measured for _, one in rows)
    assert len(literature_table(found).plain().splitlines()) == len(rows) + 2


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    paper = "Cont and Kukanov (2017)"
    monkeypatch.setattr(literature, "PAPERS", {paper: lambda quick, seed: PAPERS[paper](quick=True, seed=seed)})
    assert run(["reproduce", "literature", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "8 of 8 statements hold here" in said
    assert set(json.loads((tmp_path / "literature.json").read_text())) == {paper}
    assert run(["reproduce", "literature", "--panel", "a"]) == 2
    assert "--panel must be left out for literature, was 'a'" in capsys.readouterr().err
