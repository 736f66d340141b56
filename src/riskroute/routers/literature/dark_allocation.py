"""Dark pool methods: split an order over pools, ping them at once, and learn sizes from censored fills.

A child filled in full shows only that the pool held at least as much: the pool's size is right-censored.

References
----------
Ganchev, Nevmyvaka, Kearns and Vaughan (2009), `Censored Exploration and the Dark Pool Problem
<https://arxiv.org/abs/1205.2646>`_: `KaplanMeier`, and section 5: `ParMl`.
Montanari, Fiegel, Pla, Saha and Perchet (2026), `arXiv 2602.06565 <https://arxiv.org/abs/2602.06565>`_: `RaUcb`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from riskroute.core.arrays import Floats, Matrix, Units, Vector
from riskroute.core.records import Count, NonNegative, Positive
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import one_of, parameter, real_number, whole_number
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Router
from riskroute.routers.rules import take_rule_plan
from riskroute.routing.allocations import allocation_unit_shares

FINE = 200  # sizes up to this have a hazard each; beyond, bins of 1, 2, 4, 8 .. units share one


@dataclass(frozen=True, eq=False)
class DarkAllocationTask:
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
class PendingDarkAllocation:
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

    Pools that save nothing against the sweep are skipped. A subclass implements `allocate`, and learns from single
    children (`learn_child`) or from complete allocations (`learn_round`). New pools may appear at any time.
    """

    feedback: ClassVar[str] = "F2"
    memory: ClassVar[tuple[str, ...]] = ("pending",)
    most_units: ClassVar[int] = 200  # maximum units per order: memory and time grow with them
    most_pending: ClassVar[int] = 10_000  # orders whose fills are awaited; the oldest are dropped
    whole_fills: ClassVar[bool] = True  # count fills in whole units; false for methods with few, large units
    pending: dict[str, PendingDarkAllocation] = field(init=False, repr=False)

    def begin(self) -> None:
        self.pending = {}

    @abstractmethod
    def allocate(self, task: DarkAllocationTask) -> tuple[Units, dict[str, dict[str, float]]]:
        """Return units by pool, at most ``task.units`` in total, and notes by name and pool for `learn_child`."""

    def learn_child(self, order: PendingDarkAllocation, pool: str, sent: int, filled: float) -> None:
        """Learn from a child of ``sent`` units."""

    def learn_round(self, order: PendingDarkAllocation) -> None:
        """Learn from an allocation whose children are all reported."""

    def unit_of(self, context: Context) -> int:
        """Return the shares per unit."""
        return allocation_unit_shares(context.shares, context.lot, self.most_units)

    def decide(self, context: Context) -> Plan:
        task = self.task_of(context)
        if task is None:
            return Plan(context.order)
        given, notes = self.allocate(task)
        savings = dict(zip(task.pools, task.savings.tolist(), strict=True))
        sent = {pool: int(units) for pool, units in zip(task.pools, given, strict=True) if units}
        self.pending[context.order] = PendingDarkAllocation(task.unit, task.units, context.time, savings, sent, notes)
        while len(self.pending) > self.most_pending:
            self.pending.pop(next(iter(self.pending)))
        return self.plan_of(context, task, given)

    def task_of(self, context: Context) -> DarkAllocationTask | None:
        """Return the allocation task of an order; None if no pool saves anything."""
        savings = {pool: saving for pool, saving in context.pool_savings.items() if saving > 0}
        if not savings:
            return None
        unit = self.unit_of(context)
        return DarkAllocationTask(
            context.order,
            tuple(savings),
            np.array(list(savings.values())),
            unit,
            -(-context.shares // unit),
            context.time,
            np.random.default_rng(seed_stream(getattr(self, "seed", 0), self.name, context.order)),
        )

    def plan_of(self, context: Context, task: DarkAllocationTask, given: Units) -> Plan:
        """Return the plan that pings pools with the given units and takes the remaining shares immediately."""
        dark = {pool: int(units) * task.unit for pool, units in zip(task.pools, given, strict=True) if units}
        over = sum(dark.values()) - context.shares
        if over > 0:  # the last unit is smaller
            dark[max(dark, key=lambda pool: dark[pool])] -= over
        left = context.shares - sum(dark.values())
        plan = take_rule_plan(context, context.displayed.take(left, lot=context.lot)) if left else Plan(context.order)
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


def sample_dark_allocation(parts: Floats, rng: np.random.Generator) -> Units:
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
    ends[-1:] = np.round(ends[-1:])  # the sum of the chances is an integer, up to rounding errors
    teeth = np.floor(np.concatenate([[0.0], ends]) - start)
    return np.diff(teeth).astype(np.int64)


def _greedy_units(values: Floats, units: int, rng: np.random.Generator | None = None) -> Units:
    """Allocate units one by one to the pool with the largest marginal value, while it is not negative.

    Marginal ``values (K, V)`` must not increase. Units of value 0 are allocated too: pinging is free and informative.
    """
    pools, sizes = values.shape
    lots = rng.permutation(pools) if rng is not None else np.arange(pools)
    place = np.tile(np.arange(sizes), (pools, 1))
    best = np.lexsort((np.repeat(lots, sizes), place.ravel(), -values.ravel()))[:units]
    worth = best[values.ravel()[best] >= 0]
    return np.bincount(worth // sizes, minlength=pools)


@dataclass
class _BinCounts:
    """Children that ended in each size bin, and children that reached it (D and N), as of ``time``."""

    time: int
    ended: list[NonNegative] = field(default_factory=list)
    tried: list[NonNegative] = field(default_factory=list)


@dataclass
class KaplanMeier(DarkAllocation):
    """Allocate lots greedily by Kaplan-Meier estimates of dark pool sizes, then sweep.

    The model: a pool holds at least ``s`` lots with probability ``T(s)``, independently over time and pools. The
    product-limit estimator handles the censoring. Estimates are trusted below the first bin with too few trials;
    this bin is assumed to be as likely as the last trusted size, which makes the method explore.

    Parameters
    ----------
    mode : str
        ``theory``: the theorem's number of trials, practically never reached; ``practical``: ``least`` trials;
        ``discounted``: as practical, with counts that halve every ``half_life`` seconds.
    least : int
        Trials of a size before its estimate is trusted (n0). The first unit needs ``least`` times the logarithm of the
        number of orders: otherwise a few unfilled children at the start would exclude a pool permanently.
    delay_cost : float
        Cost of an unfilled share, in dollars (e); lots with a negative expected value are swept immediately.
    half_life : float
        Half-life of counts in seconds, for ``discounted``.
    epsilon, delta : float
        Optimality gap and failure probability of the theorem.
    seed : int
        Seed of tie-breaking.

    Notes
    -----
    Unlike in the paper, fills are weighted by their saving.
    """

    name: ClassVar[str] = "kaplan-meier+sweep"
    memory: ClassVar[tuple[str, ...]] = ("pending", "counts", "played")
    most_units: ClassVar[int] = 1024
    mode: str = parameter("practical", one_of, choices=("theory", "practical", "discounted"))
    least: int = parameter(20, whole_number)
    delay_cost: float = parameter(0.0, real_number, minimum=0)
    half_life: float = parameter(86_400.0, real_number, minimum=1e-3)
    epsilon: float = parameter(1.0, real_number, minimum=1e-9)
    delta: float = parameter(0.1, real_number, minimum=1e-9, below=1)
    seed: int = parameter(0, whole_number, minimum=0)
    counts: dict[str, _BinCounts] = field(init=False, repr=False)  # by pool and shares per unit
    played: Count = field(init=False, repr=False)  # number of orders

    def begin(self) -> None:
        super().begin()
        self.counts, self.played = {}, 0

    def allocate(self, task: DarkAllocationTask) -> tuple[Units, dict[str, dict[str, float]]]:
        self.played += 1
        tails = np.array([self.tail(pool, task) for pool in task.pools])
        return task.best_units(tails, self.delay_cost), {}

    def tail(self, pool: str, task: DarkAllocationTask) -> Vector:
        """Return optimistic probabilities that a pool holds at least 1, 2 .. units, ``(units,)``."""
        counts = self.counts.get(f"{pool} {task.unit}")
        if counts is None:
            return np.ones(task.units)
        weight = self._decay(task.time - counts.time)
        ended, tried = np.array(counts.ended), weight * np.array(counts.tried)
        tails = _binned_tails(ended * weight, tried, task.units)
        needed = np.full(task.units, float(self.least))
        needed[0] *= max(math.log(self.played), 1.0)
        if self.mode == "theory":
            needed = _theory_counts(task.units, self.epsilon, self.delta)
        return _optimistic_tails(tails, tried, needed)

    def _decay(self, nanoseconds: int) -> float:
        """Return the weight of counts of this age."""
        seconds = max(nanoseconds, 0) / 1e9
        return float(0.5 ** (seconds / self.half_life)) if self.mode == "discounted" else 1.0

    def learn_child(self, order: PendingDarkAllocation, pool: str, sent: int, filled: float) -> None:
        time = order.time
        counts = self.counts.setdefault(f"{pool} {order.unit}", _BinCounts(time))
        # reports may arrive late: old and new counts are discounted to the later of the two times
        old, late = self._decay(time - counts.time), self._decay(counts.time - time)
        ended, tried = _count_fills([(sent, int(filled))])
        counts.ended = _discounted_sum(old, counts.ended, late, ended.tolist())
        counts.tried = _discounted_sum(old, counts.tried, late, tried.tolist())
        counts.time = max(time, counts.time)


def _discounted_sum(old: float, before: list[float], late: float, more: list[float]) -> list[float]:
    return [old * was + late * new for was, new in itertools.zip_longest(before, more, fillvalue=0.0)]


def _bin_edges(size: int) -> Units:
    """Return the first size of every bin, and the end of the last, up to ``size``: 0, 1 .. 201, 202, 204, 208 .."""
    fine = np.arange(min(size, FINE) + 1)
    if size <= FINE:
        return fine
    wide = FINE + 2 ** np.arange(int(math.log2(size - FINE)) + 1)
    return np.concatenate([fine, wide])


def _count_fills(children: list[tuple[int, int]]) -> tuple[Vector, Vector]:
    """Return by bin the children that ended there (D) and those that reached it (N), from units sent and filled."""
    edges = _edges_beyond(max((sent for sent, _ in children), default=0))
    width = np.diff(edges)
    ended, tried = np.zeros(len(width)), np.zeros(len(width))
    for sent, filled in children:
        tried += np.clip(min(filled + 1, sent) - edges[:-1], 0, width)
        if filled < sent:
            ended[int(np.searchsorted(edges, filled, side="right")) - 1] += 1
    return ended, tried


def _edges_beyond(size: int) -> Units:
    """Return bin edges up to at least ``size``."""
    edges = _bin_edges(size)
    return edges if edges[-1] >= size else np.append(edges, 2 * edges[-1] - FINE)


def _binned_tails(ended: Vector, tried: Vector, units: int) -> Vector:
    """Return the product-limit estimate of P(size >= 1, 2 .. units), ``(units,)``."""
    width = np.diff(_edges_beyond(units))
    hazards = np.divide(ended, tried, out=np.zeros(len(ended)), where=tried > 0)
    by_bin = np.zeros(len(width))
    by_bin[: len(hazards)] = hazards[: len(width)]
    return np.asarray(np.cumprod(1 - np.repeat(by_bin, width)[:units]), dtype=np.float64)


def _optimistic_tails(tails: Vector, tried: Vector, needed: float | Floats) -> Vector:
    """Raise the tails in the first bin with fewer than ``needed`` trials to the last trusted value."""
    units = len(tails)
    edges = _edges_beyond(units)
    width = np.diff(edges)
    each = np.zeros(len(width))
    each[: len(tried)] = tried[: len(width)]
    enough = np.repeat(each / width, width)[:units] >= needed
    cut = int(units if enough.all() else np.argmin(enough))
    end = int(edges[np.searchsorted(edges, cut, side="right")]) if cut < units else units
    raised = tails.copy()
    raised[cut:end] = tails[cut - 1] if cut else 1.0
    return raised


def _theory_counts(units: int, epsilon: float, delta: float) -> Floats:
    """Return the number of trials of each size that the theorem requires, ``(units,)``."""
    sizes = np.arange(1, units + 1)
    return np.asarray(128 * (sizes * units / epsilon) ** 2 * math.log(2 * units / delta))


_EXPONENTS = np.linspace(-1.0, 4.0, 501)  # grid of the likelihood search


@dataclass
class _FillCounts:
    """Counts of unfilled children, of partial fills with the sum of their log sizes, and of full fills by units."""

    empty: Count = 0
    some: Count = 0
    logs: NonNegative = 0.0
    full: list[Count] = field(default_factory=list)


@dataclass
class ParMl(DarkAllocation):
    """Allocate lots greedily by a fitted zero-inflated power law of dark pool sizes, then sweep.

    The model is ``p(0) = a`` and ``p(s) = (1 - a) s^-b / sum of u^-b over u = 1 .. V``, in lots of orders up to ``V``;
    the authors fitted it to their data. Two parameters per pool are learned quickly, but stay biased where the model is
    wrong. The censored likelihood separates: ``a`` is the fraction of unfilled children; a grid search finds ``b``.

    Parameters
    ----------
    delay_cost : float
        Cost of an unfilled share, in dollars; lots with a negative expected value are swept immediately.
    seed : int
        Seed of tie-breaking.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> ParMl().route(read_context(books, side="sell", shares=300, lot=100)).dark
    {'P': 200, 'Q': 100}
    """

    name: ClassVar[str] = "parml+sweep"
    memory: ClassVar[tuple[str, ...]] = ("pending", "counts")
    delay_cost: float = parameter(0.0, real_number, minimum=0)
    seed: int = parameter(0, whole_number, minimum=0)
    counts: dict[str, _FillCounts] = field(init=False, repr=False)  # by pool and shares per unit

    def begin(self) -> None:
        super().begin()
        self.counts = {}

    def allocate(self, task: DarkAllocationTask) -> tuple[Units, dict[str, dict[str, float]]]:
        tails = np.array([self.tail(pool, task) for pool in task.pools])
        return task.best_units(tails, self.delay_cost), {}

    def tail(self, pool: str, task: DarkAllocationTask) -> Vector:
        """Return the probabilities that a pool holds at least 1, 2 .. units, ``(units,)``."""
        counts = self.counts.get(f"{pool} {task.unit}")
        if counts is None:
            return np.ones(task.units)
        largest = max(len(counts.full), task.units)
        full = np.pad(np.array(counts.full, dtype=float), (0, largest - len(counts.full)))
        children = counts.empty + counts.some + float(full.sum())
        return self.fitted(children, counts.empty, counts.some, counts.logs, full)[: task.units]

    def fitted(self, children: float, empty: float, some: float, logs: float, full: Vector) -> Vector:
        """Return the fitted tails, ``(V,)``."""
        nothing = min(empty / children, (children + 1) / (children + 2))  # below 1: no pool is excluded permanently
        return _power_tails(nothing, _fit_exponent(some, logs, full, len(full)), len(full))

    def learn_child(self, order: PendingDarkAllocation, pool: str, sent: int, filled: float) -> None:
        counts = self.counts.setdefault(f"{pool} {order.unit}", _FillCounts())
        counts.full += [0] * (order.units - len(counts.full))
        if filled == sent:
            counts.full[sent - 1] += 1
        elif filled:
            counts.some, counts.logs = counts.some + 1, counts.logs + float(np.log(filled))
        else:
            counts.empty += 1


def _power_sizes(exponent: float, largest: int) -> Vector:
    """Return the probabilities of sizes 1 .. ``largest`` under a power law."""
    powers = np.arange(1, largest + 1, dtype=float) ** -exponent
    return np.asarray(powers / powers.sum())


def _power_tails(empty: float, exponent: float, largest: int) -> Vector:
    """Return P(size >= 1 .. ``largest``) for a pool that is empty with probability ``empty``."""
    return np.asarray((1 - empty) * np.cumsum(_power_sizes(exponent, largest)[::-1])[::-1])


def _fit_exponent(some: float, logs: float, full: Floats, largest: int, less: float = 0.0) -> float:
    """Return the smallest power law exponent over 1 .. ``largest`` within ``less`` of the maximum log-likelihood.

    ``full`` counts full fills of 1, 2 .. units, all right-censored; ``logs`` sums the logs of ``some`` other sizes.
    """
    tails = _log_tails(largest)
    likelihood = -_EXPONENTS * logs - (some + full.sum()) * tails[:, 0] + tails @ full
    chosen = int(np.argmax(likelihood >= likelihood.max() - less))
    return round(float(_EXPONENTS[chosen]), 6)


@lru_cache(maxsize=8)
def _log_tails(largest: int) -> Matrix:
    """Return the logarithms of unnormalised tails, ``(E, V)``."""
    powers = np.arange(1, largest + 1, dtype=float) ** -_EXPONENTS[:, None]
    return np.asarray(np.log(np.cumsum(powers[:, ::-1], axis=1)[:, ::-1]))


@dataclass
class RaUcb(ParMl):
    """Allocate lots greedily by upper confidence bounds on dark pool presence and sizes, then sweep.

    A reconstruction from the abstract: resources with an unknown activation probability and a random threshold, and
    optimism about both. The model is the one of `ParMl`. The probability of presence is the largest, and the exponent
    the smallest, with a likelihood ratio to the best fit of at least the number of orders to the power ``-width``.
    Unlike `ParMl`, it does not exclude a pool after a few unfilled children.

    Parameters
    ----------
    delay_cost : float
        Cost of an unfilled share, in dollars; lots with a negative expected value are swept immediately.
    seed : int
        Seed of tie-breaking.
    width : float
        Degree of optimism; 0 is the maximum likelihood fit.
    """

    name: ClassVar[str] = "ra-ucb+sweep"
    memory: ClassVar[tuple[str, ...]] = ("pending", "counts", "played")
    width: float = parameter(0.5, real_number, minimum=0, maximum=1000)

    def begin(self) -> None:
        super().begin()
        self.played = 0

    def allocate(self, task: DarkAllocationTask) -> tuple[Units, dict[str, dict[str, float]]]:
        self.played += 1
        return super().allocate(task)

    def fitted(self, children: float, empty: float, some: float, logs: float, full: Vector) -> Vector:
        less = self.width * math.log(self.played)
        presence = _highest_chance(children - empty, children, less)
        return _power_tails(1 - presence, _fit_exponent(some, logs, full, len(full), less), len(full))


def _highest_chance(successes: float, trials: float, less: float) -> float:
    """Return the largest probability whose binomial log-likelihood is within ``less`` of the maximum."""
    share = successes / trials

    def lost(chance: float) -> float:
        hits = successes * math.log(share / chance) if successes else 0.0
        misses = (trials - successes) * math.log((1 - share) / (1 - chance)) if successes < trials else 0.0
        return hits + misses

    low, high = share, 1.0
    for _ in range(50):
        between = (low + high) / 2
        if between < 1 and lost(between) <= less:
            low = between
        else:
            high = between
    return high if successes == trials else low
