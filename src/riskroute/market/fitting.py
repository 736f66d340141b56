"""Fit the paper's venue model: mean and variance of the profit regressed on Q and Q squared, without intercept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import DataError
from riskroute.core.instrument import SHARES, Instrument
from riskroute.core.records import to_plain
from riskroute.core.text import plain_number
from riskroute.routing.venue_models import VenueModel

# A quantity is fitted only if this fraction of the books is deep enough: the deep books alone understate its cost.
_USABLE = 0.5

Pair = tuple[float, float]


def bootstrap_fit_buckets(buckets: Integers, count: int, rng: np.random.Generator) -> Integers:
    """Return the weight of each scenario in ``count`` bootstrap resamples of whole buckets, ``(count, scenarios)``.

    ``buckets (scenarios,)`` is the bucket of each scenario; scenarios of one bucket are drawn together.

    >>> bootstrap_fit_buckets(np.array([0, 1, 0, 1]), 2, np.random.default_rng(1)).tolist()
    [[1, 1, 1, 1], [2, 0, 2, 0]]
    """
    names, place = np.unique(buckets, return_inverse=True)
    drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=count)
    return np.asarray(drawn[:, place])


def bootstrap_fit_error(resampled: Floats, samples: int) -> Floats:
    """Return bootstrap standard errors over resamples ``(R, ...)`` of an estimate from ``samples`` observations.

    The bootstrap understates the variance by the factor ``(n - 1) / n``, which is corrected here.

    >>> float(bootstrap_fit_error(np.array([1.0, 2.0, 3.0]), samples=4).round(4))
    1.1547
    """
    return np.asarray(resampled.std(axis=0, ddof=1) * (samples / (samples - 1)) ** 0.5)


@dataclass(frozen=True)
class VenueFit:
    """Mean and variance of the profit by quantity, and the fitted coefficients.

    ``quantities``, ``means``, ``variances`` and ``counts`` have one entry per fitted quantity. ``samples`` counts the
    buckets with a book, ``short`` the buckets with a book too thin for the largest quantity. ``r2_mean`` and
    ``r2_variance`` are the R^2 of straight lines, as in the paper: mean against Q, variance against Q squared.
    ``r2_mean_model`` and ``r2_variance_model`` are the R^2 of the fitted model. ``worst_mean`` and ``worst_variance``
    are the model's largest absolute residuals, divided by the largest absolute value.
    """

    quantities: tuple[int | float, ...]
    means: tuple[float, ...]
    variances: tuple[float, ...]
    counts: tuple[int, ...]
    mean: Pair
    variance: Pair
    mean_error: Pair
    variance_error: Pair
    r2_mean: float
    r2_variance: float
    r2_mean_model: float
    r2_variance_model: float
    worst_mean: float
    worst_variance: float
    bucket_correlation: float
    samples: int
    short: int
    warnings: tuple[str, ...] = ()

    def natural(self, instrument: Instrument) -> VenueFit:
        """Return the fit with natural quantities instead of units; coefficients are per quantity of 1."""
        one = instrument.unit_size
        pairs: dict[str, Any] = {
            name: (getattr(self, name)[0] / one, getattr(self, name)[1] / one**2)
            for name in ("mean", "variance", "mean_error", "variance_error")
        }
        quantities = tuple(plain_number(instrument.natural(units)) for units in self.quantities)
        return replace(self, quantities=quantities, **pairs)

    def model(self, name: str, kind: str = "market") -> VenueModel:
        """Return the fit as a venue model."""
        return VenueModel(name, self.mean, self.variance, kind, self.mean_error, self.variance_error)

    def summary(self) -> dict[str, Any]:
        """Return the fit as plain values for JSON."""
        plain: dict[str, Any] = to_plain(self)
        return plain


def fit_venue(
    profits: Floats,
    quantities: Integers,
    found: Flags,
    *,
    seed: np.random.SeedSequence,
    draws: int = 1,
    instrument: Instrument = SHARES,
) -> VenueFit:
    """Fit mean and variance of ``profits (draws * B, Q)`` as functions of the quantity in units.

    Profits are NaN where a book is missing or too thin. ``found (B,)`` marks which of the B buckets have a book. With
    several draws per bucket, the first B rows are the first draw of every bucket, the next B rows the second. Standard
    errors are bootstrapped over buckets.
    """
    there = ~np.isnan(profits)
    deep = there[:, -1].reshape(draws, len(found)).all(axis=0)
    samples, short = int(found.sum()), int((found & ~deep).sum())
    found = np.tile(found, draws)
    counts = there.sum(axis=0)
    usable = counts >= max(2, _USABLE * found.sum())
    if usable.sum() < 2:
        raise DataError(
            f"expected books deep enough for at least two quantities in {_USABLE:.0%} of the buckets, "
            f"got {int(usable.sum())} of {len(quantities)} quantities ({samples} buckets with a book)"
        )
    if samples < 2:
        raise DataError(f"expected at least two buckets with a book, got {samples}")
    kept, values, given = quantities[usable], profits[found][:, usable], there[found][:, usable]
    centre = np.where(given, values, 0.0).sum(axis=0) / given.sum(axis=0)
    shifted = np.where(given, values - centre, 0.0)
    basis = np.column_stack([kept, kept**2]).astype(np.float64)
    plain = np.ones((1, len(values)))
    (means,), (variances,) = _moments(plain, shifted, given, centre)
    mean, variance = _coefficients(basis, means), _coefficients(basis, variances)
    drawn = bootstrap_fit_buckets(np.arange(samples), 1000, np.random.default_rng(seed))
    resampled = _moments(np.tile(drawn, draws).astype(np.float64), shifted, given, centre)
    errors = []
    for moments in resampled:
        coefficients = _coefficients(basis, moments)
        errors.append(bootstrap_fit_error(coefficients[np.isfinite(coefficients).all(axis=1)], samples))
    fitted = basis @ mean, basis @ variance
    fit = VenueFit(
        tuple(kept.tolist()),
        tuple(means.tolist()),
        tuple(variances.tolist()),
        tuple(counts[usable].tolist()),
        _pair(mean),
        _pair(variance),
        _pair(errors[0]),
        _pair(errors[1]),
        _line_r2(kept, means),
        _line_r2(kept**2, variances),
        _r2(means, fitted[0]),
        _r2(variances, fitted[1]),
        _worst(means, fitted[0]),
        _worst(variances, fitted[1]),
        _neighbours(profits[: len(profits) // draws, usable][:, 0] / kept[0]),
        samples,
        short,
    )
    return replace(fit, warnings=tuple(_warnings(fit, quantities, usable, instrument.quantity_text)))


def _moments(weights: Floats, shifted: Floats, given: Flags, centre: Floats) -> tuple[Floats, Floats]:
    """Return mean and sample variance per quantity, ``(R, Q)``, for R rows of weights ``(R, N)`` of the scenarios."""
    count = weights @ given
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = weights @ shifted / count
        variance = (weights @ shifted**2 / count - mean**2) * count / (count - 1)
    return mean + centre, np.maximum(variance, 0.0)


def _coefficients(basis: Floats, moments: Floats) -> Floats:
    """Regress moments ``(Q,)`` or ``(R, Q)`` on the two columns of the basis; return ``(2,)`` or ``(R, 2)``."""
    scale = basis.max(axis=0)
    found = moments @ np.linalg.pinv(basis / scale).T
    noise = 1e-13 * np.abs(moments).max(axis=-1, keepdims=True)
    # A term of the fit that is at most ``noise`` is a rounding error.
    return np.asarray(np.where(np.abs(found) > noise, found, 0.0) / scale)


def _pair(values: Floats) -> Pair:
    return float(values[0]), float(values[1])


def _line_r2(along: NDArray[Any], values: Floats) -> float:
    if np.ptp(values) <= 1e-12 * max(np.abs(values).max(), 1e-300):
        return 1.0
    return float(np.corrcoef(along.astype(np.float64), values)[0, 1] ** 2)


def _r2(values: Floats, fitted: Floats) -> float:
    spread = float(((values - values.mean()) ** 2).sum())
    missed = float(((values - fitted) ** 2).sum())
    return 1.0 - missed / spread if spread > 0 else float(missed == 0)


def _worst(values: Floats, fitted: Floats) -> float:
    """Return the largest absolute residual as a fraction of the largest absolute value."""
    return float(np.abs(values - fitted).max() / max(np.abs(values).max(), 1e-300))


def _neighbours(values: Floats) -> float:
    """Return the correlation of neighbouring buckets, 0 if it cannot be estimated."""
    pairs = np.column_stack([values[:-1], values[1:]])
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    if len(pairs) < 3 or (np.ptp(pairs, axis=0) <= 1e-9 * np.abs(pairs).max()).any():
        return 0.0
    return float(np.corrcoef(pairs[:, 0], pairs[:, 1])[0, 1])


def _negative(variance: Pair, largest: int) -> tuple[int, int] | None:
    """Return the first and last quantity with a negative fitted variance, or None; variance per share is linear in Q.

    >>> _negative((-0.5, 0.1), 10), _negative((0.5, -0.1), 10), _negative((0.0, 0.1), 10)
    ((1, 4), (6, 10), None)
    """
    linear, square = variance
    if linear + square >= 0 and linear + square * largest >= 0:
        return None
    root = -linear / square if square else math.inf
    first = 1 if linear + square < 0 else min(math.floor(root) + 1, largest)
    last = largest if linear + square * largest < 0 else max(math.ceil(root) - 1, 1)
    return first, last


def _warnings(fit: VenueFit, asked: Integers, usable: Flags, named: Callable[[float], str]) -> list[str]:
    warnings = []
    if not usable.all():
        warnings.append(
            f"quantities above {named(fit.quantities[-1])} dropped: fewer than {_USABLE:.0%} of the books are deep "
            "enough"
        )
    elif fit.short:
        warnings.append(
            f"{fit.short} of {fit.samples} books are too thin for {named(int(asked[-1]))} and are excluded at that size"
        )
    below = _negative(fit.variance, int(fit.quantities[-1]))
    if below is not None:
        first, last = map(named, below)
        where = f"at {first}" if first == last else f"from {first} to {last}"
        warnings.append(f"the fitted variance is negative {where}")
    if abs(fit.bucket_correlation) > 3 / fit.samples**0.5:
        bias = "too small" if fit.bucket_correlation > 0 else "too large"
        warnings.append(
            f"neighbouring buckets are correlated ({fit.bucket_correlation:.2f}): standard errors are {bias}"
        )
    for name, worst in (("mean", fit.worst_mean), ("variance", fit.worst_variance)):
        if worst > 0.1:
            warnings.append(f"the fitted {name} misses a value by {worst:.0%} of the largest value")
    return warnings
