"""Orders to warm up with: what is compiled and loaded before the first order cannot delay it."""

from __future__ import annotations

import time

from riskroute.core.errors import RiskrouteError
from riskroute.live.config import LiveConfig
from riskroute.live.learner import Learner, learn_quietly, router_bytes, router_from
from riskroute.live.order_terms import nano
from riskroute.live.state.events import NANO, ChildOutcome, Outcome, ParentOrder, PoolQuote, VenueQuote
from riskroute.routers.router import Router

ORDERS = 6
"""Orders that a copy of the router decides, and learns from, before the first one comes."""


def sample_order(config: LiveConfig, number: int) -> ParentOrder:
    """An order like those to come."""
    now = time.time_ns()
    symbol, instrument = next(iter(config.instruments.items()))
    bids, asks = ((100 * NANO, 5_000),), ((100 * NANO + nano(instrument.tick), 5_000),)
    return ParentOrder(
        key=f"sample {number}",
        symbol=symbol,
        side="buy" if number % 2 else "sell",
        quantity=instrument.lot * (100 + number),
        deadline=now + 10 * NANO,
        quotes=tuple(VenueQuote(venue=name, bids=bids, asks=asks, at=now) for name in config.venues),
        pools=tuple(PoolQuote(pool=name) for name in config.pools),
        lot=instrument.lot,
        received=now,
    )


def warm_up(config: LiveConfig, router: Router) -> None:
    """Let a copy of a router decide and learn; whatever it raises matters when it is asked in earnest."""
    learner = Learner(router_from(type(router), router_bytes(router)))
    for number in range(ORDERS):
        order = sample_order(config, number)
        try:
            learner.decide(order, order.received)
        except RiskrouteError:
            return
        learn_quietly(learner.router, _swept(order))


def _swept(order: ParentOrder) -> Outcome:
    """The outcome of an order that was taken at one venue."""
    half = order.quotes[0].asks[0][0] - order.quotes[0].bids[0][0]
    slot = ChildOutcome(
        slot=0,
        attempt=0,
        kind="take",
        place=order.quotes[0].venue,
        sent=order.quantity,
        filled=order.quantity,
        money=order.quantity * half // 2,
        fees=0,
        sent_at=order.received,
        last_fill=order.received,
        done_at=order.received,
    )
    return Outcome(
        parent=order.key,
        symbol=order.symbol,
        sign=order.sign,
        filled=order.quantity,
        left=0,
        mid=order.quotes[0].bids[0][0] + half // 2,
        cost=slot.money,
        slots=(slot,),
        at=order.received,
    )
