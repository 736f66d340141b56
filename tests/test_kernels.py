"""Entries to compiled code that refuse arrays of the wrong type or shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from riskroute.core.errors import InputError
from riskroute.learning.design.canonical import canonical_weights
from riskroute.learning.hazards import hazard_tails
from riskroute.learning.regret import RegretBlocks, block_regret_curves
from riskroute.learning.tally import Tallies, merge_tallies_compiled, merge_tally_groups
from riskroute.market.synthetic.order_flow import _FlowParameters, _simulate_compiled

WHOLE, REAL = np.array([1, 2, 0]), np.array([0.5, 0.1, 0.2])
RNG = np.random.default_rng(0)
CHARACTER = _FlowParameters(1e9, 2, 10, 5, 0.3, 2.0, 4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, False)


def curves_of_columns(checkpoints: Any, anchors: Any, risk_tolerance: float, **columns: Any) -> Any:
    return block_regret_curves(RegretBlocks(**columns), checkpoints, anchors, risk_tolerance)


KERNELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "merge_groups": (
        merge_tally_groups,
        {"group": np.array([0, 1, 0]), "n_groups": 2, "counts": WHOLE, "means": REAL, "spreads": REAL},
    ),
    "block_curves": (
        curves_of_columns,
        {
            "counts": np.array([1, 2, 3]),
            "reward_means": REAL,
            "reward_spreads": REAL,
            "true_means": REAL,
            "true_variances": REAL,
            "gaps": REAL,
            "checkpoints": np.array([1, 6]),
            "anchors": np.zeros(2),
            "risk_tolerance": 2.0,
        },
    ),
    "basic_weights": (canonical_weights, {"columns": np.eye(3)[:2].copy(), "weights": np.full(3, 0.3), "limit": 2}),
    "hazard_tails": (hazard_tails, {"edges": np.array([1, 2]), "hazards": np.zeros((3, 2)), "units": 3}),
}


def spoiled(array: np.ndarray) -> dict[str, Any]:
    """The array in shapes and types that it must not have."""
    other = np.float32 if array.dtype == np.float64 else np.int32
    return {
        "shorter": array[:-1],
        "longer": np.concatenate([array, array[-1:]]),
        "another axis": array[..., None],
        "flat": array.ravel()[:1].reshape(()),
        "another type": array.astype(other),
        "objects": array.astype(object),
        "a list": array.tolist(),
        "nothing": None,
    }


@pytest.mark.parametrize("name", KERNELS)
def test_arrays_of_another_shape_or_type_do_not_get_in(name: str) -> None:
    kernel, arguments = KERNELS[name]
    kernel(**arguments)
    for field, value in arguments.items():
        if not isinstance(value, np.ndarray):
            continue
        for what, wrong in spoiled(value).items():
            any_length: list[tuple[str, str]] = []
            any_length += [("basic_weights", "columns"), ("hazard_tails", "hazards")]
            if (name, field) in any_length and what in ("shorter", "longer"):
                continue
            with pytest.raises(InputError) as error:
                kernel(**arguments | {field: wrong})
            assert "\n" not in str(error.value), (field, what)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("merge_groups", {"n_groups": 1}, "places that exist"),
        ("block_curves", {"checkpoints": WHOLE[:0], "anchors": REAL[:0]}, "checkpoints must not be empty"),
    ],
)
def test_places_that_do_not_exist_do_not_get_in(name: str, changes: dict[str, Any], message: str) -> None:
    kernel, arguments = KERNELS[name]
    with pytest.raises(InputError, match=message):
        kernel(**arguments | changes)


def test_nothing_is_merged_if_one_place_does_not_exist() -> None:
    counts, means, spreads = np.array([1, 2]), np.zeros(2), np.zeros(2)
    with pytest.raises(InputError):
        merge_tallies_compiled(counts, means, spreads, np.array([0, 5]), np.array([3, 3]), np.ones(2), np.ones(2))
    assert (counts.tolist(), means.tolist(), spreads.tolist()) == ([1, 2], [0.0, 0.0], [0.0, 0.0])


@pytest.mark.parametrize("quotes", [np.zeros((0, 2), np.int64), np.zeros((4, 1), np.int64), np.zeros((4, 3), np.int64)])
def test_order_flow_needs_quotes(quotes: np.ndarray) -> None:
    with pytest.raises(InputError, match="quotes must be rows of bid and ask"):
        _simulate_compiled(RNG, CHARACTER, quotes, 0, 10, 1)


ARRAYS = {"actions": np.array([0, 1]), "counts": np.array([2, 3]), "means": np.zeros(2), "spreads": np.ones(2)}


@pytest.mark.parametrize("field", ARRAYS)
def test_tallies_of_different_lengths_are_refused(field: str) -> None:
    for wrong in (ARRAYS[field][:1], np.concatenate([ARRAYS[field]] * 2), ARRAYS[field][:0]):
        with pytest.raises(InputError, match=r"must have shape \(\d,\), was \(\d,\)"):
            Tallies(**ARRAYS | {field: wrong})


def test_tallies_of_other_types_are_converted_where_nothing_is_lost() -> None:
    given: Any = ([0, 1], np.array([2, 3], dtype=np.int32), [0, 1], np.ones(2, dtype=np.float32))
    tallies = Tallies(*given)
    assert [getattr(tallies, name).dtype for name in ARRAYS] == [np.int64, np.int64, np.float64, np.float64]
    for field in ("actions", "counts"):
        with pytest.raises(InputError, match=f"{field} must be integers, was float64"):
            Tallies(**ARRAYS | {field: np.array([0.5, 1.0])})
    with pytest.raises(InputError, match="counts must not be negative, was -3"):
        Tallies(**ARRAYS | {"counts": np.array([3, -3])}).by_action()
