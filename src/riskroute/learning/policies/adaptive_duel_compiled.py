"""`AdaptiveDuel` in compiled code: the same numbers up to rounding, and the same decisions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.arrays import Flags, Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.learning.policies.adaptive_duel import CAUTION, AdaptiveDuel
from riskroute.learning.small_matrices import padded_length
from riskroute.learning.tally import ActionBatch
from riskroute.validation import check_array

if TYPE_CHECKING:
    from riskroute.learning.policies.adaptive import Adaptive

_ROOT_OF_TWO_PI, _ROOT_OF_TWO = math.sqrt(2 * math.pi), math.sqrt(2)


class CompiledDuel(AdaptiveDuel):
    """The leader against its rivals; `AdaptiveDuel` says what is computed and why.

    What kernels work on is kept as they want it: features and their differences to the leader's as columns
    ``(dim, n)``, all made and checked here and changed by nobody else.
    """

    def __init__(self, policy: Adaptive, belief: Belief, actions: ActionBatch, loss: float) -> None:
        known = policy.setting
        rho, ahead = known.risk_tolerance, policy.ahead()
        self.features = known.actions.features(actions)
        self.covariance = belief.score_covariance(rho)
        check_array("features", self.features, np.float64, (len(actions), belief.dim))
        self.rounds = policy.patience * ahead
        self.caution = CAUTION * math.log(max(ahead, 2))
        n, dim = self.features.shape
        self._columns, self._apart_columns = np.zeros((2, dim, padded_length(n)))
        self.behind, self.costs, self.noise = np.empty((3, n))
        self.loss, self.overlap = _begin(
            np.ascontiguousarray(self.features),
            self.covariance,
            belief.score(rho),
            belief.mean_coef,
            belief.var_coef,
            rho,
            known.base_variance,
            LEAST_VARIANCE * belief.variance,
            self.caution,
            loss,
            self._columns,
            self._apart_columns,
            self.behind,
            self.costs,
            self.noise,
        )
        self.apart = self._apart_columns[:, :n].T
        self.allowed = np.ones(n, dtype=bool) if policy.budget is None else self.behind <= policy.budget
        self.allowed[0] = False

    def mixture(self) -> tuple[int, float]:
        rival, part = _mixture(*self._state, self.costs, self.allowed, self.loss, self.rounds)
        return rival, part

    def worth(self) -> tuple[Vector, Vector]:
        now, average = np.empty(len(self.behind)), np.empty(len(self.behind))
        _worth(*self._state, now, average)
        return now, average

    def imagine(self, chosen: int, rounds: int) -> None:
        _imagine(self.covariance, self.features[chosen], rounds, self.noise[chosen])

    @property
    def _state(self) -> tuple[Matrix, Matrix, Matrix, Vector, Vector, float, float]:
        """What is believed now: all that worth depends on."""
        return (
            self._columns,
            self._apart_columns,
            self.covariance,
            self.behind,
            self.noise,
            self.caution,
            self.overlap,
        )


@register_jitable(error_model="numpy")
def _blurred(covariance: Matrix, columns: Matrix) -> tuple[Matrix, Vector]:
    """Return the product of the covariance with every column, and of that with the column itself."""
    dim, n = columns.shape
    blurred, lever = np.zeros((dim, n)), np.zeros(n)
    for a in range(dim):
        for b in range(dim):
            factor = covariance[a, b]
            for k in range(n):
                blurred[a, k] += factor * columns[b, k]
        for k in range(n):
            lever[k] += blurred[a, k] * columns[a, k]
    return blurred, lever


@register_jitable(error_model="numpy")
def _losses(
    apart: Matrix, covariance: Matrix, behind: Vector, noise: Vector, caution: float
) -> tuple[Vector, Vector, Vector]:
    """Return each difference's deviation, its density at zero, and the expected loss per round to each rival alone."""
    squared = _blurred(covariance, apart)[1]
    n = len(behind)
    deviation, density, losses = np.empty(n), np.empty(n), np.empty(n)
    for k in range(n):
        squared[k] = squared[k] * (1 + caution * squared[k] / noise[k])
        deviation[k] = np.sqrt(max(squared[k], 1e-300))
    for k in range(n):
        z = behind[k] / deviation[k]
        density[k] = math.exp(-(z * z) / 2) / _ROOT_OF_TWO_PI
        losses[k] = deviation[k] * density[k] - behind[k] * (0.5 * math.erfc(z / _ROOT_OF_TWO))
    losses[0] = 0.0
    return deviation, density, losses


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
    caution: float,
    loss: float,
    columns: Matrix,
    apart: Matrix,
    behind: Vector,
    costs: Vector,
    noise: Vector,
) -> tuple[float, float]:
    """Write features and differences as columns, how far behind, costs and noise; return loss and overlap."""
    n, dim = features.shape
    for k in range(n):
        behind[k], costs[k], noise[k] = 0.0, 0.0, 0.0
        for a in range(dim):
            columns[a, k] = features[k, a]
            apart[a, k] = features[k, a] - features[0, a]
    for a in range(dim):
        for k in range(n):
            behind[k] += apart[a, k] * score[a]
            costs[k] += apart[a, k] * mean_coef[a]
            noise[k] += columns[a, k] * var_coef[a]
    for k in range(n):
        variance = max(noise[k] + base_variance, least_variance)
        behind[k] = max(behind[k], 0.0)
        costs[k] = behind[k] + costs[k] * costs[k]
        noise[k] = 2 * (variance * variance) + risk_tolerance**2 * variance
    single = _losses(apart, covariance, behind, noise, caution)[2]
    total = 0.0
    for k in range(n):
        loss = max(loss, single[k])  # the draws may have missed the most dangerous rival
        total += single[k]
    total = max(total, 1e-250 * loss)
    return loss, loss / total if total > 0 else loss


@njit(cache=True, error_model="numpy")
def _worth(
    columns: Matrix,
    apart: Matrix,
    covariance: Matrix,
    behind: Vector,
    noise: Vector,
    caution: float,
    overlap: float,
    now: Vector,
    average: Vector,
) -> None:
    dim, width = columns.shape
    n = len(behind)
    deviation, density, losses = _losses(apart, covariance, behind, noise, caution)
    blurred, lever = _blurred(covariance, columns)
    taken, slow, fast = np.empty(width), np.zeros(width), np.zeros(width)
    for rival in range(1, n):
        slope = density[rival] / (2 * deviation[rival])
        mean_slope = losses[rival] / (deviation[rival] * deviation[rival])
        if slope == 0 and mean_slope == 0:
            continue
        for k in range(width):
            taken[k] = 0.0
        for a in range(0, dim - 1, 2):
            one, two = apart[a, rival], apart[a + 1, rival]
            for k in range(width):
                taken[k] += blurred[a, k] * one + blurred[a + 1, k] * two
        if dim % 2 == 1:
            one = apart[dim - 1, rival]
            for k in range(width):
                taken[k] += blurred[dim - 1, k] * one
        for k in range(width):
            square = taken[k] * taken[k]
            fast[k] += square * slope
            slow[k] += square * mean_slope
    for k in range(n):
        scale = overlap / (noise[k] + lever[k])
        now[k] = fast[k] * scale
        average[k] = slow[k] * scale


@njit(cache=True, error_model="numpy")
def _mixture(
    columns: Matrix,
    apart: Matrix,
    covariance: Matrix,
    behind: Vector,
    noise: Vector,
    caution: float,
    overlap: float,
    costs: Vector,
    allowed: Flags,
    loss: float,
    rounds: float,
) -> tuple[int, float]:
    worth, average = np.empty(len(behind)), np.empty(len(behind))
    _worth(columns, apart, covariance, behind, noise, caution, overlap, worth, average)
    best, best_part, smallest = 0, 0.0, np.inf
    for k in range(1, len(worth)):
        if allowed[k] and rounds * average[k] > costs[k] and worth[k] > worth[0]:
            more = worth[k] - worth[0]
            part = min(loss / costs[k] - 2 * worth[0] / more, 1.0)
            ratio = (loss + part * costs[k]) ** 2 / (worth[0] + part * more) if part > 0 else np.inf
            if ratio < smallest or best == 0:
                best, best_part, smallest = k, max(part, 0.0), ratio
    return best, best_part


@njit(cache=True, error_model="numpy")
def _imagine(covariance: Matrix, features: Vector, rounds: int, noise: float) -> None:
    dim = len(features)
    blurred, lever = np.empty(dim), 0.0
    for a in range(dim):
        total = 0.0
        for b in range(dim):
            total += covariance[a, b] * features[b]
        blurred[a] = total
        lever += features[a] * total
    factor = rounds / (noise + rounds * lever)
    for a in range(dim):
        for b in range(dim):
            covariance[a, b] -= blurred[a] * blurred[b] * factor
