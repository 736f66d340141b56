"""Shared fixtures: small problems that every test file may use."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings

from riskroute import Actions, Problem, random_problem, random_routing_problem

settings.register_profile("riskroute", deadline=None, derandomize=True)
settings.load_profile("riskroute")


@pytest.fixture(scope="session")
def small_problem() -> Problem:
    """Splits of 3 shares over 3 slots: 10 actions in 6 dimensions."""
    return random_routing_problem(shares=3, slots=3, seed=5)


@pytest.fixture(scope="session")
def gaussian_problem() -> Problem:
    """Forty random actions in 4 dimensions."""
    features = np.random.default_rng(12).standard_normal((40, 4))
    return random_problem(Actions.scaled(features), seed=3)


@pytest.fixture
def untraced() -> Iterator[None]:
    """Leave a long test out of the coverage, which would double its time; shorter tests must run the same lines.

    The marker of pytest-cov only stops the recording in workers of xdist, and the tracing goes on.
    """
    tracer = sys.gettrace()
    if not type(tracer).__module__.startswith("coverage"):
        yield
        return
    sys.settrace(None)
    yield
    sys.settrace(tracer)
