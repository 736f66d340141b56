"""Execution of a plan: the child orders to send next, given the fills so far.

The backtest, the live router and the counterfactual estimate share `Execution`; they differ only in who fills the
children. This module has no clock, no input or output and no randomness.

1. Dark pools are pinged, all at once or in turn.
2. The other children of the plan are sent with the first ping, or after the last one (``Plan.before``).
3. Once all pings and takes are done, returned shares are posted, or retried by `retry_schedule`.
4. Recalled shares are swept, also by `retry_schedule`. Limit orders rest until the horizon.
5. The remainder is swept once at the deadline; shares reserved for one venue (``venue:NAME``) are tried there alone.

A *signed* price is the price of a purchase or minus the price of a sale: lower is better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from riskroute.core.arrays import Integers, Matrix
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routing.consolidated import cheapest_shares

MILLISECOND = 1_000_000  # nanoseconds
REFILL = 1000 * MILLISECOND  # time until a venue replaces the shares we took; sweeps are this far apart
TOUCH_RETRIES = 1000  # attempts at the best price, a millisecond apart, before ``touch`` sweeps
OUTFLOW_SECONDS = 300  # trades of the last five minutes give the outflow of a queue
PUBLIC_AFTER = 1000 * MILLISECOND  # delay after the horizon until public outcomes of an order are known

# stages of a child; the stage of recalled shares is the name of their pool
PLAN, RETURNED, DEADLINE = "plan", "returned", "deadline"
IMMEDIATE = frozenset(("dark", "take", "sweep"))  # kinds of immediate-or-cancel orders; the others rest


class ExecutionChild(NamedTuple):
    """Child order to send.

    ``limit`` is its worst price, None for any price; a limit order joins the venue's best own-side price.
    ``stage`` is `PLAN`, `RETURNED`, `DEADLINE`, or the pool from which the shares were recalled.
    """

    kind: str
    place: str
    shares: int
    limit: float | None = None
    stage: str = PLAN


class ExecutionFill(NamedTuple):
    """Own fill of displayed shares: venue index, price, shares, number of the book snapshot, UTC nanoseconds."""

    venue: int
    price: float
    shares: float
    snapshot: int
    time: int


class ExecutionLevels(NamedTuple):
    """Displayed side to take from: prices and sizes ``(V, L)``, and taker fees ``(V, 2)`` as in `ContextBooks`."""

    venues: tuple[str, ...]
    prices: Matrix
    sizes: Matrix
    takers: Matrix


class Execution:
    """Progress of one plan.

    Its methods return the children to send; `sent` and `done` update the progress. Shares may be expected values.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 100]], "asks": [[10.02, 200]]}}, "pools": {"P": {}, "Q": {}}}
    >>> context = read_context(books, side="buy", shares=500, order="one")
    >>> plan = Plan("one", dark={"P": 500, "Q": 500}, in_turn=True, before=True, take={"A": 200}, limit={"A": 300})
    >>> execution = Execution(plan, context)
    >>> execution.finish(execution.pings()[0], 150)
    >>> execution.pings()
    [ExecutionChild(kind='dark', place='Q', shares=350, limit=None, stage='plan')]
    >>> execution.finish(execution.pings()[0], 0)
    >>> [(child.kind, child.shares) for child in execution.plan_children()]
    [('take', 50), ('limit', 300)]
    """

    def __init__(self, plan: Plan, context: Context) -> None:
        self.plan, self.context = plan, context
        self.rule, _, self.rest_venue = plan.rest.partition(":")
        self._pingable: float = context.shares - (0 if plan.before else plan.sent)
        self._tried: set[str] = set()
        self._open_pings = self._open = 0
        self.started = False  # whether the plan's other children were sent
        self.posted = False
        self.returned: float = context.shares  # unassigned and returned shares, without ``recalled`` and ``later``
        self.recalled: dict[str, float] = {}
        self.later: float = 0  # shares for the sweep at the deadline

    # children to send

    def pings(self) -> list[ExecutionChild]:
        """Return the pings to send now: all or, if pools are pinged in turn, the next one once no ping is open."""
        plan = self.plan
        if not plan.in_turn:
            return [ExecutionChild("dark", pool, n) for pool, n in plan.dark.items() if n and pool not in self._tried]
        if not self._open_pings:
            for pool, most in plan.dark.items():
                if pool not in self._tried and (shares := min(most, self._pingable)) > 0:
                    return [ExecutionChild("dark", pool, shares)]  # type: ignore[arg-type]  # an expectation may be fractional
        return []

    def plan_children(self) -> list[ExecutionChild]:
        """Return the plan's other children: shares to take, to rest in pools, and to post."""
        plan = self.plan
        take, resting, limit = plan.take, plan.dark_rest, plan.limit
        if plan.before:
            take, resting, limit = plan.within(int(self._pingable))
        return [
            *(ExecutionChild("take", venue, n, plan.take_limits.get(venue)) for venue, n in take.items() if n),
            *(ExecutionChild("dark_rest", pool, n) for pool, n in resting.items() if n),
            *(ExecutionChild("limit", venue, n) for venue, n in limit.items() if n),
        ]

    def first_children(self) -> list[ExecutionChild]:
        """Return the next children of the plan itself; empty if all are sent, or while a ping is awaited."""
        children = self.pings()
        if not self.started and not (self.plan.before and (children or self._open_pings)):
            children += self.plan_children()
        return children

    @property
    def waiting(self) -> bool:
        """Whether pings, takes or sweeps are in flight; returned shares wait for them."""
        return self._open > 0

    def post(self) -> list[ExecutionChild]:
        """Return the limit order for returned shares under ``post:NAME``."""
        if self.rule != "post" or self.posted or self.returned <= 0:
            return []
        return [ExecutionChild("limit", self.rest_venue, self.returned, stage=RETURNED)]  # type: ignore[arg-type]  # as above

    def retry(self, stage: str, rule: str, levels: ExecutionLevels) -> list[ExecutionChild]:
        """Return the children that retry the shares of a stage, under a rule of `retry_schedule`."""
        shares = {RETURNED: self.returned, DEADLINE: self.later}.get(stage, self.recalled.get(stage, 0))
        if shares <= 0:
            return []
        if rule == "venue":
            return [ExecutionChild("sweep", self.rest_venue, math.ceil(shares), stage=stage)]
        limit = None
        sign, sizes = self.context.sign, levels.sizes
        if rule == "touch":
            signed = np.where(sizes >= 1, sign * levels.prices, np.inf)
            best = float(signed.min())
            if not np.isfinite(best):
                return []
            sizes, limit = np.where(signed == best, sizes, 0.0), sign * best
        prices, protect = levels.prices, self.context.protected
        taken = cheapest_shares(prices, sizes, levels.takers, sign=sign, shares=math.ceil(shares), protect=protect)
        venues = zip(levels.venues, taken.tolist(), strict=True)
        return [ExecutionChild("sweep", venue, some, limit, stage) for venue, some in venues if some]

    def close(self) -> None:
        """Move unassigned and recalled shares to the sweep at the deadline; with ``venue:NAME``, recalled ones only."""
        if self.rule != "venue":
            self.later += self.returned
            self.returned = 0
        self.later += sum(self.recalled.values())
        self.recalled.clear()

    # progress

    def sent(self, child: ExecutionChild, *, awaited: bool = True) -> None:
        """Record a child as sent; later stages wait for it if it is ``awaited``."""
        if child.kind in IMMEDIATE:
            self._open += awaited
        if child.stage == PLAN and child.kind == "dark":
            self._tried.add(child.place)
            self._open_pings += awaited
            self._pingable -= child.shares if self.plan.in_turn else 0
        elif child.stage == PLAN:
            self.started = True
        elif child.stage == RETURNED and child.kind == "limit":
            self.posted = True
        self._move(child.stage, -child.shares)

    def done(self, child: ExecutionChild, filled: float) -> None:
        """Record a child as done, and return its unfilled shares to the stage that handles them."""
        left = child.shares - filled
        if child.kind in IMMEDIATE:
            self._open -= 1
        if child.stage == PLAN and child.kind == "dark":
            self._open_pings -= 1
            self._pingable += left if self.plan.in_turn else 0
        if child.kind == "limit":
            self.later += left
        elif child.kind == "dark_rest":
            self.recalled[child.place] = self.recalled.get(child.place, 0) + left
        else:
            self._move(child.stage, left)

    def finish(self, child: ExecutionChild, filled: float) -> None:
        """Record a child as sent and done."""
        self.sent(child)
        self.done(child, filled)

    def _move(self, stage: str, shares: float) -> None:
        if stage in (PLAN, RETURNED):
            self.returned += shares
        elif stage == DEADLINE:
            self.later += shares
        else:
            self.recalled[stage] = self.recalled.get(stage, 0) + shares


def retry_schedule(rule: str, begin: int, deadline: int) -> Iterator[tuple[int, str]]:
    """Yield each time in nanoseconds at which shares are retried, and its rule: ``touch``, ``venue`` or ``sweep``.

    Examples
    --------
    >>> second = 1000 * MILLISECOND
    >>> list(retry_schedule("sweep", 0, 2 * second)), list(retry_schedule("venue", 0, 1 * second))
    ([(0, 'sweep'), (1000000000, 'sweep')], [(0, 'venue'), (1000000000, 'venue')])
    """
    if rule == "touch":
        end = begin + TOUCH_RETRIES * MILLISECOND
        yield from ((time, rule) for time in range(begin, min(end, deadline), MILLISECOND))
        begin = end
    if rule == "venue":
        yield from ((time, rule) for time in range(begin, deadline, REFILL))
        yield deadline, rule  # no other venue may fill these shares, so the last attempt is at the deadline itself
    else:
        yield from ((time, "sweep") for time in range(begin, deadline, REFILL))


def execution_limit(context: Context, levels: ExecutionLevels, take: Mapping[str, ExecutionChild], venue: int) -> float:
    """Return the worst signed price at which a child at a venue may trade under order protection.

    The limit is the best quote elsewhere with at least a lot left after the plan's takes; infinite without one.
    """
    best = math.inf
    if not context.protected:
        return best
    for other, name in enumerate(levels.venues):
        quote = context.sign * levels.prices[other, 0]
        ours = take.get(name)
        # a child with a limit better than the quote takes none of it
        taken = 0 if ours is None or (ours.limit is not None and quote > context.sign * ours.limit) else ours.shares
        if other != venue and levels.sizes[other, 0] - taken >= context.lot:
            best = min(best, quote)
    return float(best)


def remove_own(prices: Matrix, sizes: Matrix, own: Iterable[ExecutionFill], snapshots: Integers, time: int) -> None:
    """Subtract own fills from displayed sizes, in place: within a snapshot, and until a venue refills."""
    for fill in own:
        if snapshots[fill.venue] == fill.snapshot or abs(time - fill.time) <= REFILL:
            at = prices[fill.venue] == fill.price
            sizes[fill.venue][at] = np.maximum(sizes[fill.venue][at] - fill.shares, 0.0)
