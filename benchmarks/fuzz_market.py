"""Import of corrupted market data: an error or complete tables, never a crash, a hang or partial output.

    python benchmarks/fuzz_market.py --count 100000 --seed 0 --kinds itch,lobster,ticks,csv,parquet,tardis,dbn

The seed and the number of an input determine it. A child process imports the inputs in sequence. If the child dies or
exceeds the time limit, the input is kept, and another child continues with the next. Exits with status 1 if an input
failed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime as dt
import faulthandler
import io
import json
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars

from riskroute.core.errors import RiskrouteError
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from timing import leave, print_heading, say, sized

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from databento_files import OPEN as DATABENTO_OPEN
from databento_files import book_record, mbo_file, metadata, packed, random_orders, transcoded
from iex_files import iex_level, iex_segment, pcap
from market_files import (
    ITCH_NAME,
    LOBSTER_NAME,
    OPEN,
    TAQ_NAME,
    TICK_NAME,
    Quote,
    binance_text,
    check_recordings,
    csv_text,
    gzipped,
    itch_directory,
    itch_order,
    lobster_texts,
    random_messages,
    random_updates,
    table_columns,
    taq_text,
    tardis_text,
    tick_text,
    wrds_text,
    zipped,
)

SECONDS = sized(5, 300)
"""Seconds after which an input counts as hanging; more in a quick run, whose processor may be busy."""

NUMBERS = (
    "", "0", "-1", "1e9", "NaN", "inf", "-inf", "nan", "null", "4294967295", "4294967296", "-2147483649", "1.5", "0x10",
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "-9223372036854775808", "1e400", "9" * 60,
    "99999999999", "86400", "86400000", "1553700000000000001", "2019-03-27", "2019-03-27 11:00:00", "25:61", "٣", "abc",
    "2019-03-27T11:00:00Z", "9999-12-31 23:59:59", "0001-01-01 00:00:00", "2019-03-10 02:30:00", " 1", "+1", "1,2", '"',
    "-0", "\x00", "é", "XNAS", "../x", "true",
)  # fmt: skip
"""Unexpected values for a field of a table."""


TYPES = (
    polars.String, polars.Int8, polars.UInt64, polars.Float32, polars.Boolean, polars.Binary, polars.Categorical,
    polars.Date, polars.Time, polars.Duration, polars.Datetime("us"), polars.Datetime("ms", "Europe/London"),
    polars.Decimal(38, 4), polars.Null, polars.List(polars.Float64),
)  # fmt: skip
"""Unexpected types for a column of a Parquet file."""

EXTREMES = (float("nan"), float("inf"), -1.0, 1.5, 2.0**32, 2.0**62, 1e300, 0.0)

Splitter = Callable[[bytes], list[bytes]]
Valid = tuple[dict[str, bytes], str, ReadingOptions]


@dataclass
class Case:
    """Files of one input, of which the first is imported, and the import options."""

    files: dict[str, bytes]
    wanted: ReadingOptions


def damaged(kind: str, rng: np.random.Generator) -> Case:
    """Return a small input of a kind with one to three corruptions, some applied before packing and some after."""
    contents, packed, wanted = VALID[kind](rng)
    split = {"itch": _itch_records, "dbn": _dbn_records}.get(kind, _lines)
    changes = [*BYTES, *RECORDS * 3, *[_hostile_field if split is _lines else _hostile_message] * 8]
    inside = 0 if kind == "parquet" else _pick(rng, (1, 1, 1, 2, 3) if packed == "plain" else (0, 1))
    for _ in range(inside):
        name = _pick(rng, list(contents))
        contents[name] = _pick(rng, changes)(contents[name], rng, split)
    files = PACKING[packed](contents)
    name = next(iter(files))
    for _ in range(0 if packed == "plain" else rng.integers(0 if inside else 1, 3)):
        files[name] = _pick(rng, BYTES)(files[name], rng, split)
    return Case(files, wanted)


def _pick(rng: np.random.Generator, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _cut(size: int, rng: np.random.Generator, longest: int = 200) -> tuple[int, int]:
    first = int(rng.integers(size + 1))
    return first, min(size, first + int(rng.integers(1, longest)))


def _flip(data: bytes, rng: np.random.Generator, _: Any) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4) if data else 0):
        changed[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _overwrite(data: bytes, rng: np.random.Generator, _: Any) -> bytes:
    first, last = _cut(len(data), rng, 9)
    filler: bytes = _pick(rng, (b"\x00", b"\xff", b"\x7f", b"\x80"))
    return data[:first] + filler * (last - first) + data[last:]


def _delete(data: bytes, rng: np.random.Generator, _: Any) -> bytes:
    first, last = _cut(len(data), rng)
    return data[:first] + data[last:]


def _insert(data: bytes, rng: np.random.Generator, _: Any) -> bytes:
    first, last = _cut(len(data), rng)
    return data[:first] + rng.bytes(last - first) + data[first:]


def _truncate(data: bytes, rng: np.random.Generator, _: Any) -> bytes:
    return data[: rng.integers(len(data) + 1)]


def _repeat(data: bytes, rng: np.random.Generator, _: Any) -> bytes:
    first, last = _cut(len(data), rng)
    return data[:last] + data[first:last] * int(rng.integers(1, 4)) + data[last:]


def _swap(data: bytes, rng: np.random.Generator, _: Any) -> bytes:
    one, two, three, four = sorted(int(at) for at in rng.integers(len(data) + 1, size=4))
    return data[:one] + data[three:four] + data[two:three] + data[one:two] + data[four:]


def _swap_records(data: bytes, rng: np.random.Generator, split: Splitter) -> bytes:
    records = split(data)
    for _ in range(rng.integers(1, 4) if records else 0):
        here, there = rng.integers(len(records), size=2)
        records[here], records[there] = records[there], records[here]
    return b"".join(records)


def _repeat_records(data: bytes, rng: np.random.Generator, split: Splitter) -> bytes:
    records = split(data)
    first, last = _cut(len(records), rng, 5)
    return b"".join(records[:last] + records[first:last] + records[last:])


def _drop_records(data: bytes, rng: np.random.Generator, split: Splitter) -> bytes:
    records = split(data)
    first, last = _cut(len(records), rng, 5)
    return b"".join(records[:first] + records[last:])


def _hostile_field(data: bytes, rng: np.random.Generator, _: Any) -> bytes:
    """Replace a field of some row, or of all rows below the first, by an unexpected value."""
    mark = b"|" if b"|" in data[:200] else b","
    rows = [line.split(mark) for line in data.split(b"\n")]
    number = int(rng.integers(len(rows)))
    column = int(rng.integers(len(rows[number])))
    text = _pick(rng, NUMBERS).encode()
    for row in rows[1:] if rng.random() < 0.2 else [rows[number]]:
        if column < len(row):
            row[column] = text
    return b"\n".join(map(mark.join, rows))


def _hostile_message(data: bytes, rng: np.random.Generator, split: Splitter) -> bytes:
    """Overwrite part of a message with zeros, ones, random bytes or bytes of another message; keep the length."""
    records = split(data)
    if not records:
        return data
    number = int(rng.integers(len(records)))
    message = bytearray(records[number])
    first = _pick(rng, (2, 3, 5, 7, 13, 21, 22, 26, 30, 34))
    last = min(len(message), first + _pick(rng, (1, 2, 4, 6, 8)))
    donor = bytes(_pick(rng, records))
    source = _pick(rng, (b"\x00" * 99, b"\xff" * 99, donor + bytes(99), rng.bytes(99)))
    message[first:last] = source[first:last]
    records[number] = bytes(message)
    return b"".join(records)


def _itch_records(data: bytes) -> list[bytes]:
    records, place = [], 0
    while place < len(data):
        length = int.from_bytes(data[place : place + 2], "big") + 2
        records.append(data[place : place + length])
        place += length
    return records


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def _some_wanted(rng: np.random.Generator, symbols: tuple[str, ...], most: int, **others: Any) -> ReadingOptions:
    hours: dict[str, Any] = {"start": dt.time(9, 30, 5), "end": dt.time(9, 30, 25)} if rng.random() < 0.1 else {}
    return ReadingOptions(symbols, int(_pick(rng, (1, 2, 5, most))), **hours, **others)


def _itch(rng: np.random.Generator) -> Valid:
    messages = random_messages(int(rng.integers(50)), 45)
    orders = [itch_order(one, "ACME", 1) for one in messages]
    others = [
        itch_order(one._replace(time=messages[-1].time, reference=one.reference + 1000), "ZETA", 2)
        for one in random_messages(1, 6)
    ]
    symbols = _pick(rng, (("ACME",), ("ACME",), ("ACME", "ZETA")))
    whole = b"".join([itch_directory("ACME"), itch_directory("ZETA", 2), *orders, *others])
    return {ITCH_NAME: whole}, _pick(rng, ("plain", "plain", "gzip")), _some_wanted(rng, symbols, 50)


def _lobster(rng: np.random.Generator) -> Valid:
    depth = int(rng.integers(1, 4))
    texts = lobster_texts(random_messages(int(rng.integers(50)), 30, kinds="AXDE"), depth)
    names = [LOBSTER_NAME.format(kind, depth) for kind in ("message", "orderbook")]
    contents = {name: text.encode() for name, text in zip(names, texts, strict=True)}
    return contents, _pick(rng, ("plain", "plain", "zip")), _some_wanted(rng, (), 50)


def _ticks(rng: np.random.Generator) -> Valid:
    text = tick_text(random_messages(int(rng.integers(50)), 40), "NQTP")
    return {TICK_NAME: text.encode()}, _pick(rng, ("plain", "plain", "gzip", "zip")), _some_wanted(rng, (), 50)


def _columns(rng: np.random.Generator) -> dict[str, list[Any]]:
    columns = table_columns(random_messages(int(rng.integers(50)), 25), int(rng.integers(1, 3)), ("XNAS", "XBOS"))
    stamps = polars.Series(columns["ts_event"]).cast(polars.Datetime("ns", "UTC"))
    local = stamps.dt.convert_time_zone("America/New_York").dt.replace_time_zone(None)
    texts = (stamps.dt.strftime("%Y-%m-%dT%H:%M:%S%.fZ"), local.dt.strftime("%Y-%m-%d %H:%M:%S%.f"))
    return columns | {"ts_event": _pick(rng, (columns["ts_event"], *(text.to_list() for text in texts)))}


def _csv(rng: np.random.Generator) -> Valid:
    text = csv_text(_columns(rng))
    return {"books.csv": text.encode()}, _pick(rng, ("plain", "plain", "gzip", "zip")), _some_wanted(rng, (), 50)


def _parquet(rng: np.random.Generator) -> Valid:
    """Return a valid table, whose bytes are damaged later, or one with unexpected types and extreme numbers."""
    frame = polars.DataFrame(_columns(rng))
    odd = rng.random() < 0.5
    for name in rng.choice(frame.columns, 2, replace=False) if odd else ():
        if frame[name].dtype.is_numeric() and rng.random() < 0.5:
            value = polars.Series([_pick(rng, EXTREMES)]).cast(frame[name].dtype, strict=False)[0]
            here = polars.int_range(polars.len()) == rng.integers(frame.height)
            frame = frame.with_columns(polars.when(here).then(value).otherwise(polars.col(name)).alias(name))
        else:
            with contextlib.suppress(polars.exceptions.PolarsError):  # not every type becomes every other
                frame = frame.with_columns(polars.col(name).cast(_pick(rng, TYPES), strict=False))
    whole = io.BytesIO()
    frame.write_parquet(whole, compression=_pick(rng, ("uncompressed", "lz4", "zstd", "snappy")))
    return {"books.parquet": whole.getvalue()}, "plain" if odd else "parquet", _some_wanted(rng, (), 50)


def _databento_orders(rng: np.random.Generator) -> dict[str, bytes]:
    """Return a DBN file of orders."""
    return {"a.mbo.dbn": mbo_file(random_orders(int(rng.integers(50)), 20, step=10**9))}


def _databento_books(rng: np.random.Generator) -> dict[str, bytes]:
    """Return a DBN file of books with one level or ten."""
    schema = ("mbp-1", "mbp-10", "bbo-1s")[rng.integers(3)]
    records = []
    for k in range(6):
        bid, ask = 9_990 + int(rng.integers(9)), 10_000 + int(rng.integers(9))
        sizes = [int(size) for size in rng.integers(1, 900, 4)]
        levels = [(bid, sizes[0], ask, sizes[1]), (bid - 1, sizes[2], ask + 1, sizes[3])]
        records.append(book_record(levels, DATABENTO_OPEN + 3 * k * 10**9, schema=schema, publisher=(2, 43)[k % 2]))
    return {f"a.{schema}.dbn": metadata(schema) + b"".join(records)}


def _databento_binary(rng: np.random.Generator) -> dict[str, bytes]:
    """Return a DBN file of either kind."""
    return (_databento_orders if rng.random() < 0.5 else _databento_books)(rng)


def _databento_text(rng: np.random.Generator) -> dict[str, bytes]:
    """Return Databento CSV, in either form."""
    (content,) = _databento_binary(rng).values()
    pretty = [bool(rng.integers(2)) for _ in range(2)]
    return {"databento.csv": transcoded(content, pretty_px=pretty[0], pretty_ts=pretty[1])}


def _tape_quotes(rng: np.random.Generator) -> dict[str, bytes]:
    """Return a file of Daily TAQ or of WRDS."""
    quotes = [
        Quote(OPEN + k * 10**9, str(rng.choice(list("NQTPD"))), 10 - 0.01 * k % 3, int(rng.integers(9)))
        for k in range(20)
    ]
    if rng.random() < 0.5:
        return {"wrds.csv": wrds_text(quotes).encode()}
    return {TAQ_NAME: taq_text(quotes, end=bool(rng.integers(2))).encode()}


def _dbn_records(data: bytes) -> list[bytes]:
    """Return the bytes before the records, then each record."""
    begin = 8 + int.from_bytes(data[4:8], "little")
    size = max(data[begin] * 4, 16) if begin < len(data) else 16
    return [data[:begin], *(data[k : k + size] for k in range(begin, len(data), size))]


def _zstd(contents: dict[str, bytes]) -> dict[str, bytes]:
    """Return every file compressed with zstd."""
    return {f"{name}.zst": packed(content) for name, content in contents.items()}


def _tardis_updates(rng: np.random.Generator) -> Valid:
    """Return a table of updates, its packing, and the import options."""
    return _updates(rng, "books.csv", tardis_text(random_updates(rng), 1_553_644_800_000_000))


def _binance_updates(rng: np.random.Generator) -> Valid:
    """Return lines of updates, their packing, and the import options."""
    return _updates(rng, "books.json", binance_text(random_updates(rng), 1_553_644_800_000))


def _event_quotes(rng: np.random.Generator) -> Valid:
    """Return lines of quotes of an event contract, their packing, and the import options."""
    updates = [one._replace(price=one.price / 200) for one in random_updates(rng)]
    head = {"symbol": "RAIN", "venue": "polls"}
    first = {"time": 1_553_644_800, **head, "bids": [], "asks": []}
    later = [
        {"time": 1_553_644_800 + one.group, **head, "changes": [("bid" if one.bid else "ask", one.price, one.size)]}
        for one in updates
    ]
    return _updates(rng, "quotes.jsonl", "".join(json.dumps(line) + "\n" for line in (first, *later)))


def _iex_levels(rng: np.random.Generator) -> dict[str, bytes]:
    """Return a network capture of DEEP."""
    levels = [
        iex_level("B" if one.bid else "A", 1_553_693_400 * 10**9 + one.group, "ACME", int(2 * one.size), one.price)
        for one in random_updates(rng)
    ]
    return {"deep.pcap": pcap([iex_segment(levels[k : k + 5], 1 + k) for k in range(0, len(levels), 5)])}


def _updates(rng: np.random.Generator, name: str, text: str) -> Valid:
    packing = ("plain", "plain", "gzip", "zip")[rng.integers(4)]
    return {name: text.encode()}, packing, ReadingOptions((), (1, 2, 5)[rng.integers(3)])


def _made(make: Callable[[np.random.Generator], dict[str, bytes]], packing: str) -> Callable[[Any], Valid]:
    return lambda rng: (make(rng), _pick(rng, ("plain", "plain", packing)), _some_wanted(rng, (), 10))


BYTES = (_flip, _flip, _overwrite, _delete, _insert, _truncate, _repeat, _swap)
RECORDS = (_swap_records, _repeat_records, _drop_records)
VALID: dict[str, Callable[[np.random.Generator], Valid]] = {
    "itch": _itch, "lobster": _lobster, "ticks": _ticks, "csv": _csv, "parquet": _parquet,
    "dbn": _made(_databento_binary, "zstd"),
    "databento": _made(_databento_text, "zstd"),
    "taq": _made(_tape_quotes, "gzip"),
    "tardis": _tardis_updates,
    "binance": _binance_updates,
    "quotes": _event_quotes,
    "iex": _made(_iex_levels, "gzip"),
}  # fmt: skip
KINDS = tuple(VALID)
PACKING: dict[str, Callable[[dict[str, bytes]], dict[str, bytes]]] = {
    "plain": dict,
    "parquet": dict,
    "gzip": lambda contents: {f"{name}.gz": gzipped(content) for name, content in contents.items()},
    "zstd": _zstd,
    "zip": lambda contents: {next(iter(contents)).replace(".csv", ".zip"): zipped(contents)},
}


def attempt(seed: int, index: int, kinds: tuple[str, ...], folder: Path) -> str:
    """Import input number ``index`` below ``folder``; return ``read`` or ``refused``, or raise `AssertionError`."""
    given, out = folder / "in", folder / "out"
    for place in (given, out):
        shutil.rmtree(place, ignore_errors=True)
    given.mkdir(parents=True)
    kind = kinds[index % len(kinds)]
    case = damaged(kind, np.random.default_rng([seed, index]))
    for name, content in case.files.items():
        (given / name).write_bytes(content)
    try:
        import_files([given / next(iter(case.files))], out, case.wanted)
    except RiskrouteError as error:
        _check_refusal(error, out)
        return "refused"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a polars panic is not an Exception
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    check_recordings(out)
    return "read"


def _check_refusal(error: RiskrouteError, out: Path) -> None:
    if out.is_dir() and any(out.iterdir()):
        raise AssertionError(f"a refused import left {[path.name for path in out.iterdir()]}; its error: {error}")
    if "\n" in str(error):
        raise AssertionError(f"expected an error of one line, got: {error}")


def work(seed: int, first: int, last: int, kinds: tuple[str, ...], folder: Path) -> None:
    """Import inputs in a child: print ``number outcome`` per input, and the traceback of each failure on stderr."""
    for index in range(first, last):
        faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__ or sys.stderr)
        try:
            outcome = attempt(seed, index, kinds, folder)
        except AssertionError:
            outcome = "failed"
            traceback.print_exc()
        faulthandler.cancel_dump_traceback_later()
        if outcome == "failed":
            _keep(folder, index)
        print(index, outcome, flush=True)


def _keep(folder: Path, index: int) -> None:
    shutil.copytree(folder / "in", folder / "kept" / str(index), dirs_exist_ok=True)


def run(seed: int, count: int, kinds: tuple[str, ...], folder: Path) -> collections.Counter[tuple[str, str]]:
    """Return the number of inputs by kind and outcome; children that import them are replaced when they die."""
    outcomes: collections.Counter[tuple[str, str]] = collections.Counter()
    begin, following = time.monotonic(), 0
    while following < count:
        options = ["--seed", str(seed), "--kinds", ",".join(kinds), "--first", str(following), "--last", str(count)]
        command = [sys.executable, __file__, "--child", str(folder), *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                index, outcome = line.split()
                outcomes[kinds[int(index) % len(kinds)], outcome] += 1
                following = int(index) + 1
                if following % 1000 == 0:
                    print(f"{following:,} of {count:,}, {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        if child.returncode and following < count:
            print(f"input {following} ended its process with status {child.returncode}", file=sys.stderr)
            outcomes[kinds[following % len(kinds)], "died"] += 1
            _keep(folder, following)
            following += 1
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=sized(100_000, 10), help="total number of inputs")
    parser.add_argument("--quick", action="store_true", help="import only ten inputs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"comma-separated kinds of input: {', '.join(KINDS)}")
    for hidden, kind in (("--first", int), ("--last", int), ("--child", Path)):
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    given = parser.parse_args()
    kinds = tuple(given.kinds.split(","))
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"--kinds must be among {', '.join(KINDS)}, was {', '.join(sorted(unknown))}")
    if given.child is not None:
        work(given.seed, given.first, given.last, kinds, given.child)
        return
    print_heading("Damaged market data", ["riskroute", "itch-book", "polars", "pyarrow"])
    folder = Path(tempfile.mkdtemp(prefix="fuzz_market_"))
    outcomes = run(given.seed, given.count, kinds, folder)
    for kind in kinds:
        say("  ".join([kind, *(f"{name} {count:,}" for (of, name), count in sorted(outcomes.items()) if of == kind)]))
    failures = sum(count for (_, name), count in outcomes.items() if name in ("failed", "died"))
    say(f"{sum(outcomes.values()):,} inputs, {failures} failures")
    if failures:
        say(f"their inputs are in {folder / 'kept'}")
    else:
        shutil.rmtree(folder)
    leave([failures == 0])


if __name__ == "__main__":
    main()
