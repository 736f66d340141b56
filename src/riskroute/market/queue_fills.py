"""Fills of limit orders in recorded queues, followed event by event through a day.

Price-time priority serves the oldest order first. A pro-rata venue allocates every trade in proportion to displayed
sizes. `QueueReplay` fills orders that join at any time, and lists the public trades of the same recording;
`queue_bucket_fills` fills one order per bucket. Where trades have no order ids, `riskroute.market.queue_models`
estimates the queue position.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import polars
from numba import njit

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import DataError
from riskroute.core.validation import one_of
from riskroute.market.clock import SECOND
from riskroute.market.price_keys import NO_PRICE, price_key, price_keys
from riskroute.market.queue_models import (
    DEFAULT_QUEUE_MODEL,
    QueueModel,
    QueueSide,
    QueueTrades,
    follow_queue_model,
    match_queue_model_trades,
    queue_model_displayed,
    queue_model_side,
)
from riskroute.market.schema import EVENT_SCHEMA

if TYPE_CHECKING:
    from riskroute.market.day_books import DayBooks


# Codes of event actions; all but ``arrive`` are A, C, F, M and T of an event table. ``arrive`` marks an order of the
# other side: if its price is at or through ours, it trades with us instead of resting.
_EventActions = namedtuple("_EventActions", "add cancel execute replace arrive trade")
ACTION = _EventActions(*range(6))
MATCHING_RULES = ("price-time", "pro-rata")


class QueueEvents(NamedTuple):
    """Events of our side of the book, ``(N,)`` each, and the size that each removes from a queue.

    Prices are coded by `price_keys` and increase as they get worse for the counterparty. A cancel, an
    execution and the old order of a replacement remove ``gone_sizes`` from the queue at ``gone_prices``, from an order
    that joined at sequence ``gone_joined``. If that order was never added, ``gone_joined`` is the earliest sequence
    that its id allows (-1: before the first event). Orders of the other side are included with action ``arrive``.
    """

    stamps: Integers
    sequences: Integers
    actions: Integers
    prices: Integers
    sizes: Integers
    gone_prices: Integers
    gone_joined: Integers
    gone_sizes: Integers

    def between(self, sequence: int, stamp: int) -> tuple[int, int]:
        """Return the first row after ``sequence``, and the first row at or after ``stamp``."""
        begin = int(np.searchsorted(self.sequences, sequence, side="right"))
        return begin, max(begin, int(np.searchsorted(self.stamps, stamp)))


def queue_bucket_fills(
    events: polars.DataFrame,
    edges: Integers,
    sequences: Integers,
    limits: Integers,
    shown: Floats,
    quantities: Integers,
    *,
    direction: int,
    rule: str,
) -> Integers:
    """Return the shares filled at the limit price, ``(B, Q)``, by orders of ``quantities (Q,)`` in each of B buckets.

    In the bucket from ``edges[b]`` to ``edges[b + 1]`` (UTC nanoseconds) an order joins right after event
    ``sequences[b]``, behind ``shown[b]`` shares at ``limits[b]``, coded by `price_keys` (`NO_PRICE`: no order joins).
    ``direction`` is 1 for orders to sell and -1 for orders to buy; ``rule`` is one of `MATCHING_RULES`.
    """
    if _lacks_order_ids(events):
        raise DataError("events must have order ids for limit orders in buckets, had public trades only")
    flow, pro_rata = _code_day_events(events, direction, int(edges[-1])), rule == "pro-rata"
    filled = np.zeros((len(shown), len(quantities)), dtype=np.int64)
    for bucket in np.flatnonzero(limits != NO_PRICE):
        sequence, price, ahead = int(sequences[bucket]), int(limits[bucket]), int(shown[bucket])
        rows = flow.between(sequence, int(edges[bucket + 1]))
        filled[bucket] = _filled(flow, *rows, sequence, price, ahead, quantities, pro_rata)
    return filled


def _code_day_events(events: polars.DataFrame, direction: int, end: int = 2**62) -> QueueEvents:
    """Code the events before ``end`` for limit orders to sell (``direction`` 1) or to buy (-1)."""
    coded = _coded_events(events, direction, end).filter(polars.col("order_id") > 0)
    ours = (coded["side"] == ("A" if direction == 1 else "B")).fill_null(False).to_numpy()
    names = ("stamp", "sequence", "action", "price", "size")
    stamps, sequences, actions, prices, sizes = (coded[name].cast(polars.Int64).to_numpy().copy() for name in names)
    gone = [np.full(len(stamps), NO_PRICE), np.full(len(stamps), -1), np.zeros(len(stamps), dtype=np.int64)]
    arrivals = _ArrivalIds.of_events(coded)
    for mine in (ours, ~ours):
        rows = np.flatnonzero(mine)
        if len(rows):
            found = _look_up_orders(coded[rows], actions[rows], arrivals)
            for column, values in zip(gone, found, strict=True):
                column[rows] = values
    theirs = ~ours
    moved = (actions[1:] == ACTION.add) & (actions[:-1] == ACTION.cancel) & (stamps[1:] == stamps[:-1])
    moved &= theirs[1:] & theirs[:-1]
    for column in gone[:2]:
        column[1:][moved] = column[:-1][moved]  # a cancel and an add at the same time are a replacement
    arrives = theirs & ((actions == ACTION.add) | (actions == ACTION.replace))
    actions[arrives] = ACTION.arrive
    keep = ours | arrives
    columns = (stamps, sequences, actions, prices, sizes, *gone)
    return QueueEvents(*(np.ascontiguousarray(column[keep]) for column in columns))


class _ArrivalIds(NamedTuple):
    """Ascending ids of added orders, ``(K,)``, and the sequences of their adds; empty if ids do not follow arrival."""

    ids: Integers
    sequences: Integers

    @classmethod
    def of_events(cls, coded: polars.DataFrame) -> Self:
        """Return the ascending ids of the orders that the coded events of both sides add."""
        added = coded.filter(polars.col("action").is_in([ACTION.add, ACTION.replace]))
        ids, sequences = added["order_id"].cast(polars.UInt64).to_numpy(), added["sequence"].to_numpy()
        rising = np.append(True, ids[1:] > np.maximum.accumulate(ids)[:-1])[: len(ids)]
        # An order displayed some time after it was sent has an id out of sequence; if more than 1 % do, no id is used.
        if (~rising).sum() > 0.01 * len(ids):
            rising[:] = False
        return cls(ids[rising], sequences[rising].astype(np.int64))

    def earliest(self, ids: Integers) -> Integers:
        """Return the earliest sequence at which each order can have joined: after the last added order with a lower id.

        >>> _ArrivalIds(np.array([10, 20]), np.array([3, 8])).earliest(np.array([5, 15, 99])).tolist()
        [-1, 4, 9]
        """
        places = np.searchsorted(self.ids, ids) - 1
        return np.append(self.sequences + 1, -1)[places]  # place -1 selects the last entry, -1


def _look_up_orders(
    events: polars.DataFrame, actions: Integers, arrivals: _ArrivalIds
) -> tuple[Integers, Integers, Integers]:
    """Return price, joining sequence and size of what each coded event of one side removes, ``(N,)`` each."""
    sequences, prices, sizes = (np.array(events[name].to_numpy()) for name in ("sequence", "price", "size"))
    # Ids of orders are large and sparse; dense labels let the kernel use arrays instead of a dictionary.
    replaced = actions == ACTION.replace
    names = polars.concat([events["order_id"], events["old_order_id"].filter(polars.Series(replaced))])
    labels = names.rank("dense").cast(polars.Int64).to_numpy() - 1
    old_labels = np.full(len(actions), -1)
    old_labels[replaced] = labels[len(actions) :]
    joined = np.full(len(names), -1)
    joined[labels] = arrivals.earliest(names.cast(polars.UInt64).to_numpy())
    found: tuple[Integers, Integers, Integers] = _look_up(
        (sequences, actions, prices, sizes, labels[: len(actions)], old_labels), joined
    )
    return found


@njit(cache=True)
def _look_up(events: tuple[Integers, ...], joined: Integers) -> tuple[Integers, Integers, Integers]:
    """Return what `_look_up_orders` returns; ``joined`` starts with the earliest sequences and is updated in place."""
    sequences, actions, prices, sizes, orders, old_orders = events
    price = np.full(len(joined), NO_PRICE)
    left = np.zeros(len(joined), dtype=np.int64)
    gone_prices = np.full(len(actions), NO_PRICE)
    gone_joined = np.full(len(actions), -1)
    gone_sizes = np.zeros(len(actions), dtype=np.int64)
    for row in range(len(actions)):
        order = orders[row]
        if actions[row] == ACTION.cancel or actions[row] == ACTION.execute:
            if price[order] == NO_PRICE:
                price[order] = prices[row]
            gone_prices[row], gone_joined[row], gone_sizes[row] = price[order], joined[order], sizes[row]
            left[order] = max(left[order] - sizes[row], 0)
            continue
        if actions[row] == ACTION.replace:
            old = old_orders[row]
            gone_prices[row], gone_joined[row], gone_sizes[row] = price[old], joined[old], left[old]
        price[order], joined[order], left[order] = prices[row], sequences[row], sizes[row]
    return gone_prices, gone_joined, gone_sizes


def _coded_events(events: polars.DataFrame, direction: int, end: int) -> polars.DataFrame:
    """Return the events before ``end`` as integers, prices coded as in `QueueEvents`; refuse malformed tables."""
    missing = [name for name in EVENT_SCHEMA if name not in events.columns]
    if missing:
        raise DataError(f"events must have columns {', '.join(EVENT_SCHEMA)}, missing {', '.join(missing)}")
    # Public trades need no sequence: their own feed may number them apart from the books.
    for name in ("ts_event",) if _lacks_order_ids(events) else ("sequence", "ts_event"):
        if events[name].null_count() or not events[name].is_sorted():
            raise DataError(f"events must be sorted by {name}")
    parts = events["size"].filter(events["size"] % 1 != 0)
    if len(parts):
        raise DataError(f"sizes of events must be whole numbers of units, was {parts[0]}; use `recording_in_units`")
    codes = polars.Enum(["A", "C", "F", "M", "arrive", "T"])  # in the order of ACTION
    coded = events.select(
        polars.col("ts_event").cast(polars.Int64).alias("stamp"),
        polars.col("sequence").cast(polars.Int64),
        polars.col("action").cast(codes, strict=False).to_physical(),
        polars.Series("price", price_keys(events["price"].cast(polars.Float64).to_numpy(), direction)),
        polars.col("size").cast(polars.Int64).fill_null(0),
        "side",
        polars.col("order_id", "old_order_id").fill_null(0),
    )
    unknown = {str(action) for action in events["action"].unique().to_list() if action not in set("ACFMT")}
    if unknown:
        raise DataError(f"action must be one of A, C, F, M, T, was {', '.join(sorted(unknown))}")
    return coded[: int(coded["stamp"].search_sorted(end, side="left"))]


class _PublicTrades(NamedTuple):
    """Trades with resting orders of one side, ``(n,)`` each; executions at one price and time are one trade."""

    stamps: Integers
    sizes: Integers
    displayed: Integers  # shares displayed before the trade; a larger trade reveals hidden orders

    def between(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return shares and displayed shares of the trades with ``begin`` <= time < ``end``."""
        first, last = np.searchsorted(self.stamps, (begin, end))
        return list(zip(self.sizes[first:last].tolist(), self.displayed[first:last].tolist(), strict=True))


def _hidden_trades(events: polars.DataFrame) -> Integers:
    """Return trades with hidden orders: stamps, sequences, prices by `price_keys` and sizes, ``(4, n)``."""
    coded = _coded_events(events, 1, 2**62).filter(
        (polars.col("order_id") == 0) & (polars.col("action") == ACTION.execute)
    )
    return np.stack([coded[name].cast(polars.Int64).to_numpy() for name in ("stamp", "sequence", "price", "size")])


def _public_trades(
    books: DayBooks, venue: int, direction: int, flow: QueueEvents | None, hidden: Integers | None
) -> _PublicTrades:
    """Return the trades with the asks (``direction`` 1) or the bids (-1) of a venue."""
    first, last = books.offsets[venue], books.offsets[venue + 1]
    whole: list[Integers] = []  # stamps, sequences, prices and sizes, ``(4, n)``
    if flow is not None:
        columns = np.stack([flow.stamps, flow.sequences, flow.gone_prices * direction, flow.gone_sizes])
        whole.append(columns[:, flow.actions == ACTION.execute])
    if hidden is not None and hidden.shape[1] and last > first:
        # Feeds do not report the side of a hidden trade.
        whole.append(hidden[:, _near_side(books, venue, direction, hidden[0], hidden[2])])
    if not whole or last == first:
        empty = np.zeros(0, dtype=np.int64)
        return _PublicTrades(empty, empty, empty)
    stamps, sequences, prices, sizes = np.concatenate(whole, axis=1)
    rows = first + np.searchsorted(books.sequences[first:last], sequences)
    return _as_public_trades(books, venue, direction, QueueTrades(stamps, rows, direction * prices, sizes))


def _as_public_trades(books: DayBooks, venue: int, direction: int, trades: QueueTrades) -> _PublicTrades:
    """Return trades by time, with the shares displayed at their price before the first snapshot that reflects them."""
    order = np.lexsort((trades.rows, direction * trades.prices, trades.stamps))
    stamps, rows, prices, sizes = (column[order] for column in trades)
    begins = np.ones(len(stamps), dtype=bool)
    begins[1:] = (np.diff(stamps) != 0) | (np.diff(prices) != 0)
    starts = np.flatnonzero(begins)
    totals = np.add.reduceat(sizes, starts) if len(starts) else sizes
    shown = queue_model_displayed(queue_model_side(books, venue, direction), rows[starts], prices[starts])
    return _PublicTrades(stamps[starts], totals.astype(np.int64), shown)


def _near_side(books: DayBooks, venue: int, direction: int, stamps: Integers, prices: Integers) -> Flags:
    """Return which trades at ``prices`` (asks' keys) were at the previous mid or on our side of it, ``(n,)``."""
    first, last = books.offsets[venue], books.offsets[venue + 1]
    rows = first + np.searchsorted(books.stamps[first:last], stamps) - 1
    known, there = rows >= first, np.clip(rows, first, last - 1)
    bids, asks = (price_keys(side[there, 0]) for side in (books.bid_px, books.ask_px))
    known &= (bids != NO_PRICE) & (asks != NO_PRICE)
    return np.asarray(known & (direction * (2 * prices - (bids + asks)) >= 0))


def _lacks_order_ids(events: polars.DataFrame) -> bool:
    """Return whether a table has public trades, and no execution of an order by id."""
    if "action" not in events.columns or "order_id" not in events.columns:
        return False  # `_coded_events` names what is missing
    executed = events.filter(polars.col("action").is_in(["F", "T"]))
    return "T" in executed["action"] and not (executed["order_id"] > 0).any()


def _queue_trades(books: DayBooks, venue: int, direction: int, events: polars.DataFrame) -> QueueTrades:
    """Code the trades with the asks (``direction`` 1) or bids (-1) of a venue, and match them to its snapshots."""
    coded = _coded_events(events, 1, 2**62).filter(
        polars.col("action").is_in([ACTION.execute, ACTION.trade]),
        polars.col("price") != NO_PRICE,
        polars.col("size") > 0,
    )
    stamps, prices, sizes = (coded[name].cast(polars.Int64).to_numpy() for name in ("stamp", "price", "size"))
    ours = (coded["side"] == ("A" if direction > 0 else "B")).fill_null(False).to_numpy()
    unknown = ~coded["side"].is_in(["A", "B"]).fill_null(False).to_numpy()
    some = np.flatnonzero(ours | unknown)
    near = _near_side(books, venue, direction, stamps[some], prices[some])
    some = some[ours[some] | near]
    return match_queue_model_trades(
        queue_model_side(books, venue, direction), stamps[some], direction * prices[some], sizes[some]
    )


class QueueReplay:
    """Replays limit orders on the recorded queues of a day.

    A venue without ``events`` takes no limit orders. ``matching`` is one of `MATCHING_RULES` by venue; default:
    ``price-time``. At venues whose events are public trades without order ids, ``model`` estimates queue positions;
    None: these venues take no limit orders.
    """

    def __init__(
        self,
        books: DayBooks,
        events: Mapping[str, polars.DataFrame],
        matching: Mapping[str, str] | None = None,
        model: QueueModel | None = DEFAULT_QUEUE_MODEL,
    ) -> None:
        for name in events:
            one_of("venue of events", name, books.venues)
        rules = dict(matching or {})
        for name, rule in rules.items():
            one_of(f"matching of {name}", rule, MATCHING_RULES)
            if rule == "pro-rata" and name in events and _lacks_order_ids(events[name]):
                raise DataError(
                    f"matching of {name} must be price-time, since its events have no order ids, was {rule}"
                )
        self.books, self.model = books, model
        self.pro_rata = [rules.get(name) == "pro-rata" for name in books.venues]
        self.flows: dict[tuple[int, int], QueueEvents] = {}
        self.matched: dict[tuple[int, int], QueueTrades] = {}  # public trades where the queue is estimated
        self.hidden: dict[int, Integers] = {}
        self._sides: dict[tuple[int, int], QueueSide] = {}
        self._traded: dict[tuple[int, int], tuple[Integers, Integers]] = {}
        self._trades: dict[tuple[int, int], _PublicTrades] = {}
        for venue, name in enumerate(books.venues):
            if name in events and _lacks_order_ids(events[name]):
                self.matched |= {(venue, sign): _queue_trades(books, venue, -sign, events[name]) for sign in (1, -1)}
            elif name in events:
                self.hidden[venue] = _hidden_trades(events[name])
                self.flows |= {(venue, sign): _code_day_events(events[name], -sign) for sign in (1, -1)}

    @classmethod
    def of_flows(
        cls,
        books: DayBooks,
        flows: Mapping[tuple[int, int], QueueEvents],
        pro_rata: Sequence[bool],
        hidden: Mapping[int, Integers] | None = None,
        matched: Mapping[tuple[int, int], QueueTrades] | None = None,
        model: QueueModel | None = DEFAULT_QUEUE_MODEL,
    ) -> Self:
        """Restore a replay: coded events and trades by venue number and sign of our orders, hidden trades by venue."""
        replay = cls(books, {}, model=model)
        replay.flows, replay.pro_rata, replay.hidden = dict(flows), list(pro_rata), dict(hidden or {})
        replay.matched = dict(matched or {})
        return replay

    @property
    def estimated(self) -> tuple[str, ...]:
        """Venues whose queue positions are estimates."""
        return tuple(name for venue, name in enumerate(self.books.venues) if (venue, 1) in self.matched)

    def on_books(self, books: DayBooks) -> Self:
        """Return the same queues with other books of the same snapshots, such as those of `DayBooks.aged`."""
        return self.of_flows(books, self.flows, self.pro_rata, self.hidden, self.matched, self.model)

    def with_model(self, model: QueueModel | None) -> Self:
        """Return the same queues with another model; None: venues with estimated positions take no limit orders."""
        return self.of_flows(self.books, self.flows, self.pro_rata, self.hidden, self.matched, model)

    def pessimistic(self) -> Self:
        """Return the same queues without cancellations, or with the pessimistic model: only trades advance an order."""
        kept = {
            key: flow._replace(
                gone_sizes=np.where(np.isin(flow.actions, (ACTION.cancel, ACTION.replace)), 0, flow.gone_sizes)
            )
            for key, flow in self.flows.items()
        }
        model = None if self.model is None else QueueModel("pessimistic")
        return self.of_flows(self.books, kept, self.pro_rata, self.hidden, self.matched, model)

    def volume(self, begin: int, end: int) -> int:
        """Return the shares that traded at all venues between two times, without hidden orders where they are known."""
        return sum(self._traded_between(key, begin, end) for key in (*self.flows, *self.matched))

    def outflow(self, venue: int, sign: int, time: int, seconds: int) -> float:
        """Return the shares per second that traded with our side in the ``seconds`` before a time."""
        if (venue, sign) not in self.flows and (venue, sign) not in self.matched:
            return 0.0
        return self._traded_between((venue, sign), time - seconds * SECOND, time) / seconds

    def trades(self, venue: int, sign: int, begin: int, end: int) -> list[tuple[int, int]]:
        """Return size and previously displayed size of each trade on the side that an order of ``sign`` takes from."""
        key = venue, sign
        if key not in self._trades:
            if matched := self.matched.get((venue, -sign)):
                self._trades[key] = _as_public_trades(self.books, venue, sign, matched)
            else:
                flow = self.flows.get((venue, -sign))
                self._trades[key] = _public_trades(self.books, venue, sign, flow, self.hidden.get(venue))
        return self._trades[key].between(begin, end)

    def hidden_volume(self, venue: int, price: float, begin: int, end: int) -> int:
        """Return the hidden shares that traded at a price, ``begin`` <= time < ``end``."""
        if venue not in self.hidden:
            return 0
        stamps, _, prices, sizes = self.hidden[venue]
        some = slice(*np.searchsorted(stamps, (begin, end)))
        return int(sizes[some][prices[some] == price_key(price)].sum())

    def most_hidden(self, venue: int, price: float, begin: int, end: int, window: int) -> int:
        """Return the largest `hidden_volume` of any window of ``window`` nanoseconds starting in [begin, end]."""
        if venue not in self.hidden:
            return 0
        stamps, _, prices, sizes = self.hidden[venue]
        some = slice(*np.searchsorted(stamps, (begin, end + window)))
        at = prices[some] == price_key(price)
        times, shares = stamps[some][at], np.concatenate(([0], np.cumsum(sizes[some][at])))
        starts = np.minimum(times, end)  # a window gains nothing by starting between two trades
        firsts, lasts = np.searchsorted(times, starts), np.searchsorted(times, starts + window)
        return int((shares[lasts] - shares[firsts]).max(initial=0))

    def _traded_between(self, key: tuple[int, int], begin: int, end: int) -> int:
        if key not in self._traded:
            if matched := self.matched.get(key):
                order = np.argsort(matched.stamps, kind="stable")
                stamps, sizes = matched.stamps[order], matched.sizes[order]
            else:
                flow = self.flows[key]
                stamps, sizes = flow.stamps, np.where(flow.actions == ACTION.execute, flow.gone_sizes, 0)
            self._traded[key] = stamps, np.concatenate(([0], np.cumsum(sizes)))
        stamps, totals = self._traded[key]
        first, last = np.searchsorted(stamps, (begin, end))
        return int(totals[last] - totals[first])

    def fills(self, venue: int, sign: int, begin: int, end: int, shares: int) -> tuple[float, list[tuple[int, int]]]:
        """Return the limit price of an order that joins at ``begin``, and its fills (time, shares) before ``end``.

        The order joins the back of the queue at the best price of its own side: the bids for a buy (``sign`` 1). The
        price is NaN if that side is empty or the venue has no events.
        """
        joined = self._joined(venue, sign, begin)
        if joined is None:
            return float("nan"), []
        price, key, row, shown = joined
        if (venue, sign) in self.matched:
            times, some, _ = self._followed(venue, sign, row, begin, end, key, shares)
        else:
            flow, sequence = self.flows[venue, sign], int(self.books.sequences[row])
            rows = flow.between(sequence, end)
            times, some = _fills(flow, *rows, sequence, key, shown, shares, self.pro_rata[venue])
        return price, list(zip(times.tolist(), some.tolist(), strict=True))

    def drain(self, venue: int, sign: int, begin: int, end: int) -> tuple[float, int, int]:
        """Return price, shares displayed and outflow before ``end`` of the queue that an order joins at ``begin``.

        The outflow counts shares ahead that traded or were cancelled, plus volume that reached our position. The price
        is NaN without a queue. Pro-rata venues are treated as price-time, which is conservative.
        """
        joined = self._joined(venue, sign, begin)
        if joined is None:
            return float("nan"), 0, 0
        price, key, row, shown = joined
        if (venue, sign) in self.matched:
            endless = 2**62  # shares beyond any order: the queue is followed to the end
            return price, shown, self._followed(venue, sign, row, begin, end, key, endless)[2]
        flow, sequence = self.flows[venue, sign], int(self.books.sequences[row])
        return price, shown, int(_outflow(flow, *flow.between(sequence, end), sequence, key, shown))

    def _followed(
        self, venue: int, sign: int, row: int, begin: int, end: int, price: int, shares: int
    ) -> tuple[Integers, Integers, int]:
        """Return times and sizes of estimated fills, and the estimated outflow."""
        assert self.model is not None  # `_joined` finds no queue without a model
        key = venue, -sign
        if key not in self._sides:
            self._sides[key] = queue_model_side(self.books, *key)
        return follow_queue_model(
            self._sides[key], self.matched[venue, sign], self.model, row, begin, end, price, shares
        )

    def _joined(self, venue: int, sign: int, begin: int) -> tuple[float, int, int, int] | None:
        """Return price, price key, last snapshot and size of the queue that an order joins; None if it joins none."""
        prices, sizes, snapshots = self.books.opposite(begin, -sign)
        price, key = float(prices[venue, 0]), (venue, sign)
        takes = key in self.flows or (key in self.matched and self.model is not None)
        if not takes or not np.isfinite(price) or sizes[venue, 0] <= 0:
            return None
        return price, -sign * price_key(price), int(snapshots[venue]), int(sizes[venue, 0])


@njit(cache=True)
def _fills(
    flow: QueueEvents, begin: int, end: int, sequence: int, price: int, shown: int, shares: int, pro_rata: bool
) -> tuple[Integers, Integers]:
    """Return times and sizes of the fills of one order."""
    most = min(end - begin + 1, shares)
    times, sizes = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    count, left, ahead, better = 0, shares, shown, 0
    pending, others, stamp = 0, 0, np.int64(0)  # pro-rata: executions with one timestamp are allocated as one trade
    for row in range(begin, end + 1):
        mine = 0
        if pro_rata and pending > 0 and (row == end or flow.stamps[row] != stamp):
            mine = min(pending, others + left) * left // (others + left)
            pending = 0
        when = stamp
        if row < end and not (pro_rata and mine > 0 and mine >= left):
            volume, better = _reaches_us(flow, row, sequence, price, 0 if pro_rata else ahead, better)
            if pro_rata and volume > 0:
                if pending == 0:
                    others, stamp = ahead, flow.stamps[row]
                pending += volume
            elif volume > 0:
                mine, when = min(volume, left), flow.stamps[row]
            ahead = _ahead_after(flow, row, sequence, price, ahead, pro_rata)
        if mine > 0:
            if count > 0 and times[count - 1] == when:
                sizes[count - 1] += mine
            else:
                times[count], sizes[count] = when, mine
                count += 1
            left -= mine
        if left == 0:
            break
    return times[:count], sizes[:count]


@njit(cache=True)
def _filled(
    flow: QueueEvents, begin: int, end: int, sequence: int, price: int, shown: int, sizes: Integers, pro_rata: bool
) -> Integers:
    """Return the shares filled, ``(Q,)``, for ascending order ``sizes (Q,)``, each size as our only order."""
    if not pro_rata:  # the volume that reaches us does not depend on our size
        volume = _fills(flow, begin, end, sequence, price, shown, sizes[-1], False)[1].sum()
        return np.asarray(np.minimum(sizes, volume))
    filled = np.zeros(len(sizes), dtype=np.int64)
    for k in range(len(sizes)):
        filled[k] = _fills(flow, begin, end, sequence, price, shown, sizes[k], True)[1].sum()
    return filled


@njit(cache=True)
def _met_before(flow: QueueEvents, row: int, sequence: int, price: int) -> bool:
    """Return whether a predecessor of an arriving replacement reached our price after we joined, and traded with us."""
    while flow.gone_joined[row] > sequence:
        if flow.gone_prices[row] >= price:
            return True
        earlier = np.searchsorted(flow.sequences, flow.gone_joined[row])
        if earlier >= row:
            break
        row = earlier
    return False


@njit(cache=True)
def _reaches_us(flow: QueueEvents, row: int, sequence: int, price: int, ahead: int, better: int) -> tuple[int, int]:
    """Return the volume of a row beyond ``ahead`` and the shares at ``better`` prices, and the updated ``better``."""
    action, gone_price, gone = flow.actions[row], flow.gone_prices[row], flow.gone_sizes[row]
    if action == ACTION.arrive:
        # An order trades with us once: its later replacements would not have existed.
        if flow.prices[row] < price or _met_before(flow, row, sequence, price):
            return 0, better
        return max(flow.sizes[row] - ahead - better, 0), better
    if NO_PRICE < gone_price < price:
        better = max(better - gone, 0)
    if action in (ACTION.add, ACTION.replace) and NO_PRICE < flow.prices[row] < price:
        better += flow.sizes[row]
    if action != ACTION.execute or gone_price < price:
        return 0, better
    if gone_price == price and flow.gone_joined[row] <= sequence:
        return gone - min(ahead, gone), 0
    return gone, 0  # an order behind us, or at a worse price, traded: we would have been served first


@njit(cache=True)
def _ahead_after(flow: QueueEvents, row: int, sequence: int, price: int, ahead: int, pro_rata: bool) -> int:
    """Return the shares ahead of us after a row; on a pro-rata venue, all other shares at our price."""
    action, gone_price = flow.actions[row], flow.gone_prices[row]
    if action == ACTION.arrive:
        return ahead
    if gone_price == price and (pro_rata or flow.gone_joined[row] <= sequence):
        ahead = max(ahead - flow.gone_sizes[row], 0)
    elif not pro_rata and action == ACTION.execute and gone_price >= price:
        ahead = 0
    if pro_rata and action in (ACTION.add, ACTION.replace) and flow.prices[row] == price:
        ahead += flow.sizes[row]
    return ahead


@njit(cache=True)
def _outflow(flow: QueueEvents, begin: int, end: int, sequence: int, price: int, shown: int) -> int:
    """Return the shares ahead that left the queue, plus those that reached our position."""
    ahead, better, reached = shown, 0, 0
    for row in range(begin, end):
        volume, better = _reaches_us(flow, row, sequence, price, ahead, better)
        reached += volume
        ahead = _ahead_after(flow, row, sequence, price, ahead, False)
    return shown - ahead + reached
