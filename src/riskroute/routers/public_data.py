"""Public market data that routers learn from: queues, trades, and outcomes of orders of several sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from riskroute.routers.context import Context


class PublicQueueOutflow(NamedTuple):
    """Queue at a venue's best own-side price: its price, the shares displayed, and the shares that left by the horizon.

    ``outflow`` counts executions and cancellations of displayed shares, and executions beyond them. An order of ``n``
    shares at the end of the queue is filled by the outflow between ``ahead`` and ``ahead + n``.
    """

    price: float
    ahead: int
    outflow: int

    def filled(self, shares: int) -> int:
        """Return the filled shares of an order that joined the end of the queue."""
        return min(max(self.outflow - self.ahead, 0), shares)


class PublicMarketAtHorizon(NamedTuple):
    """Market at the horizon of an order: the mid, and the cost of sweeping the whole order then.

    ``sweep`` is per share against the arrival mid, fees included.
    """

    mid: float
    sweep: float


@dataclass(frozen=True)
class PublicData:
    """Public market data published some time after an order arrived, for routers with feedback F3.

    ``outcomes`` are by venue and kind of child (``take``, ``limit``): the profits, in price times units, of the sizes
    in `outcome_sizes`. ``queues`` are those that a limit order could have joined, by venue. They are empty, and
    ``at_horizon`` is None, for a horizon of 0 or without event data; ``at_horizon`` is also None if no shares are
    displayed then. ``trades`` are all trades since the previous public data, by venue and side of the resting order
    (``bid``, ``ask``): shares traded, and shares displayed at that price before the trade.
    """

    context: Context
    outcomes: dict[str, dict[str, tuple[float, ...]]]
    queues: Mapping[str, PublicQueueOutflow] = field(default_factory=dict)
    at_horizon: PublicMarketAtHorizon | None = None
    trades: Mapping[str, Mapping[str, Sequence[tuple[int, int]]]] = field(default_factory=dict)

    @staticmethod
    def outcome_sizes(shares: int, lot: int) -> list[int]:
        """Return the sizes that ``outcomes`` cover: 1, 2, 4 .. lots up to the order size, or only it if below a lot."""
        sizes, size = [], lot
        while size <= shares:
            sizes.append(size)
            size *= 2
        return sizes or [shares]
