"""Errors for users. Messages name field, expectation and value: ``shares must be a positive integer, was -3``."""

from __future__ import annotations

from riskroute.core.text import shown


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


class KnownKeyError(Exception):
    """The log already has a row with the kind and key of a new one."""


class ConflictError(StateError):
    """An entry has the kind and key of a row in the log, but a different body."""

    def __init__(self, kind: str, key: str, seq: int) -> None:
        super().__init__(f"{kind} {shown(key)} is already in row {seq} of the log, with another body")
        self.kind, self.key, self.seq = kind, key, seq


class LeaseError(StateError):
    """Another process holds the lease of this log, or the lease was never taken."""


class FencedError(LeaseError):
    """Another process took over the lease: nothing was written."""


class WriteError(StateError):
    """The store could not write, for example because the disk is full.

    If ``definite``, nothing was written; otherwise only reading the log again shows what was written. ``cause`` may be
    shown to clients: it names no paths, hosts or users.
    """

    def __init__(self, message: str, *, definite: bool, cause: str = "its store failed") -> None:
        super().__init__(message)
        self.definite, self.cause = definite, cause


class RefusedError(StateError):
    """An order is refused for now; the message says why."""


class OverloadedError(RefusedError):
    """An order waited too long for the router; the client may send it again."""


class KeyUsedError(InputError):
    """An order has the idempotency key of another order."""


class HaltedError(RefusedError):
    """Trading is halted, or the start is not complete."""


class MalformedRequestError(InputError):
    """A body that is not JSON or has the wrong form."""


class UnknownOrderError(InputError):
    """The router holds no order with the requested key."""


class RouterError(StateError):
    """A router failed, or returned a plan that cannot be executed."""
