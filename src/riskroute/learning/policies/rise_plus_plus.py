"""RISE++: explore by G-optimal designs in phases, eliminating actions after each (Algorithm 2 of the paper)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from riskroute.core.arrays import Floats
from riskroute.core.validation import one_of, parameter, true_or_false, valid_magnitude
from riskroute.learning.estimation import least_squares
from riskroute.learning.policies.phased_policy import PhasedPolicy
from riskroute.learning.tally import Tallies

# C-hat and the ridge per mode. The paper leaves both open; with C-hat = 1 the first phase exceeds usual horizons.
CONSTANTS = {"practical": (0.01, 1e-3), "theory": (1.0, 1.0)}


@dataclass(kw_only=True)
class RisePlusPlus(PhasedPolicy):
    """Risk-aware successive elimination (RISE++).

    Phase ``l`` of Algorithm 2 (1) finds a G-optimal design over the surviving actions, (2) plays it for ``n_l`` rounds,
    (3) estimates both coefficient vectors from the rewards of this phase by ridge regression, (4) eliminates actions
    whose estimated mean-variance exceeds the best by more than ``2 * 2^-l``, and (5) starts phase ``l + 1``.
    `PhasedPolicy` runs these steps; this class defines the length of a phase and the estimate.

    Parameters
    ----------
    mode : str
        ``practical`` or ``theory``; sets the defaults of `constant` and `ridge`.
    constant : float, optional
        The paper's C-hat, a factor on the width of the confidence set.
    ridge : float, optional
        Ridge penalty of the phase estimates, the paper's lambda.
    delta : float, optional
        Probability that a confidence bound fails. Default: ``1/T``.
    design_tolerance : float
        Largest relative excess of a design's bound over the optimum.
    corrected : bool
        Use the leverage-corrected variance estimate instead of the paper's.

    Examples
    --------
    >>> import riskroute as rr
    >>> policy = RisePlusPlus().start(rr.Setting(actions=rr.Actions([[1.0, 0.0], [0.0, 1.0]]), horizon=1000))
    >>> policy.plan().counts.tolist()
    [1, 1]

    References
    ----------
    Ji, Xu and Zhu (2022), `Risk-Aware Linear Bandits: Theory and Applications in Smart Order Routing
    <https://arxiv.org/abs/2208.02389>`_.
    """

    name: ClassVar[str] = "rise++"

    mode: str = parameter("practical", one_of, choices=tuple(CONSTANTS))
    constant: float | None = parameter(None, valid_magnitude, above=0)
    ridge: float | None = parameter(None, valid_magnitude, minimum=0)
    delta: float | None = parameter(None, valid_magnitude, above=0, below=1)
    corrected: bool = parameter(False, true_or_false)

    def _phase_rounds(self) -> float:
        """Return ``n_l = (C-hat d log(T / delta) / 2^-l)^2 d log d``, at least 1; ``log d`` is at least ``log 2``."""
        dim, horizon = self.setting.actions.dim, self.horizon
        delta = 1 / horizon if self.delta is None else self.delta
        constant = CONSTANTS[self.mode][0] if self.constant is None else self.constant
        width = constant * dim * math.log(horizon / delta) / self._accuracy()
        return max(width**2 * math.log(max(dim, 2)) * dim, 1.0)

    def _estimated_score(self, tallies: Tallies) -> Floats:
        setting = self.setting
        features = setting.actions.features(tallies.actions)
        ridge = CONSTANTS[self.mode][1] if self.ridge is None else self.ridge
        estimate = least_squares(features, tallies, setting.base_variance, ridge=ridge, corrected=self.corrected)
        return estimate.score(setting.risk_tolerance)
