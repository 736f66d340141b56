"""Recordings made by hand, in a folder as `riskroute market import` writes it: one book that never moves."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars as pl

from riskroute.market.clock import SECOND, TRADING_ZONE, utc_stamp
from riskroute.market.schema import snapshot_schema
from riskroute.market.store import Recording, RecordingWriter

DATE = dt.date(2019, 3, 4)


def record_day(
    folder: Path,
    venue: str = "XNAS",
    *,
    symbol: str = "TARN",
    date: dt.date = DATE,
    zone: str = TRADING_ZONE,
    hours: tuple[dt.time, dt.time] = (dt.time(10, 30), dt.time(10, 50)),
    reader: str = "table",
    half_spread: float = 0.01,
    levels: int = 2,
    size: int = 500,
) -> Path:
    """Record a book of so many levels around 100.00, a cent and some shares each, once a second; returns the folder."""
    begin, end = (utc_stamp(date, moment, zone) for moment in hours)
    stamps = np.arange(begin, end, SECOND)
    columns: dict[str, object] = {
        "ts_event": stamps,
        "sequence": np.arange(len(stamps)),
        "venue": [venue] * len(stamps),
        "symbol": [symbol] * len(stamps),
    }
    for level in range(levels):
        for side, sign in (("bid", -1), ("ask", 1)):
            columns[f"{side}_px_{level:02d}"] = np.full(len(stamps), 100 + sign * (half_spread + 0.01 * level))
            columns[f"{side}_sz_{level:02d}"] = np.full(len(stamps), size)
    kinds = snapshot_schema(levels)
    frame = pl.DataFrame(columns).select(pl.col(name).cast(kind) for name, kind in kinds.items())
    writer = RecordingWriter(folder, Recording(venue, symbol, date, levels, "made by hand", reader, zone=zone))
    writer.add_snapshots(frame)
    writer.commit()
    return folder
