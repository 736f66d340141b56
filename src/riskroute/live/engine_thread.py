"""The thread of an engine: it does what is durable, looks at the clock, and brings a log that failed back to life."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from riskroute.live.engine_core import LOGGER
from riskroute.live.engine_life import EngineLife
from riskroute.live.orders import NANO

REVIVE_SECONDS = 0.5
"""A log that could not be written is tried again so often."""


class EngineThread(EngineLife, ABC):
    """An engine that may be served by a thread of its own."""

    @abstractmethod
    def tick(self) -> None:
        """Do what is due by the clock."""

    def serve(self, every: float = 0.02) -> None:
        """Pump and tick in a thread of its own, until `close`."""

        def run() -> None:
            tried = self.monotonic()
            while not self._closed:
                self._wake.wait(every)
                self._wake.clear()
                try:
                    self._renew()
                    self.pump()
                    self.tick()
                    if self.failed and self.monotonic() >= tried + REVIVE_SECONDS * NANO:
                        self.revive()
                        tried = self.monotonic()
                except Exception as error:  # nothing may go on if this thread does not
                    LOGGER.exception("the engine broke")
                    self.failed = self.failed or f"the engine broke: {type(error).__name__}"

        self._thread = threading.Thread(target=run, name="riskroute engine", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; open children stay where they are, and are asked for at the next start."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        for gateway in self.gateways.values():
            gateway.close()
        self.desk.close()
        self.log.close()
