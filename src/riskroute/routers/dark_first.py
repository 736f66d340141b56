"""Dark pools first, at the mid, and the lit venues with what comes back: the rule a learning router must beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.parameters import parameter
from riskroute.core.validation import one_of, real_number, whole_number
from riskroute.routers.believed import PlaceBelief
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Router
from riskroute.routing.weights import proportional_lots

MODES = ("sequential", "parallel")
OPTIMISTIC = 1.0
"""A pool that was never tried has this score, in dollars a share: more than any pool can save."""


@dataclass
class DarkFirst(Router):
    """Try the pools that have saved most of late, then sweep.

    The score of a pool is what a share sent there, filled or not, has saved against the sweep: an exponentially
    weighted mean that starts high, so that every pool is tried.

    Parameters
    ----------
    mode : str
        ``sequential``: the best pool gets the whole order, the next one what came back, and so on. ``parallel``: all
        pools at once, in proportion to their scores.
    memory_weight : float
        Weight of the past in the score.
    cap : int, optional
        Most shares that a pool gets; the whole order if None.
    min_saving : float
        Dollars a share that a fill must save against the sweep; pools below are left out.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}}
    >>> books["pools"] = {"P": {}, "Q": {"fee": 0.02}}
    >>> plan = DarkFirst().route(read_context(books, side="sell", shares=300))  # a fee of 2 cents eats up the saving
    >>> plan.dark, plan.in_turn, plan.rest
    ({'P': 300}, True, 'sweep')
    """

    name: ClassVar[str] = "dark-first+sweep"
    feedback: ClassVar[str] = "F2"
    memory: ClassVar[tuple[str, ...]] = ("scores", "expected")
    mode: str = parameter("sequential", one_of, choices=MODES)
    memory_weight: float = parameter(0.95, real_number, minimum=0, below=1)
    cap: int | None = parameter(None, whole_number)
    min_saving: float = parameter(0.0, real_number)
    scores: dict[str, float] = field(init=False, repr=False)
    expected: dict[str, dict[str, float]] = field(init=False, repr=False)
    """Saving a share, by order under way and pool."""

    def begin(self) -> None:
        self.scores, self.expected = {}, {}

    def decide(self, context: Context) -> Plan:
        savings = pool_savings(context)
        good = {pool: saving for pool, saving in savings.items() if saving > self.min_saving}
        self.expected[context.order] = good
        most = min(context.shares, self.cap or context.shares)
        score = {pool: self.scores.get(pool, OPTIMISTIC) for pool in good}
        if self.mode == "parallel":
            shares = proportional_lots(np.array(list(score.values())), context.shares, context.lot)
            sent = {pool: min(int(n), most) for pool, n in zip(score, shares, strict=True) if n}
            return self.then(context, sent, in_turn=False)
        ranked = sorted(score, key=lambda pool: (-score[pool], pool))
        return self.then(context, dict.fromkeys(ranked, most), in_turn=True)

    def then(self, context: Context, dark: Mapping[str, int], *, in_turn: bool) -> Plan:
        """Return the plan that sends these shares to the pools, and sweeps what comes back."""
        return Plan(context.order, dark=dark, in_turn=in_turn)

    def beliefs(self) -> tuple[PlaceBelief, ...]:
        what = "saving of a share sent there"
        return tuple(PlaceBelief(pool, what, score, None, "$/share") for pool, score in self.scores.items())

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        savings = self.expected.get(order, {})
        for child in children:
            if child.kind in ("dark", "dark_rest") and child.sent and child.place in savings:
                saved = child.filled / child.sent * savings[child.place]
                before = self.scores.get(child.place, OPTIMISTIC)
                self.scores[child.place] = self.memory_weight * before + (1 - self.memory_weight) * saved
        if profit is not None:
            self.expected.pop(order, None)

    def load_memory(self, memory: dict[str, Any]) -> None:
        self.scores = {str(pool): real_number("score", value) for pool, value in memory["scores"].items()}
        self.expected = {
            str(order): {str(pool): real_number("saving", value) for pool, value in savings.items()}
            for order, savings in memory["expected"].items()
        }


@dataclass
class DarkFirstPost(DarkFirst):
    """Try pools, post what comes back where the queue is shortest, and sweep at the horizon.

    The queue expected to empty first counts as the shortest: shares displayed at the venue's best price, divided by the
    shares a second that trade there, if the context knows them (``outflow NAME``).
    """

    name: ClassVar[str] = "dark-first+post+sweep"

    def then(self, context: Context, dark: Mapping[str, int], *, in_turn: bool) -> Plan:
        venue = quickest_venue(context)
        rest = f"post:{venue}" if context.horizon > 0 and venue else "sweep"
        return Plan(context.order, dark=dark, in_turn=in_turn, rest=rest)


def pool_savings(context: Context) -> dict[str, float]:
    """Dollars a share that a fill in each pool saves against a sweep of the whole order.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {"fee": 0.001}}}
    >>> {pool: round(saving, 6) for pool, saving in pool_savings(read_context(books, side="sell", shares=300)).items()}
    {'P': 0.009}
    """
    sweep = context.sweep_cost / context.shares
    bid, ask = context.books.touch
    half = (ask - bid) / 2
    return {pool.name: sweep - pool.fee + pool.improvement * half for pool in context.pools}


def quickest_venue(context: Context) -> str:
    """Return the venue whose queue at its best own-side price is expected to empty first; empty if there is none."""
    best = context.books.best_bid if context.sign > 0 else context.books.best_ask
    prices, sizes = context.books.side("bid" if context.sign > 0 else "ask")
    delays = {
        name: sizes[v, 0] / max(context.features.get(f"outflow {name}", 1.0), 1e-9)
        for v, name in enumerate(context.books.venues)
        if prices[v, 0] == best and sizes[v, 0] > 0
    }
    return min(delays, key=lambda name: (delays[name], name)) if delays else ""
