"""Tables of a backtest: every order, child order and fill, for audit and recomputation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import DataError
from riskroute.core.files import write_json, write_whole
from riskroute.core.instrument import TRADING_ZONE, Instrument
from riskroute.core.text import one_line_text
from riskroute.market.clock import SECOND
from riskroute.market.day_books import DayBooks
from riskroute.market.day_trades import DayTrades
from riskroute.market.queue_fills import QueueReplay
from riskroute.routers.context import Context
from riskroute.simulation.play_day import PlayedDay, PlayedOrder

Schema = dict[str, polars.DataType | type[polars.DataType]]

_KEY: Schema = {
    "router": polars.String,
    "seed": polars.Int64,
    "symbol": polars.String,
    "day": polars.String,
    "number": polars.Int64,
}
KEY = tuple(_KEY)  # identifies an order

# Quantities are natural and amounts in `currency`; the value of an order is `quantity * mid * multiplier`. (As played,
# before `DayTables.natural`: whole numbers of units, and costs at a multiplier of 1.) Times are UTC nanoseconds. At the
# decision: `bid` and `ask` are the best prices of all venues, `depth` the quantity displayed on the side to take from.
# At the deadline: `end_mid`, `end_spread`. From arrival to deadline: `twap` of the mid; `vwap` and quantity `traded` of
# the public trades (both NaN if the day has none; `mid` and 0 if none occur in this time). `after_10` is the mid ten
# seconds after the last fill. `cost` and `foreseen` (the cost if the displayed books hold and nothing else fills) are
# stated against the price `benchmark`. `impact` is the estimated market impact of the quantity taken, and not part of
# `cost`; `volume` is the traded volume of the time block.
# `exploration` is the cost minus the cost of the greedy plan on the same books, NaN for routers that do not explore.
# `block` numbers the time blocks of the day; `judged` is false on training days; `clock` is local to `zone`.
ORDERS: Schema = _KEY | {
    "time": polars.Int64,
    "sign": polars.Int64,
    "quantity": polars.Float64,
    "horizon": polars.Float64,
    "mid": polars.Float64,
    "bid": polars.Float64,
    "ask": polars.Float64,
    "depth": polars.Float64,
    "block": polars.Int64,
    "judged": polars.Boolean,
    "end_mid": polars.Float64,
    "end_spread": polars.Float64,
    "twap": polars.Float64,
    "vwap": polars.Float64,
    "traded": polars.Float64,
    "benchmark": polars.Float64,
    "after_1": polars.Float64,
    "after_10": polars.Float64,
    "after_60": polars.Float64,
    "foreseen": polars.Float64,
    "cost": polars.Float64,
    "fees": polars.Float64,
    "impact": polars.Float64,
    "volume": polars.Float64,
    "estimated": polars.Float64,
    "prevented": polars.Float64,
    "through": polars.Float64,
    "stale": polars.Int64,
    "decision_us": polars.Float64,
    "exploration": polars.Float64,
    "clock": polars.Time,
    "zone": polars.String,
    "multiplier": polars.Float64,
    "currency": polars.String,
}

# `displayed`: the lesser of the quantity displayed at the decision and `sent`, NaN unless `kind` is take; `fee`: amount
CHILDREN: Schema = _KEY | {
    "child": polars.Int64,
    "kind": polars.String,
    "place": polars.String,
    "sent": polars.Float64,
    "filled": polars.Float64,
    "price": polars.Float64,
    "fee": polars.Float64,
    "displayed": polars.Float64,
    "posted": polars.Int64,
    "last": polars.Int64,
    "known": polars.Int64,
}

# `fee` is an amount per quantity of 1, and includes a share of the child's minimum or maximum fee; `mid` is the
# consolidated mid at the fill, `mid_10` ten seconds later
FILLS: Schema = _KEY | {
    "child": polars.Int64,
    "kind": polars.String,
    "place": polars.String,
    "time": polars.Int64,
    "quantity": polars.Float64,
    "price": polars.Float64,
    "fee": polars.Float64,
    "estimated": polars.Boolean,
    "mid": polars.Float64,
    "mid_1": polars.Float64,
    "mid_10": polars.Float64,
    "mid_60": polars.Float64,
}

MARKOUTS = (1, 10, 60)  # seconds

_QUANTITIES = (
    *("quantity", "depth", "volume", "traded", "estimated", "prevented", "through", "sent", "filled", "displayed"),
)
_AMOUNTS = ("foreseen", "cost", "fees", "impact", "exploration")

# prices against which costs are stated, by name
PRICE_BENCHMARKS = {
    "arrival": "consolidated mid at arrival",
    "touch": "far touch at arrival",
    "vwap": "VWAP from arrival to the horizon",
    "twap": "TWAP from arrival to the horizon",
}


def notional() -> polars.Expr:
    """Return an expression for the value of an order at the arrival mid."""
    return polars.col("quantity") * polars.col("mid").abs() * polars.col("multiplier")


def benchmark_price(name: str) -> polars.Expr:
    """Return an expression for the price benchmark of an order by its name in `PRICE_BENCHMARKS`."""
    if name == "touch":
        return polars.when(polars.col("sign") > 0).then("ask").otherwise("bid")
    return polars.col({"arrival": "mid"}.get(name, name))


def cost_against(name: str, cost: str = "cost") -> polars.Expr:
    """Return an expression for the cost of an order, an amount, against the price ``name`` of `PRICE_BENCHMARKS`.

    Examples
    --------
    >>> prices = {"benchmark": 9.99, "bid": 9.98, "ask": 10.0}
    >>> orders = polars.DataFrame([{"sign": 1, "quantity": 100, "multiplier": 1.0, "cost": 3.0} | prices])
    >>> orders.select(cost_against("touch").round(6)).item()
    2.0
    """
    moved = polars.col("benchmark") - benchmark_price(name)
    return polars.col(cost) + polars.col("sign") * polars.col("quantity") * polars.col("multiplier") * moved


@dataclass(frozen=True, eq=False)
class DayTables:
    """Orders, child orders and fills, and optionally the final state of the router with the first seed."""

    orders: polars.DataFrame
    children: polars.DataFrame
    fills: polars.DataFrame
    state: dict[str, Any] | None = None

    def natural(self, instrument: Instrument) -> DayTables:
        """Return tables as played, with natural quantities and amounts in the quote currency."""
        part, whole = instrument.unit.as_integer_ratio()
        multiplier = float(instrument.multiplier)

        def changed(frame: polars.DataFrame, amounts: dict[str, float]) -> polars.DataFrame:
            numbers = frame.select(polars.selectors.numeric()).columns  # `estimated` of a fill is a flag
            # float64 rounds once, since units * part is exact; polars would multiply by a rounded 1 / whole
            columns = [frame[name] for name in _QUANTITIES if name in numbers]
            quantities = [polars.Series(one.name, one.to_numpy() * float(part) / float(whole)) for one in columns]
            return frame.with_columns(
                *quantities, *(polars.col(name) * times for name, times in amounts.items() if times != 1)
            )

        orders = changed(self.orders, dict.fromkeys(_AMOUNTS, instrument.value))
        return DayTables(
            orders.with_columns(multiplier=polars.lit(multiplier), currency=polars.lit(instrument.currency)),
            changed(self.children, {"fee": instrument.value}),
            changed(self.fills, {"fee": multiplier}),
            self.state,
        )

    def against(self, benchmark: str) -> DayTables:
        """Return the tables with costs stated against the price ``benchmark`` of `PRICE_BENCHMARKS`."""
        costs = {name: cost_against(benchmark, name) for name in ("cost", "foreseen")}
        return replace(self, orders=self.orders.with_columns(**costs, benchmark=benchmark_price(benchmark)))

    def write(self, folder: Path) -> list[Path]:
        """Write each table as a Parquet file, and the state as JSON; return the files."""
        frames = {"orders": self.orders, "children": self.children, "fills": self.fills}
        kept = [] if self.state is None else [write_json(folder / "state.json", self.state)]
        return kept + [write_whole(folder / f"{name}.parquet", frame.write_parquet) for name, frame in frames.items()]

    @classmethod
    def read(cls, folder: Path) -> DayTables:
        """Read the tables from a folder that `write` filled."""
        try:
            orders, children, fills = (
                polars.read_parquet(folder / f"{name}.parquet", glob=False) for name in ("orders", "children", "fills")
            )
            state = json.loads((folder / "state.json").read_text()) if (folder / "state.json").exists() else None
        except (OSError, ValueError, polars.exceptions.PolarsError) as error:
            text = one_line_text(error)
            raise DataError(f"{folder} must hold the tables of `riskroute backtest`: {text}") from error
        return cls(orders, children, fills, state)

    @classmethod
    def together(cls, parts: Sequence[DayTables]) -> DayTables:
        """Concatenate tables, without states."""
        return cls(
            *(polars.concat([getattr(part, name) for part in parts]) for name in ("orders", "children", "fills"))
        )


def day_tables(
    played: PlayedDay,
    books: DayBooks,
    key: dict[str, Any],
    *,
    zone: str = TRADING_ZONE,
    queue: QueueReplay | None = None,
    trades: DayTrades | None = None,
    twaps: Floats | None = None,
    block_seconds: float,
    begins: int | None = None,
    judged_from: int = 0,
) -> DayTables:
    """Return the tables of a played day, in units of the instrument: see `DayTables.natural`.

    ``key`` holds router, seed, symbol and day of every row. Without a ``queue``, ``impact`` and ``volume`` are NaN;
    without ``trades``, ``vwap`` and ``traded`` are NaN. Costs are stated against the arrival mid. Time blocks are
    counted from ``begins``, UTC nanoseconds. Default: the time of the first order. Orders are judged from number
    ``judged_from`` on. ``twaps`` has the TWAP of every order of the day by number; default: computed here.
    """
    if begins is None:
        begins = min((one.done.context.time for one in played.orders), default=0)
    orders = _orders(played.orders, books, trades, block_seconds, begins, judged_from)
    closes = orders["time"] + (orders["horizon"] * SECOND).astype(np.int64)
    mine = books.mean_mids(orders["time"], closes) if twaps is None else twaps[orders["number"]]
    orders["twap"] = np.where(orders["horizon"] > 0, mine, orders["mid"])
    both = _impacts(played.orders, books, queue, orders["block"], block_seconds, begins)
    orders["impact"], orders["volume"] = both
    moments = polars.from_epoch(polars.Series(orders["time"], dtype=polars.Int64), time_unit="ns")
    orders["clock"] = moments.dt.replace_time_zone("UTC").dt.convert_time_zone(zone).dt.time()
    orders["zone"] = [zone] * len(moments)
    orders["multiplier"], orders["currency"] = [1.0] * len(moments), [""] * len(moments)
    children = [row for one in played.orders for row in _children(one)]
    fills = [(one.number, *fill) for one in played.orders for fill in one.done.fills]
    times = np.array([row[4] for row in fills], dtype=np.int64)
    mids = [books.mids(times), *(_later_mids(books, times, seconds) for seconds in MARKOUTS)]
    return DayTables(
        _frame(orders, ORDERS, key),
        _frame(_columns(children, list(CHILDREN)[4:]), CHILDREN, key),
        _frame(_columns(fills, list(FILLS)[4:-4]) | dict(zip(list(FILLS)[-4:], mids, strict=True)), FILLS, key),
    )


def _later_mids(books: DayBooks, times: Any, seconds: float) -> Floats:
    later = times + int(seconds * SECOND)
    return np.where(later <= books.last, books.mids(later), np.nan)


def _orders(
    orders: Sequence[PlayedOrder],
    books: DayBooks,
    trades: DayTrades | None,
    block_seconds: float,
    begins: int,
    judged_from: int,
) -> dict[str, Any]:
    contexts = [one.done.context for one in orders]
    times = np.array([context.time for context in contexts], dtype=np.int64)
    ends = np.array([max((fill.time for fill in one.done.fills), default=0) for one in orders], dtype=np.int64)
    horizons = np.array([context.horizon for context in contexts])
    closes = times + (horizons * SECOND).astype(np.int64)
    mids = np.array([context.mid for context in contexts])
    vwaps, traded = np.full((2, len(orders)), np.nan)
    if trades is not None:
        vwaps, traded = trades.between(times, closes)
        alone = (traded == 0) | (horizons == 0)
        vwaps[alone], traded[alone] = mids[alone], 0.0
    return {
        "number": np.array([one.number for one in orders], dtype=np.int64),
        "time": times,
        "sign": [context.sign for context in contexts],
        "quantity": [context.shares for context in contexts],
        "horizon": horizons,
        "mid": mids,
        "bid": [context.books.best_bid for context in contexts],
        "ask": [context.books.best_ask for context in contexts],
        "depth": [float(context.displayed.depth) for context in contexts],
        "block": (times - begins) // int(block_seconds * SECOND),
        "judged": [one.number >= judged_from for one in orders],
        "end_mid": books.mids(closes),
        "end_spread": books.spreads(closes),
        "vwap": vwaps,
        "traded": traded,
        "benchmark": mids,
        **{f"after_{seconds}": _later_mids(books, ends, seconds) for seconds in MARKOUTS},
        "foreseen": [one.foreseen for one in orders],
        "cost": [one.done.cost for one in orders],
        "fees": [sum(fill.shares * fill.fee for fill in one.done.fills) for one in orders],
        "estimated": [one.done.estimated for one in orders],
        "prevented": [one.done.prevented for one in orders],
        "through": [one.done.through for one in orders],
        "stale": [one.stale for one in orders],
        "decision_us": [one.decision_us for one in orders],
        "exploration": [one.exploration for one in orders],
    }


def _impacts(
    orders: Sequence[PlayedOrder],
    books: DayBooks,
    queue: QueueReplay | None,
    blocks: Integers,
    block_seconds: float,
    begins: int,
) -> tuple[Floats, Floats]:
    """Return ``taken * volatility * sqrt(taken / volume)`` and the volume of the time block, by order."""
    if queue is None or not orders:
        return np.full(len(orders), np.nan), np.full(len(orders), np.nan)
    length = int(block_seconds * SECOND)
    grid = np.arange(begins, begins + (int(blocks.max()) + 1) * length, SECOND)
    seconds = length // SECOND
    moves = np.diff(books.mids(grid), append=np.nan)
    found, volumes = np.full(len(orders), np.nan), np.full(len(orders), np.nan)
    taken = np.array([
        sum(fill.shares for fill in one.done.fills if fill.kind in ("take", "sweep")) for one in orders
    ])  # fmt: skip
    for block in np.unique(blocks):
        some = moves[block * seconds : (block + 1) * seconds]
        sigma = float(np.sqrt(np.nansum(some**2)))
        volume = queue.volume(begins + int(block) * length, begins + (int(block) + 1) * length)
        mine = blocks == block
        volumes[mine] = volume
        if volume > 0:
            found[mine] = taken[mine] * sigma * np.sqrt(taken[mine] / volume)
    return found, volumes


def _children(one: PlayedOrder) -> list[tuple[Any, ...]]:
    context = one.done.context
    rows = []
    for child in one.done.children:
        shown = _displayed(context, child.place, child.sent) if child.kind == "take" else float("nan")
        rows.append(
            (
                *(one.number, child.child, child.kind, child.place, child.sent, child.filled, child.price, child.fee),
                *(shown, child.posted, child.last_fill, child.known),
            )
        )
    return rows


def _displayed(context: Context, place: str, sent: int) -> float:
    """Return the shares that a venue displayed at the decision, at most ``sent``."""
    venue = context.books.venues.index(place)
    return float(min(sent, context.displayed.sizes[venue].sum()))


def _columns(rows: list[tuple[Any, ...]], names: list[str]) -> dict[str, Any]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return dict(zip(names, columns, strict=True))


def _frame(columns: dict[str, Any], schema: Schema, key: dict[str, Any]) -> polars.DataFrame:
    frame = polars.DataFrame(
        {name: columns[name] for name in schema if name in columns},
        schema_overrides={name: kind for name, kind in schema.items() if name in columns},
    )
    keyed = frame.with_columns(polars.lit(value).alias(name) for name, value in key.items())
    return keyed.select([polars.col(name).cast(kind) for name, kind in schema.items()])
