"""What an order would have cost with another plan, from the books at its arrival and from what became of its children.

Nobody knows for certain: the other plan was not sent. What is known is used first, and the rest is guessed:

- Shares taken at once pay the displayed prices, and for each as much more or less as those that were really taken.
- A pool, or a queue, that left some of what it was sent has nothing more to give: a smaller or larger order would have
  got the same, or all of it. One that filled everything has at least that. A child that rests in a pool finds no less
  there than one that does not wait.
- Where all trades of the market were told, they say what a queue would have filled (`riskroute.live.market_history`).
- What was not tried is expected to fill as it did in other orders: hazards by size (`riskroute.learning.hazards`).
- The remainder at the deadline pays the prices of the books then; where they were not told, what others paid then, if
  anybody did, and the displayed prices of the arrival otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from riskroute.core.arrays import Vector
from riskroute.learning.hazards import Hazards
from riskroute.live.market_history import Market
from riskroute.live.state.events import ChildOutcome, ParentOrder, touch_prices
from riskroute.routers.contextual.dark_belief import EDGES
from riskroute.routers.contextual.market_features import horizon_class
from riskroute.routers.plan import Plan

REFRESH = 20
"""Expectations are worked out anew after so many trials."""

SHOWN = (1, 100, 1000)
"""Sizes of orders whose chances are shown."""

MOST = 100_000
"""A child counts as one of so many shares at most."""

AT_ONCE = 10**7
"""A resting child that was filled within so many nanoseconds found all of it when it came."""

_STRENGTH = 2.0  # trials that the first guess is worth
_NOTHING_TOLD = Market({}, ())


class Estimate(NamedTuple):
    """A cost in 1e-9 dollars against the arrival mid, fees included, and the shares whose fate was guessed."""

    cost: float
    guessed: float


class Fills:
    """What places have filled of what they were sent, and what to expect of them."""

    def __init__(self) -> None:
        self.sizes: dict[str, Hazards] = {}
        self._expected: dict[str, tuple[float, Vector]] = {}

    def learn(self, kind: str, place: str, horizon: float, sent: int, filled: int) -> None:
        """Learn from a child that is done."""
        key = _key(kind, place, horizon)
        if key not in self.sizes:
            self.sizes[key] = _first_guess(kind)
        self.sizes[key].add(min(sent, MOST), min(filled, sent, MOST))

    def expected(self, kind: str, place: str, horizon: float, shares: int) -> Vector:
        """Shares filled on average of orders of 0, 1 .. shares."""
        key = _key(kind, place, horizon)
        belief = self.sizes.get(key)
        trials = belief.trials if belief is not None else 0.0
        known = self._expected.get(key)
        if known is None or len(known[1]) <= shares or trials - known[0] >= min(REFRESH, 1 + known[0]):
            belief = belief or _first_guess(kind)
            known = self._expected[key] = trials, belief.expected(max(shares, 1000))
        return known[1]

    def view(self) -> list[dict[str, Any]]:
        """What is believed of every place, and how sure that is: chances that orders of some sizes are filled wholly.

        ``low`` and ``high`` are the ends of the 90 % interval of each chance, from draws of the belief.
        """
        rng, found = np.random.default_rng(0), []
        for key, belief in list(self.sizes.items()):
            kind, place, _ = key.split("\x1f")
            draws = np.array([belief.tails(SHOWN[-1], belief.draw(rng)) for _ in range(50)])
            tails = belief.tails(SHOWN[-1])
            sizes = [
                {
                    "shares": size,
                    "chance": float(tails[size - 1]),
                    "low": float(np.quantile(draws[:, size - 1], 0.05)),
                    "high": float(np.quantile(draws[:, size - 1], 0.95)),
                }
                for size in SHOWN
            ]
            found.append({"place": place, "kind": kind, "trials": float(belief.trials), "sizes": sizes})
        return found

    def more(self, kind: str, place: str, horizon: float, shares: int, known: int) -> float:
        """Shares filled on average beyond the first that are known to be there."""
        if shares <= known:
            return 0.0
        table = self.expected(kind, place, horizon, shares)
        there = float(table[known] - table[known - 1]) if known else 1.0
        return float(table[shares] - table[known]) / max(there, 1e-9)


def _first_guess(kind: str) -> Hazards:
    """Few pools hold something at once, and half of the orders that rest meet somebody; less for larger orders.

    It is careful: what nobody has tried should not be counted as saved.
    """
    some, factor = (0.3, 0.8) if kind == "dark" else (0.5, 0.85)
    return Hazards.from_tails(EDGES, [some * factor**k for k in range(len(EDGES))], _STRENGTH)


def _key(kind: str, place: str, horizon: float) -> str:
    return f"{kind}\x1f{place}\x1f{0 if kind == 'dark' else horizon_class(horizon)}"


class Counterfactual:
    """Estimates the costs of other plans, and learns from every order what to expect."""

    def __init__(self) -> None:
        self.fills = Fills()

    def cost(
        self, order: ParentOrder, plan: Plan, seen: Sequence[ChildOutcome], market: Market | None = None
    ) -> Estimate:
        """What an order would have cost with a plan, given what became of its children, and of the market."""
        return _Imagined(self.fills, order, Book(order), seen, market or _NOTHING_TOLD).play(plan)

    def rule(self, order: ParentOrder, seen: Sequence[ChildOutcome]) -> Estimate:
        """What an order would have cost with the rule that every desk has: `cost` of `benchmark_plan`."""
        book = Book(order)
        imagined = _Imagined(self.fills, order, book, seen, _NOTHING_TOLD)
        back: float = order.quantity
        for pool in _saving_pools(order, book):
            back -= imagined.fill("dark", pool, back)
        if back > 0:
            imagined.pay(book.sweep(back))
        return imagined.estimate()

    def learn(self, order: ParentOrder, seen: Sequence[ChildOutcome]) -> None:
        """Learn from the children of an order."""
        horizon = _horizon(order)
        for slot in seen:
            if slot.kind in ("dark", "dark_rest", "limit") and slot.sent > 0 and not slot.marked:
                self.fills.learn(slot.kind, slot.place, horizon, slot.sent, max(slot.filled, 0))


def benchmark_plan(order: ParentOrder) -> Plan:
    """The rule that every desk has: all pools that save something in turn, then the displayed market."""
    pools = dict.fromkeys(_saving_pools(order, Book(order)), order.quantity)
    return Plan(order.key, dark=pools, in_turn=bool(pools))


def _saving_pools(order: ParentOrder, book: Book) -> list[str]:
    """Pools that save something against a sweep of the whole order; the book stays as it is."""
    sweep = book.again().sweep(order.quantity).cost / order.quantity
    return [one.pool for one in order.pools if sweep - one.fee + one.improvement * book.half > 0]


def _horizon(order: ParentOrder) -> float:
    return max(order.deadline - order.received, 0) / 1e9


class Taken(NamedTuple):
    """Shares taken from displayed books, and their cost against the mid, fees included."""

    shares: float
    cost: float


class Book:
    """The displayed side that an order takes from; what is taken is gone. Costs are against the mid of the books."""

    def __init__(self, order: ParentOrder, mid: int | None = None) -> None:
        bid, ask = touch_prices(order.quotes)
        self.mid, sign = (bid + ask) // 2 if mid is None else mid, order.sign
        self.half = (ask - bid) / 2
        rows = []
        for quote in order.quotes:
            for price, size in quote.asks if sign > 0 else quote.bids:
                rows.append((sign * (price - self.mid) + quote.taker, size, quote.venue, sign * price))
        rows.sort()
        self.rows = rows
        self._displayed = [float(row[1]) for row in rows]
        self.sizes = self._displayed.copy()
        self.worst = float(rows[-1][0]) if rows else 0.0

    def again(self) -> Book:
        """The same book before anything was taken."""
        new = Book.__new__(Book)
        new.mid, new.half, new.rows, new.worst = self.mid, self.half, self.rows, self.worst
        new._displayed, new.sizes = self._displayed, self._displayed.copy()
        return new

    def sweep(self, shares: float, venue: str = "", limit: float = np.inf) -> Taken:
        """Take the cheapest shares, of one venue if it is named; beyond what is displayed at the worst price of all."""
        taken, cost = self.take(shares, venue, limit)
        return Taken(shares, cost + (shares - taken) * self.worst)

    def take(self, shares: float, venue: str = "", limit: float = np.inf) -> Taken:
        """Take shares as far as they are displayed, no worse than a signed price."""
        left, cost, sizes = shares, 0.0, self.sizes
        for k, (paid, _, where, signed) in enumerate(self.rows):
            if left <= 0:
                break
            if (not venue or where == venue) and signed <= limit:
                some = min(left, sizes[k])
                sizes[k] -= some
                left, cost = left - some, cost + some * paid
        return Taken(shares - left, cost)


class _Imagined:
    """One order that is split in another way."""

    def __init__(
        self, fills: Fills, order: ParentOrder, book: Book, seen: Sequence[ChildOutcome], market: Market
    ) -> None:
        self.fills, self.order, self.seen, self.market = fills, order, seen, market
        self.book, self.horizon, self.half = book, _horizon(order), book.half
        self.cost = self.guessed = self.lit = 0.0

    def play(self, plan: Plan) -> Estimate:
        """Split the order by a plan."""
        order = self.order
        back: float = order.quantity - (0 if plan.before else plan.sent)
        for pool, most in plan.dark.items():
            sent = min(most, back) if plan.in_turn else most
            filled = self.fill("dark", pool, sent)
            back += -filled if plan.in_turn else sent - filled
        take, rest, limit = plan.take, plan.dark_rest, plan.limit
        if plan.before:
            take, rest, limit = plan.within(int(back))
            back -= sum(take.values()) + sum(rest.values()) + sum(limit.values())
        for venue, shares in take.items():
            worst = order.sign * plan.take_limits[venue] * 1e9 if venue in plan.take_limits else np.inf
            taken = self.book.take(shares, venue, worst)
            self.pay(taken)
            back += shares - taken.shares
        rule, _, venue = plan.rest.partition(":")
        later = 0.0
        if rule == "post" and self.horizon > 0:
            later += back - self.fill("limit", venue, back)
        elif back > 0:
            self.pay(self.book.sweep(back, venue if rule == "venue" else ""))
        for kind, places in (("limit", limit), ("dark_rest", rest)):
            for place, shares in places.items():
                later += shares - self.fill(kind, place, shares)
        self._late(later)
        return self.estimate()

    def estimate(self) -> Estimate:
        """The cost of all that was filled and paid for."""
        slipped = self.lit * self._slip() if self.lit else 0.0
        return Estimate(self.cost + slipped, self.guessed)

    def pay(self, taken: Taken) -> None:
        """Count shares that were taken."""
        self.cost += taken.cost
        self.lit += taken.shares

    def fill(self, kind: str, place: str, shares: float) -> float:
        """Shares that a pool or a queue fills, which are paid for."""
        if shares <= 0:
            return 0.0
        mine = [slot for slot in self.seen if slot.kind == kind and slot.place == place]
        sent, filled = sum([slot.sent for slot in mine]), sum([max(slot.filled, 0) for slot in mine])
        if kind == "limit" and place in self.market.queues:
            _, ahead, outflow = self.market.queues[place]
            known, more = min(shares, max(outflow - ahead, filled, 0)), 0.0
        elif sent and filled < sent:
            known, more = min(shares, filled), 0.0
        else:
            least, most = self._bounds(kind, place)
            known = min(shares, max(sent, least))
            more = self.fills.more(kind, place, self.horizon, min(round(shares), MOST), min(round(known), MOST))
            more = max(min(more, most - known), 0.0)
            self.guessed += max(min(shares, most) - known, 0)
        money = sum([slot.money for slot in mine]) / filled if filled > 0 else self._own_price(kind, place)
        self.cost += (known + more) * (money + self._fee(kind, place))
        return known + more

    def _bounds(self, kind: str, place: str) -> tuple[float, float]:
        """Shares that a pool gives at least and at most, from what it gave to children of the other kind.

        One that rests finds what one that does not wait finds, and perhaps more later.
        """
        other = {"dark": "dark_rest", "dark_rest": "dark"}.get(kind)
        theirs = [slot for slot in self.seen if slot.kind == other and slot.place == place]
        filled, sent = sum(max(slot.filled, 0) for slot in theirs), sum(slot.sent for slot in theirs)
        if kind == "dark_rest":
            return filled, np.inf
        at_once = all(slot.last_fill - slot.sent_at < AT_ONCE for slot in theirs if slot.filled > 0)
        return (filled if theirs and at_once else 0.0), (filled if sent > 0 and filled < sent else np.inf)

    def _own_price(self, kind: str, place: str) -> float:
        """Cost a share against the mid of what rests or trades in the dark, without fees."""
        if kind != "limit":
            improvement = next((pool.improvement for pool in self.order.pools if pool.pool == place), 0.0)
            return -improvement * self.half
        for quote in self.order.quotes:
            own = quote.bids if self.order.sign > 0 else quote.asks
            if quote.venue == place and own:
                return float(self.order.sign * (own[0][0] - self.book.mid))
        return -self.half

    def _fee(self, kind: str, place: str) -> int:
        if kind == "limit":
            return next((quote.maker for quote in self.order.quotes if quote.venue == place), 0)
        return next((pool.fee for pool in self.order.pools if pool.pool == place), 0)

    def _late(self, shares: float) -> None:
        """Pay for the remainder at the deadline."""
        if shares <= 0:
            return
        if self.market.closing:
            later = msgspec.structs.replace(self.order, quotes=self.market.closing)
            self.cost += Book(later, self.book.mid).sweep(shares).cost
            return
        late = [slot for slot in self.seen if slot.kind == "sweep" and slot.filled > 0 and self._is_late(slot)]
        if late:
            paid = sum(slot.money + slot.fees for slot in late) / sum(slot.filled for slot in late)
            self.cost += shares * paid
        else:
            self.pay(self.book.sweep(shares))

    def _is_late(self, slot: ChildOutcome) -> bool:
        middle = (self.order.received + self.order.deadline) / 2
        return self.horizon > 0 and slot.sent_at > middle

    def _slip(self) -> float:
        """How much more than displayed a share cost that was really taken at once.

        Shares taken at a venue are compared with what it displayed, and sweeps with the cheapest displayed shares.
        """
        at_once = [
            slot
            for slot in self.seen
            if slot.filled > 0 and slot.kind in ("take", "sweep") and not slot.marked and not self._is_late(slot)
        ]
        shares = sum([slot.filled for slot in at_once])
        if not shares:
            return 0.0
        book, swept = self.book.again(), sum([slot.filled for slot in at_once if slot.kind == "sweep"])
        displayed = sum([book.sweep(slot.filled, slot.place).cost for slot in at_once if slot.kind == "take"])
        displayed += book.sweep(swept).cost
        return (sum([slot.money + slot.fees for slot in at_once]) - displayed) / shares
