"""Slopes of regret against the lower bound.

The slope is the growth of mean steady regret from one horizon to another ten times as long, over the logarithm of ten.
Each horizon has separate runs, since some policies plan for it. The lower bound is that of
`riskroute.lower_bound`: the slope of a consistent policy cannot stay below it as the horizon grows. The
slope of a policy that explored mostly before the shorter horizon can be below the bound; the last column is the regret
at the longer horizon in units of the bound there.

The bound holds for policies that are consistent on every problem and have no prior on the coefficients. `adaptive`
plans for its horizon, eliminates rivals for good, and has a prior on the size of the coefficients. It is shown with and
without that prior; the bound is checked against the other policies.
"""

from __future__ import annotations

import math

from crowd import final_regret, mean_and_error, side_by_side
from riskroute import Policy, lower_bound, random_routing_problem
from riskroute.policies import Adaptive
from timing import leave, print_heading, print_table, say, sized, verdict

SIZES = sized(((4, 4), (4, 5), (6, 6), (8, 6)), ((3, 3),))
HORIZONS = sized((100_000, 1_000_000), (200, 400))
RUNS, SEEDS = sized(10, 2), sized(range(3), range(1))
POLICIES: dict[str, Policy | str] = {
    "adaptive": "adaptive",
    "nothing assumed": Adaptive(assumed_size=0),
    "thompson": "thompson",
    "rise++": "rise++",
    "rise": "rise",
    "risk-ucb": "risk-ucb",
}
CONSISTENT = ("thompson", "rise++", "rise", "risk-ucb")
"""Policies that never eliminate an action without certainty; the bound is checked against them."""


def _final(shares: int, slots: int, seed: int, horizon: int, policy: str) -> tuple[float, float]:
    problem = random_routing_problem(shares, slots, seed)
    return mean_and_error(final_regret(problem, {policy: POLICIES[policy]}, horizon, RUNS, seed=1)[policy])


def main() -> None:
    """Print the slopes."""
    print_heading("Slopes of regret against its lower bound", ["riskroute", "numpy", "scipy"])
    jobs = [
        (*size, seed, horizon, name) for size in SIZES for seed in SEEDS for name in POLICIES for horizon in HORIZONS
    ]
    ends = dict(zip(jobs, side_by_side(_final, jobs), strict=True))
    rows, certified, above = [], [], []
    for size in SIZES:
        for seed in SEEDS:
            bound = lower_bound(random_routing_problem(*size, seed))
            certified.append(abs(bound.certified_slope() / bound.slope - 1) < 1e-6)
            for name in POLICIES:
                (early, error), (late, later) = (ends[*size, seed, horizon, name] for horizon in HORIZONS)
                times = math.log(HORIZONS[1] / HORIZONS[0])
                slope, spread = (late - early) / times, math.hypot(error, later) / times
                where = f"{size[0]} shares, {size[1]} slots, instance {seed}"
                bar = [f"{bound.slope:,.0f} to {bound.reached:,.0f}", f"{slope:,.0f}", f"{spread:,.0f}"]
                rows.append(
                    [where, name, *bar, f"{slope / bound.slope:.2f}", f"{late / bound.regret(HORIZONS[1]):.2f}"]
                )
                if name in CONSISTENT:
                    above.append(slope + 3 * spread >= bound.slope)
    print_table(["problem", "policy", "bound", "slope", "s.e.", "slope / bound", "regret / bound"], rows, left=2)
    say(f"every bound is certified by its alternatives: {verdict(all(certified))}")
    text = f"the slope of {', '.join(CONSISTENT)} is above the bound, within three standard errors"
    say(f"{text}, in {sum(above)} of {len(above)} cases: {verdict(all(above))}")
    leave(certified, above)


if __name__ == "__main__":
    main()
