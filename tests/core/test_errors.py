"""Checks of user input: what passes comes back in its plain type, what fails names field, value and expectation."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riskroute
from riskroute.core.errors import InputError, RiskrouteError, StateError
from riskroute.core.validation import finite_array, one_of, real_number, whole_number


def message_of(check: Any, *arguments: Any, **limits: Any) -> str:
    """Message of the `InputError` that the check raises."""
    with pytest.raises(InputError) as caught:
        check(*arguments, **limits)
    return str(caught.value)


def test_input_errors_are_value_errors_and_state_errors_are_not() -> None:
    assert issubclass(InputError, RiskrouteError)
    assert issubclass(InputError, ValueError)
    assert issubclass(StateError, RiskrouteError)
    assert not issubclass(StateError, ValueError)


@pytest.mark.parametrize("value", [1, 8, np.int64(8), np.uint8(8), 10**30])
def test_whole_number_returns_a_plain_int(value: Any) -> None:
    number = whole_number("shares", value)
    assert type(number) is int
    assert number == value


@pytest.mark.parametrize(
    "value", [True, False, np.True_, 1.0, np.float64(2.0), math.nan, math.inf, "3", b"3", None, [1], (1,), {}, 1j]
)
def test_whole_number_rejects_what_is_not_an_integer(value: Any) -> None:
    assert message_of(whole_number, "shares", value) == f"shares must be a positive integer, was {value!r}"


@given(value=st.integers(), minimum=st.integers(-5, 5), width=st.integers(0, 10))
@settings(max_examples=50)
def test_whole_number_accepts_exactly_its_range(value: int, minimum: int, width: int) -> None:
    if minimum <= value <= minimum + width:
        assert whole_number("x", value, minimum=minimum, maximum=minimum + width) == value
    else:
        message = message_of(whole_number, "x", value, minimum=minimum, maximum=minimum + width)
        assert f"{value}" in message.replace(",", "")


@pytest.mark.parametrize(
    ("value", "limits", "expected"),
    [
        (0, {}, "shares must be a positive integer, was 0"),
        (-1, {"minimum": 0}, "shares must be a non-negative integer, was -1"),
        (4, {"minimum": 5}, "shares must be an integer of at least 5, was 4"),
        (-9, {"minimum": -8}, "shares must be an integer of at least -8, was -9"),
        (2_000_001, {"maximum": 2_000_000}, "shares must be at most 2,000,000, was 2,000,001"),
    ],
)
def test_whole_number_says_what_it_expected(value: int, limits: dict[str, int], expected: str) -> None:
    assert message_of(whole_number, "shares", value, **limits) == expected


@pytest.mark.parametrize("value", [0, 2, -1.5, np.float64(0.25), np.float32(0.5), np.int64(3)])
def test_real_number_returns_a_plain_float(value: Any) -> None:
    number = real_number("ridge", value)
    assert type(number) is float
    assert number == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "two", "", None, [1.0], {}, 1j, np.array([1.0, 2.0])])
def test_real_number_rejects_what_is_not_one_finite_number(value: Any) -> None:
    assert message_of(real_number, "ridge", value) == f"ridge must be a finite number, was {value!r}"


@pytest.mark.parametrize(
    ("limits", "inside", "outside", "expected"),
    [
        ({"minimum": 0}, 0, -1e-300, "a number of at least 0"),
        ({"maximum": 10}, 10, np.nextafter(10, 11), "a number of at most 10"),
        ({"above": 0}, 5e-324, 0, "a number above 0"),
        ({"below": 1}, np.nextafter(1, 0), 1, "a number below 1"),
        ({"above": 0, "below": 1}, 0.5, 1.0, "a number above 0 and below 1"),
        ({"minimum": 1e-9, "maximum": 10}, 1e-9, 0.9e-9, "a number of at least 1e-09 and of at most 10"),
    ],
)
def test_real_number_limits_are_closed_or_open_as_named(
    limits: dict[str, float], inside: float, outside: float, expected: str
) -> None:
    assert real_number("x", inside, **limits) == inside
    assert message_of(real_number, "x", outside, **limits) == f"x must be {expected}, was {outside!r}"


@pytest.mark.parametrize("limit", ["minimum", "maximum", "above", "below"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_real_number_is_finite_whatever_the_limit(limit: str, value: float) -> None:
    assert f", was {value!r}" in message_of(real_number, "x", value, **{limit: 0.0})


@pytest.mark.parametrize(
    "value",
    [[[1, 2], [3, 4]], ((1.0, 2.0), (3.0, 4.0)), np.array([[1, 2], [3, 4]], order="F"), np.arange(1, 9).reshape(2, 4)],
)
def test_finite_array_is_contiguous_float(value: Any) -> None:
    array = finite_array("features", value, ndim=2)
    assert array.dtype == np.float64
    assert array.flags.c_contiguous
    assert array.tolist() == np.asarray(value).tolist()


def test_finite_array_takes_views_with_any_stride() -> None:
    whole = np.arange(12.0).reshape(3, 4)
    assert finite_array("features", whole[:, ::-2], ndim=2).tolist() == [[3.0, 1.0], [7.0, 5.0], [11.0, 9.0]]


@pytest.mark.parametrize(
    ("value", "ndim", "expected"),
    [
        ([[1.0], [2.0, 3.0]], 2, "x must be rows of numbers of equal length, was ragged or not numeric"),
        (["a", "b"], 1, "x must be a list of numbers, was ragged or not numeric"),
        ({"a": 1}, 1, "x must be a list of numbers, was ragged or not numeric"),
        ([1j], 1, "x must be a list of numbers, was ragged or not numeric"),
        (3.0, 1, "x must be a list of numbers (1 axes), was of shape ()"),
        ([[1.0, 2.0]], 1, "x must be a list of numbers (1 axes), was of shape (1, 2)"),
        ([1.0, 2.0], 2, "x must be rows of numbers of equal length (2 axes), was of shape (2,)"),
        (np.zeros((2, 2, 2)), 2, "x must be rows of numbers of equal length (2 axes), was of shape (2, 2, 2)"),
        ([], 1, "x must not be empty, was of shape (0,)"),
        (np.zeros((0, 3)), 2, "x must not be empty, was of shape (0, 3)"),
        ([[], []], 2, "x must not be empty, was of shape (2, 0)"),
        ([1.0, math.nan], 1, "x must be finite, was nan at [1]"),
        ([[1.0, 2.0], [3.0, -math.inf]], 2, "x must be finite, was -inf at [1, 1]"),
    ],
)
def test_finite_array_says_what_is_wrong(value: Any, ndim: int, expected: str) -> None:
    assert message_of(finite_array, "x", value, ndim=ndim) == expected


@pytest.mark.parametrize("value", [None, [None, 1.0], object(), [[1.0], 2.0], "12", b"12"])
def test_finite_array_rejects_what_holds_no_numbers(value: Any) -> None:
    assert message_of(finite_array, "x", value, ndim=1).startswith("x must be ")


def test_finite_array_holds_the_length_of_the_first_axis() -> None:
    assert len(finite_array("coef", [1, 2, 3], ndim=1, length=3)) == 3
    assert message_of(finite_array, "coef", [1, 2], ndim=1, length=3) == "coef must have 3 entries, had 2"
    assert message_of(finite_array, "rows", [[1, 2]], ndim=2, length=2) == "rows must have 2 entries, had 1"


def test_one_of_returns_the_choice_as_text() -> None:
    chosen = one_of("mode", np.str_("theory"), ("practical", "theory"))
    assert type(chosen) is str
    assert chosen == "theory"


@pytest.mark.parametrize(
    ("value", "hint"),
    [("theorie", " (did you mean theory?)"), ("xyz", ""), ("", ""), ("THEORY", ""), (None, ""), (3, ""), (["a"], "")],
)
def test_one_of_names_the_choices_and_the_nearest(value: Any, hint: str) -> None:
    message = message_of(one_of, "mode", value, ("practical", "theory"))
    assert message == f"mode must be one of practical, theory, was {value!r}{hint}"


def test_one_of_does_not_take_a_part_of_a_choice() -> None:
    with pytest.raises(InputError, match=re.escape("was 'theo'")):
        one_of("mode", "theo", ("practical", "theory"))


def test_only_the_command_line_names_options() -> None:
    """Errors of the library name parameters, which callers from Python know too."""
    package = Path(riskroute.__file__).parent
    for path in package.rglob("*.py"):
        if "cli" not in path.relative_to(package).parts:
            found = re.findall(r"""(?<=[\s"'`(])--[a-z][a-z-]*""", path.read_text())
            assert not found, (path.name, found)
