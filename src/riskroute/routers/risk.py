"""Risk profiles: the objective that routers minimise and by which a study chooses among them.

A profile charges ``kappa`` times the variance of the unforeseen cost. A capped profile also requires an expected
shortfall (5 %) no larger than the benchmark rule's; this is the best simple rule.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from riskroute.core.errors import InputError
from riskroute.core.records import from_plain
from riskroute.core.text import shown
from riskroute.core.validation import as_name, real_number, true_or_false

_MOST_KAPPA = 1000  # basis points per squared basis point
_NEGLIGIBLE = 1e-9  # basis points; smaller differences are rounding errors


@dataclass(frozen=True)
class RiskProfile:
    """Objective of a desk: mean cost plus ``kappa`` times the unforeseen variance, optionally with a capped tail.

    - ``name``: the name in tables and answers.
    - ``kappa``: basis points charged per squared basis point of variance of the unforeseen cost.
    - ``capped``: whether the expected shortfall (5 %) must not exceed the benchmark rule's.

    Examples
    --------
    >>> RiskProfile("tight", 0.2, capped=True)
    RiskProfile(name='tight', kappa=0.2, capped=True)
    """

    name: str
    kappa: float
    capped: bool = False

    def __post_init__(self) -> None:
        as_name("name of a risk profile", self.name)
        object.__setattr__(self, "kappa", real_number("kappa", self.kappa, minimum=0, maximum=_MOST_KAPPA))
        object.__setattr__(self, "capped", true_or_false("capped", self.capped))

    def admits(self, excess: float) -> bool:
        """Return whether a router is admissible; ``excess`` is its expected shortfall minus the benchmark rule's.

        The excess is an estimate where routers are chosen, and a lower confidence limit where a choice is tested.
        """
        return not self.capped or excess <= _NEGLIGIBLE

    def best(self, objectives: Mapping[str, float], excess: Mapping[str, float], rule: str) -> str:
        """Return the router to choose: the lowest objective among the admissible routers; ``rule`` in a tie.

        The benchmark rule ``rule`` is admissible, and so is a router whose ``excess`` (expected shortfall minus that of
        the rule) the profile `admits`.

        Examples
        --------
        >>> objectives, excess = {"sweep": 2.0, "a": 1.0, "b": 1.5}, {"a": 0.3, "b": -0.1}
        >>> BALANCED.best(objectives, excess, "sweep"), CAUTIOUS.best(objectives, excess, "sweep")
        ('a', 'b')
        """
        best = rule
        for name, objective in objectives.items():
            admissible = name == rule or not self.capped or self.admits(excess[name])
            if admissible and objective < objectives[best] - _NEGLIGIBLE:
                best = name
        return best

    @property
    def short(self) -> str | float | RiskProfile:
        """The shortest value from which `risk_profile` makes this profile: a name, kappa, or the profile itself."""
        if PROFILES.get(self.name) == self:
            return self.name
        return self.kappa if self == RiskProfile(f"kappa {self.kappa:g}", self.kappa) else self

    def describe(self) -> str:
        """Return the objective in words.

        Examples
        --------
        >>> CAUTIOUS.describe()
        "mean cost + 0.05 x variance, expected shortfall capped at the benchmark rule's"
        """
        charge = f"mean cost + {self.kappa:g} x variance" if self.kappa else "mean cost"
        return f"{charge}, expected shortfall capped at the benchmark rule's" if self.capped else charge


CHEAPEST = RiskProfile("cheapest", 0.0)
BALANCED = RiskProfile("balanced", 0.05)
CAUTIOUS = RiskProfile("cautious", 0.05, capped=True)
PROFILES = {one.name: one for one in (CAUTIOUS, BALANCED, CHEAPEST)}  # in the order of the help texts


def risk_profile(name: str, value: Any) -> RiskProfile:
    """Return the profile for ``value``: a profile, its name, its plain fields or kappa; errors call it ``name``.

    Examples
    --------
    >>> risk_profile("risk", "cautious").capped, risk_profile("risk", 0).name
    (True, 'cheapest')
    >>> risk_profile("risk", 0.2)
    RiskProfile(name='kappa 0.2', kappa=0.2, capped=False)
    >>> risk_profile("risk", "cautios")
    Traceback (most recent call last):
    ...
    riskroute.core.errors.InputError: risk must be cautious, balanced, cheapest or a kappa from 0 to 1000,
    was 'cautios'; did you mean 'cautious'?
    """
    if isinstance(value, RiskProfile):
        return value
    if isinstance(value, Mapping):  # from a file or a saved state
        return from_plain(RiskProfile, dict(value), name)
    if isinstance(value, str) and value.casefold() in PROFILES:
        return PROFILES[value.casefold()]
    try:
        kappa = real_number(name, _number(value), minimum=0, maximum=_MOST_KAPPA)
    except InputError:
        near = difflib.get_close_matches(str(value).casefold(), PROFILES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        expected = f"{', '.join(PROFILES)} or a kappa from 0 to {_MOST_KAPPA}"
        raise InputError(f"{name} must be {expected}, was {shown(value)}{hint}") from None
    return next((one for one in (CHEAPEST, BALANCED) if one.kappa == kappa), RiskProfile(f"kappa {kappa:g}", kappa))


def _number(value: Any) -> Any:
    """Return a number given as text, as on the command line; other values unchanged."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return None
