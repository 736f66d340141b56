"""Lattices from plain lists, and what every design over one must satisfy."""

from __future__ import annotations

import numpy as np
import pytest

from riskroute.learning.design.g_optimal import Design
from riskroute.routing.lattice import Lattice


def lattice_of(units: int, lows: list[int], highs: list[int]) -> Lattice:
    return Lattice(units, np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64))


def check_support(design: Design, lattice: Lattice) -> None:
    """Distinct members of the set, no more than Caratheodory's number, with weights that sum to one."""
    rows = design.actions
    assert len(np.unique(rows, axis=0)) == len(rows) == len(design.weights)
    assert len(rows) <= max(design.rank * (design.rank + 1) // 2, 1)
    assert (rows >= lattice.lows).all()
    assert (rows <= lattice.highs).all()
    assert (rows.sum(axis=1) == lattice.units).all()
    assert (design.weights > 0).all()
    assert design.weights.sum() == pytest.approx(1, abs=1e-12)
