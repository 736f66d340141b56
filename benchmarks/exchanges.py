"""Time that the gateway adds to ccxt: an immediate order from its sending to its last report, on loopback exchanges.

By hand, the same calls of ccxt are awaited one after the other: the new order and, at an exchange whose answer to it
has no fills, its look-up and its trades. Both take turns, order by order, in connections of their own. The exchanges
run in another thread of the process, so their time is part of both.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from riskroute.core.runtime import extra_is_installed
from riskroute.live.state.amounts import NANO
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import ChildOrder
from riskroute.live.venues.gateway import VenueAccount
from timing import duration, leave, print_heading, print_table, progress, say, sized, verdict

ORDERS = sized(1_000, 10)
MOST_RATIO = 1.2
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


def main() -> None:
    print_heading("Orders at exchanges, by ccxt alone and by the gateway", ["riskroute", "ccxt", "aiohttp"])
    if not extra_is_installed("ccxt"):
        say("nothing was measured: pip install 'riskroute[ccxt]'")
        leave([True])
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
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
    leave([], held)


if __name__ == "__main__":
    main()
