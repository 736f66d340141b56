"""How often the verdicts of a study are wrong or change with the seed.

*Worse than the rule*: studies of synthetic days, one per seed, with the default candidates. A recommended router is
played, from an untrained state, on days that no study has seen: first on training days, then on 40 days on which its
objective is compared with that of the benchmark rule.

*Placebo*: real tables of orders in which the routers exchange their names at random, by day or by time block, so that
all have the same expected cost. Every run draws other days for training and testing; no router should be recommended.

*The demo*: its study with other seeds of the market, orders and dark pools.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from riskroute.cli.demo import DEMO_STUDY
from riskroute.core.text import TextTable
from riskroute.routers.risk import BALANCED
from riskroute.simulation.backends import Backend
from riskroute.study.candidates import CLAIRVOYANT, Candidate
from riskroute.study.case import StudyCase
from riskroute.study.config import BacktestConfig
from riskroute.study.costs import objective_cost
from riskroute.study.day_tables import KEY, DayTables
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayCache, play_routers
from riskroute.study.router_comparison import choose_benchmark, compare_routers, training_excess, training_objectives
from riskroute.study.static_fit import static_fit_candidate
from riskroute.study.study import Study
from timing import leave, print_heading, progress, say, sized, verdict

MARKETS = sized(("dark", "comparable"), ("dark",))
SIZES, WAITS = sized((100, 1000), (1000,)), sized((10.0, 60.0), (10.0,))
SEEDS = sized(20, 1)
TRAIN, TEST, OTHERS = sized((4, 8, 40), (1, 2, 2))
HOURS = sized("10:30-11:00", "10:30-10:36")
ORDERS = sized(60, 6)
ROUTERS = sized({}, {"routers": ["static+sweep"]})
"""Default: those of a study."""
RUNS = sized(200, 4)
MOST = 0.05
"""Largest fraction of wrong recommendations."""
DEMOS, LEAST = sized(10, 2), 0.9
"""Seeds of the demo, and the fraction of them whose verdicts must be the same."""
BACKEND = Backend("local", 1)


@dataclass
class _Cell:
    """The verdicts for one market, size and horizon: routers recommended, and how many were worse than the rule."""

    uses: Counter[str] = field(default_factory=Counter)
    worse: int = 0


def main() -> None:
    """Print the tables."""
    print_heading("Verdicts", ["riskroute", "numpy", "numba", "polars"])
    say(f"{TRAIN} training and {TEST} test days, {HOURS}, {ORDERS} orders a day, risk profile {BALANCED.name}")
    say("")
    rows, worse, studies, placebos, runs = [], 0, 0, Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        for market in MARKETS:
            others = _OtherDays(market, Path(folder))
            cells = _recommendations(market, others, Path(folder))
            for (size, wait), cell in cells.items():
                said = ", ".join(f"{name} {count}" for name, count in cell.uses.most_common())
                rows.append([market, f"{size:,.0f}", f"{wait:g}", str(cell.uses.total()), said, str(cell.worse)])
                worse, studies = worse + cell.worse, studies + cell.uses.total()
            size, wait = next(iter(cells))
            for layout in ("days", "blocks"):
                placebos[layout] += _placebos(others.tables(size, wait), wait, layout)
            runs += RUNS
    say(TextTable(["market", "shares", "seconds", "studies", "verdicts", "worse than the rule"], rows).plain())
    say("")
    checks = {
        f"{worse} of {studies} studies recommend a router that is worse than the rule on {OTHERS} other days, target "
        f"at most {MOST:.0%}": worse <= MOST * studies
    }
    for layout, count in placebos.items():
        text = f"placebo, resampled by {layout}: a router is recommended in {count} of {runs} runs"
        checks[f"{text}, target at most {MOST:.0%}"] = count <= MOST * runs
    uses = _demos()
    said = ", ".join(f"{name} {count}" for name, count in uses.most_common())
    text = f"the demo's verdict with {DEMOS} seeds: {said}; target the same with {LEAST:.0%} of the seeds"
    checks[text] = uses.most_common(1)[0][1] >= LEAST * DEMOS
    for text, holds in checks.items():
        say(f"{text}: {verdict(holds)}")
    leave([], checks.values())


def _study(market: str, seed: int, days: int) -> Study:
    return Study(
        market=market,
        quantities=SIZES,
        horizons=WAITS,
        days=days,
        train=TRAIN,
        hours=HOURS,
        block_minutes=2.0,
        orders=ORDERS,
        surface_orders=0,
        frontier=False,
        seed=seed,
        **ROUTERS,
    )


class _OtherDays:
    """Days of a market that no study has seen, and the objectives of routers on them after as many training days."""

    def __init__(self, market: str, folder: Path) -> None:
        self.study = _study(market, 10**6, TRAIN + OTHERS)
        self.days, self.cache = self.study.days(kept=folder, backend=BACKEND), PlayCache(folder / "played")
        self._objectives: dict[str, float] = {}

    def config(self, size: float, wait: float) -> BacktestConfig:
        """Return the backtest of one size and horizon."""
        return self.study.config.backtest(size, wait)

    def objective(self, candidate: Candidate, size: float, wait: float) -> float:
        """Return the objective of a router."""
        key = f"{candidate.label} {candidate.parameters} {size} {wait}"
        if key not in self._objectives:
            config = self.config(size, wait)
            orders = play_routers([candidate], self.days, config, backend=BACKEND, cache=self.cache).orders
            self._objectives[key] = objective_cost(orders.filter("judged"), config.risk.kappa)
        return self._objectives[key]

    def tables(self, size: float, wait: float) -> DayTables:
        """Return the tables of the usual routers."""
        config = self.config(size, wait)
        names = ["sweep", "dark-first+post+sweep", "spray", "primary", *config.routers]
        if self.days[0].pools:
            names += ["dark-first+sweep", "rest-even+sweep"]
        candidates = [
            static_fit_candidate(name, self.days, config, backend=BACKEND, cache=self.cache)
            for name in dict.fromkeys(names)
        ]
        return play_routers(candidates, self.days, config, backend=BACKEND, cache=self.cache)


def _recommendations(market: str, others: _OtherDays, folder: Path) -> dict[tuple[float, float], _Cell]:
    """Return the verdicts of all studies of a market by size and horizon."""
    cells = {(float(size), wait): _Cell() for size in SIZES for wait in WAITS}
    for seed in range(SEEDS):
        with tempfile.TemporaryDirectory(dir=folder) as kept:
            study = _study(market, 100 * seed, TRAIN + TEST)
            days = study.days(kept=kept, backend=BACKEND)
            for case in study.play(days, kept=kept, backend=BACKEND).cases:
                cell = cells[case.quantity, case.horizon]
                cell.uses[case.use if case.verdict else "not enough data"] += 1
                if case.verdict and case.use != case.comparison.bar:
                    gap = _gap(case, study, days, others, PlayCache(Path(kept)))
                    cell.worse += gap > 0
                    progress(f"{market} {case.quantity} {case.horizon:g} s, seed {seed}: {case.use} {gap:+.3f} bps")
    return cells


def _gap(case: StudyCase, study: Study, days: Sequence[MarketDay], others: _OtherDays, cache: PlayCache) -> float:
    """Return the objective of the recommended router minus that of the rule on the other days."""
    asked = study.config.backtest(case.quantity, case.horizon)
    router = static_fit_candidate(case.use, days, asked, backend=BACKEND, cache=cache)
    rule = Candidate(case.comparison.bar, case.comparison.bar)
    both = (others.objective(one, case.quantity, case.horizon) for one in (router, rule))
    return next(both) - next(both)


def _demos() -> Counter[str]:
    """Return the verdicts of the demo's study by router, over several seeds."""
    uses = Counter[str]()
    few = sized({}, {"days": 2, "train": None, "hours": HOURS, "orders": ORDERS, **ROUTERS})
    for seed in range(DEMOS):
        with tempfile.TemporaryDirectory() as kept:
            study = Study(**{**DEMO_STUDY, "surface_orders": 0, "frontier": False, "seed": 100 * seed, **few})
            days = study.days(kept=kept, backend=BACKEND)
            (case,) = study.play(days, kept=kept, backend=BACKEND).cases
        uses[case.use if case.verdict else "not enough data"] += 1
        progress(f"demo, seed {100 * seed}: {case.chosen}, {case.use}, {case.reason}")
    return uses


def _placebos(played: DayTables, wait: float, layout: str) -> int:
    """Return in how many placebo runs a router was recommended."""
    return sum(_placebo(played, wait, layout, np.random.default_rng([7, run])) for run in range(RUNS))


def _placebo(played: DayTables, wait: float, layout: str, rng: np.random.Generator) -> bool:
    """Return whether a router is recommended after the routers have exchanged their names at random.

    With ``days`` they exchange them by day. With ``blocks`` they exchange them by time block, and the days are joined
    into six long ones, of which the first is for training.
    """
    dates = played.orders["day"].unique().sort().to_list()
    drawn = [dates[k] for k in rng.permutation(len(dates))]
    long = 1 if layout == "days" else max(len(dates) // 6, 1)
    drawn = drawn[: TRAIN + TEST if layout == "days" else 6 * long]
    train, unit = (TRAIN, ["day"]) if layout == "days" else (1, ["day", "block"])
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
    bar = choose_benchmark(tables.orders, names, pools="dark-first+sweep" in names, horizon=wait, risk=BALANCED)
    found = compare_routers(tables, bar, {}, risk=BALANCED, joint=False)
    training = tables.orders.filter(~pl.col("judged"))
    chosen = BALANCED.best(training_objectives(training, BALANCED.kappa), training_excess(training, bar), bar)
    return found.choice_reason(chosen) == "beats"


def _exchanged(names: list[str], count: int, rng: np.random.Generator) -> list[list[str]]:
    """Return, for each name, the name that it gets in each of ``count`` units."""
    drawn = np.stack([rng.permutation(len(names)) for _ in range(count)], axis=1)
    return [[names[k] for k in row] for row in drawn]


def _columns(new: dict[str, str]) -> dict[str, pl.Expr]:
    return {name: pl.col(column) for name, column in new.items()}


if __name__ == "__main__":
    main()
