"""What a paper's experiment says in words, what came out here, and whether the two agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Units
from riskroute.routers.literature.kaplan_meier import power_sizes

Pools = tuple[tuple[float, float], ...]
"""Probability of being empty and exponent of sizes, pool by pool."""


@dataclass(frozen=True)
class Statement:
    """A statement of a paper: in words, what was measured here, and whether it holds."""

    name: str
    measured: str
    holds: bool


def draw_sizes(pools: Pools, rounds: int, largest: int, rng: np.random.Generator) -> Units:
    """Sizes ``(rounds, K)`` that pools hold: nothing, or 1 .. ``largest`` units by a power law.

    Examples
    --------
    >>> draw_sizes(((0.5, 1.0), (1.0, 1.0)), 3, 10, np.random.default_rng(0)).shape
    (3, 2)
    """
    columns = [
        np.where(
            rng.random(rounds) < empty,
            0,
            1 + np.searchsorted(np.cumsum(power_sizes(exponent, largest))[:-1], rng.random(rounds), side="right"),
        )
        for empty, exponent in pools
    ]
    return np.array(columns, dtype=np.int64).T


def draw_paper_pools(count: int, rng: np.random.Generator) -> Pools:
    """Pools in the ranges of Ganchev et al.: empty in 67 to 96 % of the cases, exponents of 0.25 to 1.3."""
    empty, exponents = rng.uniform(0.67, 0.96, count), rng.uniform(0.25, 1.3, count)
    return tuple(zip(empty.tolist(), exponents.tolist(), strict=True))
