"""A backtest: prepare the days of a market, play routers on them, compare their costs and recommend a router."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars

from riskroute.core.errors import InputError
from riskroute.core.files import writable_folder, write_json, write_whole
from riskroute.core.instrument import Instrument, each_instrument_text
from riskroute.core.records import to_plain
from riskroute.core.runtime import compilation_timed
from riskroute.core.seeding import seeding_hash
from riskroute.core.text import TextTable, fixed_text, natural_text
from riskroute.core.validation import one_of, real_number, valid_list, valid_path
from riskroute.market.clock import zone_label
from riskroute.market.queue_models import QueueModel
from riskroute.routers.router import Router
from riskroute.routing.fees import FeeSchedule
from riskroute.simulation.backends import Backend
from riskroute.simulation.dark_market import DarkMarketPool
from riskroute.study.candidates import CLAIRVOYANT, Candidate, candidate_names, check_candidates
from riskroute.study.config import BacktestConfig
from riskroute.study.costs import (
    BenchmarkCosts,
    Interval,
    RouterCosts,
    VenueCosts,
    benchmark_costs,
    benchmark_costs_table,
    benchmark_notes,
    costs_by_router,
    costs_by_venue,
)
from riskroute.study.day_tables import KEY, DayTables
from riskroute.study.markets import MarketDay, estimated_queue_venues, market_days, market_days_zone
from riskroute.study.play import PlayCache, PlayTask, check_playable_days, check_played_bound, play_routers
from riskroute.study.router_comparison import (
    QueueEstimate,
    RouterComparison,
    choose_benchmark,
    compare_routers,
    mean_costs,
)
from riskroute.study.static_fit import static_fit_candidate
from riskroute.study.verdict import backtest_verdict, footprint_verdict


def _router_details(costs: Sequence[RouterCosts], quantity: str) -> TextTable:
    """Return one row per measure and one column per router; ``quantity`` is the unit of order sizes."""
    rows = []
    for item in dataclasses.fields(RouterCosts):
        if measure := item.metadata:
            unit = measure["unit"]
            write = {"%": percent_text, "quantity": natural_text}.get(unit) or _fixed(measure["digits"])
            values = (write(getattr(one, item.name)) for one in costs)
            rows.append([measure["label"], quantity if unit == "quantity" else unit, *values])
    return TextTable(["measure", "unit", *(one.router for one in costs)], rows)


def _tercile_table(costs: Sequence[RouterCosts]) -> TextTable:
    """Return the costs of each router by tercile of spread, time of day and order size: one row per tercile."""
    header = ["router", "by", "tercile", "from", "to", "orders", "cost bps", "sd bps", "ES 5 % bps"]
    rows = []
    for one in costs:
        for third in one.terciles:
            edges = (_TERCILES[third.measure][1](edge) for edge in (third.least, third.most))
            values = (fixed_text(value) for value in (third.cost_bps, third.sd_bps, third.es95_bps))
            name = _TERCILES[third.measure][0]
            if third.measure == "time":
                name += f", {zone_label(one.zone)}"
            rows.append([one.router, name, third.tercile, *edges, _whole(third.orders), *values])
    return TextTable(header, rows)


def _queue_table(queues: QueueEstimate) -> TextTable:
    """Return the costs with the pessimistic and the optimistic queue model: one row per router."""
    rows = [
        [name, fixed_text(cost, 3), fixed_text(queues.optimistic_bps[name], 3)]
        for name, cost in queues.pessimistic_bps.items()
    ]
    return TextTable(["router", "pessimistic queue, bps", "optimistic queue, bps"], rows)


def _fixed(digits: int, times: float = 1.0) -> Callable[[float | None], str]:
    return lambda value: fixed_text(None if value is None else times * value, digits)


def _clock(hours: float) -> str:
    """Return hours since midnight as HH:MM, rounded down."""
    minutes = int(round(hours * 3600) // 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def range_text(interval: Interval | None) -> str:
    """Return an interval as text, ``LOW to HIGH``; a dash for None."""
    return "-" if interval is None else " to ".join(map(fixed_text, interval))


def flag_text(value: bool | None) -> str:
    """Return yes or no; a dash for None."""
    return "-" if value is None else "yes" if value else "no"


QUEUE_BOUNDS = ("pessimistic", "optimistic")  # queue models that bound the true queue position

_whole, percent_text, _three = _fixed(0), _fixed(1, 100.0), _fixed(3)

_TERCILES: dict[str, tuple[str, Callable[[float], str]]] = {
    "spread": ("spread, bps", fixed_text),
    "time": ("time", _clock),
    "size": ("size / depth", _three),
}

VenueColumns = tuple[tuple[str, str, Callable[[Any], str]], ...]  # heading, field of `VenueCosts`, formatter
_VENUES: VenueColumns = (
    ("place", "place", str),
    ("kind", "kind", str),
    ("orders", "orders", _whole),
    ("filled", "filled", natural_text),
    ("volume %", "volume_share", percent_text),
    ("fill %", "fill_rate", percent_text),
    ("slippage bps", "slippage_bps", fixed_text),
    ("fees", "fees_bps", fixed_text),
    ("eff. spread", "effective_spread_bps", fixed_text),
    ("fade %", "fade", percent_text),
    ("50 % in s", "fill_seconds_50", _three),
    ("markout 1 s", "markout_1_bps", fixed_text),
    ("10 s", "markout_10_bps", fixed_text),
    ("60 s", "markout_60_bps", fixed_text),
    ("adverse 1 s", "adverse_1_bps", fixed_text),
    ("95 % CI", "adverse_1_interval", range_text),
    ("net saving", "net_saving_bps", fixed_text),
    ("toxic", "toxic", flag_text),
)


def venue_costs_table(costs: Sequence[VenueCosts], router: str, columns: VenueColumns = _VENUES) -> TextTable:
    """Return the costs of one router: one row per venue or pool and kind of child order, largest volume first."""
    rows = [[write(getattr(one, field)) for _, field, write in columns] for one in costs if one.router == router]
    return TextTable([heading for heading, _, _ in columns], rows)


@dataclass(frozen=True, eq=False)
class BacktestResult:
    """Result of a backtest, with all its orders, child orders and fills."""

    market: str
    days: tuple[MarketDay, ...]
    config: BacktestConfig
    candidates: tuple[Candidate, ...]
    comparisons: dict[float, RouterComparison]  # by order size, a natural quantity
    tables: DayTables

    @property
    def comparison(self) -> RouterComparison:
        """The comparison of the routers; `InputError` is raised if there are several order sizes."""
        if len(self.comparisons) > 1:
            sizes = ", ".join(map(self.size_text, self.comparisons))
            raise InputError(f"comparison needs one order size, got {sizes}; use comparisons[size]")
        return next(iter(self.comparisons.values()))

    @property
    def instruments(self) -> tuple[Instrument, ...]:
        """The instrument of each symbol."""
        return tuple({day.symbol: day.instrument for day in self.days}.values())

    def size_text(self, size: float) -> str:
        """Return an order size as text, such as ``1,000 shares``."""
        return each_instrument_text(self.instruments, size)

    @property
    def synthetic(self) -> bool:
        """Whether any day was generated, not recorded."""
        return any(day.synthetic for day in self.days)

    @property
    def protection(self) -> str:
        """The order protection, one of `PROTECTIONS`: the configured one, else the first day's."""
        return self.config.protection or self.days[0].protection

    def write(self, out: str | Path) -> list[Path]:
        """Write the tables as Parquet, and costs by size, router, venue and kind as text and JSON; return the files."""
        folder = writable_folder("out", out)
        texts, plain = [], {}
        counted = " or ".join(dict.fromkeys(one.quantity for one in self.instruments))
        for size in self.comparisons:
            judged = self.tables.orders.filter(polars.col("judged") & (polars.col("quantity") == size))
            children, fills = (
                frame.join(judged.select(KEY), on=KEY, how="semi")
                for frame in (self.tables.children, self.tables.fills)
            )
            routers = costs_by_router(judged, children, fills)
            venues = costs_by_venue(judged, children, fills)
            texts += [f"{self._title}: orders of {self.size_text(size)}"]
            stated = self.benchmark_costs(size)
            texts += [benchmark_costs_table(stated).plain()]
            texts += [_router_details(routers, counted).plain(), _tercile_table(routers).plain()]
            texts += [
                f"{one.router}, quantities in {counted}\n{venue_costs_table(venues, one.router).plain()}"
                for one in routers
            ]
            plain[str(size)] = {"routers": to_plain(routers), "venues": to_plain(venues)}
            plain[str(size)]["benchmarks"] = to_plain(stated)
            if (queues := self.comparisons[size].queues) is not None:
                texts += [f"{queues.note}\n{_queue_table(queues).plain()}"]
                plain[str(size)]["queues"] = to_plain(queues)
        found = {"market": self.market, "synthetic": self.synthetic, "protection": self.protection}
        found |= {"instruments": to_plain(self.instruments), "sizes": plain}
        return [
            *self.tables.write(folder),
            write_json(folder / "costs.json", found),
            write_whole(folder / "costs.txt", lambda beside: beside.write_text("\n\n".join(texts) + "\n")),
        ]

    def benchmark_costs(self, size: float) -> tuple[BenchmarkCosts, ...]:
        """Return the costs of the judged orders of one size against every price benchmark, by router."""
        judged = self.tables.orders.filter(polars.col("judged") & (polars.col("quantity") == size))
        return benchmark_costs(judged, self.tables.fills.join(judged.select(KEY), on=KEY, how="semi"))

    def to_json(self) -> dict[str, Any]:
        """Return the configuration, and for each order size the comparison, the verdict and the benchmark costs."""
        config = to_plain(self.config) | {
            "market": self.market,
            "fingerprint": seeding_hash([to_plain(self.config), [day.folder.name for day in self.days]]),
            "days": [day.name for day in self.days],
            "zone": market_days_zone(self.days),
            "instruments": to_plain(self.instruments),
            "risk_tolerance": self._tolerances(),
            "parameters": {one.label: dict(one.parameters) for one in self.candidates if one.parameters},
        }
        found = {
            str(size): to_plain(one)
            | {"quantity": size, "use": one.router_to_use, "verdict": backtest_verdict(one, synthetic=self.synthetic)}
            | {"benchmarks": to_plain(self.benchmark_costs(size))}
            for size, one in self.comparisons.items()
        }
        return {"config": config, "synthetic": self.synthetic, "protection": self.protection, "comparisons": found}

    @property
    def _title(self) -> str:
        name = f"{self.market} (synthetic)" if self.synthetic else self.market
        days = f"{len(self.days)} {'day' if len(self.days) == 1 else 'days'}"
        hours = f", {self.config.hours} {zone_label(market_days_zone(self.days))}" if self.config.hours else ""
        return f"{name}, {days}{hours}, protection {self.protection}"

    def __str__(self) -> str:
        lines = [self._title]
        if self.left_out:
            lines.append(f"{self.left_out:,} orders met no two-sided market, or a mid of 0, and were skipped")
        for size, found in self.comparisons.items():
            if len(self.comparisons) > 1:
                lines.append("")
            stated = self.benchmark_costs(size)
            lines += [
                f"{found.orders:,} judged orders of {self.size_text(size)}, {self.config.horizon:g} s each",
                *(f"{self.footprint(size)} (medians)", "", found.table().plain(), ""),
                *found.legend,
                *("", benchmark_costs_table(stated).plain(), "", *benchmark_notes(stated)),
                backtest_verdict(found, synthetic=self.synthetic),
            ]
        return "\n".join(lines)

    def _tolerances(self) -> dict[str, float]:
        """Return, by order size, the paper's risk tolerance equivalent to kappa, in the quote currency.

        Empty if kappa is 0 or the orders have several currencies.
        """
        orders = self.tables.orders
        price = float(orders.select((polars.col("mid") * polars.col("multiplier")).mean()).item())
        known = self.config.risk.kappa > 0 and orders["currency"].n_unique() == 1
        sizes = self.config.quantities if known else ()
        return {str(size): _equivalent_tolerance(self.config.risk.kappa, size * price) for size in sizes}

    def footprint(self, size: float | None = None) -> str:
        """Return the median order size relative to displayed depth and to traded volume, as text."""
        return footprint_verdict(*self.footprint_fractions(size), self.config.block_minutes)

    def footprint_fractions(self, size: float | None = None) -> tuple[float, float | None]:
        """Return the medians of order size over displayed depth, and over the volume of the time block if known."""
        mine = polars.col("quantity") == size if size is not None else True
        judged = self.tables.orders.filter(polars.col("judged") & mine)
        depth, volume = (
            judged.select((polars.col("quantity") / polars.col(name)).drop_nans().median()).item()
            for name in ("depth", "volume")
        )
        return float(depth), None if volume is None else float(volume)

    @property
    def left_out(self) -> int:
        """Number of orders skipped because no venue had a bid, no venue had an ask, or the mid was 0."""
        one = self.candidates[0].label
        played = self.tables.orders.filter(polars.col("router") == one)
        return len(self.days) * self.config.orders - played.height

    @property
    def verdict(self) -> str:
        """The verdict of each order size, one per line; a line names the size if there are several."""
        said = {size: backtest_verdict(one, synthetic=self.synthetic) for size, one in self.comparisons.items()}
        several = len(said) > 1
        return "\n".join(f"{self.size_text(size)}: {text}" if several else text for size, text in said.items())


def _equivalent_tolerance(kappa: float, notional: float) -> float:
    """Return the paper's risk tolerance equivalent to ``kappa``, for an order worth ``notional``, in its currency.

    A notional of ``N``, a mean cost of ``c`` bps and a variance of ``v`` squared bps have the mean-variance
    ``(N / 1e4)^2 v + tolerance (N / 1e4) c``. At the returned tolerance it is proportional to ``c + kappa v``.

    Examples
    --------
    >>> _equivalent_tolerance(0.135, 2700.0)  # 10 shares of a stock at $270
    2.0
    """
    return real_number("notional", notional, above=0) / (1e4 * real_number("kappa", kappa, above=0))


def run_backtest(
    market: str,
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    backend: Backend | None = None,
    cache: PlayCache | None = None,
    finished: Callable[[PlayTask], None] | None = None,
    candidates: Sequence[Candidate] | None = None,
    bounds: bool = True,
    joint: bool = True,
) -> BacktestResult:
    """Play routers on the days of a market and compare the costs of their orders.

    Plays in ``cache`` are reused. Default of ``candidates``: the configured routers and the benchmark rules; static
    splits are fitted on the training days. The clairvoyant is always played. If queue positions are estimates,
    ``bounds`` plays the pessimistic and the optimistic queue model too. `RouterComparison` explains ``joint``.
    """
    check_playable_days(days, config)
    pools = bool(days[0].pools)
    if candidates is None:
        names = candidate_names(config.routers, pools=pools, horizon=config.horizon, train=config.train)
        with compilation_timed("fitted routers"):
            candidates = [static_fit_candidate(name, days, config, backend=backend, cache=cache) for name in names]
    if not any(candidate.label == CLAIRVOYANT for candidate in candidates):
        candidates = [*candidates, Candidate(CLAIRVOYANT, CLAIRVOYANT)]  # lower bound on the cost of every order
    tables = play_routers(candidates, days, config, backend=backend, cache=cache, finished=finished)
    check_played_bound(tables.orders)
    extremes = {}
    for name in QUEUE_BOUNDS if bounds and queue_plays(days, config) > 1 else ():
        extremes[name] = tables.orders
        if config.queue_model != QueueModel(name):
            world = dataclasses.replace(config, queue=name)
            bounding = play_routers(candidates, days, world, backend=backend, cache=cache, finished=finished)
            extremes[name] = bounding.orders
    feedback = {candidate.label: candidate.make().feedback for candidate in candidates}
    resting = config.horizon == 0 or limit_orders_play(days, config)
    found = {}
    for size in dict.fromkeys(config.quantities):
        orders = tables.orders.filter(polars.col("quantity") == size)
        if not orders["judged"].any():
            order = each_instrument_text((day.instrument for day in days), size)
            raise InputError(f"no judged order of {order} met a two-sided market; use more orders or other hours")
        played = orders["router"].unique(maintain_order=True).to_list()
        bar = choose_benchmark(orders, played, pools=pools, horizon=config.horizon, risk=config.risk)
        mine = dataclasses.replace(tables, orders=orders)
        queues = None
        if extremes:
            costs = (mean_costs(extremes[name], size, impact=config.stress.impact) for name in QUEUE_BOUNDS)
            queues = QueueEstimate(estimated_queue_venues(days), str(config.queue_model), *costs)
        found[size] = compare_routers(
            mine,
            bar,
            feedback,
            risk=config.risk,
            impact=config.stress.impact,
            seed=config.seed,
            queues=queues,
            joint=joint,
            resting=resting,
            benchmark=config.benchmark,
        )
    return BacktestResult(market, tuple(days), config, tuple(candidates), found, tables)


def limit_orders_play(days: Sequence[MarketDay], config: BacktestConfig) -> bool:
    """Return whether limit orders can be played on any day: the day has order ids, or trades and a queue model."""
    queues = (day.load().queue for day in days)
    return any(queue is not None and (queue.flows or (queue.matched and config.queue_model)) for queue in queues)


def queue_plays(days: Sequence[MarketDay], config: BacktestConfig) -> int:
    """Return the number of plays of each router: 1, or 2 or 3 with the bounds of estimated queue positions."""
    model = config.queue_model
    if config.horizon == 0 or model is None or config.stress.pessimistic_queues or not estimated_queue_venues(days):
        return 1
    return len({model, *map(QueueModel, QUEUE_BOUNDS)})


def backtest(
    market: str | Path = "dark",
    *,
    symbols: Sequence[str] = (),
    days: int | None = None,
    quantities: float | Sequence[float] = 1000,
    routers: Sequence[str | Router] = (),
    fees: FeeSchedule | None = None,
    pools: Sequence[DarkMarketPool] | None = None,
    instruments: Mapping[str, Instrument] | None = None,
    seed: int = 0,
    kept: str | Path = "out/days",
    backend: Backend | None = None,
    **orders: Any,
) -> BacktestResult:
    """Play routers on the same days with common random numbers, and compare the costs of their orders.

    Parameters
    ----------
    market : str or Path
        ``paper``, ``comparable``, ``dark``, or a folder written by ``riskroute market import``.
    symbols, days, fees, pools, instruments, seed
        As in `market_days`.
    quantities : float or Sequence[float]
        Order sizes as natural quantities, such as 1000 shares or 0.25 BTC, used in rotation.
    routers : Sequence[str or Router]
        Names or router objects; an object starts in its current state. Default: as in `BacktestConfig`.
    kept : str or Path
        Cache folder for prepared days and results.
    backend : Backend, optional
        Where to prepare and play days.
    **orders
        Fields of `BacktestConfig`: ``orders``, ``hours``, ``horizon``, ``risk``, ``side``, ``lot``, ``train``,
        ``latency_ms``, ``dark_latency_ms``, ``seeds``, ``block_minutes``, ``stress``, ``protection``, ``queue``,
        ``benchmark``.
    """
    listed = valid_list("routers", routers, (str, Router), "names or routers")
    own = [one for one in listed if isinstance(one, Router)]
    names = tuple(one for one in listed if isinstance(one, str))
    known = {item.name for item in dataclasses.fields(BacktestConfig)} - {"quantities", "routers", "seed"}
    for name in orders:
        one_of("parameter of backtest", name, tuple(sorted(known)))
    sizes: Any = (quantities,) if isinstance(quantities, int | float | str) else quantities
    config = BacktestConfig(quantities=sizes, routers=check_candidates(names), seed=seed, **orders)
    folder = valid_path("kept", kept)
    ready = market_days(
        market,
        symbols=symbols,
        days=days,
        seed=seed,
        hours=config.clock_hours,
        kept=folder,
        fees=fees,
        pools=pools,
        instruments=instruments,
        backend=backend,
    )
    cache = PlayCache(folder / "played")
    candidates = None
    if own:
        asked = names or ("sweep",)
        rules = candidate_names(asked, pools=bool(ready[0].pools), horizon=config.horizon)
        candidates = [static_fit_candidate(name, ready, config, backend=backend, cache=cache) for name in rules]
        candidates += [Candidate(one.name, one.name, begins_as=one) for one in own]
    return run_backtest(str(market), ready, config, backend=backend, cache=cache, candidates=candidates)
