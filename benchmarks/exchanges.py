"""Time that exchanges of ccxt add: an order at a loopback exchange by ccxt alone, and a decision over three of them.

An order is timed from its sending to its last report. By hand, the same calls of ccxt are awaited one after the other:
the new order and, at an exchange whose answer to it has no fills, its look-up and its trades. Both take turns, order by
order, in connections of their own. The exchanges run in another thread of the process, so their time is part of both.

A decision is timed from the order to its durable answer, in turn with a service that has the same books and three
simulated venues. Here the exchanges run in a process of their own.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import tempfile
import threading
import time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from riskroute.core.runtime import extra_is_installed
from riskroute.live.http.requests import OrderRequest
from riskroute.live.service import Service
from riskroute.live.state.amounts import NANO
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import ChildOrder
from riskroute.live.venues.gateway import VenueAccount
from timing import duration, leave, print_heading, print_table, progress, say, sized, verdict

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))  # also in the process of the exchanges

ORDERS = sized(1_000, 10)
DECISIONS = sized(500, 4)
MOST_RATIO, MOST_DECISION = 1.2, 1.25
QUANTITY = Decimal("0.001")


class Answers:
    """A sink that wakes the sender with the last report of each child."""

    def __init__(self) -> None:
        self.is_up, self.ended = threading.Event(), threading.Event()

    def __call__(self, *reports: ExecutionReport) -> None:
        if any(one.kind in ("cancelled", "expired", "rejected", "not_known") for one in reports):
            self.ended.set()

    def up(self) -> None:
        self.is_up.set()

    def down(self, reason: str) -> None:
        self.is_up.clear()

    def account(self, account: VenueAccount) -> None:
        return


async def by_hand(client: Any, side: str, price: str, number: int) -> None:
    """Send an order and learn its fills, with the calls of ccxt alone."""
    parameters = {"clientOrderId": f"HAND{number}", "timeInForce": "IOC"}
    order = await client.create_order("BTC/USDT", "limit", side, f"{QUANTITY}", price, parameters)
    if order["status"] is None:
        order = await client.fetch_order(order["id"], "BTC/USDT")
        await client.fetch_order_trades(order["id"], "BTC/USDT", None, None, {"trades": order["trades"]})


def measured(exchange: str, layout: Any) -> dict[str, list[float]]:
    """Return the seconds of each order by hand and by the gateway."""
    from ccxt_sessions import session
    from loopback_exchanges import LoopbackExchange, Market
    from riskroute.live.venues.ccxt_gateway import CcxtGateway

    took: dict[str, list[float]] = {"by hand": [], "gateway": []}
    with layout(LoopbackExchange([Market("BTC", tick="0.1", mid="60000")])) as server:
        answers, gateway, bare = Answers(), CcxtGateway(session("X", server, exchange)), session("Y", server, exchange)
        gateway.connect(answers)
        bare.start()
        assert bare._loop is not None
        asyncio.run_coroutine_threadsafe(bare.load_markets(), bare._loop).result(60)
        assert answers.is_up.wait(60)
        for number in range(2 * ORDERS):
            side = ("buy", "sell")[number // 2 % 2]
            price = Decimal(60_100 if side == "buy" else 59_900)
            answers.ended.clear()
            began = time.perf_counter()
            if number % 2:
                work = by_hand(bare.client, side, f"{price}", number)
                asyncio.run_coroutine_threadsafe(work, bare._loop).result(60)
            else:
                gateway.send(_child(number, side, price))
                assert answers.ended.wait(60)
            took["by hand" if number % 2 else "gateway"].append(time.perf_counter() - began)
        trades = len(server.exchange.trades)
        assert trades >= 2 * ORDERS, trades
        gateway.close()
        bare.close()
    return took


def _child(number: int, side: Any, price: Decimal) -> ChildOrder:
    about: dict[str, Any] = {"id": f"CHILD-{number}-0", "parent": "P", "slot": 0, "attempt": 0, "place": "X"}
    units, limit = int(QUANTITY / Decimal("0.00001")), int(price * NANO)
    return ChildOrder(**about, kind="take", symbol="BTCUSDT", side=side, quantity=units, limit=limit, idempotent=False)


def serve_exchanges(pipe: Any) -> None:
    """Run the three exchanges of the trading tests until the other end of the pipe says so."""
    from exchange_trading import MARKETS, PLACES
    from loopback_exchanges import LoopbackExchange

    servers = [
        layout(LoopbackExchange(list(MARKETS), seed, fee_in_base=name == "binance")).start()
        for seed, (name, layout) in enumerate(PLACES.values())
    ]
    pipe.send([server.url for server in servers])
    pipe.recv()
    for server in servers:
        server.stop()


def decisions(urls: list[str], folder: Path) -> dict[str, list[float]]:
    """Return the seconds of each decision with three exchanges, and with three simulated venues."""
    from exchange_trading import LIMITS, PLACES, ExchangeTrading
    from live_services import service_config

    servers: Any = {name: SimpleNamespace(url=url) for name, url in zip(PLACES, urls, strict=True)}
    trading = ExchangeTrading(folder / "exchanges", servers)
    trading.start()
    trading.wait(trading.ready, 60, "the exchanges did not come up")
    traded = trading.service.config.instruments
    instruments = {
        name: {"unit": str(one.unit), "tick": str(one.tick), "quantity": one.quantity, "currency": one.currency}
        for name, one in traded.items()
    }
    venues = {name: {"taker": "10 bps", "latency_ms": 1.0} for name in PLACES}
    given = {"venues": venues, "pools": {}, "instruments": instruments, "limits": LIMITS}
    simulated = Service(service_config(folder / "simulated", **given))
    simulated.start()
    took: dict[str, list[float]] = {"exchanges": [], "simulated": []}
    services = [("exchanges", trading.service), ("simulated", simulated)]
    while not simulated.engine.ready:
        time.sleep(0.01)
    for number in range(DECISIONS):
        simulated.history.put("BTCUSDT", trading.service.history("BTCUSDT") or ())
        for name, service in services[:: 1 if number % 2 else -1]:
            side: Any = ("buy", "sell")[number // 2 % 2]
            until = time.time_ns() + 2 * NANO
            quantity = Decimal("0.05")
            order = OrderRequest(key=f"a-{number}", symbol="BTCUSDT", side=side, quantity=quantity, deadline=until)
            began = time.perf_counter()
            service.submit(order).result(60)
            took[name].append(time.perf_counter() - began)
            while service.engine.state.unsettled:
                time.sleep(0.001)
    for _, service in services:
        service.close()
    return took


def main() -> None:
    print_heading("Orders at exchanges, by ccxt alone and by the gateway", ["riskroute", "ccxt", "aiohttp"])
    if not extra_is_installed("ccxt"):
        say("nothing was measured: pip install 'riskroute[ccxt]'")
        leave([True])
    from loopback_exchanges import BinanceLayout, KrakenLayout
    from loopback_only import loopback_only

    rows, ratios = [], []
    for exchange, layout in (("binance", BinanceLayout), ("kraken", KrakenLayout)):
        progress(exchange)
        with loopback_only():
            took = measured(exchange, layout)
        hand, ours = np.median(took["by hand"]), np.median(took["gateway"])
        ratios.append(float(ours / hand))
        rows.append((exchange, str(ORDERS), duration(float(hand)), duration(float(ours)), f"{ratios[-1]:.2f}"))
    print_table(("layout", "orders each", "by hand, median", "gateway, median", "ratio"), rows)
    held = [ratio <= MOST_RATIO for ratio in ratios]
    say(f"the gateway takes at most {MOST_RATIO} times as long: {verdict(all(held))}")
    say("")
    progress("decisions")
    near, far = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve_exchanges, args=(far,), daemon=True)
    process.start()
    with loopback_only(), tempfile.TemporaryDirectory() as folder:
        for name in ("exchanges", "simulated"):
            (Path(folder) / name).mkdir()
        taken = decisions(near.recv(), Path(folder))
    near.send(None)
    process.join()
    quantiles = {name: np.quantile(seconds, (0.5, 0.99)) for name, seconds in taken.items()}
    print_table(
        ("three places", "decisions", "median", "99 %"),
        [(name, str(DECISIONS), *(duration(float(one)) for one in both)) for name, both in quantiles.items()],
    )
    slower = float(quantiles["exchanges"][0] / quantiles["simulated"][0])
    held.append(slower <= MOST_DECISION)
    say(f"exchanges {slower:.2f} times the simulated venues, target at most {MOST_DECISION}: {verdict(held[-1])}")
    leave([], held)


if __name__ == "__main__":
    main()
