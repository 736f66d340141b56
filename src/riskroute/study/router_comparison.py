"""Compare routers on the same orders, and choose one: costs, paired differences, significance, and the reason.

A router is chosen by its objective on the training days; the test days confirm or reject the choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars

from riskroute.core.arrays import Integers, Vector
from riskroute.core.seeding import seed_stream
from riskroute.core.text import TextTable, fixed_text, interval_text, words_list
from riskroute.routers.risk import RiskProfile
from riskroute.study.candidates import BENCHMARKS, CLAIRVOYANT
from riskroute.study.costs import objective_cost, order_costs_bps, volume_fractions
from riskroute.study.day_tables import DayTables, notional
from riskroute.study.statistics import (
    BootstrapDifference,
    PairedDifference,
    block_sums,
    bootstrap_difference,
    expected_shortfall,
    superior_pvalue,
    time_block_numbers,
)

ORDER = ("symbol", "day", "number")

ROUNDING = 1e-9  # basis points; smaller differences are rounding errors
MOST_ESTIMATED = 0.1  # fraction of the volume at estimated prices above which no verdict is given
WORTH = 0.1  # basis points per order below which the possible saving of learning is too small to matter


@dataclass(frozen=True)
class _RouterResult:
    """Cost of the orders of one router, in basis points of the arrival mid, fees included.

    ``se_bps`` is the standard error of the mean cost over time blocks, ``seed_se_bps`` that over seeds (None with one
    seed). ``objective_bps`` is the mean cost plus the charge for unforeseen variance, ``es95_bps`` the mean of the
    worst 5 %. ``exploration_bps`` is the mean excess of the estimated cost over that of the plan with the lowest
    estimate; None for routers that do not explore.
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


def queue_note(venues: Sequence[str], model: str) -> str:
    """Return a sentence about venues whose queue positions are estimates, without a full stop."""
    place = words_list(list(venues))
    return f"queue positions at {place} are estimates (model {model}), since trades there have no order ids"


@dataclass(frozen=True)
class QueueEstimate:
    """The venues whose queue positions are estimates, and what the model may change.

    ``model`` is a `QueueModel` as text; ``pessimistic_bps`` and ``optimistic_bps`` are the costs of the same orders by
    router with the pessimistic and with the optimistic model.
    """

    venues: tuple[str, ...]
    model: str
    pessimistic_bps: dict[str, float]
    optimistic_bps: dict[str, float]

    @property
    def note(self) -> str:
        """A sentence about venues and model."""
        return queue_note(self.venues, self.model)

    def saving_bps(self, router: str, bar: str) -> tuple[float, float]:
        """Return the least and the largest saving of a router against another under the two models."""
        both = [costs[bar] - costs[router] for costs in (self.pessimistic_bps, self.optimistic_bps)]
        return min(both), max(both)


@dataclass(frozen=True)
class RouterComparison:
    """Results of all routers on ``orders`` orders, compared with the benchmark rule ``bar``.

    ``p_value`` is that of Hansen's test that no router beats the rule; None with fewer than eight time blocks.
    ``queues`` is None unless queue positions are estimates.
    """

    orders: int
    bar: str
    p_value: float | None
    routers: dict[str, _RouterResult]
    queues: QueueEstimate | None = None

    @property
    def headroom_bps(self) -> float:
        """Saving of perfect foresight against the benchmark rule, in basis points per order."""
        return self.routers[self.bar].cost_bps - self.routers[CLAIRVOYANT].cost_bps

    @property
    def best(self) -> str:
        """The router with the lowest objective among those significantly better than the rule; if none is, the rule."""
        bar = self.routers[self.bar]
        better = {
            name: one.objective_bps
            for name, one in self.routers.items()
            if name not in (self.bar, CLAIRVOYANT)
            and one.paired is not None
            and one.paired.high is not None
            and one.paired.high < 0
            and one.objective_bps < bar.objective_bps
            and self._saves_in_any_queue(name)
        }
        return min(better, key=lambda name: better[name]) if better and self._significant else self.bar

    @property
    def router_to_use(self) -> str | None:
        """The best router; None if too much of its volume, or of the benchmark rule's, has estimated prices."""
        best = self.best
        return None if self.too_much_estimated(best) else best

    def too_much_estimated(self, router: str) -> float | None:
        """Return the fraction of volume at estimated prices if it is too large for a verdict, else None.

        The fraction is the larger of the router's and the benchmark rule's.
        """
        share = max(self.routers[name].estimated_share for name in (router, self.bar))
        return share if share > MOST_ESTIMATED else None

    def choice_reason(self, chosen: str) -> str:
        """Return the key of `REASONS` that explains the verdict on the chosen router on the test days."""
        if self.too_much_estimated(chosen):
            return "estimated"
        bar = self.routers[self.bar]
        little = self.headroom_bps < WORTH
        if chosen == self.bar:
            return "no headroom" if little else "nothing better"
        one = self.routers[chosen]
        low, high = (one.paired.low, one.paired.high) if one.paired is not None else (None, None)
        clear = high is not None and high < 0
        cheaper = one.objective_bps < bar.objective_bps
        if clear and self._significant and cheaper:
            return "beats" if self._saves_in_any_queue(chosen) else "queues"
        if low is not None and low > 0:
            return "worse"
        if clear and not cheaper:
            return "riskier"
        if little:
            return "no headroom"
        if clear:
            return "chance"
        return "too little" if low is not None and low > -WORTH else "too few orders"

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
        if self.queues is None:
            return LEGEND
        return (*LEGEND, f"pessimistic, optimistic: cost with these queue models; {self.queues.note}")

    def _saves_in_any_queue(self, router: str) -> bool:
        """Return whether the pessimistic and the optimistic queue model agree that a router saves."""
        return self.queues is None or self.queues.saving_bps(router, self.bar)[0] > 0

    @property
    def _significant(self) -> bool:
        return self.p_value is None or self.p_value < 0.05


def choose_benchmark(
    orders: polars.DataFrame, names: Sequence[str], *, pools: bool, horizon: float, risk: RiskProfile
) -> str:
    """Return the benchmark rule for a deadline of ``horizon`` seconds.

    At horizon 0 it is the standard rule: ``dark-first+sweep``, or ``sweep`` without pools. Otherwise it is the one of
    `BENCHMARKS` with the lowest objective on the training days.
    """
    if horizon == 0:
        return "dark-first+sweep" if pools and "dark-first+sweep" in names else "sweep"
    known = [name for name in BENCHMARKS if name in names]
    training = orders.filter(~polars.col("judged"))
    rows = training if training.height else orders
    return min(known, key=lambda name: objective_cost(rows.filter(polars.col("router") == name), risk.kappa))


def compare_routers(
    tables: DayTables,
    bar: str,
    feedback: dict[str, str],
    *,
    risk: RiskProfile,
    impact: float = 0.0,
    seed: int = 0,
    queues: QueueEstimate | None = None,
) -> RouterComparison:
    """Compare the costs of all routers with those of the benchmark rule ``bar``, on orders that count (``judged``)."""
    orders = order_costs_bps(tables.orders.filter(polars.col("judged")), impact)
    names = orders["router"].unique(maintain_order=True).to_list()
    per_order = orders.group_by("router", *ORDER, "block", maintain_order=True).agg(polars.col("cost_bps").mean())
    wide = per_order.pivot("router", index=[*ORDER, "block"], values="cost_bps").drop_nulls().sort(ORDER)
    blocks = time_block_numbers(wide)
    filled = _filled(tables, orders)
    results = {}
    for name in names:
        mine = orders.filter(polars.col("router") == name)
        rng = np.random.default_rng(seed_stream(seed, "bootstrap", name))
        values = wide[name].to_numpy()
        own = bootstrap_difference(values, blocks, rng)
        pair = None if name == bar else bootstrap_difference(_gaps(wide, name, bar), blocks, rng)
        results[name] = _router_result(mine, filled[name], own, pair, bar, feedback.get(name, ""), risk.kappa, impact)
    return RouterComparison(wide.height, bar, _p_value(wide, blocks, bar, names, seed), results, queues)


def mean_costs(orders: polars.DataFrame, size: float, *, impact: float = 0.0) -> dict[str, float]:
    """Return the mean cost of the judged orders of one size by router, in basis points."""
    judged = orders.filter(polars.col("judged") & (polars.col("quantity") == size))
    costs = order_costs_bps(judged, impact).group_by("router", maintain_order=True).agg(polars.col("cost_bps").mean())
    return dict(costs.iter_rows())


def _gaps(wide: polars.DataFrame, name: str, bar: str) -> Vector:
    """Return the cost of a router minus that of another, order by order; rounding errors become 0."""
    gaps = wide[name].to_numpy() - wide[bar].to_numpy()
    return np.where(np.abs(gaps) < ROUNDING, 0.0, gaps)


def _filled(tables: DayTables, orders: polars.DataFrame) -> dict[str, dict[str, float]]:
    """Return, for each router, the fractions of the volume by kind of fill and the fraction at estimated prices."""
    judged = tables.fills.join(orders.select("router", "seed", *ORDER), on=["router", "seed", *ORDER], how="semi")
    quantity = polars.col("quantity")
    estimated = quantity.filter(polars.col("estimated")).sum() / quantity.sum()
    rows = judged.group_by("router").agg(**volume_fractions(), estimated_share=estimated).to_dicts()
    return {row.pop("router"): row for row in rows}


def _router_result(
    mine: polars.DataFrame,
    filled: dict[str, float],
    own: BootstrapDifference,
    pair: BootstrapDifference | None,
    bar: str,
    feedback: str,
    kappa: float,
    impact: float,
) -> _RouterResult:
    costs = mine["cost_bps"].to_numpy()
    unforeseen = mine.select(
        (polars.col("unforeseen_bps") - polars.col("unforeseen_bps").mean().over("quantity")).std()
    )
    fees = mine.select((1e4 * polars.col("fees") / notional()).mean()).item()
    spent = 1e4 * polars.col("exploration") / notional()
    explored = mine.select(spent.drop_nans().mean()).item()
    seeds = mine.group_by("seed").agg(polars.col("cost_bps").mean())["cost_bps"].to_numpy()
    return _RouterResult(
        feedback=feedback,
        cost_bps=own.mean,
        se_bps=own.error if math.isfinite(own.error) else None,
        seed_se_bps=float(seeds.std(ddof=1)) / math.sqrt(len(seeds)) if len(seeds) > 1 else None,
        objective_bps=objective_cost(mine, kappa, impact),
        sd_bps=float(costs.std(ddof=1)) if len(costs) > 1 else 0.0,
        es95_bps=float(mine.select(expected_shortfall(polars.col("cost_bps"))).item()),
        unforeseen_sd_bps=float(unforeseen.item() or 0.0),
        paired=None if pair is None else pair.paired(bar),
        fees_bps=float(fees),
        decision_us=float(mine.select(polars.col("decision_us").mean()).item()),
        exploration_bps=None if explored is None else float(explored),
        **filled,
    )


def _p_value(wide: polars.DataFrame, blocks: Integers, bar: str, names: Sequence[str], seed: int) -> float | None:
    others = [name for name in names if name not in (bar, CLAIRVOYANT)]
    columns = []
    for name in others:
        sums, counts = block_sums(_gaps(wide, name, bar), blocks)
        columns.append(sums / counts)
    count = len(np.unique(blocks))
    if not others or count < 8:
        return None
    rng = np.random.default_rng(seed_stream(seed, "superior"))
    length = min(5.0, count / 4)
    return superior_pvalue(np.zeros(count), np.column_stack(columns), rng, length=length)


# why to use the chosen router ("beats") or the benchmark rule; "estimated": why there is no verdict
REASONS = {
    "beats": "it beats the benchmark rule on the test days",
    "nothing better": "no router had a lower objective on the training days",
    "no headroom": f"even perfect foresight would save less than {WORTH} bps",
    "worse": "the chosen router cost more on the test days",
    "riskier": "the chosen router saves on average, but not after the charge for risk",
    "chance": "the best of this many routers may look as good by chance",
    "too little": f"the saving of the chosen router is below {WORTH} bps even at the upper end of its interval",
    "too few orders": "there are too few orders to tell",
    "queues": "the chosen router does not save with both the pessimistic and the optimistic queue model",
    "estimated": f"more than {MOST_ESTIMATED:.0%} of the volume is beyond the recorded depth and priced by an estimate",
}


NO_VERDICT = ("estimated",)  # reasons without a verdict


# meaning of the columns of `RouterComparison.table` without estimated queue positions
LEGEND = (
    "bps against the consolidated mid at arrival, fees included; objective: cost + kappa x unforeseen variance",
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
