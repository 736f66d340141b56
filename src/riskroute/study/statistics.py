"""Uncertainty of cost differences: one set of resamples per comparison gives both intervals and p-values.

Costs of orders on one day are correlated, so whole days are resampled. With fewer than eight days, runs of consecutive
time blocks are resampled instead (stationary bootstrap). The best of many routers was partly selected by chance. Joint
intervals (max-t) correct for this selection; a router that was chosen on other days needs no correction.

References
----------
Politis and Romano (1994), The stationary bootstrap, https://doi.org/10.1080/01621459.1994.10476870
Politis and White (2004), Automatic block-length selection, https://doi.org/10.1081/ETC-120028836, and its correction by
Patton, Politis and White (2009), https://doi.org/10.1080/07474930802459016
Romano and Wolf (2005), Stepwise multiple testing, https://doi.org/10.1198/016214504000000539
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import ndtri, stdtrit

from riskroute.core.arrays import Floats, Integers, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import exact_array, one_of, real_number, whole_number

_RESAMPLES = 1999
_LEVEL = 0.05  # intervals are of 95 %
_LEAST_LENGTH = 5.0  # minimum mean number of consecutive blocks drawn
LEAST_DAYS = 8  # with at least this many days, days are resampled, otherwise time blocks
LEAST_INDEPENDENT = 30  # minimum for a verdict: number of time blocks over the mean run length of the bootstrap
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
    magnitude; the flat-top window extends to twice that lag. The length is from 1 to ``ceil(min(3 sqrt(n), n / 3))``.
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
class Sample:
    """The resampled units: ``count`` days, or ``count`` time blocks in ``independent`` runs on average."""

    unit: str  # day or block
    count: int
    independent: float

    @property
    def enough(self) -> bool:
        """Whether there are enough units for a verdict."""
        return self.independent >= (LEAST_DAYS if self.unit == "day" else LEAST_INDEPENDENT)

    def further_days(self, days: float) -> int:
        """Return how many days are missing for a verdict after ``days`` days of this kind.

        Examples
        --------
        >>> Sample("block", 38, 7.6).further_days(1), Sample("block", 19, 2.0).further_days(0.5)
        (3, 7)
        """
        if self.enough:
            return 0
        return math.ceil(min(days * LEAST_INDEPENDENT / self.independent, LEAST_DAYS) - days - 1e-9)

    def __str__(self) -> str:
        if self.unit == "day":
            return f"{self.count} days"
        return f"{self.count} time block{'s' if self.count != 1 else ''}, {self.independent:.0f} of them independent"


@dataclass(frozen=True)
class BootstrapDifference:
    """A mean difference with a 95 % confidence interval from ``low`` to ``high``, and the p-value of a mean of 0.

    ``error`` is the standard error. A true difference of ``detectable`` would be significant with a probability of
    80 %. The p-value is below 0.05 exactly if the interval excludes 0.
    """

    mean: float
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    error: float = math.nan

    @property
    def detectable(self) -> float:
        """The true difference that is detected with 80 % power."""
        return _POWER * self.error

    @property
    def interval(self) -> tuple[float, float | None, float | None]:
        """The mean and the ends of its interval, which are None with one unit."""
        return self.mean, _known(self.low), _known(self.high)

    def paired(self, against: str) -> PairedDifference:
        """Return the difference from the router ``against``; statistics that need several units may be None."""
        return PairedDifference(against, *self.interval, _known(self.p_value), _known(self.detectable))


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


class Resamples:
    """Resamples of days or time blocks, for all series of a comparison.

    ``units (n,)`` is the day or time block of each value, numbered in order of time. Time blocks are drawn in runs; the
    mean run length is the longest that any of the ``series (n, m)`` needs, at least 5 and at most a quarter of the
    blocks.
    """

    sample: Sample

    def __init__(
        self, units: Integers, unit: str, series: Floats, rng: np.random.Generator, *, resamples: int = _RESAMPLES
    ) -> None:
        one_of("unit", unit, ("day", "block"))
        exact_array("units", units, np.int64, (len(series),))
        if not len(series):
            raise InputError("series must hold at least one number, was empty")
        names, self._place = np.unique(units, return_inverse=True)
        count, length = len(names), 1.0
        self._counts = np.bincount(self._place).astype(np.float64)
        if unit == "block":
            needed = [_block_length(self._sums(one) / self._counts) for one in series.T]
            length = min(max([*needed, _LEAST_LENGTH]), max(count / 4, 1.0))
        self.sample, self._length = Sample(unit, count, count / length), length
        self._drawn = _stationary_draws(count, length, resamples, rng)
        self._weights = self._counts[self._drawn].sum(axis=1)

    def _sums(self, values: Vector) -> Vector:
        return np.asarray(np.bincount(self._place, weights=values))

    def difference(self, values: Vector) -> BootstrapDifference:
        """Return the mean of ``values (n,)`` with its own confidence interval."""
        return self.differences([values])[0]

    def differences(self, series: Sequence[Vector]) -> list[BootstrapDifference]:
        """Return the mean of each series with joint 95 % confidence intervals and p-values.

        The intervals cover all true means at once with a probability of 95 %. Each extends to both sides by the number
        of standard errors that the largest deviation of any series exceeds in 5 % of the resamples, increased by the
        ratio of Student's to the normal quantile. With one unit, only the means are known.
        """
        means = [float(values.mean()) for values in series]
        count = self.sample.count
        if count < 2:
            return [BootstrapDifference(mean) for mean in means]
        wider, freedom = _small_sample(count, self._length)
        student = wider * float(stdtrit(freedom, 1 - _LEVEL / 2) / ndtri(1 - _LEVEL / 2))
        drawn = [self._sums(values)[self._drawn].sum(axis=1) / self._weights for values in series]
        errors = [float(one.std(ddof=1)) for one in drawn]
        largest = np.zeros(len(self._drawn))
        for one, mean, error in zip(drawn, means, errors, strict=True):
            if error > 0:
                largest = np.maximum(largest, np.abs(one - mean) / error)
        largest.sort()
        # p < 0.05 exactly if fewer than `rare` resamples deviate at least as far as the mean does from 0
        rare = math.ceil(_LEVEL * (len(largest) + 1) - 1e-9) - 1
        limit = float(largest[-rare])
        found = []
        for mean, error in zip(means, errors, strict=True):
            observed = abs(mean) / (student * error) if error > 0 else math.inf if mean else 0.0
            beyond = len(largest) - int(np.searchsorted(largest, observed))
            half = student * error * limit
            p_value = (1 + beyond) / (1 + len(largest))
            found.append(BootstrapDifference(mean, mean - half, mean + half, p_value, wider * error))
        return found


def bootstrap_difference(
    values: Vector, units: Integers, rng: np.random.Generator, *, unit: str = "block", resamples: int = _RESAMPLES
) -> BootstrapDifference:
    """Return the mean of ``values (n,)`` with a confidence interval from resamples of their days or time blocks."""
    exact_array("values", values, np.float64, (None,))
    return Resamples(units, unit, values[:, None], rng, resamples=resamples).difference(values)


def _small_sample(count: int, length: float) -> tuple[float, float]:
    """Return the small-sample factor on the spread of bootstrap means, and the degrees of freedom of the interval.

    Sample autocovariances are biased down by the long-run variance divided by ``count``, because the mean is estimated.
    The stationary bootstrap weights the autocovariance at lag ``k`` by ``(1 - 1 / length) ** k``.

    Examples
    --------
    >>> [round(value, 2) for value in _small_sample(40, 1.0)]  # independent: the usual n / (n - 1), and n - 1
    [1.01, 39.0]
    >>> [round(value, 2) for value in _small_sample(40, 5.0)]
    [1.14, 7.78]
    """
    kept = (1 - 1 / length) ** 2
    return math.sqrt(count / (count - 2 * length + 1)), count * (1 - kept) / (1 + kept) - 1


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
    """Mean difference over the same orders: the cost of a router minus the cost of ``against``, in basis points.

    Negative values mean that the router is cheaper. ``low`` and ``high`` are the ends of the 95 % confidence interval;
    ``p_value`` tests the hypothesis of no difference, and is below 0.05 exactly if the interval excludes 0. A true
    difference of ``detectable_bps`` would be significant with a probability of 80 %. All four are None with one unit.
    """

    against: str
    difference_bps: float
    low: float | None
    high: float | None
    p_value: float | None
    detectable_bps: float | None


def resampling_units(orders: pl.DataFrame) -> tuple[Integers, str]:
    """Return the unit of each order ``(n,)``, numbered in order of time, and its name.

    The unit is the day if there are at least `LEAST_DAYS` days, otherwise the time block. Orders of all symbols and
    seeds within a unit belong together: they met the same market.
    """
    unit = "day" if orders["day"].n_unique() >= LEAST_DAYS else "block"
    key = ["day"] if unit == "day" else ["day", "block"]
    return orders.select(pl.struct(key).rank("dense").cast(pl.Int64)).to_series().to_numpy(), unit
