"""Execution reports of venues."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from riskroute.core.records import Record

ReportKind = Literal[
    "acknowledged", "filled", "cancelled", "rejected", "expired", "busted", "corrected", "cancel_rejected", "not_known"
]


class ExecutionReport(Record, frozen=True):
    """An execution report of a venue, identified by venue, session day and exec id.

    ``cum`` and ``leaves`` are the filled and the open quantity of the child; ``quantity``, ``price`` and ``fee`` (an
    amount, not per unit) are those of this fill. ``fee_currency`` and ``fee_amount`` are the fee as the venue charged
    it, if that was in another currency; ``fee`` is then the converted fee. ``reference`` is the exec id of the fill,
    or of its last correction, that a bust or correction replaces. ``not_known`` answers a query: the venue does not
    have the child, and no message in flight can still deliver it.
    """

    venue: str
    day: str
    exec_id: str
    child: str
    kind: ReportKind
    at: int
    cum: int = 0
    leaves: int = 0
    quantity: int = 0
    price: int = 0
    fee: int = 0
    reference: str = ""
    text: str = ""
    raw: bytes = b""
    fee_currency: str = ""
    fee_amount: Decimal = Decimal(0)

    @property
    def key(self) -> str:
        """Key that identifies the report, as `execution_report_key` returns it."""
        return f"{self.venue}\x1f{self.day}\x1f{self.exec_id}"


def execution_report_key(venue: str, day: str, exec_id: str) -> str:
    """Return the key of a report; it includes venue and day because exec ids alone are not unique."""
    return f"{venue}\x1f{day}\x1f{exec_id}"
