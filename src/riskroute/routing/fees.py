"""Venue fees: dollars per share for taking and making liquidity, by day; a rebate is a negative fee.

A schedule is a TOML file::

    [[fees]]
    venue = "XNAS"
    from = 2019-01-01   # first day; valid until a later entry for the venue
    taker = 0.0030      # paid by an order that trades immediately
    maker = -0.0020     # paid by an order that rests in the book; here a rebate

An inverted venue pays takers and charges makers: a negative ``taker`` and a positive ``maker``.
"""

from __future__ import annotations

import datetime as dt
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from riskroute.core.errors import DataError, InputError
from riskroute.core.validation import (
    LONGEST_VENUE,
    as_name,
    instance_of,
    real_number,
    valid_day,
    valid_list,
    valid_path,
)


@dataclass(frozen=True)
class Fee:
    """Fees per share at a venue, valid from the day ``since``."""

    venue: str
    since: dt.date
    taker: float
    maker: float

    def __post_init__(self) -> None:
        as_name("venue of a fee", self.venue, longest=LONGEST_VENUE)
        valid_day(f"since of the fee of {self.venue}", self.since)
        for name in ("taker", "maker"):
            # a fee above 10 dollars per share is probably in other units
            value = real_number(f"{name} fee of {self.venue}", getattr(self, name), minimum=-10.0, maximum=10.0)
            object.__setattr__(self, name, value)

    @property
    def inverted(self) -> bool:
        """Whether the venue has inverted pricing: takers receive a rebate, makers pay."""
        return self.taker < 0 < self.maker


class FeeSchedule:
    """Fees by venue and day.

    Examples
    --------
    >>> schedule = FeeSchedule([Fee("XNAS", dt.date(2019, 1, 1), taker=0.003, maker=-0.002)])
    >>> schedule.fee("XNAS", dt.date(2019, 3, 27)).taker
    0.003
    """

    def __init__(self, fees: Sequence[Fee]) -> None:
        self.fees = sorted(valid_list("fees", fees, Fee, "fees"), key=lambda fee: (fee.venue, fee.since))
        for one, other in zip(self.fees, self.fees[1:], strict=False):
            if (one.venue, one.since) == (other.venue, other.since):
                raise InputError(f"expected one fee per venue and day, got two for {one.venue} from {one.since}")

    def fee(self, venue: str, day: dt.date) -> Fee:
        """Return the fees of a venue on a day; raise `InputError` if there are none."""
        instance_of("venue", venue, str, "a string")
        valid_day("day", day)
        holding = [fee for fee in self.fees if fee.venue == venue and fee.since <= day]
        if not holding:
            known = ", ".join(f"{fee.venue} from {fee.since}" for fee in self.fees) or "none"
            raise InputError(f"no fee for {venue} on {day}; the schedule has {known}")
        return holding[-1]


def load_fees(path: str | os.PathLike[str]) -> FeeSchedule:
    """Read a schedule from a TOML file."""
    file = valid_path("path", path)
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))["fees"]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError) as error:
        raise DataError(f"{path} must be a TOML file of [[fees]]: {error}") from error
    if not isinstance(entries, list):
        raise DataError(f"{path} must be a TOML file of [[fees]], was {entries!r}")
    return FeeSchedule([_fee(entry, number, path) for number, entry in enumerate(entries, 1)])


def _fee(entry: Any, number: int, path: str | os.PathLike[str]) -> Fee:
    fields: dict[str, Any] = {"venue": str, "from": dt.date, "taker": (int, float), "maker": (int, float)}
    if not isinstance(entry, dict) or set(entry) != set(fields):
        given = sorted(entry) if isinstance(entry, dict) else entry
        raise DataError(f"entry {number} of {path} must have venue, from, taker and maker, was {given}")
    for name, kind in fields.items():
        if not isinstance(entry[name], kind) or isinstance(entry[name], bool | dt.datetime):
            expected = {"venue": "a string", "from": "a day such as 2019-01-01"}.get(name, "a number")
            raise DataError(f"{name} of entry {number} of {path} must be {expected}, was {entry[name]!r}")
    return Fee(entry["venue"], entry["from"], entry["taker"], entry["maker"])
