"""Thompson sampling with exponential discounting, for coefficients that drift or change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from riskroute.core.validation import parameter, valid_magnitude
from riskroute.learning.observations import Observations
from riskroute.learning.policies.thompson import Thompson


@dataclass(kw_only=True)
class Discounted(Thompson):
    """Thompson sampling with exponentially discounted rewards: a reward's weight halves every ``halflife`` rounds.

    Parameters
    ----------
    halflife : float
        Rounds after which the weight of a reward is one half.
    draws, width, growth, start_rounds, prior
        See `Thompson`. The prior is discounted at the same rate.

    Examples
    --------
    >>> Discounted(halflife=100)
    Discounted(growth=0.1, start_rounds=2, prior=None, draws=32, width=1.0, halflife=100)

    References
    ----------
    Russac, Vernade and Cappé (2019), `Weighted Linear Bandits for Non-Stationary Environments
    <https://arxiv.org/abs/1909.09146>`_.
    """

    name: ClassVar[str] = "discounted"

    halflife: float = parameter(2000.0, valid_magnitude, above=0)

    def remember(self, news: Observations) -> None:
        left = 0.5 ** (news.rounds / self.halflife)
        self.observations = self.observations.faded(left).joined(news)
        if self.base is not None:
            # the prior is dropped at a weight of a thousandth of a reward, before its precision underflows
            self.base = self.base.weakened(left) if self.base.rounds * left > 1e-3 else None
