"""Tails of plans that wait: what the worst twentieth of orders costs, given how far the mid moves until the horizon.

All shares that wait have one thing in common, the move of the mid. A limit order that fills costs a known price; one
that does not is swept at the horizon, and that happens most of all when the mid has moved away. So the law of its cost
is a mixture, skewed the wrong way, and its tail says more than its variance. Given the move, what
fills at one venue still says something about others: a price that left early comes back late.

The expected shortfall is the level that costs exceed in one case of twenty, plus twenty times what they come to beyond
it on average; any other level gives more. `limit_beyond_compiled` and `rest_beyond_compiled` say what one child costs
beyond its part of a level; added up they are an upper bound for a plan. `plan_beyond_compiled` works it out for a whole
plan, over fixed scenarios: moves that are equally likely, and for every move several cases of luck.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Matrix, Units
from riskroute.core.errors import InputError

# MERGED: Interpolation in tables by units of an order, compiled.


@njit(cache=True)
def interpolate_compiled(x: float, shares: Floats, values: Floats) -> float:
    """Interpolate ``values`` between the shares of two units; shares rise evenly but for the last unit."""
    step = shares[1]
    k = min(int(x / step), len(shares) - 2)
    part = (x - shares[k]) / (shares[k + 1] - shares[k])
    return float(values[k] + part * (values[k + 1] - values[k]))


SHORTFALL = 0.05
"""Worst fraction of orders that the expected shortfall is the mean of."""

SPARED = 0.4
"""Part of the exposure to the mid that shares are spared which find somebody in a pool before the horizon."""

MOVES = 20
"""Equally likely moves of the mid."""

LUCK = 10
"""Cases of luck for every move."""

TOGETHER = 0.5
"""Correlation of the luck of limit orders at two venues, given the move of the mid."""

MOST_PLACES = 64
"""Places beyond share their luck with others."""


def _moves() -> Floats:
    """Means of equally likely parts of a standard normal law, from the lowest to the highest."""
    law = NormalDist()
    edges = [law.inv_cdf(k / MOVES) for k in range(1, MOVES)]
    heights = [0.0, *(law.pdf(edge) for edge in edges), 0.0]
    return np.array([MOVES * (low - high) for low, high in pairwise(heights)])


def _chances() -> Matrix:
    """Uniform numbers that are spread evenly, ``(MOVES * LUCK, 2 + MOST_PLACES)``: multiples of roots of primes.

    The first column is for pools that are tried, the next ones for places, the last for what venues have in common.
    """
    primes = [n for n in range(2, 400) if all(n % k for k in range(2, int(n**0.5) + 1))]
    roots = np.sqrt(np.array(primes[: 2 + MOST_PLACES], dtype=np.float64))
    return np.asarray(np.clip((np.arange(1, MOVES * LUCK + 1)[:, None] * roots) % 1.0, 1e-6, 1 - 1e-6))


def _shared(chances: Matrix) -> Matrix:
    """Log-odds of luck at venues: normal deviations that have one part in common, the last column."""
    law = NormalDist()
    deviations = np.array([[law.inv_cdf(chance) for chance in row] for row in chances.tolist()])
    mixed = TOGETHER**0.5 * deviations[:, -1:] + (1 - TOGETHER) ** 0.5 * deviations
    luck = np.clip(np.array([[law.cdf(value) for value in row] for row in mixed.tolist()]), 1e-6, 1 - 1e-6)
    return np.asarray(np.log(luck / (1 - luck)))


_MOVE = _moves()
_CHANCE = _chances()
_LOGIT = _shared(_CHANCE)


@njit(cache=True)
def child_beyond_compiled(
    missed: Floats, filled: float, drift: float, later: float, move: float, level: float
) -> float:
    """How much a share costs beyond a level on average, if it costs ``filled``, or is swept ``later``.

    Parameters
    ----------
    missed : Floats
        Probability that it is not filled, by move, ``(MOVES,)``.
    filled, drift : float
        Its cost if it is filled, and what that changes by for a move of one deviation.
    later, move : float
        Its cost if it is not, without a move, and what that changes by for a move of one deviation.
    """
    total = 0.0
    for k in range(MOVES):
        total += missed[k] * max(later + move * _MOVE[k] - level, 0.0)
        total += (1 - missed[k]) * max(filled + drift * _MOVE[k] - level, 0.0)
    return total / MOVES


@njit(cache=True)
def limit_beyond_compiled(
    law: Matrix, slopes: Floats, later: float, move: float, shares: Floats, level: float
) -> Matrix:
    """Dollars that limit orders of ``shares (n,)`` cost beyond a level on average, ``(V, n)``.

    Parameters
    ----------
    law : Matrix
        By venue, ``(V, 4)``: the cost of a filled share, the log-odds not to fill without a move or a queue, the shares
        in the queue, and those that leave it until the horizon.
    slopes : Floats
        What log-odds rise by for a move of one deviation, and for the logarithm of queue over outflow.
    later, move, level : float
        The cost a share of a sweep at the horizon, the deviation of the mid until then, and the level, a share.
    """
    if law.shape[1] != 4 or len(slopes) != 2:
        raise InputError("the law of limit orders must have four numbers by venue and two slopes, and had not")
    count, width = len(law), len(shares)
    beyond, missed = np.zeros((count, width)), np.empty(MOVES)
    step = max((width - 1) // 4, 1)
    for v in range(count):
        last, height = 0, 0.0
        for k in range(1, width):
            if k > 1 and k % step and k < width - 1:
                continue
            score = law[v, 1] + slopes[1] * np.log((law[v, 2] + 0.5 * shares[k]) / law[v, 3])
            for i in range(MOVES):
                missed[i] = 1 / (1 + np.exp(-score - slopes[0] * _MOVE[i]))
            found = child_beyond_compiled(missed, law[v, 0], 0.0, later, move, level)
            for between in range(last + 1, k + 1):  # what a share costs changes slowly with the size
                part = (between - last) / (k - last)
                each = found if last == 0 else height + part * (found - height)
                beyond[v, between] = each * shares[between]
            last, height = k, found
    return beyond


@njit(cache=True)
def rest_beyond_compiled(
    found: Matrix, prices: Floats, later: float, move: float, shares: Floats, level: float
) -> Matrix:
    """The same of orders that rest in pools, of which ``found (J, n)`` shares are expected to fill."""
    if len(found) != len(prices) or found.shape[1] != len(shares):
        raise InputError("tables of resting orders must belong to the same pools and units, and did not")
    beyond, missed = np.zeros(found.shape), np.empty(MOVES)
    for j in range(len(found)):
        missed[:] = 1.0
        late = child_beyond_compiled(missed, prices[j], 0.0, later, move, level)
        missed[:] = 0.0
        early = child_beyond_compiled(missed, prices[j], (1 - SPARED) * move, later, move, level)
        for k in range(1, len(shares)):
            chance = min(found[j, k] / shares[k], 1.0)
            beyond[j, k] = shares[k] * (chance * early + (1 - chance) * late)
    return beyond


@njit(cache=True)
def plan_beyond_compiled(
    shares: Floats,
    sweep: Floats,
    units: Units,
    before: bool,
    found_if_any: Floats,
    nothing: float,
    pool_price: float,
    pools: bool,
    law: Matrix,
    slopes: Floats,
    resting: Matrix,
    prices: Floats,
    later: float,
    move: float,
    level: float,
) -> tuple[float, float]:
    """How likely a plan costs more than a ``level`` of dollars, and how much more it costs on average.

    ``units (V + J,)`` wait at venues, then in pools; ``resting (J, U + 1)`` are the shares expected to fill there. All
    else as of a `riskroute.routers.contextual.wait_or_trade.WaitOrTrade`, and of `limit_beyond_compiled`.
    """
    venues, places = len(law), len(units)
    if venues + len(resting) != places or len(prices) != len(resting) or resting.shape[1] != len(shares):
        raise InputError("tables of a plan must belong to the same places and units, and did not")
    if (
        law.shape[1] != 4
        or len(slopes) != 2
        or len(sweep) != len(shares)
        or (pools and len(found_if_any) != len(shares))
    ):
        raise InputError("tables of a plan must belong to the same places and units, and did not")
    total, waits = shares[-1], 0.0
    for k in range(places):
        if units[k] < 0 or units[k] >= len(shares):
            raise InputError("units of a plan must be at most those of the order, and were not")
        waits += shares[units[k]]
    waits = min(waits, total)
    now = total - waits
    tried = pools and (now > 0 or before)
    size = total if before else now
    filled = min(interpolate_compiled(size, shares, found_if_any), size) if tried else 0.0
    left = max(now - filled, 0.0)
    still = min(max(total - filled - left, 0.0) / waits, 1.0) if waits > 0 else 0.0
    lucky = interpolate_compiled(left, shares, sweep) + pool_price * filled
    unlucky = interpolate_compiled(now, shares, sweep)
    above, beyond = 0, 0.0
    for i in range(MOVES * LUCK):
        z = _MOVE[i % MOVES]
        late = later + move * z
        any_found = tried and _CHANCE[i, 0] >= nothing
        factor = still if any_found else 1.0
        cost = lucky if any_found else unlucky
        for k in range(places):
            if units[k] == 0:
                continue
            n, luck = factor * shares[units[k]], 1 + k % MOST_PLACES
            if k < venues:
                score = law[k, 1] + slopes[0] * z
                done = n
                if slopes[1] > 0.05:  # the outflow that luck brings, beyond the queue
                    odds = min((_LOGIT[i, luck] - score) / slopes[1], 50.0)
                    done = min(max(law[k, 3] * np.exp(odds) - law[k, 2], 0.0), n)
                elif _LOGIT[i, luck] <= score + slopes[1] * np.log((law[k, 2] + n) / law[k, 3]):
                    done = 0.0
                cost += law[k, 0] * done + late * (n - done)
            else:
                j = k - venues
                chance = min(interpolate_compiled(n, shares, resting[j]) / n, 1.0) if n > 0 else 0.0
                cost += n * (prices[j] + (1 - SPARED) * move * z if _CHANCE[i, luck] < chance else late)
        if cost > level:
            above += 1
            beyond += cost - level
    return above / (MOVES * LUCK), beyond / (MOVES * LUCK)
