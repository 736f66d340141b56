"""How much any router could save, before one is built: simple rules against the clairvoyant, market by market.

The best static split less the best rule that looks at the books is what looking saves without learning. The best of all
fixed rules less the clairvoyant bounds what learning can add: the clairvoyant has perfect foresight, of future prices
too, which no router has. Where the bound is less than `WORTH`, learning cannot pay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from riskroute.core.text import TextTable, fixed_text
from riskroute.simulation.backends import Backend
from riskroute.study.backtest import run_backtest
from riskroute.study.candidates import CLAIRVOYANT
from riskroute.study.comparison import MOST_ESTIMATED, no_verdict_text
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import TableCache

SIZES = (10, 100, 1000, 5000)
HORIZONS = (0.0, 10.0, 60.0, 300.0)
KAPPAS = (0.0, 0.05, 0.2)
WORTH = 0.1
"""Basis points that learning must be able to add to be worth the trouble."""

TRIED = ("static", "sweep", "dark-first+sweep", "static+sweep", CLAIRVOYANT)


@dataclass(frozen=True)
class Headroom:
    """Objectives in basis points for one market, order size, horizon and price of risk; None where no pools exist.

    ``estimated_share`` is the share of the volume priced by an estimate, of the best fixed rule or of the clairvoyant,
    whichever is larger.
    """

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
    synthetic: bool = False

    @property
    def rules(self) -> dict[str, float]:
        """Objectives of the fixed rules by the name of their router."""
        found = (self.static, self.sweep, self.dark_first, self.static_sweep)
        return {name: value for name, value in zip(TRIED, found, strict=False) if value is not None}

    @property
    def for_nothing(self) -> float:
        """What looking at the books saves without any learning."""
        return self.static - min(value for name, value in self.rules.items() if name != "static")

    @property
    def for_learning(self) -> float:
        """Best fixed rule less perfect foresight: an upper bound of what learning can add, future prices included."""
        return min(self.rules.values()) - self.clairvoyant

    @property
    def can_pay(self) -> bool:
        """Whether learning could be worth it."""
        return self.for_learning >= WORTH

    @property
    def known(self) -> bool:
        """Whether prices are known well enough to tell."""
        return self.estimated_share <= MOST_ESTIMATED


def market_headroom(
    market: str,
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    sizes: Sequence[int] = SIZES,
    horizons: Sequence[float] = HORIZONS,
    kappas: Sequence[float] = KAPPAS,
    backend: Backend | None = None,
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
                routers = run_backtest(market, days, asked, backend=backend, cache=cache).comparison
                value = {name: one.objective_bps for name, one in routers.routers.items()}
                best = min((name for name in tried if name != CLAIRVOYANT), key=lambda name: value[name])
                found.append(
                    Headroom(
                        *(market, shares, horizon, kappa, routers.orders, value["static"], value["sweep"]),
                        value.get("dark-first+sweep"),
                        value["static+sweep"],
                        value[CLAIRVOYANT],
                        max(routers.routers[name].estimated_share for name in (best, CLAIRVOYANT)),
                        any(day.synthetic for day in days),
                    )
                )
                if progress is not None:
                    progress(f"{market} {shares:,} shares {horizon:g} s", len(found), total)
    return found


def headroom_table(found: Sequence[Headroom]) -> TextTable:
    """One row per market, size, horizon and kappa; objectives in basis points."""
    header = ["market", "shares", "seconds", "kappa", "static", "sweep", "dark first", "static + sweep", "clairvoyant"]
    header += ["for nothing", "for learning, at most", "estimated"]
    rows = []
    for one in found:
        rules = (one.static, one.sweep, one.dark_first, one.static_sweep, one.clairvoyant)
        rows.append(
            [
                *(_market(one), f"{one.shares:,}", f"{one.horizon:g}", f"{one.kappa:g}"),
                *(fixed_text(value, 3) for value in (*rules, one.for_nothing, one.for_learning)),
                f"{one.estimated_share:.1%}",
            ]
        )
    return TextTable(header, rows)


def _market(one: Headroom) -> str:
    return f"{one.market} (synthetic)" if one.synthetic else one.market


def headroom_words(found: Sequence[Headroom]) -> list[str]:
    """Where learning can pay and where it cannot, one sentence per market and horizon, and one on estimates."""
    lines = []
    for market in dict.fromkeys(map(_market, found)):
        for horizon in dict.fromkeys(one.horizon for one in found if _market(one) == market):
            mine = [one for one in found if _market(one) == market and one.horizon == horizon]
            time = "at once" if horizon == 0 else f"within {horizon:g} s"
            which = f"{market}, orders to be done {time}"
            if known := [one for one in mine if one.known]:
                lines.append(f"{which}: {_pays(known)}.")
            if unknown := [one for one in mine if not one.known]:
                sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(one.shares for one in unknown))
                share = max(one.estimated_share for one in unknown)
                text = no_verdict_text(share, synthetic=unknown[0].synthetic)
                lines.append(f"{which}: no verdict for {sizes} shares: {text}")
    return lines


def _pays(found: Sequence[Headroom]) -> str:
    sizes = dict.fromkeys(one.shares for one in found)
    pays = [size for size in sizes if all(one.can_pay for one in found if one.shares == size)]
    never = [size for size in sizes if not any(one.can_pay for one in found if one.shares == size)]
    most = fixed_text(max(one.for_learning for one in found))
    bound = f"at most {most} bps, an upper bound that includes knowledge of future prices"
    if len(never) == len(sizes):
        return f"learning cannot pay: it can add {bound}"
    if len(pays) == len(sizes):
        return f"learning may pay at every size: it can add {bound}"
    if not never:
        return f"learning may pay at some prices of risk: it can add {bound}"
    some = " and ".join(f"{size:,}" for size in sizes if size not in never)
    return f"learning may pay for orders of {some} shares only: it can add {bound}"
