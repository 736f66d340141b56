"""What the paper says in words about order books and the venue models made from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riskroute.paper.claim import Claim, Measure


def _straight(field: str, stated: Mapping[str, float]) -> Measure:
    """R^2 of straight lines, per venue, at least as the paper's to two digits."""

    def measure(summary: Mapping[str, Any]) -> tuple[str, bool]:
        found = {name: fit[field] for name, fit in summary["venues"].items()}
        text = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
        return f"R^2: {text}", all(found[name] >= value - 0.005 for name, value in stated.items() if name in found)

    return measure


def _darker(summary: Mapping[str, Any]) -> tuple[str, bool]:
    lit, dark = list(summary["venues"].values()), list(summary["dark"].values())
    costliest, best = min(v["mean"][0] for v in dark), max(v["mean"][0] for v in lit)
    calm, wild = sorted(v["variance"][1] for v in lit)[len(lit) // 2], min(v["variance"][1] for v in dark)
    earned = f"profit per share: dark {costliest:.3g} or more, best lit {best:.3g}"
    risked = f"variance per squared share: dark {wild:.2g} or more, lit in the middle {calm:.2g}"
    return f"{earned}; {risked}", costliest > best and wild > calm


def _cheapest(summary: Mapping[str, Any]) -> tuple[str, bool]:
    lit = {name: venue["mean"][0] for name, venue in summary["venues"].items()}
    text = ", ".join(f"{name} {value:.3g}" for name, value in lit.items())
    return f"profit per share: {text}", max(lit, key=lambda name: lit[name]) == "XNAS"


_DATA = "Depends on the data; by default they are a synthetic market, made after the paper's table."

BOOK_CLAIMS = (
    Claim(
        "figure1",
        "figure 1",
        "the mean profit of a market order is linear in its size, R^2 = 0.99",
        _straight("r2_mean", {"XNAS": 0.99}),
        _DATA,
    ),
    Claim(
        "figure1",
        "figure 1",
        "the variance of the profit is linear in the squared size, R^2 = 0.98",
        _straight("r2_variance", {"XNAS": 0.98}),
        _DATA,
    ),
    Claim(
        "figure5",
        "figure 5",
        "the mean is linear in the size at all three venues, R^2 = 0.99",
        _straight("r2_mean", {"XNAS": 0.99, "XBOS": 0.99, "XPSX": 0.99}),
        _DATA,
    ),
    Claim(
        "figure5",
        "figure 5",
        "the variance is roughly linear in the squared size at all three venues, R^2 = 0.93 and 0.94",
        _straight("r2_variance", {"XNAS": 0.93, "XBOS": 0.94, "XPSX": 0.94}),
        _DATA,
    ),
    Claim("table", "table", "of the lit venues NASDAQ costs least per share", _cheapest, _DATA),
    Claim(
        "table",
        "table",
        "dark pools have higher but more volatile returns, on a scale comparable to the lit venues",
        _darker,
        "Drawn so, as in the paper: nobody has the data.",
    ),
)
