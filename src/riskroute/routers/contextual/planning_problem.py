"""Planning problem of one order: cost tables from the books and the router's beliefs, and plans as child orders."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from riskroute.core.arrays import Flags, Floats, Matrix, Units
from riskroute.core.errors import StateError
from riskroute.core.runtime import cached
from riskroute.routers.context import Context
from riskroute.routers.contextual.dark_belief import DarkBelief
from riskroute.routers.contextual.lit_belief import LitBelief
from riskroute.routers.contextual.market_features import MarketFeatures
from riskroute.routers.contextual.wait_or_trade import (
    Moments,
    WaitOrTrade,
    WaitOrTradeModel,
    WaitOrTradePlan,
    WaitOrTradeTables,
)
from riskroute.routers.plan import Plan
from riskroute.routing.allocations import allocation_unit_shares

_NO_HORIZON = WaitOrTradeModel(np.zeros((0, 4)), np.zeros(2), 0.0, 0.0)  # nothing waits


class PlanningProblem:
    """Order, its books, and the router's beliefs about its symbol.

    The order is divided into at most ``units`` units. ``leak`` is the probability per 1,000 shares sent to a pool that
    the best price fades; ``weight`` is the charge per dollar of excess over ``level`` basis points.
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
        self.context, self.dark = context, dark
        self.unit, self.shares = _cut(context.shares, context.lot, units)
        sweep: Floats = context.displayed.costs(self.shares)
        self.market = MarketFeatures.of(context, float(sweep[-1]) / context.shares)
        self.per_bp = 1e4 / (context.shares * context.mid)  # basis points per dollar of cost
        half = self.market.half_spread
        prices = {pool.name: pool.fee - pool.improvement * half for pool in context.pools}
        ranked = sorted(prices, key=lambda name: prices[name])
        self.pools = [name for name in ranked if prices[name] < self.market.sweep]
        self.no_pools = np.zeros((0, len(self.shares)))
        horizons = (0.0, context.horizon) if context.horizon > 0 else (0.0,)
        self.uses = [(pool, horizon) for horizon in horizons for pool in self.pools]
        self.places: list[tuple[str, str]] = []
        self.posting = lit.forecast(context, self.market, self.shares) if context.horizon > 0 else None
        cost, variance, common, model, extra = self.no_pools, self.no_pools, 0.0, _NO_HORIZON, np.zeros(0)
        if self.posting is not None:
            _, cost, variance, common, model = self.posting
            names = [context.books.venues[v] for v in self.posting.venues]
            self.places = [("limit", name) for name in names] + [("dark_rest", pool) for pool in self.pools]
            # never a bonus: estimates below 0 are noise
            extra = half * np.array([max(dark.adverse_selection(pool), 0.0) for pool in self.pools])
        self.order = WaitOrTradeTables(
            *(self.shares, sweep, cost, variance, common, model),
            *(np.array([prices[name] for name in self.pools]), extra, self.market.sweep),
            leak * context.shares**2 / 1000 * context.tick,  # expected cost of a ping's leak
            *(weight, level / 1e4 * context.mid),
        )

    def tables(self, hazards: Matrix | None) -> WaitOrTrade:
        """Return the cost tables under the posterior mean or under drawn hazards."""
        return self.order.with_pools(self._fills(hazards))[0]

    def _fills(self, hazards: Matrix | None = None) -> Moments:
        return self.dark.moments(self.uses, self.shares, hazards) if self.pools else (self.no_pools, self.no_pools)

    @cached
    def _mean(self) -> tuple[WaitOrTrade, Flags]:
        return self.order.with_pools(self._fills())

    @property
    def mean(self) -> WaitOrTrade:
        """Cost tables under the posterior mean."""
        return self._mean[0]

    @property
    def pinged(self) -> tuple[str, ...]:
        """Pools worth a ping under the posterior mean, in ping order."""
        return self._named(self._mean[1])

    def _named(self, worth: Flags) -> tuple[str, ...]:
        return tuple(name for name, some in zip(self.pools, worth.tolist(), strict=True) if some)

    @cached
    def uncharged(self) -> WaitOrTrade:
        """Cost tables under the posterior mean, without the tail charge."""
        return self.order._replace(weight=0.0).with_pools(self._fills())[0]

    def plan_under_draw(
        self, drawn: Moments, price: float, allowance: float
    ) -> tuple[WaitOrTradePlan, tuple[str, ...]]:
        """Return the plan of `WaitOrTradeTables.plan_under_draw`, and the names of the pools to ping."""
        plan, worth = self.order.plan_under_draw(self._fills(), drawn, price, allowance)
        return plan, self._named(worth)

    def excess(self, plan: WaitOrTradePlan, level: float) -> tuple[float, float]:
        """Return the probability that a plan costs more than ``level``, and its expected excess, in basis points."""
        if self.posting is None:
            raise StateError("tail cost is defined for orders with a horizon only")
        resting = self._fills()[0][len(self.pools) :]
        chance, excess = self.uncharged.excess(self.order, plan, resting, level / self.per_bp)
        return chance, excess * self.per_bp

    def quantile_level(self, plan: WaitOrTradePlan, chance: float) -> float:
        """Return the level in basis points that a plan's cost exceeds with probability ``chance``, by bisection."""
        low = -(high := 100 * max(self.mid_sd_bps, 1.0))
        for _ in range(20):
            level = (low + high) / 2
            low, high = (level, high) if self.excess(plan, level)[0] > chance else (low, level)
        return high

    @property
    def mid_sd_bps(self) -> float:
        """Standard deviation of the mid until the horizon, in basis points."""
        return self.order.horizon.mid_sd * self.per_bp * self.context.shares

    def simple_rule(self, price: float) -> WaitOrTradePlan:
        """Return the best simple rule if variance is charged at ``price``: the benchmark of the tail guard."""
        tables = self.uncharged
        return min(self._simple_rules(tables.units), key=lambda rule: tables.forecast(rule).objective(price))

    def _simple_rules(self, units: int) -> list[WaitOrTradePlan]:
        """Return dark-first+sweep, dark-first+post+sweep and rest-even+sweep as unit plans, if possible."""
        nothing = np.zeros(len(self.places), dtype=np.int64)
        rules = [WaitOrTradePlan(nothing, before=True)]
        venue = self.context.quickest_venue
        if ("limit", venue) in self.places:
            posted = nothing.copy()
            posted[self.places.index(("limit", venue))] = units
            rules.append(WaitOrTradePlan(posted, before=True))
        resting = [place for place, (kind, _) in enumerate(self.places) if kind == "dark_rest"]
        if resting:
            even = nothing.copy()
            even[resting] = units // len(resting)
            even[resting[0]] += units - int(even.sum())
            rules.append(WaitOrTradePlan(even, before=False))
        return rules

    def plan(self, chosen: WaitOrTradePlan, pools: tuple[str, ...]) -> Plan:
        """Convert a unit plan to child orders; ``pools`` are pinged if there are shares to ping with."""
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
    """Return the shares per unit, and those in 0, 1 .. units of an order; the cached array must not be modified."""
    unit = allocation_unit_shares(shares, lot, units)
    return unit, np.minimum(np.arange(-(-shares // unit) + 1.0) * unit, shares)


def _shares(units: Units, unit: int, shares: int) -> list[int]:
    """Convert units to shares; the last unit of an order may be smaller."""
    sent, left = [], shares
    for count in units.tolist():
        sent.append(min(count * unit, left))
        left -= sent[-1]
    return sent
