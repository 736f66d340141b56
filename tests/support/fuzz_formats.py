"""Small valid inputs of Databento, of TAQ and of book updates, for ``benchmarks/fuzz_market.py`` to damage."""

from __future__ import annotations

import numpy as np

from databento_files import OPEN, book_record, mbo_file, metadata, packed, random_orders, transcoded
from naive_updates import binance_text, random_updates, tardis_text
from riskroute.market.readers.reading import ImportOptions
from taq_files import OPEN as MORNING
from taq_files import TAQ_NAME, Quote, taq_text, wrds_text

Contents = dict[str, bytes]


def databento_orders(rng: np.random.Generator) -> Contents:
    """A DBN file of orders."""
    return {"a.mbo.dbn": mbo_file(random_orders(int(rng.integers(50)), 20, step=10**9))}


def databento_books(rng: np.random.Generator) -> Contents:
    """A DBN file of books with one level or ten."""
    schema = ("mbp-1", "mbp-10", "bbo-1s")[rng.integers(3)]
    records = []
    for k in range(6):
        bid, ask = 9_990 + int(rng.integers(9)), 10_000 + int(rng.integers(9))
        sizes = [int(size) for size in rng.integers(1, 900, 4)]
        levels = [(bid, sizes[0], ask, sizes[1]), (bid - 1, sizes[2], ask + 1, sizes[3])]
        records.append(book_record(levels, OPEN + 3 * k * 10**9, schema=schema, publisher=(2, 43)[k % 2]))
    return {f"a.{schema}.dbn": metadata(schema) + b"".join(records)}


def databento_binary(rng: np.random.Generator) -> Contents:
    """Either kind of DBN file."""
    return (databento_orders if rng.random() < 0.5 else databento_books)(rng)


def databento_text(rng: np.random.Generator) -> Contents:
    """The same as CSV, in either form."""
    (content,) = databento_binary(rng).values()
    pretty = [bool(rng.integers(2)) for _ in range(2)]
    return {"databento.csv": transcoded(content, pretty_px=pretty[0], pretty_ts=pretty[1])}


def tape_quotes(rng: np.random.Generator) -> Contents:
    """A file of Daily TAQ or of WRDS."""
    quotes = [
        Quote(MORNING + k * 10**9, str(rng.choice(list("NQTPD"))), 10 - 0.01 * k % 3, int(rng.integers(9)))
        for k in range(20)
    ]
    if rng.random() < 0.5:
        return {"wrds.csv": wrds_text(quotes).encode()}
    return {TAQ_NAME: taq_text(quotes, end=bool(rng.integers(2))).encode()}


def dbn_records(data: bytes) -> list[bytes]:
    """What stands before the records, and the records."""
    begin = 8 + int.from_bytes(data[4:8], "little")
    size = max(data[begin] * 4, 16) if begin < len(data) else 16
    return [data[:begin], *(data[k : k + size] for k in range(begin, len(data), size))]


def zstd(contents: Contents) -> Contents:
    """Every file packed."""
    return {f"{name}.zst": packed(content) for name, content in contents.items()}


def tardis_updates(rng: np.random.Generator) -> tuple[Contents, str, ImportOptions]:
    """A table of updates, how it is packed, and what is asked of it."""
    return _updates(rng, "books.csv", tardis_text(random_updates(rng), 1_553_644_800_000_000))


def binance_updates(rng: np.random.Generator) -> tuple[Contents, str, ImportOptions]:
    """Lines of updates, how they are packed, and what is asked of them."""
    return _updates(rng, "books.json", binance_text(random_updates(rng), 1_553_644_800_000))


def _updates(rng: np.random.Generator, name: str, text: str) -> tuple[Contents, str, ImportOptions]:
    packing = ("plain", "plain", "gzip", "zip")[rng.integers(4)]
    return {name: text.encode()}, packing, ImportOptions((), (1, 2, 5)[rng.integers(3)], unit=0.5)
