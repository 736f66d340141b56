"""Plain twins and small inputs for tests of learning: naive fits and regret, problems, lattices and designs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from riskroute import Actions, Problem, random_routing_problem
from riskroute.learning.belief import Belief
from riskroute.learning.design.g_optimal import Design
from riskroute.learning.mean_variance_regression import (
    MeanVarianceEstimate,
    MeanVarianceRegressionRows,
    _normal_equations,
    _NormalEquations,
)
from riskroute.learning.observations import Observations
from riskroute.learning.tally import Tallies, Tally
from riskroute.routing.lattice import Lattice

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Round = tuple[Vector, float]


def evidence_of(rounds: Sequence[Round], dim: int) -> Observations:
    """Rewards of single rounds, each with its features, as observations."""
    if not rounds:
        return Observations.none(dim)
    tallies = Tallies.of(np.arange(len(rounds)), [Tally.of([x]) for _, x in rounds])
    return Observations.none(dim).joined(Observations.of(np.array([a for a, _ in rounds]), tallies))


def naive_fit(
    rounds: Sequence[Round], base_variance: float, vague: Matrix, prior: Belief | None = None, floor: float = 0.3
) -> Belief:
    """Both weighted fits, one reward at a time."""
    dim = len(vague)
    by_action: dict[tuple[float, ...], list[float]] = {}
    for a, x in rounds:
        by_action.setdefault(tuple(a), []).append(x)
    mean_center = prior.mean_coef if prior else np.zeros(dim)
    var_center = prior.var_coef if prior else np.zeros(dim)

    typical = _typical(rounds, by_action, base_variance, vague, prior)
    signals = [(np.mean(xs) - np.dot(a, mean_center)) ** 2 - typical / len(xs) for a, xs in by_action.items()]
    var_signals = [(typical - base_variance - np.dot(a, var_center)) ** 2 for a in by_action]
    mean_known = vague / (typical + max(float(np.mean(signals)) if rounds else 0.0, 0.0))
    var_known = vague / (2 * typical**2 + (float(np.mean(var_signals)) if rounds else 0.0))
    if prior:
        mean_known, var_known = mean_known + prior.mean_precision, var_known + prior.var_precision

    variances = [max(float(a @ var_center) + base_variance, floor * typical) if prior else typical for a, _ in rounds]
    for _ in range(3):
        of_mean = [(a, x, 1 / v) for (a, x), v in zip(rounds, variances, strict=True)]
        mean_precision, mean_coef = _solved(of_mean, mean_known, mean_center)
        errors = _squared_errors(rounds, by_action, mean_coef, mean_precision, variances)
        of_variance = [
            (a, square / free - base_variance, free / (2 * v**2))
            for (a, _), v, (square, free) in zip(rounds, variances, errors, strict=True)
            if free > 0
        ]
        var_precision, var_coef = _solved(of_variance, var_known, var_center)
        variances = [max(float(a @ var_coef) + base_variance, floor * typical) for a, _ in rounds]
    count = len(rounds) + (prior.rounds if prior else 0)
    return Belief(mean_coef, mean_precision, var_coef, var_precision, typical, count)


def _typical(
    rounds: Sequence[Round],
    by_action: dict[tuple[float, ...], list[float]],
    base_variance: float,
    vague: Matrix,
    prior: Belief | None,
) -> float:
    """Squared errors of all rewards, and those behind the prior, per degree of freedom."""
    known, center = 1e-9 * vague, np.zeros(len(vague))
    if prior:
        known, center = known + prior.mean_precision * prior.variance, prior.mean_coef
    precision, coef = _solved([(a, x, 1.0) for a, x in rounds], known, center)
    squares, freedom = (prior.variance * prior.rounds, prior.rounds) if prior else (0.0, 0.0)
    for square, free in _squared_errors(rounds, by_action, coef, precision, [1.0] * len(rounds)):
        squares, freedom = squares + square, freedom + free
    if freedom > 0.5:
        return squares / freedom
    if prior:
        return prior.variance
    size = float(np.mean([np.mean(rewards) ** 2 for rewards in by_action.values()])) if rounds else 0.0
    return base_variance or size or 1.0


def _squared_errors(
    rounds: Sequence[Round],
    by_action: dict[tuple[float, ...], list[float]],
    coef: Vector,
    precision: Matrix,
    variances: list[float],
) -> list[tuple[float, float]]:
    """Squared error of each reward, and how much of a degree of freedom it is.

    Its distance from the mean of its action counts, and that mean's from the fit if such distances are no surprise.
    """
    covariance = np.linalg.inv(precision)
    within: list[tuple[float, float]] = []
    fitted: list[tuple[float, float]] = []
    for (a, x), v in zip(rounds, variances, strict=True):
        same = by_action[tuple(a)]
        center = np.mean(same)
        within.append((float((x - center) ** 2), 1 - 1 / len(same)))
        fitted.append((float((center - a @ coef) ** 2), max(1 / len(same) - float(a @ covariance @ a) / v, 0.0)))
    free, left = sum(n for _, n in within), sum(n for _, n in fitted)
    if free >= left > 0:
        unit = sum(square / v for (square, _), v in zip(within, variances, strict=True)) / free
        missed = sum(square / v for (square, _), v in zip(fitted, variances, strict=True)) / left
        if missed > unit * (1 + 3 * np.sqrt(2 / free + 2 / left)):
            return within
    return [(one[0] + other[0], one[1] + other[1]) for one, other in zip(within, fitted, strict=True)]


def _solved(weighted: list[tuple[Vector, float, float]], known: Matrix, center: Vector) -> tuple[Matrix, Vector]:
    precision, moment = known.copy(), known @ center
    for a, target, weight in weighted:
        precision = precision + weight * np.outer(a, a)
        moment = moment + weight * target * a
    coef: Vector = np.linalg.solve(precision, moment).astype(np.float64)
    return precision, coef


def numbered_routing_problem(shares: int, slots: int, seed: int, *, risk_tolerance: float = 2.0) -> Problem:
    """`random_routing_problem` with handles 0, 1, 2 and so on, in the order of the list."""
    problem = random_routing_problem(shares, slots, seed, risk_tolerance=risk_tolerance)
    listed = problem.actions.listed()
    return dataclasses.replace(problem, actions=Actions(listed.rows, coordinates=slots))


def lattice_of(units: int, lows: list[int], highs: list[int]) -> Lattice:
    return Lattice(units, np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64))


def check_support(design: Design, lattice: Lattice) -> None:
    """Distinct members of the set, no more than Caratheodory's number, with weights that sum to one."""
    rows = design.actions
    assert len(np.unique(rows, axis=0)) == len(rows) == len(design.weights)
    assert len(rows) <= max(design.rank * (design.rank + 1) // 2, 1)
    assert (rows >= lattice.lows).all()
    assert (rows <= lattice.highs).all()
    assert (rows.sum(axis=1) == lattice.units).all()
    assert (design.weights > 0).all()
    assert design.weights.sum() == pytest.approx(1, abs=1e-12)


def batch_fit(rows: MeanVarianceRegressionRows, prior: MeanVarianceEstimate, sweeps: int = 3) -> MeanVarianceEstimate:
    """Fit mean and variance to all rows at once, on top of a prior."""
    base = _NormalEquations.of(prior)
    return base.plus(_normal_equations(rows, base, sweeps=sweeps)).solved()


def path_mean_variance(rewards: Vector, risk_tolerance: float) -> float:
    """Return the mean-variance ``xi`` of a path of rewards."""
    tally = Tally.of(rewards)
    return tally.spread - risk_tolerance * tally.count * tally.mean


def comparator(rounds: NDArray[np.int64], mean: float, variance: float, risk_tolerance: float) -> Vector:
    """Return the expected mean-variance of one action over ``t`` rounds."""
    t = np.asarray(rounds, dtype=float)
    return np.asarray((t - 1) * variance - risk_tolerance * t * mean)


def pseudo_regret(means: Vector, gaps: Vector) -> Vector:
    """Return the first two terms of the temporal decomposition (Proposition 2), summed up to every round.

    ``means`` and ``gaps`` ``(T,)`` are those of the actions played. The first term adds up the gaps; the second is the
    cost of switching, ``1 / (t + 1)`` times the sum of squared differences to the means of all earlier rounds.
    """
    switching = np.zeros(len(means))
    for t in range(1, len(means)):
        switching[t] = np.sum((means[t] - means[:t]) ** 2) / (t + 1)
    return np.asarray(np.cumsum(gaps + switching))
