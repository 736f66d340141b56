"""The two tables that every reader of market data gives: snapshots of books, and the events that made them.

Column names are Databento's: ``ts_event`` in UTC nanoseconds, ``venue`` as market identifier code or name,
``bid_px_00`` the best bid, ``bid_px_01`` the next. Prices are in dollars, sizes in shares. A level that is not there
has no price and size 0.
"""

from __future__ import annotations

import polars

from riskroute.core.errors import DataError

TIME = polars.Datetime("ns", "UTC")

KEY_SCHEMA: dict[str, polars.DataType | type[polars.DataType]] = {
    "ts_event": TIME,
    "sequence": polars.UInt64,
    "venue": polars.String,
    "symbol": polars.String,
}
"""``sequence`` counts the messages of the source, and says which snapshot belongs to which event."""

EVENT_SCHEMA = KEY_SCHEMA | {
    "action": polars.String,
    "side": polars.String,
    "price": polars.Float64,
    "size": polars.UInt32,
    "remaining": polars.UInt32,
    "order_id": polars.UInt64,
    "old_order_id": polars.UInt64,
}
"""``action``: A adds an order, C cancels ``size`` of it, F executes ``size`` of it, M replaces ``old_order_id``.

``side`` is that of the resting order, B or A. An M has the price and size of the new order, an F the price paid.
``remaining`` is the remainder of the order afterwards, null where the source does not tell. An id of 0 is no order: an
F of it is a trade with an order that was never displayed, which changes no book, and of which most sources do not tell
the side.
"""

MOST_LEVELS = 1000  # largest number of levels kept per side
LEVEL_FIELDS = ("bid_px", "bid_sz", "ask_px", "ask_sz")


def level_columns(depth: int) -> list[str]:
    """Names of the columns of ``depth`` levels, best level first.

    Examples
    --------
    >>> level_columns(1)
    ['bid_px_00', 'bid_sz_00', 'ask_px_00', 'ask_sz_00']
    """
    return [f"{field}_{level:02d}" for level in range(depth) for field in LEVEL_FIELDS]


def snapshot_schema(depth: int, unit: float = 1) -> dict[str, polars.DataType | type[polars.DataType]]:
    """Columns and types of a snapshot table with ``depth`` levels; sizes in small units need 64 bits."""
    sizes = polars.UInt32 if unit == 1 else polars.UInt64
    levels = {name: polars.Float64 if "_px_" in name else sizes for name in level_columns(depth)}
    return KEY_SCHEMA | levels


def keep_levels(frame: polars.DataFrame, depth: int) -> tuple[polars.DataFrame, int]:
    """The frame without levels beyond ``depth``, and how many of its books have some.

    Examples
    --------
    >>> frame = polars.DataFrame({"bid_px_00": [1.0, 1.0], "bid_px_01": [0.5, None], "ask_px_01": [None, None]})
    >>> kept, deeper = keep_levels(frame, 1)
    >>> kept.columns, deeper
    (['bid_px_00'], 1)
    """
    beyond = [name for name in frame.columns if name[:3] in ("bid", "ask") and int(name[7:]) >= depth]
    there = [polars.col(name).is_not_null() for name in beyond if "_px_" in name]
    deeper = int(frame.select(polars.any_horizontal(there).sum()).item()) if there else 0
    return frame.drop(beyond), deeper


def levels_used(frame: polars.DataFrame) -> int:
    """Levels on a side that the deepest of the books has."""
    used = (int(name[7:]) + 1 for name in frame.columns if "_px_" in name and frame[name].count())
    return max(used, default=0)


def table_depth(frame: polars.DataFrame) -> int:
    """Number of levels of a snapshot table."""
    depth = sum(name.startswith("bid_px_") for name in frame.columns)
    if not depth or set(level_columns(depth)) - set(frame.columns):
        raise DataError(f"snapshots must have columns bid_px_00, bid_sz_00, ask_px_00, ask_sz_00, was {frame.columns}")
    return depth


def schema_crossed(frame: polars.DataFrame) -> int:
    """Number of snapshots whose best bid is at or above the best ask."""
    return int((frame["bid_px_00"] >= frame["ask_px_00"]).sum())
