"""Policies for coefficients that change: what they forget and when, alarms, and a problem where forgetting pays."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from naive_learning import Round, evidence_of, naive_fit, numbered_routing_problem
from riskroute import (
    Actions,
    Belief,
    Environment,
    InputError,
    Policy,
    Problem,
    Setting,
    Tallies,
    random_problem,
    random_routing_problem,
    restore_policy,
    simulate,
)
from riskroute.environments import PiecewiseStationary
from riskroute.learning.actions import Action
from riskroute.learning.belief_fit import fit_belief
from riskroute.learning.observations import Observations
from riskroute.policies import ChangeTest, Discounted, RestartGse, SlidingWindow, Thompson
from riskroute.routing import routing_actions

EYE = Setting(actions=Actions(np.eye(3)))
PRIOR = Belief(np.array([0.5, 0.1, 0.0]), 200 * np.eye(3), np.zeros(3), 100 * np.eye(3), 1.0, 600.0)
SETS = routing_actions(4, 4)
CHANGING = PiecewiseStationary(
    [random_problem(SETS, seed) for seed in (1, 2, 3, 4)], [5000, 10_000, 15_000], comparator="mean-variance"
)


def tallied(action: int, rounds: int, mean: float = 0.2) -> Tallies:
    return Tallies(np.array([action]), np.array([rounds]), np.array([mean]), np.array([1.0 * rounds]))


def play(policy: Policy, environment: Environment, rounds: int, seed: int = 4) -> list[Action]:
    run = environment.run(np.random.default_rng(seed))
    actions = []
    for _ in range(rounds):
        actions.append(policy.select())
        policy.update(actions[-1], run.reward(actions[-1]))
    return actions


def restarts(
    environment: Environment, horizon: int, seed: int, *, until: int | None = None, **parameters: Any
) -> list[int]:
    """Rounds of the alarms, in play that ends at the horizon or earlier."""
    policy = ChangeTest(**parameters).start(environment.setting(horizon), seed=seed)
    run = environment.run(np.random.default_rng(seed + 100))
    while policy.remaining and policy.played <= (until or horizon):
        policy.learn(run.tally(policy.plan()))
    return policy.restarts


def test_discounted_weights_halve_with_every_halflife() -> None:
    policy = Discounted(halflife=100).start(EYE)
    policy.observe(tallied(0, 64, mean=0.7))
    for _ in range(4):
        policy.observe(tallied(1, 25))
    np.testing.assert_allclose(policy.observations.counts[::-1], [32.0, 25 * (1 + 0.5**0.25 + 0.5**0.5 + 0.5**0.75)])
    policy.observe(tallied(2, 200))
    np.testing.assert_allclose(policy.observations.counts[-1], 8.0)
    np.testing.assert_allclose(policy.observations.means[-1], 0.7)
    np.testing.assert_allclose(policy.observations.spreads[-1], 8.0)
    policy.observe(tallied(2, 10_000))
    assert policy.observations.counts.tolist() == pytest.approx([10_000 + 200 * 0.5**100])


def test_discounted_believes_what_the_faded_observations_say() -> None:
    environment = Environment(random_routing_problem(3, 3, seed=5))
    policy = Discounted(halflife=300).start(environment.setting(4000), seed=1)
    run = environment.run(np.random.default_rng(1))
    while policy.played < 1500:
        policy.learn(run.tally(policy.plan()))
    expected = fit_belief(policy.observations, base_variance=1.0, vague=policy.vague)
    assert policy.belief is not None
    np.testing.assert_allclose(policy.belief.mean_precision, expected.mean_precision)
    assert policy.belief.rounds == pytest.approx(policy.observations.rounds)
    assert policy.belief.rounds < 300 / np.log(2) + policy.due  # as many rewards as ever count


def test_discounted_forgets_its_prior_at_the_same_speed() -> None:
    policy = Discounted(halflife=100, prior=PRIOR).start(EYE)
    policy.observe(tallied(0, 100))
    assert policy.base is not None
    assert policy.base.rounds == 300
    np.testing.assert_allclose(policy.base.mean_precision, 100 * np.eye(3))
    assert policy.prior is not None
    assert policy.prior.rounds == 600
    policy.observe(tallied(0, 3000))
    assert policy.base is None


@pytest.mark.usefixtures("untraced")
def test_sliding_window_is_thompson_fitted_on_the_last_window() -> None:
    """The observations are at any time those of the last rewards, a window's worth up to a sixteenth and a plan."""
    problem, window = numbered_routing_problem(3, 3, seed=5), 320
    environment = Environment(problem)
    policy = SlidingWindow(window=window).start(environment.setting(1500), seed=2)
    run = environment.run(np.random.default_rng(3))
    rows, history = problem.actions.listed().matrix, list[Round]()
    while policy.remaining:
        longest, believed = policy.plan().rounds, policy.played
        for _ in range(longest):
            action = policy.select()
            reward = run.reward(action)
            policy.update(action, reward)
            history.append((rows[action], reward))
        kept = int(policy.observations.rounds)
        if policy.played <= window * 15 / 16:
            assert kept == policy.played
        assert min(window * 15 / 16 - longest, policy.played) <= kept <= window + longest
        expected = evidence_of(history[-kept:], 6)
        np.testing.assert_array_equal(policy.observations.counts, expected.counts)
        np.testing.assert_allclose(policy.observations.means, expected.means)
        np.testing.assert_allclose(policy.observations.spreads, expected.spreads, atol=1e-9)
        if policy.fresh == 0 and policy.played % 5 == 0:
            twin = naive_fit(history[-kept:], 1.0, policy.vague)
            assert policy.belief is not None
            np.testing.assert_allclose(policy.belief.mean_coef, twin.mean_coef, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(policy.belief.var_precision, twin.var_precision, rtol=1e-6)
    assert believed > 1200


def test_a_window_longer_than_play_is_thompson() -> None:
    environment = Environment(random_routing_problem(3, 3, seed=5))
    first = play(SlidingWindow(window=10_000).start(environment.setting(600), seed=2), environment, 600)
    assert first == play(Thompson().start(environment.setting(600), seed=2), environment, 600)


def test_sliding_window_forgets_its_prior_after_a_window() -> None:
    environment = Environment(random_problem(EYE.actions, 3))
    policy = SlidingWindow(window=400, prior=PRIOR).start(environment.setting(2000))
    run = environment.run(np.random.default_rng(1))
    while policy.remaining:
        policy.learn(run.tally(policy.plan()))
        assert (policy.base is None) == (policy.played > 400)


STATIONARY = {
    "easy to tell": random_routing_problem(6, 3, seed=0),
    "many actions": random_routing_problem(8, 6, seed=1),
    "few actions": random_routing_problem(3, 3, seed=5),
}


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("case", STATIONARY)
def test_no_alarm_where_nothing_changes(case: str) -> None:
    """Level 1e-6, about 100 plans and 5 tests each: 1 in 1,000 for both runs."""
    assert [restarts(Environment(STATIONARY[case]), 5000, seed) for seed in range(2)] == [[]] * 2


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(("check_every", "seed"), [(50, 0), (200, 1)])
def test_alarm_soon_after_a_big_change(check_every: int, seed: int) -> None:
    found = restarts(CHANGING, 10_000, seed, until=5800, check_every=check_every)
    assert any(5000 < alarm <= 5800 for alarm in found), found
    assert found == sorted(set(found))


@pytest.mark.usefixtures("untraced")
def test_alarm_when_the_variance_alone_changes() -> None:
    first = random_problem(SETS, 1)
    other = Problem(actions=SETS, mean_coef=first.mean_coef, var_coef=-first.var_coef)
    environment = PiecewiseStationary([first, other], [3000], comparator="mean-variance")
    for seed in range(3):
        assert any(3000 < alarm <= 3800 for alarm in restarts(environment, 4000, seed))


def test_alarm_when_little_has_settled() -> None:
    """Three rewards of each action settled, and 15 plans of one action since: the next one is held to these."""
    policy = ChangeTest().start(Setting(actions=EYE.actions, horizon=10_000))
    policy.settled = evidence_of([(row, x) for row in np.eye(3) for x in (-1.0, 0.0, 1.0)], 3)
    policy.recent = [Observations.of(np.eye(3)[:1], tallied(0, 250)) for _ in range(15)]
    for mean, alarm in ((0.25, None), (0.8, 1)):
        policy.recent.append(Observations.of(np.eye(3)[:1], tallied(0, 250, mean)))
        assert policy._contradicted() == alarm
        policy.recent.pop()


def test_an_action_without_features_is_known_for_certain() -> None:
    """Its mean is zero and its variance the base variance, whatever was seen: nothing to divide by, and no alarm."""
    problem = Problem(actions=Actions(np.zeros((2, 3))), mean_coef=np.zeros(3), var_coef=np.zeros(3))
    assert restarts(Environment(problem), 1500, seed=1) == []


def test_an_alarm_keeps_the_latest_plans_only_and_explores_anew() -> None:
    policy = ChangeTest(check_every=100).start(CHANGING.setting(20_000), seed=1)
    run = CHANGING.run(np.random.default_rng(1))
    while not policy.restarts or policy.restarts[-1] < 5000:
        assert policy.plan().rounds <= 100 or policy.belief is None
        assert policy.settled.joined(*policy.recent).rounds == policy.observations.rounds
        policy.learn(run.tally(policy.plan()))
    assert policy.restarts[-1] == policy.played
    assert policy.observations.rounds == sum(part.rounds for part in policy.recent) <= 16 * 100
    assert len(policy.settled) == 0
    assert len(policy.recent) in (1, 2, 4, 8, 16)
    assert policy.belief is not None
    assert policy.belief.rounds == policy.observations.rounds
    assert policy.ahead() == 0
    policy.learn(run.tally(policy.plan()))
    assert policy.ahead() == policy.played - policy.restarts[-1]


def test_an_alarm_drops_the_prior_that_it_contradicts() -> None:
    prior = Belief(np.array([0.9, 0.0, 0.0]), 3000 * np.eye(3), np.zeros(3), 1500 * np.eye(3), 1.0, 3000.0)
    policy = ChangeTest(prior=prior).start(Setting(actions=EYE.actions, horizon=6000), seed=1)
    environment = Environment(Problem(actions=EYE.actions, mean_coef=np.array([-0.6, 0.5, 0.0]), var_coef=np.zeros(3)))
    run = environment.run(np.random.default_rng(2))
    while policy.remaining:
        policy.learn(run.tally(policy.plan()))
    assert policy.restarts
    assert policy.base is None
    assert policy.recommend() == 1


@pytest.mark.parametrize("kind", [Discounted, SlidingWindow, ChangeTest])
def test_saved_in_mid_run_goes_on_alike(kind: type[Policy]) -> None:
    """After the first change, where change-test has alarms behind it and the others have forgotten something."""
    parameters: dict[str, Any] = (
        {"halflife": 500} if kind is Discounted else {"window": 2000} if kind is SlidingWindow else {}
    )
    policy = kind(**parameters).start(CHANGING.setting(20_000), seed=3)
    run = CHANGING.run(np.random.default_rng(5))
    while policy.played < 6300:
        policy.learn(run.tally(policy.plan()))
    play(policy, CHANGING, 3)
    restored = restore_policy(json.loads(json.dumps(policy.state(), allow_nan=False)), SETS)
    assert restored.state() == policy.state()
    if isinstance(policy, ChangeTest):
        assert isinstance(restored, ChangeTest)
        assert restored.restarts == policy.restarts != []
    assert play(restored, CHANGING, 700, seed=9) == play(policy, CHANGING, 700, seed=9)


@pytest.mark.usefixtures("untraced")
def test_forgetting_pays_where_coefficients_change() -> None:
    """Each of six runs of another seed: above 10,400 for restart-gse, 8,200 for thompson, below 4,300 for ours."""
    cases = {
        "restart-gse": RestartGse(objective="mean-variance"),
        "discounted": Discounted(),
        "sliding-window": SlidingWindow(),
        "change-test": ChangeTest(),
        "thompson": Thompson(),
    }
    result = simulate(CHANGING, cases, horizon=20_000, runs=1, seed=1, checkpoints=4)
    regret = {label: one.steady_regret[:, -1].mean() for label, one in result.policies.items()}
    for label in ("discounted", "sliding-window", "change-test"):
        assert regret[label] < 0.6 * regret["restart-gse"], label
        assert regret[label] < 0.8 * regret["thompson"], label


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Discounted(halflife=0), "halflife must be a number above 0, was 0"),
        (Discounted(draws=0), "draws must be a positive integer, was 0"),
        (SlidingWindow(window=0), "window must be a positive integer, was 0"),
        (SlidingWindow(window=10.0), "window must be a positive integer, was 10.0"),  # type: ignore[arg-type]
        (SlidingWindow(width=-1.0), "width must be a number of at least 1e-09 and of at most 1e+09, was -1.0"),
        (ChangeTest(check_every=0), "check_every must be a positive integer, was 0"),
        (ChangeTest(level=0.0), "level must be a number above 0 and below 1, was 0.0"),
        (ChangeTest(level=1.0), "level must be a number above 0 and below 1, was 1.0"),
        (ChangeTest(patience=-1.0), "patience must be a number above 0, was -1.0"),
        (ChangeTest(prior=PRIOR.mean_coef), "prior must be a Belief, was ndarray"),  # type: ignore[arg-type]
    ],
)
def test_bad_parameters_are_named(policy: Policy, message: str) -> None:
    with pytest.raises(InputError) as caught:
        policy.start(EYE)
    assert str(caught.value) == message
