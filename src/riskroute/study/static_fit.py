"""Static splits fitted on the training days: a router that sees the books should at least beat these.

`_fit_static` fits fixed fractions for venues and pools. Costs are additive over them, so dynamic programming finds the
best split in tenths of an order. `_fit_static_sweep` fits, by grid search, the pools to try and the fractions to rest
in pools and to post at venues before the sweep. A fit looks better on its own training orders than it is, so
`held_out_orders` scores each on orders that it was not fitted to.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import polars

from riskroute.core.arrays import Flags, Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.validation import SIDES
from riskroute.market.clock import SECOND
from riskroute.routing.consolidated import ConsolidatedBook
from riskroute.routing.separable import maximise_tables
from riskroute.simulation.backends import Backend, run_backend_tasks
from riskroute.simulation.play_day import PlayableDay, PlayableOrders
from riskroute.study.candidates import Candidate, named_candidate
from riskroute.study.config import BacktestConfig
from riskroute.study.markets import MarketDay
from riskroute.study.play import PlayCache, PlayTask, day_to_play, perform_plays, training_days
from riskroute.study.router_comparison import ORDER

UNITS = 10  # parts of an order
_GRID = (0.0, 0.25, 0.5, 0.75, 1.0)  # fractions of an order that rest or are posted
_FOLDS = 4  # stretches of a single training day, each of which is left out once


def _fit_static(days: Sequence[MarketDay], config: BacktestConfig) -> Candidate:
    """Fit the static split with the lowest objective, mean cost plus charge for variance, on the training days."""
    training, smaller, count = _training(days, config)
    names = tuple(
        name for name in training[0].load().books.venues if all(name in day.load().books.venues for day in training)
    )
    pools = [pool.name for pool in training[0].pools]
    parts = [_unit_costs(_first(day_to_play(day, smaller), count), names, config) for day in training]
    costs, fills, _ = (np.concatenate(some) for some in zip(*parts, strict=True))
    folds = np.concatenate([
        _folds(day, training, numbers, count) for day, (_, _, numbers) in zip(training, parts, strict=True)
    ])  # fmt: skip

    def fit(kept: Flags) -> Candidate:
        return Candidate("static", "static", _best_split(costs[kept], fills[kept], names, pools, config.risk.kappa))

    return _with_held_out(fit, folds)


def _best_split(
    costs: Floats, fills: Floats, names: Sequence[str], pools: Sequence[str], kappa: float
) -> dict[str, object]:
    """Return the parameters of the best split over venues and pools; arguments as returned by `_unit_costs`."""
    costs = costs.copy()
    rest = int(np.argmin(costs[:, : len(names), UNITS].mean(axis=0)))
    costs[:, len(names) :] += (np.arange(UNITS + 1) / UNITS - fills) * costs[:, rest, UNITS][:, None, None]
    mean, variance = costs.mean(axis=0), costs.var(axis=0)
    variance[: len(names)] = 0.0  # displayed sizes are known, hence no risk
    _, units = maximise_tables([*-(mean + kappa * variance)], UNITS)
    weights = {place: float(n) for place, n in zip((*names, *pools), units, strict=True) if n}
    take = {place: n for place, n in weights.items() if place in names}
    dark = {place: n for place, n in weights.items() if place in pools}
    return {"take": take, "dark": dark, "rest": names[rest]}


def _folds(day: MarketDay, training: Sequence[MarketDay], numbers: Integers, count: int) -> Integers:
    """Return the fold of each of the orders ``numbers (n,)`` of a training day with ``count`` orders.

    A fold is a training day, of all symbols; a single training day has `_FOLDS` stretches.
    """
    dates = sorted({one.date for one in training})
    if len(dates) == 1:
        return np.minimum(numbers * _FOLDS // count, _FOLDS - 1)
    return np.full(len(numbers), dates.index(day.date))


def _with_held_out(fit: Callable[[Flags], Candidate], folds: Integers) -> Candidate:
    """Return the fit to all training orders, with one held-out fit per fold unless there is only one fold.

    ``folds (n,)`` is the fold of each order.
    """
    others = [folds != fold for fold in range(int(folds.max()) + 1)]
    held_out = tuple(fit(kept) for kept in others) if all(kept.any() for kept in others) else ()
    return dataclasses.replace(fit(np.ones(len(folds), dtype=np.bool_)), held_out=held_out)


def held_out_orders(
    candidates: Sequence[Candidate],
    orders: polars.DataFrame,
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    backend: Backend | None = None,
    cache: PlayCache | None = None,
) -> polars.DataFrame:
    """Return the training orders among ``orders``; a fitted router plays each of them with its fit to the other folds.

    If a fold makes no difference to the fit, its orders are not played again.
    """
    training = orders.filter(~polars.col("judged"))
    fitted = [one for one in candidates if one.held_out]
    if training.is_empty() or not fitted:
        return training
    place = polars.col("day").rank("dense") - 1
    if training["day"].n_unique() == 1:
        count = polars.col("number").max().over("symbol", "seed") + 1
        place = (polars.col("number") * _FOLDS // count).clip(0, _FOLDS - 1)
    folded = training.with_columns(fold=place.cast(polars.Int64))
    again = [
        (one, number, other)
        for one in fitted
        for number, other in enumerate(one.held_out)
        if other.parameters != one.parameters
    ]
    wanted = {number: set(folded.filter(polars.col("fold") == number)["day"]) for _, number, _ in again}
    plays = [
        (number, PlayTask(other, (day,), 0, config))
        for one, number, other in again
        for day in days
        if str(day.date) in wanted[number]
    ]
    played = perform_plays([task for _, task in plays], backend=backend, cache=cache)
    parts = [
        tables.orders.drop("judged").with_columns(fold=polars.lit(number, polars.Int64))
        for (number, _), tables in zip(plays, played, strict=True)
    ]
    if not parts:
        return training
    key = ["router", *ORDER, "fold"]
    fresh = polars.concat(parts).join(folded.select(*key, "judged"), on=key)
    return polars.concat([folded.join(fresh, on=key, how="anti"), fresh.select(folded.columns)]).drop("fold")


def _training(days: Sequence[MarketDay], config: BacktestConfig) -> tuple[list[MarketDay], BacktestConfig, int]:
    """Return the training days, a configuration with at most 100 orders per day, and the training orders per day.

    The training orders are all orders of a day; of a single day, the first half.
    """
    found: list[MarketDay] = []
    for symbol in dict.fromkeys(day.symbol for day in days):
        mine = [day for day in days if day.symbol == symbol]
        if not (train := training_days(len(mine), config.train)):
            raise InputError("train must be at least 1 to fit static and static+sweep, was 0")
        found += mine[:train]
    smaller = dataclasses.replace(config, orders=min(config.orders, 100), seeds=1)
    halved = sum(day.symbol == days[0].symbol for day in days) == 1
    return found, smaller, max(smaller.orders // 2, 1) if halved else smaller.orders


def _first(day: PlayableDay, count: int) -> PlayableDay:
    some = day.orders
    kept = PlayableOrders(some.times[:count], some.signs[:count], some.shares[:count], some.horizons[:count], some.lot)
    return dataclasses.replace(day, orders=kept)


def _unit_costs(day: PlayableDay, names: Sequence[str], config: BacktestConfig) -> tuple[Floats, Floats, Integers]:
    """Return costs in bps and filled fractions if 0, 1 .. `UNITS` parts of an order are sent to one venue or pool.

    Costs have shape ``(orders, venues + pools, UNITS + 1)``, filled fractions ``(orders, pools, UNITS + 1)``. The third
    array has the numbers ``(orders,)`` of the orders.
    """
    orders, books = day.orders, day.books
    dark = day.dark_market(config.seed, config.stress.leak) if day.pools else None
    parts = np.arange(UNITS + 1) / UNITS
    found = np.full((len(orders.times), len(names) + len(day.pools), UNITS + 1), np.nan)
    dark_fills = np.zeros((len(orders.times), len(day.pools), UNITS + 1))
    mids, spreads = books.mids(orders.times), books.spreads(orders.times)
    for number, time in enumerate((orders.times + int(config.latency.lit * SECOND)).tolist()):
        mid, sign, shares = float(mids[number]), int(orders.signs[number]), int(orders.shares[number])
        if not np.isfinite(mid) or mid == 0:
            continue
        now, side = books.as_of(time), SIDES[0] if sign > 0 else SIDES[1]
        prices, sizes = (now.ask_px, now.ask_sz) if sign > 0 else (now.bid_px, now.bid_sz)
        amounts, notional = parts * shares, abs(mid) * shares
        for k, name in enumerate(names):
            v = books.venues.index(name)
            one = slice(v, v + 1)
            book = ConsolidatedBook(prices[one], sizes[one], day.takers[one], mid=mid, side=side)
            found[number, k] = 1e4 * book.costs(amounts) / notional
        for j, pool in enumerate(day.pools):
            filled = np.minimum(amounts, dark.hidden(number, pool.name) if dark else 0)
            dark_fills[number, j] = filled / shares
            each = pool.fee - pool.improvement * float(spreads[number]) / 2
            found[number, len(names) + j] = 1e4 * filled * each / notional
    met = np.isfinite(mids)  # orders without a mid are skipped by all routers
    found, dark_fills = found[met], dark_fills[met]
    # a venue without a book is charged its worst cost of the day, 10,000 basis points if it never showed a book
    worst = np.nan_to_num(np.fmax.reduce(found, axis=0, initial=-np.inf), nan=1e4, neginf=1e4)
    return np.where(np.isnan(found), worst, found), dark_fills, np.flatnonzero(met)


def _fit_static_sweep(
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    backend: Backend | None = None,
    cache: PlayCache | None = None,
) -> Candidate:
    from riskroute.study.costs import objective_cost

    training, smaller, count = _training(days, config)
    candidates = [
        Candidate(f"candidate {k}", "static+sweep", one) for k, one in enumerate(static_sweep_grid(training, config))
    ]
    tasks = [PlayTask(candidate, tuple(training), 0, smaller) for candidate in candidates]
    played = [
        tables.orders.filter(polars.col("number") < count)
        for tables in run_backend_tasks(tasks, backend or Backend(), cache=cache)
    ]
    known = {(day.symbol, str(day.date)): day for day in training}
    rows = played[0].select("symbol", "day", "number").iter_rows()
    folds = [_folds(known[symbol, day], training, np.array([number]), count) for symbol, day, number in rows]

    def fit(kept: Flags) -> Candidate:
        values = [objective_cost(orders.filter(kept), config.risk.kappa) for orders in played]
        return Candidate("static+sweep", "static+sweep", candidates[int(np.argmin(values))].parameters)

    return _with_held_out(fit, np.concatenate(folds))


def static_sweep_grid(days: Sequence[MarketDay], config: BacktestConfig) -> list[dict[str, object]]:
    """Return the parameters of ``static+sweep`` that are tried: pools to ping, and fractions to rest and to post."""
    names = [pool.name for pool in days[0].pools]
    pools = [list(some) for count in range(len(names) + 1) for some in itertools.combinations(names, count)]
    if config.horizon == 0:
        return [{"pools": some} for some in pools]
    shares = _GRID if names else _GRID[:1]
    tried = [pools[0], pools[-1]] if names else [[]]
    return [
        {"pools": some, "rest": rest, "post": post}
        for some in tried
        for rest in shares
        for post in _GRID
        if rest + post <= 1
    ]


def static_fit_candidate(
    name: str,
    days: Sequence[MarketDay],
    config: BacktestConfig,
    *,
    backend: Backend | None = None,
    cache: PlayCache | None = None,
) -> Candidate:
    """Return a candidate by name; ``static`` and ``static+sweep`` are fitted on the training days."""
    if name == "static":
        return _fit_static(days, config)
    if name == "static+sweep":
        return _fit_static_sweep(days, config, backend=backend, cache=cache)
    return named_candidate(name)
