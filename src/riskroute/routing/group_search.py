"""Exact minimum of costs per slot plus a cost of the totals of one or two groups of slots.

Choose whole units ``v_k >= 0`` for every slot so that ``sum_k tables[k, v_k] + joint[n_0, n_1]`` is smallest, where
``n_g`` are the units of the slots of group ``g`` and ``n_0 + n_1 <= U``. Tables may have any shape: nothing here needs
convexity. The best of each group for every total is an infimal convolution of its tables, done slot by slot; then all
pairs of totals are tried, and the choices are traced back. That takes of the order of ``m U^2`` additions.

What depends on totals alone belongs in ``joint``: a risk that all slots of a group share, and the cost of the
``U - n`` units that no slot takes.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from riskroute.core.arrays import Floats, Integers, Matrix, Units, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import check_array, whole_number
from riskroute.routing.separable import check_separable_size, convolve_compiled

Choices = NDArray[np.int32]
"""``choices[k, n]``: the units of slot ``k`` where it and all slots after it have ``n`` together, ``(m, U+1)``."""


def group_minimum(tables: Matrix, groups: Integers, joint: Floats) -> tuple[float, Units]:
    """Minimise the cost of every slot's units plus the joint cost of the totals of the groups.

    Parameters
    ----------
    tables : Matrix
        ``tables[k, v]`` is the cost of ``v`` units in slot ``k``, ``(m, U+1)``; infinite where that is not allowed.
    groups : Integers
        The group of every slot, 0 or 1, ``(m,)``.
    joint : Floats
        The cost of the totals: ``joint[n_0]``, ``(U+1,)``, for one group, or ``joint[n_0, n_1]``, ``(U+1, U+1)``, for
        two, of which entries with ``n_0 + n_1 > U`` are not looked at; infinite where that is not allowed.

    Returns
    -------
    value : float
        The smallest cost; infinite if nothing is allowed.
    units : Units
        The units of every slot, ``(m,)``: of equally good ones the lexicographically smallest.

    Examples
    --------
    Two units, two slots; a unit costs 1 in the first and 1.5 in the second, each unit in neither costs 2, and what the
    slots have together is charged its square over four.

    >>> tables = np.array([[0.0, 1.0, 2.0], [0.0, 1.5, 3.0]])
    >>> joint = np.array([4.0, 2.0 + 0.25, 0.0 + 1.0])
    >>> value, units = group_minimum(tables, np.array([0, 0]), joint)
    >>> value, units.tolist()
    (3.0, [2, 0])
    >>> value, units = group_minimum(tables, np.array([0, 1]), np.array([[4, 2, 9], [2, 0, 0], [0, 0, 0.0]]))
    >>> value, units.tolist()
    (2.0, [2, 0])
    """
    check_array("tables", tables, np.float64, (None, None))
    slots, width = tables.shape
    _check_tables(tables)
    check_array("groups", groups, np.int64, (slots,))
    two = getattr(joint, "ndim", 1) == 2
    check_array("joint", joint, np.float64, (width, width) if two else (width,))
    if slots and not (groups.min() >= 0 and groups.max() <= two):
        place = int(np.argmax((groups < 0) | (groups > two)))
        raise InputError(f"groups must be {'0 or 1' if two else '0'}, was {groups[place]} at [{place}]")
    _check_costs("joint", joint)
    value, units = group_minimum_compiled(tables, groups, joint if two else joint.reshape(width, 1))
    return value, units


def group_profile(tables: Matrix) -> tuple[Vector, Choices]:
    """Return the smallest cost of every total of one group of slots, ``(U+1,)``, and the choices behind it.

    Parameters
    ----------
    tables : Matrix
        Cost of every number of units in every slot, ``(m, U+1)``; infinite where that is not allowed.

    Returns
    -------
    best : Vector
        Smallest cost of exactly ``n`` units together, for ``n = 0 .. U``; infinite where none is allowed.
    choices : Choices
        For `group_units`, which traces any total back to the units of every slot.

    Examples
    --------
    >>> best, choices = group_profile(np.array([[0.0, 3.0, 4.0], [0.0, 2.0, 7.0]]))
    >>> best.tolist()
    [0.0, 2.0, 4.0]
    >>> group_units(choices, 2).tolist()
    [2, 0]
    """
    check_array("tables", tables, np.float64, (None, None))
    _check_tables(tables)
    best, choices = group_profile_compiled(tables)
    return best, choices


def group_units(choices: Choices, total: int) -> Units:
    """Return the units of every slot that `group_profile` found best for a total that has a finite cost, ``(m,)``."""
    check_array("choices", choices, np.int32, (None, None))
    units: Units = group_units_compiled(choices, whole_number("total", total, minimum=0, maximum=choices.shape[1] - 1))
    return units


def _check_tables(tables: Matrix) -> None:
    slots, width = tables.shape
    if width == 0:
        raise InputError(f"tables must have a column for no units, was of shape {tables.shape}")
    check_separable_size(slots, width - 1)
    _check_costs("tables", tables)


def _check_costs(name: str, costs: Floats) -> None:
    if not _are_costs(costs.ravel()):
        raise InputError(f"{name} must be numbers or positive infinity, was {costs[~(costs > -np.inf)][0]}")


@njit(cache=True)
def _are_costs(costs: Vector) -> bool:
    """Whether all are above minus infinity, which what is not a number is not."""
    above = 0
    for cost in costs:
        above += cost > -np.inf
    return above == len(costs)


@njit(cache=True)
def _profile(tables: Matrix, rows: Integers) -> tuple[Vector, Choices]:
    """Infimal convolution of some rows of the tables, from the last to the first."""
    width = tables.shape[1]
    choices = np.zeros((len(rows), width), dtype=np.int32)
    suffix = np.full(width, -np.inf)  # negative costs, since the convolution maximises
    suffix[0] = 0.0
    gain = np.empty(width)
    for i in range(len(rows) - 1, -1, -1):
        for v in range(width):
            gain[v] = -tables[rows[i], v]
        if i == len(rows) - 1:  # the last slot takes the remainder
            for v in range(width):
                suffix[v], choices[i, v] = gain[v], v
        else:
            suffix, choice = convolve_compiled(gain, suffix, width - 1)
            for v in range(width):
                choices[i, v] = choice[v]
    for v in range(width):
        suffix[v] = -suffix[v] + 0.0  # no negative zero
    return suffix, choices


@njit(cache=True)
def group_profile_compiled(tables: Matrix) -> tuple[Vector, Choices]:
    """`group_profile` for other compiled code."""
    return _profile(tables, np.arange(len(tables)))


@njit(cache=True)
def group_units_compiled(choices: Choices, total: int) -> Units:
    """`group_units` for other compiled code."""
    if total < 0 or total >= choices.shape[1]:
        raise InputError("total must be one of those that the choices are for, was not")
    units = np.zeros(len(choices), dtype=np.int64)
    for k in range(len(choices)):
        units[k] = choices[k, total]
        total -= choices[k, total]
    return units


@njit(cache=True)
def _trace(choices: Choices, rows: Integers, total: int, units: Units) -> None:
    """Write the units of the slots ``rows``, which have ``total`` together."""
    for i in range(len(rows)):
        units[rows[i]] = choices[i, total]
        total -= choices[i, total]


@njit(cache=True)
def _smaller(one: Units, other: Units) -> bool:
    for k in range(len(one)):
        if one[k] != other[k]:
            return bool(one[k] < other[k])
    return False


@njit(cache=True)
def _lowest(best: Vector, other: Vector, joint: Matrix) -> float:
    """Smallest cost of all pairs of totals."""
    width, lowest = len(best), np.inf
    for n in range(width):
        for k in range(min(joint.shape[1], width - n)):
            cost = (best[n] + other[k]) + joint[n, k]
            lowest = min(lowest, cost)
    return lowest


@njit(cache=True)
def group_minimum_compiled(tables: Matrix, groups: Integers, joint: Matrix) -> tuple[float, Units]:
    """`group_minimum` for other compiled code: ``joint`` has two axes, and ``(U+1, 1)`` stands for a single group."""
    slots, width = tables.shape
    if len(groups) != slots or joint.shape[0] != width or not (joint.shape[1] == 1 or joint.shape[1] == width):
        raise InputError("tables, groups and joint must belong to the same slots and units, and did not")
    for k in range(slots):
        if not (groups[k] == 0 or (groups[k] == 1 and joint.shape[1] == width)):
            raise InputError("groups must be 0 or 1, and 0 where joint is of a single group, one was not")
    first, second = np.flatnonzero(groups == 0), np.flatnonzero(groups == 1)
    best, choices = _profile(tables, first)
    other, other_choices = _profile(tables, second)
    lowest = _lowest(best, other, joint)
    units, rival, found = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64), False
    if lowest == np.inf:
        return lowest, units
    for n in range(width):
        for k in range(min(joint.shape[1], width - n)):
            if (best[n] + other[k]) + joint[n, k] == lowest:
                _trace(choices, first, n, rival)
                _trace(other_choices, second, k, rival)
                if not found or _smaller(rival, units):
                    found = True
                    for i in range(slots):
                        units[i] = rival[i]
    return lowest, units
