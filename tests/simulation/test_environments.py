"""Environments: tallies are exact in distribution, and the comparators are what they claim."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from riskroute import Actions, Environment, InputError, Plan, Problem, check_environment, random_problem
from riskroute.environments import Autocorrelated, PiecewiseStationary, random_changes

ACTIONS = Actions.scaled(np.random.default_rng(0).standard_normal((8, 3)))
PROBLEMS = [random_problem(ACTIONS, seed) for seed in range(3)]

CASES = {
    "independent": Environment(PROBLEMS[0]),
    "autocorrelated 0.6": Autocorrelated(PROBLEMS[0], 0.6),
    "autocorrelated -0.6": Autocorrelated(PROBLEMS[0], -0.6),
    "autocorrelated, variance form": Autocorrelated(PROBLEMS[0], 0.2, scale="variance"),
    "piecewise, change within": PiecewiseStationary(PROBLEMS, [4, 6]),
    "piecewise, mean-variance": PiecewiseStationary(PROBLEMS, [40, 60], comparator="mean-variance"),
}


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("case", CASES)
def test_passes_the_shared_checks(case: str) -> None:
    check_environment(CASES[case], runs=700)


def test_tallies_of_gaussian_blocks_have_the_exact_distributions() -> None:
    """Mean ~ N(mu, sigma^2/n), spread ~ sigma^2 chi^2(n-1), independent: Kolmogorov-Smirnov on 4,000 blocks."""
    problem, n, action = PROBLEMS[0], 7, 3
    mean, variance = problem.means(np.array([action]))[0], problem.variances(np.array([action]))[0]
    run = Environment(problem).run(np.random.default_rng(5))
    tallies = run.tally(Plan(np.full(4000, action), np.full(4000, n)))
    assert stats.kstest((tallies.means - mean) / np.sqrt(variance / n), "norm").pvalue > 1e-3
    assert stats.kstest(tallies.spreads / variance, stats.chi2(n - 1).cdf).pvalue > 1e-3
    assert abs(stats.spearmanr(tallies.means, tallies.spreads).statistic) < 5 / np.sqrt(4000)


def test_single_plays_have_no_spread() -> None:
    run = Environment(PROBLEMS[0]).run(np.random.default_rng(5))
    assert run.tally(Plan(np.arange(8), np.ones(8, dtype=np.int64))).spreads.tolist() == [0.0] * 8


@pytest.mark.parametrize("correlation", [-0.6, -0.2, 0.0, 0.2, 0.6])
def test_autocorrelated_noise_has_unit_variance_and_the_stated_correlation(correlation: float) -> None:
    """Lags 1 and 2 of 200,000 draws, within five standard errors (at most sqrt((1 + r^2) / (1 - r^2) / n))."""
    noise = Autocorrelated(PROBLEMS[0], correlation).noise(np.random.default_rng(1))
    drawn = np.concatenate([noise.draw(n) for n in (1, 9, 0, 99_990, 100_000)])
    error = 5 * np.sqrt((1 + correlation**2) / (1 - correlation**2) / len(drawn))
    assert abs(drawn.var() - 1) < 2 * error
    for lag in (1, 2):
        assert abs(np.mean(drawn[lag:] * drawn[:-lag]) - correlation**lag) < 2 * error


def test_autocorrelated_noise_does_not_depend_on_block_lengths() -> None:
    whole, parts = (Autocorrelated(PROBLEMS[0], 0.5).noise(np.random.default_rng(2)) for _ in range(2))
    expected = whole.draw(50)
    np.testing.assert_allclose(np.concatenate([parts.draw(n) for n in (1, 4, 20, 25)]), expected, rtol=1e-12)


def test_autocorrelated_tallies_equal_single_rewards_for_the_same_noise() -> None:
    """Noise carries over from block to block and between the two forms of play."""
    environment = Autocorrelated(PROBLEMS[0], 0.7)
    by_plan, by_round = (environment.run(np.random.default_rng(3)) for _ in range(2))
    plan = Plan(np.array([2, 5, 2]), np.array([4, 3, 6]))
    tallies = by_plan.tally(plan)
    for k, (action, n) in enumerate(zip(plan.actions, plan.counts, strict=True)):
        rewards = np.array([by_round.reward(int(action)) for _ in range(n)])
        assert tallies.means[k] == pytest.approx(rewards.mean())
        assert tallies.spreads[k] == pytest.approx(((rewards - rewards.mean()) ** 2).sum())


def test_variance_form_multiplies_the_noise_by_the_variance_as_printed() -> None:
    everything = np.arange(8)
    printed = Autocorrelated(PROBLEMS[0], 0.0, scale="variance")
    np.testing.assert_allclose(printed.moments(everything)[1], PROBLEMS[0].variances(everything))
    value = PROBLEMS[0].variances(everything) ** 2 - 2.0 * PROBLEMS[0].means(everything)
    assert printed.comparators == (int(np.argmin(value)),)
    np.testing.assert_allclose(printed.gaps(everything), value - value.min())


def test_correlation_zero_is_the_independent_model() -> None:
    rounds = np.array([1, 2, 10, 1000])
    np.testing.assert_allclose(
        Autocorrelated(PROBLEMS[0], 0.0).expected_comparator(rounds),
        Environment(PROBLEMS[0]).expected_comparator(rounds),
    )


def test_piecewise_rewards_follow_their_segment() -> None:
    environment = PiecewiseStationary(PROBLEMS, [3, 5])
    run = environment.run(np.random.default_rng(0))
    _, entry, (counts, _, _, means, variances, gaps) = run.plan_blocks(
        Plan(np.array([1, 4]), np.array([4, 4])), np.array([7])
    )
    assert counts.tolist() == [3, 1, 1, 2, 1]
    assert entry.tolist() == [0, 0, 1, 1, 1]
    played, piece = [1, 1, 4, 4, 4], [0, 1, 1, 2, 2]
    expected = [PROBLEMS[k].means(np.array([a]))[0] for a, k in zip(played, piece, strict=True)]
    np.testing.assert_allclose(means, expected)
    expected = [PROBLEMS[k].variances(np.array([a]))[0] for a, k in zip(played, piece, strict=True)]
    np.testing.assert_allclose(variances, expected)
    np.testing.assert_allclose(
        gaps, [environment.gaps(np.array([a]), k)[0] for a, k in zip(played, piece, strict=True)]
    )


def test_piecewise_comparator_plays_the_best_mean_of_every_segment() -> None:
    environment = PiecewiseStationary(PROBLEMS, [3, 5])
    best = [int(np.argmax(problem.means(np.arange(8)))) for problem in PROBLEMS]
    assert environment.oracle_schedule(100) == ((0, best[0]), (3, best[1]), (5, best[2]))
    assert environment.oracle_schedule(4) == ((0, best[0]), (3, best[1]))


def test_piecewise_expected_comparator_equals_the_sum_over_single_rounds() -> None:
    """E xi(t) of independent rounds: variances times (1 - 1/t), plus the spread of means, minus rho times their sum."""
    environment = PiecewiseStationary(PROBLEMS, [3, 5])
    piece = np.array([0] * 3 + [1] * 2 + [2] * 5)
    moments = [environment.moments(np.array([environment.comparators[k]]), k) for k in piece]
    mean = np.array([m[0] for m, _ in moments])
    variance = np.array([s[0] ** 2 for _, s in moments])
    for t in (1, 2, 4, 10):
        m = mean[:t]
        expected = variance[:t].sum() * (1 - 1 / t) + ((m - m.mean()) ** 2).sum() - 2.0 * m.sum()
        assert environment.expected_comparator(np.array([t]))[0] == pytest.approx(expected)


def test_comparator_means_are_those_of_its_path() -> None:
    environment = PiecewiseStationary(PROBLEMS, [3, 5])
    means = [environment.moments(np.array([environment.comparators[k]]), k)[0][0] for k in [0] * 3 + [1] * 2 + [2] * 5]
    rounds = np.array([1, 3, 4, 10])
    np.testing.assert_allclose(environment.comparator_means(rounds), [np.mean(means[:t]) for t in rounds])


def test_random_changes_are_distinct_ascending_and_seeded() -> None:
    changes = random_changes(1000, 20, seed=4)
    assert len(set(changes)) == 20
    assert list(changes) == sorted(changes)
    assert 1 <= changes[0] <= changes[-1] <= 999
    assert changes == random_changes(1000, 20, seed=4) != random_changes(1000, 20, seed=5)
    assert random_changes(10, 0, seed=0) == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Autocorrelated(PROBLEMS[0], 1.0), "correlation must be a number above -1 and below 1, was 1.0"),
        (lambda: Autocorrelated(PROBLEMS[0], float("nan")), "correlation must be"),
        (lambda: Autocorrelated(PROBLEMS[0], 0.5, scale="sd"), "scale must be one of deviation, variance, was 'sd'"),
        (lambda: PiecewiseStationary([], []), "problems must not be empty"),
        (lambda: PiecewiseStationary(PROBLEMS, [5]), "changes must be 2 ascending rounds, was [5]"),
        (lambda: PiecewiseStationary(PROBLEMS, [5, 5]), "changes must be 2 ascending rounds, was [5, 5]"),
        (lambda: PiecewiseStationary(PROBLEMS[:2], [0]), "changes must be a positive integer, was 0"),
        (lambda: PiecewiseStationary(PROBLEMS[:2], [1.5]), "changes must be a positive integer, was 1.5"),  # type: ignore[list-item]
        (lambda: PiecewiseStationary(PROBLEMS[:2], [3], comparator="median"), "comparator must be one of"),
        (
            lambda: PiecewiseStationary([PROBLEMS[0], random_problem(Actions(np.eye(3)), 0)], [3]),
            "problems must share one action set",
        ),
        (lambda: random_changes(10, 10, seed=0), "count must be at most 9, was 10"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)


def test_zero_variance_actions_give_their_mean_exactly() -> None:
    problem = Problem(actions=Actions([[1.0], [-1.0]]), mean_coef=np.array([0.5]), var_coef=np.array([-1.0]))
    run = Environment(problem).run(np.random.default_rng(0))
    assert run.reward(0) == 0.5
    tallies = run.tally(Plan(np.array([0]), np.array([100])))
    assert (tallies.means[0], tallies.spreads[0]) == (0.5, 0.0)
