"""Shared fixtures: small problems that every test file may use."""

from __future__ import annotations

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
