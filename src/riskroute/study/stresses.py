"""Stress tests, placebo tests, and sensitivity to dark-pool assumptions.

A stress changes the conditions for all routers. Placebo tests check the backtest itself: the sweep must cost more with
the books of another time, the clairvoyant must cost less than the sweep, and empty dark pools must make no difference.
A failed placebo test invalidates every number of the backtest.
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
from riskroute.study.config import BacktestConfig
from riskroute.study.costs import order_costs_bps
from riskroute.study.markets import MarketDay
from riskroute.study.play import PLACEBOS, PlayCache, play_routers
from riskroute.study.router_comparison import ORDER
from riskroute.study.statistics import BootstrapDifference, bootstrap_difference, resampling_units


def stress_configs(config: BacktestConfig, *, pools: bool) -> dict[str, BacktestConfig]:
    """Return configurations by name: the baseline first, then the stresses."""

    def harder(**changes: Any) -> BacktestConfig:
        return dataclasses.replace(config, stress=dataclasses.replace(config.stress, **changes))

    worlds = {"baseline": config}
    worlds |= {f"latency {ms:g} ms": dataclasses.replace(config, latency_ms=ms) for ms in (0.0, 10.0, 100.0)}
    worlds["30 % fade, probability 1/2 per venue"] = harder(fade=0.3)
    if pools:
        worlds["half the liquidity in pools"] = harder(presence=0.5)
        worlds["twice the adverse selection"] = harder(adverse=2.0)
        worlds["pools leak five times as often"] = harder(leak=5 * LEAK)
    worlds |= {f"taker fees {bps:+g} bps": harder(fees=bps) for bps in (0.2, -0.2)}
    if config.horizon > 0:
        worlds["pessimistic queue positions"] = harder(pessimistic_queues=True)
    worlds |= {f"market impact x {times:g}": harder(impact=times) for times in (0.5, 1.0)}
    return worlds


def run_stresses(
    result: BacktestResult,
    *,
    backend: Backend | None = None,
    cache: PlayCache | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, BacktestResult]:
    """Repeat a backtest under every stress; fitted routers keep their parameters.

    Market impact is left out if it is unknown for any order.
    """
    pools = bool(result.days[0].pools)
    worlds = stress_configs(result.config, pools=pools)
    if result.tables.orders["impact"].is_nan().any():
        worlds = {name: world for name, world in worlds.items() if not world.stress.impact}
    found = {}
    for name, world in worlds.items():
        found[name] = run_backtest(
            *(result.market, result.days, world),
            backend=backend,
            cache=cache,
            candidates=result.candidates,
            bounds=False,
        )
        if progress is not None:
            progress(name, len(found), len(worlds))
    return found


def stress_table(found: dict[str, BacktestResult]) -> TextTable:
    """Return one row per stress and order size: the three lowest objectives, and the saving of the best router."""
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
            rows.append([name, result.size_text(size), some.bar, *shown, fixed_text(saved, 3, signed=True), estimated])
    return TextTable(
        ["condition", "quantity", "benchmark", "1st (objective, bps)", "2nd", "3rd", "1st saves", "estimated"], rows
    )


@dataclass(frozen=True)
class _PlaceboResult:
    """A placebo test: the expected difference (above 0, below 0 or 0), the measured one, and whether they agree."""

    name: str
    expected: str
    difference: BootstrapDifference
    holds: bool

    @property
    def answer(self) -> str:
        """Whether the test passes: ``yes``, ``NO``, or ``too few orders to tell``."""
        unclear = not (self.difference.low > 0 or self.difference.high < 0) and self.expected != "0"
        return "yes" if self.holds else "too few orders to tell" if unclear else "NO"


def run_placebos(
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    backend: Backend | None = None,
    cache: PlayCache | None = None,
) -> list[_PlaceboResult]:
    """Play the sweep with wrong books, perfect foresight, and dark-first with empty pools."""
    sweep = Candidate("sweep", "sweep")
    right = play_routers([sweep], days, config, backend=backend, cache=cache).orders
    found = []
    for placebo in PLACEBOS:
        wrong = play_routers([sweep], days, config, backend=backend, cache=cache, placebo=placebo).orders
        gap = _difference(wrong, right, config)
        found.append(_PlaceboResult(f"sweep, {placebo} books", "above 0", gap, gap.low > 0))
    known = play_routers([Candidate(CLAIRVOYANT, CLAIRVOYANT)], days, config, backend=backend, cache=cache).orders
    gap = _difference(known, right, config)
    found.append(_PlaceboResult("sweep, with perfect foresight", "below 0", gap, gap.high < 0))
    if days[0].pools:
        still = dataclasses.replace(config.stress, presence=0.0, leak=0.0)
        instant = dataclasses.replace(config, latency_ms=0.0, dark_latency_ms=0.0, stress=still)
        dark = Candidate("dark-first+sweep", "dark-first+sweep")
        tried, plain = (
            play_routers([one], days, instant, backend=backend, cache=cache).orders for one in (dark, sweep)
        )
        gap = _difference(tried, plain, config)
        found.append(_PlaceboResult("dark first, empty pools", "0", gap, abs(gap.mean) < 1e-9))
    return found


def _difference(one: polars.DataFrame, other: polars.DataFrame, config: BacktestConfig) -> BootstrapDifference:
    """Return the paired difference in cost between two plays of the same orders."""
    theirs = order_costs_bps(other).select(*ORDER, "cost_bps")
    joined = order_costs_bps(one).join(theirs, on=ORDER, suffix="_other").sort(ORDER)
    gaps = (joined["cost_bps"] - joined["cost_bps_other"]).to_numpy()
    units, unit = resampling_units(joined)
    return bootstrap_difference(gaps, units, np.random.default_rng(seed_stream(config.seed, "placebo")), unit=unit)


def placebo_table(found: Sequence[_PlaceboResult]) -> TextTable:
    """Return one row per placebo test."""
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
    return TextTable(["placebo", "difference bps", "95 % CI", "expected", "passed"], rows)
