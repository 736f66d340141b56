"""Venue models: what ``q`` shares earn at a venue on average, and how uncertain that is, both quadratic in ``q``."""

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

from riskroute.core.errors import DataError, InputError
from riskroute.core.files import write_whole
from riskroute.core.text import TextTable
from riskroute.core.validation import as_name, finite_array, list_of, one_of, path_of, sized_number, whole_number
from riskroute.learning.actions import ActionSet
from riskroute.learning.problem import Problem
from riskroute.routing.allocations import MOST_SHARES, Allocations
from riskroute.routing.splits import COMFORTABLE_LIST, split_list_limit

UNITS = ("money", "norm-1")
KINDS = ("market", "limit", "dark")


@dataclass(frozen=True)
class VenueModel:
    """Profit from ``q`` shares: mean ``p q + p~ q^2``, variance ``s q + s~ q^2``.

    Parameters
    ----------
    name : str
        Of the venue, or of the slot if a venue has several.
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
        """Expected profit from ``shares``."""
        shares = sized_number("shares", shares, smallest=0)
        return self.mean[0] * shares + self.mean[1] * shares**2

    def nonnegative(self, shares: int) -> VenueModel:
        """The model itself, or one whose variance is nowhere negative up to ``shares``, where this one's is.

        That is the pure square with the same variance at ``shares``, or none at all.

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
        """Variance of the profit from ``shares``; negative where the fit is not to be believed."""
        shares = sized_number("shares", shares, smallest=0)
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
    """The routing problem of splitting ``shares`` over venues, one slot per model.

    Parameters
    ----------
    units : str
        ``money``, the coefficients as they are, or ``norm-1``, scaled down to the norms that the theory
        assumes.
    base_variance : float
        What the variance of a whole order has besides the venues' own, the paper's omega.
    lot, caps
        What a slot may take, see `Allocations`.
    most_listed : int
        Splits are listed up to so many; looking up is then faster than working out.

    Examples
    --------
    >>> models = [VenueModel("A", (-0.07, -0.0002), (0.0, 0.0006)), VenueModel("B", (-0.05, 0.0), (0.0, 0.006))]
    >>> venue_problem(models, 10).best
    (6, 4)
    >>> venue_problem(models, 10, caps=[10, 3]).best
    (7, 3)
    """
    one_of("units", units, UNITS)
    lot, most_listed = whole_number("lot", lot), whole_number("most_listed", most_listed, minimum=0)
    models = list_of("models", models, VenueModel, "venue models")
    if not models:
        raise InputError("models must hold at least one venue, was empty")
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise InputError(f"models must have different names, was {names}")
    allocations = Allocations(shares, len(models), lot, caps)
    scale = allocations.scale
    few = allocations.size <= split_list_limit(len(models), most_listed)
    actions: ActionSet = allocations.listed() if few else allocations
    columns = [[getattr(model, field)[power] for model in models] for field in ("mean", "variance") for power in (0, 1)]
    mean_coef, var_coef = scale * np.array(columns[0] + columns[1]), scale * np.array(columns[2] + columns[3])
    make: Any = Problem if units == "money" else Problem.scaled
    unchecked = {"check_norms": False} if units == "money" else {}
    problem: Problem = make(
        actions=actions,
        mean_coef=mean_coef,
        var_coef=var_coef,
        risk_tolerance=risk_tolerance,
        base_variance=base_variance,
        **unchecked,
    )
    return problem


def venue_model_table(models: Sequence[VenueModel]) -> str:
    """The coefficients as the paper prints them: a column per venue, a row per coefficient.

    Examples
    --------
    >>> print(venue_model_table([VenueModel("XNAS", (-0.07, -0.0002), (0.0, 0.00056))]))
             XNAS
    -------------
    p       -0.07
    p~    -0.0002
    var         0
    var~  0.00056
    """
    rows = []
    for label, field, power in (("p", "mean", 0), ("p~", "mean", 1), ("var", "variance", 0), ("var~", "variance", 1)):
        cells = []
        for model in models:
            error = getattr(model, f"{field}_error")
            cells.append(f"{getattr(model, field)[power]:.4g}" + (f" +- {error[power]:.1g}" if error else ""))
        rows.append([label, *cells])
    return TextTable(["", *(model.name for model in models)], rows).plain()


def save_models(models: Sequence[VenueModel], path: str | os.PathLike[str], *, about: Sequence[str] = ()) -> Path:
    """Write models as a TOML file that people can read and edit; ``about`` are lines of comment at its head."""
    lines = [f"# {line}" for text in list_of("about", about, str, "texts") for line in text.splitlines()]
    for model in list_of("models", models, VenueModel, "venue models"):
        lines += ["", "[[venues]]", f"name = {_quoted(model.name)}", f"kind = {_quoted(model.kind)}"]
        for field, comment in _FIELDS.items():
            pair = getattr(model, field)
            if pair is not None:
                lines.append(f"{field} = [{pair[0]!r}, {pair[1]!r}]  # {comment}")
    whole = "\n".join(lines).lstrip("\n") + "\n"
    return write_whole(path_of("path", path), lambda beside: beside.write_text(whole, encoding="utf-8"))


def _quoted(text: str) -> str:
    """A TOML string: JSON's, but for letters that JSON writes as pairs of surrogates, and for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


_FIELDS = {
    "mean": "dollars per share, per squared share",
    "variance": "squared dollars per share, per squared share",
    "mean_error": "standard errors",
    "variance_error": "standard errors",
}


def load_models(path: str | os.PathLike[str]) -> list[VenueModel]:
    """Read models that `save_models` or a person wrote."""
    file = path_of("path", path)
    try:
        venues = tomllib.loads(file.read_text(encoding="utf-8"))["venues"]
        return [VenueModel(**venue) for venue in venues]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise DataError(f"{path} must be a file of [[venues]] with name, mean and variance: {error}") from error
