"""Ganchev et al.: which model of a dark pool's size predicts fills best, on pools in the ranges that they found.

The authors had fills of 12 stocks in 4 pools, 48 pairs. Zero bin and power law had a held-out log loss of 0.484 against
0.872 for the Kaplan-Meier estimate, and was the best model for 28 of the 48 pairs. Their data are not public; pools are
drawn here from zero bins and power laws in the ranges that they report, so that the first model is the true one, and
what is shown is how much an estimate without a model costs with as few observations.

References
----------
Ganchev, Nevmyvaka, Kearns and Vaughan (2009), `Censored Exploration and the Dark Pool Problem
<https://arxiv.org/abs/1205.2646>`_.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Integers, Vector
from riskroute.core.seeding import seed_stream
from riskroute.paper.literature.statements import Statement, draw_paper_pools, draw_sizes
from riskroute.routers.literature.kaplan_meier import binned_tails, count_fills, fit_exponent, power_tails

LARGEST = 100
"""Units of the largest order and of the largest size."""

MODELS = ("power law", "uniform", "Kaplan-Meier")
"""Zero bin and power law, zero bin and uniform sizes, and no model."""


@dataclass(frozen=True)
class GanchevResult:
    """Mean held-out log loss by model, in how many pools each was best, and the statements."""

    pools: int
    losses: dict[str, float]
    best: dict[str, int]
    statements: tuple[Statement, ...]


def remake_ganchev(*, quick: bool = False, seed: int = 0) -> GanchevResult:
    """Fit all models to the fills of 48 pools, half of them held out, and compare their log losses.

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
    """Tails ``(LARGEST,)`` of each model, fitted to children."""
    known = filled[(filled > 0) & (filled < sent)]
    full = np.bincount(sent[filled == sent] - 1, minlength=LARGEST).astype(float)
    empty = float(np.mean(filled == 0))
    exponent = fit_exponent(len(known), float(np.log(known).sum()), full, LARGEST)
    children = list(zip(sent.tolist(), filled.tolist(), strict=True))
    free = binned_tails(*count_fills(children), LARGEST)
    return power_tails(empty, exponent, LARGEST), power_tails(empty, 0.0, LARGEST), _smoothed(free, len(sent))


def _smoothed(tails: Vector, children: int) -> Vector:
    """Tails with one observation of a uniform size added, so that nothing is impossible."""
    uniform = 1 - np.arange(1, LARGEST + 1) / (LARGEST + 1)
    return (children * tails + uniform) / (children + 1)


def log_loss(tails: Vector, sent: Integers, filled: Integers) -> float:
    """Mean of minus the logarithm of the probability of what children got, of all sizes that agree with it.

    Examples
    --------
    >>> round(log_loss(np.array([0.5, 0.25]), np.array([1, 2]), np.array([1, 0])), 6)  # both have probability 1/2
    0.693147
    """
    at_least = np.concatenate([[1.0], tails, [0.0]])
    exactly = at_least[filled] - at_least[np.minimum(filled + 1, len(at_least) - 1)]
    chance = np.where(filled == sent, at_least[filled], exactly)
    return float(-np.log(np.maximum(chance, 1e-300)).mean())
