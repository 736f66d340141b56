"""Optimism about a dark pool's presence and sizes, after Montanari et al.: a reconstruction from the abstract."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from riskroute.core.arrays import Units, Vector
from riskroute.core.parameters import parameter
from riskroute.core.validation import real_number
from riskroute.routers.dark_allocation import AllocationTask
from riskroute.routers.parml import ParMl, fit_exponent, power_tails


@dataclass
class RaUcb(ParMl):
    """Split an order over pools by the best sizes that their fills do not rule out: a zero bin and a power law.

    The published method was known to us by its abstract only: resources whose activation has an unknown probability
    and whose threshold is random, and optimism about both. Here the model is that of `ParMl`. The presence of a pool
    is the greatest, and the exponent of its sizes the smallest, that is less likely than the best fit by a factor of
    at most the number of orders to the power ``width``. Unlike `ParMl`, it does not give up a pool after bad luck.

    Parameters
    ----------
    delay_cost : float
        Dollars a share that it costs to find a pool empty; lots not worth it are swept at once.
    seed : int
        Of the draws among equals.
    width : float
        How optimistic; 0 is `ParMl`.

    References
    ----------
    Montanari, Fiegel, Pla, Saha and Perchet (2026), `arXiv 2602.06565 <https://arxiv.org/abs/2602.06565>`_.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> sum(RaUcb().route(read_context(books, side="sell", shares=300, lot=100)).dark.values())
    300
    """

    name: ClassVar[str] = "ra-ucb+sweep"
    memory: ClassVar[tuple[str, ...]] = ("waiting", "counts", "played")
    width: float = parameter(0.5, real_number, minimum=0, maximum=1000)

    def begin(self) -> None:
        super().begin()
        self.played = 0

    def allocate(self, task: AllocationTask) -> tuple[Units, dict[str, Any]]:
        self.played += 1
        return super().allocate(task)

    def fitted(self, children: float, empty: float, some: float, logs: float, full: Vector) -> Vector:
        less = self.width * math.log(self.played)
        presence = highest_chance(children - empty, children, less)
        return power_tails(1 - presence, fit_exponent(some, logs, full, len(full), less), len(full))


def highest_chance(successes: float, trials: float, less: float) -> float:
    """The greatest probability whose log-likelihood is at most ``less`` below the greatest.

    Examples
    --------
    >>> round(highest_chance(0, 10, 1.0), 6)  # (1 - p)^10 = 1 / e
    0.095163
    """
    share = successes / trials

    def lost(chance: float) -> float:
        hits = successes * math.log(share / chance) if successes else 0.0
        misses = (trials - successes) * math.log((1 - share) / (1 - chance)) if successes < trials else 0.0
        return hits + misses

    low, high = share, 1.0
    for _ in range(50):
        between = (low + high) / 2
        if between < 1 and lost(between) <= less:
            low = between
        else:
            high = between
    return high if successes == trials else low
