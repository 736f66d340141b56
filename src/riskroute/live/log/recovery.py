"""Recovery, replay and verification: from the log to the state, and every decision computed again."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from riskroute.core.errors import DataError
from riskroute.live.learner import Learner, RouterError
from riskroute.live.log.interface import Log, Snapshot, events_after, pages_after, rows_events
from riskroute.live.state.events import Accepted, AnyEvent, Planned, Shadowed
from riskroute.live.state.fold import apply
from riskroute.live.state.trading_state import (
    Learn,
    TradingState,
    decode_state,
    encode_parts,
)
from riskroute.routers.registry import restore_router
from riskroute.routers.router import Router


def recover(log: Log, learner: Learner) -> TradingState:
    """Return the state at the end of the log, from its newest snapshot on; bring the learner there too."""
    with _no_collection():
        state, seq = TradingState(), 0
        saved = log.snapshot()
        if saved is not None:
            body, learned, *packed = msgspec.msgpack.decode(saved.body, type=list[bytes])
            state, seq = decode_state(body, packed), saved.seq
            learner.restore(learned)
        with learner.reading():
            for page in pages_after(log, seq):
                for events in rows_events(page):
                    for event in events:
                        _step(state, learner, event, decided=False)
    return state


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


def _step(state: TradingState, learner: Learner, event: AnyEvent, *, decided: bool) -> None:
    _, effects = apply(state, event)
    learner.on_event(state.events, event, live=decided)
    for effect in effects:
        if type(effect) is Learn:
            learner.settle(state.events, effect.outcome)


def snapshot_saver(log: Log, state: TradingState, learner: Learner, written: Future[list[int]]) -> Callable[[], None]:
    """Capture the state now; the returned function saves it, once its last event (``written``) is durable.

    Packed orders, most of the state, never change and are encoded by that function, off the commit path.
    """
    body, packed = encode_parts(state)
    learned = learner.state()

    def save() -> None:
        if written.exception() is None:
            seq = max(written.result())
            row = next(iter(log.read(seq - 1, 1)))
            log.snapshot(Snapshot(seq, row.chain, msgspec.msgpack.encode((body, learned, *packed()))))

    return save


def replay(log: Log) -> TradingState:
    """Apply the whole log, with decisions as logged: the same state on any machine."""
    state = TradingState()
    for _, event in events_after(log):
        apply(state, event)
    return state


@dataclass(frozen=True)
class Verification:
    """The number of decisions computed again, and the keys of orders whose decision differed."""

    decisions: int
    different: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether all decisions were the same."""
        return not self.different


def verify(log: Log, kind: type[Router] | None = None, *, refits: bool = False) -> Verification:
    """Compute every decision of the log again and compare; on the machine type and versions of its header.

    Parameters
    ----------
    log : Log
        The log.
    kind : type[Router], optional
        Class of a router that is not built in.
    refits : bool
        Whether the engine learned in a worker (``refit_every`` above 0).
    """
    learner: Learner | None = None
    state, count, different = TradingState(), 0, []
    for _, event in events_after(log):
        if learner is None:
            if not isinstance(event, Planned):
                raise DataError(f"a log must begin with a belief, began with {type(event).__name__}")
            learner = Learner(_first(event, kind), int(refits))
        decided = isinstance(event, Accepted) and event.decision.consulted
        if isinstance(event, Shadowed):
            decided = True
            count += event.decision.consulted
            if event.decision.consulted and not _same_own(learner, event):
                different.append(event.order.key)
        if isinstance(event, Accepted) and decided:
            count += 1
            if not _same(learner, event):
                different.append(event.order.key)
        _step(state, learner, event, decided=decided)
    return Verification(count, tuple(different))


def _same(learner: Learner, event: Accepted) -> bool:
    """Return whether the router decides, or fails, as logged; limits are not checked again."""
    decision = event.decision
    try:
        plan = learner.decide(event.order, decision.at)
    except RouterError as error:
        return str(error) == decision.safe
    return bool(decision.safe) or plan.to_json() == decision.plan


def _same_own(learner: Learner, event: Shadowed) -> bool:
    """Return whether the router decides as logged for another router's order."""
    try:
        return learner.shadow_plan(event.order, event.decision.at).to_json() == event.decision.plan
    except RouterError as error:
        return str(error) == event.decision.safe


def _first(event: Planned, kind: type[Router] | None) -> Router:
    state = msgspec.json.decode(event.state)
    return kind.restore(state) if kind is not None else restore_router(state)
