"""The service's side of its gate: orders that come from it, answers that go to it, and connections it hands over."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec

from riskroute.live.answers import Awaited
from riskroute.live.gate_frames import (
    LISTEN,
    PACKET_BYTES,
    READ_BYTES,
    STOP,
    Answer,
    Frames,
    FrameWriter,
    Order,
    TakeOver,
    frame,
    read_orders,
)
from riskroute.live.gate_process import GateProcess, gate_config, start_gate
from riskroute.live.http import explained, refusal_body
from riskroute.live.service import LOGGER, Service
from riskroute.live.state.events import Decision

PACKETS_AT_ONCE = 100
"""Packets that are read at a time, at most."""

MOST_STARTS = 5
"""Gates that are started in a minute, at most."""

STOP_LOOK_SECONDS = 0.01
"""Seconds between two checks of whether a gate has stopped."""

Attach = Callable[[socket.socket, bytes], None]
"""Serves a connection that was handed over, and of which some bytes were read already."""


class GateLink:
    """What goes to one gate, and comes from it.

    Parameters
    ----------
    process : GateProcess
        The gate; it is not closed here.
    service : Service
        Who decides on orders.
    listeners : list of socket
        Where the gate is to listen.
    attach : Attach
        Serves connections that are not for the gate.
    on_gone : Callable[[], None]
        Called once when the gate has ended and everything that it sent was taken.
    """

    def __init__(
        self,
        process: GateProcess,
        service: Service,
        listeners: list[socket.socket],
        attach: Attach,
        on_gone: Callable[[], None],
    ) -> None:
        self.process, self._service, self._attach, self._on_gone = process, service, attach, on_gone
        self._loop = asyncio.get_running_loop()
        self._frames, self._taking = Frames(), TakeOver()
        self._writer = FrameWriter(self._loop, process.orders)
        self._answers: deque[tuple[int, Awaited[Decision]]] = deque()
        self._woken = False
        self._waiting: set[int] = set()  # connections with an order under way
        self._open = {process.orders, process.others}
        self._writer.write(frame(gate_config(service.config)))
        with suppress(OSError):  # it has ended already, which is seen below
            socket.send_fds(process.others, [LISTEN], [one.fileno() for one in listeners])
        self._loop.add_reader(process.orders, self._read_orders)
        self._loop.add_reader(process.others, self._read_others)

    def _read_orders(self) -> None:
        try:
            data = self.process.orders.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._ended(self.process.orders)
        try:
            for body in self._frames.cut(data):
                self._ask(read_orders(body))
        except Exception:  # a gate that cannot be understood must go, so that nobody waits for an answer of its
            LOGGER.exception("what the gate sent cannot be read")
            with suppress(OSError):
                self.process.orders.shutdown(socket.SHUT_RDWR)

    def _ask(self, orders: list[Order]) -> None:
        self._waiting.update(number for number, _ in orders)
        answers = self._service.submit(*[order for _, order in orders])
        for (number, _), answer in zip(orders, answers, strict=True):
            answer.add_done_callback(partial(self._came, number))

    def _came(self, number: int, answer: Awaited[Decision]) -> None:
        """Note an answer, in whichever thread that is; all that came are sent together in the next turn of the loop.

        An answer beside which nobody waits for another one is sent at once: that turn may come late.
        """
        self._waiting.discard(number)
        if not self._waiting and not self._woken:
            self._writer.write(frame([(number, *_answer(answer))]))
            return
        self._answers.append((number, answer))
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        self._woken = False
        answers: list[Answer] = []
        while self._answers:
            number, answer = self._answers.popleft()
            answers.append((number, *_answer(answer)))
        if answers:
            self._writer.write(frame(answers))

    def _read_others(self) -> None:
        for _ in range(PACKETS_AT_ONCE):
            try:
                data, files, _, _ = socket.recv_fds(self.process.others, PACKET_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data = b""
            if not data:
                self._ended(self.process.others)
                return
            taken = self._taking.take(data, files)
            if taken is not None:
                self._attach(*taken)

    def _ended(self, one: socket.socket) -> None:
        self._loop.remove_reader(one)
        self._open.discard(one)
        if not self._open:
            self.close()
            self._on_gone()

    def stop(self) -> None:
        """Tell the gate to stop: it gives the answers that are due, and ends."""
        with suppress(OSError):
            self.process.others.send(STOP)

    def close(self) -> None:
        """Take nothing more from the gate, and send nothing more to it."""
        self._writer.close()
        if not self._loop.is_closed():
            for one in self._open:
                self._loop.remove_reader(one)
        self._open = set()
        self._taking.close()


def _answer(given: Awaited[Decision]) -> tuple[int, bytes]:
    """Status and body for an order."""
    error = given.exception()
    if error is None:
        return 200, msgspec.json.encode(given.result())
    status, sentence = explained(error, "POST", "/orders")
    return status, refusal_body(sentence)


class GateKeeper:
    """Keeps a gate before the service, and starts another one if it dies.

    Parameters
    ----------
    service : Service
        Who decides on orders.
    listeners : list of socket
        Where clients come; they are closed when the service stops.
    process : GateProcess
        The first gate, which waits for its configuration; who started it closes it.
    """

    def __init__(self, service: Service, listeners: list[socket.socket], process: GateProcess) -> None:
        self._service, self._listeners, self._first = service, listeners, process
        self._link: GateLink | None = None
        self._starts: deque[float] = deque(maxlen=MOST_STARTS)
        self._stopping = False
        self.failed = ""

    def open(self, attach: Attach) -> None:
        """Let the gate begin; ``attach`` serves what it hands over."""
        self._attach = attach
        self._begin(self._first)

    def _begin(self, process: GateProcess) -> None:
        self._starts.append(time.monotonic())
        self._link = GateLink(process, self._service, self._listeners, attach=self._attach, on_gone=self._gone)

    def _gone(self) -> None:
        """Start another gate, unless this one was told to stop, or they end again and again."""
        assert self._link is not None
        process, self._link = self._link.process, None
        process.close()
        if self._stopping:
            return
        LOGGER.error("the gate (process %d) ended unexpectedly", process.pid)
        if len(self._starts) == MOST_STARTS and time.monotonic() - self._starts[0] < 60:
            self.failed = f"the gate ended {MOST_STARTS} times within a minute; set gate = false to run without it"
        elif (another := start_gate()) is None:
            self.failed = "the gate cannot be restarted; set gate = false to run without it"
        else:
            self._begin(another)

    async def stop(self, seconds: float, hurried: Callable[[], bool]) -> None:
        """Take no more orders, and give the answers that are due: for so long, or until ``hurried`` says it is over."""
        self._stopping = True
        for one in self._listeners:
            one.close()
        if self._link is not None:
            self._link.stop()
        until = time.monotonic() + seconds
        while self._link is not None and time.monotonic() < until and not hurried():
            await asyncio.sleep(STOP_LOOK_SECONDS)

    def close(self) -> None:
        """Leave nothing behind."""
        self._stopping = True
        for one in self._listeners:
            one.close()
        if self._link is not None:
            self._link.close()
            self._link.process.close()
            self._link = None
