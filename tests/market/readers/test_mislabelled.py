"""A small sample of every format: read as what it is whatever its name, and refused by every other reader."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np
import polars
import pytest

from databento_files import mbo_file, random_orders
from iex_files import iex_level, iex_segment, pcap, pcapng
from market_files import (
    ITCH_NAME,
    LOBSTER_NAME,
    MIDNIGHT,
    OPEN,
    TAQ_NAME,
    TICK_NAME,
    Quote,
    binance_text,
    csv_text,
    itch_bytes,
    lobster_texts,
    random_messages,
    random_updates,
    table_columns,
    taq_text,
    tardis_text,
    tick_text,
    visible,
    wrds_text,
    zipped,
)
from riskroute.core.errors import RiskrouteError
from riskroute.market.importing import READERS, _detect_format, import_files
from riskroute.market.readers.reading import ReadingOptions

DAY = dt.date(2019, 3, 27)
ACME = ReadingOptions(("ACME",))
MESSAGES = random_messages(3, 30, kinds="AXDE")
UPDATES = [one._replace(size=2 * one.size) for one in random_updates(np.random.default_rng(0))]
BEGIN = (MIDNIGHT + OPEN) // 10**6  # milliseconds
TIMES = [f"2019-03-27T14:00:0{k}Z" for k in range(3)]
SEGMENTS = [
    iex_segment([iex_level(side, MIDNIGHT + OPEN, "ACME", 100, price) for side, price in (("B", 10.0), ("A", 10.1))], 1)
]
CAPTURE = [
    {"t": "header", "exchange": "OKX", "recorded": BEGIN / 1000},
    {"t": "connect", "conn": "1", "ts": BEGIN / 1000, "addr": "wss://x"},
    {"t": "recv", "conn": "1", "ts": BEGIN / 1000 + 1, "data": json.dumps({
        "arg": {"channel": "books", "instId": "ACME"}, "action": "snapshot",
        "data": [{"bids": [["9.9", "1"]], "asks": [["10.1", "2"]]}]})},
]  # fmt: skip
BOOK = {"bids": [[0.4, 10]], "asks": [[0.45, 5]]}


def lines(*objects: object) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in objects).encode()


def samples() -> dict[str, tuple[str, str, bytes]]:
    """The reader, name and content of every format, by what it is."""
    pair = dict(zip(("message", "orderbook"), lobster_texts(MESSAGES, 2), strict=True))
    quotes = [Quote(OPEN + k * 10**9) for k in range(3)]
    books = csv_text(table_columns(MESSAGES, 1, ("XBOS",)))
    names = {"ts_event": TIMES, "venue": "XBOS", "symbol": "ACME"}
    sides = {"side": ["bid", "ask", "bid"], "price": [9.9, 10.1, 9.8], "size": [1, 2, 3]}
    lists = {"bids": [[[9.9, 1.0]]] * 3, "asks": [[[10.1, 2.0]]] * 3}
    trades = {"price": [10.0, 10.1, 9.9], "amount": [1, 2, 3], "side": ["buy", "sell", "buy"], "id": [1, 2, 3]}
    parquet = polars.DataFrame(names | lists)
    return {
        "ITCH": ("itch", ITCH_NAME, itch_bytes(random_messages(21, 40))),
        "LOBSTER": (
            "lobster",
            "sample.zip",
            zipped({LOBSTER_NAME.format(k, 2): text.encode() for k, text in pair.items()}),
        ),
        "ticks": ("ticks", TICK_NAME, tick_text(MESSAGES, "NPK").encode()),
        "TAQ": ("taq", TAQ_NAME, taq_text(quotes).encode()),
        "WRDS": ("taq", "quotes.csv", wrds_text(quotes).encode()),
        "DBN": ("databento", "day.dbn", mbo_file(random_orders(1, 9))),
        "IEX, pcap": ("iex", "deep.pcap", pcap(SEGMENTS)),
        "IEX, pcapng": ("iex", "deep.pcapng", pcapng(SEGMENTS)),
        "Tardis": ("deltas", "updates.csv", tardis_text(UPDATES, BEGIN * 1000, "XCHI", "ACME").encode()),
        "Binance": ("deltas", "stream.json", binance_text(UPDATES, BEGIN).encode()),
        "a capture": ("deltas", "okx.jsonl", lines(*CAPTURE)),
        "event quotes": ("deltas", "quotes.jsonl", lines({"time": BEGIN, "symbol": "A", "venue": "B", **BOOK})),
        "updates": ("deltas", "levels.csv", polars.DataFrame(names | sides).write_csv().encode()),
        "lists": ("deltas", "lists.parquet", parquet_bytes(parquet)),
        "trades": ("trades", "trades.csv", polars.DataFrame(names | trades).write_csv().encode()),
        "a table": ("table", "books.csv", books.encode()),
    }


def parquet_bytes(frame: polars.DataFrame) -> bytes:
    whole = BytesIO()
    frame.write_parquet(whole)
    return whole.getvalue()


SAMPLES = samples()


def test_every_reader_has_a_sample() -> None:
    assert {reader for reader, *_ in SAMPLES.values()} == set(READERS)


@pytest.mark.parametrize("what", SAMPLES)
def test_a_sample_is_recognised_and_read(tmp_path: Path, what: str) -> None:
    reader, name, content = SAMPLES[what]
    (tmp_path / name).write_bytes(content)
    assert _detect_format(tmp_path / name) == reader
    if reader != "trades":  # trades alone make no book
        wanted = ACME if reader == "itch" else ReadingOptions()
        found = import_files([tmp_path / name], tmp_path / "out", wanted, max_unresolved=1, max_crossed=1)
        assert {one.reader for one in found} == {reader}
        assert sum(one.snapshots for one in found) > 0


@pytest.mark.parametrize("what", SAMPLES)
def test_a_mislabelled_sample_is_refused_by_every_other_reader(tmp_path: Path, what: str) -> None:
    """Whatever its name says, and although the options state all that a file may lack."""
    reader, _, content = SAMPLES[what]
    for other, name, _ in SAMPLES.values():
        if other == reader:
            continue
        path = tmp_path / name
        path.write_bytes(content)
        for options in (ReadingOptions(), ReadingOptions(("ACME",), venue="XBOS", date=DAY, lot=1)):
            with pytest.raises(RiskrouteError) as caught:
                import_files([path], tmp_path / "out", options, kind=other)
            assert "\n" not in str(caught.value)
            assert visible(tmp_path / "out") == []
        path.unlink()


@pytest.mark.parametrize("what", SAMPLES)
def test_a_sample_under_the_name_of_another_is_read_as_itself_or_refused(tmp_path: Path, what: str) -> None:
    reader, _, content = SAMPLES[what]
    for _, name, _ in SAMPLES.values():
        path = tmp_path / name
        path.write_bytes(content)
        with suppress(RiskrouteError):
            found = import_files([path], tmp_path / "out", ACME, max_unresolved=1, max_crossed=1)
            assert {one.reader for one in found} == {reader}, name
        path.unlink()
