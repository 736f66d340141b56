"""Plain JSON values for what policies remember, and back, without losing a bit."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from riskroute.learning.belief import Belief
from riskroute.learning.evidence import Evidence
from riskroute.learning.plan import Plan
from riskroute.learning.tally import Tallies, Tally


def encode(value: Any) -> Any:
    """Turn what policies remember into plain JSON values."""
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.name, "shape": list(value.shape)}
    if isinstance(value, Tally):
        return {"tally": list(dataclasses.astuple(value))}
    if isinstance(value, Tallies | Plan | Belief | Evidence):
        fields = {item.name: encode(getattr(value, item.name)) for item in dataclasses.fields(value)}
        return {type(value).__name__.lower(): fields}
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    return value


def decode(value: Any) -> Any:
    """Undo `encode`."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"], dtype=value["dtype"]).reshape(value["shape"])
    if "tuple" in value:
        return tuple(decode(item) for item in value["tuple"])
    if "tally" in value:
        return Tally(*value["tally"])
    if "plan" in value:
        return Plan(**decode(value["plan"]))
    if "tallies" in value:
        return Tallies(**decode(value["tallies"]))
    if "belief" in value:
        return Belief(**decode(value["belief"]))
    if "evidence" in value:
        return Evidence(**decode(value["evidence"]))
    return {key: decode(item) for key, item in value.items()}
