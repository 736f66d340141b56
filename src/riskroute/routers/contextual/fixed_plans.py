"""Fixed plans as a safety net of the contextual router: sent instead of the model's plans where they cost less.

After each order, public data and the order's own fills tell what any plan would have cost: exactly for limit orders,
and for a pool that filled the order's child in part or got at least as many shares; else the expected fill is used.
One formula scores the model's plan and a few fixed plans, so that its errors cancel. A fixed plan replaces
the model's while its discounted mean objective is lower by more than three standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import msgspec

from riskroute.core.records import NonNegative
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.public_data import PublicData
from riskroute.routers.rules import StaticSweepRule
from riskroute.routing.fees import fee_at

# fractions of the order that rest evenly in all pools, and that are posted at the quickest queue
_FRACTIONS = {"ping": (0.0, 0.0), "post": (0.0, 1.0), "rest": (1.0, 0.0), "rest and post": (0.5, 0.5)}

PoolFills = Callable[[str, bool, int], float]  # maps pool, whether shares rest, and shares sent to the shares filled


def fixed_plan(name: str, context: Context) -> Plan:
    """Return a fixed plan by name: pools are pinged with all shares that do not wait."""
    rest, post = _FRACTIONS[name]
    pools = [pool.name for pool in context.pools]
    return StaticSweepRule(pools=pools, rest=rest, post=post).decide(context)


def plan_outcome(plan: Plan, public: PublicData, fills: PoolFills) -> float:
    """Return the cost of a plan in basis points, from public data and the fills of pools."""
    context, horizon = public.context, public.at_horizon
    assert horizon is not None
    bid, ask = context.books.touch
    prices = {pool.name: pool.fee - pool.improvement * (ask - bid) / 2 for pool in context.pools}
    move = context.sign * (horizon.mid - context.mid)
    cost, late = 0.0, 0.0
    free: float = context.shares if plan.before else context.shares - plan.sent
    for pool, most in plan.dark.items():
        got = fills(pool, False, int(min(most, free)))
        cost, free = cost + got * prices[pool], free - got
    take, rest, limit = plan.within(int(free)) if plan.before else (plan.take, plan.dark_rest, plan.limit)
    if plan.before:
        free -= sum(sum(held.values()) for held in (take, rest, limit))
    for pool, sent in rest.items():
        got = fills(pool, True, sent)
        cost, late = cost + got * (prices[pool] + move / 2), late + sent - got  # on average filled at half the move
    for venue, sent in limit.items():
        queue = public.queues.get(venue)
        if queue is not None:
            got = queue.filled(sent)
            fee = float(fee_at(context.books.makers[context.books.venues.index(venue)], queue.price))
            cost += got * (fee + context.sign * (queue.price - context.mid))
            sent -= got
        late += sent
    cost += float(context.displayed.costs(max(free, 0.0))) + late * horizon.sweep
    return cost * 1e4 / (context.shares * context.value_price)


@dataclass
class FixedPlans:
    """Comparison of the model's plans with fixed plans and with their forecasts, for orders of one class.

    Examples
    --------
    >>> fixed = FixedPlans()
    >>> for number in range(200):
    ...     fixed.learn(1.0 + number % 2, {"post": 0.5}, sweep=2.0, kappa=0.0)
    >>> fixed.better
    'post'
    """

    memory: ClassVar[float] = 0.998  # discount factor per order
    least: ClassVar[float] = 50.0  # orders before a fixed plan may replace the model's
    errors: ClassVar[float] = 3.0  # standard errors by which a fixed plan must be better
    # by fixed plan: discounted number of orders, sum and sum of squares of the model's objective less its own
    gaps: dict[str, Annotated[list[float], msgspec.Meta(min_length=3, max_length=3)]] = field(default_factory=dict)
    saved: float = 0.0  # mean saving of the model's plans against a sweep, in basis points
    swept: float = 0.0  # mean cost of a sweep, in basis points
    predicted: NonNegative = 0.0  # discounted sum of predicted variances, in squared basis points
    realised: NonNegative = 0.0  # discounted sum of squared forecast errors
    forecasts: NonNegative = 0.0  # discounted number of forecasts

    def price(self, kappa: float, sweep: float) -> float:
        """Return the charge per predicted variance for an order that costs ``sweep`` basis points to sweep.

        Predicted variances are corrected by the ratio of squared forecast errors to them, with a prior ratio of 1 worth
        20 orders. Savings that differ from their mean are part of the unforeseen variance too: they count by the slope
        of mean plus charge, if savings are proportional to the cost of a sweep.
        """
        prior = 20 * self.predicted / self.forecasts if self.forecasts else 1.0
        ratio = (self.realised + prior) / (self.predicted + prior) if self.predicted + prior > 0 else 1.0
        more = self.saved * (sweep / self.swept - 1) if self.swept > 0 else 0.0
        return kappa * min(max(ratio, 0.5), 4.0) / min(max(1 - 2 * kappa * more, 0.25), 2.0)

    def learn_forecast(self, error: float, variance: float) -> None:
        """Learn from a forecast's error in basis points, and its variance in squared basis points."""
        self.predicted = self.memory * self.predicted + variance
        self.realised = self.memory * self.realised + error * error
        self.forecasts = self.memory * self.forecasts + 1

    @property
    def better(self) -> str | None:
        """The fixed plan to send instead of the model's; None if none is clearly better."""
        leads = {}
        for name, (count, total, squares) in self.gaps.items():
            mean = total / count
            error = math.sqrt(max(squares / count - mean * mean, 0.0) / count)
            if count >= self.least and mean > self.errors * error:
                leads[name] = mean
        return max(leads, key=lambda name: leads[name], default=None)

    def learn(self, ours: float, fixed: Mapping[str, float], *, sweep: float, kappa: float) -> None:
        """Compare the costs of the model's plan and of fixed plans; ``sweep`` is the cost of a sweep at arrival."""

        def objective(cost: float) -> float:
            return cost + kappa * (sweep - cost - self.saved) ** 2

        for name, cost in fixed.items():
            gap = objective(ours) - objective(cost)
            before = self.gaps.get(name, [0.0, 0.0, 0.0])
            self.gaps[name] = [self.memory * old + new for old, new in zip(before, (1.0, gap, gap * gap), strict=True)]
        step = max(0.02, 1 / (1 + self.forecasts))
        self.saved += step * (sweep - ours - self.saved)
        self.swept += step * (sweep - self.swept)

    @staticmethod
    def names(context: Context) -> list[str]:
        """Return the fixed plans that an order can follow."""
        return [name for name, (rest, _) in _FRACTIONS.items() if context.pools or not rest]
