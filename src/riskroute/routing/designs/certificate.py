"""Proven upper bounds on the leverages of a design over every allocation of a set.

`certify` is a branch and bound for invariant designs (`symmetry`). The leverage of an allocation with amounts ``v_k``
is

    sum_k q_g(v_k)  +  p' Q p,        p = the group sums of y and y^2, two per group,

a sum over slots plus a quadratic form in a few sums. On a part of the set, the quadratic form is bounded by a linear
function of the sums: by the chord over the range of the sums where it is convex, by a tangent where it is concave. The
remainder is separable, and dynamic programming finds its exact maximum over the part: an upper bound on every leverage
there. A part whose bound is too high is split at the largest (second largest ..) amount of a group, which narrows the
ranges, until every part is below the target or the work limit is reached. Even then, the bound returned holds for all
allocations.

Tables have one entry per unit if there are few units. Otherwise they are laid out on a grid of about a thousand steps,
so that the cost of the proof does not depend on the order size. The maxima then hold for all fractional amounts, and
so for whole ones: any point between grid points is a mean of grid points with the same sum of amounts, each amount
rounded up or down, and rounding lowers a function whose second derivative is at least ``-c`` by at most ``c / 8``
squared steps.

`certify_by_majorant` needs no symmetry. A leverage is a quadratic form ``f' P f`` of the features, two per slot. ``P``
is replaced by a larger matrix with one ``(2, 2)`` block per slot. The form is then a sum over slots, and its
Lagrangian dual bounds its maximum. Three steps keep the larger matrix close to ``P``. The sum of all amounts is fixed,
so any multiple of its square is a constant. In the few directions that couple slots most, the square is bounded by its
chord over its range. Slightly larger blocks cover the remaining coupling. If a cut limits a score, any non-negative
multiple of the score's excess over the limit may be subtracted, since no survivor exceeds the limit.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from numba import njit
from numpy.typing import NDArray

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.core.errors import InputError
from riskroute.routing.designs.symmetry import Orbit, SymmetricInformation, SymmetryGroups
from riskroute.routing.lattice import Lattice
from riskroute.routing.separable import convolve_separable

# Per group, the ranges of its largest amounts, in descending order; no other amount exceeds the last range.
Part = tuple[tuple[tuple[int, int], ...], ...]

# Cost per unit and per squared unit of every slot, and the limit on their sum.
_LinearCut = tuple[Vector, Vector, float]

_GRID = 1000  # minimum number of steps of a grid over the units of an order; small caps need more steps
_CAP_STEPS = 60  # minimum number of steps of the grid up to the smallest cap


@dataclass(frozen=True)
class _Certificate:
    """Upper ``bound`` on all leverages, and the orbits ``found`` by the search, each with its leverage."""

    bound: float
    found: list[tuple[float, Orbit]]


def certify(information: SymmetricInformation, target: float, max_parts: int) -> _Certificate:
    """Bound the largest leverage, if possible by ``target``, with at most ``max_parts`` parts.

    The search stops at an allocation whose leverage exceeds the target, since it refutes the design.
    """
    search = _Search(information)
    numbers = itertools.count()
    whole: Part = tuple(() for _ in range(len(information.groups)))
    queue: list[tuple[float, int, Part, Vector]] = []
    settled = -np.inf  # largest bound among parts that need no further split

    def visit(part: Part, tangent: Vector) -> None:
        nonlocal settled
        bound, tangent = search.bound(part, tangent, target)
        if bound > target:
            heapq.heappush(queue, (-bound, next(numbers), part, tangent))
        else:
            settled = max(settled, bound)

    visit(whole, np.zeros(2 * len(information.groups)))
    visited = 1
    while queue and visited < max_parts and search.highest <= target:
        negative, _, part, tangent = heapq.heappop(queue)
        bound = -negative
        halves = search.split(part)
        if not halves:  # all amounts are fixed
            settled = max(settled, search.exact(part) if search.grid.step == 1 else bound)
            continue
        for half in halves:
            visit(half, tangent)
            visited += 1
    open_bound = -queue[0][0] if queue else -np.inf
    return _Certificate(max(settled, open_bound, search.highest), search.found)


@dataclass(frozen=True)
class _Grid:
    """Amounts in steps of ``step`` units: ``steps`` in all, at most ``highs[g]`` in a slot of group ``g``."""

    groups: SymmetryGroups
    steps: int
    step: float
    highs: tuple[int, ...]

    @classmethod
    def of(cls, groups: SymmetryGroups) -> _Grid:
        smallest = min((high for high in groups.highs if high > 0), default=1)
        steps = max(_GRID, math.ceil(_CAP_STEPS * groups.units / smallest))
        if steps >= groups.units or any(groups.lows):
            return cls(groups, groups.units, 1.0, groups.highs)
        step = groups.units / steps
        return cls(groups, steps, step, tuple(math.ceil(high / step - 1e-9) for high in groups.highs))

    def orbit(self, amounts: list[list[int]]) -> Orbit:
        """Return an orbit near ``amounts`` on the grid, rounded to units by largest remainders."""
        if self.step == 1:
            return tuple(tuple(sorted(group, reverse=True)) for group in amounts)
        caps = np.repeat(self.groups.highs, [len(group) for group in amounts])
        wanted = np.minimum(np.concatenate([np.array(group) * self.step for group in amounts]), caps)
        units = np.floor(wanted + 1e-9).astype(np.int64)
        for k in np.argsort(np.round(units - wanted, 6), kind="stable"):
            units[k] += min(1, int(caps[k] - units[k]), self.groups.units - int(units.sum()))
        for k in range(len(units)):  # units are missing where a cap was rounded up to whole steps
            units[k] += min(int(caps[k] - units[k]), self.groups.units - int(units.sum()))
        ends = np.cumsum([len(group) for group in amounts])[:-1]
        return tuple(tuple(sorted(group.tolist(), reverse=True)) for group in np.split(units, ends))


@dataclass
class _Search:
    information: SymmetricInformation
    found: list[tuple[float, Orbit]] = field(default_factory=list)
    highest: float = -np.inf

    def __post_init__(self) -> None:
        groups: SymmetryGroups = self.information.groups
        self.groups = groups
        self.grid = _Grid.of(groups)
        root, others = self.information.roots()
        quadratic = root @ root.T
        self.own: list[Vector] = []  # coefficients of y^2, y^3 and y^4, group by group
        self.powers: list[tuple[Vector, Vector]] = []
        for g, (scale, high, size) in enumerate(zip(groups.scales, self.grid.highs, groups.sizes, strict=True)):
            inverse = others[g] @ others[g].T if size > 1 else np.zeros((2, 2))
            quadratic[2 * g : 2 * g + 2, 2 * g : 2 * g + 2] -= inverse
            self.own.append(np.array([inverse[0, 0], 2 * inverse[0, 1], inverse[1, 1]]))
            y = np.arange(high + 1) * (self.grid.step / scale)
            self.powers.append((y, y**2))
        self.separate = [_quartic(own, y) for own, (y, _) in zip(self.own, self.powers, strict=True)]
        per_sum = np.repeat(1 / np.sqrt(groups.sizes), 2)
        self.quadratic = quadratic * np.outer(per_sum, per_sum)
        self._split_the_quadratic()

    def _split_the_quadratic(self) -> None:
        """Decompose ``p' Q p`` into a constant, a linear term, and convex and concave squares along single directions.

        All amounts sum to the units, which fixes one direction: ``p = fixed + basis s`` with free ``s``. Sums are
        scaled by the width of their range over the set, so that no direction looks wide because of its unit.
        """
        count = 2 * len(self.groups)
        whole: Part = tuple(() for _ in range(len(self.groups)))
        reach = [[self._maximum(whole, sign * axis, own=False)[0] for sign in (1, -1)] for axis in np.eye(count)]
        width = np.maximum(np.sum(reach, axis=1), 1e-9)
        total = np.zeros(count)
        total[::2] = self.groups.scales / self.groups.units
        known = total * width / np.linalg.norm(total * width)
        free = np.linalg.svd(known[None, :])[2][1:]  # orthonormal rows, orthogonal to the known direction
        basis = width[:, None] * free.T
        # sums are relative to one member's, so directions that hardly vary contribute next to nothing
        orbit = self._maximum(whole, np.zeros(count), own=False)[1]
        if orbit is None:
            raise InputError("the allocation set is empty: no allocation satisfies the bounds")
        self.fixed = fixed = self.leverage(orbit)[1]
        self.back = free / width  # s = back (p - fixed)
        self.linear = 2 * basis.T @ self.quadratic @ fixed
        self.constant = float(fixed @ self.quadratic @ fixed)
        values, axes = np.linalg.eigh(basis.T @ self.quadratic @ basis)
        large = 1e-12 * np.abs(values).max(initial=0.0)
        self.convex = [(values[i], axes[:, i]) for i in range(len(values)) if values[i] > large]
        self.concave = [(values[i], axes[:, i]) for i in range(len(values)) if values[i] < -large]

    def leverage(self, orbit: Orbit) -> tuple[float, Vector]:
        """Return the exact leverage of an orbit, and its sums."""
        sums = self.groups.power_sums([orbit])[0, :, :2].reshape(-1)
        own = 0.0
        for coefs, amounts, scale in zip(self.own, orbit, self.groups.scales, strict=True):
            own += float(_quartic(coefs, np.array(amounts) / scale).sum())
        return own + float(sums @ self.quadratic @ sums), sums

    def exact(self, part: Part) -> float:
        """Return the leverage of the only allocation of a part."""
        _, orbit = self._maximum(part, np.zeros(2 * len(self.groups)), own=True)
        return -np.inf if orbit is None else self.leverage(orbit)[0]

    def bound(self, part: Part, tangent: Vector, target: float) -> tuple[float, Vector]:
        """Return an upper bound on all leverages in a part, and the group sums at which its tangents touch."""
        slope, offset = self.linear.copy(), self.constant
        for curvature, axis in self.convex:
            direction = self.back.T @ axis
            high, orbit = self._maximum(part, direction, own=False)
            if orbit is None:
                return -np.inf, tangent
            low = -self._maximum(part, -direction, own=False)[0]
            origin = float(direction @ self.fixed)
            low, high = low - origin, high - origin
            # the chord of x^2 over [low, high] is (low + high) x - low high
            slope += curvature * (low + high) * axis
            offset -= curvature * low * high
        best, best_tangent, move, pull = np.inf, tangent, np.zeros_like(tangent), 1.0
        for _ in range(10 if self.concave else 1):
            slope_here, offset_here = slope.copy(), offset
            for curvature, axis in self.concave:
                at = float(axis @ self.back @ (tangent - self.fixed))
                # the tangent of x^2 at x = at is 2 at x - at^2
                slope_here += 2 * curvature * at * axis
                offset_here -= curvature * at * at
            direction = self.back.T @ slope_here
            offset_here -= float(direction @ self.fixed)
            value, orbit = self._maximum(part, direction, own=True)
            if orbit is None:
                return -np.inf, tangent
            leverage, sums = self.leverage(orbit)
            self.found.append((leverage, orbit))
            self.highest = max(self.highest, leverage)
            if value + offset_here < best - 1e-12:
                best, best_tangent, move = value + offset_here, tangent, sums - tangent
            else:
                pull *= 0.4
            if best <= target or pull < 0.01 or leverage > target:
                break
            tangent = best_tangent + 0.5 * pull * move
        return best, best_tangent

    def _maximum(self, part: Part, slope: Vector, *, own: bool) -> tuple[float, Orbit | None]:
        """Maximise ``slope . sums``, plus the slots' own terms with ``own``, over a part; None if the part is empty."""
        units = self.grid.steps
        items: list[tuple[int, Vector, int]] = []
        between = 0.0  # bound on how far the maximum over fractional amounts exceeds the maximum on the grid
        for g, ranges in enumerate(part):
            y, square = self.powers[g]
            table = slope[2 * g] * y + slope[2 * g + 1] * square + (self.separate[g] if own else 0.0)
            rest = len(self.groups.members[g]) - len(ranges)
            limits = [(low, high, 1) for low, high in ranges]
            if rest:
                limits.append((self.groups.lows[g], self._ceiling(part, g), rest))
            for low, high, copies in limits:
                items.append((g, np.where(np.arange(high + 1) >= low, table[: high + 1], -np.inf), copies))
            if self.grid.step != 1:
                bend = self.own[g] + [slope[2 * g + 1], 0, 0] if own else np.array([slope[2 * g + 1], 0, 0])
                between += sum(self._between(g, bend, low, high, copies) for low, high, copies in limits)
        joint = np.full(units + 1, -np.inf)
        joint[0] = 0.0
        steps = []
        for _, table, copies in items:
            power = _Power(table, copies, units)
            joint, choice = convolve_separable(power.values, joint, units)
            steps.append((power, choice))
        if joint[units] == -np.inf:
            return -np.inf, None
        amounts: list[list[int]] = [[] for _ in part]
        left = units
        for (g, _, _), (power, choice) in zip(reversed(items), reversed(steps), strict=True):
            taken = int(choice[left])
            amounts[g] += power.choice(taken)
            left -= taken
        return float(joint[units]) + between, self.grid.orbit(amounts)

    def _between(self, g: int, bend: Vector, low: int, high: int, copies: int) -> float:
        """Bound the loss from rounding ``copies`` slots with terms ``slope y + bend . (y^2, y^3, y^4)`` to the grid."""
        step = self.grid.step / self.groups.scales[g]
        flattest = -bend[1] / (4 * bend[2]) if bend[2] > 0 else 0.0  # where the second derivative is least
        y = min(max(flattest, low * step), high * step)
        concave = -(2 * bend[0] + 6 * bend[1] * y + 12 * bend[2] * y**2)
        if concave <= 0:
            return 0.0
        if bend[2] > 0:
            first = flattest - math.sqrt(flattest**2 - bend[0] / (6 * bend[2])) - step
            if first > low * step and first > 0:  # the terms are concave only for large amounts, which few slots reach
                copies = min(copies, int(self.groups.units / (first * self.groups.scales[g])))
        return float(copies * concave * step**2 / 8)

    def _ceiling(self, part: Part, g: int) -> int:
        return part[g][-1][1] if part[g] else self.grid.highs[g]

    def split(self, part: Part) -> list[Part]:
        """Halve the range of the amount whose square varies most; return no parts if every amount is fixed."""
        least = sum(
            sum(low for low, _ in ranges) + self.groups.lows[g] * (len(self.groups.members[g]) - len(ranges))
            for g, ranges in enumerate(part)
        )
        gap = 0 if self.grid.step == 1 else 1  # on a grid, both halves of a range include its middle
        widest, chosen = 0.0, None
        for g, ranges in enumerate(part):
            positions = list(enumerate(ranges))
            if len(ranges) < len(self.groups.members[g]):
                top = min(self._ceiling(part, g), self.groups.lows[g] + self.grid.steps - least)
                positions.append((len(ranges), (self.groups.lows[g], top)))
            for position, (low, high) in positions:
                width = (high * high - low * low) / self.groups.scales[g] ** 2
                if high - low > gap and width > widest * (1 + 1e-9):
                    widest, chosen = width, (g, position, low, high)
        if chosen is None:
            return []
        g, position, low, high = chosen
        middle = (low + high) // 2
        halves = (_tightened(part[g], position, half) for half in ((low, middle), (middle + 1 - gap, high)))
        return [(*part[:g], ranges, *part[g + 1 :]) for ranges in halves if ranges is not None]


def _tightened(
    ranges: tuple[tuple[int, int], ...], position: int, narrower: tuple[int, int]
) -> tuple[tuple[int, int], ...] | None:
    """Narrow one range and tighten the others, since amounts descend; None if a range becomes empty."""
    result = [*ranges[:position], narrower, *ranges[position + 1 :]]
    for k in range(1, len(result)):
        result[k] = result[k][0], min(result[k][1], result[k - 1][1])
    for k in range(len(result) - 2, -1, -1):
        result[k] = max(result[k][0], result[k + 1][0]), result[k][1]
    return tuple(result) if all(low <= high for low, high in result) else None


def _quartic(coefs: Vector, y: Vector) -> Vector:
    """Return ``coefs . (y^2, y^3, y^4)``."""
    return np.asarray(y**2 * (coefs[0] + y * (coefs[1] + y * coefs[2])))


class _Power:
    """(max, +) power of a table: the best split of ``n`` units over several equal slots, by repeated squaring."""

    def __init__(self, table: Vector, copies: int, limit: int) -> None:
        self.doubled: dict[int, tuple[Vector, NDArray[np.int32] | None]] = {1: (table[: limit + 1], None)}
        k = 1
        while 2 * k <= copies:
            half = self.doubled[k][0]
            self.doubled[2 * k] = convolve_separable(half, half, limit)
            k *= 2
        bits = [1 << b for b in range(copies.bit_length()) if copies >> b & 1]
        self.first = bits[0]
        self.values = self.doubled[bits[0]][0]
        self.joins: list[tuple[int, NDArray[np.int32]]] = []
        for bit in bits[1:]:
            self.values, choice = convolve_separable(self.doubled[bit][0], self.values, limit)
            self.joins.append((bit, choice))

    def choice(self, units: int) -> list[int]:
        """Return a best split of ``units`` over the slots."""
        amounts: list[int] = []
        for bit, choice in reversed(self.joins):
            taken = int(choice[units])
            amounts += self._unfold(bit, taken)
            units -= taken
        return amounts + self._unfold(self.first, units)

    def _unfold(self, copies: int, units: int) -> list[int]:
        choice = self.doubled[copies][1]
        if choice is None:
            return [units]
        taken = int(choice[units])
        return self._unfold(copies // 2, taken) + self._unfold(copies // 2, units - taken)


def certify_by_majorant(lattice: Lattice, whitening: Matrix, cut: _LinearCut | None = None) -> float:
    """Return an upper bound on ``|f @ whitening|^2`` over all vectors ``v`` of the lattice, or those that pass a cut.

    Features ``f`` are ``(v, v^2)`` in units, first all ``v``, then all squares; ``whitening`` is ``(2 m, r)``.
    """
    form = _Form(lattice, whitening, cut)
    tried = {price: form.bound(price) for price in (-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0)}  # by multiplier
    for width in (0.5, 0.25):
        best = min(tried, key=lambda price: tried[price])
        for price in (best * (1 - width), best * (1 + width)):
            tried[price] = form.bound(price)
    return max(min(tried.values()), float(form.rank))  # no design's largest leverage is below the rank


class _Form:
    """Quadratic form of a design's leverages in features ``(y, y^2)``, slot by slot, with amounts ``y`` up to one."""

    def __init__(self, lattice: Lattice, whitening: Matrix, cut: _LinearCut | None) -> None:
        self.lattice = lattice
        slots, self.rank = len(lattice.lows), whitening.shape[1]
        self.highs = np.minimum(lattice.highs, lattice.units)
        scale = np.maximum(self.highs, 1).astype(np.float64)
        self.amounts = [np.arange(high + 1) / one for high, one in zip(self.highs.tolist(), scale, strict=True)]
        interleaved = np.arange(2 * slots).reshape(2, slots).T.reshape(-1)
        units = np.concatenate([scale, scale**2])[interleaved]
        white = whitening[interleaved] * units[:, None]
        self.form = white @ white.T
        self.form += 1e-10 * float(np.trace(self.form)) * np.eye(2 * slots)  # slots fixed at zero have zero blocks
        self.total = np.zeros(2 * slots)
        self.total[::2] = scale / lattice.units  # sum of amounts over units: always one
        pairs = np.arange(2 * slots).reshape(slots, 2)
        self.blocks = self.form[pairs[:, :, None], pairs[:, None, :]]
        self.roots = np.linalg.cholesky(self.blocks)
        self.cut: tuple[Vector, float] | None = None
        if cut is not None:
            alpha, beta, limit = cut
            score = np.concatenate([alpha, beta])[interleaved] * units
            width = max(self.reach(score) + self.reach(-score), 1e-300)
            self.cut = score * (self.rank / width), limit * (self.rank / width)

    def bound(self, price: float) -> float:
        """Return the bound if the squared sum of amounts has the multiplier ``price`` times the rank."""
        slots = len(self.blocks)
        rest = self.form - price * self.rank * np.outer(self.total, self.total)
        pairs = np.arange(2 * slots).reshape(slots, 2)
        rest[pairs[:, :, None], pairs[:, None, :]] -= self.blocks
        for _ in range(2):  # whiten rows, then columns: the blocks become the identity
            rest = np.linalg.solve(self.roots, rest.reshape(slots, 2, -1)).reshape(2 * slots, -1).T
        values, axes = np.linalg.eigh((rest + rest.T) / 2)
        chords = min(2, 2 * slots - 1)
        larger = float(values[-chords - 1])
        slope, offset = np.zeros(2 * slots), price * self.rank
        for value, axis in zip(values[-chords:], axes[:, -chords:].T, strict=True):
            direction = np.einsum("kij,kj->ki", self.roots, axis.reshape(slots, 2)).reshape(-1)
            low, high = -self.reach_within(-direction), self.reach_within(direction)
            slope += (value - larger) * (low + high) * direction
            offset -= (value - larger) * low * high
        return float(offset) + self.reach_within(slope, (1 + larger) * self.blocks)

    def reach_within(self, slope: Vector, blocks: Matrix | None = None) -> float:
        """Bound what `reach` bounds, but only over vectors that pass the cut, by the best of several dual prices."""
        best = self.reach(slope, blocks)
        if self.cut is not None:
            score, limit = self.cut
            for multiplier in 4.0 ** np.arange(-2, 16):  # the bound is convex in the multiplier
                found = multiplier * limit + self.reach(slope - multiplier * score, blocks)
                if found > best:
                    break
                best = found
        return best

    def reach(self, slope: Vector, blocks: Matrix | None = None) -> float:
        """Bound ``slope . f``, plus a quadratic form of one block per slot, over all vectors of the lattice."""
        tables = []
        for k, y in enumerate(self.amounts):
            table = y * (slope[2 * k] + y * slope[2 * k + 1])
            if blocks is not None:
                (a, b), (_, d) = blocks[k]
                table = table + y * y * (a + y * (2 * b + y * d))
            table[: int(self.lattice.lows[k])] = -np.inf
            tables.append(table)
        return float(_dual_bound(np.concatenate(tables), np.cumsum([0, *map(len, tables)]), self.lattice.units))


@njit(cache=True)
def _dual_bound(tables: Vector, ends: Integers, units: int) -> float:
    """Bound the maximum of ``sum_k table_k[v_k]`` with ``sum v = units`` by its Lagrangian dual, by bisection."""
    size = 0.0
    for value in tables:
        if np.isfinite(value):
            size = max(size, abs(value))
    low, high, best = -2 * size - 1, 2 * size + 1, np.inf
    for _ in range(50):
        price = (low + high) / 2
        total, taken = price * units, 0
        for k in range(len(ends) - 1):  # table k begins at ends[k]
            most, at = -np.inf, 0
            for v in range(ends[k + 1] - ends[k]):
                value = tables[ends[k] + v] - price * v
                if value > most:
                    most, at = value, v
            total += most
            taken += at
        best = min(best, total)
        if taken > units:
            low = price
        else:
            high = price
    return best
