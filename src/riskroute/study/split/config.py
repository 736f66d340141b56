"""What a study is about: data, symbol, order sizes, slots, risk tolerances, policies."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from riskroute.core.config import (
    Count,
    Counts,
    Name,
    Names,
    Seed,
    Texts,
    Tolerances,
    config_all_different,
    validated_config,
)
from riskroute.core.errors import InputError
from riskroute.core.validation import one_of
from riskroute.learning.plan import LONGEST_HORIZON
from riskroute.learning.registry import POLICIES
from riskroute.market.clock import SECOND, Window, clock_hours, utc_stamp
from riskroute.market.dark_pools import DarkPool
from riskroute.market.schema import MOST_LEVELS

SYNTHETIC = "synthetic"
MOST_BUCKETS = 5_000
_ANY_DAY = dt.date(2000, 1, 3)
POLICIES_PLAYED = ("adaptive", "thompson", "rise", "rise++", "risk-ucb", "risk-exp-exp", "uniform")


class DarkConfig(BaseModel):
    """A dark pool: see `riskroute.market.dark_pools.DarkPool`; the remainder crosses at ``venue``."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    presence: float
    tail: float
    smallest: Count = 1
    improvement: float = 0.0
    fee: float = 0.0
    venue: Name | None = None

    def pool(self) -> DarkPool:
        """The mechanism."""
        return DarkPool(self.presence, self.tail, self.smallest, self.improvement, self.fee, self.name)


DARK = (
    DarkConfig(name="Dark 1", presence=0.4, tail=1.5, smallest=5),
    DarkConfig(name="Dark 2", presence=0.7, tail=1.0, smallest=2),
)


def _span(value: Any) -> Any:
    """Two times of a day from a text such as 11:00-12:00."""
    return clock_hours(value) if isinstance(value, str) else value


Share = Annotated[float, Field(ge=0, le=1)]
Span = Annotated[tuple[dt.time, dt.time], BeforeValidator(_span)]


class SplitStudyConfig(BaseModel):
    """Everything a study depends on; every field has a default. `TEMPLATE` says what they mean."""

    model_config = ConfigDict(extra="forbid")

    data: Texts = [SYNTHETIC]
    symbol: Name | None = None
    date: dt.date | None = None
    venue: Name | None = None
    max_unresolved: Share = 0.01
    max_crossed: Share = 0.01
    side: Literal["sell", "buy"] = "sell"
    shares: Counts = [10]
    risk_tolerances: Tolerances = [2.0]
    market: Names | None = None
    limit: Names = []
    dark: list[DarkConfig] | None = None
    lot: Count | None = None
    caps: dict[Name, Count] = {}
    fees: Path | None = None
    train: Span = (dt.time(10, 40), dt.time(12))
    test: Span = (dt.time(12), dt.time(13, 20))
    bucket_minutes: Annotated[float, Field(gt=0, le=600)] = 2.0
    repeats: Annotated[int, Field(ge=1, le=1000, strict=True)] = 10
    levels: Annotated[int, Field(ge=1, le=MOST_LEVELS, strict=True)] | None = None
    horizon: Annotated[int, Field(ge=10, le=LONGEST_HORIZON, strict=True)] = 10_000
    runs: Count = 10
    policies: Texts = list(POLICIES_PLAYED)
    seed: Seed = 0

    @field_validator("policies")
    @classmethod
    def _not_empty(cls, value: list[str]) -> list[str]:
        if not value:
            raise ValueError("at least one policy")
        return value

    @property
    def pools(self) -> list[DarkConfig]:
        """Dark pools: as given; two if nothing is said about a synthetic market, none beside real books."""
        if self.dark is not None:
            return self.dark
        return list(DARK) if self.data == [SYNTHETIC] else []

    def window(self, name: str) -> Window:
        """The part of the day to ``train`` or to ``test`` on, in buckets."""
        first, last = self.train if name == "train" else self.test
        minutes = (utc_stamp(_ANY_DAY, last) - utc_stamp(_ANY_DAY, first)) / (60 * SECOND)
        buckets = round(minutes / self.bucket_minutes)
        if not 2 <= buckets <= MOST_BUCKETS:
            expected = f"2 to {MOST_BUCKETS:,} buckets of {self.bucket_minutes:g} minutes"
            raise InputError(f"{name} must last {expected}, was {minutes:g} minutes")
        return Window(first, last, buckets)

    def lot_of(self, shares: int) -> int:
        """Multiples that a slot may take: as given, or such that an order has 20 to 100 of them, if that goes."""
        if self.lot is not None:
            if shares % self.lot:
                raise InputError(f"shares must be a multiple of the lot of {self.lot}, was {shares}")
            return self.lot
        fitting = (lot for lot in range(-(-shares // 100), shares // 20 + 1) if shares % lot == 0)
        return next(fitting, 1)


def checked_study(values: dict[str, Any]) -> SplitStudyConfig:
    """Make a configuration of plain values."""
    if isinstance(values, dict) and "judge" in values:
        raise InputError("judge is now called test")
    config = validated_config(SplitStudyConfig, values)
    for name in ("shares", "risk_tolerances", "policies", "limit", "data"):
        config_all_different(name, getattr(config, name))
    config_all_different("names of dark pools", [pool.name for pool in config.pools])
    for policy in config.policies:
        one_of("policies", policy, tuple(POLICIES))
    for pool in config.pools:
        try:
            pool.pool()
        except InputError as error:
            raise InputError(f"{pool.name}: {error}") from None
    for shares in config.shares:
        if shares < 2:
            raise InputError(f"shares must be at least 2, so that there is something to split, was {shares}")
        config.lot_of(shares)
    for name in ("train", "test"):
        config.window(name)
    if config.data == [SYNTHETIC] and config.venue is not None:
        raise InputError(f"venue must be left out for the synthetic market, was {config.venue!r}")
    if SYNTHETIC in config.data and len(config.data) > 1:
        raise InputError(f"data must be {SYNTHETIC!r} or files and folders, was both")
    if config.train[1] > config.test[0] and config.test[1] > config.train[0]:
        raise InputError("test must not overlap train, so that the test is out of sample; they overlap")
    return config


TEMPLATE = """\
# A split study: from market data to a recommendation. Every line is optional; what stands here is the default.

# data: "synthetic" makes a market; otherwise a folder of `riskroute market import`, or files to import.
# Paths, also that of `fees`, are relative to where the command is run.
data = "synthetic"
# symbol = "QVEX"             # needed where the data hold several
# date = 2019-03-27           # needed where the data hold several days
# venue = "XNAS"              # of files that do not tell
max_unresolved = 0.01         # share of references to unknown orders above which a file is refused
max_crossed = 0.01            # the same for books with bid at or above ask
side = "sell"                 # or "buy"

shares = [10]                 # order sizes; one study for each
risk_tolerances = [2.0]       # weight of the mean (dollars) against the variance (squared); smaller is more careful

# Slots: where shares may go.
# market = ["XNAS", "XBOS"]   # venues for market orders; all recorded ones if left out
limit = []                    # venues for limit orders too, such as ["XNAS"]; needs recorded events
# lot = 1                     # multiples of shares; if left out such that an order has 20 to 100 of them, or 1
# fees = "fees.toml"          # fee schedule; profits are then net of fees

# When: New York times, or those of the recordings' zone. Models are estimated and policies chosen in the train hours,
# and tested in the test hours.
train = "10:40-12:00"
test = "12:00-13:20"
bucket_minutes = 2.0          # one book per bucket, venue and repeat; limit orders wait until the bucket ends
repeats = 10                  # times drawn per bucket
# levels = 10                 # of a book that an order may walk, the best first; all that are recorded if left out

# Learning.
horizon = 10000               # orders routed one after the other
runs = 10                     # repetitions, for error bars
policies = ["adaptive", "thompson", "rise", "rise++", "risk-ucb", "risk-exp-exp", "uniform"]
seed = 0

# [caps]                      # most shares in a slot, by its name in the report
# XPSX = 5

# Dark pools: hidden size is there with probability `presence`, at least `smallest`, with a power-law tail; it trades at
# the mid, and the remainder crosses at `venue` (the one with the most books if left out). They are assumed, as nobody
# publishes such data: these two are there if nothing is said about the synthetic market, none beside data of your own.
# For none at all write `dark = []` above the first [section].
[[dark]]
name = "Dark 1"
presence = 0.4
tail = 1.5
smallest = 5

[[dark]]
name = "Dark 2"
presence = 0.7
tail = 1.0
smallest = 2
"""
