"""What `riskroute.learning.belief.fit` does, by plain loops over single rewards: the twin that tests compare with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from riskroute.learning.belief import Belief
from riskroute.learning.evidence import Evidence
from riskroute.learning.tally import Tallies, Tally

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Round = tuple[Vector, float]


def evidence_of(rounds: Sequence[Round], dim: int) -> Evidence:
    """Rewards of single rounds, each with its features, as evidence."""
    if not rounds:
        return Evidence.none(dim)
    tallies = Tallies.of(np.arange(len(rounds)), [Tally.of([x]) for _, x in rounds])
    return Evidence.none(dim).joined(Evidence.of(np.array([a for a, _ in rounds]), tallies))


def naive_fit(
    rounds: Sequence[Round], base_variance: float, vague: Matrix, prior: Belief | None = None, floor: float = 0.3
) -> Belief:
    """Both weighted fits, one reward at a time."""
    nothing = np.zeros(len(vague))
    scale = vague + (prior.mean_precision * prior.variance if prior else 0)
    pull = prior.mean_precision @ prior.mean_coef * prior.variance if prior else nothing
    precision, center = _solved([(a, x, 1.0) for a, x in rounds], scale, pull)
    squares, freedom, count = (prior.variance * prior.rounds, prior.rounds, prior.rounds) if prior else (0.0, 0.0, 0.0)
    for a, x in rounds:
        squares += (x - a @ center) ** 2
        freedom += max(1 - a @ np.linalg.inv(precision) @ a, 0.0)
        count += 1
    usual = base_variance if base_variance > 0 else 1.0
    typical = squares / freedom if freedom > 1 and squares > 1e-12 * usual * freedom else usual
    variances = [typical] * len(rounds)
    if prior:
        variances = [max(a @ prior.var_coef + base_variance, floor * typical) for a, _ in rounds]
    for _ in range(3):
        of_mean = [(a, x, 1 / v) for (a, x), v in zip(rounds, variances, strict=True)]
        known = prior.mean_precision if prior else 0
        pull = prior.mean_precision @ prior.mean_coef if prior else nothing
        mean_precision, mean_coef = _solved(of_mean, vague / typical + known, pull)
        covariance = np.linalg.inv(mean_precision)
        of_variance = []
        for (a, x), v in zip(rounds, variances, strict=True):
            free = max(1 - a @ covariance @ a / v, 0.05)
            of_variance.append((a, (x - a @ mean_coef) ** 2 / free - base_variance, free / (2 * v**2)))
        known = prior.var_precision if prior else 0
        pull = prior.var_precision @ prior.var_coef if prior else nothing
        var_precision, var_coef = _solved(of_variance, vague / (2 * typical**2) + known, pull)
        variances = [max(a @ var_coef + base_variance, floor * typical) for a, _ in rounds]
    return Belief(mean_coef, mean_precision, var_coef, var_precision, typical, count)


def _solved(weighted: list[tuple[Vector, float, float]], known: Matrix, pull: Vector) -> tuple[Matrix, Vector]:
    precision, moment = known.copy(), pull.copy()
    for a, target, weight in weighted:
        precision += weight * np.outer(a, a)
        moment += weight * target * a
    return precision, np.linalg.solve(precision, moment)
