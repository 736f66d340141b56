"""Errors for users. Messages name field, expectation and value: ``shares must be a positive integer, was -3``."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class RiskrouteError(Exception):
    """Base class of all errors of riskroute."""


class InputError(RiskrouteError, ValueError):
    """An argument is invalid."""


class DataError(RiskrouteError):
    """Data in a file are invalid."""


class StateError(RiskrouteError):
    """A call is out of order, or a saved state is invalid."""


class InvariantError(RiskrouteError):
    """A result is inconsistent: a bug in riskroute, or in a router or gateway of the user."""


def shown(value: Any) -> str:
    """Return the ``repr`` of a value on one line of at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def described(value: Any) -> str:
    """Describe a value in an error message: plain values by `shown`, others by their type."""
    if value is None or isinstance(value, bool | int | float | str | bytes | Path):
        return shown(value)
    word = type(value).__name__
    return f"{'an' if word[0] in 'aeiouAEIOU' else 'a'} {word}"


def one_line_error(error: BaseException | str, most: int = 200) -> str:
    """Return a library's error message on one line of at most ``most`` characters."""
    return " ".join(str(error).split())[:most]
