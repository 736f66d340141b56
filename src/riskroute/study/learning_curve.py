"""How the difference between two routers went on while one of them learned, and what it paid for trying things out."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import polars

from riskroute.core.arrays import Integers, Vector
from riskroute.study.records import LearningCurve, LearningPoint
from riskroute.study.summary import ORDER, ROUNDING, costs_in_bps

POINTS = 24
"""A curve has about so many points."""


def learning_curve(orders: polars.DataFrame, router: str, against: str) -> LearningCurve:
    """Return the difference of a router to another from the first training day to the last test day.

    Orders that are the same number of their symbol, in all symbols and seeds, are averaged; no point has orders of both
    training and test days.
    """
    wide = _by_number(orders, router, against)
    gaps, spent = wide["gap"].to_numpy(), wide["spent"].to_numpy()
    explores = bool(np.isfinite(spent).any())
    points, done = [], 0
    for part in _parts(wide["test"].to_numpy()):
        done += len(part)
        so_far = slice(0, int(part[-1]) + 1)
        points.append(
            LearningPoint(
                orders=done,
                test=bool(wide["test"][int(part[0])]),
                difference_bps=float(gaps[part].mean()),
                so_far_bps=float(gaps[so_far].mean()),
                exploration_bps=_mean(spent[part]) if explores else None,
                exploration_so_far_bps=_mean(spent[so_far]) if explores else None,
            )
        )
    return LearningCurve(router, against, tuple(points))


def _by_number(orders: polars.DataFrame, router: str, against: str) -> polars.DataFrame:
    """One row per number of an order within its symbol: ``gap``, ``spent`` (NaN if nothing is known) and ``test``."""
    spent = 1e4 * polars.col("exploration") / (polars.col("shares") * polars.col("mid"))
    both = orders.filter(polars.col("router").is_in([router, against])).with_columns(spent=spent.fill_nan(None))
    means = costs_in_bps(both).group_by("router", *ORDER).agg(polars.col("cost_bps", "spent").mean(), test="judged")
    one, other = (means.filter(polars.col("router") == name).drop("router") for name in (router, against))
    gap = polars.col("cost_bps") - polars.col("cost_bps_other")
    return (
        one.join(other.select(*ORDER, "cost_bps"), on=ORDER, suffix="_other")
        .with_columns(
            place=polars.struct("day", "number").rank("ordinal").over("symbol"),
            gap=polars.when(gap.abs() < ROUNDING).then(0.0).otherwise(gap),
            test=polars.col("test").list.all(),
        )
        .group_by("place")
        .agg(polars.col("gap", "spent").mean(), polars.col("test").all())
        .sort("place")
        .with_columns(polars.col("spent").fill_null(math.nan))
    )


def _parts(test: Vector) -> Iterator[Integers]:
    """Rows of one point after the other; orders of training and test days are never together."""
    changes = np.flatnonzero(np.diff(test.astype(np.int64))) + 1
    for stretch in np.split(np.arange(len(test)), changes):
        yield from np.array_split(stretch, min(max(round(POINTS * len(stretch) / len(test)), 1), len(stretch)))


def _mean(values: Vector) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None
