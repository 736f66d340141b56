"""Combinatorial bandit over dark pools and sizes after Bernasconi et al.: a reconstruction from the abstract."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from riskroute.core.arrays import Floats, Units, Vector
from riskroute.core.records import Count, NonNegative
from riskroute.core.validation import one_of, parameter, true_or_false, whole_number
from riskroute.routers.context import Context
from riskroute.routers.literature.dark_allocation import DarkAllocation, DarkAllocationTask, PendingDarkAllocation
from riskroute.routers.plan import Plan
from riskroute.routing.allocations import allocation_unit_shares


@dataclass
class Cmab(DarkAllocation):
    """Combinatorial bandit: choose a size for every dark pool by index, jointly by dynamic programming, then sweep.

    A reconstruction from the abstract. An arm is a pool and a size, one of at most ``grid`` multiples of a unit. With
    ``share``, a child updates all smaller sizes too, and the filled fraction is assumed to decrease with the size. A
    partial fill also reveals the outcome of larger sizes, but using it would bias their estimates downwards, since
    partial fills occur when pools are small. Dynamic programming finds the best sizes that fit into the order. The
    paper also chooses limit prices; pools here have one price.

    Parameters
    ----------
    index : str
        ``ts``: posterior draw of the filled fraction; ``bayes-ucb``: its posterior quantile at 1 - 1/t; ``ucb``: mean
        plus confidence width, which is loose for fills.
    grid : int
        Maximum number of sizes.
    share : bool
        Share observations among sizes.
    seed : int
        Seed of the draws.

    References
    ----------
    Bernasconi, Martino, Vittori, Trovo and Restelli (2022), `Dark-Pool Smart Order Routing: a Combinatorial Multi-armed
    Bandit Approach <https://doi.org/10.1145/3533271.3561728>`_.
    """

    name: ClassVar[str] = "cmab+sweep"
    memory: ClassVar[tuple[str, ...]] = ("pending", "arms", "played")
    whole_fills: ClassVar[bool] = False
    index: str = parameter("ts", one_of, choices=("ts", "bayes-ucb", "ucb"))
    grid: int = parameter(10, whole_number, maximum=1000)
    share: bool = parameter(True, true_or_false)
    seed: int = parameter(0, whole_number, minimum=0)
    # by pool and shares per unit: trials of sizes 1, 2 .., and sums of their filled fractions
    arms: dict[str, tuple[list[NonNegative], list[NonNegative]]] = field(init=False, repr=False)
    played: dict[str, Count] = field(init=False, repr=False)  # number of orders, by shares per unit

    def begin(self) -> None:
        super().begin()
        self.arms, self.played = {}, {}

    def unit_of(self, context: Context) -> int:
        return allocation_unit_shares(context.shares, context.lot, self.grid)

    def allocate(self, task: DarkAllocationTask) -> tuple[Units, dict[str, dict[str, float]]]:
        key = str(task.unit)
        self.played[key] = self.played.get(key, 0) + 1
        return self._best(task, self.index, self.played[key]), {}

    def _best(self, task: DarkAllocationTask, index: str, time: int) -> Units:
        """Return the sizes with the largest total saving under an index."""
        values = np.zeros((len(task.pools), task.units))
        for k, pool in enumerate(task.pools):
            tried, sums = np.array(self.arms.get(f"{pool} {task.unit}", [[0.0] * self.grid] * 2))[:, : task.units]
            shares = _fill_index(index, tried, sums, time, task.rng)
            if self.share:  # the filled fraction decreases with the size
                shares = np.minimum.accumulate(shares)
            values[k] = task.savings[k] * task.unit * np.arange(1, task.units + 1) * shares
        return _best_super_arm(values, task.units)

    def greedy(self, context: Context) -> Plan | None:
        task = self.task_of(context)
        return None if task is None else self.plan_of(context, task, self._best(task, "mean", 0))

    def learn_child(self, order: PendingDarkAllocation, pool: str, sent: int, filled: float) -> None:
        arms = self.arms.setdefault(f"{pool} {order.unit}", ([0.0] * self.grid, [0.0] * self.grid))
        for size in range(1 if self.share else sent, sent + 1):
            arms[0][size - 1] += 1
            arms[1][size - 1] += min(size, filled) / size


def _fill_index(index: str, tried: Vector, sums: Vector, time: int, rng: np.random.Generator) -> Vector:
    """Return an index of the filled fraction by size: one of `Cmab`, or the ``mean``."""
    if index == "mean":
        return np.asarray(sums / np.maximum(tried, 1))
    if index == "ucb":
        width = np.sqrt(1.5 * np.log(max(time, 2)) / np.maximum(tried, 1))
        return np.where(tried > 0, np.minimum(sums / np.maximum(tried, 1) + width, 1.0), 1.0)
    if index == "ts":
        return rng.beta(1 + sums, 1 + np.maximum(tried - sums, 0))
    from scipy.special import betaincinv

    return np.asarray(betaincinv(1 + sums, 1 + np.maximum(tried - sums, 0), 1 - 1 / max(time, 2)))


def _best_super_arm(values: Floats, units: int) -> Units:
    """Return the sizes ``(K,)`` with the largest total of ``values (K, G)`` of sizes 1 .. G, within ``units``."""
    pools = len(values)
    worth = np.concatenate([np.zeros((pools, 1)), values], axis=1)[:, : units + 1]
    best = np.zeros(units + 1)
    chosen = np.zeros((pools, units + 1), dtype=np.int64)
    used, size = np.arange(units + 1)[:, None], np.arange(worth.shape[1])[None, :]
    for k in range(pools):
        before = np.where(used >= size, best[np.maximum(used - size, 0)], -np.inf) + worth[k]
        chosen[k] = before.argmax(axis=1)
        best = before.max(axis=1)
    left, given = units, np.zeros(pools, dtype=np.int64)
    for k in reversed(range(pools)):
        given[k] = chosen[k, left]
        left -= int(given[k])
    return given
