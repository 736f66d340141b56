"""Compiled runs of `adaptive` and `change-test` against the same runs plan by plan: equal to the last bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from riskroute import Allocations, Environment, Policy, Problem, random_problem, random_routing_problem, simulate
from riskroute.environments import Autocorrelated, HeavyTailed, PiecewiseStationary, WrongBaseVariance
from riskroute.learning.observations import Observations
from riskroute.learning.regret import regret_checkpoints
from riskroute.learning.tally import Tallies
from riskroute.policies import Adaptive, ChangeTest, Guarded, Thompson
from riskroute.routing import routing_actions
from riskroute.simulation.adaptive_run import play_adaptive

PROBLEM = random_routing_problem(shares=6, slots=5, seed=1)


def of_lots(shares: int, slots: int, **bounds: int) -> Problem:
    return random_problem(Allocations(shares, slots, **bounds).listed(), seed=2, risk_tolerance=0.5)


def changing(shares: int, slots: int, *changes: int, seed: int = 1) -> PiecewiseStationary:
    """Coefficients drawn anew at every change."""
    actions = routing_actions(shares, slots)
    pieces = [random_problem(actions, seed + k) for k in range(len(changes) + 1)]
    return PiecewiseStationary(pieces, changes, comparator="mean-variance")


CHANGING = changing(4, 4, 1100, 1733)

CASES: dict[str, tuple[Problem | Environment, Adaptive]] = {
    "as it is": (PROBLEM, Adaptive()),
    "a short list": (random_routing_problem(shares=4, slots=3, seed=0), Adaptive()),
    "more than 12 coefficients": (random_routing_problem(shares=3, slots=8, seed=1), Adaptive()),
    "lots and caps": (of_lots(60, 4, lot=10, caps=40), Adaptive()),
    "nothing assumed": (PROBLEM, Adaptive(assumed_size=0)),
    "a contradicted assumption": (PROBLEM, Adaptive(assumed_size=0.01)),
    "a budget": (PROBLEM, Adaptive(budget=0.3, draws=30)),
    "portions and patience": (PROBLEM, Adaptive(portions=3, patience=2, growth=0.3, start_rounds=1)),
    "a wrong base variance": (WrongBaseVariance(PROBLEM, 2.0), Adaptive()),
    "changes unnoticed": (CHANGING, Adaptive()),
    "change-test, nothing changes": (PROBLEM, ChangeTest()),
    "change-test, a short list": (random_routing_problem(shares=4, slots=3, seed=0), ChangeTest(check_every=100)),
    "change-test, changes": (CHANGING, ChangeTest(check_every=60)),
    "change-test, more than 12 coefficients": (changing(3, 8, 1300), ChangeTest(check_every=100)),
    "change-test, many alarms": (PROBLEM, ChangeTest(check_every=40, level=0.2, budget=0.5)),
}


@pytest.mark.parametrize("case", CASES)
def test_compiled_runs_are_those_plan_by_plan(case: str) -> None:
    problem, policy = CASES[case]
    compiled, plainly = (
        simulate(problem, {"one": policy}, horizon=2500, runs=2, checkpoints=30, method=method).policies["one"]
        for method in ("auto", "blocks")
    )
    for field in ("regret", "pseudo_regret", "luck", "exploration"):
        np.testing.assert_array_equal(getattr(compiled, field), getattr(plainly, field))
    assert compiled.recommended == plainly.recommended


ALARMS: dict[str, tuple[Environment, int, dict[str, Any], int, int]] = {
    "nothing changes": (Environment(PROBLEM), 3000, {}, 0, 0),
    "more than 12 coefficients, nothing changes": (Environment(of_lots(4, 7)), 2500, {}, 0, 0),
    "changes": (changing(4, 4, 2000, 4000), 6000, {"check_every": 100}, 2, 4),
    "more than 12 coefficients": (changing(3, 8, 2500), 4000, {"check_every": 100}, 1, 3),
    "alarms after which splits look alike": (changing(4, 5, 4000, 8000, 12000, 16000, seed=2), 18000, {}, 3, 6),
    "many alarms": (Environment(PROBLEM), 1500, {"check_every": 40, "level": 0.2}, 1, 99),
}
"""Where `change-test` is played, how often it raises an alarm at least, and at most."""


@pytest.mark.parametrize("case", ALARMS)
def test_alarms_are_raised_after_the_same_rounds(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, horizon, parameters, least, most = ALARMS[case]
    tested: list[int] = []
    contradicted = ChangeTest._contradicted

    def counted(policy: ChangeTest) -> int | None:
        tested.append(policy.played)
        return contradicted(policy)

    monkeypatch.setattr(ChangeTest, "_contradicted", counted)
    checkpoints, states, tests = regret_checkpoints(horizon, 20), [], []
    for compiled in (True, False):
        policy = ChangeTest(**parameters).start(environment.setting(horizon), 1)
        rewards = environment.run(np.random.default_rng(5))
        while policy.remaining:
            if not (compiled and play_adaptive(rewards, policy, checkpoints)):
                policy.learn(rewards.plan_blocks(policy.plan(), checkpoints)[0])
        states.append((policy.state(), rewards.time, rewards.rng.bit_generator.state))
        tests.append(len(tested))
        tested.clear()
    assert states[0] == states[1]
    assert least <= len(policy.restarts) <= most
    assert tests[1] > 20
    if most < 99:
        assert tests[0] <= len(policy.restarts) + 3  # the policy decides what the loop suspects, and little else


def summed_up(policy: Adaptive) -> None:
    """Let the policy build on its belief, as if it had seen too much to keep."""
    policy.base, policy.observations = policy.belief, Observations.none(policy.setting.actions.dim)
    if isinstance(policy, ChangeTest):
        policy.recent = []


def full(policy: Adaptive) -> None:
    """Let the policy have as many rows of observations as it keeps, so that the next plan is too much."""
    actions, rng = policy.setting.actions.listed(), np.random.default_rng(7)
    tallies = Tallies(
        actions.handles, np.full(actions.size, 2), rng.standard_normal(actions.size), np.ones(actions.size)
    )
    policy.observations = Observations.of(actions.rows, tallies)
    if isinstance(policy, ChangeTest):
        policy.settled = policy.observations


@pytest.mark.parametrize("kind", [Adaptive, ChangeTest])
@pytest.mark.parametrize("change", [None, summed_up, full])
def test_what_is_learned_and_drawn_is_the_same(change: Callable[[Adaptive], None] | None, kind: type[Adaptive]) -> None:
    environment, checkpoints = Environment(random_routing_problem(8, 6, seed=1)), regret_checkpoints(2000, 20)
    states, ends = [], []
    for compiled in (True, False):
        policy, rewards = kind().start(environment.setting(2000), 1), environment.run(np.random.default_rng(5))
        policy.learn(rewards.plan_blocks(policy.plan(), checkpoints)[0])
        if change is not None:
            change(policy)
        while policy.remaining:
            if not (compiled and play_adaptive(rewards, policy, checkpoints)):
                policy.learn(rewards.plan_blocks(policy.plan(), checkpoints)[0])
        states.append(policy.state())
        ends.append((rewards.time, rewards.rng.bit_generator.state))
    assert states[0] == states[1]
    assert ends[0] == ends[1]


def test_where_a_matrix_has_no_factor_nothing_is_played() -> None:
    environment = Environment(PROBLEM)
    policy, rewards = Adaptive().start(environment.setting(2000), 1), environment.run(np.random.default_rng(5))
    policy.learn(rewards.tally(policy.plan()))
    assert policy.belief is not None
    policy.belief = dataclasses.replace(policy.belief, mean_precision=-np.eye(policy.belief.dim))
    before = policy.state(), rewards.rng.bit_generator.state
    assert play_adaptive(rewards, policy, regret_checkpoints(2000)) is None
    assert (policy.state(), rewards.rng.bit_generator.state) == before


@pytest.mark.parametrize(
    ("environment", "policy"),
    [
        (Environment(PROBLEM), Thompson()),
        (Environment(PROBLEM), Guarded()),
        (Environment(random_problem(Allocations(12, 5), seed=3)), Adaptive()),
        (HeavyTailed(PROBLEM), Adaptive()),
        (Autocorrelated(PROBLEM, 0.5), Adaptive()),
        (Autocorrelated(PROBLEM, 0.5), ChangeTest()),
    ],
    ids=lambda value: getattr(value, "name", type(value).__name__),
)
def test_other_runs_are_left_alone(environment: Environment, policy: Policy) -> None:
    policy = policy.clone().start(environment.setting(3000), seed=1)
    rewards = environment.run(np.random.default_rng(0))
    for _ in range(3):
        assert play_adaptive(rewards, policy, regret_checkpoints(3000)) is None
        policy.learn(rewards.tally(policy.plan()))
