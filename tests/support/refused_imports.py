"""Imports that must be refused, and what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from market_files import visible
from riskroute.core.errors import RiskrouteError
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ImportOptions

ANY = ImportOptions()


def refusal(path: Path, wanted: ImportOptions = ANY, **options: Any) -> str:
    """The one sentence of the error; nothing may be left of the import."""
    out = path.parent / "refused"
    with pytest.raises(RiskrouteError) as caught:
        import_files([path], out, wanted, **options)
    assert visible(out) == []
    assert "\n" not in str(caught.value)
    return str(caught.value)
