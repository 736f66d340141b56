"""Comparisons of routers as tables of text."""

from __future__ import annotations

from riskroute.experiments.backtest.summary import Comparison, RouterResult
from riskroute.text import TextTable

HEADINGS = (
    *("router", "sees", "cost", "se", "objective", "sd", "ES 5 %", "difference", "95 % interval"),
    *("fees", "dark", "limit", "taken", "decision us"),
)


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
        f"{one.cost_bps:.3f}",
        f"{one.se_bps:.3f}" if one.se_bps is not None else "-",
        f"{one.objective_bps:.3f}",
        f"{one.sd_bps:.2f}",
        f"{one.es95_bps:.2f}",
        _signed(pair.difference_bps) if pair else "the bar",
        bounds,
        f"{one.fees_bps:.3f}",
        f"{one.dark_share:.0%}",
        f"{one.limit_share:.0%}",
        f"{one.taken_share:.0%}",
        f"{one.decision_us:.0f}",
    ]


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"
