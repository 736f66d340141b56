"""RiskExpExp: explore all arms round-robin, then commit (Sani, Lazaric and Munos 2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskroute.core.errors import StateError
from riskroute.core.validation import parameter, valid_magnitude
from riskroute.learning.actions import Action
from riskroute.learning.plan import Plan
from riskroute.learning.policies.arm_policy import ArmPolicy
from riskroute.learning.policy import memory
from riskroute.learning.state_checks import check_state_member
from riskroute.learning.tally import Tallies


@dataclass(kw_only=True)
class RiskExpExp(ArmPolicy):
    """Explore-then-commit: plays all arms round-robin for ``K (T / divisor)^(2/3)`` rounds, then the empirical best.

    If exploration exceeds the horizon, the policy explores to the end.

    Examples
    --------
    >>> import riskroute as rr
    >>> policy = RiskExpExp().start(rr.Setting(actions=rr.Actions([[1.0, 0.0], [0.0, 1.0]]), horizon=1000))
    >>> policy.plan().rounds, policy.plan().actions[:4].tolist()  # 2 (1000 / 14)^(2/3) = 34.4 rounds
    (35, [0, 1, 0, 1])

    References
    ----------
    Sani, Lazaric and Munos (2012), `Risk-Aversion in Multi-armed Bandits
    <https://papers.nips.cc/paper/4753-risk-aversion-in-multi-armed-bandits>`_.
    """

    name: ClassVar[str] = "risk-exp-exp"
    unit_free: ClassVar[bool] = True

    divisor: float = parameter(14.0, valid_magnitude, above=0)

    committed: Action | None = memory(None, check_state_member)

    def explore_rounds(self) -> int:
        """Return the number of exploration rounds; it may exceed the horizon."""
        per_arm: float = (self.horizon / self.divisor) ** (2 / 3)
        return math.ceil(len(self.handles) * per_arm - 1e-9)

    def propose(self) -> Plan:
        left = min(self.explore_rounds() - self.played, self.remaining)
        if left > 0:
            turns = max(4096 // len(self.handles), 1)  # limits a plan to 4096 rounds, or one per arm, to save memory
            played = np.concatenate([self.handles] * turns)[:left]
            return Plan(played, np.ones(len(played), dtype=np.int64))
        return Plan.repeat(self.recommend(), self.remaining)

    def observe(self, tallies: Tallies) -> None:
        super().observe(tallies)
        if self.committed is None and (self.played >= self.explore_rounds() or self.remaining == 0):
            self.committed = self.arm(np.argmin(self.mean_variances()))

    def recommend(self) -> Action:
        if self.committed is None:
            raise StateError("risk-exp-exp is still exploring and cannot recommend an action yet")
        return self.committed
