"""Configurations of a backtest, a study and a split study."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from riskroute.core.config import config_all_different
from riskroute.core.errors import DataError, InputError
from riskroute.core.instrument import PROTECTIONS, Instrument
from riskroute.core.records import from_plain
from riskroute.core.text import plain_number, shown
from riskroute.core.validation import (
    SIDES,
    instance_of,
    is_valid_name,
    one_of,
    parameter,
    real_number,
    true_or_false,
    valid_decimal,
    valid_list,
    valid_name_rule,
    validated_parameters,
    whole_number,
)
from riskroute.learning.plan import LONGEST_HORIZON
from riskroute.learning.registry import POLICIES
from riskroute.market.clock import SECOND, TimeWindow, clock_duration, parse_clock_hours
from riskroute.market.dark_pools import DarkPool
from riskroute.market.queue_models import DEFAULT_QUEUE_MODEL, QUEUE_MODELS, QueueModel
from riskroute.market.schema import MOST_LEVELS
from riskroute.routers.risk import BALANCED, RiskProfile, risk_profile
from riskroute.simulation.dark_market import LEAK
from riskroute.simulation.exchange import ExchangeLatency
from riskroute.study.candidates import CLAIRVOYANT, canonical_candidate_name
from riskroute.study.day_tables import PRICE_BENCHMARKS

_EXACT = "exact"  # queue positions from order ids only


@dataclass(frozen=True)
class StressConfig:
    """Stress conditions: changes to the recorded books and to the assumptions.

    - ``presence``, ``adverse``: factors on the liquidity in dark pools and on their adverse selection.
    - ``leak``: probability of information leakage per quantity of 1,000 sent to a pool; the far touch then fades.
    - ``fade``: fraction of the displayed size that is gone on arrival, at each venue with probability 1/2.
    - ``fees``: basis points of the price added to taker fees.
    - ``impact``: multiple of the estimated market impact added to the cost of what is taken.
    - ``pessimistic_queues``: whether cancellations ahead of a limit order leave its queue position unchanged; where it
      is an estimate, whether the model is ``pessimistic``.
    """

    presence: float = parameter(1.0, real_number, minimum=0, maximum=100)
    adverse: float = parameter(1.0, real_number, minimum=0, maximum=100)
    leak: float = parameter(LEAK, real_number, minimum=0, maximum=1000)
    fade: float = parameter(0.0, real_number, minimum=0, maximum=1)
    fees: float = parameter(0.0, real_number, minimum=-100, maximum=100)
    impact: float = parameter(0.0, real_number, minimum=0, maximum=100)
    pessimistic_queues: bool = False

    def __post_init__(self) -> None:
        validated_parameters(self)


@dataclass(frozen=True)
class BacktestConfig:
    """Orders and routers of a backtest.

    - ``quantities``: order sizes as natural quantities, such as 1000 shares or 0.25 BTC, used in rotation.
    - ``side``: ``buy``, ``sell``, or ``both`` alternating.
    - ``lot``: lot size of child orders, a natural quantity. Default: the lot size of the instrument.
    - ``orders``: orders per day, over all seeds.
    - ``horizon``: deadline of every order, seconds.
    - ``risk``: risk profile, its name (``cautious``, ``balanced`` or ``cheapest``), or kappa: basis points charged per
      squared basis point of variance of the unforeseen cost.
    - ``routers``: names of routers or ``all``. Default: the simple rules, fitted static splits and the clairvoyant.
    - ``hours``: hours within which orders arrive and end, such as ``10:30-11:00``, in the zone of the recordings (New
      York for synthetic days, which then consist of these hours only). Default: the session of the instrument if one is
      declared, else 09:35-15:55 in New York and the whole day in other zones.
    - ``train``: number of training days at the beginning, on which routers are not judged. Default: half of the
      days; of a single day, the first half of the orders.
    - ``latency_ms``, ``dark_latency_ms``: latency in milliseconds to a lit venue, and to a pool and back.
    - ``seeds``: number of draws of arrival times; the orders of a day are divided among them. Each seed also has its
      own random draws in dark pools and its own router, which learns from the orders of its seed.
    - ``seed``: the first seed.
    - ``block_minutes``: length of the time blocks of the bootstrap.
    - ``stress``: stress conditions.
    - ``protection``: ``reg-nms`` if venues protect each other's quotes, else ``none``. Default: ``reg-nms`` for
      synthetic days and for recordings that are all of US equities, else ``none``.
    - ``queue``: model of queue positions at venues whose trades have no order ids, one of `QUEUE_MODELS`; with
      ``exact`` these venues take no limit orders. Default: `DEFAULT_QUEUE_MODEL`. Order ids give exact positions.
    - ``benchmark``: the price against which costs are stated, one of `PRICE_BENCHMARKS`.
    """

    quantities: tuple[int | float, ...] = (1000,)
    side: str = parameter("both", one_of, choices=("both", *SIDES))
    lot: float | None = parameter(None, real_number, above=0)
    orders: int = parameter(125, whole_number, maximum=10**6)
    horizon: float = parameter(0.0, real_number, minimum=0, maximum=3600)
    risk: RiskProfile = parameter(BALANCED, risk_profile)
    routers: tuple[str, ...] = ()
    hours: str | None = None
    train: int | None = parameter(None, whole_number, minimum=0)
    latency_ms: float = parameter(1.0, real_number, minimum=0, maximum=60_000)
    dark_latency_ms: float = parameter(5.0, real_number, minimum=0, maximum=60_000)
    seeds: int = parameter(5, whole_number, maximum=1000)
    seed: int = parameter(0, whole_number, minimum=0, maximum=2**31 - 1)
    block_minutes: float = parameter(10.0, real_number, above=0, maximum=1440)
    stress: StressConfig = field(default_factory=StressConfig)
    protection: str | None = parameter(None, one_of, choices=PROTECTIONS)
    queue: str | None = parameter(None, one_of, choices=(_EXACT, *QUEUE_MODELS))
    benchmark: str = parameter("arrival", one_of, choices=tuple(PRICE_BENCHMARKS))

    def __post_init__(self) -> None:
        for name, value in ({"quantities": _quantities(self.quantities)} | validated_parameters(self)).items():
            object.__setattr__(self, name, value)
        if self.hours is not None:
            _ = self.clock_hours
        instance_of("stress", self.stress, StressConfig, "a StressConfig")

    @property
    def clock_hours(self) -> tuple[dt.time, dt.time] | None:
        """Start and end of ``hours``; None for the default hours."""
        if self.hours is None:
            return None
        hours = instance_of("hours", self.hours, str, "two times such as 10:30-11:00")
        try:
            return parse_clock_hours(hours)
        except ValueError as error:
            raise InputError(f"hours must be {error}, was {shown(hours)}") from None

    @property
    def queue_model(self) -> QueueModel | None:
        """The model of queue positions at venues without order ids; None if these venues take no limit orders."""
        if self.queue == _EXACT:
            return None
        if self.stress.pessimistic_queues:
            return QueueModel("pessimistic")
        return DEFAULT_QUEUE_MODEL if self.queue is None else QueueModel(self.queue)

    @property
    def latency(self) -> ExchangeLatency:
        """The latencies in seconds."""
        return ExchangeLatency(self.latency_ms / 1000, self.dark_latency_ms / 1000)


@dataclass(frozen=True)
class StudyConfig:
    """Orders and candidate routers of a study; `BacktestConfig` explains the fields that are not listed.

    - ``market``: ``paper``, ``comparable``, ``dark``, or a folder written by ``riskroute market import``.
    - ``symbols``: symbols. Default: the first of a synthetic market, all of a folder.
    - ``quantities``: order sizes; each has its own answer.
    - ``horizons``: deadlines in seconds, 0 for immediate execution; each has its own answer.
    - ``days``: number of days. Default: all days of a folder, 16 synthetic ones.
    - ``train``: number of training days at the beginning, on which routers learn and one is chosen. Default: half of
      the days; a single day is halved.
    - ``routers``: routers to compare with the benchmark rules.
    - ``surface_orders``: orders per day for each dark-pool assumption; more than ``orders`` count as ``orders``, and 0
      skips the sensitivity analysis.
    - ``frontier``: whether to answer for the other risk profiles too, and to play the contextual router under several.
    - ``stresses``: whether to repeat the chosen router and the benchmark rule under stress, which takes a dozen plays
      of each.
    """

    market: str = "dark"
    symbols: tuple[str, ...] = ()
    quantities: tuple[int | float, ...] = (1000,)
    side: str = "both"
    lot: float | None = None
    horizons: tuple[float, ...] = (60.0,)
    risk: RiskProfile = parameter(BALANCED, risk_profile)
    days: int | None = parameter(None, whole_number, maximum=10_000)
    train: int | None = None
    routers: tuple[str, ...] = ("spray", "primary", "static", "static+sweep", "contextual")
    orders: int = 125
    hours: str | None = None
    latency_ms: float = 1.0
    dark_latency_ms: float = 5.0
    seeds: int = 5
    seed: int = 0
    block_minutes: float = 10.0
    surface_orders: int = parameter(125, whole_number, minimum=0, maximum=10**6)
    frontier: bool = parameter(True, true_or_false)
    stresses: bool = False
    protection: str | None = None
    queue: str | None = None
    benchmark: str = "arrival"

    def __post_init__(self) -> None:
        store = partial(object.__setattr__, self)
        instance_of("market", self.market, str, "a name or a folder")
        store("symbols", tuple(valid_list("symbols", self.symbols, str, "names")))
        store("quantities", _different("quantities", _quantities(self.quantities)))
        seconds = valid_list("horizons", self.horizons, (int, float), "numbers")
        store("horizons", _different("horizons", [real_number("horizons", one, minimum=0) for one in seconds]))
        if self.train is not None and whole_number("train", self.train, minimum=0) == 0:
            raise InputError("train must be at least 1, since a router is chosen on the training days, was 0")
        store("routers", tuple(map(canonical_candidate_name, valid_list("routers", self.routers, str, "names"))))
        for name, value in validated_parameters(self).items():
            store(name, value)
        instance_of("stresses", self.stresses, bool, "true or false")
        for size, horizon in self.cases:
            self.backtest(size, horizon)

    @property
    def cases(self) -> tuple[tuple[float, float], ...]:
        """Every pair of order size and deadline."""
        return tuple((size, horizon) for size in self.quantities for horizon in self.horizons)

    def backtest(self, size: float, horizon: float, stress: StressConfig | None = None) -> BacktestConfig:
        """Return the backtest for one size and deadline; the clairvoyant is always played."""
        names = {item.name for item in fields(self)} & {item.name for item in fields(BacktestConfig)}
        values = {name: getattr(self, name) for name in names} | {
            "quantities": (size,),
            "horizon": horizon,
            "routers": tuple(dict.fromkeys((*self.routers, CLAIRVOYANT))),
            "orders": self.orders if stress is None else min(self.surface_orders, self.orders),
            "stress": StressConfig() if stress is None else stress,
        }
        return BacktestConfig(**values)


def _quantities(values: Any) -> tuple[int | float, ...]:
    """Return natural quantities, given as numbers or text."""
    found = [valid_decimal("quantities", one) for one in valid_list("quantities", values, (int, float, str), "numbers")]
    if not found:
        raise InputError("quantities must hold at least one number, was empty")
    for one in found:
        if one <= 0:
            raise InputError(f"quantities must be positive numbers, was {one}")
    return tuple(map(plain_number, found))


def _different(name: str, values: Sequence[float]) -> tuple[int | float, ...]:
    """Return values as a tuple; raise `InputError` if there are none or two are equal."""
    if not values:
        raise InputError(f"{name} must hold at least one number, was empty")
    if len(set(values)) < len(values):
        raise InputError(f"{name} must be different numbers, was {', '.join(f'{one:g}' for one in values)}")
    return tuple(values)


def changed_config(config: Any) -> str:
    """Return the fields of a configuration that differ from the defaults, as the text of keyword arguments."""
    default = type(config)()
    values = {item.name: getattr(config, item.name) for item in fields(config)}
    changed = {name: value for name, value in values.items() if value != getattr(default, name)}
    shortened = {name: value.short if isinstance(value, RiskProfile) else value for name, value in changed.items()}
    return ", ".join(f"{name}={value!r}" for name, value in shortened.items())


@dataclass(frozen=True)
class SplitPoolConfig:
    """A dark pool of a split study: see `riskroute.market.dark_pools.DarkPool`; the remainder crosses at ``venue``."""

    name: str
    presence: float
    tail: float
    smallest: int | float = 1
    improvement: float = 0.0
    fee: float = 0.0
    venue: str | None = None

    def __post_init__(self) -> None:
        for name in (self.name, *([] if self.venue is None else [self.venue])):
            _check_name("name or venue of a dark pool", name)
        try:
            self.pool(Instrument(unit=valid_decimal("smallest", self.smallest)))
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None

    def pool(self, instrument: Instrument) -> DarkPool:
        """Return the model of the pool, in units of an instrument."""
        smallest = instrument.units(self.smallest, "smallest")
        return DarkPool(self.presence, self.tail, smallest, self.improvement, self.fee, self.name)


@dataclass(frozen=True)
class SplitStudyConfig:
    """Settings of a split study; `study_config_template` explains every field."""

    data: tuple[str, ...] = ("synthetic",)
    symbol: str | None = None
    date: dt.date | None = None
    venue: str | None = None
    max_unresolved: float = field(default=0.01, metadata={"minimum": 0, "maximum": 1})
    max_crossed: float = field(default=0.01, metadata={"minimum": 0, "maximum": 1})
    side: str = field(default="sell", metadata={"enum": ("sell", "buy")})
    quantities: tuple[int | float, ...] = (10,)
    risk_tolerances: tuple[float, ...] = (2.0,)
    market: tuple[str, ...] | None = None
    limit: tuple[str, ...] = ()
    dark: tuple[SplitPoolConfig, ...] | None = None
    lot: int | float | None = None
    caps: dict[str, int | float] = field(default_factory=dict)
    fees: str | None = None
    train: tuple[dt.time, dt.time] = (dt.time(10, 40), dt.time(12))
    test: tuple[dt.time, dt.time] = (dt.time(12), dt.time(13, 20))
    bucket_minutes: float = field(default=2.0, metadata={"exclusiveMinimum": 0, "maximum": 600})
    repeats: int = field(default=10, metadata={"minimum": 1, "maximum": 1000})
    levels: int | None = field(default=None, metadata={"minimum": 1, "maximum": MOST_LEVELS})
    horizon: int = field(default=10_000, metadata={"minimum": 10, "maximum": LONGEST_HORIZON})
    runs: int = field(default=10, metadata={"minimum": 1, "maximum": 10**6})
    policies: tuple[str, ...] = ("adaptive", "thompson", "rise", "rise++", "risk-ucb", "risk-exp-exp", "uniform")
    seed: int = field(default=0, metadata={"minimum": 0, "maximum": 2**63})

    def __post_init__(self) -> None:
        for item in fields(self):  # the reference of configuration files shows the same limits
            limits, value = item.metadata, getattr(self, item.name)
            if "enum" in limits:
                one_of(item.name, value, limits["enum"])
            elif "maximum" in limits and isinstance(item.default, float):
                above = limits.get("exclusiveMinimum", -math.inf)
                real_number(
                    item.name, value, minimum=limits.get("minimum", above), above=above, maximum=limits["maximum"]
                )
            elif "maximum" in limits and value is not None:
                whole_number(item.name, value, minimum=limits["minimum"], maximum=limits["maximum"])
        object.__setattr__(self, "quantities", _quantities(self.quantities))
        if self.lot is not None:
            real_number("lot", self.lot, above=0)
        for tolerance in self.risk_tolerances:
            real_number("risk_tolerances", tolerance, minimum=0)
        names = (self.symbol, self.venue, *(self.market or ()), *self.limit, *self.caps)
        for one in (name for name in names if name is not None):
            _check_name("symbol, venue or slot", one)
        for name, cap in self.caps.items():
            real_number(f"cap of {name}", cap, above=0)
        for policy in self.policies:
            one_of("policies", policy, tuple(POLICIES))
        for name in ("data", "risk_tolerances", "policies"):
            if not getattr(self, name):
                raise InputError(f"{name} must hold at least one value, was empty")
        pools = [pool.name for pool in self.pools]
        unique = {name: getattr(self, name) for name in ("data", "quantities", "risk_tolerances", "limit", "policies")}
        for name, values in (unique | {"names of dark pools": pools}).items():
            config_all_different(name, list(values))
        for name in ("train", "test"):
            self.window(name)
        if "synthetic" in self.data and len(self.data) > 1:
            raise InputError(f"data must be 'synthetic' alone, one folder or some files, was {', '.join(self.data)}")
        if self.synthetic and self.venue is not None:
            raise InputError(f"venue cannot be given for the synthetic market, was {self.venue!r}")
        if _begins_within(self.train, self.test) or _begins_within(self.test, self.train):
            raise InputError("test must not overlap train, so that the test is out of sample")

    @property
    def synthetic(self) -> bool:
        """Whether the market is generated."""
        return self.data == ("synthetic",)

    @property
    def pools(self) -> tuple[SplitPoolConfig, ...]:
        """Dark pools. Default: two in the synthetic market, none with recorded books."""
        if self.dark is not None:
            return self.dark
        assumed = SplitPoolConfig("Dark 1", 0.4, 1.5, smallest=5), SplitPoolConfig("Dark 2", 0.7, 1.0, smallest=2)
        return assumed if self.synthetic else ()

    def window(self, name: str) -> TimeWindow:
        """Return the ``train`` or ``test`` hours, divided into buckets."""
        first, last = self.train if name == "train" else self.test
        minutes = clock_duration(first, last) / (60 * SECOND)
        buckets = round(minutes / self.bucket_minutes)
        if not 2 <= buckets <= 5_000:
            expected = f"2 to 5,000 buckets of {self.bucket_minutes:g} minutes"
            raise InputError(f"{name} must last {expected}, was {minutes:g} minutes")
        return TimeWindow(first, last, buckets)

    def lot_of(self, units: int, instrument: Instrument) -> int:
        """Return the lot size in units. Default: the smallest with 20 to 100 lots per order, or the instrument's."""
        if self.lot is not None:
            lot = instrument.units(self.lot, "lot")
            if units % lot:
                was = instrument.quantity_text(units)
                raise InputError(f"quantities must be multiples of the lot, {instrument.named(self.lot)}, was {was}")
            return lot
        least = instrument.lot_units
        fitting = (lot for lot in range(-(-units // 100), units // 20 + 1) if units % lot == 0 and lot % least == 0)
        return next(fitting, least)


def _begins_within(hours: tuple[dt.time, dt.time], others: tuple[dt.time, dt.time]) -> bool:
    """Return whether ``hours`` begin within ``others``; both may cross midnight."""
    first, last = others
    return hours[0] == first or clock_duration(first, hours[0]) < clock_duration(first, last)


def study_config_template(command: str) -> str:
    """Return the commented configuration of ``study`` or ``split-study``, with every key at its default."""
    return (Path(__file__).parent / "templates" / f"{command}.toml").read_text(encoding="utf-8")


def _check_name(what: str, name: str) -> None:
    if not is_valid_name(name):
        raise InputError(f"{what} must be {valid_name_rule()}, was {shown(name)}")


def split_config(values: dict[str, Any]) -> SplitStudyConfig:
    """Make the configuration of a split study from plain values; a single value stands for a list of one."""
    plain = dict(instance_of("config", values, dict, "a dictionary"))
    for name in ("data", "quantities", "risk_tolerances", "market", "limit", "policies"):
        if plain.get(name) is not None:
            plain[name] = [str(one) if isinstance(one, Path) else one for one in _list_of_one(plain[name])]
    instance_of("caps", plain.get("caps", {}), dict, "quantities by slot")
    if isinstance(plain.get("fees"), Path):
        plain["fees"] = str(plain["fees"])
    for name in ("train", "test"):
        if isinstance(plain.get(name), str):
            try:
                plain[name] = parse_clock_hours(plain[name])
            except ValueError as error:
                raise InputError(f"{name} must be {error}, was {shown(plain[name])}") from None
    try:
        return from_plain(SplitStudyConfig, plain, "the configuration")
    except DataError as error:
        raise InputError(str(error)) from None


def _list_of_one(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
