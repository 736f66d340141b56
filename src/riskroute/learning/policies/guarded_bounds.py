"""The numbers behind the guarantee of `riskroute.learning.policies.guarded`; docs/guarantee.md proves them.

What is known beforehand bounds what a round can cost. With ``L`` the largest norm of a feature vector, ``S`` and ``P``
bounds on the norms of the mean and variance coefficients, no variance exceeds ``base_variance + L P``, no two means
differ by more than ``2 L S``, and no gap exceeds ``2 L (P + risk_tolerance S)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from riskroute.learning.plan import Setting


@dataclass(frozen=True)
class GuardedBounds:
    """What is known of a setting before any reward is seen.

    Attributes
    ----------
    horizon : int
        Rounds in all.
    log_actions : float
        Logarithm of the number of actions.
    leverage : float
        Bound on the leverages of the design that is explored by.
    risk_tolerance : float
        Weight of the mean.
    variance : float
        Largest possible variance of a reward; infinite where nothing is known.
    gap : float
        Largest possible gap.
    mean_difference : float
        Largest possible difference of two means.
    """

    horizon: int
    log_actions: float
    leverage: float
    risk_tolerance: float
    variance: float
    gap: float
    mean_difference: float

    @classmethod
    def of(cls, setting: Setting, leverage: float, mean_bound: float, var_bound: float | None) -> GuardedBounds:
        """Derive them from a setting with a horizon; a ``var_bound`` of None is the base variance, unless it is 0."""
        norm, rho = setting.actions.largest_norm(), setting.risk_tolerance
        if var_bound is None:
            var_bound = setting.base_variance or math.inf
        return cls(
            horizon=setting.horizon or 1,
            log_actions=math.log(setting.actions.size),
            leverage=leverage,
            risk_tolerance=rho,
            variance=setting.base_variance + (norm * var_bound if norm else 0.0),
            gap=2 * norm * (var_bound + rho * mean_bound) if norm else 0.0,
            mean_difference=2 * norm * mean_bound,
        )

    @property
    def known(self) -> bool:
        """Whether anything can be guaranteed, and there is anything to lose."""
        return 0 < self.round_cost < math.inf and 0 < self.leverage < math.inf and 0 < self.variance < math.inf

    @property
    def round_cost(self) -> float:
        """Most that one round can add to the expected regret: the gap, and the squared difference of means."""
        return self.gap + self.mean_difference * self.mean_difference

    def confidence(self, check: int) -> float:
        """Return ``u`` such that ``exp(-u)``, for both signs of all actions and for all checks, adds up to ``1/T``."""
        return self.log_actions + math.log(2 * check * (check + 1)) + math.log(self.horizon)

    def width(self, rounds: float, check: int, ratio: float = 1.0) -> float:
        """Bound the errors of all estimated mean-variances at a check (1, 2, ...) after ``rounds`` rounds of design.

        ``ratio`` is the largest ``n / (n - 1)`` over the actions explored, each of them ``n`` times.
        """
        u, lever = self.confidence(check), self.leverage / rounds
        return math.sqrt(2 * u * lever * self._noise(ratio)) + 2 * ratio * self.variance * u * lever

    def _noise(self, ratio: float = 1.0) -> float:
        """Largest variance of one reward's estimate of a mean-variance."""
        return self.variance * (2 * ratio * self.variance + self.risk_tolerance * self.risk_tolerance)

    @property
    def balanced_rounds(self) -> float:
        """Rounds of exploration that cost as much as what they leave undecided, at worst; at most the horizon.

        They solve ``round_cost * n = 4 T width``, where only the leading term of the width counts.
        """
        leading = math.sqrt(2 * self.confidence(1) * self.leverage * self._noise())
        logarithm = math.log(4 * self.horizon) + math.log(leading) - math.log(self.round_cost)
        return math.exp(min(logarithm * 2 / 3, math.log(self.horizon)))

    def checks(self, rounds: float) -> list[float]:
        """Rounds after which estimates are looked at, doubling, the last of them ``rounds``.

        Before the first of them no action could be certified to be better than every other.
        """
        least = 32 * self.confidence(1) * self.leverage * (self._noise() / self.gap / self.gap)
        doublings = max(math.floor(math.log2(max(rounds, 1.0) / max(least, 1.0))), 0)
        return [rounds / 2**k for k in range(doublings, -1, -1)]

    def regret(self, explored: int, width: float, away: float) -> float:
        """Bound the expected regret (docs/guarantee.md, theorem 1).

        Parameters
        ----------
        explored : int
            Rounds of exploration.
        width : float
            Bound on the errors of the estimates after them.
        away : float
            Most rounds in which another action is played than the one played most, from then on.
        """
        square, rounds = self.mean_difference * self.mean_difference, float(self.horizon)
        trivial = self.variance + rounds * self.round_cost
        exploring = self.round_cost * (explored + 1)
        inside = rounds * min(4 * width, self.gap) + square * min(away, rounds)
        noise = 2 * self.mean_difference * math.sqrt(self.variance * rounds)
        return min(self.variance + exploring + inside + noise, trivial)
