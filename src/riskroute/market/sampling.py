"""The paper's sampling: one random time per bucket of a window, and, within it, the closest snapshot of each venue.

All venues share the sample times. A venue without a snapshot in a bucket has no sample there.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
import polars

from riskroute.core.arrays import Flags, Floats, Stamps
from riskroute.core.instrument import SHARES, Instrument
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import whole_number
from riskroute.market.clock import TimeWindow
from riskroute.market.schema import schema_depth


@dataclass(frozen=True)
class SampleTimes:
    """One time per bucket: ``edges (B + 1,)`` and ``times (B,)``, UTC nanoseconds."""

    edges: Stamps
    times: Stamps


def draw_sample_times(day: dt.date, window: TimeWindow, seed: int, instrument: Instrument = SHARES) -> SampleTimes:
    """Draw one uniform time per bucket, shared by all venues."""
    edges = window.edges(day, instrument)
    rng = np.random.default_rng(seed_stream(seed, "sampled times", str(day)))
    return SampleTimes(edges, rng.integers(edges[:-1], edges[1:]))


@dataclass(frozen=True)
class SampledBooks:
    """One snapshot per bucket: prices and sizes ``(B, levels)``, NaN and 0 for absent levels, and ``stamps (B,)``.

    A bucket without a snapshot has stamp -1 and no levels.
    """

    stamps: Stamps
    bid_px: Floats
    bid_sz: Floats
    ask_px: Floats
    ask_sz: Floats

    @property
    def found(self) -> Flags:
        """Whether each bucket has a snapshot, ``(B,)``."""
        return self.stamps >= 0

    @property
    def mid(self) -> Floats:
        """Mid price, ``(B,)``, NaN where a side is empty."""
        return np.asarray((self.bid_px[:, 0] + self.ask_px[:, 0]) / 2)

    def side(self, name: str) -> tuple[Floats, Floats]:
        """Return prices and sizes of the ``bid`` or the ``ask`` side."""
        return (self.bid_px, self.bid_sz) if name == "bid" else (self.ask_px, self.ask_sz)


def sample_closest_rows(snapshots: polars.DataFrame, sample_times: SampleTimes) -> Stamps:
    """Return the row of each bucket's snapshot closest to its sample time, ``(B,)``; ties go to the later one.

    -1 marks a bucket without a snapshot.
    """
    stamps = snapshots["ts_event"].cast(polars.Int64).to_numpy()
    first, last = _spans(stamps, sample_times)
    rows = np.full(len(first), -1, dtype=np.int64)
    found = first <= last
    first, last, times = first[found], last[found], sample_times.times[found]
    before = np.clip(np.searchsorted(stamps, times, side="right") - 1, first, last)
    after = np.clip(before + 1, first, last)
    closest = np.where(np.abs(stamps[after] - times) <= np.abs(stamps[before] - times), after, before)
    # Of several snapshots with one timestamp only the last was in force for any time.
    rows[found] = np.searchsorted(stamps, stamps[closest], side="right") - 1
    return rows


def sample_closest_books(
    snapshots: polars.DataFrame, sample_times: SampleTimes, *, levels: int | None = None
) -> SampledBooks:
    """Return each bucket's snapshot closest to its sample time, as `sample_closest_rows` selects it."""
    return sample_books(snapshots, sample_closest_rows(snapshots, sample_times), levels=levels)


def sample_last_rows(snapshots: polars.DataFrame, sample_times: SampleTimes) -> Stamps:
    """Return the row of the last snapshot of each bucket, ``(B,)``, -1 if the bucket has none."""
    stamps = snapshots["ts_event"].cast(polars.Int64).to_numpy()
    first, last = _spans(stamps, sample_times)
    return np.where(first <= last, last, -1)


def sample_books(snapshots: polars.DataFrame, rows: Stamps, *, levels: int | None = None) -> SampledBooks:
    """Return the snapshots at ``rows`` of a table, with at most ``levels`` levels; row -1 is an empty book."""
    depth = schema_depth(snapshots)
    if levels is not None:
        depth = min(depth, whole_number("levels", levels))
    found = rows >= 0
    chosen = snapshots[rows[found]]
    stamps = np.full(len(rows), -1, dtype=np.int64)
    stamps[found] = chosen["ts_event"].cast(polars.Int64).to_numpy()
    sides = []
    for field in ("bid_px", "bid_sz", "ask_px", "ask_sz"):
        values = np.full((len(rows), depth), np.nan if field.endswith("px") else 0.0)
        columns = [chosen[f"{field}_{level:02d}"].cast(polars.Float64).to_numpy() for level in range(depth)]
        values[found] = np.column_stack(columns)
        sides.append(values)
    return SampledBooks(stamps, *sides)


def _spans(stamps: Stamps, sample_times: SampleTimes) -> tuple[Stamps, Stamps]:
    """Return the first and last row of each bucket; last < first for an empty bucket."""
    return np.searchsorted(stamps, sample_times.edges[:-1]), np.searchsorted(stamps, sample_times.edges[1:]) - 1
