"""RISE: explore by a G-optimal design, then commit (Algorithm 1 of the paper)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from riskroute.core.arrays import Integers
from riskroute.core.errors import StateError
from riskroute.core.validation import one_of, parameter, real_number, true_or_false, valid_magnitude
from riskroute.learning.actions import Action
from riskroute.learning.design.g_optimal import Design
from riskroute.learning.design.rounding import round_exact_counts, round_up_counts
from riskroute.learning.estimation import least_squares
from riskroute.learning.plan import Plan
from riskroute.learning.policy import Policy, memory
from riskroute.learning.state_checks import check_state_member
from riskroute.learning.tally import Tallies


@dataclass(kw_only=True)
class Rise(Policy):
    """Risk-aware explore-then-commit (RISE).

    Parameters
    ----------
    mode : str
        ``practical`` explores ``ceil(m T^(2/3))`` rounds, as the paper's experiments do. ``theory`` plays an action of
        weight ``w`` in the design for ``w g log(d) (C-tilde d log(1 / delta) / epsilon)^2`` rounds, with ``g`` the
        largest leverage, as the paper's theorem requires.
    explore_multiplier : float, optional
        ``m`` of the practical mode. Default: the number of coordinates of the action set.
    constant, delta, epsilon
        C-tilde, ``delta`` (default: ``1/T``) and ``epsilon`` (default: ``d T^(-1/3)``) of the theory mode.
    design_tolerance : float
        Largest relative excess of the design's bound over the optimum.
    corrected : bool
        Use the leverage-corrected variance estimate instead of the paper's.

    Examples
    --------
    >>> import riskroute as rr
    >>> rise = Rise().start(rr.Setting(actions=rr.Actions([[1.0, 0.0], [0.0, 1.0]]), horizon=1000))
    >>> rise.plan().counts.tolist()
    [100, 100]

    References
    ----------
    Ji, Xu and Zhu (2022), `Risk-Aware Linear Bandits: Theory and Applications in Smart Order Routing
    <https://arxiv.org/abs/2208.02389>`_.
    """

    name: ClassVar[str] = "rise"
    unit_free: ClassVar[bool] = True

    mode: str = parameter("practical", one_of, choices=("practical", "theory"))
    explore_multiplier: float | None = parameter(None, valid_magnitude, above=0)
    constant: float = parameter(1.0, valid_magnitude, above=0)
    delta: float | None = parameter(None, valid_magnitude, above=0, below=1)
    epsilon: float | None = parameter(None, valid_magnitude, above=0)
    design_tolerance: float = parameter(0.01, real_number, above=0, maximum=10)
    corrected: bool = parameter(False, true_or_false)

    committed: Action | None = memory(None, check_state_member)

    def propose(self) -> Plan:
        if self.committed is not None:
            return Plan.repeat(self.committed, self.remaining)
        # Algorithm 1, step 1: a G-optimal design; step 2: play its actions in proportion to their weights
        design = self.setting.actions.design(self.design_tolerance)
        return Plan(design.actions, self._counts(design))

    def observe(self, tallies: Tallies) -> None:
        if self.committed is None:
            setting = self.setting
            features = setting.actions.features(tallies.actions)
            # Algorithm 1, step 3: estimate theta and phi by least squares; step 4: commit to the greedy action
            estimate = least_squares(features, tallies, setting.base_variance, corrected=self.corrected)
            self.committed = setting.actions.best(estimate.score(setting.risk_tolerance))

    def recommend(self) -> Action:
        if self.committed is None:
            raise StateError("rise is still exploring and cannot recommend an action yet")
        return self.committed

    def _counts(self, design: Design) -> Integers:
        actions, horizon = self.setting.actions, self.horizon
        if self.mode == "practical":
            multiplier = actions.coordinates if self.explore_multiplier is None else self.explore_multiplier
            # 1e-9: a power that should be a whole number may exceed it by a rounding error
            return round_exact_counts(design.weights, math.ceil(multiplier * horizon ** (2 / 3) - 1e-9))
        delta = 1 / horizon if self.delta is None else self.delta
        epsilon = actions.dim * horizon ** (-1 / 3) if self.epsilon is None else self.epsilon
        log_dim = math.log(max(actions.dim, 2))  # log(1) = 0 would mean no exploration in one dimension
        width = self.constant * actions.dim * math.log(1 / delta) / epsilon
        return round_up_counts(design.weights, max(width**2 * log_dim * design.bound, 1.0))
