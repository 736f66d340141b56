"""Fits against plain least squares, plain formulas and a bootstrap written as a loop."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from riskroute.core.errors import DataError
from riskroute.market.fitting import _USABLE, VenueFit, _negative, fit_venue

Floats = NDArray[np.float64]

TEN = np.arange(1, 11)
SEED = np.random.SeedSequence(7)


def fit_all(profits: Floats, quantities: NDArray[np.int64] = TEN, seed: int = 7) -> VenueFit:
    """The fit where every bucket with a value has a book."""
    found: NDArray[np.bool_] = ~np.asarray(np.isnan(profits).all(axis=1))
    return fit_venue(profits, quantities, found, seed=np.random.SeedSequence(seed))


def spread_profits(count: int, seed: int = 0, quantities: NDArray[np.int64] = TEN, sd: float = 0.02) -> Floats:
    """Profits of books with a Gaussian half-spread of mean 0.07: mean -0.07 Q, variance ``sd^2 Q^2``."""
    half = np.random.default_rng(seed).normal(0.07, sd, size=count)
    return -half[:, None] * quantities


def noisy_profits(seed: int, count: int, quantities: NDArray[np.int64], missing: float = 0.0) -> Floats:
    """Profits that obey no model; some are missing, as books that are short are: at large quantities first."""
    rng = np.random.default_rng(seed)
    profits = rng.normal(size=(count, len(quantities))) * rng.uniform(0.1, 3.0, size=len(quantities)) - quantities
    depth = np.where(rng.random(count) < missing, rng.uniform(quantities[0], quantities[-1], size=count), np.inf)
    profits[quantities > depth[:, None]] = np.nan
    return profits


def square_wave(variances: Floats, count: int) -> Floats:
    """Profits whose sample variances are exactly those given: up and down in pairs, so that neighbours do not agree."""
    signs = np.where(np.arange(count) % 4 < 2, 1.0, -1.0)
    return signs[:, None] * np.sqrt(variances * (count - 1) / count)


def least_squares(quantities: NDArray[np.int64], values: Floats) -> Floats:
    basis = np.array([[float(q), float(q) ** 2] for q in quantities])
    return np.linalg.lstsq(basis, values, rcond=None)[0]


def r_squared(values: Floats, fitted: Floats) -> float:
    return 1 - sum((values - fitted) ** 2) / sum((values - sum(values) / len(values)) ** 2)


some_quantities = st.sets(st.integers(1, 200), min_size=3, max_size=8).map(lambda values: np.array(sorted(values)))


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), quantities=some_quantities, missing=st.sampled_from([0.0, 0.3]))
def test_moments_and_coefficients_are_those_of_what_is_there(
    seed: int, quantities: NDArray[np.int64], missing: float
) -> None:
    profits = noisy_profits(seed, 40, quantities, missing)
    fit = fit_all(profits, quantities)
    for k, quantity in enumerate(quantities):
        there = [value for value in profits[:, k].tolist() if value == value]
        assert fit.quantities[k] == quantity
        assert fit.counts[k] == len(there)
        mean = sum(there) / len(there)
        assert fit.means[k] == pytest.approx(mean, rel=1e-9)
        assert fit.variances[k] == pytest.approx(sum((x - mean) ** 2 for x in there) / (len(there) - 1), rel=1e-9)
    np.testing.assert_allclose(fit.mean, least_squares(quantities, np.array(fit.means)), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fit.variance, least_squares(quantities, np.array(fit.variances)), rtol=1e-6, atol=1e-9)
    assert fit.samples == 40
    assert fit.short == np.isnan(profits[:, -1]).sum()


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), quantities=some_quantities)
def test_r2_is_that_of_the_papers_lines_and_of_the_model(seed: int, quantities: NDArray[np.int64]) -> None:
    """The paper's: straight lines with an intercept, mean against Q and variance against Q^2."""
    fit = fit_all(noisy_profits(seed, 40, quantities), quantities)
    along, squared = quantities.astype(float), quantities.astype(float) ** 2
    means, variances = np.array(fit.means), np.array(fit.variances)
    for values, axis, stated in ((means, along, fit.r2_mean), (variances, squared, fit.r2_variance)):
        slope, intercept = np.polyfit(axis, values, 1)
        assert stated == pytest.approx(r_squared(values, slope * axis + intercept), abs=1e-8)
    of_model = (means, fit.mean, fit.r2_mean_model), (variances, fit.variance, fit.r2_variance_model)
    for values, (linear, square), stated in of_model:
        assert stated == pytest.approx(r_squared(values, linear * along + square * squared), rel=1e-6)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), shift=st.floats(-1.0, 1.0), factor=st.floats(0.01, 100.0))
def test_shifts_move_the_mean_only_and_scales_move_both(seed: int, shift: float, factor: float) -> None:
    profits = noisy_profits(seed, 30, TEN, missing=0.2)
    plain, moved = fit_all(profits), fit_all(profits + shift * TEN)
    np.testing.assert_allclose(moved.mean, [plain.mean[0] + shift, plain.mean[1]], atol=1e-9)
    np.testing.assert_allclose(moved.variance, plain.variance, atol=1e-9)
    np.testing.assert_allclose(moved.mean_error, plain.mean_error, atol=1e-9)
    scaled = fit_all(profits * factor)
    np.testing.assert_allclose(scaled.mean, np.array(plain.mean) * factor, rtol=1e-7)
    np.testing.assert_allclose(scaled.variance, np.array(plain.variance) * factor**2, rtol=1e-7)
    np.testing.assert_allclose(scaled.variance_error, np.array(plain.variance_error) * factor**2, rtol=1e-7)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_standard_errors_are_those_of_a_bootstrap_in_a_loop(missing: float) -> None:
    """The same draws, one resample after the other; with few samples, and some of them missing."""
    quantities = np.array([1, 3, 8])
    profits = noisy_profits(3, 12, quantities, missing)
    fit = fit_all(profits, quantities)
    counts = np.random.default_rng(SEED).multinomial(12, [1 / 12] * 12, size=1000)
    means, variances = [], []
    for drawn in counts:
        rows = [row for row, times in enumerate(drawn) for _ in range(times)]
        columns = [profits[rows, k][~np.isnan(profits[rows, k])] for k in range(3)]
        if min(map(len, columns)) >= 1:
            means.append(least_squares(quantities, np.array([column.mean() for column in columns])))
        if min(map(len, columns)) >= 2:
            variances.append(least_squares(quantities, np.array([column.var(ddof=1) for column in columns])))
    few = (12 / 11) ** 0.5
    np.testing.assert_allclose(fit.mean_error, np.std(means, axis=0, ddof=1) * few, rtol=1e-7)
    np.testing.assert_allclose(fit.variance_error, np.std(variances, axis=0, ddof=1) * few, rtol=1e-7)


def test_standard_errors_are_those_of_theory_on_gaussian_spreads() -> None:
    """``sd / sqrt(n)`` for p, and ``sd^2 sqrt(2 / (n - 1))`` for the squared coefficient of the variance.

    A bootstrap of 400 samples knows the first to 4 %, the second (a fourth moment) to 13 %; the average over 20 sets
    is tighter by 4.5, and the margins are four such deviations.
    """
    count, sd = 400, 0.02
    fits = [fit_all(spread_profits(count, seed, sd=sd), seed=seed) for seed in range(20)]
    of_mean = np.mean([fit.mean_error[0] for fit in fits]) / (sd / count**0.5)
    of_variance = np.mean([fit.variance_error[1] for fit in fits]) / (sd**2 * (2 / (count - 1)) ** 0.5)
    assert abs(of_mean - 1) < 0.04
    assert abs(of_variance - 1) < 0.12


@pytest.mark.usefixtures("untraced")
def test_errors_in_units_of_standard_errors_are_standard() -> None:
    """Two hundred data sets of 100: deviations of the estimate are one standard error, known here to 5 %."""
    misses = []
    for seed in range(200):
        fit = fit_all(spread_profits(100, seed, sd=0.02), seed=seed)
        misses.append([(fit.mean[0] + 0.07) / fit.mean_error[0], (fit.variance[1] - 0.0004) / fit.variance_error[1]])
    of_mean, of_variance = np.array(misses).T
    assert abs(of_mean.mean()) < 4 / 200**0.5
    assert 0.8 < of_mean.std() < 1.2
    assert 0.8 < of_variance.std() < 1.35, "small variances have small errors, which stretches one tail"


def test_profits_that_do_not_vary_are_exact_and_without_risk() -> None:
    for count in (2, 23, 60, 389):
        profits = np.tile(-0.0713 * TEN - 0.0002 * TEN**2, (count, 1))
        fit = fit_all(profits)
        np.testing.assert_allclose(fit.mean, (-0.0713, -0.0002), atol=1e-12)
        assert fit.variance == (0.0, 0.0)
        np.testing.assert_allclose(fit.mean_error + fit.variance_error, 0.0, atol=1e-15)
        assert (fit.r2_variance, fit.r2_variance_model, fit.bucket_correlation) == (1.0, 1.0, 0.0)
        assert fit.warnings == ()


def test_the_seed_moves_standard_errors_and_nothing_else() -> None:
    profits = noisy_profits(1, 60, TEN)
    one, again, other = fit_all(profits, seed=1), fit_all(profits, seed=1), fit_all(profits, seed=2)
    assert one.summary() == again.summary()
    assert one.mean_error != other.mean_error
    assert (one.mean, one.variance) == (other.mean, other.variance)
    np.testing.assert_allclose(one.mean_error, other.mean_error, rtol=0.2)


def test_buckets_without_a_book_are_no_samples() -> None:
    profits = spread_profits(50)
    holes = np.insert(profits, [0, 10, 50], np.nan, axis=0)
    full, holed = fit_all(profits), fit_all(holes)
    assert (holed.samples, holed.short) == (50, 0)
    assert (holed.mean, holed.variance, holed.mean_error) == (full.mean, full.variance, full.mean_error)


def test_books_that_are_short_for_large_orders_are_counted_and_said() -> None:
    profits = spread_profits(60)
    profits[:5, 8:] = np.nan
    fit = fit_all(profits)
    assert (fit.samples, fit.short) == (60, 5)
    assert list(fit.counts) == [60] * 8 + [55] * 2
    assert "5 of 60 books are too thin for 10 shares and are excluded at that size" in fit.warnings


def test_quantities_that_most_books_cannot_fill_are_left_out() -> None:
    """Half of the books must do: thirty of sixty are enough, twenty-nine are not."""
    assert _USABLE == 0.5
    profits = spread_profits(60)
    profits[:30, 6:] = np.nan
    profits[:31, 8:] = np.nan
    fit = fit_all(profits)
    assert fit.quantities == tuple(range(1, 9))
    assert list(fit.counts) == [60] * 6 + [30] * 2
    assert fit.short == 31
    assert "quantities above 8 shares dropped: fewer than 50% of the books are deep enough" in fit.warnings


def test_negative_variances_inside_the_range_are_said() -> None:
    """Variances ``0.2 Q^2 - 0.5 Q`` from three shares on: below zero at one and two, where nothing was measured."""
    quantities = np.arange(3, 11)
    fit = fit_all(square_wave(0.2 * quantities**2 - 0.5 * quantities, 40) - quantities, quantities)
    np.testing.assert_allclose(fit.variance, (-0.5, 0.2), atol=1e-9)
    assert "the fitted variance is negative from 1 share to 2 shares" in fit.warnings
    fine = fit_all(square_wave(0.2 * quantities**2 + 0.5 * quantities, 40) - quantities, quantities)
    assert fine.warnings == ()


@given(linear=st.integers(-60, 60), square=st.integers(-60, 60), largest=st.integers(1, 70))
def test_the_negative_range_is_that_of_a_search(linear: int, square: int, largest: int) -> None:
    below = [q for q in range(1, largest + 1) if linear * q + square * q**2 < 0]
    assert _negative((float(linear), float(square)), largest) == ((below[0], below[-1]) if below else None)


def test_large_quantities_need_no_memory() -> None:
    quantities = np.array([1, 10**9])
    profits = spread_profits(10, quantities=quantities)
    tracemalloc.start()
    fit = fit_all(profits, quantities)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fit.mean[0] == pytest.approx(-0.07, abs=0.03)
    assert peak < 10**7


def test_correlated_buckets_are_said_with_their_direction() -> None:
    rng = np.random.default_rng(5)
    slow = np.cumsum(rng.normal(size=60))
    drifting = fit_all(-(0.1 + 0.001 * slow)[:, None] * TEN)
    assert drifting.bucket_correlation == pytest.approx(np.corrcoef(slow[:-1], slow[1:])[0, 1])
    assert any("are correlated" in text and text.endswith("errors are too small") for text in drifting.warnings)
    alternating = fit_all(-(0.1 + 0.01 * (-1.0) ** np.arange(60.0))[:, None] * TEN)
    assert alternating.bucket_correlation == pytest.approx(-1.0)
    assert any("(-1.00)" in text and text.endswith("errors are too large") for text in alternating.warnings)
    assert fit_all(spread_profits(60)).warnings == ()


def test_buckets_with_a_gap_between_them_are_not_neighbours() -> None:
    """Every second bucket has no book, so that what alternates among the others has no neighbour at all."""
    profits = np.full((80, 10), np.nan)
    profits[::2] = -(0.1 + 0.01 * (-1.0) ** np.arange(40))[:, None] * TEN
    fit = fit_all(profits)
    assert fit.bucket_correlation == 0.0
    assert fit.warnings == ()


def test_misfits_are_said() -> None:
    """A mean that is flat and then falls, and a variance that does, are not quadratic."""
    cliff = np.where(TEN <= 7, 0.0, 1.0)
    mean = fit_all(np.tile(-cliff, (20, 1)) - square_wave(0.001 * TEN.astype(np.float64) ** 2, 20))
    assert mean.worst_mean > 0.1
    assert any(text.startswith("the fitted mean misses a value by") for text in mean.warnings)
    variance = fit_all(square_wave(cliff, 20) - TEN)
    expected = np.abs(variance.variances - (variance.variance[0] * TEN + variance.variance[1] * TEN**2)).max()
    assert variance.worst_variance == pytest.approx(expected / max(variance.variances))
    assert any(text.startswith("the fitted variance misses a value by") for text in variance.warnings)


def nothing_there() -> Floats:
    return np.full((60, 10), np.nan)


def one_bucket() -> Floats:
    profits = nothing_there()
    profits[7] = -TEN
    return profits


def one_quantity() -> Floats:
    profits = spread_profits(60)
    profits[:, 1:] = np.nan
    return profits


@pytest.mark.parametrize(
    ("make", "got"),
    [
        (nothing_there, r"got 0 of 10 quantities \(0 buckets with a book\)"),
        (one_bucket, r"got 0 of 10 quantities \(1 buckets with a book\)"),
        (one_quantity, r"got 1 of 10 quantities \(60 buckets with a book\)"),
    ],
)
def test_too_few_samples_are_an_error(make: Any, got: str) -> None:
    expected = "expected books deep enough for at least two quantities in 50% of the buckets, "
    with pytest.raises(DataError, match=expected + got):
        fit_all(make())


def test_books_that_are_all_too_thin_are_an_error_even_if_found() -> None:
    with pytest.raises(DataError, match=r"\(60 buckets with a book\)"):
        fit_venue(nothing_there(), TEN, np.ones(60, dtype=bool), seed=SEED)


def test_two_samples_of_two_quantities_are_enough() -> None:
    fit = fit_all(np.array([[-1.0, -4.0], [-3.0, -8.0]]), np.array([1, 2]))
    np.testing.assert_allclose(fit.mean, (-1.0, -1.0), atol=1e-12)  # means -2 and -6
    np.testing.assert_allclose(fit.variance, (0.0, 2.0), atol=1e-12)  # variances 2 and 8
    assert np.isfinite(fit.mean_error + fit.variance_error).all()


def test_the_model_and_the_summary_carry_the_fit() -> None:
    fit = fit_all(spread_profits(60))
    model = fit.model("XNAS limit", "limit")
    assert (model.name, model.kind) == ("XNAS limit", "limit")
    assert (model.mean, model.variance) == (fit.mean, fit.variance)
    assert (model.mean_error, model.variance_error) == (fit.mean_error, fit.variance_error)
    summary = json.loads(json.dumps(fit.summary()))
    assert summary["mean"] == list(fit.mean)
    assert summary["quantities"] == TEN.tolist()
    assert summary["counts"] == [60] * 10
    assert set(summary) == set(VenueFit.__dataclass_fields__)
