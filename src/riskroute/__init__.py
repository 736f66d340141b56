"""riskroute: risk-aware linear bandits for smart order routing.

Importing the package is light; each name below loads its module when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from riskroute._version import __version__
from riskroute.errors import InputError, RiskrouteError, StateError

if TYPE_CHECKING:
    from riskroute.learning.actions import Action, Actions, ActionSet
    from riskroute.learning.design import Design, g_optimal
    from riskroute.learning.estimation import Estimate, least_squares, weighted_least_squares
    from riskroute.learning.plan import Plan, Setting
    from riskroute.learning.policy import Policy
    from riskroute.learning.problem import Problem, random_problem
    from riskroute.learning.registry import POLICIES, make_policy, restore_policy
    from riskroute.learning.restart_gse import RestartGse
    from riskroute.learning.rise import Rise
    from riskroute.learning.rise_plus_plus import RisePlusPlus
    from riskroute.learning.risk_exp_exp import RiskExpExp
    from riskroute.learning.risk_ucb import RiskUcb
    from riskroute.learning.tally import Tallies, Tally
    from riskroute.learning.yardsticks import Greedy, Oracle, Uniform
    from riskroute.report.figures import plot_regret
    from riskroute.results import SimulationResult
    from riskroute.routing.allocations import Allocations
    from riskroute.routing.instances import random_routing_problem, routing_actions
    from riskroute.routing.splits import count_splits, list_splits, split_actions
    from riskroute.simulation.checks import check_actions, check_environment, check_policy
    from riskroute.simulation.environments import (
        Autocorrelated,
        Environment,
        PiecewiseStationary,
        random_changes,
    )
    from riskroute.simulation.runner import simulate

_HOMES = {
    "learning.actions": ("Action", "ActionSet", "Actions"),
    "learning.design": ("Design", "g_optimal"),
    "learning.estimation": ("Estimate", "least_squares", "weighted_least_squares"),
    "learning.plan": ("Plan", "Setting"),
    "learning.policy": ("Policy",),
    "learning.problem": ("Problem", "random_problem"),
    "learning.registry": ("POLICIES", "make_policy", "restore_policy"),
    "learning.restart_gse": ("RestartGse",),
    "learning.rise": ("Rise",),
    "learning.rise_plus_plus": ("RisePlusPlus",),
    "learning.risk_exp_exp": ("RiskExpExp",),
    "learning.risk_ucb": ("RiskUcb",),
    "learning.tally": ("Tallies", "Tally"),
    "learning.yardsticks": ("Greedy", "Oracle", "Uniform"),
    "report.figures": ("plot_regret",),
    "results": ("SimulationResult",),
    "routing.allocations": ("Allocations",),
    "routing.instances": ("random_routing_problem", "routing_actions"),
    "routing.splits": ("count_splits", "list_splits", "split_actions"),
    "simulation.checks": ("check_actions", "check_environment", "check_policy"),
    "simulation.environments": ("Autocorrelated", "Environment", "PiecewiseStationary", "random_changes"),
    "simulation.runner": ("simulate",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "POLICIES",
    "Action",
    "ActionSet",
    "Actions",
    "Allocations",
    "Autocorrelated",
    "Design",
    "Environment",
    "Estimate",
    "Greedy",
    "InputError",
    "Oracle",
    "PiecewiseStationary",
    "Plan",
    "Policy",
    "Problem",
    "RestartGse",
    "Rise",
    "RisePlusPlus",
    "RiskExpExp",
    "RiskUcb",
    "RiskrouteError",
    "Setting",
    "SimulationResult",
    "StateError",
    "Tallies",
    "Tally",
    "Uniform",
    "__version__",
    "check_actions",
    "check_environment",
    "check_policy",
    "count_splits",
    "g_optimal",
    "least_squares",
    "list_splits",
    "make_policy",
    "plot_regret",
    "random_changes",
    "random_problem",
    "random_routing_problem",
    "restore_policy",
    "routing_actions",
    "simulate",
    "split_actions",
    "weighted_least_squares",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"riskroute.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'riskroute' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
