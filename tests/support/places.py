"""Folders that tests refer to, wherever their files lie."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED_DATA = ROOT.parent / "shared" / "data"
