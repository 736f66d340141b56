"""The result of a study: what was asked, on which books, and what was found for each order."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riskroute.core.errors import DataError, InputError
from riskroute.core.files import write_json
from riskroute.core.records import from_plain, to_plain
from riskroute.core.validation import instance_of, path_of
from riskroute.study.split.findings import findings
from riskroute.study.split.order_records import OrderResult


@dataclass(frozen=True)
class SplitStudyDarkSettings:
    """The assumed parameters of a dark pool, as configured."""

    name: str
    presence: float
    tail: float
    smallest: int
    improvement: float
    fee: float
    venue: str | None


@dataclass(frozen=True)
class SplitStudySettings:
    """The configuration of a study with all defaults filled in, as plain values."""

    data: tuple[str, ...]
    symbol: str | None
    date: str | None
    venue: str | None
    max_unresolved: float
    max_crossed: float
    side: str
    shares: tuple[int, ...]
    risk_tolerances: tuple[float, ...]
    market: tuple[str, ...] | None
    limit: tuple[str, ...]
    dark: tuple[SplitStudyDarkSettings, ...]
    lot: int | None
    caps: dict[str, int]
    fees: str | None
    train: tuple[str, str]
    test: tuple[str, str]
    bucket_minutes: float
    repeats: int
    levels: int | None
    horizon: int
    runs: int
    policies: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class SplitStudyRecordingFacts:
    """What is known of the recording of one venue: its books, the levels kept, its events and its source."""

    books: int
    levels: int
    deeper: int
    cut: str
    events: int
    source: str


@dataclass(frozen=True)
class SplitStudyMarketFacts:
    """Which market a study is about: where the books come from, symbol, day and its zone, side, recordings."""

    origin: str
    symbol: str
    date: str
    zone: str
    side: str
    recordings: dict[str, SplitStudyRecordingFacts]


@dataclass(frozen=True, repr=False)
class SplitStudyResult:
    """Everything a study found out; it prints as its findings.

    Parameters
    ----------
    config : SplitStudySettings
        The configuration, with all defaults filled in.
    versions : dict of str to str
        Versions of the software that the numbers depend on.
    market : MarketFacts
        The market data.
    orders : tuple of OrderResult
        One for each order size and risk tolerance.
    """

    config: SplitStudySettings
    versions: dict[str, str]
    market: SplitStudyMarketFacts
    orders: tuple[OrderResult, ...]

    def __post_init__(self) -> None:
        instance_of("config", self.config, SplitStudySettings, "a SplitStudySettings")
        instance_of("versions", self.versions, dict, "a dictionary of versions by name")
        instance_of("market", self.market, SplitStudyMarketFacts, "a MarketFacts")
        if not isinstance(self.orders, tuple) or not all(isinstance(one, OrderResult) for one in self.orders):
            raise InputError("orders must be a tuple of OrderResult")

    def __repr__(self) -> str:
        return "\n\n".join("\n  ".join(findings(order, self.market.side)) for order in self.orders)

    def summary(self) -> dict[str, Any]:
        """Return plain values: what the JSON file holds."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write every number to a ``.json`` file, from which `from_json` reads the result again.

        Parameters
        ----------
        path : str or path-like
            The file to write, ending in ``.json``.

        Returns
        -------
        Path
            The file written.
        """
        target = path_of("path", path)
        if target.suffix.lower() != ".json":
            raise InputError(f"path must end in .json, was {target.name!r}")
        return write_json(target, self.summary())

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> SplitStudyResult:
        """Read the result of an earlier study.

        Parameters
        ----------
        path : str or path-like
            A file that a study or `to_json` wrote, such as ``study.json``.

        Returns
        -------
        SplitStudyResult
            The same result.
        """
        source = path_of("path", path)
        try:
            plain = json.loads(source.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"path must be a readable file, was {str(source)!r}: {error.strerror or error}") from None
        except ValueError as error:
            raise DataError(f"{source.name} must be JSON: {error}") from None
        try:
            return from_plain(cls, plain, "the file")
        except DataError as error:
            raise DataError(f"{source.name} must be the result of a study: {error}") from None
