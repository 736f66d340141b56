"""Whole episodes of index policies, compiled.

An index policy plays the arm of lowest index every round, and as long as the bonus stays the same only the index of
the arm just played changes. A tournament tree finds it: a round costs ``log2 K`` comparisons, not K. Where the bonus
changes all indices do, and the tree is built anew.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from riskroute.arrays import Integers, Vector
from riskroute.errors import InputError
from riskroute.learning.policies.tournament import build_tournament, padded_tournament, update_tournament
from riskroute.learning.tally import merge_moments_compiled
from riskroute.validation import check_array, real_number


def index_episode(
    mean_table: Vector,
    deviation_table: Vector,
    pieces: Integers,
    noise: Vector,
    bonuses: Vector,
    risk_tolerance: float,
) -> tuple[Integers, Vector, tuple[Integers, Vector, Vector]]:
    """Play an index policy for ``len(noise)`` rounds; return arms and rewards by round, and every arm's tally.

    The tallies are counts, means and sums of squared deviations, ``(K,)`` each.

    Tables ``(P, K)`` give mean and standard deviation of every arm in every piece: a segment of time, or a scenario.
    ``pieces`` holds the piece of every round, ``bonuses`` the bonus before it. This is
    `riskroute.learning.policies.arm_policy.IndexPolicy` in one loop, and decides exactly alike.
    """
    check_array("mean_table", mean_table, np.float64, (None, None))
    check_array("deviation_table", deviation_table, np.float64, mean_table.shape)
    check_array("noise", noise, np.float64, (None,))
    check_array("pieces", pieces, np.int64, noise.shape)
    check_array("bonuses", bonuses, np.float64, noise.shape)
    if mean_table.size == 0:
        raise InputError(f"mean_table must not be empty, was of shape {mean_table.shape}")
    arms, rewards, counts, means, spreads = _index_episode(
        mean_table, deviation_table, pieces, noise, bonuses, real_number("risk_tolerance", risk_tolerance)
    )
    return arms, rewards, (counts, means, spreads)


@njit(cache=True)
def _index_episode(
    mean_table: Vector,
    deviation_table: Vector,
    pieces: Integers,
    noise: Vector,
    bonuses: Vector,
    risk_tolerance: float,
) -> tuple[Integers, Vector, Integers, Vector, Vector]:
    for piece in pieces:
        if not 0 <= piece < len(mean_table):
            raise InputError("pieces must be rows of the tables, one was out of range")
    horizon = len(noise)
    n_arms = mean_table.shape[1]
    counts = np.zeros(n_arms, dtype=np.int64)
    means = np.zeros(n_arms)
    spreads = np.zeros(n_arms)
    index = padded_tournament(np.full(n_arms, np.inf))
    winners = build_tournament(index)
    arms = np.empty(horizon, dtype=np.int64)
    rewards = np.empty(horizon)
    for t in range(horizon):
        if t == n_arms or (t > n_arms and bonuses[t] != bonuses[t - 1]):
            for k in range(n_arms):
                total = float(counts[k])
                index[k] = spreads[k] / total - risk_tolerance * means[k] - bonuses[t] / np.sqrt(total)
            winners = build_tournament(index)
        arm = t if t < n_arms else winners[1]
        reward = mean_table[pieces[t], arm] + deviation_table[pieces[t], arm] * noise[t]
        total, means[arm], spreads[arm] = merge_moments_compiled(
            float(counts[arm]), means[arm], spreads[arm], 1.0, reward, 0.0
        )
        counts[arm] = int(total)
        if t >= n_arms:
            index[arm] = spreads[arm] / total - risk_tolerance * means[arm] - bonuses[t] / np.sqrt(total)
            update_tournament(winners, index, arm)
        arms[t] = arm
        rewards[t] = reward
    return arms, rewards, counts, means, spreads
