"""Designs over sets too large to list: valid supports, tolerances that are reached, and attacks on their bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from naive_learning import check_support, lattice_of
from riskroute.learning.design.g_optimal import Design
from riskroute.routing.designs.large import large_design
from riskroute.routing.lattice import Lattice

Levers = Callable[[np.ndarray], np.ndarray]

LARGE = {
    "thousand over twenty": (1000, [0] * 20, [1000] * 20, 0.01),
    "caps": (1000, [0] * 20, [200] * 20, 0.01),
    "two groups of caps": (1000, [0] * 14, [100] * 7 + [300] * 7, 0.01),
    "minimums and three groups": (120, [0] * 4 + [4] * 4 + [0] * 2, [120] * 4 + [60] * 4 + [10] * 2, 0.05),
    "ten thousand over thirty": (10_000, [0] * 30, [10_000] * 30, 0.05),
    "every slot different": (100, [0] * 20, [10 + 2 * k for k in range(20)], 0.1),
}


@cache
def large(name: str) -> tuple[Lattice, Design]:
    units, lows, highs, tolerance = LARGE[name]
    lattice = lattice_of(units, lows, highs)
    return lattice, large_design(lattice, tolerance)


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("name", list(LARGE))
def test_support_of_a_large_design_is_valid(name: str) -> None:
    lattice, design = large(name)
    check_support(design, lattice)
    assert design.rank == 2 * len(lattice.lows)
    assert design.bound >= design.rank * (1 - 1e-9)


@pytest.mark.parametrize(
    ("name", "excess"), [("thousand over twenty", 0.01), ("caps", 0.01), ("ten thousand over thirty", 0.05)]
)
def test_large_sets_of_equal_slots_reach_the_tolerance(name: str, excess: float) -> None:
    _, design = large(name)
    assert design.excess <= excess
    if design.rank == 40:
        assert len(design) <= 820


@pytest.mark.parametrize("name", list(LARGE))
def test_attacks_do_not_find_a_leverage_above_the_bound(name: str) -> None:
    """Hill climbs from many starts. Sets with several groups may state a looser bound, but never a false one."""
    lattice, design = large(name)
    size = float(lattice.units)
    white = _whitening(plain_with(design.actions, size), design.weights)

    def levers(rows: np.ndarray) -> np.ndarray:
        return np.sum((plain_with(rows, size) @ white) ** 2, axis=1)

    rng = np.random.default_rng(7)
    rows = _starts(lattice, design, rng)
    climbed = hill_climb(lattice, rows, levers, rng, steps=1500)
    assert (climbed.sum(axis=1) == lattice.units).all()
    highest = float(levers(climbed).max())
    assert highest <= design.bound * (1 + 1e-6)
    # The attack must be worth something: it comes close to the rank, below which no design's maximum can be.
    assert highest >= 0.97 * design.rank


def test_attack_refutes_a_false_bound() -> None:
    """The same climb on a lopsided design finds far more than the rank: attacks above are not blind."""
    lattice, design = large("thousand over twenty")
    weights = design.weights * np.where(design.actions[:, 0] > design.actions[:, 1], 0.05, 1.0)
    white = _whitening(plain_with(design.actions, 1000.0), weights / weights.sum())

    def levers(rows: np.ndarray) -> np.ndarray:
        return np.sum((plain_with(rows, 1000.0) @ white) ** 2, axis=1)

    rng = np.random.default_rng(8)
    climbed = hill_climb(lattice, lattice.sample(rng, 100), levers, rng, steps=800)
    assert levers(climbed).max() > 1.2 * design.bound


def plain_with(rows: np.ndarray, size: float) -> np.ndarray:
    return np.hstack([rows / size, (rows / size) ** 2])


def _whitening(support: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``W`` such that the squared norm of ``x W`` is the leverage, for a support of full rank."""
    _, singular, rows = np.linalg.svd(np.sqrt(weights)[:, None] * support, full_matrices=False)
    assert singular[-1] > 1e-9 * singular[0]
    return rows.T / singular


def _starts(lattice: Lattice, design: Design, rng: np.random.Generator) -> np.ndarray:
    """Uniform draws, members of the support, and greedy fillings that put as much as fits in a few slots."""
    slots = len(lattice.lows)
    filled = []
    for _ in range(80):
        row, left = lattice.lows.copy(), lattice.free
        for k in rng.permutation(slots):
            taken = min(left, int(lattice.room[k]), 1 + int(lattice.free * rng.random() ** 2))
            row[k] += taken
            left -= taken
        for k in rng.permutation(slots):
            taken = min(left, int(lattice.highs[k] - row[k]))
            row[k] += taken
            left -= taken
        filled.append(row)
    return np.concatenate([lattice.sample(rng, 60), design.actions[rng.permutation(len(design))[:60]], filled])


def hill_climb(lattice: Lattice, rows: np.ndarray, levers: Levers, rng: np.random.Generator, steps: int) -> np.ndarray:
    """Move 1, a quarter, half or all of a slot's shares to another slot whenever that raises the leverage."""
    rows = rows.copy()
    count, slots = rows.shape
    lane, now = np.arange(count), levers(rows)
    for _ in range(steps):
        source = rng.integers(slots, size=count)
        target = (source + rng.integers(1, slots, size=count)) % slots
        spare = rows[lane, source] - lattice.lows[source]
        wanted = np.choose(rng.integers(4, size=count), [np.ones_like(spare), spare // 4, spare // 2, spare])
        amount = np.minimum(np.minimum(wanted, spare), lattice.highs[target] - rows[lane, target])
        moved = rows.copy()
        moved[lane, source] -= amount
        moved[lane, target] += amount
        after = levers(moved)
        better = after > now
        rows[better], now = moved[better], np.maximum(now, after)
    return rows
