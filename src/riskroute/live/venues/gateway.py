"""The interface to a venue: child orders go out, reports come back, whenever they come."""

from __future__ import annotations

from typing import Protocol

from riskroute.live.state.events import ChildOrder, ExecutionReport


class ReportSink(Protocol):
    """Takes reports, in their sequence; any thread may call it. Reports that come together should be handed on so."""

    def __call__(self, *reports: ExecutionReport) -> None:
        """Book reports."""
        ...


class Gateway(Protocol):
    """One venue or pool.

    No call waits for the venue: answers are reports. `send` raises an error only if it is certain that the child was
    not sent, and will not be. A venue that gets a child id for the second time must not trade on it again.
    """

    def connect(self, reports: ReportSink) -> None:
        """Begin to report; reports that were missed while nobody listened are sent again."""
        ...

    def send(self, child: ChildOrder) -> None:
        """Send a child order."""
        ...

    def cancel(self, child: ChildOrder) -> None:
        """Ask for the remainder of a child back."""
        ...

    def query(self, child: ChildOrder) -> None:
        """Ask for all reports of a child again, and for its state.

        The last of the answers is an ``acknowledged``, ``cancelled``, ``rejected`` or ``expired`` with the shares that
        the venue has counted, a ``filled`` that leaves nothing, or ``not_known``. It has an exec id of its own.
        """
        ...

    def close(self) -> None:
        """End the connection."""
        ...
