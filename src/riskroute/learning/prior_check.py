"""Tempering: a prior that the rewards contradict counts for less, so that a policy notices a world that has changed."""

from __future__ import annotations

import math

import numpy as np

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.validation import kernel_array
from riskroute.learning.belief import LEAST_VARIANCE, LONGEST, Belief
from riskroute.learning.observations import Observations
from riskroute.learning.prior_check_compiled import STEP, SURPRISE, TAILS, WEAKEST, temper_factor_compiled


def temper_prior(
    prior: Belief, observations: Observations, *, base_variance: float, vague: Matrix, surprise: float = SURPRISE
) -> Belief:
    """Weaken the prior until the rewards are no surprise; return the prior itself if they are none.

    The squared distance between the coefficients fitted to the rewards alone and those of the prior, in units of their
    joint standard error, has as many degrees of freedom as there are coefficients. Means and variances are compared
    separately, and the stronger contradiction weakens both. It may exceed that by ``surprise`` standard deviations.
    """
    factor = math.nan
    information = kernel_array("vague", vague, (prior.dim, prior.dim))
    kernel_array("features of observations", observations.features, (None, prior.dim))
    if prior.dim <= LONGEST:
        factor = temper_factor_compiled(observations.columns, prior.arrays, float(base_variance), information, surprise)
    if math.isnan(factor):
        factor = temper_factor_plainly(prior, observations, base_variance, vague, surprise)
    return prior if factor >= 1 else prior.weakened(factor)


def temper_factor_plainly(
    prior: Belief, observations: Observations, base_variance: float, vague: Matrix, surprise: float
) -> float:
    """Return the factor of `temper_prior`, as formulas of whole arrays: the definition of what is compiled."""
    features, counts = observations.features, observations.counts
    variance = np.maximum(features @ prior.var_coef + base_variance, LEAST_VARIANCE * prior.variance)
    variance = np.maximum(variance, observations.spreads / counts)
    missed = observations.means - features @ prior.mean_coef
    factor = _factor(prior.mean_precision, features, counts / variance, missed, vague / prior.variance, surprise)
    several = observations.free > 0
    found = np.divide(observations.spreads, observations.free, out=np.zeros(len(counts)), where=several)
    missed = np.where(several, found - features @ prior.var_coef - base_variance, 0.0)
    weights = observations.free / (2 * TAILS * variance**2)
    return min(
        factor, _factor(prior.var_precision, features, weights, missed, vague / (2 * prior.variance**2), surprise)
    )


def _factor(
    precision: Matrix, features: Matrix, weights: Vector, missed: Vector, vague: Matrix, surprise: float
) -> float:
    """Return the largest factor, at most 1, with which the weakened prior is not surprised by what it missed."""
    weighted = features * weights[:, None]
    information = vague + weighted.T @ features
    pull = weighted.T @ missed
    allowed = len(pull) + surprise * math.sqrt(2 * len(pull))
    alone = float(pull @ np.linalg.solve(information, pull))

    def distance(factor: float) -> float:
        return alone - float(pull @ np.linalg.solve(information + factor * precision, pull))

    if distance(1.0) <= allowed:
        return 1.0
    low, high = math.log(WEAKEST), 0.0  # the distance rises with the factor
    while high - low > STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if distance(math.exp(middle)) <= allowed else (low, middle)
    return math.exp(low)
