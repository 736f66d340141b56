"""Names of orders: what makes two of them the same, and the ids of their children."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import msgspec

from riskroute.live.state.events import ParentOrder

_ENCODER = msgspec.msgpack.Encoder()
_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]  # of ten bits; `b32encode` takes longer


def order_digest(order: ParentOrder) -> bytes:
    """Hash of what the client wants done. What the market was like is not part of it: a retry may bring newer books."""
    wanted = order.symbol, order.side, order.quantity, order.limit, order.deadline, order.lot, order.tick
    return blake2b(_ENCODER.encode(wanted), digest_size=12).digest()


def child_id(stream: str, parent: str, slot: int, attempt: int) -> str:
    """The id of a child: the same after a crash, and of no other child.

    Examples
    --------
    >>> child_id("main", "A-17", 2, 0)
    'QWDU4QQC322WBCGN-2-0'
    """
    return f"{_id_of_parent(stream, parent)}-{slot}-{attempt}"


@lru_cache(4096)
def _id_of_parent(stream: str, parent: str) -> str:
    """What the ids of all children of an order begin with."""
    number = int.from_bytes(blake2b(f"{stream}\x1f{parent}".encode(), digest_size=10).digest())
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(70, -1, -10)])
