"""Rejected variants of the recommended policy: regret on 8 instances outside the evidence.

Per problem of the paper's figure 2 (100,000 rounds, 4 runs): the geometric mean over instances of the steady regret,
and the worst instance. A variant is better if its geometric mean over all four problems is lower, unless its worst
cases are much worse.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crowd import final_regret, geometric_mean, side_by_side
from riskroute import Belief, Policy, random_routing_problem
from riskroute.core.arrays import Matrix
from riskroute.policies import Adaptive, Greedy, Thompson
from timing import leave, print_heading, print_table, say, sized

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from naive_duel import NaiveDuel

SIZES = sized(((4, 4), (4, 5), (6, 6), (8, 6)), ((3, 3),))
INSTANCES = range(100, sized(108, 101))
HORIZON, RUNS = sized(100_000, 200), sized(4, 1)


class ExploreFirst(NaiveDuel):
    """Explores in every round while any rival is worth its cost, with the rival of the highest worth per cost."""

    def mixture(self) -> tuple[int, float]:
        """Return the rival and its fraction of the rounds, one."""
        _, worth = self.worth()
        pays = self.allowed & (self.rounds * worth > self.costs)
        if not pays.any():
            return 0, 0.0
        return int(np.argmax(np.where(pays, worth / (self.costs + self.loss), -1.0))), 1.0


class AsOftenAsWrong(ExploreFirst):
    """Explores with a bound on the probability that the likeliest rival is better than the leader."""

    def mixture(self) -> tuple[int, float]:
        """Return the rival and its fraction of the rounds."""
        rival, part = super().mixture()
        squared = np.einsum("ij,jk,ik->i", self.apart, self.covariance, self.apart)[1:]
        behind = self.behind[1:] / np.sqrt(np.maximum(squared, 1e-300))
        return rival, part * float(np.exp(-(behind**2) / 2).max(initial=0.0)) / 2


class WorthNow(NaiveDuel):
    """Eliminates rivals by their current worth."""

    def worth(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the current worth twice, the second time in place of its average."""
        now, _ = super().worth()
        return now, now


class Sure(NaiveDuel):
    """Applies no caution to posterior variances estimated from few rewards."""

    caution = property(lambda self: 0.0, lambda self, value: None)


DUELS = {"first": ExploreFirst, "often": AsOftenAsWrong, "now": WorthNow, "sure": Sure}


@dataclass(kw_only=True)
class Variant(Adaptive):
    """The recommended policy with one part replaced."""

    name: ClassVar[str] = "variant"

    kind: str = ""

    def duel(self, belief: Belief, features: Matrix, loss: float) -> NaiveDuel:
        """Return the duel with the replaced part."""
        duel = DUELS.get(self.kind, NaiveDuel)(self, belief, features, loss)
        if self.kind == "gap only":
            duel.costs = duel.behind
        return duel


VARIANTS: dict[str, Policy] = {
    "adaptive": Adaptive(),
    "Thompson sampling": Thompson(),
    "Thompson sampling, 0.7 wide": Thompson(width=0.7),
    "Thompson sampling, 0.5 wide": Thompson(width=0.5),
    "no exploration after the start": Greedy(),
    "explore first, then commit": Variant(kind="first"),
    "explore as often as the leader seems wrong": Variant(kind="often"),
    "out by the worth now, not on average": Variant(kind="now", patience=0.06),
    "no caution about few rewards": Variant(kind="sure"),
    "never out: no test of worth": Adaptive(patience=1e12),
    "patience 0.01": Adaptive(patience=0.01),
    "patience 1": Adaptive(patience=1.0),
    "cost without the spread of means": Variant(kind="gap only"),
    "belief refreshed after 20 %": Adaptive(growth=0.2),
    "half the draws": Adaptive(draws=64),
    "one portion": Adaptive(portions=1),
    "start with 4 rounds per dimension": Adaptive(start_rounds=4),
}


def main() -> None:
    """Print one row per variant."""
    print_heading("Variants", ["riskroute", "numpy", "scipy", "numba"])
    jobs = [(random_routing_problem(*size, i), VARIANTS, HORIZON, RUNS, 2) for size in SIZES for i in INSTANCES]
    found = side_by_side(final_regret, jobs)
    rows = []
    for label in VARIANTS:
        means = np.array([one[label].mean() for one in found]).reshape(len(SIZES), -1)
        cells = [f"{geometric_mean(row):,.0f} ({row.max():,.0f})" for row in means]
        rows.append([label, f"{geometric_mean(means.ravel()):,.0f}", *cells])
    print_table(["variant", "all", *(f"{shares} over {slots}" for shares, slots in SIZES)], rows)
    say("geometric mean of the final regret, and in brackets the worst instance")
    leave([])


if __name__ == "__main__":
    main()
