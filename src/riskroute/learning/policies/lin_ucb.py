"""LinUCB for the mean reward (Abbasi-Yadkori, Pal and Szepesvari 2011), over a list of all actions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskroute.core.validation import parameter, valid_magnitude
from riskroute.learning.belief import Belief
from riskroute.learning.plan import Plan
from riskroute.learning.policies.linear_policy import RiskNeutralPolicy


@dataclass(kw_only=True)
class LinUcb(RiskNeutralPolicy):
    """Risk-neutral policy that plays the action with the largest upper confidence bound on its mean.

    The bound is the estimate plus ``width`` standard deviations, with ``width = sqrt(2 log(1 / delta) + log(det V / det
    V_0))``. ``V`` and ``V_0`` are the information matrices of the posterior and of the vague prior. This is the
    published width for unit variance; here rewards are weighted by their inverse estimated variances.

    Parameters
    ----------
    delta : float
        Probability that the bound fails in any round.
    width : float, optional
        Standard deviations added to the estimate. Default: the published width.
    growth, start_rounds, prior
        See `LinearPolicy`.

    Examples
    --------
    >>> LinUcb(delta=0.1)
    LinUcb(growth=0.1, start_rounds=2, prior=None, delta=0.1, width=None)

    References
    ----------
    Abbasi-Yadkori, Pál and Szepesvári (2011), `Improved Algorithms for Linear Stochastic Bandits
    <https://papers.nips.cc/paper/4417-improved-algorithms-for-linear-stochastic-bandits>`_.
    """

    name: ClassVar[str] = "lin-ucb"
    needs_list: ClassVar[bool] = True

    delta: float = parameter(0.01, valid_magnitude, above=0, below=1)
    width: float | None = parameter(None, valid_magnitude, minimum=0)

    def explore(self, belief: Belief, rounds: int) -> Plan:
        listed = self.setting.actions.listed()
        coef, covariance = self.objective(belief)
        deviation = np.sqrt(np.einsum("ij,jk,ik->i", listed.rows, covariance, listed.rows))
        index = listed.rows @ coef - self._width(belief) * deviation
        return Plan.repeat(listed.action(int(np.argmin(index))), rounds)

    def _width(self, belief: Belief) -> float:
        if self.width is not None:
            return self.width
        gained = np.linalg.slogdet(belief.mean_precision)[1] - np.linalg.slogdet(self.vague / belief.variance)[1]
        return math.sqrt(2 * math.log(1 / self.delta) + max(float(gained), 0.0))
