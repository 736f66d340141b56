"""The duel of `riskroute.learning.policies.adaptive_duel` in terms of whole arrays."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.learning.plan import LONGEST_HORIZON
from riskroute.learning.policies.adaptive_duel import CAUTION, ENOUGH, AdaptiveDuel
from riskroute.policies import Adaptive


def naive_leader_loss(drawn: Matrix, features: Matrix, place: Integers) -> float:
    """Return the mean gap between the leader and the best action over posterior draws ``(n, dim)``.

    Row 0 of ``features`` is the leader, and ``place`` is the row of the best action of each draw.
    """
    return float(np.mean(drawn @ features[0] - np.einsum("ij,ij->i", drawn, features[place])))


class NaiveDuel(AdaptiveDuel):
    """The duel in terms of whole arrays: the same decisions from the same random numbers."""

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
        self.rounds = float(policy.patience) * policy.ahead()
        self.caution = CAUTION * math.log(max(policy.ahead(), 2))
        self.allowed = np.ones(len(features), dtype=bool) if policy.budget is None else self.behind <= policy.budget
        self.allowed[0] = False
        self.overlap = 1.0
        single = self._losses(*self._apart())
        self.loss = max(loss, float(single.max()))  # the draws may have missed the most dangerous rival
        self.overlap = self.loss / (max(float(single.sum()), 1e-250 * self.loss) or 1.0)

    def fill(self, rng: np.random.Generator, portions: Integers) -> Integers:
        """Return the rounds of each action in a plan filled in portions, each as if earlier ones had been observed."""
        counts = np.zeros(len(self.features), dtype=np.int64)
        for portion in portions.tolist():
            rival, part = self.mixture()
            if rival == 0:  # no rival is worth its cost
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
        """Return the rounds that reduce the variance of a rival's score by the factor `ENOUGH`."""
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
        """Return the expected loss per round to each rival alone."""
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
