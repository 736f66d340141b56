"""One episode of an environment: the noise of its rounds, and the rewards drawn on, round after round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

from riskroute.core.arrays import Integers, Vector
from riskroute.core.errors import InputError, shown
from riskroute.core.validation import instance_of
from riskroute.learning.actions import Action, ActionSet, as_batch
from riskroute.learning.plan import Plan
from riskroute.learning.regret import RegretBlocks
from riskroute.learning.tally import ActionBatch, Tallies, merge_tally_groups
from riskroute.simulation.kernels import plan_block_cuts

if TYPE_CHECKING:
    from riskroute.simulation.environments import Environment

_FEW = 8  # so few gamma numbers are drawn faster one by one than as an array, and are the same


class Noise:
    """Independent standard normal noise."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def draw(self, rounds: int) -> Vector:
        """Draw the noise of the next ``rounds`` rounds."""
        return self.rng.standard_normal(rounds)


class AutocorrelatedNoise(Noise):
    """First-order autoregressive noise, standard normal in every round, started in its stationary law."""

    def __init__(self, rng: np.random.Generator, correlation: float) -> None:
        super().__init__(rng)
        self.correlation = correlation
        self.previous: float | None = None

    def draw(self, rounds: int) -> Vector:
        if rounds == 0:
            return np.zeros(0)
        fresh = self.rng.standard_normal(rounds)
        scale = np.sqrt(1 - self.correlation**2)
        if self.previous is None:  # the first value is already stationary
            fresh[1:] *= scale
            carried = 0.0
        else:
            fresh *= scale
            carried = self.correlation * self.previous
        if rounds == 1:  # what the filter does, without its set-up
            drawn: Vector = carried + fresh
        else:
            drawn = scipy.signal.lfilter([1.0], [1.0, -self.correlation], fresh, zi=[carried])[0]
        self.previous = float(drawn[-1])
        return drawn


class Run:
    """The rewards of one episode: draws on, round after round."""

    def __init__(self, environment: Environment, rng: np.random.Generator) -> None:
        self.environment = environment
        self.rng = rng
        self.noise = environment.noise(rng)
        self.time = 0
        self._changes = np.array(environment.starts[1:], dtype=np.int64)

    @property
    def piece(self) -> int:
        """The segment of the next round."""
        return int(self.environment.piece_at(self.time)) if len(self.environment.pieces) > 1 else 0

    @property
    def actions(self) -> ActionSet:
        """What the next round chooses from."""
        return self.environment.pieces[self.piece].actions

    def reward(self, action: Action) -> float:
        """Draw the reward of one round."""
        mean, deviation, _ = self.environment.outcomes(as_batch(action), self.piece)
        self.time += 1
        return float(mean.item() + deviation.item() * self.noise.draw(1).item())

    def tally(self, plan: Plan) -> Tallies:
        """Draw a whole plan, one tally per entry."""
        instance_of("plan", plan, Plan, "a Plan")
        if plan.rounds == 0 or plan.counts.min() < 1:
            raise InputError(f"plan must play every action at least once, was {shown(plan.counts.tolist())}")
        return self.plan_blocks(plan, np.zeros(0, dtype=np.int64))[0]

    def plan_blocks(self, plan: Plan, cuts: Integers) -> tuple[Tallies, Integers, RegretBlocks]:
        """Draw a whole plan, and say how it went block by block.

        Blocks end at entries of the plan, at changes and at the rounds ``cuts``. Returns one tally per entry, the
        entry of each block, and the blocks.
        """
        if not self.environment.one_set:
            raise InputError("plan must be played round by round where the action set changes, was drawn as a whole")
        stops = np.concatenate([cuts, self._changes]) if len(self._changes) else cuts
        begins, counts, entry = plan_block_cuts(plan.counts, self.time, stops)
        actions = plan.actions[entry]
        mean, deviation, gap = self._outcomes(actions, begins)
        reward_mean, reward_spread = self.draw_blocks(actions, counts, mean, deviation)
        self.time += plan.rounds
        blocks = RegretBlocks(counts, reward_mean, reward_spread, mean, deviation**2, gap)
        if len(entry) > len(plan.counts):
            _, reward_mean, reward_spread = merge_tally_groups(
                entry, len(plan.counts), counts, reward_mean, reward_spread
            )
        return Tallies(plan.actions, plan.counts, reward_mean, reward_spread), entry, blocks

    def _outcomes(self, actions: ActionBatch, begins: Integers) -> tuple[Vector, Vector, Vector]:
        """Mean, standard deviation and gap of the actions of blocks that begin after so many rounds each."""
        environment = self.environment
        if not len(self._changes):
            return environment.outcomes(actions)
        piece = environment.piece_at(begins)
        if piece[0] == piece[-1]:
            return environment.outcomes(actions, int(piece[0]))
        mean, deviation, gap = np.empty(len(piece)), np.empty(len(piece)), np.empty(len(piece))
        for k in range(piece[0], piece[-1] + 1):
            part = slice(*np.searchsorted(piece, [k, k + 1]))
            mean[part], deviation[part], gap[part] = environment.outcomes(actions[part], k)
        return mean, deviation, gap

    def draw_blocks(
        self, actions: ActionBatch, counts: Integers, mean: Vector, deviation: Vector
    ) -> tuple[Vector, Vector]:
        """Mean and spread (sum of squared deviations) of the rewards of blocks of one action each."""
        at_once = self.environment.independent and self.environment.gaussian
        return (self._at_once if at_once else self._one_by_one)(counts, mean, deviation)

    def _at_once(self, counts: Integers, mean: Vector, deviation: Vector) -> tuple[Vector, Vector]:
        """Tallies of independent Gaussian rewards, not drawn one by one: their mean and spread are independent."""
        center = mean + deviation / np.sqrt(counts) * self.rng.standard_normal(len(counts))
        return center, deviation**2 * self._chi_squares(counts)

    def _chi_squares(self, counts: Integers) -> Vector:
        """Draw a chi-squared number for each of some counts, with one degree of freedom less than the count."""
        if len(counts) <= _FEW:
            return np.array([2 * self.rng.standard_gamma((n - 1) / 2) if n > 1 else 0.0 for n in counts.tolist()])
        drawn, several = np.zeros(len(counts)), counts > 1
        drawn[several] = 2 * self.rng.standard_gamma((counts[several] - 1) / 2)
        return drawn

    def _one_by_one(self, counts: Integers, mean: Vector, deviation: Vector) -> tuple[Vector, Vector]:
        """Tallies of rewards drawn one by one."""
        noise = self.noise.draw(int(counts.sum()))
        first = np.cumsum(counts) - counts
        center = np.add.reduceat(noise, first) / counts
        spread = np.add.reduceat((noise - np.repeat(center, counts)) ** 2, first)
        return mean + deviation * center, deviation**2 * spread
