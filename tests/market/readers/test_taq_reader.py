"""Quotes of TAQ and WRDS: books as a plain loop has them, units of size, days, and rows that are refused."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import market_files
from market_files import (
    ANY,
    MIDNIGHT,
    OPEN,
    TAQ_NAME,
    Quote,
    check_recordings,
    clock,
    gzipped,
    taq_text,
    wrds_text,
    zipped,
)
from riskroute.core.errors import RiskrouteError
from riskroute.market.importing import _detect_format, import_files
from riskroute.market.readers import csv_files, taq
from riskroute.market.readers.reading import EXCHANGE_CODES, ReadingOptions
from riskroute.market.recordings import RecordingStore

Found = dict[str, list[tuple[int, int, float | None, int, float | None, int]]]


QUOTES = [
    Quote(OPEN + 123_456_789, "N"),
    Quote(OPEN + 223_456_789, "Q", bid=9.99, ask_size=7),
    Quote(OPEN + 10**9, "N", bid_size=0, bid=0.0),
    Quote(OPEN + 2 * 10**9, "T", condition="N"),
]


def naive(quotes: list[Quote], lot: int = 100) -> Found:
    """Per venue (row, nanoseconds, bid, size, ask, size), by a loop."""
    found: Found = {}
    for number, one in enumerate(quotes, start=1):
        if one.cancelled == "B" or one.letter == "D":
            continue
        sides: list[Any] = []
        for price, size in ((one.bid, one.bid_size), (one.ask, one.ask_size)):
            there = price and size and one.condition in taq.TaqReader.FIRM
            sides += [price, size * lot] if there else [None, 0]
        found.setdefault(EXCHANGE_CODES[one.letter], []).append((number, one.time, *sides))
    return found


def read(folder: Path, text: str, name: str = TAQ_NAME, wanted: ReadingOptions = ANY, **options: Any) -> Found:
    (folder / name).write_text(text)
    recordings = import_files([folder / name], folder / f"{name}.out", wanted, **options)
    found: Found = {}
    for one in recordings:
        table = RecordingStore(folder / f"{name}.out").snapshots(one)
        times = table["ts_event"].cast(polars.Int64) - MIDNIGHT
        levels = table.select("bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00").rows()
        found[one.venue] = [(*keys, *level) for *keys, level in zip(table["sequence"], times, levels, strict=True)]
    return found


def refusal(folder: Path, text: str, name: str = TAQ_NAME, wanted: ReadingOptions = ANY, **options: Any) -> str:
    (folder / name).write_text(text)
    return market_files.refusal(folder / name, wanted, **options)


QUOTE = st.tuples(
    st.integers(0, 10**10),
    st.sampled_from("NQTPDUVHL"),
    st.sampled_from([0.0, 9.99, 10.0]),
    st.integers(0, 9),
    st.sampled_from([0.0, 10.01, 10.02]),
    st.integers(0, 9),
    st.sampled_from(["R", "R", "A", "N", "", "4"]),
    st.sampled_from(["A", "A", "B", "C"]),
)


@pytest.mark.usefixtures("untraced")
@settings(max_examples=20)
@given(steps=st.lists(QUOTE, min_size=1, max_size=20), block=st.sampled_from([300, 1 << 20]), form=st.booleans())
def test_quotes_are_read_as_a_loop_does_whatever_the_blocks(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], block: int, form: bool
) -> None:
    folder, now, quotes = tmp_path_factory.mktemp("taq"), OPEN, []
    for step, *rest in steps:
        now += step
        quotes.append(Quote(now, *rest))
    expected = naive(quotes)
    text, name = (wrds_text(quotes), "quotes.csv") if form else (taq_text(quotes), TAQ_NAME)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "BLOCK", block)
        if expected:
            assert read(folder, text, name) == expected
            check_recordings(folder / f"{name}.out")
        else:
            assert re.search("has no (quotes|snapshots)", refusal(folder, text, name))


def test_both_forms_and_their_packings_give_the_same(tmp_path: Path) -> None:
    expected = naive(QUOTES)
    assert expected["XNYS"][0] == (1, OPEN + 123_456_789, 10.0, 300, 10.01, 500)
    assert expected["XNAS"][1][2:] == (None, 0, None, 0)
    forms = {TAQ_NAME: taq_text(QUOTES), "q.csv": wrds_text(QUOTES), "r.csv": wrds_text(QUOTES, "20190327", lower=True)}
    forms |= {"s.csv": wrds_text(QUOTES, "27MAR2019"), "t_20190327.psv": taq_text(QUOTES)}
    for name, text in forms.items():
        assert read(tmp_path, text, name) == expected
        assert _detect_format(tmp_path / name) == "taq"
    for name, content in {
        "EQY_US_ALL_BBO_20190327.gz": gzipped(taq_text(QUOTES).encode()),
        "wrds.csv.gz": gzipped(wrds_text(QUOTES).encode()),
        "wrds.zip": zipped({"wrds.csv": wrds_text(QUOTES).encode()}),
    }.items():
        (tmp_path / name).write_bytes(content)
        found = import_files([tmp_path / name], tmp_path / f"{name}.out", ANY)
        assert {one.venue: one.snapshots for one in found} == {venue: len(rows) for venue, rows in expected.items()}


@pytest.mark.parametrize(("digits", "unit"), [(3, 10**6), (6, 1000), (9, 1)])
def test_times_of_older_files_have_fewer_digits(tmp_path: Path, digits: int, unit: int) -> None:
    time = clock(OPEN + 123_456_789, "{:02d}{:02d}{:02d}{:09d}")
    text = taq_text(QUOTES[:1]).replace(time, time[: 6 + digits])
    assert read(tmp_path, text)["XNYS"][0][1] == OPEN + 123_456_789 // unit * unit
    more = wrds_text(QUOTES[:1]).replace(".123456789,", ".123456,").splitlines()
    with_nano = "\n".join([more[0] + ",TIME_M_NANO", more[1] + ",789"]) + "\n"
    assert read(tmp_path, with_nano, "q.csv")["XNYS"][0][1] == OPEN + 123_456_789


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    quotes = [*QUOTES, Quote(OPEN + 3 * 10**9, "D"), Quote(OPEN + 4 * 10**9, "N", cancelled="B")]
    (tmp_path / TAQ_NAME).write_text(taq_text(quotes, end=False))
    found = {one.venue: one.notes for one in import_files([tmp_path / TAQ_NAME], tmp_path / "out", ANY)}
    both = {"finra": 1, "no_last_line": 1}
    assert found["XNYS"] == {"cancelled_quotes": 1, "lots_of_100": 2, **both}
    assert found["XNAS"] == {"not_firm": 1, "lots_of_100": 2, **both}


def test_files_of_national_best_quotes_say_so(tmp_path: Path) -> None:
    lines = taq_text(QUOTES[:2], end=False).splitlines()
    text = "\n".join([lines[0] + "|Best_Bid_Price", *(line + "|10.0" for line in lines[1:])]) + "\n"
    (tmp_path / "EQY_US_ALL_NBBO_20190327").write_text(text)
    found = import_files([tmp_path / "EQY_US_ALL_NBBO_20190327"], tmp_path / "out", ANY)
    assert {one.notes["best_only"] for one in found} == {1}


def test_sizes_are_in_the_lots_that_are_given(tmp_path: Path) -> None:
    for lot in (1, 40, 100):
        assert read(tmp_path, taq_text(QUOTES), f"{TAQ_NAME}_{lot}", ReadingOptions(lot=lot)) == naive(QUOTES, lot)
    wrong: list[Any] = [0, -1, 10_001, 1.5, "many"]
    for value in wrong:
        with pytest.raises(RiskrouteError, match="lot must be"):
            ReadingOptions(lot=value)


def test_sizes_in_shares_are_not_taken_for_lots(tmp_path: Path) -> None:
    quotes = [Quote(OPEN + k, bid_size=100 * (1 + k % 5), ask_size=200) for k in range(120)]
    said = refusal(tmp_path, taq_text(quotes))
    assert "so they are shares, not lots of 100; give lot = 1" in said
    assert read(tmp_path, taq_text(quotes), wanted=ReadingOptions(lot=1)) == naive(quotes, 1)


def test_newer_files_need_a_lot(tmp_path: Path) -> None:
    text = taq_text(QUOTES, end=False)
    said = refusal(tmp_path, text, "SPLITS_US_ALL_BBO_A_20251103")
    assert "from 2025-11-03 on round lots depend on the price; give lot" in said
    (tmp_path / "SPLITS_US_ALL_BBO_A_20251031").write_text(text)
    import_files([tmp_path / "SPLITS_US_ALL_BBO_A_20251031"], tmp_path / "before", ANY)
    import_files([tmp_path / "SPLITS_US_ALL_BBO_A_20251103"], tmp_path / "after", ReadingOptions(lot=1))


def test_symbols_have_a_dot_before_their_suffix(tmp_path: Path) -> None:
    quotes = [Quote(OPEN, symbol="BRK A"), Quote(OPEN + 1, symbol="ACME"), Quote(OPEN + 2, symbol="brk A")]
    for name, text in {TAQ_NAME: taq_text(quotes), "q.csv": wrds_text(quotes)}.items():
        (tmp_path / name).write_text(text)
        for wanted in ("BRK.A", "brk a"):
            (one,) = import_files([tmp_path / name], tmp_path / f"{name}{wanted}", ReadingOptions((wanted,)))
            assert (one.symbol, one.snapshots) == ("BRK.A", 2)
        both = import_files([tmp_path / name], tmp_path / f"{name}.all", ANY)
        assert sorted(one.symbol for one in both) == ["ACME", "BRK.A"]
    said = refusal(tmp_path, taq_text(quotes), wanted=ReadingOptions(("ACNE",)))
    assert "did you mean ACME" in said


def test_a_file_of_many_symbols_needs_a_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taq, "MOST_SYMBOLS", 1)
    quotes = [Quote(OPEN, symbol="A"), Quote(OPEN, symbol="B")]
    assert "symbols" in refusal(tmp_path, taq_text(quotes))
    assert list(read(tmp_path, taq_text(quotes), wanted=ReadingOptions(("B",)))) == ["XNYS"]


def test_files_are_in_the_order_of_symbols(tmp_path: Path) -> None:
    quotes = [Quote(OPEN + 9, symbol="A"), Quote(OPEN + 1, symbol="B"), Quote(OPEN + 1, "Q", symbol="A")]
    assert len(import_files([_written(tmp_path, taq_text(quotes))], tmp_path / "out", ANY)) == 3


def _written(folder: Path, text: str) -> Path:
    (folder / TAQ_NAME).write_text(text)
    return folder / TAQ_NAME


def test_days_of_names_rows_and_options(tmp_path: Path) -> None:
    assert "does not state its date; give date" in refusal(tmp_path, taq_text(QUOTES, end=False), "quotes.psv")
    two = wrds_text(QUOTES) + "".join(wrds_text(QUOTES, "2019-03-28").splitlines(keepends=True)[1:])
    assert "it begins on 2019-03-27, and row 5 is dated 2019-03-28" in refusal(tmp_path, two, "q.csv")
    found = import_files([tmp_path / "q.csv"], tmp_path / "second", ReadingOptions(date=dt.date(2019, 3, 28)))
    assert {(one.date, one.notes["other_days"]) for one in found} == {(dt.date(2019, 3, 28), 4)}
    said = refusal(tmp_path, two, "q.csv", ReadingOptions(date=dt.date(2019, 3, 29)))
    assert "has no quotes of 2019-03-29" in said
    hours = ReadingOptions(start=dt.time(9, 30, 1), end=dt.time(9, 30, 2))
    assert [row[0] for row in read(tmp_path, taq_text(QUOTES), wanted=hours)["XNYS"]] == [3]
    assert list(read(tmp_path, taq_text(QUOTES), f"{TAQ_NAME}_v", ReadingOptions(venue="XNAS"))) == ["XNAS"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("END|20190327|000000004", "END|20190327|000000009", "must have 9 rows by its END line, was 4"),
        ("END|20190327", "END|20190328", "must be dated 2019-03-27, was 2019-03-28 by its END line"),
        ("093000123456789", "253000123456789", "row 1 of .* must have a time such as 093000123456789, was '2530"),
        ("093000123456789", "9:30:00", "row 1 of .* must have a time such as 093000123456789"),
        ("093000123456789", "0930001234", "row 1 of .* must have a time such as"),
        ("093001000000000", "093000000000000", "row 3 of .* must have a time not before that of the previous row"),
        ("|N|ACME|10.0|3", "|N|ACME|ten|3", "row 1 of .* must have a number of 0 or more in Bid_Price, was 'ten'"),
        ("|N|ACME|10.0|3", "|N|ACME|-10.0|3", "must have a number of 0 or more in Bid_Price, was '-10.0'"),
        ("|N|ACME|10.0|3", "|N|ACME|10.0|3.5", "must have a whole number of lots in Bid_Size, was '3.5'"),
        ("|N|ACME|10.0|3", "|?|ACME|10.0|3", "row 1 of .* must have an exchange code of .*, was '\\?'"),
        ("|N|ACME|10.0|3", "|N|AC#ME|10.0|3", "row 1 of .* symbol must be a name"),
        ("|N|ACME|10.0|3", "|N|ACME|3", "Expected 14 columns, got 13"),
        ("|N|ACME|10.0|3", "|N|ACME|10.0|99999999", "sizes whole numbers up to 4294967295"),
        ("|Bid_Size|", "|Size|", "lacks columns bid_size of quotes; it has Time"),
    ],
)
def test_a_row_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    text = taq_text(QUOTES)
    assert old in text
    said = refusal(tmp_path, text.replace(old, new, 1))
    assert re.search(expected, said), said


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("2019-03-27", "03/27/2019", "date must be like 2018-01-02, 20180102 or 02JAN2018, was '03/27/2019'"),
        ("9:30:00.123456789", "34200.1", "row 1 of q.csv must have a time such as 9:30:00.123456789, was '34200.1'"),
        (",BIDSIZ,", ",SIZE,", "lacks columns bidsiz"),
        (",3,10.01,5,R", ",3,10.01,five,R", "must have a whole number of lots in ASKSIZ, was 'five'"),
    ],
)
def test_a_wrds_row_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    text = wrds_text(QUOTES)
    assert old in text
    assert expected in refusal(tmp_path, text.replace(old, new, 1), "q.csv")


def test_a_file_cut_off_is_refused(tmp_path: Path) -> None:
    text = taq_text(QUOTES, end=False)
    assert "Expected 14 columns" in refusal(tmp_path, text[:-20])
    whole = gzipped(taq_text(QUOTES).encode())
    (tmp_path / f"{TAQ_NAME}.gz").write_bytes(whole[:-9])
    with pytest.raises(RiskrouteError, match="truncated"):
        import_files([tmp_path / f"{TAQ_NAME}.gz"], tmp_path / "out", ANY)


def test_other_files_under_this_name_are_refused(tmp_path: Path) -> None:
    trades = "Time|Exchange|Symbol|Sale Condition|Trade Volume|Trade Price\n093000000000000|N|ACME|@|100|10.0\n"
    assert "lacks columns bid_price" in refusal(tmp_path, trades)
    assert "lacks columns" in refusal(tmp_path, "a,b\n1,2\n", kind="taq")
    (tmp_path / f"{TAQ_NAME}_x").write_bytes(b"%PDF-1.4 quotes")
    with pytest.raises(RiskrouteError, match="was a PDF document"):
        import_files([tmp_path / f"{TAQ_NAME}_x"], tmp_path / "out", ANY)
