"""How often the verdicts of a study are wrong or change with the seed.

*Worse than the rule*: studies of synthetic days with the candidates that are ever chosen. Each draws its days from the
same pool and has its own arrival times and its own luck in dark pools. A recommended router is played, from an
untrained state, on days that no study has seen: first on training days, then on 40 days on which its objective is
compared with that of the benchmark rule.

*Placebo*: real tables of orders in which the routers exchange their names at random, by day or by time block, so that
all have the same expected cost. Every run draws other days for training and testing; no router should be recommended.

*The demo* (``--demo``): its study with other seeds of the market, orders and dark pools.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from riskroute.cli.demo import DEMO_STUDY
from riskroute.core.text import TextTable
from riskroute.routers.risk import BALANCED
from riskroute.simulation.backends import Backend
from riskroute.study.candidates import CLAIRVOYANT, Candidate
from riskroute.study.case import case_answer
from riskroute.study.config import BacktestConfig
from riskroute.study.costs import objective_cost
from riskroute.study.day_tables import KEY, DayTables
from riskroute.study.play import PlayCache, play_routers
from riskroute.study.router_comparison import (
    NO_VERDICT,
    choose_benchmark,
    compare_routers,
    training_excess,
    training_objectives,
)
from riskroute.study.static_fit import static_fit_candidate
from riskroute.study.study import Study
from timing import leave, print_heading, progress, quick, say, sized, verdict

MARKET = "dark"
CASES = sized(((1000, 10.0), (100, 60.0)), ((1000, 10.0),))
"""Order sizes and horizons."""
SEEDS = sized(20, 1)
TRAIN, TEST, POOL, OTHERS = sized((4, 8, 36, 40), (1, 2, 4, 2))
"""Training and test days of a study, the days from which they are drawn, and days that no study has seen."""
HOURS = sized("10:30-10:45", "10:30-10:36")
ORDERS, DRAWS = sized((16, 2), (6, 1))
"""Orders per day, and draws of arrival times among which they are divided."""
ROUTERS = sized(("static+sweep", "contextual"), ("static+sweep",))
"""Candidates beside the simple rules: the default ones of a study that are ever chosen."""
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
    if "--demo" in sys.argv[1:]:
        text, holds = _demos()
        say(f"{text}: {verdict(holds)}")
        sys.exit(not holds)
    print_heading("Verdicts", ["riskroute", "numpy", "numba", "polars"])
    drawn = f"market {MARKET}, {TRAIN} training and {TEST} test days of {POOL}, {HOURS}"
    say(f"{drawn}, {ORDERS} orders a day in {DRAWS} draws of arrival times, risk profile {BALANCED.name}")
    say("")
    rows, worse, studies, placebos, runs = [], 0, 0, Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        days = _Days(Path(folder))
        for size, wait in CASES:
            cell = days.recommendations(size, wait)
            said = ", ".join(f"{name} {count}" for name, count in cell.uses.most_common())
            rows.append([f"{size:,.0f}", f"{wait:g}", str(cell.uses.total()), said, str(cell.worse)])
            worse, studies = worse + cell.worse, studies + cell.uses.total()
            played = days.tables(size, wait)
            for layout in ("days", "blocks"):
                placebos[layout] += _placebos(played, wait, layout)
                progress(f"{size} shares, {wait:g} s, placebos so far: {dict(placebos)}")
            runs += RUNS // len(CASES)
    say(TextTable(["shares", "seconds", "studies", "verdicts", "worse than the rule"], rows).plain())
    say("")
    checks = {
        f"{worse} of {studies} studies recommend a router that is worse than the rule on {OTHERS} other days, target "
        f"at most {MOST:.0%}": worse <= MOST * studies
    }
    for layout, count in placebos.items():
        text = f"placebo, resampled by {layout}: a router is recommended in {count} of {runs} runs"
        checks[f"{text}, target at most {MOST:.0%}"] = count <= MOST * runs
    if quick():
        text, holds = _demos()
        checks[text] = holds
    for text, holds in checks.items():
        say(f"{text}: {verdict(holds)}")
    leave([], checks.values())


class _Days:
    """Days of a market: those from which studies draw theirs, and days that no study has seen."""

    def __init__(self, folder: Path) -> None:
        self.cache = PlayCache(folder / "played")
        study = Study(market=MARKET, days=POOL + TRAIN + OTHERS, hours=HOURS)
        days = study.days(kept=folder, backend=BACKEND)
        self.own, self.others = days[:POOL], days[POOL:]

    def config(self, size: float, wait: float, seed: int = 10**6) -> BacktestConfig:
        """Return the backtest of a study of one size and horizon."""
        study = Study(
            market=MARKET,
            quantities=size,
            horizons=wait,
            train=TRAIN,
            hours=HOURS,
            block_minutes=2.0,
            orders=ORDERS,
            seeds=DRAWS,
            seed=seed,
            routers=ROUTERS,
        )
        return study.config.backtest(size, wait)

    def recommendations(self, size: float, wait: float) -> _Cell:
        """Return the verdicts of all studies of one size and horizon."""
        cell, known, everywhere = _Cell(), dict[str, float](), self.config(size, wait)

        def objective(candidate: Candidate) -> float:
            """Return the objective of a router on the other days."""
            key = f"{candidate.label} {candidate.parameters}"
            if key not in known:
                orders = play_routers([candidate], self.others, everywhere, backend=BACKEND, cache=self.cache).orders
                known[key] = objective_cost(orders.filter("judged"), BALANCED.kappa)
            return known[key]

        for seed in range(SEEDS):
            drawn = np.sort(np.random.default_rng(seed).permutation(POOL)[: TRAIN + TEST])
            config = self.config(size, wait, 100 * seed)
            days = [self.own[k] for k in drawn]
            found = case_answer(MARKET, days, config, backend=BACKEND, cache=self.cache)
            rule, candidates = found.result.comparison.bar, {one.label: one for one in found.result.candidates}
            cell.uses["not enough data" if found.reason in NO_VERDICT else found.use] += 1
            gap = objective(candidates[found.use]) - objective(candidates[rule])
            cell.worse += gap > 0
            progress(f"{size} shares, {wait:g} s, seed {seed}: {found.use} ({found.reason}), {gap:+.3f} bps")
        return cell

    def tables(self, size: float, wait: float) -> DayTables:
        """Return the tables of the usual routers on the other days."""
        config = self.config(size, wait)
        names = ["sweep", "dark-first+post+sweep", "spray", "primary", *config.routers]
        if self.others[0].pools:
            names += ["dark-first+sweep", "rest-even+sweep"]
        candidates = [
            static_fit_candidate(name, self.others, config, backend=BACKEND, cache=self.cache)
            for name in dict.fromkeys(names)
        ]
        return play_routers(candidates, self.others, config, backend=BACKEND, cache=self.cache)


def _demos() -> tuple[str, bool]:
    """Return the verdicts of the demo's study over several seeds in words, and whether enough of them are the same."""
    uses = Counter[str]()
    few = sized({}, {"days": 2, "train": None, "hours": HOURS, "orders": ORDERS, "routers": ROUTERS})
    for seed in range(DEMOS):
        with tempfile.TemporaryDirectory() as kept:
            study = Study(**{**DEMO_STUDY, "surface_orders": 0, "frontier": False, "seed": 100 * seed, **few})
            days = study.days(kept=kept, backend=BACKEND)
            (case,) = study.play(days, kept=kept, backend=BACKEND).cases
        uses[case.use if case.verdict else "not enough data"] += 1
        progress(f"demo, seed {100 * seed}: {case.chosen}, {case.use}, {case.reason}")
    said = ", ".join(f"{name} {count}" for name, count in uses.most_common())
    text = f"the demo's verdict with {DEMOS} seeds: {said}; target the same with {LEAST:.0%} of the seeds"
    return text, uses.most_common(1)[0][1] >= LEAST * DEMOS


def _placebos(played: DayTables, wait: float, layout: str) -> int:
    """Return in how many placebo runs a router was recommended."""
    rngs = (np.random.default_rng([7, run]) for run in range(RUNS // len(CASES)))
    return sum(_placebo(played, wait, layout, rng) for rng in rngs)


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
