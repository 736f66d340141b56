"""Choice between the leader and its rivals (steps 3 and 4 of `riskroute.learning.policies.adaptive`).

The worth of an action depends on the posterior covariance ``C`` only through products ``x' C y`` of two feature
vectors. Kernels compute these products once per plan. A hypothetical observation changes each of them by a product of
two numbers, so no further matrix product is needed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.learning.kernels import padded_kernel_length

if TYPE_CHECKING:
    from riskroute.learning.policies.adaptive import Adaptive

CAUTION = 2.0  # factor on ``log N / n`` in the inflation of variances, see `AdaptiveDuel`
ENOUGH = 20.0  # a portion plays a rival until the variance of its score has fallen by about this factor


@njit(cache=True, error_model="numpy")
def duel_leader_loss(drawn: Matrix, features: Matrix, place: Integers) -> float:
    """Return the mean gap between the leader and the best action over posterior draws ``(n, dim)``.

    Row 0 of ``features`` is the leader; ``place`` holds the row of the best action of each draw.
    """
    n, dim = drawn.shape
    total = 0.0
    for i in range(n):
        ours, best = 0.0, 0.0
        for a in range(dim):
            ours += drawn[i, a] * features[0, a]
            best += drawn[i, a] * features[place[i], a]
        total += ours - best
    return float(total / n)


class AdaptiveDuel:
    """Information-directed choice between the leader (number 0) and its rivals.

    A rival whose gap to the leader has posterior mean ``l`` and standard deviation ``s`` adds an expected loss of ``s
    psi(l / s)`` per round, with ``psi(z) = phi(z) - z Phi(-z)``. The derivative of this loss in ``s^2`` is ``phi(l / s)
    / (2 s)``; averaged over variances from ``s^2`` down to zero it is ``psi(l / s) / s``. Rivals overlap: if one is
    better than the leader, others often are too. The losses of single rivals are therefore scaled so that they add up
    to the total loss.

    Squared residuals are far from Gaussian: with probability ``1 / N``, an average of ``n`` of them is off not only by
    the Gaussian ``sqrt(log N / n)`` but by ``log N / n`` as well, up to constants. The variance of a rival's gap is
    therefore multiplied by ``1 + 2 log N / n``. Here ``n`` is the number of the rival's rewards that would give the
    posterior its precision, and ``N`` the number of rounds that a wrong decision would last.

    Portions of late plans are long. If means lie many noise deviations apart, a few rounds of a rival determine its
    mean-variance, and hundreds would cost more than the rest of the run. In each portion a rival is therefore played
    only until the posterior variance of its mean-variance has fallen to about 5 % of the variance before the portion;
    the leader is played in the other rounds.
    """

    def __init__(self, policy: Adaptive, belief: Belief, features: Matrix, loss: float) -> None:
        self.given = policy, belief, features, loss

    def fill(self, rng: np.random.Generator, portions: Integers) -> Integers:
        """Return the rounds of each action; fill ``portions`` (rounds of each) until no rival is worth its cost."""
        policy, belief, features, loss = self.given
        setting, ahead = policy.setting, policy.ahead()
        rounds, budget = float(policy.patience) * ahead, math.inf if policy.budget is None else float(policy.budget)
        caution = CAUTION * math.log(max(ahead, 2))
        score, covariance = belief.score(setting.risk_tolerance), belief.score_covariance(setting.risk_tolerance)
        n, dim = features.shape
        width = padded_kernel_length(n)
        columns, table, products = np.zeros((2 * dim, width)), np.zeros((_SLOW + 1, width)), np.zeros((n, width))
        rival_seen, leader_seen, counts = np.zeros((2, width)), np.zeros((2, width)), np.zeros(n, dtype=np.int64)
        expected = score, belief.mean_coef, belief.var_coef
        known = setting.risk_tolerance, setting.base_variance, LEAST_VARIANCE * belief.variance
        _begin(features, covariance, *expected, *known, columns, table, products)
        _update_losses(table, n, caution)
        loss = max(loss, float(table[_LOSS, :n].max()))  # the draws may have missed the rival with the largest loss
        total = max(float(np.cumsum(table[_LOSS, :n])[-1]), 1e-250 * loss)
        overlap = loss / total if total > 0 else loss
        rival = some = rest = 0
        for number, portion in enumerate(portions.tolist()):
            if number > 0:  # update the posterior as if the previous portion had been observed
                _imagine(features, covariance, columns, table, rival, some, rival_seen)
                _imagine(features, covariance, columns, table, 0, rest, leader_seen)
                _update_losses(table, n, caution)
            _sum_lessons(table, products, rival_seen, leader_seen)
            rival, part = _mixture(table, n, overlap, loss, rounds, budget)
            if rival == 0:  # no rival is worth its cost
                break
            some = int(rng.binomial(portion, part))
            lever, noise = float(table[_LEVER, rival]), ENOUGH * float(table[_NOISE, rival])
            if some * lever > noise:  # further rounds would add almost no information
                some = min(some, math.ceil(noise / lever))
            rest = portion - some
            counts[rival] += some
            counts[0] += rest
        return counts


# Rows of the table, one column per action: gap to the leader, cost of a round, noise, posterior variance of the gap and
# of the score, standard deviation of the gap, loss with its two slopes, and the two sums over rivals of `_sum_lessons`.
_BEHIND, _COST, _NOISE, _SQUARED, _LEVER, _DEVIATION, _LOSS, _SLOPE, _MEAN_SLOPE, _FAST, _SLOW = range(11)


@njit(cache=True, error_model="numpy")
def _update_losses(table: Matrix, n: int, caution: float) -> None:
    """Write each rival's expected loss, and the loss's derivative in the posterior variance: current and averaged."""
    for k in range(1, n):  # separate loops for square roots and quotients let the compiler vectorise them
        squared = table[_SQUARED, k]
        squared = squared * (1 + caution * squared / table[_NOISE, k])
        table[_DEVIATION, k] = math.sqrt(max(squared, 1e-300))
    for k in range(1, n):
        deviation = table[_DEVIATION, k]
        z = table[_BEHIND, k] / deviation
        density = math.exp(-(z * z) / 2) / math.sqrt(2 * math.pi)
        table[_LOSS, k] = deviation * density - table[_BEHIND, k] * (0.5 * math.erfc(z / math.sqrt(2)))
        table[_SLOPE, k] = density
    for k in range(1, n):
        deviation = table[_DEVIATION, k]
        table[_SLOPE, k] = table[_SLOPE, k] / (2 * deviation)
        table[_MEAN_SLOPE, k] = table[_LOSS, k] / (deviation * deviation)


@njit(cache=True, error_model="numpy")
def _begin(
    features: Matrix,
    covariance: Matrix,
    score: Vector,
    mean_coef: Vector,
    var_coef: Vector,
    risk_tolerance: float,
    base_variance: float,
    least_variance: float,
    columns: Matrix,
    table: Matrix,
    products: Matrix,
) -> None:
    """Write ``columns`` (features, then differences to the leader), products ``x' C y`` of the two, and ``table``."""
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
        for a in range(0, dim - 1, 2):  # two rows at a time: halves the memory traffic
            one, two, first, second = columns[dim + a, k], columns[dim + a + 1, k], blurred[a], blurred[a + 1]
            for j in range(width):
                product[j] = product[j] + first[j] * one + second[j] * two
        if dim % 2:
            one, first = columns[2 * dim - 1, k], blurred[dim - 1]
            for j in range(width):
                product[j] += first[j] * one


@njit(cache=True, error_model="numpy")
def _imagine(
    features: Matrix, covariance: Matrix, columns: Matrix, table: Matrix, chosen: int, rounds: int, seen: Matrix
) -> None:
    """Update covariance and table as if ``chosen`` had been observed; write the update of the products to ``seen``."""
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
def _sum_lessons(table: Matrix, products: Matrix, rival_seen: Matrix, leader_seen: Matrix) -> None:
    """Apply hypothetical observations to the products; sum the reduction in loss from observing each action."""
    n, width = products.shape
    fast, slow, by_rival, by_leader = table[_FAST], table[_SLOW], rival_seen[0], leader_seen[0]
    for j in range(width):
        fast[j], slow[j] = 0.0, 0.0
    for k in range(1, n):  # the leader does not differ from itself
        product, slope, mean_slope = products[k], table[_SLOPE, k], table[_MEAN_SLOPE, k]
        rival_factor, leader_factor = rival_seen[1, k], leader_seen[1, k]
        for j in range(width):
            now = product[j] + by_rival[j] * rival_factor + by_leader[j] * leader_factor
            product[j] = now
            fast[j] += now * now * slope
            slow[j] += now * now * mean_slope


@njit(cache=True, error_model="numpy")
def _mixture(table: Matrix, n: int, overlap: float, loss: float, rounds: float, budget: float) -> tuple[int, float]:
    """Return the rival of the next portion and its fraction of the rounds; (0, 0.0) if no rival is worth its cost."""
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
