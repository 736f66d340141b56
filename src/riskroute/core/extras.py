"""Libraries that only some people need: whether they are installed, and what to install if they are not."""

from __future__ import annotations

from importlib.util import find_spec

from riskroute.core.errors import RiskrouteError


def extra_is_installed(library: str) -> bool:
    """Whether a library can be imported; it is not."""
    return find_spec(library) is not None


def require_extra(what: str, extra: str, *libraries: str) -> None:
    """Raise an error that says what to install if a library is missing, before any work is done.

    Examples
    --------
    >>> require_extra("seances", "spirits", "ouija")
    Traceback (most recent call last):
    ...
    riskroute.core.errors.RiskrouteError: seances need ouija: pip install 'riskroute[spirits]'
    """
    for library in libraries:
        if not extra_is_installed(library):
            raise RiskrouteError(f"{what} need {library}: pip install 'riskroute[{extra}]'")


def require_report_extra(*libraries: str) -> None:
    """Do the same for libraries that draw figures and pages."""
    require_extra("figures and pages", "report", *libraries)
