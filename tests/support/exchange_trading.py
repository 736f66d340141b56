"""Trading at loopback exchanges with faults, cuts and restarts, compared with the exchanges' own books at the end."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from ccxt_sessions import KEY, SECRET
from live_services import service_config
from loopback_exchanges import (
    BinanceLayout,
    ExchangeFaults,
    ExchangeServer,
    KrakenLayout,
    LoopbackExchange,
    Market,
)
from riskroute.core.errors import HaltedError, InputError, OverloadedError, RefusedError
from riskroute.live.http.requests import OrderRequest
from riskroute.live.service import Service
from riskroute.live.state.amounts import NANO
from riskroute.live.venues import ccxt_session

MARKETS = (Market("BTC", tick="0.1", mid="60000"), Market("ETH", mid="2500"), Market("SOL", mid="150"))
PLACES: dict[str, tuple[str, type[ExchangeServer]]] = {
    "BINANCE": ("binance", BinanceLayout),
    "KRAKEN": ("kraken", KrakenLayout),
    "BINANCE2": ("binance", BinanceLayout),
}
LIMITS = (
    dict.fromkeys(("order_notional", "symbol_notional", "day_notional", "day_loss"), 1e12)
    | dict.fromkeys(("day_orders", "day_rejects", "rejects_in_a_row", "unknown", "venue_open", "stale_quotes"), 10**9)
    | {"unsettled": 100_000, "symbol_quantity": 1e9, "quote_seconds": 30.0}
    | {"clock_jump_seconds": 600.0, "slow_write_seconds": 600.0}
)


@dataclass
class TradingResult:
    """What happened, by the router and by the exchanges."""

    parents: int = 0
    refused: int = 0
    restarts: int = 0
    cuts: int = 0
    orders: int = 0
    twice: int = 0
    trades: int = 0
    open_orders: int = 0
    overfilled: int = 0
    unsettled: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    wrong_positions: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    halted: str = ""

    @property
    def clean(self) -> bool:
        wrong = self.twice or self.open_orders or self.overfilled or self.unsettled or self.halted
        return not (wrong or self.wrong_positions or self.differences)


class ExchangeTrading:
    """A service that trades at loopback exchanges and may be killed; its log is a file in ``folder``."""

    def __init__(self, folder: Path, servers: dict[str, ExchangeServer], seed: int = 0) -> None:
        self.folder, self.servers, self.random = folder, servers, random.Random(seed)
        self.result, self.keys = TradingResult(), list[str]()
        self.service: Service

    def start(self) -> None:
        venues = {
            place: {
                "kind": "ccxt",
                "taker": "10 bps",
                "options": {"exchange": PLACES[place][0], "url": server.url, "trade": True, "keys_env": "LOOPBACK"}
                | {"timeout_seconds": 1.0, "request_seconds": 0.0, "poll_seconds": 0.25},
            }
            for place, server in self.servers.items()
        }
        instruments = {
            one.name.replace("/", ""): {"unit": one.lot, "tick": one.tick, "quantity": one.base}
            | {"currency": one.quote, "zone": "UTC"}
            for one in MARKETS
        }
        more: dict[str, Any] = {"venues": venues, "pools": {}, "instruments": instruments, "limits": LIMITS}
        config = service_config(self.folder, patience_seconds=3.0, **more)
        with mock.patch.dict(os.environ, {"LOOPBACK_APIKEY": KEY, "LOOPBACK_SECRET": SECRET}):
            self.service = Service(config)
        self.service.start()

    def wait(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        until = time.monotonic() + seconds
        while not done():
            if time.monotonic() > until:
                raise AssertionError(f"{what} took longer than {seconds:g} s: {self.service.engine.state.down}")
            time.sleep(0.01)

    def ready(self) -> bool:
        """Whether every place is up and has books of every symbol."""
        service = self.service
        books = [service.history(symbol) or () for symbol in service.config.instruments]
        shown = all(sum(bool(one.asks and one.bids) for one in found) == len(self.servers) for found in books)
        return shown and service.engine.ready and not service.engine.state.down

    def kill(self) -> None:
        """End it as abruptly as one can in the same process: requests under way are cut, nothing is closed in turn."""
        service, self.result.restarts = self.service, self.result.restarts + 1
        engine = service.engine
        engine._closed = True
        for source in service.sources:
            source.close()
        for gateway in engine.places.gateways.values():
            gateway.close()
        service._closing.set()
        thread = engine.ledger.thread
        assert thread is not None
        thread.join(10)
        if engine.snapshots is not None:
            engine.snapshots.close()
        engine.decider.close()
        engine.log.close()
        service._saver.shutdown(wait=False)

    def send(self, most_unsettled: int = 60) -> None:
        """Send one random order, as soon as fewer than ``most_unsettled`` are under way."""
        rng, engine = self.random, self.service.engine
        self.wait(lambda: len(engine.state.unsettled) < most_unsettled, 120, "settling")
        market = rng.choice(MARKETS)
        key = f"order-{len(self.keys)}"
        quantity = Decimal(market.lot) * rng.randint(100, 60_000)
        until = time.monotonic() + 60
        while True:
            order = OrderRequest(
                key=key,
                symbol=market.name.replace("/", ""),
                side=rng.choice(("buy", "sell")),
                quantity=quantity,
                deadline=time.time_ns() + int(rng.choice((0.5, 2.0)) * NANO),
            )
            try:
                self.service.submit(order).result(60)
            except (RefusedError, InputError, HaltedError, OverloadedError) as error:
                self.result.refused += 1
                if time.monotonic() > until or self.service.engine.state.halted:
                    raise AssertionError(f"{key} was refused: {error}") from error
                time.sleep(0.05)
                continue
            self.keys.append(key)
            self.result.parents += 1
            return

    def finish(self) -> TradingResult:
        """Wait until everything is settled, reconcile twice, stop, and compare with the exchanges."""
        engine, result = self.service.engine, self.result
        for server in self.servers.values():
            server.faults, server.step_seconds = ExchangeFaults(), 0.0
        self.wait(lambda: not engine.state.unsettled and not engine.state.down, 180, "the end")
        for _ in range(2):
            time.sleep(0.3)
            before = time.time_ns()
            for gateway in engine.places.gateways.values():
                gateway.request_account()
            self.wait(partial(self._reconciled, before), 60, "reconciling")
        with engine.lock:
            state = engine.state
            result.unsettled, result.halted, result.overfilled = len(state.unsettled), state.halted, state.overfilled
            for place in self.servers:
                result.differences += engine.reconciliation.differences.get(place, [])
                if state.venues[place].difference:
                    result.differences.append(f"{place}: {state.venues[place].difference}")
                self._compare(place, state.venues[place].positions)
        self.service.close()
        for place, server in self.servers.items():
            exchange = server.exchange
            result.orders += len(exchange.orders)
            result.trades += len(exchange.trades)
            result.twice += sum(len(found) - 1 for found in exchange.by_client_id.values())
            result.open_orders += len(exchange.open_orders())
            for kind in ("unanswered", "limited", "lost", "cut"):
                result.faults[f"{place} {kind}"] = server.counts[kind]
        return result

    def _reconciled(self, since: int) -> bool:
        checked = self.service.engine.reconciliation.checked
        return all(checked.get(place, 0) > since for place in self.servers)

    def _compare(self, place: str, positions: Any) -> None:
        """Compare positions, cash and fees with the trades of the exchange."""
        server = self.servers[place]
        for market in MARKETS:
            trades = [one for one in server.exchange.trades if one.order.market == market]
            sides = [1 if one.order.side == "buy" else -1 for one in trades]
            units = sum(int(sign * one.quantity / Decimal(market.lot)) for sign, one in zip(sides, trades, strict=True))
            cash = sum(-sign * one.quantity * one.price for sign, one in zip(sides, trades, strict=True))
            fees = sum(one.fee for one in trades if one.currency == market.quote)
            coins = sum(one.fee for one in trades if one.currency == market.base)
            position = positions.get(market.name.replace("/", ""))
            if position is None:
                if trades:
                    self.result.wrong_positions.append(f"{place} {market.name}: no position of {len(trades)} trades")
                continue
            natural = self.service.config.instruments[market.name.replace("/", "")]
            one = Decimal(10) ** 14 if natural.unit == Decimal("0.00001") else Decimal(0)
            booked = (
                position.shares,
                Decimal(position.cash) / one,
                Decimal(position.fees - position.converted) / one,
                position.charged.get(market.base, Decimal(0)),
            )
            if booked != (units, cash, fees, coins):
                self.result.wrong_positions.append(f"{place} {market.name}: {booked}, not {(units, cash, fees, coins)}")


@contextmanager
def trading(
    folder: Path, *places: str, faults: ExchangeFaults, seed: int = 0, horizon: float = 2.0, step_seconds: float = 0.15
) -> Iterator[ExchangeTrading]:
    """Run exchanges, and a service that is not started yet; requests arrive within ``horizon`` seconds on loopback."""
    shorter = {name: one._replace(horizon=horizon) for name, one in ccxt_session.DIALECTS.items()}
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(ccxt_session.DIALECTS, shorter))
        servers: dict[str, ExchangeServer] = {}
        for number, place in enumerate(places):
            exchange, layout = PLACES[place]
            market = LoopbackExchange(list(MARKETS), seed + number, fee_in_base=exchange == "binance")
            servers[place] = layout(market, faults=faults, step_seconds=step_seconds).start()
            stack.callback(servers[place].stop)
        yield ExchangeTrading(folder, servers, seed)


def trade(one: ExchangeTrading, parents: int, kills: int) -> TradingResult:
    """Send orders, with kills evenly between them, and a cut of all websockets between two kills."""
    one.start()
    one.wait(one.ready, 60, "the start")
    every = parents // (kills + 1)
    for number in range(parents):
        one.send()
        if number % every == every - 1 and one.result.restarts < kills:
            one.kill()
            one.start()
            one.wait(one.ready, 120, "the restart")
        elif number % every == every // 2:
            one.result.cuts += 1
            for server in one.servers.values():
                server.cut()
    return one.finish()
