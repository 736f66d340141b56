"""Figures and pages. Reads results, computes nothing."""

from __future__ import annotations

from riskroute import extras


def require(*libraries: str) -> None:
    """Raise an error that says what to install if a drawing library is missing, before any work is done."""
    extras.require("figures and pages", "report", *libraries)
