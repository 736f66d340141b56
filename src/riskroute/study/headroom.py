"""Headroom: an upper bound on what learning can save, from fixed rules and perfect foresight.

A static split ignores the books. Its objective minus that of the best rule is the saving of looking at the books
without learning. The objective of the best fixed rule minus that of the clairvoyant, which knows future prices, is an
upper bound on the saving of learning. If this bound is below `WORTH`, learning cannot pay.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from riskroute.core.instrument import SHARES, Instrument, each_instrument_text
from riskroute.core.text import TextTable, fixed_text
from riskroute.routers.risk import BALANCED, CHEAPEST, RiskProfile, risk_profile
from riskroute.simulation.backends import Backend
from riskroute.study.backtest import run_backtest
from riskroute.study.candidates import CLAIRVOYANT
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay, estimated_queue_venues
from riskroute.study.play import PlayCache
from riskroute.study.router_comparison import MOST_ESTIMATED, WORTH, queue_note
from riskroute.study.verdict import no_verdict_text

# grid of the command and of the benchmark: quantities, seconds, risk profiles
SIZES, HORIZONS = (10, 100, 1000, 5000), (0.0, 10.0, 60.0, 300.0)
RISKS = (CHEAPEST, BALANCED, risk_profile("risk", 0.2))

_RULES = ("static", "sweep", "dark-first+sweep", "static+sweep", CLAIRVOYANT)


@dataclass(frozen=True)
class _Headroom:
    """Objectives in basis points for one market, order size, deadline and risk profile; ``dark_first`` needs pools.

    ``queues`` is a sentence about estimated queue positions, empty if there are none.
    """

    market: str
    quantity: float
    horizon: float
    risk: RiskProfile
    orders: int
    static: float
    sweep: float
    dark_first: float | None
    static_sweep: float
    clairvoyant: float
    estimated_share: float
    synthetic: bool = False
    queues: str = ""
    instruments: tuple[Instrument, ...] = (SHARES,)

    @property
    def size(self) -> str:
        """The quantity of an order as text."""
        return each_instrument_text(self.instruments, self.quantity)

    @property
    def rules(self) -> dict[str, float]:
        """Objectives of the fixed rules by name."""
        found = (self.static, self.sweep, self.dark_first, self.static_sweep)
        return {name: value for name, value in zip(_RULES, found, strict=False) if value is not None}

    @property
    def looking_bps(self) -> float:
        """Saving of looking at the books without learning, in basis points."""
        return self.static - min(value for name, value in self.rules.items() if name != "static")

    @property
    def learning_bps(self) -> float:
        """Upper bound on the saving of learning: objective of the best fixed rule minus that of perfect foresight."""
        return min(self.rules.values()) - self.clairvoyant

    @property
    def can_pay(self) -> bool:
        """Whether the upper bound on the saving of learning is large enough to matter."""
        return self.learning_bps >= WORTH

    @property
    def known(self) -> bool:
        """Whether few enough shares were filled at estimated prices for a verdict."""
        return self.estimated_share <= MOST_ESTIMATED


def market_headroom(
    market: str,
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    sizes: Sequence[float] = SIZES,
    horizons: Sequence[float] = HORIZONS,
    risks: Sequence[RiskProfile] = RISKS,
    backend: Backend | None = None,
    cache: PlayCache | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[_Headroom]:
    """Return the headroom of a market for every order size, deadline and risk profile."""
    tried = tuple(name for name in _RULES if days[0].pools or name != "dark-first+sweep")
    found: list[_Headroom] = []
    total = len(sizes) * len(horizons) * len(risks)
    venues, model = estimated_queue_venues(days), config.queue_model
    for size, horizon, risk in itertools.product(sizes, horizons, risks):
        asked = dataclasses.replace(config, quantities=(size,), horizon=horizon, risk=risk, routers=tried)
        played = run_backtest(market, days, asked, backend=backend, cache=cache, bounds=False)
        routers = played.comparison
        value = {name: one.objective_bps for name, one in routers.routers.items()}
        best = min((name for name in tried if name != CLAIRVOYANT), key=value.__getitem__)
        estimated = max(routers.routers[name].estimated_share for name in (best, CLAIRVOYANT))
        found.append(
            _Headroom(
                *(market, size, horizon, risk, routers.orders, value["static"], value["sweep"]),
                *(value.get("dark-first+sweep"), value["static+sweep"], value[CLAIRVOYANT], estimated),
                played.synthetic,
                queue_note(venues, str(model)) if venues and model is not None and horizon > 0 else "",
                played.instruments,
            )
        )
        if progress is not None:
            progress(f"{market} {played.size_text(size)} {horizon:g} s", len(found), total)
    return found


def headroom_table(found: Sequence[_Headroom]) -> TextTable:
    """Return a table with one row per market, order size, deadline and risk profile; objectives are in basis points."""
    header = ["market", "quantity", "seconds", "risk", "static", "sweep", "dark first", "static + sweep"]
    header += ["clairvoyant", "saved by looking", "learning, at most", "estimated"]
    rows = []
    for one in found:
        rules = (one.static, one.sweep, one.dark_first, one.static_sweep, one.clairvoyant)
        rows.append(
            [
                *(_market(one), one.size, f"{one.horizon:g}", one.risk.name),
                *(fixed_text(value, 3) for value in (*rules, one.looking_bps, one.learning_bps)),
                f"{one.estimated_share:.1%}",
            ]
        )
    return TextTable(header, rows)


def _market(one: _Headroom) -> str:
    return f"{one.market} (synthetic)" if one.synthetic else one.market


def headroom_words(found: Sequence[_Headroom]) -> list[str]:
    """Describe, for each market and deadline, the order sizes for which learning can pay or no verdict is possible."""
    lines = []
    for market in dict.fromkeys(map(_market, found)):
        for horizon in dict.fromkeys(one.horizon for one in found if _market(one) == market):
            mine = [one for one in found if _market(one) == market and one.horizon == horizon]
            time = "immediate execution" if horizon == 0 else f"{horizon:g} s deadline"
            which = f"{market}, {time}"
            if known := [one for one in mine if one.known]:
                lines.append(f"{which}: {_pays(known)}.")
            if unknown := [one for one in mine if not one.known]:
                sizes = " and ".join(dict.fromkeys(one.size for one in unknown))
                share = max(one.estimated_share for one in unknown)
                text = no_verdict_text(share, synthetic=unknown[0].synthetic)
                lines.append(f"{which}: no verdict for {sizes}: {text}")
            lines += [f"{which}: {note}." for note in dict.fromkeys(one.queues for one in mine) if note]
    return lines


def _pays(found: Sequence[_Headroom]) -> str:
    sizes = dict.fromkeys(one.size for one in found)
    pays = [size for size in sizes if all(one.can_pay for one in found if one.size == size)]
    never = [size for size in sizes if not any(one.can_pay for one in found if one.size == size)]
    most = fixed_text(max(one.learning_bps for one in found))
    bound = f"at most {most} bps per order (perfect foresight)"
    if len(never) == len(sizes):
        return f"learning cannot pay: it can save {bound}"
    if len(pays) == len(sizes):
        return f"learning may pay at every size: it can save {bound}"
    if not never:
        return f"learning may pay with some risk profiles: it can save {bound}"
    some = " and ".join(size for size in sizes if size not in never)
    return f"learning may pay for orders of {some} only: it can save {bound}"
