"""Import as a whole and the folder it fills: all or nothing, thresholds, progress, errors on what is broken."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from market_files import (
    ITCH_NAME,
    LOBSTER_NAME,
    MIDNIGHT,
    OPEN,
    TICK_NAME,
    check_recordings,
    csv_text,
    itch_bytes,
    lobster_texts,
    random_messages,
    random_updates,
    table_columns,
    tardis_text,
    tick_text,
    visible,
    zipped,
)
from riskroute.core.errors import DataError, InputError, RiskrouteError
from riskroute.market import importing
from riskroute.market.importing import _detect_format, import_files
from riskroute.market.readers import csv_files
from riskroute.market.readers.reading import ReaderPart, ReadingOptions, label_reading_rows, reading_snapshots
from riskroute.market.recordings import EVENTS, RECORD, SNAPSHOTS, Recording, RecordingStore, RecordingWriter
from riskroute.market.schema import level_columns, schema_depth, snapshot_schema

ACME = ReadingOptions(("ACME",))
MESSAGES = random_messages(21, 40)
UPDATES = [one._replace(size=one.size * 2) for one in random_updates(np.random.default_rng(0))]
KINDS = ["itch", "lobster", "ticks", "deltas", "table"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A file of every kind, all of one symbol and day."""
    folder = tmp_path / "in"
    folder.mkdir()
    pair = dict(zip(("message", "orderbook"), lobster_texts(random_messages(3, 30, kinds="AXDE"), 2), strict=True))
    contents = {
        "itch": (ITCH_NAME, itch_bytes(MESSAGES)),
        "lobster": ("sample.zip", zipped({LOBSTER_NAME.format(k, 2): text.encode() for k, text in pair.items()})),
        "ticks": (TICK_NAME, tick_text(MESSAGES, "NPK").encode()),
        "deltas": ("updates.csv", tardis_text(UPDATES, MIDNIGHT // 1000 + OPEN // 1000, "XCHI", "ACME").encode()),
        "table": ("books.csv", csv_text(table_columns(MESSAGES, 1, ("XBOS",))).encode()),
    }
    paths = {}
    for kind, (name, content) in contents.items():
        paths[kind] = folder / name
        paths[kind].write_bytes(content)
    return paths


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in visible(folder)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_found_out(files: dict[str, Path], tmp_path: Path, kind: str) -> None:
    assert _detect_format(files[kind]) == kind
    recordings = import_files([files[kind]], tmp_path / "out", ACME)
    assert {one.reader for one in recordings} == {kind}
    assert {one.source for one in recordings} == {files[kind].name}
    assert RecordingStore(tmp_path / "out").recordings() == sorted(recordings, key=lambda one: one.stem)
    check_recordings(tmp_path / "out")


@pytest.mark.parametrize("kind", KINDS)
def test_us_equities_are_protected(files: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """Formats that only US equities come in are; anything may be in a table."""
    expected = "reg-nms" if kind in ("itch", "lobster", "ticks") else "none"
    for one in import_files([files[kind]], tmp_path / "out", ACME):
        assert (one.instrument.protection, one.derived) == (expected, expected == "none")
    assert {one.instrument.protection for one in RecordingStore(tmp_path / "out").recordings()} == {expected}


def test_a_folder_stands_for_its_files_of_market_data(files: dict[str, Path], tmp_path: Path) -> None:
    """Others are named and left out; a file that is damaged is refused all the same."""
    folder = tmp_path / "in"
    files["lobster"].unlink()
    for kind, text in zip(
        ("message", "orderbook"), lobster_texts(random_messages(3, 30, kinds="AXDE"), 2), strict=True
    ):
        (folder / LOBSTER_NAME.format(kind, 2).replace("-27", "-28")).write_text(text)
    (folder / "README.txt").write_text("What is in here.\n")
    (folder / "licence.pdf").write_bytes(b"%PDF-1.7")
    (folder / "20190327_acme_Trade_Tick.csv").write_text("1,2,3,N,1,0\n")
    (folder / ".hidden").write_bytes(b"\0")
    (folder / "deeper").mkdir()
    left_out: list[str] = []
    recordings = import_files(
        [folder, files["itch"]],
        tmp_path / "out",
        ACME,
        skipped=lambda path, why: left_out.append(f"{path.name}: {why}"),
    )
    assert {one.reader for one in recordings} == set(KINDS)
    assert [one.split(":")[0] for one in left_out] == ["20190327_acme_Trade_Tick.csv", "README.txt", "licence.pdf"]
    assert "holds trades" in left_out[0]
    assert "has no column ts_event" in left_out[1]
    assert "was a PDF document" in left_out[2]
    check_recordings(tmp_path / "out")
    (folder / "sample.zip").write_bytes(zipped({"books.csv": files["table"].read_bytes()})[:-40])
    with pytest.raises(DataError, match=r"sample.zip is truncated or damaged: .*download"):
        import_files([folder], tmp_path / "again", ACME)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "README.txt").write_text("Nothing.\n")
    with pytest.raises(DataError, match="no market data found"):
        import_files([tmp_path / "none"], tmp_path / "again", ACME)


def test_errors_of_a_recording_name_its_venue(tmp_path: Path) -> None:
    columns = table_columns(MESSAGES, 1, ("XBOS",)) | {"bid_px_00": [200.0] * 40, "bid_sz_00": [1] * 40}
    (tmp_path / "books.csv").write_text(csv_text(columns))
    with pytest.raises(DataError, match=r"books.csv \(XBOS ACME\) must have at most 1.0% crossed or locked snapshots"):
        import_files([tmp_path / "books.csv"], tmp_path / "out", ACME)
    columns["bid_px_00"][6] = 2e9
    (tmp_path / "books.csv").write_text(csv_text(columns))
    with pytest.raises(DataError, match=r"row 7 of books.csv, venue XBOS: bid_px_00 must be at most"):
        import_files([tmp_path / "books.csv"], tmp_path / "out", ACME)


def test_files_of_several_kinds_at_once(files: dict[str, Path], tmp_path: Path) -> None:
    recordings = import_files([files["itch"], files["ticks"], files["table"], files["itch"]], tmp_path / "out", ACME)
    assert {one.venue for one in recordings} == {"XNAS", "XNYS", "ARCX", "EDGX", "XBOS"}
    check_recordings(tmp_path / "out")


def test_the_same_recording_twice_is_refused(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two files hold XNAS_ACME_2019-03-27"):
        import_files([files["itch"], files["lobster"]], tmp_path / "out", ACME)
    assert visible(tmp_path / "out") == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_in_the_second_file_leaves_nothing_of_the_first(
    files: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    broken = tmp_path / "20190328.BX_ITCH_50"
    broken.write_bytes(itch_bytes(MESSAGES)[:-3])
    with pytest.raises(DataError, match="truncated"):
        import_files([files[kind], broken], tmp_path / "out", ACME)
    assert visible(tmp_path / "out") == []


def test_earlier_recordings_survive_a_failed_import(files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    import_files([files["itch"], files["table"]], out, ACME)
    before = tables(out)
    with pytest.raises(DataError):
        import_files([files["lobster"], tmp_path / "in" / ITCH_NAME], out, ReadingOptions(("ACME",), start=dt.time(15)))
    (tmp_path / ITCH_NAME).write_bytes(itch_bytes(MESSAGES[:9])[:-1])
    with pytest.raises(DataError):
        import_files([tmp_path / ITCH_NAME], out, ACME)
    assert tables(out) == before


def test_a_new_import_replaces_the_old_one_of_its_name(files: dict[str, Path], tmp_path: Path) -> None:
    """Also where the old one has a table that the new one has not."""
    out = tmp_path / "out"
    (old,) = import_files([files["itch"]], out, ACME)
    assert old.has_events
    wanted = ReadingOptions(("ACME",), venue="XNAS")
    files["table"].write_text(csv_text(table_columns(MESSAGES, 1, ("XNAS",))))
    (new,) = import_files([files["table"]], out, wanted)
    assert new.stem == old.stem
    assert visible(out) == [f"{new.stem}{RECORD}", f"{new.stem}{SNAPSHOTS}"]
    check_recordings(out)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, MemoryError])
def test_an_interruption_leaves_nothing(files: dict[str, Path], tmp_path: Path, interruption: type) -> None:
    def stop(name: str, count: int) -> None:
        if name == ITCH_NAME:
            patience = time.monotonic() + 10
            while len(visible(tmp_path / "out")) < 4 and time.monotonic() < patience:
                time.sleep(0.01)
            assert len(visible(tmp_path / "out")) >= 4, "something must be under way to be left behind"
            raise interruption

    with pytest.raises(interruption):
        import_files([files["table"], files["ticks"], files["itch"]], tmp_path / "out", ACME, progress=stop)
    assert visible(tmp_path / "out") == []


def test_progress_is_told_file_and_count(files: dict[str, Path], tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    recordings = import_files(
        [files["ticks"], files["table"]], tmp_path / "out", ACME, progress=lambda *what: told.append(what)
    )
    assert {name for name, _ in told} == {TICK_NAME, "books.csv"}
    assert told[-1] == ("books.csv", recordings[-1].snapshots)
    counts = [count for name, count in told if name == TICK_NAME]
    assert counts == sorted(counts)
    assert counts[-1] == sum(one.snapshots for one in recordings[:-1])


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_written_to_is_refused(files: dict[str, Path], tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(InputError, match="out must be a writable folder, was"):
        import_files([files["itch"]], tmp_path / place, ACME)
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("ending", [SNAPSHOTS, RECORD])
def test_a_folder_in_the_place_of_a_file_is_refused(files: dict[str, Path], tmp_path: Path, ending: str) -> None:
    (tmp_path / "out" / f"XBOS_ACME_2019-03-27{ending}").mkdir(parents=True)
    with pytest.raises(InputError, match=r"written to|writable"):
        import_files([files["table"]], tmp_path / "out", ACME)
    assert [name for name in visible(tmp_path / "out") if name.startswith(".")] == []


@pytest.mark.parametrize("when", ["write_table", "close"])
@pytest.mark.parametrize("pieces", [200, 1 << 20])
def test_a_full_disk_leaves_nothing(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, pieces: int
) -> None:
    from pyarrow.parquet import ParquetWriter

    real = getattr(ParquetWriter, when)

    def full(*what: Any) -> None:
        real(*what)
        time.sleep(0.02)  # so that more pieces wait behind the one that fails
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(ParquetWriter, when, full)
    monkeypatch.setattr(ParquetWriter, "__del__", lambda _: None)
    monkeypatch.setattr(csv_files, "BLOCK", pieces)
    with pytest.raises(InputError, match="No space left on device"):
        import_files([files["table"], files["ticks"], files["itch"]], tmp_path / "out", ACME)
    assert visible(tmp_path / "out") == []


@pytest.mark.parametrize("name", ["max_unresolved", "max_crossed"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "much", None])
def test_thresholds_must_be_shares(files: dict[str, Path], tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} must be a number of at least 0 and of at most 1, was"):
        import_files([files["itch"]], tmp_path / "out", ACME, **{name: value})


def test_a_share_at_the_threshold_passes(tmp_path: Path) -> None:
    columns = table_columns(MESSAGES, 1) | {"bid_px_00": [99.0] * 39 + [101.0], "bid_sz_00": [1] * 40}
    columns |= {"ask_px_00": [100.0] * 40, "ask_sz_00": [1] * 40}
    (tmp_path / "books.csv").write_text(csv_text(columns))
    (one,) = import_files([tmp_path / "books.csv"], tmp_path / "out", ACME, max_crossed=1 / 40)
    assert (one.crossed, one.crossed_share) == (1, 0.025)
    with pytest.raises(DataError, match=r"must have at most 2\.4% .* was 2\.5% \(1 of 40\); max_crossed = 0\.03"):
        import_files([tmp_path / "books.csv"], tmp_path / "out", ACME, max_crossed=0.024)


def test_bad_arguments_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no files to import"):
        import_files([], tmp_path / "out", ACME)
    with pytest.raises(InputError, match=r"kind must be one of itch, .*did you mean ticks"):
        import_files([files["ticks"]], tmp_path / "out", ACME, kind="tick")
    with pytest.raises(InputError, match="no such file: "):
        import_files([tmp_path / "nowhere"], tmp_path / "out", ACME)
    with pytest.raises(RiskrouteError, match="cannot read"):
        import_files([tmp_path / "nowhere"], tmp_path / "out", ACME, kind="table")


@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_refuses_a_file_of_another_kind(files: dict[str, Path], tmp_path: Path, kind: str) -> None:
    for other, path in files.items():
        if other != kind:
            with pytest.raises(RiskrouteError):
                import_files([path], tmp_path / "out", ReadingOptions(("ACME",), date=dt.date(2019, 3, 27)), kind=kind)
            assert visible(tmp_path / "out") == []


def test_only_as_much_is_held_as_a_few_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts reach the disk as they come: two may wait, one is at hand, one not yet closed; 16 of 20 are there."""
    written: list[int] = []

    class Long:
        name, source, date, depth = "table", tmp_path / "long", dt.date(2019, 3, 27), 1

        def __init__(self, *_: Any) -> None:
            pass

        def parts(self) -> Any:
            rng = np.random.default_rng(0)
            for k in range(20):
                rows = 20_000
                table = polars.DataFrame({name: rng.integers(1, 10**6, rows) for name in level_columns(1)})
                stamps = polars.Series(np.full(rows, MIDNIGHT)).cast(polars.Datetime("ns", "UTC"))
                keys: dict[str, Any] = {"ts_event": stamps, "sequence": np.arange(rows) + k * rows}
                yield ReaderPart(
                    "XNAS", "ACME", reading_snapshots(label_reading_rows(table.with_columns(**keys), "XNAS", "ACME"), 1)
                )
                written.append(sum((tmp_path / "out" / name).stat().st_size for name in visible(tmp_path / "out")))

    monkeypatch.setitem(importing.READERS, "table", Long)
    (one,) = import_files([tmp_path / "long"], tmp_path / "out", ACME, kind="table", max_crossed=1)
    assert one.snapshots == 400_000
    assert written[-1] > 0.7 * (tmp_path / "out" / f"{one.stem}{SNAPSHOTS}").stat().st_size
    check_recordings(tmp_path / "out")


def test_a_store_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which is not a folder"):
        RecordingStore(tmp_path / "nowhere")
    assert RecordingStore(tmp_path).recordings() == []
    with pytest.raises(DataError, match=r"holds no imported market data"):
        RecordingStore(tmp_path).of_symbol("ACME")


def test_recordings_of_a_symbol(files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    import_files([files["itch"], files["table"], files["ticks"]], out, ACME)
    store = RecordingStore(out)
    assert [one.venue for one in store.of_symbol("ACME")] == ["ARCX", "EDGX", "XBOS", "XNAS", "XNYS"]
    assert [one.venue for one in store.of_symbol("ACME", venues=["XNYS", "XBOS"])] == ["XBOS", "XNYS"]
    with pytest.raises(InputError, match=r"symbol must be one of ACME, was 'ACNE' \(did you mean ACME\?\)"):
        store.of_symbol("ACNE")
    with pytest.raises(InputError, match=r"venue must be one of ARCX, .*, was 'XPSX'"):
        store.of_symbol("ACME", venues=["XPSX"])
    with pytest.raises(InputError, match="date must be one of 2019-03-27, was '2019-03-28'"):
        store.of_symbol("ACME", dt.date(2019, 3, 28))
    import_files([files["itch"]], out, ReadingOptions(("ACME",), date=dt.date(2019, 3, 28)))
    with pytest.raises(InputError, match="date must be one of 2019-03-27, 2019-03-28, was None"):
        store.of_symbol("ACME")
    assert [one.stem for one in store.of_symbol("ACME", dt.date(2019, 3, 28))] == ["XNAS_ACME_2019-03-28"]


def test_a_part_of_a_table_by_time(files: dict[str, Path], tmp_path: Path) -> None:
    (one,) = import_files([files["itch"]], tmp_path / "out", ACME)
    store = RecordingStore(tmp_path / "out")
    stamps = store.snapshots(one)["ts_event"].cast(polars.Int64).to_list()
    begin, end = stamps[5], stamps[9]
    found = store.snapshots(one, begin, end)["ts_event"].cast(polars.Int64).to_list()
    assert found == [stamp for stamp in stamps if begin <= stamp < end]
    assert store.events(one, end, begin).height == 0


def test_events_are_refused_where_there_are_none(files: dict[str, Path], tmp_path: Path) -> None:
    (one,) = import_files([files["table"]], tmp_path / "out", ACME)
    with pytest.raises(DataError, match=r"limit orders require events.*table files hold snapshots only"):
        RecordingStore(tmp_path / "out").events(one)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff\xfe",
        b'{"date": "2019-03-27"}',
        b'{"date": "someday"}',
        b'{"date": 5}',
        b'{"surprise": 1}',
    ],
)
def test_a_broken_record_is_refused(files: dict[str, Path], tmp_path: Path, content: bytes) -> None:
    (one,) = import_files([files["itch"]], tmp_path / "out", ACME)
    (tmp_path / "out" / f"{one.stem}{RECORD}").write_bytes(content)
    with pytest.raises(DataError, match="must be a record written by `riskroute market import`"):
        RecordingStore(tmp_path / "out").recordings()


@pytest.mark.parametrize(
    ("name", "value"),
    [("depth", "5"), ("depth", None), ("source", 3), ("snapshots", 1.5), ("has_events", 1), ("notes", [])],
)
def test_a_record_of_other_types_is_refused(files: dict[str, Path], tmp_path: Path, name: str, value: Any) -> None:
    (one,) = import_files([files["itch"]], tmp_path / "out", ACME)
    path = tmp_path / "out" / f"{one.stem}{RECORD}"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(DataError, match=f"{name} must be of type"):
        RecordingStore(tmp_path / "out").recordings()


@pytest.mark.parametrize("ending", [SNAPSHOTS, EVENTS])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "other"])
def test_a_broken_table_is_refused(files: dict[str, Path], tmp_path: Path, ending: str, damage: str) -> None:
    (one,) = import_files([files["itch"]], tmp_path / "out", ACME)
    path = tmp_path / "out" / f"{one.stem}{ending}"
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "other": b"PAR1 no PAR1"}[damage])
    store = RecordingStore(tmp_path / "out")
    calls: list[Callable[[], object]] = (
        [lambda: store.events(one)] if ending == EVENTS else [lambda: store.snapshots(one), lambda: store.summary(one)]
    )
    for call in calls:
        with pytest.raises(DataError, match="must be a table written by `riskroute market import`") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_quality_of_a_recording(tmp_path: Path) -> None:
    columns = table_columns(MESSAGES, 2) | {"bid_px_00": [99.5] * 39 + [None], "bid_sz_00": [100] * 40}
    columns |= {"ask_px_00": [100.0] * 40, "ask_sz_00": [30] * 40, "bid_sz_01": [50] * 40}
    columns |= {"bid_px_01": [99.0] * 39 + [None], "ask_px_01": [101.0] * 40, "ask_sz_01": [7] * 40}
    (tmp_path / "books.csv").write_text(csv_text(columns))
    (one,) = import_files([tmp_path / "books.csv"], tmp_path / "out", ACME)
    found = RecordingStore(tmp_path / "out").summary(one)
    assert (found["spread"], found["bid_depth"], found["ask_depth"], found["one_sided"]) == (0.5, 150, 37, 1 / 40)
    assert found["date"] == "2019-03-27"


def test_a_writer_without_snapshots_writes_an_empty_event_table(tmp_path: Path) -> None:
    one = Recording("XNAS", "ACME", dt.date(2019, 3, 27), 1, "nothing", "table")
    writer = RecordingWriter(tmp_path, one)
    table = polars.DataFrame(table_columns(MESSAGES, 1)).with_row_index("sequence")
    table = reading_snapshots(table.with_columns(polars.col("ts_event").cast(polars.Datetime("ns", "UTC"))), 1)
    writer.add_snapshots(table.head(0))
    writer.add_snapshots(table)
    writer.add_events(polars.DataFrame())
    assert [name for name in visible(tmp_path) if not name.startswith(".")] == []
    writer.commit()
    check_recordings(tmp_path)
    assert RecordingStore(tmp_path).events(one).height == 0


def test_table_depth_counts_levels() -> None:
    frame = polars.DataFrame({name: [1.0, 2.0] for name in level_columns(3)})
    assert schema_depth(frame) == 3
    with pytest.raises(DataError, match="expected snapshot columns bid_px_00"):
        schema_depth(frame.drop("ask_sz_01"))
    with pytest.raises(DataError, match="expected snapshot columns bid_px_00"):
        schema_depth(polars.DataFrame())
    assert len(snapshot_schema(5)) == 24
