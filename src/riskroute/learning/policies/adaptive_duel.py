"""Rivals of the leader in `riskroute.learning.policies.adaptive`, and the duel between them.

`AdaptiveDuel` defines the duel in terms of whole arrays; `CompiledDuel` makes the same decisions from the same random
numbers with kernels. The kernels use that the worth of an action depends on the covariance through products of two
feature vectors only: they are formed once per plan, and an imagined observation changes each of them by a product of
two numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from scipy.special import ndtr

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.learning.kernels import padded_length
from riskroute.learning.plan import LONGEST_HORIZON

if TYPE_CHECKING:
    from riskroute.learning.policies.adaptive import Adaptive

CAUTION = 2.0  # factor on the logarithm of the rounds ahead, over the rewards behind a difference
ENOUGH = 20.0  # a portion explores until the variance of a rival's score has fallen by this factor


def _leader_loss_numpy(drawn: Matrix, features: Matrix, place: Integers) -> float:
    """Return the mean gap between the leader and the best action over posterior draws ``(n, dim)``.

    Row 0 of ``features`` is the leader, and ``place`` is the row of the best action of each draw. This NumPy version
    defines `leader_loss`.
    """
    return float(np.mean(drawn @ features[0] - np.einsum("ij,ij->i", drawn, features[place])))


@njit(cache=True, error_model="numpy")
def leader_loss(drawn: Matrix, features: Matrix, place: Integers) -> float:
    """Compute `_leader_loss_numpy` with sums in a fixed order."""
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

    A rival whose gap has posterior mean ``l`` and standard deviation ``s`` adds an expected loss of ``s psi(l / s)``
    per round with ``psi(z) = phi(z) - z Phi(-z)``; its derivative by ``s^2`` is ``phi(l / s) / (2 s)`` now, and ``psi(l
    / s) / s`` on average until ``s`` is zero. Rivals overlap: when one beats the leader, others often do too. The
    losses to single rivals are therefore scaled so that they add up to the loss.

    Squared residuals are far from Gaussian: with probability ``1 / N``, an average of ``n`` of them is off not only by
    the Gaussian ``sqrt(log N / n)`` but by ``log N / n`` as well, up to constants. The variance of a difference that is
    known as well as from ``n`` rewards of the rival is therefore multiplied by ``1 + 2 log N / n``, where ``N`` is the
    number of rounds that a mistake would last.

    Late plans, and therefore their portions, are long. Where means lie many noise deviations apart, a few rounds of a
    rival determine its mean-variance, and hundreds would cost more than the rest of the run. A rival therefore gets
    only the rounds of a portion that reduce the variance of its mean-variance to 5 %; the leader gets the others.
    """

    def __init__(self, policy: Adaptive, belief: Belief, features: Matrix, loss: float) -> None:
        known = policy.setting
        rho = known.risk_tolerance
        self.features = features
        self.apart = self.features - self.features[0]
        self.behind = np.maximum(self.apart @ belief.score(rho), 0.0)
        self.costs = self.behind + (self.apart @ belief.mean_coef) ** 2
        variance = self.features @ belief.var_coef + known.base_variance
        variance = np.maximum(variance, LEAST_VARIANCE * belief.variance)
        self.noise = 2 * variance**2 + rho**2 * variance  # noise of one round as an observation of the mean-variance
        self.covariance = belief.score_covariance(rho)
        self.rounds = float(policy.patience) * policy.ahead()
        self.caution = CAUTION * math.log(max(policy.ahead(), 2))
        self.allowed = np.ones(len(features), dtype=bool) if policy.budget is None else self.behind <= policy.budget
        self.allowed[0] = False
        self.overlap = 1.0
        single = self._losses(*self._apart())
        self.loss = max(loss, float(single.max()))  # the draws may have missed the most dangerous rival
        self.overlap = self.loss / (max(float(single.sum()), 1e-250 * self.loss) or 1.0)

    def fill(self, rng: np.random.Generator, portions: Integers) -> Integers:
        """Return the rounds of each action in a plan filled in portions, each as if earlier ones had been observed."""
        counts = np.zeros(len(self.features), dtype=np.int64)
        for portion in portions.tolist():
            rival, part = self.mixture()
            if rival == 0:  # no rival is worth its cost
                break
            some = min(int(rng.binomial(portion, part)), self.enough(rival))
            for action, played in ((rival, some), (0, portion - some)):
                counts[action] += played
                self.imagine(action, played)
        return counts

    def mixture(self) -> tuple[int, float]:
        """Return the rival to mix with the leader, and its fraction of the rounds; 0 and 0 if none is worth it."""
        worth, average = self.worth()
        pays = self.allowed & (self.rounds * average > self.costs) & (worth > worth[0])
        if not pays.any():
            return 0, 0.0
        more = worth[pays] - worth[0]
        with np.errstate(divide="ignore", over="ignore"):
            parts = np.minimum(self.loss / self.costs[pays] - 2 * worth[0] / more, 1.0)
        ratio = (self.loss + parts * self.costs[pays]) ** 2 / (worth[0] + parts * more)
        ratio[parts <= 0] = np.inf
        best = int(np.argmin(ratio))
        return int(np.flatnonzero(pays)[best]), max(float(parts[best]), 0.0)

    def enough(self, rival: int) -> int:
        """Return the rounds that reduce the variance of a rival's score by the factor `ENOUGH`."""
        lever = float(self.features[rival] @ self.covariance @ self.features[rival])
        noise = ENOUGH * float(self.noise[rival])
        return LONGEST_HORIZON if lever * LONGEST_HORIZON <= noise else math.ceil(noise / lever)

    def worth(self) -> tuple[Vector, Vector]:
        """Return how fast the expected loss falls per round of each action: now, and on average until it is gone."""
        deviation, density = self._apart()
        now, average = density / (2 * deviation), self._losses(deviation, density) / deviation**2
        now[0] = 0.0
        blurred = self.features @ self.covariance
        lever = np.einsum("ij,ij->i", blurred, self.features)
        taken = (blurred @ self.apart.T) ** 2
        scale = self.noise + lever
        return self.overlap * (taken @ now) / scale, self.overlap * (taken @ average) / scale

    def _losses(self, deviation: Vector, density: Vector) -> Vector:
        """Return the expected loss per round to each rival alone."""
        losses = deviation * density - self.behind * ndtr(-self.behind / deviation)
        losses[0] = 0.0
        return np.asarray(losses)

    def imagine(self, chosen: int, rounds: int) -> None:
        """Update the covariance as if an action had been observed."""
        blurred = self.covariance @ self.features[chosen]
        lever = float(self.features[chosen] @ blurred)
        self.covariance = self.covariance - np.outer(blurred, blurred) * (
            rounds / (self.noise[chosen] + rounds * lever)
        )

    def _apart(self) -> tuple[Vector, Vector]:
        """Return the deviation of each difference to the leader, and the standard normal density where it is zero."""
        squared = np.einsum("ij,jk,ik->i", self.apart, self.covariance, self.apart)
        squared = squared * (1 + self.caution * squared / self.noise)
        deviation = np.sqrt(np.maximum(squared, 1e-300))
        return deviation, np.exp(-((self.behind / deviation) ** 2) / 2) / math.sqrt(2 * math.pi)


class CompiledDuel(AdaptiveDuel):
    """`AdaptiveDuel` by kernels, for a plan filled in portions."""

    def __init__(self, policy: Adaptive, belief: Belief, features: Matrix, loss: float) -> None:
        self.given = policy, belief, features, loss

    def fill(self, rng: np.random.Generator, portions: Integers) -> Integers:
        policy, belief, features, loss = self.given
        setting, ahead = policy.setting, policy.ahead()
        rounds, budget = float(policy.patience) * ahead, math.inf if policy.budget is None else float(policy.budget)
        caution = CAUTION * math.log(max(ahead, 2))
        score, covariance = belief.score(setting.risk_tolerance), belief.score_covariance(setting.risk_tolerance)
        n, dim = features.shape
        width = padded_length(n)
        columns, table, products = np.zeros((2 * dim, width)), np.zeros((_SLOW + 1, width)), np.zeros((n, width))
        rival_seen, leader_seen, counts = np.zeros((2, width)), np.zeros((2, width)), np.zeros(n, dtype=np.int64)
        expected = score, belief.mean_coef, belief.var_coef
        known = setting.risk_tolerance, setting.base_variance, LEAST_VARIANCE * belief.variance
        _begin(features, covariance, *expected, *known, columns, table, products)
        _update_losses(table, n, caution)
        loss = max(loss, float(table[_LOSS, :n].max()))  # the draws may have missed the most dangerous rival
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


# Rows of the table, one column per action: gap, cost, noise and posterior of the action, its losses, and sums over
# rivals of the reduction in loss that observing the action would bring.
_BEHIND, _COST, _NOISE, _SQUARED, _LEVER, _DEVIATION, _LOSS, _SLOPE, _MEAN_SLOPE, _FAST, _SLOW = range(11)


@njit(cache=True, error_model="numpy")
def _update_losses(table: Matrix, n: int, caution: float) -> None:
    """Write each rival's expected loss and its slope in the posterior variance: now, and on average down to zero."""
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
    """Write columns of features and of differences to the leader, the table, and posterior covariances between them.

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
        for a in range(0, dim - 1, 2):  # two at a time: halves the memory traffic
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
    """Update the covariance, and the sums that depend on it, as if an action had been observed.

    Each row of the products decreases by a multiple of ``seen[0]``; ``seen[1]`` holds the multiples.
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
def _sum_lessons(table: Matrix, products: Matrix, rival_seen: Matrix, leader_seen: Matrix) -> None:
    """Apply imagined observations to the products; sum the reduction in loss that each action would bring."""
    n, width = products.shape
    fast, slow, by_rival, by_leader = table[_FAST], table[_SLOW], rival_seen[0], leader_seen[0]
    for j in range(width):
        fast[j], slow[j] = 0.0, 0.0
    for k in range(1, n):  # the leader has no difference to itself
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
