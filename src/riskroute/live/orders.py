"""Orders from outside: read, and refused with one sentence where they make no sense."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import msgspec

from riskroute.core.errors import InputError, one_line_error, shown
from riskroute.live.state.events import NANO, ParentOrder, VenueQuote, touch_prices

LARGEST_QUANTITY = 10**9
"""Shares of an order, at most, whatever the limits say."""

LARGEST_PRICE = 10**7 * NANO
"""A price above this is taken for one in other units."""

LONGEST_KEY = 200
"""Characters of the key of an order, at most."""

_ORDER: msgspec.json.Decoder[ParentOrder] = msgspec.json.Decoder(ParentOrder)


def read_order(body: bytes) -> ParentOrder:
    """An order from JSON, checked."""
    try:
        order = _ORDER.decode(body)
    except msgspec.MsgspecError as error:
        raise InputError(f"an order must have the fields of ParentOrder: {one_line_error(error)}") from None
    return checked_order(order)


def checked_order(order: ParentOrder) -> ParentOrder:
    """Return an order whose fields make sense, or raise `InputError`; books and limits are looked at later."""
    if not 0 < len(order.key) <= LONGEST_KEY or not order.key.isprintable():
        raise InputError(f"key must be 1 to {LONGEST_KEY} printable characters, was {shown(order.key)}")
    if not 0 < len(order.symbol) <= 32 or not order.symbol.isprintable():
        raise InputError(f"symbol must be 1 to 32 printable characters, was {shown(order.symbol)}")
    for name, value, most in (
        ("quantity", order.quantity, LARGEST_QUANTITY),
        ("lot", order.lot, LARGEST_QUANTITY),
        ("tick", order.tick, LARGEST_PRICE),
        ("deadline", order.deadline, 2**63 - 1),
        ("limit", order.limit, LARGEST_PRICE),
    ):
        if value is not None and not 0 < value <= most:
            raise InputError(f"{name} must be from 1 to {most}, was {value}")
    names = [quote.venue for quote in order.quotes] + [pool.pool for pool in order.pools]
    if not order.quotes or len(set(names)) < len(names):
        raise InputError(f"quotes and pools must be of one or more places, each named once, was {shown(names)}")
    checked_quotes(order.quotes)
    if not all(touch_prices(order.quotes)):
        raise InputError("quotes must show a bid and an ask at some venue, did not")
    return order


def checked_quotes(quotes: tuple[VenueQuote, ...]) -> None:
    """Raise `InputError` for books that cannot be."""
    for quote in quotes:
        for side, sign, levels in (("bids", -1, quote.bids), ("asks", 1, quote.asks)):
            prices = [sign * price for price, _ in levels]
            if len(prices) > 1 and prices != sorted(prices):
                raise InputError(f"{side} of {quote.venue} must be the best price first, was {shown(list(levels))}")
            for price, size in levels:
                if not (0 < price <= LARGEST_PRICE and 0 <= size <= 10**12):
                    raise InputError(f"{side} of {quote.venue} must be prices and sizes, was {(price, size)}")
        bid, ask = touch_prices((quote,))
        if bid and ask and bid >= ask:
            raise InputError(f"bids of {quote.venue} must be below its asks, was {bid} against {ask}")
        if quote.at <= 0:
            raise InputError(f"at of {quote.venue} must be a time since 1970, was {quote.at}")


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
