"""Compiled parts of the runner: whole episodes of index policies, and the blocks of a plan.

An index policy plays the arm of lowest index every round, and as long as the bonus stays the same only the index of
the arm just played changes. A tournament tree finds it: a round costs ``log2 K`` comparisons, not K. Where the bonus
changes all indices do, and the tree is built anew.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import check_array, real_number, whole_number
from riskroute.learning.policies.tournament import build_tournament, padded_tournament, update_tournament
from riskroute.learning.tally import merge_moments_compiled


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


def plan_block_cuts(counts: Integers, begin: int, stops: Integers) -> tuple[Integers, Integers, Integers]:
    """Cut a plan that begins after ``begin`` rounds into blocks, at its entries and at the rounds ``stops``.

    Returns the rounds before each block, its length, and its entry of the plan.

    Examples
    --------
    >>> before, lengths, entry = plan_block_cuts(np.array([3, 4]), 10, np.array([5, 11, 15]))
    >>> before.tolist(), lengths.tolist(), entry.tolist()
    ([10, 11, 13, 15], [1, 2, 2, 2], [0, 0, 1, 1])
    """
    check_array("counts", counts, np.int64, (None,))
    check_array("stops", stops, np.int64, (None,))
    cuts = np.empty((3, len(counts) + len(stops)), dtype=np.int64)
    size = block_cuts_compiled(counts, whole_number("begin", begin, minimum=0), stops, cuts)
    return cuts[0, :size], cuts[1, :size], cuts[2, :size]


@njit(cache=True)
def block_cuts_compiled(counts: Integers, begin: int, stops: Integers, cuts: Integers) -> int:
    """Write what `plan_block_cuts` returns, one row each, and return the number of blocks."""
    end = begin + counts.sum()
    inner, known = np.empty(len(stops) + 1, dtype=np.int64), 0
    for i in range(len(stops)):
        if begin < stops[i] < end:
            place = known  # sorted as they come, most come sorted
            while place > 0 and inner[place - 1] > stops[i]:
                inner[place] = inner[place - 1]
                place -= 1
            inner[place] = stops[i]
            known += 1
    size = 0
    now, last, cut = begin, begin, 0
    for k in range(len(counts)):
        last += counts[k]
        while now < last:
            while cut < known and inner[cut] <= now:
                cut += 1
            stop = min(inner[cut], last) if cut < known else last
            cuts[0, size], cuts[1, size], cuts[2, size] = now, stop - now, k
            size += 1
            now = stop
    return size
