"""Exp3 for dark pools: whole units only, and gradients estimated from what their fills reveal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from riskroute.core.arrays import Floats, Matrix, Units, Vector
from riskroute.core.parameters import parameter
from riskroute.core.validation import true_or_false
from riskroute.routers.dark_allocation import AllocationTask, systematic_sample
from riskroute.routers.expgrad import ExpGrad


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
