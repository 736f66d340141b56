"""Calibration: known impact coefficients found again in recorded books, and everything around them."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from checkout import SHARED_DATA
from riskroute.core.errors import DataError, InputError
from riskroute.core.seeding import seed_stream
from riskroute.market.calibration import Calibration, calibrate
from riskroute.market.clock import TimeWindow
from riskroute.market.fitting import fit_venue
from riskroute.market.importing import import_files
from riskroute.market.order_profits import limit_profits
from riskroute.market.readers.reading import ReadingOptions
from riskroute.market.recordings import Recording, RecordingStore, RecordingWriter
from riskroute.market.sampling import draw_sample_times, sample_closest_rows
from riskroute.market.schema import EVENT_SCHEMA, LEVEL_FIELDS, snapshot_schema
from riskroute.routing.fees import Fee, FeeSchedule
from riskroute.routing.venue_models import venue_model_table, venue_problem

DAY = dt.date(2019, 3, 27)
LONG = TimeWindow(dt.time(9, 30), dt.time(16), buckets=400)
QUANTITIES = (20, 40, 60, 80, 100)
DEPTH = 10


@dataclass(frozen=True)
class Impact:
    """A book whose costs are known: every level holds ``size`` shares, prices step away evenly from the half-spread.

    The k-th share of an order (from 0) trades at ``half-spread + step * floor(k / size)`` from the middle. An order of
    ``Q = j size`` shares uses j whole levels and loses

        sum over i < j of size (h + step i) = h Q + step size j (j - 1) / 2 = (h - step / 2) Q + step / (2 size) Q^2.

    With a random half-spread h of mean ``half`` and variance v, the profit has mean ``p Q + p~ Q^2`` with
    ``p = step / 2 - half`` and ``p~ = -step / (2 size)``, and variance ``v Q^2``. Here h is uniform within ``width`` of
    ``half``, so that ``v = width^2 / 3``. Asks step by twice as much as bids.
    """

    half: float
    width: float
    step: float
    size: int

    def mean(self, side: str = "sell") -> tuple[float, float]:
        step = self.step if side == "sell" else 2 * self.step
        return step / 2 - self.half, -step / (2 * self.size)

    @property
    def variance(self) -> tuple[float, float]:
        return 0.0, self.width**2 / 3

    def snapshots(self, venue: str, stamps: Sequence[int], seed: int, levels: int = DEPTH) -> polars.DataFrame:
        """Books at given times, every one with a half-spread and a middle of its own."""
        rng = np.random.default_rng(seed)
        middle = rng.integers(9_000, 11_000, size=len(stamps)) / 100
        half = self.half + rng.uniform(-self.width, self.width, size=len(stamps))
        columns: dict[str, Any] = {"ts_event": np.array(stamps), "sequence": np.arange(1, len(stamps) + 1)}
        columns |= {"venue": [venue] * len(stamps), "symbol": ["ZZ"] * len(stamps)}
        for level in range(DEPTH):
            prices = middle - half - level * self.step, middle + half + level * 2 * self.step
            size = self.size if level < levels else 0
            cells = prices[0], [size] * len(stamps), prices[1], [size] * len(stamps)
            for name, values in zip(LEVEL_FIELDS, cells, strict=True):
                columns[f"{name}_{level:02d}"] = values if size or "sz" in name else [None] * len(stamps)
        return polars.DataFrame(columns, schema=snapshot_schema(DEPTH))


IMPACTS = {
    "XBOS": Impact(half=0.30, width=0.05, step=0.02, size=20),
    "XNAS": Impact(half=0.02, width=0.015, step=0.01, size=20),
    "XPSX": Impact(half=0.10, width=0.08, step=0.005, size=10),
}


def record(
    folder: Path, venue: str, snapshots: polars.DataFrame, events: polars.DataFrame | None = None, day: dt.date = DAY
) -> None:
    writer = RecordingWriter(folder, Recording(venue, "ZZ", day, DEPTH, f"{venue} file", "table"))
    writer.add_snapshots(snapshots)
    if events is not None:
        writer.add_events(events)
    writer.commit()


def stamps_in(window: TimeWindow, per_bucket: int = 3, day: dt.date = DAY) -> list[int]:
    """Times that divide every bucket evenly."""
    edges = window.edges(day).tolist()
    return [a + (b - a) * k // per_bucket for a, b in itertools.pairwise(edges) for k in range(per_bucket)]


def known_market(folder: Path, seed: int, window: TimeWindow = LONG, day: dt.date = DAY) -> RecordingStore:
    for number, (venue, impact) in enumerate(IMPACTS.items()):
        record(folder, venue, impact.snapshots(venue, stamps_in(window, day=day), 100 * seed + number), day=day)
    return RecordingStore(folder)


def calibrated(store: RecordingStore, **options: Any) -> Calibration:
    return calibrate(store, "ZZ", **dict[str, Any](quantities=QUANTITIES, window=LONG, levels=DEPTH) | options)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RecordingStore:
    return known_market(tmp_path_factory.mktemp("known"), seed=50)


@pytest.fixture(scope="module")
def found(store: RecordingStore) -> Calibration:
    return calibrated(store)


@pytest.mark.parametrize("seed", range(10))
def test_known_coefficients_are_recovered_within_three_standard_errors(tmp_path: Path, seed: int) -> None:
    """All venues and coefficients, books and sampled times of ten seeds.

    Half-spreads are uniform. Of 400, the mean has skewness 0 and the sample variance 0.03, and the bootstrap knows
    their standard errors to 4 %: three of those are what they are for a normal variable. p~ and s do not vary at all.
    """
    calibration = calibrated(known_market(tmp_path, seed), seed=seed)
    assert list(calibration.fits) == list(IMPACTS)
    for venue, impact in IMPACTS.items():
        fit = calibration.fits[venue]
        assert fit.samples == 400
        assert fit.short == 0
        assert fit.mean_error[0] == pytest.approx(impact.width / 3**0.5 / 20, rel=0.1)
        assert abs(fit.mean[0] - impact.mean()[0]) < 3 * fit.mean_error[0]
        assert abs(fit.variance[1] - impact.variance[1]) < 3 * fit.variance_error[1]
        assert fit.mean[1] == pytest.approx(impact.mean()[1], abs=1e-9)
        assert fit.variance[0] == pytest.approx(0.0, abs=1e-9)


def test_buying_finds_the_coefficients_of_the_asks(store: RecordingStore) -> None:
    calibration = calibrated(store, side="buy")
    for venue, impact in IMPACTS.items():
        fit = calibration.fits[venue]
        assert abs(fit.mean[0] - impact.mean("buy")[0]) < 3 * fit.mean_error[0]
        assert fit.mean[1] == pytest.approx(impact.mean("buy")[1], abs=1e-9)


def test_the_summary_has_what_was_promised_and_survives_json(found: Calibration) -> None:
    summary = json.loads(json.dumps(found.summary()))
    assert set(summary["venues"]) == set(IMPACTS)
    for venue, impact in IMPACTS.items():
        one = summary["venues"][venue]
        assert one["mean"] == list(found.fits[venue].mean)
        assert one["variance"] == list(found.fits[venue].variance)
        assert (one["short"], one["samples"], one["kind"]) == (0, 400, "market")
        means = np.array(QUANTITIES) * impact.mean()[0] + np.array(QUANTITIES) ** 2 * impact.mean()[1]
        assert one["r2_mean"] == pytest.approx(np.corrcoef(QUANTITIES, means)[0, 1] ** 2, abs=0.01)
        assert one["r2_variance"] == pytest.approx(1.0, abs=1e-9)
    assert summary["config"]["quantities"] == list(QUANTITIES)
    assert summary["config"]["window"] == ["09:30:00", "16:00:00", 400]
    assert summary["config"]["sources"] == {venue: f"{venue} file" for venue in IMPACTS}
    assert (summary["config"]["date"], summary["config"]["symbol"], summary["config"]["seed"]) == (
        "2019-03-27",
        "ZZ",
        0,
    )
    assert summary["skipped"] == summary["dark"] == {}


def test_the_frame_has_a_row_per_venue_and_quantity(found: Calibration) -> None:
    frame = found.to_frame()
    assert frame.columns == ["venue", "kind", "quantity", "mean", "variance", "samples"]
    assert frame.height == len(IMPACTS) * len(QUANTITIES)
    row = frame.row(by_predicate=(polars.col("venue") == "XNAS") & (polars.col("quantity") == 60), named=True)
    fit = found.fits["XNAS"]
    assert (row["mean"], row["variance"], row["samples"]) == (fit.means[2], fit.variances[2], 400)


def test_the_text_shows_coefficients_and_evidence(found: Calibration) -> None:
    assert [model.name for model in found.models] == list(IMPACTS)
    text = repr(found)
    assert text.startswith(f"quantities in shares, profits in USD\n{venue_model_table(found.models)}")
    assert "R^2 mean" in text
    for venue, fit in found.fits.items():
        row = rf"{venue}\s+{fit.r2_mean:.4f}\s+{fit.r2_variance:.4f}\s+400\s+0"
        assert re.search(row, text)


def test_everything_follows_from_the_seed(store: RecordingStore, found: Calibration) -> None:
    assert calibrated(store).summary() == found.summary()
    other = calibrated(store, seed=1)
    for venue in IMPACTS:
        assert other.fits[venue].mean[0] != found.fits[venue].mean[0]


def test_a_venue_is_the_same_whoever_else_is_asked_for(store: RecordingStore, found: Calibration) -> None:
    alone = calibrated(store, venues=["XPSX"])
    assert list(alone.fits) == ["XPSX"]
    assert alone.fits["XPSX"].summary() == found.fits["XPSX"].summary()


def test_sampled_times_are_shared_by_venues(tmp_path: Path) -> None:
    """Two venues with the same books, which differ within a bucket, have the same samples."""
    for venue in ("XNAS", "XBOS"):
        record(tmp_path, venue, IMPACTS["XNAS"].snapshots(venue, stamps_in(TimeWindow(), 20), seed=1))
    fits = calibrated(RecordingStore(tmp_path), window=None).fits
    np.testing.assert_array_equal(fits["XNAS"].means, fits["XBOS"].means)
    np.testing.assert_array_equal(fits["XNAS"].variances, fits["XBOS"].variances)


def test_fees_shift_the_linear_mean_and_nothing_else(store: RecordingStore, found: Calibration) -> None:
    """The entry of the day counts, not the one before or after."""
    takers = {"XNAS": 0.003, "XBOS": -0.001, "XPSX": 0.0}
    fees = [Fee(venue, DAY, taker, 0.7) for venue, taker in takers.items()]
    fees += [Fee("XNAS", DAY - dt.timedelta(days=1), 1.0, 0.7), Fee("XNAS", DAY + dt.timedelta(days=1), 2.0, 0.7)]
    net = calibrated(store, fees=FeeSchedule(fees))
    assert (net.config["fees"], found.config["fees"]) == (True, False)
    for venue, taker in takers.items():
        before, after = found.fits[venue], net.fits[venue]
        assert after.mean[0] == pytest.approx(before.mean[0] - taker, abs=1e-9)
        assert after.mean[1] == pytest.approx(before.mean[1], abs=1e-9)
        np.testing.assert_allclose(
            after.variance + after.variance_error, before.variance + before.variance_error, atol=1e-9
        )
    with pytest.raises(InputError, match=r"no fee for .* at XBOS on 2019-03-27; the schedule has XNAS from 2019-03-26"):
        calibrated(store, fees=FeeSchedule([fee for fee in fees if fee.venue == "XNAS"]))


def test_only_the_levels_asked_for_are_walked(store: RecordingStore) -> None:
    """Five levels of ten shares at XPSX hold 50, five of twenty elsewhere hold 100."""
    calibration = calibrated(store, levels=5)
    thin = calibration.fits["XPSX"]
    assert thin.quantities == (20, 40)
    assert (thin.short, thin.samples) == (400, 400)
    assert "XPSX: quantities above 40 shares dropped: fewer than 50% of the books are deep enough" in repr(calibration)
    assert calibration.fits["XNAS"].quantities == tuple(QUANTITIES)


def test_a_venue_without_enough_books_is_left_out_and_named(tmp_path: Path) -> None:
    known_market(tmp_path, 0, TimeWindow())
    stamps = stamps_in(TimeWindow(), 1)
    record(tmp_path, "XCHI", IMPACTS["XNAS"].snapshots("XCHI", stamps[:1], seed=0))
    record(tmp_path, "XPHL", IMPACTS["XNAS"].snapshots("XPHL", stamps, seed=0, levels=1))
    calibration = calibrated(RecordingStore(tmp_path), window=TimeWindow())
    assert list(calibration.fits) == list(IMPACTS)
    assert set(calibration.summary()["skipped"]) == {"XCHI", "XPHL"}
    assert "(1 buckets with a book)" in calibration.skipped["XCHI"]
    assert "got 1 of 5 quantities (60 buckets with a book)" in calibration.skipped["XPHL"]
    assert "XCHI: skipped, expected books deep enough" in repr(calibration)


@pytest.mark.parametrize(("first", "last", "end"), [(4, 5, "05:00"), (23, 0, "24:00")])
def test_no_venue_with_enough_books_is_an_error(store: RecordingStore, first: int, last: int, end: str) -> None:
    expected = rf"no venue has enough snapshots of ZZ from {first:02d}:00 to {end} America.*; choose other hours: .*"
    with pytest.raises(DataError, match=expected):
        calibrated(store, window=TimeWindow(dt.time(first), dt.time(last)))


def test_several_days_need_a_date(tmp_path: Path) -> None:
    later = dt.date(2019, 11, 4)
    known_market(tmp_path, 0, TimeWindow())
    both = known_market(tmp_path, 1, TimeWindow(), later)
    with pytest.raises(InputError, match="date must be one of 2019-03-27, 2019-11-04, was None"):
        calibrated(both, window=TimeWindow())
    days = [calibrated(both, window=TimeWindow(), date=day) for day in (DAY, later)]
    assert [one.fits["XNAS"].samples for one in days] == [60, 60], "hours are New York's in winter and summer"
    assert days[0].fits["XNAS"].mean != days[1].fits["XNAS"].mean
    with pytest.raises(InputError, match="date must be one of 2019-03-27, 2019-11-04, was '2019-11-05'"):
        calibrated(both, window=TimeWindow(), date=dt.date(2019, 11, 5))


def test_dark_pools_are_added_at_the_end(store: RecordingStore, found: Calibration) -> None:
    calibration = calibrated(store, dark_pools=2)
    assert [model.name for model in calibration.models] == [*IMPACTS, "Dark 1", "Dark 2"]
    assert [model.kind for model in calibration.models] == ["market"] * 3 + ["dark"] * 2
    assert set(calibration.summary()["dark"]) == {"Dark 1", "Dark 2"}
    assert set(calibration.summary()["venues"]) == set(IMPACTS)
    best = max(fit.mean[0] for fit in found.fits.values())
    assert all(pool.mean[0] > best for pool in calibration.dark)
    assert venue_problem(calibration.models, 3).actions.size == 35


LIMIT_WINDOW = TimeWindow(dt.time(11), dt.time(12), buckets=20)
FEES = FeeSchedule([Fee("XNAS", DAY, taker=0.003, maker=-0.002)])


def limit_market(folder: Path, venue: str, filled: bool) -> tuple[RecordingStore, polars.DataFrame, polars.DataFrame]:
    """A book per bucket with half-spread 0.05, and if ``filled`` trades that reach far behind our order.

    At the best ask the 20 shares shown trade, then 300 join and trade: an order that came before them was filled.
    """
    stamps = stamps_in(LIMIT_WINDOW, 1)
    books = Impact(half=0.05, width=0.0, step=0.01, size=20).snapshots(venue, stamps, seed=4)
    books = books.with_columns(polars.col("sequence") * 10)
    rows = []
    for k, (stamp, ask) in enumerate(zip(stamps, books["ask_px_00"], strict=True)):
        story = [("F", 20, 0, 2 * k + 1), ("A", 300, 300, 2 * k + 2), ("F", 300, 0, 2 * k + 2)]
        for number, (action, size, left, order) in enumerate(story if filled else [], 1):
            key = [stamp + number * 10**9, 10 * (k + 1) + number, venue, "ZZ"]
            rows.append([*key, action, "A", round(ask, 4), size, left, order, 0])
    events = polars.DataFrame(rows, schema=EVENT_SCHEMA, orient="row")
    record(folder, venue, books, events)
    return RecordingStore(folder), books, events


def test_limit_orders_that_fill_earn_the_half_spread_and_pay_makers(tmp_path: Path) -> None:
    """Nothing varies but the middle, so there is no risk at all, to the last bit."""
    store, _, _ = limit_market(tmp_path, "XNAS", filled=True)
    calibration = calibrated(store, window=LIMIT_WINDOW, orders=("market", "limit"), fees=FEES)
    assert calibration.kinds == {"XNAS": "market", "XNAS limit": "limit"}
    assert [model.kind for model in calibration.models] == ["market", "limit"]
    limit, market = calibration.fits["XNAS limit"], calibration.fits["XNAS"]
    np.testing.assert_allclose(limit.mean, (0.05 + 0.002, 0.0), atol=1e-9)
    np.testing.assert_allclose(market.mean, (0.005 - 0.05 - 0.003, -0.00025), atol=1e-9)
    assert limit.variance == market.variance == (0.0, 0.0)
    assert limit.warnings == market.warnings == ()


def test_limit_orders_that_do_not_fill_cross_and_pay_takers(tmp_path: Path) -> None:
    store, _, _ = limit_market(tmp_path, "XNAS", filled=False)
    calibration = calibrated(store, window=LIMIT_WINDOW, orders=["limit"], fees=FEES, dark_pools=1)
    assert [model.kind for model in calibration.models] == ["limit", "dark"]
    np.testing.assert_allclose(calibration.fits["XNAS limit"].mean, (0.005 - 0.05 - 0.003, -0.00025), atol=1e-9)


@pytest.mark.parametrize(("venue", "rule"), [("XPSX", "pro-rata"), ("XBOS", "price-time")])
def test_limit_orders_follow_the_rule_of_their_venue(tmp_path: Path, venue: str, rule: str) -> None:
    store, books, events = limit_market(tmp_path, venue, filled=True)
    calibration = calibrated(store, window=LIMIT_WINDOW, orders=["limit"])
    sample_times = draw_sample_times(DAY, LIMIT_WINDOW, 0)
    assert (sample_closest_rows(books, sample_times) == np.arange(20)).all()
    outcomes = {
        rule: limit_profits(books, events, sample_times, QUANTITIES, rule=rule, levels=DEPTH).profits.round(9)
        for rule in ("pro-rata", "price-time")
    }
    assert not np.allclose(outcomes["pro-rata"], outcomes["price-time"]), "the rules must differ to tell anything"
    seed = seed_stream(0, "bootstrap", f"{venue} limit")
    expected = fit_venue(outcomes[rule], np.array(QUANTITIES), np.ones(20, dtype=bool), seed=seed)
    assert calibration.fits[f"{venue} limit"].summary() == expected.summary()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantities": [20]}, r"expected at least two quantities, got \[20\]"),
        ({"quantities": []}, r"quantities must be one or more strictly ascending integers, was \[\]"),
        ({"quantities": [40, 20]}, r"quantities must be one or more strictly ascending integers, was \[40, 20\]"),
        ({"quantities": [0, 20]}, "quantities must be a positive integer, was 0"),
        ({"quantities": 20}, "quantities must be a list of numbers, was 20"),
        ({"side": "short"}, "side must be one of buy, sell, was 'short'"),
        ({"orders": []}, "orders must be market, limit or both, was empty"),
        ({"orders": ["stop"]}, "orders must be one of market, limit, was 'stop'"),
        ({"dark_pools": -1}, "dark_pools must be a non-negative integer, was -1"),
        ({"dark_pools": 1001}, "dark_pools must be at most 1,000, was 1,001"),
        ({"venues": ["XNYS"]}, "venue must be one of XBOS, XNAS, XPSX, was 'XNYS'"),
        ({"levels": 0}, "levels must be a positive integer, was 0"),
        ({"date": "2019-03-27"}, "date must be a day, was '2019-03-27'"),
        ({"seed": -1}, "seed must be a non-negative integer, was -1"),
    ],
)
def test_options_are_checked(store: RecordingStore, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        calibrated(store, **options)


def test_what_is_not_there_is_named(store: RecordingStore, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="symbol must be one of ZZ, was 'ZY'"):
        calibrate(store, "ZY")
    with pytest.raises(DataError, match="limit orders require events; XBOS_ZZ_2019-03-27 has none"):
        calibrated(store, orders=["limit"])
    with pytest.raises(DataError, match=r"holds no imported market data"):
        calibrate(RecordingStore(tmp_path), "ZZ")


@pytest.fixture(scope="module")
def amazon(tmp_path_factory: pytest.TempPathFactory) -> RecordingStore:
    archive = SHARED_DATA / "lobster" / "LOBSTER_SampleFile_AMZN_2012-06-21_5.zip"
    if not archive.is_file():
        pytest.skip(f"real data are not here: {archive}")
    folder = tmp_path_factory.mktemp("amazon")
    import_files([archive], folder, ReadingOptions(start=dt.time(11), end=dt.time(13)))
    return RecordingStore(folder)


@pytest.mark.real_data
@pytest.mark.parametrize("seed", range(40))
def test_amazon_has_the_known_costs(amazon: RecordingStore, seed: int) -> None:
    """Up to ten shares p is near -0.065 and the variance near 0.00045 Q^2; up to 200 the paper's lines hold."""
    few = calibrate(amazon, "AMZN", seed=seed).fits["XNAS"]
    assert few.samples == 60
    assert -0.075 <= few.mean[0] <= -0.055
    assert 0.0002 <= few.variance[1] <= 0.0007
    many = calibrate(amazon, "AMZN", quantities=range(10, 201, 10), seed=seed).fits["XNAS"]
    assert many.quantities == tuple(range(10, 201, 10))
    assert many.r2_mean >= 0.99
    assert many.r2_variance >= 0.98
