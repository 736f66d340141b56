"""Linear mean-variance problems: actions, unknown coefficients, and the objective."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.validation import (
    LARGEST,
    finite_array,
    instance_of,
    real_number,
    true_or_false,
    valid_magnitude,
    whole_number,
)
from riskroute.learning.actions import Action, Actions, ActionSet, as_batch

_REACH = LARGEST / 1000  # largest mean or standard deviation; below the limit of rewards, to leave room for noise
_SLACK = 1e-9  # rounding tolerance of the norm and sign checks


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """Rewards with mean ``<mean_coef, a>`` and variance ``<var_coef, a> + base_variance``.

    The objective is the mean-variance ``variance - risk_tolerance * mean`` of an action; smaller is better.

    Parameters
    ----------
    actions : ActionSet
        The action set; its feature vectors have norm at most one.
    mean_coef : Floats
        Coefficients of the mean, ``(dim,)``, the paper's theta, of norm at most one.
    var_coef : Floats
        Coefficients of the variance, ``(dim,)``, the paper's phi, of norm at most ``base_variance``.
    base_variance : float
        Known constant in the variance, the paper's omega.
    risk_tolerance : float
        Weight of the mean, the paper's rho; at 0 only the variance matters.
    check_norms : bool
        Require the norm bounds above. Beyond them, the constants of the paper's regret bounds do not apply, but every
        policy runs. Variances must be non-negative in either case.

    Examples
    --------
    >>> problem = Problem(actions=Actions([[1.0, 0.0], [0.0, 1.0]]), mean_coef=[0.5, 0.1], var_coef=[0.3, 0.2])
    >>> problem.best, problem.gaps().round(3).tolist()
    (0, [0.0, 0.7])
    """

    actions: ActionSet
    mean_coef: Floats
    var_coef: Floats
    base_variance: float = 1.0
    risk_tolerance: float = 2.0
    check_norms: bool = True

    def __post_init__(self) -> None:
        dim = _action_set(self.actions).dim
        store = object.__setattr__
        store(self, "mean_coef", finite_array("mean_coef", self.mean_coef, ndim=1, length=dim).copy())
        store(self, "var_coef", finite_array("var_coef", self.var_coef, ndim=1, length=dim).copy())
        store(
            self,
            "base_variance",
            valid_magnitude("base_variance", self.base_variance, minimum=0, largest=_REACH**2, smallest=0),
        )
        store(self, "risk_tolerance", valid_magnitude("risk_tolerance", self.risk_tolerance, minimum=0, smallest=0))
        if true_or_false("check_norms", self.check_norms):
            norms = (
                ("actions", self.actions.largest_norm(), 1.0),
                ("mean_coef", _norm(self.mean_coef), 1.0),
                ("var_coef", _norm(self.var_coef), self.base_variance),
            )
            for name, norm, limit in norms:
                if norm > limit * (1 + _SLACK):
                    raise InputError(
                        f"{name} must have norm at most {limit:g}, had {norm:.6g}; "
                        "scale it down (Problem.scaled does) or pass check_norms=False"
                    )
        self._check_reach()
        riskless = self.actions.best(self.var_coef)
        least = float(self.variances(as_batch(riskless))[0])
        if least < -_SLACK * max(1.0, self.base_variance):
            raise InputError(f"variance must be non-negative for every action, was {least:.6g} for action {riskless}")

    def _check_reach(self) -> None:
        """Raise `InputError` if rewards or squared rewards could exceed the range that policies accept."""
        norm = self.actions.largest_norm()
        for name, coef, most in (("mean_coef", self.mean_coef, _REACH), ("var_coef", self.var_coef, _REACH**2)):
            size = float(np.abs(coef).max())
            if size and math.log10(size) + math.log10(norm or 1.0) > math.log10(most):
                raise InputError(
                    f"{name} times a feature must be at most {most:g} in magnitude, was up to {size:g} * {norm:g}"
                )

    @classmethod
    def scaled(
        cls,
        *,
        actions: ActionSet,
        mean_coef: Floats,
        var_coef: Floats,
        base_variance: float = 1.0,
        risk_tolerance: float = 2.0,
    ) -> Problem:
        """Return a problem with coefficients (and listed actions) scaled down to the paper's norm bounds."""
        _action_set(actions)
        if isinstance(actions, Actions) and actions.largest_norm() > 1:
            actions = actions.shrunk()
        mean_coef = finite_array("mean_coef", mean_coef, ndim=1, length=actions.dim)
        var_coef = finite_array("var_coef", var_coef, ndim=1, length=actions.dim)
        base_variance = real_number("base_variance", base_variance, above=0)
        return cls(
            actions=actions,
            mean_coef=mean_coef / max(1.0, _norm(mean_coef)),
            var_coef=var_coef / max(1.0, _norm(var_coef) / base_variance),
            base_variance=base_variance,
            risk_tolerance=risk_tolerance,
        )

    @property
    def score(self) -> Floats:
        """Coefficients of the mean-variance without the constant: ``var_coef - risk_tolerance * mean_coef``."""
        return self.var_coef - self.risk_tolerance * self.mean_coef

    @property
    def best(self) -> Action:
        """Action with the smallest mean-variance."""
        return self.actions.best(self.score)

    def means(self, actions: Integers) -> Floats:
        """Return the mean rewards ``(n,)`` of a batch of actions."""
        product: Floats = self.actions.features(actions) @ self.mean_coef
        return product

    def variances(self, actions: Integers) -> Floats:
        """Return the reward variances ``(n,)`` of a batch of actions."""
        product: Floats = self.actions.features(actions) @ self.var_coef
        return product + self.base_variance

    def mean_variances(self, actions: Integers) -> Floats:
        """Return the mean-variances ``(n,)`` of a batch of actions."""
        return self.variances(actions) - self.risk_tolerance * self.means(actions)

    def gaps(self, actions: Integers | None = None) -> Floats:
        """Return the mean-variances of a batch of actions (default: all) minus the best action's, ``(n,)``."""
        chosen = self.actions.listed().handles if actions is None else actions
        return self.mean_variances(chosen) - self.mean_variances(as_batch(self.best))


def _norm(vector: Floats) -> float:
    """Return the Euclidean norm; the sum of squares is the same on every processor, unlike a BLAS dot product."""
    size = float(np.abs(vector).max(initial=0.0))
    if size == 0:
        return 0.0
    exponent = math.frexp(size)[1]  # scale to order one first: squares could overflow or underflow
    return math.ldexp(math.sqrt(math.fsum(x * x for x in np.ldexp(vector, -exponent).tolist())), exponent)


def _action_set(actions: ActionSet) -> ActionSet:
    return instance_of("actions", actions, ActionSet, "an action set (riskroute.Actions)")


def random_problem(
    actions: ActionSet, seed: int, *, risk_tolerance: float = 2.0, base_variance: float = 1.0
) -> Problem:
    """Return a problem with standard normal coefficients, scaled down to the paper's norm bounds.

    Examples
    --------
    >>> actions = Actions.scaled([[1.0, 0.0], [0.0, 1.0]])
    >>> problem = random_problem(actions, seed=1)
    >>> bool(np.linalg.norm(problem.mean_coef) <= 1 + 1e-12)
    True
    """
    rng = np.random.default_rng(np.random.SeedSequence(whole_number("seed", seed, minimum=0)))
    mean_coef, var_coef = rng.standard_normal((2, _action_set(actions).dim))
    return Problem.scaled(
        actions=actions,
        mean_coef=mean_coef,
        var_coef=var_coef,
        base_variance=base_variance,
        risk_tolerance=risk_tolerance,
    )
