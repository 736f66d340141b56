"""RISE++: explore by G-optimal designs in phases, eliminating actions as it goes (Algorithm 2 of the paper)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from riskroute.errors import StateError, one_of, real_number
from riskroute.learning.actions import Action, ActionSet
from riskroute.learning.estimation import least_squares
from riskroute.learning.plan import Plan
from riskroute.learning.policy import Policy, memory
from riskroute.learning.rounding import ceil_counts
from riskroute.learning.tally import Tallies

CONSTANTS = {"practical": (0.01, 1e-3), "theory": (1.0, 1.0)}
"""C-hat and the ridge per mode. The paper leaves both open; with C-hat = 1 the first phase outlasts usual horizons."""


@dataclass(kw_only=True)
class RisePlusPlus(Policy):
    """Risk-aware successive elimination.

    Parameters
    ----------
    mode : ``practical`` or ``theory``; decides `constant` and `ridge` where they are None.
    constant : C-hat, the width of the confidence set.
    ridge : lambda of the phase estimates.
    delta : probability of failure; ``1/T`` if None.
    design_tolerance : relative excess allowed in the optimal designs.
    corrected : use the leverage-corrected variance estimate instead of the paper's.
    """

    name: ClassVar[str] = "rise++"

    mode: str = "practical"
    constant: float | None = None
    ridge: float | None = None
    delta: float | None = None
    design_tolerance: float = 0.01
    corrected: bool = False

    cuts: list[tuple[NDArray[np.float64], float]] = memory()  # score and tolerance of every elimination so far
    score: NDArray[np.float64] | None = memory()  # estimated mean-variance to recommend by

    def begin(self) -> None:
        one_of("mode", self.mode, tuple(CONSTANTS))
        if self.ridge is not None:
            real_number("ridge", self.ridge, minimum=0)
        self.cuts = []
        self.resume()
        self._phase_rounds()

    def resume(self) -> None:
        self.survivors: ActionSet = self.known.actions
        for score, tolerance in self.cuts:
            self.survivors = self.survivors.within(score, tolerance)

    @property
    def phase(self) -> int:
        """Number of the running phase, from 1."""
        return len(self.cuts) + 1

    def propose(self) -> Plan:
        if self.survivors.single:
            return Plan.repeat(self.recommend(), self.remaining)
        design = self.survivors.design(self.design_tolerance)  # step 1: in a basis of the survivors' span
        return Plan(design.actions, ceil_counts(design.weights, self._phase_rounds()))  # step 2

    def observe(self, tallies: Tallies) -> None:
        if self.survivors.single:
            return
        known = self.known
        features = known.actions.features(tallies.actions)
        ridge = CONSTANTS[self.mode][1] if self.ridge is None else self.ridge
        estimate = least_squares(  # step 3: this phase's rewards only
            features, tallies, known.base_variance, ridge=ridge, corrected=self.corrected
        )
        done = float(tallies.counts.sum()) / self._phase_rounds()
        if self.score is None or done >= 0.25:  # a phase cut off earlier by the horizon knows less than the one before
            self.score = estimate.score(known.risk_tolerance)
        if done >= 1:
            cut = self.score, 2 * self._tolerance()
            self.survivors = self.survivors.within(*cut)  # step 4: eliminate
            self.cuts.append(cut)  # step 5: next phase

    def recommend(self) -> Action:
        if self.score is None and not self.survivors.single:
            raise StateError("rise++ is in its first phase and cannot recommend an action yet")
        return self.survivors.best(np.zeros(self.known.actions.dim) if self.score is None else self.score)

    def _tolerance(self) -> float:
        return float(2.0**-self.phase)

    def _phase_rounds(self) -> float:
        dim, horizon = self.known.actions.dim, self.horizon
        delta = 1 / horizon if self.delta is None else real_number("delta", self.delta, above=0, below=1)
        constant = CONSTANTS[self.mode][0] if self.constant is None else self.constant
        real_number("constant", constant, above=0)
        width = constant * dim * math.log(horizon / delta) / self._tolerance()
        return max(width**2 * math.log(max(dim, 2)) * dim, 1.0)
