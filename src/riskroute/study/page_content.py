"""What a page shows, as records: sections of texts, tables and charts, and nothing about how they are drawn.

Experiments fill them in and the report draws them. Texts are plain; they are escaped where they are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

from riskroute.core.text import TextTable

ROLES = ("chosen", "rule", "bound", "other")
"""What a router is to the reader: the one in question, the one to beat, one that knows the future, or any other."""

TRADE_KINDS = ("dark pool, at once", "dark pool, resting", "limit order", "taken", "swept")
"""How shares were traded, in words."""


@dataclass(frozen=True)
class Dot:
    """A value with its name, and an interval: its two ends, or one standard error to both sides."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    error: float | None = None
    role: str = "other"


@dataclass(frozen=True)
class DotChart:
    """Values beside each other on one scale, each on a line of its own."""

    title: str
    unit: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class Curve:
    """A line through some points, with intervals where there are any."""

    name: str
    along: tuple[float, ...]
    up: tuple[float, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    role: str = "other"


@dataclass(frozen=True)
class CurveChart:
    """Curves over a common axis.

    Parameters
    ----------
    title, along, up : str
        Title, and what the axes show, with units.
    curves : tuple[Curve, ...]
        The curves.
    edge : float, optional
        A place on the axis to mark, named by ``edge_name``.
    clock : bool
        Whether the axis counts hours of the day.
    """

    title: str
    along: str
    up: str
    curves: tuple[Curve, ...]
    edge: float | None = None
    edge_name: str = ""
    clock: bool = False


@dataclass(frozen=True)
class GridCell:
    """A value with its interval, in a row and a column of a grid."""

    row: str
    column: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class GridChart:
    """Values by two things at once; ``down`` and ``across`` say which."""

    title: str
    unit: str
    down: str
    across: str
    cells: tuple[GridCell, ...]


@dataclass(frozen=True)
class BookBar:
    """Shares displayed by a venue at a price; ``side`` is ``bid`` or ``ask``."""

    venue: str
    side: str
    price: float
    shares: int


@dataclass(frozen=True)
class BookTrade:
    """Shares that an order traded somewhere at a price, in one of the ways of `TRADE_KINDS`."""

    kind: str
    place: str
    price: float
    shares: int


@dataclass(frozen=True)
class BookChart:
    """The books of all venues at one moment, price by price, and what an order traded at each price."""

    title: str
    bars: tuple[BookBar, ...]
    trades: tuple[BookTrade, ...]


Chart = DotChart | CurveChart | GridChart | BookChart


@dataclass(frozen=True)
class PageTable:
    """A table with what it shows."""

    caption: str
    table: TextTable


@dataclass(frozen=True)
class PageSection:
    """A heading with texts, charts and tables below it, and small print at its end."""

    title: str
    texts: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[PageTable, ...] = ()
    notes: tuple[str, ...] = ()
    points: tuple[str, ...] = ()


@dataclass(frozen=True)
class PagePart:
    """An answer in a sentence and in full, with the facts behind it and what supports it."""

    title: str
    headline: str
    answer: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[PageSection, ...]


@dataclass(frozen=True)
class PageContent:
    """A whole page: parts that answer a question each, and sections on all of them.

    ``summary`` has a row for every part, if there are several; ``command`` and ``program`` run it again.
    """

    title: str
    subtitle: str
    summary: PageTable | None
    parts: tuple[PagePart, ...]
    sections: tuple[PageSection, ...]
    command: str
    program: str
    settings: str
