"""Entries to compiled code that refuse arrays of the wrong type or shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from riskroute.core.errors import InputError
from riskroute.learning.hazards import Hazards
from riskroute.learning.tally import Tallies, merge_tallies_compiled, merge_tally_groups


@pytest.mark.parametrize("wrong", [np.zeros(1), np.zeros(3), np.zeros((2, 1)), np.zeros(2, dtype=object)])
def test_hazards_of_another_shape_or_type_do_not_get_in(wrong: Any) -> None:
    belief = Hazards([1, 2])
    with pytest.raises(InputError, match="hazards must"):
        belief.tails(3, wrong)


def test_places_that_do_not_exist_do_not_get_in() -> None:
    with pytest.raises(InputError, match="an index in where is out of range"):
        merge_tally_groups(np.array([0, 1, 0]), 1, np.array([1, 2, 0]), np.zeros(3), np.zeros(3))


def test_nothing_is_merged_if_one_place_does_not_exist() -> None:
    counts, means, spreads = np.array([1, 2]), np.zeros(2), np.zeros(2)
    with pytest.raises(InputError):
        merge_tallies_compiled(counts, means, spreads, np.array([0, 5]), np.array([3, 3]), np.ones(2), np.ones(2))
    assert (counts.tolist(), means.tolist(), spreads.tolist()) == ([1, 2], [0.0, 0.0], [0.0, 0.0])


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
