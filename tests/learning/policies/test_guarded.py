"""The guard around `adaptive`: its bounds, its elimination, its count of rounds away, and its budget at the worst."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from riskroute import Actions, Allocations, Belief, Environment, Problem, Setting, StateError, random_problem
from riskroute.core.arrays import Floats
from riskroute.core.records import to_plain
from riskroute.learning.estimation import unbiased_estimate
from riskroute.learning.plan import Plan
from riskroute.learning.policies.guarded import _ConfidenceBounds
from riskroute.learning.tally import Tallies
from riskroute.policies import Adaptive, Guarded

TIES = Problem(
    actions=Actions([[1.0, 0.0], [0.0, 1.0], [0.98, 0.0], [-0.7, -0.7]]),
    mean_coef=np.array([0.7, 0.1]),
    var_coef=np.array([0.6, -0.6]),
)
"""The first two actions are equally good, at means of 0.7 and 0.1; the third is a little worse, the fourth bad."""

MISLEADING = Problem(
    actions=Actions([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.5]]),
    mean_coef=np.array([0.9, 0.25, -0.3]),
    var_coef=np.array([0.9, -0.3, -0.2]),
)
"""The best action has by far the largest variance, so that its first rewards often look worse than the second's."""

EQUAL = replace(TIES, mean_coef=np.zeros(2), var_coef=np.zeros(2))

WRONG = Belief(np.array([-0.9, 0.3]), 1e6 * np.eye(2), np.array([0.6, 0.6]), 1e6 * np.eye(2), 1.0, 1e6)
"""A firm belief that the bad action of `TIES` is the best."""


@dataclass(kw_only=True)
class _Inner(Guarded):
    """Plays whatever a test wants instead of `adaptive`."""

    choose: Callable[[Guarded], Plan] = field(default=lambda policy: Plan.repeat(0, 1))

    name = "test-inner"

    def inner_plan(self) -> Plan:
        return self.choose(self)


def _worst(policy: Guarded, problem: Problem = TIES) -> Plan:
    allowed = policy.survivors.listed().members
    return Plan.repeat(int(allowed[np.argmax(problem.gaps()[allowed])]), max(policy.horizon // 100, 1))


def _fickle(policy: Guarded) -> Plan:
    half = max(int(policy.balanced) // 40, 1)
    return Plan(np.array([0, 1]), np.array([half, half]))


def _late(policy: Guarded) -> Plan:
    """Play the best action for half of the horizon, and the other best one from then on."""
    return Plan.repeat(int(policy.played > policy.horizon // 2), max(policy.horizon // 100, 1))


def _played(policy: Guarded, problem: Problem, horizon: int, seed: int) -> tuple[Guarded, Floats]:
    environment = Environment(problem)
    policy = policy.clone().start(environment.setting(horizon), seed)
    rewards, played = environment.run(np.random.default_rng([seed, 7])), np.zeros(problem.actions.size)
    while policy.remaining:
        plan = policy.plan()
        policy.learn(rewards.tally(plan))
        np.add.at(played, plan.actions, plan.counts)
    return policy, played


def _spent(problem: Problem, played: Floats) -> float:
    """Gaps and squared differences of means; expected regret is at most its expectation and a variance."""
    means = problem.means(problem.actions.listed().handles)
    return float(played @ problem.gaps() + played @ (means - played @ means / played.sum()) ** 2)


def _bounds(problem: Problem, horizon: int) -> _ConfidenceBounds:
    return Guarded().start(Environment(problem).setting(horizon)).bounds


def test_bounds_worked_out_by_hand() -> None:
    """Norms of 1, omega = 1, rho = 2: variances of 2 at most, gaps of 6, means 2 apart; T = 10,000, K = 4, d = 2."""
    bounds = replace(_bounds(TIES, 10_000), leverage=2.0)
    assert (bounds.variance, bounds.gap, bounds.mean_difference, bounds.round_cost) == (2.0, 6.0, 2.0, 10.0)
    u = math.log(2 * 4 * 2 * 10_000)
    assert bounds.confidence(1) == pytest.approx(u)
    assert bounds.confidence(3) == pytest.approx(math.log(2 * 4 * 12 * 10_000))
    width = math.sqrt(2 * u * (2 * 2 * 1.25 * 2 + 4 * 2) * 2 / 500) + 2 * 1.25 * 2 * u * 2 / 500
    assert bounds.width(500, 1, ratio=1.25) == pytest.approx(width)
    balanced = (4 * 10_000 * math.sqrt(2 * u * 16 * 2) / 10) ** (2 / 3)
    assert bounds.balanced_rounds == pytest.approx(balanced)
    assert 10 * balanced == pytest.approx(4 * 10_000 * math.sqrt(2 * u * 16 * 2 / balanced))
    regret = 2 + 10 * 501 + 10_000 * 4 * 0.05 + 4 * 300 + 2 * 2 * math.sqrt(2 * 10_000)
    assert bounds.regret(500, 0.05, 300) == pytest.approx(regret)
    assert bounds.regret(500, 100.0, 300) == pytest.approx(regret - 2000 + 6 * 10_000)  # no gap is larger than 6
    assert bounds.regret(20_000, 100.0, 20_000) == 2 + 10 * 10_000  # never more than the most that T rounds can cost


@pytest.mark.parametrize("strength", [0.003, 0.01, 0.1, 0.6])
def test_an_exploration_that_would_not_lower_the_bound_is_left_out(strength: float) -> None:
    environment, lower = Environment(TIES), []
    for horizon in (10**3, 10**5, 10**7, 10**9):
        policy = Guarded(strength=strength).start(environment.setting(horizon))
        whole = policy.bounds.checks(strength * policy.balanced)
        counts = np.maximum(np.ceil(np.array(policy.design.weights) * whole[-1]), 2)
        width = policy.bounds.width(whole[-1], len(whole), float((counts / (counts - 1)).max()))
        explored = policy.bounds.regret(int(counts.sum()), width, policy.balanced)
        without = policy.bounds.regret(0, math.inf, policy.balanced)
        assert policy.regret_bound() == pytest.approx(min(explored, without), rel=1e-3)
        assert policy.exploring == (policy.exploration > 0) == (explored < without)
        lower.append(policy.exploring)
    assert lower == sorted(lower)  # once it helps, it helps at every longer horizon
    assert lower[-1]


def test_checks_double_and_begin_where_one_action_could_be_certified() -> None:
    bounds = replace(_bounds(TIES, 10_000), leverage=2.0)
    least = 32 * bounds.confidence(1) * 2 * 16 / 36
    assert bounds.checks(7 * least) == pytest.approx([1.75 * least, 3.5 * least, 7 * least])
    assert bounds.checks(0.5 * least) == [0.5 * least]


def test_regret_is_the_price_of_rounds_and_a_variance_less_the_error_of_the_average() -> None:
    """The identity that the proof begins with, for actions chosen by a rule that looks at the rewards."""
    rng, n, rounds = np.random.default_rng(0), 20_000, 12
    means, deviations = np.array([0.7, 0.1, -0.56]), np.sqrt([1.6, 0.4, 1.0])
    rewards, action, price = np.zeros((rounds, n)), np.zeros(n, dtype=np.int64), np.zeros(n)
    scores = deviations**2 - 2 * means
    for t in range(rounds):
        rewards[t] = means[action] + deviations[action] * rng.standard_normal(n)
        price += scores[action] - scores[0] + (means[action] - means[0]) ** 2
        action = np.where(rewards[t] < 0.2, (action + 1) % 3, action)
    path = ((rewards - rewards.mean(axis=0)) ** 2).sum(axis=0) - 2 * rewards.sum(axis=0)
    regret = path - ((rounds - 1) * deviations[0] ** 2 - 2 * rounds * means[0])
    identity = price + deviations[0] ** 2 - rounds * (rewards.mean(axis=0) - means[0]) ** 2
    apart = regret - identity
    assert abs(apart.mean()) < 4 * apart.std() / math.sqrt(n)
    assert price.mean() + deviations[0] ** 2 > regret.mean()


@pytest.mark.parametrize(("counts", "loose"), [((2, 2, 2), 3.0), ((40, 5, 60), 2.0), ((400, 300, 600), 1.5)])
def test_errors_of_the_estimate_stay_within_the_tail_bound(counts: tuple[int, ...], loose: float) -> None:
    """20,000 explorations, at a confidence of exp(-3), with the exact variances.

    The errors are outside as often as allowed, within four standard errors; and the bound is not much wider than it
    would have to be.
    """
    rng, n, u, rho = np.random.default_rng(1), 20_000, 3.0, 2.0
    features, size = np.array([[1.0, 0.0], [0.3, 0.9], [-0.5, 0.8]]), np.array(counts)
    mean, variance = features @ [0.5, -0.4], 1 + features @ [0.6, 0.2]
    means = mean + np.sqrt(variance / size) * rng.standard_normal((n, 3))
    variances = variance * rng.chisquare(size - 1, (n, 3)) / (size - 1)
    gram = (features.T * size) @ features
    action = np.array([0.2, -0.9])
    weights = size * (features @ np.linalg.solve(gram, action))
    errors = (variances - variance - rho * (means - mean)) @ weights
    spread = weights**2 @ (2 * variance**2 / (size - 1) + rho**2 * variance / size)
    limit = math.sqrt(2 * spread * u) + 2 * float(np.max(np.abs(weights) * variance / (size - 1))) * u
    for sign in (1, -1):
        assert np.mean(sign * errors > limit) <= math.exp(-u) + 0.006
    assert limit < loose * np.quantile(np.abs(errors), 1 - math.exp(-u))
    tallies = Tallies(np.arange(3), size, means[0], variances[0] * (size - 1))
    score = unbiased_estimate(features, tallies, 1.0, rho)
    assert score @ action == pytest.approx((variances[0] - 1 - rho * means[0]) @ weights)


def test_true_errors_are_below_the_width_in_every_exploration() -> None:
    problem = random_problem(Actions.scaled(np.random.default_rng(2).standard_normal((30, 3))), 1)
    environment = Environment(problem)
    score = problem.var_coef - problem.risk_tolerance * problem.mean_coef
    for seed in range(40):
        policy = Guarded(strength=0.5).start(environment.setting(20_000), seed)
        rewards = environment.run(np.random.default_rng(seed))
        while policy.exploring:
            policy.learn(rewards.tally(policy.plan()))
        assert policy.cuts
        for estimate, tolerance in policy.cuts:
            errors = problem.actions.listed().scores(estimate - score)
            assert np.abs(errors).max() <= tolerance / 2
        assert policy.survivors.contains(np.array([problem.best])).all()


def test_rounds_away_are_counted_as_by_hand_and_never_too_few() -> None:
    policy = Guarded().start(Environment(TIES).setting(1000))
    policy.main, policy.lead, policy.away = 0, 5, 0
    assert policy._counted(np.array([1, 0]), np.array([3, 4])) == (0, 6, 6)
    assert policy._counted(np.array([1]), np.array([8])) == (1, 3, 10)
    rng = np.random.default_rng(3)
    for _ in range(200):
        policy.main, policy.lead, policy.away = None, 0, 0
        played = np.zeros(4, dtype=np.int64)
        favourite = rng.integers(4)
        for _ in range(rng.integers(1, 30)):
            action = favourite if rng.random() < 0.6 else rng.integers(4)
            count = int(rng.integers(1, 9))
            played[action] += count
            policy.main, policy.lead, policy.away = policy._counted(np.array([action]), np.array([count]))
        assert policy.lead + policy.away == played.sum()
        assert policy.main is not None
        assert played.sum() - played[policy.main] <= policy.away <= 2 * (played.sum() - played.max())


HORIZON = 10**10


@pytest.mark.parametrize("choose", [_worst, _fickle, _late])
def test_the_worst_inner_policies_stay_within_the_bound(choose: Callable[[Guarded], Plan]) -> None:
    """In all runs; without the guard, the worst pays 27 times the bound, and the fickle one more than it too."""
    for seed in range(10):
        policy, played = _played(_Inner(choose=choose, strength=0.6), TIES, HORIZON, seed)
        assert _spent(TIES, played) <= policy.regret_bound()
        assert played[3] < policy.balanced
    alone = {_worst: np.array([0, 0, 0, HORIZON]), _fickle: np.array([HORIZON, HORIZON, 0, 0]) / 2}
    if choose in alone:
        assert _spent(TIES, alone[choose]) > policy.regret_bound()


def test_changing_for_ever_is_ended_by_settling() -> None:
    policy, played = _played(_Inner(choose=_fickle, strength=0.6), TIES, HORIZON, 1)
    assert policy.settled
    assert policy.away <= policy.balanced
    explored = policy._design_counts(len(policy.checks)).sum()
    assert played.sum() - played[policy.recommend()] <= explored + policy.balanced
    assert policy.recommend() in (0, 1)


@pytest.mark.parametrize(
    ("problem", "prior"),
    [
        (TIES, None),
        (TIES, WRONG),
        (MISLEADING, None),
        (replace(TIES, mean_coef=np.zeros(2), var_coef=np.zeros(2)), None),
    ],
    ids=["ties", "wrong prior", "misleading rewards", "all equal"],
)
@pytest.mark.parametrize("strength", [0.01, 0.6])
def test_adaptive_inside_the_guard_stays_within_the_bound(
    problem: Problem, prior: Belief | None, strength: float
) -> None:
    for seed in range(5):
        policy, played = _played(Guarded(strength=strength, prior=prior), problem, 10**8, seed)
        assert policy.regret_bound() < 0.5 * 10**8 * policy.bounds.round_cost
        assert _spent(problem, played) <= policy.regret_bound()


def test_one_action_left_ends_exploration_early() -> None:
    worst = _Inner(choose=lambda policy: _worst(policy, MISLEADING), strength=0.6)
    policy, played = _played(worst, MISLEADING, HORIZON, 0)
    assert policy.survivors.single
    sure = [k for k, rounds in enumerate(policy.checks, 1) if 4 * policy.bounds.width(rounds, k, 1.001) < 0.1]
    assert len(policy.cuts) <= sure[0] < len(policy.checks)  # a gap of 0.1 is certified by then
    assert played[1:].sum() < policy.checks[len(policy.cuts) - 1]
    assert policy.recommend() == MISLEADING.best == 0


def test_checks_that_need_no_more_rounds_are_done_at_once() -> None:
    """With little noise, the first checks come before every action of the design has been played twice."""
    policy, played = _played(Guarded(strength=1.0), replace(EQUAL, base_variance=1e-8), 10**6, 0)
    assert policy.checks[1] < 2 * len(policy.design)
    assert len(policy.cuts) == len(policy.checks)
    assert played.sum() == 10**6


def test_without_a_bound_on_the_variance_it_plays_as_adaptive() -> None:
    actions = Actions(np.random.default_rng(4).uniform(0.1, 0.6, (8, 3)))
    setting = Setting(actions=actions, horizon=300, base_variance=0.0)
    ours, theirs = Guarded().start(setting, 2), Adaptive().start(setting, 2)
    assert ours.regret_bound() == math.inf
    rng = np.random.default_rng(5)
    while theirs.remaining:
        action, reward = theirs.select(), float(rng.standard_normal())
        assert ours.select() == action
        ours.update(action, reward)
        theirs.update(action, reward)
    assert Guarded(var_bound=1.0).start(setting).regret_bound() < math.inf


def test_a_damaged_state_is_refused() -> None:
    environment = Environment(TIES)
    policy = Guarded(strength=0.6).start(environment.setting(HORIZON), 0)
    rewards = environment.run(np.random.default_rng(0))
    while policy.exploring:
        policy.learn(rewards.tally(policy.plan()))
    state = policy.state()
    assert not policy.survivors.contains(np.array([3])).any()
    with pytest.raises(StateError, match="main must be an action that was not eliminated, was 3"):
        Guarded.restore(state | {"memory": state["memory"] | {"main": 3, "lead": 1}}, TIES.actions)
    unplanned = Tallies(np.array([2]), np.array([5]), np.zeros(1), np.ones(1))
    assert 2 not in policy.design.actions
    with pytest.raises(StateError, match="explored must have tallies of the design's actions only, had others"):
        Guarded.restore(state | {"memory": state["memory"] | {"explored": to_plain(unplanned)}}, TIES.actions)


def test_a_set_that_is_not_listed() -> None:
    problem = random_problem(Allocations(60, 4), 0)
    environment = Environment(problem)
    policy = Guarded(strength=0.3).start(environment.setting(30_000), 0)
    rewards = environment.run(np.random.default_rng(0))
    for _ in range(12):
        policy.learn(rewards.tally(policy.plan()))
        policy = Guarded.restore(json.loads(json.dumps(policy.state())), problem.actions)
    assert not policy.exploring
    assert policy.survivors.size <= problem.actions.size
    assert policy.survivors.contains(policy.plan().actions).all()


def test_the_bound_grows_as_the_horizon_to_the_power_of_two_thirds() -> None:
    bounds = [Guarded(strength=0.6).start(Environment(TIES).setting(10**k)).regret_bound() for k in (8, 9, 10, 11)]
    growth = np.diff(np.log10(bounds))
    assert ((growth > 2 / 3 - 0.01) & (growth < 2 / 3 + 0.04)).all()  # and a power of the logarithm
