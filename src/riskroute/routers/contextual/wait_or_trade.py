"""Wait-or-trade decision of the contextual routers: how much to trade now, and how much to rest where.

Cost and variance of waiting are tabulated, one row per place where shares can wait. Shares traded now cost a sweep of
the displayed books, less the expected saving from pools pinged first. Two totals couple the places: shares that do not
fill are swept together at the horizon, each dearer than the last, and all shares that wait are exposed to the same move
of the mid, which charges the square of their total. Both charges are convex. Replaced by tangents, they leave a sum
over places, which an infimal convolution (`riskroute.routing.separable`) minimises for every waiting total; this is
repeated with the tangents at the solution.

A limit order that fills has a known cost; one that does not is swept at the horizon, mostly when the mid has moved
away. Its cost is therefore a right-skewed mixture, and variance understates its tail. Given the move until the horizon,
fills at different venues remain correlated, because they also depend on the path of the price.

The tail charge is proportional to the expected excess over a level: the expected shortfall at 5 % is the minimum over
levels of ``level + E(cost - level)+ / 0.05``, attained at the level that 5 % of costs exceed. The tables charge the
excess of single children over their share of the level; the sum bounds the excess of a plan from above.
`WaitOrTrade.excess` evaluates a whole plan on fixed scenarios: equally likely moves of the mid, and several fill
outcomes for each.

The arithmetic is compiled. `WaitOrTradeTables.with_pools` checks the shapes, because compiled code would read past
the end of a short array.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numba import njit

from riskroute.core.arrays import Flags, Floats, Matrix, Units
from riskroute.core.errors import InputError
from riskroute.routing.separable import cheapest_separable_totals, separable_units

EXPOSURE_SAVED = 0.4  # fraction of the exposure to the mid that shares filled in a pool avoid: they fill early

Moments = tuple[Matrix, Matrix]  # mean and variance of pool fills by unit, pings first, then resting orders


class _PlanForecast(NamedTuple):
    """Predicted cost of a plan in dollars, and its variance in squared dollars."""

    cost: float
    variance: float

    def objective(self, price: float) -> float:
        """Return cost plus ``price`` times variance."""
        return self.cost + price * self.variance


@dataclass(frozen=True, eq=False)
class WaitOrTradePlan:
    """Units that wait at each place, ``(m,)``, and whether pools are pinged with the whole order first."""

    units: Units
    before: bool


class WaitOrTradeModel(NamedTuple):
    """Fill model of limit orders until the horizon, and the market at the horizon; amounts in dollars per share.

    ``venues (V, 4)`` holds by venue the cost of a filled share, the log-odds of no fill at a move and log-ratio of 0,
    the shares in the queue, and the expected outflow until the horizon. ``slopes (2,)`` are the slopes of the log-odds
    in the standardised move and in the log-ratio of queue to outflow. ``sweep`` is the expected cost of sweeping at the
    horizon, ``mid_sd`` the standard deviation of the mid until then.
    """

    venues: Matrix
    slopes: Floats
    sweep: float
    mid_sd: float


class _PingedPools(NamedTuple):
    """Pools pinged in turn: joint fills if some pool is not empty, P(all are empty), cost of a filled share."""

    fills_if_any: Floats  # by units of the order, (U + 1,)
    empty: float
    price: float
    pinged: bool  # whether any pool is worth a ping


class WaitOrTrade(NamedTuple):
    """Cost tables of one order, in dollars and squared dollars."""

    shares: Floats  # shares in 0, 1 .. U units, (U + 1,); the last unit may be smaller
    sweep: Floats  # cost of sweeping 0, 1 .. U units now, (U + 1,)
    late: Floats  # expected cost of sweeping 0, 1 .. U units at the horizon, (U + 1,)
    cost: Matrix  # cost of 0, 1 .. U units waiting at each place, (m, U + 1), without the sweep at the horizon
    variance: Matrix  # variance of this cost at each place, (m, U + 1), without the variance of the mid
    left: Matrix  # expected shares left for the sweep at the horizon, (m, U + 1)
    exposed: Matrix  # shares exposed to the move of the mid until the horizon, (m, U + 1)
    common: float  # variance of the mid until the horizon, squared dollars
    pools: _PingedPools

    @property
    def units(self) -> int:
        """Units of the whole order."""
        return len(self.shares) - 1

    def best_plan(self, price: float) -> WaitOrTradePlan:
        """Return the plan that minimises cost plus ``price`` times variance."""
        half = float(self.shares[-1]) / 2
        units, before = _best_plan(self, price, half, half, 2)
        return WaitOrTradePlan(units, bool(before))

    def forecast(self, plan: WaitOrTradePlan) -> _PlanForecast:
        """Return the predicted cost and variance of a plan."""
        return _PlanForecast(*_forecast(self, plan.units, plan.before))

    def excess(
        self, order: WaitOrTradeTables, plan: WaitOrTradePlan, resting: Matrix, level: float
    ) -> tuple[float, float]:
        """Return the probability that a plan costs more than ``level`` dollars, and its expected excess.

        ``resting (J, U + 1)`` are the expected fills of orders that rest in pools.
        """
        chance, excess = _plan_excess(self, order, resting, plan.units, plan.before, level)
        return chance, excess


class WaitOrTradeTables(NamedTuple):
    """Costs of one order without pool fills, in dollars: tables of sweeps and limit orders by unit, and pool prices."""

    shares: Floats  # this and the next two as in WaitOrTrade
    sweep: Floats
    late: Floats
    cost: Matrix  # this and the next three as in WaitOrTrade, for limit orders only, (V, U + 1)
    variance: Matrix
    left: Matrix
    exposed: Matrix
    horizon: WaitOrTradeModel
    prices: Floats  # cost per share filled in each pool, (J,)
    extra: Floats  # adverse selection per share that rests in each pool, (J,); empty if none can rest
    share_sweep: float  # cost per share of sweeping the whole order now
    least: float  # minimum expected saving of a ping
    weight: float = 0.0  # charge per dollar of excess over the level
    level: float = 0.0  # dollars per share

    def with_pools(self, fills: Moments) -> tuple[WaitOrTrade, Flags]:
        """Return the tables with tail charge, given the moments of pool fills, and the pools worth a ping."""
        tables, worth = _charged_with_pools(self, fills)
        return tables, worth

    def plan_under_draw(
        self, mean: Moments, drawn: Moments, price: float, allowance: float
    ) -> tuple[WaitOrTradePlan, Flags]:
        """Return the best plan under a posterior draw of the pool fills, and the pools worth a ping under their mean.

        If the plan's objective under the mean exceeds the greedy plan's by more than ``allowance`` dollars, the greedy
        plan is returned.
        """
        units, before, worth = _plan_under_draw(self, mean, drawn, price, allowance)
        return WaitOrTradePlan(units, bool(before)), worth


@njit(cache=True)
def interpolate(x: float, shares: Floats, values: Floats) -> float:
    """Interpolate ``values`` linearly at ``x``; ``shares`` are evenly spaced, but the last step may be smaller."""
    step = shares[1]
    k = min(int(x / step), len(shares) - 2)
    part = (x - shares[k]) / (shares[k + 1] - shares[k])
    return float(values[k] + part * (values[k + 1] - values[k]))


# pools


@njit(cache=True)
def _ping_in_turn(order: WaitOrTradeTables, fills: Matrix) -> tuple[_PingedPools, Flags]:
    """Return the joint fills of pools pinged in turn, and which pools are worth a ping.

    A pool is pinged with all shares if the pools before it were empty, else with the mean number left.
    """
    shares, prices, share_sweep, least = order.shares, order.prices, order.share_sweep, order.least
    width = len(shares)
    worth, together, left = np.zeros(len(prices), dtype=np.bool_), np.zeros(width), np.zeros(width)
    empty, spent = 1.0, 0.0
    for j in range(len(prices)):
        if fills[j, -1] * (share_sweep - prices[j]) <= least:
            continue
        worth[j] = True
        none = 1 - min(fills[j, 1] / shares[1], 1.0)
        for k in range(width):
            first = empty * min(fills[j, k], shares[k])
            then = (1 - empty) * min(interpolate(left[k], shares, fills[j]), left[k])
            together[k] += first + then
            found = empty * (1 - none) * shares[k] - first + (1 - empty) * left[k] - then
            left[k] = max(found, 0.0) / max(1 - empty * none, 1e-9)
            if k == width - 1:
                spent += (first + then) * prices[j]
        empty *= none
    price = spent / max(together[-1], 1e-9)
    return _PingedPools(together / max(1 - empty, 1e-9), empty, price, bool(worth.any())), worth


@njit(cache=True)
def _with_pools(order: WaitOrTradeTables, moments: Moments) -> tuple[WaitOrTrade, Flags]:
    """Append rows for orders resting in pools to those of limit orders, and price the pings.

    In a pool, a filled share costs the pool's price and every resting share the pool's adverse selection. The variance
    of a resting order is the variance of its fills times the squared saving of a fill. Filled shares are exposed to the
    move of the mid for part of the time.
    """
    fills, spread = moments
    # fields are read once: reading an array field in a loop counts references each time
    shares, sweep, prices, extra = order.shares, order.sweep, order.prices, order.extra
    horizon, weight = order.horizon, order.weight
    late, width, first, pools = horizon.sweep, len(shares), len(order.cost), len(prices)
    resting = len(fills) - pools
    if fills.shape != spread.shape or fills.shape[1] != width or width < 2 or resting != len(extra):
        raise InputError("fills must have one row per ping and per resting order, and one column for 0, 1 .. U units")
    tables = (order.variance.shape, order.left.shape, order.exposed.shape)
    misfit = order.cost.shape[1] != width or len(sweep) != width or len(order.late) != width
    for shape in tables:
        misfit = misfit or shape != order.cost.shape
    if misfit or resting not in (0, pools):
        raise InputError("tables of an order must have one row per place and one column for 0, 1 .. U units")
    count = first + resting
    cost, variance = np.empty((count, width)), np.empty((count, width))
    left, exposed = np.empty((count, width)), np.empty((count, width))
    for v in range(first):
        for k in range(width):
            cost[v, k], variance[v, k] = order.cost[v, k], order.variance[v, k]
            left[v, k], exposed[v, k] = order.left[v, k], order.exposed[v, k]
    for j in range(resting):
        for k in range(width):
            mean = fills[pools + j, k]
            cost[first + j, k] = mean * prices[j] + extra[j] * shares[k]
            left[first + j, k] = shares[k] - mean
            exposed[first + j, k] = shares[k] - EXPOSURE_SAVED * mean
            variance[first + j, k] = spread[pools + j, k] * (late - prices[j]) ** 2
    if weight > 0:
        excess = _resting_excess(horizon, prices, fills[pools:], shares, order.level)
        for j in range(resting):
            for k in range(width):
                cost[first + j, k] += weight * excess[j, k]
    pings, worth = _ping_in_turn(order, fills)
    common = horizon.mid_sd * horizon.mid_sd
    return WaitOrTrade(shares, sweep, order.late, cost, variance, left, exposed, common, pings), worth


# plans


@njit(cache=True)
def _waiting_shares(tables: WaitOrTrade, units: Units) -> float:
    """Return the number of shares that wait under a plan."""
    shares, waits = tables.shares, 0.0
    for k in range(len(units)):
        waits += shares[units[k]]
    return float(min(waits, shares[-1]))


@njit(cache=True)
def _waiting_moments(tables: WaitOrTrade, units: Units, factor: float) -> tuple[float, float]:
    """Return cost and variance of waiting, with the shares at every place scaled by ``factor``."""
    shares, cost, variance, left, exposed = tables.shares, tables.cost, tables.variance, tables.left, tables.exposed
    money, square, swept, moved = 0.0, 0.0, 0.0, 0.0
    for k in range(len(units)):
        if units[k]:
            waits = factor * shares[units[k]]
            money += interpolate(waits, shares, cost[k])
            square += interpolate(waits, shares, variance[k])
            swept += interpolate(waits, shares, left[k])
            moved += interpolate(waits, shares, exposed[k])
    money += interpolate(min(swept, shares[-1]), shares, tables.late)
    return money, square + tables.common * moved * moved


@njit(cache=True)
def _coupled(tables: WaitOrTrade, units: Units) -> tuple[float, float]:
    """Return the shares that a plan expects to sweep at the horizon, and those exposed to the mid until then."""
    swept, moved = 0.0, 0.0
    for k in range(len(units)):
        swept += tables.left[k, units[k]]
        moved += tables.exposed[k, units[k]]
    return min(swept, tables.shares[-1]), moved


@njit(cache=True)
def _pinged(tables: WaitOrTrade, waits: float, before: bool) -> tuple[float, float, float]:
    """Return shares filled, shares left to trade now, and the factor on the waiting children, if some pool fills."""
    total = tables.shares[-1]
    now = total - waits
    size = total if before else now
    filled = min(interpolate(size, tables.shares, tables.pools.fills_if_any), size)
    left = max(now - filled, 0.0)
    # fills beyond the shares to trade now reduce the waiting children proportionally
    still = max(total - filled - left, 0.0) / waits if waits > 0 else 0.0
    return filled, left, min(still, 1.0)


@njit(cache=True)
def _forecast(tables: WaitOrTrade, units: Units, before: bool) -> tuple[float, float]:
    """Return the predicted cost of a plan and its variance."""
    waits = _waiting_shares(tables, units)
    now = tables.shares[-1] - waits
    money, square = _waiting_moments(tables, units, 1.0)
    money += interpolate(now, tables.shares, tables.sweep)
    if not tables.pools.pinged or (now <= 0 and not before):
        return money, square
    filled, left, still = _pinged(tables, waits, before)
    empty = tables.pools.empty
    lucky, other = _waiting_moments(tables, units, still)
    lucky += interpolate(left, tables.shares, tables.sweep) + tables.pools.price * filled
    mean = empty * money + (1 - empty) * lucky
    return mean, empty * square + (1 - empty) * other + empty * (1 - empty) * (money - lucky) ** 2


@njit(cache=True)
def _trade_now_objectives(tables: WaitOrTrade, price: float) -> Floats:
    """Return, for 0, 1 .. U waiting units, the objective of pinging pools with the other units, then sweeping."""
    shares, sweep, pools = tables.shares, tables.sweep, tables.pools
    fills, empty = pools.fills_if_any, pools.empty
    found = np.empty(len(shares))
    for n in range(len(shares)):
        now = shares[-1] - shares[n]
        found[n] = plain = interpolate(now, shares, sweep)
        if pools.pinged and now > 0:
            some = min(interpolate(now, shares, fills), now)
            saved = plain - interpolate(now - some, shares, sweep) - pools.price * some
            found[n] = plain - (1 - empty) * saved + price * empty * (1 - empty) * saved * saved
    return found


@njit(cache=True)
def _best_plan(tables: WaitOrTrade, price: float, swept: float, moved: float, rounds: int) -> tuple[Units, bool]:
    """Return the waiting units of the best plan, and whether pools are pinged with the whole order first.

    The first of ``rounds`` tangents touch at ``swept`` shares left and ``moved`` shares exposed. An infimal
    convolution gives the best allocation of every waiting total under the tangents; the total is then chosen without
    them. Pings with the whole order scale all waiting children down; for these plans a grid of totals is evaluated,
    then every total around the best.
    """
    slots, width = tables.cost.shape
    shares, late, left, exposed = tables.shares, tables.late, tables.left, tables.exposed
    units, before, lowest = np.zeros(slots, dtype=np.int64), False, np.inf
    if slots == 0:
        return units, before
    now, charge = _trade_now_objectives(tables, price), price * tables.common
    for _ in range(rounds):
        k = min(int(swept / shares[1]), width - 2)
        each, risk = (late[k + 1] - late[k]) / (shares[k + 1] - shares[k]), 2 * charge * moved
        rows = tables.cost + price * tables.variance + each * left + risk * exposed
        best, choices = cheapest_separable_totals(rows)
        for n in range(width):
            rival = separable_units(choices, n)
            last, open_to = _coupled(tables, rival)
            objective = best[n] - each * last - risk * open_to
            objective += interpolate(last, shares, late) + charge * open_to * open_to + now[n]
            if objective < lowest:
                units, lowest, swept, moved = rival, objective, last, open_to
    if not tables.pools.pinged:
        return units, before
    step, middle = max(width // 25, 1), 0
    for stage in range(2):  # a grid of totals, then those around the best
        first, last = (0, width) if stage == 0 else (max(middle - step + 1, 0), min(middle + step, width))
        for n in range(first, last, step if stage == 0 else 1):
            rival = separable_units(choices, n)
            money, square = _forecast(tables, rival, True)
            if money + price * square < lowest:
                units, before, lowest, middle = rival, True, money + price * square, n
    return units, before


@njit(cache=True)
def _plan_under_draw(
    order: WaitOrTradeTables, mean: Moments, drawn: Moments, price: float, allowance: float
) -> tuple[Units, bool, Flags]:
    """Return the fields of a `WaitOrTradePlan`, and the pools worth a ping, in one kernel for speed."""
    charged = _charged(order)
    ours, worth = _with_pools(charged, mean)
    world = _with_pools(charged, drawn)[0]
    half = order.shares[-1] / 2
    best, best_before = _best_plan(ours, price, half, half, 2)
    swept, moved = _coupled(ours, best)
    units, before = _best_plan(world, price, swept, moved, 1)  # the draw is close to the mean, and so are its tangents
    money, square = _forecast(ours, best, best_before)
    rival, rival_square = _forecast(ours, units, before)
    if rival + price * rival_square - money - price * square <= allowance:
        return units, before, worth
    return best, best_before, worth


# tails


def _mid_moves(count: int = 20) -> Floats:
    """Return the means of ``count`` equally likely intervals of a standard normal distribution, ascending."""
    normal = NormalDist()
    edges = [normal.inv_cdf(k / count) for k in range(1, count)]
    heights = [0.0, *(normal.pdf(edge) for edge in edges), 0.0]
    return np.array([count * (low - high) for low, high in pairwise(heights)])


def _uniforms(rows: int, columns: int) -> Matrix:
    """Return quasi-random uniform numbers ``(rows, columns)``: multiples of square roots of primes, modulo 1."""
    primes = [n for n in range(2, 400) if all(n % k for k in range(2, int(n**0.5) + 1))]
    roots = np.sqrt(np.array(primes[:columns], dtype=np.float64))
    return np.asarray(np.clip((np.arange(1, rows + 1)[:, None] * roots) % 1.0, 1e-6, 1 - 1e-6))


def _correlated_logits(uniforms: Matrix, correlation: float = 0.5) -> Matrix:
    """Return the logits of uniform numbers with a Gaussian copula; the last column is the common factor."""
    normal = NormalDist()
    deviations = np.array([[normal.inv_cdf(value) for value in row] for row in uniforms.tolist()])
    mixed = correlation**0.5 * deviations[:, -1:] + (1 - correlation) ** 0.5 * deviations
    luck = np.clip(np.array([[normal.cdf(value) for value in row] for row in mixed.tolist()]), 1e-6, 1 - 1e-6)
    return np.asarray(np.log(luck / (1 - luck)))


# 200 fixed scenarios: 20 moves of the mid, 10 fill outcomes for each. Columns: pinged pools, 64 places (more places
# reuse columns), the common factor of venues.
_MID_MOVES = _mid_moves()
_UNIFORMS = _uniforms(200, 66)
_LOGITS = _correlated_logits(_UNIFORMS)


@njit(cache=True)
def _share_excess(horizon: WaitOrTradeModel, missed: Floats, filled: float, drift: float, level: float) -> float:
    """Return the expected excess of one share's cost over a level; ``missed (M,)`` is P(no fill) by move."""
    total = 0.0
    for k in range(len(_MID_MOVES)):
        total += missed[k] * max(horizon.sweep + horizon.mid_sd * _MID_MOVES[k] - level, 0.0)
        total += (1 - missed[k]) * max(filled + drift * _MID_MOVES[k] - level, 0.0)
    return total / len(_MID_MOVES)


@njit(cache=True)
def _limit_excess(horizon: WaitOrTradeModel, shares: Floats, level: float) -> Matrix:
    """Return the expected excess of limit orders of ``shares (n,)`` over a level per share, in dollars, ``(V, n)``."""
    model, slopes = horizon.venues, horizon.slopes
    count, width = len(model), len(shares)
    excess, missed = np.zeros((count, width)), np.empty(len(_MID_MOVES))
    step = max((width - 1) // 4, 1)  # excess per share changes slowly with size: evaluate a few sizes, interpolate
    for v in range(count):
        last, height = 0, 0.0
        for k in range(1, width):
            if k > 1 and k % step and k < width - 1:
                continue
            score = model[v, 1] + slopes[1] * np.log((model[v, 2] + 0.5 * shares[k]) / model[v, 3])
            for i in range(len(_MID_MOVES)):
                missed[i] = 1 / (1 + np.exp(-score - slopes[0] * _MID_MOVES[i]))
            found = _share_excess(horizon, missed, model[v, 0], 0.0, level)
            for between in range(last + 1, k + 1):
                part = (between - last) / (k - last)
                each = found if last == 0 else height + part * (found - height)
                excess[v, between] = each * shares[between]
            last, height = k, found
    return excess


@njit(cache=True)
def _charged(order: WaitOrTradeTables) -> WaitOrTradeTables:
    """Return the tables with the tail charge on sweeps and limit orders."""
    if not order.weight > 0:
        return order
    shares, sweep, weight, level = order.shares, order.sweep, order.weight, order.level
    cost = order.cost + weight * _limit_excess(order.horizon, shares, level)
    sweep = sweep + weight * np.maximum(sweep - level * shares, 0.0)
    return WaitOrTradeTables(
        *(shares, sweep, order.late, cost, order.variance, order.left, order.exposed, order.horizon),
        *(order.prices, order.extra, order.share_sweep, order.least, weight, level),
    )


@njit(cache=True)
def _charged_with_pools(order: WaitOrTradeTables, moments: Moments) -> tuple[WaitOrTrade, Flags]:
    return _with_pools(_charged(order), moments)


@njit(cache=True)
def _resting_excess(horizon: WaitOrTradeModel, prices: Floats, fills: Matrix, shares: Floats, level: float) -> Matrix:
    """Return the expected excess of orders resting in pools, ``(J, n)``; ``fills (J, n)`` are expected fills."""
    excess, missed = np.zeros(fills.shape), np.empty(len(_MID_MOVES))
    for j in range(len(fills)):
        missed[:] = 1.0
        late = _share_excess(horizon, missed, prices[j], 0.0, level)
        missed[:] = 0.0
        early = _share_excess(horizon, missed, prices[j], (1 - EXPOSURE_SAVED) * horizon.mid_sd, level)
        for k in range(1, len(shares)):
            chance = min(fills[j, k] / shares[k], 1.0)
            excess[j, k] = shares[k] * (chance * early + (1 - chance) * late)
    return excess


@njit(cache=True)
def _plan_excess(
    tables: WaitOrTrade, order: WaitOrTradeTables, resting: Matrix, units: Units, before: bool, level: float
) -> tuple[float, float]:
    """Return the probability that a plan costs more than ``level`` dollars, and its expected excess."""
    waits = _waiting_shares(tables, units)
    horizon, prices, shares = order.horizon, order.prices, tables.shares
    model, slopes = horizon.venues, horizon.slopes
    venues = len(model)
    now = shares[-1] - waits
    pinged = tables.pools.pinged and (now > 0 or before)
    filled, left, still = _pinged(tables, waits, before) if pinged else (0.0, now, 1.0)
    lucky = interpolate(left, shares, tables.sweep) + tables.pools.price * filled
    unlucky = interpolate(now, shares, tables.sweep)
    above, excess = 0, 0.0
    sweep, mid_sd, empty = horizon.sweep, horizon.mid_sd, tables.pools.empty
    for i in range(len(_UNIFORMS)):
        z = _MID_MOVES[i % len(_MID_MOVES)]
        late = sweep + mid_sd * z
        any_found = pinged and _UNIFORMS[i, 0] >= empty
        factor = still if any_found else 1.0
        cost = lucky if any_found else unlucky
        for k in range(len(units)):
            if units[k] == 0:
                continue
            n, luck = factor * shares[units[k]], 1 + k % (_UNIFORMS.shape[1] - 2)
            if k < venues:
                score = model[k, 1] + slopes[0] * z
                done = n
                if slopes[1] > 0.05:  # invert the fill model: outflow in this scenario, less the queue ahead
                    odds = min((_LOGITS[i, luck] - score) / slopes[1], 50.0)
                    done = min(max(model[k, 3] * np.exp(odds) - model[k, 2], 0.0), n)
                elif _LOGITS[i, luck] <= score + slopes[1] * np.log((model[k, 2] + n) / model[k, 3]):
                    done = 0.0
                cost += model[k, 0] * done + late * (n - done)
            else:
                j = k - venues
                chance = min(interpolate(n, shares, resting[j]) / n, 1.0) if n > 0 else 0.0
                early = prices[j] + (1 - EXPOSURE_SAVED) * mid_sd * z
                cost += n * (early if _UNIFORMS[i, luck] < chance else late)
        if cost > level:
            above += 1
            excess += cost - level
    return above / len(_UNIFORMS), excess / len(_UNIFORMS)
