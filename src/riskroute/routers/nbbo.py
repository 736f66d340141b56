"""Take at the best displayed price only, again and again: the cautious reading of the order protection rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router
from riskroute.routers.sweep import taking_plan


@dataclass
class Nbbo(Router):
    """Take the shares displayed at the best price, look again every millisecond, and sweep the remainder.

    It looks for a second at most, and never beyond the deadline: an order without a horizon is swept after one look.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {
    ...     "A": {"bids": [[10.00, 100], [9.99, 200]], "asks": [[10.02, 100]]},
    ...     "B": {"bids": [[10.00, 50]], "asks": [[10.02, 100]]},
    ... }
    >>> plan = Nbbo().route(read_context({"venues": books}, side="sell", shares=400))
    >>> plan.take, plan.rest
    ({'A': 100, 'B': 50}, 'touch')
    """

    name: ClassVar[str] = "nbbo"

    def decide(self, context: Context) -> Plan:
        book, best = context.displayed, context.books.best_ask if context.sign > 0 else context.books.best_bid
        at_best = np.where(book.prices == best, book.sizes, 0.0)
        top = context.book(book.prices, at_best, book.takers)
        plan = taking_plan(context, top.take(context.shares, lot=context.lot))
        return Plan(context.order, take=plan.take, take_limits=plan.take_limits, rest="touch")
