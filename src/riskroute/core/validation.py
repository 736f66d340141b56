"""Checks of what users give: each returns the value in the type that is wanted, or raises an error that names it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import operator
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from riskroute.core.errors import InputError, described, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from riskroute.core.arrays import Floats


Kind = TypeVar("Kind")

LARGEST = 1e30
"""Rewards, features and coefficients beyond this size are refused: products of several of them must stay finite."""


def whole_number(name: str, value: Any, *, minimum: int = 1, maximum: int | None = None) -> int:
    """Return ``value`` as an ``int`` of at least ``minimum``, or raise `InputError`.

    Examples
    --------
    >>> whole_number("shares", 8)
    8
    >>> whole_number("shares", -3)
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: shares must be a positive integer, was -3
    """
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
    """Return ``value`` as a finite ``float`` in ``[minimum, maximum]`` and in ``(above, below)``.

    Examples
    --------
    >>> real_number("risk_tolerance", -1, minimum=0)
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: risk_tolerance must be a number of at least 0, was -1
    """
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


def sized_number(
    name: str, value: Any, *, largest: float = LARGEST, smallest: float | None = None, **limits: float
) -> float:
    """Return `real_number` of ``value``, which must be 0 or of a size between ``smallest`` and ``largest``.

    The smallest size is one over the largest, unless given.

    Examples
    --------
    >>> sized_number("scale", 1e300, above=0)
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: scale must be between 1e-30 and 1e+30 in size, was 1e+300
    """
    number = real_number(name, value, **limits)
    least = 1 / largest if smallest is None else smallest
    if number and not least <= abs(number) <= largest:
        zero = "" if limits.get("above", -1) >= 0 else "0 or "
        expected = f"{zero}between {least:g} and {largest:g}" if least else f"at most {largest:g}"
        raise InputError(f"{name} must be {expected} in size, was {shown(value)}")
    return number


def _as_float(value: Any) -> float:
    """``value`` as a float, not a number if it is none."""
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
    """Return ``value`` as a C-contiguous float array with ``ndim`` axes, no axis empty, all entries finite.

    With ``largest``, no entry may be larger in size.

    Examples
    --------
    >>> finite_array("features", [[1.0], [2.0, 3.0]], ndim=2)
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: features must be rows of numbers of equal length, was ragged or not numeric
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
        raise InputError(f"{name} must be at most {largest:g} in size, was {array[where]:g} at {list(where)}")
    return array


def exact_array(name: str, value: Any, dtype: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return ``value`` as an array of ``dtype`` (int64 or float64) and ``shape``, in which None stands for any length.

    An array that is one already comes back as it is, after a look at its type and shape alone. Anything else is
    copied, if that loses nothing.

    Examples
    --------
    >>> import numpy as np
    >>> exact_array("counts", [1, 2], np.int64, (2,)).tolist()
    [1, 2]
    >>> exact_array("counts", [1.5, 2.0], np.int64, (2,))
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: counts must be whole numbers, was float64
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
    words = "numbers" if dtype == np.float64 else "whole numbers"
    if given.dtype.kind not in "iuf":
        raise InputError(f"{name} must be an array of {words}, was {described(value)}")
    if not right_shape:
        sizes = ", ".join("any" if n is None else str(n) for n in shape) + "," * (len(shape) == 1)
        raise InputError(f"{name} must have shape ({sizes}), was {given.shape}")
    if given.size and given.dtype.kind not in ("iuf" if dtype == np.float64 else "i"):
        raise InputError(f"{name} must be {words}, was {given.dtype}")
    return given.astype(dtype)


def unchecked(kind: type[Kind], values: dict[str, Any]) -> Kind:
    """Make a dataclass of values that were checked before, all of its fields, without its own checks.

    Examples
    --------
    >>> from riskroute.routers.context import Pool
    >>> unchecked(Pool, {"name": "P", "fee": 0.001, "improvement": 0.0}) == Pool("P", 0.001)
    True
    """
    made = object.__new__(kind)
    made.__dict__.update(values)
    return made


def _fits(found: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    """Whether an array's shape is the one wanted, in which None stands for any length."""
    if found == shape:
        return True
    if len(found) != len(shape):
        return False
    for length, wanted in zip(found, shape, strict=True):  # noqa: SIM110 - checked very often, and all() takes longer
        if wanted is not None and length != wanted:
            return False
    return True


def kernel_array(name: str, value: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return an array of 64-bit real numbers, row after row in memory: what kernels take.

    None in the shape stands for any length. It is ``value`` itself if that is one. An array that lies otherwise in
    memory is copied, and anything else refused.

    Examples
    --------
    >>> import numpy as np
    >>> kernel_array("normals", np.zeros((2, 3)), (3, 3))
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: normals must have shape (3, 3), was (2, 3)
    """
    import numpy as np

    if (
        type(value) is np.ndarray
        and value.dtype == np.float64
        and _fits(value.shape, shape)
        and value.flags.c_contiguous
    ):
        return value
    check_array(name, value, np.float64, shape)
    return np.ascontiguousarray(value)


def check_array(name: str, value: Any, dtype: type[np.generic], shape: tuple[int | None, ...]) -> None:
    """Refuse what is not an array of exactly this type and shape: for compiled code, which would read beyond it.

    Examples
    --------
    >>> import numpy as np
    >>> check_array("noise", np.zeros(3), np.float64, (4,))
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: noise must have shape (4,), was (3,)
    """
    import numpy as np

    if exact_array(name, value, dtype, shape) is not value:
        raise InputError(f"{name} must be an array of type {np.dtype(dtype)}, was {_kind_of(value)}")


def _kind_of(value: Any) -> str:
    return f"{value.dtype}" if hasattr(value, "dtype") else described(value)


def true_or_false(name: str, value: Any) -> bool:
    """Return ``value`` when it is True or False.

    Examples
    --------
    >>> true_or_false("corrected", 1)
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: corrected must be True or False, was 1
    """
    if value is True or value is False:
        return value
    import numpy as np

    if not isinstance(value, np.bool):
        raise InputError(f"{name} must be True or False, was {described(value)}")
    return bool(value)


def instance_of(name: str, value: Kind, kind: type[Any] | tuple[type[Any], ...], expected: str) -> Kind:
    """Return ``value`` when it is of a ``kind``, described as ``expected``.

    Examples
    --------
    >>> instance_of("prior", 3, list, "a list")
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: prior must be a list, was int
    """
    if not isinstance(value, kind):
        raise InputError(f"{name} must be {expected}, was {'None' if value is None else type(value).__name__}")
    return value


def list_of(name: str, value: Iterable[Kind], kind: type[Any] | tuple[type[Any], ...], expected: str) -> list[Kind]:
    """Return the items of any iterable but a text as a list, all of one ``kind``, described as ``expected``.

    Examples
    --------
    >>> list_of("venues", ["XNAS", 3], str, "texts")
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: venues must be a list of texts, was 3 at [1]
    """
    listed = isinstance(value, Iterable) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) > 0
    if not listed:
        raise InputError(f"{name} must be a list of {expected}, was {described(value)}")
    items = list(value)
    for place, item in enumerate(items):
        if not isinstance(item, kind):
            raise InputError(f"{name} must be a list of {expected}, was {described(item)} at [{place}]")
    return items


def day_of(name: str, value: Any) -> dt.date:
    """Return ``value`` when it is a day, not a time of one.

    Examples
    --------
    >>> day_of("date", dt.date(2019, 3, 27))
    datetime.date(2019, 3, 27)
    >>> day_of("date", "2019-03-27")
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: date must be a day, was '2019-03-27'
    """
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        raise InputError(f"{name} must be a day, was {described(value)}")
    return value


def function_of(name: str, value: Any) -> Any:
    """Return ``value`` when it can be called.

    Examples
    --------
    >>> function_of("progress", 3)
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: progress must be a function, was int
    """
    if not callable(value):
        raise InputError(f"{name} must be a function, was {type(value).__name__}")
    return value


def path_of(name: str, value: Any) -> Path:
    """Return ``value``, a text or a path, as a `Path`.

    Examples
    --------
    >>> path_of("out", 3)
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: out must be a path, was 3
    """
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise InputError(f"{name} must be a path, was {described(value)}")
    return Path(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return ``value`` when it is one of ``choices``, or raise with the nearest one named.

    Examples
    --------
    >>> one_of("mode", "practicl", ("practical", "theory"))
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: mode must be one of practical, theory, was 'practicl' (did you mean practical?)
    """
    if isinstance(value, str) and value in choices:
        return str(value)
    import difflib

    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise InputError(f"{name} must be one of {', '.join(choices)}, was {shown(value)}{hint}")


# MERGED: Names of venues, pools, symbols and labels: which are allowed, and how they become parts of file names.
#
# They are checked where they enter, since pages, tables and files show them.
#


MARKS = "._-/"
"""What a name may have besides letters, digits and spaces."""

LABEL_MARKS = MARKS + "+,:%()="
"""The same for labels, which are short descriptions."""

SIDES = ("buy", "sell")
"""The sides of an order."""

LONGEST_NAME, LONGEST_SYMBOL, LONGEST_VENUE = 64, 16, 32
"""Characters at most. Symbols and venues together must fit into the name of a file."""


def name_rule(longest: int = LONGEST_NAME, marks: str = MARKS) -> str:
    """What a name must be, in words."""
    return f"a name of up to {longest} letters, digits, spaces or {marks} that begins with a letter or digit"


def is_name(value: Any, *, longest: int = LONGEST_NAME, marks: str = MARKS) -> bool:
    """Whether a value is a text that `name_rule` allows; letters of any language are letters.

    Examples
    --------
    >>> is_name("Dark 1"), is_name("BRK.B"), is_name("Börse/Süd"), is_name("<!--<script>"), is_name("")
    (True, True, True, False, False)
    """
    if not isinstance(value, str) or not 0 < len(value) <= longest or value != value.rstrip():
        return False
    return _plain(value[0]) and all(_plain(letter) or letter == " " or letter in marks for letter in value)


def _plain(letter: str) -> bool:
    return letter.isalpha() or letter.isdecimal()


def as_name(field: str, value: Any, *, longest: int = LONGEST_NAME, marks: str = MARKS) -> str:
    """Return ``value`` if it is a name, or raise `InputError`.

    Examples
    --------
    >>> as_name("name", "a|b")
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: name must be a name of up to 64 letters, digits, spaces or ._-/ that begins with a
    letter or digit, was 'a|b'
    """
    if not is_name(value, longest=longest, marks=marks):
        raise InputError(f"{field} must be {name_rule(longest, marks)}, was {shown(value)}")
    return str(value)


def in_file_name(text: str) -> str:
    """A text as part of a file name: other characters than letters, digits, dots and hyphens as their codes.

    Different texts stay different, also with an underscore between them.

    Examples
    --------
    >>> in_file_name("BRK.B"), in_file_name("a_b/../c")
    ('BRK.B', 'a%5Fb%2F..%2Fc')
    """
    return "".join(c if _plain(c) or c in ".-" else "".join(f"%{b:02X}" for b in c.encode()) for c in text)


# MERGED: Parameters of policies and routers: what a value must be is declared once, where the parameter is.


def parameter(default: Any, check: Callable[..., Any], **limits: Any) -> Any:
    """Declare a field of a dataclass with the check that its values must pass.

    The check is a function of `riskroute.core.validation`, called with the name, the value and the ``limits``. Where
    the default is None, None is valid too. A subclass that only changes the default keeps the check.

    Examples
    --------
    >>> from riskroute.core.validation import real_number
    >>> @dataclasses.dataclass
    ... class Coin:
    ...     chance: float = parameter(0.5, real_number, minimum=0, maximum=1)
    >>> checked_parameters(Coin())
    {'chance': 0.5}
    >>> checked_parameters(Coin(chance=2))
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: chance must be a number of at least 0 and of at most 1, was 2
    """
    return dataclasses.field(default=default, metadata={"parameter": partial(check, **limits)})


def checked_parameters(owner: Any) -> dict[str, Any]:
    """Return the values of declared parameters as their checks return them, or raise `InputError`."""
    checked = {}
    for name, (check, optional) in _declared(type(owner)).items():
        value = getattr(owner, name)
        checked[name] = None if optional and value is None else check(name, value)
    return checked


def _declared(kind: type[Any]) -> dict[str, tuple[Callable[[str, Any], Any], bool]]:
    """Check of every declared parameter, and whether the parameter may be None; the nearest declaration counts."""
    checks = {
        item.name: item.metadata["parameter"]
        for base in reversed(kind.__mro__)
        if dataclasses.is_dataclass(base)
        for item in dataclasses.fields(base)
        if "parameter" in item.metadata
    }
    defaults = {item.name: item.default for item in dataclasses.fields(kind)}
    return {name: (check, defaults[name] is None) for name, check in checks.items()}
