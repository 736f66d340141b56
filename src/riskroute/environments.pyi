"""Environments to play in besides `Environment` and `Replay`."""

from riskroute.simulation.environments import Autocorrelated as Autocorrelated
from riskroute.simulation.environments import PiecewiseStationary as PiecewiseStationary
from riskroute.simulation.environments import random_changes as random_changes
from riskroute.simulation.episodes import Noise as Noise
from riskroute.simulation.episodes import Run as Run
from riskroute.simulation.stress import HeavyTailed as HeavyTailed
from riskroute.simulation.stress import NonlinearVariance as NonlinearVariance
from riskroute.simulation.stress import WrongBaseVariance as WrongBaseVariance
from riskroute.simulation.varying import ChangingActionSets as ChangingActionSets
from riskroute.simulation.warm_start import replay_belief as replay_belief
