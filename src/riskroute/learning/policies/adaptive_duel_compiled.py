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

from riskroute.arrays import Integers, Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.learning.policies.adaptive_duel import CAUTION, ENOUGH, AdaptiveDuel
from riskroute.learning.small_matrices import padded_length
from riskroute.learning.tally import ActionBatch
from riskroute.validation import kernel_array

if TYPE_CHECKING:
    from riskroute.learning.policies.adaptive import Adaptive

_ROOT_OF_TWO_PI, _ROOT_OF_TWO = math.sqrt(2 * math.pi), math.sqrt(2)


class CompiledDuel(AdaptiveDuel):
    """The leader against its rivals; `AdaptiveDuel` says what is computed and why."""

    def __init__(self, policy: Adaptive, belief: Belief, actions: ActionBatch, loss: float) -> None:
        self._given = policy, belief, actions, loss

    def fill(self, rng: np.random.Generator, portions: Integers) -> Integers:
        policy, belief, actions, loss = self._given
        known, ahead = policy.setting, policy.ahead()
        rho, n, dim = known.risk_tolerance, len(actions), belief.dim
        counts = np.zeros(n, dtype=np.int64)
        _fill(
            rng,
            portions,
            kernel_array("features", known.actions.features(actions), (n, dim)),
            belief.score_covariance(rho),
            belief.score(rho),
            belief.mean_coef,
            belief.var_coef,
            rho,
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
_BEHIND, _COST, _NOISE, _SQUARED, _LEVER, _LOSS, _SLOPE, _MEAN_SLOPE, _FAST, _SLOW, _SEEN, _SEEN_APART = range(12)
_ROWS = 12


@register_jitable(error_model="numpy")
def _update_losses(table: Matrix, n: int, caution: float) -> None:
    """Write what each rival alone adds to the loss, and how fast that falls: now, and on average until it is gone."""
    for k in range(1, n):
        squared = table[_SQUARED, k]
        squared = squared * (1 + caution * squared / table[_NOISE, k])
        deviation = math.sqrt(max(squared, 1e-300))
        z = table[_BEHIND, k] / deviation
        density = math.exp(-(z * z) / 2) / _ROOT_OF_TWO_PI
        loss = deviation * density - table[_BEHIND, k] * (0.5 * math.erfc(z / _ROOT_OF_TWO))
        table[_LOSS, k] = loss
        table[_SLOPE, k] = density / (2 * deviation)
        table[_MEAN_SLOPE, k] = loss / (deviation * deviation)


@register_jitable(error_model="numpy")
def _add_product(target: Vector, source: Vector, factor: float) -> None:
    for k in range(len(target)):
        target[k] += source[k] * factor


@register_jitable(error_model="numpy")
def _add_squares(fast: Vector, slow: Vector, products: Vector, slope: float, mean_slope: float) -> None:
    for k in range(len(products)):
        square = products[k] * products[k]
        fast[k] += square * slope
        slow[k] += square * mean_slope


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
    blurred, along = np.zeros(columns.shape[1]), np.zeros(columns.shape[1])
    for a in range(dim):
        for k in range(len(blurred)):
            blurred[k], along[k] = 0.0, 0.0
        for b in range(dim):
            _add_product(blurred, columns[b], covariance[a, b])
            _add_product(along, columns[dim + b], covariance[a, b])
        for k in range(n):
            table[_LEVER, k] += blurred[k] * columns[a, k]
            table[_SQUARED, k] += along[k] * columns[dim + a, k]
            _add_product(products[k], blurred, columns[dim + a, k])
    _update_losses(table, n, caution)
    total = 0.0
    for k in range(n):
        loss = max(loss, table[_LOSS, k])  # the draws may have missed the most dangerous rival
        total += table[_LOSS, k]
    total = max(total, 1e-250 * loss)
    return loss, loss / total if total > 0 else loss


@register_jitable(error_model="numpy")
def _imagine(
    features: Matrix, covariance: Matrix, columns: Matrix, table: Matrix, products: Matrix, chosen: int, rounds: int
) -> None:
    """Update the covariance, and what depends on it, as if an action had been observed."""
    n, dim = features.shape
    blur, seen, seen_apart = np.zeros(dim), table[_SEEN], table[_SEEN_APART]
    for k in range(len(seen)):
        seen[k], seen_apart[k] = 0.0, 0.0
    for a in range(dim):
        for b in range(dim):
            blur[a] += covariance[a, b] * features[chosen, b]
        _add_product(seen, columns[a], blur[a])
        _add_product(seen_apart, columns[dim + a], blur[a])
    factor = rounds / (table[_NOISE, chosen] + rounds * seen[chosen])
    for a in range(dim):
        for b in range(dim):
            covariance[a, b] -= blur[a] * blur[b] * factor
    for k in range(n):
        table[_SQUARED, k] -= seen_apart[k] * seen_apart[k] * factor
        table[_LEVER, k] -= seen[k] * seen[k] * factor
        _add_product(products[k], seen, -seen_apart[k] * factor)


@njit(cache=True, error_model="numpy")
def _fill(
    rng: np.random.Generator,
    portions: Integers,
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
    rounds: float,
    budget: float,
    counts: Integers,
) -> None:
    """Write the rounds of each action, portion by portion."""
    n, dim = features.shape
    columns, table = np.zeros((2 * dim, padded_length(n))), np.zeros((_ROWS, padded_length(n)))
    products = np.zeros((n, padded_length(n)))
    believed = score, mean_coef, var_coef, risk_tolerance, base_variance, least_variance
    loss, overlap = _begin(features, covariance, *believed, caution, loss, columns, table, products)
    for portion in portions:
        rival, part = _mixture(table, products, n, overlap, loss, rounds, budget)
        if rival == 0:  # none is worth its cost
            return
        some = rng.binomial(portion, part)
        lever, noise = table[_LEVER, rival], ENOUGH * table[_NOISE, rival]
        if some * lever > noise:  # so many rounds would tell no more
            some = min(some, math.ceil(noise / lever))
        counts[rival] += some
        counts[0] += portion - some
        _imagine(features, covariance, columns, table, products, rival, some)
        _imagine(features, covariance, columns, table, products, 0, portion - some)
        _update_losses(table, n, caution)


@register_jitable(error_model="numpy")
def _mixture(
    table: Matrix, products: Matrix, n: int, overlap: float, loss: float, rounds: float, budget: float
) -> tuple[int, float]:
    """Return the rival of the next portion and its fraction of the rounds; 0 and 0 if none is worth it."""
    fast, slow = table[_FAST], table[_SLOW]
    for k in range(len(fast)):
        fast[k], slow[k] = 0.0, 0.0
    for k in range(1, n):
        if table[_SLOPE, k] != 0 or table[_MEAN_SLOPE, k] != 0:
            _add_squares(fast, slow, products[k], table[_SLOPE, k], table[_MEAN_SLOPE, k])
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
