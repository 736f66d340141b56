"""The thread of an engine: orders, reports and what is durable have their turns in it, and the clock between them.

One thread does nearly all there is to do, so that threads seldom wait for each other. What came in since its last turn
it takes together.
"""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from riskroute.live.engine_ledger import LOGGER
from riskroute.live.engine_life import EngineLife
from riskroute.live.state.events import NANO, ExecutionReport

REVIVE_SECONDS = 0.5
"""A log that could not be written is tried again so often."""

TURN = NANO // 200
"""Calls that wait are made for so many nanoseconds, before reports are booked and children sent."""

TICK = NANO // 200
"""While there is something to do, the clock is looked at after so many nanoseconds."""


class EngineThread(EngineLife, ABC):
    """An engine that may be served by a thread of its own."""

    @abstractmethod
    def tick(self, *, quiet: bool = True) -> None:
        """Do what is due by the clock; ``quiet`` says that there is nothing else to do."""

    @abstractmethod
    def book(self, reports: list[ExecutionReport]) -> None:
        """Book what venues say."""

    def call_soon(self, call: Callable[[], None]) -> None:
        """Let the thread that serves make a call, after those that it was given before; it must not raise."""
        self._inbox.put(call)

    def report(self, *reports: ExecutionReport) -> None:
        """Book what a venue says: at once, or in the next turn of the thread that serves."""
        if self._thread is None:
            self.book(list(reports))
        else:
            self._inbox.put(reports)

    def serve(self, every: float = 0.02) -> None:
        """Do everything in a thread of its own, until `close`."""

        def run() -> None:
            tried = ticked = self.monotonic()
            while not self._closed:
                try:
                    busy = self._take(every)
                    self.pump()
                    if busy and self.monotonic() < ticked + TICK:
                        continue
                    self._renew()
                    self.tick(quiet=not busy)
                    ticked = self.monotonic()
                    if self.failed and ticked >= tried + REVIVE_SECONDS * NANO:
                        self.revive()
                        tried = self.monotonic()
                except Exception as error:  # nothing may go on if this thread does not
                    LOGGER.exception("the engine broke")
                    self.failed = self.failed or f"the engine broke: {type(error).__name__}"

        self._thread = threading.Thread(target=run, name="riskroute engine", daemon=True)
        self._thread.start()

    def _take(self, seconds: float) -> bool:
        """Wait for something to do; make the calls that came, and book all reports that came at once.

        Returns whether anything came.
        """
        try:
            one = self._inbox.get(timeout=seconds)
        except queue.Empty:
            return False
        reports: list[ExecutionReport] = []
        until = self.monotonic() + TURN
        while True:
            if callable(one):
                one()
            else:
                reports += one
            if self.monotonic() >= until or not self._urgent.empty():
                break
            try:
                one = self._inbox.get_nowait()
            except queue.Empty:
                break
        self._append_gathered()
        if reports:
            self.book(reports)
        return True

    def close(self) -> None:
        """Stop; open children stay where they are, and are asked for at the next start."""
        self._closed = True
        self._wake()
        if self._thread is not None:
            self._thread.join()
        for gateway in self.gateways.values():
            gateway.close()
        self.desk.close()
        self.log.close()
