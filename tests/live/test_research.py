"""The same router as in research: states of a study are loaded, and a live log is a market to backtest on."""

from __future__ import annotations

import datetime as dt
import json
import math
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars
import pytest

from live_engines import CENT, World, parent_order
from live_logs import MemoryLog, MemoryStore
from live_services import order_json, running, service_config
from riskroute.cli.app import run_app
from riskroute.core.errors import InputError
from riskroute.core.files import write_json
from riskroute.live.log.export import export_log
from riskroute.live.log.interface import LogEntry
from riskroute.live.log.sqlite import SqliteLog
from riskroute.live.state.amounts import NANO
from riskroute.live.state.quotes import VenueQuote
from riskroute.live.venues.simulated import Faults
from riskroute.routers.registry import restore_router
from riskroute.study.candidates import named_candidate
from riskroute.study.config import BacktestConfig
from riskroute.study.day_tables import DayTables
from riskroute.study.markets import MarketDay
from riskroute.study.play import perform_plays, play_tasks
from small_days import HERE

ROUTER = "kaplan-meier+sweep"


def test_a_state_that_a_study_wrote_is_loaded_and_learned_on(dark_days: list[MarketDay], tmp_path: Path) -> None:
    tasks = play_tasks([named_candidate(ROUTER)], dark_days[:1], BacktestConfig(orders=20, seeds=1))
    state = perform_plays(tasks, backend=HERE)[0].state
    assert state is not None
    path = write_json(tmp_path / "state.json", state)
    live = service_config(tmp_path, router={"name": ROUTER, "state": str(path)})
    with running(live, MemoryStore()) as up:
        router = up.service.engine.learner.router
        assert json.dumps(router.state()) == json.dumps(restore_router(json.loads(path.read_text())).state())
        assert router.state()["memory"] == json.loads(path.read_text())["memory"]
        up.client.post("/orders", json=order_json("more"))
        up.client.settled("more")
        assert up.service.engine.learner.router.state()["memory"] != state["memory"]
    other = service_config(tmp_path, router={"name": "sweep", "state": str(path)})
    with pytest.raises(InputError, match=f"router.name must be {ROUTER.replace('+', '.')}, as in its state file"):
        other.build_router()


MORNING = int(dt.datetime(2024, 3, 12, 11, 0, tzinfo=ZoneInfo("America/New_York")).timestamp()) * NANO


class Trading(World):
    """Books that move a little from order to order."""

    def books(self, symbol: str) -> tuple[VenueQuote, ...]:
        shift = (self.clock.now // NANO) % 3
        return tuple(
            VenueQuote(
                venue=name,
                bids=(((1000 + shift) * CENT, 700), ((999 + shift) * CENT, 900)),
                asks=(((1002 + shift) * CENT, 800), ((1003 + shift) * CENT, 900)),
                taker=CENT // 10,
                at=self.clock.now,
            )
            for name in ("A", "B")
        )


@pytest.fixture(scope="module")
def traded() -> World:
    """Books every second and an order every ten on two days, through a market that loses and repeats reports."""
    world = Trading(faults=Faults(partial=0.3, duplicate=0.1, disorder=0.1, silence=0.02), patience=0.2)
    world.clock.now = MORNING
    world.start()
    for number in range(1200):
        if number == 600:
            world.clock.now = MORNING + 86_400 * NANO
        quotes, now = world.books("QVEX"), world.clock.now
        world.engine.record_quotes("QVEX", quotes, ())
        if number % 10 == 0:
            more: dict[str, Any] = {"quotes": quotes, "received": now, "deadline": now + NANO // 2}
            side = "buy" if number % 20 else "sell"
            world.engine.submit(parent_order(f"o{number}", 100 + number // 10 % 5 * 300, side=side, **more))
        world.pass_time(1)
    return world


def test_an_export_holds_what_was_booked(traded: World, tmp_path: Path) -> None:
    export_log(MemoryLog(traded.store), tmp_path)
    tables = DayTables.read(tmp_path)
    state = traded.state
    assert tables.orders.height == state.decisions == 120
    signs = tables.orders.select("number", "sign")
    bought = tables.fills.join(signs, on="number").select((polars.col("quantity") * polars.col("sign")).sum()).item()
    assert bought == state.positions["QVEX"].shares
    paid = (tables.fills["quantity"] * tables.fills["fee"]).sum()
    assert paid == pytest.approx(state.positions["QVEX"].fees / NANO)
    assert tables.orders["cost"].sum() == pytest.approx(state.totals.cost / NANO)
    assert tables.children.filter(~polars.col("marked"))["filled"].sum() == tables.fills["quantity"].sum()


def test_a_live_log_is_a_data_set_that_backtest_and_study_read(
    traded: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a desk would do it, command by command, from the file of the log."""
    path = tmp_path / "live.sqlite"
    with SqliteLog(path) as log:
        log.lease("test", math.inf)
        rows = list(MemoryLog(traded.store).read(0))
        log.append([LogEntry(row.kind, row.key, row.body, row.at) for row in rows]).result()
    out, market, fees = tmp_path / "out", str(tmp_path / "market"), str(tmp_path / "out" / "fees.toml")
    assert run_app(["live", "export", str(path), "--out", str(out)]) == 0
    files = sorted(map(str, (out / "books").iterdir()))
    assert [Path(file).name for file in files] == ["2024-03-12.parquet", "2024-03-13.parquet"]
    assert run_app(["market", "import", *files, "--symbol", "QVEX", "--out", market]) == 0
    what = ["--market", market, "--fees", fees, "--shares", "500", "--horizon", "0", "--orders", "20"]
    what += ["--kept", str(tmp_path / "kept")]
    assert (
        run_app(["backtest", *what, "--router", "sweep", "--router", "primary", "--out", str(tmp_path / "played")]) == 0
    )
    played = DayTables.read(tmp_path / "played").orders.filter(polars.col("router") == "sweep")
    cost = played.select((1e4 * polars.col("cost") / polars.col("mid") / polars.col("quantity")).mean()).item()
    # half a spread of two cents, and a fee of a tenth of a cent a share, of 10.02 dollars
    assert cost == pytest.approx(1e4 * 0.011 / 10.02, rel=0.05)
    study = ["study", *what, "--surface-orders", "0", "--router", "spray", "--out", str(tmp_path / "study")]
    assert run_app(study) == 0
    few = "Not enough data to tell which router to use for orders of 500 shares of QVEX for immediate execution: "
    assert few in capsys.readouterr().out
    (state,) = (tmp_path / "study").glob("state-*.json")
    router = {"name": "sweep", "state": str(state)}
    assert service_config(tmp_path, router=router).build_router().name == "sweep"


def test_a_log_without_orders_has_nothing_to_export(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the log holds no order to export"):
        export_log(MemoryLog(MemoryStore()), tmp_path)
