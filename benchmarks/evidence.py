"""Evidence for the recommended policy: its regret against the paper's policies, and its failures.

1. The four problems of the paper's figure 2, 30 random instances each: `adaptive` against the better of RISE and RISE++
   on every instance. RISE and RISE++ have the constants that are best on other instances of each problem.
2. The paper's table of venues, in money units and scaled to norm one. RISE++ has the constant that is best on other
   tables, whose coefficients are multiplied by a random factor between a half and two.
3. Growth with the horizon: from 100,000 to 800,000 rounds, doubling, with a known and an unknown horizon.
4. Rewards that violate the assumptions.
5. Coefficients that change five times: `change-test`, `discounted` and `sliding-window` against `restart-gse`.
6. Speed of decisions.

Regrets are `steady_regret` if rewards are independent: the same expectation with less noise. All instances are held
out: nothing was tuned on them.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from crowd import final_regret, geometric_mean, mean_and_error, side_by_side
from riskroute import (
    Allocations,
    Environment,
    InputError,
    Policy,
    Problem,
    Setting,
    random_problem,
    random_routing_problem,
    simulate,
)
from riskroute.environments import (
    Autocorrelated,
    HeavyTailed,
    NonlinearVariance,
    PiecewiseStationary,
    WrongBaseVariance,
    random_changes,
)
from riskroute.policies import Adaptive, Rise, RisePlusPlus
from riskroute.routing import riskless_slot_instance, routing_actions
from riskroute.routing.instances import paper_routing_instance
from timing import leave, print_heading, print_table, say, sized, verdict

SIZES = sized(((4, 4), (4, 5), (6, 6), (8, 6)), ((3, 3),))
"""Shares and slots of the four problems."""

HORIZON = sized(100_000, 40)
PAPER = ("rise", "rise++", "risk-ucb", "risk-exp-exp")
MULTIPLIERS = sized((0.25, 0.5, 1.0, 2.0, 4.0, 6.0), (0.25, 1.0))
CONSTANTS = sized((0.002, 0.003, 0.004, 0.005, 0.007, 0.01, 0.014), (0.005, 0.01))
OTHERS = range(100, sized(120, 101))  # instances for tuning
TABLES = range(sized(12, 1))  # tables of venues for tuning
INSTANCES = range(sized(30, 2))
FEW, FEWER = range(sized(10, 1)), range(sized(5, 1))  # instances of the other parts
RUNS, TUNING_RUNS, STRESS_RUNS, CHANGING_RUNS, TABLE_RUNS = sized((20, 8, 10, 5, 50), (2, 1, 1, 1, 2))


def number(value: float) -> str:
    """Format a regret."""
    return f"{value:,.0f}"


def candidates() -> dict[str, Policy]:
    """Return RISE and RISE++ with all candidate constants."""
    rises = {f"rise {m}": Rise(explore_multiplier=m) for m in MULTIPLIERS}
    return rises | {f"rise++ {c}": RisePlusPlus(constant=c) for c in CONSTANTS}


def tuned(problems: list[Problem], start: str) -> str:
    """Return the label that begins with ``start`` and has the lowest geometric mean regret over problems."""
    tried = {label: policy for label, policy in candidates().items() if label.startswith(start)}
    jobs = [(problem, tried, HORIZON, TUNING_RUNS, 1) for problem in problems]
    found = side_by_side(final_regret, jobs)
    return min(tried, key=lambda label: geometric_mean([one[label].mean() for one in found]))


def figure_two() -> list[bool]:
    """Compare with RISE and RISE++ on the problems of figure 2; return which targets hold."""
    say(f"1. figure 2: {len(INSTANCES)} instances each, {HORIZON:,} rounds, {RUNS} runs")
    rows, every, held = [], [], []
    for shares, slots in SIZES:
        others = [random_routing_problem(shares, slots, seed) for seed in OTHERS]
        best = [tuned(others, "rise "), tuned(others, "rise++")]
        policies = {label: candidates()[label] for label in best} | {"adaptive": Adaptive()}
        jobs = [(random_routing_problem(shares, slots, i), policies, HORIZON, RUNS, 0) for i in INSTANCES]
        found = side_by_side(final_regret, jobs)
        ratios, below = [], 0
        for one in found:
            theirs = min((one[label] for label in best), key=lambda regrets: regrets.mean())
            ours = one["adaptive"]
            ratios.append(theirs.mean() / ours.mean())
            error = np.hypot(mean_and_error(theirs)[1], mean_and_error(ours)[1])
            below += ours.mean() - theirs.mean() > 2 * error
        every += ratios
        means = [np.mean([one[label].mean() for one in found]) for label in (*best, "adaptive")]
        holds = geometric_mean(ratios) >= 3 and below == 0
        held.append(holds)
        rows.append(
            [
                f"{shares} shares, {slots} slots",
                *(f"{number(mean)} ({label.split()[1]})" for label, mean in zip(best, means, strict=False)),
                number(means[-1]),
                f"{geometric_mean(ratios):.1f}",
                f"{min(ratios):.2f}",
                str(below),
                verdict(holds),
            ]
        )
    header = ["problem", "RISE (constant)", "RISE++ (constant)", "adaptive", "ratio", "least", "clearly worse", ""]
    print_table(header, rows)
    overall = geometric_mean(every)
    held.append(overall >= 10)
    say("ratio: geometric mean over instances of (better of RISE and RISE++) / adaptive, target at least 3;")
    say("clearly worse: instances where adaptive is above by two standard errors, target 0")
    say(f"all {len(every)} instances: {overall:.2f}, target at least 10: {verdict(overall >= 10)}")
    say(f"instances with a ratio below 1: {sum(ratio < 1 for ratio in every)}\n")
    return held


def other_table(seed: int) -> Problem:
    """Return the paper's table with every coefficient multiplied by a random factor between a half and two."""
    table = paper_routing_instance()
    rng = np.random.default_rng([9, seed])
    while True:
        factors = np.exp(rng.uniform(-np.log(2), np.log(2), (2, table.actions.dim)))
        try:
            return Problem(
                actions=table.actions,
                mean_coef=table.mean_coef * factors[0],
                var_coef=table.var_coef * factors[1],
                check_norms=False,
            )
        except InputError:  # a negative variance: not a table of venues
            continue


def table_of_venues() -> list[bool]:
    """Compare on the paper's table of venues; return which targets hold."""
    say(f"2. the paper's table of venues: {HORIZON:,} rounds, {TABLE_RUNS} runs")
    best = tuned([other_table(seed) for seed in TABLES], "rise++")
    policies: dict[str, str | Policy] = {name: name for name in (*PAPER, "adaptive", "thompson")}
    policies[best] = candidates()[best]
    units = ("money", "norm-1")
    found = side_by_side(
        final_regret, [(paper_routing_instance(unit), policies, HORIZON, TABLE_RUNS, 0) for unit in units]
    )
    rows = []
    for label in policies:
        cells = [mean_and_error(one[label]) for one in found]
        rows.append([label, *(f"{number(mean)} +- {number(error)}" for mean, error in cells)])
    print_table(["policy", *units], rows)
    money, scaled = ({label: regrets.mean() for label, regrets in one.items()} for one in found)
    checks = {
        f"money: RISE / adaptive {money['rise'] / money['adaptive']:.0f}, target at least 100": money["rise"]
        >= 100 * money["adaptive"],
        f"money: {best} / adaptive {money[best] / money['adaptive']:.1f}, target at least 3": money[best]
        >= 3 * money["adaptive"],
        f"norm-1: least of the paper's four / adaptive {min(scaled[p] for p in PAPER) / scaled['adaptive']:.1f}, "
        "target above 1": min(scaled[p] for p in PAPER) > scaled["adaptive"],
    }
    return settle(checks)


def price_by_round(problem: Problem, rounds: Sequence[int], seed: int) -> NDArray[np.float64]:
    """Return the steady regret of one run of `adaptive` with unknown horizon, after each of ``rounds``."""
    environment = Environment(problem)
    setting = Setting(
        actions=problem.actions, risk_tolerance=problem.risk_tolerance, base_variance=problem.base_variance
    )
    policy = Adaptive().start(setting, seed)
    rewards = environment.run(np.random.default_rng([seed, 1]))
    mean, _, gap = environment.table(0)
    played = np.zeros(len(mean))
    ends, prices = [], []
    while policy.played < rounds[-1]:
        plan = policy.plan()
        policy.learn(rewards.tally(plan))
        np.add.at(played, problem.actions.listed().rows_of(plan.actions), plan.counts)
        ends.append(policy.played)
        prices.append(played @ gap + played @ (mean - played @ mean / policy.played) ** 2)
    return np.interp(rounds, ends, prices)


def growth() -> list[bool]:
    """Print the growth of regret with the horizon; return which targets hold."""
    horizons = [HORIZON * 2**k for k in range(4)]
    say(f"3. growth with the horizon: adaptive, {len(FEW)} instances of each problem, {RUNS} runs")
    problems = [random_routing_problem(*size, i) for size in SIZES for i in FEW]
    jobs = [(problem, horizons, seed) for problem in problems for seed in range(RUNS)]
    regrets = np.array(side_by_side(price_by_round, jobs))
    steps = np.diff(regrets, axis=1)
    ratios = steps.mean(axis=0)[1:] / steps.mean(axis=0)[:-1]
    cells = [mean_and_error(column) for column in regrets.T]
    step_cells = [mean_and_error(column) for column in steps.T]
    rows = [
        [
            f"{horizon:,}",
            "{:,.0f} +- {:,.0f}".format(*cells[k]),
            "{:,.0f} +- {:,.0f}".format(*step_cells[k - 1]) if k else "",
            f"{ratios[k - 2]:.2f}" if k > 1 else "",
        ]
        for k, horizon in enumerate(horizons)
    ]
    say("horizon unknown, the same runs at every length:")
    print_table(["rounds", "regret", "increment", "ratio of increments"], rows)
    told = []
    for horizon in (horizons[0], horizons[-1]):
        told_jobs = [(problem, {"adaptive": Adaptive()}, horizon, RUNS, 0) for problem in problems]
        ends = np.concatenate([one["adaptive"] for one in side_by_side(final_regret, told_jobs)])
        told.append(mean_and_error(ends))
        say("horizon known, {:,} rounds: {:,.0f} +- {:,.0f}".format(horizon, *told[-1]))
    say(f"eight times the rounds cost {told[1][0] / told[0][0]:.2f} times the regret with a known horizon")
    return settle(
        {f"horizon unknown: largest ratio of increments {ratios.max():.2f}, target below 1.6": bool(ratios.max() < 1.6)}
    )


def stress_cases() -> dict[str, Callable[[Problem], Problem | Environment]]:
    """Return environments that violate the assumptions."""
    return {
        "as assumed": lambda p: p,
        "Student t noise, 3 degrees": HeavyTailed,
        "AR(1) noise, -0.6": lambda p: Autocorrelated(p, -0.6),
        "AR(1) noise, 0.6": lambda p: Autocorrelated(p, 0.6),
        "variance to the power 1.5": NonlinearVariance,
        "one slot almost without risk": lambda p: riskless_slot_instance(p),
        "omega given twice as large": lambda p: WrongBaseVariance(p, 2.0),
        "omega given half as large": lambda p: WrongBaseVariance(p, 0.5),
    }


def stress() -> list[bool]:
    """Compare under violated assumptions; return which targets hold."""
    sizes = sized(((4, 4), (6, 6)), ((3, 3),))
    named = " and ".join(f"{shares} shares over {slots} slots" for shares, slots in sizes)
    say(f"4. broken assumptions: mean over {len(FEWER)} instances of {named}, {STRESS_RUNS} runs")
    names = (*PAPER, "adaptive", "thompson", "lin-thompson")
    problems = [random_routing_problem(*size, i) for size in sizes for i in FEWER]
    rows, held = [], []
    for case, broken in stress_cases().items():
        jobs = [(broken(problem), {name: name for name in names}, HORIZON, STRESS_RUNS, 0) for problem in problems]
        found = side_by_side(final_regret, jobs)
        means = {name: np.mean([one[name].mean() for one in found]) for name in names}
        won = sum(one["adaptive"].mean() < min(one[name].mean() for name in PAPER) for one in found)
        held.append(bool(means["adaptive"] < min(means[name] for name in PAPER)))
        rows.append([case, *(number(means[name]) for name in names), f"{won}/{len(found)}", verdict(held[-1])])
    print_table(["case", *names, "instances", ""], rows)
    say("instances: those where adaptive has the least regret of the five; target: least mean regret\n")
    return held


def changing() -> list[bool]:
    """Compare on changing coefficients; return which targets hold."""
    say(
        f"5. five changes in {HORIZON:,} rounds: mean over {len(FEWER)} instances of each problem, {CHANGING_RUNS} runs"
    )
    names = ("restart-gse", "change-test", "discounted", "sliding-window", "adaptive")
    rows, held = [], []
    for comparator in ("mean", "mean-variance"):
        for shares, slots in SIZES:
            actions = routing_actions(shares, slots)
            jobs = []
            for i in FEWER:
                pieces = [random_problem(actions, 1000 * (i + 1) + k) for k in range(6)]
                changes = random_changes(HORIZON, 5, i)
                environment = PiecewiseStationary(pieces, changes, comparator=comparator)
                policies: dict[str, str | Policy] = {name: name for name in names}
                jobs.append((environment, policies, HORIZON, CHANGING_RUNS, 0))
            found = side_by_side(final_regret, jobs)
            means = {name: np.mean([one[name].mean() for one in found]) for name in names}
            held.append(bool(means["change-test"] <= 0.5 * means["restart-gse"]))
            cells = (number(means[name]) for name in names)
            rows.append([f"{shares} shares, {slots} slots, best {comparator}", *cells, verdict(held[-1])])
    print_table(["problem, comparator", *names, ""], rows)
    say("target: change-test at most half of restart-gse (practical mode)\n")
    return held


def speed() -> list[bool]:
    """Time decisions in this process; return which targets hold."""
    say("6. speed after compilation")
    problem = random_routing_problem(8, 6, 0)
    simulate(problem, ["adaptive", "thompson"], sized(2000, 20), 1)
    rows, checks = [], {}
    runs = sized(5, 1)
    for name in ("adaptive", "thompson"):
        each = simulate(problem, [name], HORIZON, runs, checkpoints=1).policies[name].seconds / runs
        rows.append([name, f"{HORIZON:,} decisions, 1,287 actions", f"{each:.2f} s"])
        checks[f"{name}: {each:.2f} s per run, target at most 3"] = each <= 3
    large = Environment(random_problem(Allocations(1000, 20), 0))
    for name, rounds in itertools.product(("adaptive", "thompson"), (sized(1000, 30), HORIZON)):
        began = time.perf_counter()
        simulate(large, [name], rounds, 1, checkpoints=1)
        each = (time.perf_counter() - began) / rounds * 1000
        rows.append([name, f"{rounds:,} decisions, 1,000 shares over 20 slots", f"{each:.3f} ms each"])
        checks[f"{name}: {each:.3f} ms per decision in the first {rounds:,}, target at most 5"] = each <= 5
    print_table(["policy", "decisions", "time"], rows, left=2)
    return settle(checks)


def settle(checks: dict[str, bool]) -> list[bool]:
    """Print every check with its verdict; return the verdicts."""
    for text, holds in checks.items():
        say(f"{text}: {verdict(bool(holds))}")
    say("")
    return [bool(holds) for holds in checks.values()]


PARTS = (figure_two, table_of_venues, growth, stress, changing, speed)


def part_number(text: str) -> int:
    """Parse the number of a part."""
    if text not in map(str, range(1, len(PARTS) + 1)):
        raise argparse.ArgumentTypeError(f"part must be a number from 1 to {len(PARTS)}, was {text}")
    return int(text)


def main() -> None:
    """Print the requested parts; default: all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", type=part_number, help=f"numbers of parts, 1 to {len(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="run every part at tiny sizes")
    wanted = parser.parse_args().parts or range(1, len(PARTS) + 1)
    print_heading("Evidence", ["riskroute", "numpy", "scipy", "numba"])
    leave([], [holds for part in wanted for holds in PARTS[part - 1]()])


if __name__ == "__main__":
    main()
