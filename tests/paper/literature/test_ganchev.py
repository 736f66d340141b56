"""Held-out log losses of models of dark pools."""

from __future__ import annotations

import numpy as np
import pytest

from riskroute.paper.literature.ganchev import LARGEST, log_loss, remake_ganchev
from riskroute.paper.literature.statements import draw_paper_pools, draw_sizes
from riskroute.routers.literature.kaplan_meier import power_tails


def test_the_order_of_losses_comes_out() -> None:
    found = remake_ganchev(quick=True)
    assert all(statement.holds for statement in found.statements)
    assert found.losses["power law"] < found.losses["uniform"] < found.losses["Kaplan-Meier"]
    assert sum(found.best.values()) == found.pools
    assert remake_ganchev(quick=True) == found
    assert remake_ganchev(quick=True, seed=1) != found


def test_the_loss_of_the_truth_is_the_entropy() -> None:
    """Nothing cut off: minus the mean logarithm of the probabilities; 4 s.e. of 40,000 sizes are below 0.05."""
    tails = power_tails(0.7, 1.0, LARGEST)
    sizes = draw_sizes(((0.7, 1.0),), 40_000, LARGEST, np.random.default_rng(1))[:, 0]
    chances = np.concatenate([[0.7], tails - np.append(tails[1:], 0.0)])
    entropy = -float((chances * np.log(chances)).sum())
    assert log_loss(tails, np.full(40_000, LARGEST + 1), sizes) == pytest.approx(entropy, abs=0.05)


def test_sizes_have_their_law() -> None:
    """Tails of 40,000 draws: 4 s.e. are 0.01."""
    sizes = draw_sizes(((0.6, 0.5), (0.8, 1.2)), 40_000, 50, np.random.default_rng(2))
    for k, (empty, exponent) in enumerate(((0.6, 0.5), (0.8, 1.2))):
        found = [(sizes[:, k] >= size).mean() for size in (1, 2, 10, 50)]
        assert found == pytest.approx(power_tails(empty, exponent, 50)[[0, 1, 9, 49]].tolist(), abs=0.01)
    assert all(
        0.67 <= empty <= 0.96 and 0.25 <= b <= 1.3 for empty, b in draw_paper_pools(48, np.random.default_rng(3))
    )
