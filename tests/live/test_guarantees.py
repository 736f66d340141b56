"""The guarantees in the documentation name existing tests."""

from __future__ import annotations

import re

from checkout import ROOT


def test_every_test_named_with_a_guarantee_exists() -> None:
    page = (ROOT / "docs" / "live.md").read_text()
    guarantees = page.partition("## Guarantees")[2].partition("###")[0]
    rows = [line for line in guarantees.splitlines() if line.startswith("| ") and not line.startswith("| guarantee")]
    assert len(rows) >= 12
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), flags=re.MULTILINE)
    }
    for row in rows:
        named = set(re.findall(r"`(test_\w+)`", row))
        assert named, row
        assert named <= there, named - there
