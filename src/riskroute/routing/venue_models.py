"""Venue models: mean and variance of the profit from ``q`` shares, both quadratic in ``q``."""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from riskroute.core.errors import DataError, InputError
from riskroute.core.files import write_whole
from riskroute.core.text import TextTable
from riskroute.core.validation import (
    as_name,
    exact_array,
    finite_array,
    one_of,
    real_number,
    valid_list,
    valid_magnitude,
    valid_path,
    whole_number,
)
from riskroute.learning.actions import ActionSet
from riskroute.learning.problem import Problem
from riskroute.routing.allocations import MOST_SHARES, Allocations
from riskroute.routing.quadratic_search import QuadraticResult, minimise_quadratic
from riskroute.routing.splits import COMFORTABLE_LIST, split_list_limit

KINDS = ("market", "limit", "dark")  # market or limit orders on a lit venue, or a dark pool


@dataclass(frozen=True)
class VenueModel:
    """Profit from ``q`` shares: mean ``p q + p~ q^2``, variance ``s q + s~ q^2``.

    Parameters
    ----------
    name : str
        Name of the venue, or of the slot if a venue has several.
    mean : tuple[float, float]
        ``(p, p~)``, money per share and per squared share.
    variance : tuple[float, float]
        ``(s, s~)``, squared money per share and per squared share.
    kind : str
        ``market`` orders, ``limit`` orders or a ``dark`` pool.
    mean_error, variance_error : tuple[float, float], optional
        Standard errors of the coefficients, if estimated.

    Examples
    --------
    >>> model = VenueModel("XNAS", mean=(-0.07, -0.0002), variance=(0.0, 0.00056))
    >>> round(model.mean_of(10), 4), round(model.variance_of(10), 4)
    (-0.72, 0.056)
    """

    name: str
    mean: tuple[float, float]
    variance: tuple[float, float]
    kind: str = "market"
    mean_error: tuple[float, float] | None = None
    variance_error: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        as_name("name", self.name)
        one_of("kind", self.kind, KINDS)
        for field in ("mean", "variance", "mean_error", "variance_error"):
            value = getattr(self, field)
            if value is not None or not field.endswith("error"):
                pair = finite_array(f"{field} of {self.name}", value, ndim=1, length=2)
                object.__setattr__(self, field, (float(pair[0]), float(pair[1])))

    def mean_of(self, shares: float) -> float:
        """Return the expected profit from ``shares``."""
        shares = valid_magnitude("shares", shares, smallest=0)
        return self.mean[0] * shares + self.mean[1] * shares**2

    def nonnegative(self, shares: int) -> VenueModel:
        """Return the model if its variance is non-negative up to ``shares``, else one with a purely quadratic variance.

        The replacement has the same variance at ``shares``, or zero if that is negative.

        Examples
        --------
        >>> VenueModel("A", (-0.1, 0.0), (-0.02, 0.01)).nonnegative(10).variance
        (0.0, 0.008)
        """
        slope, square = self.variance
        whole_number("shares", shares, maximum=MOST_SHARES)
        if min(self.variance_of(1), self.variance_of(shares)) >= 0 and (square >= 0 or slope >= 0):
            return self
        return dataclasses.replace(self, variance=(0.0, max(self.variance_of(shares), 0.0) / shares**2))

    def variance_of(self, shares: float) -> float:
        """Return the variance of the profit from ``shares``; may be negative outside the fitted range."""
        shares = valid_magnitude("shares", shares, smallest=0)
        return self.variance[0] * shares + self.variance[1] * shares**2


def venue_problem(
    models: Sequence[VenueModel],
    shares: int,
    *,
    units: str = "money",
    risk_tolerance: float = 2.0,
    base_variance: float = 1.0,
    lot: int = 1,
    caps: int | Sequence[int] | None = None,
    most_listed: int = COMFORTABLE_LIST,
) -> Problem:
    """Return the problem of splitting ``shares`` over venues, one slot per model.

    Parameters
    ----------
    units : str
        ``money`` for unscaled coefficients, or ``norm-1`` to scale the norms of the mean and variance coefficients down
        to at most 1 and ``base_variance``, as the regret bounds assume.
    base_variance : float
        Variance of an order in addition to the venues', the paper's omega.
    lot, caps
        Lot size, and the largest number of shares in each slot; see `Allocations`.
    most_listed : int
        Maximum number of splits to list: a lookup is faster than a search.

    Examples
    --------
    >>> models = [VenueModel("A", (-0.07, -0.0002), (0.0, 0.0006)), VenueModel("B", (-0.05, 0.0), (0.0, 0.006))]
    >>> venue_problem(models, 10).best
    (6, 4)
    >>> venue_problem(models, 10, caps=[10, 3]).best
    (7, 3)
    """
    one_of("units", units, ("money", "norm-1"))
    lot, most_listed = whole_number("lot", lot), whole_number("most_listed", most_listed, minimum=0)
    models = _checked_models(models)
    allocations = Allocations(shares, len(models), lot, caps)
    scale = allocations.scale
    few = allocations.size <= split_list_limit(len(models), most_listed)
    actions: ActionSet = allocations.listed() if few else allocations
    columns = [[getattr(model, field)[power] for model in models] for field in ("mean", "variance") for power in (0, 1)]
    mean_coef, var_coef = scale * np.array(columns[0] + columns[1]), scale * np.array(columns[2] + columns[3])
    given: dict[str, Any] = {"actions": actions, "mean_coef": mean_coef, "var_coef": var_coef}
    given |= {"risk_tolerance": risk_tolerance, "base_variance": base_variance}
    return Problem(**given, check_norms=False) if units == "money" else Problem.scaled(**given)


def best_correlated_split(
    models: Sequence[VenueModel],
    shares: int,
    correlation: ArrayLike,
    *,
    risk_tolerance: float = 2.0,
    caps: Sequence[int] | None = None,
) -> QuadraticResult:
    """Split ``shares`` to minimise variance minus ``risk_tolerance`` times mean when the slots' profits are correlated.

    The quadratic part ``s~ q^2`` of a slot's variance is the risk of a common price move on ``q`` shares, so that part
    is correlated: the variance of a split ``a`` is ``sum_k s_k a_k + sum_ij rho_ij sqrt(s~_i s~_j) a_i a_j``.

    Parameters
    ----------
    models : sequence of VenueModel
        One per slot, with ``s~ >= 0``.
    shares : int
        Size of the order.
    correlation : array_like
        ``rho``, symmetric with ones on the diagonal, ``(m, m)``; the identity is the model of `venue_problem`.
    risk_tolerance : float
        Weight of the mean.
    caps : sequence of int, optional
        Largest number of shares in each slot.

    Returns
    -------
    QuadraticResult
        The best split found, and a proven lower bound: ``gap`` 0 proves that the split is optimal.

    Examples
    --------
    A and B are equally good. If their profits are independent, splitting halves the variance; if they always move
    together, it gains nothing and only B's higher cost counts.

    >>> models = [VenueModel("A", (-0.01, 0.0), (0.0, 0.01)), VenueModel("B", (-0.02, 0.0), (0.0, 0.01))]
    >>> best_correlated_split(models, 10, np.eye(2)).units
    (5, 5)
    >>> best_correlated_split(models, 10, np.ones((2, 2))).units
    (10, 0)
    """
    models = _checked_models(models)
    count = len(models)
    risk_tolerance = real_number("risk_tolerance", risk_tolerance, minimum=0)
    shares = whole_number("shares", shares, maximum=MOST_SHARES)
    rho = finite_array("correlation", correlation, ndim=2, length=count, largest=1)
    if rho.shape != (count, count) or (rho != rho.T).any() or (np.diag(rho) != 1).any():
        raise InputError(f"correlation must be a symmetric ({count}, {count}) matrix with ones on the diagonal")
    square = np.array([model.variance[1] for model in models])
    if (square < 0).any():
        name = models[int(np.argmin(square))].name
        raise InputError(
            f"expected a variance per squared share of at least 0 for {name}, got {square.min():g}; "
            "VenueModel.nonnegative replaces it"
        )
    mean = np.array([model.mean for model in models])
    linear = np.array([model.variance[0] for model in models]) - risk_tolerance * mean[:, 0]
    deviation = np.sqrt(square)
    covariance = rho * np.outer(deviation, deviation) - risk_tolerance * np.diag(mean[:, 1])
    return minimise_quadratic(
        covariance, linear, shares, caps=None if caps is None else exact_array("caps", caps, np.int64, (count,))
    )


def _checked_models(models: Sequence[VenueModel]) -> list[VenueModel]:
    checked = valid_list("models", models, VenueModel, "venue models")
    if not checked:
        raise InputError("models must hold at least one venue, was empty")
    names = [model.name for model in checked]
    if len(set(names)) < len(names):
        raise InputError(f"models must have different names, was {names}")
    return checked


def venue_model_table(models: Sequence[VenueModel]) -> str:
    """Return the coefficients as a text table like the paper's: a column per venue, a row per coefficient."""
    rows = []
    for label, field, power in (("p", "mean", 0), ("p~", "mean", 1), ("var", "variance", 0), ("var~", "variance", 1)):
        cells = []
        for model in models:
            error = getattr(model, f"{field}_error")
            cells.append(f"{getattr(model, field)[power]:.4g}" + (f" +- {error[power]:.1g}" if error else ""))
        rows.append([label, *cells])
    return TextTable(["", *(model.name for model in models)], rows).plain()


def save_venue_models(models: Sequence[VenueModel], path: str | os.PathLike[str], *, about: Sequence[str] = ()) -> Path:
    """Write models to a TOML file; ``about`` are comments at the head of the file."""
    comments = {
        "mean": "amount per quantity of 1, per squared quantity",
        "variance": "squared amount per quantity of 1, per squared quantity",
        "mean_error": "standard errors",
        "variance_error": "standard errors",
    }
    lines = [f"# {line}" for text in valid_list("about", about, str, "strings") for line in text.splitlines()]
    for model in valid_list("models", models, VenueModel, "venue models"):
        lines += ["", "[[venues]]", f"name = {_quoted(model.name)}", f"kind = {_quoted(model.kind)}"]
        for field, comment in comments.items():
            pair = getattr(model, field)
            if pair is not None:
                lines.append(f"{field} = [{pair[0]!r}, {pair[1]!r}]  # {comment}")
    whole = "\n".join(lines).lstrip("\n") + "\n"
    return write_whole(valid_path("path", path), lambda beside: beside.write_text(whole, encoding="utf-8"))


def _quoted(text: str) -> str:
    """Return a TOML string: JSON without surrogate pairs, and with the delete character escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def load_venue_models(path: str | os.PathLike[str]) -> list[VenueModel]:
    """Read models from a TOML file, as `save_venue_models` writes it."""
    file = valid_path("path", path)
    try:
        venues = tomllib.loads(file.read_text(encoding="utf-8"))["venues"]
        return [VenueModel(**venue) for venue in venues]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise DataError(f"{path} must be a file of [[venues]] with name, mean and variance: {error}") from error
