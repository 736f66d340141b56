"""The service at exchanges of ccxt: on paper, and with orders that trade; keys are left nowhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ccxt", reason="needs ccxt: pip install 'riskroute[ccxt]'")

from ccxt_sessions import KEY, SECRET
from live_services import LONGEST, PATIENT, Running, running, service_config
from loopback_exchanges import BinanceLayout, ExchangeServer, KrakenLayout, LoopbackExchange, Market
from loopback_only import loopback_only
from riskroute.core.errors import InputError
from riskroute.live.config import LiveConfig
from riskroute.live.state.amounts import NANO

COIN = {"unit": "0.00001", "tick": "0.1", "quantity": "BTC", "currency": "USDT", "zone": "UTC"}
LIMITS = {"order_notional": 1e9, "symbol_notional": 1e9, "day_notional": 1e12, "day_loss": 1e9}


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with loopback_only():
        yield


@contextmanager
def exchanges(**more: Any) -> Iterator[dict[str, ExchangeServer]]:
    """Two exchanges that move."""
    market = Market("BTC", tick="0.1", mid="60000")
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(layout(LoopbackExchange([market], seed), step_seconds=0.02, **more))
            for seed, (name, layout) in enumerate({"binance": BinanceLayout, "kraken": KrakenLayout}.items())
        }


def config(folder: Path, servers: dict[str, ExchangeServer], **options: Any) -> LiveConfig:
    quick = {"timeout_seconds": 30.0, "request_seconds": 0.0, "poll_seconds": 0.1, "paper_ms": 1.0} | options
    venues = {
        name.upper(): {"kind": "ccxt", "taker": "10 bps", "options": {"exchange": name, "url": server.url} | quick}
        for name, server in servers.items()
    }
    limits = PATIENT | LIMITS
    return service_config(folder, venues=venues, pools={}, instruments={"BTCUSDT": COIN}, limits=limits)


def traded(one: Running, count: int) -> list[dict[str, Any]]:
    """Wait for books, send orders without quotes, and return them once they are settled."""
    service, until = one.service, time.monotonic() + LONGEST
    while len([quote for quote in service.history("BTCUSDT") or () if quote.asks]) < 2 or not service.engine.ready:
        assert time.monotonic() < until, (service.engine.not_ready, service.gaps)
        time.sleep(0.02)
    made = []
    for number in range(count):
        order = {"key": f"order-{number}", "symbol": "BTCUSDT", "side": ("buy", "sell")[number % 2]}
        answer = one.client.post("/orders", json=order | {"quantity": "0.6", "deadline": time.time_ns() + 60 * NANO})
        assert answer.status_code == 200, answer.text
        made.append(one.client.settled(order["key"]))
    return made


def test_on_paper_orders_trade_on_real_books_and_reach_no_exchange(tmp_path: Path) -> None:
    with exchanges(keep=True) as servers, running(config(tmp_path, servers)) as one:
        orders = traded(one, 4)
        assert [Decimal(str(order["filled"])) for order in orders] == [Decimal("0.6")] * 4
        for server in servers.values():
            assert not server.exchange.orders
            assert all("private" not in path and "account" not in path for _, path, _, _ in server.seen)


def test_orders_trade_and_the_keys_are_left_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path.parent / f"{tmp_path.name}-keys.toml"
    keys.write_text(f'apiKey = "{KEY}"\nsecret = "{SECRET}"\n')
    keys.chmod(0o600)
    caplog.set_level(0)
    with exchanges(keep=True) as servers:
        with running(config(tmp_path, servers, trade=True, keys_file=str(keys))) as one:
            orders = traded(one, 6)
            pages = [one.client.get(path).text for path in ("/", "/state", "/metrics", "/positions", "/health")]
            pages += [str(order) for order in orders]
            refused = one.client.post("/orders", json={"key": "x", "symbol": "BTCUSDT", "side": "buy", "quantity": "1"})
            servers["binance"].faults = type(servers["binance"].faults)(limited=1.0)
            one.client.post(
                "/orders",
                json={"key": "last", "symbol": "BTCUSDT", "side": "buy", "quantity": "0.6"}
                | {"deadline": time.time_ns() + NANO},
            )
            pages += [refused.text, str(one.client.settled("last")), repr(one.service.config)]
            (position,) = one.client.get("/positions").json().values()
        total = sum(server.exchange.position("BTC/USDT") for server in servers.values())
        assert Decimal(str(position["quantity"])) == total
        assert sum(len(server.exchange.orders) for server in servers.values()) >= 6
        used = [server.seen for server in servers.values()]
    assert all(any(KEY in str(headers) for _, _, headers, _ in seen) for seen in used)  # they were used
    out = capfd.readouterr()
    said = [caplog.text, out.out, out.err, *pages]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 2
    for text in (KEY, SECRET):
        assert not [part for part in said if text in part]
        assert not [path for path in files if text.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"exchange": "nowhere"}, "exchange must be one whose books ccxt streams"),
        ({"exchang": "kraken"}, "unknown option 'exchang' of A; options are exchange, symbols"),
        ({"symbols": {"OTHER": "X/Y"}}, "symbols of A must be instruments"),
        ({"timeout_seconds": "soon"}, "options of A: Expected `float`"),
        ({"trade": True}, "keys of A must come from one of keys_env and keys_file"),
        ({"trade": True, "exchange": "bitmart"}, "exchange of A must be one of binance, bitget"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    venue = {"kind": "ccxt", "options": {"exchange": "kraken"} | options}
    made = service_config(tmp_path, venues={"A": venue}, pools={}, instruments={"BTCUSDT": COIN}, limits=LIMITS)
    with pytest.raises(InputError, match=reason):
        made.build_venues(None, time.time_ns)  # type: ignore[arg-type]  # no books are needed


def test_trading_needs_limits_and_keys_stay_out_of_the_configuration(tmp_path: Path) -> None:
    trades = {"A": {"kind": "ccxt", "options": {"exchange": "kraken", "trade": True, "keys_env": "KRAKEN"}}}
    limits = {name: 1e6 for name in LIMITS if name != "day_loss"}
    with pytest.raises(InputError, match=r"limits\.day_loss must be set, was missing: A has trade = true"):
        service_config(tmp_path, venues=trades, pools={}, instruments={"BTCUSDT": COIN}, limits=limits)
    for key in ("apiKey", "secret", "API_KEY", "privateKey"):
        wrong = {"A": {"kind": "ccxt", "options": {"exchange": "kraken", key: SECRET}}}
        with pytest.raises(InputError, match=f"{key} of venue A must not be in the configuration") as raised:
            service_config(tmp_path, venues=wrong, pools={}, instruments={"BTCUSDT": COIN})
        assert SECRET not in str(raised.value)
