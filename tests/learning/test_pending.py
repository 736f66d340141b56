"""Rows that wait for their outcome."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from riskroute.core.errors import InputError, StateError
from riskroute.learning.pending import Pending


def test_every_row_matures_once_when_it_is_due_and_settled_in_the_sequence_of_due_times() -> None:
    """Against a list that is searched from the start each time."""
    rng = np.random.default_rng(1)
    waiting, naive, out, expected = Pending(), [], [], []
    for now in range(300):
        if rng.random() < 0.7:
            row: dict[str, Any] = {"key": f"row {now}", "due": now + int(rng.integers(0, 30)), "outcome": None}
            waiting.put(row["key"], now, row["due"])
            naive.append(row)
        for row in naive:
            if rng.random() < 0.2:
                row["outcome"] = float(rng.random())
                waiting.settle(row["key"], row["outcome"])
        ready = sorted((row for row in naive if row["due"] <= now and row["outcome"]), key=lambda row: row["due"])
        naive = [row for row in naive if row not in ready]
        expected += [(row["key"], row["outcome"]) for row in ready]
        out += [(key, outcome) for key, _, outcome in waiting.mature(now)]
    assert out == expected
    assert len(out) > 150
    assert len(waiting) == len(naive)


def test_when_it_is_full_the_row_due_first_is_given_up() -> None:
    waiting = Pending(capacity=2)
    for key, due in (("a", 5), ("b", 3), ("c", 9)):
        waiting.put(key, key, due)
    assert ("b" in waiting, len(waiting), waiting.abandoned) == (False, 2, 1)
    waiting.abandon("a")
    assert (len(waiting), waiting.abandoned) == (1, 2)
    assert (waiting.row("c"), waiting.outcome("c")) == ("c", None)


def test_a_state_goes_on_as_before() -> None:
    waiting = Pending(capacity=5)
    waiting.put("a", [1.0, 2.0], 4)
    waiting.put("b", [3.0], 2)
    waiting.settle("a", 0.0)
    waiting.put("c", [], 1)
    waiting.abandon("c")
    again = Pending.restore(json.loads(json.dumps(waiting.state())))
    assert again.state() == waiting.state()
    assert again.mature(9) == waiting.mature(9) == [("a", [1.0, 2.0], 0.0)]


@pytest.mark.parametrize(
    "change", [{"capacity": 0}, {"rows": [["a", 1, 2]]}, {"rows": [[1, 1, 1, 1]]}, {"abandoned": -1}, {"rows": 3}]
)
def test_a_damaged_state_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="state of pending rows must be one that state"):
        Pending.restore(Pending().state() | change)


def test_what_cannot_be_is_refused() -> None:
    waiting = Pending()
    waiting.put("a", 1, 2)
    for call, message in (
        (lambda: waiting.put("a", 1, 2), "key must be of a row that does not wait yet, was 'a'"),
        (lambda: waiting.put(3, 1, 2), "key must be a text, was"),  # type: ignore[arg-type]
        (lambda: waiting.put("b", 1, 2.5), "due must be"),  # type: ignore[arg-type]
        (lambda: waiting.settle("b", 1), "key must be of a row that waits, was 'b'"),
        (lambda: waiting.abandon("b"), "key must be of a row that waits, was 'b'"),
        (lambda: waiting.mature(None), "now must be"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match=message):
            call()
