"""Thompson sampling on a sliding window of rounds, for coefficients that drift or change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from riskroute.core.validation import parameter, whole_number
from riskroute.learning.observations import Observations
from riskroute.learning.policies.thompson import Thompson
from riskroute.learning.policy import memory


@dataclass(kw_only=True)
class SlidingWindow(Thompson):
    """Thompson sampling on the last ``window`` rounds; older rounds are dropped in blocks of a sixteenth of the window.

    Parameters
    ----------
    window : int
        Rounds in the window.
    draws, width, growth, start_rounds, prior
        See `Thompson`. The prior is dropped after ``window`` rounds.

    Examples
    --------
    >>> SlidingWindow(window=100)
    SlidingWindow(growth=0.1, start_rounds=2, prior=None, draws=32, width=1.0, window=100)

    References
    ----------
    Cheung, Simchi-Levi and Zhu (2019), `Learning to Optimize under Non-Stationarity
    <https://arxiv.org/abs/1810.03024>`_.
    """

    name: ClassVar[str] = "sliding-window"

    window: int = parameter(5000, whole_number)

    pieces: list[tuple[int, Observations]] = memory(None)  # per block: last round of its first plan, observations

    def begin(self) -> None:
        self.pieces = []
        super().begin()

    def remember(self, news: Observations) -> None:
        now = self.played
        if self.pieces and now - self.pieces[-1][0] < self.window / 16:  # the last block is not full
            last, observations = self.pieces.pop()
            self.pieces.append((last, observations.joined(news)))
        else:
            self.pieces.append((now, news))
        self.pieces = [piece for piece in self.pieces if piece[0] > now - self.window]
        self.observations = Observations.none(self.setting.actions.dim).joined(*(piece[1] for piece in self.pieces))
        if now > self.window:
            self.base = None

    def sum_up(self) -> None:
        """Do nothing: blocks folded into a posterior could no longer be dropped."""
