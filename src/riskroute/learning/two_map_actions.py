"""Listed actions with different features for mean and variance, and a part of the mean that is known."""

from __future__ import annotations

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.core.seeding import seeding_digest, seeding_hash
from riskroute.core.validation import LARGEST, finite_array, real_number
from riskroute.learning.actions import Action, Actions
from riskroute.learning.tally import ActionBatch


class TwoMapActions(Actions):
    """A finite action set with one feature vector of the mean and one of the variance per row.

    Parameters
    ----------
    features : Floats
        Features of the mean, ``(K, dim)``.
    var_features : Floats, optional
        Features of the variance, ``(K, var_dim)``; those of the mean unless given.
    offset : Floats, optional
        Known part of the mean, ``(K,)``; zero unless given.
    coordinates, handles
        See `Actions`.

    Examples
    --------
    The second action has the larger mean, the third the smaller variance; half a unit is known of the first.

    >>> actions = TwoMapActions([[0.0], [1.0], [0.0]], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0.5, 0.0, 0.0])
    >>> [actions.best_of_both(np.array([0.2]), np.array([1.0, 0.9]), tolerance) for tolerance in (0.1, 1.0)]
    [2, 0]
    >>> actions.best_of_both(np.array([0.6]), np.array([1.0, 0.9]), 2.0)
    1
    """

    def __init__(
        self,
        features: Floats | list[list[float]],
        var_features: Floats | list[list[float]] | None = None,
        offset: Floats | list[float] | None = None,
        *,
        coordinates: int | None = None,
        handles: ActionBatch | None = None,
    ) -> None:
        super().__init__(features, coordinates=coordinates, handles=handles)
        count, known = len(self.matrix), np.zeros(len(self.matrix)) if offset is None else offset
        chi = self.matrix if var_features is None else var_features
        self._variance = np.array(finite_array("var_features", chi, ndim=2, length=count, largest=LARGEST))
        self._offset = np.array(finite_array("offset", known, ndim=1, length=count, largest=LARGEST))

    def __repr__(self) -> str:
        return f"TwoMapActions({self.size} actions, dim {self.dim} and {self.var_dim})"

    @property
    def one_map(self) -> bool:
        return bool(np.array_equal(self._variance, self.matrix) and not self._offset.any())

    @property
    def var_dim(self) -> int:
        return int(self._variance.shape[1])

    @property
    def fingerprint(self) -> str:
        known = seeding_hash([seeding_digest(part[self.members]) for part in (self._variance, self._offset)])
        return f"{super().fingerprint}:{known}"

    def var_features(self, actions: ActionBatch) -> Floats:
        self.features(actions)  # refuses what is not there
        return self._variance[self.rows_of(actions)]

    def offset(self, actions: ActionBatch) -> Floats:
        self.features(actions)
        return self._offset[self.rows_of(actions)]

    def best_of_both(
        self, mean_coef: Floats, var_coef: Floats, risk_tolerance: float, offset_coef: float = 1.0
    ) -> Action:
        tolerance = real_number("risk_tolerance", risk_tolerance, minimum=0)
        var_coef = finite_array("var_coef", var_coef, ndim=1, length=self.var_dim)
        variance = np.einsum("ij,j->i", self._variance[self.members], var_coef)
        mean = real_number("offset_coef", offset_coef) * self._offset[self.members] + self.scores(mean_coef)
        return self.action(int(np.argmin(variance - tolerance * mean)))
