"""All to one venue: what a desk without a router does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from riskroute.core.errors import InputError
from riskroute.core.parameters import parameter
from riskroute.core.validation import instance_of
from riskroute.routers.context import Context
from riskroute.routers.plan import Plan
from riskroute.routers.router import Router


@dataclass
class Primary(Router):
    """Send the whole order to one venue, and send whatever comes back there once more.

    Parameters
    ----------
    venue : str
        Name of the venue; the first one of the books if empty.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 150]], "asks": [[10.02, 100]]}}}
    >>> Primary().route(read_context(books, side="sell", shares=100)).take
    {'A': 100}
    """

    name: ClassVar[str] = "primary"
    venue: str = parameter("", instance_of, kind=str, expected="the name of a venue")

    def decide(self, context: Context) -> Plan:
        venues = context.books.venues
        venue = self.venue or venues[0]
        if venue not in venues:
            raise InputError(f"venue must be one of {', '.join(venues)}, was {venue!r}")
        return Plan(context.order, take={venue: context.shares}, rest=f"venue:{venue}")
