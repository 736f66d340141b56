"""Mean and variance fitted to all rows at once, where `MeanVarianceRegression` adds rows over time."""

from __future__ import annotations

from riskroute.learning.mean_variance_regression import (
    MeanVarianceEstimate,
    MeanVarianceRows,
    _normal_equations,
    _NormalEquations,
)


def batch_fit(rows: MeanVarianceRows, prior: MeanVarianceEstimate, sweeps: int = 3) -> MeanVarianceEstimate:
    """Fit both coefficient vectors, on top of a prior."""
    base = _NormalEquations.of(prior)
    return base.plus(_normal_equations(rows, base, sweeps=sweeps)).solved()
