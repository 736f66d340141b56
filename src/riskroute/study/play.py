"""Play routers on the days of a market: one task per router and symbol, day after day."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import polars as pl

from riskroute.core.arrays import Floats
from riskroute.core.errors import DataError, InputError, InvariantError
from riskroute.core.instrument import SHARES, TRADING_ZONE, Instrument
from riskroute.core.provenance import code_hash
from riskroute.core.runtime import compilation_timed
from riskroute.core.seeding import seed_stream, seeding_hash
from riskroute.learning.registry import POLICIES
from riskroute.market.clock import SECOND, local_time, zone_label
from riskroute.market.day_books import DayBooks
from riskroute.routers.context import Context, ContextBooks
from riskroute.routers.risk import BALANCED
from riskroute.routers.router import Router
from riskroute.simulation.backends import Backend, run_backend_tasks
from riskroute.simulation.play_day import STALE, PlayableDay, PlayableOrders, View, play_day, spaced_playable_orders
from riskroute.study.candidates import CLAIRVOYANT, Candidate
from riskroute.study.config import BacktestConfig
from riskroute.study.day_tables import KEY, DayTables, day_tables, notional
from riskroute.study.markets import MarketDay, without_trades

_TOLERANCE_BPS = 1e-6  # sums of a thousand fills are exact to about this

Hours = Mapping[tuple[str, str], tuple[int, int]]  # first and last time, UTC nanoseconds, by symbol and day


def _check_tables(tables: DayTables, hours: Hours, negative: Sequence[str] = ()) -> None:
    """Raise `InvariantError` unless quantities and money are conserved and orders lie within the hours.

    The tables are as played, in units. Fills must add up to the quantity, cost, fees and estimated quantity of their
    order, and to their child orders; none is earlier than the order. Prices are above 0, except for the symbols in
    ``negative``.
    """
    orders = tables.orders
    bps = 1e4 / notional()
    filled = (
        tables.fills.join(orders.select(*KEY, "sign", arrival="mid"), on=KEY, how="left")
        .group_by(KEY)
        .agg(
            known=pl.col("arrival").is_not_null().all(),
            filled=pl.col("quantity").sum(),
            paid=(pl.col("quantity") * (pl.col("sign") * (pl.col("price") - pl.col("arrival")) + pl.col("fee"))).sum(),
            charged=(pl.col("quantity") * pl.col("fee")).sum(),
            guessed=pl.col("quantity").filter(pl.col("estimated")).sum(),
            least=pl.col("price").min(),
            first=pl.col("time").min(),
        )
    )
    both = orders.join(filled, on=KEY, how="full", coalesce=True)
    _hold(both, pl.col("filled") == pl.col("quantity"), "fills add up to {filled} of {quantity} units")
    _hold(both, _same(pl.col("paid"), pl.col("cost"), bps), "fills cost {paid}, the order {cost}")
    _hold(both, _same(pl.col("charged"), pl.col("fees"), bps), "fills pay fees of {charged}, the order {fees}")
    _hold(both, pl.col("guessed") == pl.col("estimated"), "fills estimate {guessed} units, the order {estimated}")
    _hold(both, (pl.col("least") > 0) | pl.col("symbol").is_in(negative), "a fill has a price of {least}")
    _hold(both, pl.col("first") >= pl.col("time"), "a fill at {first} is earlier than the order at {time}")
    _check_children(tables)
    _check_hours(orders, hours)


def _check_children(tables: DayTables) -> None:
    sums = tables.fills.group_by(*KEY, "child").agg(traded=pl.col("quantity").sum())
    both = tables.children.join(sums, on=[*KEY, "child"], how="full", coalesce=True)
    same = pl.col("filled") == pl.col("traded").fill_null(0)
    _hold(both, same, "child {child} filled {filled} units, its fills {traded}")


def _check_hours(orders: pl.DataFrame, hours: Hours) -> None:
    rows = [(symbol, day, first, last) for (symbol, day), (first, last) in hours.items()]
    known = pl.DataFrame(rows, schema=["symbol", "day", "opens", "closes"], orient="row")
    both = orders.join(known, on=["symbol", "day"], how="left")
    ends = pl.col("time") + (pl.col("horizon") * SECOND).cast(pl.Int64)
    within = (pl.col("time") >= pl.col("opens")) & (ends <= pl.col("closes"))
    _hold(both, within, "an order at {time} is outside the hours {opens} to {closes}")


def check_played_bound(orders: pl.DataFrame) -> None:
    """Raise `InvariantError` if an order costs less than the same order of the clairvoyant."""
    scale = 1e4 / notional()
    key = [name for name in KEY if name != "router"]
    bound = orders.filter(pl.col("router") == CLAIRVOYANT).select(*key, bound=pl.col("cost") * scale)
    both = orders.with_columns(bps=pl.col("cost") * scale).join(bound, on=key)
    allowed = pl.col("bps") >= pl.col("bound") - _TOLERANCE_BPS
    _hold(both, allowed, f"cost of {{bps}} bps is below the {{bound}} bps of the {CLAIRVOYANT}")


def _same(one: pl.Expr, other: pl.Expr, scale: pl.Expr) -> pl.Expr:
    return ((one - other) * scale).abs() <= _TOLERANCE_BPS


def _hold(table: pl.DataFrame, rule: pl.Expr, text: str) -> None:
    wrong = table.filter(~rule.fill_null(False))
    if wrong.height:
        row = wrong.row(0, named=True)
        order = f"order {row['number']} of {row['symbol']} on {row['day']} by {row['router']}, seed {row['seed']}"
        count = f" ({wrong.height:,} such rows)" if wrong.height > 1 else ""
        raise InvariantError(f"{order}: {text.format(**row)}{count}; results would be wrong, please report this")


_WARMING = 60 * SECOND  # books of a day need a minute to fill up


class OrderDraw(NamedTuple):
    """The orders of one seed: ``orders`` per day, after ``before`` orders of other seeds in the rotation of sizes."""

    seed: int
    before: int
    orders: int

    @classmethod
    def of(cls, config: BacktestConfig) -> list[OrderDraw]:
        """Return one draw per seed; the orders of a day are divided among them, two or more each.

        Examples
        --------
        >>> [draw.orders for draw in OrderDraw.of(BacktestConfig(orders=12, seeds=5))]
        [2, 2, 3, 2, 3]
        """
        seeds = min(config.seeds, max(config.orders // 2, 1))
        edges = [config.orders * k // seeds for k in range(seeds + 1)]
        return [cls(config.seed + k, first, last - first) for k, (first, last) in enumerate(pairwise(edges))]


@dataclass(frozen=True)
class PlayTask:
    """One router on the days of one symbol, once per seed: each seed has its own arrival times, draws and router."""

    candidate: Candidate
    days: tuple[MarketDay, ...]
    train: int
    config: BacktestConfig
    placebo: str = ""  # one of `PLACEBOS`

    def prepare(self) -> None:
        """Do nothing: tasks share nothing but files."""

    def perform(self) -> DayTables:
        """Play all days; the router learns from day to day. The tables include its final state with the first seed."""
        with compilation_timed(self.candidate.label):
            routers = [self.start(draw) for draw in OrderDraw.of(self.config)]
            return dataclasses.replace(self.play(routers), state=routers[0].state())

    def start(self, draw: OrderDraw) -> Router:
        """Make the router; seed, risk profile and rounds are the backtest's unless the candidate sets them."""
        known = {"rounds": len(self.days) * draw.orders, "seed": draw.seed, "risk": self.config.risk}
        given = {name: known[name] for name in self._given}
        return dataclasses.replace(self.candidate, parameters={**given, **self.candidate.parameters}).make()

    def play(self, routers: Sequence[Router]) -> DayTables:
        """Play all days with one router per seed."""
        config, parts = self.config, []
        for place, day in enumerate(self.days):
            whole = day_to_play(day, config)
            for router, draw in zip(routers, OrderDraw.of(config), strict=True):
                trading = dataclasses.replace(whole, orders=_day_orders(day, day.load().books, config, draw))
                played = play_day(
                    router,
                    trading,
                    seed=draw.seed,
                    latency=config.latency,
                    leak=config.stress.leak * day.instrument.unit_size,
                    fade=config.stress.fade,
                    view=_placebo_view(self.placebo, trading, draw.seed) if self.placebo else None,
                )
                parts.append(
                    day_tables(
                        played,
                        trading.books,
                        {"router": self.candidate.label, "seed": draw.seed, "symbol": day.symbol, "day": str(day.date)},
                        zone=day.zone,
                        queue=day.load().queue,
                        trades=day.load().trades,
                        twaps=_twaps(day, trading.orders.times.tobytes(), trading.orders.horizons.tobytes()),
                        block_seconds=60 * config.block_minutes,
                        begins=_session(day.load().books, day.date, config.clock_hours, day.instrument)[0],
                        judged_from=_first_judged(place, len(self.days), self.train, draw.orders),
                    )
                )
        return DayTables.together(parts)

    @property
    def _given(self) -> tuple[str, ...]:
        """Parameters that the backtest sets on a registered router or policy; none for a router object."""
        if self.candidate.begins_as is not None:
            return ()
        if self.candidate.name in POLICIES:
            return ("risk", "rounds", "seed")
        return tuple(name for name in ("seed", "risk") if name in self.candidate.make().parameters)

    @property
    def identity(self) -> str:
        """Hash of everything the result depends on."""
        days = [
            [
                *(day.name, day.folder.name, *day.plain_fees, [dataclasses.asdict(one) for one in day.pools]),
                day.playing(self.config.protection).to_json(),
            ]
            for day in self.days
        ]
        candidate = [self.candidate.label, self.candidate.name, dict(self.candidate.parameters)]
        if self.candidate.begins_as is not None:
            candidate.append(hashlib.sha256(cloudpickle.dumps(self.candidate.begins_as)).hexdigest())
        if self.candidate.source:
            candidate.append(hashlib.sha256(self.candidate.source.encode()).hexdigest())
        heeded = "risk" in self._given and "risk" not in self.candidate.parameters
        risk = self.config.risk if heeded else BALANCED
        same: dict[str, Any] = {"routers": (), "risk": risk, "protection": None, "benchmark": "arrival"}
        config = dataclasses.asdict(dataclasses.replace(self.config, **same))
        return seeding_hash([candidate, days, self.train, config, self.placebo, code_hash()], 24)


@lru_cache(maxsize=1000)
def _twaps(day: MarketDay, times: bytes, horizons: bytes) -> Floats:
    """Return the TWAP of every order of a day; cached, since it is the same for all routers."""
    prepared, begins = day.load(), np.frombuffer(times, dtype=np.int64)
    ends = begins + (np.frombuffer(horizons) * SECOND).astype(np.int64)
    return prepared.books.aged(STALE[prepared.queue is not None]).mean_mids(begins, ends)


PLACEBOS = ("shuffled", "lagged")  # books of another order of the day, or of ten minutes ago


def _placebo_view(placebo: str, day: PlayableDay, seed: int) -> View:
    """Return a view that shows every order the books of another time."""
    times = day.orders.times
    if placebo == "shuffled":
        others = np.random.default_rng(seed_stream(seed, "shuffled contexts", day.name)).permutation(times)
    else:
        others = np.minimum(np.maximum(times - 600 * SECOND, day.books.first), times)

    def view(number: int, context: Context) -> Context:
        now, books = day.books.as_of(int(others[number])), context.books
        sides = {"bid_px": now.bid_px, "bid_sz": now.bid_sz, "ask_px": now.ask_px, "ask_sz": now.ask_sz}
        fees = {"takers": books.takers, "makers": books.makers, "fee_limits": books.fee_limits}
        shown = ContextBooks(books.venues, **sides, **fees, ages=now.ages)
        return dataclasses.replace(context, books=shown) if np.isfinite(shown.mid) else context

    return view


def _first_judged(place: int, days: int, train: int, orders: int) -> int:
    """Return the number of the first judged order of a day; with training, a single day is judged from its middle."""
    if days == 1:
        return orders // 2 if train else 0
    return orders if place < train else 0


def training_days(days: int, train: int | None) -> int:
    """Return the number of training days: ``train``, at most all but one. Default: half of the days, at least 1.

    A single day is halved and counts as 1.

    Examples
    --------
    >>> training_days(5, None), training_days(5, 4), training_days(1, None), training_days(1, 0)
    (2, 4, 1, 0)
    """
    if train is None:
        return max(days // 2, 1)
    return min(train, max(days - 1, 1))


def day_to_play(day: MarketDay, config: BacktestConfig) -> PlayableDay:
    """Return a day with its orders of the first seed, the same for all routers, under the configured stress."""
    prepared, stress = day.load(), config.stress
    fees = day.fees
    fees.takers[:, 1] += stress.fees / 1e4
    pools = tuple(
        dataclasses.replace(
            pool,
            smallest=day.instrument.units(pool.smallest, f"smallest of {pool.name}"),
            largest=day.instrument.units(pool.largest, f"largest of {pool.name}"),
            fee=pool.fee / float(day.instrument.multiplier),
            presence=min(pool.presence * stress.presence, 1.0),
            rate=pool.rate * stress.presence,
            adverse=pool.adverse * stress.adverse,
        )
        for pool in day.pools
    )
    queue = prepared.queue
    if queue is not None:
        queue = (queue.pessimistic() if stress.pessimistic_queues else queue).with_model(config.queue_model)
    orders = _day_orders(day, prepared.books, config, OrderDraw.of(config)[0])
    books = prepared.books.aged(STALE[queue is not None])
    queue = queue.on_books(books) if queue is not None else None
    instrument = day.playing(config.protection)
    return PlayableDay(day.name, books, orders, fees.takers, fees.makers, pools, queue, instrument, fees.limits)


def _day_orders(day: MarketDay, books: DayBooks, config: BacktestConfig, draw: OrderDraw) -> PlayableOrders:
    """Return the orders of a day with one seed, at random times, with sizes and sides in turn."""
    rng = np.random.default_rng(seed_stream(draw.seed, "orders", day.symbol, str(day.date)))
    try:
        hours = _session(books, day.date, config.clock_hours, day.instrument)
        plain = spaced_playable_orders(
            books, draw.orders, 1, side=config.side, horizon=config.horizon, lot=1, rng=rng, hours=hours
        )
    except InputError as error:
        raise InputError(f"{error}, on {day.name}") from None
    given = [day.instrument.order_units(one) for one in config.quantities]
    lot = day.instrument.lot_units if config.lot is None else day.instrument.units(config.lot, "lot")
    turn = draw.before + np.arange(draw.orders)
    signs = np.where(turn // len(config.quantities) % 2 == 0, 1, -1) if config.side == "both" else plain.signs
    sizes = np.array(given, dtype=np.int64)[turn % len(given)]
    mids = books.mids(plain.times)
    for number in np.flatnonzero(np.isfinite(mids)) if day.instrument.minimum_notional else ():
        day.instrument.order_units(config.quantities[turn[number] % len(given)], price=float(mids[number]))
    return dataclasses.replace(plain, signs=signs, shares=sizes, lot=lot)


def _session(
    books: DayBooks,
    date: dt.date,
    hours: tuple[dt.time, dt.time] | None = None,
    instrument: Instrument = SHARES,
) -> tuple[int, int]:
    """Return the times between which orders arrive and end, UTC nanoseconds; ``hours`` are in the instrument's zone."""
    opening, last = int(books.stamps.min()), books.last
    first = opening + _WARMING
    whole = min(first, last), last
    if hours is not None:
        limits = instrument.session_hours(date, *hours)
    elif instrument.hours or instrument.zone != TRADING_ZONE:
        limits = instrument.session(date)
    else:
        limits = instrument.session_hours(date, dt.time(9, 35), dt.time(15, 55))
    found = max(first, limits[0]), min(last, limits[1])
    if hours is None:
        return found if found[1] - found[0] >= 600 * SECOND else whole
    if found[1] <= found[0]:
        zone = instrument.zone
        there = " to ".join(f"{local_time(stamp, zone):%H:%M:%S}" for stamp in (opening, last))
        text = "-".join(moment.isoformat("minutes") for moment in hours)
        raise InputError(
            f"hours must overlap those of the books, {there} {zone_label(zone)} without the first minute, was "
            f"{text} {zone_label(zone)}"
        )
    return found


def _configured_hours(day: MarketDay, config: BacktestConfig) -> tuple[int, int]:
    """Return the configured hours of a day, UTC nanoseconds. Default: unbounded."""
    return (0, 2**62) if config.clock_hours is None else day.instrument.session_hours(day.date, *config.clock_hours)


def check_playable_days(days: Sequence[MarketDay], config: BacktestConfig) -> None:
    """Raise `InputError` unless every day has time for its orders and a test day is left; a single day is halved.

    If VWAP is the price benchmark, every day must have public trades.
    """
    if not days:
        raise InputError("days must hold at least one day, was empty")
    counts = Counter(day.symbol for day in days)
    most = max(max(counts.values()) - 1, 1)
    if config.train is not None and config.train > most:
        raise InputError(f"train must be at most {most}, to leave a test day, was {config.train}")
    if config.benchmark == "vwap" and (silent := without_trades(days)):
        raise InputError(
            f"benchmark must be arrival, touch or twap without public trades, was vwap; {silent[0].name} has none: "
            "import its trades too"
        )
    for day in days:
        for draw in OrderDraw.of(config):
            _day_orders(day, day.load().books, config, draw)


class PlayCache:
    """Tables of finished tasks in a folder, for reuse.

    Router objects are never cached: their code may have changed, and a hash of their state does not show that.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, task: PlayTask) -> bool:
        """Return whether the result of a task is stored."""
        return task.candidate.begins_as is None and self._is_written(task)

    def _is_written(self, task: PlayTask) -> bool:
        return (self.folder / task.identity / "fills.parquet").exists()

    def put(self, task: PlayTask, result: DayTables) -> None:
        """Store the tables of a task."""
        result.write(self.folder / task.identity)

    def get(self, task: PlayTask) -> DayTables | None:
        """Return the tables of a task; None if they are missing or unreadable."""
        try:
            return DayTables.read(self.folder / task.identity) if self._is_written(task) else None
        except DataError:
            return None


def play_routers(
    candidates: Sequence[Candidate],
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    backend: Backend | None = None,
    cache: PlayCache | None = None,
    finished: Callable[[PlayTask], None] | None = None,
    placebo: str = "",
) -> DayTables:
    """Play every router on the days of every symbol."""
    tasks = [dataclasses.replace(task, placebo=placebo) for task in play_tasks(candidates, days, config)]
    return DayTables.together(perform_plays(tasks, backend=backend, cache=cache, finished=finished))


def perform_plays(
    tasks: Sequence[PlayTask],
    *,
    backend: Backend | None = None,
    cache: PlayCache | None = None,
    finished: Callable[[PlayTask], None] | None = None,
) -> list[DayTables]:
    """Perform tasks, check their invariants, and return their tables with natural quantities and amounts.

    Routers with the most feedback take longest and start first, so that the other workers do not idle at the end.
    """
    order = sorted(range(len(tasks)), key=lambda number: tasks[number].candidate.make().feedback, reverse=True)
    played = run_backend_tasks(
        [tasks[number] for number in order], backend or Backend(), cache=cache, finished=finished
    )
    found = dict(zip(order, played, strict=True))
    for number, tables in found.items():
        task = tasks[number]
        hours = {(day.symbol, str(day.date)): _configured_hours(day, task.config) for day in task.days}
        _check_tables(tables, hours, [day.symbol for day in task.days if day.instrument.negative_prices])
    return [
        found[number].natural(task.days[0].instrument).against(task.config.benchmark)
        for number, task in enumerate(tasks)
    ]


def play_tasks(candidates: Sequence[Candidate], days: Sequence[MarketDay], config: BacktestConfig) -> list[PlayTask]:
    """Return one task per router and symbol."""
    symbols = {
        symbol: tuple(day for day in days if day.symbol == symbol)
        for symbol in dict.fromkeys(day.symbol for day in days)
    }
    return [
        PlayTask(candidate, mine, training_days(len(mine), config.train), config)
        for candidate in candidates
        for mine in symbols.values()
    ]
