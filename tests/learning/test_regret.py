"""Mean-variance of paths, the temporal identity and decomposition, and curves by blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from naive_learning import comparator, path_mean_variance, pseudo_regret
from riskroute import Actions, InputError, Problem, simulate
from riskroute.environments import Autocorrelated, PiecewiseStationary
from riskroute.learning.bounds import temporal_remainder
from riskroute.learning.regret import RegretBlocks, _harmonic, block_regret_curves, regret_checkpoints
from riskroute.policies import Greedy, Rise, RiskUcb
from riskroute.simulation.checks import _easy_problem

REWARDS = arrays(np.float64, st.integers(1, 40), elements=st.floats(-10, 10, width=32))


@given(REWARDS, st.floats(0, 5))
def test_path_mean_variance_is_the_definition(rewards: np.ndarray, rho: float) -> None:
    """Eq. (mv_def): squared deviations from the path's own mean, minus rho times the sum."""
    expected = np.sum((rewards - rewards.mean()) ** 2) - rho * rewards.sum()
    assert path_mean_variance(rewards, rho) == pytest.approx(expected, abs=1e-8)


@given(REWARDS, st.floats(0, 5))
def test_temporal_identity(rewards: np.ndarray, rho: float) -> None:
    """Every increment of the path's mean-variance is (t x - sum)^2 / (t (t + 1)) - rho x, exactly (Lemma 1)."""
    xi = np.array([path_mean_variance(rewards[: t + 1], rho) for t in range(len(rewards))])
    t = np.arange(1, len(rewards))
    growth = (t * rewards[1:] - np.cumsum(rewards)[:-1]) ** 2 / (t * (t + 1))
    np.testing.assert_allclose(np.cumsum(np.concatenate([[0.0], growth]) - rho * rewards), xi, atol=1e-8)


def test_large_offsets_do_not_lose_the_variance() -> None:
    """E[x^2] - mean^2 would be off by hundreds here."""
    rewards = 1e9 + np.array([0.0, 1.0, 2.0, 3.0])
    assert path_mean_variance(rewards, 0.0) == pytest.approx(5.0)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=12),
    st.integers(0, 2**32 - 1),
)
def test_block_curves_equal_the_round_by_round_definitions(blocks: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    true_mean, variance, gap = rng.normal(size=4), rng.random(size=4), np.abs(rng.normal(size=4))
    counts = np.array([n for n, _ in blocks])
    arms = np.array([arm for _, arm in blocks])
    by_round = np.repeat(arms, counts)
    rewards = rng.normal(size=counts.sum())
    parts = np.split(rewards, np.cumsum(counts)[:-1])
    means = np.array([part.mean() for part in parts])
    spreads = np.array([((part - part.mean()) ** 2).sum() for part in parts])
    ends = np.cumsum(counts)
    anchors = rng.normal(size=len(ends))
    blocks_played = RegretBlocks(counts, means, spreads, true_mean[arms], variance[arms], gap[arms])
    xi, pseudo, luck = block_regret_curves(blocks_played, ends, anchors, 1.5)
    np.testing.assert_allclose(xi, [path_mean_variance(rewards[:t], 1.5) for t in ends], atol=1e-9)
    np.testing.assert_allclose(pseudo, pseudo_regret(true_mean[by_round], gap[by_round])[ends - 1], atol=1e-9)
    moments = true_mean[by_round], variance[by_round]
    expected = [naive_luck(rewards[:t], *moments, c, 1.5) for t, c in zip(ends, anchors, strict=True)]
    np.testing.assert_allclose(luck, expected, atol=1e-9)


def naive_luck(rewards: np.ndarray, means: np.ndarray, variances: np.ndarray, anchor: float, rho: float) -> float:
    total = 0.0
    for x, mu, v in zip(rewards, means, variances, strict=False):
        total += (x - mu) ** 2 - v - rho * (x - mu) + 2 * (mu - anchor) * (x - mu)
    return total


def test_luck_by_hand() -> None:
    """Block one: rewards 1 and 3 of an action with mean 1, variance 2. Block two: reward 0, mean 2, variance 1.

    Around 0.5 with risk tolerance 2 the three rounds add 0 - 2, then 4 - 2 - 4 + 2, then 4 - 1 + 4 - 6.
    """
    rows = np.array([2.0, 0.0]), np.array([2.0, 0.0]), np.array([1.0, 2.0]), np.array([2.0, 1.0]), np.zeros(2)
    luck = block_regret_curves(RegretBlocks(np.array([2, 1]), *rows), np.array([2, 3]), np.full(2, 0.5), 2.0)[2]
    assert luck.tolist() == [-2.0, -1.0]


ADAPTIVE = {"greedy": Greedy(growth=1.0), "rise": Rise(), "risk-ucb": RiskUcb()}


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(("method", "runs"), [("auto", 150), ("rounds", 60)])
@pytest.mark.parametrize("label", ADAPTIVE)
def test_luck_has_expectation_zero_whatever_the_policy_does(label: str, method: str, runs: int) -> None:
    """Adaptive policies, in both forms of play, on changing problems: within five standard errors of zero."""
    problem = _easy_problem()
    later = Problem(actions=problem.actions, mean_coef=-problem.mean_coef, var_coef=problem.var_coef)
    environment = PiecewiseStationary([problem, later], [60])
    result = simulate(environment, {label: ADAPTIVE[label]}, 100, runs, seed=2, checkpoints=6, method=method)
    luck = result.policies[label].luck
    error = luck.std(axis=0) / np.sqrt(runs)
    assert (error > 0).all()
    assert (np.abs(luck.mean(axis=0)) <= 5 * error).all()


@pytest.mark.parametrize(("policy", "factor"), [("oracle", 1000), ("rise", 50), ("uniform", 2)])
def test_steady_regret_has_the_same_mean_and_far_less_variance(policy: str, factor: float) -> None:
    """Where the best action is always found; uniform play keeps the variance of its own draws."""
    one = simulate(_easy_problem(), [policy], horizon=5000, runs=100, seed=1, checkpoints=5).policies[policy]
    regret, steady = one.regret[:, -1], one.steady_regret[:, -1]
    assert regret.var() > factor * steady.var()
    assert abs(regret.mean() - steady.mean()) <= 5 * np.std(regret - steady) / np.sqrt(one.runs)


def test_steady_regret_of_the_oracle_is_what_its_own_mean_takes_away() -> None:
    """It is v - t (mean - mu)^2: at most the variance of a round, and zero on average."""
    problem = _easy_problem()
    variance = problem.variances(np.array([problem.best]))[0]
    one = simulate(problem, ["oracle"], horizon=300, runs=400, seed=1).policies["oracle"]
    assert (one.steady_regret <= variance + 1e-9).all()
    last = one.steady_regret[:, -1]
    assert abs(last.mean()) <= 5 * last.std() / np.sqrt(400)


def test_there_is_no_luck_in_noise_that_carries_over(small_problem: Problem) -> None:
    one = simulate(Autocorrelated(small_problem, 0.5), ["rise"], horizon=100, runs=3).policies["rise"]
    assert not one.luck.any()
    np.testing.assert_array_equal(one.steady_regret, one.regret)


def test_there_is_no_luck_without_noise() -> None:
    actions = Actions.scaled(np.random.default_rng(2).standard_normal((9, 3)))
    problem = Problem(actions=actions, mean_coef=np.array([0.3, -0.5, 0.6]), var_coef=np.zeros(3), base_variance=0.0)
    for method in ("blocks", "rounds"):
        one = simulate(problem, ["greedy"], horizon=200, runs=2, method=method).policies["greedy"]
        np.testing.assert_allclose(one.luck, 0.0, atol=1e-9)


@pytest.mark.parametrize("n", [0, 1, 2, 19, 20, 21, 1000, 100_000])
def test_harmonic_numbers(n: int) -> None:
    assert _harmonic(float(n)) == pytest.approx(np.sum(1 / np.arange(1, n + 1)), abs=1e-13)


def test_expected_comparator_is_that_of_repeated_plays() -> None:
    """E xi(t) = (t - 1) variance - rho t mean: 20,000 simulated paths, within five standard errors."""
    paths = np.random.default_rng(0).normal(0.4, 1.3, size=(20_000, 12))
    xi = ((paths - paths.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) - 2.0 * paths.sum(axis=1)
    expected = comparator(np.array([12]), mean=0.4, variance=1.69, risk_tolerance=2.0)[0]
    assert abs(xi.mean() - expected) < 5 * xi.std() / np.sqrt(20_000)


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("policy", ["rise", "rise++", "risk-ucb", "uniform", "greedy"])
def test_temporal_decomposition_bounds_the_regret(gaussian_problem: Problem, policy: str) -> None:
    """Proposition 2 is an upper bound: mean regret <= mean pseudo-regret + remainder, here with all constants.

    25 runs; five standard errors are allowed on top.
    """
    everything = gaussian_problem.actions.listed().handles
    means, variances = gaussian_problem.means(everything), gaussian_problem.variances(everything)
    one = simulate(gaussian_problem, [policy], horizon=2000, runs=25, seed=8, checkpoints=20).policies[policy]
    error = one.std_regret() / np.sqrt(one.runs)
    for k, t in enumerate(one.checkpoints):
        remainder = temporal_remainder(int(t), np.sqrt(variances.max()), np.ptp(means), np.ptp(variances))
        assert one.mean_regret()[k] <= one.pseudo_regret[:, k].mean() + remainder + 5 * error[k]


def test_pseudo_regret_is_close_to_the_regret_of_a_policy_without_feedback(gaussian_problem: Problem) -> None:
    """Uniform play does not react to noise, so only the Cauchy-Schwarz slack and log terms separate the two.

    By the exact expectation, the switching price of independent draws is t/(t+1) of the variance of the means per round
    where the bound pays twice that.
    """
    handles = gaussian_problem.actions.listed().handles
    between = gaussian_problem.means(handles).var()
    one = simulate(gaussian_problem, ["uniform"], horizon=5000, runs=200, seed=8).policies["uniform"]
    expected = 5000 * (gaussian_problem.gaps().mean() + between)
    assert one.mean_regret()[-1] == pytest.approx(expected, rel=0.02)
    assert one.pseudo_regret[:, -1].mean() == pytest.approx(expected + 5000 * between, rel=0.02)


@given(st.integers(1, 10**7), st.integers(1, 200), st.sampled_from(["log", "linear", "both"]))
def test_checkpoints_ascend_to_the_horizon(horizon: int, count: int, spacing: str) -> None:
    rounds = regret_checkpoints(horizon, count, spacing)
    assert rounds[-1] == horizon
    assert rounds[0] >= 1
    assert (np.diff(rounds) > 0).all()
    assert len(rounds) <= count + 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regret_checkpoints(0), "horizon must be a positive integer, was 0"),
        (lambda: regret_checkpoints(10, -1), "checkpoints must be a positive integer, was -1"),
        (lambda: regret_checkpoints(10, 5, "cubic"), "spacing must be one of log, linear, both, was 'cubic'"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)
