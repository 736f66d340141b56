"""Reproduced experiments of the papers behind the routers, as far as possible without the authors' data.

Ganchev et al. (2009), `Censored Exploration and the Dark Pool Problem <https://arxiv.org/abs/1205.2646>`_; Agarwal et
al. (2010), `Optimal Allocation Strategies for the Dark Pool Problem <https://arxiv.org/abs/1003.2245>`_; Laruelle et
al. (2011), `Optimal split of orders across liquidity pools <https://arxiv.org/abs/0910.1166>`_; Cont and Kukanov
(2017), `Optimal order placement in limit order markets <https://doi.org/10.1080/14697688.2016.1190030>`_. Each paper's
statements are printed beside the measured values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import poisson

from placement import one_exchange_placement, overbooked_placement, placement_costs
from riskroute.core.arrays import Floats, Integers, Matrix, Units, Vector
from riskroute.core.seeding import seed_stream
from riskroute.routers.literature.cont_kukanov import _PlacementPrices, _stochastic_placement
from riskroute.routers.literature.dark_allocation import (
    _binned_tails,
    _count_fills,
    _fit_exponent,
    _greedy_units,
    _power_sizes,
    _power_tails,
    _theory_counts,
)
from riskroute.routers.literature.exponential_weights import (
    _draw_units,
    _estimate_gradient,
    _exp3_mixing,
    _exp3_rate,
    _expgrad_rate,
    _softmax_weights,
)
from riskroute.routers.literature.lagrangian import _FLOOR_ROUNDS, _lagrangian_step
from timing import leave, print_heading, print_table, progress, quick, say, verdict

Pools = tuple[tuple[float, float], ...]  # probability of being empty, exponent of sizes


@dataclass(frozen=True)
class Statement:
    """A statement of a paper, the measured value, and whether it holds."""

    name: str
    measured: str
    holds: bool


def draw_sizes(pools: Pools, rounds: int, largest: int, rng: np.random.Generator) -> Units:
    """Draw the sizes ``(rounds, K)`` that pools hold: nothing, or 1 .. ``largest`` units by a power law.

    Examples
    --------
    >>> draw_sizes(((0.5, 1.0), (1.0, 1.0)), 3, 10, np.random.default_rng(0)).shape
    (3, 2)
    """
    columns = [
        np.where(
            rng.random(rounds) < empty,
            0,
            1 + np.searchsorted(np.cumsum(_power_sizes(exponent, largest))[:-1], rng.random(rounds), side="right"),
        )
        for empty, exponent in pools
    ]
    return np.array(columns, dtype=np.int64).T


def draw_paper_pools(count: int, rng: np.random.Generator) -> Pools:
    """Draw pools in the ranges of Ganchev et al.: empty in 67 to 96 % of the cases, exponents of 0.25 to 1.3."""
    empty, exponents = rng.uniform(0.67, 0.96, count), rng.uniform(0.25, 1.3, count)
    return tuple(zip(empty.tolist(), exponents.tolist(), strict=True))


# Ganchev et al.: which model of a dark pool's size predicts fills best. The authors had the fills of 12 stocks in 4
# pools. Here pools are drawn from zero bins and power laws in the ranges they report, so the first model is the true
# one; the experiment measures what a model-free estimate costs with as few observations.


LARGEST = 100  # Units of the largest order and of the largest size

# Zero bin with a power law, zero bin with uniform sizes, and no model.
MODELS = ("power law", "uniform", "Kaplan-Meier")


@dataclass(frozen=True)
class GanchevResult:
    """Mean held-out log loss by model, the number of pools where each was best, and the statements."""

    pools: int
    losses: dict[str, float]
    best: dict[str, int]
    statements: tuple[Statement, ...]


def remake_ganchev(*, quick: bool = False, seed: int = 0) -> GanchevResult:
    """Fit all models to half of the fills of 48 pools, and compare their log losses on the other half.

    Examples
    --------
    >>> remake_ganchev(quick=True).pools
    12
    """
    rng = np.random.default_rng(seed_stream(seed, "ganchev"))
    count, rounds = (12, 400) if quick else (48, 1000)
    pools = draw_paper_pools(count, rng)
    losses = np.zeros((count, len(MODELS)))
    for k, pool in enumerate(pools):
        sizes = draw_sizes((pool,), rounds, LARGEST, rng)[:, 0]
        sent = rng.integers(1, LARGEST + 1, rounds)
        filled = np.minimum(sent, sizes)
        half = rounds // 2
        for m, tails in enumerate(_fitted(sent[:half], filled[:half])):
            losses[k, m] = log_loss(tails, sent[half:], filled[half:])
    mean = dict(zip(MODELS, losses.mean(axis=0).tolist(), strict=True))
    best = np.bincount(losses.argmin(axis=1), minlength=len(MODELS))
    first = MODELS[0]
    statements = (
        Statement(
            "zero bin and power law predicts fills better than Kaplan-Meier",
            f"log loss {mean[first]:.3f} against {mean['Kaplan-Meier']:.3f}; 0.484 against 0.872 in the paper",
            mean[first] < mean["Kaplan-Meier"],
        ),
        Statement(
            "zero bin and power law is the best model for more than half of the pools",
            f"{best[0]} of {count}; 28 of 48 in the paper",
            bool(best[0] > count / 2),
        ),
    )
    return GanchevResult(count, mean, dict(zip(MODELS, best.tolist(), strict=True)), statements)


def _fitted(sent: Integers, filled: Integers) -> tuple[Vector, Vector, Vector]:
    """Return the tails ``(LARGEST,)`` of each model, fitted to children."""
    known = filled[(filled > 0) & (filled < sent)]
    full = np.bincount(sent[filled == sent] - 1, minlength=LARGEST).astype(float)
    empty = float(np.mean(filled == 0))
    exponent = _fit_exponent(len(known), float(np.log(known).sum()), full, LARGEST)
    children = list(zip(sent.tolist(), filled.tolist(), strict=True))
    free = _binned_tails(*_count_fills(children), LARGEST)
    return _power_tails(empty, exponent, LARGEST), _power_tails(empty, 0.0, LARGEST), _smoothed(free, len(sent))


def _smoothed(tails: Vector, children: int) -> Vector:
    """Return tails with one pseudo-observation of a uniform size, so that no size has probability zero."""
    uniform = 1 - np.arange(1, LARGEST + 1) / (LARGEST + 1)
    return (children * tails + uniform) / (children + 1)


def log_loss(tails: Vector, sent: Integers, filled: Integers) -> float:
    """Return the mean log loss of the children's fills: minus the log probability of the sizes that agree with a fill.

    Examples
    --------
    >>> round(log_loss(np.array([0.5, 0.25]), np.array([1, 2]), np.array([1, 0])), 6)  # both have probability 1/2
    0.693147
    """
    at_least = np.concatenate([[1.0], tails, [0.0]])
    exactly = at_least[filled] - at_least[np.minimum(filled + 1, len(at_least) - 1)]
    chance = np.where(filled == sent, at_least[filled], exactly)
    return float(-np.log(np.maximum(chance, 1e-300)).mean())


# Agarwal et al.: exponentiated gradient and Exp3 against Kaplan-Meier and the parametric fit. Three settings: 48
# stationary pools; two pools that swap places half-way; five pools that swap places. The paper states neither its pools
# nor its constants. The parametric fit does not explore and may abandon a pool for good; ExpGrad may send fractions of
# units; Exp3 explores more with larger orders, so its rank against Kaplan-Meier depends on the order size.


TWO_POOLS: Pools = ((0.6, 0.1), (0.9, 1.2))
# The best first; swapped, the best last.
FIVE_POOLS: Pools = ((0.6, 0.1), (0.7, 0.4), (0.8, 0.7), (0.9, 1.0), (0.95, 1.2))

UNITS = 200  # Units of an order, where the paper does not state them

FEW_UNITS = 50  # Another order size over 48 pools: about one unit per pool

MANY_POOLS = "48 pools"

METHODS = ("expgrad", "exp3", "parml", "optkm")


@dataclass(frozen=True)
class AgarwalResult:
    """Units filled per round by setting and method, and the statements.

    ``late`` has the means over the last tenth of the rounds, ``best`` the mean fill of the best split of known pools.
    """

    filled: dict[str, dict[str, float]]
    late: dict[str, dict[str, float]]
    best: dict[str, float]
    statements: tuple[Statement, ...]


def remake_agarwal(*, quick: bool = False, seed: int = 0) -> AgarwalResult:
    """Run all methods in the settings of the paper; quick runs have fewer rounds."""
    rng = np.random.default_rng(seed_stream(seed, "agarwal"))
    rounds_still, rounds_swapped = (150, 1000) if quick else (2000, 25_000)
    settings: dict[str, tuple[Pools, int, int, bool]] = {
        MANY_POOLS: (draw_paper_pools(48, rng), UNITS, rounds_still, False),
        "two pools": (TWO_POOLS, UNITS, rounds_swapped, True),
        "five pools, 200": (FIVE_POOLS, UNITS, rounds_swapped, True),
    }
    if not quick:
        settings["five pools, 400"] = (FIVE_POOLS, 400, rounds_swapped, True)
        settings[f"{MANY_POOLS}, {FEW_UNITS}"] = (settings[MANY_POOLS][0], FEW_UNITS, rounds_still, False)
    filled: dict[str, dict[str, float]] = {}
    late: dict[str, dict[str, float]] = {}
    best: dict[str, float] = {}
    for name, (pools, units, rounds, swapped) in settings.items():
        sizes = draw_sizes(pools, rounds, units, rng)
        if swapped:
            sizes[rounds // 2 :] = sizes[rounds // 2 :, ::-1]
        tails = np.array([_power_tails(empty, exponent, units) for empty, exponent in pools])
        split = _greedy_units(tails, units)
        best[name] = float(sum(tail[:some].sum() for tail, some in zip(tails, split, strict=True)))
        got = {
            "expgrad": play_expgrad_constant(sizes, units),
            "exp3": play_exp3(sizes, units, rng),
            "parml": play_parml(sizes, units, rng),
            "optkm": play_optimistic(sizes, units, rng),
        }
        filled[name] = {method: float(some.mean()) for method, some in got.items()}
        late[name] = {method: float(some[-rounds // 10 :].mean()) for method, some in got.items()}
    return AgarwalResult(filled, late, best, _statements(filled, late, best))


def _statements(
    filled: dict[str, dict[str, float]], late: dict[str, dict[str, float]], best: dict[str, float]
) -> tuple[Statement, ...]:
    def said(numbers: dict[str, float], name: str) -> str:
        listed = ", ".join(f"{method} {numbers[method]:.2f}" for method in METHODS)
        return f"{name}: {listed} units a round; best {best[name]:.2f}"

    ranked = [
        Statement(
            f"with many pools that stay the same, {more} fills more than {less}" + _order_size(name),
            said(still, name),
            still[more] > still[less],
        )
        for name, still in filled.items()
        for more, less in (("parml", "expgrad"), ("expgrad", "exp3"), ("exp3", "optkm"))
        if name.startswith(MANY_POOLS)
    ]
    for name, numbers in late.items():
        if not name.startswith(MANY_POOLS):
            slow = max(numbers["parml"], numbers["optkm"])
            ranked.append(
                Statement(
                    "when pools have swapped places, expgrad and exp3 follow, parml and optkm do not",
                    said(numbers, name),
                    min(numbers["expgrad"], numbers["exp3"]) > slow,
                )
            )
    return tuple(ranked)


def _order_size(name: str) -> str:
    """Return the order size in words for settings that differ only in order size.

    >>> _order_size("48 pools, 50")
    ', orders of 50 units'
    """
    units = name.removeprefix(MANY_POOLS).removeprefix(", ")
    return f", orders of {units} units" if units else ""


def reinforcement_step(
    sums: Sequence[float], filled: Sequence[float], worth: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Return the cumulative savings of the pools after a round, and their shares of the next order.

    Examples
    --------
    >>> reinforcement_step([1.0, 1.0], [2.0, 0.0], [0.5, 1.0])
    ([2.0, 1.0], [0.6666666666666666, 0.3333333333333333])
    """
    after = [before + fill * value for before, fill, value in zip(sums, filled, worth, strict=True)]
    total = sum(after)
    return after, [some / total for some in after]


def play_expgrad_constant(sizes: Units, units: int) -> Vector:
    """Return the units ``(T,)`` that exponentiated gradient fills in every round, with orders of one size.

    All units of an order then have the same weights.

    Examples
    --------
    >>> play_expgrad_constant(np.array([[4, 0], [4, 0]]), 2).round(4).tolist()
    [1.0, 1.334]
    """
    rounds, pools = sizes.shape
    rate, gradients, filled = _expgrad_rate(pools, rounds), np.zeros((1, pools)), np.zeros(rounds)
    for t in range(rounds):
        parts = units * _softmax_weights(rate, gradients)[0]
        filled[t] = np.minimum(parts, sizes[t]).sum()
        gradients[0] += (sizes[t] >= parts).astype(float)
    return filled


def play_exp3(sizes: Units, units: int, rng: np.random.Generator) -> Vector:
    """Return the units ``(T,)`` that Exp3 fills in every round."""
    rounds, pools = sizes.shape
    rate = _exp3_rate(pools, units, rounds)
    mixing = _exp3_mixing(rate, units)
    gradients, filled = np.zeros((units, pools)), np.zeros(rounds)
    for t in range(rounds):
        drawn = _draw_units(_softmax_weights(rate, gradients), mixing, rng)
        got = np.minimum(drawn.units, sizes[t])
        filled[t] = got.sum()
        gradients += _estimate_gradient(units, drawn.floors, drawn.units, got, drawn.chances, drawn.lower)
    return filled


def play_parml(sizes: Units, units: int, rng: np.random.Generator) -> Vector:
    """Return the units ``(T,)`` that the parametric fit fills in every round, refitted a hundred times per doubling."""
    rounds, pools = sizes.shape
    empty, some, logs = np.zeros(pools), np.zeros(pools), np.zeros(pools)
    full, tails, filled = np.zeros((pools, units)), np.ones((pools, units)), np.zeros(rounds)
    for t in range(rounds):
        sent = _greedy_units(tails, units, rng)
        got = np.minimum(sent, sizes[t])
        filled[t] = got.sum()
        tried, whole = sent > 0, got == sent
        empty += tried & (got == 0)
        known = tried & ~whole & (got > 0)
        some += known
        logs += np.where(known, np.log(np.maximum(got, 1)), 0.0)
        at = np.flatnonzero(tried & whole)
        full[at, sent[at] - 1] += 1
        if t % max(t // 100, 1) == 0:
            for k in range(pools):
                children = empty[k] + some[k] + full[k].sum()
                if children:
                    nothing = min(empty[k] / children, (children + 1) / (children + 2))
                    tails[k] = _power_tails(float(nothing), _fit_exponent(some[k], logs[k], full[k], units), units)
    return filled


def play_optimistic(sizes: Units, units: int, rng: np.random.Generator) -> Vector:
    """Return the units ``(T,)`` that Kaplan-Meier with the theorem's optimism fills in every round."""
    rounds, pools = sizes.shape
    needed = _theory_counts(units, 1.0, 0.1)
    ended, tried = np.zeros((pools, units + 1)), np.zeros((pools, units + 1))
    filled, rows, places = np.zeros(rounds), np.arange(pools), np.arange(units + 1)
    for t in range(rounds):
        sent = _greedy_units(_tails(ended, tried, needed), units, rng)
        got = np.minimum(sent, sizes[t])
        filled[t] = got.sum()
        tried += places < np.minimum(got + 1, sent)[:, None]
        ended[rows, got] += got < sent
    return filled


def _tails(ended: Floats, tried: Floats, needed: Floats) -> Floats:
    """Return optimistic tails ``(K, V)`` of all pools."""
    hazards = ended[:, :-1] / np.maximum(tried[:, :-1], 1)
    tails = np.cumprod(1 - hazards, axis=1)
    enough = tried[:, :-1] >= needed
    rows = np.flatnonzero(~enough.all(axis=1))
    cut = enough.argmin(axis=1)[rows]
    tails[rows, cut] = np.where(cut > 0, tails[rows, np.maximum(cut - 1, 0)], 1.0)
    return np.asarray(tails, dtype=np.float64)


# Laruelle, Lehalle and Pages: orders larger than what pools hold, split by stochastic gradient and by reinforcement.
# Three pools: fills save 1, 3 and 5 cents, sizes are log-normal with means 1, 2 and 3, orders with mean 9, all with
# variance 1. The oracle knows what pools hold and fills the best first.


SAVINGS = np.array([0.01, 0.03, 0.05])
MEANS = (1.0, 2.0, 3.0)
MEAN_ORDER = 9.0


@dataclass(frozen=True)
class LaruelleResult:
    """Final splits of the two algorithms, their fraction of the oracle's saving, and the statements."""

    rounds: int
    shares: dict[str, tuple[float, ...]]
    performance: dict[str, float]
    statements: tuple[Statement, ...]


def remake_laruelle(*, quick: bool = False, seed: int = 0) -> LaruelleResult:
    """Play both algorithms in the shortage setting.

    Examples
    --------
    >>> found = remake_laruelle(quick=True)
    >>> found.performance["even"] < found.performance["lagrangian"] < 1
    True
    """
    rng = np.random.default_rng(seed_stream(seed, "laruelle"))
    rounds = 10_000 if quick else 100_000
    orders, held = draw_shortage(rounds, rng)
    shares = {
        "lagrangian": play_lagrangian(orders, held),
        "reinforcement": play_reinforcement(orders, held),
        "even": (1 / 3, 1 / 3, 1 / 3),
    }
    later = draw_shortage(100_000, rng)
    most = oracle_saving(*later)
    performance = {name: split_saving(np.array(some), *later) / most for name, some in shares.items()}
    order = ("lagrangian", "reinforcement", "even")
    measured = ", ".join(f"{name} {performance[name]:.1%}" for name in order)
    interior = float(SAVINGS.min()) * MEAN_ORDER, marginal_at_half(*later)
    statements = (
        Statement(
            "all pools are worth using",
            f"smallest marginal saving at zero shares {interior[0]:.4f}, largest at half an order {interior[1]:.4f}",
            interior[0] > interior[1],
        ),
        Statement(
            "the optimisation algorithm saves more than reinforcement, reinforcement more than an even split",
            f"{measured} of the oracle's saving",
            performance[order[0]] > performance[order[1]] > performance[order[2]],
        ),
        Statement(
            "reinforcement lets the pool that saves least die out, the optimisation algorithm does not",
            f"its share is {shares['reinforcement'][0]:.3f} and {shares['lagrangian'][0]:.3f}",
            shares["reinforcement"][0] < 0.02 < 0.08 < shares["lagrangian"][0],
        ),
    )
    return LaruelleResult(rounds, shares, performance, statements)


def draw_shortage(rounds: int, rng: np.random.Generator) -> tuple[Vector, Matrix]:
    """Draw order sizes ``(T,)`` and hidden sizes ``(T, 3)`` of pools."""

    def log_normal(mean: float) -> Vector:
        spread = np.log1p(1 / mean**2)
        return rng.lognormal(np.log(mean) - spread / 2, np.sqrt(spread), rounds)

    return log_normal(MEAN_ORDER), np.array([log_normal(mean) for mean in MEANS]).T


def split_saving(shares: Vector, orders: Vector, held: Matrix) -> float:
    """Return the mean saving of an order under a split."""
    return float((SAVINGS * np.minimum(shares * orders[:, None], held)).sum(axis=1).mean())


def oracle_saving(orders: Vector, held: Matrix) -> float:
    """Return the mean saving of an order that fills the best pools first with perfect foresight."""
    left, saved = orders, 0.0
    for k in np.argsort(-SAVINGS):
        filled = np.minimum(left, held[:, k])
        left, saved = left - filled, saved + float(SAVINGS[k] * filled.mean())
    return saved


def marginal_at_half(orders: Vector, held: Matrix) -> float:
    """Return the largest marginal saving of a pool that gets half of every order."""
    return float((SAVINGS * (orders[:, None] * (orders[:, None] / 2 < held)).mean(axis=0)).max())


def play_lagrangian(orders: Vector, held: Matrix, step: float = 1.0) -> tuple[float, ...]:
    """Return the split after all rounds of the optimisation algorithm."""
    shares, worth = [1 / 3] * 3, (SAVINGS / SAVINGS.max()).tolist()
    for n, (order, there) in enumerate(zip(orders.tolist(), held.tolist(), strict=True), start=1):
        full = [share * order < some for share, some in zip(shares, there, strict=True)]
        floor = 1 / 30 if n <= _FLOOR_ROUNDS else 0.0
        shares = _lagrangian_step(shares, full, worth, order / MEAN_ORDER, step / n, floor)
    return tuple(shares)


def play_reinforcement(orders: Vector, held: Matrix) -> tuple[float, ...]:
    """Return the split after all rounds of reinforcement."""
    sums, shares, worth = [float(SAVINGS.max())] * 3, [1 / 3] * 3, SAVINGS.tolist()
    for order, there in zip(orders.tolist(), held.tolist(), strict=True):
        filled = [min(share * order, some) for share, some in zip(shares, there, strict=True)]
        sums, shares = reinforcement_step(sums, filled, worth)
    return tuple(shares)


# Cont and Kukanov: 1,000 shares to buy, 2,000 ahead in the queue, a Poisson outflow of 2,200. The half-spread is 2
# cents, taking costs 0.3, a fill earns 0.2, a missing share costs 2.6 and a surplus share 2.4 cents.


SHARES, QUEUE, OUTFLOW = 1000, 2000, 2200
PRICES = _PlacementPrices(0.02, 0.003, (0.002,), under=0.026, over=0.024)
IMPACT = 0.0005  # Dollars per share sent, in the examples with impact

UNDER = (0.024, 0.026, 0.03, 0.05, 0.1)
QUEUES = (1950, 2000, 2050, 2100)


@dataclass(frozen=True)
class ContKukanovResult:
    """Results of the example.

    Parameters
    ----------
    placement : tuple[int, int]
        Shares taken and posted with one exchange, exactly.
    costs : dict[str, float]
        Mean cost in dollars of that placement, of taking all and of posting all.
    found : tuple[float, float]
        Shares taken and posted by stochastic approximation.
    by_under, by_queue : dict[float, int]
        Shares posted by the price of a missing share, and by the shares in the queue.
    two : tuple[float, float, float]
        Shares taken and posted at two exchanges, with impact, by stochastic approximation.
    statements : tuple[Statement, ...]
        Statements of the paper about the example.
    """

    placement: tuple[int, int]
    costs: dict[str, float]
    found: tuple[float, float]
    by_under: dict[float, int]
    by_queue: dict[int, int]
    two: tuple[float, float, float]
    statements: tuple[Statement, ...]


def remake_cont_kukanov(*, quick: bool = False, seed: int = 0) -> ContKukanovResult:
    """Solve the example exactly and by stochastic approximation, and vary it.

    Examples
    --------
    >>> found = remake_cont_kukanov(quick=True)
    >>> found.placement, round(found.costs["placed"], 3)
    ((728, 272), 14.278)
    >>> all(one.holds for one in found.statements)
    True
    """
    steps = 50_000 if quick else 1_000_000
    rng = np.random.default_rng(seed_stream(seed, "cont and kukanov"))
    placement = _exact(PRICES)
    costs = {
        "placed": mean_cost(*placement, PRICES),
        "all taken": mean_cost(SHARES, 0, PRICES),
        "all posted": mean_cost(0, SHARES, PRICES),
    }
    outflows = rng.poisson(OUTFLOW, (steps // 2, 2)).astype(np.float64)
    one = _stochastic_placement(PRICES.problem(SHARES, np.array([float(QUEUE)]), outflows[:, :1]), steps)
    pair = dataclasses.replace(PRICES, rebates=PRICES.rebates * 2, impact=IMPACT)
    queues = np.full(2, float(QUEUE))
    two = overbooked_placement(pair.problem(SHARES, queues, outflows), steps)
    by_under = {under: _exact(dataclasses.replace(PRICES, under=under))[1] for under in UNDER}
    by_queue = {queue: _exact(PRICES, queue)[1] for queue in QUEUES}
    impact = _exact(dataclasses.replace(PRICES, impact=IMPACT))
    later = rng.poisson(OUTFLOW, (50_000, 2)).astype(np.float64)
    summed = _stochastic_placement(pair.problem(SHARES, queues, outflows), steps)
    booked, alone = (
        float(placement_costs(SHARES, split[0], split[1:], queues, later, pair).mean()) for split in (two, summed)
    )
    statements = (
        _said("one exchange: 728 shares are taken and 272 posted", f"{placement}", placement == (728, 272)),
        _said(
            "a mix costs less than market or limit orders alone",
            ", ".join(f"{name} {cost:.3f}" for name, cost in costs.items()),
            costs["placed"] < min(costs["all taken"], costs["all posted"]),
        ),
        _said(
            "stochastic approximation finds this split: its mean cost is within a cent",
            f"({one[0]:.0f}, {one[1]:.0f}), {mean_cost(one[0], one[1], PRICES):.3f}",
            mean_cost(one[0], one[1], PRICES) < costs["placed"] + 0.01,
        ),
        _said("an impact moves shares to market orders", f"{impact}", impact[0] > placement[0]),
        _said(
            "the more a missing share costs, the less is posted",
            ", ".join(f"{100 * under:g} cents: {limit}" for under, limit in by_under.items()),
            all(np.diff(list(by_under.values())) < 0),
        ),
        _said(
            "every share added to the queue takes one off the limit order",
            ", ".join(f"{queue:,}: {limit}" for queue, limit in by_queue.items()),
            len({queue + limit for queue, limit in by_queue.items()}) == 1,
        ),
        _said(
            "with two exchanges the shares sent exceed the order",
            f"({two[0]:.0f}, {two[1]:.0f}, {two[2]:.0f})",
            float(two.sum()) > SHARES + 20,
        ),
        _said(
            "a second exchange more than halves the cost",
            f"{booked:.3f}, without overbooking {alone:.3f}",
            booked < costs["placed"] / 2 and booked <= alone,
        ),
    )
    market, limit = one.tolist()
    taken, first, second = two.tolist()
    return ContKukanovResult(placement, costs, (market, limit), by_under, by_queue, (taken, first, second), statements)


def mean_cost(market: float, limit: float, prices: _PlacementPrices) -> float:
    """Return the mean cost in dollars with one exchange, summed over the distribution."""
    outflows, chances = _distribution()
    costs = placement_costs(SHARES, market, np.array([limit]), np.array([float(QUEUE)]), outflows, prices)
    return float(chances @ costs)


def _distribution() -> tuple[Floats, Floats]:
    """Return outflows ``(n, 1)`` within 20 standard deviations and their probabilities ``(n,)``."""
    outflows = np.arange(OUTFLOW - 1000, OUTFLOW + 1001)
    return outflows[:, None].astype(np.float64), poisson(OUTFLOW).pmf(outflows)


def _exact(prices: _PlacementPrices, queue: int = QUEUE) -> tuple[int, int]:
    return one_exchange_placement(SHARES, queue, poisson(OUTFLOW).cdf, prices)


def _said(name: str, measured: str, holds: bool) -> Statement:
    return Statement(name, measured, bool(holds))


PAPERS: dict[str, Callable[..., Any]] = {
    "Ganchev et al. (2009)": remake_ganchev,
    "Agarwal et al. (2010)": remake_agarwal,
    "Laruelle et al. (2011)": remake_laruelle,
    "Cont and Kukanov (2017)": remake_cont_kukanov,
}


def main() -> None:
    """Reproduce every paper's experiments and print which statements hold."""
    print_heading("Experiments of the literature", ["riskroute", "numpy", "scipy"])
    rows = []
    for paper, remake in PAPERS.items():
        rows += [[paper, one.name, one.measured, verdict(one.holds)] for one in remake(quick=quick()).statements]
        progress(f"{paper}: done")
    print_table(["paper", "statement", "measured here", ""], rows, left=4)
    say(f"{sum(row[-1] == verdict(True) for row in rows)} of {len(rows)} statements hold here")
    leave([])


if __name__ == "__main__":
    main()
