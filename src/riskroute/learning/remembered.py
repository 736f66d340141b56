"""Checks of what a restored policy remembers.

A state may come from a file that was damaged or edited. Every field declared with `riskroute.learning.policy.memory`
names the check that its restored value must pass: types, shapes that the action set implies, and values that rewards
could have led to. A check takes the name of the field, its value and the policy, and raises `InputError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from riskroute.core.errors import InputError, described
from riskroute.core.validation import LARGEST, exact_array, finite_array, instance_of, real_number, sized_number
from riskroute.learning.actions import as_batch
from riskroute.learning.belief import Belief
from riskroute.learning.observations import Observations
from riskroute.learning.plan import LONGEST_HORIZON, Plan
from riskroute.learning.tally import Tallies, Tally

if TYPE_CHECKING:
    from riskroute.learning.policy import Policy

LARGEST_SPREAD = LARGEST**2 * LONGEST_HORIZON
"""No sum of squared deviations can be larger than this."""

Check = Callable[[str, Any, "Policy"], None]


def remembered_optional(check: Check) -> Check:
    """None, or what passes the check."""

    def checked(name: str, value: Any, policy: Policy) -> None:
        if value is not None:
            check(name, value, policy)

    return checked


def remembered_each(check: Check) -> Check:
    """A list of items that all pass the check."""

    def checked(name: str, value: Any, policy: Policy) -> None:
        for item in instance_of(name, value, list, "a list"):
            check(f"an item of {name}", item, policy)

    return checked


def remembered_pair(first: Check, second: Check) -> Check:
    """Two items, each with a check of its own."""

    def checked(name: str, value: Any, policy: Policy) -> None:
        if not isinstance(value, tuple) or len(value) != 2:
            raise InputError(f"{name} must be a pair, was {described(value)}")
        first(name, value[0], policy)
        second(name, value[1], policy)

    return checked


def remembered_flag(name: str, value: Any, policy: Policy) -> None:
    """True or False."""
    instance_of(name, value, bool, "true or false")


def remembered_amount(name: str, value: Any, policy: Policy) -> None:
    """A number that is not negative."""
    if not isinstance(value, int | float):
        raise InputError(f"{name} must be a number, was {described(value)}")
    real_number(name, value, minimum=0)


def remembered_part_of_played(name: str, value: Any, policy: Policy) -> None:
    """A number of rewards, perhaps with a fraction, of those that were seen."""
    remembered_amount(name, value, policy)
    if value > policy.played:
        raise InputError(f"{name} must be at most the {policy.played} rounds played, was {value}")


def remembered_rounds_played(name: str, value: Any, policy: Policy) -> None:
    """A whole number of rounds, within the horizon."""
    most = policy.remaining  # nothing is played yet
    if type(value) is not int or not 0 <= value <= most:
        raise InputError(f"{name} must be a whole number from 0 to {most}, was {described(value)}")


def remembered_past_round(name: str, value: Any, policy: Policy) -> None:
    """A whole number of rounds, of those that were played."""
    if type(value) is not int or not 0 <= value <= policy.played:
        raise InputError(f"{name} must be a whole number from 0 to {policy.played}, was {described(value)}")


def remembered_vector(name: str, value: Any, policy: Policy) -> None:
    """Coefficients ``(dim,)``."""
    given = exact_array(name, value, np.float64, (policy.setting.actions.dim,))
    finite_array(name, given, ndim=1, largest=LARGEST**3)


def remembered_information(name: str, value: Any, policy: Policy) -> None:
    """A positive definite matrix ``(dim, dim)``."""
    dim = policy.setting.actions.dim
    _positive_definite(name, exact_array(name, value, np.float64, (dim, dim)), largest=LARGEST**2)


def remembered_arm_counts(name: str, value: Any, policy: Policy) -> None:
    """Rounds of every listed action, which add up to those played."""
    counts = exact_array(name, value, np.int64, (policy.setting.actions.size,))
    if counts.min() < 0 or int(counts.sum()) != policy.played:
        raise InputError(f"{name} must add up to the {policy.played} rounds played, was {int(counts.sum())}")


def remembered_arm_means(name: str, value: Any, policy: Policy) -> None:
    """Mean reward of every listed action."""
    _rewards(name, exact_array(name, value, np.float64, (policy.setting.actions.size,)))


def remembered_arm_spreads(name: str, value: Any, policy: Policy) -> None:
    """Sum of squared deviations of every listed action."""
    _spreads(name, exact_array(name, value, np.float64, (policy.setting.actions.size,)))


def remembered_handle(name: str, value: Any, policy: Policy) -> None:
    """A handle of an action, perhaps of a set offered earlier."""
    numbers = value if isinstance(value, tuple) and value else (value,)
    if any(type(number) is not int or abs(number) >= 2**63 for number in numbers):
        raise InputError(f"{name} must be a handle of an action, was {value!r}")


def remembered_member(name: str, value: Any, policy: Policy) -> None:
    """A handle of an action of the set."""
    remembered_handle(name, value, policy)
    _members(name, as_batch(value), policy)


def remembered_tallies(name: str, value: Any, policy: Policy) -> None:
    """Tallies of actions of the set, each with at least one reward."""
    instance_of(name, value, Tallies, "tallies")
    _members(f"actions of {name}", value.actions, policy)
    if len(value) == 0 or value.counts.min() < 1 or int(value.counts.sum()) > policy.played:
        raise InputError(f"counts of {name} must be positive and add up to at most {policy.played}, and were not")
    _rewards(f"means of {name}", value.means)
    _spreads(f"spreads of {name}", value.spreads)


def remembered_observations(name: str, value: Any, policy: Policy) -> None:
    """Observations by feature vectors of the right dimension."""
    instance_of(name, value, Observations, "observations")
    dim = policy.setting.actions.dim
    if value.features.shape[1] != dim:
        raise InputError(f"features of {name} must have dimension {dim}, was {value.features.shape[1]}")
    if len(value) == 0:
        return
    finite_array(f"features of {name}", value.features, ndim=2, largest=LARGEST)
    if finite_array(f"counts of {name}", value.counts, ndim=1, largest=LONGEST_HORIZON).min() <= 0:
        raise InputError(f"counts of {name} must be positive, was {value.counts.min():g}")
    free = finite_array(f"free of {name}", value.free, ndim=1)
    if free.min() < 0 or (free > value.counts).any():
        raise InputError(f"free of {name} must be from 0 to the counts, and was not")
    _rewards(f"means of {name}", value.means)
    _spreads(f"spreads of {name}", value.spreads)


def remembered_belief(name: str, value: Any, policy: Policy) -> None:
    """A belief of the right dimension; see `check_remembered_belief`."""
    check_remembered_belief(name, value, policy.setting.actions.dim)


def check_remembered_belief(name: str, value: Any, dim: int) -> None:
    """Refuse what is not a belief of dimension ``dim`` that rewards could have led to."""
    instance_of(name, value, Belief, "a Belief")
    if value.dim != dim:
        raise InputError(f"{name} must have dimension {dim}, was {value.dim}")
    for field in ("mean_coef", "var_coef"):
        finite_array(f"{field} of {name}", getattr(value, field), ndim=1, largest=LARGEST**3)
    for field in ("mean_precision", "var_precision"):
        _positive_definite(f"{field} of {name}", getattr(value, field))
    sized_number(f"variance of {name}", value.variance, above=0, largest=LARGEST**2)
    sized_number(f"rounds of {name}", value.rounds, minimum=0)


def remembered_plan(name: str, value: Any, policy: Policy) -> None:
    """A plan of actions of the set that fits into the rounds left."""
    instance_of(name, value, Plan, "a plan")
    if len(value.counts) == 0 or value.counts.min() < 1 or not 1 <= value.rounds <= policy.remaining:
        raise InputError(f"counts of {name} must be positive and add up to at most {policy.remaining}, and were not")
    _members(f"actions of {name}", value.actions, policy)


def remembered_begun(name: str, value: Any, policy: Policy) -> None:
    """Tallies of the first entries of the pending plan, all complete but the last."""
    entries = instance_of(name, value, list, "a list")
    planned = [] if policy.pending is None else policy.pending.counts.tolist()
    if len(entries) > len(planned):
        raise InputError(
            f"{name} must have at most {len(planned)} entries, one per entry of the plan, had {len(entries)}"
        )
    for place, entry in enumerate(entries):
        instance_of(f"an entry of {name}", entry, Tally, "a tally")
        last = place == len(entries) - 1
        least = 1 if last else planned[place]
        most = planned[place] - (place == len(planned) - 1)  # a plan played to its end is no longer pending
        if type(entry.count) is not int or not least <= entry.count <= most:
            raise InputError(f"counts of {name} must follow the plan, was {entry.count} of {planned[place]} at {place}")
        real_number(f"a mean of {name}", entry.mean, minimum=-LARGEST, maximum=LARGEST)
        real_number(f"a spread of {name}", entry.spread, minimum=0, maximum=LARGEST_SPREAD)


def _members(name: str, actions: Any, policy: Policy) -> None:
    if not policy.setting.actions.contains(actions).all():
        raise InputError(f"{name} must belong to the action set, and did not all")


def _rewards(name: str, value: Any) -> None:
    finite_array(name, value, ndim=1, largest=LARGEST)


def _spreads(name: str, value: Any) -> None:
    if finite_array(name, value, ndim=1, largest=LARGEST_SPREAD).min() < 0:
        raise InputError(f"{name} must not be negative, was {value.min():g}")


def _positive_definite(name: str, matrix: Any, largest: float | None = None) -> None:
    finite_array(name, matrix, ndim=2, largest=largest)
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    fits = bool((scale > 0).all() and (np.abs(matrix - matrix.T) <= 1e-9 * np.outer(scale, scale)).all())
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        fits = False
    if not fits:
        raise InputError(f"{name} must be symmetric and positive definite, and was not")
