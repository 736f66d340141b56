"""Planning problem of one order: cost tables from the books and the router's beliefs, and plans as child orders."""

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
from riskroute.routers.contextual.tails import limit_excess, plan_excess
from riskroute.routers.contextual.wait_or_trade import (
    NO_POOLS,
    UnitPlan,
    WaitOrTrade,
    ping_in_turn,
    plan_under_draw,
    resting_tables,
)
from riskroute.routers.plan import Plan
from riskroute.routers.router import unit_shares
from riskroute.routers.rules import quickest_venue


class PlanningProblem:
    """An order with its books, and a router's beliefs about its symbol.

    The order is cut into at most ``units`` units. ``leak`` is the probability per 1,000 shares sent to a pool that the
    best price fades; ``weight`` is the price of a dollar of excess over ``level`` basis points.
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
        self.unit, self.shares = _cut(context.shares, context.lot, units)
        self.sweep: Floats = context.displayed.costs(self.shares)
        self.market: MarketFeatures = market_features(context, float(self.sweep[-1]) / context.shares)
        self.per_bp = 1e4 / (context.shares * context.mid)  # basis points per dollar of cost
        self.level = level / 1e4 * context.mid  # dollars per share
        self.leak_cost = leak * context.shares**2 / 1000 * context.tick  # expected cost of a ping's leak, dollars
        half = self.market.half_spread
        prices = {pool.name: pool.fee - pool.improvement * half for pool in context.pools}
        ranked = sorted(prices, key=lambda name: prices[name])
        self.pools = [name for name in ranked if prices[name] < self.market.sweep]
        self.prices = np.array([prices[name] for name in self.pools])
        self.no_pools = np.zeros((0, len(self.shares)))
        horizons = (0.0, context.horizon) if context.horizon > 0 else (0.0,)
        self.uses = [(pool, horizon) for horizon in horizons for pool in self.pools]
        self.places: list[tuple[str, str]] = []
        self.posting = lit.forecast(context, self.market, self.shares) if context.horizon > 0 else None
        if self.posting is not None:
            there = np.flatnonzero(self.posting.there)
            self.lit_cost, self.lit_variance = self.posting.cost[there], self.posting.variance[there]
            self.fill_model = self.posting.fill_model[there]
            names = context.books.venues
            self.places = [("limit", names[v]) for v in there] + [("dark_rest", pool) for pool in self.pools]
            # never a bonus: estimates below 0 are noise
            self.extra = half * np.array([max(self.dark.adverse_selection(pool), 0.0) for pool in self.pools])

    def tables(self, hazards: Matrix | None, *, charged: bool = True) -> WaitOrTrade:
        """Return the cost tables under the posterior mean or under drawn hazards; with or without the tail charge."""
        weight = self.weight if charged else 0.0
        posting, shares, pools = self.posting, self.shares, len(self.pools)
        fills, spread = self.dark.moments(self.uses, shares, hazards) if pools else (self.no_pools, self.no_pools)
        sequence = NO_POOLS
        if pools:
            sequence = ping_in_turn(self.pools, fills[:pools], self.prices, self.market.sweep, self.leak_cost, shares)
        if posting is None:
            return WaitOrTrade(shares, self.sweep, self.no_pools, self.no_pools, 0.0, sequence)
        cost, sweep, level = self.lit_cost, self.sweep, self.level
        if weight > 0:
            cost = cost + weight * limit_excess(
                self.fill_model, posting.slopes, posting.horizon_sweep, posting.mid_sd, shares, level
            )
            sweep = sweep + weight * np.maximum(sweep - level * shares, 0.0)
        tables = resting_tables(
            *(cost, self.lit_variance, fills[pools:], spread[pools:], self.prices, posting.horizon_sweep),
            *(self.extra, posting.common, shares, posting.mid_sd, weight, level),
        )
        return WaitOrTrade(shares, sweep, *tables, posting.common, sequence)

    @cached
    def mean(self) -> WaitOrTrade:
        """Cost tables under the posterior mean."""
        return self.tables(None)

    @cached
    def uncharged(self) -> WaitOrTrade:
        """Cost tables under the posterior mean, without the tail charge."""
        return self.tables(None, charged=False)

    def plan_under_draw(
        self, drawn: tuple[Matrix, Matrix], price: float, allowance: float
    ) -> tuple[UnitPlan, tuple[str, ...]]:
        """Return the best plan under a posterior draw, and the pools to ping.

        ``drawn`` is what `DarkBelief.moments` returns for the draw, ``price`` the price of variance. If the plan's
        objective exceeds the greedy plan's by more than ``allowance`` dollars, the greedy plan is returned.
        """
        posting = self.posting
        if posting is None or not self.pools:
            return self.mean.best_plan(price), self.mean.sequence.pools
        fills, spread = self.dark.moments(self.uses, self.shares)
        tables = (self.shares, self.sweep, self.lit_cost, self.lit_variance, posting.common, posting.horizon_sweep)
        pool_tables = (self.extra, self.prices, self.market.sweep, self.leak_cost, fills, spread, drawn[0], drawn[1])
        tails = (self.fill_model, posting.slopes, posting.mid_sd, self.weight, self.level)
        units, before, worth = plan_under_draw(*(*tables, *pool_tables, price, allowance, *tails))
        pools = tuple(name for name, some in zip(self.pools, worth.tolist(), strict=True) if some)
        return UnitPlan(units, bool(before)), pools

    def excess(self, plan: UnitPlan, level: float) -> tuple[float, float]:
        """Return the probability that a plan costs more than ``level``, and its expected excess, in basis points."""
        posting, sequence = self.posting, self.uncharged.sequence
        if posting is None:
            raise StateError("tail cost is defined for orders with a horizon only")
        resting = self.dark.moments(self.uses, self.shares)[0][len(self.pools) :] if self.pools else self.no_pools
        pinged = (sequence.fills_if_any, sequence.empty, sequence.price, bool(sequence.pools))
        waiting = (self.fill_model, posting.slopes, resting, self.prices, posting.horizon_sweep, posting.mid_sd)
        tables = (self.shares, self.sweep, plan.units, plan.before, *pinged, *waiting, level / self.per_bp)
        chance, excess = plan_excess(*tables)
        return chance, excess * self.per_bp

    def quantile_level(self, plan: UnitPlan, chance: float) -> float:
        """Return the basis points that a plan's cost exceeds with probability ``chance``, by bisection."""
        low = -(high := 100 * max(self.mid_sd_bps, 1.0))
        for _ in range(20):
            level = (low + high) / 2
            low, high = (level, high) if self.excess(plan, level)[0] > chance else (low, level)
        return high

    @property
    def mid_sd_bps(self) -> float:
        """Standard deviation of the mid until the horizon, in basis points."""
        return 0.0 if self.posting is None else self.posting.mid_sd * self.per_bp * self.context.shares

    def simple_rule(self, price: float) -> UnitPlan:
        """Return the best simple rule at a price of variance; the tail guard uses it as benchmark."""
        tables = self.uncharged
        return min(self._simple_rules(tables.units), key=lambda rule: tables.forecast(rule).objective(price))

    def _simple_rules(self, units: int) -> list[UnitPlan]:
        """Return dark-first+sweep, dark-first+post+sweep and rest-even+sweep as unit plans, as far as available."""
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

    def plan(self, chosen: UnitPlan, pools: tuple[str, ...]) -> Plan:
        """Return the child orders of a unit plan; ``pools`` are pinged if there are shares to ping with."""
        context = self.context
        sent = _shares(chosen.units, self.unit, context.shares)
        held: dict[str, dict[str, int]] = {"limit": {}, "dark_rest": {}}
        for (kind, place), shares in zip(self.places, sent, strict=True):
            if shares:
                held[kind][place] = shares
        now = context.shares - sum(sent)
        pinged = pools if now or chosen.before else ()
        return Plan(
            context.order,
            dark=dict.fromkeys(pinged, context.shares),
            in_turn=True,
            before=chosen.before and bool(pinged),
            dark_rest=held["dark_rest"],
            limit=held["limit"],
        )


@lru_cache(maxsize=64)
def _cut(shares: int, lot: int, units: int) -> tuple[int, Floats]:
    """Return the shares per unit, and in 0, 1 .. units of an order; the cached array must not be modified."""
    unit = unit_shares(shares, lot, units)
    return unit, np.minimum(np.arange(-(-shares // unit) + 1.0) * unit, shares)


def _shares(units: Units, unit: int, shares: int) -> list[int]:
    """Convert units to shares; the last unit of an order may be smaller."""
    sent, left = [], shares
    for count in units.tolist():
        sent.append(min(count * unit, left))
        left -= sent[-1]
    return sent
