"""Recover or replay the state from the log, and verify the log by recomputing every decision."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from riskroute.core.errors import DataError, RouterError
from riskroute.core.text import one_line_text
from riskroute.live.learner import Learner
from riskroute.live.ledger import LOGGER
from riskroute.live.log.interface import Log, log_events_after, log_pages_after, log_rows_events
from riskroute.live.log.state_store import StateSnapshot, StateStore
from riskroute.live.state.archive import OrderArchive
from riskroute.live.state.effects import LearnEffect
from riskroute.live.state.events import AcceptedEvent, AnyEvent, PlannedEvent, ShadowedEvent
from riskroute.live.state.fold import apply
from riskroute.live.state.trading_state import TradingState, decode_trading_state
from riskroute.routers.registry import restore_router
from riskroute.routers.router import Router


def recover_log(
    log: Log, learner: Learner, store: StateStore | None = None, most_bytes: int = 1 << 24
) -> tuple[TradingState, OrderArchive, int]:
    """Return the state at the end of the log, its archive, and the term under which to write to ``store``.

    Recovery starts from the newest snapshot whose row is in the log, and also restores the learner. Archived orders are
    moved from memory to the store whenever they exceed ``most_bytes``.
    """
    with _no_collection():
        first = learner.state()
        for start in () if store is None else store.snapshots():
            if store is not None and _fits(log, start):
                try:
                    return _recover_from(start, log, learner, store, most_bytes)
                except DataError as error:
                    LOGGER.warning("the snapshot after row %d is not used: %s", start.seq, one_line_text(error))
        learner.restore(first)
        return _recover_from(None, log, learner, store, most_bytes)


def _fits(log: Log, snapshot: StateSnapshot) -> bool:
    if snapshot.seq > log.head().seq:
        return False
    (row,) = log.read(snapshot.seq - 1, 1)
    return row.chain == snapshot.chain


def _recover_from(
    start: StateSnapshot | None, log: Log, learner: Learner, store: StateStore | None, most_bytes: int
) -> tuple[TradingState, OrderArchive, int]:
    state, seq = TradingState(), 0
    if start is not None:
        try:
            body, learned = msgspec.msgpack.decode(start.body, type=tuple[bytes, bytes])
            state, seq = decode_trading_state(body), start.seq
            learner.restore(learned)
        except msgspec.MsgspecError as error:
            raise DataError(f"a snapshot cannot be decoded: {one_line_text(error)}") from None
    term = 0 if store is None else store.begin(start)
    archive = OrderArchive(log.header.stream) if store is None else OrderArchive(log.header.stream, store.find)
    with learner.reading():
        for page in log_pages_after(log, seq):
            for events in log_rows_events(page):
                for event in events:
                    _step(state, learner, event, archive, decided=False)
            if store is not None and archive.unsaved_bytes > most_bytes:
                orders = list(archive.unsaved.values())
                store.save(term, None, orders)
                archive.forget(orders)
    return state, archive, term


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause garbage collection: events have no cycles, and scanning a million of them takes seconds."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _step(state: TradingState, learner: Learner, event: AnyEvent, archive: OrderArchive, *, decided: bool) -> None:
    _, effects = apply(state, event, archive)
    learner.on_event(state.events, event, live=decided)
    for effect in effects:
        if type(effect) is LearnEffect:
            learner.settle(state.events, effect.outcome)


def replay_log(log: Log, until: int | None = None) -> TradingState:
    """Return the state at the end of the log, or after row ``until``; decisions are read, not recomputed."""
    state, archive = TradingState(), OrderArchive(log.header.stream)
    for _, event in log_events_after(log, until=until):
        apply(state, event, archive)
    return state


@dataclass(frozen=True)
class _Verification:
    """Number of recomputed decisions, and the keys of the orders whose recomputed decision differs."""

    decisions: int
    different: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether no recomputed decision differs."""
        return not self.different


def verify_log(log: Log, kind: type[Router] | None = None, *, refits: bool = False) -> _Verification:
    """Recompute every decision in the log, and compare it with the logged one.

    Decisions agree exactly on the machine type and with the package versions in the header. ``kind`` is the class of a
    router that is not built in; ``refits`` is whether the engine refitted the router in a worker process.
    """
    learner: Learner | None = None
    state, archive, count, different = TradingState(), OrderArchive(log.header.stream), 0, []
    for _, event in log_events_after(log):
        if learner is None:
            if not isinstance(event, PlannedEvent):
                raise DataError(f"a log must begin with a belief, began with {type(event).__name__}")
            learner = Learner(_first(event, kind), int(refits))
        decided = isinstance(event, AcceptedEvent | ShadowedEvent) and event.decision.consulted
        if isinstance(event, AcceptedEvent | ShadowedEvent) and decided:
            count += 1
            if not _same(learner, event):
                different.append(event.order.key)
        _step(state, learner, event, archive, decided=decided)
    return _Verification(count, tuple(different))


def _same(learner: Learner, event: AcceptedEvent | ShadowedEvent) -> bool:
    """Return whether the router decides, or fails, as in the log; limits are not checked."""
    decision, live = event.decision, isinstance(event, AcceptedEvent)
    try:
        plan = (learner.decide if live else learner.shadow_plan)(event.order, decision.at)
    except RouterError as error:
        return str(error) == decision.safe
    return (live and bool(decision.safe)) or plan.to_json() == decision.plan


def _first(event: PlannedEvent, kind: type[Router] | None) -> Router:
    state = msgspec.json.decode(event.state)
    return kind.restore(state) if kind is not None else restore_router(state)
