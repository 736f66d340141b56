"""Regressions of mean and variance: known coefficients are recovered, and the online fit agrees with the batch fit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

from naive_learning import batch_fit
from riskroute.core.arrays import Matrix, Vector
from riskroute.core.errors import InputError, StateError
from riskroute.learning.mean_variance_regression import (
    MeanVarianceEstimate,
    MeanVarianceRegression,
    MeanVarianceRegressionRows,
    RegressionResidualTest,
    _nonnegative_least_squares,
)

THETA, PHI = np.array([1.0, -0.5, 0.2, 0.0]), np.array([0.5, 2.0, 0.0])
VAGUE = MeanVarianceEstimate.independent(np.zeros(4), np.full(4, 100.0), np.ones(3), np.full(3, 100.0))


def standard_errors(precision: Matrix) -> Vector:
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(precision))))


def drawn(rng: np.random.Generator, count: int) -> MeanVarianceRegressionRows:
    """Rows with the coefficients above, an offset and a part of the variance that is known."""
    x, chi = rng.standard_normal((count, 4)), rng.random((count, 3)) ** 2
    offset, base = rng.standard_normal(count), 0.1 * rng.random(count)
    noise = np.sqrt(base + chi @ PHI) * rng.standard_normal(count)
    return MeanVarianceRegressionRows(x, chi, offset + x @ THETA + noise, offset=offset, base_variance=base)


@pytest.fixture(scope="module")
def rows() -> MeanVarianceRegressionRows:
    return drawn(np.random.default_rng(1), 4000)


@pytest.fixture(scope="module")
def streamed(rows: MeanVarianceRegressionRows) -> MeanVarianceRegression:
    regression = MeanVarianceRegression(VAGUE, keep=100)
    for start in range(0, len(rows), 40):
        regression.add(rows.part(start, start + 40))
        regression.refresh()
    return regression


def test_the_non_negative_minimum_is_that_of_an_active_set_method() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        q = int(rng.integers(1, 9))
        features, targets = rng.standard_normal((30, q)), rng.standard_normal(30)
        found = _nonnegative_least_squares(features.T @ features, features.T @ targets)
        assert found.tolist() == pytest.approx(nnls(features, targets)[0].tolist(), abs=1e-8)


def test_the_batch_fit_recovers_the_coefficients(rows: MeanVarianceRegressionRows) -> None:
    """Within three standard errors in each of seven coefficients."""
    found = batch_fit(rows, VAGUE)
    assert (np.abs(found.mean_coef - THETA) < 3 * standard_errors(found.mean_precision)).all()
    assert (np.abs(found.var_coef - PHI) < 3 * standard_errors(found.var_precision)).all()
    assert found.var_coef.min() >= 0


def test_weights_by_variance_make_the_mean_better_known(rows: MeanVarianceRegressionRows) -> None:
    """The weighted fit claims smaller errors than the same variance for every row would leave, as it should."""
    once, swept = batch_fit(rows, VAGUE, sweeps=1), batch_fit(rows, VAGUE)
    plain = standard_errors(once.mean_precision) * np.sqrt(once.variance / VAGUE.variance)
    assert (standard_errors(swept.mean_precision) < 0.95 * plain).all()


def test_streaming_is_the_batch_fit_while_all_rows_are_kept(rows: MeanVarianceRegressionRows) -> None:
    regression = MeanVarianceRegression(VAGUE, keep=400)
    for start in range(0, 400, 7):
        regression.add(rows.part(start, min(start + 7, 400)))
    regression.refresh()
    found, batch = regression.estimate, batch_fit(rows.part(0, 400), VAGUE)
    assert found.mean_coef.tolist() == pytest.approx(batch.mean_coef.tolist(), rel=1e-9)
    assert found.mean_precision == pytest.approx(batch.mean_precision, rel=1e-9)
    assert found.var_coef.tolist() == pytest.approx(batch.var_coef.tolist(), rel=1e-9)
    assert (found.variance, found.kurtosis) == pytest.approx((batch.variance, batch.kurtosis))


def test_sums_of_rows_are_the_batch_fit_where_variances_are_known(rows: MeanVarianceRegressionRows) -> None:
    """With the coefficients of the variance pinned, weights do not depend on when a row was summed up."""
    known = dataclasses.replace(VAGUE, var_coef=PHI, var_precision=np.eye(3) * 1e16)
    loud = np.flatnonzero(rows.base_variance + rows.var_features @ PHI > 0.5)  # above the floor of variances
    names = ("mean_features", "var_features", "rewards", "offset", "base_variance")
    some = MeanVarianceRegressionRows(*(getattr(rows, name)[loud[:400]] for name in names))
    regression = MeanVarianceRegression(known, keep=0)
    for start in range(0, 400, 40):
        regression.add(some.part(start, start + 40))
        regression.refresh()
    assert regression.recent == []
    batch = batch_fit(some, known)
    assert regression.estimate.mean_coef.tolist() == pytest.approx(batch.mean_coef.tolist(), abs=1e-6)
    assert regression.estimate.mean_precision == pytest.approx(batch.mean_precision, rel=1e-6, abs=1e-6)


def test_streaming_approaches_the_batch_fit(rows: MeanVarianceRegressionRows, streamed: MeanVarianceRegression) -> None:
    """Early rows were weighted by rough variances: that moves coefficients by three quarters of an s.e. at most."""
    batch, found = batch_fit(rows, VAGUE), streamed.estimate
    assert (np.abs(found.mean_coef - batch.mean_coef) < 0.75 * standard_errors(batch.mean_precision)).all()
    assert (np.abs(found.var_coef - batch.var_coef) < 0.75 * standard_errors(batch.var_precision)).all()
    assert (np.abs(found.mean_coef - THETA) < 3 * standard_errors(found.mean_precision)).all()
    assert (np.abs(found.var_coef - PHI) < 3 * standard_errors(found.var_precision)).all()


def factored(rng: np.random.Generator, count: int) -> MeanVarianceRegressionRows:
    """Three rows a round with a common factor of variance 2 and loadings 1, 0.5 and -1, and own noise of 0.5."""
    loadings = np.array([1.0, 0.5, -1.0])
    rewards = np.sqrt(2) * rng.standard_normal((count, 1)) * loadings + np.sqrt(0.5) * rng.standard_normal((count, 3))
    chi = np.column_stack([np.tile(loadings**2, count), np.ones(3 * count)])
    first = 3 * np.arange(count)
    pairs = np.concatenate([np.column_stack([first + k, first + m]) for k, m in ((0, 1), (0, 2), (1, 2))])
    between = np.column_stack([loadings[pairs % 3].prod(axis=1), np.zeros(len(pairs))])
    rounds = np.repeat(np.arange(count), 3)
    return MeanVarianceRegressionRows(
        np.ones((3 * count, 1)), chi, rewards.ravel(), rounds=rounds, pairs=pairs, pair_features=between
    )


@pytest.mark.parametrize("streaming", [False, True])
def test_products_of_errors_find_a_common_factor(streaming: bool) -> None:
    """Standard errors take three rows of a round for one, so they are too large by up to root three: two are enough."""
    rows = factored(np.random.default_rng(3), 1000)
    prior = MeanVarianceEstimate.independent([0.0], [100.0], [1.0, 1.0], [100.0, 100.0])
    if streaming:
        regression = MeanVarianceRegression(prior, keep=50)
        for start in range(0, 3000, 30):
            regression.add(rows.part(start, start + 30))
            regression.refresh()
        found = regression.estimate
    else:
        found = batch_fit(rows, prior)
    assert (np.abs(found.var_coef - [2.0, 0.5]) < 2 * standard_errors(found.var_precision)).all()
    assert found.var_coef.tolist() == pytest.approx([2.0, 0.5], rel=0.2)


def test_rows_of_one_round_share_one_unit_of_weight(rows: MeanVarianceRegressionRows) -> None:
    some = rows.part(0, 300)
    names = ("mean_features", "var_features", "rewards", "offset", "base_variance", "rounds")
    three = MeanVarianceRegressionRows(*(np.repeat(getattr(some, name), 3, axis=0) for name in names))
    once, thrice = MeanVarianceRegression(VAGUE), MeanVarianceRegression(VAGUE)
    once.add(some)
    thrice.add(three)
    once.refresh()
    thrice.refresh()
    assert thrice.estimate.mean_coef.tolist() == pytest.approx(once.estimate.mean_coef.tolist())
    assert thrice.estimate.var_precision == pytest.approx(once.estimate.var_precision)
    assert thrice.seen == pytest.approx(300)


def test_an_outlier_counts_as_six_deviations(rows: MeanVarianceRegressionRows) -> None:
    """Thirty deviations in one of a thousand rows would double the variance; six add some per cent."""
    some = rows.part(0, 1000)
    moved = some.rewards.copy()
    moved[7] += 30
    clean, wild = batch_fit(some, VAGUE), batch_fit(dataclasses.replace(some, rewards=moved), VAGUE)
    assert wild.var_coef.sum() < 1.1 * clean.var_coef.sum()
    assert 3 <= clean.kurtosis <= wild.kurtosis <= 20


def test_the_offset_gets_a_coefficient_that_tells_whether_it_is_right() -> None:
    rng = np.random.default_rng(4)
    x, offset = rng.standard_normal((2000, 1)), rng.standard_normal(2000)
    rewards = 0.7 * offset + x[:, 0] + rng.standard_normal(2000)
    regression = MeanVarianceRegression(MeanVarianceEstimate.independent([0.0], [1.0], [1.0], [1.0]), offset_sd=0.1)
    assert regression.estimate.mean_coef.tolist() == [0.0, 1.0]
    regression.add(MeanVarianceRegressionRows(x, np.ones((2000, 1)), rewards, offset=offset))
    regression.refresh()
    assert regression.estimate.mean_coef.tolist() == pytest.approx(
        [1.0, 0.7], abs=0.1
    )  # four s.e. and the prior's pull
    row = MeanVarianceRegressionRows(np.ones((1, 1)), np.ones((1, 1)), np.zeros(1), offset=np.array([2.0]))
    mean, noise, lever = regression.predict(row)
    assert mean[0] == pytest.approx(float(regression.estimate.mean_coef @ [1.0, 2.0]))
    assert noise[0] == pytest.approx(1.0, abs=0.15)
    assert 0 < lever[0] < 0.01


def test_standardised_errors_have_variance_one(streamed: MeanVarianceRegression) -> None:
    errors = streamed.standardised(drawn(np.random.default_rng(6), 4000))
    assert abs(errors.mean()) < 4 / np.sqrt(4000)
    assert errors.var() == pytest.approx(1, abs=4 * np.sqrt(2 / 4000))


def test_discounting_fades_rows_and_keeps_the_prior(rows: MeanVarianceRegressionRows) -> None:
    some, less = rows.part(0, 100), rows.part(0, 100)
    object.__setattr__(less, "weights", np.full(100, 0.3))
    faded, weighted = MeanVarianceRegression(VAGUE), MeanVarianceRegression(VAGUE)
    faded.add(some)
    faded.discount(0.3)
    weighted.add(less)
    faded.refresh()
    weighted.refresh()
    assert faded.estimate.mean_coef.tolist() == pytest.approx(weighted.estimate.mean_coef.tolist())
    assert faded.estimate.var_coef.tolist() == pytest.approx(weighted.estimate.var_coef.tolist())
    faded.reset()
    assert faded.estimate.mean_coef.tolist() == VAGUE.mean_coef.tolist()
    assert faded.seen == 0


def test_a_member_with_few_rows_borrows_up_to_a_cap(
    rows: MeanVarianceRegressionRows, streamed: MeanVarianceRegression
) -> None:
    poor = MeanVarianceRegression(VAGUE)
    poor.add(rows.part(0, 6))
    poor.refresh()
    rich = poor.borrowed([streamed], most=100)
    assert rich.seen == pytest.approx(106)
    assert np.abs(rich.estimate.mean_coef - THETA).max() < np.abs(poor.estimate.mean_coef - THETA).max()
    assert poor.borrowed([], most=100).estimate.mean_coef.tolist() == poor.estimate.mean_coef.tolist()


def test_a_state_goes_on_to_the_same_decisions(rows: MeanVarianceRegressionRows) -> None:
    regression = MeanVarianceRegression(VAGUE, offset_sd=0.1)
    regression.add(rows.part(0, 50))
    regression.refresh()
    regression.add(rows.part(50, 60))  # not yet in the estimate
    again = MeanVarianceRegression.restore(json.loads(json.dumps(regression.state())))
    assert again.state() == regression.state()
    for one in (again, regression):
        one.refresh()
    assert again.estimate.var_coef.tolist() == regression.estimate.var_coef.tolist()


@pytest.mark.parametrize("change", [{"sums": {}}, {"offset_sd": -1}, {"prior": {"other": 1}}, {"estimate": None}])
def test_a_damaged_state_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="state of a regression must be one that state"):
        MeanVarianceRegression.restore(MeanVarianceRegression(VAGUE).state() | change)


def test_what_cannot_be_is_refused(rows: MeanVarianceRegressionRows) -> None:
    wrong = MeanVarianceRegressionRows(np.ones((2, 3)), np.ones((2, 3)), np.zeros(2))
    with pytest.raises(InputError, match="mean_features must have 4 columns, had 3"):
        MeanVarianceRegression(VAGUE).add(wrong)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("base_variance must not be negative", {"base_variance": np.array([0.0, -1.0])}),
        ("rewards must be finite", {"rewards": np.array([0.0, np.nan])}),
        ("pairs must be row numbers from 0 to 1", {"pairs": np.array([[0, 2]]), "pair_features": np.ones((1, 3))}),
        (r"pair_features must have shape \(1, 3\)", {"pairs": np.array([[0, 1]])}),
        (r"rounds must have shape \(2,\)", {"rounds": np.array([0])}),
    ]
    for message, change in cases:
        with pytest.raises(InputError, match=message):
            dataclasses.replace(wrong, **change)
    with pytest.raises(InputError, match="var_coef must not be negative, was -1"):
        MeanVarianceEstimate.independent([0.0], [1.0], [-1.0], [1.0])
    with pytest.raises(InputError, match="mean_sd must be positive, was 0"):
        MeanVarianceEstimate.independent([0.0], [0.0], [1.0], [1.0])


def alarms(errors: np.ndarray, kurtosis: float = 3.0, **parameters: float) -> list[int]:
    test = RegressionResidualTest(**parameters)  # type: ignore[arg-type]
    return [place for place, error in enumerate(errors) if test.add(np.array([error]), kurtosis)]


def test_false_alarms_are_as_rare_as_the_level_says() -> None:
    """Windows that do not overlap: 2,000 tests at one in a hundred, of which 20 are expected, give or take 4.5."""
    rng = np.random.default_rng(1)
    test, found = RegressionResidualTest(length=20, level=0.01, least=20), 0
    for _ in range(2000):
        found += test.add(rng.standard_normal(20))
        test.window = test.window[:0]
    assert 7 <= found <= 34
    assert alarms(rng.standard_normal(3000)) == []


def test_heavy_tails_that_are_known_raise_no_alarm() -> None:
    rng = np.random.default_rng(2)
    errors = np.where(rng.random(3000) < 0.05, 4.0, 1.0) * rng.standard_normal(3000) / np.sqrt(1.75)
    assert alarms(errors)  # if they are taken to be Gaussian
    assert alarms(errors, kurtosis=13.5) == []  # 3 (0.95 + 0.05 * 4^4) / 1.75^2


@pytest.mark.parametrize(("shift", "factor"), [(1.2, 1.0), (0.0, 2.0), (-1.2, 1.0)])
def test_a_change_is_found_within_a_window(shift: float, factor: float) -> None:
    rng = np.random.default_rng(3)
    errors = np.concatenate([rng.standard_normal(500), shift + factor * rng.standard_normal(60)])
    first = alarms(errors, length=50)[0]
    assert 500 < first < 550


def test_a_state_goes_on_to_the_same_alarm() -> None:
    errors = 1.5 + np.random.default_rng(4).standard_normal(40)
    test = RegressionResidualTest(length=30, level=1e-4)
    test.add(errors[:9])
    again = RegressionResidualTest.restore(json.loads(json.dumps(test.state())))
    found = [(test.add(errors[i : i + 1]), again.add(errors[i : i + 1])) for i in range(9, 40)]
    assert all(one == other for one, other in found)
    assert (True, True) in found
    with pytest.raises(StateError, match="level must be a number above 0 and below 1, was 2"):
        RegressionResidualTest.restore(test.state() | {"level": 2})
    with pytest.raises(StateError):
        RegressionResidualTest.restore({})


def test_impossible_residuals_are_refused() -> None:
    with pytest.raises(InputError, match="least must be at most 5, was 10"):
        RegressionResidualTest(length=5)
    with pytest.raises(InputError, match="errors must be finite, was nan"):
        RegressionResidualTest().add(np.array([np.nan]))
