"""Action sets.

Most policies do not need a matrix with the features of every action. They ask their action set for the features of
given actions, the best action under a linear score, a G-optimal design, and the actions near the best. `Actions`
answers from a matrix. Sets too large to list compute the same answers without it, so policies do not depend on the
kind of set.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod

import numpy as np
from numba import njit
from numba.extending import register_jitable

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.seeding import checked_rng, seeding_digest, seeding_hash
from riskroute.core.text import shown
from riskroute.core.validation import LARGEST, exact_array, finite_array, real_number, whole_number
from riskroute.learning.design.g_optimal import Design, g_optimal
from riskroute.learning.tally import ActionBatch


class _HandleIndex:
    """Map from vector handles to matrix rows: binary search over distinct 64-bit hashes of the handles."""

    def __init__(self, handles: ActionBatch, count: int) -> None:
        self.handles = np.ascontiguousarray(exact_array("handles", handles, np.int64, (count, None)))
        for seed in range(8):
            drawn = np.random.default_rng(seed).integers(1, 2**62, self.handles.shape[1], dtype=np.int64)
            self.factors = np.asarray(drawn * 2 + 1)
            with np.errstate(over="ignore"):
                keys = np.asarray((self.handles * self.factors).sum(axis=1))
            self.order = np.argsort(keys, kind="stable")
            self.keys = keys[self.order]
            if (np.diff(self.keys) != 0).all():
                return
        raise InputError("handles must be distinct, some were equal")

    def rows_of(self, actions: ActionBatch) -> Integers:
        """Return the matrix row of each handle; raise `InputError` if a handle is not in the set."""
        rows, missed = self.search(actions)
        if missed:
            raise InputError(f"actions must be members of the action set, {missed} of {len(rows)} were not")
        return rows

    def search(self, actions: ActionBatch) -> tuple[Integers, int]:
        """Return the matrix row of each handle, -1 if the handle is not in the set, and the number of such handles."""
        actions = exact_array("actions", actions, np.int64, (None, self.handles.shape[1]))
        rows: Integers = np.empty(len(actions), dtype=np.int64)
        return rows, _find_rows(self.handles, self.factors, self.keys, self.order, np.ascontiguousarray(actions), rows)


@njit(cache=True)
def _find_rows(
    handles: Integers, factors: Integers, keys: Integers, order: Integers, actions: Integers, rows: Integers
) -> int:
    """Write the matrix row of each handle, -1 if the handle is not in the set; return the number of such handles."""
    count, length = actions.shape
    missed = 0
    for i in range(count):
        key = 0
        for k in range(length):
            key += actions[i, k] * factors[k]
        low, high = 0, len(keys) - 1  # binary search for the first stored key of at least `key`
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < key:
                low = middle + 1
            else:
                high = middle
        rows[i] = order[low] if len(keys) > 0 and _same(handles, order[low], actions, i) else -1
        missed += rows[i] < 0
    return missed


@register_jitable
def _same(first: Integers, i: int, second: Integers, j: int) -> bool:
    for k in range(first.shape[1]):  # noqa: SIM110 - numba compiles no generators
        if first[i, k] != second[j, k]:
            return False
    return True


def distinct_actions(handles: Integers) -> tuple[Integers, Integers]:
    """Return the first position of each distinct handle, and for every handle its index among the distinct handles.

    Handles are numbers ``(n,)`` or vectors ``(n, m)``.
    """
    rows = np.ascontiguousarray(handles if handles.ndim > 1 else handles[:, None])
    first, place = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
    return first[: _first_of_each(rows, first, place)], place


@njit(cache=True)
def _first_of_each(actions: Integers, first: Integers, place: Integers) -> int:
    count, length = actions.shape
    size = 4
    while size < 2 * count:
        size *= 2
    table, known = np.full(size, -1), 0  # open-addressing hash table of distinct rows
    for i in range(count):
        key = 0
        for k in range(length):
            # multiplier of a linear congruential generator: mixes all 64 bits
            key = (key + actions[i, k]) * 6364136223846793005
        spot = (key >> 32) & (size - 1)
        while table[spot] >= 0 and not _same(actions, first[table[spot]], actions, i):
            spot = (spot + 1) & (size - 1)
        if table[spot] < 0:
            table[spot] = known
            first[known] = i
            known += 1
        place[i] = table[spot]
    return known


MOST_DRAWN = 10**8  # largest random sample of actions, which is held in memory
_WHOLE = np.dtype(np.int64)

Action = int | tuple[int, ...]  # handle: a row number or, in sets with vector handles, a tuple of whole numbers


def as_action(row: Integers | np.int64 | int) -> Action:
    """Convert one entry of an action batch to a hashable handle."""
    return int(row) if np.ndim(row) == 0 else tuple(int(x) for x in np.asarray(row))


def as_batch(*actions: Action) -> ActionBatch:
    """Convert handles to an action batch."""
    if not actions:
        return np.zeros(0, dtype=np.int64)
    try:
        batch: Integers = np.array(actions)
    except ValueError:  # vectors of different lengths
        batch = np.zeros(0, dtype=np.int64)
    if batch.dtype != _WHOLE or batch.size == 0 or batch.ndim > 2:
        given = shown(actions[0] if len(actions) == 1 else actions)
        raise InputError(f"an action must be a row number or a vector of whole numbers, was {given}")
    return batch


class ActionSet(ABC):
    """Interface of action sets. Scores are costs: smaller is better.

    Sets that are not listed may return an estimate of `size`, an upper bound as `largest_norm`, about ``count`` actions
    from `top`, and nearly uniform draws from `sample`.

    Attributes
    ----------
    dim : int
        Length of a feature vector.
    coordinates : int
        Number of free coordinates of the features: `dim`, or fewer if the features are functions of fewer numbers (a
        split's features are functions of one number per slot).
    """

    dim: int
    coordinates: int

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of actions."""

    @property
    def single(self) -> bool:
        """Whether the set has exactly one action."""
        return self.size == 1

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the set. A saved state stores it and can be restored only over the same set."""

    @abstractmethod
    def features(self, actions: ActionBatch) -> Floats:
        """Return the feature vectors ``(n, dim)`` of a batch of actions; raise `InputError` for an invalid handle."""

    @abstractmethod
    def largest_norm(self) -> float:
        """Return the largest Euclidean norm of a feature vector."""

    @abstractmethod
    def best(self, coef: Floats) -> Action:
        """Return the action with the smallest ``<coef, features>``; ties go to the first."""

    def best_each(self, coefs: Floats) -> ActionBatch:
        """Return the action with the smallest score for each row of ``coefs`` ``(n, dim)``."""
        return as_batch(*(self.best(coef) for coef in finite_array("coefs", coefs, ndim=2)))

    @abstractmethod
    def design(self, tolerance: float) -> Design:
        """Return a G-optimal design, aiming at a certified ``bound`` of at most ``(1 + tolerance) * rank``."""

    @abstractmethod
    def within(self, coef: Floats, tolerance: float) -> ActionSet:
        """Return the actions whose score is at most the best score plus ``tolerance``."""

    @abstractmethod
    def top(self, coef: Floats, count: int) -> ActionSet:
        """Return the ``count`` actions with the smallest scores; ties go to the first."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, count: int) -> ActionBatch:
        """Draw ``count`` actions uniformly at random, with replacement."""

    @abstractmethod
    def listed(self) -> Actions:
        """Return the same set as `Actions`; raise `InputError` if it is too large to list."""

    def contains(self, actions: ActionBatch) -> Flags:
        """Return for each handle whether it is in the set; default: whether `features` accepts all of them."""
        try:
            return np.ones(len(self.features(actions)), dtype=bool)
        except InputError:
            return np.zeros(len(actions), dtype=bool)

    def action_features(self, action: Action) -> Floats:
        """Return the feature vector ``(dim,)`` of one action."""
        vector: Floats = self.features(as_batch(action))[0]
        return vector


class Actions(ActionSet):
    """A finite action set given as a matrix ``(K, dim)``, one feature vector per row.

    Handles are row numbers of this matrix; a subset keeps the row numbers of the full matrix. For rows taken from a
    larger set, ``handles`` may give their handles in that set, one vector of whole numbers per row.

    Examples
    --------
    >>> actions = Actions([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
    >>> actions.best(np.array([1.0, -1.0]))
    1
    >>> actions.within(np.array([1.0, -1.0]), tolerance=1.0).handles.tolist()
    [1, 2]
    """

    def __init__(
        self,
        features: Floats | list[list[float]],
        *,
        coordinates: int | None = None,
        handles: ActionBatch | None = None,
    ) -> None:
        # copied, since changes by the caller would invalidate cached designs
        self.matrix = np.array(finite_array("features", features, ndim=2, largest=LARGEST))
        _check_small(self.matrix)
        self.dim = self.matrix.shape[1]
        self.coordinates = self.dim if coordinates is None else whole_number("coordinates", coordinates)
        self.members = np.arange(len(self.matrix))
        self._names = None if handles is None else _HandleIndex(handles, len(self.matrix))
        self._designs: dict[float, Design] = {}
        self._digest: str | None = None

    @classmethod
    def scaled(cls, features: Floats | list[list[float]], *, coordinates: int | None = None) -> Actions:
        """Return an action set with all feature vectors divided by the largest norm.

        Examples
        --------
        >>> Actions.scaled([[3.0, 4.0], [1.0, 0.0]]).matrix.tolist()
        [[0.6, 0.8], [0.2, 0.0]]
        """
        matrix = finite_array("features", features, ndim=2)
        size = float(np.abs(matrix).max())
        if size > 0:  # scale to order one first: squares could overflow or underflow
            matrix = matrix / size
            matrix = matrix / np.linalg.norm(matrix, axis=1).max()
        return cls(matrix, coordinates=coordinates)

    def shrunk(self) -> Actions:
        """Return the same actions and handles, with features scaled down to norms of at most one."""
        smaller = self._subset(np.arange(self.size))
        smaller.matrix = self.matrix / max(1.0, self.largest_norm())
        return smaller

    def __repr__(self) -> str:
        return f"Actions({self.size} actions, dim {self.dim})"

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def handles(self) -> ActionBatch:
        """Handles of all members, in the order of `rows`."""
        return self._named(self.members)

    def _named(self, rows: Integers) -> ActionBatch:
        return rows if self._names is None else self._names.handles[rows]

    def rows_of(self, actions: ActionBatch) -> Integers:
        """Return the matrix rows of a batch of handles."""
        if self._names is None:
            plain = type(actions) is np.ndarray and actions.dtype == _WHOLE and actions.ndim == 1
            return actions if plain else exact_array("actions", actions, np.int64, (None,))
        return self._names.rows_of(actions)

    def contains(self, actions: ActionBatch) -> Flags:
        batch = exact_array("actions", actions, np.int64, (None, *self.handles.shape[1:]))
        return np.isin(batch if self._names is None else self._names.search(batch)[0], self.members)

    @property
    def rows(self) -> Floats:
        """Feature vectors of all members, ``(size, dim)``."""
        return self.matrix if self.size == len(self.matrix) else self.matrix[self.members]

    @property
    def fingerprint(self) -> str:
        if self._digest is None:
            names = hashlib.sha256(self.handles.astype("<i8").tobytes()).hexdigest()
            self._digest = seeding_hash([seeding_digest(self.rows), names])
        return f"actions:{self.size}x{self.dim}:{self.coordinates}:{self._digest}"

    def features(self, actions: ActionBatch) -> Floats:
        return self.matrix.take(self.checked_rows(actions), axis=0)

    def checked_rows(self, actions: ActionBatch) -> Integers:
        """Return the matrix rows of a batch of handles; raise `InputError` for handles out of range."""
        rows = self.rows_of(actions)
        if self._names is None and len(rows) and (rows.min() < 0 or rows.max() >= len(self.matrix)):
            raise InputError(f"actions must be row numbers from 0 to {len(self.matrix) - 1}, was {rows.tolist()[:6]}")
        return rows

    def largest_norm(self) -> float:
        return float(np.linalg.norm(self.rows, axis=1).max())

    def scores(self, coef: Floats) -> Floats:
        """Return ``<coef, features>`` of every member, ``(size,)``."""
        with np.errstate(over="ignore", invalid="ignore"):
            # einsum rounds equal rows equally, so they tie; a matrix product may not
            product = np.einsum("ij,j->i", self.rows, finite_array("coef", coef, ndim=1, length=self.dim))
        if not np.isfinite(product).all():
            raise InputError("scores must be finite: features and coefficients are too large to be multiplied")
        return np.asarray(product)

    def best(self, coef: Floats) -> Action:
        return self.action(int(np.argmin(self.scores(coef))))

    def best_each(self, coefs: Floats) -> ActionBatch:
        coefs, rows = finite_array("coefs", coefs, ndim=2), self.rows
        # Rounding of matrix products depends on the processor. Scores within the rounding error of
        # the minimum are recomputed by sums in a fixed order, so the answer is the same everywhere.
        error = 4 * self.dim * np.finfo(float).eps * (np.abs(coefs) @ np.abs(rows).max(axis=0))
        best: Integers = np.zeros(len(coefs), dtype=np.int64)
        step = max(1_000_000 // len(rows), 1)  # scores held in memory at a time
        for start in range(0, len(coefs), step):
            scores = coefs[start : start + step] @ rows.T
            best[start : start + step] = np.argmin(scores, axis=1)
            near = scores <= (scores.min(axis=1) + error[start : start + step])[:, None]
            for i in np.flatnonzero(np.count_nonzero(near, axis=1) > 1):
                tied = np.flatnonzero(near[i])
                best[start + i] = tied[np.argmin(np.cumsum(rows[tied] * coefs[start + i], axis=1)[:, -1])]
        return self._named(self.members[best])

    def action(self, position: int) -> Action:
        """Return the handle of the member at ``position`` in `rows`."""
        position = whole_number("position", position, minimum=0, maximum=self.size - 1)
        return as_action(self._named(self.members[position : position + 1])[0])

    def design(self, tolerance: float) -> Design:
        tolerance = real_number("tolerance", tolerance, minimum=1e-9, maximum=10)
        if tolerance not in self._designs:
            found = self._solved_design(tolerance)
            actions = self._named(self.members[found.actions])
            self._designs[tolerance] = Design(actions, found.weights, found.bound, found.rank)
        return self._designs[tolerance]

    def _solved_design(self, tolerance: float) -> Design:
        return g_optimal(self.rows, tolerance)

    def within(self, coef: Floats, tolerance: float) -> Actions:
        tolerance = real_number("tolerance", tolerance, minimum=0)
        scores = self.scores(coef)
        return self._subset(scores <= scores.min() + tolerance)

    def top(self, coef: Floats, count: int) -> Actions:
        count = whole_number("count", count, maximum=self.size)
        kept = np.argsort(self.scores(coef), kind="stable")[:count]
        return self._subset(np.sort(kept))

    def sample(self, rng: np.random.Generator, count: int) -> ActionBatch:
        count = whole_number("count", count, minimum=0, maximum=MOST_DRAWN)
        return self._named(self.members[checked_rng(rng).integers(self.size, size=count)])

    def listed(self) -> Actions:
        return self

    def _subset(self, kept: Flags | Integers) -> Actions:
        subset = object.__new__(type(self))
        subset.__dict__.update(self.__dict__, members=self.members[kept], _designs={}, _digest=None)
        return subset


def _check_small(features: Floats) -> None:
    """Raise `InputError` for a non-zero column whose coefficient would be too large to estimate."""
    size = np.abs(features).max(axis=0)
    small = np.flatnonzero((size > 0) & (size < 1 / LARGEST))
    if len(small):
        raise InputError(
            f"columns of features must be 0 or have an entry of at least {1 / LARGEST:g} in magnitude, "
            f"had at most {size[small[0]]:g} in column {small[0]}"
        )
