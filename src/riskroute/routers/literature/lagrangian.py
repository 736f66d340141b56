"""Stochastic gradient ascent on the shares of an order that dark pools get, after Laruelle, Lehalle and Pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Units
from riskroute.core.validation import parameter, real_number, true_or_false, whole_number
from riskroute.routers.literature.dark_allocation import AllocationTask, DarkAllocation, systematic_units

FLOOR_ROUNDS = 100
"""Rounds in which no pool's share falls below a tenth of an even one."""


@dataclass
class DarkShares(DarkAllocation):
    """Base class of routers that learn which share of an order each pool gets; parts of lots are rounded by chance."""

    memory: ClassVar[tuple[str, ...]] = ("waiting", "shares")
    most_units: ClassVar[int] = 10**9
    shares: dict[str, float] = field(init=False, repr=False)
    """By pool; their proportions count."""

    def begin(self) -> None:
        super().begin()
        self.shares = {}

    def allocate(self, task: AllocationTask) -> tuple[Units, dict[str, Any]]:
        for pool in task.pools:
            if pool not in self.shares:  # as much as the others on average
                known = len(self.shares)
                self.shares[pool] = sum(self.shares.values()) / known if known else 1.0
        some = np.array([self.shares[pool] for pool in task.pools])
        even = np.full(len(some), 1 / len(some))
        parts = task.units * (some / some.sum() if some.sum() > 0 else even)
        return systematic_units(parts, task.rng), {}


@dataclass
class Lagrangian(DarkShares):
    """Move shares of an order towards pools whose children are filled in full, until marginal savings are equal.

    Sizes of orders and of what pools hold may be any stationary sequence. The expected saving is concave in the shares,
    and whether a child was filled in full is its gradient, but for noise; a step is projected on shares that sum to 1.
    Sizes are relative to the average order and savings to the average best one, so that steps have no unit.

    Parameters
    ----------
    step : float
        The n-th step is ``step / n`` (c); larger ones learn faster and forget less of the noise.
    constant_step : float, optional
        The same step for ever, for pools that change.
    seed : int
        Of the rounding.

    References
    ----------
    Laruelle, Lehalle and Pages (2011), `Optimal split of orders across liquidity pools: a stochastic algorithm approach
    <https://arxiv.org/abs/0910.1166>`_.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> Lagrangian().route(read_context(books, side="sell", shares=300)).dark
    {'P': 150, 'Q': 150}
    """

    name: ClassVar[str] = "lagrangian+sweep"
    memory: ClassVar[tuple[str, ...]] = ("waiting", "shares", "learned", "mean_size", "mean_saving")
    step: float = parameter(1.0, real_number, above=0, maximum=1e6)
    constant_step: float | None = parameter(None, real_number, above=0, maximum=1e6)
    seed: int = parameter(0, whole_number, minimum=0)
    learned: int = field(init=False, repr=False)
    mean_size: float = field(init=False, repr=False)
    mean_saving: float = field(init=False, repr=False)

    def begin(self) -> None:
        super().begin()
        self.learned, self.mean_size, self.mean_saving = 0, 0.0, 0.0

    def learn_round(self, order: Mapping[str, Any]) -> None:
        savings = order["savings"]
        size = float(order["units"] * order["unit"])
        self.learned += 1
        self.mean_size += (size - self.mean_size) / self.learned
        self.mean_saving += (max(savings.values()) - self.mean_saving) / self.learned
        step = self.step / self.learned if self.constant_step is None else self.constant_step
        pools = list(savings)
        mass = sum(self.shares[pool] for pool in pools)
        if mass <= 0:
            return
        full = [order["filled"].get(pool, 0) == order["sent"].get(pool, 0) for pool in pools]
        worth = [savings[pool] / self.mean_saving for pool in pools]
        now = [self.shares[pool] / mass for pool in pools]
        floor = 0.1 / len(pools) if self.learned <= FLOOR_ROUNDS else 0.0
        moved = lagrangian_step(now, full, worth, size / self.mean_size, step, floor)
        self.shares.update({pool: mass * share for pool, share in zip(pools, moved, strict=True)})


def lagrangian_step(
    shares: Sequence[float],
    full: Sequence[bool],
    worth: Sequence[float],
    size: float,
    step: float,
    floor: float = 0.0,
) -> list[float]:
    """Shares after one step, on the simplex, each at least ``floor``.

    Parameters
    ----------
    shares, full, worth : Sequence
        By pool: its share, whether it filled all that it got, and what a fill saves there (rho).
    size : float
        Of the order (V), relative to the average.
    step : float
        Length of the step (gamma).
    floor : float
        Least share of a pool.

    Examples
    --------
    >>> [round(share, 6) for share in lagrangian_step([0.5, 0.5], [True, False], [1.0, 1.0], 1.0, 0.1)]
    [0.55, 0.45]
    """
    gains = [value if filled else 0.0 for filled, value in zip(full, worth, strict=True)]
    mean = sum(gains) / len(gains)
    moved = [share + step * size * (gain - mean) for share, gain in zip(shares, gains, strict=True)]
    return project_on_simplex(moved, floor)


def project_on_simplex(point: Sequence[float], floor: float = 0.0) -> list[float]:
    """The nearest point whose entries are at least ``floor`` and sum to 1.

    Examples
    --------
    >>> [round(value, 6) for value in project_on_simplex([1.2, 0.4, -0.3])]
    [0.9, 0.1, 0.0]
    """
    left = 1.0 - floor * len(point)
    lower, total = 0.0, 0.0
    for count, value in enumerate(sorted(point, reverse=True), start=1):
        total += value - floor
        if value - floor > (total - left) / count:
            lower = (total - left) / count
    return [floor + max(value - floor - lower, 0.0) for value in point]


# MERGED: Reinforcement: pools get shares of an order in proportion to what they have saved so far.


@dataclass
class Reinforcement(DarkShares):
    """Give every pool the share of an order that it has in all savings so far.

    Sizes of orders and of what pools hold may be any stationary sequence. The shares settle where the *average* saving
    of what is sent to a pool is the same for all, not the marginal one, and pools that cannot keep up die out: less
    than optimal, and simple.

    Parameters
    ----------
    weighted : bool
        Whether fills are weighed with what they save.
    start : float
        What every pool counts as having saved at first, in average orders that were filled whole.
    seed : int
        Of the rounding.

    References
    ----------
    Laruelle, Lehalle and Pages (2011), `Optimal split of orders across liquidity pools: a stochastic algorithm approach
    <https://arxiv.org/abs/0910.1166>`_.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> Reinforcement().route(read_context(books, side="sell", shares=300)).dark
    {'P': 150, 'Q': 150}
    """

    name: ClassVar[str] = "reinforcement+sweep"
    memory: ClassVar[tuple[str, ...]] = ("waiting", "shares", "scale")
    weighted: bool = parameter(True, true_or_false)
    start: float = parameter(1.0, real_number, minimum=1e-9, maximum=1e9)
    seed: int = parameter(0, whole_number, minimum=0)
    scale: float = field(init=False, repr=False)
    """What the first order would have saved if it had been filled whole; 0 before."""

    def begin(self) -> None:
        super().begin()
        self.scale = 0.0

    def learn_child(self, order: Mapping[str, Any], pool: str, sent: int, filled: float) -> None:
        savings = order["savings"] if self.weighted else dict.fromkeys(order["savings"], 1.0)
        if not self.scale:
            self.scale = max(savings.values()) * order["units"] * order["unit"] * self.start
        gained = filled * order["unit"] * savings[pool] / self.scale
        self.shares[pool] += gained


def reinforcement_step(
    sums: Sequence[float], filled: Sequence[float], worth: Sequence[float]
) -> tuple[list[float], list[float]]:
    """What pools have saved after a round, and the shares of the next order that follow.

    Examples
    --------
    >>> reinforcement_step([1.0, 1.0], [2.0, 0.0], [0.5, 1.0])
    ([2.0, 1.0], [0.6666666666666666, 0.3333333333333333])
    """
    after = [before + fill * value for before, fill, value in zip(sums, filled, worth, strict=True)]
    total = sum(after)
    return after, [some / total for some in after]
