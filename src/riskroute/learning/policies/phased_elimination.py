"""Phased elimination by G-optimal designs, for the mean alone (Lattimore and Szepesvari 2020, chapter 22)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from riskroute.core.arrays import Floats
from riskroute.core.validation import parameter, valid_magnitude
from riskroute.learning.estimation import least_squares
from riskroute.learning.policies.phased_policy import PhasedPolicy
from riskroute.learning.tally import Tallies


@dataclass(kw_only=True)
class PhasedElimination(PhasedPolicy):
    """Risk-neutral successive elimination: maximises the mean and ignores the variance.

    With ``eps = 2^-l``, phase ``l`` plays a design whose leverages are at most ``g`` for ``2 v g log(K l (l + 1) /
    delta) / eps^2`` rounds. It fits the mean by least squares and eliminates actions whose mean is more than ``2 eps``
    below the best.

    Parameters
    ----------
    constant : float
        Factor on the length of all phases; 1 as published.
    noise_variance : float, optional
        Bound ``v`` on the variance of rewards. Default: the base variance, or 1 if that is 0.
    delta : float, optional
        Probability that a confidence bound fails. Default: ``1/T``.
    design_tolerance : float
        Largest relative excess of a design's bound over the optimum.

    Examples
    --------
    >>> import riskroute as rr
    >>> policy = PhasedElimination().start(rr.Setting(actions=rr.Actions([[1.0, 0.0], [0.0, 1.0]]), horizon=1000))
    >>> policy.plan().counts.tolist()  # 16 log(4000) = 132.7 rounds
    [67, 67]

    References
    ----------
    Lattimore and Szepesvári (2020), `Bandit Algorithms <https://banditalgs.com>`_, chapter 22.
    """

    name: ClassVar[str] = "phased-elimination"

    constant: float = parameter(1.0, valid_magnitude, above=0)
    noise_variance: float | None = parameter(None, valid_magnitude, above=0)
    delta: float | None = parameter(None, valid_magnitude, above=0, below=1)

    def _phase_rounds(self) -> float:
        setting = self.setting
        delta = 1 / self.horizon if self.delta is None else self.delta
        variance = (setting.base_variance or 1.0) if self.noise_variance is None else self.noise_variance
        chances = math.log(setting.actions.size) + math.log(self.phase * (self.phase + 1) / delta)
        bound = self.survivors.design(self.design_tolerance).bound
        return max(self.constant * 2 * variance * bound * chances / self._accuracy() ** 2, 1.0)

    def _estimated_score(self, tallies: Tallies) -> Floats:
        features = self.setting.actions.features(tallies.actions)
        return -least_squares(features, tallies, self.setting.base_variance).mean_coef
