"""Write snapshots of an engine in the background; trading neither waits for them nor stops if they fail."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import msgspec

from riskroute.core.text import one_line_text
from riskroute.live.learner import Learner
from riskroute.live.ledger import LOGGER
from riskroute.live.log.interface import Log
from riskroute.live.log.state_store import StateSnapshot, StateStore
from riskroute.live.state.amounts import NANO
from riskroute.live.state.archive import ArchivedOrder, OrderArchive
from riskroute.live.state.trading_state import TradingState, encode_trading_state


class SnapshotWriter:
    """Take a snapshot every ``every`` events (0: never), and save it together with the orders archived before it.

    The state is encoded between two events, which takes a few milliseconds. Once the log is durable up to the earlier
    event, a call that saves the snapshot is passed to ``submit``, which may run it later or in another thread.
    """

    pause = 20  # least time between two snapshots, in multiples of the time to save the earlier one
    pause_after_failure = 10 * NANO
    most_unsaved = 1 << 24  # bytes of archived orders in memory that make a snapshot due at once
    longest_wait = 5.0  # seconds for a snapshot when the engine stops; it usually takes less than one
    expired_together = 200  # orders removed from the store in one transaction

    def __init__(
        self,
        store: StateStore,
        every: int,
        submit: Callable[[Callable[[], None]], object],
        monotonic: Callable[[], int],
    ) -> None:
        self.store, self.every = store, every
        self._submit, self._monotonic = submit, monotonic
        self.saved = self.failed = 0  # numbers of snapshots
        self.bytes = 0  # size of the last snapshot and the orders saved with it
        self.encoding_seconds = self.seconds = 0.0  # last snapshot: seconds with the engine's lock held, and to save it
        self.due = math.inf  # number of events at which the next snapshot is due
        self._term = self._not_before = self._retry_at = 0
        self._busy = self._closed = False
        self._saving = threading.Lock()

    def begin(self, events: int, term: int) -> None:
        """Start after a recovery with ``events`` events, writing under ``term``; drop snapshots not yet saved."""
        self.due, self._term, self._busy = events + self.every if self.every else math.inf, term, False

    def take(
        self,
        log: Log,
        state: TradingState,
        archive: OrderArchive,
        learner: Learner,
        written: Future[list[int]] | None,
        lock: threading.RLock,
    ) -> None:
        """Take a snapshot, unless the previous one is too recent; save it once ``written`` is durable.

        ``written`` is the future of the last event in the state. Call this with ``lock`` held, when a snapshot is
        `due` or `most_unsaved` is exceeded.
        """
        now = self._monotonic()
        if written is None or not self.every or self._busy or self._closed or now < self._retry_at:
            return
        if now < self._not_before and archive.unsaved_bytes <= self.most_unsaved:
            return
        self._busy, self.due, term = True, state.events + self.every, self._term
        encoded, learned = encode_trading_state(state), learner.captured()
        archived, day, orders = state.archived, state.day.day, list(archive.unsaved.values())
        self.encoding_seconds = (self._monotonic() - now) / NANO

        def save() -> None:
            with self._saving:
                if self._closed or term != self._term or written.exception() is not None:
                    return
                seq = max(written.result())
                try:
                    body = msgspec.msgpack.encode((encoded, learned()))
                    (row,) = log.read(seq - 1, 1)
                    self._save(term, StateSnapshot(seq, row.chain, archived, day, body), orders)
                except Exception as error:  # trading continues; the orders stay in memory until the next snapshot
                    self.failed += 1
                    self._retry_at = self._monotonic() + self.pause_after_failure
                    LOGGER.warning("a snapshot could not be saved: %s", one_line_text(error))
                else:
                    with lock:
                        archive.forget(orders)
                finally:
                    self._busy = False

        written.add_done_callback(lambda _: self._submit(save))

    def _save(self, term: int, snapshot: StateSnapshot, orders: Sequence[ArchivedOrder]) -> None:
        began = self._monotonic()
        self.store.save(term, snapshot, orders)
        left = 2 * len(orders) + self.expired_together  # expire orders faster than they arrive
        while left > 0 and self.store.expire(term, self.expired_together):
            left -= self.expired_together
        took = self._monotonic() - began
        self.bytes = len(snapshot.body) + sum(len(one.body) for one in orders)
        self.seconds, self._not_before = took / NANO, self._monotonic() + self.pause * took
        self.saved += 1  # last: whoever reads it without a lock finds size and time of this snapshot

    def close(self) -> None:
        """Take no more snapshots; wait up to `longest_wait` for one that is being saved, then close the store."""
        self._closed = True
        if not self._saving.acquire(timeout=self.longest_wait):
            LOGGER.warning("a snapshot that is being saved is abandoned: the next start recovers from an earlier one")
            return
        try:
            self.store.close()
        finally:
            self._saving.release()
