"""Lagrange multiplier that caps the contextual router's expected shortfall at the benchmark rule's.

Let ``t`` be the level that 5 % of the best simple rule's orders exceed. The expected shortfall of any plan is
at most ``t + E(cost - t)+ / 0.05``, with equality for the rule. Plans whose mean excess over ``t`` is no larger than
the rule's therefore have no larger expected shortfall. The excess is charged, and the multiplier rises until the
constraint holds. The guard uses the level that 4 % of the rule's orders exceed: where all pool fills cost the same, the
5 % level may lie just below that cost, and every fill would be charged.

The predicted excess comes from a fill model, which may be wrong in the tail. The guard therefore compares it with
realised excess, for the router's plans and for the rule's limit order with its public outcome, and corrects later
predictions by the ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from riskroute.core.records import NonNegative, Positive

SHORTFALL_LEVEL = 0.05  # worst fraction of orders that the expected shortfall averages
_MEMORY = 0.998  # discount factor of the sums, per update


@dataclass
class _TailCorrection:
    """Discounted sums of predicted and realised excess, and discounted numbers of their terms."""

    predicted: NonNegative = 0.0
    predictions: NonNegative = 0.0
    realised: NonNegative = 0.0
    outcomes: NonNegative = 0.0

    def add_predicted(self, excess: float) -> None:
        """Discount all sums, then add a predicted excess."""
        self.predicted = _MEMORY * self.predicted + excess
        self.predictions = _MEMORY * self.predictions + 1
        self.realised *= _MEMORY
        self.outcomes *= _MEMORY

    def add_realised(self, excess: float) -> None:
        """Add a realised excess."""
        self.realised += excess
        self.outcomes += 1

    def ratio(self, prior: float) -> float:
        """Return realised over predicted excess, shrunk towards 1 by adding ``prior`` basis points to both."""
        predicted = self.outcomes * self.predicted / self.predictions + prior if self.predictions else 0.0
        return (self.realised + prior) / predicted if predicted > 0 else 1.0


@dataclass
class TailGuard:
    """Multiplier on tail cost for orders of one class."""

    update_every: ClassVar[int] = 4  # orders between updates
    exceedance: ClassVar[float] = 0.04  # fraction of the rule's orders that exceed the level
    settling: ClassVar[int] = 25  # first updates, in which the level follows the quantiles of single orders
    price: Positive = 0.3  # multiplier: dollars charged per dollar of expected shortfall
    level: float = 2.0  # basis points that 4 % of the simple rule's orders exceed
    gap: float = 0.0  # smoothed expected shortfall of plans minus the rule's, in basis points
    updates: NonNegative = 0.0  # number of updates
    plans: _TailCorrection = field(default_factory=_TailCorrection)  # for the router's plans
    posted: _TailCorrection = field(default_factory=_TailCorrection)  # for the rule's limit order

    @property
    def charge(self) -> float:
        """Dollars charged per dollar of excess over the level."""
        return self.price / SHORTFALL_LEVEL

    def update(self, plan: float, rule: float, *, chance: float, mid_sd: float, posted: float | None = None) -> None:
        """Update multiplier and level after a decision; all amounts are in basis points.

        ``plan``, ``rule`` and ``posted`` are the predicted excess of the plan, of the simple rule, and of the rule's
        limit order without pinging pools first (None if the rule posts nothing). ``chance`` is the probability that
        the rule exceeds the level, ``mid_sd`` the standard deviation of the mid until the horizon.
        """
        prior = 100.0 * rule  # trust the fill model as much as 100 orders
        ours = plan * self.plans.ratio(prior)
        allowed = rule if posted is None else rule * self.posted.ratio(prior)
        self.gap = 0.95 * self.gap + (1 - 0.95) * (ours - allowed) / SHORTFALL_LEVEL
        # dual ascent in the logarithm: 3 % per basis point of gap, at most 10 % per update
        step = min(max(0.03 * self.gap, -0.1), 0.1)
        # above 1 the charge, a sum over children, overstates the plan's tail too much
        self.price = min(max(self.price * math.exp(step), 1e-3), 1.0)
        # stochastic approximation of the quantile, with steps that halve after 25 updates and do not vanish
        self.level += max(0.3 / (1 + self.updates / 25), 0.03) * mid_sd * (chance - self.exceedance)
        self.updates += 1
        self.plans.add_predicted(plan)
        if posted is not None:
            self.posted.add_predicted(posted)

    def learn_plan(self, cost: float) -> None:
        """Record the realised cost of an order, in basis points."""
        self.plans.add_realised(max(cost - self.level, 0.0))

    def learn_posted(self, cost: float) -> None:
        """Record the counterfactual cost of the rule's limit order, in basis points."""
        self.posted.add_realised(max(cost - self.level, 0.0))
