"""Orders over up to 200 slots stay below a gigabyte; more is refused in one sentence, before memory is taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from riskroute import Allocations, random_problem, random_routing_problem
from riskroute.cli.app import run_app
from riskroute.core.errors import InputError
from riskroute.learning.design.wide import wide_optimal
from riskroute.routing import split_actions
from riskroute.routing.lattice import Lattice
from riskroute.routing.splits import count_splits, split_list_limit

GIGABYTE = 1000.0

MEASURED = """
import resource
import sys
from pathlib import Path
from riskroute import Allocations, random_problem, simulate
from riskroute.learning.policies import linear_policy
linear_policy._DESIGN_TOLERANCE = 0.01  # that of the other policy too: one design serves both
problem = random_problem(Allocations(100, int(sys.argv[1])), 0)
design = problem.actions.design(0.01)
result = simulate(problem, ["adaptive", "rise"], 20, 1)
used = Path("/proc/self/status")  # the resource module also knows what the parent held
if used.exists():
    peak = next(float(line.split()[1]) / 1e3 for line in used.read_text().splitlines() if line.startswith("VmHWM"))
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(peak, design.rank, design.excess, len(design))
"""


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(
    ("slots", "most"), [(100, 0.4 * GIGABYTE), pytest.param(200, GIGABYTE, marks=[pytest.mark.thorough])]
)
def test_up_to_two_hundred_slots_fit_into_a_gigabyte(slots: int, most: float) -> None:
    """A design and two short runs; memory grows as the square of the slots. Before, the design alone took thirteen."""
    command = [sys.executable, "-c", MEASURED, str(slots)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    peak, rank, excess, size = map(float, said.split())
    assert peak < most
    assert rank == 2 * slots
    assert excess <= 0.01
    assert size <= 150 * slots


def peak_megabytes(call: Callable[[], object]) -> float:
    """Memory that Python's allocator and NumPy's arrays took at most during a call that is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            call()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


LONG = Lattice(10**6, np.zeros(200, dtype=np.int64), np.full(200, 10**5))
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "slots": (lambda: Allocations(100, 201), r"^slots must be at most 200, was 201$"),
    "many slots": (lambda: Allocations(100, 10**6), r"^slots must be at most 200, was 1,000,000$"),
    "a list": (lambda: split_actions(1, 201), r"^slots must be at most 200, was 201$"),
    "a count": (lambda: count_splits(10**6, 10**6), r"^slots must be at most 200, was 1,000,000$"),
    "an instance": (lambda: random_routing_problem(100, 500, seed=0), r"^slots must be at most 200, was 500$"),
    "draws": (
        lambda: LONG.sample(np.random.default_rng(0), 1),
        r"^too many lots to count or draw allocations \(limit [\d,]+\): 1,000,000 lots .* of 200 slots$",
    ),
    "ranks": (lambda: LONG.rank(np.full(200, 5000)), r"^too many lots to count or draw .*: 1,000,000 lots"),
    "survivors": (
        lambda: Allocations(10**6, 200).within(np.ones(400), 0.1),
        r"^too many amounts for tables: 1,000,000 lots over 200 slots \(limit on lots times slots: 30,000,000\)$",
    ),
    "a best allocation": (
        lambda: Allocations(10**6, 200).two_best(-np.ones(400)),
        r"^too many amounts for tables: 1,000,000 lots over 200 slots \(limit on lots times slots: 30,000,000\)$",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_fill_the_memory_is_refused_before_it_does(name: str) -> None:
    call, sentence = REFUSED[name]
    with pytest.raises(InputError, match=sentence):
        call()
    assert peak_megabytes(call) < 20


@pytest.mark.parametrize("command", ["design", "simulate"])
def test_command_line_refuses_more_slots(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app([command, "--shares", "100", "--slots", "201"]) == 2
    assert "slots must be at most 200, was 201" in capsys.readouterr().err


def test_lists_are_shorter_for_many_slots() -> None:
    assert split_list_limit(4) == 5_000_000
    assert split_list_limit(200) == 100_000
    with pytest.raises(InputError, match=r"limit 133,333\): 573,800 for 3 shares over 150 slots"):
        split_actions(3, 150)


def test_wide_lists_get_designs_without_tables_of_pairs() -> None:
    """820 splits with 80 coordinates: the table of pairs would have 2.7 million entries."""
    listed = split_actions(2, 40)
    wide_optimal(np.eye(2), 0.01)  # compile the kernels before memory is measured
    tracemalloc.start()
    design = listed.design(0.01)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    assert peak < 20
    assert design.rank == 80
    assert design.excess <= 0.01
    levers = np.einsum(
        "ni,ij,nj->n",
        listed.rows,
        np.linalg.inv((listed.features(design.actions) * design.weights[:, None]).T @ listed.features(design.actions)),
        listed.rows,
    )
    assert levers.max() == pytest.approx(design.bound, rel=1e-6)


@pytest.mark.parametrize(("shares", "slots"), [(2, 60), (3, 90), (100, 60)])
def test_designs_over_many_slots_reach_their_tolerance(shares: int, slots: int) -> None:
    design = Allocations(shares, slots).design(0.05)
    assert design.rank == 2 * slots
    assert design.excess <= 0.05
    assert (design.actions.sum(axis=1) == shares).all()


@pytest.mark.usefixtures("untraced")
def test_survivors_of_many_slots_get_a_design() -> None:
    problem = random_problem(Allocations(40, 24), seed=4)
    survivors = problem.actions.within(problem.score, 0.5)
    design = survivors.design(0.05)
    assert survivors.contains(design.actions).all()
    support = survivors.features(design.actions)
    inverse = np.linalg.pinv((support * design.weights[:, None]).T @ support, rcond=1e-12, hermitian=True)
    drawn = survivors.features(survivors.sample(np.random.default_rng(1), 200))
    levers = np.einsum("ni,ij,nj->n", drawn, inverse, drawn)
    assert levers.max() <= 1.75 * design.rank  # found by search: near the optimum, whatever was proven
    assert levers.max() <= design.bound * (1 + 1e-6)


def several_designs() -> dict[str, tuple[list[list[int]], list[float]]]:
    """Designs of every kind over sets that are not listed."""
    sets = {
        "alike": Allocations(1000, 16),
        "caps": Allocations(100, 16, caps=30),
        "two kinds": Allocations(100, 16, caps=[30] * 8 + [50] * 8),
        "many kinds": Allocations(100, 8, caps=[20 + 8 * k for k in range(8)]),
    }
    problem = random_problem(Allocations(40, 7), seed=4)
    every = {name: allocations.design(0.01) for name, allocations in sets.items()}
    every["survivors"] = problem.actions.within(problem.score.round(9), 0.8).design(0.05)
    return {name: (design.actions.tolist(), design.weights.tolist()) for name, design in every.items()}


@pytest.mark.thorough  # tests/test_machines.py plays designs on every machine
@pytest.mark.usefixtures("untraced")
def test_designs_are_the_same_with_the_linear_algebra_of_an_old_processor() -> None:
    """The same support exactly, and weights up to 1e-8; on other processors the variable changes nothing."""
    code = "import json; from test_many_slots import several_designs; print(json.dumps(several_designs()))"
    environment = os.environ | {"OPENBLAS_CORETYPE": "Prescott"}
    said = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).parent,
    ).stdout
    there, here = json.loads(said), several_designs()
    assert there.keys() == here.keys()
    for name, (support, weights) in here.items():
        assert there[name][0] == support, name
        np.testing.assert_allclose(there[name][1], weights, atol=1e-8, err_msg=name)
