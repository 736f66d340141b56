"""One plan of `riskroute.learning.policies.adaptive` and its rewards, for runs in one compiled loop.

The parts are those of the policy and of the runner, called from compiled code, over lists of all allocations of an
order. They are compiled within the loop that calls them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from riskroute.core.arrays import Floats, Integers, Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE
from riskroute.learning.belief_fit import BeliefArrays
from riskroute.learning.handles import different_handles_compiled, handle_rows_compiled
from riskroute.learning.observations import Columns
from riskroute.learning.policies.adaptive import Adaptive
from riskroute.learning.policies.adaptive_duel import CAUTION
from riskroute.learning.policies.adaptive_duel_compiled import fill_duel_compiled
from riskroute.learning.policies.adaptive_rivals import leader_loss_compiled, rival_scores_compiled
from riskroute.learning.policies.change_test import SPANS, ChangeTest
from riskroute.learning.tally import merge_moments_compiled
from riskroute.routing.separable import SeparableScores, minimise_each_compiled
from riskroute.routing.splits import ListedAllocations
from riskroute.simulation.environments import Environment
from riskroute.simulation.kernels import block_cuts_compiled


class ListedOutcomes(NamedTuple):
    """A list of K allocations, as `SeparableScores` and `HandleIndex` describe it, with the outcomes of each.

    Means and standard deviations are ``(P, K)``, by segment of time; ``starts`` says where each of these begins.
    """

    units: int
    lot: int
    tables_fit: bool
    linear: float
    square: float
    lows: Integers
    highs: Integers
    handles: Integers
    factors: Integers
    keys: Integers
    order: Integers
    matrix: Matrix
    starts: Integers
    means: Matrix
    deviations: Matrix

    @classmethod
    def of(cls, environment: Environment, actions: ListedAllocations, whole: SeparableScores) -> ListedOutcomes:
        """Return what the loop needs of an environment, all of whose segments offer the same list."""
        index = actions.index
        found = index.handles, index.factors, index.keys, index.order
        bounds = *whole.factors, whole.lows, whole.highs
        tables = [environment.table(piece) for piece in range(len(environment.pieces))]
        means, deviations = np.stack([one[0] for one in tables]), np.stack([one[1] for one in tables])
        outcomes = np.array(environment.starts, dtype=np.int64), means, deviations
        return cls(whole.units, whole.lot, whole.tables_fit, *bounds, *found, actions.matrix, *outcomes)


class AdaptiveRules(NamedTuple):
    """What the policy was told, and its parameters; those of `ChangeTest` are without effect for `Adaptive`."""

    horizon: int
    risk_tolerance: float
    base_variance: float
    patience: float
    budget: float
    pace: float
    draws: int
    portions: int
    surprise: float
    kept_plans: int
    longest_plan: int
    level: float
    begun: int  # rounds before exploration began, for the last time

    @classmethod
    def of(cls, policy: Adaptive) -> AdaptiveRules:
        """Return what the loop needs of a policy."""
        known, horizon = policy.setting, policy.horizon
        testing = 0, horizon, 0.0, -horizon
        if isinstance(policy, ChangeTest):
            testing = SPANS[-1], policy.check_every, policy.level, policy.restarts[-1] if policy.restarts else 0
        return cls(
            horizon,
            known.risk_tolerance,
            known.base_variance,
            float(policy.patience),
            math.inf if policy.budget is None else float(policy.budget),
            policy.pace,
            policy.draws,
            policy.portions,
            policy.surprise,
            *testing,
        )


@register_jitable(error_model="numpy")
def listed_rivals(
    rng: np.random.Generator, listed: ListedOutcomes, draws: int, score: Vector, covariance: Matrix
) -> tuple[Integers, Matrix, float]:
    """Return the rows of the leader and its rivals, their features, and the loss of settling on the leader."""
    dim = len(score)
    normals = np.empty((draws, dim))
    for i in range(draws):
        for a in range(dim):
            normals[i, a] = rng.standard_normal()
    scores = np.empty((1 + draws + (draws + 3) // 4 + (draws + 2) // 4, dim))
    rival_scores_compiled(score, covariance, normals, scores)
    chosen = np.zeros((len(scores), len(listed.lows)), dtype=np.int64)
    minimise_each_compiled(
        scores,
        listed.linear,
        listed.square,
        listed.units,
        listed.lows,
        listed.highs,
        listed.tables_fit,
        chosen,
    )
    for i in range(len(chosen)):
        for k in range(chosen.shape[1]):
            chosen[i, k] *= listed.lot
    first, place = np.empty(len(scores), dtype=np.int64), np.empty(len(scores), dtype=np.int64)
    count = different_handles_compiled(chosen, first, place)
    every = np.empty(len(scores), dtype=np.int64)
    handle_rows_compiled(listed.handles, listed.factors, listed.keys, listed.order, chosen, every)
    rows, features = np.empty(count, dtype=np.int64), np.empty((count, dim))
    for k in range(count):
        rows[k] = every[first[k]]
        for a in range(dim):
            features[k, a] = listed.matrix[rows[k], a]
    return rows, features, leader_loss_compiled(scores[1 : draws + 1], features, place[1 : draws + 1])


@register_jitable(error_model="numpy")
def duel_counts(
    rng: np.random.Generator,
    rules: AdaptiveRules,
    belief: BeliefArrays,
    features: Matrix,
    score: Vector,
    covariance: Matrix,
    loss: float,
    rounds: int,
    ahead: int,
) -> Integers:
    """Return the rounds in which each rival is explored, and the leader beside it."""
    parts = min(rounds, rules.portions)
    portions, counts = np.empty(parts, dtype=np.int64), np.zeros(len(features), dtype=np.int64)
    for i in range(parts):
        portions[i] = rounds // parts + (1 if i < rounds % parts else 0)
    fill_duel_compiled(
        rng,
        portions,
        features,
        covariance,
        score,
        belief.mean_coef,
        belief.var_coef,
        rules.risk_tolerance,
        rules.base_variance,
        LEAST_VARIANCE * belief.variance,
        CAUTION * math.log(max(ahead, 2)),
        loss,
        rules.patience * ahead,
        rules.budget,
        counts,
    )
    return counts


@register_jitable(error_model="numpy")
def draw_plan(
    rng: np.random.Generator,
    listed: ListedOutcomes,
    rivals: Integers,
    counts: Integers,
    played: int,
    stops: Integers,
) -> tuple[Integers, Floats]:
    """Return the blocks of a plan as `plan_block_cuts` does, and means and spreads of their rewards."""
    cuts = np.empty((3, len(counts) + len(stops)), dtype=np.int64)
    size = block_cuts_compiled(counts, played, stops, cuts)
    drawn, deviations, piece = np.empty((2, size)), np.empty(size), 0
    for i in range(size):
        while piece + 1 < len(listed.starts) and listed.starts[piece + 1] <= cuts[0, i]:
            piece += 1
        row, root = rivals[cuts[2, i]], math.sqrt(float(cuts[1, i]))
        deviations[i] = listed.deviations[piece, row]
        drawn[0, i] = listed.means[piece, row] + deviations[i] / root * rng.standard_normal()
    for i in range(size):
        n = cuts[1, i]
        drawn[1, i] = deviations[i] * deviations[i] * (2 * rng.standard_gamma((n - 1) / 2)) if n > 1 else 0.0
    return cuts, drawn


@register_jitable(error_model="numpy")
def plan_columns(features: Matrix, counts: Integers, cuts: Integers, drawn: Floats) -> Columns:
    """Return the observations of a plan: one row per entry played, from what was drawn for its blocks."""
    dim, several = features.shape[1], 0
    place = np.empty(len(counts), dtype=np.int64)
    for k in range(len(counts)):
        place[k] = several
        several += counts[k] > 0
    played, news = np.empty((several, dim)), np.zeros((4, several))
    for k in range(len(counts)):
        if counts[k] > 0:
            for a in range(dim):
                played[place[k], a] = features[k, a]
    for i in range(drawn.shape[1]):
        k = place[cuts[2, i]]
        news[0, k], news[1, k], news[2, k] = merge_moments_compiled(
            news[0, k], news[1, k], news[2, k], float(cuts[1, i]), drawn[0, i], drawn[1, i]
        )
    for k in range(several):
        news[3, k] = max(news[0, k] - 1, 0.0)
    return played, news[0], news[1], news[2], news[3]
