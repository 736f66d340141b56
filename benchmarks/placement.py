"""Placement after Cont and Kukanov in closed form, its costs, and placements that overbook the order.

The router posts at most the order. The paper allows more, up to the remainder at each exchange, at a penalty for
surplus fills, which would have to be unwound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Matrix, Vector
from riskroute.core.validation import whole_number
from riskroute.routers.literature.cont_kukanov import _gradient_step, _Placement, _PlacementPrices, _step_size

_BISECTIONS = 60


def placement_costs(
    shares: int, market: float, limits: Vector, ahead: Vector, outflows: Matrix, prices: _PlacementPrices
) -> Floats:
    """Return the cost of a placement for each sample of outflows ``(n, K)``, in dollars, ``(n,)``."""
    reached = np.asarray(outflows, dtype=np.float64) - ahead
    fills = np.clip(reached, 0.0, limits)
    had = market + fills.sum(axis=1)
    missing = np.maximum(shares - had, 0.0)
    sent = market + float(np.sum(limits)) + missing
    penalties = prices.under * missing + prices.over * np.maximum(had - shares, 0.0)
    return np.asarray(prices.taking * market - fills @ prices.gains + prices.impact * sent + penalties)


def one_exchange_placement(
    shares: int, ahead: int, distribution: Callable[[float], float], prices: _PlacementPrices
) -> tuple[int, int]:
    """Return the optimal ``M`` and ``L`` for one exchange in closed form.

    ``L`` is the smallest size for which the probability of an incomplete fill ``F(Q + L)`` reaches
    ``(2h + f + r) / (lambda_u + h + r + theta)``; the whole order if none does.

    Parameters
    ----------
    distribution : Callable
        Cumulative distribution function ``F`` of the outflow.
    """
    gain = float(prices.gains[0])
    fraction = (prices.taking + gain) / (prices.under + gain + prices.impact)
    low, high = 0, whole_number("shares", shares)
    while low < high:
        half = (low + high) // 2
        if distribution(ahead + half) >= fraction:
            high = half
        else:
            low = half + 1
    return shares - low, low


@njit(cache=True)
def overbooked_placement(problem: _Placement, steps: int) -> Floats:
    """Return ``(M, L_1, .., L_K)`` like `_stochastic_placement`, but post more than the order if that costs less."""
    count = len(problem.ahead) + 1
    step, placed, mean = _step_size(problem, steps), np.full(count, problem.shares / count), np.zeros(count)
    for n in range(steps):
        _gradient_step(problem, placed, n % len(problem.outflows), step)
        into_overbooked(placed, problem.shares)
        if n >= steps // 2:
            for k in range(count):
                mean[k] += placed[k]
    return mean / (steps - steps // 2)


@njit(cache=True)
def _posted(placed: Floats, room: float, raised: float) -> float:
    """Return the shares posted if all limits are shifted by ``raised`` and clipped to ``[0, room]``."""
    total = 0.0
    for k in range(1, len(placed)):
        total += min(max(placed[k] + raised, 0.0), room)
    return total


@njit(cache=True)
def _raise(placed: Floats, room: float) -> float:
    """Return the shift of all limits with which they sum to at least ``room``, by bisection."""
    low, high = 0.0, room - float(placed[1:].min())
    if _posted(placed, room, 0.0) >= room:
        return 0.0
    for _ in range(_BISECTIONS):
        half = (low + high) / 2
        if _posted(placed, room, half) < room:
            low = half
        else:
            high = half
    return high


@njit(cache=True)
def _distance(placed: Floats, shares: float, market: float) -> float:
    """Return the squared distance to the nearest feasible placement that takes ``market`` shares."""
    room = shares - market
    raised = _raise(placed, room)
    total = float((market - placed[0]) ** 2)
    for k in range(1, len(placed)):
        total += (min(max(placed[k] + raised, 0.0), room) - placed[k]) ** 2
    return total


@njit(cache=True)
def into_overbooked(placed: Floats, shares: float) -> None:
    """Project in place onto ``0 <= M <= S``, ``0 <= L_k <= S - M``, ``M + sum_k L_k >= S``."""
    room, least, most, total = shares - placed[0], np.inf, -np.inf, 0.0
    for k in range(1, len(placed)):
        least, most, total = min(least, placed[k]), max(most, placed[k]), total + placed[k]
    if 0.0 <= placed[0] <= shares and least >= 0.0 and most <= room and total >= room:
        return
    low, high = 0.0, shares
    for _ in range(2 * _BISECTIONS):  # ternary search: the distance is convex in the shares taken
        third = (high - low) / 3
        if _distance(placed, shares, low + third) <= _distance(placed, shares, high - third):
            high -= third
        else:
            low += third
    room = shares - high
    raised = _raise(placed, room)
    placed[0] = high
    for k in range(1, len(placed)):
        placed[k] = min(max(placed[k] + raised, 0.0), room)
