"""Small random markets to search for counterexamples on: tables of books, and books with the events that made them."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from oracle import MILLISECOND, SECOND, Charge
from riskroute.core.instrument import SHARES, Instrument

DATE = dt.date(2019, 3, 4)
WARMING = 60  # seconds in which a backtest lets the books of a day fill up; they are nearly empty here
TICK = 0.01


@dataclass(frozen=True)
class Shape:
    """What a random market looks like."""

    seed: int
    venues: int = 2
    levels: int = 5
    seconds: int = 30  # after the warming
    largest_fee: float = 0.015  # dollars a share, paid or received; more than a tick
    fee_step: float = 0.0005  # half a cent makes many ties after fees
    bps: bool = False  # whether fees are also -5 to 30 basis points of the price
    limited: bool = False  # whether an order pays at least, or at most, some amount
    most: int = 300  # shares a level
    zone: str = "America/New_York"
    events: bool = False
    unit: str = "1"  # quantity of a share: files have multiples of it
    multiplier: str = "1"

    @property
    def instrument(self) -> Instrument:
        if (self.unit, self.multiplier, self.zone) == ("1", "1", "America/New_York"):
            return SHARES
        unit, multiplier = Decimal(self.unit), Decimal(self.multiplier)
        return Instrument("ZZ", unit=unit, multiplier=multiplier, quantity="contracts", zone=self.zone)

    @property
    def names(self) -> list[str]:
        return ["AAX", "BBX", "CCX", "DDX"][: self.venues]

    @property
    def opening(self) -> int:
        """Ten o'clock in the market's zone, UTC nanoseconds."""
        return int(dt.datetime.combine(DATE, dt.time(10), ZoneInfo(self.zone)).timestamp()) * SECOND

    def fees(self) -> dict[str, tuple[Charge, Charge]]:
        rng, most = np.random.default_rng([self.seed, 1]), round(self.largest_fee / self.fee_step)
        steps = rng.integers(-most, most + 1, (self.venues, 2)).tolist()
        return {
            name: (self.charge(rng, both[0]), self.charge(rng, both[1]))
            for name, both in zip(self.names, steps, strict=True)
        }

    def charge(self, rng: np.random.Generator, steps: int) -> Charge:
        """Return a fee of so many steps a share, and what else orders are charged."""
        per_share = round(steps * self.fee_step, 9)
        bps = int(rng.integers(-10, 61)) / 2 if self.bps else 0.0
        least, most = (0.25, 5.0) if self.limited else (-math.inf, math.inf)
        return Charge(per_share, bps, *[(least, most), (-math.inf, most), (-math.inf, math.inf)][int(rng.integers(3))])

    def stamps(self, rng: np.random.Generator) -> np.ndarray:
        """Times of snapshots: bursts of milliseconds, and gaps after which books are stale."""
        found = [0, (WARMING - 1) * SECOND + int(rng.integers(SECOND))]
        while found[-1] < (WARMING + self.seconds) * SECOND:
            usual = rng.choice(
                [0, 2 * MILLISECOND, 100 * MILLISECOND, SECOND, 7 * SECOND], p=[0.05, 0.35, 0.4, 0.17, 0.03]
            )
            found.append(found[-1] + int(usual * rng.exponential()))
        return self.opening + np.array(found)

    def books(self) -> dict[str, pl.DataFrame]:
        """Books by venue around one random walk; a side may be empty, and venues may cross each other."""
        shared = np.random.default_rng([self.seed, 2])
        walk = 1000 + np.cumsum(shared.integers(-2, 3, self.seconds + WARMING + 60))
        tables = {}
        for number, name in enumerate(self.names):
            rng = np.random.default_rng([self.seed, 3, number])
            stamps, one_sided = self.stamps(rng), rng.choice([0.02, 0.3]) if number else 0.05
            rows = []
            for stamp in stamps.tolist():
                centre = int(walk[(stamp - self.opening) // SECOND]) + int(rng.integers(-1, 2))
                row: dict[str, float | int | None] = {"ts_event": stamp}
                for side, sign in (("bid", -1), ("ask", 1)):
                    empty = rng.random() < one_sided
                    price = centre + sign * int(rng.integers(0 if sign > 0 else 1, 3))
                    for level in range(self.levels):
                        there = not empty and level < max(self.levels - int(rng.integers(2)), 1)
                        row[f"{side}_px_{level:02d}"] = round(TICK * price, 2) if there else None
                        row[f"{side}_sz_{level:02d}"] = int(rng.integers(1, self.most + 1)) if there else 0
                        empty = not there
                        price += sign * int(rng.choice([1, 1, 1, 2, 5]))
                rows.append(row)
            columns = [f"{side}_px_{level:02d}" for side in ("bid", "ask") for level in range(self.levels)]
            tables[name] = pl.DataFrame(rows, schema_overrides=dict.fromkeys(columns, pl.Float64))
        return tables

    def write(self, folder: Path, books: dict[str, pl.DataFrame]) -> list[Path]:
        """Write tables as files; every second market has one file for all venues."""
        named = {name: table.with_columns(venue=pl.lit(name), symbol=pl.lit("ZZ")) for name, table in books.items()}
        sizes = pl.selectors.contains("_sz_")
        natural = (sizes * float(self.unit)).round(5) if self.unit != "1" else sizes
        frames = [table.with_columns(natural) for table in named.values()]
        if self.seed % 2:
            frames = [pl.concat(frames).sort("ts_event", maintain_order=True)]
        paths = [folder / f"books{k}.{'csv' if self.seed % 3 else 'parquet'}" for k in range(len(frames))]
        for frame, path in zip(frames, paths, strict=True):
            frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
        return paths


class Flow:
    """A venue that matches random orders by price and time: its events, and the book after each of them.

    Some orders take what they find and leave the remainder in the book; some trades are with orders never displayed.
    """

    def __init__(self, shape: Shape, number: int) -> None:
        self.shape, self.rng = shape, np.random.default_rng([shape.seed, 4, number])
        self.orders: dict[int, list[Any]] = {}  # side, price in ticks, size; the earliest first
        self.events: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []
        self.time = shape.opening
        for _ in range(4):
            self.add("B", 997 - int(self.rng.integers(5)))
            self.add("A", 1003 + int(self.rng.integers(5)))
        for stamp in shape.stamps(self.rng)[1:].tolist():
            self.time = max(stamp, self.time + 1)
            side = str(self.rng.choice(["A", "B"]))
            kind = self.rng.choice(["add", "cancel", "trade", "hidden"], p=[0.5, 0.25, 0.2, 0.05])
            mine = [order for order, one in self.orders.items() if one[0] == side]
            if kind == "add" or not mine:
                self.add(side, 1000 + int(self.rng.integers(-4, 5)))
            elif kind == "cancel":
                order = int(self.rng.choice(mine))
                self.leave("C", order, int(self.rng.integers(1, self.orders[order][2] + 1)))
            elif kind == "trade":
                self.trade(side, int(self.rng.integers(1, 2 * shape.most)))
            else:
                self.record("F", side, self.best(side)[0][1], int(self.rng.integers(1, shape.most)), 0)

    def best(self, side: str) -> list[tuple[int, int]]:
        """Orders of a side as (number, price), those that trade first at the front."""
        away = 1 if side == "A" else -1
        mine = [(order, one[1]) for order, one in self.orders.items() if one[0] == side]
        return sorted(mine, key=lambda one: away * one[1])

    def add(self, side: str, price: int) -> None:
        size, away = int(self.rng.integers(1, self.shape.most + 1)), 1 if side == "A" else -1
        size -= self.trade("B" if side == "A" else "A", size, limit=price, away=away)
        if size:
            number = 1 + max((event["order_id"] for event in self.events), default=0)
            self.orders[number] = [side, price, size]
            self.record("A", side, price, size, number)

    def trade(self, side: str, size: int, limit: int | None = None, away: int = 0) -> int:
        """Trade with the orders of a side, no worse than a limit if there is one; returns the shares traded."""
        traded = 0
        for order, price in self.best(side):
            if traded < size and (limit is None or away * price >= away * limit):
                some = min(size - traded, self.orders[order][2])
                self.leave("F", order, some)
                traded += some
        return traded

    def leave(self, action: str, order: int, size: int) -> None:
        side, price, _ = self.orders[order]
        self.orders[order][2] -= size
        if not self.orders[order][2]:
            del self.orders[order]
        self.record(action, side, price, size, order)

    def record(self, action: str, side: str, price: int, size: int, order: int) -> None:
        key = {"ts_event": self.time}
        self.events.append(
            key | {"action": action, "side": side, "price": round(TICK * price, 2), "size": size, "order_id": order}
        )
        row: dict[str, Any] = dict(key)
        for name, letter in (("bid", "B"), ("ask", "A")):
            levels: dict[int, int] = {}
            for number, at in self.best(letter):
                levels[at] = levels.get(at, 0) + self.orders[number][2]
            both = [*levels.items(), *[(0, 0)] * self.shape.levels]
            for level, (at, shown) in enumerate(both[: self.shape.levels]):
                row[f"{name}_px_{level:02d}"] = round(TICK * at, 2) if shown else None
                row[f"{name}_sz_{level:02d}"] = shown
        self.rows.append(row)

    @property
    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Books and events."""
        prices = {name: pl.Float64 for name in self.rows[0] if "_px_" in name}
        return pl.DataFrame(self.rows, schema_overrides=prices), pl.DataFrame(self.events)

    def write(self, folder: Path) -> Path:
        """Write the two files of LOBSTER; returns the one with the messages."""
        folder.mkdir()
        midnight = self.shape.opening - 10 * 3600 * SECOND
        kinds = {"A": 1, "C": 2, "F": 4}
        lines, books = [], []
        for event, row in zip(self.events, self.rows, strict=True):
            kind = kinds[event["action"]] if event["order_id"] else 5
            seconds, rest = divmod(event["ts_event"] - midnight, SECOND)
            sign = 1 if event["side"] == "B" else -1
            price = round(event["price"] * 10_000)
            lines.append(f"{seconds}.{rest:09d},{kind},{event['order_id']},{event['size']},{price},{sign}")
            cells = []
            for level in range(self.shape.levels):
                for name, absent in (("ask", 9_999_999_999), ("bid", -9_999_999_999)):
                    at = row[f"{name}_px_{level:02d}"]
                    cells += [absent if at is None else round(at * 10_000), row[f"{name}_sz_{level:02d}"]]
            books.append(",".join(map(str, cells)))
        paths = [
            folder / f"ZZ_{DATE}_34200000_57600000_{name}_{self.shape.levels}.csv" for name in ("message", "orderbook")
        ]
        for path, text in zip(paths, (lines, books), strict=True):
            path.write_text("\n".join(text) + "\n")
        return paths[0]
