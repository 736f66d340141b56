"""Draw the pictures of docs/concepts.md from runs of the package, and print the numbers that the page states.

``python docs/concept_pictures.py`` writes docs/images/concept-*.png; an argument names another folder.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import riskroute as rr
from riskroute.learning.actions import as_batch
from riskroute.market.scenarios import Scenarios, ScenarioSlot, draw_scenarios
from riskroute.paper.figures import (
    COLOURS,
    VENUE_COLOURS,
    _draw_regret,
    _format_axes,
    _new_figure,
    _remove_frame,
    _save_figure,
)
from riskroute.simulation.replay import Replay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IMAGES = Path(__file__).parent / "images"

VENUES = (
    rr.VenueModel("XNAS", mean=(-0.07, -0.0002), variance=(0.0, 0.00056)),
    rr.VenueModel("Dark 1", mean=(-0.05, 0.0003), variance=(0.0, 0.006), kind="dark"),
    rr.VenueModel("Dark 2", mean=(-0.01, 0.0002), variance=(0.0, 0.005), kind="dark"),
)
"""The venues of docs/market.md."""

SHARES = 10
TOLERANCES = (0.2, 0.8, 3.0)
HORIZON = 20_000
SLOTS = 6
SIZES = (2, 3, 4, 6, 8)
INSTANCES = 5
COMPARED = ("adaptive", "rise", "risk-ucb")
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])
"""Corners of the triangle: all shares in the first, second and third slot."""


def draw_risk(path: Path) -> Iterator[str]:
    """Draw mean against variance of every split, and the best split by risk tolerance."""
    splits = rr.routing.list_splits(SHARES, len(VENUES))
    means = np.array([sum(v.mean_of(q) for v, q in zip(VENUES, row, strict=True)) for row in splits.tolist()])
    variances = np.array([sum(v.variance_of(q) for v, q in zip(VENUES, row, strict=True)) for row in splits.tolist()])

    def best(tolerance: float) -> int:
        return int(np.argmin(variances - tolerance * means))

    figure = _new_figure(12, 4.6)
    left, right = figure.subplots(1, 2)
    left.plot(variances, means, "o", color="#9aa7b4", markersize=4, label=f"the {len(splits)} splits")
    reach = np.array([0.0, variances.max()])
    for tolerance, colour in zip(TOLERANCES, VENUE_COLOURS, strict=False):
        row = best(tolerance)
        left.plot(reach, means[row] + (reach - variances[row]) / tolerance, "--", color=colour, linewidth=1.2)
        split = ", ".join(map(str, splits[row].tolist()))
        left.plot(variances[row], means[row], "o", color=colour, markersize=9, label=f"best at {tolerance:g}: {split}")
        mean, variance = f"mean {means[row]:.3f}", f"variance {variances[row]:.3f}"
        yield f"risk tolerance {tolerance:g}: best split ({split}), {mean}, {variance}"
    left.set_ylim(means.min() - 0.05, 0.05)
    left.set_xlabel("variance of the profit (dollars²)")
    left.set_ylabel("mean profit (dollars)")
    left.set_title("every split, and lines of equal mean-variance", fontsize=10)

    tolerances = np.geomspace(0.05, 5, 400)
    parts = splits[[best(tolerance) for tolerance in tolerances]].T
    labels = [model.name for model in VENUES]
    right.stackplot(tolerances, parts, labels=labels, colors=VENUE_COLOURS, alpha=0.75, step="post", linewidth=0)
    right.set_xscale("log")
    right.set_xlim(tolerances[0], tolerances[-1])
    right.set_xlabel("risk tolerance (dollars)")
    right.set_ylabel("shares")
    right.set_title(f"the best split of {SHARES} shares", fontsize=10)
    _finish([left, right])
    _save_figure(figure, path)


def draw_regret_and_size(path: Path) -> Iterator[str]:
    """Draw regret over time on one problem, and final regret by number of splits at a fixed dimension."""
    figure = _new_figure(12, 4.6)
    left, right = figure.subplots(1, 2)
    problem = rr.random_routing_problem(shares=SIZES[-1], slots=SLOTS, seed=0)
    result = rr.simulate(problem, [*COMPARED, "uniform"], horizon=HORIZON, runs=10)
    _draw_regret(left, {name: one.summary() for name, one in result.policies.items()})
    left.set_title(f"{SIZES[-1]} shares over {SLOTS} slots: {problem.actions.size:,} splits, 10 runs", fontsize=10)

    counts = [rr.routing.count_splits(size, SLOTS) for size in SIZES]
    ends: dict[str, list[NDArray[np.float64]]] = {name: [] for name in COMPARED}
    for size, count in zip(SIZES, counts, strict=True):
        played = [
            rr.simulate(rr.random_routing_problem(shares=size, slots=SLOTS, seed=seed), COMPARED, HORIZON, runs=3)
            for seed in range(INSTANCES)
        ]
        for name in COMPARED:
            ends[name].append(np.array([one.policies[name].steady_regret[:, -1].mean() for one in played]))
        said = ", ".join(f"{name} {ends[name][-1].mean():,.0f}" for name in COMPARED)
        yield f"{size} shares over {SLOTS} slots, {count:,} splits: mean regret after {HORIZON:,} rounds: {said}"
    for name in COMPARED:
        middle = [end.mean() for end in ends[name]]
        error = [end.std(ddof=1) / INSTANCES**0.5 for end in ends[name]]
        right.errorbar(counts, middle, error, marker="o", color=COLOURS[name], linewidth=1.8, capsize=3, label=name)
    right.set_xscale("log")
    right.set_xlabel(f"splits K, on a log scale ({SLOTS} slots, dimension d = {2 * SLOTS} throughout)")
    right.set_ylabel(f"regret after {HORIZON:,} rounds (squared reward units)")
    right.set_title(f"mean of {INSTANCES} instances, with standard errors", fontsize=10)
    _format_axes(right)
    right.set_ylim(bottom=0)
    right.legend(frameon=False, loc="best")
    _save_figure(figure, path)


def draw_exploration(path: Path) -> Iterator[str]:
    """Draw the rounds of a G-optimal design and of `adaptive`, and the cost of exploration of `rise` and `adaptive`."""
    shares, slots = 12, 3
    problem = rr.random_routing_problem(shares=shares, slots=slots, seed=7)
    splits = rr.routing.list_splits(shares, slots)
    places = splits / shares @ CORNERS
    row_of = {split: row for row, split in enumerate(map(tuple, splits.tolist()))}
    figure = _new_figure(14, 4.6)
    first, second, third = figure.subplots(1, 3)

    design = problem.actions.design(tolerance=0.01)
    weights = np.zeros(len(places))
    weights[[row_of[split] for split in map(tuple, design.actions.tolist())]] = design.weights
    _draw_triangle(first, places, weights)
    first.set_title(f"G-optimal design: weights on {len(design)} of {len(places)} splits", fontsize=10)
    yield f"design over {len(places)} splits: plays {len(design)}, bound {design.bound:.2f}, rank {design.rank}"

    best = row_of[problem.best]
    for policy in (rr.policies.Rise(), rr.policies.Adaptive()):
        counts, rounds, paid = _play(problem, policy)
        played = np.array([counts[split] for split in row_of])
        third.plot(rounds, paid, color=COLOURS[policy.name], linewidth=1.8, label=policy.name)
        yield (
            f"{policy.name} on {shares} shares over {slots} slots, {HORIZON:,} rounds: "
            f"{np.count_nonzero(played)} of {len(places)} splits played, {played[best] / HORIZON:.1%} of the rounds "
            f"on the best, summed gaps {paid[-1]:,.0f}"
        )
    _draw_triangle(second, places, played / HORIZON, best)
    second.set_title(f"adaptive: where {HORIZON:,} rounds went", fontsize=10)

    third.set_xticks(range(0, HORIZON + 1, 5_000))
    third.set_xlabel("round")
    third.set_ylabel("summed gaps to the best split (squared reward units)")
    third.set_title("what exploring has cost so far", fontsize=10)
    _format_axes(third)
    third.legend(frameon=False, loc="best", fontsize=9)
    _save_figure(figure, path)


def _play(problem: rr.Problem, policy: rr.Policy) -> tuple[Counter[rr.Action], list[int], list[float]]:
    """Play a run; return the rounds per split, and the cumulative rounds and gaps after every plan."""
    environment = rr.Environment(problem)
    policy.start(environment.setting(HORIZON), seed=1)
    rewards = environment.run(np.random.default_rng(1))
    played: Counter[rr.Action] = Counter()
    rounds, paid = [0], [0.0]
    while policy.remaining:
        plan = policy.plan()
        for split, count in zip(plan.actions.tolist(), plan.counts.tolist(), strict=True):
            played[tuple(split)] += count
        paid.append(paid[-1] + float(plan.counts @ problem.gaps(plan.actions)))
        policy.learn(rewards.tally(plan))
        rounds.append(policy.played)
    return played, rounds, paid


def _draw_triangle(axes: Axes, places: NDArray[np.float64], parts: NDArray[np.float64], best: Any = None) -> None:
    """Draw splits over three slots as dots in a triangle, with areas in proportion to their rounds."""
    axes.plot(*places.T, ".", color="#c4ccd4", markersize=4, label="a split")
    some = parts > 0
    along, up = places[some].T
    axes.scatter(along, up, s=30 + 900 * parts[some], color=VENUE_COLOURS[0], alpha=0.75, linewidth=0, clip_on=False)
    axes.plot([], [], "o", color=VENUE_COLOURS[0], label="played (area: how often)")
    if best is not None:
        axes.plot(*places[best], "+", color="#111111", markersize=12, label="the best split")
    for slot, (corner, side) in enumerate(zip(CORNERS, ("left", "right", "center"), strict=True), 1):
        high = corner[1] > 0
        shift = 0.05 if high else -0.07
        axes.text(corner[0], corner[1] + shift, f"all in slot {slot}", ha=side, va="bottom" if high else "top")
    axes.set_xlim(-0.05, 1.05)
    axes.set_ylim(-0.25, 1.0)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.legend(frameon=False, loc="lower center", fontsize=9, ncols=3)


def draw_market(path: Path) -> Iterator[str]:
    """Draw sampled profits, the venue models fitted to them, and the modelled and recorded profits of a split."""
    shares = 200
    scenarios = _recorded(shares)
    caps = scenarios.caps()
    models, fits = scenarios.models(caps, seed=0)
    problem = rr.venue_problem(models, shares, lot=10, caps=(caps // 10 * 10).tolist(), base_variance=0.0)
    replay = Replay(problem, *scenarios.replayed(caps))
    best = as_batch(problem.best)
    model_mean, model_deviation = float(problem.means(best)[0]), float(problem.variances(best)[0]) ** 0.5
    (mean,), (deviation,) = replay.moments(best)
    parts = ", ".join(f"{q} {slot.name}" for slot, q in zip(scenarios.slots, best[0].tolist(), strict=True))
    yield (
        f"{parts}: mean {model_mean:.2f} and standard deviation {model_deviation:.2f} in the model, "
        f"{mean:.2f} and {deviation:.2f} over {replay.scenarios:,} recorded scenarios"
    )

    figure = _new_figure(15, 4.6)
    first, second, third = figure.subplots(1, 3)
    name = scenarios.slots[0].name
    buckets = len(scenarios.buckets) // scenarios.repeats
    quantities = np.arange(0, shares + 1, 20)
    sampled = scenarios.profits[0, :buckets][:, quantities]
    first.plot(quantities, sampled.T, ".", color="#9aa7b4", markersize=4)
    first.plot([], [], ".", color="#9aa7b4", label="one sampled book")
    curve = np.arange(shares + 1)
    fitted = [models[0].mean_of(q) for q in curve.tolist()]
    first.plot(curve, fitted, color=VENUE_COLOURS[0], linewidth=1.8, label="fitted mean")
    first.set_xlabel("quantity (shares)")
    first.set_ylabel("profit against the middle (dollars)")
    first.set_title(f"{name}: {buckets} books, one per bucket", fontsize=10)

    for model, colour in zip(models, VENUE_COLOURS, strict=False):
        fit = fits[model.name]
        second.plot(fit.quantities, fit.variances, "o", color=colour, markersize=4)
        second.plot(
            curve, [model.variance_of(q) for q in curve.tolist()], color=colour, linewidth=1.8, label=model.name
        )
    second.set_xlabel("quantity (shares)")
    second.set_ylabel("variance of the profit (dollars²)")
    second.set_title("venue models: sampled variances and fits", fontsize=10)

    totals = replay.totals(best)[0]
    third.hist(totals, bins=40, density=True, color="#c9d8ea", label="replay: recorded scenarios")
    along = np.linspace(totals.min(), totals.max() + model_deviation, 300)
    density = np.exp(-(((along - model_mean) / model_deviation) ** 2) / 2) / (model_deviation * (2 * np.pi) ** 0.5)
    third.plot(along, density, color=VENUE_COLOURS[4], linewidth=1.8, label="model: Gaussian")
    third.set_xlabel("profit of the whole order (dollars)")
    third.set_ylabel("density (per dollar)")
    third.set_title("the model's best split, in the model and on the books", fontsize=10)
    _finish([first, second, third])
    _save_figure(figure, path)


def _recorded(shares: int) -> Scenarios:
    """Return scenarios of a synthetic day: market and limit orders at XNAS, and a pool whose remainders cross there."""
    pool = rr.market.DarkPool(presence=0.4, tail=1.0, smallest=20, name="Dark")
    slots = (ScenarioSlot("XNAS"), ScenarioSlot("XNAS", "limit"), ScenarioSlot("XNAS", pool=pool))
    with TemporaryDirectory() as folder:
        hours = (dt.time(10, 50), dt.time(13))
        files = rr.market.generate_market(Path(folder), seed=0, symbols=("QVEX",), hours=hours)
        rr.market.import_files(files[:1], Path(folder) / "books", rr.market.ReadingOptions(("QVEX",)))
        return draw_scenarios(
            rr.market.RecordingStore(Path(folder) / "books"), "QVEX", slots, shares, rr.market.TimeWindow(), repeats=5
        )


def _finish(panels: list[Axes]) -> None:
    for axes in panels:
        _remove_frame(axes)
        axes.legend(frameon=False, loc="best", fontsize=9)


PICTURES: dict[str, Callable[[Path], Iterator[str]]] = {
    "concept-risk.png": draw_risk,
    "concept-regret.png": draw_regret_and_size,
    "concept-exploration.png": draw_exploration,
    "concept-market.png": draw_market,
}

if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    for picture, draw in PICTURES.items():
        for line in draw(target / picture):
            sys.stdout.write(f"{line}\n")
