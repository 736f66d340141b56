"""Lower bound of regret: against brute force over alternatives, and its certificate."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.optimize import linprog

import riskroute as rr
from riskroute.learning.lower_bound import lower_bound

THREE = rr.Actions([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])


def _problem(actions: rr.Actions = THREE, risk_tolerance: float = 2.0) -> rr.Problem:
    return rr.Problem(
        actions=actions,
        mean_coef=np.array([0.5, 0.2]),
        var_coef=np.array([0.1, 0.3]),
        base_variance=1.0,
        risk_tolerance=risk_tolerance,
    )


def _naive_divergence(problem: rr.Problem, mean_coef: np.ndarray, var_coef: np.ndarray, action: int) -> float:
    """Kullback-Leibler divergence between two normals, from its definition."""
    row = problem.actions.features(np.array([action]))[0]
    mean, variance = row @ problem.mean_coef, row @ problem.var_coef + problem.base_variance
    other, spread = row @ mean_coef, row @ var_coef + problem.base_variance
    return float(np.log(np.sqrt(spread / variance)) + (variance + (mean - other) ** 2) / (2 * spread) - 0.5)


def _brute_force(problem: rr.Problem, fineness: int) -> float:
    """Slope by a linear programme over a grid of alternatives, in two dimensions.

    The best action has features (1, 0) here, so alternatives move the second coefficients only.
    """
    means, variances = problem.means(np.arange(3)), problem.variances(np.arange(3))
    values = variances - problem.risk_tolerance * means
    best = int(np.argmin(values))
    assert best == 0
    costs = values - values[best] + (means - means[best]) ** 2
    rows = []
    for shift in np.linspace(-0.9, 2.0, fineness):
        for x in (1, 2):  # how far the mean must move for x to be as good as the best action
            part = problem.actions.features(np.array([x]))[0][1]
            need = (values[x] - values[best] + part * shift) / (problem.risk_tolerance * part)
            mean_coef, var_coef = problem.mean_coef.copy(), problem.var_coef.copy()
            mean_coef[1] += max(need, 0.0)
            var_coef[1] += shift
            if np.all(THREE.rows @ var_coef + problem.base_variance > 0):
                rows.append([_naive_divergence(problem, mean_coef, var_coef, action) for action in (1, 2)])
    found = linprog(costs[1:], A_ub=-np.array(rows), b_ub=-np.ones(len(rows)))
    return float(found.fun)


@pytest.mark.parametrize("risk_tolerance", [0.5, 2.0, 10.0])
def test_the_slope_is_that_of_brute_force(risk_tolerance: float) -> None:
    problem = _problem(risk_tolerance=risk_tolerance)
    bound = lower_bound(problem, tolerance=1e-4)
    brute = _brute_force(problem, fineness=1201)
    assert brute == pytest.approx(bound.slope, rel=1e-3)
    assert bound.slope <= bound.reached * (1 + 1e-9) <= bound.slope * (1 + 1.1e-4)


def test_two_unrelated_actions_have_a_bound_in_closed_form() -> None:
    """With risk tolerance large the variance does not matter: cost over the divergence of the means."""
    problem = rr.Problem(
        actions=rr.Actions([[1.0, 0.0], [0.0, 1.0]]),
        mean_coef=np.array([0.5, 0.4]),
        var_coef=np.array([0.0, 0.0]),
        risk_tolerance=1e6,
    )
    expected = (1e6 * 0.1 + 0.01) / np.log(np.sqrt(1 + 0.1**2))  # the variance of an alternative is free, and best at
    assert lower_bound(problem).slope == pytest.approx(expected, rel=1e-3)  # 1 + the squared difference of means


def test_the_certificate_is_computed_from_the_alternatives_alone() -> None:
    rows = np.random.default_rng(1).standard_normal((30, 4))
    problem = rr.random_problem(rr.Actions.scaled(rows), seed=3)
    bound = lower_bound(problem)
    assert bound.certified_slope() == pytest.approx(bound.slope, rel=1e-9)
    assert bound.slope <= bound.reached <= 1.011 * bound.slope
    told = [
        [
            _naive_divergence(problem, mean, var, action)
            for action in range(problem.actions.size)
            if action != problem.best
        ]
        for mean, var in zip(bound.mean_coefs, bound.var_coefs, strict=True)
    ]
    means = problem.means(np.arange(problem.actions.size))
    costs = np.delete(problem.gaps() + (means - means[problem.best]) ** 2, problem.best)
    assert 1 / np.max(bound.weights @ np.array(told) / costs) == pytest.approx(bound.slope, rel=1e-9)
    plays = np.delete(bound.plays, problem.best)
    assert np.all(np.array(told) @ plays >= 1 - 1e-9)  # the plays tell every alternative apart


def test_a_wrong_certificate_is_refused() -> None:
    bound = lower_bound(_problem())
    truth, same = bound.problem.mean_coef + 0 * bound.mean_coefs, bound.problem.var_coef + 0 * bound.var_coefs
    for wrong, words in (
        (dataclasses.replace(bound, mean_coefs=bound.mean_coefs + 0.01), "of the best action unchanged"),
        (dataclasses.replace(bound, mean_coefs=truth, var_coefs=same), "another action tie"),
        (dataclasses.replace(bound, weights=-bound.weights), "must not be negative"),
    ):
        with pytest.raises(rr.InputError, match=words):
            wrong.certified_slope()


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_units_do_not_matter(factor: float) -> None:
    one = _problem()
    other = rr.Problem(
        actions=THREE,
        mean_coef=one.mean_coef * factor,
        var_coef=one.var_coef * factor**2,
        base_variance=factor**2,
        risk_tolerance=one.risk_tolerance * factor,
        check_norms=False,
    )
    assert lower_bound(other).slope == pytest.approx(factor**2 * lower_bound(one).slope, rel=1e-6)


def test_problems_without_a_bound_are_refused() -> None:
    tie = rr.Problem(
        actions=rr.Actions([[1.0, 0.0], [0.0, 1.0]]), mean_coef=np.array([0.5, 0.5]), var_coef=np.array([0.0, 0.0])
    )
    with pytest.raises(rr.InputError, match="problem must have one best action, had 2"):
        lower_bound(tie)
    certain = rr.Problem(
        actions=rr.Actions([[1.0, 0.0], [0.0, 1.0]]),
        mean_coef=np.array([0.5, 0.1]),
        var_coef=np.array([0.0, -1.0]),
        base_variance=1.0,
    )
    with pytest.raises(rr.InputError, match="problem must have positive variances, was 0 for action 1"):
        lower_bound(certain)
    with pytest.raises(rr.InputError, match="problem must be a riskroute"):
        lower_bound(3)  # type: ignore[arg-type] # bad input
    with pytest.raises(rr.InputError, match="tolerance"):
        lower_bound(_problem(), tolerance=0)
    with pytest.raises(rr.InputError, match="horizon must be"):
        lower_bound(_problem()).regret(0.5)
