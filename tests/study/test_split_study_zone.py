"""What a study says of recordings in another zone, and in units of their own."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np

from market_files import MIDNIGHT, random_updates, tardis_text
from riskroute.market.importing import import_books, import_files
from riskroute.market.readers.reading import ReadingOptions
from riskroute.study.split_study import _market_facts


def test_zone_and_unit_are_facts_of_themarket_facts(tmp_path: Path) -> None:
    path = tmp_path / "updates.csv"
    path.write_text(tardis_text(random_updates(np.random.default_rng(1)), MIDNIGHT // 1000))
    import_files([path], tmp_path / "books", ReadingOptions(depth=2))
    facts = _market_facts(import_books(tmp_path / "books", None, tmp_path, 0), "sell")
    assert (facts.zone, facts.date) == ("UTC", str(dt.date(2019, 3, 27)))
    assert len(facts.recordings) == 1
