"""Sets of actions that change between rounds: what is learned carries over, and what cannot carry over is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from naive_learning import Round, evidence_of, naive_fit
from riskroute import (
    Actions,
    Allocations,
    InputError,
    Policy,
    Problem,
    Setting,
    StateError,
    random_problem,
    restore_policy,
    simulate,
)
from riskroute.environments import ChangingActionSets
from riskroute.learning.actions import Action, as_batch
from riskroute.learning.policies.linear_policy import LinearPolicy
from riskroute.policies import Adaptive, ChangeTest, Discounted, LinThompson, LinUcb, Rise, SlidingWindow, Thompson
from riskroute.routing import list_splits, random_instance_sizes, routing_actions

SIZES = [2, 4, 7]
ORDERS, SEQUENCE = random_instance_sizes(SIZES, slots=3, seed=1, length=997)
PROBLEMS = [
    dataclasses.replace(one, actions=Actions(one.actions.listed().rows, coordinates=3)) for one in ORDERS
]  # with row numbers as handles
SETS = [problem.actions for problem in PROBLEMS]
KINDS: list[type[LinearPolicy]] = [Thompson, Adaptive, LinThompson, LinUcb, Discounted, SlidingWindow, ChangeTest]


def rounds_of(
    policy: Policy, count: int, seed: int = 3, sequence: Any = SEQUENCE, sign: float = 1.0
) -> tuple[list[Round], list[Action]]:
    """Play an order flow round by round; return features and rewards, and the actions."""
    rng = np.random.default_rng(seed)
    rounds, actions = [], []
    for t in range(count):
        problem = PROBLEMS[sequence[t % len(sequence)]]
        policy.offer(problem.actions)
        action = policy.select()
        features = problem.actions.action_features(action)
        deviation = np.sqrt(features @ problem.var_coef + problem.base_variance)
        reward = float(sign * features @ problem.mean_coef + deviation * rng.standard_normal())
        policy.update(action, reward)
        rounds.append((features, reward))
        actions.append(action)
    return rounds, actions


@pytest.mark.parametrize("fresh", [Thompson(), Adaptive(assumed_size=0), LinThompson(), LinUcb()])
def test_learning_carries_over_from_set_to_set(fresh: LinearPolicy) -> None:
    """The belief is that of all rewards, whatever set they were chosen from."""
    policy = fresh.clone().start(Setting(actions=SETS[0]), seed=1)
    rounds, _ = rounds_of(policy, 250)
    policy.offer(SETS[int(SEQUENCE[249] + 1) % 3])  # ends the last plan
    everything = evidence_of(rounds, 6)
    np.testing.assert_allclose(policy.observations.features, everything.features)
    np.testing.assert_allclose(policy.observations.counts, everything.counts)
    np.testing.assert_allclose(policy.observations.spreads, everything.spreads, atol=1e-9)
    policy.refresh()
    twin = naive_fit(rounds, 1.0, policy.vague)
    assert policy.belief is not None
    np.testing.assert_allclose(policy.belief.mean_coef, twin.mean_coef, rtol=1e-6)
    np.testing.assert_allclose(policy.belief.var_precision, twin.var_precision, rtol=1e-6)
    assert (policy.played, policy.belief.rounds) == (250, 250)


@pytest.mark.parametrize("kind", KINDS)
def test_actions_are_of_the_set_on_offer(kind: type[LinearPolicy]) -> None:
    policy = kind().start(Setting(actions=SETS[0], horizon=400), seed=1)
    _, actions = rounds_of(policy, 400)
    assert all(isinstance(a, int) and 0 <= a < SETS[SEQUENCE[t]].size for t, a in enumerate(actions))
    for actions_on_offer in SETS:
        policy.offer(actions_on_offer)
        assert policy.recommend() in range(actions_on_offer.size)


def test_what_was_played_of_a_plan_is_learned() -> None:
    policy = Thompson(start_rounds=5).start(Setting(actions=SETS[2]), seed=1)
    plan = policy.plan()
    assert plan.rounds == 30
    for k in range(7):
        policy.update(policy.select(), 0.1 * k)
    assert policy.played == 0
    policy.offer(SETS[1])
    assert policy.belief is not None
    assert policy.played == policy.observations.rounds == policy.belief.rounds == 7
    played = np.repeat(SETS[2].features(plan.actions), plan.counts, axis=0)[:7]
    expected = evidence_of([(a, 0.1 * k) for k, a in enumerate(played)], 6)
    np.testing.assert_allclose(policy.observations.features, expected.features)
    np.testing.assert_allclose(policy.observations.means, expected.means)


def test_offering_the_same_set_changes_nothing() -> None:
    policy = Thompson().start(Setting(actions=SETS[2]), seed=1)
    policy.update(policy.select(), 0.3)
    before = json.dumps(policy.state())
    policy.offer(SETS[2])
    policy.offer(Actions(SETS[2].listed().rows, coordinates=3))  # another object, the same set
    assert json.dumps(policy.state()) == before


def test_a_plan_not_yet_begun_is_made_anew() -> None:
    policy = Thompson().start(Setting(actions=SETS[2]), seed=1)
    policy.plan()
    policy.offer(SETS[0])
    assert policy.played == 0
    assert policy.select() in range(SETS[0].size)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_between_offers_goes_on_alike(kind: type[LinearPolicy]) -> None:
    policy = kind().start(Setting(actions=SETS[0]), seed=1)
    rounds_of(policy, 123)
    on_offer = SETS[SEQUENCE[122]]
    restored = restore_policy(json.loads(json.dumps(policy.state(), allow_nan=False)), on_offer)
    assert restored.state() == policy.state()
    assert rounds_of(restored, 60, seed=8)[1] == rounds_of(policy, 60, seed=8)[1]


def test_policies_that_need_one_set_refuse() -> None:
    policy = Rise().start(Setting(actions=SETS[2], horizon=1000))
    with pytest.raises(StateError, match=r"^rise needs the same action set in every round$"):
        policy.offer(SETS[1])
    policy.offer(SETS[2])
    policy.select()


@pytest.mark.parametrize("kind", KINDS)
def test_another_dimension_is_refused(kind: type[LinearPolicy]) -> None:
    policy = kind().start(Setting(actions=SETS[2]))
    with pytest.raises(InputError, match=r"^actions must have dimension 6 in every round, had 4$"):
        policy.offer(Actions(np.eye(4)))
    with pytest.raises(StateError, match=f"^{policy.name} has not been started"):
        kind().offer(SETS[0])


@pytest.mark.usefixtures("untraced")
def test_thompson_and_adaptive_lose_less_than_uniform_play_on_an_order_flow() -> None:
    """At four seeds one run of each lost about 900, 190 to 340, and 60 to 220."""
    flow = ChangingActionSets(PROBLEMS, SEQUENCE)
    result = simulate(flow, ["uniform", "thompson", "adaptive"], horizon=2000, runs=1, seed=2, checkpoints=4)
    uniform, thompson, adaptive = (one.steady_regret[:, -1].mean() for one in result.policies.values())
    assert thompson < 0.9 * uniform
    assert adaptive < 0.6 * uniform


def test_small_orders_teach_about_large_ones() -> None:
    """Sets of one scale share their coefficients: 2,000 small orders, and the first large one is routed well."""
    scale = math.hypot(9, 9**2)
    small, large = (routing_actions(shares, 3, scale=scale) for shares in (6, 9))
    problem = random_problem(large, seed=2)
    assert small.action_features((0, 0, 6)) == pytest.approx([0, 0, 6 / scale, 0, 0, 36 / scale])
    policy = Thompson().start(Setting(actions=small), seed=1)
    rng = np.random.default_rng(1)
    for _ in range(2000):
        action = policy.select()
        features = small.action_features(action)
        deviation = np.sqrt(features @ problem.var_coef + 1)
        policy.update(action, float(features @ problem.mean_coef + deviation * rng.standard_normal()))
    policy.offer(large)
    assert problem.gaps(as_batch(policy.recommend()))[0] < 0.3 * problem.gaps().mean()


def test_one_scale_for_lists_and_for_sets_that_are_not_listed() -> None:
    scale = math.hypot(9, 9**2)
    listed, implicit = (routing_actions(4, 3, listed=one, scale=scale) for one in (True, False))
    assert isinstance(implicit, Allocations)
    np.testing.assert_allclose(implicit.features(list_splits(4, 3)), listed.listed().matrix)
    assert listed.largest_norm() == pytest.approx(implicit.largest_norm()) == pytest.approx(math.hypot(4, 4**2) / scale)
    coefs = np.random.default_rng(1).standard_normal((20, 6))
    for coef in coefs:
        assert implicit.best(coef) == listed.best(coef)
    assert implicit.fingerprint != Allocations(4, 3).fingerprint


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), "large"])
@pytest.mark.parametrize("listed", [True, False])
def test_bad_scales_are_named(scale: float, listed: bool) -> None:
    with pytest.raises(InputError) as caught:
        routing_actions(4, 3, listed=listed, scale=scale)
    assert str(caught.value) == f"scale must be a number above 0, was {scale!r}"


def test_large_sets_that_are_not_listed_can_be_offered() -> None:
    problems, sequence = random_instance_sizes([50, 400], slots=8, seed=0, length=10)
    result = simulate(ChangingActionSets(problems, sequence), [Thompson()], horizon=40, runs=1, checkpoints=2)
    assert sum(result.policies["thompson"].recommended[0]) == [50, 400][sequence[39 % 10]]


@pytest.mark.usefixtures("untraced")
def test_change_test_compares_plans_not_single_rounds() -> None:
    """Offers end plans early; what they leave of a plan goes on, so that sixteen plans are many more rounds."""
    policy = ChangeTest(level=1e-30).start(Setting(actions=SETS[0]), seed=1)
    rounds_of(policy, 600)
    assert not policy.restarts
    assert len(policy.recent) == 16
    assert sum(part.rounds for part in policy.recent) > 300
    assert policy.settled.rounds + sum(part.rounds for part in policy.recent) >= 599


@pytest.mark.usefixtures("untraced")
def test_a_first_set_that_shows_little_does_no_harm() -> None:
    """One action, or features of zero, tell nothing of the directions that later sets have."""
    first = dataclasses.replace(PROBLEMS[0], actions=Actions(PROBLEMS[0].actions.listed().matrix[:1]))
    nothing = dataclasses.replace(PROBLEMS[0], actions=Actions(np.zeros((1, 6))))
    for odd in (first, nothing):
        flow = ChangingActionSets([odd, *PROBLEMS], [0, *(SEQUENCE[:200] + 1)])
        result = simulate(flow, ["uniform", "thompson"], horizon=1200, runs=1, seed=2, checkpoints=4)
        uniform, thompson = (one.steady_regret[:, -1].mean() for one in result.policies.values())
        assert thompson < uniform


def test_problems_of_an_order_flow_share_one_scale() -> None:
    assert all(isinstance(problem, Problem) for problem in PROBLEMS)
    for actions, size in zip(SETS, SIZES, strict=True):
        assert actions.largest_norm() == pytest.approx(math.hypot(size, size**2) / math.hypot(7, 7**2))
