"""Base class of policies that learn both coefficient vectors from all rewards, on action sets of any size."""

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
from riskroute.learning.belief_fit import fit_belief, temper_prior, vague_information
from riskroute.learning.design.g_optimal import round_coordinates
from riskroute.learning.design.rounding import round_exact_counts
from riskroute.learning.observations import Observations
from riskroute.learning.plan import LONGEST_HORIZON, Plan
from riskroute.learning.policy import Policy, memory
from riskroute.learning.state import check_belief, check_information, check_past_round
from riskroute.learning.tally import Tallies

_DESIGN_TOLERANCE = 0.05
MOST_ROWS = 512  # rows of observations kept as they are; more are summed up in a belief


@dataclass(kw_only=True)
class LinearPolicy(Policy):
    """Keep the observations by feature vector, and a belief that is refreshed on a schedule.

    Without a ``prior``, an optimal design is played first, for ``start_rounds`` rounds per dimension. From then on the
    belief is refreshed whenever the rewards it rests on have grown by the fraction ``growth``; in between, plans need
    no feedback. Subclasses implement `explore`, which proposes such a plan.

    Parameters
    ----------
    growth : float
        Growth of the rewards after which the belief is refreshed; with 0.1, 100,000 rounds take about 90 plans.
    start_rounds : int
        Rounds per dimension of the first plan.
    prior : Belief, optional
        A belief from earlier days (`belief` of another policy, perhaps `Belief.weakened`), over features of the
        same scale. If rewards contradict it, it counts for less.
    """

    needs_horizon: ClassVar[bool] = False
    fixed_set: ClassVar[bool] = False
    waits: ClassVar[bool] = False
    unit_free: ClassVar[bool] = True

    growth: float = parameter(0.1, real_number, above=0, maximum=1)
    start_rounds: int = parameter(2, whole_number, maximum=LONGEST_HORIZON)
    prior: Belief | None = None

    observations: Observations = memory(None)
    vague: Matrix = memory(None, check_information)
    base: Belief | None = memory(None)  # the prior, and what was summed up
    belief: Belief | None = memory(None)
    fresh: float = memory(0.0, check_past_round)  # rewards not yet in the belief

    def check_parameters(self) -> None:
        if self.prior is not None:
            check_belief("prior", self.prior, self.setting.actions.dim)

    def begin(self) -> None:
        actions = self.setting.actions
        design = actions.design(_DESIGN_TOLERANCE)
        # number of rewards that the vague belief counts for
        self.vague = vague_information(actions.features(design.actions), design.weights, 0.3)
        self.base, self.belief = self.expected(), self.prior
        self.observations = Observations.none(actions.dim)

    def expected(self) -> Belief | None:
        """Return what is believed before any reward, beyond the vague belief."""
        return self.prior

    @property
    def surprise(self) -> float:
        """Standard deviations by which rewards may be off from what was believed before them."""
        return SURPRISE

    def in_doubt(self, base: Belief) -> bool:
        """Tell whether what is built on is still what was believed before any reward, which rewards may contradict."""
        return self.prior is not None and np.array_equal(base.mean_coef, self.prior.mean_coef)

    def in_units(self, factor: float) -> Self:
        prior = None if self.prior is None else self.prior.in_units(factor)
        return dataclasses.replace(self, prior=prior)

    @abstractmethod
    def explore(self, belief: Belief, rounds: int) -> Plan:
        """Return a plan of ``rounds`` rounds."""

    def objective(self, belief: Belief) -> tuple[Vector, Matrix]:
        """Centre and covariance of the coefficients of the score to minimise."""
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
        """Number of rewards after which the belief is refreshed."""
        return max(math.floor(self.pace * (self.belief.rounds if self.belief else 0.0)), 1)

    @property
    def pace(self) -> float:
        """Growth of the rewards after which the belief is refreshed, on the actions that are offered."""
        return self.growth

    def estimated_seconds(self, horizon: int, *, drawn_singly: bool) -> float:
        return 1e-3 + 1e-3 * math.log(max(horizon, 2)) / self.growth

    def observe(self, tallies: Tallies) -> None:
        self.remember(Observations.of(self.setting.actions.features(tallies.actions), tallies))
        self.fresh += tallies.rounds
        if self.belief is None or self.fresh >= self.due:
            self.refresh()

    def remember(self, news: Observations) -> None:
        """Add to the observations; policies that forget do so here."""
        self.observations = self.observations.joined(news)

    def refresh(self) -> None:
        """Fit the belief to the observations."""
        self.fresh = 0.0
        self.belief = self.believed(self.observations)
        self.sum_up()

    def sum_up(self) -> None:
        """Turn the observations into a belief to build on, if it has too many rows."""
        if len(self.observations) > MOST_ROWS:
            self.base = self.belief
            self.observations = Observations.none(self.setting.actions.dim)

    def believed(self, observations: Observations) -> Belief:
        """Fit the belief to some observations, on top of what is kept of earlier ones."""
        base, variance = self.base, self.setting.base_variance
        if base is not None and self.in_doubt(base):
            base = temper_prior(base, observations, base_variance=variance, vague=self.vague, surprise=self.surprise)
        unit = self.setting.risk_tolerance**2 or 1.0  # the risk tolerance has the unit of rewards, and is known
        return fit_belief(observations, base_variance=variance, vague=self.vague, prior=base, unit=unit)

    def recommend(self) -> Action:
        if self.belief is None:
            raise StateError(f"{self.name} has not finished its first plan and cannot recommend an action yet")
        return self.setting.actions.best(self.objective(self.belief)[0])


class RiskNeutralPolicy(LinearPolicy):
    """Mixin that makes a policy look at the mean alone."""

    def objective(self, belief: Belief) -> tuple[Vector, Matrix]:
        return -belief.mean_coef, belief.mean_covariance


def _start_counts(features: Matrix, weights: Vector, rounds: int) -> Integers:
    """Apportion ``rounds`` rounds to a design, features ``(n, dim)`` with weights ``(n,)``, to identify most.

    With fewer rounds than actions in the design, those with the largest weights may all lie in a subspace. Then the
    actions that span the space come first, each the farthest from the span of those before it, and the largest weights
    after them.

    Examples
    --------
    >>> weights = np.array([0.4, 0.35, 0.25])
    >>> _start_counts(np.array([[1.0, 0.0], [0.9, 0.0], [0.0, 1.0]]), weights, 2).tolist()
    [1, 0, 1]
    >>> round_exact_counts(weights, 2).tolist()
    [1, 1, 0]
    """
    if rounds >= len(weights):
        return round_exact_counts(weights, rounds)
    rows = features * np.sqrt(weights)[:, None]
    rows = rows @ round_coordinates(rows)
    counts = np.zeros(len(weights), dtype=np.int64)
    spanned = np.zeros((min(rounds, rows.shape[1]), rows.shape[1]))
    far = np.einsum("ij,ij->i", rows, rows)
    for known in range(len(spanned)):
        # tie tolerance: among the actions within it of the maximum, the first is chosen
        next_ = int(np.argmax(far >= (1 - 1e-6) * far.max()))
        counts[next_] = 1
        direction = rows[next_]
        for _ in range(2):  # Gram-Schmidt loses digits the first time
            direction = direction - (direction @ spanned[:known].T) @ spanned[:known]
        spanned[known] = direction / np.sqrt(direction @ direction)
        far -= (rows @ spanned[known]) ** 2
    rest = np.where(counts > 0, 0.0, weights)
    return counts + round_exact_counts(rest, rounds - int(counts.sum()))
