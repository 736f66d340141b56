"""Base classes of policies that treat every action as a separate arm and ignore the features."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError, StateError
from riskroute.core.validation import LARGEST, exact_array, finite_array
from riskroute.learning.actions import Action
from riskroute.learning.plan import Plan
from riskroute.learning.policy import Policy, memory
from riskroute.learning.state_checks import check_state_spreads
from riskroute.learning.tally import Tallies, merge_tallies_compiled


def _check_counts(name: str, value: Any, policy: Policy) -> None:
    counts = exact_array(name, value, np.int64, (policy.setting.actions.size,))
    if counts.min() < 0 or int(counts.sum()) != policy.played:
        raise InputError(f"{name} must be non-negative and sum to {policy.played}, was {counts.tolist()[:6]}")


def _check_means(name: str, value: Any, policy: Policy) -> None:
    finite_array(name, exact_array(name, value, np.float64, (policy.setting.actions.size,)), ndim=1, largest=LARGEST)


def _check_spreads(name: str, value: Any, policy: Policy) -> None:
    check_state_spreads(name, exact_array(name, value, np.float64, (policy.setting.actions.size,)))


@dataclass(kw_only=True)
class ArmPolicy(Policy):
    """Policy with one tally per arm; arms are numbered by their position in the listed action set."""

    needs_list: ClassVar[bool] = True
    waits: ClassVar[bool] = False

    counts: Integers = memory(None, _check_counts)
    means: Floats = memory(None, _check_means)
    spreads: Floats = memory(None, _check_spreads)

    def begin(self) -> None:
        self.resume()
        self.counts = np.zeros(len(self.handles), dtype=np.int64)
        self.means = np.zeros(len(self.handles))
        self.spreads = np.zeros(len(self.handles))

    def resume(self) -> None:
        self.arms = self.setting.actions.listed()
        self.handles = self.arms.handles

    def observe(self, tallies: Tallies) -> None:
        arms = np.searchsorted(self.arms.members, self.arms.rows_of(tallies.actions))
        merge_tallies_compiled(
            self.counts, self.means, self.spreads, arms, tallies.counts, tallies.means, tallies.spreads
        )

    def mean_variances(self) -> Floats:
        """Return the empirical mean-variance of every arm ``(K,)``, infinite for unplayed arms."""
        seen = self.counts > 0
        value = self.spreads / np.where(seen, self.counts, 1) - self.setting.risk_tolerance * self.means
        return np.where(seen, value, np.inf)

    def arm(self, position: int | np.intp) -> Action:
        """Return the handle of the arm at ``position`` in the listed set."""
        return self.arms.action(int(position))

    def first_tries(self) -> Plan | None:
        """Return a plan that plays every unplayed arm once; None if every arm was played."""
        unplayed = self.handles[self.counts == 0]
        return Plan(unplayed, np.ones(len(unplayed), dtype=np.int64)) if len(unplayed) else None

    def most_played(self) -> Action:
        """Return the most played arm, since the lowest empirical mean-variance may be noise from few rounds."""
        if self.counts.max() == 0:
            raise StateError(f"{self.name} has not finished its first plan and cannot recommend an action yet")
        return self.arm(np.argmax(self.counts))


@dataclass(kw_only=True)
class IndexPolicy(ArmPolicy):
    """Index policy: plays every arm once, then the arm with the lowest index in every round.

    The index of an arm played ``n`` times is its empirical mean-variance minus ``bonus / sqrt(n)``. Subclasses define
    the bonus, which is the same for all arms and depends only on the number of rounds played. A subclass that
    overrides nothing else that decides or learns (`has_kernel`) is simulated by a compiled kernel, which makes the same
    decisions (`riskroute.simulation.runner`).
    """

    @abstractmethod
    def bonus_at(self, played: int) -> float:
        """Return the confidence width of an arm played once, after ``played`` rounds in total."""

    def changes(self, rounds: int) -> list[int]:
        """Return the values of ``played`` below ``rounds`` at which the bonus may change; default: all values."""
        return list(range(rounds))

    def bonuses(self, rounds: int) -> Floats:
        """Return `bonus_at` before each of the first ``rounds`` rounds, ``(rounds,)``."""
        starts = self.changes(rounds)
        return np.repeat([self.bonus_at(start) for start in starts], np.diff([*starts, rounds]))

    def propose(self) -> Plan:
        first = self.first_tries()
        if first is not None:
            return first
        index = self.mean_variances() - self.bonus_at(self.played) / np.sqrt(self.counts)
        return Plan.repeat(self.arm(np.argmin(index)), 1)

    def recommend(self) -> Action:
        return self.most_played()

    @property
    def has_kernel(self) -> bool:
        """Whether the compiled kernel makes this policy's decisions: its class overrides none of the methods below."""
        own = ("propose", "observe", "begin", "mean_variances", "first_tries", "arm", "bonuses")
        return all(getattr(type(self), name) is getattr(IndexPolicy, name) for name in own)

    def absorb(self, counts: Integers, means: Floats, spreads: Floats) -> None:
        """Load the tallies ``(K,)`` of an episode that the compiled kernel played."""
        self.counts, self.means, self.spreads = counts, means, spreads
        self.played, self.pending, self.partial = int(counts.sum()), None, []

    def estimated_seconds(self, horizon: int, *, drawn_singly: bool) -> float:
        return 1e-3 + 3e-7 * horizon
