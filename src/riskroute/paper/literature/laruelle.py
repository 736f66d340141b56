"""Laruelle, Lehalle and Pages: orders that are larger than what pools hold, split by gradient and by reinforcement.

Three pools, of which the better ones hold more: fills save 1, 3 and 5 cents, sizes are log-normal with means 1, 2 and 3
and orders with mean 9, all with variance 1. The oracle knows what pools hold and fills the best first.

References
----------
Laruelle, Lehalle and Pages (2011), `Optimal split of orders across liquidity pools: a stochastic algorithm approach
<https://arxiv.org/abs/0910.1166>`_.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskroute.core.arrays import Matrix, Vector
from riskroute.core.seeding import seed_stream
from riskroute.paper.literature.statements import Statement
from riskroute.routers.literature.lagrangian import FLOOR_ROUNDS, lagrangian_step, reinforcement_step

SAVINGS = np.array([0.01, 0.03, 0.05])
MEANS = (1.0, 2.0, 3.0)
MEAN_ORDER = 9.0


@dataclass(frozen=True)
class LaruelleResult:
    """Shares that the two algorithms end with, part of the oracle's saving that splits have, and the statements."""

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
            f"least marginal saving of nothing sent {interior[0]:.4f}, greatest at a half {interior[1]:.4f}",
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
    """Sizes of orders ``(T,)`` and of what pools hold ``(T, 3)``."""

    def log_normal(mean: float) -> Vector:
        spread = np.log1p(1 / mean**2)
        return rng.lognormal(np.log(mean) - spread / 2, np.sqrt(spread), rounds)

    return log_normal(MEAN_ORDER), np.array([log_normal(mean) for mean in MEANS]).T


def split_saving(shares: Vector, orders: Vector, held: Matrix) -> float:
    """Mean saving of an order that is split so."""
    return float((SAVINGS * np.minimum(shares * orders[:, None], held)).sum(axis=1).mean())


def oracle_saving(orders: Vector, held: Matrix) -> float:
    """Mean saving of an order that fills the best pools first, knowing what they hold."""
    left, saved = orders, 0.0
    for k in np.argsort(-SAVINGS):
        filled = np.minimum(left, held[:, k])
        left, saved = left - filled, saved + float(SAVINGS[k] * filled.mean())
    return saved


def marginal_at_half(orders: Vector, held: Matrix) -> float:
    """The greatest marginal saving of a pool that gets half of every order."""
    return float((SAVINGS * (orders[:, None] * (orders[:, None] / 2 < held)).mean(axis=0)).max())


def play_lagrangian(orders: Vector, held: Matrix, step: float = 1.0) -> tuple[float, ...]:
    """Shares after all rounds of the optimisation algorithm."""
    shares, worth = [1 / 3] * 3, (SAVINGS / SAVINGS.max()).tolist()
    for n, (order, there) in enumerate(zip(orders.tolist(), held.tolist(), strict=True), start=1):
        full = [share * order < some for share, some in zip(shares, there, strict=True)]
        floor = 1 / 30 if n <= FLOOR_ROUNDS else 0.0
        shares = lagrangian_step(shares, full, worth, order / MEAN_ORDER, step / n, floor)
    return tuple(shares)


def play_reinforcement(orders: Vector, held: Matrix) -> tuple[float, ...]:
    """Shares after all rounds of reinforcement."""
    sums, shares, worth = [float(SAVINGS.max())] * 3, [1 / 3] * 3, SAVINGS.tolist()
    for order, there in zip(orders.tolist(), held.tolist(), strict=True):
        filled = [min(share * order, some) for share, some in zip(shares, there, strict=True)]
        sums, shares = reinforcement_step(sums, filled, worth)
    return tuple(shares)
