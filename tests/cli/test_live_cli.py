"""The commands of the live router, in the process of the test; that it serves is tested with a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from live_services import order_json, running, service_config
from riskroute.cli.app import run_app
from riskroute.live.log.sqlite import SqliteLog


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of twelve orders and a halt."""
    folder = tmp_path_factory.mktemp("live")
    with running(service_config(folder)) as up:
        for number in range(12):
            up.client.post("/orders", json=order_json(f"o{number}", side="buy" if number < 8 else "sell"))
        for number in range(12):
            up.client.settled(f"o{number}")
        up.client.post("/halt", "halt", json={"reason": "the end"})
    return folder / "live.sqlite"


def test_init_writes_a_configuration_and_shows_tokens_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "live.toml"
    assert run_app(["live", "init", str(file), "--shadow"]) == 0
    said = capsys.readouterr().out
    tokens = [line.split()[1] for line in said.splitlines() if line.startswith("  ")]
    assert len(tokens) == 3
    assert not any(token in file.read_text() for token in tokens)
    assert 'mode = "shadow"' in file.read_text()
    assert run_app(["live", "init", str(file)]) == 2
    assert "file must be new" in capsys.readouterr().err


def test_a_new_token_comes_with_its_hash(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["live", "token"]) == 0
    token, hashed = capsys.readouterr().out.splitlines()
    assert token.startswith("token  ")
    assert hashed.startswith('hash = "sha256:')


def test_verify_and_replay(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["live", "verify", str(log)]) == 0
    assert "12 decisions recomputed, 0 differ" in capsys.readouterr().out
    assert run_app(["live", "replay", str(log), "--json", str(tmp_path / "state.json")]) == 0
    said = capsys.readouterr().out
    assert "12 orders, 12 settled, 0 unsettled" in said
    assert "halted: the end" in said
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["positions"]["DEMO"]["quantity"] == 400
    assert state["totals"]["cost_bps"]["orders"] == 12


def test_verify_finds_a_changed_row(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import sqlite3

    copy = tmp_path / "copy.sqlite"
    with sqlite3.connect(log) as old, sqlite3.connect(copy) as new:
        old.backup(new)
        new.execute("UPDATE log SET at = at + 1 WHERE seq = 5")
        new.commit()
    old.close()
    new.close()
    assert run_app(["live", "verify", str(copy)]) == 2
    assert "row 5 of the log was changed" in capsys.readouterr().err


def test_heads_are_printed_and_checked(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["live", "verify", str(log)]) == 0
    found = re.search(r"(\d+) rows, hash chain intact; head (\1:([0-9a-f]{32}))\n", capsys.readouterr().out)
    assert found is not None
    head = found[2]
    assert run_app(["live", "replay", str(log), "--json", str(tmp_path / "state.json")]) == 0
    assert json.loads((tmp_path / "state.json").read_text())["head"] == head
    assert run_app(["live", "export", str(log), "--out", str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out" / "head.json").read_text()) == {"head": head}
    assert capsys.readouterr().out.count(f"head {head}") == 2
    with SqliteLog(log, create=False) as opened:
        earlier = next(opened.read(4, 1))
    for given in (head, found[3], f"5:{earlier.chain.hex()}", earlier.chain.hex()):
        assert run_app(["live", "verify", str(log), "--head", given]) == 0
    capsys.readouterr()
    for given, said in (
        (f"99999:{found[3]}", "but its head was recorded at row 99,999"),
        (f"5:{found[3]}", "row 5 of the log has another hash than the recorded head"),
        ("0" * 32, "no row of the log has the hash '0000"),
        ("5:x", "head must be NUMBER:HASH or HASH of a row, was '5:x'"),
    ):
        assert run_app(["live", "verify", str(log), "--head", given]) == 2
        assert said in capsys.readouterr().err


def test_missing_rows_are_an_error_of_verify_and_doctor_and_a_warning_elsewhere(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sqlite3

    copy = tmp_path / "live.sqlite"
    for end in ("", "-lease"):
        shutil.copy(f"{log}{end}", f"{copy}{end}")
    with sqlite3.connect(copy) as shortened:
        (number,) = shortened.execute("SELECT max(seq) FROM log").fetchone()
        shortened.execute("DELETE FROM log WHERE seq > ?", (number - 3,))
    shortened.close()
    said = f"the log ends at row {number - 3}, but its head was recorded at row {number}: 3 rows are missing"
    run_app(["live", "init", str(tmp_path / "live.toml")])
    assert run_app(["live", "verify", str(copy)]) == 2
    assert run_app(["live", "doctor", str(tmp_path / "live.toml")]) == 1
    for words in (["replay", str(copy)], ["export", str(copy), "--out", str(tmp_path / "out")]):
        assert run_app(["live", *words]) == 0
    out, err = capsys.readouterr()
    assert f"BAD   log            {said}" in out
    assert err.count(said) == 3
    assert err.count("warning: ") == 2
    assert run_app(["live", "verify", str(copy), "--accept"]) == 0
    assert run_app(["live", "verify", str(copy)]) == 0


def test_exports_and_states_are_for_their_owner_alone(log: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert run_app(["live", "export", str(log), "--out", str(tmp_path / "out")]) == 0
        assert run_app(["live", "replay", str(log), "--json", str(tmp_path / "state.json")]) == 0
    finally:
        os.umask(before)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {"orders.parquet", "fees.toml", "head.json", "state.json"} <= {file.name for file in files}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_export_writes_tables(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["live", "export", str(log), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert [name for name in ("orders", "children", "fills") if f"{name}.parquet" in said] == [
        "orders",
        "children",
        "fills",
    ]


def test_doctor_looks_at_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_app(["live", "init", str(tmp_path / "live.toml")])
    capsys.readouterr()
    run_app(["live", "doctor", str(tmp_path / "live.toml")])  # a slow disk is no mistake of ours
    said = capsys.readouterr().out
    for what in ("configuration", "versions", "disk", "fsync", "log", "clock", "router"):
        assert f"  {what} " in said
    with SqliteLog(tmp_path / "live.sqlite", "other"):
        pass
    assert run_app(["live", "doctor", str(tmp_path / "live.toml")]) == 1
    assert "BAD   log" in capsys.readouterr().out


def test_what_is_not_there_is_told_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["live", "serve", str(tmp_path / "no.toml")]) == 2
    assert "config must be a readable file" in capsys.readouterr().err
    assert run_app(["live", "verify", str(tmp_path / "no.sqlite")]) == 2
    assert "path must be the file of a log" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["init", "token", "serve x", "verify x", "replay x", "export x", "doctor x"])
def test_without_the_extra_a_sentence_says_what_to_install(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("riskroute.core.runtime.extra_is_installed", lambda library: library != "uvicorn")
    assert run_app(["live", *command.split()]) == 2
    said = capsys.readouterr().err
    assert said == "riskroute: the commands of riskroute live need uvicorn: pip install 'riskroute[live]'\n"


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["live", "--help"]) == 0
    said = capsys.readouterr().out
    assert "riskroute live init" in said
    assert all(word in said for word in ("serve", "verify", "replay", "export", "doctor", "token"))
