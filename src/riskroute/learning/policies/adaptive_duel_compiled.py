"""`AdaptiveDuel` in compiled code: with the same random numbers, the same decisions.

What an action would teach about a rival depends on the covariance through products of two feature vectors only. They
are formed once per plan; an imagined observation changes each of them by a product of two numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.core.validation import kernel_array
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.learning.policies.adaptive_duel import CAUTION, ENOUGH, AdaptiveDuel
from riskroute.learning.small_matrices import padded_length

if TYPE_CHECKING:
    from riskroute.learning.policies.adaptive import Adaptive

_ROOT_OF_TWO_PI, _ROOT_OF_TWO = math.sqrt(2 * math.pi), math.sqrt(2)


class CompiledDuel(AdaptiveDuel):
    """The leader against its rivals; `AdaptiveDuel` says what is computed and why."""

    def __init__(self, policy: Adaptive, belief: Belief, features: Matrix, loss: float) -> None:
        self._given = policy, belief, features, loss

    def fill(self, rng: np.random.Generator, portions: Integers) -> Integers:
        policy, belief, features, loss = self._given
        known, ahead = policy.setting, policy.ahead()
        score, covariance = belief.objective(known.risk_tolerance)
        counts = np.zeros(len(features), dtype=np.int64)
        fill_duel_compiled(
            rng,
            portions,
            kernel_array("features", features, (len(counts), belief.dim)),
            covariance,
            score,
            belief.mean_coef,
            belief.var_coef,
            known.risk_tolerance,
            known.base_variance,
            LEAST_VARIANCE * belief.variance,
            CAUTION * math.log(max(ahead, 2)),
            loss,
            float(policy.patience * ahead),
            math.inf if policy.budget is None else float(policy.budget),
            counts,
        )
        return counts


# Rows of the table: by action, what is believed of it, and sums over rivals of what observing it would teach.
_BEHIND, _COST, _NOISE, _SQUARED, _LEVER, _DEVIATION, _LOSS, _SLOPE, _MEAN_SLOPE, _FAST, _SLOW = range(11)
_ROWS = 11


@register_jitable(error_model="numpy")
def _update_losses(table: Matrix, n: int, caution: float) -> None:
    """Write what each rival alone adds to the loss, and how fast that falls: now, and on average until it is gone."""
    for k in range(1, n):  # square roots and quotients in loops of their own become vector instructions
        squared = table[_SQUARED, k]
        squared = squared * (1 + caution * squared / table[_NOISE, k])
        table[_DEVIATION, k] = math.sqrt(max(squared, 1e-300))
    for k in range(1, n):
        deviation = table[_DEVIATION, k]
        z = table[_BEHIND, k] / deviation
        density = math.exp(-(z * z) / 2) / _ROOT_OF_TWO_PI
        table[_LOSS, k] = deviation * density - table[_BEHIND, k] * (0.5 * math.erfc(z / _ROOT_OF_TWO))
        table[_SLOPE, k] = density
    for k in range(1, n):
        deviation = table[_DEVIATION, k]
        table[_SLOPE, k] = table[_SLOPE, k] / (2 * deviation)
        table[_MEAN_SLOPE, k] = table[_LOSS, k] / (deviation * deviation)


@register_jitable(error_model="numpy")
def _begin(
    features: Matrix,
    covariance: Matrix,
    score: Vector,
    mean_coef: Vector,
    var_coef: Vector,
    risk_tolerance: float,
    base_variance: float,
    least_variance: float,
    caution: float,
    loss: float,
    columns: Matrix,
    table: Matrix,
    products: Matrix,
) -> tuple[float, float]:
    """Write columns of features and differences, the table, and their products; return loss and overlap.

    ``products`` ``(n, width)`` are those of the covariance with a difference to the leader's features on one side, and
    with features on the other.
    """
    n, dim = features.shape
    for k in range(n):
        behind, cost, variance = 0.0, 0.0, base_variance
        for a in range(dim):
            apart = features[k, a] - features[0, a]
            columns[a, k] = features[k, a]
            columns[dim + a, k] = apart
            behind += apart * score[a]
            cost += apart * mean_coef[a]
            variance += features[k, a] * var_coef[a]
        variance = max(variance, least_variance)
        table[_BEHIND, k] = max(behind, 0.0)
        table[_COST, k] = max(behind, 0.0) + cost * cost
        table[_NOISE, k] = 2 * (variance * variance) + risk_tolerance**2 * variance
    width = columns.shape[1]
    blurred, along = np.zeros((dim, width)), np.zeros(width)
    for a in range(dim):
        blur = blurred[a]
        for k in range(width):
            along[k] = 0.0
        for b in range(dim):
            factor, column, apart_column = covariance[a, b], columns[b], columns[dim + b]
            for k in range(width):
                blur[k] += column[k] * factor
                along[k] += apart_column[k] * factor
        for k in range(n):
            table[_LEVER, k] += blur[k] * columns[a, k]
            table[_SQUARED, k] += along[k] * columns[dim + a, k]
    for k in range(n):
        product = products[k]
        for a in range(0, dim - 1, 2):  # two at a time, which saves reading and writing the products
            one, two, first, second = columns[dim + a, k], columns[dim + a + 1, k], blurred[a], blurred[a + 1]
            for j in range(width):
                product[j] = product[j] + first[j] * one + second[j] * two
        if dim % 2:
            one, first = columns[2 * dim - 1, k], blurred[dim - 1]
            for j in range(width):
                product[j] += first[j] * one
    _update_losses(table, n, caution)
    total = 0.0
    for k in range(n):
        loss = max(loss, table[_LOSS, k])  # the draws may have missed the most dangerous rival
        total += table[_LOSS, k]
    total = max(total, 1e-250 * loss)
    return loss, loss / total if total > 0 else loss


@register_jitable(error_model="numpy")
def _imagine(
    features: Matrix, covariance: Matrix, columns: Matrix, table: Matrix, chosen: int, rounds: int, seen: Matrix
) -> None:
    """Update the covariance, and sums that depend on it, as if an action had been observed.

    Each row of the products becomes less by a multiple of ``seen[0]``, and ``seen[1]`` holds by how much.
    """
    n, dim = features.shape
    blur, along, apart = np.zeros(dim), seen[0], seen[1]
    for k in range(len(along)):
        along[k], apart[k] = 0.0, 0.0
    for a in range(dim):
        for b in range(dim):
            blur[a] += covariance[a, b] * features[chosen, b]
        factor, column, apart_column = blur[a], columns[a], columns[dim + a]
        for k in range(len(along)):
            along[k] += column[k] * factor
            apart[k] += apart_column[k] * factor
    factor = rounds / (table[_NOISE, chosen] + rounds * along[chosen])
    for a in range(dim):
        for b in range(dim):
            covariance[a, b] -= blur[a] * blur[b] * factor
    for k in range(n):
        table[_SQUARED, k] -= apart[k] * apart[k] * factor
        table[_LEVER, k] -= along[k] * along[k] * factor
        apart[k] = -apart[k] * factor


@njit(cache=True, error_model="numpy")
def fill_duel_compiled(
    rng: np.random.Generator,
    portions: Integers,
    features: Matrix,
    believed_covariance: Matrix,
    score: Vector,
    mean_coef: Vector,
    var_coef: Vector,
    risk_tolerance: float,
    base_variance: float,
    least_variance: float,
    caution: float,
    loss: float,
    rounds: float,
    budget: float,
    counts: Integers,
) -> None:
    """Write the rounds of each action, portion by portion."""
    n, dim = features.shape
    width = padded_length(n)
    columns, table, products = np.zeros((2 * dim, width)), np.zeros((_ROWS, width)), np.zeros((n, width))
    rival_seen, leader_seen = np.zeros((2, width)), np.zeros((2, width))
    covariance = believed_covariance.copy()
    believed = score, mean_coef, var_coef, risk_tolerance, base_variance, least_variance
    loss, overlap = _begin(features, covariance, *believed, caution, loss, columns, table, products)
    rival, some = 0, 0
    for number in range(len(portions)):
        if number > 0:  # as if the portion before had been observed
            _imagine(features, covariance, columns, table, rival, some, rival_seen)
            _imagine(features, covariance, columns, table, 0, portions[number - 1] - some, leader_seen)
            _update_losses(table, n, caution)
        _sum_lessons(table, products, rival_seen, leader_seen)
        rival, part = _mixture(table, n, overlap, loss, rounds, budget)
        if rival == 0:  # none is worth its cost
            return
        some = rng.binomial(portions[number], part)
        lever, noise = table[_LEVER, rival], ENOUGH * table[_NOISE, rival]
        if some * lever > noise:  # so many rounds would tell no more
            some = min(some, math.ceil(noise / lever))
        counts[rival] += some
        counts[0] += portions[number] - some


@register_jitable(error_model="numpy")
def _sum_lessons(table: Matrix, products: Matrix, rival_seen: Matrix, leader_seen: Matrix) -> None:
    """Bring the products up to date with what was seen, and sum over rivals what observing each action would teach."""
    n, width = products.shape
    fast, slow, by_rival, by_leader = table[_FAST], table[_SLOW], rival_seen[0], leader_seen[0]
    for j in range(width):
        fast[j], slow[j] = 0.0, 0.0
    for k in range(1, n):  # nobody asks for differences between the leader and itself
        product, slope, mean_slope = products[k], table[_SLOPE, k], table[_MEAN_SLOPE, k]
        rival_factor, leader_factor = rival_seen[1, k], leader_seen[1, k]
        for j in range(width):
            now = product[j] + by_rival[j] * rival_factor + by_leader[j] * leader_factor
            product[j] = now
            fast[j] += now * now * slope
            slow[j] += now * now * mean_slope


@register_jitable(error_model="numpy")
def _mixture(table: Matrix, n: int, overlap: float, loss: float, rounds: float, budget: float) -> tuple[int, float]:
    """Return the rival of the next portion and its fraction of the rounds; 0 and 0 if none is worth it."""
    fast, slow = table[_FAST], table[_SLOW]
    best, best_part, smallest = 0, 0.0, np.inf
    leader = overlap * fast[0] / (table[_NOISE, 0] + table[_LEVER, 0])
    for k in range(1, n):
        cost, scale = table[_COST, k], table[_NOISE, k] + table[_LEVER, k]
        worth, average = overlap * fast[k] / scale, overlap * slow[k] / scale
        if table[_BEHIND, k] <= budget and rounds * average > cost and worth > leader:
            more = worth - leader
            part = min(loss / cost - 2 * leader / more, 1.0)
            ratio = (loss + part * cost) ** 2 / (leader + part * more) if part > 0 else np.inf
            if ratio < smallest or best == 0:
                best, best_part, smallest = k, max(part, 0.0), ratio
    return best, best_part
