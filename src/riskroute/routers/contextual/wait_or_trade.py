"""How much of an order to do now and how much to let wait where: the planning behind the contextual routers.

Costs and variances of waiting come as tables, one row per place where shares can wait; what is done now costs what the
books display, less what pools are expected to fill when they are tried first. All waiting shares are exposed to the
same move of the mid, which depends on their total alone, so that the best plan is found exactly by
`riskroute.routing.separable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from riskroute.core.arrays import Flags, Floats, Matrix, Units
from riskroute.core.errors import InputError
from riskroute.core.runtime import cached
from riskroute.routers.contextual.tails import SPARED, interpolate_compiled, limit_beyond_compiled, rest_beyond_compiled
from riskroute.routing.separable import cheapest_totals, units_of_total

# MERGED: Compiled arithmetic of `riskroute.routers.contextual.wait_or_trade`: outlooks of plans, and the best of them.
#
# Tables are checked here, since compiled code reads whatever lies behind an array that is too short.
#


@njit(cache=True)
def waiting_compiled(
    shares: Floats, cost: Matrix, variance: Matrix, common: float, units: Units, factor: float
) -> tuple[float, float]:
    """Cost and variance of a part of the units that wait."""
    money, square, exposed = 0.0, 0.0, 0.0
    for k in range(len(units)):
        if units[k]:
            waits = factor * shares[units[k]]
            money += interpolate_compiled(waits, shares, cost[k])
            square += interpolate_compiled(waits, shares, variance[k])
            exposed += waits
    return money, max(square + common * exposed * exposed, 0.0)


@njit(cache=True)
def outlook_compiled(
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
    if cost.shape != variance.shape or cost.shape != (len(units), len(shares)) or len(shares) < 2:
        raise InputError("tables of a plan must belong to the same places and units, and did not")
    if len(sweep) != len(shares) or (pools and len(found) != len(shares)):
        raise InputError("tables of a plan must belong to the same places and units, and did not")
    total, waits = shares[-1], 0.0
    for k in range(len(units)):
        if units[k] < 0 or units[k] >= len(shares):
            raise InputError("units of a plan must be at most those of the order, and were not")
        waits += shares[units[k]]
    waits = min(waits, total)
    now = total - waits
    money, square = waiting_compiled(shares, cost, variance, common, units, 1.0)
    money += interpolate_compiled(now, shares, sweep)
    if not pools or (now <= 0 and not before):
        return money, square, money, square, money, square, 1.0
    size = total if before else now
    filled = min(interpolate_compiled(size, shares, found), size)
    left = max(now - filled, 0.0)
    still = max(total - filled - left, 0.0) / waits if waits > 0 else 0.0
    lucky, other = waiting_compiled(shares, cost, variance, common, units, min(still, 1.0))
    lucky += interpolate_compiled(left, shares, sweep) + pool_price * filled
    mean = nothing * money + (1 - nothing) * lucky
    both = nothing * square + (1 - nothing) * other + nothing * (1 - nothing) * (money - lucky) ** 2
    return mean, both, money, square, lucky, other, nothing


@njit(cache=True)
def resting_tables_compiled(
    cost: Matrix,
    variance: Matrix,
    found: Matrix,
    spread: Matrix,
    prices: Floats,
    later: float,
    extra: Floats,
    common: float,
    shares: Floats,
    move: float,
    weight: float,
    level: float,
) -> tuple[Matrix, Matrix]:
    """Put the tables of orders that rest in pools, ``(J, U + 1)``, below those of limit orders, ``(V, U + 1)``.

    What is ``found`` costs the price of its pool, the remainder is swept ``later``, and ``extra`` is paid for every
    share; the variance is that of what is found, ``spread``, times the square of what a fill saves. What is found is
    exposed to the ``common`` move of the mid for a part of the time only; what it is spared comes off that variance.
    ``weight`` is the price of a dollar beyond a ``level`` of dollars a share, and ``move`` the deviation of the mid.
    """
    first, pools, width = len(cost), len(found), len(shares)
    if cost.shape != variance.shape or found.shape != spread.shape or len(prices) != pools or len(extra) != pools:
        raise InputError("tables of resting orders must belong to the same pools and units, and did not")
    if cost.shape[1] != width or found.shape[1] != width:
        raise InputError("tables of resting orders must belong to the same pools and units, and did not")
    money, square = np.empty((first + pools, width)), np.empty((first + pools, width))
    money[:first], square[:first] = cost, variance
    for j in range(pools):
        for k in range(width):
            rest = (shares[k] - found[j, k]) * later + extra[j] * shares[k]
            money[first + j, k] = found[j, k] * prices[j] + rest
            exposed = shares[k] - SPARED * found[j, k]
            spared = common * (shares[k] * shares[k] - exposed * exposed)
            square[first + j, k] = spread[j, k] * (later - prices[j]) ** 2 - spared
    if weight > 0:
        beyond = rest_beyond_compiled(found, prices, later, move, shares, level)
        for j in range(pools):
            for k in range(width):
                money[first + j, k] += weight * beyond[j, k]
    return money, square


@njit(cache=True)
def in_turn_compiled(
    found: Matrix, prices: Floats, sweep: float, least: float, shares: Floats
) -> tuple[Flags, Floats, float, float]:
    """Which pools are worth trying, what they find together, how likely nothing, and what a share of it costs."""
    pools, width = found.shape
    if len(prices) != pools or len(shares) != width or width < 2:
        raise InputError("what pools fill must belong to the same pools and units, and did not")
    worth, together, left = np.zeros(pools, dtype=np.bool_), np.zeros(width), shares.copy()
    nothing, spent = 1.0, 0.0
    for j in range(pools):
        if found[j, -1] * (sweep - prices[j]) <= least:
            continue
        worth[j] = True
        nothing *= 1 - min(found[j, 1] / shares[1], 1.0)
        for k in range(width):
            got = min(interpolate_compiled(left[k], shares, found[j]), left[k])
            together[k] += got
            left[k] -= got
            if k == width - 1:
                spent += got * prices[j]
    return worth, together, nothing, spent / max(together[-1], 1e-9)


@njit(cache=True)
def do_now_compiled(
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
    plain = interpolate_compiled(now, shares, sweep)
    if not pools or now <= 0:
        return plain
    some = min(interpolate_compiled(now, shares, found), now)
    saved = plain - interpolate_compiled(now - some, shares, sweep) - pool_price * some
    return plain - (1 - nothing) * saved + price * nothing * (1 - nothing) * saved * saved


@njit(cache=True)
def plan_under_draw_compiled(
    shares: Floats,
    sweep: Floats,
    lit_cost: Matrix,
    lit_variance: Matrix,
    common: float,
    later: float,
    extra: Floats,
    prices: Floats,
    share_sweep: float,
    least: float,
    found: Matrix,
    spread: Matrix,
    drawn: Matrix,
    drawn_spread: Matrix,
    price: float,
    allowance: float,
    law: Matrix,
    slopes: Floats,
    move: float,
    weight: float,
    level: float,
) -> tuple[Units, bool, Flags]:
    """Return the plan that is best under a draw of what pools hold, unless it seems too expensive.

    Parameters
    ----------
    shares, sweep, lit_cost, lit_variance, common
        As of a `riskroute.routers.contextual.wait_or_trade.WaitOrTrade`; tables of limit orders alone.
    later, extra, prices : float, Floats, Floats
        As of `resting_tables_compiled`.
    share_sweep, least : float
        What a share costs otherwise, and dollars that trying a pool must save.
    found, spread : Matrix
        What pools are expected to fill, and its variance: of orders that try them, then of orders that rest,
        ``(2 J, U + 1)``.
    drawn, drawn_spread : Matrix
        The same under the draw.
    price, allowance : float
        The price of variance, and dollars by which the plan may seem worse than the best one.
    law, slopes, move : Matrix, Floats, float
        As of `riskroute.routers.contextual.tails.limit_beyond_compiled`.
    weight, level : float
        The price of a dollar beyond a level of dollars a share.

    Returns
    -------
    units, before
        As of a `riskroute.routers.contextual.wait_or_trade.UnitPlan`.
    worth : Flags
        Pools that are worth trying, ``(J,)``.
    """
    pools = len(prices)
    if weight > 0:
        lit_cost = lit_cost + weight * limit_beyond_compiled(law, slopes, later, move, shares, level)
        sweep = sweep + weight * np.maximum(sweep - level * shares, 0.0)
    worth, together, nothing, pays = in_turn_compiled(found[:pools], prices, share_sweep, least, shares)
    cost, variance = resting_tables_compiled(
        lit_cost, lit_variance, found[pools:], spread[pools:], prices, later, extra, common, shares, move, weight, level
    )
    any_found = together / max(1 - nothing, 1e-9)
    mean = (shares, sweep, cost, variance, common, any_found, nothing, pays, bool(worth.any()))
    best, best_before = best_plan_compiled(*mean, price)
    tries, together, nothing, pays = in_turn_compiled(drawn[:pools], prices, share_sweep, least, shares)
    cost, variance = resting_tables_compiled(
        lit_cost,
        lit_variance,
        drawn[pools:],
        drawn_spread[pools:],
        prices,
        later,
        extra,
        common,
        shares,
        move,
        weight,
        level,
    )
    any_found = together / max(1 - nothing, 1e-9)
    other = (shares, sweep, cost, variance, common, any_found, nothing, pays, bool(tries.any()))
    units, before = best_plan_compiled(*other, price)
    money, square = outlook_compiled(*mean, best, best_before)[:2]
    rival, rival_square = outlook_compiled(*mean, units, before)[:2]
    if rival + price * rival_square - money - price * square <= allowance:
        return units, before, worth
    return best, best_before, worth


@njit(cache=True)
def best_plan_compiled(
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
    if cost.shape != variance.shape or width != len(shares) or width != len(sweep) or width < 2:
        raise InputError("tables of a plan must belong to the same places and units, and did not")
    if pools and len(found) != width:
        raise InputError("tables of a plan must belong to the same places and units, and did not")
    if slots == 0:
        return np.zeros(0, dtype=np.int64), False
    best, choices = cheapest_totals(cost + price * variance)
    tables = (shares, sweep, cost, variance, common, found, nothing, pool_price, pools)
    units, before, lowest = np.zeros(slots, dtype=np.int64), False, np.inf
    chosen = 0
    for n in range(width):
        now = do_now_compiled(shares[-1] - shares[n], shares, sweep, found, nothing, pool_price, pools, price)
        objective = best[n] + price * common * shares[n] * shares[n] + now
        if objective < lowest:
            chosen, lowest = n, objective
    units = units_of_total(choices, chosen)
    if not pools:
        return units, before
    step, middle = max(width // 25, 1), 0
    for stage in range(2):  # every few totals, then those around the best
        first, last = (0, width) if stage == 0 else (max(middle - step + 1, 0), min(middle + step, width))
        for n in range(first, last, step if stage == 0 else 1):
            rival = units_of_total(choices, n)
            money, square = outlook_compiled(*tables, rival, True)[:2]
            if money + price * square < lowest:
                units, before, lowest, middle = rival, True, money + price * square, n
    return units, before


@dataclass(frozen=True, eq=False)
class PoolSequence:
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

    @cached
    def found_if_any(self) -> Floats:
        """Shares filled if any are, ``(U + 1,)``."""
        return self.found / max(1 - self.nothing, 1e-9)


NO_POOLS = PoolSequence((), np.zeros(1), 1.0, 0.0)
"""Nothing to try."""


@dataclass(frozen=True)
class PlanForecast:
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


@dataclass(frozen=True, eq=False)
class WaitOrTrade:
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
    tried : PoolSequence
        Pools that can be tried first.
    """

    shares: Floats
    sweep: Floats
    cost: Matrix
    variance: Matrix
    common: float
    tried: PoolSequence

    @property
    def units(self) -> int:
        """Units of the whole order."""
        return len(self.shares) - 1

    def plan(self, price: float) -> UnitPlan:
        """Return the plan of the least cost plus ``price`` times variance."""
        units, before = best_plan_compiled(*self._tables, price)
        return UnitPlan(units, bool(before))

    def outlook(self, plan: UnitPlan) -> PlanForecast:
        """Return what a plan is expected to cost, and how sure that is."""
        return PlanForecast(*outlook_compiled(*self._tables, plan.units, plan.before))

    @cached
    def _tables(self) -> _Tables:
        tried = self.tried
        return (
            *(self.shares, self.sweep, self.cost, self.variance, self.common),
            *(tried.found_if_any, tried.nothing, tried.price, bool(tried.pools)),
        )


@dataclass(frozen=True, eq=False)
class UnitPlan:
    """Units that wait at each place, ``(m,)``, and whether pools are tried with the whole order before."""

    units: Units
    before: bool


_Tables = tuple[Floats, Floats, Matrix, Matrix, float, Floats, float, float, bool]


def try_in_turn(
    pools: Sequence[str], found: Matrix, prices: Floats, sweep: float, least: float, shares: Floats
) -> PoolSequence:
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
    worth, together, nothing, price = in_turn_compiled(found, prices, sweep, least, shares)
    names = tuple(name for name, some in zip(pools, worth.tolist(), strict=True) if some)
    return PoolSequence(names, together, nothing, price) if names else NO_POOLS
