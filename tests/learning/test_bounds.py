"""The paper's regret bounds as functions: their formulas, their orders, and that they do bound."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from riskroute import InputError, Problem, simulate
from riskroute.learning import bounds

GAPS = np.array([0.0, 0.5, 1.0])
DIFFERENCES = np.array([0.0, -0.2, 0.6])


def test_rise_plus_plus_bound_is_theorem_2() -> None:
    hardest = max((0.5 + 0.04) / 0.25, (1.0 + 0.36) / 1.0)
    expected = hardest * 27 * math.log(3) * math.log(1000) ** 3 + 9 * math.log2(1 / 0.5) + 9 * 0.5
    assert bounds.rise_plus_plus_bound(1000, 3, GAPS, DIFFERENCES) == pytest.approx(expected)
    assert bounds.rise_plus_plus_bound(1000, 3, GAPS, DIFFERENCES, constant=2.0) == pytest.approx(2 * expected)
    assert bounds.rise_plus_plus_bound(1000, 3, np.zeros(2), np.zeros(2)) == 0.0


def test_risk_ucb_bound_is_the_sum_over_arms_of_vakili_and_zhao() -> None:
    terms = [(4 * math.log(100) / gap**2 + 5) * (gap + d**2) for gap, d in ((0.5, -0.2), (1.0, 0.6))]
    found = bounds.risk_ucb_bound(100, GAPS, DIFFERENCES, risk_tolerance=2.0, best_variance=1.5)
    assert found == pytest.approx(sum(terms) + 1.5)


def test_risk_ucb_bound_caps_large_gaps() -> None:
    wide = bounds.risk_ucb_bound(100, np.array([100.0]), np.array([0.0]), risk_tolerance=2.0, best_variance=0.0)
    assert wide == pytest.approx((4 * math.log(100) / (4 * 16) + 5) * 100)


def test_risk_exp_exp_bound() -> None:
    assert bounds.risk_exp_exp_bound(1000, 35) == pytest.approx(2 * 35 * 100)


def test_restart_bound_is_theorem_3() -> None:
    rate = 1000 ** (8 / 9) * math.log(1000) + 4 * 1000 ** (2 / 3)
    assert bounds.restart_bound(1000, 4, deviation=2.0) == pytest.approx(rate + 4 * math.sqrt(4000))


def test_remainder_is_of_order_root_t() -> None:
    """Proposition 2 leaves out O(sqrt(T)): four times the rounds, about twice the remainder."""
    small, large = (bounds.temporal_remainder(t, 1.0, 1.0, 0.5) for t in (10_000, 40_000))
    assert 1.9 < large / small < 2.1


def test_rise_bound_is_of_order_t_to_two_thirds() -> None:
    """Theorem 1, up to logarithms, with n = d T^(2/3) and epsilon = d T^(-1/3): 1,000 times T gives about 100 times."""

    def bound(horizon: int) -> float:
        n, epsilon = round(4 * horizon ** (2 / 3)), 4 * horizon ** (-1 / 3)
        return bounds.rise_bound(
            horizon, n, epsilon, risk_tolerance=2.0, min_variance=0.0, max_variance=2.0, max_mean_difference=2.0
        )

    assert 100 < bound(10**9) / bound(10**6) < 200


def test_bounds_bound_what_is_simulated(small_problem: Problem) -> None:
    """RISE with the accuracy it really reaches, RiskExpExp in pseudo-regret: means of 50 runs stay below the bounds."""
    horizon = 20_000
    handles = small_problem.actions.listed().handles
    means, variances = small_problem.means(handles), small_problem.variances(handles)
    result = simulate(small_problem, ["rise", "risk-exp-exp"], horizon=horizon, runs=50, seed=3)
    explored = math.ceil(3 * horizon ** (2 / 3))
    ends = np.array([small_problem.gaps(np.array([a]))[0] for a in result.policies["rise"].recommended])
    limit = bounds.rise_bound(
        horizon,
        explored,
        float(ends.mean()) / 2,
        risk_tolerance=2.0,
        min_variance=variances.min(),
        max_variance=variances.max(),
        max_mean_difference=np.ptp(means),
    )
    assert result.policies["rise"].mean_regret()[-1] <= limit
    explorer = result.policies["risk-exp-exp"]
    assert explorer.pseudo_regret[:, -1].mean() <= bounds.risk_exp_exp_bound(horizon, len(handles))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.rise_plus_plus_bound(10, 2, np.array([-1.0]), np.array([0.0])), "gaps must be non-negative"),
        (
            lambda: bounds.risk_ucb_bound(10, GAPS, GAPS[:2], risk_tolerance=1, best_variance=1),
            "mean_differences must have 3",
        ),
        (lambda: bounds.risk_exp_exp_bound(0, 3), "horizon must be a positive integer, was 0"),
        (lambda: bounds.restart_bound(10, -1), "changes must be a non-negative integer, was -1"),
        (lambda: bounds.temporal_remainder(0, 1, 1, 1), "horizon must be a positive integer, was 0"),
        (
            lambda: bounds.rise_bound(
                10, 11, 1.0, risk_tolerance=1, min_variance=0, max_variance=1, max_mean_difference=1
            ),
            "explore_rounds must be at most 10, was 11",
        ),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)


@pytest.mark.parametrize("horizon", [1, 2, 10, 5000])
def test_remainder_bounds_the_sums_it_stands_for(horizon: int) -> None:
    """It replaces sums over rounds by integrals: never below the sums, and above them by less than the first terms."""
    t = np.arange(1, horizon)
    noise = 2 * 0.7 * 1.3 * math.sqrt(2 * math.pi) * np.sum(np.sqrt(t) / (t + 1))
    sums = noise + 0.4 * np.sum(1 / (t + 1)) + 0.4
    found = bounds.temporal_remainder(horizon, max_deviation=1.3, max_mean_difference=0.7, var_range=0.4)
    assert sums <= found + 1e-12
    assert found < sums + 4
