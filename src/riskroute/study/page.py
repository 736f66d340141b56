"""The page of a study: one HTML file without scripts that works offline, on a phone and on paper."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from riskroute.core.files import writable_folder, write_whole
from riskroute.core.records import to_plain
from riskroute.core.runtime import require_extra
from riskroute.core.text import (
    TextTable,
    fixed_text,
    in_markdown,
    interval_text,
    money_text,
    natural_text,
    p_text,
    rounds_to_zero,
    words_list,
)
from riskroute.core.validation import instance_of
from riskroute.market.clock import zone_label
from riskroute.routers.risk import RiskProfile
from riskroute.simulation.dark_market import DarkMarketPool
from riskroute.study.backtest import (
    VenueColumns,
    flag_text,
    percent_text,
    range_text,
    venue_costs_table,
)
from riskroute.study.candidates import CLAIRVOYANT
from riskroute.study.case import CaseLearningCurve, CaseStressTable, StudyCase
from riskroute.study.config import SplitStudyConfig, StudyConfig, changed_config
from riskroute.study.costs import benchmark_costs_table, benchmark_notes
from riskroute.study.day_tables import PRICE_BENCHMARKS
from riskroute.study.examples import OrderExample
from riskroute.study.frontier import CaseFrontier, frontier_table
from riskroute.study.result import StudyResult, profiles_table, routing_fractions_table, savings_table, states_table
from riskroute.study.router_comparison import LEGEND, REASONS, ROUNDING, RouterComparison
from riskroute.study.svg import (
    KIND_NAMES,
    ChartCurve,
    ChartDot,
    ChartPoint,
    curve_chart,
    dot_chart,
    frontier_chart,
    grid_chart,
    svg_book_chart,
)
from riskroute.study.verdict import case_details, case_opening

PAGE = "study.html"

_LIMITATIONS = (
    "No market impact: the books are as recorded, without our orders. Nobody fades, follows or front-runs our orders, "
    "and they never meet each other.",
    "The hidden size in dark pools and their adverse selection are assumptions: no pool publishes them.",
    "Limit orders join the back of the queue at the best price and are not repriced. Where a feed does not identify "
    "orders, the queue position is an estimate.",
    "Confidence intervals cover the variation within the days played. Another month may differ by more.",
    "The router was chosen on the training days by the objective of the risk profile. Another profile may lead to "
    "another choice.",
    "Perfect foresight is an upper bound, not a target: it knows future prices and which orders will fill.",
    "Quantities beyond the recorded levels are priced by an estimate; the tables give their share of the volume.",
)


@dataclass(frozen=True)
class PageSection:
    """A heading with texts, charts as ``(title, SVG)``, tables as ``(caption, table)``, notes and bullet points."""

    title: str
    texts: tuple[str, ...] = ()
    charts: tuple[tuple[str, str], ...] = ()
    tables: tuple[tuple[str, TextTable], ...] = ()
    notes: tuple[str, ...] = ()
    points: tuple[str, ...] = ()


@dataclass(frozen=True)
class PagePart:
    """One answer: headline, explanation, facts, details and supporting sections."""

    title: str
    headline: str
    sections: tuple[PageSection, ...]
    answer: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    points: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """Content of a page; ``command`` or ``program`` reproduces the study."""

    title: str
    subtitle: str
    parts: tuple[PagePart, ...]
    sections: tuple[PageSection, ...]
    config: StudyConfig | SplitStudyConfig
    command: str = ""
    summary: tuple[str, TextTable] | None = None  # one row per part, where there are several

    @property
    def program(self) -> str:
        """A Python program that runs the study; it states only settings that differ from the defaults."""
        name = type(self.config).__name__.removesuffix("Config")
        return f'import riskroute as rr\n\nrr.{name}({changed_config(self.config)}).run(out="out/study")'

    @property
    def settings(self) -> str:
        """All settings as JSON."""
        return json.dumps(to_plain(self.config), indent=1)

    def write(self, path: Path) -> Path:
        """Write the page as HTML."""
        require_extra("figures and pages", "report", "jinja2")
        import jinja2
        from markupsafe import Markup

        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
        )
        # tables and charts escape their own texts
        text = environment.get_template("study.html.jinja").render(
            page=self, html_table=lambda table: Markup(table.html()), svg=Markup
        )
        return write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))

    def markdown(self) -> str:
        """Return the page as Markdown, without its charts."""
        lines = [f"# {in_markdown(self.title)}", in_markdown(self.subtitle)]
        for part in self.parts:
            lines += [f"## {in_markdown(part.title)}", f"**{in_markdown(part.headline)}**", in_markdown(part.answer)]
            lines += ["\n".join(f"- {in_markdown(point)}" for point in part.points)]
            for section in part.sections:
                lines += _markdown(section, "###")
        for section in self.sections:
            lines += _markdown(section, "##")
        return "\n\n".join([*filter(None, lines), "## Settings", f"```json\n{self.settings}\n```"]) + "\n"


def _markdown(section: PageSection, level: str) -> list[str]:
    return [
        f"{level} {in_markdown(section.title)}",
        *map(in_markdown, section.texts),
        *(table.markdown() for _, table in section.tables),
        *map(in_markdown, section.notes),
        *(["\n".join(f"- {in_markdown(point)}" for point in section.points)] if section.points else []),
    ]


def write_study_page(result: StudyResult, out: str | os.PathLike[str], *, command: str = "") -> Path:
    """Write the page of a study to ``study.html``: one file without scripts, for screen, phone and paper.

    Parameters
    ----------
    result : StudyResult
        From `riskroute.Study.run` or `StudyResult.from_json`.
    out : str or path-like
        The folder to write to; an earlier page there is replaced.
    command : str
        The command that ran the study, shown on the page.

    Returns
    -------
    Path
        The file written.
    """
    instance_of("result", result, StudyResult, "a StudyResult")
    instance_of("command", command, str, "a text")
    return _study_page(result, command=command).write(writable_folder("out", out) / PAGE)


def _study_page(result: StudyResult, *, command: str = "") -> Page:
    """Return the page of a study."""
    symbols = ", ".join(dict.fromkeys(day.rpartition(" ")[0] for day in result.days))
    dates = [day.rpartition(" ")[2] for day in result.days]
    sides = {"buy": "buy orders", "sell": "sell orders"}.get(result.config.side, "buy and sell orders in turn")
    when = dates[0] if min(dates) == max(dates) else f"{min(dates)} to {max(dates)}"
    several = any(case.symbol for case in result.cases)
    made = " Synthetic days: generated, not recorded." if result.synthetic else ""
    return Page(
        title=f"Which router to use for {symbols}{' (synthetic)' if result.synthetic else ''}",
        subtitle=f"Market {result.conditions}, {when}: {sides}.{made}",
        summary=("All answers", savings_table(result.cases)) if len(result.cases) > 1 else None,
        # every case in full would make the page of a large study heavy
        parts=tuple(
            _part(case, result, pooled=several and not case.symbol, brief=k >= 12)
            for k, case in enumerate(result.cases)
        ),
        sections=_about(result),
        config=result.config,
        command=command,
    )


def _part(case: StudyCase, result: StudyResult, *, pooled: bool, brief: bool) -> PagePart:
    time = f"{case.horizon:g} seconds" if case.horizon else "immediate"
    text = case_opening(case, result.config, pooled=pooled, synthetic=result.synthetic)
    headline, stop, answer = text.partition(". ")
    name = case.symbol or ("All symbols" if pooled else "")
    title = f"{name}, {case.size}, {time}" if name else f"{case.size}, {time}"
    if brief:
        shown = dataclasses.replace(case, hours=(), venues=(), learning_curve=None, examples=(), surface=None)
    else:
        shown = case
    return PagePart(
        title,
        headline + stop.strip(),
        tuple(_sections(shown, result.config.risk)),
        answer,
        _verdict_facts(case, result.config.risk),
        tuple(case_details(case, result.config, pooled=pooled)),
    )


def _verdict_facts(case: StudyCase, risk: RiskProfile) -> tuple[tuple[str, str], ...]:
    """Return the key figures of an answer by name, in the order a trader asks."""
    found, saving = case.comparison, case.saving
    facts = [("router to use", case.use if case.verdict else "not enough data to tell")]
    facts.append(("risk profile", risk.name))
    if saving is not None:
        if case.chosen != case.use:
            facts.append(("best on the training days", case.chosen))
        facts += [
            ("compared with", saving.against),
            ("saving per order", f"{fixed_text(saving.bps.mean, 3, signed=True)} bps"),
            (
                "95 % CI",
                interval_text(saving.bps.low, saving.bps.high) + (" bps" if saving.bps.low is not None else ""),
            ),
        ]
        each, many, currency = saving.amount_per_order, saving.amount_per_1000_orders, case.currency
        if each is not None:
            facts.append((f"saving per order, {currency}", money_text(each.mean, currency)))
        if many is not None:
            ends = (
                "" if many.low is None else f" ({money_text(many.low, currency)} to {money_text(many.high, currency)})"
            )
            facts.append(("saving per 1,000 orders", f"{money_text(many.mean, currency)}{ends}"))
        if saving.p_value is not None:
            facts.append(("p-value", p_text(saving.p_value)))
        facts += _charged_fact(found, case.chosen)
    names = dict.fromkeys((case.chosen, found.bar))
    facts.append(("price benchmark", PRICE_BENCHMARKS[found.benchmark]))
    facts += [(f"cost, {name}", f"{fixed_text(found.routers[name].cost_bps)} bps") for name in names]
    facts += [(f"expected shortfall 5 %, {name}", f"{fixed_text(found.routers[name].es95_bps)} bps") for name in names]
    facts.append(("saving of perfect foresight", f"{fixed_text(case.headroom_bps, 3)} bps"))
    facts.append(("volume at estimated prices", f"{case.estimated_share:.1%}"))
    if found.queues is not None:
        facts.append(("queue positions", f"estimates at {', '.join(found.queues.venues)} ({found.queues.model})"))
        if saving is not None:
            band = interval_text(*found.queues.saving_bps(saving.router, saving.against))
            facts.append(("saving, pessimistic and optimistic queue", f"{band} bps"))
    facts.append(("orders judged", f"{found.orders:,} on {found.sample}"))
    if not found.resting:
        facts.append(("limit orders", "could not be played on this data"))
    return tuple(facts)


def _charged_fact(found: RouterComparison, router: str) -> list[tuple[str, str]]:
    """Return the saving with the charge for risk, by which routers are judged; empty if the charge changes nothing."""
    cost, pair = found.routers[router].paired, found.routers[router].paired_objective
    if cost is None or pair is None or pair.low is None or pair.high is None or pair.p_value is None:
        return []
    if abs(pair.difference_bps - cost.difference_bps) < ROUNDING:
        return []
    saving = f"{fixed_text(0.0 - pair.difference_bps, 3, signed=True)} bps"
    interval = f"95 % CI {interval_text(0.0 - pair.high, 0.0 - pair.low)}; p-value {p_text(pair.p_value)}"
    return [("saving with the charge for risk", f"{saving} ({interval})")]


def _sections(case: StudyCase, risk: RiskProfile) -> list[PageSection]:
    found, rule = case.comparison, case.comparison.bar
    use = f"Use {case.use}" if case.verdict else "Not enough data to tell"
    sections = [
        PageSection(
            "Cost by router",
            (f"{rule} is the benchmark rule. {use}: {REASONS[case.reason]}.",),
            _cost_charts(case),
            (
                ("All routers on the test days, basis points", found.table()),
                (
                    "Cost against every price benchmark, and spreads, basis points",
                    benchmark_costs_table(case.benchmarks),
                ),
            ),
            (
                f"Costs are against the {PRICE_BENCHMARKS[found.benchmark]}, including fees, on the test days. The "
                "objective adds the charge for unforeseen variance. ES 5 % is the mean of the worst 5 % of orders; sd "
                "and se are the standard deviation of an order's cost and the standard error of the mean. Information "
                "used: F0 books only, F1 the profit of its orders, F2 its own fills, F3 public trades too, F4 the "
                "future.",
                *(f"{line[0].upper()}{line[1:]}." for line in found.legend[len(LEGEND) :]),
                *(f"{line[0].upper()}{line[1:]}." for line in benchmark_notes(case.benchmarks)),
            ),
        )
    ]
    if case.frontier is not None:
        sections.append(_frontier_section(case, case.frontier, risk))
    if case.hours:
        sections.append(PageSection("Cost by hour of the day", charts=(_hour_chart(case),)))
    if case.states:
        caption = f"{case.chosen} minus {rule}, by state of the market"
        note = "Terciles of orders. Below zero the router saves, significantly if the interval excludes zero."
        sections.append(
            PageSection(
                "Where it saves and where it loses", tables=((caption, states_table(case.states)),), notes=(note,)
            )
        )
    if case.venues:
        names = dict.fromkeys(one.router for one in case.venues)
        counted = " or ".join(dict.fromkeys(one.quantity for one in case.instruments))
        tables = tuple(
            (f"{name} by venue, quantities in {counted}", venue_costs_table(case.venues, name, _VENUES))
            for name in names
        )
        note = (
            "Markouts are basis points from the fill to the mid 1, 10 and 60 seconds later; positive is good. Adverse "
            "selection is the move of the mid against passive fills: limit orders and dark pools. Toxicity is adverse "
            "selection after one second over half the quoted spread; a venue is toxic if the whole interval of its "
            "adverse selection exceeds its saving. The net saving against taking deducts ten seconds of adverse "
            "selection. Intervals need fills in at least thirty time blocks."
        )
        sections.append(PageSection("Venues and dark pools", tables=tables, notes=(note,)))
    if case.learning_curve is not None:
        note = (
            "Training days come first. The latest orders are those since the previous point. Exploration cost is the "
            "cost of an order minus its cost under the plan with the lowest estimated cost."
        )
        sections.append(PageSection("Learning curve", charts=_learning_charts(case.learning_curve), notes=(note,)))
    sections += [_example(example, case) for example in case.examples]
    if case.surface is not None:
        surface = case.surface
        text = (
            f"Dark pools are assumptions. The grid shows the saving over {surface.orders:,} orders for other amounts "
            "of liquidity in pools and other adverse selection. At most "
            f"{surface.estimated_share:.1%} of the volume is at estimated prices."
        )
        if surface.orders < found.orders:
            text += " The answer is based on more orders, from which its routers learned."
        title = f"Saving of {surface.router} against {surface.against}"
        cells = {(f"x {one.presence:g}", f"x {one.adverse:g}"): one.saving_bps for one in surface.points}
        unit = "saving, bps, with 95 % confidence intervals"
        chart = grid_chart(title, unit, "liquidity", "adverse selection", cells)
        sections.append(PageSection("Sensitivity to dark-pool assumptions", (text,), ((title, chart),)))
    if case.stresses is not None:
        text = (
            f"Both routers play the same {case.stresses.orders:,} test orders under harder conditions. They start "
            "untrained under each condition."
        )
        rows = ("The same orders under stress, basis points", _stress_rows(case.stresses))
        sections.append(PageSection("Stress tests", (text,), (_stress_chart(case.stresses),), (rows,)))
    if case.routing_table:
        note = (
            "Fractions of the quantity sent; quantity that is returned and sent again counts again. Narrow, middle and "
            "wide are terciles of the spread. With us: more at the best prices on the opposite side than on "
            "ours, so that the price tends to move in our favour."
        )
        plain = routing_fractions_table(case.routing_table)
        named = TextTable(plain.header, [[one[0], KIND_NAMES.get(one[1], one[1]), *one[2:]] for one in plain.rows])
        sections.append(
            PageSection("Routing table", tables=((f"Where {case.use} sends orders", named),), notes=(note,))
        )
    return sections


def _frontier_section(case: StudyCase, frontier: CaseFrontier, risk: RiskProfile) -> PageSection:
    """Return the chart of cost against tail, its table, and the answers by risk profile."""
    joined, others = list(frontier.line), [one for one in frontier.points if not one.risk]
    # routers that cost much more would squeeze the others into a corner
    named = (case.comparison.bar, case.use)
    costs = [one.cost_bps for one in frontier.points if one.risk or one.efficient or one.router in named]
    beyond = [one for one in others if one.cost_bps > 2 * max(costs) - min(costs)]
    others = [one for one in others if one not in beyond]
    own = case.use, risk.name
    points = [
        ChartPoint(
            *(one.name, one.es95_bps, one.cost_bps),
            role="line" if one.risk and (one.router, one.risk) != own else _role(one.router, case),
            joined=bool(one.risk),
        )
        for one in (*others, *joined)
    ]
    title = "Expected cost against expected shortfall"
    chart = frontier_chart(title, "expected shortfall 5 %, bps", "expected cost, bps", points)
    text = "A risk profile trades mean cost against risk: the lower left is best."
    if joined:
        text += f" The line joins {joined[0].router} under several profiles."
    if beyond:
        text += f" Beyond the chart: {words_list([f'{one.name} ({fixed_text(one.cost_bps)} bps)' for one in beyond])}."
    return PageSection(
        "Risk frontier",
        (text,),
        ((title, chart),),
        (("On the test days, basis points", frontier_table(frontier)), ("Answers", profiles_table(case, risk))),
        ("Efficient: no other router is at least as cheap with an expected shortfall at least as small.",),
    )


def _about(result: StudyResult) -> tuple[PageSection, ...]:
    sections = [PageSection("Limitations", points=_LIMITATIONS)]
    if result.pools:
        sections.append(
            PageSection(
                "Dark pools", tables=(("Assumed parameters; fees per quantity of 1", _pools_table(result.pools)),)
            )
        )
    instruments = dict.fromkeys(one for case in result.cases for one in case.instruments)
    sections.append(PageSection("Instruments", points=tuple(one.describe() for one in instruments)))
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    sections.append(PageSection("Reproduction", (f"Days played: {', '.join(result.days)}.", f"Versions: {versions}.")))
    return tuple(sections)


def _role(router: str, case: StudyCase) -> str:
    if router == case.comparison.bar:
        return "rule"
    return {case.chosen: "chosen", CLAIRVOYANT: "bound"}.get(router, "other")


def _cost_charts(case: StudyCase) -> tuple[tuple[str, str], ...]:
    """Draw the cost by router, cheapest first, and the paired differences to the benchmark rule."""
    ranked = sorted(case.comparison.routers.items(), key=lambda item: item[1].cost_bps)
    title = "Cost per order, with one standard error"
    costs = [ChartDot(name, one.cost_bps, error=one.se_bps, role=_role(name, case)) for name, one in ranked]
    charts = [(title, dot_chart(title, f"against the {PRICE_BENCHMARKS[case.comparison.benchmark]}, bps", costs))]
    pairs = [(name, one.paired) for name, one in ranked if one.paired is not None]
    if pairs:
        title = f"Difference to {case.comparison.bar}, with 95 % confidence intervals"
        dots = [ChartDot(name, one.difference_bps, one.low, one.high, role=_role(name, case)) for name, one in pairs]
        charts.append((title, dot_chart(title, "difference, bps (left of zero saves)", dots)))
    return tuple(charts)


def _hour_chart(case: StudyCase) -> tuple[str, str]:
    curves = []
    for name in dict.fromkeys(one.router for one in case.hours):
        some = [one for one in case.hours if one.router == name]
        costs = [one.cost_bps for one in some]
        ends = [one.low for one in costs], [one.high for one in costs]
        hours = [float(one.hour) for one in some]
        curves.append(ChartCurve(name, hours, [one.mean for one in costs], *ends, role=_role(name, case)))
    title = "Cost by hour, with 95 % confidence intervals"
    axis = f"hour beginning, {zone_label(case.zone)} time"
    return title, curve_chart(title, axis, "cost, bps", curves, clock=True)


def _learning_charts(curve: CaseLearningCurve) -> tuple[tuple[str, str], ...]:
    """Draw the difference between the two routers over time, and the exploration cost."""
    trained = [point.orders for point in curve.points if not point.test]
    edge = (float(trained[-1]), "test days") if trained else None

    def chart(title: str, unit: str, values: Sequence[tuple[int, float | None, float | None]]) -> tuple[str, str]:
        known = [(float(n), mean, latest) for n, mean, latest in values if mean is not None and latest is not None]
        orders, means, latest = zip(*known, strict=True)
        all_orders = ChartCurve("all orders so far", orders, means, role="chosen")
        curves = all_orders, ChartCurve("latest orders", orders, latest)
        return title, curve_chart(title, "orders of a symbol so far", unit, curves, edge=edge)

    points = curve.points
    difference = [(one.orders, one.so_far_bps, one.difference_bps) for one in points]
    unit = "cost difference, bps per order (below zero saves)"
    charts = [chart(f"{curve.router} minus {curve.against}", unit, difference)]
    if any(one.exploration_bps is not None and one.exploration_so_far_bps is not None for one in points):
        spent = [(one.orders, one.exploration_so_far_bps, one.exploration_bps) for one in points]
        charts.append(chart("Exploration cost", "exploration cost, bps per order", spent))
    return tuple(charts)


def _stress_chart(table: CaseStressTable) -> tuple[str, str]:
    title = f"Saving of {table.router} against {table.against}, with 95 % confidence intervals"
    roles = ("chosen", *["other"] * (len(table.worlds) - 1))
    dots = [
        ChartDot(one.world, one.saving_bps.mean, one.saving_bps.low, one.saving_bps.high, role=role)
        for one, role in zip(table.worlds, roles, strict=True)
    ]
    return title, dot_chart(title, "saving, bps (right of zero saves)", dots)


def _example(example: OrderExample, case: StudyCase) -> PageSection:
    text = (
        f"{example.day} at {example.time} {zone_label(example.zone)}: {example.side} {example.size}, "
        f"mid {example.instrument.price_text(example.mid)}, spread {fixed_text(example.spread_bps)} bps. Cost: "
        f"{fixed_text(example.cost_bps)} bps"
    )
    if example.against_bps is not None and example.saving_bps is not None and case.learning_curve is not None:
        text += f", with {case.learning_curve.against} {fixed_text(example.against_bps)} bps"
        if not rounds_to_zero(example.saving_bps):
            kind = "saving" if example.saving_bps > 0 else "loss"
            text += f": a {kind} of {fixed_text(abs(example.saving_bps))} bps"
    notes = (
        "Bars are quantities displayed at each price, dots the fills of the order. The examples are the test orders "
        "with the median, the largest and the smallest saving, and one that was only swept.",
    )
    title = f"{example.why}: {example.side} {example.size}"
    return PageSection(
        f"Example: {example.why}",
        (f"{text}.",),
        ((title, svg_book_chart(title, example)),),
        ((f"Child orders of {case.chosen}, quantities in {example.instrument.quantity}", _children_table(example)),),
        notes if example is case.examples[0] else (),
    )


def _children_table(example: OrderExample) -> TextTable:
    rows = [
        [
            *(KIND_NAMES[one.kind], one.place, natural_text(one.sent), natural_text(one.filled)),
            "-" if one.price is None else example.instrument.price_text(one.price),
            *(f"{one.sent_after:.3f}", fixed_text(one.last_fill_after, 3)),
        ]
        for one in example.children
    ]
    return TextTable(["child order", "place", "sent", "filled", "price", "sent\nafter s", "last fill\nafter s"], rows)


def _stress_rows(table: CaseStressTable) -> TextTable:
    """Return one row per stress: the cost of both routers, and the saving."""
    rows = [
        [
            *(one.world, fixed_text(one.cost_bps, 3), fixed_text(one.against_bps, 3)),
            *(fixed_text(one.saving_bps.mean, 3, signed=True), interval_text(one.saving_bps.low, one.saving_bps.high)),
            f"{one.estimated_share:.1%}",
        ]
        for one in table.worlds
    ]
    header = ["condition", f"{table.router} bps", f"{table.against} bps", "saving bps", "95 % CI", "estimated"]
    return TextTable(header, rows)


def _pools_table(pools: Sequence[DarkMarketPool]) -> TextTable:
    header = ["pool", "liquidity present", "arrivals per s", "smallest", "largest", "adverse selection"]
    rows = [
        [
            *(one.name, f"{one.presence:.0%}", f"{one.rate:g}", natural_text(one.smallest), natural_text(one.largest)),
            *(f"{one.adverse:g}", f"{one.fee:g}", f"{one.improvement:g}"),
        ]
        for one in pools
    ]
    return TextTable([*header, "fee", "price improvement"], rows)


# heading, field of `VenueCosts`, formatter
_VENUES: VenueColumns = (
    ("place", "place", str),
    ("child orders", "kind", KIND_NAMES.__getitem__),
    ("sent", "sent", natural_text),
    ("filled", "filled", natural_text),
    ("fill\nrate %", "fill_rate", percent_text),
    ("volume\n%", "volume_share", percent_text),
    ("fees\nbps", "fees_bps", fixed_text),
    ("markout\n1 s", "markout_1_bps", fixed_text),
    ("markout\n10 s", "markout_10_bps", fixed_text),
    ("markout\n60 s", "markout_60_bps", fixed_text),
    ("adverse\n1 s", "adverse_1_bps", fixed_text),
    ("95 % CI", "adverse_1_interval", range_text),
    ("toxicity", "toxicity", fixed_text),
    ("net\nsaving", "net_saving_bps", fixed_text),
    ("toxic", "toxic", flag_text),
)
