"""Public names of the routing room."""

from riskroute.routing.fees import Fee as Fee
from riskroute.routing.fees import FeeSchedule as FeeSchedule
from riskroute.routing.fees import load_fees as load_fees
from riskroute.routing.frontier import risk_frontier as risk_frontier
from riskroute.routing.frontier import trace_frontier as trace_frontier
from riskroute.routing.instances import random_order_sizes as random_order_sizes
from riskroute.routing.instances import riskless_slot as riskless_slot
from riskroute.routing.instances import routing_actions as routing_actions
from riskroute.routing.shared_books import SharedBook as SharedBook
from riskroute.routing.splits import ListedAllocations as ListedAllocations
from riskroute.routing.splits import count_splits as count_splits
from riskroute.routing.splits import list_splits as list_splits
from riskroute.routing.splits import split_actions as split_actions
from riskroute.routing.venues import load_models as load_models
from riskroute.routing.venues import save_models as save_models
