"""Public calls about market data with arguments that are right."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import riskroute as rr
from public_calls import DAY, MODELS, PROBLEM, Call
from riskroute.simulation.backends import Backend

POOL = rr.market.DarkPool(presence=0.5, tail=1.0)
ALONE = Backend("local", 1)
WINDOW = rr.market.Window(dt.time(11), dt.time(11, 20), 10)


def market() -> Iterator[tuple[str, Call]]:
    yield "Window", (rr.market.Window, {"start": dt.time(11), "end": dt.time(12), "buckets": 10})
    yield "Window.edges", (WINDOW.edges, {"day": DAY})
    yield (
        "ImportOptions",
        (
            rr.market.ImportOptions,
            {
                "symbols": ("QVEX",),
                "depth": 5,
                "start": dt.time(10),
                "end": dt.time(11),
                "date": DAY,
                "venue": "XNAS",
                "columns": {"bid_px_00": "bid"},
            },
        ),
    )
    yield "Slot", (lambda **a: rr.market.Slot(**a).name, {"venue": "XNAS", "kind": "market", "pool": None})
    pool = {"presence": 0.5, "tail": 1.0, "smallest": 1, "improvement": 0.0, "fee": 0.0, "name": "Dark"}
    yield "DarkPool", (lambda **a: rr.market.DarkPool(**a).hidden_sizes(3, seed=1), pool)
    for method in ("mean_fill", "fill_variance", "chance_of"):
        yield f"DarkPool.{method}", (getattr(POOL, method), {"quantities": [1, 2, 4]})
    yield "DarkPool.hidden_sizes", (POOL.hidden_sizes, {"count": 3, "seed": 1})
    yield "generated_dark_pools", (rr.market.generated_dark_pools, {"lit": MODELS, "count": 2, "seed": 0})


MARKET_CALLS = dict(market())


def of_recordings(store: rr.market.Store, folder: Path) -> dict[str, Call]:
    recording = store.recordings()[0]
    slots = [
        rr.market.Slot("XNAS"),
        rr.market.Slot("XNAS", "limit"),
        rr.market.Slot("XNAS", "dark", POOL),
        rr.market.Slot("XBOS"),
    ]
    terms = {"side": "sell", "fees": None, "levels": 5, "seed": 0, "date": None}
    scenarios = rr.market.sample_scenarios(store, "QVEX", slots, 4, WINDOW, repeats=2)
    fields = {name: getattr(scenarios, name) for name in inspect.signature(rr.market.Scenarios).parameters}
    caps, methods = np.array([2, 2, 2, 2]), ("deep", "whole", "replayed", "room")
    calibrated = rr.market.calibrate(store, "QVEX", window=WINDOW)
    hours: dict[str, Any] = {"train": "11:00-11:10", "test": "11:10-11:20", "bucket_minutes": 1.0, "repeats": 1}
    small: dict[str, Any] = {"data": str(store.folder), "shares": 2, "horizon": 10, "runs": 1, "policies": ["uniform"]}
    study, out = rr.SplitStudy(**hours, **small), folder / "study"
    found = study.run(backend=ALONE, out=out)
    return {
        "Store": (rr.market.Store, {"folder": store.folder}),
        "Store.of_symbol": (store.of_symbol, {"symbol": "QVEX", "date": None, "venues": ["XNAS"]}),
        "Store.snapshots": (store.snapshots, {"recording": recording, "begin": None, "end": None}),
        "Store.events": (store.events, {"recording": recording, "begin": None, "end": None}),
        "SplitStudy": (lambda **values: rr.SplitStudy(**values), hours | small | {"caps": {}, "dark": []}),
        "SplitStudy.run": (study.run, {"backend": ALONE, "out": out, "resume": False, "finished": None}),
        "SplitStudyResult": (lambda **a: rr.SplitStudyResult(**a).summary(), vars(found)),
        "SplitStudyResult.to_json": (found.to_json, {"path": out / "again.json"}),
        "SplitStudyResult.from_json": (rr.SplitStudyResult.from_json, {"path": out / "study.json"}),
        "write_report": (rr.write_report, {"result": found, "out": out}),
        "calibrate": (
            rr.market.calibrate,
            terms
            | {
                "store": store,
                "symbol": "QVEX",
                "quantities": [1, 2, 3],
                "window": WINDOW,
                "orders": ["market"],
                "dark_pools": 1,
                "pools": [POOL],
                "venues": ["XNAS"],
            },
        ),
        "sample_scenarios": (
            rr.market.sample_scenarios,
            terms | {"store": store, "symbol": "QVEX", "slots": slots, "shares": 4, "window": WINDOW, "repeats": 2},
        ),
        "Scenarios": (lambda **a: rr.market.Scenarios(**a).caps(), fields),
        **{f"Scenarios.{name}": (getattr(scenarios, name), {"caps": caps}) for name in methods},
        "Scenarios.fit": (scenarios.fit, {"slot": 0, "cap": 4, "seed": 0}),
        "Scenarios.models": (scenarios.models, {"caps": caps, "seed": 0}),
        "Calibration": (
            lambda **a: repr(rr.market.Calibration(**a)),
            {name: getattr(calibrated, name) for name in inspect.signature(rr.market.Calibration).parameters},
        ),
    }  # fmt: skip


def of_files(folder: Path) -> dict[str, Call]:
    rr.routing.save_models(MODELS, folder / "models.toml")
    fees = folder / "fees.toml"
    fees.write_text('[[fees]]\nvenue = "XNAS"\nfrom = 2019-01-01\ntaker = 0.003\nmaker = -0.002\n')
    minute = (dt.time(11), dt.time(11, 0, 20))
    files = rr.market.generate_market(folder / "day", symbols=("QVEX",), hours=minute, rate=0.2)
    result = rr.simulate(PROBLEM, ["uniform"], horizon=20, runs=2)
    market = {"out": folder / "market", "seed": 1, "symbols": ("QVEX",), "hours": minute, "date": DAY, "rate": 0.2}
    return {
        "load_models": (rr.routing.load_models, {"path": folder / "models.toml"}),
        "save_models": (rr.routing.save_models, {"models": MODELS, "path": folder / "saved.toml", "about": ["a line"]}),
        "load_fees": (rr.routing.load_fees, {"path": fees}),
        "SimulationResult.save": (result.save, {"path": folder / "result.json"}),
        "plot_regret": (rr.plot_regret, {"result": result, "path": folder / "plot.svg", "title": "a title"}),
        "generate_market": (rr.market.generate_market, market | {"venues": _some_venues(), "progress": None}),
        "import_files": (
            rr.market.import_files,
            {
                "paths": files[:1],
                "out": folder / "books",
                "options": rr.market.ImportOptions(("QVEX",)),
                "kind": "itch",
                "max_unresolved": 0.01,
                "max_crossed": 0.5,
                "progress": None,
            },
        ),
    }


def _some_venues() -> Any:
    return inspect.signature(rr.market.generate_market).parameters["venues"].default[:1]
