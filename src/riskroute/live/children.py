"""From orders to contexts, from plans to child orders, from outcomes to reports: how the desk meets the routers.

A plan is played as in the backtest (`riskroute.routers.plan.Plan`), but on what venues really answer: pools in turn,
shares taken and posted, what comes back once more, and at the deadline everything that is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import unchecked
from riskroute.live.orders import child_id
from riskroute.live.state.events import (
    NANO,
    ChildOrder,
    Outcome,
    ParentOrder,
    PoolQuote,
    VenueQuote,
    touch_prices,
)
from riskroute.live.state.trading_state import ParentState, TradingState
from riskroute.routers.context import Context, Pool, VenueBooks
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport, Report

SWEEPS = 100
"""Slots from this number on are sweeps of what came back, one per venue."""

MOST_SWEEPS = 8
"""What comes back is swept so many times before the deadline, at most."""

Quotes = tuple[VenueQuote, ...]
Collar = Callable[[int, int], int]
Children = tuple[ChildOrder, ...]


def context_of(order: ParentOrder, now: int) -> Context:
    """What a router sees of an order, which was checked when it came."""
    quotes = order.quotes
    takers, makers = _fees(tuple([(quote.taker, quote.maker) for quote in quotes]))  # copied below: routers may write
    bid_px, ask_px, bid_sz, ask_sz = _levels(quotes)
    books = unchecked(
        VenueBooks,
        {
            "venues": tuple([quote.venue for quote in quotes]),
            "bid_px": bid_px,
            "bid_sz": bid_sz,
            "ask_px": ask_px,
            "ask_sz": ask_sz,
            "takers": takers.copy(),
            "makers": makers.copy(),
            "ages": np.array([max(now - quote.at, 0) for quote in quotes], dtype=np.int64),
        },
    )
    return unchecked(
        Context,
        {
            "order": order.key,
            "side": order.side,
            "shares": order.quantity,
            "books": books,
            "pools": tuple(map(_pool, order.pools)),
            "lot": order.lot,
            "horizon": max(order.deadline - now, 0) / NANO,
            "time": now,
            "tick": order.tick / NANO,
            "features": order.features,
            "symbol": order.symbol,
            "protection": "reg-nms",  # venues say nothing of it yet, and better prices first is safe everywhere
        },
    )


@lru_cache(1024)
def _pool(quote: PoolQuote) -> Pool:
    """A pool as routers see it: there are few, and they are the same in every order."""
    return Pool(quote.pool, quote.fee / NANO, quote.improvement)


@lru_cache(1024)
def _fees(fees: tuple[tuple[int, int], ...]) -> tuple[Vector, Vector]:
    """Fees in dollars for taking and for resting, by venue: as with pools."""
    return np.array([taker / NANO for taker, _ in fees]), np.array([maker / NANO for _, maker in fees])


def _levels(quotes: Quotes) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Bids and asks in dollars, and their sizes, one row a venue; what is not displayed has no price."""
    depth = max([max(len(quote.bids), len(quote.asks)) for quote in quotes])
    prices: list[float] = []
    sizes: list[float] = []
    for sides in ([quote.bids for quote in quotes], [quote.asks for quote in quotes]):
        for levels in sides:
            for price, size in levels:
                prices.append(price / NANO)
                sizes.append(size)
            if missing := depth - len(levels):
                prices += [math.nan] * missing
                sizes += [0.0] * missing
    bid_px, ask_px, bid_sz, ask_sz = np.array(prices + sizes).reshape(4, len(quotes), depth)
    return bid_px, ask_px, bid_sz, ask_sz


def report_of(outcome: Outcome) -> Report:
    """What a router learns of an order that is settled."""
    children = []
    for number, slot in enumerate(outcome.slots):
        price = 0.0
        if slot.filled > 0:
            price = max((outcome.mid + outcome.sign * slot.money / slot.filled) / NANO, 0.0)
        values = {
            "child": number,
            "kind": slot.kind,
            "place": slot.place,
            "sent": max(slot.sent, slot.filled),
            "filled": max(slot.filled, 0),
            "price": price,
            "fee": slot.fees / NANO,
            "last_fill": slot.last_fill if slot.filled > 0 else 0,
            "known": slot.done_at,
            "posted": slot.sent_at,
        }
        children.append(unchecked(ChildReport, values))
    values = {"order": outcome.parent, "children": tuple(children), "complete": True, "profit": -outcome.cost / NANO}
    return unchecked(Report, values)


class ChildMaker:
    """Makes the child orders of one order.

    Parameters
    ----------
    stream : str
        Name of the log: part of the ids.
    order : ParentOrder
        The order.
    collar : Callable[[int, int], int]
        Returns the worst price allowed, given the mid and the sign of the order.
    places : frozenset[str]
        Venues and pools that can be reached.
    """

    def __init__(
        self, stream: str, order: ParentOrder, collar: Callable[[int, int], int], places: frozenset[str]
    ) -> None:
        self.stream, self.order, self.places = stream, order, places
        self.sign = order.sign
        bid, ask = touch_prices(order.quotes)
        self.worst = collar((bid + ask) // 2, self.sign)
        if order.limit is not None:
            self.worst = self._no_worse(order.limit)

    def _no_worse(self, price: int) -> int:
        return min(self.worst, price) if self.sign > 0 else max(self.worst, price)

    def child(
        self, slot: int, attempt: int, kind: Any, place: str, quantity: int, limit: int, until: int
    ) -> ChildOrder:
        """Return one child."""
        order = self.order
        return ChildOrder(
            id=child_id(self.stream, order.key, slot, attempt),
            parent=order.key,
            slot=slot,
            attempt=attempt,
            kind=kind,
            place=place,
            symbol=order.symbol,
            side=order.side,
            quantity=quantity,
            limit=limit,
            until=until,
        )

    def first(self, plan: Plan) -> Children:
        """Return the children to send at once."""
        slots = _slots(plan)
        if plan.in_turn:
            tried = self._pool_in_turn(plan, slots, (), self.order.quantity - (0 if plan.before else plan.sent))
            return tried if plan.before and tried else (*tried, *self._main(plan, slots, self.order.quantity))
        return self._main(plan, slots, self.order.quantity, dark=True)

    def _pool_in_turn(
        self, plan: Plan, slots: dict[tuple[str, str], int], tried: tuple[str, ...], free: int
    ) -> Children:
        for pool, most in plan.dark.items():
            quantity = min(most, free)
            if pool not in tried and quantity > 0 and pool in self.places:
                return (self.child(slots["dark", pool], 0, "dark", pool, quantity, self.worst, 0),)
        return ()

    def _main(self, plan: Plan, slots: dict[tuple[str, str], int], free: int, *, dark: bool = False) -> Children:
        take, rest, limit = (
            plan.within(free - (sum(plan.dark.values()) if dark else 0))
            if plan.before
            else (
                dict(plan.take),
                dict(plan.dark_rest),
                dict(plan.limit),
            )
        )
        wanted = [("dark", plan.dark)] if dark else []
        children = []
        for kind, shares in (*wanted, ("dark_rest", rest), ("limit", limit), ("take", take)):
            for place, quantity in shares.items():
                price, until = self._terms(kind, place, plan.take_limits)
                if quantity > 0 and price is not None and place in self.places:
                    children.append(self.child(slots[kind, place], 0, kind, place, quantity, price, until))
        return tuple(children)

    def _terms(self, kind: str, place: str, limits: Mapping[str, float]) -> tuple[int | None, int]:
        """Limit price and end of a child; None where it cannot be posted."""
        if kind == "limit":
            return self._own_touch(place, self.order.quotes), self.order.deadline
        if kind == "take" and place in limits:
            return self._no_worse(round(limits[place] * NANO)), 0
        return self.worst, self.order.deadline if kind == "dark_rest" else 0

    def _own_touch(self, place: str, quotes: Quotes) -> int | None:
        for quote in quotes:
            if quote.venue == place:
                own = quote.bids if self.sign > 0 else quote.asks
                return self._no_worse(own[0][0]) if own else None
        return None

    def following(self, state: TradingState, parent: ParentState, plan: Plan, quotes: Quotes) -> Children:
        """Return what to do with shares that no child holds, before the deadline."""
        children = [state.children[name].order for name in parent.children]
        slots, free = _slots(plan), parent.free
        if plan.in_turn:
            tried = tuple(child.place for child in children if child.kind == "dark")
            if some := self._pool_in_turn(plan, slots, tried, free):
                return some
            untouched = plan.before and all(child.kind == "dark" for child in children)
            if untouched and (some := self._main(plan, slots, free)):
                return some
        rule, _, venue = plan.rest.partition(":")
        sweeps = sum(child.slot >= SWEEPS for child in children)
        if rule == "post" and venue in self.places and not any(child.slot == SWEEPS - 1 for child in children):
            price = self._own_touch(venue, quotes)
            if price is not None:
                return (self.child(SWEEPS - 1, 0, "limit", venue, free, price, self.order.deadline),)
        if sweeps >= MOST_SWEEPS * max(len(quotes), 1):
            return ()
        if rule == "venue":
            quotes = tuple(quote for quote in quotes if quote.venue == venue)
        return self.sweep(children, free, quotes, touch=rule == "touch")

    def sweep(self, children: list[ChildOrder], free: int, quotes: Quotes, *, touch: bool = False) -> Children:
        """Take the cheapest displayed shares, fees included, up to ``free``; the best price alone with ``touch``."""
        levels = []
        for v, quote in enumerate(quotes):
            for price, size in quote.asks if self.sign > 0 else quote.bids:
                if size > 0 and self.sign * price <= self.sign * self.worst and quote.venue in self.places:
                    levels.append((self.sign * price + quote.taker, v, price, size))
        levels.sort()
        best = min((self.sign * price for _, _, price, _ in levels), default=0)
        taken: dict[int, tuple[int, int]] = {}
        for _, v, price, size in levels:
            if free > 0 and (not touch or self.sign * price == best):
                some = min(free, size)
                taken[v] = taken.get(v, (0, 0))[0] + some, price
                free -= some
        made = []
        for v, (quantity, price) in taken.items():
            attempt = sum(child.slot == SWEEPS + v for child in children)
            made.append(self.child(SWEEPS + v, attempt, "sweep", quotes[v].venue, quantity, price, 0))
        return tuple(made)


def _slots(plan: Plan) -> dict[tuple[str, str], int]:
    """Number of every place for shares in a plan."""
    kinds = (("dark", plan.dark), ("dark_rest", plan.dark_rest), ("limit", plan.limit), ("take", plan.take))
    return {pair: k for k, pair in enumerate((kind, place) for kind, places in kinds for place in places)}


def plan_of(parent: ParentState) -> Plan:
    """The plan of an order."""
    return Plan.from_json(parent.decision.plan)


def far_touch(order: ParentOrder, quotes: Quotes) -> int:
    """The best price on the other side, at which the remainder is valued; `InputError` if nobody shows one."""
    for shown in (quotes, order.quotes):
        bid, ask = touch_prices(shown)
        if price := ask if order.side == "buy" else bid:
            return price
    raise InputError("quotes must show a price on the other side, did not")
