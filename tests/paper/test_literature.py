"""Reproductions of experiments from the literature: the papers' claims, and their components."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from literature import (
    LARGEST,
    METHODS,
    PRICES,
    draw_paper_pools,
    draw_shortage,
    draw_sizes,
    log_loss,
    mean_cost,
    oracle_saving,
    play_exp3,
    play_expgrad_constant,
    play_optimistic,
    play_parml,
    remake_agarwal,
    remake_cont_kukanov,
    remake_ganchev,
    remake_laruelle,
    split_saving,
)
from riskroute.routers.literature.dark_allocation import _power_tails
from riskroute.routers.literature.exponential_weights import _expgrad_rate
from router_cases import play_expgrad


def test_the_order_of_losses_is_reproduced() -> None:
    found = remake_ganchev(quick=True)
    assert all(statement.holds for statement in found.statements)
    assert found.losses["power law"] < found.losses["uniform"] < found.losses["Kaplan-Meier"]
    assert sum(found.best.values()) == found.pools
    assert remake_ganchev(quick=True) == found
    assert remake_ganchev(quick=True, seed=1) != found


def test_the_loss_of_the_truth_is_the_entropy() -> None:
    """Nothing cut off: minus the mean logarithm of the probabilities; 4 s.e. of 40,000 sizes are below 0.05."""
    tails = _power_tails(0.7, 1.0, LARGEST)
    sizes = draw_sizes(((0.7, 1.0),), 40_000, LARGEST, np.random.default_rng(1))[:, 0]
    chances = np.concatenate([[0.7], tails - np.append(tails[1:], 0.0)])
    entropy = -float((chances * np.log(chances)).sum())
    assert log_loss(tails, np.full(40_000, LARGEST + 1), sizes) == pytest.approx(entropy, abs=0.05)


def test_sizes_have_the_stated_distribution() -> None:
    """Tails of 40,000 draws: 4 s.e. are 0.01."""
    sizes = draw_sizes(((0.6, 0.5), (0.8, 1.2)), 40_000, 50, np.random.default_rng(2))
    for k, (empty, exponent) in enumerate(((0.6, 0.5), (0.8, 1.2))):
        found = [(sizes[:, k] >= size).mean() for size in (1, 2, 10, 50)]
        assert found == pytest.approx(_power_tails(empty, exponent, 50)[[0, 1, 9, 49]].tolist(), abs=0.01)
    assert all(
        0.67 <= empty <= 0.96 and 0.25 <= b <= 1.3 for empty, b in draw_paper_pools(48, np.random.default_rng(3))
    )


def test_the_settings_of_the_paper() -> None:
    """Who follows comes out; of 48 pools that stay the same, that exponentiated gradient beats Exp3 does."""
    found = remake_agarwal(quick=True)
    assert set(found.best) == {"48 pools", "two pools", "five pools, 200"}
    assert all(set(some) == set(METHODS) for some in (*found.filled.values(), *found.late.values()))
    swapped = [one for one in found.statements if "swapped" in one.name]
    assert len(swapped) == 2
    assert all(one.holds for one in swapped)
    still = {one.name: one.holds for one in found.statements if "stay the same" in one.name}
    assert len(still) == 3
    assert still["with many pools that stay the same, expgrad fills more than exp3"]


def test_orders_of_one_size_need_one_row_of_weights() -> None:
    sizes = draw_sizes(((0.5, 0.3), (0.6, 1.0), (0.3, 2.0)), 60, 20, np.random.default_rng(1))
    sent = play_expgrad(sizes.astype(float), np.full(60, 20), _expgrad_rate(3, 60))
    assert play_expgrad_constant(sizes, 20).tolist() == pytest.approx(np.minimum(sent, sizes).sum(axis=1).tolist())


@pytest.mark.parametrize("play", [play_exp3, play_parml, play_optimistic])
def test_a_pool_that_always_fills_is_found(play: object) -> None:
    """Of 10 units an even split fills 5; learning fills more."""
    assert callable(play)
    filled = play(np.array([[20, 0]] * 600), 10, np.random.default_rng(2))
    assert filled[-100:].mean() > 7
    assert filled.max() <= 10


def test_the_statements_hold() -> None:
    found = remake_laruelle(quick=True)
    assert [one.holds for one in found.statements] == [True] * 3
    assert found.shares["lagrangian"] == pytest.approx((0.113, 0.360, 0.527), abs=0.02)
    assert found.shares["reinforcement"] == pytest.approx((0.0, 0.257, 0.743), abs=0.02)
    assert found.performance == pytest.approx({"lagrangian": 0.965, "reinforcement": 0.922, "even": 0.892}, abs=0.005)


def test_sizes_have_the_moments_of_the_setting() -> None:
    """5 s.e. of 100,000 draws are 0.016 for means; variances of log-normals are rougher."""
    orders, held = draw_shortage(100_000, np.random.default_rng(1))
    assert orders.mean() == pytest.approx(9, abs=0.016)
    assert held.mean(axis=0).tolist() == pytest.approx([1, 2, 3], abs=0.016)
    assert held.var(axis=0).tolist() == pytest.approx([1, 1, 1], abs=0.1)


def test_no_policy_saves_more_than_the_oracle() -> None:
    drawn = draw_shortage(2000, np.random.default_rng(2))
    best = oracle_saving(*drawn)
    for shares in np.random.default_rng(3).dirichlet(np.ones(3), 50):
        assert split_saving(shares, *drawn) <= best


@pytest.mark.parametrize("seed", [0, 1])
def test_all_statements_hold(seed: int) -> None:
    found = remake_cont_kukanov(quick=True, seed=seed)
    assert [one.name for one in found.statements if not one.holds] == []
    assert len(found.statements) == 8
    assert found.placement == (728, 272)
    assert found.costs == pytest.approx({"placed": 14.278, "all taken": 23.0, "all posted": 16.4}, abs=5e-4)
    assert found.by_under == {0.024: 295, 0.026: 272, 0.03: 252, 0.05: 215, 0.1: 184}
    assert found.by_queue == {1950: 322, 2000: 272, 2050: 222, 2100: 172}
    assert found.two == pytest.approx((499, 297, 297), abs=25)
    assert all(one.measured for one in found.statements)


def test_limits_are_the_quantiles_of_a_normal_distribution_nearly() -> None:
    """Another way to the same numbers: the Poisson distribution is close to a normal one, within a share here."""
    for under, limit in remake_cont_kukanov(quick=True).by_under.items():
        fraction = 0.045 / (under + 0.022)
        assert limit == pytest.approx(norm(2200, 2200**0.5).ppf(fraction) - 2000, abs=1)


def test_the_mean_is_that_of_the_closed_form() -> None:
    assert mean_cost(727, 273, PRICES) > mean_cost(728, 272, PRICES) < mean_cost(729, 271, PRICES)
