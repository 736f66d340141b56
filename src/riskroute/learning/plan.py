"""`Setting`, what a policy knows about its problem, and `Plan`, the actions that it proposes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from riskroute.core.arrays import Integers
from riskroute.core.errors import InputError
from riskroute.core.validation import LARGEST, exact_array, instance_of, valid_magnitude, whole_number
from riskroute.learning.actions import Action, ActionSet, as_batch
from riskroute.learning.design.rounding import round_exact_counts
from riskroute.learning.tally import ActionBatch, tally_handles

LONGEST_HORIZON = 10**12  # rounds; counts up to here are exact in floating point
MOST_DRAWS = 10**6  # maximum posterior draws per plan, which are held in memory


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Problem data known to a policy: everything but the coefficients.

    ``horizon`` is the number of rounds, None if unlimited. Policies that need a horizon raise `InputError` without one.
    """

    actions: ActionSet
    horizon: int | None = None
    risk_tolerance: float = 2.0
    base_variance: float = 1.0

    def __post_init__(self) -> None:
        instance_of("actions", self.actions, ActionSet, "an action set (riskroute.Actions)")
        store = object.__setattr__
        if self.horizon is not None:
            store(self, "horizon", whole_number("horizon", self.horizon, maximum=LONGEST_HORIZON))
        store(self, "risk_tolerance", valid_magnitude("risk_tolerance", self.risk_tolerance, minimum=0, smallest=0))
        store(
            self, "base_variance", valid_magnitude("base_variance", self.base_variance, minimum=0, largest=LARGEST**2)
        )


@dataclass(frozen=True)
class Plan:
    """Sequence of actions; ``actions[i]`` is played ``counts[i]`` times in a row."""

    actions: ActionBatch
    counts: Integers

    def __post_init__(self) -> None:
        counts = exact_array("counts", self.counts, np.int64, (None,))
        object.__setattr__(self, "actions", tally_handles(self.actions, len(counts)))
        object.__setattr__(self, "counts", counts)

    @classmethod
    def repeat(cls, action: Action, count: int) -> Plan:
        """Return a plan that plays one action ``count`` times."""
        count = whole_number("count", count, minimum=0, maximum=LONGEST_HORIZON)
        return cls(as_batch(action), np.array([count], dtype=np.int64))

    @cached_property
    def rounds(self) -> int:
        """Total number of rounds."""
        return int(self.counts.sum())

    def fitted(self, rounds: int) -> Plan:
        """Return the plan scaled down to at most ``rounds`` rounds, without entries that get no round."""
        rounds = whole_number("rounds", rounds, minimum=0)
        if self.rounds <= rounds and len(self.counts) and self.counts.min() > 0:
            return self
        counts = self.counts if self.rounds <= rounds else round_exact_counts(self.counts.astype(float), rounds)
        played = counts > 0
        if played.all():
            return self if counts is self.counts else Plan(self.actions, counts)
        if (counts < 0).any():
            raise InputError(f"counts of a plan must not be negative, was {counts.min()}")
        return Plan(self.actions[played], counts[played])
