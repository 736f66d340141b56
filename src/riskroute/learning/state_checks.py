"""Restore saved states of policies: convert fields by their annotations, and check the values.

`riskroute.core.records` converts the fields declared with `riskroute.learning.policy.memory` to plain JSON values and
back by type. A state file may be damaged or edited, so beliefs, observations, tallies and plans are checked against the
action set and the rounds played. Fields of other types may declare one of the public checks below.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from riskroute.core.errors import InputError
from riskroute.core.records import check_finite_record, from_plain
from riskroute.core.validation import LARGEST, exact_array, finite_array, instance_of, real_number, valid_magnitude
from riskroute.learning.actions import as_batch
from riskroute.learning.belief import Belief
from riskroute.learning.observations import Observations
from riskroute.learning.plan import LONGEST_HORIZON, Plan
from riskroute.learning.tally import Tallies

if TYPE_CHECKING:
    from riskroute.learning.policy import Policy

LARGEST_SPREAD = LARGEST**2 * LONGEST_HORIZON  # a larger sum of squared deviations is impossible

Check = Callable[[str, Any, "Policy"], None]


def restored_state_field(kind: type, name: str, plain: Any) -> Any:
    """Convert a plain value to the declared type of the field ``name`` of ``kind``."""
    check_finite_record(plain, name)
    return from_plain(_types(kind)[name], plain, name)


@cache
def _types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def check_state_field(name: str, value: Any, policy: Policy, check: Check | None) -> None:
    """Raise `InputError` if a restored field (or an item of a restored list) does not fit the policy."""
    if value is None:
        return
    if isinstance(value, list):
        for item in value:
            check_state_field(f"an item of {name}", item, policy, check)
        return
    for item in value if isinstance(value, tuple) else (value,):
        for record, check_record in _RECORDS.items():
            if isinstance(item, record):
                check_record(name, item, policy)
    if check is not None:
        check(name, value, policy)


def check_state_round(name: str, value: float, policy: Policy) -> None:
    """Require a number of rounds from 0 to the rounds played; discounted rounds may be fractional."""
    if not 0 <= value <= policy.played:
        raise InputError(f"{name} must be from 0 to the {policy.played} rounds played, was {value}")


def check_state_vector(name: str, value: Any, policy: Policy) -> None:
    """Require finite coefficients ``(dim,)``."""
    exact_array(name, value, np.float64, (policy.setting.actions.dim,))
    finite_array(name, value, ndim=1, largest=LARGEST**3)


def check_state_cut(name: str, value: tuple[Any, float], policy: Policy) -> None:
    """Require the record of an elimination: score coefficients ``(dim,)`` and a non-negative tolerance."""
    check_state_vector(name, value[0], policy)
    real_number(name, value[1], minimum=0)


def check_state_member(name: str, value: Any, policy: Policy) -> None:
    """Require the handle of an action in the policy's action set."""
    check_state_handle(name, value, policy)
    _check_members(name, as_batch(value), policy)


def check_state_handle(name: str, value: Any, policy: Policy) -> None:
    """Require a well-formed handle; its action may belong to a set offered earlier."""
    numbers = value if isinstance(value, tuple) and value else (value,)
    if any(type(number) is not int or abs(number) >= 2**63 for number in numbers):
        raise InputError(f"{name} must be a handle of an action, was {value!r}")


def check_state_information(name: str, value: Any, policy: Policy) -> None:
    """Require a positive definite matrix ``(dim, dim)``."""
    dim = policy.setting.actions.dim
    _check_positive_definite(name, exact_array(name, value, np.float64, (dim, dim)), largest=LARGEST**2)


def check_state_belief(name: str, value: Belief, dim: int) -> None:
    """Require a belief of dimension ``dim`` with finite coefficients and positive definite precisions."""
    instance_of(name, value, Belief, "a Belief")
    if value.dim != dim:
        raise InputError(f"{name} must have dimension {dim}, had {value.dim}")
    for field in ("mean_coef", "var_coef"):
        finite_array(f"{field} of {name}", getattr(value, field), ndim=1, largest=LARGEST**3)
    for field in ("mean_precision", "var_precision"):
        _check_positive_definite(f"{field} of {name}", getattr(value, field))
    valid_magnitude(f"variance of {name}", value.variance, above=0, largest=LARGEST**2)
    valid_magnitude(f"rounds of {name}", value.rounds, minimum=0)


def _check_observations(name: str, value: Observations, policy: Policy) -> None:
    dim = policy.setting.actions.dim
    if value.features.shape[1] != dim:
        raise InputError(f"features of {name} must have dimension {dim}, had {value.features.shape[1]}")
    if len(value) == 0:
        return
    finite_array(f"features of {name}", value.features, ndim=2, largest=LARGEST)
    if finite_array(f"counts of {name}", value.counts, ndim=1, largest=LONGEST_HORIZON).min() <= 0:
        raise InputError(f"counts of {name} must be positive, was {value.counts.min():g}")
    free = finite_array(f"free of {name}", value.free, ndim=1)
    if free.min() < 0 or (free > value.counts).any():
        raise InputError(f"free of {name} must be from 0 to the counts, was {free.min():g} to {free.max():g}")
    finite_array(f"means of {name}", value.means, ndim=1, largest=LARGEST)
    check_state_spreads(f"spreads of {name}", value.spreads)


def _check_tallies(name: str, value: Tallies, policy: Policy) -> None:
    _check_members(f"actions of {name}", value.actions, policy)
    if len(value) == 0 or value.counts.min() < 1 or int(value.counts.sum()) > policy.played:
        raise InputError(
            f"counts of {name} must be positive and add up to at most {policy.played}, was {value.counts.tolist()[:6]}"
        )
    finite_array(f"means of {name}", value.means, ndim=1, largest=LARGEST)
    check_state_spreads(f"spreads of {name}", value.spreads)


def _check_plan(name: str, value: Plan, policy: Policy) -> None:
    if len(value.counts) == 0 or value.counts.min() < 1 or not 1 <= value.rounds <= policy.remaining:
        was = f"{value.counts.tolist()[:6]}"
        raise InputError(f"counts of {name} must be positive and add up to at most {policy.remaining}, was {was}")
    _check_members(f"actions of {name}", value.actions, policy)


_RECORDS: dict[type, Check] = {
    Belief: lambda name, value, policy: check_state_belief(name, value, policy.setting.actions.dim),
    Observations: _check_observations,
    Tallies: _check_tallies,
    Plan: _check_plan,
}


def _check_members(name: str, actions: Any, policy: Policy) -> None:
    if not policy.setting.actions.contains(actions).all():
        raise InputError(f"{name} must belong to the action set")


def check_state_spreads(name: str, value: Any) -> None:
    """Require finite, non-negative sums of squared deviations."""
    if finite_array(name, value, ndim=1, largest=LARGEST_SPREAD).min() < 0:
        raise InputError(f"{name} must not be negative, was {value.min():g}")


def _check_positive_definite(name: str, matrix: Any, largest: float | None = None) -> None:
    finite_array(name, matrix, ndim=2, largest=largest)
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    fits = bool((scale > 0).all() and (np.abs(matrix - matrix.T) <= 1e-9 * np.outer(scale, scale)).all())
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        fits = False
    if not fits:
        raise InputError(f"{name} must be symmetric and positive definite")
