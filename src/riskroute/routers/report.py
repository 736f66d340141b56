"""Execution reports of child orders; they may be partial, late and out of order."""

from __future__ import annotations

from dataclasses import dataclass

from riskroute.core.errors import InputError
from riskroute.core.validation import one_of, real_number, whole_number

KINDS = ("dark", "dark_rest", "limit", "take", "sweep")  # children of a plan, and sweeps of remainders


@dataclass(frozen=True)
class ChildReport:
    """Outcome of one child order, filled or cancelled.

    Parameters
    ----------
    child : int
        Number within the order; a router learns from each child once.
    kind : str
        One of `KINDS`.
    place : str
        Venue or pool.
    sent, filled : int
        Shares sent and filled.
    price : float
        Average fill price; 0 without fills.
    fee : float
        Total fee in price times units; a rebate is negative.
    last_fill : int
        Time of the last fill, UTC nanoseconds; 0 without fills.
    known : int
        Time at which the sender received the outcome, UTC nanoseconds.
    posted : int
        Time at which the child was sent or, in a backtest, reached its venue, UTC nanoseconds; 0 if unknown.
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
            raise InputError(f"filled must be at most the {self.sent} shares sent, was {self.filled}")
        real_number("price", self.price)
        real_number("fee", self.fee)


@dataclass(frozen=True)
class Report:
    """Newly known outcomes of one order's children.

    Parameters
    ----------
    order : str
        Key of the order.
    children : tuple[ChildReport, ...]
        Children with a known outcome; others are in earlier or later reports.
    complete : bool
        Whether the order is complete, so that no report will follow.
    profit : float, optional
        Profit of the whole order against the arrival mid in price times units, fees included; only if complete.

    Examples
    --------
    >>> child = ChildReport(0, "dark", "POOL", sent=300, filled=120, price=10.01, fee=0.12, last_fill=5, known=9)
    >>> Report("a", (child,)).complete
    False
    """

    order: str
    children: tuple[ChildReport, ...]
    complete: bool = False
    profit: float | None = None
