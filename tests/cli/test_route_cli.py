"""The command that routes one order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from riskroute.cli.app import run
from riskroute.routers.dark_first import DarkFirst
from router_books import TWO_VENUES


@pytest.fixture
def books(tmp_path: Path) -> Path:
    path = tmp_path / "books.json"
    path.write_text(json.dumps(TWO_VENUES))
    return path


def test_the_answer_is_printed_and_written(books: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "answer.json"
    words = ["route", str(books), "--side", "sell", "--shares", "300", "--lot", "100", "--json", str(out)]
    assert run(words) == 0
    answer = json.loads(out.read_text())
    assert answer["take"] == {"A": 100, "B": 200}
    assert answer["net"] == pytest.approx(2999.10)
    assert answer["expected_cost"] == pytest.approx(3003 - 2999.10)
    assert answer["limit"] == answer["dark"] == {}
    said = capsys.readouterr().out
    assert "take from  A                   100 shares" in said
    assert "$3.90 against the mid of 10.0100" in said
    assert "brings in $2,999.10" in said


def test_a_state_goes_on(books: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    router = DarkFirst()
    router.scores = {"P": 0.001, "Q": 0.5}
    (tmp_path / "state.json").write_text(json.dumps(router.state()))
    words = ["route", str(books), "--side", "buy", "--shares", "200", "--state", str(tmp_path / "state.json")]
    assert run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [["try", "in", "Q"], ["try", "in", "P"]]


def test_a_router_is_given_parameters(books: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["route", str(books), "--side", "buy", "--shares", "200", "--router", "dark-first+sweep:cap=50"]
    assert run(words) == 0
    assert "try in     P                    50 shares" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--side", "sell", "--shares", "0"], "shares must be a positive integer, was 0"),
        (["--side", "short", "--shares", "1"], "side must be one of buy, sell, was 'short'"),
        (["--side", "sell", "--shares", "1", "--router", "swep"], "did you mean 'sweep'?"),
        (
            ["--side", "sell", "--shares", "1", "--router", "contextual:kapa=0"],
            "parameters of contextual must be among",
        ),
        (["--side", "sell", "--shares", "1", "--state", "nowhere.json"], "file must be there, was 'nowhere.json'"),
        (["--side", "sell", "--shares", "1", "--json", "x.txt"], "--json file ending must be one of .json"),
    ],
)
def test_mistakes_are_one_line(words: list[str], message: str, books: Path, capsys: Any) -> None:
    assert run(["route", str(books), *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"venues": 3}', "[" * 100_000])
def test_files_that_hold_no_books(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "books.json"
    path.write_text(text)
    assert run(["route", str(path), "--side", "sell", "--shares", "1"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
