"""The router behind the engine: it decides from a belief that stands still, and learns from orders that are settled.

With ``refit_every`` 0 it learns at once. Otherwise settled orders wait until there are that many; a worker then learns
from them, starting from the last belief, and its result comes back as the event `Planned`, from which on it is used.
Either way what the router is follows from the log alone: `Learner` sees every event, live and in recovery.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

import cloudpickle
import msgspec

from riskroute.core.errors import DataError, RiskrouteError, StateError, one_line_error
from riskroute.core.validation import unchecked, whole_number
from riskroute.live.children import context_of, report_of
from riskroute.live.market_history import public_of
from riskroute.live.state.events import (
    Accepted,
    AnyEvent,
    Declined,
    MarketObserved,
    Outcome,
    ParentOrder,
    Planned,
    Shadowed,
)
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router, parameter_names

Followed = tuple[int, ParentOrder, dict[str, Any], int, bool]
"""A decision: number of the event, the order, the plan, when it was made, and whether the router's plan was dropped."""


Waiting = list[tuple[int, Outcome]]
"""Settled orders that are not learned yet, each with the number of the event that settled it."""

Shown = list[tuple[int, MarketObserved]]
"""Public data that is not learned yet, each with the number of its event."""

SLOW = "the router took longer than"
"""How the reason begins for which a router that is too slow is not asked any more."""


FEW = 5
"""So many decisions at most are told to a router while everybody waits for it."""

NOTED = frozenset((Planned, Accepted, Shadowed, Declined, MarketObserved))
"""Kinds of events that a learner takes note of."""

OWN = " (ours)"
"""What is added to the key of an order that another router executes, when our router is asked about it."""


class RouterError(StateError):
    """A router did not come up with a plan that can be played; it says why."""


class _Saved(msgspec.Struct):
    belief: int
    planned: bytes
    router: bytes
    followed: list[Followed]
    waiting: list[tuple[int, Outcome]]
    out: str
    shown: list[tuple[int, MarketObserved]] = []


def _is_forgetful(kind: type[Router]) -> bool:
    """Whether routers of a kind remember nothing of an order but that there was one."""
    ours = all(
        getattr(kind, name) is getattr(Router, name)
        for name in ("record_plan", "on_fills", "on_public_data", "state", "prepare", "learn")
    )
    return ours and not kind.memory


def router_bytes(router: Router) -> bytes:
    """The state of a router as bytes."""
    return json.dumps(router.state(), separators=(",", ":")).encode()


def router_from(kind: type[Router], body: bytes) -> Router:
    """Undo `router_bytes`."""
    return kind.restore(json.loads(body))


def refitted(kind: type[Router], body: bytes, followed: list[Followed], waiting: Waiting, shown: Shown) -> bytes:
    """Learn from settled orders and public data: the work of a worker, which may be another process."""
    router = router_from(kind, body)
    for _, order, plan, at, dropped in followed:
        follow_quietly(router, order, plan, at, dropped=dropped)
    told: list[tuple[int, Outcome | MarketObserved]] = [*waiting, *shown]
    for _, one in sorted(told, key=lambda pair: pair[0]):
        if isinstance(one, MarketObserved):
            see_quietly(router, one)
        else:
            learn_quietly(router, one)
    router.prepare()
    return router_bytes(router)


def follow_quietly(router: Router, order: ParentOrder, plan: dict[str, Any], at: int, *, dropped: bool) -> None:
    """Tell a router of a decision; a router that fails must fail as quietly as it did when it was asked."""
    try:
        if dropped:
            router.route(context_of(order, at))
            router.abandon(order.key)
        else:
            router.follow(context_of(order, at), Plan.from_json(plan))
    except Exception:  # routers are others' code: whatever they raise, trading goes on
        return


def learn_quietly(router: Router, outcome: Outcome, *, prepare: bool = False) -> str:
    """Let a router learn from an order; return what it raised. Orders that it does not know are no mistake."""
    if outcome.parent not in router._under_way:
        return ""
    try:
        router.learn(report_of(outcome))
        if prepare:
            router.prepare()
    except Exception as error:  # as above
        return one_line_error(error) or type(error).__name__
    return ""


def see_quietly(router: Router, event: MarketObserved) -> str:
    """Let a router learn from public data; return what it raised."""
    try:
        router.on_public_data(public_of(event))
    except Exception as error:  # as above
        return one_line_error(error) or type(error).__name__
    return ""


class Learner:
    """A router, and what it has not learned yet.

    Parameters
    ----------
    router : Router
        The router, as it is before the first event.
    refit_every : int
        Settled orders from which a worker learns together; 0 learns from each at once.
    """

    def __init__(self, router: Router, refit_every: int = 0) -> None:
        self.router, self.kind = router, type(router)
        self._forgetful = _is_forgetful(self.kind)
        self.refit_every = whole_number("refit_every", refit_every, minimum=0)
        self.belief = -1
        self.out = ""
        """Why the router is not asked any more; empty if it is."""
        self.planned = b""
        self.followed: list[Followed] = []
        self.waiting: list[tuple[int, Outcome]] = []
        self.shown: Shown = []
        self._reading = False
        self._ready: tuple[bytes, Router, int] | None = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While a log is read: only the last belief in it, and what came after, is shown to the router, at the end.

        Without ``refit_every`` there is no later belief, and the router sees everything as it comes.
        """
        self._reading = self.refit_every > 0
        yield
        if self._reading:
            self._reading = False
            if self.planned:
                self._restore()

    def decide(self, order: ParentOrder, now: int) -> Plan:
        """Return the plan for an order; `RouterError` if the router fails, or if its plan cannot be played."""
        context = context_of(order, now)
        try:
            plan = self.router.route(context)
        except Exception as error:  # routers are others' code: whatever they raise, trading goes on
            raise RouterError(f"{self.router.name} failed: {one_line_error(error) or type(error).__name__}") from error
        if not isinstance(plan, Plan):
            raise RouterError(f"{self.router.name} returned no plan")
        try:
            return plain_plan(plan.checked(context))
        except Exception as error:  # a plan of nonsense may break in any way
            said = one_line_error(error) or type(error).__name__
            raise RouterError(f"{self.router.name} returned a plan that cannot be played: {said}") from error

    def greedy(self, order: ParentOrder) -> Plan | None:
        """Return the plan that seems best now, None if the router does not explore or fails."""
        try:
            context = context_of(order, order.received)
            best = self.router.greedy(context)
            return None if best is None else best.checked(context)
        except Exception:  # as above
            return None

    def own(self, order: ParentOrder, now: int) -> Plan:
        """Return our plan for an order that another router executes: it is asked for, and given up at once."""
        ours = msgspec.structs.replace(order, key=f"{order.key}{OWN}")
        plan = self.decide(ours, now)
        self.router.abandon(ours.key)
        return plan

    def saw(self, number: int, event: AnyEvent, *, live: bool) -> None:
        """Take note of an event; ``live`` means that `decide` was called for it already."""
        if type(event) not in NOTED:
            return
        if isinstance(event, Planned):
            self._adopt(event)
        elif isinstance(event, Accepted):
            if event.decision.consulted:
                dropped = event.decision.safe != ""
                self._follow((number, event.order, event.decision.plan, event.decision.at, dropped), live)
            if event.decision.safe.startswith(SLOW):
                self.out = event.decision.safe
        elif isinstance(event, Shadowed):
            if not live and event.decision.consulted:
                with suppress(RouterError):
                    self.own(event.order, event.decision.at)
            self._follow((number, event.order, event.theirs, event.decision.at, False), False)
        elif isinstance(event, Declined):
            self._follow((number, event.order, event.plan, event.at, True), live)
        elif isinstance(event, MarketObserved):
            self._see(number, event)

    def _follow(self, decision: Followed, live: bool) -> None:
        _, order, plan, at, dropped = decision
        if self._reading:
            pass
        elif not live and self._forgetful and not dropped:
            self.router._under_way.setdefault(order.key, [])
        elif not live:
            follow_quietly(self.router, order, plan, at, dropped=dropped)
        elif dropped and order.key in self.router._under_way:
            self.router.abandon(order.key)
        if self.refit_every:
            self.followed.append(decision)

    def settle(self, number: int, outcome: Outcome) -> None:
        """Learn from an order that was settled by an event, or keep it for the worker."""
        if self.refit_every:
            self.waiting.append((number, outcome))
        elif self._forgetful:
            self.router.mark_done(outcome.parent)
        elif not self.out and (failed := learn_quietly(self.router, outcome, prepare=True)):
            self.out = f"{self.router.name} failed to learn: {failed}"

    def _see(self, number: int, event: MarketObserved) -> None:
        """Learn from public data, or keep it for the worker."""
        if self.refit_every:
            self.shown.append((number, event))
        elif not self.out and (failed := see_quietly(self.router, event)):
            self.out = f"{self.router.name} failed to learn from public data: {failed}"

    @property
    def wants_public(self) -> bool:
        """Whether the router learns from public data."""
        return self.kind.feedback == "F3"

    def _adopt(self, event: Planned) -> None:
        self.belief, self.planned, self.out = event.belief, event.state, ""
        self.followed = [one for one in self.followed if one[0] > event.after]
        self.waiting = [one for one in self.waiting if one[0] > event.after]
        self.shown = [one for one in self.shown if one[0] > event.after]
        if not self._reading:
            self._restore()

    def make_ready(self, state: bytes, after: int) -> None:
        """Make the router of a belief that will soon be adopted, and tell it of what was decided meanwhile.

        Any thread may do so, while others decide and book: there may be a thousand decisions to tell it of.
        """
        with suppress(RiskrouteError, ValueError):  # said when it is adopted
            router, told = router_from(self.kind, state), after
            while (some := [one for one in list(self.followed) if one[0] > told]) and len(some) > FEW:
                for _, order, plan, at, dropped in some:
                    follow_quietly(router, order, plan, at, dropped=dropped)
                told = some[-1][0]
            self._ready = state, router, told

    def _restore(self) -> None:
        """Make the router of the last belief, and tell it of what was decided since."""
        ready, self._ready = self._ready, None
        if ready is not None and ready[0] == self.planned:
            _, self.router, told = ready
        else:
            told = -1
            try:
                self.router = router_from(self.kind, self.planned)
            except (RiskrouteError, ValueError) as error:
                raise DataError(f"the log has a belief that {self.kind.name} cannot restore: {error}") from error
        for number, order, plan, at, dropped in self.followed:
            if number > told:
                follow_quietly(self.router, order, plan, at, dropped=dropped)

    def job(self) -> tuple[Callable[[], bytes] | None, int]:
        """Return the work to do now, and from how many orders it learns; None while too few are settled."""
        if not self.refit_every or len(self.waiting) < self.refit_every:
            return None, 0
        work = Refit(self.kind, self.planned, list(self.followed), list(self.waiting), list(self.shown))
        return work, len(self.waiting)

    def state(self) -> bytes:
        """Everything, as bytes."""
        router = router_bytes(self.router)
        saved = _Saved(self.belief, self.planned, router, self.followed, self.waiting, self.out, self.shown)
        return msgspec.msgpack.encode(saved)

    def restore(self, body: bytes) -> None:
        """Undo `state`."""
        saved = msgspec.msgpack.decode(body, type=_Saved)
        self.belief, self.planned, self.out = saved.belief, saved.planned, saved.out
        self.router = router_from(self.kind, saved.router)
        self.followed, self.waiting, self.shown = saved.followed, saved.waiting, saved.shown


class Refit:
    """A refit that a thread or another process can run."""

    def __init__(
        self, kind: type[Router], body: bytes, followed: list[Followed], waiting: Waiting, shown: Shown
    ) -> None:
        self.parts = kind, body, followed, waiting, shown

    def __getstate__(self) -> tuple[Any, ...]:
        return (cloudpickle.dumps(self.parts[0]), *self.parts[1:])  # the class may be from a file, not from a module

    def __setstate__(self, saved: tuple[Any, ...]) -> None:
        self.parts = (pickle.loads(saved[0]), *saved[1:])

    def __call__(self) -> bytes:
        return refitted(*self.parts)


def plain_plan(plan: Plan) -> Plan:
    """The same plan of plain values, as JSON would bring it back."""
    values = plan.to_json()
    if type(plan) is Plan and _are_plain(values):
        return unchecked(Plan, values)
    return Plan.from_json(json.loads(json.dumps(values)))


_PLAIN = frozenset((int, float, bool, str, type(None)))


def _are_plain(values: dict[str, Any]) -> bool:
    """Whether JSON would bring back the very same values; no deeper than those of a plan."""
    for value in values.values():
        if type(value) is dict:
            for key, item in value.items():
                if type(key) is not str or type(item) not in _PLAIN:
                    return False
        elif type(value) not in _PLAIN:
            return False
    return True


def plan_probability(router: Router) -> float | msgspec.UnsetType:
    """How likely a router was to decide as it did: certain if it draws nothing, and not known otherwise.

    Routers that draw have a seed. They draw beliefs, not plans, and nobody works out how many beliefs lead to a plan.
    """
    return msgspec.UNSET if "seed" in parameter_names(type(router)) else 1.0


def router_seed(router: Router) -> int | None:
    """The seed of a router that draws; None of one that does not."""
    return router.seed if "seed" in parameter_names(type(router)) else None  # type: ignore[attr-defined]  # a field


Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

LOW_PRIORITY = 10
"""What is added to the niceness of the worker."""

ORPHAN_SECONDS = 1.0
"""A worker looks so often whether the service that started it is still there."""


class RefitWorker(Executor):
    """One process, started when it is first needed, and again if it dies."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def submit(
        self, job: Callable[Arguments, Value], /, *arguments: Arguments.args, **more: Arguments.kwargs
    ) -> Future[Value]:
        for _ in range(2):
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    1, multiprocessing.get_context("spawn"), initializer=end_with_parent, initargs=(os.getpid(),)
                )
            try:
                return self._pool.submit(job, *arguments, **more)
            except BrokenProcessPool:
                self._pool = None
        failed: Future[Value] = Future()
        failed.set_exception(BrokenProcessPool("the process that learns cannot be started"))
        return failed

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)


def end_with_parent(parent: int) -> None:
    """End this process once its parent is gone, even if that was killed: a worker that waits would wait for ever.

    It learns at low priority: decisions come first.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(ORPHAN_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, name="riskroute orphan", daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(LOW_PRIORITY)
