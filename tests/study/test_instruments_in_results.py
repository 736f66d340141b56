"""Studies, backtests and routes of coins, futures and shares: natural quantities and amounts, recomputed by hand."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import riskroute as rr
from instruments import instrument_of
from riskroute import InputError
from riskroute.cli.app import run_app
from riskroute.core.instrument import NO_PROTECTION, Instrument
from riskroute.market.clock import SECOND, clock_stamp
from riskroute.market.recordings import Recording, RecordingWriter
from riskroute.market.schema import snapshot_schema
from riskroute.simulation.backends import Backend
from riskroute.study.backtest import BacktestResult
from riskroute.study.case import CaseEstimate, CaseSaving, _headline_saving
from riskroute.study.page import write_study_page

HERE = Backend("local", 1)
DAYS = dt.date(2024, 8, 8), dt.date(2024, 8, 9)
VENUES = "XONE", "XTWO"
LEVELS = 5
FOREIGN = re.compile(r"\bshares\b|\$|\bdollars?\b|\bUSD\b", re.IGNORECASE)  # words of US equities


@dataclass(frozen=True)
class Kind:
    """A market: its instrument, a price in ticks, sizes in units, and an order with its texts."""

    instrument: Instrument
    centre: int
    size: int
    order: float
    ordered: str
    counted: str
    typical: str


COIN = Kind(
    instrument_of("BTCUSDT", unit="0.00001", tick="0.01", quantity="BTC", currency="USDT", zone="UTC"),
    6_173_412, 20_000, 0.25, "0.25 BTC", "BTC", r"61,7\d\d\.\d\d",
)  # fmt: skip
FUTURE = Kind(
    instrument_of("ESU4", tick="0.25", quantity="contracts", currency="EUR", multiplier=50, zone="UTC"),
    21_000, 4, 7, "7 contracts", "contracts", r"5,2\d\d\.\d\d",
)  # fmt: skip
EQUITY = Kind(Instrument("QVEX"), 4_802, 400, 1000, "1,000 shares", "shares", r"4[78]\.\d\d")  # fmt: skip
KINDS = {"coin": COIN, "future": FUTURE, "equity": EQUITY}


def record(folder: Path, kind: Kind) -> Path:
    """Record two venues on two days, half an hour each, with new books every second."""
    one = kind.instrument
    for day, date in enumerate(DAYS):
        rng = np.random.default_rng(day)
        begin = clock_stamp(date, dt.time(10), one.zone)
        stamps = begin + np.arange(1800) * SECOND
        walk = kind.centre + 2 * np.cumsum(rng.integers(-2, 3, len(stamps)))
        for venue in VENUES:
            columns: dict[str, Any] = {"ts_event": stamps, "sequence": np.arange(len(stamps))}
            columns |= {"venue": [venue] * len(stamps), "symbol": [one.symbol] * len(stamps)}
            away = rng.integers(1, 4, len(stamps))
            for level in range(LEVELS):
                for side, sign in (("bid", -1), ("ask", 1)):
                    ticks, units = walk + sign * (away + level), rng.integers(1, 2 * kind.size, len(stamps))
                    columns[f"{side}_px_{level:02d}"] = [float(tick * one.tick) for tick in ticks.tolist()]
                    columns[f"{side}_sz_{level:02d}"] = [float(some * one.unit) for some in units.tolist()]
            schema = snapshot_schema(LEVELS, fractional=one.unit != 1)
            frame = pl.DataFrame(columns).select(pl.col(name).cast(as_type) for name, as_type in schema.items())
            recording = Recording(venue, one.symbol, date, LEVELS, "made by hand", "table", instrument=one)
            recording.fractional = one.unit != 1
            writer = RecordingWriter(folder, recording)
            writer.add_snapshots(frame)
            writer.commit()
    return folder


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def market(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("market") / "books", kind)


@pytest.fixture(scope="module")
def backtested(kind: Kind, market: Path) -> BacktestResult:
    return rr.backtest(
        market, quantities=kind.order, routers=["sweep", "primary"], orders=12, kept=market.parent, backend=HERE
    )


def levels_at(folder: Path, symbol: str, day: str, stamp: int, sign: int) -> pl.DataFrame:
    """Return venue, price and natural size of all levels to take from, cheapest first, from the recorded tables."""
    side, tables = "ask" if sign > 0 else "bid", []
    for venue in VENUES:
        table = pl.read_parquet(folder / f"{venue}_{symbol}_{day}.snapshots.parquet")
        last = table.filter(pl.col("ts_event").cast(pl.Int64) <= stamp).tail(1)
        tables += [
            last.select(
                pl.lit(venue).alias("venue"),
                pl.col(f"{side}_px_{level:02d}").alias("price"),
                pl.col(f"{side}_sz_{level:02d}").cast(pl.Float64).alias("size"),
            )
            for level in range(LEVELS)
        ]
    return pl.concat(tables).sort(sign * pl.col("price"))


def swept_cost(folder: Path, kind: Kind, order: dict[str, Any]) -> float:
    """Return the cost of sweeping an order a millisecond after its arrival, in the quote currency."""
    stamp, sign = order["time"] + SECOND // 1000, order["sign"]
    book = levels_at(folder, kind.instrument.symbol, order["day"], stamp, sign)
    before = (pl.col("size").cum_sum() - pl.col("size")).alias("before")
    taken = book.with_columns(before).with_columns(
        taken=pl.min_horizontal("size", pl.max_horizontal(kind.order - pl.col("before"), 0.0))
    )
    lost = taken.select((sign * (pl.col("price") - order["mid"]) * pl.col("taken")).sum()).item()
    return float(lost) * float(kind.instrument.multiplier)


def test_costs_of_a_backtest_are_those_of_the_recorded_books(
    kind: Kind, market: Path, backtested: BacktestResult, tmp_path: Path
) -> None:
    backtested.write(tmp_path)
    orders = pl.read_parquet(tmp_path / "orders.parquet").filter(pl.col("router") == "sweep")
    known = orders.filter(pl.col("estimated") == 0)
    assert orders.height == 24
    assert known.height > 6
    assert set(orders["quantity"]) == {kind.order}
    assert set(orders["currency"]) == {kind.instrument.currency}
    multiplier = float(kind.instrument.multiplier)
    for order in known.iter_rows(named=True):
        by_hand = swept_cost(market, kind, order)
        value = kind.order * order["mid"] * multiplier
        assert abs(order["cost"] - by_hand) / value < 1e-12
    judged = known.filter("judged")
    costs = [swept_cost(market, kind, order) for order in judged.iter_rows(named=True)]
    bps = 1e4 * np.array(costs) / (kind.order * judged["mid"].to_numpy() * multiplier)
    again = judged.select(1e4 * pl.col("cost") / (pl.col("quantity") * pl.col("mid") * pl.col("multiplier")))
    assert np.abs(again.to_series().to_numpy() - bps).max() < 1e-9
    fills = pl.read_parquet(tmp_path / "fills.parquet").filter(pl.col("router") == "sweep")
    assert abs(float(fills["quantity"].sum()) - 24 * kind.order) < 1e-9


def test_a_backtest_names_what_it_counts(kind: Kind, backtested: BacktestResult, tmp_path: Path) -> None:
    text = str(backtested)
    assert f"12 judged orders of {kind.ordered}, 0 s each" in text
    backtested.write(tmp_path)
    assert f"orders of {kind.ordered}" in (tmp_path / "costs.txt").read_text()
    content = json.loads((tmp_path / "costs.json").read_text())
    (some,) = content["sizes"].values()
    sweep = next(one for one in some["routers"] if one["router"] == "sweep")
    assert sweep["quantity"] == pytest.approx(12 * kind.order)
    (instrument,) = content["instruments"]
    assert (instrument["quantity"], instrument["currency"]) == (kind.counted, kind.instrument.currency)
    (found,) = backtested.to_json()["comparisons"].values()
    assert found["quantity"] == kind.order
    if kind is COIN:
        for written in ("costs.txt", "costs.json"):
            assert not FOREIGN.search((tmp_path / written).read_text())
        assert not FOREIGN.search(text + json.dumps(backtested.to_json()))


@pytest.fixture(scope="module")
def studied(kind: Kind, market: Path) -> rr.StudyResult:
    study = rr.Study(
        market=str(market), quantities=kind.order, horizons=0, orders=12, routers=["primary"], surface_orders=0
    )
    return study.run(kept=market.parent, backend=HERE, out=market.parent / "study")


def visible(page: str) -> str:
    """Return the text of a page with its hover texts, without styles and tags."""
    return re.sub(r"<[^>]*>", " ", page.partition("<body")[2])


def test_a_study_names_what_it_counts(kind: Kind, market: Path, studied: rr.StudyResult) -> None:
    (case,) = studied.cases
    assert (case.quantity, case.currency, case.size) == (kind.order, kind.instrument.currency, kind.ordered)
    assert f"orders of {kind.ordered} of {kind.instrument.symbol} for immediate execution" in studied.answer
    assert "Assumes no fees, no market impact (" in studied.answer
    assert rr.StudyResult.from_json(json.loads(json.dumps(studied.to_json()))) == studied
    folder = market.parent / "study"
    text = visible(write_study_page(studied, folder).read_text())
    assert f"{kind.ordered} of {kind.instrument.symbol}" in text
    assert f"{kind.counted} displayed" in text
    assert f"amounts in {kind.instrument.currency}" in text
    assert re.search(rf"mid {kind.typical}", text)
    routing = pl.read_csv(folder / "routing.csv")
    assert set(routing["quantity"]) == {kind.order}
    plain = json.loads((folder / "study.json").read_text())["cases"][0]
    assert (plain["quantity"], plain["currency"]) == (kind.order, kind.instrument.currency)
    if kind is COIN:
        assert not FOREIGN.search(text)
        for name in ("study.json", "study.txt", "routing.csv"):
            assert not FOREIGN.search((folder / name).read_text()), name


def test_examples_show_the_recorded_levels(kind: Kind, market: Path, studied: rr.StudyResult) -> None:
    (case,) = studied.cases
    for example in case.examples:
        assert example.quantity == kind.order
        assert sum(fill.quantity for fill in example.fills) == pytest.approx(kind.order, rel=1e-12)
        clock = dt.time.fromisoformat(example.time)
        stamp = clock_stamp(dt.date.fromisoformat(example.day), clock, kind.instrument.zone)
        best = levels_at(market, kind.instrument.symbol, example.day, stamp, 1).filter(
            pl.col("price") == pl.col("price").min()
        )
        shown = [level for level in example.levels if level.side == "ask" and level.price == best["price"][0]]
        assert sum(level.quantity for level in shown) == pytest.approx(best["size"].sum(), rel=1e-12)


def test_savings_are_amounts_of_the_quote_currency(kind: Kind, backtested: BacktestResult) -> None:
    """A case's saving per order is the mean difference of the costs in the tables."""
    orders = backtested.tables.orders
    found = backtested.comparison
    paired = found.routers["primary"].paired
    assert paired is not None
    saving = _headline_saving(found, "primary", paired, orders)
    means = orders.filter("judged").group_by("router").agg(pl.col("cost").mean()).rows()
    assert saving.amount_per_order is not None
    assert saving.amount_per_order.mean == pytest.approx(dict(means)["sweep"] - dict(means)["primary"], rel=1e-9)


def test_amounts_of_a_study_have_the_currency(kind: Kind, studied: rr.StudyResult, tmp_path: Path) -> None:
    """The page, the table and the answer state the same saving."""
    (case,) = studied.cases
    paired = case.comparison.routers["primary"].paired
    assert paired is not None
    value = kind.order * (case.price or 0.0) * float(kind.instrument.multiplier) / 1e4
    per_bp = CaseEstimate(value, 0.5 * value, 2 * value)
    saving = CaseSaving("primary", "sweep", CaseEstimate(1.0, 0.5, 2.0), per_bp, per_bp, None, per_bp.times(1000))
    result = replace(
        studied, cases=(replace(case, chosen="primary", use="primary", reason="beats", saving=saving, verdict=True),)
    )
    digits = 2 if value >= 1 else 3
    each, many = f"{value:,.{digits}f} {case.currency}", f"{1000 * value:,.2f} {case.currency}"
    assert f"{each} per order, {many} per 1,000 orders" in result.answer
    assert re.search(rf"{re.escape(each)}\s+{re.escape(many)}", str(result))
    text = visible(write_study_page(result, tmp_path).read_text())
    assert re.search(rf"saving per order, {case.currency}\s+{re.escape(each)}", text)
    if kind is COIN:
        assert not FOREIGN.search(text + str(result))


@pytest.mark.parametrize(
    ("quantity", "fields", "message"),
    [
        (0.250001, {}, r"quantity must be a multiple of 0\.00001 BTC, the unit, was 0\.250001"),
        (0.25, {"lot": "0.1"}, r"positive multiple of 0\.1 BTC, the lot of BTCUSDT, was 0\.25"),
        (0.25, {"minimum_quantity": "0.5"}, r"at least 0\.5 BTC, the minimum of BTCUSDT, was 0\.25"),
        (
            0.25,
            {"minimum_notional": 100_000},
            r"worth at least 100,000 USDT, the minimum of BTCUSDT, was 15,\d{3}[.\d]* USDT",
        ),
    ],
)
def test_orders_that_no_venue_accepts_are_refused(
    quantity: float, fields: dict[str, Any], message: str, tmp_path: Path
) -> None:
    values = COIN.instrument.to_json() | {name: str(value) for name, value in fields.items()}
    record(tmp_path / "books", Kind(instrument_of(**values), *list(vars(COIN).values())[1:]))
    with pytest.raises(InputError, match=message):
        rr.backtest(tmp_path / "books", quantities=quantity, orders=4, kept=tmp_path, backend=HERE)


def test_routes_print_natural_quantities_and_amounts(tmp_path: Path, capsys: Any) -> None:
    venues = {
        "XONE": {"bids": [[61_734.1, 0.2]], "asks": [[61_734.3, 0.1]]},
        "XTWO": {"bids": [[61_734.0, 0.3]], "asks": [[61_734.4, 0.4]]},
    }
    coin = {"symbol": "BTCUSDT", "unit": "0.00001", "tick": "0.1", "quantity": "BTC", "currency": "USDT"}
    (tmp_path / "books.json").write_text(json.dumps({"venues": venues, "instrument": coin}))
    words = ["route", str(tmp_path / "books.json"), "--side", "buy", "--quantity", "0.25"]
    assert run_app([*words, "--json", str(tmp_path / "answer.json")]) == 0
    text = capsys.readouterr().out
    mid = (61_734.1 + 61_734.3) / 2
    paid = 0.1 * 61_734.3 + 0.15 * 61_734.4
    cost = paid - 0.25 * mid
    assert "buy 0.25 BTC of BTCUSDT at a mid of 61,734.2, cost with fees " in text
    assert f"cost with fees {cost:.3f} USDT ({1e4 * cost / (0.25 * mid):.2f} bps)" in text
    assert f"the order costs {paid:,.2f} USDT in total" in text
    assert not FOREIGN.search(text)
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["take"] == {"XONE": 0.1, "XTWO": 0.15}
    assert (answer["quantity"], answer["currency"]) == (0.25, "USDT")
    assert answer["cost_if_swept"] == pytest.approx(cost, rel=1e-9)
    assert answer["net"] == pytest.approx(paid, rel=1e-12)
    assert not FOREIGN.search(json.dumps(answer))
    assert run_app([*words[:-1], "0.000001"]) == 2
    assert "quantity must be a multiple of 0.00001 BTC, the unit, was 0.000001" in capsys.readouterr().err


def test_a_route_of_futures_has_the_multiplier(tmp_path: Path, capsys: Any) -> None:
    venues = {"XCME": {"bids": [[5250.25, 3]], "asks": [[5250.5, 2], [5250.75, 9]], "taker": "0.85 per contract"}}
    future = {"symbol": "ESU4", "tick": "0.25", "quantity": "contracts", "currency": "USD", "multiplier": 50}
    (tmp_path / "books.json").write_text(json.dumps({"venues": venues, "instrument": future}))
    words = ["route", str(tmp_path / "books.json"), "--side", "buy", "--quantity", "3"]
    assert run_app([*words, "--json", str(tmp_path / "answer.json")]) == 0
    text = capsys.readouterr().out
    mid, paid = 5250.375, 50 * (2 * 5250.5 + 5250.75) + 3 * 0.85
    assert "buy 3 contracts of ESU4 at a mid of 5,250.375, " in text
    assert f"cost with fees {paid - 150 * mid:.2f} USD" in text
    assert f"the order costs {paid:,.2f} USD in total" in text
    assert "0.85 USD per contract" in text
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["expected_cost"] == pytest.approx(paid - 150 * mid, rel=1e-9)
    assert answer["children"][0]["fee"] == "0.85 USD per contract"


def test_several_instruments_are_named_each(tmp_path: Path) -> None:
    """Pooled orders of two coins, quoted in different currencies, have no common amount."""
    other = instrument_of("ETHEUR", unit="0.0001", tick="0.01", quantity="ETH", currency="EUR", zone="UTC")
    record(tmp_path / "books", COIN)
    record(tmp_path / "books", Kind(other, 250_000, 20_000, 0.25, "0.25 ETH", "ETH", ""))
    study = rr.Study(
        market=str(tmp_path / "books"), quantities=0.25, horizons=0, orders=6, routers=["primary"], surface_orders=0
    )
    *single, pooled = study.run(kept=tmp_path, backend=HERE).cases
    assert [case.size for case in single] == ["0.25 BTC", "0.25 ETH"]
    assert (pooled.size, pooled.currency) == ("0.25 BTC or 0.25 ETH", "")
    assert [one.symbol for one in pooled.instruments] == ["BTCUSDT", "ETHEUR"]
    assert pooled.saving is None or pooled.saving.amount_per_order is None
    assert single[0].instruments[0].protection == NO_PROTECTION


CENTS = Kind(instrument_of("QVEX", zone="UTC"), 4_802, 40, 20, "20 shares", "shares", "")
POOL = {"name": "P", "presence": 0.5, "tail": 1.0, "smallest": 4}


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the same books twice: of shares, and of hundredths of coins with a multiplier of 5."""
    coin = instrument_of("QVEX", unit="0.01", quantity="COIN", currency="USDC", multiplier=5, zone="UTC")
    folder = tmp_path_factory.mktemp("twins")
    return record(folder / "shares", CENTS), record(folder / "coins", replace(CENTS, instrument=coin))


def test_a_split_study_has_natural_quantities_and_amounts(twins: tuple[Path, Path], tmp_path: Path) -> None:
    small: dict[str, Any] = {"date": DAYS[0], "train": "10:00-10:14", "test": "10:14-10:28", "bucket_minutes": 1.0}
    small |= {"repeats": 2, "horizon": 20, "runs": 1, "policies": ["uniform"], "risk_tolerances": 2.0}
    found = []
    for place, one in zip(twins, (1, 0.01), strict=True):
        pool = POOL | {"smallest": 4 * one}
        study = rr.SplitStudy(data=str(place), quantities=20 * one, dark=[pool], caps={"XONE": 15 * one}, **small)
        found.append(study.run(backend=HERE))
    (shares,), (coins,) = (result.orders for result in found)
    assert (coins.quantity, coins.size, coins.lot) == (0.2, "0.2 COIN", 0.01)
    assert coins.caps == pytest.approx([0.01 * cap for cap in shares.caps])
    even, other = (one.splits["equal split"] for one in (shares, coins))
    assert other.allocation == pytest.approx([0.01 * units for units in even.allocation])
    assert other.test.cost == pytest.approx(0.05 * even.test.cost)  # a unit is worth 0.01 times 5
    assert other.test.per_one == pytest.approx(5 * even.test.per_one)
    assert other.test.basis_points == pytest.approx(even.test.basis_points)
    assert coins.mid.test == pytest.approx(shares.mid.test)
    for slot, model in shares.models.items():
        assert coins.models[slot].mean == pytest.approx((5 * model.mean[0], 500 * model.mean[1]), abs=1e-9)
        assert coins.models[slot].variance[1] == pytest.approx(0.05**2 * model.variance[1] / 0.01**2, abs=1e-9)
    text = repr(found[1])
    assert text.startswith("Sell 0.2 COIN by sending 0.")
    assert f"{coins.recommended.test.per_one:.3f} USDC per COIN" in text
    (page, markdown) = rr.write_split_page(found[1], tmp_path)
    for written in (visible(page.read_text()), markdown.read_text(), json.dumps(found[1].summary()), text):
        assert not FOREIGN.search(written)
    with pytest.raises(InputError, match=r"quantities must be multiples of the lot, 0\.03 COIN, was 0\.2 COIN"):
        rr.SplitStudy(data=str(twins[1]), quantities=0.2, lot=0.03, **small).run(backend=HERE)


def test_calibration_has_natural_quantities(twins: tuple[Path, Path], tmp_path: Path, capsys: Any) -> None:
    words = ["--symbol", "QVEX", "--date", str(DAYS[0]), "--hours", "10:00-10:28", "--buckets", "28"]
    plain = []
    for place, quantities in zip(twins, ("1:10", "0.01:0.1:0.01"), strict=True):
        out = tmp_path / place.name
        more = ["--quantities", quantities, "--json", str(out / "found.json"), "--out", str(out)]
        assert run_app(["market", "calibrate", str(place), *words, *more]) == 0
        plain.append(json.loads((out / "found.json").read_text())["venues"])
    said = capsys.readouterr().out
    assert "quantities in shares, profits in USD" in said
    assert "quantities in COIN, profits in USDC" in said
    for venue, fit in plain[0].items():
        other = plain[1][venue]
        assert other["quantities"] == pytest.approx([0.01 * units for units in fit["quantities"]])
        assert other["mean"] == pytest.approx([5 * fit["mean"][0], 500 * fit["mean"][1]], abs=1e-9)
        assert other["means"] == pytest.approx([0.05 * mean for mean in fit["means"]], abs=1e-9)


def test_medians_of_recordings_name_what_they_count(twins: tuple[Path, Path], capsys: Any) -> None:
    assert run_app(["market", "inspect", str(twins[1])]) == 0
    row = next(line for line in reversed(capsys.readouterr().out.splitlines()) if line.startswith("XTWO"))
    table = pl.read_parquet(twins[1] / f"XTWO_QVEX_{DAYS[1]}.snapshots.parquet")
    depth = table.select(pl.sum_horizontal(f"bid_sz_{level:02d}" for level in range(LEVELS))).to_series().to_numpy()
    assert "USDC" in row
    assert f"{np.median(depth):.4f}".rstrip("0").rstrip(".") + " COIN" in row
