"""Conversions between live records and router types: orders to contexts, plans to child orders, outcomes to reports.

Plans are executed as in the backtest (`riskroute.routers.execution`), with the fills that venues report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from riskroute.core.arrays import Matrix
from riskroute.core.instrument import instrument_from_terms
from riskroute.core.validation import unvalidated
from riskroute.live.state.amounts import NANO, amount_scale
from riskroute.live.state.orders import ChildOrder, OrderOutcome, ParentOrder, order_id
from riskroute.live.state.quotes import PoolQuote, VenueQuote
from riskroute.live.state.trading_state import ChildState, ParentState, TradingState
from riskroute.live.venues.gateway import VenueTerms
from riskroute.routers.context import Context, ContextBooks, ContextPool
from riskroute.routers.execution import (
    DEADLINE,
    IMMEDIATE,
    MILLISECOND,
    PLAN,
    REFILL,
    RETURNED,
    TOUCH_RETRIES,
    Execution,
    ExecutionChild,
    ExecutionFill,
    ExecutionLevels,
    execution_limit,
    remove_own,
)
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport, Report
from riskroute.routing.fees import VenueFees, fee_limits

_STAGE = 1000  # slots per stage: children of the plan from 0, of the next stage from 1000, and so on
_VENUE_AT_DEADLINE = 3 * _STAGE - 2  # slot of the last retry of shares that only one venue may fill

AVOIDED = NANO  # nanoseconds for which an order avoids a place that has not taken one of its children

Quotes = tuple[VenueQuote, ...]
Children = tuple[ChildOrder, ...]


def context_of(order: ParentOrder, now: int) -> Context:
    """Return the context of a router's decision; the order was validated on arrival."""
    quotes = order.quotes
    instrument = order.instrument
    fees = tuple([(quote.taker, quote.taker_rate, quote.maker, quote.maker_rate) for quote in quotes])
    takers, makers, limits = _fees(fees, order.terms)  # copied below: routers may write
    bid_px, ask_px, bid_sz, ask_sz = _levels(quotes)
    books = unvalidated(
        ContextBooks,
        {
            "venues": tuple([quote.venue for quote in quotes]),
            "bid_px": bid_px,
            "bid_sz": bid_sz,
            "ask_px": ask_px,
            "ask_sz": ask_sz,
            "takers": takers.copy(),
            "makers": makers.copy(),
            "fee_limits": limits.copy(),
            "ages": np.array([max(now - quote.at, 0) for quote in quotes], dtype=np.int64),
        },
    )
    return unvalidated(
        Context,
        {
            "order": order.key,
            "side": order.side,
            "shares": order.quantity,
            "books": books,
            "pools": tuple([_pool(pool, order.terms, order.mid if pool.rate else 0) for pool in order.pools]),
            "lot": instrument.lot_units,
            "horizon": max(order.deadline - now, 0) / NANO,
            "time": now,
            "features": order.features,
            "instrument": instrument,
        },
    )


@lru_cache(1024)
def _pool(quote: PoolQuote, terms: str, mid: int) -> ContextPool:
    """Return a pool as routers see it, with its fee at the mid; cached, since all orders have the same few pools."""
    fee = quote.fee / NANO / float(instrument_from_terms("", terms).multiplier)
    return ContextPool(quote.pool, fee + quote.rate / NANO * mid / amount_scale(terms).at_one, quote.improvement)


@lru_cache(1024)
def _fees(fees: tuple[tuple[int, int, int, int], ...], terms: str) -> VenueFees:
    """Return the fees by venue, without limits; cached like the pools."""
    rows = np.array(fees, dtype=np.float64).reshape(len(fees), 2, 2) / NANO
    rows[:, :, 0] /= float(instrument_from_terms("", terms).multiplier)
    return VenueFees(rows[:, 0], rows[:, 1], fee_limits(len(fees)))


def _levels(quotes: Quotes) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Return bid and ask prices and their sizes in units, ``(V, L)`` each; missing levels have price NaN, size 0."""
    depth = max([1, *[max(len(quote.bids), len(quote.asks)) for quote in quotes]])
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


def report_of(outcome: OrderOutcome) -> Report:
    """Return the report of a settled order, from which a router learns; its costs are prices times units."""
    children, at_one = [], outcome.scale.at_one
    for number, child in enumerate(outcome.children):
        price = 0.0
        if child.filled > 0:
            price = max((outcome.mid + outcome.sign * child.money / child.filled) / at_one, 0.0)
        values = {
            "child": number,
            "kind": child.kind,
            "place": child.place,
            "sent": max(child.sent, child.filled),
            "filled": max(child.filled, 0),
            "price": price,
            "fee": child.fees / at_one,
            "last_fill": child.last_fill if child.filled > 0 else 0,
            "known": child.done_at,
            "posted": child.sent_at,
        }
        children.append(unvalidated(ChildReport, values))
    values = {"order": outcome.parent, "children": tuple(children), "complete": True, "profit": -outcome.cost / at_one}
    return unvalidated(Report, values)


class ChildMaker:
    """Makes the child orders that `riskroute.routers.execution` sends, within the limits of the live router.

    No child's limit price is worse than the collar or the order's own limit; a child without a limit price gets the
    tighter of both. ``terms`` returns what a venue or pool accepts in a symbol; places without terms, and places that
    are down, cannot be reached: they fill nothing. ``collar`` returns the worst price allowed, given the mid and the
    sign of the order.
    """

    deadline_sweeps = 2  # a sweep may miss, since quotes lag behind the venues' books: a second one follows

    def __init__(
        self, stream: str, collar: Callable[[int, int], int], terms: Callable[[str, str], VenueTerms | None]
    ) -> None:
        self.stream, self.collar, self.terms = stream, collar, terms
        self._steps: dict[tuple[str, str, str], _Steps] = {}  # by place, symbol and terms of the instrument
        # called with the key of an order and the time of its next look
        self.on_wait: Callable[[str, int], None] = lambda key, when: None
        self.looks: dict[str, dict[str, tuple[int, int]]] = {}  # by order and stage: times of the first and next look
        self._contexts: dict[str, tuple[ParentOrder, Context]] = {}

    def context(self, order: ParentOrder) -> Context:
        """Return the context of an order at its arrival, kept until `forget`. Routers get a copy: they may write."""
        kept = self._contexts.get(order.key)
        if kept is None or kept[0] is not order:
            kept = self._contexts[order.key] = order, context_of(order, order.received)
        return kept[1]

    def forget(self, key: str) -> None:
        """Forget an order that is settled or refused."""
        self.looks.pop(key, None)
        self._contexts.pop(key, None)

    def clear(self) -> None:
        """Forget all orders."""
        self.looks.clear()
        self._contexts.clear()

    def steps(self, place: str, order: ParentOrder) -> _Steps | None:
        """Return what a place accepts in the order's symbol; None if it does not trade it."""
        key = place, order.symbol, order.terms
        if (known := self._steps.get(key)) is None and (found := self.terms(place, order.symbol)) is not None:
            known = self._steps[key] = _Steps.of(found, order)
        return known

    def forget_terms(self) -> None:
        """Forget the terms of places, which are requested again when they are needed."""
        self._steps.clear()

    def first(self, order: ParentOrder, plan: Plan, down: Container[str] = ()) -> Children:
        """Return the children to send with the decision, none of them to places that are down."""
        making = _Making(self, order, plan, order.quotes, (), down=down)
        return making.orders(making.execution.first_children())

    def following(self, state: TradingState, parent: ParentState, quotes: Quotes, now: int) -> Children:
        """Return the children to send now for shares that no child holds; empty if no child is due."""
        order, plan = parent.order, Plan.from_json(parent.decision.plan)
        children = [state.children[name] for name in parent.children]
        making = _Making(self, order, plan, quotes, children, _own_fills(state, children), now, state.down)
        if plan.recall is not None and now >= parent.decision.at + int(plan.recall * NANO):
            making.too_late = "dark_rest"
        if parent.closing:
            return () if parent.open else making.closing(parent.closing_sweeps, self.deadline_sweeps)
        execution = making.execution
        orders: Children = ()
        while planned := execution.first_children():
            orders += making.orders(planned)
        if execution.waiting:
            return orders
        orders += making.orders(execution.post())
        for stage in (RETURNED, *plan.dark_rest):
            rule = execution.rule if stage == RETURNED and execution.rule != "post" else "sweep"
            shares = execution.returned if stage == RETURNED else execution.recalled.get(stage, 0)
            how = self._look(order.key, stage, rule, now) if shares > 0 else ""
            if how and (found := making.orders(execution.retry(stage, how, making.levels()))):
                return orders + found  # one look at a time: the next must know what this one took
        return orders

    def _look(self, key: str, stage: str, rule: str, now: int) -> str:
        """Return the rule for retrying the shares of a stage now; empty if no retry is due."""
        found = self.looks.setdefault(key, {})
        first, due = found.get(stage, (now, now))
        if now < due:
            return ""
        touching = rule == "touch" and now < first + TOUCH_RETRIES * MILLISECOND
        found[stage] = first, now + (MILLISECOND if touching else REFILL)
        self.on_wait(key, found[stage][1])
        return rule if touching or rule != "touch" else "sweep"


class _Steps(NamedTuple):
    """Tick in 1e-9, and lot and least quantity in units, at a place; the least notional value as an amount."""

    tick: int
    lot: int
    least: int
    notional: int
    idempotent: bool

    @classmethod
    def of(cls, terms: VenueTerms, order: ParentOrder) -> _Steps:
        """Convert the terms of a place; steps and minima are at least the instrument's."""
        one = order.instrument
        return cls(
            max(math.ceil(terms.tick * NANO), order.scale.tick),
            max(math.ceil(terms.lot / one.unit), one.lot_units),
            math.ceil(max(terms.minimum_quantity, one.minimum_quantity) / one.unit),
            math.ceil(max(terms.minimum_notional, one.minimum_notional) * order.scale.one),
            terms.idempotent,
        )

    def least_units(self, value: int) -> int:
        """Return the smallest quantity, given the amount of one unit."""
        if self.lot == 1 and self.least <= 1 and not self.notional:
            return 1
        least = max(self.least, -(-self.notional // value), 1)
        return -(-least // self.lot) * self.lot


_Sendable = tuple[ExecutionChild, int, _Steps]  # a child with its limit price and what its place accepts


class _Making:
    """Children of one order at one time."""

    def __init__(
        self,
        maker: ChildMaker,
        order: ParentOrder,
        plan: Plan,
        quotes: Quotes,
        children: Sequence[ChildState],
        own: Sequence[tuple[str, float, int, int]] = (),
        now: int = 0,
        down: Container[str] = (),
    ) -> None:
        self.maker, self.order, self.plan, self.quotes, self.sent, self.now = maker, order, plan, quotes, children, now
        self.sign, self.own, self.too_late, self.down = order.sign, own, "", down
        # For `AVOIDED` nanoseconds, send no other child of this order to a place that has not taken one.
        refused = [child for child in children if child.reason == "withheld" and not child.losses]
        self.avoided = {child.order.place for child in refused if now - child.done_at < AVOIDED}
        self.reached: dict[str, _Steps | None] = {}
        self.tick = order.scale.tick
        self.worst = self._on_tick(maker.collar(order.mid // order.scale.unit, self.sign))
        if order.limit is not None:
            self.worst = self._no_worse(order.limit)
        self.context = maker.context(order)
        self.venues = tuple(dict.fromkeys((*self.context.books.venues, *(quote.venue for quote in quotes))))
        self.stages = (PLAN, RETURNED, DEADLINE, *plan.dark_rest)
        execution, planned = Execution(plan, self.context), set()
        for child in self.sent:
            made = child.order
            stage = RETURNED if made.slot == _VENUE_AT_DEADLINE else self.stages[made.slot // _STAGE]
            one = ExecutionChild(made.kind, made.place, made.quantity, stage=stage)
            execution.sent(one, awaited=child.status != "unknown")  # a silent venue must not hold up the others
            if child.done:
                execution.done(one, child.filled)
            if stage == PLAN:
                planned.add((one.kind, one.place))
        if execution.started:
            for one in execution.plan_children():
                if (one.kind, one.place) not in planned:  # it could not be sent
                    execution.finish(one, 0)
        self.execution = execution

    def closing(self, tries: int, most: int) -> Children:
        """Return the children to send after the deadline, once no other child is open."""
        execution = self.execution
        while planned := execution.first_children():  # too late or impossible to send: no fill
            for child in planned:
                execution.finish(child, 0)
        execution.close()
        tried_venue = any(child.order.slot == _VENUE_AT_DEADLINE for child in self.sent)
        venue = [] if tried_venue else execution.retry(RETURNED, "venue", self.levels())
        if orders := self.orders(venue, _VENUE_AT_DEADLINE):
            return orders
        if tries >= most + tried_venue:
            return ()
        return self.orders(execution.retry(DEADLINE, "sweep", self.levels()))

    def orders(self, children: Sequence[ExecutionChild], slot: int | None = None) -> Children:
        """Return child orders for those children that can be sent; the others end without a fill."""
        made, sendable = [], []
        takes = {child.place: child for child in children if child.kind == "take"}
        plan = self.plan
        kinds = (("dark", plan.dark), ("dark_rest", plan.dark_rest), ("limit", plan.limit), ("take", plan.take))
        slots = {pair: k for k, pair in enumerate((kind, place) for kind, places in kinds for place in places)}
        for child in children:
            steps = self._steps(child.place)
            price = None if steps is None or child.kind == self.too_late else self._price(child, takes)
            if price is None or steps is None or (price := _on_tick(price, steps.tick, self.sign)) <= 0:
                self.execution.finish(child, 0)
            else:
                sendable.append((child, price, steps))
        for child, price, steps in self._large_enough(sendable):
            self.execution.sent(child)
            if child.stage == PLAN:
                number = slots[child.kind, child.place]
            elif slot is not None:
                number = slot
            else:
                number = _STAGE * self.stages.index(child.stage)
                number += _STAGE - 1 if child.kind == "limit" else self.venues.index(child.place)
            attempt = sum(one.order.slot == number for one in self.sent)
            order = self.order
            made.append(
                ChildOrder(
                    id=child_id(self.maker.stream, order.key, number, attempt),
                    parent=order.key,
                    slot=number,
                    attempt=attempt,
                    kind=child.kind,  # type: ignore[arg-type]  # one of KINDS
                    place=child.place,
                    symbol=order.symbol,
                    side=order.side,
                    quantity=child.shares,
                    limit=price,
                    until=0 if child.kind in IMMEDIATE else order.deadline,
                    idempotent=steps.idempotent,
                )
            )
        return tuple(made)

    def _steps(self, place: str) -> _Steps | None:
        """Return what a place accepts now; None if it cannot be reached."""
        if place not in self.reached:
            usable = place not in self.down and place not in self.avoided
            self.reached[place] = self.maker.steps(place, self.order) if usable else None
        return self.reached[place]

    def _large_enough(self, children: list[_Sendable]) -> list[_Sendable]:
        """Return children in multiples of their place's lot, none below its minimum; the others end without a fill.

        Quantity removed from takes and sweeps goes to the largest of them. A quantity too small for any child stays
        with the order, and is marked at its deadline unless a later child holds it.
        """
        unit, mid = self.order.scale.unit, self.order.mid
        minima = [steps.least_units(min(price * unit, mid)) for _, price, steps in children]
        if all(least <= 1 for least in minima):
            return children
        sizes = [child.shares - child.shares % steps.lot for child, _, steps in children]
        sizes = [size if size >= least else 0 for size, least in zip(sizes, minima, strict=True)]
        taking = [k for k, (child, _, _) in enumerate(children) if child.kind in ("take", "sweep")]
        if taking:
            largest = max(taking, key=lambda k: children[k][0].shares)
            size = sizes[largest] + sum(children[k][0].shares - sizes[k] for k in taking)
            size -= size % children[largest][2].lot
            sizes[largest] = size if size >= minima[largest] else 0
        found = []
        for (child, price, steps), size in zip(children, sizes, strict=True):
            if size:
                found.append((child._replace(shares=size), price, steps))
            else:
                self.execution.finish(child, 0)
        return found

    def _price(self, child: ExecutionChild, takes: Mapping[str, ExecutionChild]) -> int | None:
        """Return the limit price of a child; None for a limit order that cannot be posted."""
        if child.kind == "limit":
            own = next((q.bids if self.sign > 0 else q.asks for q in self.quotes if q.venue == child.place), ())
            return self._no_worse(own[0][0]) if own else None
        limit = math.inf if child.limit is None else self.sign * child.limit
        if child.kind == "take" and not self.plan.trade_through and self.context.protected:
            venue = self.venues.index(child.place)
            limit = min(limit, execution_limit(self.context, self.levels(usable=False), takes, venue))
        return self.worst if limit == math.inf else self._no_worse(_nanos(self.sign * limit))

    def _no_worse(self, price: int) -> int:
        return min(self.worst, self._on_tick(price)) if self.sign > 0 else max(self.worst, self._on_tick(price))

    def _on_tick(self, price: int) -> int:
        return _on_tick(price, self.tick, self.sign)

    def levels(self, *, usable: bool = True) -> ExecutionLevels:
        """Return the displayed levels; if ``usable``, less sizes out of reach, beyond `worst`, or taken already."""
        sign, shown = self.sign, {quote.venue: quote for quote in self.quotes}
        quotes = (*self.order.quotes, *self.quotes)
        rates = _fees(tuple([(one.taker, one.taker_rate, 0, 0) for one in quotes]), self.order.terms).takers
        fees = {quote.venue: row for quote, row in zip(quotes, rates, strict=True)}
        sides = [
            () if (quote := shown.get(name)) is None else quote.asks if sign > 0 else quote.bids for name in self.venues
        ]
        depth, worst = max([1, *map(len, sides)]), sign * self.worst
        numbers: list[float] = []
        for levels in sides:
            numbers += [price / NANO for price, _ in levels]
            numbers += [math.nan] * (depth - len(levels))
        for name, levels in zip(self.venues, sides, strict=True):
            there = not usable or self._steps(name) is not None
            numbers += [size if there and (sign * price <= worst or not usable) else 0.0 for price, size in levels]
            numbers += [0.0] * (depth - len(levels))
        prices, sizes = np.array(numbers, dtype=np.float64).reshape(2, len(sides), depth)
        if usable and self.own:
            times = [shown[name].at if name in shown else 0 for name in self.venues]
            fills = []
            for venue, paid, shares, at in self.own:
                if venue not in self.venues:  # its book was not known at the arrival, and is not known now
                    continue
                v = self.venues.index(venue)
                fills.append(ExecutionFill(v, paid, shares, times[v] if times[v] <= at else -1, at))
            remove_own(prices, sizes, fills, np.array(times), self.now)
        return ExecutionLevels(self.venues, prices, sizes, np.array([fees[name] for name in self.venues]))


def _nanos(price: float) -> int:
    """Return a price in 1e-9, by its shortest decimal: a product of floats may be off the tick.

    >>> _nanos(999999999.9989), round(999999999.9989 * NANO)
    (999999999998900000, 999999999998900096)
    """
    return round(Decimal(repr(float(price))) * NANO)


def _on_tick(price: int, tick: int, sign: int) -> int:
    """Return the closest multiple of the tick that is no worse than a price."""
    return price - price % tick if sign > 0 else price + -price % tick


def child_id(stream: str, parent: str, slot: int, attempt: int) -> str:
    """Return the id of a child order: the same after a crash, and unique.

    Examples
    --------
    >>> child_id("main", "A-17", 2, 0)
    'QWDU4QQC322WBCGN-2-0'
    """
    return f"{order_id(stream, parent)}-{slot}-{attempt}"


def _own_fills(state: TradingState, children: Sequence[ChildState]) -> list[tuple[str, float, int, int]]:
    """Return venue, price, shares and time of the fills of taking children."""
    return [
        (child.order.place, one.price / NANO, one.quantity, one.at)
        for child in children
        if child.order.kind in ("take", "sweep")
        for one in [state.executions[key] for key in child.executions]
        if one.counts and one.kind != "busted"
    ]
