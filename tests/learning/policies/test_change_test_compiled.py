"""The compiled test for change against the one of the policy: the same probabilities, plan by plan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import chdtrc

from riskroute import Environment, random_problem, random_routing_problem
from riskroute.environments import PiecewiseStationary
from riskroute.learning.policies import change_test
from riskroute.learning.policies.change_test_compiled import least_chance_compiled
from riskroute.policies import ChangeTest
from riskroute.routing import routing_actions
from riskroute.simulation.adaptive_run import _observed

PIECES = [random_problem(routing_actions(4, 4), seed) for seed in (1, 2)]
CASES: dict[str, tuple[Environment, dict[str, Any]]] = {
    "a change": (PiecewiseStationary(PIECES, [1500], comparator="mean-variance"), {}),
    "nothing changes": (Environment(random_routing_problem(6, 5, seed=1)), {}),
    "more than 12 coefficients": (Environment(random_routing_problem(3, 8, seed=1)), {}),
    "short plans": (Environment(random_routing_problem(3, 3, seed=5)), {"check_every": 20}),
}


def least_chance(policy: ChangeTest) -> float:
    belief = policy.base or policy.belief
    assert belief is not None
    base_variance, unit = policy.setting.base_variance, policy.setting.risk_tolerance**2
    return least_chance_compiled(
        *_observed(policy), policy.vague, belief.arrays, policy.base is not None, base_variance, unit
    )


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("case", CASES)
def test_the_least_likely_plans_are_as_likely_as_the_policy_finds(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a level that raises no alarm the policy tests all spans, and plays on after the change."""
    chances: list[float] = []

    def recorded(compared: int, distance: float) -> float:
        chances.append(float(chdtrc(compared, distance)))
        return chances[-1]

    monkeypatch.setattr(change_test, "chdtrc", recorded)
    environment, parameters = CASES[case]
    policy = ChangeTest(level=1e-300, **parameters).start(environment.setting(4000), seed=1)
    run, found, expected = environment.run(np.random.default_rng(2)), [], []
    while policy.remaining and not policy.restarts:
        policy.learn(run.tally(policy.plan()))
        chances.clear()
        assert policy._contradicted() is None or policy.restarts
        expected.append(min([1.0, *chances]))
        found.append(least_chance(policy))
    assert len(found) > 20
    assert sum(chance < 1 for chance in expected) > 10
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-290)
    assert (min(expected) < 1e-8) == (case == "a change")


def test_where_a_matrix_has_no_factor_the_chance_is_not_a_number() -> None:
    environment = Environment(random_routing_problem(6, 5, seed=1))
    policy, run = ChangeTest().start(environment.setting(4000), seed=1), environment.run(np.random.default_rng(2))
    while policy.played < 1000:
        policy.learn(run.tally(policy.plan()))
    assert 0 < least_chance(policy) <= 1
    policy.vague = -1e9 * np.eye(len(policy.vague))
    assert math.isnan(least_chance(policy))


def test_before_any_plan_nothing_is_unlikely() -> None:
    environment = Environment(random_routing_problem(6, 5, seed=1))
    policy, run = ChangeTest().start(environment.setting(4000), seed=1), environment.run(np.random.default_rng(2))
    policy.learn(run.tally(policy.plan()))
    policy.recent = []
    assert least_chance(policy) == 1
