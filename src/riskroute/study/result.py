"""The result of a study, as tables, text and files."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars

from riskroute.core.files import writable_folder, write_json, write_whole
from riskroute.core.instrument import NO_PROTECTION
from riskroute.core.records import from_plain, to_plain
from riskroute.core.text import TextTable, fixed_text, interval_text, money_text, p_text
from riskroute.market.clock import zone_label
from riskroute.routers.report import KINDS
from riskroute.routers.risk import PROFILES, RiskProfile
from riskroute.simulation.dark_market import DarkMarketPool
from riskroute.study.candidates import CLAIRVOYANT
from riskroute.study.case import CaseDarkSurface, CaseEstimate, CaseRoutingRow, CaseStateDifference, StudyCase
from riskroute.study.config import StudyConfig
from riskroute.study.costs import benchmark_costs_table, benchmark_notes
from riskroute.study.frontier import ProfileChoice, frontier_table
from riskroute.study.router_comparison import NO_VERDICT, REASONS
from riskroute.study.statistics import PairedDifference
from riskroute.study.verdict import case_verdict


@dataclass(frozen=True)
class StudyResult:
    """The answers for all symbols, order sizes and deadlines.

    - ``config``: the configuration.
    - ``days``: symbols and days played.
    - ``pools``: assumed dark pools.
    - ``cases``: one per symbol, size and deadline; with several symbols, one more per size and deadline pools them.
    - ``versions``: versions of the software that the numbers depend on.
    - ``synthetic``: whether the days were generated, not recorded.
    - ``protection``: ``reg-nms`` if venues protect each other's quotes, else ``none``.
    """

    config: StudyConfig
    days: tuple[str, ...]
    pools: tuple[DarkMarketPool, ...]
    cases: tuple[StudyCase, ...]
    versions: dict[str, str] = field(default_factory=dict)
    synthetic: bool = False
    protection: str = NO_PROTECTION

    @property
    def answer(self) -> str:
        """The answer in words, one paragraph per case."""
        pooled = any(case.symbol for case in self.cases)
        return "\n\n".join(
            case_verdict(case, self.config, pooled=pooled and not case.symbol, synthetic=self.synthetic)
            for case in self.cases
        )

    @property
    def conditions(self) -> str:
        """The market, its hours if configured, its protection and the risk profile, on one line."""
        name = f"{self.config.market} (synthetic)" if self.synthetic else self.config.market
        hours = f", {self.config.hours} {zone_label(self.zone)}" if self.config.hours else ""
        return f"{name}{hours}, protection {self.protection}, risk profile {self.config.risk.name}"

    @property
    def zone(self) -> str:
        """Time zone of the days; empty if there are several."""
        zones = {case.zone for case in self.cases}
        return zones.pop() if len(zones) == 1 else ""

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain values; they hold every number that is printed."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_json(cls, content: Any) -> StudyResult:
        """Rebuild the result from the plain values of `to_json`."""
        return from_plain(cls, content)

    @property
    def routing_table(self) -> polars.DataFrame:
        """Fractions of the quantity by place and kind of child order, per case and state of the book."""
        rows = []
        for case in self.cases:
            key = {"symbol": case.symbol, "quantity": case.quantity, "horizon": case.horizon, "router": case.use}
            rows += [{**key, **to_plain(row)} for row in case.routing_table]
        return polars.DataFrame(rows)

    def write(self, out: str | Path) -> list[Path]:
        """Write the result as JSON and text, and the routing table as CSV and Parquet; return the files."""
        folder, table = writable_folder("out", out), self.routing_table
        return [
            write_json(folder / "study.json", self.to_json()),
            write_whole(folder / "study.txt", lambda beside: beside.write_text(f"{self}\n")),
            write_whole(folder / "routing.csv", table.write_csv),
            write_whole(folder / "routing.parquet", table.write_parquet),
        ]

    def __str__(self) -> str:
        first = self.cases[0]
        if first.training_days:
            days = f"training days {first.training_days}, test days {first.test_days}"
        else:
            days = f"test days: {first.test_days}, the second half of each; the first half is for training"
        lines = [f"{self.conditions}: {days}", "", savings_table(self.cases).plain()]
        for case in self.cases:
            time = f"{case.horizon:g} s" if case.horizon else "immediate"
            name = f"{case.symbol}, " if case.symbol else ""
            lines += ["", f"{name}{case.size}, {time}: all routers on the test days, bps", ""]
            lines += [case.comparison.table().plain()]
            if case.frontier is not None:
                lines += ["", "risk frontier on the test days, bps; efficient: no router is cheaper with a better tail"]
                lines += ["", frontier_table(case.frontier).plain()]
                lines += ["", "answers by risk profile", "", profiles_table(case, self.config.risk).plain()]
            if case.benchmarks:
                lines += ["", "the same costs against every price benchmark, and spreads, bps", ""]
                lines += [benchmark_costs_table(case.benchmarks).plain()]
            if case.states:
                lines += ["", f"{case.chosen} minus {case.comparison.bar}, by state of the market", ""]
                lines += [states_table(case.states).plain()]
            if (surface := case.surface) is not None:
                what = f"saving of {surface.router} against {surface.against}, bps, by dark-pool assumption"
                each = f"{surface.orders:,} orders each; estimated: at most {surface.estimated_share:.1%}"
                lines += ["", f"{what} ({each})", "", surface_table(surface).plain()]
            where = (
                f"where {case.use} sends orders, by spread and imbalance of the book, as fractions of the quantity sent"
            )
            lines += ["", where, "", routing_fractions_table(case.routing_table).plain()]
        legends = [(*case.comparison.legend, *benchmark_notes(case.benchmarks)) for case in self.cases]
        legend = dict.fromkeys(itertools.chain.from_iterable(legends))
        return "\n".join([*lines, "", *legend, "", self.answer])


def savings_table(cases: Sequence[StudyCase]) -> TextTable:
    """Return one row per case: what to use, and the saving of the router chosen on the training days."""
    header = [
        *(
            "symbol",
            "quantity",
            "seconds",
            "use",
            "chosen",
            "against",
            "saving bps",
            "95 % CI",
            "p",
            "saving per order",
        ),
        *("per 1,000 orders", "ES 5 %", "rule's ES 5 %", "headroom bps", "estimated"),
    ]
    rows = []
    for case in cases:
        found, saving = case.comparison, case.saving
        amounts = (saving.amount_per_order, saving.amount_per_1000_orders) if saving else (None, None)
        rows.append(
            [
                *(case.symbol or "all", case.size, f"{case.horizon:g}"),
                *(case.use if case.verdict else "not enough data", case.chosen, found.bar),
                *(("-", "-") if saving is None else _estimate(saving.bps)),
                "-" if saving is None or saving.p_value is None else p_text(saving.p_value),
                *(money_text(one.mean if one else None, case.currency) for one in amounts),
                *(fixed_text(found.routers[name].es95_bps) for name in (case.chosen, found.bar)),
                fixed_text(case.headroom_bps, 3),
                f"{case.estimated_share:.1%}",
            ]
        )
    return TextTable(header, rows)


def leading_table(case: StudyCase, count: int = 5) -> TextTable:
    """Return one row for each of the ``count`` routers with the lowest objectives, including the rule and the choice.

    The clairvoyant is omitted. Differences are against the benchmark rule.
    """
    found = case.comparison
    named = {case.use, case.chosen, found.bar}
    ranked = sorted((one.objective_bps, name) for name, one in found.routers.items() if name != CLAIRVOYANT)
    kept = [*named, *(name for _, name in ranked if name not in named)][:count]
    rows = []
    for name in (name for _, name in ranked if name in kept):
        one = found.routers[name]
        pair = ("benchmark", "-") if one.paired is None else _paired(one.paired)
        rows.append(
            [name, fixed_text(one.cost_bps, 3), *pair, fixed_text(one.es95_bps), fixed_text(one.objective_bps, 3)]
        )
    return TextTable(["router", "cost bps", "difference", "95 % CI", "ES 5 %", "objective"], rows)


def _paired(one: PairedDifference) -> tuple[str, str]:
    return fixed_text(one.difference_bps, 3, signed=True), interval_text(one.low, one.high)


def profiles_table(case: StudyCase, risk: RiskProfile) -> TextTable:
    """Return one row per risk profile, the study's (``risk``) first: the router to use, and why."""
    others = case.frontier.choices if case.frontier is not None else ()
    rows = [
        [
            one.risk,
            one.use if one.reason not in NO_VERDICT else "not enough data",
            REASONS[one.reason],
            PROFILES.get(one.risk, risk).describe(),
        ]
        for one in (ProfileChoice(risk.name, case.chosen, case.use, case.reason), *others)
    ]
    return TextTable(["risk profile", "use", "because", "minimises"], rows)


def states_table(states: Sequence[CaseStateDifference]) -> TextTable:
    """Return one row per state of the market: the difference to the benchmark rule, and whether it is significant."""
    rows = []
    for one in states:
        clear = one.difference_bps.above_zero, one.difference_bps.below_zero
        verdict = {(True, False): "loses", (False, True): "saves"}.get(clear, "")
        limits = "-" if one.least is None or one.most is None else f"{_short(one.least)} to {_short(one.most)}"
        rows.append([f"{one.measure}, {one.state}", limits, f"{one.orders:,}", *_estimate(one.difference_bps), verdict])
    return TextTable(["state", "range", "orders", "difference bps", "95 % CI", ""], rows)


def surface_table(surface: CaseDarkSurface) -> TextTable:
    """Return one row per presence, one column per adverse selection: the saving in basis points with its interval."""
    adverse = list(dict.fromkeys(point.adverse for point in surface.points))
    presence = list(dict.fromkeys(point.presence for point in surface.points))
    found = {(point.presence, point.adverse): _estimate(point.saving_bps) for point in surface.points}
    header = ["liquidity in pools", *(f"adverse selection x {one:g}" for one in adverse)]
    cells = {key: f"{mean} ({interval})" for key, (mean, interval) in found.items()}
    return TextTable(header, [[f"x {one:g}", *(cells[one, other] for other in adverse)] for one in presence])


def routing_fractions_table(rows: Sequence[CaseRoutingRow]) -> TextTable:
    """Return one row per place and kind of child order, one column per state: the fraction of the quantity sent."""
    states = {(row.spread, row.imbalance): row.orders for row in rows}
    places = sorted({(KINDS.index(row.kind), row.place) for row in rows})
    found = {(row.kind, row.place, row.spread, row.imbalance): row.sent_fraction for row in rows}
    header = ["place", "kind", *(f"{spread}, {side}" for spread, side in states)]
    table = [["orders", "", *(f"{orders:,}" for orders in states.values())]]
    for kind, place in places:
        cells = [found.get((KINDS[kind], place, *state)) for state in states]
        table.append([place, KINDS[kind], *("-" if one is None else f"{one:.1%}" for one in cells)])
    return TextTable(header, table)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _estimate(one: CaseEstimate) -> tuple[str, str]:
    return fixed_text(one.mean, 3, signed=True), interval_text(one.low, one.high)
