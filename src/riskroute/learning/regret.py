"""Mean-variance regret of a path of rewards, and its temporal decomposition.

The mean-variance of a path (the paper's xi) is the sum of the squared deviations of its rewards from their mean, minus
the risk tolerance times the sum of the rewards. Regret is this mean-variance minus the *expected* mean-variance of
always playing the best action. Tallies are merged block by block; ``E[x^2] - mean^2`` would lose digits to
cancellation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers, Vector
from riskroute.core.validation import one_of, whole_number
from riskroute.learning.plan import LONGEST_HORIZON
from riskroute.learning.tally import merge_moments_compiled


@njit(cache=True)
def _harmonic(n: float) -> float:
    """Return the harmonic number ``1 + 1/2 + .. + 1/n`` to machine precision."""
    total = 0.0
    while n > 0 and n < 20:
        total += 1 / n
        n -= 1
    if n == 0:
        return total
    square = 1 / (n * n)
    tail = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    return float(total + np.log(n) + 0.57721566490153286061 + 0.5 / n - tail)


class RegretBlocks(NamedTuple):
    """Consecutive blocks of an episode, each on a single action, as arrays ``(n,)``."""

    counts: Integers  # rounds of each block
    reward_means: Vector
    reward_spreads: Vector  # sums of squared deviations from `reward_means`
    true_means: Vector
    true_variances: Vector
    gaps: Vector  # mean-variance of the block's action minus the best action's


def block_regret_curves(
    blocks: RegretBlocks, checkpoints: Integers, anchors: Vector, risk_tolerance: float
) -> tuple[Vector, Vector, Vector]:
    """Return path mean-variance, pseudo-regret and luck at checkpoints, ``(C,)`` each.

    Checkpoints ascend, each at the end of a block. Pseudo-regret is the sum over rounds ``t`` of the gap and a
    switching cost: the sum of squared differences between the true means of this and each earlier round, divided by
    ``t``. Within a block this sum is constant, so the block's switching cost is the sum times a difference of harmonic
    numbers.

    Luck is a control variate, the part of the path's mean-variance that is due to noise. Around a constant ``c`` the
    path's squared deviations are ``sum (x - c)^2`` minus ``t (mean - c)^2``. With ``e = x - mu`` the noise of a round
    with true mean ``mu`` and variance ``v``, luck is the sum over rounds of

        ``e^2 - v - risk_tolerance e + 2 (mu - c) e``.

    If rewards are independent given the actions, every term has expectation zero for any policy and any ``c`` fixed in
    advance. ``anchors`` holds the ``c`` of every checkpoint; an anchor near the path's mean removes most of the noise.
    """
    curves: tuple[Vector, Vector, Vector] = _block_curves(*blocks, checkpoints, anchors, risk_tolerance)
    return curves


@njit(cache=True)
def _block_curves(
    counts: Integers,
    reward_means: Vector,
    reward_spreads: Vector,
    true_means: Vector,
    true_variances: Vector,
    gaps: Vector,
    checkpoints: Integers,
    anchors: Vector,
    risk_tolerance: float,
) -> tuple[Vector, Vector, Vector]:
    xi, pseudo, luck = np.zeros(len(checkpoints)), np.zeros(len(checkpoints)), np.zeros(len(checkpoints))
    count, mean, spread = 0.0, 0.0, 0.0  # tally of the rewards so far
    level, apart = 0.0, 0.0  # mean and summed squared deviations of the true means so far
    loss = 0.0
    chance, noise = 0.0, 0.0  # luck around the last anchor; summed noise, which converts it to other anchors
    reached = 0
    for i in range(len(counts)):
        n = float(counts[i])
        from_before = apart + count * (true_means[i] - level) ** 2
        if from_before > 0:
            if n == 1:
                loss += from_before / (count + 1)
            else:
                loss += from_before * (_harmonic(count + n) - _harmonic(count))
        loss += n * gaps[i]
        error = reward_means[i] - true_means[i]
        chance += reward_spreads[i] + n * (error * error - true_variances[i])
        chance += n * error * (2 * (true_means[i] - anchors[-1]) - risk_tolerance)
        noise += n * error
        _, level, apart = merge_moments_compiled(count, level, apart, n, true_means[i], 0.0)
        count, mean, spread = merge_moments_compiled(count, mean, spread, n, reward_means[i], reward_spreads[i])
        while reached < len(checkpoints) and checkpoints[reached] <= count:
            xi[reached] = spread - risk_tolerance * count * mean
            pseudo[reached] = loss
            luck[reached] = chance + 2 * (anchors[-1] - anchors[reached]) * noise
            reached += 1
    return xi, pseudo, luck


def regret_checkpoints(horizon: int, count: int = 100, spacing: str = "both") -> Integers:
    """Return about ``count`` rounds at which to record curves; ``spacing``: ``log``, ``linear`` or ``both`` mixed."""
    whole_number("horizon", horizon, maximum=LONGEST_HORIZON)
    whole_number("checkpoints", count, maximum=10**6)
    log = np.geomspace(1, horizon, count) if count > 1 else np.array([horizon], dtype=float)
    linear = np.linspace(horizon / count, horizon, count)
    both = np.concatenate([log[::-1][::2], linear[::-1][::2]])
    chosen = {"log": log, "linear": linear, "both": both}[one_of("spacing", spacing, ("log", "linear", "both"))]
    return np.unique(np.round(chosen).astype(np.int64).clip(1, horizon))
