"""Tables of books, CSV and Parquet: names of columns, ways to write a time, several venues, values that are refused."""

from __future__ import annotations

import base64
import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pyarrow
import pyarrow.parquet
import pytest

from market_files import (
    MIDNIGHT,
    OPEN,
    check_recordings,
    csv_text,
    gzipped,
    levels_of,
    naive_books,
    random_messages,
    refusal,
    table_columns,
    zipped,
)
from riskroute.core.errors import InputError
from riskroute.market.importing import import_files
from riskroute.market.readers import csv_files
from riskroute.market.readers import table as table_reader
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore

MESSAGES = random_messages(12, 40)
Columns = dict[str, list[Any]]
Writer = Callable[[Path, Columns], Path]


def as_csv(folder: Path, columns: Columns) -> Path:
    path = folder / "books.csv"
    path.write_text(csv_text(columns))
    return path


def as_parquet(folder: Path, columns: Columns) -> Path:
    path = folder / "books.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


both = pytest.mark.parametrize("write", [as_csv, as_parquet])


def imported(path: Path, wanted: ReadingOptions | None = None) -> list[tuple[Recording, polars.DataFrame]]:
    out = path.parent / "out"
    recordings = import_files([path], out, wanted or ReadingOptions())
    check_recordings(out)
    return [(one, RecordingStore(out).snapshots(one)) for one in recordings]


def changed(name: str, value: Any, row: int = 4, depth: int = 1) -> Columns:
    columns = table_columns(MESSAGES, depth)
    columns[name] = list(columns[name])
    columns[name][row] = value
    return columns


@both
@pytest.mark.parametrize("depth", [1, 3])
def test_a_table_of_our_names(tmp_path: Path, write: Writer, depth: int) -> None:
    ((one, table),) = imported(write(tmp_path, table_columns(MESSAGES, depth)))
    assert (one.stem, one.depth, one.has_events, one.reader) == ("XNAS_ACME_2019-03-27", depth, False, "table")
    assert [levels_of(row, depth) for row in table.iter_rows(named=True)] == naive_books(MESSAGES, depth)
    assert table["ts_event"].cast(polars.Int64).to_list() == [MIDNIGHT + message.time for message in MESSAGES]
    assert table["sequence"].to_list() == list(range(1, 41))


@both
def test_less_depth_by_option_or_for_want_of_a_column(tmp_path: Path, write: Writer) -> None:
    columns = table_columns(MESSAGES, 3)
    ((one, table),) = imported(write(tmp_path, columns), ReadingOptions(depth=2))
    assert one.depth == 2
    assert [levels_of(row, 2) for row in table.iter_rows(named=True)] == naive_books(MESSAGES, 2)
    del columns["ask_sz_01"]
    ((one, _),) = imported(write(tmp_path, columns))
    assert one.depth == 1


@both
@pytest.mark.parametrize(
    "names",
    [
        ("Timestamp", "Exchange", "Ticker", "Bid", "Bid_Size", "Ask", "Ask_Size"),
        ("time", "MIC", "sym", "best_bid", "bid_qty", "offer", "offer_size"),
    ],
)
def test_other_names_that_are_understood(tmp_path: Path, write: Writer, names: tuple[str, ...]) -> None:
    columns = table_columns(MESSAGES, 1)
    ours = ("ts_event", "venue", "symbol", "bid_px_00", "bid_sz_00", "ask_px_00", "ask_sz_00")
    renamed = {theirs: columns[name] for name, theirs in zip(ours, names, strict=True)}
    ((_, table),) = imported(write(tmp_path, renamed))
    assert [levels_of(row, 1) for row in table.iter_rows(named=True)] == naive_books(MESSAGES, 1)


@both
def test_names_that_are_told(tmp_path: Path, write: Writer) -> None:
    """A column that is told wins over one that has our name."""
    columns = table_columns(MESSAGES, 1)
    wrong = ["2000-01-01 00:00:00"] * len(MESSAGES)
    theirs: Columns = {"when": columns.pop("ts_event"), "B": columns.pop("bid_px_00"), "ts_event": wrong} | columns
    ((one, table),) = imported(write(tmp_path, theirs), ReadingOptions(columns={"ts_event": "when", "bid_px_00": "B"}))
    assert one.date == dt.date(2019, 3, 27)
    assert [levels_of(row, 1) for row in table.iter_rows(named=True)] == naive_books(MESSAGES, 1)


@both
def test_one_column_may_be_told_for_two(tmp_path: Path, write: Writer) -> None:
    columns = table_columns(MESSAGES, 1)
    columns["size"] = [100] * len(MESSAGES)
    names = {"bid_sz_00": "size", "ask_sz_00": "size"}
    ((_, table),) = imported(write(tmp_path, columns), ReadingOptions(columns=names))
    assert set(table["bid_sz_00"]) <= {0, 100}


@both
def test_names_that_are_not_there_are_refused(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path, table_columns(MESSAGES, 1))
    assert "column bid_px_00 must be one of ts_event, venue," in refusal(
        path, ReadingOptions(columns={"bid_px_00": "B"})
    )
    assert "was 'bid_price'" in refusal(path, ReadingOptions(columns={"bid_price": "bid_px_00"}))
    for missing in ("bid_px_00", "ask_sz_00"):
        columns = table_columns(MESSAGES, 1)
        del columns[missing]
        assert f"lacks columns {missing}; it has" in refusal(write(tmp_path, columns))
    columns = table_columns(MESSAGES, 1)
    del columns["ts_event"]
    assert "has no column ts_event" in refusal(write(tmp_path, columns))


def moments(zone: str | None) -> polars.Series:
    stamps = polars.Series([MIDNIGHT + message.time for message in MESSAGES]).cast(polars.Datetime("ns", "UTC"))
    return stamps if zone == "UTC" else stamps.dt.convert_time_zone("America/New_York").dt.replace_time_zone(zone)


@both
@pytest.mark.parametrize(
    "times",
    [
        moments("UTC").dt.strftime("%Y-%m-%dT%H:%M:%S%.fZ"),
        moments("UTC").dt.strftime("%Y-%m-%d %H:%M:%S+00:00"),
        moments("America/New_York").dt.strftime("%Y-%m-%dT%H:%M:%S%z"),
        moments(None).dt.strftime("%Y-%m-%d %H:%M:%S"),
        moments(None).dt.strftime("%Y-%m-%dT%H:%M:%S%.6f"),
        polars.Series([MIDNIGHT + message.time for message in MESSAGES]),
    ],
    ids=["zulu", "offset zero", "offset of New York", "no zone", "no zone, microseconds", "nanoseconds"],
)
def test_times_in_many_ways(tmp_path: Path, write: Writer, times: polars.Series) -> None:
    ((one, table),) = imported(write(tmp_path, table_columns(MESSAGES, 1) | {"ts_event": times.to_list()}))
    assert one.date == dt.date(2019, 3, 27)
    assert table["ts_event"].cast(polars.Int64).to_list() == [MIDNIGHT + message.time for message in MESSAGES]


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_typed_times(tmp_path: Path, unit: Any, zone: str | None) -> None:
    times = moments(None) if zone is None else moments("UTC").dt.convert_time_zone(zone)
    frame = polars.DataFrame(table_columns(MESSAGES, 1)).with_columns(times.dt.cast_time_unit(unit).alias("ts_event"))
    frame.write_parquet(tmp_path / "books.parquet")
    ((_, table),) = imported(tmp_path / "books.parquet")
    assert table["ts_event"].cast(polars.Int64).to_list() == [MIDNIGHT + message.time for message in MESSAGES]


@both
@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["soon"], "times in ts_event"),
        ([1.5], "ts_event must be s, ms, us or ns since 1970, between 1990 and 2200, was 1.5"),
        (["2554-07-22 00:00:00"], "times"),
        (["2554-07-22T00:00:00.000001Z"], "times"),
        ([-1], "since 1970, between 1990 and 2200, was -1"),
        ([2**63 - 1], "since 1970, between 1990 and 2200"),
    ],
)
def test_times_that_are_none_are_refused(tmp_path: Path, write: Writer, times: list[Any], expected: str) -> None:
    columns = table_columns(MESSAGES, 1) | {"ts_event": times * len(MESSAGES)}
    assert expected in refusal(write(tmp_path, columns))


@both
def test_several_venues_and_symbols_in_one_file(tmp_path: Path, write: Writer) -> None:
    columns = table_columns(MESSAGES, 2, ("XNAS", "XBOS", "XPSX"))
    columns["symbol"] = ["acme" if k % 2 else " Zeta " for k in range(len(MESSAGES))]
    books = naive_books(MESSAGES, 2)
    found = imported(write(tmp_path, columns))
    assert len(found) == 6
    for one, table in found:
        for row in table.iter_rows(named=True):
            number = row["sequence"] - 1
            assert levels_of(row, 2) == books[number]
            label = columns["venue"][number], columns["symbol"][number].strip().upper()
            assert label == (row["venue"], row["symbol"]) == (one.venue, one.symbol)
    assert sum(one.snapshots for one, _ in found) == len(MESSAGES)


@both
def test_rows_may_be_grouped_by_venue(tmp_path: Path, write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the pieces; times must not fall within one venue, though."""
    monkeypatch.setattr(csv_files, "BLOCK", 300)
    monkeypatch.setattr(table_reader.TableReader, "ROWS", 7)
    mixed = polars.DataFrame(table_columns(MESSAGES, 1, ("XNAS", "XBOS", "XPSX")))
    grouped = mixed.sort("venue", descending=True, maintain_order=True)
    expected = {one.venue: table for one, table in imported(write(tmp_path, mixed.to_dict(as_series=False)))}
    for one, table in imported(write(tmp_path, grouped.to_dict(as_series=False))):
        assert table.drop("sequence").equals(expected.pop(one.venue).drop("sequence"))
    assert not expected
    path = write(tmp_path, polars.concat([grouped, grouped.head(1)]).to_dict(as_series=False))
    assert refusal(path).startswith(
        f"row 41 of {path.name} must have a time not before that of the previous row of XPSX"
    )


@both
def test_wanted_symbols_and_venue_of_a_table(tmp_path: Path, write: Writer) -> None:
    columns = table_columns(MESSAGES, 1, ("XNAS", "XBOS"))
    columns["symbol"] = ["ACME" if k % 3 else "ZETA" for k in range(len(MESSAGES))]
    path = write(tmp_path, columns)
    said = refusal(path, ReadingOptions(("ACME", "ZETTA")))
    assert said == f"symbol 'ZETTA' is not among the 2 in {path.name}; did you mean ZETA?"
    assert f"venue must be one of XNAS, XBOS in {path.name}" in refusal(path, ReadingOptions(venue="XPSX"))
    found = imported(path, ReadingOptions(("zeta",), venue="XBOS"))
    assert [one.stem for one, _ in found] == ["XBOS_ZETA_2019-03-27"]


@both
@pytest.mark.parametrize("rows", [3, 1000])
def test_a_venue_is_renamed(tmp_path: Path, write: Writer, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only one of a file by its new name, others by old and new; a name that is there chooses that venue."""
    monkeypatch.setattr(table_reader.TableReader, "ROWS", rows)
    path = write(tmp_path, table_columns(MESSAGES, 1))
    ((one, table),) = imported(path, ReadingOptions(venue="NYSE-test"))
    assert (one.venue, table["venue"].unique().to_list(), one.snapshots) == ("NYSE-test", ["NYSE-test"], 40)
    columns = table_columns(MESSAGES, 1, ("XNAS", "Boston!", "XPSX"))
    columns["venue"] = ["XNAS"] * 5 + columns["venue"][5:]
    path = write(tmp_path, columns)
    places = {"XNAS": "XPSX", "XPSX": "XNAS", "Boston!": "XBOS"}
    found = {
        one.venue: table["sequence"].to_list() for one, table in imported(path, ReadingOptions(venue_names=places))
    }
    for old, new in places.items():
        assert found[new] == [k for k, name in enumerate(columns["venue"], 1) if name == old]
    shutil.rmtree(tmp_path / "out")
    columns["venue"] = [name.replace("Boston!", "XBOS") for name in columns["venue"]]
    ((one, table),) = imported(write(tmp_path, columns), ReadingOptions(venue="XPSX"))
    assert table["sequence"].to_list() == found["XNAS"]
    assert "two venues of books" in refusal(path, ReadingOptions(venue_names={"XNAS": "XPSX"}))
    said = refusal(write(tmp_path, columns), ReadingOptions(venue_names={"NYSE": "XNYS"}))
    assert said == "venue to rename must be one of XNAS, XPSX, XBOS, was 'NYSE'"


def test_new_names_of_venues_are_names_and_different() -> None:
    with pytest.raises(InputError, match="venue_names must be distinct"):
        ReadingOptions(venue_names={"A": "XNAS", "B": "XNAS"})
    with pytest.raises(InputError, match="give either venue or venue_names"):
        ReadingOptions(venue="XNAS", venue_names={"A": "XBOS"})
    with pytest.raises(InputError, match="venue must be a name"):
        ReadingOptions(venue_names={"A": "<b>"})


@both
def test_venue_and_symbol_by_option_where_the_table_has_none(tmp_path: Path, write: Writer) -> None:
    columns = table_columns(MESSAGES, 1)
    del columns["venue"], columns["symbol"]
    path = write(tmp_path, columns)
    assert "does not state its venue; give venue" in refusal(path, ReadingOptions(("ACME",)))
    assert "does not state its symbol; give symbol" in refusal(path, ReadingOptions(venue="XNAS"))
    assert "symbol 'ZETA' is not among" in refusal(path, ReadingOptions(("ACME", "ZETA"), venue="XNAS"))
    ((one, _),) = imported(path, ReadingOptions(("ACME",), venue="XBOS"))
    assert one.stem == "XBOS_ACME_2019-03-27"


@pytest.mark.parametrize("symbol", ["NA", "TRUE", "NULL", "NAN", "INF", "BRK.B", "PRE-A", "A B", "A/B", "ÉÖ"])
def test_symbols_that_look_like_something_else(tmp_path: Path, symbol: str) -> None:
    ((one, table),) = imported(as_csv(tmp_path, table_columns(MESSAGES, 1, symbol=symbol)))
    assert (one.symbol, table.height) == (symbol, len(MESSAGES))


@both
def test_days_are_cut_and_falling_and_missing_times_are_refused(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path, changed("ts_event", MIDNIGHT + 86_400 * 10**9, row=39))
    days = import_files([path], tmp_path / "days", ReadingOptions())
    assert [(str(one.date), one.snapshots) for one in days] == [("2019-03-27", 39), ("2019-03-28", 1)]
    (one,) = import_files([path], tmp_path / "day", ReadingOptions(date=dt.date(2019, 3, 27)))
    assert (one.snapshots, one.notes["other_days"]) == (39, 1)
    assert "has no snapshots of ACME in the requested part" in refusal(path, ReadingOptions(date=dt.date(2019, 3, 26)))
    said = refusal(write(tmp_path, changed("ts_event", MIDNIGHT + OPEN)))
    assert f"row 5 of {path.name} must have a time not before that of the previous row of XNAS ACME" in said
    assert f"row 5 of {path.name} must have a time, was None" in refusal(write(tmp_path, changed("ts_event", None)))


def test_times_that_fall_by_a_nanosecond_from_piece_to_piece_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where microseconds would not show it."""
    columns = table_columns(MESSAGES, 1)
    columns["ts_event"] = [MIDNIGHT + OPEN + 900 - (k == 39) for k in range(40)]
    monkeypatch.setattr(csv_files, "BLOCK", 160)
    monkeypatch.setattr(table_reader.TableReader, "ROWS", 3)
    for write in (as_csv, as_parquet):
        assert "row 40 of books" in refusal(write(tmp_path, columns))


@both
@pytest.mark.parametrize("value", [-100, -0.5, 2**63 - 1, 1e300, "many", float("inf")])
def test_what_is_no_size_is_refused(tmp_path: Path, write: Writer, value: Any) -> None:
    columns = table_columns(MESSAGES, 1) | {
        "bid_px_00": [99.0] * 40,
        "bid_sz_00": [100] * 40,
        "ask_px_00": [101.0] * 40,
    }
    columns["bid_sz_00"] = [type(value)(100) if write is as_parquet else 100] * 39 + [value]
    path = write(tmp_path, columns)
    assert "sizes from 0 to 1e14" in refusal(path) or "'many'" in refusal(path)


@both
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, None])
def test_a_price_that_is_none_is_no_level(tmp_path: Path, write: Writer, value: float | None) -> None:
    columns = table_columns(MESSAGES, 1) | {"bid_px_00": [99.0] * 39 + [value], "bid_sz_00": [100] * 40}
    ((_, table),) = imported(write(tmp_path, columns))
    assert table["bid_px_00"].to_list() == [99.0] * 39 + [None]
    assert table["bid_sz_00"].to_list() == [100] * 39 + [0]


@both
@pytest.mark.parametrize("half", [(98.0, 0), (float("nan"), 7), (float("inf"), 7), (None, 7)])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_level_without_price_or_size_leaves_no_gap(
    tmp_path: Path, write: Writer, half: tuple[float | None, int | None], level: int
) -> None:
    """Those behind it move up, and the import says how many were left out."""
    columns = table_columns(MESSAGES[:2], 3)
    whole: list[tuple[Any, Any]] = [(99.0, 10), (98.0, 20), (97.0, 30)]
    for k in range(3):
        second = half if k == level else whole[k]
        for name, place in (("px", 0), ("sz", 1)):
            columns[f"bid_{name}_{k:02d}"] = [whole[k][place], second[place]]
            columns[f"ask_{name}_{k:02d}"] = [None if name == "px" else 0] * 2
    ((one, table),) = imported(write(tmp_path, columns))
    expected = [pair for k, pair in enumerate(whole) if k != level] + [(None, 0)]
    assert levels_of(table.row(1, named=True), 3)["bid"] == expected
    assert levels_of(table.row(0, named=True), 3)["bid"] == whole
    assert one.remarks[-1].endswith("dropped 1 levels with a price and size 0, or a size and no price.")


@both
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), "bid_sz_01 must be the size at 98.0, was missing"),
        (None, "bid_sz_01 must be the size at 98.0, was missing"),
        (-5.0, "prices must be numbers and sizes from 0 to 1e14"),
    ],
)
def test_a_price_without_a_right_size_is_refused_by_row_and_venue(
    tmp_path: Path, write: Writer, value: float | None, expected: str
) -> None:
    sizes = [100.0] * 4 + [value] + [100.0] * 35
    path = write(tmp_path, changed("bid_px_01", 98.0, depth=2) | {"bid_sz_01": sizes})
    assert refusal(path).startswith(f"row 5 of {path.name}, venue XNAS: {expected}")


@both
def test_sizes_written_as_decimals_and_missing_sizes(tmp_path: Path, write: Writer) -> None:
    columns: Columns = table_columns(MESSAGES, 1) | {
        "bid_px_00": [99.0] * 39 + [None],
        "bid_sz_00": [100.0] * 39 + [float("nan")],
    }
    ((_, table),) = imported(write(tmp_path, columns))
    assert table["bid_sz_00"].to_list() == [100] * 39 + [0]


@both
def test_prices_that_are_text_are_refused(tmp_path: Path, write: Writer) -> None:
    said = refusal(write(tmp_path, table_columns(MESSAGES, 1) | {"bid_px_00": ["99"] * 39 + ["cheap"]}))
    assert "cheap" in said or "prices must be numbers" in said


def test_the_first_block_does_not_decide_what_a_number_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole prices first and broken ones later, no sizes first: the same table as from one block."""
    columns = table_columns(MESSAGES, 1)
    columns["bid_px_00"] = [99] * 10 + [None] * 10 + [99.5] * 20
    columns["bid_sz_00"] = [0] * 10 + [None] * 10 + [100] * 20
    path = as_csv(tmp_path, columns)
    ((_, whole),) = imported(path)
    monkeypatch.setattr(csv_files, "BLOCK", 160)
    ((_, pieces),) = imported(path)
    assert pieces.equals(whole)
    assert whole["bid_px_00"].to_list() == [None] * 20 + [99.5] * 20


@both
def test_many_small_pieces_make_the_same_tables_as_one(
    tmp_path: Path, write: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = random_messages(2, 200, step=10**6)
    path = write(tmp_path, table_columns(messages, 2, ("XNAS", "XBOS")))
    whole = imported(path)
    monkeypatch.setattr(csv_files, "BLOCK", 500)
    monkeypatch.setattr(table_reader.TableReader, "ROWS", 7)
    pieces = imported(path)
    assert [one for one, _ in pieces] == [one for one, _ in whole]
    assert all(some.equals(table) for (_, some), (_, table) in zip(pieces, whole, strict=True))


def test_a_window_of_a_table(tmp_path: Path) -> None:
    wanted = ReadingOptions(start=dt.time(9, 30, 10), end=dt.time(9, 30, 20))
    ((_, table),) = imported(as_csv(tmp_path, table_columns(MESSAGES, 1)), wanted)
    assert table["sequence"].to_list() == list(range(11, 21))


def test_packed_tables(tmp_path: Path) -> None:
    content = csv_text(table_columns(MESSAGES, 1)).encode()
    ((_, plain),) = imported(as_csv(tmp_path, table_columns(MESSAGES, 1)))
    for name, packed in {"books.csv.gz": gzipped(content), "books.zip": zipped({"x/books.csv": content})}.items():
        (tmp_path / name).write_bytes(packed)
        ((_, table),) = imported(tmp_path / name)
        assert table.equals(plain)
    (tmp_path / "books.zip").write_bytes(zipped({"a.csv": content, "b.csv": content}))
    (tmp_path / "other").mkdir()
    path = (tmp_path / "books.zip").rename(tmp_path / "other" / "books.zip")
    assert refusal(path) == f"expected one CSV file in {path}, got 2"


NO_TABLES = {
    ".csv": [
        b"",
        b"ts_event,venue\n",
        b"\n",
        b"ts_event,ts_event\n1,2\n",
        b"ts_event,\xff\xfe\n1,2\n",
        b"a,b\n1,2,3\n",
    ],
    ".csv.gz": [b"\x1f\x8bnothing"],
    ".zip": [b"PK\x03\x04nothing", zipped({"readme.txt": b""}), zipped({"a.csv": b""})],
    ".parquet": [b"", b"PAR1PAR1", b"nothing of the kind"],
}


@pytest.mark.parametrize("ending", NO_TABLES)
def test_what_is_no_table_is_refused(tmp_path: Path, ending: str) -> None:
    for content in NO_TABLES[ending]:
        (tmp_path / f"a{ending}").write_bytes(content)
        assert f"a{ending}" in refusal(tmp_path / f"a{ending}")


def test_parquet_without_rows_or_with_broken_texts_is_refused(tmp_path: Path) -> None:
    empty: Columns = {name: [] for name in table_columns(MESSAGES, 1)}
    assert "has no rows" in refusal(as_parquet(tmp_path, empty))
    path = as_parquet(tmp_path, table_columns(MESSAGES, 1, ("VENUEX",)))
    path.write_bytes(path.read_bytes().replace(b"VENUEX", b"VEN\xff\xfeX"))
    assert "must be a Parquet file" in refusal(path)
    tokyo = moments("UTC").dt.convert_time_zone("Asia/Tokyo").alias("ts_event")
    polars.DataFrame(table_columns(MESSAGES, 1)).with_columns(tokyo).write_parquet(path)
    types = pyarrow.parquet.read_metadata(path).metadata[b"ARROW:schema"]
    broken = base64.b64encode(base64.b64decode(types).replace(b"Asia/Tokyo", b"Asia/\xff\xfekyo"))
    path.write_bytes(path.read_bytes().replace(types, broken))
    assert "type names must be UTF-8" in refusal(path)


def test_parquet_with_broken_notes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "books.parquet"
    table = pyarrow.table(table_columns(MESSAGES, 1)).replace_schema_metadata({b"note": b"NOTE"})
    pyarrow.parquet.write_table(table, path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"NOTE", b"\xff\xfe\xff\xfe"))
    assert len(imported(path)) == 1
