"""Schemas of the two tables that every reader produces: book snapshots, and events (order events and trades).

Column names are Databento's: ``ts_event`` in UTC nanoseconds, ``venue`` as market identifier code or name,
``bid_px_00`` the best bid, ``bid_px_01`` the next level. Sizes are natural quantities, and prices are for a natural
quantity of 1, as the source states them. An absent level has a null price and size 0.
"""

from __future__ import annotations

import polars

from riskroute.core.errors import DataError

TIME = polars.Datetime("ns", "UTC")
MOST_LEVELS = 1000  # largest number of levels kept per side
LEVEL_FIELDS = ("bid_px", "bid_sz", "ask_px", "ask_sz")

# ``sequence`` numbers the messages of the source and links each snapshot to its event.
_KEYS: dict[str, polars.DataType | type[polars.DataType]] = {
    "ts_event": TIME,
    "sequence": polars.UInt64,
    "venue": polars.String,
    "symbol": polars.String,
}

# ``action``: A adds an order, C cancels ``size`` of it, F executes ``size`` of it, M replaces ``old_order_id``.
# ``side`` is the resting order's, B or A. An M carries the new order's price and size, an F the trade price.
# ``remaining`` is the order's size afterwards, null if the source does not report it. An F with ``order_id`` 0 is a
# trade with a hidden order: it changes no book, and most sources do not report its side. A T is a public trade whose
# resting order is not identified: ``order_id`` 0, ``side`` null if unknown; it changes no book either.
EVENT_SCHEMA = _KEYS | {
    "action": polars.String,
    "side": polars.String,
    "price": polars.Float64,
    "size": polars.UInt32,
    "remaining": polars.UInt32,
    "order_id": polars.UInt64,
    "old_order_id": polars.UInt64,
}


def level_columns(depth: int) -> list[str]:
    """Return the column names of ``depth`` levels, best level first.

    >>> level_columns(1)
    ['bid_px_00', 'bid_sz_00', 'ask_px_00', 'ask_sz_00']
    """
    return [f"{field}_{level:02d}" for level in range(depth) for field in LEVEL_FIELDS]


def snapshot_schema(depth: int, *, fractional: bool = False) -> dict[str, polars.DataType | type[polars.DataType]]:
    """Return columns and types of a snapshot table with ``depth`` levels and whole or ``fractional`` sizes."""
    sizes = polars.Float64 if fractional else polars.UInt32
    return _KEYS | {name: polars.Float64 if "_px_" in name else sizes for name in level_columns(depth)}


def event_schema(*, fractional: bool = False) -> dict[str, polars.DataType | type[polars.DataType]]:
    """Return columns and types of an event table with whole or ``fractional`` sizes."""
    return EVENT_SCHEMA | (dict.fromkeys(("size", "remaining"), polars.Float64) if fractional else {})


def keep_schema_levels(frame: polars.DataFrame, depth: int) -> polars.DataFrame:
    """Return the best ``depth`` levels, and as column ``deeper`` whether a snapshot had more.

    >>> frame = polars.DataFrame({"bid_px_00": [1.0, 1.0], "bid_px_01": [0.5, None], "ask_px_01": [None, None]})
    >>> keep_schema_levels(frame, 1).to_dict(as_series=False)
    {'bid_px_00': [1.0, 1.0], 'deeper': [True, False]}
    """
    beyond = [name for name in frame.columns if name[:3] in ("bid", "ask") and int(name[7:]) >= depth]
    there = [polars.col(name).is_not_null() for name in beyond if "_px_" in name]
    deeper = polars.any_horizontal(there) if there else polars.lit(False)
    return frame.with_columns(deeper.alias("deeper")).drop(beyond)


def schema_depth(frame: polars.DataFrame) -> int:
    """Return the number of levels per side of a snapshot table."""
    depth = sum(name.startswith("bid_px_") for name in frame.columns)
    if not depth or set(level_columns(depth)) - set(frame.columns):
        raise DataError(f"expected snapshot columns bid_px_00, bid_sz_00, ask_px_00, ask_sz_00, got {frame.columns}")
    return depth
