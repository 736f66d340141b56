"""Configuration of a backtest: orders, routers, and conditions harder than usual."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from functools import partial

from riskroute.core.errors import InputError, shown
from riskroute.core.validation import SIDES, instance_of, list_of, one_of, real_number, whole_number
from riskroute.market.clock import clock_hours
from riskroute.routers.context import PROTECTIONS
from riskroute.simulation.dark_market import LEAK
from riskroute.simulation.exchange import Latency
from riskroute.study.candidates import CLAIRVOYANT, canonical_name

KAPPA = 0.05
"""Basis points charged for a squared basis point of unforeseen cost, by default."""

LARGEST_SEED = 2**31 - 1


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


STUDY_ROUTERS = ("spray", "primary", "static", "static+sweep", "contextual")
"""Routers that are compared with the simple rules by default."""


@dataclass(frozen=True)
class StudyConfig:
    """Orders of a desk, and the routers that it could use.

    Parameters
    ----------
    market : str
        ``paper``, ``comparable``, ``dark``, or a folder of ``riskroute market import``.
    symbols : tuple[str, ...]
        Symbols; if empty, the first of a synthetic market, or all of a folder.
    shares : tuple[int, ...]
        Sizes of orders. Every size is a question of its own.
    side : str
        ``buy``, ``sell``, or ``both`` in turn.
    lot : int
        Child orders are multiples of it.
    horizons : tuple[float, ...]
        Seconds that an order has. Every horizon is a question of its own.
    kappa : float
        Basis points charged for a squared basis point of unforeseen cost.
    days : int, optional
        Number of days; all days of a folder, or ten synthetic ones, if None.
    train : int, optional
        Number of days at the beginning on which routers learn and one of them is chosen; half of them if None. Of a
        single day it is the morning.
    routers : tuple[str, ...]
        Routers to compare, beside the simple rules that are always played: `STUDY_ROUTERS` by default.
    orders : int
        Orders a day.
    hours : str, optional
        As in `BacktestConfig`.
    latency_ms, dark_latency_ms : float
        Milliseconds to a lit venue, and to a pool and back.
    seeds, seed : int
        How often everything is played, and the first seed.
    block_minutes : float
        Length of the time blocks that are resampled for confidence intervals.
    surface_orders : int
        Orders a day for every assumption on dark pools that is tried, at most ``orders``; none are tried if it is 0.
    protection : str, optional
        As in `BacktestConfig`.
    stresses : bool
        Whether the chosen router and the simple rule are played again in harder worlds, which takes as long as playing
        two routers a dozen times.
    """

    market: str = "dark"
    symbols: tuple[str, ...] = ()
    shares: tuple[int, ...] = (1000,)
    side: str = "both"
    lot: int = 1
    horizons: tuple[float, ...] = (60.0,)
    kappa: float = KAPPA
    days: int | None = None
    train: int | None = None
    routers: tuple[str, ...] = STUDY_ROUTERS
    orders: int = 200
    hours: str | None = None
    latency_ms: float = 1.0
    dark_latency_ms: float = 5.0
    seeds: int = 1
    seed: int = 0
    block_minutes: float = 10.0
    surface_orders: int = 200
    stresses: bool = False
    protection: str | None = None

    def __post_init__(self) -> None:
        store = partial(object.__setattr__, self)
        instance_of("market", self.market, str, "a name or a folder")
        store("symbols", tuple(list_of("symbols", self.symbols, str, "names")))
        sizes = list_of("shares", self.shares, int, "whole numbers")
        store("shares", _different("shares", [whole_number("shares", one, maximum=10**7) for one in sizes]))
        seconds = list_of("horizons", self.horizons, (int, float), "numbers")
        store("horizons", _different("horizons", [real_number("horizons", one, minimum=0) for one in seconds]))
        if self.days is not None:
            store("days", whole_number("days", self.days, maximum=10_000))
        if self.train is not None and whole_number("train", self.train, minimum=0) == 0:
            raise InputError("train must be at least 1, since a router is chosen on the training days, was 0")
        store("routers", tuple(map(canonical_name, list_of("routers", self.routers, str, "names"))))
        store("surface_orders", whole_number("surface_orders", self.surface_orders, minimum=0, maximum=10**6))
        instance_of("stresses", self.stresses, bool, "true or false")
        for size, horizon in self.cases:
            self.backtest(size, horizon)

    @property
    def cases(self) -> tuple[tuple[int, float], ...]:
        """Every size with every horizon."""
        return tuple((size, horizon) for size in self.shares for horizon in self.horizons)

    def backtest(self, size: int, horizon: float, stress: Stress | None = None) -> BacktestConfig:
        """Return the backtest that answers for one size and horizon; the clairvoyant is played in every one."""
        return BacktestConfig(
            shares=(size,),
            side=self.side,
            lot=self.lot,
            orders=self.orders if stress is None else min(self.surface_orders, self.orders),
            horizon=horizon,
            kappa=self.kappa,
            routers=tuple(dict.fromkeys((*self.routers, CLAIRVOYANT))),
            hours=self.hours,
            train=self.train,
            latency_ms=self.latency_ms,
            dark_latency_ms=self.dark_latency_ms,
            seeds=self.seeds,
            seed=self.seed,
            block_minutes=self.block_minutes,
            stress=Stress() if stress is None else stress,
            protection=self.protection,
        )


def _different(name: str, values: list[int] | list[float]) -> tuple[int | float, ...]:
    """Refuse none, and the same one twice."""
    if not values:
        raise InputError(f"{name} must hold at least one number, was empty")
    if len(set(values)) < len(values):
        raise InputError(f"{name} must be different numbers, was {', '.join(f'{one:g}' for one in values)}")
    return tuple(values)
