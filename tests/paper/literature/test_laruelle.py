"""Orders larger than what pools hold, split by gradient and by reinforcement."""

from __future__ import annotations

import numpy as np
import pytest

from riskroute.paper.literature.laruelle import draw_shortage, oracle_saving, remake_laruelle, split_saving


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


def test_nobody_saves_more_than_the_oracle() -> None:
    drawn = draw_shortage(2000, np.random.default_rng(2))
    best = oracle_saving(*drawn)
    for shares in np.random.default_rng(3).dirichlet(np.ones(3), 50):
        assert split_saving(shares, *drawn) <= best
