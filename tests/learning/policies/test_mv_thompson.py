"""MV-TS: its posterior, its batches, and a plain version that decides alike."""

from __future__ import annotations

import math

import numpy as np
import pytest

from riskroute import Action, Actions, Environment, InputError, Problem, Setting, Tallies, Tally, check_policy, simulate
from riskroute.learning.policies.mv_thompson import MvThompson


def naive_draw(history: dict[int, list[float]], rho: float, rng: np.random.Generator) -> int:
    """Best arm of one draw, arm by arm, from all single rewards: first the precisions, then the means."""
    variance, index = {}, {}
    for arm, x in sorted(history.items()):
        alpha, beta = 0.5 + len(x) / 2, 0.5 + len(x) * np.var(x) / 2
        variance[arm] = 1 / (rng.standard_gamma(alpha) / beta)
    for arm, x in sorted(history.items()):
        index[arm] = variance[arm] - rho * (np.mean(x) + math.sqrt(1 / len(x)) * rng.standard_normal())
    return min(index, key=lambda arm: (index[arm], arm))


@pytest.mark.parametrize(("growth", "draws"), [(1e-9, 1), (0.02, 16), (0.3, 5), (1.0, 1)])
def test_plays_the_best_arms_of_posterior_draws(small_problem: Problem, growth: float, draws: int) -> None:
    horizon, size = 500, small_problem.actions.size
    environment = Environment(small_problem)
    policy = MvThompson(growth=growth, draws=draws).start(environment.setting(horizon), seed=9)
    rng, run = np.random.default_rng(9), environment.run(np.random.default_rng(4))
    history: dict[int, list[float]] = {}
    queue: list[int] = list(range(size))
    for t in range(horizon):
        if not queue:
            rounds = min(math.ceil(growth * t), horizon - t)
            number = min(draws, rounds)
            best = [naive_draw(history, 2.0, rng) for _ in range(number)]
            lengths = [len(part) for part in np.array_split(np.zeros(rounds), number)]
            queue = [arm for arm, length in zip(best, lengths, strict=True) for _ in range(length)]
        action = policy.select()
        assert action == queue.pop(0)
        reward = run.reward(action)
        history.setdefault(action, []).append(reward)
        policy.update(action, reward)
    assert policy.recommend() == max(history, key=lambda arm: (len(history[arm]), -arm))


def started(counts: list[int], means: list[float], spreads: list[float]) -> MvThompson:
    policy = MvThompson().start(Setting(actions=Actions(np.eye(len(counts))), risk_tolerance=0.5), seed=1)
    policy.counts = np.array(counts)
    policy.means = np.array(means)
    policy.spreads = np.array(spreads)
    return policy


def test_draws_have_the_moments_of_the_posterior() -> None:
    """E[1 / precision] = beta / (alpha - 1), its variance beta^2 / ((alpha - 1)^2 (alpha - 2)); mean Normal(m, 1/n).

    20,000 draws; the averages are within five standard errors, the variances within 10 %.
    """
    counts, means, spreads, rho = np.array([40, 200]), np.array([0.3, -1.0]), np.array([20.0, 500.0]), 0.5
    policy = started(counts.tolist(), means.tolist(), spreads.tolist())
    draw = policy._posterior()
    drawn = np.array([draw() for _ in range(20_000)])
    alpha, beta = 0.5 + counts / 2, 0.5 + spreads / 2
    expected = beta / (alpha - 1) - rho * means
    variance = beta**2 / ((alpha - 1) ** 2 * (alpha - 2)) + rho**2 / counts
    assert (np.abs(drawn.mean(axis=0) - expected) <= 5 * np.sqrt(variance / len(drawn))).all()
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.1)


def test_batches_grow_with_the_rounds_and_are_split_evenly() -> None:
    policy = MvThompson(growth=0.1, draws=4).start(Setting(actions=Actions(np.eye(3))), seed=2)
    sizes = []
    for _ in range(60):
        plan = policy.plan()
        sizes.append(plan.rounds)
        assert plan.counts.max() - plan.counts.min() <= 1
        assert len(plan.counts) == min(plan.rounds, 4 if policy.played else 3)
        policy.learn(Tallies.of(plan.actions, [Tally(int(n), 0.0, float(n)) for n in plan.counts]))
    played = np.cumsum([0, *sizes])[1:-1]
    assert sizes[0] == 3
    assert sizes[1:] == [math.ceil(0.1 * t) for t in played]


def test_a_hundred_thousand_rounds_take_a_few_hundred_plans() -> None:
    policy = MvThompson().start(Setting(actions=Actions(np.eye(20)), horizon=100_000), seed=2)
    plans = 0
    while policy.remaining:
        plan = policy.plan()
        policy.learn(Tallies.of(plan.actions, [Tally(int(n), 0.0, float(n)) for n in plan.counts]))
        plans += 1
    assert plans < 100 + math.log(100_000 / 50) / math.log(1.02)


@pytest.mark.usefixtures("untraced")
def test_other_parameters_pass_the_shared_checks() -> None:
    check_policy(MvThompson(growth=0.5, draws=3))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (MvThompson(growth=-1), "growth must be a number above 0, was -1"),
        (MvThompson(growth=math.inf), "growth must be a number above 0, was inf"),
        (MvThompson(draws=0), "draws must be a positive integer, was 0"),
        (MvThompson(draws=2.5), "draws must be a positive integer, was 2.5"),  # type: ignore[arg-type]
    ],
)
def test_bad_parameters_are_named(policy: MvThompson, message: str) -> None:
    with pytest.raises(InputError) as error:
        policy.start(Setting(actions=Actions(np.eye(2))))
    assert message in str(error.value)


def final(problem: Problem, policies: dict[str, MvThompson | str], seed: int) -> dict[str, float]:
    result = simulate(problem, policies, horizon=20_000, runs=4, seed=seed)
    return {label: one.mean_regret()[-1] for label, one in result.policies.items()}


@pytest.mark.usefixtures("untraced")
def test_beats_uniform_play_and_risk_ucb_on_few_arms(small_problem: Problem) -> None:
    """Ten arms, 20,000 rounds: less than a quarter of uniform play's regret, and less than the index policy's.

    Single runs end between 100 and 1,000, where uniform play ends near 12,000 and the index policy above 3,900.
    """
    ended = final(small_problem, {"this": MvThompson(), "uniform": "uniform", "risk-ucb": "risk-ucb"}, seed=3)
    assert ended["this"] < ended["uniform"] / 4
    assert ended["this"] < ended["risk-ucb"]


@pytest.mark.usefixtures("untraced")
def test_prefers_the_steady_arm_when_risk_is_not_tolerated() -> None:
    """Equal means, variances 1.5 and 0.5: with a tolerance of 0.1 every run ends on the second arm."""
    problem = Problem(
        actions=Actions(np.eye(2)), mean_coef=np.zeros(2), var_coef=np.array([0.5, -0.5]), risk_tolerance=0.1
    )
    ended: list[Action] = simulate(problem, {"this": MvThompson()}, 5000, runs=5, seed=1).policies["this"].recommended
    assert ended == [1] * 5
