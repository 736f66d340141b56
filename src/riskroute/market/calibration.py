"""Calibration: from recorded books to venue models, by the paper's procedure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars
from numpy.typing import NDArray

from riskroute._version import __version__
from riskroute.errors import DataError, InputError, one_of, whole_number
from riskroute.market.cost import SIDES, as_quantities, market_profits
from riskroute.market.dark_pools import DarkPool, generated_dark_pools
from riskroute.market.fitting import Fit, fit_profits
from riskroute.market.limit_orders import limit_profits
from riskroute.market.sampling import Books, Floats, Moments, Window, closest_books, draw_moments
from riskroute.market.store import Recording, Store
from riskroute.results import aligned
from riskroute.routing.fees import FeeSchedule
from riskroute.routing.venues import VenueModel, parameter_table
from riskroute.seeding import stream

MATCHING = {"XPSX": "pro-rata"}
"""Venues that do not match by price and time."""

ORDERS = ("market", "limit")

POOL_DRAWS = 100
"""Of the hidden size of a dark pool, per bucket."""


@dataclass(frozen=True, repr=False)
class Calibration:
    """Fits per venue and way of trading, with what they were made from."""

    config: dict[str, Any]
    fits: dict[str, Fit]
    kinds: dict[str, str]
    skipped: dict[str, str]
    dark: list[VenueModel]

    @property
    def models(self) -> list[VenueModel]:
        """Venue models, those of dark pools last."""
        return [fit.model(name, self.kinds[name]) for name, fit in self.fits.items()] + self.dark

    def summary(self) -> dict[str, Any]:
        """Plain values for JSON."""
        lit = {name: {"kind": self.kinds[name], **fit.summary()} for name, fit in self.fits.items()}
        dark = {pool.name: {"kind": "dark", "mean": [*pool.mean], "variance": [*pool.variance]} for pool in self.dark}
        return {"config": self.config, "venues": lit, "dark": dark, "skipped": self.skipped}

    def to_frame(self) -> polars.DataFrame:
        """Tidy table: venue, kind, quantity, mean, variance, samples."""
        return polars.concat(
            polars.DataFrame(
                {
                    "venue": [name] * len(fit.quantities),
                    "kind": [self.kinds[name]] * len(fit.quantities),
                    "quantity": fit.quantities,
                    "mean": fit.means,
                    "variance": fit.variances,
                    "samples": fit.counts,
                }
            )
            for name, fit in self.fits.items()
        )

    def __repr__(self) -> str:
        rows = [
            [name, f"{fit.r2_mean:.4f}", f"{fit.r2_variance:.4f}", f"{fit.samples}", f"{fit.short}"]
            for name, fit in self.fits.items()
        ]
        evidence = aligned(["", "R^2 mean", "R^2 variance", "samples", "short"], rows)
        said = [f"{name}: {text}" for name, fit in self.fits.items() for text in fit.warnings]
        said += [f"{name}: left out, {reason}" for name, reason in self.skipped.items()]
        return "\n".join([parameter_table(self.models), "", evidence, *said])


def calibrate(
    store: Store,
    symbol: str,
    *,
    quantities: Sequence[int] = tuple(range(1, 11)),
    side: str = "sell",
    window: Window | None = None,
    seed: int = 0,
    orders: Sequence[str] = ("market",),
    fees: FeeSchedule | None = None,
    dark_pools: int = 0,
    pools: Sequence[DarkPool] = (),
    date: dt.date | None = None,
    venues: Sequence[str] = (),
    levels: int = 5,
) -> Calibration:
    """Estimate what orders of given quantities earn at every recorded venue, against the middle of its own book.

    Parameters
    ----------
    quantities : test quantities, at least two.
    window : part of the day and its buckets; the paper's, 11:00 to 13:00 in 60, if None.
    orders : ``market``, ``limit`` or both; limit orders need recorded events.
    fees : makes profits net of fees.
    dark_pools : how many to add, with moments drawn relative to the lit venues.
    pools : mechanisms of dark pools; what they leave crosses at the venue with the most books.
    levels : of the book that orders may walk.
    """
    asked, part = as_quantities(quantities), window or Window()
    if len(asked) < 2:
        raise InputError(f"quantities must be at least two, was {list(quantities)}")
    one_of("side", side, SIDES)
    whole_number("dark_pools", dark_pools, minimum=0, maximum=1000)
    if not orders:
        raise InputError("orders must be market, limit or both, was none")
    for kind in orders:
        one_of("orders", kind, ORDERS)
    if date is not None and not isinstance(date, dt.date):
        raise InputError(f"date must be a day, was {date!r}")
    recordings = store.of_symbol(symbol, date, venues)
    day = recordings[0].date
    moments = draw_moments(day, part, seed)
    if len({pool.name for pool in pools}) < len(pools):
        raise InputError(f"pools must have different names, was {[pool.name for pool in pools]}")
    sampled = _Sampled(store, moments, asked, side, levels, {one.venue: _fee(fees, one) for one in recordings})
    fits: dict[str, Fit] = {}
    kinds: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for name, kind, profits, there in _outcomes(sampled, recordings, orders, pools, seed):
        try:
            draws = len(profits) // len(there)
            fits[name] = fit_profits(profits, asked, there, seed=stream(seed, "bootstrap", name), draws=draws)
            kinds[name] = kind
        except DataError as error:
            skipped[name] = str(error)
    if not fits:
        raise DataError(f"no venue has enough books of {symbol} from {part.start} to {part.end}: {skipped}")
    config = {
        "version": __version__,
        "symbol": symbol,
        "date": str(day),
        "side": side,
        "window": [str(part.start), str(part.end), part.buckets],
        "seed": seed,
        "quantities": asked.tolist(),
        "orders": list(orders),
        "fees": fees is not None,
        "pools": [asdict(pool) for pool in pools],
        "levels": levels,
        "sources": {one.venue: one.source for one in recordings},
    }
    lit = [fit.model(name) for name, fit in fits.items() if kinds[name] != "dark"]
    dark = generated_dark_pools(lit, dark_pools, seed=seed) if dark_pools else []
    return Calibration(config, fits, kinds, skipped, dark)


def _fee(fees: FeeSchedule | None, recording: Recording) -> tuple[float, float]:
    """What takers and makers pay per share."""
    if fees is None:
        return 0.0, 0.0
    fee = fees.fee(recording.venue, recording.date)
    return fee.taker, fee.maker


@dataclass(frozen=True)
class _Sampled:
    """Recorded books at drawn times, and what is traded there; ``fees`` of takers and makers by venue."""

    store: Store
    moments: Moments
    quantities: NDArray[np.int64]
    side: str
    levels: int
    fees: dict[str, tuple[float, float]]

    def snapshots(self, recording: Recording) -> polars.DataFrame:
        """All snapshots of the window."""
        return self.store.snapshots(recording, int(self.moments.edges[0]), int(self.moments.edges[-1]))

    def books(self, recording: Recording) -> Books:
        """One book per bucket."""
        return closest_books(self.snapshots(recording), self.moments, levels=self.levels)

    def market(self, recording: Recording) -> tuple[Floats, NDArray[np.bool_]]:
        """Profits of market orders, and the buckets that have a book."""
        books = self.books(recording)
        taken = self.fees[recording.venue][0] * self.quantities
        return market_profits(books, self.quantities, self.side) - taken, books.found

    def limit(self, recording: Recording) -> tuple[Floats, NDArray[np.bool_]]:
        """Profits of limit orders, and the buckets that have a book."""
        taker, maker = self.fees[recording.venue]
        outcome = limit_profits(
            self.snapshots(recording),
            self.store.events(recording),
            self.moments,
            self.quantities,
            side=self.side,
            rule=MATCHING.get(recording.venue, "price-time"),
            maker_fee=maker,
            taker_fee=taker,
            levels=self.levels,
        )
        return outcome.profits, self.books(recording).found

    def dark(self, pool: DarkPool, home: Recording, seed: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Profits in a dark pool that is tried before the venue ``home``, and the buckets that have a book."""
        books, taker = self.books(home), self.fees[home.venue][0]
        outcome = pool.profits(books, self.quantities, seed=seed, side=self.side, taker_fee=taker, draws=POOL_DRAWS)
        return outcome.profits, books.found


def _outcomes(
    sampled: _Sampled, recordings: Sequence[Recording], orders: Sequence[str], pools: Sequence[DarkPool], seed: int
) -> Iterator[tuple[str, str, Floats, NDArray[np.bool_]]]:
    """Name, kind, profits and buckets with a book, of every venue and way of trading."""
    for recording in recordings:
        if "market" in orders:
            yield recording.venue, "market", *sampled.market(recording)
        if "limit" in orders:
            yield f"{recording.venue} limit", "limit", *sampled.limit(recording)
    home = max(recordings, key=lambda one: one.snapshots)
    for pool in pools:
        yield pool.name, "dark", *sampled.dark(pool, home, seed)
