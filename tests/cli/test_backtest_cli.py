"""The commands that judge routers on recorded days."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from riskroute.cli.app import run
from riskroute.experiments.backtest.markets import MarketDay
from small_days import short_market

ASKED = ["--days", "2", "--orders", "20", "--shares", "300", "--shares", "5000", "--horizon", "20", "--seeds", "2"]


class Printed(NamedTuple):
    """What a command said and wrote."""

    lines: list[str]
    found: Any
    out: Path


@pytest.fixture(scope="module", autouse=True)
def _short() -> Iterator[None]:
    with short_market():
        yield


@pytest.fixture(scope="module")
def backtest(kept_days: Path, dark_days: list[MarketDay], tmp_path_factory: pytest.TempPathFactory) -> Printed:
    """A backtest of two days, which are kept already."""

    out, said = tmp_path_factory.mktemp("backtest"), io.StringIO()
    where = ["--kept", str(kept_days), "--out", str(out / "tables"), "--json", str(out / "found.json")]
    with contextlib.redirect_stdout(said):
        assert run(["backtest", "--market", "dark", *ASKED, *where]) == 0
    return Printed(said.getvalue().splitlines(), json.loads((out / "found.json").read_text()), out / "tables")


def test_anybody_can_recompute_the_costs(backtest: Printed) -> None:
    """Ten plain lines from the files, which know nothing of this package."""
    orders = pl.read_parquet(backtest.out / "orders.parquet")
    fills = pl.read_parquet(backtest.out / "fills.parquet")
    key = ["router", "seed", "symbol", "day", "number"]
    both = fills.join(orders.select(*key, "sign", "judged", arrival="mid", ordered="shares"), on=key)
    paid = pl.col("shares") * (pl.col("sign") * (pl.col("price") - pl.col("arrival")) + pl.col("fee"))
    costs = both.filter("judged").group_by(*key, "arrival", "ordered").agg(paid=paid.sum())
    bps = costs.with_columns(bps=1e4 * pl.col("paid") / (pl.col("ordered") * pl.col("arrival")))
    means = dict(bps.group_by("router").agg(pl.col("bps").mean()).iter_rows())
    assert means.keys() == backtest.found["routers"].keys()
    for name, found in backtest.found["routers"].items():
        assert means[name] == pytest.approx(found["cost_bps"], abs=1e-9)
