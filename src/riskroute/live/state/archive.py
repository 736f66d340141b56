"""The archive of settled orders: orders archived since the last snapshot are in memory, earlier orders in a store.

The state keeps only the newest settled orders. If a report arrives late or twice, its order is restored from the
archive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from riskroute.core.errors import DataError
from riskroute.core.records import decode_record, encode_record
from riskroute.core.text import one_line_text
from riskroute.live.state.orders import order_id
from riskroute.live.state.trading_state import ChildState, ExecutionState, ParentState, TradingState

ARCHIVE_DAYS = 2  # days after which a settled order leaves the archive; the log keeps it


class ArchivedOrder(msgspec.Struct, frozen=True, gc=False):
    """An encoded order, with its number in the order of archiving, its id, and the day (UTC) of its settlement."""

    number: int
    id: str
    day: int
    body: bytes


class _Packed(msgspec.Struct, array_like=True):
    parent: ParentState
    children: list[ChildState]
    executions: dict[str, ExecutionState]
    replaced: dict[str, str]


class OrderArchive:
    """Settled orders of the log ``stream`` that are not in the state.

    ``saved`` looks up, by id, orders that `forget` has removed from memory; default: it finds no order.
    """

    def __init__(self, stream: str = "main", saved: Callable[[str], ArchivedOrder | None] = lambda id: None) -> None:
        self.stream, self._saved = stream, saved
        self.unsaved: dict[str, ArchivedOrder] = {}
        self.unsaved_bytes = 0

    def add(self, order: ArchivedOrder) -> None:
        """Add an order in memory."""
        self.unsaved[order.id] = order
        self.unsaved_bytes += len(order.body)

    def find(self, id: str) -> ArchivedOrder | None:
        """Return the order with this id, even if it has expired; None if the archive does not have it."""
        return self.unsaved.get(id) or self._saved(id)

    def forget(self, orders: Iterable[ArchivedOrder]) -> None:
        """Remove orders from memory, unless they have been archived again in the meantime."""
        for order in orders:
            if self.unsaved.get(order.id) is order:
                del self.unsaved[order.id]
                self.unsaved_bytes -= len(order.body)

    def expire(self, today: int) -> None:
        """Remove the orders from memory that have expired on day ``today``."""
        self.forget([order for order in self.unsaved.values() if order.day <= today - ARCHIVE_DAYS])


def _unpacked(order: ArchivedOrder) -> _Packed:
    try:
        return decode_record(order.body, _Packed)
    except msgspec.MsgspecError as error:
        raise DataError(f"archived order {order.number} is damaged: {one_line_text(error)}") from None


def archived_state(archive: OrderArchive, key: str, state: TradingState) -> TradingState | None:
    """Return a state that has only an archived order and its children; None if the order is unknown or has expired."""
    found = archive.find(order_id(archive.stream, key))
    if found is None or found.day <= state.day.day - ARCHIVE_DAYS:
        return None
    packed = _unpacked(found)
    children = {child.order.id: child for child in packed.children}
    return TradingState(now=state.now, parents={key: packed.parent}, children=children)


def archive_settled(state: TradingState, archive: OrderArchive, kept: int) -> None:
    """Move the oldest settled orders from the state to the archive until ``kept`` are left."""
    for key in list(islice(state.recent, max(len(state.recent) - kept, 0))):
        packed = _removed(state, key)
        state.archived += 1
        body = encode_record(packed)
        archive.add(ArchivedOrder(state.archived, order_id(archive.stream, key), packed.parent.settled_day, body))


def expire_archived(state: TradingState, archive: OrderArchive) -> None:
    """Remove settled orders that have expired on the state's day from the state and from the archive's memory."""
    archive.expire(state.day.day)
    for key in [key for key in state.recent if state.parents[key].settled_day <= state.day.day - ARCHIVE_DAYS]:
        _removed(state, key)


def _removed(state: TradingState, key: str) -> _Packed:
    """Remove a settled order from the state, with its children, executions and reports; return what to archive."""
    del state.recent[key]
    parent = state.parents.pop(key)
    children = [state.children.pop(name) for name in parent.children]
    executions = {name: state.executions.pop(name) for child in children for name in child.executions}
    replaced = {}
    for name, one in executions.items():
        if one.reference and state.replaced.get(one.reference) == name:
            replaced[one.reference] = state.replaced.pop(one.reference)
    for child in children:
        for name in child.reports:
            del state.reports[name]
    return _Packed(parent, children, executions, replaced)


def restore_order(state: TradingState, archive: OrderArchive, id: str) -> None:
    """Move the order with this id from the archive back to the state, unless it is unknown or has expired."""
    found = archive.find(id)
    if found is None or found.day <= state.day.day - ARCHIVE_DAYS:
        return
    packed = _unpacked(found)
    key = packed.parent.order.key
    if key in state.parents:  # the store has a version from before it was restored
        return
    archive.forget([found])
    state.parents[key] = packed.parent
    state.recent[key] = None
    for child in packed.children:
        state.children[child.order.id] = child
        for name in child.reports:
            state.reports[name] = None
    state.executions.update(packed.executions)
    state.replaced.update(packed.replaced)
