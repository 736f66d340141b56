"""One case of a study: choose a router for one symbol, order size and deadline, and explain the choice.

The details compare the chosen router with the benchmark rule: overall, by state of the market, by hour, by venue, over
time, under stress and over dark-pool assumptions. Example orders are added.

Costs are against the price benchmark, in basis points of the order's value at the arrival mid, fees included. A
difference is the cost of one router minus the cost of another, paired by order; it is negative if the first router is
cheaper. A saving has the opposite sign.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import polars

from riskroute.core.arrays import Integers, Vector
from riskroute.core.instrument import SHARES, Instrument, each_instrument_text
from riskroute.core.seeding import seed_stream
from riskroute.core.validation import SIDES
from riskroute.market.clock import SECOND, zone_label
from riskroute.market.day_books import DayBooks
from riskroute.routers.context import Context, ContextBooks
from riskroute.routers.contextual.market_features import MarketFeatures
from riskroute.routers.report import KINDS
from riskroute.routers.risk import RiskProfile
from riskroute.simulation.backends import Backend
from riskroute.simulation.play_day import PlayableDay
from riskroute.study import stresses
from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.candidates import FITTED, Candidate, candidate_names
from riskroute.study.config import BacktestConfig, StressConfig, StudyConfig
from riskroute.study.costs import (
    BenchmarkCosts,
    VenueCosts,
    costs_by_venue,
    order_costs_bps,
    with_terciles,
)
from riskroute.study.day_tables import KEY, DayTables, notional
from riskroute.study.examples import OrderExample, order_examples
from riskroute.study.frontier import (
    CaseFrontier,
    ProfileChoice,
    frontier_points,
    frontier_profiles,
    line_candidate,
    line_profiles,
)
from riskroute.study.markets import MarketDay, market_days_zone
from riskroute.study.play import (
    PlayCache,
    PlayTask,
    day_to_play,
    perform_plays,
    play_routers,
    play_tasks,
    training_days,
)
from riskroute.study.router_comparison import (
    NO_VERDICT,
    ORDER,
    ROUNDING,
    RouterComparison,
    training_excess,
    training_objectives,
)
from riskroute.study.static_fit import held_out_orders, static_fit_candidate
from riskroute.study.statistics import PairedDifference, bootstrap_difference, resampling_units

_TERCILE_MEASURES = ("spread", "volatility", "depth")
_SPREADS = ("narrow", "middle", "wide")
_IMBALANCES = ("with us", "against us")  # as in `CaseRoutingRow`
_PRESENCE = (0.5, 1.0, 2.0)  # factors on the liquidity in dark pools
_ADVERSE = (0.0, 1.0, 2.0)  # factors on their adverse selection
SURFACE_POINTS = len(_PRESENCE) * len(_ADVERSE)


@dataclass(frozen=True)
class CaseEstimate:
    """A mean and its 95 % confidence interval over days or time blocks; ``low``, ``high`` are None with one block."""

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
    def negated(self) -> CaseEstimate:
        """The estimate with the opposite sign, without negative zeros: the saving for a difference, and vice versa.

        Examples
        --------
        >>> CaseEstimate(-0.5, -0.75, -0.25).negated, CaseEstimate(0.0, None, None).negated
        (CaseEstimate(mean=0.5, low=0.25, high=0.75), CaseEstimate(mean=0.0, low=None, high=None))
        """
        low, high = (None if end is None else 0.0 - end for end in (self.high, self.low))
        return CaseEstimate(0.0 - self.mean, low, high)

    def times(self, factor: float) -> CaseEstimate:
        """Return the estimate multiplied by a positive factor."""
        low, high = (None if end is None else factor * end for end in (self.low, self.high))
        return CaseEstimate(factor * self.mean, low, high)


@dataclass(frozen=True)
class CaseSaving:
    """Saving of one router against another on the test days; negative if it costs more.

    ``bps`` is the mean saving per order in basis points. The amounts are in the quote currency, None for orders in
    several currencies; ``amount_per_day`` is for the mean number of judged orders per symbol and test day.
    ``detectable_bps`` is the minimum saving that is detected with 80 % power, ``p_value`` tests the hypothesis of no
    saving; both are None with one time block.
    """

    router: str
    against: str
    bps: CaseEstimate
    amount_per_order: CaseEstimate | None
    amount_per_day: CaseEstimate | None
    detectable_bps: float | None
    amount_per_1000_orders: CaseEstimate | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class CaseStateDifference:
    """Cost difference between the chosen router and the benchmark rule over the orders in one state of the market.

    - ``measure``: ``symbol`` if there are several, ``side`` if both are traded, ``hour`` (in the zone of the day),
      ``imbalance`` of the best prices, ``spread`` (basis points), ``volatility`` (basis points per root second over the
      previous five minutes) or ``depth`` (quantity displayed on the side to take from).
    - ``state``: the symbol, side or hour; ``with us`` or ``against us`` for the imbalance, as in `CaseRoutingRow`; else
      the tercile of the orders: ``low``, ``middle`` or ``high``.
    - ``least``, ``most``: smallest and largest value in the tercile; None for measures without terciles.
    - ``orders``: number of orders.
    - ``difference_bps``: cost of the chosen router minus the cost of the benchmark rule.
    """

    measure: str
    state: str
    least: float | None
    most: float | None
    orders: int
    difference_bps: CaseEstimate


@dataclass(frozen=True)
class CaseLearningCost:
    """Exploration cost: the cost of the plans sent minus the cost of the greedy plans on the same books.

    ``first_day_bps`` is for the first day of every symbol, ``later_bps`` for the other days; None with one day. A
    negative cost means that exploration paid off at once.
    """

    first_day_bps: CaseEstimate
    later_bps: CaseEstimate | None


@dataclass(frozen=True)
class _SurfacePoint:
    """The saving with ``presence`` times the liquidity in pools and ``adverse`` times the adverse selection."""

    presence: float
    adverse: float
    saving_bps: CaseEstimate
    estimated_share: float = 0.0


@dataclass(frozen=True)
class CaseDarkSurface:
    """Saving of a router against another over a grid of dark-pool assumptions, ``orders`` judged orders per point."""

    router: str
    against: str
    orders: int
    points: tuple[_SurfacePoint, ...]

    @property
    def estimated_share(self) -> float:
        """The largest fraction of the volume at estimated prices at any point."""
        return max(point.estimated_share for point in self.points)


@dataclass(frozen=True)
class CaseRoutingRow:
    """Fractions of the quantity that a router sends and fills at one place by one kind of child order, in one state.

    - ``spread``: tercile of the orders by spread: ``narrow``, ``middle`` or ``wide``.
    - ``imbalance``: ``against us`` if the best prices hold more on our side than on the opposite side, so that the
      price tends to move away; else ``with us``.
    - ``orders``: number of orders that arrived in this state.
    - ``place``, ``kind``: venue or pool, and kind of child order.
    - ``sent_fraction``: fraction of the quantity sent in this state; quantity that is sent again counts again.
    - ``filled_fraction``: fraction of the quantity filled in this state.
    """

    spread: str
    imbalance: str
    orders: int
    place: str
    kind: str
    sent_fraction: float
    filled_fraction: float


@dataclass(frozen=True)
class _HourCost:
    """Cost of a router's judged orders that arrive in the hour beginning at ``hour``, in the zone of the day."""

    router: str
    hour: int
    orders: int
    cost_bps: CaseEstimate


@dataclass(frozen=True)
class _LearningPoint:
    """Mean difference and exploration cost of consecutive orders, and of all orders so far, over symbols and seeds.

    ``orders`` counts the orders of one symbol and seed since the first training day. Exploration costs are None for a
    router that does not explore.
    """

    orders: int
    test: bool
    difference_bps: float
    so_far_bps: float
    exploration_bps: float | None
    exploration_so_far_bps: float | None


@dataclass(frozen=True)
class CaseLearningCurve:
    """The difference between two routers over time, training days included."""

    router: str
    against: str
    points: tuple[_LearningPoint, ...]


@dataclass(frozen=True)
class _StressSaving:
    """Costs of two routers under one stress, and the saving of the first."""

    world: str
    cost_bps: float
    against_bps: float
    saving_bps: CaseEstimate
    estimated_share: float = 0.0


@dataclass(frozen=True)
class CaseStressTable:
    """The saving of a router against another under stress; the first row is without stress."""

    router: str
    against: str
    orders: int
    worlds: tuple[_StressSaving, ...]


@dataclass(frozen=True)
class StudyCase:
    """The answer for one symbol, order size and deadline.

    - ``quantity``, ``horizon``: natural quantity of an order, and its deadline in seconds.
    - ``training_days``, ``test_days``: numbers of days on which the router was chosen and judged, summed over symbols;
      a single day is halved and counts as a test day.
    - ``price``: mean mid of the judged orders; None for several symbols.
    - ``depth_fraction``, ``volume_fraction``: median of the order size over the displayed depth, and over the volume of
      the time block; the latter is None if the volume is unknown.
    - ``training_objective_bps``: objective of every router on the training days: mean cost plus the charge for
      unforeseen variance. Fitted routers are scored on orders that they were not fitted to.
    - ``chosen``: the admissible router with the lowest objective on the training days, see `RiskProfile.best`; the
      benchmark rule in a tie.
    - ``use``: the chosen router if the test days confirm it, else the benchmark rule.
    - ``reason``: key of `riskroute.study.router_comparison.REASONS`.
    - ``saving``: saving of the chosen router against the benchmark rule; None if the rule was chosen.
    - ``states``, ``losses``: difference to the benchmark rule by state of the market, and the states with a significant
      loss; empty if the rule was chosen.
    - ``learning``: exploration cost; None if the chosen router does not explore.
    - ``not_looking``: saving in basis points of the sweep against the static split, a router that ignores the books;
      None if ``static`` was not played.
    - ``headroom_bps``: saving of perfect foresight against the benchmark rule.
    - ``surface``: sensitivity to dark-pool assumptions; None without pools, if ``surface_orders`` is 0, or if the sweep
      is both the chosen router and the benchmark rule.
    - ``routing_table``: where the router to use sends orders.
    - ``symbol``: the symbol; empty for several symbols pooled.
    - ``hours``, ``venues``: costs by hour, and by venue and pool, of the chosen router and the benchmark rule (of the
      rule and the sweep if the rule was chosen).
    - ``learning_curve``: difference between these two routers over time; None if both are the sweep.
    - ``examples``: up to four orders of the chosen router.
    - ``stresses``: the saving under stress; None unless configured, or if both routers are the sweep.
    - ``zone``: time zone of the days; empty if there are several.
    - ``verdict``: whether the data allow a verdict; if not, ``use`` is the benchmark rule, not a recommendation.
    - ``estimated_share``: fraction of the volume at estimated prices, of the chosen router or the benchmark rule,
      whichever is larger.
    - ``further_days``, ``further_orders``: numbers of further test days, and of orders on them, after which a verdict
      on the chosen router is likely; see `RouterComparison.further_days`.
    - ``instruments``: the instruments of the symbols.
    - ``currency``: quote currency of all amounts; empty if there are several.
    - ``training_excess_bps``: expected shortfall (5 %) of every router on the training days minus the rule's.
    - ``frontier``: points of all routers, and the answers under other profiles; None unless configured.
    - ``benchmarks``: costs of all routers against every price benchmark, and the spreads they paid, on the test days.
    """

    quantity: int | float
    horizon: float
    training_days: int
    test_days: int
    price: float | None
    depth_fraction: float
    volume_fraction: float | None
    training_objective_bps: dict[str, float]
    chosen: str
    use: str
    reason: str
    saving: CaseSaving | None
    states: tuple[CaseStateDifference, ...]
    losses: tuple[CaseStateDifference, ...]
    learning: CaseLearningCost | None
    not_looking: CaseEstimate | None
    headroom_bps: float
    surface: CaseDarkSurface | None
    routing_table: tuple[CaseRoutingRow, ...]
    comparison: RouterComparison
    symbol: str = ""
    hours: tuple[_HourCost, ...] = ()
    venues: tuple[VenueCosts, ...] = ()
    learning_curve: CaseLearningCurve | None = None
    examples: tuple[OrderExample, ...] = ()
    stresses: CaseStressTable | None = None
    zone: str = ""
    verdict: bool = True
    estimated_share: float = 0.0
    further_days: int = 0
    further_orders: int = 0
    instruments: tuple[Instrument, ...] = (SHARES,)
    currency: str = SHARES.currency
    training_excess_bps: dict[str, float] = field(default_factory=dict)
    frontier: CaseFrontier | None = None
    benchmarks: tuple[BenchmarkCosts, ...] = ()

    @property
    def size(self) -> str:
        """The quantity of an order as text."""
        return each_instrument_text(self.instruments, self.quantity)


def play_case(
    days: Sequence[MarketDay],
    config: StudyConfig,
    size: float,
    horizon: float,
    symbol: str,
    backend: Backend | None,
    cache: PlayCache,
    finished: Callable[[str], None],
) -> StudyCase:
    """Play one symbol, order size and deadline, and choose the router to use; call ``finished`` after each play."""

    def played(task: PlayTask) -> None:
        finished(task.candidate.label)

    asked = config.backtest(size, horizon)
    answer = partial(case_answer, config.market, days, backend=backend, cache=cache, finished=finished)
    own = answer(asked)
    result, chosen, reason, use = own.result, own.chosen, own.reason, own.use
    found, orders = result.comparison, result.tables.orders
    frontier = None
    if config.frontier:
        others = {risk: answer(dataclasses.replace(asked, risk=risk)) for risk in frontier_profiles(asked.risk)}
        frontier = _frontier(own, others, days, asked, backend=backend, cache=cache, finished=played)
    states = order_states(orders, days, asked)
    by_state = () if chosen == found.bar else _differences_by_state(orders, states, chosen, found.bar, seed=config.seed)
    paired = found.routers[chosen].paired
    saving = None if paired is None else _headline_saving(found, chosen, paired, orders)
    pair = _shown_pair(result, chosen)
    surface = None
    if pair and days[0].pools and config.surface_orders:
        surface = _dark_surface(pair, days, config, size, horizon, backend=backend, cache=cache, finished=played)
    stressed = None
    if pair and config.stresses:
        usual = None if saving is None else saving.bps
        stressed = _stress_savings(pair, days, asked, usual=usual, backend=backend, cache=cache, finished=played)
    instruments = tuple({day.symbol: day.instrument for day in days}.values())
    currencies = {one.currency for one in instruments}
    shown = [one.label for one in pair] if pair else [chosen]
    looked = "static" in found.routers
    training_count, test_count = _day_counts(days, config)
    depth, volume = result.footprint_fractions()
    return StudyCase(
        quantity=size,
        horizon=horizon,
        training_days=training_count,
        test_days=test_count,
        price=float(orders.filter("judged")["mid"].to_numpy().mean()) if len(instruments) == 1 else None,
        depth_fraction=depth,
        volume_fraction=volume,
        training_objective_bps=own.objectives,
        chosen=chosen,
        use=use,
        reason=reason,
        saving=saving,
        states=by_state,
        losses=tuple(one for one in by_state if one.difference_bps.above_zero),
        learning=_learning_cost(orders, chosen, seed=config.seed),
        not_looking=_saving_of(orders, "sweep", "static", seed=config.seed) if looked else None,
        headroom_bps=found.headroom_bps,
        surface=surface,
        routing_table=_routing_rows(result.tables, states, use),
        comparison=found,
        symbol=symbol,
        hours=_hour_costs(orders, states, shown, seed=config.seed),
        venues=_costs_by_venue(result.tables, shown, seed=config.seed),
        learning_curve=_learning_curve(orders, *shown) if pair else None,
        examples=order_examples(result.tables, days, asked, chosen, shown[1] if pair else None),
        stresses=stressed,
        zone=market_days_zone(days),
        verdict=reason not in NO_VERDICT,
        estimated_share=max(found.routers[name].estimated_share for name in (chosen, found.bar)),
        further_days=found.further_days(chosen),
        further_orders=found.further_orders(chosen),
        instruments=instruments,
        currency=currencies.pop() if len(currencies) == 1 else "",
        training_excess_bps=own.excess,
        frontier=frontier,
        benchmarks=result.benchmark_costs(size),
    )


@dataclass(frozen=True)
class CaseAnswer:
    """The plays under one risk profile, the router chosen on the training days, and the reason of the verdict.

    ``objectives`` and ``excess`` are `training_objectives` and `training_excess` by router, in basis points.
    """

    result: BacktestResult
    objectives: dict[str, float]
    excess: dict[str, float]
    chosen: str
    reason: str

    @property
    def use(self) -> str:
        """The chosen router if the test days confirm it, else the benchmark rule."""
        return self.chosen if self.reason == "beats" else self.result.comparison.bar


def case_answer(
    market: str,
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    backend: Backend | None,
    cache: PlayCache,
    finished: Callable[[str], None] = lambda label: None,
) -> CaseAnswer:
    """Fit and play the candidates, choose one on the training days, and judge it on the test days."""
    names = candidate_names(config.routers, pools=bool(days[0].pools), horizon=config.horizon, train=config.train)
    candidates = []
    for name in names:
        candidates.append(static_fit_candidate(name, days, config, backend=backend, cache=cache))
        if name in FITTED:
            finished(f"fit {name}")
    result = run_backtest(
        market,
        days,
        config,
        backend=backend,
        cache=cache,
        finished=lambda task: finished(task.candidate.label),
        candidates=candidates,
        joint=False,
    )
    bar = result.comparison.bar
    training = held_out_orders(candidates, result.tables.orders, days, config, backend=backend, cache=cache)
    objectives = training_objectives(training, config.risk.kappa)
    excess = training_excess(training, bar)
    chosen = config.risk.best(objectives, excess, bar)
    return CaseAnswer(result, objectives, excess, chosen, result.comparison.choice_reason(chosen))


def _frontier(
    own: CaseAnswer,
    others: Mapping[RiskProfile, CaseAnswer],
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    backend: Backend | None,
    cache: PlayCache,
    finished: Callable[[PlayTask], None],
) -> CaseFrontier:
    """Return the points of all routers, the contextual router under several profiles, and the answers of ``others``."""
    plays, router = {}, line_candidate(own.result.candidates)
    if router is not None:
        for risk, one in ({config.risk: own} | dict(others)).items():
            plays[risk] = one.result.tables.orders.filter(polars.col("router") == router.label)
        for risk in line_profiles(config.risk):
            world = dataclasses.replace(config, risk=risk)
            plays[risk] = play_routers([router], days, world, backend=backend, cache=cache, finished=finished).orders
    points = frontier_points(own.result.tables.orders, plays, router.label if router else "")
    choices = (ProfileChoice(risk.name, one.chosen, one.use, one.reason) for risk, one in others.items())
    return CaseFrontier(points, tuple(choices))


def _shown_pair(result: BacktestResult, chosen: str) -> tuple[Candidate, Candidate] | None:
    """Return the chosen router and the benchmark rule; if these are the same, the rule and the sweep.

    None if all three are the same.
    """
    bar = result.comparison.bar
    against = bar if chosen != bar else "sweep"
    if chosen == against:
        return None
    candidates = {one.label: one for one in result.candidates}
    return candidates[chosen], candidates[against]


def _day_counts(days: Sequence[MarketDay], config: StudyConfig) -> tuple[int, int]:
    """Return the numbers of training and test days, summed over symbols; a single halved day counts as a test day."""
    training = test = 0
    for symbol in dict.fromkeys(day.symbol for day in days):
        count = sum(day.symbol == symbol for day in days)
        some = training_days(count, config.train) if count > 1 else 0
        training, test = training + some, test + count - some
    return training, test


def _paired_orders(orders: polars.DataFrame, router: str, against: str) -> polars.DataFrame:
    """Return the judged orders with ``bps``, the cost of ``router`` minus the cost of ``against`` in basis points."""
    judged = order_costs_bps(orders.filter(polars.col("judged") & polars.col("router").is_in([router, against])))
    means = judged.group_by("router", *ORDER, "block", maintain_order=True).agg(polars.col("cost_bps").mean())
    one, other = (means.filter(polars.col("router") == name).drop("router") for name in (router, against))
    both = one.join(other, on=[*ORDER, "block"], suffix="_other").sort(ORDER)
    gap = polars.col("cost_bps") - polars.col("cost_bps_other")
    return both.select(*ORDER, "block", bps=polars.when(gap.abs() < ROUNDING).then(0.0).otherwise(gap))


def _estimate(values: polars.Series, orders: polars.DataFrame, seed: int, *names: object) -> CaseEstimate:
    """Return the mean over orders with its confidence interval; ``names`` identify its random stream."""
    rng = np.random.default_rng(seed_stream(seed, "desk", *map(str, names)))
    units, unit = resampling_units(orders)
    return CaseEstimate(*bootstrap_difference(values.to_numpy(), units, rng, unit=unit).interval)


def _saving_of(orders: polars.DataFrame, router: str, against: str, *, seed: int) -> CaseEstimate:
    """Return the saving of a router against another on the judged orders, in basis points."""
    gaps = _paired_orders(orders, router, against)
    return _estimate(gaps["bps"], gaps, seed, router, against, "bps").negated


def _headline_saving(
    found: RouterComparison, router: str, paired: PairedDifference, orders: polars.DataFrame
) -> CaseSaving:
    """Return the saving of a router against the benchmark rule; its intervals are from the comparison's resamples."""
    days = orders.filter("judged").select(polars.struct("symbol", "day").n_unique()).item()
    amount = found.routers[router].paired_amount
    each = None if amount is None else CaseEstimate(*amount).negated
    return CaseSaving(
        router,
        found.bar,
        CaseEstimate(paired.difference_bps, paired.low, paired.high).negated,
        amount_per_order=each,
        amount_per_day=each and each.times(found.orders / days),
        detectable_bps=paired.detectable_bps,
        amount_per_1000_orders=each and each.times(1000),
        p_value=paired.p_value,
    )


def order_states(orders: polars.DataFrame, days: Sequence[MarketDay], config: BacktestConfig) -> polars.DataFrame:
    """Return the measures of `CaseStateDifference` at the arrival of every judged order, one row each."""
    plain = orders.filter(polars.col("judged")).unique(ORDER, keep="first", maintain_order=True).sort(ORDER)
    table = plain.select(
        *ORDER,
        "time",
        side="sign",
        zone="zone",
        hour=polars.col("clock").dt.hour().cast(polars.Int64),
        spread=1e4 * (polars.col("ask") - polars.col("bid")) / polars.col("mid"),
        depth="depth",
    )
    parts = []
    for day in days:
        mine = table.filter((polars.col("symbol") == day.symbol) & (polars.col("day") == str(day.date)))
        if mine.height:
            trading = day_to_play(day, config)
            times, signs = mine["time"].to_list(), mine["side"].to_list()
            volatility = [_volatility(trading.books, time) for time in times]
            imbalance = [_imbalance(trading, time, sign) for time, sign in zip(times, signs, strict=True)]
            parts.append(
                mine.with_columns(
                    volatility=polars.Series(volatility, dtype=polars.Float64).fill_nan(None),
                    imbalance=polars.Series(imbalance, dtype=polars.Float64),
                )
            )
    return polars.concat(parts)


def _volatility(books: DayBooks, time: int) -> float:
    """Return the volatility of the mid before ``time``, bps per root second; NaN without mids."""
    mids = books.mids(time - SECOND * np.arange(300, -1, -1))  # the five minutes before
    moves = np.diff(mids) / abs(mids[-1])
    moves = moves[np.isfinite(moves)]
    return 1e4 * math.sqrt(float(moves @ moves) / len(moves)) if len(moves) else math.nan


def _imbalance(day: PlayableDay, time: int, sign: int) -> float:
    """Return the imbalance of the best prices, as the contextual router computes it."""
    now = day.books.as_of(time)
    sides = (now.bid_px, now.bid_sz, now.ask_px, now.ask_sz)
    books = ContextBooks(day.books.venues, *sides, day.takers, day.makers, now.ages, day.fee_limits)
    return MarketFeatures.of(Context("order", SIDES[0] if sign > 0 else SIDES[1], 1, books), 0.0).imbalance


def imbalance_state() -> polars.Expr:
    """Return an expression for the state of the imbalance, as in `CaseRoutingRow`."""
    towards, away = map(polars.lit, _IMBALANCES)
    return polars.when(polars.col("imbalance") > 0).then(away).otherwise(towards)


def _differences_by_state(
    orders: polars.DataFrame, states: polars.DataFrame, router: str, against: str, *, seed: int
) -> tuple[CaseStateDifference, ...]:
    """Return the difference by symbol, side, hour, imbalance, and tercile of spread, volatility and depth."""
    gaps = _paired_orders(orders, router, against).join(states, on=ORDER, how="left", maintain_order="left")
    side = polars.when(polars.col("side") > 0).then(polars.lit("buy")).otherwise(polars.lit("sell"))
    zones = gaps["zone"].unique(maintain_order=True).to_list()
    place = polars.col("zone").replace_strict({zone: zone_label(zone) for zone in zones}, return_dtype=polars.String)
    hour = polars.format("{}:00 to {}:00 {}", "hour", polars.col("hour") + 1, place)
    plain = {"symbol": polars.col("symbol"), "side": side, "hour": hour, "imbalance": imbalance_state()}
    tables = {
        name: gaps.sort(name, maintain_order=True).with_columns(state=state)
        for name, state in plain.items()
        if name == "hour" or gaps[name].n_unique() > 1
    }
    for name in _TERCILE_MEASURES:
        if gaps[name].count():
            tables[name] = with_terciles(gaps.sort(name, maintain_order=True), name)
    found = []
    for measure, table in tables.items():
        for (state,), some in table.group_by("state", maintain_order=True):
            mine = some.sort(ORDER)
            values = mine[measure].to_numpy() if measure in _TERCILE_MEASURES else None
            least, most = (None, None) if values is None else (float(values.min()), float(values.max()))
            difference = _estimate(mine["bps"], mine, seed, router, against, measure, str(state))
            found.append(CaseStateDifference(measure, str(state), least, most, mine.height, difference))
    return tuple(found)


def _estimated_share(orders: polars.DataFrame) -> float:
    """Return the fraction of the judged volume of all routers at estimated prices."""
    judged = orders.filter(polars.col("judged"))
    return float(judged["estimated"].sum()) / float(judged["quantity"].sum())


def _learning_cost(orders: polars.DataFrame, router: str, *, seed: int) -> CaseLearningCost | None:
    """Return the exploration cost of a router on the first day of every symbol and afterwards."""
    spent = 1e4 * polars.col("exploration") / notional()
    mine = orders.filter(polars.col("router") == router).with_columns(spent=spent).filter(spent.is_finite())
    if mine.is_empty():
        return None
    per_order = mine.group_by(*ORDER, "block").agg(polars.col("spent").mean()).sort(ORDER)
    first = polars.col("day") == polars.col("day").min().over("symbol")
    parts = [per_order.filter(first), per_order.filter(~first)]
    found = [
        _estimate(part["spent"], part, seed, router, "learning", when) if part.height else None
        for when, part in zip(("first", "later"), parts, strict=True)
    ]
    return None if found[0] is None else CaseLearningCost(found[0], found[1])


def _hour_costs(
    orders: polars.DataFrame, states: polars.DataFrame, routers: Sequence[str], *, seed: int
) -> tuple[_HourCost, ...]:
    """Return the cost of the judged orders of some routers by hour of arrival."""
    judged = order_costs_bps(orders.filter(polars.col("judged")))
    means = judged.group_by("router", *ORDER, "block").agg(polars.col("cost_bps").mean())
    table = means.join(states.select(*ORDER, "hour"), on=ORDER).sort(ORDER)
    found = []
    for router in routers:
        mine = table.filter(polars.col("router") == router)
        for hour in sorted(mine["hour"].unique()):
            some = mine.filter(polars.col("hour") == hour)
            cost = _estimate(some["cost_bps"], some, seed, router, "hour", hour)
            found.append(_HourCost(router, int(hour), some.height, cost))
    return tuple(found)


def _costs_by_venue(tables: DayTables, routers: Sequence[str], *, seed: int) -> tuple[VenueCosts, ...]:
    """Return the costs of the judged orders of some routers by venue and pool, in the order of the routers."""
    known = polars.col("judged") & polars.col("router").is_in(routers)
    judged = tables.orders.filter(known)
    rows = (frame.join(judged.select(KEY), on=KEY, how="semi") for frame in (tables.children, tables.fills))
    return tuple(sorted(costs_by_venue(judged, *rows, seed=seed), key=lambda one: routers.index(one.router)))


def _learning_curve(orders: polars.DataFrame, router: str, against: str) -> CaseLearningCurve:
    """Return the difference between two routers over all days; the k-th orders of symbols and seeds are averaged."""
    wide = _by_number(orders, router, against)
    gaps, spent = wide["gap"].to_numpy(), wide["spent"].to_numpy()
    explores = bool(np.isfinite(spent).any())
    points, done = [], 0
    for part in _parts(wide["test"].to_numpy()):
        done += len(part)
        so_far = slice(0, int(part[-1]) + 1)
        points.append(
            _LearningPoint(
                orders=done,
                test=bool(wide["test"][int(part[0])]),
                difference_bps=float(gaps[part].mean()),
                so_far_bps=float(gaps[so_far].mean()),
                exploration_bps=_mean(spent[part]) if explores else None,
                exploration_so_far_bps=_mean(spent[so_far]) if explores else None,
            )
        )
    return CaseLearningCurve(router, against, tuple(points))


def _by_number(orders: polars.DataFrame, router: str, against: str) -> polars.DataFrame:
    """Return one row per order number within a symbol: ``gap``, ``spent`` (NaN if unknown) and ``test``."""
    spent = 1e4 * polars.col("exploration") / notional()
    both = orders.filter(polars.col("router").is_in([router, against])).with_columns(spent=spent.fill_nan(None))
    means = (
        order_costs_bps(both)
        .group_by("router", *ORDER, maintain_order=True)
        .agg(polars.col("cost_bps", "spent").mean(), test="judged")
    )
    one, other = (means.filter(polars.col("router") == name).drop("router") for name in (router, against))
    gap = polars.col("cost_bps") - polars.col("cost_bps_other")
    return (
        one.join(other.select(*ORDER, "cost_bps"), on=ORDER, suffix="_other", maintain_order="left")
        .with_columns(
            place=polars.struct("day", "number").rank("ordinal").over("symbol", "seed"),
            gap=polars.when(gap.abs() < ROUNDING).then(0.0).otherwise(gap),
            test=polars.col("test").list.all(),
        )
        .group_by("place", maintain_order=True)
        .agg(polars.col("gap", "spent").mean(), polars.col("test").all())
        .sort("place")
        .with_columns(polars.col("spent").fill_null(math.nan))
    )


def _parts(test: Vector) -> Iterator[Integers]:
    """Yield the rows of each point of a learning curve, about 24 points; no point mixes training and test orders."""
    changes = np.flatnonzero(np.diff(test.astype(np.int64))) + 1
    for stretch in np.split(np.arange(len(test)), changes):
        yield from np.array_split(stretch, min(max(round(24 * len(stretch) / len(test)), 1), len(stretch)))


def _mean(values: Vector) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _routing_rows(tables: DayTables, states: polars.DataFrame, router: str) -> tuple[CaseRoutingRow, ...]:
    """Return where a router sent its orders on the test days, by tercile of the spread and sign of the imbalance."""
    state = with_terciles(states, "spread", _SPREADS).select(*ORDER, spread="state", imbalance=imbalance_state())
    by = ["spread", "imbalance"]
    counts = {(spread, one): count for spread, one, count in state.group_by(by).len().iter_rows()}
    mine = tables.children.filter((polars.col("router") == router) & (polars.col("sent") > 0)).join(state, on=ORDER)
    sums = mine.group_by(*by, "kind", "place").agg(polars.col("sent", "filled").sum())
    whole = sums.with_columns(
        sent_fraction=polars.col("sent") / polars.col("sent").sum().over(by),
        filled_fraction=polars.col("filled") / polars.col("filled").sum().over(by),
    )
    rows = [
        CaseRoutingRow(orders=counts[row["spread"], row["imbalance"]], **row)
        for row in whole.drop("sent", "filled").to_dicts()
    ]
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                *(_SPREADS.index(row.spread), _IMBALANCES.index(row.imbalance)),
                *(KINDS.index(row.kind), -row.sent_fraction, row.place),
            ),
        )
    )


def _stress_savings(
    pair: tuple[Candidate, Candidate],
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    usual: CaseEstimate | None = None,
    backend: Backend | None = None,
    cache: PlayCache | None = None,
    finished: Callable[[PlayTask], None] | None = None,
) -> CaseStressTable:
    """Return the saving of one router against another under every stress; ``usual`` is the saving without stress.

    Market impact is left out if it is unknown for any order.
    """
    router, against = (one.label for one in pair)
    found, judged = [], 0
    for name, world in stresses.stress_configs(config, pools=bool(days[0].pools)).items():
        impact = world.stress.impact
        orders = play_routers(pair, days, world, backend=backend, cache=cache, finished=finished).orders
        if impact and orders["impact"].is_nan().any():
            continue
        pressed = orders.with_columns(cost=polars.col("cost") + impact * polars.col("impact")) if impact else orders
        saving = usual if usual and world == config else _saving_of(pressed, router, against, seed=config.seed)
        costs = (
            order_costs_bps(pressed.filter(polars.col("judged"))).group_by("router").agg(polars.col("cost_bps").mean())
        )
        means = dict(costs.iter_rows())
        judged = judged or int(orders["judged"].sum()) // 2
        found.append(_StressSaving(name, means[router], means[against], saving, _estimated_share(orders)))
    return CaseStressTable(router, against, judged, tuple(found))


def _dark_surface(
    pair: tuple[Candidate, Candidate],
    days: Sequence[MarketDay],
    config: StudyConfig,
    size: float,
    horizon: float,
    *,
    backend: Backend | None = None,
    cache: PlayCache | None = None,
    finished: Callable[[PlayTask], None] | None = None,
) -> CaseDarkSurface:
    """Return the saving over a grid of dark-pool assumptions; learning routers start untrained at each point."""
    router, against = (one.label for one in pair)
    worlds = [StressConfig(presence=presence, adverse=adverse) for presence in _PRESENCE for adverse in _ADVERSE]
    tasks = [play_tasks(pair, days, config.backtest(size, horizon, world)) for world in worlds]
    tables = iter(
        perform_plays([one for some in tasks for one in some], backend=backend, cache=cache, finished=finished)
    )
    points, orders = [], 0
    for world, some in zip(worlds, tasks, strict=True):
        played = DayTables.together([next(tables) for _ in some]).orders
        orders = int(played["judged"].sum()) // 2
        saved = _saving_of(played, router, against, seed=config.seed)
        points.append(_SurfacePoint(world.presence, world.adverse, saved, _estimated_share(played)))
    return CaseDarkSurface(router, against, orders, tuple(points))
