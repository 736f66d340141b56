"""Information-directed sampling: a plan is worth a worse outlook if it teaches enough about dark pools."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskroute.core.parameters import parameter
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import real_number, whole_number
from riskroute.routers.contextual import Contextual
from riskroute.routers.contextual_desk import PlanningProblem
from riskroute.routers.patience import UnitPlan, WaitOrTrade


@dataclass
class ContextualIds(Contextual):
    """Send the plan with the least squared regret per information, if what it teaches is worth it.

    Candidates are the plan that seems best, the best plans under some draws of what pools hold, and the first with
    twice and half as many shares resting in pools. The regret of a candidate is how much worse it is than the best one,
    on average over the draws; its information is how much the beliefs about the pools it uses would narrow.

    Parameters
    ----------
    draws : int
        Draws of what pools hold.
    orders_left : float
        Orders that will profit from what is learned. The plan that seems best is sent unless they are expected to gain
        more from another one than it costs now.

    References
    ----------
    J. Kirschner, A. Krause, "Information directed sampling and bandits with heteroscedastic noise" (2018),
    https://arxiv.org/abs/1801.09667

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}}}
    >>> ContextualIds().route(read_context(books, side="sell", shares=300)).dark
    {'P': 300}
    """

    name: ClassVar[str] = "contextual-ids"
    draws: int = parameter(8, whole_number, maximum=1000)
    orders_left: float = parameter(1000.0, real_number, minimum=0)

    def choose(self, desk: PlanningProblem, price: float) -> tuple[UnitPlan, tuple[str, ...]]:
        mean = desk.mean
        best, pools = mean.plan(price), mean.tried.pools
        if not desk.pools or not desk.places:
            return best, pools
        rng = np.random.default_rng(seed_stream(self.seed, self.name, desk.context.symbol, self.routed))
        worlds = [desk.patience(desk.dark.draw(desk.uses, rng)) for _ in range(self.draws)]
        candidates = [best, *(world.plan(price) for world in worlds), *_neighbours(desk, best, mean.units)]
        losses = np.array([[world.outlook(one).objective(price) for one in candidates] for world in worlds])
        regrets = (losses - losses.min(axis=1, keepdims=True)).mean(axis=0) * desk.per_bp
        known = mean.outlook(best).objective(price)
        allowed = [known + self.budget / desk.per_bp >= mean.outlook(one).objective(price) for one in candidates]
        learned = np.array([self.information(desk, mean, one) for one in candidates])
        ratio = np.where(allowed, regrets**2 / np.maximum(learned, 1e-12), np.inf)
        chosen = int(np.argmin(ratio))
        saved = float(regrets[0]) * (1 - math.exp(-learned[chosen]))  # regret that what it teaches would take away
        worth = self.orders_left * saved > regrets[chosen] - regrets[0]
        return (candidates[chosen] if worth else best), pools

    def information(self, desk: PlanningProblem, mean: WaitOrTrade, plan: UnitPlan) -> float:
        """Return how much a plan would narrow the beliefs about the pools it uses, in nats, about."""
        total = 0.0
        for (kind, pool), units in zip(desk.places, plan.units.tolist(), strict=True):
            if kind == "dark_rest" and units:
                shares = float(mean.shares[units])
                total += desk.dark.information(pool, desk.context.horizon, shares)
        now = desk.context.shares - float(mean.shares[plan.units].sum())
        tried = desk.context.shares if plan.before else now
        if tried > 0:
            total += sum(desk.dark.information(pool, 0.0, tried) for pool in mean.tried.pools)
        return total


def _neighbours(desk: PlanningProblem, plan: UnitPlan, units: int) -> list[UnitPlan]:
    """The same plan with each resting child half and twice as large, as far as there are shares."""
    found = []
    for place, (kind, _) in enumerate(desk.places):
        if kind == "dark_rest":
            for count in {int(plan.units[place]) // 2, 2 * int(plan.units[place]) or 1}:
                other = plan.units.copy()
                other[place] = count
                if count != plan.units[place] and other.sum() <= units:
                    found.append(UnitPlan(other, plan.before))
    return found
