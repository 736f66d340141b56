"""Regret of `adaptive` and `thompson` on random action sets, by risk tolerance, horizon and dimension.

Gaussian action sets, scaled to norm one, with random coefficients of norm one. Every cell of the grid has its own
instances; `adaptive` was tuned on none of them. Both policies play the same number of runs on each. *Behind* is the
regret of `adaptive` minus that of `thompson`, in standard errors over runs and instances; negative is better.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from crowd import final_regret, geometric_mean, mean_and_error, side_by_side
from riskroute import Actions, Problem, random_problem
from timing import leave, print_heading, print_table, say, sized, verdict

SETS = sized(((4, 200), (10, 1000), (20, 5000)), ((3, 20),))
"""Dimensions and numbers of actions."""

TOLERANCES = (0.2, 2.0, 10.0)
HORIZONS = sized((5_000, 50_000, 500_000), (40, 80))
INSTANCES, RUNS = range(sized(8, 1)), sized(6, 2)
POLICIES = ("adaptive", "thompson")
MOST = 2.0
"""Largest accepted *behind*, in standard errors."""


class Cell(NamedTuple):
    """One cell of the grid."""

    dim: int
    size: int
    risk_tolerance: float
    horizon: int

    def problem(self, seed: int) -> Problem:
        """Draw an instance."""
        rows = np.random.default_rng([self.dim, self.size, seed]).standard_normal((self.size, self.dim))
        return random_problem(Actions.scaled(rows), seed, risk_tolerance=self.risk_tolerance)


def _ends(cell: Cell, seed: int) -> tuple[tuple[float, float], ...]:
    found = final_regret(cell.problem(seed), {name: name for name in POLICIES}, cell.horizon, RUNS, seed)
    return tuple(mean_and_error(found[name]) for name in POLICIES)


def main() -> None:
    """Print the grid."""
    print_heading("Adaptive beside Thompson sampling", ["riskroute", "numpy", "scipy", "numba"])
    say(f"{len(INSTANCES)} instances of every cell, {RUNS} runs")
    grid = [Cell(*one, rho, rounds) for one, rho, rounds in itertools.product(SETS, TOLERANCES, HORIZONS)]
    jobs = [(cell, seed) for cell in grid for seed in INSTANCES]
    ends = np.array(side_by_side(_ends, jobs)).reshape(len(grid), len(INSTANCES), len(POLICIES), 2)
    rows, behind, ratios = [], [], []
    for cell, found in zip(grid, ends, strict=True):
        means = found[..., 0].mean(axis=0)
        error = np.sqrt((found[..., 1] ** 2).sum()) / len(INSTANCES)
        behind.append((means[0] - means[1]) / error)
        ratios.append(means[1] / means[0])
        place = [str(cell.dim), f"{cell.size:,}", f"{cell.risk_tolerance:g}", f"{cell.horizon:,}"]
        regrets = [f"{means[0]:,.0f}", f"{means[1]:,.0f}", f"{ratios[-1]:.2f}", f"{behind[-1]:+.1f}"]
        rows.append([*place, *regrets, verdict(behind[-1] <= MOST)])
    print_table(["dimension", "actions", "tolerance", "rounds", *POLICIES, "ratio", "behind", ""], rows)
    say(f"thompson / adaptive: geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    held = [bool(one <= MOST) for one in behind]
    say(f"adaptive is at most two standard errors behind in {sum(held)} of {len(held)} cells: {verdict(all(held))}")
    leave([], held)


if __name__ == "__main__":
    main()
