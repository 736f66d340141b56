"""Short days of markets: synthetic ones made in this process, handmade books, and recordings of one constant book."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars

from riskroute.core.instrument import NO_PROTECTION, REG_NMS, TRADING_ZONE, Instrument
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks, PreparedDayBooks
from riskroute.market.recordings import Recording, RecordingWriter
from riskroute.market.schema import snapshot_schema
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router
from riskroute.routing.fees import VenueFees
from riskroute.simulation import backends
from riskroute.simulation.backends import Backend
from riskroute.simulation.dark_market import DarkMarketPool
from riskroute.study import markets
from riskroute.study.markets import MarketDay, market_days

HERE = Backend("local", 1)
"""Everything in this process."""

DATE = dt.date(2019, 3, 4)


@contextmanager
def short_market(minutes: int = 20) -> Iterator[None]:
    """Synthetic days are short, and backends that do not say otherwise have one core: this process."""
    hours = (dt.time(10, 30), dt.time(10, 30 + minutes))
    with mock.patch.object(markets, "_SYNTHETIC_HOURS", hours), mock.patch.object(backends, "_cores", return_value=1):
        yield


def short_days(kept: Path, market: str = "dark", days: int = 2, *, minutes: int = 20, **more: Any) -> list[MarketDay]:
    """Days of a synthetic market, kept in a folder."""
    with short_market(minutes):
        return market_days(market, days=days, kept=kept, backend=HERE, **more)


def noting_plans(router: Router) -> list[dict[str, Any]]:
    """Have a router note its plans; returns the list that they go to."""
    plans: list[dict[str, Any]] = []
    decide = router.decide

    def noted(context: Context) -> Plan:
        plan = decide(context)
        plans.append(plan.to_json())
        return plan

    router.decide = noted  # type: ignore[method-assign]  # for this router alone
    return plans


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
    session: str = "",
) -> Path:
    """Record a book of so many levels around 100.00, a cent and some shares each, once a second; returns the folder."""
    protection = REG_NMS if reader == "lobster" else NO_PROTECTION
    instrument = Instrument(symbol, zone=zone, protection=protection, hours=session)
    begin, end = instrument.session_hours(date, *hours)
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
    frame = polars.DataFrame(columns).select(polars.col(name).cast(kind) for name, kind in kinds.items())
    writer = RecordingWriter(
        folder, Recording(venue, symbol, date, levels, "made by hand", reader, instrument=instrument)
    )
    writer.add_snapshots(frame)
    writer.commit()
    return folder


def handmade_books(venues: Mapping[str, tuple[int, int]], *, seed: int = 0, seconds: int = 1200) -> DayBooks:
    """Books that change every second: half-spreads in ticks and shares a level by venue, five levels.

    Spreads and sizes vary by up to a half; the price is a random walk, the same at all venues.
    """
    rng = np.random.default_rng(seed)
    centre = 10_000 + 2 * np.cumsum(rng.integers(-1, 2, seconds))
    columns: list[list[np.ndarray]] = [[], [], [], []]
    for half, size in venues.values():
        ladder = np.arange(5)
        for column, sign in ((0, -1), (2, 1)):
            away = rng.integers((half + 1) // 2, half + half // 2 + 1, seconds)
            columns[column].append((centre[:, None] + sign * (away[:, None] + ladder)) / 100)
            columns[column + 1].append(rng.integers((size + 1) // 2, size + size // 2 + 1, (seconds, 5)).astype(float))
    count = len(venues)
    offsets = np.arange(count + 1) * seconds
    stamps = np.tile(np.arange(seconds) * SECOND, count)
    bid_px, bid_sz, ask_px, ask_sz = (np.concatenate(column) for column in columns)
    return DayBooks(tuple(venues), offsets, stamps, np.arange(len(stamps)), bid_px, bid_sz, ask_px, ask_sz)


def handmade_day(
    folder: Path,
    venues: Mapping[str, tuple[int, int]],
    *,
    seed: int = 0,
    date: dt.date = DATE,
    takers: tuple[float, ...] = (),
    pools: tuple[DarkMarketPool, ...] = (),
) -> MarketDay:
    """The same as a day that is ready to be played."""
    place = PreparedDayBooks(handmade_books(venues, seed=seed)).write(folder / f"{date}-{seed}")
    none = (0.0,) * len(venues)
    return MarketDay(Instrument("QVEX"), date, place, VenueFees.per_quantity(takers or none, none).plain(), pools)
