"""Exponential weights for dark pools against adversarial sizes: exponentiated gradient, and Exp3 for whole units.

References
----------
Agarwal, Bartlett and Dama (2010), `Optimal Allocation Strategies for the Dark Pool Problem
<https://arxiv.org/abs/1003.2245>`_.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from riskroute.core.arrays import Floats, Matrix, Units, Vector
from riskroute.core.records import Count
from riskroute.core.validation import parameter, true_or_false, whole_number
from riskroute.routers.literature.dark_allocation import (
    DarkAllocation,
    DarkAllocationTask,
    PendingDarkAllocation,
    sample_dark_allocation,
)


@dataclass
class ExpGrad(DarkAllocation):
    """Exponentiated gradient over dark pools: raise the weight of pools that fill in full, then sweep.

    Sizes may be adversarial: for any sequence of ``T`` orders of up to ``V`` units over ``K`` pools the regret against
    the best fixed pool for each unit is at most ``3 V sqrt(T ln K)`` units. Fractional units are rounded at random,
    which preserves the expected fill. Gradients are weighted by the saving of a fill.

    Parameters
    ----------
    rounds : int, optional
        Number of orders (T), which sets the learning rate; default: the number so far.
    seed : int
        Seed of the rounding.
    """

    name: ClassVar[str] = "expgrad+sweep"
    memory: ClassVar[tuple[str, ...]] = ("pending", "gradients", "played")
    rounds: int | None = parameter(None, whole_number, maximum=10**12)
    seed: int = parameter(0, whole_number, minimum=0)
    # by shares per unit and pool: sums of gradients of unit 1, 2 ..
    gradients: dict[str, dict[str, list[float]]] = field(init=False, repr=False)
    played: dict[str, Count] = field(init=False, repr=False)  # number of orders, by shares per unit

    def begin(self) -> None:
        super().begin()
        self.gradients, self.played = {}, {}

    def rate(self, pools: int, units: int, rounds: int) -> float:
        """Return the learning rate (eta)."""
        return _expgrad_rate(pools, rounds)

    def allocate(self, task: DarkAllocationTask) -> tuple[Units, dict[str, dict[str, float]]]:
        _, weights = self.weights(task)
        given = sample_dark_allocation(weights.sum(axis=0), task.rng)
        for pool, units, worth in zip(task.pools, given, task.savings / task.savings.max(), strict=True):
            if units == 0:  # a child of 0 units counts as filled in full
                self.move(str(task.unit), pool, np.full(task.units, worth))
        return given, {}

    def weights(self, task: DarkAllocationTask) -> tuple[float, Matrix]:
        """Return the learning rate and the weights of pools, ``(units, K)``."""
        key = str(task.unit)
        self.played[key] = self.played.get(key, 0) + 1
        rate = self.rate(len(task.pools), task.units, self.rounds or self.played[key])
        known = self.gradients.setdefault(key, {})
        long = max([task.units, *map(len, known.values())])
        sums = {pool: np.pad(np.array(some), (0, long - len(some))) for pool, some in known.items()}
        for pool in task.pools:
            if pool not in known:  # a new pool starts with the average weight
                known[pool] = _mean_gradient(rate, list(sums.values()), long).tolist()
        for pool, some in known.items():
            known[pool] = some + [0.0] * (long - len(some))
        return rate, _softmax_weights(rate, np.array([known[pool][: task.units] for pool in task.pools]).T)

    def learn_child(self, order: PendingDarkAllocation, pool: str, sent: int, filled: float) -> None:
        worth = order.savings[pool] / max(order.savings.values())
        if filled == sent:
            self.move(str(order.unit), pool, np.full(order.units, worth))

    def move(self, key: str, pool: str, gradient: Vector) -> None:
        """Add ``gradient (units,)`` to the gradient sums of a pool."""
        sums = self.gradients[key][pool]
        for unit, some in enumerate(gradient.tolist()):
            sums[unit] += some


def _expgrad_rate(pools: int, rounds: int) -> float:
    """Return the learning rate for ``rounds`` rounds: ``sqrt(ln K / ((e - 2) T))``."""
    return math.sqrt(math.log(pools) / ((math.e - 2) * rounds))


def _softmax_weights(rate: float, gradients: Floats) -> Matrix:
    """Return the weights of pools ``(units, K)``: the softmax of the scaled gradient sums."""
    scaled = rate * gradients
    grown = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def _mean_gradient(rate: float, gradients: list[Vector], units: int) -> Vector:
    """Return gradient sums ``(units,)`` that give a new pool the average weight."""
    if not gradients:
        return np.zeros(units)
    if rate == 0:
        return np.asarray(np.mean(gradients, axis=0))
    highest = np.max(gradients, axis=0)
    grown = np.mean([np.exp(rate * (one - highest)) for one in gradients], axis=0)
    return np.asarray(highest + np.log(grown) / rate)


@dataclass
class Exp3(ExpGrad):
    """Exp3 over dark pools: whole units drawn at random, gradients estimated from their fills, then sweep.

    Sizes may be adversarial. The regret against the best fixed pool for each unit is of the order of
    ``(V T K)^(2/3) (ln K)^(1/3)`` units; it grows faster with ``T`` than the regret of `ExpGrad`.

    Parameters
    ----------
    rounds : int, optional
        Number of orders (T); default: the number so far.
    printed : bool
        Use the rate printed in the paper, with ``K`` where minimising the paper's bound gives ``K^2``.
    seed : int
        Seed of the draws.
    """

    name: ClassVar[str] = "exp3+sweep"
    rounds: int | None = None
    printed: bool = parameter(False, true_or_false)
    seed: int = 0

    def rate(self, pools: int, units: int, rounds: int) -> float:
        return _exp3_rate(pools, units, rounds, printed=self.printed)

    def allocate(self, task: DarkAllocationTask) -> tuple[Units, dict[str, dict[str, float]]]:
        rate, weights = self.weights(task)
        drawn = _draw_units(weights, _exp3_mixing(rate, task.units), task.rng)
        columns = {"floors": drawn.floors, "chances": drawn.chances, "lower": drawn.lower}
        notes = {name: dict(zip(task.pools, some.tolist(), strict=True)) for name, some in columns.items()}
        for pool, units, worth in zip(task.pools, drawn.units, task.savings / task.savings.max(), strict=True):
            if units == 0:
                floor, chance, lower = (notes[name][pool] for name in columns)
                self.move(str(task.unit), pool, worth * _estimate_gradient(task.units, floor, 0, 0, chance, lower))
        return drawn.units, notes

    def learn_child(self, order: PendingDarkAllocation, pool: str, sent: int, filled: float) -> None:
        worth = order.savings[pool] / max(order.savings.values())
        floor, chance, lower = (order.notes[name][pool] for name in ("floors", "chances", "lower"))
        self.move(
            str(order.unit), pool, worth * _estimate_gradient(order.units, floor, sent, int(filled), chance, lower)
        )


class _DrawnUnits(NamedTuple):
    """Units drawn for pools, ``(K,)`` each.

    ``floors`` are certain, ``chances`` are the probabilities of one more, and ``lower`` counts the units of the order
    up to which the cumulative weight is at most the floor.
    """

    units: Units
    floors: Units
    chances: Vector
    lower: Units


def _exp3_rate(pools: int, units: int, rounds: int, *, printed: bool = False) -> float:
    """Return the learning rate that minimises the regret bound, or the printed one."""
    logs = math.log(pools)
    divisor = pools * rounds**2 if printed else 2 * pools**2 * rounds**2
    return float((units * logs**2 / divisor) ** (1 / 3))


def _exp3_mixing(rate: float, units: int) -> float:
    """Return the weight of uniform exploration (gamma): ``sqrt(2 eta V)``, at most 0.5."""
    return min(0.5, math.sqrt(2 * rate * units))


def _draw_units(weights: Matrix, mixing: float, rng: np.random.Generator) -> _DrawnUnits:
    """Draw whole units with the expectation ``weights.sum(axis=0)``, mixed with uniform exploration."""
    parts = weights.sum(axis=0)
    floors = np.floor(parts + 1e-9)
    fractions = np.maximum(parts - floors, 0.0)
    more = round(float(fractions.sum()))
    chances = (1 - mixing) * fractions + mixing * more / len(parts)
    chances *= more / chances.sum() if more else 0.0  # without rounding errors, they sum to ``more``
    up = sample_dark_allocation(chances, rng)
    lower = (np.cumsum(weights, axis=0) <= floors + 1e-9).sum(axis=0)
    return _DrawnUnits(floors.astype(np.int64) + up, floors.astype(np.int64), chances, lower)


def _estimate_gradient(
    units: int,
    floor: float | Units,
    sent: int | Units,
    filled: int | Units,
    chance: float | Vector,
    lower: float | Units,
) -> Floats:
    """Return an unbiased estimate of the gradient of a pool's fill, ``(units,)``; ``(units, K)`` for ``K`` pools.

    ``floor``, ``chance`` and ``lower`` are entries of `_DrawnUnits`; ``sent`` and ``filled`` are in units.
    """
    weight = np.divide(1.0, chance, out=np.zeros(np.shape(chance)), where=np.greater(sent, floor))
    certain = np.greater_equal(filled, floor) - np.equal(filled, floor) * weight
    beyond = np.greater(filled, floor) * weight
    unit = np.arange(units).reshape(-1, *(1,) * np.ndim(lower))
    return np.where(unit < lower, certain, beyond)
