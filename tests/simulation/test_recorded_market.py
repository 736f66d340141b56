"""The live router on recorded books: it trades what the backtest trades."""

from __future__ import annotations

import numpy as np
import pytest

from live_logs import MemoryLog
from recorded_market import RecordedMarket
from riskroute.live.children import context_of
from riskroute.live.engine import TradingEngine
from riskroute.live.limits import Limits
from riskroute.live.log.interface import log_events_after
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import SettledEvent
from riskroute.live.state.orders import ChildOrder, ParentOrder
from riskroute.live.state.quotes import VenueQuote
from riskroute.live.venues.simulated import SimulatedVenue
from riskroute.market.clock import SECOND
from riskroute.routers.rules import SweepRule
from riskroute.routing.fees import fee_rows
from riskroute.simulation.dark_market import DarkMarket, DarkMarketMoments, DarkMarketPool
from riskroute.simulation.exchange import Exchange, ExchangeLatency
from riskroute.simulation.execute_plan import execute_plan
from small_days import handmade_books

POOL = DarkMarketPool("POOL", presence=1.0, fee=0.001)
LATENCY = 0.001


def recorded() -> Exchange:
    books = handmade_books({"A": (2, 300), "B": (3, 500)}, seed=3)
    times = np.arange(20, dtype=np.int64) * 50 * SECOND + SECOND // 2
    moments = DarkMarketMoments(times, np.ones(20), np.zeros(20, dtype=np.int64))
    dark = DarkMarket([POOL], moments, seed=1, day="2019-03-27")
    return Exchange(books, fee_rows([0.003, -0.001]), np.zeros((2, 2)), dark, latency=ExchangeLatency(LATENCY, 0.005))


def order_at(exchange: Exchange, time: int, number: int) -> ParentOrder:
    books = exchange.venue_books(time)
    quotes = []
    for v, name in enumerate(books.venues):
        bids, asks = (
            tuple((round(p * NANO), int(s)) for p, s in zip(px[v].tolist(), sz[v].tolist(), strict=True))
            for px, sz in ((books.bid_px, books.bid_sz), (books.ask_px, books.ask_sz))
        )
        taker = round(float(exchange.takers[v, 0]) * NANO)
        quotes.append(VenueQuote(venue=name, bids=bids, asks=asks, taker=taker, at=time))
    side = "buy" if number % 2 else "sell"
    about = {"key": f"order {number}", "symbol": "QVEX", "quantity": 700, "deadline": time + SECOND}
    return ParentOrder(side=side, quotes=tuple(quotes), received=time, **about)  # type: ignore[arg-type]  # mixed values


def test_the_live_router_trades_what_the_backtest_trades() -> None:
    now = [0]
    market = RecordedMarket(recorded())
    venues = {name: SimulatedVenue(name, market, lambda: now[0], latency=LATENCY) for name in ("A", "B")}
    log = MemoryLog()
    clock = {"clock": lambda: now[0], "monotonic": lambda: now[0]}
    limits = Limits(day_loss=10**9 * NANO)
    engine = TradingEngine(log, venues, SweepRule(), limits, patience=1.0, snapshot_every=0, **clock)  # type: ignore[arg-type]  # mixed values
    engine.start()
    expected = {}
    for number in range(12):
        now[0] = number * 50 * SECOND + SECOND // 4
        order = order_at(market.exchange, now[0], number)
        context = context_of(order, now[0])
        exchange = recorded()
        executed = execute_plan(exchange, number, context, SweepRule().route(context))
        expected[order.key] = executed
        engine.submit(order)
        for _ in range(30):
            now[0] += SECOND // 10
            for venue in venues.values():
                venue.deliver()
            engine.flush()
            engine.tick()
    outcomes = [event.outcome for _, event in log_events_after(log) if isinstance(event, SettledEvent)]
    assert len(outcomes) == 12
    compared = 0
    for outcome in outcomes:
        backtest = expected[outcome.parent]
        took = {child.place: (child.filled, child.price) for child in backtest.children if child.kind == "take"}
        ours = {child.place: child for child in outcome.children if child.kind == "take"}
        assert {place: slot.filled for place, slot in ours.items()} == {
            place: filled for place, (filled, _) in took.items()
        }
        if all(child.kind == "take" for child in backtest.children):
            compared += 1
            assert outcome.cost / NANO == pytest.approx(backtest.cost, abs=1e-6)
    assert compared >= 6


def test_pools_limit_orders_and_fees() -> None:
    market = RecordedMarket(recorded())
    about = {"id": "x", "parent": "one", "slot": 0, "attempt": 0, "symbol": "QVEX", "side": "buy", "quantity": 10**6}
    dark = ChildOrder(kind="dark", place="POOL", **about)  # type: ignore[arg-type]  # mixed values
    ((time, price, shares),) = market.trades(dark, 5 * SECOND, 5 * SECOND)
    assert (time, shares > 0) == (5 * SECOND, True)
    assert price / NANO == pytest.approx(market.exchange.venue_books(5 * SECOND).mid)
    assert market.trades(ChildOrder(kind="dark", place="POOL", limit=1, **about), 0, 0) == []  # type: ignore[arg-type]
    assert market.trades(ChildOrder(kind="limit", place="A", **about), 0, SECOND) == []  # type: ignore[arg-type]
    walked = [market.trades(ChildOrder(kind="take", place="A", **about), SECOND, SECOND) for _ in range(2)]  # type: ignore[arg-type]
    assert len(walked[0]) == 5
    assert walked[1] == []  # taken already
    taken, posted = (ChildOrder(kind=kind, place="A", **about) for kind in ("take", "limit"))  # type: ignore[arg-type]
    fees = [market.fee(child, [(NANO, 2)]) for child in (taken, posted, dark)]
    assert fees == [2 * 3_000_000, 0, 2 * 1_000_000]
    rested = market.trades(ChildOrder(kind="dark_rest", place="POOL", **about), 0, 600 * SECOND)  # type: ignore[arg-type]
    assert [time for time, _, _ in rested] == sorted(time for time, _, _ in rested)
