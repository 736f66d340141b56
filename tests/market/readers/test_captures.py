"""Captures of cryptofeed: the messages of each exchange as it documents them, gaps, damaged and other captures."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars
import pytest

import market_files
from checkout import SHARED_DATA
from market_files import check_recordings
from riskroute.market.importing import _detect_format, import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore

BEGIN = 1_577_836_800.0
"""The first moment of 2020, UTC, in seconds."""

WANTED = ReadingOptions(depth=3)

# By exchange: messages that make the book [(99, 2), (98, 1)] x [(101, 3)], then the bid 98 removed, and a purchase of
# 0.5 at 101. A pair is a request of the REST interface and its answer; times are of the exchange.
MS = 1_577_836_805_000
ISO = "2020-01-01T00:00:05.000000Z"
BIDS, ASKS = [["99", "2"], ["98", "1"]], [["101", "3"]]
NAMED_BIDS, NAMED_ASKS = ([{"price": float(p), "size": float(s)} for p, s in side] for side in (BIDS, ASKS))


def binance(update: dict[str, Any]) -> list[Any]:
    depth = {"e": "depthUpdate", "E": MS, "s": "XY", "b": [["98", "0"]], "a": []} | update
    trade = {"e": "aggTrade", "E": MS, "T": MS, "s": "XY", "a": 1, "p": "101", "q": "0.5", "m": False}
    whole = {"lastUpdateId": 10, "bids": BIDS, "asks": ASKS}
    first = depth | {"U": 10, "u": 11, "b": [], "pu": 9} if "pu" in update else depth | {"U": 10, "u": 11, "b": []}
    return [
        ("https://x/api/v3/depth?symbol=XY&limit=9", whole),
        *({"stream": "s", "data": one} for one in (first, depth, trade)),
    ]


def gateio(levels: Any, trade: dict[str, Any], channel: str) -> list[Any]:
    def message(name: str, result: Any) -> dict[str, Any]:
        return {"time": 1, "channel": f"{channel}.{name}", "event": "update", "result": result}

    whole = {"id": 10, "bids": levels(BIDS), "asks": levels(ASKS)}
    changes = [
        {"s": "XY", "U": 10, "u": 11, "b": [], "a": []},
        {"s": "XY", "U": 12, "u": 12, "b": levels([["98", "0"]]), "a": []},
    ]
    name = "contract" if channel == "futures" else "currency_pair"
    request = f"https://x/api/v4/{channel}/order_book?{name}=XY&limit=100&with_id=true"
    traded = {name: "XY", "create_time_ms": MS, "price": "101"} | trade
    trades = [traded] if channel == "futures" else traded
    return [(request, whole), *(message("order_book_update", one) for one in changes), message("trades", trades)]


def channel(name: str, content: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": "x",
        "params": {"channel": name, ("data" if "." in name else "message"): content},
    }


MESSAGES: dict[str, list[Any]] = {
    "BINANCE": binance({"U": 12, "u": 12}),
    "BINANCE_FUTURES": binance({"U": 20, "u": 21, "pu": 11}),
    "BITFINEX": [
        {"event": "subscribed", "channel": "book", "chanId": 7, "symbol": "tXY"},
        {"event": "subscribed", "channel": "trades", "chanId": 8, "symbol": "tXY"},
        [8, [[1, MS - 60_000, 0.5, 100]], 1],
        [7, [[99, 1, 2], [98, 3, 1], [101, 1, -3]], 2],
        [7, "hb", 3],
        [7, [98, 0, 1], 4],
        [8, "tu", [2, MS, 0.5, 101], 5],
        [8, "te", [2, MS, 0.5, 101], 6],
    ],
    "BITFLYER": [
        channel("lightning_board_XY", {"bids": [{"price": 97.0, "size": 5.0}], "asks": []}),
        channel("lightning_board_snapshot_XY", {"bids": NAMED_BIDS, "asks": NAMED_ASKS}),
        channel("lightning_board_XY", {"bids": [{"price": 98.0, "size": 0.0}], "asks": []}),
        channel(
            "lightning_executions_XY",
            [{"side": "BUY", "price": 101.0, "size": 0.5, "exec_date": "2020-01-01T00:00:05.1234567Z"}],
        ),
    ],
    "BITGET": [
        {"action": "snapshot", "arg": {"channel": "books", "instId": "XY"}, "data": [{"bids": BIDS, "asks": ASKS}]},
        {
            "action": "update",
            "arg": {"channel": "books", "instId": "XY"},
            "data": [{"bids": [["98", "0"]], "asks": []}],
        },
        {"action": "update", "arg": {"channel": "trade", "instId": "XY"}, "data": [[str(MS), "101", "0.5", "buy"]]},
    ],
    "BITSTAMP": [
        ("https://x/api/v2/order_book/xy", {"microtimestamp": "5", "bids": BIDS, "asks": ASKS}),
        {
            "event": "data",
            "channel": "diff_order_book_xy",
            "data": {"microtimestamp": "4", "bids": [["99", "0"]], "asks": []},
        },
        {"event": "data", "channel": "diff_order_book_xy", "data": {"microtimestamp": "6", "bids": [], "asks": []}},
        {
            "event": "data",
            "channel": "diff_order_book_xy",
            "data": {"microtimestamp": "9", "bids": [["98", "0"]], "asks": []},
        },
        {
            "event": "trade",
            "channel": "live_trades_xy",
            "data": {"microtimestamp": f"{MS}000", "price_str": "101", "amount_str": "0.5", "type": 0},
        },
    ],
    "BYBIT": [
        {"topic": "orderbook.200.XY", "type": "snapshot", "data": {"s": "XY", "b": BIDS, "a": ASKS, "u": 1}},
        {"topic": "orderbook.200.XY", "type": "delta", "data": {"s": "XY", "b": [["98", "0"]], "a": [], "u": 2}},
        {
            "topic": "publicTrade.XY",
            "type": "snapshot",
            "data": [{"T": MS, "s": "XY", "S": "Buy", "v": "0.5", "p": "101"}],
        },
    ],
    "COINBASE": [
        {
            "channel": "l2_data",
            "events": [
                {
                    "type": kind,
                    "product_id": "XY",
                    "updates": [{"side": side, "price_level": p, "new_quantity": s} for side, p, s in rows],
                }
            ],
        }
        for kind, rows in (
            ("snapshot", [*(("bid", *level) for level in BIDS), ("offer", "101", "3")]),
            ("update", [("bid", "98", "0")]),
        )
    ]
    + [
        {
            "channel": "market_trades",
            "events": [
                {
                    "type": "update",
                    "trades": [{"product_id": "XY", "price": "101", "size": "0.5", "time": ISO, "side": "SELL"}],
                }
            ],
        }
    ],
    "CRYPTO.COM": [
        {"result": {"instrument_name": "XY", "channel": "book", "data": [{"bids": BIDS, "asks": ASKS}]}},
        {"result": {"instrument_name": "XY", "channel": "book", "data": [{"bids": BIDS[:1], "asks": ASKS}]}},
        {"result": {"channel": "trade", "data": [{"i": "XY", "t": MS, "p": 101, "q": 0.5, "s": "BUY"}]}},
    ],
    "DERIBIT": [
        channel(
            "book.XY.raw",
            {
                "type": "snapshot",
                "instrument_name": "XY",
                "change_id": 5,
                "bids": [["new", 99, 2], ["new", 98, 1]],
                "asks": [["new", 101, 3]],
            },
        ),
        channel(
            "book.XY.raw",
            {
                "type": "change",
                "instrument_name": "XY",
                "change_id": 8,
                "prev_change_id": 5,
                "bids": [["delete", 98, 0]],
                "asks": [],
            },
        ),
        channel(
            "trades.XY.raw",
            [{"instrument_name": "XY", "timestamp": MS, "price": 101, "amount": 0.5, "direction": "buy"}],
        ),
    ],
    "GATEIO": gateio(lambda levels: levels, {"side": "buy", "amount": "0.5"}, "spot"),
    "GATEIO_FUTURES": gateio(lambda levels: [{"p": p, "s": float(s)} for p, s in levels], {"size": 0.5}, "futures"),
    "GEMINI": [
        {
            "type": "l2_updates",
            "symbol": "XY",
            "changes": [*(["buy", *level] for level in BIDS), ["sell", "101", "3"]],
            "trades": [],
            "auction_events": [],
        },
        {"type": "l2_updates", "symbol": "XY", "changes": [["buy", "98", "0"]]},
        {"type": "trade", "symbol": "XY", "timestamp": MS, "price": "101", "quantity": "0.5", "side": "buy"},
    ],
    "HUOBI": [
        {"ch": "market.xy.depth.step0", "tick": {"bids": [[99, 2], [98, 1]], "asks": [[101, 3]]}},
        {"ch": "market.xy.depth.step0", "tick": {"bids": [[99, 2]], "asks": [[101, 3]]}},
        {
            "ch": "market.xy.trade.detail",
            "tick": {"data": [{"ts": MS, "price": 101, "amount": 0.5, "direction": "buy"}]},
        },
    ],
    "KRAKEN": [
        [7, {"as": [["101", "3", "1.5"]], "bs": [[*level, "1.5"] for level in BIDS]}, "book-1000", "XY"],
        [7, {"b": [["98", "0", "1.6"]]}, {"a": [["101", "3", "1.6"]], "c": "1"}, "book-1000", "XY"],
        [8, [["101", "0.5", str(MS / 1000), "b", "m", ""]], "trade", "XY"],
    ],
    "KRAKEN_FUTURES": [
        {
            "feed": "book_snapshot",
            "product_id": "XY",
            "seq": 5,
            "bids": [{"price": 99, "qty": 2}, {"price": 98, "qty": 1}],
            "asks": [{"price": 101, "qty": 3}],
        },
        {"feed": "book", "product_id": "XY", "side": "buy", "seq": 6, "price": 98, "qty": 0},
        {"feed": "trade", "product_id": "XY", "side": "buy", "time": MS, "price": 101, "qty": 0.5},
    ],
    "KUCOIN": [
        (
            "https://x/api/v3/market/orderbook/level2?symbol=XY",
            {"data": {"sequence": "10", "bids": BIDS, "asks": ASKS}},
        ),
        {
            "subject": "trade.l2update",
            "data": {
                "symbol": "XY",
                "sequenceStart": 11,
                "sequenceEnd": 11,
                "changes": {"bids": [["0", "0", "11"]], "asks": []},
            },
        },
        {
            "subject": "trade.l2update",
            "data": {
                "symbol": "XY",
                "sequenceStart": 12,
                "sequenceEnd": 12,
                "changes": {"bids": [["98", "0", "12"]], "asks": []},
            },
        },
        {
            "subject": "trade.l3match",
            "data": {"symbol": "XY", "time": f"{MS}000000", "price": "101", "size": "0.5", "side": "buy"},
        },
    ],
    "OKX": [
        {
            "arg": {"channel": "books", "instId": "XY"},
            "action": "snapshot",
            "data": [{"bids": [[*level, "0", "1"] for level in BIDS], "asks": [["101", "3", "0", "1"]]}],
        },
        {
            "arg": {"channel": "books", "instId": "XY"},
            "action": "update",
            "data": [{"bids": [["98", "0", "0", "0"]], "asks": []}],
        },
        {
            "arg": {"channel": "trades", "instId": "XY"},
            "data": [{"instId": "XY", "ts": str(MS), "px": "101", "sz": "0.5", "side": "buy"}],
        },
    ],
    "POLONIEX": [
        {
            "channel": "book_lv2",
            "action": "snapshot",
            "data": [{"symbol": "XY", "bids": BIDS, "asks": ASKS, "lastId": 4, "id": 5}],
        },
        {
            "channel": "book_lv2",
            "action": "update",
            "data": [{"symbol": "XY", "bids": [["98", "0"]], "asks": [], "lastId": 5, "id": 6}],
        },
        {
            "channel": "trades",
            "data": [{"symbol": "XY", "createTime": MS, "price": "101", "quantity": "0.5", "takerSide": "buy"}],
        },
    ],
    "UPBIT": [
        {
            "ty": "orderbook",
            "cd": "XY",
            "obu": [{"bp": 99, "bs": 2, "ap": 101, "as": 3}, {"bp": 98, "bs": 1, "ap": 102, "as": 0}],
        },
        {"ty": "orderbook", "cd": "XY", "obu": [{"bp": 99, "bs": 2, "ap": 101, "as": 3}]},
        {"ty": "trade", "cd": "XY", "ttms": MS, "tp": 101, "tv": 0.5, "ab": "BID"},
    ],
}


def capture(exchange: str, messages: list[Any], *, packed: bool = False) -> list[dict[str, Any]]:
    """A header, a connection, a subscription and its answer, then a message per second."""
    address = "wss://x/spot/v1/stream" if exchange == "BITGET" else "wss://x/v5/public/spot"
    connection = {"conn": f"{exchange}.ws.1", "ts": BEGIN}
    lines = [
        {"t": "header", "format": 2, "exchange": exchange, "config": {}, "recorded": BEGIN},
        connection | {"t": "connect", "addr": address},
        connection | {"t": "send", "addr": address, "data": "{}"},
        connection | {"t": "recv", "data": '{"event": "subscribe"}'},
    ]
    for second, one in enumerate(messages, 1):
        url, content = one if isinstance(one, tuple) else ("", one)
        text = json.dumps(content)
        body = {"b64": base64.b64encode(gzip.compress(text.encode())).decode()} if packed else {"data": text}
        kind = {"t": "http", "url": url} if url else {"t": "recv"}
        lines.append(connection | kind | body | {"ts": BEGIN + second})
    return lines


def written(folder: Path, lines: list[dict[str, Any]], name: str = "x.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def imported(path: Path, options: ReadingOptions = WANTED) -> tuple[Recording, polars.DataFrame]:
    (one,) = import_files([path], path.parent / "out", options)
    check_recordings(path.parent / "out")
    return one, RecordingStore(path.parent / "out").snapshots(one)


def refusal(path: Path, options: ReadingOptions = WANTED, **more: Any) -> str:
    return market_files.refusal(path, options, **more)


@pytest.mark.parametrize("exchange", MESSAGES)
def test_the_messages_of_an_exchange(tmp_path: Path, exchange: str) -> None:
    path = written(tmp_path, capture(exchange, MESSAGES[exchange]))
    assert _detect_format(path) == "deltas"
    one, table = imported(path)
    market = "-spot" if exchange in ("BITGET", "BYBIT") else ""
    assert (one.venue, one.symbol, one.gaps) == (exchange.lower().replace("_", "-") + market, "XY", 0)
    rows = table.select(
        "bid_px_00", "bid_sz_00", "bid_px_01", "bid_sz_01", "ask_px_00", "ask_sz_00", "ask_px_01"
    ).rows()
    assert rows == [(99, 2, 98, 1, 101, 3, None), (99, 2, None, 0, 101, 3, None)]
    events = RecordingStore(tmp_path / "out").events(one)
    assert events.select("action", "side", "price", "size").rows() == [("T", "A", 101, 0.5)]
    assert events["ts_event"][0].second == len(MESSAGES[exchange])
    assert imported(written(tmp_path, capture(exchange, MESSAGES[exchange], packed=True)))[1].equals(table)


NUMBERED = {
    "DERIBIT": ("params", "data", "prev_change_id"),
    "POLONIEX": ("data", 0, "lastId"),
    "KRAKEN_FUTURES": ("seq",),
}


@pytest.mark.parametrize("exchange", NUMBERED)
def test_a_missing_update_empties_the_book(tmp_path: Path, exchange: str) -> None:
    messages = json.loads(json.dumps(MESSAGES[exchange]))
    one = messages[1]
    for name in NUMBERED[exchange][:-1]:
        one = one[name]
    one[NUMBERED[exchange][-1]] += 1
    found, table = imported(written(tmp_path, capture(exchange, [*messages[:2], messages[0]])))
    assert found.gaps == 1
    assert table["bid_px_00"].to_list() == [99, None, 99]


def test_levels_beyond_the_subscribed_depth_are_removed(tmp_path: Path) -> None:
    """Kraken does not say that a level has left the best ones, and says so when it comes back."""

    def message(**sides: Any) -> list[Any]:
        named = {side: [[price, size, "1.5"] for price, size in levels] for side, levels in sides.items()}
        return [7, named, "book-2", "XY"]

    messages = [
        message(bs=BIDS, **{"as": [["101", "3"], ["102", "1"]]}),
        message(b=[["99.5", "1"]]),
        message(b=[["99.5", "0"]]),
        message(a=[["101", "0"]]),
        message(b=[["98", "4"]], a=[["103", "1"]]),
    ]
    _, table = imported(written(tmp_path, capture("KRAKEN", messages)))
    rows = table.select("bid_px_00", "bid_px_01", "ask_px_00", "ask_px_01").rows()
    assert rows == [
        (99, 98, 101, 102),
        (99.5, 99, 101, 102),
        (99, None, 101, 102),
        (99, None, 102, None),
        (99, 98, 102, 103),
    ]


def test_trades_before_the_connection_are_left_out(tmp_path: Path) -> None:
    messages = json.loads(json.dumps(MESSAGES["OKX"]))
    messages[2]["data"][0]["ts"] = str(MS - 60_000)
    one, _ = imported(written(tmp_path, capture("OKX", messages)))
    assert one.trades == 0


def test_a_book_that_nothing_changed_is_kept(tmp_path: Path) -> None:
    one, table = imported(written(tmp_path, capture("BINANCE", MESSAGES["BINANCE"][:1])))
    assert (one.snapshots, table["bid_px_00"][0]) == (1, 99)


def test_updates_without_a_whole_book_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, capture("OKX", MESSAGES["OKX"][1:]))
    assert "has no whole book of XY at okx; name the symbols to import" in refusal(path)


DAMAGED: dict[str, tuple[Any, str]] = {
    "another exchange": (capture("NYSE", []), "must be a capture of BINANCE, BINANCE_DELIVERY, "),
    "an unknown shape": (capture("PHEMEX", []), ", was PHEMEX"),
    "a mislabelled capture": (
        capture("KRAKEN_FUTURES", [{"feed": "book", "price": 1}]),
        "line 5 of x.jsonl must be a message of KRAKEN_FUTURES",
    ),
    "a level of words": (
        capture("BYBIT", [{"topic": "orderbook", "type": "snapshot", "data": {"s": "X", "b": [["x", "1"]], "a": []}}]),
        "line 5 of x.jsonl must be a message of BYBIT as it is documented",
    ),
    "a negative size": (
        capture("BYBIT", [{"topic": "orderbook", "type": "snapshot", "data": {"s": "X", "b": [["9", "-1"]], "a": []}}]),
        "line 5 of x.jsonl must have an amount of 0 or more, was -1.0",
    ),
    "a late time": (
        [*capture("OKX", []), {"t": "recv", "conn": "OKX.ws.1", "ts": 1e12, "data": "{}"}],
        "line 5 of x.jsonl must have a time of receipt in seconds, was 1e+12",
    ),
    "a request of nothing": (
        capture("BINANCE", [("https://x/depth?limit=5", {"lastUpdateId": 1, "bids": [], "asks": []})]),
        "line 5 of x.jsonl must be a message of BINANCE as it is documented",
    ),
    "no books": (capture("OKX", []), "has no books of OKX"),
    "no line": ([*capture("OKX", []), {"x": 1}], "line 5 of x.jsonl must be a line of a capture"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_captures_are_refused(tmp_path: Path, damage: str) -> None:
    lines, expected = DAMAGED[damage]
    assert expected in refusal(written(tmp_path, lines))


def test_a_cut_capture_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, capture("OKX", MESSAGES["OKX"]))
    path.write_text(path.read_text()[:-30])
    assert "line 7 of x.jsonl must be a line of a capture" in refusal(path)


def real(name: str) -> Path:
    path = SHARED_DATA / "cryptofeed" / f"{name}.jsonl.zst"
    if not path.is_file():
        pytest.skip(f"no {path}")
    return path


def real_messages(path: Path) -> list[tuple[float, Any]]:
    import pyarrow

    with pyarrow.input_stream(str(path), compression="zstd") as file:
        lines = [json.loads(line) for line in file.read().decode().splitlines()]
    return [(one["ts"], json.loads(one["data"])) for one in lines if one["t"] == "recv" and one.get("data")]


Sides = dict[str, list[list[str]]]


def signed_books(exchange: str, symbol: str, messages: list[tuple[float, Any]]) -> Iterator[tuple[bool, Sides, int]]:
    """Whether a message is a whole book, its levels as texts, and the checksum of the book after it."""
    for _, one in messages:
        if exchange == "KRAKEN" and isinstance(one, list) and one[-2].startswith("book") and one[-1] == symbol:
            parts = {name: levels for part in one[1:-2] for name, levels in part.items()}
            sides = {side: parts.get(side[0] + "s", parts.get(side[0], [])) for side in ("bids", "asks")}
            yield "as" in parts, sides, int(parts["c"]) if "c" in parts else -1
        elif exchange != "KRAKEN" and one.get("arg", {}).get("instId") == symbol and "checksum" in str(one):
            (data,) = one["data"]
            yield one["action"] == "snapshot", {side: data[side] for side in ("bids", "asks")}, data["checksum"] % 2**32


def checksum(exchange: str, bids: list[Any], asks: list[Any]) -> int:
    """The checksum that an exchange documents, of prices and sizes as texts."""
    if exchange == "KRAKEN":  # of ten levels per side, without points and leading zeros
        return zlib.crc32("".join(t.replace(".", "").lstrip("0") for p in (*asks[:10], *bids[:10]) for t in p).encode())
    pairs = itertools.zip_longest(bids, asks)
    return zlib.crc32(":".join(":".join(level) for pair in pairs for level in pair if level).encode())


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("exchange", "symbol"),
    [("OKX", "BTC-USDT"), ("BITGET", "DASHUSDT"), ("KRAKEN", "XMR/USD"), ("KRAKEN", "WAVES/EUR")],
)
def test_real_books_have_the_checksums_that_the_exchange_sends(tmp_path: Path, exchange: str, symbol: str) -> None:
    """They sign the best levels as texts, so the naive book of this test keeps texts."""
    path = real(exchange)
    books: dict[str, dict[str, str]] = {"bids": {}, "asks": {}}
    expected, signed = [], 0
    for whole, found, signature in signed_books(exchange, symbol, real_messages(path)):
        for name, levels in books.items():
            if whole:
                levels.clear()
            levels.update({level[0]: level[1] for level in found[name]})
            for price in [price for price, size in levels.items() if float(size) == 0]:
                del levels[price]
        sides = [
            sorted(books[name].items(), key=lambda level: float(level[0]), reverse=name == "bids")[:25]
            for name in books
        ]
        if signature >= 0:
            assert checksum(exchange, *sides) == signature
            signed += 1
        expected.append([[(float(p), float(s)) for p, s in side] for side in sides])
    assert signed > 40
    (one,) = import_files([path], tmp_path, ReadingOptions((symbol,), depth=25))
    rows = RecordingStore(tmp_path).snapshots(one)
    kept = [
        [[(row[f"{side}_px_{k:02d}"], row[f"{side}_sz_{k:02d}"]) for k in range(25)] for side in ("bid", "ask")]
        for row in rows.iter_rows(named=True)
    ]
    changed = [book for book, before in zip(expected, [None, *expected], strict=False) if book != before]
    assert kept == changed


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("exchange", "symbol", "counted", "currency"),
    [
        ("GATEIO_FUTURES", "OMG_USDT", "contracts", "unknown currency"),
        ("UPBIT", "KRW-WAVES", "units", "unknown currency"),
        ("KRAKEN", "ADA/XBT", "ADA", "XBT"),
        ("GEMINI", "USDTUSD", "USDT", "USD"),
    ],
)
def test_derived_instruments_count_what_the_exchange_trades(
    tmp_path: Path, exchange: str, symbol: str, counted: str, currency: str
) -> None:
    path = written(tmp_path, capture(exchange, MESSAGES[exchange]))
    path.write_text(path.read_text().replace("XY", symbol))
    (one,) = import_files([path], tmp_path / "out", ReadingOptions())
    assert (one.symbol, one.instrument.quantity, one.instrument.currency) == (symbol, counted, currency)


REFUSED = {
    "BITHUMB": "must be a capture of BINANCE, ",
    "DERIBIT": "has no books of DERIBIT with a symbol that is a name of up to 16 letters",
    "INDEPENDENT_RESERVE": "must be a capture of BINANCE, ",
    "PHEMEX": "must be a capture of BINANCE, ",
}
REAL = sorted({*MESSAGES, "BINANCE_US", "BINANCE_DELIVERY", "HUOBI_SWAP"} - {"DERIBIT"})


@pytest.mark.real_data
@pytest.mark.parametrize("exchange", REFUSED)
def test_real_captures_that_cannot_be_read_are_refused(exchange: str) -> None:
    """The docs list these four, with the reasons."""
    every = {path.name.partition(".jsonl")[0] for path in real(exchange).parent.iterdir()}
    assert every == {*REFUSED, *REAL}
    assert REFUSED[exchange] in refusal(real(exchange), ReadingOptions())


@pytest.mark.real_data
@pytest.mark.parametrize("exchange", REAL)
def test_real_captures_are_read(tmp_path: Path, exchange: str) -> None:
    recordings = import_files([real(exchange)], tmp_path, ReadingOptions(depth=2))
    assert {one.crossed + one.gaps for one in recordings} == {0}
    assert sum(one.snapshots for one in recordings) > 50
    check_recordings(tmp_path)
