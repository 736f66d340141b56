"""The parts of the gate: connections, frames, the link to the service, and processes that end."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gates import CONFIG, order_body, request, rest, rig
from live_services import service_config
from riskroute.core.errors import InputError
from riskroute.live import gate, gate_connections, gate_link
from riskroute.live.gate_connections import answer_bytes
from riskroute.live.gate_frames import PACKET_BYTES, FrameWriter, frame
from riskroute.live.gate_link import MOST_STARTS, GateKeeper, GateLink
from riskroute.live.gate_process import GateProcess, early_gate, gate_possible, listening
from riskroute.live.gate_requests import MOST_BYTES
from riskroute.live.order_terms import Prepared
from riskroute.live.service import Service

pytestmark = pytest.mark.skipif(not gate_possible(), reason="a gate needs Linux")

PLAIN = request(order_body())


def test_what_comes_while_an_order_is_under_way_waits_its_turn() -> None:
    with rig() as one:
        client = one.client()
        client.sendall(PLAIN + request(order_body("two")) + b"GET /health HTTP/1.1\r\n\r\n")
        [(number, first)] = one.asked()
        assert first.order.key == "one"
        assert not one.asked()
        assert not one.handed_over()
        one.answer((number, 422, b"no"))
        assert rest(client).startswith(b"HTTP/1.1 422 Unprocessable")
        [(number, second)] = one.asked()
        assert second.order.key == "two"
        one.answer((number, 200, b"yes"))
        assert rest(client).endswith(b"yes")
        [(connection, data)] = one.handed_over()
        assert data == b"GET /health HTTP/1.1\r\n\r\n"
        connection.sendall(b"from the service")
        assert rest(client) == b"from the service"


def test_orders_of_one_turn_go_together() -> None:
    with rig() as one:
        clients = [one.client() for _ in range(5)]
        for client in clients:
            client.sendall(PLAIN)
        one.turn()
        assert len(one.asked()) == 5
        one.answer(*[(number, 200, b"%d" % number) for number in range(5)], (77, 200, b"nobody's"))
        assert [rest(client)[-1:] for client in clients] == [b"%d" % number for number in range(5)]


def test_a_client_that_sends_without_end_is_not_read_without_end() -> None:
    with rig() as one:
        client, total = one.client(), 0
        client.sendall(PLAIN)
        [(number, _)] = one.asked()
        flood = request(order_body("two")) * 2000
        for _ in range(100):
            try:
                total += client.send(flood[total:])
            except BlockingIOError:
                break
            one.turn()
        assert total < len(flood)
        [waiting] = one.connections._open.values()
        assert len(waiting._data) < 2 * MOST_BYTES
        one.answer((number, 200, b"{}"))
        assert [ready.order.key for _, ready in one.asked()] == ["two"]
        client.close()
        for _ in range(20):
            one.answer(*[(number, 200, b"{}") for number, _ in one.asked()])


def test_an_answer_that_the_client_is_slow_to_take_comes_whole() -> None:
    with rig() as one:
        client = one.client()
        client.sendall(PLAIN + b"GET")
        [(number, _)] = one.asked()
        body = bytes(1_000_000)
        one.answer((number, 200, body))
        assert one.handed_over() == []
        read = b""
        while more := rest(client):
            read += more
            one.turn()
        assert read.partition(b"\r\n\r\n")[2] == body
        [(_, data)] = one.handed_over()
        assert data == b"GET"


def test_clients_that_leave_are_forgotten() -> None:
    with rig() as one:
        for left in range(3):
            client = one.client()
            client.sendall((PLAIN[:50], PLAIN, PLAIN)[left])
            one.turn()
            if left == 2:
                one.answer((2, 200, bytes(1_000_000)))  # more than it takes at once
            client.close()
            one.turn()
        one.answer(*[(number, 200, b"{}") for number in range(3)])
        assert [ready.order.key for _, ready in one.asked()] == ["one", "one"]
        one.turn()
        assert one.connections.done


def test_many_connections_are_handed_over_though_the_service_is_slow() -> None:
    with rig() as one:
        data = b"GET / HTTP/1.1\r\n" + b"X-A: 1\r\n" * (2 * PACKET_BYTES // 8)
        clients = [one.client() for _ in range(30)]
        for number, client in enumerate(clients):
            client.setblocking(True)
            client.sendall(b"%02d" % number + data)
            one.turn()
        assert not one.connections.done
        found = one.handed_over()
        assert len(found) == 30
        for number, (connection, read) in enumerate(found):
            while more := rest(connection):
                read += more
            assert read == b"%02d" % number + data
        assert one.connections.done


def test_a_stop_gives_the_answers_that_are_due_and_closes_the_rest() -> None:
    with rig() as one:
        busy, idle, half = one.client(), one.client(), one.client()
        busy.sendall(PLAIN)
        half.sendall(PLAIN[:-1])
        [(number, _)] = one.asked()
        one.connections.stop()
        [(_, data)] = one.handed_over()
        assert data == PLAIN[:-1]
        assert idle.recv(10) == b""
        assert not one.connections.done
        one.answer((number, 200, b"{}"))
        assert b"\r\nconnection: close\r\n" in rest(busy)
        assert busy.recv(10) == b""
        assert one.connections.done


def test_a_connection_that_stays_silent_after_an_answer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_connections, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(gate_connections, "KEEP_ALIVE_SECONDS", 0.02)
    with rig() as one:
        fresh, silent, begun = one.client(), one.client(), one.client()
        for client in (silent, begun):
            client.sendall(PLAIN)
        one.turn()
        one.answer(*[(number, 200, b"{}") for number, _ in one.asked()])
        begun.sendall(PLAIN[:5])
        one.loop.run_until_complete(asyncio.sleep(0.1))
        assert rest(silent).endswith(b"{}")
        assert silent.recv(10) == b""
        assert rest(begun).endswith(b"{}")
        for client in (fresh, begun):
            with pytest.raises(BlockingIOError):
                client.recv(10)


def test_an_answer_is_one_of_http() -> None:
    date = b"Tue, 17 Nov 2026 06:50:09 GMT"
    assert answer_bytes(200, b"{}", date) == (
        b"HTTP/1.1 200 OK\r\ndate: " + date + b"\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}"
    )


def test_frames_are_written_whole_though_there_is_no_room() -> None:
    loop = asyncio.new_event_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        writer = FrameWriter(loop, ours)
        data = frame([(1, 200, bytes(1_000_000))])
        writer.write(data)
        writer.write(b"end")
        assert not writer.empty
        read = b""
        while not read.endswith(b"end"):
            loop.run_until_complete(asyncio.sleep(0))
            read += rest(theirs)
        assert read == data + b"end"
        assert writer.empty
        writer.write(data)
        theirs.close()
        loop.run_until_complete(asyncio.sleep(0))
        assert writer.empty  # nobody is there: whoever reads finds out
    loop.close()


def stand_in(folder: Path, submit: Callable[..., list[Future[Any]]] | None = None) -> Service:
    """As much of a service as its gate needs."""
    return cast("Service", SimpleNamespace(config=service_config(folder), submit=submit))


class Busy(socket.socket):
    """A socket for which no file can be opened at first."""

    refused = 0

    def accept(self) -> Any:
        self.refused += 1
        if self.refused == 1:
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


def test_orders_go_through_the_gate_and_its_link_and_answers_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gate, "ACCEPT_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(socket, "socket", Busy)
    threads, gone, attached = ThreadPoolExecutor(2), [], []

    def submit(*orders: Prepared) -> list[Future[Any]]:
        """Decisions, refusals or mistakes, from another thread."""
        known = {"good": lambda: "decided", "bad": checked, "ugly": lambda: 1 // 0}
        return [threads.submit(known[one.order.key]) for one in orders]

    def checked() -> None:
        raise InputError("key must be good, was bad")

    def process() -> tuple[GateProcess, tuple[socket.socket, socket.socket]]:
        pairs = socket.socketpair(), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for ours, _ in pairs:
            ours.setblocking(False)
        made = SimpleNamespace(orders=pairs[0][0], others=pairs[1][0])
        return cast("GateProcess", made), (pairs[0][1], pairs[1][1])

    async def talk() -> list[bytes]:
        loop = asyncio.get_running_loop()
        ours, theirs = process()
        [listener] = listening("127.0.0.1", 0)
        address = listener.getsockname()
        link = GateLink(
            ours,
            stand_in(tmp_path, submit),
            [listener],
            attach=lambda connection, data: attached.append((connection, data)),
            on_gone=lambda: gone.append(True),
        )
        made = await loop.run_in_executor(None, gate.begin, *theirs)
        assert made is not None
        serving = loop.create_task(made.serve())
        reader, writer = await asyncio.open_connection(*address)
        answers = []
        for key in ("good", "bad", "ugly"):
            writer.write(request(order_body(key)))
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
            answers.append(head[9:12] + b" " + body)
        writer.write(b"GET")
        while not attached:
            await asyncio.sleep(0.001)
        link.stop()
        await serving
        for one in theirs:
            one.close()
        while not gone:
            await asyncio.sleep(0.001)
        for one in (ours.orders, ours.others, listener, attached[0][0]):
            one.close()
        writer.close()
        return answers

    assert asyncio.run(talk()) == [
        b'200 "decided"',
        b'422 {"error":"key must be good, was bad"}',
        b'500 {"error":"something went wrong here; the log of the service says more"}',
    ]
    assert attached[0][1] == b"GET"
    assert gone == [True]
    assert "POST /orders failed" in caplog.text
    threads.shutdown()


def test_a_gate_that_is_told_nothing_ends() -> None:
    for said in (b"", frame(CONFIG)):
        orders, others = socket.socketpair(), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        orders[0].sendall(said)
        orders[0].close()
        others[0].close()
        assert gate.begin(orders[1], others[1]) is None
        orders[1].close()
        others[1].close()


def test_a_gate_loads_nothing_from_the_folder_it_is_started_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "asyncio.py").write_text("open('loaded', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    process = GateProcess()
    process.close()  # it ends when it is told nothing
    assert process._process.returncode == 0
    assert not (tmp_path / "loaded").exists()


def test_a_gate_that_ends_again_and_again_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[GateProcess] = []

    def start() -> GateProcess:
        started.append(GateProcess())
        started[-1]._process.kill()
        return started[-1]

    monkeypatch.setattr(gate_link, "start_gate", start)

    async def kept() -> GateKeeper:
        keeper = GateKeeper(stand_in(tmp_path), listening("127.0.0.1", 0), start())
        keeper.open(lambda connection, data: connection.close())
        until = time.monotonic() + 20
        while not keeper.failed and time.monotonic() < until:
            await asyncio.sleep(0.01)
        await keeper.stop(1, lambda: False)
        keeper.close()
        return keeper

    keeper = asyncio.run(kept())
    assert keeper.failed == f"the gate ended {MOST_STARTS} times within a minute; set gate = false to run without it"
    assert len(started) == MOST_STARTS
    assert all(one._process.returncode == -signal.SIGKILL for one in started)
    assert caplog.text.count("ended unexpectedly") == MOST_STARTS


def test_a_gate_that_cannot_be_started_again_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_link, "start_gate", lambda: None)

    async def kept() -> str:
        process = GateProcess()
        keeper = GateKeeper(stand_in(tmp_path), listening("127.0.0.1", 0), process)
        keeper.open(lambda connection, data: connection.close())
        process._process.kill()
        while not keeper.failed:
            await asyncio.sleep(0.01)
        keeper.close()
        return keeper.failed

    assert asyncio.run(kept()) == "the gate cannot be restarted; set gate = false to run without it"


def test_a_gate_that_was_started_early_ends_with_whatever_comes(tmp_path: Path) -> None:
    config = service_config(tmp_path)
    gates: list[GateProcess] = []

    def fail() -> None:
        with early_gate(config) as early:
            assert early is not None
            assert early._process.poll() is None
            gates.append(early)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gates[0]._process.returncode == 0
    with early_gate(config.model_copy(update={"gate": False})) as none:
        assert none is None


def test_no_address_is_taken_half() -> None:
    [one] = listening("127.0.0.1", 0)
    with one, pytest.raises(OSError, match="in use"):
        listening(*one.getsockname())
