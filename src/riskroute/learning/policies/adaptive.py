"""The recommended policy: information-directed exploration that stops when it no longer pays.

Every plan is computed from the posterior of the coefficients in four steps:

1. *Rivals.* The leader is the greedy action under the posterior mean. Its rivals are the best actions of posterior
   draws. To include unlikely rivals, half the draws are used again at two or three times their distance from the mean.
2. *Loss.* Committing to the leader has an expected loss per round: the mean over the draws of the gap between the
   leader and the best action.
3. *Cost and worth.* A round of a rival costs its expected gap to the leader, plus the squared difference of their
   means, since switching between means adds to the variance of a path. The worth of a round (value of information) is
   the reduction in expected loss from observing its reward; it falls as the posterior narrows. A rival is ruled out if
   its cost is at least its worth times `patience` times the remaining rounds, with the worth averaged over posterior
   variances from the current one down to zero.
4. *Mixture.* The policy mixes the leader with one rival, which gets a fraction ``part`` of the rounds. It chooses rival
   and fraction to minimise ``(loss + part * cost)^2 / worth of the mixture``: information-directed sampling (Russo and
   Van Roy 2014). A plan is built in a few portions. Every portion is chosen under the posterior covariance that would
   result from observing the earlier portions. When all rivals are ruled out, the leader is played in longer plans.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.validation import parameter, valid_magnitude, whole_number
from riskroute.learning.actions import distinct_actions
from riskroute.learning.belief import Belief, draw_gaussian_belief
from riskroute.learning.design.rounding import round_even_counts
from riskroute.learning.plan import MOST_DRAWS, Plan
from riskroute.learning.policies.adaptive_duel import AdaptiveDuel, duel_leader_loss
from riskroute.learning.policies.linear_policy import LinearPolicy
from riskroute.learning.policy import memory
from riskroute.learning.tally import ActionBatch


@dataclass(kw_only=True)
class Adaptive(LinearPolicy):
    """Information-directed exploration that stops when it no longer pays.

    The horizon determines when exploration no longer pays. Without one, the policy assumes as many further rounds as
    it has played.

    Parameters
    ----------
    patience : float
        Factor on the average worth of exploration; smaller values stop earlier.
    draws : int
        Posterior draws per plan.
    portions : int
        Portions per plan; each is chosen under the posterior covariance that would result from the earlier ones.
    budget : float, optional
        Largest allowed gap in expected mean-variance between a played action and the leader, once there is a
        posterior (with a `prior`: from the first round). Default: no limit.
    assumed_size : float
        Size of the coefficients that the default prior assumes, relative to the paper's norm bounds (see `expected`).
        At 0 there is no default prior.
    growth, start_rounds, prior
        See `LinearPolicy`. ``growth`` is multiplied by 4 after a plan without exploration, and by ``12 / dim``
        in more than 12 dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> import riskroute as rr
    >>> policy = Adaptive().start(rr.Setting(actions=rr.Actions(np.eye(2)), horizon=500), seed=1)
    >>> while policy.remaining:
    ...     action = policy.select()
    ...     policy.update(action, reward=float(policy.rng.normal(action)))
    >>> policy.recommend()
    1

    References
    ----------
    Russo and Van Roy (2014), `Learning to Optimize via Information-Directed Sampling
    <https://arxiv.org/abs/1403.5556>`_: the mixture of leader and rival.
    """

    name: ClassVar[str] = "adaptive"

    growth: float = 0.05
    patience: float = parameter(0.3, valid_magnitude, above=0)
    draws: int = parameter(128, whole_number, maximum=MOST_DRAWS)
    portions: int = parameter(8, whole_number)
    budget: float | None = parameter(None, valid_magnitude, minimum=0)
    assumed_size: float = parameter(1.0, valid_magnitude, minimum=0)

    calm: bool = memory(False)  # whether the last plan played only the leader

    def in_units(self, factor: float) -> Self:
        budget = None if self.budget is None else self.budget * factor**2
        return dataclasses.replace(super().in_units(factor), budget=budget)

    def expected(self) -> Belief | None:
        """Return the prior; default: a zero-mean Gaussian whose width follows from the paper's norm bounds.

        For features of norm one, the paper bounds the norm of the mean coefficients by one standard deviation of the
        noise, and the norm of the variance coefficients by the base variance. These bounds (the second times
        ``sqrt(2)``), multiplied by ``assumed_size``, are the standard deviations of the default prior. It matters most
        for small features, since rewards carry least information about their coefficients. Like a given prior, it is
        down-weighted if rewards contradict it; unlike with a given prior, the first plan is still an optimal design.
        If the base variance is 0, there is no default prior.
        """
        noise, actions = self.setting.base_variance, self.setting.actions
        norm = actions.largest_norm()
        if self.prior is not None or self.assumed_size == 0 or noise == 0 or norm == 0:
            return self.prior
        information = (norm / self.assumed_size) ** 2 * np.eye(actions.dim)
        nothing = np.zeros(actions.dim)
        return Belief(nothing, information / noise, nothing, information / (2 * noise**2), noise, 0.0)

    @property
    def surprise(self) -> float:
        return super().surprise if self.prior is not None or self.assumed_size == 0 else 0.0

    def in_doubt(self, base: Belief) -> bool:
        if self.prior is not None or self.assumed_size == 0:
            return super().in_doubt(base)
        return not base.mean_coef.any()

    def explore(self, belief: Belief, rounds: int) -> Plan:
        rivals, features, loss = self._rivals(belief)  # steps 1 and 2
        duel = self.duel(belief, features, loss)  # steps 3 and 4
        counts = duel.fill(self.rng, round_even_counts(rounds, self.portions))
        explored = int(counts.sum())
        self.calm = explored == 0
        counts[0] += rounds - explored
        played = np.flatnonzero(counts)
        return Plan(rivals[played], counts[played])

    @property
    def due(self) -> int:
        # without exploration there is little to learn: plans are four times as long
        return super().due * (4 if self.calm else 1)

    @property
    def pace(self) -> float:
        # one plan is informative about a few directions only, so plans are shorter in many dimensions
        return self.growth * min(12 / self.setting.actions.dim, 1.0)

    def duel(self, belief: Belief, features: Matrix, loss: float) -> AdaptiveDuel:
        """Return the choice between leader (row 0 of ``features`` ``(n, dim)``) and rivals (the other rows)."""
        return AdaptiveDuel(self, belief, features, loss)

    def ahead(self) -> int:
        """Return the number of rounds in which exploration can pay off."""
        return self.played if self.setting.horizon is None else self.remaining

    def _rivals(self, belief: Belief) -> tuple[ActionBatch, Matrix, float]:
        """Return the leader and its rivals, their features, and the expected loss of committing to the leader."""
        actions, drawn = self.setting.actions, slice(1, self.draws + 1)
        scores = _candidate_scores(*self.objective(belief), self.rng.standard_normal((self.draws, belief.dim)))
        best = actions.best_each(scores)
        first, place = distinct_actions(best)
        rivals = best[first]
        features = actions.features(rivals)
        return rivals, features, duel_leader_loss(scores[drawn], features, place[drawn])


def _candidate_scores(center: Vector, covariance: Matrix, normals: Matrix) -> Matrix:
    """Return as rows the posterior mean, posterior draws made from ``normals`` ``(n, dim)``, and some widened draws."""
    drawn = draw_gaussian_belief(center, covariance, normals)
    # every fourth draw at twice its distance from the mean, and its successor at three times: unlikely rivals
    widened = [center + factor * (drawn[k::4] - center) for k, factor in enumerate((2.0, 3.0))]
    return np.vstack([center, drawn, *widened])
