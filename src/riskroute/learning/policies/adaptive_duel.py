"""The leader of `riskroute.learning.policies.adaptive` against its rivals, as formulas of whole arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.learning.plan import LONGEST_HORIZON

if TYPE_CHECKING:
    from riskroute.learning.policies.adaptive import Adaptive

CAUTION = 2.0
"""Factor on the logarithm of the rounds ahead, over the rewards behind a difference; see `AdaptiveDuel`."""

ENOUGH = 20.0
"""A portion explores until the variance of what it plays has fallen to one part in so many and one, and no further."""


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

    A portion is as long as a plan makes it, and late plans are long. Where means lie many noise deviations apart, a few
    rounds of a rival tell all there is to know about it, and hundreds of them may cost more than the rest of the run.
    So a rival gets no more rounds of a portion than bring the variance of its mean-variance down to a twentieth; the
    leader plays the others.
    """

    def __init__(self, policy: Adaptive, belief: Belief, features: Matrix, loss: float) -> None:
        known = policy.setting
        rho = known.risk_tolerance
        self.features = features
        self.apart = self.features - self.features[0]
        self.behind = np.maximum(self.apart @ belief.score(rho), 0.0)
        self.costs = self.behind + (self.apart @ belief.mean_coef) ** 2
        variance = self.features @ belief.var_coef + known.base_variance
        variance = np.maximum(variance, LEAST_VARIANCE * belief.variance)
        self.noise = 2 * variance**2 + rho**2 * variance  # noise of one round as an observation of the mean-variance
        self.covariance = belief.score_covariance(rho)
        self.rounds = policy.patience * policy.ahead()
        self.caution = CAUTION * math.log(max(policy.ahead(), 2))
        self.allowed = np.ones(len(features), dtype=bool) if policy.budget is None else self.behind <= policy.budget
        self.allowed[0] = False
        self.overlap = 1.0
        single = self._losses(*self._apart())
        self.loss = max(loss, float(single.max()))  # the draws may have missed the most dangerous rival
        self.overlap = self.loss / (max(float(single.sum()), 1e-250 * self.loss) or 1.0)

    def fill(self, rng: np.random.Generator, portions: Integers) -> Integers:
        """Return the rounds of each action in a plan that is filled in portions, each as if those before were seen."""
        counts = np.zeros(len(self.features), dtype=np.int64)
        for portion in portions.tolist():
            rival, part = self.mixture()
            if rival == 0:  # none is worth its cost
                break
            some = min(int(rng.binomial(portion, part)), self.enough(rival))
            for action, played in ((rival, some), (0, portion - some)):
                counts[action] += played
                self.imagine(action, played)
        return counts

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

    def enough(self, rival: int) -> int:
        """Return the rounds of a rival after which it is known well for now."""
        lever = float(self.features[rival] @ self.covariance @ self.features[rival])
        noise = ENOUGH * float(self.noise[rival])
        return LONGEST_HORIZON if lever * LONGEST_HORIZON <= noise else math.ceil(noise / lever)

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
