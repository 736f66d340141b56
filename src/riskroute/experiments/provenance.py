"""Where a result comes from: the versions it depends on."""

from __future__ import annotations

import platform
from importlib.metadata import version

from riskroute._version import __version__


def provenance_versions() -> dict[str, str]:
    """Versions of what results depend on."""
    packages = {name: version(name) for name in ("numpy", "scipy", "numba")}
    return {"riskroute": __version__, "python": platform.python_version(), **packages}
