"""Books and trades from a source in the process: orders use them, gaps empty them, and the log may have them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from live_logs import MemoryLog, MemoryStore
from live_services import LONGEST, Running, served, service_config
from riskroute.core.errors import InputError
from riskroute.live.log.interface import log_events_after
from riskroute.live.service import Service
from riskroute.live.state.amounts import NANO
from riskroute.live.state.events import QuotedEvent
from riskroute.live.state.quotes import MarketTrade, VenueQuote
from riskroute.live.venues.gateway import QuoteSink

CENT = NANO // 100


class Feed:
    """A source that says what the test wants."""

    def __init__(self) -> None:
        self.sink: QuoteSink
        self.symbols: Sequence[str] = ()
        self.closed = False

    def connect(self, sink: QuoteSink) -> None:
        self.sink = sink

    def subscribe(self, symbols: Sequence[str]) -> None:
        self.symbols = symbols

    def close(self) -> None:
        self.closed = True


def book(venue: str, bid: int = 1000, ask: int = 1002, **more: Any) -> VenueQuote:
    sides: dict[str, Any] = {"bids": ((bid * CENT, 900),), "asks": ((ask * CENT, 900),), "at": time.time_ns()}
    return VenueQuote(venue=venue, **(sides | more))


def order(key: str) -> dict[str, Any]:
    return {"key": key, "symbol": "DEMO", "side": "buy", "quantity": 100, "deadline": time.time_ns() + 600 * NANO}


@contextmanager
def fed(
    folder: Path, store: MemoryStore, config: dict[str, Any] | None = None, **log: Any
) -> Iterator[tuple[Feed, Running]]:
    log = {"path": str(folder / "live.sqlite"), **log}
    made = service_config(folder, router={"name": "sweep"}, log=log, **(config or {}))
    feed = Feed()
    service = Service(made, log=MemoryLog(store), sources=[feed])
    with served(service) as client:
        yield feed, Running(service, client, store)
    assert feed.closed


def quoted(store: MemoryStore) -> list[QuotedEvent]:
    return [event for _, event in log_events_after(MemoryLog(store)) if isinstance(event, QuotedEvent)]


def test_orders_use_the_books_of_a_source_with_the_fees_of_the_configuration(tmp_path: Path) -> None:
    store = MemoryStore()
    with fed(tmp_path, store) as (feed, up):
        assert set(feed.symbols) == {"DEMO", "OTHER"}
        assert up.client.post("/orders", json=order("early")).status_code == 422
        feed.sink.put("DEMO", [book("A"), book("B", ask=1005, taker=7)])
        assert up.client.post("/orders", json=order("one")).status_code == 200
        found = up.client.settled("one")
        assert [(child["place"], child["price"]) for child in found["children"] if child["filled"]] == [("A", 10.02)]
        books = {quote.venue: quote.taker for quote in up.service.history("DEMO") or ()}
        assert books == {"A": 3_000_000, "B": 7}
        flows = up.service.history.outflows("DEMO", ["A"], 1, time.time_ns())
        assert flows == {}, "a source without trades does not say that there were none"
        feed.sink.put(
            "DEMO", [], [MarketTrade(venue="A", side="bid", price=1000 * CENT, shares=300, at=time.time_ns())]
        )
        assert up.service.history.outflows("DEMO", ["A"], 1, time.time_ns()) == {"outflow A": 1.0}
    assert quoted(store) == []


def test_a_gap_empties_the_books_of_a_venue_until_the_next_one(tmp_path: Path) -> None:
    store = MemoryStore()
    with fed(tmp_path, store) as (feed, up):
        feed.sink.put("DEMO", [book("A"), book("B", ask=1003)])
        feed.sink.put("OTHER", [book("A")])
        feed.sink.gap("A", "DEMO", "a sequence number is missing")
        assert [quote.venue for quote in up.service.history("DEMO") or ()] == ["B"]
        assert [quote.venue for quote in up.service.history("OTHER") or ()] == ["A"]
        assert up.service.gaps == {("A", "DEMO"): "a sequence number is missing"}
        assert up.client.post("/orders", json=order("one")).status_code == 200
        assert {child["place"] for child in up.client.settled("one")["children"] if child["filled"]} == {"B"}
        feed.sink.gap("B", None, "cut")
        feed.sink.gap("A", None, "cut")
        refused = up.client.post("/orders", json=order("two"))
        assert (refused.status_code, "quotes must" in refused.text) == (422, True)
        feed.sink.put("DEMO", [book("A", at=time.time_ns() - NANO)])
        assert ("A", "DEMO") not in up.service.gaps
        assert up.client.post("/orders", json=order("two")).status_code == 200


def test_a_book_that_is_no_book_is_a_gap_and_raises_nothing(tmp_path: Path) -> None:
    with fed(tmp_path, MemoryStore()) as (feed, up):
        feed.sink.put("DEMO", [book("A"), book("B")])
        text: Any = "10.00"
        for wrong in (book("A", bid=1003), book("A", at=0), book("A", bids=((text, 5),)), book("nowhere")):
            feed.sink.put("DEMO", [book("A")])
            feed.sink.put("DEMO", [wrong])
            kept = {"A", "B"} if wrong.venue == "nowhere" else {"B"}
            assert {quote.venue for quote in up.service.history("DEMO") or ()} == kept
        feed.sink.put("no such symbol", [book("A")])
        feed.sink.put("DEMO", [], [MarketTrade(venue="nowhere", side="bid", price=1, shares=1, at=1)])
        assert up.service.history.outflows("DEMO", ["A"], 1, time.time_ns()) == {}
        feed.sink.gap("nowhere", None, "cut")


def test_books_and_gaps_of_a_source_are_logged_if_the_configuration_says_so(tmp_path: Path) -> None:
    store = MemoryStore()
    with fed(tmp_path, store, source_quotes=True) as (feed, up):
        feed.sink.put("DEMO", [book("A"), book("B")], [])
        feed.sink.gap("B", None, "cut")
        up.service.engine.flush()
        end = time.monotonic() + LONGEST
        while len(quoted(store)) < 2 and time.monotonic() < end:
            time.sleep(0.01)
    first, second = quoted(store)
    assert [(quote.venue, quote.taker) for quote in first.quotes] == [("A", 3_000_000), ("B", 3_000_000)]
    assert [(quote.venue, quote.bids, quote.asks) for quote in second.quotes] == [("B", (), ())]


def test_the_state_and_the_metrics_say_which_places_are_up_and_how_old_their_books_are(tmp_path: Path) -> None:
    limited = {"latency_ms": 0.0, "orders_per_second": 0.001, "burst": 10}
    more: dict[str, Any] = {"venues": {"A": limited, "B": {"latency_ms": 0.0}}, "pools": {}}
    with fed(tmp_path, MemoryStore(), config=more) as (feed, up):
        feed.sink.put("DEMO", [book("A", at=time.time_ns() - NANO), book("B")])
        feed.sink.put("OTHER", [book("B")])
        feed.sink.gap("B", "OTHER", "cut")
        assert up.client.post("/orders", json=order("one")).status_code == 200
        up.client.settled("one")
        up.service.engine.sink("B").down("maintenance")
        end = time.monotonic() + LONGEST
        while len(up.service.engine.reconciliation.checked) < 2 or not up.service.engine.state.down:
            assert time.monotonic() < end
            time.sleep(0.01)
        found = up.client.get("/state").json()["connections"]
        lines = up.client.get("/metrics").text.splitlines()
    values = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}
    assert (found["A"]["down"], found["B"]["down"], found["B"]["gaps"]) == ("", "maintenance", 1)
    assert found["A"]["book"] < found["B"]["book"]
    assert found["A"]["budget"]["most"] == 10
    assert found["A"]["budget"]["left"] < 10
    assert found["B"]["budget"] is None
    assert found["A"]["answers"]["count"] == 1
    assert (found["A"]["differences"], found["A"]["moved"], found["A"]["foreign"]) == ([], None, 0)
    assert (values['riskroute_place_up{place="A"}'], values['riskroute_place_up{place="B"}']) == (1, 0)
    assert values['riskroute_book_age_seconds{place="A"}'] > 1
    assert 0 < values['riskroute_session_messages{session="A"}'] <= 10
    assert values['riskroute_answer_seconds_count{place="A"}'] == 1
    assert values['riskroute_reconciled_age_seconds{place="A"}'] >= 0
    assert values['riskroute_differences{place="A"}'] == 0


def test_a_gateway_must_be_of_a_configured_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gateways must be of venues or pools of the configuration, had 'X'"):
        Service(service_config(tmp_path), gateways={"X": object()})  # type: ignore[dict-item]  # not used
