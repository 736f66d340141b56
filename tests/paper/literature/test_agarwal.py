"""Pools that swap places: who follows, and twins of the fast versions that are played."""

from __future__ import annotations

import numpy as np
import pytest

from riskroute.paper.literature.agarwal import (
    METHODS,
    play_exp3,
    play_expgrad_constant,
    play_optimistic,
    play_parml,
    remake_agarwal,
)
from riskroute.paper.literature.statements import draw_sizes
from riskroute.routers.literature.expgrad import expgrad_rate, play_expgrad


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
    sent = play_expgrad(sizes.astype(float), np.full(60, 20), expgrad_rate(3, 60))
    assert play_expgrad_constant(sizes, 20).tolist() == pytest.approx(np.minimum(sent, sizes).sum(axis=1).tolist())


@pytest.mark.parametrize("play", [play_exp3, play_parml, play_optimistic])
def test_a_pool_that_always_fills_is_found(play: object) -> None:
    """Of 10 units an even split fills 5; whoever learns comes to fill more."""
    assert callable(play)
    filled = play(np.array([[20, 0]] * 600), 10, np.random.default_rng(2))
    assert filled[-100:].mean() > 7
    assert filled.max() <= 10
