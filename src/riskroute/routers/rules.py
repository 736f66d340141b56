"""Routing rules that do not model fills: sweeps, dark pools first, posting by queue delay, and static splits.

References
----------
Order protection: U.S. Securities and Exchange Commission, Regulation NMS, Rule 611,
https://www.ecfr.gov/current/title-17/section-242.611
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from riskroute.core.errors import InputError
from riskroute.core.records import NonNegative
from riskroute.core.text import shown
from riskroute.core.validation import instance_of, one_of, parameter, real_number, valid_list, whole_number
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.public_data import PublicData
from riskroute.routers.report import ChildReport
from riskroute.routers.router import Router, RouterBelief
from riskroute.routing.allocations import proportional_allocation
from riskroute.routing.consolidated import ConsolidatedBook, ConsolidatedTake


@dataclass
class SweepRule(Router):
    """Sweep the displayed books, cheapest shares after fees first.

    Each child order is limited to the worst displayed price it needs.

    Parameters
    ----------
    discretion : int
        Ticks by which the limit prices of child orders are worse than needed, so that more fill if the books move
        before they arrive.
    minimums : Mapping[str, int]
        Minimum order size by venue.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {
    ...     "A": {"bids": [[10.00, 150], [9.98, 500]], "asks": [[10.02, 100]], "taker": "0.003 per share"},
    ...     "B": {"bids": [[10.00, 100], [9.99, 300]], "asks": [[10.02, 100]], "taker": "-0.002 per share"},
    ... }
    >>> plan = SweepRule().route(read_context({"venues": books}, side="sell", shares=300, lot=100))
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
        return take_rule_plan(context, self._take(context, context.displayed), self.discretion)

    def _take(self, context: Context, book: ConsolidatedBook) -> ConsolidatedTake:
        least = [self.minimums.get(name, 0) for name in context.books.venues] if self.minimums else []
        minimums = np.array(least, dtype=np.int64) if any(least) else None
        return book.take(context.shares, lot=context.lot, minimums=minimums)


@dataclass
class RawSweepRule(SweepRule):
    """Sweep the displayed books by price alone, ignoring fees."""

    name: ClassVar[str] = "raw-sweep"

    def decide(self, context: Context) -> Plan:
        book = context.displayed
        free = context.book(book.prices, book.sizes, np.zeros_like(book.takers))
        return take_rule_plan(context, self._take(context, free), self.discretion)


def take_rule_plan(context: Context, taken: ConsolidatedTake, discretion: int = 0) -> Plan:
    """Return the plan that takes ``taken``, with limit prices ``discretion`` ticks beyond the displayed ones."""
    chosen = [v for v, shares in enumerate(taken.shares) if shares]
    venues, worse = context.books.venues, context.sign * discretion * context.tick
    return Plan(
        context.order,
        take={venues[v]: int(taken.shares[v]) for v in chosen},
        take_limits={venues[v]: float(taken.limits[v] + worse) for v in chosen},
    )


def sweep_rule_plan(context: Context, posted: Mapping[str, int] | None = None) -> Plan:
    """Return the plan that posts the given shares by venue, and takes the remainder where it is cheapest."""
    limit = dict(posted or {})
    taken = context.displayed.take(context.shares - sum(limit.values()), lot=context.lot)
    return dataclasses.replace(take_rule_plan(context, taken), limit=limit)


@dataclass
class NbboRule(Router):
    """Take only at the best displayed price, retry every millisecond for up to a second, then sweep.

    Retries end at the deadline: an order without a horizon is swept after one attempt.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {
    ...     "A": {"bids": [[10.00, 100], [9.99, 200]], "asks": [[10.02, 100]]},
    ...     "B": {"bids": [[10.00, 50]], "asks": [[10.02, 100]]},
    ... }
    >>> plan = NbboRule().route(read_context({"venues": books}, side="sell", shares=400))
    >>> plan.take, plan.rest
    ({'A': 100, 'B': 50}, 'touch')
    """

    name: ClassVar[str] = "nbbo"

    def decide(self, context: Context) -> Plan:
        book, best = context.displayed, context.books.best_ask if context.sign > 0 else context.books.best_bid
        at_best = np.where(book.prices == best, book.sizes, 0.0)
        top = context.book(book.prices, at_best, book.takers)
        return dataclasses.replace(take_rule_plan(context, top.take(context.shares, lot=context.lot)), rest="touch")


@dataclass
class PrimaryRule(Router):
    """Send the whole order to one venue, and resend returned shares there.

    Parameters
    ----------
    venue : str
        Name of the venue; default: the first venue of the books.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 150]], "asks": [[10.02, 100]]}}}
    >>> PrimaryRule().route(read_context(books, side="sell", shares=100)).take
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


@dataclass
class SprayRule(Router):
    """Take from all venues at once, pro rata to displayed depth, at any price.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {
    ...     "A": {"bids": [[10.00, 100], [9.99, 200]], "asks": [[10.02, 100]]},
    ...     "B": {"bids": [[9.97, 100]], "asks": [[10.02, 100]]},
    ... }
    >>> SprayRule().route(read_context({"venues": books}, side="sell", shares=200)).take
    {'A': 150, 'B': 50}
    """

    name: ClassVar[str] = "spray"

    def decide(self, context: Context) -> Plan:
        shares = proportional_allocation(context.displayed.sizes.sum(axis=1), context.shares, context.lot)
        venues = context.books.venues
        return Plan(context.order, take={venue: int(n) for venue, n in zip(venues, shares, strict=True) if n})


@dataclass
class DarkFirstRule(Router):
    """Ping dark pools in order of recent saving, then sweep: the standard routing rule.

    The score of a pool is the saving per share sent there, filled or not, against the sweep: an exponentially weighted
    mean with an optimistic start, so that every pool is tried.

    Parameters
    ----------
    mode : str
        ``sequential``: the best pool gets the whole order, the next one the remainder, and so on. ``parallel``: all
        pools at once, in proportion to their scores.
    memory_weight : float
        Weight of the previous score in an update.
    cap : int, optional
        Maximum shares sent to a pool; default: the whole order.
    min_saving : float
        Skip pools in which a fill saves at most this many dollars per share against the sweep.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}}
    >>> books["pools"] = {"P": {}, "Q": {"fee": "0.02 per share"}}
    >>> plan = DarkFirstRule().route(read_context(books, side="sell", shares=300))  # Q's fee exceeds the saving
    >>> plan.dark, plan.in_turn, plan.rest
    ({'P': 300}, True, 'sweep')
    """

    name: ClassVar[str] = "dark-first+sweep"
    feedback: ClassVar[str] = "F2"
    memory: ClassVar[tuple[str, ...]] = ("scores", "expected")
    first_score: ClassVar[float] = 1.0  # dollars per share: more than a pool usually saves
    mode: str = parameter("sequential", one_of, choices=("sequential", "parallel"))
    memory_weight: float = parameter(0.95, real_number, minimum=0, below=1)
    cap: int | None = parameter(None, whole_number)
    min_saving: float = parameter(0.0, real_number)
    scores: dict[str, float] = field(init=False, repr=False)
    expected: dict[str, dict[str, float]] = field(init=False, repr=False)  # saving per share, by open order and pool

    def begin(self) -> None:
        self.scores, self.expected = {}, {}

    def decide(self, context: Context) -> Plan:
        savings = context.pool_savings
        good = {pool: saving for pool, saving in savings.items() if saving > self.min_saving}
        self.expected[context.order] = good
        most = min(context.shares, self.cap or context.shares)
        score = {pool: self.scores.get(pool, self.first_score) for pool in good}
        if self.mode == "parallel":
            shares = proportional_allocation(np.array(list(score.values())), context.shares, context.lot)
            sent = {pool: min(int(n), most) for pool, n in zip(score, shares, strict=True) if n}
            return self.then(context, sent, in_turn=False)
        ranked = sorted(score, key=lambda pool: (-score[pool], pool))
        return self.then(context, dict.fromkeys(ranked, most), in_turn=True)

    def then(self, context: Context, dark: Mapping[str, int], *, in_turn: bool) -> Plan:
        """Return the plan that pings pools with ``dark`` shares and sweeps the remainder; subclasses override it."""
        return Plan(context.order, dark=dark, in_turn=in_turn)

    def beliefs(self) -> tuple[RouterBelief, ...]:
        what = "saving per share sent"
        return tuple(RouterBelief(pool, what, score, None, "$/share") for pool, score in self.scores.items())

    def on_fills(self, order: str, children: tuple[ChildReport, ...], profit: float | None) -> None:
        savings = self.expected.get(order, {})
        for child in children:
            if child.kind in ("dark", "dark_rest") and child.sent and child.place in savings:
                saved = child.filled / child.sent * savings[child.place]
                before = self.scores.get(child.place, self.first_score)
                self.scores[child.place] = self.memory_weight * before + (1 - self.memory_weight) * saved
        if profit is not None:
            self.expected.pop(order, None)


@dataclass
class DarkFirstPostRule(DarkFirstRule):
    """Ping dark pools first, post the remainder at the quickest queue, sweep at the horizon.

    The quickest queue has the smallest expected delay: shares displayed at the market's best own-side price over the
    shares per second that trade there (``outflow NAME`` of the context; default: 1).
    """

    name: ClassVar[str] = "dark-first+post+sweep"

    def then(self, context: Context, dark: Mapping[str, int], *, in_turn: bool) -> Plan:
        venue = context.quickest_venue
        rest = f"post:{venue}" if context.horizon > 0 and venue else "sweep"
        return Plan(context.order, dark=dark, in_turn=in_turn, rest=rest)


@dataclass
class RestEvenRule(Router):
    """Rest equal shares in every dark pool that saves against the sweep; sweep the remainder at the horizon.

    With a horizon of 0 it pings the pools instead.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> RestEvenRule().route(read_context(books, side="sell", shares=300, horizon=60)).dark_rest
    {'P': 150, 'Q': 150}
    """

    name: ClassVar[str] = "rest-even+sweep"

    def decide(self, context: Context) -> Plan:
        pools = [pool for pool, saving in context.pool_savings.items() if saving > 0]
        shares = proportional_allocation(np.ones(len(pools)), context.shares, context.lot)
        sent = {pool: int(n) for pool, n in zip(pools, shares, strict=True) if n}
        return Plan(context.order, dark_rest=sent) if context.horizon > 0 else Plan(context.order, dark=sent)


@dataclass
class DelayRule(Router):
    """Post at the venue with the best ``rebate - gamma * delay``, sweep the remainder at the horizon.

    The expected delay of a venue is the shares displayed at its best own-side price over the shares per second that
    trade there (``outflow NAME`` of the context; default: 1). Only venues at the market's best price are considered.
    With a horizon of 0 it sweeps.

    Parameters
    ----------
    gamma : float
        Cost of a second of delay, in dollars per share. 0 ranks by rebate alone; a large value ranks by delay, as in
        ``dark-first+post+sweep``.

    References
    ----------
    C. Maglaras, C. Moallemi, H. Zheng, "Queueing dynamics and state space collapse in fragmented limit order book
    markets", Operations Research (2021)
    J. Muhle-Karbe, E. Neuman, Y. Shadmi, "Fluid-limits of fragmented limit-order markets" (2024), on the same model,
    https://arxiv.org/abs/2407.04354

    Examples
    --------
    Both queues show 300 shares. A pays a rebate of 0.2 cents and trades 10 shares per second; B charges 0.1 cents and
    trades 60. The delays are 30 and 5 seconds:

    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {
    ...     "A": {"bids": [[10.00, 300]], "asks": [[10.02, 900]], "maker": "-0.002 per share"},
    ...     "B": {"bids": [[10.00, 300]], "asks": [[10.02, 900]], "maker": "0.001 per share"},
    ... }, "features": {"outflow A": 10.0, "outflow B": 60.0}}
    >>> order = read_context(books, side="buy", shares=200, horizon=60)
    >>> DelayRule(gamma=0.0001).decide(order).rest, DelayRule(gamma=0.0002).decide(order).rest
    ('post:A', 'post:B')
    """

    name: ClassVar[str] = "delay+sweep"
    gamma: float = parameter(0.0001, real_number, minimum=0, maximum=1000)

    def decide(self, context: Context) -> Plan:
        fees = context.books.post_fees("bid" if context.sign > 0 else "ask")
        makers = dict(zip(context.books.venues, fees.tolist(), strict=True))
        value = {
            name: -makers[name] - self.gamma * shares / max(context.features.get(f"outflow {name}", 1.0), 1e-3)
            for name, shares in context.best_queues.items()
        }
        if context.horizon <= 0 or not value:
            return sweep_rule_plan(context)
        return Plan(context.order, rest=f"post:{min(value, key=lambda name: (-value[name], name))}")


@dataclass
class HiddenRule(Router):
    """Sweep books whose best level is enlarged by each venue's estimated hidden reserve.

    After Almgren and Harts: the reserve estimate is theirs, the routing is a reconstruction. For each venue and side, a
    trade of ``S`` shares where ``s`` were displayed updates the reserve ``R <- delta R + (S - s)^+``, a discounted sum;
    ``(1 - delta) R`` is the mean excess of a trade.

    A backtest cannot observe the hidden shares that an order would have met. It fills shares beyond the display up to
    the hidden volume that traded at that venue and price within the next second, and returns the remainder.

    Parameters
    ----------
    delta : float
        Discount factor per trade.
    eta : float
        Fraction of the reserve added to the display; 0 is ``sweep``.

    References
    ----------
    R. Almgren, B. Harts, "A dynamic algorithm for smart order routing", StreamBase white paper (2008); it has no
    permanent address.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"A": {"bids": [[10.00, 100]], "asks": [[10.02, 100]]}, "B": {"bids": [[10.00, 200]], "asks": []}}
    >>> router = HiddenRule(delta=0.9)
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
    # shares, by venue and side of the book
    reserves: dict[str, dict[Annotated[str, msgspec.Meta(pattern="^(bid|ask)$")], NonNegative]] = field(
        init=False, repr=False
    )

    def begin(self) -> None:
        self.reserves = {}

    def decide(self, context: Context) -> Plan:
        side = "ask" if context.sign > 0 else "bid"
        prices, sizes = context.books.side(side)
        enlarged = sizes.copy()
        for v, venue in enumerate(context.books.venues):
            if sizes[v, 0] > 0:
                enlarged[v, 0] += np.floor(self.eta * self.reserves.get(venue, {}).get(side, 0.0))
        book = context.book(prices, enlarged, context.books.takers)
        return take_rule_plan(context, book.take(context.shares, lot=context.lot))

    def on_public_data(self, public: PublicData) -> None:
        for venue, sides in public.trades.items():
            for side, trades in sides.items():
                reserves = self.reserves.setdefault(venue, {})
                for size, displayed in trades:
                    reserves[side] = self.delta * reserves.get(side, 0.0) + max(size - displayed, 0)


@dataclass
class StaticSplitRule(Router):
    """Send fixed fractions of the order to venues, taken at any price, and to dark pools.

    Shares for a venue or pool missing from the context follow the rule for returned shares.

    Parameters
    ----------
    take : Mapping[str, float]
        Weights of venues; default: equal weights, if ``dark`` is empty too.
    dark : Mapping[str, float]
        Weights of pools.
    rest : str
        Venue for returned shares; default, or if the context has no such venue: sweep them.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {name: {"bids": [[10.0, 900]], "asks": [[10.02, 900]]} for name in ("XNAS", "XPSX")}}
    >>> StaticSplitRule({"XNAS": 0.97, "XPSX": 0.03}).route(read_context(books, side="sell", shares=1000)).take
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
            raise InputError("take and dark must hold at least one weight above 0, was 0 in total")

    def decide(self, context: Context) -> Plan:
        take = self.take if self.take or self.dark else dict.fromkeys(context.books.venues, 1.0)
        places = [("take", place) for place in take] + [("dark", place) for place in self.dark]
        weights = [*take.values(), *self.dark.values()]
        rest = f"venue:{self.rest}" if self.rest in context.books.venues else "sweep"
        return split_rule_plan(context, places, weights, rest)


def split_rule_plan(
    context: Context, places: Sequence[tuple[str, str]], weights: Sequence[float], rest: str = "sweep"
) -> Plan:
    """Return the plan that splits an order in proportion to weights, at any price.

    ``places`` are pairs of ``take`` or ``dark`` and a name; shares for a missing place stay unassigned.
    """
    shares = proportional_allocation(np.array(weights, dtype=float), context.shares, context.lot)
    there = {"take": context.books.venues, "dark": tuple(pool.name for pool in context.pools)}
    sent: dict[str, dict[str, int]] = {"take": {}, "dark": {}}
    for (kind, place), some in zip(places, shares, strict=True):
        if some and place in there[kind]:
            sent[kind][place] = int(some)
    return Plan(context.order, take=sent["take"], dark=sent["dark"], rest=rest, trade_through=True)


@dataclass
class StaticSweepRule(Router):
    """Rest and post fixed fractions of the order, ping pools with the remainder, then sweep.

    Parameters
    ----------
    pools : Sequence[str]
        Pools to ping first, in this order, if they save against the sweep, with all shares not rested or posted.
    rest : float
        Fraction rested until the horizon, split equally among the pools that save against the sweep.
    post : float
        Fraction posted until the horizon at the quickest queue.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"XNAS": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}}}
    >>> plan = StaticSweepRule(pools=["P"], post=0.5).route(read_context(books, side="sell", shares=1000, horizon=60))
    >>> plan.dark, plan.limit, plan.rest
    ({'P': 500}, {'XNAS': 500}, 'sweep')
    """

    name: ClassVar[str] = "static+sweep"
    pools: Sequence[str] = ()
    rest: float = parameter(0.0, real_number, minimum=0, maximum=1)
    post: float = parameter(0.0, real_number, minimum=0, maximum=1)

    def check_parameters(self) -> None:
        if self.rest + self.post > 1:
            raise InputError(f"rest plus post must be at most 1, was {self.rest + self.post}")
        self.pools = valid_list("pools", self.pools, str, "names")

    def decide(self, context: Context) -> Plan:
        savings = {pool: saving for pool, saving in context.pool_savings.items() if saving > 0}
        resting, posting, venue = 0, 0, context.quickest_venue
        if context.horizon > 0:
            wanted = np.array([self.rest if savings else 0.0, self.post if venue else 0.0, 0.0])
            wanted[2] = 1 - wanted.sum()
            resting, posting, _ = (int(n) for n in proportional_allocation(wanted, context.shares, context.lot))
        each = proportional_allocation(np.ones(max(len(savings), 1)), resting, context.lot)
        now = context.shares - resting - posting
        return Plan(
            context.order,
            dark={pool: now for pool in self.pools if pool in savings} if now else {},
            in_turn=True,
            dark_rest={pool: int(n) for pool, n in zip(savings, each, strict=False) if n},
            limit={venue: posting} if posting else {},
        )
