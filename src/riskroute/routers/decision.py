"""One routing decision, ready to print or to send: the child orders, and what they cost if the displayed books hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routing.consolidated import ConsolidatedBook
from riskroute.validation import instance_of


@dataclass(frozen=True)
class Decision:
    """A plan, and what it is expected to cost.

    ``expected_cost`` is in dollars against the consolidated mid, fees included, if the displayed books hold and neither
    pools nor limit orders fill anything; whatever they fill saves money on top. ``net`` is what a sale then brings in,
    or what a purchase costs in all.
    """

    context: Context
    plan: Plan
    expected_cost: float
    net: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with an entry for every kind of child order."""
        plan = self.plan
        return {
            "take": dict(plan.take),
            "limit": dict(plan.limit),
            "dark": dict(plan.dark),
            "dark_rest": dict(plan.dark_rest),
            "rest": plan.rest,
            "expected_cost": self.expected_cost,
            "net": self.net,
        }


def price_plan(context: Context, plan: Plan) -> Decision:
    """Return a plan with what it costs on the displayed books.

    Where order protection applies, venues reject shares that would trade through a better quote elsewhere, unless the
    plan allows it; otherwise every child takes what its limit allows.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> from riskroute.routers.sweep import Sweep
    >>> books = {"venues": {"A": {"bids": [[10.00, 300]], "asks": [[10.02, 300]], "taker": 0.003}}}
    >>> context = read_context(books, side="sell", shares=200)
    >>> decision = price_plan(context, Sweep().route(context))
    >>> round(decision.expected_cost, 6), round(decision.net, 6)
    (2.6, 1999.4)
    """
    instance_of("context", context, Context, "a Context")
    instance_of("plan", plan, Plan, "a Plan").checked(context)
    cost = displayed_cost(context, plan)
    money = context.mid * context.shares
    return Decision(context, plan, cost, money + context.sign * cost)


def displayed_cost(context: Context, plan: Plan) -> float:
    """Return the cost of `price_plan` for a plan that was checked."""
    plain = not plan.take and not plan.rest.startswith("venue:")
    return float(context.displayed.costs(context.shares)) if plain else _taking_cost(context, plan)


def _taking_cost(context: Context, plan: Plan) -> float:
    """Return the cost of the shares that a plan takes at the venues it names, and of the others as ``rest`` says."""
    book, left, cost = context.displayed, context.shares, 0.0
    signed, rows = (context.sign * book.prices).tolist(), book.sizes.tolist()
    tops = [(prices[0], sizes[0]) for prices, sizes in zip(signed, rows, strict=True)]
    held = context.protected and not plan.trade_through
    for name, shares in plan.take.items():
        venue = context.books.venues.index(name)
        worst = context.sign * plan.take_limits[name] if name in plan.take_limits else np.inf
        worst = min(worst, _protected_quote(context, plan, name, tops)) if held else worst
        fixed = float(book.takers[venue]) - context.sign * context.mid
        for level, price in enumerate(signed[venue]):
            there = int(rows[venue][level])
            if there and price <= worst:
                taken = min(shares, there)
                cost += taken * (price + fixed)
                rows[venue][level] -= taken
                shares, left = shares - taken, left - taken
    if left == 0:
        return cost
    sizes = np.array(rows)
    rule, _, at = plan.rest.partition(":")
    if rule == "venue":
        one = slice(venue := context.books.venues.index(at), venue + 1)
        alone = ConsolidatedBook(book.prices[one], sizes[one], book.takers[one], mid=context.mid, side=context.side)
        beyond = max(left - alone.depth, 0)
        cost += float(alone.costs(left - beyond))
        return cost + (book.beyond(beyond) if beyond else 0.0)
    rest = ConsolidatedBook(
        book.prices, sizes, book.takers, mid=context.mid, side=context.side, protect=context.protected
    )
    beyond = max(left - rest.depth, 0)
    cost += float(rest.costs(left - beyond))
    return cost + (book.beyond(beyond) if beyond else 0.0)


def _protected_quote(context: Context, plan: Plan, name: str, tops: list[tuple[float, float]]) -> float:
    """Return the best signed price elsewhere at which other children leave a lot: ours may not trade through it."""
    prices = (
        price
        for (price, size), other in zip(tops, context.books.venues, strict=True)
        if other != name and size - plan.take.get(other, 0) >= context.lot
    )
    return min(prices, default=np.inf)
