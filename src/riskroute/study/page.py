"""Charts of the page of a study: records of what they show, with no number that the result does not hold."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from riskroute.core.files import writable_folder, write_whole
from riskroute.core.records import to_plain
from riskroute.core.runtime import require_report_extra
from riskroute.core.text import TextTable, dollars_text, fixed_text, rounds_to_zero
from riskroute.core.validation import instance_of
from riskroute.market.clock import zone_label
from riskroute.routers.report import KINDS
from riskroute.simulation.dark_market import PoolModel
from riskroute.study.candidates import CLAIRVOYANT
from riskroute.study.choice import REASONS
from riskroute.study.comparison import comparison_table
from riskroute.study.config import StudyConfig
from riskroute.study.costs import VenueCosts
from riskroute.study.records import (
    DarkSurface,
    HourCost,
    LearningCurve,
    OrderExample,
    RoutingRow,
    StressTable,
    StudyCase,
)
from riskroute.study.result import StudyResult, interval_text, p_text, routing_text, savings_table, states_table
from riskroute.study.svg import (
    TRADE_KINDS,
    BookBar,
    BookChart,
    BookTrade,
    Chart,
    Curve,
    CurveChart,
    Dot,
    DotChart,
    GridCell,
    GridChart,
    PageContent,
    PagePart,
    PageSection,
    PageTable,
    drawn_chart,
)
from riskroute.study.verdict import case_paragraph

KIND_NAMES = dict(zip(KINDS, TRADE_KINDS, strict=True))
"""Kinds of child orders as a reader knows them."""


def role_of(router: str, case: StudyCase) -> str:
    """What a router is to the reader; see `riskroute.study.svg.ROLES`."""
    if router == case.comparison.bar:
        return "rule"
    return {case.chosen: "chosen", CLAIRVOYANT: "bound"}.get(router, "other")


def cost_charts(case: StudyCase) -> tuple[DotChart, ...]:
    """Cost of an order by router, cheapest first, and the differences to the simple rule, order by order."""
    ranked = sorted(case.comparison.routers.items(), key=lambda item: item[1].cost_bps)
    costs = tuple(Dot(name, one.cost_bps, error=one.se_bps, role=role_of(name, case)) for name, one in ranked)
    differences = tuple(
        Dot(name, one.paired.difference_bps, one.paired.low, one.paired.high, role=role_of(name, case))
        for name, one in ranked
        if one.paired is not None
    )
    charts = [DotChart("What an order cost, with one standard error", "cost, bps of the arrival mid", costs)]
    if differences:
        title = f"Difference to {case.comparison.bar}, with 95 % intervals"
        charts.append(DotChart(title, "difference, bps (left of zero saves)", differences))
    return tuple(charts)


def hour_chart(case: StudyCase) -> CurveChart:
    """Cost by hour of the day, of the chosen router and of what it is compared with."""
    curves = []
    for name in dict.fromkeys(one.router for one in case.hours):
        some: list[HourCost] = [one for one in case.hours if one.router == name]
        curves.append(
            Curve(
                name,
                tuple(float(one.hour) for one in some),
                tuple(one.cost_bps.mean for one in some),
                tuple(one.cost_bps.low for one in some),
                tuple(one.cost_bps.high for one in some),
                role_of(name, case),
            )
        )
    title = "Cost by hour, with 95 % intervals"
    return CurveChart(title, f"hour beginning, {zone_label(case.zone)} time", "cost, bps", tuple(curves), clock=True)


def learning_charts(curve: LearningCurve) -> tuple[CurveChart, ...]:
    """The difference to the simple rule from the first order to the last, and what was paid for trying things out."""
    along = tuple(float(point.orders) for point in curve.points)
    parts = tuple(point.difference_bps for point in curve.points)
    so_far = tuple(point.so_far_bps for point in curve.points)
    trained = [point.orders for point in curve.points if not point.test]
    edge = {"edge": float(trained[-1]), "edge_name": "test days"} if trained else {"edge": None, "edge_name": ""}
    title, orders = f"{curve.router} less {curve.against}", "orders of a symbol so far"
    curves = (Curve("all orders so far", along, so_far, role="chosen"), Curve("the latest orders", along, parts))
    charts = [CurveChart(title, orders, "difference, bps an order (below zero saves)", curves, **edge)]
    spent = [(point.exploration_so_far_bps, point.exploration_bps) for point in curve.points]
    known = [(at, float(mean), float(one)) for at, (mean, one) in zip(along, spent, strict=True)
             if mean is not None and one is not None]  # fmt: skip
    if known:
        where, means, latest = zip(*known, strict=True)
        lines = (Curve("all orders so far", where, means, role="chosen"), Curve("the latest orders", where, latest))
        charts.append(
            CurveChart("What trying things out cost", orders, "cost of exploration, bps an order", lines, **edge)
        )
    return tuple(charts)


def example_chart(example: OrderExample) -> BookChart:
    """The books that an order met, and what it traded at each price."""
    return BookChart(
        f"{example.why}: {example.side} {example.shares:,} {example.symbol}",
        tuple(BookBar(one.venue, one.side, one.price, one.shares) for one in example.levels),
        tuple(BookTrade(KIND_NAMES[one.kind], one.place, one.price, one.shares) for one in example.fills),
    )


def stress_chart(table: StressTable) -> DotChart:
    """The saving in every world."""
    dots = tuple(
        Dot(
            one.world,
            one.saving_bps.mean,
            one.saving_bps.low,
            one.saving_bps.high,
            role="chosen" if k == 0 else "other",
        )
        for k, one in enumerate(table.worlds)
    )
    return DotChart(
        f"What {table.router} saves against {table.against}, with 95 % intervals",
        "saving, bps (right of zero saves)",
        dots,
    )


def surface_chart(surface: DarkSurface) -> GridChart:
    """The saving by what is assumed of dark pools."""
    cells = tuple(
        GridCell(
            f"x {one.presence:g}", f"x {one.adverse:g}", one.saving_bps.mean, one.saving_bps.low, one.saving_bps.high
        )
        for one in surface.points
    )
    title = f"What {surface.router} saves against {surface.against}"
    return GridChart(title, "saving, bps, with 95 % intervals", "shares in pools", "adverse selection", cells)


def verdict_facts(case: StudyCase) -> tuple[tuple[str, str], ...]:
    """The numbers behind an answer, each with its name."""
    found, saving = case.comparison, case.saving
    facts = [("router to use", case.use if case.verdict else "no verdict")]
    if saving is not None:
        if case.chosen != case.use:
            facts.append(("best on the training days", case.chosen))
        facts += [
            ("compared with", saving.against),
            ("saving an order", f"{fixed_text(saving.bps.mean, 3, signed=True)} bps"),
            ("95 % interval", interval_text(saving.bps) + (" bps" if saving.bps.low is not None else "")),
            ("saving an order, in dollars", dollars_text(saving.dollars_per_order.mean)),
        ]
        many = saving.dollars_per_1000_orders
        if many is not None:
            ends = "" if many.low is None else f" ({dollars_text(many.low)} to {dollars_text(many.high)})"
            facts.append(("saving per 1,000 orders", f"{dollars_text(many.mean)}{ends}"))
    if found.p_value is not None:
        facts.append(("p-value, best of all routers", p_text(found.p_value)))
    names = dict.fromkeys((case.chosen, found.bar))
    facts += [(f"expected shortfall 5 %, {name}", f"{fixed_text(found.routers[name].es95_bps)} bps") for name in names]
    facts.append(("saved by perfect foresight, of future prices too", f"{fixed_text(case.headroom_bps, 3)} bps"))
    facts.append(("volume priced by an estimate", f"{case.estimated_share:.1%}"))
    facts.append(("orders judged", f"{found.orders:,}"))
    return tuple(facts)


def venue_rows(venues: Sequence[VenueCosts], router: str) -> TextTable:
    """One row per venue or pool and kind of child order of one router: fills, fees, markouts and toxicity."""
    rows = [[write(getattr(one, field)) for _, field, write in _VENUES] for one in venues if one.router == router]
    return TextTable([heading for heading, _, _ in _VENUES], rows)


def children_table(example: OrderExample) -> TextTable:
    """One row per child order: what was sent where, and what became of it."""
    rows = [
        [
            KIND_NAMES[one.kind],
            one.place,
            *(f"{one.sent:,}", f"{one.filled:,}"),
            "-" if one.price is None else price_text(one.price),
            f"{one.sent_after:.3f}",
            _fixed(3)(one.last_fill_after),
        ]
        for one in example.children
    ]
    return TextTable(["child order", "place", "sent", "filled", "price", "sent\nafter s", "last fill\nafter s"], rows)


def stress_rows(table: StressTable) -> TextTable:
    """One row per world: the cost of both routers, and the saving."""
    rows = [
        [
            one.world,
            *(fixed_text(one.cost_bps, 3), fixed_text(one.against_bps, 3)),
            *(fixed_text(one.saving_bps.mean, 3, signed=True), interval_text(one.saving_bps)),
            f"{one.estimated_share:.1%}",
        ]
        for one in table.worlds
    ]
    header = ["world", f"{table.router} bps", f"{table.against} bps", "saved bps", "95 % interval", "estimated"]
    return TextTable(header, rows)


def routing_table_rows(rows: Sequence[RoutingRow]) -> TextTable:
    """The routing table, with kinds of child orders in words."""
    plain = routing_text(rows)
    return TextTable(plain.header, [[one[0], KIND_NAMES.get(one[1], one[1]), *one[2:]] for one in plain.rows])


def pools_table(pools: Sequence[PoolModel]) -> TextTable:
    """One row per dark pool: what is assumed of it."""
    header = ["pool", "holds shares", "arrivals a second", "smallest", "largest", "adverse selection"]
    rows = [
        [
            one.name,
            f"{one.presence:.0%}",
            f"{one.rate:g}",
            *(f"{one.smallest:,}", f"{one.largest:,}"),
            f"{one.adverse:g}",
            f"{one.fee:g}",
            f"{one.improvement:g}",
        ]
        for one in pools
    ]
    return TextTable([*header, "fee $ a share", "price improvement"], rows)


def price_text(price: float) -> str:
    """A price with two digits, or up to four where it has them.

    Examples
    --------
    >>> price_text(48.02), price_text(48.005), price_text(1250.0)
    ('48.02', '48.005', '1,250.00')
    """
    text = f"{price:,.4f}"
    return text[:-2] + text[-2:].rstrip("0")


def _fixed(digits: int, times: float = 1.0) -> Callable[[float | None], str]:
    return lambda value: fixed_text(None if value is None else times * value, digits)


def _range(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else " to ".join(map(_fixed(2), interval))


_whole, _two, _percent = _fixed(0), _fixed(2), _fixed(1, 100.0)

_VENUES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("place", "place", str),
    ("child orders", "kind", KIND_NAMES.__getitem__),
    ("shares\nsent", "sent", _whole),
    ("filled", "filled", _whole),
    ("fill\nrate %", "fill_rate", _percent),
    ("volume\n%", "volume_share", _percent),
    ("fees\nbps", "fees_bps", _two),
    ("markout\n1 s", "markout_1_bps", _two),
    ("markout\n10 s", "markout_10_bps", _two),
    ("markout\n60 s", "markout_60_bps", _two),
    ("adverse\n1 s", "adverse_1_bps", _two),
    ("95 % interval", "adverse_1_interval", _range),
    ("toxicity", "toxicity", _two),
    ("net\nsaving", "net_saving_bps", _two),
    ("toxic", "toxic", lambda value: {None: "-", True: "yes", False: "no"}[value]),
)


PAGE = "study.html"
TEMPLATES = Path(__file__).parent / "templates"


def write_page_content(page: PageContent, out: str | os.PathLike[str]) -> Path:
    """Write the page of a study to ``study.html`` in a folder.

    Parameters
    ----------
    page : PageContent
        What it says and shows, from `riskroute.study.page.study_page`.
    out : str or path-like
        The folder to write to.

    Returns
    -------
    Path
        The file written.
    """
    instance_of("page", page, PageContent, "a PageContent")
    folder = writable_folder("out", out)
    require_report_extra("jinja2")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    text = environment.get_template("study.html.jinja").render(page=page, drawn=_drawn, html_table=_table)
    return write_whole(folder / PAGE, lambda beside: beside.write_text(text, encoding="utf-8"))


def _drawn(chart: Chart) -> Any:
    from markupsafe import Markup

    return Markup(drawn_chart(chart))


def _table(table: PageTable) -> Any:
    """A table, escaped."""
    from markupsafe import Markup

    return Markup(table.table.html())


MOST_SHOWN = 12
"""So many sizes and horizons are shown with all sections; the others, which would make the page heavy, with a few."""

LIMITATIONS = (
    "The market does not react. Books are what they were without our orders: nobody fades, follows or jumps the queue, "
    "and our orders never meet each other.",
    "What dark pools hold, and how often they are filled before the price moves against us, is assumed: nobody "
    "publishes it.",
    "Limit orders join the back of the queue at the best price and are not moved. Where a feed does not tell who is "
    "ahead, their place in the queue is an estimate.",
    "Intervals know the days that were played. Another month may differ by more.",
    "The router was chosen on the training days by its mean cost plus a charge for unforeseen variance. With another "
    "charge, another router may be the one to use.",
    "Perfect foresight is an upper bound and not a goal: it knows future prices, and which orders will be filled.",
    "What an order needs beyond the recorded levels is priced by an estimate; the tables say how much of the volume.",
)

_COSTS = (
    "Costs are against the consolidated mid at arrival, fees included, on the test days. The objective adds the charge "
    "for unforeseen variance; ES 5 % is the mean of the worst twentieth of the orders; sd and se are the standard "
    "deviation of an order's cost and the standard error of the mean. What a router sees: F0 nothing, F1 the profit of "
    "its orders, F2 its own fills, F3 public trades as well, F4 the future.",
)
_STATES = (
    "Thirds are thirds of the orders. Below zero the router saves; it saves or loses if its whole interval does.",
)
_VENUES_NOTE = (
    "Markouts are basis points from the fill to the mid 1, 10 and 60 seconds later; positive is good. Adverse "
    "selection is how far the mid moved against fills that others timed: those of limit orders and in dark pools. "
    "Toxicity is adverse selection after one second over half the quoted spread; a place is toxic if its adverse "
    "selection is more than it saved, with its whole interval. The net saving against taking has ten seconds of "
    "adverse selection in it. Intervals need fills in thirty time blocks.",
)
_LEARNING = (
    "Orders on the training days come first. The latest orders are those since the point before. What trying things "
    "out cost is the cost of an order less what it would have cost with the plan that seemed best.",
)
_EXAMPLES = (
    "Bars are the shares displayed at each price, dots what the order traded there. Orders are those of the test days "
    "whose saving was nearest to the median, largest and smallest, and one for which nothing but taking was tried.",
)
_ROUTING = (
    "Fractions of the shares sent; a share that came back and was sent again counts again. Narrow, middle and wide are "
    "thirds of the spread. With us: more shares at the best prices on the other side than on our own, so that the "
    "price tends to come to us.",
)


def study_page(result: StudyResult, *, command: str = "") -> PageContent:
    """Return what the page of a study says and shows; ``command`` is the one that ran it, if it was one."""
    symbols = ", ".join(dict.fromkeys(day.rpartition(" ")[0] for day in result.days))
    dates = [day.rpartition(" ")[2] for day in result.days]
    sides = {"buy": "purchases", "sell": "sales"}.get(result.config.side, "purchases and sales in turn")
    when = dates[0] if min(dates) == max(dates) else f"{min(dates)} to {max(dates)}"
    several = any(case.symbol for case in result.cases)
    made = " The days are synthetic: generated, and not recorded." if result.synthetic else ""
    return PageContent(
        title=f"Which router to use for {symbols}{' (synthetic)' if result.synthetic else ''}",
        subtitle=f"Market {result.conditions}, {when}: {sides}.{made}",
        summary=PageTable("All answers", savings_table(result.cases)) if len(result.cases) > 1 else None,
        parts=tuple(
            _part(case, result, pooled=several and not case.symbol, brief=k >= MOST_SHOWN)
            for k, case in enumerate(result.cases)
        ),
        sections=tuple(_common(result)),
        command=command,
        program=program_text(result.config),
        settings=json.dumps(to_plain(result.config), indent=1),
    )


def program_text(config: StudyConfig) -> str:
    """Return the lines of Python that run the study again: what differs from the defaults.

    Examples
    --------
    >>> print(program_text(StudyConfig(shares=(500,), orders=60)))
    import riskroute as rr
    <BLANKLINE>
    rr.Study(shares=(500,), orders=60).run(out="out/study")
    """
    usual = StudyConfig()
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    words = ", ".join(f"{name}={value!r}" for name, value in values.items() if value != getattr(usual, name))
    return f'import riskroute as rr\n\nrr.Study({words}).run(out="out/study")'


def _part(case: StudyCase, result: StudyResult, *, pooled: bool, brief: bool) -> PagePart:
    time = f"{case.horizon:g} seconds" if case.horizon else "at once"
    text = case_paragraph(case, result.config, pooled=pooled, synthetic=result.synthetic)
    first, stop, more = text.partition(". ")
    name = case.symbol or ("All symbols" if pooled else "")
    title = f"{name}, {case.shares:,} shares, {time}" if name else f"{case.shares:,} shares, {time}"
    shown = dataclasses.replace(case, **_LEFT_OUT) if brief else case
    return PagePart(title, first + stop.strip(), more, verdict_facts(case), tuple(_sections(shown)))


_LEFT_OUT: dict[str, Any] = {"hours": (), "venues": (), "learning_curve": None, "examples": (), "surface": None}


def _sections(case: StudyCase) -> list[PageSection]:
    found, rule = case.comparison, case.comparison.bar
    use = f"Use {case.use}" if case.verdict else "No verdict"
    told = f"{rule} is the simple rule to beat. {use}: {REASONS[case.reason]}."
    table = PageTable("All routers on the test days, basis points", comparison_table(found))
    sections = [PageSection("Cost by router", (told,), cost_charts(case), (table,), _COSTS)]
    if case.hours:
        sections.append(PageSection("Cost by hour of the day", charts=(hour_chart(case),)))
    if case.states:
        states = PageTable(f"{case.chosen} less {rule}, by state of the market", states_table(case.states))
        sections.append(PageSection("Where it saves and where it loses", tables=(states,), notes=_STATES))
    if case.venues:
        routers = dict.fromkeys(one.router for one in case.venues)
        tables = tuple(PageTable(f"{name}, place by place", venue_rows(case.venues, name)) for name in routers)
        sections.append(PageSection("Venues and dark pools", tables=tables, notes=_VENUES_NOTE))
    if case.learning_curve is not None:
        charts = learning_charts(case.learning_curve)
        sections.append(PageSection("What it learned and what that cost", charts=charts, notes=_LEARNING))
    sections += [_example(example, case) for example in case.examples]
    if case.surface is not None:
        text = (
            f"What dark pools hold is an assumption. The saving on {case.surface.orders:,} orders, if they hold more "
            f"or less, and are more or less adverse. At most {case.surface.estimated_share:.1%} of the volume is "
            "priced by an estimate."
        )
        if case.surface.orders < found.orders:
            text += " These are fewer orders than the answer rests on, and routers learn anew from them alone."
        sections.append(PageSection("Other assumptions on dark pools", (text,), (surface_chart(case.surface),)))
    if case.stresses is not None:
        rows = PageTable("The same orders in harder worlds, basis points", stress_rows(case.stresses))
        told = (
            f"Both routers once more, on the same {case.stresses.orders:,} test orders, under conditions that are "
            "harder than usual. Routers that learn do so anew in each world."
        )
        sections.append(PageSection("Harder worlds", (told,), charts=(stress_chart(case.stresses),), tables=(rows,)))
    if case.routing_table:
        table = PageTable(f"Where {case.use} sends shares", routing_table_rows(case.routing_table))
        sections.append(PageSection("Routing table", tables=(table,), notes=_ROUTING))
    return sections


def _example(example: OrderExample, case: StudyCase) -> PageSection:
    text = (
        f"{example.day} at {example.time} in {zone_label(example.zone)}: {example.side} {example.shares:,} "
        f"{example.symbol}, mid {price_text(example.mid)}, spread {fixed_text(example.spread_bps)} bps. It cost "
        f"{fixed_text(example.cost_bps)} bps"
    )
    if example.against_bps is not None and example.saving_bps is not None and case.learning_curve is not None:
        text += f", with {case.learning_curve.against} {fixed_text(example.against_bps)} bps"
        if not rounds_to_zero(example.saving_bps):
            saved = "saving" if example.saving_bps > 0 else "loss"
            text += f": a {saved} of {fixed_text(abs(example.saving_bps))} bps"
    table = PageTable(f"What {case.chosen} sent", children_table(example))
    first = example is case.examples[0]
    return PageSection(
        f"Example: {example.why}", (f"{text}.",), (example_chart(example),), (table,), _EXAMPLES if first else ()
    )


def _common(result: StudyResult) -> list[PageSection]:
    sections = [PageSection("Limitations", points=LIMITATIONS)]
    if result.pools:
        table = PageTable("Dark pools as assumed", pools_table(result.pools))
        sections.append(PageSection("What was assumed of dark pools", tables=(table,)))
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    days = f"Days played: {', '.join(result.days)}."
    sections.append(PageSection("How it was run", (days, f"Versions: {versions}.")))
    return sections


def write_study_page(result: StudyResult, out: str | os.PathLike[str], *, command: str = "") -> Path:
    """Write the page of a study: ``study.html``, one file without scripts that works offline, on a phone and on paper.

    Parameters
    ----------
    result : StudyResult
        What the study found, from `riskroute.Study.run` or `StudyResult.from_json`.
    out : str or path-like
        The folder to write to; the page of an earlier study there is replaced.
    command : str
        The command that ran it, to be shown on the page.

    Returns
    -------
    Path
        The file written.
    """
    instance_of("result", result, StudyResult, "a StudyResult")
    instance_of("command", command, str, "a text")
    return write_page_content(study_page(result, command=command), out)
