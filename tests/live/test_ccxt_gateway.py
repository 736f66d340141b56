"""Gateways to exchanges with the layouts of Binance and Kraken, on loopback."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccxt", reason="needs ccxt: pip install 'riskroute[ccxt]'")

from ccxt_sessions import KEY, SECRET, Reached, session
from live_engines import START
from loopback_exchanges import BinanceLayout, ExchangeFaults, ExchangeServer, KrakenLayout, LoopbackExchange, Market
from loopback_only import OutsideError, loopback_only
from riskroute.core.errors import InputError, StateError
from riskroute.core.instrument import Instrument
from riskroute.live.state.amounts import NANO
from riskroute.live.state.orders import ChildOrder
from riskroute.live.venues.ccxt_gateway import CcxtGateway
from riskroute.live.venues.ccxt_session import DIALECTS, Secrets, market_terms, read_secrets
from riskroute.live.venues.gateway import wire_id

LAYOUTS = {"binance": BinanceLayout, "kraken": KrakenLayout}
BTC = Market("BTC", tick="0.1", mid="60000")


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with loopback_only():
        yield


@pytest.fixture(params=LAYOUTS)
def server(request: pytest.FixtureRequest) -> Iterator[ExchangeServer]:
    exchange = LoopbackExchange([BTC], 3, fee_in_base=request.param == "binance")
    with LAYOUTS[request.param](exchange, keep=True) as made:
        made.dialect = request.param
        yield made


@pytest.fixture
def reached(server: Any) -> Iterator[Reached]:
    gateway = CcxtGateway(session("X", server, server.dialect))
    gateway.poll_seconds = 0.05
    try:
        yield Reached(gateway)
    finally:
        gateway.close()


def order(server: ExchangeServer, number: int = 0, *, quantity: int = 20_000, **more: Any) -> ChildOrder:
    """An immediate order of 0.2 BTC, or ``quantity`` units of 0.00001, at a price that reaches three levels."""
    side = more.setdefault("side", "buy")
    price = server.call(lambda: server.exchange.levels("BTC/USDT", "ask" if side == "buy" else "bid", 3))[-1][0]
    given: dict[str, Any] = {
        "kind": "take",
        "place": "X",
        "symbol": "BTCUSDT",
        "limit": int(price * NANO),
        "idempotent": False,
    } | more
    return ChildOrder(id=f"CHILD-{number}-0", parent="P", slot=number, attempt=0, quantity=quantity, **given)


def traded(server: ExchangeServer) -> Any:
    """Units, price, currency and amount of the fee of each trade, by the exchange."""
    return server.call(
        lambda: [
            (int(one.quantity / Decimal(BTC.lot)), int(one.price * NANO), one.currency, one.fee)
            for one in server.exchange.trades
        ]
    )


def test_the_terms_are_those_of_the_exchange(reached: Reached) -> None:
    terms = reached.gateway.terms("BTCUSDT")
    assert terms is not None
    assert (terms.tick, terms.lot, terms.minimum_quantity) == (Decimal("0.1"), Decimal("0.00001"), Decimal("0.0001"))
    assert (terms.base, terms.quote, terms.idempotent) == ("BTC", "USDT", False)
    assert reached.gateway.terms("OTHER") is None


@pytest.mark.parametrize("side", ["buy", "sell"])
def test_an_immediate_order_reports_the_trades_of_the_exchange(server: Any, reached: Reached, side: str) -> None:
    child = order(server, quantity=2_000_000, side=side)
    reached.gateway.send(child)
    end = reached.ended(child)
    fills = reached.of(child, "filled")
    one = 10**14  # amounts of 1e-14: units of 1e-5 BTC at prices of 1e-9
    booked = []
    for fill in fills:
        currency = fill.fee_currency or "USDT"
        fee = fill.fee_amount if fill.fee_currency else Decimal(fill.fee) / one
        booked.append((fill.quantity, fill.price, currency, fee))
    assert booked == traded(server)
    assert end.kind in ("cancelled", "expired")
    assert end.cum == sum(one.quantity for one in fills) > 0
    assert end.leaves == 0
    for fill in fills:
        if fill.fee_currency:
            assert fill.fee_currency == "BTC"
            assert fill.fee == round(fill.fee_amount * fill.price * (one // NANO))


def test_a_full_fill_leaves_nothing(server: Any, reached: Reached) -> None:
    child = order(server, quantity=20)
    reached.gateway.send(child)
    assert reached.ended(child).cum == 20
    assert reached.of(child, "filled")[-1].leaves == 0


def test_a_resting_order_is_acknowledged_filled_by_others_and_cancelled(server: Any, reached: Reached) -> None:
    price = server.call(lambda: server.exchange.best("BTC/USDT", "bid")) + Decimal("0.1")
    child = order(server, kind="limit", until=START * 2, limit=int(price * NANO), quantity=10_000_000)
    reached.gateway.send(child)
    reached.wait(lambda: reached.of(child, "acknowledged"))
    server.call(lambda: server.exchange._trade_with_others(BTC, "bid"))
    (fill,) = reached.wait(lambda: reached.of(child, "filled"))
    assert fill.price == child.limit
    reached.gateway.cancel(child)
    end = reached.ended(child)
    assert (end.kind, end.cum) == ("cancelled", fill.quantity)
    assert server.call(server.exchange.open_orders) == []


def test_an_order_whose_answer_is_lost_is_looked_up_and_not_sent_again(server: Any, reached: Reached) -> None:
    server.faults = ExchangeFaults(unanswered=1.0)
    child = order(server)
    reached.gateway.send(child)
    end = reached.ended(child)
    assert end.cum == sum(one.quantity for one in reached.of(child, "filled")) == 20_000
    assert len(server.exchange.orders) == 1


def test_an_order_that_did_not_arrive_is_unknown_until_the_horizon(server: Any, reached: Reached) -> None:
    child = order(server)
    began = time.monotonic()
    reached.gateway.query(child)
    end = reached.ended(child)
    assert end.kind == "not_known"
    assert time.monotonic() - began > 0.5  # the second look-up waits for half a second
    assert not server.exchange.orders


def test_a_refusal_by_the_rate_limit_is_final(server: Any, reached: Reached) -> None:
    server.faults = ExchangeFaults(limited=1.0)
    child = order(server)
    reached.gateway.send(child)
    assert reached.ended(child).kind == "not_known"
    server.faults = ExchangeFaults()
    time.sleep(0.2)
    assert not server.exchange.orders
    assert sum(count for path, count in server.counts.items() if path.startswith("POST") and "rder" in path) == 1


def test_a_refused_order_is_rejected_with_the_reason(server: Any, reached: Reached) -> None:
    server.exchange.markets["BTC/USDT"] = Market("BTC", tick="0.1", mid="60000", least="10")
    child = order(server)
    reached.gateway.send(child)
    end = reached.ended(child)
    assert end.kind == "rejected"
    assert "is less than 10" in end.text


def test_what_cannot_be_sent_raises(server: Any, reached: Reached) -> None:
    with pytest.raises(StateError, match="X does not trade OTHER"):
        reached.gateway.send(order(server, symbol="OTHER"))
    with pytest.raises(InputError, match="limit orders only"):
        reached.gateway.send(order(server, kind="dark"))
    with pytest.raises(InputError, match=r"expected multiples of 0\.00001 at multiples of 0\.1"):
        reached.gateway.send(order(server, limit=60_000 * NANO + 1))
    assert not server.exchange.orders


def test_a_restart_books_no_fill_twice_and_finds_what_happened_meanwhile(server: Any, reached: Reached) -> None:
    price = server.call(lambda: server.exchange.best("BTC/USDT", "bid")) + Decimal("0.1")
    child = order(server, kind="limit", until=START * 2, limit=int(price * NANO), quantity=10_000_000)
    reached.gateway.send(child)
    reached.wait(lambda: reached.of(child, "acknowledged"))
    server.call(lambda: server.exchange._trade_with_others(BTC, "bid"))
    reached.wait(lambda: reached.of(child, "filled"))
    reached.gateway.close()
    server.call(lambda: server.exchange._trade_with_others(BTC, "bid"))
    gateway = CcxtGateway(session("X", server, server.dialect))
    try:
        again = Reached(gateway)
        gateway.query(child)
        again.wait(lambda: again.of(child, "acknowledged"))
        before, after = reached.of(child, "filled"), again.of(child, "filled")
        assert {one.key for one in before} < {one.key for one in after}
        total = server.call(lambda: server.exchange.position("BTC/USDT"))
        assert sum(one.quantity for one in after) * Decimal("0.00001") == total
        gateway.request_account()
        account = again.wait(lambda: again.listener.accounts)[0]
        assert [(one.wire_id, one.symbol, one.side) for one in account.open_orders] == [
            (wire_id(child.id), "BTCUSDT", "buy")
        ]
        assert account.open_orders[0].leaves == 10_000_000 - sum(one.quantity for one in after)
        assert account.balances["BTC"] == server.exchange.balances["BTC"]
    finally:
        gateway.close()


def test_an_account_comes_after_the_fills_that_it_includes(server: Any, reached: Reached) -> None:
    """Also those of an order whose answer is not there yet; not those of other people's orders."""
    exchange, child = server.exchange, order(server)
    server.faults = ExchangeFaults(unanswered=1.0)
    reached.gateway.send(child)
    reached.wait(lambda: exchange.orders)
    assert not reached.heard
    server.call(
        lambda: exchange.place(
            "BTC/USDT", "buy", Decimal("0.2"), Decimal(61_000), immediate=True, client_id="somebody-else"
        )
    )
    reached.gateway.request_account()
    account = reached.wait(lambda: reached.listener.accounts)[0]
    assert account.balances["BTC"] == exchange.balances["BTC"]
    assert {one.child for one in reached.heard} == {child.id}
    if server.dialect == "binance":  # at Kraken, requests wait for the answer
        assert {one.kind for one in reached.heard} == {"filled"}
    assert sum(one.quantity for one in reached.of(child, "filled")) == 20_000
    assert reached.ended(child).cum == 20_000


def test_a_place_goes_down_with_its_exchange_and_comes_up_again(server: Any, reached: Reached) -> None:
    child, port = order(server), server.port
    server.stop()
    reached.gateway.send(child)
    reached.wait(lambda: reached.listener.states[-1] != "up")
    assert "ExchangeNotAvailable" in reached.listener.states[-1]
    with type(server)(server.exchange, port=port) as again:
        assert again.port == port
        reached.wait(lambda: reached.listener.states[-1] == "up")
        assert reached.ended(child).kind == "not_known"
        second = order(again, 1)
        reached.gateway.send(second)
        assert reached.ended(second).cum == 20_000
        server._thread.join = lambda seconds: None  # stopped already
        server.stop = lambda: None


def test_nothing_that_a_gateway_says_has_the_keys(
    server: Any, reached: Reached, caplog: pytest.LogCaptureFixture
) -> None:
    session = reached.gateway._ccxt
    for text in (
        f"wrong key {KEY}",
        f"GET http://127.0.0.1/x?apiKey={KEY}&signature=ab",
        SECRET,
        SECRET.replace("=", "%3D"),
    ):
        told = session.told(RuntimeError(text))
        assert KEY not in told
        assert SECRET.rstrip("=") not in told
        assert "signature" not in told
    server.faults = ExchangeFaults(unanswered=0.5, limited=0.5)
    for number in range(3):
        reached.gateway.send(order(server, number))
    for number in range(3):
        reached.ended(order(server, number))
    said = caplog.text + repr(reached.heard) + repr(session.secrets) + repr(vars(session.secrets).keys())
    assert KEY not in said
    assert SECRET not in said


# keys, terms and addresses


def test_keys_come_from_the_environment_or_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="one of keys_env and keys_file"):
        read_secrets("X", None, None)
    with pytest.raises(InputError, match="NOBODY_APIKEY and NOBODY_SECRET: unset"):
        read_secrets("X", "NOBODY", None)
    monkeypatch.setenv("DESK_APIKEY", KEY)
    assert repr(read_secrets("X", "DESK", None)) == "Secrets(apiKey)"
    path = tmp_path / "keys.toml"
    path.write_text(f'apiKey = "{KEY}"\nsecret = "{SECRET}"\n')
    path.chmod(0o644)
    with pytest.raises(InputError, match="of mode 644"):
        read_secrets("X", None, path)
    path.chmod(0o600)
    assert repr(read_secrets("X", None, path)) == "Secrets(apiKey, secret)"
    for wrong, reason in (
        (f'apiKey = "{KEY}', "not valid TOML"),
        (f"apiKey = [{KEY!r}]", "not strings"),
        (f"{KEY} = '1'", "names"),
    ):
        path.write_text(wrong)
        with pytest.raises(InputError) as raised:
            read_secrets("X", None, path)
        assert KEY not in str(raised.value).replace(f"got {KEY!r}", "")
        assert reason.split()[0] in str(raised.value) or "expected keys named" in str(raised.value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"market": None}, "state its name in symbols"),
        ({"active": False}, "active spot market"),
        ({"quote": "EUR"}, "currency must be EUR"),
        ({"unit": "0.001"}, "unit must divide 0.00001"),
        ({"tick": "0.03"}, "tick must divide 0.1"),
        ({"mode": 3}, "found none"),
    ],
)
def test_an_instrument_that_does_not_fit_the_market_is_refused(change: dict[str, Any], reason: str) -> None:
    steps = {"price": 0.1, "amount": 1e-05}
    market = {"spot": True, "active": True, "precision": steps, "base": "BTC", "quote": change.get("quote", "USDT")}
    market |= {"limits": {"amount": {"min": 0.0001}, "cost": {"min": None}}, "active": change.get("active", True)}
    coin = Instrument(unit=change.get("unit", "0.00001"), tick=change.get("tick", "0.1"), currency="USDT")
    with pytest.raises(InputError, match=reason):
        market_terms(change.get("market", market), change.get("mode", 4), coin, DIALECTS["binance"])


def test_nothing_but_loopback_can_be_reached() -> None:
    with pytest.raises(OutsideError, match=r"192\.0\.2\.1"), socket.socket() as line:
        line.connect(("192.0.2.1", 80))
    with pytest.raises(OutsideError, match=r"example\.org"):
        socket.getaddrinfo("example.org", 80)


@pytest.mark.parametrize("exchange", DIALECTS)
def test_every_address_of_an_exchange_is_replaced(exchange: str) -> None:
    import ccxt.pro

    from riskroute.live.venues.ccxt_session import _redirected

    def texts(nested: Any) -> list[str]:
        if isinstance(nested, dict | list):
            return [text for one in (nested.values() if isinstance(nested, dict) else nested) for text in texts(one)]
        return [nested]

    urls = texts(_redirected(getattr(ccxt.pro, exchange)().urls["api"], "http://127.0.0.1:9"))
    assert len(urls) > 1
    assert all(url.startswith(("http://127.0.0.1:9/", "ws://127.0.0.1:9/")) for url in urls)


def test_secrets_of_several_lines_are_removed_line_by_line() -> None:
    secrets = Secrets({"secret": "-----BEGIN KEY-----\\nline-one-of-it\\n-----END KEY-----"})
    assert secrets.redact("found line-one-of-it here") == "found *** here"
