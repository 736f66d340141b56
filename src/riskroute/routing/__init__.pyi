"""Public names of `riskroute.routing`."""

from riskroute.routing.allocations import routing_actions as routing_actions
from riskroute.routing.fees import Fee as Fee
from riskroute.routing.fees import FeeSchedule as FeeSchedule
from riskroute.routing.fees import FeeTier as FeeTier
from riskroute.routing.fees import load_fees as load_fees
from riskroute.routing.frontier import risk_frontier as risk_frontier
from riskroute.routing.frontier import trace_frontier as trace_frontier
from riskroute.routing.instances import random_instance_sizes as random_instance_sizes
from riskroute.routing.instances import riskless_slot_instance as riskless_slot_instance
from riskroute.routing.quadratic_search import QuadraticResult as QuadraticResult
from riskroute.routing.quadratic_search import minimise_quadratic as minimise_quadratic
from riskroute.routing.shared_books import SharedBook as SharedBook
from riskroute.routing.splits import SplitList as SplitList
from riskroute.routing.splits import count_splits as count_splits
from riskroute.routing.splits import list_splits as list_splits
from riskroute.routing.splits import split_actions as split_actions
from riskroute.routing.venue_models import best_correlated_split as best_correlated_split
from riskroute.routing.venue_models import load_venue_models as load_venue_models
from riskroute.routing.venue_models import save_venue_models as save_venue_models
