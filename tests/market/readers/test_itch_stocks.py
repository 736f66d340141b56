"""ITCH files without their directory, which read as with it, and the days that names of files tell."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from itch_imports import imported, real, refusal, written
from market_files import (
    ITCH_NAME,
    OPEN,
    Message,
    check_recordings,
    gzipped,
    itch_bytes,
    itch_directory,
    itch_order,
    random_messages,
)
from riskroute.market.clock import date_in_name
from riskroute.market.importing import import_files
from riskroute.market.readers import itch
from riskroute.market.readers.reading import ImportOptions

ORDERS = [Message("A", OPEN + 1, 2, "S", 200, 1_000_100), Message("F", OPEN + 2, 3, "B", 100, 999_900)]


def without_directory(content: bytes) -> bytes:
    """The messages of a file that are not of its directory."""
    place, kept = 0, []
    while place < len(content):
        following = place + 2 + int.from_bytes(content[place : place + 2], "big")
        if content[place + 2 : place + 3] != b"R":
            kept.append(content[place:following])
        place = following
    return b"".join(kept)


@pytest.mark.parametrize("block", [7, 100, 1 << 24])
def test_a_file_without_a_directory_has_the_symbols_of_its_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(itch, "BLOCK", block)
    messages = random_messages(8, 60)
    whole, store = imported(written(tmp_path, itch_bytes(messages)), tmp_path / "whole")
    bare = itch_order(Message("A", OPEN, 900, "B", 100, 1_999_900), "ZETA", 2) + without_directory(itch_bytes(messages))
    for name, content in {ITCH_NAME: bare, f"{ITCH_NAME}.gz": gzipped(bare)}.items():
        one, other = imported(written(tmp_path, content, name), tmp_path / name.rsplit(".")[-1])
        for table in ("snapshots", "events"):
            assert getattr(other, table)(one).equals(getattr(store, table)(whole)), "Z's order is where R was"
    assert (one.references, one.unresolved) == (whole.references, 0)
    path = written(tmp_path, bare)
    assert "has 2 symbols (ACME, ZETA)" in refusal(path, ImportOptions())
    assert "did you mean ACME?" in refusal(path, ImportOptions(("ACNE",)))
    both = import_files([path], tmp_path / "both", ImportOptions(("ACME", "ZETA")))
    assert {one.symbol: one.snapshots for one in both} == {"ACME": whole.snapshots, "ZETA": 1}


def test_symbols_with_and_without_a_directory_entry(tmp_path: Path) -> None:
    zeta = [itch_order(Message("A", OPEN + k, 900 + k, "B", 100, 1_999_900), "ZETA", 2) for k in range(2)]
    content = itch_directory("ACME") + zeta[0] + itch_order(ORDERS[0]) + itch_order(ORDERS[1]) + zeta[1]
    content = content.replace(zeta[1], itch_order(Message("A", OPEN + 5, 901, "B", 100, 1_999_900), "ZETA", 2))
    both = import_files([written(tmp_path, content)], tmp_path / "both", ImportOptions(("ACME", "ZETA")))
    assert {one.symbol: (one.snapshots, one.events) for one in both} == {"ACME": (2, 2), "ZETA": (2, 2)}
    check_recordings(tmp_path / "both")
    twice = content + itch_order(Message("A", OPEN + 6, 902, "B", 100, 1_999_900), "OTHER", 2)
    assert "must have one symbol per locate code" in refusal(written(tmp_path, twice), ImportOptions(("ZETA",)))
    again = content + itch_order(Message("A", OPEN + 6, 902, "B", 100, 1_999_900), "ZETA", 3)
    assert "must have one locate code per symbol" in refusal(written(tmp_path, again), ImportOptions(("ZETA",)))
    strange = content + itch_order(Message("A", OPEN + 6, 900, "B", 100, 1_999_900), "OTHER", 4)
    assert "reuses the reference of another" in refusal(written(tmp_path, strange), ImportOptions(("ZETA",)))


@pytest.mark.real_data
def test_a_real_file_reads_the_same_without_its_directory(tmp_path: Path) -> None:
    content = real("AAPL_20200130_premarket_10k.itch50").read_bytes()
    whole, store = imported(written(tmp_path, content, "20200130.itch"), tmp_path / "out", ImportOptions(("AAPL",)))
    bare = written(tmp_path, without_directory(content), "bare_20200130.itch")
    one, other = imported(bare, tmp_path / "bare", ImportOptions(("AAPL",)))
    assert (one.snapshots, one.references, one.unresolved) == (whole.snapshots, whole.references, 0)
    assert other.events(one).drop("sequence").equals(store.events(whole).drop("sequence"))


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("12302019.NASDAQ_ITCH50", dt.date(2019, 12, 30)),
        ("01302020.NASDAQ_ITCH50.gz", dt.date(2020, 1, 30)),
        ("10202019.NASDAQ_ITCH50", dt.date(2019, 10, 20)),
        ("20122011.NASDAQ_ITCH50", dt.date(2011, 12, 20)),
        ("20111220.NASDAQ_ITCH50", dt.date(2011, 12, 20)),
        ("12302019-excerpt.bin", dt.date(2019, 12, 30)),
        ("12302019.BX_ITCH50", dt.date(2019, 12, 30)),
        ("S081321-v50-bx.txt.gz", dt.date(2021, 8, 13)),
        ("20190327.PSX_ITCH_50", dt.date(2019, 3, 27)),
        ("10112012.NASDAQ_ITCH50", dt.date(2012, 10, 11)),
        ("30122019.bin", dt.date(2019, 12, 30)),
        ("10112012.bin", None),
        ("11112012.bin", dt.date(2012, 11, 11)),
        ("20190327_20190328.itch", None),
        ("20190327_2019-03-27.itch", dt.date(2019, 3, 27)),
        ("20102011.bin", dt.date(2011, 10, 20)),
        ("20191340.bin", None),
        ("120190327.bin", None),
    ],
)
def test_days_of_names(name: str, day: dt.date | None) -> None:
    assert date_in_name(name) == day
