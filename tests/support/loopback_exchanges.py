"""Exchanges on loopback with the public layouts of Binance and Kraken, whose own books tell what really happened.

`LoopbackExchange` is the market: seeded books, orders, trades and balances in decimals. `BinanceLayout` and
`KrakenLayout` put it on a web server, requests and websockets, with the faults of `ExchangeFaults`. The server strips
the first part of a path, which is the host that the client believes in.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, ClassVar
from urllib.parse import parse_qsl

from aiohttp import WSMsgType, web

_ZERO = Decimal(0)


@dataclass(frozen=True)
class Market:
    """What is traded: base and quote currency, steps of price and quantity, and the first mid."""

    base: str
    quote: str = "USDT"
    tick: str = "0.01"
    lot: str = "0.00001"
    mid: str = "100"
    least: str = "0.0001"

    @property
    def name(self) -> str:
        return f"{self.base}/{self.quote}"


@dataclass
class Order:
    number: int
    market: Market
    side: str
    quantity: Decimal
    price: Decimal
    immediate: bool
    client_id: str
    at: float
    filled: Decimal = _ZERO
    value: Decimal = _ZERO
    fee: Decimal = _ZERO
    status: str = "open"  # open, filled, cancelled

    @property
    def left(self) -> Decimal:
        return self.quantity - self.filled


@dataclass(frozen=True)
class Trade:
    number: int
    order: Order
    price: Decimal
    quantity: Decimal
    fee: Decimal
    currency: str
    at: float
    maker: bool


@dataclass(frozen=True)
class ExchangeFaults:
    """Probabilities: an order is accepted and not answered; a request is refused by the rate limit; a book message is
    lost; and, for each book message, the connection is cut."""

    unanswered: float = 0.0
    limited: float = 0.0
    lost: float = 0.0
    cut: float = 0.0


class RefusalError(Exception):
    """The exchange refuses a request."""


class LoopbackExchange:
    """A market with one account, changed by `step` and by orders; only one thread may use it."""

    fee_rate = Decimal("0.001")

    def __init__(self, markets: list[Market], seed: int = 0, *, fee_in_base: bool = False, depth: int = 30) -> None:
        self.markets = {one.name: one for one in markets}
        self.random, self.fee_in_base, self.depth = random.Random(seed), fee_in_base, depth
        self.books: dict[str, dict[str, dict[Decimal, Decimal]]] = {}  # others' quantity by market, side and price
        self.orders: dict[int, Order] = {}
        self.by_client_id: dict[str, list[Order]] = {}
        self.trades: list[Trade] = []
        self.balances: defaultdict[str, Decimal] = defaultdict(Decimal)
        self.versions = dict.fromkeys(self.markets, 1)
        self.on_change: Callable[[str, str, list[tuple[str, Decimal, Decimal]], int], None] = lambda *given: None
        self.on_trade: Callable[[str, str, Decimal, Decimal], None] = lambda *given: None
        self._numbers = itertools.count(1)
        for one in markets:
            self.balances[one.base] += Decimal(1_000_000)
            self.balances[one.quote] += Decimal(10**8)
            self.books[one.name] = {"bid": {}, "ask": {}}
            mid = Decimal(one.mid)
            for level in range(1, depth + 1):
                for side, sign in (("bid", -1), ("ask", 1)):
                    self.books[one.name][side][mid + sign * level * Decimal(one.tick)] = self._size(one)

    def _size(self, market: Market) -> Decimal:
        return Decimal(market.lot) * self.random.randint(1, 50_000)

    # books

    def own(self, name: str, side: str, price: Decimal) -> Decimal:
        wanted = "buy" if side == "bid" else "sell"
        return sum(
            (
                one.left
                for one in self.orders.values()
                if one.status == "open" and one.market.name == name and one.side == wanted and one.price == price
            ),
            _ZERO,
        )

    def levels(self, name: str, side: str, most: int | None = None) -> list[tuple[Decimal, Decimal]]:
        """Prices and quantities, best first, our own orders included."""
        found = defaultdict(Decimal, self.books[name][side])
        for one in self.orders.values():
            if one.status == "open" and one.market.name == name and (one.side == "buy") == (side == "bid"):
                found[one.price] += one.left
        return sorted(found.items(), reverse=side == "bid")[:most]

    def best(self, name: str, side: str) -> Decimal:
        return self.levels(name, side, 1)[0][0]

    def _changed(self, name: str, *places: tuple[str, Decimal]) -> None:
        if places:
            self.versions[name] += 1
            sizes = [
                (side, price, self.books[name][side].get(price, _ZERO) + self.own(name, side, price))
                for side, price in dict.fromkeys(places)
            ]
            self.on_change(name, "update", sizes, self.versions[name])

    def step(self, name: str) -> None:
        """One random event of others: a level changes, or somebody trades at the best price."""
        market, book, rng = self.markets[name], self.books[name], self.random
        side = rng.choice(("bid", "ask"))
        sign = -1 if side == "bid" else 1
        tick = Decimal(market.tick)
        if rng.random() < 0.15 and len(book[side]) > 3:
            self._trade_with_others(market, side)
            return
        other = self.best(name, "ask" if side == "bid" else "bid")
        price = other + sign * tick * rng.randint(1, self.depth)
        if price <= 0:
            return
        if rng.random() < 0.35 and len(book[side]) > 5:
            price = rng.choice(list(book[side]))
            del book[side][price]
        else:
            book[side][price] = self._size(market)
        places = [(side, price)]
        if len(book[side]) > 2 * self.depth:
            worst = max(book[side], key=lambda one: sign * one)
            del book[side][worst]
            places.append((side, worst))
        self._changed(name, *places)

    def _trade_with_others(self, market: Market, side: str) -> None:
        """Somebody takes at the best price of a side: others' quantity first, then our orders."""
        name = market.name
        price = self.best(name, side)
        left = self._size(market)
        there = min(left, self.books[name][side].get(price, _ZERO))
        if there:
            self.on_trade(name, "sell" if side == "bid" else "buy", price, there)
            self._reduce(name, side, price, there)
            left -= there
        for order in list(self.orders.values()):
            if left <= 0:
                break
            mine = order.status == "open" and order.market == market and order.price == price
            if mine and (order.side == "buy") == (side == "bid"):
                some = min(left, order.left)
                self.on_trade(name, "sell" if side == "bid" else "buy", price, some)
                self._fill(order, price, some, maker=True)
                left -= some
        self._changed(name, (side, price))

    def _reduce(self, name: str, side: str, price: Decimal, quantity: Decimal) -> None:
        book = self.books[name][side]
        book[price] -= quantity
        if book[price] <= 0:
            del book[price]

    # orders

    def place(
        self, name: str, side: str, quantity: Decimal, price: Decimal, *, immediate: bool, client_id: str
    ) -> Order:
        market = self.markets[name]
        if quantity <= 0 or quantity % Decimal(market.lot) or price % Decimal(market.tick):
            raise RefusalError(f"{quantity} at {price} are no multiples of {market.lot} and {market.tick}")
        if quantity < Decimal(market.least):
            raise RefusalError(f"{quantity} is less than {market.least}")
        order = Order(next(self._numbers), market, side, quantity, price, immediate, client_id, time.time())
        self.orders[order.number] = order
        self.by_client_id.setdefault(client_id, []).append(order)
        order.status = "new"
        other, sign = ("ask", 1) if side == "buy" else ("bid", -1)
        changed = []
        for level, size in sorted(self.books[name][other].items(), key=lambda one: sign * one[0]):
            if order.left <= 0 or sign * level > sign * price or len(self.books[name][other]) < 3:
                break
            some = min(order.left, size)
            self.on_trade(name, side, level, some)
            self._reduce(name, other, level, some)
            self._fill(order, level, some, maker=False)
            changed.append((other, level))
        if order.left <= 0:
            order.status = "filled"
        elif immediate:
            order.status = "cancelled"
        else:
            order.status = "open"
            changed.append(("bid" if side == "buy" else "ask", price))
        self._changed(name, *changed)
        return order

    def _fill(self, order: Order, price: Decimal, quantity: Decimal, *, maker: bool) -> None:
        market, buys = order.market, order.side == "buy"
        sign = 1 if buys else -1
        value = quantity * price
        in_base = self.fee_in_base and buys
        fee = (quantity if in_base else value) * self.fee_rate
        currency = market.base if in_base else market.quote
        fee = fee.quantize(Decimal("1e-8"), ROUND_HALF_EVEN)
        order.filled += quantity
        order.value += value
        order.fee += fee
        if order.left <= 0:
            order.status = "filled"
        self.balances[market.base] += sign * quantity
        self.balances[market.quote] -= sign * value
        self.balances[currency] -= fee
        number = next(self._numbers)
        self.trades.append(Trade(number, order, price, quantity, fee, currency, time.time(), maker))

    def cancel(self, order: Order) -> None:
        if order.status == "open":
            order.status = "cancelled"
            self._changed(order.market.name, ("bid" if order.side == "buy" else "ask", order.price))

    def open_orders(self, name: str | None = None) -> list[Order]:
        return [o for o in self.orders.values() if o.status == "open" and name in (None, o.market.name)]

    def position(self, name: str) -> Decimal:
        """What our orders have traded."""
        return sum(
            (
                (1 if one.order.side == "buy" else -1) * one.quantity
                for one in self.trades
                if one.order.market.name == name
            ),
            _ZERO,
        )


@dataclass(eq=False)
class _Stream:
    """A websocket, and what it is subscribed to."""

    socket: web.WebSocketResponse
    books: set[str] = field(default_factory=set)
    trades: set[str] = field(default_factory=set)
    queue: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)


class ExchangeServer:
    """A loopback exchange on a web server in a thread of its own; subclasses know the layout.

    ``step_seconds``: mean time between the events of others in a market; 0: none. `requests` has the paths, headers
    and bodies of all requests, if ``keep`` is set.
    """

    def __init__(
        self,
        exchange: LoopbackExchange,
        *,
        faults: ExchangeFaults | None = None,
        step_seconds: float = 0.0,
        port: int = 0,
        keep: bool = False,
    ) -> None:
        self.exchange, self.faults, self.step_seconds = exchange, faults or ExchangeFaults(), step_seconds
        self.port, self.keep = port, keep
        self.seen: list[tuple[str, str, Mapping[str, str], str]] = []
        self.counts: Counter[str] = Counter()
        self.random = random.Random(exchange.random.random())
        self._streams: set[_Stream] = set()
        self._held: list[asyncio.Event] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loopback exchange", daemon=True)
        exchange.on_change = self._send_book
        exchange.on_trade = self._send_trade

    # the thread

    def start(self) -> ExchangeServer:
        self._thread.start()
        assert self._ready.wait(120)
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._begin())
        self._ready.set()
        self._loop.run_forever()

    async def _begin(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{host}/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._tasks = [asyncio.ensure_future(self._live(name)) for name in self.exchange.markets]

    async def _live(self, name: str) -> None:
        while self.step_seconds:
            await asyncio.sleep(self.step_seconds * self.random.random() * 2)
            self.exchange.step(name)

    def call(self, work: Callable[[], Any]) -> Any:
        """Do something with the exchange in its thread, and return the result."""

        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(60)

    def cut(self) -> None:
        """Cut all websockets."""

        def cut() -> None:
            for one in list(self._streams):
                self._drop(one)

        self.call(cut)

    def stop(self) -> None:
        async def end() -> None:
            for task in self._tasks:
                task.cancel()
            for event in self._held:
                event.set()
            for one in list(self._streams):
                self._drop(one)
            await self._runner.cleanup()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    def __enter__(self) -> ExchangeServer:
        return self.start()

    def __exit__(self, *given: object) -> None:
        self.stop()

    # requests

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._stream(request)
        body = await request.text()
        path = request.match_info["path"]
        if self.keep:
            self.seen.append((request.method, request.path_qs, dict(request.headers), body))
        self.counts[f"{request.method} {path}"] += 1
        if "public" not in path and self.random.random() < self.faults.limited:
            self.counts["limited"] += 1
            return self.limited()
        given = dict(parse_qsl(body)) | dict(request.query)
        if body.startswith(("{", "[")):
            given = {"body": json.loads(body)}
        try:
            answer = self.answer(request.method, path, given)
        except RefusalError as refusal:
            return self.refused(str(refusal))
        if answer is None:
            return web.json_response({"error": f"unknown path {path}"}, status=404)
        if self.is_order(request.method, path) and self.random.random() < self.faults.unanswered:
            self.counts["unanswered"] += 1
            event = asyncio.Event()
            self._held.append(event)
            await event.wait()
        return web.Response(text=json.dumps(answer, default=str), content_type="application/json")

    def answer(self, method: str, path: str, given: dict[str, Any]) -> Any:
        raise NotImplementedError

    def is_order(self, method: str, path: str) -> bool:
        raise NotImplementedError

    def limited(self) -> web.Response:
        raise NotImplementedError

    def refused(self, reason: str) -> web.Response:
        raise NotImplementedError

    # websockets

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(autoping=True)
        await socket.prepare(request)
        one = _Stream(socket)
        self._streams.add(one)
        writer = asyncio.ensure_future(self._write(one))
        try:
            async for message in socket:
                if message.type == WSMsgType.TEXT:
                    self.subscribe(one, json.loads(message.data))
        finally:
            self._streams.discard(one)
            writer.cancel()
        return socket

    async def _write(self, one: _Stream) -> None:
        while (text := await one.queue.get()) is not None:
            await one.socket.send_str(text)
        request = one.socket._req
        if request is not None and request.transport is not None:
            request.transport.abort()

    def _drop(self, one: _Stream) -> None:
        """Cut a connection without a word."""
        self._streams.discard(one)
        one.queue.put_nowait(None)

    def _send_book(self, name: str, kind: str, sizes: list[tuple[str, Decimal, Decimal]], version: int) -> None:
        if not any(name in one.books for one in self._streams):
            return
        text = self.book_text(name, sizes, version)
        for one in list(self._streams):
            if name not in one.books:
                continue
            if self.random.random() < self.faults.lost:
                self.counts["lost"] += 1
                continue
            if self.random.random() < self.faults.cut:
                self.counts["cut"] += 1
                self._drop(one)
                continue
            one.queue.put_nowait(text)

    def _send_trade(self, name: str, side: str, price: Decimal, quantity: Decimal) -> None:
        for one in list(self._streams):
            if name in one.trades:
                one.queue.put_nowait(self.trade_text(name, side, price, quantity))

    def subscribe(self, one: _Stream, message: Any) -> None:
        raise NotImplementedError

    def book_text(self, name: str, sizes: list[tuple[str, Decimal, Decimal]], version: int) -> str:
        raise NotImplementedError

    def trade_text(self, name: str, side: str, price: Decimal, quantity: Decimal) -> str:
        raise NotImplementedError


def _ms(at: float | None = None) -> int:
    return int((time.time() if at is None else at) * 1000)


class BinanceLayout(ExchangeServer):
    """Requests and websockets as Binance publishes them for its spot market."""

    _STATUS: ClassVar = {"open": "NEW", "filled": "FILLED", "cancelled": "CANCELED"}

    def name(self, symbol: str) -> str:
        return next(name for name in self.exchange.markets if name.replace("/", "") == symbol)

    def is_order(self, method: str, path: str) -> bool:
        return method == "POST" and path == "api/v3/order"

    def limited(self) -> web.Response:
        return web.json_response({"code": -1003, "msg": "Too many requests."}, status=429)

    def refused(self, reason: str) -> web.Response:
        code = -2013 if "does not exist" in reason else -2011 if "Unknown order" in reason else -1013
        return web.json_response({"code": code, "msg": reason}, status=400)

    def answer(self, method: str, path: str, given: dict[str, Any]) -> Any:
        exchange = self.exchange
        match method, path:
            case "GET", "api/v3/exchangeInfo":
                return {
                    "timezone": "UTC",
                    "serverTime": _ms(),
                    "symbols": [self._info(m) for m in exchange.markets.values()],
                }
            case "GET", "api/v3/time":
                return {"serverTime": _ms()}
            case "GET", "api/v3/ping":
                return {}
            case "GET", "api/v3/depth":
                name, most = self.name(given["symbol"]), int(given.get("limit", 100))
                sides = {
                    f"{side}s": [[f"{p}", f"{q}"] for p, q in exchange.levels(name, side, most)]
                    for side in ("bid", "ask")
                }
                return {"lastUpdateId": exchange.versions[name]} | sides
            case "GET", "api/v3/ticker/24hr":
                name = self.name(given["symbol"])
                return {"symbol": given["symbol"], "lastPrice": str(exchange.best(name, "bid")), "closeTime": _ms()}
            case "POST", "api/v3/order":
                order = exchange.place(
                    self.name(given["symbol"]),
                    given["side"].lower(),
                    Decimal(given["quantity"]),
                    Decimal(given["price"]),
                    immediate=given["timeInForce"] == "IOC",
                    client_id=given["newClientOrderId"],
                )
                fills = [
                    {"price": f"{one.price}", "qty": f"{one.quantity}", "commission": f"{one.fee:f}"}
                    | {"commissionAsset": one.currency, "tradeId": one.number}
                    for one in exchange.trades
                    if one.order is order
                ]
                return self._order(order) | {"transactTime": _ms(), "fills": fills}
            case "GET", "api/v3/order":
                return self._order(self._find(given, "Order does not exist."))
            case "DELETE", "api/v3/order":
                order = self._find(given, "Unknown order sent.")
                if order.status != "open":
                    raise RefusalError("Unknown order sent.")
                exchange.cancel(order)
                return self._order(order)
            case "GET", "api/v3/openOrders":
                return [self._order(one) for one in exchange.open_orders(self.name(given["symbol"]))]
            case "GET", "api/v3/myTrades":
                name, since = self.name(given["symbol"]), int(given.get("startTime", 0))
                return [
                    self._trade(one)
                    for one in exchange.trades
                    if one.order.market.name == name
                    and _ms(one.at) >= since
                    and str(one.order.number) == given.get("orderId", str(one.order.number))
                ][: int(given.get("limit", 500))]
            case "GET", "api/v3/account":
                balances = [
                    {"asset": name, "free": f"{total:f}", "locked": "0"} for name, total in exchange.balances.items()
                ]
                return {"makerCommission": 10, "updateTime": _ms(), "accountType": "SPOT", "balances": balances}
        return None

    def _info(self, market: Market) -> dict[str, Any]:
        return {
            "symbol": market.base + market.quote,
            "status": "TRADING",
            "baseAsset": market.base,
            "baseAssetPrecision": 8,
            "quoteAsset": market.quote,
            "quotePrecision": 8,
            "quoteAssetPrecision": 8,
            "orderTypes": ["LIMIT", "LIMIT_MAKER", "MARKET"],
            "isSpotTradingAllowed": True,
            "isMarginTradingAllowed": False,
            "permissions": ["SPOT"],
            "filters": [
                {"filterType": "PRICE_FILTER", "minPrice": market.tick, "maxPrice": "1000000", "tickSize": market.tick},
                {"filterType": "LOT_SIZE", "minQty": market.least, "maxQty": "9000000", "stepSize": market.lot},
                {"filterType": "NOTIONAL", "minNotional": "1", "applyMinToMarket": True, "maxNotional": "90000000"},
            ],
        }

    def _find(self, given: dict[str, Any], reason: str) -> Order:
        if "origClientOrderId" in given:
            orders = self.exchange.by_client_id.get(given["origClientOrderId"], [])
            if orders:
                return orders[-1]
        elif (order := self.exchange.orders.get(int(given.get("orderId") or 0))) is not None:
            return order
        raise RefusalError(reason)

    def _order(self, order: Order) -> dict[str, Any]:
        status = self._STATUS[order.status]
        if order.immediate and order.status == "cancelled":
            status = "EXPIRED"
        elif order.status == "open" and order.filled:
            status = "PARTIALLY_FILLED"
        return {
            "symbol": order.market.base + order.market.quote,
            "orderId": order.number,
            "orderListId": -1,
            "clientOrderId": order.client_id,
            "price": f"{order.price}",
            "origQty": f"{order.quantity}",
            "executedQty": f"{order.filled}",
            "cummulativeQuoteQty": f"{order.value}",
            "status": status,
            "timeInForce": "IOC" if order.immediate else "GTC",
            "type": "LIMIT",
            "side": order.side.upper(),
            "time": _ms(order.at),
            "updateTime": _ms(order.at),
            "isWorking": True,
        }

    def _trade(self, one: Trade) -> dict[str, Any]:
        return {
            "symbol": one.order.market.base + one.order.market.quote,
            "id": one.number,
            "orderId": one.order.number,
            "price": f"{one.price}",
            "qty": f"{one.quantity}",
            "quoteQty": f"{one.price * one.quantity}",
            "commission": f"{one.fee:f}",
            "commissionAsset": one.currency,
            "time": _ms(one.at),
            "isBuyer": one.order.side == "buy",
            "isMaker": one.maker,
            "isBestMatch": True,
        }

    def subscribe(self, one: _Stream, message: Any) -> None:
        wanted = message.get("params", [])
        known = {name.replace("/", "").lower(): name for name in self.exchange.markets}
        for stream in wanted:
            symbol, _, channel = stream.partition("@")
            books = one.books if channel.startswith("depth") else one.trades
            (books.add if message["method"] == "SUBSCRIBE" else books.discard)(known[symbol])
        one.queue.put_nowait(json.dumps({"result": None, "id": message["id"]}))

    def book_text(self, name: str, sizes: list[tuple[str, Decimal, Decimal]], version: int) -> str:
        sides = {side[0]: [[f"{p}", f"{q}"] for s, p, q in sizes if s == side] for side in ("bid", "ask")}
        symbol = name.replace("/", "")
        return json.dumps({"e": "depthUpdate", "E": _ms(), "s": symbol, "U": version, "u": version} | sides)

    def trade_text(self, name: str, side: str, price: Decimal, quantity: Decimal) -> str:
        about = {"e": "trade", "E": _ms(), "s": name.replace("/", ""), "t": next(self.exchange._numbers)}
        return json.dumps(about | {"p": f"{price}", "q": f"{quantity}", "T": _ms(), "m": side == "sell", "M": True})


class KrakenLayout(ExchangeServer):
    """Requests, and websockets of version 2, as Kraken publishes them for its spot market."""

    book_depth = 10
    _CODES: ClassVar = {"BTC": "XXBT", "ETH": "XETH", "XRP": "XXRP", "USD": "ZUSD", "EUR": "ZEUR"}
    _STATUS: ClassVar = {"open": "open", "filled": "closed", "cancelled": "canceled"}

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._shown: dict[tuple[str, str], dict[Decimal, Decimal]] = {}  # levels sent, by market and side

    def _pair(self, name: str) -> str:
        return name.replace("BTC", "XBT").replace("/", "")

    def name(self, pair: str) -> str:
        return next(name for name in self.exchange.markets if self._pair(name) == pair)

    @staticmethod
    def _txid(order: Order) -> str:
        text = f"{order.number:017d}"
        return f"O{text[:5]}-{text[5:10]}-{text[10:16]}{text[16]}"

    @staticmethod
    def _decimals(step: str) -> int:
        return -int(Decimal(step).as_tuple().exponent)

    def is_order(self, method: str, path: str) -> bool:
        return path == "0/private/AddOrder"

    def limited(self) -> web.Response:
        return web.json_response({"error": ["EAPI:Rate limit exceeded"]})

    def refused(self, reason: str) -> web.Response:
        return web.json_response({"error": [reason if reason.startswith("E") else f"EOrder:Invalid price {reason}"]})

    def answer(self, method: str, path: str, given: dict[str, Any]) -> Any:
        found = self._result(path.removeprefix("0/"), given)
        return None if found is None else {"error": [], "result": found}

    def _result(self, path: str, given: dict[str, Any]) -> Any:
        exchange = self.exchange
        match path:
            case "public/AssetPairs":
                return {self._pair(name): self._info(one) for name, one in exchange.markets.items()}
            case "public/Assets":
                names = {name for one in exchange.markets.values() for name in (one.base, one.quote)}
                return {
                    self._CODES.get(name, name): {"aclass": "currency", "altname": name.replace("BTC", "XBT")}
                    | {"decimals": 10, "display_decimals": 5, "status": "enabled"}
                    for name in names
                }
            case "public/Time":
                return {"unixtime": int(time.time())}
            case "private/AddOrder":
                order = exchange.place(
                    self.name(given["pair"]),
                    given["type"],
                    Decimal(given["volume"]),
                    Decimal(given["price"]),
                    immediate=given.get("timeinforce") == "IOC",
                    client_id=given["cl_ord_id"],
                )
                return {"txid": [self._txid(order)], "descr": {"order": self._order(order)["descr"]["order"]}}
            case "private/QueryOrders":  # needs the exchange's own id
                return {self._txid(order): self._order(order) for order in [self._find({"txid": given["txid"]})]}
            case "private/CancelOrder":
                order = self._find(given)
                if order.status != "open":
                    raise RefusalError("EOrder:Unknown order")
                exchange.cancel(order)
                return {"count": 1}
            case "private/OpenOrders":
                return {"open": self._listed(exchange.open_orders(), given)}
            case "private/ClosedOrders":
                found = self._listed([one for one in exchange.orders.values() if one.status != "open"], given)
                return {"closed": dict(list(found.items())[:50]), "count": len(found)}
            case "private/TradesHistory":
                since = float(given.get("start", 0))
                trades = [one for one in exchange.trades if one.at >= since]
                return {"trades": {f"T{one.number}": self._trade(one) for one in trades}, "count": len(trades)}
            case "private/QueryTrades":
                wanted = given["txid"].split(",")
                return {f"T{one.number}": self._trade(one) for one in exchange.trades if f"T{one.number}" in wanted}
            case "private/BalanceEx":
                return {
                    self._CODES.get(name, name): {"balance": f"{total:f}", "hold_trade": "0"}
                    for name, total in exchange.balances.items()
                }
        return None

    def _listed(self, orders: list[Order], given: dict[str, Any]) -> dict[str, Any]:
        wanted = given.get("cl_ord_id")
        return {self._txid(one): self._order(one) for one in reversed(orders) if wanted in (None, one.client_id)}

    def _info(self, market: Market) -> dict[str, Any]:
        name = self._pair(market.name)
        return {
            "altname": name,
            "wsname": f"{market.base.replace('BTC', 'XBT')}/{market.quote}",
            "aclass_base": "currency",
            "base": self._CODES.get(market.base, market.base),
            "aclass_quote": "currency",
            "quote": self._CODES.get(market.quote, market.quote),
            "lot": "unit",
            "cost_decimals": 5,
            "pair_decimals": self._decimals(market.tick),
            "lot_decimals": self._decimals(market.lot),
            "lot_multiplier": 1,
            "leverage_buy": [],
            "leverage_sell": [],
            "fees": [[0, 0.1]],
            "fees_maker": [[0, 0.1]],
            "fee_volume_currency": "ZUSD",
            "ordermin": market.least,
            "costmin": "0.5",
            "tick_size": market.tick,
            "status": "online",
        }

    def _find(self, given: dict[str, Any]) -> Order:
        if wanted := given.get("cl_ord_id"):
            orders = self.exchange.by_client_id.get(wanted, [])
        else:
            orders = [one for one in self.exchange.orders.values() if self._txid(one) == given.get("txid")]
        if not orders:
            raise RefusalError("EOrder:Unknown order")
        return orders[-1]

    def _order(self, order: Order) -> dict[str, Any]:
        return {
            "refid": None,
            "userref": None,
            "cl_ord_id": order.client_id,
            "status": self._STATUS[order.status],
            "opentm": order.at,
            "starttm": 0,
            "expiretm": 0,
            "descr": {
                "pair": self._pair(order.market.name),
                "type": order.side,
                "ordertype": "limit",
                "price": f"{order.price}",
                "price2": "0",
                "leverage": "none",
                "order": f"{order.side} {order.quantity} {self._pair(order.market.name)} @ limit {order.price}",
                "close": "",
            },
            "vol": f"{order.quantity}",
            "vol_exec": f"{order.filled}",
            "cost": f"{order.value}",
            "fee": f"{order.fee}",
            "price": f"{order.value / order.filled if order.filled else 0:.8f}",
            "misc": "",
            "oflags": "fciq",
            "trades": [f"T{one.number}" for one in self.exchange.trades if one.order is order],
        }

    def _trade(self, one: Trade) -> dict[str, Any]:
        return {
            "ordertxid": self._txid(one.order),
            "postxid": "",
            "pair": self._pair(one.order.market.name),
            "time": one.at,
            "type": one.order.side,
            "ordertype": "limit",
            "price": f"{one.price}",
            "cost": f"{one.price * one.quantity}",
            "fee": f"{one.fee}",
            "vol": f"{one.quantity}",
            "margin": "0",
            "misc": "",
            "trade_id": one.number,
        }

    # websockets: prices and quantities are JSON numbers with all their digits, as the checksum needs them

    def _number(self, value: Decimal, step: str) -> str:
        return f"{value:.{self._decimals(step)}f}"

    def _side(self, name: str, levels: list[tuple[Decimal, Decimal]]) -> str:
        market = self.exchange.markets[name]
        texts = [
            f'{{"price":{self._number(price, market.tick)},"qty":{self._number(size, market.lot)}}}'
            for price, size in levels
        ]
        return f"[{','.join(texts)}]"

    def checksum(self, name: str) -> int:
        market, text = self.exchange.markets[name], ""
        for side in ("ask", "bid"):
            for price, size in self.exchange.levels(name, side, 10):
                for one in (self._number(price, market.tick), self._number(size, market.lot)):
                    text += one.replace(".", "").lstrip("0")
        return zlib.crc32(text.encode())

    def _message(self, name: str, kind: str, bids: str, asks: str) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        data = (
            f'{{"symbol":"{name}","bids":{bids},"asks":{asks},"checksum":{self.checksum(name)},"timestamp":"{stamp}"}}'
        )
        return f'{{"channel":"book","type":"{kind}","data":[{data}]}}'

    def subscribe(self, one: _Stream, message: Any) -> None:
        if message.get("method") == "ping":
            one.queue.put_nowait(json.dumps({"method": "pong", "req_id": message.get("req_id")}))
            return
        if message.get("method") not in ("subscribe", "unsubscribe"):
            return
        wanted = message["params"]
        for name in wanted["symbol"]:
            books = one.books if wanted["channel"] == "book" else one.trades
            (books.add if message["method"] == "subscribe" else books.discard)(name)
            result = {"channel": wanted["channel"], "symbol": name, "snapshot": True, "depth": self.book_depth}
            said = {"method": message["method"], "result": result, "success": True, "req_id": message.get("req_id")}
            one.queue.put_nowait(json.dumps(said))
            if wanted["channel"] == "book" and message["method"] == "subscribe":
                sides = [self._side(name, self.exchange.levels(name, s, self.book_depth)) for s in ("bid", "ask")]
                one.queue.put_nowait(self._message(name, "snapshot", *sides))

    def book_text(self, name: str, sizes: list[tuple[str, Decimal, Decimal]], version: int) -> str:
        """The changes within the depth; a level that moves into it is sent, since the client does not know it."""
        sides = []
        for side in ("bid", "ask"):
            before = self._shown.get((name, side), {})
            now = dict(self.exchange.levels(name, side, self.book_depth))
            changes = [(price, _ZERO) for price in before if price not in now]
            changes += [(price, size) for price, size in now.items() if before.get(price) != size]
            self._shown[name, side] = now
            sides.append(self._side(name, changes))
        return self._message(name, "update", *sides)

    def trade_text(self, name: str, side: str, price: Decimal, quantity: Decimal) -> str:
        market = self.exchange.markets[name]
        data = {"symbol": name, "side": side, "ord_type": "market", "trade_id": next(self.exchange._numbers)}
        data |= {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())}
        numbers = f'"price":{self._number(price, market.tick)},"qty":{self._number(quantity, market.lot)}'
        return f'{{"channel":"trade","type":"update","data":[{json.dumps(data)[:-1]},{numbers}}}]}}'
