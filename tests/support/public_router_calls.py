"""Public calls around routers, with arguments that are right."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import riskroute as rr

Call = tuple[Callable[..., Any], dict[str, Any]]

BOOKS: dict[str, Any] = {
    "venues": {
        "A": {"bids": [[10.00, 150], [9.98, 500]], "asks": [[10.02, 100]], "taker": 0.003, "maker": -0.002},
        "B": {"bids": [[10.00, 100], [9.99, 300]], "asks": [[10.02, 100]], "taker": -0.002, "maker": 0.001},
    },
    "pools": {"P": {"fee": 0.001}},
}
ORDER: dict[str, Any] = {"side": "sell", "shares": 300, "lot": 1, "horizon": 10.0, "order": "a", "time": 5}
CONTEXT = rr.routers.read_context(BOOKS, **ORDER)
CHILD = rr.routers.ChildReport(0, "dark", "P", 300, 120, 10.01, 0.12, 5, 9)
PLAN = rr.routers.Plan("a", dark={"P": 300})


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in inspect.signature(type(record)).parameters}


def _checked_plan(**fields: Any) -> None:
    rr.routers.Plan(**fields).checked(CONTEXT)


def _routed(kind: type[rr.routers.Router]) -> Callable[..., Any]:
    def route(**parameters: Any) -> None:
        router = kind(**parameters)
        router.route(CONTEXT).checked(CONTEXT)
        router.learn(rr.routers.Report("a", (CHILD,), complete=True, profit=-1.0))
        kind.restore(router.state())

    return route


def _learned(report: Any) -> None:
    router = rr.routers.DarkFirst()
    router.route(CONTEXT)
    router.learn(report)


def _routers() -> dict[str, Call]:
    return {
        kind.__name__: (_routed(kind), kind().parameters)
        for kind in rr.routers.ROUTERS.values()
    }  # fmt: skip


def _contexts() -> dict[str, Any]:
    books = CONTEXT.books
    return {**_fields(CONTEXT), "books": books}


ROUTER_CALLS: dict[str, Call] = {
    **_routers(),
    "read_context": (rr.routers.read_context, {"books": BOOKS, **ORDER}),
    "Context": (rr.routers.Context, _contexts()),
    "Pool": (rr.routers.Pool, {"name": "P", "fee": 0.001, "improvement": 0.0}),
    "VenueBooks": (rr.routers.VenueBooks, _fields(CONTEXT.books)),
    "Plan": (_checked_plan, _fields(rr.routers.Plan("a", dark={"P": 100}, take={"A": 100}, take_limits={"A": 9.0}))),
    "ChildReport": (rr.routers.ChildReport, _fields(CHILD)),
    "Report": (rr.routers.Report, {"order": "a", "children": (CHILD,), "complete": True, "profit": -1.0}),
    "price_plan": (rr.routers.price_plan, {"context": CONTEXT, "plan": PLAN}),
    "make_router": (rr.routers.make_router, {"name": "sweep", "discretion": 1}),
    "restore_router": (rr.routers.restore_router, {"state": rr.routers.make_router("sweep").state()}),
    "check_router": (rr.check_router, {"router": rr.routers.Sweep()}),
    "PoolModel": (rr.PoolModel, _fields(rr.PoolModel("P", 0.3))),
    "Router.route": (lambda **a: rr.routers.Sweep().route(**a), {"context": CONTEXT}),
    "Router.learn": (_learned, {"report": rr.routers.Report("a", (CHILD,))}),
}


def of_markets(folder: Path) -> dict[str, Call]:
    """Calls that need recorded days."""
    minutes = (dt.time(11), dt.time(11, 5))
    files = rr.market.generate_market(folder / "files", symbols=("QVEX",), hours=minutes, rate=0.2)
    rr.market.import_files(files[:2], folder / "books", rr.market.ImportOptions(("QVEX",)))
    days: dict[str, Any] = {"market": folder / "books", "symbols": ["QVEX"], "days": 1, "seed": 1, "hours": None}
    days |= {"kept": folder / "kept", "fees": None, "pools": [rr.PoolModel("P", 0.3)], "progress": None}
    backend = rr.Backend("local", 1)
    played = days | {"backend": backend, "shares": 10, "routers": ["sweep"], "orders": 2, "horizon": 0.0, "kappa": 0.05}
    for name in ("hours", "progress"):
        del played[name]
    pool = rr.PoolModel("P", 0.3)
    asked = _fields(rr.StudyConfig()) | {"hours": "11:00-11:05"}
    study = rr.Study(market=folder / "books", shares=10, horizons=0, orders=4, routers="spray", pools=pool)
    return {
        "market_days": (rr.market_days, days | {"backend": backend}),
        "backtest": (rr.backtest, played),
        "StudyConfig": (rr.StudyConfig, asked),
        "Study": (lambda **values: rr.Study(**values), asked | {"fees": None, "pools": [_fields(pool)]}),
        "write_study_page": (
            rr.write_study_page,
            {
                "result": study.run(backend=backend, kept=folder / "kept"),
                "out": folder / "page",
                "command": "riskroute study",
            },
        ),
        "Study.run": (study.run, {"backend": backend, "out": None, "kept": folder / "kept", "progress": None}),
    }
