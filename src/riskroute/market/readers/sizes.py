"""Sizes that are fractions, as those of coins: they are stored in whole units of a size that is told.

Orders, splits and queues count whole shares everywhere. A share of ours may therefore be 0.0001 of theirs: sizes are
divided by that unit and must then be whole, and prices are multiplied by it, so that shares times price stays money.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import polars

from riskroute.core.validation import real_number

MOST_UNITS = 10**14
"""Units of a size at most: up to here a float64 tells a whole number of units from a fraction of one."""

_ROUNDING = {polars.Float32: 2.0**-21}  # of a quotient, relative; a few times the spacing of floats
_FINE = 2.0**-50
_SHOWN = 1000  # values that are looked at for a unit to offer


def size_unit(field: str, value: Any) -> float:
    """Return ``value`` if it can be a unit of sizes, or raise an error that names it.

    Examples
    --------
    >>> size_unit("unit", 0.0001)
    0.0001
    """
    return float(real_number(field, value, minimum=1e-12, maximum=1e12))


def size_count(name: str, kind: Any, unit: float) -> tuple[polars.Expr, polars.Expr | None]:
    """How many units the sizes of a column are, and which are no whole number of units; None if all must be."""
    size = polars.col(name)
    if unit == 1:
        return size, None if kind.is_integer() else size % 1 != 0
    count = size.cast(polars.Float64) / unit
    near = (count - count.round()).abs() <= _ROUNDING.get(kind, _FINE) * count.abs()
    return count.round(), ~(near & count.is_between(0, MOST_UNITS))


def size_text(unit: float) -> str:
    """A unit as people write it.

    >>> size_text(1e-05), size_text(100.0)
    ('0.00001', '100')
    """
    return f"{Decimal(f'{unit:.15g}'):f}"


def size_rule(unit: float) -> str:
    """What sizes must be, in words."""
    if unit == 1:
        return "sizes whole numbers up to 4294967295"
    return f"sizes whole numbers of units of {size_text(unit)}, up to {MOST_UNITS} units"


def size_fault(sizes: Iterable[Any], unit: float) -> str:
    """Which of some sizes is no whole number of units, and a unit that suits them.

    Examples
    --------
    >>> size_fault([2.0, 0.5, 0.125], 1)
    '0.5; unit = 0.001 counts sizes in such parts'
    >>> size_fault([0.5, 0.125], 0.1)
    '0.125; unit = 0.001 counts sizes in such parts'
    """
    found = [float(size) for size in sizes if size is not None]
    odd = [size for size in found if not _is_whole(size, unit)]
    if not odd:
        return ", ".join(f"{size:.15g}" for size in found)
    whole = [Decimal(repr(size)).normalize() for size in odd[:_SHOWN] if abs(size) < MOST_UNITS and size >= 0]
    exponent = min((int(size.as_tuple().exponent) for size in whole), default=0)
    offer = f"; unit = {Decimal(1).scaleb(exponent):f} counts sizes in such parts" if -12 <= exponent < 0 else ""
    return f"{odd[0]:.15g}{offer}"


def _is_whole(size: float, unit: float) -> bool:
    count = size / unit
    return bool(0 <= count <= MOST_UNITS and abs(count - round(count)) <= _FINE * abs(count))
