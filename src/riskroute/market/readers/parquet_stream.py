"""A Parquet file written piece by piece, in a thread of its own, while the next piece is being made."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars

AHEAD = 2
"""Pieces that may wait to be written."""


class ParquetStream:
    """Appends frames of the same columns to a file; an error of writing shows at one of the calls that follow it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None
        self._thread = ThreadPoolExecutor(1)
        self._waiting: deque[Future[None]] = deque()

    def add(self, frame: polars.DataFrame) -> None:
        """Append a frame, soon."""
        while len(self._waiting) >= AHEAD:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(self._append, frame))

    def close(self) -> None:
        """Wait until everything is written; again does nothing."""
        try:
            while self._waiting:
                self._waiting.popleft().result()
        finally:
            self._thread.shutdown(cancel_futures=True)
            if self._writer is not None:
                self._writer.close()

    def _append(self, frame: polars.DataFrame) -> None:
        from pyarrow.parquet import ParquetWriter

        table = frame.to_arrow()
        if self._writer is None:
            words = [name for name, kind in frame.schema.items() if kind == polars.String]
            # Dictionaries of numbers and statistics cost more than they save; times are what tables are searched by.
            options = {"use_dictionary": words, "write_statistics": ["ts_event"]}
            self._writer = ParquetWriter(self._path, table.schema, compression="lz4", **options)
        self._writer.write_table(table)
