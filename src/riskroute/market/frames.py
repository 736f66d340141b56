"""Import frames of books, levels, updates and trades as if they were files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import polars

from riskroute.core.errors import InputError
from riskroute.core.text import one_line_text
from riskroute.core.validation import instance_of, valid_path
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import RecordingStore


def from_frame(
    books: Any,
    out: str | os.PathLike[str],
    options: ReadingOptions | None = None,
    *,
    trades: Any = None,
    max_crossed: float = 0.01,
) -> RecordingStore:
    """Write the recordings of frames into a folder, and open it.

    Parameters
    ----------
    books : polars.DataFrame or pandas.DataFrame
        Books with a column per price and size or with lists of levels, levels of whole books, or updates of levels:
        the same columns as in a table.
    out : str or path
        Folder of the recordings.
    options : ReadingOptions, optional
        Venue and symbol unless the frame states them, names of columns, levels and instruments.
    trades : polars.DataFrame or pandas.DataFrame, optional
        Public trades of the same venues and symbols.
    max_crossed : float
        Refuse books if a larger fraction of their snapshots is crossed or locked.

    Examples
    --------
    >>> updates = polars.DataFrame({
    ...     "time": [1_577_836_800, 1_577_836_800, 1_577_836_860], "side": ["bid", "ask", "ask"],
    ...     "price": [99.0, 101.0, 100.5], "size": [0.5, 0.25, 1.5],
    ... })
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = from_frame(updates, folder, ReadingOptions(("BTCUSDT",), venue="kraken"))
    ...     store.snapshots(store.recordings()[0])["ask_px_00"].to_list()
    [101.0, 100.5]
    """
    chosen = instance_of(
        "options", ReadingOptions() if options is None else options, ReadingOptions, "a ReadingOptions"
    )
    folder = valid_path("out", out)
    frames = {"books": _polars_frame("books", books)}
    if trades is not None:
        frame = _polars_frame("trades", trades)
        frames["trades"] = frame if {"id", "trade_id"} & set(frame.columns) else frame.with_row_index("trade_id")
    with tempfile.TemporaryDirectory() as temporary:
        files = [Path(temporary) / f"{name}.parquet" for name in frames]
        for file, (name, frame) in zip(files, frames.items(), strict=True):
            try:
                frame.write_parquet(file)
            except (polars.exceptions.PolarsError, TypeError) as error:
                text = one_line_text(error)
                raise InputError(f"{name} must have columns of numbers, texts, times or lists: {text}") from error
        import_files(files, folder, chosen, max_crossed=max_crossed)
    return RecordingStore(folder)


def _polars_frame(name: str, frame: Any) -> polars.DataFrame:
    """Convert a frame to polars; a pandas index other than RangeIndex becomes a column, by default ``ts_event``."""
    if isinstance(frame, polars.DataFrame):
        return frame
    if type(frame).__module__.partition(".")[0] != "pandas" or not hasattr(frame, "columns"):
        raise InputError(f"{name} must be a frame of polars or pandas, was {type(frame).__name__}")
    if type(frame.index).__name__ != "RangeIndex":
        frame = frame.rename_axis(frame.index.name or "ts_event").reset_index()
    return polars.from_pandas(frame)
