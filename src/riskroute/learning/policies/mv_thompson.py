"""MV-TS: Thompson sampling for Gaussian arms under mean-variance (Zhu and Tan 2020), with separate arms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.core.validation import parameter, valid_magnitude, whole_number
from riskroute.learning.actions import Action
from riskroute.learning.design.rounding import round_even_counts
from riskroute.learning.plan import MOST_DRAWS, Plan
from riskroute.learning.policies.arm_policy import ArmPolicy


@dataclass(kw_only=True)
class MvThompson(ArmPolicy):
    """Thompson sampling with separate Gaussian arms: plays the best arm of a posterior draw of all means and variances.

    After ``n`` rewards of an arm, with sum of squared deviations ``spread``, the precision (one over the variance) is
    Gamma with shape ``(1 + n) / 2`` and rate ``(1 + spread) / 2``, and the mean is Normal around the empirical mean
    with variance ``1 / n``. Zhu and Tan draw in every round. Here one posterior serves a batch of rounds, divided
    evenly between the best arms of several draws, so that a long run needs only a few thousand draws.

    Parameters
    ----------
    growth : float
        The posterior is updated when the number of rounds has grown by this fraction.
    draws : int
        Maximum number of joint draws per batch; a shorter batch draws once per round.

    Examples
    --------
    >>> import riskroute as rr
    >>> policy = MvThompson().start(rr.Setting(actions=rr.Actions([[1.0], [0.5], [0.2]])))
    >>> policy.plan().counts.tolist()
    [1, 1, 1]

    References
    ----------
    Zhu and Tan (2020), `Thompson Sampling Algorithms for Mean-Variance Bandits
    <https://arxiv.org/abs/2002.00232>`_.
    """

    name: ClassVar[str] = "mv-thompson"
    needs_horizon: ClassVar[bool] = False

    growth: float = parameter(0.02, valid_magnitude, above=0)
    draws: int = parameter(64, whole_number, maximum=MOST_DRAWS)

    def propose(self) -> Plan:
        first = self.first_tries()
        if first is not None:
            return first
        rounds = math.ceil(min(self.growth * self.played, self.remaining))
        counts = round_even_counts(rounds, self.draws)
        draw = self._posterior()
        best = np.array([np.argmin(draw()) for _ in counts])
        return Plan(self.handles[best], counts)

    def _posterior(self) -> Callable[[], Floats]:
        """Return a function that draws the mean-variances ``(K,)`` of all arms jointly from the posterior."""
        scales, shapes, errors = (1 + self.spreads) / 2, (1 + self.counts) / 2, np.sqrt(self.counts)

        def draw() -> Floats:
            variances = scales / self.rng.standard_gamma(shapes)
            means = self.means + self.rng.standard_normal(len(self.means)) / errors
            return variances - self.setting.risk_tolerance * means

        return draw

    def recommend(self) -> Action:
        return self.most_played()
