"""The source stays small: files, lines, public names and constants have a ceiling."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import riskroute
from count_code import count_module, count_rooms

# Raised: from 52,000 lines for instruments, fees and readers of markets other than US equities, and from 58,000 for
# price benchmarks, the parts of the headroom, risk profiles and their frontier, fair verdicts, and places of the live
# router that go down; from 60,000 for venues of others: quote sources, limits of sessions, reconciliation, conformance;
# from 61,500 lines and 930 names for exchanges of ccxt and paper trading.
LIMITS = {"files": 285, "lines": 62_500, "public": 960, "constants": 500}


def test_the_source_stays_below_its_limits() -> None:
    total = sum(count_rooms(Path(riskroute.__file__).parent).values(), Counter[str]())
    assert {name: total[name] for name, limit in LIMITS.items() if total[name] > limit} == {}


def test_names_and_constants_at_module_level_are_counted() -> None:
    text = "A, _B = 1, 2\nC: int = 3\nd = 4\n\ndef f(): G = 1\n\ndef _g(): pass\n\nclass H: I = 1\n"
    assert count_module(text) == {"files": 1, "lines": 9, "public": 2, "constants": 3}
