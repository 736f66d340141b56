"""Comparisons of routers as tables of text."""

from __future__ import annotations

from riskroute.core.text import TextTable, fixed_text
from riskroute.study.summary import Comparison, RouterResult

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
