"""The router behind the engine: decides from a frozen belief, and learns from settled orders.

With ``refit_every`` 0, the router learns from each order when it settles. Otherwise a worker process refits it after
that many orders, starting from the last belief; the new belief is logged as the event `PlannedEvent`, and then decides.
Either way the router's state follows from the log alone: `Learner` gets every event, live and in recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from riskroute.core.errors import DataError, RiskrouteError, RouterError
from riskroute.core.records import decode_record, encode_record
from riskroute.core.text import one_line_text
from riskroute.core.validation import whole_number
from riskroute.live.children import context_of, report_of
from riskroute.live.market_history import public_from_market_history
from riskroute.live.state.events import (
    AcceptedEvent,
    AnyEvent,
    DeclinedEvent,
    MarketObservedEvent,
    PlannedEvent,
    ShadowedEvent,
)
from riskroute.live.state.orders import OrderOutcome, ParentOrder
from riskroute.routers.context import Context, copied_context
from riskroute.routers.plan import Plan, plain_plan
from riskroute.routers.registry import router_bytes, router_from
from riskroute.routers.router import Router

# A decision: number of its event, order, plan, time, and whether the plan was discarded.
_Followed = tuple[int, ParentOrder, dict[str, Any], int, bool]
# Outcomes and market data that are not learned yet, with the numbers of their events.
_Outcomes = list[tuple[int, OrderOutcome]]
_Observed = list[tuple[int, MarketObservedEvent]]
# A learner in a snapshot: belief, its state, the router's state, what is not learned yet, and why it is disabled.
_Saved = tuple[int, bytes, bytes, list[_Followed], _Outcomes, _Observed, str]

SLOW = "the router took longer than"  # a decision whose reason begins so disables the router, also in a replay


def _is_forgetful(kind: type[Router]) -> bool:
    """Return whether routers of a kind store nothing of an order but its key."""
    ours = all(
        getattr(kind, name) is getattr(Router, name)
        for name in ("record_plan", "on_fills", "on_public_data", "state", "prepare", "learn")
    )
    return ours and not kind.memory


def _follow_quietly(router: Router, decision: _Followed) -> None:
    """Repeat a decision in a router; ignore its errors, which were handled when it decided."""
    _, order, plan, at, dropped = decision
    with suppress(Exception):  # a router may raise anything; trading continues
        if dropped:
            router.route(context_of(order, at))
            router.abandon(order.key)
        else:
            router.follow(context_of(order, at), Plan.from_json(plan))


def learn_quietly(router: Router, news: OrderOutcome | MarketObservedEvent, *, prepare: bool = False) -> str:
    """Let a router learn from public data, or from a settled order of its own; return its error, empty if none."""
    try:
        if isinstance(news, MarketObservedEvent):
            router.on_public_data(public_from_market_history(news))
        elif news.parent not in router._under_way:
            return ""
        else:
            router.learn(report_of(news))
        if prepare:
            router.prepare()
    except Exception as error:  # a router may raise anything
        return one_line_text(error) or type(error).__name__
    return ""


class Learner:
    """A router, with the settled orders and market data that it has not learned yet."""

    def __init__(self, router: Router, refit_every: int = 0) -> None:
        self.router, self.kind = router, type(router)
        self._forgetful = _is_forgetful(self.kind)
        self.refit_every = whole_number("refit_every", refit_every, minimum=0)
        self.belief = -1
        self.disabled = ""  # why the router is out of service; empty if it decides
        self.planned = b""
        self.followed: list[_Followed] = []
        self.unlearned: list[tuple[int, OrderOutcome]] = []
        self.observed: _Observed = []
        self._reading = False
        self._ready: tuple[bytes, Router, int] | None = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Skip beliefs while a log is read; at the end, restore only the last one, and repeat the decisions after it.

        With ``refit_every`` 0 there is no later belief, and the router gets every event in sequence.
        """
        self._reading = self.refit_every > 0
        yield
        if self._reading:
            self._reading = False
            if self.planned:
                self._restore()

    def decide(self, order: ParentOrder, now: int, context: Context | None = None) -> Plan:
        """Return the plan for an order; raise `RouterError` if the router fails or its plan cannot be executed.

        ``context`` is the context of the order (default: computed); the router gets a copy.
        """
        context = context_of(order, now) if context is None else copied_context(context)
        try:
            plan = self.router.route(context)
        except Exception as error:  # a router may raise anything; trading continues
            raise RouterError(f"{self.router.name} failed: {one_line_text(error) or type(error).__name__}") from error
        if not isinstance(plan, Plan):
            raise RouterError(f"{self.router.name} returned no plan")
        try:
            return plain_plan(plan.checked(context))
        except Exception as error:  # an invalid plan may fail in any way
            said = one_line_text(error) or type(error).__name__
            raise RouterError(f"{self.router.name} returned a plan that cannot be executed: {said}") from error

    def greedy(self, order: ParentOrder) -> Plan | None:
        """Return the greedy plan; None if the router does not explore, or fails."""
        try:
            context = context_of(order, order.received)
            best = self.router.greedy(context)
            return None if best is None else best.checked(context)
        except Exception:  # a router may raise anything
            return None

    def shadow_plan(self, order: ParentOrder, now: int) -> Plan:
        """Return our plan for an order that another router executes, and abandon it in the router."""
        ours = msgspec.structs.replace(order, key=f"{order.key} (ours)")
        plan = self.decide(ours, now)
        self.router.abandon(ours.key)
        return plan

    def on_event(self, number: int, event: AnyEvent, *, live: bool) -> None:
        """Update the learner for an event; ``live`` if `decide` has been called for it already."""
        if isinstance(event, PlannedEvent):
            self._adopt(event)
        elif isinstance(event, AcceptedEvent):
            if event.decision.consulted:
                dropped = event.decision.safe != ""
                self._follow((number, event.order, event.decision.plan, event.decision.at, dropped), live)
            if event.decision.safe.startswith(SLOW):
                self.disabled = event.decision.safe
        elif isinstance(event, ShadowedEvent):
            if not live and event.decision.consulted:
                with suppress(RouterError):
                    self.shadow_plan(event.order, event.decision.at)
            self._follow((number, event.order, event.theirs, event.decision.at, False), False)
        elif isinstance(event, DeclinedEvent):
            self._follow((number, event.order, event.plan, event.at, True), live)
        elif isinstance(event, MarketObservedEvent):
            self._observe(number, event)

    def _follow(self, decision: _Followed, live: bool) -> None:
        key, dropped = decision[1].key, decision[4]
        if self._reading:
            pass
        elif not live and self._forgetful and not dropped:
            self.router._under_way.setdefault(key, [])
        elif not live:
            _follow_quietly(self.router, decision)
        elif dropped and key in self.router._under_way:
            self.router.abandon(key)
        if self.refit_every:
            self.followed.append(decision)

    def settle(self, number: int, outcome: OrderOutcome) -> None:
        """Learn from a settled order, or keep it for the worker."""
        if self.refit_every:
            self.unlearned.append((number, outcome))
        elif self._forgetful:
            self.router.mark_done(outcome.parent)
        elif not self.disabled and (failed := learn_quietly(self.router, outcome, prepare=True)):
            self.disabled = f"{self.router.name} failed to learn: {failed}"

    def _observe(self, number: int, event: MarketObservedEvent) -> None:
        """Learn from public data, or keep it for the worker."""
        if self.refit_every:
            self.observed.append((number, event))
        elif not self.disabled and (failed := learn_quietly(self.router, event)):
            self.disabled = f"{self.router.name} failed to learn from public data: {failed}"

    def _adopt(self, event: PlannedEvent) -> None:
        self.belief, self.planned, self.disabled = event.belief, event.state, ""
        self.followed = [one for one in self.followed if one[0] > event.after]
        self.unlearned = [one for one in self.unlearned if one[0] > event.after]
        self.observed = [one for one in self.observed if one[0] > event.after]
        if not self._reading:
            self._restore()

    def prepare_belief(self, state: bytes, after: int, few: int = 5) -> None:
        """Restore the router of a belief that will be adopted, and repeat the decisions made meanwhile.

        There may be a thousand of them, so this runs in another thread and leaves only the last ``few`` to `_adopt`.
        """
        with suppress(RiskrouteError, ValueError):  # raised again when the belief is adopted
            router, done = router_from(self.kind, state), after
            while (some := [one for one in list(self.followed) if one[0] > done]) and len(some) > few:
                for one in some:
                    _follow_quietly(router, one)
                done = some[-1][0]
            self._ready = state, router, done

    def _restore(self) -> None:
        """Restore the router of the last belief, and repeat the decisions made since then."""
        ready, self._ready = self._ready, None
        if ready is not None and ready[0] == self.planned:
            _, self.router, done = ready
        else:
            done = -1
            try:
                self.router = router_from(self.kind, self.planned)
            except (RiskrouteError, ValueError) as error:
                raise DataError(f"the log has a belief that {self.kind.name} cannot restore: {error}") from error
        for one in self.followed:
            if one[0] > done:
                _follow_quietly(self.router, one)

    @property
    def refit_due(self) -> bool:
        """Whether enough orders are settled for a refit."""
        return 0 < self.refit_every <= len(self.unlearned)

    def next_refit(self) -> Refit:
        """Return a refit to all settled orders that are not learned yet."""
        return Refit(self.kind, self.planned, list(self.followed), list(self.unlearned), list(self.observed))

    def state(self) -> bytes:
        """Encode the learner."""
        return self.captured()()

    def captured(self) -> Callable[[], bytes]:
        """Capture the learner for a snapshot; the returned function encodes it, in any thread."""
        news = list(self.followed), list(self.unlearned), list(self.observed)  # copies; their records never change
        saved = (self.belief, self.planned, router_bytes(self.router), *news, self.disabled)
        return lambda: encode_record(saved)

    def restore(self, body: bytes) -> None:
        """Restore what `state` encoded."""
        saved: _Saved = decode_record(body, _Saved)  # type: ignore[arg-type]  # an alias
        self.belief, self.planned, router, self.followed, self.unlearned, self.observed, self.disabled = saved
        self.router = router_from(self.kind, router)


class Refit:
    """A refit, for the worker process."""

    def __init__(
        self, kind: type[Router], body: bytes, followed: list[_Followed], outcomes: _Outcomes, observed: _Observed
    ) -> None:
        self.parts = kind, body, followed, outcomes, observed

    def __call__(self) -> bytes:
        """Return the router's state after all decisions, then outcomes and market data in the order of their events."""
        kind, body, followed, outcomes, observed = self.parts
        router = router_from(kind, body)
        for decision in followed:
            _follow_quietly(router, decision)
        news: list[tuple[int, OrderOutcome | MarketObservedEvent]] = [*outcomes, *observed]
        for _, one in sorted(news, key=lambda pair: pair[0]):
            learn_quietly(router, one)
        router.prepare()
        return router_bytes(router)
