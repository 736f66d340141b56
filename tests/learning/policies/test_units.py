"""Rewards in other units: the same decisions, for every policy that says so, and what belongs to the units with it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from riskroute import (
    POLICIES,
    Actions,
    Belief,
    Environment,
    InputError,
    Policy,
    Setting,
    Tallies,
    check_policy,
    make_policy,
    random_problem,
)
from riskroute.core.errors import CheckError
from riskroute.environments import PiecewiseStationary
from riskroute.learning.observations import Observations
from riskroute.learning.policies.baselines import Oracle
from riskroute.learning.policies.linear_policy import LinearPolicy
from riskroute.policies import Adaptive, ChangeTest, Discounted, SlidingWindow, Thompson
from riskroute.simulation.checks import _easy_problem

FACTORS = [2.0**-20, 2.0**20, 1e-6, 0.013, 1e6]
PUBLISHED_WITH_UNITS = {"rise++", "risk-ucb", "phased-elimination", "mv-ucb", "mv-thompson"}
ROWS = np.random.default_rng(3).uniform(0.1, 1.0, (12, 3))
PRIOR = Belief(np.array([0.5, -0.3, 0.1]), 40 * np.eye(3), np.array([0.2, 0.0, 0.1]), 20 * np.eye(3), 1.2, 60.0)
CHANGING = PiecewiseStationary([random_problem(Actions.scaled(ROWS), seed) for seed in (1, 2)], [900])


def in_units(setting: Setting, factor: float) -> Setting:
    return dataclasses.replace(
        setting, risk_tolerance=setting.risk_tolerance * factor, base_variance=setting.base_variance * factor**2
    )


def decisions(policy: Policy, environment: Environment, setting: Setting, factor: float) -> list[object]:
    """Plans of a policy that is told everything in other units, and its recommendation."""
    running = policy.in_units(factor).start(in_units(setting, factor), seed=2)
    run, plans = environment.run(np.random.default_rng(5)), []
    while running.remaining:
        plan = running.plan()
        plans.append((plan.actions.tolist(), plan.counts.tolist()))
        seen = run.tally(plan)
        running.learn(Tallies(seen.actions, seen.counts, factor * seen.means, factor**2 * seen.spreads))
    return [*plans, running.recommend(), getattr(running, "restarts", None)]


@pytest.mark.parametrize(
    "policy",
    [
        Adaptive(prior=PRIOR, budget=0.2),
        ChangeTest(prior=PRIOR, check_every=100),
        Discounted(halflife=200.0, prior=PRIOR),
        SlidingWindow(window=320, prior=PRIOR),
    ],
)
def test_priors_budgets_restarts_and_forgetting(policy: Policy) -> None:
    setting = CHANGING.setting(1500)
    expected = decisions(policy, CHANGING, setting, 1.0)
    if isinstance(policy, ChangeTest):
        assert expected[-1]  # the change was seen
    for factor in (2.0**-20, 1e6):
        assert decisions(policy, CHANGING, setting, factor) == expected, factor


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("kind", [Adaptive, Thompson])
def test_without_a_known_constant(kind: type[LinearPolicy], factor: float) -> None:
    """A base variance of zero, and as many rounds as dimensions at first: rewards alone say how large the noise is."""
    problem = dataclasses.replace(
        random_problem(Actions.scaled(ROWS), 4),
        base_variance=0.0,
        var_coef=np.array([0.4, 0.3, 0.2]),
        check_norms=False,
    )
    environment, policy = Environment(problem), kind(start_rounds=1)
    setting = environment.setting(150)
    assert decisions(policy, environment, setting, factor) == decisions(policy, environment, setting, 1.0)


def test_rewards_of_zero_have_no_unit_at_all() -> None:
    for kind in (Adaptive, Thompson):
        traces: list[list[Any]] = []
        for factor in (1.0, 2.0**-20, 2.0**20):
            setting = Setting(actions=Actions(ROWS), horizon=60, base_variance=0.0)
            policy = kind().start(in_units(setting, factor), seed=1)
            traces.append([])
            while policy.remaining:
                traces[-1].append(policy.select())
                policy.update(traces[-1][-1], 0.0)
        assert traces[0] == traces[1] == traces[2]


def test_policies_that_are_not_free_of_units_are_those_of_papers_with_units() -> None:
    assert {name for name, kind in POLICIES.items() if not kind.unit_free} == PUBLISHED_WITH_UNITS


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("name", sorted(PUBLISHED_WITH_UNITS))
def test_they_decide_otherwise_in_other_units(name: str) -> None:
    environment = Environment(_easy_problem())
    setting = environment.setting(600)
    traces = [decisions(make_policy(name), environment, setting, factor) for factor in (1.0, 1e3)]
    assert traces[0] != traces[1]


class _Cents(Thompson):
    """Takes half a cent from every reward, whatever the unit."""

    name = "test-cents"

    def observe(self, tallies: Tallies) -> None:
        super().observe(dataclasses.replace(tallies, means=tallies.means - 0.005))


class _Stubborn(Thompson):
    """Believes firmly in zero."""

    name = "test-stubborn"
    unit_free = False

    def believed(self, observations: Observations) -> Belief:
        found, dim = super().believed(observations), self.setting.actions.dim
        return dataclasses.replace(found, mean_coef=found.mean_coef * 0, var_coef=np.arange(float(dim)) * 1e-9)


@pytest.mark.usefixtures("untraced")
def test_check_suite_catches_units() -> None:
    with pytest.raises(CheckError, match="test-cents: must make the same decisions when rewards are multiplied by"):
        check_policy(_Cents(), learns=False)


@pytest.mark.usefixtures("untraced")
def test_check_suite_catches_a_policy_that_strong_signals_confuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riskroute.simulation.checks._check_learning", lambda policy: None)
    message = "test-stubborn: must find the best of 20 actions in 60 rounds if means lie 10,000 noise deviations apart"
    with pytest.raises(CheckError, match=message):
        check_policy(_Stubborn())


@pytest.mark.parametrize("factor", [0, -1.0, math.inf, "cents"])
def test_bad_factors_are_named(factor: Any) -> None:
    for call in (PRIOR.in_units, Adaptive(prior=PRIOR).in_units):
        with pytest.raises(InputError, match=r"^factor must be a number above 0, was "):
            call(factor)


def test_units_of_a_belief() -> None:
    cents = PRIOR.in_units(100.0)
    np.testing.assert_allclose(cents.mean_coef, 100 * PRIOR.mean_coef)
    np.testing.assert_allclose(cents.score(200.0), 1e4 * PRIOR.score(2.0))
    np.testing.assert_allclose(cents.score_covariance(200.0), 1e8 * PRIOR.score_covariance(2.0))
    assert (cents.variance, cents.rounds) == (PRIOR.variance * 1e4, PRIOR.rounds)


def test_a_policy_in_other_units_is_new_and_leaves_the_old_one_alone() -> None:
    policy = Adaptive(prior=PRIOR, budget=0.5, patience=0.2).start(Setting(actions=Actions(ROWS)))
    cents = policy.in_units(100.0)
    assert (cents.budget, cents.patience, cents.started) == (5000.0, 0.2, False)
    assert policy.budget == 0.5
    assert policy.prior is PRIOR
    assert Oracle(schedule=((0, 1),)).in_units(3.0) == Oracle(schedule=((0, 1),))
