"""Significance of cost differences: a stationary bootstrap over time blocks, and Hansen's test for the best of many.

Costs of successive orders are correlated, so runs of consecutive time blocks are resampled instead of single orders.
The router with the lowest cost of many is partly lucky; Hansen's test corrects for this selection.

References
----------
Politis and Romano (1994), The stationary bootstrap, https://doi.org/10.1080/01621459.1994.10476870
Politis and White (2004), Automatic block-length selection, https://doi.org/10.1081/ETC-120028836, and its correction by
Patton, Politis and White (2009), https://doi.org/10.1080/07474930802459016
Hansen (2005), A test for superior predictive ability, https://doi.org/10.1198/073500105000000063
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import ndtri, stdtrit

from riskroute.core.arrays import Floats, Integers, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import exact_array, real_number, whole_number

_RESAMPLES = 2000
_LEAST_LENGTH = 5.0  # minimum mean number of consecutive blocks drawn
_POWER = 2.8  # a true difference of this many standard errors is detected with 80 % power at the 5 % level


def _stationary_draws(count: int, mean_length: float, resamples: int, rng: np.random.Generator) -> Integers:
    """Return indices ``(resamples, count)`` of a stationary bootstrap: runs of geometric length that wrap around.

    Examples
    --------
    >>> _stationary_draws(6, 3.0, 1, np.random.default_rng(4)).tolist()
    [[4, 5, 0, 1, 5, 0]]
    """
    whole_number("count", count)
    chance = 1 / real_number("mean_length", mean_length, minimum=1)
    drawn = rng.integers(0, count, size=(whole_number("resamples", resamples), count))
    new = rng.random((resamples, count)) < chance
    for column in range(1, count):
        continues = ~new[:, column]
        drawn[continues, column] = (drawn[continues, column - 1] + 1) % count
    return drawn


def _block_length(values: Vector) -> float:
    """Return the mean run length for a stationary bootstrap of a series ``(n,)`` by Politis and White's rule.

    Autocorrelations count as negligible from the first lag that starts five in a row below ``2 sqrt(log10(n) / n)`` in
    magnitude; the flat-top window extends to twice that lag. The length is from 1 to ``min(3 sqrt(n), n / 3)``.
    """
    n = len(exact_array("values", values, np.float64, (None,)))
    deviations = values - values.mean()
    variance = float(deviations @ deviations) / n
    if n < 8 or variance <= 0:
        return 1.0
    few = max(5, int(math.log10(n)))
    most = min(math.ceil(math.sqrt(n)) + few, n - 1)
    lags = [float(deviations[k:] @ deviations[: n - k]) / n for k in range(most + 1)]
    quiet = np.abs(np.array(lags) / variance) < 2 * math.sqrt(math.log10(n) / n)
    begins = next((k for k in range(1, most - few + 1) if quiet[k : k + few].all()), most)
    window = min(2 * begins, most)
    weights = [1.0 if k / window <= 0.5 else 2 * (1 - k / window) for k in range(window + 1)]
    spectrum = lags[0] + 2 * sum(w * lag for w, lag in zip(weights[1:], lags[1:], strict=False))
    slope = 2 * sum(w * k * lag for k, (w, lag) in enumerate(zip(weights, lags, strict=False)))
    if spectrum == 0:
        return 1.0
    length = ((slope / spectrum) ** 2 * n) ** (1 / 3)
    return float(min(max(length, 1.0), math.ceil(min(3 * math.sqrt(n), n / 3))))


@dataclass(frozen=True)
class BootstrapDifference:
    """A mean difference with a 95 % confidence interval from ``low`` to ``high``, bootstrapped over time blocks.

    ``error`` is the standard error, ``blocks`` the number of time blocks, and ``length`` the mean number of consecutive
    blocks drawn. A true difference of ``detectable`` would be significant with a probability of 80 %.
    """

    mean: float
    low: float
    high: float
    error: float
    blocks: int
    length: float
    detectable: float

    def paired(self, against: str) -> PairedDifference:
        """Return the difference from the router ``against``; statistics that need several blocks may be None."""
        low, high, detectable = (x if math.isfinite(x) else None for x in (self.low, self.high, self.detectable))
        return PairedDifference(against, self.mean, low, high, self.blocks, detectable)


def block_sums(values: Vector, blocks: Integers) -> tuple[Vector, Vector]:
    """Return the sum and the number of the values ``(n,)`` in each block; ``blocks (n,)`` names the block of each."""
    _, place = np.unique(blocks, return_inverse=True)
    return np.asarray(np.bincount(place, weights=values)), np.bincount(place).astype(np.float64)


def bootstrap_difference(
    values: Vector, blocks: Integers, rng: np.random.Generator, *, resamples: int = _RESAMPLES
) -> BootstrapDifference:
    """Return the mean of ``values (n,)`` with a confidence interval from a stationary bootstrap over time blocks.

    ``blocks (n,)`` is the time block of each value; blocks are numbered in order of time.
    """
    exact_array("values", values, np.float64, (None,))
    exact_array("blocks", blocks, np.int64, (len(values),))
    if not len(values):
        raise InputError("values must hold at least one number, was empty")
    mean = float(values.mean())
    sums, counts = block_sums(values, blocks)
    count = len(sums)
    if count < 2:
        return BootstrapDifference(mean, math.nan, math.nan, math.nan, count, 1.0, math.nan)
    length = min(max(_block_length(sums / counts), _LEAST_LENGTH), max(count / 4, 1.0))
    drawn = _stationary_draws(count, length, resamples, rng)
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    wider, freedom = _small_sample(count, length)
    error = wider * float(means.std(ddof=1))
    wider *= float(stdtrit(freedom, 0.975) / ndtri(0.975))
    low, high = (mean - wider * (float(q) - mean) for q in np.quantile(means, (0.975, 0.025)))
    return BootstrapDifference(mean, low, high, error, count, length, _POWER * error)


def _small_sample(count: int, length: float) -> tuple[float, float]:
    """Return the small-sample factor on the spread of bootstrap means, and the degrees of freedom of the interval.

    Sample autocovariances are biased down by the long-run variance divided by ``count``, because the mean is estimated.
    The stationary bootstrap weights the autocovariance at lag ``k`` by ``(1 - 1 / length) ** k``.

    Examples
    --------
    >>> [round(value, 2) for value in _small_sample(40, 1.0)]  # independent blocks: the usual n / (n - 1), and n
    [1.01, 40.0]
    >>> [round(value, 2) for value in _small_sample(40, 5.0)]
    [1.14, 8.78]
    """
    kept = (1 - 1 / length) ** 2
    return math.sqrt(count / (count - 2 * length + 1)), count * (1 - kept) / (1 + kept)


def superior_pvalue(
    benchmark: Vector, others: Floats, rng: np.random.Generator, *, length: float, resamples: int = _RESAMPLES
) -> float:
    """Return the p-value of the hypothesis that no series of losses has a smaller mean than the benchmark.

    This is the consistent version of Hansen's test, which ignores series that are clearly worse. ``benchmark (n,)`` and
    ``others (n, m)`` are mean losses by time block, ``length`` is the mean run length of the bootstrap.
    """
    gains = exact_array("benchmark", benchmark, np.float64, (None,))[:, None] - exact_array(
        "others", others, np.float64, (len(benchmark), None)
    )
    n = len(gains)
    drawn = _stationary_draws(n, length, resamples, rng)
    means = gains.mean(axis=0)
    resampled = gains[drawn].mean(axis=1)
    scale = np.maximum(math.sqrt(n) * resampled.std(axis=0), 1e-300)
    kept = (
        np.where(means >= -scale / math.sqrt(n) * math.sqrt(2 * math.log(math.log(n))), means, 0.0) if n > 2 else means
    )
    observed = max(float((math.sqrt(n) * means / scale).max()), 0.0)
    draws = np.maximum((math.sqrt(n) * (resampled - kept) / scale).max(axis=1), 0.0)
    return float((draws > observed).mean()) if observed > 0 else 1.0


def plain_quantile(value: pl.Expr, part: int, parts: int = 100) -> pl.Expr:
    """Return the quantile at ``part / parts`` of the values that are not null: one of these values, not interpolated.

    Examples
    --------
    >>> table = pl.DataFrame({"us": [4.0, None, 1.0, 3.0, 2.0]})
    >>> table.select([plain_quantile(pl.col("us"), k).alias(str(k)) for k in (50, 51, 99)]).row(0)
    (2.0, 3.0, 4.0)
    """
    some = value.drop_nulls()
    place = (some.len().cast(pl.Int64) * part + parts - 1) // parts - 1
    return some.sort().get(place, null_on_oob=True)


def expected_shortfall(cost: pl.Expr, percent: int = 5) -> pl.Expr:
    """Return the mean cost of the worst ``percent`` of the rows; the least bad of these rows may count in part.

    Examples
    --------
    >>> table = pl.DataFrame({"cost": [float(k) for k in range(1, 31)]})
    >>> table.select(expected_shortfall(pl.col("cost"))).item()  # (30 + 29 / 2) / 1.5
    29.666666666666668
    """
    size = cost.len() * (percent / 100)
    weights = (size - pl.int_range(cost.len())).clip(0, 1)
    return (cost.sort(descending=True) * weights).sum() / size


@dataclass(frozen=True)
class PairedDifference:
    """Mean difference over the same orders: the cost of a router minus that of ``against``, in basis points.

    Negative values mean that the router is cheaper. ``low`` and ``high`` are the ends of the 95 % confidence interval
    over time blocks. A true difference of ``detectable_bps`` would be significant with a probability of 80 %.
    """

    against: str
    difference_bps: float
    low: float | None
    high: float | None
    blocks: int
    detectable_bps: float | None


def time_block_numbers(orders: pl.DataFrame) -> Integers:
    """Return the time block of each order ``(n,)``; blocks of all symbols and days are numbered consecutively."""
    numbered = orders.select(pl.struct("symbol", "day", "block").rank("dense").cast(pl.Int64))
    return numbered.to_series().to_numpy()
