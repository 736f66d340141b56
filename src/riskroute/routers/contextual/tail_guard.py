"""What keeps the tails of a contextual router in bounds: the price of what plans cost beyond a level.

Let ``t`` be what the best simple rule exceeds with 5 % of its orders. The expected shortfall of any plan is at most
``t + E(cost - t)+ / 0.05``, and that of the rule is just that. So plans that cost no more beyond the level than the
rule, on average over orders, have no worse an expected shortfall. What they cost beyond it is charged, and the price
rises until that holds. The level that is used is one that 4 % of the rule's orders exceed: where fills in pools all
cost the same, the other one may lie just below that cost, and all of them would be charged.

What is expected beyond the level comes from a law of fills, which may be off where it matters most. So what came of
plans is counted beside what was expected of them, and the same for the rule's limit order, whose outcome is public; the
ratios correct what is expected next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from riskroute.core.validation import real_number
from riskroute.routers.contextual.tails import SHORTFALL

EVERY = 4
"""Orders between two looks at tails."""

EXCEEDED = 0.04
"""How often the rule exceeds the level."""

_STEP, _MOST_STEP = 0.03, 0.1  # relative change of the price for an excess of a basis point, and the largest
_LEVEL_STEP, _LEAST_STEP = 0.3, 0.03  # deviations of the mid by which a level rises that is always exceeded: at first
_SETTLING = 25  # looks after which steps of the level are half as long
_SMOOTH = 0.95
_MEMORY = 0.998  # how much of what was counted is kept from one look to the next
_PRIOR = 100.0  # orders that the law of fills is worth
_LEAST_PRICE, _MOST_PRICE = 1e-3, 1.0  # beyond it, the sum over children that is charged overstates tails too much


@dataclass
class Calibration:
    """What was expected beside what came, in sums that fade, and how many each is the sum of.

    Examples
    --------
    >>> tails = Calibration()
    >>> tails.expect(0.1)
    >>> for _ in range(100):
    ...     tails.learn(0.2)
    >>> round(tails.ratio(prior=10.0), 2)
    1.5
    """

    expected: float = 0.0
    looks: float = 0.0
    came: float = 0.0
    outcomes: float = 0.0

    def expect(self, value: float) -> None:
        """Count something expected; what was counted before fades."""
        self.expected = _MEMORY * self.expected + value
        self.looks = _MEMORY * self.looks + 1
        self.came *= _MEMORY
        self.outcomes *= _MEMORY

    def learn(self, value: float) -> None:
        """Count something that came."""
        self.came += value
        self.outcomes += 1

    def ratio(self, prior: float) -> float:
        """What came over what was expected; 1 before anything came, and near it as long as that is below ``prior``."""
        expected = self.outcomes * self.expected / self.looks + prior if self.looks else 0.0
        return (self.came + prior) / expected if expected > 0 else 1.0

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild what was counted of a saved state."""
        return cls(**{name: real_number(name, value, minimum=0) for name, value in state.items()})


@dataclass
class TailGuard:
    """The price of tails for orders of one kind.

    Parameters
    ----------
    price : float
        Dollars charged for a dollar of expected shortfall.
    level : float
        Basis points that one order in 25 of the simple rule costs more than.
    excess : float
        By how much the expected shortfall of plans exceeded the rule's of late, in basis points.
    looks : float
        How often tails were looked at.
    plans, posted : Calibration
        Basis points beyond the level that plans, and orders posted as by the rule, cost.

    Examples
    --------
    A plan that is as risky as the rule leaves the price as it is; one that is riskier raises it:

    >>> guard = TailGuard()
    >>> guard.look(0.1, 0.1, chance=0.04, move=3.0)
    >>> guard.price
    0.3
    >>> guard.look(0.5, 0.1, chance=0.04, move=3.0)
    >>> round(guard.price, 4), guard.level
    (0.3036, 2.0)
    """

    price: float = 0.3
    level: float = 2.0
    excess: float = 0.0
    looks: float = 0.0
    plans: Calibration = field(default_factory=Calibration)
    posted: Calibration = field(default_factory=Calibration)

    @property
    def charge(self) -> float:
        """What a dollar beyond the level is charged."""
        return self.price / SHORTFALL

    def look(
        self, plan: float, rule: float, *, chance: float, move: float, posted: float | None = None, room: float = 0.0
    ) -> None:
        """Raise or lower the price by how far a plan is from what is allowed.

        Parameters
        ----------
        plan, rule : float
            Basis points that the plan, and the simple rule, are expected to cost beyond the level.
        chance : float
            How likely the rule exceeds the level.
        move : float
            The deviation of the mid until the horizon, in basis points.
        posted : float, optional
            What an order posted as by the rule, without trying pools before, is expected to cost beyond the level; None
            if the rule posts nothing.
        room : float
            Basis points by which the expected shortfall may exceed the rule's.
        """
        prior = _PRIOR * rule
        ours = plan * self.plans.ratio(prior)
        allowed = rule if posted is None else rule * self.posted.ratio(prior)
        self.excess = _SMOOTH * self.excess + (1 - _SMOOTH) * ((ours - allowed) / SHORTFALL - room)
        step = min(max(_STEP * self.excess, -_MOST_STEP), _MOST_STEP)
        self.price = min(max(self.price * math.exp(step), _LEAST_PRICE), _MOST_PRICE)
        rise = max(_LEVEL_STEP / (1 + self.looks / _SETTLING), _LEAST_STEP)
        self.level += rise * move * (chance - EXCEEDED)
        self.looks += 1
        self.plans.expect(plan)
        if posted is not None:
            self.posted.expect(posted)

    def learn_plan(self, cost: float) -> None:
        """Count what an order cost, in basis points."""
        self.plans.learn(max(cost - self.level, 0.0))

    def learn_posted(self, cost: float) -> None:
        """Count what an order would have cost, posted as by the rule, without trying pools before."""
        self.posted.learn(max(cost - self.level, 0.0))

    def state(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return asdict(self)

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild the guard of a saved state."""
        plans, posted = (Calibration.restore(state[name]) for name in ("plans", "posted"))
        price, looks = real_number("price", state["price"], above=0), real_number("looks", state["looks"], minimum=0)
        level, excess = (real_number(name, state[name]) for name in ("level", "excess"))
        return cls(price, level, excess, looks, plans, posted)
