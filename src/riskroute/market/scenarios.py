"""Profit by quantity in each slot (market or limit orders at a venue, or a dark pool) at sampled times of a day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars
from numpy.typing import NDArray

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import SHARES, Instrument
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import (
    LONGEST_VENUE,
    SIDES,
    as_name,
    exact_array,
    if_given,
    instance_of,
    one_of,
    valid_list,
    whole_number,
)
from riskroute.market.clock import TimeWindow
from riskroute.market.dark_pools import DarkPool
from riskroute.market.fitting import VenueFit, fit_venue
from riskroute.market.order_profits import FeeRow, extrapolated_market_profits, limit_profits, market_profits
from riskroute.market.recordings import Recording, RecordingStore, recording_in_units, recordings_instrument
from riskroute.market.sampling import (
    SampleTimes,
    draw_sample_times,
    sample_closest_books,
    sample_closest_rows,
    sample_last_rows,
)
from riskroute.market.schema import MOST_LEVELS
from riskroute.routing.fees import FeeSchedule
from riskroute.routing.shared_books import SharedBook
from riskroute.routing.venue_models import KINDS, VenueModel

# A slot may take a quantity only if its book is deep enough in this fraction of the scenarios.
ENOUGH = 0.95


@dataclass(frozen=True)
class ScenarioSlot:
    """A destination for shares: market or limit orders at a venue, or a dark pool.

    For a dark pool, ``venue`` is the venue at which unfilled shares cross.
    """

    venue: str
    kind: str = "market"
    pool: DarkPool | None = None

    def __post_init__(self) -> None:
        as_name("venue of a slot", self.venue, longest=LONGEST_VENUE)
        one_of("kind of a slot", self.kind, KINDS)
        if self.pool is not None:
            instance_of("pool of a slot", self.pool, DarkPool, "a DarkPool")
        elif self.kind == "dark":
            raise InputError("pool of a dark slot must be a DarkPool, was None")

    @property
    def name(self) -> str:
        """Name in tables: the name of the pool or the venue; for limit orders, the venue followed by ``limit``."""
        if self.pool is not None:
            return self.pool.name
        return self.venue if self.kind == "market" else f"{self.venue} {self.kind}"


@dataclass(frozen=True)
class ScenarioTerms:
    """Orders to evaluate: quantities, side, fees, and the number of levels that they may take (default: all)."""

    quantities: Integers
    side: str = "sell"
    fees: FeeSchedule | None = None
    levels: int | None = None

    def __post_init__(self) -> None:
        one_of("side", self.side, SIDES)
        if_given(instance_of, "fees", self.fees, FeeSchedule, "a FeeSchedule")
        if_given(whole_number, "levels", self.levels, maximum=MOST_LEVELS)


@dataclass(frozen=True)
class _SlotOutcome:
    """Profit of orders in a slot, and the units that crossed the sampled book, ``(draws * B, Q)`` each.

    Profits are computed in price terms, so that fees and prices add up exactly, and converted to the quote currency.
    """

    profits: Floats
    crossed: Integers  # 0 for limit orders, whose remainder crosses a later book
    found: Flags  # ``(B,)``, whether a bucket has a book
    depth: Floats  # ``(B,)``, shares on the side that the order crosses


class ScenarioTables:
    """Events of one venue, and the snapshots that the ``drawn`` sample times need; each table is read once.

    Sizes are in units of ``instrument``; default: the instrument of the recording.
    """

    def __init__(
        self,
        store: RecordingStore,
        recording: Recording,
        window: TimeWindow,
        drawn: Sequence[SampleTimes],
        instrument: Instrument | None = None,
    ) -> None:
        self.store, self.recording, self.instrument = store, recording, instrument or recording.instrument
        edges = window.edges(recording.date, recording.instrument)
        times = store.times(recording, int(edges[0]), int(edges[-1]))
        rows = np.concatenate([find(times, some) for some in drawn for find in (sample_closest_rows, sample_last_rows)])
        stamps = times["ts_event"].cast(polars.Int64).to_numpy()
        found = store.snapshots_at(recording, stamps[rows[rows >= 0]])
        self.snapshots = recording_in_units(found, self.instrument)

    @cached_property
    def events(self) -> polars.DataFrame:
        """Events of the whole day, since orders in the queue may be hours old."""
        return recording_in_units(self.store.events(self.recording), self.instrument)

    def outcome(
        self, slot: ScenarioSlot, sample_times: SampleTimes, terms: ScenarioTerms, *, seed: int = 0, draws: int = 1
    ) -> _SlotOutcome:
        """Return the profit of orders in a slot of this venue at one sample time per bucket.

        ``draws`` is the number of hidden sizes drawn per bucket for a dark pool.
        """
        name, quantities, side = self.recording.venue, terms.quantities, terms.side
        taker, maker = self._fees(terms)
        books = sample_closest_books(self.snapshots, sample_times, levels=terms.levels)
        crossed = np.zeros((len(books.stamps), len(quantities)), dtype=np.int64)
        if slot.pool is not None:
            pool = replace(slot.pool, fee=slot.pool.fee / float(self.instrument.multiplier))
            dark = pool.profits(books, quantities, seed=seed, side=side, taker_fee=taker, draws=draws)
            profits, crossed = dark.profits, quantities - dark.filled
        elif slot.kind == "market":
            profits, crossed = market_profits(books, quantities, side, taker), crossed + quantities
        else:
            profits = limit_profits(
                self.snapshots,
                self.events,
                sample_times,
                quantities,
                side=side,
                rule="pro-rata" if name == "XPSX" else "price-time",
                maker_fee=maker,
                taker_fee=taker,
                levels=terms.levels,
            ).profits
        depth = books.side("bid" if side == "sell" else "ask")[1].sum(axis=1)
        return _SlotOutcome(profits * self.instrument.value, crossed, books.found, depth)

    def crossing(self, sample_times: SampleTimes, terms: ScenarioTerms) -> Floats:
        """Return the profit ``(B, Q)`` of crossing the book at one time per bucket, extrapolated beyond its levels."""
        books = sample_closest_books(self.snapshots, sample_times, levels=terms.levels)
        profits = extrapolated_market_profits(books, terms.quantities, terms.side, self._fees(terms)[0])
        return profits * self.instrument.value

    def _fees(self, terms: ScenarioTerms) -> tuple[FeeRow, FeeRow]:
        """Return taker and maker fee: per quantity of 1 in price terms, and as a fraction of the price."""
        if terms.fees is None:
            return (0.0, 0.0), (0.0, 0.0)
        venue = self.recording.venue
        fees = terms.fees.venue_fees([venue], self.instrument, self.recording.date)
        if np.isfinite(fees.limits).any():
            raise InputError(
                f"fees of {venue} must not have a minimum or maximum per order here: profits are per quantity, "
                "so remove the limits from the schedule"
            )
        taker, maker = ((float(row[0, 0]), float(row[0, 1])) for row in fees[:2])
        return taker, maker


@dataclass(frozen=True)
class Scenarios:
    """Profits of orders of 0 to ``shares`` units in each slot and scenario, ``(slots, scenarios, shares + 1)``.

    ``buckets (scenarios,)`` is the bucket of each scenario, ``mids (scenarios,)`` the value of a unit at the mid of the
    first slot's venue, ``depths (slots, scenarios)`` the units on the side that a slot's order crosses. ``profits``
    assume that no other slot is used, and are NaN where a book is missing or too thin; ``shared`` has the books that
    several slots cross. Each bucket has ``repeats`` scenarios; the first scenarios of all buckets come first, then the
    second ones.
    """

    slots: tuple[ScenarioSlot, ...]
    profits: Floats
    buckets: Integers
    mids: Floats
    depths: Floats
    repeats: int
    shared: tuple[SharedBook, ...] = ()
    instrument: Instrument = SHARES

    def __post_init__(self) -> None:
        slots = tuple(valid_list("slots", self.slots, ScenarioSlot, "slots"))
        profits = exact_array("profits", self.profits, np.float64, (len(slots), None, None))
        scenarios = profits.shape[1]
        if 0 in profits.shape or scenarios % whole_number("repeats", self.repeats):
            raise InputError(
                f"profits must have {self.repeats} scenarios per bucket and no empty axis, was shape {profits.shape}"
            )
        arrays = {
            "profits": profits,
            "buckets": exact_array("buckets", self.buckets, np.int64, (scenarios,)),
            "mids": exact_array("mids", self.mids, np.float64, (scenarios,)),
            "depths": exact_array("depths", self.depths, np.float64, (len(slots), scenarios)),
        }
        shared = tuple(valid_list("shared", self.shared, SharedBook, "shared books"))
        for name, value in {**arrays, "slots": slots, "shared": shared}.items():
            object.__setattr__(self, name, value)

    def _caps(self, caps: Integers) -> Integers:

        given = exact_array("caps", caps, np.int64, (len(self.slots),))
        if given.min() < 0 or given.max() > self.shares:
            raise InputError(f"caps must be from 0 to {self.shares} shares, was {given.tolist()}")
        return given

    @property
    def shares(self) -> int:
        """Largest quantity, in units, that has a column of profits."""
        return int(self.profits.shape[2]) - 1

    def caps(self) -> Integers:
        """Return the largest quantity per slot for which a fraction `ENOUGH` of the books is deep enough, (slots,)."""
        enough = np.isfinite(self.profits).mean(axis=1) >= ENOUGH
        return np.asarray(np.where(enough.all(axis=1), self.shares, enough.argmin(axis=1) - 1))

    def deep(self, caps: Integers) -> Flags:
        """Return whether the book of each slot is deep enough for the slot's cap, ``(slots, scenarios)``."""
        return np.asarray(np.isfinite(self.profits[np.arange(len(self.slots)), :, self._caps(caps)]))

    def whole(self, caps: Integers) -> Flags:
        """Return in which scenarios the books of all slots are deep enough for their caps, ``(scenarios,)``."""
        return np.asarray(self.deep(caps).all(axis=0))

    def replayed(self, caps: Integers) -> tuple[Floats, tuple[SharedBook, ...]]:
        """Return profits and shared books of the scenarios in which all books are deep enough for ``caps``."""
        whole = self.whole(caps)
        return self.profits[:, whole], tuple(book.of(whole) for book in self.shared)

    def room(self, caps: Integers) -> int:
        """Return the shares that all slots together can take in a fraction `ENOUGH` of the scenarios.

        A book that several slots cross is counted once; shares that dark pools fill do not use it.
        """
        caps = self._caps(caps)
        room = np.full(len(self.buckets), int(caps.sum()))
        for book in self.shared:
            most = caps[list(book.slots)]
            crossing = sum(rests[:, cap] for rests, cap in zip(book.rests, most, strict=True))
            room -= np.maximum(crossing - book.depths.astype(np.int64), 0)
        return int(np.sort(room)[int((1 - ENOUGH) * len(room))])

    def presence(self) -> Floats:
        """Return the fraction of scenarios in which each slot can take at least one share, ``(slots,)``."""
        return np.asarray(np.isfinite(self.profits[:, :, 1]).mean(axis=1))

    def fit(self, slot: int, cap: int, seed: int) -> VenueFit:
        """Fit mean and variance of a slot's profit for quantities up to ``cap``, at least up to 2 units."""
        slot = whole_number("slot", slot, minimum=0, maximum=len(self.slots) - 1)
        largest = max(whole_number("cap", cap, minimum=0, maximum=self.shares), 2)
        if largest > self.shares:
            raise DataError(f"{self.slots[slot].name}: expected profits of one and two shares, got up to {self.shares}")
        quantities = np.unique(np.linspace(1, largest, min(12, largest)).round().astype(np.int64))
        buckets = len(self.buckets) // self.repeats
        found = np.asarray(np.isfinite(self.profits[slot, :, 1]).reshape(self.repeats, buckets).any(axis=0))
        source = seed_stream(seed, "bootstrap", self.slots[slot].name)
        try:
            return fit_venue(
                self.profits[slot][:, quantities],
                quantities,
                found,
                seed=source,
                draws=self.repeats,
                instrument=self.instrument,
            )
        except DataError as error:
            raise DataError(f"{self.slots[slot].name}: {error}") from None

    def models(self, caps: Integers, seed: int) -> tuple[list[VenueModel], dict[str, VenueFit]]:
        """Return one venue model per slot, with non-negative variances up to its cap, and the fits by slot name."""
        caps = self._caps(caps)
        fits = {slot.name: self.fit(k, caps[k], seed) for k, slot in enumerate(self.slots)}
        kinds = {slot.name: "dark" if slot.pool is not None else slot.kind for slot in self.slots}
        largest = dict(zip(fits, np.maximum(caps, 2).tolist(), strict=True))
        return [fit.model(name, kinds[name]).nonnegative(largest[name]) for name, fit in fits.items()], fits


def draw_scenarios(
    store: RecordingStore,
    symbol: str,
    slots: Sequence[ScenarioSlot],
    shares: int,
    window: TimeWindow,
    *,
    repeats: int = 10,
    side: str = "sell",
    fees: FeeSchedule | None = None,
    levels: int | None = None,
    seed: int = 0,
    date: dt.date | None = None,
) -> Scenarios:
    """Evaluate all quantities up to ``shares`` in every slot, at ``repeats`` random times per bucket of the window."""
    instance_of("store", store, RecordingStore, "a RecordingStore")
    instance_of("window", window, TimeWindow, "a TimeWindow")
    slots = valid_list("slots", slots, ScenarioSlot, "slots")
    whole_number("repeats", repeats, maximum=10_000)
    terms = ScenarioTerms(
        np.arange(1, whole_number("units of an order", shares, maximum=100_000) + 1), side, fees, levels
    )
    if not slots or len({slot.name for slot in slots}) < len(slots):
        raise InputError(f"slots must be one or more with distinct names, was {[slot.name for slot in slots]}")
    recordings = {one.venue: one for one in store.of_symbol(symbol, date)}
    for slot in slots:
        one_of("venue of a slot", slot.venue, tuple(recordings))
    one = next(iter(recordings.values()))
    # The first seed is ``seed`` itself, so that the first sample times are those of `calibrate`.
    seeds = [seed, *(int(seed_stream(seed, "repeat", k).generate_state(1)[0]) for k in range(1, repeats))]
    drawn = [draw_sample_times(one.date, window, each, one.instrument) for each in seeds]
    # Hidden sizes have seeds of their own, so that they do not depend on the sample times.
    stream = f"Window(start={window.start!r}, end={window.end!r}, buckets={window.buckets})"  # must never change
    hidden = [int(seed_stream(seed, "hidden", stream, k).generate_state(1)[0]) for k in range(repeats)]
    names = dict.fromkeys(slot.venue for slot in slots)
    instrument = recordings_instrument(list(recordings.values()))
    venues = {name: ScenarioTables(store, recordings[name], window, drawn, instrument) for name in names}
    profits, crossed, depths = [], [], []
    for slot in slots:
        tables = venues[slot.venue]
        parts = [tables.outcome(slot, times, terms, seed=each) for times, each in zip(drawn, hidden, strict=True)]
        profits.append(np.concatenate([part.profits for part in parts]))
        crossed.append(_from_nothing(np.concatenate([part.crossed for part in parts])))
        depths.append(np.concatenate([part.depth for part in parts]))
    shared = []
    for name, tables in venues.items():
        takers = tuple(k for k, slot in enumerate(slots) if slot.venue == name and slot.kind != "limit")
        if len(takers) > 1:
            crossing = _from_nothing(np.concatenate([tables.crossing(sample_times, terms) for sample_times in drawn]))
            rests = np.stack([crossed[k] for k in takers])
            shared.append(SharedBook(takers, crossing, rests, depths[takers[0]]))
    table = np.stack([_from_nothing(one) for one in profits])
    mids = [
        sample_closest_books(venues[slots[0].venue].snapshots, sample_times, levels=1).mid for sample_times in drawn
    ]
    if not np.isfinite(table[:, :, 1]).any():
        where = f"of {symbol} at {', '.join(venues)} from {window.start} to {window.end}"
        raise DataError(f"no snapshots {where}; choose hours with recorded snapshots")
    buckets = np.tile(np.arange(window.buckets), repeats)
    values = np.concatenate(mids) * instrument.value
    return Scenarios(tuple(slots), table, buckets, values, np.stack(depths), repeats, tuple(shared), instrument)


def _from_nothing(table: NDArray[np.generic]) -> NDArray[Any]:
    """Prepend a column of zeros, for 0 shares, to a table over 1, 2, 3, ... shares."""
    return np.concatenate([np.zeros((len(table), 1), dtype=table.dtype), table], axis=1)
