"""The router that looks at the books, learns from every child order, and weighs waiting against doing it now."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.arrays import Floats, Matrix, Units
from riskroute.errors import StateError
from riskroute.parameters import parameter
from riskroute.routers.context import Context
from riskroute.routers.dark_allocation import unit_shares
from riskroute.routers.dark_belief import DarkBelief, Use
from riskroute.routers.dark_first import quickest_venue
from riskroute.routers.lit_belief import MOST_VENUES, LitBelief
from riskroute.routers.moment import Moment, horizon_class, moment_of
from riskroute.routers.patience import (
    NO_POOLS,
    Patience,
    PatienceOutlook,
    PatientPlan,
    resting_tables,
    try_in_turn,
)
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Public, Router
from riskroute.seeding import seed_stream
from riskroute.validation import list_of, real_number, true_or_false, whole_number

MOST_WAITING = 10_000
"""Orders at most whose outcomes are awaited; the oldest are forgotten."""

HEAVY, RULE_HEAVY = 1.5, 1.2
"""How much heavier tails are than those of normal laws: of plans chosen for what they save, and of simple rules.

Plans that are chosen because they look cheap and safe turn out worse than they look, rules that are fixed do not.
"""

_FIRST_PRICE = 1.0  # basis points a squared basis point: cautious until the price of tails is found
_EVERY, _STEP = 4, 0.2  # orders between two changes of it, and the largest relative change
_MOST_PRICE = 100.0


@dataclass
class ContextualGreedy(Router):
    """Send the plan that seems best: how much to do now, to post at which venues, and to rest in which pools.

    Given the books, what market orders cost is known; it is an offset, not a thing to learn. What limit orders earn is
    learned from public outcomes of all venues, what pools hold from our own fills there. The plan minimises the
    expected cost plus ``kappa`` times its variance, exactly.

    Parameters
    ----------
    kappa : float
        Basis points charged for a squared basis point of unforeseen cost.
    guard_tails : bool
        Whether plans whose expected shortfall (5 %) would exceed that of the best simple rule, on average, are made too
        expensive to send; else risk is charged ``kappa`` and nothing more.
    tail_room : float
        Basis points by which it may exceed that.
    units : int
        Parts at most into which an order is cut.
    lit_half_life, dark_half_life : float
        Days after which what was seen at lit venues, and in dark pools, counts half.
    leak : float
        Probability per 1,000 shares sent to a pool that the best price fades for the rest: what trying a pool costs.
    seed : int
        Of the draws of routers that explore.

    Notes
    -----
    A plan that waits has fatter tails than one that does not, whatever it saves on average. With ``guard_tails``
    the price of variance is raised until the expected shortfall that the belief predicts is, on average over orders, no
    more than that of the best of ``dark-first+sweep``, ``dark-first+post+sweep``, ``rest-even+sweep`` and ``sweep``.

    Examples
    --------
    Without time or pools it is the sweep:

    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}}
    >>> ContextualGreedy().route(read_context(books, side="sell", shares=300))
    Plan(order='order', dark={}, in_turn=True, before=False, dark_rest={}, recall=None, limit={}, take={}, \
take_limits={}, rest='sweep', trade_through=False)
    """

    name: ClassVar[str] = "contextual-greedy"
    feedback: ClassVar[str] = "F3"
    memory: ClassVar[tuple[str, ...]] = ("lit_state", "dark_state", "venues", "kept", "prices", "routed")
    kappa: float = parameter(0.05, real_number, minimum=0, maximum=1000)
    guard_tails: bool = parameter(True, true_or_false)
    tail_room: float = parameter(0.0, real_number, minimum=0)
    units: int = parameter(50, whole_number, maximum=1000)
    lit_half_life: float = parameter(5.0, real_number, above=0)
    dark_half_life: float = parameter(1.0, real_number, above=0)
    leak: float = parameter(0.02, real_number, minimum=0, maximum=1000)
    seed: int = parameter(0, whole_number, minimum=0)
    lit_beliefs: dict[str, LitBelief] = field(init=False, repr=False)
    dark_beliefs: dict[str, DarkBelief] = field(init=False, repr=False)
    venues: list[str] = field(init=False, repr=False)
    kept: dict[str, dict[str, Any]] = field(init=False, repr=False)
    """By order under way: its horizon, and what resting children need to be understood when outcomes are public."""
    routed: int = field(init=False, repr=False)
    """Orders so far."""
    prices: dict[str, float] = field(init=False, repr=False)
    """Price of variance that keeps tails in bounds, by class of horizon and size."""

    def begin(self) -> None:
        self.lit_beliefs, self.dark_beliefs, self.venues = {}, {}, []
        self.kept, self.prices, self.routed = {}, {}, 0

    def beliefs(self, symbol: str) -> tuple[LitBelief, DarkBelief]:
        """What is believed of the venues and pools of a symbol; a new one borrows from those known."""
        if symbol not in self.lit_beliefs:
            self.lit_beliefs[symbol] = LitBelief(self.lit_half_life, self.venues)
            self.dark_beliefs[symbol] = DarkBelief(self.dark_half_life)
            self._lend()
        return self.lit_beliefs[symbol], self.dark_beliefs[symbol]

    def _lend(self) -> None:
        for name in self.lit_beliefs:
            self.dark_beliefs[name].lenders = [other for key, other in self.dark_beliefs.items() if key != name]
            self.lit_beliefs[name].borrow([other for key, other in self.lit_beliefs.items() if key != name])

    def decide(self, context: Context) -> Plan:
        desk = ContextualDesk(self, context)
        price = self._price(desk)
        mean = desk.patience(None)
        chosen, patience = self.choose(desk, mean, price)
        self._mind_tails(desk, patience, chosen)
        self.routed += 1
        about = {"symbol": context.symbol, "horizon": context.horizon, "time": context.time}
        self.kept[context.order] = {**about, **desk.notes}
        while len(self.kept) > MOST_WAITING:
            self.kept.pop(next(iter(self.kept)))
        return desk.plan(chosen, patience)

    def choose(self, desk: ContextualDesk, mean: Patience, price: float) -> tuple[PatientPlan, Patience]:
        """Return the plan to send, and the outlook by which its tails are judged."""
        return mean.plan(price), mean

    # the price of tails

    def _class(self, context: Context) -> str:
        return f"{horizon_class(context.horizon)} {round(math.log2(context.shares))}"

    def _price(self, desk: ContextualDesk) -> float:
        """Dollars charged for a squared dollar."""
        asked = self.kappa
        if self.guard_tails and desk.context.horizon > 0:
            asked = max(asked, self.prices.get(self._class(desk.context), _FIRST_PRICE))
        return asked * desk.per_bp

    def _mind_tails(self, desk: ContextualDesk, patience: Patience, chosen: PatientPlan) -> None:
        """Raise or lower the price of variance by how far the tail of a plan is from what is allowed."""
        if not self.guard_tails or desk.context.horizon <= 0:
            return
        seen = patience.outlook(chosen)
        if self.routed % _EVERY:
            return
        rule = min(desk.simple_rules(patience), key=lambda one: one.objective(self.kappa * desk.per_bp))
        excess = (seen.shortfall(HEAVY) - rule.shortfall(RULE_HEAVY)) * desk.per_bp - self.tail_room
        key = self._class(desk.context)
        price = self.prices.get(key, _FIRST_PRICE) * math.exp(_STEP * min(max(excess, -1.0), 1.0))
        self.prices[key] = min(max(price, 1e-4), _MOST_PRICE)

    # learning

    def absorb(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        kept = self.kept.get(order)
        if kept is None:
            return
        _, dark = self.beliefs(kept["symbol"])
        for child in children:
            if child.sent and child.kind == "dark":
                dark.learn(child.place, 0.0, sent=child.sent, filled=child.filled, time=kept["time"])
            elif child.sent and child.kind == "dark_rest":
                horizon = kept["horizon"]
                dark.learn(child.place, horizon, sent=child.sent, filled=child.filled, time=kept["time"])
                kept.setdefault("rested", []).append([child.place, child.sent, child.filled, child.price])
        if profit is not None and not kept.get("rested"):
            del self.kept[order]

    def see(self, public: Public) -> None:
        context = public.context
        sweep = float(context.displayed.costs(context.shares)) / context.shares
        moment = moment_of(context, sweep)
        lit, dark = self.beliefs(context.symbol)
        kept = self.kept.get(context.order)
        if kept is not None and public.later is not None:
            for pool, sent, filled, price in kept.get("rested", ()):
                moved = context.sign * (price - context.mid) * filled
                late = (public.later.sweep - kept["later"]) * (sent - filled)
                dark.learn_adverse(pool, (moved + late) / sent / moment.half_spread)
            if context.order not in self._under_way:
                del self.kept[context.order]
        lit.see(public, moment)

    @property
    def lit_state(self) -> dict[str, Any]:
        """What is believed of lit venues, by symbol, as plain values."""
        return {symbol: belief.state() for symbol, belief in self.lit_beliefs.items()}

    @property
    def dark_state(self) -> dict[str, Any]:
        """What is believed of dark pools, by symbol, as plain values."""
        return {symbol: belief.state() for symbol, belief in self.dark_beliefs.items()}

    def recall(self, memory: dict[str, Any]) -> None:
        self.venues = list(list_of("venues", memory["venues"], str, "names")[:MOST_VENUES])
        self.lit_beliefs = {str(name): LitBelief.restore(one, self.venues) for name, one in memory["lit_state"].items()}
        self.dark_beliefs = {str(name): DarkBelief.restore(one) for name, one in memory["dark_state"].items()}
        if self.lit_beliefs.keys() != self.dark_beliefs.keys():
            raise StateError("state must hold beliefs of lit venues and of dark pools for the same symbols, did not")
        self._lend()
        self.kept = {str(order): dict(kept) for order, kept in memory["kept"].items()}
        self.routed = whole_number("routed", memory["routed"], minimum=0)
        self.prices = {str(key): real_number("price", price, above=0) for key, price in memory["prices"].items()}


@dataclass
class Contextual(ContextualGreedy):
    """Thompson sampling over what pools hold; lit venues at what is expected of them, since nothing need be tried.

    Parameters
    ----------
    budget : float
        Basis points; a plan that seems worse than the best one by more is never sent.
    """

    name: ClassVar[str] = "contextual"
    budget: float = parameter(0.2, real_number, minimum=0)
    ready: dict[str, tuple[list[Use], Matrix]] = field(init=False, repr=False)
    """By symbol, what pools are thought to hold in the next decision; made anew whenever something is learned."""
    last_uses: dict[str, list[Use]] = field(init=False, repr=False)

    def begin(self) -> None:
        super().begin()
        self.ready, self.last_uses = {}, {}

    def choose(self, desk: ContextualDesk, mean: Patience, price: float) -> tuple[PatientPlan, Patience]:
        best = mean.plan(price)
        if not desk.pools:
            return best, mean
        drawn = desk.patience(self._take_draw(desk)).plan(price)
        worse = mean.outlook(drawn).objective(price) - mean.outlook(best).objective(price)
        return (drawn if worse * desk.per_bp <= self.budget else best), mean

    def absorb(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        symbol = self.kept.get(order, {}).get("symbol", "")
        super().absorb(order, children, profit)
        self._make_ready(symbol)

    def _take_draw(self, desk: ContextualDesk) -> Matrix:
        """What pools hold, drawn from the belief: what was made ready, or drawn now."""
        symbol = desk.context.symbol
        found = self.ready.pop(symbol, None)
        if found is None or found[0] != desk.uses:
            found = (desk.uses, self._drawn(symbol, desk.uses))
        self.last_uses[symbol] = desk.uses
        return found[1]

    def _make_ready(self, symbol: str) -> None:
        """Draw for the next order outside of its decision, as if it were of the kind of the last one."""
        if symbol in self.last_uses:
            self.ready[symbol] = (self.last_uses[symbol], self._drawn(symbol, self.last_uses[symbol]))

    def _drawn(self, symbol: str, uses: list[Use]) -> Matrix:
        rng = np.random.default_rng(seed_stream(self.seed, self.name, symbol, self.routed))
        return self.dark_beliefs[symbol].draw(uses, rng)

    def greedy(self, context: Context) -> Plan | None:
        desk = ContextualDesk(self, context)
        mean = desk.patience(None)
        return desk.plan(mean.plan(self._price(desk)), mean)


class ContextualDesk:
    """An order on its books, before the beliefs of a router."""

    def __init__(self, router: ContextualGreedy, context: Context) -> None:
        self.router, self.context = router, context
        lit, self.dark = router.beliefs(context.symbol)
        self.unit = unit_shares(context.shares, context.lot, router.units)
        units = -(-context.shares // self.unit)
        self.shares: Floats = np.minimum(np.arange(units + 1.0) * self.unit, context.shares)
        self.sweep: Floats = context.displayed.costs(self.shares)
        self.moment: Moment = moment_of(context, float(self.sweep[-1]) / context.shares)
        self.per_bp = 1e4 / (context.shares * context.mid)
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
            names = context.books.venues
            self.places = [("limit", names[v]) for v in there] + [("dark_rest", pool) for pool in self.pools]
            self.extra = half * np.array([max(self.dark.adverse_selection(pool), 0.0) for pool in self.pools])

    def patience(self, hazards: Matrix | None) -> Patience:
        """What can be done with the order, as expected or if pools hold what was drawn."""
        wait, shares, pools = self.wait, self.shares, len(self.pools)
        found, spread = self.dark.moments(self.uses, shares, hazards) if pools else (self.empty, self.empty)
        tried = NO_POOLS
        if pools:
            least = self.router.leak * self.context.shares**2 / 1000 * self.context.tick  # what leaking costs
            tried = try_in_turn(self.pools, found[:pools], self.prices, self.moment.sweep, least, shares)
        if wait is None:
            return Patience(shares, self.sweep, self.empty, self.empty, 0.0, tried)
        tables = resting_tables(
            self.lit_cost,
            self.lit_variance,
            found[pools:],
            spread[pools:],
            self.prices,
            wait.later,
            self.extra,
            wait.common,
            shares,
        )
        return Patience(shares, self.sweep, *tables, wait.common, tried)

    def simple_rules(self, patience: Patience) -> list[PatienceOutlook]:
        """Outlooks of the simple rules: what a router that learns must not be riskier than."""
        nothing = np.zeros(len(self.places), dtype=np.int64)
        rules = [PatientPlan(nothing, before=True)]
        venue = quickest_venue(self.context)
        if ("limit", venue) in self.places:
            posted = nothing.copy()
            posted[self.places.index(("limit", venue))] = patience.units
            rules.append(PatientPlan(posted, before=True))
        resting = [place for place, (kind, _) in enumerate(self.places) if kind == "dark_rest"]
        found = [patience.outlook(rule) for rule in rules]
        if resting:
            even = nothing.copy()
            even[resting] = patience.units // len(resting)
            even[resting[0]] += patience.units - int(even.sum())
            found.append(patience.outlook(PatientPlan(even, before=False)))
        return found

    def plan(self, chosen: PatientPlan, patience: Patience) -> Plan:
        """Return the child orders of a plan."""
        context = self.context
        sent = _shares(chosen.units, self.unit, context.shares)
        held: dict[str, dict[str, int]] = {"limit": {}, "dark_rest": {}}
        for (kind, place), shares in zip(self.places, sent, strict=True):
            if shares:
                held[kind][place] = shares
        now = context.shares - sum(sent)
        pools = patience.tried.pools if now or chosen.before else ()
        return Plan(
            context.order,
            dark=dict.fromkeys(pools, context.shares),
            in_turn=True,
            before=chosen.before and bool(pools),
            dark_rest=held["dark_rest"],
            limit=held["limit"],
        )


def _shares(units: Units, unit: int, shares: int) -> list[int]:
    """Shares of units; the last unit of an order may be smaller."""
    sent, left = [], shares
    for count in units.tolist():
        sent.append(min(count * unit, left))
        left -= sent[-1]
    return sent
