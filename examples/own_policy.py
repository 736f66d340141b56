"""Define a custom policy: epsilon-greedy, exploring with a G-optimal design.

A policy proposes plans, learns from tallies and recommends an action. Fields declared with `memory` are saved and
restored. The example runs the shared conformance checks and compares the policy with others; it need not be registered.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import riskroute as rr
from riskroute.learning.actions import as_batch
from riskroute.learning.policy import memory


@dataclass(kw_only=True)
class EpsilonGreedy(rr.Policy):
    """Explores in a fraction ``epsilon`` of the rounds, and plays the greedy action in the others."""

    name: ClassVar[str] = "epsilon-greedy"
    needs_horizon: ClassVar[bool] = False

    epsilon: float = 0.05

    seen: rr.Tallies | None = memory()

    def propose(self) -> rr.Plan:
        """Return a plan a tenth as long as the history: later estimates change less, so they need fewer refits."""
        design = self.setting.actions.design(0.05)
        if self.seen is None:
            return rr.Plan(design.actions, np.full(len(design), 2))
        rounds = self.played // 10 + 1
        explored = self.rng.multinomial(self.rng.binomial(rounds, self.epsilon), design.weights / design.weights.sum())
        actions = np.concatenate([design.actions, as_batch(self.recommend())])
        return rr.Plan(actions, np.append(explored, rounds - explored.sum()))

    def observe(self, tallies: rr.Tallies) -> None:
        self.seen = (tallies if self.seen is None else self.seen.joined(tallies)).by_action()

    def recommend(self) -> rr.Action:
        if self.seen is None:
            raise rr.StateError("epsilon-greedy has not played yet")
        features = self.setting.actions.features(self.seen.actions)
        estimate = rr.learning.least_squares(features, self.seen, self.setting.base_variance, ridge=1e-3)
        return self.setting.actions.best(estimate.score(self.setting.risk_tolerance))


if __name__ == "__main__":
    rr.check_policy(EpsilonGreedy())
    print("epsilon-greedy passes the conformance checks\n")
    policies = {f"epsilon {part:g}": EpsilonGreedy(epsilon=part) for part in (0.01, 0.1)}
    problem = rr.random_routing_problem(shares=6, slots=4, seed=0)
    print(rr.simulate(problem, policies | {"adaptive": "adaptive", "uniform": "uniform"}, horizon=20_000, runs=5))
