"""The recommended policy: explore as much as not knowing costs, where it teaches most, and only while it pays.

Every plan is made in four steps from the belief about the coefficients.

1. *Rivals.* The action that looks best now is the leader. Its rivals are the best actions of draws from the belief,
   some of them from the belief widened two and three times, so that unlikely rivals are seen too.
2. *Loss.* Settling on the leader has an expected loss per round: the average over the draws of how much better the
   best action would be.
3. *Cost and worth.* A round of a rival costs its expected gap to the leader, plus the squared difference of their
   means, since the variance of a path counts how far apart the means of its rounds lie. A round of any action is
   worth the speed at which the expected loss falls when it is observed. That speed drops as doubt goes, so a rival is
   ruled out if its worth, averaged until no doubt is left and taken over the rounds that remain, does not exceed its
   cost.
4. *Mixture.* Of the mixtures of the leader with one rival, the one with the smallest
   ``(loss + part * cost)^2 / worth of the mixture`` is played: information-directed sampling (Russo and Van Roy
   2014). A plan is filled in a few portions, each as if the earlier ones had been observed. When all rivals are ruled
   out, the leader is played, in longer plans.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.validation import parameter, sized_number, whole_number
from riskroute.learning.actions import different_handles
from riskroute.learning.belief import Belief, draw_gaussian
from riskroute.learning.design.rounding import round_even_counts
from riskroute.learning.plan import MOST_DRAWS, Plan
from riskroute.learning.policies.adaptive_duel import AdaptiveDuel, CompiledDuel, leader_loss
from riskroute.learning.policies.linear_policy import LinearPolicy
from riskroute.learning.policy import memory
from riskroute.learning.tally import ActionBatch


@dataclass(kw_only=True)
class Adaptive(LinearPolicy):
    """Explore as much as not knowing costs, where it teaches most, and only while it pays.

    The horizon says when exploration no longer pays. Without one, the policy counts on as many more rounds as it has
    played.

    Parameters
    ----------
    patience : float
        Factor on the average worth of exploration; smaller stops earlier.
    draws : int
        Draws from the belief per plan.
    portions : int
        Number of portions in which a plan is filled; each takes the earlier ones as observed.
    budget : float, optional
        Once there is a belief, actions whose expected mean-variance exceeds the leader's by more than this are
        not played; None sets no limit. With a `prior` there is a belief from the first round on.
    assumed_size : float
        How large coefficients are before any reward says otherwise, in deviations of the noise: see `expected`. 0
        assumes nothing.
    growth, start_rounds, prior
        See `LinearPolicy`. After a plan that explored nothing, ``growth`` counts four times; with more than 12
        coefficients it counts less, in 24 dimensions half.

    Examples
    --------
    >>> from riskroute.learning.actions import Actions
    >>> from riskroute.learning.plan import Setting
    >>> import numpy as np
    >>> policy = Adaptive().start(Setting(actions=Actions(np.eye(2)), horizon=500), seed=1)
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
    patience: float = parameter(0.3, sized_number, above=0)
    draws: int = parameter(128, whole_number, maximum=MOST_DRAWS)
    portions: int = parameter(8, whole_number)
    budget: float | None = parameter(None, sized_number, minimum=0)
    assumed_size: float = parameter(1.0, sized_number, minimum=0)

    calm: bool = memory(False)  # nothing was worth exploring in the last plan

    def in_units(self, factor: float) -> Self:
        budget = None if self.budget is None else self.budget * factor**2
        return dataclasses.replace(super().in_units(factor), budget=budget)

    def expected(self) -> Belief | None:
        """Return the prior or, without one, a belief in coefficients of the size that the paper's norms allow.

        With features of norm one, the paper's coefficients of the mean have a norm of one deviation of the noise at
        most, and those of the variance a norm of one base variance. The belief is centred at zero and at least as wide
        as that in every direction, times ``assumed_size``. It says most about small features, whose coefficients
        rewards tell little about. Rewards that contradict it weaken it, as they do a prior. Unlike a prior, it comes
        after the first plan. Without a base variance there is none, as nothing says what the noise is.
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
        # A plan is so many times longer after one in which nothing was worth exploring.
        return super().due * (4 if self.calm else 1)

    @property
    def pace(self) -> float:
        # in more dimensions plans are shorter, in proportion: one of them teaches about a few directions only
        return self.growth * min(12 / self.setting.actions.dim, 1.0)

    def duel(self, belief: Belief, features: Matrix, loss: float) -> AdaptiveDuel:
        """Return what decides between the leader and its rivals, whose features are ``(n, dim)``, the leader first."""
        return CompiledDuel(self, belief, features, loss)

    def ahead(self) -> int:
        """Rounds in which exploration can still pay off."""
        return self.played if self.setting.horizon is None else self.remaining

    def _rivals(self, belief: Belief) -> tuple[ActionBatch, Matrix, float]:
        """Return the leader and its rivals, the leader first, their features, and the loss of settling on the leader.

        The loss is averaged over draws.
        """
        actions, drawn = self.setting.actions, slice(1, self.draws + 1)
        scores = _candidate_scores(*self.objective(belief), self.rng.standard_normal((self.draws, belief.dim)))
        rivals, place = different_handles(actions.best_each(scores))
        features = actions.features(rivals)
        return rivals, features, leader_loss(scores[drawn], features, place[drawn])


def _candidate_scores(center: Vector, covariance: Matrix, normals: Matrix) -> Matrix:
    """Return the scores whose best actions are the candidates: the posterior mean, draws, and some widened draws.

    Row 0 is the posterior mean; rows 1 to n are posterior draws from standard normal numbers ``(n, dim)``. Every fourth
    draw is repeated at twice its distance from the mean, and the draw after it at three times, to include unlikely
    rivals.
    """
    drawn = draw_gaussian(center, covariance, normals)
    widened = [center + factor * (drawn[k::4] - center) for k, factor in enumerate((2.0, 3.0))]
    return np.vstack([center, drawn, *widened])
