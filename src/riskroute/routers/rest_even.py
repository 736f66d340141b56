"""Rest evenly in all dark pools, and sweep at the horizon: patience without learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskroute.routers.context import Context
from riskroute.routers.dark_first import pool_savings
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router
from riskroute.routing.weights import proportional_lots


@dataclass
class RestEven(Router):
    """Put the same number of shares into every pool that saves, wait for counterparties, sweep the remainder.

    An order without time tries the pools at once instead.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> RestEven().route(read_context(books, side="sell", shares=300, horizon=60)).dark_rest
    {'P': 150, 'Q': 150}
    """

    name: ClassVar[str] = "rest-even+sweep"

    def decide(self, context: Context) -> Plan:
        pools = [pool for pool, saving in pool_savings(context).items() if saving > 0]
        shares = proportional_lots(np.ones(len(pools)), context.shares, context.lot)
        sent = {pool: int(n) for pool, n in zip(pools, shares, strict=True) if n}
        return Plan(context.order, dark_rest=sent) if context.horizon > 0 else Plan(context.order, dark=sent)
