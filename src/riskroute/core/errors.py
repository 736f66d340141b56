"""Errors for users. Messages name field, expectation and value: ``shares must be a positive integer, was -3``."""

from __future__ import annotations


class RiskrouteError(Exception):
    """Base class of all errors of riskroute."""


class InputError(RiskrouteError, ValueError):
    """Raised for an invalid argument."""


class DataError(RiskrouteError):
    """Raised for invalid data in a file."""


class StateError(RiskrouteError):
    """Raised for a call out of order, or an invalid saved state."""


class InvariantError(RiskrouteError):
    """Raised for an inconsistent result: a bug in riskroute, or in a user's router or gateway."""


class DesignError(RiskrouteError):
    """Raised if the solver cannot certify the requested tolerance."""


class NoBooksError(DataError):
    """Raised for a complete file without order books: empty, or with trades only."""


class CheckError(RiskrouteError, AssertionError):
    """Raised if a policy, action set, environment or router fails a check such as `check_policy`."""
