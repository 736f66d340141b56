"""What clients send: JSON read into records."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from riskroute.core.errors import InputError, one_line_error
from riskroute.live.state.events import Record

Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Level = tuple[Int, Int]


class MalformedError(InputError):
    """What a client sent is not JSON, or not of the form that was expected."""


class QuoteIn(Record, frozen=True):
    """The book of a venue: prices (1e-9 dollars) with sizes, the best first, and when it was so (ns since 1970).

    Fees a share are those of the configuration where they are left out.
    """

    venue: str
    at: Int
    bids: tuple[Level, ...] = ()
    asks: tuple[Level, ...] = ()
    taker: Int | None = None
    maker: Int | None = None


class OrderIn(Record, frozen=True):
    """An order. Without quotes, the newest that were sent to ``/quotes`` are used."""

    key: str
    symbol: str
    side: Literal["buy", "sell"]
    quantity: Int
    deadline: Int
    quotes: tuple[QuoteIn, ...] = ()
    limit: Int | None = None
    features: dict[str, float] = msgspec.field(default_factory=dict)


class ChildIn(Record, frozen=True):
    """A child of another router, done with: price a share and fee in all in 1e-9 dollars, times in ns since 1970."""

    kind: Literal["dark", "dark_rest", "limit", "take", "sweep"]
    place: str
    sent: Int
    filled: Int
    price: Int = 0
    fee: Int = 0
    sent_at: Int = 0
    last_fill: Int = 0
    done_at: Int = 0


class ShadowIn(Record, frozen=True):
    """An order that another router has executed, with the books at its arrival, and all its children."""

    order: OrderIn
    arrived: Int
    children: tuple[ChildIn, ...]


class TradeIn(Record, frozen=True):
    """A trade that everybody saw: price in 1e-9 dollars, time in ns since 1970, side of the order that rested."""

    venue: str
    side: Literal["bid", "ask"]
    price: Int
    shares: Int
    at: Int


class QuotesIn(Record, frozen=True):
    """Books of a symbol, and all its trades since the last post with trades: an empty list says there were none."""

    symbol: str
    quotes: tuple[QuoteIn, ...] = ()
    trades: tuple[TradeIn, ...] | None = None


class HaltIn(Record, frozen=True):
    """Why trading stops."""

    reason: str = ""


Kind = TypeVar("Kind")

_VALUES = {
    "side": "buy or sell",
    "order.side": "buy or sell",
    "trades.side": "bid or ask",
    "children.kind": "dark, dark_rest, limit, take or sweep",
}
"""What fields with a few values may be; those of lists without their numbers."""


def _place(field: str) -> str:
    return re.sub(r"\.(\d+|\.\.\.)(?=\.)", "", field)


def read_json(body: bytes, kind: type[Kind], what: str) -> Kind:
    """Read JSON into a record; `MalformedError` says in one sentence why it is none."""
    try:
        decoded = msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise MalformedError(_explained(str(error), what)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"{what} must be JSON, was not: {one_line_error(error)}") from None
    _no_field_twice(body, kind)
    return decoded


@lru_cache
def _quoted(names: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(f'"{name}"'.encode() for name in names)


def _no_field_twice(body: bytes, kind: type[Any]) -> None:
    """Raise `MalformedError` if a field is there twice: who sent it may have meant the other one.

    The body is read once more only if it looks so, since that takes longer than the order itself.
    """
    if b"\\u" not in body and all(body.count(name) < 2 for name in _quoted(kind.__struct_fields__)):
        return

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            again = next(name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1)
            raise MalformedError(f"{one_line_error(again, 60)} must be given once, was given twice")
        return fields

    json.loads(body, object_pairs_hook=once)


def _explained(said: str, what: str) -> str:
    """A sentence of ours for what msgspec says."""
    text, _, path = said.partition(" - at `$")
    field = re.sub(r"\[(\d*|\.\.\.)\]", r".\1", path.strip("`.")).strip(".") or what
    if found := re.fullmatch(r"Expected `(.+)`, got `(.+)`", text):
        return f"{field} must be of type {found[1]}, was {found[2]}"
    if found := re.fullmatch(r"Expected `int` ([<>]=) (-?\d+)", text):
        return f"{field} must be {'at most' if found[1] == '<=' else 'at least'} {found[2]}, was not"
    if found := re.fullmatch(r"Object missing required field `(.+)`(?:.*)", text):
        return f"{found[1]} must be given, was missing" + ("" if field == what else f" in {field}")
    if found := re.fullmatch(r"Object contains unknown field `(.+)`", text):
        return f"{one_line_error(found[1], 60)} must be left out of {field}: it has no such field"
    if found := re.fullmatch(r"Invalid enum value (.+)", text):
        return f"{field} must be {_VALUES.get(_place(field), 'one of its values')}, was {one_line_error(found[1], 60)}"
    if found := re.fullmatch(r"Expected `array` of length (\d+)(, got \d+)?", text):
        return f"{field} must be a list of {found[1]} values, was not"
    return f"{field} is not as expected: {one_line_error(text)}"
