"""What a backtest found: one line per router, and whether it beats the rule that every desk has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars

from riskroute.core.arrays import Integers, Vector
from riskroute.core.seeding import seed_stream
from riskroute.core.text import TextTable, fixed_text
from riskroute.study.candidates import BENCHMARKS, CLAIRVOYANT
from riskroute.study.costs import expected_shortfall
from riskroute.study.statistics import Difference, block_means, bootstrap_difference, superior_pvalue
from riskroute.study.tables import Tables

ORDER = ("symbol", "day", "number")

ROUNDING = 1e-9
"""Costs that differ by less, in basis points, are the same but for rounding."""

MOST_ESTIMATED = 0.1
"""Share of the volume beyond which prices that are estimates allow no verdict."""


def costs_in_bps(orders: polars.DataFrame, impact: float = 0.0) -> polars.DataFrame:
    """Return the orders with ``cost_bps`` and ``unforeseen_bps``, fees included, and ``impact`` times the impact."""
    scale = 1e4 / (polars.col("shares") * polars.col("mid"))
    pressed = polars.col("cost") + (impact * polars.col("impact") if impact else 0.0)
    return orders.with_columns(
        cost_bps=pressed * scale, unforeseen_bps=(polars.col("cost") - polars.col("foreseen")) * scale
    )


def objective_bps(orders: polars.DataFrame, kappa: float, impact: float = 0.0) -> float:
    """Return the mean cost plus ``kappa`` times the variance of what was not foreseen, in basis points.

    What was foreseen is what the plan costs if the displayed books hold and nothing else fills: a router sees the
    books before it sends, so their variation is no risk. The variance is taken among orders of one size.

    Examples
    --------
    >>> rows = {"shares": 100, "mid": 10.0, "cost": [0.1, 0.3], "foreseen": [0.2, 0.2], "impact": 0.0}
    >>> round(objective_bps(polars.DataFrame(rows), 0.05), 9)  # costs of 1 and 3, deviations of -1 and 1
    2.1
    """
    found = costs_in_bps(orders, impact)
    sizes = found.group_by("shares").agg(polars.col("unforeseen_bps").var(), polars.len())
    weights = sizes["len"].to_numpy() / found.height
    variance = float((sizes["unforeseen_bps"].fill_null(0.0).to_numpy() * weights).sum())
    return float(found.select(polars.col("cost_bps").mean()).item()) + kappa * variance


@dataclass(frozen=True)
class Paired:
    """The cost of a router less that of another one, order by order, in basis points; less than 0 is better.

    ``low`` and ``high`` are the ends of the 95 % confidence interval, by time blocks; ``detectable`` is the true
    difference that so many orders would show four times out of five.
    """

    against: str
    difference_bps: float
    low: float | None
    high: float | None
    blocks: int
    detectable_bps: float | None


@dataclass(frozen=True)
class RouterResult:
    """What the orders of one router cost, in basis points of the arrival mid, fees included.

    ``se_bps`` is the standard error of the mean by time blocks, ``seed_se_bps`` that over seeds (None with one);
    ``es95_bps`` is the expected shortfall (5 %); ``objective_bps`` adds the charge for unforeseen variance;
    ``exploration_bps`` is how much more orders cost than with the plans that seemed best; None for routers that always
    send those.
    """

    feedback: str
    cost_bps: float
    se_bps: float | None
    seed_se_bps: float | None
    objective_bps: float
    sd_bps: float
    es95_bps: float
    unforeseen_sd_bps: float
    paired: Paired | None
    fees_bps: float
    dark_share: float
    limit_share: float
    taken_share: float
    estimated_share: float
    decision_us: float
    exploration_bps: float | None


@dataclass(frozen=True)
class Comparison:
    """All routers, the simple rule to beat (``bar``), and whether any router beats it.

    ``p_value`` is that of Hansen's test: how likely the best of so many would look as good as it does if none was
    better than the rule. None if there is nothing to compare.
    """

    orders: int
    bar: str
    p_value: float | None
    routers: dict[str, RouterResult]


def too_much_estimated(found: Comparison, router: str) -> float | None:
    """Return the share of a router's volume or of the simple rule's that is estimated, if it allows no verdict."""
    share = max(found.routers[name].estimated_share for name in (router, found.bar))
    return share if share > MOST_ESTIMATED else None


def choose_bar(orders: polars.DataFrame, names: Sequence[str], *, pools: bool, horizon: float, kappa: float) -> str:
    """Return the simple rule to beat: for urgent orders dark first, else the best on the training days."""
    if horizon == 0:
        return "dark-first+sweep" if pools and "dark-first+sweep" in names else "sweep"
    known = [name for name in BENCHMARKS if name in names]
    training = orders.filter(~polars.col("judged"))
    rows = training if training.height else orders
    return min(known, key=lambda name: objective_bps(rows.filter(polars.col("router") == name), kappa))


def compare_routers(
    tables: Tables, bar: str, feedback: dict[str, str], *, kappa: float, impact: float = 0.0, seed: int = 0
) -> Comparison:
    """Return what the judged orders of all routers cost, against those of one of them."""
    orders = costs_in_bps(tables.orders.filter(polars.col("judged")), impact)
    names = orders["router"].unique(maintain_order=True).to_list()
    per_order = orders.group_by("router", *ORDER, "block", maintain_order=True).agg(polars.col("cost_bps").mean())
    wide = per_order.pivot("router", index=[*ORDER, "block"], values="cost_bps").drop_nulls().sort(ORDER)
    blocks = block_numbers(wide)
    filled = _filled(tables, orders)
    results = {}
    for name in names:
        mine = orders.filter(polars.col("router") == name)
        rng = np.random.default_rng(seed_stream(seed, "bootstrap", name))
        values = wide[name].to_numpy()
        own = bootstrap_difference(values, blocks, rng)
        pair = None if name == bar else bootstrap_difference(_gaps(wide, name, bar), blocks, rng)
        results[name] = _router_result(mine, filled[name], own, pair, bar, feedback.get(name, ""), kappa, impact)
    return Comparison(wide.height, bar, _p_value(wide, blocks, bar, names, seed), results)


def _gaps(wide: polars.DataFrame, name: str, bar: str) -> Vector:
    """Cost of a router less that of another, order by order; 0 where they differ by the rounding of sums alone."""
    gaps = wide[name].to_numpy() - wide[bar].to_numpy()
    return np.where(np.abs(gaps) < ROUNDING, 0.0, gaps)


def block_numbers(orders: polars.DataFrame) -> Integers:
    """Time blocks of orders ``(n,)``, numbered through symbols and days."""
    numbered = orders.select(polars.struct("symbol", "day", "block").rank("dense").cast(polars.Int64))
    return numbered.to_series().to_numpy()


def _filled(tables: Tables, orders: polars.DataFrame) -> dict[str, dict[str, float]]:
    """Shares of a router's fills by kind, and those that were estimated."""
    judged = tables.fills.join(orders.select("router", "seed", *ORDER), on=["router", "seed", *ORDER], how="semi")
    group = {"dark": "dark_share", "dark_rest": "dark_share", "limit": "limit_share"}
    rows = judged.with_columns(share=polars.col("kind").replace_strict(group, default="taken_share"))
    found: dict[str, dict[str, float]] = {}
    for (name,), mine in rows.group_by("router"):
        total = float(mine["shares"].sum())
        parts = {str(kind): float(some["shares"].sum()) / total for (kind,), some in mine.group_by("share")}
        estimated = float(mine.filter(polars.col("estimated"))["shares"].sum()) / total
        found[str(name)] = {share: parts.get(share, 0.0) for share in ("dark_share", "limit_share", "taken_share")}
        found[str(name)]["estimated_share"] = estimated
    return found


def _router_result(
    mine: polars.DataFrame,
    filled: dict[str, float],
    own: Difference,
    pair: Difference | None,
    bar: str,
    feedback: str,
    kappa: float,
    impact: float,
) -> RouterResult:
    costs = mine["cost_bps"].to_numpy()
    unforeseen = mine.select((polars.col("unforeseen_bps") - polars.col("unforeseen_bps").mean().over("shares")).std())
    fees = mine.select((1e4 * polars.col("fees") / (polars.col("shares") * polars.col("mid"))).mean()).item()
    spent = 1e4 * polars.col("exploration") / (polars.col("shares") * polars.col("mid"))
    explored = mine.select(spent.drop_nans().mean()).item()
    seeds = mine.group_by("seed").agg(polars.col("cost_bps").mean())["cost_bps"].to_numpy()
    return RouterResult(
        feedback=feedback,
        cost_bps=own.mean,
        se_bps=_known(own.error),
        seed_se_bps=float(seeds.std(ddof=1)) / math.sqrt(len(seeds)) if len(seeds) > 1 else None,
        objective_bps=objective_bps(mine, kappa, impact),
        sd_bps=float(costs.std(ddof=1)) if len(costs) > 1 else 0.0,
        es95_bps=float(mine.select(expected_shortfall(polars.col("cost_bps"))).item()),
        unforeseen_sd_bps=float(unforeseen.item() or 0.0),
        paired=None if pair is None else _paired(pair, bar),
        fees_bps=float(fees),
        decision_us=float(mine.select(polars.col("decision_us").mean()).item()),
        exploration_bps=None if explored is None else float(explored),
        **filled,
    )


def _paired(pair: Difference, bar: str) -> Paired:
    return Paired(bar, pair.mean, _known(pair.low), _known(pair.high), pair.blocks, _known(pair.detectable))


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _p_value(wide: polars.DataFrame, blocks: Integers, bar: str, names: Sequence[str], seed: int) -> float | None:
    others = [name for name in names if name not in (bar, CLAIRVOYANT)]
    columns = []
    for name in others:
        sums, counts = block_means(_gaps(wide, name, bar), blocks)
        columns.append(sums / counts)
    count = len(np.unique(blocks))
    if not others or count < 8:
        return None
    rng = np.random.default_rng(seed_stream(seed, "superior"))
    length = min(5.0, count / 4)
    return superior_pvalue(np.zeros(count), np.column_stack(columns), rng, length=length)


HEADINGS = (
    *("router", "sees", "cost", "se", "objective", "sd", "ES 5 %", "difference", "95 % interval"),
    *("fees", "dark", "limit", "taken", "estimated", "decision us"),
)


LEGEND = (
    "bps against the consolidated mid at arrival, fees included; objective: cost + kappa x unforeseen variance",
    "estimated: volume beyond the recorded depth, whose price is an estimate",
)
"""What the columns of a comparison mean."""


def comparison_table(found: Comparison) -> TextTable:
    """One row per router, cheapest objective first; costs in basis points, shares of the volume in per cent."""
    ranked = sorted(found.routers.items(), key=lambda item: item[1].objective_bps)
    return TextTable(list(HEADINGS), [_row(name, one) for name, one in ranked])


def _row(name: str, one: RouterResult) -> list[str]:
    pair = one.paired
    bounds = f"{_signed(pair.low)} to {_signed(pair.high)}" if pair and pair.low is not None else "-"
    return [
        name,
        one.feedback,
        fixed_text(one.cost_bps, 3),
        fixed_text(one.se_bps, 3),
        fixed_text(one.objective_bps, 3),
        fixed_text(one.sd_bps),
        fixed_text(one.es95_bps),
        _signed(pair.difference_bps) if pair else "the bar",
        bounds,
        fixed_text(one.fees_bps, 3),
        f"{one.dark_share:.0%}",
        f"{one.limit_share:.0%}",
        f"{one.taken_share:.0%}",
        f"{one.estimated_share:.1%}",
        f"{one.decision_us:.0f}",
    ]


def _signed(value: float | None) -> str:
    return fixed_text(value, 3, signed=True)


def no_verdict_text(share: float, *, synthetic: bool) -> str:
    """Say why there is no verdict: too much of the volume is priced by an estimate."""
    what_to_do = "Use smaller orders." if synthetic else "Import more levels or use smaller orders."
    return f"{share:.0%} of the shares are beyond the recorded depth and priced by an estimate. {what_to_do}"
