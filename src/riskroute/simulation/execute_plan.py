"""Execute a plan on the recorded market: simulate the fills of the children that `riskroute.routers.execution` sends.

Children meet the books as of their arrival, a latency after they are sent; pings of dark pools are answered a dark
latency later. No snapshot is used before its time. Shares beyond the depth at the deadline are charged an estimated
price and marked as estimated. Orders affect the market only by the shares they take and by information leakage.

Hidden liquidity is not recorded. Beyond the displayed size at a price, an order gets at most the hidden shares that
trade there within the next second; shares hidden inside the spread are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.market.clock import SECOND
from riskroute.routers.context import Context
from riskroute.routers.execution import (
    DEADLINE,
    RETURNED,
    Execution,
    ExecutionChild,
    ExecutionFill,
    ExecutionLevels,
    execution_limit,
    remove_own,
    retry_schedule,
)
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.simulation.exchange import BEYOND, Exchange, ExchangeExecution, ExchangeFill


def execute_plan(exchange: Exchange, number: int, context: Context, plan: Plan) -> ExchangeExecution:
    """Execute the plan of an order; ``number``, its index in the day, selects the random draws of the pools."""
    return _SimulatedOrder(exchange, number, context, plan).run()


class _SimulatedOrder:
    """Simulated execution of one order."""

    def __init__(self, exchange: Exchange, number: int, context: Context, plan: Plan) -> None:
        self.exchange, self.number, self.context, self.plan = exchange, number, context, plan
        self.execution = Execution(plan, context)
        self.done = ExchangeExecution(context)
        self.sign = context.sign
        self.own: list[ExecutionFill] = []
        self.met: dict[tuple[int, float], int] = {}  # hidden shares filled so far, by venue and price
        self.leaks: list[int] = []  # times at which a dark pool leaked information
        self.rows: Integers = np.zeros(0, dtype=np.int64)  # rows of the latest snapshots, by venue
        self.lit, self.dark_way = (int(seconds * SECOND) for seconds in (exchange.latency.lit, exchange.latency.dark))
        self.end = context.time + int(context.horizon * SECOND)
        self.deadline = self.end

    def run(self) -> ExchangeExecution:
        time, execution = self.context.time, self.execution
        rounds = 0
        while pings := execution.pings():
            for child in pings:
                self._ping(child, time + rounds * self.dark_way)
            rounds += 1
        sent_at = time + (rounds * self.dark_way if self.plan.before else 0)
        children = execution.plan_children()
        takes, resting, limits = ([c for c in children if c.kind == kind] for kind in ("take", "dark_rest", "limit"))
        for child in children:
            execution.sent(child)
        for child in resting:
            self._leak(child, sent_at)
        if takes:
            self._take(takes, sent_at + self.lit)
        again = max(time + rounds * self.dark_way, sent_at + self.lit if takes else 0) + self.lit
        self.deadline = max(self.end, again)
        posts = execution.post() if self.end > again else []
        for child in posts:
            execution.sent(child)
            self._post(child, again)
        if not posts:
            self._look_again(RETURNED, execution.rule if execution.rule in ("touch", "venue") else "sweep", again)
        for child in limits:
            self._post(child, sent_at + self.lit)
        for child in resting:
            self._wait_in_pool(child, sent_at)
        execution.close()
        if execution.later:
            self._sweep(DEADLINE, "sweep", self.deadline)
        if missing := int(execution.later + execution.returned):
            self._estimate(missing)
        return self.done

    def _ping(self, child: ExecutionChild, time: int) -> None:
        dark, filled = self.exchange.dark, 0
        if dark:
            recent = self.exchange.filled_recently(child.place, time)
            filled = min(child.shares, dark.hidden(self.number, child.place, recent=recent))
        self._leak(child, time)
        self._dark_child(child, [(time, filled)], time, time + self.dark_way)
        self.execution.finish(child, filled)

    def _leak(self, child: ExecutionChild, time: int) -> None:
        if self.exchange.dark and self.exchange.dark.leaks(self.number, child.place, child.shares):
            self.leaks.append(time)

    def _dark_child(self, child: ExecutionChild, fills: list[tuple[int, int]], posted: int, known: int) -> None:
        pool = next(one for one in self.context.pools if one.name == child.place)
        number = len(self.done.children)
        total = money = last = 0.0
        for time, shares in fills:
            if shares:
                mid, half = self.exchange.mid_and_half_spread(time, self.context)
                price = mid - self.sign * pool.improvement * half
                self.done.fills.append(ExchangeFill(number, child.kind, pool.name, time, shares, price, pool.fee))
                total, money, last = total + shares, money + shares * price, time
                self.exchange.note_dark_fill(pool.name, time)
        self._report(child, int(total), money, pool.fee * total, int(last), known, posted)

    def _wait_in_pool(self, child: ExecutionChild, begin: int) -> None:
        """Rest shares in a pool until they are filled, recalled, or the horizon ends; sweep the remainder."""
        plan, time, pool, dark = self.plan, self.context.time, child.place, self.exchange.dark
        wait = self.context.horizon if plan.recall is None else min(plan.recall, self.context.horizon)
        recent = self.exchange.filled_recently(pool, time)
        left, fills = child.shares, []
        for seconds, size in dark.arrivals(self.number, pool, wait, recent=recent) if dark else ():
            when = time + int(seconds * SECOND)
            if left and when >= begin:
                fills.append((when, min(size, left)))
                left -= min(size, left)
        recalled = time + int(wait * SECOND) + self.dark_way
        self._dark_child(child, fills, begin, recalled if left else fills[-1][0])
        self.execution.done(child, child.shares - left)
        self._look_again(pool, "sweep", recalled + self.lit)

    def _levels(self, time: int) -> ExecutionLevels:
        """Return the displayed levels at a time, without shares that we took or that a leak caused to be cancelled."""
        prices, sizes, self.rows = self.exchange.side(self.number, self.sign, time)
        remove_own(prices, sizes, self.own, self.rows, time)
        # After a leak, the shares at the best price of all venues are cancelled for a second.
        if any(0 < time - leak <= SECOND for leak in self.leaks):
            signed = np.where(sizes >= 1, self.sign * prices, np.inf)
            sizes[signed == signed.min()] = 0.0
        return ExecutionLevels(self.exchange.books.venues, prices, sizes, self.exchange.takers)

    def _take(self, takes: Iterable[ExecutionChild], time: int) -> None:
        """Walk the books down to the children's limits, and through better quotes only if the plan allows it."""
        levels, by_venue = self._levels(time), {child.place: child for child in takes}
        for name, child in by_venue.items():
            venue = levels.venues.index(name)
            limit = math.inf if child.limit is None else self.sign * child.limit
            protected = execution_limit(self.context, levels, by_venue, venue)
            allowed = limit if self.plan.trade_through else min(limit, protected)
            signed, sizes = self.sign * levels.prices[venue], levels.sizes[venue]
            self.execution.done(child, self._walk(child, levels, time, allowed))
            if protected < limit:
                beyond = min(child.shares, _within(signed, sizes, limit))
                beyond -= min(child.shares, _within(signed, sizes, protected))
                if self.plan.trade_through:
                    self.done.through += beyond
                else:
                    self.done.prevented += beyond

    def _look_again(self, stage: str, rule: str, begin: int) -> None:
        """Retry the unfilled shares of a stage until all are filled or the deadline passes."""
        execution = self.execution
        for time, how in retry_schedule(rule, begin, self.deadline):
            if not (execution.returned if stage == RETURNED else execution.recalled[stage]):
                return
            self._sweep(stage, how, time)

    def _sweep(self, stage: str, rule: str, time: int) -> None:
        levels = self._levels(time)
        for child in self.execution.retry(stage, rule, levels):
            limit = math.inf if child.limit is None else self.sign * child.limit
            self.execution.finish(child, self._walk(child, levels, time, limit))

    def _walk(self, child: ExecutionChild, levels: ExecutionLevels, time: int, limit: float) -> int:
        """Trade a child at its venue at signed prices up to ``limit``; return the shares filled."""
        left, name, fills = child.shares, child.place, list[tuple[int, int, float]]()
        venue = levels.venues.index(name)
        for price, size in zip(levels.prices[venue].tolist(), levels.sizes[venue].tolist(), strict=True):
            if left == 0 or not self.sign * price <= limit:
                break
            taken = min(left, int(size))
            if taken:
                fills.append((time, taken, price))
                self.own.append(ExecutionFill(venue, price, taken, int(self.rows[venue]), time))
                left -= taken
            if left and (met := self._met_hidden(venue, price, time, left)):
                fills.append((time, met, price))
                left -= met
        self._book(child, venue, fills, time + self.lit, time)
        return child.shares - left

    def _book(
        self, child: ExecutionChild, venue: int, fills: Sequence[tuple[int, int, float]], known: int, posted: int
    ) -> None:
        """Record the fills of a child at a venue (time, shares, price) with its fees, and report it."""
        number, maker = len(self.done.children), child.kind == "limit"
        rates = (self.exchange.makers if maker else self.exchange.takers)[venue]
        per, fraction = rates.tolist()
        filled = sum(shares for _, shares, _ in fills)
        total = sum(shares * (per + fraction * abs(price)) for _, shares, price in fills)
        charged = self.context.books.order_fee(venue, total, maker=maker) if filled else 0.0
        extra = (charged - total) / filled if filled else 0.0  # due to a minimum or maximum fee per order
        for time, shares, price in fills:
            fee = per + fraction * abs(price) + extra
            self.done.fills.append(ExchangeFill(number, child.kind, child.place, time, shares, price, fee))
        money = sum(shares * price for _, shares, price in fills)
        self._report(child, filled, money, charged, fills[-1][0] if fills else 0, known, posted)

    def _met_hidden(self, venue: int, price: float, time: int, most: int) -> int:
        """Return the hidden shares filled at a price after a child has taken the displayed size."""
        before = self.met.get((venue, price), 0)
        met = min(max(self.exchange.hidden_shares(venue, price, time) - before, 0), most)
        if met:
            self.met[venue, price] = before + met
        return met

    def _estimate(self, shares: int) -> None:
        """Charge shares beyond the displayed depth at the deadline by extrapolating the books."""
        book = self.exchange.last_book(self.number, self.context, self.deadline)
        time, (price, fee) = self.deadline, book.beyond(shares)
        child = ExecutionChild("sweep", BEYOND, shares, stage=DEADLINE)
        number = len(self.done.children)
        self.done.fills.append(ExchangeFill(number, child.kind, BEYOND, time, shares, price, fee, estimated=True))
        self._report(child, shares, price * shares, fee * shares, time, time + self.lit, time)

    def _post(self, child: ExecutionChild, time: int) -> None:
        """Join the queue at a venue's best own-side price until the horizon."""
        venue = self.exchange.books.venues.index(child.place)
        queue = self.exchange.queue
        price, fills = queue.fills(venue, self.sign, time, self.end, child.shares) if queue else (float("nan"), [])
        filled = sum(some for _, some in fills)
        known = fills[-1][0] if filled == child.shares else self.end
        self._book(child, venue, [(when, some, price) for when, some in fills], known, time)
        self.execution.done(child, filled)

    def _report(
        self, child: ExecutionChild, filled: int, money: float, fee: float, last: int, known: int, posted: int
    ) -> None:
        number, price = len(self.done.children), money / filled if filled else 0.0
        report = ChildReport(number, child.kind, child.place, child.shares, filled, price, fee, last, known, posted)
        self.done.children.append(report)


def _within(signed: Floats, sizes: Floats, limit: float) -> int:
    """Return the shares displayed at one venue no worse than a signed price."""
    return int(sizes[signed <= limit].astype(np.int64).sum())
