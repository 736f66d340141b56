"""What policies have in common that treat every action as a separate arm and ignore the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from riskroute.learning.actions import Action
from riskroute.learning.policy import Policy, memory
from riskroute.learning.tally import Tallies, merge_into


@dataclass(kw_only=True)
class ArmPolicy(Policy):
    """Keeps one tally per arm. Arms are numbered by their position in the listed action set."""

    needs_list: ClassVar[bool] = True

    counts: NDArray[np.int64] = memory()
    means: NDArray[np.float64] = memory()
    spreads: NDArray[np.float64] = memory()

    def begin(self) -> None:
        self.resume()
        self.counts = np.zeros(len(self.handles), dtype=np.int64)
        self.means = np.zeros(len(self.handles))
        self.spreads = np.zeros(len(self.handles))

    def resume(self) -> None:
        self.arms = self.known.actions.listed()
        self.handles = self.arms.handles

    def observe(self, tallies: Tallies) -> None:
        arms = np.searchsorted(self.arms.members, self.arms.rows_of(tallies.actions))
        merge_into(self.counts, self.means, self.spreads, arms, tallies.counts, tallies.means, tallies.spreads)

    def mean_variances(self) -> NDArray[np.float64]:
        """Empirical mean-variance of every arm, infinite for arms never played, ``(K,)``."""
        seen = self.counts > 0
        value = self.spreads / np.where(seen, self.counts, 1) - self.known.risk_tolerance * self.means
        return np.where(seen, value, np.inf)

    def arm(self, position: int | np.intp) -> Action:
        """Handle of the arm at a position."""
        return self.arms.action(int(position))
