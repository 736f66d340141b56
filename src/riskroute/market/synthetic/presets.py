"""Synthetic markets by name: what the paper's looked like, and one whose venues are alike enough to be routed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from riskroute.market.synthetic.venues import DEFAULT_VENUES, SharedQuotes, SyntheticVenue


@dataclass(frozen=True)
class MarketPreset:
    """A synthetic market: its venues, its stocks, and taker and maker fees by venue in dollars per share."""

    name: str
    venues: tuple[SyntheticVenue, ...]
    symbols: tuple[str, ...]
    fees: Mapping[str, tuple[float, float]]


def _comparable(name: str, at_best: float, memory: float, lot: int, top_size: int) -> SyntheticVenue:
    return SyntheticVenue(
        name=name,
        file_name=f"%Y%m%d.{name}_ITCH_50",
        matching="price-time",
        quotes=SharedQuotes(at_best=at_best, memory=memory),
        events_per_second=8.0,
        orders=40,
        lot=lot,
        top_size=top_size,
        top_share=0.5,
        reach=4.0,
        takers=0.01,
        sweep=0.05,
    )


PRESETS = {
    "paper": MarketPreset(
        name="paper",
        venues=DEFAULT_VENUES,
        symbols=("QVEX", "ZORN", "XALT"),
        fees={"XNAS": (0.0030, -0.0020), "XPSX": (0.0030, -0.0020), "XBOS": (-0.0010, 0.0020)},
    ),
    "comparable": MarketPreset(
        name="comparable",
        venues=(
            _comparable("XNAS", 0.40, 1.0, 300, 500),
            _comparable("ARCX", 0.33, 0.5, 250, 400),
            _comparable("BATS", 0.33, 2.0, 250, 400),
            _comparable("EDGA", 0.28, 5.0, 150, 200),
            _comparable("XBOS", 0.26, 0.2, 150, 200),
        ),
        symbols=("LUMO", "TARN", "VEKO"),
        fees={
            "XNAS": (0.0030, -0.0020),
            "ARCX": (0.0030, -0.0022),
            "BATS": (0.0028, -0.0025),
            "EDGA": (-0.0002, 0.0006),
            "XBOS": (-0.0015, 0.0018),
        },
    ),
}
"""``paper``: three venues of very different spreads. ``comparable``: five that take turns at the best price.

Fees are those of US venues in kind: three pay makers, one is nearly free, one pays takers.
"""
