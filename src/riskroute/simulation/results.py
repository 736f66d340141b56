"""Results of simulations: the regret of policies, with tables and files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from riskroute.core.arrays import Floats, Integers
from riskroute.core.errors import InputError
from riskroute.core.files import write_whole
from riskroute.core.records import to_plain
from riskroute.core.text import TextTable, number_text
from riskroute.core.validation import exact_array, instance_of, real_number, valid_list, valid_path

if TYPE_CHECKING:
    import polars

QUANTILES = (0.05, 0.5, 0.95)  # levels of the reported quantiles of regret over runs


@dataclass(frozen=True)
class PolicyResult:
    """Regret of one policy in R runs, recorded at C checkpoints.

    ``regret``, ``pseudo_regret`` and ``luck`` have shape ``(R, C)``. ``recommended`` lists the action that each run
    recommended at its end. ``exploration`` ``(R,)`` counts the rounds that played any other action; if action sets
    change, only rounds with the last set count. ``seconds`` is the total time of all runs, without compilation.
    """

    checkpoints: Integers
    regret: Floats
    pseudo_regret: Floats
    luck: Floats
    recommended: list[Any]
    exploration: Integers
    seconds: float

    def __post_init__(self) -> None:
        checkpoints = exact_array("checkpoints", self.checkpoints, np.int64, (None,))
        regret = exact_array("regret", self.regret, np.float64, (None, len(checkpoints)))
        if regret.size == 0:
            raise InputError(f"regret must have at least one run and one checkpoint, was of shape {regret.shape}")
        object.__setattr__(self, "checkpoints", checkpoints)
        object.__setattr__(self, "regret", regret)
        for name in ("pseudo_regret", "luck"):
            object.__setattr__(self, name, exact_array(name, getattr(self, name), np.float64, regret.shape))
        exploration = exact_array("exploration", self.exploration, np.int64, regret.shape[:1])
        object.__setattr__(self, "exploration", exploration)
        if len(valid_list("recommended", self.recommended, object, "actions")) != len(regret):
            raise InputError(f"recommended must have {len(regret)} actions, one per run, had {len(self.recommended)}")
        real_number("seconds", self.seconds, minimum=0)

    @property
    def runs(self) -> int:
        """Number of finished runs."""
        return len(self.regret)

    @property
    def steady_regret(self) -> Floats:
        """Regret minus luck, ``(R, C)``: it has the expectation of the regret, but not the noise of the rewards.

        A round with noise ``e``, true mean ``mu`` and true variance ``v`` contributes ``e^2 - v - risk_tolerance e +
        2 (mu - c) e`` to luck, where ``c`` is the mean of the comparator, the best action. Luck is a control variate:
        actions are chosen before the noise is drawn, so its expectation is zero for every policy. With autocorrelated
        noise, luck is recorded as zero, and steady regret equals regret.
        """
        return np.asarray(self.regret - self.luck)

    def mean_regret(self) -> Floats:
        """Return the average regret over runs at each checkpoint, ``(C,)``."""
        return np.asarray(self.regret.mean(axis=0))

    def std_regret(self) -> Floats:
        """Return the sample standard deviation of the regret over runs, ``(C,)``; zero for a single run."""
        return _deviation(self.regret)

    def quantiles(self) -> dict[float, Floats]:
        """Return quantiles of the regret over runs, ``(C,)`` each, by level; the levels are `QUANTILES`."""
        return dict(zip(QUANTILES, np.quantile(self.regret, QUANTILES, axis=0), strict=True))

    def summary(self) -> dict[str, Any]:
        """Return all statistics as plain JSON values."""
        return {
            "runs": self.runs,
            "checkpoints": self.checkpoints.tolist(),
            "mean_regret": self.mean_regret().tolist(),
            "std_regret": self.std_regret().tolist(),
            "quantiles": {f"{q:g}": values.tolist() for q, values in self.quantiles().items()},
            "mean_pseudo_regret": self.pseudo_regret.mean(axis=0).tolist(),
            "mean_steady_regret": self.steady_regret.mean(axis=0).tolist(),
            "std_steady_regret": _deviation(self.steady_regret).tolist(),
            "exploration": self.exploration.tolist(),
            "recommended": self.recommended,
            "seconds": self.seconds,
        }

    def digest(self, best: Any) -> dict[str, Any]:
        """Return the summary without per-run values and seconds, plus statistics of the final regret.

        ``found_best`` is the fraction of runs that recommended ``best``, the optimal action.
        """
        full, per_run = self.summary(), ("exploration", "recommended", "seconds")
        ends = self.steady_regret[:, -1]
        return {name: value for name, value in full.items() if name not in per_run} | {
            "final": {
                "regret": full["mean_regret"][-1],
                "regret_error": full["std_regret"][-1] / self.runs**0.5,
                "steady_regret": full["mean_steady_regret"][-1],
                "steady_regret_error": full["std_steady_regret"][-1] / self.runs**0.5,
                "worst_steady_regret": float(ends.max()),
                "explored_rounds": float(self.exploration.mean()),
                "found_best": sum(action == best for action in self.recommended) / self.runs,
            }
        }


@dataclass(frozen=True, repr=False)
class SimulationResult:
    """Regret of several policies on one problem.

    ``config`` describes the simulation completely. ``best`` is the optimal action of the last round.
    """

    config: dict[str, Any]
    policies: dict[str, PolicyResult]
    best: Any
    interrupted: bool = False

    def __post_init__(self) -> None:
        instance_of("config", self.config, dict, "a dictionary")
        instance_of("policies", self.policies, dict, "a dictionary of results by label")
        valid_list("policies", self.policies.values(), PolicyResult, "results")
        if isinstance(self.best, np.ndarray):
            raise InputError("best must be an action as a number or a tuple, was an array")

    @property
    def action_count(self) -> int:
        """Number of actions."""
        return int(self.config["actions"])

    def table(self) -> TextTable:
        """Return the table of final results, smallest mean regret first.

        *elsewhere* is the fraction of rounds that played an action other than the final recommendation. *found best* is
        the fraction of runs that recommended the best action. *runs* is shown if it differs between policies.
        """
        differ = len({one.runs for one in self.policies.values()}) > 1
        header = ["policy", "regret", "s.e.", "5 % .. 95 %", "elsewhere", "found best", *["runs"] * differ, "seconds"]
        rows = []
        for name, one in sorted(self.policies.items(), key=lambda item: item[1].mean_regret()[-1]):
            low, high = (one.quantiles()[q][-1] for q in (QUANTILES[0], QUANTILES[-1]))
            found = sum(action == self.best for action in one.recommended) / one.runs
            rows.append(
                [
                    name,
                    number_text(one.mean_regret()[-1]),
                    number_text(one.std_regret()[-1] / one.runs**0.5),
                    f"{number_text(low)} .. {number_text(high)}",
                    f"{one.exploration.mean() / one.checkpoints[-1]:.1%}",
                    f"{found:.0%}",
                    *[f"{one.runs}"] * differ,
                    f"{one.seconds:.2f}",
                ]
            )
        return TextTable(header, rows)

    def __repr__(self) -> str:
        return self.table().plain()

    def summary(self) -> dict[str, Any]:
        """Return the content of the JSON file that `save` writes."""
        return {
            "config": to_plain(self.config),
            "best": self.best,
            "interrupted": self.interrupted,
            "policies": {name: one.summary() for name, one in self.policies.items()},
        }

    def digest(self) -> dict[str, Any]:
        """Return the summary without per-run values and seconds, plus statistics of every policy's final regret."""
        return {
            "config": to_plain(self.config),
            "best": self.best,
            "policies": {name: one.digest(self.best) for name, one in self.policies.items()},
        }

    def to_frame(self) -> polars.DataFrame:
        """Return a tidy table: policy, run, round, regret, pseudo_regret, luck."""
        import polars

        parts = []
        for name, one in self.policies.items():
            shape = one.regret.shape
            parts.append(
                polars.DataFrame(
                    {
                        "policy": [name] * one.regret.size,
                        "run": np.repeat(np.arange(shape[0]), shape[1]),
                        "round": np.tile(one.checkpoints, shape[0]),
                        **{field: getattr(one, field).ravel() for field in ("regret", "pseudo_regret", "luck")},
                    }
                )
            )
        return polars.concat(parts)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the summary to a ``.json`` path, or the tidy table to a ``.parquet`` path."""
        target = valid_path("path", path)
        if target.suffix.lower() == ".json":
            return write_whole(target, lambda beside: beside.write_text(json.dumps(self.summary()) + "\n"))
        if target.suffix.lower() == ".parquet":
            return write_whole(target, lambda beside: self.to_frame().write_parquet(beside))
        raise InputError(f"path must end in .json or .parquet, was {target.name!r}")


def _deviation(curves: Floats) -> Floats:
    """Return the sample standard deviation over runs, ``(C,)``; zero for a single run."""
    return np.asarray(curves.std(axis=0, ddof=1)) if len(curves) > 1 else np.zeros(curves.shape[1])
