"""A backtest's own log for shadow mode: the orders of one router with the books of their arrival, and its children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars

from riskroute.live.state.events import NANO
from riskroute.market.queue_fills import QueueReplay
from riskroute.market.queue_position import ACTION, PRICE_UNITS
from riskroute.simulation.backtest import TradingDay
from riskroute.simulation.exchange import Exchange, Latency
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import trading_day
from riskroute.study.tables import Tables


def executed_orders(
    tables: Tables, days: list[MarketDay], config: BacktestConfig, router: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each order of a router, with its symbol, as ``POST /shadow/orders`` takes it."""
    mine = polars.col("router") == router
    for day in days:
        trading = trading_day(day, config)
        dark = trading.dark_market(config.seed) if trading.pools else None
        exchange = Exchange(trading.books, trading.takers, trading.makers, dark, trading.queue, Latency(), None)
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
                    "taker": nano(books.takers[v]),
                    "maker": nano(books.makers[v]),
                }
                for v, name in enumerate(books.venues)
            ]
            order = {
                "key": f"{day.name}/{row['number']}",
                "symbol": day.symbol,
                "side": "buy" if row["sign"] > 0 else "sell",
                "quantity": row["shares"],
                "deadline": row["time"] + int(row["horizon"] * NANO),
                "quotes": quotes,
            }
            done = [_child(child) for child in children[(row["number"],)].sort("child").iter_rows(named=True)]
            yield day.symbol, {"order": order, "arrived": row["time"], "children": done}


def told_market(trading: TradingDay, symbol: str, begin: int, end: int, *, step: int, last: int) -> Iterator[Any]:
    """Books of a day every so many nanoseconds, and all trades after ``last``, as ``POST /quotes`` takes them."""
    assert isinstance(trading.queue, QueueReplay)
    for now in range(begin, end + 1, step):
        books, trades = trading.books.as_of(now), []
        for (v, sign), flow in trading.queue.flows.items():
            first, until = np.searchsorted(flow.stamps, (last, now))
            rows = [k for k in range(int(first), int(until)) if flow.actions[k] == ACTION.execute]
            side = "bid" if sign > 0 else "ask"
            for k in rows:
                price = abs(int(flow.gone_prices[k])) * (NANO // PRICE_UNITS)
                about = {"venue": trading.books.venues[v], "side": side, "at": int(flow.stamps[k])}
                trades.append(about | {"price": price, "shares": int(flow.gone_sizes[k])})
        quotes = [
            {
                "venue": name,
                "at": now,
                "bids": _levels(books.bid_px[v], books.bid_sz[v]),
                "asks": _levels(books.ask_px[v], books.ask_sz[v]),
                "taker": nano(trading.takers[v]),
                "maker": nano(trading.makers[v]),
            }
            for v, name in enumerate(trading.books.venues)
        ]
        yield {"symbol": symbol, "quotes": quotes, "trades": trades}
        last = now


def _child(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": row["kind"],
        "place": row["place"],
        "sent": row["sent"],
        "filled": row["filled"],
        "price": nano(row["price"]),
        "fee": nano(row["fee"]),
        "sent_at": row["posted"],
        "last_fill": row["last"],
        "done_at": row["known"],
    }


def _levels(prices: Any, sizes: Any) -> list[list[int]]:
    return [[nano(p), int(s)] for p, s in zip(prices, sizes, strict=True) if s >= 1 and np.isfinite(p)]


def nano(dollars: float) -> int:
    return round(float(dollars) * NANO)
