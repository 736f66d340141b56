"""Allocations of S shares to m slots, as an implicit action set.

An allocation gives every slot a multiple of the lot between its minimum and its cap, S shares in total. Its features
are the shares and their squares, divided by their largest norm, so the dimension is ``2 m``. Linear scores of these
features are separable over slots, so the best allocation is found without listing all: there are 1,287 for 8 shares
over 6 slots, and about 1e40 for 1,000 shares over 20 slots.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from riskroute.core.arrays import Floats, Integers, Units, Vector
from riskroute.core.errors import InputError
from riskroute.core.files import write_whole
from riskroute.core.runtime import compilation_timed
from riskroute.core.seeding import checked_rng
from riskroute.core.text import count_text, shown
from riskroute.core.validation import LARGEST, finite_array, real_number, true_or_false, whole_number
from riskroute.learning.actions import MOST_DRAWN, Action, Actions, ActionSet, as_action, as_batch
from riskroute.learning.design.g_optimal import Design, too_wide_for_g_optimal
from riskroute.learning.tally import ActionBatch
from riskroute.routing.cut_search import CutLattice
from riskroute.routing.designs.large import MOST_KINDS, large_design
from riskroute.routing.designs.symmetry import SymmetryGroups
from riskroute.routing.lattice import Lattice, LatticeCut, LatticeSet
from riskroute.routing.separable import maximise_tables, minimise_separable, tabulate_separable, two_best_of_tables
from riskroute.routing.splits import COMFORTABLE_LIST, MOST_SLOTS, count_splits, split_actions, split_list_limit
from riskroute.routing.survivors import survivors_of

_LISTED_TOP = 2_000_000  # sets up to this size are listed to find their best members exactly
MOST_SHARES = 10**7  # limits tables, which have one entry per lot, and fourth powers of amounts

Bounds = int | Sequence[int] | None


@dataclass(frozen=True)
class _AllocationMargin:
    """Best allocation for a score, its margin, and its gap: by how much the second-best allocation costs more.

    The margin is the smallest cost of moving one lot between slots. The paper claims ``gap >= margin`` if costs are
    convex in every slot.
    """

    best: Action
    margin: float
    gap: float
    convex: bool

    @property
    def claim_holds(self) -> bool:
        """Whether the gap is at least the margin (up to rounding)."""
        return self.gap >= self.margin - 1e-9 * max(1.0, abs(self.margin))


class Allocations(LatticeSet):
    """Splits of ``shares`` over ``slots`` in multiples of ``lot``, within ``minimums`` and ``caps``.

    Handles are tuples of shares. ``caps`` and ``minimums`` are one number for all slots or one per slot. Features are
    divided by ``scale`` (default: their largest norm); sets that share coefficients must share their scale.

    Examples
    --------
    >>> allocations = Allocations(shares=1000, slots=20)
    >>> allocations.size > 10**39, allocations.dim
    (True, 40)
    >>> Allocations(shares=4, slots=3, caps=2).best(np.array([0.0, 1.0, 2.0, 0.0, 0.0, 0.0]))
    (2, 2, 0)
    """

    def __init__(
        self,
        shares: int,
        slots: int,
        lot: int = 1,
        caps: Bounds = None,
        minimums: Bounds = None,
        *,
        scale: float | None = None,
    ) -> None:
        self.shares = whole_number("shares", shares, maximum=MOST_SHARES)
        self.slots = whole_number("slots", slots, maximum=MOST_SLOTS)
        self.lot = whole_number("lot", lot, maximum=MOST_SHARES)
        if self.shares % self.lot:
            raise InputError(f"shares must be a multiple of the lot of {self.lot}, was {self.shares}")
        least = _per_slot("minimums", minimums, self.slots, 0)
        most = np.minimum(_per_slot("caps", caps, self.slots, self.shares), self.shares)
        units = self.shares // self.lot
        self.lattice = Lattice(units, -(-least // self.lot), most // self.lot)
        self._check_room(least, most)
        self.dim = 2 * self.slots
        self.coordinates = self.slots
        self._largest = self._largest_size()
        self.scale = self._largest if scale is None else real_number("scale", scale, above=0)
        if not 1 / LARGEST <= self.largest_norm() <= LARGEST:
            limits = f"{1 / LARGEST:g} to {LARGEST:g}"
            raise InputError(f"scale must give features a largest norm from {limits}, was {self.scale:g}")
        self._designs: dict[float, Design] = {}

    def _check_room(self, least: Integers, most: Integers) -> None:
        low, high = self.lattice.lows, self.lattice.highs
        if (low > high).any():
            k = int(np.argmax(low > high))
            raise InputError(
                f"expected a multiple of the lot of {self.lot} between the minimum and the cap of every slot, "
                f"slot {k} has minimum {least[k]} and cap {most[k]}"
            )
        if int(low.sum()) * self.lot > self.shares:
            found = f"{int(low.sum()) * self.lot} in whole lots"
            raise InputError(f"minimums must add up to at most {self.shares} shares, was {found}")
        if int(high.sum()) * self.lot < self.shares:
            found = f"{int(high.sum()) * self.lot} in whole lots"
            raise InputError(f"caps must add up to at least {self.shares} shares, was {found}")

    def _largest_size(self) -> float:
        """Return the exact largest norm of ``(a, a^2)`` over all allocations ``a``: a separable maximum."""
        lattice = self.lattice
        if lattice.unbounded:  # convex: all free units in one slot
            allocation = lattice.lows.copy()
            allocation[int(np.argmax(lattice.lows))] += lattice.free
        else:
            tables = []
            for low, high in zip(lattice.lows, lattice.highs, strict=True):
                a = np.arange(min(int(high), lattice.units) + 1, dtype=np.float64) * self.lot
                tables.append(np.where(a >= low * self.lot, a**2 + a**4, -np.inf))
            allocation = maximise_tables(tables, lattice.units)[1]
        a = allocation.astype(np.float64) * self.lot
        return float(np.sqrt(np.sum(a**2 + a**4)))

    def __repr__(self) -> str:
        lot = f", lot {self.lot}" if self.lot > 1 else ""
        return f"Allocations({self.shares} shares over {self.slots} slots{lot}, {count_text(self.size)} allocations)"

    @property
    def size(self) -> int:
        return self.lattice.size

    @property
    def fingerprint(self) -> str:
        low, high = (self.lot * bound for bound in (self.lattice.lows, self.lattice.highs))
        scale = "" if self.scale == self._largest else f":{self.scale!r}"
        return f"allocations:{self.shares}:{self.lot}:{low.tolist()}:{high.tolist()}{scale}"

    def largest_norm(self) -> float:
        return self._largest / self.scale

    def best(self, coef: Floats) -> Action:
        alpha, beta = self.separable(coef)
        units = minimise_separable(alpha, beta, self.lattice.units, self.lattice.lows, self.lattice.highs)
        return as_action(units * self.lot)

    def best_each(self, coefs: Floats) -> ActionBatch:
        return self.scores.best_each(coefs)

    def two_best(self, coef: Floats) -> tuple[Action, Action | None]:
        """Return the best and the second-best allocation; the second is None if there is only one."""
        alpha, beta = self.separable(coef)
        lattice = self.lattice
        if (beta >= 0).all():
            first = minimise_separable(alpha, beta, lattice.units, lattice.lows, lattice.highs)
            cost, i, j = _best_exchange(alpha, beta, first, lattice.lows, lattice.highs)
            second = None
            if np.isfinite(cost):
                second = first.copy()
                second[i] -= 1
                second[j] += 1
        else:
            first, second = two_best_of_tables(
                tabulate_separable(alpha, beta, lattice.lows, lattice.highs, lattice.units), lattice.units
            )
        return as_action(first * self.lot), None if second is None else as_action(second * self.lot)

    def margin(self, coef: Floats) -> _AllocationMargin:
        """Return the paper's margin (gamma) and gap for a score; both are infinite for a set with one allocation."""
        alpha, beta = self.separable(coef)
        best, second = self.two_best(coef)
        units = np.array(best, dtype=np.int64) // self.lot
        margin = _best_exchange(alpha, beta, units, self.lattice.lows, self.lattice.highs)[0]
        gap = np.inf
        if second is not None:
            other = np.array(second, dtype=np.int64) // self.lot
            gap = float(np.sum(alpha * (other - units) + beta * (other - units) * (other + units)))
        return _AllocationMargin(best, margin, gap, bool((beta >= 0).all()))

    def design(self, tolerance: float) -> Design:
        tolerance = real_number("tolerance", tolerance, minimum=1e-6, maximum=10)
        if tolerance not in self._designs:
            # Small sets are listed, which gives the exact design. Larger sets rely on symmetry between slots with equal
            # bounds.
            kinds = SymmetryGroups.of(self.lattice.units, self.lattice.lows, self.lattice.highs)
            if self.size <= 20_000 and (len(kinds) > MOST_KINDS or not too_wide_for_g_optimal(self.size, self.dim)):
                self._designs[tolerance] = self.listed().design(tolerance)
            else:
                found = large_design(self.lattice, tolerance)
                self._designs[tolerance] = Design(found.actions * self.lot, found.weights, found.bound, found.rank)
        return self._designs[tolerance]

    def within(self, coef: Floats, tolerance: float) -> ActionSet:
        tolerance = real_number("tolerance", tolerance, minimum=0)
        best = self.best(coef)
        limit = float(self.action_features(best) @ coef) + tolerance
        return survivors_of(self, (LatticeCut(np.asarray(coef, dtype=np.float64), limit),), best)

    def top(self, coef: Floats, count: int) -> ActionSet:
        if self.size <= split_list_limit(self.slots, _LISTED_TOP):
            return self.listed().top(coef, count)
        return survivors_of(self, (), self.best(coef)).top(coef, count)

    def sample(self, rng: np.random.Generator, count: int) -> ActionBatch:
        count = whole_number("count", count, minimum=0, maximum=MOST_DRAWN)
        return self.lattice.sample(checked_rng(rng), count) * self.lot

    def rank(self, action: Action) -> int:
        """Return the number of lexicographically smaller allocations."""
        try:
            row = as_batch(tuple(action) if isinstance(action, list) else action)
            known = bool(self.contains(row)[0])
        except InputError:
            known = False
        if not known:
            expected = f"{self.shares} shares to {self.slots} slots within their bounds"
            raise InputError(f"action must allocate {expected}, was {shown(action)}")
        return self.lattice.rank(row[0] // self.lot)

    def unrank(self, rank: int) -> Action:
        """Return the allocation that follows ``rank`` lexicographically smaller ones."""
        rank = whole_number("rank", rank, minimum=0, maximum=self.size - 1)
        return as_action(self.lattice.unrank(rank) * self.lot)

    def apportion(self, weights: ArrayLike) -> Action:
        """Return the allocation in proportion to non-negative ``weights (slots,)``, by largest remainders.

        Weights apportion the shares above the minimums; all-zero weights count as equal. The excess over a cap goes to
        the other slots in proportion to weight or, once all slots with weight are full, evenly to the rest. Each slot
        gets the floor of its quota in lots. Leftover lots go to the largest remainders, ties to the first slot.

        Examples
        --------
        >>> Allocations(shares=8, slots=3).apportion([0.5, 0.3, 0.2])
        (4, 2, 2)
        >>> Allocations(shares=8, slots=3, caps=[2, 8, 8]).apportion([0.5, 0.3, 0.2])
        (2, 4, 2)
        """
        given = finite_array("weights", weights, ndim=1, length=self.slots)
        if (given < 0).any():
            raise InputError(f"weights must be non-negative, was {given.tolist()[:6]}")
        lattice = self.lattice
        part = _quotas(given / max(float(given.max()), np.finfo(float).tiny), lattice.free, lattice.room)
        units = np.floor(part).astype(np.int64)
        first = np.argsort(np.round(units - part, 6), kind="stable")  # remainders that differ by rounding are ties
        units[first[: lattice.free - int(units.sum())]] += 1
        return as_action((units + lattice.lows) * self.lot)

    def listed(self) -> Actions:
        limit = split_list_limit(self.slots)
        if self.size > limit:
            raise InputError(f"too many allocations to list (limit {limit:,}): {count_text(self.size)}")
        units = CutLattice(self.lattice).listed(self.size, visits=2**63 - 1)
        assert units is not None  # no limit is below the size of the set
        listed = self.listed_rows(units * self.lot)
        listed.whole = self.scores
        return listed


def _best_exchange(alpha: Vector, beta: Vector, units: Units, lows: Units, highs: Units) -> tuple[float, int, int]:
    """Return cost, ``i`` and ``j`` of the cheapest move of one unit from slot ``i`` to ``j``; infinite cost if none."""
    adding = np.where(units < highs, alpha + beta * (2 * units + 1), np.inf)
    taking = np.where(units > lows, -alpha - beta * (2 * units - 1), np.inf)
    cost = taking[:, None] + adding[None, :]
    np.fill_diagonal(cost, np.inf)
    i, j = np.unravel_index(int(np.argmin(cost)), cost.shape)
    return float(cost[i, j]), int(i), int(j)


def _per_slot(name: str, bounds: Bounds, slots: int, default: int) -> Integers:
    if bounds is None:
        return np.full(slots, default, dtype=np.int64)
    given: Any = bounds.tolist() if isinstance(bounds, np.ndarray) else bounds
    given = list(given) if isinstance(given, Sequence) and not isinstance(given, str | bytes) else [given] * slots
    if len(given) != slots:
        raise InputError(f"{name} must be one number or {slots}, one per slot, got {len(given)}")
    return np.array([min(whole_number(name, bound, minimum=0), MOST_SHARES) for bound in given], dtype=np.int64)


def proportional_allocation(weights: Vector, shares: int, lot: int = 1) -> Units:
    """Return shares ``(n,)`` in proportion to non-negative ``weights (n,)``, in whole lots by largest remainders.

    Shares that do not fill a lot go to the largest weight. If all weights are zero, all shares are zero.
    """
    total = float(weights.sum())
    if not total > 0:
        return np.zeros(len(weights), dtype=np.int64)
    part = weights / total * (shares // lot)
    units = np.floor(part + 1e-9).astype(np.int64)
    first = np.argsort(np.round(units - part, 6), kind="stable")  # remainders that differ by rounding are ties
    units[first[: shares // lot - int(units.sum())]] += 1
    units *= lot
    units[int(np.argmax(weights))] += shares % lot
    return units


def allocation_unit_shares(shares: int, lot: int, most: int) -> int:
    """Return the number of shares per unit: the lot, doubled until the order has at most ``most`` units."""
    unit = lot
    while -(-shares // unit) > most:
        unit *= 2
    return unit


def _quotas(weights: Vector, free: int, room: Units) -> Vector:
    """Divide ``free`` in proportion to weights, at most ``room (slots,)`` each, without rounding."""
    part, unfilled = np.zeros(len(weights)), np.ones(len(weights), dtype=bool)
    while unfilled.any():
        pull = np.where(unfilled, weights, 0.0)
        if not pull.any():
            pull = unfilled.astype(np.float64)
        left = free - int(room[~unfilled].sum())
        part = np.where(unfilled, left * (pull / pull.sum()), room)
        over = unfilled & (part > room)
        if not over.any():
            break
        unfilled &= ~over
    return np.minimum(part, room)


@dataclass(frozen=True)
class AllocationDesign:
    """Design over an allocation set, and the seconds of its computation, without compilation."""

    allocations: Allocations
    design: Design
    seconds: float

    @classmethod
    def compute(cls, allocations: Allocations, tolerance: float = 0.01) -> AllocationDesign:
        """Compute a certified design over all allocations, and time it."""
        with compilation_timed("the design") as compiling:
            began = time.perf_counter()
            design = allocations.design(tolerance)
            return cls(allocations, design, time.perf_counter() - began - compiling())

    def patterns(self) -> list[tuple[str, int, float]]:
        """Return patterns such as ``4 + 2``, each with its number of allocations and total weight, heaviest first."""
        found: defaultdict[str, list[float]] = defaultdict(list)
        for row, weight in zip(self.design.actions, self.design.weights.tolist(), strict=True):
            amounts = np.sort(row)[::-1]
            found[" + ".join(str(amount) for amount in amounts[amounts > 0].tolist())].append(weight)
        patterns = [(pattern, len(weights), sum(weights)) for pattern, weights in found.items()]
        return sorted(patterns, key=lambda one: -one[2])

    def summary(self) -> dict[str, Any]:
        """Return the content of the JSON file that `save` writes."""
        return {
            "actions": str(self.allocations.size),
            "dim": self.allocations.dim,
            "bound": self.design.bound,
            "rank": self.design.rank,
            "support": [
                {"allocation": row.tolist(), "weight": float(weight)}
                for row, weight in zip(self.design.actions, self.design.weights, strict=True)
            ],
            "seconds": self.seconds,
        }

    def save(self, path: Path) -> Path:
        """Write the summary as JSON."""
        return write_whole(path, lambda beside: beside.write_text(json.dumps(self.summary()) + "\n"))


def routing_actions(shares: int, slots: int, *, listed: bool | None = None, scale: float | None = None) -> ActionSet:
    """Return the set of all splits of ``shares`` over ``slots``: listed if it is small, implicit otherwise.

    ``listed`` overrides this choice. Handles are tuples of shares in both cases. Features are divided by ``scale``
    (default: their largest norm).

    Examples
    --------
    >>> routing_actions(8, 6)
    SplitList(8 shares over 6 slots, 1,287 allocations)
    >>> routing_actions(1000, 20)
    Allocations(1000 shares over 20 slots, about 9.9e+39 allocations)
    """
    if listed is None:
        listed = count_splits(shares, slots) <= split_list_limit(slots, COMFORTABLE_LIST)
    true_or_false("listed", listed)
    return split_actions(shares, slots, scale=scale) if listed else Allocations(shares, slots, scale=scale)
