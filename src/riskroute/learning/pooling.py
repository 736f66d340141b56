"""Partial pooling: members of a family have common coefficients, from which each may deviate a little.

A member's coefficients are common ones plus its own deviation. With features repeated, once for all and once in the
columns of the member, that is one linear model; a prior on deviations narrower than on what is common lets a member
with few rows follow the others, and one with many rows go its own way.

References
----------
A. Gelman, J. Hill, "Data analysis using regression and multilevel/hierarchical models" (2007), chapter 12,
http://www.stat.columbia.edu/~gelman/arm/
"""

from __future__ import annotations

from typing import Any

import numpy as np

from riskroute.core.arrays import Floats, Integers, Matrix, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import exact_array, finite_array, real_number, whole_number

DEVIATION = 0.25
"""Prior deviation of a member's own coefficients, as a part of that of the common ones."""


def pooled_features(features: Matrix, members: Integers, count: int) -> Matrix:
    """Repeat features in the columns of the member each row belongs to.

    Parameters
    ----------
    features : Matrix
        ``(n, p)``.
    members : Integers
        Member of each row, ``0 .. count - 1``, ``(n,)``; -1 for a row that belongs to no member, but to all alike.
    count : int
        Number of members.

    Returns
    -------
    Matrix
        ``(n, p * (1 + count))``: the common columns, then those of member 0, 1 ..

    Examples
    --------
    >>> pooled_features(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0]), 2).tolist()
    [[1.0, 2.0, 0.0, 0.0, 1.0, 2.0], [3.0, 4.0, 3.0, 4.0, 0.0, 0.0]]
    """
    features = finite_array("features", features, ndim=2)
    members = exact_array("members", members, np.int64, (len(features),))
    count = whole_number("count", count)
    if not (members.min() >= -1 and members.max() < count):
        raise InputError(f"members must be from 0 to {count - 1}, or -1 for none, and were not")
    n, p = features.shape
    pooled = np.zeros((n, 1 + count, p))
    pooled[:, 0] = features
    own = np.flatnonzero(members >= 0)
    pooled[own, 1 + members[own]] = features[own]
    return pooled.reshape(n, -1)


def pooled_prior(center: Any, deviations: Any, count: int, part: float = DEVIATION) -> tuple[Vector, Vector]:
    """Prior means and deviations of common coefficients ``(p,)`` and of the deviations of ``count`` members from them.

    Examples
    --------
    >>> means, deviations = pooled_prior([1.0], [0.4], 2)
    >>> means.tolist(), deviations.tolist()
    ([1.0, 0.0, 0.0], [0.4, 0.1, 0.1])
    """
    means = finite_array("center", center, ndim=1)
    given = finite_array("deviations", deviations, ndim=1, length=len(means))
    count, part = whole_number("count", count), real_number("part", part, above=0)
    return np.concatenate([means, np.zeros(count * len(means))]), np.concatenate([given, np.tile(part * given, count)])


def member_coef(coef: Vector, member: int, count: int) -> Floats:
    """Return the coefficients of one member, common and own together, ``(p,)``.

    Examples
    --------
    >>> member_coef(np.array([1.0, 0.2, -0.3]), 1, 2).tolist()
    [0.7]
    """
    count = whole_number("count", count)
    member = whole_number("member", member, minimum=0, maximum=count - 1)
    parts = finite_array("coef", coef, ndim=1)
    if len(parts) % (1 + count):
        raise InputError(f"coef must have a multiple of {1 + count} entries, had {len(parts)}")
    parts = parts.reshape(1 + count, -1)
    return np.asarray(parts[0] + parts[1 + member])
