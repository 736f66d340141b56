"""What limit orders earn at lit venues, given the books: learned from public outcomes, of all venues at every moment.

Everybody can work out after the fact what a limit order would have earned (class F3). So nothing has to be tried: the
belief about displayed venues is a regression, in which what a venue does differently from others is shrunk towards
them. Profits are in half-spreads a share, so that coefficients mean the same for all symbols and moments.

The variance has a part that all waiting shares have in common, the move of the mid until the horizon, and parts of
their own. Products of the errors of two venues tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit

from riskroute.core.arrays import Flags, Floats, Integers, Matrix
from riskroute.core.validation import real_number
from riskroute.learning.hazard_regression import HazardRegression
from riskroute.learning.heteroscedastic import MeanVarianceEstimate, MeanVarianceRegression, MeanVarianceRows
from riskroute.learning.residual_test import ResidualTest
from riskroute.routers.context import Context
from riskroute.routers.contextual.market_features import (
    LEAST_FLOW,
    POSTING_FEATURES,
    MarketFeatures,
    PostingFeatures,
    faded,
    fill_fraction,
    horizon_class,
    posting_features,
)
from riskroute.routers.router import PublicData

# MERGED: How likely limit orders are not to fill, given how far the mid moves: a hazard regression on public outcomes.
#
# Whether an order at the end of a queue would have filled, and where the mid was at the horizon, is public. The
# log-odds
# not to fill are linear in the move, in the logarithm of the shares before its middle share over those that leave the
# queue, in the ticks behind the best price, and in the imbalance. There is one regression for horizons that are alike.
#


COVARIATES = 4
"""Numbers that log-odds depend on: move, queue over outflow, ticks behind the best price, imbalance."""

KEPT = 2000
"""Outcomes kept for every class of horizons."""

_LARGEST = 5.0  # of any covariate: outliers count as this much
_UNFILLED = 0.3  # of a market that nobody has seen yet


class FillLaw:
    """Log-odds that limit orders do not fill, by class of horizons.

    Examples
    --------
    >>> FillLaw().coefficients(60.0).round(3).tolist()
    [-0.847, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(self) -> None:
        self.classes: dict[str, HazardRegression] = {}

    def learn(self, public: PublicData, moment: MarketFeatures, seen: PostingFeatures, spread: float) -> None:
        """Learn from the outcomes of a moment; ``spread`` is the deviation of the mid that was expected, in dollars."""
        context, later = public.context, public.at_horizon
        if later is None or not spread > 0:
            return
        belief = self.classes.setdefault(_key(context.horizon), _prior())
        move = context.sign * (later.mid - context.mid) / spread
        for v, name in enumerate(context.books.venues):
            queue = public.queues.get(name)
            if queue is None or not seen.there[v]:
                continue
            behind = seen.behind[v] * moment.half_spread / context.tick
            for shares in {context.lot, context.shares}:
                ratio = np.log((seen.queue[v] + shares) / seen.outflow[v])
                row = np.clip([move, ratio, behind, moment.imbalance], -_LARGEST, _LARGEST)
                belief.add(1, int(queue.filled(shares) == shares), row)

    def coefficients(self, horizon: float) -> Floats:
        """Log-odds where all is 0, then what they rise by, ``(1 + COVARIATES,)``."""
        belief = self.classes.get(_key(horizon))
        return (_PRIOR if belief is None else belief).coef

    def knows(self, horizon: float) -> bool:
        """Whether anything was seen of horizons like this one."""
        return _key(horizon) in self.classes

    def discount(self, factor: float) -> None:
        """Count everything seen so far ``factor`` times."""
        for belief in self.classes.values():
            belief.discount(factor)

    def refresh(self) -> None:
        """Fit to what was seen."""
        for belief in self.classes.values():
            belief.refresh()

    def state(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {key: belief.state() for key, belief in self.classes.items()}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild the law of a saved state."""
        law = cls()
        law.classes = {str(key): HazardRegression.restore(one) for key, one in state.items()}
        return law


def _prior() -> HazardRegression:
    return HazardRegression([1], COVARIATES, prior_hazards=[_UNFILLED], capacity=KEPT)


def _key(horizon: float) -> str:
    return str(horizon_class(horizon))


_PRIOR = _prior()


MOST_VENUES = 24
"""Venues that get a deviation of their own; those seen later have none."""

REFRESH = 20
"""Moments between two fits."""

SETTLED = 200
"""Moments after which a belief is tested for change."""

LENT = 200.0
"""Rows at most that other symbols lend."""

_DEVIATIONS = (1.0, 0.5, 1.0, 0.5, 1.0, 0.5, 0.3, 0.3, 0.3, 0.5, 0.5)
_OWN = 0.5
_LATER_FEATURES = 4
_VOLATILITY_MEMORY = 0.98
_ROUGHNESS = 1 / 15  # squared half-spreads a second, of a market that nobody has seen yet
_MARKETS = 16  # sets of venues whose deviations are kept


class Waiting(NamedTuple):
    """What waiting until the horizon is expected to bring, for an order and a moment.

    ``cost (V, n)`` and ``variance (V, n)`` are those of limit orders of so many shares at each venue, in dollars and
    squared dollars, without what all waiting shares have in common: ``common`` squared dollars times the square of the
    shares that wait. ``later`` is the cost a share of sweeping at the horizon, and ``there`` says which venues can be
    joined. ``law (V, 4)``, ``slopes`` and ``move`` are those of `riskroute.routers.contextual.tails`.
    """

    cost: Matrix
    variance: Matrix
    there: Flags
    common: float
    later: float
    law: Matrix
    slopes: Floats
    move: float


class LitBelief:
    """Regression of the outcomes of limit orders, and of a sweep at the horizon, on the state of the books.

    Parameters
    ----------
    half_life : float
        Days after which what was seen counts half.
    venues : list[str], optional
        Venues by column; beliefs of several symbols share the list, so that one can borrow from the others.
    """

    def __init__(self, half_life: float = 5.0, venues: list[str] | None = None) -> None:
        self.half_life = real_number("half_life", half_life, above=0)
        mean = np.zeros(POSTING_FEATURES + MOST_VENUES)
        deviations = np.array([*_DEVIATIONS, *[_OWN] * MOST_VENUES])
        prior = MeanVarianceEstimate.independent(mean, deviations, [0.5, 0.5, 0.1], [0.5, 0.5, 0.3], variance=4.0)
        self.limit = MeanVarianceRegression(prior, offset_sd=0.3)
        zeros = np.zeros(_LATER_FEATURES)
        later = MeanVarianceEstimate.independent(zeros, np.full(_LATER_FEATURES, 0.5), [1.0], [1.0], variance=4.0)
        self.sweep_later = MeanVarianceRegression(later)
        self.fills = FillLaw()
        self.venues: list[str] = [] if venues is None else venues
        self.lenders: Sequence[LitBelief] = ()
        """Beliefs of other symbols."""
        self.estimate = self.limit.estimate
        """The last fit, with what was borrowed."""
        self.volatility = 0.0
        """Squared dollars a second that the mid moves; 0 if it was never seen to."""
        self.roughness = 0.0
        """The same in squared half-spreads, which other symbols can borrow."""
        self.moments, self.last, self.resets, self.settled = 0, 0, 0, 0
        self.change = ResidualTest(length=200)
        self._own: dict[tuple[str, ...], tuple[MeanVarianceEstimate, int, Floats, tuple[str, ...]]] = {}
        """By venues of a market: what each deviates by, as of an estimate, and the names of their outflows."""

    def learn(self, public: PublicData, moment: MarketFeatures) -> None:
        """Learn from the outcomes of a moment."""
        context = public.context
        if public.at_horizon is None or context.horizon <= 0:
            return
        self._forget(context.time)
        moved = (public.at_horizon.mid - context.mid) ** 2 / context.horizon
        kept = _VOLATILITY_MEMORY if self.moments else 0.0
        half = moment.half_spread
        self.volatility = kept * self.volatility + (1 - kept) * moved
        self.roughness = kept * self.roughness + (1 - kept) * moved / half**2
        self.moments += 1
        spread = np.full((1, 1), self.volatility * context.horizon / half**2)
        known = (public.at_horizon.sweep - moment.sweep) / half
        self.sweep_later.add(MeanVarianceRows(_later_features(moment), spread, np.array([known])))
        seen = posting_features(context, moment)
        self.fills.learn(public, moment, seen, math.sqrt(self.volatility * context.horizon))
        rows = self._rows(public, moment, seen)
        if rows is not None:
            self.limit.add(rows)
            if self._changed(rows):
                self.limit.reset()
                self.resets, self.settled = self.resets + 1, 0
        if self.moments % REFRESH == 0 or self.moments == 1:
            self.limit.refresh()
            self.sweep_later.refresh()
            self.fills.refresh()
            self.pool()

    def _changed(self, rows: MeanVarianceRows) -> bool:
        """Whether outcomes contradict a belief that had time to settle."""
        self.settled += 1
        if self.settled <= SETTLED:
            return False
        return self.change.add(self.limit.standardised(rows)[-1:], self.limit.estimate.kurtosis)

    def pool(self) -> None:
        """Fit with what other symbols lend: as many rows at most as `LENT`, which own ones soon outnumber."""
        others = [other.limit for other in self.lenders if other.moments]
        self.estimate = self.limit.borrowed(others, LENT).estimate if others else self.limit.estimate

    def _variance_rate(self, moment: MarketFeatures) -> float:
        """Squared dollars a second that the mid moves: as seen, or as others of the same spread, or a guess."""
        if self.moments:
            return self.volatility
        others = [other.roughness for other in self.lenders if other.moments]
        return (sum(others) / len(others) if others else _ROUGHNESS) * moment.half_spread**2

    def _forget(self, time: int) -> None:
        if self.last and time > self.last:
            factor = faded(time - self.last, self.half_life)
            if factor > 0.999:
                return
            self.limit.discount(factor)
            self.sweep_later.discount(factor)
            self.fills.discount(factor)
        self.last = time

    def _rows(self, public: PublicData, moment: MarketFeatures, seen: PostingFeatures) -> MeanVarianceRows | None:
        """Rows of all venues: a small, a middling and the largest order each; pairs of the largest ones."""
        context, half = public.context, moment.half_spread
        venues = [v for v, name in enumerate(context.books.venues) if public.outcomes.get(name, {}).get("limit")]
        venues = [v for v in venues if seen.there[v]]
        if not venues:
            return None
        told = [public.outcomes[context.books.venues[v]]["limit"] for v in venues]
        largest = len(told[0]) - 1
        doubled = [context.lot * 2.0**k for k in range(largest + 1)]
        sizes = np.array(doubled if largest else [float(context.shares)])
        picked = sorted({0, largest // 2, largest})
        some = np.array(venues)
        fill = fill_fraction(seen.queue[some], seen.outflow[some], sizes[picked])
        mean, offset = _mean_features(seen, some, fill, self._places(context))
        rewards = np.array([[profits[k] / sizes[k] for k in picked] for profits in told]) / half
        count, each = fill.shape
        var = _var_features(seen, some, self.volatility * context.horizon / half**2)
        lasts = np.arange(count) * each + each - 1
        pairs = np.array([(lasts[i], lasts[j]) for i in range(count) for j in range(i)], dtype=np.int64).reshape(-1, 2)
        between = np.zeros((len(pairs), var.shape[1]))
        between[:, 0] = var[0, 0]
        return MeanVarianceRows(
            mean.reshape(count * each, -1),
            np.repeat(var, each, axis=0),
            rewards.ravel(),
            offset=offset.ravel(),
            rounds=np.repeat(np.arange(count), each),
            pairs=pairs,
            pair_features=between,
        )

    def _places(self, context: Context) -> Integers:
        """Columns of the venues of a context; -1 for those without."""
        for name in context.books.venues:
            if name not in self.venues and len(self.venues) < MOST_VENUES:
                self.venues.append(name)
        return np.array([self.venues.index(name) if name in self.venues else -1 for name in context.books.venues])

    def waiting(self, context: Context, moment: MarketFeatures, shares: Floats) -> Waiting:
        """Return what waiting with ``shares (n,)`` is expected to bring: `postings` times coefficients, compiled."""
        books, known, half = context.books, context.features, moment.half_spread
        coef, var_coef = self.estimate.mean_coef, self.estimate.var_coef
        prices, sizes = books.side("bid" if context.sign > 0 else "ask")
        deviations, names = self._deviations(books.venues)
        flows = np.array([known.get(name, np.nan) for name in names])
        fills = self._fill_coefficients(context.horizon)
        columns = prices, sizes, books.bid_sz, books.ask_sz
        price, queue, bid, ask = np.array([column[:, 0] for column in columns])  # alike in memory for any depth
        cost, variance, there, law = _posting_tables(
            *(price, queue, bid, ask, books.makers, flows, deviations),
            *(np.array(moment), books.mid, context.sign, context.tick, context.horizon),
            *(coef[:POSTING_FEATURES], coef[-1], var_coef, fills, shares),
        )
        spread = self._variance_rate(moment) * context.horizon
        later = moment.sweep + half * float((_later_features(moment) @ self.sweep_later.estimate.mean_coef)[0])
        common, move = float(var_coef[0]) * spread, math.sqrt(spread)
        return Waiting(cost, variance, there, common, later, law, fills[1:3], move)

    def _fill_coefficients(self, horizon: float) -> Floats:
        """Those of the own law of fills, or of another symbol's if nothing was seen of this one."""
        laws = (self.fills, *(other.fills for other in self.lenders))
        return next((law for law in laws if law.knows(horizon)), self.fills).coefficients(horizon)

    def _deviations(self, venues: tuple[str, ...]) -> tuple[Floats, tuple[str, ...]]:
        """What venues deviate by, ``(V,)``, and the names of their outflows, kept until there is another estimate."""
        estimate, count = self.estimate, len(self.venues)
        kept = self._own.get(venues)
        if kept is None or kept[0] is not estimate or kept[1] != count:
            own = np.zeros(len(venues))
            for v, name in enumerate(venues):
                if name in self.venues:
                    own[v] = estimate.mean_coef[POSTING_FEATURES + self.venues.index(name)]
            if len(self._own) >= _MARKETS:
                self._own.clear()
            kept = self._own[venues] = (estimate, count, own, tuple(f"outflow {name}" for name in venues))
        return kept[2], kept[3]

    def state(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "half_life": self.half_life,
            "limit": self.limit.state(),
            "sweep_later": self.sweep_later.state(),
            "fills": self.fills.state(),
            "change": self.change.state(),
            **{name: getattr(self, name) for name in _COUNTS},
        }

    @classmethod
    def restore(cls, state: dict[str, Any], venues: list[str]) -> Self:
        """Rebuild the belief of a saved state; `pool` comes after all are rebuilt."""
        belief = cls(state["half_life"], venues)
        belief.limit = MeanVarianceRegression.restore(state["limit"])
        belief.sweep_later = MeanVarianceRegression.restore(state["sweep_later"])
        belief.fills = FillLaw.restore(state["fills"])
        belief.change = ResidualTest.restore(state["change"])
        for name in _COUNTS:
            setattr(belief, name, real_number(name, state[name], minimum=0))
        for name in _COUNTS[2:]:
            setattr(belief, name, int(getattr(belief, name)))
        belief.estimate = belief.limit.estimate
        return belief


_COUNTS = ("volatility", "roughness", "moments", "last", "resets", "settled")


def _later_features(moment: MarketFeatures) -> Matrix:
    half = moment.half_spread
    return np.array([[1.0, moment.imbalance, moment.lean / half, moment.sweep / half]])


def _mean_features(seen: PostingFeatures, venues: Integers, fill: Matrix, places: Integers) -> tuple[Floats, Matrix]:
    """Features ``(V, n, p)`` and known parts ``(V, n)`` of limit orders at some venues."""
    common = seen.fixed[venues][:, None, :] + fill[:, :, None] * seen.filled[venues][:, None, :]
    own = np.zeros((*fill.shape, MOST_VENUES))
    for row, place in enumerate(places[venues]):
        if place >= 0:
            own[row, :, place] = 1.0
    offset = seen.offset[venues][:, None] + fill * seen.offset_filled[venues][:, None]
    return np.concatenate([common, own], axis=2), offset


def _var_features(seen: PostingFeatures, venues: Integers, spread: float) -> Matrix:
    """Variance a share in squared half-spreads: the common move, luck in the queue, and how far behind it is."""
    count = len(venues)
    return np.stack([np.full(count, spread), np.ones(count), np.maximum(seen.behind[venues], 0.0)], axis=1)


@njit(cache=True)
def _posting_tables(
    prices: Floats,
    queues: Floats,
    bids: Floats,
    asks: Floats,
    makers: Floats,
    flows: Floats,
    deviations: Floats,
    moment: Floats,
    mid: float,
    sign: int,
    tick: float,
    horizon: float,
    coef: Floats,
    trust: float,
    var_coef: Floats,
    fills: Floats,
    shares: Floats,
) -> tuple[Matrix, Matrix, Flags, Matrix]:
    """Cost and own variance of limit orders at every venue, ``(V, n)``, which can be joined, and the law of fills."""
    half, imbalance, lean, sweep = moment[0], moment[1], moment[2], moment[3]
    count, width = len(prices), len(shares)
    cost, variance = np.zeros((count, width)), np.zeros((count, width))
    there, law = np.zeros(count, dtype=np.bool_), np.zeros((count, 4))
    common = coef[0] + coef[1] * imbalance + coef[2] * lean / half + coef[8] * sweep / half - trust * sweep / half
    for v in range(count):
        there[v] = queues[v] > 0 and np.isfinite(flows[v])
        if not there[v]:
            continue
        distance, outflow = sign * (mid - prices[v]), flows[v] * horizon + LEAST_FLOW
        behind = (distance - half) / half
        own = sign * (bids[v] - asks[v]) / (bids[v] + asks[v] + 1)
        fixed = common + deviations[v] + coef[3] * own + coef[4] * behind + coef[5] * behind * behind * half / tick
        fixed += (coef[6] * np.log1p(queues[v] / 100) + coef[7] * np.log1p(outflow / 100)) * tick / half
        filled = coef[9] + coef[10] * behind + trust * ((distance - makers[v] + sweep) / half)
        alone = var_coef[1] + var_coef[2] * max(behind, 0.0)
        reached = np.exp(-queues[v] / outflow)
        law[v, 0], law[v, 2], law[v, 3] = makers[v] - distance, queues[v], outflow
        law[v, 1] = fills[0] + fills[3] * min(behind * half / tick, 5.0) + fills[4] * imbalance
        for k in range(width):
            n = shares[k]
            ratio = n / outflow
            fill = reached * (-np.expm1(-ratio) / ratio if ratio > 0 else 1.0)
            cost[v, k] = -half * n * (fixed + filled * fill)
            variance[v, k] = half * half * alone * n * n
    return cost, variance, there, law
