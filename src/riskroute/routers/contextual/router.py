"""Contextual routers: minimise predicted cost plus a risk charge, given the books and learned fill models."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Flags, Floats, Matrix, Units
from riskroute.core.errors import StateError
from riskroute.core.records import Count
from riskroute.core.runtime import cached
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import parameter, real_number, whole_number
from riskroute.routers.context import Context
from riskroute.routers.contextual.dark_belief import DarkBelief, PoolUse
from riskroute.routers.contextual.fixed_plans import FixedPlans, fixed_plan, plan_outcome
from riskroute.routers.contextual.lit_belief import MOST_VENUES, LitBelief
from riskroute.routers.contextual.market_features import MarketFeatures, horizon_feature
from riskroute.routers.contextual.tail_guard import TailGuard
from riskroute.routers.contextual.wait_or_trade import (
    Moments,
    WaitOrTrade,
    WaitOrTradeModel,
    WaitOrTradePlan,
    WaitOrTradeTables,
)
from riskroute.routers.plan import Plan
from riskroute.routers.public_data import PublicData
from riskroute.routers.report import ChildReport
from riskroute.routers.risk import BALANCED, RiskProfile, risk_profile
from riskroute.routers.router import Router, RouterBelief
from riskroute.routing.allocations import allocation_unit_shares
from riskroute.routing.fees import fee_at

_NO_HORIZON = WaitOrTradeModel(np.zeros((0, 4)), np.zeros(2), 0.0, 0.0)  # model of orders without a horizon


class PlanningProblem:
    """Planning problem of one order: its books, and the router's beliefs about its symbol.

    The order is divided into at most ``units`` units. ``leak`` is the probability per 1,000 shares sent to a pool that
    the best price fades; ``weight`` is the charge per dollar of cost above ``level`` basis points.
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
        self.per_bp = 1e4 / (context.shares * context.value_price)  # basis points per unit of cost
        half = self.market.half_spread
        prices = {pool.name: pool.fee - pool.improvement * half for pool in context.pools}
        ranked = sorted(prices, key=lambda name: prices[name])
        self.pools = [name for name in ranked if prices[name] < self.market.sweep]
        self.no_pools = np.zeros((0, len(self.shares)))
        horizons = (0.0, context.horizon) if context.horizon > 0 else (0.0,)
        self.uses = [(pool, horizon) for horizon in horizons for pool in self.pools]
        self.places: list[tuple[str, str]] = []
        self.posting = lit.forecast(context, self.market, self.shares, sweep) if context.horizon > 0 else None
        cost = variance = left = exposed = self.no_pools
        model, late, extra = _NO_HORIZON, sweep, np.zeros(0)
        if self.posting is not None:
            _, cost, variance, left, exposed, model = self.posting
            late = sweep + (model.sweep - self.market.sweep) * self.shares
            names = [context.books.venues[v] for v in self.posting.venues]
            self.places = [("limit", name) for name in names] + [("dark_rest", pool) for pool in self.pools]
            # never a bonus: estimates below 0 are noise
            extra = half * np.array([max(dark.adverse_selection(pool), 0.0) for pool in self.pools])
        self.order = WaitOrTradeTables(
            *(self.shares, sweep, late, cost, variance, left, exposed, model),
            *(np.array([prices[name] for name in self.pools]), extra, self.market.sweep),
            leak * context.shares**2 / 1000 * context.tick,  # expected cost of a ping's leak
            *(weight, level / 1e4 * context.value_price),
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
            raise StateError("tail cost requires a horizon above 0, was 0")
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
        """Return the feasible ones of dark-first+sweep, dark-first+post+sweep and rest-even+sweep as unit plans."""
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
        """Convert a unit plan to child orders; ``pools`` are pinged if any shares are left to ping with."""
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
    """Return the shares per unit, and the shares in 0, 1 .. units; the cached array must not be modified."""
    unit = allocation_unit_shares(shares, lot, units)
    return unit, np.minimum(np.arange(-(-shares // unit) + 1.0) * unit, shares)


def _shares(units: Units, unit: int, shares: int) -> list[int]:
    """Convert units to shares; the last unit of an order may be smaller."""
    sent, left = [], shares
    for count in units.tolist():
        sent.append(min(count * unit, left))
        left -= sent[-1]
    return sent


@lru_cache(maxsize=1024)
def _order_class(seconds: float, shares: int) -> str:
    """Return the class of an order, by rounded base-2 logarithms of horizon and size."""
    return f"{horizon_feature(seconds)} {round(math.log2(shares))}"


@dataclass
class _PendingOrder:
    """Routed order with outstanding reports or public data.

    ``horizon_sweep`` is the predicted cost per share of sweeping at the horizon. ``tail_class`` and ``per_bp`` belong
    to the tail guard; the class is empty without a guard. ``rested`` holds pool, shares sent, shares filled and price
    of each child order that rested, ``pinged`` pool, shares sent and shares filled of each ping. ``plan`` is the
    plan of the model, scored against fixed plans; None for a capped profile or a horizon of 0.
    """

    symbol: str
    horizon: float
    time: int
    horizon_sweep: float = 0.0
    tail_class: str = ""
    per_bp: float = 0.0
    rested: list[tuple[str, int, int, float]] = field(default_factory=list)
    pinged: list[tuple[str, int, int]] = field(default_factory=list)
    plan: Plan | None = None
    forecast: tuple[float, float] = (0.0, 0.0)  # predicted cost of ``plan`` in basis points, and its variance


@dataclass
class ContextualGreedy(Router):
    """Send the greedy plan: trade now, post or rest each share to minimise predicted cost plus risk charge.

    Given the books, the cost of market orders is known and enters as an offset. Outcomes of limit orders are learned
    from public data of all venues, pool sizes from the router's own fills. The plan minimises expected cost plus
    a charge on its variance.

    Parameters
    ----------
    risk : RiskProfile
        Risk profile, its name (``cautious``, ``balanced`` or ``cheapest``), or kappa: basis points charged per squared
        basis point of cost variance. A capped profile caps the expected shortfall (5 %) at that of the best simple
        rule, on average over orders; for a horizon above 0, kappa is then at least 0.10 to 0.15.
    units : int
        Maximum number of units per order.
    lit_half_life, dark_half_life : float
        Half-life of observations of lit venues and of dark pools, in days.
    leak : float
        Probability per 1,000 shares sent to a pool that the best price fades: the cost of pinging.
    seed : int
        Seed of posterior draws.

    Notes
    -----
    Waiting saves on average but fattens the tail. A router with a capped profile charges the expected excess of a plan
    over the level that 4 % of the best simple rule's orders exceed, and raises that charge until the mean excess is no
    larger than the rule's; then the expected shortfall is no larger either. The rule is the best of
    ``dark-first+sweep``, ``dark-first+post+sweep`` and ``rest-even+sweep``. See
    `riskroute.routers.contextual.tail_guard`.

    Examples
    --------
    Without a horizon and without pools it sweeps:

    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}}
    >>> ContextualGreedy().route(read_context(books, side="sell", shares=300)).rest
    'sweep'
    """

    name: ClassVar[str] = "contextual-greedy"
    feedback: ClassVar[str] = "F3"
    memory: ClassVar[tuple[str, ...]] = ("lit_state", "dark_state", "tails", "fixed", "venues", "pending", "routed")
    most_pending: ClassVar[int] = 10_000  # maximum number of open orders; the oldest are dropped
    # Minimum kappa under the tail guard: the charged excess is a sum over children, which ignores diversification over
    # places; variance does not. The minimum falls by up to a third if the multiplier is below 0.1.
    guarded_kappa: ClassVar[float] = 0.15
    risk: RiskProfile = parameter(BALANCED, risk_profile)
    units: int = parameter(40, whole_number, maximum=1000)
    lit_half_life: float = parameter(5.0, real_number, above=0)
    dark_half_life: float = parameter(5.0, real_number, above=0)
    leak: float = parameter(0.02, real_number, minimum=0, maximum=1000)
    seed: int = parameter(0, whole_number, minimum=0)
    lit_beliefs: dict[str, LitBelief] = field(init=False, repr=False)
    dark_beliefs: dict[str, DarkBelief] = field(init=False, repr=False)
    venues: list[str] = field(init=False, repr=False)
    pending: dict[str, _PendingOrder] = field(init=False, repr=False)
    routed: Count = field(init=False, repr=False)  # number of orders routed
    tails: dict[str, TailGuard] = field(init=False, repr=False)  # by class of horizon and size
    fixed: dict[str, FixedPlans] = field(init=False, repr=False)  # by symbol and class

    def begin(self) -> None:
        self.lit_beliefs, self.dark_beliefs, self.venues = {}, {}, []
        self.pending, self.tails, self.fixed, self.routed = {}, {}, {}, 0

    def symbol_beliefs(self, symbol: str) -> tuple[LitBelief, DarkBelief]:
        """Return the beliefs about a symbol; a new symbol's beliefs borrow evidence from other symbols."""
        if symbol not in self.lit_beliefs:
            self.lit_beliefs[symbol] = LitBelief(self.lit_half_life, self.venues)
            self.dark_beliefs[symbol] = DarkBelief(self.dark_half_life)
            self._link_lenders()
            self.lit_beliefs[symbol].borrow()
        return self.lit_beliefs[symbol], self.dark_beliefs[symbol]

    def _link_lenders(self) -> None:
        """Let every symbol borrow from all others; beliefs with data use borrowed evidence from their next fit on."""
        for name, lit in self.lit_beliefs.items():
            self.dark_beliefs[name].lenders = [other for key, other in self.dark_beliefs.items() if key != name]
            lit.lenders = [other for key, other in self.lit_beliefs.items() if key != name]

    def decide(self, context: Context) -> Plan:
        problem = self.problem(context)
        chosen, pools = self.choose(problem, self._variance_price(problem))
        self._update_tail_guard(problem, chosen)
        self.routed += 1
        order = _PendingOrder(context.symbol, context.horizon, context.time)
        if problem.posting is not None:
            order.horizon_sweep = problem.order.horizon.sweep
        if self._guards(context):
            order.tail_class, order.per_bp = _order_class(context.horizon, context.shares), problem.per_bp
        self.pending[context.order] = order
        while len(self.pending) > self.most_pending:
            self.pending.pop(next(iter(self.pending)))
        plan = problem.plan(chosen, pools)
        if problem.posting is None or self.risk.capped:  # the guard compares the tail with simple rules
            return plan
        cost, variance = problem.mean.forecast(chosen)
        order.plan, order.forecast = plan, (cost * problem.per_bp, variance * problem.per_bp**2)
        better = self._fixed(context).better
        return plan if better is None else fixed_plan(better, context)

    def _fixed(self, context: Context) -> FixedPlans:
        return self.fixed.setdefault(f"{context.symbol} {_order_class(context.horizon, context.shares)}", FixedPlans())

    def problem(self, context: Context) -> PlanningProblem:
        """Return the planning problem of an order under the current beliefs."""
        beliefs = self.symbol_beliefs(context.symbol)
        charge, level = 0.0, 0.0
        if self._guards(context):
            guard = self._guard(context)
            charge, level = guard.charge, guard.level
        return PlanningProblem(context, *beliefs, self.units, self.leak, charge, level)

    def choose(self, problem: PlanningProblem, price: float) -> tuple[WaitOrTradePlan, tuple[str, ...]]:
        """Return the plan to send if variance is charged at ``price``, and the pools it pings."""
        return problem.mean.best_plan(price), problem.pinged

    # tail guard

    def _guards(self, context: Context) -> bool:
        return self.risk.capped and context.horizon > 0

    def _guard(self, context: Context) -> TailGuard:
        kind = _order_class(context.horizon, context.shares)
        if kind not in self.tails:
            self.tails[kind] = TailGuard()
        return self.tails[kind]

    def _variance_price(self, problem: PlanningProblem) -> float:
        """Return the dollars charged per squared dollar of variance."""
        if problem.posting is None:
            return self.risk.kappa * problem.per_bp
        if not self.risk.capped:
            sweep = float(problem.order.sweep[-1]) * problem.per_bp
            return self._fixed(problem.context).price(self.risk.kappa, sweep) * problem.per_bp
        guarded = self.guarded_kappa * min(max(self._guard(problem.context).price / 0.1, 0.67), 1.0)
        return max(self.risk.kappa, guarded) * problem.per_bp

    def _update_tail_guard(self, problem: PlanningProblem, chosen: WaitOrTradePlan) -> None:
        """Compare the tails of the chosen plan and the benchmark rule every few orders: the comparison is slow."""
        if not self._guards(problem.context) or self.routed % TailGuard.update_every:
            return
        guard = self._guard(problem.context)
        rule = problem.simple_rule(self.risk.kappa * problem.per_bp)
        if guard.updates < TailGuard.settling:  # the steps of the level are too small to follow the first fits
            level = problem.quantile_level(rule, TailGuard.exceedance)
            guard.level += (level - guard.level) * (0.2 if guard.updates else 1.0)
        chance, allowed = problem.excess(rule, guard.level)
        posted = None
        if rule.before and rule.units.any():  # the rule posts: without pings, the outcome of its limit order is public
            posted = problem.excess(WaitOrTradePlan(rule.units, before=False), guard.level)[1]
        ours = problem.excess(chosen, guard.level)[1]
        mid_sd = max(problem.mid_sd_bps, 1e-3)
        guard.update(ours, allowed, chance=chance, mid_sd=mid_sd, posted=posted)

    # learning

    def beliefs(self) -> tuple[RouterBelief, ...]:
        return tuple(one for symbol, belief in self.dark_beliefs.items() for one in belief.beliefs(symbol))

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        pending = self.pending.get(order)
        if pending is None:
            return
        _, dark = self.symbol_beliefs(pending.symbol)
        if profit is not None and pending.tail_class in self.tails:
            self.tails[pending.tail_class].learn_plan(-profit * pending.per_bp)
        for child in children:
            if child.sent and child.kind in ("dark", "dark_rest"):
                horizon = pending.horizon if child.kind == "dark_rest" else 0.0
                dark.learn(child.place, horizon, sent=child.sent, filled=child.filled, time=pending.time)
                if child.kind == "dark_rest":
                    pending.rested.append((child.place, child.sent, child.filled, child.price))
                else:
                    pending.pinged.append((child.place, child.sent, child.filled))
        if profit is not None and not pending.rested and pending.plan is None:
            del self.pending[order]

    def on_public_data(self, public: PublicData) -> None:
        context = public.context
        sweep = float(context.displayed.costs(context.shares)) / context.shares
        market = MarketFeatures.of(context, sweep)
        lit, dark = self.symbol_beliefs(context.symbol)
        pending = self.pending.get(context.order)
        if pending is not None and public.at_horizon is not None:
            surprise = public.at_horizon.sweep - pending.horizon_sweep
            for pool, sent, filled, price in pending.rested:
                moved = context.sign * (price - context.mid) * filled
                # less half the surprise of the whole order, a control variate of mean 0: it halves the noise
                late = surprise * (sent - filled - sent / 2)
                dark.learn_adverse(pool, (moved + late) / sent / market.half_spread)
            self._compare_fixed_plans(public, pending)
            if context.order not in self._under_way:
                del self.pending[context.order]
        lit.learn(public, market)
        self._learn_posted_rule(public)

    def _compare_fixed_plans(self, public: PublicData, pending: _PendingOrder) -> None:
        """Compare the costs of the model's plan and of the fixed plans, given the outcome of the order."""
        context, (_, dark) = public.context, self.symbol_beliefs(public.context.symbol)
        if pending.plan is None:
            return
        known = {(pool, True): (sent, filled) for pool, sent, filled, _ in pending.rested}
        known |= {(pool, False): (sent, filled) for pool, sent, filled in pending.pinged}

        def fills(pool: str, rests: bool, shares: int) -> float:
            sent, filled = known.get((pool, rests), (0, 0))
            if filled < sent or shares <= sent:
                return min(filled, shares)
            mean, _ = dark.moments([(pool, context.horizon * rests)], np.array([float(sent), float(shares)]))
            return filled + float(mean[0, 1] - mean[0, 0])

        fixed = self._fixed(context)
        costs = {name: plan_outcome(fixed_plan(name, context), public, fills) for name in fixed.names(context)}
        sweep = float(context.displayed.costs(context.shares)) * 1e4 / (context.shares * context.value_price)
        ours = plan_outcome(pending.plan, public, fills)
        fixed.learn(ours, costs, sweep=sweep, kappa=self.risk.kappa)
        fixed.learn_forecast(ours - pending.forecast[0], pending.forecast[1])
        pending.plan = None

    def _learn_posted_rule(self, public: PublicData) -> None:
        """Pass the tail guard the counterfactual cost of posting the order as the simple rule does."""
        context = public.context
        guard = self.tails.get(_order_class(context.horizon, context.shares))
        venue = context.quickest_venue
        queue = public.queues.get(venue)
        if guard is None or queue is None or public.at_horizon is None:
            return
        filled = queue.filled(context.shares)
        fee = float(fee_at(context.books.makers[context.books.venues.index(venue)], queue.price))
        paid = filled * (fee + context.sign * (queue.price - context.mid))
        cost = paid + (context.shares - filled) * public.at_horizon.sweep
        guard.learn_posted(cost * 1e4 / (context.shares * context.value_price))

    # state

    @property
    def lit_state(self) -> dict[str, Any]:
        """Beliefs about lit venues by symbol, as plain values."""
        return {symbol: belief.state() for symbol, belief in self.lit_beliefs.items()}

    @property
    def dark_state(self) -> dict[str, Any]:
        """Beliefs about dark pools by symbol, as plain values."""
        return {symbol: belief.state() for symbol, belief in self.dark_beliefs.items()}

    def load_memory(self, memory: dict[str, Any]) -> None:
        super().load_memory(memory)
        del self.venues[MOST_VENUES:]
        self.lit_beliefs = {name: LitBelief.restore(one, self.venues) for name, one in memory["lit_state"].items()}
        self.dark_beliefs = {name: DarkBelief.restore(one) for name, one in memory["dark_state"].items()}
        if self.lit_beliefs.keys() != self.dark_beliefs.keys():
            raise StateError("lit and dark beliefs must have the same symbols")
        self._link_lenders()
        for lit in self.lit_beliefs.values():
            lit.borrow()


@dataclass
class Contextual(ContextualGreedy):
    """Contextual router with Thompson sampling of dark pool sizes.

    Lit venues are used at their posterior mean: their outcomes are public, so they need no exploration.

    Parameters
    ----------
    budget : float
        Basis points by which a plan's objective may exceed the greedy plan's; otherwise the greedy plan is sent.
    """

    name: ClassVar[str] = "contextual"
    budget: float = parameter(0.05, real_number, minimum=0)
    # by symbol: pool uses, sizes, and drawn moments of their fills; computed after each update, for the next decision
    ready: dict[str, tuple[list[PoolUse], Floats, tuple[Matrix, Matrix]]] = field(init=False, repr=False)
    last_asked: dict[str, tuple[list[PoolUse], Floats]] = field(init=False, repr=False)  # last uses and sizes

    def begin(self) -> None:
        super().begin()
        self.ready, self.last_asked = {}, {}

    def choose(self, problem: PlanningProblem, price: float) -> tuple[WaitOrTradePlan, tuple[str, ...]]:
        if not problem.pools or problem.posting is None or not self.budget:
            return super().choose(problem, price)
        return problem.plan_under_draw(self._take_draw(problem), price, self.budget / problem.per_bp)

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        symbol = self.pending[order].symbol if order in self.pending else ""
        super().on_fills(order, children, profit)
        # prepare the next decision now, assuming an order like the last one
        if symbol in self.last_asked:
            self.ready[symbol] = self._draw(symbol, *self.last_asked[symbol])
            self.dark_beliefs[symbol].moments(*self.last_asked[symbol])

    def _take_draw(self, problem: PlanningProblem) -> tuple[Matrix, Matrix]:
        """Return the moments of pool fills under a posterior draw: the prepared draw if it fits, or a new one."""
        symbol = problem.context.symbol
        found = self.ready.pop(symbol, None)
        if found is None or found[0] != problem.uses or found[1] is not problem.shares:
            found = self._draw(symbol, problem.uses, problem.shares)
        self.last_asked[symbol] = (problem.uses, problem.shares)
        return found[2]

    def _draw(
        self, symbol: str, uses: list[PoolUse], shares: Floats
    ) -> tuple[list[PoolUse], Floats, tuple[Matrix, Matrix]]:
        rng = np.random.default_rng(seed_stream(self.seed, self.name, symbol, self.routed))
        dark = self.dark_beliefs[symbol]
        return uses, shares, dark.moments(uses, shares, dark.draw(uses, rng))

    def greedy(self, context: Context) -> Plan | None:
        problem = self.problem(context)
        return problem.plan(problem.mean.best_plan(self._variance_price(problem)), problem.pinged)


@dataclass
class ContextualIds(Contextual):
    """Contextual router with information-directed sampling of dark pool sizes.

    It minimises squared regret per information gain. Candidates are the greedy plan, the best plans under posterior
    draws, and the greedy plan with one resting child halved or doubled. The regret of a candidate is its mean gap to
    the best candidate over the draws; its information gain is about the pool posteriors that it would update.

    Parameters
    ----------
    draws : int
        Number of posterior draws.
    orders_left : float
        Number of future orders that benefit from the information. The greedy plan is sent unless their expected gain
        exceeds the extra regret of the candidate.

    References
    ----------
    J. Kirschner, A. Krause, "Information directed sampling and bandits with heteroscedastic noise" (2018),
    https://arxiv.org/abs/1801.09667
    """

    name: ClassVar[str] = "contextual-ids"
    draws: int = parameter(8, whole_number, maximum=1000)
    orders_left: float = parameter(1000.0, real_number, minimum=0)

    def choose(self, problem: PlanningProblem, price: float) -> tuple[WaitOrTradePlan, tuple[str, ...]]:
        mean = problem.mean
        best, pools = mean.best_plan(price), problem.pinged
        if not problem.pools or not problem.places:
            return best, pools
        rng = np.random.default_rng(seed_stream(self.seed, self.name, problem.context.symbol, self.routed))
        worlds = [problem.tables(problem.dark.draw(problem.uses, rng)) for _ in range(self.draws)]
        candidates = [best, *(world.best_plan(price) for world in worlds), *_neighbours(problem, best, mean.units)]
        losses = np.array([[world.forecast(one).objective(price) for one in candidates] for world in worlds])
        regrets = (losses - losses.min(axis=1, keepdims=True)).mean(axis=0) * problem.per_bp
        greedy = mean.forecast(best).objective(price)
        allowed = [greedy + self.budget / problem.per_bp >= mean.forecast(one).objective(price) for one in candidates]
        gains = np.array([_information(problem, one) for one in candidates])
        # information ratio: squared regret per nat; plans beyond the exploration budget are excluded
        ratio = np.where(allowed, regrets**2 / np.maximum(gains, 1e-12), np.inf)
        chosen = int(np.argmin(ratio))
        saved = float(regrets[0]) * (1 - math.exp(-gains[chosen]))  # greedy regret that the information removes
        worth = self.orders_left * saved > regrets[chosen] - regrets[0]
        return (candidates[chosen] if worth else best), pools


def _information(problem: PlanningProblem, plan: WaitOrTradePlan) -> float:
    """Return a plan's approximate information gain about pool sizes, in nats."""
    total = 0.0
    for (kind, pool), units in zip(problem.places, plan.units.tolist(), strict=True):
        if kind == "dark_rest" and units:
            total += problem.dark.information(pool, problem.context.horizon, float(problem.shares[units]))
    now = problem.context.shares - float(problem.shares[plan.units].sum())
    pinged = problem.context.shares if plan.before else now
    if pinged > 0:
        total += sum(problem.dark.information(pool, 0.0, pinged) for pool in problem.pinged)
    return total


def _neighbours(problem: PlanningProblem, plan: WaitOrTradePlan, units: int) -> list[WaitOrTradePlan]:
    """Return variants of the plan with one resting child halved or doubled, within ``units`` in total."""
    found = []
    for place, (kind, _) in enumerate(problem.places):
        if kind == "dark_rest":
            for count in {int(plan.units[place]) // 2, 2 * int(plan.units[place]) or 1}:
                other = plan.units.copy()
                other[place] = count
                if count != plan.units[place] and other.sum() <= units:
                    found.append(WaitOrTradePlan(other, plan.before))
    return found
