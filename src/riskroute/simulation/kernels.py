"""Whole episodes of index policies, compiled.

An index policy plays the arm of lowest index every round, and only the index of the arm just played changes. A
tournament tree finds it: a round costs ``log2 K`` comparisons, not K.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from riskroute.learning.tally import merge_moments_compiled
from riskroute.learning.tournament import build_tree, padded, replay

Vector = NDArray[np.float64]


@njit(cache=True)
def index_episode(
    mean_table: Vector,
    deviation_table: Vector,
    starts: NDArray[np.int64],
    noise: Vector,
    bonus: float,
    risk_tolerance: float,
) -> tuple[NDArray[np.int64], Vector, NDArray[np.int64]]:
    """Play RiskUCB for ``len(noise)`` rounds; return arms and rewards by round, and how often each arm was played.

    Tables ``(pieces, K)`` give mean and standard deviation of every arm in every stretch of time; ``starts`` its first
    round. This is `riskroute.learning.risk_ucb.RiskUcb` in one loop, and decides exactly alike.
    """
    horizon = len(noise)
    n_arms = mean_table.shape[1]
    counts = np.zeros(n_arms, dtype=np.int64)
    means = np.zeros(n_arms)
    spreads = np.zeros(n_arms)
    index = padded(np.full(n_arms, np.inf))
    winners = build_tree(index)
    arms = np.empty(horizon, dtype=np.int64)
    rewards = np.empty(horizon)
    piece = 0
    for t in range(horizon):
        while piece + 1 < len(starts) and starts[piece + 1] <= t:
            piece += 1
        arm = t if t < n_arms else winners[1]
        reward = mean_table[piece, arm] + deviation_table[piece, arm] * noise[t]
        total, means[arm], spreads[arm] = merge_moments_compiled(
            float(counts[arm]), means[arm], spreads[arm], 1.0, reward, 0.0
        )
        counts[arm] = int(total)
        index[arm] = spreads[arm] / total - risk_tolerance * means[arm] - bonus / np.sqrt(total)
        if t == n_arms - 1:
            winners = build_tree(index)
        elif t >= n_arms:
            replay(winners, index, arm)
        arms[t] = arm
        rewards[t] = reward
    return arms, rewards, counts
