"""Asymptotic lower bound on the regret of consistent policies, by the optimisation problem of Graves and Lai.

A policy is consistent if its regret grows more slowly than every power of the horizon on every problem of the class:
Gaussian rewards, means and variances linear in the features, positive variances. Such a policy must distinguish the
problem from every *alternative* in which another action is best. Plays of the best action carry no information about
alternatives that leave its distribution unchanged, so other actions must be played. Action ``a`` must be played about
``plays[a] * log(T)`` times, where for every alternative the sum of ``plays[a] * KL[a]`` is at least one; ``KL[a]`` is
the Kullback-Leibler divergence of the action's rewards from its rewards under the alternative. A play costs the
action's gap plus the squared difference of its mean and the best action's, as switching adds to the path's variance.
The cheapest ``plays`` give the smallest slope of regret against ``log(T)``.

Plays and alternatives form a two-player zero-sum game. Weights on *any* alternatives prove a lower bound,

    ``slope >= 1 / max over a of (sum over k of weights[k] * KL[k, a]) / cost[a]``,

where ``KL[k, a]`` is the divergence for alternative ``k``. `LowerBound.certified_slope` computes this bound from the
alternatives alone. Column generation finds them: each iteration adds the alternatives of smallest divergence under the
current plays.

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


@dataclass(frozen=True, eq=False)
class LowerBound:
    """The smallest slope of regret against the logarithm of the horizon, with the alternatives that prove it.

    Parameters
    ----------
    problem : Problem
        Problem to which the bound applies.
    slope : float
        No consistent policy's regret grows more slowly than ``slope * log(T)``.
    reached : float
        Regret of ``plays`` per ``log(T)``: an upper estimate of the exact bound.
    plays : Vector
        Plays of every action in units of ``log(T)``, ``(K,)``; 0 for the best action.
    weights : Vector
        Weights of the alternatives, ``(n,)``, summing to one.
    mean_coefs, var_coefs : Floats
        Coefficients of the alternatives, ``(n, dim)``. In each alternative another action ties with the best action,
        whose mean and variance are unchanged.
    """

    problem: Problem
    slope: float
    reached: float
    plays: Vector
    weights: Vector
    mean_coefs: Floats
    var_coefs: Floats

    def regret(self, horizon: float) -> float:
        """Return the lower bound ``slope * log(horizon)``, which holds asymptotically."""
        return self.slope * math.log(real_number("horizon", horizon, minimum=1))

    def certified_slope(self) -> float:
        """Check that the alternatives are valid, and recompute the slope from them and their weights."""
        game = _Game.of(self.problem)
        shifts = self.var_coefs - self.problem.var_coef
        moved = (self.mean_coefs - self.problem.mean_coef) @ game.features.T, shifts @ game.features.T
        scale = max(1.0, float(game.gaps.max()))
        changes = game.gaps + moved[1] - self.problem.risk_tolerance * moved[0]
        if np.any(np.abs(moved[0][:, game.best]) + np.abs(moved[1][:, game.best]) > 1e-9 * scale):
            raise InputError("mean_coefs and var_coefs must leave mean and variance of the best action unchanged")
        if np.any(np.delete(changes, game.best, axis=1).min(axis=1) > 1e-9 * scale):
            raise InputError("mean_coefs and var_coefs must make another action tie with the best one")
        if np.any(game.variances + moved[1] <= 0):
            raise InputError("var_coefs must give positive variances")
        if np.any(self.weights < 0):
            raise InputError(f"weights must not be negative, was {self.weights.min():g}")
        divergence = self.weights @ _divergence(game.variances, *moved) / self.weights.sum()
        others = np.arange(len(game.costs)) != game.best
        return float(1 / np.max(divergence[others] / game.costs[others]))


def lower_bound(problem: Problem, *, tolerance: float = 0.01) -> LowerBound:
    """Return a lower bound on the slope of regret against ``log(T)`` for every consistent policy on a problem.

    Parameters
    ----------
    problem : Problem
        A problem with a single best action, positive variances, and few enough actions to list.
    tolerance : float
        Relative accuracy of the slope.

    Examples
    --------
    Two actions with orthogonal features: plays of one carry no information about the other.

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
        # gaps below this fraction of the largest are rounding errors
        ties = int(np.count_nonzero(gaps <= 1e-9 * gaps.max()))
        if ties > 1:
            raise InputError(f"problem must have one best action, had {ties}")
        return cls(actions.rows, variances, gaps, gaps + (means - means[best]) ** 2, best)


def _divergence(variances: Vector, means: Floats, shifts: Floats) -> Floats:
    """Return the Kullback-Leibler divergences of Gaussian rewards from rewards with shifted means and variances."""
    others = variances + shifts
    return np.asarray(((variances + means**2) / others - 1 + np.log(others / variances)) / 2)


class _Search:
    """Column generation for the game between plays and alternatives.

    Alternatives differ from the problem by vectors in the span of ``axes``, which leave the best action unchanged.
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
        for _ in range(400):  # iterations of column generation; ten or twenty are usual
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
        """Return the alternatives of smallest divergence under ``plays``, each with another action tied for best."""
        # For small shifts the divergence is quadratic, with the information matrices of mean and variance. Its minimum
        # subject to action x tying with the best has a closed form, where the descent starts.
        about_mean = _inverse((self.seen * (plays / self.variances)[:, None]).T @ self.seen)
        about_variance = _inverse((self.seen * (plays / (2 * self.variances**2))[:, None]).T @ self.seen)
        to_mean, to_variance = self.seen @ about_mean, self.seen @ about_variance
        reach = self.rho**2 * np.sum(to_mean * self.seen, axis=1) + np.sum(to_variance * self.seen, axis=1)
        found = []
        # the eight nearest actions by this approximation
        for x in np.argsort(self.gaps**2 / reach, kind="stable")[:8]:
            mean = self.gaps[x] * self.rho / reach[x] * to_mean[x]
            shift = -self.gaps[x] / reach[x] * to_variance[x]
            least = float(np.min(self.seen @ shift / self.variances))
            if least < -0.9:  # a descent starts with variances of at least a tenth of the problem's
                if self.rho == 0:
                    continue
                shift = shift * (0.9 / -least)
                mean = (self.gaps[x] + self.seen[x] @ shift) / self.rho * to_mean[x] / (to_mean[x] @ self.seen[x])
            found.append(self._descend(plays, int(x), mean, shift, (about_mean, about_variance)))
        if not found:
            raise InputError(
                "found no alternative: at a risk tolerance of 0, an action near the best ties with it only if one "
                "variance falls by more than 90 %; use a positive risk tolerance"
            )
        return found

    def _descend(
        self, plays: Vector, x: int, mean: Vector, shift: Vector, inverses: tuple[Floats, Floats]
    ) -> tuple[Vector, Vector]:
        """Reduce the divergence of an alternative by projected gradient steps that keep action ``x`` tied for best."""
        row, to_mean, to_variance = self.seen[x], inverses[0] @ self.seen[x], inverses[1] @ self.seen[x]
        reach = self.rho**2 * row @ to_mean + row @ to_variance
        for _ in range(40):
            m, v = self.seen @ mean, self.seen @ shift
            others, value = self.variances + v, self._divergence_under(plays, mean, shift)
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
                lower = self._divergence_under(plays, *nearer)
                if lower <= value - 1e-4 * step * slope:
                    break
                step /= 2
            else:
                break
            mean, shift = nearer
        return mean, shift

    def _divergence_under(self, plays: Vector, mean: Vector, shift: Vector) -> float:
        """Return the divergence of an alternative under ``plays``; infinite if a variance is not positive."""
        moved = self.seen @ shift
        if np.any(self.variances + moved <= 0):
            return math.inf
        return float(plays @ _divergence(self.variances, self.seen @ mean, moved))


def _inverse(matrix: Floats) -> Floats:
    """Invert an information matrix plus a small ridge, since it may be rank-deficient."""
    size = len(matrix)
    return np.asarray(np.linalg.inv(matrix + 1e-9 * np.trace(matrix) / size * np.eye(size)))


def _solve_game(payoffs: Floats) -> tuple[Vector, Vector]:
    """Return the optimal mixed strategies of a zero-sum game with payoffs ``(alternatives, plays)``."""
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
