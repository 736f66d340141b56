"""Bayesian limit order placement after Baldacci and Manziuk: conjugate beliefs about fills in each state of a venue.

The paper solves a control problem again after each update of the conjugate beliefs. Here an order is split once; only
the update follows the paper.

References
----------
B. Baldacci, I. Manziuk, "Adaptive trading strategies across liquidity pools" (2020), https://arxiv.org/abs/2008.07807
A. Gelman, J. Carlin, H. Stern, D. Dunson, A. Vehtari, D. Rubin, "Bayesian data analysis", 3rd edition (2013),
chapters 2 and 3, http://www.stat.columbia.edu/~gelman/book/
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, ClassVar, NamedTuple

import msgspec
import numpy as np

from riskroute.core.arrays import Floats, Integers, Vector
from riskroute.core.records import Count, NonNegative
from riskroute.core.validation import parameter, real_number, true_or_false, whole_number
from riskroute.routers.context import Context
from riskroute.routers.literature.cont_kukanov import cont_kukanov_queues
from riskroute.routers.plan import Plan
from riskroute.routers.public_data import PublicData
from riskroute.routers.report import ChildReport
from riskroute.routers.risk import BALANCED, RiskProfile, risk_profile
from riskroute.routers.router import Router
from riskroute.routers.rules import sweep_rule_plan
from riskroute.routing.allocations import proportional_allocation

# representative filled fraction of each class: 0, up to 1/4, up to 1/2, up to 3/4, below 1, and 1
FILL_FRACTIONS = np.array([0.0, 0.125, 0.375, 0.625, 0.875, 1.0])
_PRIOR_STRENGTH = 6.0  # weight of a prior, in observations


def _fill_class(filled: int, sent: int) -> int:
    """Return the class of a filled fraction, an index of `FILL_FRACTIONS`."""
    if filled <= 0:
        return 0
    return 5 if filled >= sent else min(-(-4 * filled // sent), 4)


def _dirichlet_moments(weights: Vector) -> tuple[float, float]:
    """Return predictive mean and variance of the filled fraction under a Dirichlet posterior over the classes."""
    chances = weights / weights.sum()
    mean = float(chances @ FILL_FRACTIONS)
    return mean, float(chances @ FILL_FRACTIONS**2) - mean**2


class _Drift(NamedTuple):
    """Normal-inverse-gamma posterior of price moves in dollars; ``mean`` has the weight of ``times`` observations."""

    mean: float
    times: float
    shape: float  # shape of the inverse gamma posterior of the variance
    scale: float

    def after(self, number: float, total: float, squares: float) -> _Drift:
        """Return the posterior after ``number`` (possibly discounted) moves, given their sum and sum of squares."""
        if number <= 0:
            return self
        mean, times = total / number, self.times + number
        spread = max(squares - number * mean**2, 0.0)
        between = self.times * number * (mean - self.mean) ** 2 / times
        centre, scale = (self.times * self.mean + total) / times, self.scale + (spread + between) / 2
        return _Drift(centre, times, self.shape + number / 2, scale)

    @property
    def variance(self) -> float:
        """Predictive variance of the next move: Student distributed, with ``2 shape`` degrees of freedom."""
        return self.scale / (self.shape - 1) * (1 + 1 / self.times)

    def draw(self, rng: np.random.Generator) -> tuple[float, float]:
        """Draw mean and variance of the moves from the posterior."""
        variance = self.scale / rng.gamma(self.shape)
        return float(rng.normal(self.mean, np.sqrt(variance / self.times))), float(variance)


def _dirichlet_weights(levels: list[Floats], strength: float) -> Floats:
    """Return Dirichlet parameters by hierarchical shrinkage; ``levels`` are counts, the most general first."""
    frequencies = np.full(len(FILL_FRACTIONS), 1 / len(FILL_FRACTIONS))
    weights = frequencies
    for counts in levels:
        weights = strength * frequencies + counts
        frequencies = weights / weights.sum()
    return weights


@dataclass
class BayesFill(Router):
    """Post and take to minimise predictive cost plus a charge for predictive variance, under conjugate posteriors.

    A venue's state is its spread (1, 2 or 3+ ticks) and the imbalance of its best sizes, signed by the order's side
    (below -0.3, above 0.3, between); order sizes are up to 100 shares, up to 500, or more. The filled fraction of each
    state and size has a Dirichlet posterior over six classes, shrunk towards the venue's frequencies and these towards
    the market's. Outflow rates are Gamma, moves of the mid until the horizon Normal-inverse-gamma, separately for
    filled and unfilled orders. Unfilled shares are swept at the horizon, at the cost at arrival plus the move. Moves
    are common to all venues; fills are independent. Only the six quickest venues at the market's best price are used.

    Public data of every order update every venue; own fills replace public outcomes where available.

    Parameters
    ----------
    parts : int
        Number of equal parts of an order; posted sizes are multiples of a part.
    risk : RiskProfile
        Risk profile, its name, or kappa: basis points charged per squared basis point of variance. The tail is not
        capped.
    decay : float
        Discount factor of past observations, per order.
    sample : bool
        Use Thompson sampling: draw from the posteriors instead of averaging over them.
    seed : int
        Seed of the draws.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> from riskroute.routers.public_data import PublicMarketAtHorizon, PublicQueueOutflow
    >>> fees = {"taker": "0.003 per share", "maker": "-0.002 per share"}
    >>> books = {"A": {"bids": [[10.00, 200]], "asks": [[10.01, 900]], **fees}}
    >>> def order(name):
    ...     return read_context({"venues": books}, side="buy", shares=400, horizon=60, order=name)
    >>> router = BayesFill(decay=1.0)
    >>> for name in "abcdef":
    ...     queues = {"A": PublicQueueOutflow(10.0, 200, 900)}
    ...     router.on_public_data(PublicData(order(name), {}, queues, PublicMarketAtHorizon(10.005, 0.008)))
    >>> router.weights("A", _venue_state(order("g"), "A"), 400).round(2).tolist()
    [0.25, 0.25, 0.25, 0.25, 0.25, 10.75]
    >>> router.route(order("g")).limit
    {'A': 400}
    """

    name: ClassVar[str] = "bayes-fill"
    feedback: ClassVar[str] = "F3"
    memory: ClassVar[tuple[str, ...]] = ("fills", "rates", "drifts", "pending", "learned", "decisions")
    parts: int = parameter(4, whole_number, maximum=8)
    risk: RiskProfile = parameter(BALANCED, risk_profile)
    decay: float = parameter(0.995, real_number, above=0, maximum=1)
    sample: bool = parameter(False, true_or_false)
    seed: int = parameter(0, whole_number, minimum=0)
    # priors: zero mean move, a variance of one squared cent, and an outflow of one share in one second
    drift_prior: ClassVar[_Drift] = _Drift(0.0, 1.0, 2.0, 1e-4)
    rate_prior: ClassVar[tuple[float, float]] = (1.0, 1.0)
    # counts of fill classes, by size, venue and state
    fills: dict[str, Annotated[list[NonNegative], msgspec.Meta(min_length=6, max_length=6)]] = field(
        init=False, repr=False
    )
    # shares that left a queue, and seconds, by venue and state
    rates: dict[str, Annotated[list[NonNegative], msgspec.Meta(min_length=2, max_length=2)]] = field(
        init=False, repr=False
    )
    # number, sum and sum of squares of moves in dollars, by whether the order filled, and by venue and state
    drifts: dict[str, Annotated[list[float], msgspec.Meta(min_length=3, max_length=3)]] = field(init=False, repr=False)
    pending: dict[str, dict[str, str]] = field(init=False, repr=False)  # by open order: states of the venues posted at
    learned: dict[str, list[str]] = field(init=False, repr=False)  # by order: keys counted from own fills
    decisions: Count = field(init=False, repr=False)

    def begin(self) -> None:
        self.fills, self.rates, self.drifts, self.pending, self.learned = {}, {}, {}, {}, {}
        self.decisions = 0

    # deciding

    def decide(self, context: Context) -> Plan:
        self.decisions += 1
        standing = {venue: queue for venue, queue in cont_kukanov_queues(context).items() if queue[0] == 0}
        if context.horizon <= 0 or not standing:
            return sweep_rule_plan(context)
        states = {venue: _venue_state(context, venue) for venue in standing}
        quickest = sorted(standing, key=lambda venue: (standing[venue][1] / self.rate(venue, states[venue]), venue))
        del quickest[6:]  # all splits over the remaining venues are enumerated
        rng = np.random.default_rng([self.seed, self.decisions]) if self.sample else None
        tables = [self.table(context, venue, states[venue], standing[venue][2], rng) for venue in quickest]
        taking = float(context.displayed.costs(context.shares)) / context.shares
        split = _best_split(np.array(tables), taking, self.risk.kappa / context.value_price * 1e4, context.shares)
        taken = self.parts - int(split.sum())
        shares = proportional_allocation(np.append(float(taken), split), context.shares, context.lot)[1:]
        posted = {venue: int(some) for venue, some in zip(quickest, shares, strict=True) if some}
        self.pending[context.order] = {venue: states[venue] for venue in posted}
        return sweep_rule_plan(context, posted)

    def table(
        self, context: Context, venue: str, state: str, gain: float, rng: np.random.Generator | None = None
    ) -> Floats:
        """Return predictive moments of posting 0 .. all parts at a venue, ``(parts + 1, 6)``, or posterior draws.

        Columns are shares, mean and variance of the filled fraction, gain per filled share, and mean and variance
        of the move given no fill.
        """
        drift = self.drift(venue, state, filled=False)
        move = (drift.mean, drift.variance) if rng is None else drift.draw(rng)
        moments: dict[int, tuple[float, float]] = {}
        rows = []
        for part in range(self.parts + 1):
            size = context.shares * part / self.parts
            kind = _size_class(size)
            if kind not in moments:
                weights = self.weights(venue, state, size)
                moments[kind] = _dirichlet_moments(weights if rng is None else rng.dirichlet(weights))
            rows.append((size, *moments[kind], gain, *move))
        return np.array(rows)

    def weights(self, venue: str, state: str, size: float) -> Floats:
        """Return the Dirichlet parameters of the fill classes for a venue, state and size."""
        keys = _fill_keys(venue, state, size)
        return _dirichlet_weights(
            [np.array(self.fills.get(key, [0.0] * len(FILL_FRACTIONS))) for key in keys], _PRIOR_STRENGTH
        )

    def rate(self, venue: str, state: str) -> float:
        """Return the posterior mean outflow of a venue in a state, shares per second."""
        shares, seconds = self.rates.get(f"{venue}|{state}", (0.0, 0.0))
        return (self.rate_prior[0] + shares) / (self.rate_prior[1] + seconds)

    def drift(self, venue: str, state: str, *, filled: bool) -> _Drift:
        """Return the posterior of the move until the horizon, given a fill or no fill."""
        market = self.drift_prior.after(*self.drifts.get(str(filled), (0.0, 0.0, 0.0)))
        usual = market.scale / (market.shape - 1)
        prior = _Drift(market.mean, _PRIOR_STRENGTH, self.drift_prior.shape, usual * (self.drift_prior.shape - 1))
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
        for venue, (ticks, _, _) in cont_kukanov_queues(context).items():
            if ticks == 0 and venue in public.queues:
                queue, state = public.queues[venue], _venue_state(context, venue)
                for size in self._sizes(context.shares):
                    if _fill_keys(venue, state, size)[-1] not in known:
                        self._count(venue, state, size, queue.filled(size))
                _add(self.rates, f"{venue}|{state}", [float(queue.outflow), context.horizon])
                filled = queue.filled(context.shares) == context.shares
                for key in (str(filled), f"{filled}|{venue}|{state}"):
                    _add(self.drifts, key, [1.0, move, move**2])

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        states = self.pending.get(order, {})
        for child in children:
            if child.kind == "limit" and child.sent and child.place in states:
                state = states[child.place]
                self._count(child.place, state, child.sent, child.filled)
                self.learned.setdefault(order, []).append(_fill_keys(child.place, state, child.sent)[-1])
        if profit is not None:
            self.pending.pop(order, None)
            while len(self.learned) > 1000:  # public data follow soon after
                del self.learned[next(iter(self.learned))]

    def _sizes(self, shares: int) -> list[int]:
        """Return the largest multiple of a part in each size class."""
        sizes = {_size_class(size): size for part in range(1, self.parts + 1) if (size := shares * part // self.parts)}
        return list(sizes.values())

    def _count(self, venue: str, state: str, size: int, filled: int) -> None:
        seen = [0.0] * len(FILL_FRACTIONS)
        seen[_fill_class(filled, size)] = 1.0
        for key in _fill_keys(venue, state, size):
            _add(self.fills, key, seen)


def _venue_state(context: Context, venue: str) -> str:
    """Return the bins of a venue's spread in ticks and of its imbalance, signed by the order's side."""
    books, v = context.books, context.books.venues.index(venue)
    bid, ask = float(books.bid_sz[v, 0]), float(books.ask_sz[v, 0])
    wide = float(books.ask_px[v, 0] - books.bid_px[v, 0]) if bid > 0 and ask > 0 else np.inf
    ticks = int(min(max(round(min(wide / context.tick, 9)), 1), 3))
    tilt = context.sign * (bid - ask) / (bid + ask) if bid + ask > 0 else 0.0
    return f"{ticks}{'-' if tilt < -0.3 else '+' if tilt > 0.3 else '='}"


def _size_class(size: float) -> int:
    """Return the class of an order size: 0 up to 100 shares, 1 up to 500, 2 above."""
    return 0 if size <= 100 else 1 if size <= 500 else 2


def _best_split(tables: Floats, taking: float, kappa: float, shares: int) -> Integers:
    """Return the best numbers of parts to post by venue, from tables of `BayesFill.table`; ties go to fewer parts."""
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
    """Return all allocations of up to ``parts`` parts to venues, fewest parts first, ``(n, venues)``."""
    every = [
        np.diff((-1, *bars)) - 1  # stars and bars; parts after the last bar are taken
        for bars in itertools.combinations(range(venues + parts), venues)
    ]
    ranked = sorted((tuple(split.tolist()) for split in every), key=lambda one: (sum(one), [-part for part in one]))
    return np.array(ranked, dtype=np.int64)


def _fill_keys(venue: str, state: str, size: float) -> list[str]:
    """Return the keys of fill counts, from the most general (the market) to the venue's state."""
    kind = _size_class(size)
    return [f"{kind}", f"{kind}|{venue}", f"{kind}|{venue}|{state}"]


def _add(table: dict[str, list[float]], key: str, values: list[float]) -> None:
    before = table.setdefault(key, [0.0] * len(values))
    before[:] = [old + new for old, new in zip(before, values, strict=True)]
