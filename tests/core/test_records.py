from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import DataError, InputError
from riskroute.core.records import from_plain, to_plain

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Pair(Generic[Kind]):
    first: Kind
    second: Kind


class Venue(msgspec.Struct, frozen=True):
    name: str
    fee: float = 0.0


@dataclass(frozen=True)
class Trade:
    venue: Venue
    shares: tuple[int, ...]
    window: tuple[str, int]
    price: float | None = None
    day: dt.date | None = None
    sizes: Pair[int] | None = None
    fees: Mapping[str, float] = field(default_factory=dict)
    levels: dict[int, Pair[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.price is not None and self.price < 0:
            raise InputError(f"price must be at least 0, was {self.price}")


@dataclass(frozen=True, eq=False)
class Arrays:
    points: Floats
    counts: Integers
    flags: Flags


def trade(**changes: Any) -> Trade:
    whole: dict[str, Any] = {
        "price": 10.25,
        "day": dt.date(2024, 3, 1),
        "sizes": Pair(1, 2),
        "fees": MappingProxyType({"a": 0.1}),
    }
    return Trade(Venue("X"), (3, 4), ("a", 1), **whole | {"levels": {7: Pair(0.5, math.inf)}} | changes)


def test_records_survive_json() -> None:
    plain = to_plain(trade())
    assert list(plain) == ["venue", "shares", "window", "price", "day", "sizes", "fees", "levels"]
    assert plain["shares"] == [3, 4]
    assert plain["day"] == "2024-03-01"
    assert from_plain(Trade, json.loads(json.dumps(plain))) == trade(fees={"a": 0.1})


@given(st.lists(st.floats(allow_nan=False), max_size=4))
def test_floats_keep_every_bit(values: list[float]) -> None:
    made = Arrays(np.array([values, values]), np.arange(3), np.array([True, False]))
    back = from_plain(Arrays, json.loads(json.dumps(to_plain(made))))
    for name in ("points", "counts", "flags"):
        found, wanted = getattr(back, name), getattr(made, name)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        assert found.tobytes() == wanted.tobytes()


def test_defaults_may_be_missing() -> None:
    plain = {"venue": {"name": "X"}, "shares": [], "window": ["a", 1]}
    assert from_plain(Trade, plain) == Trade(Venue("X"), (), ("a", 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shares": [1, "many"]}, "shares[1] must be an integer, was 'many'"),
        ({"shares": [1, True]}, "shares[1] must be an integer, was True"),
        ({"shares": 3}, "shares must be a list, was 3"),
        ({"price": "x"}, "price must be a number or null, was 'x'"),
        ({"price": -1}, "price must be at least 0, was -1.0"),
        ({"window": ["a"]}, "window must have 2 values, had 1"),
        ({"sizes": {"first": 1}}, "sizes.second is missing"),
        ({"sizes": {"first": 1, "second": 2, "third": 3}}, "unknown field 'third' in sizes; fields are first, second"),
        ({"levels": {"7": {"first": 1, "second": "b"}}}, "levels[...].second must be a number, was of type str"),
        (
            {"levels": {"7": {"first": 1, "second": 2, "x": 3}}},
            "unknown field 'x' in levels[7]; fields are first, second",
        ),
        ({"colour": "red"}, "unknown field 'colour' in the trade; fields are venue, shares"),
        ({"venue": {}}, "venue.name is missing"),
    ],
)
def test_errors_name_path_value_and_expectation(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        from_plain(Trade, to_plain(trade()) | changes, "the trade")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([1.0], "points: an array must have the fields array, dtype and shape, was [1.0]"),
        ({"array": [1], "dtype": "int64", "shape": [1]}, "points: dtype of an array must be float64, was 'int64'"),
        (
            {"array": [1.0], "dtype": "float64", "shape": [-1]},
            "points: shape of an array must be non-negative integers",
        ),
        ({"array": [1.0], "dtype": "float64", "shape": [2]}, "points: array must have shape (2,), was (1,)"),
        ({"array": ["a"], "dtype": "float64", "shape": [1]}, "points: array must be an array of numbers, was a list"),
    ],
)
def test_damaged_arrays_are_refused(points: Any, message: str) -> None:
    plain = to_plain(Arrays(np.zeros(1), np.arange(1), np.array([True])))
    with pytest.raises(DataError) as caught:
        from_plain(Arrays, plain | {"points": points})
    assert str(caught.value).startswith(message)
    with pytest.raises(DataError, match="flags: array must be booleans of shape"):
        from_plain(Arrays, plain | {"flags": {"array": [1], "dtype": "bool", "shape": [1]}})


def test_missing_fields_and_other_types_are_named_at_the_top() -> None:
    with pytest.raises(DataError, match="name is missing in the venue"):
        from_plain(Venue, {}, "the venue")
    with pytest.raises(DataError, match=r"the venue must be an object, was \[\]"):
        from_plain(Venue, [], "the venue")
    with pytest.raises(NotImplementedError, match="cannot serialise complex"):
        to_plain(1j)
