"""Handles looked up and told apart by compiled code, against lists and dictionaries."""

from __future__ import annotations

import numpy as np
import pytest

from riskroute import InputError
from riskroute.learning.actions import _HandleIndex, different_handles


@pytest.mark.parametrize("seed", range(6))
def test_handles_lead_to_their_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    handles = np.unique(rng.integers(-5, 40, (200, 3)), axis=0)
    rng.shuffle(handles)
    index = _HandleIndex(handles, len(handles))
    asked = rng.permutation(len(handles))[:50]
    np.testing.assert_array_equal(index.rows_of(handles[asked]), asked)
    strange = handles[asked] + np.array([0, 1000, 0])
    assert not index.search(strange)[1].any()
    assert index.search(handles[asked])[1].all()
    with pytest.raises(InputError, match="members of the list"):
        index.rows_of(np.vstack([handles[asked], strange[:1]]))


def test_equal_handles_are_refused() -> None:
    with pytest.raises(InputError, match="must be different"):
        _HandleIndex(np.array([[1, 2], [1, 2]]), 2)


@pytest.mark.parametrize("shape", [(0,), (1,), (70,), (40, 1), (90, 4), (0, 3)])
def test_different_handles_come_in_the_sequence_in_which_they_appear(shape: tuple[int, ...]) -> None:
    batch = np.random.default_rng(len(shape)).integers(-3, 4, shape)
    different, place = different_handles(batch)
    keys = [tuple(np.atleast_1d(row).tolist()) for row in batch]
    expected = list(dict.fromkeys(keys))
    assert [tuple(np.atleast_1d(row).tolist()) for row in different] == expected
    assert place.tolist() == [expected.index(key) for key in keys]
    assert different.shape[1:] == batch.shape[1:]
