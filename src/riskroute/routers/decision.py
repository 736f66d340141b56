"""Child orders of a plan and their cost on the displayed books, to print or to send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from riskroute.core.text import natural_text, plain_number
from riskroute.core.validation import instance_of
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routing.consolidated import ConsolidatedBook
from riskroute.routing.fees import fee_at, fee_rate


class DecisionChild(NamedTuple):
    """Child order of a plan, with its price and fee.

    ``kind`` is ``take`` (immediate or cancel at a venue), ``post`` (limit order at the venue's best own-side price),
    ``rest`` (resting in a pool) or ``ping`` (immediate or cancel in a pool). ``limit`` is the limit price of a take and
    the fill price of the other kinds; None if there is none. ``fee`` is the fee of the place, such as ``10 bps``.
    """

    kind: str
    place: str
    shares: int
    limit: float | None
    fee: str


@dataclass(frozen=True)
class Decision:
    """A plan and its cost on the displayed books against the consolidated mid, in price times units.

    Sizes are whole units; `to_json` gives natural quantities and amounts in the quote currency.

    Costs include fees, each child's within the minimum and maximum fee per order of its venue. The books determine the
    cost of taking, but not how many posted or pool shares fill. The costs of both extremes are given; they are equal
    for a plan that only takes.

    Parameters
    ----------
    children : tuple[DecisionChild, ...]
        Child orders: pools first, then posts, then takes.
    cost_if_filled : float
        Cost if all posts and pool orders fill.
    cost_if_swept : float
        Cost if no post or pool order fills, and their shares are swept on the displayed books.
    estimated_shares : int
        Units beyond the displayed depth if everything is swept; their price is extrapolated.
    """

    context: Context
    plan: Plan
    children: tuple[DecisionChild, ...]
    cost_if_filled: float
    cost_if_swept: float
    estimated_shares: int

    @property
    def expected_cost(self) -> float:
        """Conservative cost, without posted or pool fills: `cost_if_swept`."""
        return self.cost_if_swept

    @property
    def net(self) -> float:
        """Proceeds of a sale, or total cost of a purchase, at `cost_if_swept`."""
        return self.context.mid * self.context.shares + self.context.sign * self.cost_if_swept

    @property
    def passive(self) -> bool:
        """Whether some shares are posted or sent to pools."""
        return any(child.kind != "take" for child in self.children) or self.plan.rest.startswith("post:")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the costs: locked or crossed books, and shares beyond the displayed depth."""
        found = []
        if (crossed := _crossed(self.context)) is not None:
            found.append(crossed)
        if self.estimated_shares:
            instrument = self.context.instrument
            unless = "unless pools or limit orders fill some, " if self.passive else ""
            found.append(
                f"{unless}{natural_text(instrument.natural(self.estimated_shares))} of "
                f"{instrument.quantity_text(self.context.shares)} are beyond the displayed depth: "
                "their price is an estimate"
            )
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, with natural quantities and amounts in the quote currency."""
        plan, instrument = self.plan, self.context.instrument

        def natural(units: int) -> int | float:
            return plain_number(instrument.natural(units))

        return {
            "instrument": instrument.to_json(),
            "currency": instrument.currency,
            "quantity": natural(self.context.shares),
            "children": [
                {
                    **{"kind": one.kind, "place": one.place, "quantity": natural(one.shares), "limit": one.limit},
                    "fee": one.fee,
                }
                for one in self.children
            ],
            **{
                kind: {place: natural(units) for place, units in getattr(plan, kind).items()}
                for kind in ("take", "limit", "dark", "dark_rest")
            },
            "rest": plan.rest,
            "cost_if_filled": self.cost_if_filled * instrument.value,
            "cost_if_swept": self.cost_if_swept * instrument.value,
            "estimated_quantity": natural(self.estimated_shares),
            "expected_cost": self.expected_cost * instrument.value,
            "net": self.net * instrument.value,
            "warnings": list(self.warnings),
        }


def price_decision(context: Context, plan: Plan) -> Decision:
    """Return a plan with its cost on the displayed books.

    Under order protection, venues reject shares that would trade through a better quote elsewhere. Without it, or if
    the plan allows trading through, every child takes what its limit allows.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> from riskroute.routers.rules import SweepRule
    >>> venue = {"bids": [[10.00, 300]], "asks": [[10.02, 300]], "taker": "0.003 per share"}
    >>> context = read_context({"venues": {"A": venue}, "pools": {"P": {}}}, side="sell", shares=200)
    >>> decision = price_decision(context, SweepRule().route(context))
    >>> round(decision.cost_if_swept, 6), round(decision.net, 6)
    (2.6, 1999.4)
    >>> rests = price_decision(context, Plan("order", dark_rest={"P": 100}))
    >>> round(rests.cost_if_filled, 6), round(rests.cost_if_swept, 6)
    (1.3, 2.6)
    """
    instance_of("context", context, Context, "a Context")
    instance_of("plan", plan, Plan, "a Plan").checked(context)
    swept, estimated = _taking_cost(context, plan, plan.take, context.shares)
    filled = _filled_cost(context, plan)
    return Decision(context, plan, _children(context, plan), filled, swept, estimated)


def plan_cost_if_swept(context: Context, plan: Plan) -> float:
    """Return `Decision.cost_if_swept` of a valid plan."""
    return _taking_cost(context, plan, plan.take, context.shares)[0]


def _children(context: Context, plan: Plan) -> tuple[DecisionChild, ...]:
    """Return the child orders of a plan; for pools pinged in turn, shares are upper limits."""
    fees = {kind: _fee_texts(context, kind) for kind in ("ping", "rest", "post", "take")}
    prices = {"ping": _pooled(context), "rest": _pooled(context), "post": _posted(context), "take": plan.take_limits}
    rule, _, venue = plan.rest.partition(":")
    # unassigned shares are posted immediately
    free = context.shares - plan.sent if rule == "post" and not plan.in_turn else 0
    limit = {**plan.limit, venue: free} if free else plan.limit
    return tuple(
        DecisionChild(kind, place, shares, prices[kind].get(place), fees[kind][place])
        for kind, given in (("ping", plan.dark), ("rest", plan.dark_rest), ("post", limit), ("take", plan.take))
        for place, shares in given.items()
        if shares
    )


def _fee_texts(context: Context, kind: str) -> dict[str, str]:
    """Return the fees of a kind of child, by place."""
    books, instrument = context.books, context.instrument
    if kind in ("ping", "rest"):
        return {pool.name: pool.fee_text(instrument) for pool in context.pools}
    fees, limits = (
        (books.takers, books.fee_limits[:, :2]) if kind == "take" else (books.makers, books.fee_limits[:, 2:])
    )
    return {name: str(fee_rate(fees[v], limits[v], instrument)) for v, name in enumerate(books.venues)}


def _pooled(context: Context) -> dict[str, float]:
    """Return the fill price by pool."""
    bid, ask = context.books.touch
    half = (ask - bid) / 2
    return {pool.name: context.mid - context.sign * pool.improvement * half for pool in context.pools}


def _posted(context: Context) -> dict[str, float]:
    """Return the best own-side price by venue, without empty books."""
    books = context.books
    prices, sizes = books.side("bid" if context.sign > 0 else "ask")
    best = {name: prices[v][sizes[v] > 0].tolist() for v, name in enumerate(books.venues)}
    return {name: levels[0] for name, levels in best.items() if levels}


def _filled_cost(context: Context, plan: Plan) -> float:
    """Return the cost if all posts and pool orders fill."""
    ping, rest, post, take = (dict(some) for some in (plan.dark, plan.dark_rest, plan.limit, plan.take))
    free = context.shares - plan.sent
    if plan.in_turn:
        free = context.shares if plan.before else free
        for pool, most in plan.dark.items():
            ping[pool] = min(most, free)
            free -= ping[pool]
        if plan.before:
            take, rest, post = plan.within(free)
            free -= sum(sum(held.values()) for held in (take, rest, post))
    rule, _, venue = plan.rest.partition(":")
    if rule == "post":
        post[venue], free = free, 0
    pooled, posted, cost = _pooled(context), _posted(context), 0.0
    fees = {pool.name: pool.fee for pool in context.pools}
    for given in (ping, rest):
        for place, shares in given.items():
            cost += shares * (context.sign * (pooled[place] - context.mid) + fees[place])
    for place, shares in post.items():
        if (price := posted.get(place)) is None:
            free += shares  # cannot be posted: returned immediately
        elif shares:
            v = context.books.venues.index(place)
            fee = context.books.order_fee(v, shares * float(fee_at(context.books.makers[v], price)), maker=True)
            cost += shares * context.sign * (price - context.mid) + fee
    return cost + _taking_cost(context, plan, take, sum(take.values()) + free)[0]


def _taking_cost(context: Context, plan: Plan, take: Mapping[str, int], left: int) -> tuple[float, int]:
    """Return the cost of ``left`` shares, and the number beyond the displayed depth.

    ``take`` goes to the named venues; the remainder follows the plan's ``rest``.
    """
    book, cost, every = context.displayed, 0.0, slice(0, len(context.books.venues))
    if not take and not plan.rest.startswith("venue:"):
        beyond = max(left - book.depth, 0)
        if not beyond:
            return _sweep_cost(context, book, every, left), 0
        return _sweep_cost(context, book, every, left - beyond) + book.beyond_cost(beyond), beyond
    signed, rows = (context.sign * book.prices).tolist(), book.sizes.tolist()
    tops = [(prices[0], sizes[0]) for prices, sizes in zip(signed, rows, strict=True)]
    held = context.protected and not plan.trade_through
    for name, shares in take.items():
        venue = context.books.venues.index(name)
        worst = context.sign * plan.take_limits[name] if name in plan.take_limits else np.inf
        worst = min(worst, _protected_quote(context, take, name, tops)) if held else worst
        per, fraction = book.takers[venue].tolist()
        filled, fees = 0, 0.0
        for level, price in enumerate(signed[venue]):
            there = int(rows[venue][level])
            if there and price <= worst:
                taken = min(shares, there)
                cost += taken * (price - context.sign * context.mid)
                fees += taken * (per + fraction * abs(price))
                rows[venue][level] -= taken
                shares, left, filled = shares - taken, left - taken, filled + taken
        cost += context.books.order_fee(venue, fees) if filled else 0.0
    if left == 0:
        return cost, 0
    sizes = np.array(rows)
    rule, _, at = plan.rest.partition(":")
    some = slice(venue := context.books.venues.index(at), venue + 1) if rule == "venue" else every
    rest = context.book(book.prices[some], sizes[some], book.takers[some])
    beyond = max(left - rest.depth, 0)
    cost += _sweep_cost(context, rest, some, left - beyond)
    return cost + book.beyond_cost(beyond), beyond


def _sweep_cost(context: Context, book: ConsolidatedBook, venues: slice, shares: int) -> float:
    """Return the cost of sweeping displayed shares of some venues; each venue gets one child order."""
    cost = float(book.costs(shares))
    if context.books.has_fee_limits and shares:
        for k, wanted in enumerate(book.take(shares).shares.tolist()):
            if wanted:
                filled = np.diff(np.minimum(np.cumsum(book.sizes[k]), wanted), prepend=0.0)
                total = float(filled @ fee_at(book.takers[k], np.nan_to_num(book.prices[k])))
                cost += context.books.order_fee(venues.start + k, total) - total
    return cost


def _protected_quote(context: Context, take: Mapping[str, int], name: str, tops: list[tuple[float, float]]) -> float:
    """Return the protected quote: the best signed price of other venues with at least a lot left after our takes."""
    prices = (
        price
        for (price, size), other in zip(tops, context.books.venues, strict=True)
        if other != name and size - take.get(other, 0) >= context.lot
    )
    return min(prices, default=np.inf)


def _crossed(context: Context) -> str | None:
    """Return a warning if the best bid is at or above the best ask, else None."""
    books = context.books
    bid, ask = books.touch
    if bid < ask:
        return None
    at = [
        next(name for v, name in enumerate(books.venues) if (prices[v][sizes[v] > 0] == best).any())
        for best, (prices, sizes) in ((bid, books.side("bid")), (ask, books.side("ask")))
    ]
    word = "locked" if bid == ask else "crossed"
    bid_text, ask_text = map(context.instrument.price_text, (bid, ask))
    return f"books are {word}: bid {bid_text} at {at[0]}, ask {ask_text} at {at[1]}; check that both are current"
