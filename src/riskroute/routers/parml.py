"""Dark pools that are empty or have a power law of sizes, fitted by maximum likelihood, and a greedy split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Floats, Matrix, Units, Vector
from riskroute.core.parameters import parameter
from riskroute.core.validation import real_number, whole_number
from riskroute.routers.dark_allocation import AllocationTask, DarkAllocation, tail_units

LEAST_EXPONENT, MOST_EXPONENT = -1.0, 4.0
EXPONENTS = np.linspace(LEAST_EXPONENT, MOST_EXPONENT, 501)
"""Exponents that are tried."""


@dataclass
class ParMl(DarkAllocation):
    """Split an order over pools by fitted sizes: a pool is empty with probability ``a``, else has a power law.

    The model is ``p(0) = a`` and ``p(s) = (1 - a) s^-b / sum of u^-b over u = 1 .. V``, in lots of orders up to V,
    the same at every moment: what the authors fitted to their data. Children that were filled in full count as "at
    least as much". Two numbers a pool are learned quickly, and remain wrong where the model is. The likelihood
    separates: the best ``a`` is the share of children that got nothing, and ``b`` a search in one dimension.

    Parameters
    ----------
    delay_cost : float
        Dollars a share that it costs to find a pool empty; lots not worth it are swept at once.
    seed : int
        Of the draws among equals.

    References
    ----------
    Ganchev, Nevmyvaka, Kearns and Vaughan (2009), `Censored Exploration and the Dark Pool Problem
    <https://arxiv.org/abs/1205.2646>`_, section 5.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> ParMl().route(read_context(books, side="sell", shares=300, lot=100)).dark
    {'P': 200, 'Q': 100}
    """

    name: ClassVar[str] = "parml+sweep"
    memory: ClassVar[tuple[str, ...]] = ("waiting", "counts")
    delay_cost: float = parameter(0.0, real_number, minimum=0)
    seed: int = parameter(0, whole_number, minimum=0)
    counts: dict[str, dict[str, Any]] = field(init=False, repr=False)
    """By pool and unit: how many children got nothing, how many some and the sum of the logarithms of what they got,
    and how many got all of 1, 2 .. units."""

    def begin(self) -> None:
        super().begin()
        self.counts = {}

    def allocate(self, task: AllocationTask) -> tuple[Units, dict[str, Any]]:
        tails = np.array([self.tail(pool, task) for pool in task.pools])
        return tail_units(task, tails, self.delay_cost), {}

    def tail(self, pool: str, task: AllocationTask) -> Vector:
        """The probability that a pool holds at least 1, 2 .. units, ``(units,)``."""
        kept = self.counts.get(f"{pool} {task.unit}")
        if kept is None:
            return np.ones(task.units)
        largest = max(len(kept["full"]), task.units)
        full = np.pad(np.array(kept["full"], dtype=float), (0, largest - len(kept["full"])))
        children = kept["empty"] + kept["some"] + float(full.sum())
        return self.fitted(children, kept["empty"], kept["some"], kept["logs"], full)[: task.units]

    def fitted(self, children: float, empty: float, some: float, logs: float, full: Vector) -> Vector:
        """Tails ``(V,)`` fitted to children, of which some got nothing and some a part."""
        nothing = min(empty / children, (children + 1) / (children + 2))  # never given up for good
        return power_tails(nothing, fit_exponent(some, logs, full, len(full)), len(full))

    def learn_child(self, order: Mapping[str, Any], pool: str, sent: int, filled: float) -> None:
        first: dict[str, Any] = {"empty": 0, "some": 0, "logs": 0.0, "full": []}
        kept = self.counts.setdefault(f"{pool} {order['unit']}", first)
        kept["full"] += [0] * (order["units"] - len(kept["full"]))
        if filled == sent:
            kept["full"][sent - 1] += 1
        elif filled:
            kept["some"], kept["logs"] = kept["some"] + 1, kept["logs"] + float(np.log(filled))
        else:
            kept["empty"] += 1


def power_sizes(exponent: float, largest: int) -> Vector:
    """Probabilities of sizes 1 .. ``largest`` under a power law.

    Examples
    --------
    >>> power_sizes(1.0, 3).round(4).tolist()
    [0.5455, 0.2727, 0.1818]
    """
    powers = np.arange(1, largest + 1, dtype=float) ** -exponent
    return np.asarray(powers / powers.sum())


def power_tails(empty: float, exponent: float, largest: int) -> Vector:
    """Probabilities of at least 1 .. ``largest`` units in a pool that is empty with probability ``empty``.

    Examples
    --------
    >>> power_tails(0.6, 1.0, 3).round(4).tolist()
    [0.4, 0.1818, 0.0727]
    """
    return np.asarray((1 - empty) * np.cumsum(power_sizes(exponent, largest)[::-1])[::-1])


def fit_exponent(some: float, logs: float, full: Floats, largest: int, less: float = 0.0) -> float:
    """The most likely exponent of a power law over 1 .. ``largest``, from sizes that are known or cut off.

    Parameters
    ----------
    some, logs : float
        Number of sizes that are known, and sum of their logarithms.
    full : Floats
        ``(largest,)``, number of children of 1, 2 .. units that got all: sizes of at least as much.
    largest : int
        The largest size.
    less : float
        The smallest exponent whose log-likelihood is at most so much less than the greatest is returned instead.

    Examples
    --------
    >>> fit_exponent(3, float(np.log([1, 2, 4]).sum()), np.zeros(8), 8)
    1.24
    >>> fit_exponent(0, 0.0, np.eye(8)[3], 8)  # all that is known: at least 4
    -1.0
    """
    tails = _log_tails(largest)
    likelihood = -EXPONENTS * logs - (some + full.sum()) * tails[:, 0] + tails @ full
    chosen = int(np.argmax(likelihood >= likelihood.max() - less))
    return round(float(EXPONENTS[chosen]), 6)


@lru_cache(maxsize=8)
def _log_tails(largest: int) -> Matrix:
    """Logarithms of tails that are not normalised, ``(E, V)``."""
    powers = np.arange(1, largest + 1, dtype=float) ** -EXPONENTS[:, None]
    return np.asarray(np.log(np.cumsum(powers[:, ::-1], axis=1)[:, ::-1]))
