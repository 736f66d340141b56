"""Speed of the runner.

1. The four policies of the paper's second figure, as `riskroute.simulation.policy_comparison.compare_policies` runs
   them: 8 shares over 6 slots (1,287 actions), 100,000 rounds, 50 runs each, in one process, after a warm-up that
   compiles everything. Target: at most 5 seconds together, as the median of the repeats. The recommended policy is
   timed in the same repeats; its target is 25 milliseconds per run, on one core.
2. The compiled kernel of RiskUCB, whose tournament tree makes a round cost ``log2 K`` comparisons, next to a compiled
   kernel that scans all K indices every round and is otherwise the same. Both play the same episode, and the script
   checks that they choose the same arms. The first K rounds, in which every arm is played once, are excluded: an
   episode of these rounds alone is timed too, and subtracted.
"""

from __future__ import annotations

import statistics
import time
from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from riskroute import Environment, random_routing_problem
from riskroute.learning.tally import merge_moments_compiled
from riskroute.policies import RiskUcb
from riskroute.simulation.policy_comparison import PAPER_POLICIES, compare_policies
from riskroute.simulation.runner import _index_episode
from timing import REPEATS, duration, interleaved, leave, print_heading, print_table, progress, say, sized, verdict

SHARES, SLOTS, HORIZON, RUNS = 8, 6, sized(100_000, 3000), sized(50, 2)
TARGET_SECONDS, OUR_SECONDS = 5.0, 0.025
OURS = "adaptive"
KERNEL_SETS = sized(((4, 4), (8, 6), (20, 6)), ((4, 4), (8, 6)))
TREE_ROUNDS = sized(200_000, 20_000)
SCAN_COMPARISONS = sized(100_000_000, 1_000_000)

Vector = NDArray[np.float64]


@njit(cache=True)
def scan_episode(
    means_of_arms: Vector, deviations_of_arms: Vector, noise: Vector, bonus: float, risk_tolerance: float
) -> NDArray[np.int64]:
    """Play RiskUCB with a plain scan for the lowest index; return the arms played, round by round."""
    n_arms = len(means_of_arms)
    counts = np.zeros(n_arms)
    means = np.zeros(n_arms)
    spreads = np.zeros(n_arms)
    index = np.full(n_arms, np.inf)
    arms = np.empty(len(noise), dtype=np.int64)
    for t in range(len(noise)):
        arm = t
        if t >= n_arms:
            arm = 0
            lowest = index[0]
            for k in range(1, n_arms):
                if index[k] < lowest:
                    lowest = index[k]
                    arm = k
        reward = means_of_arms[arm] + deviations_of_arms[arm] * noise[t]
        counts[arm], means[arm], spreads[arm] = merge_moments_compiled(
            counts[arm], means[arm], spreads[arm], 1.0, reward, 0.0
        )
        index[arm] = spreads[arm] / counts[arm] - risk_tolerance * means[arm] - bonus / np.sqrt(counts[arm])
        arms[t] = arm
    return arms


def figure_two() -> list[bool]:
    """Print the seconds of every policy of the figure; return whether the targets hold."""
    say(f"1. {SHARES} shares over {SLOTS} slots, {HORIZON:,} rounds, {RUNS} runs")
    compare = partial(compare_policies, shares=SHARES, slots=SLOTS, horizon=HORIZON)
    compare(policies=(*PAPER_POLICIES, OURS), runs=1)
    policy_seconds: dict[str, list[float]] = {name: [] for name in (*PAPER_POLICIES, OURS)}
    totals: list[float] = []
    for repeat in range(REPEATS):
        began = time.perf_counter()
        result = compare(policies=PAPER_POLICIES, runs=RUNS, seed=repeat)
        totals.append(time.perf_counter() - began)
        ours = compare(policies=(OURS,), runs=RUNS, seed=repeat)
        for name, one in (result.policies | ours.policies).items():
            policy_seconds[name].append(one.seconds)
        progress(f"   repeat {repeat + 1} of {REPEATS}: {totals[-1]:.2f} s")
    rows = [[name, *seconds_cells(policy_seconds[name])] for name in PAPER_POLICIES]
    rows.append(["together, with set-up", *seconds_cells(totals, len(PAPER_POLICIES))])
    rows.append([f"{OURS}, in addition", *seconds_cells(policy_seconds[OURS])])
    print_table(["policy", "median", "fastest", "slowest", "rounds per second"], rows)
    total = statistics.median(totals)
    ours_each = statistics.median(policy_seconds[OURS]) / RUNS
    held = [total <= TARGET_SECONDS, ours_each <= OUR_SECONDS]
    say(f"together {total:.2f} s, target at most {TARGET_SECONDS:g} s: {verdict(held[0])}")
    target = f"target at most {duration(OUR_SECONDS)}"
    say(f"{OURS}: {duration(ours_each)} per run, on one core, {target}: {verdict(held[1])}\n")
    return held


def seconds_cells(seconds: list[float], policies: int = 1) -> list[str]:
    """Format median, fastest, slowest, and rounds per second at the median."""
    median = statistics.median(seconds)
    spread = [f"{value:.2f} s" for value in (median, min(seconds), max(seconds))]
    return [*spread, f"{policies * HORIZON * RUNS / median:.3g}"]


def kernel_growth() -> None:
    """Print the cost of one round of the tree kernel and of the scan as the number of arms grows."""
    say("2. RiskUCB kernel: one round after the first K, tournament tree next to a plain scan")
    rows = []
    first: tuple[int, float, float] | None = None
    for shares, slots in KERNEL_SETS:
        environment = Environment(random_routing_problem(shares, slots, seed=0))
        means, deviations, _ = environment.table(0)
        n_arms = len(means)
        scan_rounds = min(TREE_ROUNDS, max(2000, SCAN_COMPARISONS // n_arms))
        noise = np.random.default_rng(0).standard_normal(n_arms + TREE_ROUNDS)
        bonus = RiskUcb().start(environment.setting(HORIZON)).bonus_at(0)
        bonuses = np.full(len(noise), bonus)
        tolerance = environment.risk_tolerance
        pieces = np.zeros(len(noise), dtype=np.int64)

        def tree(
            rounds: int,
            tables: tuple[Vector, Vector] = (means[None], deviations[None]),
            by_round: tuple[NDArray[np.int64], Vector, Vector] = (pieces, noise, bonuses),
            tolerance: float = tolerance,
        ) -> NDArray[np.int64]:
            pieces, noise, bonuses = by_round
            return _index_episode(*tables, pieces[:rounds], noise[:rounds], bonuses[:rounds], tolerance)[0]

        def scan(
            rounds: int,
            tables: tuple[Vector, Vector] = (means, deviations),
            noise: Vector = noise,
            rest: tuple[float, float] = (bonus, tolerance),
        ) -> NDArray[np.int64]:
            played: NDArray[np.int64] = scan_episode(*tables, noise[:rounds], *rest)
            return played

        if not np.array_equal(tree(n_arms + scan_rounds), scan(n_arms + scan_rounds)):
            raise AssertionError(f"tree and scan played differently with {n_arms} arms")
        times = interleaved(
            {
                "tree": partial(tree, n_arms + TREE_ROUNDS),
                "tree start": partial(tree, n_arms),
                "scan": partial(scan, n_arms + scan_rounds),
                "scan start": partial(scan, n_arms),
            }
        )
        tree_round = (times["tree"].median - times["tree start"].median) / TREE_ROUNDS
        scan_round = (times["scan"].median - times["scan start"].median) / scan_rounds
        first = first or (n_arms, tree_round, scan_round)
        rows.append(
            [
                f"{n_arms:,}",
                f"{n_arms / first[0]:,.0f}x",
                f"{1 / tree_round:,.0f}",
                duration(tree_round),
                f"{tree_round / first[1]:.1f}x",
                f"{1 / scan_round:,.0f}",
                duration(scan_round),
                f"{scan_round / first[2]:,.1f}x",
                f"{scan_round / tree_round:,.1f}x",
            ]
        )
    print_table(
        ["arms", "growth", "tree, rounds/s", "a round", "growth", "scan, rounds/s", "a round", "growth", "scan/tree"],
        rows,
    )


def main() -> None:
    print_heading("Runner", ("riskroute", "numpy", "scipy", "numba"))
    held = figure_two()
    kernel_growth()
    leave([], held)


if __name__ == "__main__":
    main()
