"""The runner: one run of a policy in an environment.

Phased policies are played by blocks: a plan's rewards are drawn as tallies, whatever its length. Index policies are
played by a compiled kernel. Any policy can be played round by round, the slow and obvious way the others are tested
against.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from riskroute._version import __version__
from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import InputError, shown
from riskroute.core.results import PolicyResult
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import LABEL_MARKS, as_name, list_of
from riskroute.learning.actions import Action, as_batch
from riskroute.learning.policies.arm_policy import IndexPolicy
from riskroute.learning.policies.baselines import Oracle
from riskroute.learning.policy import Policy
from riskroute.learning.registry import make_policy
from riskroute.learning.regret import RegretBlocks, block_regret_curves
from riskroute.learning.state import encode_state
from riskroute.learning.tally import ActionBatch
from riskroute.simulation.environments import Environment
from riskroute.simulation.kernels import index_episode

MOST_RUNS = 10**7
METHODS = ("auto", "blocks", "rounds")


@dataclass(frozen=True)
class Episode:
    """One run: regret, pseudo-regret and luck at the checkpoints, where it ended, and rounds spent elsewhere.

    Where the action set changes, it ends on an action of the last round's set, and of the rounds that offered this set
    those are counted that were spent on others.
    """

    regret: Floats
    pseudo_regret: Floats
    luck: Floats
    recommended: Action
    exploration: int


def run_configuration(
    environment: Environment, policies: Mapping[str, Policy], horizon: int, runs: int, seed: int
) -> dict[str, Any]:
    """Return what is played, as plain values."""
    return {
        "version": __version__,
        "environment": environment.describe(),
        "actions": str(environment.actions.size),
        "dim": environment.actions.dim,
        "risk_tolerance": environment.risk_tolerance,
        "horizon": horizon,
        "runs": runs,
        "seed": seed,
        "policies": {label: {"name": p.name, **encode_state(p.parameters)} for label, p in policies.items()},
    }


def play_runs(
    environment: Environment,
    policy: Policy,
    horizon: int,
    checkpoints: Integers,
    comparator: Floats,
    identity: tuple[int, str, int],
    method: str = "auto",
) -> Episode:
    """Play one run of a policy; its randomness depends on the environment and ``identity`` (seed, label, run) alone."""
    seed, label, run = identity
    method = environment.playable(method)
    setting, instance = environment.setting(horizon), environment.stream_name
    policy = policy.clone().start(setting, seed_stream(seed, instance, label, run, "policy"))
    rng = np.random.default_rng(seed_stream(seed, instance, label, run, "rewards"))
    if method == "auto" and isinstance(policy, IndexPolicy) and policy.has_kernel:
        log = _play_index(environment, policy, rng)
    elif method == "rounds":
        log = _play_rounds(environment, policy, rng)
    else:
        log = _play_blocks(environment, policy, rng, checkpoints)
    anchors = environment.comparator_means(checkpoints)
    xi, pseudo, luck = block_regret_curves(log.blocks, checkpoints, anchors, environment.risk_tolerance)
    if not environment.independent:
        luck = np.zeros(len(checkpoints))  # noise that carries over has no expectation of zero, given the past
    recommended = policy.recommend()
    return Episode(xi - comparator, pseudo, luck, recommended, _elsewhere(environment, log, recommended, horizon))


def _elsewhere(environment: Environment, log: _Log, recommended: Action, horizon: int) -> int:
    """Rounds spent on other actions than the recommended one, of those that offered the set of the last round."""
    if environment.one_set:
        return horizon - log.rounds_on(recommended)
    piece = environment.piece_at(np.arange(horizon))
    alike = piece == piece[-1]
    return int(alike.sum()) - log.only(alike).rounds_on(recommended)


class _Log:
    """Consecutive blocks of an episode, with the handles of their actions."""

    def __init__(self) -> None:
        self.parts: list[tuple[ActionBatch, RegretBlocks]] = []

    def add(self, actions: ActionBatch, blocks: RegretBlocks) -> None:
        self.parts.append((actions, blocks))

    @property
    def actions(self) -> ActionBatch:
        """Handles of all blocks."""
        return self._whole()[0]

    @property
    def blocks(self) -> RegretBlocks:
        """All blocks, one after the other."""
        return self._whole()[1]

    def _whole(self) -> tuple[ActionBatch, RegretBlocks]:
        if len(self.parts) > 1:
            actions, blocks = zip(*self.parts, strict=True)
            columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
            self.parts = [(np.concatenate(actions), RegretBlocks(*columns))]
        return self.parts[0]

    def only(self, chosen: Flags) -> _Log:
        """Some of the blocks."""
        part = _Log()
        part.add(self.actions[chosen], RegretBlocks._make(column[chosen] for column in self.blocks))
        return part

    def rounds_on(self, action: Action) -> int:
        total = 0
        for actions, blocks in self.parts:
            same = actions == as_batch(action)
            total += int(blocks.counts[same if same.ndim == 1 else same.all(axis=1)].sum())
        return total


def _play_blocks(environment: Environment, policy: Policy, rng: np.random.Generator, checkpoints: Integers) -> _Log:
    """Play plan by plan, each drawn as tallies and cut at the checkpoints."""
    rewards, log = environment.run(rng), _Log()
    while policy.remaining:
        plan = policy.plan()
        tallies, entry, blocks = rewards.plan_blocks(plan, checkpoints)
        policy.learn(tallies)
        log.add(plan.actions[entry], blocks)
    return log


def _play_rounds(environment: Environment, policy: Policy, rng: np.random.Generator) -> _Log:
    """Play round by round, as a live router would."""
    rewards = environment.run(rng)
    actions: list[Action] = []
    values: list[float] = []
    for _ in range(policy.remaining):
        if not environment.one_set:
            policy.offer(rewards.actions)
        action = policy.select()
        value = rewards.reward(action)
        policy.update(action, value)
        actions.append(action)
        values.append(value)
    return _single_rounds(environment, as_batch(*actions), np.array(values))


def _play_index(environment: Environment, policy: IndexPolicy, rng: np.random.Generator) -> _Log:
    """Play a whole episode of an index policy in the kernel."""
    handles, horizon = environment.actions.listed().handles, policy.horizon
    arms, rewards, tallies = index_episode(
        *environment.reward_tables(rng, horizon), policy.bonuses(horizon), environment.risk_tolerance
    )
    policy.absorb(*tallies)
    return _single_rounds(environment, handles[arms], rewards)


def _single_rounds(environment: Environment, actions: Integers, rewards: Floats) -> _Log:
    log, n = _Log(), len(rewards)
    piece = environment.piece_at(np.arange(n))
    means, deviations, gaps = np.empty((3, n))
    for k in np.unique(piece):
        there = piece == k
        means[there], deviations[there], gaps[there] = environment.outcomes(actions[there], int(k))
    log.add(actions, RegretBlocks(np.ones(n, dtype=np.int64), rewards, np.zeros(n), means, deviations**2, gaps))
    return log


def runs_by_label(
    policies: Iterable[str | Policy] | Mapping[str, str | Policy], environment: Environment, horizon: int
) -> dict[str, Policy]:
    """Policies by their labels; names become policies."""
    if isinstance(policies, str | Policy) or not isinstance(policies, Iterable):
        raise InputError(f"policies must be a list of names or policies, was {shown(policies)}")
    if isinstance(policies, Mapping):
        pairs = list(policies.items())
    else:
        listed = list_of("policies", policies, object, "names or policies")
        pairs = [(item if isinstance(item, str) else getattr(item, "name", str(item)), item) for item in listed]
    chosen: dict[str, Policy] = {}
    for label, item in pairs:
        if label in chosen:
            raise InputError(f"policies must have different labels, {label!r} appeared twice")
        if isinstance(item, str) and item == Oracle.name:
            item = environment.oracle(horizon)
        chosen[label] = make_policy(item) if isinstance(item, str) else item
        if not isinstance(chosen[label], Policy):
            raise InputError(f"policies must be names or policies, was {shown(item)}")
        as_name("label of a policy", label, marks=LABEL_MARKS)
    if not chosen:
        raise InputError("policies must name at least one policy")
    return chosen


def gather_runs(rounds: Integers, episodes: Sequence[Episode], seconds: float) -> PolicyResult:
    """Put the runs of one policy together."""
    return PolicyResult(
        rounds,
        np.stack([one.regret for one in episodes]),
        np.stack([one.pseudo_regret for one in episodes]),
        np.stack([one.luck for one in episodes]),
        [one.recommended for one in episodes],
        np.array([one.exploration for one in episodes], dtype=np.int64),
        seconds,
    )
