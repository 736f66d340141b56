"""Running cost totals: costs of settled orders with intervals, fills by place, savings against the benchmark."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from riskroute.live.state.events import NANO, Outcome

BATCHES = 64  # batches of a mean; when full, neighbours are merged and the batch size doubles


class BatchMean(msgspec.Struct, gc=False):
    """A mean over orders with a batch-means interval: neighbouring orders are correlated, so i.i.d. ones are too short.

    Examples
    --------
    >>> mean = BatchMean()
    >>> for value in range(1000):
    ...     mean.add(value % 10)
    >>> mean.count, mean.mean, mean.batch, len(mean.sums)
    (1000, 4.5, 16, 62)
    """

    count: int = 0
    total: float = 0.0
    batch: int = 1
    sums: list[float] = []
    open_sum: float = 0.0
    open_count: int = 0

    def add(self, value: float) -> None:
        """Add a value."""
        self.count += 1
        self.total += value
        self.open_sum += value
        self.open_count += 1
        if self.open_count == self.batch:
            self.sums.append(self.open_sum)
            self.open_sum, self.open_count = 0.0, 0
            if len(self.sums) == BATCHES:
                self.sums = [self.sums[k] + self.sums[k + 1] for k in range(0, BATCHES, 2)]
                self.batch *= 2

    @property
    def mean(self) -> float:
        """The mean; 0 without values."""
        return self.total / self.count if self.count else 0.0

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None with fewer than 8 batches."""
        k = len(self.sums)
        if k < 8:
            return None
        means = [one / self.batch for one in self.sums]
        middle = sum(means) / k
        return math.sqrt(sum((one - middle) ** 2 for one in means) / (k - 1) / k)

    def view(self) -> dict[str, Any]:
        """Return the mean and its 95 % interval as plain values."""
        error = self.error
        low = high = None
        if error is not None:
            from scipy.special import stdtrit

            wide = float(stdtrit(len(self.sums) - 1, 0.975)) * error
            low, high = self.mean - wide, self.mean + wide
        return {"orders": self.count, "mean": self.mean if self.count else None, "low": low, "high": high}


class PlaceTotals(msgspec.Struct, gc=False):
    """Shares sent to and filled by a venue or pool, and their cost against arrival mids."""

    children: int = 0
    sent: int = 0
    filled: int = 0
    money: int = 0
    fees: int = 0


class CostTotals(msgspec.Struct):
    """Totals over settled orders; basis points are of the order's value at the arrival mid."""

    cost: int = 0
    notional: int = 0
    cost_bps: BatchMean = msgspec.field(default_factory=BatchMean)
    saving: int = 0  # against ``dark-first+sweep``; in shadow mode, against the router that trades
    saving_bps: BatchMean = msgspec.field(default_factory=BatchMean)
    known_bps: BatchMean = msgspec.field(default_factory=BatchMean)  # savings of orders without guessed shares
    guessed: int = 0  # shares whose counterfactual fill was guessed
    explored: int = 0
    explored_orders: int = 0
    marked: int = 0
    late: int = 0
    places: dict[str, PlaceTotals] = {}

    def settle(self, outcome: Outcome) -> None:
        """Add a settled order."""
        value = (outcome.filled + outcome.left) * outcome.mid
        self.cost += outcome.cost
        self.notional += value
        self.cost_bps.add(1e4 * outcome.cost / value if value else 0.0)
        self.marked += outcome.marked
        self.late += outcome.late
        for child in outcome.children:
            place = self.places.get(child.place)
            if place is None:
                place = self.places[child.place] = PlaceTotals()
            place.children += 1
            place.sent += child.sent
            place.filled += child.filled
            place.money += child.money
            place.fees += child.fees

    def save(self, saving: int, value: int, guessed: int) -> None:
        """Add the saving of an order, given its value."""
        self.saving += saving
        self.saving_bps.add(1e4 * saving / value if value else 0.0)
        self.guessed += guessed
        if not guessed:
            self.known_bps.add(1e4 * saving / value if value else 0.0)

    def view(self) -> dict[str, Any]:
        """Return everything in dollars and basis points."""
        return {
            "cost_dollars": self.cost / NANO,
            "notional_dollars": self.notional / NANO,
            "cost_bps": self.cost_bps.view(),
            "saving_dollars": self.saving / NANO,
            "saving_bps": self.saving_bps.view(),
            "known_saving_bps": self.known_bps.view(),
            "guessed_shares": self.guessed,
            "explored_dollars": self.explored / NANO,
            "explored_orders": self.explored_orders,
            "marked": self.marked,
            "late": self.late,
            "places": {
                name: {
                    "children": one.children,
                    "sent": one.sent,
                    "filled": one.filled,
                    "cost_dollars": (one.money + one.fees) / NANO,
                    "fees_dollars": one.fees / NANO,
                }
                for name, one in self.places.items()
            },
        }
