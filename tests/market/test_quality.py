"""What every import refuses or says: prices and days that cannot be, hours without books, books crossed for long."""

from __future__ import annotations

import datetime as dt
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from databento_files import OPEN as DATABENTO_OPEN
from databento_files import book_record, metadata, transcoded
from market_files import MIDNIGHT, OPEN, TAQ_NAME, Quote, csv_text, taq_text, visible
from riskroute.cli.app import run_app as command
from riskroute.core.errors import DataError, RiskrouteError
from riskroute.core.instrument import SHARES
from riskroute.market.importing import import_files
from riskroute.market.readers import csv_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore, _BookWatch

DAY = dt.date(2019, 3, 27)
SECOND = 10**9
HOUR = 3600 * SECOND


def table(times: list[int], bids: list[float] | None = None, asks: list[float] | None = None) -> str:
    """Books as CSV; times in nanoseconds since midnight in New York."""
    count = len(times)
    columns: dict[str, list[Any]] = {}
    columns |= {"ts_event": [MIDNIGHT + time for time in times], "venue": ["XNAS"] * count, "symbol": ["ACME"] * count}
    columns |= {"bid_px_00": bids or [9.99] * count, "bid_sz_00": [100] * count}
    columns |= {"ask_px_00": asks or [10.0] * count, "ask_sz_00": [100] * count}
    return csv_text(columns)


def imported(folder: Path, content: str | bytes, name: str = "books.csv", **options: Any) -> Recording:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (one, *_) = import_files([folder / name], folder / "out", options.pop("wanted", ReadingOptions()), **options)
    assert one in RecordingStore(folder / "out").recordings()
    return one


def refusal(folder: Path, content: str | bytes, name: str = "books.csv", **options: Any) -> str:
    with pytest.raises(RiskrouteError) as caught:
        imported(folder, content, name, **options)
    assert visible(folder / "out") == []
    return str(caught.value)


def test_an_ordinary_recording_has_no_remarks(tmp_path: Path) -> None:
    one = imported(tmp_path, table([OPEN + k * 1800 * SECOND for k in range(14)]))
    assert (one.notes, one.remarks) == ({}, [])


def test_hours_without_a_book_are_said(tmp_path: Path) -> None:
    one = imported(tmp_path, table([OPEN, OPEN + SECOND, OPEN + HOUR + 2 * SECOND, OPEN + 2 * HOUR]))
    assert one.notes == {"longest_gap": ["13:30:01", "14:30:02"]}
    assert one.remarks == ["XNAS_ACME_2019-03-27: no snapshot from 13:30:01 to 14:30:02 UTC."]
    assert json.loads((tmp_path / "out" / f"{one.stem}.record.json").read_text())["notes"] == one.notes


@pytest.mark.parametrize(("first", "last"), [(4.0, 9.6), (15.9, 20.0), (4.0, 10.4), (16.0, 19.0)])
def test_quiet_hours_before_and_after_trading_go_without_saying(tmp_path: Path, first: float, last: float) -> None:
    one = imported(tmp_path, table([int(hour * HOUR) for hour in (first, last)]))
    assert one.remarks == []


def test_a_day_that_lacks_its_middle_is_said_by_every_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr(csv_files, "BLOCK", 200)
    one = imported(tmp_path, table([OPEN + k * HOUR // 10 for k in (0, 1, 2, 40, 41, 42)]))
    assert one.notes == {"longest_gap": ["13:42:00", "17:30:00"]}


def crossing(seconds: list[float], crossed: list[int]) -> str:
    times = [OPEN + int(second * SECOND) for second in seconds]
    return table(times, [10.0 if flag else 9.99 for flag in crossed])


def test_books_crossed_for_long_are_said_or_refused(tmp_path: Path) -> None:
    seconds = [*range(100), 3000.0, 3050.0, 6000.0]
    flags = [0] * 100 + [1, 0, 0]
    one = imported(tmp_path, crossing(seconds, flags))
    assert (one.crossed, one.notes["longest_crossed"], one.notes["crossed_seconds"]) == (1, 50.0, 50.0)
    assert one.remarks == ["XNAS_ACME_2019-03-27: crossed or locked for 50.0 s, longest stretch 50.0 s."]
    (tmp_path / "more").mkdir()
    longer = crossing([*range(100), 3000.0, 4000.0, 6000.0], flags)
    said = refusal(tmp_path / "more", longer)
    assert "must be crossed or locked for at most 1.0% of the time, was 16.7%, longest stretch 1,000 s" in said
    assert "max_crossed = 0.17 imports it anyway" in said
    assert imported(tmp_path / "more", longer, max_crossed=0.17).notes["longest_crossed"] == 1000


def test_a_moment_crossed_goes_without_saying(tmp_path: Path) -> None:
    one = imported(tmp_path, crossing([0, *(k + 1.0 for k in range(200)), 201.5, 202.0], [0] * 201 + [1, 0]))
    assert (one.crossed, one.remarks) == (1, [])


def naive_watch(times: list[int], crossed: list[bool]) -> tuple[float, float]:
    """Seconds crossed at longest and in all, by a loop over books."""
    longest = total = stretch = 0
    for k in range(len(times) - 1):
        step = times[k + 1] - times[k]
        stretch = stretch + step if crossed[k] else 0
        total += step if crossed[k] else 0
        longest = max(longest, stretch)
    return longest / SECOND, total / SECOND


@given(
    books=st.lists(st.tuples(st.integers(0, 5 * SECOND), st.booleans()), min_size=1, max_size=30),
    cuts=st.sets(st.integers(1, 29)),
)
def test_stretches_are_those_of_a_loop_however_books_come(books: list[tuple[int, bool]], cuts: set[int]) -> None:
    times = np.cumsum([step for step, _ in books]) + MIDNIGHT + OPEN
    crossed = np.array([flag for _, flag in books])
    watch = _BookWatch(*SHARES.active_session(DAY))
    edges = [0, *sorted(cut for cut in cuts if cut < len(books)), len(books)]
    for first, last in pairwise(edges):
        watch.add(times[first:last], crossed[first:last])
    longest, total = naive_watch(times.tolist(), crossed.tolist())
    notes = watch.notes()
    assert (notes.get("longest_crossed"), notes.get("crossed_seconds")) == (
        (round(longest, 3), round(total, 3)) if longest > 1 else (None, None)
    )


UNITS = transcoded(metadata("mbp-1") + book_record([(9_999, 1, 10_001, 1)], DATABENTO_OPEN))
PRICES: dict[str, tuple[str, str | bytes]] = {
    "table": ("books.csv", table([OPEN], [9.99e9], [10.0e9])),
    "undefined": ("books.csv", table([OPEN], None, [9_223_372_036.854775807])),
    "taq": (TAQ_NAME, taq_text([Quote(OPEN, bid=10_000_000.01, ask=0.0)])),
    "databento": ("a.csv", UNITS.replace(b"100.010000000", b"100010000.0")),
}


@pytest.mark.parametrize("kind", PRICES)
def test_prices_that_cannot_be_are_refused(tmp_path: Path, kind: str) -> None:
    name, content = PRICES[kind]
    said = refusal(tmp_path, content, name)
    assert re.search(r"must be at most 1(0|,000),000,000, was", said)
    assert "are its prices in another unit?" in said


def test_units_among_dollars_are_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, UNITS.replace(b"100.010000000", b"100010000000"), "a.csv")
    assert "prices must be dollars" in said


def test_a_price_at_the_limit_is_read(tmp_path: Path) -> None:
    assert imported(tmp_path, table([OPEN], [9_999_999.0], [1e7])).snapshots == 1


def test_days_before_order_books_are_refused(tmp_path: Path) -> None:
    early = csv_text({"ts_event": ["1975-03-27 10:00:00"], "venue": ["XNAS"], "symbol": ["ACME"]} | _best())
    said = refusal(tmp_path, early)
    assert "must be dated 1990-01-01 or later, was 1975-03-27: are its times in another unit?" in said
    wanted = ReadingOptions(date=dt.date(1989, 12, 31))
    with pytest.raises(DataError, match="must be dated 1990-01-01 or later"):
        imported(tmp_path, taq_text([Quote(OPEN)], end=False), TAQ_NAME, wanted=wanted)


def _best() -> dict[str, list[Any]]:
    return {"bid_px_00": [9.99], "bid_sz_00": [1], "ask_px_00": [10.0], "ask_sz_00": [1]}


def test_the_command_says_it_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quotes = [Quote(OPEN, "N"), Quote(OPEN + 2 * HOUR, "N"), Quote(OPEN + 2 * HOUR, "D")]
    path, out = str(tmp_path / TAQ_NAME), str(tmp_path / "out")
    (tmp_path / TAQ_NAME).write_text(taq_text(quotes, end=False))
    assert command(["market", "import", path, "--out", out]) == 0
    done = capsys.readouterr().out
    assert command(["market", "inspect", out]) == 0
    shown = capsys.readouterr().out
    for text in (
        "no snapshot from 13:30:00 to 15:30:00 UTC.",
        "skipped 1 quotes from outside the exchanges (D, FINRA).",
        "sizes were read as round lots of 100 shares.",
        "the file has no END line and may be truncated.",
    ):
        assert f"XNYS_ACME_2019-03-27: {text}" in done
        assert text in shown
    assert command(["market", "import", path, "--format", "taq", "--lot", "1", "--out", out]) == 0
    assert "round lots" not in capsys.readouterr().out
    (one,) = RecordingStore(tmp_path / "out").recordings()
    assert RecordingStore(tmp_path / "out").snapshots(one)["bid_sz_00"].to_list() == [3, 3]
    newer = path.replace("20190327", "20260105")
    (tmp_path / newer).write_text(taq_text(quotes, end=False))
    assert command(["market", "import", newer, "--out", out]) == 2
    assert "from 2025-11-03 on round lots depend on the price; give --lot" in capsys.readouterr().err
