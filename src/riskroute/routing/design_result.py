"""Optimal designs over allocation sets, summarised for people and for files."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from riskroute.core.files import write_whole
from riskroute.learning.design.g_optimal import Design
from riskroute.routing.allocations import Allocations


@dataclass(frozen=True)
class DesignResult:
    """A design over an allocation set, and the time it took."""

    allocations: Allocations
    design: Design
    seconds: float

    def patterns(self) -> list[tuple[str, int, float]]:
        """Amounts in descending order, how many allocations of the support have them, their weight; heaviest first."""
        count: defaultdict[str, int] = defaultdict(int)
        weight: defaultdict[str, float] = defaultdict(float)
        for row, share in zip(self.design.actions, self.design.weights, strict=True):
            amounts = np.sort(row)[::-1]
            pattern = " + ".join(str(amount) for amount in amounts[amounts > 0].tolist())
            count[pattern] += 1
            weight[pattern] += float(share)
        return [(pattern, count[pattern], weight[pattern]) for pattern in sorted(weight, key=lambda p: -weight[p])]

    def summary(self) -> dict[str, Any]:
        """Return what the JSON file holds."""
        return {
            "actions": str(self.allocations.size),
            "dim": self.allocations.dim,
            "bound": self.design.bound,
            "rank": self.design.rank,
            "support": [
                {"allocation": row.tolist(), "weight": float(weight)}
                for row, weight in zip(self.design.actions, self.design.weights, strict=True)
            ],
            "seconds": self.seconds,
        }

    def save(self, path: Path) -> Path:
        """Write the summary as JSON."""
        return write_whole(path, lambda beside: beside.write_text(json.dumps(self.summary()) + "\n"))


def find_design(
    *,
    shares: int,
    slots: int,
    lot: int = 1,
    caps: int | list[int] | None = None,
    minimums: int | list[int] | None = None,
    tolerance: float = 0.01,
) -> DesignResult:
    """Find a certified design over all ways to allocate ``shares`` to ``slots``."""
    allocations = Allocations(shares, slots, lot=lot, caps=caps, minimums=minimums)
    began = time.perf_counter()
    design = allocations.design(tolerance)
    return DesignResult(allocations, design, time.perf_counter() - began)
