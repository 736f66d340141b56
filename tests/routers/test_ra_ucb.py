"""Optimism about presence and sizes: confidence by likelihood, and pools that are not given up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dark_rounds import THREE_POOLS, TWO_POOLS, draw_pools, expected_fill, play_pools, pools_context
from riskroute.core.errors import InputError
from riskroute.routers.literature.kaplan_meier import ParMl, RaUcb, _highest_chance, fit_exponent


@given(st.integers(0, 30), st.integers(0, 30), st.floats(0, 5))
@settings(max_examples=30, deadline=None)
def test_the_highest_chance_by_trying_all(successes: int, misses: int, less: float) -> None:
    trials = successes + misses
    if not trials:
        return
    grid = np.linspace(1e-6, 1 - 1e-6, 100_001)
    likelihood = successes * np.log(grid) + misses * np.log1p(-grid)
    found = _highest_chance(successes, trials, less)
    assert found == pytest.approx(grid[likelihood >= likelihood.max() - less - 1e-9].max(), abs=3e-5)


def test_the_optimistic_exponent_is_smaller() -> None:
    full, logs = np.zeros(50), float(np.log([1, 2, 3, 1, 8]).sum())
    fits = [fit_exponent(5, logs, full, 50, less) for less in (0.0, 1.0, 3.0)]
    assert fits == sorted(fits, reverse=True)
    assert fits[0] > fits[1] + 0.2


@pytest.mark.parametrize(("pools", "best", "seed"), [(TWO_POOLS, 20.7976, 6), (THREE_POOLS, 16.4079, 5)])
def test_it_converges_to_the_greedy_split(pools: Any, best: float, seed: int) -> None:
    """Within 4 % after 500 orders; the plain fit gives up a pool with the luck of the second seed."""
    sent = play_pools(RaUcb(), draw_pools(pools, 700, seed=seed), pools_context(len(pools), 100))
    assert np.mean([expected_fill(pools, split) for split in sent[500:]]) > 0.96 * best


def test_without_width_it_is_the_plain_fit() -> None:
    """But for draws among equals, and for pools that were always empty, which the plain fit keeps a chance for."""
    sizes, context = draw_pools(((0.1, 0.2), (0.1, 0.9)), 60, seed=3) + 1, pools_context(2, 40)
    plain, optimistic = (play_pools(kind, sizes, context) for kind in (ParMl(), RaUcb(width=0.0)))
    np.testing.assert_array_equal(plain[1:], optimistic[1:])


def test_parameters_that_cannot_be() -> None:
    with pytest.raises(InputError, match="width must be a number of at least 0 and of at most 1000, was -1"):
        RaUcb(width=-1.0)
