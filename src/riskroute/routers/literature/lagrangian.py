"""Stochastic algorithms of Laruelle, Lehalle and Pages for splitting an order over dark pools.

References
----------
Laruelle, Lehalle and Pages (2011), `Optimal split of orders across liquidity pools: a stochastic algorithm approach
<https://arxiv.org/abs/0910.1166>`_.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from riskroute.core.arrays import Units
from riskroute.core.records import Count, NonNegative
from riskroute.core.validation import parameter, real_number, true_or_false, whole_number
from riskroute.routers.literature.dark_allocation import (
    DarkAllocation,
    DarkAllocationTask,
    PendingDarkAllocation,
    sample_dark_allocation,
)

_FLOOR_ROUNDS = 100  # first rounds, in which every pool gets at least a tenth of an equal share


@dataclass
class _DarkShares(DarkAllocation):
    """Base class of routers that learn each pool's share of an order; fractional lots are rounded at random."""

    memory: ClassVar[tuple[str, ...]] = ("pending", "shares")
    most_units: ClassVar[int] = 10**9
    shares: dict[str, NonNegative] = field(init=False, repr=False)  # by pool, up to a common factor

    def begin(self) -> None:
        super().begin()
        self.shares = {}

    def allocate(self, task: DarkAllocationTask) -> tuple[Units, dict[str, dict[str, float]]]:
        for pool in task.pools:
            if pool not in self.shares:  # a new pool starts with the average share
                known = len(self.shares)
                self.shares[pool] = sum(self.shares.values()) / known if known else 1.0
        some = np.array([self.shares[pool] for pool in task.pools])
        even = np.full(len(some), 1 / len(some))
        parts = task.units * (some / some.sum() if some.sum() > 0 else even)
        return sample_dark_allocation(parts, task.rng), {}


@dataclass
class Lagrangian(_DarkShares):
    """Projected stochastic gradient ascent on the pools' shares of an order, then sweep.

    Order and pool sizes may be any stationary sequence. The expected saving is concave in the shares, with the
    indicator of a full fill as unbiased gradient; iterates are projected onto the simplex, and marginal savings become
    equal. Sizes are relative to the mean order and savings to the mean best saving, so that steps have no unit.

    Parameters
    ----------
    step : float
        Scale of the steps (c): step n is ``step / n``; larger values learn faster and average the noise less.
    constant_step : float, optional
        Constant step size, for pools that change; default: decreasing steps.
    seed : int
        Seed of the rounding.
    """

    name: ClassVar[str] = "lagrangian+sweep"
    memory: ClassVar[tuple[str, ...]] = ("pending", "shares", "learned", "mean_size", "mean_saving")
    step: float = parameter(1.0, real_number, above=0, maximum=1e6)
    constant_step: float | None = parameter(None, real_number, above=0, maximum=1e6)
    seed: int = parameter(0, whole_number, minimum=0)
    learned: Count = field(init=False, repr=False)
    mean_size: NonNegative = field(init=False, repr=False)
    mean_saving: NonNegative = field(init=False, repr=False)

    def begin(self) -> None:
        super().begin()
        self.learned, self.mean_size, self.mean_saving = 0, 0.0, 0.0

    def learn_round(self, order: PendingDarkAllocation) -> None:
        savings = order.savings
        size = float(order.units * order.unit)
        self.learned += 1
        self.mean_size += (size - self.mean_size) / self.learned
        self.mean_saving += (max(savings.values()) - self.mean_saving) / self.learned
        step = self.step / self.learned if self.constant_step is None else self.constant_step
        pools = list(savings)
        mass = sum(self.shares[pool] for pool in pools)
        if mass <= 0:
            return
        full = [order.filled.get(pool, 0) == order.sent.get(pool, 0) for pool in pools]
        worth = [savings[pool] / self.mean_saving for pool in pools]
        now = [self.shares[pool] / mass for pool in pools]
        floor = 0.1 / len(pools) if self.learned <= _FLOOR_ROUNDS else 0.0
        moved = _lagrangian_step(now, full, worth, size / self.mean_size, step, floor)
        self.shares.update({pool: mass * share for pool, share in zip(pools, moved, strict=True)})


def _lagrangian_step(
    shares: Sequence[float],
    full: Sequence[bool],
    worth: Sequence[float],
    size: float,
    step: float,
    floor: float = 0.0,
) -> list[float]:
    """Return the shares after one gradient step: full fills gain ``worth`` (rho), ``size`` is V, ``step`` gamma."""
    gains = [value if filled else 0.0 for filled, value in zip(full, worth, strict=True)]
    mean = sum(gains) / len(gains)
    moved = [share + step * size * (gain - mean) for share, gain in zip(shares, gains, strict=True)]
    return _project_on_simplex(moved, floor)


def _project_on_simplex(point: Sequence[float], floor: float = 0.0) -> list[float]:
    """Return the nearest point whose entries are at least ``floor`` and sum to 1."""
    left = 1.0 - floor * len(point)
    lower, total = 0.0, 0.0
    for count, value in enumerate(sorted(point, reverse=True), start=1):
        total += value - floor
        if value - floor > (total - left) / count:
            lower = (total - left) / count
    return [floor + max(value - floor - lower, 0.0) for value in point]


@dataclass
class Reinforcement(_DarkShares):
    """Split each order over the pools in proportion to their savings so far, then sweep.

    Order and pool sizes may be any stationary sequence. In the limit *average* savings per share sent are equal,
    not marginal ones, and pools with lower average savings get nothing: simple, but not optimal.

    Parameters
    ----------
    weighted : bool
        Weight fills by their saving.
    start : float
        Initial saving of every pool, in multiples of the saving of a completely filled first order.
    seed : int
        Seed of the rounding.
    """

    name: ClassVar[str] = "reinforcement+sweep"
    memory: ClassVar[tuple[str, ...]] = ("pending", "shares", "scale")
    weighted: bool = parameter(True, true_or_false)
    start: float = parameter(1.0, real_number, minimum=1e-9, maximum=1e9)
    seed: int = parameter(0, whole_number, minimum=0)
    scale: NonNegative = field(init=False, repr=False)  # ``start`` times the saving of a full first order; 0 before

    def begin(self) -> None:
        super().begin()
        self.scale = 0.0

    def learn_child(self, order: PendingDarkAllocation, pool: str, sent: int, filled: float) -> None:
        savings = order.savings if self.weighted else dict.fromkeys(order.savings, 1.0)
        if not self.scale:
            self.scale = max(savings.values()) * order.units * order.unit * self.start
        gained = filled * order.unit * savings[pool] / self.scale
        self.shares[pool] += gained
