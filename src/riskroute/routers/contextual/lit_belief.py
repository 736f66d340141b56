"""Posterior of limit order outcomes at lit venues, given the books: learned from public data of all venues.

Public data give the counterfactual profit of any limit order (feedback F3), so lit venues need no exploration. The
belief is a heteroscedastic linear regression with venue effects shrunk towards 0. Profits are in half-spreads per
share, which makes coefficients comparable across symbols and times.

The variance has a component common to all waiting shares, the move of the mid until the horizon, and one per place.
Products of the residuals of two venues identify the common component.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numba import njit

from riskroute.core.arrays import Flags, Floats, Integers, Matrix
from riskroute.core.records import Count, NonNegative, from_plain
from riskroute.core.validation import real_number
from riskroute.learning.logistic_regression import LogisticRegression
from riskroute.learning.mean_variance_regression import (
    MeanVarianceEstimate,
    MeanVarianceRegression,
    MeanVarianceRegressionRows,
    RegressionResidualTest,
)
from riskroute.routers.context import Context
from riskroute.routers.contextual.market_features import MarketFeatures, horizon_feature
from riskroute.routers.contextual.wait_or_trade import WaitOrTradeModel, interpolate
from riskroute.routers.public_data import PublicData

_POSTING_FEATURES = 13  # features of a limit order, without venue effects
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)  # quadrature of a standard normal distribution
_WEIGHTS /= _WEIGHTS.sum()
_LEAST_FLOW = 1e-6  # shares added to every outflow, which is a divisor
MOST_VENUES = 24  # maximum number of venues with an effect; further venues have none


class _PostingFeatures(NamedTuple):
    """Features of limit orders at the best own-side price of each venue, ``(V,)`` or ``(V, _POSTING_FEATURES)``.

    The profit of an order, in half-spreads per share, is linear in ``fixed + fill * filled`` with a known offset:
    ``earned`` for a filled share, minus the cost of a sweep now for an unfilled share. ``fill`` is the expected filled
    fraction if the outflow until the horizon is exponential with mean ``outflow``. ``behind`` is the distance from the
    market's best price in half-spreads. ``there`` is false for venues with an empty queue or an unknown outflow: no
    order can be posted there.
    """

    there: Flags
    queue: Floats
    outflow: Floats
    behind: Floats
    earned: Floats
    fixed: Matrix
    filled: Matrix


def _posting_features(context: Context, market: MarketFeatures, move: float = 0.0) -> _PostingFeatures:
    """Return the features of a limit order at every venue; ``move`` is the mid's move in half-spreads."""
    books, sign, half = context.books, context.sign, market.half_spread
    own = "bid" if sign > 0 else "ask"
    prices, sizes = books.side(own)
    price, queue = prices[:, 0], sizes[:, 0]
    known = context.features
    flows = [known.get(f"outflow {name}", np.nan) for name in books.venues]
    outflow = np.array(flows) * context.horizon + _LEAST_FLOW
    there = (queue > 0) & np.isfinite(outflow)
    outflow[~there] = _LEAST_FLOW
    distance = np.where(there, sign * (books.mid - price), half)
    behind = (distance - half) / half
    own_imbalance = sign * (books.bid_sz[:, 0] - books.ask_sz[:, 0]) / (books.bid_sz[:, 0] + books.ask_sz[:, 0] + 1)
    sweep = market.sweep / half
    tick = context.tick / half
    count = len(price)
    fixed, filled = np.zeros((count, _POSTING_FEATURES)), np.zeros((count, _POSTING_FEATURES))
    fixed[:, 0] = 1.0
    fixed[:, 1] = market.imbalance
    fixed[:, 2] = market.lean / half
    fixed[:, 3] = own_imbalance
    fixed[:, 4] = behind
    fixed[:, 5] = behind * behind / tick
    fixed[:, 6] = np.log1p(queue / 100) * tick
    fixed[:, 7] = np.log1p(outflow / 100) * tick
    fixed[:, 8] = sweep
    filled[:, 9] = 1.0
    filled[:, 10] = behind
    fixed[:, 11] = filled[:, 12] = move
    earned = (distance - books.post_fees(own)) / half
    return _PostingFeatures(there, queue, outflow, behind, earned, fixed, filled)


def _fill_fraction(queue: Floats, outflow: Floats, shares: Floats) -> Matrix:
    """Return the expected filled fraction of limit orders under exponential outflows, ``(V, n)``."""
    ratio = shares / outflow[:, None]
    reached = np.exp(-queue / outflow)[:, None]
    return np.asarray(reached * np.where(ratio > 0, -np.expm1(-ratio) / np.where(ratio > 0, ratio, 1.0), 1.0))


class _FillModel:
    """Log-odds that a limit order does not fill, by horizon class: logistic regressions on public outcomes."""

    def __init__(self) -> None:
        self.classes: dict[str, LogisticRegression] = {}

    def learn(self, public: PublicData, market: MarketFeatures, posted: _PostingFeatures, mid_sd: float) -> None:
        """Learn from one order's public data; ``mid_sd`` is the predicted standard deviation of the mid, in dollars."""
        context, at_horizon = public.context, public.at_horizon
        if at_horizon is None or not mid_sd > 0:
            return
        # covariates: move in standard deviations, log of queue and own shares over outflow, ticks behind, imbalance
        regression = self.classes.setdefault(_key(context.horizon), _fill_prior())
        move = context.sign * (at_horizon.mid - context.mid) / mid_sd
        for v, name in enumerate(context.books.venues):
            queue = public.queues.get(name)
            if queue is None or not posted.there[v]:
                continue
            behind = posted.behind[v] * market.half_spread / context.tick
            for shares in {context.lot, context.shares}:
                ratio = np.log((posted.queue[v] + shares) / posted.outflow[v])
                row = np.clip([move, ratio, behind, market.imbalance], -5.0, 5.0)  # limit the leverage of outliers
                regression.add(queue.filled(shares) < shares, row)

    def coefficients(self, horizon: float) -> Floats:
        """Return intercept and slopes for a horizon, ``(5,)``."""
        regression = self.classes.get(_key(horizon))
        return _prior_coefficients() if regression is None else regression.coef

    def knows(self, horizon: float) -> bool:
        """Return whether outcomes of this horizon class were learned."""
        return _key(horizon) in self.classes

    def discount(self, factor: float) -> None:
        """Down-weight all observations by ``factor``."""
        for regression in self.classes.values():
            regression.discount(factor)

    def refresh(self) -> None:
        """Refit all regressions."""
        for regression in self.classes.values():
            regression.refresh()


def _fill_prior() -> LogisticRegression:
    return LogisticRegression(4, prior=0.3)  # 30 % unfilled before any data


@cache
def _prior_coefficients() -> Floats:
    return _fill_prior().coef


def _key(horizon: float) -> str:
    return str(horizon_feature(horizon))


class _PostingForecast(NamedTuple):
    """Predicted outcome of limit orders of ``n`` sizes at ``m`` venues until the horizon, in dollars."""

    venues: list[int]  # indices of the venues to post at
    cost: Matrix  # (m, n), without sweeping the unfilled shares
    variance: Matrix  # (m, n), without the variance of the mid
    left: Matrix  # (m, n), expected shares that do not fill
    exposed: Matrix  # (m, n), shares exposed to the mid
    horizon: WaitOrTradeModel


class LitBelief:
    """Regressions of limit order outcomes, and of the sweep cost at the horizon, on market features.

    ``half_life`` is the half-life of observations, in days. ``venues`` lists the venues with an effect, in column
    order; symbols share the list, so that they can borrow evidence from each other.
    """

    refit_every: ClassVar[int] = 20  # observed orders between fits
    settling: ClassVar[int] = 200  # observed orders before the test for change points starts
    borrowed_rows: ClassVar[float] = 200.0  # maximum weight of other symbols' evidence, soon outweighed by own rows
    _saved: ClassVar[dict[str, Any]] = {
        **dict.fromkeys(("volatility", "roughness"), NonNegative),
        **dict.fromkeys(("moments", "last", "resets", "settled"), Count),
    }

    def __init__(self, half_life: float = 5.0, venues: list[str] | None = None) -> None:
        self.half_life = real_number("half_life", half_life, above=0)
        mean = np.zeros(_POSTING_FEATURES + MOST_VENUES)
        mean[11:13] = -1.0, 1.0  # unfilled shares follow the mid, filled shares do not
        # prior standard deviations of the coefficients, in half-spreads: features, then venue effects
        deviations = np.array([1.0, 0.5, 1.0, 0.5, 1.0, 0.5, 0.3, 0.3, 0.3, 0.5, 0.5, 1.0, 1.0, *[0.5] * MOST_VENUES])
        prior = MeanVarianceEstimate.independent(mean, deviations, [0.5, 0.5, 0.1], [0.5, 0.5, 0.3], variance=4.0)
        self.limit = MeanVarianceRegression(prior, offset_sd=0.3)
        sweep_prior = MeanVarianceEstimate.independent(np.zeros(5), np.full(5, 0.5), [1.0], [1.0], variance=4.0)
        self.horizon_sweep = MeanVarianceRegression(sweep_prior)
        # without an intercept: buy and sell orders meet opposite moves of the mid
        drift_prior = MeanVarianceEstimate.independent(np.zeros(2), np.full(2, 0.5), [1.0], [1.0], variance=4.0)
        self.drift = MeanVarianceRegression(drift_prior)
        self.fills = _FillModel()
        self.venues: list[str] = [] if venues is None else venues
        self.lenders: Sequence[LitBelief] = ()  # beliefs of other symbols, to borrow evidence from
        self.estimate = self.limit.estimate  # last fit, with borrowed evidence
        self.volatility = 0.0  # variance of the mid, squared dollars per second; 0 before the first observation
        self.roughness = 0.0  # variance of the mid, squared half-spreads per second: comparable across symbols
        self.moments, self.last, self.resets, self.settled = 0, 0, 0, 0
        self.change = RegressionResidualTest(length=200)
        # venue effects and names of outflow features, by venue list, valid for one estimate
        self._effects: dict[tuple[str, ...], tuple[MeanVarianceEstimate, int, Floats, tuple[str, ...]]] = {}

    def learn(self, public: PublicData, market: MarketFeatures) -> None:
        """Learn from the public data of one order."""
        context = public.context
        if public.at_horizon is None or context.horizon <= 0:
            return
        self._discount(context.time)
        moved = (public.at_horizon.mid - context.mid) ** 2 / context.horizon
        kept = 0.98 if self.moments else 0.0
        half = market.half_spread
        self.volatility = kept * self.volatility + (1 - kept) * moved
        self.roughness = kept * self.roughness + (1 - kept) * moved / half**2
        self.moments += 1
        spread = np.full((1, 1), self.volatility * context.horizon / half**2)
        move = context.sign * (public.at_horizon.mid - context.mid) / half
        rise = (public.at_horizon.sweep - market.sweep) / half - move
        self.drift.add(MeanVarianceRegressionRows(_drift_features(market), spread, np.array([move])))
        features = _sweep_features(market, context.tick)
        self.horizon_sweep.add(MeanVarianceRegressionRows(features, spread, np.array([rise])))
        posted = _posting_features(context, market, move)
        self.fills.learn(public, market, posted, math.sqrt(self.volatility * context.horizon))
        rows = self._rows(public, market, posted)
        if rows is not None:
            self.limit.add(rows)
            if self._changed(rows):
                self.limit.reset()
                self.resets, self.settled = self.resets + 1, 0
        if self.moments % self.refit_every == 0 or self.moments == 1:
            self.limit.refresh()
            self.horizon_sweep.refresh()
            self.drift.refresh()
            self.fills.refresh()
            self.borrow()

    def _changed(self, rows: MeanVarianceRegressionRows) -> bool:
        """Return whether the test for change points rejects a settled belief."""
        self.settled += 1
        if self.settled <= self.settling:
            return False
        return self.change.add(self.limit.standardised(rows)[-1:], self.limit.estimate.kurtosis)

    def borrow(self) -> None:
        """Refit with evidence borrowed from other symbols."""
        others = [other.limit for other in self.lenders if other.moments]
        self.estimate = self.limit.borrowed(others, self.borrowed_rows).estimate if others else self.limit.estimate

    def _variance_rate(self, market: MarketFeatures) -> float:
        """Return the variance of the mid in squared dollars per second; before any data, from other symbols."""
        if self.moments:
            return self.volatility
        others = [other.roughness for other in self.lenders if other.moments]
        return (sum(others) / len(others) if others else 1 / 15) * market.half_spread**2

    def _discount(self, time: int) -> None:
        if self.last and time > self.last:
            factor = 0.5 ** ((time - self.last) / (self.half_life * 8.64e13))  # half-life in days
            if factor > 0.999:  # negligible: discount later, for a longer time
                return
            self.limit.discount(factor)
            self.horizon_sweep.discount(factor)
            self.drift.discount(factor)
            self.fills.discount(factor)
        self.last = time

    def _rows(
        self, public: PublicData, market: MarketFeatures, posted: _PostingFeatures
    ) -> MeanVarianceRegressionRows | None:
        """Return rows for the smallest, middle and largest size at every venue, and venue pairs for the largest."""
        context, half = public.context, market.half_spread
        venues = [v for v, name in enumerate(context.books.venues) if public.outcomes.get(name, {}).get("limit")]
        venues = [v for v in venues if posted.there[v]]
        if not venues:
            return None
        outcomes = [public.outcomes[context.books.venues[v]]["limit"] for v in venues]
        largest = len(outcomes[0]) - 1
        doubled = [context.lot * 2.0**k for k in range(largest + 1)]
        sizes = np.array(doubled if largest else [float(context.shares)])
        picked = sorted({0, largest // 2, largest})
        some = np.array(venues)
        fill = _fill_fraction(posted.queue[some], posted.outflow[some], sizes[picked])
        sweeps = context.displayed.costs(sizes[picked]) / sizes[picked] / half
        mean, offset = _mean_features(posted, some, fill, self._columns(context), sweeps)
        rewards = np.array([[profits[k] / sizes[k] for k in picked] for profits in outcomes]) / half
        count, each = fill.shape
        var = _var_features(posted, some, self.volatility * context.horizon / half**2)
        lasts = np.arange(count) * each + each - 1
        pairs = np.array([(lasts[i], lasts[j]) for i in range(count) for j in range(i)], dtype=np.int64).reshape(-1, 2)
        between = np.zeros((len(pairs), var.shape[1]))
        between[:, 0] = var[0, 0]
        return MeanVarianceRegressionRows(
            mean.reshape(count * each, -1),
            np.repeat(var, each, axis=0),
            rewards.ravel(),
            offset=offset.ravel(),
            rounds=np.zeros(count * each, dtype=np.int64),  # rows of one order depend on the same prices
            pairs=pairs,
            pair_features=between,
        )

    def _columns(self, context: Context) -> Integers:
        """Return the columns of the venue effects, ``(V,)``; -1 for a venue without one."""
        for name in context.books.venues:
            if name not in self.venues and len(self.venues) < MOST_VENUES:
                self.venues.append(name)
        return np.array([self.venues.index(name) if name in self.venues else -1 for name in context.books.venues])

    def forecast(self, context: Context, market: MarketFeatures, shares: Floats, sweep: Floats) -> _PostingForecast:
        """Return predicted outcomes of limit orders of ``shares (n,)`` by venue; sweeping now costs ``sweep (n,)``."""
        books, known, half = context.books, context.features, market.half_spread
        coef = self.estimate.mean_coef
        own = "bid" if context.sign > 0 else "ask"
        prices, sizes = books.side(own)
        effects, names = self._venue_effects(books.venues)
        flows = np.array([known.get(name, np.nan) for name in names])
        fills = self._fill_coefficients(context.horizon)
        best = prices[:, 0], sizes[:, 0], books.bid_sz[:, 0], books.ask_sz[:, 0]
        drift = float((_drift_features(market) @ self.drift.estimate.mean_coef)[0])
        rise = half * (
            float((_sweep_features(market, context.tick) @ self.horizon_sweep.estimate.mean_coef)[0]) + drift
        )
        terms = np.array([*market, books.mid, context.sign, context.tick, context.horizon, drift])
        places = np.array([*best, books.post_fees(own), flows, effects])
        mid_sd = math.sqrt(self._variance_rate(market) * context.horizon)
        found = _posting_tables(places, terms, coef, fills, shares, sweep + rise * shares, mid_sd)
        there, cost, variance, left, exposed, model = found
        horizon = WaitOrTradeModel(model, fills[1:3], market.sweep + rise, mid_sd)
        return _PostingForecast(there.tolist(), cost, variance, left, exposed, horizon)

    def _fill_coefficients(self, horizon: float) -> Floats:
        """Return the coefficients of the symbol's fill model; before the first outcome, of another symbol's model."""
        models = (self.fills, *(other.fills for other in self.lenders))
        return next((model for model in models if model.knows(horizon)), self.fills).coefficients(horizon)

    def _venue_effects(self, venues: tuple[str, ...]) -> tuple[Floats, tuple[str, ...]]:
        """Return the venue effects, ``(V,)``, and the names of the outflow features, cached per estimate."""
        estimate, count = self.estimate, len(self.venues)
        known = self._effects.get(venues)
        if known is None or known[0] is not estimate or known[1] != count:
            effects = np.zeros(len(venues))
            for v, name in enumerate(venues):
                if name in self.venues:
                    effects[v] = estimate.mean_coef[_POSTING_FEATURES + self.venues.index(name)]
            if len(self._effects) >= 16:  # venue lists rarely change
                self._effects.clear()
            known = self._effects[venues] = (estimate, count, effects, tuple(f"outflow {name}" for name in venues))
        return known[2], known[3]

    def state(self) -> dict[str, Any]:
        """Return the complete state as plain values."""
        return {
            "half_life": self.half_life,
            "limit": self.limit.state(),
            "horizon_sweep": self.horizon_sweep.state(),
            "drift": self.drift.state(),
            "fills": {key: regression.state() for key, regression in self.fills.classes.items()},
            "change": self.change.state(),
            **{name: getattr(self, name) for name in self._saved},
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any], venues: list[str]) -> Self:
        """Rebuild a belief from a saved state; call `borrow` after all symbols are rebuilt."""
        belief = cls(state["half_life"], venues)
        belief.limit = MeanVarianceRegression.restore(state["limit"])
        belief.horizon_sweep = MeanVarianceRegression.restore(state["horizon_sweep"])
        belief.drift = MeanVarianceRegression.restore(state["drift"])
        belief.fills.classes = {key: LogisticRegression.restore(one) for key, one in state["fills"].items()}
        belief.change = RegressionResidualTest.restore(state["change"])
        for name, kind in cls._saved.items():
            setattr(belief, name, from_plain(kind, state[name], name))
        belief.estimate = belief.limit.estimate
        return belief


def _sweep_features(market: MarketFeatures, tick: float) -> Matrix:
    half = market.half_spread
    return np.array([[1.0, market.imbalance, market.lean / half, market.sweep / half, tick / half]])


def _drift_features(market: MarketFeatures) -> Matrix:
    return np.array([[market.imbalance, market.lean / market.half_spread]])


def _mean_features(
    posted: _PostingFeatures, venues: Integers, fill: Matrix, columns: Integers, sweeps: Floats
) -> tuple[Floats, Matrix]:
    """Return features ``(V, n, p)`` and offsets ``(V, n)`` of limit orders at some venues.

    ``sweeps (n,)`` are the costs of sweeping their sizes now, in half-spreads per share.
    """
    common = posted.fixed[venues][:, None, :] + fill[:, :, None] * posted.filled[venues][:, None, :]
    own = np.zeros((*fill.shape, MOST_VENUES))
    for row, column in enumerate(columns[venues]):
        if column >= 0:
            own[row, :, column] = 1.0
    offset = fill * posted.earned[venues][:, None] - (1 - fill) * sweeps
    return np.concatenate([common, own], axis=2), offset


def _var_features(posted: _PostingFeatures, venues: Integers, spread: float) -> Matrix:
    """Return features of the variance per share, in squared half-spreads: common move, constant, distance behind."""
    count = len(venues)
    return np.stack([np.full(count, spread), np.ones(count), np.maximum(posted.behind[venues], 0.0)], axis=1)


@njit(cache=True)
def _posting_tables(
    venues: Matrix, terms: Floats, coef: Floats, fills: Floats, shares: Floats, late: Floats, mid_sd: float
) -> tuple[Integers, Matrix, Matrix, Matrix, Matrix, Matrix]:
    """Return the venues to post at, the tables ``(m, n)`` of a `_PostingForecast`, and the fill model.

    ``late (n,)`` are the costs of sweeping at the horizon. Total costs equal `_mean_features` times the coefficients;
    these matrices are not built. Given the move of the mid, an order fills like its middle share. Its exposure is the
    slope of its cost in the move, and its own variance the remainder.
    """
    prices, queues, bids, asks = venues[0], venues[1], venues[2], venues[3]
    makers, flows, effects, trust = venues[4], venues[5], venues[6], coef[-1]
    half, imbalance, lean, sweep = terms[0], terms[1], terms[2], terms[3]
    mid, sign, tick, horizon, drift = terms[4], terms[5], terms[6], terms[7], terms[8]
    there, width = np.flatnonzero((queues > 0) & np.isfinite(flows)), len(shares)
    count = len(there)
    cost, variance, model = np.zeros((count, width)), np.zeros((count, width)), np.zeros((count, 4))
    left, exposed, steps = np.zeros((count, width)), np.zeros((count, width)), np.exp(-fills[1] * _NODES)
    common = coef[0] + coef[1] * imbalance + coef[2] * lean / half + coef[8] * sweep / half + coef[11] * drift
    for row in range(count):
        v = there[row]
        distance, outflow = sign * (mid - prices[v]), flows[v] * horizon + _LEAST_FLOW
        behind = (distance - half) / half
        own = sign * (bids[v] - asks[v]) / (bids[v] + asks[v] + 1)
        fixed = common + effects[v] + coef[3] * own + coef[4] * behind + coef[5] * behind * behind * half / tick
        fixed += (coef[6] * np.log1p(queues[v] / 100) + coef[7] * np.log1p(outflow / 100)) * tick / half
        filled = coef[9] + coef[10] * behind + coef[12] * drift
        reached = np.exp(-queues[v] / outflow)
        model[row, 0], model[row, 2], model[row, 3] = makers[v] - distance, queues[v], outflow
        model[row, 1] = fills[0] + fills[3] * min(behind * half / tick, 5.0) + fills[4] * imbalance
        for k in range(1, width):
            n = shares[k]
            ratio = n / outflow
            fill = reached * (-np.expm1(-ratio) / ratio)
            now = late[k] / n - (late[-1] / shares[-1] - sweep)  # cost per share of sweeping as many now
            known = fill * (distance - makers[v]) - (1 - fill) * now
            odds = model[row, 1] + fills[2] * min(max(np.log((queues[v] + n / 2) / outflow), -5.0), 5.0)
            missed, mean, square, slope, scale = 0.0, 0.0, 0.0, 0.0, np.exp(-odds)
            for i in range(len(_NODES)):
                miss = _WEIGHTS[i] / (1 + scale * steps[i])
                # cost of an unfilled share minus the cost of a filled share
                extra = late[k] / n + mid_sd * _NODES[i] - model[row, 0]
                missed += miss
                mean += miss * extra
                square += miss * extra * extra
                slope += miss * extra * _NODES[i]
            left[row, k] = n * missed
            exposed[row, k] = n * slope / max(mid_sd, 1e-9)
            variance[row, k] = n * n * max(square - mean * mean - slope * slope, 0.0)
            cost[row, k] = -half * n * (fixed + filled * fill) - n * trust * known
            cost[row, k] -= interpolate(n * missed, shares, late)
    return there, cost, variance, left, exposed, model
