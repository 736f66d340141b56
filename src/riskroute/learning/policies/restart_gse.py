"""Restart with GSE: explore-then-commit in cycles, for coefficients that change (Algorithms 3 and 4 of the paper)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.core.errors import StateError
from riskroute.core.validation import one_of, parameter, real_number, whole_number
from riskroute.learning.actions import Action, ActionSet
from riskroute.learning.design.g_optimal import Design
from riskroute.learning.design.rounding import round_exact_counts
from riskroute.learning.estimation import least_squares
from riskroute.learning.plan import LONGEST_HORIZON, Plan
from riskroute.learning.policy import Policy, memory
from riskroute.learning.state_checks import check_state_member, check_state_round, check_state_vector
from riskroute.learning.tally import Tallies


@dataclass(kw_only=True)
class RestartGse(Policy):
    """Periodic restarts: each cycle halves the set until one action is left, then plays it until the cycle ends.

    Generalised successive elimination (Azizi, Kveton and Ghavamzadeh 2022) explores by a G-optimal design over the
    remaining actions, estimates their scores, and keeps the better half, until one action is left.

    Parameters
    ----------
    mode : str
        ``theory`` divides the ``budget`` of a cycle between the halvings, at least one round each. ``practical`` gives
        every halving at least as many rounds as its design has actions.
    cycle : int, optional
        Rounds per cycle. Default: ``ceil(T^(2/3))``.
    budget : int, optional
        Exploration rounds per cycle. Default: ``T^(2/9)``, rounded down.
    objective : str
        ``mean``, as in the paper's non-stationary setting, or ``mean-variance``.
    design_tolerance : float
        Largest relative excess of a design's bound over the optimum.

    Examples
    --------
    >>> import riskroute as rr
    >>> policy = RestartGse().start(rr.Setting(actions=rr.Actions([[1.0, 0.0], [0.0, 1.0]]), horizon=1000))
    >>> policy.plan().counts.tolist()
    [2, 2]

    References
    ----------
    Ji, Xu and Zhu (2022), `Risk-Aware Linear Bandits: Theory and Applications in Smart Order Routing
    <https://arxiv.org/abs/2208.02389>`_.

    Azizi, Kveton and Ghavamzadeh (2022), `Fixed-Budget Best-Arm Identification in Structured Bandits
    <https://arxiv.org/abs/2106.04763>`_.
    """

    name: ClassVar[str] = "restart-gse"
    unit_free: ClassVar[bool] = True

    mode: str = parameter("practical", one_of, choices=("practical", "theory"))
    cycle: int | None = parameter(None, whole_number, maximum=LONGEST_HORIZON)
    budget: int | None = parameter(None, whole_number, maximum=LONGEST_HORIZON)
    objective: str = parameter("mean", one_of, choices=("mean", "mean-variance"))
    design_tolerance: float = parameter(0.01, real_number, above=0, maximum=10)

    cycle_start: int = memory(0, check_state_round)
    halvings: list[Floats] = memory(None, check_state_vector)  # score coefficients of each halving in the current cycle
    latest: Action | None = memory(None, check_state_member)  # winner of the last search, or of the first halving

    def begin(self) -> None:
        self.halvings = []
        self.resume()

    def resume(self) -> None:
        self.survivors: ActionSet = self.setting.actions
        for score in self.halvings:
            self.survivors = self.survivors.top(score, self.survivors.size // 2)

    def propose(self) -> Plan:
        if not self.survivors.single:
            # Algorithm 4 (GSE): explore the survivors by a G-optimal design, then keep the better half
            design = self.survivors.design(self.design_tolerance)
            return Plan(design.actions, round_exact_counts(design.weights, self._halving_rounds(design)))
        # Algorithm 3: commit to the winner until the cycle ends
        return Plan.repeat(self.survivors.best(np.zeros(self.setting.actions.dim)), self._cycle_left())

    def observe(self, tallies: Tallies) -> None:
        if not self.survivors.single:
            self._halve(tallies)
        if self.survivors.single:
            self.latest = self.survivors.best(np.zeros(self.setting.actions.dim))
            if self._cycle_left() <= 0:
                self._restart()

    def recommend(self) -> Action:
        if self.latest is None:
            raise StateError("restart-gse has not finished its first halving and cannot recommend an action yet")
        return self.latest

    def _halve(self, tallies: Tallies) -> None:
        setting = self.setting
        estimate = least_squares(setting.actions.features(tallies.actions), tallies, setting.base_variance)
        score = -estimate.mean_coef if self.objective == "mean" else estimate.score(setting.risk_tolerance)
        self.survivors = self.survivors.top(score, self.survivors.size // 2)
        self.halvings.append(score)
        self.latest = self.survivors.best(score) if self.latest is None else self.latest

    def _restart(self) -> None:
        self.cycle_start = self.played
        self.halvings = []
        self.survivors = self.setting.actions

    def _cycle_left(self) -> int:
        length = math.ceil(self.horizon ** (2 / 3) - 1e-9) if self.cycle is None else self.cycle
        return self.cycle_start + length - self.played

    def _halving_rounds(self, design: Design) -> int:
        budget = math.floor(self.horizon ** (2 / 9) + 1e-9) if self.budget is None else self.budget
        halvings = self.setting.actions.size.bit_length() - 1  # from K actions to one: floor(log2 K)
        each = max(budget // halvings, 1)
        return each if self.mode == "theory" else max(each, len(design))
