"""What a study found for one size and horizon of orders, in typed records.

Costs are basis points of the arrival mid, fees included. A difference is the cost of one router less that of another,
order by order on the test days, so that less than 0 is a saving; a saving has its sign turned.
"""

from __future__ import annotations

from dataclasses import dataclass

from riskroute.study.comparison import Comparison
from riskroute.study.costs import VenueCosts


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % confidence interval over time blocks; None where there are too few blocks for one."""

    mean: float
    low: float | None
    high: float | None

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval is."""
        return self.low is not None and self.low > 0

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval is."""
        return self.high is not None and self.high < 0


@dataclass(frozen=True)
class Saving:
    """What one router saves against another on the test days; below 0 it costs more.

    Parameters
    ----------
    router, against : str
        The two routers.
    bps : Estimate
        Basis points an order.
    dollars_per_order : Estimate
        Dollars an order.
    dollars_per_day : Estimate
        Dollars a day, with as many orders a day as were judged.
    detectable_bps : float, optional
        The true saving that so many orders would show four times out of five.
    dollars_per_1000_orders : Estimate, optional
        Dollars per 1,000 orders.
    """

    router: str
    against: str
    bps: Estimate
    dollars_per_order: Estimate
    dollars_per_day: Estimate
    detectable_bps: float | None
    dollars_per_1000_orders: Estimate | None = None


@dataclass(frozen=True)
class StateDifference:
    """The difference to the simple rule among orders that met one state of the market.

    Parameters
    ----------
    measure : str
        ``symbol`` if there are several, ``side`` if orders are on both, ``hour`` (in the zone of the day),
        ``imbalance`` of the best prices, ``spread`` (basis points), ``volatility`` (basis points per root second, over
        the five minutes before) or ``depth`` (shares displayed on the side to take from).
    state : str
        The symbol, side or hour; ``with us`` or ``against us`` for the imbalance, as in `RoutingRow`; ``low``,
        ``middle`` or ``high`` third of the orders for the others.
    least, most : float, optional
        The smallest and largest value in a third.
    orders : int
        How many there are.
    difference_bps : Estimate
        Cost of the router less that of the simple rule.
    """

    measure: str
    state: str
    least: float | None
    most: float | None
    orders: int
    difference_bps: Estimate


@dataclass(frozen=True)
class LearningCost:
    """By how many basis points orders cost more than with the plans that seemed best, as the router tried others.

    ``later_bps`` is that of all days but the first; None with one day only. Below 0, what was tried turned out better.
    """

    first_day_bps: Estimate
    later_bps: Estimate | None


@dataclass(frozen=True)
class SurfacePoint:
    """The saving if pools hold ``presence`` times as much, and are ``adverse`` times as adverse, as assumed.

    ``estimated_share`` is the share of the volume of both routers that is priced by an estimate.
    """

    presence: float
    adverse: float
    saving_bps: Estimate
    estimated_share: float = 0.0


@dataclass(frozen=True)
class DarkSurface:
    """The saving of a router against another over a grid of assumptions on dark pools, on fewer orders."""

    router: str
    against: str
    orders: int
    points: tuple[SurfacePoint, ...]

    @property
    def estimated_share(self) -> float:
        """The largest share of the volume that is priced by an estimate, of all points."""
        return max(point.estimated_share for point in self.points)


@dataclass(frozen=True)
class RoutingRow:
    """Where a router sends shares in one state of the book.

    Parameters
    ----------
    spread : str
        ``narrow``, ``middle`` or ``wide``: a third of the orders.
    imbalance : str
        ``with us`` if the best prices hold more shares on the other side than on our own, so that the price tends to
        come to us; else ``against us``.
    orders : int
        Orders that met this state.
    place, kind : str
        Venue or pool, and kind of child order.
    sent_fraction : float
        Fraction of all shares sent in this state; a share that came back and was sent again counts again.
    filled_fraction : float
        Fraction of all shares filled in this state.
    """

    spread: str
    imbalance: str
    orders: int
    place: str
    kind: str
    sent_fraction: float
    filled_fraction: float


@dataclass(frozen=True)
class HourCost:
    """What the orders of a router cost in the hour that begins at ``hour``, in the zone of the day."""

    router: str
    hour: int
    orders: int
    cost_bps: Estimate


@dataclass(frozen=True)
class LearningPoint:
    """Some orders that followed each other, in all symbols and seeds alike.

    Parameters
    ----------
    orders : int
        Orders of a symbol up to the last of these, from the first training day on.
    test : bool
        Whether they came on test days.
    difference_bps, so_far_bps : float
        Mean difference to the other router, among these orders and among all up to here.
    exploration_bps, exploration_so_far_bps : float, optional
        How much more these orders, and all up to here, cost than with the plans that seemed best; None for a router
        that always sends those.
    """

    orders: int
    test: bool
    difference_bps: float
    so_far_bps: float
    exploration_bps: float | None
    exploration_so_far_bps: float | None


@dataclass(frozen=True)
class LearningCurve:
    """How the difference between two routers went on, order by order, while one of them learned."""

    router: str
    against: str
    points: tuple[LearningPoint, ...]


@dataclass(frozen=True)
class BookLevel:
    """Shares that a venue displayed at a price; ``side`` is ``bid`` or ``ask``."""

    venue: str
    side: str
    price: float
    shares: int


@dataclass(frozen=True)
class ExampleChild:
    """A child order of an example; seconds are counted from the arrival of the order, prices are means of its fills."""

    kind: str
    place: str
    sent: int
    filled: int
    price: float | None
    sent_after: float
    last_fill_after: float | None


@dataclass(frozen=True)
class ExampleFill:
    """Shares of an example that traded at one place and price, the last of them so many seconds after its arrival."""

    kind: str
    place: str
    shares: int
    price: float
    after: float


@dataclass(frozen=True)
class OrderExample:
    """One order of the test days: the books it met, what the router sent, and what became of it.

    Parameters
    ----------
    why : str
        Why it is shown: one of `riskroute.study.order_examples.WHY`.
    symbol, day, time, zone : str
        Time of day in the zone, to the second.
    side, shares : str, int
        The order.
    mid, spread_bps : float
        Consolidated mid and spread when it came.
    cost_bps : float
        What it cost.
    against_bps, saving_bps : float, optional
        What it cost with the other router, and the difference; None if there is no other.
    levels : tuple[BookLevel, ...]
        Displayed shares at the best prices of both sides, the best first.
    children : tuple[ExampleChild, ...]
        What was sent.
    fills : tuple[ExampleFill, ...]
        What was traded.
    """

    why: str
    symbol: str
    day: str
    time: str
    zone: str
    side: str
    shares: int
    mid: float
    spread_bps: float
    cost_bps: float
    against_bps: float | None
    saving_bps: float | None
    levels: tuple[BookLevel, ...]
    children: tuple[ExampleChild, ...]
    fills: tuple[ExampleFill, ...]


@dataclass(frozen=True)
class StressSaving:
    """What a router and another one cost in a harder world, and what the first saves there."""

    world: str
    cost_bps: float
    against_bps: float
    saving_bps: Estimate
    estimated_share: float = 0.0


@dataclass(frozen=True)
class StressTable:
    """The saving of a router against another in worlds that are harder than usual, the usual one first."""

    router: str
    against: str
    orders: int
    worlds: tuple[StressSaving, ...]


@dataclass(frozen=True)
class StudyCase:
    """The answer for one size and horizon of orders.

    Parameters
    ----------
    shares, horizon : int, float
        Shares of an order and the seconds that it has.
    training_days, test_days : int
        Days on which the router was chosen, and on which it was judged; of a single day, its two halves.
    price : float
        Mean mid of the judged orders, dollars.
    depth_fraction, volume_fraction : float
        Median size of an order over the displayed depth, and over what trades in a time block, if that is known.
    training_objective_bps : dict[str, float]
        Objective of every router on the training days: its mean cost plus the charge for unforeseen variance.
    chosen : str
        The router of the least objective there; the simple rule to beat if nothing was better.
    use : str
        The router to use: the chosen one if the test days confirm that it beats the simple rule, else that rule.
    reason : str
        Why; one of `riskroute.study.choice.REASONS`.
    saving : Saving, optional
        What the chosen router saves against the simple rule; None if it is the rule.
    states : tuple[StateDifference, ...]
        Its difference to the simple rule, by state of the market.
    losses : tuple[StateDifference, ...]
        Those states where it is worse with its whole interval.
    learning : LearningCost, optional
        What learning cost; None if the chosen router never tries a plan that does not seem best.
    not_looking : Saving, optional
        What looking at the books saves: the sweep against the static split; None if that was not played.
    headroom_bps : float
        What perfect foresight, of future prices too, would save against the simple rule.
    surface : DarkSurface, optional
        The saving under other assumptions on dark pools; None without pools, or if none were asked for.
    routing_table : tuple[RoutingRow, ...]
        Where the router to use sends shares.
    comparison : Comparison
        All routers on the test days, as a backtest has them.
    symbol : str
        The symbol that this is the answer for; empty for several symbols taken together.
    hours : tuple[HourCost, ...]
        Costs by hour of the day, of the chosen router and of the simple rule.
    venues : tuple[VenueCosts, ...]
        What the same two routers met at every venue and pool.
    learning_curve : LearningCurve, optional
        How their difference went on from the first order to the last; None if there is only one router to show.
    examples : tuple[OrderExample, ...]
        A few orders of the chosen router.
    stresses : StressTable, optional
        The saving in harder worlds; None if they were not asked for.
    zone : str
        Time zone of the days; empty if there are several.
    verdict : bool
        Whether there is one; if not, ``use`` is the simple rule for want of anything better, and no recommendation.
    estimated_share : float
        Share of the volume that was priced by an estimate, of the chosen router or of the simple rule, whichever is
        larger.
    """

    shares: int
    horizon: float
    training_days: int
    test_days: int
    price: float
    depth_fraction: float
    volume_fraction: float | None
    training_objective_bps: dict[str, float]
    chosen: str
    use: str
    reason: str
    saving: Saving | None
    states: tuple[StateDifference, ...]
    losses: tuple[StateDifference, ...]
    learning: LearningCost | None
    not_looking: Saving | None
    headroom_bps: float
    surface: DarkSurface | None
    routing_table: tuple[RoutingRow, ...]
    comparison: Comparison
    symbol: str = ""
    hours: tuple[HourCost, ...] = ()
    venues: tuple[VenueCosts, ...] = ()
    learning_curve: LearningCurve | None = None
    examples: tuple[OrderExample, ...] = ()
    stresses: StressTable | None = None
    zone: str = ""
    verdict: bool = True
    estimated_share: float = 0.0
