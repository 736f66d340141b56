"""Checks of user input: each returns the value in its expected type, or raises an `InputError` that names the field.

Call them where input arrives: public constructors and functions, command line, files, HTTP. Other code does not check.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import difflib
import math
import operator
import os
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from riskroute.core.errors import InputError
from riskroute.core.text import decimal_text, described, shown

if TYPE_CHECKING:  # the command line checks names before it loads NumPy
    import numpy as np
    from numpy.typing import NDArray

    from riskroute.core.arrays import Floats

Kind = TypeVar("Kind")

LARGEST = 1e30  # maximum magnitude of rewards, features and coefficients: products of several must be finite
SIDES = ("buy", "sell")
LONGEST_SYMBOL, LONGEST_VENUE = 16, 32  # maximum number of characters: a symbol and a venue must fit into one file name
MARKS = "._-/"  # characters that a name may have besides letters, digits and spaces
LABEL_MARKS = MARKS + "+,:%()="  # characters that a label may have besides letters, digits and spaces


def whole_number(name: str, value: Any, *, minimum: int = 1, maximum: int | None = None) -> int:
    """Return ``value`` as an ``int`` between ``minimum`` and ``maximum``."""
    if type(value) is int and value >= minimum and (maximum is None or value <= maximum):
        return value
    expected = {0: "a non-negative integer", 1: "a positive integer"}.get(minimum, f"an integer of at least {minimum}")
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be {expected}, was {shown(value)}") from None
    if isinstance(value, bool):
        raise InputError(f"{name} must be {expected}, was {shown(value)}")
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
    """Return ``value`` as a finite ``float`` in the closed ``[minimum, maximum]`` and the open ``(above, below)``."""
    number = value if type(value) is float else _as_float(value)
    if not (math.isfinite(number) and minimum <= number <= maximum and above < number < below):
        limits = [
            f"{word} {limit:g}"
            for word, limit in (("of at least", minimum), ("of at most", maximum), ("above", above), ("below", below))
            if math.isfinite(limit)
        ]
        expected = " ".join(["a number", " and ".join(limits)]) if limits else "a finite number"
        raise InputError(f"{name} must be {expected}, was {shown(value)}")
    return number


def valid_magnitude(
    name: str, value: Any, *, largest: float = LARGEST, smallest: float | None = None, **limits: float
) -> float:
    """Return ``value`` as a `real_number` whose magnitude is 0 or between ``smallest`` and ``largest``.

    The default of ``smallest`` is ``1 / largest``.
    """
    number = real_number(name, value, **limits)
    least = 1 / largest if smallest is None else smallest
    if number and not least <= abs(number) <= largest:
        zero = "" if limits.get("above", -1) >= 0 else "0 or "
        expected = f"{zero}between {least:g} and {largest:g}" if least else f"at most {largest:g}"
        raise InputError(f"{name} must be {expected} in magnitude, was {shown(value)}")
    return number


def _as_float(value: Any) -> float:
    import numpy as np

    if isinstance(value, bool | np.bool | str | bytes) or getattr(value, "ndim", 0) > 0:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def finite_array(
    name: str, value: Any, *, ndim: int, length: int | None = None, largest: float | None = None
) -> Floats:
    """Return ``value`` as a non-empty, C-contiguous float array with ``ndim`` axes and finite entries.

    ``length`` is the required length of the first axis, ``largest`` the largest valid magnitude of an entry; default:
    no limit.
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
    if largest is not None and (array.max() > largest or array.min() < -largest):
        where = tuple(int(i) for i in np.argwhere(np.abs(array) > largest)[0])
        raise InputError(f"{name} must be at most {largest:g} in magnitude, was {array[where]:g} at {list(where)}")
    return array


def exact_array(name: str, value: Any, dtype: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return ``value`` as an array of ``dtype`` (int64 or float64) and ``shape``, in which None matches any length.

    An array of this dtype and shape is returned unchanged. Signed integers are converted to int64, numbers to float64.
    """
    import numpy as np

    if type(value) is np.ndarray and value.dtype == dtype and _fits(value.shape, shape):
        return value
    try:
        given = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        given = np.asarray(None)
    right_shape = _fits(given.shape, shape)
    if right_shape and given.dtype == dtype:
        return given
    words = "numbers" if dtype == np.float64 else "integers"
    if given.dtype.kind not in "iuf":
        raise InputError(f"{name} must be an array of {words}, was {described(value)}")
    if not right_shape:
        sizes = ", ".join("any" if n is None else str(n) for n in shape) + "," * (len(shape) == 1)
        raise InputError(f"{name} must have shape ({sizes}), was {given.shape}")
    if given.size and given.dtype.kind not in ("iuf" if dtype == np.float64 else "i"):
        raise InputError(f"{name} must be {words}, was {given.dtype}")
    return given.astype(dtype)


def _fits(found: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    if found == shape:
        return True
    if len(found) != len(shape):
        return False
    for length, wanted in zip(found, shape, strict=True):  # noqa: SIM110 - a hot path, and all() is slower
        if wanted is not None and length != wanted:
            return False
    return True


def true_or_false(name: str, value: Any) -> bool:
    """Return ``value`` if it is a boolean."""
    if value is True or value is False:
        return value
    import numpy as np

    if not isinstance(value, np.bool):
        raise InputError(f"{name} must be True or False, was {described(value)}")
    return bool(value)


def instance_of(name: str, value: Kind, kind: type[Any] | tuple[type[Any], ...], expected: str) -> Kind:
    """Return ``value`` if it is an instance of ``kind``; the error describes ``kind`` as ``expected``."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be {expected}, was {'None' if value is None else type(value).__name__}")
    return value


def valid_list(name: str, value: Iterable[Kind], kind: type[Any] | tuple[type[Any], ...], expected: str) -> list[Kind]:
    """Return the items of an iterable as a list; all must be instances of ``kind``, which errors call ``expected``."""
    listed = isinstance(value, Iterable) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) > 0
    if not listed:
        raise InputError(f"{name} must be a list of {expected}, was {described(value)}")
    items = list(value)
    for place, item in enumerate(items):
        if not isinstance(item, kind):
            raise InputError(f"{name} must be a list of {expected}, was {described(item)} at [{place}]")
    return items


def valid_day(name: str, value: Any) -> dt.date:
    """Return ``value`` if it is a date without a time."""
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        raise InputError(f"{name} must be a day, was {described(value)}")
    return value


def valid_function(name: str, value: Any) -> Any:
    """Return ``value`` if it is callable."""
    if not callable(value):
        raise InputError(f"{name} must be a function, was {type(value).__name__}")
    return value


def valid_path(name: str, value: Any) -> Path:
    """Return a string or path-like ``value`` as a `Path`."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"{name} must be a path, was {described(value)}")
    return Path(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``; the error suggests the closest one."""
    if isinstance(value, str) and value in choices:
        return str(value)
    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise InputError(f"{name} must be one of {', '.join(choices)}, was {shown(value)}{hint}")


def valid_name_rule(longest: int = 64, marks: str = MARKS) -> str:
    """Return a description of the names that `is_valid_name` accepts, for errors."""
    begins = "begins with a letter or digit and does not end with a space"
    return f"a name of up to {longest} letters, digits, spaces or {marks} that {begins}"


def is_valid_name(value: Any, *, longest: int = 64, marks: str = MARKS) -> bool:
    """Return whether a value is a valid name of a venue, pool, symbol or policy; letters of any script are valid.

    A name has at most ``longest`` characters: letters, digits, spaces and ``marks``. It begins with a letter or digit
    and does not end with a space, since pages, tables and file names contain it.
    """
    if not isinstance(value, str) or not 0 < len(value) <= longest or value != value.rstrip():
        return False
    plain = [letter.isalpha() or letter.isdecimal() for letter in value]
    return plain[0] and all(ok or letter == " " or letter in marks for ok, letter in zip(plain, value, strict=True))


def as_name(field: str, value: Any, *, longest: int = 64, marks: str = MARKS) -> str:
    """Return ``value`` if it is a valid name by `is_valid_name`; the error names ``field``."""
    if not is_valid_name(value, longest=longest, marks=marks):
        raise InputError(f"{field} must be {valid_name_rule(longest, marks)}, was {shown(value)}")
    return str(value)


def if_given(check: Callable[..., Any], name: str, value: Any, *expected: Any, **limits: Any) -> None:
    """Check ``value`` with ``check``, such as `whole_number`, unless it is None."""
    if value is not None:
        check(name, value, *expected, **limits)


def parameter(default: Any, check: Callable[..., Any], **limits: Any) -> Any:
    """Declare a dataclass field of a policy or router, with a check of its value.

    ``check``, such as `real_number`, is called with the field's name, its value and ``limits``. None is valid if it is
    the default. A subclass that only changes the default inherits the check.

    Examples
    --------
    >>> @dataclasses.dataclass
    ... class Coin:
    ...     chance: float = parameter(0.5, real_number, minimum=0, maximum=1)
    >>> validated_parameters(Coin())
    {'chance': 0.5}
    >>> validated_parameters(Coin(chance=2))
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: chance must be a number of at least 0 and of at most 1, was 2
    """
    return dataclasses.field(default=default, metadata={"parameter": partial(check, **limits)})


def validated_parameters(owner: Any) -> dict[str, Any]:
    """Check the fields of a dataclass that are declared with `parameter`; return their values by name."""
    checked = {}
    for name, (check, optional) in _declared(type(owner)).items():
        value = getattr(owner, name)
        checked[name] = None if optional and value is None else check(name, value)
    return checked


def _declared(kind: type[Any]) -> dict[str, tuple[Callable[[str, Any], Any], bool]]:
    """Return the check of every parameter, as the nearest base class declares it, and whether None is valid."""
    checks = {
        item.name: item.metadata["parameter"]
        for base in reversed(kind.__mro__)
        if dataclasses.is_dataclass(base)
        for item in dataclasses.fields(base)
        if "parameter" in item.metadata
    }
    defaults = {item.name: item.default for item in dataclasses.fields(kind)}
    return {name: (check, defaults[name] is None) for name, check in checks.items()}


def unvalidated(kind: type[Kind], values: dict[str, Any]) -> Kind:
    """Construct a dataclass from ``values``, which must be valid and name all fields, without running its checks."""
    made = object.__new__(kind)
    made.__dict__.update(values)
    return made


def valid_decimal(name: str, value: Any, *, minimum: Decimal | None = None, maximum: Decimal | None = None) -> Decimal:
    """Return a number, or a string with a number, as an exact decimal; a float is rounded to 15 digits."""
    number = value
    if not isinstance(value, Decimal):
        plain = isinstance(value, int | float | str) and not isinstance(value, bool)
        try:
            text = f"{value:.15g}" if isinstance(value, float) else str(value).strip()
            number = Decimal(text) if plain else Decimal("nan")
        except InvalidOperation:
            number = Decimal("nan")
    limits = [(word, limit) for word, limit in (("at least", minimum), ("at most", maximum)) if limit is not None]
    if not number.is_finite() or (minimum is not None and number < minimum) or (maximum and number > maximum):
        expected = " and ".join(f"{word} {decimal_text(limit)}" for word, limit in limits)
        raise InputError(f"{name} must be {f'a number of {expected}' if expected else 'a number'}, was {shown(value)}")
    return Decimal(number) if number.adjusted() > 15 else Decimal(number).normalize() + 0
