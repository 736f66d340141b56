"""The rule that every desk has: take the cheapest displayed shares, fees included, wherever they are.

References
----------
Practice under order-protection rules; U.S. Securities and Exchange Commission, Regulation NMS, Rule 611,
https://www.ecfr.gov/current/title-17/section-242.611
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.errors import InputError, shown
from riskroute.core.validation import instance_of, list_of, one_of, parameter, real_number, whole_number
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.report import ChildReport
from riskroute.routers.router import PlaceBelief, PublicData, Router
from riskroute.routing.allocations import proportional_lots
from riskroute.routing.consolidated import ConsolidatedBook, Taken


@dataclass
class Sweep(Router):
    """Take the cheapest displayed shares, each child order limited to the worst price displayed that it needs.

    Parameters
    ----------
    discretion : int
        Ticks by which the limit prices of child orders go beyond what was displayed, so that more of them are filled
        when the books move on the way.
    minimums : Mapping[str, int]
        The smallest order that a venue accepts, by its name.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {
    ...     "A": {"bids": [[10.00, 150], [9.98, 500]], "asks": [[10.02, 100]], "taker": 0.003},
    ...     "B": {"bids": [[10.00, 100], [9.99, 300]], "asks": [[10.02, 100]], "taker": -0.002},
    ... }
    >>> plan = Sweep().route(read_context({"venues": books}, side="sell", shares=300, lot=100))
    >>> plan.take, plan.take_limits
    ({'A': 100, 'B': 200}, {'A': 10.0, 'B': 9.99})
    """

    name: ClassVar[str] = "sweep"
    discretion: int = parameter(0, whole_number, minimum=0, maximum=1000)
    minimums: Mapping[str, int] = field(default_factory=dict)

    def check_parameters(self) -> None:
        for venue, least in instance_of("minimums", self.minimums, Mapping, "shares by venue").items():
            whole_number(f"minimum of {shown(venue)}", least, minimum=0, maximum=10**9)

    def decide(self, context: Context) -> Plan:
        return taking_plan(context, self.taken(context, context.displayed), self.discretion)

    def taken(self, context: Context, book: ConsolidatedBook) -> Taken:
        """Return what is taken from each venue, minimum order sizes included."""
        least = [self.minimums.get(name, 0) for name in context.books.venues] if self.minimums else []
        minimums = np.array(least, dtype=np.int64) if any(least) else None
        return book.take(context.shares, lot=context.lot, minimums=minimums)


@dataclass
class RawSweep(Sweep):
    """Sweep by displayed price alone, as a router that knows no fees would."""

    name: ClassVar[str] = "raw-sweep"

    def decide(self, context: Context) -> Plan:
        return taking_plan(context, self.taken(context, context.consolidated(fees=False)), self.discretion)


def taking_plan(context: Context, taken: Taken, discretion: int = 0) -> Plan:
    """Return the plan that takes these shares, with limit prices ``discretion`` ticks beyond what is displayed."""
    chosen = [v for v, shares in enumerate(taken.shares) if shares]
    venues, worse = context.books.venues, context.sign * discretion * context.tick
    return Plan(
        context.order,
        take={venues[v]: int(taken.shares[v]) for v in chosen},
        take_limits={venues[v]: float(taken.limits[v] + worse) for v in chosen},
    )


def sweeping_plan(context: Context, discretion: int = 0) -> Plan:
    """Return the plan that takes the cheapest displayed shares, as `Sweep` does."""
    return taking_plan(context, context.displayed.take(context.shares, lot=context.lot), discretion)


# MERGED: Take at the best displayed price only, again and again: the cautious reading of the order protection rule.


@dataclass
class Nbbo(Router):
    """Take the shares displayed at the best price, look again every millisecond, and sweep the remainder.

    It looks for a second at most, and never beyond the deadline: an order without a horizon is swept after one look.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {
    ...     "A": {"bids": [[10.00, 100], [9.99, 200]], "asks": [[10.02, 100]]},
    ...     "B": {"bids": [[10.00, 50]], "asks": [[10.02, 100]]},
    ... }
    >>> plan = Nbbo().route(read_context({"venues": books}, side="sell", shares=400))
    >>> plan.take, plan.rest
    ({'A': 100, 'B': 50}, 'touch')
    """

    name: ClassVar[str] = "nbbo"

    def decide(self, context: Context) -> Plan:
        book, best = context.displayed, context.books.best_ask if context.sign > 0 else context.books.best_bid
        at_best = np.where(book.prices == best, book.sizes, 0.0)
        top = context.book(book.prices, at_best, book.takers)
        plan = taking_plan(context, top.take(context.shares, lot=context.lot))
        return Plan(context.order, take=plan.take, take_limits=plan.take_limits, rest="touch")


# MERGED: All to one venue: what a desk without a router does.


@dataclass
class Primary(Router):
    """Send the whole order to one venue, and send whatever comes back there once more.

    Parameters
    ----------
    venue : str
        Name of the venue; the first one of the books if empty.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 150]], "asks": [[10.02, 100]]}}}
    >>> Primary().route(read_context(books, side="sell", shares=100)).take
    {'A': 100}
    """

    name: ClassVar[str] = "primary"
    venue: str = parameter("", instance_of, kind=str, expected="the name of a venue")

    def decide(self, context: Context) -> Plan:
        venues = context.books.venues
        venue = self.venue or venues[0]
        if venue not in venues:
            raise InputError(f"venue must be one of {', '.join(venues)}, was {venue!r}")
        return Plan(context.order, take={venue: context.shares}, rest=f"venue:{venue}")


# MERGED: Pro rata: every venue gets shares in proportion to the depth it displays.


@dataclass
class Spray(Router):
    """Take from all venues at once, in proportion to what each displays, whatever the price.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {
    ...     "A": {"bids": [[10.00, 100], [9.99, 200]], "asks": [[10.02, 100]]},
    ...     "B": {"bids": [[9.97, 100]], "asks": [[10.02, 100]]},
    ... }
    >>> Spray().route(read_context({"venues": books}, side="sell", shares=200)).take
    {'A': 150, 'B': 50}
    """

    name: ClassVar[str] = "spray"

    def decide(self, context: Context) -> Plan:
        shares = proportional_lots(context.displayed.sizes.sum(axis=1), context.shares, context.lot)
        venues = context.books.venues
        return Plan(context.order, take={venue: int(n) for venue, n in zip(venues, shares, strict=True) if n})


# MERGED: Dark pools first, at the mid, and the lit venues with what comes back: the rule a learning router must beat.


MODES = ("sequential", "parallel")
OPTIMISTIC = 1.0
"""A pool that was never tried has this score, in dollars a share: more than any pool can save."""


@dataclass
class DarkFirst(Router):
    """Try the pools that have saved most of late, then sweep.

    The score of a pool is what a share sent there, filled or not, has saved against the sweep: an exponentially
    weighted mean that starts high, so that every pool is tried.

    Parameters
    ----------
    mode : str
        ``sequential``: the best pool gets the whole order, the next one what came back, and so on. ``parallel``: all
        pools at once, in proportion to their scores.
    memory_weight : float
        Weight of the past in the score.
    cap : int, optional
        Most shares that a pool gets; the whole order if None.
    min_saving : float
        Dollars a share that a fill must save against the sweep; pools below are left out.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}}
    >>> books["pools"] = {"P": {}, "Q": {"fee": 0.02}}
    >>> plan = DarkFirst().route(read_context(books, side="sell", shares=300))  # a fee of 2 cents eats up the saving
    >>> plan.dark, plan.in_turn, plan.rest
    ({'P': 300}, True, 'sweep')
    """

    name: ClassVar[str] = "dark-first+sweep"
    feedback: ClassVar[str] = "F2"
    memory: ClassVar[tuple[str, ...]] = ("scores", "expected")
    mode: str = parameter("sequential", one_of, choices=MODES)
    memory_weight: float = parameter(0.95, real_number, minimum=0, below=1)
    cap: int | None = parameter(None, whole_number)
    min_saving: float = parameter(0.0, real_number)
    scores: dict[str, float] = field(init=False, repr=False)
    expected: dict[str, dict[str, float]] = field(init=False, repr=False)
    """Saving a share, by order under way and pool."""

    def begin(self) -> None:
        self.scores, self.expected = {}, {}

    def decide(self, context: Context) -> Plan:
        savings = pool_savings(context)
        good = {pool: saving for pool, saving in savings.items() if saving > self.min_saving}
        self.expected[context.order] = good
        most = min(context.shares, self.cap or context.shares)
        score = {pool: self.scores.get(pool, OPTIMISTIC) for pool in good}
        if self.mode == "parallel":
            shares = proportional_lots(np.array(list(score.values())), context.shares, context.lot)
            sent = {pool: min(int(n), most) for pool, n in zip(score, shares, strict=True) if n}
            return self.then(context, sent, in_turn=False)
        ranked = sorted(score, key=lambda pool: (-score[pool], pool))
        return self.then(context, dict.fromkeys(ranked, most), in_turn=True)

    def then(self, context: Context, dark: Mapping[str, int], *, in_turn: bool) -> Plan:
        """Return the plan that sends these shares to the pools, and sweeps what comes back."""
        return Plan(context.order, dark=dark, in_turn=in_turn)

    def beliefs(self) -> tuple[PlaceBelief, ...]:
        what = "saving of a share sent there"
        return tuple(PlaceBelief(pool, what, score, None, "$/share") for pool, score in self.scores.items())

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        savings = self.expected.get(order, {})
        for child in children:
            if child.kind in ("dark", "dark_rest") and child.sent and child.place in savings:
                saved = child.filled / child.sent * savings[child.place]
                before = self.scores.get(child.place, OPTIMISTIC)
                self.scores[child.place] = self.memory_weight * before + (1 - self.memory_weight) * saved
        if profit is not None:
            self.expected.pop(order, None)

    def load_memory(self, memory: dict[str, Any]) -> None:
        self.scores = {str(pool): real_number("score", value) for pool, value in memory["scores"].items()}
        self.expected = {
            str(order): {str(pool): real_number("saving", value) for pool, value in savings.items()}
            for order, savings in memory["expected"].items()
        }


@dataclass
class DarkFirstPost(DarkFirst):
    """Try pools, post what comes back where the queue is shortest, and sweep at the horizon.

    The queue expected to empty first counts as the shortest: shares displayed at the venue's best price, divided by the
    shares a second that trade there, if the context knows them (``outflow NAME``).
    """

    name: ClassVar[str] = "dark-first+post+sweep"

    def then(self, context: Context, dark: Mapping[str, int], *, in_turn: bool) -> Plan:
        venue = quickest_venue(context)
        rest = f"post:{venue}" if context.horizon > 0 and venue else "sweep"
        return Plan(context.order, dark=dark, in_turn=in_turn, rest=rest)


def pool_savings(context: Context) -> dict[str, float]:
    """Dollars a share that a fill in each pool saves against a sweep of the whole order.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {"fee": 0.001}}}
    >>> {pool: round(saving, 6) for pool, saving in pool_savings(read_context(books, side="sell", shares=300)).items()}
    {'P': 0.009}
    """
    sweep = context.sweep_cost / context.shares
    bid, ask = context.books.touch
    half = (ask - bid) / 2
    return {pool.name: sweep - pool.fee + pool.improvement * half for pool in context.pools}


def quickest_venue(context: Context) -> str:
    """Return the venue whose queue at its best own-side price is expected to empty first; empty if there is none."""
    best = context.books.best_bid if context.sign > 0 else context.books.best_ask
    prices, sizes = context.books.side("bid" if context.sign > 0 else "ask")
    delays = {
        name: sizes[v, 0] / max(context.features.get(f"outflow {name}", 1.0), 1e-9)
        for v, name in enumerate(context.books.venues)
        if prices[v, 0] == best and sizes[v, 0] > 0
    }
    return min(delays, key=lambda name: (delays[name], name)) if delays else ""


# MERGED: Rest evenly in all dark pools, and sweep at the horizon: patience without learning.


@dataclass
class RestEven(Router):
    """Put the same number of shares into every pool that saves, wait for counterparties, sweep the remainder.

    An order without time tries the pools at once instead.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> RestEven().route(read_context(books, side="sell", shares=300, horizon=60)).dark_rest
    {'P': 150, 'Q': 150}
    """

    name: ClassVar[str] = "rest-even+sweep"

    def decide(self, context: Context) -> Plan:
        pools = [pool for pool, saving in pool_savings(context).items() if saving > 0]
        shares = proportional_lots(np.ones(len(pools)), context.shares, context.lot)
        sent = {pool: int(n) for pool, n in zip(pools, shares, strict=True) if n}
        return Plan(context.order, dark_rest=sent) if context.horizon > 0 else Plan(context.order, dark=sent)


# MERGED: The same split for every order, whatever the books show: what a study of averages recommends.


@dataclass
class StaticSplit(Router):
    """Send fixed fractions of an order to venues, taken at once at any price, and to pools.

    Shares for a venue or pool that is absent today are treated as if they had come back.

    Parameters
    ----------
    take : Mapping[str, float]
        Weights of venues; all equal if both this and ``dark`` are empty.
    dark : Mapping[str, float]
        Weights of pools.
    rest : str
        Venue to which what pools return is sent; swept if empty.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {name: {"bids": [[10.0, 900]], "asks": [[10.02, 900]]} for name in ("XNAS", "XPSX")}}
    >>> StaticSplit({"XNAS": 0.97, "XPSX": 0.03}).route(read_context(books, side="sell", shares=1000)).take
    {'XNAS': 970, 'XPSX': 30}
    """

    name: ClassVar[str] = "static"
    take: Mapping[str, float] = field(default_factory=dict)
    dark: Mapping[str, float] = field(default_factory=dict)
    rest: str = parameter("", instance_of, kind=str, expected="the name of a venue")

    def check_parameters(self) -> None:
        for name in ("take", "dark"):
            weights = getattr(self, name)
            if not isinstance(weights, Mapping):
                raise InputError(f"{name} must hold weights by name, was {shown(weights)}")
            for place, weight in weights.items():
                real_number(f"weight of {place}", weight, minimum=0)
        if (self.take or self.dark) and not sum(self.take.values()) + sum(self.dark.values()) > 0:
            raise InputError("weights must not all be 0, were")

    def decide(self, context: Context) -> Plan:
        take = self.take if self.take or self.dark else dict.fromkeys(context.books.venues, 1.0)
        places = [("take", place) for place in take] + [("dark", place) for place in self.dark]
        weights = [*take.values(), *self.dark.values()]
        rest = f"venue:{self.rest}" if self.rest in context.books.venues else "sweep"
        return split_plan(context, places, weights, rest)


def split_plan(
    context: Context, places: Sequence[tuple[str, str]], weights: Sequence[float], rest: str = "sweep"
) -> Plan:
    """Return the plan that divides an order in proportion to weights, at any price.

    ``places`` are pairs of ``take`` or ``dark`` and a name; shares for one that is absent today go with the rest.
    """
    shares = proportional_lots(np.array(weights, dtype=float), context.shares, context.lot)
    there = {"take": context.books.venues, "dark": tuple(pool.name for pool in context.pools)}
    sent: dict[str, dict[str, int]] = {"take": {}, "dark": {}}
    for (kind, place), some in zip(places, shares, strict=True):
        if some and place in there[kind]:
            sent[kind][place] = int(some)
    return Plan(context.order, take=sent["take"], dark=sent["dark"], rest=rest, trade_through=True)


@dataclass
class StaticSweep(Router):
    """Rest a fixed fraction of an order in pools, post another, and sweep the remainder on the current books.

    Parameters
    ----------
    pools : Sequence[str]
        Pools that are tried first, one after the other as listed, with all that neither rests nor is posted.
    rest : float
        Fraction of the order that rests until the horizon, divided equally among the pools that save anything.
    post : float
        Fraction that is posted until the horizon, at the best price of the venue whose queue should empty first.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"XNAS": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}}}
    >>> plan = StaticSweep(pools=["P"], post=0.5).route(read_context(books, side="sell", shares=1000, horizon=60))
    >>> plan.dark, plan.limit, plan.rest
    ({'P': 500}, {'XNAS': 500}, 'sweep')
    """

    name: ClassVar[str] = "static+sweep"
    pools: Sequence[str] = ()
    rest: float = parameter(0.0, real_number, minimum=0, maximum=1)
    post: float = parameter(0.0, real_number, minimum=0, maximum=1)

    def check_parameters(self) -> None:
        if self.rest + self.post > 1:
            raise InputError(f"rest and post must not exceed 1 together, was {self.rest + self.post}")
        if isinstance(self.pools, str):
            raise InputError(f"pools must be a list of names, was {shown(self.pools)}")
        self.pools = list_of("pools", self.pools, str, "names")

    def decide(self, context: Context) -> Plan:
        savings = {pool: saving for pool, saving in pool_savings(context).items() if saving > 0}
        resting, posting, venue = 0, 0, quickest_venue(context)
        if context.horizon > 0:
            wanted = np.array([self.rest if savings else 0.0, self.post if venue else 0.0, 0.0])
            wanted[2] = 1 - wanted.sum()
            resting, posting, _ = (int(n) for n in proportional_lots(wanted, context.shares, context.lot))
        each = proportional_lots(np.ones(max(len(savings), 1)), resting, context.lot)
        now = context.shares - resting - posting
        return Plan(
            context.order,
            dark={pool: now for pool in self.pools if pool in savings} if now else {},
            in_turn=True,
            dark_rest={pool: int(n) for pool, n in zip(savings, each, strict=False) if n},
            limit={venue: posting} if posting else {},
        )


# MERGED: Sweep with an eye for what is not displayed: venues that have traded more than they showed get larger
# children.
#
# After Almgren and Harts: the estimate of the reserve is theirs, the routing is a reconstruction.
#
# References
# ----------
# R. Almgren, B. Harts, "A dynamic algorithm for smart order routing", StreamBase white paper (2008); no address
# of it is
# known to last.
#


BOOK_SIDES = ("bid", "ask")


@dataclass
class Hidden(Router):
    """Sweep books whose best level is larger by the venue's reserve; what is not there comes back and is swept.

    By venue and side, in trade time: a trade of ``S`` shares where ``s`` were displayed makes the reserve
    ``R <- delta R + (S - s)^+``. It is a discounted sum: ``1 - delta`` times it is the mean excess of a trade.

    A backtest does not know which hidden shares an order would have met. It fills what is sent beyond the display with
    at most the hidden shares that traded at that venue and price within the next second; the rest comes back.

    Parameters
    ----------
    delta : float
        Weight of the past, trade by trade.
    eta : float
        Part of the reserve that is counted on. 0 is ``sweep``.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"A": {"bids": [[10.00, 100]], "asks": [[10.02, 100]]}, "B": {"bids": [[10.00, 200]], "asks": []}}
    >>> router = Hidden(delta=0.9)
    >>> past = read_context({"venues": books}, side="sell", shares=300, order="past")
    >>> router.on_public_data(PublicData(past, {}, trades={"A": {"bid": [(150, 100), (80, 100), (300, 100)]}}))
    >>> router.reserves
    {'A': {'bid': 240.5}}
    >>> router.route(read_context({"venues": books}, side="sell", shares=300)).take
    {'A': 300}
    """

    name: ClassVar[str] = "hidden+sweep"
    feedback: ClassVar[str] = "F3"
    memory: ClassVar[tuple[str, ...]] = ("reserves",)
    delta: float = parameter(0.9, real_number, above=0, below=1)
    eta: float = parameter(1.0, real_number, minimum=0, maximum=1000)
    reserves: dict[str, dict[str, float]] = field(init=False, repr=False)
    """By venue and side of the book, in shares."""

    def begin(self) -> None:
        self.reserves = {}

    def decide(self, context: Context) -> Plan:
        side = "ask" if context.sign > 0 else "bid"
        prices, sizes = context.books.side(side)
        counted = sizes.copy()
        for v, venue in enumerate(context.books.venues):
            if sizes[v, 0] > 0:
                counted[v, 0] += np.floor(self.eta * self.reserves.get(venue, {}).get(side, 0.0))
        book = context.book(prices, counted, context.books.takers)
        return taking_plan(context, book.take(context.shares, lot=context.lot))

    def on_public_data(self, public: PublicData) -> None:
        for venue, sides in public.trades.items():
            for side, trades in sides.items():
                kept = self.reserves.setdefault(venue, {})
                for size, displayed in trades:
                    kept[side] = self.delta * kept.get(side, 0.0) + max(size - displayed, 0)

    def load_memory(self, memory: dict[str, Any]) -> None:
        self.reserves = {
            str(venue): {side: real_number("reserve", value, minimum=0) for side, value in sides.items()}
            for venue, sides in memory["reserves"].items()
        }
        if unknown := {side for sides in self.reserves.values() for side in sides} - set(BOOK_SIDES):
            raise InputError(f"sides of reserves must be among {', '.join(BOOK_SIDES)}, was {min(unknown)!r}")


# MERGED: Post where the queue is worth its rebate: the venue's pay for liquidity against the wait for it.
#
# References
# ----------
# C. Maglaras, C. Moallemi, H. Zheng, "Queueing dynamics and state space collapse in fragmented limit order book
# markets", Operations Research (2021)
# J. Muhle-Karbe, E. Neuman, Y. Shadmi, "Fluid-limits of fragmented limit-order markets" (2024), on the same model,
# https://arxiv.org/abs/2407.04354
#


SLOWEST = 1e-3
"""Shares a second that leave a queue in which nothing has traded of late."""


@dataclass
class Delay(Router):
    """Post the order at the venue with the best ``rebate - gamma * delay``, and sweep the remainder at the horizon.

    The expected delay of a venue is the shares displayed at its best own-side price over the shares a second that trade
    there (``outflow NAME`` of the context; 1 where it is not known). Only venues at the best price of the market are
    looked at: no queue behind it moves before that price is gone.

    Parameters
    ----------
    gamma : float
        Dollars a share that a second of delay costs. 0 looks at rebates alone; the larger, the more the shortest delay
        decides, as in ``dark-first+post+sweep``.

    Examples
    --------
    Both queues show 300 shares. A pays 0.2 cents and moves 10 shares a second, B charges 0.1 cents and moves 60: a
    wait of 30 seconds against one of 5.

    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {
    ...     "A": {"bids": [[10.00, 300]], "asks": [[10.02, 900]], "maker": -0.002},
    ...     "B": {"bids": [[10.00, 300]], "asks": [[10.02, 900]], "maker": 0.001},
    ... }, "features": {"outflow A": 10.0, "outflow B": 60.0}}
    >>> order = read_context(books, side="buy", shares=200, horizon=60)
    >>> Delay(gamma=0.0001).decide(order).rest, Delay(gamma=0.0002).decide(order).rest
    ('post:A', 'post:B')
    """

    name: ClassVar[str] = "delay+sweep"
    gamma: float = parameter(0.0001, real_number, minimum=0, maximum=1000)

    def decide(self, context: Context) -> Plan:
        venue = best_queue(context, self.gamma) if context.horizon > 0 else ""
        return Plan(context.order, rest=f"post:{venue}") if venue else sweeping_plan(context)


def best_queue(context: Context, gamma: float) -> str:
    """Return the venue at the market's best own-side price that pays best for its delay; empty without any.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"A": {"bids": [[10.0, 100]], "asks": [[10.02, 100]]}, "B": {"bids": [[10.0, 90]]}}
    >>> best_queue(read_context({"venues": books}, side="buy", shares=100), 0.001)
    'B'
    """
    books = context.books
    best = books.best_bid if context.sign > 0 else books.best_ask
    prices, sizes = books.side("bid" if context.sign > 0 else "ask")
    worth = {
        name: -float(books.makers[v])
        - gamma * float(sizes[v, 0]) / max(context.features.get(f"outflow {name}", 1.0), SLOWEST)
        for v, name in enumerate(books.venues)
        if prices[v, 0] == best and sizes[v, 0] > 0
    }
    return min(worth, key=lambda name: (-worth[name], name)) if worth else ""
