"""Contexts: what is read is what is meant, and what cannot be is named."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from riskroute.core.errors import RiskrouteError
from riskroute.routers.context import ContextBooks, ContextPool, read_context
from router_cases import TWO_VENUES, random_context, sale


def test_one_benchmark_for_all_venues() -> None:
    context = sale()
    assert (context.books.best_bid, context.books.best_ask) == (10.0, 10.02)
    assert context.mid == pytest.approx(10.01)
    assert context.sign == -1
    assert context.displayed.take(300).shares.tolist() == [150, 150]


@pytest.mark.parametrize("seed", range(20))
def test_json_gives_back_the_same_context(seed: int) -> None:
    context = random_context(np.random.default_rng(seed), features={"volatility": 0.5})
    again = read_context(json.loads(json.dumps(context.to_json())))
    assert again.to_json() == context.to_json()
    assert again.displayed.take(again.shares).cost == context.displayed.take(context.shares).cost


def test_an_order_given_by_name_replaces_that_of_the_file() -> None:
    context = read_context(sale(300).to_json(), shares=20, side="buy")
    assert (context.side, context.shares) == ("buy", 20)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The two venues with one value replaced."""
    books: dict[str, Any] = json.loads(json.dumps(TWO_VENUES))
    *parents, last = path.split(".")
    place = books
    for name in parents:
        place = place[name]
    place[last] = value
    return books


@pytest.mark.parametrize(
    ("books", "order", "message"),
    [
        (changed("venues", {}), {}, "venues must hold at least one venue, was empty"),
        (changed("venues", [1]), {}, "venues must be an object, was [1]"),
        (
            changed("venues.A.bid", []),
            {},
            "unknown field 'bid' in venue A; fields are bids, asks, taker, maker, age_ns",
        ),
        (changed("venues.A.bids", [[10.0]]), {}, "bids of A must be pairs of price and size, was [10.0]"),
        (
            changed("venues.A.bids", [[9.0, 1], [10.0, 1]]),
            {},
            "bids of A must have the best price first, was [9.0, 10.0]",
        ),
        (
            changed("venues.A.asks", [[-1.0, 1]]),
            {},
            "price of A must be a number of at most 1e+09 and above 0, was -1.0",
        ),
        (
            changed("venues.A.asks", [[9.2e18, 1]]),
            {},
            "price of A must be a number of at most 1e+09 and above 0, was 9.2e+18",
        ),
        (
            changed("venues.A.asks", [[10.02, 100], [10.03, 0.4]]),
            {"instrument": {"unit": 1}},
            "asks of A, level 2: size must be a multiple of 1 share, the unit, was 0.4",
        ),
        (
            changed("venues.A.bids", [[10.02, 5]]),
            {},
            "best bid of A must be below its best ask, was 10.02 and 10.02",
        ),
        (changed("venues.A.taker", 30), {}, "taker fee of A must be at most 10 per share in magnitude, was 30"),
        (
            changed("venues.A.taker", "1 EUR per share"),
            {},
            "taker fee of A must be in USD, was in EUR",
        ),
        (
            changed("venues.A.maker", "1 per contract"),
            {},
            "maker fee of A is per contract, but the instrument is counted in shares; state it per share, or in bps",
        ),
        (
            changed("pools.P.fee", "10 bps"),
            {},
            "fee of P must be an amount per quantity such as '0 USD per share', was 10 bps",
        ),
        (changed("pools.P.price", 3), {}, "unknown field 'price' in pool P; fields are fee, improvement"),
        (
            changed("extra", 1),
            {},
            "unknown field 'extra' in the books; fields are venues, pools, features, instrument, symbol, tick, "
            "protection, order, side, quantity, shares, lot, horizon, time",
        ),
        (TWO_VENUES, {"shares": 0}, "quantity must be a positive multiple of 1 share, the lot, was 0"),
        (TWO_VENUES, {"side": "short"}, "side must be one of buy, sell, was 'short'"),
        (TWO_VENUES, {"horizon": -1}, "horizon must be a number of at least 0, was -1"),
        ({"venues": {"A": {"bids": [[10.0, 5]]}}}, {}, "books must show at least one bid and one ask"),
        (
            {"venues": {"<A>": {"bids": [[10.0, 5]]}}},
            {},
            "venue must be a name of up to 32 letters, digits, spaces or ._-/ that begins with a letter or digit and "
            "does not end with a space, was '<A>'",
        ),
    ],
)
def test_invalid_contexts_are_refused(books: dict[str, Any], order: dict[str, Any], message: str) -> None:
    with pytest.raises(RiskrouteError) as error:
        read_context(books, **{"side": "sell", "shares": 10} | order)
    assert str(error.value) == message


def test_sizes_may_be_whole_but_for_rounding() -> None:
    context = read_context(changed("venues.A.asks", [[10.02, 0.57 * 100]]), side="buy", shares=10)
    assert context.books.ask_sz[0, 0] == 57.0


def test_an_empty_level_does_not_cross_a_book() -> None:
    books = changed("venues.A.bids", [[10.05, 0], [10.00, 5]])
    assert read_context(books, side="buy", shares=10).books.best_bid == 10.00


@pytest.mark.parametrize("missing", ["side", "shares"])
def test_an_order_must_be_whole(missing: str) -> None:
    order = {"side": "sell", "shares": 10}
    del order[missing]
    expected = "side" if missing == "side" else "quantity"
    with pytest.raises(RiskrouteError, match=f"^{expected} is missing: add it to the order$"):
        read_context(TWO_VENUES, **order)


def test_arrays_of_different_shapes_are_refused() -> None:
    one, two = np.ones((1, 2)), np.ones((1, 3))
    with pytest.raises(RiskrouteError, match=r"ask_px must have shape \(1, 2\), was \(1, 3\)"):
        ContextBooks(("A",), one, one, two, two, np.zeros((1, 2)), np.zeros((1, 2)))


def test_a_pool_far_from_the_market_is_refused() -> None:
    with pytest.raises(RiskrouteError, match="improvement of P must be a number of at least -1"):
        ContextPool("P", improvement=2)


@pytest.mark.parametrize(
    ("more", "size", "named"),
    [
        ({}, 300, ("shares", "USD")),
        ({}, 0.25, ("units", "unknown currency")),
        ({"symbol": "ETH-BTC"}, 0.25, ("ETH", "BTC")),
        ({"instrument": {"symbol": "ETHBTC", "tick": "0.5"}}, 0.25, ("ETH", "BTC")),
        ({"instrument": {"quantity": "oz"}}, 0.25, ("oz", "USD")),
    ],
)
def test_fractional_sizes_are_not_of_shares(more: dict[str, Any], size: float, named: tuple[str, str]) -> None:
    books = {"venues": {"A": {"bids": [[10.0, size]], "asks": [[10.5, 1.5 if size < 1 else 100]]}}} | more
    instrument = read_context(books, side="buy", quantity=size).instrument
    assert (instrument.quantity, instrument.currency) == named
