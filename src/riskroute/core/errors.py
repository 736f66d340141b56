"""Errors for users. Messages name field, expectation and value: ``shares must be a positive integer, was -3``."""

from __future__ import annotations


class RiskrouteError(Exception):
    """Base class of all errors of riskroute."""


class InputError(RiskrouteError, ValueError):
    """An argument is invalid."""


class DataError(RiskrouteError):
    """Data in a file are invalid."""


class StateError(RiskrouteError):
    """A call is out of order, or a saved state is invalid."""


class InvariantError(RiskrouteError):
    """A result is inconsistent: a bug in riskroute, or in a router or gateway of the user."""


class DesignError(RiskrouteError):
    """The solver could not certify the requested tolerance."""


class NoBooksError(DataError):
    """Raised for a complete file without books: no market data at all, or only trades."""


class CheckError(RiskrouteError, AssertionError):
    """A required property of a policy, action set or environment does not hold."""
