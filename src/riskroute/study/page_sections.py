"""The page of a study: what it says and shows, section by section, ready to be drawn by the report."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from riskroute.core.records import to_plain
from riskroute.core.text import fixed_text, rounds_to_zero
from riskroute.market.clock import zone_label
from riskroute.study.backtest_texts import comparison_table
from riskroute.study.choice import REASONS
from riskroute.study.config import StudyConfig
from riskroute.study.page_charts import (
    cost_charts,
    example_chart,
    hour_chart,
    learning_charts,
    stress_chart,
    surface_chart,
)
from riskroute.study.page_content import PageContent, PagePart, PageSection, PageTable
from riskroute.study.page_tables import (
    children_table,
    pools_table,
    price_text,
    routing_table_rows,
    stress_rows,
    venue_rows,
    verdict_facts,
)
from riskroute.study.records import OrderExample, StudyCase
from riskroute.study.result import StudyResult
from riskroute.study.texts import savings_table, states_table
from riskroute.study.words import case_paragraph

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
_VENUES = (
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
        sections.append(PageSection("Venues and dark pools", tables=tables, notes=_VENUES))
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
