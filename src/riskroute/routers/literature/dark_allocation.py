"""Common part of the dark pool methods: split one order over pools that are pinged at once, and learn from fills."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from riskroute.core.arrays import Floats, Units, Vector
from riskroute.core.records import Count, NonNegative, Positive
from riskroute.core.seeding import seed_stream
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Router
from riskroute.routers.rules import plan_take
from riskroute.routing.allocations import unit_shares


@dataclass(frozen=True, eq=False)
class AllocationTask:
    """Units of one order to allocate to pools.

    ``savings (K,)`` are the savings of a fill in each of ``pools`` against the sweep, in dollars per share, all
    positive. The order has ``units`` units of ``unit`` shares; the last one may be smaller.
    """

    order: str
    pools: tuple[str, ...]
    savings: Vector
    unit: int
    units: int
    time: int
    rng: np.random.Generator

    def best_units(self, tails: Floats, delay_cost: float) -> Units:
        """Allocate units greedily by expected saving, given ``tails (K, V)``: P(pool fills its first, second .. unit).

        An unfilled unit costs ``delay_cost`` per share.
        """
        return _greedy_units(self.savings[:, None] * tails - delay_cost * (1 - tails), self.units, self.rng)


@dataclass
class PendingAllocation:
    """Allocation in flight: units sent and filled by pool, and the ``notes`` of `allocate`."""

    unit: Annotated[int, msgspec.Meta(gt=0)]
    units: Annotated[int, msgspec.Meta(gt=0)]
    time: int
    savings: dict[str, Positive]
    sent: dict[str, Count]
    notes: dict[str, dict[str, float]] = field(default_factory=dict)
    filled: dict[str, NonNegative] = field(default_factory=dict)


@dataclass
class DarkAllocation(Router):
    """Base class of routers that split an order over dark pools and sweep the remainder.

    Pools that save nothing against the sweep are skipped. A method implements `allocate`, and learns from single
    children (`learn_child`) or from complete allocations (`learn_round`). New pools may appear at any time.
    """

    feedback: ClassVar[str] = "F2"
    memory: ClassVar[tuple[str, ...]] = ("pending",)
    most_units: ClassVar[int] = 200  # maximum units per order: memory and time grow with them
    most_pending: ClassVar[int] = 10_000  # orders whose fills are awaited; the oldest are dropped
    whole_fills: ClassVar[bool] = True  # count fills in whole units; false for methods with few, large units
    pending: dict[str, PendingAllocation] = field(init=False, repr=False)

    def begin(self) -> None:
        self.pending = {}

    @abstractmethod
    def allocate(self, task: AllocationTask) -> tuple[Units, dict[str, dict[str, float]]]:
        """Return the units for every pool, and numbers by name and pool that `learn_child` will need."""

    def learn_child(self, order: PendingAllocation, pool: str, sent: int, filled: float) -> None:
        """Learn from a child of ``sent`` units."""

    def learn_round(self, order: PendingAllocation) -> None:
        """Learn from an allocation whose children are all reported."""

    def unit_of(self, context: Context) -> int:
        """Return the shares per unit."""
        return unit_shares(context.shares, context.lot, self.most_units)

    def decide(self, context: Context) -> Plan:
        task = self.task_of(context)
        if task is None:
            return Plan(context.order)
        given, notes = self.allocate(task)
        savings = dict(zip(task.pools, task.savings.tolist(), strict=True))
        sent = {pool: int(units) for pool, units in zip(task.pools, given, strict=True) if units}
        self.pending[context.order] = PendingAllocation(task.unit, task.units, context.time, savings, sent, notes)
        while len(self.pending) > self.most_pending:
            self.pending.pop(next(iter(self.pending)))
        return self.plan_of(context, task, given)

    def task_of(self, context: Context) -> AllocationTask | None:
        """Return the allocation task of an order; None if no pool saves anything."""
        savings = {pool: saving for pool, saving in context.pool_savings.items() if saving > 0}
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
        """Return the plan that pings pools with units and takes the remaining shares immediately."""
        dark = {pool: int(units) * task.unit for pool, units in zip(task.pools, given, strict=True) if units}
        over = sum(dark.values()) - context.shares
        if over > 0:  # the last unit is smaller
            dark[max(dark, key=lambda pool: dark[pool])] -= over
        left = context.shares - sum(dark.values())
        plan = plan_take(context, context.displayed.take(left, lot=context.lot)) if left else Plan(context.order)
        return dataclasses.replace(plan, dark=dark)

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        pending = self.pending.get(order)
        if pending is None:
            return
        for child in children:
            if child.kind == "dark" and child.sent and child.place in pending.sent:
                sent = -(-child.sent // pending.unit)
                filled: float = sent
                if child.filled < child.sent:
                    filled = child.filled / pending.unit
                    filled = min(int(filled), sent - 1) if self.whole_fills else filled
                pending.filled[child.place] = filled
                self.learn_child(pending, child.place, sent, filled)
        if len(pending.filled) == len(pending.sent):
            self.learn_round(pending)
            del self.pending[order]
        elif profit is not None:
            del self.pending[order]


def systematic_units(parts: Floats, rng: np.random.Generator) -> Units:
    """Round ``parts (K,)``, which sum to an integer, to integers with the same sum and expectation.

    Systematic sampling: a part of 3.2 becomes 4 with probability 0.2 exactly, and the sum does not change. The expected
    fill does not change either, since it is linear between integers.

    References
    ----------
    Madow (1949), `On the theory of systematic sampling, II <https://doi.org/10.1214/aoms/1177729988>`_.
    """
    whole = np.floor(parts + 1e-9)
    return whole.astype(np.int64) + _comb_sample(np.maximum(parts - whole, 0.0), float(rng.random()))


def _comb_sample(chances: Floats, start: float) -> Units:
    """Return the number of points ``start, start + 1 ..`` in each of the adjacent intervals of length ``chances``."""
    ends = np.cumsum(chances)
    ends[-1:] = np.round(ends[-1:])  # an integer, up to rounding errors
    teeth = np.floor(np.concatenate([[0.0], ends]) - start)
    return np.diff(teeth).astype(np.int64)


def _greedy_units(values: Floats, units: int, rng: np.random.Generator | None = None) -> Units:
    """Allocate units one by one to the pool with the largest marginal value, while it is not negative.

    Marginal values ``(K, V)`` must not increase. Units worth 0 are allocated too: pinging is free and informative.
    """
    pools, sizes = values.shape
    lots = rng.permutation(pools) if rng is not None else np.arange(pools)
    place = np.tile(np.arange(sizes), (pools, 1))
    best = np.lexsort((np.repeat(lots, sizes), place.ravel(), -values.ravel()))[:units]
    worth = best[values.ravel()[best] >= 0]
    return np.bincount(worth // sizes, minlength=pools)
