"""Limit orders by beliefs that are updated after every order: what fills in which state of a venue.

After Baldacci and Manziuk, in a one-shot form: theirs is a control problem over time, solved again after each update of
the same conjugate beliefs; here an order is split once, and only the update is theirs.

References
----------
B. Baldacci, I. Manziuk, "Adaptive trading strategies across liquidity pools" (2020), https://arxiv.org/abs/2008.07807
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from riskroute.core.arrays import Floats, Integers, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import parameter, real_number, true_or_false, whole_number
from riskroute.routers.context import Context
from riskroute.routers.literature.cont_kukanov import placed_plan, queues_now
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import PublicData, Router
from riskroute.routers.rules import plan_sweep
from riskroute.routing.allocations import proportional_lots

# MERGED: Beliefs about limit orders that are updated in closed form: how much of them is filled, and where prices go.
#
# References
# ----------
# A. Gelman, J. Carlin, H. Stern, D. Dunson, A. Vehtari, D. Rubin, "Bayesian data analysis", 3rd edition (2013),
# chapters 2 and 3, http://www.stat.columbia.edu/~gelman/book/
#


FILL_SHARES = np.array([0.0, 0.125, 0.375, 0.625, 0.875, 1.0])
"""What stands for the classes of filled shares of an order: 0, up to 1/4, 1/2 and 3/4, less than 1, and 1."""

CLASSES = len(FILL_SHARES)


def fill_class(filled: int, sent: int) -> int:
    """The class of a fill.

    Examples
    --------
    >>> [fill_class(filled, 100) for filled in (0, 1, 25, 26, 75, 99, 100)]
    [0, 1, 1, 2, 3, 4, 5]
    """
    if filled <= 0:
        return 0
    return 5 if filled >= sent else min(-(-4 * filled // sent), 4)


def dirichlet_moments(weights: Vector) -> tuple[float, float]:
    """Predictive mean and variance of the filled share under a Dirichlet belief over the classes.

    Examples
    --------
    >>> dirichlet_moments(np.array([3.0, 0, 0, 0, 0, 1.0]))  # filled once in four times
    (0.25, 0.1875)
    """
    chances = weights / weights.sum()
    mean = float(chances @ FILL_SHARES)
    return mean, float(chances @ FILL_SHARES**2) - mean**2


class Drift(NamedTuple):
    """A Normal-inverse-gamma belief about price moves: their mean is ``mean`` as if seen so many ``times``.

    ``shape`` and ``scale`` are those of the inverse gamma belief about their variance.
    """

    mean: float
    times: float
    shape: float
    scale: float

    def after(self, number: float, total: float, squares: float) -> Drift:
        """Return the belief after ``number`` moves with a sum and a sum of squares; the weight of each may be decayed.

        Examples
        --------
        >>> Drift(0.0, 1.0, 2.0, 1.0).after(2, 2 + 4, 2**2 + 4**2)
        Drift(mean=2.0, times=3.0, shape=3.0, scale=5.0)
        """
        if number <= 0:
            return self
        mean, times = total / number, self.times + number
        spread = max(squares - number * mean**2, 0.0)
        between = self.times * number * (mean - self.mean) ** 2 / times
        centre, scale = (self.times * self.mean + total) / times, self.scale + (spread + between) / 2
        return Drift(centre, times, self.shape + number / 2, scale)

    @property
    def variance(self) -> float:
        """Predictive variance of the next move: that of a Student distribution with ``2 shape`` degrees of freedom."""
        return self.scale / (self.shape - 1) * (1 + 1 / self.times)

    def drawn(self, rng: np.random.Generator) -> tuple[float, float]:
        """A mean and a variance of moves, drawn from the belief."""
        variance = self.scale / rng.gamma(self.shape)
        return float(rng.normal(self.mean, np.sqrt(variance / self.times))), float(variance)


def fill_belief_weights(levels: list[Floats], strength: float) -> Floats:
    """Dirichlet weights of a cell: its counts, and a prior of some strength with the frequencies of the level above.

    ``levels`` are counts from the most general to the cell's own; above all is the even distribution.

    Examples
    --------
    >>> one, none = np.array([6.0, 0, 0, 0, 0, 0]), np.zeros(6)
    >>> fill_belief_weights([one, none], 6).round(2).tolist()  # nothing seen: the frequencies of the market
    [3.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    frequencies = np.full(CLASSES, 1 / CLASSES)
    weights = frequencies
    for counts in levels:
        weights = strength * frequencies + counts
        frequencies = weights / weights.sum()
    return weights


ROUND_LOT = 100
STRENGTH = 6.0
"""Observations that a prior is worth."""

DRIFT = Drift(0.0, 1.0, 2.0, 1e-4)
"""What is believed of price moves at first, in dollars: none, with a variance of a squared cent."""

RATE = (1.0, 1.0)
"""What is believed of outflows at first: one share in a second."""

MOST_VENUES = 6
"""Venues that are looked at, those with the shortest expected delay."""

LEARNED_ORDERS = 1000
"""Orders whose own fills were learned and are not learned again from public data."""


@dataclass
class BayesFill(Router):
    """Post and take so that predictive cost plus ``kappa`` times predictive variance is least.

    A venue's state is its spread (1, 2, more ticks) and the imbalance of its best sizes from our side (below -0.3,
    above 0.3, between); orders have up to 100 shares, up to 500, or more. For each the belief about the filled share is
    Dirichlet over six classes, with the venue's frequencies and above them the market's as prior; outflow rates are
    Gamma, moves of the mid until the horizon Normal-inverse-gamma, given that the order was filled and that it was not.
    What is not filled is swept at the horizon, at what taking costs now and the move. Moves are the same for all
    venues, fills of different venues independent. Only venues at the market's best price are looked at, those with the
    shortest delay first.

    Every moment is an observation of every venue, from public data; own limit orders replace it where there are some.

    Parameters
    ----------
    parts : int
        Shares posted are multiples of the order over so many.
    kappa : float
        Basis points charged for a squared basis point of variance.
    decay : float
        Weight of what was seen before, order by order.
    sample : bool
        Whether beliefs are drawn from instead of averaged over.
    seed : int
        Of the draws.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> from riskroute.routers.router import MarketAtHorizon, QueueOutflow
    >>> books = {"A": {"bids": [[10.00, 200]], "asks": [[10.01, 900]], "taker": 0.003, "maker": -0.002}}
    >>> def order(name):
    ...     return read_context({"venues": books}, side="buy", shares=400, horizon=60, order=name)
    >>> router = BayesFill(decay=1.0)
    >>> for name in "abcdef":
    ...     queues = {"A": QueueOutflow(10.0, 200, 900)}
    ...     router.on_public_data(PublicData(order(name), {}, queues, MarketAtHorizon(10.005, 0.008)))
    >>> router.weights("A", venue_state(order("g"), "A"), 400).round(2).tolist()
    [0.25, 0.25, 0.25, 0.25, 0.25, 10.75]
    >>> router.route(order("g")).limit
    {'A': 400}
    """

    name: ClassVar[str] = "bayes-fill"
    feedback: ClassVar[str] = "F3"
    memory: ClassVar[tuple[str, ...]] = ("fills", "rates", "drifts", "asked", "learned", "decisions")
    parts: int = parameter(4, whole_number, maximum=8)
    kappa: float = parameter(0.05, real_number, minimum=0, maximum=1000)
    decay: float = parameter(0.995, real_number, above=0, maximum=1)
    sample: bool = parameter(False, true_or_false)
    seed: int = parameter(0, whole_number, minimum=0)
    fills: dict[str, list[float]] = field(init=False, repr=False)
    """Counts of the classes of fills, by size class, by venue, and by the venue's state."""
    rates: dict[str, list[float]] = field(init=False, repr=False)
    """Shares that left a queue, and seconds, by venue and state."""
    drifts: dict[str, list[float]] = field(init=False, repr=False)
    """Number, sum and sum of squares of moves in dollars, by whether the order was filled, and by venue and state."""
    asked: dict[str, dict[str, str]] = field(init=False, repr=False)
    """States of venues at which orders under way were posted."""
    learned: dict[str, list[str]] = field(init=False, repr=False)
    """Keys of own fills by order."""
    decisions: int = field(init=False, repr=False)

    def begin(self) -> None:
        self.fills, self.rates, self.drifts, self.asked, self.learned = {}, {}, {}, {}, {}
        self.decisions = 0

    # deciding

    def decide(self, context: Context) -> Plan:
        self.decisions += 1
        standing = {venue: queue for venue, queue in queues_now(context).items() if queue[0] == 0}
        if context.horizon <= 0 or not standing:
            return plan_sweep(context)
        states = {venue: venue_state(context, venue) for venue in standing}
        quickest = sorted(standing, key=lambda venue: (standing[venue][1] / self.rate(venue, states[venue]), venue))
        del quickest[MOST_VENUES:]
        rng = np.random.default_rng([self.seed, self.decisions]) if self.sample else None
        tables = [self.table(context, venue, states[venue], standing[venue][2], rng) for venue in quickest]
        taking = float(context.displayed.costs(context.shares)) / context.shares
        split = bayes_fill_split(np.array(tables), taking, self.kappa / context.mid * 1e4, context.shares)
        taken = self.parts - int(split.sum())
        shares = proportional_lots(np.append(float(taken), split), context.shares, context.lot)[1:]
        posted = {venue: int(some) for venue, some in zip(quickest, shares, strict=True) if some}
        self.asked[context.order] = {venue: states[venue] for venue in posted}
        return placed_plan(context, posted)

    def table(
        self, context: Context, venue: str, state: str, gain: float, rng: np.random.Generator | None = None
    ) -> Floats:
        """What is believed of an order of 0 to all parts at a venue, ``(parts + 1, 6)``, or a draw of it.

        Columns are shares, mean and variance of the filled share, dollars that a fill earns, and mean and variance of
        the move if it is not filled.
        """
        drift = self.drift(venue, state, filled=False)
        move = (drift.mean, drift.variance) if rng is None else drift.drawn(rng)
        moments: dict[int, tuple[float, float]] = {}
        rows = []
        for part in range(self.parts + 1):
            size = context.shares * part / self.parts
            kind = size_class(size)
            if kind not in moments:
                weights = self.weights(venue, state, size)
                moments[kind] = dirichlet_moments(weights if rng is None else rng.dirichlet(weights))
            rows.append((size, *moments[kind], gain, *move))
        return np.array(rows)

    def weights(self, venue: str, state: str, size: float) -> Floats:
        """Dirichlet weights of the classes of fills of an order at a venue in a state."""
        keys = _fill_keys(venue, state, size)
        return fill_belief_weights([np.array(self.fills.get(key, [0.0] * CLASSES)) for key in keys], STRENGTH)

    def rate(self, venue: str, state: str) -> float:
        """Shares a second that leave the queue of a venue in a state: the mean of a Gamma belief."""
        shares, seconds = self.rates.get(f"{venue}|{state}", (0.0, 0.0))
        return (RATE[0] + shares) / (RATE[1] + seconds)

    def drift(self, venue: str, state: str, *, filled: bool) -> Drift:
        """The belief about the move until the horizon, given that an order was filled or not."""
        market = DRIFT.after(*self.drifts.get(str(filled), (0.0, 0.0, 0.0)))
        usual = market.scale / (market.shape - 1)
        prior = Drift(market.mean, STRENGTH, DRIFT.shape, usual * (DRIFT.shape - 1))
        return prior.after(*self.drifts.get(f"{filled}|{venue}|{state}", (0.0, 0.0, 0.0)))

    # learning

    def on_public_data(self, public: PublicData) -> None:
        context = public.context
        if not public.queues or public.at_horizon is None:
            return
        for table in (self.fills, self.rates, self.drifts):
            for values in table.values():
                values[:] = [self.decay * value for value in values]
        move = context.sign * (public.at_horizon.mid - context.mid)
        known = self.learned.pop(context.order, [])
        for venue, (ticks, _, _) in queues_now(context).items():
            if ticks == 0 and venue in public.queues:
                queue, state = public.queues[venue], venue_state(context, venue)
                for size in self._sizes(context.shares):
                    if _fill_keys(venue, state, size)[-1] not in known:
                        self._count(venue, state, size, queue.filled(size))
                _add(self.rates, f"{venue}|{state}", [float(queue.outflow), context.horizon])
                filled = queue.filled(context.shares) == context.shares
                for key in (str(filled), f"{filled}|{venue}|{state}"):
                    _add(self.drifts, key, [1.0, move, move**2])

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        states = self.asked.get(order, {})
        for child in children:
            if child.kind == "limit" and child.sent and child.place in states:
                state = states[child.place]
                self._count(child.place, state, child.sent, child.filled)
                self.learned.setdefault(order, []).append(_fill_keys(child.place, state, child.sent)[-1])
        if profit is not None:
            self.asked.pop(order, None)
            while len(self.learned) > LEARNED_ORDERS:
                del self.learned[next(iter(self.learned))]

    def _sizes(self, shares: int) -> list[int]:
        """The largest part of an order in each size class."""
        sizes = {size_class(size): size for part in range(1, self.parts + 1) if (size := shares * part // self.parts)}
        return list(sizes.values())

    def _count(self, venue: str, state: str, size: int, filled: int) -> None:
        seen = [0.0] * CLASSES
        seen[fill_class(filled, size)] = 1.0
        for key in _fill_keys(venue, state, size):
            _add(self.fills, key, seen)

    def load_memory(self, memory: dict[str, Any]) -> None:
        for name, length in (("fills", CLASSES), ("rates", 2), ("drifts", 3)):
            table = {str(key): [real_number(name, value) for value in values] for key, values in memory[name].items()}
            if any(len(values) != length for values in table.values()):
                raise InputError(f"{name} must have {length} numbers each, one had not")
            setattr(self, name, table)
        self.asked = {str(order): {str(k): str(v) for k, v in some.items()} for order, some in memory["asked"].items()}
        self.learned = {str(order): [str(key) for key in keys] for order, keys in memory["learned"].items()}
        self.decisions = whole_number("decisions", memory["decisions"], minimum=0)


def venue_state(context: Context, venue: str) -> str:
    """Bins of a venue's spread and of the imbalance of its best sizes, seen from the order's side.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"A": {"bids": [[10.00, 200]], "asks": [[10.02, 900]]}}
    >>> venue_state(read_context({"venues": books}, side="buy", shares=1), "A")
    '2-'
    """
    books, v = context.books, context.books.venues.index(venue)
    bid, ask = float(books.bid_sz[v, 0]), float(books.ask_sz[v, 0])
    wide = float(books.ask_px[v, 0] - books.bid_px[v, 0]) if bid > 0 and ask > 0 else np.inf
    ticks = int(min(max(round(min(wide / context.tick, 9)), 1), 3))
    tilt = context.sign * (bid - ask) / (bid + ask) if bid + ask > 0 else 0.0
    return f"{ticks}{'-' if tilt < -0.3 else '+' if tilt > 0.3 else '='}"


def size_class(size: float) -> int:
    """0 up to a round lot, 1 up to five, 2 above."""
    return 0 if size <= ROUND_LOT else 1 if size <= 5 * ROUND_LOT else 2


def bayes_fill_split(tables: Floats, taking: float, kappa: float, shares: int) -> Integers:
    """Parts to post at each venue for the least mean cost plus ``kappa`` times variance, in dollars a share.

    ``tables (K, parts + 1, 6)`` are those of `BayesFill.table`. Of placements that are alike the first is taken: all
    taken at once, then those of earlier venues.
    """
    splits = _compositions(len(tables), tables.shape[1] - 1)
    chosen = tables[np.arange(len(tables)), splits]
    size, filled, spread, gain, move, risk = np.moveaxis(chosen, -1, 0)
    fraction = size / shares
    unfilled = fraction * (1 - filled)
    mean = taking * (1 - fraction.sum(axis=1)) + (unfilled * (taking + move) - fraction * filled * gain).sum(axis=1)
    surprise = (fraction**2 * spread * ((gain + taking + move) ** 2 + risk)).sum(axis=1)
    common = (unfilled * np.sqrt(risk)).sum(axis=1) ** 2
    found: Integers = splits[int(np.argmin(np.round(mean + kappa * (surprise + common), 12)))]
    return found


@lru_cache(maxsize=64)
def _compositions(venues: int, parts: int) -> Integers:
    """All ways to post up to ``parts`` parts at some venues, fewest first, ``(n, venues)``.

    Examples
    --------
    >>> _compositions(2, 1).tolist()
    [[0, 0], [1, 0], [0, 1]]
    """
    every = [
        np.diff((-1, *bars)) - 1  # parts between bars; the last bar cuts off what is taken
        for bars in itertools.combinations(range(venues + parts), venues)
    ]
    ranked = sorted((tuple(split.tolist()) for split in every), key=lambda one: (sum(one), [-part for part in one]))
    return np.array(ranked, dtype=np.int64)


def _fill_keys(venue: str, state: str, size: float) -> list[str]:
    """Keys of the counts of fills from the market's to those of a venue's state."""
    kind = size_class(size)
    return [f"{kind}", f"{kind}|{venue}", f"{kind}|{venue}|{state}"]


def _add(table: dict[str, list[float]], key: str, values: list[float]) -> None:
    before = table.setdefault(key, [0.0] * len(values))
    before[:] = [old + new for old, new in zip(before, values, strict=True)]
