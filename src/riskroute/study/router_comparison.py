"""Compare routers on the same orders, and choose one: costs, paired differences, significance, and the reason.

A router is chosen by its objective on the training days; the test days confirm or reject the choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars

from riskroute.core.arrays import Vector
from riskroute.core.errors import InputError
from riskroute.core.seeding import seed_stream
from riskroute.core.text import TextTable, fixed_text, interval_text, words_list
from riskroute.routers.risk import RiskProfile
from riskroute.study.candidates import BENCHMARKS, CLAIRVOYANT
from riskroute.study.costs import objective_cost, order_costs_bps, order_objectives, volume_fractions
from riskroute.study.day_tables import PRICE_BENCHMARKS, DayTables, notional
from riskroute.study.statistics import (
    LEAST_DAYS,
    LEAST_INDEPENDENT,
    BootstrapDifference,
    PairedDifference,
    Resamples,
    Sample,
    expected_shortfall,
    plain_quantile,
    resampling_units,
)

ORDER = ("symbol", "day", "seed", "number")  # identifies an order of the desk, whichever router plays it

ROUNDING = 1e-9  # basis points; smaller differences are rounding errors
MOST_ESTIMATED = 0.1  # fraction of the volume at estimated prices above which no verdict is given
WORTH = 0.1  # basis points per order below which the possible saving of learning is too small to matter


@dataclass(frozen=True)
class _RouterResult:
    """Cost of the orders of one router, in basis points of the arrival mid, fees included.

    ``se_bps`` and ``seed_se_bps`` are standard errors of the mean cost, over days or time blocks and over seeds (None
    with one of them). ``objective_bps`` is the mean cost plus the charge for unforeseen variance, ``es95_bps`` the mean
    of the worst 5 %. ``paired``, ``paired_objective`` and ``paired_tail`` are differences from the benchmark rule in
    cost, objective and expected shortfall, ``paired_amount`` is the difference in the cost of an order in the quote
    currency, with the ends of its interval (None if orders have several currencies). All are from the same resamples,
    and None for the rule itself; the last two have intervals of their own, never joint ones. ``admitted`` is false if
    the risk profile caps the tail and the whole interval of ``paired_tail`` is above zero. ``known_quantity`` is the
    largest order size with at most a tenth of the volume at estimated prices; None if the orders meet this limit
    already. ``exploration_bps`` is the mean cost of the plans sent minus the mean cost of the greedy plans on the same
    books; None for routers that do not explore.
    """

    feedback: str
    cost_bps: float
    se_bps: float | None
    seed_se_bps: float | None
    objective_bps: float
    sd_bps: float
    es95_bps: float
    unforeseen_sd_bps: float
    paired: PairedDifference | None
    fees_bps: float
    dark_share: float
    limit_share: float
    taken_share: float
    estimated_share: float
    decision_us: float
    exploration_bps: float | None
    paired_objective: PairedDifference | None
    paired_tail: PairedDifference | None
    admitted: bool
    paired_amount: tuple[float, float | None, float | None] | None
    known_quantity: float | None


def queue_note(venues: Sequence[str], model: str) -> str:
    """Return a sentence about venues whose queue positions are estimates, without a full stop."""
    place = words_list(list(venues))
    return f"queue positions at {place} are estimates (model {model}), since trades there have no order ids"


@dataclass(frozen=True)
class QueueEstimate:
    """The venues whose queue positions are estimates, and the costs with the two queue models that bound the true one.

    ``model`` is a `QueueModel` as text; ``pessimistic_bps`` and ``optimistic_bps`` are the costs of the same orders by
    router with the pessimistic and with the optimistic model.
    """

    venues: tuple[str, ...]
    model: str
    pessimistic_bps: dict[str, float]
    optimistic_bps: dict[str, float]

    @property
    def note(self) -> str:
        """`queue_note` of the venues and the model."""
        return queue_note(self.venues, self.model)

    def saving_bps(self, router: str, bar: str) -> tuple[float, float]:
        """Return the smaller and the larger saving of a router against another with these two models."""
        both = [costs[bar] - costs[router] for costs in (self.pessimistic_bps, self.optimistic_bps)]
        return min(both), max(both)


@dataclass(frozen=True)
class RouterComparison:
    """Results of all routers on ``orders`` orders of one size, compared with the benchmark rule ``bar``.

    - ``sample``: the days or time blocks that were resampled for the intervals.
    - ``days``: number of days of the orders; half a day counts as 0.5.
    - ``joint``: whether the intervals hold for all routers at once, so that the best of them may be named. Otherwise
      each holds on its own, for a router that was chosen on other days.
    - ``queues``: None unless queue positions are estimates.
    - ``resting``: false if the orders have a horizon but limit orders could not be played.
    - ``benchmark``: the price against which costs are stated.
    """

    orders: int
    bar: str
    sample: Sample
    days: float
    joint: bool
    routers: dict[str, _RouterResult]
    queues: QueueEstimate | None = None
    resting: bool = True
    benchmark: str = "arrival"

    @property
    def headroom_bps(self) -> float:
        """Saving of perfect foresight against the benchmark rule, in basis points per order."""
        return self.routers[self.bar].cost_bps - self.routers[CLAIRVOYANT].cost_bps

    @property
    def best(self) -> str:
        """The router with the lowest objective among those significantly better than the rule; if none is, the rule."""
        better = [name for name in self.routers if name != CLAIRVOYANT and self._beats(name)]
        return min(better, key=lambda name: self.routers[name].objective_bps, default=self.bar)

    @property
    def router_to_use(self) -> str | None:
        """The best router; None if the data do not allow a verdict."""
        best = self.best
        return best if self.sample.enough and not self.too_much_estimated(best) else None

    def known_quantity(self, router: str) -> float | None:
        """Return the smaller ``known_quantity`` of the router and the rule; None if both have none."""
        sizes = [self.routers[name].known_quantity for name in (router, self.bar)]
        return min((one for one in sizes if one is not None), default=None)

    def too_much_estimated(self, router: str) -> float | None:
        """Return the fraction of volume at estimated prices if it is too large for a verdict, else None.

        The fraction is the larger of the router's and the benchmark rule's.
        """
        share = max(self.routers[name].estimated_share for name in (router, self.bar))
        return share if share > MOST_ESTIMATED else None

    def further_days(self, router: str) -> int:
        """Return after how many further days of this kind a verdict on a router is likely.

        There are then enough days or time blocks and, if the router's present saving in the objective is the true one,
        it is significant with 80 % power.
        """
        missing = self.sample.further_days(self.days)
        pair = self.routers[router].paired_objective
        if pair is None or pair.detectable_bps is None or pair.difference_bps >= -ROUNDING:
            return missing
        times: float = (pair.detectable_bps / pair.difference_bps) ** 2
        return max(missing, math.ceil(self.days * (times - 1) - 1e-9))

    def further_orders(self, router: str) -> int:
        """Return the number of orders on the `further_days`."""
        return round(self.further_days(router) * self.orders / self.days)

    def choice_reason(self, chosen: str) -> str:
        """Return the key of `REASONS` that explains the verdict on the chosen router on the test days."""
        if self.too_much_estimated(chosen):
            return "estimated"
        if not self.sample.enough:
            return "too few days"
        little = self.headroom_bps < WORTH
        if chosen == self.bar:
            return "no headroom" if little else "nothing better"
        if self._beats(chosen):
            return "beats"
        cost, objective = self.routers[chosen].paired, self.routers[chosen].paired_objective
        if cost is None or objective is None or objective.low is None or objective.high is None:
            return "too few orders"
        if objective.high < 0:
            return "queues" if self.routers[chosen].admitted else "tail"
        if objective.low > 0:
            return "worse" if cost.difference_bps > 0 else "riskier"
        if little:
            return "no headroom"
        return "too little" if objective.low > -WORTH else "too few orders"

    def table(self) -> TextTable:
        """Return a table with one row per router, lowest objective first; costs are in basis points."""
        header = [
            *("router", "sees", "cost", "se", "objective", "sd", "ES 5 %", "difference", "95 % CI"),
            *("fees", "dark", "limit", "taken", "estimated", "decision us"),
        ]
        ranked = sorted(self.routers.items(), key=lambda item: item[1].objective_bps)
        rows = [_row(name, one) for name, one in ranked]
        if self.queues is not None:
            header += ["pessimistic", "optimistic"]
            for row, (name, _) in zip(rows, ranked, strict=True):
                both = (self.queues.pessimistic_bps[name], self.queues.optimistic_bps[name])
                row += [fixed_text(cost, 3) for cost in both]
        return TextTable(header, rows)

    @property
    def legend(self) -> tuple[str, ...]:
        """Meaning of the columns of `table`."""
        stated = f"bps against the {PRICE_BENCHMARKS[self.benchmark]}, fees included; {LEGEND[0]}", *LEGEND[1:]
        kind = "joint for all routers" if self.joint else "for each router on its own"
        lines = (*stated, f"difference: against {self.bar}, paired by order; 95 % CI over {self.sample}, {kind}")
        if self.queues is None:
            return lines
        return (*lines, f"pessimistic, optimistic: cost with these queue models; {self.queues.note}")

    def _beats(self, router: str) -> bool:
        """Return whether a router is admitted, has a significantly lower objective, and saves with any queue model."""
        pair = self.routers[router].paired_objective
        better = pair is not None and pair.high is not None and pair.high < 0
        return better and self.routers[router].admitted and self._saves_in_any_queue(router)

    def _saves_in_any_queue(self, router: str) -> bool:
        """Return whether the pessimistic and the optimistic queue model agree that a router saves."""
        return self.queues is None or self.queues.saving_bps(router, self.bar)[0] > 0


def choose_benchmark(
    orders: polars.DataFrame, names: Sequence[str], *, pools: bool, horizon: float, risk: RiskProfile
) -> str:
    """Return the benchmark rule for a deadline of ``horizon`` seconds.

    At horizon 0 it is the standard rule: ``dark-first+sweep``, or ``sweep`` without pools. Otherwise it is the rule of
    `BENCHMARKS` with the lowest objective on the training days, or on all orders if there are no training days.
    """
    if horizon == 0:
        return "dark-first+sweep" if pools and "dark-first+sweep" in names else "sweep"
    known = [name for name in BENCHMARKS if name in names]
    training = orders.filter(~polars.col("judged"))
    rows = training if training.height else orders
    return min(known, key=lambda name: objective_cost(rows.filter(polars.col("router") == name), risk.kappa))


def training_objectives(training: polars.DataFrame, kappa: float) -> dict[str, float]:
    """Return the objective of every router but the clairvoyant on the training orders, in basis points.

    Learning routers are scored as they go, and pay for exploration.
    """
    names = training["router"].unique(maintain_order=True).to_list()
    return {
        name: objective_cost(training.filter(polars.col("router") == name), kappa)
        for name in names
        if name != CLAIRVOYANT
    }


def training_excess(training: polars.DataFrame, bar: str) -> dict[str, float]:
    """Return the expected shortfall of every router on the training orders minus the rule's, in basis points."""
    tails = order_costs_bps(training).group_by("router").agg(expected_shortfall(polars.col("cost_bps")))
    found = dict(tails.iter_rows())
    return {name: tail - found[bar] for name, tail in found.items()}


def compare_routers(
    tables: DayTables,
    bar: str,
    feedback: dict[str, str],
    *,
    risk: RiskProfile,
    impact: float = 0.0,
    seed: int = 0,
    queues: QueueEstimate | None = None,
    joint: bool = True,
    resting: bool = True,
    benchmark: str = "arrival",
) -> RouterComparison:
    """Compare the costs of all routers with the costs of the benchmark rule ``bar``, on the judged orders."""
    judged = polars.col("judged")
    if tables.orders.filter(judged)["quantity"].n_unique() > 1:
        raise InputError("tables must hold orders of one size, since costs of several sizes are not comparable")
    level = plain_quantile(polars.col("cost_bps"), 95)
    orders = polars.concat(
        order_objectives(mine, risk.kappa, impact).with_columns(
            # Rockafellar and Uryasev: the mean of this column is the expected shortfall (5 %)
            tail_bps=level + (polars.col("cost_bps") - level).clip(0.0) / 0.05,
            amount=polars.col("cost_bps") * notional() / 1e4,
        )
        for mine in tables.orders.filter(judged).partition_by("router", maintain_order=True)
    )
    names = orders["router"].unique(maintain_order=True).to_list()
    others = [name for name in names if name != bar]
    measures = ["cost_bps", "objective_bps", "tail_bps", "amount"]
    wide = orders.pivot("router", index=[*ORDER, "block"], values=measures, separator="|").drop_nulls().sort(ORDER)
    costs, objectives, tails, amounts = (
        {name: wide[f"{measure}|{name}"].to_numpy() for name in names} for measure in measures
    )
    gaps = [{name: _gap(one[name], one[bar]) for name in others} for one in (costs, objectives)]
    units, unit = resampling_units(wide)
    compared = [some[name] for some in gaps for name in others if name != CLAIRVOYANT] or [costs[bar]]
    rng = np.random.default_rng(seed_stream(seed, "bootstrap"))
    resamples = Resamples(units, unit, np.column_stack(compared), rng)
    paired, paired_objective = (
        {name: one.paired(bar) for name, one in _differences(resamples, some, joint=joint).items()} for some in gaps
    )
    paired_tail = {name: resamples.difference(_gap(tails[name], tails[bar])).paired(bar) for name in others}
    filled, one_currency = _filled(tables, orders), orders["currency"].n_unique() == 1
    results = {}
    for name in names:
        mine, own = orders.filter(polars.col("router") == name), resamples.difference(costs[name])
        pairs = paired.get(name), paired_objective.get(name), paired_tail.get(name)
        amount = None
        if name != bar and one_currency:
            gap = amounts[name] - amounts[bar]
            amount = resamples.difference(np.where(_gap(costs[name], costs[bar]) == 0, 0.0, gap)).interval
        results[name] = _router_result(mine, filled[name], own, *pairs, amount, feedback.get(name, ""), risk, impact)
    days = wide["day"].unique()
    there = tables.orders.filter(polars.col("day").is_in(days.implode()))
    part = float(there.select(judged.mean()).item())
    return RouterComparison(
        wide.height, bar, resamples.sample, len(days) * part, joint, results, queues, resting, benchmark
    )


def _differences(resamples: Resamples, gaps: dict[str, Vector], *, joint: bool) -> dict[str, BootstrapDifference]:
    """Return the mean of each series with its interval; joint intervals leave out the clairvoyant, a bound only."""
    found = {name: resamples.difference(gap) for name, gap in gaps.items() if not joint or name == CLAIRVOYANT}
    family = [name for name in gaps if name not in found]
    return found | dict(zip(family, resamples.differences([gaps[name] for name in family]), strict=True))


def mean_costs(orders: polars.DataFrame, size: float, *, impact: float = 0.0) -> dict[str, float]:
    """Return the mean cost of the judged orders of one size by router, in basis points."""
    judged = orders.filter(polars.col("judged") & (polars.col("quantity") == size))
    costs = order_costs_bps(judged, impact).group_by("router", maintain_order=True).agg(polars.col("cost_bps").mean())
    return dict(costs.iter_rows())


def _gap(costs: Vector, others: Vector) -> Vector:
    """Return ``costs - others``, order by order; rounding errors become 0."""
    gaps = costs - others
    return np.where(np.abs(gaps) < ROUNDING, 0.0, gaps)


def _filled(tables: DayTables, orders: polars.DataFrame) -> dict[str, dict[str, float]]:
    """Return, for each router, the fractions of the volume by kind of fill and the fraction at estimated prices."""
    judged = tables.fills.join(orders.select("router", *ORDER), on=["router", *ORDER], how="semi")
    quantity = polars.col("quantity")
    estimated = quantity.filter(polars.col("estimated")).sum() / quantity.sum()
    rows = judged.group_by("router").agg(**volume_fractions(), estimated_share=estimated).to_dicts()
    return {row.pop("router"): row for row in rows}


def _known_quantity(orders: polars.DataFrame) -> float | None:
    """Return the largest order size at which at most `MOST_ESTIMATED` of the volume would be at estimated prices.

    With ``d`` shares at recorded prices, an order of ``q`` shares has ``max(q - d, 0)`` at estimated ones. The sum over
    ``n`` orders is the maximum over ``k`` of ``k q`` minus the ``k`` smallest ``d``. The size is rounded down to two
    digits, below 10 to one; None if the orders meet the limit already.

    Examples
    --------
    >>> _known_quantity(polars.DataFrame({"quantity": 5000, "estimated": [3000, 3000, 1000, 0]}))
    2500.0
    """
    quantity, estimated = (orders[name].to_numpy() for name in ("quantity", "estimated"))
    least = MOST_ESTIMATED * len(orders)
    if estimated.sum() <= MOST_ESTIMATED * quantity.sum():
        return None
    recorded = np.sort((quantity - estimated)[estimated > 0])
    counts = np.arange(1, len(recorded) + 1)
    size = float((np.cumsum(recorded)[counts > least] / (counts[counts > least] - least)).min())
    if size <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(size)) - (size >= 10))
    return math.floor(size / step + 1e-9) * step


def _router_result(
    mine: polars.DataFrame,
    filled: dict[str, float],
    own: BootstrapDifference,
    paired: PairedDifference | None,
    paired_objective: PairedDifference | None,
    paired_tail: PairedDifference | None,
    paired_amount: tuple[float, float | None, float | None] | None,
    feedback: str,
    risk: RiskProfile,
    impact: float,
) -> _RouterResult:
    costs = mine["cost_bps"].to_numpy()
    unforeseen = mine.select(
        (polars.col("unforeseen_bps") - polars.col("unforeseen_bps").mean().over("quantity")).std()
    )
    fees = mine.select((1e4 * polars.col("fees") / notional()).mean()).item()
    spent = 1e4 * polars.col("exploration") / notional()
    explored = mine.select(spent.drop_nans().mean()).item()
    seeds = mine.group_by("seed", maintain_order=True).agg(polars.col("cost_bps").mean())["cost_bps"].to_numpy()
    return _RouterResult(
        feedback=feedback,
        cost_bps=own.mean,
        se_bps=own.error if math.isfinite(own.error) else None,
        seed_se_bps=float(seeds.std(ddof=1)) / math.sqrt(len(seeds)) if len(seeds) > 1 else None,
        objective_bps=objective_cost(mine, risk.kappa, impact),
        sd_bps=float(costs.std(ddof=1)) if len(costs) > 1 else 0.0,
        es95_bps=float(mine.select(expected_shortfall(polars.col("cost_bps"))).item()),
        unforeseen_sd_bps=float(unforeseen.item() or 0.0),
        paired=paired,
        paired_objective=paired_objective,
        paired_tail=paired_tail,
        admitted=paired_tail is None or paired_tail.low is None or risk.admits(paired_tail.low),
        fees_bps=float(fees),
        decision_us=float(mine.select(polars.col("decision_us").mean()).item()),
        exploration_bps=None if explored is None else float(explored),
        paired_amount=paired_amount,
        known_quantity=_known_quantity(mine),
        **filled,
    )


# why to use the chosen router ("beats") or the benchmark rule
REASONS = {
    "beats": "it beats the benchmark rule on the test days",
    "nothing better": "no router had a lower objective on the training days",
    "no headroom": f"even perfect foresight would save less than {WORTH} bps",
    "worse": "the chosen router cost more on the test days",
    "riskier": "the chosen router saves on average, but not after the charge for risk",
    "too little": f"the saving of the chosen router is below {WORTH} bps even at the upper end of its interval",
    "too few orders": "there are too few orders to tell",
    "too few days": f"a verdict needs {LEAST_DAYS} days or {LEAST_INDEPENDENT} independent time blocks",
    "tail": "the expected shortfall of the chosen router exceeds the benchmark rule's",
    "queues": "the chosen router does not save with both the pessimistic and the optimistic queue model",
    "estimated": f"more than {MOST_ESTIMATED:.0%} of the volume is beyond the recorded depth and priced by an estimate",
}


NO_VERDICT = ("estimated", "too few days")  # reasons without a verdict


# meaning of the columns of `RouterComparison.table` without estimated queue positions
LEGEND = (
    "objective: cost + kappa x unforeseen variance",
    "estimated: volume beyond the recorded depth, at estimated prices",
)


def _row(name: str, one: _RouterResult) -> list[str]:
    pair = one.paired
    return [
        *(name, one.feedback, fixed_text(one.cost_bps, 3), fixed_text(one.se_bps, 3), fixed_text(one.objective_bps, 3)),
        *(fixed_text(one.sd_bps), fixed_text(one.es95_bps)),
        fixed_text(pair.difference_bps, 3, signed=True) if pair else "benchmark",
        interval_text(pair.low, pair.high) if pair else "-",
        fixed_text(one.fees_bps, 3),
        *(f"{share:.0%}" for share in (one.dark_share, one.limit_share, one.taken_share)),
        *(f"{one.estimated_share:.1%}", f"{one.decision_us:.0f}"),
    ]
