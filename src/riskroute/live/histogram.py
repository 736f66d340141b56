"""A histogram of durations, for metrics."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate


class DurationHistogram:
    """Durations counted by bucket, as Prometheus does; for a single writer, which needs no lock."""

    buckets = (1e-5, 3e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.2, 1.0)  # upper bounds in seconds

    def __init__(self) -> None:
        self._counts = [0] * (len(self.buckets) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(self.buckets, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return the upper bound of every bucket with the number of durations up to it."""
        return list(zip((*map(str, self.buckets), "+Inf"), accumulate(self._counts), strict=True))
