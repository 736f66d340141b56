"""The rule that every desk has: take the cheapest displayed shares, fees included, wherever they are.

References
----------
Practice under order-protection rules; U.S. Securities and Exchange Commission, Regulation NMS, Rule 611,
https://www.ecfr.gov/current/title-17/section-242.611
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from riskroute.core.errors import shown
from riskroute.core.parameters import parameter
from riskroute.core.validation import instance_of, whole_number
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router
from riskroute.routing.consolidated import ConsolidatedBook, Taken


@dataclass
class Sweep(Router):
    """Take the cheapest displayed shares, each child order limited to the worst price displayed that it needs.

    Parameters
    ----------
    discretion : int
        Ticks by which the limit prices of child orders go beyond what was displayed, so that more of them are filled
        when the books move on the way.
    minimums : Mapping[str, int]
        The smallest order that a venue accepts, by its name.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {
    ...     "A": {"bids": [[10.00, 150], [9.98, 500]], "asks": [[10.02, 100]], "taker": 0.003},
    ...     "B": {"bids": [[10.00, 100], [9.99, 300]], "asks": [[10.02, 100]], "taker": -0.002},
    ... }
    >>> plan = Sweep().route(read_context({"venues": books}, side="sell", shares=300, lot=100))
    >>> plan.take, plan.take_limits
    ({'A': 100, 'B': 200}, {'A': 10.0, 'B': 9.99})
    """

    name: ClassVar[str] = "sweep"
    discretion: int = parameter(0, whole_number, minimum=0, maximum=1000)
    minimums: Mapping[str, int] = field(default_factory=dict)

    def check_parameters(self) -> None:
        for venue, least in instance_of("minimums", self.minimums, Mapping, "shares by venue").items():
            whole_number(f"minimum of {shown(venue)}", least, minimum=0, maximum=10**9)

    def decide(self, context: Context) -> Plan:
        return taking_plan(context, self.taken(context, context.displayed), self.discretion)

    def taken(self, context: Context, book: ConsolidatedBook) -> Taken:
        """Return what is taken from each venue, minimum order sizes included."""
        least = [self.minimums.get(name, 0) for name in context.books.venues] if self.minimums else []
        minimums = np.array(least, dtype=np.int64) if any(least) else None
        return book.take(context.shares, lot=context.lot, minimums=minimums)


@dataclass
class RawSweep(Sweep):
    """Sweep by displayed price alone, as a router that knows no fees would."""

    name: ClassVar[str] = "raw-sweep"

    def decide(self, context: Context) -> Plan:
        return taking_plan(context, self.taken(context, context.consolidated(fees=False)), self.discretion)


def taking_plan(context: Context, taken: Taken, discretion: int = 0) -> Plan:
    """Return the plan that takes these shares, with limit prices ``discretion`` ticks beyond what is displayed."""
    chosen = [v for v, shares in enumerate(taken.shares) if shares]
    venues, worse = context.books.venues, context.sign * discretion * context.tick
    return Plan(
        context.order,
        take={venues[v]: int(taken.shares[v]) for v in chosen},
        take_limits={venues[v]: float(taken.limits[v] + worse) for v in chosen},
    )


def sweeping_plan(context: Context, discretion: int = 0) -> Plan:
    """Return the plan that takes the cheapest displayed shares, as `Sweep` does."""
    return taking_plan(context, context.displayed.take(context.shares, lot=context.lot), discretion)
