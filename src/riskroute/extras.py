"""Libraries that only some people need: whether they are installed, and what to install if they are not."""

from __future__ import annotations

from importlib.util import find_spec

from riskroute.errors import RiskrouteError


def is_installed(library: str) -> bool:
    """Whether a library can be imported; it is not."""
    return find_spec(library) is not None


def require(what: str, extra: str, *libraries: str) -> None:
    """Raise an error that says what to install if a library is missing, before any work is done.

    Examples
    --------
    >>> require("seances", "spirits", "ouija")
    Traceback (most recent call last):
    ...
    riskroute.errors.RiskrouteError: seances need ouija: pip install 'riskroute[spirits]'
    """
    for library in libraries:
        if not is_installed(library):
            raise RiskrouteError(f"{what} need {library}: pip install 'riskroute[{extra}]'")
