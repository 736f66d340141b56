"""Headroom: what the best fixed plan saves, what plans that see the books save beyond it, and what only foresight saves.

The first two can be had: a fixed plan treats every order alike, and a router can learn when to depart from it. The
second part is estimated with a router that learned on the judged days themselves, so it is an upper bound on what
learning saves. Only the third needs future prices and hidden sizes.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars

from riskroute.core.instrument import SHARES, Instrument, each_named
from riskroute.core.records import to_plain
from riskroute.core.seeding import seed_stream
from riskroute.core.text import TextTable, fixed_text, interval_text, words_list
from riskroute.routers.registry import restore_router
from riskroute.routers.risk import BALANCED, CHEAPEST, RiskProfile, risk_profile
from riskroute.simulation.backends import Backend
from riskroute.study.candidates import CLAIRVOYANT, Candidate, candidate_names, named_candidate
from riskroute.study.config import BacktestConfig
from riskroute.study.costs import objective_cost, order_objectives
from riskroute.study.day_tables import DayTables
from riskroute.study.markets import MarketDay, estimated_queue_venues
from riskroute.study.play import PlayCache, check_playable_days, check_played_bound, perform_plays, play_tasks
from riskroute.study.router_comparison import MOST_ESTIMATED, ORDER, ROUNDING, WORTH, queue_note
from riskroute.study.static_fit import static_sweep_grid
from riskroute.study.statistics import BootstrapDifference, bootstrap_difference, expected_shortfall, time_block_numbers
from riskroute.study.verdict import no_verdict_text

# grid of the command and of the benchmark: quantities, seconds, risk profiles
SIZES, HORIZONS = (10, 100, 1000, 5000), (0.0, 10.0, 60.0, 300.0)
RISKS = (CHEAPEST, BALANCED, risk_profile("risk", 0.2))

_LEARNER = "contextual"
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
    - ``fixed_bps``, ``seeing_bps``: objectives of the fixed plans, and of the plans that see the books.
    - ``foresight_bps``: cost with perfect foresight; nothing is unforeseen.
    - ``best_fixed``, ``best_seeing``: those with the lowest objectives; the best fixed plan if seeing helps nowhere.
    - ``fixed_saving_bps``: saving of the best fixed plan against the standard rule.
    - ``seeing_saving_bps``: saving of the best plan that sees the books against the best fixed plan: an upper bound on
      what learning saves, since the router learned on the judged days. ``seeing_low_bps``, ``seeing_high_bps``: its
      95 % confidence interval over time blocks; None with one block.
    - ``foresight_saving_bps``: saving of perfect foresight beyond that.
    - ``estimated_share``: the largest fraction of the volume at estimated prices among these plans.
    - ``queues``: a sentence about estimated queue positions, empty if there are none.
    """

    market: str
    quantity: float
    horizon: float
    risk: RiskProfile
    orders: int
    standard: str
    fixed_bps: dict[str, float]
    seeing_bps: dict[str, float]
    foresight_bps: float
    best_fixed: str
    best_seeing: str
    fixed_saving_bps: float
    seeing_saving_bps: float
    seeing_low_bps: float | None
    seeing_high_bps: float | None
    foresight_saving_bps: float
    estimated_share: float
    synthetic: bool = False
    queues: str = ""
    instruments: tuple[Instrument, ...] = (SHARES,)

    @property
    def size(self) -> str:
        """The quantity of an order as text."""
        return each_named(self.instruments, self.quantity)

    @property
    def named_market(self) -> str:
        """The market, and whether it is synthetic."""
        return f"{self.market} (synthetic)" if self.synthetic else self.market

    @property
    def learning(self) -> str:
        """Whether learning can pay: ``can``, ``cannot``, or ``unclear`` if there are too few orders to tell."""
        if self.seeing_high_bps is not None and self.seeing_high_bps < WORTH:
            return "cannot"
        clear = self.seeing_low_bps is not None and self.seeing_low_bps > 0
        return "can" if clear and self.seeing_saving_bps >= WORTH else "unclear"

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
        asked = dataclasses.replace(config, quantities=(size,), horizon=horizon, risk=risk)
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
    fixed = [named_candidate(name) for name in names]
    fixed += [Candidate(_plan_name(one), "static+sweep", one) for one in static_sweep_grid(days, config)]
    rules = [named_candidate(name) for name in (*_SEEING[waits], CLAIRVOYANT)]
    played = perform_plays(play_tasks([*fixed, *rules], days, config), backend=backend, cache=cache)
    played += _plays_of_learned(days, config, backend, cache)
    tables = DayTables.together(played)
    check_played_bound(tables.orders)
    judged = {name: rows for (name,), rows in tables.orders.filter("judged").group_by("router", maintain_order=True)}
    values = {str(name): objective_cost(rows, config.risk.kappa) for name, rows in judged.items()}
    standard = "dark-first+sweep" if pools else "sweep"
    excess = _excess_shortfalls(judged, standard)
    fixed_bps = {one.label: values[one.label] for one in fixed}
    best_fixed = config.risk.best(fixed_bps, excess, standard)
    seeing_bps = {name: values[name] for name in (*_SEEING[waits], _LEARNER)}
    best_seeing = config.risk.best(seeing_bps | {best_fixed: values[best_fixed]}, excess, best_fixed)
    saving = _paired_saving(judged[best_fixed], judged[best_seeing], config)
    low, high = (end if math.isfinite(end) else None for end in (saving.low, saving.high))
    filled = (judged[name].select("estimated", "quantity").sum() for name in (best_fixed, best_seeing, CLAIRVOYANT))
    estimated = [rows["estimated"].item() / rows["quantity"].item() for rows in filled]
    venues, model = estimated_queue_venues(days), config.queue_model
    return HeadroomParts(
        *(market, config.quantities[0], config.horizon, config.risk, judged[standard].height // config.seeds),
        standard=standard,
        fixed_bps=fixed_bps,
        seeing_bps=seeing_bps,
        foresight_bps=values[CLAIRVOYANT],
        best_fixed=best_fixed,
        best_seeing=best_seeing,
        fixed_saving_bps=values[standard] - values[best_fixed],
        seeing_saving_bps=values[best_fixed] - values[best_seeing],
        seeing_low_bps=low,
        seeing_high_bps=high,
        foresight_saving_bps=values[best_seeing] - values[CLAIRVOYANT],
        estimated_share=max(estimated),
        synthetic=any(day.synthetic for day in days),
        queues=queue_note(venues, str(model)) if venues and model is not None and waits else "",
        instruments=tuple({day.symbol: day.instrument for day in days}.values()),
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


def _plays_of_learned(
    days: Sequence[MarketDay], config: BacktestConfig, backend: Backend | None, cache: PlayCache | None
) -> list[DayTables]:
    """Let the learner play the judged days, then play them again with what it learned, without exploring."""
    learner = Candidate(_LEARNER, _LEARNER)
    later = [
        dataclasses.replace(task, days=task.days[task.train :], train=0) if len(task.days) > 1 else task
        for task in play_tasks([learner], days, config)
    ]
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


def _excess_shortfalls(judged: Mapping[Any, polars.DataFrame], standard: str) -> dict[str, float]:
    """Return the expected shortfall (5 %) of every router minus that of the standard rule, in basis points."""
    tails = {
        name: float(order_objectives(rows, 0.0).select(expected_shortfall(polars.col("cost_bps"))).item())
        for name, rows in judged.items()
    }
    return {str(name): tail - tails[standard] for name, tail in tails.items()}


def _paired_saving(one: polars.DataFrame, other: polars.DataFrame, config: BacktestConfig) -> BootstrapDifference:
    """Return the objective of one router minus that of another, with an interval over time blocks."""
    key = [*ORDER, "seed", "block"]
    pair = [order_objectives(rows, config.risk.kappa).select(*key, "objective_bps") for rows in (one, other)]
    both = pair[0].join(pair[1], on=key, suffix="_other")
    gap = polars.col("objective_bps") - polars.col("objective_bps_other")
    gaps = both.group_by(*ORDER, "block").agg(gap=gap.mean()).sort(ORDER)
    values = np.where(np.abs(gaps["gap"].to_numpy()) < ROUNDING, 0.0, gaps["gap"].to_numpy())
    rng = np.random.default_rng(seed_stream(config.seed, "headroom"))
    return bootstrap_difference(values, time_block_numbers(gaps), rng)


HEADROOM_LEGEND = (
    "bps per judged order, fees and charge for risk included; fixed plan: the best fixed plan against the standard rule",
    "books: the best plan that sees the books against the best fixed plan, fitted on the judged days: an upper bound",
    "foresight: knowledge of future prices and hidden sizes beyond that, which nobody can learn",
    "estimated: volume beyond the recorded depth, at estimated prices",
)


def headroom_table(found: Sequence[HeadroomParts]) -> TextTable:
    """Return a table with one row per market, order size, deadline and risk profile; savings are in basis points."""
    header = ["market", "quantity", "seconds", "risk", "standard rule", "fixed plan", "books", "95 % CI", "foresight"]
    header += ["learning", "best fixed plan", "best with books", "estimated"]
    rows = []
    for one in found:
        interval = interval_text(one.seeing_low_bps, one.seeing_high_bps)
        rows.append(
            [
                *(one.named_market, one.size, f"{one.horizon:g}", one.risk.name),
                fixed_text(one.fixed_bps[one.standard], 3),
                *(fixed_text(saving, 3) for saving in (one.fixed_saving_bps, one.seeing_saving_bps)),
                *(interval, fixed_text(one.foresight_saving_bps, 3), one.learning if one.known else "no verdict"),
                *(one.best_fixed, "none better" if one.best_seeing == one.best_fixed else one.best_seeing),
                f"{one.estimated_share:.1%}",
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
    fixed, seeing, foresight = (
        _range([getattr(one, f"{part}_saving_bps") for one in found]) for part in ("fixed", "seeing", "foresight")
    )
    return (
        f"The best fixed plan saves {fixed} bps per order against {found[0].standard}; plans that see the books save at "
        f"most {seeing} bps more (fitted on the judged days); only foresight saves the other {foresight} bps"
    )


def _range(values: Sequence[float]) -> str:
    low, high = fixed_text(min(values)), fixed_text(max(values))
    return low if low == high else f"{low} to {high}"
