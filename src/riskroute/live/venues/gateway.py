"""The interfaces of venues: child orders go out, execution reports come back at any time; books and trades come in.

A gateway is one venue or pool. No call of it waits for the venue, and its sink never waits or raises, so that neither
side can stall the other. Children and reports have quantities in units, prices in 1e-9 and fees as amounts
(`riskroute.live.state.amounts`).

A package adds a kind of venue by an entry point in the group ``riskroute.venues``: a function that gets a `VenueSetup`
and returns a `VenueLink`. The configuration names it, as in ``kind = "mine"``.
"""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from riskroute.core.instrument import Instrument
from riskroute.core.records import Record
from riskroute.live.fees import LivePlaceFees
from riskroute.live.state.execution_reports import ExecutionReport
from riskroute.live.state.orders import ChildOrder
from riskroute.live.state.quotes import MarketTrade, VenueQuote


class VenueTerms(Record, frozen=True):
    """Order sizes and prices that one place accepts in one symbol, as decimal numbers.

    ``tick`` and ``lot`` are never finer than the instrument's. ``ioc``: ``emulated`` if the gateway sends a
    day order and cancels it at once. ``idempotent``: the venue itself permanently refuses a second order with the same
    client id, so that an order may be sent again. ``horizon``: seconds after which a request can no longer arrive.
    ``base`` and ``quote`` are the names, in the venue's balances, of the traded asset and of the money; empty if the
    venue has no balances.
    """

    tick: Decimal
    lot: Decimal
    minimum_quantity: Decimal = Decimal(0)
    minimum_notional: Decimal = Decimal(0)
    ioc: Literal["native", "emulated"] = "native"
    idempotent: bool = False
    horizon: float = 10.0
    base: str = ""
    quote: str = ""


def instrument_venue_terms(instrument: Instrument, **more: Any) -> VenueTerms:
    """Return the terms of a place that accepts whatever the instrument allows; ``more`` sets or overrides fields."""
    given: dict[str, Any] = {"tick": instrument.tick, "lot": instrument.lot or instrument.unit}
    given |= {"minimum_quantity": instrument.minimum_quantity, "minimum_notional": instrument.minimum_notional}
    return VenueTerms(**(given | more))


class OpenOrder(Record, frozen=True):
    """An order that is open at a venue, with the client's id as the venue has it and the venue's own id.

    The client's id of our orders is the `wire_id` of the child, even at a venue that is sent longer ids. ``leaves`` is
    in units; None if the venue does not state it.
    """

    wire_id: str
    symbol: str
    side: str
    leaves: int | None = None
    venue_id: str = ""


class VenueAccount(Record, frozen=True):
    """Our open orders and balances as a venue states them; fills that they include are reported first.

    ``balances`` are totals by currency, including amounts held by open orders; None at a venue without balances.
    """

    at: int
    open_orders: tuple[OpenOrder, ...]
    balances: dict[str, Decimal] | None = None


class GatewaySink(Protocol):
    """What a gateway tells the engine, in sequence; every method may be called from any thread."""

    def __call__(self, *reports: ExecutionReport) -> None:
        """Book reports; pass those that arrive together in one call.

        ``child`` of a report is the id of the child or its `wire_id`, which also leads back to children of an earlier
        process. Any other id belongs to an order that somebody else sent to the same account.
        """

    def up(self) -> None:
        """Say that the session works: orders and queries can be sent."""

    def down(self, reason: str) -> None:
        """Say that the session does not work."""

    def account(self, account: VenueAccount) -> None:
        """Answer `Gateway.request_account`."""


class Gateway(Protocol):
    """One venue or pool; no call waits for it.

    Gateways with the same ``session`` share a connection and its limit of orders per second.
    """

    session: str

    def connect(self, sink: GatewaySink) -> None:
        """Connect, and call ``sink.up`` as soon as orders can be sent; reconnect after every lost connection."""

    def terms(self, symbol: str) -> VenueTerms | None:
        """Return the terms of a symbol, None if it is not traded here; may be called before `connect`."""

    def send(self, child: ChildOrder) -> None:
        """Send a child order; raise only if it was certainly not sent. A venue must not trade a child id twice."""

    def cancel(self, child: ChildOrder) -> None:
        """Cancel the remainder of a child order."""

    def query(self, child: ChildOrder) -> None:
        """Request all reports of a child again, and its state.

        The last answer is ``acknowledged``, ``cancelled``, ``rejected`` or ``expired`` with the venue's cumulative
        quantity, a ``filled`` that leaves nothing, or ``not_known``. It has an exec id of its own. ``not_known`` means
        that the venue does not have the child, and that no message under way can bring it there any more.
        """

    def request_account(self) -> None:
        """Request open orders and balances, which `GatewaySink.account` gets."""

    def close(self) -> None:
        """Disconnect."""


class QuoteSink(Protocol):
    """What a quote source tells the service; every method may be called from any thread, never waits or raises."""

    def put(self, symbol: str, quotes: Sequence[VenueQuote], trades: Sequence[MarketTrade] | None = None) -> None:
        """Replace the books of some places, and add the trades since the last call; None: trades are not known.

        Times are times of receipt unless the venue's clock is known. Books without fees get the configured fees.
        Put a book that does not change again at least once a second: the age of a book counts from its time.
        """

    def gap(self, place: str, symbol: str | None, reason: str) -> None:
        """Say that the book of a place is unknown until the next `put`; symbol None: all its books."""


class QuoteSource(Protocol):
    """Books and trades of one or more places."""

    def connect(self, sink: QuoteSink) -> None:
        """Connect; pass books, trades and gaps to the sink."""

    def subscribe(self, symbols: Sequence[str]) -> None:
        """Send the books of these symbols from now on."""

    def close(self) -> None:
        """Disconnect."""


class VenueLink(NamedTuple):
    """A gateway, and the source of its books; None if books come with orders or from elsewhere."""

    gateway: Gateway
    source: QuoteSource | None = None


class VenueSetup(NamedTuple):
    """What a kind of venue gets to make a place: its name, and ``options`` from its table in the configuration.

    ``quotes`` returns the newest books of a symbol, ``fees`` the fees of an instrument at this place now. ``journal``
    is a file that only this place uses, for what it must remember between processes. ``trades`` is False in shadow
    mode, in which only the source is used.
    """

    place: str
    options: Mapping[str, Any]
    instruments: Mapping[str, Instrument]
    clock: Callable[[], int]
    quotes: Callable[[str], tuple[VenueQuote, ...] | None]
    fees: Callable[[Instrument], LivePlaceFees]
    journal: Path
    trades: bool = True


@lru_cache(65_536)
def wire_id(child: str) -> str:
    """Return a hash of a child's id, 16 letters and digits, for venues that refuse long ids or hyphens.

    Examples
    --------
    >>> wire_id("QWDU4QQC322WBCGN-2-0")
    '5D52RADGX4PESVAO'
    """
    return b32encode(blake2b(child.encode(), digest_size=10).digest()).decode()
