"""`riskroute route`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from riskroute.cli.app import run_app
from riskroute.routers.registry import make_router
from riskroute.routers.rules import DarkFirstRule
from router_cases import TWO_VENUES


@pytest.fixture
def books(tmp_path: Path) -> Path:
    path = tmp_path / "books.json"
    path.write_text(json.dumps(TWO_VENUES))
    return path


def test_the_answer_is_printed_and_written(books: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "answer.json"
    words = ["route", str(books), "--side", "sell", "--shares", "300", "--lot", "100", "--json", str(out)]
    assert run_app(words) == 0
    answer = json.loads(out.read_text())
    assert answer["take"] == {"A": 100, "B": 200}
    assert answer["net"] == pytest.approx(2999.10)
    assert answer["expected_cost"] == pytest.approx(3003 - 2999.10)
    assert answer["limit"] == answer["dark"] == {}
    assert answer["cost_if_filled"] == answer["cost_if_swept"] == answer["expected_cost"]
    assert answer["children"] == [
        {"kind": "take", "place": "A", "quantity": 100, "limit": 10.0, "fee": "0.003 USD per share"},
        {"kind": "take", "place": "B", "quantity": 200, "limit": 9.99, "fee": "-0.002 USD per share"},
    ]
    assert (answer["estimated_quantity"], answer["warnings"]) == (0, [])
    said = capsys.readouterr()
    assert said.err == ""
    assert [line.split() for line in said.out.splitlines()[:4:3]] == [
        ["kind", "place", "shares", "limit", "price", "fee"],
        ["take", "B", "200", "9.99", "-0.002", "USD", "per", "share"],
    ]
    assert "sell 300 shares at a mid of 10.01, cost with fees 3.90 USD (12.99 bps)" in said.out
    assert "returns 2,999.10 USD" in said.out


def test_a_plan_that_rests_has_a_range_of_costs(books: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "answer.json"
    words = ["--side", "sell", "--shares", "300", "--horizon", "60", "--router", "rest-even+sweep", "--json", str(out)]
    assert run_app(["route", str(books), *words]) == 0
    answer = json.loads(out.read_text())
    assert answer["cost_if_filled"] == pytest.approx(150 * 0.001 + 150 * 0.002)
    assert answer["cost_if_swept"] == pytest.approx(3.65)
    assert {child["kind"] for child in answer["children"]} == {"rest"}
    said = capsys.readouterr().out
    assert "0.450 USD (1.50 bps) if everything posted or sent to pools fills at its price" in said
    assert "3.65 USD (12.15 bps) if nothing fills there and all is swept" in said


def test_shares_beyond_the_books_are_reported(books: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "answer.json"
    assert run_app(["route", str(books), "--side", "sell", "--shares", "100000", "--json", str(out)]) == 0
    text = "98,950 of 100,000 shares are beyond the displayed depth: their price is an estimate"
    assert capsys.readouterr().err == f"warning: {text}\n"
    answer = json.loads(out.read_text())
    assert (answer["estimated_quantity"], answer["warnings"]) == (98_950, [text])


def test_default_protection_depends_on_the_market(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "books.json"
    venues = {
        "A": {"bids": [[10.00, 2]], "asks": [[10.02, 2]], "taker": 0.03},
        "B": {"bids": [[9.99, 2]], "asks": [[10.03, 2]]},
    }
    path.write_text(json.dumps({"venues": venues}))
    for more, place in (([], "B"), (["--protection", "none"], "B"), (["--protection", "reg-nms"], "A")):
        assert run_app(["route", str(path), "--side", "sell", "--shares", "2", *more]) == 0
        assert capsys.readouterr().out.splitlines()[2].split()[:3] == ["take", place, "2"]


@pytest.mark.parametrize(
    ("bids", "message"),
    [
        ([[9.99, -0.4], [9.98, 2]], "size of A must be a number of at least 0"),
        ([[10.02, 2]], "best bid of A must be below its best ask, was 10.02 and 10.01"),
    ],
)
def test_invalid_books_are_refused(bids: Any, message: str, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "books.json"
    path.write_text(json.dumps({"venues": {"A": {"bids": bids, "asks": [[10.01, 5]]}}}))
    assert run_app(["route", str(path), "--side", "sell", "--shares", "2"]) == 2
    assert message in capsys.readouterr().err


def test_crossed_books_give_a_warning(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "books.json"
    venues = {"A": {"bids": [[10.03, 2]], "asks": [[10.05, 2]]}, "B": {"bids": [[9.99, 2]], "asks": [[10.01, 2]]}}
    path.write_text(json.dumps({"venues": venues}))
    assert run_app(["route", str(path), "--side", "sell", "--shares", "2"]) == 0
    assert capsys.readouterr().err.startswith("warning: books are crossed: bid 10.03 at A, ask 10.01 at B")


def test_a_user_defined_router_routes_and_is_restored(books: Path, tmp_path: Path, capsys: Any) -> None:
    own, state = tmp_path / "own.py", tmp_path / "state.json"
    own.write_text(
        "from riskroute.routers.rules import DarkFirstRule\n\n\nclass Own(DarkFirstRule):\n    name = 'own'\n"
    )
    words = ["route", str(books), "--side", "buy", "--shares", "200", "--router", f"{own}:Own:cap=50"]
    assert run_app(words) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:3] == ["ping", "P", "50"]
    router = make_router(f"{own}:Own")
    router.scores = {"P": 0.001, "Q": 0.5}  # type: ignore[attr-defined]  # of the class in the file
    state.write_text(json.dumps(router.state()))
    assert run_app([*words[:-1], f"{own}:Own", "--state", str(state)]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:3] == ["ping", "Q", "200"]
    assert run_app([*words[:-2], "--state", str(state)]) == 2
    assert "unknown router 'own'; for a user-defined router, give its class as FILE.py:CLASS" in capsys.readouterr().err


def test_a_saved_state_is_restored(books: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    router = DarkFirstRule()
    router.scores = {"P": 0.001, "Q": 0.5}
    (tmp_path / "state.json").write_text(json.dumps(router.state()))
    words = ["route", str(books), "--side", "buy", "--shares", "200", "--state", str(tmp_path / "state.json")]
    assert run_app(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["ping", "Q"], ["ping", "P"]]


def test_a_router_is_given_parameters(books: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["route", str(books), "--side", "buy", "--shares", "200", "--router", "dark-first+sweep:cap=50"]
    assert run_app(words) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:3] == ["ping", "P", "50"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--side", "sell", "--shares", "0"], "quantity must be a positive multiple of 1 share, the lot, was 0"),
        (["--side", "short", "--shares", "1"], "side must be one of buy, sell, was 'short'"),
        (["--side", "sell", "--shares", "1", "--router", "swep"], "did you mean 'sweep'?"),
        (
            ["--side", "sell", "--shares", "1", "--router", "contextual:kapa=0"],
            "contextual has no parameter",
        ),
        (["--side", "sell", "--shares", "1", "--router", "clairvoyant"], "unknown router 'clairvoyant'"),
        (["--side", "sell", "--shares", "1", "--horizon", "10"], "--horizon needs --router or --state"),
        (
            ["--side", "sell", "--shares", "1", "--protection", "mifid"],
            "--protection must be one of none, reg-nms, was 'mifid'",
        ),
        (["--side", "sell", "--shares", "1", "--state", "nowhere.json"], "cannot read 'nowhere.json'"),
        (["--side", "sell", "--shares", "1", "--json", "x.txt"], "--json file ending must be one of .json"),
    ],
)
def test_mistakes_are_one_line(words: list[str], message: str, books: Path, capsys: Any) -> None:
    assert run_app(["route", str(books), *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"venues": 3}', "[" * 100_000])
def test_files_that_hold_no_books(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "books.json"
    path.write_text(text)
    assert run_app(["route", str(path), "--side", "sell", "--shares", "1"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_declared_instrument_is_that_of_the_ticket(
    books: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "instruments.toml"
    file.write_text('[instruments.ACME]\ntick = 0.02\ncurrency = "GBP"\n[instruments.BOLT]\nprotection = "reg-nms"\n')
    words = ["route", str(books), "--side", "sell", "--shares", "300", "--instruments", str(file)]
    assert run_app([*words, "--symbol", "ACME"]) == 0
    assert run_app([*words, "--symbol", "BOLT", "--protection", "reg-nms"]) == 0
    capsys.readouterr()
    assert run_app(words) == 2
    assert "--symbol must be one of ACME, BOLT, was None" in capsys.readouterr().err
    assert run_app([*words, "--symbol", "ACME", "--protection", "reg-nms"]) == 2
    assert "declares as none; was 'reg-nms'" in capsys.readouterr().err
    for stated in ({"symbol": "CASK"}, {"instrument": {"symbol": "CASK"}}):
        (tmp_path / "cask.json").write_text(json.dumps(json.loads(books.read_text()) | stated))
        assert run_app([words[0], str(tmp_path / "cask.json"), *words[2:]]) == 2
        assert "--symbol must be one of ACME, BOLT, was 'CASK'" in capsys.readouterr().err
