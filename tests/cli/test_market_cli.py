"""`riskroute market`: from a synthetic market to venue models and figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from checkout import ROOT
from market_files import csv_text
from riskroute.cli.app import run_app as command
from riskroute.cli.market import _named_as_options, _quantities
from riskroute.core.errors import DataError, InputError
from riskroute.market.calibration import calibrate
from riskroute.market.clock import TimeWindow
from riskroute.market.dark_pools import DarkPool
from riskroute.market.recordings import RecordingStore
from riskroute.market.sampling import draw_sample_times, sample_closest_books
from riskroute.routing.venue_models import load_venue_models, venue_problem

NAMES = ("03272019.NASDAQ_ITCH50", "20190327.BX_ITCH_50", "20190327.PSX_ITCH_50")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a generated market in ``market`` and its books in ``books``."""
    here = tmp_path_factory.mktemp("cli")
    words = ["--out", str(here / "market"), "--symbols", "QVEX, ZORN", "--hours", "10:58-13:00", "--rate", "0.5"]
    assert command(["market", "generate", *words]) == 0
    files = [str(here / "market" / name) for name in NAMES]
    assert command(["market", "import", *files, "--symbol", "qvex", "--out", str(here / "books")]) == 0
    return here


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert command(["market", *words]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert command(["market", *words]) == 2
    text = capsys.readouterr().err
    assert len(text.strip().splitlines()) == 1
    return text


def test_a_market_is_generated_and_imported(folder: Path) -> None:
    assert sorted(path.name for path in (folder / "market").iterdir()) == sorted(NAMES)
    stems = {path.name.split(".")[0] for path in (folder / "books").iterdir()}
    assert stems == {f"{venue}_QVEX_2019-03-27" for venue in ("XNAS", "XBOS", "XPSX")}


def test_a_folder_is_imported_and_venues_are_renamed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "files").mkdir()
    rows = "".join(f"2019-03-27 10:00:0{k},{venue},9.99,5,10.01,5\n" for k in range(3) for venue in ("A", "B"))
    (tmp_path / "files" / "books.csv").write_text(f"time,venue,bid,bid_size,ask,ask_size\n{rows}")
    (tmp_path / "files" / "notes.txt").write_text("mine\n")
    words = ["import", str(tmp_path / "files"), "--symbol", "ACME", "--out", str(tmp_path / "out")]
    text = said(capsys, *words, "--venue", "A=XNAS", "--venue", "B=XBOS")
    assert "XBOS_ACME_2019-03-27" in text
    assert "XNAS_ACME_2019-03-27" in text
    notes = tmp_path / "files" / "notes.txt"
    assert f"skipped: {notes} has no column ts_event; it has mine" in text
    assert "--venue OLD=NEW renames one of them" in refused(capsys, *words, "--venue", "XNAS")
    for wrong in (["A=X", "Y"], ["X", "Y"], ["=X"], ["A="]):
        options = [word for value in wrong for word in ("--venue", value)]
        assert "--venue must be one NAME, or OLD=NEW for each venue to rename, was" in refused(capsys, *words, *options)
    assert "XNAS_ACME.B_" in said(
        capsys, *words[:3], "ACME=ACME.B", *words[4:], "--venue", "A=XNAS", "--venue", "B=XBOS"
    )
    for text in ("=X", "A=", ""):
        assert "--symbol must be NAME or OLD=NEW, was" in refused(capsys, *words[:3], text, *words[4:])
    assert "--venue must rename each venue once" in refused(capsys, *words, "--venue", "A=X", "--venue", "A=Y")


def test_inspect_summarises_a_folder(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "inspect", str(folder / "books"), "--json", str(tmp_path / "x.json"))
    assert "XPSX_QVEX_2019-03-27" in text
    found = json.loads((tmp_path / "x.json").read_text())
    spreads = {stem[:4]: one["spread"] for stem, one in found.items()}
    assert spreads["XNAS"] < 0.3 < 1.5 < spreads["XPSX"] < spreads["XBOS"]
    assert all(one["crossed"] == one["unresolved"] == 0 < one["references"] for one in found.values())


@pytest.mark.usefixtures("untraced")
def test_calibrate_writes_the_files_it_names(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "models"
    words = ["--symbol", "QVEX", "--json", str(tmp_path / "c.json"), "--out", str(out), "--limit", "--dark", "1"]
    words += ["--venue", "XNAS", "--venue", "XPSX"]
    text = said(capsys, "calibrate", str(folder / "books"), *words, "--dark-pool", "0.5:1.5:10")
    venues = json.loads((tmp_path / "c.json").read_text())["venues"]
    assert list(venues) == ["XNAS", "XNAS limit", "XPSX", "XPSX limit", "Pool 1"]
    for one in venues.values():
        assert {"mean", "variance", "r2_mean", "r2_variance", "short", "samples"} <= set(one)
        assert one["samples"] == 60
    assert venues["XNAS"]["mean"][0] == pytest.approx(-0.07, abs=0.02)
    assert venues["XNAS limit"]["mean"][0] > venues["XPSX"]["mean"][0]
    assert {path.name for path in out.iterdir()} == {"venues.toml", "points.parquet", "fits.png"}
    assert polars.read_parquet(out / "points.parquet").height == 5 * 10
    models = load_venue_models(out / "venues.toml")
    assert [model.name for model in models] == [*venues, "Dark 1"]
    assert venue_problem(models, 5).actions.size == 252
    for path in (tmp_path / "c.json", *out.iterdir()):
        assert f"wrote {path}" in text


def test_the_seed_decides_the_sample(folder: Path, tmp_path: Path) -> None:
    kept = []
    for seed in (0, 0, 1):
        words = ["calibrate", str(folder / "books"), "--symbol", "QVEX", "--seed", str(seed)]
        assert command(["market", *words, "--json", str(tmp_path / "c.json")]) == 0
        kept.append(json.loads((tmp_path / "c.json").read_text())["venues"])
    assert kept[0] == kept[1] != kept[2]


def test_fees_of_the_example_change_the_cost(folder: Path, tmp_path: Path) -> None:
    fees = ROOT / "docs" / "fees.toml"
    costs = []
    for more in ([], ["--fees", str(fees)]):
        words = ["calibrate", str(folder / "books"), "--symbol", "QVEX", "--json", str(tmp_path / "c.json"), *more]
        assert command(["market", *words]) == 0
        venues = json.loads((tmp_path / "c.json").read_text())["venues"]
        costs.append({name: one["mean"][0] for name, one in venues.items()})
    assert costs[1]["XNAS"] < costs[0]["XNAS"]
    assert costs[1]["XBOS"] > costs[0]["XBOS"]  # inverted: takers are paid


def test_a_pool_in_calibration_is_its_own_simulation(folder: Path) -> None:
    """Mean and variance over all draws and buckets, with the rest crossing at the venue with the most books."""
    store, pool = RecordingStore(folder / "books"), DarkPool(presence=0.5, tail=1.5, smallest=3, name="P")
    found = calibrate(store, "QVEX", quantities=[2, 5, 9], seed=3, pools=[pool], fees=None)
    recording = next(one for one in store.recordings() if one.venue == "XNAS")
    sample_times = draw_sample_times(recording.date, TimeWindow(), 3)
    books = sample_closest_books(store.snapshots(recording), sample_times)
    profits = pool.profits(books, [2, 5, 9], seed=3, draws=100).profits
    np.testing.assert_allclose(found.fits["P"].means, profits.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.fits["P"].variances, profits.var(axis=0, ddof=1), rtol=1e-9)
    assert found.kinds["P"] == "dark"
    assert found.models[-1].kind == "dark"
    with pytest.raises(InputError, match="expected pools with distinct names"):
        calibrate(store, "QVEX", pools=[pool, pool])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:4", [1, 2, 3, 4]), ("10:30:10", [10, 20, 30]), ("1:10:4", [1, 5, 9, 10]), ("3:4:7", [3, 4])],
)
def test_quantities_include_both_ends(text: str, expected: list[int]) -> None:
    assert _quantities(text) == expected


@pytest.mark.parametrize("text", ["5", "4:2", "0:3", "a:b", "1:5:0", "1:2:3:4", "", "1:", "1:99999999999", "1:1"])
def test_bad_quantities_are_one_line(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = refused(capsys, "calibrate", str(folder / "books"), "--symbol", "QVEX", f"--quantities={text}")
    assert "--quantities must be" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["calibrate", "BOOKS", "--symbol", "QVX"], "did you mean QVEX?"),
        (["calibrate", "BOOKS", "--symbol", "QVEX", "--side", "both"], "side must be one of buy, sell, was 'both'"),
        (
            ["calibrate", "BOOKS", "--symbol", "QVEX", "--hours", "13-11"],
            "hours must be two times of the session 00:00-24:00 America/New_York, the first before the second",
        ),
        (["calibrate", "BOOKS", "--symbol", "QVEX", "--hours", "noon"], "--hours must be two times"),
        (
            ["calibrate", "BOOKS", "--symbol", "QVEX", "--buckets", "1"],
            "buckets must be an integer of at least 2, was 1",
        ),
        (["calibrate", "BOOKS", "--symbol", "QVEX", "--date", "27.3."], "--date must be a day, for example 2019-03-27"),
        (["calibrate", "BOOKS", "--symbol", "QVEX", "--date", "2019-03-28"], "--date must be one of 2019-03-27, was"),
        (["calibrate", "BOOKS", "--symbol", "QVEX", "--dark-pool", "x"], "--dark-pool must be PRESENCE:TAIL"),
        (["calibrate", "BOOKS", "--symbol", "QVEX", "--dark-pool", "2:1"], "presence must be a number"),
        (["calibrate", "BOOKS", "--symbol", "QVEX", "--venue", "XNYS"], "venue must be one of"),
        (["calibrate", "BOOKS", "--symbol", "QVEX", "--fees", "nowhere.toml"], "nowhere.toml must be"),
        (["calibrate", "BOOKS", "--symbol", "QVEX", "--json", "x.txt"], "--json file ending must be one of .json"),
        (["calibrate", "nowhere", "--symbol", "QVEX"], "folder must hold imported market data, was 'nowhere'"),
        (["inspect", "nowhere"], "folder must hold imported market data, was 'nowhere'"),
        (["inspect", "MARKET"], "no imported market data in"),
        (["import", "nowhere.itch", "--symbol", "A"], "no such file: 'nowhere.itch'"),
        (["import", "FILE"], "03272019.NASDAQ_ITCH50 has 2 symbols (QVEX, ZORN); give --symbol"),
        (["import", "FILE", "--symbol", "ZOR"], "did you mean ZORN"),
        (["import", "FILE", "--symbol", "QVEX", "--format", "fix"], "--format must be one of itch, lobster"),
        (["import", "FILE", "--symbol", "QVEX", "--column", "bid"], "--column must be OURS=THEIRS, was 'bid'"),
        (["import", "FILE", "--symbol", "QVEX", "--hours", "15-16"], "has no snapshots of QVEX in the requested part"),
        (["import", "FILE", "--symbol", "QVEX", "--depth", "0"], "depth must be a positive integer, was 0"),
        (["generate", "--symbols", "TOOLONGNAME"], "symbol"),
        (["generate", "--rate", "0"], "rate must be"),
        (["generate", "--hours", "10"], "--hours must be two times such as 11:00-13:00, was '10'"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str],
    message: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"BOOKS": folder / "books", "MARKET": folder / "market", "FILE": folder / "market" / NAMES[0]}
    assert message in refused(capsys, *(str(places.get(word, word)) for word in words))
    assert not list(tmp_path.iterdir())


def test_errors_of_an_import_name_the_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The library names its parameters, the command its options."""
    columns: dict[str, list[Any]] = {
        "ts_event": [1_553_700_000_000_000_000 + k * 10**9 for k in range(40)],
        "symbol": ["ACME"] * 40,
        "bid_px_00": [99.0] * 30 + [101.0] * 10,
        "bid_sz_00": [5] * 40,
        "ask_px_00": [100.0] * 40,
        "ask_sz_00": [5] * 40,
    }
    (tmp_path / "crossed.csv").write_text(csv_text(columns))
    (tmp_path / "unknown.csv").write_text(csv_text(columns).replace("bid_px_00", "b"))
    words = ["--venue", "XABC", "--out", str(tmp_path / "books")]
    text = refused(capsys, "import", str(tmp_path / "crossed.csv"), *words)
    assert "was 25.0% (10 of 40); --max-crossed 0.26 imports it anyway" in text
    text = refused(capsys, "import", str(tmp_path / "unknown.csv"), *words)
    assert "lacks columns bid_px_00; it has ts_event, symbol, b, " in text
    with pytest.raises(InputError, match=r"^--out must be a writable folder"), _named_as_options():
        raise InputError("out must be a writable folder, was 'x': full")
    with pytest.raises(DataError, match=r"^a\.itch .*; --max-unresolved 0\.15 imports"), _named_as_options():
        raise DataError("a.itch must have few; max_unresolved = 0.15 imports it anyway")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "itch_book", None)
    assert "pip install 'riskroute[market]'" in refused(capsys, "generate")


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("generate", "import", "inspect", "calibrate"):
        assert "Example" in said(capsys, name, "--help")


@pytest.mark.parametrize(
    "name", ["figure3", "table", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("figure1", "figure5"))]
)
def test_figures_are_made_from_given_books(
    name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", name, "--data", str(folder / "books"), "--out", str(tmp_path)]
    assert command(words) == 0
    endings = {path.name.removeprefix(name) for path in (tmp_path / name).iterdir()} - {"claims.md"}
    assert endings == {".png", ".json", ".parquet", ".config.json"}
    assert (tmp_path / name / f"{name}.png").stat().st_size > 10_000
    summary = json.loads((tmp_path / name / f"{name}.json").read_text())
    assert summary["data"] == f"QVEX in {folder / 'books'}"
    if name != "figure3":
        claims = (tmp_path / name / "claims.md").read_text()
        assert claims.count("| yes |") == 2
        assert all(fit["r2_mean"] > 0.99 for fit in summary["venues"].values())
    else:
        matched = polars.read_parquet(tmp_path / name / "figure3.parquet")
        assert sorted(matched["bucket"].unique()) == [0, 1, 2, 3]
        book = summary["picture"]["book"]
        assert sum(book["taken"]) == int(0.7 * sum(book["sizes"]))
        money = sum(p * q for p, q in zip(book["prices"], book["taken"], strict=True))
        assert book["profit"] == pytest.approx(money - book["mid"] * sum(book["taken"]))
    if name == "table":
        table = polars.read_parquet(tmp_path / name / "table.parquet")
        assert table["source"].value_counts().sort("source").rows() == [("here", 5), ("paper", 5)]
    assert "the paper's" in capsys.readouterr().out or name == "figure3"


@pytest.mark.usefixtures("untraced", "unpainted")
def test_a_synthetic_market_is_the_default(tmp_path: Path) -> None:
    assert command(["reproduce", "figure1", "--out", str(tmp_path)]) == 0
    assert len(list((tmp_path / "market" / "books").glob("*.record.json"))) == 3
    summary = json.loads((tmp_path / "figure1" / "figure1.json").read_text())
    assert summary["data"] == "QVEX of the synthetic market, seed 0"


@pytest.mark.parametrize(
    ("experiment", "option", "value"),
    [
        ("figure1", "--runs", "3"),
        ("table", "--panel", "a"),
        ("figure5", "--policy", "rise"),
        ("figure1", "--horizon", "50"),
        ("figure2", "--data", "books"),
        ("figure4", "--symbol", "QVEX"),
        ("instances", "--date", "2019-03-27"),
    ],
)
def test_options_without_effect_are_refused(
    experiment: str, option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["reproduce", experiment, option, value, "--out", str(tmp_path / "x")]) == 2
    assert f"{option} does not apply to {experiment}, was" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
