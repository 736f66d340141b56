"""Conversion of records to plain JSON values and back, with type checks.

A record is a frozen dataclass or a msgspec struct. Its fields may be numbers, strings, dates, tuples, lists,
dictionaries, NumPy arrays, records, and unions of these. Tuples become lists; dates and decimals become strings. An
array becomes ``{"array": nested lists, "dtype": ..., "shape": ...}``: lists do not give the shape of an empty array.
Floats are restored exactly. NaN and infinities remain floats, which Python's `json` writes and reads.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray

from riskroute.core.errors import DataError, InputError
from riskroute.core.text import shown
from riskroute.core.validation import exact_array

_Kind = TypeVar("_Kind")

# numbers whose range `from_plain` checks
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]


def to_plain(value: Any) -> Any:
    """Convert a record, or a container of records, to plain JSON values."""
    return _tuples_as_lists(msgspec.to_builtins(value, enc_hook=_encode, builtin_types=(Decimal,)))


def from_plain(kind: type[_Kind], value: Any, what: str = "the record") -> _Kind:
    """Return a record of type ``kind`` from plain values; errors name the path and the expected type.

    Fields with a default may be missing; unknown fields raise `DataError`. ``what`` names the whole value in errors.
    """
    try:
        record = msgspec.convert(value, kind, dec_hook=_decode, str_keys=True)
    except msgspec.ValidationError as error:
        raise DataError(_explain(error, value, what)) from None
    _refuse_unknown_fields(record, value, "", what)
    return record


def check_finite_record(value: Any, path: str) -> None:
    """Raise `DataError` for NaN or an infinity in plain values, such as a saved state; ``path`` names ``value``."""
    if isinstance(value, dict):
        for key, item in value.items():
            check_finite_record(item, f"{path}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            check_finite_record(item, f"{path}[{place}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{path} must be a finite number, was {value}")


def _explain(error: msgspec.ValidationError, value: Any, what: str) -> str:
    """Describe an invalid entry of ``value`` on one line: path, expected type, value."""
    text, _, location = str(error).partition(" - at `")
    location = location.strip("`").removeprefix("key` in `")
    path = location.removeprefix("$").removeprefix(".")
    if found := re.fullmatch(r"Object missing required field `(.+)`", text):
        return f"{path}.{found[1]} is missing" if path else f"{found[1]} is missing in {what}"
    if found := re.fullmatch(r"Expected `array` of length (\d+)(?:, got (\d+))?", text):
        return f"{path} must have {found[1]} values" + (f", had {found[2]}" if found[2] else "")
    if found := re.fullmatch(r"Expected `(.+)`, got `(.+)`", text):
        expected = " or ".join(_EXPECTED.get(name, name) for name in found[1].split(" | "))
        return f"{path or what} must be {expected}, was {_value_at(value, path, found[2])}"
    if found := re.fullmatch(r"Expected `(int|float)` ([<>]=?) (.+)", text):
        return f"{path or what} must be {found[2]} {float(found[3]):g}, was {_value_at(value, path, 'number')}"
    if found := re.fullmatch(r"Expected `array` of length ([<>])= (\d+)", text):
        return f"{path or what} must have at {'least' if found[1] == '>' else 'most'} {found[2]} values"
    return f"{path}: {text}" if path else text


# msgspec's names of JSON types
_EXPECTED = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def _value_at(value: Any, path: str, type_name: str) -> str:
    """Return the entry at a path such as ``orders[0].shares`` as text, or its type if the path has an unknown key."""
    for name, index in re.findall(r"(\w+)|\[(\d+|\.\.\.)\]", path):
        if index == "..." or (name and not isinstance(value, Mapping)):
            return f"of type {type_name}"
        value = value[name] if name else value[int(index)]
    return shown(value)


def _tuples_as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples_as_lists(item) for key, item in value.items()}
    if isinstance(value, Decimal):
        return format(value, "f")
    return [_tuples_as_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.name, "shape": list(value.shape)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"cannot serialise {type(value).__name__}")


def _decode(kind: Any, value: Any) -> NDArray[Any]:
    """Return an array of the annotated dtype, or of the dtype in the record if none is annotated."""
    if (get_origin(kind) or kind) is not np.ndarray:
        raise NotImplementedError(f"cannot deserialise {kind}")
    if not isinstance(value, dict) or value.keys() != {"array", "dtype", "shape"}:
        raise InputError(f"an array must have the fields array, dtype and shape, was {shown(value)}")
    annotated = get_args(get_args(kind)[1])[0] if get_args(kind) else Any
    types = {name: getattr(np, name) for name in ("int64", "float64")} | {"bool": np.bool_}
    dtype = types.get(value["dtype"]) if isinstance(value["dtype"], str) else None
    if dtype is None or annotated not in (Any, dtype):
        expected = ", ".join(types) if annotated is Any else annotated.__name__
        raise InputError(f"dtype of an array must be {expected}, was {shown(value['dtype'])}")
    shape = value["shape"]
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**31 for n in shape):
        raise InputError(f"shape of an array must be non-negative integers, was {shown(shape)}")
    if 0 in shape:
        return np.zeros(shape, dtype=dtype)
    if dtype is np.bool_:
        flags = np.asarray(value["array"])
        if flags.dtype != np.bool_ or list(flags.shape) != shape:
            raise InputError(f"array must be booleans of shape {shape}, was {shown(value['array'])}")
        return flags
    return exact_array("array", value["array"], dtype, tuple(shape))


def _refuse_unknown_fields(record: Any, plain: Any, path: str, what: str) -> None:
    """Raise `DataError` for unknown keys, which msgspec ignores in dataclasses."""
    if dataclasses.is_dataclass(record):
        names = [field.name for field in dataclasses.fields(record)]
        for name, item in plain.items():
            if name not in names:
                raise DataError(f"unknown field {name!r} in {path or what}; fields are {', '.join(names)}")
            _refuse_unknown_fields(getattr(record, name), item, f"{path}.{name}" if path else name, what)
    elif isinstance(record, dict):
        for (key, item), part in zip(record.items(), plain.values(), strict=True):
            _refuse_unknown_fields(item, part, f"{path}[{key!r}]", what)
    elif isinstance(record, list | tuple):
        for place, (item, part) in enumerate(zip(record, plain, strict=True)):
            _refuse_unknown_fields(item, part, f"{path}[{place}]", what)


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Base class of msgspec records, which the garbage collector skips because they have no reference cycles."""


def encode_record(value: Any) -> bytes:
    """Encode records as msgpack, or as JSON if a number exceeds 64 bits, which msgpack cannot hold.

    Examples
    --------
    >>> encode_record([2**64]), decode_record(encode_record([2**64]), list[int])
    (b'[18446744073709551616]', [18446744073709551616])
    """
    try:
        return msgspec.msgpack.encode(value)
    except OverflowError:
        return msgspec.json.encode(value)


def decode_record(body: bytes, kind: type[_Kind]) -> _Kind:
    """Decode what `encode_record` encoded; raise `msgspec.MsgspecError` if that fails."""
    msgpack, json = _decoders(kind)  # type: ignore[arg-type]  # types are hashable
    # in msgpack, these bytes are integers, never records or lists
    found: _Kind = (json if body[:1] in (b"{", b"[") else msgpack).decode(body)
    return found


@lru_cache
def _decoders(kind: Any) -> tuple[msgspec.msgpack.Decoder[Any], msgspec.json.Decoder[Any]]:
    return msgspec.msgpack.Decoder(kind), msgspec.json.Decoder(kind)
