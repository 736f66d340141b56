"""Recorded days for the live router: a market behind its venues, and the orders of a backtest for shadow mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import polars

from riskroute.core.instrument import SHARES, Instrument
from riskroute.core.validation import instance_of
from riskroute.live.state.amounts import NANO
from riskroute.market.clock import SECOND
from riskroute.market.price_keys import PRICE_UNITS
from riskroute.market.queue_fills import ACTION, QueueReplay
from riskroute.simulation.exchange import Exchange, ExchangeLatency
from riskroute.simulation.play_day import PlayableDay
from riskroute.study.config import BacktestConfig
from riskroute.study.day_tables import DayTables
from riskroute.study.markets import MarketDay
from riskroute.study.play import day_to_play

Trade = tuple[int, int, int]
"""When, at what price, and how many shares."""


class SentChild(Protocol):
    """What the market must know of a child order."""

    @property
    def parent(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def side(self) -> str: ...
    @property
    def quantity(self) -> int: ...
    @property
    def limit(self) -> int | None: ...


class RecordedMarket:
    """A market for `riskroute.live.venues.simulated.SimulatedVenue`.

    Parameters
    ----------
    exchange : Exchange
        The recorded day.
    """

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = instance_of("exchange", exchange, Exchange, "an Exchange")
        self._numbers: dict[str, int] = {}
        self._taken: dict[tuple[int, int, int], int] = {}

    def instrument(self, symbol: str) -> Instrument:
        """Return the instrument of the day."""
        return SHARES

    def trades(self, child: SentChild, begin: int, end: int) -> list[Trade]:
        """Return what a child trades that comes at ``begin`` and stays until ``end``: no time if it is immediate."""
        number = self._numbers.setdefault(child.parent, len(self._numbers))
        if child.kind == "dark":
            return self._dark(child, number, [(0.0, self._hidden(child, number, begin))], begin)
        if child.kind == "dark_rest":
            dark, recent = self.exchange.dark, self.exchange.filled_recently(child.place, begin)
            seconds = max(end - begin, 0) / SECOND
            came = dark.arrivals(number, child.place, seconds, recent=recent) if dark else []
            return self._dark(child, number, came, begin)
        return self._posted(child, begin, end) if child.kind == "limit" else self._walked(child, begin)

    def fee(self, child: SentChild, fills: Sequence[tuple[int, int]]) -> int:
        """Return the fee of a child with fills of price and shares."""
        exchange, shares = self.exchange, sum(some for _, some in fills)
        for pool in exchange.pools:
            if pool.name == child.place:
                return shares * round(pool.fee * NANO)
        fees = exchange.makers if child.kind == "limit" else exchange.takers
        return shares * round(float(fees[exchange.books.venues.index(child.place), 0]) * NANO)

    def _walked(self, child: SentChild, time: int) -> list[Trade]:
        venue, buying = self.exchange.books.venues.index(child.place), child.side == "buy"
        now = self.exchange.books.as_of(time)
        prices, sizes = (now.ask_px, now.ask_sz) if buying else (now.bid_px, now.bid_sz)
        row, left, found = int(now.rows[venue]), child.quantity, list[Trade]()
        for price, size in zip(prices[venue].tolist(), sizes[venue].tolist(), strict=True):
            if left == 0 or not size >= 1:
                break
            nanos = round(price * NANO)
            if child.limit is not None and (nanos > child.limit if buying else nanos < child.limit):
                break
            before = self._taken.get((venue, row, nanos), 0)
            some = min(left, max(int(size) - before, 0))
            if some:
                self._taken[venue, row, nanos] = before + some
                found.append((time, nanos, some))
                left -= some
        return found

    def _posted(self, child: SentChild, begin: int, end: int) -> list[Trade]:
        queue = self.exchange.queue
        if queue is None:
            return []
        venue = self.exchange.books.venues.index(child.place)
        price, fills = queue.fills(venue, 1 if child.side == "buy" else -1, begin, end, child.quantity)
        return [(time, round(price * NANO), shares) for time, shares in fills if shares]

    def _hidden(self, child: SentChild, number: int, time: int) -> int:
        dark = self.exchange.dark
        recent = self.exchange.filled_recently(child.place, time)
        return dark.hidden(number, child.place, recent=recent) if dark else 0

    def _dark(self, child: SentChild, number: int, came: list[tuple[float, int]], begin: int) -> list[Trade]:
        pool = next((one for one in self.exchange.pools if one.name == child.place), None)
        sign, left, found = 1 if child.side == "buy" else -1, child.quantity, list[Trade]()
        for seconds, size in came:
            time, some = begin + int(seconds * SECOND), min(size, left)
            books = self.exchange.venue_books(time)
            if pool is None or some == 0 or books.mid != books.mid:
                continue
            half = (books.best_ask - books.best_bid) / 2
            price = round((books.mid - sign * pool.improvement * half) * NANO)
            if child.limit is None or sign * price <= sign * child.limit:
                self.exchange.note_dark_fill(child.place, time)
                found.append((time, price, some))
                left -= some
        return found


def executed_orders(
    tables: DayTables, days: list[MarketDay], config: BacktestConfig, router: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each order of a router, with its symbol, as ``POST /shadow/orders`` takes it."""
    mine = polars.col("router") == router
    for day in days:
        trading = day_to_play(day, config)
        dark = trading.dark_market(config.seed) if trading.pools else None
        exchange = Exchange(trading.books, trading.takers, trading.makers, dark, trading.queue, ExchangeLatency(), None)
        on_day = mine & (polars.col("day") == str(day.date))
        children = tables.children.filter(on_day).partition_by("number", as_dict=True)
        for row in tables.orders.filter(on_day).sort("number").iter_rows(named=True):
            books = exchange.venue_books(row["time"])
            quotes = [
                {
                    "venue": name,
                    "at": row["time"],
                    "bids": _levels(books.bid_px[v], books.bid_sz[v]),
                    "asks": _levels(books.ask_px[v], books.ask_sz[v]),
                    "taker": natural(books.takers[v, 0]),
                    "maker": natural(books.makers[v, 0]),
                }
                for v, name in enumerate(books.venues)
            ]
            order = {
                "key": f"{day.name}/{row['number']}",
                "symbol": day.symbol,
                "side": "buy" if row["sign"] > 0 else "sell",
                "quantity": int(row["quantity"]),
                "deadline": row["time"] + int(row["horizon"] * NANO),
                "quotes": quotes,
            }
            done = [_child(child) for child in children[(row["number"],)].sort("child").iter_rows(named=True)]
            yield day.symbol, {"order": order, "arrived": row["time"], "children": done}


def told_market(trading: PlayableDay, symbol: str, begin: int, end: int, *, step: int, last: int) -> Iterator[Any]:
    """Books of a day every so many nanoseconds, and all trades after ``last``, as ``POST /quotes`` takes them."""
    assert isinstance(trading.queue, QueueReplay)
    for now in range(begin, end + 1, step):
        books, trades = trading.books.as_of(now), []
        for (v, sign), flow in trading.queue.flows.items():
            first, until = np.searchsorted(flow.stamps, (last, now))
            rows = [k for k in range(int(first), int(until)) if flow.actions[k] == ACTION.execute]
            side = "bid" if sign > 0 else "ask"
            for k in rows:
                price = abs(int(flow.gone_prices[k])) / PRICE_UNITS
                about = {"venue": trading.books.venues[v], "side": side, "at": int(flow.stamps[k])}
                trades.append(about | {"price": price, "quantity": int(flow.gone_sizes[k])})
        quotes = [
            {
                "venue": name,
                "at": now,
                "bids": _levels(books.bid_px[v], books.bid_sz[v]),
                "asks": _levels(books.ask_px[v], books.ask_sz[v]),
                "taker": natural(trading.takers[v, 0]),
                "maker": natural(trading.makers[v, 0]),
            }
            for v, name in enumerate(trading.books.venues)
        ]
        yield {"symbol": symbol, "quotes": quotes, "trades": trades}
        last = now


def _child(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": row["kind"],
        "place": row["place"],
        "sent": natural(row["sent"]),
        "filled": natural(row["filled"]),
        "price": natural(row["price"]),
        "fee": natural(row["fee"]),
        "sent_at": row["posted"],
        "last_fill": row["last"],
        "done_at": row["known"],
    }


def _levels(prices: Any, sizes: Any) -> list[list[float]]:
    return [[natural(p), int(s)] for p, s in zip(prices, sizes, strict=True) if s >= 1 and np.isfinite(p)]


def natural(dollars: float) -> float:
    """As a request states it: a multiple of 1e-9."""
    return round(float(dollars), 9)
