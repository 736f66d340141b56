"""Calibration: fit models of the profit of orders at each venue to recorded books, by the paper's procedure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any

import polars

from riskroute._version import __version__
from riskroute.core.errors import DataError, InputError
from riskroute.core.seeding import seed_stream
from riskroute.core.text import TextTable, plain_number
from riskroute.core.validation import instance_of, one_of, valid_list, whole_number
from riskroute.market.clock import TimeWindow
from riskroute.market.dark_pools import DarkPool, generated_dark_pools
from riskroute.market.fitting import VenueFit, fit_venue
from riskroute.market.order_profits import check_profit_quantities
from riskroute.market.recordings import RecordingStore, recordings_instrument
from riskroute.market.sampling import draw_sample_times
from riskroute.market.scenarios import ScenarioSlot, ScenarioTables, ScenarioTerms
from riskroute.routing.fees import FeeSchedule
from riskroute.routing.venue_models import VenueModel, venue_model_table

ORDERS = ("market", "limit")


@dataclass(frozen=True, repr=False)
class Calibration:
    """Fitted models by venue and order type, with the configuration of the calibration.

    ``kinds`` gives the order type of every fit, ``skipped`` the reasons why slots have no fit, ``dark`` the generated
    dark pools.
    """

    config: dict[str, Any]
    fits: dict[str, VenueFit]
    kinds: dict[str, str]
    skipped: dict[str, str]
    dark: list[VenueModel]

    def __post_init__(self) -> None:
        for name in ("config", "fits", "kinds", "skipped"):
            instance_of(name, getattr(self, name), dict, "a dictionary")
        valid_list("fits", self.fits.values(), VenueFit, "fits")
        object.__setattr__(self, "dark", valid_list("dark", self.dark, VenueModel, "venue models"))
        if not set(self.fits) <= set(self.kinds):
            raise InputError(f"kinds must name every fit, missing {sorted(set(self.fits) - set(self.kinds))}")

    @property
    def models(self) -> list[VenueModel]:
        """Venue models, with the generated dark pools last."""
        return [fit.model(name, self.kinds[name]) for name, fit in self.fits.items()] + self.dark

    def summary(self) -> dict[str, Any]:
        """Return the calibration as plain values for JSON."""
        lit = {name: {"kind": self.kinds[name], **fit.summary()} for name, fit in self.fits.items()}
        dark = {pool.name: {"kind": "dark", "mean": [*pool.mean], "variance": [*pool.variance]} for pool in self.dark}
        return {"config": self.config, "venues": lit, "dark": dark, "skipped": self.skipped}

    def to_frame(self) -> polars.DataFrame:
        """Return a tidy table: venue, kind, quantity, mean, variance, samples."""
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

    @property
    def units(self) -> str:
        """A line with the units of the coefficients."""
        named, currency = (self.config.get("instrument", {}).get(name) for name in ("quantity", "currency"))
        return f"quantities in {named}, profits in {currency}" if named else ""

    def __repr__(self) -> str:
        rows = [
            [name, f"{fit.r2_mean:.4f}", f"{fit.r2_variance:.4f}", f"{fit.samples}", f"{fit.short}"]
            for name, fit in self.fits.items()
        ]
        evidence = TextTable(["", "R^2 mean", "R^2 variance", "samples", "short"], rows).plain()
        warnings = [f"{name}: {text}" for name, fit in self.fits.items() for text in fit.warnings]
        warnings += [f"{name}: skipped, {reason}" for name, reason in self.skipped.items()]
        return "\n".join([self.units, venue_model_table(self.models), "", evidence, *warnings])


def calibrate(
    store: RecordingStore,
    symbol: str,
    *,
    quantities: Sequence[float | Decimal] = tuple(range(1, 11)),
    side: str = "sell",
    window: TimeWindow | None = None,
    seed: int = 0,
    orders: Sequence[str] = ("market",),
    fees: FeeSchedule | None = None,
    dark_pools: int = 0,
    pools: Sequence[DarkPool] = (),
    date: dt.date | None = None,
    venues: Sequence[str] = (),
    levels: int | None = None,
) -> Calibration:
    """Fit a model of the profit of orders at every recorded venue; profits are relative to the mid of the venue's book.

    Parameters
    ----------
    quantities : Sequence[float or Decimal]
        Order sizes as natural quantities: at least two, strictly ascending.
    window : TimeWindow, optional
        Part of the day, divided into buckets; default: 60 buckets from 11:00 to 13:00, as in the paper.
    orders : Sequence[str]
        ``market``, ``limit`` or both; limit orders require recorded events.
    fees : FeeSchedule, optional
        Fees to deduct from profits.
    dark_pools : int
        Number of dark pools with random moments to add, see `generated_dark_pools`.
    pools : Sequence[DarkPool]
        Simulated dark pools; unfilled shares cross the spread at the venue with the most snapshots.
    levels : int, optional
        Number of book levels that orders may take; default: all recorded levels.
    """
    instance_of("store", store, RecordingStore, "a RecordingStore")
    part = TimeWindow() if window is None else instance_of("window", window, TimeWindow, "a TimeWindow")
    pools = valid_list("pools", pools, DarkPool, "dark pools")
    orders = valid_list("orders", orders, object, "market or limit")
    whole_number("dark_pools", dark_pools, minimum=0, maximum=1000)
    if not orders:
        raise InputError("orders must be market, limit or both, was empty")
    for kind in orders:
        one_of("orders", kind, ORDERS)
    recordings = store.of_symbol(symbol, date, venues)
    one, instrument = recordings[0], recordings_instrument(recordings)
    given = valid_list("quantities", quantities, (int, float, Decimal), "numbers")
    units = [instrument.units(quantity, "quantities") for quantity in given]
    terms = ScenarioTerms(check_profit_quantities(units), side, fees, levels)
    if len(terms.quantities) < 2:
        raise InputError(f"expected at least two quantities, got {given}")
    pool_records = [asdict(pool) for pool in pools]
    pools = [replace(pool, smallest=instrument.units(pool.smallest, f"smallest of {pool.name}")) for pool in pools]
    sample_times = draw_sample_times(one.date, part, seed, one.instrument)
    if len({pool.name for pool in pools}) < len(pools):
        raise InputError(f"expected pools with distinct names, got {[pool.name for pool in pools]}")
    tables = {one.venue: ScenarioTables(store, one, part, [sample_times], instrument) for one in recordings}
    fits: dict[str, VenueFit] = {}
    kinds: dict[str, str] = {}
    skipped: dict[str, str] = {}
    # Shares that dark pools leave unfilled cross at the venue with the most snapshots.
    home = max(recordings, key=lambda one: one.snapshots).venue
    slots = [ScenarioSlot(one.venue, kind) for one in recordings for kind in ORDERS if kind in orders]
    for slot in [*slots, *(ScenarioSlot(home, "dark", pool) for pool in pools)]:
        draws = 100 if slot.pool is not None else 1  # number of hidden sizes drawn per bucket
        outcome = tables[slot.venue].outcome(slot, sample_times, terms, seed=seed, draws=draws)
        try:
            source = seed_stream(seed, "bootstrap", slot.name)
            fit = fit_venue(
                outcome.profits, terms.quantities, outcome.found, seed=source, draws=draws, instrument=instrument
            )
            fits[slot.name] = fit.natural(instrument)
            kinds[slot.name] = slot.kind
        except DataError as error:
            skipped[slot.name] = str(error)
    if not fits:
        reasons = "; ".join(f"{name} {why}" for name, why in skipped.items())
        end = f"{part.end:%H:%M}" if part.end != dt.time(0) else "24:00"
        when = f"from {part.start:%H:%M} to {end} {one.instrument.zone} on {one.date}"
        raise DataError(f"no venue has enough snapshots of {symbol} {when}; choose other hours: {reasons}")
    config = {
        "version": __version__,
        "symbol": symbol,
        "date": str(one.date),
        "zone": one.zone,
        "instrument": instrument.to_json(),
        "side": side,
        "window": [str(part.start), str(part.end), part.buckets],
        "seed": seed,
        "quantities": [plain_number(instrument.natural(size)) for size in terms.quantities.tolist()],
        "orders": list(orders),
        "fees": fees is not None,
        "pools": pool_records,
        "levels": levels,
        "sources": {one.venue: one.source for one in recordings},
    }
    lit = [fit.model(name) for name, fit in fits.items() if kinds[name] != "dark"]
    dark = generated_dark_pools(lit, dark_pools, seed=seed) if dark_pools else []
    return Calibration(config, fits, kinds, skipped, dark)
