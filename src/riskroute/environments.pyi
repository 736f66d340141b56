"""Environments other than `Environment` and `Replay`."""

from riskroute.simulation.environments import Autocorrelated as Autocorrelated
from riskroute.simulation.environments import ChangingActionSets as ChangingActionSets
from riskroute.simulation.environments import EnvironmentNoise as EnvironmentNoise
from riskroute.simulation.environments import EnvironmentRun as EnvironmentRun
from riskroute.simulation.environments import HeavyTailed as HeavyTailed
from riskroute.simulation.environments import NonlinearVariance as NonlinearVariance
from riskroute.simulation.environments import PiecewiseStationary as PiecewiseStationary
from riskroute.simulation.environments import WrongBaseVariance as WrongBaseVariance
from riskroute.simulation.environments import random_changes as random_changes
from riskroute.simulation.replay import replay_belief as replay_belief
