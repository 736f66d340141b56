"""Raw captures of cryptofeed: what an exchange sent, one JSON object per line, with the time of receipt.

A capture begins with a header that names the exchange. A function per exchange turns its messages into books and
trades, which are stamped with the time of receipt. Lines are sorted within a connection, not across connections.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Generator, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from riskroute.core.errors import DataError, NoBooksError
from riskroute.core.instrument import SHARES
from riskroute.core.text import one_line_text, shown
from riskroute.core.validation import LONGEST_SYMBOL, is_valid_name, valid_name_rule
from riskroute.market.readers.binance import LEVELS_PER_PART, DepthChain, DepthUpdate
from riskroute.market.readers.csv_files import unpacked_file_lines
from riskroute.market.readers.level_book import LevelBookMessages, LevelBookPart, Levels
from riskroute.market.readers.reading import ReadingOptions


class _Line(msgspec.Struct):
    t: str
    ts: float = 0.0
    conn: str = ""
    exchange: str = ""
    recorded: float = 0.0
    addr: str = ""
    url: str = ""
    data: str = ""
    b64: str = ""


class _Book(NamedTuple):
    """Levels of a message; ``reset`` for a whole book. Numbers are given if the feed numbers its updates.

    ``limit`` is the number of levels per side of a feed that does not report the removal of deeper levels.
    """

    symbol: str
    bids: Levels
    asks: Levels
    reset: bool = False
    last: int | None = None
    previous: int | None = None  # number of the previous update
    first: int | None = None  # first number covered, if the feed's snapshots come from the REST interface
    limit: int | None = None


class _Trade(NamedTuple):
    symbol: str
    time: float  # the exchange's time in milliseconds
    price: Any
    size: Any
    resting: str  # side of the resting order


_Found = Iterator[_Book | _Trade]
_Sides = tuple[Levels, Levels]


def _pairs(levels: Iterable[Any]) -> Levels:
    """Return prices and sizes of levels given as lists, whose further elements are ignored."""
    return [(float(level[0]), float(level[1])) for level in levels]


def _named(price: str, size: str) -> Callable[[Any], Levels]:
    """Return a function that converts levels given as records with these names of price and size."""
    return lambda levels: [(float(level[price]), float(level[size])) for level in levels]


def _sides(content: Any, convert: Callable[[Any], Levels], bids: str = "bids", asks: str = "asks") -> _Sides:
    return convert(content[bids]), convert(content[asks])


def _sided(changes: Iterable[tuple[str, Any, Any]], bid: str) -> _Sides:
    """Return bids and asks of changes that name a side, a price and a size."""
    rows = list(changes)
    bids = [(float(price), float(size)) for side, price, size in rows if side == bid]
    return bids, [(float(price), float(size)) for side, price, size in rows if side != bid]


def _rests(aggressor: Any) -> str:
    """Return the side of the resting order: a buy meets the asks.

    >>> _rests("BUY"), _rests("s")
    ('A', 'B')
    """
    return "A" if str(aggressor)[:1].lower() == "b" else "B"


def _binance(one: Any, url: str) -> _Found:
    if url:
        yield _Book(
            _asked(url), _pairs(one["bids"]), _pairs(one["asks"]), last=one["lastUpdateId"], first=0, reset=True
        )
        return
    event = one.get("data", {})
    if event.get("e") == "depthUpdate":
        yield _Book(
            event["s"], *_sides(event, _pairs, "b", "a"), last=event["u"], previous=event.get("pu"), first=event["U"]
        )
    elif event.get("e") == "aggTrade":
        yield _Trade(event["s"], event["T"], event["p"], event["q"], "B" if event["m"] else "A")


class _Bitfinex:
    """Parses the messages of one connection, which name channels by number."""

    def __init__(self) -> None:
        self._channels: dict[int, tuple[str, str]] = {}  # kind and symbol

    def __call__(self, one: Any, _: str) -> _Found:
        if isinstance(one, dict):
            if one.get("event") == "subscribed":
                symbol = str(one["symbol"]).removeprefix("t").replace(":", "/")
                self._channels[one["chanId"]] = one["channel"], symbol
            return
        if not isinstance(one, list):
            return
        kind, symbol = self._channels.get(one[0], ("", ""))
        if kind == "book" and isinstance(one[1], list):
            whole = not one[1] or isinstance(one[1][0], list)
            # price, number of orders (0 removes the level) and amount, negative for asks
            rows = one[1] if whole else [one[1]]
            changes = (("bid" if row[2] > 0 else "ask", row[0], abs(row[2]) if row[1] else 0) for row in rows)
            yield _Book(symbol, *_sided(changes, "bid"), reset=whole)
        elif kind == "trades" and one[1] == "te":  # "tu" repeats the same trade
            _id, time, amount, price = one[2]
            yield _Trade(symbol, time, price, abs(amount), _rests("buy" if amount > 0 else "sell"))


def _bitflyer(one: Any, _: str) -> _Found:
    channel, content = one.get("params", {}).get("channel", ""), one.get("params", {}).get("message")
    symbol = channel.split("_", 2)[-1].removeprefix("snapshot_")
    if channel.startswith("lightning_board_"):
        sides = _sides(content, _named("price", "size"))
        yield _Book(symbol, *sides, reset=channel.startswith("lightning_board_snapshot_"))
    elif channel.startswith("lightning_executions_"):
        for each in content:
            yield _Trade(symbol, _iso(each["exec_date"]), each["price"], each["size"], _rests(each["side"]))


def _bitget(one: Any, _: str) -> _Found:
    channel, symbol = one["arg"]["channel"], one["arg"]["instId"]
    for each in one["data"]:
        if channel == "books":
            yield _Book(symbol, *_sides(each, _pairs), one["action"] == "snapshot")
        elif channel == "trade":
            yield _Trade(symbol, float(each[0]), each[1], each[2], _rests(each[3]))


def _bitstamp(one: Any, url: str) -> _Found:
    content = one if url else one.get("data", {})
    if "microtimestamp" not in content:
        return
    channel, number = one.get("channel", ""), int(content["microtimestamp"])
    symbol = url.rstrip("/").rpartition("/")[2] if url else channel.rpartition("_")[2]
    if url or channel.startswith("diff_order_book_"):
        sides = _sides(content, _pairs)
        yield _Book(symbol, *sides, reset=bool(url), last=number, first=0)  # numbers rise, but not by one
    elif channel.startswith("live_trades_"):
        terms = content["price_str"], content["amount_str"]
        yield _Trade(symbol, number / 1000, *terms, "B" if content["type"] else "A")


def _bybit(one: Any, _: str) -> _Found:
    topic, content = one.get("topic", "").split("."), one.get("data")
    if topic[0] == "orderbook":
        sides = _sides(content, _pairs, "b", "a")
        yield _Book(content["s"], *sides, reset=one["type"] == "snapshot")
    elif topic[0] == "publicTrade":
        for each in content:
            yield _Trade(each["s"], each["T"], each["p"], each["v"], _rests(each["S"]))


def _coinbase(one: Any, _: str) -> _Found:
    for event in one.get("events", ()):
        if one["channel"] == "l2_data":
            changes = ((each["side"], each["price_level"], each["new_quantity"]) for each in event["updates"])
            yield _Book(event["product_id"], *_sided(changes, "bid"), reset=event["type"] == "snapshot")
        elif one["channel"] == "market_trades":
            for each in event["trades"]:  # the side is the resting order's
                resting = "B" if each["side"] == "BUY" else "A"
                yield _Trade(each["product_id"], _iso(each["time"]), each["price"], each["size"], resting)


def _crypto_com(one: Any, _: str) -> _Found:
    result = one.get("result", {})
    for each in result.get("data", ()):
        if result["channel"] == "book":
            yield _Book(result["instrument_name"], *_sides(each, _pairs), reset=True)
        elif result["channel"] == "trade":
            yield _Trade(each["i"], each["t"], each["p"], each["q"], _rests(each["s"]))


def _deribit(one: Any, _: str) -> _Found:
    channel, content = one.get("params", {}).get("channel", ""), one.get("params", {}).get("data")
    if channel.startswith("book."):
        sides = _sides(content, lambda levels: _pairs(level[1:] for level in levels))
        numbers = content["change_id"], content.get("prev_change_id")
        yield _Book(content["instrument_name"], *sides, content["type"] == "snapshot", *numbers)
    elif channel.startswith("trades."):
        for each in content:
            terms = each["price"], each["amount"], _rests(each["direction"])
            yield _Trade(each["instrument_name"], each["timestamp"], *terms)


def _gateio(one: Any, url: str) -> _Found:
    if url:
        yield _Book(_asked(url), *_sides(one, _gateio_levels), last=one["id"], first=0, reset=True)
        return
    if one.get("event") != "update":
        return
    channel, content = one["channel"].partition(".")[2], one["result"]
    if channel == "order_book_update":
        sides = _sides(content, _gateio_levels, "b", "a")
        yield _Book(content["s"], *sides, last=content["u"], first=content["U"])
    elif channel == "trades":
        for each in content if isinstance(content, list) else [content]:
            size = each.get("amount", each.get("size"))  # futures: negative for sells
            side = each.get("side") or ("buy" if float(size) > 0 else "sell")
            symbol = each.get("currency_pair") or each["contract"]
            yield _Trade(symbol, float(each["create_time_ms"]), each["price"], abs(float(size)), _rests(side))


def _gateio_levels(levels: list[Any]) -> Levels:
    return _named("p", "s")(levels) if levels and isinstance(levels[0], dict) else _pairs(levels)


def _gemini(one: Any, _: str) -> _Found:
    if one.get("type") == "l2_updates":
        yield _Book(one["symbol"], *_sided(one["changes"], "buy"), reset="trades" in one)
    elif one.get("type") == "trade":
        yield _Trade(one["symbol"], one["timestamp"], one["price"], one["quantity"], _rests(one["side"]))


def _huobi(one: Any, _: str) -> _Found:
    parts, tick = one.get("ch", "").split("."), one.get("tick", {})
    if parts[2:3] == ["depth"]:
        # swaps state whether a message is a whole book, spot books are always whole
        yield _Book(parts[1], *_sides(tick, _pairs), tick.get("event", "snapshot") == "snapshot")
    elif parts[2:3] == ["trade"]:
        for each in tick["data"]:
            yield _Trade(parts[1], each["ts"], each["price"], each["amount"], _rests(each["direction"]))


def _kraken(one: Any, _: str) -> _Found:
    if not isinstance(one, list):
        return
    channel, symbol = one[-2], one[-1]
    if channel.startswith("book"):
        for each in one[1:-2]:
            whole = "as" in each or "bs" in each
            bids, asks = (_pairs(each.get(name, ())) for name in (("bs", "as") if whole else ("b", "a")))
            yield _Book(symbol, bids, asks, reset=whole, limit=int(channel.partition("-")[2]))
    elif channel == "trade":
        for price, size, time, side, *_rest in one[1]:
            yield _Trade(symbol, float(time) * 1000, price, size, _rests(side))


def _kraken_futures(one: Any, _: str) -> _Found:
    feed, symbol = one.get("feed"), one.get("product_id", "")
    if feed == "book_snapshot":
        sides = _sides(one, _named("price", "qty"))
        yield _Book(symbol, *sides, reset=True, last=one["seq"])
    elif feed == "book" and "price" in one:
        sides = _sided([(one["side"], one["price"], one["qty"])], "buy")
        yield _Book(symbol, *sides, last=one["seq"], previous=one["seq"] - 1)
    elif feed == "trade" and "price" in one:
        yield _Trade(symbol, one["time"], one["price"], one["qty"], _rests(one["side"]))


def _kucoin(one: Any, url: str) -> _Found:
    content, subject = one.get("data", {}), one.get("subject", "")
    if url:
        sides = _sides(content, _pairs)
        yield _Book(_asked(url), *sides, last=int(content["sequence"]), first=0, reset=True)
    elif subject == "trade.l2update":
        # a change with price 0 only advances the sequence number
        sides = _sides(content["changes"], lambda levels: [level for level in _pairs(levels) if level[0]])
        yield _Book(content["symbol"], *sides, last=content["sequenceEnd"], first=content["sequenceStart"])
    elif subject == "trade.l3match":
        time = int(content["time"]) / 10**6
        yield _Trade(content["symbol"], time, content["price"], content["size"], _rests(content["side"]))


def _okx(one: Any, _: str) -> _Found:
    channel = one.get("arg", {}).get("channel")
    for each in one.get("data", ()):
        if channel == "books":
            yield _Book(one["arg"]["instId"], *_sides(each, _pairs), reset=one["action"] == "snapshot")
        elif channel == "trades":
            yield _Trade(each["instId"], float(each["ts"]), each["px"], each["sz"], _rests(each["side"]))


def _poloniex(one: Any, _: str) -> _Found:
    for each in one.get("data", ()):
        if one["channel"] == "book_lv2":
            yield _Book(each["symbol"], *_sides(each, _pairs), one["action"] == "snapshot", each["id"], each["lastId"])
        elif one["channel"] == "trades":
            yield _Trade(each["symbol"], each["createTime"], each["price"], each["quantity"], _rests(each["takerSide"]))


def _upbit(one: Any, _: str) -> _Found:
    if one.get("ty") == "orderbook":
        yield _Book(one["cd"], _named("bp", "bs")(one["obu"]), _named("ap", "as")(one["obu"]), reset=True)
    elif one.get("ty") == "trade":
        yield _Trade(one["cd"], one["ttms"], one["tp"], one["tv"], _rests(one["ab"]))


# Functions by exchange, as cryptofeed names it; a class has one function per connection.
_EXCHANGES: dict[str, Callable[[Any, str], _Found] | type[_Bitfinex]] = {
    **dict.fromkeys(("BINANCE", "BINANCE_US", "BINANCE_FUTURES", "BINANCE_DELIVERY"), _binance),
    "BITFINEX": _Bitfinex,
    **{"BITFLYER": _bitflyer, "BITGET": _bitget, "BITSTAMP": _bitstamp, "BYBIT": _bybit, "COINBASE": _coinbase},
    **{"CRYPTO.COM": _crypto_com, "DERIBIT": _deribit, "GATEIO": _gateio, "GATEIO_FUTURES": _gateio},
    **{"GEMINI": _gemini, "HUOBI": _huobi, "HUOBI_SWAP": _huobi, "KRAKEN": _kraken, "KRAKEN_FUTURES": _kraken_futures},
    **{"KUCOIN": _kucoin, "OKX": _okx, "POLONIEX": _poloniex, "UPBIT": _upbit},
}
# Units of sizes where the symbol does not imply them; symbols of Upbit begin with the quote currency.
_QUANTITIES = {
    **dict.fromkeys(("BINANCE_DELIVERY", "GATEIO_FUTURES", "HUOBI_SWAP", "KRAKEN_FUTURES"), "contracts"),
    "UPBIT": "units",
}
# Part of a connection's address that tells apart markets with the same symbols.
_MARKET_PARTS = {"BITGET": slice(1, 2), "BYBIT": slice(-1, None)}


class _Feed:
    """The book and trades of one symbol in a capture."""

    def __init__(self, book: LevelBookMessages) -> None:
        self.book, self.chain = book, DepthChain(book)
        self.known, self.last = False, -1
        self._whole: tuple[int, int, Levels, Levels] | None = None  # a book that no update has continued yet
        self._prices: tuple[set[float], set[float]] = set(), set()  # prices of bids and asks, if the feed has a limit

    def add(self, line: int, stamp: int, one: _Book) -> None:
        """Apply levels; after a gap the book is unknown until the next whole book."""
        if one.first is not None and one.last is not None:
            if one.reset:
                self.chain.snapshot(line, one.last, one.bids, one.asks)
                self._whole = line, stamp, one.bids, one.asks
            else:
                numbers = one.first, one.last, one.previous
                self.chain.update(DepthUpdate(line, stamp, *numbers, one.bids, one.asks))
            if self.chain.last is not None:
                self.known, self._whole = True, None
            return
        if not one.reset and self.known and one.previous is not None and one.previous != self.last:
            self.book.add(line, stamp, [], [], reset=True)
            self.book.gaps += 1
            self.known = False
        if one.reset or self.known:
            if one.limit is not None:
                one = self._limited(one, one.limit)
            self.book.add(line, stamp, one.bids, one.asks, reset=one.reset)
            self.known, self.last = True, -1 if one.last is None else one.last

    def _limited(self, one: _Book, limit: int) -> _Book:
        """Return a message that also removes the levels beyond the best ``limit`` of each side."""
        sides = []
        for prices, levels, worst in zip(self._prices, (one.bids, one.asks), (min, max), strict=True):
            if one.reset:
                prices.clear()
            prices.update(price for price, size in levels if size)
            prices.difference_update(price for price, size in levels if not size)
            gone = []
            while len(prices) > limit:
                gone.append((worst(prices), 0.0))
                prices.remove(gone[-1][0])
            sides.append([*levels, *gone])
        return one._replace(bids=sides[0], asks=sides[1])

    def end(self) -> None:
        """Add the last snapshot if no update has continued it and the book is unknown without a gap."""
        if self._whole is not None and not self.known and not self.chain.lost:
            line, stamp, bids, asks = self._whole
            self.book.add(line, stamp, bids, asks, reset=True)
            self.known = True


class CaptureFile:
    """One capture of an exchange."""

    word = "line"
    levels = None

    def __init__(self, path: Path, options: ReadingOptions, _: str) -> None:
        self.path, self.options = path, options
        header = next(self._lines())[1]
        if header.exchange not in _EXCHANGES:
            was = header.exchange or "without a name"
            raise DataError(f"{path} must be a capture of {', '.join(sorted(_EXCHANGES))}, was {was}")
        self._exchange = header.exchange
        self._parsers: dict[str, Callable[[Any, str], _Found]] = {}  # by connection
        self.quantity = _QUANTITIES.get(header.exchange, SHARES.quantity)
        self.first: int | None = _nanoseconds(header.recorded)
        self.key = "capture", header.exchange
        self.names: dict[str, None] = {}
        self._count = 0
        self._before = 0
        self._feeds: dict[tuple[str, str], _Feed] = {}

    def continues(self, before: CaptureFile) -> bool:
        """Return False: a capture is a new connection, so no book carries over from the file ``before``."""
        return False

    def parts(self, before: CaptureFile | None) -> Generator[LevelBookPart]:
        """Yield the books and trades of every symbol; a capture begins without books."""
        self._before = 0 if before is None else before._before + before._count
        market = _MARKET_PARTS.get(self._exchange)
        venue = self.options.venue or self._exchange.lower().replace("_", "-")
        venues, begins, waiting = dict[str, str](), dict[str, float](), 0
        for number, line in self._lines():
            self._count = number
            if line.t == "connect":
                part = "/".join(urlsplit(line.addr).path.split("/")[market]) if market is not None else ""
                venues[line.conn], begins[line.conn] = (f"{venue}-{part}" if part else venue), line.ts * 1000
            if line.t not in ("recv", "http") or (line.t == "http" and not _is_book(line.url)):
                continue
            for found in self._found(number, line):
                self.names[found.symbol] = None
                if not is_valid_name(found.symbol, longest=LONGEST_SYMBOL):
                    continue  # a name that recordings cannot have, such as an option's
                feed = self._feed(venues.get(line.conn, venue), found.symbol)
                if isinstance(found, _Book):
                    feed.add(number, _nanoseconds(line.ts), found)
                    waiting += len(found.bids) + len(found.asks)
                elif found.time >= begins.get(line.conn, 0.0):  # exchanges send earlier trades after a subscription
                    feed.book.trade(number, _nanoseconds(line.ts), found.price, found.size, found.resting)
            if waiting >= LEVELS_PER_PART:
                yield from self._take()
                waiting = 0
        for feed in self._feeds.values():
            feed.end()
        yield from self._take()

    def finish(self) -> None:
        """Refuse a capture without books, or without a whole book of a symbol to import."""
        if not self._feeds:
            expected = f"a symbol that is {valid_name_rule(LONGEST_SYMBOL)}"
            raise NoBooksError(f"{self.path} has no books of {self._exchange} with {expected}")
        for (venue, symbol), feed in self._feeds.items():
            if not feed.known and (not self.options.symbols or symbol in self.options.symbols):
                raise DataError(f"{self.path} has no whole book of {symbol} at {venue}; name the symbols to import")

    def _take(self) -> Iterator[LevelBookPart]:
        for feed in self._feeds.values():
            if len(feed.book):
                yield feed.book.take()

    def _feed(self, venue: str, symbol: str) -> _Feed:
        if (venue, symbol) not in self._feeds:
            self._feeds[venue, symbol] = _Feed(LevelBookMessages(venue, symbol, self.path, before=self._before))
        return self._feeds[venue, symbol]

    def _found(self, number: int, line: _Line) -> _Found:
        """Yield the books and trades of a message; refuse a message without the documented fields."""
        try:
            text: bytes | str = line.data
            if line.b64:
                packed = base64.b64decode(line.b64)
                text = gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed
            one = {} if text in ("", "ping", "pong") else msgspec.json.decode(text)
            parse = _EXCHANGES[self._exchange]
            if isinstance(parse, type):
                parse = self._parsers.setdefault(line.conn, parse())
            elif _is_reply(one):
                return
            for found in parse(one, line.url):
                named = found._replace(symbol=found.symbol.upper())
                if isinstance(named, _Trade):
                    named = named._replace(time=float(named.time), price=float(named.price), size=float(named.size))
                yield named
        except (msgspec.DecodeError, KeyError, IndexError, TypeError, ValueError, AttributeError, OSError) as error:
            where = f"line {number:,} of {self.path.name}"
            expected = f"a message of {self._exchange} as it is documented"
            text = f"{type(error).__name__}: {one_line_text(error)}"
            raise DataError(f"{where} must be {expected}, was {shown(line.data[:80])} ({text})") from error

    def _lines(self) -> Generator[tuple[int, _Line]]:
        decoder = msgspec.json.Decoder(_Line)
        for number, text in enumerate(unpacked_file_lines(self.path), 1):
            if not text.strip():
                continue
            where = f"line {number:,} of {self.path.name}"
            try:
                line = decoder.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise DataError(f"{where} must be a line of a capture: {one_line_text(error)}") from error
            if not (0 <= line.ts < 2**33 and 0 <= line.recorded < 2**33):
                raise DataError(f"{where} must have a time of receipt in seconds, was {line.ts or line.recorded:g}")
            yield number, line


def _nanoseconds(seconds: float) -> int:
    """Convert a Unix time to nanoseconds, rounded to the microsecond: a float64 is not more precise."""
    return round(seconds * 1e6) * 1000


def _iso(text: str) -> float:
    """Return a UTC time in milliseconds; digits beyond microseconds are dropped.

    >>> _iso("2026-08-09T21:05:48.168Z") - _iso("2026-08-09T21:05:47.1680001Z")
    1000.0
    """
    whole, _, decimals = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{decimals[:6]:0<6}+00:00").timestamp() * 1000


def _asked(url: str) -> str:
    """Return the symbol in the URL of a request for a book.

    >>> _asked("https://api.binance.com/api/v3/depth?symbol=NKNUSDT&limit=1000")
    'NKNUSDT'
    """
    names = dict(parse_qsl(urlsplit(url).query))
    return names.get("symbol") or names.get("currency_pair") or names["contract"]


def _is_book(url: str) -> bool:
    return any(f"/{word}" in urlsplit(url).path for word in ("depth", "order_book", "orderbook"))


def _is_reply(one: Any) -> bool:
    """Return whether a message answers a subscription or keeps the connection alive."""
    return isinstance(one, dict) and (
        one.get("event") in ("subscribe", "subscribed", "info", "heartbeat", "systemStatus", "subscriptionStatus")
        or any(name in one for name in ("subbed", "ping", "success"))
    )
