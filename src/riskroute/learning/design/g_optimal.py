"""G-optimal designs over finite sets of feature vectors, with a certificate.

A design spreads one unit of exploration over actions so that the largest leverage ``x' M^-1 x`` over *all* actions
is as small as possible. Kiefer and Wolfowitz (1960): the smallest possible value is the rank of the set, and the
same design maximises ``log det M``. So a design is certified by one scan: ``bound`` is its largest leverage,
and ``bound / rank - 1`` its distance from the optimum, whatever solver found it.

The solver never iterates over the whole set. It (1) takes coordinates in which the set is round; (2) solves on a
small working set, by vertex exchange at first (`vertex_exchange`) and Newton steps near the optimum
(`newton_polish`); (3) scans every action; (4) adds the worst violators to the working set, and goes back to
(2) until the scan agrees; (5) picks, where many designs are optimal, one that does not depend on rounding errors, so
that every processor finds the same one (`canonical`). Its support has at most ``r (r + 1) / 2``
actions, by Caratheodory's argument.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from riskroute.core.arrays import Floats, Matrix
from riskroute.core.errors import RiskrouteError
from riskroute.core.validation import exact_array, finite_array, real_number, whole_number
from riskroute.learning.design.canonical import (
    COARSE_GRID,
    CONTACT,
    FINE_GRID,
    canonical_least_norm,
    canonical_products,
    canonical_weights,
    on_canonical_grid,
)
from riskroute.learning.design.newton_polish import newton_polish
from riskroute.learning.design.vertex_exchange import vertex_exchange, vertex_inverse_root
from riskroute.learning.tally import ActionBatch, tally_handles

_CHUNK = 4096  # rows scanned at a time: small enough to stay in cache
_GRAM_CONDITION = 1e-9  # below this ratio of eigenvalues the Gram matrix is not trusted and X itself is factored
_SHARP = 1e-11  # excess at which the optimal information matrix is known well enough to choose among its designs
_LOOSE = 1e-4  # tolerances of at least this allow for weights on a coarse grid
_COARSE = 0.02  # excess at which Newton steps take over from vertex exchange
_MAX_STEPS = 200_000
_MAX_SCANS = 100
_EXTREME = 1e75  # columns larger than this, or smaller than its inverse, are scaled before they are squared


class DesignError(RiskrouteError):
    """The solver could not certify the tolerance asked for."""


@dataclass(frozen=True)
class Design:
    """A distribution over actions, and a proof of how good it is.

    ``actions`` are the handles of the support and ``weights`` ``(n,)`` their weights, summing to one. Every action of
    the set the design was made for has leverage at most ``bound``; no design could do better than ``rank``.
    """

    actions: ActionBatch
    weights: Floats
    bound: float
    rank: int

    def __post_init__(self) -> None:
        weights = exact_array("weights", self.weights, np.float64, (None,))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "actions", tally_handles(self.actions, len(weights)))
        if not (isinstance(self.bound, float) and self.bound == np.inf):  # infinite where nothing is proven
            object.__setattr__(self, "bound", real_number("bound", self.bound, minimum=0))
        object.__setattr__(self, "rank", whole_number("rank", self.rank, minimum=0))

    @property
    def excess(self) -> float:
        """Relative distance of the bound from the optimum (0 for an optimal design)."""
        return self.bound / self.rank - 1 if self.rank else 0.0

    def __len__(self) -> int:
        return len(self.weights)


def g_optimal(features: Matrix, tolerance: float = 0.01) -> Design:
    """Find a design over the rows of ``features`` ``(K, d)`` with ``bound <= (1 + tolerance) * rank``.

    Rank-deficient sets are handled in an orthonormal basis of their span. The handles of the result are row numbers.
    The bound is right up to rounding: a relative error of about 1e-16 times the condition number of the features,
    columns scaled to equal length. Where that is more than the tolerance asked for, `DesignError` is raised.

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
    if size.max() > _EXTREME or size.min() < 1 / _EXTREME:  # leverages do not depend on the units of the columns
        features = features / np.where(size > 0, size, 1.0)
    to_round = round_coordinates(features)
    rank = to_round.shape[1]
    if rank == 0:  # nothing but zero vectors: there is nothing to learn, and nothing is unknown
        return Design(np.zeros(1, dtype=np.int64), np.ones(1), 0.0, 0)
    most = rank * (1 + tolerance) * (1 + 1e-12)
    try:
        index, weights, bound = _canonical(features, to_round, COARSE_GRID if tolerance >= _LOOSE else FINE_GRID)
    except (DesignError, np.linalg.LinAlgError):
        bound = np.inf
    if bound > most:  # too ill-conditioned to be solved to the end: any design that is good enough
        index, weights = _solve(features, to_round, tolerance)
        index, weights = thin_support(features[index] @ to_round, weights, index)
        bound = float(_scan(features, to_round, features[index] @ to_round, weights).max())
    if bound > most:
        raise DesignError(f"design reached {bound / rank - 1:.3g} above the optimum, wanted {tolerance:.3g}")
    return Design(index, weights, bound, rank)


def _canonical(features: Matrix, to_round: Matrix, grid: float) -> tuple[ActionBatch, Floats, float]:
    """Return the rows and weights of the canonical design, and its largest leverage."""
    index, weights = _solve(features, to_round, _SHARP)
    root = to_round @ vertex_inverse_root(features[index] @ to_round, weights)
    rank = to_round.shape[1]
    touching = np.flatnonzero(leverages(features, root) >= rank * (1 - CONTACT))
    white = features[touching] @ root
    even = canonical_least_norm(canonical_products(white), canonical_products(np.eye(rank)).sum(axis=0))
    if even is None:
        raise DesignError(f"design did not find weights of least norm on {len(touching)} actions")
    index, weights = thin_support(white, on_canonical_grid(even, grid), touching)
    weights = on_canonical_grid(weights, grid)
    index, weights = index[weights > 0], weights[weights > 0]
    return index, weights, float(_scan(features, to_round, features[index] @ to_round, weights).max())


def round_coordinates(features: Matrix) -> Matrix:
    """Return ``B`` ``(d, r)`` such that the rows of ``features @ B`` are round: ``B' (X'X) B / K`` is the identity.

    Leverages do not depend on the coordinates, rounding errors do. ``r`` is the numerical rank, judged after each
    column is scaled to length one, so that units of the features do not decide it.
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
    if not np.isfinite(values).all() or values[0] < _GRAM_CONDITION * values[-1]:
        scaled = features[:, used] / size[used]
        norms = np.linalg.norm(scaled, axis=0)
        _, singular, rows = scipy.linalg.svd(scipy.linalg.qr(scaled / norms, mode="r")[0], full_matrices=False)
        kept = singular > singular[0] * max(n_actions, dim) * np.finfo(float).eps
        values, vectors = singular[kept] ** 2, rows[kept].T
    basis: Matrix = unit @ (vectors / norms[:, None]) / np.sqrt(values) * np.sqrt(n_actions)
    return basis


def leverages(features: Matrix, inverse_root: Matrix) -> Floats:
    """Squared norms of the rows of ``features @ inverse_root``, chunk by chunk: ``x' M^-1 x`` when ``M^-1 = R R'``."""
    result = np.empty(len(features))
    for start in range(0, len(features), _CHUNK):
        rows = features[start : start + _CHUNK] @ inverse_root
        np.einsum("ij,ij->i", rows, rows, out=result[start : start + _CHUNK])
    return result


def _scan(features: Matrix, to_round: Matrix, points: Matrix, weights: Floats) -> Floats:
    """Leverages of all rows under the design ``weights`` on round ``points``."""
    return leverages(features, to_round @ vertex_inverse_root(points, weights))


def _solve(features: Matrix, to_round: Matrix, tolerance: float) -> tuple[ActionBatch, Floats]:
    """Return the rows and weights of a design within ``tolerance``, by working sets."""
    n_actions, rank = len(features), to_round.shape[1]
    room = max(8 * rank, 200)
    levers = leverages(features, to_round)
    working = _largest(levers, room)
    points = features[working] @ to_round
    start = spanning_start(points)
    if start is None:  # the outermost points lie in a subspace: start from points that span
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
    raise DesignError(f"design did not reach {tolerance:.3g} in {_MAX_SCANS} scans of {n_actions} actions")


def _solve_small(points: Matrix, weights: Floats, tolerance: float) -> Floats:
    """Solve a working set to within ``tolerance``: vertex exchange far from the optimum, Newton steps near it."""
    weights = vertex_exchange(points, weights, max(tolerance, _COARSE), _MAX_STEPS)
    if tolerance < _COARSE:
        weights, reached = newton_polish(points, weights, tolerance)
        if not reached:
            weights = vertex_exchange(points, weights, tolerance, _MAX_STEPS)
    return weights


def _largest(values: Floats, count: int) -> ActionBatch:
    """Positions of the ``count`` largest values, ascending."""
    if count >= len(values):
        return np.arange(len(values))
    return np.sort(np.argpartition(values, -count)[-count:])


def spanning_start(points: Matrix) -> Floats | None:
    """Return equal weights on ``r`` of the ``(n, r)`` points that span the space; None if no ``r`` of them do.

    Pivoted QR takes the point farthest from the span of those before it, as Kumar and Yildirim (2005) start.
    """
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
        rows.append(int(np.argmax(leverages(features, remainder))))
        basis = np.linalg.qr((features[rows] @ to_round).T)[0]
    return np.array(rows, dtype=np.int64)


def thin_support(points: Matrix, weights: Floats, index: ActionBatch) -> tuple[ActionBatch, Floats]:
    """Drop points until at most ``r (r + 1) / 2`` remain, never raising a leverage (Caratheodory).

    More points than that have a linear relation ``sum_i v_i y_i y_i' = 0``. Moving the weights along ``-v`` until one
    is zero leaves the information matrix as it was; with the sign of ``v`` chosen so that the total weight
    does not grow, scaling back to total one can only add information.
    """
    limit = points.shape[1] * (points.shape[1] + 1) // 2
    if int((weights > 0).sum()) > limit:
        columns = canonical_products(points @ vertex_inverse_root(points, weights)).T
        weights = canonical_weights(np.ascontiguousarray(columns), weights, limit)
    kept = weights > 0
    return index[kept], weights[kept] / weights[kept].sum()
