"""Errors a user can act on.

Every message names the field, the value and what was expected: ``shares must be a positive integer, was -3``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class RiskrouteError(Exception):
    """Base of every error riskroute raises on purpose."""


class InputError(RiskrouteError, ValueError):
    """A value given by the user cannot be used as it is."""


class DataError(RiskrouteError):
    """Data in a file cannot be used as they are."""


class StateError(RiskrouteError):
    """A call came at the wrong moment, or a saved state does not fit."""


class InvariantError(RiskrouteError):
    """A result contradicts itself: a defect of riskroute, or of a router or gateway that it was given."""


def shown(value: Any) -> str:
    """``value`` as Python writes it, on one line of at most 80 characters.

    Examples
    --------
    >>> shown([1, 2]), shown("x" * 100)
    ('[1, 2]', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...")
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def described(value: Any) -> str:
    """Plain values as they are, everything else by its kind, so that a message stays one line.

    Examples
    --------
    >>> described(3), described(None), described([1, 2])
    ('3', 'None', 'a list')
    """
    if value is None or isinstance(value, bool | int | float | str | bytes | Path):
        return shown(value)
    word = type(value).__name__
    return f"{'an' if word[0] in 'aeiouAEIOU' else 'a'} {word}"


def one_line_error(error: BaseException | str, most: int = 200) -> str:
    r"""What a library said, short and without line breaks.

    Examples
    --------
    >>> one_line_error("no such\nfile")
    'no such file'
    """
    return " ".join(str(error).split())[:most]
