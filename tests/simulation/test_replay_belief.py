"""Priors fitted to recorded scenarios, against plain least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from riskroute import Allocations, InputError, Problem, simulate
from riskroute.learning.actions import as_batch
from riskroute.policies import Adaptive
from riskroute.simulation.replay import Replay, replay_belief

BUCKETS = 40
CENTRE = (-1.0, -0.6, -0.3, -0.02, -0.01, 0.0)


def linear_replay(
    seed: int, *, listed: bool = True, repeats: int = 5, count: int = BUCKETS, centre: tuple[float, ...] = CENTRE
) -> tuple[Replay, np.ndarray, np.ndarray]:
    """Profits linear in shares and their squares, with coefficients of their own in every scenario.

    Returns the replay, the bucket of each scenario, and the coefficients ``(scenarios, 6)``.
    """
    rng = np.random.default_rng(seed)
    shares, slots = 6, 3
    actions = Allocations(shares, slots)
    by_bucket = rng.normal(centre, [0.1, 0.3, 0.5, 0.01, 0.02, 0.02], (count, 6))
    buckets = np.tile(np.arange(count), repeats)
    each = by_bucket[buckets] + rng.normal(0, 0.01, (len(buckets), 6))
    q = np.arange(shares + 1.0)
    profits = np.stack([each[:, [k]] * q + each[:, [slots + k]] * q**2 for k in range(slots)])
    problem = Problem(
        actions=actions.listed() if listed else actions,
        mean_coef=np.zeros(6),
        var_coef=np.zeros(6),
        risk_tolerance=1.0,
        base_variance=0.0,
    )
    return Replay(problem, profits), buckets, each


@pytest.mark.parametrize("listed", [True, False])
def test_means_and_their_errors_are_those_of_the_buckets(listed: bool) -> None:
    replay, buckets, each = linear_replay(1, listed=listed)
    scale = float(replay.actions.features(np.array([[6, 0, 0]]))[0, 0]) / 6  # features are multiples of q and q squared
    belief = replay_belief(replay, buckets, firmness=1.0)
    np.testing.assert_allclose(scale * belief.mean_coef, each.mean(axis=0), atol=1e-9)
    per_bucket = np.array([each[buckets == k].mean(axis=0) for k in range(BUCKETS)])
    expected = np.cov(per_bucket, rowvar=False) / BUCKETS
    # 200 resamples tell a variance to 10 %, one standard error
    np.testing.assert_allclose(scale**2 * np.diag(belief.mean_covariance), np.diag(expected), rtol=0.4)
    assert belief.rounds == BUCKETS


@pytest.mark.parametrize("seed", range(4))
def test_variances_are_the_best_linear_description(seed: int) -> None:
    replay, buckets, _ = linear_replay(seed)
    belief = replay_belief(replay, buckets, firmness=1.0)
    splits = replay.actions.listed().handles
    _, deviation = replay.moments(splits)
    features = replay.actions.features(splits)
    noise = np.maximum(deviation**2, 0.1 * np.median(deviation**2))
    root = 1 / noise
    expected = np.linalg.lstsq(features * root[:, None], deviation**2 * root, rcond=None)[0]
    np.testing.assert_allclose(features @ belief.var_coef, features @ expected, atol=1e-6 * noise.max())


def test_firmness_scales_the_belief() -> None:
    replay, buckets, _ = linear_replay(2)
    firm, soft = (replay_belief(replay, buckets, firmness=value) for value in (1.0, 0.25))
    np.testing.assert_allclose(soft.mean_covariance, 4 * firm.mean_covariance, rtol=1e-6)
    np.testing.assert_allclose(soft.var_precision, firm.var_precision / 4, rtol=1e-9)
    np.testing.assert_array_equal(soft.mean_coef, firm.mean_coef)


@pytest.mark.usefixtures("untraced")
def test_a_warm_policy_pays_less_for_learning() -> None:
    train, buckets, _ = linear_replay(5)
    judge, _, _ = linear_replay(6)
    warm = Adaptive(prior=replay_belief(train, buckets))
    result = simulate(judge, {"warm": warm, "cold": Adaptive()}, horizon=300, runs=20, seed=1)
    warm_end, cold_end = (result.policies[name].regret[:, -1] for name in ("warm", "cold"))
    # about five standard errors apart; three are asked for
    apart = cold_end.mean() - warm_end.mean()
    assert apart > 3 * (cold_end.var(ddof=1) / 20 + warm_end.var(ddof=1) / 20) ** 0.5


@pytest.mark.parametrize("seed", range(3))
def test_a_warm_policy_adapts_to_changed_books(seed: int) -> None:
    train, buckets, _ = linear_replay(5 + 10 * seed)
    judge, _, _ = linear_replay(6 + 10 * seed, centre=(0.5, *CENTRE[1:]))  # the slot that was worst is best now
    result = simulate(judge, [Adaptive(prior=replay_belief(train, buckets))], horizon=3000, runs=3, seed=1)
    assert result.policies["adaptive"].recommended == [(6, 0, 0)] * 3
    stuck = 3000 * float(judge.gaps(as_batch(train.comparators[0]))[0])
    assert result.policies["adaptive"].regret[:, -1].mean() < 0.25 * stuck  # about 0.06 at these seeds


@pytest.mark.parametrize(("count", "most"), [(4, 100), (6, 50), (10, 25), (40, 10)])
def test_few_buckets_give_a_wide_prior(count: int, most: float) -> None:
    """Squared errors in the belief's own units, six of them; with few buckets their scale is itself badly known."""
    squared = []
    for seed in range(20):
        replay, buckets, _ = linear_replay(seed, count=count)
        scale = float(replay.actions.features(np.array([[6, 0, 0]]))[0, 0]) / 6
        belief = replay_belief(replay, buckets, firmness=1.0)
        off = belief.mean_coef - np.array(CENTRE) / scale
        squared.append(float(off @ belief.mean_precision @ off))
    assert np.median(squared) < most


def test_identical_books_give_a_belief() -> None:
    problem = Problem(actions=Allocations(3, 2), mean_coef=np.zeros(4), var_coef=np.zeros(4), base_variance=0.0)
    replay = Replay(problem, -np.tile(np.arange(4.0), (2, 6, 1)))
    belief = replay_belief(replay, np.arange(6))
    np.testing.assert_allclose(replay.actions.features(np.array([[3, 0], [1, 2]])) @ belief.mean_coef, -3.0)
    assert np.isfinite(belief.mean_precision).all()
    result = simulate(replay, [Adaptive(prior=belief)], horizon=50, runs=1)
    assert result.policies["adaptive"].regret[0, -1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("buckets", "options", "message"),
    [
        (np.zeros(3, dtype=np.int64), {}, r"buckets must have shape \(200,\) and at least two different values"),
        (np.zeros(200, dtype=np.int64), {}, r"was shape \(200,\) with 1 different"),
        (None, {"firmness": 0}, "firmness must be a number of at most 1 and above 0, was 0"),
        (None, {"firmness": 2}, "firmness must be a number of at most 1 and above 0, was 2"),
        (None, {"seed": -1}, "seed must be a non-negative integer, was -1"),
    ],
)
def test_mistakes_are_named(buckets: Any, options: dict[str, Any], message: str) -> None:
    replay, known, _ = linear_replay(0)
    with pytest.raises(InputError, match=message):
        replay_belief(replay, known if buckets is None else buckets, **options)
