"""Every order of every simple rule costs what the written rules say, on random markets: files, import, backtest."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from comparison import Conditions, disagreements, oracle_market, played, recorded
from random_markets import Flow, Shape
from riskroute.core.errors import InputError


@st.composite
def markets(draw: st.DrawFn) -> tuple[Shape, Conditions]:
    horizon = draw(st.sampled_from([0.0, 0.0, 3.0, 3.0, 60.0]))
    events = draw(st.booleans())
    hours = draw(st.sampled_from([None, "10:01-10:02"])) if horizon < 60 else None
    most = draw(st.sampled_from([3, 300]))  # shares a level; estimates matter more where few are displayed
    shape = Shape(
        seed=draw(st.integers(0, 10**6)),
        venues=draw(st.integers(1, 4)),
        levels=draw(st.sampled_from([1, 2, 5, 12, 30])),
        seconds=90 if hours else 20 + int(horizon),
        largest_fee=draw(st.sampled_from([0.0, 0.003, 0.015])),
        fee_step=draw(st.sampled_from([0.0005, 0.005])),
        bps=draw(st.booleans()),
        limited=draw(st.booleans()),
        most=most,
        zone="America/New_York" if events else draw(st.sampled_from(["America/New_York", "UTC", "Asia/Tokyo"])),
        events=events,
        unit="1" if events else draw(st.sampled_from(["1", "0.05", "0.00001"])),
        multiplier=draw(st.sampled_from(["1", "50", "0.1"])),
    )
    conditions = Conditions(
        protection=draw(st.sampled_from(["none", "reg-nms"])),
        latency_ms=draw(st.sampled_from([0.0, 1.0, 50.0])),
        horizon=horizon,
        shares=tuple(draw(st.sampled_from([(1, most, 20 * most), (most // 3, 5 * most, 100 * most)]))),
        hours=hours,
    )
    return shape, conditions


def check(shape: Shape, conditions: Conditions) -> list[str]:
    """Write the files of a market, import them, play them, and compare every order."""
    with tempfile.TemporaryDirectory() as place:
        folder, fees = Path(place), shape.fees()
        if shape.events:
            flows = {name: Flow(shape, number) for number, name in enumerate(shape.names)}
            books, events = ({name: flow.tables[k] for name, flow in flows.items()} for k in (0, 1))
            recorded(
                {name: [flow.write(folder / name)] for name, flow in flows.items()},
                folder / "in",
                None,
                shape.instrument,
            )
        else:
            books, events = shape.books(), None
            recorded({"": shape.write(folder, books)}, folder / "in", shape.zone, shape.instrument)
        try:
            tables = played(folder / "in", fees, conditions, kept=folder / "kept", instrument=shape.instrument)
        except InputError as error:
            assert "met a two-sided market" in str(error)  # noqa: PT017 - any other error is a failure
            reject()
        return disagreements(
            tables, oracle_market(books, fees, events, conditions), conditions, shape.zone, shape.instrument
        )


few = settings(max_examples=40, suppress_health_check=list(HealthCheck))
many = settings(max_examples=300, suppress_health_check=list(HealthCheck))


@few
@given(markets())
def test_orders_cost_what_the_rules_say(market: tuple[Shape, Conditions]) -> None:
    assert check(*market) == []


@pytest.mark.thorough  # ten minutes; `make test` has 40 of them
@many
@given(markets())
def test_orders_cost_what_the_rules_say_on_many_markets(market: tuple[Shape, Conditions]) -> None:
    assert check(*market) == []
