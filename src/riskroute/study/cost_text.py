"""Costs as text tables: routers side by side, and the venues of one router. A dash means unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from riskroute.core.text import TextTable, fixed_text
from riskroute.market.clock import zone_label
from riskroute.study.costs import Interval, RouterCosts, VenueCosts

Column = tuple[str, str, Callable[[Any], str]]  # heading, field, format


def router_details(costs: Sequence[RouterCosts]) -> TextTable:
    """Return one row per measure and one column per router."""
    rows = [[label, unit, *(write(getattr(one, field)) for one in costs)] for label, unit, field, write in _DETAILS]
    return TextTable(["measure", "unit", *(one.router for one in costs)], rows)


def tercile_table(costs: Sequence[RouterCosts]) -> TextTable:
    """Return costs by tercile of spread, time of day and size, one row per router and tercile."""
    header = ["router", "by", "tercile", "from", "to", "orders", "cost bps", "sd bps", "ES 5 % bps"]
    rows = []
    for one in costs:
        for third in one.terciles:
            edges = (_TERCILES[third.measure][1](edge) for edge in (third.least, third.most))
            values = (_two(value) for value in (third.cost_bps, third.sd_bps, third.es95_bps))
            name = _TERCILES[third.measure][0]
            if third.measure == "time":
                name += f", {zone_label(one.zone)}"
            rows.append([one.router, name, third.tercile, *edges, _whole(third.orders), *values])
    return TextTable(header, rows)


def venue_table(costs: Sequence[VenueCosts], router: str) -> TextTable:
    """Return one row per venue or pool and kind of child order of one router, largest volume first."""
    rows = [_cells(one, _VENUES) for one in costs if one.router == router]
    return TextTable([heading for heading, _, _ in _VENUES], rows)


def _cells(record: RouterCosts | VenueCosts, columns: Sequence[Column]) -> list[str]:
    return [write(getattr(record, field)) for _, field, write in columns]


def _fixed(digits: int, times: float = 1.0) -> Callable[[float | None], str]:
    return lambda value: fixed_text(None if value is None else times * value, digits)


def _clock(hours: float) -> str:
    """Return hours since midnight as HH:MM, rounded down."""
    minutes = int(round(hours * 3600) // 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _range(interval: Interval | None) -> str:
    return "-" if interval is None else " to ".join(map(_two, interval))


def _flag(value: bool | None) -> str:
    return "-" if value is None else "yes" if value else "no"


_whole, _one, _two, _three = (_fixed(digits) for digits in range(4))
_percent = _fixed(1, 100.0)

_TERCILES: dict[str, tuple[str, Callable[[float], str]]] = {
    "spread": ("spread, bps", _two),
    "time": ("time", _clock),
    "size": ("shares / depth", _three),
}

_VENUES: tuple[Column, ...] = (
    ("place", "place", str),
    ("kind", "kind", str),
    ("orders", "orders", _whole),
    ("filled", "filled", _whole),
    ("volume %", "volume_share", _percent),
    ("fill %", "fill_rate", _percent),
    ("slippage bps", "slippage_bps", _two),
    ("fees", "fees_bps", _two),
    ("eff. spread", "effective_spread_bps", _two),
    ("fade %", "fade", _percent),
    ("50 % in s", "fill_seconds_50", _three),
    ("markout 1 s", "markout_1_bps", _two),
    ("10 s", "markout_10_bps", _two),
    ("60 s", "markout_60_bps", _two),
    ("adverse 1 s", "adverse_1_bps", _two),
    ("95 % CI", "adverse_1_interval", _range),
    ("net saving", "net_saving_bps", _two),
    ("toxic", "toxic", _flag),
)

_DETAILS: tuple[tuple[str, str, str, Callable[[Any], str]], ...] = (
    ("orders", "", "orders", _whole),
    ("shares", "", "shares", _whole),
    ("time blocks", "", "blocks", _whole),
    ("cost, fees included", "bps", "cost_bps", _two),
    ("arrival slippage", "bps", "slippage_bps", _two),
    ("fees", "bps", "fees_bps", _two),
    ("implementation shortfall", "bps", "shortfall_bps", _two),
    ("thereof opportunity cost", "bps", "opportunity_bps", _two),
    ("filled late or not at all", "%", "late_share", _percent),
    ("standard deviation", "bps", "sd_bps", _two),
    ("expected shortfall 5 %", "bps", "es95_bps", _two),
    ("mean of the worst 1 %", "bps", "worst_bps", _two),
    ("effective spread", "bps", "effective_spread_bps", _two),
    ("quoted spread", "bps", "quoted_spread_bps", _two),
    ("effective / quoted", "", "spread_ratio", _two),
    ("price improvement", "bps", "improvement_bps", _two),
    ("shares improved", "%", "improved_share", _percent),
    ("half-spread captured by limit orders", "%", "spread_capture", _percent),
    ("filled in dark pools", "%", "dark_share", _percent),
    ("filled by limit orders", "%", "limit_share", _percent),
    ("taken", "%", "taken_share", _percent),
    ("fill rate, dark", "%", "dark_fill_rate", _percent),
    ("fill rate, limit", "%", "limit_fill_rate", _percent),
    ("fill rate, IOC", "%", "ioc_fill_rate", _percent),
    ("hit rate, dark", "%", "dark_hit_rate", _percent),
    ("hit rate, limit", "%", "limit_hit_rate", _percent),
    ("hit rate, IOC", "%", "ioc_hit_rate", _percent),
    ("fade", "%", "fade", _percent),
    ("time to fill 50 % of shares", "s", "fill_seconds_50", _three),
    ("time to fill 90 % of shares", "s", "fill_seconds_90", _three),
    ("time to fill 99 % of shares", "s", "fill_seconds_99", _three),
    ("markout 1 s", "bps", "markout_1_bps", _two),
    ("markout 10 s", "bps", "markout_10_bps", _two),
    ("markout 60 s", "bps", "markout_60_bps", _two),
    ("reversion 1 s, without own impact", "bps", "reversion_1_bps", _two),
    ("reversion 10 s, without own impact", "bps", "reversion_10_bps", _two),
    ("reversion 60 s, without own impact", "bps", "reversion_60_bps", _two),
    ("beyond the display, price estimated", "shares", "estimated_shares", _whole),
    ("of all shares", "%", "estimated_share", _percent),
    ("prevented by a better quote", "shares", "prevented_shares", _whole),
    ("traded through a better quote", "shares", "through_shares", _whole),
    ("books too old to be shown", "", "stale_books", _whole),
    ("time to decide, mean", "µs", "decision_us", _one),
    ("time to decide, 99 %", "µs", "decision_99_us", _one),
)
