"""Shadow mode: another router trades; this router plans its orders, learns from their fills, and sends nothing.

The cost of our plan is estimated (`riskroute.live.counterfactual`) and compared with the cost of the executed children.
Each order is one entry of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from decimal import Decimal
from typing import Any

import msgspec

from riskroute.core.errors import InputError, KeyUsedError, RefusedError, RouterError
from riskroute.core.instrument import natural_quantity
from riskroute.core.text import shown
from riskroute.live.children import context_of
from riskroute.live.engine import TradingEngine, complete_engine_answer
from riskroute.live.http.requests import ExecutedChildRequest, request_price, request_units
from riskroute.live.limits import check_order, terms_refusal
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import ShadowedEvent
from riskroute.live.state.fold import BEYOND, fold_children_outcome
from riskroute.live.state.orders import (
    ChildOrderOutcome,
    OrderDecision,
    OrderOutcome,
    ParentOrder,
    natural_order_plan,
    order_digest,
)
from riskroute.live.state.quotes import quoted_touch
from riskroute.routers.plan import Plan, plain_plan
from riskroute.routers.report import KINDS


class ShadowComparison(msgspec.Struct, frozen=True):
    """Our decision for another router's order, and its estimated saving."""

    key: str
    router: str
    plan: dict[str, Any]
    currency: str
    cost: Decimal
    estimate: Decimal
    saving: Decimal
    guessed: Decimal
    safe: str = ""


def shadow_outcome(order: ParentOrder, children: Sequence[ExecutedChildRequest]) -> OrderOutcome:
    """Return the outcome of an order that another router executed; unfilled shares are marked at the far touch.

    Raises `InputError` for children that do not fit the order.
    """
    bid, ask = quoted_touch(order.quotes)
    mid, unit, sign = order.mid, order.scale.unit, order.sign
    if not 0 < len(children) <= 1_000:
        raise InputError(f"expected 1 to 1000 children, got {len(children)}")
    outcomes = []
    for number, child in enumerate(children):
        sent, filled, price, fees = _checked_child(order, child)
        outcomes.append(
            ChildOrderOutcome(
                slot=number,
                attempt=0,
                kind=child.kind,
                place=child.place,
                sent=sent,
                filled=filled,
                money=sign * filled * (price * unit - mid),
                fees=fees,
                sent_at=child.sent_at or order.received,
                last_fill=child.last_fill,
                done_at=child.done_at or max(child.last_fill, order.received),
            )
        )
    if (filled := sum(child.filled for child in outcomes)) > order.quantity:
        text = order.instrument.quantity_text
        raise InputError(f"children must fill at most {text(order.quantity)}, was {text(filled)}")
    far, end = ask if sign > 0 else bid, max(child.done_at for child in outcomes)
    return fold_children_outcome(order, mid, outcomes, far, end)


def _checked_child(order: ParentOrder, child: ExecutedChildRequest) -> tuple[int, int, int, int]:
    """Return units sent and filled, price, and amount of the fee; raise `InputError` for an inconsistent child."""
    pools = tuple(pool.pool for pool in order.pools)
    venues = tuple(quote.venue for quote in order.quotes)
    places = pools if child.kind in ("dark", "dark_rest") else (*venues, BEYOND)
    if child.place not in places:
        raise InputError(f"place of a {child.kind} child must be one of {', '.join(places)}, was {shown(child.place)}")
    instrument = order.instrument
    sent = request_units("sent of a child", child.sent, instrument)
    filled = request_units("filled of a child", child.filled, instrument)
    price = request_price("price of a child", child.price)
    sign = 1 if child.fee > 0 else -1
    fee = sign * request_price("fee of a child", sign * child.fee)
    if filled > sent or sent == 0:
        text = instrument.quantity_text
        raise InputError(f"expected a child to fill at most the quantity it sent, got {text(filled)} of {text(sent)}")
    if filled and not price:
        raise InputError("price of a filled child must be above 0, was 0")
    if min(child.sent_at, child.last_fill, child.done_at) < 0:
        raise InputError("times of a child must not be negative")
    return sent, filled, price, fee * order.scale.one // NANO


def _executed_plan(order: ParentOrder, children: Sequence[ChildOrderOutcome]) -> Plan:
    """Return the plan that matches children, without sweeps, which follow from its rest rule."""
    shares: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
    for child in children:
        sent = shares[child.kind]
        sent[child.place] = min(sent.get(child.place, 0) + child.sent, order.quantity)
    shares.pop("sweep")
    total = sum(sum(sent.values()) for sent in shares.values())
    in_turn = total > order.quantity and bool(shares["dark"])
    before = in_turn and total > sum(shares["dark"].values())
    dark, dark_rest, limit, take = (shares[kind] for kind in ("dark", "dark_rest", "limit", "take"))
    plan = Plan(order.key, dark=dark, in_turn=in_turn, before=before, dark_rest=dark_rest, limit=limit, take=take)
    return plain_plan(plan)


def compare_shadow(
    engine: TradingEngine, order: ParentOrder, children: Sequence[ExecutedChildRequest]
) -> Future[ShadowComparison | None]:
    """Compare an executed order with our plan, and learn from it; the future is done once the log entry is durable.

    A repeated order changes nothing and gets None; another order with its key raises `KeyUsedError`.
    """
    check_order(order)
    outcome = shadow_outcome(order, children)
    theirs = _executed_plan(order, outcome.children)
    digest = order_digest(order)
    answer: Future[ShadowComparison | None] = Future()
    with engine.lock:
        engine.check_working()
        if refusal := terms_refusal(engine.state, order):
            raise RefusedError(refusal)
        known = engine.unwritten_digests.get(order.key)
        if known is None and (before := engine.order_event(order.key)) is not None:
            known = before.digest if isinstance(before, ShadowedEvent) else b""
        if known is not None and known != digest:
            raise KeyUsedError(f"key {shown(order.key)} belongs to another order")
        if known is not None:
            answer.set_result(None)
            return answer
        decision = _decide(engine, order)
        market = None if engine.history is None else engine.history.market(order)
        plan = Plan.from_json(decision.plan)
        estimate = engine.decider.counterfactual.cost(order, plan, outcome.children, market)
        event = ShadowedEvent(
            at=engine.clock(),
            order=order,
            decision=decision,
            theirs=theirs.to_json(),
            outcome=outcome,
            estimate=round(estimate.cost),
            guessed=round(estimate.guessed),
            digest=digest,
        )
        engine.unwritten_digests[order.key] = digest
        done = engine.ledger.record(event)
        engine.await_public_data(order)
    natural = order.scale.natural
    comparison = ShadowComparison(
        key=order.key,
        router=decision.router,
        plan=natural_order_plan(decision.plan, order.instrument),
        currency=order.instrument.currency,
        cost=natural(outcome.cost),
        estimate=natural(event.estimate),
        saving=natural(outcome.cost - event.estimate),
        guessed=natural_quantity(order.instrument, event.guessed),
        safe=decision.safe,
    )

    def written(rows: Future[list[int]]) -> None:
        engine.unwritten_digests.pop(order.key, None)
        complete_engine_answer(answer, rows, comparison)

    done.add_done_callback(written)
    engine.wake()
    return answer


def _decide(engine: TradingEngine, order: ParentOrder) -> OrderDecision:
    decider, now = engine.decider, order.received
    learner, reason = decider.learner, decider.learner.disabled
    consulted = not reason
    plan = None
    if consulted:
        try:
            plan = decider.timed(learner.shadow_plan, order, now)
        except RouterError as error:
            reason = str(error)
    if plan is None:
        plan = plain_plan(decider.safe.decide(context_of(order, now)))
    return decider.decision(order.key, plan, now, engine.state.decisions, reason, consulted=consulted)
