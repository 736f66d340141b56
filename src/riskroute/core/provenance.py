"""Where a result comes from: the versions and the machine it depends on."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

from riskroute._version import __version__


def provenance_versions() -> dict[str, str]:
    """Versions of what results depend on."""
    return {"riskroute": __version__, "python": platform.python_version()} | {
        name: _version_of(name) for name in ("numpy", "scipy", "numba")
    }


@cache
def _version_of(package: str) -> str:
    return version(package)


@cache
def machine_type() -> str:
    """System, architecture and processor: on two machines of one type, sums agree to the last bit."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return " ".join(filter(None, (platform.system(), platform.machine(), next(models, platform.processor()))))
