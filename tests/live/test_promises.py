"""The promises in the documentation: each names tests that there are."""

from __future__ import annotations

import re

from checkout import ROOT


def test_every_proof_that_the_page_names_is_a_test() -> None:
    page = (ROOT / "docs" / "live.md").read_text()
    promises = page.partition("## Promises and their proofs")[2].partition("###")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
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
