"""Kaplan-Meier estimates of what dark pools hold, from fills that are cut off at what was sent, and a greedy split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Floats, Matrix, Units, Vector
from riskroute.core.validation import one_of, parameter, real_number, whole_number
from riskroute.routers.literature.dark_allocation import AllocationTask, DarkAllocation, tail_units

MODES = ("theory", "practical", "discounted")
FINE = 200
"""Sizes up to this many lots are counted one by one; beyond, bins of 1, 2, 4, 8 .. lots have one hazard each."""

DAY = 86_400.0


@dataclass
class KaplanMeier(DarkAllocation):
    """Split an order over pools so that each next lot goes where it is most likely to be filled, and save most.

    A pool holds at least ``s`` lots with probability ``T(s)``, the same at every moment and whatever other pools hold:
    that is the assumption. A child that was filled in full shows only that there was as much; the product-limit
    estimator of Kaplan and Meier takes that into account. As far as a pool was tried often enough it is trusted, and
    the next lot beyond counts as likely as the last one: that is the exploration.

    Parameters
    ----------
    mode : str
        ``theory``: often enough as in the theorem, which practically never is; ``practical``: ``least`` times;
        ``discounted``: as practical, with counts that halve every ``half_life`` seconds.
    least : int
        Observations of a size that are enough (n0). Whether a pool holds anything at all must be seen this often times
        the logarithm of the number of orders: else bad luck with the first ones would give it up for ever.
    delay_cost : float
        Dollars a share that it costs to find a pool empty (e); lots not worth it are swept at once.
    half_life : float
        Seconds, for ``discounted``.
    epsilon, delta : float
        Of the theorem: how far from optimal, and with which probability.
    seed : int
        Of the draws among equals.

    References
    ----------
    Ganchev, Nevmyvaka, Kearns and Vaughan (2009), `Censored Exploration and the Dark Pool Problem
    <https://arxiv.org/abs/1205.2646>`_. Fills are weighed with what they save, which the paper does not do.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> KaplanMeier().route(read_context(books, side="sell", shares=300)).dark
    {'P': 150, 'Q': 150}
    """

    name: ClassVar[str] = "kaplan-meier+sweep"
    memory: ClassVar[tuple[str, ...]] = ("waiting", "counts", "played")
    most_units: ClassVar[int] = 1024
    mode: str = parameter("practical", one_of, choices=MODES)
    least: int = parameter(20, whole_number)
    delay_cost: float = parameter(0.0, real_number, minimum=0)
    half_life: float = parameter(DAY, real_number, minimum=1e-3)
    epsilon: float = parameter(1.0, real_number, minimum=1e-9)
    delta: float = parameter(0.1, real_number, minimum=1e-9, below=1)
    seed: int = parameter(0, whole_number, minimum=0)
    counts: dict[str, dict[str, Any]] = field(init=False, repr=False)
    """By pool and unit: ``ended`` and ``tried`` by bin (D and N), as of a ``time``."""

    played: int = field(init=False, repr=False)
    """Orders so far."""

    def begin(self) -> None:
        super().begin()
        self.counts, self.played = {}, 0

    def allocate(self, task: AllocationTask) -> tuple[Units, dict[str, Any]]:
        self.played += 1
        tails = np.array([self.tail(pool, task) for pool in task.pools])
        return tail_units(task, tails, self.delay_cost), {}

    def tail(self, pool: str, task: AllocationTask) -> Vector:
        """The probability that a pool holds at least 1, 2 .. units, optimistic, ``(units,)``."""
        kept = self.counts.get(f"{pool} {task.unit}")
        if kept is None:
            return np.ones(task.units)
        fade = self._fade(task.time - kept["time"])
        ended, tried = np.array(kept["ended"]), fade * np.array(kept["tried"])
        tails = binned_tails(ended * fade, tried, task.units)
        needed = np.full(task.units, float(self.least))
        needed[0] *= max(math.log(self.played), 1.0)
        if self.mode == "theory":
            needed = theory_counts(task.units, self.epsilon, self.delta)
        return optimistic_tails(tails, tried, needed)

    def _fade(self, nanoseconds: int) -> float:
        """Weight of counts after some time."""
        seconds = max(nanoseconds, 0) / 1e9
        return float(0.5 ** (seconds / self.half_life)) if self.mode == "discounted" else 1.0

    def learn_child(self, order: Mapping[str, Any], pool: str, sent: int, filled: float) -> None:
        time = order["time"]
        kept = self.counts.setdefault(f"{pool} {order['unit']}", {"ended": [], "tried": [], "time": time})
        ended, tried = count_fills([(sent, int(filled))])
        old, late = self._fade(time - kept["time"]), self._fade(kept["time"] - time)
        for name, new in (("ended", ended), ("tried", tried)):
            before = kept[name] + [0.0] * (len(new) - len(kept[name]))
            after = new.tolist() + [0.0] * (len(before) - len(new))
            kept[name] = [old * was + late * more for was, more in zip(before, after, strict=True)]
        kept["time"] = max(time, kept["time"])


def bin_edges(size: int) -> Units:
    """The first size of every bin, and the end of the last, up to ``size``: 0, 1 .. 201, 202, 204, 208 ..

    Examples
    --------
    >>> bin_edges(210)[-5:].tolist()
    [200, 201, 202, 204, 208]
    >>> bin_edges(3).tolist()
    [0, 1, 2, 3]
    """
    fine = np.arange(min(size, FINE) + 1)
    if size <= FINE:
        return fine
    wide = FINE + 2 ** np.arange(int(math.log2(size - FINE)) + 1)
    return np.concatenate([fine, wide])


def count_fills(children: list[tuple[int, int]]) -> tuple[Vector, Vector]:
    """How often sizes were tried for and how often nothing more was there, by bin, from units sent and filled.

    For a size ``s`` of its own, ``ended`` D(s) counts children of more than ``s`` units that got ``s``, and ``tried``
    N(s) those that got at least ``s``. In a bin of several sizes both are sums over them.

    Examples
    --------
    >>> ended, tried = count_fills([(3, 3), (3, 1), (5, 0), (2, 2), (5, 4)])
    >>> ended.tolist(), tried.tolist()
    ([1.0, 1.0, 0.0, 0.0, 1.0], [5.0, 4.0, 2.0, 1.0, 1.0])
    """
    edges = _edges_beyond(max((sent for sent, _ in children), default=0))
    width = np.diff(edges)
    ended, tried = np.zeros(len(width)), np.zeros(len(width))
    for sent, filled in children:
        tried += np.clip(min(filled + 1, sent) - edges[:-1], 0, width)
        if filled < sent:
            ended[int(np.searchsorted(edges, filled, side="right")) - 1] += 1
    return ended, tried


def _edges_beyond(size: int) -> Units:
    """Bins that reach at least to ``size``."""
    edges = bin_edges(size)
    return edges if edges[-1] >= size else np.append(edges, 2 * edges[-1] - FINE)


def binned_tails(ended: Vector, tried: Vector, units: int) -> Vector:
    """The product-limit estimate of the probability of at least 1, 2 .. units, ``(units,)``.

    Examples
    --------
    >>> ended, tried = count_fills([(3, 3), (3, 1), (5, 0), (2, 2), (5, 4)])
    >>> binned_tails(ended, tried, 6).round(6).tolist()
    [0.8, 0.6, 0.6, 0.6, 0.0, 0.0]
    """
    width = np.diff(_edges_beyond(units))
    hazards = np.divide(ended, tried, out=np.zeros(len(ended)), where=tried > 0)
    by_bin = np.zeros(len(width))
    by_bin[: len(hazards)] = hazards[: len(width)]
    return np.asarray(np.cumprod(1 - np.repeat(by_bin, width)[:units]), dtype=np.float64)


def optimistic_tails(tails: Vector, tried: Vector, needed: float | Floats) -> Vector:
    """Tails with the first bin beyond what was tried often enough as likely as the last one before.

    ``needed`` is how often size ``s`` must have been tried, for all or ``(units,)`` for ``s = 0, 1 ..``.

    Examples
    --------
    >>> optimistic_tails(np.array([0.5, 0.4, 0.1, 0.05]), np.array([30.0, 20.0, 8.0]), 20).tolist()
    [0.5, 0.4, 0.4, 0.05]
    """
    units = len(tails)
    edges = _edges_beyond(units)
    width = np.diff(edges)
    each = np.zeros(len(width))
    each[: len(tried)] = tried[: len(width)]
    enough = np.repeat(each / width, width)[:units] >= needed
    cut = int(units if enough.all() else np.argmin(enough))
    end = int(edges[np.searchsorted(edges, cut, side="right")]) if cut < units else units
    raised = tails.copy()
    raised[cut:end] = tails[cut - 1] if cut else 1.0
    return raised


def theory_counts(units: int, epsilon: float, delta: float) -> Floats:
    """How often a size must have been tried before the theorem trusts it, ``(units,)``.

    Examples
    --------
    >>> round(float(theory_counts(10, 1.0, 0.1)[0]))
    67818
    """
    sizes = np.arange(1, units + 1)
    return np.asarray(128 * (sizes * units / epsilon) ** 2 * math.log(2 * units / delta))


# MERGED: Dark pools that are empty or have a power law of sizes, fitted by maximum likelihood, and a greedy split.


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


# MERGED: Optimism about a dark pool's presence and sizes, after Montanari et al.: a reconstruction from the abstract.


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
