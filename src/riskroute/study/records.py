"""Records of a study for one symbol, order size and deadline.

Costs are basis points of the arrival mid, fees included. A difference is the cost of one router minus that of another,
paired by order on the test days: negative saves. A saving has the opposite sign.
"""

from __future__ import annotations

from dataclasses import dataclass

from riskroute.study.comparison import Comparison
from riskroute.study.costs import VenueCosts


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % confidence interval over time blocks; None where there are too few blocks."""

    mean: float
    low: float | None
    high: float | None

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval is positive."""
        return self.low is not None and self.low > 0

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval is negative."""
        return self.high is not None and self.high < 0

    @property
    def negated(self) -> Estimate:
        """The estimate with the opposite sign, without negative zeros: the saving for a difference, and vice versa.

        Examples
        --------
        >>> Estimate(-0.5, -0.75, -0.25).negated, Estimate(0.0, None, None).negated
        (Estimate(mean=0.5, low=0.25, high=0.75), Estimate(mean=0.0, low=None, high=None))
        """
        low, high = (None if end is None else 0.0 - end for end in (self.high, self.low))
        return Estimate(0.0 - self.mean, low, high)

    def times(self, factor: float) -> Estimate:
        """Return the estimate multiplied by a positive factor."""
        low, high = (None if end is None else factor * end for end in (self.low, self.high))
        return Estimate(factor * self.mean, low, high)


@dataclass(frozen=True)
class Saving:
    """Saving of one router against another on the test days; negative if it costs more.

    ``dollars_per_day`` assumes the orders per day of the test days; ``detectable_bps`` is the minimum saving that is
    detected with 80 % power.
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
    """Difference to the benchmark rule among the orders that met one state of the market.

    - ``measure``: ``symbol`` if there are several, ``side`` if both are traded, ``hour`` (in the zone of the day),
      ``imbalance`` of the best prices, ``spread`` (basis points), ``volatility`` (basis points per root second over the
      previous five minutes) or ``depth`` (shares displayed on the side to take from).
    - ``state``: the symbol, side or hour; ``with us`` or ``against us`` for the imbalance, as in `RoutingRow`; else the
      tercile of the orders: ``low``, ``middle`` or ``high``.
    - ``least``, ``most``: smallest and largest value in a tercile.
    - ``orders``: number of orders.
    - ``difference_bps``: cost of the router minus that of the benchmark rule.
    """

    measure: str
    state: str
    least: float | None
    most: float | None
    orders: int
    difference_bps: Estimate


@dataclass(frozen=True)
class LearningCost:
    """Exploration cost: the cost of orders minus that of the plans with the lowest estimated cost.

    ``later_bps`` is that of all days after the first; None with one day. Negative: exploration paid off at once.
    """

    first_day_bps: Estimate
    later_bps: Estimate | None


@dataclass(frozen=True)
class SurfacePoint:
    """The saving if pools hold ``presence`` times the assumed shares with ``adverse`` times the adverse selection.

    ``estimated_share`` is the fraction of the volume of both routers at estimated prices.
    """

    presence: float
    adverse: float
    saving_bps: Estimate
    estimated_share: float = 0.0


@dataclass(frozen=True)
class DarkSurface:
    """The saving of a router against another over a grid of dark-pool assumptions, on fewer orders."""

    router: str
    against: str
    orders: int
    points: tuple[SurfacePoint, ...]

    @property
    def estimated_share(self) -> float:
        """The largest fraction of the volume at estimated prices over all points."""
        return max(point.estimated_share for point in self.points)


@dataclass(frozen=True)
class RoutingRow:
    """Where a router sends shares in one state of the book.

    - ``spread``: tercile of the orders by spread: ``narrow``, ``middle`` or ``wide``.
    - ``imbalance``: ``with us`` if the best prices hold more shares on the opposite side than on ours, so that the
      price tends to move towards us; else ``against us``.
    - ``orders``: orders that met this state.
    - ``place``, ``kind``: venue or pool, and kind of child order.
    - ``sent_fraction``: fraction of the shares sent in this state; a share that is sent again counts again.
    - ``filled_fraction``: fraction of the shares filled in this state.
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
    """Cost of the orders of a router in the hour beginning at ``hour``, in the zone of the day."""

    router: str
    hour: int
    orders: int
    cost_bps: Estimate


@dataclass(frozen=True)
class LearningPoint:
    """Consecutive orders of a learning curve, averaged over symbols and seeds.

    - ``orders``: orders of a symbol up to the last of these, from the first training day on.
    - ``test``: whether they are on test days.
    - ``difference_bps``, ``so_far_bps``: mean difference to the other router, over these orders and over all up to
      here.
    - ``exploration_bps``, ``exploration_so_far_bps``: exploration cost of these orders and of all up to here; None for
      a router that does not explore.
    """

    orders: int
    test: bool
    difference_bps: float
    so_far_bps: float
    exploration_bps: float | None
    exploration_so_far_bps: float | None


@dataclass(frozen=True)
class LearningCurve:
    """The difference between two routers over time, while one of them learns."""

    router: str
    against: str
    points: tuple[LearningPoint, ...]


@dataclass(frozen=True)
class BookLevel:
    """Shares that a venue displays at a price; ``side`` is ``bid`` or ``ask``."""

    venue: str
    side: str
    price: float
    shares: int


@dataclass(frozen=True)
class ExampleChild:
    """A child order of an example; ``price`` is the mean of its fills, times are seconds after arrival."""

    kind: str
    place: str
    sent: int
    filled: int
    price: float | None
    sent_after: float
    last_fill_after: float | None


@dataclass(frozen=True)
class ExampleFill:
    """Shares of an example filled at one place and price, the last of them ``after`` seconds."""

    kind: str
    place: str
    shares: int
    price: float
    after: float


@dataclass(frozen=True)
class OrderExample:
    """One order of the test days with the books it met, its child orders and its fills.

    ``why`` says why it is shown; ``time`` is local to ``zone``; ``against_bps`` and ``saving_bps`` are None if there is
    no other router to compare with.
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
    """Costs of two routers under one stress, and the saving of the first."""

    world: str
    cost_bps: float
    against_bps: float
    saving_bps: Estimate
    estimated_share: float = 0.0


@dataclass(frozen=True)
class StressTable:
    """The saving of a router against another under stress; the first row is without stress."""

    router: str
    against: str
    orders: int
    worlds: tuple[StressSaving, ...]


@dataclass(frozen=True)
class StudyCase:
    """The answer for one symbol, order size and deadline.

    - ``shares``, ``horizon``: shares of an order, and its deadline in seconds.
    - ``training_days``, ``test_days``: days on which the router was chosen and judged; a single day is halved.
    - ``price``: mean mid of the judged orders, dollars.
    - ``depth_fraction``, ``volume_fraction``: median order size over displayed depth, and over the volume of a time
      block if that is known.
    - ``training_objective_bps``: objective of every router on the training days: mean cost plus the charge for
      unforeseen variance.
    - ``chosen``: the router with the lowest objective there; the benchmark rule if no other was lower.
    - ``use``: the chosen router if the test days confirm it, else the benchmark rule.
    - ``reason``: key of `riskroute.study.comparison.REASONS`.
    - ``saving``: saving of the chosen router against the benchmark rule; None if it is the rule.
    - ``states``: difference to the benchmark rule by state of the market.
    - ``losses``: states in which the chosen router is significantly worse.
    - ``learning``: exploration cost; None if the chosen router does not explore.
    - ``not_looking``: saving of the sweep against the static split, which ignores the books; None if that was not
      played.
    - ``headroom_bps``: saving of perfect foresight against the benchmark rule.
    - ``surface``: sensitivity to dark-pool assumptions; None without pools or if not asked for.
    - ``routing_table``: where the router to use sends shares.
    - ``comparison``: all routers on the test days.
    - ``symbol``: the symbol; empty for several symbols pooled.
    - ``hours``: costs by hour of the chosen router and the benchmark rule.
    - ``venues``: costs of the same two routers by venue and pool.
    - ``learning_curve``: their difference over time; None if there is only one router to show.
    - ``examples``: a few orders of the chosen router.
    - ``stresses``: the saving under stress; None if not asked for.
    - ``zone``: time zone of the days; empty if there are several.
    - ``verdict``: whether there is one; if not, ``use`` is the benchmark rule and not a recommendation.
    - ``estimated_share``: fraction of the volume at estimated prices, of the chosen router or the benchmark rule,
      whichever is larger.
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
