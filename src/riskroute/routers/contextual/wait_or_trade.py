"""Wait-or-trade decision of the contextual routers: how much to trade now, and how much to rest where.

Costs and variances of waiting come as tables, one row per place where shares can wait. Shares traded now cost what the
books display, less the expected saving of pools pinged first. All waiting shares are exposed to the same move of the
mid, whose variance depends on their total alone; the best plan is therefore found exactly by an infimal convolution
over places (`riskroute.routing.separable`) and a search over totals.

The arithmetic is compiled. Kernels check table shapes, because compiled code would read past the end of a short array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from riskroute.core.arrays import Flags, Floats, Matrix, Units
from riskroute.core.errors import InputError
from riskroute.core.runtime import cached
from riskroute.routers.contextual.tails import EXPOSURE_SAVED, interpolate, limit_excess, resting_excess
from riskroute.routing.separable import cheapest_totals, units_of_total


@dataclass(frozen=True, eq=False)
class _PoolSequence:
    """Pools pinged one after the other before anything else."""

    pools: tuple[str, ...]  # in ping order
    fills: Floats  # expected fills of all pools together for orders of 0, 1 .. U units, (U + 1,)
    empty: float  # probability that all of them are empty
    price: float  # cost of a filled share, in dollars against the arrival mid

    @cached
    def fills_if_any(self) -> Floats:
        """Expected fills given that some pool is not empty, ``(U + 1,)``."""
        return self.fills / max(1 - self.empty, 1e-9)


NO_POOLS = _PoolSequence((), np.zeros(1), 1.0, 0.0)  # nothing to ping


@dataclass(frozen=True)
class _PlanForecast:
    """Predicted cost of a plan in dollars, and its variance in squared dollars."""

    cost: float
    variance: float
    unlucky: float  # given that all pinged pools are empty
    unlucky_variance: float
    lucky: float  # given that some pool fills
    lucky_variance: float
    empty: float  # probability that all pinged pools are empty; 1 if none is pinged

    def objective(self, price: float) -> float:
        """Return cost plus ``price`` times variance."""
        return self.cost + price * self.variance


@dataclass(frozen=True, eq=False)
class UnitPlan:
    """Units that wait at each place, ``(m,)``, and whether pools are pinged with the whole order first."""

    units: Units
    before: bool


@dataclass(frozen=True, eq=False)
class WaitOrTrade:
    """Cost tables of one order, in dollars and squared dollars."""

    shares: Floats  # shares in 0, 1 .. U units, (U + 1,); the last unit may be smaller
    sweep: Floats  # cost of sweeping that many shares now, (U + 1,)
    cost: Matrix  # cost of that many shares waiting at each place, (m, U + 1)
    variance: Matrix  # their own variance, (m, U + 1), without the common part
    common: float  # variance common to all waiting shares, squared dollars per squared share
    sequence: _PoolSequence  # pools that can be pinged first

    @property
    def units(self) -> int:
        """Units of the whole order."""
        return len(self.shares) - 1

    def best_plan(self, price: float) -> UnitPlan:
        """Return the plan that minimises cost plus ``price`` times variance."""
        units, before = _best_plan(*self._tables, price)
        return UnitPlan(units, bool(before))

    def forecast(self, plan: UnitPlan) -> _PlanForecast:
        """Return the predicted cost and variance of a plan."""
        return _PlanForecast(*_forecast(*self._tables, plan.units, plan.before))

    @cached
    def _tables(self) -> tuple[Floats, Floats, Matrix, Matrix, float, Floats, float, float, bool]:
        sequence = self.sequence
        return (
            *(self.shares, self.sweep, self.cost, self.variance, self.common),
            *(sequence.fills_if_any, sequence.empty, sequence.price, bool(sequence.pools)),
        )


def ping_in_turn(
    pools: Sequence[str], fills: Matrix, prices: Floats, sweep: float, least: float, shares: Floats
) -> _PoolSequence:
    """Return the pools worth pinging one after the other, with their joint fills.

    ``fills (J, U + 1)`` are the expected fills of each pool for orders of ``shares``, ``prices (J,)`` its cost per
    share, ``sweep`` that of a sweep. A ping must save more than ``least`` dollars.
    """
    worth, together, empty, price = _ping_in_turn(fills, prices, sweep, least, shares)
    names = tuple(name for name, some in zip(pools, worth.tolist(), strict=True) if some)
    return _PoolSequence(names, together, empty, price) if names else NO_POOLS


@njit(cache=True)
def _ping_in_turn(
    fills: Matrix, prices: Floats, sweep: float, least: float, shares: Floats
) -> tuple[Flags, Floats, float, float]:
    """Return which pools are worth a ping, their joint fills, the probability of none, and the cost of a fill."""
    pools, width = fills.shape
    if len(prices) != pools or len(shares) != width or width < 2:
        raise InputError("fills must have one row per pool and one column per unit")
    worth, together, left = np.zeros(pools, dtype=np.bool_), np.zeros(width), shares.copy()
    empty, spent = 1.0, 0.0
    for j in range(pools):
        if fills[j, -1] * (sweep - prices[j]) <= least:
            continue
        worth[j] = True
        empty *= 1 - min(fills[j, 1] / shares[1], 1.0)
        for k in range(width):
            got = min(interpolate(left[k], shares, fills[j]), left[k])
            together[k] += got
            left[k] -= got
            if k == width - 1:
                spent += got * prices[j]
    return worth, together, empty, spent / max(together[-1], 1e-9)


@njit(cache=True)
def _check_tables(
    shares: Floats, sweep: Floats, cost: Matrix, variance: Matrix, fills_if_any: Floats, pools: bool
) -> None:
    width = len(shares)
    if cost.shape != variance.shape or cost.shape[1] != width or len(sweep) != width or width < 2:
        raise InputError("tables of a plan must have one row per place and one column per unit")
    if pools and len(fills_if_any) != width:
        raise InputError("tables of a plan must have one row per place and one column per unit")


@njit(cache=True)
def _waiting_moments(
    shares: Floats, cost: Matrix, variance: Matrix, common: float, units: Units, factor: float
) -> tuple[float, float]:
    """Return cost and variance of the waiting units, each scaled by ``factor``."""
    money, square, exposed = 0.0, 0.0, 0.0
    for k in range(len(units)):
        if units[k]:
            waits = factor * shares[units[k]]
            money += interpolate(waits, shares, cost[k])
            square += interpolate(waits, shares, variance[k])
            exposed += waits
    return money, max(square + common * exposed * exposed, 0.0)


@njit(cache=True)
def _forecast(
    shares: Floats,
    sweep: Floats,
    cost: Matrix,
    variance: Matrix,
    common: float,
    fills_if_any: Floats,
    empty: float,
    pool_price: float,
    pools: bool,
    units: Units,
    before: bool,
) -> tuple[float, float, float, float, float, float, float]:
    """Return the fields of `_PlanForecast`."""
    _check_tables(shares, sweep, cost, variance, fills_if_any, pools)
    if len(units) != len(cost):
        raise InputError("units of a plan must be one number per place")
    total, waits = shares[-1], 0.0
    for k in range(len(units)):
        if units[k] < 0 or units[k] >= len(shares):
            raise InputError("units of a plan must be at most those of the order")
        waits += shares[units[k]]
    waits = min(waits, total)
    now = total - waits
    money, square = _waiting_moments(shares, cost, variance, common, units, 1.0)
    money += interpolate(now, shares, sweep)
    if not pools or (now <= 0 and not before):
        return money, square, money, square, money, square, 1.0
    size = total if before else now
    filled = min(interpolate(size, shares, fills_if_any), size)
    left = max(now - filled, 0.0)
    # fills beyond the shares to trade now reduce the waiting children proportionally
    still = max(total - filled - left, 0.0) / waits if waits > 0 else 0.0
    lucky, other = _waiting_moments(shares, cost, variance, common, units, min(still, 1.0))
    lucky += interpolate(left, shares, sweep) + pool_price * filled
    mean = empty * money + (1 - empty) * lucky
    both = empty * square + (1 - empty) * other + empty * (1 - empty) * (money - lucky) ** 2
    return mean, both, money, square, lucky, other, empty


@njit(cache=True)
def resting_tables(
    cost: Matrix,
    variance: Matrix,
    fills: Matrix,
    spread: Matrix,
    prices: Floats,
    horizon_sweep: float,
    extra: Floats,
    common: float,
    shares: Floats,
    mid_sd: float,
    weight: float,
    level: float,
) -> tuple[Matrix, Matrix]:
    """Append the tables of orders resting in pools, ``(J, U + 1)``, to those of limit orders, ``(V, U + 1)``.

    A fill costs the price of its pool, the remainder ``horizon_sweep``, and every share ``extra``. The own variance is
    that of the fills, ``spread``, times the squared saving of a fill. Filled shares are exposed to the ``common`` move
    for part of the time only, so that part is subtracted. ``weight`` is the price of a dollar of excess over ``level``
    dollars per share.
    """
    first, pools, width = len(cost), len(fills), len(shares)
    if cost.shape != variance.shape or fills.shape != spread.shape or len(prices) != pools or len(extra) != pools:
        raise InputError("tables of resting orders must have one row per pool and one column per unit")
    if cost.shape[1] != width or fills.shape[1] != width:
        raise InputError("tables of resting orders must have one row per pool and one column per unit")
    money, square = np.empty((first + pools, width)), np.empty((first + pools, width))
    money[:first], square[:first] = cost, variance
    for j in range(pools):
        for k in range(width):
            rest = (shares[k] - fills[j, k]) * horizon_sweep + extra[j] * shares[k]
            money[first + j, k] = fills[j, k] * prices[j] + rest
            exposed = shares[k] - EXPOSURE_SAVED * fills[j, k]
            spared = common * (shares[k] * shares[k] - exposed * exposed)
            square[first + j, k] = spread[j, k] * (horizon_sweep - prices[j]) ** 2 - spared
    if weight > 0:
        excess = resting_excess(fills, prices, horizon_sweep, mid_sd, shares, level)
        for j in range(pools):
            for k in range(width):
                money[first + j, k] += weight * excess[j, k]
    return money, square


@njit(cache=True)
def _trade_now_objective(
    now: float,
    shares: Floats,
    sweep: Floats,
    fills_if_any: Floats,
    empty: float,
    pool_price: float,
    pools: bool,
    price: float,
) -> float:
    """Return the cost of shares traded now, pools pinged first, plus ``price`` times the variance of the pings."""
    plain = interpolate(now, shares, sweep)
    if not pools or now <= 0:
        return plain
    some = min(interpolate(now, shares, fills_if_any), now)
    saved = plain - interpolate(now - some, shares, sweep) - pool_price * some
    return plain - (1 - empty) * saved + price * empty * (1 - empty) * saved * saved


@njit(cache=True)
def _best_plan(
    shares: Floats,
    sweep: Floats,
    cost: Matrix,
    variance: Matrix,
    common: float,
    fills_if_any: Floats,
    empty: float,
    pool_price: float,
    pools: bool,
    price: float,
) -> tuple[Units, bool]:
    """Return the waiting units of the best plan, and whether pools are pinged with the whole order first.

    One infimal convolution gives the best allocation of every waiting total. For pools pinged with the remainder the
    search over totals is exact. Pools pinged with the whole order scale all waiting children down; for them every few
    totals are evaluated, then all around the best.
    """
    slots, width = cost.shape
    _check_tables(shares, sweep, cost, variance, fills_if_any, pools)
    if slots == 0:
        return np.zeros(0, dtype=np.int64), False
    best, choices = cheapest_totals(cost + price * variance)  # the common variance depends on the total alone
    tables = (shares, sweep, cost, variance, common, fills_if_any, empty, pool_price, pools)
    units, before, lowest = np.zeros(slots, dtype=np.int64), False, np.inf
    chosen = 0
    for n in range(width):
        now = _trade_now_objective(shares[-1] - shares[n], shares, sweep, fills_if_any, empty, pool_price, pools, price)
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
            money, square = _forecast(*tables, rival, True)[:2]
            if money + price * square < lowest:
                units, before, lowest, middle = rival, True, money + price * square, n
    return units, before


@njit(cache=True)
def plan_under_draw(
    shares: Floats,
    sweep: Floats,
    lit_cost: Matrix,
    lit_variance: Matrix,
    common: float,
    horizon_sweep: float,
    extra: Floats,
    prices: Floats,
    share_sweep: float,
    least: float,
    fills: Matrix,
    spread: Matrix,
    drawn: Matrix,
    drawn_spread: Matrix,
    price: float,
    allowance: float,
    fill_model: Matrix,
    slopes: Floats,
    mid_sd: float,
    weight: float,
    level: float,
) -> tuple[Units, bool, Flags]:
    """Return the best plan under a posterior draw, or the greedy plan if the draw's plan looks too expensive.

    Too expensive: under the posterior mean, its objective exceeds the greedy plan's by more than ``allowance`` dollars.
    Everything is in one kernel, because a decision has to be fast. ``lit_cost`` and ``lit_variance`` are the tables of
    limit orders; ``fills (2 J, U + 1)`` and ``spread`` are posterior mean and variance of pool fills, first of pings,
    then of resting orders; ``drawn`` and ``drawn_spread`` are the same under the draw. ``share_sweep`` and ``least``
    are ``sweep`` and ``least`` of `ping_in_turn`; other arguments are those of `WaitOrTrade`, `resting_tables` and
    `limit_excess`. Returns the fields of a `UnitPlan`, and the pools worth pinging under the posterior mean, ``(J,)``.
    """
    pools = len(prices)
    if weight > 0:
        lit_cost = lit_cost + weight * limit_excess(fill_model, slopes, horizon_sweep, mid_sd, shares, level)
        sweep = sweep + weight * np.maximum(sweep - level * shares, 0.0)
    rest = (prices, horizon_sweep, extra, common, shares, mid_sd, weight, level)
    worth, together, empty, pays = _ping_in_turn(fills[:pools], prices, share_sweep, least, shares)
    cost, variance = resting_tables(lit_cost, lit_variance, fills[pools:], spread[pools:], *rest)
    mean = (shares, sweep, cost, variance, common, together / max(1 - empty, 1e-9), empty, pays, bool(worth.any()))
    best, best_before = _best_plan(*mean, price)
    pinged, together, empty, pays = _ping_in_turn(drawn[:pools], prices, share_sweep, least, shares)
    cost, variance = resting_tables(lit_cost, lit_variance, drawn[pools:], drawn_spread[pools:], *rest)
    other = (shares, sweep, cost, variance, common, together / max(1 - empty, 1e-9), empty, pays, bool(pinged.any()))
    units, before = _best_plan(*other, price)
    money, square = _forecast(*mean, best, best_before)[:2]
    rival, rival_square = _forecast(*mean, units, before)[:2]
    if rival + price * rival_square - money - price * square <= allowance:
        return units, before, worth
    return best, best_before, worth
