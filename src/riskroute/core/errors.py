"""Errors for users. Messages name field, expectation and value: ``shares must be a positive integer, was -3``."""

from __future__ import annotations

from riskroute.core.text import shown


class RiskrouteError(Exception):
    """Base class of all errors of riskroute."""


class InputError(RiskrouteError, ValueError):
    """An argument is invalid."""


class DataError(RiskrouteError):
    """A file or a saved record has invalid or missing data."""


class StateError(RiskrouteError):
    """A method was called in the wrong order, or a saved state is invalid."""


class InvariantError(RiskrouteError):
    """A result is inconsistent because of a bug in riskroute or in a user's router or gateway."""


class DesignError(RiskrouteError):
    """The solver found no design within the requested tolerance."""


class NoBooksError(DataError):
    """A file has no usable order books: it has only trades, for example, or merges the books of several venues."""


class CheckError(RiskrouteError, AssertionError):
    """A policy, action set, environment or router failed a check such as `check_policy`."""


class KnownKeyError(Exception):
    """The log already has a row with the kind and key of a new row."""


class ConflictError(StateError):
    """A new entry has the kind and key of a row in the log, but a different body."""

    def __init__(self, kind: str, key: str, seq: int) -> None:
        super().__init__(f"{kind} {shown(key)} is already in row {seq} of the log, with another body")
        self.kind, self.key, self.seq = kind, key, seq


class LeaseError(StateError):
    """The process does not hold the lease of the log, the exclusive right to write to it."""


class FencedError(LeaseError):
    """Another process took over the lease, so nothing was written."""


class WriteError(StateError):
    """The log's store could not be reached or written, for example because the disk is full.

    If ``definite``, nothing was written; otherwise the log must be read to find out what was. ``cause`` names no paths,
    hosts or users, so it may be shown to clients.
    """

    def __init__(self, message: str, *, definite: bool, cause: str = "its store failed") -> None:
        super().__init__(message)
        self.definite, self.cause = definite, cause


class RefusedError(StateError):
    """An order is refused for now; the message says why."""


class OverloadedError(RefusedError):
    """An order waited too long to be routed, or too many requests wait; the client may send it again."""


class KeyUsedError(InputError):
    """An order has the idempotency key of another order."""


class HaltedError(RefusedError):
    """Trading is halted, or the service is starting, is stopping or has failed."""


class MalformedRequestError(InputError):
    """The body of a request is not JSON, or does not have the expected form."""


class UnknownOrderError(InputError):
    """No order has the requested key, or the order is too old to be held by the service."""


class RouterError(StateError):
    """A router failed, took too long, or returned a plan that cannot be executed."""
