"""How much of an order to do now and how much to let wait where: the planning behind the contextual routers.

Costs and variances of waiting come as tables, one row per place where shares can wait; what is done now costs what the
books display, less what pools are expected to fill when they are tried first. All waiting shares are exposed to the
same move of the mid, which depends on their total alone, so that the best plan is found exactly by
`riskroute.routing.group_search`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit

from riskroute.arrays import Flags, Floats, Matrix, Units
from riskroute.routing.group_search import group_profile_compiled, group_units_compiled

SHORTFALL = 0.05
"""Worst fraction of orders that the expected shortfall is the mean of."""


SPARED = 0.7
"""Part of the exposure to the mid that shares are spared which find somebody in a pool before the horizon."""


@dataclass(frozen=True, eq=False)
class Tried:
    """Pools that are tried one after the other before anything else is done.

    Parameters
    ----------
    pools : tuple[str, ...]
        In the order in which they are tried.
    found : Floats
        Shares that they are expected to fill together of orders of ``shares``, ``(U + 1,)``.
    nothing : float
        Probability that none of them holds anything.
    price : float
        What a filled share costs, in dollars against the arrival mid.
    """

    pools: tuple[str, ...]
    found: Floats
    nothing: float
    price: float

    @cached_property
    def found_if_any(self) -> Floats:
        """Shares filled if any are, ``(U + 1,)``."""
        return self.found / max(1 - self.nothing, 1e-9)


NO_POOLS = Tried((), np.zeros(1), 1.0, 0.0)
"""Nothing to try."""


@dataclass(frozen=True)
class PatienceOutlook:
    """Expected cost of a plan in dollars, and its variance in squared dollars.

    Parameters
    ----------
    cost, variance : float
        Altogether.
    unlucky, unlucky_variance : float
        If pools that are tried hold nothing, which has the probability ``nothing``.
    lucky, lucky_variance : float
        If they hold something.
    nothing : float
        1 if none is tried.
    """

    cost: float
    variance: float
    unlucky: float
    unlucky_variance: float
    lucky: float
    lucky_variance: float
    nothing: float

    def objective(self, price: float) -> float:
        """Cost plus ``price`` dollars for every squared dollar."""
        return self.cost + price * self.variance

    def shortfall(self, heavy: float = 1.0) -> float:
        """Expected shortfall (5 %) in dollars, of costs that are normal whether pools hold something or nothing.

        ``heavy`` makes both deviations larger: tails are heavier than those of a normal law.

        Examples
        --------
        >>> round(PatienceOutlook(0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0).shortfall(), 4)
        2.0627
        """
        deviations = heavy * math.sqrt(self.unlucky_variance), heavy * math.sqrt(self.lucky_variance)
        return float(_mixture_shortfall(self.unlucky, deviations[0], self.lucky, deviations[1], self.nothing))


@dataclass(frozen=True, eq=False)
class Patience:
    """An order and what can be done with it.

    Parameters
    ----------
    shares : Floats
        Shares of 0, 1 .. U units, ``(U + 1,)``; the last unit may be smaller.
    sweep : Floats
        What sweeping so many shares now costs, ``(U + 1,)``.
    cost, variance : Matrix
        Of so many shares that wait at each place, ``(m, U + 1)``, in dollars and squared dollars.
    common : float
        Squared dollars of variance that all waiting shares have in common, per squared share.
    tried : Tried
        Pools that can be tried first.
    """

    shares: Floats
    sweep: Floats
    cost: Matrix
    variance: Matrix
    common: float
    tried: Tried

    @property
    def units(self) -> int:
        """Units of the whole order."""
        return len(self.shares) - 1

    def plan(self, price: float) -> PatientPlan:
        """Return the plan of the least cost plus ``price`` times variance."""
        units, before = _best_plan(*self._tables, price)
        return PatientPlan(units, bool(before))

    def outlook(self, plan: PatientPlan) -> PatienceOutlook:
        """Return what a plan is expected to cost, and how sure that is."""
        return PatienceOutlook(*_outlook(*self._tables, plan.units, plan.before))

    @cached_property
    def _tables(self) -> _Tables:
        tried = self.tried
        return (
            *(self.shares, self.sweep, self.cost, self.variance, self.common),
            *(tried.found_if_any, tried.nothing, tried.price, bool(tried.pools)),
        )


@dataclass(frozen=True, eq=False)
class PatientPlan:
    """Units that wait at each place, ``(m,)``, and whether pools are tried with the whole order before."""

    units: Units
    before: bool


_ROOT, _ROOT_OF_TWO_PI = math.sqrt(2), math.sqrt(2 * math.pi)

_Tables = tuple[Floats, Floats, Matrix, Matrix, float, Floats, float, float, bool]


@njit(cache=True)
def _at(x: float, shares: Floats, values: Floats) -> float:
    """Interpolate ``values`` between the shares of two units; shares rise evenly but for the last unit."""
    step = shares[1]
    k = min(int(x / step), len(shares) - 2)
    part = (x - shares[k]) / (shares[k + 1] - shares[k])
    return float(values[k] + part * (values[k + 1] - values[k]))


@njit(cache=True)
def _waiting(
    shares: Floats, cost: Matrix, variance: Matrix, common: float, units: Units, factor: float
) -> tuple[float, float]:
    """Cost and variance of a part of the units that wait."""
    money, square, exposed = 0.0, 0.0, 0.0
    for k in range(len(units)):
        if units[k]:
            waits = factor * shares[units[k]]
            money += _at(waits, shares, cost[k])
            square += _at(waits, shares, variance[k])
            exposed += waits
    return money, max(square + common * exposed * exposed, 0.0)


@njit(cache=True)
def _outlook(
    shares: Floats,
    sweep: Floats,
    cost: Matrix,
    variance: Matrix,
    common: float,
    found: Floats,
    nothing: float,
    pool_price: float,
    pools: bool,
    units: Units,
    before: bool,
) -> tuple[float, float, float, float, float, float, float]:
    """Cost and variance of a plan: both together, if pools hold nothing, if they hold something; and how likely."""
    total, waits = shares[-1], 0.0
    for k in range(len(units)):
        waits += shares[units[k]]
    waits = min(waits, total)
    now = total - waits
    money, square = _waiting(shares, cost, variance, common, units, 1.0)
    money += _at(now, shares, sweep)
    if not pools or (now <= 0 and not before):
        return money, square, money, square, money, square, 1.0
    size = total if before else now
    filled = min(_at(size, shares, found), size)
    left = max(now - filled, 0.0)
    still = max(total - filled - left, 0.0) / waits if waits > 0 else 0.0
    lucky, other = _waiting(shares, cost, variance, common, units, min(still, 1.0))
    lucky += _at(left, shares, sweep) + pool_price * filled
    mean = nothing * money + (1 - nothing) * lucky
    both = nothing * square + (1 - nothing) * other + nothing * (1 - nothing) * (money - lucky) ** 2
    return mean, both, money, square, lucky, other, nothing


@njit(cache=True)
def _mixture_shortfall(one: float, one_sd: float, other: float, other_sd: float, chance: float) -> float:
    """Mean of the worst `SHORTFALL` of a mixture of two normal laws, the first with probability ``chance``."""
    one_sd, other_sd = max(one_sd, 1e-12), max(other_sd, 1e-12)
    low, high = min(one - 9 * one_sd, other - 9 * other_sd), max(one + 9 * one_sd, other + 9 * other_sd)
    for _ in range(40):
        x = (low + high) / 2
        above = chance * math.erfc((x - one) / one_sd / _ROOT) + (1 - chance) * math.erfc(
            (x - other) / other_sd / _ROOT
        )
        if above / 2 > SHORTFALL:
            low = x
        else:
            high = x
    x, total, weight = (low + high) / 2, 0.0, 0.0
    for mean, sd, part in ((one, one_sd, chance), (other, other_sd, 1 - chance)):
        z = (x - mean) / sd
        tail = math.erfc(z / _ROOT) / 2
        total += part * (mean * tail + sd * math.exp(-z * z / 2) / _ROOT_OF_TWO_PI)
        weight += part * tail
    return total / weight


def resting_tables(
    cost: Matrix,
    variance: Matrix,
    found: Matrix,
    spread: Matrix,
    prices: Floats,
    later: float,
    extra: Floats,
    common: float,
    shares: Floats,
) -> tuple[Matrix, Matrix]:
    """Put the tables of orders that rest in pools, ``(J, U + 1)``, below those of limit orders, ``(V, U + 1)``.

    What is ``found`` costs the price of its pool, the remainder is swept ``later``, and ``extra`` is paid for every
    share; the variance is that of what is found, ``spread``, times the square of what a fill saves. What is found is
    exposed to the ``common`` move of the mid for a part of the time only; what it is spared comes off that variance.
    """
    both: tuple[Matrix, Matrix] = _resting_tables(cost, variance, found, spread, prices, later, extra, common, shares)
    return both


@njit(cache=True)
def _resting_tables(
    cost: Matrix,
    variance: Matrix,
    found: Matrix,
    spread: Matrix,
    prices: Floats,
    later: float,
    extra: Floats,
    common: float,
    shares: Floats,
) -> tuple[Matrix, Matrix]:
    first, pools, width = len(cost), len(found), len(shares)
    money, square = np.empty((first + pools, width)), np.empty((first + pools, width))
    money[:first], square[:first] = cost, variance
    for j in range(pools):
        for k in range(width):
            rest = (shares[k] - found[j, k]) * later + extra[j] * shares[k]
            money[first + j, k] = found[j, k] * prices[j] + rest
            exposed = shares[k] - SPARED * found[j, k]
            spared = common * (shares[k] * shares[k] - exposed * exposed)
            square[first + j, k] = spread[j, k] * (later - prices[j]) ** 2 - spared
    return money, square


def try_in_turn(
    pools: Sequence[str], found: Matrix, prices: Floats, sweep: float, least: float, shares: Floats
) -> Tried:
    """Return which pools are worth trying one after the other, and what they find together.

    Parameters
    ----------
    pools : Sequence[str]
        Their names, in the order in which they are tried.
    found : Matrix
        Shares that each would fill of orders of ``shares``, ``(J, U + 1)``.
    prices : Floats
        What a share costs in each, ``(J,)``.
    sweep, least : float
        What a share costs otherwise, and dollars that trying a pool must save.
    """
    worth, together, nothing, price = _in_turn(found, prices, sweep, least, shares)
    names = tuple(name for name, some in zip(pools, worth.tolist(), strict=True) if some)
    return Tried(names, together, nothing, price) if names else NO_POOLS


@njit(cache=True)
def _in_turn(
    found: Matrix, prices: Floats, sweep: float, least: float, shares: Floats
) -> tuple[Flags, Floats, float, float]:
    pools, width = found.shape
    worth, together, left = np.zeros(pools, dtype=np.bool_), np.zeros(width), shares.copy()
    nothing, spent = 1.0, 0.0
    for j in range(pools):
        if found[j, -1] * (sweep - prices[j]) <= least:
            continue
        worth[j] = True
        nothing *= 1 - min(found[j, 1] / shares[1], 1.0)
        for k in range(width):
            got = min(_at(left[k], shares, found[j]), left[k])
            together[k] += got
            left[k] -= got
            if k == width - 1:
                spent += got * prices[j]
    return worth, together, nothing, spent / max(together[-1], 1e-9)


@njit(cache=True)
def _now(
    now: float,
    shares: Floats,
    sweep: Floats,
    found: Floats,
    nothing: float,
    pool_price: float,
    pools: bool,
    price: float,
) -> float:
    """Cost of shares that are done now, pools tried first with them, plus the price of that risk."""
    plain = _at(now, shares, sweep)
    if not pools or now <= 0:
        return plain
    some = min(_at(now, shares, found), now)
    saved = plain - _at(now - some, shares, sweep) - pool_price * some
    return plain - (1 - nothing) * saved + price * nothing * (1 - nothing) * saved * saved


@njit(cache=True)
def _best_plan(
    shares: Floats,
    sweep: Floats,
    cost: Matrix,
    variance: Matrix,
    common: float,
    found: Floats,
    nothing: float,
    pool_price: float,
    pools: bool,
    price: float,
) -> tuple[Units, bool]:
    """Return the units that wait, and whether pools are tried with the whole order before or with the remainder.

    The best way to let every total wait comes from one infimal convolution; then totals are tried both ways. That is
    exact for pools that are tried with the remainder. Pools that are tried before leave less to wait, in the same
    proportions; of these plans every few totals are tried, and all around the best of them.
    """
    slots, width = cost.shape
    if slots == 0:
        return np.zeros(0, dtype=np.int64), False
    best, choices = group_profile_compiled(cost + price * variance)
    tables = (shares, sweep, cost, variance, common, found, nothing, pool_price, pools)
    units, before, lowest = np.zeros(slots, dtype=np.int64), False, np.inf
    chosen = 0
    for n in range(width):
        now = _now(shares[-1] - shares[n], shares, sweep, found, nothing, pool_price, pools, price)
        objective = best[n] + price * common * shares[n] * shares[n] + now
        if objective < lowest:
            chosen, lowest = n, objective
    units = group_units_compiled(choices, chosen)
    if not pools:
        return units, before
    step, middle = max(width // 25, 1), 0
    for stage in range(2):  # every few totals, then those around the best
        first, last = (0, width) if stage == 0 else (max(middle - step + 1, 0), min(middle + step, width))
        for n in range(first, last, step if stage == 0 else 1):
            rival = group_units_compiled(choices, n)
            money, square = _outlook(*tables, rival, True)[:2]
            if money + price * square < lowest:
                units, before, lowest, middle = rival, True, money + price * square, n
    return units, before
