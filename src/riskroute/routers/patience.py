"""How much of an order to do now and how much to let wait where: the planning behind the contextual routers.

Costs and variances of waiting come as tables, one row per place where shares can wait; what is done now costs what the
books display, less what pools are expected to fill when they are tried first. All waiting shares are exposed to the
same move of the mid, which depends on their total alone, so that the best plan is found exactly by
`riskroute.routing.group_search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Floats, Matrix, Units
from riskroute.core.cached import cached
from riskroute.routers.patience_compiled import (
    best_plan_compiled,
    in_turn_compiled,
    outlook_compiled,
)


@dataclass(frozen=True, eq=False)
class PoolSequence:
    """Pools that are tried one after the other before anything else is done.

    Parameters
    ----------
    pools : tuple[str, ...]
        In the order in which they are tried.
    found : Floats
        Shares that they are expected to fill together of orders of ``shares``, ``(U + 1,)``.
    nothing : float
        Probability that none of them holds anything.
    price : float
        What a filled share costs, in dollars against the arrival mid.
    """

    pools: tuple[str, ...]
    found: Floats
    nothing: float
    price: float

    @cached
    def found_if_any(self) -> Floats:
        """Shares filled if any are, ``(U + 1,)``."""
        return self.found / max(1 - self.nothing, 1e-9)


NO_POOLS = PoolSequence((), np.zeros(1), 1.0, 0.0)
"""Nothing to try."""


@dataclass(frozen=True)
class PlanForecast:
    """Expected cost of a plan in dollars, and its variance in squared dollars.

    Parameters
    ----------
    cost, variance : float
        Altogether.
    unlucky, unlucky_variance : float
        If pools that are tried hold nothing, which has the probability ``nothing``.
    lucky, lucky_variance : float
        If they hold something.
    nothing : float
        1 if none is tried.
    """

    cost: float
    variance: float
    unlucky: float
    unlucky_variance: float
    lucky: float
    lucky_variance: float
    nothing: float

    def objective(self, price: float) -> float:
        """Cost plus ``price`` dollars for every squared dollar."""
        return self.cost + price * self.variance


@dataclass(frozen=True, eq=False)
class WaitOrTrade:
    """An order and what can be done with it.

    Parameters
    ----------
    shares : Floats
        Shares of 0, 1 .. U units, ``(U + 1,)``; the last unit may be smaller.
    sweep : Floats
        What sweeping so many shares now costs, ``(U + 1,)``.
    cost, variance : Matrix
        Of so many shares that wait at each place, ``(m, U + 1)``, in dollars and squared dollars.
    common : float
        Squared dollars of variance that all waiting shares have in common, per squared share.
    tried : PoolSequence
        Pools that can be tried first.
    """

    shares: Floats
    sweep: Floats
    cost: Matrix
    variance: Matrix
    common: float
    tried: PoolSequence

    @property
    def units(self) -> int:
        """Units of the whole order."""
        return len(self.shares) - 1

    def plan(self, price: float) -> UnitPlan:
        """Return the plan of the least cost plus ``price`` times variance."""
        units, before = best_plan_compiled(*self._tables, price)
        return UnitPlan(units, bool(before))

    def outlook(self, plan: UnitPlan) -> PlanForecast:
        """Return what a plan is expected to cost, and how sure that is."""
        return PlanForecast(*outlook_compiled(*self._tables, plan.units, plan.before))

    @cached
    def _tables(self) -> _Tables:
        tried = self.tried
        return (
            *(self.shares, self.sweep, self.cost, self.variance, self.common),
            *(tried.found_if_any, tried.nothing, tried.price, bool(tried.pools)),
        )


@dataclass(frozen=True, eq=False)
class UnitPlan:
    """Units that wait at each place, ``(m,)``, and whether pools are tried with the whole order before."""

    units: Units
    before: bool


_Tables = tuple[Floats, Floats, Matrix, Matrix, float, Floats, float, float, bool]


def try_in_turn(
    pools: Sequence[str], found: Matrix, prices: Floats, sweep: float, least: float, shares: Floats
) -> PoolSequence:
    """Return which pools are worth trying one after the other, and what they find together.

    Parameters
    ----------
    pools : Sequence[str]
        Their names, in the order in which they are tried.
    found : Matrix
        Shares that each would fill of orders of ``shares``, ``(J, U + 1)``.
    prices : Floats
        What a share costs in each, ``(J,)``.
    sweep, least : float
        What a share costs otherwise, and dollars that trying a pool must save.
    """
    worth, together, nothing, price = in_turn_compiled(found, prices, sweep, least, shares)
    names = tuple(name for name, some in zip(pools, worth.tolist(), strict=True) if some)
    return PoolSequence(names, together, nothing, price) if names else NO_POOLS
