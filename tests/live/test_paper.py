"""Paper trading: a simulated venue on streamed books and trades."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from live_engines import CENT, START, Clock, Listener
from riskroute.core.instrument import SHARES
from riskroute.live.fees import LivePlaceFees, OrderFee
from riskroute.live.state.amounts import NANO
from riskroute.live.state.orders import ChildOrder
from riskroute.live.state.quotes import MarketTrade, VenueQuote
from riskroute.live.venues.gateway import instrument_venue_terms
from riskroute.live.venues.paper import PaperMarket, PaperVenue


def book(bid: int, ask: int, size: int = 100, at: int = START) -> VenueQuote:
    """Two levels of each side, the best at these cents."""
    bids = ((bid * CENT, size), ((bid - 1) * CENT, 2 * size))
    return VenueQuote(venue="A", bids=bids, asks=((ask * CENT, size), ((ask + 1) * CENT, 2 * size)), at=at)


def order(number: int, cents: int, quantity: int, *, side: str = "buy", rests: bool = False) -> ChildOrder:
    return ChildOrder(
        id=f"CHILD-{number}-0",
        parent="P",
        slot=number,
        attempt=0,
        kind="limit" if rests else "take",
        place="A",
        symbol="DEMO",
        side=side,  # type: ignore[arg-type]  # buy or sell
        quantity=quantity,
        limit=cents * CENT,
        until=START + 3600 * NANO if rests else 0,
    )


class Paper:
    """A paper venue without latency, and what it says."""

    def __init__(self, folder: Path) -> None:
        fees = LivePlaceFees(OrderFee(2 * CENT), OrderFee(CENT))
        market, clock = PaperMarket({"DEMO": SHARES}, lambda instrument: fees), Clock()
        terms = {"DEMO": instrument_venue_terms(SHARES)}.get
        self.venue = PaperVenue("A", market, clock, terms=terms, journal=folder / "paper.jsonl", latency=0.0)
        self.listener = Listener([])
        self.venue.connect(self.listener)

    def market(self, *given: Any) -> None:
        self.venue.on_market(
            "DEMO",
            [one for one in given if isinstance(one, VenueQuote)],
            [one for one in given if isinstance(one, MarketTrade)],
        )
        self.venue.deliver()

    def send(self, child: ChildOrder) -> None:
        self.venue.send(child)
        self.venue.deliver()

    def fills(self, child: ChildOrder) -> list[tuple[int, int]]:
        return [(r.price // CENT, r.quantity) for r in self.listener.heard if (r.child, r.kind) == (child.id, "filled")]


@pytest.fixture
def paper(tmp_path: Path) -> Iterator[Paper]:
    made = Paper(tmp_path)
    yield made
    made.venue.stop()


def trade(cents: int, shares: int, side: Any = "bid") -> MarketTrade:
    return MarketTrade(venue="A", side=side, price=cents * CENT, shares=shares, at=START)


def test_an_immediate_order_takes_what_is_displayed_once(paper: Paper) -> None:
    paper.market(book(1000, 1002))
    first, second, third = order(1, 1003, 150), order(2, 1003, 200), order(3, 1002, 50)
    paper.send(first)
    paper.market(book(1000, 1002, at=START + 1))  # unchanged: what we took is still displayed, and gone
    paper.send(second)
    assert (paper.fills(first), paper.fills(second)) == ([(1002, 100), (1003, 50)], [(1003, 150)])
    paper.market(book(1000, 1002, 80, at=START + 2))
    paper.send(third)
    assert paper.fills(third) == [(1002, 50)]
    fee = sum(one.fee for one in paper.listener.heard if one.child == third.id)
    assert fee == 50 * 2 * CENT


def test_without_a_book_nothing_trades(paper: Paper) -> None:
    child = order(1, 1003, 150)
    paper.market(book(1000, 1002))
    paper.venue.on_gap("DEMO")
    paper.send(child)
    assert paper.fills(child) == []
    assert paper.listener.heard[-1].kind == "cancelled"


def test_a_resting_order_queues_behind_the_displayed_size(paper: Paper) -> None:
    paper.market(book(1000, 1002))
    child = order(1, 1000, 60, rests=True)
    paper.send(child)
    paper.market(trade(1000, 30), trade(1001, 500), trade(1000, 500, "ask"))
    assert paper.fills(child) == []  # 70 are ahead
    paper.market(book(1000, 1002, 40))  # 30 of them were cancelled
    paper.market(trade(1000, 50))
    assert paper.fills(child) == [(1000, 10)]
    paper.market(trade(999, 20))  # at a worse price: ours was reached
    assert paper.fills(child) == [(1000, 10), (1000, 20)]
    paper.market(book(998, 1000, 25))  # the other side has come to our price
    assert paper.fills(child)[2:] == [(1000, 25)]
    paper.market(book(998, 1000, 25, at=START + 5))  # the same level, which we have taken
    assert len(paper.fills(child)) == 3
    assert paper.listener.heard[-1].fee == 25 * CENT


def test_an_unknown_queue_is_as_long_as_the_next_book_says(paper: Paper) -> None:
    paper.market(book(1000, 1002))
    child = order(1, 1000, 60, rests=True)
    paper.send(child)
    paper.venue.on_gap(None)
    paper.market(trade(1000, 5_000))
    assert paper.fills(child) == []
    paper.market(book(1000, 1002, 10))
    paper.market(trade(1000, 15))
    assert paper.fills(child) == [(1000, 5)]


def test_a_resting_order_survives_the_process(paper: Paper, tmp_path: Path) -> None:
    paper.market(book(1000, 1002))
    child = order(1, 1000, 60, rests=True)
    paper.send(child)
    paper.venue.stop()
    again = Paper(tmp_path)
    again.market(book(1000, 1002, 10))
    again.market(trade(1000, 30))
    assert again.fills(child) == [(1000, 20)]
    again.venue.cancel(child)
    again.venue.deliver()
    assert (again.listener.heard[-1].kind, again.listener.heard[-1].cum) == ("cancelled", 20)
    again.market(trade(1000, 30))
    assert again.fills(child) == [(1000, 20)]
    again.venue.stop()
