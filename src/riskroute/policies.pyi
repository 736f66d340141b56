"""Policies, and the base classes for your own."""

from riskroute.learning.policies.adaptive import Adaptive as Adaptive
from riskroute.learning.policies.arm_policy import ArmPolicy as ArmPolicy
from riskroute.learning.policies.arm_policy import IndexPolicy as IndexPolicy
from riskroute.learning.policies.baselines import Greedy as Greedy
from riskroute.learning.policies.baselines import Oracle as Oracle
from riskroute.learning.policies.baselines import Uniform as Uniform
from riskroute.learning.policies.change_test import ChangeTest as ChangeTest
from riskroute.learning.policies.discounted import Discounted as Discounted
from riskroute.learning.policies.guarded import Guarded as Guarded
from riskroute.learning.policies.lin_ucb import LinUcb as LinUcb
from riskroute.learning.policies.linear_policy import LinearPolicy as LinearPolicy
from riskroute.learning.policies.mv_thompson import MvThompson as MvThompson
from riskroute.learning.policies.mv_ucb import MvUcb as MvUcb
from riskroute.learning.policies.phased_elimination import PhasedElimination as PhasedElimination
from riskroute.learning.policies.phased_policy import PhasedPolicy as PhasedPolicy
from riskroute.learning.policies.restart_gse import RestartGse as RestartGse
from riskroute.learning.policies.rise import Rise as Rise
from riskroute.learning.policies.rise_plus_plus import RisePlusPlus as RisePlusPlus
from riskroute.learning.policies.risk_exp_exp import RiskExpExp as RiskExpExp
from riskroute.learning.policies.risk_ucb import RiskUcb as RiskUcb
from riskroute.learning.policies.sliding_window import SlidingWindow as SlidingWindow
from riskroute.learning.policies.thompson import LinThompson as LinThompson
from riskroute.learning.policies.thompson import Thompson as Thompson
