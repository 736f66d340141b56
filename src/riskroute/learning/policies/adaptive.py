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
import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.special import ndtr

from riskroute.arrays import Vector
from riskroute.learning.belief import LEAST_VARIANCE, Belief, draw_belief
from riskroute.learning.design.rounding import round_even_counts
from riskroute.learning.plan import MOST_DRAWS, Plan
from riskroute.learning.policies.linear_policy import LinearPolicy
from riskroute.learning.policy import memory
from riskroute.learning.remembered import remembered_flag
from riskroute.learning.tally import ActionBatch
from riskroute.parameters import parameter
from riskroute.validation import sized_number, whole_number

_WIDENED = (2.0, 3.0)
_CALM = 4  # a plan is so many times longer after one in which nothing was worth exploring
_CAUTION = 2.0  # see `AdaptiveDuel`


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
    growth, start_rounds, prior
        See `LinearPolicy`. After a plan that explored nothing, ``growth`` counts four times.

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

    calm: bool = memory(False, remembered_flag)  # nothing was worth exploring in the last plan

    def in_units(self, factor: float) -> Self:
        budget = None if self.budget is None else self.budget * factor**2
        return dataclasses.replace(super().in_units(factor), budget=budget)

    def explore(self, belief: Belief, rounds: int) -> Plan:
        rivals, loss = self._rivals(belief)  # steps 1 and 2
        duel = self.duel(belief, rivals, loss)
        counts = np.zeros(len(rivals), dtype=np.int64)
        for portion in round_even_counts(rounds, self.portions).tolist():
            rival, part = duel.mixture()  # steps 3 and 4
            if rival == 0:  # none is worth its cost
                break
            some = int(self.rng.binomial(portion, part))
            for action, played in ((rival, some), (0, portion - some)):
                counts[action] += played
                duel.imagine(action, played)
        self.calm = not counts.any()
        counts[0] += rounds - counts.sum()
        return Plan(rivals, counts).fitted(rounds)

    @property
    def due(self) -> int:
        return super().due * (_CALM if self.calm else 1)

    def duel(self, belief: Belief, rivals: ActionBatch, loss: float) -> AdaptiveDuel:
        """Return what decides between the leader and its rivals."""
        return AdaptiveDuel(self, belief, rivals, loss)

    def ahead(self) -> int:
        """Rounds in which exploration can still pay off."""
        return self.played if self.setting.horizon is None else self.remaining

    def _rivals(self, belief: Belief) -> tuple[ActionBatch, float]:
        """Return the leader and its rivals, the leader first, and the loss of settling on it, averaged over draws."""
        score, covariance = self.objective(belief)
        drawn = draw_belief(self.rng, score, covariance, self.draws)
        widened = [score + factor * (drawn[k::4] - score) for k, factor in enumerate(_WIDENED)]
        best = self.setting.actions.best_each(np.vstack([score, drawn, *widened]))
        winners = self.setting.actions.features(best[: len(drawn) + 1])
        loss = float(np.mean(drawn @ winners[0] - np.einsum("ij,ij->i", drawn, winners[1:])))
        different, first = np.unique(best, axis=0 if best.ndim > 1 else None, return_index=True)
        return different[np.argsort(first)], loss


class AdaptiveDuel:
    """The leader (number 0) against its rivals: losses, costs, and what observing an action would teach.

    A rival believed to be ``l`` behind, give or take ``s``, adds an expected loss of ``s psi(l / s)`` per round with
    ``psi(z) = phi(z) - z Phi(-z)``; its derivative by ``s^2`` is ``phi(l / s) / (2 s)`` now, and ``psi(l / s) / s`` on
    average until ``s`` is zero. Rivals overlap: when one beats the leader, others often do too. The losses to single
    rivals are therefore scaled so that they add up to the loss.

    Squared residuals are far from Gaussian: with probability ``1 / N``, an average of ``n`` of them is off not only by
    the Gaussian ``sqrt(log N / n)`` but by ``log N / n`` as well, up to constants. The variance of a difference that is
    known as well as from ``n`` rewards of the rival is therefore multiplied by ``1 + 2 log N / n``, where ``N`` is the
    number of rounds that a mistake would last.
    """

    def __init__(self, policy: Adaptive, belief: Belief, actions: ActionBatch, loss: float) -> None:
        known = policy.setting
        rho = known.risk_tolerance
        self.features = known.actions.features(actions)
        self.apart = self.features - self.features[0]
        self.behind = np.maximum(self.apart @ belief.score(rho), 0.0)
        self.costs = self.behind + (self.apart @ belief.mean_coef) ** 2
        variance = self.features @ belief.var_coef + known.base_variance
        variance = np.maximum(variance, LEAST_VARIANCE * belief.variance)
        self.noise = 2 * variance**2 + rho**2 * variance  # noise of one round as an observation of the mean-variance
        self.covariance = belief.score_covariance(rho)
        self.rounds = policy.patience * policy.ahead()
        self.caution = _CAUTION * math.log(max(policy.ahead(), 2))
        self.allowed = np.ones(len(actions), dtype=bool) if policy.budget is None else self.behind <= policy.budget
        self.allowed[0] = False
        self.overlap = 1.0
        single = self._losses(*self._apart())
        self.loss = max(loss, float(single.max()))  # the draws may have missed the most dangerous rival
        self.overlap = self.loss / (max(float(single.sum()), 1e-250 * self.loss) or 1.0)

    def mixture(self) -> tuple[int, float]:
        """Return the rival to mix with the leader, and its fraction of the rounds; 0 and 0 if none is worth it."""
        worth, average = self.worth()
        pays = self.allowed & (self.rounds * average > self.costs) & (worth > worth[0])
        if not pays.any():
            return 0, 0.0
        more = worth[pays] - worth[0]
        with np.errstate(divide="ignore", over="ignore"):
            parts = np.minimum(self.loss / self.costs[pays] - 2 * worth[0] / more, 1.0)
        ratio = (self.loss + parts * self.costs[pays]) ** 2 / (worth[0] + parts * more)
        ratio[parts <= 0] = np.inf
        best = int(np.argmin(ratio))
        return int(np.flatnonzero(pays)[best]), max(float(parts[best]), 0.0)

    def worth(self) -> tuple[Vector, Vector]:
        """Return how fast the expected loss falls per round of each action: now, and on average until it is gone."""
        deviation, density = self._apart()
        now, average = density / (2 * deviation), self._losses(deviation, density) / deviation**2
        now[0] = 0.0
        blurred = self.features @ self.covariance
        lever = np.einsum("ij,ij->i", blurred, self.features)
        taken = (blurred @ self.apart.T) ** 2
        scale = self.noise + lever
        return self.overlap * (taken @ now) / scale, self.overlap * (taken @ average) / scale

    def _losses(self, deviation: Vector, density: Vector) -> Vector:
        """Expected loss per round to each rival alone."""
        losses = deviation * density - self.behind * ndtr(-self.behind / deviation)
        losses[0] = 0.0
        return np.asarray(losses)

    def imagine(self, chosen: int, rounds: int) -> None:
        """Update the covariance as if an action had been observed."""
        blurred = self.covariance @ self.features[chosen]
        lever = float(self.features[chosen] @ blurred)
        self.covariance = self.covariance - np.outer(blurred, blurred) * (
            rounds / (self.noise[chosen] + rounds * lever)
        )

    def _apart(self) -> tuple[Vector, Vector]:
        """Return the deviation of each difference to the leader, and the standard normal density where it is zero."""
        squared = np.einsum("ij,jk,ik->i", self.apart, self.covariance, self.apart)
        squared = squared * (1 + self.caution * squared / self.noise)
        deviation = np.sqrt(np.maximum(squared, 1e-300))
        return deviation, np.exp(-((self.behind / deviation) ** 2) / 2) / math.sqrt(2 * math.pi)
