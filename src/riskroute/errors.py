"""Errors a user can act on, and the checks that raise them.

Every message names the field, the value and what was expected: ``shares must be a positive integer, was -3``.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class RiskrouteError(Exception):
    """Base of every error riskroute raises on purpose."""


class InputError(RiskrouteError, ValueError):
    """A value given by the user cannot be used as it is."""


class DataError(RiskrouteError):
    """Data in a file cannot be used as they are."""


class StateError(RiskrouteError):
    """A call came at the wrong moment, or a saved state does not fit."""


def whole_number(name: str, value: Any, *, minimum: int = 1, maximum: int | None = None) -> int:
    """Return ``value`` as an ``int`` of at least ``minimum``, or raise `InputError`.

    >>> whole_number("shares", 8)
    8
    >>> whole_number("shares", -3)
    Traceback (most recent call last):
    ...
    riskroute.errors.InputError: shares must be a positive integer, was -3
    """
    expected = {0: "a non-negative integer", 1: "a positive integer"}.get(minimum, f"an integer of at least {minimum}")
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be {expected}, was {value!r}") from None
    if isinstance(value, bool):
        raise InputError(f"{name} must be {expected}, was {value!r}")
    if number < minimum:
        raise InputError(f"{name} must be {expected}, was {number}")
    if maximum is not None and number > maximum:
        raise InputError(f"{name} must be at most {maximum:,}, was {number:,}")
    return number


def real_number(
    name: str,
    value: Any,
    *,
    minimum: float = -math.inf,
    maximum: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> float:
    """Return ``value`` as a finite ``float`` in ``[minimum, maximum]`` and in ``(above, below)``.

    >>> real_number("risk_tolerance", -1, minimum=0)
    Traceback (most recent call last):
    ...
    riskroute.errors.InputError: risk_tolerance must be a number of at least 0, was -1
    """
    limits = [
        f"{word} {limit:g}"
        for word, limit in (("of at least", minimum), ("of at most", maximum), ("above", above), ("below", below))
        if math.isfinite(limit)
    ]
    expected = " ".join(["a number", " and ".join(limits)]) if limits else "a finite number"
    import numpy as np

    try:
        number = math.nan if isinstance(value, bool | np.bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and minimum <= number <= maximum and above < number < below):
        raise InputError(f"{name} must be {expected}, was {value!r}")
    return number


def finite_array(name: str, value: Any, *, ndim: int, length: int | None = None) -> NDArray[np.float64]:
    """Return ``value`` as a C-contiguous float array with ``ndim`` axes, no axis empty, all entries finite.

    >>> finite_array("features", [[1.0], [2.0, 3.0]], ndim=2)
    Traceback (most recent call last):
    ...
    riskroute.errors.InputError: features must be rows of numbers of equal length, was ragged or not numeric
    """
    import numpy as np

    shape = {1: "a list of numbers", 2: "rows of numbers of equal length"}[ndim]
    try:
        given = np.asarray(value)
    except (TypeError, ValueError):
        given = np.asarray(None)
    if given.dtype.kind not in "iuf":
        raise InputError(f"{name} must be {shape}, was ragged or not numeric")
    if given.ndim != ndim:
        raise InputError(f"{name} must be {shape} ({ndim} axes), was of shape {given.shape}")
    array = np.ascontiguousarray(given, dtype=np.float64)
    if 0 in array.shape:
        raise InputError(f"{name} must not be empty, was of shape {array.shape}")
    if length is not None and len(array) != length:
        raise InputError(f"{name} must have {length} entries, had {len(array)}")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{name} must be finite, was {array[where]} at {list(where)}")
    return array


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return ``value`` when it is one of ``choices``, or raise with the nearest one named.

    >>> one_of("mode", "practicl", ("practical", "theory"))
    Traceback (most recent call last):
    ...
    riskroute.errors.InputError: mode must be one of practical, theory, was 'practicl' (did you mean practical?)
    """
    if value in choices:
        return str(value)
    import difflib

    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise InputError(f"{name} must be one of {', '.join(choices)}, was {value!r}{hint}")
