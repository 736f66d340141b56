"""Orders of clients with what the configuration says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from live_services import order_json, running, service_config
from log_memory import MemoryStore
from riskroute.core.errors import InputError
from riskroute.live.http.requests import (
    Fees,
    Instrument,
    OrderIn,
    OrderTerms,
    QuoteIn,
    checked_parent,
    order_terms,
    parent_order,
)
from riskroute.live.state.events import PoolQuote, VenueQuote

TERMS = OrderTerms(
    partition="1/2",
    instruments={
        "DEMO": Instrument(lot=1, tick=10**7, partition="1/2"),
        "AWAY": Instrument(lot=1, tick=10**7, partition="2/2"),
    },
    venues={"A": Fees(taker=3, maker=-2)},
    pools=(PoolQuote(pool="P", fee=1),),
)
BOOK = QuoteIn(venue="A", at=5, bids=((1000, 7),), asks=((1002, 7),), maker=0)
ORDER: dict[str, Any] = {"key": "one", "symbol": "DEMO", "side": "buy", "quantity": 5, "deadline": 9, "quotes": (BOOK,)}


def test_the_terms_of_a_configuration_are_in_units_of_the_log(tmp_path: Path) -> None:
    assert order_terms(service_config(tmp_path)) == OrderTerms(
        partition="1/1",
        instruments={
            "DEMO": Instrument(lot=1, tick=10_000_000, partition="1/1"),
            "OTHER": Instrument(lot=10, tick=10_000_000, partition="1/1"),
        },
        venues={"A": Fees(taker=3_000_000, maker=0), "B": Fees(taker=3_000_000, maker=0)},
        pools=(PoolQuote(pool="P", fee=1_000_000),),
    )


def test_an_order_gets_the_fees_that_it_does_not_bring() -> None:
    order = parent_order(TERMS, OrderIn(**ORDER))
    assert order.quotes == (VenueQuote(venue="A", bids=BOOK.bids, asks=BOOK.asks, taker=3, maker=0, at=5),)
    assert order.pools == TERMS.pools
    assert checked_parent(order) is order


@pytest.mark.parametrize(
    "change",
    [
        {"quantity": -3},
        {"key": ""},
        {"deadline": 0},
        {"limit": 0},
        {"features": {"nothing": float("nan")}},
        {"features": {"a" * 101: 1.0}},
        {"features": {f"{number}": 1.0 for number in range(101)}},
        {"quotes": ()},
        {"quotes": (BOOK, BOOK)},
        {"quotes": (QuoteIn(venue="A", at=5, bids=((1000, 7),)),)},
        {"quotes": (QuoteIn(venue="A", at=5, bids=((1002, 7),), asks=((1000, 7),)),)},
        {"quotes": (QuoteIn(venue="A", at=0, bids=((1000, 7),), asks=((1002, 7),)),)},
    ],
)
def test_an_order_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    order = parent_order(TERMS, OrderIn(**ORDER | change))
    with pytest.raises(InputError, match=r" must .*, (was|were|did) "):
        checked_parent(order)


def test_a_symbol_of_another_partition_is_refused() -> None:
    with pytest.raises(InputError, match=r"symbol must be of partition 1/2, was AWAY, of 2/2"):
        parent_order(TERMS, OrderIn(**ORDER | {"symbol": "AWAY"}))


def test_an_order_that_makes_no_sense_is_told_so_while_trading_is_halted(tmp_path: Path) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        up.service.halt("a test", "desk").result(9)
        answer = up.client.post("/orders", json=order_json(quantity=-3))
        assert (answer.status_code, answer.json()["error"]) == (422, "quantity must be from 1 to 1000000000, was -3")
        assert up.client.post("/orders", json=order_json()).status_code == 503
