"""Compare policies on a random routing problem, or on feature vectors from a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from riskroute.core.arrays import Floats
from riskroute.core.errors import InputError
from riskroute.core.text import count_text, one_line_text, shown
from riskroute.core.validation import one_of, valid_path, whole_number
from riskroute.learning.actions import Actions, ActionSet
from riskroute.learning.problem import random_problem
from riskroute.learning.registry import POLICIES
from riskroute.routing.allocations import routing_actions
from riskroute.routing.splits import count_splits, split_list_limit
from riskroute.simulation.backends import Backend
from riskroute.simulation.results import SimulationResult
from riskroute.simulation.runner import Progress, simulate

if TYPE_CHECKING:
    import polars
    from numpy.typing import NDArray


PAPER_POLICIES = ("rise", "rise++", "risk-ucb", "risk-exp-exp")  # policies in the paper's figures
COMPARED = ("adaptive", *PAPER_POLICIES)  # the policy that riskroute recommends, and the paper's four


def compared_policies(slots: int, shares: int) -> tuple[str, ...]:
    """Return `COMPARED`, without the policies that need a list of all splits if there are too many to list."""
    if count_splits(shares, slots) <= split_list_limit(slots):
        return COMPARED
    return tuple(name for name in COMPARED if not POLICIES[name].needs_list)


def comparison_must_list(policies: Sequence[str], slots: int, shares: int) -> bool | None:
    """Return True if one of ``policies`` needs a list of all splits, else None; raise if there are too many to list."""
    size, limit = count_splits(shares, slots), split_list_limit(slots)
    listers = [name for name in policies if POLICIES[one_of("policy", name, tuple(POLICIES))].needs_list]
    if listers and size > limit:
        raise InputError(
            f"{listers[0]} needs a list of all {count_text(size)} splits (limit {limit:,}); "
            "choose another policy or a smaller order"
        )
    return True if listers else None


def compare_policies(
    *,
    slots: int = 6,
    shares: int = 8,
    policies: Sequence[str] = COMPARED,
    horizon: int = 100_000,
    runs: int = 50,
    seed: int = 0,
    instance_seed: int = 0,
    risk_tolerance: float = 2.0,
    progress: Progress | None = None,
    backend: Backend | None = None,
    features: Floats | None = None,
) -> SimulationResult:
    """Simulate policies on the splits of ``shares`` over ``slots``, with coefficients drawn from ``instance_seed``.

    ``features``, ``(K, dim)``, replaces the splits: every row is an action, divided by the largest norm of any row.
    """
    whole_number("instance_seed", instance_seed, minimum=0)
    actions: ActionSet
    instance: dict[str, int]
    if features is not None:
        actions, instance = Actions.scaled(features), {}
    else:
        actions = routing_actions(shares, slots, listed=comparison_must_list(policies, slots, shares))
        instance = {"slots": slots, "shares": shares}
    problem = random_problem(actions, instance_seed, risk_tolerance=risk_tolerance)
    result = simulate(problem, policies, horizon, runs, seed, progress=progress, backend=backend)
    return replace(result, config=instance | {"instance_seed": instance_seed} | result.config)


def read_compared_features(path: str | os.PathLike[str]) -> Floats:
    """Read feature vectors ``(K, dim)`` from a .npy, .csv (with or without header) or .parquet file.

    In errors, rows count from 1, without the header.
    """
    import polars

    file = valid_path("features", path)
    kind = one_of("ending of the features file", file.suffix.lower(), (".npy", ".csv", ".parquet"))
    try:
        if kind == ".npy":
            return _feature_matrix(file, np.load(file, allow_pickle=False))
        if kind == ".parquet":
            return _feature_matrix(file, polars.read_parquet(file))
        with file.open(encoding="utf-8") as lines:
            names = not all(map(_is_number, next(lines, "").split(",")))
        cells = polars.read_csv(file, has_header=names, infer_schema=False).with_columns(polars.all().str.strip_chars())
        return _feature_matrix(file, cells if names else cells.rename(_numbered(cells.columns)))
    except (OSError, EOFError, ValueError, polars.exceptions.PolarsError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or one_line_text(error)
        raise InputError(f"features must be a readable {kind} file, was {str(file)!r}: {reason}") from None


def _feature_matrix(file: Path, given: NDArray[Any] | polars.DataFrame) -> Floats:
    """Return the contents of a file as a matrix; raise an error that locates the first cell without a finite number."""
    import polars

    if not isinstance(given, polars.DataFrame):
        if given.ndim != 2 or given.dtype.kind not in "iuf":
            raise InputError(f"{file} must hold a matrix of numbers, was of shape {given.shape} and type {given.dtype}")
        given = polars.DataFrame(given)
        given = given.rename(_numbered(given.columns))
    if given.is_empty():
        raise InputError(f"{file} must hold at least one row and one column, was of shape {given.shape}")
    columns = []
    for name, column in zip(given.columns, given.get_columns(), strict=True):
        if not (column.dtype.is_numeric() or column.dtype in (polars.String, polars.Null)):
            raise InputError(f"{file}: column {name!r} must hold numbers, was of type {column.dtype}")
        numbers = column.cast(polars.Float64, strict=False)
        wrong = ~numbers.is_finite().fill_null(False)
        if wrong.any():
            row = int(wrong.arg_true()[0])
            found = "empty" if column[row] is None else shown(column[row])
            raise InputError(f"{file}: row {row + 1} of column {name!r} must be a finite number, was {found}")
        columns.append(numbers.to_numpy())
    return np.ascontiguousarray(np.column_stack(columns))


def _numbered(names: list[str]) -> dict[str, str]:
    return {name: f"column {k}" for k, name in enumerate(names, 1)}


def _is_number(cell: str) -> bool:
    try:
        float(cell.strip().strip('"'))
    except ValueError:
        return not cell.strip()  # an empty cell names no column
    return True
