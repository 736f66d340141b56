"""Scenarios: every quantity in every slot at sampled times, against the calibration of the same times."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest

from riskroute.core.errors import DataError, InputError
from riskroute.market.calibration import calibrate
from riskroute.market.clock import TimeWindow
from riskroute.market.dark_pools import DarkPool
from riskroute.market.order_profits import market_profits
from riskroute.market.recordings import RecordingStore
from riskroute.market.sampling import draw_sample_times, sample_closest_books, sample_closest_rows, sample_last_rows
from riskroute.market.scenarios import ENOUGH, ScenarioSlot, ScenarioTables, draw_scenarios
from riskroute.routing.fees import Fee, FeeSchedule

WINDOW = TimeWindow(dt.time(11), dt.time(11, 20), 10)
SLOTS = (
    ScenarioSlot("XNAS"),
    ScenarioSlot("XPSX"),
    ScenarioSlot("XNAS", "limit"),
    ScenarioSlot("XNAS", "dark", DarkPool(0.5, 1.5, 3, name="Dark 1")),
)


def test_market_orders_are_walked_at_the_drawn_times(half_hour: RecordingStore) -> None:
    found = draw_scenarios(half_hour, "QVEX", SLOTS, 8, WINDOW, repeats=3, seed=5)
    assert found.profits.shape == (4, 30, 9)
    assert (found.profits[:, :, 0] == 0).all()
    recording = next(one for one in half_hour.recordings() if one.venue == "XPSX")
    sample_times = draw_sample_times(recording.date, WINDOW, 5)
    books = sample_closest_books(half_hour.snapshots(recording), sample_times)
    expected = market_profits(books, np.arange(1, 9))
    np.testing.assert_array_equal(found.profits[1, :10, 1:], expected)
    assert not np.array_equal(found.profits[1, :10], found.profits[1, 10:20])
    np.testing.assert_array_equal(found.depths[1, :10], books.bid_sz.sum(axis=1))
    assert found.buckets.tolist() == list(range(10)) * 3


def test_the_first_repeat_is_what_calibration_sees(half_hour: RecordingStore) -> None:
    found = draw_scenarios(half_hour, "QVEX", SLOTS[:3], 10, WINDOW, repeats=1, seed=2)
    fitted = calibrate(half_hour, "QVEX", window=WINDOW, seed=2, orders=("market", "limit"))
    for slot in (0, 1, 2):
        name = SLOTS[slot].name
        np.testing.assert_allclose(found.profits[slot, :, 1:].mean(axis=0), fitted.fits[name].means, atol=1e-12)
        fit = found.fit(slot, 10, seed=2)
        np.testing.assert_allclose(fit.mean, fitted.fits[name].mean, rtol=1e-9, atol=1e-12)


def test_fees_are_paid_per_share(half_hour: RecordingStore) -> None:
    day = dt.date(2019, 1, 1)
    fees = FeeSchedule([Fee(venue, day, taker=0.003, maker=-0.002) for venue in ("XNAS", "XPSX")])
    plain, net = (draw_scenarios(half_hour, "QVEX", SLOTS, 5, WINDOW, repeats=1, fees=one) for one in (None, fees))
    paid = plain.profits - net.profits
    np.testing.assert_allclose(paid[1], np.tile(0.003 * np.arange(6), (10, 1)), atol=1e-9)
    assert (paid[2] <= 0.003 * np.arange(6) + 1e-9).all()
    assert (paid[2] >= -0.002 * np.arange(6) - 1e-9).all()


def test_fees_in_basis_points_are_paid_on_the_value(half_hour: RecordingStore) -> None:
    day = dt.date(2019, 1, 1)
    fees = FeeSchedule([Fee(venue, day, taker="10 bps", maker="-4 bps") for venue in ("XNAS", "XPSX")])
    plain, net = (draw_scenarios(half_hour, "QVEX", SLOTS, 5, WINDOW, repeats=1, fees=one) for one in (None, fees))
    value = plain.mids[:, None] * np.arange(6) + plain.profits[0]  # of a sale
    np.testing.assert_allclose(plain.profits[0] - net.profits[0], 0.001 * value, atol=1e-9)
    paid = plain.profits[2] - net.profits[2]
    assert ((paid >= -0.00041 * value) & (paid <= 0.00101 * value)).all()
    limited = FeeSchedule([Fee(venue, day, {"fee": "10 bps", "minimum": 1}, 0) for venue in ("XNAS", "XPSX")])
    with pytest.raises(InputError, match=r"fees of X.* must not have a minimum or maximum per order here"):
        draw_scenarios(half_hour, "QVEX", SLOTS, 5, WINDOW, repeats=1, fees=limited)


def test_caps_are_what_nearly_all_books_can_take(half_hour: RecordingStore) -> None:
    found = draw_scenarios(half_hour, "QVEX", SLOTS[:2], 3000, WINDOW, repeats=2)
    caps = found.caps()
    for slot, cap in enumerate(caps):
        deep = found.depths[slot]
        assert (deep >= cap).mean() >= ENOUGH
        assert cap == 3000 or (deep >= cap + 1).mean() < ENOUGH
    assert caps[1] < caps[0]
    whole = found.whole(caps)
    assert whole.mean() >= 2 * ENOUGH - 1
    assert np.isfinite(found.profits[1, whole, caps[1]]).all()


def test_models_have_no_negative_variance(half_hour: RecordingStore) -> None:
    found = draw_scenarios(half_hour, "QVEX", SLOTS, 40, WINDOW, repeats=4)
    models, fits = found.models(found.caps(), 0)
    assert [model.kind for model in models] == ["market", "market", "limit", "dark"]
    assert list(fits) == [slot.name for slot in SLOTS]
    for model in models:
        assert min(model.variance_of(shares) for shares in range(1, 41)) >= 0


def test_mistakes_are_named(half_hour: RecordingStore, tmp_path: Path) -> None:
    for slots, message in (
        ([], "slots must be one or more"),
        ([ScenarioSlot("XNAS"), ScenarioSlot("XNAS")], "with distinct names"),
        ([ScenarioSlot("XNYS")], "venue of a slot must be one of .* was 'XNYS'"),
    ):
        with pytest.raises(InputError, match=message):
            draw_scenarios(half_hour, "QVEX", slots, 5, WINDOW)
    with pytest.raises(InputError, match="repeats must be a positive integer, was 0"):
        draw_scenarios(half_hour, "QVEX", SLOTS, 5, WINDOW, repeats=0)
    with pytest.raises(DataError, match="no snapshots of QVEX at XNAS from 15:00:00 to 15:20:00"):
        draw_scenarios(half_hour, "QVEX", SLOTS[:1], 5, TimeWindow(dt.time(15), dt.time(15, 20), 10))


def test_the_few_snapshots_that_are_read_give_the_books_of_the_whole_table(half_hour: RecordingStore) -> None:
    recording = next(one for one in half_hour.recordings() if one.venue == "XNAS")
    drawn = [draw_sample_times(recording.date, WINDOW, seed) for seed in range(4)]
    few = ScenarioTables(half_hour, recording, WINDOW, drawn).snapshots
    whole = half_hour.snapshots(recording)
    assert few.height < 0.1 * whole.height
    assert few.columns == whole.columns
    for sample_times in drawn:
        for find in (sample_closest_rows, sample_last_rows):
            assert few[find(few, sample_times)].equals(whole[find(whole, sample_times)])


def test_orders_walk_all_levels_unless_told_otherwise(half_hour: RecordingStore) -> None:
    whole, five = (draw_scenarios(half_hour, "QVEX", SLOTS[:1], 2, WINDOW, levels=n).depths for n in (None, 5))
    recording = next(one for one in half_hour.recordings() if one.venue == "XNAS")
    assert recording.levels > 5
    assert (whole > five).all()
