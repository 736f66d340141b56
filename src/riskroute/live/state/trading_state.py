"""The state of the live router, as it follows from the log, and the effects of events on the outside."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import msgspec

from riskroute.core.errors import DataError, one_line_error
from riskroute.live.state.events import ChildOrder, Decision, Outcome, ParentOrder
from riskroute.live.state.totals import CostTotals

STATE_VERSION = 2  # of encoded states; others are refused
DAY = 86_400 * 10**9  # nanoseconds; daily limits count from midnight UTC


class Execution(msgspec.Struct, array_like=True, gc=False):
    """A fill, bust or correction; it counts unless a later one replaces it."""

    child: str
    kind: str
    quantity: int
    price: int
    fee: int
    reference: str
    at: int
    counts: bool = True


class ChildState(msgspec.Struct, array_like=True, gc=False):
    """A child order and its progress.

    ``status`` is intended, sent, acknowledged, partly_filled, unknown or done; ``reason`` is how it ended. ``final`` is
    the cumulative quantity of the venue's last report, -1 before that.
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

    @property
    def done(self) -> bool:
        """Whether the venue holds no shares of it, and all its fills are booked."""
        return self.status == "done"


class ParentState(msgspec.Struct, array_like=True, gc=False):
    """An order and its progress: ``closing`` after the deadline, ``marked`` with the price of a remainder given up.

    ``outcome`` is kept until it is in the log.
    """

    order: ParentOrder
    decision: Decision
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
    outcome: Outcome | None = None

    @property
    def free(self) -> int:
        """Shares neither filled nor held by a child."""
        return self.order.quantity - self.filled - self.held


class Archived(msgspec.Struct, array_like=True, gc=False):
    """A settled order, packed: its day, its digest, the ids of its children, and the rest as bytes."""

    day: int
    digest: bytes
    children: tuple[str, ...]
    body: bytes


class Position(msgspec.Struct, gc=False):
    """Net position in a symbol: shares, cash without fees, and fees paid."""

    shares: int = 0
    cash: int = 0
    fees: int = 0


class VenueUse(msgspec.Struct, gc=False):
    """Open children of a venue, and its rejects of the day and in a row."""

    open: int = 0
    rejects: int = 0
    rejects_in_a_row: int = 0


class SymbolUse(msgspec.Struct, gc=False):
    """Shares and notional of unsettled orders in a symbol."""

    quantity: int = 0
    notional: int = 0


class DayUse(msgspec.Struct, gc=False):
    """Orders, notional, rejects and costs of a day."""

    day: int = 0
    orders: int = 0
    quantity: int = 0
    notional: int = 0
    rejects: int = 0
    loss: int = 0


class TradingState(msgspec.Struct):
    """Everything that follows from the log.

    Orders that are settled are in ``recent`` until they are packed into ``archive``, with ``owners`` from child to
    order, and ``retired`` two days later. ``replaced`` has what was busted or corrected, and by what.
    """

    version: int = STATE_VERSION
    events: int = 0
    now: int = 0
    parents: dict[str, ParentState] = {}
    recent: dict[str, None] = {}
    archive: dict[str, Archived] = {}
    owners: dict[str, str] = {}
    retired: dict[str, bytes] = {}
    children: dict[str, ChildState] = {}
    executions: dict[str, Execution] = {}
    reports: dict[str, None] = {}
    replaced: dict[str, str] = {}
    unsettled: dict[str, None] = {}
    unknown: dict[str, None] = {}
    waiting: dict[str, None] = {}
    positions: dict[str, Position] = {}
    venues: dict[str, VenueUse] = {}
    symbols: dict[str, SymbolUse] = {}
    day: DayUse = msgspec.field(default_factory=DayUse)
    halted: str = ""
    halted_by: str = ""
    decisions: int = 0
    declined: int = 0
    settled: int = 0
    belief: int = -1
    duplicates: int = 0
    corrections: int = 0
    orphans: int = 0
    overfilled: int = 0
    totals: CostTotals = msgspec.field(default_factory=CostTotals)


class _StateVersion(msgspec.Struct):
    version: int


def encode_state(state: TradingState) -> bytes:
    """Encode a state; equal states have equal bytes."""
    return msgspec.msgpack.encode(state)


def decode_state(body: bytes) -> TradingState:
    """Decode what `encode_state` returned."""
    try:
        # the version alone first: a state of another version need not have the fields of this one
        version = msgspec.msgpack.decode(body, type=_StateVersion).version
        if version != STATE_VERSION:
            raise DataError(f"a state must have version {STATE_VERSION}, had {version}")
        return msgspec.msgpack.decode(body, type=TradingState)
    except msgspec.MsgspecError as error:
        raise DataError(f"a state must be one that encode_state returned: {one_line_error(error)}") from None


class Send(NamedTuple):
    """Send a child to its venue."""

    child: ChildOrder


class Cancel(NamedTuple):
    """Ask a venue to cancel a child."""

    child: ChildOrder


class Query(NamedTuple):
    """Ask a venue for the status of a child."""

    child: ChildOrder


class Next(NamedTuple):
    """Ask for further children: an order has shares that no child holds."""

    parent: str


class Learn(NamedTuple):
    """Learn from a settled order, once. ``order`` still has its books."""

    outcome: Outcome
    order: ParentOrder


class Correct(NamedTuple):
    """A report changed a settled order; it is not learned again."""

    parent: str


class Alert(NamedTuple):
    """An inconsistency: trading must stop."""

    reason: str


Effect = Send | Cancel | Query | Next | Learn | Correct | Alert


# Settled orders are packed into bytes, because a snapshot must be taken between two orders: without packing, encoding
# 40,000 orders takes 0.7 s instead of 0.02 s, and a settled order takes twice the memory. A report that comes late or
# again unpacks its order.

SETTLED_KEPT = 2_000  # newest settled orders that stay unpacked
PACKED_TOGETHER = 100  # packing starts when so many more have settled, since finding the oldest costs as much for one


class _Packed(msgspec.Struct, array_like=True):
    parent: ParentState
    children: list[ChildState]
    executions: dict[str, Execution]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[_Packed] = msgspec.msgpack.Decoder(_Packed)


_PIECE_ORDERS = 1_000  # packed orders encoded at a time: other threads wait meanwhile

_PIECE: msgspec.msgpack.Decoder[dict[str, Archived]] = msgspec.msgpack.Decoder(dict[str, Archived])


def without_archive(state: TradingState) -> tuple[TradingState, dict[str, Archived]]:
    """Split a state into one without packed orders and a copy of those, which never change and can be encoded later."""
    return msgspec.structs.replace(state, archive={}, owners={}), dict(state.archive)


def archive_pieces(archive: dict[str, Archived]) -> list[bytes]:
    """Encode packed orders."""
    orders = iter(archive.items())
    pieces = []
    while piece := dict(islice(orders, _PIECE_ORDERS)):
        pieces.append(_ENCODER.encode(piece))
    return pieces


def restore_archive(state: TradingState, pieces: Iterable[bytes]) -> None:
    """Add the packed orders that `archive_pieces` encoded to a state."""
    for piece in pieces:
        state.archive.update(_PIECE.decode(piece))
    for key, packed in state.archive.items():
        for name in packed.children:
            state.owners[name] = key


def archive_settled(state: TradingState, kept: int) -> None:
    """Pack the oldest settled orders until ``kept`` are left."""
    for key in list(islice(state.recent, max(len(state.recent) - kept, 0))):
        del state.recent[key]
        parent = state.parents.pop(key)
        children = [state.children.pop(name) for name in parent.children]
        executions = {name: state.executions.pop(name) for child in children for name in child.executions}
        for child in children:
            state.owners[child.order.id] = key
            for name in child.reports:
                del state.reports[name]
        body = _ENCODER.encode(_Packed(parent, children, executions))
        state.archive[key] = Archived(parent.settled_day, parent.digest, tuple(parent.children), body)


def unpack_order(state: TradingState, key: str) -> None:
    """Unpack an order."""
    packed = _DECODER.decode(state.archive.pop(key).body)
    state.parents[key] = packed.parent
    state.recent[key] = None
    for child in packed.children:
        state.children[child.order.id] = child
        del state.owners[child.order.id]
        for name in child.reports:
            state.reports[name] = None
    state.executions.update(packed.executions)


def archived_order(state: TradingState, key: str) -> ParentState | None:
    """Return a packed order to look at; None if there is none with this key. The state stays as it is."""
    found = state.archive.get(key)
    return None if found is None else _DECODER.decode(found.body).parent


def archived_state(state: TradingState, key: str) -> TradingState:
    """Return a state that holds a packed order and its children alone, to look at."""
    packed = _DECODER.decode(state.archive[key].body)
    children = {child.order.id: child for child in packed.children}
    return TradingState(now=state.now, parents={key: packed.parent}, children=children)
