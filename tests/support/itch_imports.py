"""Imports of ITCH files: those that work, and what is said of those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import refused_imports
from market_files import ITCH_NAME
from places import SHARED_DATA
from riskroute.market.importing import import_files
from riskroute.market.readers.reading import ImportOptions
from riskroute.market.store import Recording, Store

ACME = ImportOptions(("ACME",))


def written(folder: Path, content: bytes, name: str = ITCH_NAME) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def imported(path: Path, out: Path, wanted: ImportOptions = ACME, **options: Any) -> tuple[Recording, Store]:
    (one,) = import_files([path], out, wanted, **options)
    return one, Store(out)


def refusal(path: Path, wanted: ImportOptions = ACME, **options: Any) -> str:
    return refused_imports.refusal(path, wanted, **options)


def real(name: str) -> Path:
    path = SHARED_DATA / "itch" / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    return path
