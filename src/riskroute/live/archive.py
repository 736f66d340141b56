"""Settled orders packed away: they are rarely needed again, and a busy day has many.

Nothing is lost: a report that comes late, or again, unpacks its order.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from riskroute.live.book_state import Archived, BookState, ChildState, Execution, ParentState

KEPT = 2_000
"""So many settled orders are kept as they are."""

TOGETHER = 100
"""So many more are waited for, and packed together: to look for the oldest takes as long for many as for one."""


class _Packed(msgspec.Struct, array_like=True):
    parent: ParentState
    children: list[ChildState]
    executions: dict[str, Execution]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[_Packed] = msgspec.msgpack.Decoder(_Packed)


PIECE = 1_000
"""So many packed orders of a snapshot become bytes at a time: other threads wait meanwhile."""

_PIECE: msgspec.msgpack.Decoder[dict[str, Archived]] = msgspec.msgpack.Decoder(dict[str, Archived])


def without_archive(state: BookState) -> tuple[BookState, dict[str, Archived]]:
    """The state without packed orders, and a copy of those: they do not change, and may become bytes later."""
    return msgspec.structs.replace(state, archive={}, owners={}), dict(state.archive)


def archive_pieces(archive: dict[str, Archived]) -> list[bytes]:
    """Packed orders as bytes."""
    orders = iter(archive.items())
    pieces = []
    while piece := dict(islice(orders, PIECE)):
        pieces.append(_ENCODER.encode(piece))
    return pieces


def restore_archive(state: BookState, pieces: Iterable[bytes]) -> None:
    """Undo `archive_pieces`, and find out again whose children they are."""
    for piece in pieces:
        state.archive.update(_PIECE.decode(piece))
    for key, packed in state.archive.items():
        for name in packed.children:
            state.owners[name] = key


def archive_settled(state: BookState, kept: int) -> None:
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


def unpack_order(state: BookState, key: str) -> None:
    """Bring a packed order back."""
    packed = _DECODER.decode(state.archive.pop(key).body)
    state.parents[key] = packed.parent
    state.recent[key] = None
    for child in packed.children:
        state.children[child.order.id] = child
        del state.owners[child.order.id]
        for name in child.reports:
            state.reports[name] = None
    state.executions.update(packed.executions)


def archived_order(state: BookState, key: str) -> ParentState | None:
    """Return a packed order to look at; None if there is none with this key. The state stays as it is."""
    found = state.archive.get(key)
    return None if found is None else _DECODER.decode(found.body).parent


def archived_state(state: BookState, key: str) -> BookState:
    """Return a state that holds a packed order and its children alone, to look at."""
    packed = _DECODER.decode(state.archive[key].body)
    children = {child.order.id: child for child in packed.children}
    return BookState(now=state.now, parents={key: packed.parent}, children=children)
