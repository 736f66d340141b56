"""The configuration of the live router, from one TOML file: log, router, venues, limits and tokens."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from riskroute.core.config import Name, Seed, read_toml_config, validated_config
from riskroute.core.errors import InputError
from riskroute.core.files import in_file_name
from riskroute.core.instrument import Instrument, instrument_from_plain, load_instruments
from riskroute.core.text import one_line_text, shown
from riskroute.live.fees import LiveFees, LivePlaceFees
from riskroute.live.limits import Limits
from riskroute.live.log.interface import Log
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.log.state_store import PostgresStateStore, SqliteStateStore, StateStore
from riskroute.live.market_history import MarketHistory
from riskroute.live.places import PlaceRules
from riskroute.live.state.amounts import NANO, nano_amount
from riskroute.live.tokens import TokenConfig, new_token, token_hash
from riskroute.live.venues.gateway import VenueLink, VenueSetup
from riskroute.live.venues.simulated import Faults, JournalledVenue, ServedSimulatedVenue, SimulatedVenueMarket
from riskroute.routers.registry import (
    file_router,
    is_file_router,
    make_router,
    restore_router,
    router_name,
    router_parameters,
)
from riskroute.routers.router import Router
from riskroute.routing.fees import load_fees

# as `riskroute.routing.fees.parse_fee` reads it
FeeTerms = Annotated[float | str | dict[str, float | str], WithJsonSchema({"type": "text or table"})]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Quantity = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Amount = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0, le=10**15, strict=True)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _LogConfig(_Section):
    """The log: a SQLite file or a PostgreSQL database, and its options."""

    path: Path | None = None
    postgres: str | None = None
    stream: Annotated[str, Field(min_length=1, max_length=64)] = "main"
    head_key: Path | None = None
    snapshot_every: Whole = 10_000
    lease_seconds: Seconds = 3.0
    quotes: bool = True
    source_quotes: bool = False

    @model_validator(mode="after")
    def _one_store(self) -> _LogConfig:
        if (self.path is None) == (self.postgres is None):
            raise ValueError("given exactly one of path and postgres")
        return self

    def key(self) -> bytes:
        """Return the content of the key file, empty if none is configured."""
        if self.head_key is None:
            return b""
        expected = f"log.head_key must be a file of at least 32 bytes, private to its owner, was {str(self.head_key)!r}"
        try:
            mode, key = self.head_key.stat().st_mode & 0o777, self.head_key.read_bytes()
        except OSError as error:
            raise InputError(f"{expected}: {error.strerror}") from None
        if mode & 0o077 or len(key) < 32:
            raise InputError(f"{expected}, of {len(key)} bytes and mode {mode:o}")
        return key


class _RouterConfig(_Section):
    """The router that decides; with ``state``, the trained router in that file."""

    name: str = "dark-first+sweep"
    state: Path | None = None
    refit_every: Whole = 0
    decision_ms: Amount | None = None


class _PlaceConfig(_Section):
    """A venue or pool: fees, limits on its use, and latency and faults if it is simulated."""

    kind: Annotated[str, Field(min_length=1)] = "simulated"
    options: Annotated[dict[str, Any], WithJsonSchema({"type": "table"})] = {}
    taker: FeeTerms = 0.0
    maker: FeeTerms = 0.0
    foreign: Literal["halt", "ignore"] = "halt"
    orders_per_second: Amount | None = None
    burst: Annotated[int, Field(ge=2, le=10_000, strict=True)] = 10
    hold_ms: Annotated[float, Field(ge=0, le=60_000)] = 50.0
    latency_ms: Annotated[float, Field(ge=0, le=60_000)] = 1.0
    seed: Seed = 0
    fill_seconds: Seconds = 1.0
    reject: Fraction = 0.0
    partial: Fraction = 0.0
    duplicate: Fraction = 0.0
    disorder: Fraction = 0.0
    silence: Fraction = 0.0
    lost: Fraction = 0.0

    @model_validator(mode="after")
    def _settings_of_its_kind(self) -> _PlaceConfig:
        if self.kind == "simulated" and self.options:
            raise ValueError("given options only for a kind of venue that is not simulated")
        simulated = {field.name for field in fields(Faults)} | {"latency_ms", "seed", "fill_seconds", "hidden"}
        if self.kind != "simulated" and (given := sorted(simulated & self.model_fields_set)):
            raise ValueError(f"given {given[0]} only for simulated places: settings of kind {self.kind} are in options")
        return self

    def rules(self) -> PlaceRules:
        """Return the limits on the use of the place in the engine's units."""
        per_second = math.inf if self.orders_per_second is None else self.orders_per_second
        return PlaceRules(
            foreign=self.foreign, orders_per_second=per_second, burst=self.burst, hold=round(self.hold_ms * 1e6)
        )


class _PoolConfig(_PlaceConfig):
    """A dark pool: fee, price improvement and mean hidden quantity."""

    fee: FeeTerms = 0.0
    improvement: Annotated[float, Field(ge=-1, le=1)] = 0.0
    hidden: Quantity = 100


class _LimitsConfig(_Section):
    """`Limits` in natural quantities, the quote currency and seconds."""

    order_quantity: Quantity = 100_000
    order_notional: Amount = 1_000_000
    symbol_quantity: Quantity = 1_000_000
    symbol_notional: Amount = 10_000_000
    venue_open: Whole = 1_000
    day_orders: Whole = 100_000
    day_notional: Amount = 100_000_000
    day_loss: Amount = 10_000
    day_rejects: Whole = 1_000
    rejects_in_a_row: Whole = 20
    unknown: Whole = 20
    unsettled: Whole = 1_000
    collar_bps: Annotated[int, Field(ge=0, le=10_000, strict=True)] = 500
    quote_seconds: Seconds = 2.0
    stale_quotes: Whole = 100
    clock_jump_seconds: Seconds = 5.0
    slow_write_seconds: Seconds = 10.0

    def limits(self) -> Limits:
        """Return the limits in the engine's units."""
        money = {"order_notional", "symbol_notional", "day_notional", "day_loss"}
        renamed = {"collar_bps": "collar", "quote_seconds": "quote_age"}
        values = {}
        for name, value in self.model_dump().items():
            scaled = name in money or name.endswith("_seconds")
            values[renamed.get(name, name.removesuffix("_seconds"))] = nano_amount(value) if scaled else value
        return Limits(**values)


def _address(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65_535:
        raise ValueError("HOST:PORT, such as 127.0.0.1:8470")
    return value


def _partition(value: str) -> str:
    one, slash, count = value.partition("/")
    if not (slash and one.isdigit() and count.isdigit() and 1 <= int(one) <= int(count) <= 1_000):
        raise ValueError("K/N, partition K of at most 1000, such as 1/2")
    return value


class LiveConfig(_Section):
    """The whole configuration of a live router."""

    mode: Literal["live", "shadow"] = "live"
    partition: Annotated[str, AfterValidator(_partition)] = "1/1"
    listen: Annotated[str, AfterValidator(_address)] = "127.0.0.1:8470"
    public: bool = False
    log: _LogConfig
    router: _RouterConfig = _RouterConfig()
    venues: Annotated[dict[Name, _PlaceConfig], Field(min_length=1)]
    pools: dict[Name, _PoolConfig] = {}
    instruments: Annotated[dict[Name, Instrument], Field(min_length=1)]
    fees: Path | None = None
    limits: _LimitsConfig = _LimitsConfig()
    tokens: Annotated[dict[Name, TokenConfig], Field(min_length=1)]
    patience_seconds: Seconds = 2.0
    longest_seconds: Seconds = 3_600.0
    body_bytes: Annotated[int, Field(ge=1_000, le=16_000_000, strict=True)] = 1_000_000
    halt_file: Path | None = None
    control_socket: Path | None = None

    @field_validator("instruments", mode="before")
    @classmethod
    def _instruments(cls, given: Any) -> Any:
        """Return instruments by symbol, from tables or a file."""
        if isinstance(given, str | Path):
            return load_instruments(given)
        if not isinstance(given, dict):
            return given
        return {
            symbol: one if isinstance(one, Instrument) else instrument_from_plain(str(symbol), one)
            for symbol, one in given.items()
        }

    @property
    def currency(self) -> str:
        """The quote currency of all instruments."""
        return next(iter(self.instruments.values())).currency

    def build_fees(self, *, schedule: bool = True) -> LiveFees:
        """Return the fees of venues and pools; without the ``schedule``, only those stated for them."""
        stated: dict[str, tuple[Any, Any] | None] = {}
        for name, venue in self.venues.items():
            stated[name] = (venue.taker, venue.maker) if {"taker", "maker"} & venue.model_fields_set else None
        for name, pool in self.pools.items():
            stated[name] = (pool.fee, pool.fee) if "fee" in pool.model_fields_set else None
        return LiveFees(stated, load_fees(self.fees) if schedule and self.fees is not None else None)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    @cached_property
    def part(self) -> tuple[int, int]:
        """Number of the partition, from 1, and number of partitions."""
        number, count = self.partition.split("/")
        return int(number), int(count)

    @property
    def stream(self) -> str:
        """Name of the log; each partition has its own."""
        one, count = self.part
        return self.log.stream if count == 1 else f"{self.log.stream}.{one}of{count}"

    @property
    def lease_seconds(self) -> float:
        """Duration of the lease: limited on PostgreSQL, where a standby may take over; a SQLite file has no standby."""
        return math.inf if self.log.postgres is None else self.log.lease_seconds

    def partition_of(self, symbol: str) -> int:
        """Return the partition of a symbol, from 1: by a hash, so it does not depend on the configured symbols."""
        parts = self.part[1]
        return int.from_bytes(hashlib.blake2b(symbol.encode(), digest_size=8).digest()) % parts + 1 if parts > 1 else 1

    def open_log(self, *, create: bool = True) -> Log:
        """Open the log."""
        if self.log.path is not None:
            return SqliteLog(self.log.path, self.stream, create=create, key=self.log.key())
        from riskroute.live.log.postgres import PostgresLog

        return PostgresLog(str(self.log.postgres), self.stream, create=create, key=self.log.key())

    def open_state_store(self) -> StateStore:
        """Open the store of snapshots and settled orders beside the log."""
        if self.log.path is not None:
            return SqliteStateStore(self.log.path.with_name(f"{self.log.path.name}-state"), self.stream)
        return PostgresStateStore(str(self.log.postgres), self.stream)

    def build_router(self) -> Router:
        """Return the router, by name or from its state file; if both are given, they must agree."""
        name, parameters = router_parameters(self.router.name)
        if self.router.state is None:
            return make_router(name, **parameters)
        state = _read_state(self.router.state)
        if is_file_router(name):
            return file_router(name).restore(state)
        router = restore_router(state)
        given = "name" in self.router.model_fields_set
        if given and router_name(name) not in (router.name, router.parameters.get("policy")):
            raise InputError(f"router.name must be {router.name}, as in its state file, was {name}")
        return router

    def build_venues(self, history: MarketHistory, clock: Callable[[], int]) -> dict[str, VenueLink]:
        """Return venues and pools by name; in shadow mode, which sends nothing, only those with a source of books."""
        known = self.build_fees()
        beside = self.log.path or self.halt_file
        folder = Path.cwd() if beside is None else beside.parent
        stem = self.stream if self.log.path is None else self.log.path.name
        made: dict[str, VenueLink] = {}
        for name, place in {**self.venues, **self.pools}.items():
            if self.mode == "shadow" and place.kind == "simulated":
                continue

            def fees(instrument: Instrument, name: str = name) -> LivePlaceFees:
                return known.of(name, instrument, instrument.session_day(clock()))

            setup = VenueSetup(
                place=name,
                options=place.options,
                instruments=self.instruments,
                clock=clock,
                quotes=history,
                fees=fees,
                journal=folder / f"{stem}-venue-{in_file_name(name)}.jsonl",
                trades=self.mode == "live",
            )
            made[name] = _simulated(setup, place) if place.kind == "simulated" else _venue_kind(name, place.kind)(setup)
        return made

    def rules(self) -> dict[str, PlaceRules]:
        """Return the limits on the use of each venue and pool."""
        return {name: place.rules() for name, place in {**self.venues, **self.pools}.items()}


def _simulated(setup: VenueSetup, place: _PlaceConfig) -> VenueLink:
    name, hidden = setup.place, place.hidden if isinstance(place, _PoolConfig) else 0
    market = SimulatedVenueMarket(
        setup.quotes,
        place.seed,
        {name: hidden},
        place.fill_seconds,
        lambda _, instrument: setup.fees(instrument),
        setup.instruments,
    )
    venue = JournalledVenue(
        name,
        market,
        setup.clock,
        latency=place.latency_ms / 1000,
        faults=Faults(**{field.name: getattr(place, field.name) for field in fields(Faults)}),
        seed=place.seed,
        journal=setup.journal,
    )
    return VenueLink(ServedSimulatedVenue(venue))


def _venue_kind(place: str, kind: str) -> Callable[[VenueSetup], VenueLink]:
    """Return the function that makes venues of a kind, which is ours or a package's entry point."""
    if kind == "ccxt":
        from riskroute.live.venues.ccxt_venue import ccxt_venue

        return ccxt_venue
    found = entry_points(group="riskroute.venues")
    if kind not in found.names:
        known = ", ".join(sorted({"simulated", "ccxt", *found.names}))
        raise InputError(
            f"kind of {place} must be one of {known}, was {shown(kind)}: install the package that has it as an entry "
            "point in the group riskroute.venues"
        )
    try:
        made: Callable[[VenueSetup], VenueLink] = found[kind].load()
    except (ImportError, AttributeError) as error:
        raise InputError(f"kind {kind} of {place} cannot be loaded: {one_line_text(error)}") from None
    return made


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_state(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"router.state must be a readable file, was {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(f"router.state must be a JSON file, was {str(path)!r}, which is not valid JSON") from None


def live_config(values: Mapping[str, Any]) -> LiveConfig:
    """Validate a configuration; raise an `InputError` that names the field, its value and what was expected."""
    _check_no_keys(values)
    config = validated_config(LiveConfig, dict(values))
    both = sorted(set(config.venues) & set(config.pools))
    if both:
        raise InputError(f"venues and pools must have different names, both have {both[0]!r}")
    if config.part[1] > 1 and config.log.postgres is None:
        raise InputError(f"partition must be 1/1 for a log in a file, was {config.partition!r}: others need PostgreSQL")
    _check_instruments(config)
    _check_traded(config)
    if not config.public and not _is_loopback(config.address[0]):
        raise InputError(f"listen must be a loopback address unless public = true, was {config.listen!r}")
    return config


def _check_no_keys(values: Mapping[str, Any]) -> None:
    """Raise `InputError` if a venue's table has keys of an account; the message does not state them."""
    for name, place in (values.get("venues") or {}).items():
        tables = [place, place.get("options")] if isinstance(place, dict) else []
        for table in tables:
            for key in table if isinstance(table, dict) else ():
                if re.sub(r"[^a-z]", "", str(key).lower()) in ("apikey", "secret", "password", "privatekey"):
                    raise InputError(
                        f"{key} of venue {name} must not be in the configuration: use keys_env or keys_file"
                    )


def _check_traded(config: LiveConfig) -> None:
    """Raise `InputError` if money is at stake and its limits are not stated."""
    traded = [name for name, place in config.venues.items() if place.options.get("trade") is True]
    needed = ("order_notional", "symbol_notional", "day_notional", "day_loss")
    if traded and (missing := [name for name in needed if name not in config.limits.model_fields_set]):
        raise InputError(f"limits.{missing[0]} must be set, was missing: {traded[0]} has trade = true")


def _check_instruments(config: LiveConfig) -> None:
    """Raise `InputError` for several currencies, ticks finer than 1e-9, negative prices, or fees that do not apply."""
    fees = config.build_fees(schedule=False)
    for symbol, one in config.instruments.items():
        if one.currency != config.currency:
            first = next(iter(config.instruments))
            expected = "instruments of a service must have one currency, in which limits and costs are added"
            raise InputError(f"{expected}: {first} has {config.currency}, {symbol} {one.currency}")
        if one.tick * NANO % 1:
            raise InputError(f"tick of {symbol} must be a multiple of 0.000000001, was {one.tick}")
        if one.negative_prices:
            raise InputError(
                f"negative_prices of {symbol} must be false: limits and collars are fractions of the price"
            )
        for place in (*config.venues, *config.pools):
            fees.of(place, one, dt.date.max)


def read_live_config(path: Path, **more: str | None) -> LiveConfig:
    """Read a configuration file; relative paths are relative to its folder.

    Values in ``more`` that are not None override values in the file.
    """
    given = {name: value for name, value in more.items() if value is not None}
    beside = path.absolute().parent
    values = {**read_toml_config(path), **given}
    if isinstance(values.get("instruments"), str):
        values["instruments"] = beside / Path(values["instruments"]).expanduser()
    config = live_config(values)

    def absolute(given: Path | None) -> Path | None:
        return None if given is None else beside / given.expanduser()

    log = config.log.model_copy(update={"path": absolute(config.log.path), "head_key": absolute(config.log.head_key)})
    name = config.router.name
    if ".py:" in name:  # a router in a file
        name = str(absolute(Path(name)))
    router = config.router.model_copy(update={"name": name, "state": absolute(config.router.state)})
    control = absolute(config.control_socket)
    if control is None:
        control = beside / f"{config.stream}-control" if log.path is None else Path(f"{log.path}-control")
    paths = {"halt_file": absolute(config.halt_file), "control_socket": control, "fees": absolute(config.fees)}
    return config.model_copy(update={"log": log, "router": router, **paths})


def write_live_config(path: Path, *, mode: str = "live") -> dict[str, str]:
    """Write a commented configuration, and return the tokens by name, which are stored nowhere."""
    if path.exists():
        raise InputError(f"file must be new, was {str(path)!r}, which exists")
    tokens = {name: new_token() for name in ("desk", "risk", "screen")}
    template = Path(__file__).with_name("template.toml").read_text(encoding="utf-8")
    text = template.format(mode=mode, **{name: token_hash(token) for name, token in tokens.items()})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"file must be writable, was {str(path)!r}: {error.strerror or error}") from None
    return tokens
