"""A session with an exchange of ccxt: its dialect, keys and market table, in an event loop of its own thread.

ccxt's unified parameter for the client's id of an order is not reliable: `DIALECTS` states how each exchange takes it.
Only these exchanges are traded; books are streamed from every exchange whose books ccxt streams.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import threading
import tomllib
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from riskroute.core.errors import InputError, StateError
from riskroute.core.instrument import Instrument
from riskroute.core.runtime import require_extra
from riskroute.core.text import decimal_text, one_line_text, shown
from riskroute.live.state.amounts import NANO
from riskroute.live.venues.gateway import VenueTerms

LOGGER = logging.getLogger("riskroute.live")


class Dialect(NamedTuple):
    """How an exchange takes the client's id of an order: names of the parameters to pass to ccxt.

    ``create`` is the parameter of a new order. An order whose own id at the exchange is not known is looked up by the
    parameter ``look_up`` or, if that is empty, searched with the methods ``lists``, by the parameter ``list_by`` or,
    without it, among the newest orders. ``prefix`` is what the exchange puts before the client's id. ``parameters`` are
    passed to every ``fetch_order``.

    ``horizon``: seconds after which a request can no longer reach the exchange, by the time stamp in its signature.
    ``deadline``: seconds after which an order is refused, sent with the order; 0: none. ``serial``: nonces must
    increase, so requests are sent one by one. ``options`` are ccxt's options of the exchange.
    """

    create: str = "clientOrderId"
    look_up: str = "clientOrderId"
    lists: tuple[str, ...] = ()
    list_by: str = ""
    prefix: str = ""
    parameters: Mapping[str, Any] = MappingProxyType({})
    horizon: float = 31.0
    deadline: float = 0.0
    serial: bool = False
    options: Mapping[str, Any] = MappingProxyType({})


_SPOT: Mapping[str, Any] = {
    "defaultType": "spot",
    "watchOrderBook": {"checksum": True},
}
DIALECTS: Mapping[str, Dialect] = {
    "binance": Dialect(horizon=11.0, options={**_SPOT, "fetchMarkets": {"types": ["spot"]}, "fetchMargins": False}),
    "bitget": Dialect(options=_SPOT),
    "bybit": Dialect(  # `fetch_order` would send an empty id beside the client's
        look_up="",
        lists=("fetch_open_orders",),  # searched by the client's id, they also list recently closed orders
        list_by="orderLinkId",
        parameters={"acknowledged": True},
        horizon=6.0,
        options={**_SPOT, "enableUnifiedAccount": True, "enableUnifiedMargin": False},
    ),
    "coinbase": Dialect(create="client_order_id", look_up="", lists=("fetch_orders",), horizon=121.0, options=_SPOT),
    "cryptocom": Dialect(
        create="client_oid", look_up="", lists=("fetch_open_orders", "fetch_orders"), horizon=61.0, options=_SPOT
    ),
    "gate": Dialect(prefix="t-", horizon=61.0, options=_SPOT),
    "kraken": Dialect(  # QueryOrders needs the exchange's own id; `ccxt_quotes` checks the books
        look_up="",
        lists=("fetch_open_orders", "fetch_closed_orders"),
        list_by="clientOrderId",
        deadline=5.0,
        horizon=6.0,
        serial=True,
        options={"defaultType": "spot", "watchOrderBook": {"checksum": False}},
    ),
    "kucoin": Dialect(look_up="clientOid", horizon=6.0, options=_SPOT),
    "mexc": Dialect(horizon=6.0, options=_SPOT),
    "okx": Dialect(options=_SPOT),
}


class Secrets:
    """The keys of an account; `repr` shows only their names, and `redact` removes them from other texts."""

    names = ("apiKey", "secret", "password", "uid", "privateKey", "walletAddress", "token")  # ccxt's credentials

    def __init__(self, values: Mapping[str, str]) -> None:
        if unknown := sorted(set(values) - set(self.names)):
            raise InputError(f"expected keys named {', '.join(self.names)}, got {shown(unknown[0])}")
        self._values = {name: value.replace("\\n", "\n") for name, value in values.items() if value}
        lines = {line for value in self._values.values() for line in (value, *value.splitlines()) if len(line) >= 6}
        texts = {text for line in lines for text in (line, quote(line, safe=""), line.replace("\n", "\\n"))}
        self._texts = sorted(texts, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self._values))})"

    def give(self, exchange: Any) -> None:
        """Hand the keys to an exchange of ccxt."""
        for name, value in self._values.items():
            setattr(exchange, name, value)

    def redact(self, text: str) -> str:
        """Replace keys, and lines of keys, in a text by ``***``, except texts shorter than 6 characters."""
        for secret in self._texts:
            text = text.replace(secret, "***")
        return text


def read_secrets(place: str, env: str | None, file: Path | None) -> Secrets:
    """Return keys from environment variables or a file; errors never state them.

    The variables are ``env`` followed by ``_APIKEY``, ``_SECRET``, ``_PASSWORD`` and so on. The file is TOML with the
    names of `Secrets.names`, and only its owner may read it (mode 600 or 400).
    """
    if (env is None) == (file is None):
        raise InputError(f"keys of {place} must come from one of keys_env and keys_file")
    if env is not None:
        found = {name: os.environ.get(f"{env}_{name.upper()}", "") for name in Secrets.names}
        if not any(found.values()):
            raise InputError(f"keys of {place} must be in environment variables {env}_APIKEY and {env}_SECRET: unset")
        return Secrets(found)
    expected = f"keys_file of {place} must be a TOML file of mode 600, was {str(file)!r}"
    assert file is not None
    try:
        mode, text = file.stat().st_mode & 0o777, file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{expected}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{expected}, which is not text") from None
    if mode & 0o177:
        raise InputError(f"{expected}, of mode {mode:o}")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # its message may have a part of the file
        raise InputError(f"{expected}, which is not valid TOML") from None
    if not all(isinstance(value, str) for value in values.values()):
        raise InputError(f"{expected}, with values that are not strings")
    return Secrets(values)


class CcxtSession:
    """An exchange of ccxt in a thread of its own.

    ``symbols`` maps our symbols to the exchange's; default: ``QUANTITY/CURRENCY`` of the instrument. ``url`` replaces
    all addresses of the exchange: the original host becomes the first part of the path. ``timeout`` is in seconds;
    ``rate_limit`` is the number of seconds between requests (default: ccxt's for the exchange; 0: no limit).
    """

    def __init__(
        self,
        place: str,
        exchange: str,
        instruments: Mapping[str, Instrument],
        symbols: Mapping[str, str] | None = None,
        *,
        secrets: Secrets | None = None,
        url: str | None = None,
        timeout: float = 10.0,
        rate_limit: float | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        require_extra("exchanges", "ccxt", "ccxt")
        self.place, self.name, self.instruments = place, exchange, dict(instruments)
        self.dialect = dialect or DIALECTS.get(exchange, Dialect(options=_SPOT))
        self.secrets = secrets or Secrets({})
        self.symbols = {
            symbol: (symbols or {}).get(symbol) or f"{one.quantity}/{one.currency}"
            for symbol, one in self.instruments.items()
        }
        self.ours = {theirs: symbol for symbol, theirs in self.symbols.items()}
        self.client: Any = _exchange_class(exchange)
        self._url, self._timeout, self._rate_limit = url, timeout, rate_limit
        self._terms: dict[str, VenueTerms] = {}
        self.loaded = False
        self.refused: dict[str, str] = {}  # by symbol, why it cannot be traded here
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    # the thread

    def start(self) -> None:
        """Start the thread unless it runs."""
        if self._thread is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, name=f"riskroute {self.place}", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(self._on_error)
        self.client = self._new_client(self.client)
        self._loop.run_forever()

    def spawn(self, make: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        """Run a coroutine in the thread; its errors are logged without secrets. May be called from any thread."""
        if self._loop is None:
            raise StateError(f"{self.place} must be connected first")
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.spawn_here, make, *arguments)

    def spawn_here(self, make: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        """Run a coroutine like `spawn`; call this in the thread itself."""
        assert self._loop is not None
        task = self._loop.create_task(self._guarded(make, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, make: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        try:
            await make(*arguments)
        except Exception as error:
            # A traceback could show requests with their signatures.
            LOGGER.error("venue %s: %s", self.place, self.told(error))  # noqa: TRY400

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error in ccxt's own callbacks, also without a traceback."""
        error = context.get("exception") or RuntimeError(context["message"])
        LOGGER.warning("venue %s: %s", self.place, self.told(error))

    def close(self, seconds: float = 5.0) -> None:
        """Cancel everything, disconnect, and end the thread."""
        loop, thread, self._thread = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        done: Future[None] = asyncio.run_coroutine_threadsafe(self._shut_down(), loop)
        with suppress(Exception):
            done.result(seconds)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(seconds)
        if not thread.is_alive():
            loop.close()
        self._loop = None

    async def _shut_down(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(Exception):
            await self.client.close()

    # the exchange

    def _new_client(self, kind: Any) -> Any:
        limited: dict[str, Any] = {"enableRateLimit": self._rate_limit != 0}
        if self._rate_limit:
            limited["rateLimit"] = self._rate_limit * 1000
        client = kind(limited | {"newUpdates": True, "timeout": int(self._timeout * 1000), "asyncio_loop": self._loop})
        client.options = client.deep_extend(client.options, dict(self.dialect.options))
        client.has["fetchCurrencies"] = False  # names and networks of coins, which no order needs
        if self._url is not None:
            client.urls["api"] = _redirected(client.urls["api"], self._url)
        client.logger = logging.Logger("silent", logging.CRITICAL)  # at DEBUG, ccxt logs headers with keys
        self.secrets.give(client)
        return client

    async def load_markets(self) -> None:
        """Read the market table of the exchange; later calls renew it."""
        await self.client.load_markets(self.loaded)
        self.loaded, self._terms, self.refused = True, {}, {}
        for symbol, instrument in self.instruments.items():
            market = self.client.markets.get(self.symbols[symbol])
            try:
                self._terms[symbol] = market_terms(market, self.client.precisionMode, instrument, self.dialect)
            except InputError as error:
                self.refused[symbol] = f"{symbol} at {self.place}: {error}"

    def terms(self, symbol: str) -> VenueTerms | None:
        """Return the terms of a symbol; None before the market table is read, and for symbols not traded here."""
        return self._terms.get(symbol)

    def told(self, error: BaseException) -> str:
        """Return the kind and text of an error on one line, without secrets, signatures and addresses' queries."""
        words = [word.partition("?")[0] if "://" in word else word for word in f"{error}".split()]
        return self.secrets.redact(one_line_text(f"{type(error).__name__}: {' '.join(words)}"))


def _exchange_class(name: str) -> Any:
    ccxt = importlib.import_module("ccxt.pro")
    if name not in ccxt.exchanges:
        raise InputError(f"exchange must be one whose books ccxt streams, such as binance, was {shown(name)}")
    return getattr(ccxt, name)


def _redirected(urls: Any, url: str) -> Any:
    """Return nested addresses at ``url``, with the original host as the first part of the path."""
    if isinstance(urls, dict):
        return {name: _redirected(one, url) for name, one in urls.items()}
    if isinstance(urls, list):
        return [_redirected(one, url) for one in urls]
    if not isinstance(urls, str):
        return urls
    scheme, _, rest = urls.partition("://")
    new_scheme, _, host = url.rstrip("/").partition("://")
    return f"{new_scheme.replace('http', 'ws') if scheme.startswith('ws') else new_scheme}://{host}/{rest}"


def exact_number(value: Any) -> Decimal:
    """Return a number of ccxt as a decimal, by its shortest text; 0 for None.

    Examples
    --------
    >>> exact_number(0.1), exact_number(1e-05), exact_number(None)
    (Decimal('0.1'), Decimal('0.00001'), Decimal('0'))
    """
    return Decimal(0) if value is None else Decimal(format(Decimal(str(value)), "f"))


def market_terms(market: Any, mode: int, instrument: Instrument, dialect: Dialect) -> VenueTerms:
    """Return the terms of a symbol from the market table; raise `InputError` if the instrument does not fit them."""
    if market is None:
        raise InputError("expected a symbol of the exchange; state its name in symbols")
    if not market.get("spot") or market.get("active") is False:
        raise InputError("expected an active spot market")
    steps = {name: market["precision"].get(name) for name in ("price", "amount")}
    if mode not in (2, 4) or None in steps.values():  # decimal places, tick size
        raise InputError("expected steps of price and quantity in the exchange's market table, found none")
    tick, lot = [
        exact_number(step) if mode == 4 else Decimal(1).scaleb(-int(step)) for step in (steps["price"], steps["amount"])
    ]
    if market["quote"] != instrument.currency:
        raise InputError(f"currency must be {market['quote']}, was {instrument.currency}")
    if lot % instrument.unit:
        raise InputError(
            f"unit must divide {decimal_text(lot)}, the exchange's step, was {decimal_text(instrument.unit)}"
        )
    if tick % instrument.tick and instrument.tick % tick:
        raise InputError(f"tick must divide {decimal_text(tick)}, the exchange's, was {decimal_text(instrument.tick)}")
    if tick * NANO % 1:
        raise InputError(f"expected a tick of the exchange that is a multiple of 1e-9, was {tick}")
    limits = market.get("limits") or {}
    least, cost = ((limits.get(name) or {}).get("min") for name in ("amount", "cost"))
    return VenueTerms(
        tick=max(tick, instrument.tick),
        lot=max(lot, instrument.lot or instrument.unit),
        minimum_quantity=exact_number(least),
        minimum_notional=exact_number(cost),
        horizon=dialect.horizon,
        base=str(market["base"]),
        quote=str(market["quote"]),
    )


def whole_units(quantity: Any, instrument: Instrument) -> int:
    """Return a natural quantity of ccxt in units, rounded to a whole number, since ccxt's floats are inexact."""
    return round(Fraction(exact_number(quantity)) / Fraction(instrument.unit))
