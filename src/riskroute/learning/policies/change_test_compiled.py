"""The test of `riskroute.learning.policies.change_test` in compiled code, for runs in one compiled loop.

It takes the same steps in the same sequence. Its tail probabilities and solutions of equations differ from those of
libraries in the last digits, so it does not decide: it says how likely the latest plans are if nothing has changed, and
where that comes near the level of the policy, the loop leaves the decision to the policy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE, VARIANCE_FLOOR
from riskroute.learning.belief_fit import BeliefArrays
from riskroute.learning.belief_fit_compiled import fit_belief_to_columns
from riskroute.learning.observations import Columns, join_columns, slice_columns
from riskroute.learning.policies.change_test import KNOWN, SHARPEST, SPANS
from riskroute.learning.small_matrices import upper_inverse, upper_root
from riskroute.learning.tail_probabilities import chi_squared_above, fisher_tails, normal_score


class _Before(NamedTuple):
    """A belief, with inverses of the factors of its precisions, such that ``inverse' x`` has the variance of ``x``."""

    mean_coef: Vector
    mean_inverse: Matrix
    var_coef: Vector
    var_inverse: Matrix
    variance: float
    rounds: float


@njit(cache=True, error_model="numpy")
def least_chance_compiled(
    settled: Columns,
    recent: Columns,
    lengths: Integers,
    vague: Matrix,
    base: BeliefArrays,
    has_base: bool,
    base_variance: float,
    unit: float,
) -> float:
    """Return how likely those of the latest plans are that are least likely, given what was believed before them.

    ``recent`` are the rows of all recent plans, one plan after the other, and ``lengths`` says how many each has. It is
    not a number where a matrix has no factor.
    """
    plans, least = len(lengths), 1.0
    begins, rounds = np.zeros(plans + 1, dtype=np.int64), np.empty(plans + 1)  # rows and rewards before each plan
    rounds[0] = base.rounds if has_base else 0.0
    for i in range(len(settled[1])):
        rounds[0] += settled[1][i]
    for k in range(plans):
        begins[k + 1], rounds[k + 1] = begins[k] + lengths[k], rounds[k]
        for i in range(begins[k], begins[k + 1]):
            rounds[k + 1] += recent[1][i]
    if plans == 0 or rounds[plans - 1] < KNOWN - 1:
        return least
    belief, fine = fit_belief_to_columns(settled, vague, base, has_base, base_variance, VARIANCE_FLOOR, unit)
    before_all = _before(belief)
    for span in SPANS:
        if not fine or span > plans or rounds[plans - span] < KNOWN - 1:
            break
        begin, before = begins[plans - span], before_all
        latest = join_columns(slice_columns(recent, begin, begins[plans]), slice_columns(recent, 0, 0))
        if span < plans and _rewards_behind_most(before, latest, base_variance) < KNOWN:
            earlier = join_columns(settled, slice_columns(recent, 0, begin))
            belief, fine = fit_belief_to_columns(earlier, vague, base, has_base, base_variance, VARIANCE_FLOOR, unit)
            before = _before(belief)
        if before.rounds >= KNOWN:
            chance = _chance(before, latest, base_variance)
            fine = fine and not math.isnan(chance)
            least = min(least, chance)
    return least if fine else math.nan


@register_jitable(error_model="numpy")
def _before(belief: BeliefArrays) -> _Before:
    """Return what is needed of a belief; where a precision has no factor, nothing in its inverse is a number."""
    dim = len(belief.mean_coef)
    root, mean_inverse, var_inverse = np.empty((dim, dim)), np.empty((dim, dim)), np.empty((dim, dim))
    for precision, inverse in ((belief.mean_precision, mean_inverse), (belief.var_precision, var_inverse)):
        if not upper_root(precision, root):
            for a in range(dim):
                for b in range(dim):
                    root[a, b] = math.nan
        upper_inverse(root, inverse)
    return _Before(belief.mean_coef, mean_inverse, belief.var_coef, var_inverse, belief.variance, belief.rounds)


@register_jitable(error_model="numpy")
def _value(row: Vector, coef: Vector) -> float:
    total = 0.0
    for a in range(len(coef)):
        total += row[a] * coef[a]
    return total


@register_jitable(error_model="numpy")
def _spread_out(row: Vector, inverse: Matrix, found: Vector) -> float:
    """Write ``inverse' row`` and return the sum of its squares: the variance of what is believed of a row."""
    total = 0.0
    for a in range(len(row)):
        found[a] = 0.0
        for b in range(a + 1):
            found[a] += inverse[b, a] * row[b]
        total += found[a] * found[a]
    return total


@register_jitable(error_model="numpy")
def _rewards_behind_most(before: _Before, latest: Columns, base_variance: float) -> float:
    """Return the rewards from which the variance of the row played most would be known as well as it is believed."""
    most = 0
    for i in range(len(latest[1])):
        if latest[1][i] > latest[1][most]:
            most = i
    row = latest[0][most]
    variance = max(_value(row, before.var_coef) + base_variance, LEAST_VARIANCE * before.variance)
    blur = _spread_out(row, before.var_inverse, np.empty(len(row)))
    return 2 / max(blur / (variance * variance), SHARPEST)


@register_jitable(error_model="numpy")
def _chance(before: _Before, latest: Columns, base_variance: float) -> float:
    """Return the probability that means and variances are as far from what was believed as the latest ones are."""
    features, counts, means, spreads = latest[0], latest[1], latest[2], latest[3]
    n, dim = features.shape
    floor = LEAST_VARIANCE * before.variance
    mean_scores, mean_parts, mean_noise, of_means = np.empty(n), np.empty((n, dim)), np.empty(n), 0
    var_scores, var_parts, var_noise, of_variances = np.empty(n), np.empty((n, dim)), np.empty(n), 0
    for i in range(n):
        believed = _value(features[i], before.var_coef) + base_variance
        variance = max(believed, floor)
        blur = _spread_out(features[i], before.var_inverse, var_parts[of_variances])
        rewards = 2 / max(blur / (variance * variance), SHARPEST)
        if rewards < KNOWN:
            continue
        noise = variance / counts[i]
        lever = _spread_out(features[i], before.mean_inverse, mean_parts[of_means])
        error = (means[i] - _value(features[i], before.mean_coef)) / math.sqrt(noise + lever)
        outside = fisher_tails(1.0, rewards, error * error)[1]  # the square of Student's t
        mean_scores[of_means] = math.copysign(normal_score(outside / 2), error)
        mean_noise[of_means] = noise
        of_means += 1
        if counts[i] >= 2 and believed >= floor:
            free = counts[i] - 1
            below, above = fisher_tails(free, rewards, spreads[i] / free / variance)
            score = normal_score(min(below, above))
            var_scores[of_variances] = score if above < below else -score
            var_noise[of_variances] = 2 / free
            for a in range(dim):
                var_parts[of_variances, a] /= variance
            of_variances += 1
    distance = _squared(mean_scores[:of_means], mean_parts, mean_noise)
    distance += _squared(var_scores[:of_variances], var_parts, var_noise)
    return chi_squared_above(of_means + of_variances, distance) if of_means > 0 else 1.0


@register_jitable(error_model="numpy")
def _squared(scores: Vector, parts: Matrix, noise: Vector) -> float:
    """Return the squared distance of scores from zero, whose covariance is ``parts parts'`` plus noise of their own."""
    size = len(scores)
    matrix, deviation = np.empty((size, size)), np.empty(size)
    for i in range(size):
        for j in range(i, size):
            matrix[i, j] = _value(parts[i], parts[j])
        matrix[i, i] += noise[i]
        deviation[i] = math.sqrt(matrix[i, i])
    for i in range(size):
        for j in range(i, size):
            matrix[i, j] /= deviation[i] * deviation[j]
    if not upper_root(matrix, matrix):
        return math.nan
    total = 0.0
    for k in range(size):
        scores[k] /= matrix[k, k]
        for b in range(k + 1, size):
            scores[b] -= matrix[k, b] * scores[k]
        total += scores[k] * scores[k]
    return total
