"""IEX's feeds in network captures: books and trades of DEEP and TOPS, missing and damaged packets."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import market_files
from iex_files import DEEP, TOPS, iex_level, iex_quote, iex_segment, iex_trade, naive_deep, pcap, pcapng
from market_files import check_recordings, sides_of
from riskroute.core.instrument import REG_NMS
from riskroute.market.importing import _detect_format, import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore

BEGIN = 1_577_975_400 * 10**9
"""09:30 on 2 January 2020 in New York, in nanoseconds."""

DEPTH = ReadingOptions(depth=3)


def random_levels(seed: int, count: int = 60) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    found = []
    for k in range(count):
        side = str(rng.choice(["B", "A"]))
        price = 10 + (-1 if side == "B" else 1) * int(rng.integers(1, 6)) / 100
        size = int(rng.integers(0, 4)) * 100
        found.append({"side": side, "price": price, "size": size, "complete": bool(rng.random() < 0.7), "time": k})
    return [*found, {"side": "B", "price": 9.99, "size": 700, "complete": True, "time": count}]


def encoded(levels: list[dict[str, Any]], symbol: str = "AAPL") -> list[bytes]:
    return [
        iex_level(one["side"], BEGIN + one["time"], symbol, one["size"], one["price"], complete=one["complete"])
        for one in levels
    ]


def payloads(messages: list[bytes], protocol: int = DEEP, each: int = 7, first: int = 1) -> list[bytes]:
    """Segments of some messages each, and an empty one that only shows that the feed is alive."""
    some = [iex_segment(messages[k : k + each], first + k, protocol) for k in range(0, len(messages), each)]
    return [iex_segment([], first, protocol), *some, iex_segment([], first + len(messages), protocol)]


def written(folder: Path, content: bytes, name: str = "deep.pcap") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def imported(path: Path, options: ReadingOptions = DEPTH) -> tuple[Recording, polars.DataFrame]:
    (one,) = import_files([path], path.parent / "out", options, max_crossed=1)
    check_recordings(path.parent / "out")
    return one, RecordingStore(path.parent / "out").snapshots(one)


def refusal(path: Path, options: ReadingOptions = DEPTH, **more: Any) -> str:
    return market_files.refusal(path, options, **more)


@pytest.mark.parametrize("seed", range(5))
def test_books_of_deep_are_those_of_a_dictionary(tmp_path: Path, seed: int) -> None:
    levels = random_levels(seed)
    path = written(tmp_path, pcap(payloads([b"S" + bytes(9), *encoded(levels), iex_trade(BEGIN + 61, "AAPL", 1, 10)])))
    assert _detect_format(path) == "iex"
    one, table = imported(path)
    assert (one.stem, one.reader, one.fractional) == ("IEXG_AAPL_2020-01-02", "iex", False)
    assert one.instrument.protection == REG_NMS
    expected = naive_deep(levels, 3)
    assert table.height == len(expected)
    for row, sides in zip(table.iter_rows(named=True), expected, strict=True):
        found = sides_of(row, 3)
        assert [[tuple(level) for level in side if level[0] is not None] for side in found] == list(map(list, sides))


def test_every_kind_of_capture_gives_the_same(tmp_path: Path) -> None:
    segments = payloads(encoded(random_levels(7)))
    _, plain = imported(written(tmp_path, pcap(segments)))
    others = {
        "big.pcap": pcap(segments, ">"),
        "vlan.pcap": pcap(segments, tag=b"\x81\x00\x00\x01"),
        "deep.pcapng": pcapng(segments),
        "big.pcapng": pcapng(segments, ">"),
        "deep.pcap.gz": gzip.compress(pcap(segments)),
        "deep.dump": pcapng(segments),
        "repeated.pcap": pcap([segments[1], *segments]),
    }
    for name, content in others.items():
        path = written(tmp_path, content, name)
        assert _detect_format(path) == "iex", name
        assert imported(path)[1].equals(plain), name


def test_trades_are_events_without_a_side(tmp_path: Path) -> None:
    messages = encoded(random_levels(1))
    messages += [iex_trade(BEGIN + 70, "AAPL", 30, 10.01), iex_trade(BEGIN + 80, "AAPL", 9, 10, auction=True)]
    one, _ = imported(written(tmp_path, pcap(payloads(messages))))
    events = RecordingStore(tmp_path / "out").events(one)
    assert events.select("sequence", "action", "side", "price", "size").rows() == [(62, "T", None, 10.01, 30)]
    assert (one.trades, one.has_events) == (1, False)


def test_quotes_of_tops(tmp_path: Path) -> None:
    messages = [
        iex_quote(BEGIN, "AAPL", (10.0, 100), (10.05, 300)),
        iex_quote(BEGIN + 1, "AAPL", (10.0, 100), (0, 0)),
        iex_quote(BEGIN + 2, "MSFT", (20.0, 100), (20.05, 300)),
        iex_quote(BEGIN + 3, "AAPL", (10.01, 200), (10.05, 300)),
    ]
    path = written(tmp_path, pcap(payloads(messages, TOPS)), "tops.pcap")
    one, table = imported(path, ReadingOptions(("AAPL",)))
    rows = table.select("sequence", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00").rows()
    assert rows == [(1, 10.0, 100, 10.05, 300), (2, 10.0, 100, None, 0), (4, 10.01, 200, 10.05, 300)]
    assert one.depth == 1
    both = import_files([path], tmp_path / "both", ReadingOptions())
    assert [each.symbol for each in both] == ["AAPL", "MSFT"]
    assert "symbol 'APPL' is not among the 2 in tops.pcap; did you mean AAPL?" in refusal(
        path, ReadingOptions(("APPL",))
    )


def test_an_excerpt_says_that_levels_may_be_missing(tmp_path: Path) -> None:
    one, _ = imported(written(tmp_path, pcap(payloads(encoded(random_levels(1)), first=1000))))
    assert "updates begin without a snapshot" in " ".join(one.remarks)


def test_missing_messages_are_refused(tmp_path: Path) -> None:
    segments = payloads(encoded(random_levels(1)))
    path = written(tmp_path, pcap([*segments[:3], *segments[4:]]))
    assert refusal(path).endswith("lacks messages 15 to 21, so its books are unknown; download or record it again")


def test_damaged_and_mislabelled_captures_are_refused(tmp_path: Path) -> None:
    whole = pcap(payloads(encoded(random_levels(1))))
    assert "is truncated" in refusal(written(tmp_path, whole[:-20]))
    assert "is truncated" in refusal(written(tmp_path, whole[: len(whole) - 200], "x.pcap"), kind="iex")
    short = bytearray(whole)
    short[24 + 12] += 1  # the length on the wire
    assert "must have whole packets" in refusal(written(tmp_path, bytes(short)), kind="iex")
    odd = bytearray(whole)
    at = whole.index(encoded(random_levels(1))[0]) - 2
    odd[at] += 3  # the length of a message
    assert "bytes of messages, was damaged" in refusal(written(tmp_path, bytes(odd)), kind="iex")
    other = written(tmp_path, pcap([b"hello", iex_segment([b"x"], 1, 0x9999)]))
    assert "must be a capture of TOPS 1.5, TOPS 1.6, DEEP 1.0 of IEX, was of protocol 0x9999" in refusal(
        other, kind="iex"
    )
    assert "a network capture (pcap)" in refusal(other)
    assert "must be a network capture" in refusal(written(tmp_path, b"PAR1" * 9, "y.pcap"), kind="iex")
    assert "omit zone for deep.pcap" in refusal(written(tmp_path, whole), ReadingOptions(zone="UTC"))
