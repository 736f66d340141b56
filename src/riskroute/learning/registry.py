"""Registry of all policies by name."""

from __future__ import annotations

from typing import Any

from riskroute.core.errors import InputError, StateError
from riskroute.core.validation import one_of
from riskroute.learning.actions import ActionSet
from riskroute.learning.policies.adaptive import Adaptive
from riskroute.learning.policies.baselines import Greedy, Oracle, Uniform
from riskroute.learning.policies.change_test import ChangeTest
from riskroute.learning.policies.discounted import Discounted
from riskroute.learning.policies.guarded import Guarded
from riskroute.learning.policies.lin_ucb import LinUcb
from riskroute.learning.policies.mv_thompson import MvThompson
from riskroute.learning.policies.mv_ucb import MvUcb
from riskroute.learning.policies.phased_elimination import PhasedElimination
from riskroute.learning.policies.restart_gse import RestartGse
from riskroute.learning.policies.rise import Rise
from riskroute.learning.policies.rise_plus_plus import RisePlusPlus
from riskroute.learning.policies.risk_exp_exp import RiskExpExp
from riskroute.learning.policies.risk_ucb import RiskUcb
from riskroute.learning.policies.sliding_window import SlidingWindow
from riskroute.learning.policies.thompson import LinThompson, Thompson
from riskroute.learning.policy import Policy

POLICIES: dict[str, type[Policy]] = {
    kind.name: kind
    for kind in (
        *(Rise, RisePlusPlus, RiskUcb, RiskExpExp, RestartGse),  # from the paper
        *(Adaptive, Thompson, Guarded),  # added by riskroute
        *(Discounted, SlidingWindow, ChangeTest),  # added by riskroute, for changing coefficients
        *(LinUcb, LinThompson, PhasedElimination),  # risk-neutral, from the literature
        *(MvUcb, MvThompson),  # from the literature, without features
        *(Greedy, Uniform, Oracle),
    )
}

BASELINES = (Greedy.name, Uniform.name, Oracle.name)  # for comparisons only


def make_policy(name: str, **parameters: Any) -> Policy:
    """Return a new policy by its name.

    Examples
    --------
    >>> make_policy("rise", explore_multiplier=6)
    Rise(mode='practical', explore_multiplier=6, constant=1.0, delta=None, epsilon=None, design_tolerance=0.01,
         corrected=False)
    """
    kind = POLICIES[one_of("policy", name, tuple(POLICIES))]
    try:
        return kind(**parameters)
    except TypeError as error:
        raise InputError(f"parameters of {name} are invalid: {error}") from None


def restore_policy(state: dict[str, Any], actions: ActionSet) -> Policy:
    """Rebuild a registered policy, named in its saved state, over the same action set."""
    name = state.get("policy") if isinstance(state, dict) else None
    if not isinstance(name, str) or name not in POLICIES:
        raise StateError(f"state must name a registered policy under 'policy', was {name!r}")
    return POLICIES[name].restore(state, actions)
