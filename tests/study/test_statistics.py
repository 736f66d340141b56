"""Intervals and tests of the backtest, against their definitions, plain loops and another implementation."""

from __future__ import annotations

import importlib
import math
from types import ModuleType

import numpy as np
import polars as pl
import pytest

from riskroute.core.arrays import Vector
from riskroute.core.errors import InputError
from riskroute.study.statistics import (
    _LEAST_LENGTH,
    _POWER,
    Resamples,
    Sample,
    _block_length,
    _small_sample,
    _stationary_draws,
    bootstrap_difference,
    resampling_units,
)


@pytest.fixture(scope="module")
def arch() -> ModuleType:
    """The other implementation, which takes seconds to import: not wherever these tests are only collected."""
    return importlib.import_module("arch.bootstrap")


def series(rng: np.random.Generator, n: int, memory: float) -> Vector:
    """An AR(1) series ``(n,)`` of mean 0, from its stationary state."""
    shocks = rng.standard_normal(n)
    shocks[0] /= math.sqrt(1 - memory**2)
    values = np.zeros(n)
    for k in range(n):
        values[k] = (memory * values[k - 1] if k else 0.0) + shocks[k]
    return values


def naive_length(values: Vector, *, trimmed: bool) -> float:
    """The rule of Politis and White, as corrected; ``trimmed``: lags are scaled by the ends of the series they use."""
    n, eps = len(values), values - values.mean()
    few = max(5, int(math.log10(n)))
    most = math.ceil(math.sqrt(n)) + few
    covariances = [sum(eps[t] * eps[t - k] for t in range(k, n)) / n for k in range(most + 1)]
    quiet = []
    for k in range(most + 1):
        ends = math.sqrt((eps[k + 1 :] ** 2).sum() * (eps[: n - k - 1] ** 2).sum()) / n
        quiet.append(abs(covariances[k]) / (ends if trimmed else covariances[0]) < 2 * math.sqrt(math.log10(n) / n))
    begins = [k for k in range(most - few + 1) if all(quiet[k : k + few])]
    window = min(2 * max(begins[0], 1), most) if begins else most
    weights = [min(1.0, 2 * (1 - k / window)) for k in range(window + 1)]
    spectrum = sum((1 if k == 0 else 2) * weights[k] * covariances[k] for k in range(window + 1))
    slope = sum(2 * weights[k] * k * covariances[k] for k in range(window + 1))
    best = (2 * slope**2 / (2 * spectrum**2)) ** (1 / 3) * n ** (1 / 3)
    return max(min(best, math.ceil(min(3 * math.sqrt(n), n / 3))), 1.0)


def test_block_lengths_are_those_of_the_rule_and_of_another_implementation(arch: ModuleType) -> None:
    """The other one scales autocorrelations by the ends of the series, which is all that it does otherwise."""
    same = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        values = series(rng, int(rng.choice([30, 60, 150, 400])), float(rng.choice([-0.5, 0.0, 0.3, 0.6, 0.9])))
        theirs = max(float(arch.optimal_block_length(values)["stationary"].iloc[0]), 1.0)
        assert naive_length(values, trimmed=True) == pytest.approx(theirs, rel=1e-9)
        assert _block_length(values) == pytest.approx(naive_length(values, trimmed=False), rel=1e-9)
        same += _block_length(values) == pytest.approx(theirs, rel=1e-9)
    assert same >= 45


def test_block_lengths_of_series_that_say_nothing() -> None:
    assert _block_length(np.ones(50)) == _block_length(np.array([1.0, 2.0])) == 1.0
    assert _block_length(np.tile([1.0, -1.0], 100)) == math.ceil(3 * math.sqrt(200))  # no more than a stretch of it


def test_runs_are_geometric_and_wrap_around() -> None:
    count, mean = 50, 5.0
    drawn = _stationary_draws(count, mean, 2000, np.random.default_rng(0))
    assert drawn.shape == (2000, count)
    assert drawn.min() == 0
    assert drawn.max() == count - 1
    goes_on = drawn[:, 1:] == (drawn[:, :-1] + 1) % count
    # a run goes on with probability 1 - 1/5, or by chance with that of the next index; 98,000 draws: s.e. 0.0013
    assert goes_on.mean() == pytest.approx(1 - 1 / mean + 1 / mean / count, abs=0.005)
    wrapped = goes_on & (drawn[:, :-1] == count - 1)
    assert wrapped.sum() > 1000
    # no memory: a run that went on goes on as often as any
    assert goes_on[:, 1:][goes_on[:, :-1]].mean() == pytest.approx(goes_on.mean(), abs=0.005)
    # every index is as likely as any other, 2,000 draws each and runs of five: s.e. about 0.05 of it
    assert np.bincount(drawn.ravel()) / 2000 == pytest.approx(np.ones(count), abs=0.25)
    assert len(np.unique(_stationary_draws(7, 1.0, 1, np.random.default_rng(1)))) < 7  # all on their own


@pytest.mark.parametrize(
    ("n", "memory", "coverage"), [(40, 0.0, 0.97), (150, 0.0, 0.95), (40, 0.5, 0.92), (150, 0.5, 0.92)]
)
def test_intervals_hold_the_true_mean_about_as_often_as_they_say(n: int, memory: float, coverage: float) -> None:
    """95 % of the time where blocks are independent; some per cent less where they are correlated.

    The coverages are those of 2,000 other series each; the share of 250 is within four standard errors of them.
    """
    held = 0
    for seed in range(250):
        rng = np.random.default_rng([7, seed])
        found = bootstrap_difference(series(rng, n, memory), np.arange(n), rng, resamples=199)
        held += found.low <= 0 <= found.high
    assert held / 250 == pytest.approx(coverage, abs=4 * math.sqrt(coverage * (1 - coverage) / 250))


@pytest.mark.parametrize("n", [8, 20])
def test_intervals_over_few_days(n: int) -> None:
    """Days of five orders that share half of their variance, as skewed as an exponential distribution.

    95 % in theory without skew; 0.95 within four standard errors of 400 series, and 1.5 % for the skew.
    """
    held, days = 0, np.repeat(np.arange(n), 5)
    for seed in range(400):
        rng = np.random.default_rng([11, seed])
        values = rng.exponential(size=n)[days] - 1 + rng.standard_normal(5 * n)
        found = bootstrap_difference(values, days, rng, unit="day", resamples=199)
        held += found.low <= 0 <= found.high
    assert held / 400 == pytest.approx(0.945, abs=0.05)


def test_p_values_and_intervals_never_contradict_each_other() -> None:
    """Means around the edge of significance, alone and together: p < 0.05 exactly if the interval excludes 0."""
    significant = 0
    for seed in range(300):
        rng = np.random.default_rng([3, seed])
        values = rng.standard_normal((40, 3)) + 0.33
        resamples = Resamples(np.arange(40), "block" if seed % 2 else "day", values, rng, resamples=199)
        for found in (resamples.difference(values[:, 0]), *resamples.differences(list(values.T))):
            assert (found.p_value < 0.05) == (not found.low <= 0 <= found.high)
            significant += found.p_value < 0.05
    assert 200 < significant < 1000


def test_a_p_value_by_plain_loops() -> None:
    """The fraction of resamples whose largest deviation, in standard errors, is as large as the mean's."""
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(12), 2)
    values = rng.standard_normal((24, 2)) + np.array([0.4, 0.1])
    resamples = Resamples(units, "day", values, np.random.default_rng(5), resamples=99)
    drawn = _stationary_draws(12, 1.0, 99, np.random.default_rng(5))
    means = [[np.mean([values[t, k] for day in row for t in (2 * day, 2 * day + 1)]) for row in drawn] for k in (0, 1)]
    errors = [float(np.std(one, ddof=1)) for one in means]
    centre = values.mean(axis=0)
    largest = [max(abs(means[k][b] - centre[k]) / errors[k] for k in (0, 1)) for b in range(99)]
    wider = math.sqrt(12 / 11) * 2.2009852 / 1.9599640  # Student's quantile with 11 degrees of freedom
    for k, found in enumerate(resamples.differences(list(values.T))):
        beyond = sum(one >= abs(centre[k]) / (wider * errors[k]) for one in largest)
        assert found.p_value == pytest.approx((1 + beyond) / 100)
        assert found.error == pytest.approx(math.sqrt(12 / 11) * errors[k])


def test_joint_intervals_hold_all_means_at_once() -> None:
    """Of ten equal series some looks different in a third of the cases, in its own interval; jointly in 5 %.

    Within three standard errors of 200 series; small samples of a bootstrap may be off by two per cent.
    """
    own = joint = 0
    for seed in range(200):
        rng = np.random.default_rng([5, seed])
        values = rng.standard_normal((40, 10))
        resamples = Resamples(np.arange(40), "day", values, rng, resamples=199)
        own += any(resamples.difference(one).p_value < 0.05 for one in values.T)
        joint += any(found.p_value < 0.05 for found in resamples.differences(list(values.T)))
    assert own > 50
    assert joint / 200 == pytest.approx(0.05, abs=0.066)


@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_standard_errors_are_those_of_another_implementation(memory: float, arch: ModuleType) -> None:
    """Up to the correction for few blocks; of 4,000 resamples each, the ratio has a standard error of 1.6 %."""
    values = series(np.random.default_rng(5), 120, memory)
    resamples = Resamples(np.arange(120), "block", values[:, None], np.random.default_rng(1), resamples=4000)
    found, length = resamples.difference(values), 120 / resamples.sample.independent
    assert length == pytest.approx(max(_block_length(values), _LEAST_LENGTH))
    theirs = arch.StationaryBootstrap(length, values, seed=2).apply(np.mean, 4000).std(ddof=1)
    assert found.error / _small_sample(120, length)[0] == pytest.approx(float(theirs), rel=0.05)
    assert found.detectable == _POWER * found.error
    assert found.low < found.mean < found.high


def test_power_is_what_it_says() -> None:
    """A true difference of 2.8 standard errors is found four times out of five: 0.8 within 3 s.e. of 250 series."""
    n, seen = 200, 0
    true = _POWER / math.sqrt(n)
    for seed in range(250):
        rng = np.random.default_rng([9, seed])
        values = rng.standard_normal(n) + true
        seen += bootstrap_difference(values, np.arange(n), rng, unit="day", resamples=199).low > 0
    assert seen / 250 == pytest.approx(0.8, abs=0.076)


def test_units_count_by_their_orders() -> None:
    values, blocks = np.array([1.0, 2.0, 3.0, 10.0]), np.array([5, 5, 5, 9])
    assert bootstrap_difference(values, blocks, np.random.default_rng(0)).mean == 4.0
    same = bootstrap_difference(np.full(30, 0.25), np.arange(30), np.random.default_rng(0))
    assert (same.low, same.high, same.error, same.p_value) == (0.25, 0.25, 0.0, 1 / 2000)
    none = bootstrap_difference(np.zeros(30), np.arange(30), np.random.default_rng(0))
    assert (none.low, none.high, none.p_value) == (0.0, 0.0, 1.0)


def test_one_block_has_no_interval_and_none_no_mean() -> None:
    alone = bootstrap_difference(np.array([1.0, 3.0]), np.array([0, 0]), np.random.default_rng(0))
    assert alone.mean == 2.0
    assert all(math.isnan(one) for one in (alone.low, alone.high, alone.error, alone.detectable, alone.p_value))
    with pytest.raises(InputError, match="series must hold at least one number, was empty"):
        bootstrap_difference(np.zeros(0), np.zeros(0, dtype=np.int64), np.random.default_rng(0))
    with pytest.raises(InputError, match="unit must be one of day, block, was 'hour'"):
        bootstrap_difference(np.zeros(1), np.zeros(1, dtype=np.int64), np.random.default_rng(0), unit="hour")


def test_days_are_resampled_from_eight_days_on() -> None:
    """Orders of all symbols and seeds in a day, or in a time block, belong together."""
    rows = [(day, symbol, seed, block) for day in range(9) for symbol in "AB" for seed in (0, 1) for block in (0, 1)]
    orders = pl.DataFrame(rows, schema=["day", "symbol", "seed", "block"], orient="row")
    orders = orders.with_columns(day=pl.format("2019-03-0{}", "day"))
    units, unit = resampling_units(orders)
    assert (unit, len(set(units.tolist()))) == ("day", 9)
    few = orders.filter(pl.col("day") < "2019-03-07")
    units, unit = resampling_units(few)
    assert (unit, len(set(units.tolist()))) == ("block", 14)
    assert (np.bincount(units)[1:] == 4).all()
    assert (np.diff(units[(few["symbol"] == "A").to_numpy()]) >= -1).all()


def test_what_is_enough_for_a_verdict() -> None:
    assert Sample("day", 8, 8.0).enough
    assert not Sample("block", 149, 29.8).enough
    assert Sample("block", 150, 30.0).enough
    assert str(Sample("block", 150, 30.0)) == "150 time blocks, 30 of them independent"
    assert str(Sample("day", 12, 12.0)) == "12 days"
    assert Sample("day", 12, 12.0).further_days(12) == Sample("block", 200, 40.0).further_days(5) == 0
    assert Sample("block", 120, 24.0).further_days(4) == 1
    assert Sample("block", 24, 4.8).further_days(4) == 4  # eight days are enough, however short
