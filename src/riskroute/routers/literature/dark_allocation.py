"""What the dark-pool methods of the literature share: an order split over pools that are all tried at once."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Floats, Units, Vector
from riskroute.core.errors import StateError, shown
from riskroute.core.seeding import seed_stream
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Router, unit_shares
from riskroute.routers.rules import plan_take, pool_savings

MOST_UNITS = 200
"""Units at most that an order is split in, by methods whose memory grows with them."""

MOST_WAITING = 10_000
"""Orders at most whose reports are awaited; the oldest are forgotten."""


@dataclass(frozen=True, eq=False)
class AllocationTask:
    """One order as these methods see it: some units to split over some pools.

    ``savings (K,)`` are dollars a share that a fill in each of ``pools`` saves against the sweep, all above 0. An order
    is ``units`` of ``unit`` shares; the last one may be smaller.
    """

    order: str
    pools: tuple[str, ...]
    savings: Vector
    unit: int
    units: int
    time: int
    rng: np.random.Generator


@dataclass
class DarkAllocation(Router):
    """Base class of routers that split an order over dark pools, and sweep what comes back.

    Pools that save nothing against the sweep are left out. A method implements `allocate`, and learns from children one
    by one (`learn_child`) or from all of an order together (`learn_round`). Pools may appear later.
    """

    feedback: ClassVar[str] = "F2"
    memory: ClassVar[tuple[str, ...]] = ("waiting",)
    most_units: ClassVar[int] = MOST_UNITS
    whole_fills: ClassVar[bool] = True
    """Whether a method counts fills in whole units; one with few and large units must know parts of them."""
    waiting: dict[str, dict[str, Any]] = field(init=False, repr=False)
    """By order under way: its ``unit``, ``units`` and ``time``, and by pool the ``savings``, units ``sent`` and, as far
    as known, ``filled``, and whatever `allocate` noted."""

    def begin(self) -> None:
        self.waiting = {}

    @abstractmethod
    def allocate(self, task: AllocationTask) -> tuple[Units, dict[str, Any]]:
        """Return the units that every pool gets, at most all together, and notes for `learn_child`, as JSON."""

    def learn_child(self, order: Mapping[str, Any], pool: str, sent: int, filled: float) -> None:
        """Learn from a child of ``sent`` units; ``order`` is what was kept in `waiting`."""

    def learn_round(self, order: Mapping[str, Any]) -> None:
        """Learn from an order whose children in pools are all reported."""

    def unit_of(self, context: Context) -> int:
        """Shares in a unit: a lot, doubled until there are few enough of them."""
        return unit_shares(context.shares, context.lot, self.most_units)

    def decide(self, context: Context) -> Plan:
        task = self.task_of(context)
        if task is None:
            return Plan(context.order)
        given, notes = self.allocate(task)
        self.waiting[context.order] = {
            "unit": task.unit,
            "units": task.units,
            "time": context.time,
            "savings": dict(zip(task.pools, task.savings.tolist(), strict=True)),
            "sent": {pool: int(units) for pool, units in zip(task.pools, given, strict=True) if units},
            "filled": {},
            **notes,
        }
        while len(self.waiting) > MOST_WAITING:
            self.waiting.pop(next(iter(self.waiting)))
        return self.plan_of(context, task, given)

    def task_of(self, context: Context) -> AllocationTask | None:
        """The order as a method sees it; None if no pool saves anything."""
        savings = {pool: saving for pool, saving in pool_savings(context).items() if saving > 0}
        if not savings:
            return None
        unit = self.unit_of(context)
        return AllocationTask(
            context.order,
            tuple(savings),
            np.array(list(savings.values())),
            unit,
            -(-context.shares // unit),
            context.time,
            np.random.default_rng(seed_stream(getattr(self, "seed", 0), self.name, context.order)),
        )

    def plan_of(self, context: Context, task: AllocationTask, given: Units) -> Plan:
        """Return the plan that sends units to pools; shares that no pool gets are taken at once."""
        dark = {pool: int(units) * task.unit for pool, units in zip(task.pools, given, strict=True) if units}
        over = sum(dark.values()) - context.shares
        if over > 0:  # the last unit is smaller
            dark[max(dark, key=lambda pool: dark[pool])] -= over
        left = context.shares - sum(dark.values())
        taken = plan_take(context, context.displayed.take(left, lot=context.lot)) if left else Plan(context.order)
        return Plan(context.order, dark=dark, take=taken.take, take_limits=taken.take_limits)

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        kept = self.waiting.get(order)
        if kept is None:
            return
        for child in children:
            if child.kind == "dark" and child.sent and child.place in kept["sent"]:
                sent = -(-child.sent // kept["unit"])
                filled: float = sent
                if child.filled < child.sent:
                    filled = child.filled / kept["unit"]
                    filled = min(int(filled), sent - 1) if self.whole_fills else filled
                kept["filled"][child.place] = filled
                self.learn_child(kept, child.place, sent, filled)
        if len(kept["filled"]) == len(kept["sent"]):
            self.learn_round(kept)
            del self.waiting[order]
        elif profit is not None:
            del self.waiting[order]

    def load_memory(self, memory: dict[str, Any]) -> None:
        for name, value in memory.items():
            setattr(self, name, _plain_copy(name, value))


def _plain_copy(name: str, value: Any) -> Any:
    """A copy of plain values with finite numbers."""
    if isinstance(value, dict):
        return {str(key): _plain_copy(name, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain_copy(name, item) for item in value]
    if isinstance(value, str) or (isinstance(value, int | float) and math.isfinite(value)):
        return value
    raise StateError(f"{name} must hold finite numbers, held {shown(value)}")


def systematic_units(parts: Floats, rng: np.random.Generator) -> Units:
    """Whole numbers around ``parts (K,)``, which sum to a whole number, each right on average.

    Systematic sampling: of the fractions, laid end to end, those are rounded up in which a comb of step 1 with a random
    start has a tooth. The sum stays the same, and a part of 3.2 becomes 4 with probability 0.2 exactly. Hence the
    expected fill stays the same too, since it is linear between whole numbers.

    References
    ----------
    Madow (1949), `On the theory of systematic sampling, II <https://doi.org/10.1214/aoms/1177729988>`_.

    Examples
    --------
    >>> systematic_units(np.array([3.2, 0.5, 1.3]), np.random.default_rng(1)).tolist()
    [3, 1, 1]
    """
    whole = np.floor(parts + 1e-9)
    chosen = systematic_sample(np.maximum(parts - whole, 0.0), rng)
    return whole.astype(np.int64) + chosen


def systematic_sample(chances: Floats, rng: np.random.Generator) -> Units:
    """Draw with these probabilities ``(K,)``, which sum to ``m``, exactly ``m`` of K: 1 for those drawn.

    Examples
    --------
    >>> systematic_sample(np.array([0.5, 0.25, 0.75, 0.5]), np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    return comb_sample(chances, float(rng.random()))


def comb_sample(chances: Floats, start: float) -> Units:
    """Return which ``chances (K,)``, laid end to end, hold a tooth of the comb ``start, start + 1 ..``, ``(K,)``."""
    ends = np.cumsum(chances)
    ends[-1:] = np.round(ends[-1:])  # a whole number but for rounding
    teeth = np.floor(np.concatenate([[0.0], ends]) - start)
    return np.diff(teeth).astype(np.int64)


def greedy_units(values: Floats, units: int, rng: np.random.Generator | None = None) -> Units:
    """Give units one by one to the pool whose next one is worth most, as long as it does no harm.

    ``values (K, V)`` are those of the first, second .. unit in each pool and must not rise, so that this is the best
    split. Units worth nothing are given too: to try is free, and may tell something. Of equal ones the pool with the
    fewest units comes first, then one at random, or the first.

    Examples
    --------
    >>> greedy_units(np.array([[0.8, 0.6, 0.1], [0.7, 0.3, 0.0]]), 3).tolist()
    [2, 1]
    """
    pools, sizes = values.shape
    lots = rng.permutation(pools) if rng is not None else np.arange(pools)
    place = np.tile(np.arange(sizes), (pools, 1))
    best = np.lexsort((np.repeat(lots, sizes), place.ravel(), -values.ravel()))[:units]
    worth = best[values.ravel()[best] >= 0]
    return np.bincount(worth // sizes, minlength=pools)


def tail_units(task: AllocationTask, tails: Floats, delay_cost: float) -> Units:
    """Give units greedily by what they save, from the chance ``tails (K, V)`` that a pool takes its first, second ..

    A unit that finds nobody costs ``delay_cost`` a share.
    """
    return greedy_units(task.savings[:, None] * tails - delay_cost * (1 - tails), task.units, task.rng)
