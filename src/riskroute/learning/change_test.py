"""The recommended policy with a test for change: when recent rewards contradict older ones, it starts afresh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import chdtrc

from riskroute.errors import real_number, whole_number
from riskroute.learning.adaptive import Adaptive
from riskroute.learning.belief import Belief
from riskroute.learning.evidence import Evidence
from riskroute.learning.policy import memory

_SPANS = (1, 2, 4, 8, 16)  # plans back that are tested together
_LEAST_VARIANCE = 0.1  # of an action, in parts of the typical one
_FEW = 8.0  # rewards below which a squared residual is too skewed to be tested


@dataclass(kw_only=True)
class ChangeTest(Adaptive):
    """Tests after every plan whether the last 1, 2, 4, 8 or 16 plans agree with what was believed before them.

    The statistic adds up squared standardised errors of means and variances, one per action, and is compared with a
    chi-squared law. After an alarm only the plans that raised it are kept, and exploration begins anew.

    Parameters
    ----------
    check_every : a plan has at most so many rounds; shorter finds changes sooner.
    level : probability of a false alarm per test.
    patience, draws, portions, budget, growth, start_rounds, prior : see `Adaptive`.

    Since changes are to come, exploration is worth what it brings in as many rounds as have passed since the last one.
    """

    name: ClassVar[str] = "change-test"

    check_every: int = 100
    level: float = 1e-6

    recent: list[Evidence] = memory()  # of the last plans, newest last
    settled: Evidence = memory()  # of all plans before those
    restarts: list[int] = memory()  # rounds after which exploration began anew

    def begin(self) -> None:
        whole_number("check_every", self.check_every)
        real_number("level", self.level, above=0, below=1)
        super().begin()
        self.recent, self.restarts = [], []
        self.settled = Evidence.none(self.known.actions.dim)

    @property
    def due(self) -> int:
        return min(super().due, self.check_every)

    def ahead(self) -> int:
        return min(self.played - (self.restarts[-1] if self.restarts else 0), self.remaining)

    def remember(self, news: Evidence) -> None:
        if self.recent and self.fresh > 0:  # an offer of other actions ended the plan early: it goes on
            self.recent[-1] = self.recent[-1].joined(news)
        else:
            self.recent.append(news)
        if len(self.recent) > _SPANS[-1]:
            self.settled = self.settled.joined(self.recent.pop(0))
        self.evidence = self.settled.joined(*self.recent)

    def refresh(self) -> None:
        span = self._contradicted()
        if span is not None:
            self._restart(span)
        self.fresh = 0.0
        self.belief = self.believed(self.evidence)

    def _restart(self, span: int) -> None:
        self.recent = self.recent[-span:]
        self.settled = Evidence.none(self.known.actions.dim)
        self.evidence = self.settled.joined(*self.recent)
        self.base = None
        self.restarts.append(self.played)

    def _contradicted(self) -> int | None:
        """Number of latest plans that contradict what was believed before the oldest recent one; None if none do."""
        if self.settled.rounds < self.start_rounds * self.known.actions.dim:
            return None
        before = self.believed(self.settled)
        for span in _SPANS:
            if span <= len(self.recent):
                latest = self.recent[-span].joined(*self.recent[len(self.recent) - span + 1 :])
                errors = self._errors(before, latest)
                if chdtrc(len(errors), errors.sum()) < self.level:
                    return span
        return None

    def _errors(self, before: Belief, latest: Evidence) -> np.typing.NDArray[np.float64]:
        """Squared standardised errors of the means, and of the variances where there are enough rewards."""
        known, features = self.known, latest.features
        variance = features @ before.var_coef + known.base_variance
        variance = np.maximum(variance, _LEAST_VARIANCE * before.variance)
        lever = np.einsum("ij,ij->i", features, np.linalg.solve(before.mean_precision, features.T).T)
        off = latest.means - features @ before.mean_coef
        of_means = off**2 / (variance / latest.counts + lever)
        many = latest.counts >= _FEW
        blur = np.einsum("ij,ij->i", features, np.linalg.solve(before.var_precision, features.T).T)
        residual = latest.spreads / latest.counts + off**2
        expected = variance + lever
        of_variances = (residual - expected) ** 2 / (2 * variance**2 / latest.counts + blur)
        return np.concatenate([of_means, of_variances[many]])
