"""Plain JSON values for what policies remember, and back, without losing a bit."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskroute.core.errors import InputError, described
from riskroute.core.validation import exact_array, instance_of, one_of
from riskroute.learning.belief import Belief
from riskroute.learning.observations import Observations
from riskroute.learning.plan import Plan
from riskroute.learning.tally import Tallies, Tally


def encode_state(value: Any) -> Any:
    """Turn what policies remember into plain JSON values."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.name, "shape": list(value.shape)}
    if isinstance(value, Tally):
        return {"tally": list(dataclasses.astuple(value))}
    if isinstance(value, Tallies | Plan | Belief | Observations):
        fields = {item.name: encode_state(getattr(value, item.name)) for item in dataclasses.fields(value)}
        return {type(value).__name__.lower(): fields}
    if isinstance(value, tuple):
        return {"tuple": [encode_state(item) for item in value]}
    if isinstance(value, list):
        return [encode_state(item) for item in value]
    if isinstance(value, dict):
        return {key: encode_state(item) for key, item in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    return value


def decode_state(value: Any) -> Any:
    """Undo `encode_state`; `InputError` for what `encode_state` cannot have written."""
    if isinstance(value, list):
        return [decode_state(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return _array(value)
    if "tuple" in value:
        return tuple(decode_state(item) for item in instance_of("tuple", value["tuple"], list, "a list"))
    for name, kind in _RECORDS.items():
        if name in value:
            fields, names = value[name], [item.name for item in dataclasses.fields(kind)]
            if kind is Tally and isinstance(fields, list) and len(fields) == len(names):
                fields = dict(zip(names, fields, strict=True))
            if not isinstance(fields, dict) or set(fields) != set(names):
                raise InputError(f"{name} must have {', '.join(names)}, was {described(fields)}")
            return kind(**decode_state(fields))
    return {key: decode_state(item) for key, item in value.items()}


_RECORDS: dict[str, Any] = {kind.__name__.lower(): kind for kind in (Tally, Tallies, Plan, Belief, Observations)}
_TYPES: dict[str, Any] = {"int64": np.int64, "float64": np.float64}


def _array(saved: dict[str, Any]) -> NDArray[Any]:
    """An array from its entries, type and shape."""
    dtype = _TYPES[one_of("dtype of an array", saved.get("dtype"), tuple(_TYPES))]
    shape = instance_of("shape of an array", saved.get("shape"), list, "a list")
    if not shape or not all(type(length) is int and length >= 0 for length in shape):
        raise InputError(f"shape of an array must be whole numbers, was {shape!r}")
    if saved.get("array") == [] and shape[0] == 0 and max(shape) < 2**31:  # an empty list does not tell other lengths
        return np.zeros(shape, dtype=dtype)
    return exact_array("array", saved.get("array"), dtype, tuple(shape))
