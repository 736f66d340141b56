"""Calibration: from recorded books to venue models, by the paper's procedure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars
from numpy.typing import NDArray

from riskroute._version import __version__
from riskroute.errors import DataError, InputError, one_of, whole_number
from riskroute.market.cost import SIDES, as_quantities, market_profits
from riskroute.market.dark_pools import generated_dark_pools
from riskroute.market.fitting import Fit, fit_profits
from riskroute.market.limit_orders import limit_profits
from riskroute.market.sampling import Floats, Moments, Window, closest_books, draw_moments
from riskroute.market.store import Recording, Store
from riskroute.results import aligned
from riskroute.routing.fees import Fee, FeeSchedule
from riskroute.routing.venues import VenueModel, parameter_table
from riskroute.seeding import stream

MATCHING = {"XPSX": "pro-rata"}
"""Venues that do not match by price and time."""

ORDERS = ("market", "limit")


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
    levels : of the book that orders may walk.
    """
    asked, part = as_quantities(quantities), window or Window()
    if len(asked) < 2:
        raise InputError(f"quantities must be at least two, was {list(quantities)}")
    one_of("side", side, SIDES)
    whole_number("dark_pools", dark_pools, minimum=0, maximum=1000)
    for kind in orders:
        one_of("orders", kind, ORDERS)
    recordings = store.of_symbol(symbol, date, venues)
    day = recordings[0].date
    moments = draw_moments(day, part, seed)
    fits: dict[str, Fit] = {}
    kinds: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for recording in recordings:
        fee = fees.fee(recording.venue, day) if fees is not None else None
        for kind, profits, there in _profits(store, recording, moments, asked, side, orders, fee, levels):
            name = recording.venue if kind == "market" else f"{recording.venue} {kind}"
            try:
                fits[name] = fit_profits(profits, asked, there, seed=stream(seed, "bootstrap", name))
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
        "levels": levels,
        "sources": {one.venue: one.source for one in recordings},
    }
    lit = [fit.model(name) for name, fit in fits.items() if kinds[name] == "market"] or [
        fit.model(name) for name, fit in fits.items()
    ]
    dark = generated_dark_pools(lit, dark_pools, seed=seed) if dark_pools else []
    return Calibration(config, fits, kinds, skipped, dark)


def _profits(
    store: Store,
    recording: Recording,
    moments: Moments,
    quantities: NDArray[np.int64],
    side: str,
    orders: Sequence[str],
    fee: Fee | None,
    levels: int,
) -> Iterator[tuple[str, Floats, NDArray[np.bool_]]]:
    """Profits ``(B, Q)`` at a venue, per way of trading, and the buckets that have a book."""
    taker, maker = (fee.taker, fee.maker) if fee is not None else (0.0, 0.0)
    begin, end = int(moments.edges[0]), int(moments.edges[-1])
    snapshots = store.snapshots(recording, begin, end)
    books = closest_books(snapshots, moments, levels=levels)
    if "market" in orders:
        yield "market", market_profits(books, quantities, side) - taker * quantities, books.found
    if "limit" in orders:
        rule = MATCHING.get(recording.venue, "price-time")
        outcome = limit_profits(
            snapshots,
            store.events(recording),
            moments,
            quantities,
            side=side,
            rule=rule,
            maker_fee=maker,
            taker_fee=taker,
            levels=levels,
        )
        yield "limit", outcome.profits, books.found
