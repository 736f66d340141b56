"""The report of a split study: its tables, charts and texts, as a page and as Markdown."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from riskroute.core.files import writable_folder, write_whole
from riskroute.core.records import to_plain
from riskroute.core.text import TextTable, dollars_text
from riskroute.core.validation import instance_of
from riskroute.study.page import Page, PagePart, PageSection, page_program_text
from riskroute.study.split_result import RECOMMENDED, SplitResultCase, SplitStudyResult
from riskroute.study.svg import ChartCurve, ChartDot, bar_chart, chart_colours, curve_chart, dot_chart

_REPORTS = ("report.html", "report.md")


def _splits_table(case: SplitResultCase) -> TextTable:
    """Return the recommended split and its alternatives with their costs out of sample."""
    rows = []
    for name, split in case.splits.items():
        tested = split.test
        rows.append(
            [
                *(name, case.split_text(split.allocation)),
                f"{dollars_text(tested.cost)} ± {dollars_text(tested.cost_error)}",
                *(f"{tested.basis_points:.2f}", dollars_text(tested.tail_cost)),
                *(dollars_text(tested.charged_cost), dollars_text(split.train.charged_cost)),
            ]
        )
    header = ["", "split", "cost", "basis points", "expected shortfall 5 %", "risk-adjusted cost", "in sample"]
    return TextTable(header, rows)


def _policies_table(case: SplitResultCase) -> TextTable:
    """Return one row per policy: its cost of learning and its exploration."""
    rows = []
    for name, one in case.policies.items():
        tested = one.test
        rows.append(
            [
                *(name, f"{tested.runs}", dollars_text(tested.learning_cost)),
                f"{dollars_text(tested.cost_each)} ± {dollars_text(tested.cost_each_error)}",
                *(dollars_text(one.train.cost_each), f"{tested.explored:.1%}"),
                f"{case.split_text(tested.ended_on)} ({tested.ended_on_share:.0%} of runs)",
            ]
        )
    header = ["", "runs", "cost of learning", "cost per order, learning included", "in sample", "explored"]
    return TextTable([*header, "most frequent final split"], rows)


def _models_table(case: SplitResultCase) -> TextTable:
    """Return the venue models with their goodness of fit."""
    rows = []
    for (slot, model), cap in zip(case.models.items(), case.caps, strict=True):
        fit = case.fits[slot]
        known = list(fit.warnings)
        if fit.variance != model.variance:
            known.append("the model's variance is purely quadratic: the fitted one is negative somewhere")
        rows.append(
            [
                *(slot, f"{cap:,}"),
                *(f"{value:.4g}" for value in (*model.mean, *model.variance)),
                *(f"{fit.r2_mean:.3f}", f"{fit.r2_variance:.3f}", "; ".join(known) or "none"),
            ]
        )
    moments = ["profit per share ($)", "per share² ($)", "variance per share ($²)", "per share² ($²)"]
    return TextTable(["slot", "most shares", *moments, "R² mean", "R² variance", "caveats"], rows)


def _frontier_table(case: SplitResultCase) -> TextTable:
    """Return the risk tolerances at which the best split changes, lowest first."""
    rows = [
        [
            *(f"{point.risk_tolerance:.3g}", case.split_text(point.allocation)),
            *(dollars_text(-point.mean), f"{point.variance:.3g}"),
            *(dollars_text(-point.test_mean), f"{point.test_variance:.3g}", dollars_text(-point.tail)),
        ]
        for point in case.frontier
    ]
    header = ["risk tolerance from", "split", "cost in sample", "variance ($²)"]
    return TextTable([*header, "cost out of sample", "variance ($²)", "expected shortfall 5 %"], rows)


_LIMITATIONS = (
    "Costs are against the mid of each venue's own book when the order is sent. No market impact: the books are as "
    "recorded, without these orders.",
    "One day and a few hours of books. Another day may differ by more than the standard errors.",
    "Dark pools have assumed parameters; no pool publishes them.",
    "Market orders and the remainders of dark pools walk the book of a venue together. The remainder of a limit order "
    "crosses later, on a book that has recovered. Beyond the known levels prices are extrapolated in proportion.",
    "Limit orders join at the best price and wait; they are not repriced.",
    "The models assume independent slots; replayed books keep the correlation between venues.",
    "Scenarios repeat: a policy that sends more orders than there are scenarios sees them again.",
)


def write_split_page(result: SplitStudyResult, out: str | os.PathLike[str]) -> list[Path]:
    """Write the report of a split study: ``report.html``, one page that works offline, and ``report.md``.

    Parameters
    ----------
    result : SplitStudyResult
        From `SplitStudy.run` or `SplitStudyResult.from_json`.
    out : str or path-like
        The folder to write to; an earlier report there is replaced.

    Returns
    -------
    list of Path
        The files written.
    """
    instance_of("result", result, SplitStudyResult, "a SplitStudyResult")
    folder = writable_folder("out", out)
    for name in _REPORTS:  # an earlier report must not stand beside new numbers
        (folder / name).unlink(missing_ok=True)
    page = _page(result)
    text = page.markdown()
    return [
        page.write(folder / _REPORTS[0]),
        write_whole(folder / _REPORTS[1], lambda beside: beside.write_text(text, encoding="utf-8")),
    ]


def _page(result: SplitStudyResult) -> Page:
    config, market = result.config, result.market
    levels = [one.cut for one in market.recordings.values() if one.cut]
    if config.levels is not None:
        levels.append(f"Levels of a book that an order may walk: {config.levels}, as configured.")
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    train, test = (f"{span[0]:%H:%M} to {span[1]:%H:%M}" for span in (config.train, config.test))
    return Page(
        title=f"How to split orders of {market.symbol}",
        subtitle=f"{market.origin}, {market.date}, {market.side} side. Train hours {train}, test hours {test} "
        f"({market.zone}).",
        parts=tuple(
            PagePart(
                f"{case.shares:,} shares, risk tolerance {case.risk_tolerance:g}",
                case.headline(market.side),
                "",
                (),
                (
                    PageSection("Findings", points=tuple(case.findings())),
                    *_sections(case, fees=config.fees is not None),
                ),
            )
            for case in result.orders
        ),
        sections=(
            PageSection("Limitations", points=(*_LIMITATIONS, *levels)),
            PageSection("Reproduction", (f"Versions: {versions}.",)),
        ),
        program=page_program_text("SplitStudy", config),
        settings=json.dumps(to_plain(config), indent=1),
    )


def _sections(case: SplitResultCase, *, fees: bool) -> tuple[PageSection, ...]:
    fee = ", fees included" if fees else ""
    costs = f"Costs are against the mid when the order is sent{fee}, in the test hours; ± is one standard error."
    if case.risk_tolerance:
        charge = (
            "The risk-adjusted cost adds the variance of the cost divided by the risk tolerance of "
            f"{case.risk_tolerance:g}."
        )
    else:
        charge = "At a risk tolerance of zero only the variance counts, and there is no charge in dollars."
    rounds = next(iter(case.policies.values())).test.checkpoints[-1]
    policies = (
        f'Every policy routed {rounds:,} orders per run, without prior knowledge; "warm" starts with a belief from the '
        "train hours, so its costs in sample are optimistic. Regret is the mean-variance of the profit minus that of "
        "the best split."
    )
    if case.unplayed:
        policies += f" Not played, since they try every split and there are too many: {', '.join(case.unplayed)}."
    frontier = (
        "Each split is the best of the train hours from its risk tolerance up to that of the next one; the last "
        "ignores risk. If there are more than 25, some are omitted."
    )
    models = (
        "The profit of a slot has a mean and a variance quadratic in the shares sent. R² is that of the straight "
        "lines in the charts: the mean against the shares, and the variance against their square."
    )
    return (
        PageSection(
            "The split and its alternatives",
            charts=_split_charts(case),
            tables=(("Splits out of sample", _splits_table(case)),),
            notes=(f"{costs} {charge} In sample: on the books of the train hours.",),
        ),
        PageSection("Cost of learning", (), _regret_charts(case), (("Policies", _policies_table(case)),), (policies,)),
        PageSection("Risk frontier", (), (_frontier_chart(case),), (("Splits", _frontier_table(case)),), (frontier,)),
        PageSection("Venue models", (), _fit_charts(case), (("Models", _models_table(case)),), (models,)),
    )


def _split_charts(case: SplitResultCase) -> tuple[tuple[str, str], ...]:
    """Draw the recommended split beside the first naive one, and the cost of every split out of sample."""
    names = (RECOMMENDED, case.naive_splits[0])
    bars = {name: case.splits[name].allocation for name in names}
    tested = {name: split.test for name, split in case.splits.items()}
    roles = {RECOMMENDED: "chosen"}
    dots = [
        ChartDot(name, one.cost, error=one.cost_error, role=roles.get(name, "other")) for name, one in tested.items()
    ]
    title, cost = "Shares by slot", "Cost per order, out of sample"
    return (title, bar_chart(title, "shares", case.slots, bars)), (cost, dot_chart(cost, "dollars per order", dots))


def _regret_charts(case: SplitResultCase) -> tuple[tuple[str, str], ...]:
    """Draw the regret in the model and out of sample; policies differ by orders of magnitude, hence the log scale."""
    charts, colours = [], chart_colours(list(case.policies))
    for title, place in (("Regret, in the model", "model"), ("Regret, out of sample", "test")):
        curves = []
        for name, outcome in case.policies.items():
            one = getattr(outcome, place)
            curves.append(ChartCurve(name, one.checkpoints, one.mean_regret, dots=False, colour=colours[name]))
        charts.append((title, curve_chart(title, "orders routed", "regret (squared dollars)", curves, log=True)))
    return tuple(charts)


def _frontier_chart(case: SplitResultCase) -> tuple[str, str]:
    points, chosen = case.frontier, case.recommended.test
    in_sample = [one.variance**0.5 for one in points], [-one.mean for one in points]
    tested = [one.test_variance**0.5 for one in points]
    curves = [
        ChartCurve("in sample", *in_sample, role="chosen"),
        ChartCurve("out of sample", tested, [-one.test_mean for one in points], role="rule", line=False),
        ChartCurve(
            "expected shortfall 5 %, out of sample", tested, [-one.tail for one in points], role="bound", line=False
        ),
        ChartCurve("recommended, out of sample", [chosen.variance**0.5], [chosen.cost], line=False, colour="#e69f00"),
    ]
    title = "Risk frontier: the best split by risk tolerance"
    return title, curve_chart(title, "standard deviation of the cost (dollars)", "cost (dollars)", curves)


def _fit_charts(case: SplitResultCase) -> tuple[tuple[str, str], ...]:
    """Draw, by slot, the sampled mean against quantity and variance against its square, with straight lines."""
    charts = []
    for slot, fit in case.fits.items():
        quantities = np.array(fit.quantities, dtype=float)
        for title, x, axis, unit, values in (
            (f"{slot}: mean, R² = {fit.r2_mean:.3f}", quantities, "shares", "dollars", fit.means),
            (f"{slot}: variance, R² = {fit.r2_variance:.3f}", quantities**2, "shares²", "dollars²", fit.variances),
        ):
            slope, start = np.polyfit(x, values, 1)
            line = ChartCurve("straight line", x.tolist(), (start + slope * x).tolist(), role="rule", dots=False)
            curves = [ChartCurve("sampled", x.tolist(), values, role="chosen", line=False), line]
            charts.append((title, curve_chart(title, axis, unit, curves)))
    return tuple(charts)
