"""Distribution of a right-censored count, by discrete-time survival analysis.

A trial for ``tried`` units observes ``reached = min(tried, V)`` of a hidden ``V``; if ``reached = tried``, ``V`` is
censored. The hazard of unit ``s`` is ``P(V = s - 1 | V >= s - 1)``. Hazards are constant within bins of units. Each bin
has a conjugate beta posterior: an event (an uncensored trial with ``V = s - 1`` for a unit ``s`` in the bin) adds one
to ``alpha``, every other unit at risk adds one to ``beta``. With bins of one unit and no prior this is the Kaplan-Meier
estimator; wider bins give piecewise constant hazards.

Given the hazards, the tail ``P(V >= s)`` falls geometrically within a bin. Beyond the last edge, the hazard of the last
bin applies. The expected result of a trial for ``d`` units is ``E min(d, V) = sum_{s <= d} P(V >= s)``.

References
----------
E. Kaplan, P. Meier, "Nonparametric estimation from incomplete observations", Journal of the American Statistical
Association 53 (1958), https://doi.org/10.1080/01621459.1958.10501452
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numba import njit

from riskroute.core.arrays import Integers, Vector
from riskroute.core.errors import DataError, InputError, StateError
from riskroute.core.records import from_plain, to_plain
from riskroute.core.validation import exact_array, finite_array, real_number, whole_number

MOST_UNITS = 10**6  # largest edge, and most units in a table of tails


class Hazards:
    """Beta posteriors of hazards that are constant within bins of units.

    Parameters
    ----------
    edges : sequence of int
        The last unit of every bin, ``0 < k_1 < .. < k_B``: bin ``b`` holds the units ``k_{b-1} + 1 .. k_b``. Choose
        ``k_1 = 1`` if ``V`` is often zero.
    alpha, beta : float or sequence of float
        Beta prior: pseudo-counts of events and of units survived, one number for all bins or one per bin.

    Attributes
    ----------
    events : Vector
        Events in each bin, discounted, ``(B,)``.
    at_risk : Vector
        Units at risk in each bin, discounted, ``(B,)``.
    trials : float
        Trials so far, discounted.

    Examples
    --------
    >>> belief = Hazards([1, 2, 4])
    >>> for tried, reached in ((3, 3), (3, 1), (5, 0), (2, 2), (5, 3)):
    ...     belief.add(tried, reached)
    >>> belief.events.tolist(), belief.at_risk.tolist()
    ([1.0, 1.0, 1.0], [5.0, 4.0, 3.0])
    >>> belief.tails(4).round(4).tolist()
    [0.7143, 0.4762, 0.2857, 0.1905]
    >>> belief.expected(4).round(4).tolist()
    [0.0, 0.7143, 1.1905, 1.4762, 1.6667]
    """

    def __init__(
        self,
        edges: Sequence[int] | Integers,
        alpha: float | Sequence[float] | Vector = 1.0,
        beta: float | Sequence[float] | Vector = 1.0,
    ) -> None:
        self.edges = _valid_edges(edges)
        self.alpha, self.beta = self._prior("alpha", alpha), self._prior("beta", beta)
        self.events, self.at_risk = np.zeros(len(self.edges)), np.zeros(len(self.edges))
        self.trials = 0.0

    def _prior(self, name: str, value: Any) -> Vector:
        given = np.full(len(self.edges), float(value)) if isinstance(value, int | float) else value
        prior = np.array(finite_array(name, given, ndim=1, length=len(self.edges)))
        if prior.min() <= 0:
            raise InputError(f"{name} must be positive, was {prior.min():g}")
        return prior

    @classmethod
    def from_tails(cls, edges: Sequence[int] | Integers, tails: Sequence[float] | Vector, strength: float) -> Self:
        """Return a prior with the given tails; in each bin it weighs as much as ``strength`` trials that reach the bin.

        ``tails`` ``(B,)`` are the prior ``P(V >= k_b)`` at the edges: strictly between 0 and 1, strictly decreasing.
        """
        given = np.append(1.0, tails)
        chance = 1 - given[1:] / given[:-1]
        hazard = 1 - (1 - chance) ** (1 / np.diff(edges, prepend=0))
        alpha = strength * chance
        return cls(edges, alpha, alpha * (1 - hazard) / hazard)

    def __repr__(self) -> str:
        return f"Hazards({len(self.edges)} bins up to {self.edges[-1]}, {self.trials:g} trials)"

    def add(self, tried: int, reached: int, weight: float = 1.0) -> None:
        """Add a trial of weight ``weight`` that reached ``reached`` of ``tried`` units.

        A trial with ``reached == tried`` is censored. Units beyond the last edge are ignored.
        """
        tried = whole_number("tried", tried, minimum=0)
        reached = whole_number("reached", reached, minimum=0, maximum=tried)
        weight = real_number("weight", weight, minimum=0)
        _expose(self.edges, tried, reached, weight, self.events, self.at_risk)
        self.trials += weight

    def discount(self, factor: float) -> None:
        """Multiply the weight of all observations by ``factor``; the prior keeps its weight."""
        self.events *= factor
        self.at_risk *= factor
        self.trials *= factor

    def merged(self, other: Hazards, weight: float = 1.0) -> Self:
        """Return this belief plus the observations, but not the prior, of ``other``, which has the same edges."""
        both = type(self)(self.edges, self.alpha, self.beta)
        both.events = self.events + weight * other.events
        both.at_risk = self.at_risk + weight * other.at_risk
        both.trials = self.trials + weight * other.trials
        return both

    def borrowed(self, others: Sequence[Hazards], most: float) -> Self:
        """Return this belief plus the observations of ``others``, down-weighted to at most ``most`` trials in total.

        Partial pooling: a belief with few trials of its own borrows trials from similar beliefs.
        """
        there = sum(other.trials for other in others)
        weight = min(1.0, most / there) if there > 0 else 0.0
        belief = self.merged(self, 0.0)
        for other in others:
            belief = belief.merged(other, weight)
        return belief

    @property
    def posterior(self) -> tuple[Vector, Vector]:
        """Parameters ``(alpha, beta)`` of the beta posterior of every bin, ``(B,)`` each."""
        return self.alpha + self.events, self.beta + (self.at_risk - self.events)

    @property
    def hazards(self) -> Vector:
        """Posterior mean hazard per unit of every bin, ``(B,)``."""
        alpha, beta = self.posterior
        return np.asarray(alpha / (alpha + beta))

    def draw(self, rng: np.random.Generator) -> Vector:
        """Draw the hazards ``(B,)`` of all bins from the posterior."""
        return np.asarray(rng.beta(*self.posterior))

    def tails(self, units: int, hazards: Vector | None = None) -> Vector:
        """Return ``P(V >= s)`` for ``s = 1 .. units``: the posterior mean, or the value under given hazards."""
        units = whole_number("units", units, minimum=0, maximum=MOST_UNITS)
        if hazards is not None:
            return np.asarray(_tails(self.edges, exact_array("hazards", hazards, np.float64, self.edges.shape), units))
        return np.asarray(_mean_tails(self.edges, *self.posterior, units))

    def expected(self, units: int, hazards: Vector | None = None) -> Vector:
        """Return ``E min(d, V)`` for ``d = 0 .. units``, ``(units + 1,)``."""
        return np.cumsum(np.append(0.0, self.tails(units, hazards)))

    def state(self) -> dict[str, Any]:
        """Return the complete state as plain JSON values."""
        state: dict[str, Any] = to_plain(
            _State(self.edges, self.alpha, self.beta, self.events, self.at_risk, self.trials)
        )
        return state

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        """Rebuild the belief from a saved state."""
        try:
            saved = from_plain(_State, state, "the state")
            belief = cls(saved.edges, saved.alpha, saved.beta)
            belief.trials = real_number("trials", saved.trials, minimum=0)
            for name in ("events", "at_risk"):
                counts = finite_array(name, getattr(saved, name), ndim=1, length=len(belief.edges))
                setattr(belief, name, np.array(counts))
        except (InputError, DataError) as error:
            raise StateError(f"state of hazards must be one that state() returned: {error}") from error
        if belief.events.min() < 0 or (belief.at_risk - belief.events).min() < -1e-9 * belief.at_risk.max():
            raise StateError("state of hazards must have events between 0 and the units at risk")
        return belief


@dataclass(frozen=True)
class _State:
    edges: Integers
    alpha: Vector
    beta: Vector
    events: Vector
    at_risk: Vector
    trials: float


def _valid_edges(edges: Any) -> Integers:
    """Return bin edges (the last unit of every bin) as an array; raise `InputError` if they are invalid."""
    given = np.array(exact_array("edges", edges, np.int64, (None,)))
    if not (len(given) and given[0] > 0 and (np.diff(given) > 0).all() and given[-1] <= MOST_UNITS):
        raise InputError(f"edges must rise strictly from 1 or more to at most {MOST_UNITS:,}, was {given.tolist()[:6]}")
    return given


@njit(cache=True)
def _expose(edges: Integers, tried: int, reached: int, weight: float, events: Vector, at_risk: Vector) -> None:
    last = min(reached + 1, tried)  # last unit at risk: the last one reached, or the first one not reached
    below = 0
    for b in range(len(edges)):
        if last <= below:
            break
        at_risk[b] += weight * (min(last, edges[b]) - below)
        if reached < tried and below < last <= edges[b]:
            events[b] += weight
        below = edges[b]


@njit(cache=True)
def _tails(edges: Integers, hazards: Vector, units: int) -> Vector:
    """Return ``P(V >= s)`` for ``s = 1 .. units`` under hazards ``(B,)``."""
    tails = np.empty(units)
    tail, b = 1.0, 0
    for s in range(units):
        if s == edges[b] and b < len(edges) - 1:
            b += 1
        tail *= 1 - hazards[b]
        tails[s] = tail
    return tails


@njit(cache=True)
def _mean_tails(edges: Integers, alpha: Vector, beta: Vector, units: int) -> Vector:
    """Return posterior mean tails: products of ``E (1 - h)^i`` under the beta posteriors of the bins."""
    tails = np.empty(units)
    tail, b, i = 1.0, 0, 0
    for s in range(units):
        if s == edges[b] and b < len(edges) - 1:
            b, i = b + 1, 0
        tail *= (beta[b] + i) / (alpha[b] + beta[b] + i)
        tails[s] = tail
        i += 1
    return tails
