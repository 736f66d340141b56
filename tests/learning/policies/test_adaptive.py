"""The recommended policy: its formulas against brute force, its budget, when it stops, and what it wins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from naive_duel import NaiveDuel
from naive_learning import naive_fit
from riskroute import (
    Actions,
    ActionSet,
    Allocations,
    Belief,
    Environment,
    InputError,
    Problem,
    Setting,
    random_routing_problem,
    simulate,
)
from riskroute.learning.actions import as_action
from riskroute.learning.design.rounding import round_even_counts
from riskroute.learning.policies.adaptive_duel import AdaptiveDuel
from riskroute.policies import Adaptive
from riskroute.routing import routing_actions

Vector = NDArray[np.float64]


def some_belief(seed: int, dim: int, firmness: float = 30.0) -> Belief:
    """A belief with random centres, about as firm as ``firmness`` rewards per direction."""
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((2, dim, 2 * dim))
    precisions = firmness * np.einsum("kij,klj->kil", roots, roots) / (2 * dim)
    mean, var = 0.4 * rng.standard_normal((2, dim))
    return Belief(mean, precisions[0], var, precisions[1] / 2, 1.0, firmness * dim)


def some_policy(horizon: int = 10_000, dim: int = 4, **parameters: Any) -> Adaptive:
    features = np.random.default_rng(12).standard_normal((40, dim))
    return Adaptive(**parameters).start(Setting(actions=Actions.scaled(features), horizon=horizon), seed=3)


def duel(seed: int, loss: float = 0.02, firmness: float = 30.0, count: int = 12, **parameters: Any) -> NaiveDuel:
    """A random duel; the leader comes first."""
    policy, belief = some_policy(**parameters), some_belief(seed, 4, firmness)
    order = np.argsort(policy.setting.actions.listed().scores(belief.score(2.0)), kind="stable")
    return NaiveDuel(policy, belief, policy.setting.actions.features(order[:count]), loss)


def squared_deviations(fight: NaiveDuel) -> Vector:
    """Variance of every difference, ``1 + 2 log(N) / n`` times, if ``n`` rewards of the rival make it so well known."""
    plain = np.array([apart @ fight.covariance @ apart for apart in fight.apart[1:]])
    return plain * (1 + 2 * math.log(10_000) / (fight.noise[1:] / plain))  # 10,000 rounds lie ahead in these duels


def expected_losses(fight: NaiveDuel, squared: Vector | None = None) -> Vector:
    """``s psi(l / s)`` of every rival, ``psi(z) = phi(z) - z Phi(-z)``."""
    losses = []
    for behind, square in zip(fight.behind[1:], squared_deviations(fight) if squared is None else squared, strict=True):
        s = math.sqrt(square)
        losses.append(s * (norm.pdf(behind / s) - behind / s * norm.cdf(-behind / s)))
    return np.array(losses)


def duel_of_arms(seed: int, loss: float, patience: float) -> NaiveDuel:
    """Eight separate actions, each known about as well as from 5 to 2,000 rewards."""
    rng = np.random.default_rng(seed)
    firmness = np.diag(np.exp(rng.uniform(math.log(5), math.log(2000), 8)))
    belief = Belief(rng.uniform(0, 0.2, 8), firmness, rng.uniform(-0.1, 0.1, 8), firmness / 2, 1.0, 4000.0)
    policy = Adaptive(patience=patience).start(Setting(actions=Actions(np.eye(8)), horizon=10_000))
    return NaiveDuel(policy, belief, np.eye(8)[np.argsort(belief.score(2.0))], loss)


CASES = [(seed, loss, patience) for seed in range(12) for loss in (1e-4, 0.02, 0.06, 0.3) for patience in (1e-4, 0.1)]


def brute_force(fight: NaiveDuel) -> tuple[float, int, float]:
    """Smallest ``(loss + part * cost)^2 / worth`` over all rivals that pay and a fine grid of parts."""
    worth, average = fight.worth()
    best = (fight.loss**2 / worth[0], 0, 0.0)
    for rival in range(1, len(worth)):
        if fight.rounds * average[rival] > fight.costs[rival] and worth[rival] > worth[0]:
            for part in np.linspace(0, 1, 2001)[1:]:
                mixed = (1 - part) * worth[0] + part * worth[rival]
                best = min(best, ((fight.loss + part * fight.costs[rival]) ** 2 / mixed, rival, float(part)))
    return best


@pytest.mark.parametrize(("seed", "loss", "patience"), CASES)
def test_mixture_is_the_best_of_all_rivals_and_parts(seed: int, loss: float, patience: float) -> None:
    fight = duel_of_arms(seed, loss, patience)
    ratio, expected_rival, expected_part = brute_force(fight)
    rival, part = fight.mixture()
    worth, _ = fight.worth()
    found = (fight.loss + part * fight.costs[rival]) ** 2 / ((1 - part) * worth[0] + part * worth[rival])
    assert found <= ratio * (1 + 1e-9)
    assert part == pytest.approx(expected_part, abs=1e-3)
    if part > 0:
        assert rival == expected_rival


def test_mixtures_of_every_kind_were_compared() -> None:
    parts = [duel_of_arms(*case).mixture()[1] for case in CASES]
    assert min(parts.count(0.0), parts.count(1.0), sum(0 < part < 1 for part in parts)) >= 5


def test_costs_are_gaps_and_squared_differences_of_means() -> None:
    policy, belief = some_policy(), some_belief(1, 4)
    fight = duel(1)
    rows = policy.setting.actions.listed().matrix
    order = np.argsort(rows @ (belief.var_coef - 2 * belief.mean_coef), kind="stable")[:12]
    for k, action in enumerate(order):
        apart = rows[action] - rows[order[0]]
        gap = apart @ (belief.var_coef - 2 * belief.mean_coef)
        assert fight.costs[k] == pytest.approx(gap + (apart @ belief.mean_coef) ** 2)
        variance = max(rows[action] @ belief.var_coef + 1.0, 0.1)
        assert fight.noise[k] == pytest.approx(2 * variance**2 + 4 * variance)
    assert fight.loss == pytest.approx(max(0.02, expected_losses(fight).max()))


@pytest.mark.parametrize("seed", range(4))
def test_worth_is_the_derivative_of_the_expected_loss(seed: int) -> None:
    """By ``s^2``, numerically, times what one round takes off the variance of the difference.

    The loss itself falls a little faster, since caution falls as well.
    """
    fight = duel(seed, firmness=30_000.0)
    worth, average = fight.worth()
    covariance, before, squared = fight.covariance, expected_losses(fight), squared_deviations(fight)
    overlap = fight.loss / before.sum()  # losses to single rivals are scaled to add up to the loss
    for action in range(len(worth)):
        fight.imagine(action, 1)
        drops = [a @ (covariance - fight.covariance) @ a for a in fight.apart[1:]]
        fallen = before.sum() - expected_losses(fight).sum()
        fight.covariance = covariance
        step = 1e-6 * squared
        slopes = (expected_losses(fight, squared + step) - expected_losses(fight, squared - step)) / (2 * step)
        assert worth[action] == pytest.approx(overlap * np.dot(drops, slopes), rel=1e-4, abs=1e-14)
        assert average[action] == pytest.approx(overlap * np.dot(drops, before / squared), rel=1e-6, abs=1e-14)
        assert 0.95 * worth[action] - 1e-12 <= overlap * fallen <= 1.6 * worth[action] + 1e-12


@pytest.mark.parametrize("rounds", [0, 1, 7, 10**9])
def test_imagined_rounds_are_a_gaussian_update(rounds: int) -> None:
    fight = duel(2)
    for action in (0, 3, 3, 11):
        a, precision = fight.features[action], np.linalg.inv(fight.covariance)
        expected = np.linalg.inv(precision + rounds / fight.noise[action] * np.outer(a, a))
        fight.imagine(action, rounds)
        np.testing.assert_allclose(fight.covariance, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("kind", [NaiveDuel, AdaptiveDuel])
@pytest.mark.parametrize("seed", range(4))
def test_a_portion_explores_no_longer_than_it_teaches(kind: type[AdaptiveDuel], seed: int) -> None:
    """Until the variance of the rival has fallen to a twentieth: some 20 rounds of 1,000 if it was seen once."""
    rng = np.random.default_rng(seed)
    firmness = np.diag([2000.0, *rng.uniform(0.8, 1.2, 5)])
    mean, var = np.array([0.5, *rng.uniform(0, 0.4, 5)]), rng.uniform(-0.1, 0.1, 6)
    belief = Belief(mean, firmness, var, firmness / 2, 1.0, 4000.0)
    policy = Adaptive().start(Setting(actions=Actions(np.eye(6)), horizon=10**6))
    order = np.argsort(belief.score(2.0), kind="stable")
    counts = kind(policy, belief, np.eye(6)[order], 5.0).fill(rng, np.array([1000]))
    (rival,) = np.flatnonzero(counts[1:]) + 1
    variance = 1 + belief.var_coef[order[rival]]
    known = belief.score_covariance(2.0)[order[rival], order[rival]]
    assert counts[rival] == math.ceil(20 * (2 * variance**2 + 4 * variance) / known) < 40
    assert counts.sum() == 1000


def test_portions_are_nearly_equal() -> None:
    for rounds, count in ((100, 8), (3, 8), (8, 8), (1, 1)):
        portions = round_even_counts(rounds, count).tolist()
        assert sum(portions) == rounds
        assert len(portions) == min(rounds, count)
        assert max(portions) - min(portions) <= 1


def behind_of_plan(policy: Adaptive) -> Vector:
    """How far behind the leader each action of the plan is believed to be."""
    assert policy.belief is not None
    score = policy.belief.score(policy.setting.risk_tolerance)
    actions = policy.setting.actions
    best = float(actions.action_features(actions.best(score)) @ score)
    return np.asarray(actions.features(policy.plan().actions) @ score - best)


@pytest.mark.parametrize("budget", [0.0, 0.05, 0.3])
def test_nothing_beyond_the_budget_is_played(gaussian_problem: Problem, budget: float) -> None:
    largest = {}
    for limit in (budget, None):
        environment = Environment(gaussian_problem)
        policy, run = (
            Adaptive(budget=limit).start(environment.setting(3000), 1),
            environment.run(np.random.default_rng(1)),
        )
        behind = []
        while policy.remaining:
            if policy.belief is not None:
                behind.append(behind_of_plan(policy).max())
            policy.learn(run.tally(policy.plan()))
        largest[limit] = max(behind)
    assert largest[budget] <= budget + 1e-12
    assert largest[None] > 0.3


def test_a_budget_holds_from_the_first_round_on_with_a_prior() -> None:
    for seed in range(5):
        policy = some_policy(prior=some_belief(seed, 4), budget=0.1)
        assert behind_of_plan(policy).max() <= 0.1


def test_without_patience_it_commits(gaussian_problem: Problem) -> None:
    environment = Environment(gaussian_problem)
    policy = Adaptive(patience=1e-12).start(environment.setting(3000), seed=1)
    run = environment.run(np.random.default_rng(1))
    while policy.remaining:
        if policy.belief is not None:
            assert behind_of_plan(policy).tolist() == [0.0]
        policy.learn(run.tally(policy.plan()))


def explored(remaining: int, seed: int) -> int:
    """Rounds of a plan that are not the leader's, with so many rounds to go."""
    policy = some_policy(horizon=100_000, prior=some_belief(seed, 4, firmness=100.0))
    policy.played = 100_000 - remaining
    assert policy.belief is not None
    plan = policy.explore(policy.belief, 40)
    leader = policy.recommend()
    return sum(int(n) for a, n in zip(plan.actions, plan.counts, strict=True) if as_action(a) != leader)


def test_stops_exploring_near_the_horizon() -> None:
    seeds = range(40)
    assert sum(explored(100_000, seed) for seed in seeds) > 20
    assert sum(explored(1, seed) for seed in seeds) == 0


def test_plans_are_longer_while_nothing_is_worth_exploring() -> None:
    lengths = {}
    for patience in (1e-12, 1e12):
        policy = some_policy(prior=some_belief(1, 4, firmness=100.0), patience=patience, growth=0.1)
        first = policy.plan()
        assert policy.calm == (patience < 1)
        assert first.rounds == 40  # a tenth of 400 rewards, whatever comes of it
        policy.fresh = 0.0
        lengths[patience] = policy.propose().rounds
    assert lengths == {1e-12: 160, 1e12: 40}


def test_without_a_horizon_as_many_rounds_are_ahead_as_were_played() -> None:
    policy = Adaptive().start(Setting(actions=Actions(np.eye(3))))
    policy.played = 123
    assert policy.ahead() == 123
    limited = Adaptive().start(Setting(actions=Actions(np.eye(3)), horizon=1000))
    limited.played = 123
    assert limited.ahead() == 877


@pytest.mark.parametrize(("dim", "due"), [(4, 50), (12, 50), (24, 25), (48, 12)])
def test_with_many_coefficients_the_belief_is_refreshed_more_often(dim: int, due: int) -> None:
    policy = Adaptive().start(Setting(actions=Actions(np.eye(dim)), horizon=5000))
    policy.belief = Belief(np.zeros(dim), np.eye(dim), np.zeros(dim), np.eye(dim), 1.0, 1000.0)
    assert policy.due == due


def test_coefficients_are_assumed_to_be_of_the_size_of_the_noise() -> None:
    rows = 5 * np.eye(3)
    believed = Adaptive(assumed_size=2).start(Setting(actions=Actions(rows), base_variance=9.0)).base
    assert believed is not None
    np.testing.assert_array_equal(believed.mean_coef, np.zeros(3))
    np.testing.assert_array_equal(believed.var_coef, np.zeros(3))
    np.testing.assert_allclose(believed.mean_covariance, np.eye(3) * (2 * 3 / 5) ** 2)  # 3 is the noise's deviation
    np.testing.assert_allclose(believed.var_covariance, np.eye(3) * 2 * (2 * 9 / 5) ** 2)
    assert (believed.variance, believed.rounds) == (9.0, 0.0)


@pytest.mark.parametrize(
    ("policy", "setting"),
    [
        (Adaptive(assumed_size=0), Setting(actions=Actions(np.eye(2)))),
        (Adaptive(), Setting(actions=Actions(np.eye(2)), base_variance=0.0)),
        (Adaptive(), Setting(actions=Actions(np.zeros((2, 2))))),
    ],
)
def test_nothing_is_assumed_without_a_size_of_noise_or_features(policy: Adaptive, setting: Setting) -> None:
    assert policy.start(setting).base is None


def test_an_assumption_that_rewards_contradict_counts_for_nothing() -> None:
    means, variances = np.array([1e4, 2e4, 3e4]), np.array([0.1, 0.2, 0.3])
    problem = Problem(actions=Actions(np.eye(3)), mean_coef=means, var_coef=variances, check_norms=False)
    environment, policy = Environment(problem), Adaptive()
    policy.start(environment.setting(100), seed=1)
    policy.learn(environment.run(np.random.default_rng(1)).tally(policy.plan()))
    assert policy.belief is not None
    np.testing.assert_allclose(policy.belief.mean_coef, problem.mean_coef, atol=5)
    assert policy.base is not None
    assert policy.in_doubt(policy.base)
    assert not policy.in_doubt(policy.belief)


def test_rivals_are_the_best_actions_of_draws_with_the_leader_first() -> None:
    policy, belief = some_policy(draws=4000), some_belief(5, 4)
    rivals, features, loss = policy._rivals(belief)
    np.testing.assert_array_equal(features, policy.setting.actions.features(rivals))
    assert rivals[0] == policy.setting.actions.best(belief.score(2.0))
    assert len(set(rivals.tolist())) == len(rivals)
    rows = policy.setting.actions.listed().matrix
    rng = np.random.default_rng(0)
    drawn = rng.multivariate_normal(belief.score(2.0), belief.score_covariance(2.0), 20_000) @ rows.T
    spared = drawn[:, rivals[0]] - drawn.min(axis=1)
    assert loss == pytest.approx(spared.mean(), abs=5 * spared.std() * math.sqrt(1 / 4000 + 1 / 20_000))


@pytest.mark.usefixtures("untraced")
def test_below_thompson_and_rise_on_a_small_problem() -> None:
    """Averages of 4 runs are about 450, 1,200 and 2,350, give or take 80, 60 and 5."""
    problem = random_routing_problem(shares=6, slots=5, seed=1)
    result = simulate(problem, ["adaptive", "thompson", "rise"], horizon=20_000, runs=4, seed=5, checkpoints=4)
    adaptive, thompson, rise = (one.steady_regret[:, -1].mean() for one in result.policies.values())
    assert adaptive < 0.7 * thompson
    assert adaptive < 0.7 * rise


SETS: list[ActionSet] = [
    Actions(np.random.default_rng(1).standard_normal((50, 6))),
    Actions(np.random.default_rng(1).standard_normal((50, 6))).top(np.arange(6.0), 20),
    Allocations(shares=12, slots=3),
    Allocations(shares=12, slots=3).listed(),
    Allocations(shares=20, slots=3, lot=2, caps=14, minimums=[0, 2, 4]),
    routing_actions(5, 3),
]


@pytest.mark.parametrize("actions", SETS, ids=repr)
def test_best_each_is_the_best_of_every_row(actions: ActionSet) -> None:
    coefs = np.random.default_rng(2).standard_normal((40, 6))
    expected = [actions.best(coef) for coef in coefs]
    assert [as_action(row) for row in actions.best_each(coefs)] == expected


def test_of_equally_good_actions_the_first_is_the_best_of_each() -> None:
    matrix = np.random.default_rng(3).standard_normal((97, 7))
    doubled = Actions(np.vstack([matrix, matrix]))  # each action twice, where a matrix product may round differently
    coefs = np.vstack([np.random.default_rng(4).standard_normal((300, 7)), np.zeros(7)])
    assert doubled.best_each(coefs).tolist() == [doubled.best(coef) for coef in coefs]


def test_many_scores_are_ranked_in_blocks() -> None:
    actions = Actions(np.random.default_rng(1).standard_normal((40_000, 3)))
    coefs = np.random.default_rng(2).standard_normal((60, 3))  # more scores than are held in memory at a time
    assert actions.best_each(coefs).tolist() == [actions.best(coef) for coef in coefs]


PRIOR = naive_fit([], 1.0, np.eye(3))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Adaptive(patience=0.0), "patience must be a number above 0, was 0.0"),
        (Adaptive(draws=0), "draws must be a positive integer, was 0"),
        (Adaptive(portions=1.5), "portions must be a positive integer, was 1.5"),  # type: ignore[arg-type]
        (Adaptive(budget=-0.1), "budget must be a number of at least 0, was -0.1"),
        (Adaptive(growth=2.0), "growth must be a number of at most 1 and above 0, was 2.0"),
        (Adaptive(start_rounds=-1), "start_rounds must be a positive integer, was -1"),
        (Adaptive(prior=PRIOR), "prior must have dimension 2, had 3"),
    ],
)
def test_bad_parameters_are_named(policy: Adaptive, message: str) -> None:
    with pytest.raises(InputError) as caught:
        policy.start(Setting(actions=Actions(np.eye(2))))
    assert str(caught.value) == message
