"""`AdaptiveDuel` in compiled code: the same numbers up to rounding, and the same decisions from the same random numbers.

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
from riskroute.learning.policies.adaptive_duel import CAUTION, AdaptiveDuel
from riskroute.learning.small_matrices import padded_length
from riskroute.learning.tally import ActionBatch
from riskroute.validation import check_array

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
        rho, features = known.risk_tolerance, np.ascontiguousarray(known.actions.features(actions))
        counts = np.zeros(len(actions), dtype=np.int64)
        check_array("features", features, np.float64, (len(actions), belief.dim))
        check_array("portions", portions, np.int64, (None,))
        _fill(
            features,
            belief.score_covariance(rho),
            belief.score(rho),
            belief.mean_coef,
            belief.var_coef,
            rho,
            known.base_variance,
            LEAST_VARIANCE * belief.variance,
            CAUTION * math.log(max(ahead, 2)),
            loss,
            policy.patience * ahead,
            np.inf if policy.budget is None else policy.budget,
            rng,
            portions,
            counts,
        )
        return counts


@register_jitable(error_model="numpy")
def _losses(
    squared: Vector, behind: Vector, noise: Vector, caution: float, slope: Vector, losses: Vector, mean_slope: Vector
) -> None:
    """Write what each rival alone adds to the loss, and how fast that falls: now, and on average until it is gone."""
    for k in range(len(behind)):
        square = squared[k] * (1 + caution * squared[k] / noise[k])
        deviation = math.sqrt(max(square, 1e-300))
        z = behind[k] / deviation
        density = math.exp(-(z * z) / 2) / _ROOT_OF_TWO_PI
        losses[k] = deviation * density - behind[k] * (0.5 * math.erfc(z / _ROOT_OF_TWO))
        slope[k] = density / (2 * deviation)
        mean_slope[k] = losses[k] / (deviation * deviation)
    losses[0], slope[0], mean_slope[0] = 0.0, 0.0, 0.0


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
def _mixture(
    fast: Vector,
    slow: Vector,
    lever: Vector,
    costs: Vector,
    behind: Vector,
    noise: Vector,
    overlap: float,
    loss: float,
    rounds: float,
    budget: float,
) -> tuple[int, float]:
    """Return the rival to mix with the leader, and its fraction; 0 and 0 if none is worth it."""
    best, best_part, smallest = 0, 0.0, np.inf
    leader = overlap * fast[0] / (noise[0] + lever[0])
    for k in range(1, len(behind)):
        scale = noise[k] + lever[k]
        worth, average = overlap * fast[k] / scale, overlap * slow[k] / scale
        if behind[k] <= budget and rounds * average > costs[k] and worth > leader:
            more = worth - leader
            part = min(loss / costs[k] - 2 * leader / more, 1.0)
            ratio = (loss + part * costs[k]) ** 2 / (leader + part * more) if part > 0 else np.inf
            if ratio < smallest or best == 0:
                best, best_part, smallest = k, max(part, 0.0), ratio
    return best, best_part


@njit(cache=True, error_model="numpy")
def _fill(
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
    rng: np.random.Generator,
    portions: Integers,
    counts: Integers,
) -> None:
    """Write the rounds of each action; ``covariance`` ends as it would be if they had been observed."""
    n, dim = features.shape
    width = padded_length(n)
    columns, apart, blurred = np.zeros((dim, width)), np.zeros((dim, width)), np.zeros((dim, width))
    behind, costs, noise = np.zeros(n), np.zeros(n), np.zeros(n)
    for k in range(n):
        for a in range(dim):
            columns[a, k] = features[k, a]
            apart[a, k] = features[k, a] - features[0, a]
            behind[k] += apart[a, k] * score[a]
            costs[k] += apart[a, k] * mean_coef[a]
            noise[k] += columns[a, k] * var_coef[a]
        variance = max(noise[k] + base_variance, least_variance)
        behind[k] = max(behind[k], 0.0)
        costs[k] = behind[k] + costs[k] * costs[k]
        noise[k] = 2 * (variance * variance) + risk_tolerance**2 * variance

    # Products of the covariance with features, and with differences to the leader's, on either side
    products, squared, lever, along = np.zeros((n, width)), np.zeros(n), np.zeros(n), np.empty(width)
    for a in range(dim):
        for k in range(width):
            along[k] = 0.0
        for b in range(dim):
            _add_product(blurred[a], columns[b], covariance[a, b])
            _add_product(along, apart[b], covariance[a, b])
        for k in range(n):
            lever[k] += blurred[a, k] * columns[a, k]
            squared[k] += along[k] * apart[a, k]
    for k in range(n):
        for a in range(dim):
            _add_product(products[k], blurred[a], apart[a, k])

    slope, losses, mean_slope = np.empty(n), np.empty(n), np.empty(n)
    _losses(squared, behind, noise, caution, slope, losses, mean_slope)
    total = 0.0
    for k in range(n):
        loss = max(loss, losses[k])  # the draws may have missed the most dangerous rival
        total += losses[k]
    total = max(total, 1e-250 * loss)
    overlap = loss / total if total > 0 else loss

    fast, slow, seen, seen_apart = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    blur = np.empty(dim)
    for portion in portions:
        for k in range(width):
            fast[k], slow[k] = 0.0, 0.0
        for k in range(1, n):
            if slope[k] != 0 or mean_slope[k] != 0:
                _add_squares(fast, slow, products[k], slope[k], mean_slope[k])
        rival, part = _mixture(fast, slow, lever, costs, behind, noise, overlap, loss, rounds, budget)
        if rival == 0:  # none is worth its cost
            return
        some = rng.binomial(portion, part)
        for chosen, played in ((rival, some), (0, portion - some)):
            counts[chosen] += played
            for k in range(width):
                seen[k], seen_apart[k] = 0.0, 0.0
            for a in range(dim):
                blur[a] = 0.0
                for b in range(dim):
                    blur[a] += covariance[a, b] * features[chosen, b]
                _add_product(seen, columns[a], blur[a])
                _add_product(seen_apart, apart[a], blur[a])
            factor = played / (noise[chosen] + played * seen[chosen])
            for a in range(dim):
                for b in range(dim):
                    covariance[a, b] -= blur[a] * blur[b] * factor
            for k in range(n):
                squared[k] -= seen_apart[k] * seen_apart[k] * factor
                lever[k] -= seen[k] * seen[k] * factor
                _add_product(products[k], seen, -seen_apart[k] * factor)
        _losses(squared, behind, noise, caution, slope, losses, mean_slope)
