"""The recommended policy with a change test: it restarts when recent rewards contradict the earlier posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import chdtrc, fdtr, fdtrc, ndtri, stdtr

from riskroute.core.arrays import Flags, Matrix, Vector
from riskroute.core.validation import parameter, real_number, whole_number
from riskroute.learning.belief import LEAST_VARIANCE, Belief
from riskroute.learning.observations import Observations
from riskroute.learning.policies.adaptive import Adaptive
from riskroute.learning.policies.linear_policy import MOST_ROWS
from riskroute.learning.policy import memory
from riskroute.learning.state_checks import check_state_round


@dataclass(kw_only=True)
class ChangeTest(Adaptive):
    """Adaptive policy that tests after every plan whether the last 1, 2, 4, 8 or 16 plans fit the earlier posterior.

    The sample mean of an action is compared with its posterior mean by Student's t, and its sample variance by Fisher's
    F, since the posterior variances are estimates too. Actions about which the posterior holds the information of fewer
    than 100 rewards are skipped. Errors of different actions are correlated through the posterior. They are therefore
    converted to normal scores, whose squared Mahalanobis length is compared with a chi-squared distribution. After an
    alarm only the plans that raised it are kept, and exploration restarts.

    Since further changes are likely, exploration must pay off within as many rounds as have passed since the last
    restart.

    Parameters
    ----------
    check_every : int
        Maximum rounds per plan; shorter plans detect changes sooner.
    level : float
        Probability of a false alarm per test.
    patience, draws, portions, budget, assumed_size, growth, start_rounds, prior
        See `Adaptive`. Default of ``assumed_size``: 0, since coefficients change.

    Examples
    --------
    >>> policy = ChangeTest(level=1e-4)
    >>> policy.spans, policy.check_every, policy.level
    ((1, 2, 4, 8, 16), 250, 0.0001)

    References
    ----------
    Wu, Iyer and Wang (2018), `Learning Contextual Bandits in a Non-stationary Environment
    <https://arxiv.org/abs/1805.09365>`_.
    """

    name: ClassVar[str] = "change-test"
    spans: ClassVar[tuple[int, ...]] = (1, 2, 4, 8, 16)  # numbers of latest plans tested together
    enough_rewards: ClassVar[float] = 100.0  # effective sample size from which a posterior is tested

    check_every: int = parameter(250, whole_number)
    level: float = parameter(1e-6, real_number, above=0, below=1)
    assumed_size: float = 0.0

    recent: list[Observations] = memory(None)  # observations of the last plans, newest last
    settled: Observations = memory(None)  # observations of all earlier plans
    restarts: list[int] = memory(None, check_state_round)  # rounds after which exploration restarted

    def begin(self) -> None:
        super().begin()
        self.recent, self.restarts = [], []
        self.settled = Observations.none(self.setting.actions.dim)

    @property
    def due(self) -> int:
        return min(super().due, self.check_every)

    def ahead(self) -> int:
        return min(self.played - (self.restarts[-1] if self.restarts else 0), self.remaining)

    def remember(self, news: Observations) -> None:
        if self.recent and self.fresh > 0:  # a change of action set ended the plan early: continue it
            self.recent[-1] = self.recent[-1].joined(news)
        else:
            self.recent.append(news)
        if len(self.recent) > self.spans[-1]:
            self.settled = self.settled.joined(self.recent.pop(0))
        self.gather()

    def gather(self) -> None:
        """Join settled and recent observations; fold the settled ones into the base posterior if they are many."""
        if len(self.settled) > MOST_ROWS:
            self.base = self.believed(self.settled)
            self.settled = Observations.none(self.setting.actions.dim)
        self.observations = self.settled.joined(*self.recent)

    def refresh(self) -> None:
        span = self._contradicted()
        if span is not None:
            self._restart(span)
        super().refresh()

    def sum_up(self) -> None:
        """Do nothing: `gather` turns settled observations into a posterior."""

    def _restart(self, span: int) -> None:
        self.recent = self.recent[-span:]
        self.settled = Observations.none(self.setting.actions.dim)
        self.observations = self.settled.joined(*self.recent)
        self.base = None
        self.restarts.append(self.played)

    def _contradicted(self) -> int | None:
        """Return the smallest number of latest plans that contradict the earlier posterior; None if none do."""
        # The reference is the posterior before all recent plans: a change a few plans ago does not affect it. If it is
        # too vague about the action most played in the tested plans, all plans before these are added to it.
        settled: Belief | None = None
        known = self.settled.rounds + (self.base.rounds if self.base else 0.0)
        for span in self.spans:
            if span <= len(self.recent):
                earlier = self.recent[:-span]
                if known + sum(part.rounds for part in earlier) < self.enough_rewards - 1:
                    break
                latest = self.recent[-span].joined(*self.recent[-span:][1:])
                settled = before = settled or self.believed(self.settled)
                if earlier and self._rewards_behind(settled, latest)[np.argmax(latest.counts)] < self.enough_rewards:
                    before = self.believed(self.settled.joined(*earlier))
                if before.rounds < self.enough_rewards:
                    continue
                distance, compared = self._distance(before, latest)
                if compared and chdtrc(compared, distance) < self.level:
                    return span
        return None

    def _rewards_behind(self, before: Belief, latest: Observations) -> Vector:
        """Return the effective sample size behind the posterior variance of each row, in rewards."""
        believed = latest.features @ before.var_coef + self.setting.base_variance
        variance = np.maximum(believed, LEAST_VARIANCE * before.variance)
        blur = np.einsum("ij,ij->i", latest.features, np.linalg.solve(before.var_precision, latest.features.T).T)
        # floor on the relative variance: all-zero features carry no information
        return np.asarray(2 / np.maximum(blur / variance**2, 1e-12))

    def _distance(self, before: Belief, latest: Observations) -> tuple[float, int]:
        """Return the squared distance of means and variances from the posterior, and its degrees of freedom."""
        floor = LEAST_VARIANCE * before.variance
        believed = latest.features @ before.var_coef + self.setting.base_variance
        variance = np.maximum(believed, floor)
        blur = latest.features @ np.linalg.solve(before.var_precision, latest.features.T)
        rewards = self._rewards_behind(before, latest)
        known = rewards >= self.enough_rewards
        lever = latest.features @ np.linalg.solve(before.mean_precision, latest.features.T)
        covariance = np.diag(variance / latest.counts) + lever
        error = (latest.means - latest.features @ before.mean_coef) / np.sqrt(np.diag(covariance))
        of_means = _normal(stdtr(rewards, error), stdtr(rewards, -error))
        free = np.maximum(latest.counts - 1, 1e-9)
        ratio = latest.spreads / free / variance
        of_variances = _normal(fdtr(free, rewards, ratio), fdtrc(free, rewards, ratio))
        spread = np.diag(2 / free) + blur / np.outer(variance, variance)
        several = known & (latest.counts >= 2) & (believed >= floor)
        distance = _squared(of_means, covariance, known) + _squared(of_variances, spread, several)
        return distance, int(known.sum() + several.sum())


def _normal(below: Vector, above: Vector) -> Vector:
    """Return standard normal scores with the given lower and upper tail probabilities."""
    score = -ndtri(np.maximum(np.minimum(below, above), 1e-300))
    return np.asarray(np.where(above < below, score, -score))


def _squared(scores: Vector, covariance: Matrix, chosen: Flags) -> float:
    """Return the squared Mahalanobis length of the chosen scores, with correlations from ``covariance``."""
    deviation = np.sqrt(np.diag(covariance))
    correlation = (covariance / np.outer(deviation, deviation))[np.ix_(chosen, chosen)]
    return float(scores[chosen] @ np.linalg.solve(correlation, scores[chosen]))
