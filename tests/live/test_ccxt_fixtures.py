"""Requests and reports of ccxt gateways against ccxt's own recorded requests and responses (real_data)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

pytest.importorskip("ccxt", reason="needs ccxt: pip install 'riskroute[ccxt]'")

import ccxt

from live_engines import Listener
from loopback_only import loopback_only
from riskroute.core.instrument import Instrument
from riskroute.live.state.amounts import NANO
from riskroute.live.state.orders import ChildOrder
from riskroute.live.venues.ccxt_gateway import CcxtGateway
from riskroute.live.venues.ccxt_session import CcxtSession, Secrets
from riskroute.live.venues.gateway import VenueTerms, wire_id

DATA = Path(__file__).parents[3] / "shared" / "data" / "ccxt"
pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(not DATA.exists(), reason=f"needs {DATA}: requests and responses recorded by ccxt"),
]
EXCHANGES = ("binance", "okx", "bybit", "kraken", "coinbase")
NONCES = {"timestamp", "signature", "recvWindow", "nonce"}
# fields that carry the client's id, and those that a stored request cannot have
CLIENT_IDS = {"newClientOrderId", "clOrdId", "orderLinkId", "cl_ord_id", "client_order_id", "tag"}
SECRETS = {"kraken": "dGhlLXNlY3JldA==", "coinbase": "secretsecretsecretsecretsecretsecretsecrets"}
UNIT = Decimal("0.00000001")


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with loopback_only():
        yield


@cache
def stored(kind: str, exchange: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / kind / f"{exchange}.json").read_text())
    return found


def cases(kind: str, exchange: str, *methods: str) -> list[dict[str, Any]]:
    """The stored cases of spot symbols."""
    found = [one for method in methods for one in stored(kind, exchange)["methods"].get(method, [])]
    return [
        one
        for one in found
        if not one.get("disabled") and not any(":" in part for part in one["input"] if isinstance(part, str))
    ]


class StoredSession(CcxtSession):
    """A session with ccxt's stored market table, whose requests are kept and answered with `answer`."""

    def __init__(self, exchange: str) -> None:
        symbols = [name for name in stored("markets", exchange) if ":" not in name]
        instruments = {
            name.replace("/", ""): Instrument(unit=UNIT, tick=UNIT, currency=name.split("/")[1]) for name in symbols
        }
        super().__init__(
            exchange,
            exchange,
            instruments,
            {name.replace("/", ""): name for name in symbols},
            secrets=Secrets(
                {"apiKey": "the-key", "secret": SECRETS.get(exchange, "the-secret"), "password": "the-password"}
            ),
            rate_limit=0.0,
        )
        self.requests: list[tuple[str, str, str | None]] = []
        self.answer: Any = None
        self.client = self._new_client(self.client)
        # Fields that ccxt has added to its markets since then get their defaults.
        markets = [self.client.safe_market_structure(one) for one in stored("markets", exchange).values()]
        self.client.set_markets(markets, stored("currencies", exchange))
        self.client.fetch = self.fetch
        for symbol in self.instruments:
            self._terms[symbol] = VenueTerms(tick=UNIT, lot=UNIT, base=symbol, quote="")

    async def fetch(self, url: str, method: str = "GET", headers: Any = None, body: str | None = None) -> Any:
        self.requests.append((method, url, body))
        if self.answer is None:
            raise ccxt.BadRequest("only the request counts")
        self.client.last_http_response = json.dumps(self.answer)
        return self.answer

    def gateway(self) -> tuple[CcxtGateway, Listener]:
        gateway, listener = CcxtGateway(self), Listener([])
        gateway._sink = listener
        return gateway, listener


def child_of(symbol: str, side: str, quantity: Any, price: Any = 1, *, immediate: bool = False) -> ChildOrder:
    return ChildOrder(
        id="CHILD-0-0",
        parent="P",
        slot=0,
        attempt=0,
        kind="take" if immediate else "limit",
        place="X",
        symbol=symbol.replace("/", "").replace("-", ""),
        side=side,  # type: ignore[arg-type]  # buy or sell
        quantity=int(Decimal(str(quantity)) / UNIT),
        limit=int(Decimal(str(price)) * NANO),
        until=0 if immediate else 10**19,
        idempotent=False,
    )


def fields(url: str, body: str | None) -> tuple[str, dict[str, Any]]:
    """The path of a request, and its fields without nonces and the client's id."""
    parts = urlsplit(url)
    found: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    if body and body[0] in "[{":
        decoded = json.loads(body)
        found |= decoded[0] if isinstance(decoded, list) else decoded
    elif body:
        found |= dict(parse_qsl(body, keep_blank_values=True))
    return parts.path, {name: value for name, value in found.items() if name not in NONCES | CLIENT_IDS}


def stored_fields(case: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return fields(case["url"], case.get("output"))


# requests


@pytest.mark.parametrize(("exchange", "count"), [("binance", 3), ("okx", 2), ("bybit", 1), ("coinbase", 2)])
def test_orders_have_the_path_and_fields_of_the_stored_requests(exchange: str, count: int) -> None:
    """All stored limit orders without stops, margin or post-only; quantities and prices rounded as ccxt did."""
    ours: tuple[dict[str, str], ...] = ({}, {"clientOrderId": "mycustomid"}, {"timeInForce": "IOC"})
    found = [
        one
        for one in cases("request", exchange, "createOrder")
        if one["input"][1] == "limit" and (one["input"][5:] or [{}])[0] in ours
    ]
    assert len(found) == count
    for case in found:
        session = StoredSession(exchange)
        gateway, _ = session.gateway()
        symbol, _, side, quantity, price, *more = case["input"]
        rounded = [
            getattr(session.client, f"{what}_to_precision")(symbol, value)
            for what, value in (("amount", quantity), ("price", price))
        ]
        child = child_of(symbol, side, *rounded, immediate=bool(more) and "timeInForce" in more[0])
        asyncio.run(gateway._create(child, *rounded))
        method, url, body = session.requests[0]
        assert (method, *fields(url, body)) == ("POST", *stored_fields(case))
        assert wire_id(child.id) in str(body)


def test_an_order_at_kraken_has_the_fields_of_the_stored_market_and_limit_orders() -> None:
    """No plain limit order is stored: the fields are those of a market order, and the price that of a stop order."""
    market, stop = [
        stored_fields(next(one for one in cases("request", "kraken", "createOrder") if one["input"][1:2] == [kind]))
        for kind in ("market", "limit")
    ]
    session = StoredSession("kraken")
    gateway, _ = session.gateway()
    asyncio.run(gateway._create(child_of("LTC/USDT", "buy", "0.1", "50", immediate=True), "0.1", "50"))
    path, made = fields(*session.requests[0][1:])
    assert path == market[0]
    assert set(made) - set(market[1]) == {"price", "timeinforce", "deadline"}
    assert {name: made[name] for name in market[1]} == market[1] | {"ordertype": "limit"}
    assert "price" in stop[1]


@pytest.mark.parametrize(
    ("exchange", "count"), [("binance", 1), ("okx", 1), ("bybit", 1), ("kraken", 1), ("coinbase", 2)]
)
def test_cancels_have_the_path_and_fields_of_the_stored_requests(exchange: str, count: int) -> None:
    found = [one for one in cases("request", exchange, "cancelOrder") if len(one["input"]) < 3]
    assert len(found) == count
    for case in found:
        session = StoredSession(exchange)
        gateway, _ = session.gateway()
        venue_id, symbol = [*case["input"], "LTC/USDT"][:2]
        child = child_of(symbol, "buy", 1)
        gateway._known(child).venue_id = str(venue_id)
        gateway._known(child).busy = True  # no look-up follows
        asyncio.run(gateway._cancel(child))
        assert fields(*session.requests[0][1:]) == stored_fields(case)


def test_look_ups_have_the_path_and_fields_of_the_stored_requests() -> None:
    """Orders by the exchange's id, open orders, trades of an order and of a symbol, balances."""
    compared = []
    for exchange in EXCHANGES:
        wanted = cases("request", exchange, *LOOK_UPS)
        for case in [one for one in wanted if len(one["input"]) == 2 or one["method"] not in ("fetchOpenOrder",)]:
            method, given = case["method"], case["input"]
            if any(isinstance(one, dict) and one != {"type": "spot"} for one in given):
                continue  # margin, other accounts
            session = StoredSession(exchange)
            gateway, _ = session.gateway()
            symbol = next((one for one in given if isinstance(one, str) and "USD" in one), "")
            child = child_of(symbol or next(iter(session.ours)), "buy", 1)
            there = gateway._known(child)
            there.venue_id = str(given[0]) if given else ""

            async def look(gateway: CcxtGateway = gateway, there: Any = there, case: Any = case) -> None:
                match case["method"]:
                    case "fetchOrder" | "fetchOpenOrder":
                        await gateway._find(there)
                    case "fetchOpenOrders":
                        await gateway._call("fetch_open_orders", there.theirs)
                    case "fetchOrderTrades":
                        await gateway._trades(there, {})
                    case "fetchMyTrades":
                        await gateway._call("fetch_my_trades", there.theirs, (case["input"][1:] or [None])[0])
                    case "fetchBalance":
                        await gateway._call("fetch_balance")

            with suppress(Exception):  # nothing was answered
                asyncio.run(look())
            made, expected = fields(*session.requests[0][1:]), stored_fields(case)
            compared.append((exchange, method, json.dumps(given), made == expected, made, expected))
    different = {(one[0], one[1], one[2]): (one[4], one[5]) for one in compared if not one[3]}
    assert {(one[0], one[1]) for one in compared} >= {(name, "fetchBalance") for name in ("binance", "bybit", "kraken")}
    assert {one[:2]: _difference(*two) for one, two in different.items()} == EXCEPTIONS
    assert len(compared) == 20


def _difference(made: tuple[str, dict[str, Any]], expected: tuple[str, dict[str, Any]]) -> set[str]:
    """The fields that differ."""
    assert made[0] == expected[0]
    return {name for name in made[1] | expected[1] if made[1].get(name) != expected[1].get(name)}


# We always state the symbol, never the type of the account; ccxt has raised a limit since. See docs/venues.md.
EXCEPTIONS = {
    ("okx", "fetchOpenOrders"): {"instId"},
    ("okx", "fetchMyTrades"): {"instId"},
    ("kraken", "fetchBalance"): {"type"},
    ("coinbase", "fetchOpenOrders"): {"product_id"},
    ("coinbase", "fetchBalance"): {"limit"},
}
LOOK_UPS = ("fetchOrder", "fetchOpenOrder", "fetchOpenOrders", "fetchOrderTrades", "fetchMyTrades", "fetchBalance")


# responses


def test_every_stored_response_gives_the_right_report() -> None:
    """Orders: kind, cumulative quantity and leaves; trades: id, quantity, price and fee in its currency."""
    reported: Counter[tuple[str, str]] = Counter()
    wrong = []
    for exchange in EXCHANGES:
        for case in cases("response", exchange, *ORDERS, "fetchMyTrades"):
            parsed = case["parsedResponse"]
            for one in parsed if isinstance(parsed, list) else [parsed]:
                if ":" in one["symbol"]:
                    continue
                found, expected = (_trade if case["method"] == "fetchMyTrades" else _order)(exchange, case, one)
                reported[exchange, case["method"]] += 1
                if found != expected:
                    wrong.append((exchange, case["method"], case["description"], found, expected))
    assert wrong == []
    assert sum(reported.values()) == 18, reported


ORDERS = ("createOrder", "fetchOrder", "fetchOpenOrder", "fetchOpenOrders", "fetchClosedOrders", "fetchOrders")
_METHODS = {name: "".join(f"_{c.lower()}" if c.isupper() else c for c in name) for name in (*ORDERS, "fetchMyTrades")}


def _parsed(exchange: str, case: dict[str, Any]) -> tuple[CcxtGateway, Listener, Any]:
    session = StoredSession(exchange)
    session.answer = case["httpResponse"]
    gateway, listener = session.gateway()
    given = [dict(one) if isinstance(one, dict) else one for one in case["input"]]
    if case["method"] == "fetchOrder" and len(given) < 3:
        given.append(dict(session.dialect.parameters))
    return gateway, listener, asyncio.run(gateway._call(_METHODS[case["method"]], *given))


def _units(value: Any) -> int:
    return int(Decimal(str(value or 0)) / UNIT)


def _order(exchange: str, case: dict[str, Any], expected: dict[str, Any]) -> tuple[Any, Any]:
    """What the gateway reports about an order, and what it should by ccxt's stored result."""
    gateway, listener, made = _parsed(exchange, case)
    order = next(one for one in made if one["id"] == expected["id"]) if isinstance(made, list) else made
    there = gateway._known(child_of(expected["symbol"], expected["side"], expected["amount"] or 1))
    there.filled, ends = 0, {"closed": "cancelled", "canceled": "cancelled", "open": "acknowledged"}

    async def no_fills(*given: Any) -> list[Any]:
        return []

    gateway._fills = no_fills  # type: ignore[assignment, method-assign]  # fills come from trades, which are tested on their own
    if expected["status"] is None:  # a new order: only its id is known, so it is looked up
        return (order["id"], order["status"]), (expected["id"], None)
    gateway._note_id(there, order)
    asyncio.run(gateway._report(there, order))
    (report,) = listener.heard
    filled, amount = _units(expected["filled"]), _units(expected["amount"])
    leaves = amount - filled if expected["status"] == "open" else 0
    return (
        (there.venue_id, report.kind, report.cum, report.leaves),
        (expected["id"], ends[expected["status"]], filled, leaves),
    )


def _trade(exchange: str, case: dict[str, Any], expected: dict[str, Any]) -> tuple[Any, Any]:
    gateway, _, made = _parsed(exchange, case)
    trade = next(one for one in made if one["id"] == expected["id"])
    child = child_of(expected["symbol"], expected["side"], expected["amount"])
    base, quote = expected["symbol"].split("/")
    gateway._ccxt._terms[child.symbol] = VenueTerms(tick=UNIT, lot=UNIT, base=base, quote=quote)
    gateway._rates[f"BNB/{quote}"] = 1e12, Decimal(500)
    (report,) = asyncio.run(gateway._fill_reports(gateway._known(child), [trade]))
    fee, one = expected["fee"], 10**17  # amounts of 1e-17: units of 1e-8 at prices of 1e-9
    charged = (report.fee_currency, report.fee_amount) if report.fee_currency else (quote, Decimal(report.fee) / one)
    return (
        (report.exec_id, report.quantity, Decimal(report.price) / NANO, *charged, report.at),
        (
            f"{expected['symbol']}-{expected['id']}",
            _units(expected["amount"]),
            Decimal(str(expected["price"])),
            fee["currency"],
            Decimal(str(fee["cost"])),
            expected["timestamp"] * 1_000_000,
        ),
    )
