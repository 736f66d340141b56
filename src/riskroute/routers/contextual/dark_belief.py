"""What dark pools hold, learned from our own children there: fills that are cut off at what was sent.

Nobody publishes what rests in a pool, so that only what is sent teaches anything (class F2). For every pool there is a
belief about the shares that an order trying it at once would find, and one about the shares that would come to an
order resting there, for horizons that are alike. Hazards by size bin have beta beliefs, so that a draw is always a
possible law of sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numba import njit

from riskroute.core.arrays import Floats, Integers, Matrix
from riskroute.core.validation import real_number, whole_number
from riskroute.learning.hazards import Hazards
from riskroute.learning.residual_test import ResidualTest
from riskroute.routers.contextual.market_features import faded, horizon_class
from riskroute.routers.router import PlaceBelief

EDGES = (1, *(25 * 2**k for k in range(14)))
"""Last share of every size bin: any at all, then bins that double."""

_EDGES = np.array(EDGES, dtype=np.int64)

Use = tuple[str, float]
"""A pool, and the seconds that an order rests there; 0 tries it at once."""

LENT = 20.0
"""Trials at most that other symbols lend."""

CHECKED = 40
"""Children in the window of the test for change."""

_AT_ONCE, _WITHIN = " at once", " within "
_STRENGTH = 2.0  # trials that the prior is worth


def _prior(key: str) -> Hazards:
    """A pool that nobody has used so: hopeful, since what is not sent teaches nothing.

    It holds something at once with probability 1/2, and for every doubling of the size 0.85 times as often; somebody
    comes to an order that rests with probability 0.85, and 0.92 times as often.
    """
    some, factor = (0.5, 0.85) if key.endswith(_AT_ONCE) else (0.85, 0.92)
    return Hazards.from_tails(EDGES, [some * factor**k for k in range(len(EDGES))], _STRENGTH)


class DarkBelief:
    """Sizes in dark pools, by pool and way of using it.

    Parameters
    ----------
    half_life : float
        Days after which what was seen counts half.

    Examples
    --------
    >>> belief = DarkBelief()
    >>> for _ in range(50):
    ...     belief.learn("P", 0.0, sent=100, filled=100, time=0)
    >>> belief.expected([("P", 0.0)], np.array([0.0, 100.0, 200.0])).round().tolist()
    [[0.0, 97.0, 186.0]]
    """

    def __init__(self, half_life: float = 1.0) -> None:
        self.half_life = real_number("half_life", half_life, above=0)
        self.sizes: dict[str, Hazards] = {}
        self.tests: dict[str, ResidualTest] = {}
        self.adverse: dict[str, list[float]] = {}
        """By pool, what resting there cost more than thought: sum of half-spreads a share, and how many children."""
        self.lenders: Sequence[DarkBelief] = ()
        """Beliefs of other symbols, which one with few trials borrows from."""
        self.last, self.resets = 0, 0
        self._expected: dict[tuple[Use, ...], tuple[Floats, Matrix, Matrix]] = {}
        """The last shares asked for and what is expected of them, kept until something is learned."""
        self._stacked: dict[tuple[Use, ...], tuple[Matrix, Matrix, Matrix]] = {}

    def learn(self, pool: str, horizon: float, *, sent: int, filled: int, time: int) -> None:
        """Learn from a child that tried a pool at once (horizon 0), or rested there for a horizon."""
        self._forget(time)
        key = _key(pool, horizon)
        belief = self.sizes.setdefault(key, _prior(key))
        mean, variance = (float(moment[0, 0]) for moment in self.moments([(pool, horizon)], np.array([float(sent)])))
        if variance > 0:
            error = np.array([(filled - mean) / np.sqrt(variance)])
            if self.tests.setdefault(key, ResidualTest(length=CHECKED)).add(error, kurtosis=3.0):
                belief = self.sizes[key] = _prior(key)
                self.resets += 1
        belief.add(sent, filled)
        self._stacked, self._expected = {}, {}

    def learn_adverse(self, pool: str, extra: float) -> None:
        """Learn what resting in a pool cost more than thought, in half-spreads a share."""
        kept = self.adverse.setdefault(pool, [0.0, 0.0])
        kept[0] += extra
        kept[1] += 1.0

    def adverse_selection(self, pool: str) -> float:
        """Half-spreads a share that resting in a pool costs more than thought: a mean, shrunk towards 0."""
        total, count = self.adverse.get(pool, (0.0, 0.0))
        return total / (count + 20.0)

    def _forget(self, time: int) -> None:
        if self.last and time > self.last:
            factor = faded(time - self.last, self.half_life)
            if factor > 0.99:
                return
            for belief in self.sizes.values():
                belief.discount(factor)
            for kept in self.adverse.values():
                kept[:] = [value * factor for value in kept]
        self.last = time

    def expected(self, uses: Sequence[Use], shares: Floats) -> Matrix:
        """Shares that children of ``shares (n,)`` are expected to find, ``(m, n)``, by pool and horizon."""
        return self.moments(uses, shares)[0]

    def moments(self, uses: Sequence[Use], shares: Floats, hazards: Matrix | None = None) -> tuple[Matrix, Matrix]:
        """Mean and variance of the shares that children would find, ``(m, n)`` each; ``shares`` must rise.

        Under mean hazards, or under those given, ``(m, B)``.
        """
        if hazards is not None:
            drawn: tuple[Matrix, Matrix] = _capped_moments(_EDGES, hazards, shares)
            return drawn
        key = tuple(uses)
        kept = self._expected.get(key)
        if kept is None or not (kept[0] is shares or np.array_equal(kept[0], shares)):
            kept = self._expected[key] = (shares, *_capped_moments(_EDGES, self._posteriors(key)[2], shares))
        return kept[1], kept[2]

    def draw(self, uses: Sequence[Use], rng: np.random.Generator) -> Matrix:
        """Hazards drawn from the belief, ``(m, B)``."""
        alpha, beta, _ = self._posteriors(tuple(uses))
        return np.asarray(rng.beta(alpha, beta))

    def _belief(self, key: str) -> Hazards:
        own = self.sizes.get(key) or _prior(key)
        others = [other.sizes[key] for other in self.lenders if key in other.sizes]
        return own.borrowed(others, LENT) if others else own

    def information(self, pool: str, horizon: float, shares: float) -> float:
        """How much a child of so many shares would narrow the belief about a pool, in nats, about.

        Half the logarithm of one plus the chance to reach a bin over the trials that it has seen, bin by bin.
        """
        alpha, beta, _ = (one[0] for one in self._posteriors(((pool, horizon),)))
        firmness = (alpha + beta) / np.diff(_EDGES, prepend=0)
        (reached,) = np.diff(self.expected([(pool, horizon)], np.minimum(_EDGES, shares)), prepend=0.0)
        chance = reached / np.diff(_EDGES, prepend=0)
        return float(0.5 * np.log1p(chance / firmness).sum())

    def _posteriors(self, uses: tuple[Use, ...]) -> tuple[Matrix, Matrix, Matrix]:
        """Parameters of the beta beliefs and their means, ``(m, B)`` each, kept until something is learned."""
        found = self._stacked.get(uses)
        if found is None:
            beliefs = [self._belief(_key(*use)) for use in uses]
            alpha, beta = np.array([one.posterior for one in beliefs]).transpose(1, 0, 2)
            found = self._stacked[uses] = (alpha, beta, alpha / (alpha + beta))
        return found

    def beliefs(self, symbol: str) -> list[PlaceBelief]:
        """How likely every way of using a pool is to find a share at all, with the deviation of that belief."""
        found = []
        for key in sorted(self.sizes):
            belief = self._belief(key)
            ends, passed = (float(parameter[0]) for parameter in belief.posterior)
            total = ends + passed
            deviation = (ends * passed / (total + 1)) ** 0.5 / total
            if key.endswith(_AT_ONCE):
                pool, what = key.removesuffix(_AT_ONCE), "finds a share at once"
            else:
                pool, _, seconds = key.rpartition(_WITHIN)
                what = f"finds a share within {seconds}"
            found.append(PlaceBelief(pool, what, passed / total, deviation, "probability", belief.trials, symbol))
        return found

    def state(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "half_life": self.half_life,
            "sizes": {key: belief.state() for key, belief in self.sizes.items()},
            "tests": {key: test.state() for key, test in self.tests.items()},
            "adverse": {pool: list(kept) for pool, kept in self.adverse.items()},
            "last": self.last,
            "resets": self.resets,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild the belief of a saved state."""
        belief = cls(state["half_life"])
        belief.sizes = {str(key): Hazards.restore(one) for key, one in state["sizes"].items()}
        belief.tests = {str(key): ResidualTest.restore(one) for key, one in state["tests"].items()}
        belief.adverse = {
            str(pool): [real_number("adverse", v) for v in kept] for pool, kept in state["adverse"].items()
        }
        belief.last, belief.resets = (whole_number(name, state[name], minimum=0) for name in ("last", "resets"))
        return belief


def _key(pool: str, horizon: float) -> str:
    return f"{pool}{_AT_ONCE}" if horizon <= 0 else f"{pool}{_WITHIN}{2.0 ** horizon_class(horizon):g} s"


@njit(cache=True)
def _capped_moments(edges: Integers, hazards: Matrix, shares: Floats) -> tuple[Matrix, Matrix]:
    """Mean and variance of ``min(d, V)`` for rising ``d`` in ``shares (n,)`` under hazards ``(m, B)``."""
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
