"""Runs of `riskroute.learning.policies.adaptive` in compiled code, over lists of all allocations of an order.

A plan takes a tenth of a millisecond to work out, and between compiled parts the policy and the runner take twice as
long to hand on small arrays. Here the same parts are called from one compiled loop: with the same random numbers the
same plans are made, the same rewards drawn and the same belief fitted. The policy and the runner define what is done.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.arrays import Floats, Integers, Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE, LONGEST, VARIANCE_FLOOR, Belief
from riskroute.learning.belief_compiled import score_covariance_compiled
from riskroute.learning.belief_fit import BeliefArrays
from riskroute.learning.belief_fit_compiled import fit_belief_compiled
from riskroute.learning.handles import different_handles_compiled, handle_rows_compiled
from riskroute.learning.observations import Columns, Observations, joined_rows_compiled
from riskroute.learning.policies.adaptive import CALM, Adaptive
from riskroute.learning.policies.adaptive_duel import CAUTION
from riskroute.learning.policies.adaptive_duel_compiled import fill_duel_compiled
from riskroute.learning.policies.adaptive_rivals import leader_loss_compiled, rival_scores_compiled
from riskroute.learning.policies.linear_policy import MOST_ROWS
from riskroute.learning.policy import Policy
from riskroute.learning.prior_check_compiled import temper_factor_compiled
from riskroute.learning.regret import RegretBlocks
from riskroute.learning.small_matrices import upper_root
from riskroute.learning.tally import ActionBatch, merge_moments_compiled
from riskroute.routing.listed import ListedAllocations
from riskroute.routing.separable_each import SeparableScores, minimise_each_compiled
from riskroute.simulation.episodes import Run
from riskroute.simulation.kernels import block_cuts_compiled


class _Listed(NamedTuple):
    """A list of all allocations, as `SeparableScores` and `HandleIndex` describe it, with the outcomes of each."""

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
    mean: Vector
    deviation: Vector

    @classmethod
    def of(cls, actions: ListedAllocations, whole: SeparableScores, mean: Vector, deviation: Vector) -> _Listed:
        """Return what the loop needs of a list."""
        index = actions.index
        found = index.handles, index.factors, index.keys, index.order
        bounds = *whole.factors, whole.lows, whole.highs
        return cls(whole.units, whole.lot, whole.tables_fit, *bounds, *found, actions.matrix, mean, deviation)


class _Rules(NamedTuple):
    """What the policy was told, and its parameters."""

    horizon: int
    risk_tolerance: float
    base_variance: float
    patience: float
    budget: float
    pace: float
    draws: int
    portions: int
    surprise: float

    @classmethod
    def of(cls, policy: Adaptive) -> _Rules:
        """Return what the loop needs of a policy."""
        known = policy.setting
        return cls(
            policy.horizon,
            known.risk_tolerance,
            known.base_variance,
            float(policy.patience),
            math.inf if policy.budget is None else float(policy.budget),
            policy.pace,
            policy.draws,
            policy.portions,
            policy.surprise,
        )


def play_adaptive(rewards: Run, policy: Policy, checkpoints: Integers) -> tuple[ActionBatch, RegretBlocks] | None:
    """Play on to the horizon; return the actions of all blocks and the blocks, cut at the checkpoints.

    The policy has then learned what it would have learned plan by plan. None if nothing was played: because it is
    another policy, its first belief is yet to come or rests on a prior, rewards are not drawn as independent tallies,
    the actions are not a list of all allocations, or a matrix cannot be factored.
    """
    environment, actions = rewards.environment, rewards.environment.actions
    if not (
        type(policy) is Adaptive
        and policy.belief is not None
        and policy.prior is None
        and type(rewards) is Run
        and environment.independent
        and environment.gaussian
        and len(environment.pieces) == 1
        and isinstance(actions, ListedAllocations)
        and actions.whole is not None
        and actions.whole.tables_fit
        and actions.dim <= LONGEST
    ):
        return None
    mean, deviation, gap = environment.table(0)
    base = policy.belief if policy.base is None else policy.base
    rows, log, columns, belief, built_on, has_base, policy.calm, policy.fresh, policy.played = _play(
        policy.rng,
        rewards.rng,
        _Listed.of(actions, actions.whole, mean, deviation),
        _Rules.of(policy),
        checkpoints,
        policy.observations.columns,
        policy.vague,
        policy.belief.arrays,
        base.arrays,
        policy.base is not None,
        policy.base is not None and policy.in_doubt(policy.base),
        policy.calm,
        float(policy.fresh),
        policy.played,
    )
    if len(rows) == 0:
        return None
    policy.observations, policy.belief = Observations(*columns), Belief(*belief)
    policy.base = Belief(*built_on) if has_base else None
    if policy.fresh >= policy.due:  # the compiled fit gave up
        policy.refresh()
    rewards.time = policy.played
    counts, variance = log[0].astype(np.int64), deviation[rows] ** 2
    return actions.handles[rows], RegretBlocks(counts, log[1], log[2], mean[rows], variance, gap[rows])


@njit(cache=True, error_model="numpy")
def _play(
    rng: np.random.Generator,
    reward_rng: np.random.Generator,
    listed: _Listed,
    rules: _Rules,
    checkpoints: Integers,
    columns: Columns,
    vague: Matrix,
    belief: BeliefArrays,
    base: BeliefArrays,
    has_base: bool,
    in_doubt: bool,
    calm: bool,
    fresh: float,
    played: int,
) -> tuple[Integers, Floats, Columns, BeliefArrays, BeliefArrays, bool, bool, float, int]:
    dim = len(belief.mean_coef)
    rows, log, size = np.empty(1024, dtype=np.int64), np.empty((3, 1024)), 0
    covariance, work = np.empty((dim, dim)), np.empty((dim, dim))
    score = np.empty(dim)
    while played < rules.horizon:
        for a in range(dim):
            score[a] = belief.var_coef[a] - rules.risk_tolerance * belief.mean_coef[a]
        if not score_covariance_compiled(belief.mean_precision, belief.var_precision, rules.risk_tolerance, covariance):
            break
        if not upper_root(covariance, work):
            break
        rounds = max(min(_due(rules, belief.rounds, calm) - math.floor(fresh), rules.horizon - played), 1)
        rivals, features, loss = _rivals(rng, listed, rules.draws, score, covariance)
        counts = _counts(rng, rules, belief, features, score, covariance, loss, rounds, rules.horizon - played)
        explored = 0
        for k in range(len(counts)):
            explored += counts[k]
        calm = explored == 0
        counts[0] += rounds - explored

        cuts, drawn = _drawn(reward_rng, listed, rivals, counts, played, checkpoints)
        while size + drawn.shape[1] > len(rows):
            rows, log = _doubled(rows, log)
        for i in range(drawn.shape[1]):
            rows[size] = rivals[cuts[2, i]]
            log[0, size], log[1, size], log[2, size] = cuts[1, i], drawn[0, i], drawn[1, i]
            size += 1
        columns = _joined(columns, features, counts, cuts, drawn)
        played += rounds
        fresh += rounds

        if fresh >= _due(rules, belief.rounds, calm):
            found, fine = _fitted(columns, vague, base, has_base, in_doubt, rules)
            if not fine:
                break
            belief, fresh = found, 0.0
            if len(columns[1]) > MOST_ROWS:
                base, has_base, in_doubt = belief, True, False
                columns = (np.empty((0, dim)), np.empty(0), np.empty(0), np.empty(0), np.empty(0))
    return rows[:size], log[:, :size], columns, belief, base, has_base, calm, fresh, played


@register_jitable(error_model="numpy")
def _due(rules: _Rules, rounds: float, calm: bool) -> int:
    """Number of rewards after which the belief is refreshed."""
    return max(math.floor(rules.pace * rounds), 1) * (CALM if calm else 1)


@register_jitable(error_model="numpy")
def _rivals(
    rng: np.random.Generator, listed: _Listed, draws: int, score: Vector, covariance: Matrix
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
def _counts(
    rng: np.random.Generator,
    rules: _Rules,
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
def _drawn(
    rng: np.random.Generator, listed: _Listed, rivals: Integers, counts: Integers, played: int, checkpoints: Integers
) -> tuple[Integers, Floats]:
    """Return the blocks of a plan as `plan_block_cuts` does, and means and spreads of their rewards."""
    cuts = np.empty((3, len(counts) + len(checkpoints)), dtype=np.int64)
    size = block_cuts_compiled(counts, played, checkpoints, cuts)
    drawn = np.empty((2, size))
    for i in range(size):
        row, root = rivals[cuts[2, i]], math.sqrt(float(cuts[1, i]))
        drawn[0, i] = listed.mean[row] + listed.deviation[row] / root * rng.standard_normal()
    for i in range(size):
        deviation, n = listed.deviation[rivals[cuts[2, i]]], cuts[1, i]
        drawn[1, i] = deviation * deviation * (2 * rng.standard_gamma((n - 1) / 2)) if n > 1 else 0.0
    return cuts, drawn


@register_jitable(error_model="numpy")
def _doubled(rows: Integers, log: Floats) -> tuple[Integers, Floats]:
    """Return the same entries with room for as many more."""
    size = len(rows)
    more, longer = np.empty(2 * size, dtype=np.int64), np.empty((len(log), 2 * size))
    for i in range(size):
        more[i] = rows[i]
        for k in range(len(log)):
            longer[k, i] = log[k, i]
    return more, longer


@register_jitable(error_model="numpy")
def _joined(columns: Columns, features: Matrix, counts: Integers, cuts: Integers, drawn: Floats) -> Columns:
    """Return the observations with the rewards of a plan: its entries, and what was drawn for their blocks."""
    known, dim, several = len(columns[1]), features.shape[1], 0
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
    joined, merged = np.empty((known + several, dim)), np.empty((4, known + several))
    size = joined_rows_compiled(
        columns, (played, news[0], news[1], news[2], news[3]), joined, merged[0], merged[1], merged[2], merged[3]
    )
    return joined[:size], merged[0, :size], merged[1, :size], merged[2, :size], merged[3, :size]


@register_jitable(error_model="numpy")
def _fitted(
    columns: Columns, vague: Matrix, base: BeliefArrays, has_base: bool, in_doubt: bool, rules: _Rules
) -> tuple[BeliefArrays, bool]:
    """Return the belief fitted to observations, and whether that worked."""
    dim = len(vague)
    mean_coef, var_coef = np.zeros(dim), np.zeros(dim)
    mean_precision, var_precision = np.zeros((dim, dim)), np.zeros((dim, dim))
    squared = rules.risk_tolerance**2
    prior = (
        base
        if has_base
        else BeliefArrays(np.zeros(dim), np.zeros((dim, dim)), np.zeros(dim), np.zeros((dim, dim)), 0.0, 0.0)
    )
    factor = temper_factor_compiled(columns, prior, rules.base_variance, vague, rules.surprise) if in_doubt else 1.0
    if math.isnan(factor):
        return prior, False
    if factor < 1:
        prior = BeliefArrays(
            prior.mean_coef,
            prior.mean_precision * factor,
            prior.var_coef,
            prior.var_precision * factor,
            prior.variance,
            prior.rounds * factor,
        )
    variance, rounds, fine = fit_belief_compiled(
        columns[0],
        columns[1],
        columns[2],
        columns[3],
        columns[4],
        vague,
        prior.mean_coef,
        prior.mean_precision,
        prior.var_coef,
        prior.var_precision,
        prior.variance,
        prior.rounds,
        has_base,
        rules.base_variance,
        VARIANCE_FLOOR,
        squared if squared > 0 else 1.0,
        mean_coef,
        mean_precision,
        var_coef,
        var_precision,
    )
    return BeliefArrays(mean_coef, mean_precision, var_coef, var_precision, variance, rounds), fine
