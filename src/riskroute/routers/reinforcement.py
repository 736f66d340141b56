"""Reinforcement: pools get shares of an order in proportion to what they have saved so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from riskroute.core.parameters import parameter
from riskroute.core.validation import real_number, true_or_false, whole_number
from riskroute.routers.lagrangian import DarkShares


@dataclass
class Reinforcement(DarkShares):
    """Give every pool the share of an order that it has in all savings so far.

    Sizes of orders and of what pools hold may be any stationary sequence. The shares settle where the *average* saving
    of what is sent to a pool is the same for all, not the marginal one, and pools that cannot keep up die out: less
    than optimal, and simple.

    Parameters
    ----------
    weighted : bool
        Whether fills are weighed with what they save.
    start : float
        What every pool counts as having saved at first, in average orders that were filled whole.
    seed : int
        Of the rounding.

    References
    ----------
    Laruelle, Lehalle and Pages (2011), `Optimal split of orders across liquidity pools: a stochastic algorithm approach
    <https://arxiv.org/abs/0910.1166>`_.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> Reinforcement().route(read_context(books, side="sell", shares=300)).dark
    {'P': 150, 'Q': 150}
    """

    name: ClassVar[str] = "reinforcement+sweep"
    memory: ClassVar[tuple[str, ...]] = ("waiting", "shares", "scale")
    weighted: bool = parameter(True, true_or_false)
    start: float = parameter(1.0, real_number, minimum=1e-9, maximum=1e9)
    seed: int = parameter(0, whole_number, minimum=0)
    scale: float = field(init=False, repr=False)
    """What the first order would have saved if it had been filled whole; 0 before."""

    def begin(self) -> None:
        super().begin()
        self.scale = 0.0

    def learn_child(self, order: Mapping[str, Any], pool: str, sent: int, filled: float) -> None:
        savings = order["savings"] if self.weighted else dict.fromkeys(order["savings"], 1.0)
        if not self.scale:
            self.scale = max(savings.values()) * order["units"] * order["unit"] * self.start
        gained = filled * order["unit"] * savings[pool] / self.scale
        self.shares[pool] += gained


def reinforcement_step(
    sums: Sequence[float], filled: Sequence[float], worth: Sequence[float]
) -> tuple[list[float], list[float]]:
    """What pools have saved after a round, and the shares of the next order that follow.

    Examples
    --------
    >>> reinforcement_step([1.0, 1.0], [2.0, 0.0], [0.5, 1.0])
    ([2.0, 1.0], [0.6666666666666666, 0.3333333333333333])
    """
    after = [before + fill * value for before, fill, value in zip(sums, filled, worth, strict=True)]
    total = sum(after)
    return after, [some / total for some in after]
