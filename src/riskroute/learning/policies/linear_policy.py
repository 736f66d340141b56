"""Base class of policies that learn the coefficients of mean and variance from all rewards, on sets of any size."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.core.errors import StateError
from riskroute.core.validation import parameter, real_number, whole_number
from riskroute.learning.actions import Action
from riskroute.learning.belief import Belief
from riskroute.learning.belief_fit import PRIOR_SURPRISE as SURPRISE
from riskroute.learning.belief_fit import fit_belief, fit_vague_information, temper_prior
from riskroute.learning.design.g_optimal import g_optimal_coordinates
from riskroute.learning.design.rounding import round_exact_counts
from riskroute.learning.observations import Observations
from riskroute.learning.plan import LONGEST_HORIZON, Plan
from riskroute.learning.policy import Policy, memory
from riskroute.learning.state_checks import check_state_belief, check_state_information, check_state_round
from riskroute.learning.tally import Tallies

_DESIGN_TOLERANCE = 0.05
MOST_ROWS = 512  # most rows of observations; with more, they are folded into a posterior


@dataclass(kw_only=True)
class LinearPolicy(Policy):
    """Base class that stores observations by feature vector and refits a Gaussian posterior on a schedule.

    Without a ``prior``, the first plan is an optimal design of ``start_rounds`` rounds per dimension. Afterwards, the
    posterior is refitted whenever the number of rewards has grown by the fraction ``growth``, and a plan lasts from one
    refit to the next. Subclasses implement `explore`, which proposes these plans.

    Parameters
    ----------
    growth : float
        Relative growth of the number of rewards between refits; at 0.1, 100,000 rounds take about 90 plans.
    start_rounds : int
        Rounds per dimension of the first plan.
    prior : Belief, optional
        Posterior from earlier days: the `belief` of another policy over features of the same scale, perhaps
        down-weighted by `Belief.weakened`. It is down-weighted further if rewards contradict it.
    """

    needs_horizon: ClassVar[bool] = False
    fixed_set: ClassVar[bool] = False
    waits: ClassVar[bool] = False
    unit_free: ClassVar[bool] = True

    growth: float = parameter(0.1, real_number, above=0, maximum=1)
    start_rounds: int = parameter(2, whole_number, maximum=LONGEST_HORIZON)
    prior: Belief | None = None

    observations: Observations = memory(None)
    vague: Matrix = memory(None, check_state_information)
    base: Belief | None = memory(None)  # the prior, with older observations folded in
    belief: Belief | None = memory(None)
    fresh: float = memory(0.0, check_state_round)  # rewards since the last refit

    def check_parameters(self) -> None:
        if self.prior is not None:
            check_state_belief("prior", self.prior, self.setting.actions.dim)

    def begin(self) -> None:
        actions = self.setting.actions
        design = actions.design(_DESIGN_TOLERANCE)
        self.vague = fit_vague_information(actions.features(design.actions), design.weights, rewards=0.3)
        self.base, self.belief = self.expected(), self.prior
        self.observations = Observations.none(actions.dim)

    def expected(self) -> Belief | None:
        """Return the informative prior, used in addition to the vague prior; None if there is none."""
        return self.prior

    @property
    def surprise(self) -> float:
        """Standard deviations by which rewards may differ from the prior before the prior is down-weighted."""
        return SURPRISE

    def in_doubt(self, base: Belief) -> bool:
        """Return whether ``base`` is still the prior; once observations are folded in, it is not down-weighted."""
        return self.prior is not None and np.array_equal(base.mean_coef, self.prior.mean_coef)

    def in_units(self, factor: float) -> Self:
        prior = None if self.prior is None else self.prior.in_units(factor)
        return dataclasses.replace(self, prior=prior)

    @abstractmethod
    def explore(self, belief: Belief, rounds: int) -> Plan:
        """Return a plan of ``rounds`` rounds, given the posterior."""

    def objective(self, belief: Belief) -> tuple[Vector, Matrix]:
        """Return posterior mean and covariance of the coefficients of the score to minimise."""
        tolerance = self.setting.risk_tolerance
        return belief.score(tolerance), belief.score_covariance(tolerance)

    def propose(self) -> Plan:
        if self.belief is None:
            actions = self.setting.actions
            design = actions.design(_DESIGN_TOLERANCE)
            rounds = min(self.start_rounds * actions.dim, self.remaining)
            return Plan(design.actions, _start_counts(actions.features(design.actions), design.weights, rounds))
        rounds = min(self.due - math.floor(self.fresh), self.remaining)
        return self.explore(self.belief, max(rounds, 1))

    @property
    def due(self) -> int:
        """Number of new rewards after which the posterior is refitted."""
        return max(math.floor(self.pace * (self.belief.rounds if self.belief else 0.0)), 1)

    @property
    def pace(self) -> float:
        """Relative growth of the number of rewards between refits, for the current action set."""
        return self.growth

    def estimated_seconds(self, horizon: int, *, drawn_singly: bool) -> float:
        return 1e-3 + 1e-3 * math.log(max(horizon, 2)) / self.growth

    def observe(self, tallies: Tallies) -> None:
        self.remember(Observations.of(self.setting.actions.features(tallies.actions), tallies))
        self.fresh += tallies.rounds
        if self.belief is None or self.fresh >= self.due:
            self.refresh()

    def remember(self, news: Observations) -> None:
        """Add new observations; policies that discount or drop old observations override this."""
        self.observations = self.observations.joined(news)

    def refresh(self) -> None:
        """Refit the posterior to all observations."""
        self.fresh = 0.0
        self.belief = self.believed(self.observations)
        self.sum_up()

    def sum_up(self) -> None:
        """Fold the observations into the base posterior if they have too many rows."""
        if len(self.observations) > MOST_ROWS:
            self.base = self.belief
            self.observations = Observations.none(self.setting.actions.dim)

    def believed(self, observations: Observations) -> Belief:
        """Return the posterior after ``observations``, given the base posterior."""
        base, variance = self.base, self.setting.base_variance
        if base is not None and self.in_doubt(base):
            base = temper_prior(base, observations, base_variance=variance, vague=self.vague, surprise=self.surprise)
        unit = self.setting.risk_tolerance**2 or 1.0  # has the unit of a variance
        return fit_belief(observations, base_variance=variance, vague=self.vague, prior=base, unit=unit)

    def recommend(self) -> Action:
        if self.belief is None:
            raise StateError(f"{self.name} has not finished its first plan and cannot recommend an action yet")
        return self.setting.actions.best(self.objective(self.belief)[0])


class RiskNeutralPolicy(LinearPolicy):
    """Mixin for policies that maximise the mean and ignore the variance."""

    def objective(self, belief: Belief) -> tuple[Vector, Matrix]:
        return -belief.mean_coef, belief.mean_covariance


def _start_counts(features: Matrix, weights: Vector, rounds: int) -> Integers:
    """Apportion ``rounds`` rounds to a design with features ``(n, dim)`` and weights ``(n,)``."""
    if rounds >= len(weights):
        return round_exact_counts(weights, rounds)
    # The actions with the largest weights may all lie in a subspace. So actions that span the space are chosen first,
    # each the farthest from the span of the earlier ones, then those with the largest weights.
    rows = features * np.sqrt(weights)[:, None]
    rows = rows @ g_optimal_coordinates(rows)
    counts = np.zeros(len(weights), dtype=np.int64)
    spanned = np.zeros((min(rounds, rows.shape[1]), rows.shape[1]))
    far = np.einsum("ij,ij->i", rows, rows)
    for known in range(len(spanned)):
        # ties: the first action within a relative 1e-6 of the maximum is chosen
        next_ = int(np.argmax(far >= (1 - 1e-6) * far.max()))
        counts[next_] = 1
        direction = rows[next_]
        for _ in range(2):  # a single pass of Gram-Schmidt loses digits
            direction = direction - (direction @ spanned[:known].T) @ spanned[:known]
        spanned[known] = direction / np.sqrt(direction @ direction)
        far -= (rows @ spanned[known]) ** 2
    rest = np.where(counts > 0, 0.0, weights)
    return counts + round_exact_counts(rest, rounds - int(counts.sum()))
