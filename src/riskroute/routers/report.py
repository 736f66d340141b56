"""What became of the child orders of an order, as far as it is known: reports may be partial, late and out of turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from riskroute.core.errors import InputError
from riskroute.core.records import from_plain, to_plain
from riskroute.core.validation import one_of, real_number, whole_number

KINDS = ("dark", "dark_rest", "limit", "take", "sweep")
"""Kinds of child orders: those of a plan, and the sweeps of what came back."""


@dataclass(frozen=True)
class ChildReport:
    """One child order, done with or cancelled.

    Parameters
    ----------
    child : int
        Its number within the order; a router learns from each number once.
    kind : str
        One of `KINDS`.
    place : str
        Venue or pool.
    sent, filled : int
        Shares sent and filled.
    price : float
        Average price of the filled shares; 0 if there are none.
    fee : float
        Dollars paid for them, all together; a rebate is negative.
    last_fill : int
        Time of the last fill, nanoseconds of UTC; 0 if there was none.
    known : int
        When the outcome became known to the sender.
    posted : int
        When it was sent; 0 if that is not known.
    """

    child: int
    kind: str
    place: str
    sent: int
    filled: int
    price: float
    fee: float
    last_fill: int
    known: int
    posted: int = 0

    def __post_init__(self) -> None:
        whole_number("child", self.child, minimum=0)
        one_of("kind", self.kind, KINDS)
        whole_number("sent", self.sent, minimum=0)
        whole_number("filled", self.filled, minimum=0)
        if self.filled > self.sent:
            raise InputError(f"filled must be at most {self.sent}, what was sent, was {self.filled}")
        real_number("price", self.price, minimum=0)
        real_number("fee", self.fee)


@dataclass(frozen=True)
class Report:
    """Children of one order whose outcome is known.

    Parameters
    ----------
    order : str
        Its key.
    children : tuple[ChildReport, ...]
        Some of its children; the others are reported earlier or later.
    complete : bool
        Whether every share of the order is done, and no report will follow.
    profit : float, optional
        Profit of the whole order in dollars against its arrival mid, fees included; with a complete report only.

    Examples
    --------
    >>> child = ChildReport(0, "dark", "POOL", sent=300, filled=120, price=10.01, fee=0.12, last_fill=5, known=9)
    >>> report = Report("a", (child,))
    >>> Report.from_json(report.to_json()) == report
    True
    """

    order: str
    children: tuple[ChildReport, ...]
    complete: bool = False
    profit: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, which `from_json` turns back into the same report."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_json(cls, values: Any) -> Report:
        """Make a report of plain values."""
        return from_plain(cls, values)
