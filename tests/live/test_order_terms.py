"""Orders of clients with what the configuration says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gates import CONFIG
from live_services import order_json, running, service_config
from log_memory import MemoryStore
from riskroute.core.errors import InputError
from riskroute.live.order_ids import order_digest
from riskroute.live.order_terms import Fees, Instrument, OrderTerms, checked_parent, order_terms, prepared
from riskroute.live.state.events import PoolQuote, VenueQuote
from riskroute.live.wire import OrderIn, QuoteIn

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
    ready = prepared(CONFIG.terms, OrderIn(**ORDER))
    assert ready.order.quotes == (VenueQuote(venue="A", bids=BOOK.bids, asks=BOOK.asks, taker=3, maker=0, at=5),)
    assert ready.order.pools == CONFIG.terms.pools
    assert ready.digest == order_digest(ready.order)
    assert ready.checked


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
def test_an_order_that_makes_no_sense_is_not_called_checked(change: dict[str, Any]) -> None:
    ready = prepared(CONFIG.terms, OrderIn(**ORDER | change))
    assert not ready.checked
    with pytest.raises(InputError, match=r" must .*, (was|were|did) "):
        checked_parent(ready.order)


def test_an_order_that_makes_no_sense_is_told_so_while_trading_is_halted(tmp_path: Path) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        up.service.halt("a test", "desk").result(9)
        answer = up.client.post("/orders", json=order_json(quantity=-3))
        assert (answer.status_code, answer.json()["error"]) == (422, "quantity must be from 1 to 1000000000, was -3")
        assert up.client.post("/orders", json=order_json()).status_code == 503
