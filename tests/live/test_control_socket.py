"""Halt and health over the control socket: without the event loop, by its owner only, and whatever is in its place."""

from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from live_logs import MemoryStore
from live_services import LONGEST, Running, running, service_config, write_config
from riskroute.cli.app import run_app
from riskroute.core.errors import StateError
from riskroute.live.config import read_live_config
from riskroute.live.http.control import _Handler, ask_control_socket, control_socket


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Running]:
    """A service whose event loop does not run: only requests of its client would run it."""
    with running(service_config(tmp_path), MemoryStore()) as made:
        yield made


def test_a_halt_over_the_control_socket_needs_no_event_loop_and_is_durable(up: Running, tmp_path: Path) -> None:
    place = tmp_path / "control"
    with control_socket(up.service, place) as said:
        assert said == f"control socket: {place}"
        assert ask_control_socket(place).status == "ready"
        before = up.rows
        answer = ask_control_socket(place, "a test")
        assert (answer.status, answer.halted, up.rows) == ("halted", "a test", before + 1)
    assert up.service.engine.state.halted_by == "command"


def test_only_its_owner_can_use_the_control_socket_which_is_removed_at_the_end(up: Running, tmp_path: Path) -> None:
    place = tmp_path / "control"
    place.write_text("of an earlier process")
    with control_socket(up.service, place):
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert ask_control_socket(place).status == "ready"
    assert not place.exists()


def test_a_process_that_has_taken_over_keeps_its_control_socket(up: Running, tmp_path: Path) -> None:
    place = tmp_path / "control"
    with control_socket(up.service, place):
        later = control_socket(up.service, place)
        later.__enter__()
    assert ask_control_socket(place).status == "ready"
    later.__exit__(None, None, None)
    assert not place.exists()


def test_the_path_of_a_control_socket_may_be_long(up: Running, tmp_path: Path) -> None:
    place = tmp_path / ("a" * 200) / "control"
    place.parent.mkdir()
    with control_socket(up.service, place):
        assert ask_control_socket(place, "far away").halted == "far away"


def test_clients_that_say_nothing_or_nonsense_keep_nobody_from_halting(
    up: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Handler, "timeout", 0.5)
    place = tmp_path / "control"
    with control_socket(up.service, place):
        lines = [socket.socket(socket.AF_UNIX) for _ in range(12)]
        for number, line in enumerate(lines):
            line.connect(str(place))
            line.sendall((b"", b"{}", b"\xff\n", b'{"resume": 1}\n')[number % 4])
        assert ask_control_socket(place, "among others").halted == "among others"
        for line in lines:
            line.settimeout(LONGEST)
            assert line.recv(1) == b""  # closed, at once or after a while
            line.close()


def test_trading_goes_on_where_no_control_socket_can_be_made(up: Running, tmp_path: Path) -> None:
    with control_socket(up.service, tmp_path / "missing" / "control") as said:
        assert said.endswith("control cannot be created: No such file or directory")


def test_a_halt_that_cannot_be_written_says_so(up: Running, tmp_path: Path) -> None:
    up.service.engine.ledger.failed = "the log cannot be written: disk full"
    with control_socket(up.service, tmp_path / "control"):
        assert ask_control_socket(tmp_path / "control").status == "failed"
        with pytest.raises(StateError, match="disk full"):
            ask_control_socket(tmp_path / "control", "too late")


def test_a_service_that_ends_before_it_has_answered_is_reported(tmp_path: Path) -> None:
    place = tmp_path / "control"
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(place))
        server.listen()

        def end(answer: bytes) -> None:
            with closing(server.accept()[0]) as line:
                line.recv(1_000)
                line.sendall(answer)

        for answer in (b"", b'{"status": "rea', b"\xff\n"):
            thread = threading.Thread(target=end, args=(answer,))
            thread.start()
            with pytest.raises(StateError, match=r"closed the connection on .* without an answer"):
                ask_control_socket(place)
            thread.join()


def test_the_commands_halt_and_health_use_the_control_socket(
    up: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path)
    place = read_live_config(config).control_socket
    assert place == tmp_path / "live.sqlite-control"
    assert run_app(["live", "health", str(config)]) == 2
    assert f"the service does not run: no process listens on {place}" in capsys.readouterr().err
    with control_socket(up.service, place):
        assert run_app(["live", "health", str(config)]) == 0
        assert run_app(["live", "halt", str(config), "--reason", "prices look wrong"]) == 0
        assert run_app(["live", "health", str(config)]) == 0
        said = "ready\ntrading is halted: prices look wrong\nhalted: prices look wrong\n"
        assert capsys.readouterr().out == said
        up.service.engine.ledger.failed = "a test"
        assert run_app(["live", "health", str(config)]) == 1
    assert run_app(["live", "halt", str(config)]) == 2


def test_each_partition_has_its_own_control_socket(tmp_path: Path) -> None:
    config = write_config(tmp_path, postgres="dbname=unused")
    places = [read_live_config(config, partition=one).control_socket for one in ("1/1", "1/2", "2/2")]
    assert [place.name for place in places if place] == ["main-control", "main.1of2-control", "main.2of2-control"]
    assert {place.parent for place in places if place} == {tmp_path}
    config.write_text(f'control_socket = "here"\n{config.read_text()}')
    assert read_live_config(config).control_socket == tmp_path / "here"
