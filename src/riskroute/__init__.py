"""riskroute: risk-aware linear bandits for smart order routing.

Importing the package is light; each name below loads its module when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from riskroute._version import __version__
from riskroute.errors import DataError, InputError, RiskrouteError, StateError

if TYPE_CHECKING:
    from riskroute.experiments.study.study import Study
    from riskroute.learning.actions import Action, Actions, ActionSet
    from riskroute.learning.belief import Belief
    from riskroute.learning.design.g_optimal import Design, g_optimal
    from riskroute.learning.estimation import Estimate, least_squares
    from riskroute.learning.plan import Plan, Setting
    from riskroute.learning.policies.adaptive import Adaptive
    from riskroute.learning.policies.change_test import ChangeTest
    from riskroute.learning.policies.discounted import Discounted
    from riskroute.learning.policies.lin_thompson import LinThompson
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
    from riskroute.learning.policies.thompson import Thompson
    from riskroute.learning.policies.yardsticks import Greedy, Oracle, Uniform
    from riskroute.learning.policy import Policy
    from riskroute.learning.problem import Problem, random_problem
    from riskroute.learning.registry import POLICIES, make_policy, restore_policy
    from riskroute.learning.tally import Tallies, Tally
    from riskroute.market.calibration import Calibration, calibrate
    from riskroute.market.clock import Window
    from riskroute.market.dark_pools import DarkPool, generated_dark_pools
    from riskroute.market.importing import import_files
    from riskroute.market.readers.reading import ImportOptions
    from riskroute.market.scenarios import Scenarios, sample_scenarios
    from riskroute.market.slots import Slot
    from riskroute.market.store import Store
    from riskroute.market.synthetic.generate import generate_market
    from riskroute.report.figures import plot_regret
    from riskroute.report.study_page import write_report
    from riskroute.results import PolicyResult, SimulationResult
    from riskroute.routing.allocations import Allocations
    from riskroute.routing.fees import Fee, FeeSchedule, load_fees
    from riskroute.routing.frontier import risk_frontier, trace_frontier
    from riskroute.routing.instances import random_order_sizes, random_routing_problem, riskless_slot, routing_actions
    from riskroute.routing.shared_books import SharedBook
    from riskroute.routing.splits import count_splits, list_splits, split_actions
    from riskroute.routing.venues import VenueModel, load_models, save_models, venue_problem
    from riskroute.simulation.checks import check_actions, check_environment, check_policy
    from riskroute.simulation.environments import Autocorrelated, Environment, PiecewiseStationary, random_changes
    from riskroute.simulation.replay import Replay
    from riskroute.simulation.simulate import simulate
    from riskroute.simulation.stress import HeavyTailed, NonlinearVariance, WrongBaseVariance
    from riskroute.simulation.varying import ChangingActionSets
    from riskroute.simulation.warm_start import replay_belief
    from riskroute.study_results.study import StudyResult

_HOMES = {
    "experiments.study.study": ("Study",),
    "learning.actions": (
        "Action",
        "ActionSet",
        "Actions",
    ),
    "learning.policies.adaptive": ("Adaptive",),
    "learning.belief": ("Belief",),
    "learning.policies.change_test": ("ChangeTest",),
    "learning.design.g_optimal": (
        "Design",
        "g_optimal",
    ),
    "learning.policies.discounted": ("Discounted",),
    "learning.estimation": (
        "Estimate",
        "least_squares",
    ),
    "learning.policies.lin_thompson": ("LinThompson",),
    "learning.policies.lin_ucb": ("LinUcb",),
    "learning.policies.mv_thompson": ("MvThompson",),
    "learning.policies.mv_ucb": ("MvUcb",),
    "learning.policies.phased_elimination": ("PhasedElimination",),
    "learning.plan": (
        "Plan",
        "Setting",
    ),
    "learning.policy": ("Policy",),
    "learning.problem": (
        "Problem",
        "random_problem",
    ),
    "learning.registry": (
        "POLICIES",
        "make_policy",
        "restore_policy",
    ),
    "learning.policies.restart_gse": ("RestartGse",),
    "learning.policies.rise": ("Rise",),
    "learning.policies.rise_plus_plus": ("RisePlusPlus",),
    "learning.policies.risk_exp_exp": ("RiskExpExp",),
    "learning.policies.risk_ucb": ("RiskUcb",),
    "learning.policies.sliding_window": ("SlidingWindow",),
    "learning.tally": (
        "Tallies",
        "Tally",
    ),
    "learning.policies.thompson": ("Thompson",),
    "learning.policies.yardsticks": (
        "Greedy",
        "Oracle",
        "Uniform",
    ),
    "market.calibration": (
        "Calibration",
        "calibrate",
    ),
    "market.dark_pools": (
        "DarkPool",
        "generated_dark_pools",
    ),
    "market.importing": ("import_files",),
    "market.readers.reading": ("ImportOptions",),
    "market.sampling": ("Window",),
    "market.scenarios": (
        "Scenarios",
        "sample_scenarios",
    ),
    "market.slots": ("Slot",),
    "market.store": ("Store",),
    "market.synthetic.generate": ("generate_market",),
    "report.figures": ("plot_regret",),
    "report.study_page": ("write_report",),
    "results": (
        "PolicyResult",
        "SimulationResult",
    ),
    "routing.allocations": ("Allocations",),
    "routing.fees": (
        "Fee",
        "FeeSchedule",
        "load_fees",
    ),
    "routing.frontier": ("risk_frontier", "trace_frontier"),
    "routing.instances": (
        "random_order_sizes",
        "random_routing_problem",
        "riskless_slot",
        "routing_actions",
    ),
    "routing.shared_books": ("SharedBook",),
    "routing.splits": (
        "count_splits",
        "list_splits",
        "split_actions",
    ),
    "routing.venues": (
        "VenueModel",
        "load_models",
        "save_models",
        "venue_problem",
    ),
    "simulation.checks": (
        "check_actions",
        "check_environment",
        "check_policy",
    ),
    "simulation.environments": (
        "Autocorrelated",
        "Environment",
        "PiecewiseStationary",
        "random_changes",
    ),
    "simulation.replay": ("Replay",),
    "simulation.simulate": ("simulate",),
    "simulation.stress": (
        "NonlinearVariance",
        "HeavyTailed",
        "WrongBaseVariance",
    ),
    "simulation.varying": ("ChangingActionSets",),
    "simulation.warm_start": ("replay_belief",),
    "study_results.study": ("StudyResult",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "POLICIES",
    "Action",
    "ActionSet",
    "Actions",
    "Adaptive",
    "Allocations",
    "Autocorrelated",
    "Belief",
    "Calibration",
    "ChangeTest",
    "ChangingActionSets",
    "DarkPool",
    "DataError",
    "Design",
    "Discounted",
    "Environment",
    "Estimate",
    "Fee",
    "FeeSchedule",
    "Greedy",
    "HeavyTailed",
    "ImportOptions",
    "InputError",
    "LinThompson",
    "LinUcb",
    "MvThompson",
    "MvUcb",
    "NonlinearVariance",
    "Oracle",
    "PhasedElimination",
    "PiecewiseStationary",
    "Plan",
    "Policy",
    "PolicyResult",
    "Problem",
    "Replay",
    "RestartGse",
    "Rise",
    "RisePlusPlus",
    "RiskExpExp",
    "RiskUcb",
    "RiskrouteError",
    "Scenarios",
    "Setting",
    "SharedBook",
    "SimulationResult",
    "SlidingWindow",
    "Slot",
    "StateError",
    "Store",
    "Study",
    "StudyResult",
    "Tallies",
    "Tally",
    "Thompson",
    "Uniform",
    "VenueModel",
    "Window",
    "WrongBaseVariance",
    "__version__",
    "calibrate",
    "check_actions",
    "check_environment",
    "check_policy",
    "count_splits",
    "g_optimal",
    "generate_market",
    "generated_dark_pools",
    "import_files",
    "least_squares",
    "list_splits",
    "load_fees",
    "load_models",
    "make_policy",
    "plot_regret",
    "random_changes",
    "random_order_sizes",
    "random_problem",
    "random_routing_problem",
    "replay_belief",
    "restore_policy",
    "risk_frontier",
    "riskless_slot",
    "routing_actions",
    "sample_scenarios",
    "save_models",
    "simulate",
    "split_actions",
    "trace_frontier",
    "venue_problem",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"riskroute.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'riskroute' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
