"""Error rates of the verdicts of a study: recommendations that are worse than the rule, and of routers that are equal.

*Worse than the rule*: studies of synthetic days, one per seed, with their default routers. A recommended router is
played, from an untrained state, on days that no study has seen: first on training days, then on 40 days on which its
objective is compared with that of the benchmark rule.

*Placebo*: real tables of orders in which the routers exchange their names at random, by day or by time block, so that
all have the same expected cost. Every run draws other days for training and testing; no router should be recommended.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl

from riskroute.core.text import TextTable
from riskroute.routers.risk import RiskProfile
from riskroute.simulation.backends import Backend
from riskroute.study.candidates import CLAIRVOYANT, Candidate
from riskroute.study.costs import objective_cost
from riskroute.study.day_tables import KEY, DayTables
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayCache, play_routers
from riskroute.study.router_comparison import choose_benchmark, compare_routers, training_excess, training_objectives
from riskroute.study.static_fit import static_fit_candidate
from riskroute.study.study import Study
from timing import leave, print_heading, progress, say, sized, verdict

CELLS = sized(
    (("dark", 1000, 10.0), ("dark", 100, 60.0), ("comparable", 1000, 60.0)),
    (("dark", 1000, 10.0),),
)
SEEDS = sized(20, 1)
DAYS, OTHERS = sized((16, 40), (3, 2))
TRAIN = DAYS // 2
HOURS = sized("10:30-11:30", "10:30-10:36")
ORDERS = sized(60, 6)
ROUTERS = sized(("static+sweep", "contextual"), ("static+sweep",))
RUNS = sized(200, 4)
MOST = 0.05
"""Largest fraction of wrong recommendations."""

Cell = tuple[str, int, float]


def main() -> None:
    """Print both tables."""
    print_heading("Verdicts", ["riskroute", "numpy", "numba", "polars"])
    rows, recommended, worse, placebos = [], 0, 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for cell in CELLS:
            uses, bad, played = _recommendations(cell, Path(folder))
            recommended, worse = recommended + sum(uses.values()), worse + bad
            said = ", ".join(f"{name} {count}" for name, count in uses.most_common())
            rows.append([cell[0], f"{cell[1]:,}", f"{cell[2]:g}", str(SEEDS), said, str(bad)])
            for layout in ("days", "blocks"):
                placebos[layout] += _placebos(played, cell, layout)
    say(TextTable(["market", "shares", "seconds", "studies", "verdicts", "worse than the rule"], rows).plain())
    say("")
    checks = {}
    studies = SEEDS * len(CELLS)
    checks[f"{worse} of {studies} studies recommend a router that is worse than the rule on {OTHERS} other days"] = (
        worse <= MOST * studies
    )
    runs = RUNS * len(CELLS)
    for layout, count in placebos.items():
        checks[f"placebo, resampled by {layout}: a router is recommended in {count} of {runs} runs"] = (
            count <= MOST * runs
        )
    for text, holds in checks.items():
        say(f"{text}, target at most {MOST:.0%}: {verdict(holds)}")
    leave([], checks.values())


def _study(cell: Cell, seed: int, days: int) -> Study:
    market, shares, horizon = cell
    return Study(
        market=market,
        quantities=shares,
        horizons=horizon,
        days=days,
        train=TRAIN if days > OTHERS else None,
        hours=HOURS,
        orders=ORDERS,
        routers=list(ROUTERS),
        surface_orders=0,
        seed=seed,
    )


def _recommendations(cell: Cell, folder: Path) -> tuple[Counter[str], int, DayTables]:
    """Return the verdicts of all studies by router, how many are worse than the rule, and tables of the other days."""
    backend = Backend("local", sized(None, 1))
    last = _study(cell, 10**6, TRAIN + OTHERS)
    unseen = last.days(kept=folder, backend=backend)
    config, cache = last.config.backtest(*last.config.cases[0]), PlayCache(folder / "played")
    costs: dict[str, float] = {}

    def cost(candidate: Candidate) -> float:
        """Return the objective on the other days."""
        key = f"{candidate.label} {candidate.parameters}"
        if key not in costs:
            orders = play_routers([candidate], unseen, config, backend=backend, cache=cache).orders
            costs[key] = objective_cost(orders.filter("judged"), config.risk.kappa)
        return costs[key]

    uses, bad = Counter[str](), 0
    for seed in range(SEEDS):
        with tempfile.TemporaryDirectory(dir=folder) as kept:
            study = _study(cell, 100 * seed, DAYS)
            days = study.days(kept=kept, backend=backend)
            (case,) = study.play(days, kept=kept, backend=backend).cases
            bar = case.comparison.bar
            uses[case.use if case.verdict else "not enough data"] += 1
            if case.verdict and case.use != bar:
                asked = study.config.backtest(*study.config.cases[0])
                router = static_fit_candidate(case.use, days, asked, backend=backend, cache=PlayCache(Path(kept)))
                gap = cost(router) - cost(Candidate(bar, bar))
                bad += gap > 0
                progress(f"{cell} seed {seed}: {case.use} against {bar}: {gap:+.3f} bps on the other days")
    return uses, bad, _played(unseen, last, backend, cache)


def _played(days: list[MarketDay], study: Study, backend: Backend, cache: PlayCache) -> DayTables:
    """Return the tables of the usual routers on the other days."""
    config = study.config.backtest(*study.config.cases[0])
    names = ["sweep", "dark-first+post+sweep", "spray", "primary", *ROUTERS]
    if days[0].pools:
        names += ["dark-first+sweep", "rest-even+sweep"]
    candidates = [
        static_fit_candidate(name, days, config, backend=backend, cache=cache) for name in (*names, CLAIRVOYANT)
    ]
    return play_routers(candidates, days, config, backend=backend, cache=cache)


def _placebos(played: DayTables, cell: Cell, layout: str) -> int:
    """Return in how many placebo runs a router was recommended."""
    risk = Study().config.risk
    return sum(_placebo(played, cell, layout, np.random.default_rng([7, run]), risk) for run in range(RUNS))


def _placebo(played: DayTables, cell: Cell, layout: str, rng: np.random.Generator, risk: RiskProfile) -> bool:
    """Return whether a router is recommended after the routers have exchanged their names at random.

    With ``days`` they exchange them by day, and half of 16 days are for training. With ``blocks`` they exchange them by
    time block, and the days are joined into six long ones, of which the first is for training.
    """
    dates = played.orders["day"].unique().sort().to_list()
    drawn = [dates[k] for k in rng.permutation(len(dates))]
    long = 1 if layout == "days" else max(len(dates) // 6, 1)
    drawn = drawn[: DAYS if layout == "days" else 6 * long]
    train, unit = (len(drawn) // 2, ["day"]) if layout == "days" else (1, ["day", "block"])
    orders = played.orders.filter(pl.col("day").is_in(drawn))
    names = [name for name in orders["router"].unique(maintain_order=True) if name != CLAIRVOYANT]
    units = orders.select(unit).unique(maintain_order=True)
    exchanged = pl.concat(
        units.with_columns(router=pl.lit(name), new_router=pl.Series(others))
        for name, others in zip(names, _exchanged(names, units.height, rng), strict=True)
    )
    parts = pl.DataFrame({
        "day": drawn,
        "new_day": [f"{place // long:02d}" for place in range(len(drawn))],
        "part": [place % long for place in range(len(drawn))],
    })  # fmt: skip
    blocks = int(orders["block"].to_numpy().max()) + 1
    moved = (
        orders.join(exchanged, on=[*unit, "router"], how="left", maintain_order="left")
        .join(parts, on="day", maintain_order="left")
        .with_columns(
            new_router=pl.col("new_router").fill_null(CLAIRVOYANT),
            new_number=pl.col("number") + pl.col("part") * ORDERS,
            block=pl.col("block") + pl.col("part") * blocks,
            judged=pl.col("new_day") >= f"{train:02d}",
        )
    )
    new = {"router": "new_router", "day": "new_day", "number": "new_number"}
    fills = played.fills.join(moved.select(*KEY, *new.values()), on=KEY, maintain_order="left")
    tables = DayTables(moved.with_columns(**_columns(new)), played.children, fills.with_columns(**_columns(new)))
    bar = choose_benchmark(tables.orders, names, pools="dark-first+sweep" in names, horizon=cell[2], risk=risk)
    found = compare_routers(tables, bar, {}, risk=risk, joint=False)
    training = tables.orders.filter(~pl.col("judged"))
    chosen = risk.best(training_objectives(training, risk.kappa), training_excess(training, bar), bar)
    return found.choice_reason(chosen) == "beats"


def _exchanged(names: list[str], count: int, rng: np.random.Generator) -> list[list[str]]:
    """Return, for each name, the name that it gets in each of ``count`` units."""
    drawn = np.stack([rng.permutation(len(names)) for _ in range(count)], axis=1)
    return [[names[k] for k in row] for row in drawn]


def _columns(new: dict[str, str]) -> dict[str, pl.Expr]:
    return {name: pl.col(column) for name, column in new.items()}


if __name__ == "__main__":
    main()
