"""Baselines: the oracle with the true coefficients, uniform random play, and the greedy policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskroute.core.errors import InputError, StateError
from riskroute.core.validation import parameter, real_number, valid_list, valid_magnitude, whole_number
from riskroute.learning.actions import Action, as_action
from riskroute.learning.estimation import least_squares
from riskroute.learning.plan import LONGEST_HORIZON, MOST_DRAWS, Plan
from riskroute.learning.policy import Policy, memory
from riskroute.learning.state_checks import check_state_handle, check_state_member
from riskroute.learning.tally import Tallies


@dataclass(kw_only=True)
class Oracle(Policy):
    """Policy against which regret is measured; ``schedule`` holds ``(first round, action)`` pairs, rounds from 0."""

    name: ClassVar[str] = "oracle"
    unit_free: ClassVar[bool] = True
    needs_horizon: ClassVar[bool] = False
    waits: ClassVar[bool] = False

    schedule: tuple[tuple[int, Action], ...] = ()

    def check_parameters(self) -> None:
        pairs = valid_list("schedule", self.schedule, tuple, "pairs of a first round and an action")
        if any(len(pair) != 2 or type(pair[0]) is not int for pair in pairs):
            raise InputError(f"schedule must be pairs of a first round and an action, was {self.schedule}")
        starts = [start for start, _ in pairs]
        if not starts or starts[0] != 0 or starts != sorted(set(starts)):
            raise InputError(f"schedule must start at round 0 and ascend, was {self.schedule}")
        for _, action in pairs:
            check_state_member("an action of the schedule", action, self)

    def propose(self) -> Plan:
        later = [start for start, _ in self.schedule if start > self.played]
        return Plan.repeat(self.recommend(), later[0] - self.played if later else self.remaining)

    def observe(self, tallies: Tallies) -> None:
        """Do nothing: the schedule is fixed."""

    def recommend(self) -> Action:
        now = self.played - (self.remaining == 0)
        return [action for start, action in self.schedule if start <= now][-1]


@dataclass(kw_only=True)
class Uniform(Policy):
    """Uniform random play: draws an action independently in every round."""

    name: ClassVar[str] = "uniform"
    unit_free: ClassVar[bool] = True
    needs_horizon: ClassVar[bool] = False
    waits: ClassVar[bool] = False
    fixed_set: ClassVar[bool] = False

    batch: int = parameter(1024, whole_number, maximum=MOST_DRAWS)

    latest: Action | None = memory(None, check_state_handle)

    def propose(self) -> Plan:
        drawn = self.setting.actions.sample(self.rng, min(self.batch, self.remaining))
        return Plan(drawn, np.ones(len(drawn), dtype=np.int64))

    def observe(self, tallies: Tallies) -> None:
        self.latest = as_action(tallies.actions[-1])

    def recommend(self) -> Action:
        """Return the last action played: this policy prefers none."""
        if self.latest is None:
            raise StateError("uniform has not played yet")
        return self.latest


@dataclass(kw_only=True)
class Greedy(Policy):
    """Greedy policy: plays each action of the optimal design a few times, then always the estimated best.

    Parameters
    ----------
    tries : int
        Rounds of each action of the design in the first plan.
    growth : float
        Estimates are updated when the number of rounds has grown by this fraction.
    ridge : float
        Ridge penalty of the least-squares estimates.

    Examples
    --------
    >>> Greedy(tries=3)
    Greedy(tries=3, growth=0.1, ridge=0.001, design_tolerance=0.01)

    References
    ----------
    Lattimore and Szepesvári (2020), `Bandit Algorithms <https://banditalgs.com>`_, chapter 6.
    """

    name: ClassVar[str] = "greedy"
    unit_free: ClassVar[bool] = True
    needs_horizon: ClassVar[bool] = False
    waits: ClassVar[bool] = False

    tries: int = parameter(2, whole_number, maximum=LONGEST_HORIZON)
    growth: float = parameter(0.1, valid_magnitude, above=0)
    ridge: float = parameter(1e-3, valid_magnitude, minimum=0)
    design_tolerance: float = parameter(0.01, real_number, above=0, maximum=10)

    seen: Tallies | None = memory(None)

    def propose(self) -> Plan:
        if self.seen is None:
            design = self.setting.actions.design(self.design_tolerance)
            return Plan(design.actions, np.full(len(design), self.tries, dtype=np.int64))
        return Plan.repeat(self.recommend(), math.ceil(min(self.growth * self.played, self.remaining)))

    def observe(self, tallies: Tallies) -> None:
        self.seen = (tallies if self.seen is None else self.seen.joined(tallies)).by_action()

    def recommend(self) -> Action:
        if self.seen is None:
            raise StateError("greedy has not played yet")
        setting = self.setting
        features = setting.actions.features(self.seen.actions)
        estimate = least_squares(features, self.seen, setting.base_variance, ridge=self.ridge)
        return setting.actions.best(estimate.score(setting.risk_tolerance))
