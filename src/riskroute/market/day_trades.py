"""Public trades of one symbol and day at all venues, and their volume-weighted average price (VWAP)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars

from riskroute.core.arrays import Floats, Stamps


class DayTrades(NamedTuple):
    """Times in UTC nanoseconds, prices, and sizes in units, ``(N,)`` each, the earliest first."""

    stamps: Stamps
    prices: Floats
    sizes: Floats

    @classmethod
    def of_events(cls, events: Mapping[str, polars.DataFrame]) -> DayTrades | None:
        """Collect the public trades from the event tables of venues; None if there are none.

        These are the executions of displayed and hidden orders (F). Trades without order ids (T) count at venues that
        name no executed order: elsewhere they would be counted twice.
        """
        tables = []
        for table in events.values():
            executed = table.filter(polars.col("action") == "F")
            named = bool((executed["order_id"].fill_null(0) > 0).any())
            tables.append(executed if named else table.filter(polars.col("action").is_in(["F", "T"])))
        if not any(table.height for table in tables):
            return None
        columns = [polars.col("ts_event").cast(polars.Int64), polars.col("price", "size").cast(polars.Float64)]
        whole = polars.concat([table.select(columns) for table in tables]).drop_nulls()
        kept = whole.filter((polars.col("size") > 0) & polars.col("price").is_finite()).sort(
            "ts_event", maintain_order=True
        )
        return cls(*(kept[name].to_numpy() for name in kept.columns)) if kept.height else None

    def between(self, begins: Stamps, ends: Stamps) -> tuple[Floats, Floats]:
        """Return VWAP and volume from each begin to its end, both included, ``(n,)``; a VWAP of NaN without trades."""
        firsts, lasts = np.searchsorted(self.stamps, begins), np.searchsorted(self.stamps, ends, side="right")
        prices, volumes = np.full(len(firsts), np.nan), np.zeros(len(firsts))
        for k, (first, last) in enumerate(zip(firsts.tolist(), lasts.tolist(), strict=True)):
            if first < last:
                sizes = self.sizes[first:last]
                volumes[k] = sizes.sum()
                prices[k] = self.prices[first:last] @ sizes / volumes[k]
        return prices, volumes
