"""Costs as tables of text."""

from __future__ import annotations

from dataclasses import fields, replace

from naive_costs import NOON, SECOND, Tables, a_child, a_fill, an_order, as_tables
from riskroute.study.backtest import _router_details, _tercile_table, venue_costs_table
from riskroute.study.costs import RouterCosts, costs_by_router, costs_by_venue


def two_routers() -> Tables:
    """A sweep that pays the spread and a taker fee, and a pool that fills half of the order first."""
    orders = [an_order("sweep", cost=12.0, fees=2.0), an_order("dark-first", cost=5.5, fees=1.0)]
    sweep = a_child(orders[0], 0, "take", "XNAS", 1000, filled=1000, displayed=1500.0)
    ping = a_child(orders[1], 0, "dark", "POOL", 1000, filled=500)
    rest = a_child(orders[1], 1, "sweep", "XNAS", 500, filled=500, posted=NOON + SECOND // 100)
    fills = [
        a_fill(sweep, 0.001, 1000, 100.01, fee=0.002),
        a_fill(ping, 0.0, 500, 100.0, mid_1=99.995),
        a_fill(rest, 0.001, 500, 100.009, fee=0.002),
    ]
    return as_tables(orders, [sweep, ping, rest], fills)


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_every_measure_has_a_row_in_the_details() -> None:
    costs = costs_by_router(*two_routers())
    table = _router_details(costs, "shares")
    assert table.header == ["measure", "unit", "sweep", "dark-first"]
    assert len(table.rows) == len(fields(RouterCosts)) - 3  # no name, terciles and zone
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["price improvement"] == ["bps", "0.00", "0.55"]
    assert rows["fill rate, dark"] == ["%", "-", "50.0"]
    assert rows["reversion 10 s, without own impact"] == ["bps", "0.00", "0.00"]
    assert not any("nan" in cell or "None" in cell for row in table.rows for cell in row)


def test_thirds_of_the_orders() -> None:
    lines = squeezed(_tercile_table(costs_by_router(*two_routers())[:1]).plain())
    assert lines[2:] == [
        "sweep spread, bps low 2.00 2.00 1 1.20 - 1.20",
        "sweep time, New York low 12:00 12:00 1 1.20 - 1.20",
        "sweep size / depth low 0.250 0.250 1 1.20 - 1.20",
    ]


def test_venues_of_a_router() -> None:
    found = costs_by_venue(*two_routers())
    lines = squeezed(venue_costs_table(found, "dark-first").plain())
    assert lines[2:] == [
        "POOL dark 1 500 50.0 50.0 0.00 0.00 0.00 - 0.000 -0.50 0.00 0.00 0.50 - 1.00 -",
        "XNAS sweep 1 500 50.0 100.0 0.90 0.20 1.80 - 0.001 -0.90 -0.90 -0.90 - - - -",
    ]
    sure = replace(found[1], adverse_1_interval=(0.25, 1.5), toxic=False)
    assert venue_costs_table([sure], "dark-first").rows[0][-3:] == ["0.25 to 1.50", "1.00", "no"]
    assert venue_costs_table([replace(sure, toxic=True)], "dark-first").rows[0][-1] == "yes"
