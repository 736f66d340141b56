"""Post where the queue is worth its rebate: the venue's pay for liquidity against the wait for it.

References
----------
C. Maglaras, C. Moallemi, H. Zheng, "Queueing dynamics and state space collapse in fragmented limit order book
markets", Operations Research (2021)
J. Muhle-Karbe, E. Neuman, Y. Shadmi, "Fluid-limits of fragmented limit-order markets" (2024), on the same model,
https://arxiv.org/abs/2407.04354
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from riskroute.core.parameters import parameter
from riskroute.core.validation import real_number
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router
from riskroute.routers.sweep import sweeping_plan

SLOWEST = 1e-3
"""Shares a second that leave a queue in which nothing has traded of late."""


@dataclass
class Delay(Router):
    """Post the order at the venue with the best ``rebate - gamma * delay``, and sweep the remainder at the horizon.

    The expected delay of a venue is the shares displayed at its best own-side price over the shares a second that trade
    there (``outflow NAME`` of the context; 1 where it is not known). Only venues at the best price of the market are
    looked at: no queue behind it moves before that price is gone.

    Parameters
    ----------
    gamma : float
        Dollars a share that a second of delay costs. 0 looks at rebates alone; the larger, the more the shortest delay
        decides, as in ``dark-first+post+sweep``.

    Examples
    --------
    Both queues show 300 shares. A pays 0.2 cents and moves 10 shares a second, B charges 0.1 cents and moves 60: a
    wait of 30 seconds against one of 5.

    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {
    ...     "A": {"bids": [[10.00, 300]], "asks": [[10.02, 900]], "maker": -0.002},
    ...     "B": {"bids": [[10.00, 300]], "asks": [[10.02, 900]], "maker": 0.001},
    ... }, "features": {"outflow A": 10.0, "outflow B": 60.0}}
    >>> order = read_context(books, side="buy", shares=200, horizon=60)
    >>> Delay(gamma=0.0001).decide(order).rest, Delay(gamma=0.0002).decide(order).rest
    ('post:A', 'post:B')
    """

    name: ClassVar[str] = "delay+sweep"
    gamma: float = parameter(0.0001, real_number, minimum=0, maximum=1000)

    def decide(self, context: Context) -> Plan:
        venue = best_queue(context, self.gamma) if context.horizon > 0 else ""
        return Plan(context.order, rest=f"post:{venue}") if venue else sweeping_plan(context)


def best_queue(context: Context, gamma: float) -> str:
    """Return the venue at the market's best own-side price that pays best for its delay; empty without any.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"A": {"bids": [[10.0, 100]], "asks": [[10.02, 100]]}, "B": {"bids": [[10.0, 90]]}}
    >>> best_queue(read_context({"venues": books}, side="buy", shares=100), 0.001)
    'B'
    """
    books = context.books
    best = books.best_bid if context.sign > 0 else books.best_ask
    prices, sizes = books.side("bid" if context.sign > 0 else "ask")
    worth = {
        name: -float(books.makers[v])
        - gamma * float(sizes[v, 0]) / max(context.features.get(f"outflow {name}", 1.0), SLOWEST)
        for v, name in enumerate(books.venues)
        if prices[v, 0] == best and sizes[v, 0] > 0
    }
    return min(worth, key=lambda name: (-worth[name], name)) if worth else ""
