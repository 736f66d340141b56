"""Decisions of the engine: the router's plan within the limits, otherwise the safe router's, and further children."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError

import msgspec

from riskroute.core.errors import RouterError
from riskroute.core.runtime import DurationHistogram
from riskroute.live.background import BackgroundThread
from riskroute.live.children import ChildMaker, Children, Quotes, context_of
from riskroute.live.counterfactual import Counterfactual, counterfactual_plan
from riskroute.live.learner import SLOW, Learner
from riskroute.live.limits import Limits
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import AnyEvent, IntendedEvent, MarkedEvent, SettledEvent
from riskroute.live.state.orders import OrderDecision, OrderOutcome, ParentOrder
from riskroute.live.state.quotes import PoolQuote, VenueQuote, quoted_touch
from riskroute.live.state.trading_state import ParentState, TradingState
from riskroute.live.venues.gateway import VenueTerms
from riskroute.routers.plan import Plan, plain_plan
from riskroute.routers.registry import router_bytes, router_from
from riskroute.routers.router import Router
from riskroute.routers.rules import SweepRule


class Decider:
    """Decides for the engine, within the limits; a router that takes longer than ``seconds`` is disabled.

    ``quotes`` returns the current books of a symbol, ``terms`` what a place accepts in a symbol (None: nothing).
    """

    def __init__(
        self,
        stream: str,
        limits: Limits,
        terms: Callable[[str, str], VenueTerms | None],
        learner: Learner,
        quotes: Callable[[str], Quotes | None] | None = None,
        seconds: float | None = None,
    ) -> None:
        self.limits, self.learner = limits, learner
        self.maker = ChildMaker(stream, limits.worst_price, terms)
        self.quotes, self.seconds = quotes, seconds
        self.safe = SweepRule()
        self.counterfactual = Counterfactual()
        self.times = DurationHistogram()
        self._thread = None if seconds is None else BackgroundThread("riskroute router")

    def close(self) -> None:
        """Stop the thread that runs the router, without waiting for a decision that does not end."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    def warm_up(self, now: int, places: Iterable[str]) -> None:
        """Let a copy of the router and the safe router decide once, so that everything is compiled and loaded."""
        venues = sorted(places) or ["A"]
        bids, asks = ((100 * NANO, 10_000),), ((100 * NANO + NANO // 100, 10_000),)
        order = ParentOrder(
            key="warm up",
            symbol="WARM",
            side="buy",
            quantity=100,
            deadline=now + NANO,
            quotes=tuple(VenueQuote(venue=name, bids=bids, asks=asks, at=now) for name in venues),
            pools=(PoolQuote(pool="warm up pool"),),
        )
        context = context_of(order, now)
        self.safe.decide(context)
        Counterfactual().cost(order, counterfactual_plan(context), (), context=context)
        try:
            router_from(self.learner.kind, router_bytes(self.learner.router)).route(context)
        except Exception:  # a router may raise anything; its first decision reports the error
            return

    def decide(
        self, state: TradingState, order: ParentOrder, now: int, ticket: int
    ) -> tuple[OrderDecision, Children, str]:
        """Return the decision, its first children, and why the order must be refused (empty if it is not)."""
        mid = order.mid
        reason, consulted = "", True
        if len(state.unsettled) >= self.limits.unsettled:
            reason, consulted = f"{len(state.unsettled)} orders are unsettled", False
        elif self.learner.disabled:
            reason, consulted = self.learner.disabled, False
        else:
            try:
                plan = self.timed(self._asked, order, now)
                children = self.maker.first(order, plan, state.down)
                reason = self.limits.children_refusal(state, order, mid, children, order.quantity)
            except RouterError as error:
                reason = str(error)
                consulted = not reason.startswith(SLOW)
        refusal = ""
        if reason:
            plan = plain_plan(self.safe.decide(self.maker.context(order)))
            children = self.maker.first(order, plan, state.down)
            if refusal := self.limits.children_refusal(state, order, mid, children, order.quantity):
                self.maker.forget(order.key)
        return self.decision(order.key, plan, now, ticket, reason, consulted=consulted), children, refusal

    def decision(self, key: str, plan: Plan, now: int, ticket: int, safe: str, *, consulted: bool) -> OrderDecision:
        """Return the record of a plan; ``safe`` is why the safe router made it, empty if the router did."""
        router: Router = self.safe if safe else self.learner.router
        explores = "seed" in router.parameter_names()
        return OrderDecision(
            parent=key,
            router=router.name,
            belief=self.learner.belief,
            ticket=ticket,
            plan=dict(vars(plan)),  # no deep copy: the plan is not shared
            at=now,
            # Routers that explore draw beliefs, not plans: the probability of a plan is not available.
            probability=msgspec.UNSET if explores else 1.0,
            seed=router.seed if explores else None,  # type: ignore[attr-defined]  # a field
            safe=safe,
            consulted=consulted,
        )

    def timed(self, ask: Callable[[ParentOrder, int], Plan], order: ParentOrder, now: int) -> Plan:
        """Return the router's plan, and record the decision time in `times`."""
        began = time.perf_counter()
        try:
            return ask(order, now)
        finally:
            self.times.observe(time.perf_counter() - began)

    def _asked(self, order: ParentOrder, now: int) -> Plan:
        if self._thread is None or self.seconds is None:
            return self.learner.decide(order, now, self.maker.context(order))
        asked: Future[Plan] = self._thread.submit(self.learner.decide, order, now, self.maker.context(order))
        try:
            return asked.result(self.seconds)
        except LateError:
            self.close()
            self._thread = BackgroundThread("riskroute router")
            raise RouterError(f"{SLOW} {self.seconds:g} s") from None

    def settled(self, order: ParentOrder, outcome: OrderOutcome, at: int, number: int) -> SettledEvent:
        """Return the outcome of an order with the counterfactual cost of the standard routing rule.

        Every tenth order is also compared with the greedy plan, which measures the cost of exploration. Call this
        before the router learns from the order.
        """
        context = self.maker.context(order)
        self.maker.forget(order.key)
        rule = self.counterfactual.cost(order, counterfactual_plan(context), outcome.children, context=context)
        explored = None
        if number % 10 == 0 and not self.learner.disabled:
            best = self.learner.greedy(order)
            if best is not None:
                explored = round(outcome.cost - self.counterfactual.cost(order, best, outcome.children).cost)
        return SettledEvent(
            at=at, outcome=outcome, benchmark_cost=round(rule.cost), guessed=round(rule.guessed), explored=explored
        )

    def next_event(self, state: TradingState, key: str, now: int) -> AnyEvent | None:
        """Return the next event of an order: further children or a mark for shares that no child holds, or None."""
        parent = state.parents[key]
        if parent.settled or parent.free <= 0 or parent.marked:
            return None
        current = None if self.quotes is None else self.quotes(parent.order.symbol)
        quotes = parent.order.quotes if current is None else current
        if state.halted:
            return self._give_up(parent, quotes, now) if parent.open == 0 else None
        children = self.maker.following(state, parent, quotes, now)
        if children and not self.limits.children_refusal(state, parent.order, parent.mid, children, parent.free):
            return IntendedEvent(at=now, parent=key, children=children)
        return self._give_up(parent, quotes, now) if parent.closing and parent.open == 0 else None

    def _give_up(self, parent: ParentState, quotes: Quotes, now: int) -> MarkedEvent:
        """Mark the remainder at the far touch now, or at arrival if there is none now."""
        far = 1 if parent.order.side == "buy" else 0
        price = quoted_touch(quotes)[far] or quoted_touch(parent.order.quotes)[far]
        return MarkedEvent(at=now, parent=parent.order.key, price=price)
