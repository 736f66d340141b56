"""Orders of clients with the terms of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from live_logs import MemoryStore
from live_services import order_json, running, service_config
from riskroute.core.errors import InputError
from riskroute.live.http.requests import OrderRequest, RequestParser, _VenueBook
from riskroute.live.limits import check_order
from riskroute.live.state.events import PoolQuote, VenueQuote

BOOK = _VenueBook(venue="A", at=5, bids=((1000, 7),), asks=((1002, 7),), maker=0)
ORDER: dict[str, Any] = {"key": "one", "symbol": "DEMO", "side": "buy", "quantity": 5, "deadline": 9, "quotes": (BOOK,)}


@pytest.fixture
def terms(tmp_path: Path) -> RequestParser:
    return RequestParser(service_config(tmp_path))


def test_an_order_gets_the_terms_of_the_configuration_unless_it_brings_its_own(terms: RequestParser) -> None:
    order = terms.order(OrderRequest(**ORDER))
    assert order.quotes == (VenueQuote(venue="A", bids=BOOK.bids, asks=BOOK.asks, taker=3_000_000, maker=0, at=5),)
    assert order.pools == (PoolQuote(pool="P", fee=1_000_000),)
    assert (order.lot, order.tick) == (1, 10_000_000)
    assert terms.order(OrderRequest(**ORDER | {"symbol": "OTHER"})).lot == 10
    own = terms.order(OrderRequest(**ORDER | {"quotes": (_VenueBook(venue="A", at=5, taker=7, maker=-7),)}))
    assert (own.quotes[0].taker, own.quotes[0].maker) == (7, -7)
    check_order(order)


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
        {"quotes": (_VenueBook(venue="A", at=5, bids=((1000, 7),)),)},
        {"quotes": (_VenueBook(venue="A", at=5, bids=((1002, 7),), asks=((1000, 7),)),)},
        {"quotes": (_VenueBook(venue="A", at=0, bids=((1000, 7),), asks=((1002, 7),)),)},
    ],
)
def test_an_invalid_order_is_refused(terms: RequestParser, change: dict[str, Any]) -> None:
    order = terms.order(OrderRequest(**ORDER | change))
    with pytest.raises(InputError, match=r" must .*, (was|were|did) "):
        check_order(order)


def test_an_invalid_order_is_refused_as_such_while_trading_is_halted(tmp_path: Path) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        up.service.halt("a test", "desk").result(9)
        answer = up.client.post("/orders", json=order_json(quantity=-3))
        assert (answer.status_code, answer.json()["error"]) == (422, "quantity must be from 1 to 1000000000, was -3")
        assert up.client.post("/orders", json=order_json()).status_code == 503
