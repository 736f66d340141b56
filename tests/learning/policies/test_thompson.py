"""Thompson sampling and its kin: a plain version that decides alike, risk, warm starts, sets too large to list."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from naive_learning import Round, naive_fit
from riskroute import (
    Actions,
    Allocations,
    Belief,
    Environment,
    InputError,
    Policy,
    Problem,
    Setting,
    StateError,
    random_problem,
    random_routing_problem,
    restore_policy,
    simulate,
)
from riskroute.learning.actions import Action
from riskroute.learning.belief_fit import fit_vague_information
from riskroute.learning.policies.linear_policy import LinearPolicy, _start_counts
from riskroute.learning.policies.thompson import _spread_evenly
from riskroute.policies import LinThompson, LinUcb, Thompson


def play(policy: Policy, problem: Problem, rounds: int, seed: int = 4) -> list[Action]:
    """Play round by round and return the actions."""
    run = Environment(problem).run(np.random.default_rng(seed))
    actions = []
    for _ in range(rounds):
        actions.append(policy.select())
        policy.update(actions[-1], run.reward(actions[-1]))
    return actions


@pytest.mark.parametrize(
    ("growth", "draws", "width", "start_rounds"), [(0.1, 32, 1.0, 4), (0.3, 5, 0.5, 2), (1.0, 200, 2.0, 1)]
)
@pytest.mark.parametrize("risk_neutral", [False, True])
def test_decides_like_a_plain_version(
    small_problem: Problem, growth: float, draws: int, width: float, start_rounds: int, risk_neutral: bool
) -> None:
    """Round by round: the first design, then rounds divided between the best actions of draws from a naive belief."""
    horizon, rows, dim = 200, small_problem.actions.listed().matrix, small_problem.actions.dim
    environment = Environment(small_problem)
    kind = LinThompson if risk_neutral else Thompson
    parameters: dict[str, Any] = {"growth": growth, "draws": draws, "width": width, "start_rounds": start_rounds}
    policy = kind(**parameters).start(environment.setting(horizon), seed=9)
    rng, run = np.random.default_rng(9), environment.run(np.random.default_rng(4))
    design = small_problem.actions.design(0.05)
    vague = fit_vague_information(rows[design.actions], design.weights, 0.3)
    counts = _start_counts(rows[design.actions], design.weights, start_rounds * dim)
    queue = [int(action) for action, n in zip(design.actions, counts, strict=True) for _ in range(n)]
    history: list[Round] = []
    for t in range(horizon):
        if not queue:
            belief = naive_fit(history, 1.0, vague)
            rounds = min(max(math.floor(growth * t), 1), horizon - t)
            center, covariance = belief.var_coef - 2 * belief.mean_coef, np.linalg.inv(belief.var_precision)
            covariance = covariance + 4 * np.linalg.inv(belief.mean_precision)
            if risk_neutral:
                center, covariance = -belief.mean_coef, np.linalg.inv(belief.mean_precision)
            number = min(rounds, draws)
            noise = rng.standard_normal((number, dim)) @ np.linalg.cholesky(width**2 * covariance).T
            best = [int(np.argmin(rows @ (center + z))) for z in noise]
            edges = [math.floor(rounds * k / number + 0.5) for k in range(number + 1)]
            queue = sorted(a for k, a in enumerate(best) for _ in range(edges[k + 1] - edges[k]))
        action = policy.select()
        assert action == queue.pop(0)
        reward = run.reward(action)
        history.append((rows[action], reward))
        policy.update(action, reward)
    assert policy.belief is not None
    if risk_neutral:
        assert policy.recommend() == int(np.argmax(rows @ policy.belief.mean_coef))
    else:
        assert policy.recommend() == int(np.argmin(rows @ policy.belief.score(2.0)))


def test_plans_grow_with_what_is_known(small_problem: Problem) -> None:
    """Each plan takes a tenth of the rounds before it; all rewards are in the belief when it is done."""
    environment = Environment(small_problem)
    policy, run = Thompson().start(environment.setting(5000)), environment.run(np.random.default_rng(0))
    lengths = []
    while policy.remaining:
        before = policy.played
        policy.learn(run.tally(policy.plan()))
        lengths.append((before, policy.played - before))
    assert lengths[0] == (0, policy.start_rounds * small_problem.actions.dim)
    assert all(n == min(max(t // 10, 1), 5000 - t) for t, n in lengths[1:])
    assert policy.belief is not None
    assert policy.belief.rounds == lengths[-1][0]  # the last plan was cut short, so it is not yet looked at
    assert policy.observations.rounds == 5000


def test_rounds_are_divided_equally_between_the_draws() -> None:
    plan = _spread_evenly(np.array([3, 1, 3, 2]), 10)
    assert plan.actions.tolist() == [1, 2, 3]
    assert plan.counts.tolist() == [2, 2, 6]
    assert _spread_evenly(np.array([5]), 7).counts.tolist() == [7]
    vectors = _spread_evenly(np.array([[1, 0], [0, 1], [1, 0]]), 6)
    assert vectors.actions.tolist() == [[0, 1], [1, 0]]
    assert vectors.counts.tolist() == [2, 4]


def test_learns_on_a_set_of_1e40_allocations() -> None:
    """Proposes legal allocations, and loses far less than the same rounds played at random."""
    problem = random_problem(Allocations(shares=1000, slots=20), seed=0)
    environment = Environment(problem)
    policy, run = Thompson().start(environment.setting(30_000), seed=1), environment.run(np.random.default_rng(1))
    late = []
    while policy.remaining:
        plan = policy.plan()
        assert problem.actions.contains(plan.actions).all()
        if policy.played > 20_000:
            late.append(np.average(problem.gaps(plan.actions), weights=plan.counts))
        policy.learn(run.tally(plan))
    at_random = problem.gaps(problem.actions.sample(np.random.default_rng(2), 1000)).mean()
    assert np.mean(late) < 0.35 * at_random
    recommended = problem.gaps(np.array([policy.recommend()]))[0]
    assert recommended < 0.15 * at_random


RISKY = Problem(  # the best mean carries five times the variance
    actions=Actions(np.eye(3)),
    mean_coef=np.array([0.9, 0.4, 0.0]),
    var_coef=np.array([5.0, 0.1, 0.0]),
    check_norms=False,
)


@pytest.mark.parametrize("kind", [LinThompson, LinUcb])
def test_risk_neutral_kin_decide_by_the_mean_alone(kind: type[Policy]) -> None:
    for seed in range(3):
        policy = kind().start(Environment(RISKY).setting(3000), seed=seed)
        actions = play(policy, RISKY, 3000, seed=seed)
        assert policy.recommend() == 0
        assert actions[-1000:].count(0) > 800


def test_thompson_minds_the_variance() -> None:
    for seed in range(3):
        policy = Thompson().start(Environment(RISKY).setting(3000), seed=seed)
        actions = play(policy, RISKY, 3000, seed=seed)
        assert policy.recommend() == RISKY.best == 1
        assert actions[-1000:].count(0) < 20


def leaders(policy: LinThompson | LinUcb | Thompson, problem: Problem, rounds: int) -> list[bool]:
    """Whether each round after the first plan plays what looked best at its plan's start."""
    run = Environment(problem).run(np.random.default_rng(4))
    same = []
    for _ in range(rounds):
        if policy.pending is None and policy.belief is not None:
            best = policy.recommend()
        action = policy.select()
        if policy.belief is not None:
            same.append(action == best)
        policy.update(action, run.reward(action))
    return same


@pytest.mark.parametrize("policy", [LinUcb(width=0.0), LinThompson(width=1e-9), Thompson(width=1e-9)])
def test_without_width_it_is_greedy(gaussian_problem: Problem, policy: LinUcb | Thompson) -> None:
    running = policy.start(Environment(gaussian_problem).setting(600), seed=2)
    assert all(leaders(running, gaussian_problem, 600))


@pytest.mark.parametrize("policy", [LinUcb(), LinThompson(), Thompson()])
def test_with_width_it_is_not(gaussian_problem: Problem, policy: LinUcb | Thompson) -> None:
    running = policy.start(Environment(gaussian_problem).setting(600), seed=2)
    assert not all(leaders(running, gaussian_problem, 600))


@pytest.mark.parametrize("width", [None, 0.7])
def test_lin_ucb_plays_the_largest_upper_bound(gaussian_problem: Problem, width: float | None) -> None:
    """Mean plus width deviations; the width is sqrt(2 log(1 / delta) + log(det V / det V_0)) unless given."""
    policy = LinUcb(width=width, delta=0.05).start(Environment(gaussian_problem).setting(900), seed=2)
    play(policy, gaussian_problem, 400)
    while policy.pending is not None:
        play(policy, gaussian_problem, 1)
    belief, rows = policy.belief, gaussian_problem.actions.listed().matrix
    assert belief is not None
    ratio = np.linalg.det(belief.mean_precision) / np.linalg.det(policy.vague / belief.variance)
    factor = math.sqrt(2 * math.log(20) + math.log(ratio)) if width is None else width
    bounds = [a @ belief.mean_coef + factor * math.sqrt(a @ np.linalg.inv(belief.mean_precision) @ a) for a in rows]
    plan = policy.plan()
    assert plan.actions.tolist() == [int(np.argmax(bounds))]
    assert plan.rounds == policy.due


@pytest.mark.parametrize("kind", [Thompson, LinThompson, LinUcb])
def test_plays_on_and_on_without_a_horizon(small_problem: Problem, kind: type[Policy]) -> None:
    policy = kind().start(Setting(actions=small_problem.actions), seed=3)
    play(policy, small_problem, 2500)
    with_horizon = kind().start(Setting(actions=small_problem.actions, horizon=10**6), seed=3)
    play(with_horizon, small_problem, 2500)
    assert policy.select() == with_horizon.select()
    assert policy.played > 2200


def yesterday(problem: Problem, rounds: int = 3000) -> Belief:
    policy = Thompson().start(Setting(actions=problem.actions), seed=8)
    run = Environment(problem).run(np.random.default_rng(8))
    while policy.played < rounds:
        policy.learn(run.tally(policy.plan()))
    assert policy.belief is not None
    return policy.belief


@pytest.mark.usefixtures("untraced")
def test_a_warm_start_skips_the_first_design_and_loses_less() -> None:
    problem = random_routing_problem(shares=4, slots=4, seed=2)
    belief = yesterday(problem)
    policy = Thompson(prior=belief).start(Setting(actions=problem.actions))
    assert policy.plan().rounds == math.floor(0.1 * belief.rounds)
    assert policy.recommend() == problem.actions.best(belief.score(2.0))
    cases = {"cold": Thompson(), "warm": Thompson(prior=belief), "weaker": Thompson(prior=belief.weakened(0.5))}
    result = simulate(problem, cases, horizon=1000, runs=6, seed=1, checkpoints=4)
    # 0.30 to 0.36 and 0.54 to 0.85 of the cold start at five seeds
    cold, warm, weaker = (one.steady_regret[:, -1].mean() for one in result.policies.values())
    assert warm < 0.6 * cold
    assert weaker < cold


@pytest.mark.parametrize("kind", [Thompson, LinThompson, LinUcb])
@pytest.mark.parametrize("saved_at", [0, 1, 333])
def test_a_prior_survives_save_and_restore(small_problem: Problem, kind: type[LinearPolicy], saved_at: int) -> None:
    prior = yesterday(small_problem, 200)
    policy = kind(prior=prior).start(Setting(actions=small_problem.actions, horizon=1000), seed=5)
    play(policy, small_problem, saved_at)
    restored = restore_policy(json.loads(json.dumps(policy.state(), allow_nan=False)), small_problem.actions)
    assert isinstance(restored, LinearPolicy)
    assert restored.prior is not None
    np.testing.assert_array_equal(restored.prior.var_precision, prior.var_precision)
    assert restored.state() == policy.state()
    assert play(restored, small_problem, 600) == play(policy, small_problem, 600)


PRIOR = naive_fit([], 1.0, np.eye(3))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Thompson(draws=0), "draws must be a positive integer, was 0"),
        (Thompson(draws=2.5), "draws must be a positive integer, was 2.5"),  # type: ignore[arg-type]
        (Thompson(width=0.0), "width must be a number of at least 1e-09 and of at most 1e+09, was 0.0"),
        (Thompson(growth=0.0), "growth must be a number of at most 1 and above 0, was 0.0"),
        (Thompson(growth=1.5), "growth must be a number of at most 1 and above 0, was 1.5"),
        (Thompson(start_rounds=0), "start_rounds must be a positive integer, was 0"),
        (Thompson(prior=PRIOR), "prior must have dimension 2, had 3"),
        (Thompson(prior=3), "prior must be a Belief, was int"),  # type: ignore[arg-type]
        (LinThompson(width=math.inf), "width must be a number of at least 1e-09 and of at most 1e+09, was inf"),
        (LinUcb(width=-1.0), "width must be a number of at least 0, was -1.0"),
        (LinUcb(delta=1.0), "delta must be a number above 0 and below 1, was 1.0"),
        (LinUcb(growth="fast"), "growth must be a number of at most 1 and above 0, was 'fast'"),  # type: ignore[arg-type]
    ],
)
def test_bad_parameters_are_named(policy: Policy, message: str) -> None:
    with pytest.raises(InputError) as caught:
        policy.start(Setting(actions=Actions(np.eye(2))))
    assert str(caught.value) == message


@pytest.mark.parametrize("policy", [Thompson(), LinThompson(), LinUcb()])
def test_recommendation_before_the_first_plan_is_done_is_refused(policy: Policy) -> None:
    running = policy.start(Setting(actions=Actions(np.eye(3))))
    running.update(running.select(), 0.1)
    message = f"^{policy.name} has not finished its first plan and cannot recommend an action yet$"
    with pytest.raises(StateError, match=message):
        running.recommend()
