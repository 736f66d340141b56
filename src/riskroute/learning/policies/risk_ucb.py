"""RiskUCB: the index policy MV-LCB of Sani, Lazaric and Munos (2012), with every action as a separate arm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from riskroute.core.validation import parameter, valid_magnitude
from riskroute.learning.policies.arm_policy import IndexPolicy


@dataclass(kw_only=True)
class RiskUcb(IndexPolicy):
    """Index policy with the lower confidence bound of the mean-variance (MV-LCB).

    The index of an arm played ``n`` times is its empirical mean-variance minus
    ``scale * sqrt(log(1 / delta) / (divisor * n))``. Published implementations disagree on the constants, so each is a
    parameter.

    Parameters
    ----------
    scale : float, optional
        Factor on the confidence width. Default: ``5 + risk_tolerance``, as published.
    divisor : float
        Divisor in the confidence width; 2 as published.
    delta : float, optional
        Probability that a confidence bound fails. Default: ``1/T^2``.

    Examples
    --------
    >>> import riskroute as rr
    >>> policy = RiskUcb().start(rr.Setting(actions=rr.Actions([[1.0, 0.0], [0.0, 1.0]]), horizon=1000))
    >>> round(policy.bonus_at(0), 3)
    18.398

    References
    ----------
    Sani, Lazaric and Munos (2012), `Risk-Aversion in Multi-armed Bandits
    <https://papers.nips.cc/paper/4753-risk-aversion-in-multi-armed-bandits>`_.
    """

    name: ClassVar[str] = "risk-ucb"

    scale: float | None = parameter(None, valid_magnitude, minimum=0)
    divisor: float = parameter(2.0, valid_magnitude, above=0)
    delta: float | None = parameter(None, valid_magnitude, above=0, maximum=1)

    def changes(self, rounds: int) -> list[int]:
        return [0]

    def bonus_at(self, played: int) -> float:
        """Return the confidence width of an arm played once, which is the same in all rounds."""
        setting = self.setting
        delta = self.horizon**-2.0 if self.delta is None else self.delta
        scale = 5 + setting.risk_tolerance if self.scale is None else self.scale
        return scale * math.sqrt(math.log(1 / delta) / self.divisor)
