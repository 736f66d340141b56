"""Configuration of a study: the orders that a desk has, and the routers it could use for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from riskroute.core.errors import InputError
from riskroute.core.validation import instance_of, list_of, real_number, whole_number
from riskroute.study.backtest import router_text
from riskroute.study.backtest_config import KAPPA, BacktestConfig, Stress
from riskroute.study.summary import CLAIRVOYANT

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
        store("routers", tuple(map(router_text, list_of("routers", self.routers, str, "names"))))
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
