"""The three tables that costs are computed from: orders, child orders and fills; their columns, and checks of them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from riskroute.core.errors import DataError, one_line_error, shown
from riskroute.core.validation import instance_of
from riskroute.routers.report import KINDS

KEY = ("router", "seed", "symbol", "day", "number")
"""Columns that name an order."""

_KEY = {"router": pl.String, "seed": pl.Int64, "symbol": pl.String, "day": pl.String, "number": pl.Int64}
_WHOLE = ("time", "sign", "shares", "block", "estimated", "prevented", "through", "stale")
_REAL = (
    *("horizon", "mid", "bid", "ask", "depth", "end_mid", "end_spread", "after_1", "after_10", "after_60"),
    *("cost", "fees", "decision_us"),
)
_PLACED = _KEY | {"child": pl.Int64, "kind": pl.String, "place": pl.String}

ORDER_COLUMNS = (
    _KEY | dict.fromkeys(_WHOLE, pl.Int64) | dict.fromkeys(_REAL, pl.Float64) | {"clock": pl.Time, "zone": pl.String}
)
CHILD_COLUMNS = (
    _PLACED
    | dict.fromkeys(("sent", "filled", "posted", "last", "known"), pl.Int64)
    | dict.fromkeys(("price", "fee", "displayed"), pl.Float64)
)
FILL_COLUMNS = (
    _PLACED
    | dict.fromkeys(("time", "shares"), pl.Int64)
    | dict.fromkeys(("price", "fee", "mid", "mid_1", "mid_10", "mid_60"), pl.Float64)
    | {"estimated": pl.Boolean}
)

_TOLD = ("order", "period", "arrival", "sign", "bid", "ask", "horizon")


@dataclass(frozen=True, eq=False)
class CostInputs:
    """Checked tables, in which null stands for what is not known.

    ``orders`` are numbered by a column ``order``, and time blocks over all days by ``period``; the arrival mid is
    called ``arrival``. Each row of ``children`` and ``fills`` has ``order`` and what measures need to know of it: sign,
    arrival mid, horizon, bid and ask at the decision, and the time of arrival as ``begin``.
    """

    orders: pl.DataFrame
    children: pl.DataFrame
    fills: pl.DataFrame


def cost_inputs(orders: pl.DataFrame, children: pl.DataFrame, fills: pl.DataFrame) -> CostInputs:
    """Check the tables, and join to child orders and fills what is known of their order."""
    found = (
        checked_orders(orders)
        .rename({"mid": "arrival"})
        .with_row_index("order")
        .with_columns(pl.col("order").cast(pl.Int64), period=pl.struct("day", "block").rank("dense").cast(pl.Int64) - 1)
    )
    told = found.select(*KEY, *_TOLD, begin="time")
    sent = _joined("children", _checked_children(children), told)
    twice = sent.filter(pl.struct("order", "child").is_duplicated())
    if len(twice):
        raise DataError(
            f"children must have each child once, had child {twice['child'][0]} of {_named(twice.select(KEY).row(0))} "
            "more than once"
        )
    return CostInputs(found, sent, _joined("fills", checked_fills(fills), told))


def checked_orders(orders: pl.DataFrame) -> pl.DataFrame:
    """Orders in the types of `ORDER_COLUMNS`, of which there is at least one and none twice."""
    table = _typed("orders", orders, ORDER_COLUMNS)
    if table.is_empty():
        raise DataError("orders must have at least one row, had none")
    _hold("orders", table, "sign", pl.col("sign").is_in([-1, 1]), "1 or -1")
    for name in ("shares", "mid"):
        _hold("orders", table, name, pl.col(name) > 0, "above 0")
    for name in ("cost", "fees", "horizon"):
        _hold("orders", table, name, pl.col(name).is_not_null(), "a finite number")
    for name in ("clock", "zone"):
        _hold("orders", table, name, pl.col(name).is_not_null(), "given")
    twice = table.select(KEY).filter(pl.struct(KEY).is_duplicated())
    if len(twice):
        raise DataError(f"orders must have each order once, had {_named(twice.row(0))} more than once")
    return table


def checked_fills(fills: pl.DataFrame) -> pl.DataFrame:
    """Fills in the types of `FILL_COLUMNS`."""
    table = _typed("fills", fills, FILL_COLUMNS)
    _hold("fills", table, "kind", pl.col("kind").is_in(KINDS), f"one of {', '.join(KINDS)}")
    _hold("fills", table, "shares", pl.col("shares") > 0, "above 0")
    for name in ("price", "fee"):
        _hold("fills", table, name, pl.col(name).is_not_null(), "a finite number")
    return table


def check_fills(orders: pl.DataFrame, fills: pl.DataFrame) -> None:
    """Raise `DataError` unless the fills of every order add up to its shares."""
    sums = checked_fills(fills).group_by(KEY).agg(filled=pl.col("shares").sum())
    both = checked_orders(orders).select(*KEY, "shares").join(sums, on=KEY, how="full", coalesce=True)
    wrong = both.filter(pl.col("filled").ne_missing(pl.col("shares"))).sort(KEY)
    if len(wrong):
        *key, shares, filled = wrong.row(0)
        if shares is None:
            raise DataError(f"fills must be of orders in the table, was {_named(key)}")
        raise DataError(f"fills of {_named(key)} must add up to its {shares:,} shares, were {filled or 0:,}")


def _checked_children(children: pl.DataFrame) -> pl.DataFrame:
    table = _typed("children", children, CHILD_COLUMNS)
    _hold("children", table, "kind", pl.col("kind").is_in(KINDS), f"one of {', '.join(KINDS)}")
    _hold("children", table, "sent", pl.col("sent") >= 0, "at least 0")
    _hold("children", table, "filled", pl.col("filled").is_between(0, pl.col("sent")), "between 0 and what was sent")
    return table


def _typed(name: str, table: pl.DataFrame, columns: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    """The columns of a table in their types, with null for what is no finite number."""
    instance_of(name, table, pl.DataFrame, "a polars DataFrame")
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise DataError(f"{name} must have the columns {', '.join(columns)}, was without {', '.join(missing)}")
    try:
        typed = table.select(pl.col(column).cast(kind) for column, kind in columns.items())
    except pl.exceptions.PolarsError as error:
        kinds = ", ".join(f"{column} {kind.__name__}" for column, kind in columns.items())
        raise DataError(f"{name} must have the types {kinds}, could not be cast: {one_line_error(error)}") from None
    real = [column for column, kind in columns.items() if kind is pl.Float64]
    typed = typed.with_columns(
        pl.when(pl.col(column).is_finite()).then(pl.col(column)).alias(column) for column in real
    )
    for column in _KEY:
        _hold(name, typed, column, pl.col(column).is_not_null(), "given")
    return typed


def _hold(name: str, table: pl.DataFrame, column: str, rule: pl.Expr, expected: str) -> None:
    """Raise `DataError` where a rule does not hold for a column."""
    wrong = table.select((~rule.fill_null(False)).arg_true())
    if len(wrong):
        row = int(wrong.item(0, 0))
        raise DataError(f"{column} of {name} must be {expected}, was {shown(table[column][row])} in row {row}")


def _joined(name: str, table: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    both = table.join(told, on=KEY, how="left", maintain_order="left")
    if both["order"].has_nulls():
        lost = both.filter(pl.col("order").is_null()).select(KEY).row(0)
        raise DataError(f"{name} must be of orders in the table, was {_named(lost)}")
    return both


def _named(key: list[object] | tuple[object, ...]) -> str:
    router, seed, symbol, day, number = key
    return f"order {number} of {symbol} on {day} by {router} with seed {seed}"
