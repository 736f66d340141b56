"""A statement of the paper in words, and how it is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Measure = Callable[[Mapping[str, Any]], tuple[str, bool]]
"""From the JSON summary of an experiment: what was measured, in words, and whether it agrees."""


@dataclass(frozen=True)
class Claim:
    """A statement about an experiment; ``remark`` says what the outcome depends on."""

    experiment: str
    where: str
    text: str
    measure: Measure
    remark: str = ""
