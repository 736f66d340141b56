"""Public names of the learning room."""

from riskroute.learning.estimation import Estimate as Estimate
from riskroute.learning.estimation import least_squares as least_squares
