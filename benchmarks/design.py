"""Speed of the G-optimal design.

Two questions:

1. What does a certified design over a million actions cost? The unit is one *leverage pass*, the quadratic form
   ``x' H x`` of every row in NumPy: the least cost per step of an algorithm that visits all actions in every step.
   Targets: 12 passes for an excess of 1e-2, 25 passes for 1e-6. Passes are timed between the designs. A busy machine
   can slow the pass down more than the design, which flatters the ratio of the medians; so the ratio of the fastest
   times is reported as well, with one BLAS thread and with the default number. A target holds only if all four ratios
   meet it.
2. How does it compare with plain Frank-Wolfe (Fedorov 1972, Wynn 1970) and with a conic solver through cvxpy, on
   growing Gaussian sets and on splits of an order? Excesses are measured in the same way for all: largest leverage over
   the dimension, minus one. Ratios are the other solver's time over ours: below one, the other is faster. All have one
   BLAS thread, as in the runner: on a busy machine, threads that wait for each other would decide the result.

cvxpy runs in a process of its own, which is stopped at the time limit.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from riskroute import g_optimal
from riskroute.routing import split_actions
from timing import (
    REPEATS,
    Timing,
    duration,
    interleaved,
    leave,
    print_heading,
    print_table,
    progress,
    say,
    sized,
    verdict,
)

ROWS, DIM = sized(1_000_000, 5000), 12
TARGETS = {1e-2: 12.0, 1e-6: 25.0}
DESIGN_REPEATS = sized(7, 1)
PASSES_BETWEEN = sized(4, 1)
LOOSE, TIGHT = 1e-2, 1e-6
FRANK_WOLFE_LIMIT = sized(5.0, 0.1)
CVXPY_LIMIT = 30.0
PATIENCE = 1.0
MISSING = "not installed"
GAUSSIANS = sized((100, 1000, 10_000, 100_000), (100, 1000))
SPLITS = sized((6, 8, 12), (6,))

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def gaussian_features(rows: int) -> Matrix:
    return np.random.default_rng(0).standard_normal((rows, DIM))


def largest_excess(features: Matrix, weights: Vector) -> float:
    """Return the largest leverage of a design over the dimension, minus one."""
    inverse = np.linalg.inv((features * weights[:, None]).T @ features)
    return float(np.einsum("ij,ij->i", features @ inverse, features).max() / features.shape[1] - 1)


@dataclass(frozen=True)
class Reached:
    """The excess of a solver's design, and whether it converged in time."""

    excess: float
    in_time: bool
    note: str = ""


def frank_wolfe(features: Matrix, tolerance: float, limit: float) -> Reached:
    """Fedorov-Wynn: move weight to the action of highest leverage, by exact line search along that direction.

    Starts from actions that span (pivoted QR), which needs fewer steps here than equal weights do. One step changes the
    inverse and all leverages by rank one, so it costs one matrix-vector product with the features.
    """
    deadline = time.perf_counter() + limit
    rows, dim = features.shape
    pivots = scipy.linalg.qr(features.T, mode="r", pivoting=True)[1]
    weights = np.zeros(rows)
    weights[pivots[:dim]] = 1 / dim
    inverse = np.linalg.inv((features * weights[:, None]).T @ features)
    leverage = np.einsum("ij,ij->i", features @ inverse, features)
    step_number = 0
    while True:
        high = int(leverage.argmax())
        top = leverage[high]
        if top <= dim * (1 + tolerance) or (step_number % 100 == 0 and time.perf_counter() > deadline):
            reached = largest_excess(features, weights)
            return Reached(reached, reached <= tolerance * (1 + 1e-6))
        step = (top / dim - 1) / (top - 1)
        gain = step / (1 - step + step * top)
        direction = inverse @ features[high]
        inverse -= gain * np.outer(direction, direction)
        inverse /= 1 - step
        change = features @ direction
        change *= change
        change *= gain
        leverage -= change
        leverage /= 1 - step
        weights *= 1 - step
        weights[high] += step
        step_number += 1
        if step_number % 10_000 == 0:  # rank-one updates drift
            inverse = np.linalg.inv((features * weights[:, None]).T @ features)
            leverage = np.einsum("ij,ij->i", features @ inverse, features)


def serve_cvxpy(pipe: Connection) -> None:
    """Solve for the features received last whenever ``None`` arrives; runs in a separate process.

    Two reformulations favour cvxpy. ``X' diag(w) X`` is written as ``X' (w * X)``: the same matrix, without
    forming the K x K diagonal one. And the features are whitened first, which changes no leverage, because the solver
    does not converge on badly scaled features such as numbers of shares and their squares.
    """
    import cvxpy

    def solve(features: Matrix) -> Reached:
        white = features @ np.linalg.inv(np.linalg.cholesky(features.T @ features / len(features))).T
        weights = cvxpy.Variable(len(features), nonneg=True)
        information = white.T @ cvxpy.multiply(weights[:, None], white)
        problem = cvxpy.Problem(cvxpy.Maximize(cvxpy.log_det(information)), [cvxpy.sum(weights) == 1])
        problem.solve()
        found = np.maximum(weights.value, 0)
        solver = problem.solver_stats.solver_name
        note = solver if problem.status == cvxpy.OPTIMAL else f"{solver}, {problem.status}"
        return Reached(largest_excess(white, found / found.sum()), True, note)

    features = gaussian_features(50)
    with threadpool_limits(1, "blas"):
        solve(features)  # warm-up
        pipe.send("ready")
        while True:
            message = pipe.recv()
            if message is None:
                pipe.send(solve(features))
            else:
                features = message
                pipe.send("loaded")


class Cvxpy:
    """cvxpy in a process that is stopped at a time limit; without cvxpy, nothing is solved."""

    installed = importlib.util.find_spec("cvxpy") is not None

    def __init__(self) -> None:
        self.process: multiprocessing.process.BaseProcess | None = None

    def start(self) -> None:
        """Start the process and wait until it has imported and solved once."""
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve_cvxpy, args=(theirs,), daemon=True)
        self.process.start()
        self.pipe.recv()

    def load(self, features: Matrix) -> None:
        """Send the features, so that sending them is not timed."""
        if self.installed:
            if self.process is None:
                self.start()
            self.pipe.send(features)
            self.pipe.recv()

    def solve(self) -> Reached:
        """Solve once, within the time limit."""
        if not self.installed:
            return Reached(float("nan"), False, MISSING)
        self.pipe.send(None)
        if self.pipe.poll(CVXPY_LIMIT):
            reached: Reached = self.pipe.recv()
            return reached
        self.stop()
        return Reached(float("nan"), False)

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def leverage_passes() -> list[bool]:
    """Print the cost of designs over a million actions in leverage passes; return which targets hold."""
    say(f"1. {ROWS:,} x {DIM} Gaussian features: designs in leverage passes, {DESIGN_REPEATS} repeats")
    features = gaussian_features(ROWS)
    rows, held = [], []
    for threads in (1, None):
        with threadpool_limits(threads, "blas"):
            passes, designs = time_designs(features)
        for tolerance, target in TARGETS.items():
            timing = designs[tolerance]
            ratios = timing.median / passes.median, timing.fastest / passes.fastest
            held.append(max(ratios) <= target)
            rows.append(
                [
                    "one" if threads else "default",
                    f"{tolerance:g}",
                    f"{timing.outcome.excess:.1e}",
                    str(len(timing.outcome)),
                    duration(timing.median),
                    duration(passes.median),
                    *(f"{ratio:.1f}" for ratio in ratios),
                    f"at most {target:g}",
                    verdict(held[-1]),
                ]
            )
    header = [
        "BLAS threads",
        "tolerance",
        "excess",
        "support",
        "design",
        "one pass",
        "ratio",
        "of fastest",
        "target",
        "",
    ]
    print_table(header, rows)
    return held


def time_designs(features: Matrix) -> tuple[Timing, dict[float, Timing]]:
    """Time leverage passes and designs in turn, after a warm-up."""
    middle = np.linalg.inv(features.T @ features / len(features))

    def leverage_pass() -> Vector:
        leverages: Vector = np.einsum("ij,ij->i", features @ middle, features)
        return leverages

    for tolerance in TARGETS:
        leverage_pass()
        g_optimal(features, tolerance)
    passes, designs = Timing(), {tolerance: Timing() for tolerance in TARGETS}
    for _ in range(DESIGN_REPEATS):
        for tolerance, timing in designs.items():
            for _ in range(PASSES_BETWEEN):
                passes.run(leverage_pass)
            timing.run(partial(g_optimal, features, tolerance))
    return passes, designs


def check_design(features: Matrix, tolerance: float) -> None:
    """Measure the excess of our design in the same way as that of the others; this also compiles the kernels."""
    design = g_optimal(features, tolerance)
    weights = np.zeros(len(features))
    weights[design.actions] = design.weights
    excess = largest_excess(features, weights)
    if excess > tolerance * (1 + 1e-6):
        raise AssertionError(f"g_optimal reached an excess of {excess:.3g}, expected at most {tolerance:g}")


def cell(timing: Timing, limit: float) -> str:
    """Format a median time, or the missed limit with the excess reached."""
    reached = timing.outcome
    if reached.in_time:
        return duration(timing.median)
    if reached.note == MISSING:
        return "-"
    return f"> {limit:g} s" + ("" if np.isnan(reached.excess) else f" ({reached.excess:.0e})")


def ratio_cell(other: Timing, ours: Timing) -> str:
    if other.outcome.note == MISSING:
        return "-"
    return ("" if other.outcome.in_time else "> ") + f"{float(f'{other.median / ours.median:.2g}'):,g}x"


def peers() -> None:
    """Print two tables of g_optimal next to Frank-Wolfe and cvxpy."""
    say("2. against plain Frank-Wolfe and cvxpy")
    sets: dict[str, Matrix] = {f"Gaussian {rows:,}": gaussian_features(rows) for rows in GAUSSIANS}
    for shares in SPLITS:
        actions = split_actions(shares, 6)
        sets[f"{shares} shares over 6 slots, {actions.size:,}"] = actions.rows
    cvxpy = Cvxpy()
    loose_rows, tight_rows = [], []
    for label, features in sets.items():
        began = time.perf_counter()
        cvxpy.load(features)
        for tolerance in (LOOSE, TIGHT):
            check_design(features, tolerance)
        calls: dict[str, Callable[[], Any]] = {
            "loose": partial(g_optimal, features, LOOSE),
            "frank-wolfe loose": partial(frank_wolfe, features, LOOSE, FRANK_WOLFE_LIMIT),
            "tight": partial(g_optimal, features, TIGHT),
            "frank-wolfe tight": partial(frank_wolfe, features, TIGHT, FRANK_WOLFE_LIMIT),
            "cvxpy": cvxpy.solve,
        }
        times = interleaved(calls, patience=PATIENCE)
        conic = times["cvxpy"]
        loose_rows.append(
            [
                label,
                duration(times["loose"].median),
                cell(times["frank-wolfe loose"], FRANK_WOLFE_LIMIT),
                ratio_cell(times["frank-wolfe loose"], times["loose"]),
            ]
        )
        tight_rows.append(
            [
                label,
                duration(times["tight"].median),
                cell(times["frank-wolfe tight"], FRANK_WOLFE_LIMIT),
                ratio_cell(times["frank-wolfe tight"], times["tight"]),
                cell(conic, CVXPY_LIMIT),
                conic.outcome.note or "-",
                f"{conic.outcome.excess:.0e}" if conic.outcome.in_time else "-",
                ratio_cell(conic, times["tight"]),
            ]
        )
        progress(f"   {label}: done in {time.perf_counter() - began:.0f} s")
    cvxpy.stop()
    say(f"\nexcess {LOOSE:g}; medians of {REPEATS} repeats, of one where it takes over {PATIENCE:g} s")
    print_table(["actions", "g_optimal", "Frank-Wolfe", "ratio"], loose_rows)
    say(
        f"excess {TIGHT:g}; in brackets, the excess reached at the limit; "
        "cvxpy stops by its solver's own default tolerance"
    )
    print_table(
        ["actions", "g_optimal", "Frank-Wolfe", "ratio", "cvxpy log_det", "solver", "reached", "ratio"], tight_rows
    )


def main() -> None:
    print_heading("Optimal design", ("riskroute", "numpy", "scipy", "numba", "cvxpy", "scs", "clarabel"))
    held = leverage_passes()
    with threadpool_limits(1, "blas"):
        peers()
    leave([], held)


if __name__ == "__main__":
    main()
