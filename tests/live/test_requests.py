"""Orders of clients with the terms of the configuration."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from instruments import instrument_of
from live_logs import MemoryStore
from live_services import order_json, running, service_config
from riskroute.core.errors import InputError, MalformedRequestError
from riskroute.live.http.requests import OrderRequest, RequestParser, _VenueBook, decode_request
from riskroute.live.limits import check_order
from riskroute.live.state.quotes import PoolQuote, VenueQuote

BOOK = _VenueBook(venue="A", at=5, bids=((10, 7),), asks=((Decimal("10.02"), 7),), maker=0)
ORDER: dict[str, Any] = {"key": "one", "symbol": "DEMO", "side": "buy", "quantity": 5, "deadline": 9, "quotes": (BOOK,)}


@pytest.fixture
def terms(tmp_path: Path) -> RequestParser:
    return RequestParser(service_config(tmp_path))


def test_an_order_gets_the_terms_of_the_configuration_unless_it_brings_its_own(terms: RequestParser) -> None:
    order = terms.order(OrderRequest(**ORDER))
    bids, asks = ((10_000_000_000, 7),), ((10_020_000_000, 7),)
    assert order.quotes == (VenueQuote(venue="A", bids=bids, asks=asks, taker=3_000_000, maker=0, at=5),)
    assert order.pools == (PoolQuote(pool="P", fee=1_000_000),)
    assert (order.terms, order.instrument) == ("", instrument_of("DEMO"))
    other = OrderRequest(**ORDER | {"symbol": "OTHER", "quantity": 20})
    assert terms.order(other).instrument == instrument_of("OTHER", lot=10)
    book = _VenueBook(venue="A", at=5, taker="0.007 per share", maker="-5 bps")
    (own,) = terms.order(OrderRequest(**ORDER | {"quotes": (book,)})).quotes
    assert (own.taker, own.taker_rate, own.maker, own.maker_rate) == (7_000_000, 0, 0, -500_000)
    check_order(order)


@pytest.mark.parametrize(
    "change",
    [
        {"quantity": 0},
        {"symbol": "OTHER", "quantity": 15},
        {"key": ""},
        {"deadline": 0},
        {"limit": 0},
        {"features": {"nothing": float("nan")}},
        {"features": {"a" * 101: 1.0}},
        {"features": {f"{number}": 1.0 for number in range(101)}},
        {"quotes": ()},
        {"quotes": (BOOK, BOOK)},
        {"quotes": (_VenueBook(venue="A", at=5, bids=((10, 7),)),)},
        {"quotes": (_VenueBook(venue="A", at=5, bids=((12, 7),), asks=((10, 7),)),)},
        {"quotes": (_VenueBook(venue="A", at=0, bids=((10, 7),), asks=((12, 7),)),)},
    ],
)
def test_an_invalid_order_is_refused(terms: RequestParser, change: dict[str, Any]) -> None:
    order = terms.order(OrderRequest(**ORDER | change))
    with pytest.raises(InputError, match=r" must .*, (was|were|did) "):
        check_order(order)


def test_an_invalid_order_is_refused_as_such_while_trading_is_halted(tmp_path: Path) -> None:
    with running(service_config(tmp_path), MemoryStore()) as up:
        up.service.halt("a test", "desk").result(60)
        answer = up.client.post("/orders", json=order_json(quantity=-3))
        assert (answer.status_code, answer.json()["error"]) == (
            422,
            "quantity must be a multiple of 1 from 0 to 100,000,000,000,000, was -3",
        )
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
    assert read.quantity == quantity
    assert read == decode_request(TEXT.replace("24", f"{quantity}", 1).encode(), OrderRequest, "an order")


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        ("0e99999999999999999999", "quantity must be a number, was text that is not a number"),
        ("24.0, NaN", "an order must be JSON, was not: "),
        ('24.0, "limit": NaN', "an order must be JSON, was not: "),
        ('24.0, "limit": 1, "limit": 2', "limit must be given once, was repeated"),
        ('"24", "limit": 1, "limit": 2', "limit must be given once, was repeated"),
        ('24, "deadline": 2.5, "deadline": 3', "deadline must be"),
    ],
)
def test_what_is_no_number_is_refused(number: str, sentence: str) -> None:
    assert refused(TEXT.replace('"quantity": 24', f'"quantity": {number}')).startswith(sentence)


@pytest.mark.parametrize("number", ["24.5", "1." + "0" * 40 + "1", "9007199254740993.5", "1e15", "-1", '"Infinity"'])
def test_a_quantity_that_is_no_number_of_units_is_refused(terms: RequestParser, number: str) -> None:
    given = decode_request(TEXT.replace("24", number, 1).encode(), OrderRequest, "an order")
    with pytest.raises(InputError, match="quantity must be a multiple of 1 from 0 to 100,000,000,000,000, was"):
        terms.order(given)


def test_times_may_be_written_with_an_exponent_and_prices_stay_exact() -> None:
    given = TEXT.replace('"limit"', "").replace('"quantity": 24', '"quantity": 24, "limit": 123456789.123456789')
    deadline = json.loads(TEXT)["deadline"]
    read = decode_request(given.replace(f"{deadline}", f"{deadline}.0").encode(), OrderRequest, "an order")
    assert (read.deadline, read.limit) == (deadline, Decimal("123456789.123456789"))


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
