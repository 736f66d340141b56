"""Execute a plan on the recorded market, stage by stage, on the books as they stood at each time.

1. Dark pools are tried, all at once or in turn; their fills are known a dark latency later.
2. Shares to take arrive a lit latency after the decision, and walk the books of that time down to their limits.
3. What came back is taken once more without a limit, or posted. Shares that are not displayed are looked for again
   every second, as the books refill.
4. Limit orders and shares that rest in pools wait for counterparties until the horizon.
5. The remainder is swept at the deadline: the horizon, or the arrival of the last child if that is later. Shares that
   are not displayed then are charged an estimate, and counted.

No snapshot is younger than the moment it is used at. Shares that the order has taken are not there a second time: not
in the same snapshot, and not within a second. The market does not react to the order otherwise.

Which hidden shares an order would have met is not known. An order that takes more than is displayed at a price gets at
most the hidden shares that traded there within the next second; shares hidden between bid and ask do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from riskroute.core.arrays import Floats, Matrix
from riskroute.market.clock import SECOND
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.simulation.exchange import BEYOND, Exchange, Executed, Fill

MILLISECOND = 1_000_000
REFILL = SECOND  # nobody replaces what the order has taken within this time; an order that waits looks again after it

FADE = SECOND
"""For so many nanoseconds the best price that we would take is gone, once others have learned of the order."""

TOUCH_ROUNDS = 1000  # looks of an order for the best price alone before it sweeps


def execute_plan(exchange: Exchange, number: int, context: Context, plan: Plan) -> Executed:
    """Play a plan for an order; its ``number`` decides what pools hold for it."""
    return _Execution(exchange, number, context, plan).run()


class _Taken(NamedTuple):
    """Shares that the order has taken: where, and from which snapshot at what time."""

    venue: int
    price: float
    shares: int
    row: int
    time: int


class _Execution:
    """One order under way."""

    def __init__(self, exchange: Exchange, number: int, context: Context, plan: Plan) -> None:
        self.exchange, self.number, self.context, self.plan = exchange, number, context, plan
        self.done = Executed(context)
        self.back = context.shares - plan.sent
        """Shares that no child holds any more."""
        self.later = 0
        """Shares to sweep at the deadline."""
        self.missing = 0
        """Shares for one venue alone that it did not display by the deadline."""
        self.sign = context.sign
        self.own: list[_Taken] = []
        self.met: dict[tuple[int, float], int] = {}
        """Hidden shares that the order has met, by venue and price."""
        self.leaks: list[int] = []
        """Times at which others learned of the order in a dark pool."""
        self.rows = np.zeros(0, dtype=np.int64)
        """Snapshots that were looked at last, by venue."""
        self.lit, self.dark_way = (int(seconds * SECOND) for seconds in (exchange.latency.lit, exchange.latency.dark))
        self.end = context.time + int(context.horizon * SECOND)

    def run(self) -> Executed:
        time, plan = self.context.time, self.plan
        take, resting, limit, sent_at = plan.take, plan.dark_rest, plan.limit, time
        if plan.before:
            self.back = self.context.shares
        rounds = self._ping(time)
        if plan.before:
            take, resting, limit = plan.within(self.back)
            self.back -= sum(take.values()) + sum(resting.values()) + sum(limit.values())
            sent_at += rounds * self.dark_way
        for pool, shares in resting.items():
            self._leak(pool, shares, sent_at)
        taking = any(take.values())
        if taking:
            self._take(sent_at + self.lit, take, plan.take_limits)
        again = max(time + rounds * self.dark_way, sent_at + self.lit if taking else 0) + self.lit
        self.deadline = max(self.end, again)
        self._rest(again)
        for venue, shares in limit.items():
            if shares:
                self._post(venue, shares, sent_at + self.lit)
        self._wait_in_pools(resting, sent_at)
        if self.later:
            self.missing += self._sweep(self.deadline, self.later)
        if self.missing:
            self._estimate(self.missing)
        return self.done

    # 1. dark pools

    def _ping(self, time: int) -> int:
        """Try the pools; return how many round trips that took."""
        plan, rounds = self.plan, 0
        for pool, most in plan.dark.items():
            sent = min(most, self.back) if plan.in_turn else most
            if sent:
                there = time + (rounds * self.dark_way if plan.in_turn else 0)
                filled = min(sent, self._hidden(pool, there))
                self._leak(pool, sent, there)
                self._dark_child("dark", pool, sent, [(there, filled)], there, there + self.dark_way)
                rounds = rounds + 1 if plan.in_turn else 1
                self.back += -filled if plan.in_turn else sent - filled
        return rounds

    def _hidden(self, pool: str, time: int) -> int:
        dark = self.exchange.dark
        return dark.hidden(self.number, pool, recent=self.exchange.filled_recently(pool, time)) if dark else 0

    def _leak(self, pool: str, shares: int, time: int) -> None:
        if self.exchange.dark and self.exchange.dark.leaks(self.number, pool, shares):
            self.leaks.append(time)

    def _dark_child(
        self, kind: str, pool: str, sent: int, fills: list[tuple[int, int]], posted: int, known: int
    ) -> None:
        one = next(pool_ for pool_ in self.context.pools if pool_.name == pool)
        child = len(self.done.children)
        total = money = last = 0.0
        for time, shares in fills:
            if shares:
                mid, half = self.exchange.mid_and_half_spread(time, self.context)
                price = mid - self.sign * one.improvement * half
                self.done.fills.append(Fill(child, kind, pool, time, shares, price, one.fee))
                total, money, last = total + shares, money + shares * price, time
                self.exchange.note_dark_fill(pool, time)
        self._report(child, kind, pool, sent, int(total), money, one.fee * total, int(last), known, posted)

    def _wait_in_pools(self, resting: Mapping[str, int], begin: int) -> None:
        """Rest shares in pools from a time on, until they are filled, recalled, or the horizon ends."""
        plan, time = self.plan, self.context.time
        wait = self.context.horizon if plan.recall is None else min(plan.recall, self.context.horizon)
        for pool, shares in resting.items():
            if not shares:
                continue
            left, fills = shares, []
            dark = self.exchange.dark
            came = (
                dark.arrivals(self.number, pool, wait, recent=self.exchange.filled_recently(pool, time)) if dark else []
            )
            for when, size in ((time + int(seconds * SECOND), size) for seconds, size in came):
                if left and when >= begin:
                    fills.append((when, min(size, left)))
                    left -= min(size, left)
            recalled = time + int(wait * SECOND) + self.dark_way
            self._dark_child("dark_rest", pool, shares, fills, begin, fills[-1][0] if not left else recalled)
            self._sweep_again(recalled + self.lit, left)

    # 2. taking

    def _side_now(self, time: int) -> tuple[Matrix, Matrix]:
        """Prices and sizes to take from as of a time, without what we have taken ourselves."""
        prices, sizes, self.rows = self.exchange.side(self.number, self.sign, time)
        for one in self.own:
            if self.rows[one.venue] == one.row or abs(time - one.time) <= REFILL:
                at = prices[one.venue] == one.price
                sizes[one.venue][at] = np.maximum(sizes[one.venue][at] - one.shares, 0.0)
        if any(0 < time - leak <= FADE for leak in self.leaks):
            signed = np.where(sizes >= 1, self.sign * prices, np.inf)
            sizes[signed == signed.min()] = 0.0
        return prices, sizes

    def _take(self, time: int, take: Mapping[str, int], limits: Mapping[str, float]) -> None:
        """Walk the books down to the limits of the children; what would trade through a better quote comes back."""
        prices, sizes = self._side_now(time)
        venues = self.exchange.books.venues
        signed = self.sign * prices
        for name, shares in take.items():
            if not shares:
                continue
            venue = venues.index(name)
            limit = self.sign * limits[name] if name in limits else np.inf
            protected = self._protected(signed, sizes, venue, take, limits) if self.context.protected else np.inf
            allowed = limit if self.plan.trade_through else min(limit, protected)
            left = self._walk("take", name, venue, shares, time, prices, sizes, allowed)
            if protected < limit:
                beyond = min(shares, _within(signed[venue], sizes[venue], limit))
                beyond -= min(shares, _within(signed[venue], sizes[venue], protected))
                if self.plan.trade_through:
                    self.done.through += beyond
                else:
                    self.done.prevented += beyond
            self.back += left

    def _protected(
        self, signed: Matrix, sizes: Matrix, venue: int, take: Mapping[str, int], limits: Mapping[str, float]
    ) -> float:
        """The worst signed price at which a child may trade: the best quote elsewhere of which ours leave a lot."""
        best = np.inf
        for other, name in enumerate(self.exchange.books.venues):
            quote = signed[other, 0]
            # a child whose limit the quote has left behind takes none of it
            ours = take.get(name, 0) if name not in limits or quote <= self.sign * limits[name] else 0
            if other != venue and sizes[other, 0] - ours >= self.context.lot:
                best = min(best, quote)
        return float(best)

    def _walk(
        self,
        kind: str,
        name: str,
        venue: int,
        shares: int,
        time: int,
        prices: Matrix,
        sizes: Matrix,
        limit: float = np.inf,
    ) -> int:
        """Trade up to ``shares`` at one venue, no worse than a signed price; returns the remainder."""
        child, left, money, fee = len(self.done.children), shares, 0.0, float(self.exchange.takers[venue])
        for level in range(prices.shape[1]):
            price, there = float(prices[venue, level]), int(sizes[venue, level])
            if left == 0 or not self.sign * price <= limit:
                break
            taken = min(left, there)
            if taken:
                self.done.fills.append(Fill(child, kind, name, time, taken, price, fee))
                self.own.append(_Taken(venue, price, taken, int(self.rows[venue]), time))
                left, money = left - taken, money + taken * price
            if left and (met := self._met_hidden(venue, price, time, left)):
                self.done.fills.append(Fill(child, kind, name, time, met, price, fee))
                left, money = left - met, money + met * price
        filled = shares - left
        last = time if filled else 0
        self._report(child, kind, name, shares, filled, money, fee * filled, last, time + self.lit, time)
        return left

    def _met_hidden(self, venue: int, price: float, time: int, most: int) -> int:
        """Hidden shares that a child meets once it has taken all that is displayed at a price."""
        before = self.met.get((venue, price), 0)
        met = min(max(self.exchange.hidden_shares(venue, price, time) - before, 0), most)
        if met:
            self.met[venue, price] = before + met
        return met

    # 3. what came back

    def _rest(self, time: int) -> None:
        if self.back == 0:
            return
        rule, _, venue = self.plan.rest.partition(":")
        shares, self.back = self.back, 0
        if rule == "post" and self.end > time:
            self._post(venue, shares, time)
        elif rule == "venue":
            self._cross(venue, shares, time)
        elif rule == "touch":
            self._touch(shares, time)
        else:
            self._sweep_again(time, shares)

    def _sweep_again(self, time: int, shares: int) -> None:
        """Sweep from a time on, whenever the books have refilled; leftover shares wait for the deadline."""
        while shares and time < self.deadline:
            shares = self._sweep(time, shares)
            time += REFILL
        self.later += shares

    def _sweep(self, time: int, shares: int) -> int:
        """Take shares where they are cheapest; return those that are not displayed."""
        prices, sizes = self._side_now(time)
        return self._take_cheapest(time, shares, prices, sizes, sizes)

    def _take_cheapest(
        self, time: int, shares: int, prices: Matrix, sizes: Matrix, wanted: Matrix, limit: float = np.inf
    ) -> int:
        """Take the cheapest of the ``wanted`` sizes, no worse than a signed price; return the remainder."""
        taken, left = self.context.book(prices, wanted, self.exchange.takers).take(shares), shares
        venues = self.exchange.books.venues
        for venue in np.flatnonzero(taken.shares):
            sent = int(taken.shares[venue])
            left -= sent - self._walk("sweep", venues[venue], int(venue), sent, time, prices, sizes, limit)
        return left

    def _estimate(self, shares: int) -> None:
        """Charge shares beyond the books of the deadline at an extrapolation of them."""
        book = self.exchange.last_book(self.number, self.context, self.deadline)
        time, fee = self.deadline, book.last_taker
        price = self.context.mid + self.sign * (book.beyond(shares) / shares - fee)
        child = len(self.done.children)
        self.done.fills.append(Fill(child, "sweep", BEYOND, time, shares, price, fee, estimated=True))
        self._report(child, "sweep", BEYOND, shares, shares, price * shares, fee * shares, time, time + self.lit, time)

    def _cross(self, name: str, shares: int, time: int) -> None:
        """Take at one venue, whatever it costs, whenever its book has refilled."""
        venue = self.exchange.books.venues.index(name)
        while shares:
            prices, sizes = self._side_now(time)
            shares = self._walk("sweep", name, venue, shares, time, prices, sizes)
            if time >= self.deadline:
                break
            time = min(time + REFILL, self.deadline)
        self.missing += shares

    def _touch(self, shares: int, time: int) -> None:
        """Take at the best price alone, every millisecond, until all is done or the deadline is there."""
        left = shares
        for now in range(time, min(time + TOUCH_ROUNDS * MILLISECOND, self.deadline), MILLISECOND):
            prices, sizes = self._side_now(now)
            signed = np.where(sizes >= 1, self.sign * prices, np.inf)
            best = float(signed.min())
            if np.isfinite(best):
                at_best = np.where(signed == best, sizes, 0.0)
                left = self._take_cheapest(now, left, prices, sizes, at_best, best)
            if left == 0:
                return
        self._sweep_again(time + TOUCH_ROUNDS * MILLISECOND, left)

    # 4. waiting

    def _post(self, name: str, shares: int, time: int) -> None:
        """Join the queue at a venue's best own-side price until the horizon."""
        venue = self.exchange.books.venues.index(name)
        queue = self.exchange.queue
        price, fills = queue.fills(venue, self.sign, time, self.end, shares) if queue else (float("nan"), [])
        child, filled, fee = len(self.done.children), 0, float(self.exchange.makers[venue])
        for when, some in fills:
            self.done.fills.append(Fill(child, "limit", name, when, some, price, fee))
            filled += some
        last = fills[-1][0] if fills else 0
        known = last if filled == shares else self.end
        money = price * filled if filled else 0.0
        self._report(child, "limit", name, shares, filled, money, fee * filled, last, known, time)
        self.later += shares - filled

    def _report(
        self,
        child: int,
        kind: str,
        place: str,
        sent: int,
        filled: int,
        money: float,
        fee: float,
        last: int,
        known: int,
        posted: int,
    ) -> None:
        price = money / filled if filled else 0.0
        self.done.children.append(ChildReport(child, kind, place, sent, filled, price, fee, last, known, posted))


def _within(signed: Floats, sizes: Floats, limit: float) -> int:
    """Shares displayed at one venue no worse than a signed price."""
    return int(sizes[signed <= limit].astype(np.int64).sum())
