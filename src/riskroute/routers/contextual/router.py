"""The router that looks at the books, learns from every child order, and weighs waiting against doing it now."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Floats, Matrix
from riskroute.core.errors import StateError
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import list_of, parameter, real_number, true_or_false, whole_number
from riskroute.routers.context import Context
from riskroute.routers.contextual.dark_belief import DarkBelief, Use
from riskroute.routers.contextual.lit_belief import MOST_VENUES, LitBelief
from riskroute.routers.contextual.market_features import market_features, order_class
from riskroute.routers.contextual.planning_problem import PlanningProblem
from riskroute.routers.contextual.tail_guard import EVERY, EXCEEDED, TailGuard
from riskroute.routers.contextual.wait_or_trade import UnitPlan, WaitOrTrade
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import PlaceBelief, PublicData, Router
from riskroute.routers.rules import quickest_venue

MOST_WAITING = 10_000
"""Orders at most whose outcomes are awaited; the oldest are forgotten."""

GUARDED = 0.15
"""Basis points charged at least for a squared basis point where tails are guarded.

What children cost beyond a level is added up over places, which overlooks that a plan with several of them is safer;
variance does not. As the price of tails falls, so does this, to two thirds."""

_CHARGED, _LEAST_CHARGED = 0.1, 0.67  # price of tails below which less is charged, and the least part of it


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
    A plan that waits has fatter tails than one that does not, whatever it saves on average. With ``guard_tails`` what
    plans cost beyond the level that the best simple rule exceeds with 5 % of its orders is charged, at a price that
    rises until they cost no more beyond it than the rule, on average over orders: then their expected shortfall is no
    more than the rule's. The rule is the best of ``dark-first+sweep``, ``dark-first+post+sweep`` and
    ``rest-even+sweep``.

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
    memory: ClassVar[tuple[str, ...]] = ("lit_state", "dark_state", "tail_state", "venues", "kept", "routed")
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
    tails: dict[str, TailGuard] = field(init=False, repr=False)
    """What keeps tails in bounds, by class of horizon and size."""

    def begin(self) -> None:
        self.lit_beliefs, self.dark_beliefs, self.venues = {}, {}, []
        self.kept, self.tails, self.routed = {}, {}, 0

    def symbol_beliefs(self, symbol: str) -> tuple[LitBelief, DarkBelief]:
        """What is believed of the venues and pools of a symbol; a new one borrows from those known."""
        if symbol not in self.lit_beliefs:
            self.lit_beliefs[symbol] = LitBelief(self.lit_half_life, self.venues)
            self.dark_beliefs[symbol] = DarkBelief(self.dark_half_life)
            self._lend()
            self.lit_beliefs[symbol].pool()
        return self.lit_beliefs[symbol], self.dark_beliefs[symbol]

    def _lend(self) -> None:
        """Tell every belief of all others; those that know something already borrow when they are next fitted."""
        for name, lit in self.lit_beliefs.items():
            self.dark_beliefs[name].lenders = [other for key, other in self.dark_beliefs.items() if key != name]
            lit.lenders = [other for key, other in self.lit_beliefs.items() if key != name]

    def decide(self, context: Context) -> Plan:
        desk = self.desk(context)
        chosen, pools = self.choose(desk, self._price(desk))
        self._mind_tails(desk, chosen)
        self.routed += 1
        about = {"symbol": context.symbol, "horizon": context.horizon, "time": context.time}
        guarded = (
            {"kind": order_class(context.horizon, context.shares), "per_bp": desk.per_bp}
            if self._guards(context)
            else {}
        )
        self.kept[context.order] = {**about, **guarded, **desk.notes}
        while len(self.kept) > MOST_WAITING:
            self.kept.pop(next(iter(self.kept)))
        return desk.plan(chosen, pools)

    def desk(self, context: Context) -> PlanningProblem:
        """Put an order before what is believed of its symbol."""
        beliefs = self.symbol_beliefs(context.symbol)
        return PlanningProblem(context, *beliefs, self.units, self.leak, *self._tail_charge(context))

    def choose(self, desk: PlanningProblem, price: float) -> tuple[UnitPlan, tuple[str, ...]]:
        """Return the plan to send, and the pools that it tries."""
        return desk.mean.plan(price), desk.mean.tried.pools

    # the price of tails

    def _guards(self, context: Context) -> bool:
        return self.guard_tails and context.horizon > 0

    def _guard(self, context: Context) -> TailGuard:
        kind = order_class(context.horizon, context.shares)
        if kind not in self.tails:
            self.tails[kind] = TailGuard()
        return self.tails[kind]

    def _price(self, desk: PlanningProblem) -> float:
        """Dollars charged for a squared dollar."""
        if not self._guards(desk.context):
            return self.kappa * desk.per_bp
        guarded = GUARDED * min(max(self._guard(desk.context).price / _CHARGED, _LEAST_CHARGED), 1.0)
        return max(self.kappa, guarded) * desk.per_bp

    def _tail_charge(self, context: Context) -> tuple[float, float]:
        """What a dollar beyond a level is charged, and the level in basis points."""
        if not self._guards(context):
            return 0.0, 0.0
        guard = self._guard(context)
        return guard.charge, guard.level

    def _mind_tails(self, desk: PlanningProblem, chosen: UnitPlan) -> None:
        """Raise or lower the price of tails by how far that of a plan is from what is allowed, at times."""
        if not self._guards(desk.context) or self.routed % EVERY:
            return
        guard = self._guard(desk.context)
        rule = desk.simple_rule(self.kappa * desk.per_bp)
        if not guard.looks:
            guard.level = desk.level_exceeded(rule, EXCEEDED)
        chance, allowed = desk.beyond(rule, guard.level)
        alone = desk.posted_by_rule(rule)
        posted = None if alone is None else desk.beyond(alone, guard.level)[1]
        ours = desk.beyond(chosen, guard.level)[1]
        move = max(desk.move_bps, 1e-3)
        guard.look(ours, allowed, chance=chance, move=move, posted=posted, room=self.tail_room)

    # learning

    def beliefs(self) -> tuple[PlaceBelief, ...]:
        return tuple(one for symbol, belief in self.dark_beliefs.items() for one in belief.beliefs(symbol))

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        kept = self.kept.get(order)
        if kept is None:
            return
        _, dark = self.symbol_beliefs(kept["symbol"])
        if profit is not None and kept.get("kind") in self.tails:
            self.tails[kept["kind"]].learn_plan(-profit * kept["per_bp"])
        for child in children:
            if child.sent and child.kind == "dark":
                dark.learn(child.place, 0.0, sent=child.sent, filled=child.filled, time=kept["time"])
            elif child.sent and child.kind == "dark_rest":
                horizon = kept["horizon"]
                dark.learn(child.place, horizon, sent=child.sent, filled=child.filled, time=kept["time"])
                kept.setdefault("rested", []).append([child.place, child.sent, child.filled, child.price])
        if profit is not None and not kept.get("rested"):
            del self.kept[order]

    def on_public_data(self, public: PublicData) -> None:
        context = public.context
        sweep = float(context.displayed.costs(context.shares)) / context.shares
        moment = market_features(context, sweep)
        lit, dark = self.symbol_beliefs(context.symbol)
        kept = self.kept.get(context.order)
        if kept is not None and public.at_horizon is not None:
            for pool, sent, filled, price in kept.get("rested", ()):
                moved = context.sign * (price - context.mid) * filled
                late = (public.at_horizon.sweep - kept["later"]) * (sent - filled)
                dark.learn_adverse(pool, (moved + late) / sent / moment.half_spread)
            if context.order not in self._under_way:
                del self.kept[context.order]
        lit.learn(public, moment)
        self._see_rule(public)

    def _see_rule(self, public: PublicData) -> None:
        """Learn what an order posted as by the simple rule would have cost."""
        context = public.context
        guard = self.tails.get(order_class(context.horizon, context.shares))
        venue = quickest_venue(context)
        queue = public.queues.get(venue)
        if guard is None or queue is None or public.at_horizon is None:
            return
        filled = queue.filled(context.shares)
        fee = float(context.books.makers[context.books.venues.index(venue)])
        paid = filled * (fee + context.sign * (queue.price - context.mid))
        cost = paid + (context.shares - filled) * public.at_horizon.sweep
        guard.learn_posted(cost * 1e4 / (context.shares * context.mid))

    @property
    def lit_state(self) -> dict[str, Any]:
        """What is believed of lit venues, by symbol, as plain values."""
        return {symbol: belief.state() for symbol, belief in self.lit_beliefs.items()}

    @property
    def tail_state(self) -> dict[str, Any]:
        """What keeps tails in bounds, as plain values."""
        return {kind: guard.state() for kind, guard in self.tails.items()}

    @property
    def dark_state(self) -> dict[str, Any]:
        """What is believed of dark pools, by symbol, as plain values."""
        return {symbol: belief.state() for symbol, belief in self.dark_beliefs.items()}

    def load_memory(self, memory: dict[str, Any]) -> None:
        self.venues = list(list_of("venues", memory["venues"], str, "names")[:MOST_VENUES])
        self.lit_beliefs = {str(name): LitBelief.restore(one, self.venues) for name, one in memory["lit_state"].items()}
        self.dark_beliefs = {str(name): DarkBelief.restore(one) for name, one in memory["dark_state"].items()}
        if self.lit_beliefs.keys() != self.dark_beliefs.keys():
            raise StateError("state must hold beliefs of lit venues and of dark pools for the same symbols, did not")
        self._lend()
        for lit in self.lit_beliefs.values():
            lit.pool()
        self.kept = {str(order): dict(kept) for order, kept in memory["kept"].items()}
        self.routed = whole_number("routed", memory["routed"], minimum=0)
        self.tails = {str(kind): TailGuard.restore(one) for kind, one in memory["tail_state"].items()}


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
    ready: dict[str, tuple[list[Use], Floats, tuple[Matrix, Matrix]]] = field(init=False, repr=False)
    """By symbol, what pools are thought to hold in the next decision; made anew whenever something is learned."""
    last_asked: dict[str, tuple[list[Use], Floats]] = field(init=False, repr=False)
    """By symbol, the uses of pools and the shares of children that the last decision was about."""

    def begin(self) -> None:
        super().begin()
        self.ready, self.last_asked = {}, {}

    def choose(self, desk: PlanningProblem, price: float) -> tuple[UnitPlan, tuple[str, ...]]:
        if not desk.pools or desk.wait is None:
            return super().choose(desk, price)
        return desk.plan_under_draw(self._take_draw(desk), price, self.budget / desk.per_bp)

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        symbol = self.kept.get(order, {}).get("symbol", "")
        super().on_fills(order, children, profit)
        self._make_ready(symbol)

    def _take_draw(self, desk: PlanningProblem) -> tuple[Matrix, Matrix]:
        """What children would find in pools under a draw of the belief: what was made ready, or drawn now."""
        symbol = desk.context.symbol
        found = self.ready.pop(symbol, None)
        if found is None or found[0] != desk.uses or found[1] is not desk.shares:
            found = self._drawn(symbol, desk.uses, desk.shares)
        self.last_asked[symbol] = (desk.uses, desk.shares)
        return found[2]

    def _make_ready(self, symbol: str) -> None:
        """Prepare the next decision outside of it, as if the next order were of the kind of the last one."""
        if symbol in self.last_asked:
            self.ready[symbol] = self._drawn(symbol, *self.last_asked[symbol])
            self.dark_beliefs[symbol].moments(*self.last_asked[symbol])

    def _drawn(self, symbol: str, uses: list[Use], shares: Floats) -> tuple[list[Use], Floats, tuple[Matrix, Matrix]]:
        rng = np.random.default_rng(seed_stream(self.seed, self.name, symbol, self.routed))
        dark = self.dark_beliefs[symbol]
        return uses, shares, dark.moments(uses, shares, dark.draw(uses, rng))

    def greedy(self, context: Context) -> Plan | None:
        desk = self.desk(context)
        return desk.plan(desk.mean.plan(self._price(desk)), desk.mean.tried.pools)


# MERGED: Information-directed sampling: a plan is worth a worse outlook if it teaches enough about dark pools.


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
