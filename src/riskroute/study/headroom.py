"""Headroom: the saving of the best fixed plan, of plans that see the books, and of perfect foresight.

A fixed plan has the same pools and fractions for every order; a router can learn from the books when to depart from it.
The saving from these departures is estimated twice. Plans fitted on the judged days themselves give an upper bound;
plans that were not fitted to the orders they are judged by give an out-of-sample estimate. Only foresight needs future
prices and hidden sizes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars

from riskroute.core.instrument import SHARES, Instrument, each_instrument_text
from riskroute.core.records import to_plain
from riskroute.core.seeding import seed_stream
from riskroute.core.text import TextTable, fixed_text, interval_text, words_list
from riskroute.routers.registry import restore_router
from riskroute.routers.risk import PROFILES, RiskProfile
from riskroute.simulation.backends import Backend
from riskroute.study.backtest import limit_orders_play
from riskroute.study.candidates import CLAIRVOYANT, Candidate, candidate_names, named_candidate
from riskroute.study.case import imbalance_state, order_states
from riskroute.study.config import BacktestConfig
from riskroute.study.costs import objective_cost, order_objectives, with_terciles
from riskroute.study.day_tables import PRICE_BENCHMARKS, DayTables
from riskroute.study.markets import MarketDay, estimated_queue_venues
from riskroute.study.play import PlayCache, PlayTask, check_playable_days, check_played_bound, perform_plays, play_tasks
from riskroute.study.router_comparison import MOST_ESTIMATED, ORDER, ROUNDING, WORTH, queue_note
from riskroute.study.static_fit import static_sweep_grid
from riskroute.study.statistics import BootstrapDifference, bootstrap_difference, expected_shortfall, resampling_units
from riskroute.study.verdict import no_verdict_text

# grid of the command and of the benchmark: quantities, seconds, risk profiles
SIZES, HORIZONS = (100, 1000), (0.0, 10.0, 60.0, 300.0)
RISKS = tuple(PROFILES.values())

_LEARNER, _LEARNED = "contextual", "contextual, fitted on the judged days"
_STATES, _STATES_HELD_OUT = "fixed plan by spread and imbalance, fitted", "fixed plan by spread and imbalance"
_SEEING = {  # rules whose plans depend on the books, by whether orders can wait
    False: ("hidden+sweep",),
    True: ("hidden+sweep", "delay+sweep", "cont-kukanov", "dark-first+cont-kukanov", "bayes-fill"),
}


@dataclass(frozen=True)
class HeadroomParts:
    """The three parts of the headroom for one market, order size, deadline and risk profile.

    Objectives and savings are basis points per judged order. A saving is a difference of objectives.

    - ``orders``: number of judged orders.
    - ``standard``: the standard rule, ``dark-first+sweep``, or ``sweep`` without pools. Plans with a larger expected
      shortfall are left out under a capped risk profile.
    - ``fixed_bps``, ``seeing_bps``, ``learned_bps``: objectives of the fixed plans, of all plans that see the books,
      and of the latter that were not fitted to the orders they are judged by.
    - ``foresight_bps``: cost with perfect foresight; nothing is unforeseen.
    - ``best_fixed``, ``best_seeing``, ``best_learned``: the plans with the lowest objectives; ``best_seeing`` is the
      best fixed plan if no plan that sees the books has a lower objective, ``best_learned`` if the profile admits none.
    - ``fixed_saving_bps``: saving of the best fixed plan against the standard rule.
    - ``seeing_saving_bps``: saving of the best plan that sees the books against the best fixed plan: an upper bound on
      what learning saves, since these plans were fitted on the judged days.
    - ``learned_saving_bps``: saving of ``best_learned`` against the best fixed plan; below 0 if it loses.
      ``learned_low_bps``, ``learned_high_bps``: its 95 % confidence interval over days or time blocks; None with one of
      them.
    - ``foresight_saving_bps``: saving of perfect foresight against ``best_seeing``.
    - ``estimated_share``: the largest fraction of the volume at estimated prices among the three best plans and the
      clairvoyant.
    - ``queues``: a sentence about estimated queue positions, empty if there are none.
    - ``resting``: whether limit orders could be played; true if the deadline is 0.
    - ``benchmark``: the price against which costs are stated, one of `PRICE_BENCHMARKS`.
    """

    market: str
    quantity: float
    horizon: float
    risk: RiskProfile
    orders: int
    standard: str
    fixed_bps: dict[str, float]
    seeing_bps: dict[str, float]
    learned_bps: dict[str, float]
    foresight_bps: float
    best_fixed: str
    best_seeing: str
    best_learned: str
    fixed_saving_bps: float
    seeing_saving_bps: float
    learned_saving_bps: float
    learned_low_bps: float | None
    learned_high_bps: float | None
    foresight_saving_bps: float
    estimated_share: float
    synthetic: bool = False
    queues: str = ""
    instruments: tuple[Instrument, ...] = (SHARES,)
    resting: bool = True
    benchmark: str = "arrival"

    @property
    def size(self) -> str:
        """The quantity of an order as text."""
        return each_instrument_text(self.instruments, self.quantity)

    @property
    def named_market(self) -> str:
        """The market, and whether it is synthetic."""
        return f"{self.market} (synthetic)" if self.synthetic else self.market

    @property
    def learning(self) -> str:
        """Whether learning can pay: ``can``, ``cannot``, or ``unclear`` if there are too few orders to tell.

        It cannot if even the upper bound is too small to matter, and it can if plans saved enough, significantly, on
        orders that they were not fitted to.
        """
        if self.seeing_saving_bps < WORTH:
            return "cannot"
        clear = self.learned_low_bps is not None and self.learned_low_bps > 0
        return "can" if clear and self.learned_saving_bps >= WORTH else "unclear"

    @property
    def known(self) -> bool:
        """Whether few enough shares were filled at estimated prices for a verdict."""
        return self.estimated_share <= MOST_ESTIMATED

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the answer as plain values."""
        plain: dict[str, Any] = to_plain(self)
        return plain | {"learning": self.learning if self.known else "no verdict"}


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
) -> list[HeadroomParts]:
    """Return the headroom of a market for every order size, deadline and risk profile."""
    found: list[HeadroomParts] = []
    total = len(sizes) * len(horizons) * len(risks)
    for size, horizon, risk in itertools.product(sizes, horizons, risks):
        # one seed, since a router is played again on the orders from which it learned
        asked = dataclasses.replace(config, quantities=(size,), horizon=horizon, risk=risk, seeds=1)
        check_playable_days(days, asked)
        found.append(_parts(market, days, asked, backend, cache))
        if progress is not None:
            progress(f"{market} {found[-1].size} {horizon:g} s", len(found), total)
    return found


def _parts(
    market: str, days: Sequence[MarketDay], config: BacktestConfig, backend: Backend | None, cache: PlayCache | None
) -> HeadroomParts:
    pools, waits = bool(days[0].pools), config.horizon > 0
    names = [name for name in candidate_names((), pools=pools, horizon=config.horizon, train=0) if name != CLAIRVOYANT]
    rules = [named_candidate(name) for name in names]
    grid = [Candidate(_plan_name(one), "static+sweep", one) for one in static_sweep_grid(days, config)]
    seeing = [named_candidate(name) for name in (*_SEEING[waits], _LEARNER)]
    plays = play_tasks([*rules, *seeing, Candidate(CLAIRVOYANT, CLAIRVOYANT)], days, config)
    plays += _on_judged_days(play_tasks(grid, days, config))  # these learn nothing from earlier days
    played = perform_plays(plays, backend=backend, cache=cache) + _plays_of_learned(days, config, backend, cache)
    orders = DayTables.together(played).orders
    check_played_bound(orders)
    rows_by_name = orders.filter("judged").group_by("router", maintain_order=True)
    judged = {str(name): rows for (name,), rows in rows_by_name}
    plans = {one.label: judged[one.label] for one in (*rules, *grid)}
    states = _states(orders, days, config)
    judged[_STATES], judged[_STATES_HELD_OUT] = (_by_state(plans, states, config, held) for held in (False, True))
    values = {name: objective_cost(rows, config.risk.kappa) for name, rows in judged.items()}
    standard = "dark-first+sweep" if pools else "sweep"
    excess = _excess_shortfalls(judged, standard)
    fixed_bps = {name: values[name] for name in plans}
    best_fixed = config.risk.best(fixed_bps, excess, standard)
    learned_bps = {name: values[name] for name in (*(one.label for one in seeing), _STATES_HELD_OUT)}
    admissible = [name for name in learned_bps if config.risk.admits(excess[name])]
    best_learned = min(admissible, key=lambda name: learned_bps[name], default=best_fixed)
    seeing_bps = {**learned_bps, **{name: values[name] for name in (_LEARNED, _STATES)}}
    best_seeing = config.risk.best(seeing_bps | {best_fixed: values[best_fixed]}, excess, best_fixed)
    saving = _paired_saving(judged[best_fixed], judged[best_learned], config)
    filled = (
        judged[name].select("estimated", "quantity").sum()
        for name in (best_fixed, best_seeing, best_learned, CLAIRVOYANT)
    )
    estimated = [rows["estimated"].item() / rows["quantity"].item() for rows in filled]
    venues, model = estimated_queue_venues(days), config.queue_model
    return HeadroomParts(
        *(market, config.quantities[0], config.horizon, config.risk, judged[standard].height),
        standard=standard,
        fixed_bps=fixed_bps,
        seeing_bps=seeing_bps,
        learned_bps=learned_bps,
        foresight_bps=values[CLAIRVOYANT],
        best_fixed=best_fixed,
        best_seeing=best_seeing,
        best_learned=best_learned,
        fixed_saving_bps=values[standard] - values[best_fixed],
        seeing_saving_bps=values[best_fixed] - values[best_seeing],
        learned_saving_bps=saving.mean,
        learned_low_bps=saving.interval[1],
        learned_high_bps=saving.interval[2],
        foresight_saving_bps=values[best_seeing] - values[CLAIRVOYANT],
        estimated_share=max(estimated),
        synthetic=any(day.synthetic for day in days),
        queues=queue_note(venues, str(model)) if venues and model is not None and waits else "",
        instruments=tuple({day.symbol: day.instrument for day in days}.values()),
        resting=not waits or limit_orders_play(days, config),
        benchmark=config.benchmark,
    )


def _plan_name(plan: Mapping[str, Any]) -> str:
    """Return a fixed plan in words.

    Examples
    --------
    >>> _plan_name({"pools": ["P1", "P2"], "rest": 0.5, "post": 0.25}), _plan_name({"pools": []})
    ('rest 50 %, post 25 %, ping P1 P2, sweep', 'sweep alone')
    """
    parts = [f"{kind} {100 * plan[kind]:g} %" for kind in ("rest", "post") if plan.get(kind)]
    parts += [f"ping {' '.join(plan['pools'])}"] if plan["pools"] else []
    return ", ".join([*parts, "sweep"]) if parts else "sweep alone"


def _on_judged_days(tasks: Sequence[PlayTask]) -> list[PlayTask]:
    """Return the same tasks without training days; a single day is played whole, and its second half judged."""
    return [
        dataclasses.replace(task, days=task.days[task.train :], train=0) if len(task.days) > 1 else task
        for task in tasks
    ]


def _plays_of_learned(
    days: Sequence[MarketDay], config: BacktestConfig, backend: Backend | None, cache: PlayCache | None
) -> list[DayTables]:
    """Let the learner play the judged days, then play them again with what it learned, without exploring."""
    learner = Candidate(_LEARNED, _LEARNER)
    later = _on_judged_days(play_tasks([learner], days, config))
    learned = perform_plays(later, backend=backend, cache=cache)
    again = [
        dataclasses.replace(task, candidate=dataclasses.replace(learner, begins_as=_ready_again(tables.state)))
        for task, tables in zip(later, learned, strict=True)
    ]
    return perform_plays(again, backend=backend)


def _ready_again(state: Any) -> Any:
    """Restore a router that meets the same orders again, and no longer explores."""
    greedy = state["parameters"] | {"budget": 0.0}
    return restore_router(state | {"under_way": {}, "done": [], "parameters": greedy})


def _states(orders: polars.DataFrame, days: Sequence[MarketDay], config: BacktestConfig) -> polars.DataFrame:
    """Return the state of the book at the arrival of every judged order: tercile of the spread, and imbalance."""
    found = order_states(orders, days, config)
    terciles = with_terciles(found, "spread").rename({"state": "tercile"})
    return terciles.select(*ORDER, state=polars.concat_str("tercile", imbalance_state(), separator=", "))


def _by_state(
    plans: Mapping[str, polars.DataFrame], states: polars.DataFrame, config: BacktestConfig, held_out: bool
) -> polars.DataFrame:
    """Return the judged orders, each played by the plan with the lowest objective in the state of its book.

    Plans are chosen on the same orders or, if ``held_out``, on the orders of the other half of the time blocks, odd or
    even.
    """
    every = polars.concat([order_objectives(rows, config.risk.kappa) for rows in plans.values()])
    every = every.join(states, on=ORDER).with_columns(fold=polars.col("block") % 2 if held_out else polars.lit(0))
    means = every.group_by("state", "fold", "router").agg(polars.col("objective_bps").mean())
    means = means.sort("objective_bps", "router").group_by("state", "fold").agg(polars.col("router").first())
    best = means.with_columns(fold=1 - polars.col("fold")) if held_out else means
    chosen = every.join(best, on=["state", "fold", "router"], how="semi")
    # a state that no block of the other half has is played by the best plan over all states
    overall = every.group_by("router").agg(polars.col("objective_bps").mean()).sort("objective_bps", "router")["router"]
    others = every.filter(polars.col("router") == overall[0]).join(chosen, on=ORDER, how="anti")
    return polars.concat([chosen, others])


def _excess_shortfalls(judged: Mapping[str, polars.DataFrame], standard: str) -> dict[str, float]:
    """Return the expected shortfall (5 %) of every router minus the standard rule's, in basis points."""
    tails = {
        name: float(order_objectives(rows, 0.0).select(expected_shortfall(polars.col("cost_bps"))).item())
        for name, rows in judged.items()
    }
    return {name: tail - tails[standard] for name, tail in tails.items()}


def _paired_saving(one: polars.DataFrame, other: polars.DataFrame, config: BacktestConfig) -> BootstrapDifference:
    """Return the objective of ``one`` minus the objective of ``other``, with an interval over days or time blocks."""
    key = [*ORDER, "block"]
    pair = [order_objectives(rows, config.risk.kappa).select(*key, "objective_bps") for rows in (one, other)]
    both = pair[0].join(pair[1], on=key, suffix="_other")
    gap = polars.col("objective_bps") - polars.col("objective_bps_other")
    gaps = both.select(*key, gap=gap).sort(ORDER)
    values = np.where(np.abs(gaps["gap"].to_numpy()) < ROUNDING, 0.0, gaps["gap"].to_numpy())
    rng = np.random.default_rng(seed_stream(config.seed, "headroom"))
    units, unit = resampling_units(gaps)
    return bootstrap_difference(values, units, rng, unit=unit)


def headroom_legend(found: Sequence[HeadroomParts]) -> tuple[str, ...]:
    """Return the meaning of the columns of `headroom_table`."""
    price = PRICE_BENCHMARKS[found[0].benchmark]
    return (
        f"bps per judged order against the {price}, fees and charge for risk included",
        "fixed plan: the best one against the standard rule",
        "books, at most: the best plan that sees the books against the best fixed plan, fitted on the judged days",
        "books, learned: the same with plans that were not fitted to these orders; 95 % CI over days or time blocks",
        "foresight: knowledge of future prices and hidden sizes beyond that, which nobody can learn",
        "estimated: volume beyond the recorded depth, at estimated prices",
    )


def headroom_table(found: Sequence[HeadroomParts]) -> TextTable:
    """Return a table with one row per market, order size, deadline and risk profile; savings are in basis points."""
    header = ["market", "quantity", "seconds", "risk", "standard rule", "fixed plan", "books, at most"]
    header += ["books, learned", "95 % CI", "foresight", "learning", "best fixed plan", "best learned", "estimated"]
    rows = []
    for one in found:
        savings = one.fixed_saving_bps, one.seeing_saving_bps, one.learned_saving_bps
        interval = interval_text(one.learned_low_bps, one.learned_high_bps)
        rows.append(
            [
                *(one.named_market, one.size, f"{one.horizon:g}", one.risk.name),
                fixed_text(one.fixed_bps[one.standard], 3),
                *(fixed_text(saving, 3) for saving in savings),
                *(interval, fixed_text(one.foresight_saving_bps, 3), one.learning if one.known else "no verdict"),
                *(one.best_fixed, one.best_learned, f"{one.estimated_share:.1%}"),
            ]
        )
    return TextTable(header, rows)


def headroom_words(found: Sequence[HeadroomParts]) -> list[str]:
    """Say, for each market and deadline, for which order sizes learning can pay, and what the three parts are."""
    lines = []
    for market, horizon in dict.fromkeys((one.named_market, one.horizon) for one in found):
        mine = [one for one in found if (one.named_market, one.horizon) == (market, horizon)]
        time = "immediate execution" if horizon == 0 else f"{horizon:g} s deadline"
        which = f"{market}, {time}"
        if known := [one for one in mine if one.known]:
            lines.append(f"{which}: {_pays(known)}. {_savings(known)}.")
        if unknown := [one for one in mine if not one.known]:
            sizes = " and ".join(dict.fromkeys(one.size for one in unknown))
            share = max(one.estimated_share for one in unknown)
            text = no_verdict_text(share, synthetic=unknown[0].synthetic)
            lines.append(f"{which}: no verdict for {sizes}: {text}")
        lines += [f"{which}: {note}." for note in dict.fromkeys(one.queues for one in mine) if note]
        if not all(one.resting for one in mine):
            lines.append(f"{which}: limit orders could not be played on this data.")
    return lines


_ANSWERS = {
    "can": "learning can pay",
    "cannot": "learning cannot pay",
    "unclear": "there are too few orders to tell whether learning can pay",
    "mixed": "whether learning can pay depends on the risk profile",
}


def _pays(found: Sequence[HeadroomParts]) -> str:
    sizes: dict[str, str] = {}
    for size in dict.fromkeys(one.size for one in found):
        answers = {one.learning for one in found if one.size == size}
        sizes[size] = answers.pop() if len(answers) == 1 else "mixed"
    groups = {
        answer: [size for size, one in sizes.items() if one == answer] for answer in dict.fromkeys(sizes.values())
    }
    if len(groups) == 1 and len(sizes) > 1:
        return f"{_ANSWERS[next(iter(groups))]} at every size"
    return "; ".join(f"{_ANSWERS[answer]} for orders of {words_list(some)}" for answer, some in groups.items())


def _savings(found: Sequence[HeadroomParts]) -> str:
    fixed, seeing, learned, foresight = (
        _range([getattr(one, f"{part}_saving_bps") for one in found])
        for part in ("fixed", "seeing", "learned", "foresight")
    )
    return (
        f"The best fixed plan saves {fixed} bps per order against {found[0].standard}; plans that see the books save "
        f"at most {seeing} bps more (fitted on the judged days), and {learned} bps on orders that they were not fitted "
        f"to; only foresight saves the other {foresight} bps"
    )


def _range(values: Sequence[float]) -> str:
    low, high = fixed_text(min(values)), fixed_text(max(values))
    return low if low == high else f"{low} to {high}"
