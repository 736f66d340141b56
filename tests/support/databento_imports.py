"""Imports of Databento's files: those that work, and what is said of those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import refused_imports
from databento_files import OPEN, Levels, book_record, metadata
from market_files import check_recordings
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ImportOptions
from riskroute.market.store import Recording, Store

ALL = ImportOptions()
BOOKS: list[Levels] = [
    [(9_999, 300, 10_001, 200), (9_998, 50, 10_003, 70)],
    [(10_000, 100, 10_001, 200), (9_999, 300, 10_003, 70)],
    [(0, 0, 10_001, 200)],
]


def written(folder: Path, content: bytes, name: str = "xnas-itch-20240103.mbo.dbn") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def imported(path: Path, wanted: ImportOptions = ALL, **options: Any) -> tuple[Recording, Store]:
    out = path.parent / f"{path.name}.out"
    (one,) = import_files([path], out, wanted, **options)
    check_recordings(out)
    return one, Store(out)


def refusal(folder: Path, content: bytes, wanted: ImportOptions = ALL, name: str = "x.dbn", **options: Any) -> str:
    return refused_imports.refusal(written(folder, content, name), wanted, **options)


def mbp(schema: str = "mbp-1", **changes: Any) -> bytes:
    records = [book_record(book, OPEN + k * 10**9, schema=schema, **changes) for k, book in enumerate(BOOKS)]
    return metadata(schema) + b"".join(records)
