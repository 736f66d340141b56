"""Random streams are named by what was asked for: last bits of numbers do not matter, anything else does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskroute import Actions, Environment, Problem, random_routing_problem
from riskroute.core.seeding import _coarse, seed_stream, seeding_digest, seeding_hash
from riskroute.learning.problem import _norm
from riskroute.routing.allocations import Allocations
from riskroute.simulation.environments import HeavyTailed
from riskroute.simulation.replay import Replay


def nudged(values: Any) -> np.ndarray[Any, Any]:
    """The same numbers, every second one moved by one unit in the last place."""
    array = np.array(values, dtype=np.float64)
    array.flat[::2] = np.nextafter(array.flat[::2], np.inf)
    return array


def test_last_bits_do_not_rename_streams() -> None:
    problem = random_routing_problem(4, 4, seed=3)
    listed = problem.actions.listed()
    twin = Problem(
        actions=Actions(nudged(listed.matrix), coordinates=4, handles=listed.handles),
        mean_coef=nudged(problem.mean_coef),
        var_coef=nudged(problem.var_coef),
        check_norms=False,
    )
    assert Environment(twin).stream_name == Environment(problem).stream_name
    assert Environment(twin).identity != Environment(problem).identity
    assert twin.actions.fingerprint == problem.actions.fingerprint


def test_last_bits_of_recorded_profits_do_not_rename_streams() -> None:
    problem = Problem(actions=Allocations(shares=2, slots=2), mean_coef=np.zeros(4), var_coef=np.zeros(4))
    profits = np.random.default_rng(0).standard_normal((2, 5, 3))
    assert Replay(problem, nudged(profits)).stream_name == Replay(problem, profits).stream_name
    assert Replay(problem, nudged(profits)).identity != Replay(problem, profits).identity


@pytest.mark.parametrize(
    "other",
    [
        Environment(random_routing_problem(4, 4, seed=4)),
        Environment(random_routing_problem(4, 3, seed=3)),
        Environment(random_routing_problem(4, 4, seed=3, risk_tolerance=2.1)),
        HeavyTailed(random_routing_problem(4, 4, seed=3)),
        HeavyTailed(random_routing_problem(4, 4, seed=3), degrees=3.5),
    ],
)
def test_different_environments_have_different_streams(other: Environment) -> None:
    assert other.stream_name != Environment(random_routing_problem(4, 4, seed=3)).stream_name


def test_coarse_rounds_floats_and_leaves_the_rest() -> None:
    assert _coarse({"a": [1, 2], "b": "x", "c": None, "d": True}) == {
        "a": [1, 2],
        "b": "x",
        "c": None,
        "d": True,
    }
    assert _coarse([0.1 + 0.2, 1.0, -1e-18]) == _coarse([0.3, 1.0, 0.0])
    assert _coarse([0.3, 1.0]) != _coarse([0.30001, 1.0])
    assert _coarse([1.0, 1.0]) != _coarse([2.0, 2.0])
    assert _coarse(0.1 + 0.2) == _coarse(0.3) != _coarse(0.3001)
    assert _coarse([0.0, 0.0]) == _coarse((-0.0, 0.0))


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6))
def test_powers_of_two_scale_the_digest_and_nudges_do_not_move_it(values: list[float]) -> None:
    column = np.array(values)[:, None] * 2.0**20  # whole multiples of the grid are left alone by rounding
    snapped = np.rint(column)
    assert seeding_digest(snapped) == seeding_digest(snapped.copy())
    if np.abs(snapped).max() > 0:
        assert seeding_digest(snapped) != seeding_digest(3 * snapped)


def test_numbers_just_below_a_power_of_two_have_the_digest_of_those_on_it() -> None:
    assert seeding_digest(np.array([[1 - 1e-16], [0.5]])) == seeding_digest(np.array([[1.0], [0.5]]))


def test_hashes_do_not_depend_on_the_order_of_keys_and_have_the_digits_asked_for() -> None:
    assert seeding_hash({"a": 1, "b": [2]}) == seeding_hash({"b": [2], "a": 1})
    assert len(seeding_hash("x", 24)) == 24


def test_streams_differ_by_type_and_place() -> None:
    states = {tuple(seed_stream(0, *name).generate_state(2)) for name in (("1",), (1,), ("1", 1), (1, "1"), ("11",))}
    assert len(states) == 5


@given(values=st.lists(st.floats(-1e150, 1e150), min_size=0, max_size=8))
def test_length_is_the_norm(values: list[float]) -> None:
    vector = np.array(values)
    scale = float(np.abs(vector).max(initial=0.0)) or 1.0
    assert _norm(vector) == pytest.approx(scale * float(np.linalg.norm(vector / scale)), rel=1e-14)
    assert _norm(vector[::-1]) == _norm(vector)
