"""Orders of clients with the terms of the configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from live_logs import MemoryStore
from live_services import order_json, running, service_config
from riskroute.core.errors import InputError, MalformedRequestError
from riskroute.live.http.requests import OrderRequest, RequestParser, _VenueBook, decode_request
from riskroute.live.limits import check_order
from riskroute.live.state.orders import PoolQuote, VenueQuote

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


def refused(body: str, kind: type = OrderRequest) -> str:
    with pytest.raises(MalformedRequestError) as error:
        decode_request(body.encode(), kind, "an order")
    return str(error.value)


TEXT = json.dumps(order_json("one", quantity=24, features={"urgent": 1.0}))


@pytest.mark.parametrize(
    ("number", "quantity"),
    [("24.0", 24), ("2.4e1", 24), ("240E-1", 24), ("-0.0", 0), ("9007199254740993.0", 9007199254740993)],
)
def test_an_integer_with_a_point_or_an_exponent_is_an_integer(number: str, quantity: int) -> None:
    given = TEXT.replace('"quantity": 24', f'"quantity": {number}')
    read = decode_request(given.encode(), OrderRequest, "an order")
    assert (read.quantity, type(read.quantity)) == (quantity, int)
    assert read == decode_request(TEXT.replace("24", f"{quantity}", 1).encode(), OrderRequest, "an order")


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        ("24.5", "quantity must be of type int, was float"),
        ("1." + "0" * 40 + "1", "quantity must be of type int, was float"),  # which no double tells from 1
        ("9007199254740993.5", "quantity must be of type int, was float"),
        ("9223372036854775808.0", "quantity must be at most 9223372036854775807"),
        ("0e99999999999999999999", "quantity must be of type int, was float"),
        ("24.0, NaN", "an order must be JSON, was not: "),
        ('24.0, "limit": NaN', "an order must be JSON, was not: "),
        ('24.0, "limit": 1, "limit": 2', "limit must be given once, was repeated"),
    ],
)
def test_a_number_that_is_no_integer_is_refused(number: str, sentence: str) -> None:
    assert refused(TEXT.replace('"quantity": 24', f'"quantity": {number}')).startswith(sentence)


@pytest.mark.parametrize(
    ("once", "twice", "field"),
    [
        ('"key"', '"key": "two", "key"', "key"),
        ('"venue": "A"', '"venue": "B", "venue": "A"', "venue"),
        ('"venue": "A"', '"venue": "A", "taker": 5, "taker": null', "taker"),
        ('"urgent": 1.0', '"urgent": 1.0, "urgent": 1.0', "urgent"),
        ('"urgent": 1.0', '"urgent": 1.0, "\\u0075rgent": 2.0', "urgent"),
        ('"urgent": 1.0', '"a\\"b": 1.0, "a\\"b": 2.0', 'a"b'),
    ],
)
def test_a_repeated_field_is_refused_at_any_depth(once: str, twice: str, field: str) -> None:
    assert refused(TEXT.replace(once, twice, 1)) == f"{field} must be given once, was repeated"


def test_a_field_with_its_default_or_an_escape_is_no_repeated_field() -> None:
    given = TEXT.replace('"key"', '"limit": null, "k\\u0065y"').replace('"venue": "A"', '"venue": "A", "maker": null')
    assert decode_request(given.encode(), OrderRequest, "") == decode_request(TEXT.encode(), OrderRequest, "")


def test_python_decodes_an_order_only_if_a_field_may_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riskroute.live.http.requests._plain_values", lambda body: pytest.fail("slow"))
    assert decode_request(TEXT.encode(), OrderRequest, "an order").features == {"urgent": 1.0}
