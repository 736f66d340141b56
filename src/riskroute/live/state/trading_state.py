"""The state of the live router, which the events in the log determine."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, ClassVar

import msgspec

from riskroute.core.errors import DataError
from riskroute.core.records import decode_record, encode_record
from riskroute.core.text import one_line_text
from riskroute.live.state.amounts import natural_amount
from riskroute.live.state.orders import ChildOrder, OrderDecision, OrderOutcome, ParentOrder


class _BatchMean(msgspec.Struct, gc=False):
    """Mean over orders, with a confidence interval by batch means, since the costs of orders are correlated.

    Examples
    --------
    >>> mean = _BatchMean()
    >>> for value in range(1000):
    ...     mean.add(value % 10)
    >>> mean.count, mean.mean, mean.batch, len(mean.sums)
    (1000, 4.5, 16, 62)
    """

    most_batches: ClassVar[int] = 64  # when full, neighbours are merged and the batch size doubles
    count: int = 0
    total: float = 0.0
    batch: int = 1
    sums: list[float] = []
    open_sum: float = 0.0
    open_count: int = 0

    def add(self, value: float) -> None:
        """Add the value of an order."""
        self.count += 1
        self.total += value
        self.open_sum += value
        self.open_count += 1
        if self.open_count == self.batch:
            self.sums.append(self.open_sum)
            self.open_sum, self.open_count = 0.0, 0
            if len(self.sums) == self.most_batches:
                self.sums = [self.sums[k] + self.sums[k + 1] for k in range(0, self.most_batches, 2)]
                self.batch *= 2

    @property
    def mean(self) -> float:
        """Mean of the values; 0 if there are none."""
        return self.total / self.count if self.count else 0.0

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None with fewer than 8 batches."""
        k = len(self.sums)
        if k < 8:
            return None
        means = [one / self.batch for one in self.sums]
        middle = sum(means) / k
        return math.sqrt(sum((one - middle) ** 2 for one in means) / (k - 1) / k)

    def view(self) -> dict[str, Any]:
        """Return the mean and its 95 % confidence interval as plain values."""
        error = self.error
        low = high = None
        if error is not None:
            from scipy.special import stdtrit

            wide = float(stdtrit(len(self.sums) - 1, 0.975)) * error
            low, high = self.mean - wide, self.mean + wide
        return {"orders": self.count, "mean": self.mean if self.count else None, "low": low, "high": high}


class _PlaceTotals(msgspec.Struct, gc=False):
    """Notional value at arrival mids sent to and filled by a venue or pool, and its cost against arrival mids."""

    children: int = 0
    sent: int = 0
    filled: int = 0
    money: int = 0
    fees: int = 0


class _CostTotals(msgspec.Struct):
    """Totals over settled orders in 1e-9 of the currency, each order rounded, since instruments differ in scale.

    Basis points are of the order's value at the arrival mid.
    """

    cost: int = 0
    notional: int = 0
    cost_bps: _BatchMean = msgspec.field(default_factory=_BatchMean)
    saving: int = 0  # against ``dark-first+sweep``; in shadow mode, against the router that trades
    saving_bps: _BatchMean = msgspec.field(default_factory=_BatchMean)
    known_bps: _BatchMean = msgspec.field(default_factory=_BatchMean)  # savings of orders without guessed shares
    guessed: int = 0  # value at the arrival mid of quantities whose counterfactual fill was guessed
    explored: int = 0
    explored_orders: int = 0
    marked: int = 0
    late: int = 0
    places: dict[str, _PlaceTotals] = {}

    def settle(self, outcome: OrderOutcome) -> None:
        """Add a settled order."""
        nanos, mid = outcome.scale.nanos, outcome.mid
        value = (outcome.filled + outcome.left) * mid
        self.cost += nanos(outcome.cost)
        self.notional += nanos(value)
        self.cost_bps.add(1e4 * outcome.cost / value if value else 0.0)
        self.marked += outcome.marked
        self.late += outcome.late
        for child in outcome.children:
            place = self.places.get(child.place)
            if place is None:
                place = self.places[child.place] = _PlaceTotals()
            place.children += 1
            place.sent += nanos(child.sent * mid)
            place.filled += nanos(child.filled * mid)
            place.money += nanos(child.money)
            place.fees += nanos(child.fees)

    def save(self, outcome: OrderOutcome, saving: int, quantity: int, guessed: int) -> None:
        """Add the saving of an order; the fills of ``guessed`` of its ``quantity`` units were guessed."""
        value, nanos = quantity * outcome.mid, outcome.scale.nanos
        self.saving += nanos(saving)
        self.saving_bps.add(1e4 * saving / value if value else 0.0)
        self.guessed += nanos(guessed * outcome.mid)
        if not guessed:
            self.known_bps.add(1e4 * saving / value if value else 0.0)

    def view(self) -> dict[str, Any]:
        """Return the totals in the currency and in basis points."""
        return {
            "cost": natural_amount(self.cost),
            "notional": natural_amount(self.notional),
            "cost_bps": self.cost_bps.view(),
            "saving": natural_amount(self.saving),
            "saving_bps": self.saving_bps.view(),
            "known_saving_bps": self.known_bps.view(),
            "guessed": natural_amount(self.guessed),
            "explored": natural_amount(self.explored),
            "explored_orders": self.explored_orders,
            "marked": self.marked,
            "late": self.late,
            "places": {
                name: {
                    "children": one.children,
                    "sent": natural_amount(one.sent),
                    "filled": natural_amount(one.filled),
                    "cost": natural_amount(one.money + one.fees),
                    "fees": natural_amount(one.fees),
                }
                for name, one in self.places.items()
            },
        }


STATE_VERSION = 5  # version of encoded states; other versions are refused
DAY = 86_400 * 10**9  # nanoseconds; daily limits count from midnight UTC


class ExecutionState(msgspec.Struct, array_like=True, gc=False):
    """A fill, bust or correction; ``counts`` is False if a bust or correction has replaced it.

    ``charged`` are currency and amount of a fee that was not charged in the quote currency.
    """

    child: str
    kind: str
    quantity: int
    price: int
    fee: int
    reference: str
    at: int
    counts: bool = True
    charged: tuple[str, Decimal] | None = None


class ChildState(msgspec.Struct, array_like=True, gc=False):
    """A child order and its progress; ``value`` and ``fees`` are amounts.

    ``status`` is intended, sent, acknowledged, partly_filled, unknown or done; ``reason`` is why the child ended.
    ``final`` is the cumulative quantity in the venue's last report, and -1 before this report. ``losses`` counts sends
    that never arrived.
    """

    order: ChildOrder
    status: str = "intended"
    reason: str = ""
    filled: int = 0
    value: int = 0
    fees: int = 0
    final: int = -1
    final_at: int = 0
    sends: int = 0
    sent_at: int = 0
    last_fill: int = 0
    done_at: int = 0
    cancelling: bool = False
    executions: list[str] = []
    reports: list[str] = []
    losses: int = 0

    @property
    def done(self) -> bool:
        """Whether the child has ended, or was withheld, and all its fills are booked."""
        return self.status == "done"


class ParentState(msgspec.Struct, array_like=True, gc=False):
    """An order and its progress.

    ``mid`` is the amount of one unit at the arrival mid. ``outcome`` is kept until it is in the log.
    """

    order: ParentOrder
    decision: OrderDecision
    mid: int
    digest: bytes = b""
    children: list[str] = []
    filled: int = 0
    held: int = 0
    open: int = 0
    closing: bool = False
    closing_sweeps: int = 0
    marked: int = 0
    settled: bool = False
    recorded: bool = False
    busted: bool = False
    corrections: int = 0
    settled_day: int = 0
    outcome: OrderOutcome | None = None

    @property
    def free(self) -> int:
        """Shares that are neither filled nor held by a child."""
        return self.order.quantity - self.filled - self.held


class PositionState(msgspec.Struct, gc=False):
    """Net position in a symbol: shares in units, and amounts of cash without fees and of fees paid.

    ``charged`` are fees by currency that were not charged in the quote currency; ``converted`` is their part of
    ``fees``. A fee in the coin that was bought reduces what is held.
    """

    shares: int = 0
    cash: int = 0
    fees: int = 0
    terms: str = ""
    charged: dict[str, Decimal] = {}
    converted: int = 0


class VenueState(msgspec.Struct, gc=False):
    """Open children at a venue, its rejects of the day and in a row, and the positions traded there.

    ``offsets`` are balances less these positions at the last reconciliation that changed them. ``difference`` is the
    latest unexpected change, at the time ``differed_at``.
    """

    open: int = 0
    rejects: int = 0
    rejects_in_a_row: int = 0
    positions: dict[str, PositionState] = {}
    offsets: dict[str, Decimal] = {}
    difference: str = ""
    differed_at: int = 0


class SymbolState(msgspec.Struct, gc=False):
    """Units and notional amount of unsettled orders in a symbol, and the terms of its newest order."""

    quantity: int = 0
    notional: int = 0
    terms: str = ""


class TradingDayState(msgspec.Struct, gc=False):
    """Orders, notional, rejects and costs of a day; money in 1e-9 of the currency."""

    day: int = 0
    orders: int = 0
    notional: int = 0
    rejects: int = 0
    loss: int = 0


class TradingState(msgspec.Struct):
    """The state that events change; it is kept small, because snapshots are encoded between two events.

    Settled orders are in ``recent`` until they move to the archive (`riskroute.live.state.archive`); ``archived`` is
    the number of those moves. ``replaced`` maps busted or corrected fills to the reports that replaced them.
    ``currency`` is the currency of all amounts, empty before the first order. ``down`` maps places that cannot be used
    to the reasons.
    """

    version: int = STATE_VERSION
    events: int = 0
    now: int = 0
    parents: dict[str, ParentState] = {}
    recent: dict[str, None] = {}
    children: dict[str, ChildState] = {}
    executions: dict[str, ExecutionState] = {}
    reports: dict[str, None] = {}
    replaced: dict[str, str] = {}
    unsettled: dict[str, None] = {}
    unknown: dict[str, None] = {}
    waiting: dict[str, None] = {}
    positions: dict[str, PositionState] = {}
    venues: dict[str, VenueState] = {}
    symbols: dict[str, SymbolState] = {}
    day: TradingDayState = msgspec.field(default_factory=TradingDayState)
    halted: str = ""
    halted_by: str = ""
    decisions: int = 0
    declined: int = 0
    settled: int = 0
    archived: int = 0
    belief: int = -1
    currency: str = ""
    duplicates: int = 0
    corrections: int = 0
    orphans: int = 0
    overfilled: int = 0
    down: dict[str, str] = {}
    totals: _CostTotals = msgspec.field(default_factory=_CostTotals)


class _StateVersion(msgspec.Struct):
    version: int


def encode_trading_state(state: TradingState) -> bytes:
    """Encode a state; equal states have equal bytes."""
    return encode_record(state)


def decode_trading_state(body: bytes) -> TradingState:
    """Decode a state encoded by `encode_trading_state`; raise `DataError` if it is damaged or of another version."""
    try:
        # decode the version first: a state of another version need not have the fields of this one
        version = decode_record(body, _StateVersion).version
        if version != STATE_VERSION:
            raise DataError(f"a state must have version {STATE_VERSION}, had {version}")
        return decode_record(body, TradingState)
    except msgspec.MsgspecError as error:
        raise DataError(f"the encoded state is damaged: {one_line_text(error)}") from None
