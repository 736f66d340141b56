"""A backtest from a market to a verdict: prepare its days, play the routers, compare costs, answer in a sentence."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars

from riskroute.core.errors import InputError
from riskroute.core.files import writable_folder, write_json, write_whole
from riskroute.core.records import to_plain
from riskroute.core.seeding import seeding_hash
from riskroute.core.text import fixed_text, rounds_to_zero
from riskroute.core.validation import list_of, one_of, path_of
from riskroute.market.clock import zone_label
from riskroute.routers.router import Router
from riskroute.routing.fees import FeeSchedule
from riskroute.simulation.backends import Backend
from riskroute.simulation.dark_market import PoolModel
from riskroute.study.candidates import CLAIRVOYANT, Candidate, check_routers, router_names
from riskroute.study.comparison import (
    LEGEND,
    Comparison,
    choose_bar,
    compare_routers,
    comparison_table,
    no_verdict_text,
    too_much_estimated,
)
from riskroute.study.config import BacktestConfig, risk_tolerance
from riskroute.study.cost_text import router_details, tercile_table, venue_table
from riskroute.study.costs import KEY, router_costs
from riskroute.study.invariants import check_bound
from riskroute.study.markets import MarketDay, market_days, one_zone
from riskroute.study.play import PlayTask, TableCache, check_hours, play_routers, protection_of
from riskroute.study.static_fit import fitted_candidate
from riskroute.study.tables import Tables
from riskroute.study.venue_costs import venue_costs

MOST_OF_DEPTH, MOST_OF_VOLUME = 0.5, 0.1
"""Fractions of the displayed size and of the volume above which a market that does not react is not realistic."""


@dataclass(frozen=True, eq=False)
class BacktestResult:
    """What a backtest found, with all its orders, children and fills."""

    market: str
    days: tuple[MarketDay, ...]
    config: BacktestConfig
    candidates: tuple[Candidate, ...]
    comparisons: dict[int, Comparison]
    """By size of the orders."""
    tables: Tables

    @property
    def comparison(self) -> Comparison:
        """The comparison of all routers, if orders have one size."""
        if len(self.comparisons) > 1:
            sizes = ", ".join(map(str, self.comparisons))
            raise InputError(f"comparison must be of one size, was of {sizes} shares; use comparisons[size]")
        return next(iter(self.comparisons.values()))

    @property
    def synthetic(self) -> bool:
        """Whether days were generated, and not recorded."""
        return any(day.synthetic for day in self.days)

    @property
    def protection(self) -> str:
        """Whether venues protect each other's quotes; one of `PROTECTIONS`."""
        return protection_of(self.days[0], self.config)

    def write(self, out: str | Path) -> list[Path]:
        """Write all tables, and costs by size, router, venue and kind of child order as text and JSON."""
        folder = writable_folder("out", out)
        texts, plain = [], {}
        for size in self.comparisons:
            judged = self.tables.orders.filter(polars.col("judged") & (polars.col("shares") == size))
            children, fills = (
                frame.join(judged.select(KEY), on=KEY, how="semi")
                for frame in (self.tables.children, self.tables.fills)
            )
            routers = router_costs(judged, children, fills)
            venues = venue_costs(judged, children, fills)
            texts += [f"{self._title}: orders of {size:,} shares"]
            texts += [router_details(routers).plain(), tercile_table(routers).plain()]
            texts += [f"{one.router}\n{venue_table(venues, one.router).plain()}" for one in routers]
            plain[str(size)] = {"routers": to_plain(routers), "venues": to_plain(venues)}
        found = {"market": self.market, "synthetic": self.synthetic, "protection": self.protection, "sizes": plain}
        return [
            *self.tables.write(folder),
            write_json(folder / "costs.json", found),
            write_whole(folder / "costs.txt", lambda beside: beside.write_text("\n\n".join(texts) + "\n")),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return plain values: the configuration, and by size the number of judged orders, routers and the verdict."""
        config = to_plain(self.config) | {
            "market": self.market,
            "fingerprint": seeding_hash([to_plain(self.config), [day.folder.name for day in self.days]]),
            "days": [day.name for day in self.days],
            "zone": one_zone(self.days),
            "risk_tolerance": self._tolerances(),
            "parameters": {one.label: dict(one.parameters) for one in self.candidates if one.parameters},
        }
        found = {
            str(size): to_plain(one) | {"use": router_to_use(one), "verdict": verdict(one, synthetic=self.synthetic)}
            for size, one in self.comparisons.items()
        }
        return {"config": config, "synthetic": self.synthetic, "protection": self.protection, "comparisons": found}

    @property
    def _title(self) -> str:
        name = f"{self.market} (synthetic)" if self.synthetic else self.market
        days = f"{len(self.days)} {'day' if len(self.days) == 1 else 'days'}"
        hours = f", {self.config.hours} {zone_label(one_zone(self.days))}" if self.config.hours else ""
        return f"{name}, {days}{hours}, protection {self.protection}"

    def __str__(self) -> str:
        lines = [self._title]
        if self.left_out:
            lines.append(f"{self.left_out:,} orders met no two-sided market and were left out")
        for size, found in self.comparisons.items():
            if len(self.comparisons) > 1:
                lines.append("")
            lines += [
                f"{found.orders:,} judged orders of {size:,} shares, {self.config.horizon:g} s each",
                *(self.footprint(size), "", comparison_table(found).plain(), ""),
                *LEGEND,
                f"difference: to {found.bar}, order by order, with a 95 % interval over time blocks",
                verdict(found, synthetic=self.synthetic),
            ]
        return "\n".join(lines)

    def _tolerances(self) -> dict[str, float]:
        """Return, by order size, the paper's risk tolerance in dollars that is equivalent to kappa; none at kappa 0."""
        price = float(self.tables.orders.select(polars.col("mid").mean()).item())
        sizes = self.config.shares if self.config.kappa > 0 else ()
        return {str(size): risk_tolerance(self.config.kappa, size * price) for size in sizes}

    def footprint(self, size: int | None = None) -> str:
        """Say how large orders are beside what is displayed and traded: the recorded market does not react to them."""
        depth, volume = self.footprint_fractions(size)
        text = f"an order is {depth:.1%} of the displayed depth"
        if volume is not None:
            text += f" and {volume:.1%} of what trades in {self.config.block_minutes:g} minutes"
        large = too_large(depth, volume)
        return text + (": too large for a replay, which does not react" if large else "") + " (medians)"

    def footprint_fractions(self, size: int | None = None) -> tuple[float, float | None]:
        """Median size of judged orders over the displayed depth, and over what trades in a time block, if known.

        Parameters
        ----------
        size : int, optional
            Shares of the orders that count; all if None.
        """
        mine = polars.col("shares") == size if size is not None else True
        judged = self.tables.orders.filter(polars.col("judged") & mine)
        depth, volume = (
            judged.select((polars.col("shares") / polars.col(name)).drop_nans().median()).item()
            for name in ("depth", "volume")
        )
        return float(depth), None if volume is None else float(volume)

    @property
    def left_out(self) -> int:
        """Say how many orders met no two-sided market at any venue, and were not played."""
        one = self.candidates[0].label
        played = self.tables.orders.filter((polars.col("router") == one) & (polars.col("seed") == self.config.seed))
        return len(self.days) * self.config.orders - played.height

    @property
    def verdict(self) -> str:
        """Say which router to use, size by size."""
        said = {size: verdict(one, synthetic=self.synthetic) for size, one in self.comparisons.items()}
        several = len(said) > 1
        return "\n".join(f"{size:,} shares: {text}" if several else text for size, text in said.items())


def too_large(depth: float, volume: float | None) -> bool:
    """Whether orders of some fractions of depth and volume are too large for a market that does not react."""
    return depth > MOST_OF_DEPTH or (volume or 0.0) > MOST_OF_VOLUME


def run_backtest(
    market: str,
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    backend: Backend | None = None,
    cache: TableCache | None = None,
    finished: Callable[[PlayTask], None] | None = None,
    candidates: Sequence[Candidate] | None = None,
) -> BacktestResult:
    """Play routers on the days of a market and compare what their orders cost.

    Parameters
    ----------
    market : str
        Its name, for the record.
    days : Sequence[MarketDay]
        Its days, as `market_days` gives them.
    cache : TableCache, optional
        Where tables are kept; what was played before is not played again.
    finished : Callable, optional
        Called with every finished task.
    candidates : Sequence[Candidate], optional
        Routers with their parameters; those that the configuration names, fitted where they must be, if None.
    """
    if not days:
        raise InputError("days must hold at least one day, was empty")
    check_training(days, config)
    check_hours(days, config)
    pools = bool(days[0].pools)
    if candidates is None:
        names = router_names(config.routers, pools=pools, horizon=config.horizon, train=config.train)
        candidates = [fitted_candidate(name, days, config, backend=backend, cache=cache) for name in names]
    if not any(candidate.label == CLAIRVOYANT for candidate in candidates):
        candidates = [*candidates, Candidate(CLAIRVOYANT, CLAIRVOYANT)]  # the bound that every order is held to
    tables = play_routers(candidates, days, config, backend=backend, cache=cache, finished=finished)
    check_bound(tables.orders)
    feedback = {candidate.label: candidate.make().feedback for candidate in candidates}
    found = {}
    for size in dict.fromkeys(config.shares):
        orders = tables.orders.filter(polars.col("shares") == size)
        if not orders["judged"].any():
            raise InputError(
                f"no judged order of {size:,} shares met a two-sided market; use more orders or other hours"
            )
        played = orders["router"].unique(maintain_order=True).to_list()
        bar = choose_bar(orders, played, pools=pools, horizon=config.horizon, kappa=config.kappa)
        mine = dataclasses.replace(tables, orders=orders)
        found[size] = compare_routers(
            mine, bar, feedback, kappa=config.kappa, impact=config.stress.impact, seed=config.seed
        )
    return BacktestResult(market, tuple(days), config, tuple(candidates), found, tables)


def check_training(days: Sequence[MarketDay], config: BacktestConfig) -> None:
    """Refuse to train on all days: routers are judged on the last ones; a single day may be divided."""
    counts = Counter(day.symbol for day in days)
    most = max(max(counts.values()) - 1, 1)
    if config.train is not None and config.train > most:
        raise InputError(f"train must be at most {most}, which leaves days to judge, was {config.train}")


def backtest(
    market: str | Path = "dark",
    *,
    symbols: Sequence[str] = (),
    days: int | None = None,
    shares: int | Sequence[int] = 1000,
    routers: Sequence[str | Router] = (),
    fees: FeeSchedule | None = None,
    pools: Sequence[PoolModel] | None = None,
    seed: int = 0,
    kept: str | Path = "out/days",
    backend: Backend | None = None,
    **orders: Any,
) -> BacktestResult:
    """Play routers on the same books with the same hidden shares, and compare what their orders cost.

    Parameters
    ----------
    market : str or Path
        ``paper``, ``comparable``, ``dark``, or a folder of ``riskroute market import``.
    symbols, days, fees, pools, seed
        As `market_days` takes them.
    shares : int or Sequence[int]
        Sizes of orders, in turn.
    routers : Sequence[str or Router]
        Names, or routers of your own, each of which starts in its present state; all that do not learn if empty.
    kept : str or Path
        Folder in which prepared days and results are kept.
    backend : Backend, optional
        Where days are prepared and played.
    **orders
        Fields of `BacktestConfig`: ``orders``, ``hours``, ``horizon``, ``kappa``, ``side``, ``lot``, ``train``,
        ``latency_ms``, ``dark_latency_ms``, ``seeds``, ``block_minutes``, ``stress``, ``protection``.
    """
    listed = list_of("routers", routers, (str, Router), "names or routers")
    own = [one for one in listed if isinstance(one, Router)]
    names = tuple(one for one in listed if isinstance(one, str))
    known = {item.name for item in dataclasses.fields(BacktestConfig)} - {"shares", "routers", "seed"}
    for name in orders:
        one_of("parameter of backtest", name, tuple(sorted(known)))
    sizes = tuple(list_of("shares", [shares] if isinstance(shares, int) else shares, int, "whole numbers"))
    config = BacktestConfig(shares=sizes, routers=check_routers(names), seed=seed, **orders)
    folder = path_of("kept", kept)
    ready = market_days(
        market,
        symbols=symbols,
        days=days,
        seed=seed,
        hours=config.clock_hours,
        kept=folder,
        fees=fees,
        pools=pools,
        backend=backend,
    )
    cache = TableCache(folder / "played")
    candidates = None
    if own:
        asked = names or ("sweep",)
        rules = router_names(asked, pools=bool(ready[0].pools), horizon=config.horizon)
        candidates = [fitted_candidate(name, ready, config, backend=backend, cache=cache) for name in rules]
        candidates += [Candidate(one.name, one.name, begins_as=one) for one in own]
    return run_backtest(str(market), ready, config, backend=backend, cache=cache, candidates=candidates)


def router_to_use(found: Comparison) -> str | None:
    """Return the router of the least objective that clearly beats the simple rule, or that rule; None for no verdict.

    There is no verdict where too much of the volume of either is priced by an estimate.
    """
    best = _best(found)
    return None if too_much_estimated(found, best) else best


def _best(found: Comparison) -> str:
    bar = found.routers[found.bar]
    better = {
        name: one.objective_bps
        for name, one in found.routers.items()
        if name not in (found.bar, CLAIRVOYANT)
        and one.paired is not None
        and one.paired.high is not None
        and one.paired.high < 0
        and one.objective_bps < bar.objective_bps
    }
    tested = found.p_value is None or found.p_value < 0.05
    return min(better, key=lambda name: better[name]) if better and tested else found.bar


def verdict(found: Comparison, *, synthetic: bool = False) -> str:
    """Say which router to use and what it saves: the simple rule, if nothing clearly beats it."""
    best = _best(found)
    if share := too_much_estimated(found, best):
        return f"No verdict: {no_verdict_text(share, synthetic=synthetic)}"
    others = [name for name in found.routers if name not in (found.bar, CLAIRVOYANT)]
    use = f"Use {best} (synthetic days)" if synthetic else f"Use {best}"
    pair = found.routers[best].paired
    if best != found.bar and pair is not None:
        p_value = found.p_value
        chance = "" if p_value is None else "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
        tested = f", {chance} for the best of {len(others)}" if chance else ""
        low, high = (fixed_text(None if end is None else -end) for end in (pair.high, pair.low))
        saved = -pair.difference_bps
        much = "less than 0.01" if rounds_to_zero(saved) else fixed_text(saved)
        text = f"{use}: it saves {much} bps an order against {found.bar} ({low} to {high}{tested})."
    elif not others:
        text = f"{use}: no other router was played."
    else:
        none = f"none of the {len(others)} others beats" if len(others) > 1 else f"{others[0]} does not beat"
        text = f"{use}: {none} it clearly."
    if CLAIRVOYANT in found.routers:
        room = found.routers[found.bar].cost_bps - found.routers[CLAIRVOYANT].cost_bps
        text += f" Perfect foresight, of future prices too, would save {fixed_text(room)} bps against {found.bar}."
    return text
