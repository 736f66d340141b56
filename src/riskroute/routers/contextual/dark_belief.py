"""Posterior of dark pool sizes, learned from the router's own fills, which are censored at the shares sent.

Pools publish nothing, so only shares sent there are informative (feedback F2). Every pool has one size distribution for
pings, and one per horizon class for resting orders. Hazards by size bin have independent beta posteriors, so that every
draw is a valid distribution of sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import msgspec
import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Integers, Matrix
from riskroute.core.records import Count, from_plain
from riskroute.core.validation import real_number
from riskroute.learning.hazards import Hazards
from riskroute.learning.mean_variance_regression import RegressionResidualTest
from riskroute.routers.contextual.market_features import horizon_feature
from riskroute.routers.router import RouterBelief

PoolUse = tuple[str, float]  # a pool, and the seconds an order rests there; 0: a ping

EDGES = np.array([1, *(25 * 2**k for k in range(14))])  # last size of each bin: 1 share, then doubling bins
_PING, _REST = " at once", " within "  # key of a use: "POOL at once" or "POOL within 64 s"


def _prior(key: str) -> Hazards:
    """Return the prior of a pool: the weight of two trials, optimistic because only shares sent are informative."""
    # P(fill): 0.5 for a ping, times 0.85 per doubling of the size; 0.85 for a resting order, times 0.92
    some, factor = (0.5, 0.85) if key.endswith(_PING) else (0.85, 0.92)
    return Hazards.from_tails(EDGES, [some * factor**k for k in range(len(EDGES))], 2.0)


class DarkBelief:
    """Posterior of the shares available in dark pools, by pool and use; weights halve every ``half_life`` days."""

    borrowed_trials: ClassVar[float] = 20.0  # maximum weight of other symbols' evidence

    def __init__(self, half_life: float = 5.0) -> None:
        self.half_life = real_number("half_life", half_life, above=0)
        self.sizes: dict[str, Hazards] = {}
        self.tests: dict[str, RegressionResidualTest] = {}
        self.adverse: dict[str, list[float]] = {}  # by pool: sum of unpredicted costs (half-spreads per share), count
        self.lenders: Sequence[DarkBelief] = ()  # beliefs of other symbols, to borrow evidence from
        self.last, self.resets = 0, 0
        # caches, valid until the next observation: moments for the last ``shares`` requested, and stacked posteriors
        self._moments: dict[tuple[PoolUse, ...], tuple[Floats, Matrix, Matrix]] = {}
        self._stacked: dict[tuple[PoolUse, ...], tuple[Matrix, Matrix, Matrix]] = {}

    def learn(self, pool: str, horizon: float, *, sent: int, filled: int, time: int) -> None:
        """Learn from a child that pinged a pool (horizon 0) or rested there until the horizon."""
        self._discount(time)
        key = _key(pool, horizon)
        belief = self.sizes.setdefault(key, _prior(key))
        mean, variance = (float(moment[0, 0]) for moment in self.moments([(pool, horizon)], np.array([float(sent)])))
        if variance > 0:
            error = np.array([(filled - mean) / np.sqrt(variance)])
            # a change point: start over from the prior
            if self.tests.setdefault(key, RegressionResidualTest(length=40)).add(error, kurtosis=3.0):
                belief = self.sizes[key] = _prior(key)
                self.resets += 1
        belief.add(sent, filled)
        self._stacked, self._moments = {}, {}

    def learn_adverse(self, pool: str, extra: float) -> None:
        """Record the unpredicted cost of resting in a pool, in half-spreads per share."""
        sums = self.adverse.setdefault(pool, [0.0, 0.0])
        sums[0] += extra
        sums[1] += 1.0

    def adverse_selection(self, pool: str) -> float:
        """Return the mean unpredicted cost of resting in a pool, half-spreads per share, shrunk towards 0."""
        total, count = self.adverse.get(pool, (0.0, 0.0))
        return total / (count + 20.0)

    def _discount(self, time: int) -> None:
        if self.last and time > self.last:
            factor = 0.5 ** ((time - self.last) / (self.half_life * 8.64e13))  # half-life in days
            if factor > 0.99:  # negligible: discount later, for a longer time
                return
            for belief in self.sizes.values():
                belief.discount(factor)
            for sums in self.adverse.values():
                sums[:] = [value * factor for value in sums]
        self.last = time

    def moments(self, uses: Sequence[PoolUse], shares: Floats, hazards: Matrix | None = None) -> tuple[Matrix, Matrix]:
        """Return mean and variance, ``(m, n)`` each, of fills by use and size; ``shares (n,)`` must ascend.

        ``hazards`` are ``(m, B)``; default: the posterior means.
        """
        if hazards is not None:
            drawn: tuple[Matrix, Matrix] = _capped_moments(EDGES, hazards, shares)
            return drawn
        key = tuple(uses)
        known = self._moments.get(key)
        if known is None or not (known[0] is shares or np.array_equal(known[0], shares)):
            known = self._moments[key] = (shares, *_capped_moments(EDGES, self._posteriors(key)[2], shares))
        return known[1], known[2]

    def draw(self, uses: Sequence[PoolUse], rng: np.random.Generator) -> Matrix:
        """Draw hazards from the posterior, ``(m, B)``."""
        alpha, beta, _ = self._posteriors(tuple(uses))
        return np.asarray(rng.beta(alpha, beta))

    def information(self, pool: str, horizon: float, shares: float) -> float:
        """Return the approximate information gain of a child order of ``shares``, in nats.

        This is the sum over bins of ``log(1 + P(bin is reached) / trials) / 2``.
        """
        use = [(pool, horizon)]
        alpha, beta, _ = (one[0] for one in self._posteriors(tuple(use)))
        firmness = (alpha + beta) / np.diff(EDGES, prepend=0)
        (reached,) = np.diff(self.moments(use, np.minimum(EDGES, shares))[0], prepend=0.0)
        chance = reached / np.diff(EDGES, prepend=0)
        return float(0.5 * np.log1p(chance / firmness).sum())

    def _belief(self, key: str) -> Hazards:
        own = self.sizes.get(key) or _prior(key)
        others = [other.sizes[key] for other in self.lenders if key in other.sizes]
        return own.borrowed(others, self.borrowed_trials) if others else own

    def _posteriors(self, uses: tuple[PoolUse, ...]) -> tuple[Matrix, Matrix, Matrix]:
        """Return the parameters of the beta posteriors and their means, ``(m, B)`` each."""
        found = self._stacked.get(uses)
        if found is None:
            beliefs = [self._belief(_key(*use)) for use in uses]
            alpha, beta = np.array([one.posterior for one in beliefs]).transpose(1, 0, 2)
            found = self._stacked[uses] = (alpha, beta, alpha / (alpha + beta))
        return found

    def beliefs(self, symbol: str) -> list[RouterBelief]:
        """Return the fill probability of every use of a pool, with its posterior standard deviation."""
        found = []
        for key in sorted(self.sizes):
            belief = self._belief(key)
            ends, passed = (float(parameter[0]) for parameter in belief.posterior)
            total = ends + passed
            deviation = (ends * passed / (total + 1)) ** 0.5 / total
            if key.endswith(_PING):
                pool, what = key.removesuffix(_PING), "ping finds shares"
            else:
                pool, _, seconds = key.rpartition(_REST)
                what = f"resting order fills within {seconds}"
            found.append(RouterBelief(pool, what, passed / total, deviation, "probability", belief.trials, symbol))
        return found

    def state(self) -> dict[str, Any]:
        """Return the complete state as plain values."""
        return {
            "half_life": self.half_life,
            "sizes": {key: belief.state() for key, belief in self.sizes.items()},
            "tests": {key: test.state() for key, test in self.tests.items()},
            "adverse": self.adverse,
            "last": self.last,
            "resets": self.resets,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild a belief from a saved state."""
        belief = cls(state["half_life"])
        belief.sizes = {key: Hazards.restore(one) for key, one in state["sizes"].items()}
        belief.tests = {key: RegressionResidualTest.restore(one) for key, one in state["tests"].items()}
        pair = Annotated[list[float], msgspec.Meta(min_length=2, max_length=2)]
        belief.adverse = from_plain(dict[str, pair], state["adverse"], "adverse")
        belief.last, belief.resets = (from_plain(Count, state[name], name) for name in ("last", "resets"))
        return belief


def _key(pool: str, horizon: float) -> str:
    return f"{pool}{_PING}" if horizon <= 0 else f"{pool}{_REST}{2.0 ** horizon_feature(horizon):g} s"


@njit(cache=True)
def _capped_moments(edges: Integers, hazards: Matrix, shares: Floats) -> tuple[Matrix, Matrix]:
    """Return mean and variance of ``min(d, V)`` for ascending ``d`` in ``shares (n,)`` under hazards ``(m, B)``."""
    slots, width = len(hazards), len(shares)
    mean, variance = np.zeros((slots, width)), np.zeros((slots, width))
    for i in range(slots):
        tail, b, total, square, s = 1.0, 0, 0.0, 0.0, 0
        for k in range(width):
            while s < shares[k]:
                if s == edges[b] and b < len(edges) - 1:
                    b += 1
                tail *= 1 - hazards[i, b]
                total += tail
                square += (2 * s + 1) * tail
                s += 1
            mean[i, k] = total
            variance[i, k] = max(square - total * total, 0.0)
    return mean, variance
