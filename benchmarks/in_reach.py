"""Decomposition of the regret of `adaptive`: runs with a wrong final action, prior assumptions, and learning.

On instances that the defaults of `adaptive` were tuned on, per problem of the paper's figure 2:

- *settled wrongly*: the fraction of runs whose final action is not the best one, and their fraction of the regret;
- the regret of `adaptive`, of its runs with the right final action, and of its median run;
- its regret without a prior on the size of coefficients;
- its regret when the coefficients of all variances, or of all means, are known, with the default prior on the others;
- the regret of its median run over the lower bound of `riskroute.lower_bound` at the horizon, on some of the instances.

Regrets are geometric means over instances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowd import geometric_mean, side_by_side
from riskroute import Belief, Policy, Problem, lower_bound, random_routing_problem, simulate
from riskroute.policies import Adaptive
from timing import leave, print_heading, print_table, say, sized

SIZES = sized(((4, 4), (4, 5), (6, 6), (8, 6)), ((3, 3),))
INSTANCES = range(100, sized(140, 102))
BOUNDED = range(100, sized(110, 101))
"""Instances whose lower bound is computed."""

HORIZON = sized(100_000, 200)
RUNS, TOLD_RUNS = sized((30, 10), (3, 2))
KNOWN = 1e9
"""Prior precision of known coefficients."""


class Found(NamedTuple):
    """Results on one instance: regrets, the fraction of runs that settled wrongly, and their fraction of the regret."""

    mean: float
    right: float
    median: float
    nothing_assumed: float
    told_variances: float
    told_means: float
    wrong: float
    wrong_part: float
    over_bound: float | None


def variants(problem: Problem) -> dict[str, Policy]:
    """Return `adaptive` without a prior on the size of coefficients, and with the coefficients of one kind known.

    Features have a norm of one at most and the base variance is one, so ``assumed`` is the default prior of `adaptive`.
    """
    dim = problem.actions.dim
    assumed, known, rounds = np.eye(dim), KNOWN * np.eye(dim), 2.0 * dim
    variances = Belief(np.zeros(dim), assumed, problem.var_coef, known, 1.0, rounds)
    means = Belief(problem.mean_coef, known, np.zeros(dim), assumed / 2, 1.0, rounds)
    return {
        "nothing": Adaptive(assumed_size=0),
        "variances": Adaptive(prior=variances),
        "means": Adaptive(prior=means),
    }


def look(shares: int, slots: int, seed: int) -> Found:
    """Play one instance; return its results."""
    problem = random_routing_problem(shares, slots, seed)
    played = simulate(problem, ["adaptive"], HORIZON, RUNS, seed=11, checkpoints=1).policies["adaptive"]
    regrets = played.steady_regret[:, -1]
    right = np.array([action == problem.best for action in played.recommended])
    known = simulate(problem, variants(problem), HORIZON, TOLD_RUNS, seed=11, checkpoints=1).policies
    nothing, variances, means = (
        known[label].steady_regret[:, -1].mean() for label in ("nothing", "variances", "means")
    )
    median = float(np.median(regrets))
    return Found(
        regrets.mean(),
        regrets[right].mean() if right.any() else regrets.mean(),
        median,
        nothing,
        variances,
        means,
        1 - right.mean(),
        regrets[~right].sum() / regrets.sum(),
        median / lower_bound(problem).regret(HORIZON) if seed in BOUNDED else None,
    )


def main() -> None:
    """Print one row per problem."""
    print_heading("Components of the regret", ["riskroute", "numpy", "scipy", "numba"])
    say(f"{len(INSTANCES)} instances each, {HORIZON:,} rounds, {RUNS} runs, {TOLD_RUNS} runs of each variant")
    found = side_by_side(look, [(*size, seed) for size in SIZES for seed in INSTANCES])
    each = len(INSTANCES)
    parts = {f"{size[0]} shares, {size[1]} slots": found[k * each : (k + 1) * each] for k, size in enumerate(SIZES)} | {
        "all": found
    }
    rows = []
    for label, some in parts.items():
        regrets = [geometric_mean([one[k] for one in some]) for k in range(6)]
        bounded = [one.over_bound for one in some if one.over_bound is not None]
        part = np.average([one.wrong_part for one in some], weights=[one.mean for one in some])
        wrong = f"{np.mean([one.wrong for one in some]):.1%} ({part:.0%})"
        rows.append([label, wrong, *(f"{regret:,.0f}" for regret in regrets), f"{geometric_mean(bounded):.2f}"])
    header = ["problem", "settled wrongly", "adaptive", "right", "median"]
    header += ["nothing assumed", "known variances", "known means"]
    print_table([*header, "median / bound"], rows)
    say("settled wrongly: fraction of runs, and in brackets their fraction of all regret")
    leave([])


if __name__ == "__main__":
    main()
