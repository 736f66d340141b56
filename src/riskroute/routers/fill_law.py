"""How likely limit orders are not to fill, given how far the mid moves: a hazard regression on public outcomes.

Whether an order at the end of a queue would have filled, and where the mid was at the horizon, is public. The log-odds
not to fill are linear in the move, in the logarithm of the shares before its middle share over those that leave the
queue, in the ticks behind the best price, and in the imbalance. There is one regression for horizons that are alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.learning.hazard_regression import HazardRegression
from riskroute.routers.moment import MarketFeatures, PostingFeatures, horizon_class
from riskroute.routers.router import PublicData

COVARIATES = 4
"""Numbers that log-odds depend on: move, queue over outflow, ticks behind the best price, imbalance."""

KEPT = 2000
"""Outcomes kept for every class of horizons."""

_LARGEST = 5.0  # of any covariate: outliers count as this much
_UNFILLED = 0.3  # of a market that nobody has seen yet


class FillLaw:
    """Log-odds that limit orders do not fill, by class of horizons.

    Examples
    --------
    >>> FillLaw().coefficients(60.0).round(3).tolist()
    [-0.847, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(self) -> None:
        self.classes: dict[str, HazardRegression] = {}

    def learn(self, public: PublicData, moment: MarketFeatures, seen: PostingFeatures, spread: float) -> None:
        """Learn from the outcomes of a moment; ``spread`` is the deviation of the mid that was expected, in dollars."""
        context, later = public.context, public.at_horizon
        if later is None or not spread > 0:
            return
        belief = self.classes.setdefault(_key(context.horizon), _prior())
        move = context.sign * (later.mid - context.mid) / spread
        for v, name in enumerate(context.books.venues):
            queue = public.queues.get(name)
            if queue is None or not seen.there[v]:
                continue
            behind = seen.behind[v] * moment.half_spread / context.tick
            for shares in {context.lot, context.shares}:
                ratio = np.log((seen.queue[v] + shares) / seen.outflow[v])
                row = np.clip([move, ratio, behind, moment.imbalance], -_LARGEST, _LARGEST)
                belief.add(1, int(queue.filled(shares) == shares), row)

    def coefficients(self, horizon: float) -> Floats:
        """Log-odds where all is 0, then what they rise by, ``(1 + COVARIATES,)``."""
        belief = self.classes.get(_key(horizon))
        return (_PRIOR if belief is None else belief).coef

    def knows(self, horizon: float) -> bool:
        """Whether anything was seen of horizons like this one."""
        return _key(horizon) in self.classes

    def discount(self, factor: float) -> None:
        """Count everything seen so far ``factor`` times."""
        for belief in self.classes.values():
            belief.discount(factor)

    def refresh(self) -> None:
        """Fit to what was seen."""
        for belief in self.classes.values():
            belief.refresh()

    def state(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {key: belief.state() for key, belief in self.classes.items()}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild the law of a saved state."""
        law = cls()
        law.classes = {str(key): HazardRegression.restore(one) for key, one in state.items()}
        return law


def _prior() -> HazardRegression:
    return HazardRegression([1], COVARIATES, prior_hazards=[_UNFILLED], capacity=KEPT)


def _key(horizon: float) -> str:
    return str(horizon_class(horizon))


_PRIOR = _prior()
