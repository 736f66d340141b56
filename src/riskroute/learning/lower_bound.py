"""The least regret that any consistent policy can have in the long run: the programme of Graves and Lai.

A policy is consistent if its regret grows more slowly than every power of the horizon on every problem of the class:
Gaussian rewards, means and variances linear in the features, positive variances. Such a policy must be able to tell
the problem from every *alternative* in which another action is best. Playing the best action does not help with
alternatives that leave it as it is, so other actions must be played: action ``a`` at least ``plays[a] * log(T)`` times
in the end, where for every alternative the sum of ``plays[a] * KL[a]`` is at least one. One such play costs the gap
plus the squared difference of the means, since switching adds to the variance of the path. The cheapest ``plays`` give
the smallest slope of regret against ``log(T)``.

Choosing plays against alternatives is a game of two. Weights on *any* alternatives prove a lower bound,

    ``slope >= 1 / max over a of (sum over k of weights[k] * KL[k, a]) / cost[a]``,

which `LowerBound.certified_slope` computes from the alternatives alone. They are found one after the other: those that
the plays so far tell apart worst.

References
----------
T. L. Graves, T. L. Lai, "Asymptotically efficient adaptive choice of control laws in controlled Markov chains", SIAM
Journal on Control and Optimization 35 (1997), 715-743. https://doi.org/10.1137/S0363012994275440

T. Lattimore, C. Szepesvari, "The end of optimism? An asymptotic analysis of finite-armed linear bandits", AISTATS 2017.
https://arxiv.org/abs/1610.04491
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Floats, Vector
from riskroute.core.errors import InputError
from riskroute.core.validation import instance_of, real_number
from riskroute.learning.problem import Problem

_ROOM = 0.9  # an alternative starts with at least a tenth of every variance


@dataclass(frozen=True, eq=False)
class LowerBound:
    """The smallest slope of regret against the logarithm of the horizon, with its proof.

    Parameters
    ----------
    problem : Problem
        The problem.
    slope : float
        No consistent policy's regret grows more slowly than ``slope * log(T)``.
    reached : float
        Slope of ``plays``, as far as a search for alternatives can tell: what the bound could be at most.
    plays : Vector
        For every action, plays in units of ``log(T)``, ``(K,)``; 0 for the best action, which is played all the time.
    weights : Vector
        Weights of the alternatives, ``(n,)``; they sum to one.
    mean_coefs, var_coefs : Floats
        Coefficients of the alternatives, ``(n, dim)``. In each of them another action is as good as the best one, whose
        mean and variance are unchanged.
    """

    problem: Problem
    slope: float
    reached: float
    plays: Vector
    weights: Vector
    mean_coefs: Floats
    var_coefs: Floats

    def regret(self, horizon: float) -> float:
        """Return the bound at a horizon, ``slope * log(horizon)``; it holds for long ones."""
        return self.slope * math.log(real_number("horizon", horizon, minimum=1))

    def certified_slope(self) -> float:
        """Compute the slope again from problem, alternatives and weights, after checking that they are alternatives."""
        game = _Game.of(self.problem)
        shifts = self.var_coefs - self.problem.var_coef
        moved = (self.mean_coefs - self.problem.mean_coef) @ game.features.T, shifts @ game.features.T
        scale = max(1.0, float(game.gaps.max()))
        changes = game.gaps + moved[1] - self.problem.risk_tolerance * moved[0]
        if np.any(np.abs(moved[0][:, game.best]) + np.abs(moved[1][:, game.best]) > 1e-9 * scale):
            raise InputError("mean_coefs and var_coefs must leave the best action as it is")
        if np.any(np.delete(changes, game.best, axis=1).min(axis=1) > 1e-9 * scale):
            raise InputError("mean_coefs and var_coefs must make another action as good as the best one")
        if np.any(game.variances + moved[1] <= 0) or np.any(self.weights < 0):
            raise InputError("var_coefs must give positive variances, and weights must not be negative")
        told_apart = self.weights @ _divergence(game.variances, *moved) / self.weights.sum()
        others = np.arange(len(game.costs)) != game.best
        return float(1 / np.max(told_apart[others] / game.costs[others]))


def lower_bound(problem: Problem, *, tolerance: float = 0.01) -> LowerBound:
    """Smallest slope of regret against ``log(T)`` that a consistent policy can have on a problem.

    Parameters
    ----------
    problem : Problem
        A problem with listed actions, one best action and positive variances.
    tolerance : float
        The search ends when the slope is known to this fraction.

    Examples
    --------
    Two actions that say nothing about each other: the second one has to be told from one that is better.

    >>> from riskroute.learning.actions import Actions
    >>> problem = Problem(actions=Actions([[1.0, 0.0], [0.0, 1.0]]), mean_coef=[0.5, 0.1], var_coef=[0.0, 0.0])
    >>> bound = lower_bound(problem)
    >>> round(bound.slope, 1), round(bound.regret(1e6))
    (13.9, 192)
    """
    instance_of("problem", problem, Problem, "a riskroute.Problem")
    real_number("tolerance", tolerance, above=0, maximum=1)
    return _Search(_Game.of(problem), problem).run(tolerance)


@dataclass(frozen=True, eq=False)
class _Game:
    """What plays cost, and what they see."""

    features: Floats
    variances: Vector
    gaps: Vector
    costs: Vector
    best: int

    @classmethod
    def of(cls, problem: Problem) -> _Game:
        actions = problem.actions.listed()
        means, variances = problem.means(actions.handles), problem.variances(actions.handles)
        values = variances - problem.risk_tolerance * means
        best = int(np.argmin(values))
        gaps = values - values[best]
        if variances.min() <= 0:
            where = int(np.argmin(variances))
            raise InputError(f"problem must have positive variances, was {variances[where]:g} for action {where}")
        # gaps of less than this, as a fraction of the largest, are ties
        ties = int(np.count_nonzero(gaps <= 1e-9 * gaps.max()))
        if ties > 1:
            raise InputError(f"problem must have one best action, has {ties}")
        return cls(actions.rows, variances, gaps, gaps + (means - means[best]) ** 2, best)


def _divergence(variances: Vector, means: Floats, shifts: Floats) -> Floats:
    """Kullback-Leibler divergence of normal rewards from those with other means and variances."""
    others = variances + shifts
    return np.asarray(((variances + means**2) / others - 1 + np.log(others / variances)) / 2)


class _Search:
    """Plays against alternatives, each improved by the other in turn.

    Coefficients of alternatives move within the ``axes`` that leave the best action as it is; ``seen`` are the other
    actions in them.
    """

    def __init__(self, game: _Game, problem: Problem) -> None:
        self.game, self.problem, self.rho = game, problem, problem.risk_tolerance
        _, sizes, span = np.linalg.svd(game.features, full_matrices=False)
        span = span[sizes > 1e-10 * sizes[0]].T
        inside = game.features[game.best] @ span
        rotation, _ = np.linalg.qr(np.column_stack([inside, np.eye(len(inside))]))
        self.axes = span @ rotation[:, 1 : len(inside)]
        self.others = np.flatnonzero(np.arange(len(game.gaps)) != game.best)
        self.seen = game.features[self.others] @ self.axes
        self.variances, self.gaps = game.variances[self.others], game.gaps[self.others]
        self.costs = game.costs[self.others]

    def run(self, tolerance: float) -> LowerBound:
        found: list[tuple[Vector, Vector]] = []
        payoffs = np.empty((0, len(self.others)))
        spent = tried = np.full(len(self.others), 1 / len(self.others))
        worth, slope, proof = 0.0, 0.0, np.empty(0)
        for _ in range(400):  # of alternatives found; ten or twenty are usual
            fresh = self._alternatives(tried / self.costs)
            found += fresh
            rows = [_divergence(self.variances, self.seen @ u, self.seen @ w) / self.costs for u, w in fresh]
            payoffs = np.vstack([payoffs, *rows])
            if (payoffs @ tried).min() > worth:
                worth, spent = float((payoffs @ tried).min()), tried
            else:
                worth = float((payoffs @ spent).min())
            plays, weights = _solve_game(payoffs)
            if 1 / (weights @ payoffs).max() > slope:
                slope, proof = float(1 / (weights @ payoffs).max()), weights
            if slope * worth * (1 + tolerance) >= 1:
                break
            tried = (plays + spent) / 2
        return self._bound(found, np.pad(proof, (0, len(found) - len(proof))), slope, spent / self.costs / worth)

    def _bound(self, found: list[tuple[Vector, Vector]], weights: Vector, slope: float, amounts: Vector) -> LowerBound:
        used, plays = np.flatnonzero(weights > 0), np.zeros(len(self.game.gaps))
        plays[self.others] = amounts
        return LowerBound(
            self.problem,
            slope,
            float(plays @ self.game.costs),
            plays,
            weights[used],
            np.array([self.problem.mean_coef + self.axes @ found[k][0] for k in used]),
            np.array([self.problem.var_coef + self.axes @ found[k][1] for k in used]),
        )

    def _alternatives(self, plays: Vector) -> list[tuple[Vector, Vector]]:
        """Alternatives that plays tell apart worst, each with another action as good as the best one.

        For small changes the divergence is a quadratic form with the matrices of information of mean and variance; its
        least value where action ``x`` is as good as the best one is known, and is where the descent begins.
        """
        about_mean = _inverse((self.seen * (plays / self.variances)[:, None]).T @ self.seen)
        about_variance = _inverse((self.seen * (plays / (2 * self.variances**2))[:, None]).T @ self.seen)
        to_mean, to_variance = self.seen @ about_mean, self.seen @ about_variance
        reach = self.rho**2 * np.sum(to_mean * self.seen, axis=1) + np.sum(to_variance * self.seen, axis=1)
        found = []
        # actions that are tried as the best one of an alternative, in every round
        for x in np.argsort(self.gaps**2 / reach, kind="stable")[:8]:
            mean = self.gaps[x] * self.rho / reach[x] * to_mean[x]
            shift = -self.gaps[x] / reach[x] * to_variance[x]
            least = float(np.min(self.seen @ shift / self.variances))
            if least < -_ROOM:
                if self.rho == 0:
                    continue
                shift = shift * (_ROOM / -least)
                mean = (self.gaps[x] + self.seen[x] @ shift) / self.rho * to_mean[x] / (to_mean[x] @ self.seen[x])
            found.append(self._descend(plays, int(x), mean, shift, (about_mean, about_variance)))
        if not found:
            raise InputError("problem must have alternatives: with a risk tolerance of 0, variances leave no room")
        return found

    def _descend(
        self, plays: Vector, x: int, mean: Vector, shift: Vector, inverses: tuple[Floats, Floats]
    ) -> tuple[Vector, Vector]:
        """Make an alternative harder to tell apart, with action ``x`` as good as before, by projected steps."""
        row, to_mean, to_variance = self.seen[x], inverses[0] @ self.seen[x], inverses[1] @ self.seen[x]
        reach = self.rho**2 * row @ to_mean + row @ to_variance
        for _ in range(40):  # of descent towards an alternative
            m, v = self.seen @ mean, self.seen @ shift
            others, value = self.variances + v, self._told_apart(plays, mean, shift)
            up = self.seen.T @ (plays * m / others)
            aside = self.seen.T @ (plays * (1 / others - (self.variances + m * m) / others**2) / 2)
            by_mean, by_shift = inverses[0] @ up, inverses[1] @ aside
            along = (row @ by_shift - self.rho * row @ by_mean) / reach
            by_mean, by_shift = by_mean + self.rho * along * to_mean, by_shift - along * to_variance
            slope, step = float(up @ by_mean + aside @ by_shift), 1.0
            if slope <= 1e-7 * value:
                break
            while step > 1e-6:
                nearer = mean - step * by_mean, shift - step * by_shift
                told = self._told_apart(plays, *nearer)
                if told <= value - 1e-4 * step * slope:
                    break
                step /= 2
            else:
                break
            mean, shift = nearer
        return mean, shift

    def _told_apart(self, plays: Vector, mean: Vector, shift: Vector) -> float:
        """How well plays tell an alternative apart; infinitely well if it is none, for want of positive variances."""
        moved = self.seen @ shift
        if np.any(self.variances + moved <= 0):
            return math.inf
        return float(plays @ _divergence(self.variances, self.seen @ mean, moved))


def _inverse(matrix: Floats) -> Floats:
    """Invert a matrix of information that may not be of full rank yet."""
    size = len(matrix)
    return np.asarray(np.linalg.inv(matrix + 1e-9 * np.trace(matrix) / size * np.eye(size)))


def _solve_game(payoffs: Floats) -> tuple[Vector, Vector]:
    """Best mixed plays and best mixed alternatives of a game with these payoffs, ``(alternatives, plays)``."""
    from scipy.optimize import linprog

    rows, columns = payoffs.shape
    scale = float(payoffs.max())
    solved = linprog(
        np.r_[np.zeros(columns), -1.0],
        A_ub=np.column_stack([-payoffs / scale, np.ones(rows)]),
        b_ub=np.zeros(rows),
        A_eq=np.r_[np.ones(columns), 0.0][None],
        b_eq=[1.0],
        bounds=[(0, None)] * columns + [(None, None)],
        method="highs",
    )
    weights = np.maximum(-solved.ineqlin.marginals, 0.0)
    return np.asarray(solved.x[:-1]), np.asarray(weights / weights.sum())
