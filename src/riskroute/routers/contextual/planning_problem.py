"""The order of a contextual router on its desk: tables of what can be done with it, and plans as child orders."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from riskroute.core.arrays import Floats, Matrix, Units
from riskroute.core.errors import StateError
from riskroute.core.runtime import cached
from riskroute.routers.context import Context
from riskroute.routers.contextual.dark_belief import DarkBelief
from riskroute.routers.contextual.lit_belief import LitBelief
from riskroute.routers.contextual.market_features import MarketFeatures, market_features
from riskroute.routers.contextual.tails import limit_beyond_compiled, plan_beyond_compiled
from riskroute.routers.contextual.wait_or_trade import (
    NO_POOLS,
    UnitPlan,
    WaitOrTrade,
    plan_under_draw_compiled,
    resting_tables_compiled,
    try_in_turn,
)
from riskroute.routers.plan import Plan
from riskroute.routers.router import unit_shares
from riskroute.routers.rules import quickest_venue

_BISECTIONS = 20


class PlanningProblem:
    """An order on its books, before what a router believes of its symbol.

    Parameters
    ----------
    context : Context
        The order.
    lit, dark : LitBelief, DarkBelief
        What is believed of venues and pools.
    units : int
        Parts at most into which the order is cut.
    leak : float
        Probability per 1,000 shares sent to a pool that the best price fades.
    weight, level : float
        Dollars charged for a dollar beyond a level, in basis points.
    """

    def __init__(
        self,
        context: Context,
        lit: LitBelief,
        dark: DarkBelief,
        units: int,
        leak: float,
        weight: float = 0.0,
        level: float = 0.0,
    ) -> None:
        self.context, self.dark, self.weight = context, dark, weight
        self.unit, self.shares = _parts(context.shares, context.lot, units)
        self.sweep: Floats = context.displayed.costs(self.shares)
        self.moment: MarketFeatures = market_features(context, float(self.sweep[-1]) / context.shares)
        self.per_bp = 1e4 / (context.shares * context.mid)
        self.level = level / 1e4 * context.mid
        """The level, in dollars a share."""
        self.leaking = leak * context.shares**2 / 1000 * context.tick
        """Dollars that a leak costs, on average."""
        half = self.moment.half_spread
        prices = {pool.name: pool.fee - pool.improvement * half for pool in context.pools}
        ranked = sorted(prices, key=lambda name: prices[name])
        self.pools = [name for name in ranked if prices[name] < self.moment.sweep]
        self.prices = np.array([prices[name] for name in self.pools])
        self.empty = np.zeros((0, len(self.shares)))
        horizons = (0.0, context.horizon) if context.horizon > 0 else (0.0,)
        self.uses = [(pool, horizon) for horizon in horizons for pool in self.pools]
        self.places: list[tuple[str, str]] = []
        self.notes: dict[str, float] = {}
        self.wait = lit.waiting(context, self.moment, self.shares) if context.horizon > 0 else None
        if self.wait is not None:
            self.notes["later"] = self.wait.later
            there = np.flatnonzero(self.wait.there)
            self.lit_cost, self.lit_variance = self.wait.cost[there], self.wait.variance[there]
            self.law = self.wait.law[there]
            names = context.books.venues
            self.places = [("limit", names[v]) for v in there] + [("dark_rest", pool) for pool in self.pools]
            self.extra = half * np.array([max(self.dark.adverse_selection(pool), 0.0) for pool in self.pools])

    def patience(self, hazards: Matrix | None, *, charged: bool = True) -> WaitOrTrade:
        """What can be done with the order, as expected or if pools hold what was drawn; tails ``charged`` or not."""
        weight = self.weight if charged else 0.0
        wait, shares, pools = self.wait, self.shares, len(self.pools)
        found, spread = self.dark.moments(self.uses, shares, hazards) if pools else (self.empty, self.empty)
        tried = NO_POOLS
        if pools:
            tried = try_in_turn(self.pools, found[:pools], self.prices, self.moment.sweep, self.leaking, shares)
        if wait is None:
            return WaitOrTrade(shares, self.sweep, self.empty, self.empty, 0.0, tried)
        cost, sweep, level = self.lit_cost, self.sweep, self.level
        if weight > 0:
            cost = cost + weight * limit_beyond_compiled(self.law, wait.slopes, wait.later, wait.move, shares, level)
            sweep = sweep + weight * np.maximum(sweep - level * shares, 0.0)
        tables = resting_tables_compiled(
            cost,
            self.lit_variance,
            found[pools:],
            spread[pools:],
            self.prices,
            wait.later,
            self.extra,
            wait.common,
            shares,
            wait.move,
            weight,
            level,
        )
        return WaitOrTrade(shares, sweep, *tables, wait.common, tried)

    @cached
    def mean(self) -> WaitOrTrade:
        """What can be done with the order, as expected."""
        return self.patience(None)

    @cached
    def plain(self) -> WaitOrTrade:
        """The same without what is charged for tails."""
        return self.patience(None, charged=False)

    def plan_under_draw(
        self, drawn: tuple[Matrix, Matrix], price: float, allowance: float
    ) -> tuple[UnitPlan, tuple[str, ...]]:
        """Return the plan that is best if pools hold what was drawn, and the pools to try.

        Parameters
        ----------
        drawn : tuple[Matrix, Matrix]
            Mean and variance of the shares that children would find under the draw, as of `DarkBelief.moments`.
        price, allowance : float
            The price of variance, and dollars by which the plan may seem worse than the one that is best as expected;
            else that one is returned.
        """
        wait = self.wait
        if wait is None or not self.pools:
            return self.mean.plan(price), self.mean.tried.pools
        found, spread = self.dark.moments(self.uses, self.shares)
        units, before, worth = plan_under_draw_compiled(
            self.shares,
            self.sweep,
            self.lit_cost,
            self.lit_variance,
            wait.common,
            wait.later,
            self.extra,
            self.prices,
            self.moment.sweep,
            self.leaking,
            found,
            spread,
            drawn[0],
            drawn[1],
            price,
            allowance,
            self.law,
            wait.slopes,
            wait.move,
            self.weight,
            self.level,
        )
        pools = tuple(name for name, some in zip(self.pools, worth.tolist(), strict=True) if some)
        return UnitPlan(units, bool(before)), pools

    def beyond(self, plan: UnitPlan, level: float) -> tuple[float, float]:
        """How likely a plan is believed to cost more than a level, and how much more on average, in basis points."""
        wait, tried = self.wait, self.plain.tried
        if wait is None:
            raise StateError("an order without time has no plan that waits")
        found = self.dark.moments(self.uses, self.shares)[0][len(self.pools) :] if self.pools else self.empty
        chance, more = plan_beyond_compiled(
            self.shares,
            self.sweep,
            plan.units,
            plan.before,
            tried.found_if_any,
            tried.nothing,
            tried.price,
            bool(tried.pools),
            self.law,
            wait.slopes,
            found,
            self.prices,
            wait.later,
            wait.move,
            level / self.per_bp,
        )
        return chance, more * self.per_bp

    def level_exceeded(self, plan: UnitPlan, chance: float) -> float:
        """Basis points that a plan is believed to cost more than with some chance, by bisection."""
        low = -(high := 100 * max(self.move_bps, 1.0))
        for _ in range(_BISECTIONS):
            level = (low + high) / 2
            low, high = (level, high) if self.beyond(plan, level)[0] > chance else (low, level)
        return high

    @property
    def move_bps(self) -> float:
        """The deviation of the mid until the horizon, in basis points."""
        return 0.0 if self.wait is None else self.wait.move * self.per_bp * self.context.shares

    def simple_rule(self, price: float) -> UnitPlan:
        """Return the simple rule that seems best at a price of variance: a router must not be riskier than that."""
        plain = self.plain
        return min(self._simple_rules(plain.units), key=lambda rule: plain.outlook(rule).objective(price))

    def _simple_rules(self, units: int) -> list[UnitPlan]:
        nothing = np.zeros(len(self.places), dtype=np.int64)
        rules = [UnitPlan(nothing, before=True)]
        venue = quickest_venue(self.context)
        if ("limit", venue) in self.places:
            posted = nothing.copy()
            posted[self.places.index(("limit", venue))] = units
            rules.append(UnitPlan(posted, before=True))
        resting = [place for place, (kind, _) in enumerate(self.places) if kind == "dark_rest"]
        if resting:
            even = nothing.copy()
            even[resting] = units // len(resting)
            even[resting[0]] += units - int(even.sum())
            rules.append(UnitPlan(even, before=False))
        return rules

    @staticmethod
    def posted_by_rule(rule: UnitPlan) -> UnitPlan | None:
        """Return what a simple rule posts, without trying pools before; None if it posts nothing."""
        return UnitPlan(rule.units, before=False) if rule.before and rule.units.any() else None

    def plan(self, chosen: UnitPlan, tried: tuple[str, ...]) -> Plan:
        """Return the child orders of a plan that tries some pools, if it has anything to try them with."""
        context = self.context
        sent = _shares(chosen.units, self.unit, context.shares)
        held: dict[str, dict[str, int]] = {"limit": {}, "dark_rest": {}}
        for (kind, place), shares in zip(self.places, sent, strict=True):
            if shares:
                held[kind][place] = shares
        now = context.shares - sum(sent)
        pools = tried if now or chosen.before else ()
        return Plan(
            context.order,
            dark=dict.fromkeys(pools, context.shares),
            in_turn=True,
            before=chosen.before and bool(pools),
            dark_rest=held["dark_rest"],
            limit=held["limit"],
        )


@lru_cache(maxsize=64)
def _parts(shares: int, lot: int, units: int) -> tuple[int, Floats]:
    """Shares of a unit, and of 0, 1 .. units of an order; the last unit may be smaller. Nobody changes the array."""
    unit = unit_shares(shares, lot, units)
    return unit, np.minimum(np.arange(-(-shares // unit) + 1.0) * unit, shares)


def _shares(units: Units, unit: int, shares: int) -> list[int]:
    """Shares of units; the last unit of an order may be smaller."""
    sent, left = [], shares
    for count in units.tolist():
        sent.append(min(count * unit, left))
        left -= sent[-1]
    return sent
