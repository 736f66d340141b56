"""Presets for the choices that the paper does not state: our defaults, and values that reproduce most of its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from riskroute.core.validation import one_of, parameter, valid_magnitude, validated_parameters, whole_number
from riskroute.learning.policies.rise import Rise
from riskroute.learning.policies.rise_plus_plus import RisePlusPlus
from riskroute.learning.policies.risk_ucb import RiskUcb
from riskroute.learning.policy import Policy

REGRETS = ("path", "steady")  # steady: without the noise of the rewards (`PolicyResult.steady_regret`)


@dataclass(frozen=True, kw_only=True)
class PaperChoices:
    """Values of the choices that the paper does not state, for all its experiments.

    Parameters
    ----------
    horizon : int
        Rounds per run.
    regret : str
        Regret to average, ``path`` or ``steady``; both have the same expectation.
    constant, ridge : float, optional
        C-hat and lambda of RISE++; default: as in the practical mode of `RisePlusPlus`.
    delta : float, optional
        Failure probability of RISE++ and RiskUCB; default: ``1/T`` and ``1/T^2``, respectively.
    explored : float
        RISE explores ``explored * slots * T^(2/3)`` rounds: 1 if the paper's d counts slots, 2 if it counts features.
    instance : int
        Seed of the random instance in all four panels of figure 2.
    correlated_instance : int
        Seed of the random instance with autocorrelated noise.
    changing_instance, changes : int
        Seed of the random instance with changing coefficients, and number of changes.
    table_base_variance : float
        Base variance omega for the paper's table of venues; the paper states omega for its synthetic experiments only.
    """

    horizon: int = parameter(100_000, whole_number)
    regret: str = parameter("path", one_of, choices=REGRETS)
    constant: float | None = parameter(None, valid_magnitude, above=0)
    ridge: float | None = parameter(None, valid_magnitude, minimum=0)
    delta: float | None = parameter(None, valid_magnitude, above=0, below=1)
    explored: float = parameter(1.0, valid_magnitude, above=0)
    instance: int = parameter(0, whole_number, minimum=0)
    correlated_instance: int = parameter(0, whole_number, minimum=0)
    changing_instance: int = parameter(0, whole_number, minimum=0)
    changes: int = parameter(5, whole_number)
    table_base_variance: float = parameter(1.0, valid_magnitude, above=0)

    def __post_init__(self) -> None:
        validated_parameters(self)

    def policies(self, names: Sequence[str], slots: int) -> tuple[str, ...] | dict[str, str | Policy]:
        """Return a panel's policy names or, if constants are changed, a dictionary of names and policies by name."""
        chosen: dict[str, Policy] = {}
        if self.explored != 1:
            chosen["rise"] = Rise(explore_multiplier=self.explored * slots)
        if (self.constant, self.ridge, self.delta) != (None, None, None):
            chosen["rise++"] = RisePlusPlus(constant=self.constant, ridge=self.ridge, delta=self.delta)
        if self.delta is not None:
            chosen["risk-ucb"] = RiskUcb(delta=self.delta)
        return {name: chosen.get(name, name) for name in names} if chosen else tuple(names)

    def shown(self, digest: Mapping[str, Any]) -> dict[str, Any]:
        """Return the digest of a panel's result with the kind of regret that ``regret`` names."""
        if self.regret == "path":
            return dict(digest)
        return {**digest, "policies": {label: _without_noise(one) for label, one in digest["policies"].items()}}


def _without_noise(policy: Mapping[str, Any]) -> dict[str, Any]:
    final = policy["final"]
    steady = {name: final[f"steady_{name}"] for name in ("regret", "regret_error")}
    curves = {f"{name}_regret": policy[f"{name}_steady_regret"] for name in ("mean", "std")}
    return {**policy, **curves, "final": {**final, **steady}}


DEFAULT = PaperChoices()

# ``closest`` reproduces most of the paper's claims; it is the result of ``make closest``.
PRESETS: Mapping[str, PaperChoices] = {
    "default": DEFAULT,
    "closest": PaperChoices(
        regret="steady", constant=0.02, delta=0.05, instance=1, correlated_instance=2, changing_instance=6
    ),
}
