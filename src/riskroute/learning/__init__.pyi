"""Public names of `riskroute.learning`."""

from riskroute.learning.bounds import restart_bound as restart_bound
from riskroute.learning.bounds import rise_bound as rise_bound
from riskroute.learning.bounds import rise_plus_plus_bound as rise_plus_plus_bound
from riskroute.learning.bounds import risk_exp_exp_bound as risk_exp_exp_bound
from riskroute.learning.bounds import risk_ucb_bound as risk_ucb_bound
from riskroute.learning.bounds import temporal_remainder as temporal_remainder
from riskroute.learning.estimation import LeastSquaresEstimate as LeastSquaresEstimate
from riskroute.learning.estimation import least_squares as least_squares
