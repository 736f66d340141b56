"""Venues of the synthetic market (spread, depth, activity, matching rule), and presets of whole markets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from riskroute.core.errors import InputError
from riskroute.core.validation import LONGEST_VENUE, as_name, instance_of, one_of, real_number, whole_number
from riskroute.market.queue_fills import MATCHING_RULES

REFERENCE_PRICE = 270.0  # dollars; spreads are stated for a stock at this price, and scale with a stock's price


@dataclass(frozen=True)
class SyntheticOwnQuotes:
    """Quotes of a venue on its own; all amounts are in dollars for a stock at the `REFERENCE_PRICE`.

    Over time the target half-spread has mean ``half_spread`` and a standard deviation of ``spread_deviation`` or 0.2
    ticks, whichever is larger. Quotes change when the target spread is more than ``spread_patience`` from the quoted
    spread, or the target mid more than ``price_patience`` from the quoted mid.
    """

    half_spread: float
    spread_deviation: float
    spread_patience: float
    price_patience: float

    def __post_init__(self) -> None:
        for field in ("half_spread", "spread_deviation", "spread_patience", "price_patience"):
            real_number(field, getattr(self, field), above=0, maximum=1000)


@dataclass(frozen=True)
class SyntheticSharedQuotes:
    """Quotes of a venue that follows the best quotes of a market, and is at times a few ticks worse.

    ``at_best`` is the fraction of time in which the venue quotes the best price of a side. ``memory`` is the time
    constant, in seconds, of the venue's distance from this price.
    """

    at_best: float
    memory: float

    def __post_init__(self) -> None:
        real_number("at_best", self.at_best, above=0, below=1)
        real_number("memory", self.memory, above=0, maximum=3600)


@dataclass(frozen=True)
class SyntheticVenue:
    """Parameters of a synthetic venue."""

    name: str  # market identifier code (MIC)
    file_name: str  # name of its file, with ``strftime`` codes for the date
    matching: str  # price-time or pro-rata
    quotes: SyntheticOwnQuotes | SyntheticSharedQuotes  # model of its best bid and offer
    events_per_second: float  # mean rate per symbol; changes of the quotes cause further messages
    orders: int  # typical number of orders per side
    lot: int  # typical size of an order, in shares
    top_size: int  # minimum size at the best price, in shares
    top_share: float = 0.3  # fraction of new orders that join the best price
    reach: float = 6.0  # mean distance of other orders from the best price, in ticks
    takers: float = 0.02  # fraction of events that are aggressive orders
    hidden: float = 0.007  # fraction of events that are trades with hidden orders
    partial: float = 0.015  # fraction of events that cancel part of an order
    replaced: float = 0.045  # fraction of events that replace an order
    moved: float = 0.06  # when quotes change, fraction of withdrawn orders that return at another price
    sweep: float = 0.1  # probability that a worse quote of a side executes the orders at its old best price

    def __post_init__(self) -> None:
        as_name("name", self.name, longest=LONGEST_VENUE)
        if not (isinstance(self.file_name, str) and self.file_name):
            raise InputError(f"file_name must be a non-empty string, was {self.file_name!r}")
        if Path(dt.date(2000, 1, 1).strftime(self.file_name)).name != dt.date(2000, 1, 1).strftime(self.file_name):
            raise InputError(f"file_name must be a name without folders, was {self.file_name!r}")
        one_of("matching", self.matching, MATCHING_RULES)
        instance_of(
            f"quotes of {self.name}",
            self.quotes,
            (SyntheticOwnQuotes, SyntheticSharedQuotes),
            "SyntheticOwnQuotes or SyntheticSharedQuotes",
        )
        real_number(f"events_per_second of {self.name}", self.events_per_second, above=0, maximum=1000)
        whole_number(f"orders of {self.name}", self.orders, minimum=16, maximum=1000)
        whole_number(f"lot of {self.name}", self.lot, minimum=2, maximum=100_000)
        whole_number(f"top_size of {self.name}", self.top_size, maximum=100_000)
        real_number(f"reach of {self.name}", self.reach, minimum=1, maximum=50)
        for field in ("top_share", "takers", "hidden", "partial", "replaced", "moved", "sweep"):
            real_number(f"{field} of {self.name}", getattr(self, field), minimum=0, maximum=1)
        if self.takers + self.hidden + self.partial + self.replaced > 1:
            raise InputError(f"takers, hidden, partial and replaced of {self.name} must sum to at most 1")


# The paper's three venues: XNAS is deep, XPSX is thin and pro-rata, XBOS has inverted fees and a wide, steady spread.
DEFAULT_VENUES = (
    SyntheticVenue(
        name="XNAS",
        file_name="%m%d%Y.NASDAQ_ITCH50",
        matching="price-time",
        quotes=SyntheticOwnQuotes(half_spread=0.07, spread_deviation=0.0235, spread_patience=0.01, price_patience=0.02),
        events_per_second=22.0,
        orders=40,
        lot=100,
        top_size=8,
        takers=0.009,
        sweep=0.05,
    ),
    SyntheticVenue(
        name="XPSX",
        file_name="%Y%m%d.PSX_ITCH_50",
        matching="pro-rata",
        quotes=SyntheticOwnQuotes(half_spread=1.144, spread_deviation=0.2, spread_patience=0.08, price_patience=0.04),
        events_per_second=6.0,
        orders=36,
        lot=30,
        top_size=10,
        reach=12.0,
        takers=0.012,
    ),
    SyntheticVenue(
        name="XBOS",
        file_name="%Y%m%d.BX_ITCH_50",
        matching="price-time",
        quotes=SyntheticOwnQuotes(
            half_spread=1.471, spread_deviation=0.002, spread_patience=0.005, price_patience=0.04
        ),
        events_per_second=8.0,
        orders=30,
        lot=60,
        top_size=20,
        reach=8.0,
    ),
)


@dataclass(frozen=True)
class SyntheticVenuePreset:
    """A synthetic market: venues, stocks, and the taker and maker fee of each venue in dollars per share."""

    name: str
    venues: tuple[SyntheticVenue, ...]
    symbols: tuple[str, ...]
    fees: Mapping[str, tuple[float, float]]


def _comparable(name: str, at_best: float, memory: float, lot: int, top_size: int) -> SyntheticVenue:
    return SyntheticVenue(
        name=name,
        file_name=f"%Y%m%d.{name}_ITCH_50",
        matching="price-time",
        quotes=SyntheticSharedQuotes(at_best=at_best, memory=memory),
        events_per_second=8.0,
        orders=40,
        lot=lot,
        top_size=top_size,
        top_share=0.5,
        reach=4.0,
        takers=0.01,
        sweep=0.05,
    )


# ``paper``: three venues with very different spreads. ``comparable``: five venues that take turns at the best price,
# with fees like those of US venues: three pay rebates to makers, one is nearly free, one pays rebates to takers.
PRESETS = {
    "paper": SyntheticVenuePreset(
        name="paper",
        venues=DEFAULT_VENUES,
        symbols=("QVEX", "ZORN", "XALT"),
        fees={"XNAS": (0.0030, -0.0020), "XPSX": (0.0030, -0.0020), "XBOS": (-0.0010, 0.0020)},
    ),
    "comparable": SyntheticVenuePreset(
        name="comparable",
        venues=(
            _comparable("XNAS", 0.40, 1.0, 300, 500),
            _comparable("ARCX", 0.33, 0.5, 250, 400),
            _comparable("BATS", 0.33, 2.0, 250, 400),
            _comparable("EDGA", 0.28, 5.0, 150, 200),
            _comparable("XBOS", 0.26, 0.2, 150, 200),
        ),
        symbols=("LUMO", "TARN", "VEKO"),
        fees={
            "XNAS": (0.0030, -0.0020),
            "ARCX": (0.0030, -0.0022),
            "BATS": (0.0028, -0.0025),
            "EDGA": (-0.0002, 0.0006),
            "XBOS": (-0.0015, 0.0018),
        },
    ),
}
