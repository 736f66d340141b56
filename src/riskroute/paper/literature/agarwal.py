"""Agarwal et al.: exponentiated gradient and Exp3 against Kaplan-Meier and the parametric fit, on pools that change.

Three settings of the paper: 48 pools that stay as they are, 2,000 rounds; two pools that swap places half-way of 25,000
rounds; five pools that do, with orders of 200 and of 400 units. Sizes are zero bins and power laws. The paper's pools
and its sizes of orders with 48 of them are not known to us, nor are its constants. What it shows for pools that swap
places comes out here; its ranking with 48 pools comes out in part, and is looked at for two sizes of orders. The fit,
which does not explore, gives up some pools for ever after bad luck, and the paper does not say how it began; `ExpGrad`
may send parts of units. Exp3, whose exploration grows with the units of an order, is ahead of Kaplan-Meier if orders
have one unit or so for a pool, and behind if they have several.

References
----------
Agarwal, Bartlett and Dama (2010), `Optimal Allocation Strategies for the Dark Pool Problem
<https://arxiv.org/abs/1003.2245>`_.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Floats, Units, Vector
from riskroute.core.seeding import seed_stream
from riskroute.paper.literature.statements import Pools, Statement, draw_paper_pools, draw_sizes
from riskroute.routers.literature.dark_allocation import greedy_units
from riskroute.routers.literature.expgrad import (
    draw_units,
    estimate_gradient,
    exp3_mixing,
    exp3_rate,
    expgrad_full_fills,
    expgrad_rate,
    softmax_weights,
)
from riskroute.routers.literature.kaplan_meier import fit_exponent, power_tails, theory_counts

TWO_POOLS: Pools = ((0.6, 0.1), (0.9, 1.2))
FIVE_POOLS: Pools = ((0.6, 0.1), (0.7, 0.4), (0.8, 0.7), (0.9, 1.0), (0.95, 1.2))
"""The best first; swapped, the best last."""

UNITS = 200
"""Of an order, where the paper does not say."""

FEW_UNITS = 50
"""Another size of orders over 48 pools: about one unit for each."""

MANY_POOLS = "48 pools"

METHODS = ("expgrad", "exp3", "parml", "optkm")


@dataclass(frozen=True)
class AgarwalResult:
    """Units filled a round by setting and method, and the statements.

    ``late`` is the last tenth of the rounds, and ``best`` what the best split of known pools fills on average.
    """

    filled: dict[str, dict[str, float]]
    late: dict[str, dict[str, float]]
    best: dict[str, float]
    statements: tuple[Statement, ...]


def remake_agarwal(*, quick: bool = False, seed: int = 0) -> AgarwalResult:
    """Play all methods in the settings of the paper; quickly, for fewer rounds."""
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
        tails = np.array([power_tails(empty, exponent, units) for empty, exponent in pools])
        split = greedy_units(tails, units)
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
            f"with many pools that stay the same, {more} fills more than {less}" + _units_told(name),
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


def _units_told(name: str) -> str:
    """The size of orders in words, where a setting is one of several with as many pools.

    >>> _units_told("48 pools, 50")
    ', orders of 50 units'
    """
    units = name.removeprefix(MANY_POOLS).removeprefix(", ")
    return f", orders of {units} units" if units else ""


def play_expgrad_constant(sizes: Units, units: int) -> Vector:
    """Units filled in every round by exponentiated gradient, orders all of one size, ``(T,)``.

    All units of an order then have the same weights.

    Examples
    --------
    >>> play_expgrad_constant(np.array([[4, 0], [4, 0]]), 2).round(4).tolist()
    [1.0, 1.334]
    """
    rounds, pools = sizes.shape
    rate, gradients, filled = expgrad_rate(pools, rounds), np.zeros((1, pools)), np.zeros(rounds)
    for t in range(rounds):
        parts = units * softmax_weights(rate, gradients)[0]
        filled[t] = np.minimum(parts, sizes[t]).sum()
        gradients[0] += expgrad_full_fills(parts, sizes[t])
    return filled


def play_exp3(sizes: Units, units: int, rng: np.random.Generator) -> Vector:
    """Units filled in every round by Exp3, ``(T,)``."""
    rounds, pools = sizes.shape
    rate = exp3_rate(pools, units, rounds)
    mixing = exp3_mixing(rate, units)
    gradients, filled = np.zeros((units, pools)), np.zeros(rounds)
    for t in range(rounds):
        drawn = draw_units(softmax_weights(rate, gradients), mixing, rng)
        got = np.minimum(drawn.units, sizes[t])
        filled[t] = got.sum()
        gradients += estimate_gradient(units, drawn.floors, drawn.units, got, drawn.chances, drawn.lower)
    return filled


def play_parml(sizes: Units, units: int, rng: np.random.Generator) -> Vector:
    """Units filled in every round by the parametric fit, made anew a hundred times per doubling, ``(T,)``."""
    rounds, pools = sizes.shape
    empty, some, logs = np.zeros(pools), np.zeros(pools), np.zeros(pools)
    full, tails, filled = np.zeros((pools, units)), np.ones((pools, units)), np.zeros(rounds)
    for t in range(rounds):
        sent = greedy_units(tails, units, rng)
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
                    tails[k] = power_tails(float(nothing), fit_exponent(some[k], logs[k], full[k], units), units)
    return filled


def play_optimistic(sizes: Units, units: int, rng: np.random.Generator) -> Vector:
    """Units filled in every round by Kaplan-Meier with the optimism of the theorem, ``(T,)``."""
    rounds, pools = sizes.shape
    needed = theory_counts(units, 1.0, 0.1)
    ended, tried = np.zeros((pools, units + 1)), np.zeros((pools, units + 1))
    filled, rows, places = np.zeros(rounds), np.arange(pools), np.arange(units + 1)
    for t in range(rounds):
        sent = greedy_units(_tails(ended, tried, needed), units, rng)
        got = np.minimum(sent, sizes[t])
        filled[t] = got.sum()
        tried += places < np.minimum(got + 1, sent)[:, None]
        ended[rows, got] += got < sent
    return filled


def _tails(ended: Floats, tried: Floats, needed: Floats) -> Floats:
    """Optimistic tails of all pools, ``(K, V)``."""
    hazards = ended[:, :-1] / np.maximum(tried[:, :-1], 1)
    tails = np.cumprod(1 - hazards, axis=1)
    enough = tried[:, :-1] >= needed
    rows = np.flatnonzero(~enough.all(axis=1))
    cut = enough.argmin(axis=1)[rows]
    tails[rows, cut] = np.where(cut > 0, tails[rows, np.maximum(cut - 1, 0)], 1.0)
    return np.asarray(tails, dtype=np.float64)
