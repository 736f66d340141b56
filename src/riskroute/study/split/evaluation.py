"""Evaluation of splits on recorded scenarios: mean, variance, tail, and error bars from resampled buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.learning.tally import ActionBatch
from riskroute.market.fitting import bootstrap_buckets, bootstrap_error
from riskroute.simulation.replay import Replay

WORST = 0.05
"""Share of the scenarios that the tail is about."""

RESAMPLES = 400
"""Bootstrap samples behind the standard errors."""


@dataclass(frozen=True)
class SplitEvaluation:
    """What a split earned over some scenarios, in dollars and squared dollars.

    ``tail`` is the expected shortfall at 5 %, as a profit; ``excess`` is the mean-variance above that of another split.
    Each has its standard error.
    """

    mean: float
    variance: float
    mean_variance: float
    tail: float
    mean_error: float
    variance_error: float
    mean_variance_error: float
    tail_error: float
    excess: float
    excess_error: float


def evaluate_splits(
    splits: Mapping[str, tuple[int, ...]], replay: Replay, buckets: Integers, *, first: str, seed: int
) -> dict[str, SplitEvaluation]:
    """Measure what each split earns over the scenarios of a replay, and how much worse it is than one of them.

    Parameters
    ----------
    splits : mapping of str to tuple of int
        Allocations by name.
    replay : Replay
        The scenarios.
    buckets : array of int, shape (scenarios,)
        The bucket of each scenario; standard errors come from resampling buckets, the same ones for all splits.
    first : str
        Name of the split that the others are compared with.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    dict of str to ProfitMeasures
        Measures by name.
    """
    totals = replay.totals(np.array(list(splits.values())))
    tolerance = replay.risk_tolerance
    even = np.ones((1, totals.shape[1]))
    drawn = bootstrap_buckets(buckets, RESAMPLES, np.random.default_rng(seed)).astype(np.float64)
    samples = len(np.unique(buckets))
    found: dict[str, SplitEvaluation] = {}
    plain, redrawn = ([_moments(weights, row, tolerance) for row in totals] for weights in (even, drawn))
    anchor = list(splits).index(first)
    for k, name in enumerate(splits):
        values = {field: float(plain[k][field][0]) for field in plain[k]}
        errors = {f"{field}_error": float(bootstrap_error(redrawn[k][field], samples)) for field in plain[k]}
        excess = redrawn[k]["mean_variance"] - redrawn[anchor]["mean_variance"]
        found[name] = SplitEvaluation(
            **values,
            **errors,
            excess=values["mean_variance"] - float(plain[anchor]["mean_variance"][0]),
            excess_error=float(bootstrap_error(excess, samples)),
        )
    return found


def _moments(weights: Floats, values: Floats, tolerance: float) -> dict[str, Floats]:
    """Mean, variance, mean-variance and tail of values ``(n,)`` under each row of weights ``(R, n)``."""
    total = weights.sum(axis=1)
    mean = weights @ values / total
    variance = np.maximum(weights @ (values - values.mean()) ** 2 / total - (mean - values.mean()) ** 2, 0.0)
    order = np.argsort(values)
    sorted_weights = weights[:, order]
    left = np.clip(WORST * total[:, None] - (sorted_weights.cumsum(axis=1) - sorted_weights), 0, sorted_weights)
    tail = left @ values[order] / (WORST * total)
    return {"mean": mean, "variance": variance, "mean_variance": variance - tolerance * mean, "tail": tail}


def evaluated_best_single(replay: Replay, shares: int, caps: Integers) -> ActionBatch:
    """The whole order in the one slot that is best by mean-variance, of those that can take it; empty if none can."""
    able = np.flatnonzero(caps >= shares)
    if not len(able):
        return np.zeros((0, len(caps)), dtype=np.int64)
    corners = np.zeros((len(able), len(caps)), dtype=np.int64)
    corners[np.arange(len(able)), able] = shares
    return corners[[int(replay.mean_variance(corners).argmin())]]
