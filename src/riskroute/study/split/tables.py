"""Tables of a study's report: header and rows of texts."""

from __future__ import annotations

from riskroute.core.text import TextTable, dollars_text, split_text
from riskroute.study.split.order_records import OrderResult
from riskroute.study.split.result import SplitStudyResult


def study_known_levels(result: SplitStudyResult) -> list[str]:
    """Where books had more levels than the study knows."""
    said = [one.cut for one in result.market.recordings.values() if one.cut]
    levels = result.config.levels
    return said if levels is None else [*said, f"Levels of a book that an order may walk: {levels}, as configured."]


def study_splits_table(order: OrderResult) -> TextTable:
    """The recommended split and its alternatives, and what each costs out of sample."""
    rows = []
    for name, split in order.splits.items():
        tested = split.test
        rows.append(
            [
                name,
                split_text(order.slots, split.allocation),
                f"{dollars_text(tested.cost)} ± {dollars_text(tested.cost_error)}",
                f"{tested.basis_points:.2f}",
                dollars_text(tested.tail_cost),
                dollars_text(tested.charged_cost),
                dollars_text(split.train.charged_cost),
            ]
        )
    header = [
        "",
        "split",
        "cost",
        "basis points",
        "expected shortfall 5 %",
        "risk-adjusted cost",
        "the same, in sample",
    ]
    return TextTable(header, rows)


def study_policies_table(order: OrderResult) -> TextTable:
    """What every policy paid to learn, and what it explored."""
    rows = []
    for name, one in order.policies.items():
        tested = one.test
        rows.append(
            [
                name,
                f"{tested.runs}",
                dollars_text(tested.learning_cost),
                f"{dollars_text(tested.cost_each)} ± {dollars_text(tested.cost_each_error)}",
                dollars_text(one.train.cost_each),
                f"{tested.explored:.1%}",
                f"{split_text(order.slots, tested.ended_on)} ({tested.ended_on_share:.0%} of runs)",
            ]
        )
    header = ["", "runs", "cost of learning", "cost of an order, all included", "the same, in sample"]
    return TextTable([*header, "orders sent elsewhere", "most often ended on"], rows)


def study_models_table(order: OrderResult) -> TextTable:
    """The venue models with the evidence behind them."""
    rows = []
    for (slot, model), cap in zip(order.models.items(), order.caps, strict=True):
        fit = order.fits[slot]
        known = list(fit.warnings)
        if fit.variance != model.variance:
            known.append("the model has a pure square instead of the fitted variance")
        rows.append(
            [
                slot,
                f"{cap:,}",
                *(f"{value:.4g}" for value in (*model.mean, *model.variance)),
                f"{fit.r2_mean:.3f}",
                f"{fit.r2_variance:.3f}",
                "; ".join(known) or "none",
            ]
        )
    moments = ["profit per share ($)", "per share² ($)", "variance per share ($²)", "per share² ($²)"]
    return TextTable(["slot", "most shares", *moments, "R² mean", "R² variance", "to be aware of"], rows)


def study_frontier_table(order: OrderResult) -> TextTable:
    """The risk tolerances at which the best split changes, from the most careful on."""
    rows = [
        [
            f"{point.risk_tolerance:.3g}",
            split_text(order.slots, point.allocation),
            dollars_text(-point.mean),
            f"{point.variance:.3g}",
            dollars_text(-point.test_mean),
            f"{point.test_variance:.3g}",
            dollars_text(-point.tail),
        ]
        for point in order.frontier
    ]
    header = ["risk tolerance from", "split", "cost in sample", "variance ($²)"]
    return TextTable([*header, "cost out of sample", "variance ($²)", "expected shortfall 5 %"], rows)
