"""The same backtest under harder conditions, and with the wrong books: what conclusions survive, and is the test sound.

A stress changes conditions for all routers alike. A placebo shows routers the books of another time: a router that uses
the books must then do worse, one that knows the future must win, and empty dark pools must make no difference. If one
of these checks fails, no number of the backtest can be trusted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars

from riskroute.core.seeding import seed_stream
from riskroute.core.text import TextTable, fixed_text
from riskroute.simulation.backends import Backend
from riskroute.simulation.dark_market import LEAK
from riskroute.study.backtest import BacktestResult, run_backtest
from riskroute.study.candidates import CLAIRVOYANT, Candidate
from riskroute.study.comparison import ORDER, block_numbers, costs_in_bps
from riskroute.study.config import BacktestConfig, Stress, StudyConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import PLACEBOS, PlayTask, TableCache, perform_plays, play_routers, play_tasks
from riskroute.study.records import DarkSurface, Saving, StressSaving, StressTable, SurfacePoint
from riskroute.study.savings import estimated_share, saving_of
from riskroute.study.statistics import Difference, bootstrap_difference
from riskroute.study.tables import Tables

LEAKY = 5 * LEAK
FEE_STEP = 0.001
"""Dollars a share by which fees are raised: ten mils."""


def stress_configs(config: BacktestConfig, *, pools: bool) -> dict[str, BacktestConfig]:
    """Return configurations by name: the usual one first, then harder ones."""

    def harder(**changes: Any) -> BacktestConfig:
        return dataclasses.replace(config, stress=dataclasses.replace(config.stress, **changes))

    worlds = {"as usual": config}
    worlds |= {f"latency {ms:g} ms": dataclasses.replace(config, latency_ms=ms) for ms in (0.0, 10.0, 100.0)}
    worlds["30 % fade at every second venue"] = harder(fade=0.3)
    if pools:
        worlds["half as much in pools"] = harder(presence=0.5)
        worlds["twice the adverse selection"] = harder(adverse=2.0)
        worlds["pools leak five times as often"] = harder(leak=LEAKY)
    worlds |= {f"taking costs {mils:+d} mils": harder(fees=mils / 1e4) for mils in (10, -10)}
    if config.horizon > 0:
        worlds["cancellations do not help queues"] = harder(pessimistic_queues=True)
    worlds |= {f"impact x {times:g}": harder(impact=times) for times in (0.5, 1.0)}
    return worlds


def run_stresses(
    result: BacktestResult,
    *,
    backend: Backend | None = None,
    cache: TableCache | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, BacktestResult]:
    """Play the routers of a backtest again under harder conditions, with the parameters they had."""
    pools = bool(result.days[0].pools)
    worlds = stress_configs(result.config, pools=pools)
    if result.tables.orders["impact"].is_nan().any():
        worlds = {name: world for name, world in worlds.items() if not world.stress.impact}
    found = {}
    for name, world in worlds.items():
        found[name] = run_backtest(
            result.market, result.days, world, backend=backend, cache=cache, candidates=result.candidates
        )
        if progress is not None:
            progress(name, len(found), len(worlds))
    return found


def stress_table(found: dict[str, BacktestResult]) -> TextTable:
    """One row per configuration and size: the cheapest routers by objective, what the best saves, what is estimated."""
    rows = []
    for name, result in found.items():
        for size, some in result.comparisons.items():
            routers = {router: one for router, one in some.routers.items() if router != CLAIRVOYANT}
            ranked = sorted(routers, key=lambda router: routers[router].objective_bps)
            best = routers[ranked[0]]
            saved = routers[some.bar].cost_bps - best.cost_bps
            shown = [f"{router} {fixed_text(routers[router].objective_bps)}" for router in ranked[:3]]
            shown += [""] * (3 - len(shown))
            estimated = f"{max(best.estimated_share, routers[some.bar].estimated_share):.1%}"
            rows.append([name, f"{size:,}", some.bar, *shown, fixed_text(saved, 3, signed=True), estimated])
    return TextTable(["world", "shares", "bar", "1st (objective, bps)", "2nd", "3rd", "1st saves", "estimated"], rows)


@dataclass(frozen=True)
class PlaceboResult:
    """What a placebo check found: a difference in basis points, what it must be, and whether it is."""

    name: str
    expected: str
    difference: Difference
    holds: bool

    @property
    def answer(self) -> str:
        """Whether the difference is what it must be: ``yes``, ``NO``, or ``too few orders to tell``."""
        unclear = not (self.difference.low > 0 or self.difference.high < 0) and self.expected != "0"
        return "yes" if self.holds else "too few orders to tell" if unclear else "NO"


def run_placebos(
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    backend: Backend | None = None,
    cache: TableCache | None = None,
) -> list[PlaceboResult]:
    """Show routers the wrong books, the future, and empty pools, and see whether the difference is what it must be."""
    sweep = Candidate("sweep", "sweep")
    right = play_routers([sweep], days, config, backend=backend, cache=cache).orders
    found = []
    for placebo in PLACEBOS:
        wrong = play_routers([sweep], days, config, backend=backend, cache=cache, placebo=placebo).orders
        gap = _difference(wrong, right, config)
        found.append(PlaceboResult(f"sweep, {placebo} books", "above 0", gap, gap.low > 0))
    known = play_routers([Candidate(CLAIRVOYANT, CLAIRVOYANT)], days, config, backend=backend, cache=cache).orders
    gap = _difference(known, right, config)
    found.append(PlaceboResult("sweep, with the future known", "below 0", gap, gap.high < 0))
    if days[0].pools:
        still = dataclasses.replace(config.stress, presence=0.0, leak=0.0)
        instant = dataclasses.replace(config, latency_ms=0.0, dark_latency_ms=0.0, stress=still)
        dark = Candidate("dark-first+sweep", "dark-first+sweep")
        tried, plain = (
            play_routers([one], days, instant, backend=backend, cache=cache).orders for one in (dark, sweep)
        )
        gap = _difference(tried, plain, config)
        found.append(PlaceboResult("dark first, empty pools", "0", gap, abs(gap.mean) < 1e-9))
    return found


def _difference(one: polars.DataFrame, other: polars.DataFrame, config: BacktestConfig) -> Difference:
    """Cost of one set of orders less that of the same orders played otherwise."""
    key = ["seed", *ORDER]
    joined = costs_in_bps(one).join(costs_in_bps(other).select(*key, "cost_bps"), on=key, suffix="_other").sort(key)
    gaps = (joined["cost_bps"] - joined["cost_bps_other"]).to_numpy()
    return bootstrap_difference(gaps, block_numbers(joined), np.random.default_rng(seed_stream(config.seed, "placebo")))


def placebo_table(found: Sequence[PlaceboResult]) -> TextTable:
    """One row per check."""
    rows = [
        [
            one.name,
            fixed_text(one.difference.mean, 3, signed=True),
            " to ".join(fixed_text(end, 3, signed=True) for end in (one.difference.low, one.difference.high)),
            one.expected,
            one.answer,
        ]
        for one in found
    ]
    return TextTable(["placebo", "difference bps", "95 % interval", "must be", "is"], rows)


def most_worlds(config: BacktestConfig, *, pools: bool) -> int:
    """Return how many worlds there are at most, the usual one included."""
    return len(stress_configs(config, pools=pools))


def stress_savings(
    pair: tuple[Candidate, Candidate],
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    usual: Saving | None = None,
    backend: Backend | None = None,
    cache: TableCache | None = None,
    finished: Callable[[PlayTask], None] | None = None,
) -> StressTable:
    """Return what one router saves against another in every world of `stress_configs`.

    Routers that learn do so anew in each of them; those that were fitted keep the parameters they have. Worlds with
    market impact are left out where it is not known what traded. The saving in the usual world is ``usual`` if it is
    known already, with the same interval.
    """
    router, against = (one.label for one in pair)
    found, judged = [], 0
    for name, world in stress_configs(config, pools=bool(days[0].pools)).items():
        impact = world.stress.impact
        orders = play_routers(pair, days, world, backend=backend, cache=cache, finished=finished).orders
        if impact and orders["impact"].is_nan().any():
            continue
        pressed = orders.with_columns(cost=polars.col("cost") + impact * polars.col("impact")) if impact else orders
        saving = usual if usual and world == config else saving_of(pressed, router, against, seed=config.seed)
        costs = costs_in_bps(pressed.filter(polars.col("judged"))).group_by("router").agg(polars.col("cost_bps").mean())
        means = dict(costs.iter_rows())
        judged = judged or int(orders["judged"].sum()) // (2 * config.seeds)
        found.append(StressSaving(name, means[router], means[against], saving.bps, estimated_share(orders)))
    return StressTable(router, against, judged, tuple(found))


PRESENCE = (0.5, 1.0, 2.0)
ADVERSE = (0.0, 1.0, 2.0)
"""Factors on what pools hold, and on their adverse selection."""

WORLDS = len(PRESENCE) * len(ADVERSE)


def dark_surface(
    pair: tuple[Candidate, Candidate],
    days: Sequence[MarketDay],
    config: StudyConfig,
    size: int,
    horizon: float,
    *,
    backend: Backend | None = None,
    cache: TableCache | None = None,
    finished: Callable[[PlayTask], None] | None = None,
) -> DarkSurface:
    """Return the saving of one router against another over a grid of assumptions.

    Routers that learn do so anew under each of them, from as few orders as are played; those that were fitted keep the
    parameters they have.
    """
    router, against = (one.label for one in pair)
    worlds = [Stress(presence=presence, adverse=adverse) for presence in PRESENCE for adverse in ADVERSE]
    tasks = [play_tasks(pair, days, config.backtest(size, horizon, world)) for world in worlds]
    tables = iter(
        perform_plays([one for some in tasks for one in some], backend=backend, cache=cache, finished=finished)
    )
    points, orders = [], 0
    for world, some in zip(worlds, tasks, strict=True):
        played = Tables.together([next(tables) for _ in some]).orders
        orders = int(played["judged"].sum()) // (2 * config.seeds)
        saved = saving_of(played, router, against, seed=config.seed)
        points.append(SurfacePoint(world.presence, world.adverse, saved.bps, estimated_share(played)))
    return DarkSurface(router, against, orders, tuple(points))
