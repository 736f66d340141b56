"""Kaplan-Meier estimates of what dark pools hold, from fills that are cut off at what was sent, and a greedy split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Floats, Units, Vector
from riskroute.core.parameters import parameter
from riskroute.core.validation import one_of, real_number, whole_number
from riskroute.routers.dark_allocation import AllocationTask, DarkAllocation, tail_units

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
