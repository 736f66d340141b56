"""Exponentiated gradient: a split over dark pools that does well against any sequence of sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from riskroute.core.arrays import Floats, Matrix, Units, Vector
from riskroute.core.validation import parameter, true_or_false, whole_number
from riskroute.routers.literature.dark_allocation import (
    AllocationTask,
    DarkAllocation,
    systematic_sample,
    systematic_units,
)


@dataclass
class ExpGrad(DarkAllocation):
    """Split every unit of an order over pools, with weights that grow for pools whose children are filled in full.

    Nothing is assumed about sizes: against any sequence of ``T`` orders of up to ``V`` units over ``K`` pools it fills
    less than the best fixed list of pools, unit by unit, by at most ``3 V sqrt(T ln K)`` units. Parts of units are
    rounded up or down by chance, which leaves the expected fill as it is. Gradients are weighed with what a fill saves.

    Parameters
    ----------
    rounds : int, optional
        Orders that there will be (T), which says how fast to learn; None: as many as there were so far.
    seed : int
        Of the rounding.

    References
    ----------
    Agarwal, Bartlett and Dama (2010), `Optimal Allocation Strategies for the Dark Pool Problem
    <https://arxiv.org/abs/1003.2245>`_.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> ExpGrad().route(read_context(books, side="sell", shares=200, lot=100)).dark
    {'P': 100, 'Q': 100}
    """

    name: ClassVar[str] = "expgrad+sweep"
    memory: ClassVar[tuple[str, ...]] = ("waiting", "gradients", "played")
    rounds: int | None = parameter(None, whole_number, maximum=10**12)
    seed: int = parameter(0, whole_number, minimum=0)
    gradients: dict[str, dict[str, list[float]]] = field(init=False, repr=False)
    """By shares in a unit and by pool: sums of gradients of unit 1, 2 .."""
    played: dict[str, int] = field(init=False, repr=False)
    """Orders so far, by shares in a unit."""

    def begin(self) -> None:
        super().begin()
        self.gradients, self.played = {}, {}

    def rate(self, pools: int, units: int, rounds: int) -> float:
        """How fast weights grow (eta)."""
        return expgrad_rate(pools, rounds)

    def allocate(self, task: AllocationTask) -> tuple[Units, dict[str, Any]]:
        _, weights = self.weights(task)
        given = systematic_units(weights.sum(axis=0), task.rng)
        for pool, units, worth in zip(task.pools, given, _relative(task), strict=True):
            if units == 0:  # nothing sent, all of it filled
                self.move(str(task.unit), pool, np.full(task.units, worth))
        return given, {}

    def weights(self, task: AllocationTask) -> tuple[float, Matrix]:
        """The rate and the weights of pools, ``(units, K)``."""
        key = str(task.unit)
        self.played[key] = self.played.get(key, 0) + 1
        rate = self.rate(len(task.pools), task.units, self.rounds or self.played[key])
        known = self.gradients.setdefault(key, {})
        long = max([task.units, *map(len, known.values())])
        sums = {pool: np.pad(np.array(some), (0, long - len(some))) for pool, some in known.items()}
        for pool in task.pools:
            if pool not in known:  # as heavy as the others on average
                known[pool] = expgrad_mean_gradient(rate, list(sums.values()), long).tolist()
        for pool, some in known.items():
            known[pool] = some + [0.0] * (long - len(some))
        return rate, softmax_weights(rate, np.array([known[pool][: task.units] for pool in task.pools]).T)

    def learn_child(self, order: Mapping[str, Any], pool: str, sent: int, filled: float) -> None:
        worth = order["savings"][pool] / max(order["savings"].values())
        if filled == sent:
            self.move(str(order["unit"]), pool, np.full(order["units"], worth))

    def move(self, key: str, pool: str, gradient: Vector) -> None:
        """Add to the gradients of a pool."""
        sums = self.gradients[key][pool]
        for unit, some in enumerate(gradient.tolist()):
            sums[unit] += some


def _relative(task: AllocationTask) -> Vector:
    return np.asarray(task.savings / task.savings.max())


def expgrad_rate(pools: int, rounds: int) -> float:
    """The rate eta for ``rounds`` rounds: ``sqrt(ln K / ((e - 2) T))``.

    Examples
    --------
    >>> round(expgrad_rate(2, 100), 7)
    0.0982348
    """
    return math.sqrt(math.log(pools) / ((math.e - 2) * rounds))


def softmax_weights(rate: float, gradients: Floats) -> Matrix:
    """Weights of pools, ``(units, K)``, from sums of gradients of the same shape.

    Examples
    --------
    >>> softmax_weights(expgrad_rate(2, 100), np.array([[1.0, 0.0]])).round(7).tolist()  # the first pool filled
    [[0.524539, 0.475461]]
    """
    scaled = rate * gradients
    grown = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def expgrad_mean_gradient(rate: float, gradients: list[Vector], units: int) -> Vector:
    """Gradients ``(units,)`` with which a new pool gets as much as the others on average."""
    if not gradients:
        return np.zeros(units)
    if rate == 0:
        return np.asarray(np.mean(gradients, axis=0))
    highest = np.max(gradients, axis=0)
    grown = np.mean([np.exp(rate * (one - highest)) for one in gradients], axis=0)
    return np.asarray(highest + np.log(grown) / rate)


def expgrad_full_fills(parts: Floats, sizes: Floats) -> Floats:
    """Gradients of what is filled: 1 for pools that fill all of their part, 0 for others; works on any shape.

    Examples
    --------
    >>> expgrad_full_fills(np.array([1.5, 0.5]), np.array([2.0, 0.0])).tolist()
    [1.0, 0.0]
    """
    return np.asarray(sizes >= parts, dtype=np.float64)


def play_expgrad(sizes: Floats, units: Units, rate: float) -> Floats:
    """Fractional units that the algorithm sends to pools of known ``sizes (T, K)``, ``(T, K)``.

    ``units (T,)`` are those of each order. It learns from full fills alone.

    Examples
    --------
    >>> play_expgrad(np.array([[2.0, 0.0], [2.0, 0.0]]), np.array([2, 2]), expgrad_rate(2, 100)).round(6).tolist()
    [[1.0, 1.0], [1.049078, 0.950922]]
    """
    rounds, pools = sizes.shape
    gradients, sent = np.zeros((int(units.max(initial=0)), pools)), np.zeros((rounds, pools))
    for t in range(rounds):
        sent[t] = softmax_weights(rate, gradients[: units[t]]).sum(axis=0)
        gradients[: units[t]] += expgrad_full_fills(sent[t], sizes[t])
    return sent


# MERGED: Exp3 for dark pools: whole units only, and gradients estimated from what their fills reveal.


@dataclass
class Exp3(ExpGrad):
    """Split an order over pools in whole units, drawn so that their fills show how much one more would have filled.

    Nothing is assumed about sizes. Regret against the best fixed list of pools is of the order of
    ``(V T K)^(2/3) (ln K)^(1/3)`` units: slower than `ExpGrad`, which may send parts of units.

    Parameters
    ----------
    rounds : int, optional
        Orders that there will be (T); None: as many as there were so far.
    printed : bool
        Whether the rate is the one printed in the paper, with ``K`` where minimising the paper's bound gives ``K^2``.
    seed : int
        Of the draws.

    References
    ----------
    Agarwal, Bartlett and Dama (2010), `Optimal Allocation Strategies for the Dark Pool Problem
    <https://arxiv.org/abs/1003.2245>`_.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> Exp3().route(read_context(books, side="sell", shares=200, lot=100)).dark
    {'P': 100, 'Q': 100}
    """

    name: ClassVar[str] = "exp3+sweep"
    rounds: int | None = None
    printed: bool = parameter(False, true_or_false)
    seed: int = 0

    def rate(self, pools: int, units: int, rounds: int) -> float:
        return exp3_rate(pools, units, rounds, printed=self.printed)

    def allocate(self, task: AllocationTask) -> tuple[Units, dict[str, Any]]:
        rate, weights = self.weights(task)
        drawn = draw_units(weights, exp3_mixing(rate, task.units), task.rng)
        notes: dict[str, dict[str, Any]] = {"floors": {}, "chances": {}, "lower": {}}
        for place, pool in enumerate(task.pools):
            notes["floors"][pool] = int(drawn.floors[place])
            notes["chances"][pool] = float(drawn.chances[place])
            notes["lower"][pool] = int(drawn.lower[place])
            if drawn.units[place] == 0:
                worth = task.savings[place] / task.savings.max()
                sizes = (int(drawn.floors[place]), 0, 0, float(drawn.chances[place]), int(drawn.lower[place]))
                self.move(str(task.unit), pool, worth * estimate_gradient(task.units, *sizes))
        return drawn.units, notes

    def learn_child(self, order: Mapping[str, Any], pool: str, sent: int, filled: float) -> None:
        worth = order["savings"][pool] / max(order["savings"].values())
        floor, chance, lower = (order[name][pool] for name in ("floors", "chances", "lower"))
        self.move(
            str(order["unit"]), pool, worth * estimate_gradient(order["units"], floor, sent, int(filled), chance, lower)
        )


class DrawnUnits(NamedTuple):
    """Units drawn for pools, ``(K,)`` each.

    ``floors`` are certain, ``chances`` those of one more, and ``lower`` how many units of the order are within them.
    """

    units: Units
    floors: Units
    chances: Vector
    lower: Units


def exp3_rate(pools: int, units: int, rounds: int, *, printed: bool = False) -> float:
    """The rate eta that minimises the bound of the regret, or the printed one.

    Examples
    --------
    >>> round(exp3_rate(2, 2, 100), 6), round(exp3_rate(2, 2, 100, printed=True), 6)
    (0.022901, 0.036354)
    """
    logs = math.log(pools)
    divisor = pools * rounds**2 if printed else 2 * pools**2 * rounds**2
    return float((units * logs**2 / divisor) ** (1 / 3))


def exp3_mixing(rate: float, units: int) -> float:
    """How much the draw is evened out over pools (gamma): ``sqrt(2 eta V)``, at most a half.

    Examples
    --------
    >>> round(exp3_mixing(0.022901, 2), 4), exp3_mixing(0.5, 100)
    (0.3027, 0.5)
    """
    return min(0.5, math.sqrt(2 * rate * units))


def exp3_bound(rate: float, mixing: float, pools: int, units: int, rounds: int) -> float:
    """The paper's bound of the regret in units, as a function of rate and mixing."""
    spread = rounds * units + rounds * units * pools / mixing + rounds * pools
    return units * math.log(pools) / rate + 2 * rate * spread + mixing * rounds * pools


def draw_units(weights: Matrix, mixing: float, rng: np.random.Generator) -> DrawnUnits:
    """Draw whole units around the sums of ``weights (units, K)``."""
    parts = weights.sum(axis=0)
    floors = np.floor(parts + 1e-9)
    fractions = np.maximum(parts - floors, 0.0)
    more = round(float(fractions.sum()))
    chances = (1 - mixing) * fractions + mixing * more / len(parts)
    chances *= more / chances.sum() if more else 0.0  # a whole number but for rounding
    up = systematic_sample(chances, rng)
    lower = (np.cumsum(weights, axis=0) <= floors + 1e-9).sum(axis=0)
    return DrawnUnits(floors.astype(np.int64) + up, floors.astype(np.int64), chances, lower)


def estimate_gradient(
    units: int, floor: int | Units, sent: int | Units, filled: int | Units, chance: float | Vector, lower: int | Units
) -> Floats:
    """Estimate of how much more of a pool would have filled, ``(units,)``, right on average over the draw.

    With arrays ``(K,)`` those of several pools, ``(units, K)``.

    Parameters
    ----------
    units : int
        Of the order.
    floor, lower : int
        Units that were certain, and units of the order that lie within them.
    sent, filled : int
        What was drawn, and what came of it.
    chance : float
        Of one more than ``floor``.

    Examples
    --------
    >>> estimate_gradient(4, 1, 2, 1, 0.5, 2).tolist(), estimate_gradient(4, 1, 2, 2, 0.5, 2).tolist()
    ([-1.0, -1.0, 0.0, 0.0], [1.0, 1.0, 2.0, 2.0])
    """
    weight = np.divide(1.0, chance, out=np.zeros(np.shape(chance)), where=np.greater(sent, floor))
    certain = np.greater_equal(filled, floor) - np.equal(filled, floor) * weight
    beyond = np.greater(filled, floor) * weight
    unit = np.arange(units).reshape(-1, *(1,) * np.ndim(lower))
    return np.where(unit < lower, certain, beyond)
