"""A warm start: what recorded books teach about every split, before the first order is sent.

A policy that trades sees one reward a round, that of the split it chose. Recorded books show what all splits would have
earned. A belief starts from their means and variances, as far as these are linear in the features; how much they
change when the buckets of the day are resampled tells how firm it is.
"""

from __future__ import annotations

import numpy as np

from riskroute.core.arrays import Floats, Integers, Matrix
from riskroute.core.errors import InputError
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import exact_array, instance_of, real_number, whole_number
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.market.fitting import bootstrap_buckets
from riskroute.simulation.replay import Replay

SPLITS = 400
"""Splits drawn from all of them, to fit coefficients to."""

RESAMPLES = 200


def replay_belief(replay: Replay, buckets: Integers, *, firmness: float = 0.1, seed: int = 0) -> Belief:
    """Fit a belief about the coefficients to the scenarios of a replay, for `Adaptive(prior=...)`.

    Parameters
    ----------
    buckets : Integers
        ``(scenarios,)``, the bucket of the day that each scenario comes from; scenarios of one bucket are much alike.
    firmness : float
        Weight of the belief, up to 1. Its standard errors are those within these books; books to come may differ by
        more, and a belief that is too firm would never find out.
    """
    instance_of("replay", replay, Replay, "a Replay")
    buckets = exact_array("buckets", buckets, np.int64, (None,))
    names = np.unique(buckets)
    if np.shape(buckets) != (replay.scenarios,) or len(names) < 2:
        was = f"shape {np.shape(buckets)} with {len(names)} different"
        raise InputError(f"buckets must have shape ({replay.scenarios},) and at least two different, was {was}")
    real_number("firmness", firmness, above=0, maximum=1)
    rng = np.random.default_rng(seed_stream(whole_number("seed", seed, minimum=0), "warm start"))
    problem = replay.pieces[0]
    splits = np.unique(replay.actions.sample(rng, SPLITS), axis=0)
    drawn = bootstrap_buckets(buckets, RESAMPLES, rng)
    means, variances = _moments(replay.totals(splits), np.vstack([np.ones_like(drawn[:1]), drawn]))
    typical = float(np.median(variances[0])) or float(variances[0].max()) or problem.base_variance or 1.0
    noise = np.maximum(variances[0], LEAST_VARIANCE * typical)
    features = replay.actions.features(splits)
    about_mean = _fitted(features, means, 1 / noise)
    about_variance = _fitted(features, variances - problem.base_variance, 1 / noise**2)
    firm = [_precision(about[1:], len(names)) for about in (about_mean, about_variance)]
    return Belief(about_mean[0], firm[0], about_variance[0], firm[1], typical, len(names)).weakened(firmness)


def _moments(totals: Matrix, weights: Integers) -> tuple[Matrix, Matrix]:
    """Mean and variance of totals ``(n, scenarios)`` under each row of weights ``(R, scenarios)``: ``(R, n)`` each."""
    middle = totals.mean(axis=1)
    apart, share = (totals - middle[:, None]).T, weights / weights.sum(axis=1, keepdims=True)
    means = share @ apart
    return means + middle, np.maximum(share @ apart**2 - means**2, 0.0)


def _fitted(features: Matrix, targets: Matrix, weights: Floats) -> Matrix:
    """Coefficients of weighted least squares for each row of targets ``(R, n)``: ``(R, dim)``."""
    root = np.sqrt(weights)
    return np.asarray(np.linalg.lstsq(features * root[:, None], (targets * root).T, rcond=None)[0].T)


def _precision(coefficients: Matrix, buckets: int) -> Matrix:
    """Inverse covariance of resampled coefficients ``(R, dim)``.

    Correlations from few buckets would claim to know some combinations perfectly, so they are drawn towards none, the
    more the fewer buckets there are per coefficient.
    """
    covariance = np.cov(coefficients, rowvar=False)
    error = np.sqrt(np.diag(covariance))
    error = np.maximum(error, 1e-9 * float(np.abs(coefficients).max() or 1.0))
    scale = np.outer(error, error)
    unknown = len(error) / (len(error) + buckets)
    correlation = (1 - unknown) * covariance / scale + unknown * np.eye(len(error))
    return np.asarray(np.linalg.inv(correlation) / scale)
