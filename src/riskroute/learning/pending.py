"""Rows whose outcome is not known yet: they enter when it is, and not before their time.

A row is put aside under a key, with the time at which it is due. Its outcome may be settled at any time, in parts too,
the last of which counts; when the row is due, it matures and comes out with its outcome. A row that is due without an
outcome waits for it. So feedback that is delayed causes no bias: rows with quick outcomes do not enter before those
with slow ones.

References
----------
Z. Zhou, R. Xu, J. Blanchet, "Learning in generalized linear contextual bandits with stochastic delays" (2019),
https://papers.neurips.cc/paper_files/paper/2019/hash/56cb94cb34617aeadff1e79b53f38354-Abstract.html
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from riskroute.core.errors import InputError, StateError, described, shown
from riskroute.core.validation import whole_number


class MaturedRow(NamedTuple):
    """A row that is due, and its outcome."""

    key: str
    row: Any
    outcome: Any


class Pending:
    """Rows that wait, at most ``capacity`` of them: beyond, the one that is due first is given up.

    Rows and outcomes are plain JSON values. Times are whole numbers, of whatever unit.

    Parameters
    ----------
    capacity : int
        Rows that may wait.

    Attributes
    ----------
    abandoned : int
        Rows given up, on request or for lack of room.

    Examples
    --------
    >>> waiting = Pending()
    >>> waiting.put("a", {"x": [1.0]}, due=10)
    >>> waiting.put("b", {"x": [2.0]}, due=5)
    >>> waiting.settle("a", 0.5)
    >>> waiting.mature(now=9)
    []
    >>> waiting.mature(now=10)
    [MaturedRow(key='a', row={'x': [1.0]}, outcome=0.5)]
    >>> waiting.settle("b", 0.25)
    >>> waiting.mature(now=10)
    [MaturedRow(key='b', row={'x': [2.0]}, outcome=0.25)]
    """

    def __init__(self, capacity: int = 10_000) -> None:
        self.capacity = whole_number("capacity", capacity)
        self.abandoned = 0
        self._rows: dict[str, dict[str, Any]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __repr__(self) -> str:
        return f"Pending({len(self)} of {self.capacity} rows)"

    def put(self, key: str, row: Any, due: int) -> None:
        """Put a row aside until a time."""
        if not isinstance(key, str):
            raise InputError(f"key must be a text, was {described(key)}")
        if key in self._rows:
            raise InputError(f"key must be of a row that does not wait yet, was {shown(key)}")
        self._rows[key] = {"row": row, "due": _time("due", due)}
        if len(self._rows) > self.capacity:
            self.abandon(min(self._rows, key=lambda one: self._rows[one]["due"]))

    def settle(self, key: str, outcome: Any) -> None:
        """Say how a row turned out, or correct what was said; None stands for not known yet."""
        self._waiting(key)["outcome"] = outcome

    def row(self, key: str) -> Any:
        """Return a row that waits."""
        return self._waiting(key)["row"]

    def outcome(self, key: str) -> Any:
        """Return what is known of the outcome of a row that waits; None if nothing is."""
        return self._waiting(key).get("outcome")

    def mature(self, now: int) -> list[MaturedRow]:
        """Take out the rows that are due and settled, those due first in front, of equals those put aside first."""
        now = _time("now", now)
        ready = [key for key, kept in self._rows.items() if kept["due"] <= now and kept.get("outcome") is not None]
        ready.sort(key=lambda key: self._rows[key]["due"])
        return [MaturedRow(key, kept["row"], kept["outcome"]) for key in ready for kept in (self._rows.pop(key),)]

    def abandon(self, key: str) -> None:
        """Give a row up: its outcome will never be known, or is of no use."""
        self._waiting(key)
        del self._rows[key]
        self.abandoned += 1

    def _waiting(self, key: str) -> dict[str, Any]:
        kept = self._rows.get(key) if isinstance(key, str) else None
        if kept is None:
            raise InputError(f"key must be of a row that waits, was {shown(key)}")
        return kept

    def state(self) -> dict[str, Any]:
        """Everything, as plain JSON values."""
        rows = [[key, kept["row"], kept["due"], kept.get("outcome")] for key, kept in self._rows.items()]
        return {"capacity": self.capacity, "abandoned": self.abandoned, "rows": rows}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        """Rebuild the rows of a saved state."""
        try:
            waiting = cls(state["capacity"])
            for key, row, due, outcome in state["rows"]:
                waiting.put(key, row, due)
                waiting.settle(key, outcome)
            waiting.abandoned = whole_number("abandoned", state["abandoned"], minimum=0)
        except (KeyError, TypeError, ValueError, InputError) as error:
            what = error if isinstance(error, InputError) else described(state)
            raise StateError(f"state of pending rows must be one that state() returned: {what}") from error
        return waiting


def _time(name: str, value: Any) -> int:
    return whole_number(name, value, minimum=-(2**63), maximum=2**63)
