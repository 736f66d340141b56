"""How much any router could save, before one is built: simple rules against the clairvoyant, market by market.

The best static split less the sweep is what looking at the books saves without learning. The best fixed use of pools
and limit orders before a sweep, less the clairvoyant, bounds what learning can add; where that is less than `WORTH`,
learning cannot pay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from riskroute.experiments.backtest.backtest import run_backtest
from riskroute.experiments.backtest.config import BacktestConfig
from riskroute.experiments.backtest.markets import MarketDay
from riskroute.experiments.backtest.play import TableCache
from riskroute.experiments.backtest.summary import CLAIRVOYANT
from riskroute.simulation.engines import Engine
from riskroute.text import TextTable

SIZES = (10, 100, 1000, 5000)
HORIZONS = (0.0, 10.0, 60.0, 300.0)
KAPPAS = (0.0, 0.05, 0.2)
WORTH = 0.1
"""Basis points that learning must be able to add to be worth the trouble."""

TRIED = ("static", "sweep", "dark-first+sweep", "static+sweep", CLAIRVOYANT)


@dataclass(frozen=True)
class Headroom:
    """Objectives in basis points for one market, order size, horizon and price of risk; None where no pools exist."""

    market: str
    shares: int
    horizon: float
    kappa: float
    orders: int
    static: float
    sweep: float
    dark_first: float | None
    static_sweep: float
    clairvoyant: float
    estimated_share: float

    @property
    def for_nothing(self) -> float:
        """What looking at the books saves without any learning."""
        return self.static - min(
            self.sweep, self.static_sweep, self.static if self.dark_first is None else self.dark_first
        )

    @property
    def for_learning(self) -> float:
        """The most that learning can add."""
        return self.static_sweep - self.clairvoyant

    @property
    def can_pay(self) -> bool:
        """Whether learning could be worth it."""
        return self.for_learning >= WORTH


def market_headroom(
    market: str,
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    sizes: Sequence[int] = SIZES,
    horizons: Sequence[float] = HORIZONS,
    kappas: Sequence[float] = KAPPAS,
    engine: Engine | None = None,
    cache: TableCache | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Headroom]:
    """Return the headroom of a market for every size, horizon and price of risk."""
    tried = tuple(name for name in TRIED if days[0].pools or name != "dark-first+sweep")
    found: list[Headroom] = []
    total = len(sizes) * len(horizons) * len(kappas)
    for shares in sizes:
        for horizon in horizons:
            for kappa in kappas:
                asked = dataclasses.replace(config, shares=(shares,), horizon=horizon, kappa=kappa, routers=tried)
                routers = run_backtest(market, days, asked, engine=engine, cache=cache).comparison
                value = {name: one.objective_bps for name, one in routers.routers.items()}
                found.append(
                    Headroom(
                        *(market, shares, horizon, kappa, routers.orders, value["static"], value["sweep"]),
                        value.get("dark-first+sweep"),
                        value["static+sweep"],
                        value[CLAIRVOYANT],
                        routers.routers["sweep"].estimated_share,
                    )
                )
                if progress is not None:
                    progress(f"{market} {shares:,} shares {horizon:g} s", len(found), total)
    return found


def headroom_table(found: Sequence[Headroom]) -> TextTable:
    """One row per market, size, horizon and kappa; objectives in basis points."""
    header = ["market", "shares", "seconds", "kappa", "static", "sweep", "dark first", "static + sweep", "clairvoyant"]
    header += ["for nothing", "for learning", "beyond display"]
    rows = []
    for one in found:
        dark = "-" if one.dark_first is None else f"{one.dark_first:.3f}"
        values = [f"{one.static:.3f}", f"{one.sweep:.3f}", dark, f"{one.static_sweep:.3f}", f"{one.clairvoyant:.3f}"]
        rows.append(
            [
                *(one.market, f"{one.shares:,}", f"{one.horizon:g}", f"{one.kappa:g}", *values),
                *(f"{one.for_nothing:.3f}", f"{one.for_learning:.3f}", f"{one.estimated_share:.0%}"),
            ]
        )
    return TextTable(header, rows)


def headroom_words(found: Sequence[Headroom]) -> list[str]:
    """Where learning can pay and where it cannot, one sentence per market and horizon."""
    lines = []
    for market in dict.fromkeys(one.market for one in found):
        for horizon in dict.fromkeys(one.horizon for one in found if one.market == market):
            mine = [one for one in found if one.market == market and one.horizon == horizon]
            sizes = dict.fromkeys(one.shares for one in mine)
            pays = [size for size in sizes if all(one.can_pay for one in mine if one.shares == size)]
            never = [size for size in sizes if not any(one.can_pay for one in mine if one.shares == size)]
            most = max(one.for_learning for one in mine)
            time = "at once" if horizon == 0 else f"within {horizon:g} s"
            if len(never) == len(sizes):
                text = f"learning cannot pay: at most {most:.2f} bps are left after the best fixed rule"
            elif len(pays) == len(sizes):
                text = f"learning can pay at every size: up to {most:.2f} bps are left after the best fixed rule"
            elif not never:
                text = (
                    f"learning can pay at some prices of risk: up to {most:.2f} bps are left after the best fixed rule"
                )
            else:
                some = " and ".join(f"{size:,}" for size in sizes if size not in never)
                text = f"learning can pay for orders of {some} shares only: up to {most:.2f} bps are left"
            lines.append(f"{market}, orders to be done {time}: {text}.")
    return lines
