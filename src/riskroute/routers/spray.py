"""Pro rata: every venue gets shares in proportion to the depth it displays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router
from riskroute.routing.weights import proportional_lots


@dataclass
class Spray(Router):
    """Take from all venues at once, in proportion to what each displays, whatever the price.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {
    ...     "A": {"bids": [[10.00, 100], [9.99, 200]], "asks": [[10.02, 100]]},
    ...     "B": {"bids": [[9.97, 100]], "asks": [[10.02, 100]]},
    ... }
    >>> Spray().route(read_context({"venues": books}, side="sell", shares=200)).take
    {'A': 150, 'B': 50}
    """

    name: ClassVar[str] = "spray"

    def decide(self, context: Context) -> Plan:
        shares = proportional_lots(context.displayed.sizes.sum(axis=1), context.shares, context.lot)
        venues = context.books.venues
        return Plan(context.order, take={venue: int(n) for venue, n in zip(venues, shares, strict=True) if n})
