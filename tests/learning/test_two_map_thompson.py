"""Learning on offered sets with two feature maps: coefficients found, regret gone, and the special cases."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from riskroute.core.errors import InputError, StateError
from riskroute.learning.actions import Actions, as_batch
from riskroute.learning.plan import Setting
from riskroute.learning.registry import make_policy
from riskroute.learning.two_map_actions import TwoMapActions
from riskroute.learning.two_map_belief import TwoMapBelief
from riskroute.learning.two_map_thompson import TwoMapThompson
from riskroute.learning.two_maps import TwoMapEstimate, TwoMapRows

THETA, PHI, TOLERANCE = np.array([0.6, -0.4, 0.2]), np.array([0.3, 1.0]), 1.0
PRIOR = TwoMapEstimate.independent(np.zeros(3), np.ones(3), np.ones(2), np.ones(2))


def offered(rng: np.random.Generator) -> TwoMapActions:
    """Six actions whose features and offsets are different in every round."""
    return TwoMapActions(rng.standard_normal((6, 3)), rng.random((6, 2)), 0.3 * rng.standard_normal(6))


def true_costs(actions: TwoMapActions) -> np.ndarray:
    everything = actions.handles
    means = actions.offset(everything) + actions.mean_features(everything) @ THETA
    return actions.var_features(everything) @ PHI - TOLERANCE * means


def reward(actions: TwoMapActions, action: int, rng: np.random.Generator) -> float:
    batch = as_batch(action)
    mean = actions.offset(batch) + actions.mean_features(batch) @ THETA
    return float((mean + np.sqrt(actions.var_features(batch) @ PHI) * rng.standard_normal())[0])


def play(player: TwoMapThompson, rounds: int, seed: int) -> np.ndarray:
    """Regret of every round."""
    rng, regrets = np.random.default_rng(seed), []
    for _ in range(rounds):
        actions = offered(rng)
        action = player.select(actions)
        assert isinstance(action, int)
        player.update(actions, action, reward(actions, action, rng))
        costs = true_costs(actions)
        regrets.append(costs[action] - costs.min())
    return np.array(regrets)


@pytest.mark.parametrize("draw_variance", [False, True])
def test_coefficients_are_found_and_regret_per_round_vanishes(draw_variance: bool) -> None:
    """Within three standard errors; regret of the last rounds below a fiftieth of that of uniform play."""
    player = TwoMapThompson(PRIOR, risk_tolerance=TOLERANCE, draw_variance=draw_variance, seed=1)
    regrets = play(player, 1000, seed=2)
    found = player.belief.estimate
    assert (np.abs(found.mean_coef - THETA) < 3 * found.mean_errors).all()
    assert (np.abs(found.var_coef - PHI) < 3 * found.var_errors).all()
    rng = np.random.default_rng(3)
    uniform = np.mean([(costs := true_costs(offered(rng))).mean() - costs.min() for _ in range(200)])
    assert regrets[-500:].mean() < uniform / 50
    assert regrets[-500:].mean() < regrets[:50].mean() / 4


def test_with_the_same_set_in_every_round_it_settles_on_the_static_optimum() -> None:
    rng = np.random.default_rng(4)
    actions = offered(rng)
    player = TwoMapThompson(PRIOR, risk_tolerance=TOLERANCE, seed=1)
    played = []
    for _ in range(800):
        action = player.select(actions)
        assert isinstance(action, int)
        player.update(actions, action, reward(actions, action, rng))
        played.append(action)
    best = int(np.argmin(true_costs(actions)))
    assert player.recommend(actions) == best
    assert np.mean(np.array(played[-300:]) == best) > 0.9


def test_more_feedback_means_less_regret() -> None:
    """Three units over six places: what everything would have earned beats what each place earned beats the total.

    Cumulative regrets of 50 rounds of greedy play, of eight seeds together, the same noise for all.
    """
    splits = np.array([row for row in itertools.product(range(4), repeat=6) if sum(row) == 3])
    risks, theta = 0.3 * (splits**2).sum(axis=1), np.array([1.0, 0.5, -0.5])
    totals = dict.fromkeys(("everything", "each", "total"), 0.0)
    prior = TwoMapEstimate.independent(np.zeros(3), np.ones(3), [1.0], [0.5])
    for seed in range(8):
        beliefs = {name: TwoMapBelief(prior) for name in totals}
        rng = np.random.default_rng(seed)
        for played in range(50):
            x = rng.standard_normal((6, 3))  # of one unit at each place
            noise = 2 * rng.standard_normal(6)
            costs = risks - splits @ (x @ theta)
            for name, belief in beliefs.items():
                chosen = int(np.argmin(risks - splits @ (x @ belief.estimate.mean_coef)))
                totals[name] += float(costs[chosen] - costs.min())
                sizes = np.ones(6) if name == "everything" else splits[chosen].astype(float)
                features, rewards, squares = sizes[:, None] * x, sizes * (x @ theta + noise), sizes[:, None] ** 2
                rows = TwoMapRows(features[sizes > 0], squares[sizes > 0], rewards[sizes > 0])
                if name == "total":
                    rows = TwoMapRows(features.sum(axis=0)[None], squares.sum(axis=0)[None], rewards.sum()[None])
                belief.add(rows)
                if played % 5 == 4:
                    belief.refresh()
    assert totals["everything"] < 0.9 * totals["each"]
    assert totals["each"] < 0.9 * totals["total"]


def test_one_map_without_offset_is_the_special_case() -> None:
    matrix = np.random.default_rng(5).standard_normal((9, 4))
    plain, same = Actions(matrix), TwoMapActions(matrix)
    assert plain.one_map
    assert same.one_map
    handles, mean, var = plain.handles, np.array([1.0, 0.0, 2.0, -1.0]), np.array([0.5, 1.0, 0.0, 0.2])
    for actions in (plain, same):
        assert actions.var_dim == actions.dim == 4
        assert (actions.mean_features(handles) == matrix).all()
        assert (actions.var_features(handles) == matrix).all()
        assert not actions.offset(handles).any()
        assert actions.best_of_both(mean, var, 2.0) == plain.best(var - 2 * mean)


def test_subsets_keep_both_maps_and_the_offset() -> None:
    actions = offered(np.random.default_rng(6))
    some = actions.top(THETA, 3)
    kept = some.handles
    assert isinstance(some, TwoMapActions)
    assert some.size == 3
    assert (some.var_features(kept) == actions.var_features(kept)).all()
    assert (some.offset(kept) == actions.offset(kept)).all()
    best = kept[int(np.argmin(true_costs(actions)[kept]))]
    assert some.best_of_both(THETA, PHI, TOLERANCE) == best
    assert some.fingerprint != actions.fingerprint
    moved = TwoMapActions(actions.matrix, actions.var_features(actions.handles), actions.offset(actions.handles) + 1)
    assert moved.fingerprint != actions.fingerprint


def test_policies_of_one_map_refuse_two() -> None:
    actions = offered(np.random.default_rng(7))
    policy = make_policy("thompson")
    with pytest.raises(InputError, match="actions must have one feature map and no offset for thompson"):
        policy.start(Setting(actions=actions))
    policy.start(Setting(actions=Actions(np.eye(3))))
    with pytest.raises(InputError, match="actions must have one feature map and no offset for thompson"):
        policy.offer(actions)


def test_a_state_goes_on_to_the_same_decisions() -> None:
    player = TwoMapThompson(PRIOR, risk_tolerance=TOLERANCE, offset_sd=0.1, draw_variance=True, seed=8)
    play(player, 57, seed=9)
    again = TwoMapThompson.restore(json.loads(json.dumps(player.state())))
    assert again.state() == player.state()
    assert play(again, 40, seed=10).tolist() == play(player, 40, seed=10).tolist()
    for broken in ({}, player.state() | {"parameters": {"other": 1}}, player.state() | {"random": {}}):
        with pytest.raises(StateError, match="must be one that state"):
            TwoMapThompson.restore(broken)


def test_what_cannot_be_is_refused() -> None:
    player = TwoMapThompson(PRIOR, risk_tolerance=TOLERANCE)
    with pytest.raises(InputError, match=r"actions must have dimensions \(3, 2\), was \(2, 2\)"):
        player.select(Actions(np.eye(2)))
    with pytest.raises(InputError, match="reward must be a finite number, was nan"):
        player.update(offered(np.random.default_rng(0)), 0, float("nan"))
    with pytest.raises(InputError, match="actions must be row numbers below 6, was"):
        player.update(offered(np.random.default_rng(0)), 9, 1.0)
    with pytest.raises(InputError, match="width must be a number of at least 0, was -1"):
        TwoMapThompson(PRIOR, risk_tolerance=1.0, width=-1)
    with pytest.raises(InputError, match="offset must have 2 entries, had 1"):
        TwoMapActions([[1.0], [2.0]], offset=[1.0])
