"""Slots: places to put shares, and what any quantity would have earned there at sampled times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.names import LONGEST_VENUE, as_name
from riskroute.core.validation import instance_of, one_of
from riskroute.market.clock import Window
from riskroute.market.dark_pools import DarkPool
from riskroute.market.limit_orders import limit_profits
from riskroute.market.market_orders import market_profits, stretched_market_profits
from riskroute.market.sampling import SampleTimes, closest_sampled_books, closest_sampled_rows, last_sampled_rows
from riskroute.market.store import Recording, Store
from riskroute.routing.fees import FeeSchedule
from riskroute.routing.venues import KINDS

MATCHING = {"XPSX": "pro-rata"}
"""Venues that do not match by price and time."""


@dataclass(frozen=True)
class Slot:
    """A place to put shares: market or limit orders at a venue, or a dark pool whose rest crosses at a venue."""

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
        """As in tables: the venue, with the way of trading if that is not a market order."""
        if self.pool is not None:
            return self.pool.name
        return self.venue if self.kind == "market" else f"{self.venue} {self.kind}"


@dataclass(frozen=True)
class SlotTerms:
    """What is traded, and on which terms: quantities, side, fees, and levels of the book to walk, all if None."""

    quantities: Integers
    side: str = "sell"
    fees: FeeSchedule | None = None
    levels: int | None = None


@dataclass(frozen=True)
class SlotOutcome:
    """What a slot earned, and how many shares crossed the book at once, ``(draws * B, Q)`` each.

    Per bucket ``(B,)``, whether there was a book, and how deep. Limit orders cross a later book, not this one.
    """

    profits: Floats
    crossed: Integers
    found: Flags
    depth: Floats


class SlotVenueTables:
    """The tables of one venue and part of a day, read once: of the snapshots those that ``drawn`` times need."""

    def __init__(self, store: Store, recording: Recording, window: Window, drawn: Sequence[SampleTimes]) -> None:
        self.store, self.recording = store, recording
        edges = window.edges(recording.date, recording.zone)
        times = store.times(recording, int(edges[0]), int(edges[-1]))
        rows = np.concatenate(
            [find(times, sample_times) for sample_times in drawn for find in (closest_sampled_rows, last_sampled_rows)]
        )
        stamps = times["ts_event"].cast(polars.Int64).to_numpy()
        self.snapshots = store.snapshots_at(recording, stamps[rows[rows >= 0]])

    @cached_property
    def events(self) -> polars.DataFrame:
        """Events of the whole day: orders rest from early on."""
        return self.store.events(self.recording)

    def outcome(
        self, slot: Slot, sample_times: SampleTimes, terms: SlotTerms, *, seed: int = 0, draws: int = 1
    ) -> SlotOutcome:
        """What orders in a slot of this venue earn at one time per bucket; ``draws`` are those of a dark pool."""
        name, quantities, side = self.recording.venue, terms.quantities, terms.side
        taker, maker = self._fees(terms)
        books = closest_sampled_books(self.snapshots, sample_times, levels=terms.levels)
        crossed = np.zeros((len(books.stamps), len(quantities)), dtype=np.int64)
        if slot.pool is not None:
            dark = slot.pool.profits(books, quantities, seed=seed, side=side, taker_fee=taker, draws=draws)
            profits, crossed = dark.profits, quantities - dark.filled
        elif slot.kind == "market":
            profits, crossed = market_profits(books, quantities, side) - taker * quantities, crossed + quantities
        else:
            profits = limit_profits(
                self.snapshots,
                self.events,
                sample_times,
                quantities,
                side=side,
                rule=MATCHING.get(name, "price-time"),
                maker_fee=maker,
                taker_fee=taker,
                levels=terms.levels,
            ).profits
        return SlotOutcome(profits, crossed, books.found, books.side("bid" if side == "sell" else "ask")[1].sum(axis=1))

    def crossing(self, sample_times: SampleTimes, terms: SlotTerms) -> Floats:
        """Profit of crossing the book at one time per bucket, ``(B, Q)``, beyond its known levels an estimate."""
        books = closest_sampled_books(self.snapshots, sample_times, levels=terms.levels)
        return stretched_market_profits(books, terms.quantities, terms.side) - self._fees(terms)[0] * terms.quantities

    def _fees(self, terms: SlotTerms) -> tuple[float, float]:
        """What taking and making cost per share."""
        fee = terms.fees.fee(self.recording.venue, self.recording.date) if terms.fees is not None else None
        return (fee.taker, fee.maker) if fee is not None else (0.0, 0.0)
