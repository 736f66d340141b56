"""Export a log as Parquet tables: orders, children, fills and books.

Columns have the names and units of a backtest's tables, with natural quantities. `riskroute market import` reads the
books, one file per session day, so that routers can be backtested on a live log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import polars

from riskroute.core.errors import InputError
from riskroute.core.files import writable_folder, write_json, write_whole
from riskroute.core.instrument import Instrument, instrument_from_terms, instrument_terms
from riskroute.core.text import plain_number
from riskroute.live.fees import live_fee_text
from riskroute.live.log.interface import Log, LogHead, log_events_after
from riskroute.live.state.amounts import NANO, amount_scale
from riskroute.live.state.events import (
    AcceptedEvent,
    AnyEvent,
    IntendedEvent,
    QuotedEvent,
    ReportedEvent,
    SettledEvent,
    ShadowedEvent,
)
from riskroute.live.state.execution_reports import ExecutionReport, execution_report_key
from riskroute.live.state.orders import ChildOrder, OrderOutcome, ParentOrder
from riskroute.live.state.quotes import VenueQuote, quoted_touch

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
    for name, text in (("fees", tables.fee_schedule()), ("instruments", tables.instrument_tables())):
        written.append(write_whole(folder / f"{name}.toml", partial(_write_text, text), private=True))
    return [*written, write_json(folder / "head.json", {"head": str(head)}, private=True)]


def _write_text(text: str, part: Path) -> None:
    part.write_text(text, encoding="utf-8")


def _quantity(instrument: Instrument, units: int) -> float:
    return units if instrument.unit == 1 else plain_number(instrument.natural(units))


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
        self._fees: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}  # by venue and symbol: fees by first day
        self._instruments: dict[str, Instrument] = {}
        self._child_orders: dict[str, ChildOrder] = {}
        self._fills: dict[str, tuple[ChildOrder, ExecutionReport]] = {}
        self._replaced: set[str] = set()
        self._numbers: dict[tuple[str, int, int], int] = {}

    def add(self, event: AnyEvent) -> None:
        """Add the rows of an event."""
        if isinstance(event, AcceptedEvent):
            self._order(event.order, event.decision.router, event.decision.seed)
        if isinstance(event, (AcceptedEvent, IntendedEvent)):
            self._child_orders |= {child.id: child for child in event.children}
        elif isinstance(event, ReportedEvent):
            self._report(event.report)
        elif isinstance(event, SettledEvent):
            self._settle(event.outcome, event.benchmark_cost)
        elif isinstance(event, ShadowedEvent):
            self._order(event.order, "watched", None)
            self._settle(event.outcome, event.estimate)
        elif isinstance(event, QuotedEvent):
            self._books(instrument_from_terms(event.symbol, event.terms), event.quotes)

    def _order(self, order: ParentOrder, router: str, seed: int | None) -> None:
        if order.key in self.orders:
            return
        time, instrument = order.received, order.instrument
        bid, ask = quoted_touch(order.quotes)
        day = instrument.session_day(time).isoformat()
        takes = [size for quote in order.quotes for _, size in (quote.asks if order.sign > 0 else quote.bids)]
        self.orders[order.key] = {
            **{"router": router, "seed": seed or 0, "symbol": order.symbol, "day": day, "number": len(self.orders)},
            **{"key": order.key, "time": time, "sign": order.sign, "quantity": _quantity(instrument, order.quantity)},
            **{"horizon": max(order.deadline - time, 0) / NANO, "mid": order.mid / order.scale.at_one},
            **{"bid": bid / NANO, "ask": ask / NANO, "depth": float(_quantity(instrument, sum(takes)))},
            **{"cost": None, "fees": None, "filled": None, "left": None, "benchmark_cost": None, "marked": None},
        }
        self._books(instrument, order.quotes)

    def _books(self, instrument: Instrument, quotes: Iterable[VenueQuote]) -> None:
        symbol = instrument.symbol
        self._instruments[symbol] = instrument
        for quote in quotes:
            known = quote.venue, symbol, quote.at
            if known in self._known:
                continue
            self._known.add(known)
            days, day = self._fees.setdefault((quote.venue, symbol), {}), instrument.session_day(quote.at).isoformat()
            fees = (
                live_fee_text(instrument, quote.taker, quote.taker_rate),
                live_fee_text(instrument, quote.maker, quote.maker_rate),
            )
            if not days or next(reversed(days.values())) != fees:
                days[day] = fees  # the last change of a day counts
            row: _Row = {"ts_event": quote.at, "venue": quote.venue, "symbol": symbol}
            for level in range(max(len(quote.bids), len(quote.asks), 1)):
                for side, levels in (("bid", quote.bids), ("ask", quote.asks)):
                    price, size = levels[level] if level < len(levels) else (None, 0)
                    row[f"{side}_px_{level:02}"] = None if price is None else price / NANO
                    row[f"{side}_sz_{level:02}"] = _quantity(instrument, size)
            self.books.setdefault(day, []).append(row)

    def fee_schedule(self) -> str:
        """Return the fee schedule for `riskroute backtest`."""
        parts = ["# Fees in the log, without minimums and maximums per order.\n"]
        for (venue, symbol), days in self._fees.items():
            for day, (taker, maker) in sorted(days.items()):
                place = f"venue = {json.dumps(venue)}\nsymbol = {json.dumps(symbol)}\nfrom = {day}\n"
                parts.append(f"[[fees]]\n{place}taker = {json.dumps(taker)}\nmaker = {json.dumps(maker)}\n")
        return "\n".join(parts)

    def instrument_tables(self) -> str:
        """Return the instruments, for `riskroute market import`."""
        parts = ["# Instruments of the log.\n"]
        for symbol, one in self._instruments.items():
            fields = {name: value for name, value in one.to_json().items() if name != "symbol"}
            lines = [f"{name} = {json.dumps(value)}\n" for name, value in fields.items()]
            parts.append(f"[instruments.{json.dumps(symbol)}]\n{''.join(lines)}")
        return "\n".join(parts)

    def _report(self, report: ExecutionReport) -> None:
        child = self._child_orders.get(report.child)
        if child is None or report.kind not in ("filled", "corrected", "busted"):
            return
        if report.kind != "filled":
            self._replaced.add(execution_report_key(report.venue, report.day, report.reference))
        if report.kind != "busted":
            self._fills.setdefault(report.key, (child, report))

    def _settle(self, outcome: OrderOutcome, benchmark_cost: int | None) -> None:
        order = self.orders.get(outcome.parent)
        if order is None or order["cost"] is not None:
            return
        scale, instrument = outcome.scale, self._instruments[outcome.symbol]
        quantity = partial(_quantity, instrument)
        order |= {"cost": outcome.cost / scale.one, "fees": sum(child.fees for child in outcome.children) / scale.one}
        order |= {"filled": quantity(outcome.filled), "left": quantity(outcome.left), "marked": outcome.marked}
        order["benchmark_cost"] = None if benchmark_cost is None else benchmark_cost / scale.one
        for number, child in enumerate(outcome.children):
            self._numbers[outcome.parent, child.slot, child.attempt] = number
            paid = child.filled * outcome.mid + outcome.sign * child.money
            price = paid / (child.filled * scale.at_one) if child.filled > 0 else 0.0
            self.children.append(
                {name: order[name] for name in self.key}
                | {"child": number, "kind": child.kind, "place": child.place, "sent": quantity(child.sent)}
                | {"filled": quantity(child.filled), "price": price, "fee": child.fees / scale.one}
                | {"posted": child.sent_at}
                | {"last": child.last_fill, "known": child.done_at, "marked": child.marked}
            )

    def fill_rows(self) -> list[_Row]:
        """Return the valid fills: busted fills are omitted, and corrections replace the original fills."""
        rows = []
        for key, (child, report) in self._fills.items():
            order = self.orders.get(child.parent)
            if key in self._replaced or order is None or not report.quantity:
                continue
            instrument = self._instruments[child.symbol]
            one = amount_scale(instrument_terms(instrument)).one
            quantity = _quantity(instrument, report.quantity)
            rows.append(
                {name: order[name] for name in self.key}
                | {"child": self._numbers.get((child.parent, child.slot, child.attempt)), "kind": child.kind}
                | {"place": child.place, "time": report.at, "quantity": quantity, "price": report.price / NANO}
                | {"fee": report.fee / one / quantity, "estimated": False, "exec_id": report.exec_id}
            )
        return rows
