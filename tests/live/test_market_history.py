"""Public data of a running router: the market history computes what a backtest reads from recorded events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars
import pytest

import riskroute as rr
from instruments import instrument_of
from live_engines import CENT, World, parent_order, quotes
from live_logs import MemoryLog, MemoryStore
from live_services import order_json, running, service_config
from riskroute.core.instrument import instrument_terms
from riskroute.live.log.interface import log_events_after
from riskroute.live.log.recovery import verify_log
from riskroute.live.market_history import MarketHistory, _History, public_from_market_history
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import AcceptedEvent, MarketObservedEvent, QuotedEvent
from riskroute.live.state.orders import ParentOrder
from riskroute.live.state.quotes import MarketTrade, VenueQuote
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.market.price_keys import PRICE_UNITS
from riskroute.market.queue_fills import ACTION, QueueReplay
from riskroute.routers.context import Context
from riskroute.routers.execution import OUTFLOW_SECONDS, PUBLIC_AFTER
from riskroute.routers.public_data import PublicData
from riskroute.routers.registry import make_router
from riskroute.routers.rules import SweepRule
from riskroute.simulation import play_day
from riskroute.simulation.exchange import Exchange, ExchangeLatency

QVEX = instrument_of("QVEX")


def test_books_go_stale_as_in_a_backtest() -> None:
    assert MarketHistory().stale == play_day.STALE[True] * NANO


@pytest.fixture(scope="module")
def day(half_hour: rr.market.RecordingStore) -> tuple[DayBooks, dict[str, polars.DataFrame]]:
    recordings = half_hour.of_symbol("QVEX")
    books = DayBooks.of_tables({one.venue: half_hour.snapshots(one) for one in recordings}, levels=5)
    return books, {one.venue: half_hour.events(one) for one in recordings}


def nano(dollars: float) -> int:
    return round(float(dollars) * NANO)


def quotes_at(books: DayBooks, moment: int) -> tuple[VenueQuote, ...]:
    now = books.as_of(moment)

    def levels(prices: Any, sizes: Any) -> tuple[tuple[int, int], ...]:
        return tuple((nano(p), int(s)) for p, s in zip(prices, sizes, strict=True) if s >= 1 and np.isfinite(p))

    return tuple(
        VenueQuote(
            venue=name,
            bids=levels(now.bid_px[v], now.bid_sz[v]),
            asks=levels(now.ask_px[v], now.ask_sz[v]),
            at=moment,
        )
        for v, name in enumerate(books.venues)
    )


def trades_between(flow: Any, venue: str, side: Any, begin: int, end: int) -> list[MarketTrade]:
    first, last = np.searchsorted(flow.stamps, (begin, end))
    return [
        MarketTrade(
            venue=venue,
            side=side,
            price=abs(int(flow.gone_prices[k])) * (NANO // PRICE_UNITS),
            shares=int(flow.gone_sizes[k]),
            at=int(flow.stamps[k]),
        )
        for k in range(int(first), int(last))
        if flow.actions[k] == ACTION.execute
    ]


def test_public_outcomes_match_those_of_a_backtest(day: tuple[DayBooks, dict[str, polars.DataFrame]]) -> None:
    """Later market and takes are the same; an outflow is no larger than the true one, and says who is filled."""
    books, events = day
    queue = QueueReplay(books, events)
    fees = np.zeros((len(books.venues), 2))
    exchange = Exchange(books, fees, fees, None, queue, ExchangeLatency(0.0, 0.0))
    same = different = filled = 0
    for k, moment in enumerate(
        np.linspace(books.first + SECOND, books.last - 20 * SECOND, 12).astype(np.int64).tolist()
    ):
        side: Any = "buy" if k % 2 else "sell"
        deadline = moment + 10 * SECOND
        arrival = quotes_at(books, moment)
        order = ParentOrder(
            key="a",
            symbol="QVEX",
            side=side,
            quantity=40,
            deadline=deadline,
            quotes=arrival,
            terms=instrument_terms(instrument_of(lot=10)),
            received=moment,
        )
        history = MarketHistory()
        history.trade("QVEX", (), moment)
        history.expect(order)
        for at in range(moment + SECOND // 10, deadline + 1, SECOND // 10):
            for (v, s), flow in queue.flows.items():
                name = "bid" if s > 0 else "ask"
                history.trade("QVEX", trades_between(flow, books.venues[v], name, at - SECOND // 10, at), at)
            history.put("QVEX", quotes_at(books, at))
        seen = history.seen(order, deadline + PUBLIC_AFTER)
        assert seen is not None
        ours = public_from_market_history(seen)
        context = Context(
            "a",
            side,
            40,
            exchange.venue_books(moment),
            lot=10,
            horizon=10.0,
            time=moment,
            instrument=instrument_of("QVEX"),
        )
        theirs = exchange.public_outcomes(context)
        assert ours.at_horizon is not None
        assert theirs.at_horizon is not None
        assert ours.at_horizon == pytest.approx(theirs.at_horizon, abs=1e-9)
        assert ours.queues.keys() == theirs.queues.keys()
        for name, known in theirs.queues.items():
            mine = ours.queues[name]
            assert ours.outcomes[name]["take"] == pytest.approx(theirs.outcomes[name]["take"], abs=1e-9)
            assert mine[:2] == pytest.approx(known[:2])
            assert mine.outflow <= known.outflow
            same += mine.filled(40) == known.filled(40)
            different += mine.filled(40) != known.filled(40)
            filled += known.filled(40) > 0
            if mine.outflow == known.outflow:
                assert ours.outcomes[name]["limit"] == pytest.approx(theirs.outcomes[name]["limit"], abs=1e-9)
    assert filled > 0
    assert same > 5 * different


class Told(World):
    """A market whose books and trades are told, and an order every second."""

    def trade(self, orders: int) -> None:
        """Orders whose deadlines pass while the market goes on, until all their public outcomes are known."""
        history = self.engine.history
        assert history is not None
        for _ in range(orders):
            for size, shares in ((500, 100), (300, 150)):
                now = self.clock.now
                sold = [
                    MarketTrade(venue=name, side="bid", price=1000 * CENT, shares=shares, at=now) for name in ("A", "B")
                ]
                self.told = quotes(now, size)
                self.engine.record_quotes("DEMO", self.told, history.trade("DEMO", sold, now))
                history.put("DEMO", self.told)
                if size == 500:
                    flows = history.outflows("DEMO", ("A", "B"), 1, now)
                    order = parent_order(
                        f"o{now}", 200, symbol="DEMO", quotes=self.told, deadline=now + NANO // 2, features=flows
                    )
                    self.engine.submit(order)
                self.pass_time(0.3)
        self.pass_time(2)
        assert not self.engine._unobserved
        assert not history._expected

    def books(self, symbol: str) -> tuple[VenueQuote, ...]:
        return self.told


@pytest.mark.parametrize("refit_every", [0, 2])
def test_a_running_router_learns_from_public_outcomes(refit_every: int) -> None:
    world = Told(refit_every=refit_every)
    engine = world.start(make_router("contextual"), history=MarketHistory())
    world.trade(4)
    if refit_every:
        world.trade(2)  # public outcomes come after the fills, and are learned with the fills of the next orders
    assert not engine.learner.disabled
    memory = engine.learner.router.state()["memory"]
    assert memory["lit_state"]["DEMO"]["moments"] >= 4
    known = engine.learner.state()
    world.die()
    events = [event for _, event in log_events_after(MemoryLog(world.store))]
    shown = [event for event in events if isinstance(event, MarketObservedEvent)]
    assert len(shown) == 4 + 2 * (refit_every > 0)
    # 300 of 500 are displayed after 150 have traded, so that 50 were cancelled
    assert [event.queues for event in shown] == [dict.fromkeys(("A", "B"), (1000 * CENT, 500, 200))] * len(shown)
    assert sum(isinstance(event, QuotedEvent) for event in events) == 2 * len(shown)
    assert verify_log(MemoryLog(world.store), refits=refit_every > 0).holds
    again = world.start(make_router("contextual"), history=MarketHistory())
    assert again.learner.state() == known


def test_a_router_that_fails_on_public_data_is_put_out_of_service() -> None:
    @dataclass
    class Confused(SweepRule):
        name: ClassVar[str] = "confused"
        feedback: ClassVar[str] = "F3"

        def on_public_data(self, public: PublicData) -> None:
            raise ValueError("what is this?")

    world = Told()
    engine = world.start(Confused(), history=MarketHistory())
    world.trade(2)
    assert engine.learner.disabled == "confused failed to learn from public data: what is this?"
    assert engine.state.settled == 2


def test_posted_books_and_trades_are_logged_and_used(tmp_path: Path) -> None:
    store = MemoryStore()
    with running(service_config(tmp_path), store) as up:
        now = up.service.clock()
        book = {"venue": "A", "at": now, "bids": [[10, 500]], "asks": [["10.01", "500"]]}
        trade = {"venue": "A", "side": "bid", "price": 10, "quantity": 600, "at": now}
        given = {"symbol": "DEMO", "quotes": [book], "trades": []}
        assert up.client.post("/quotes", json=given).json() == {"venues": 1}
        assert up.client.post("/quotes", json={"symbol": "DEMO", "trades": [trade]}).json() == {"venues": 0}
        assert up.client.post("/orders", json=order_json(quotes=[])).status_code == 200
        assert not up.service.history._quotes  # this router does not learn from them
    events = [event for _, event in log_events_after(MemoryLog(store))]
    told = [event for event in events if isinstance(event, QuotedEvent)]
    assert [(len(event.quotes), len(event.trades)) for event in told] == [(1, 0), (0, 1)]
    assert told[1].trades[0].displayed == 500
    accepted = next(event for event in events if isinstance(event, AcceptedEvent))
    assert accepted.order.features == {"outflow A": 600 / OUTFLOW_SECONDS}


def test_posted_books_are_not_logged_if_switched_off(tmp_path: Path) -> None:
    with running(
        service_config(tmp_path, log={"path": str(tmp_path / "unused"), "quotes": False}), MemoryStore()
    ) as up:
        rows, now = up.rows, up.service.clock()
        book = {"venue": "A", "at": now, "bids": [[10, 500]], "asks": [["10.01", "500"]]}
        assert up.client.post("/quotes", json={"symbol": "DEMO", "quotes": [book]}).status_code == 200
        assert up.rows == rows


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "venue": ({"venue": "Q"}, "venue must be one of A, B, was 'Q'"),
    "price": ({"price": 0}, "price and quantity of a trade must be above 0, was 0"),
    "quantity": ({"quantity": -5}, "quantity of a trade must be a multiple of 1 from 0 to 100,000,000,000,000, was -5"),
    "time": ({"at": 2**62}, "at of a trade must be a time since 1970 and not in the future, was"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_trades_are_refused(name: str, tmp_path: Path) -> None:
    change, text = BAD[name]
    with running(service_config(tmp_path), MemoryStore()) as up:
        rows = up.rows
        trade = {"venue": "A", "side": "bid", "price": 10, "quantity": 600, "at": up.service.clock()} | change
        answer = up.client.post("/quotes", json={"symbol": "DEMO", "trades": [trade]})
        assert answer.status_code == 422
        assert answer.json()["error"].startswith(text)
        assert (up.rows, up.service.history._since) == (rows, {})


def test_a_queue_is_not_known_where_trades_or_books_are_missing() -> None:
    def quote(at: int, size: int = 500) -> VenueQuote:
        return VenueQuote(venue="A", bids=((10 * NANO, size),), asks=((11 * NANO, size),), at=at)

    def order(received: int) -> ParentOrder:
        return ParentOrder(
            key="a",
            symbol="X",
            side="buy",
            quantity=1,
            deadline=received + 10,
            quotes=(quote(received),),
            received=received,
        )

    history = MarketHistory()
    history.expect(order(5))
    assert history.seen(order(5), 20) is None  # nothing was heard
    history.expect(order(5))
    history.put("X", [quote(10)])
    seen = history.seen(order(5), 20)
    assert seen is not None
    assert (seen.queues, seen.closing) == ({}, (quote(10),))  # the feed has no trades
    history.trade("X", [MarketTrade(venue="A", side="bid", price=10 * NANO, shares=7, at=30)], 30)
    history.expect(order(29))
    history.put("X", [quote(31)])
    seen = history.seen(order(29), 40)
    assert seen is not None
    assert (seen.queues, [one.displayed for one in seen.trades]) == ({}, [500])  # the feed has trades from 30 on
    history.expect(order(50))
    history.put("X", [quote(55, 400)])
    seen = history.seen(order(50), 60)
    assert seen is not None
    assert (seen.queues, seen.trades) == ({"A": (10 * NANO, 500, 100)}, ())
    most = MarketHistory.most_quotes
    kept: _History[VenueQuote] = _History(most)
    for at in range(2 * most):
        kept.add(quote(at))
    assert kept.lost == most - 1
    assert len(kept.items) == most
