"""Configuration of a backtest: orders, routers, and conditions harder than usual."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from functools import partial

from riskroute.core.errors import InputError, shown
from riskroute.core.names import SIDES
from riskroute.core.validation import instance_of, list_of, one_of, real_number, whole_number
from riskroute.market.clock import clock_hours
from riskroute.routers.context import PROTECTIONS
from riskroute.simulation.dark_market import LEAK
from riskroute.simulation.exchange import Latency

KAPPA = 0.05
"""Basis points charged for a squared basis point of unforeseen cost, by default."""

LARGEST_SEED = 2**31 - 1

DEFAULT_ROUTERS = ("sweep", "raw-sweep", "nbbo", "spray", "primary")
DARK_ROUTERS = ("dark-first+sweep",)
PATIENT_ROUTERS = ("dark-first+post+sweep", "rest-even+sweep")


@dataclass(frozen=True)
class Stress:
    """Conditions harder than usual.

    Parameters
    ----------
    presence, adverse : float
        Factors on the presence and on the adverse selection of dark pools.
    leak : float
        Probability per 1,000 shares sent to a pool that the far touch fades for a second.
    fade : float
        Fraction of the displayed size that is gone when an order arrives, at every second venue by chance.
    fees : float
        Dollars a share added to taker fees.
    impact : float
        Multiple of the estimated market impact that is added to the cost of shares taken.
    pessimistic_queues : bool
        Whether cancellations ahead of a limit order do not bring it forward.
    """

    presence: float = 1.0
    adverse: float = 1.0
    leak: float = LEAK
    fade: float = 0.0
    fees: float = 0.0
    impact: float = 0.0
    pessimistic_queues: bool = False

    def __post_init__(self) -> None:
        for name in ("presence", "adverse", "impact"):
            real_number(name, getattr(self, name), minimum=0, maximum=100)
        real_number("leak", self.leak, minimum=0, maximum=1000)
        real_number("fade", self.fade, minimum=0, maximum=1)
        real_number("fees", self.fees, minimum=-1, maximum=1)


@dataclass(frozen=True)
class BacktestConfig:
    """Orders and routers of a backtest.

    Parameters
    ----------
    shares : tuple[int, ...]
        Sizes of orders, in turn.
    side : str
        ``buy``, ``sell``, or ``both`` in turn.
    lot : int
        Child orders are multiples of it.
    orders : int
        Orders a day.
    horizon : float
        Seconds that every order has.
    kappa : float
        Basis points charged for a squared basis point of unforeseen cost.
    routers : tuple[str, ...]
        Names of routers; all that do not learn if empty.
    hours : str, optional
        Times between which orders come and end, such as ``10:30-11:00``, in the zone of the recordings (New York for
        synthetic days, which then consist of these hours only). Default: 09:35-15:55 for days of New York, all of a day
        of another zone.
    train : int, optional
        Number of days at the beginning that routers learn on and are not judged on; half of them if None. Of a single
        day it is the morning.
    latency_ms, dark_latency_ms : float
        Milliseconds to a lit venue, and to a pool and back.
    seeds : int
        How often everything is played, each time with other random numbers for dark pools and routers.
    seed : int
        The first seed.
    block_minutes : float
        Length of the time blocks that are resampled for confidence intervals.
    stress : Stress
        Conditions harder than usual.
    protection : str, optional
        ``reg-nms`` if venues protect each other's quotes, ``none`` if not. Default: that of the market, ``reg-nms`` for
        synthetic days and US equities.
    """

    shares: tuple[int, ...] = (1000,)
    side: str = "both"
    lot: int = 1
    orders: int = 200
    horizon: float = 0.0
    kappa: float = KAPPA
    routers: tuple[str, ...] = ()
    hours: str | None = None
    train: int | None = None
    latency_ms: float = 1.0
    dark_latency_ms: float = 5.0
    seeds: int = 1
    seed: int = 0
    block_minutes: float = 10.0
    stress: Stress = field(default_factory=Stress)
    protection: str | None = None

    def __post_init__(self) -> None:
        if not self.shares:
            raise InputError("shares must hold at least one size, was empty")
        store = partial(object.__setattr__, self)
        sizes = list_of("shares", list(self.shares), int, "whole numbers")
        store("shares", tuple(whole_number("shares", size, maximum=10**7) for size in sizes))
        one_of("side", self.side, ("both", *SIDES))
        store("lot", whole_number("lot", self.lot, maximum=10**7))
        store("orders", whole_number("orders", self.orders, maximum=10**6))
        store("horizon", real_number("horizon", self.horizon, minimum=0, maximum=3600))
        store("kappa", real_number("kappa", self.kappa, minimum=0, maximum=1000))
        if self.train is not None:
            store("train", whole_number("train", self.train, minimum=0))
        for name in ("latency_ms", "dark_latency_ms"):
            store(name, real_number(name, getattr(self, name), minimum=0, maximum=60_000))
        store("seeds", whole_number("seeds", self.seeds, maximum=1000))
        store("seed", whole_number("seed", self.seed, minimum=0, maximum=LARGEST_SEED))
        store("block_minutes", real_number("block_minutes", self.block_minutes, above=0, maximum=1440))
        if self.hours is not None:
            _ = self.clock_hours
        instance_of("stress", self.stress, Stress, "a Stress")
        if self.protection is not None:
            one_of("protection", self.protection, PROTECTIONS)

    @property
    def clock_hours(self) -> tuple[dt.time, dt.time] | None:
        """First and last time of orders."""
        if self.hours is None:
            return None
        try:
            return clock_hours(instance_of("hours", self.hours, str, "two times such as 10:30-11:00"))
        except ValueError as error:
            raise InputError(f"hours must be {error}, was {shown(self.hours)}") from None

    @property
    def latency(self) -> Latency:
        """The latencies in seconds."""
        return Latency(self.latency_ms / 1000, self.dark_latency_ms / 1000)


def risk_tolerance(kappa: float, notional: float) -> float:
    """Return the paper's risk tolerance in dollars that is equivalent to ``kappa``, for an order of some dollars.

    With costs in basis points of the notional ``N``, variance less tolerance times mean in dollars is ``(N / 1e4)^2``
    times the variance in squared basis points plus the cost over ``kappa``, if the tolerance is ``N / (1e4 kappa)``.

    Examples
    --------
    >>> risk_tolerance(0.135, 2700.0), risk_tolerance(13.5, 270_000.0)  # 10 and 1,000 shares of a stock at $270
    (2.0, 2.0)
    """
    return real_number("notional", notional, above=0) / (1e4 * real_number("kappa", kappa, above=0))
