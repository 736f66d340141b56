"""Intervals and tests of the backtest, against their definitions, plain loops and another implementation."""

from __future__ import annotations

import importlib
import math
from types import ModuleType

import numpy as np
import pytest

from riskroute.core.arrays import Floats, Vector
from riskroute.core.errors import InputError
from riskroute.study.statistics import (
    _LEAST_LENGTH,
    _POWER,
    _block_length,
    _small_sample,
    _stationary_draws,
    block_sums,
    bootstrap_difference,
    superior_pvalue,
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
    ("n", "memory", "coverage"), [(40, 0.0, 0.96), (150, 0.0, 0.945), (40, 0.5, 0.90), (150, 0.5, 0.915)]
)
def test_intervals_hold_the_true_mean_about_as_often_as_they_say(n: int, memory: float, coverage: float) -> None:
    """95 % of the time where blocks are alone; some per cent less where they are alike, as bootstraps are.

    The coverages are those of 2,000 other series each; the share of 250 is within four standard errors of them. These
    250 are unlucky ones: intervals of the known deviation hold the mean of 150 in 93.6 % of them. Bootstrap quantiles
    alone, without the correction for few blocks, hold it for 40 in 89 % and 81 %, which is outside.
    """
    held = 0
    for seed in range(250):
        rng = np.random.default_rng([7, seed])
        found = bootstrap_difference(series(rng, n, memory), np.arange(n), rng, resamples=200)
        held += found.low <= 0 <= found.high
    assert held / 250 == pytest.approx(coverage, abs=4 * math.sqrt(coverage * (1 - coverage) / 250))


@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_standard_errors_are_those_of_another_implementation(memory: float, arch: ModuleType) -> None:
    """Up to the correction for few blocks; of 4,000 resamples each, the ratio has a standard error of 1.6 %."""
    values = series(np.random.default_rng(5), 120, memory)
    found = bootstrap_difference(values, np.arange(120), np.random.default_rng(1), resamples=4000)
    assert found.length == max(_block_length(values), _LEAST_LENGTH)
    theirs = arch.StationaryBootstrap(found.length, values, seed=2).apply(np.mean, 4000).std(ddof=1)
    assert found.error / _small_sample(120, found.length)[0] == pytest.approx(float(theirs), rel=0.05)
    assert found.detectable == _POWER * found.error
    assert found.low < found.mean < found.high


def test_power_is_what_it_says() -> None:
    """A true difference of 2.8 standard errors is found four times out of five: 0.8 within 3 s.e. of 250 series."""
    n, seen = 200, 0
    true = _POWER / math.sqrt(n)
    for seed in range(250):
        rng = np.random.default_rng([9, seed])
        seen += bootstrap_difference(rng.standard_normal(n) + true, np.arange(n), rng, resamples=200).low > 0
    assert seen / 250 == pytest.approx(0.8, abs=0.076)


def test_blocks_count_by_their_orders() -> None:
    values, blocks = np.array([1.0, 2.0, 3.0, 10.0]), np.array([5, 5, 5, 9])
    sums, counts = block_sums(values, blocks)
    assert (sums.tolist(), counts.tolist()) == ([6.0, 10.0], [3.0, 1.0])
    assert bootstrap_difference(values, blocks, np.random.default_rng(0)).mean == 4.0
    same = bootstrap_difference(np.full(30, 0.25), np.arange(30), np.random.default_rng(0))
    assert (same.low, same.high, same.error) == (0.25, 0.25, 0.0)


def test_one_block_has_no_interval_and_none_no_mean() -> None:
    alone = bootstrap_difference(np.array([1.0, 3.0]), np.array([0, 0]), np.random.default_rng(0))
    assert (alone.mean, alone.blocks) == (2.0, 1)
    assert all(math.isnan(value) for value in (alone.low, alone.high, alone.error, alone.detectable))
    with pytest.raises(InputError, match="values must hold at least one number, was empty"):
        bootstrap_difference(np.zeros(0), np.zeros(0, dtype=np.int64), np.random.default_rng(0))


def naive_pvalue(benchmark: Vector, others: Floats, rng: np.random.Generator, length: float, resamples: int) -> float:
    """Hansen's consistent p-value, one resample and one series after the other."""
    n, m = others.shape
    drawn = _stationary_draws(n, length, resamples, rng)
    gains = [[benchmark[t] - others[t, k] for t in range(n)] for k in range(m)]
    means = [sum(gain) / n for gain in gains]
    redrawn = [[sum(gain[t] for t in row) / n for row in drawn] for gain in gains]
    deviations = []
    for one in redrawn:
        middle = sum(one) / resamples
        deviations.append(math.sqrt(n * sum((value - middle) ** 2 for value in one) / resamples))
    observed = max(0.0, *(math.sqrt(n) * means[k] / deviations[k] for k in range(m)))
    if observed == 0:
        return 1.0  # nothing even looks better
    larger = 0
    for b in range(resamples):
        highest = 0.0
        for k in range(m):
            clearly_worse = means[k] < -deviations[k] / math.sqrt(n) * math.sqrt(2 * math.log(math.log(n)))
            centre = 0.0 if clearly_worse else means[k]
            highest = max(highest, math.sqrt(n) * (redrawn[k][b] - centre) / deviations[k])
        larger += highest > observed
    return larger / resamples


def losses(seed: int, n: int, gains: list[float]) -> tuple[Vector, Floats]:
    """A benchmark, and others of the same variance that are so much better on average."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(n), rng.standard_normal((n, len(gains))) - np.array(gains)


CASES = {
    "nothing better": [0.0, 0.0, 0.0],
    "a little better": [0.15, 0.0, -0.1],
    "clearly better": [0.8, 0.0, 0.0],
    "many much worse": [0.15, *[-3.0] * 12],
    "all worse": [-0.5, -1.0, -2.0],
}


@pytest.mark.parametrize("case", [case for case in CASES if case != "all worse"])
def test_the_best_of_many_as_another_implementation_finds_it(case: str, arch: ModuleType) -> None:
    """It does not scale series by their deviation, which makes no difference where all have the same.

    Of 2,000 resamples each, p-values have standard errors of up to 1.1 %; deviations are estimated on top.
    """
    benchmark, others = losses(0, 120, CASES[case])
    ours = superior_pvalue(benchmark, others, np.random.default_rng(0), length=4.0, resamples=2000)
    test = arch.SPA(benchmark, others, block_size=4, reps=2000, studentize=True, seed=1)
    test.compute()
    assert ours == pytest.approx(float(test.pvalues["consistent"]), abs=0.06)


@pytest.mark.parametrize("case", CASES)
def test_the_best_of_many_by_plain_loops(case: str) -> None:
    benchmark, others = losses(4, 40, CASES[case])
    others = benchmark[:, None] + (others - benchmark[:, None]) * np.linspace(0.2, 3, others.shape[1])
    ours = superior_pvalue(benchmark, others, np.random.default_rng(2), length=3.0, resamples=200)
    assert ours == pytest.approx(naive_pvalue(benchmark, others, np.random.default_rng(2), 3.0, 200), abs=1e-12)


def test_bad_company_does_not_hide_the_best() -> None:
    """Others that are much worse leave the p-value of a good one as it is, and luck among many is not proof."""
    benchmark, others = losses(5, 100, [0.5, *[-4.0] * 20])
    alone = superior_pvalue(benchmark, others[:, :1], np.random.default_rng(0), length=2.0)
    among = superior_pvalue(benchmark, others, np.random.default_rng(0), length=2.0)
    assert alone == among < 0.05
    found = [superior_pvalue(*losses(seed, 60, [0.0] * 10), np.random.default_rng(seed), length=1.0, resamples=200)
             for seed in range(100)]  # fmt: skip
    assert np.mean([p < 0.1 for p in found]) < 0.22  # 10 % of a hundred: three standard errors and small samples


def test_series_that_are_equal_beat_nobody() -> None:
    benchmark = np.random.default_rng(0).standard_normal(30)
    assert superior_pvalue(benchmark, np.column_stack([benchmark] * 2), np.random.default_rng(0), length=2.0) == 1.0
    always = superior_pvalue(benchmark, benchmark[:, None] - 0.25, np.random.default_rng(0), length=2.0)
    assert always == 0.0
    assert superior_pvalue(*losses(0, 50, CASES["all worse"]), np.random.default_rng(0), length=2.0) == 1.0
