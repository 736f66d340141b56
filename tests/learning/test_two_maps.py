"""Fits and beliefs with different features for mean and variance: known coefficients, and one form against another."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

from riskroute.core.errors import InputError, StateError
from riskroute.learning.nonnegative import nonnegative_minimum
from riskroute.learning.two_map_belief import TwoMapBelief
from riskroute.learning.two_maps import TwoMapEstimate, TwoMapRows, fit_two_maps

THETA, PHI = np.array([1.0, -0.5, 0.2, 0.0]), np.array([0.5, 2.0, 0.0])
VAGUE = TwoMapEstimate.independent(np.zeros(4), np.full(4, 100.0), np.ones(3), np.full(3, 100.0))


def drawn(rng: np.random.Generator, count: int) -> TwoMapRows:
    """Rows with the coefficients above, an offset and a part of the variance that is known."""
    x, chi = rng.standard_normal((count, 4)), rng.random((count, 3)) ** 2
    offset, base = rng.standard_normal(count), 0.1 * rng.random(count)
    noise = np.sqrt(base + chi @ PHI) * rng.standard_normal(count)
    return TwoMapRows(x, chi, offset + x @ THETA + noise, offset=offset, base_variance=base)


@pytest.fixture(scope="module")
def rows() -> TwoMapRows:
    return drawn(np.random.default_rng(1), 4000)


@pytest.fixture(scope="module")
def streamed(rows: TwoMapRows) -> TwoMapBelief:
    belief = TwoMapBelief(VAGUE, keep=100)
    for start in range(0, len(rows), 40):
        belief.add(rows.part(start, start + 40))
        belief.refresh()
    return belief


def test_the_non_negative_minimum_is_that_of_an_active_set_method() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        q = int(rng.integers(1, 9))
        features, targets = rng.standard_normal((30, q)), rng.standard_normal(30)
        found = nonnegative_minimum(features.T @ features, features.T @ targets)
        assert found.tolist() == pytest.approx(nnls(features, targets)[0].tolist(), abs=1e-8)


def test_the_batch_fit_recovers_the_coefficients(rows: TwoMapRows) -> None:
    """Within three standard errors in each of seven coefficients."""
    found = fit_two_maps(rows, VAGUE)
    assert (np.abs(found.mean_coef - THETA) < 3 * found.mean_errors).all()
    assert (np.abs(found.var_coef - PHI) < 3 * found.var_errors).all()
    assert found.var_coef.min() >= 0


def test_weights_by_variance_make_the_mean_better_known(rows: TwoMapRows) -> None:
    """The weighted fit claims smaller errors than the same variance for every row would leave, as it should."""
    once, swept = fit_two_maps(rows, VAGUE, sweeps=1), fit_two_maps(rows, VAGUE)
    plain = once.mean_errors * np.sqrt(once.variance / VAGUE.variance)
    assert (swept.mean_errors < 0.95 * plain).all()


def test_streaming_is_the_batch_fit_while_all_rows_are_kept(rows: TwoMapRows) -> None:
    belief = TwoMapBelief(VAGUE, keep=400)
    for start in range(0, 400, 7):
        belief.add(rows.part(start, min(start + 7, 400)))
    belief.refresh()
    found, batch = belief.estimate, fit_two_maps(rows.part(0, 400), VAGUE)
    assert found.mean_coef.tolist() == pytest.approx(batch.mean_coef.tolist(), rel=1e-9)
    assert found.mean_precision == pytest.approx(batch.mean_precision, rel=1e-9)
    assert found.var_coef.tolist() == pytest.approx(batch.var_coef.tolist(), rel=1e-9)
    assert (found.variance, found.kurtosis) == pytest.approx((batch.variance, batch.kurtosis))


def test_sums_of_rows_are_the_batch_fit_where_variances_are_known(rows: TwoMapRows) -> None:
    """With the coefficients of the variance pinned, weights do not depend on when a row was summed up."""
    known = dataclasses.replace(VAGUE, var_coef=PHI, var_precision=np.eye(3) * 1e16)
    loud = np.flatnonzero(rows.base_variance + rows.var_features @ PHI > 0.5)  # above the floor of variances
    names = ("mean_features", "var_features", "rewards", "offset", "base_variance")
    some = TwoMapRows(*(getattr(rows, name)[loud[:400]] for name in names))
    belief = TwoMapBelief(known, keep=0)
    for start in range(0, 400, 40):
        belief.add(some.part(start, start + 40))
        belief.refresh()
    assert belief.recent == []
    batch = fit_two_maps(some, known)
    assert belief.estimate.mean_coef.tolist() == pytest.approx(batch.mean_coef.tolist(), abs=1e-6)
    assert belief.estimate.mean_precision == pytest.approx(batch.mean_precision, rel=1e-6, abs=1e-6)


def test_streaming_approaches_the_batch_fit(rows: TwoMapRows, streamed: TwoMapBelief) -> None:
    """Early rows were weighted by rough variances: that moves coefficients by three quarters of an s.e. at most."""
    batch, found = fit_two_maps(rows, VAGUE), streamed.estimate
    assert (np.abs(found.mean_coef - batch.mean_coef) < 0.75 * batch.mean_errors).all()
    assert (np.abs(found.var_coef - batch.var_coef) < 0.75 * batch.var_errors).all()
    assert (np.abs(found.mean_coef - THETA) < 3 * found.mean_errors).all()
    assert (np.abs(found.var_coef - PHI) < 3 * found.var_errors).all()


def factored(rng: np.random.Generator, count: int) -> TwoMapRows:
    """Three rows a round with a common factor of variance 2 and loadings 1, 0.5 and -1, and own noise of 0.5."""
    loadings = np.array([1.0, 0.5, -1.0])
    rewards = np.sqrt(2) * rng.standard_normal((count, 1)) * loadings + np.sqrt(0.5) * rng.standard_normal((count, 3))
    chi = np.column_stack([np.tile(loadings**2, count), np.ones(3 * count)])
    first = 3 * np.arange(count)
    pairs = np.concatenate([np.column_stack([first + k, first + m]) for k, m in ((0, 1), (0, 2), (1, 2))])
    between = np.column_stack([loadings[pairs % 3].prod(axis=1), np.zeros(len(pairs))])
    rounds = np.repeat(np.arange(count), 3)
    return TwoMapRows(np.ones((3 * count, 1)), chi, rewards.ravel(), rounds=rounds, pairs=pairs, pair_features=between)


@pytest.mark.parametrize("streaming", [False, True])
def test_products_of_errors_find_a_common_factor(streaming: bool) -> None:
    """Standard errors take three rows of a round for one, so they are too large by up to root three: two are enough."""
    rows = factored(np.random.default_rng(3), 1000)
    prior = TwoMapEstimate.independent([0.0], [100.0], [1.0, 1.0], [100.0, 100.0])
    if streaming:
        belief = TwoMapBelief(prior, keep=50)
        for start in range(0, 3000, 30):
            belief.add(rows.part(start, start + 30))
            belief.refresh()
        found = belief.estimate
    else:
        found = fit_two_maps(rows, prior)
    assert (np.abs(found.var_coef - [2.0, 0.5]) < 2 * found.var_errors).all()
    assert found.var_coef.tolist() == pytest.approx([2.0, 0.5], rel=0.2)


def test_rows_of_one_round_share_one_unit_of_weight(rows: TwoMapRows) -> None:
    some = rows.part(0, 300)
    names = ("mean_features", "var_features", "rewards", "offset", "base_variance", "rounds")
    three = TwoMapRows(*(np.repeat(getattr(some, name), 3, axis=0) for name in names))
    once, thrice = TwoMapBelief(VAGUE), TwoMapBelief(VAGUE)
    once.add(some)
    thrice.add(three)
    once.refresh()
    thrice.refresh()
    assert thrice.estimate.mean_coef.tolist() == pytest.approx(once.estimate.mean_coef.tolist())
    assert thrice.estimate.var_precision == pytest.approx(once.estimate.var_precision)
    assert thrice.seen == pytest.approx(300)


def test_an_outlier_counts_as_six_deviations(rows: TwoMapRows) -> None:
    """Thirty deviations in one of a thousand rows would double the variance; six add some per cent."""
    some = rows.part(0, 1000)
    moved = some.rewards.copy()
    moved[7] += 30
    clean, wild = fit_two_maps(some, VAGUE), fit_two_maps(dataclasses.replace(some, rewards=moved), VAGUE)
    assert wild.var_coef.sum() < 1.1 * clean.var_coef.sum()
    assert 3 <= clean.kurtosis <= wild.kurtosis <= 20


def test_the_offset_gets_a_coefficient_that_tells_whether_it_is_right() -> None:
    rng = np.random.default_rng(4)
    x, offset = rng.standard_normal((2000, 1)), rng.standard_normal(2000)
    rewards = 0.7 * offset + x[:, 0] + rng.standard_normal(2000)
    belief = TwoMapBelief(TwoMapEstimate.independent([0.0], [1.0], [1.0], [1.0]), offset_sd=0.1)
    assert belief.estimate.mean_coef.tolist() == [0.0, 1.0]
    belief.add(TwoMapRows(x, np.ones((2000, 1)), rewards, offset=offset))
    belief.refresh()
    assert belief.estimate.mean_coef.tolist() == pytest.approx([1.0, 0.7], abs=0.1)  # four s.e. and the prior's pull
    mean, noise, lever = belief.predict(TwoMapRows([[1.0]], [[1.0]], [0.0], offset=[2.0]))  # type: ignore[arg-type]
    assert mean[0] == pytest.approx(float(belief.estimate.mean_coef @ [1.0, 2.0]))
    assert noise[0] == pytest.approx(1.0, abs=0.15)
    assert 0 < lever[0] < 0.01


def test_draws_spread_as_the_covariance_says(streamed: TwoMapBelief) -> None:
    rng = np.random.default_rng(5)
    found = np.array([streamed.draw(rng, 2.0, block=[1, 3]) for _ in range(4000)])
    assert (found[:, [0, 2]] == streamed.estimate.mean_coef[[0, 2]]).all()
    spread = np.cov(found[:, [1, 3]].T) / 4
    expected = streamed.covariance[np.ix_([1, 3], [1, 3])]
    assert spread == pytest.approx(expected, abs=5 * expected.max() / np.sqrt(4000))
    variances = np.array([streamed.draw_variance(rng) for _ in range(500)])
    assert variances.min() == 0  # the third coefficient is zero: half of its draws would be negative
    assert streamed.draw(rng, 0.0).tolist() == streamed.estimate.mean_coef.tolist()


def test_standardised_errors_have_variance_one(streamed: TwoMapBelief) -> None:
    errors = streamed.standardised(drawn(np.random.default_rng(6), 4000))
    assert abs(errors.mean()) < 4 / np.sqrt(4000)
    assert errors.var() == pytest.approx(1, abs=4 * np.sqrt(2 / 4000))


def test_discounting_fades_rows_and_keeps_the_prior(rows: TwoMapRows) -> None:
    some, less = rows.part(0, 100), rows.part(0, 100)
    object.__setattr__(less, "weights", np.full(100, 0.3))
    faded, weighted = TwoMapBelief(VAGUE), TwoMapBelief(VAGUE)
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


def test_a_member_with_few_rows_borrows_up_to_a_cap(rows: TwoMapRows, streamed: TwoMapBelief) -> None:
    poor = TwoMapBelief(VAGUE)
    poor.add(rows.part(0, 6))
    poor.refresh()
    rich = poor.borrowed([streamed], most=100)
    assert rich.seen == pytest.approx(106)
    assert np.abs(rich.estimate.mean_coef - THETA).max() < np.abs(poor.estimate.mean_coef - THETA).max()
    assert poor.borrowed([], most=100).estimate.mean_coef.tolist() == poor.estimate.mean_coef.tolist()
    with pytest.raises(InputError, match="others must have as many features"):
        poor.borrowed([TwoMapBelief(TwoMapEstimate.independent([0.0], [1.0], [1.0], [1.0]))], most=1)


def test_a_state_goes_on_to_the_same_decisions(rows: TwoMapRows) -> None:
    belief = TwoMapBelief(VAGUE, offset_sd=0.1)
    belief.add(rows.part(0, 50))
    belief.refresh()
    belief.add(rows.part(50, 60))  # not yet in the estimate
    again = TwoMapBelief.restore(json.loads(json.dumps(belief.state())))
    assert again.state() == belief.state()
    rng, same = np.random.default_rng(7), np.random.default_rng(7)
    assert again.draw(same).tolist() == belief.draw(rng).tolist()
    for one in (again, belief):
        one.refresh()
    assert again.estimate.var_coef.tolist() == belief.estimate.var_coef.tolist()


@pytest.mark.parametrize("change", [{"sums": {}}, {"offset_sd": -1}, {"prior": {"other": 1}}, {"estimate": None}])
def test_a_damaged_state_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="state of a belief must be one that state"):
        TwoMapBelief.restore(TwoMapBelief(VAGUE).state() | change)


def test_what_cannot_be_is_refused(rows: TwoMapRows) -> None:
    wrong = TwoMapRows(np.ones((2, 3)), np.ones((2, 3)), np.zeros(2))
    with pytest.raises(InputError, match="mean_features must have 4 columns, had 3"):
        fit_two_maps(wrong, VAGUE)
    with pytest.raises(InputError, match="mean_features must have 4 columns, had 3"):
        TwoMapBelief(VAGUE).add(wrong)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("base_variance must not be negative", {"base_variance": np.array([0.0, -1.0])}),
        ("rewards must be finite", {"rewards": np.array([0.0, np.nan])}),
        ("pairs must be row numbers below 2", {"pairs": np.array([[0, 2]]), "pair_features": np.ones((1, 3))}),
        (r"pair_features must have shape \(1, 3\)", {"pairs": np.array([[0, 1]])}),
        (r"rounds must have shape \(2,\)", {"rounds": np.array([0])}),
    ]
    for message, change in cases:
        with pytest.raises(InputError, match=message):
            dataclasses.replace(wrong, **change)
    with pytest.raises(InputError, match="var_coef must not be negative, was -1"):
        TwoMapEstimate.independent([0.0], [1.0], [-1.0], [1.0])
    with pytest.raises(InputError, match="mean_sd must be positive, was 0"):
        TwoMapEstimate.independent([0.0], [0.0], [1.0], [1.0])
    with pytest.raises(InputError, match="matrix must be finite and positive definite"):
        nonnegative_minimum(np.zeros((1, 1)), np.zeros(1))
    with pytest.raises(InputError, match="block must be places of coefficients below 4"):
        TwoMapBelief(VAGUE).draw(np.random.default_rng(0), block=[4])
