"""Bootstrap: the buckets of a day drawn again with replacement, as if other hours had been recorded."""

from __future__ import annotations

import numpy as np

from riskroute.core.arrays import Floats, Integers


def bootstrap_buckets(buckets: Integers, count: int, rng: np.random.Generator) -> Integers:
    """How often each scenario counts in ``count`` draws of whole buckets with replacement, ``(count, scenarios)``.

    ``buckets (scenarios,)`` tells which scenarios come from one bucket, and are drawn together.

    Examples
    --------
    >>> bootstrap_buckets(np.array([0, 1, 0, 1]), 2, np.random.default_rng(1)).tolist()
    [[1, 1, 1, 1], [2, 0, 2, 0]]
    """
    names, place = np.unique(buckets, return_inverse=True)
    drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=count)
    return np.asarray(drawn[:, place])


def bootstrap_error(resampled: Floats, samples: int) -> Floats:
    """Standard errors over the resamples ``(R, ...)`` of an estimate from so many independent ``samples``.

    Resampling understates the variance of an estimate by the factor ``(n - 1) / n``, which is put right here.

    Examples
    --------
    >>> float(bootstrap_error(np.array([1.0, 2.0, 3.0]), samples=4).round(4))
    1.1547
    """
    return np.asarray(resampled.std(axis=0, ddof=1) * (samples / (samples - 1)) ** 0.5)
