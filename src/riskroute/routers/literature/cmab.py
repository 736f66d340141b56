"""A combinatorial bandit over dark pools and sizes, after Bernasconi et al.: a reconstruction from the abstract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Floats, Units, Vector
from riskroute.core.validation import one_of, parameter, true_or_false, whole_number
from riskroute.routers.context import Context
from riskroute.routers.literature.dark_allocation import AllocationTask, DarkAllocation
from riskroute.routers.plan import Plan
from riskroute.routers.router import unit_shares

INDICES = ("ts", "bayes-ucb", "ucb")


@dataclass
class Cmab(DarkAllocation):
    """Choose a size for every pool by an optimistic index of what each size saves there, the best sizes together.

    The published method was known to us by its abstract only; this is what we made of it. An arm is a pool and a size,
    one of at most ``grid`` multiples. Arms are independent but for what fills reveal (``share``): a child tells what
    smaller ones would have got, and larger ones are never filled to a larger share. A child that was filled in part
    also tells what larger ones would have got, but those would then be learned about in bad moments only, and seem
    worse than they are. Sizes that fit into the order together are
    chosen by dynamic programming, exactly. The paper also names a limit price for every child; pools here have one
    price, and the functions below take several.

    Parameters
    ----------
    index : str
        ``ts``: a draw from the belief about the fill share; ``bayes-ucb``: a quantile of the belief, 1 - 1/t;
        ``ucb``: mean and confidence width, which is wide for fills.
    grid : int
        Sizes at most.
    share : bool
        Whether sizes learn from each other.
    seed : int
        Of the draws.

    References
    ----------
    Bernasconi, Martino, Vittori, Trovo and Restelli (2022), `Dark-Pool Smart Order Routing: a Combinatorial Multi-armed
    Bandit Approach <https://doi.org/10.1145/3533271.3561728>`_.

    Examples
    --------
    >>> from riskroute.routers.context import read_context
    >>> books = {"venues": {"A": {"bids": [[10.0, 900]], "asks": [[10.02, 900]]}}, "pools": {"P": {}, "Q": {}}}
    >>> plan = Cmab().route(read_context(books, side="sell", shares=300, lot=100))
    >>> sum(plan.dark.values())
    300
    """

    name: ClassVar[str] = "cmab+sweep"
    memory: ClassVar[tuple[str, ...]] = ("waiting", "arms", "played")
    whole_fills: ClassVar[bool] = False
    index: str = parameter("ts", one_of, choices=INDICES)
    grid: int = parameter(10, whole_number, maximum=1000)
    share: bool = parameter(True, true_or_false)
    seed: int = parameter(0, whole_number, minimum=0)
    arms: dict[str, list[list[float]]] = field(init=False, repr=False)
    """By pool and unit: how often sizes 1, 2 .. were observed, and the sums of their fill shares."""
    played: dict[str, int] = field(init=False, repr=False)
    """Orders so far, by shares in a unit."""

    def begin(self) -> None:
        super().begin()
        self.arms, self.played = {}, {}

    def unit_of(self, context: Context) -> int:
        return unit_shares(context.shares, context.lot, self.grid)

    def allocate(self, task: AllocationTask) -> tuple[Units, dict[str, Any]]:
        key = str(task.unit)
        self.played[key] = self.played.get(key, 0) + 1
        return self._best(task, self.index, self.played[key]), {}

    def _best(self, task: AllocationTask, index: str, time: int) -> Units:
        """Sizes that are best together by an index."""
        values = np.zeros((len(task.pools), 1, task.units))
        for k, pool in enumerate(task.pools):
            tried, sums = np.array(self.arms.get(f"{pool} {task.unit}", [[0.0] * self.grid] * 2))[:, : task.units]
            shares = fill_index(index, tried, sums, time, task.rng)
            if self.share:  # a larger child is never filled to a larger share
                shares = np.minimum.accumulate(shares)
            values[k, 0] = task.savings[k] * task.unit * np.arange(1, task.units + 1) * shares
        return best_super_arm(values, task.units)[1]

    def greedy(self, context: Context) -> Plan | None:
        task = self.task_of(context)
        return None if task is None else self.plan_of(context, task, self._best(task, "mean", 0))

    def learn_child(self, order: Mapping[str, Any], pool: str, sent: int, filled: float) -> None:
        arms = self.arms.setdefault(f"{pool} {order['unit']}", [[0.0] * self.grid, [0.0] * self.grid])
        for size in range(1 if self.share else sent, sent + 1):
            arms[0][size - 1] += 1
            arms[1][size - 1] += min(size, filled) / size


def fill_index(index: str, tried: Vector, sums: Vector, time: int, rng: np.random.Generator) -> Vector:
    """Optimistic shares that sizes are filled to, at most 1, from how often they were tried and the sums of shares.

    ``index`` is one of `INDICES`, or ``mean`` for no optimism.

    Examples
    --------
    >>> fill_index("ucb", np.array([0.0, 60.0]), np.array([0.0, 15.0]), 100, np.random.default_rng(0)).round(4).tolist()
    [1.0, 0.5893]
    """
    if index == "mean":
        return np.asarray(sums / np.maximum(tried, 1))
    if index == "ucb":
        width = np.sqrt(1.5 * np.log(max(time, 2)) / np.maximum(tried, 1))
        return np.where(tried > 0, np.minimum(sums / np.maximum(tried, 1) + width, 1.0), 1.0)
    if index == "ts":
        return rng.beta(1 + sums, 1 + np.maximum(tried - sums, 0))
    from scipy.special import betaincinv

    return np.asarray(betaincinv(1 + sums, 1 + np.maximum(tried - sums, 0), 1 - 1 / max(time, 2)))


def best_super_arm(values: Floats, units: int) -> tuple[Units, Units]:
    """Choose one price and one size for every pool, or none, worth most together, of at most ``units``.

    Parameters
    ----------
    values : Floats
        ``(K, P, G)``, what sizes 1 .. G are worth at every pool and price.
    units : int
        Sizes sum to at most this.

    Returns
    -------
    tuple[Units, Units]
        Prices and sizes, ``(K,)`` each; size 0 where a pool gets nothing.

    Examples
    --------
    >>> prices, sizes = best_super_arm(np.array([[[1.0, 1.5], [0.9, 1.9]], [[0.8, 1.0], [0.2, 0.3]]]), 3)
    >>> prices.tolist(), sizes.tolist()
    ([1, 0], [2, 1])
    """
    pools = len(values)
    at = values.argmax(axis=1)
    worth = np.concatenate([np.zeros((pools, 1)), values.max(axis=1)], axis=1)[:, : units + 1]
    best = np.zeros(units + 1)
    chosen = np.zeros((pools, units + 1), dtype=np.int64)
    used, size = np.arange(units + 1)[:, None], np.arange(worth.shape[1])[None, :]
    for k in range(pools):
        before = np.where(used >= size, best[np.maximum(used - size, 0)], -np.inf) + worth[k]
        chosen[k] = before.argmax(axis=1)
        best = before.max(axis=1)
    left, given = units, np.zeros(pools, dtype=np.int64)
    for k in reversed(range(pools)):
        given[k] = chosen[k, left]
        left -= int(given[k])
    rows = np.arange(pools)
    return np.where(given > 0, at[rows, np.maximum(given, 1) - 1], 0), given


def revealed_fills(price: int, sent: int, filled: int, *, prices: int, sizes: int) -> Iterator[tuple[int, int, int]]:
    """What a child tells about arms: prices, sizes, and what they would have been filled with.

    Prices count from the least to the most aggressive; what a pool holds at one it also holds at the next. All of it is
    true, yet only sizes up to ``sent`` at the same price are told about whatever comes back: means over the others,
    which are told about when little or much was there, are biased.

    Examples
    --------
    >>> list(revealed_fills(0, 2, 1, prices=1, sizes=3))  # there was 1
    [(0, 1, 1), (0, 2, 1), (0, 3, 1)]
    >>> list(revealed_fills(0, 2, 2, prices=2, sizes=3))  # there were at least 2, at the next price too
    [(0, 1, 1), (0, 2, 2), (1, 1, 1), (1, 2, 2)]
    """
    for size in range(1, sizes + 1):
        if size <= sent or filled < sent:
            yield price, size, min(size, filled)
    for other in range(price + 1, prices):
        for size in range(1, min(filled, sizes) + 1):
            yield other, size, size
    if filled == 0:
        for other in range(price):
            for size in range(1, sizes + 1):
                yield other, size, 0
