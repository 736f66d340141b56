"""Linear mean-variance Thompson sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskroute.core.arrays import Integers
from riskroute.core.validation import parameter, real_number, whole_number
from riskroute.learning.actions import distinct_actions
from riskroute.learning.belief import Belief, draw_gaussian_belief
from riskroute.learning.plan import MOST_DRAWS, Plan
from riskroute.learning.policies.linear_policy import LinearPolicy, RiskNeutralPolicy


@dataclass(kw_only=True)
class Thompson(LinearPolicy):
    """Thompson sampling: plays each action with its posterior probability of being the best.

    Parameters
    ----------
    draws : int
        Maximum number of joint draws per plan; a longer plan divides its rounds evenly between the draws.
    width : float
        Factor on the posterior standard deviations; below 1 explores less.
    growth, start_rounds, prior
        See `LinearPolicy`.

    Examples
    --------
    >>> import numpy as np
    >>> import riskroute as rr
    >>> policy = Thompson().start(rr.Setting(actions=rr.Actions(np.eye(2))), seed=1)
    >>> for _ in range(500):
    ...     action = policy.select()
    ...     policy.update(action, reward=float(policy.rng.normal(action)))
    >>> policy.recommend()
    1

    References
    ----------
    Agrawal and Goyal (2013), `Thompson Sampling for Contextual Bandits with Linear Payoffs
    <https://arxiv.org/abs/1209.3352>`_.
    """

    name: ClassVar[str] = "thompson"

    draws: int = parameter(32, whole_number, maximum=MOST_DRAWS)
    width: float = parameter(1.0, real_number, minimum=1e-9, maximum=1e9)

    def explore(self, belief: Belief, rounds: int) -> Plan:
        center, covariance = self.objective(belief)
        normals = self.rng.standard_normal((min(rounds, self.draws), belief.dim))
        drawn = draw_gaussian_belief(center, self.width**2 * covariance, normals)
        return _spread_evenly(self.setting.actions.best_each(drawn), rounds)


@dataclass(kw_only=True)
class LinThompson(RiskNeutralPolicy, Thompson):
    """Thompson sampling that maximises the mean reward; parameters as in `Thompson`.

    References
    ----------
    Agrawal and Goyal (2013), `Thompson Sampling for Contextual Bandits with Linear Payoffs
    <https://arxiv.org/abs/1209.3352>`_.
    """

    name: ClassVar[str] = "lin-thompson"


def _spread_evenly(actions: Integers, rounds: int) -> Plan:
    """Divide ``rounds`` rounds equally between ``actions``, with one entry per distinct action."""
    each = np.diff(np.floor(np.linspace(0, rounds, len(actions) + 1) + 0.5).astype(np.int64))
    first, place = distinct_actions(actions)
    different, counts = actions[first], np.bincount(place, each, len(first)).astype(np.int64)
    order = np.lexsort(different.reshape(len(different), -1).T[::-1])
    return Plan(different[order], counts[order])
