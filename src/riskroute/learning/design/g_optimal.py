"""G-optimal designs over finite sets of feature vectors, with a certificate.

A design is a distribution ``w`` over actions, with information matrix ``M = sum_i w_i x_i x_i'``. A G-optimal design
minimises the largest leverage ``x' M^-1 x`` over *all* actions. Kiefer and Wolfowitz (1960): the minimum is the rank of
the set, and the same design maximises ``log det M``. One scan over all actions therefore certifies a design, whatever
solver found it: ``bound`` is its largest leverage, and ``bound / rank - 1`` its relative excess over the optimum.

The solver iterates over a working set of actions. It (1) whitens the coordinates; (2) solves on the working set, by
vertex exchange (`vertex_exchange`) and near the optimum by Newton steps (`_newton_polish`); (3) computes the leverages
of all actions; (4) adds actions whose leverage is too large to the working set and returns to (2) until there are none;
(5) if many designs are optimal, chooses a canonical one that does not depend on rounding errors (`canonical`). Its
support has at most ``r (r + 1) / 2`` actions for rank ``r``, by Caratheodory's argument.

Every exchange moves weight from the support point of lowest leverage to the point of highest leverage, by the amount
that maximises ``log det M`` (Boehning 1986). This amount has a closed form, and an exchange costs two rank-one updates.
Exchange slows down near the optimum if the optimal weights are not unique, as on symmetric sets. Newton steps do not:
in coordinates where ``M`` is the identity, each step minimises the distance of ``sum w_i z_i z_i'`` from twice the
identity subject to ``w >= 0`` and ``sum w = 1``. That is a non-negative least-squares problem with sparse solutions,
and a few steps reach an excess of 1e-9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numba import njit

from riskroute.core.arrays import Floats, Integers, Matrix
from riskroute.core.errors import DesignError, InputError
from riskroute.core.validation import exact_array, finite_array, real_number, whole_number
from riskroute.learning.design.canonical import (
    CONTACT,
    canonical_least_norm,
    canonical_products,
    canonical_weights,
    on_canonical_grid,
)
from riskroute.learning.tally import ActionBatch, tally_handles


def _vertex_information(points: Floats, weights: Floats) -> Floats:
    """Return the information matrix ``sum_i weights[i] points[i] points[i]'`` of a design; points ``(n, r)``."""
    product: Floats = (points * weights[:, None]).T @ points
    return product


def vertex_exchange_root(points: Floats, weights: Floats) -> Floats:
    """Return upper triangular ``R`` with ``R R' = M^-1`` for the design ``weights`` on ``points`` of full rank."""
    lower = np.linalg.cholesky(_vertex_information(points, weights))
    return np.asarray(np.linalg.inv(lower).T)


def vertex_exchange(points: Floats, weights: Floats, tolerance: float, max_steps: int) -> Floats:
    """Improve ``weights`` until no leverage exceeds ``(1 + tolerance) r``, in at most ``max_steps`` exchanges.

    ``points`` ``(n, r)`` should be nearly white, for accuracy; the support of ``weights`` ``(n,)`` must span the space.
    """
    columns, weights = np.ascontiguousarray(points.T), weights.copy()
    left, (r, n) = max_steps, columns.shape
    steps = 255  # rank-one updates drift, so inverse and leverages are recomputed after this many steps
    while left > 0:
        (matrix, inverse), levers = np.zeros((2, r, r)), np.zeros(n)
        _information(columns, weights, matrix)
        if not _invert(matrix, inverse):
            raise InputError("points with positive weight must span the space")
        _levers(columns, inverse, levers)
        if exchange_weights(columns, weights, inverse, levers, tolerance, min(steps, left)):
            break
        left, steps = left - steps, 256
    return weights


@njit(cache=True, error_model="numpy")
def _information(columns: Floats, weights: Floats, matrix: Floats) -> None:
    r, n = columns.shape
    for k in range(n):
        if weights[k] > 0:
            for a in range(r):
                for b in range(r):
                    matrix[a, b] += weights[k] * columns[a, k] * columns[b, k]


@njit(cache=True, error_model="numpy")
def _invert(left: Floats, right: Floats) -> bool:
    """Write the inverse of ``left``, which is overwritten, into ``right``; return False if it is singular."""
    # Gauss-Jordan elimination with partial pivoting, unlike LAPACK, gives the same bits on every processor.
    r = len(left)
    for a in range(r):
        right[a, a] = 1.0
    for a in range(r):
        row = a
        for b in range(a + 1, r):
            if abs(left[b, a]) > abs(left[row, a]):
                row = b
        pivot = left[row, a]
        if pivot == 0:
            return False
        for b in range(r):
            left[row, b], left[a, b] = left[a, b], left[row, b] / pivot
            right[row, b], right[a, b] = right[a, b], right[row, b] / pivot
        for c in range(r):
            factor = left[c, a]
            if c != a and factor != 0:
                for b in range(r):
                    left[c, b] -= factor * left[a, b]
                    right[c, b] -= factor * right[a, b]
    return True


@njit(cache=True, error_model="numpy")
def _levers(columns: Floats, inverse: Floats, levers: Floats) -> None:
    r, n = columns.shape
    for k in range(n):
        for a in range(r):
            row = 0.0
            for b in range(r):
                row += inverse[a, b] * columns[b, k]
            levers[k] += row * columns[a, k]


@njit(cache=True, error_model="numpy")
def exchange_weights(
    columns: Floats, weights: Floats, inverse: Floats, levers: Floats, tolerance: float, steps: int
) -> bool:
    """Run up to ``steps`` exchanges in place on points ``(r, n)``; return whether the tolerance was reached."""
    r, n = columns.shape
    for _ in range(steps):
        high, low = 0, -1
        for k in range(n):
            if levers[k] > levers[high]:
                high = k
            if weights[k] > 0 and (low < 0 or levers[k] < levers[low]):
                low = k
        if levers[high] <= r * (1 + tolerance) or high == low:
            return True
        to_high, to_low = np.zeros(r), np.zeros(r)
        for a in range(r):
            x, y = columns[a, high], columns[a, low]
            for b in range(r):
                to_high[b] += inverse[a, b] * x
                to_low[b] += inverse[a, b] * y
        cross = 0.0
        for a in range(r):
            cross += columns[a, low] * to_high[a]
        # the step that maximises log det M
        curvature = levers[high] * levers[low] - cross * cross
        moved = weights[low]
        if curvature > 0:
            moved = min(moved, (levers[high] - levers[low]) / (2 * curvature))
        weights[low] = weights[low] - moved if moved < weights[low] else 0.0
        weights[high] += moved
        gain = moved / (1 + moved * levers[high])
        rest = to_low - gain * cross * to_high  # `to_low` after the move to the high point
        loss = moved / (1 - moved * (levers[low] - gain * cross * cross))
        p, q = np.zeros(n), np.zeros(n)
        for a in range(r):
            x, y = to_high[a], rest[a]
            for b in range(r):
                inverse[a, b] += loss * y * rest[b] - gain * x * to_high[b]
            for k in range(n):
                p[k] += x * columns[a, k]
                q[k] += y * columns[a, k]
        for k in range(n):
            levers[k] += loss * q[k] * q[k] - gain * p[k] * p[k]
    return False


def _newton_polish(points: Floats, weights: Floats, tolerance: float) -> tuple[Floats, bool]:
    """Refine weights by Newton steps; return them and whether all leverages are at most ``(1 + tolerance) r``."""
    rank = points.shape[1]
    for _ in range(_NEWTON_STEPS):
        white = points @ vertex_exchange_root(points, weights)
        levers = np.einsum("ij,ij->i", white, white)
        if levers.max() <= rank * (1 + tolerance):
            return weights, True
        target = _newton_target(white, np.flatnonzero((weights > 0) | (levers > rank)))
        if target is None:
            return weights, False
        step = _line_search(white, target - weights)
        if step == 0:
            return weights, False
        weights = target if step == 1 else weights + step * (target - weights)
        weights = weights / weights.sum()
    return weights, False


def _newton_target(white: Floats, candidates: Integers) -> Floats | None:
    """Return weights on the candidates that maximise the quadratic model of ``log det``; None if the solver fails."""
    rank = white.shape[1]
    anchor = 10.0 * rank  # weight of the row that fixes the sum of the weights at one
    system = np.vstack([canonical_products(white[candidates]).T, np.full(len(candidates), anchor)])
    twice_identity = 2 * canonical_products(np.eye(rank)).sum(axis=0)
    try:
        solution, _ = scipy.optimize.nnls(system, np.append(twice_identity, anchor))
    except RuntimeError:  # did not converge: the caller continues by exchange
        return None
    target = np.zeros(len(white))
    target[candidates] = solution / solution.sum()
    return target


def _line_search(white: Floats, direction: Floats) -> float:
    """Return the first step of 1, 1/2, 1/4, .. that achieves a quarter of the predicted rise of ``log det``, or 0."""
    change = np.linalg.eigvalsh(_vertex_information(white, direction))
    predicted = float(change.sum())
    step = 1.0
    while step > 1e-6:
        growth = 1 + step * change
        if growth.min() > 0 and np.log(growth).sum() >= 0.25 * step * predicted - 1e-12:
            return step
        step /= 2
    return 0.0


_MAX_SCANS = 100
_NEWTON_STEPS = 50  # maximum; a few usually suffice


@dataclass(frozen=True)
class Design:
    """A distribution over actions with a certified bound on all leverages.

    ``actions`` are the handles of the support and ``weights`` ``(n,)`` their weights, summing to one. Every action of
    the set has leverage at most ``bound``; the smallest possible bound is ``rank``.
    """

    actions: ActionBatch
    weights: Floats
    bound: float
    rank: int

    def __post_init__(self) -> None:
        weights = exact_array("weights", self.weights, np.float64, (None,))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "actions", tally_handles(self.actions, len(weights)))
        if not (isinstance(self.bound, float) and self.bound == np.inf):  # infinite if nothing is certified
            object.__setattr__(self, "bound", real_number("bound", self.bound, minimum=0))
        object.__setattr__(self, "rank", whole_number("rank", self.rank, minimum=0))

    @property
    def excess(self) -> float:
        """Relative excess of the bound over the optimum; 0 for an optimal design."""
        return self.bound / self.rank - 1 if self.rank else 0.0

    def __len__(self) -> int:
        return len(self.weights)


def too_wide_for_g_optimal(count: int, dim: int) -> bool:
    """Return whether `g_optimal` would need too much memory for ``count`` points of dimension ``dim``."""
    rank = min(count, dim)
    return rank > 24 and count * rank * (rank + 1) // 2 > 1_000_000  # tables hold every pair of coordinates


def g_optimal(features: Matrix, tolerance: float = 0.01) -> Design:
    """Find a design over the rows of ``features`` ``(K, d)`` with ``bound <= (1 + tolerance) * rank``.

    Rank-deficient sets are handled in coordinates of their span. The handles of the result are row numbers. The bound
    has a relative rounding error of about 1e-16 times the condition number of the features, after scaling columns to
    equal length. `DesignError` is raised if the solver does not reach the tolerance, for example due to this error.

    Examples
    --------
    >>> corners = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> design = g_optimal(corners, tolerance=1e-6)
    >>> design.actions.tolist(), design.weights.round(3).tolist(), design.rank
    ([0, 1], [0.5, 0.5], 2)
    """
    features = finite_array("features", features, ndim=2)
    tolerance = real_number("tolerance", tolerance, minimum=1e-9, maximum=10)
    size = np.abs(features).max(axis=0)
    # squares of such columns could overflow or underflow; leverages do not depend on the units of the columns
    if size.max() > 1e75 or size.min() < 1e-75:
        features = features / np.where(size > 0, size, 1.0)
    to_round = g_optimal_coordinates(features)
    rank = to_round.shape[1]
    if rank == 0:  # all vectors are zero
        return Design(np.zeros(1, dtype=np.int64), np.ones(1), 0.0, 0)
    most = rank * (1 + tolerance) * (1 + 1e-12)
    try:
        # Weights are multiples of ``1 / grid``. The coarse grid's steps are far above the solver's errors, which
        # then rarely change a weight; small tolerances need the fine grid.
        index, weights, bound = _canonical(features, to_round, 2.0**24 if tolerance >= 1e-4 else 2.0**40)
    except (DesignError, np.linalg.LinAlgError):
        bound = np.inf
    if bound > most:  # too ill-conditioned for the canonical design: accept any design within the tolerance
        index, weights = _solve(features, to_round, tolerance)
        index, weights = thin_g_optimal(features[index] @ to_round, weights, index)
        bound = float(_scan(features, to_round, features[index] @ to_round, weights).max())
    if bound > most:
        raise DesignError(f"relative excess of the design was {bound / rank - 1:.3g}, expected at most {tolerance:.3g}")
    return Design(index, weights, bound, rank)


def _canonical(features: Matrix, to_round: Matrix, grid: float) -> tuple[ActionBatch, Floats, float]:
    """Return the rows and weights of the canonical design, and its largest leverage."""
    # the choice among designs needs an accurate information matrix
    index, weights = _solve(features, to_round, 1e-11)
    root = to_round @ vertex_exchange_root(features[index] @ to_round, weights)
    rank = to_round.shape[1]
    touching = np.flatnonzero(design_leverages(features, root) >= rank * (1 - CONTACT))
    white = features[touching] @ root
    even = canonical_least_norm(canonical_products(white), canonical_products(np.eye(rank)).sum(axis=0))
    if even is None:
        raise DesignError(f"design solver found no weights of least norm on {len(touching)} actions")
    index, weights = thin_g_optimal(white, on_canonical_grid(even, grid), touching)
    weights = on_canonical_grid(weights, grid)
    index, weights = index[weights > 0], weights[weights > 0]
    return index, weights, float(_scan(features, to_round, features[index] @ to_round, weights).max())


def g_optimal_coordinates(features: Matrix) -> Matrix:
    """Return ``B`` ``(d, r)`` such that ``features @ B`` is white: ``B' (X'X) B / K`` is the identity.

    Leverages do not depend on the coordinates, but rounding errors do. ``r`` is the numerical rank after each column is
    scaled to length one, so that it does not depend on the units of the features.
    """
    n_actions, dim = features.shape
    size = np.abs(features).max(axis=0)
    used = np.flatnonzero(size > 0)
    if len(used) == 0:
        return np.zeros((dim, 0))
    unit = np.zeros((dim, len(used)))
    unit[used, np.arange(len(used))] = 1 / size[used]
    gram = unit.T @ (features.T @ features) @ unit
    norms = np.sqrt(np.diag(gram))
    values, vectors = np.linalg.eigh(gram / np.outer(norms, norms))
    # if ill-conditioned, the Gram matrix is inaccurate: factor X itself
    if not np.isfinite(values).all() or values[0] < 1e-9 * values[-1]:
        scaled = features[:, used] / size[used]
        norms = np.linalg.norm(scaled, axis=0)
        _, singular, rows = scipy.linalg.svd(scipy.linalg.qr(scaled / norms, mode="r")[0], full_matrices=False)
        kept = singular > singular[0] * max(n_actions, dim) * np.finfo(float).eps
        values, vectors = singular[kept] ** 2, rows[kept].T
    basis: Matrix = unit @ (vectors / norms[:, None]) / np.sqrt(values) * np.sqrt(n_actions)
    return basis


def design_leverages(features: Matrix, inverse_root: Matrix) -> Floats:
    """Return leverages ``x' M^-1 x`` with ``M^-1 = R R'``: squared norms of the rows of ``features @ R``, in chunks."""
    result = np.empty(len(features))
    chunk = 4096  # rows scanned at a time: small enough to stay in cache
    for start in range(0, len(features), chunk):
        rows = features[start : start + chunk] @ inverse_root
        np.einsum("ij,ij->i", rows, rows, out=result[start : start + chunk])
    return result


def _scan(features: Matrix, to_round: Matrix, points: Matrix, weights: Floats) -> Floats:
    """Return the leverages of all rows under the design ``weights`` on whitened ``points``."""
    return design_leverages(features, to_round @ vertex_exchange_root(points, weights))


def _solve(features: Matrix, to_round: Matrix, tolerance: float) -> tuple[ActionBatch, Floats]:
    """Return rows and weights of a design with an excess of at most ``tolerance``, by growing a working set."""
    n_actions, rank = len(features), to_round.shape[1]
    room = max(8 * rank, 200)
    levers = design_leverages(features, to_round)
    working = _largest(levers, room)
    points = features[working] @ to_round
    start = _spanning_start(points)
    if start is None:  # the points of largest leverage do not span the space: add points that do
        spanning = _spanning_rows(features, to_round)
        working = np.union1d(spanning, working)
        points = features[working] @ to_round
        start = np.where(np.isin(working, spanning), 1 / rank, 0.0)
    weights = start
    for _ in range(_MAX_SCANS):
        weights = _solve_small(points, weights, tolerance / 2)
        support = weights > 0
        levers = _scan(features, to_round, points[support], weights[support])
        if levers.max() <= rank * (1 + tolerance):
            return working[support], weights[support] / weights.sum()
        added = _largest(levers, room)
        added = added[levers[added] > rank]
        merged = np.union1d(working[support], added)
        carried = np.zeros(len(merged))
        carried[np.searchsorted(merged, working[support])] = weights[support]
        working, weights = merged, carried
        points = features[working] @ to_round
    raise DesignError(f"design did not reach tolerance {tolerance:.3g} in {_MAX_SCANS} scans of {n_actions} actions")


def _solve_small(points: Matrix, weights: Floats, tolerance: float) -> Floats:
    """Solve on a working set to an excess of ``tolerance``: vertex exchange first, Newton steps near the optimum."""
    coarse, most = 0.02, 200_000  # excess below which Newton steps are faster; maximum number of exchanges
    weights = vertex_exchange(points, weights, max(tolerance, coarse), most)
    if tolerance < coarse:
        weights, reached = _newton_polish(points, weights, tolerance)
        if not reached:
            weights = vertex_exchange(points, weights, tolerance, most)
    return weights


def _largest(values: Floats, count: int) -> ActionBatch:
    """Return the positions of the ``count`` largest values, ascending."""
    if count >= len(values):
        return np.arange(len(values))
    return np.sort(np.argpartition(values, -count)[-count:])


def _spanning_start(points: Matrix) -> Floats | None:
    """Return equal weights on ``r`` of the ``(n, r)`` points that span the space; None if no ``r`` of them do."""
    # pivoted QR chooses the point farthest from the span of the earlier ones, as in Kumar and Yildirim (2005)
    n, rank = points.shape
    if n < rank:
        return None
    triangle, pivots = scipy.linalg.qr(points.T, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    if diagonal[-1] <= 1e-7 * diagonal[0]:
        return None
    weights = np.zeros(n)
    weights[pivots[:rank]] = 1 / rank
    return weights


def _spanning_rows(features: Matrix, to_round: Matrix) -> ActionBatch:
    """Return rows that span the space, found by Gram-Schmidt with pivoting over the whole set, in ``r`` scans."""
    rank = to_round.shape[1]
    basis = np.zeros((rank, 0))
    rows: list[int] = []
    for _ in range(rank):
        remainder = to_round @ (np.eye(rank) - basis @ basis.T)
        rows.append(int(np.argmax(design_leverages(features, remainder))))
        basis = np.linalg.qr((features[rows] @ to_round).T)[0]
    return np.array(rows, dtype=np.int64)


def thin_g_optimal(points: Matrix, weights: Floats, index: ActionBatch) -> tuple[ActionBatch, Floats]:
    """Drop points until at most ``r (r + 1) / 2`` remain, never raising a leverage (Caratheodory).

    More than ``r (r + 1) / 2`` points satisfy a linear relation ``sum_i v_i y_i y_i' = 0``. Moving the weights along
    ``-v`` until one of them is zero leaves the information matrix unchanged. The sign of ``v`` is chosen to keep the
    total weight from growing, so rescaling the weights to sum to one can only add information.
    """
    limit = points.shape[1] * (points.shape[1] + 1) // 2
    if int((weights > 0).sum()) > limit:
        columns = canonical_products(points @ vertex_exchange_root(points, weights)).T
        weights = canonical_weights(np.ascontiguousarray(columns), weights, limit)
    kept = weights > 0
    return index[kept], weights[kept] / weights[kept].sum()
