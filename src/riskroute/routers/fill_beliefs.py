"""Beliefs about limit orders that are updated in closed form: how much of them is filled, and where prices go.

References
----------
A. Gelman, J. Carlin, H. Stern, D. Dunson, A. Vehtari, D. Rubin, "Bayesian data analysis", 3rd edition (2013),
chapters 2 and 3, http://www.stat.columbia.edu/~gelman/book/
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from riskroute.core.arrays import Floats, Vector

FILL_SHARES = np.array([0.0, 0.125, 0.375, 0.625, 0.875, 1.0])
"""What stands for the classes of filled shares of an order: 0, up to 1/4, 1/2 and 3/4, less than 1, and 1."""

CLASSES = len(FILL_SHARES)


def fill_class(filled: int, sent: int) -> int:
    """The class of a fill.

    Examples
    --------
    >>> [fill_class(filled, 100) for filled in (0, 1, 25, 26, 75, 99, 100)]
    [0, 1, 1, 2, 3, 4, 5]
    """
    if filled <= 0:
        return 0
    return 5 if filled >= sent else min(-(-4 * filled // sent), 4)


def dirichlet_moments(weights: Vector) -> tuple[float, float]:
    """Predictive mean and variance of the filled share under a Dirichlet belief over the classes.

    Examples
    --------
    >>> dirichlet_moments(np.array([3.0, 0, 0, 0, 0, 1.0]))  # filled once in four times
    (0.25, 0.1875)
    """
    chances = weights / weights.sum()
    mean = float(chances @ FILL_SHARES)
    return mean, float(chances @ FILL_SHARES**2) - mean**2


class Drift(NamedTuple):
    """A Normal-inverse-gamma belief about price moves: their mean is ``mean`` as if seen so many ``times``.

    ``shape`` and ``scale`` are those of the inverse gamma belief about their variance.
    """

    mean: float
    times: float
    shape: float
    scale: float

    def after(self, number: float, total: float, squares: float) -> Drift:
        """Return the belief after ``number`` moves with a sum and a sum of squares; the weight of each may be decayed.

        Examples
        --------
        >>> Drift(0.0, 1.0, 2.0, 1.0).after(2, 2 + 4, 2**2 + 4**2)
        Drift(mean=2.0, times=3.0, shape=3.0, scale=5.0)
        """
        if number <= 0:
            return self
        mean, times = total / number, self.times + number
        spread = max(squares - number * mean**2, 0.0)
        between = self.times * number * (mean - self.mean) ** 2 / times
        centre, scale = (self.times * self.mean + total) / times, self.scale + (spread + between) / 2
        return Drift(centre, times, self.shape + number / 2, scale)

    @property
    def variance(self) -> float:
        """Predictive variance of the next move: that of a Student distribution with ``2 shape`` degrees of freedom."""
        return self.scale / (self.shape - 1) * (1 + 1 / self.times)

    def drawn(self, rng: np.random.Generator) -> tuple[float, float]:
        """A mean and a variance of moves, drawn from the belief."""
        variance = self.scale / rng.gamma(self.shape)
        return float(rng.normal(self.mean, np.sqrt(variance / self.times))), float(variance)


def fill_belief_weights(levels: list[Floats], strength: float) -> Floats:
    """Dirichlet weights of a cell: its counts, and a prior of some strength with the frequencies of the level above.

    ``levels`` are counts from the most general to the cell's own; above all is the even distribution.

    Examples
    --------
    >>> one, none = np.array([6.0, 0, 0, 0, 0, 0]), np.zeros(6)
    >>> fill_belief_weights([one, none], 6).round(2).tolist()  # nothing seen: the frequencies of the market
    [3.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    frequencies = np.full(CLASSES, 1 / CLASSES)
    weights = frequencies
    for counts in levels:
        weights = strength * frequencies + counts
        frequencies = weights / weights.sum()
    return weights
