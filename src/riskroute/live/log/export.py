"""Export a log as Parquet tables: orders, children, fills and books.

Columns have the names and units of a backtest's tables. There is one file of books per day in New York, which
`riskroute market import` reads, so that routers can be backtested on the books of a live log.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars

from riskroute.core.errors import InputError
from riskroute.core.files import writable_folder, write_json, write_whole
from riskroute.live.log.interface import Log, LogHead, log_events_after
from riskroute.live.state.events import Accepted, AnyEvent, Intended, Quoted, Reported, Settled, Shadowed
from riskroute.live.state.orders import (
    NANO,
    ChildOrder,
    ExecutionReport,
    OrderOutcome,
    ParentOrder,
    VenueQuote,
    report_key,
    touch_prices,
)

_Row = dict[str, Any]


def export_log(log: Log, out: Path, head: LogHead | None = None) -> list[Path]:
    """Write orders, children, fills and books to the folder ``out``, from the rows of a log up to ``head``.

    ``head`` defaults to the log's. Returns the files, which only their owner can read; ``head.json`` is one of them.
    """
    folder, head = writable_folder("out", out), head or log.head()
    tables = _LogTables()
    for _, event in log_events_after(log, until=head.seq):
        tables.add(event)
    if not tables.orders:
        raise InputError("the log holds no order to export")
    written = []
    rows = {"orders": tables.orders.values(), "children": tables.children, "fills": tables.fill_rows()}
    for name, table in rows.items():
        written.append(write_whole(folder / f"{name}.parquet", _frame(table).write_parquet, private=True))
    for day, books in tables.books.items():
        frame = _frame(books).sort("ts_event", maintain_order=True)
        written.append(write_whole(folder / "books" / f"{day}.parquet", frame.write_parquet, private=True))
    fees = write_whole(folder / "fees.toml", lambda part: part.write_text(tables.fee_schedule()), private=True)
    return [*written, fees, write_json(folder / "head.json", {"head": str(head)}, private=True)]


def _day(time: int) -> str:
    return dt.datetime.fromtimestamp(time // NANO, ZoneInfo("America/New_York")).strftime("%Y-%m-%d")


def _frame(rows: Iterable[_Row]) -> polars.DataFrame:
    return polars.DataFrame(list(rows), infer_schema_length=None)


class _LogTables:
    """Collect the rows of the tables from events."""

    key = ("router", "seed", "symbol", "day", "number")  # columns that identify an order in all tables

    def __init__(self) -> None:
        self.orders: dict[str, _Row] = {}
        self.children: list[_Row] = []
        self.books: dict[str, list[_Row]] = {}
        self._known: set[tuple[str, str, int]] = set()  # venue, symbol and time: orders repeat earlier books
        self._fees: dict[str, dict[str, tuple[int, int]]] = {}  # taker and maker fee, by venue and first day
        self._child_orders: dict[str, ChildOrder] = {}
        self._fills: dict[str, tuple[ChildOrder, ExecutionReport]] = {}
        self._replaced: set[str] = set()
        self._numbers: dict[tuple[str, int, int], int] = {}

    def add(self, event: AnyEvent) -> None:
        """Add the rows of an event."""
        if isinstance(event, Accepted):
            self._order(event.order, event.decision.router, event.decision.seed)
        if isinstance(event, (Accepted, Intended)):
            self._child_orders |= {child.id: child for child in event.children}
        elif isinstance(event, Reported):
            self._report(event.report)
        elif isinstance(event, Settled):
            self._settle(event.outcome, event.benchmark_cost)
        elif isinstance(event, Shadowed):
            self._order(event.order, "watched", None)
            self._settle(event.outcome, event.estimate)
        elif isinstance(event, Quoted):
            self._books(event.symbol, event.quotes)

    def _order(self, order: ParentOrder, router: str, seed: int | None) -> None:
        if order.key in self.orders:
            return
        time = order.received
        bid, ask = touch_prices(order.quotes)
        day = _day(time)
        takes = [size for quote in order.quotes for _, size in (quote.asks if order.sign > 0 else quote.bids)]
        self.orders[order.key] = {
            **{"router": router, "seed": seed or 0, "symbol": order.symbol, "day": day, "number": len(self.orders)},
            **{"key": order.key, "time": time, "sign": order.sign, "shares": order.quantity},
            **{"horizon": max(order.deadline - time, 0) / NANO, "mid": (bid + ask) // 2 / NANO},
            **{"bid": bid / NANO, "ask": ask / NANO, "depth": float(sum(takes))},
            **{"cost": None, "fees": None, "filled": None, "left": None, "benchmark_cost": None, "marked": None},
        }
        self._books(order.symbol, order.quotes)

    def _books(self, symbol: str, quotes: Iterable[VenueQuote]) -> None:
        for quote in quotes:
            known = quote.venue, symbol, quote.at
            if known in self._known:
                continue
            self._known.add(known)
            days = self._fees.setdefault(quote.venue, {})
            if not days or next(reversed(days.values())) != (quote.taker, quote.maker):
                days[_day(quote.at)] = quote.taker, quote.maker  # the last change of a day counts
            row: _Row = {"ts_event": quote.at, "venue": quote.venue, "symbol": symbol}
            for level in range(max(len(quote.bids), len(quote.asks), 1)):
                for side, levels in (("bid", quote.bids), ("ask", quote.asks)):
                    price, size = levels[level] if level < len(levels) else (None, 0)
                    row[f"{side}_px_{level:02}"] = None if price is None else price / NANO
                    row[f"{side}_sz_{level:02}"] = size
            self.books.setdefault(_day(quote.at), []).append(row)

    def fee_schedule(self) -> str:
        """Return the fees in the log as a fee schedule (TOML) for `riskroute backtest`."""
        parts = ["# Fees in dollars per share, from the log.\n"]
        for venue, days in self._fees.items():
            for day, (taker, maker) in sorted(days.items()):
                fees = f"taker = {taker / NANO}\nmaker = {maker / NANO}\n"
                parts.append(f"[[fees]]\nvenue = {json.dumps(venue)}\nfrom = {day}\n{fees}")
        return "\n".join(parts)

    def _report(self, report: ExecutionReport) -> None:
        child = self._child_orders.get(report.child)
        if child is None or report.kind not in ("filled", "corrected", "busted"):
            return
        if report.kind != "filled":
            self._replaced.add(report_key(report.venue, report.day, report.reference))
        if report.kind != "busted":
            self._fills.setdefault(report.key, (child, report))

    def _settle(self, outcome: OrderOutcome, benchmark_cost: int | None) -> None:
        order = self.orders.get(outcome.parent)
        if order is None or order["cost"] is not None:
            return
        order |= {"cost": outcome.cost / NANO, "fees": sum(child.fees for child in outcome.children) / NANO}
        order |= {"filled": outcome.filled, "left": outcome.left, "marked": outcome.marked}
        order["benchmark_cost"] = None if benchmark_cost is None else benchmark_cost / NANO
        for number, child in enumerate(outcome.children):
            self._numbers[outcome.parent, child.slot, child.attempt] = number
            price = (outcome.mid + outcome.sign * child.money / child.filled) / NANO if child.filled > 0 else 0.0
            self.children.append(
                {name: order[name] for name in self.key}
                | {"child": number, "kind": child.kind, "place": child.place, "sent": child.sent}
                | {"filled": child.filled, "price": price, "fee": child.fees / NANO, "posted": child.sent_at}
                | {"last": child.last_fill, "known": child.done_at, "marked": child.marked}
            )

    def fill_rows(self) -> list[_Row]:
        """Return the valid fills: busted fills are omitted, and corrections replace the original fills."""
        rows = []
        for key, (child, report) in self._fills.items():
            order = self.orders.get(child.parent)
            if key in self._replaced or order is None or not report.quantity:
                continue
            rows.append(
                {name: order[name] for name in self.key}
                | {"child": self._numbers.get((child.parent, child.slot, child.attempt)), "kind": child.kind}
                | {"place": child.place, "time": report.at, "shares": report.quantity, "price": report.price / NANO}
                | {"fee": report.fee / report.quantity / NANO, "estimated": False, "exec_id": report.exec_id}
            )
        return rows
