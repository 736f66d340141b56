"""Days of a market made by hand: venues so far from one price, so deep, and nothing else."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks, PreparedDay
from riskroute.simulation.dark_market import PoolModel
from riskroute.study.markets import MarketDay

DATE = dt.date(2019, 3, 4)


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
    pools: tuple[PoolModel, ...] = (),
) -> MarketDay:
    """The same as a day that is ready to be played."""
    place = PreparedDay(handmade_books(venues, seed=seed)).write(folder / f"{date}-{seed}")
    none = (0.0,) * len(venues)
    return MarketDay("QVEX", date, place, takers or none, none, pools)
