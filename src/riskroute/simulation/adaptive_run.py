"""Runs of `adaptive` and `change-test` in compiled code, over lists of all allocations of an order.

A plan takes a tenth of a millisecond to work out, and between compiled parts the policy and the runner take twice as
long to hand on small arrays. Here the same parts are called from one compiled loop: with the same random numbers the
same plans are made, the same rewards drawn and the same belief fitted. The policies and the runner define what is done.

What happens rarely is left to the policy: where the loop finds observations to sum up, a matrix that cannot be factored
or rewards that may contradict older ones, it ends, and the policy goes on from there.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Floats, Integers, Matrix
from riskroute.learning.belief import LONGEST, VARIANCE_FLOOR, Belief
from riskroute.learning.belief_compiled import score_covariance_compiled
from riskroute.learning.belief_fit import BeliefArrays
from riskroute.learning.belief_fit_compiled import fit_belief_to_columns
from riskroute.learning.observations import (
    Columns,
    Observations,
    join_columns,
    slice_columns,
    stack_columns,
)
from riskroute.learning.policies.adaptive import CALM, Adaptive
from riskroute.learning.policies.change_test import ChangeTest
from riskroute.learning.policies.change_test_compiled import least_chance_compiled
from riskroute.learning.policies.linear_policy import MOST_ROWS
from riskroute.learning.policy import Policy
from riskroute.learning.prior_check_compiled import temper_factor_compiled
from riskroute.learning.regret import RegretBlocks
from riskroute.learning.small_matrices import upper_root
from riskroute.learning.tally import ActionBatch
from riskroute.routing.splits import ListedAllocations
from riskroute.simulation.adaptive_plan import (
    AdaptiveRules,
    ListedOutcomes,
    draw_plan,
    duel_counts,
    listed_rivals,
    plan_columns,
)
from riskroute.simulation.episodes import Run

_NEAR = 2.0  # plans so many times as likely as the level of a test are still left to the policy


def play_adaptive(rewards: Run, policy: Policy, checkpoints: Integers) -> tuple[ActionBatch, RegretBlocks] | None:
    """Play on, often to the horizon; return the actions of all blocks and the blocks, cut at the checkpoints.

    The policy has then learned what it would have learned plan by plan. None if nothing was played: because it is
    another policy, its first belief is yet to come or rests on a prior, a test for changes would have to doubt what it
    assumes, rewards are not drawn as independent tallies, the actions are not a list of all allocations, or a matrix
    cannot be factored.
    """
    environment, actions = rewards.environment, rewards.environment.actions
    if not (
        isinstance(policy, Adaptive)
        and type(policy) in (Adaptive, ChangeTest)
        and policy.belief is not None
        and policy.prior is None
        and not (isinstance(policy, ChangeTest) and policy.assumed_size > 0)
        and type(rewards) is Run
        and environment.independent
        and environment.gaussian
        and environment.one_set
        and isinstance(actions, ListedAllocations)
        and actions.whole is not None
        and actions.whole.tables_fit
        and actions.dim <= LONGEST
    ):
        return None
    listed, first = ListedOutcomes.of(environment, actions, actions.whole), policy.played
    base = policy.belief if policy.base is None else policy.base
    in_doubt = policy.base is not None and policy.in_doubt(base)
    rows, log, settled, recent, lengths, belief, policy.calm, policy.fresh, policy.played = _play(
        policy.rng,
        rewards.rng,
        listed,
        AdaptiveRules.of(policy),
        np.concatenate([checkpoints, listed.starts[1:]]),
        *_observed(policy),
        policy.vague,
        policy.belief.arrays,
        base.arrays,
        policy.base is not None,
        in_doubt,
        policy.calm,
        float(policy.fresh),
        policy.played,
    )
    if len(rows) == 0:
        return None
    policy.belief = Belief(*belief)
    _remember(policy, settled, recent, lengths)
    if policy.fresh >= policy.due:
        policy.refresh()
    rewards.time = policy.played
    counts = log[0].astype(np.int64)
    pieces = environment.piece_at(first + np.cumsum(counts) - counts)
    gaps = np.stack([environment.table(piece)[2] for piece in range(len(environment.pieces))])
    mean, variance = listed.means[pieces, rows], listed.deviations[pieces, rows] ** 2
    return actions.handles[rows], RegretBlocks(counts, log[1], log[2], mean, variance, gaps[pieces, rows])


def _observed(policy: Adaptive) -> tuple[Columns, Columns, Integers]:
    """Return the observations that have settled, those of recent plans one after the other, and the rows of each."""
    nothing = Observations.none(policy.setting.actions.dim)
    if not isinstance(policy, ChangeTest):
        return policy.observations.columns, nothing.columns, np.zeros(0, dtype=np.int64)
    columns = zip(nothing.columns, *(part.columns for part in policy.recent), strict=True)
    features, counts, means, spreads, free = (np.concatenate(column) for column in columns)
    lengths = np.array([len(part) for part in policy.recent], dtype=np.int64)
    return policy.settled.columns, (features, counts, means, spreads, free), lengths


def _remember(policy: Adaptive, settled: Columns, recent: Columns, lengths: Integers) -> None:
    """Let the policy have what `_observed` returns."""
    if not isinstance(policy, ChangeTest):
        policy.observations = Observations(*settled)
        return
    ends = np.cumsum(lengths).tolist()
    policy.settled = Observations(*settled)
    policy.recent = [
        Observations(*slice_columns(recent, begin, end)) for begin, end in zip([0, *ends], ends, strict=False)
    ]
    policy.gather()


@njit(cache=True, error_model="numpy")
def _play(
    rng: np.random.Generator,
    reward_rng: np.random.Generator,
    listed: ListedOutcomes,
    rules: AdaptiveRules,
    stops: Integers,
    settled: Columns,
    recent: Columns,
    lengths: Integers,
    vague: Matrix,
    belief: BeliefArrays,
    base: BeliefArrays,
    has_base: bool,
    in_doubt: bool,
    calm: bool,
    fresh: float,
    played: int,
) -> tuple[Integers, Floats, Columns, Columns, Integers, BeliefArrays, bool, float, int]:
    dim = len(belief.mean_coef)
    rows, log, size = np.empty(1024, dtype=np.int64), np.empty((3, 1024)), 0
    covariance, work = np.empty((dim, dim)), np.empty((dim, dim))
    score = np.empty(dim)
    squared = rules.risk_tolerance**2
    unit = squared if squared > 0 else 1.0
    while played < rules.horizon:
        for a in range(dim):
            score[a] = belief.var_coef[a] - rules.risk_tolerance * belief.mean_coef[a]
        if not score_covariance_compiled(belief.mean_precision, belief.var_precision, rules.risk_tolerance, covariance):
            break
        if not upper_root(covariance, work):
            break
        ahead = min(played - rules.begun, rules.horizon - played)
        rounds = max(min(_due(rules, belief.rounds, calm) - math.floor(fresh), rules.horizon - played), 1)
        rivals, features, loss = listed_rivals(rng, listed, rules.draws, score, covariance)
        counts = duel_counts(rng, rules, belief, features, score, covariance, loss, rounds, ahead)
        explored = 0
        for k in range(len(counts)):
            explored += counts[k]
        calm = explored == 0
        counts[0] += rounds - explored

        cuts, drawn = draw_plan(reward_rng, listed, rivals, counts, played, stops)
        while size + drawn.shape[1] > len(rows):
            rows, log = _doubled(rows, log)
        for i in range(drawn.shape[1]):
            rows[size] = rivals[cuts[2, i]]
            log[0, size], log[1, size], log[2, size] = cuts[1, i], drawn[0, i], drawn[1, i]
            size += 1
        news = plan_columns(features, counts, cuts, drawn)
        settled, recent, lengths = _with_plan(settled, recent, lengths, news, fresh > 0, rules.kept_plans)
        played += rounds
        fresh += rounds

        due = fresh >= _due(rules, belief.rounds, calm)
        if len(settled[1]) > MOST_ROWS and (due or rules.kept_plans > 0):
            break
        if due:
            columns = settled
            if rules.kept_plans > 0:
                chance = least_chance_compiled(
                    settled, recent, lengths, vague, base, has_base, rules.base_variance, unit
                )
                if not chance >= _NEAR * rules.level:
                    break
                columns = join_columns(settled, recent)
            kept = base
            if in_doubt:
                factor = temper_factor_compiled(columns, base, rules.base_variance, vague, rules.surprise)
                if math.isnan(factor):
                    break
                kept = _weakened(base, factor)
            found, fine = fit_belief_to_columns(
                columns, vague, kept, has_base, rules.base_variance, VARIANCE_FLOOR, unit
            )
            if not fine:
                break
            belief, fresh = found, 0.0
    return rows[:size], log[:, :size], settled, recent, lengths, belief, calm, fresh, played


@register_jitable(error_model="numpy")
def _due(rules: AdaptiveRules, rounds: float, calm: bool) -> int:
    """Number of rewards after which the belief is refreshed."""
    return min(max(math.floor(rules.pace * rounds), 1) * (CALM if calm else 1), rules.longest_plan)


@register_jitable(error_model="numpy")
def _weakened(belief: BeliefArrays, factor: float) -> BeliefArrays:
    """Return a belief that counts less; see `Belief.weakened`."""
    if factor >= 1:
        return belief
    return BeliefArrays(
        belief.mean_coef,
        belief.mean_precision * factor,
        belief.var_coef,
        belief.var_precision * factor,
        belief.variance,
        belief.rounds * factor,
    )


@register_jitable(error_model="numpy")
def _with_plan(
    settled: Columns, recent: Columns, lengths: Integers, news: Columns, goes_on: bool, kept: int
) -> tuple[Columns, Columns, Integers]:
    """Return what `_observed` does with one more plan, or with more rewards of the last one; ``kept`` plans are recent.

    See `ChangeTest.remember`.
    """
    known = len(lengths)
    if goes_on and known > 0:
        first = len(recent[1]) - lengths[known - 1]
        news = join_columns(slice_columns(recent, first, len(recent[1])), news)
        recent, known = slice_columns(recent, 0, first), known - 1
    more = np.empty(known + 1, dtype=np.int64)
    for k in range(known):
        more[k] = lengths[k]
    more[known] = len(news[1])
    recent = stack_columns(recent, news)
    if len(more) <= kept:
        return settled, recent, more
    oldest, rest = slice_columns(recent, 0, more[0]), slice_columns(recent, more[0], len(recent[1]))
    return join_columns(settled, oldest), rest, more[1:]


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
