"""Market against limit orders over several exchanges, by how fast their queues have drained of late.

References
----------
R. Cont, A. Kukanov, "Optimal order placement in limit order markets", Quantitative Finance 17 (2017),
https://doi.org/10.1080/14697688.2016.1190030
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.parameters import parameter
from riskroute.core.validation import real_number, true_or_false, whole_number
from riskroute.routers.context import Context
from riskroute.routers.dark_first import DarkFirst
from riskroute.routers.placement import PlacementPrices, stochastic_placement
from riskroute.routers.plan import Plan
from riskroute.routers.router import PublicData, Router
from riskroute.routers.sweep import sweeping_plan, taking_plan
from riskroute.routing.weights import proportional_lots

FURTHEST = 2
"""Ticks behind the best price beyond which queues are alike."""

SCALES = (0.25, 4.0)
"""Bounds of the factor by which a past outflow is made one of the moment."""


@dataclass
class ContKukanov(Router):
    """Take some shares, post others where queues drain, so that the mean cost with penalties is least.

    Every past moment is a joint sample of the outflows of all queues, from public data: shares ahead that traded or
    were cancelled, and what traded beyond. Samples are scaled to the trading of the moment and to the horizon. A venue
    that stood otherwise then (at the best price, one tick behind, further) counts as it did at the nearest moment at
    which it stood as now. Buying and selling are taken to be alike.

    A missing share costs what taking costs now, and what it has cost more to sweep at the horizon of late, where limit
    orders were not filled: half a tick where that was nothing. Adverse selection is in there, since costs are measured
    from the arrival mid; the paper's reduction of rebates would count it twice, and is an option (``adverse``). Orders
    are not overbooked: nobody unwinds what would be bought twice.

    Until enough moments are known, and for orders without time, it is the sweep.

    Parameters
    ----------
    steps : int
        Steps of the stochastic approximation.
    remembered, least : int
        Moments that are kept, and how many of them are enough.
    memory_weight : float
        Weight of the past in the price of missing shares, moment by moment.
    impact : float
        Dollars for every share that is sent (``theta``).
    adverse : float
        Part of the mean price move against filled limit orders that is taken off their rebate.
    scaled : bool
        Whether outflows are scaled by the trades of the minutes before.
    behind : int
        Ticks behind the market's best price at which a venue's queue is still joined: 0 is the paper's setting.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> from riskroute.routers.router import MarketAtHorizon, QueueOutflow
    >>> books = {"A": {"bids": [[10.00, 200]], "asks": [[10.02, 900]], "taker": 0.003, "maker": -0.002}}
    >>> router = ContKukanov(least=2)
    >>> for name, outflow in (("a", 500), ("b", 700)):
    ...     past = read_context({"venues": books}, side="buy", shares=1000, horizon=60, order=name)
    ...     queues = {"A": QueueOutflow(10.0, 200, outflow)}
    ...     router.on_public_data(PublicData(past, {}, queues, MarketAtHorizon(10.02, 0.033)))
    >>> plan = router.route(read_context({"venues": books}, side="buy", shares=1000, lot=100, horizon=60))
    >>> plan.take, plan.limit  # 300 shares were always filled; the next 200 every other time, which pays too
    ({'A': 500}, {'A': 500})
    """

    name: ClassVar[str] = "cont-kukanov"
    feedback: ClassVar[str] = "F3"
    memory: ClassVar[tuple[str, ...]] = ("moments", "missing", "moves")
    steps: int = parameter(2000, whole_number, maximum=10**7)
    remembered: int = parameter(300, whole_number, maximum=100_000)
    least: int = 20
    memory_weight: float = parameter(0.99, real_number, minimum=0, below=1)
    impact: float = parameter(0.0, real_number, minimum=0, maximum=10)
    adverse: float = parameter(0.0, real_number, minimum=0, maximum=10)
    scaled: bool = parameter(True, true_or_false)
    behind: int = parameter(0, whole_number, minimum=0, maximum=FURTHEST)
    moments: list[dict[str, Any]] = field(init=False, repr=False)
    """Past moments: the horizon, and by venue ticks behind the best price, outflow and trades a second before."""
    past: dict[str, Floats] = field(init=False, repr=False, compare=False)
    """The same by venue as an array, ``(n, 4)``: ticks, outflow, trades, horizon; NaN where it was not there."""
    missing: list[float] = field(init=False, repr=False)
    """Weight of shares that were not filled, and what sweeping them at the horizon cost more than at arrival."""
    moves: dict[str, list[float]] = field(init=False, repr=False)
    """By venue, weight of filled shares, and how far the mid moved against them."""

    def check_parameters(self) -> None:
        whole_number("least", self.least, maximum=self.remembered)

    def begin(self) -> None:
        self.moments, self.missing, self.moves, self.past = [], [0.0, 0.0], {}, {}

    def decide(self, context: Context) -> Plan:
        placed = self.placement(context)
        return placed_plan(context, placed) if placed else sweeping_plan(context)

    def placement(self, context: Context) -> dict[str, int] | None:
        """Shares to post by venue; None where that cannot be worked out."""
        if context.horizon <= 0 or len(self.moments) < self.least:
            return None
        standing = {venue: queue for venue, queue in queues_now(context).items() if queue[0] <= self.behind}
        outflows = {venue: self._outflows(context, venue, ticks) for venue, (ticks, _, _) in standing.items()}
        known = {venue: samples for venue, samples in outflows.items() if samples is not None}
        if not known:
            return None
        ahead = np.array([standing[venue][1] for venue in known])
        prices = self.prices(context, {venue: standing[venue][2] for venue in known})
        found = stochastic_placement(
            context.shares, ahead, np.column_stack(list(known.values())), prices, steps=self.steps
        )
        lots = proportional_lots(found, context.shares, context.lot)[1:]
        return {venue: int(shares) for venue, shares in zip(known, lots, strict=True) if shares}

    def prices(self, context: Context, gains: dict[str, float]) -> PlacementPrices:
        """What shares cost at a moment, with what a fill at each venue earns against the mid."""
        half = (context.books.best_ask - context.books.best_bid) / 2
        taking = float(context.displayed.costs(context.shares)) / context.shares
        weight, more = self.missing
        excess = more / weight if weight > 0 else 0.0
        under = taking + (excess if excess > 0 else context.tick / 2)
        rebates = []
        for venue, gain in gains.items():
            filled, moved = self.moves.get(venue, (0.0, 0.0))
            rebates.append(gain - half - self.adverse * (moved / filled if filled > 0 else 0.0))
        return PlacementPrices(half, taking - half, tuple(rebates), under=under, over=under, impact=self.impact)

    def _outflows(self, context: Context, venue: str, ticks: int) -> Floats | None:
        """Outflows of a queue at all past moments as if they were now; None if it never stood so."""
        if venue not in self.past:
            return None
        behind, outflows, rates, horizons = self.past[venue].T
        rows = np.flatnonzero(behind == ticks)
        if not len(rows):
            return None
        values, then = outflows[rows] / horizons[rows], rates[rows]
        rate = context.features.get(f"outflow {venue}", 0.0)
        if self.scaled and rate > 0:
            known = then > 0
            values[known] *= np.clip(rate / then[known], *SCALES)
        return np.asarray(values[_nearest(rows, len(self.moments))] * context.horizon)

    def _remember(self, moment: dict[str, Any]) -> None:
        """Keep a moment, and forget the oldest if there are too many."""
        for venue in moment["queues"]:
            self.past.setdefault(venue, np.full((len(self.moments), 4), np.nan))
        self.moments.append(moment)
        del self.moments[: -self.remembered]
        for venue, rows in self.past.items():
            last = [*moment["queues"].get(venue, (np.nan,) * 3), moment["horizon"]]
            self.past[venue] = np.concatenate([rows, [last]])[-self.remembered :]

    def on_public_data(self, public: PublicData) -> None:
        context = public.context
        if not public.queues or public.at_horizon is None:
            return
        queues, unfilled = {}, []
        for venue, (ticks, _, _) in queues_now(context).items():
            if venue in public.queues:
                one = public.queues[venue]
                filled = one.filled(context.shares)
                queues[venue] = [ticks, one.outflow, context.features.get(f"outflow {venue}", 0.0)]
                unfilled.append(1 - filled / context.shares)
                against = context.sign * (context.mid - public.at_horizon.mid)
                self.moves[venue] = self._weighed(self.moves.get(venue, [0.0, 0.0]), filled / context.shares, against)
        if not queues:
            return
        self._remember({"horizon": context.horizon, "queues": queues})
        now = float(context.displayed.costs(context.shares)) / context.shares
        if np.isfinite(public.at_horizon.sweep - now):
            share = sum(unfilled) / len(unfilled)
            self.missing = self._weighed(self.missing, share, public.at_horizon.sweep - now)

    def _weighed(self, sums: list[float], weight: float, value: float) -> list[float]:
        """Sums of weights and of weighed values, with one more."""
        return [self.memory_weight * sums[0] + weight, self.memory_weight * sums[1] + weight * value]

    def load_memory(self, memory: dict[str, Any]) -> None:
        self.moments, self.past = [], {}
        for one in memory["moments"]:
            queues = {str(venue): _three(values) for venue, values in one["queues"].items()}
            self._remember({"horizon": real_number("horizon", one["horizon"], above=0), "queues": queues})
        self.missing = _two(memory["missing"])
        self.moves = {str(venue): _two(values) for venue, values in memory["moves"].items()}


@dataclass
class DarkFirstContKukanov(DarkFirst):
    """Try the pools with the whole order, then place what they leave as `ContKukanov` does.

    What pools fill comes off the shares to take first: with one exchange the best limit order is the same for every
    order that is large enough.

    Parameters
    ----------
    mode, memory_weight, cap, min_saving
        Of `DarkFirst`.
    steps, remembered, least, adverse, scaled, behind
        Of `ContKukanov`.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}}}
    >>> plan = DarkFirstContKukanov().route(read_context(books, side="sell", shares=300, horizon=60))
    >>> plan.dark, plan.take, plan.rest  # no moment is known yet
    ({'P': 300}, {}, 'sweep')
    """

    name: ClassVar[str] = "dark-first+cont-kukanov"
    feedback: ClassVar[str] = "F3"
    memory: ClassVar[tuple[str, ...]] = (*DarkFirst.memory, "lit_memory")
    steps: int = 2000
    remembered: int = 300
    least: int = 20
    adverse: float = 0.0
    scaled: bool = True
    behind: int = 0

    def check_parameters(self) -> None:
        super().check_parameters()
        names = ("steps", "remembered", "least", "adverse", "scaled", "behind")
        self.lit = ContKukanov(**{name: getattr(self, name) for name in names})

    def then(self, context: Context, dark: Mapping[str, int], *, in_turn: bool) -> Plan:
        placed = self.lit.placement(context)
        if not placed:
            return super().then(context, dark, in_turn=in_turn)
        plan = placed_plan(context, placed)
        return Plan(context.order, dark=dark, in_turn=True, before=True, limit=plan.limit)

    def on_public_data(self, public: PublicData) -> None:
        self.lit.on_public_data(public)

    @property
    def lit_memory(self) -> dict[str, Any]:
        """What is known of the queues."""
        return {name: getattr(self.lit, name) for name in self.lit.memory}

    def load_memory(self, memory: dict[str, Any]) -> None:
        super().load_memory(memory)
        self.lit.load_memory(memory["lit_memory"])


def queues_now(context: Context) -> dict[str, tuple[int, float, float]]:
    """By venue with shares on our side: ticks behind the best price, shares ahead, dollars a fill earns on the mid.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"A": {"bids": [[10.0, 5]], "asks": [[10.02, 5]]}, "B": {"bids": [[9.99, 7]], "maker": -0.002}}
    >>> found = queues_now(read_context({"venues": books}, side="buy", shares=1))
    >>> {venue: (ticks, ahead, round(gain, 6)) for venue, (ticks, ahead, gain) in found.items()}
    {'A': (0, 5.0, 0.01), 'B': (1, 7.0, 0.022)}
    """
    books = context.books
    best = books.best_bid if context.sign > 0 else books.best_ask
    prices, sizes = books.side("bid" if context.sign > 0 else "ask")
    found = {}
    for v, name in enumerate(books.venues):
        price, size = float(prices[v, 0]), float(sizes[v, 0])
        if size > 0 and np.isfinite(price):
            ticks = min(round(context.sign * (best - price) / context.tick), FURTHEST)
            found[name] = (ticks, size, context.sign * (context.mid - price) - float(books.makers[v]))
    return found


def placed_plan(context: Context, limits: dict[str, int]) -> Plan:
    """Return the plan that posts shares as said, and takes all others where they are cheapest."""
    taken = context.displayed.take(context.shares - sum(limits.values()), lot=context.lot)
    plan = taking_plan(context, taken)
    return Plan(context.order, limit=limits, take=plan.take, take_limits=plan.take_limits)


def _nearest(rows: Integers, count: int) -> Integers:
    """For each of ``count`` rows, which of some rising ``rows`` is nearest; of two the earlier."""
    at = np.arange(count)
    after = np.minimum(np.searchsorted(rows, at), len(rows) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(np.abs(rows[before] - at) <= np.abs(rows[after] - at), before, after)


def _two(values: Any) -> list[float]:
    first, second = (real_number("weight", value) for value in values)
    return [first, second]


def _three(values: Any) -> list[float]:
    ticks, outflow, rate = values
    whole_number("ticks", ticks, minimum=0)
    return [ticks, real_number("outflow", outflow), real_number("rate", rate)]
