"""Base class of policies that explore by G-optimal designs in phases and eliminate actions after each."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.core.errors import StateError
from riskroute.core.validation import parameter, real_number
from riskroute.learning.actions import Action, ActionSet
from riskroute.learning.design.rounding import round_up_counts
from riskroute.learning.plan import LONGEST_HORIZON, Plan
from riskroute.learning.policy import Policy, memory
from riskroute.learning.state_checks import check_state_cut, check_state_vector
from riskroute.learning.tally import Tallies


@dataclass(kw_only=True)
class PhasedPolicy(Policy):
    """Successive elimination: each phase plays a design over the survivors, estimates scores, and eliminates actions.

    Subclasses define the length of a phase and the estimate of the score. Phase ``l`` has accuracy ``2^-l`` and
    eliminates actions whose score exceeds the best by more than ``2 * 2^-l``. The last survivor is played to the end.
    """

    design_tolerance: float = parameter(0.01, real_number, above=0, maximum=10)

    cuts: list[tuple[Floats, float]] = memory(None, check_state_cut)  # score and tolerance of each elimination
    score: Floats | None = memory(None, check_state_vector)  # score behind the recommendation

    @abstractmethod
    def _phase_rounds(self) -> float:
        """Return the rounds of the current phase, before the count of each action is rounded up."""

    @abstractmethod
    def _estimated_score(self, tallies: Tallies) -> Floats:
        """Estimate the coefficients ``(dim,)`` of the score to minimise from the rewards of one phase."""

    def begin(self) -> None:
        self.cuts = []
        self.resume()

    def resume(self) -> None:
        self.survivors: ActionSet = self.setting.actions
        for score, tolerance in self.cuts:
            self.survivors = self.survivors.within(score, tolerance)

    @property
    def phase(self) -> int:
        """Number ``l`` of the current phase, from 1."""
        return len(self.cuts) + 1

    def propose(self) -> Plan:
        if self.survivors.single:
            return Plan.repeat(self.recommend(), self.remaining)
        design = self.survivors.design(self.design_tolerance)  # step 1: design in the survivors' span
        rounds = min(self._phase_rounds(), LONGEST_HORIZON)
        return Plan(design.actions, round_up_counts(design.weights, rounds))  # step 2: play it

    def observe(self, tallies: Tallies) -> None:
        if self.survivors.single:
            return
        done = float(tallies.counts.sum()) / self._phase_rounds()
        # a phase cut short by the horizon may hold less information than the previous one
        if self.score is None or done >= 0.25:
            self.score = self._estimated_score(tallies)  # step 3: estimate from this phase only
        # if tickets were abandoned, three quarters of a phase suffice; a shorter phase is repeated
        if done >= 1 or (done >= 0.75 and self.remaining > 0):
            cut = self.score, 2 * self._accuracy()
            self.survivors = self.survivors.within(*cut)  # step 4: eliminate
            self.cuts.append(cut)  # step 5: next phase

    def recommend(self) -> Action:
        if self.score is None and not self.survivors.single:
            raise StateError(f"{self.name} is in its first phase and cannot recommend an action yet")
        return self.survivors.best(np.zeros(self.setting.actions.dim) if self.score is None else self.score)

    def _accuracy(self) -> float:
        return float(2.0**-self.phase)
