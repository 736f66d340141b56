"""Tail cost of plans that wait: expected excess over a level, given the move of the mid until the horizon.

All waiting shares share one risk factor, the move of the mid. A limit order that fills has a known cost; one that does
not is swept at the horizon, mostly when the mid has moved away. Its cost is therefore a mixture, skewed to the costly
side, and variance understates its tail. Given the move, fills at different venues remain correlated, because a price
that left early comes back late.

The expected shortfall at 5 % is the minimum over levels of ``level + E(cost - level)+ / 0.05``, attained at the level
that 5 % of costs exceed. `limit_excess` and `resting_excess` give the expected excess of one child over its share of a
level; their sum bounds the excess of a plan from above. `plan_excess` evaluates a whole plan on fixed scenarios:
equally likely moves of the mid, and several fill outcomes for each.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Matrix, Units
from riskroute.core.errors import InputError

SHORTFALL_LEVEL = 0.05  # worst fraction of orders that the expected shortfall averages
EXPOSURE_SAVED = 0.4  # fraction of the exposure to the mid that shares filled in a pool avoid: they fill early


def _mid_moves(count: int = 20) -> Floats:
    """Return the means of ``count`` equally likely slices of a standard normal distribution, ascending."""
    normal = NormalDist()
    edges = [normal.inv_cdf(k / count) for k in range(1, count)]
    heights = [0.0, *(normal.pdf(edge) for edge in edges), 0.0]
    return np.array([count * (low - high) for low, high in pairwise(heights)])


def _uniforms(rows: int, columns: int) -> Matrix:
    """Return evenly spread uniform numbers ``(rows, columns)``: multiples of square roots of primes, modulo 1."""
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
def interpolate(x: float, shares: Floats, values: Floats) -> float:
    """Interpolate ``values`` linearly at ``x``; ``shares`` are evenly spaced, but the last step may be smaller."""
    step = shares[1]
    k = min(int(x / step), len(shares) - 2)
    part = (x - shares[k]) / (shares[k + 1] - shares[k])
    return float(values[k] + part * (values[k + 1] - values[k]))


@njit(cache=True)
def _share_excess(
    missed: Floats, filled: float, drift: float, horizon_sweep: float, mid_sd: float, level: float
) -> float:
    """Return the expected excess of one share's cost over a level.

    ``missed (M,)`` is the probability of no fill by move. A fill costs ``filled`` plus ``drift`` times the move, a
    sweep at the horizon ``horizon_sweep`` plus ``mid_sd`` times the move.
    """
    total = 0.0
    for k in range(len(_MID_MOVES)):
        total += missed[k] * max(horizon_sweep + mid_sd * _MID_MOVES[k] - level, 0.0)
        total += (1 - missed[k]) * max(filled + drift * _MID_MOVES[k] - level, 0.0)
    return total / len(_MID_MOVES)


@njit(cache=True)
def limit_excess(
    fill_model: Matrix, slopes: Floats, horizon_sweep: float, mid_sd: float, shares: Floats, level: float
) -> Matrix:
    """Return the expected excess of limit orders of ``shares (n,)`` over a level, in dollars, ``(V, n)``.

    ``fill_model (V, 4)`` holds by venue the cost of a filled share, the log-odds of no fill for a zero move and
    log-ratio, the shares in the queue, and the expected outflow until the horizon. ``slopes`` are those of the log-odds
    in the standardised move and in the log-ratio of queue to outflow. Other amounts are in dollars per share.
    """
    if fill_model.shape[1] != 4 or len(slopes) != 2:
        raise InputError("fill model must have four numbers per venue and two slopes")
    count, width = len(fill_model), len(shares)
    excess, missed = np.zeros((count, width)), np.empty(len(_MID_MOVES))
    step = max((width - 1) // 4, 1)  # excess per share changes slowly with size: evaluate a few sizes, interpolate
    for v in range(count):
        last, height = 0, 0.0
        for k in range(1, width):
            if k > 1 and k % step and k < width - 1:
                continue
            score = fill_model[v, 1] + slopes[1] * np.log((fill_model[v, 2] + 0.5 * shares[k]) / fill_model[v, 3])
            for i in range(len(_MID_MOVES)):
                missed[i] = 1 / (1 + np.exp(-score - slopes[0] * _MID_MOVES[i]))
            found = _share_excess(missed, fill_model[v, 0], 0.0, horizon_sweep, mid_sd, level)
            for between in range(last + 1, k + 1):
                part = (between - last) / (k - last)
                each = found if last == 0 else height + part * (found - height)
                excess[v, between] = each * shares[between]
            last, height = k, found
    return excess


@njit(cache=True)
def resting_excess(
    fills: Matrix, prices: Floats, horizon_sweep: float, mid_sd: float, shares: Floats, level: float
) -> Matrix:
    """Return the expected excess of orders resting in pools, ``(J, n)``; ``fills (J, n)`` are expected fills."""
    if len(fills) != len(prices) or fills.shape[1] != len(shares):
        raise InputError("tables of resting orders must have one row per pool and one column per size")
    excess, missed = np.zeros(fills.shape), np.empty(len(_MID_MOVES))
    for j in range(len(fills)):
        missed[:] = 1.0
        late = _share_excess(missed, prices[j], 0.0, horizon_sweep, mid_sd, level)
        missed[:] = 0.0
        early = _share_excess(missed, prices[j], (1 - EXPOSURE_SAVED) * mid_sd, horizon_sweep, mid_sd, level)
        for k in range(1, len(shares)):
            chance = min(fills[j, k] / shares[k], 1.0)
            excess[j, k] = shares[k] * (chance * early + (1 - chance) * late)
    return excess


@njit(cache=True)
def plan_excess(
    shares: Floats,
    sweep: Floats,
    units: Units,
    before: bool,
    fills_if_any: Floats,
    empty: float,
    pool_price: float,
    pools: bool,
    fill_model: Matrix,
    slopes: Floats,
    resting: Matrix,
    prices: Floats,
    horizon_sweep: float,
    mid_sd: float,
    level: float,
) -> tuple[float, float]:
    """Return the probability that a plan costs more than ``level`` dollars, and its expected excess.

    ``units (V + J,)`` wait at venues, then in pools; ``resting (J, U + 1)`` are the fills expected there. The other
    arguments are those of a `riskroute.routers.contextual.wait_or_trade.WaitOrTrade` and of `limit_excess`.
    """
    venues, places = len(fill_model), len(units)
    if venues + len(resting) != places or len(prices) != len(resting) or resting.shape[1] != len(shares):
        raise InputError("tables of a plan must have one row per place and one column per unit")
    if fill_model.shape[1] != 4 or len(slopes) != 2:
        raise InputError("fill model must have four numbers per venue and two slopes")
    if len(sweep) != len(shares) or (pools and len(fills_if_any) != len(shares)):
        raise InputError("tables of a plan must have one row per place and one column per unit")
    total, waits = shares[-1], 0.0
    for k in range(places):
        if units[k] < 0 or units[k] >= len(shares):
            raise InputError("units of a plan must be at most those of the order")
        waits += shares[units[k]]
    waits = min(waits, total)
    now = total - waits
    pinged = pools and (now > 0 or before)
    size = total if before else now
    filled = min(interpolate(size, shares, fills_if_any), size) if pinged else 0.0
    left = max(now - filled, 0.0)
    # fills beyond the shares to trade now reduce the waiting children proportionally
    still = min(max(total - filled - left, 0.0) / waits, 1.0) if waits > 0 else 0.0
    lucky = interpolate(left, shares, sweep) + pool_price * filled
    unlucky = interpolate(now, shares, sweep)
    above, excess = 0, 0.0
    for i in range(len(_UNIFORMS)):
        z = _MID_MOVES[i % len(_MID_MOVES)]
        late = horizon_sweep + mid_sd * z
        any_found = pinged and _UNIFORMS[i, 0] >= empty
        factor = still if any_found else 1.0
        cost = lucky if any_found else unlucky
        for k in range(places):
            if units[k] == 0:
                continue
            n, luck = factor * shares[units[k]], 1 + k % (_UNIFORMS.shape[1] - 2)
            if k < venues:
                score = fill_model[k, 1] + slopes[0] * z
                done = n
                if slopes[1] > 0.05:  # invert the fill model: outflow in this scenario, less the queue ahead
                    odds = min((_LOGITS[i, luck] - score) / slopes[1], 50.0)
                    done = min(max(fill_model[k, 3] * np.exp(odds) - fill_model[k, 2], 0.0), n)
                elif _LOGITS[i, luck] <= score + slopes[1] * np.log((fill_model[k, 2] + n) / fill_model[k, 3]):
                    done = 0.0
                cost += fill_model[k, 0] * done + late * (n - done)
            else:
                j = k - venues
                chance = min(interpolate(n, shares, resting[j]) / n, 1.0) if n > 0 else 0.0
                cost += n * (prices[j] + (1 - EXPOSURE_SAVED) * mid_sd * z if _UNIFORMS[i, luck] < chance else late)
        if cost > level:
            above += 1
            excess += cost - level
    return above / len(_UNIFORMS), excess / len(_UNIFORMS)
