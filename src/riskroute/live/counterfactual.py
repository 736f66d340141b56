"""Estimate the cost of an order under another plan, from its books and the fills of its children.

The children of the other plan follow from `riskroute.routers.execution`, as in the backtest and in the live router;
their fills are estimated, from the best evidence available:

- Shares taken at once pay the displayed prices, plus the slippage of the shares that real children took.
- A pool or queue that filled a child partly had no more shares: its fill is known for any size. If it filled the child
  completely, it had at least as many shares. A child resting in a pool fills at least as much as an immediate child.
- If all trades of the market are known, the fill of a limit order follows from the outflow of its queue.
- Other fills are expectations, from the fills of earlier children: hazards by size (`riskroute.learning.hazards`).
- The remainder at the deadline pays the prices displayed at that time; if these are unknown, what real children paid
  then; otherwise, the displayed prices at arrival.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.runtime import cached
from riskroute.learning.hazards import Hazards
from riskroute.live.children import context_of
from riskroute.live.market_history import ObservedHistory
from riskroute.live.state.amounts import NANO
from riskroute.live.state.orders import ChildOrderOutcome, ParentOrder
from riskroute.routers.context import Context
from riskroute.routers.contextual.dark_belief import EDGES
from riskroute.routers.contextual.market_features import horizon_feature
from riskroute.routers.execution import DEADLINE, RETURNED, Execution, ExecutionChild, ExecutionLevels, execution_limit
from riskroute.routers.plan import Plan
from riskroute.routing.consolidated import displayed_cost
from riskroute.routing.fees import fee_at

_MOST = 100_000  # larger children count as one of this size: hazards keep an entry for every size


class CounterfactualCost(NamedTuple):
    """A counterfactual cost against the arrival mid, fees included, as an amount of the instrument.

    ``guessed`` is the number of units whose fill is unknown and replaced by its expectation. ``children`` are those
    that the plan would have sent, with their fills.
    """

    cost: float
    guessed: float
    children: tuple[tuple[ExecutionChild, float], ...] = ()


class Counterfactual:
    """Estimates the costs of other plans, with fill hazards by size for every pool and queue, learned from children."""

    refresh = 20  # trials between updates of the expectations
    shown = (1, 100, 1000)  # sizes in `fill_beliefs`

    def __init__(self) -> None:
        self._hazards: dict[str, Hazards] = {}
        self._expected: dict[str, tuple[float, Vector]] = {}

    def cost(
        self,
        order: ParentOrder,
        plan: Plan,
        seen: Sequence[ChildOrderOutcome],
        market: ObservedHistory | None = None,
        context: Context | None = None,
    ) -> CounterfactualCost:
        """Estimate the cost of an order with a plan, given the outcomes of its real children and the observed market.

        ``context`` is the context of the order at its arrival; default: computed.
        """
        context = context or context_of(order, order.received)
        return _Counterplan(self, order, context, plan, seen, market or ObservedHistory({}, ())).play()

    def learn(self, order: ParentOrder, seen: Sequence[ChildOrderOutcome]) -> None:
        """Learn from the children of an order."""
        horizon, counted = _horizon(order), _counted(order)
        for child in seen:
            if child.kind in ("dark", "dark_rest", "limit") and child.sent > 0 and not child.marked:
                key = _key(child.kind, child.place, horizon, counted)
                grain = counted[0]
                sent = min(max(round(child.sent / grain), 1), _MOST)
                if key not in self._hazards:
                    self._hazards[key] = _prior(child.kind)
                self._hazards[key].add(sent, min(max(round(child.filled / grain), 0), sent))

    def fill_beliefs(self) -> list[dict[str, Any]]:
        """Return, by place and kind of child, the probability that children of some sizes are filled completely.

        ``low`` and ``high`` are the ends of the probability's 90 % credible interval, from posterior draws. Sizes are
        multiples of the quantity ``counted``; ``symbol`` is empty for all instruments that are counted in single units.
        """
        rng, found = np.random.default_rng(0), []
        for key, belief in list(self._hazards.items()):
            kind, place, _, counted, symbol = key.split("\x1f")
            draws = np.array([belief.tails(self.shown[-1], belief.draw(rng)) for _ in range(50)])
            tails = belief.tails(self.shown[-1])
            sizes = [
                {
                    "size": size,
                    "chance": float(tails[size - 1]),
                    "low": float(np.quantile(draws[:, size - 1], 0.05)),
                    "high": float(np.quantile(draws[:, size - 1], 0.95)),
                }
                for size in self.shown
            ]
            about = {"place": place, "kind": kind, "symbol": symbol, "counted": counted}
            found.append(about | {"trials": float(belief.trials), "sizes": sizes})
        return found

    def more(self, kind: str, place: str, order: ParentOrder, units: float, filled: float) -> float:
        """Return the expected fill of a child beyond ``filled`` units, given that these are filled."""
        counted = _counted(order)
        grain = counted[0]
        shares, known = min(round(units / grain), _MOST), min(round(filled / grain), _MOST)
        if shares <= known:
            return 0.0
        key = _key(kind, place, _horizon(order), counted)
        belief = self._hazards.get(key)
        trials = belief.trials if belief is not None else 0.0
        computed = self._expected.get(key)
        if computed is None or len(computed[1]) <= shares or trials - computed[0] >= min(self.refresh, 1 + computed[0]):
            belief = belief or _prior(kind)
            computed = self._expected[key] = trials, belief.expected(max(shares, 1000))
        table = computed[1]  # expected fills of 0, 1 .. shares
        there = float(table[known] - table[known - 1]) if known else 1.0
        return grain * float(table[shares] - table[known]) / max(there, 1e-9)


def _prior(kind: str) -> Hazards:
    """Return the prior, worth two trials: a pessimistic one, so that untried places are not counted as savings."""
    some, factor = (0.3, 0.8) if kind == "dark" else (0.5, 0.85)
    return Hazards.from_tails(EDGES, [some * factor**k for k in range(len(EDGES))], 2.0)


def _key(kind: str, place: str, horizon: float, counted: tuple[int, str]) -> str:
    return f"{kind}\x1f{place}\x1f{0 if kind == 'dark' else horizon_feature(horizon)}\x1f{counted[1]}"


def _counted(order: ParentOrder) -> tuple[int, str]:
    """Return the number of units that hazards count as one, and its text with the symbol.

    Fractional units can be tiny: then it is the power of ten that is worth 1 to 10 of the currency.
    """
    instrument = order.instrument
    if instrument.unit >= 1:
        return 1, "1 unit\x1f"
    value = max(order.mid / order.scale.one, 1e-30)
    grain = 10 ** max(math.ceil(-math.log10(value)), 0)
    return grain, f"{instrument.quantity_text(grain)}\x1f{order.symbol}"


def counterfactual_plan(context: Context) -> Plan:
    """Return the standard routing rule's plan: all pools with a saving in turn, then a sweep."""
    savings = context.pool_savings if context.pools else {}
    dark = {pool: context.shares for pool, saving in savings.items() if saving > 0}
    return Plan(context.order, dark=dark, in_turn=True)


def _horizon(order: ParentOrder) -> float:
    return max(order.deadline - order.received, 0) / 1e9


class _Displayed:
    """The displayed side, less the shares taken. Costs against the arrival mid are prices times units."""

    def __init__(self, context: Context, levels: ExecutionLevels | None = None) -> None:
        if levels is None:
            prices, sizes = context.books.side("ask" if context.sign > 0 else "bid")
            levels = ExecutionLevels(context.books.venues, prices, sizes, context.books.takers)
        self.context, self.shown, self.levels = context, levels, levels

    @cached
    def worst(self) -> float:
        """The worst displayed cost per share, which shares beyond the books are charged."""
        prices, sizes, takers = self.shown[1:]
        each: Matrix = self.context.sign * (prices - self.context.mid) + fee_at(takers[:, None], prices)
        there = each[(sizes > 0) & np.isfinite(each)]
        return float(there.max()) if there.size else 0.0

    def walk(self, name: str, shares: float, limit: float) -> tuple[float, float]:
        """Take shares at one venue, no worse than a signed price; return the shares taken and their cost."""
        if name not in self.levels.venues:
            return 0.0, 0.0
        venue = self.levels.venues.index(name)
        if self.levels is self.shown:
            self.levels = self.shown._replace(sizes=self.shown.sizes.copy())
        left, cost, sizes = shares, 0.0, self.levels.sizes[venue]
        sign, mid, (per, fraction) = self.context.sign, self.context.mid, self.levels.takers[venue].tolist()
        for level, price in enumerate(self.levels.prices[venue].tolist()):
            if left <= 0 or not sign * price <= limit:
                break
            some = min(left, float(sizes[level]))
            sizes[level] -= some
            left, cost = left - some, cost + some * (sign * (price - mid) + per + fraction * abs(price))
        return shares - left, cost

    def sweep_cost(self, shares: float) -> float:
        """Return the cost of a sweep, without removing its shares."""
        context, (_, prices, sizes, takers) = self.context, self.levels
        sign, mid, protect = context.sign, context.mid, context.protected
        inside, cost = displayed_cost(prices, sizes, takers, sign=sign, mid=mid, shares=shares, protect=protect)
        return cost + (shares - inside) * self.worst if inside < shares else cost


class _Counterplan:
    """The estimated execution of one order with another plan."""

    def __init__(
        self,
        beliefs: Counterfactual,
        order: ParentOrder,
        context: Context,
        plan: Plan,
        seen: Sequence[ChildOrderOutcome],
        market: ObservedHistory,
    ) -> None:
        self.beliefs, self.order, self.plan, self.seen, self.market = beliefs, order, plan, seen, market
        self.context = context
        self.horizon, self.sign = _horizon(order), context.sign
        self.at_one = order.scale.at_one
        self.half = (context.books.best_ask - context.books.best_bid) / 2 * self.at_one
        self.execution, self.book = Execution(plan, context), _Displayed(context)
        self.children: list[tuple[ExecutionChild, float]] = []
        self.cost = self.guessed = self.lit = 0.0

    def play(self) -> CounterfactualCost:
        """Send the children of the plan, stage by stage, and sum up the costs of their fills."""
        execution, plan = self.execution, self.plan
        while pings := execution.pings():
            for child in pings:
                execution.sent(child)
                self._fill(child)
        children = execution.plan_children()
        for child in children:
            execution.sent(child)
        takes = {child.place: child for child in children if child.kind == "take"}
        limits = [self._take_limit(child, takes) for child in takes.values()]  # before any of them takes something
        for child, limit in zip(takes.values(), limits, strict=True):
            self._take(child, limit)
        for child in children:
            if child.kind != "take":
                self._fill(child)
        posts = execution.post() if self.horizon > 0 else []
        for child in posts:
            execution.sent(child)
            self._fill(child)
        rule = execution.rule
        while rule == "touch" and self.horizon > 0 and self._look(RETURNED, "touch"):
            pass
        if not posts and self.horizon > 0:
            self._look(RETURNED, "venue" if rule == "venue" else "sweep")
        if plan.recall is not None and plan.recall < self.horizon:
            for pool in plan.dark_rest:
                self._look(pool, "sweep")
        execution.close()
        if rule == "venue":
            self._look(RETURNED, "venue")
        self._deadline()
        if missing := execution.later + execution.returned:
            self.cost += missing * self.book.worst * self.at_one
            self.lit += missing
        slipped = self.lit * self._slippage() if self.lit else 0.0
        return CounterfactualCost(self.cost + slipped, self.guessed, tuple(self.children))

    def _done(self, child: ExecutionChild, filled: float) -> None:
        self.execution.done(child, filled)
        self.children.append((child, filled))

    # displayed shares

    def _take_limit(self, child: ExecutionChild, takes: dict[str, ExecutionChild]) -> float:
        limit = math.inf if child.limit is None else self.sign * child.limit
        if self.plan.trade_through:
            return limit
        venue = self.book.levels.venues.index(child.place)
        return min(limit, execution_limit(self.context, self.book.levels, takes, venue))

    def _take(self, child: ExecutionChild, limit: float) -> None:
        filled, cost = self.book.walk(child.place, child.shares, limit)
        self.cost += cost * self.at_one
        self.lit += filled
        self._done(child._replace(limit=None if limit == math.inf else self.sign * limit), filled)

    def _look(self, stage: str, rule: str) -> bool:
        """Take the displayed shares that the children of a look find; return whether there were any children."""
        execution = self.execution
        shares = {RETURNED: execution.returned, DEADLINE: execution.later}.get(stage, execution.recalled.get(stage, 0))
        children = execution.retry(stage, rule, self.book.levels)
        for child in children:
            # Children have whole shares, expectations do not: scale down, by less than a share in total.
            part = child._replace(shares=child.shares * shares / math.ceil(shares))  # type: ignore[arg-type]  # fractional
            execution.sent(part)
            self._take(part, math.inf if part.limit is None else self.sign * part.limit)
        return bool(children)

    def _deadline(self) -> None:
        """Sweep the remainder at the deadline, at the best available estimate of prices at that time."""
        if self.execution.later <= 0:
            return
        late = [child for child in self.seen if child.kind == "sweep" and child.filled > 0 and self._is_late(child)]
        cost, lit, shares = self.cost, self.lit, self.execution.later
        if self.market.closing:
            later = context_of(msgspec.structs.replace(self.order, quotes=self.market.closing), self.order.deadline)
            side = later.books.side("ask" if self.sign > 0 else "bid")
            self.book = _Displayed(self.context, ExecutionLevels(later.books.venues, *side, later.books.takers))
        self._look(DEADLINE, "sweep")
        if self.market.closing:
            self.lit = lit  # these are the prices of that time: no slippage on top
            self.cost += self.execution.later * self.book.worst * self.at_one
        elif late:
            paid = sum(child.money + child.fees for child in late) / sum(child.filled for child in late)
            self.cost, self.lit = cost + shares * paid, lit
        else:
            return
        self.execution.later = 0

    def _is_late(self, child: ChildOrderOutcome) -> bool:
        middle = (self.order.received + self.order.deadline) / 2
        return self.horizon > 0 and child.sent_at > middle

    def _slippage(self) -> float:
        """Return the slippage per share, against displayed prices, of the shares that were really taken at once.

        Shares taken at a venue are compared with what it displayed, and sweeps with the cheapest displayed shares.
        """
        at_once = [
            child
            for child in self.seen
            if child.filled > 0 and child.kind in ("take", "sweep") and not child.marked and not self._is_late(child)
        ]
        shares = sum([child.filled for child in at_once])
        if not shares:
            return 0.0
        book, displayed = _Displayed(self.context), 0.0
        for child in at_once:
            if child.kind == "take":
                filled, cost = book.walk(child.place, child.filled, math.inf)
                displayed += cost + (child.filled - filled) * book.worst
        displayed += book.sweep_cost(sum([child.filled for child in at_once if child.kind == "sweep"]))
        return (sum([child.money + child.fees for child in at_once]) - displayed * self.at_one) / shares

    # pools and queues

    def _fill(self, child: ExecutionChild) -> None:
        """Pay for the shares that a pool or a queue fills, and finish the child."""
        kind, place, shares = child.kind, child.place, child.shares
        mine = [one for one in self.seen if one.kind == kind and one.place == place]
        sent, filled = sum([one.sent for one in mine]), sum([max(one.filled, 0) for one in mine])
        known: float
        if kind == "limit" and self._own_touch(place) is None:
            known, more = 0, 0.0  # there is no queue to join
        elif kind == "limit" and place in self.market.queues:
            _, ahead, outflow = self.market.queues[place]
            known, more = min(shares, max(outflow - ahead, filled, 0)), 0.0
        elif sent and filled < sent:
            known, more = min(shares, filled), 0.0
        else:
            least, most = self._bounds(kind, place)
            known = min(shares, max(sent, least))
            more = self.beliefs.more(kind, place, self.order, shares, known)
            more = max(min(more, most - known), 0.0)
            self.guessed += max(min(shares, most) - known, 0)
        money = sum([one.money for one in mine]) / filled if filled > 0 else self._own_price(kind, place)
        self.cost += (known + more) * (money + self._fee(kind, place))
        self._done(child, known + more)

    def _bounds(self, kind: str, place: str) -> tuple[float, float]:
        """Return bounds on the shares that a dark child would have filled, from the pool's fills of the other type.

        The types are immediate and resting; a resting child fills at least as much as an immediate one.
        """
        other = {"dark": "dark_rest", "dark_rest": "dark"}.get(kind)
        theirs = [child for child in self.seen if child.kind == other and child.place == place]
        filled, sent = sum(max(child.filled, 0) for child in theirs), sum(child.sent for child in theirs)
        if kind == "dark_rest":
            return filled, np.inf
        # a resting child that was filled within 10 ms found the shares when it arrived
        at_once = all(child.last_fill - child.sent_at < 10**7 for child in theirs if child.filled > 0)
        return (filled if theirs and at_once else 0.0), (filled if sent > 0 and filled < sent else np.inf)

    def _own_price(self, kind: str, place: str) -> float:
        """Return the cost per share of a resting or dark fill against the mid, without fees."""
        if kind != "limit":
            improvement = next((pool.improvement for pool in self.order.pools if pool.pool == place), 0.0)
            return -improvement * self.half
        touch = self._own_touch(place)
        return (
            -self.half
            if touch is None
            else float(self.sign * (touch * self.order.scale.unit - self.context.mid * self.at_one))
        )

    def _own_touch(self, venue: str) -> int | None:
        for quote in self.order.quotes:
            own = quote.bids if self.sign > 0 else quote.asks
            if quote.venue == venue and own:
                return own[0][0]
        return None

    def _fee(self, kind: str, place: str) -> float:
        """Return the fee per unit of a resting or dark fill."""
        if kind != "limit":
            return self.at_one * next((pool.fee for pool in self.context.pools if pool.name == place), 0.0)
        books, touch = self.context.books, self._own_touch(place)
        if touch is None:
            return 0.0
        return self.at_one * float(fee_at(books.makers[books.venues.index(place)], touch / NANO))
