"""Sweep with an eye for what is not displayed: venues that have traded more than they showed get larger children.

After Almgren and Harts: the estimate of the reserve is theirs, the routing is a reconstruction.

References
----------
R. Almgren, B. Harts, "A dynamic algorithm for smart order routing", StreamBase white paper (2008); no address of it is
known to last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.errors import InputError
from riskroute.core.parameters import parameter
from riskroute.core.validation import real_number
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.router import PublicData, Router
from riskroute.routers.sweep import taking_plan

BOOK_SIDES = ("bid", "ask")


@dataclass
class Hidden(Router):
    """Sweep books whose best level is larger by the venue's reserve; what is not there comes back and is swept.

    By venue and side, in trade time: a trade of ``S`` shares where ``s`` were displayed makes the reserve
    ``R <- delta R + (S - s)^+``. It is a discounted sum: ``1 - delta`` times it is the mean excess of a trade.

    A backtest does not know which hidden shares an order would have met. It fills what is sent beyond the display with
    at most the hidden shares that traded at that venue and price within the next second; the rest comes back.

    Parameters
    ----------
    delta : float
        Weight of the past, trade by trade.
    eta : float
        Part of the reserve that is counted on. 0 is ``sweep``.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"A": {"bids": [[10.00, 100]], "asks": [[10.02, 100]]}, "B": {"bids": [[10.00, 200]], "asks": []}}
    >>> router = Hidden(delta=0.9)
    >>> past = read_context({"venues": books}, side="sell", shares=300, order="past")
    >>> router.on_public_data(PublicData(past, {}, trades={"A": {"bid": [(150, 100), (80, 100), (300, 100)]}}))
    >>> router.reserves
    {'A': {'bid': 240.5}}
    >>> router.route(read_context({"venues": books}, side="sell", shares=300)).take
    {'A': 300}
    """

    name: ClassVar[str] = "hidden+sweep"
    feedback: ClassVar[str] = "F3"
    memory: ClassVar[tuple[str, ...]] = ("reserves",)
    delta: float = parameter(0.9, real_number, above=0, below=1)
    eta: float = parameter(1.0, real_number, minimum=0, maximum=1000)
    reserves: dict[str, dict[str, float]] = field(init=False, repr=False)
    """By venue and side of the book, in shares."""

    def begin(self) -> None:
        self.reserves = {}

    def decide(self, context: Context) -> Plan:
        side = "ask" if context.sign > 0 else "bid"
        prices, sizes = context.books.side(side)
        counted = sizes.copy()
        for v, venue in enumerate(context.books.venues):
            if sizes[v, 0] > 0:
                counted[v, 0] += np.floor(self.eta * self.reserves.get(venue, {}).get(side, 0.0))
        book = context.book(prices, counted, context.books.takers)
        return taking_plan(context, book.take(context.shares, lot=context.lot))

    def on_public_data(self, public: PublicData) -> None:
        for venue, sides in public.trades.items():
            for side, trades in sides.items():
                kept = self.reserves.setdefault(venue, {})
                for size, displayed in trades:
                    kept[side] = self.delta * kept.get(side, 0.0) + max(size - displayed, 0)

    def load_memory(self, memory: dict[str, Any]) -> None:
        self.reserves = {
            str(venue): {side: real_number("reserve", value, minimum=0) for side, value in sides.items()}
            for venue, sides in memory["reserves"].items()
        }
        if unknown := {side for sides in self.reserves.values() for side in sides} - set(BOOK_SIDES):
            raise InputError(f"sides of reserves must be among {', '.join(BOOK_SIDES)}, was {min(unknown)!r}")
