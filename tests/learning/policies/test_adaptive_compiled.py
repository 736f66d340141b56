"""Compiled parts of the recommended policy against the plain ones: the same decisions from the same random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from naive_duel import NaiveDuel, naive_leader_loss
from riskroute import Actions, ActionSet, Allocations, Belief, Environment, Setting, random_problem
from riskroute.learning import belief, belief_fit
from riskroute.learning.belief import _draw_gaussian_numpy
from riskroute.learning.design.rounding import round_even_counts
from riskroute.learning.policies import adaptive
from riskroute.learning.policies.adaptive import _candidate_scores
from riskroute.learning.policies.adaptive_duel import AdaptiveDuel, duel_leader_loss
from riskroute.learning.policies.linear_policy import LinearPolicy
from riskroute.policies import Adaptive, ChangeTest, Discounted, SlidingWindow, Thompson
from riskroute.routing import routing_actions

DIMS = (2, 3, 5, 8, 12, 20)


def some_belief(rng: np.random.Generator, dim: int, firmness: float) -> Belief:
    roots = rng.standard_normal((2, dim, 2 * dim))
    mean, var = firmness * roots @ roots.transpose(0, 2, 1) / (2 * dim)
    return Belief(*_pair(rng, dim, mean), *_pair(rng, dim, var), 1.0, firmness * dim)


def _pair(rng: np.random.Generator, dim: int, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 0.05 * rng.standard_normal(dim), precision


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("budget", [None, 0.2])
def test_compiled_duels_fill_plans_alike(dim: int, budget: float | None) -> None:
    rng = np.random.default_rng(dim)
    actions = Actions.scaled(rng.standard_normal((60, dim)))
    explored = 0
    for firmness in (3.0, 30.0, 300.0, 30_000.0, 0.1):
        believed = some_belief(rng, dim, firmness)
        policy = Adaptive(budget=budget, patience=30.0).start(Setting(actions=actions, horizon=20_000), seed=1)
        order = np.argsort(actions.scores(believed.score(2.0)), kind="stable")
        for count, loss in ((1, 0.0), (5, 1e-3), (17, 0.02), (48, 0.1)):
            given = (policy, believed, actions.features(order[:count]), loss)
            portions = round_even_counts(int(rng.integers(1, 500)), 8)
            plain = NaiveDuel(*given).fill(np.random.default_rng(7), portions)
            compiled = AdaptiveDuel(*given).fill(np.random.default_rng(7), portions)
            assert compiled.tolist() == plain.tolist()
            explored += int(plain[1:].sum() > 0)
    assert 2 <= explored <= 18  # of 20 plans


@pytest.mark.parametrize("draws", [1, 2, 5, 128])
def test_scores_of_rivals_and_loss_are_the_plain_ones(draws: int) -> None:
    rng = np.random.default_rng(draws)
    center, normals, features = rng.standard_normal(4), rng.standard_normal((draws, 4)), rng.standard_normal((6, 4))
    root = rng.standard_normal((4, 7))
    scores = _candidate_scores(center, root @ root.T, normals)
    plain = _draw_gaussian_numpy(center, root @ root.T, normals)
    np.testing.assert_allclose(scores[1 : draws + 1], plain, rtol=1e-9, atol=1e-12)
    assert len(scores) == 1 + draws + len(plain[::4]) + len(plain[1::4])
    drawn, place = scores[1 : draws + 1], rng.integers(0, 6, draws)
    expected = naive_leader_loss(drawn, features, place)
    assert duel_leader_loss(drawn, features, place) == pytest.approx(expected, rel=1e-12)


SETS: dict[str, ActionSet] = {
    "Gaussian, two coordinates": Actions.scaled(np.random.default_rng(0).standard_normal((30, 2))),
    "Gaussian, twenty coordinates": Actions.scaled(np.random.default_rng(1).standard_normal((150, 20))),
    "listed splits": routing_actions(6, 5),
    "implicit splits": Allocations(12, 5),
    "implicit splits with caps": Allocations(12, 5, caps=5),
}
POLICIES: tuple[LinearPolicy, ...] = (Adaptive(), Thompson(), ChangeTest(), Discounted(), SlidingWindow(window=400))


def played(policy: LinearPolicy, actions: ActionSet) -> list[Any]:
    """All plans of a run."""
    environment = Environment(random_problem(actions, seed=3))
    policy = policy.clone().start(environment.setting(500), seed=1)
    run, plans = environment.run(np.random.default_rng(2)), []
    while policy.remaining:
        plan = policy.plan()
        plans.append((plan.actions.tolist(), plan.counts.tolist()))
        policy.learn(run.tally(plan))
    return plans


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_whole_runs_decide_alike_without_compiled_code(
    policy: LinearPolicy, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = played(policy, SETS[kind])
    for module in (belief, belief_fit):  # fits, covariances and draws by linear algebra on whole arrays
        monkeypatch.setattr(module, "LONGEST", 0)
    monkeypatch.setattr(adaptive, "AdaptiveDuel", NaiveDuel)
    monkeypatch.setattr(adaptive, "duel_leader_loss", naive_leader_loss)
    monkeypatch.setattr(type(SETS[kind]), "best_each", ActionSet.best_each)
    calls = []

    def counted(*given: Any) -> np.ndarray:
        calls.append(len(given))
        return _draw_gaussian_numpy(*given)

    monkeypatch.setattr(belief, "_draw_gaussian_numpy", counted)
    assert played(policy, SETS[kind]) == compiled
    assert calls
