"""What orders cost by "The rules in full" of docs/backtest.md, recomputed without any code of the product.

Times are integer nanoseconds, money is in dollars.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

SECOND, MILLISECOND = 10**9, 10**6
STALE, STALE_WITHOUT_EVENTS = 60 * SECOND, 5 * SECOND
MOST_TOUCHES = 1000  # looks at the best price alone

RULES = ("sweep", "raw-sweep", "primary", "nbbo", "post")

Quote = tuple[int, float, int]  # venue, price, shares
Offers = list[tuple[float, int]]  # cost of a share, shares


class Order(NamedTuple):
    time: int
    sign: int  # 1 for a purchase, -1 for a sale
    shares: int
    horizon: float  # seconds


class Fill(NamedTuple):
    time: int
    venue: str  # empty for an estimate
    shares: int
    price: float
    fee: float


class Charge(NamedTuple):
    """A fee: dollars a share, basis points of the price, and the least and the most that an order pays."""

    per_share: float = 0.0
    bps: float = 0.0
    least: float = -math.inf
    most: float = math.inf

    def at(self, price: float) -> float:
        """Return the fee of a share at a price."""
        return self.per_share + self.bps / 1e4 * abs(price)

    def at_least(self, price: float, shares: int) -> float:
        """Return the least that a share can pay as part of an order of so many shares."""
        return min(self.at(price), self.most / shares)


def decimal(value: float) -> float:
    """Return a sum of prices and fees without the noise of binary fractions: 10.01 + 0.02 is 10.00 + 0.03."""
    return float(f"{value:.12g}")


class Side:
    """One side of a table of books: the levels of each row, whole shares only."""

    def __init__(self, table: pl.DataFrame, side: str) -> None:
        prices = sorted(name for name in table.columns if name.startswith(f"{side}_px_"))
        sizes = [name.replace("_px_", "_sz_") for name in prices]
        self.prices = table.select(pl.col(prices).cast(pl.Float64).fill_null(math.nan)).to_numpy()
        self.sizes = table.select(pl.col(sizes).cast(pl.Float64).fill_null(0)).to_numpy()

    @cache  # noqa: B019 - a side lives as long as its test
    def levels(self, row: int) -> list[tuple[float, int]]:
        both = zip(self.prices[row].tolist(), self.sizes[row].tolist(), strict=True)
        return [(price, math.floor(size)) for price, size in both if price == price and size >= 1]


class Market:
    """Tables of books and events by venue, in the order in which venues are listed; taker and maker fees by venue."""

    def __init__(
        self,
        books: Mapping[str, pl.DataFrame],
        fees: Mapping[str, tuple[Charge, Charge]],
        events: Mapping[str, pl.DataFrame] | None = None,
        *,
        protected: bool = False,
        latency: int = MILLISECOND,
    ) -> None:
        self.venues, self.protected, self.latency = list(books), protected, latency
        self.all = range(len(self.venues))
        self.takers, self.makers = ([fees[name][k] for name in books] for k in (0, 1))
        self.stale = STALE if events else STALE_WITHOUT_EVENTS
        self.stamps = [table["ts_event"].cast(pl.Int64).to_numpy() for table in books.values()]
        self.sides = {sign: [Side(table, name) for table in books.values()] for sign, name in ((1, "ask"), (-1, "bid"))}
        columns = pl.col("ts_event").cast(pl.Int64), "action", "side", "price", "size", "order_id"
        self.events = [(events or {})[name].select(columns).rows() if name in (events or {}) else [] for name in books]

    def row(self, venue: int, time: int) -> int:
        """The snapshot that a venue shows, the last one up to a time; -1 if there is none or it is stale."""
        row = int(np.searchsorted(self.stamps[venue], time, side="right")) - 1
        return row if row >= 0 and time - self.stamps[venue][row] <= self.stale else -1

    def levels(self, venue: int, time: int, sign: int) -> list[tuple[float, int]]:
        """What a purchase (1: the asks) or a sale (-1: the bids) could take at a venue, the best first."""
        row = self.row(venue, time)
        return self.sides[sign][venue].levels(row) if row >= 0 else []

    def quotes(self, time: int, sign: int) -> list[Quote]:
        return [(venue, *level) for venue in self.all for level in self.levels(venue, time, sign)]

    def mid(self, time: int) -> float | None:
        asks, bids = ([price for _, price, _ in self.quotes(time, sign)] for sign in (1, -1))
        return (min(asks) + max(bids)) / 2 if asks and bids else None

    def ordered(self, quotes: Iterable[Quote], sign: int, takers: Sequence[Charge] | None = None) -> list[Quote]:
        """Levels as a sweep takes them; the sort is stable, so that ties go to the venue listed first."""
        fees = self.takers if takers is None else takers

        def key(quote: Quote) -> tuple[float, float, int]:
            price, after = decimal(sign * quote[1]), decimal(sign * quote[1] + fees[quote[0]].at(quote[1]))
            return (price, after, -quote[2]) if self.protected else (after, price, -quote[2])

        return sorted(quotes, key=key)

    @cache  # noqa: B019 - as above
    def hidden_trades(self, venue: int, price: float) -> list[tuple[int, int]]:
        """Times and shares of trades at a price with orders that were never displayed."""
        return [(t, size) for t, action, _, at, size, order in self.events[venue]
                if action == "F" and order == 0 and abs(at - price) < 1e-9]  # fmt: skip

    def hidden(self, venue: int, price: float, begin: int) -> int:
        """Hidden shares that traded at a price in the second that begins at a time."""
        return sum(size for time, size in self.hidden_trades(venue, price) if begin <= time < begin + SECOND)

    def queue_fills(self, venue: int, sign: int, begin: int, end: int) -> tuple[float, list[tuple[int, int]]]:
        """The price at which an order of any size joins the back of a venue's queue, and its fills before a time.

        Orders added later stand behind us, and so do those never shown to be added whose ids say so. A trade beyond the
        shares ahead, or at a worse price, would have been ours; so would an order of the other side that comes to our
        price and finds nobody there, but once: one that is cancelled and added at the same time has only moved.
        """
        own = self.levels(venue, begin, -sign)
        if not own or not self.events[venue]:
            return math.nan, []
        (price, ahead), side = own[0], "B" if sign > 0 else "A"
        added = {order: time for time, action, _, _, _, order in self.events[venue] if action == "A"}
        later = min((order for order, time in added.items() if time > begin), default=math.inf)  # ids rise
        met = set[int]()
        fills: list[tuple[int, int]] = []
        before: tuple[int, str, str, int] = (0, "", "", 0)
        for time, action, where, at, size, order in self.events[venue]:
            if not begin < time < end or order == 0:
                continue
            if where != side and action == "A" and before[:3] == (time, where, "C") and before[3] in met:
                met.add(order)
            elif where != side and action == "A" and sign * at <= sign * price:
                met.add(order)
                fills.append((time, max(size - ahead, 0)))
            elif where == side and action != "A" and sign * at <= sign * price:
                behind = added[order] > begin if order in added else order > later
                left = min(size, ahead) if at == price and not behind else 0
                ahead -= left
                if action == "F" and size > left:
                    fills.append((time, size - left))
                    ahead = 0  # those ahead would have traded first; a recording of few levels loses some
            before = time, where, action, order
        return price, fills


class Execution:
    """One order under way: its fills, and the shares that it took from each snapshot."""

    def __init__(self, market: Market, order: Order) -> None:
        mid = market.mid(order.time)
        if mid is None:
            raise ValueError("an order that finds no bid or no ask is left out")
        self.market, self.order, self.sign, self.left, self.mid = market, order, order.sign, order.shares, mid
        self.fills: list[Fill] = []
        self.own: list[tuple[int, int, int, float, int]] = []  # time, venue, snapshot, price, shares
        self.met: dict[tuple[int, float], int] = defaultdict(int)  # hidden shares, by venue and price

    def remaining(self, time: int, venue: int) -> list[tuple[float, int]]:
        """Levels of a venue without the shares that this order took from the same snapshot or within a second."""
        row = self.market.row(venue, time)
        return [
            (price, size - sum(q for when, v, r, p, q in self.own
                               if (v, p) == (venue, price) and (r == row or time - when <= SECOND)))
            for price, size in self.market.levels(venue, time, self.sign)
        ]  # fmt: skip

    def walk(self, time: int, venue: int, shares: int, limit: float = math.inf) -> None:
        """Take shares at a venue level by level, no worse than a signed limit; hidden ones behind the displayed."""
        found: list[Fill] = []
        for price, there in self.remaining(time, venue):
            if self.sign * price > limit:
                break
            shown = max(min(shares, there), 0)
            if shown:
                self.own.append((time, venue, self.market.row(venue, time), price, shown))
            hidden = self.market.hidden(venue, price, time) - self.met[venue, price]
            hidden = max(min(shares - shown, hidden), 0)
            self.met[venue, price] += hidden
            found += [Fill(time, self.market.venues[venue], some, price, 0.0) for some in (shown, hidden) if some]
            shares -= shown + hidden
            self.left -= shown + hidden
        self.charge(found, self.market.takers[venue])

    def charge(self, fills: Sequence[Fill], fee: Charge) -> None:
        """Add the fills of a child; what its least or most fee changes is spread evenly over its shares."""
        whole = sum(fill.shares * fee.at(fill.price) for fill in fills)
        change = min(max(whole, fee.least), fee.most) - whole
        shares = sum(fill.shares for fill in fills)
        self.fills += [fill._replace(fee=fee.at(fill.price) + change / shares) for fill in fills]

    def sweep(self, time: int, *, best_only: bool = False) -> None:
        quotes = [(v, *level) for v in self.market.all for level in self.remaining(time, v) if level[1] > 0]
        if best_only and quotes:
            best = min(self.sign * price for _, price, _ in quotes)
            quotes = [quote for quote in quotes if self.sign * quote[1] == best]
        for venue, (shares, limit) in totals(self.market.ordered(quotes, self.sign), self.left).items():
            self.walk(time, venue, shares, self.sign * limit if best_only else math.inf)

    def arrive(self, time: int, children: Mapping[int, tuple[int, float]]) -> None:
        """Children (shares and limit by venue) take what they find, as far as order protection lets them."""
        sign, best = self.sign, {}
        for venue in self.market.all:
            if levels := self.market.levels(venue, time, sign):
                price, size = levels[0]
                shares, limit = children.get(venue, (0, price))
                best[venue] = sign * price, size - (shares if sign * price <= sign * limit else 0)
        for venue, (shares, limit) in children.items():
            protected = [price for other, (price, left) in best.items() if other != venue and left >= 1]
            worst = min(protected, default=math.inf) if self.market.protected else math.inf
            self.walk(time, venue, shares, min(sign * limit, worst))

    def post(self, venue: int, begin: int, end: int) -> None:
        price, fills = self.market.queue_fills(venue, self.sign, begin, end)
        found: list[Fill] = []
        for time, size in fills:
            some = min(size, self.left)
            if some:
                found.append(Fill(time, self.market.venues[venue], some, price, 0.0))
            self.left -= some
        self.charge(found, self.market.makers[venue])

    def estimate(self, time: int) -> None:
        if self.left:
            money, fees = beyond(self.market, self.order, self.mid, time, self.left)
            self.fills.append(Fill(time, "", self.left, float(money) / self.left, float(fees) / self.left))
            self.left = 0

    @property
    def cost(self) -> float:
        return math.fsum(fill.shares * (self.sign * (fill.price - self.mid) + fill.fee) for fill in self.fills)

    @property
    def estimated(self) -> int:
        return sum(fill.shares for fill in self.fills if not fill.venue)


def totals(quotes: Iterable[Quote], shares: int) -> dict[int, tuple[int, float]]:
    """Shares by venue, and the worst price counted on, of taking levels in their order."""
    found: dict[int, tuple[int, float]] = {}
    for venue, price, size in quotes:
        if shares:
            found[venue] = found.get(venue, (0, 0.0))[0] + min(size, shares), price
            shares -= min(size, shares)
    return found


def beyond(market: Market, order: Order, mid: float, time: int, shares: int | np.ndarray) -> tuple[Any, Any]:
    """Estimated money for so many shares beyond everything displayed at a time: an integral; and their fees."""
    quotes = market.quotes(time, order.sign) or market.quotes(order.time, order.sign)
    levels = market.ordered(quotes, order.sign)
    depth, (venue, last, _) = sum(size for _, _, size in levels), levels[-1]
    away = order.sign * (last - mid)
    money: Any
    if away <= 0:
        money = shares * last
    elif order.sign > 0 or last <= 0:
        money = shares * (mid + order.sign * away * (1 + shares / (2 * depth)))
    else:
        ratio = away / (mid - away)
        money = mid * depth / ratio * np.log1p(ratio / (1 + ratio) * shares / depth)
    fee: Charge = market.takers[venue]
    return money, shares * fee.per_share + fee.bps / 1e4 * abs(money)


def play(market: Market, order: Order, rule: str, venue: int = 0) -> Execution:
    """Execute an order by one of `RULES`; ``venue`` is where ``primary`` takes and ``post`` posts."""
    one, sign = Execution(market, order), order.sign
    quotes = market.quotes(order.time, sign)
    children: dict[int, tuple[int, float]] = {}
    if rule == "sweep":
        children = totals(market.ordered(quotes, sign), order.shares)
    elif rule == "raw-sweep":
        children = totals(market.ordered(quotes, sign, [Charge()] * len(market.venues)), order.shares)
    elif rule == "nbbo":
        best = min(sign * price for _, price, _ in quotes)
        children = totals(market.ordered([q for q in quotes if sign * q[1] == best], sign), order.shares)
    elif rule == "primary":
        children = {venue: (order.shares, sign * math.inf)}
    time = order.time + (2 if children else 1) * market.latency
    end = order.time + round(order.horizon * SECOND)
    deadline = max(end, time)
    one.arrive(order.time + market.latency, children)
    if rule == "post" and end > time:
        one.post(venue, time, end)
        time = deadline
    if rule == "nbbo":
        for look in range(time, min(time + MOST_TOUCHES * MILLISECOND, deadline), MILLISECOND):
            if one.left:
                one.sweep(look, best_only=True)
        time += MOST_TOUCHES * MILLISECOND
    for look in (*range(time, deadline, SECOND), deadline):
        if one.left and rule == "primary":
            one.walk(look, venue, one.left)
        elif one.left:
            one.sweep(look)
    one.estimate(deadline)
    return one


def benchmarks(market: Market, order: Order) -> dict[str, float | None]:
    """The prices against which the cost of an order can be stated."""
    mid = market.mid(order.time)
    if mid is None:
        raise ValueError("an order that finds no bid or no ask is left out")
    best = min(order.sign * price for _, price, _ in market.quotes(order.time, order.sign))
    end = order.time + round(order.horizon * SECOND)
    return {
        "arrival": mid,
        "touch": order.sign * best,
        "vwap": traded_price(market, order.time, end, mid),
        "twap": average_mid(market, order.time, end) if end > order.time else mid,
    }


def average_mid(market: Market, begin: int, end: int) -> float:
    """The mean of the mid before the end. It can change where a snapshot comes, and where one becomes stale."""
    changes = {begin, end}
    for stamps in market.stamps:
        near = stamps[(stamps >= begin - market.stale - 1) & (stamps < end)].tolist()
        changes |= {time for stamp in near for time in (stamp, stamp + market.stale + 1) if begin < time < end}
    times = sorted(changes)
    pieces = [(market.mid(time), later - time) for time, later in pairwise(times)]
    known = [(mid, length) for mid, length in pieces if mid is not None]
    return math.fsum(mid * length for mid, length in known) / sum(length for _, length in known)


def traded_price(market: Market, begin: int, end: int, mid: float) -> float | None:
    """The average price of the shares that trade between two times; None if nothing trades on the whole day."""
    trades = []
    for events in market.events:
        executed = [event for event in events if event[1] == "F"]
        named = any(order > 0 for *_, order in executed)
        trades += executed if named else [event for event in events if event[1] in ("F", "T")]
    if not trades:
        return None
    there = [(price, size) for time, _, _, price, size, _ in trades if begin <= time <= end and end > begin]
    shares = sum(size for _, size in there)
    return math.fsum(price * size for price, size in there) / shares if shares else mid


def spread(market: Market, one: Execution, seconds: int) -> float | None:
    """What an order paid above the mid some seconds after each fill, twice, in basis points of its own mid."""
    last = max(int(stamps[-1]) for stamps in market.stamps)
    paid, shares = [], 0
    for fill in one.fills:
        mid = market.mid(fill.time + seconds * SECOND)
        if mid is not None and (not seconds or fill.time + seconds * SECOND <= last):
            paid.append(2 * one.sign * (fill.price - mid) * fill.shares)
            shares += fill.shares
    return 1e4 * math.fsum(paid) / (shares * one.mid) if shares else None


def clairvoyant(market: Market, order: Order) -> float:
    """Cost in dollars of the cheapest shares of all that any plan could get."""
    one = Execution(market, order)
    first, second = (order.time + ways * market.latency for ways in (1, 2))
    end = order.time + round(order.horizon * SECOND)
    deadline = max(end, second)
    offers: Offers = []
    for venue in market.all:
        for price, shares in displayed(market, order, venue, first, deadline).items():
            offers.append((order.sign * (price - one.mid) + market.takers[venue].at_least(price, order.shares), shares))
        posts = [market.queue_fills(venue, order.sign, begin, end) for begin in (first, second) if begin < end]
        offers += better([
            (
                order.sign * (price - one.mid) + market.makers[venue].at_least(price, order.shares),
                sum(size for _, size in fills),
            )
            for price, fills in posts if fills
        ])  # fmt: skip
    offers.sort()
    offered = np.cumsum([0, *(shares for _, shares in offers)])
    costs = np.cumsum([0.0, *(cost * shares for cost, shares in offers)])
    found = []
    for when in {max(end, first), max(end, second)}:
        number = np.arange(max(order.shares - int(offered[-1]), 0), order.shares + 1)  # shares that are estimated
        money, fees = beyond(market, order, one.mid, when, number)
        estimated = order.sign * (money - number * one.mid) + fees
        found.append(np.min(estimated + np.interp(order.shares - number, offered, costs)))
    return float(min(found))


def better(alternatives: Offers) -> Offers:
    """Alternatives that exclude each other, granted share by share: the k-th share costs the least of them."""
    found, before = [], 0
    for most in sorted({shares for _, shares in alternatives}):
        found.append((min(cost for cost, shares in alternatives if shares >= most), most - before))
        before = most
    return found


def displayed(market: Market, order: Order, venue: int, first: int, deadline: int) -> dict[float, int]:
    """Shares by price that a venue offers between two times: a maximum flow from snapshots to seconds, for each price.

    A snapshot offers its size once, a second the largest size visible in it. No edge needs more than the order.
    """
    stamps, side = market.stamps[venue], market.sides[order.sign][venue]
    start, stop = (int(np.searchsorted(stamps, time, side="right")) for time in (first, deadline))
    sizes: dict[float, list[tuple[int, int, int]]] = defaultdict(list)
    for row in range(max(start - 1, 0), stop):
        since = max(int(stamps[row]), first)
        until = min(int(stamps[row]) + market.stale, deadline)
        if row + 1 < len(stamps):
            until = min(until, int(stamps[row + 1]) - 1)
        for price, size in side.levels(row) if until >= since else []:
            sizes[price].append((min(size, order.shares), (since - first) // SECOND, (until - first) // SECOND))
    found: dict[float, int] = {}
    for price, visible in sorted(sizes.items(), key=lambda one: order.sign * one[0]):
        if sum(found.values()) >= order.shares:
            break  # nobody needs a worse price
        seconds = 1 + max(last for _, _, last in visible)
        source, sink = len(visible) + seconds, len(visible) + seconds + 1
        capacity: dict[tuple[int, int], int] = defaultdict(int)
        for k, (size, begin, last) in enumerate(visible):
            capacity[source, k] = size
            for second in range(begin, last + 1):
                capacity[k, len(visible) + second] = size
                there = len(visible) + second, sink
                capacity[there] = max(capacity[there], size)
        rows, columns = zip(*capacity, strict=True)
        graph = csr_array((np.array(list(capacity.values()), dtype=np.int32), (rows, columns)), shape=(sink + 1,) * 2)
        found[price] = int(maximum_flow(graph, source, sink).flow_value)
        found[price] += most_hidden(market, venue, price, first, deadline)
    return found


def most_hidden(market: Market, venue: int, price: float, first: int, last: int) -> int:
    """The most hidden shares that traded at a venue and price within a second that begins between two times."""
    starts = {first, last, *(time for time, _ in market.hidden_trades(venue, price) if first <= time <= last)}
    return max(market.hidden(venue, price, start) for start in starts)
