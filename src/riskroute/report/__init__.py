"""Figures. Reads results, computes nothing."""

from __future__ import annotations

from importlib.util import find_spec

from riskroute.errors import RiskrouteError


def require(*libraries: str) -> None:
    """Raise an error that says what to install if a drawing library is missing, before any work is done."""
    for library in libraries:
        if find_spec(library) is None:
            raise RiskrouteError(f"figures and pages need {library}: pip install 'riskroute[report]'")
