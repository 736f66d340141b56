"""The gateway interface: child orders go to a venue, execution reports come back at any time."""

from __future__ import annotations

from typing import Protocol

from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import ChildOrder


class ReportSink(Protocol):
    """Books execution reports in sequence, from any thread; pass reports that arrive together in one call."""

    def __call__(self, *reports: ExecutionReport) -> None:
        """Book reports."""


class Gateway(Protocol):
    """One venue or pool.

    No call waits for the venue, which answers with execution reports. `send` may raise only if the child was certainly
    not sent. A venue must not trade a child id twice. Children and reports have quantities in units, prices in 1e-9 and
    fees as amounts; `riskroute.live.state.orders` converts them for the instrument of a symbol.
    """

    def connect(self, reports: ReportSink) -> None:
        """Start reporting; reports missed since the last connection are sent again."""

    def send(self, child: ChildOrder) -> None:
        """Send a child order."""

    def cancel(self, child: ChildOrder) -> None:
        """Cancel the remainder of a child order."""

    def query(self, child: ChildOrder) -> None:
        """Request all reports of a child again, and its state.

        The last answer is ``acknowledged``, ``cancelled``, ``rejected`` or ``expired`` with the venue's cumulative
        quantity, a ``filled`` that leaves nothing, or ``not_known``. It has an exec id of its own.
        """

    def close(self) -> None:
        """Disconnect."""
