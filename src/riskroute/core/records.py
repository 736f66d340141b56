"""Frozen records as plain values for JSON, and back again with every field checked.

A record is a frozen dataclass whose fields are numbers, texts, tuples, dictionaries by text, or records. Plain values
have a list for a tuple and a dictionary, in the order of the fields, for a record.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from riskroute.core.errors import DataError, shown

Record = TypeVar("Record")

_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a text"),
    types.NoneType: ((types.NoneType,), "null"),
}


def record_to_plain(value: Any) -> Any:
    """Convert a record, or any value within one, to plain values.

    Examples
    --------
    >>> @dataclasses.dataclass(frozen=True)
    ... class Fill:
    ...     venue: str
    ...     shares: tuple[int, ...]
    >>> record_to_plain({"first": Fill("XNAS", (3, 4))})
    {'first': {'venue': 'XNAS', 'shares': [3, 4]}}
    """
    if dataclasses.is_dataclass(value):
        return {field.name: record_to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {name: record_to_plain(one) for name, one in value.items()}
    return [record_to_plain(one) for one in value] if isinstance(value, tuple) else value


def record_from_plain(kind: type[Record], value: Any, place: str = "") -> Record:
    """Make a record of plain values; what is missing, unknown or of another kind is named by its place.

    Examples
    --------
    >>> @dataclasses.dataclass(frozen=True)
    ... class Fill:
    ...     venue: str
    ...     shares: tuple[int, ...]
    >>> record_from_plain(Fill, {"venue": "XNAS", "shares": [3, 4]})
    Fill(venue='XNAS', shares=(3, 4))
    >>> record_from_plain(Fill, {"venue": "XNAS", "shares": [3, "many"]})
    Traceback (most recent call last):
    ...
    riskroute.core.errors.DataError: shares.1 must be a whole number, was 'many'
    """
    found: Record = _made(kind, value, place, {})
    return found


def _made(kind: Any, value: Any, place: str, bound: dict[Any, Any]) -> Any:
    """Make a value of one kind, which may be a type variable that ``bound`` knows."""
    kind = bound.get(kind, kind)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        other = next(part for part in parts if part is not types.NoneType)
        return None if value is None else _made(other, value, place, bound)
    if dataclasses.is_dataclass(origin or kind):
        return _record(kind, value, place, bound)
    if origin is tuple:
        _check(value, (list, tuple), "a list", place)
        if parts[-1] is not Ellipsis and len(value) != len(parts):
            raise DataError(f"{place} must have {len(parts)} values, had {len(value)}")
        kinds = [parts[0]] * len(value) if parts[-1] is Ellipsis else parts
        return tuple(
            _made(one, item, _below(place, k), bound) for k, (one, item) in enumerate(zip(kinds, value, strict=True))
        )
    if origin is dict:
        _check(value, (dict,), "an object", place)
        return {name: _made(parts[1], item, _below(place, name), bound) for name, item in value.items()}
    allowed, expected = _KINDS[kind]
    return _check(value, allowed, expected, place)


def _record(kind: Any, value: Any, place: str, bound: dict[Any, Any]) -> Any:
    _check(value, (dict,), "an object", place)
    plain = get_origin(kind) or kind
    variables = getattr(plain, "__parameters__", ())
    own = {name: bound.get(one, one) for name, one in zip(variables, get_args(kind), strict=True)}
    hints = get_type_hints(plain)
    names = [field.name for field in dataclasses.fields(plain)]
    for name in names:
        if name not in value:
            raise DataError(f"{_below(place, name)} must be given, was missing")
    for name in value:
        if name not in names:
            raise DataError(f"{_below(place, name)} must be left out: fields are {', '.join(names)}")
    return plain(**{name: _made(hints[name], value[name], _below(place, name), own) for name in names})


def _below(place: str, name: object) -> str:
    return f"{place}.{name}" if place else f"{name}"


def _check(value: Any, allowed: tuple[type, ...], expected: str, place: str) -> Any:
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise DataError(f"{place or 'the file'} must be {expected}, was {shown(value)}")
    return value
