"""A belief over coefficients of mean and variance with different features that takes rows as they come.

It keeps sums, the normal equations of both fits, and the last rows as they are. `TwoMapBelief.refresh` fits the last
rows on top of the sums, just as `riskroute.learning.two_maps.fit_two_maps` fits all rows on top of a prior; when they
are too many, the oldest of them enter the sums with the weights that their variances have by then. So rows are never
weighted by variances guessed before anything was seen, memory is bounded, and a refresh costs the same however many
rows came before. It belongs outside of decisions; adding rows and drawing coefficients are quick.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from riskroute.core.arrays import Integers, Matrix, Vector
from riskroute.core.errors import InputError, StateError, described
from riskroute.core.seeding import checked_seed
from riskroute.core.validation import exact_array, instance_of, list_of, real_number, whole_number
from riskroute.learning.state import decode_state, encode_state
from riskroute.learning.two_maps import TwoMapEstimate, TwoMapRows, TwoMapSums, check_two_map_rows, two_map_sums

KEPT = 256
"""Rows kept as they are, unless told otherwise."""

_ROWS = (
    "mean_features",
    "var_features",
    "rewards",
    "offset",
    "base_variance",
    "rounds",
    "weights",
    "pairs",
    "pair_features",
)


class TwoMapBelief:
    """Belief over ``theta`` and ``phi`` of ``y = offset + x' theta + noise``, ``Var = base_variance + chi' phi``.

    Parameters
    ----------
    prior : TwoMapEstimate
        What is believed before any row. It is never discounted.
    offset_sd : float, optional
        If given, the offset gets a coefficient too, the last of ``theta``, with prior mean 1 and this deviation. Where
        it ends up away from 1, what was thought to be known was not.
    keep : int
        Rows kept as they are; half of them are left when they become more.

    Attributes
    ----------
    estimate : TwoMapEstimate
        After the last `refresh`.
    seen : float
        Rows so far, as they are weighted and discounted.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> prior = TwoMapEstimate.independent([0.0], [3.0], [1.0], [1.0])
    >>> belief = TwoMapBelief(prior, offset_sd=0.1)
    >>> for _ in range(40):
    ...     x, chi, offset = rng.standard_normal((50, 1)), rng.random((50, 1)), rng.standard_normal(50)
    ...     rewards = offset + 2 * x[:, 0] + np.sqrt(0.5 * chi[:, 0]) * rng.standard_normal(50)
    ...     belief.add(TwoMapRows(x, chi, rewards, offset=offset))
    ...     belief.refresh()
    >>> belief.estimate.mean_coef.round(1).tolist(), belief.estimate.var_coef.round(1).tolist()
    ([2.0, 1.0], [0.5])
    """

    def __init__(self, prior: TwoMapEstimate, *, offset_sd: float | None = None, keep: int = KEPT) -> None:
        self.given = instance_of("prior", prior, TwoMapEstimate, "a TwoMapEstimate")
        self.offset_sd = None if offset_sd is None else real_number("offset_sd", offset_sd, above=0)
        self.keep = whole_number("keep", keep, minimum=0, maximum=10**6)
        self.prior = prior if self.offset_sd is None else _with_offset(prior, self.offset_sd)
        self.sums = TwoMapSums.of(self.prior).times(0.0)
        self.recent: list[TwoMapRows] = []
        self._recent_weight = 0.0
        self._settle(self.prior)

    def __repr__(self) -> str:
        return f"TwoMapBelief({len(self.prior.mean_coef)} and {len(self.prior.var_coef)} features, {self.seen:g} rows)"

    @property
    def seen(self) -> float:
        """Rows so far, as they are weighted and discounted."""
        return float(self.sums.errors[0] + self._recent_weight)

    def _rows(self, rows: TwoMapRows) -> TwoMapRows:
        """Rows as the prior expects them: with the offset as a feature, if it has a coefficient."""
        instance_of("rows", rows, TwoMapRows, "TwoMapRows")
        if self.offset_sd is not None:
            features = np.column_stack([rows.mean_features, rows.offset])
            rows = dataclasses.replace(rows, mean_features=features, offset=np.zeros(len(rows)))
        check_two_map_rows(rows, self.prior)
        return rows

    def predict(self, rows: TwoMapRows) -> tuple[Vector, Vector, Vector]:
        """Expected rewards, the variance of rewards around them, and the variance of the expectation, ``(n,)`` each."""
        rows = self._rows(rows)
        lever = np.einsum("ij,ij->i", rows.mean_features @ self.covariance, rows.mean_features)
        return self.estimate.mean(rows), self.estimate.noise(rows), lever

    def standardised(self, rows: TwoMapRows) -> Vector:
        """Errors of prediction over their standard deviations, for `riskroute.learning.residual_test`, ``(n,)``."""
        mean, noise, lever = self.predict(rows)
        return np.asarray((rows.rewards - mean) / np.sqrt(noise + lever))

    def add(self, rows: TwoMapRows) -> None:
        """Keep rows; coefficients stay as they are until `refresh`."""
        self.recent.append(self._rows(rows))
        self._recent_weight += float(rows.portions.sum())

    def discount(self, factor: float) -> None:
        """Count everything seen so far ``factor`` times; the prior stays."""
        factor = real_number("factor", factor, minimum=0, maximum=1)
        self.sums = self.sums.times(factor)
        self.recent = [dataclasses.replace(rows, weights=rows.weights * factor) for rows in self.recent if factor]
        self._recent_weight *= factor

    def reset(self) -> None:
        """Forget all rows: back to the prior."""
        self.discount(0.0)
        self.refresh()

    def refresh(self) -> None:
        """Solve for both coefficient vectors and their covariances."""
        base = TwoMapSums.of(self.prior).plus(self.sums)
        if not self.recent:
            self._settle(base.solved())
            return
        rows = TwoMapRows.joined(self.recent)
        start = self.estimate if self.sums.errors[0] > 0 else None
        self._settle(base.plus(two_map_sums(rows, base, start=start)).solved())
        self.recent = [rows]
        if len(rows) > self.keep:
            self._sum_up(rows, base)

    def _sum_up(self, rows: TwoMapRows, base: TwoMapSums) -> None:
        """Let the oldest rows enter the sums, with the variances that are believed now."""
        cut = len(rows) - self.keep // 2
        while len(rows.pairs) and cut and (rows.pairs.min(axis=1) < cut)[rows.pairs.max(axis=1) >= cut].any():
            cut -= 1  # rows of one pair stay together
        old, new = rows.part(0, cut), rows.part(cut, len(rows))
        if len(old):
            self.sums = self.sums.plus(two_map_sums(old, base, start=self.estimate, sweeps=1))
            self.recent = [new] if len(new) else []
            self._weigh()

    def _weigh(self) -> None:
        self._recent_weight = sum(float(rows.portions.sum()) for rows in self.recent)

    def _settle(self, estimate: TwoMapEstimate) -> None:
        self.estimate = estimate
        inverse = np.linalg.inv(estimate.mean_precision)
        self.covariance: Matrix = np.asarray((inverse + inverse.T) / 2)
        self._root = np.linalg.cholesky(self.covariance)
        self._var_root = np.linalg.cholesky(np.linalg.inv(estimate.var_precision))

    def draw(
        self, rng: np.random.Generator, scale: float = 1.0, *, block: Sequence[int] | Integers | None = None
    ) -> Vector:
        """Coefficients of the mean drawn with ``scale`` times their deviations, ``(p,)``.

        With a ``block`` of coefficients only these are drawn, and the others are at their means.
        """
        scale = real_number("scale", scale, minimum=0)
        coef = self.estimate.mean_coef
        noise = checked_seed(rng).standard_normal(len(coef))
        step = scale * (self._root @ noise)  # entries of a joint draw have the marginal law of the block
        if block is not None:
            kept = np.zeros(len(coef), dtype=bool)
            kept[self._places(block)] = True
            step = np.where(kept, step, 0.0)
        return np.asarray(coef + step)

    def _places(self, block: Any) -> Integers:
        places = exact_array("block", block, np.int64, (None,))
        p = len(self.estimate.mean_coef)
        if len(places) and not (places.min() >= 0 and places.max() < p):
            raise InputError(f"block must be places of coefficients below {p}, and was not")
        return places

    def draw_variance(self, rng: np.random.Generator, scale: float = 1.0) -> Vector:
        """Coefficients of the variance drawn with ``scale`` times their deviations, clipped at zero, ``(q,)``."""
        noise = self._var_root @ checked_seed(rng).standard_normal(len(self.estimate.var_coef))
        return np.maximum(self.estimate.var_coef + real_number("scale", scale, minimum=0) * noise, 0.0)

    def borrowed(self, others: Sequence[TwoMapBelief], most: float) -> Self:
        """Return this belief with what others have seen beside it, counted as ``most`` rows at the most.

        For a member of a family with few rows of its own, over the same features.
        """
        others = list_of("others", others, TwoMapBelief, "beliefs")
        family: list[TwoMapBelief] = [self, *others]
        sizes = {(len(one.prior.mean_coef), len(one.prior.var_coef)) for one in family}
        if len(sizes) > 1:
            raise InputError("others must have as many features as the belief that borrows, and had not")
        there = sum(other.seen for other in others)
        weight = min(1.0, real_number("most", most, minimum=0) / there) if there > 0 else 0.0
        belief = type(self)(self.given, offset_sd=self.offset_sd, keep=self.keep)
        belief.sums, belief.recent = self.sums, list(self.recent)
        belief._weigh()
        for other in others:
            lent = other.sums
            if other.recent:
                rows = TwoMapRows.joined(other.recent)
                base = TwoMapSums.of(other.prior).plus(other.sums)
                lent = lent.plus(two_map_sums(rows, base, start=other.estimate))
            belief.sums = belief.sums.plus(lent, weight)
        belief.refresh()
        return belief

    def state(self) -> dict[str, Any]:
        """Everything, as plain JSON values."""
        recent = TwoMapRows.joined(self.recent) if self.recent else None
        return {
            "prior": _plain(self.given),
            "offset_sd": self.offset_sd,
            "keep": self.keep,
            "sums": {name: encode_state(part) for name, part in self.sums._asdict().items()},
            "recent": None if recent is None else {name: encode_state(getattr(recent, name)) for name in _ROWS},
            "estimate": _plain(self.estimate),
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Self:
        """Rebuild the belief of a saved state."""
        try:
            prior = TwoMapEstimate(**decode_state(dict(state["prior"])))
            belief = cls(prior, offset_sd=state["offset_sd"], keep=state["keep"])
            belief._load(decode_state(dict(state["sums"])), decode_state(dict(state["estimate"])))
            if state["recent"] is not None:
                belief.recent = [TwoMapRows(**decode_state(dict(state["recent"])))]
                check_two_map_rows(belief.recent[0], belief.prior)
                belief._weigh()
        except (KeyError, TypeError, ValueError, InputError, np.linalg.LinAlgError) as error:
            what = error if isinstance(error, InputError) else described(state)
            raise StateError(f"state of a belief must be one that state() returned: {what}") from error
        return belief

    def _load(self, sums: dict[str, Any], estimate: dict[str, Any]) -> None:
        parts = []
        for name, part in self.sums._asdict().items():
            parts.append(exact_array(name, sums[name], np.float64, part.shape))
            if not np.isfinite(parts[-1]).all():
                raise InputError(f"{name} must be finite, and was not")
        self.sums, current = TwoMapSums(*parts), TwoMapEstimate(**estimate)
        if current.mean_coef.shape != self.prior.mean_coef.shape or current.var_coef.shape != self.prior.var_coef.shape:
            raise InputError("estimate must have as many coefficients as the prior, and had not")
        self._settle(current)


def _plain(estimate: TwoMapEstimate) -> dict[str, Any]:
    return {item.name: encode_state(getattr(estimate, item.name)) for item in dataclasses.fields(estimate)}


def _with_offset(prior: TwoMapEstimate, deviation: float) -> TwoMapEstimate:
    p = len(prior.mean_coef)
    precision = np.zeros((p + 1, p + 1))
    precision[:p, :p] = prior.mean_precision
    precision[p, p] = deviation**-2
    return dataclasses.replace(prior, mean_coef=np.append(prior.mean_coef, 1.0), mean_precision=precision)
