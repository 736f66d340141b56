"""Second-order polishing of a design on a small set of points.

Near the optimum, vertex exchange slows down when the optimal weights are not unique (symmetric sets have many optimal
designs). Newton's model of ``log det M`` does not: in coordinates where ``M`` is the identity, the best weights for
that model are those for which ``sum_i w_i z_i z_i'`` comes closest to twice the identity, subject to ``w >= 0`` and
``sum w = 1``. That is a non-negative least-squares problem with one row per entry of ``M`` and one column per
point, and its solutions are sparse. A handful of steps reach 1e-9.
"""

from __future__ import annotations

import numpy as np
import scipy

from riskroute.core.arrays import Floats, Integers
from riskroute.learning.design.vertex_exchange import vertex_information, vertex_inverse_root

_MAX_STEPS = 50


def newton_polish(points: Floats, weights: Floats, tolerance: float) -> tuple[Floats, bool]:
    """Improve ``weights`` until no leverage on ``points`` ``(n, r)`` exceeds ``(1 + tolerance) r``.

    Returns the weights and whether the tolerance was reached.
    """
    rank = points.shape[1]
    for _ in range(_MAX_STEPS):
        white = points @ vertex_inverse_root(points, weights)
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
    """Return the best weights on the candidate points for the quadratic model of ``log det``."""
    rank = white.shape[1]
    row, column = np.triu_indices(rank)
    on_diagonal = row == column
    z = white[candidates]
    outer = (z[:, row] * z[:, column] * np.where(on_diagonal, 1.0, np.sqrt(2.0))).T
    anchor = 10.0 * rank  # weight of the row that holds the sum of the weights at one
    system = np.vstack([outer, np.full(len(candidates), anchor)])
    try:
        solution, _ = scipy.optimize.nnls(system, np.append(np.where(on_diagonal, 2.0, 0.0), anchor))
    except RuntimeError:  # did not converge: the caller goes on by exchange
        return None
    target = np.zeros(len(white))
    target[candidates] = solution / solution.sum()
    return target


def _line_search(white: Floats, direction: Floats) -> float:
    """Return the largest of 1, 1/2, 1/4 .. that gains a quarter of the promised rise of ``log det``; 0 if none does."""
    change = np.linalg.eigvalsh(vertex_information(white, direction))
    promised = float(change.sum())
    step = 1.0
    while step > 1e-6:
        growth = 1 + step * change
        if growth.min() > 0 and np.log(growth).sum() >= 0.25 * step * promised - 1e-12:
            return step
        step /= 2
    return 0.0
