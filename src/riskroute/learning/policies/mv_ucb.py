"""MV-UCB: the index policy of Vakili and Zhao (2016), whose bonus grows with the rounds played."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from riskroute.core.validation import parameter, real_number, valid_magnitude
from riskroute.learning.policies.arm_policy import IndexPolicy


@dataclass(kw_only=True)
class MvUcb(IndexPolicy):
    """Index policy with a lower confidence bound whose width grows with the rounds played; needs no horizon.

    The index of an arm played ``n`` times in ``t`` rounds is its empirical mean-variance minus ``b sqrt(log(t) / n)``
    with ``b = scale * sqrt(exponent / concentration)``; by default ``b = sqrt(3) (2 + risk_tolerance) / sqrt(2)``, as
    in Zhu and Tan (2020). ``t`` is updated only at refreshes, so most rounds change the index of one arm only.

    Parameters
    ----------
    scale : float, optional
        Factor ``scale`` in ``b``. Default: ``2 + risk_tolerance``.
    exponent : float
        A bound fails in round ``t`` with a probability of about ``t^-exponent``; 3 as published.
    concentration : float
        Constant ``a`` of the tail bound: the mean of ``n`` rewards deviates by more than ``x`` with probability at most
        ``2 exp(-a n x^2)``.
    refresh : float
        ``t`` is updated when the number of rounds has grown by this fraction; 0: in every round.

    Examples
    --------
    >>> import riskroute as rr
    >>> policy = MvUcb().start(rr.Setting(actions=rr.Actions([[1.0], [0.5]]), risk_tolerance=2.0))
    >>> [round(policy.bonus_at(played), 3) for played in (1, 2, 100, 1000, 1001)]
    [0.0, 4.079, 10.513, 12.872, 12.872]

    References
    ----------
    Vakili and Zhao (2016), `Risk-Averse Multi-Armed Bandit Problems under Mean-Variance Measure
    <https://arxiv.org/abs/1604.05257>`_.

    Zhu and Tan (2020), `Thompson Sampling Algorithms for Mean-Variance Bandits
    <https://arxiv.org/abs/2002.00232>`_.
    """

    name: ClassVar[str] = "mv-ucb"
    needs_horizon: ClassVar[bool] = False

    scale: float | None = parameter(None, valid_magnitude, minimum=0)
    exponent: float = parameter(3.0, valid_magnitude, above=0)
    concentration: float = parameter(2.0, valid_magnitude, above=0)
    refresh: float = parameter(0.01, real_number, minimum=0, maximum=1)

    def resume(self) -> None:
        super().resume()
        self.refreshed = 1  # rounds at the latest refresh found, where the search for the next one starts

    def bonus_at(self, played: int) -> float:
        if played < self.refreshed:
            self.refreshed = 1
        while (following := self._next_refresh(self.refreshed)) <= played:
            self.refreshed = following
        return self._width() * math.sqrt(math.log(self.refreshed))

    def changes(self, rounds: int) -> list[int]:
        starts, refreshed = [0], self._next_refresh(1)
        while refreshed < rounds:
            starts.append(refreshed)
            refreshed = self._next_refresh(refreshed)
        return starts

    def _next_refresh(self, played: int) -> int:
        return max(math.ceil((1 + self.refresh) * played), played + 1)

    def _width(self) -> float:
        scale = 2 + self.setting.risk_tolerance if self.scale is None else self.scale
        return scale * math.sqrt(self.exponent / self.concentration)
