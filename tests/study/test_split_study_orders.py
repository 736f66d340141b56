"""What a study makes of books: which slots it can use, how much they take, and what it says if they do not suffice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars
import pytest

from market_files import csv_text
from pages import Page, cells_of
from riskroute import DataError, InputError
from riskroute.core.records import from_plain
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.simulation.backends import Backend
from riskroute.study.config import split_config
from riskroute.study.split_result import SplitStudyResult, write_split_page
from riskroute.study.split_study import SplitStudy, SplitStudyOrder, _prepare_order, _study_data

HOURS: dict[str, Any] = {"train": "10:40-10:50", "test": "10:50-11:00", "bucket_minutes": 1.0, "repeats": 2}
POOL = {"name": "P1", "presence": 0.0, "tail": 1.0, "venue": "XAAA"}


def books_of(folder: Path, venue: str, present: Sequence[int], *, size: int = 50, later: float = 1.0) -> Path:
    """Books of one venue at both ends of some of the twenty minutes from 10:40 on; the spread moves a little.

    Prices are ``later`` times as high from the eleventh minute on.
    """
    minutes = [minute for minute in present for _ in range(2)]
    count = len(minutes)
    columns: dict[str, list[object]] = {
        "ts_event": [1_553_697_600_000_000_000 + (60 * m + 30 * (k % 2) + 5) * 10**9 for k, m in enumerate(minutes)],
        "symbol": ["ACME"] * count,
        "venue": [venue] * count,
        "bid_px_00": [(99.0 + 0.01 * (m % 3)) * (later if m >= 10 else 1) for m in minutes],
        "bid_sz_00": [size] * count,
        "ask_px_00": [100.0 * (later if m >= 10 else 1) for m in minutes],
        "ask_sz_00": [size] * count,
    }
    path = folder / f"{venue}_20190327.csv"
    path.write_text(csv_text(columns))
    return path


def prepared_books(folder: Path, *venues: Path, **values: Any) -> SplitStudyOrder:
    config = split_config({"data": [str(path) for path in venues], **HOURS} | values)
    return _prepare_order(config, _study_data(config, folder / "out"), config.quantities[0])


def test_slots_without_books_are_left_out_and_named(tmp_path: Path) -> None:
    always = range(20)
    whole = [books_of(tmp_path, name, always) for name in ("XAAA", "XAAB")]
    seldom = books_of(tmp_path, "XAAC", [*range(5), *range(10, 20)])
    later = books_of(tmp_path, "XAAD", range(10))
    thin = books_of(tmp_path, "XAAE", always, size=3)
    found = prepared_books(tmp_path, *whole, seldom, later, thin, quantities=20, lot=5)
    assert found.slots == ["XAAA", "XAAB"]
    assert found.unused == {
        "XAAC": "books at 50% of the sample times in the train hours, 95% are needed",
        "XAAD": "books at 0% of the sample times in the test hours, 50% are needed",
        "XAAE": "books for 3 shares, fewer than a lot of 5 shares",
    }
    with pytest.raises(DataError, match=r"expected at least two usable slots, got 1 \(XAAC: books at 50%"):
        prepared_books(tmp_path, whole[0], seldom, quantities=20)
    with pytest.raises(DataError, match=r"expected slots with room for 120 shares together, got 100 shares \(XAAA 50"):
        prepared_books(tmp_path, *whole, quantities=120)
    with pytest.raises(InputError, match="cap of XAAA must be at least one lot of 5 shares, was 4"):
        prepared_books(tmp_path, *whole, quantities=20, lot=5, caps={"XAAA": 4})
    with pytest.raises(InputError, match=r"expected at least two slots, got XAAA; limit = \[\.\.\] or \[\[dark\]\]"):
        prepared_books(tmp_path, whole[0], quantities=20)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> SplitStudyResult:
    """A tiny study of two venues and a dark pool; prices and spreads double between the parts of the day."""
    folder = tmp_path_factory.mktemp("tiny")
    venues = [books_of(folder, name, range(20), later=2.0) for name in ("XAAA", "XAAB")]
    small: dict[str, Any] = {
        "quantities": 20,
        "horizon": 10,
        "runs": 1,
        "policies": ["adaptive", "uniform"],
        "dark": [POOL],
    }
    study = SplitStudy(data=[str(path) for path in venues], **HOURS, **small)
    return study.run(out=folder / "out", backend=Backend("local", 1))


def test_basis_points_are_of_the_mid_of_the_same_hours(result: SplitStudyResult) -> None:
    """The cost doubles as prices do, and its basis points stay what they are."""
    (order,) = result.orders
    found, mid = order.recommended, order.mid
    assert mid.test == pytest.approx(2 * mid.train, rel=1e-3)
    assert found.test.cost == pytest.approx(2 * found.train.cost, rel=0.01)
    for measures, price in ((found.train, mid.train), (found.test, mid.test)):
        points = measures.cost / (20 * price) * 1e4
        assert measures.basis_points == pytest.approx(points) == pytest.approx(50, rel=0.02)


def renamed(value: Any, names: dict[str, str]) -> Any:
    """Plain values with other names in all texts."""
    if isinstance(value, dict):
        return {renamed(key, names): renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, names) for one in value]
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(old, new)
    return value


@pytest.mark.parametrize("hostile", ["<!--<script>", "</script><b>|", "\n# [a](b) `|` <!-- _*~&lt;\u2028"])
def test_a_report_holds_whatever_its_names_are(result: SplitStudyResult, tmp_path: Path, hostile: str) -> None:
    """The check of names left aside: the page has the same elements, and the Markdown the same tables."""
    names = {"XAAA": f"A{hostile}", "P1": f"P{hostile}", "ACME": f"S{hostile}", "ZZZZ": f"L{hostile}"}
    plain_result = result.summary()
    pages, texts = [], []
    for number, more in enumerate(({}, names)):
        changed = {"adaptive": "ZZZZ"}  # names in the configuration are checked: those of the findings are not
        found = {key: renamed(renamed(plain_result[key], changed), more) for key in ("market", "orders")}
        for order in found["orders"]:
            order["instrument"]["symbol"] = "ACME"  # instruments check their names
        page, text = write_split_page(from_plain(SplitStudyResult, plain_result | found), tmp_path / str(number))
        pages.append(Page(page.read_text()))
        texts.append(text.read_text().split("## Settings")[0])
    plain, odd = pages
    assert odd.tags == plain.tags
    assert "script" not in odd.tags
    lines = [text.splitlines() for text in texts]
    assert [line.count("|") for line in lines[1]] == [line.count("|") for line in lines[0]]
    assert [len(cells_of(line)) for line in lines[1]] == [len(cells_of(line)) for line in lines[0]]
    assert max(len(cells_of(line)) for line in lines[1]) == 9
    for line in lines[1]:
        assert not re.search(r"(?<!\\)`|<|(?<!\\)\[", line), line
    assert sum(line.startswith("#") for line in lines[1]) == sum(line.startswith("#") for line in lines[0])


def test_a_report_says_where_levels_are_missing(result: SplitStudyResult, tmp_path: Path) -> None:
    for path in write_split_page(result, tmp_path / "whole"):
        assert "more levels" not in path.read_text().split("<body>")[-1]
        assert "an order may walk" not in path.read_text()
    levels = {"bid_px_01": 98.0, "bid_sz_01": 5, "ask_px_01": 102.0, "ask_sz_01": 5}
    for name in ("XAAA", "XAAB"):
        table = polars.read_csv(books_of(tmp_path, name, range(20)))
        deep = table.with_columns(polars.lit(value).alias(column) for column, value in levels.items())
        deep.write_csv(tmp_path / f"{name}_20190327.csv")
    files = sorted(tmp_path.glob("*.csv"))
    import_files(files, tmp_path / "books", ReadingOptions(depth=1))
    small: dict[str, Any] = {"quantities": 20, "horizon": 10, "runs": 1, "policies": ["uniform"], "levels": 1}
    study = SplitStudy(data=str(tmp_path / "books"), **HOURS, **small)
    found = study.run(out=tmp_path / "out", backend=Backend("local", 1))
    said = "40 of 40 snapshots of XAAB_ACME_2019-03-27 had more levels on a side than the 1 kept."
    kept = found.market.recordings["XAAB_ACME_2019-03-27"]
    assert (kept.cut, kept.deeper, kept.levels) == (said, 40, 1)
    for path in write_split_page(found, tmp_path / "cut"):
        assert said in path.read_text().replace("\\_", "_")
        assert "an order may walk: 1, as configured." in path.read_text()


def test_books_too_thin_to_test_on_are_named(tmp_path: Path) -> None:
    deep, other = (books_of(tmp_path, name, range(20)) for name in ("XAAA", "XAAB"))
    lines = other.read_text().splitlines()
    other.write_text("\n".join([*lines[:21], *(line.replace(",50,", ",2,") for line in lines[21:])]) + "\n")
    found = prepared_books(tmp_path, deep, other, quantities=10)
    with pytest.raises(DataError, match=r"expected deep books .* buckets of test, got 0; XAAB has books for 10 shares"):
        found.replay("test", found.problem(2.0))


def test_large_orders_keep_caps_that_suffice(tmp_path: Path) -> None:
    """Rounded down to halves and quarters of 100 shares, 70 and 40 would leave room for 95: the shared book, and 25."""
    venues = [
        books_of(tmp_path, f"XAA{letter}", range(20), size=size) for letter, size in zip("AB", (70, 40), strict=True)
    ]
    found = prepared_books(
        tmp_path, *venues, quantities=100, lot=1, dark=[POOL, POOL | {"name": "P2"}, POOL | {"name": "P3"}]
    )
    assert found.caps.tolist() == [70, 40, 70, 70, 70]
    assert found.scenarios["train"].room(found.caps) == 110
